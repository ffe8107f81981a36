//! The dirty log: which regions of the volume may have writes in flight.
//!
//! A record is one metadata block with the whole set of active regions, so it needs no replay: of
//! the records of a member the one with the highest generation counts. Records go to the slots of a
//! ring in turn, so a torn record leaves the one before it, which has every region that was written
//! to before.
//!
//! A record says which sequence number every member in sync has at least. A device with older
//! records is a copy from earlier, such as a restored snapshot, though its label may be current.
//!
//! The body, little-endian: the number of regions (4 bytes at 72), their numbers (4 bytes each,
//! ascending, from 76 on), the sequence number that every member in sync has (8 bytes at 4080), and
//! the generation of the stale map that is needed (4 bytes at 4088).

use super::block::{BlockError, BlockHeader, BlockKind, METADATA_BYTES, Page, Uuid};
use super::contents::LABEL_SLOTS;

/// Offset of the first record on a member.
pub const DIRTY_LOG_OFFSET: u64 = 128 << 10;

const DIRTY_LOG_SLOTS: u64 = 16;

pub const DIRTY_LOG_BYTES: u32 = DIRTY_LOG_SLOTS as u32 * METADATA_BYTES as u32;

/// Limit of the number of regions in a record.
pub const DIRTY_REGIONS_MAX: usize = 1000;

const _: () = assert!(LABEL_SLOTS[1] + METADATA_BYTES as u64 <= DIRTY_LOG_OFFSET);
const REGIONS: usize = 76;
const LEAST_SEQUENCE: usize = 4080;
const _: () = assert!(REGIONS + 4 * DIRTY_REGIONS_MAX <= LEAST_SEQUENCE);
const MAP_GENERATION: usize = 4088;
const _: () = assert!(LEAST_SEQUENCE + 8 <= MAP_GENERATION);
const _: () = assert!(MAP_GENERATION + 4 <= METADATA_BYTES - 4);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DirtyRecord {
    /// Grows by one with each record.
    pub sequence: u64,
    /// Every member in sync has a record with this sequence number or a later one.
    pub least_sequence: u64,
    /// The active regions, ascending.
    pub regions: Vec<u32>,
    /// The generation of the stale map that the record relies on; zero for none.
    pub map_generation: u32,
}

impl DirtyRecord {
    pub fn offset(&self) -> u64 {
        DIRTY_LOG_OFFSET + self.sequence % DIRTY_LOG_SLOTS * METADATA_BYTES as u64
    }

    /// Encodes the record for a member. Panics if there are more regions than fit.
    pub fn encode(&self, volume: Uuid, member: Uuid) -> Box<[u8]> {
        assert!(self.regions.len() <= DIRTY_REGIONS_MAX, "{} regions", self.regions.len());
        assert!(self.regions.is_sorted_by(|one, next| one < next), "regions ascend");
        assert!(self.least_sequence <= self.sequence, "no record is newer than the newest");
        let mut page = Page::new();
        page.put(72, &(self.regions.len() as u32).to_le_bytes());
        for (index, region) in self.regions.iter().enumerate() {
            page.put(REGIONS + 4 * index, &region.to_le_bytes());
        }
        page.put(LEAST_SEQUENCE, &self.least_sequence.to_le_bytes());
        page.put(MAP_GENERATION, &self.map_generation.to_le_bytes());
        let (offset, generation) = (self.offset(), self.sequence);
        let header = BlockHeader { volume, member, offset, generation, is_read_only: false };
        let bytes = page.seal(BlockKind::DirtyRecord, &header);
        debug_assert_eq!(DirtyRecord::decode(&bytes, offset, volume, member).as_ref(), Ok(self));
        bytes
    }

    fn decode(
        bytes: &[u8],
        offset: u64,
        volume: Uuid,
        member: Uuid,
    ) -> Result<DirtyRecord, BlockError> {
        let (page, header) = Page::open(bytes, BlockKind::DirtyRecord, offset)?;
        if header.volume != volume || header.member != member {
            return Err(BlockError::Absent);
        }
        let count = page.u32(72) as usize;
        if count > DIRTY_REGIONS_MAX {
            return Err(BlockError::Malformed("too many dirty regions"));
        }
        let regions: Vec<u32> = (0..count).map(|index| page.u32(REGIONS + 4 * index)).collect();
        if !regions.is_sorted_by(|one, next| one < next) {
            return Err(BlockError::Malformed("dirty regions out of order"));
        }
        let least_sequence = page.u64(LEAST_SEQUENCE);
        let (sequence, map_generation) = (header.generation, page.u32(MAP_GENERATION));
        if least_sequence > sequence {
            return Err(BlockError::Malformed("a sequence number that no record has"));
        }
        Ok(DirtyRecord { sequence, least_sequence, regions, map_generation })
    }
}

/// The newest record of a member, from the bytes of its log; `None` if there is none. Fails if a
/// record of the member has contents that are not possible.
pub fn newest_record(
    log: &[u8],
    volume: Uuid,
    member: Uuid,
) -> Result<Option<DirtyRecord>, BlockError> {
    assert_eq!(log.len(), DIRTY_LOG_BYTES as usize, "the whole log");
    let slots = log.chunks_exact(METADATA_BYTES).zip(0..);
    let records = slots.filter_map(|(bytes, slot)| {
        let offset = DIRTY_LOG_OFFSET + slot * METADATA_BYTES as u64;
        match DirtyRecord::decode(bytes, offset, volume, member) {
            Ok(record) => Some(Ok(record)),
            Err(error @ BlockError::Malformed(_)) => Some(Err(error)),
            // A slot that is empty, torn or damaged, or of another member before.
            Err(_) => None,
        }
    });
    let records = records.collect::<Result<Vec<DirtyRecord>, BlockError>>()?;
    Ok(records.into_iter().max_by_key(|record| record.sequence))
}

/// Returns true if the log of a member, whose newest record is this one, holds what may have been a
/// newer record: a torn or damaged block in the slot of the next.
pub fn may_lack_record(log: &[u8], newest: Option<&DirtyRecord>) -> bool {
    let sequence = newest.map_or(0, |record| record.sequence) + 1;
    let offset = DirtyRecord { sequence, ..DirtyRecord::default() }.offset();
    let slot = &log[(offset - DIRTY_LOG_OFFSET) as usize..][..METADATA_BYTES];
    let block = Page::open(slot, BlockKind::DirtyRecord, offset);
    matches!(block, Err(BlockError::Absent | BlockError::Damaged)) && slot.iter().any(|&it| it != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: Uuid = Uuid([1; 16]);
    const MEMBER: Uuid = Uuid([2; 16]);

    /// A log after these records.
    fn log(records: impl IntoIterator<Item = DirtyRecord>) -> Vec<u8> {
        let mut log = vec![0; DIRTY_LOG_BYTES as usize];
        for record in records {
            let at = (record.offset() - DIRTY_LOG_OFFSET) as usize;
            log[at..at + METADATA_BYTES].copy_from_slice(&record.encode(VOLUME, MEMBER));
        }
        log
    }

    fn record(sequence: u64) -> DirtyRecord {
        let (least_sequence, map_generation) = (sequence / 2, 3);
        DirtyRecord { sequence, least_sequence, regions: vec![7, 1 << 31], map_generation }
    }

    #[test]
    fn the_newest_record_counts_and_a_torn_one_leaves_the_one_before() {
        assert_eq!(newest_record(&log([]), VOLUME, MEMBER), Ok(None));
        let mut log = log((1..40).map(record));
        assert_eq!(newest_record(&log, VOLUME, MEMBER), Ok(Some(record(39))));
        let torn = (record(39).offset() - DIRTY_LOG_OFFSET) as usize;
        log[torn + 80] ^= 1;
        assert_eq!(newest_record(&log, VOLUME, MEMBER), Ok(Some(record(38))));
        assert!(may_lack_record(&log, Some(&record(38))));
        assert!(!may_lack_record(&log, Some(&record(37))), "there is a good record");
        assert!(!may_lack_record(&self::log([]), None));
        // The beginning is damaged, by which a block is known.
        log[torn] ^= 1;
        assert!(may_lack_record(&log, Some(&record(38))));
        assert_eq!(newest_record(&log, VOLUME, Uuid([3; 16])), Ok(None), "of another member");
    }

    #[test]
    fn a_full_record_fits_and_its_encoding_never_changes() {
        let regions = (0..DIRTY_REGIONS_MAX as u32).collect();
        let mut full = DirtyRecord { sequence: 5, regions, ..DirtyRecord::default() };
        assert_eq!(newest_record(&log([full.clone()]), VOLUME, MEMBER), Ok(Some(full.clone())));
        let bytes = full.encode(VOLUME, MEMBER);
        assert_eq!(crc32c::crc32c(&bytes[..METADATA_BYTES - 4]), 0x91f8_a8da);
        full.least_sequence = 4;
        assert_eq!(newest_record(&log([full.clone()]), VOLUME, MEMBER), Ok(Some(full.clone())));
        let bytes = full.encode(VOLUME, MEMBER);
        assert_eq!(bytes[LEAST_SEQUENCE..][..8], 4_u64.to_le_bytes());
    }
}
