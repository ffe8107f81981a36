//! The chunk map: volume ranges to mirrors, and member ranges to volume ranges.
//!
//! Mapping to mirrors is on the hot path of the simulator, so it does not search: an
//! index by granules of 1 GiB names the chunk of a granule's first byte, and the wanted chunk is at
//! most a few short chunks further. A granule holds many chunks only in an array so small that 10 %
//! of it is less than a granule, which has few chunks in all, and at the end of the volume.
//!
//! Mapping back is a binary search among the zones of the member. A zone is a contiguous range of a
//! member that holds stripes of one chunk: one stripe on btrfs, else one for each row, interleaved.
//!
//! Striping: with g groups, strip s of a chunk lies in group s mod g, as strip s div g of each of
//! the group's stripes.
//!
//! With parity, the stripes of a chunk are one for each of its members and hold a strip of each
//! row; see `parity`.
//!
//! Source: `btrfs_map_block` of Linux 6.18 `fs/btrfs/volumes.c`; the rules of other layouts reduce
//! to the same form (see `arrange`).

use super::allocate::{Allocator, ChunkAllocation, Stripe};
use super::arrange::{Arranged, arrange, existing_copies};
use super::rotation::ParityRules;
use super::{ArrayLayout, GeometryError, Mirrors, Profile, RESERVED_BYTES, STRIP_BYTES};
use crate::member::{MemberConfig, MemberIndex};
use crate::policy::Mirror;
use std::ops::Range;

/// Each granule of the lookup index covers 2^30 bytes of the volume: the length of most chunks.
const GRANULE_SHIFT: u32 = 30;

/// The layout of an array, allocated whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChunkMap {
    profile: Profile,
    layout: ArrayLayout,
    copies: u32,
    striped: bool,
    pub(super) parity: Option<ParityRules>,
    /// A strip has 2^this bytes.
    pub(super) strip_shift: u32,
    /// First byte of the data of each member.
    start_bytes: u64,
    capacity_bytes: u64,
    /// In the order of the volume, without gaps.
    pub(super) chunks: Vec<ChunkRecord>,
    /// The stripes of all chunks, one chunk after the other.
    pub(super) stripes: Vec<Stripe>,
    /// For each granule of the volume, the chunk that holds its first byte.
    granules: Vec<u32>,
    /// For each member, its zones in the order of their offsets.
    zones: Vec<Vec<MemberZone>>,
    /// For each zone, the groups of its first rows, after which they repeat.
    pub(super) zone_groups: Vec<u32>,
}

/// A range of the volume that is mapped to members as a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk<'a> {
    /// First byte, on the volume.
    pub volume_offset: u64,
    pub length: u64,
    /// Bytes of each stripe; without the last strip if only the first groups have one more.
    pub stripe_bytes: u64,
    /// Stripes, those of one group after the other. The stripes of a group are on distinct
    /// members, on btrfs those of all groups, the emptiest at allocation first.
    pub stripes: &'a [Stripe],
}

/// A range of the volume that is one piece on each of its mirrors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MappedRange {
    pub length: u64,
    /// The mirrors, at least one, on distinct members, in the order of the chunk's stripes.
    pub mirrors: Mirrors,
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
pub(super) struct ChunkRecord {
    pub(super) volume_offset: u64,
    pub(super) length: u64,
    pub(super) first_stripe: u32,
    /// Groups of one stripe per copy; with parity, one for each member.
    pub(super) groups: u32,
}

/// A range of a member that holds strips of one chunk without a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MemberZone {
    pub(super) offset: u64,
    pub(super) chunk: u32,
    /// Index of the group of its first row in `zone_groups`.
    pub(super) first_group: u32,
}

impl ChunkMap {
    /// Allocates an array of `members` whole. `stripe_width_max` limits how many members a chunk of
    /// raid0 or raid10 spans, rounded down to whole groups; the width of the other profiles is
    /// fixed. Only the devid and the size of each member count. Fails if the profile does not fit
    /// the number or the sizes of the members, or the width.
    pub fn allocate(
        profile: Profile,
        stripe_width_max: Option<usize>,
        members: &[MemberConfig],
    ) -> Result<ChunkMap, GeometryError> {
        let mut map = ChunkMap::empty(ArrayLayout::BTRFS, profile, members.len());
        map.copies = profile.copies() as u32;
        map.striped = profile.is_striped();
        map.parity = parity_rules(profile, ArrayLayout::BTRFS);
        for allocation in Allocator::new(profile, stripe_width_max, members)? {
            map.append(&allocation);
        }
        Ok(map)
    }

    /// Lays out an array of `members` as a system other than btrfs does. Only the devid and the
    /// size of each member count. Fails if the layout does not fit the number or the sizes of the
    /// members. Panics if the layout is that of btrfs, which needs a profile.
    pub fn arrange(
        layout: ArrayLayout,
        members: &[MemberConfig],
    ) -> Result<ChunkMap, GeometryError> {
        Ok(ChunkMap::arranged(layout, members.len(), arrange(layout, members)?))
    }

    /// The map of an md raid1 whose metadata say where the data are: on each of `members` members,
    /// `length` bytes from the byte `start_bytes` on. Panics if there are no members, more than
    /// [`MAX_COPIES`](super::MAX_COPIES), or no data.
    pub fn md_raid1(members: usize, start_bytes: u64, length: u64) -> ChunkMap {
        assert!((1..=super::MAX_COPIES).contains(&members), "{members} members have no map");
        assert!(length > 0, "an array has data");
        let layout: ArrayLayout = "md-raid1".parse().expect("a name in the table of layouts");
        ChunkMap::arranged(layout, members, existing_copies(layout, members, start_bytes, length))
    }

    fn arranged(layout: ArrayLayout, members: usize, arranged: Arranged) -> ChunkMap {
        let profile = layout.profile(members).expect("a layout other than btrfs's");
        let Arranged { copies, start_bytes, strip_bytes, allocations } = arranged;
        let mut map = ChunkMap::empty(layout, profile, members);
        map.copies = copies as u32;
        map.start_bytes = start_bytes;
        map.striped = strip_bytes.is_some();
        map.parity = parity_rules(profile, layout);
        map.strip_shift = strip_bytes.unwrap_or(STRIP_BYTES).ilog2();
        for allocation in allocations {
            map.append(&allocation);
        }
        // The copies of md's far layout lie one after the other on each member.
        map.zones.iter_mut().for_each(|zones| zones.sort_by_key(|zone| zone.offset));
        map
    }

    /// A map without chunks, of one copy of strips as btrfs has them.
    fn empty(layout: ArrayLayout, profile: Profile, members: usize) -> ChunkMap {
        ChunkMap {
            profile,
            layout,
            copies: 1,
            striped: false,
            parity: None,
            strip_shift: STRIP_BYTES.ilog2(),
            start_bytes: RESERVED_BYTES,
            capacity_bytes: 0,
            chunks: Vec::new(),
            stripes: Vec::new(),
            granules: Vec::new(),
            zones: vec![Vec::new(); members],
            zone_groups: Vec::new(),
        }
    }

    pub fn profile(&self) -> Profile {
        self.profile
    }

    pub fn layout(&self) -> ArrayLayout {
        self.layout
    }

    /// Number of copies of each byte, on distinct members.
    pub fn copies(&self) -> usize {
        self.copies as usize
    }

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
                stripe_bytes: chunk.length / self.data_groups(chunk),
                stripes: &self.stripes[first..first + width],
            }
        })
    }

    /// The sets of members that hold the same data, or with parity, data and their parity; and
    /// where they end on each member. Each byte of the volume belongs to one set.
    pub fn mirror_sets(&self) -> impl Iterator<Item = impl Iterator<Item = (MemberIndex, u64)>> {
        let copies = self.copies as usize;
        self.chunks.iter().flat_map(move |chunk| {
            let first = chunk.first_stripe as usize;
            let width = chunk.groups as usize * copies;
            let stripes = &self.stripes[first..first + width];
            let set_size = if self.parity.is_some() { width } else { copies };
            // A chunk shorter than a period has no strip in its last groups.
            let held = chunk.length.div_ceil(1 << self.strip_shift).max(1);
            let sets = stripes.chunks_exact(set_size).zip(0..held);
            sets.map(move |(set, group)| {
                set.iter().map(move |stripe| (stripe.member, self.stripe_end(chunk, group, stripe)))
            })
        })
    }

    /// The longest beginning of the range that is one piece on each of its mirrors: up to the end
    /// of the strip where data are striped, else up to the end of the chunk. Panics if the range is
    /// empty or not within the volume.
    #[inline(always)]
    pub fn map(&self, offset: u64, length: u64) -> MappedRange {
        let within_volume =
            offset < self.capacity_bytes && length <= self.capacity_bytes - offset && length > 0;
        assert!(within_volume, "{length} bytes at {offset} of {} bytes", self.capacity_bytes);
        let chunk = &self.chunks[self.chunk_at(offset)];
        let within = offset - chunk.volume_offset;
        if self.striped {
            if let Some(parity) = self.parity {
                return self.map_with_parity(parity, offset, length);
            }
            let strip = (within >> self.strip_shift) as u32;
            let strip_bytes = 1 << self.strip_shift;
            let rest = within & (strip_bytes - 1);
            let (row, group) = (strip / chunk.groups, strip % chunk.groups);
            let first = chunk.first_stripe + group * self.copies;
            self.mapped_range(first, row, rest, length.min(strip_bytes - rest))
        } else {
            self.mapped_range(chunk.first_stripe, 0, within, length.min(chunk.length - within))
        }
    }

    /// The range of the volume that a member holds from `offset` on; `None` if nothing is allocated
    /// there, or parity. Panics if there is no such member.
    pub fn locate(&self, member: MemberIndex, offset: u64) -> Option<VolumeRange> {
        if self.parity.is_some() {
            return self.locate_with_parity(member, offset);
        }
        let zone = self.zone_at(member, offset)?;
        let chunk = &self.chunks[zone.chunk as usize];
        let within = offset - zone.offset;
        let (within, piece_bytes) = if self.striped {
            let strip_bytes = 1 << self.strip_shift;
            let rest = within & (strip_bytes - 1);
            let groups = self.groups_of(zone, member);
            let row = within >> self.strip_shift;
            let rows = groups.len() as u64;
            let group = u64::from(groups[(row % rows) as usize]);
            let strip = row / rows * u64::from(chunk.groups) + group;
            ((strip << self.strip_shift) + rest, strip_bytes - rest)
        } else {
            (within, u64::MAX)
        };
        // The last strip may be shorter.
        let left = chunk.length.checked_sub(within).filter(|&left| left > 0)?;
        let volume_offset = chunk.volume_offset + within;
        Some(VolumeRange { volume_offset, length: piece_bytes.min(left) })
    }

    /// The allocated part of a member, which has no gap; empty if there is none. Panics if there is
    /// no such member.
    pub fn allocated(&self, member: MemberIndex) -> Range<u64> {
        let end = self.zones[member.get()].last().map_or(self.start_bytes, |zone| {
            let chunk = &self.chunks[zone.chunk as usize];
            if self.parity.is_some() || chunk.groups == 1 {
                return zone.offset + chunk.length / self.data_groups(chunk);
            }
            let strips = chunk.length >> self.strip_shift;
            let (periods, rest) =
                (strips / u64::from(chunk.groups), strips % u64::from(chunk.groups));
            let groups = self.groups_of(zone, member);
            let more = groups.iter().filter(|group| u64::from(**group) < rest).count();
            zone.offset + ((periods * groups.len() as u64 + more as u64) << self.strip_shift)
        });
        self.start_bytes..end
    }

    /// The last zone of a member that begins at or before an offset.
    pub(super) fn zone_at(&self, member: MemberIndex, offset: u64) -> Option<&MemberZone> {
        let zones = &self.zones[member.get()];
        let after = zones.partition_point(|zone| zone.offset <= offset);
        Some(&zones[after.checked_sub(1)?])
    }

    pub(super) fn chunk_holding(&self, offset: u64) -> &ChunkRecord {
        &self.chunks[self.chunk_at(offset)]
    }

    fn data_groups(&self, chunk: &ChunkRecord) -> u64 {
        let parities = self.parity.map_or(0, |parity| parity.parities);
        u64::from(chunk.groups - parities)
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

    /// End of the data of a stripe of group `group`, on its member.
    fn stripe_end(&self, chunk: &ChunkRecord, group: u64, stripe: &Stripe) -> u64 {
        if self.parity.is_some() {
            return stripe.offset + chunk.length / self.data_groups(chunk);
        }
        if !self.striped || (chunk.groups, stripe.rows) == (1, 1) {
            return stripe.offset + chunk.length;
        }
        let strips = chunk.length >> self.strip_shift;
        let last = (strips - group.min(strips)).div_ceil(u64::from(chunk.groups)).checked_sub(1);
        let rows = last.map_or(0, |last| last * u64::from(stripe.rows) + 1);
        stripe.offset + (rows << self.strip_shift)
    }

    /// The groups of the rows of a member's zone.
    fn groups_of(&self, zone: &MemberZone, member: MemberIndex) -> &[u32] {
        let groups = &self.zone_groups[zone.first_group as usize..];
        let chunk = &self.chunks[zone.chunk as usize];
        let first = (chunk.first_stripe + groups[0] * self.copies) as usize;
        let mut stripes = self.stripes[first..first + self.copies()].iter();
        let stripe = stripes.find(|stripe| stripe.member == member);
        &groups[..stripe.expect("the zones are made from the stripes").rows as usize]
    }

    /// The mapped range `rest` bytes into strip `row` of a group that begins with stripe `first`.
    #[inline(always)]
    fn mapped_range(&self, first: u32, row: u32, rest: u64, length: u64) -> MappedRange {
        let first = first as usize;
        let stripes = &self.stripes[first..first + self.copies as usize];
        let mirror = |(stripe, copy): (&Stripe, u8)| {
            let strips = u64::from(row) * u64::from(stripe.rows);
            let offset = stripe.offset + (strips << self.strip_shift) + rest;
            Mirror { member: stripe.member, offset, copy }
        };
        // Faster than to collect them: short lists are never grown.
        let mut mirrors = Mirrors::new();
        for numbered in stripes.iter().zip(0..) {
            mirrors.push(mirror(numbered));
        }
        MappedRange { length, mirrors }
    }

    /// Adds a chunk at the end of the volume.
    fn append(&mut self, allocation: &ChunkAllocation) {
        let groups = allocation.stripes.len() as u32 / self.copies;
        let chunk = ChunkRecord {
            volume_offset: self.capacity_bytes,
            length: allocation.length,
            first_stripe: index_u32(self.stripes.len()),
            groups,
        };
        let index = index_u32(self.chunks.len());
        self.append_zones(index, &allocation.stripes);
        self.stripes.extend_from_slice(&allocation.stripes);
        self.chunks.push(chunk);
        self.capacity_bytes += chunk.length;
        let granules = self.capacity_bytes.div_ceil(1 << GRANULE_SHIFT);
        self.granules.resize(granules as usize, index);
    }

    /// Adds the zones of a chunk's stripes. On each member, as many stripes as they have rows lie
    /// one strip after the other and make a zone.
    fn append_zones(&mut self, chunk: u32, stripes: &[Stripe]) {
        let mut numbered: Vec<(u32, &Stripe)> = (0u32..).zip(stripes).collect();
        if stripes.iter().any(|stripe| stripe.rows > 1) {
            numbered.sort_by_key(|(_, stripe)| (stripe.member.0, stripe.offset));
        }
        let mut rest = &numbered[..];
        while let [(_, first), ..] = rest {
            let (zone, others) = rest.split_at(first.rows as usize);
            let member_zone = MemberZone {
                offset: first.offset,
                chunk,
                first_group: index_u32(self.zone_groups.len()),
            };
            self.zones[first.member.get()].push(member_zone);
            self.zone_groups.extend(zone.iter().map(|(number, _)| number / self.copies));
            rest = others;
        }
    }
}

/// The rules of a profile on a layout; `None` without parity.
fn parity_rules(profile: Profile, layout: ArrayLayout) -> Option<ParityRules> {
    let parities = profile.parities() as u32;
    (parities > 0).then(|| ParityRules { rotation: layout.rotation(), parities })
}

fn index_u32(index: usize) -> u32 {
    u32::try_from(index).expect("the bound on an array's size keeps its chunks below 2^32")
}
