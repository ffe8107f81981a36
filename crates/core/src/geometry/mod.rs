//! Where each byte of a volume lies: profiles, chunks and strips, by btrfs's rules.
//!
//! An array is allocated whole, chunk by chunk, when it is made ([`ChunkMap::allocate`]); from then
//! on its [`ChunkMap`] answers in both directions: volume offset to mirrors, and (member, offset)
//! to volume offset. Because each chunk goes to the emptiest members, unequal sizes work, and the
//! order of a chunk's mirrors differs from chunk to chunk: policies that go by mirror order see
//! what they would see on btrfs.
//!
//! The model: a chunk is a run of the volume served by `stripes` (equal runs of distinct members).
//! Its stripes fall into *groups* of one stripe per copy, neighbours in the chunk's order. Single
//! and raid1* have one group, which holds the chunk in one piece. raid0 and raid10 deal 64 KiB
//! strips to their groups in turn.
//!
//! Non-goals: parity, metadata and system chunks, several holes in a member, freeing and balancing.
//!
//! Source: the chunk allocation and mapping rules of Linux 6.18 `fs/btrfs/volumes.c`, retold.

mod allocate;
mod error;
mod map;
mod profile;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;

pub use error::GeometryError;
pub use map::{Chunk, ChunkMap, MappedRange, Stripe, VolumeRange};
pub use profile::{Profile, ProfileRules, UnknownProfile};

use crate::units::MIB;

/// Bytes of a strip, the unit in which raid0 and raid10 deal the volume to their members; also the
/// unit of allocation (`BTRFS_STRIPE_LEN`).
pub const STRIP_BYTES: u64 = 1 << STRIP_SHIFT;

/// Bytes at the start of each member that are never allocated (`BTRFS_DEVICE_RANGE_RESERVED`).
pub const RESERVED_BYTES: u64 = MIB;

/// The most copies that any profile keeps.
pub const MAX_COPIES: usize = 4;

/// Bytes that all members of an array may hold together: 4 PiB. The limit is ours: the map grows by
/// the stripe, and without it a slip of a size suffix would exhaust the memory.
pub const ARRAY_BYTES_MAX: u64 = 1 << 52;

const STRIP_SHIFT: u32 = 16;
