//! The geometry of a volume: profiles, chunks and strips, by btrfs's rules.
//!
//! An array is allocated whole, chunk by chunk, when it is created ([`ChunkMap::allocate`]). Its
//! [`ChunkMap`] maps in both directions: volume offset to mirrors, and (member, offset) to volume
//! offset. Each chunk goes to the emptiest members, so members of unequal size work, and the order
//! of a chunk's mirrors differs from chunk to chunk: policies that use mirror order see the order
//! that they would see on btrfs.
//!
//! The model: a chunk is a range of the volume that is held by *stripes*, equal ranges of distinct
//! members. Its stripes form *groups* of one stripe per copy, neighbours in the chunk's order.
//! Single and raid1* have one group, which holds the chunk in one piece. raid0 and raid10
//! distribute 64 KiB strips over their groups in turn.
//!
//! Non-goals: parity, metadata and system chunks, several holes in a member, freeing and balancing.
//!
//! Source: the chunk allocation and mapping rules of Linux 6.18 `fs/btrfs/volumes.c`, in our own
//! words.

mod allocate;
mod error;
mod map;
mod profile;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;

pub use allocate::Stripe;
pub use error::GeometryError;
pub use map::{Chunk, ChunkMap, MappedRange, VolumeRange};
pub use profile::{Profile, ProfileRules, UnknownProfile};

use crate::units::MIB;

/// Bytes of a strip, the unit in which raid0 and raid10 distribute the volume over members; also
/// the unit of allocation (`BTRFS_STRIPE_LEN`).
pub const STRIP_BYTES: u64 = 1 << STRIP_SHIFT;

/// Bytes at the start of each member that are never allocated (`BTRFS_DEVICE_RANGE_RESERVED`).
pub const RESERVED_BYTES: u64 = MIB;

/// The largest number of copies of any profile.
pub const MAX_COPIES: usize = 4;

/// Limit of the sum of all member sizes: 4 PiB. The limit is ours: the map grows with each stripe,
/// so a mistyped size suffix could exhaust the memory.
pub const ARRAY_BYTES_MAX: u64 = 1 << 52;

const STRIP_SHIFT: u32 = 16;
