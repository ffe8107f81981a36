//! Requests to an executor, their replies, and the count of those that failed.

use crate::driver::buffers::BufferKey;
use crate::driver::{EventOwner, Token};
use mirrorball_core::io::{RequestKind, VolumeError};
use mirrorball_core::member::MemberIndex;

mirrorball_core::slab_key! {
    pub(super) struct IoRequestKey;
}

mirrorball_core::slab_key! {
    /// Names a member I/O that is not completed; its slot is in the tokens of its parts.
    pub(super) struct ActiveIoKey;
}

/// Where an I/O of a member goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum IoPlace {
    Member,
    /// To the member and its successor.
    Both,
    /// To the successor, because it copies what the member has.
    Successor,
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
    /// The CPU of the request, for policies that decide for each CPU. The CPUs of clients are not
    /// known here, so each stream counts as one: a connection of NBD, a process with FUSE.
    pub(super) fn cpu(&self) -> u32 {
        self.stream as u32
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
    pub(super) fn count(&mut self, request: &IoRequest, result: Result<(), VolumeError>) {
        let Err(error) = result else { return };
        if matches!(request.token.owner(), EventOwner::Rebuild | EventOwner::Scrub) {
            return;
        }
        match error {
            VolumeError::Unreadable => self.reads += 1,
            VolumeError::Unwritable => self.writes += 1,
            VolumeError::OutOfRange | VolumeError::NotRebuilding | VolumeError::ReadOnly => {}
        }
    }
}
