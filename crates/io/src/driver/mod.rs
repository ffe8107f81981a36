//! What a loop asks of the kernel: operations go in, ends of operations come out.
//!
//! One thread owns a driver. It starts operations on sockets and files, and waits for whatever ends
//! first, or for a moment in time. Two backends do the work, chosen when the driver is made:
//!
//! - **io_uring** (`ring.rs`): operations of a turn go to the kernel with the one system call that
//!   also waits for the next ends; sockets and files alike.
//! - **threads** (`pool.rs`): `preadv` and `pwritev` on a few threads, `poll` for the sockets. For
//!   kernels without io_uring and for containers that forbid it; slower, and nothing else differs.
//!
//! What the page cache has, and what a socket has room for, needs neither: it ends at the moment it
//! is started (`at_once.rs`), and is told of by the next wait like everything else.
//!
//! The driver owns memory ([`buffers`]) and descriptors, so neither can go away under an operation
//! in operation. Operations that the kernel cut short are continued here: a read ends with fewer
//! bytes than asked only at the end of its file.
//!
//! Non-goals: what the bytes mean.

mod at_once;
pub mod buffers;
pub mod device;
mod pool;
mod ring;
#[cfg(test)]
mod tests;

use buffers::{BufferKey, Buffers, Slice, Use};
use mirrorball_core::slab::Slab;
use pool::Pool;
use ring::Ring;
use rustix::io::Errno;
use rustix::net::Shutdown;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most slices that one send takes.
pub const SLICES_MAX: usize = 64;

/// How many waits in a row may tell only of what ended when it was started: a request and its reply
/// take two, and a client that never pauses must not hide the others.
const HASTY_WAITS_MAX: u32 = 4;

/// How long a driver that is dropped waits for what is in operation.
const DROP_PATIENCE: Duration = Duration::from_secs(5);

/// Names an operation; chosen by whoever starts it and given back with its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token(pub u64);

impl Token {
    /// A token of the part of the program called `owner`, for its own number `key`.
    #[inline]
    pub const fn new(owner: u8, key: u32) -> Token {
        Token((owner as u64) << 32 | key as u64)
    }

    /// Who started the operation.
    #[inline]
    pub const fn owner(self) -> u8 {
        (self.0 >> 32) as u8
    }

    /// The owner's number.
    #[inline]
    pub const fn key(self) -> u32 {
        self.0 as u32
    }
}

/// Names a descriptor that the driver owns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle(u32);

/// The end of an operation.
#[derive(Debug)]
pub struct Event {
    /// As given at its start.
    pub token: Token,
    /// What came of it.
    pub result: Result<Output, Errno>,
}

/// What an operation brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// A number of bytes; zero where none were asked for.
    Bytes(usize),
    /// A connection.
    Connection(Handle),
}

/// A command to a device, of a kind that only its own driver understands. What the kernel gets are
/// 16 bytes: the head, and the address of the slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// Its number.
    pub code: u32,
    /// What its first 8 bytes say.
    pub head: [u8; 8],
    /// Memory that the device may read and change until the command ends.
    pub slice: Slice,
}

/// Which backend does the work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BackendKind {
    /// io_uring.
    Ring,
    /// Threads and `poll`.
    Threads,
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BackendKind::Ring => "io_uring",
            BackendKind::Threads => "threads (preadv and pwritev)",
        })
    }
}

/// What an operation does. The length of a slice shrinks as the kernel gets on with it.
enum OperationKind {
    Accept,
    Receive(Slice),
    Send(Vec<Slice>),
    Read { offset: u64, slice: Slice },
    Write { offset: u64, slice: Slice },
    Sync,
    Discard { offset: u64, length: u64 },
    Command(Command),
}

struct Operation {
    token: Token,
    handle: Handle,
    kind: OperationKind,
    /// Bytes that earlier parts of the operation moved.
    moved: usize,
}

struct Descriptor {
    /// Shared with the threads that work on it.
    fd: Arc<OwnedFd>,
    in_flight: u32,
    closing: bool,
    /// Whether it is worth asking the page cache first.
    cached: bool,
}

enum Backend {
    Ring(Box<Ring>),
    Threads(Pool),
}

/// The kernel, as one thread sees it.
pub struct Driver {
    /// The memory of operations.
    pub buffers: Buffers,
    descriptors: Slab<u32, Descriptor>,
    operations: Slab<u32, Operation>,
    backend: Backend,
    /// What ended when it was started, until the next wait.
    ended: Vec<(u32, Result<usize, Errno>)>,
    /// How many waits in a row told only of that.
    hasty_waits: u32,
    spare_lists: Vec<Vec<Slice>>,
}

impl Driver {
    /// A driver with the backend of this kind; with `None`, io_uring if the kernel lets us. Returns
    /// why io_uring was passed over, too.
    ///
    /// # Errors
    /// If the backend asked for, or the threads, cannot be had.
    pub fn new(wanted: Option<BackendKind>) -> io::Result<(Driver, Option<io::Error>)> {
        let (backend, refusal) = match wanted {
            Some(BackendKind::Ring) => (Backend::Ring(Box::new(Ring::new()?)), None),
            Some(BackendKind::Threads) => (Backend::Threads(Pool::new()?), None),
            None => match Ring::new() {
                Ok(ring) => (Backend::Ring(Box::new(ring)), None),
                Err(error) => (Backend::Threads(Pool::new()?), Some(error)),
            },
        };
        let driver = Driver {
            buffers: Buffers::default(),
            descriptors: Slab::default(),
            operations: Slab::default(),
            backend,
            ended: Vec::new(),
            hasty_waits: 0,
            spare_lists: Vec::new(),
        };
        Ok((driver, refusal))
    }

    /// Which backend works.
    pub fn backend(&self) -> BackendKind {
        match self.backend {
            Backend::Ring(_) => BackendKind::Ring,
            Backend::Threads(_) => BackendKind::Threads,
        }
    }

    /// Takes a descriptor over.
    ///
    /// # Errors
    /// If its mode cannot be set.
    pub fn adopt(&mut self, fd: OwnedFd) -> io::Result<Handle> {
        if let Backend::Threads(_) = self.backend {
            // `poll` says when; the operation itself must not wait. Files do not care.
            let flags = rustix::fs::fcntl_getfl(&fd)?;
            rustix::fs::fcntl_setfl(&fd, flags | rustix::fs::OFlags::NONBLOCK)?;
        }
        let cached = at_once::is_cached(&fd);
        let fd = Arc::new(fd);
        let descriptor = Descriptor { fd: fd.clone(), in_flight: 0, closing: false, cached };
        let handle = Handle(self.descriptors.insert(descriptor));
        if let Backend::Ring(ring) = &mut self.backend {
            ring.register(handle, &fd);
        }
        Ok(handle)
    }

    /// How long a file is now.
    ///
    /// # Errors
    /// As `fstat`.
    pub fn size_bytes(&self, file: Handle) -> Result<u64, Errno> {
        Ok(rustix::fs::fstat(&self.descriptors.get(file.0).fd)?.st_size as u64)
    }

    /// A file for whoever asks about it beside the driver; it stays open for that long.
    pub(crate) fn share(&self, file: Handle) -> Arc<OwnedFd> {
        self.descriptors.get(file.0).fd.clone()
    }

    /// Closes a descriptor as soon as nothing of it is in operation. What waits on a socket ends now.
    pub fn close(&mut self, handle: Handle) {
        let descriptor = self.descriptors.get_mut(handle.0);
        descriptor.closing = true;
        if descriptor.in_flight == 0 {
            return self.forget(handle);
        }
        // A file is no socket, and its operations end by themselves.
        let _ = rustix::net::shutdown(descriptor.fd.as_fd(), Shutdown::Both);
    }

    /// Waits for a connection on a listening socket.
    pub fn accept(&mut self, token: Token, listener: Handle) {
        self.start(token, listener, OperationKind::Accept);
    }

    /// Waits for bytes from a socket; none means that the other side is done.
    pub fn receive(&mut self, token: Token, socket: Handle, slice: Slice) {
        self.start(token, socket, OperationKind::Receive(slice));
    }

    /// Sends slices, one after the other, all of them.
    ///
    /// # Panics
    /// If there are none, or more than [`SLICES_MAX`].
    pub fn send(&mut self, token: Token, socket: Handle, slices: &[Slice]) {
        assert!((1..=SLICES_MAX).contains(&slices.len()), "one send takes {SLICES_MAX} slices");
        let mut list = self.spare_lists.pop().unwrap_or_default();
        list.extend_from_slice(slices);
        self.start(token, socket, OperationKind::Send(list));
    }

    /// Reads from a file.
    pub fn read(&mut self, token: Token, file: Handle, offset: u64, slice: Slice) {
        self.start(token, file, OperationKind::Read { offset, slice });
    }

    /// Writes to a file.
    pub fn write(&mut self, token: Token, file: Handle, offset: u64, slice: Slice) {
        self.start(token, file, OperationKind::Write { offset, slice });
    }

    /// Makes what was written to a file durable.
    pub fn sync(&mut self, token: Token, file: Handle) {
        self.start(token, file, OperationKind::Sync);
    }

    /// Gives back the room of a range of a file, which then reads as zeroes.
    pub fn discard(&mut self, token: Token, file: Handle, offset: u64, length: u64) {
        self.start(token, file, OperationKind::Discard { offset, length });
    }

    /// Gives a device a command. It ends with what the device makes of it; without io_uring, with
    /// `EOPNOTSUPP`.
    pub fn command(&mut self, token: Token, device: Handle, command: Command) {
        self.start(token, device, OperationKind::Command(command));
    }

    /// How many operations are in operation.
    pub fn in_flight(&self) -> usize {
        self.operations.len()
    }

    /// Waits until something happens, but at most for `patience`, and appends every operation that
    /// ended. That may be none: a part of an operation may be all that happened. Operations reach
    /// the kernel here at the latest, or in one of the next few waits if some ended at their start.
    ///
    /// # Errors
    /// If the kernel fails in a way that no operation answers for.
    pub fn wait(&mut self, patience: Option<Duration>, done: &mut Vec<Event>) -> io::Result<()> {
        let mut ended = std::mem::take(&mut self.ended);
        self.hasty_waits = if ended.is_empty() { 0 } else { self.hasty_waits + 1 };
        if ended.is_empty() || self.hasty_waits > HASTY_WAITS_MAX {
            let patience = if ended.is_empty() { patience } else { Some(Duration::ZERO) };
            self.hasty_waits = 0;
            match &mut self.backend {
                Backend::Ring(ring) => ring.wait(patience, &mut ended)?,
                Backend::Threads(pool) => pool.wait(patience, &mut self.buffers, &mut ended)?,
            }
        }
        for (key, result) in ended.drain(..) {
            self.finish(key, result, done);
        }
        self.ended = ended;
        Ok(())
    }

    #[inline]
    fn start(&mut self, token: Token, handle: Handle, kind: OperationKind) {
        let descriptor = self.descriptors.get_mut(handle.0);
        assert!(!descriptor.closing, "nothing is started on what is being closed");
        descriptor.in_flight += 1;
        self.each_use(&kind, Buffers::begin_use);
        let result = self.attempt(handle, &kind);
        let key = self.operations.insert(Operation { token, handle, kind, moved: 0 });
        match result {
            Some(result) => self.ended.push((key, result)),
            None => self.push(key),
        }
    }

    /// Does an operation, or its first part, if that takes no waiting.
    #[inline]
    fn attempt(
        &mut self,
        Handle(handle): Handle,
        kind: &OperationKind,
    ) -> Option<Result<usize, Errno>> {
        let descriptor = self.descriptors.get_mut(handle);
        let result = match kind {
            OperationKind::Send(list) => at_once::send(&descriptor.fd, list, &self.buffers),
            OperationKind::Read { offset, slice } if descriptor.cached => {
                at_once::read(&descriptor.fd, *offset, self.buffers.target(*slice))
            }
            _ => return None,
        };
        match result {
            Err(Errno::AGAIN | Errno::INTR) => None,
            Err(Errno::OPNOTSUPP) => {
                descriptor.cached = false;
                None
            }
            result => Some(result),
        }
    }

    #[inline]
    fn push(&mut self, key: u32) {
        let operation = self.operations.get(key);
        let fd = &self.descriptors.get(operation.handle.0).fd;
        match &mut self.backend {
            Backend::Ring(ring) => {
                ring.push(key, operation.handle, fd, &operation.kind, &mut self.buffers);
            }
            Backend::Threads(pool) => pool.push(key, fd, &operation.kind, &self.buffers),
        }
    }

    /// An operation, or a part of it, ended.
    #[inline]
    fn finish(&mut self, key: u32, result: Result<usize, Errno>, done: &mut Vec<Event>) {
        let operation = self.operations.get_mut(key);
        if let Ok(moved) = result
            && moved > 0
            && !matches!(operation.kind, OperationKind::Accept)
        {
            operation.moved += moved;
            if advance(&mut operation.kind, moved) {
                return self.push(key);
            }
        }
        let Operation { token, handle, kind, moved } =
            self.operations.remove(key).expect("an operation ends once");
        self.each_use(&kind, Buffers::end_use);
        let accepts = matches!(kind, OperationKind::Accept);
        if let OperationKind::Send(mut list) = kind {
            list.clear();
            self.spare_lists.push(list);
        }
        let descriptor = self.descriptors.get_mut(handle.0);
        descriptor.in_flight -= 1;
        if descriptor.closing && descriptor.in_flight == 0 {
            self.forget(handle);
        }
        let result = match result {
            Ok(number) if accepts => self.adopt_accepted(number),
            Ok(_) => Ok(Output::Bytes(moved)),
            Err(errno) => Err(errno),
        };
        done.push(Event { token, result });
    }

    fn forget(&mut self, handle: Handle) {
        if let Backend::Ring(ring) = &mut self.backend {
            ring.unregister(handle);
        }
        self.descriptors.remove(handle.0);
    }

    fn adopt_accepted(&mut self, number: usize) -> Result<Output, Errno> {
        let handle = self.adopt(ring::own_accepted(number)).map_err(|_| Errno::CONNABORTED)?;
        Ok(Output::Connection(handle))
    }

    #[inline]
    fn each_use(&mut self, kind: &OperationKind, act: fn(&mut Buffers, BufferKey, Use)) {
        match kind {
            OperationKind::Receive(slice)
            | OperationKind::Read { slice, .. }
            | OperationKind::Command(Command { slice, .. }) => {
                act(&mut self.buffers, slice.buffer, Use::Target);
            }
            OperationKind::Write { slice, .. } => act(&mut self.buffers, slice.buffer, Use::Source),
            OperationKind::Send(list) => {
                for slice in list {
                    act(&mut self.buffers, slice.buffer, Use::Source);
                }
            }
            OperationKind::Accept | OperationKind::Sync | OperationKind::Discard { .. } => {}
        }
    }
}

impl Drop for Driver {
    /// Memory may not go away under an operation in operation: whatever waits on a socket is ended,
    /// and what remains of file I/O is waited for.
    fn drop(&mut self) {
        for (_, descriptor) in self.descriptors.iter() {
            let _ = rustix::net::shutdown(descriptor.fd.as_fd(), Shutdown::Both);
        }
        let deadline = Instant::now() + DROP_PATIENCE;
        let mut done = Vec::new();
        while !self.operations.is_empty() {
            let waited = self.wait(Some(Duration::from_millis(100)), &mut done);
            if waited.is_err() || Instant::now() > deadline {
                // A device that never answers: its memory is given up instead.
                std::mem::forget(std::mem::take(&mut self.buffers));
                return;
            }
        }
    }
}

/// Reads from a file into memory aligned to a page, outside of any driver; returns what there was.
///
/// # Errors
/// As `pread`.
pub(crate) fn read_aligned(fd: impl AsFd, offset: u64, bytes: usize) -> Result<Vec<u8>, Errno> {
    let mut memory = buffers::Memory::new(bytes);
    let length = rustix::io::pread(fd, memory.slice_mut(buffers::HEAD_BYTES, bytes), offset)?;
    Ok(memory.slice(buffers::HEAD_BYTES, length).to_vec())
}

/// Shrinks what is to be done by what was; whether something is left that is worth going on with.
#[inline]
fn advance(kind: &mut OperationKind, moved: usize) -> bool {
    match kind {
        OperationKind::Read { offset, slice } | OperationKind::Write { offset, slice } => {
            *offset += moved as u64;
            *slice = slice.after(moved);
            slice.length > 0
        }
        OperationKind::Send(list) => {
            let mut left = moved;
            for slice in list.iter_mut() {
                let step = left.min(slice.length);
                *slice = slice.after(step);
                left -= step;
            }
            list.iter().any(|slice| slice.length > 0)
        }
        OperationKind::Accept
        | OperationKind::Receive(_)
        | OperationKind::Sync
        | OperationKind::Discard { .. }
        | OperationKind::Command(_) => false,
    }
}
