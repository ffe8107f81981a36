//! A map of the blocks that requests of several sizes have visited.
//!
//! As in fio, requests never overlap within a pass: a draw that meets a visited block moves to the
//! next free one, and a request ends before the next visited block. Memory grows with the number of
//! blocks, one bit for each, as it does in fio. Requests of one size need no map: see
//! [`permutation`](super::permutation).

/// Visited blocks, and words without a free block.
#[derive(Clone, Debug)]
pub(super) struct BlockMap {
    count: u64,
    /// A bit for each block, set if it is visited.
    blocks: Vec<u64>,
    /// A bit for each word of `blocks`, set if all its blocks are visited.
    full: Vec<u64>,
}

impl BlockMap {
    pub(super) fn new(count: u64) -> BlockMap {
        let words = |bits: u64| vec![0; bits.div_ceil(64) as usize];
        let blocks = words(count);
        let full = words(blocks.len() as u64);
        let mut map = BlockMap { count, blocks, full };
        map.restart();
        map
    }

    pub(super) fn restart(&mut self) {
        self.blocks.fill(0);
        self.full.fill(0);
        // The bits behind the end are visited.
        let words = self.blocks.len() as u64;
        set_from(&mut self.blocks, self.count);
        set_from(&mut self.full, words);
    }

    /// The first free block from `block` on, or else from the start on.
    pub(super) fn next_free(&self, block: u64) -> Option<u64> {
        self.free_from(block).or_else(|| self.free_from(0))
    }

    /// Visits at most `most` blocks from a free one to the next visited one. Returns their number.
    pub(super) fn visit(&mut self, first: u64, most: u64) -> u64 {
        let end = (first + most.max(1)).min(self.count);
        let mut block = first;
        while block < end {
            let (word, bit) = ((block / 64) as usize, block % 64);
            if self.blocks[word] >> bit & 1 == 1 {
                break;
            }
            self.blocks[word] |= 1 << bit;
            if self.blocks[word] == u64::MAX {
                self.full[word / 64] |= 1 << (word % 64);
            }
            block += 1;
        }
        block - first
    }

    /// The first free block from `block` on.
    fn free_from(&self, block: u64) -> Option<u64> {
        let word = (block / 64) as usize;
        let behind = self.blocks[word] | ((1 << (block % 64)) - 1);
        if behind != u64::MAX {
            return Some(word as u64 * 64 + u64::from(behind.trailing_ones()));
        }
        let first = word + 1;
        let index = self.full.iter().enumerate().skip(first / 64).find_map(|(index, full)| {
            let full = if index == first / 64 { full | ((1 << (first % 64)) - 1) } else { *full };
            (full != u64::MAX).then(|| index * 64 + full.trailing_ones() as usize)
        })?;
        Some(index as u64 * 64 + u64::from(self.blocks[index].trailing_ones()))
    }
}

/// Sets all bits from `first` on.
fn set_from(words: &mut [u64], first: u64) {
    if let Some(last) = words.get_mut((first / 64) as usize) {
        *last |= u64::MAX << (first % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_core::rng::Rng;

    #[test]
    fn requests_of_a_pass_visit_each_block_once() {
        let mut rng = Rng::new(1);
        for count in [1, 63, 64, 65, 4096, 5000] {
            let mut map = BlockMap::new(count);
            for _ in 0..3 {
                let mut seen = vec![false; count as usize];
                let mut left = count;
                while left > 0 {
                    let first = map.next_free(rng.below(count)).unwrap();
                    let length = map.visit(first, 1 + rng.below(16));
                    assert!(length > 0);
                    for block in first..first + length {
                        assert!(!std::mem::replace(&mut seen[block as usize], true), "{block}");
                    }
                    left -= length;
                }
                assert_eq!(map.next_free(0), None);
                map.restart();
            }
        }
    }
}
