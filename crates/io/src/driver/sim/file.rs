//! Simulated files: contents in memory, faults, and loss of unsynced writes.

use crate::driver::FileSize;
use mirrorball_core::rng::Rng;
use rustix::io::Errno;
use std::collections::BTreeMap;

/// Files are kept in pieces of this size.
const PIECE_BYTES: u64 = 4096;

/// What a simulated file does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FileFault {
    /// Nothing.
    #[default]
    None,
    /// Every operation fails with this error.
    Fails(Errno),
    /// One read in this many fails with `EIO`.
    FailsReads(u64),
    /// Operations do not end until the fault is removed.
    Hangs,
    /// Discards fail with `EOPNOTSUPP`.
    RefusesDiscards,
}

/// A file in memory.
pub(super) struct SimFile {
    size_bytes: u64,
    pub(super) fault: FileFault,
    contents: Pieces,
    /// The contents after the last sync.
    durable: Pieces,
    /// Changes since the last sync, in the order in which they completed.
    unsynced: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    Discard { offset: u64, length: u64 },
}

/// Sparse bytes; what was never written is zero.
#[derive(Clone, Default)]
struct Pieces(BTreeMap<u64, Box<[u8]>>);

impl SimFile {
    pub(super) fn new(size_bytes: u64) -> SimFile {
        SimFile {
            size_bytes,
            fault: FileFault::None,
            contents: Pieces::default(),
            durable: Pieces::default(),
            unsynced: Vec::new(),
        }
    }

    /// Its length, and the bytes that are allocated for it.
    pub(super) fn size(&self) -> FileSize {
        let allocated_bytes = self.contents.0.len() as u64 * PIECE_BYTES;
        FileSize { size_bytes: self.size_bytes, allocated_bytes }
    }

    /// Loses all contents.
    #[cfg(test)]
    pub(super) fn clear(&mut self) {
        *self = SimFile { fault: self.fault, ..SimFile::new(self.size_bytes) };
    }

    /// Reads up to the end of the file; returns the number of bytes.
    pub(super) fn read(&self, offset: u64, target: &mut [u8]) -> usize {
        let length = target.len().min(self.size_bytes.saturating_sub(offset) as usize);
        self.contents.read(offset, &mut target[..length]);
        length
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.size_bytes = self.size_bytes.max(offset + bytes.len() as u64);
        self.change(Change::Write { offset, bytes: bytes.to_vec() });
    }

    pub(super) fn discard(&mut self, offset: u64, length: u64) {
        self.change(Change::Discard { offset, length });
    }

    fn change(&mut self, change: Change) {
        self.contents.apply(&change);
        self.unsynced.push(change);
    }

    /// Makes every completed change durable.
    pub(super) fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            self.durable.apply(&change);
        }
    }

    /// Loses each unsynced change with a probability of one half, as a power failure would.
    pub(super) fn lose_unsynced(&mut self, rng: &mut Rng) {
        for change in self.unsynced.drain(..) {
            if rng.below(2) == 0 {
                self.durable.apply(&change);
            }
        }
        self.contents = self.durable.clone();
    }
}

impl Pieces {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Write { offset, bytes } => {
                let mut done = 0;
                while done < bytes.len() {
                    let at = offset + done as u64;
                    let within = (at % PIECE_BYTES) as usize;
                    let length = (PIECE_BYTES as usize - within).min(bytes.len() - done);
                    let piece = self.0.entry(at / PIECE_BYTES);
                    let piece = piece.or_insert_with(|| vec![0; PIECE_BYTES as usize].into());
                    piece[within..within + length].copy_from_slice(&bytes[done..done + length]);
                    done += length;
                }
            }
            Change::Discard { offset, length } => {
                let (first, end) = (offset / PIECE_BYTES, (offset + length).div_ceil(PIECE_BYTES));
                for (piece, bytes) in self.0.range_mut(first..end) {
                    let begin = offset.saturating_sub(piece * PIECE_BYTES);
                    let end = (offset + length - piece * PIECE_BYTES).min(PIECE_BYTES);
                    bytes[begin as usize..end as usize].fill(0);
                }
            }
        }
    }

    fn read(&self, offset: u64, target: &mut [u8]) {
        let mut done = 0;
        while done < target.len() {
            let at = offset + done as u64;
            let within = (at % PIECE_BYTES) as usize;
            let length = (PIECE_BYTES as usize - within).min(target.len() - done);
            let part = &mut target[done..done + length];
            match self.0.get(&(at / PIECE_BYTES)) {
                Some(piece) => part.copy_from_slice(&piece[within..within + length]),
                None => part.fill(0),
            }
            done += length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsynced_changes_may_be_lost_and_synced_ones_are_kept() {
        let mut rng = Rng::new(1);
        let mut file = SimFile::new(1 << 20);
        file.write(5000, &[7; 9000]);
        file.discard(6000, 3000);
        file.sync();
        let read = |file: &SimFile, offset, length| {
            let mut bytes = vec![0xee; length];
            assert_eq!(file.read(offset, &mut bytes), length);
            bytes
        };
        let expected = [&[7; 1000][..], &[0; 3000], &[7; 5000]].concat();
        assert_eq!(read(&file, 5000, 9000), expected);
        let (mut kept, mut lost) = (0, 0);
        for block in 100..200 {
            file.write(block * 4096, &[1; 4096]);
        }
        file.lose_unsynced(&mut rng);
        for block in 100..200 {
            match read(&file, block * 4096, 4096) {
                bytes if bytes == [1; 4096] => kept += 1,
                bytes => {
                    assert_eq!(bytes, [0; 4096]);
                    lost += 1;
                }
            }
        }
        assert!(kept > 20 && lost > 20, "{kept} kept, {lost} lost");
        assert_eq!(read(&file, 5000, 9000), expected);
        assert_eq!(file.read((1 << 20) - 10, &mut [0; 100]), 10, "the file ends there");
    }
}
