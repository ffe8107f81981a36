//! The chunk map: volume ranges to mirrors, and member ranges to volume ranges.
//!
//! Mapping to mirrors is on the hot path of the simulator, so it neither allocates nor searches: an
//! index by granules of 1 GiB names the chunk of a granule's first byte, and the wanted chunk is at
//! most a few short chunks further. A granule holds many chunks only in an array so small that 10 %
//! of it is less than a granule, which has few chunks in all, and at the end of the volume.
//!
//! Mapping back is a binary search among the chunks of the member.
//!
//! Striping: with g groups, strip s of a chunk lies in group s mod g, in row s div g of each of the
//! group's stripes.
//!
//! Source: `btrfs_map_block` of Linux 6.18 `fs/btrfs/volumes.c`.

use super::allocate::{Allocation, Allocator, Stripe};
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
    chunks: Vec<ChunkRecord>,
    /// The stripes of all chunks, one chunk after the other.
    stripes: Vec<Stripe>,
    /// For each granule of the volume, the chunk that holds its first byte.
    granules: Vec<u32>,
    /// For each member, its stripes in the order of their offsets.
    member_stripes: Vec<Vec<MemberStripe>>,
}

/// A range of the volume that is mapped to members as a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk<'a> {
    /// First byte, on the volume.
    pub volume_offset: u64,
    /// Bytes of the volume.
    pub length: u64,
    /// Bytes on each of its members.
    pub stripe_bytes: u64,
    /// Its stripes, on distinct members; the emptiest at allocation first.
    pub stripes: &'a [Stripe],
}

/// A range of the volume that is one piece on each of its mirrors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MappedRange {
    /// Number of bytes.
    pub length: u64,
    /// The first `copies` are the mirrors, on distinct members, in the order of the chunk's
    /// stripes; the rest repeats the first.
    pub mirrors: [Mirror; MAX_COPIES],
    /// Number of mirrors: at least one.
    pub copies: u8,
}

/// The range of the volume that a range of a member holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VolumeRange {
    /// First byte, on the volume.
    pub volume_offset: u64,
    /// Number of bytes that are contiguous on the member and on the volume.
    pub length: u64,
}

/// A chunk as the map stores it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ChunkRecord {
    volume_offset: u64,
    length: u64,
    first_stripe: u32,
    /// Groups of one stripe per copy.
    groups: u32,
}

/// A stripe as the map stores it for its member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct MemberStripe {
    offset: u64,
    chunk: u32,
    group: u32,
}

impl ChunkMap {
    /// Allocates an array of `members` whole. `stripe_width_max` limits how many members a chunk
    /// of raid0 or raid10 spans, rounded down to whole groups; the width of the other profiles is
    /// fixed. Only the devid and the size of each member count.
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
            chunks: Vec::new(),
            stripes: Vec::new(),
            granules: Vec::new(),
            member_stripes: vec![Vec::new(); members.len()],
        };
        for allocation in Allocator::new(profile, stripe_width_max, members)? {
            map.append(&allocation);
        }
        Ok(map)
    }

    /// The profile of the array.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Size of the volume in bytes.
    #[inline]
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// The chunks, in the order of the volume, without gaps.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = Chunk<'_>> {
        self.chunks.iter().map(|chunk| {
            let first = chunk.first_stripe as usize;
            let width = (chunk.groups * self.copies) as usize;
            Chunk {
                volume_offset: chunk.volume_offset,
                length: chunk.length,
                stripe_bytes: chunk.stripe_bytes(),
                stripes: &self.stripes[first..first + width],
            }
        })
    }

    /// The sets of members that hold the same data, and where those data end on each member. Each
    /// byte of the volume belongs to one set.
    pub fn mirror_sets(&self) -> impl Iterator<Item = impl Iterator<Item = (MemberIndex, u64)>> {
        let copies = self.copies as usize;
        self.chunks.iter().flat_map(move |chunk| {
            let first = chunk.first_stripe as usize;
            let stripes = &self.stripes[first..first + chunk.groups as usize * copies];
            let stripe_bytes = chunk.stripe_bytes();
            let end = move |stripe: &Stripe| (stripe.member, stripe.offset + stripe_bytes);
            stripes.chunks_exact(copies).map(move |set| set.iter().map(end))
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
        let chunk = &self.chunks[self.chunk_at(offset)];
        let within = offset - chunk.volume_offset;
        if self.striped {
            let strip = (within >> STRIP_SHIFT) as u32;
            let rest = within & (STRIP_BYTES - 1);
            let (row, group) = (strip / chunk.groups, strip % chunk.groups);
            let first = chunk.first_stripe + group * self.copies;
            let stripe_offset = (u64::from(row) << STRIP_SHIFT) | rest;
            self.mapped_range(first, stripe_offset, length.min(STRIP_BYTES - rest))
        } else {
            self.mapped_range(chunk.first_stripe, within, length.min(chunk.length - within))
        }
    }

    /// The range of the volume that a member holds from `offset` on; `None` if nothing is allocated
    /// there.
    ///
    /// # Panics
    /// If there is no such member.
    pub fn locate(&self, member: MemberIndex, offset: u64) -> Option<VolumeRange> {
        let stripes = &self.member_stripes[member.get()];
        let after = stripes.partition_point(|stripe| stripe.offset <= offset);
        let stripe = &stripes[after.checked_sub(1)?];
        let chunk = &self.chunks[stripe.chunk as usize];
        let within = offset - stripe.offset;
        if within >= chunk.stripe_bytes() {
            return None;
        }
        if !self.striped {
            let volume_offset = chunk.volume_offset + within;
            return Some(VolumeRange { volume_offset, length: chunk.length - within });
        }
        let rest = within & (STRIP_BYTES - 1);
        let strip = (within >> STRIP_SHIFT) * u64::from(chunk.groups) + u64::from(stripe.group);
        let volume_offset = chunk.volume_offset + (strip << STRIP_SHIFT) + rest;
        Some(VolumeRange { volume_offset, length: STRIP_BYTES - rest })
    }

    /// End of the allocated part of a member. The part begins at [`RESERVED_BYTES`] and has no gap.
    ///
    /// # Panics
    /// If there is no such member.
    pub fn allocated_end(&self, member: MemberIndex) -> u64 {
        self.member_stripes[member.get()].last().map_or(RESERVED_BYTES, |stripe| {
            stripe.offset + self.chunks[stripe.chunk as usize].stripe_bytes()
        })
    }

    /// The index of the chunk that holds a byte of the volume.
    #[inline]
    fn chunk_at(&self, offset: u64) -> usize {
        let mut index = self.granules[(offset >> GRANULE_SHIFT) as usize] as usize;
        while offset - self.chunks[index].volume_offset >= self.chunks[index].length {
            index += 1;
        }
        index
    }

    /// The mapped range of a group that begins with stripe `first`.
    #[inline]
    fn mapped_range(&self, first: u32, stripe_offset: u64, length: u64) -> MappedRange {
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
        let chunk = ChunkRecord {
            volume_offset: self.capacity_bytes,
            length: allocation.stripe_bytes * u64::from(groups),
            first_stripe: index_u32(self.stripes.len()),
            groups,
        };
        let index = index_u32(self.chunks.len());
        for (number, stripe) in (0u32..).zip(&allocation.stripes) {
            let group = number / self.copies;
            let member_stripe = MemberStripe { offset: stripe.offset, chunk: index, group };
            self.member_stripes[stripe.member.get()].push(member_stripe);
        }
        self.stripes.extend_from_slice(&allocation.stripes);
        self.chunks.push(chunk);
        self.capacity_bytes += chunk.length;
        let granules = self.capacity_bytes.div_ceil(1 << GRANULE_SHIFT);
        self.granules.resize(granules as usize, index);
    }
}

impl MappedRange {
    /// The mirrors, on distinct members, in the order of the chunk's stripes.
    #[inline]
    pub fn mirrors(&self) -> &[Mirror] {
        &self.mirrors[..usize::from(self.copies)]
    }
}

impl ChunkRecord {
    fn stripe_bytes(&self) -> u64 {
        self.length / u64::from(self.groups)
    }
}

fn index_u32(index: usize) -> u32 {
    u32::try_from(index).expect("the bound on an array's size keeps its chunks below 2^32")
}
