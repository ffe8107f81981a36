//! Simulated files: contents in memory, faults, and loss of unsynced writes.
//!
//! A sync makes durable what had completed when it was started, and nothing else. In a power cut
//! each sector of every other change survives or not by itself.

use super::pieces::{Pieces, WrittenBytes};
use mirrorball_core::rng::Rng;
use rustix::io::Errno;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Weak;

/// A change survives a power cut sector by sector.
const SECTOR_BYTES: usize = 512;

/// Contents of a sector that the medium has lost. Nothing else has a sector that is nearly all of
/// this byte.
const LOST: u8 = 0xbd;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FileFault {
    #[default]
    None,
    /// Every operation fails with this error.
    Fails(Errno),
    /// One read in this many fails with `EIO`.
    FailsReads(u64),
    /// Every write fails with `EIO`, as on a disk that went read-only.
    FailsWrites,
    /// Operations do not end until the fault is removed.
    Hangs,
    /// Discards fail with `EOPNOTSUPP`.
    RefusesDiscards,
    /// The next sync fails with `EIO`. Of what was not synced before, each change is durable then
    /// or is lost, whatever later syncs say: by the next power cut, or once the file is read from
    /// the medium again. Then the file is well.
    FailsNextSync,
    /// The next write that begins between these offsets fails with `EIO`, after half of it was
    /// done. Then the file is well.
    FailsNextWrite(u64, u64),
    /// A sync ends with success and makes nothing durable.
    SyncsNothing,
    /// The device ends at this offset: there are no bytes behind it.
    Ends(u64),
}

/// A write that goes to a wrong place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Misdirection {
    /// The next write that begins in this range,
    pub from: (u64, u64),
    /// goes to this offset, or as near to it as the end of the file allows.
    pub to: u64,
}

pub(super) struct SimFile {
    size_bytes: u64,
    pub(super) fault: FileFault,
    /// Held by the program that has it open.
    pub(super) lock: Weak<()>,
    contents: Pieces,
    /// The contents after the last sync.
    durable: Pieces,
    /// Sectors that were lost at some time.
    lost_sectors: BTreeSet<u64>,
    /// True if a failed sync lost changes that are read nevertheless.
    has_lost_changes: bool,
    /// Changes since the last sync, in the order in which they completed.
    unsynced: VecDeque<Change>,
    changes: u64,
    /// A write that is to go to a wrong place.
    misdirection: Option<Misdirection>,
    /// Offset and length of a write that went to a wrong place, and that place.
    misdirected: Vec<(u64, u64, u64)>,
}

#[derive(Clone)]
enum Change {
    Write(WrittenBytes),
    Discard { offset: u64, length: u64 },
}

impl SimFile {
    pub(super) fn new(size_bytes: u64) -> SimFile {
        SimFile {
            size_bytes,
            fault: FileFault::None,
            lock: Weak::new(),
            contents: Pieces::default(),
            durable: Pieces::default(),
            lost_sectors: BTreeSet::new(),
            has_lost_changes: false,
            unsynced: VecDeque::new(),
            changes: 0,
            misdirection: None,
            misdirected: Vec::new(),
        }
    }

    /// Returns true if nothing was ever written.
    pub(super) fn is_hole(&self) -> bool {
        self.changes == 0
    }

    pub(super) fn end(&self) -> u64 {
        match self.fault {
            FileFault::Ends(offset) => self.size_bytes.min(offset),
            _ => self.size_bytes,
        }
    }

    /// Changes a byte without a write, as a damaged medium does.
    pub(super) fn flip(&mut self, offset: u64, bits: u8) {
        for pieces in [&mut self.contents, &mut self.durable] {
            let mut byte = [0];
            pieces.read(offset, &mut byte);
            pieces.write(&WrittenBytes::new(offset, &[byte[0] ^ bits]));
        }
    }

    /// Loses sectors: reads of them fail until they are written. If that write is lost, they fail
    /// again.
    pub(super) fn lose_sectors(&mut self, offset: u64, length: usize) {
        let sectors = offset..offset + length as u64;
        self.lost_sectors.extend(sectors.step_by(SECTOR_BYTES));
        let lost = WrittenBytes::new(offset, &vec![LOST; length]);
        self.durable.write(&lost);
        self.change(Change::Write(lost));
    }

    /// Returns true if a read of a range fails, because a sector of it is lost.
    pub(super) fn has_lost(&self, offset: u64, length: usize) -> bool {
        let is_lost = |&sector: &u64| {
            let mut bytes = [0; SECTOR_BYTES];
            self.contents.read(sector, &mut bytes);
            // `flip` may have changed one.
            bytes.iter().filter(|byte| **byte != LOST).take(2).count() < 2
        };
        self.lost_sectors.range(offset..offset + length as u64).any(is_lost)
    }

    /// Has a later write go to a wrong place, or none.
    pub(super) fn misdirect(&mut self, misdirection: Option<Misdirection>) {
        self.misdirection = misdirection;
    }

    /// The writes that went to a wrong place since the last call: offset, length, and that place.
    pub(super) fn take_misdirected(&mut self) -> Vec<(u64, u64, u64)> {
        std::mem::take(&mut self.misdirected)
    }

    /// A copy of what it holds, with all of it durable.
    pub(super) fn copy(&self) -> SimFile {
        let (contents, lost_sectors) = (self.contents.clone(), self.lost_sectors.clone());
        let durable = contents.clone();
        SimFile { durable, contents, lost_sectors, ..SimFile::new(self.size_bytes) }
    }

    /// Reads up to the end of the file; returns the number of bytes.
    pub(super) fn read(&self, offset: u64, target: &mut [u8]) -> usize {
        let length = target.len().min(self.end().saturating_sub(offset) as usize);
        self.contents.read(offset, &mut target[..length]);
        length
    }

    /// Returns true if a range is equal to one of another file.
    pub(super) fn equals(&self, offset: u64, (other, at): (&SimFile, u64), length: u64) -> bool {
        self.contents.equals(offset, &other.contents, at, length)
    }

    /// Reads what is durable, up to the end of the file.
    pub(super) fn read_durable(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length.min(self.end().saturating_sub(offset) as usize)];
        self.durable.read(offset, &mut bytes);
        bytes
    }

    pub(super) fn write(&mut self, mut offset: u64, bytes: &[u8]) {
        if let Some(Misdirection { from: (begin, end), to }) = self.misdirection
            && (begin..end).contains(&offset)
        {
            let length = bytes.len() as u64;
            let to = to.min(self.size_bytes - length);
            self.misdirected.push((offset, length, to));
            self.misdirection = None;
            offset = to;
        }
        self.size_bytes = self.size_bytes.max(offset + bytes.len() as u64);
        self.change(Change::Write(WrittenBytes::new(offset, bytes)));
    }

    pub(super) fn discard(&mut self, offset: u64, length: u64) {
        self.change(Change::Discard { offset, length });
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.contents);
        self.unsynced.push_back(change);
        self.changes += 1;
    }

    /// Number of changes so far: a sync that starts now makes these durable.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Makes the first `changes` changes durable.
    pub(super) fn sync(&mut self, changes: u64) {
        if self.fault == FileFault::SyncsNothing {
            return;
        }
        while self.changes - (self.unsynced.len() as u64) < changes {
            let Some(change) = self.unsynced.pop_front() else { return };
            change.apply(&mut self.durable);
        }
    }

    /// Fails a write after half of its sectors: no device writes a part of one.
    pub(super) fn fail_write(&mut self, offset: u64, bytes: &[u8]) {
        self.fault = FileFault::None;
        self.write(offset, &bytes[..bytes.len() / 2 / SECTOR_BYTES * SECTOR_BYTES]);
    }

    /// Fails a sync: each change that was not synced becomes durable now or never.
    pub(super) fn fail_sync(&mut self, rng: &mut Rng) {
        for change in self.unsynced.drain(..) {
            match rng.below(2) {
                0 => change.apply(&mut self.durable),
                _ => self.has_lost_changes = true,
            }
        }
    }

    /// Has reads return what the medium holds, without what failed syncs lost.
    pub(super) fn drop_cache(&mut self) {
        if std::mem::take(&mut self.has_lost_changes) {
            self.contents = self.durable.clone();
            self.unsynced.iter().for_each(|change| change.apply(&mut self.contents));
        }
    }

    /// Loses each unsynced sector with a probability of one half, as a power failure would. A
    /// discard is lost or not as a whole.
    pub(super) fn lose_unsynced(&mut self, rng: &mut Rng) {
        for change in self.unsynced.drain(..) {
            match change {
                Change::Write(written) => {
                    let survives = || rng.below(2) == 0;
                    self.durable.write_sectors(&written, SECTOR_BYTES, survives);
                }
                Change::Discard { .. } if rng.below(2) == 0 => change.apply(&mut self.durable),
                Change::Discard { .. } => {}
            }
        }
        self.contents = self.durable.clone();
        self.has_lost_changes = false;
    }
}

impl Change {
    fn apply(&self, pieces: &mut Pieces) {
        match self {
            Change::Write(written) => pieces.write(written),
            Change::Discard { offset, length } => pieces.discard(*offset, *length),
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
        file.sync(2);
        let read = |file: &SimFile, offset, length| {
            let mut bytes = vec![0xee; length];
            assert_eq!(file.read(offset, &mut bytes), length);
            bytes
        };
        let expected = [&[7; 1000][..], &[0; 3000], &[7; 5000]].concat();
        assert_eq!(read(&file, 5000, 9000), expected);
        let (mut kept, mut lost) = (0, 0);
        // Started before the last writes, so it says nothing of them.
        let changes = file.changes();
        for block in 100..200 {
            file.write(block * 4096, &[1; 4096]);
        }
        file.sync(changes);
        file.lose_unsynced(&mut rng);
        for sector in 800..1600 {
            match read(&file, sector * 512, 512) {
                bytes if bytes == [1; 512] => kept += 1,
                bytes => {
                    assert_eq!(bytes, [0; 512]);
                    lost += 1;
                }
            }
        }
        assert!(kept > 200 && lost > 200, "{kept} kept, {lost} lost");
        assert_eq!(read(&file, 5000, 9000), expected);
        assert_eq!(file.read((1 << 20) - 10, &mut [0; 100]), 10, "the file ends there");
    }

    #[test]
    fn what_a_failed_sync_did_not_write_is_lost_though_a_later_one_succeeds() {
        let mut rng = Rng::new(1);
        let mut file = SimFile::new(1 << 20);
        (0..100).for_each(|block| file.write(block * 4096, &[1; 4096]));
        file.fail_sync(&mut rng);
        let first = |file: &SimFile, block: u64| {
            let mut byte = [0];
            file.read(block * 4096, &mut byte);
            byte[0]
        };
        assert!((0..100).all(|block| first(&file, block) == 1), "it is still read");
        file.sync(file.changes());
        let durable = |block: &u64| file.read_durable(block * 4096, 1) == [1];
        let durable = (0..100).filter(durable).count();
        file.write(200 * 4096, &[1; 4096]);
        file.drop_cache();
        let read = (0..100).filter(|&block| first(&file, block) == 1).count();
        assert_eq!((read, first(&file, 200)), (durable, 1), "only what was not synced is read");
        file.lose_unsynced(&mut rng);
        let kept = (0..100).filter(|&block| first(&file, block) == 1).count();
        assert!((20..80).contains(&kept), "{kept} of 100 are kept");
        assert_eq!(kept, durable);
    }
}
