//! The contents of a cache in front of a disk: which blocks are in it, and which of them are dirty.
//!
//! Blocks of 4 KiB. The clean block that was used least recently is evicted; dirty ones stay until
//! they are written back. Memory grows with the blocks that were cached during the run, and never
//! beyond those that fit into the cache.
//!
//! The blocks that are there at the start are drawn by a hash of their number, so that they need no
//! memory. They stay until they are overwritten past the cache, and take no part of its size.

use crate::byte_range::ByteRange;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::KIB;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

const BLOCK_BYTES: u64 = 4 * KIB;
/// Most bytes that are written back at once.
const WRITE_BACK_BYTES_MAX: u64 = 512 * KIB;

/// Contents of the cache in front of a disk.
#[derive(Clone, Debug)]
pub struct CacheContents {
    capacity_blocks: usize,
    /// The last use of each clean block.
    clean: BTreeMap<u64, u64>,
    /// Uses of blocks, the oldest first. A block has a use for each time; only its last one counts.
    uses: VecDeque<(u64, u64)>,
    next_use: u64,
    /// Blocks that the disk does not have yet.
    dirty: BTreeSet<u64>,
    /// Where the next write-back looks for dirty blocks.
    write_back_from: u64,
    warm_share: f64,
    seed: u64,
    /// Blocks that were there at the start and no longer are.
    cooled: BTreeSet<u64>,
    /// How often each block was missed that was not put into the cache yet.
    misses: BTreeMap<u64, u32>,
}

/// Neighbouring blocks that are all in the cache, or all not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockRun {
    pub(crate) range: ByteRange,
    pub(crate) is_cached: bool,
}

impl CacheContents {
    pub(crate) fn new(cache_bytes: u64, warm_share: f64, seed: u64) -> CacheContents {
        CacheContents {
            capacity_blocks: usize::try_from(cache_bytes / BLOCK_BYTES).unwrap_or(usize::MAX),
            clean: BTreeMap::new(),
            uses: VecDeque::new(),
            next_use: 0,
            dirty: BTreeSet::new(),
            write_back_from: 0,
            warm_share,
            seed,
            cooled: BTreeSet::new(),
            misses: BTreeMap::new(),
        }
    }

    /// Cuts a range where cached blocks begin or end.
    pub(crate) fn runs(&self, range: ByteRange, runs: &mut Vec<BlockRun>) {
        let blocks = blocks(range);
        let nothing_is_cached = self.warm_share == 0.0
            && self.clean.range(blocks.clone()).next().is_none()
            && self.dirty.range(blocks.clone()).next().is_none();
        if nothing_is_cached {
            runs.push(BlockRun { range, is_cached: false });
            return;
        }
        let end = range.offset + range.length;
        for block in blocks {
            let from = (block * BLOCK_BYTES).max(range.offset);
            let until = ((block + 1) * BLOCK_BYTES).min(end);
            let is_cached = self.has(block);
            match runs.last_mut().filter(|run| run.is_cached == is_cached) {
                Some(run) => run.range.length += until - from,
                None => {
                    let range = ByteRange { offset: from, length: until - from };
                    runs.push(BlockRun { range, is_cached });
                }
            }
        }
    }

    /// Makes the cached blocks of a range the last ones used.
    pub(crate) fn touch(&mut self, range: ByteRange) {
        for block in blocks(range) {
            if self.clean.contains_key(&block) {
                self.note_use(block);
            }
        }
    }

    /// Puts a range into the cache, as the disk has it, and evicts what was used least recently.
    pub(crate) fn insert(&mut self, range: ByteRange) {
        for block in blocks(range) {
            self.dirty.remove(&block);
            self.misses.remove(&block);
            if !self.is_warm(block) {
                self.note_use(block);
            }
        }
        self.evict();
    }

    /// Puts a range into the cache that the disk does not have yet.
    pub(crate) fn insert_dirty(&mut self, range: ByteRange) {
        for block in blocks(range) {
            self.clean.remove(&block);
            self.misses.remove(&block);
            self.dirty.insert(block);
        }
        self.evict();
    }

    pub(crate) fn remove(&mut self, range: ByteRange) {
        for block in blocks(range) {
            self.clean.remove(&block);
            self.dirty.remove(&block);
            if self.is_warm(block) {
                self.cooled.insert(block);
            }
        }
    }

    /// Counts a miss of the blocks of a range that are not cached. Returns true if each of them was
    /// missed `times` times.
    pub(crate) fn note_miss(&mut self, range: ByteRange, times: u32) -> bool {
        if times <= 1 {
            return true;
        }
        let mut is_promoted = true;
        for block in blocks(range) {
            if !self.has(block) {
                let misses = self.misses.entry(block).or_default();
                *misses = misses.saturating_add(1);
                is_promoted &= *misses >= times;
            }
        }
        is_promoted
    }

    /// The share of the cache that is dirty if `more_bytes` become dirty.
    pub(crate) fn dirty_share(&self, more_bytes: u64) -> f64 {
        let blocks = self.dirty.len() as u64 + more_bytes.div_ceil(BLOCK_BYTES);
        blocks as f64 / self.capacity_blocks.max(1) as f64
    }

    /// Marks the next dirty blocks, which are neighbours, for write-back, in the order of
    /// addresses. They count as clean from now on.
    pub(crate) fn take_dirty(&mut self) -> Option<ByteRange> {
        let from = self.dirty.range(self.write_back_from..).next().or(self.dirty.first());
        let first = *from?;
        let neighbours = self.dirty.range(first..).zip(first..);
        let most = WRITE_BACK_BYTES_MAX / BLOCK_BYTES;
        let length = neighbours.take_while(|&(&block, next)| block == next);
        let length = length.take(most as usize).count() as u64;
        for block in first..first + length {
            self.dirty.remove(&block);
            self.note_use(block);
        }
        self.write_back_from = first + length;
        Some(ByteRange { offset: first * BLOCK_BYTES, length: length * BLOCK_BYTES })
    }

    /// Evicts clean blocks until the rest fits. Dirty ones always fit: their share is limited.
    fn evict(&mut self) {
        while self.clean.len() + self.dirty.len() > self.capacity_blocks {
            let Some((at, block)) = self.uses.pop_front() else { return };
            if self.clean.get(&block) == Some(&at) {
                self.clean.remove(&block);
            }
        }
    }

    fn note_use(&mut self, block: u64) {
        self.next_use += 1;
        self.clean.insert(block, self.next_use);
        self.uses.push_back((self.next_use, block));
        if self.uses.len() > 2 * self.clean.len() + 64 {
            let clean = &self.clean;
            self.uses.retain(|(at, block)| clean.get(block) == Some(at));
        }
    }

    fn has(&self, block: u64) -> bool {
        self.clean.contains_key(&block) || self.dirty.contains(&block) || self.is_warm(block)
    }

    fn is_warm(&self, block: u64) -> bool {
        self.warm_share > 0.0
            && Rng::new(self.seed ^ block).unit() < self.warm_share
            && !self.cooled.contains(&block)
    }
}

/// The numbers of the blocks that a range touches.
fn blocks(range: ByteRange) -> Range<u64> {
    range.offset / BLOCK_BYTES..(range.offset + range.length).div_ceil(BLOCK_BYTES)
}
