//! The list of bad blocks: ranges of the volume that members in sync do not have, because no mirror
//! could give them when they were copied. What is there on such a member was never written there
//! by a client.
//!
//! Each member has the whole list, of all members, in two slots. A record goes to the slot that
//! does not hold the newest one, so a torn record leaves the one before it. The label says which
//! generation of the list its member has at least; while there are bad blocks, programs that do
//! not know the list refuse the label.
//!
//! The body, little-endian: the number of words (4 bytes at 72), and the words (8 bytes each, from
//! 80 on). A word is a range of at most 2 MiB of one member: from the lowest bit on, the row of the
//! member in the label (4 bits), the length in blocks of 512 bytes less 1 (12 bits), and the offset
//! on the volume in such blocks (48 bits).

use super::block::{BlockError, BlockHeader, BlockKind, METADATA_BYTES, Page, Uuid};
use super::contents::LABELLED_MEMBERS_MAX;
use super::scrub_record::{SCRUB_BYTES, SCRUB_OFFSET};
use mirrorball_core::geometry::RESERVED_BYTES;
use mirrorball_core::units::BLOCK_BYTES;
use std::collections::BTreeMap;
use std::ops::Range;

/// Offset of the first slot of the list on a member.
pub const BAD_BLOCKS_OFFSET: u64 = 976 << 10;

pub const BAD_BLOCKS_BYTES: u32 = 2 * METADATA_BYTES as u32;

/// Limit of generations: there is room for later ones.
const GENERATION_MAX: u64 = 1 << 61;
const WORDS: usize = 80;
const WORDS_MAX: usize = 500;
/// Longest range of a word, in blocks.
const LENGTH_MAX: u64 = 1 << 12;
const _: () = assert!(WORDS + 8 * WORDS_MAX <= METADATA_BYTES - 4);
const _: () = assert!(LABELLED_MEMBERS_MAX <= 1 << 4);
const _: () = assert!(SCRUB_OFFSET + SCRUB_BYTES as u64 <= BAD_BLOCKS_OFFSET);
const _: () = assert!(BAD_BLOCKS_OFFSET + BAD_BLOCKS_BYTES as u64 <= RESERVED_BYTES);

/// Ranges of the volume that members lack. A member is named by its row in the label.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BadBlocks {
    /// The end of each range, by row and begin. Ranges of a row neither overlap nor touch.
    ends: BTreeMap<(usize, u64), u64>,
}

/// A list with its generation, as members have it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BadBlockRecord {
    /// Grows with each record that was begun: no two have the same.
    pub generation: u64,
    pub blocks: BadBlocks,
}

impl BadBlocks {
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The ranges of each row, in order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Range<u64>)> + '_ {
        self.ends.iter().map(|(&(row, begin), &end)| (row, begin..end))
    }

    /// The last range of a row that begins before an offset.
    fn last_before(&self, row: usize, offset: u64) -> Option<Range<u64>> {
        let (&(_, begin), &end) = self.ends.range((row, 0)..(row, offset)).next_back()?;
        Some(begin..end)
    }

    /// Returns true if a row lacks a part of a range.
    pub fn overlaps(&self, row: usize, range: &Range<u64>) -> bool {
        self.last_before(row, range.end).is_some_and(|found| found.end > range.start)
    }

    pub fn insert(&mut self, row: usize, mut range: Range<u64>) {
        assert!(range.start < range.end, "a range has bytes: {range:?}");
        while let Some(found) = self.last_before(row, range.end + 1)
            && found.end >= range.start
        {
            self.ends.remove(&(row, found.start));
            range = range.start.min(found.start)..range.end.max(found.end);
        }
        self.ends.insert((row, range.start), range.end);
    }

    pub fn remove(&mut self, row: usize, range: &Range<u64>) {
        while let Some(found) = self.last_before(row, range.end)
            && found.end > range.start
        {
            self.ends.remove(&(row, found.start));
            for rest in [found.start..range.start, range.end..found.end] {
                if rest.start < rest.end {
                    self.ends.insert((row, rest.start), rest.end);
                }
            }
        }
    }

    /// The parts of the ranges that are in another one.
    pub fn within(&self, range: &Range<u64>) -> BadBlocks {
        let parts =
            self.iter().map(|(row, it)| ((row, it.start.max(range.start)), it.end.min(range.end)));
        BadBlocks { ends: parts.filter(|((_, begin), end)| begin < end).collect() }
    }

    /// Adds all ranges of another list, of the rows for which `is_added` returns true.
    pub fn extend(&mut self, other: &BadBlocks, is_added: impl Fn(usize) -> bool) {
        other.iter().filter(|(row, _)| is_added(*row)).for_each(|(row, it)| self.insert(row, it));
    }

    fn words(&self) -> impl Iterator<Item = u64> + '_ {
        let most = LENGTH_MAX * BLOCK_BYTES;
        self.iter().flat_map(move |(row, range)| {
            (range.start..range.end).step_by(most as usize).map(move |begin| {
                let blocks = (range.end - begin).min(most) / BLOCK_BYTES;
                (begin / BLOCK_BYTES) << 16 | (blocks - 1) << 4 | row as u64
            })
        })
    }

    /// Returns true if a record has room for the list.
    pub fn fits(&self) -> bool {
        let is_word = |(_, range): (usize, Range<u64>)| range.end / BLOCK_BYTES < 1 << 48;
        self.words().take(WORDS_MAX + 1).count() <= WORDS_MAX && self.iter().all(is_word)
    }
}

impl BadBlockRecord {
    /// Encodes the record for a slot of a member. Panics if the list does not fit.
    pub fn encode(&self, volume: Uuid, member: Uuid, slot: usize) -> Box<[u8]> {
        assert!(self.blocks.fits(), "a record has no room for {:?}", self.blocks);
        let mut page = Page::new();
        page.put(72, &(self.blocks.words().count() as u32).to_le_bytes());
        for (index, word) in self.blocks.words().enumerate() {
            page.put(WORDS + 8 * index, &word.to_le_bytes());
        }
        let (offset, generation) = (bad_blocks_offset(slot), self.generation);
        let header = BlockHeader { volume, member, offset, generation, is_read_only: false };
        let bytes = page.seal(BlockKind::BadBlocks, &header);
        let decoded = BadBlockRecord::decode(&bytes, offset, volume, member);
        debug_assert_eq!(decoded.as_ref(), Ok(self));
        bytes
    }

    fn decode(
        bytes: &[u8],
        offset: u64,
        volume: Uuid,
        member: Uuid,
    ) -> Result<BadBlockRecord, BlockError> {
        let (page, header) = Page::open(bytes, BlockKind::BadBlocks, offset)?;
        let count = page.u32(72) as usize;
        if header.volume != volume || header.member != member || count > WORDS_MAX {
            return Err(BlockError::Malformed("the bad blocks of another member"));
        }
        if header.generation > GENERATION_MAX {
            return Err(BlockError::Malformed("bad blocks of an impossible generation"));
        }
        let mut blocks = BadBlocks::default();
        for word in (0..count).map(|index| page.u64(WORDS + 8 * index)) {
            let begin = (word >> 16) * BLOCK_BYTES;
            let length = ((word >> 4) % LENGTH_MAX + 1) * BLOCK_BYTES;
            blocks.insert((word % 16) as usize, begin..begin + length);
        }
        if !blocks.fits() {
            return Err(BlockError::Malformed("bad blocks behind the end of any volume"));
        }
        Ok(BadBlockRecord { generation: header.generation, blocks })
    }
}

/// Offset of a slot on a member.
pub fn bad_blocks_offset(slot: usize) -> u64 {
    BAD_BLOCKS_OFFSET + (slot * METADATA_BYTES) as u64
}

/// The newest list of a member with its slot, from the bytes of both slots; `None` if there is
/// none.
pub fn newest_bad_blocks(
    slots: &[u8],
    volume: Uuid,
    member: Uuid,
) -> Option<(BadBlockRecord, usize)> {
    assert_eq!(slots.len(), BAD_BLOCKS_BYTES as usize, "both slots");
    let slots = slots.chunks_exact(METADATA_BYTES).zip(0..);
    let records = slots.filter_map(|(bytes, slot)| {
        let record = BadBlockRecord::decode(bytes, bad_blocks_offset(slot), volume, member);
        Some((record.ok()?, slot))
    });
    records.max_by_key(|(record, _)| record.generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: Uuid = Uuid([1; 16]);
    const MEMBER: Uuid = Uuid([2; 16]);

    fn list(ranges: &[(usize, Range<u64>)]) -> BadBlocks {
        let mut list = BadBlocks::default();
        ranges.iter().cloned().for_each(|(row, range)| list.insert(row, range));
        list
    }

    #[test]
    fn ranges_that_touch_are_one_and_a_part_is_removed() {
        let mut blocks = list(&[(1, 0..512), (1, 1024..1536), (0, 512..1024)]);
        assert_eq!(blocks.iter().count(), 3);
        blocks.insert(1, 512..1024);
        assert_eq!(blocks, list(&[(0, 512..1024), (1, 0..1536)]));
        assert!(blocks.overlaps(1, &(1024..9999)) && !blocks.overlaps(1, &(1536..9999)));
        assert!(!blocks.overlaps(0, &(0..512)) && !blocks.overlaps(2, &(0..9999)));
        blocks.remove(1, &(512..1024));
        assert_eq!(blocks, list(&[(0, 512..1024), (1, 0..512), (1, 1024..1536)]));
        assert_eq!(blocks.within(&(256..1024)), list(&[(0, 512..1024), (1, 256..512)]));
        blocks.remove(1, &(0..4096));
        assert_eq!(blocks, list(&[(0, 512..1024)]));
    }

    #[test]
    fn the_newest_record_counts_and_its_encoding_never_changes() {
        let mut slots = vec![0; BAD_BLOCKS_BYTES as usize];
        assert_eq!(newest_bad_blocks(&slots, VOLUME, MEMBER), None);
        let mut before = None;
        for generation in [1, 4, 5] {
            let blocks =
                list(&[(15, 4096..8192 * generation), (0, 1 << 40..(1 << 40) + (5 << 20))]);
            assert!(blocks.fits());
            let (record, slot) = (BadBlockRecord { generation, blocks }, generation as usize % 2);
            let at = slot * METADATA_BYTES;
            let bytes = record.encode(VOLUME, MEMBER, slot);
            slots[at..at + METADATA_BYTES].copy_from_slice(&bytes);
            assert_eq!(newest_bad_blocks(&slots, VOLUME, MEMBER), Some((record.clone(), slot)));
            let mut torn = slots.clone();
            torn[at + 90] ^= 1;
            assert_eq!(newest_bad_blocks(&torn, VOLUME, MEMBER), before);
            before = Some((record, slot));
        }
        assert_eq!(newest_bad_blocks(&slots, VOLUME, Uuid([3; 16])), None, "of another member");
        assert_eq!(crc32c::crc32c(&slots[METADATA_BYTES..2 * METADATA_BYTES - 4]), 0x44e1_112a);
        assert!(list(&[(3, 0..1000 << 20)]).fits() && !list(&[(3, 0..1001 << 20)]).fits());
    }

    #[test]
    fn a_record_that_could_not_be_written_again_does_not_count() {
        let word = |begin: u64| begin << 16 | (LENGTH_MAX - 1) << 4;
        let decoded = |generation: u64, word: u64| {
            let mut page = Page::new();
            page.put(72, &1u32.to_le_bytes());
            page.put(WORDS, &word.to_le_bytes());
            let (volume, member, offset) = (VOLUME, MEMBER, bad_blocks_offset(0));
            let header = BlockHeader { volume, member, offset, generation, is_read_only: false };
            let bytes = page.seal(BlockKind::BadBlocks, &header);
            BadBlockRecord::decode(&bytes, offset, VOLUME, MEMBER)
        };
        assert!(decoded(1, word((1 << 48) - LENGTH_MAX - 1)).unwrap().blocks.fits());
        assert!(decoded(1, word((1 << 48) - 1)).is_err());
        assert!(decoded(GENERATION_MAX + 1, word(0)).is_err());
    }
}
