//! What a driver of the kernel may want beside reads and writes: commands to its control device,
//! awaited on the spot, and memory that it shares.
//!
//! Commands to a device that carries I/O go through the loop's own ring ([`super::Driver`]). Those
//! here are few and slow, and wait: whoever gives them is no loop.
//!
//! With `ring.rs` the only file with `unsafe` in it. A command hands the kernel the address of
//! memory: the caller's, borrowed until the command ends, so a command that is not waited for to
//! its end has none. Memory that is mapped is read while the kernel changes it: by volatile reads,
//! and only of plain bytes.

#![allow(unsafe_code, reason = "addresses for the kernel, and memory from it; see the page above")]

use io_uring::squeue::Entry128;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};
use rustix::fs::{Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::time::Duration;

/// A command to a control device. What the kernel gets are 24 bytes, and zeroes behind them: the
/// head, the address of the data, and the number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// Its code.
    pub code: u32,
    /// What its first 8 bytes say.
    pub head: [u8; 8],
    /// What stands behind the address.
    pub number: u64,
}

/// A control device.
pub struct ControlDevice {
    ring: IoUring<Entry128>,
    fd: OwnedFd,
}

impl ControlDevice {
    /// Opens it.
    ///
    /// # Errors
    /// As `open`, or if there is no io_uring with entries of 128 bytes.
    pub fn open(path: &Path) -> io::Result<ControlDevice> {
        let fd = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        Ok(ControlDevice { ring: IoUring::builder().build(4)?, fd })
    }

    /// Gives a command, with data for it or room for an answer, and waits for its end.
    ///
    /// # Errors
    /// What the device says.
    pub fn ask(&mut self, question: &Question, data: &mut [u8]) -> io::Result<()> {
        self.give(question, data.as_mut_ptr() as u64);
        loop {
            if let Some(end) = self.wait(None)? {
                return end;
            }
        }
    }

    /// Gives a command without data, and waits for its end no longer than `patience`.
    ///
    /// # Errors
    /// What the device says, or that time is over; the command may still take effect then.
    pub fn ask_within(mut self, question: &Question, patience: Duration) -> io::Result<()> {
        self.give(question, 0);
        let late = || io::Error::from(ErrorKind::TimedOut);
        self.wait(Some(patience))?.ok_or_else(late)?
    }

    fn give(&mut self, question: &Question, address: u64) {
        let mut bytes = [0; 80];
        bytes[..8].copy_from_slice(&question.head);
        bytes[8..16].copy_from_slice(&address.to_ne_bytes());
        bytes[16..24].copy_from_slice(&question.number.to_ne_bytes());
        let entry = opcode::UringCmd80::new(Fd(self.fd.as_raw_fd()), question.code).cmd(bytes);
        // SAFETY: the address is that of memory which the caller of `ask` lends until the command
        // ends, which `ask` waits for, or nothing; the descriptor is open for as long as the ring.
        let pushed = unsafe { self.ring.submission().push(&entry.build()) };
        pushed.expect("one command at a time finds room");
    }

    /// What the command came to, if it ended.
    fn wait(&mut self, patience: Option<Duration>) -> io::Result<Option<io::Result<()>>> {
        let time = patience.map(Timespec::from);
        let mut arguments = SubmitArgs::new();
        if let Some(time) = &time {
            arguments = arguments.timespec(time);
        }
        match self.ring.submitter().submit_with_args(1, &arguments) {
            Ok(_) => {}
            Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
        let end = self.ring.completion().next();
        Ok(end.map(|end| match end.result() {
            errno if errno < 0 => Err(io::Error::from_raw_os_error(-errno)),
            _ => Ok(()),
        }))
    }
}

/// Memory that a device writes and we read.
pub struct SharedMemory {
    address: NonNull<libc::c_void>,
    bytes: usize,
}

// SAFETY: it is memory of the process, not of a thread, and only read.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    /// Maps the first `bytes` of what a device shares.
    ///
    /// # Errors
    /// As `mmap`.
    pub fn map(device: impl AsFd, bytes: usize) -> io::Result<SharedMemory> {
        let (protection, flags) = (ProtFlags::READ, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: the kernel chooses a place where nothing is.
        let address = unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, device, 0)? };
        let address = NonNull::new(address).expect("what is mapped is somewhere");
        Ok(SharedMemory { address, bytes })
    }

    /// The words from the one at `index` on, as they are now.
    ///
    /// # Panics
    /// If they lie outside.
    #[inline]
    pub fn words<const N: usize>(&self, index: usize) -> [u64; N] {
        assert!((index + N) * size_of::<u64>() <= self.bytes, "words lie within the memory");
        let first = self.address.cast::<u64>();
        // SAFETY: they are within the mapping, which begins on a page, and any bytes are a word.
        std::array::from_fn(|word| unsafe { first.add(index + word).read_volatile() })
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing refers to it any more.
        let _ = unsafe { munmap(self.address.as_ptr(), self.bytes) };
    }
}
