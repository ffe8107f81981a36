//! Operations of the driver: what each does, and how it continues after a part of it completed.

use super::buffers::{Buffers, Slice, Use};
use super::{Token, Waker};
use rustix::event::PollFlags;
use rustix::io::Errno;

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
