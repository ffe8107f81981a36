//! Blocking commands to a control device of the kernel, and memory shared with a device.
//!
//! Commands that carry I/O go through the service's own ring ([`super::Driver`]). The commands here
//! are rare and slow, and block the calling thread, which is not that of the service.
//!
//! One of the three files with `unsafe` code. A command passes an address to the kernel: that of a
//! copy of the caller's data, which is leaked if the end of the command is not known, so a command
//! with a timeout has no memory. Mapped memory is read by volatile reads of plain integers, because
//! the kernel changes it.

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

/// A command to a control device. The kernel gets 24 bytes, padded with zeroes: the head, the
/// address of the data, and the number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ControlCommand {
    pub code: u32,
    /// First 8 bytes of the command.
    pub head: [u8; 8],
    /// The 8 bytes after the address.
    pub number: u64,
}

pub struct ControlDevice {
    ring: IoUring<Entry128>,
    fd: OwnedFd,
}

impl ControlDevice {
    /// Opens a control device.
    ///
    /// # Errors
    /// As `open`, or if there is no io_uring with entries of 128 bytes.
    pub fn open(path: &Path) -> io::Result<ControlDevice> {
        let fd = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        Ok(ControlDevice { ring: IoUring::builder().build(4)?, fd })
    }

    /// Runs a command that reads or writes `data`.
    ///
    /// # Errors
    /// The error of the device.
    pub fn run(&mut self, command: &ControlCommand, data: &mut [u8]) -> io::Result<()> {
        let mut copy = Box::<[u8]>::from(&*data);
        self.submit(command, copy.as_mut_ptr() as u64);
        loop {
            match self.wait(None) {
                Ok(None) => {}
                Ok(Some(end)) => {
                    data.copy_from_slice(&copy);
                    return end;
                }
                Err(error) => {
                    // The command may still be carried out.
                    std::mem::forget(copy);
                    return Err(error);
                }
            }
        }
    }

    /// Runs a command without data, for at most `timeout`.
    ///
    /// # Errors
    /// The error of the device, or a timeout, after which the command may still take effect.
    pub fn run_with_timeout(
        mut self,
        command: &ControlCommand,
        timeout: Duration,
    ) -> io::Result<()> {
        self.submit(command, 0);
        let late = || io::Error::from(ErrorKind::TimedOut);
        self.wait(Some(timeout))?.ok_or_else(late)?
    }

    fn submit(&mut self, command: &ControlCommand, address: u64) {
        let mut bytes = [0; 80];
        bytes[..8].copy_from_slice(&command.head);
        bytes[8..16].copy_from_slice(&address.to_ne_bytes());
        bytes[16..24].copy_from_slice(&command.number.to_ne_bytes());
        let entry = opcode::UringCmd80::new(Fd(self.fd.as_raw_fd()), command.code).cmd(bytes);
        // SAFETY: the address is null, or of memory that `run` frees only after the end of the
        // command; the descriptor is open for as long as the ring.
        let pushed = unsafe { self.ring.submission().push(&entry.build()) };
        pushed.expect("one command at a time finds room");
    }

    /// The result of the command, if it ended in time.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Option<io::Result<()>>> {
        let time = timeout.map(Timespec::from);
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

/// Memory that a device writes and this process reads.
pub struct SharedMemory {
    address: NonNull<libc::c_void>,
    bytes: usize,
}

// SAFETY: it is memory of the process, not of a thread, and only read.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    /// Maps the first `bytes` of a device.
    pub fn map(device: impl AsFd, bytes: usize) -> io::Result<SharedMemory> {
        let (protection, flags) = (ProtFlags::READ, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: the kernel chooses an unused address.
        let address = unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, device, 0)? };
        let address = NonNull::new(address).expect("what is mapped is somewhere");
        Ok(SharedMemory { address, bytes })
    }

    /// Reads words, from the one at `index` on. Panics if they lie outside.
    #[inline]
    pub fn words<const N: usize>(&self, index: usize) -> [u64; N] {
        let end = index.checked_add(N).and_then(|end| end.checked_mul(size_of::<u64>()));
        assert!(end.is_some_and(|end| end <= self.bytes), "words lie within the memory");
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::panic::catch_unwind;

    #[test]
    fn words_lie_within_the_memory() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 4096]).unwrap();
        let memory = SharedMemory::map(&file, 4096).unwrap();
        let word = u64::from_ne_bytes([1; 8]);
        assert_eq!(memory.words(510), [word; 2]);
        for index in [511, usize::MAX, usize::MAX - 1, usize::MAX / 8, (usize::MAX / 8) + 1] {
            let read = catch_unwind(|| memory.words::<2>(index));
            assert!(read.is_err(), "{index}");
        }
    }
}
