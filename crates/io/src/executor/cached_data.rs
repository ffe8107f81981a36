//! Data in the cache of a controller: byte ranges of the volume, the newest write of each byte.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Longest piece of a write that is kept as one. The memory of a piece is in use until all of it
/// was dropped or overwritten.
const PIECE_BYTES: usize = 64 << 10;

/// Data by the place of their first byte. Entries do not overlap.
#[derive(Default)]
pub(super) struct CachedData {
    pieces: BTreeMap<u64, CachedPiece>,
    writes: u64,
}

/// A range of bytes of one write.
#[derive(Clone)]
pub(super) struct CachedPiece {
    memory: Arc<[u8]>,
    /// The range in `memory`.
    within: Range<usize>,
    write: u64,
}

impl CachedPiece {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.within.clone()]
    }

    /// The bytes of a part of the volume, of a piece that begins at `start`.
    fn part(&self, start: u64, part: Range<u64>) -> CachedPiece {
        let at = |offset: u64| self.within.start + (offset - start) as usize;
        CachedPiece { within: at(part.start)..at(part.end), ..self.clone() }
    }
}

impl CachedData {
    pub(super) fn last_write(&self) -> u64 {
        self.writes
    }

    pub(super) fn insert(&mut self, offset: u64, data: &[u8]) {
        self.remove(offset..offset + data.len() as u64, u64::MAX);
        self.writes += 1;
        let starts = (offset..).step_by(PIECE_BYTES);
        for (start, piece) in starts.zip(data.chunks(PIECE_BYTES)) {
            let (memory, within) = (Arc::from(piece), 0..piece.len());
            self.pieces.insert(start, CachedPiece { memory, within, write: self.writes });
        }
    }

    /// The data of a range, each piece with its place.
    pub(super) fn get(&self, range: Range<u64>) -> Vec<(u64, CachedPiece)> {
        let mut found: Vec<(u64, CachedPiece)> = self
            .touching(&range)
            .map(|(start, piece)| {
                let end = start + piece.within.len() as u64;
                let part = start.max(range.start)..end.min(range.end);
                (part.start, piece.part(start, part))
            })
            .collect();
        found.reverse();
        found
    }

    /// Drops the data of a range that writes up to this one left.
    pub(super) fn remove(&mut self, range: Range<u64>, last_write: u64) {
        let touching = self.touching(&range).filter(|(_, piece)| piece.write <= last_write);
        let touching: Vec<(u64, CachedPiece)> =
            touching.map(|(start, piece)| (start, piece.clone())).collect();
        for (start, piece) in touching {
            let end = start + piece.within.len() as u64;
            self.pieces.remove(&start);
            if start < range.start {
                self.pieces.insert(start, piece.part(start, start..range.start));
            }
            if range.end < end {
                self.pieces.insert(range.end, piece.part(start, range.end..end));
            }
        }
    }

    /// The pieces with bytes of a range, from the last one on.
    fn touching(&self, range: &Range<u64>) -> impl Iterator<Item = (u64, &CachedPiece)> {
        let from = range.start;
        let before = self.pieces.range(..range.end).rev();
        let ends_behind =
            move |(start, piece): &(&u64, &CachedPiece)| *start + piece.within.len() as u64 > from;
        before.take_while(ends_behind).map(|(&start, piece)| (start, piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_core::rng::Rng;

    /// Against a byte array with the number of the write of each byte.
    #[test]
    fn each_byte_is_that_of_its_newest_write_until_that_is_dropped() {
        const BYTES: u64 = 300 << 10;
        let (mut data, mut rng) = (CachedData::default(), Rng::new(1));
        let mut expected: Vec<Option<(u8, u64)>> = vec![None; BYTES as usize];
        for round in 0..2_000_u64 {
            let start = rng.below(BYTES);
            let range = start..start + rng.below((BYTES - start).min(90 << 10) + 1);
            let held = &mut expected[range.start as usize..range.end as usize];
            if rng.below(3) > 0 {
                data.insert(range.start, &vec![round as u8; held.len()]);
                held.fill(Some((round as u8, data.last_write())));
            } else {
                let last = data.last_write().saturating_sub(rng.below(40));
                data.remove(range, last);
                let dropped = |it: &Option<(u8, u64)>| it.is_some_and(|(_, write)| write <= last);
                held.iter_mut().filter(|it| dropped(it)).for_each(|it| *it = None);
            }
            let start = rng.below(BYTES);
            let asked = start..start + rng.below(BYTES - start + 1);
            let mut found = vec![None; (asked.end - asked.start) as usize];
            for (offset, piece) in data.get(asked.clone()) {
                let at = (offset - asked.start) as usize;
                let bytes = piece.bytes();
                found[at..at + bytes.len()].iter_mut().zip(bytes).for_each(|(to, &from)| {
                    assert_eq!(to.replace(from), None, "no byte is there twice");
                });
            }
            let of = |it: &Option<(u8, u64)>| it.map(|(byte, _)| byte);
            let expected: Vec<Option<u8>> =
                expected[asked.start as usize..asked.end as usize].iter().map(of).collect();
            assert!(found == expected, "round {round}");
        }
    }
}
