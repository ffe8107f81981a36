//! Contents of a simulated file: sparse, in pieces that files and their changes share until one of
//! them is changed.
//!
//! Most of a file is zeroes, and most of what is written as well: they take no memory.

use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const PIECE_BYTES: usize = 4096;

static ZEROES: [u8; PIECE_BYTES] = [0; PIECE_BYTES];

/// Bytes within one piece.
#[derive(Clone)]
enum Bytes {
    Zeroes(usize),
    Shared(Arc<[u8]>),
}

/// Change of a write, cut where pieces end.
#[derive(Clone)]
pub(super) struct WrittenBytes {
    offset: u64,
    parts: Vec<Bytes>,
}

/// Sparse bytes; what was never written is zero.
#[derive(Clone, Default)]
pub(super) struct Pieces(BTreeMap<u64, Bytes>);

impl Bytes {
    fn new(bytes: &[u8]) -> Bytes {
        match bytes == &ZEROES[..bytes.len()] {
            true => Bytes::Zeroes(bytes.len()),
            false => Bytes::Shared(bytes.into()),
        }
    }

    fn get(&self) -> &[u8] {
        match self {
            Bytes::Zeroes(length) => &ZEROES[..*length],
            Bytes::Shared(bytes) => bytes,
        }
    }

    /// Changes a part, after `within` bytes.
    fn overwrite(&mut self, within: usize, part: &[u8]) {
        if let Bytes::Zeroes(length) = *self {
            if part == &ZEROES[..part.len()] {
                return;
            }
            *self = Bytes::Shared(ZEROES[..length].into());
        }
        if let Bytes::Shared(bytes) = self {
            Arc::make_mut(bytes)[within..within + part.len()].copy_from_slice(part);
        }
    }
}

impl WrittenBytes {
    pub(super) fn new(offset: u64, bytes: &[u8]) -> WrittenBytes {
        let first = (PIECE_BYTES - offset as usize % PIECE_BYTES).min(bytes.len());
        let (first, others) = bytes.split_at(first);
        let parts = std::iter::once(first).chain(others.chunks(PIECE_BYTES));
        let parts = parts.filter(|part| !part.is_empty()).map(Bytes::new).collect();
        WrittenBytes { offset, parts }
    }

    /// The parts, with their offsets.
    fn parts(&self) -> impl Iterator<Item = (u64, &Bytes)> {
        self.parts.iter().scan(self.offset, |end, part| {
            let at = *end;
            *end += part.get().len() as u64;
            Some((at, part))
        })
    }

    fn length(&self) -> usize {
        self.parts.iter().map(|part| part.get().len()).sum()
    }
}

impl Pieces {
    pub(super) fn write(&mut self, written: &WrittenBytes) {
        for (at, part) in written.parts() {
            match part {
                // What is not there is zero.
                Bytes::Zeroes(PIECE_BYTES) => _ = self.0.remove(&(at / PIECE_BYTES as u64)),
                _ if part.get().len() == PIECE_BYTES => *self.piece(at) = part.clone(),
                _ => self.piece(at).overwrite(at as usize % PIECE_BYTES, part.get()),
            }
        }
    }

    /// Writes some of the sectors of a write, each of which begins a multiple of `sector_bytes`
    /// behind its offset; the last may be shorter.
    pub(super) fn write_sectors(
        &mut self,
        written: &WrittenBytes,
        sector_bytes: usize,
        mut is_written: impl FnMut() -> bool,
    ) {
        let sectors = written.length().div_ceil(sector_bytes);
        let sectors: Vec<bool> = (0..sectors).map(|_| is_written()).collect();
        for (at, part) in written.parts() {
            let (mut done, bytes) = (0, part.get());
            while done < bytes.len() {
                let behind = (at - written.offset) as usize + done;
                let sector = behind / sector_bytes;
                let end = (done + (sector + 1) * sector_bytes - behind).min(bytes.len());
                if sectors[sector] {
                    let begin = at + done as u64;
                    let piece = self.piece(begin);
                    piece.overwrite(begin as usize % PIECE_BYTES, &bytes[done..end]);
                }
                done = end;
            }
        }
    }

    /// The piece at an offset, to be written.
    fn piece(&mut self, offset: u64) -> &mut Bytes {
        let piece = self.0.entry(offset / PIECE_BYTES as u64);
        piece.or_insert(Bytes::Zeroes(PIECE_BYTES))
    }

    pub(super) fn discard(&mut self, offset: u64, length: u64) {
        const BYTES: u64 = PIECE_BYTES as u64;
        let (first, end) = (offset / BYTES, (offset + length).div_ceil(BYTES));
        for (piece, bytes) in self.0.range_mut(first..end) {
            let begin = offset.saturating_sub(piece * BYTES) as usize;
            let end = (offset + length - piece * BYTES).min(BYTES) as usize;
            match end - begin {
                PIECE_BYTES => *bytes = Bytes::Zeroes(PIECE_BYTES),
                length => bytes.overwrite(begin, &ZEROES[..length]),
            }
        }
    }

    pub(super) fn read(&self, offset: u64, target: &mut [u8]) {
        const BYTES: u64 = PIECE_BYTES as u64;
        target.fill(0);
        let end = offset + target.len() as u64;
        for (piece, bytes) in self.0.range(offset / BYTES..end.div_ceil(BYTES)) {
            let begin = offset.max(piece * BYTES);
            let end = end.min((piece + 1) * BYTES);
            let part =
                &bytes.get()[(begin - piece * BYTES) as usize..(end - piece * BYTES) as usize];
            target[(begin - offset) as usize..(end - offset) as usize].copy_from_slice(part);
        }
    }

    /// Returns true if a range is equal to another one of other pieces.
    pub(super) fn equals(
        &self,
        offset: u64,
        other: &Pieces,
        other_offset: u64,
        length: u64,
    ) -> bool {
        let mut done = 0;
        while done < length {
            let one = self.slice(offset + done, (length - done) as usize);
            let other = other.slice(other_offset + done, one.len());
            let one = &one[..other.len()];
            if !std::ptr::eq(one, other) && one != other {
                return false;
            }
            done += one.len() as u64;
        }
        true
    }

    /// The bytes from an offset on: `length`, or fewer if their piece ends before.
    fn slice(&self, offset: u64, length: usize) -> &[u8] {
        let within = offset as usize % PIECE_BYTES;
        let piece = self.0.get(&(offset / PIECE_BYTES as u64));
        let bytes = piece.map_or(&ZEROES[..], Bytes::get);
        &bytes[within..PIECE_BYTES.min(within + length)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_core::rng::Rng;

    const FILE_BYTES: usize = 5 * PIECE_BYTES;

    /// Some bytes, in half of the cases zeroes.
    fn drawn(rng: &mut Rng, length: usize) -> Vec<u8> {
        vec![(rng.below(2) * rng.below(256)) as u8; length]
    }

    fn all(pieces: &Pieces) -> Vec<u8> {
        let mut bytes = vec![0xee; FILE_BYTES];
        pieces.read(0, &mut bytes);
        bytes
    }

    #[test]
    fn pieces_hold_what_a_plain_array_of_bytes_holds_and_copies_do_not_change() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let (mut pieces, mut model) = (Pieces::default(), vec![0; FILE_BYTES]);
            let mut copies = Vec::new();
            for _ in 0..30 {
                let offset = rng.below(FILE_BYTES as u64) as usize;
                let unit = [1, 512, PIECE_BYTES][rng.below(3) as usize];
                let offset = offset / unit * unit;
                let length = 1 + rng.below((FILE_BYTES - offset) as u64) as usize;
                let length = length.next_multiple_of(unit).min(FILE_BYTES - offset);
                let range = offset..offset + length;
                let bytes = drawn(&mut rng, length);
                let written = WrittenBytes::new(offset as u64, &bytes);
                copies.push((pieces.clone(), model.clone()));
                match rng.below(3) {
                    0 => {
                        pieces.write(&written);
                        model[range].copy_from_slice(&bytes);
                    }
                    1 => {
                        pieces.discard(offset as u64, length as u64);
                        model[range].fill(0);
                    }
                    _ => {
                        let is_written: Vec<bool> =
                            (0..length.div_ceil(512)).map(|_| rng.below(2) == 0).collect();
                        let mut sectors = is_written.iter();
                        pieces.write_sectors(&written, 512, || *sectors.next().unwrap());
                        assert_eq!(sectors.next(), None, "each sector is asked for once");
                        let model = model[range].chunks_mut(512).zip(bytes.chunks(512));
                        for ((model, bytes), _) in model.zip(is_written).filter(|(_, it)| *it) {
                            model.copy_from_slice(bytes);
                        }
                    }
                }
                assert_eq!(all(&pieces), model, "seed {seed}");
                assert!(copies.iter().all(|(pieces, model)| all(pieces) == *model), "seed {seed}");
            }
        }
    }

    #[test]
    fn ranges_are_compared_at_any_offset() {
        let mut pieces = Pieces::default();
        let bytes: Vec<u8> = (0..2 * PIECE_BYTES).map(|at| (at % 251) as u8).collect();
        pieces.write(&WrittenBytes::new(100, &bytes));
        let mut other = Pieces::default();
        other.write(&WrittenBytes::new(5000, &bytes));
        let length = bytes.len() as u64;
        assert!(pieces.equals(100, &other, 5000, length) && pieces.equals(0, &other, 4900, length));
        assert!(!pieces.equals(100, &other, 5001, length));
        other.write(&WrittenBytes::new(5000 + length - 1, &[1]));
        assert!(!pieces.equals(100, &other, 5000, length));
        assert!(pieces.equals(100, &other, 5000, length - 1));
        assert!(pieces.equals(1 << 20, &other, 1 << 30, length), "both are empty");
    }
}
