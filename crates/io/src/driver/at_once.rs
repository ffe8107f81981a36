//! What ends at the moment it is started: a read of what the page cache has, and a send that its
//! socket has room for.
//!
//! Such an operation costs one system call. Through a backend it costs the wait in which it is seen
//! to have ended as well, or a thread's attention.

use super::SLICES_MAX;
use super::buffers::{Buffers, Slice};
use rustix::fs::{FileType, OFlags};
use rustix::io::{Errno, IoSlice, IoSliceMut, ReadWriteFlags};
use rustix::net::{SendAncillaryBuffer, SendFlags};
use std::os::fd::OwnedFd;

/// Whether reads of this file go through the page cache.
pub(super) fn is_cached(fd: &OwnedFd) -> bool {
    let kind = rustix::fs::fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode));
    let is_file = matches!(kind, Ok(FileType::RegularFile | FileType::BlockDevice));
    is_file && rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| !flags.contains(OFlags::DIRECT))
}

/// Reads what the page cache has of a range, from its beginning on.
///
/// # Errors
/// `AGAIN` if its first byte is not there; `OPNOTSUPP` if the filesystem cannot tell.
pub(super) fn read(fd: &OwnedFd, offset: u64, target: &mut [u8]) -> Result<usize, Errno> {
    let target = &mut [IoSliceMut::new(target)];
    rustix::io::preadv2(fd, target, offset, ReadWriteFlags::NOWAIT)
}

/// Sends as much of these slices as the socket has room for.
///
/// # Errors
/// `AGAIN` if it has none.
pub(super) fn send(fd: &OwnedFd, list: &[Slice], buffers: &Buffers) -> Result<usize, Errno> {
    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
    for (slice, part) in slices.iter_mut().zip(list) {
        *slice = IoSlice::new(buffers.bytes(*part));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let mut control = SendAncillaryBuffer::default();
    rustix::net::sendmsg(fd, &slices[..list.len()], &mut control, flags)
}
