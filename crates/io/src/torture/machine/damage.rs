//! Damage without an error: bits that change, and writes that go to a wrong place.
//!
//! One disk of a volume has it, drawn from the seed. A volume without checksums cannot tell which
//! mirror of a block is right, so of damaged blocks nothing is promised until they were written and
//! flushed again: a scrub finds them, and makes the mirrors equal. Metadata have checksums: damage
//! of one block at a time costs no data and hides nothing. If a crash comes on top, before the
//! block is written again, the volume may refuse to start; that ends the history.

use super::super::history::{BLOCKS, Damage};
use super::super::model::BLOCK_BYTES;
use super::{Machine, TURNS_MAX, VOLUME};
use crate::driver::sim::{Misdirection, ObjectId};
use crate::scrub::ScrubRequest;
use mirrorball_core::geometry::RESERVED_BYTES;
use mirrorball_core::member::{Member, MemberIndex, MemberState};
use mirrorball_core::units::Nanos;
use mirrorball_store::StoreGate;
use mirrorball_store::label::{
    DIRTY_LOG_BYTES, DIRTY_LOG_OFFSET, LABEL_SLOTS, METADATA_BYTES, SCRUB_OFFSET, ScrubState,
    newest_label, newest_record,
};
use std::ops::Range;

/// Turns of 100 ms after which damage is done though there is no calm.
const CALM_TURNS_MAX: u32 = 300;

/// Metadata blocks that are damaged: the slots of the label, of the log, and of the scrub.
const METADATA_BLOCKS: u64 = 2 + DIRTY_LOG_BYTES as u64 / METADATA_BYTES as u64 + 2;

impl Machine {
    /// The row of the member with the bad disk.
    fn bad_row(&self) -> usize {
        (self.seed / 7 % self.rows.len() as u64) as usize
    }

    pub(super) fn damage(&mut self, damage: Damage) -> Result<(), String> {
        self.calm_down()?;
        let row = self.bad_row();
        let file = self.rows[row];
        let done = match damage {
            Damage::Data { block } => self.place_on(row, block).map(|place| {
                let offset = place.start + self.rng.below(BLOCK_BYTES as u64);
                self.simulation.flip(file, offset, 1 << self.rng.below(8));
                self.damage_block(block);
            }),
            Damage::Metadata { block } => self.damage_metadata(file, block),
            Damage::MisdirectedData { block } => self.place_on(row, block).map(|place| {
                let from = (RESERVED_BYTES, u64::MAX);
                let to = place.start;
                self.simulation.misdirect(file, Some(Misdirection { from, to }));
            }),
            Damage::MisdirectedMetadata => {
                let from = (0, RESERVED_BYTES);
                self.simulation.misdirect(file, Some(Misdirection { from, to: 0 }));
                self.has_bad_metadata = true;
                Some(())
            }
        };
        if done.is_some() {
            self.tally.damages += 1;
            self.may_differ = true;
        }
        Ok(())
    }

    /// With checksums, waits until those of all data are on the members, if that comes to be.
    fn calm_down(&mut self) -> Result<(), String> {
        if !self.has_checksums {
            return Ok(());
        }
        self.settle()?;
        for _ in 0..CALM_TURNS_MAX {
            if self.is_calm() {
                return Ok(());
            }
            self.turn(Nanos::from_millis(100))?;
        }
        Ok(())
    }

    /// Returns true if the checksums of all data are on the members.
    fn is_calm(&self) -> bool {
        self.volume().is_some_and(|volume| {
            let is_stable = |(_, member): (_, &Member)| member.state != MemberState::Failed;
            volume.is_idle()
                && volume.gate().map_or(0, StoreGate::active_regions) == 0
                && volume.gate().map_or(0, StoreGate::unsynced_bytes) == 0
                && !volume.gate().is_some_and(StoreGate::has_dirty_pages)
                && volume.members().iter().all(is_stable)
        })
    }

    /// Takes that a mirror of a block is damaged.
    fn damage_block(&mut self, block: u64) {
        if self.has_checksums && !self.has_lost_checksums && self.is_calm() {
            let is_well = !self.disks.iter().any(|disk| disk.is_bad);
            self.has_lost_good &= !is_well || !self.rotten.is_empty();
            self.rotten.insert(block);
        } else if !self.checks_damage {
            self.model.damage(block);
        }
    }

    /// Takes that nothing is promised of what is on the volume.
    fn damage_all(&mut self) {
        (0..BLOCKS).for_each(|block| self.model.damage(block));
    }

    /// Takes that a member may be missing, which may be the only one with metadata that another
    /// lost.
    pub(super) fn on_others_lost(&mut self, row: usize) {
        if self.has_lost_metadata && row != self.bad_row() {
            self.damage_all();
        }
    }

    /// Takes the end of a run of the service, in which metadata may have been lost that were
    /// nowhere else: also of what was written later.
    pub(super) fn end_lost_record(&mut self) {
        if std::mem::take(&mut self.has_lost_record) {
            self.damage_all();
        }
    }

    /// Where a member has its mirror of a block of the clients.
    pub(super) fn place_on(&self, row: usize, block: u64) -> Option<Range<u64>> {
        let map = self.map();
        let mapped = map.map(self.block_offset(&map, block), BLOCK_BYTES as u64);
        let mut mirrors = mapped.mirrors().iter();
        let mirror = mirrors.find(|mirror| mirror.member.get() == row)?;
        Some(mirror.offset..mirror.offset + BLOCK_BYTES as u64)
    }

    /// Changes a bit of a metadata block, unless the one before it is bad already.
    fn damage_metadata(&mut self, file: ObjectId, block: u64) -> Option<()> {
        let read = |offset, length| self.simulation.read_file(file, offset, length);
        let block = (block + self.rng.below(BLOCKS) * BLOCKS) % METADATA_BLOCKS;
        let offset = match block {
            0 | 1 => {
                let other = read(LABEL_SLOTS[1 - block as usize], METADATA_BYTES);
                newest_label([&other, &vec![0; METADATA_BYTES]]).ok()?;
                LABEL_SLOTS[block as usize]
            }
            2..18 => {
                let slots = LABEL_SLOTS.map(|slot| read(slot, METADATA_BYTES));
                let member = newest_label([&slots[0], &slots[1]]).ok()?.found.member;
                let mut log = read(DIRTY_LOG_OFFSET, DIRTY_LOG_BYTES as usize);
                let newest = newest_record(&log, VOLUME, member)?.sequence;
                let begin = (block - 2) as usize * METADATA_BYTES;
                log[begin..begin + METADATA_BYTES].fill(0);
                let left = newest_record(&log, VOLUME, member)?.sequence;
                (left + 1 >= newest).then_some(DIRTY_LOG_OFFSET + begin as u64)?
            }
            _ => SCRUB_OFFSET + (block - 18) * METADATA_BYTES as u64,
        };
        self.has_bad_metadata = true;
        let offset = offset + self.rng.below(METADATA_BYTES as u64);
        self.simulation.flip(file, offset, 1 << self.rng.below(8));
        Some(())
    }

    /// Takes in the writes that went to a wrong place: both places are damaged.
    pub(super) fn take_misdirected(&mut self) {
        let row = self.bad_row();
        let data_end = self.map().allocated(MemberIndex(row as u16)).end;
        // A disk may be replaced meanwhile, and be the member again after a crash.
        let files = self.disks.iter().map(|disk| disk.file);
        let misdirected: Vec<_> =
            files.flat_map(|file| self.simulation.take_misdirected(file)).collect();
        for (offset, length, to) in misdirected {
            let is_in_sync = |(_, member): &(_, &Member)| member.state == MemberState::InSync;
            let in_sync = self
                .volume()
                .map_or(0, |volume| volume.members().iter().filter(is_in_sync).count());
            let (is_metadata, is_alone) = match offset {
                0..RESERVED_BYTES => (true, in_sync < 2),
                // A table of checksums has those of chunks that some members share.
                _ if offset >= data_end => (true, in_sync < self.rows.len()),
                _ => (false, false),
            };
            self.has_lost_metadata |= is_metadata;
            if is_alone {
                // Only this disk could have said what the others lack.
                self.has_lost_record = true;
                self.damage_all();
            }
            let ranges = [offset..offset + length, to..to + length];
            for block in 0..BLOCKS {
                let Some(place) = self.place_on(row, block) else { continue };
                let is_hit =
                    |range: &Range<u64>| range.start < place.end && place.start < range.end;
                if ranges.iter().any(is_hit) {
                    self.damage_block(block);
                }
            }
        }
    }

    /// Has a scrub make the mirrors equal after damage: from most of them, or from the good one of
    /// two. Then no scrub finds anything.
    pub(super) fn repair_damage(&mut self) -> Result<(), String> {
        let bad = self.bad_row();
        let sources = (0..self.rows.len()).filter(|&row| row != bad);
        let sources: Vec<u64> = sources.map(|row| row as u64 + 1).collect();
        for devid in sources {
            self.run_scrub(ScrubRequest { repairs: true, from: Some(devid), rate: None })?;
        }
        let found = self.run_scrub(ScrubRequest { repairs: false, from: None, rate: None })?;
        match found {
            0 => Ok(()),
            _ => Err(format!("{found} blocks differ after they were repaired")),
        }
    }

    /// Runs a scrub to its end; returns the number of blocks that differed, or did not match their
    /// checksums.
    fn run_scrub(&mut self, request: ScrubRequest) -> Result<u64, String> {
        if self.served.is_none() {
            return Ok(0);
        }
        self.restart_scrub(request)?;
        for _ in 0..TURNS_MAX {
            self.turn(Nanos::from_secs(1))?;
            let served = self.served.as_ref();
            match served.and_then(|served| served.front.scrub_progress()) {
                Some(progress) if progress.state == ScrubState::Finished => {
                    return Ok(progress.differing_blocks + progress.mismatched_blocks);
                }
                _ => {}
            }
        }
        Err("a scrub does not end".to_owned())
    }
}
