//! The data of an emulated member in memory.
//!
//! Memory is allocated in pieces of 64 KiB at their first write, so a disk of many terabytes takes
//! only what was written. Ranges that were never written, were discarded, or were written with
//! zeroes read as zeroes.

use crate::block_status::{ExtentKind, ExtentSource, StatusExtent};
use std::collections::HashMap;
use std::ops::Range;

const PIECE_BYTES: usize = 64 << 10;

/// The data of a member from an offset on, for block status.
pub(crate) struct MemorySource<'a> {
    pub(crate) store: &'a MemoryStore,
    pub(crate) offset: u64,
}

#[derive(Default)]
pub struct MemoryStore {
    pieces: HashMap<u64, Box<[u8]>>,
}

impl MemoryStore {
    /// Reads from `offset` on.
    pub fn read(&self, offset: u64, target: &mut [u8]) {
        for (piece, within, part) in parts(offset, target.len()) {
            match self.pieces.get(&piece) {
                Some(bytes) => target[part].copy_from_slice(&bytes[within]),
                None => target[part].fill(0),
            }
        }
    }

    /// Writes from `offset` on.
    pub fn write(&mut self, offset: u64, source: &[u8]) {
        for (piece, within, part) in parts(offset, source.len()) {
            if is_zero(&source[part.clone()]) {
                // Zeroes need no memory.
                self.discard_within(piece, offset, source.len() as u64);
                continue;
            }
            let bytes = self.pieces.entry(piece);
            let bytes = bytes.or_insert_with(|| vec![0; PIECE_BYTES].into_boxed_slice());
            bytes[within].copy_from_slice(&source[part]);
        }
    }

    /// The extent at `offset`, cut to `length` bytes: a hole where no memory is allocated.
    pub fn extent_at(&self, offset: u64, length: u64) -> StatusExtent {
        let first = offset / PIECE_BYTES as u64;
        let end = (offset + length).div_ceil(PIECE_BYTES as u64);
        let is_there = self.pieces.contains_key(&first);
        let same = |piece: &u64| self.pieces.contains_key(piece) == is_there;
        let count = (first + 1..end).take_while(same).count() as u64;
        let until = (first + 1 + count) * PIECE_BYTES as u64;
        let kind = if is_there { ExtentKind::Data } else { ExtentKind::Hole };
        StatusExtent { length: length.min(until - offset), kind }
    }

    /// Forgets a range.
    pub fn discard(&mut self, offset: u64, length: u64) {
        let first = offset / PIECE_BYTES as u64;
        let end = (offset + length).div_ceil(PIECE_BYTES as u64);
        // A range may be far larger than what was ever written.
        if end - first > self.pieces.len() as u64 {
            let whole = offset.div_ceil(PIECE_BYTES as u64)..(offset + length) / PIECE_BYTES as u64;
            self.pieces.retain(|piece, _| !whole.contains(piece));
            for piece in [first, end - 1] {
                self.discard_within(piece, offset, length);
            }
            return;
        }
        for piece in first..end {
            self.discard_within(piece, offset, length);
        }
    }

    fn discard_within(&mut self, piece: u64, offset: u64, length: u64) {
        let start = piece * PIECE_BYTES as u64;
        let from = offset.saturating_sub(start).min(PIECE_BYTES as u64) as usize;
        let until = (offset + length).saturating_sub(start).min(PIECE_BYTES as u64) as usize;
        if from == 0 && until == PIECE_BYTES {
            self.pieces.remove(&piece);
        } else if let Some(bytes) = self.pieces.get_mut(&piece)
            && from < until
        {
            bytes[from..until].fill(0);
        }
    }
}

impl ExtentSource for MemorySource<'_> {
    fn extent_at(&self, skip: u64, length: u64) -> StatusExtent {
        self.store.extent_at(self.offset + skip, length)
    }
}

/// Returns true if all bytes are zero. Looks at several at once, because a long run of zeroes is
/// read to its end.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    let (lanes, rest) = bytes.as_chunks::<64>();
    let is_zero = |lane: &[u8]| lane.iter().fold(0, |all, byte| all | byte) == 0;
    lanes.iter().all(|lane| is_zero(lane)) && is_zero(rest)
}

/// The pieces that a range touches: which, what of it, and what of the range.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let at = offset + done as u64;
        let within = (at % PIECE_BYTES as u64) as usize;
        let count = (PIECE_BYTES - within).min(length - done);
        done += count;
        Some((at / PIECE_BYTES as u64, within..within + count, done - count..done))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_byte_that_is_not_zero_is_found_wherever_it_is() {
        for length in [0, 1, 63, 64, 65, 200] {
            let mut bytes = vec![0; length];
            assert!(is_zero(&bytes));
            for at in 0..length {
                bytes[at] = 0x80;
                assert!(!is_zero(&bytes), "{at} of {length}");
                bytes[at] = 0;
            }
        }
    }

    proptest! {
        #[test]
        fn it_holds_what_an_array_would(
            steps in prop::collection::vec((0..3u8, 0..600_000usize, 0..300_000usize), 1..20),
        ) {
            let mut store = MemoryStore::default();
            let mut plain = vec![0u8; 900_000];
            for (number, (kind, offset, length)) in steps.into_iter().enumerate() {
                let range = offset..offset + length;
                match kind {
                    0 => {
                        plain[range.clone()].fill(number as u8 + 1);
                        store.write(offset as u64, &plain[range]);
                    }
                    1 => {
                        plain[range].fill(0);
                        store.discard(offset as u64, length as u64);
                    }
                    _ => {
                        let mut read = vec![9; length];
                        store.read(offset as u64, &mut read);
                        prop_assert!(read == plain[range]);
                    }
                }
            }
            let mut all = vec![9; plain.len()];
            store.read(0, &mut all);
            prop_assert!(all == plain);
        }
    }

    #[test]
    fn an_empty_discard_does_nothing() {
        let mut store = MemoryStore::default();
        store.write(0, &[7; 10]);
        store.discard(0, 0);
        let mut read = [0; 10];
        store.read(0, &mut read);
        assert_eq!(read, [7; 10]);
    }

    #[test]
    fn zeroes_take_no_memory() {
        let mut store = MemoryStore::default();
        store.write(0, &[0; 1 << 20]);
        assert_eq!(store.pieces.len(), 0);
        store.write(100, &[7; 1 << 20]);
        store.write(4096, &[0; 1 << 20]);
        assert_eq!(store.pieces.len(), 2, "the first and the last piece hold data");
        let mut read = [9; 8192];
        store.read(0, &mut read);
        assert!(read[100..4096] == [7; 3996] && read[4096..] == [0; 4096]);
    }
}
