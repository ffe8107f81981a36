//! Operations of the driver: their names and owners, what each does, those that end when they are
//! started, and how one continues after a part of it completed.
//!
//! A read from the page cache, and a send that fits the socket's buffer, end when they are started:
//! they cost one system call. Through a backend they would cost a wait or a thread, too.

use super::buffers::{Buffers, Slice, Use};
use super::{SLICES_MAX, Waker};
use rustix::event::PollFlags;
use rustix::fs::{FileType, OFlags};
use rustix::io::{Errno, IoSlice, IoSliceMut, ReadWriteFlags};
use rustix::net::{SendAncillaryBuffer, SendFlags};
use std::os::fd::OwnedFd;

/// The part of the crate that starts an operation and handles its event.
///
/// [`crate::service`] dispatches events and replies by an exhaustive match on this.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EventOwner {
    /// Executor: I/O on the file or device of a member.
    MemberFile,
    /// Executor: a write of the device that takes the place of a member.
    SuccessorFile,
    /// Remote member: bytes from its server.
    RemoteReceive,
    /// Remote member: requests sent to its server.
    RemoteSend,
    /// Remote member: a connection attempt ended.
    RemoteConnect,
    /// Rebuild: a step.
    Rebuild,
    /// Rebuild: a member was opened again.
    Reopen,
    /// Scrub: a step.
    Scrub,
    /// NBD server: a new connection.
    NbdAccept,
    /// NBD server: bytes from a client.
    NbdReceive,
    /// NBD server: replies sent to a client.
    NbdSend,
    /// NBD server: the end of a connection that is not received from.
    NbdHangup,
    /// NBD server: a request to the executor.
    NbdRequest,
    /// NBD server: a connection that was accepted outside of the server.
    NbdExternal,
    /// NBD server: a block status query.
    NbdBlockStatus,
    /// Control socket: a new connection.
    ControlAccept,
    /// Control socket: bytes from a client.
    ControlReceive,
    /// Control socket: a response sent to a client.
    ControlSend,
    /// Control socket: a program was loaded.
    ControlProgram,
    /// Control socket: the end of the connection of a client that follows events.
    ControlHangup,
    /// FUSE: calls in the mailbox, or the end of the teardown.
    FuseCall,
    /// FUSE: a request to the executor.
    FuseRequest,
    /// Service: a stop request.
    Stop,
}

/// Name of an operation, chosen by the caller and returned with its [`Event`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    owner: EventOwner,
    key: u32,
}

impl Token {
    /// A token of `owner`, for its own number `key`.
    #[inline]
    pub const fn new(owner: EventOwner, key: u32) -> Token {
        Token { owner, key }
    }

    /// The part of the crate that started the operation.
    #[inline]
    pub const fn owner(self) -> EventOwner {
        self.owner
    }

    /// The owner's number.
    #[inline]
    pub const fn key(self) -> u32 {
        self.key
    }
}

mirrorball_core::slab_key! {
    /// Names a descriptor that the driver owns.
    pub struct Handle;
}

mirrorball_core::slab_key! {
    pub(super) struct OperationKey;
}

#[derive(Debug)]
pub struct Event {
    pub token: Token,
    /// The result, or why it failed.
    pub result: Result<Output, Errno>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// A number of bytes; zero if the operation moves none.
    Bytes(usize),
    Connection(Handle),
    /// A waker was set.
    Woken,
    /// Both halves of a connection have ended.
    HungUp,
}

/// Kind of an operation. Slices shrink as parts of the operation complete.
#[derive(Clone)]
pub(super) enum OperationKind {
    Accept,
    Receive(Slice),
    Send(Vec<Slice>),
    Read {
        offset: u64,
        slice: Slice,
    },
    Write {
        offset: u64,
        slice: Slice,
    },
    Sync,
    Discard {
        offset: u64,
        length: u64,
    },
    /// Waits until the connection ends.
    Hangup,
    /// Waits until the waker is set; never ends, except by closing.
    Wake(Waker),
}

pub(super) struct Operation {
    pub(super) token: Token,
    pub(super) handle: Handle,
    pub(super) kind: OperationKind,
    /// Bytes that completed parts of the operation have moved.
    pub(super) moved: usize,
}

impl OperationKind {
    /// Calls `act` for each buffer of the operation.
    #[inline]
    pub(super) fn each_use(&self, buffers: &mut Buffers, act: fn(&mut Buffers, Slice, Use)) {
        match self {
            OperationKind::Receive(slice) | OperationKind::Read { slice, .. } => {
                act(buffers, *slice, Use::Target);
            }
            OperationKind::Write { slice, .. } => act(buffers, *slice, Use::Source),
            OperationKind::Send(list) => {
                for slice in list {
                    act(buffers, *slice, Use::Source);
                }
            }
            OperationKind::Accept
            | OperationKind::Sync
            | OperationKind::Discard { .. }
            | OperationKind::Hangup
            | OperationKind::Wake(_) => {}
        }
    }

    /// True if the result of the operation is a number of bytes.
    #[inline]
    pub(super) fn moves_bytes(&self) -> bool {
        !matches!(self, OperationKind::Accept | OperationKind::Hangup | OperationKind::Wake(_))
    }

    /// Removes the first `moved` bytes. Returns true if bytes are left and the operation should
    /// continue.
    #[inline]
    pub(super) fn advance(&mut self, moved: usize) -> bool {
        match self {
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
            | OperationKind::Hangup
            | OperationKind::Wake(_) => false,
        }
    }
}

/// True if these flags of `poll` mean that both halves of a connection have ended.
pub(super) fn is_hangup(flags: usize) -> bool {
    PollFlags::from_bits_retain(flags as u16).intersects(PollFlags::HUP | PollFlags::ERR)
}

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
pub(super) fn read_cached(fd: &OwnedFd, offset: u64, target: &mut [u8]) -> Result<usize, Errno> {
    let target = &mut [IoSliceMut::new(target)];
    rustix::io::preadv2(fd, target, offset, ReadWriteFlags::NOWAIT)
}

/// The result of a read, or `None` if the backend has to do it: the bytes are not cached, or there
/// is an error for the backend to find and report. `is_cached` becomes false where the system call
/// is missing, forbidden, or not supported by the filesystem.
#[inline]
pub(super) fn cached_result(
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
pub(super) fn send_at_once(
    fd: &OwnedFd,
    list: &[Slice],
    buffers: &Buffers,
) -> Result<usize, Errno> {
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
            assert_eq!(cached_result(Err(errno), &mut is_cached), None, "{errno}");
            assert_eq!(is_cached, may_try_again, "{errno}");
        }
        assert_eq!(cached_result(Ok(5), &mut true), Some(Ok(5)));
    }
}
