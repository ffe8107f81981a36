//! The chunk map: where a range of the volume lies, and what a range of a member holds.
//!
//! The way from the volume to its mirrors is the hottest of the simulator, so it allocates nothing
//! and searches nothing: an index by granules of 1 GiB names the chunk of a granule's first byte,
//! and from there it is at most a few short chunks forward. A granule holds many chunks only in an
//! array so small that 10 % of it is less than a granule, which has few chunks in all, and at the
//! end of the volume.
//!
//! The way back is a binary search among the chunks of the member.
//!
//! Striping: with g groups, strip s of a chunk lies in group s mod g, in row s div g of each of the
//! group's stripes.
//!
//! Source: `btrfs_map_block` of Linux 6.18 `fs/btrfs/volumes.c`.

use super::allocate::{Allocation, Allocator};
use super::{GeometryError, MAX_COPIES, Profile, RESERVED_BYTES, STRIP_BYTES, STRIP_SHIFT};
use crate::member::{MemberConfig, MemberIndex};
use crate::policy::Mirror;

/// Each granule of the lookup index covers 2^30 bytes of the volume: the length of most chunks.
const GRANULE_SHIFT: u32 = 30;

/// The layout of an array, allocated whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChunkMap {
    profile: Profile,
    copies: u32,
    striped: bool,
    capacity_bytes: u64,
    /// In the order of the volume, without gaps.
    spans: Vec<Span>,
    /// The stripes of all chunks, one chunk after the other.
    stripes: Vec<Stripe>,
    /// For each granule of the volume, the chunk that holds its first byte.
    granules: Vec<u32>,
    /// For each member, its share of each chunk it has part in, in the order of the member.
    shares: Vec<Vec<Share>>,
}

/// A run of one member that belongs to one chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stripe {
    /// The member.
    pub member: MemberIndex,
    /// Its first byte on that member.
    pub offset: u64,
}

/// A run of the volume that is mapped to members as a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk<'a> {
    /// First byte, on the volume.
    pub volume_offset: u64,
    /// Bytes of the volume.
    pub length: u64,
    /// Bytes that it takes of each of its members.
    pub stripe_bytes: u64,
    /// Where it lies, on distinct members; the emptiest at allocation first.
    pub stripes: &'a [Stripe],
}

/// A range of the volume that is one piece on each of its mirrors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MappedRange {
    /// Number of bytes.
    pub length: u64,
    /// The first `copies` are the mirrors, each on another member, in the order of the chunk's
    /// stripes; the rest repeats the first.
    pub mirrors: [Mirror; MAX_COPIES],
    /// How many mirrors there are: at least one.
    pub copies: u8,
}

/// The volume's view of a byte of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VolumeRange {
    /// The byte of the volume that the member holds there.
    pub volume_offset: u64,
    /// How many bytes from there on follow each other on the member and on the volume.
    pub length: u64,
}

/// What the map keeps of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Span {
    volume_offset: u64,
    length: u64,
    first_stripe: u32,
    /// Groups of one stripe per copy.
    groups: u32,
}

/// What the map keeps of a member's part in a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Share {
    offset: u64,
    span: u32,
    group: u32,
}

impl ChunkMap {
    /// Allocates an array of `members`, whole. `stripe_width_max` limits how many members a chunk
    /// of raid0 or raid10 spans, rounded down to whole groups; the width of the other profiles is
    /// fixed, and they ignore it. Of each member its devid and size count, nothing else.
    ///
    /// # Errors
    /// If the profile does not fit the number or the sizes of the members, or the width.
    pub fn allocate(
        profile: Profile,
        stripe_width_max: Option<usize>,
        members: &[MemberConfig],
    ) -> Result<ChunkMap, GeometryError> {
        let mut map = ChunkMap {
            profile,
            copies: profile.copies() as u32,
            striped: profile.is_striped(),
            capacity_bytes: 0,
            spans: Vec::new(),
            stripes: Vec::new(),
            granules: Vec::new(),
            shares: vec![Vec::new(); members.len()],
        };
        for allocation in Allocator::new(profile, stripe_width_max, members)? {
            map.append(&allocation);
        }
        Ok(map)
    }

    /// The profile it was allocated for.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Bytes of the volume.
    #[inline]
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// The chunks, in the order of the volume, without gaps.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = Chunk<'_>> {
        self.spans.iter().map(|span| {
            let first = span.first_stripe as usize;
            let width = (span.groups * self.copies) as usize;
            Chunk {
                volume_offset: span.volume_offset,
                length: span.length,
                stripe_bytes: span.stripe_bytes(),
                stripes: &self.stripes[first..first + width],
            }
        })
    }

    /// The longest beginning of the range that is one piece on each of its mirrors: up to the end
    /// of the strip on raid0 and raid10, up to the end of the chunk on the other profiles.
    ///
    /// # Panics
    /// If the range is empty or not within the volume.
    #[inline]
    pub fn map(&self, offset: u64, length: u64) -> MappedRange {
        let within_volume =
            offset < self.capacity_bytes && length <= self.capacity_bytes - offset && length > 0;
        assert!(within_volume, "{length} bytes at {offset} of {} bytes", self.capacity_bytes);
        let span = &self.spans[self.span_at(offset)];
        let within = offset - span.volume_offset;
        if self.striped {
            let strip = (within >> STRIP_SHIFT) as u32;
            let rest = within & (STRIP_BYTES - 1);
            let (row, group) = (strip / span.groups, strip % span.groups);
            let first = span.first_stripe + group * self.copies;
            let stripe_offset = (u64::from(row) << STRIP_SHIFT) | rest;
            self.extent(first, stripe_offset, length.min(STRIP_BYTES - rest))
        } else {
            self.extent(span.first_stripe, within, length.min(span.length - within))
        }
    }

    /// Which byte of the volume a byte of a member holds; `None` where nothing is allocated.
    ///
    /// # Panics
    /// If there is no such member.
    pub fn locate(&self, member: MemberIndex, offset: u64) -> Option<VolumeRange> {
        let shares = &self.shares[member.get()];
        let after = shares.partition_point(|share| share.offset <= offset);
        let share = &shares[after.checked_sub(1)?];
        let span = &self.spans[share.span as usize];
        let within = offset - share.offset;
        if within >= span.stripe_bytes() {
            return None;
        }
        if !self.striped {
            let volume_offset = span.volume_offset + within;
            return Some(VolumeRange { volume_offset, length: span.length - within });
        }
        let rest = within & (STRIP_BYTES - 1);
        let strip = (within >> STRIP_SHIFT) * u64::from(span.groups) + u64::from(share.group);
        let volume_offset = span.volume_offset + (strip << STRIP_SHIFT) + rest;
        Some(VolumeRange { volume_offset, length: STRIP_BYTES - rest })
    }

    /// Where the allocated part of a member ends. It begins at [`RESERVED_BYTES`] and has no gap,
    /// so who walks a member from there to here by [`ChunkMap::locate`] meets each of its bytes.
    ///
    /// # Panics
    /// If there is no such member.
    pub fn allocated_end(&self, member: MemberIndex) -> u64 {
        self.shares[member.get()].last().map_or(RESERVED_BYTES, |share| {
            share.offset + self.spans[share.span as usize].stripe_bytes()
        })
    }

    /// The index of the chunk that holds a byte of the volume.
    #[inline]
    fn span_at(&self, offset: u64) -> usize {
        let mut index = self.granules[(offset >> GRANULE_SHIFT) as usize] as usize;
        while offset - self.spans[index].volume_offset >= self.spans[index].length {
            index += 1;
        }
        index
    }

    /// The extent of a group that begins with stripe `first`.
    #[inline]
    fn extent(&self, first: u32, stripe_offset: u64, length: u64) -> MappedRange {
        let first = first as usize;
        let stripes = &self.stripes[first..first + self.copies as usize];
        let mirror = |copy: usize| {
            let stripe = stripes[copy];
            Mirror {
                member: stripe.member,
                offset: stripe.offset + stripe_offset,
                copy: copy as u8,
            }
        };
        let mut mirrors = [mirror(0); MAX_COPIES];
        for (copy, slot) in mirrors.iter_mut().enumerate().take(stripes.len()).skip(1) {
            *slot = mirror(copy);
        }
        MappedRange { length, mirrors, copies: self.copies as u8 }
    }

    /// Adds a chunk at the end of the volume.
    fn append(&mut self, allocation: &Allocation) {
        let groups = allocation.stripes.len() as u32 / self.copies;
        let span = Span {
            volume_offset: self.capacity_bytes,
            length: allocation.stripe_bytes * u64::from(groups),
            first_stripe: index_u32(self.stripes.len()),
            groups,
        };
        let index = index_u32(self.spans.len());
        for (place, stripe) in (0u32..).zip(&allocation.stripes) {
            let share = Share { offset: stripe.offset, span: index, group: place / self.copies };
            self.shares[stripe.member.get()].push(share);
        }
        self.stripes.extend_from_slice(&allocation.stripes);
        self.spans.push(span);
        self.capacity_bytes += span.length;
        let granules = self.capacity_bytes.div_ceil(1 << GRANULE_SHIFT);
        self.granules.resize(granules as usize, index);
    }
}

impl MappedRange {
    /// The mirrors, each on another member, in the order of the chunk's stripes.
    #[inline]
    pub fn mirrors(&self) -> &[Mirror] {
        &self.mirrors[..usize::from(self.copies)]
    }
}

impl Span {
    fn stripe_bytes(&self) -> u64 {
        self.length / u64::from(self.groups)
    }
}

fn index_u32(index: usize) -> u32 {
    u32::try_from(index).expect("the bound on an array's size keeps its chunks below 2^32")
}
