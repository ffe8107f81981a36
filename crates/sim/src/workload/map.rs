//! The random maps of a file: one for each size of blocks that its directions have.

use super::block_map::BlockMap;
use super::permutation::Coverage;
use mirrorball_core::rng::Rng;

/// Random maps, each with the size of its blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Maps(Vec<(u64, RandomMap)>);

/// Blocks that are visited once in each pass.
#[derive(Clone, Debug)]
pub(super) enum RandomMap {
    /// By requests of one block.
    Single(Coverage),
    Several(BlockMap),
}

impl Maps {
    /// Index of the map with blocks of `block_bytes`; makes one if there is none.
    pub(super) fn of(
        &mut self,
        block_bytes: u64,
        count: u64,
        has_several_sizes: bool,
        rng: &mut Rng,
    ) -> usize {
        let known = self.0.iter().position(|(bytes, _)| *bytes == block_bytes);
        known.unwrap_or_else(|| {
            let map = match has_several_sizes {
                true => RandomMap::Several(BlockMap::new(count)),
                false => RandomMap::Single(Coverage::new(count, rng)),
            };
            self.0.push((block_bytes, map));
            self.0.len() - 1
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Draws a block of a map that was not visited in this pass.
    #[inline]
    pub(super) fn draw(&mut self, index: usize, rng: &mut Rng) -> u64 {
        match &mut self.0[index].1 {
            RandomMap::Single(coverage) => coverage.next(rng),
            RandomMap::Several(map) => map.draw(rng),
        }
    }

    /// Visits the blocks of a request of `length` bytes. Returns its length without those that
    /// were visited before.
    #[inline]
    pub(super) fn visit(&mut self, index: usize, block: u64, length: u64) -> u64 {
        match &mut self.0[index] {
            (_, RandomMap::Single(_)) => length,
            (bytes, RandomMap::Several(map)) => {
                (map.visit(block, length.div_ceil(*bytes)) * *bytes).min(length)
            }
        }
    }

    /// Begins another pass.
    pub(super) fn restart(&mut self, rng: &mut Rng) {
        for (_, map) in &mut self.0 {
            match map {
                RandomMap::Single(coverage) => coverage.restart(rng),
                RandomMap::Several(map) => map.restart(),
            }
        }
    }
}
