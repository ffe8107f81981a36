//! The geometry of a volume: how data lies on members, by the rules of btrfs, md, LVM, ZFS and
//! gmirror.
//!
//! An array is laid out whole when it is created: by btrfs's rules chunk by chunk
//! ([`ChunkMap::allocate`]), by those of another [`ArrayLayout`] from a formula
//! ([`ChunkMap::arrange`]). Its [`ChunkMap`] maps in both directions: volume offset to mirrors, and
//! (member, offset) to volume offset. Policies that use the order of mirrors see the order that
//! they would see on the system: on btrfs it differs from chunk to chunk, on md it is that of near
//! copies, then far ones.
//!
//! The model: a chunk is a range of the volume whose strips are distributed over *groups* in turn.
//! A group has one *stripe* for each copy, on distinct members: strips of that member, each a fixed
//! number of rows after the one before. On btrfs, stripes are contiguous and strips have 64 KiB; a
//! chunk of single and raid1* has one group, which holds it in one piece.
//!
//! With parity, a chunk is rows of one strip on each of its members, and a row has the data of a
//! [`FullStripe`] and their parity, at positions that change from row to row (`rotation`).
//!
//! Non-goals: metadata and system chunks, several holes in a member, freeing and balancing.
//!
//! Sources: the chunk allocation and mapping rules of Linux 6.18 `fs/btrfs/volumes.c`, in our own
//! words; for the others see [`ArrayLayout`].

mod allocate;
mod arrange;
mod error;
mod layout;
#[cfg(test)]
mod layout_tests;
mod map;
mod parity;
#[cfg(test)]
mod parity_tests;
mod profile;
#[cfg(test)]
mod property_tests;
mod rotation;
#[cfg(test)]
mod tests;

pub use allocate::Stripe;
pub use arrange::MemberAround;
pub use error::GeometryError;
pub use layout::{ArrayLayout, LayoutError, LayoutKind};
pub use map::{Chunk, ChunkMap, MappedRange, VolumeRange};
pub use parity::{FullStripe, StripeColumn};
pub use profile::{Profile, ProfileRules, UnknownProfile};

use crate::policy::Mirror;
use crate::units::{KIB, MIB};
use smallvec::SmallVec;

/// Bytes of a strip of btrfs, the unit in which raid0 and raid10 distribute the volume over
/// members; also the unit of allocation (`BTRFS_STRIPE_LEN`).
pub const STRIP_BYTES: u64 = 64 * KIB;

/// Bytes at the start of each member that btrfs never allocates (`BTRFS_DEVICE_RANGE_RESERVED`).
pub const RESERVED_BYTES: u64 = MIB;

/// The least size of a member of btrfs: a strip behind the reserved bytes.
pub const MEMBER_BYTES_MIN: u64 = RESERVED_BYTES + STRIP_BYTES;

/// The largest number of copies of any profile or layout: system partitions of a NAS have one in
/// each bay. md and gmirror allow more copies: arrays that have them are refused.
pub const MAX_COPIES: usize = 16;

/// The mirrors of a piece. More than four, which few arrays have, are allocated.
pub type Mirrors = SmallVec<[Mirror; 4]>;

/// The largest number of members of a row of strips with parity. The limit is ours: sets of members
/// of a row have 64 bits.
pub const PARITY_WIDTH_MAX: usize = 64;

/// Limit of the sum of all member sizes: 4 PiB. The limit is ours: the map grows with each stripe,
/// so a mistyped size suffix could exhaust the memory.
pub const ARRAY_BYTES_MAX: u64 = 1 << 52;
