//! A ublk export: volumes and members as block devices of the kernel's own ublk driver.
//!
//! The driver passes the requests of a block device to this process through io_uring. A command is
//! in flight for each possible request; it completes when there is one, and the next command
//! carries the result and waits again. Each has a buffer for the data of writes and reads. The
//! commands use the ring of the service loop, so a request needs no other thread and no system call
//! of its own.
//!
//! Starting and stopping a device issue requests to it (to read the partition table, to flush), so
//! other threads do that ([`DeviceStarter`], [`Ublk::stop`]).
//!
//! **Why not the `libublk` crate** (0.4.8). It has a ring and a loop of its own for each queue, so
//! every request would be passed to another thread and back. And it runs `bindgen`, so the default
//! build would need libclang and kernel headers. It would replace only `wire.rs` and
//! `ublk_driver.rs`.
//!
//! Non-goals: devices for other users than root, several queues, resizing, recovering the device of
//! a killed server, and zero copy.
//!
//! Source: the Linux kernel's `Documentation/block/ublk.rst`.

mod ublk_driver;
mod wire;

pub use ublk_driver::UblkError;

use crate::background_teardown::BackgroundTeardown;
use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::device::SharedMemory;
use crate::driver::{BackendKind, Command, Event, EventOwner, Handle, Token, Waker};
use crate::executor::{Executor, IoReply, IoRequest, Target};
use crate::export::Durability;
use crate::export::Export;
use crate::export::chunked_ops::{discard_step, zero_step, zeroes};
use mirrorball_core::io::{RequestKind, VolumeError};
use rustix::io::Errno;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use ublk_driver::{Added, UblkDriver, block_device, is_claimed};
use wire::{DEPTH, DESCRIPTION_WORDS, DeviceAction, DeviceRequest, IO_BYTES, code, io_head};

/// How long a block device may be in use before it is removed all the same.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it is checked whether it is still in use.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Block devices; see the module documentation.
pub struct Ublk {
    devices: Vec<Device>,
    zeroes: BufferKey,
    /// True once devices are being removed: none is started from then on.
    stopping: Arc<Mutex<bool>>,
    /// Woken when the teardown is done.
    waker: Waker,
    /// Removes the devices; its result are notes for the user.
    teardown: Option<BackgroundTeardown<Vec<String>>>,
}

struct Device {
    export: Export,
    number: u32,
    handle: Handle,
    /// Descriptions of requests; `None` when all slots are closed.
    descriptions: Option<SharedMemory>,
    slots: Vec<Slot>,
    /// Number of slots that can still get a request.
    slots_open: u16,
}

/// A possible request in flight.
#[derive(Clone, Copy)]
struct Slot {
    buffer: BufferKey,
    request: DeviceRequest,
    done: u64,
    /// True if only the flush is left.
    flushing: bool,
}

/// Starts a block device, from another thread than that of the service.
pub struct DeviceStarter {
    pub export: Export,
    number: u32,
    stopping: Arc<Mutex<bool>>,
}

impl DeviceStarter {
    /// Starts it and returns its path. The service must be running.
    pub fn start(&self) -> Result<PathBuf, UblkError> {
        // The lock is held until it is started, or else it could start after it was stopped.
        let stopping = self.stopping.lock().unwrap_or_else(PoisonError::into_inner);
        match *stopping {
            true => Ok(block_device(self.number)),
            false => UblkDriver::open()?.start(self.number),
        }
    }
}

impl Ublk {
    /// Checks that devices can be added.
    pub fn check(executor: &Executor) -> Result<(), UblkError> {
        if !cfg!(feature = "ublk") {
            return Err(UblkError::NotBuilt);
        }
        UblkDriver::open()?;
        match executor.driver.backend() {
            BackendKind::Ring => Ok(()),
            BackendKind::Threads | BackendKind::Simulated => {
                Err(UblkError::NoRing("use --backend uring"))
            }
        }
    }

    /// Adds devices for these exports, which [`DeviceStarter`]s then start. Devices that a killed
    /// server left are removed; the second value lists them. Fails if there is no driver, or it
    /// refuses.
    pub fn add(
        exports: Vec<Export>,
        executor: &mut Executor,
    ) -> Result<(Ublk, Vec<String>), UblkError> {
        let system = |error| UblkError::System { doing: "serve", error, hint: "" };
        Ublk::check(executor)?;
        let notes = ublk_driver::remove_stale_devices()?;
        let mut control = UblkDriver::open()?;
        let mut added = Vec::new();
        for export in exports {
            match control.add(&export) {
                Ok(device) => added.push((export, device)),
                Err(error) => {
                    remove_all(added);
                    return Err(error);
                }
            }
        }
        let waker = Waker::new().map_err(|errno| system(errno.into()))?;
        let driver = &mut executor.driver;
        driver.add_waker(Token::new(EventOwner::UblkTeardown, 0), &waker).map_err(system)?;
        let mut ublk = Ublk {
            devices: Vec::new(),
            zeroes: zeroes(driver),
            stopping: Arc::default(),
            waker,
            teardown: None,
        };
        for (export, device) in added {
            ublk.serve_device(export, device, executor).map_err(system)?;
        }
        Ok((ublk, notes))
    }

    /// Starts to wait for the requests of a device.
    fn serve_device(
        &mut self,
        export: Export,
        Added { number, fd, descriptions }: Added,
        executor: &mut Executor,
    ) -> std::io::Result<()> {
        let handle = executor.driver.adopt(fd)?;
        let none = DeviceRequest {
            action: DeviceAction::Flush,
            durability: Durability::Later,
            offset: 0,
            length: 0,
        };
        let slot = |_| {
            let buffer = executor.driver.acquire(IO_BYTES as usize);
            Slot { buffer, request: none, done: 0, flushing: false }
        };
        let slots: Vec<Slot> = (0..DEPTH).map(slot).collect();
        let descriptions = Some(descriptions);
        let device = Device { export, number, handle, descriptions, slots, slots_open: DEPTH };
        let place = self.devices.len();
        self.devices.push(device);
        for tag in 0..DEPTH {
            self.issue(code::FETCH, place, tag, 0, executor);
        }
        Ok(())
    }

    pub fn starters(&self) -> Vec<DeviceStarter> {
        let starter = |device: &Device| DeviceStarter {
            export: device.export.clone(),
            number: device.number,
            stopping: Arc::clone(&self.stopping),
        };
        self.devices.iter().map(starter).collect()
    }

    /// Handles the end of a command that waited for a request.
    pub fn on_event(&mut self, done: &Event, executor: &mut Executor) {
        let (place, tag) = split(done.token);
        let device = &mut self.devices[place];
        let slot = &mut device.slots[usize::from(tag)];
        if done.result.is_err() {
            executor.driver.release(slot.buffer);
            device.slots_open -= 1;
            if device.slots_open == 0 {
                // The mapping keeps the device in use, too.
                device.descriptions = None;
                executor.driver.close(device.handle);
            }
            return;
        }
        let descriptions =
            device.descriptions.as_ref().expect("a device with open slots has descriptions");
        let words = descriptions.words(usize::from(tag) * DESCRIPTION_WORDS);
        match DeviceRequest::read(words) {
            Some(request) => {
                *slot = Slot { request, done: 0, flushing: false, ..*slot };
                self.submit(place, tag, executor);
            }
            None => self.reply(place, tag, Err(Errno::OPNOTSUPP), executor),
        }
    }

    /// Handles the end of an I/O request.
    pub fn on_reply(&mut self, ended: IoReply, executor: &mut Executor) {
        let (place, tag) = split(ended.token);
        let device = &mut self.devices[place];
        let target = device.export.target;
        let slot = &mut device.slots[usize::from(tag)];
        let request = slot.request;
        if ended.result.is_ok() && !slot.flushing {
            slot.done += step(slot, target);
            if slot.done < request.length {
                return self.submit(place, tag, executor);
            }
            if request.durability == Durability::AtReply {
                slot.flushing = true;
                return self.submit(place, tag, executor);
            }
        }
        let result = ended.result.map_err(|error| match error {
            VolumeError::OutOfRange => Errno::INVAL,
            VolumeError::ReadOnly => Errno::ROFS,
            _ => Errno::IO,
        });
        self.reply(place, tag, result, executor);
    }

    /// Starts a thread that removes the devices. The kernel may send more requests until that is
    /// done.
    pub fn stop(&mut self) {
        if self.teardown.is_some() {
            return;
        }
        let stopping = Arc::clone(&self.stopping);
        let numbers: Vec<u32> = self.devices.iter().map(|device| device.number).collect();
        let teardown = move || remove_devices(&numbers, &stopping);
        let failed = |error| {
            vec![format!(
                "cannot start a thread to remove the ublk devices: {error}. The kernel removes \
                 them when this process ends"
            )]
        };
        self.teardown = Some(BackgroundTeardown::start(teardown, self.waker.clone(), failed));
    }

    /// Returns true when the devices are removed and every request is answered.
    pub fn is_over(&self) -> bool {
        self.devices.iter().all(|device| device.slots_open == 0)
            && self.teardown.as_ref().is_some_and(BackgroundTeardown::is_done)
    }

    /// Notes of the teardown for the user, once it is done.
    pub fn teardown_notes(&self) -> Vec<String> {
        self.teardown.as_ref().and_then(BackgroundTeardown::result).unwrap_or_default()
    }

    fn submit(&mut self, place: usize, tag: u16, executor: &mut Executor) {
        let Device { export, number, slots, .. } = &self.devices[place];
        let slot = &slots[usize::from(tag)];
        let DeviceRequest { action, offset, .. } = slot.request;
        let (offset, length) = (offset + slot.done, step(slot, export.target));
        let (kind, (offset, length, buffer)) = match action {
            _ if slot.flushing => (RequestKind::Flush, (0, 0, None)),
            DeviceAction::Read => (RequestKind::Read, (offset, length, Some(slot.buffer))),
            DeviceAction::Write => (RequestKind::Write, (offset, length, Some(slot.buffer))),
            DeviceAction::Discard => (RequestKind::Discard, (offset, length, None)),
            DeviceAction::Flush => (RequestKind::Flush, (0, 0, None)),
            DeviceAction::WriteZeroes => (RequestKind::Write, (offset, length, Some(self.zeroes))),
        };
        executor.submit(IoRequest {
            token: token(EventOwner::UblkRequest, place, tag),
            target: export.target,
            kind,
            offset,
            length,
            buffer,
            // The driver does not report the process.
            stream: (*number).into(),
        });
    }

    /// Replies to a request, and waits for the next.
    fn reply(&self, place: usize, tag: u16, result: Result<(), Errno>, executor: &mut Executor) {
        let DeviceRequest { action, length, .. } =
            self.devices[place].slots[usize::from(tag)].request;
        let result = match (result, action) {
            (Ok(()), DeviceAction::Read | DeviceAction::Write) => length as i32,
            (Ok(()), _) => 0,
            (Err(errno), _) => -errno.raw_os_error(),
        };
        self.issue(code::COMMIT_AND_FETCH, place, tag, result, executor);
    }

    fn issue(&self, code: u32, place: usize, tag: u16, result: i32, executor: &mut Executor) {
        let device = &self.devices[place];
        let buffer = device.slots[usize::from(tag)].buffer;
        let slice = Slice::data(buffer, 0, IO_BYTES as usize);
        let command = Command { code, head: io_head(tag, result), slice };
        executor.driver.command(token(EventOwner::UblkCommand, place, tag), device.handle, command);
    }
}

/// Stops and removes devices; returns notes for the user.
fn remove_devices(numbers: &[u32], stopping: &Mutex<bool>) -> Vec<String> {
    *stopping.lock().unwrap_or_else(PoisonError::into_inner) = true;
    let mut notes = Vec::new();
    let deadline = Instant::now() + CLAIM_TIMEOUT;
    for &number in numbers {
        let path = block_device(number);
        let device = path.display();
        while is_claimed(number) && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
        if is_claimed(number) {
            notes.push(format!("{device} was still in use; programs that use it will get errors"));
        }
        let ended = UblkDriver::open().and_then(|mut control| {
            let system = |error| UblkError::System { doing: "remove", error, hint: "" };
            control.stop(number).map_err(system)?;
            control.remove(number).map_err(system)
        });
        notes.extend(ended.err().map(|error| format!("{device}: {error}")));
    }
    notes
}

/// Removes devices that are not served yet.
fn remove_all(added: Vec<(Export, Added)>) {
    for (_, Added { number, fd, descriptions }) in added {
        drop((fd, descriptions));
        let _ = UblkDriver::open().map(|control| control.remove(number));
    }
}

fn token(owner: EventOwner, place: usize, tag: u16) -> Token {
    Token::new(owner, (place as u32) << 16 | u32::from(tag))
}

/// The index of the device, and the tag.
fn split(token: Token) -> (usize, u16) {
    ((token.key() >> 16) as usize, token.key() as u16)
}

/// Number of bytes of the next I/O request.
fn step(slot: &Slot, target: Target) -> u64 {
    let left = slot.request.length.saturating_sub(slot.done);
    match slot.request.action {
        DeviceAction::WriteZeroes => zero_step(left),
        DeviceAction::Discard => discard_step(target, left),
        _ => left,
    }
}
