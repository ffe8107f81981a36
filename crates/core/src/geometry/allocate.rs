//! The chunk allocator: fills an empty array with chunks until none fits.
//!
//! For each chunk, as btrfs does it for data:
//!
//! 1. Candidates are the members with space for at least a strip, sorted by their largest hole
//!    (counted up to 1 GiB), then by all their unallocated space, emptiest first. btrfs sorts with
//!    an unstable heapsort, which leaves equals in an unspecified order; sorting equals by
//!    ascending devid is our choice.
//! 2. The width is their number rounded down to the profile's increment, at most its maximum.
//! 3. Each stripe is as long as the smallest hole among the chosen, so at most 1 GiB. If the chunk
//!    would exceed 10 % of the array or 10 GiB, the stripe shrinks to an even share of that,
//!    rounded up to 16 MiB but never beyond what it was. Last, it is rounded down to strips.
//!
//! `stripe_width_max` is our addition: it lowers the maximum of striped profiles in step 2.
//!
//! A member is one hole that shrinks from its front: nothing is ever freed here, so the chunks of a
//! member follow each other without a gap. Every chunk shorter than the limits use up a member, so
//! the list of chunks stays short.
//!
//! Source: `__btrfs_alloc_chunk` and its helpers, Linux 6.18 `fs/btrfs/volumes.c`.

use super::{
    ARRAY_BYTES_MAX, GeometryError, MEMBER_BYTES_MIN, PARITY_WIDTH_MAX, Profile, ProfileRules,
    RESERVED_BYTES, STRIP_BYTES,
};
use crate::member::{MemberConfig, MemberIndex};
use crate::units::{GIB, MIB};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

const STRIPE_BYTES_MAX: u64 = GIB;
/// The longest data chunk of a large array, before rounding (`BTRFS_MAX_DATA_CHUNK_SIZE`).
const CHUNK_BYTES_MAX: u64 = 10 * GIB;
/// A chunk takes at most one part in this many of a small array: 10 %.
const CHUNK_SHARE: u64 = 10;
/// Stripes that had to shrink are rounded up to a multiple of this.
const SHRUNK_STRIPE_UNIT: u64 = 16 * MIB;

/// The strips of one member that belong to one group of one chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stripe {
    pub member: MemberIndex,
    /// From one strip of the stripe to the next, in strips: 1 if they follow each other.
    pub rows: u32,
    /// First byte, on that member.
    pub offset: u64,
}

pub(super) struct ChunkAllocation {
    pub(super) length: u64,
    /// The stripes, those of one group after the other; on btrfs, emptiest member first.
    pub(super) stripes: Vec<Stripe>,
}

/// The state of an allocation in progress; yields one chunk after the other until the array is
/// full.
pub(super) struct Allocator {
    rules: ProfileRules,
    chunk_bytes_max: u64,
    /// The members with space for a strip. The heap's order is that of the sort, so a chunk costs
    /// the logarithm of the number of members, not a sort of all of them.
    free: BinaryHeap<FreeSpace>,
    /// The members of the chunk being allocated; empty between chunks.
    chosen: Vec<FreeSpace>,
}

/// The unallocated space of a member: one hole.
#[derive(Clone, Copy)]
struct FreeSpace {
    member: MemberIndex,
    devid: u64,
    offset: u64,
    /// End of the hole and of the member.
    end: u64,
}

impl Allocator {
    /// An allocator for an empty array. `stripe_width_max` limits how many members a chunk of a
    /// striped profile spans; other profiles have a fixed width and ignore it. Fails if the profile
    /// does not fit the number or the sizes of the members, or the width.
    pub(super) fn new(
        profile: Profile,
        stripe_width_max: Option<usize>,
        members: &[MemberConfig],
    ) -> Result<Allocator, GeometryError> {
        let total_bytes = check(profile, members)?;
        let free = members.iter().enumerate().map(|(index, config)| FreeSpace {
            member: MemberIndex(u16::try_from(index).expect("an array has at most 2^16 members")),
            devid: config.devid,
            offset: RESERVED_BYTES,
            end: config.size_bytes,
        });
        Ok(Allocator {
            rules: narrowed(profile, stripe_width_max, members.len())?,
            chunk_bytes_max: CHUNK_BYTES_MAX.min(total_bytes / CHUNK_SHARE),
            free: free.filter(FreeSpace::has_strip).collect(),
            chosen: Vec::new(),
        })
    }

    /// Stripes of a chunk of `width` stripes that count for its length.
    fn data_stripes(&self, width: usize) -> u64 {
        ((width - self.rules.parities) / self.rules.copies) as u64
    }

    /// Length of each stripe of a chunk of `width` stripes whose smallest hole has `hole_bytes`.
    fn stripe_bytes(&self, hole_bytes: u64, width: usize) -> u64 {
        let data_stripes = self.data_stripes(width);
        let mut bytes = hole_bytes;
        if hole_bytes * data_stripes > self.chunk_bytes_max {
            let share_bytes = self.chunk_bytes_max / data_stripes;
            bytes = bytes.min(share_bytes.next_multiple_of(SHRUNK_STRIPE_UNIT));
        }
        bytes - bytes % STRIP_BYTES
    }
}

impl Iterator for Allocator {
    type Item = ChunkAllocation;

    fn next(&mut self) -> Option<ChunkAllocation> {
        let candidates = self.free.len();
        let usable = candidates - candidates % self.rules.members_increment;
        if usable < self.rules.members_min {
            return None;
        }
        let width = usable.min(self.rules.members_max);
        let mut chosen = std::mem::take(&mut self.chosen);
        chosen.extend((0..width).map_while(|_| self.free.pop()));
        let stripe_bytes = self.stripe_bytes(chosen[width - 1].hole_bytes(), width);
        let stripe =
            |free: &FreeSpace| Stripe { member: free.member, rows: 1, offset: free.offset };
        let stripes = chosen.iter().map(stripe).collect();
        chosen.iter_mut().for_each(|free| free.offset += stripe_bytes);
        self.free.extend(chosen.drain(..).filter(FreeSpace::has_strip));
        self.chosen = chosen;
        Some(ChunkAllocation { length: stripe_bytes * self.data_stripes(width), stripes })
    }
}

impl FreeSpace {
    fn unallocated_bytes(&self) -> u64 {
        self.end - self.offset
    }

    /// Size of the hole, up to the longest stripe.
    fn hole_bytes(&self) -> u64 {
        self.unallocated_bytes().min(STRIPE_BYTES_MAX)
    }

    /// Returns true if the member can take part in another chunk.
    fn has_strip(&self) -> bool {
        self.hole_bytes() >= STRIP_BYTES
    }

    /// Larger is chosen first.
    fn rank(&self) -> (u64, u64, Reverse<u64>) {
        (self.hole_bytes(), self.unallocated_bytes(), Reverse(self.devid))
    }
}

impl Ord for FreeSpace {
    fn cmp(&self, other: &FreeSpace) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for FreeSpace {
    fn partial_cmp(&self, other: &FreeSpace) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for FreeSpace {
    fn eq(&self, other: &FreeSpace) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for FreeSpace {}

/// Checks number and sizes of the members, and sums the sizes up.
fn check(profile: Profile, members: &[MemberConfig]) -> Result<u64, GeometryError> {
    if members.len() < profile.rules().members_min {
        return Err(GeometryError::TooFewMembers { profile, members: members.len() });
    }
    let small = |config: &&MemberConfig| config.size_bytes < MEMBER_BYTES_MIN;
    if let Some(&MemberConfig { devid, size_bytes, .. }) = members.iter().find(small) {
        let needed = MEMBER_BYTES_MIN;
        return Err(GeometryError::MemberTooSmall { devid, size_bytes, needed });
    }
    let total_bytes =
        members.iter().fold(0u64, |total, config| total.saturating_add(config.size_bytes));
    if total_bytes > ARRAY_BYTES_MAX {
        return Err(GeometryError::ArrayTooLarge { total_bytes });
    }
    Ok(total_bytes)
}

/// The profile's rules with the widest chunk no wider than `stripe_width_max`.
fn narrowed(
    profile: Profile,
    stripe_width_max: Option<usize>,
    members: usize,
) -> Result<ProfileRules, GeometryError> {
    let mut rules = *profile.rules();
    if let Some(stripe_width_max) = stripe_width_max.filter(|_| profile.is_striped()) {
        rules.members_max = stripe_width_max - stripe_width_max % rules.members_increment;
        if rules.members_max < rules.members_min {
            return Err(GeometryError::StripeWidthTooSmall { profile, stripe_width_max });
        }
    }
    let width = stripe_width_max.unwrap_or(members).min(members);
    if rules.parities > 0 && width > PARITY_WIDTH_MAX {
        return Err(GeometryError::StripeTooWide { profile, width, is_btrfs: true });
    }
    Ok(rules)
}
