//! Operations that end when they are started: reads from the page cache, and sends that fit the
//! socket's buffer.
//!
//! They cost one system call. Through a backend they would cost a wait or a thread, too.

use super::SLICES_MAX;
use super::buffers::{Buffers, Slice};
use rustix::fs::{FileType, OFlags};
use rustix::io::{Errno, IoSlice, IoSliceMut, ReadWriteFlags};
use rustix::net::{SendAncillaryBuffer, SendFlags};
use std::os::fd::OwnedFd;

/// True if reads of this file use the page cache.
pub(super) fn is_cached(fd: &OwnedFd) -> bool {
    let kind = rustix::fs::fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode));
    let is_file = matches!(kind, Ok(FileType::RegularFile | FileType::BlockDevice));
    is_file && rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| !flags.contains(OFlags::DIRECT))
}

/// Reads the part of a range that the page cache has, from its start on.
///
/// # Errors
/// `AGAIN` if its first byte is not cached; `OPNOTSUPP` if the filesystem does not support this.
pub(super) fn read(fd: &OwnedFd, offset: u64, target: &mut [u8]) -> Result<usize, Errno> {
    let target = &mut [IoSliceMut::new(target)];
    rustix::io::preadv2(fd, target, offset, ReadWriteFlags::NOWAIT)
}

/// The result of a read, or `None` if the backend has to do it: the bytes are not cached, or there
/// is an error for the backend to find and report. `is_cached` becomes false where the system call
/// is missing, forbidden, or not supported by the filesystem.
#[inline]
pub(super) fn read_result(
    result: Result<usize, Errno>,
    is_cached: &mut bool,
) -> Option<Result<usize, Errno>> {
    if let Err(errno) = result {
        *is_cached = matches!(errno, Errno::AGAIN | Errno::INTR | Errno::IO);
        return None;
    }
    Some(result)
}

/// Sends as many bytes of these slices as fit the socket's buffer.
///
/// # Errors
/// `AGAIN` if the buffer is full.
pub(super) fn send(fd: &OwnedFd, list: &[Slice], buffers: &Buffers) -> Result<usize, Errno> {
    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
    for (slice, part) in slices.iter_mut().zip(list) {
        *slice = IoSlice::new(buffers.bytes(*part));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let mut control = SendAncillaryBuffer::default();
    rustix::net::sendmsg(fd, &slices[..list.len()], &mut control, flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_system_call_leaves_reads_to_the_backend() {
        for (errno, may_try_again) in [
            (Errno::NOSYS, false),
            (Errno::PERM, false),
            (Errno::OPNOTSUPP, false),
            (Errno::AGAIN, true),
            (Errno::IO, true),
        ] {
            let mut is_cached = true;
            assert_eq!(read_result(Err(errno), &mut is_cached), None, "{errno}");
            assert_eq!(is_cached, may_try_again, "{errno}");
        }
        assert_eq!(read_result(Ok(5), &mut true), Some(Ok(5)));
    }
}
