//! The progress of a scrub, as the members of a volume keep it.
//!
//! Records go to two slots in turn, so a torn record leaves the one before it. Of the records of
//! all members the one with the highest sequence number counts.
//!
//! The body, little-endian:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 72 | 1 | 1 running, 2 paused, 3 finished, 4 cancelled |
//! | 73 | 1 | 1 if differences are repaired |
//! | 80 | 8 | bytes of the volume that were checked |
//! | 88 | 8 | blocks that differed |
//! | 96 | 8 | blocks that could not be read |
//! | 104 | 8 | rate limit in bytes per second; 0 for none |
//! | 112 | 8 | blocks that were repaired |
//! | 120 | 8 | bytes that no two mirrors held |
//! | 128 | 8 | devid of the member with the right data, and 1; 0 for none |
//! | 136 | 8 each | for each member, blocks in which it differed from most mirrors |

use super::block::{BlockError, BlockHeader, BlockKind, METADATA_BYTES, Page, Uuid};
use super::contents::LABELLED_MEMBERS_MAX;
use super::stale_map::{STALE_MAP_BYTES, STALE_MAP_OFFSET};
use mirrorball_core::geometry::RESERVED_BYTES;

/// Offset of the first record of a scrub on a member.
pub const SCRUB_OFFSET: u64 = 960 << 10;

pub const SCRUB_BYTES: u32 = 2 * METADATA_BYTES as u32;

const ODD_BLOCKS: usize = 136;
const MISMATCHED_BLOCKS: usize = ODD_BLOCKS + 8 * LABELLED_MEMBERS_MAX;
/// This and what follows is zero in records of earlier versions.
const LEFT_BLOCKS: usize = MISMATCHED_BLOCKS + 8;
const COUNTED_BYTES: usize = LEFT_BLOCKS + 8;
const PENDING_BLOCKS: usize = COUNTED_BYTES + 8;
const FOLLOWS_FINISHED: usize = PENDING_BLOCKS + 8;
/// Limit of counts of bytes and blocks: no scrub comes near it, and sums of them do not overflow.
const COUNT_MAX: u64 = 1 << 60;
const _: () = assert!(FOLLOWS_FINISHED < METADATA_BYTES - 4);
const _: () = assert!(SCRUB_OFFSET + SCRUB_BYTES as u64 <= RESERVED_BYTES);
const _: () = assert!(STALE_MAP_OFFSET + STALE_MAP_BYTES as u64 <= SCRUB_OFFSET);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScrubState {
    Running,
    /// It waits until it is resumed.
    Paused,
    Finished,
    Cancelled,
}

/// How far a scrub is, and what it found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScrubProgress {
    pub state: ScrubState,
    /// True if blocks that differ are made equal, where it is known which mirror is right.
    pub repairs: bool,
    /// The devid of the member that is right where no data are on most mirrors.
    pub from: Option<u64>,
    /// Bytes of the volume that were checked, from its start.
    pub checked_bytes: u64,
    /// Bytes of those that were not compared, because fewer than two mirrors were in sync.
    pub uncompared_bytes: u64,
    /// Number of blocks that differed between mirrors.
    pub differing_blocks: u64,
    /// Number of blocks of those that were made equal.
    pub repaired_blocks: u64,
    /// Number of blocks, on any member, that did not match their checksums.
    pub mismatched_blocks: u64,
    /// For each member, the number of blocks in which it differed from most mirrors, or from their
    /// checksums.
    pub odd_blocks: [u64; LABELLED_MEMBERS_MAX],
    /// Number of blocks that no mirror could read.
    pub unreadable_blocks: u64,
    /// Number of blocks that the scrubs before this left as they were. They count until this one
    /// has finished.
    pub left_blocks: u64,
    /// Blocks before this offset are counted, though some may not be checked: they are checked
    /// again after a restart, because they were not repaired.
    pub counted_bytes: u64,
    /// Number of blocks of those that were counted and not repaired. Those that are not found again
    /// were repaired all the same.
    pub pending_blocks: u64,
    /// True if a scrub before this one finished, the last of which compared everything.
    pub follows_finished: bool,
    /// Rate limit in bytes of the volume per second.
    pub rate: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScrubRecord {
    /// Grows by one with each record.
    pub sequence: u64,
    pub progress: ScrubProgress,
}

const STATES: [ScrubState; 4] =
    [ScrubState::Running, ScrubState::Paused, ScrubState::Finished, ScrubState::Cancelled];

impl ScrubProgress {
    pub fn begin(repairs: bool, from: Option<u64>, rate: Option<u64>) -> ScrubProgress {
        ScrubProgress {
            state: ScrubState::Running,
            repairs,
            from,
            checked_bytes: 0,
            uncompared_bytes: 0,
            differing_blocks: 0,
            repaired_blocks: 0,
            mismatched_blocks: 0,
            odd_blocks: [0; LABELLED_MEMBERS_MAX],
            unreadable_blocks: 0,
            left_blocks: 0,
            counted_bytes: 0,
            pending_blocks: 0,
            follows_finished: false,
            rate,
        }
    }

    /// Returns true if of this scrub and those before it one finished, the last of which compared
    /// everything.
    pub fn has_finished(&self) -> bool {
        match self.state {
            ScrubState::Finished => self.uncompared_bytes == 0,
            _ => self.follows_finished,
        }
    }

    /// Number of blocks that are known to differ or to be unreadable.
    pub fn bad_blocks(&self) -> u64 {
        let left = if self.state == ScrubState::Finished { 0 } else { self.left_blocks };
        let differing = self.differing_blocks.saturating_sub(self.repaired_blocks);
        left.max(differing + self.unreadable_blocks)
    }
}

impl ScrubRecord {
    pub fn offset(&self) -> u64 {
        SCRUB_OFFSET + self.sequence % 2 * METADATA_BYTES as u64
    }

    pub fn encode(&self, volume: Uuid, member: Uuid) -> Box<[u8]> {
        let progress = &self.progress;
        let mut page = Page::new();
        let state = STATES.iter().position(|&state| state == progress.state);
        let state = 1 + state.expect("the list has every state") as u8;
        page.put(72, &[state, u8::from(progress.repairs)]);
        page.put(80, &progress.checked_bytes.to_le_bytes());
        page.put(88, &progress.differing_blocks.to_le_bytes());
        page.put(96, &progress.unreadable_blocks.to_le_bytes());
        page.put(104, &progress.rate.unwrap_or(0).to_le_bytes());
        page.put(112, &progress.repaired_blocks.to_le_bytes());
        page.put(120, &progress.uncompared_bytes.to_le_bytes());
        page.put(128, &progress.from.map_or(0, |devid| devid.saturating_add(1)).to_le_bytes());
        for (index, blocks) in progress.odd_blocks.iter().enumerate() {
            page.put(ODD_BLOCKS + 8 * index, &blocks.to_le_bytes());
        }
        page.put(MISMATCHED_BLOCKS, &progress.mismatched_blocks.to_le_bytes());
        page.put(LEFT_BLOCKS, &progress.left_blocks.to_le_bytes());
        page.put(COUNTED_BYTES, &progress.counted_bytes.to_le_bytes());
        page.put(PENDING_BLOCKS, &progress.pending_blocks.to_le_bytes());
        page.put(FOLLOWS_FINISHED, &[u8::from(progress.follows_finished)]);
        let (offset, generation) = (self.offset(), self.sequence);
        let header = BlockHeader { volume, member, offset, generation, is_read_only: false };
        let bytes = page.seal(BlockKind::Scrub, &header);
        debug_assert_eq!(ScrubRecord::decode(&bytes, offset, volume, member).as_ref(), Ok(self));
        bytes
    }

    fn decode(
        bytes: &[u8],
        offset: u64,
        volume: Uuid,
        member: Uuid,
    ) -> Result<ScrubRecord, BlockError> {
        let (page, header) = Page::open(bytes, BlockKind::Scrub, offset)?;
        let state = usize::from(page.u8(72)).checked_sub(1).and_then(|state| STATES.get(state));
        let Some(&state) = state.filter(|_| header.volume == volume && header.member == member)
        else {
            return Err(BlockError::Malformed("the scrub of another member"));
        };
        let counts = [80, 88, 96, 112, 120].into_iter();
        let mut counts = counts.chain((ODD_BLOCKS..FOLLOWS_FINISHED).step_by(8));
        if counts.any(|offset| page.u64(offset) > COUNT_MAX) {
            return Err(BlockError::Malformed("an impossible count of a scrub"));
        }
        let progress = ScrubProgress {
            state,
            repairs: page.u8(73) == 1,
            checked_bytes: page.u64(80),
            differing_blocks: page.u64(88),
            unreadable_blocks: page.u64(96),
            rate: Some(page.u64(104)).filter(|&rate| rate > 0),
            repaired_blocks: page.u64(112),
            uncompared_bytes: page.u64(120),
            from: page.u64(128).checked_sub(1),
            mismatched_blocks: page.u64(MISMATCHED_BLOCKS),
            left_blocks: page.u64(LEFT_BLOCKS),
            counted_bytes: page.u64(COUNTED_BYTES),
            pending_blocks: page.u64(PENDING_BLOCKS),
            follows_finished: page.u8(FOLLOWS_FINISHED) == 1,
            odd_blocks: std::array::from_fn(|index| page.u64(ODD_BLOCKS + 8 * index)),
        };
        Ok(ScrubRecord { sequence: header.generation, progress })
    }
}

/// The newest record of a scrub on a member, from the bytes of both slots; `None` if there is none.
pub fn newest_scrub(slots: &[u8], volume: Uuid, member: Uuid) -> Option<ScrubRecord> {
    assert_eq!(slots.len(), SCRUB_BYTES as usize, "both slots");
    let slots = slots.chunks_exact(METADATA_BYTES).zip(0..);
    let records = slots.filter_map(|(bytes, slot)| {
        let offset = SCRUB_OFFSET + slot * METADATA_BYTES as u64;
        ScrubRecord::decode(bytes, offset, volume, member).ok()
    });
    records.max_by_key(|record| record.sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: Uuid = Uuid([1; 16]);
    const MEMBER: Uuid = Uuid([2; 16]);

    fn record(sequence: u64, state: ScrubState) -> ScrubRecord {
        let progress = ScrubProgress {
            state,
            checked_bytes: 3,
            differing_blocks: 4,
            unreadable_blocks: 5,
            repaired_blocks: 7,
            uncompared_bytes: 8,
            odd_blocks: std::array::from_fn(|index| index as u64),
            ..ScrubProgress::begin(true, Some(9), Some(6))
        };
        ScrubRecord { sequence, progress }
    }

    #[test]
    fn the_newest_record_counts_and_a_torn_one_leaves_the_one_before() {
        let mut slots = vec![0; SCRUB_BYTES as usize];
        assert_eq!(newest_scrub(&slots, VOLUME, MEMBER), None);
        let mut before = None;
        for (sequence, state) in (1..).zip(STATES) {
            let record = record(sequence, state);
            let at = (record.offset() - SCRUB_OFFSET) as usize;
            slots[at..at + METADATA_BYTES].copy_from_slice(&record.encode(VOLUME, MEMBER));
            assert_eq!(newest_scrub(&slots, VOLUME, MEMBER), Some(record));
            let mut torn = slots.clone();
            torn[at + 90] ^= 1;
            assert_eq!(newest_scrub(&torn, VOLUME, MEMBER), before);
            before = Some(record);
        }
        assert_eq!(newest_scrub(&slots, VOLUME, Uuid([3; 16])), None, "of another member");
    }

    #[test]
    fn what_a_scrub_left_counts_until_the_next_has_finished() {
        let found = record(1, ScrubState::Cancelled).progress;
        assert_eq!(found.bad_blocks(), 5, "those that cannot be read");
        assert!(!found.has_finished());
        let begun = ScrubProgress {
            left_blocks: found.bad_blocks(),
            follows_finished: true,
            ..ScrubProgress::begin(false, None, None)
        };
        assert!(begun.has_finished());
        assert_eq!(begun.bad_blocks(), 5);
        let record = ScrubRecord { sequence: 2, progress: begun };
        let mut slots = vec![0; SCRUB_BYTES as usize];
        slots[..METADATA_BYTES].copy_from_slice(&record.encode(VOLUME, MEMBER));
        assert_eq!(newest_scrub(&slots, VOLUME, MEMBER), Some(record));
        let finished = ScrubProgress { state: ScrubState::Finished, ..begun };
        assert_eq!((finished.bad_blocks(), finished.has_finished()), (0, true));
        let uncompared = ScrubProgress { uncompared_bytes: 1, ..finished };
        assert!(!uncompared.has_finished(), "the last one counts");
    }

    #[test]
    fn the_encoding_never_changes() {
        let bytes = record(7, ScrubState::Paused).encode(VOLUME, MEMBER);
        assert_eq!(crc32c::crc32c(&bytes[..METADATA_BYTES - 4]), 0xbbb9_be39);
    }
}
