//! The stale map: which regions of the volume were written to while a member was missing.
//!
//! One metadata block with a bit for each region, or for each group of 2, 4, 8 … of them, so that
//! the volume fits. It is begun when the first member leaves a volume whose members were all in
//! sync, and counts until all are in sync again: [`StaleMap::base`] is the data id that all of them
//! had. A member whose label has that id or a later one missed no write outside of the map and of
//! the dirty log.
//!
//! A region gets its bit before it leaves the dirty log, and the records of the log say which
//! generation of the map they rely on. So where that one is damaged, everything counts as written.
//!
//! The body, little-endian: the base (8 bytes at 72), the binary logarithm of the regions in a
//! group (1 byte at 80), the number of groups (4 bytes at 84), and their bits (from 88 on).

use super::block::{BlockError, BlockHeader, BlockKind, METADATA_BYTES, Page, Uuid};
use super::contents::DataId;
use super::dirty_record::{DIRTY_LOG_BYTES, DIRTY_LOG_OFFSET};

/// Offset of the first slot of the map on a member.
pub const STALE_MAP_OFFSET: u64 = 192 << 10;

pub const STALE_MAP_BYTES: u32 = 2 * METADATA_BYTES as u32;

const _: () = assert!(DIRTY_LOG_OFFSET + DIRTY_LOG_BYTES as u64 <= STALE_MAP_OFFSET);
const BITS: usize = 88;
const GROUPS_MAX: u64 = 31_936;
/// Limit of generations: there is room for later ones, which records of the log have in 32 bits. A
/// map behind it is damaged.
const GENERATION_MAX: u64 = 1 << 31;
const _: () = assert!(BITS + GROUPS_MAX as usize / 8 <= METADATA_BYTES - 4);

/// See the page of this module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaleMap {
    /// Grows with each map that is written.
    pub generation: u64,
    /// The data id that all members had when they were in sync for the last time.
    pub base: DataId,
    shift: u8,
    groups: u32,
    bits: Vec<u8>,
}

impl StaleMap {
    /// A map without a bit, of a volume with this number of regions.
    pub fn new(base: DataId, regions: u64) -> StaleMap {
        let mut shift = 0;
        while regions.div_ceil(1 << shift) > GROUPS_MAX {
            shift += 1;
        }
        let groups = regions.div_ceil(1 << shift) as u32;
        assert!(u64::from(groups) << shift >= regions, "{groups} groups have {regions} regions");
        let bits = vec![0; groups.div_ceil(8) as usize];
        StaleMap { generation: 0, base, shift, groups, bits }
    }

    /// Sets the bit of a region; returns true if it was not set.
    pub fn insert(&mut self, region: u32) -> bool {
        let group = region >> self.shift;
        assert!(group < self.groups, "region {region} is behind the end of the volume");
        let byte = &mut self.bits[group as usize / 8];
        let before = std::mem::replace(byte, *byte | 1 << (group % 8));
        before != *byte
    }

    /// Sets the bits of all regions.
    pub fn insert_all(&mut self) {
        self.bits.fill(0xff);
    }

    /// Returns true if the bit of a region is set.
    pub fn contains(&self, region: u32) -> bool {
        let group = region >> self.shift;
        self.bits.get(group as usize / 8).is_none_or(|byte| byte & 1 << (group % 8) != 0)
    }

    /// Returns true if the map is of a volume with this number of regions.
    pub fn fits(&self, regions: u64) -> bool {
        let empty = StaleMap::new(self.base, regions);
        (self.shift, self.groups) == (empty.shift, empty.groups)
    }

    pub fn offset(&self) -> u64 {
        STALE_MAP_OFFSET + self.generation % 2 * METADATA_BYTES as u64
    }

    pub fn encode(&self, volume: Uuid, member: Uuid) -> Box<[u8]> {
        assert_eq!(self.bits.len(), self.groups.div_ceil(8) as usize, "a bit for each group");
        let mut page = Page::new();
        page.put(72, &self.base.0.to_le_bytes());
        page.put(80, &[self.shift]);
        page.put(84, &self.groups.to_le_bytes());
        page.put(BITS, &self.bits);
        let (offset, generation) = (self.offset(), self.generation);
        let header = BlockHeader { volume, member, offset, generation, is_read_only: false };
        let bytes = page.seal(BlockKind::StaleMap, &header);
        debug_assert_eq!(StaleMap::decode(&bytes, offset, volume, member).as_ref(), Ok(self));
        bytes
    }

    fn decode(
        bytes: &[u8],
        offset: u64,
        volume: Uuid,
        member: Uuid,
    ) -> Result<StaleMap, BlockError> {
        let (page, header) = Page::open(bytes, BlockKind::StaleMap, offset)?;
        let (shift, groups) = (page.u8(80), page.u32(84));
        let is_counted = header.generation <= GENERATION_MAX;
        let is_possible = is_counted && shift < 32 && u64::from(groups) <= GROUPS_MAX;
        if header.volume != volume || header.member != member || !is_possible {
            return Err(BlockError::Malformed("the map of another member"));
        }
        let bits = page.0[BITS..BITS + groups.div_ceil(8) as usize].to_vec();
        let (generation, base) = (header.generation, DataId(page.u64(72)));
        Ok(StaleMap { generation, base, shift, groups, bits })
    }
}

/// The maps of a member that can be read, from the bytes of both slots.
pub fn stale_maps(slots: &[u8], volume: Uuid, member: Uuid) -> Vec<StaleMap> {
    assert_eq!(slots.len(), STALE_MAP_BYTES as usize, "both slots");
    let slots = slots.chunks_exact(METADATA_BYTES).zip(0..);
    let maps = slots.filter_map(|(bytes, slot)| {
        let offset = STALE_MAP_OFFSET + slot * METADATA_BYTES as u64;
        StaleMap::decode(bytes, offset, volume, member).ok()
    });
    maps.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crc32c::crc32c;

    const VOLUME: Uuid = Uuid([1; 16]);
    const MEMBER: Uuid = Uuid([2; 16]);

    #[test]
    fn a_region_has_a_bit_alone_or_in_a_group() {
        for (regions, group) in [(1, 1), (31_936, 1), (31_937, 2), (10 << 18, 128)] {
            let mut map = StaleMap::new(DataId(5), regions);
            assert!(map.fits(regions) && !map.fits(regions + 31_936));
            let last = regions as u32 - 1;
            assert!(!map.contains(0) && !map.contains(last));
            assert!(map.insert(last) && !map.insert(last));
            assert!(map.contains(last));
            let before = (last / group * group).checked_sub(1);
            assert!(before.is_none_or(|before| !map.contains(before)), "{regions}");
            assert!(map.contains(last / group * group));
            map.insert_all();
            assert!(map.contains(0));
        }
    }

    #[test]
    fn maps_are_read_from_both_slots_and_a_damaged_one_is_left_out() {
        let mut slots = vec![0; STALE_MAP_BYTES as usize];
        for generation in 1..4 {
            let mut map = StaleMap { generation, ..StaleMap::new(DataId(7), 1000) };
            map.insert(generation as u32);
            let at = (map.offset() - STALE_MAP_OFFSET) as usize;
            slots[at..at + METADATA_BYTES].copy_from_slice(&map.encode(VOLUME, MEMBER));
        }
        let generations = |slots: &[u8]| -> Vec<(u64, bool)> {
            let maps = stale_maps(slots, VOLUME, MEMBER);
            maps.iter().map(|map| (map.generation, map.contains(3))).collect()
        };
        assert_eq!(generations(&slots), [(2, false), (3, true)]);
        slots[METADATA_BYTES + 100] ^= 1;
        assert_eq!(generations(&slots), [(2, false)]);
        assert!(stale_maps(&slots, VOLUME, Uuid([3; 16])).is_empty(), "of another member");
    }

    #[test]
    fn a_map_whose_generation_leaves_no_room_for_later_ones_is_damaged() {
        let bytes = StaleMap { generation: 2, ..StaleMap::new(DataId(7), 1000) };
        let bytes = bytes.encode(VOLUME, MEMBER);
        for (generation, is_used) in
            [(1 << 31, true), ((1 << 31) + 2, false), (u64::from(u32::MAX) - 1, false)]
        {
            let mut slots = vec![0; STALE_MAP_BYTES as usize];
            slots[..METADATA_BYTES].copy_from_slice(&bytes);
            slots[64..72].copy_from_slice(&generation.to_le_bytes());
            let checksum = crc32c(&slots[..METADATA_BYTES - 4]);
            slots[METADATA_BYTES - 4..METADATA_BYTES].copy_from_slice(&checksum.to_le_bytes());
            let maps = stale_maps(&slots, VOLUME, MEMBER);
            assert_eq!(!maps.is_empty(), is_used, "{generation}");
        }
    }

    #[test]
    fn the_encoding_never_changes() {
        let mut map = StaleMap { generation: 3, ..StaleMap::new(DataId(7), 100_000) };
        map.insert(77_777);
        let bytes = map.encode(VOLUME, MEMBER);
        assert_eq!(crc32c(&bytes[..METADATA_BYTES - 4]), 0x0e84_6846);
    }
}
