//! The oracle: what the blocks of a volume may hold.

use crate::history::BLOCKS;

pub(crate) const BLOCK_BYTES: usize = 4096;
/// A write may be torn between sectors.
const SECTOR_BYTES: usize = 512;

/// Data of the clients: each write has another value. The values of zeroes are odd.
#[derive(Clone)]
pub(crate) struct BlockOracle {
    blocks: Vec<Block>,
    last_value: u64,
}

#[derive(Clone)]
struct Block {
    /// The last value that is certain, then the later ones, in the order of their writes.
    values: Vec<u64>,
    /// The last value that was acknowledged.
    acknowledged: u64,
    /// The last value of zeroes.
    zeroed: u64,
    /// Number of its writes that have not ended.
    writes_in_flight: u32,
    /// The values that were last read, while nothing may have changed the block.
    seen: Option<Vec<u64>>,
    /// The last value when a mirror of it was damaged without an error. Until a later one is
    /// flushed, a volume without checksums cannot tell which mirror is right: nothing is promised.
    damaged_at: Option<u64>,
}

/// Values that a block could hold when a read of it began.
pub(crate) struct ReadStart {
    /// The last value that was acknowledged.
    acknowledged: u64,
    possible: Vec<u64>,
    /// Each write that begins later has a higher value.
    now: u64,
    /// True if nothing was promised of it.
    is_damaged: bool,
}

pub(crate) fn contents(block: u64, value: u64) -> Vec<u8> {
    let word = if is_zeroes(value) { 0 } else { value << 16 | block };
    word.to_le_bytes().repeat(BLOCK_BYTES / 8)
}

impl Block {
    /// Forgets the values before one, unless a crash came in between.
    fn forget_before(&mut self, value: u64) {
        if let Some(first) = self.values.iter().position(|&other| other == value) {
            self.values.drain(..first);
        }
    }
}

fn is_zeroes(value: u64) -> bool {
    value == 0 || value % 2 == 1
}

/// The value of each sector; 0 for zeroes.
fn values(block: u64, bytes: &[u8]) -> Result<Vec<u64>, String> {
    let value = |sector: &[u8]| {
        let words: Vec<u64> =
            sector.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let is_one = words.iter().all(|&word| word == words[0]);
        match words[0] {
            _ if !is_one => Err(format!("block {block} has a torn sector")),
            0 => Ok(0),
            word if word & 0xffff == block => Ok(word >> 16),
            word => Err(format!("block {block} has data of block {}", word & 0xffff)),
        }
    };
    bytes.chunks(SECTOR_BYTES).map(value).collect()
}

impl BlockOracle {
    pub(crate) fn new() -> BlockOracle {
        let block = Block {
            values: vec![0],
            acknowledged: 0,
            zeroed: 0,
            writes_in_flight: 0,
            seen: None,
            damaged_at: None,
        };
        BlockOracle { blocks: vec![block; BLOCKS as usize], last_value: 0 }
    }

    /// A value for a write that begins, of data or of zeroes.
    pub(crate) fn begin_write(&mut self, block: u64, has_data: bool) -> u64 {
        self.last_value += 2;
        let value = self.last_value + u64::from(!has_data);
        let it = &mut self.blocks[block as usize];
        it.values.push(value);
        it.zeroed = if has_data { it.zeroed } else { value };
        it.writes_in_flight += 1;
        it.seen = None;
        value
    }

    pub(crate) fn on_durable(&mut self, block: u64, value: u64) {
        self.blocks[block as usize].forget_before(value);
    }

    pub(crate) fn end_write(&mut self, block: u64, value: u64, is_acknowledged: bool) {
        let it = &mut self.blocks[block as usize];
        it.writes_in_flight -= 1;
        it.seen = None;
        if is_acknowledged {
            // Overlapping writes are ordered, whichever reply comes first.
            it.acknowledged = it.acknowledged.max(value);
        }
    }

    /// The acknowledged value of each block, for a flush that begins.
    pub(crate) fn acknowledged(&self) -> Vec<u64> {
        self.blocks.iter().map(|block| block.acknowledged).collect()
    }

    /// The values that a block may hold.
    pub(crate) fn possible(&self, block: u64) -> &[u64] {
        &self.blocks[block as usize].values
    }

    pub(crate) fn begin_read(&self, block: u64) -> ReadStart {
        ReadStart {
            acknowledged: self.blocks[block as usize].acknowledged,
            possible: self.possible(block).to_vec(),
            now: self.now(),
            is_damaged: self.is_damaged(block),
        }
    }

    /// Notes that a mirror of a block was damaged.
    pub(crate) fn damage(&mut self, block: u64) {
        let now = self.now();
        let it = &mut self.blocks[block as usize];
        (it.damaged_at, it.seen) = (Some(now), None);
    }

    /// A value that each later write exceeds, and no earlier one.
    pub(crate) fn now(&self) -> u64 {
        self.last_value + 1
    }

    /// Returns true if a write of a block that began after [`BlockOracle::now`] is certain.
    pub(crate) fn is_written_since(&self, block: u64, now: u64) -> bool {
        self.blocks[block as usize].values[0] > now
    }

    /// Returns true if nothing is promised of a block.
    pub(crate) fn is_damaged(&self, block: u64) -> bool {
        let damaged_at = self.blocks[block as usize].damaged_at;
        damaged_at.is_some_and(|at| !self.is_written_since(block, at))
    }

    /// Notes the success of a flush that began when these were acknowledged.
    pub(crate) fn end_flush(&mut self, acknowledged: &[u64]) {
        for (block, &value) in self.blocks.iter_mut().zip(acknowledged) {
            block.forget_before(value);
        }
    }

    /// Checks the bytes of a read, which may have read a part of them before a write and a flush
    /// that ended meanwhile. It is compared with the last read of the block if nothing
    /// `may_change` it.
    pub(crate) fn end_read(
        &mut self,
        block: u64,
        start: &ReadStart,
        bytes: &[u8],
        may_change: bool,
    ) -> Result<(), String> {
        let ReadStart { acknowledged, ref possible, now, is_damaged } = *start;
        if is_damaged || self.is_damaged(block) {
            self.blocks[block as usize].seen = None;
            return Ok(());
        }
        let (found, last_value) = (values(block, bytes)?, self.last_value);
        let it = &mut self.blocks[block as usize];
        for &value in &found {
            let is_it = |&&other: &&u64| other == value || value == 0 && is_zeroes(other);
            let mut values = it.values.iter().chain(possible).filter(is_it);
            // Of two writes that ended since the read began, it may have met the first.
            let is_later = |value| value > now && value <= last_value;
            let began_since = is_later(value) || value == 0 && it.zeroed > now;
            if !began_since && !values.any(|&value| value >= acknowledged) {
                return Err(format!(
                    "block {block} holds value {value}; possible are {:?}, and {acknowledged} was \
                     acknowledged before the read",
                    it.values
                ));
            }
        }
        if may_change || it.writes_in_flight > 0 {
            it.seen = None;
            return Ok(());
        }
        match it.seen.replace(found.clone()) {
            Some(before) if before != found => {
                Err(format!("block {block} changed by itself from {before:?} to {found:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Notes that the service ended. What was not flushed may be lost, unless it `is_kept`.
    pub(crate) fn end_run(&mut self, is_kept: bool) {
        for block in &mut self.blocks {
            if !is_kept {
                block.acknowledged = block.values[0];
            }
            block.writes_in_flight = 0;
            block.seen = None;
        }
    }

    /// Members may serve other data than before, where writes were not flushed.
    pub(crate) fn forget_reads(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.seen = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_may_meet_a_write_that_began_later_and_was_overwritten_before_it_ended() {
        for has_data in [true, false] {
            let mut oracle = BlockOracle::new();
            oracle.begin_write(6, false);
            let start = oracle.begin_read(6);
            let value = oracle.begin_write(6, has_data);
            let last = oracle.begin_write(6, true);
            oracle.end_write(6, value, true);
            oracle.end_write(6, last, true);
            oracle.end_flush(&oracle.acknowledged());
            assert_eq!(oracle.end_read(6, &start, &contents(6, value), false), Ok(()));
            let later = oracle.begin_read(6);
            assert!(oracle.end_read(6, &later, &contents(6, value), false).is_err());
        }
    }

    #[test]
    fn a_read_may_begin_in_damage_that_a_write_mends_before_it_ends() {
        let mut oracle = BlockOracle::new();
        let damaged = contents(6, 2);
        oracle.damage(1);
        let start = oracle.begin_read(1);
        let value = oracle.begin_write(1, true);
        oracle.end_write(1, value, true);
        oracle.end_flush(&oracle.acknowledged());
        assert_eq!(oracle.end_read(1, &start, &damaged, false), Ok(()));
        let later = oracle.begin_read(1);
        assert!(oracle.end_read(1, &later, &damaged, false).is_err());
    }
}
