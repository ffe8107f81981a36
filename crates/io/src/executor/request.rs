//! Requests to an executor, their replies, and the count of those that failed.

use crate::driver::buffers::BufferKey;
use crate::driver::{EventOwner, Handle, Token};
use mirrorball_core::io::{RequestId, RequestKind, VolumeError};
use mirrorball_core::member::MemberIndex;
use mirrorball_core::slab::SlabKey;

mirrorball_core::slab_key! {
    /// Names a member I/O that is not completed; its slot is in the tokens of its parts.
    pub(super) struct ActiveIoKey;
}

/// Where an I/O of a member goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum IoPlace {
    Member,
    /// To the member and its successor.
    Both(Handle),
    /// To the successor, because it copies what the member has.
    Successor(Handle),
}

/// The volume, or a member, that a request is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    Volume,
    /// A single member, bypassing the volume.
    Member(MemberIndex),
}

/// Size of the blocks in which mirrors are compared.
pub const SCRUB_BLOCK_BYTES: u64 = 4096;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoRequest {
    /// Returned with the reply.
    pub token: Token,
    pub target: Target,
    /// The operation. A single member takes reads, writes, flushes and discards.
    pub kind: RequestKind,
    pub offset: u64,
    pub length: u64,
    /// The memory of its data, from the first byte of the buffer on; `None` without data.
    pub buffer: Option<BufferKey>,
    /// The stream of requests that it belongs to, for policies.
    pub stream: u64,
}

impl IoRequest {
    /// The number of the request in the volume.
    pub(super) fn id(&self) -> RequestId {
        RequestName { token: self.token, buffer: self.buffer }.id()
    }

    /// The CPU of the request, for policies that decide for each CPU. The CPUs of clients are not
    /// known here, so each stream counts as one: a connection of NBD, a process with FUSE.
    pub(super) fn cpu(&self) -> u32 {
        self.stream as u32
    }
}

/// The token and the buffer of a request. Its number in the volume is made of both, so that the
/// executor keeps nothing of a request that the volume has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RequestName {
    pub(super) token: Token,
    pub(super) buffer: Option<BufferKey>,
}

/// The parts of the crate that send requests.
const OWNERS: [EventOwner; 5] = [
    EventOwner::NbdRequest,
    EventOwner::FuseRequest,
    EventOwner::Rebuild,
    EventOwner::Scrub,
    EventOwner::Stop,
];
/// Bits of a number for the key of the token. The owner is in the rest of the lower half.
const KEY_BITS: u32 = 28;
/// The upper half of the number of a request without a buffer.
const NO_BUFFER: u32 = u32::MAX;

impl RequestName {
    fn id(self) -> RequestId {
        let owner = OWNERS.iter().position(|owner| *owner == self.token.owner());
        let owner = owner.expect("its owner sends requests") as u32;
        let key = self.token.key();
        assert!(key < 1 << KEY_BITS, "no more requests are in flight than a number can name");
        let buffer = self.buffer.map_or(NO_BUFFER, SlabKey::slot);
        RequestId(u64::from(buffer) << 32 | u64::from(owner << KEY_BITS | key))
    }

    /// The name of the request with this number in the volume.
    pub(super) fn of(id: RequestId) -> RequestName {
        let (buffer, lower) = ((id.0 >> 32) as u32, id.0 as u32);
        let owner = OWNERS[(lower >> KEY_BITS) as usize];
        RequestName {
            token: Token::new(owner, lower & ((1 << KEY_BITS) - 1)),
            buffer: (buffer != NO_BUFFER).then(|| BufferKey::from_slot(buffer)),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoReply {
    pub token: Token,
    /// Success, or why it failed.
    pub result: Result<(), VolumeError>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailedRequests {
    /// Reads, because no mirror could be read or had the right data.
    pub reads: u64,
    /// Writes, flushes and discards, which too few members took.
    pub writes: u64,
}

impl FailedRequests {
    pub fn all(&self) -> u64 {
        self.reads + self.writes
    }

    /// Counts a request that ended. What the service does by itself counts elsewhere.
    #[inline]
    pub(super) fn count(&mut self, reply: &IoReply) {
        let Err(error) = reply.result else { return };
        if matches!(reply.token.owner(), EventOwner::Rebuild | EventOwner::Scrub) {
            return;
        }
        match error {
            VolumeError::Unreadable => self.reads += 1,
            VolumeError::Unwritable => self.writes += 1,
            VolumeError::OutOfRange | VolumeError::NotRebuilding | VolumeError::ReadOnly => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_request_names_its_token_and_buffer() {
        for owner in OWNERS {
            for key in [0, 77, (1 << KEY_BITS) - 1] {
                for buffer in [None, Some(BufferKey::from_slot(0)), Some(BufferKey::from_slot(9))] {
                    let name = RequestName { token: Token::new(owner, key), buffer };
                    assert_eq!(RequestName::of(name.id()), name);
                }
            }
        }
    }
}
