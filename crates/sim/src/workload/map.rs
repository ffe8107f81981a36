//! The random map of a file: which of its blocks were visited in this pass.

use super::block_map::BlockMap;
use super::permutation::Coverage;
use crate::job::{Access, Distribution, Section};
use mirrorball_core::rng::Rng;

/// Blocks that are visited once in each pass.
#[derive(Clone, Debug)]
pub(super) enum RandomMap {
    /// By requests of one block.
    Single(Coverage),
    /// By requests of several sizes. As in fio, all directions share the map, whose blocks have the
    /// smallest size of any, but each counts in its own smallest size.
    Several(BlockMap),
}

impl RandomMap {
    /// The map of a file of `bytes`, if the job keeps one.
    pub(super) fn of(job: &Section, bytes: u64, rng: &mut Rng) -> Option<RandomMap> {
        let is_random = job.access == Access::Random && job.distribution == Distribution::Uniform;
        if !is_random || !job.random_map {
            return None;
        }
        let smallest = super::DIRECTIONS.map(|it| job.block_bytes(it)).into_iter().min()?;
        let mut used = job.mix.directions().iter();
        let is_single =
            used.all(|&it| matches!(job.sizes[it][..], [size] if size.bytes == smallest));
        Some(match is_single {
            true => RandomMap::Single(Coverage::new(
                job.place_count(job.mix.directions()[0], bytes),
                rng,
            )),
            false => RandomMap::Several(BlockMap::new((bytes / smallest).max(1))),
        })
    }

    /// Draws a block of `count` that was not visited in this pass. As in fio, it may be one behind
    /// them if other directions count in smaller blocks. `None` if all are visited.
    #[inline]
    pub(super) fn draw(&mut self, count: u64, rng: &mut Rng) -> Option<u64> {
        match self {
            RandomMap::Single(coverage) => coverage.next(),
            RandomMap::Several(map) => map.next_free(rng.below(count)),
        }
    }

    /// Visits the blocks of a request of `length` bytes. Returns its length without those that
    /// were visited before.
    #[inline]
    pub(super) fn visit(&mut self, block: u64, length: u64, block_bytes: u64) -> u64 {
        match self {
            RandomMap::Single(_) => length,
            RandomMap::Several(map) => {
                (map.visit(block, length.div_ceil(block_bytes)) * block_bytes).min(length)
            }
        }
    }

    /// Begins another pass.
    pub(super) fn restart(&mut self, rng: &mut Rng) {
        match self {
            RandomMap::Single(coverage) => coverage.restart(rng),
            RandomMap::Several(map) => map.restart(),
        }
    }
}
