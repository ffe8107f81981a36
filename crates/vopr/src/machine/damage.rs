//! Damage without an error: bits that change, and writes of data that go to a wrong place.
//!
//! One disk of a volume has it. A volume without checksums cannot tell which mirror of a block is
//! right, so of damaged blocks nothing is promised until they were written and flushed again: a
//! scrub finds them, and makes the mirrors equal. With checksums they are read from the good
//! mirror, unless that one may be lost, too. Metadata have checksums: damage of one block at a time
//! costs no data and hides nothing. If a crash comes on top, before the block is written again, the
//! volume may refuse to start, and a member may have no label any more: the crash tore the one that
//! was not damaged. The volume starts without that member (`--degraded`) if another one was in sync
//! until the crash, and has all data then; if not, that ends the history.
//!
//! Sectors that a disk loses are errors until they are written. Where no mirror has a block,
//! because its sector is lost or the service lists it as a bad block, reads of it fail, and nothing
//! else.

use super::Machine;
use super::clients::block_offset;
use crate::history::{BLOCKS, Damage, ExtraFaults};
use crate::oracle::BLOCK_BYTES;
use mirrorball_core::geometry::RESERVED_BYTES;
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::units::Nanos;
use mirrorball_io::driver::sim::{Misdirection, ObjectId};
use mirrorball_store::label::{
    DIRTY_LOG_BYTES, DIRTY_LOG_OFFSET, LABEL_SLOTS, METADATA_BYTES, SCRUB_OFFSET, newest_label,
    newest_record,
};
use std::collections::BTreeSet;
use std::ops::Range;

/// Turns of 100 ms after which damage is done though there is no calm.
const CALM_TURNS_MAX: u32 = 300;
/// Metadata blocks that are damaged: the slots of the label, of the log, and of the scrub.
const METADATA_BLOCKS: u64 = 2 + DIRTY_LOG_BYTES as u64 / METADATA_BYTES as u64 + 2;

/// Damage that was done, and what may be wrong therefore.
#[derive(Default)]
pub(crate) struct DamageState {
    /// True once a copy was damaged.
    pub(crate) may_differ: bool,
    /// Blocks with a bit that changed on one mirror and was not written since.
    pub(crate) rotten: BTreeSet<u64>,
    /// True if a good mirror of those may be gone.
    pub(crate) has_lost_good: bool,
    /// True once checksums were lost, because the only disk that had them did not return them.
    has_lost_checksums: bool,
    /// True once metadata were damaged.
    pub(crate) has_bad_metadata: bool,
    pub(crate) bad_labels: BTreeSet<ObjectId>,
    /// Blocks of the clients of which a medium failed at some time: no others are listed as bad.
    pub(crate) lost: BTreeSet<u64>,
}

impl Machine {
    pub(crate) fn damage(&mut self, damage: Damage) -> Result<(), String> {
        self.calm_down()?;
        let row = self.shape.bad_row;
        let file = self.rows[row];
        let done = match damage {
            Damage::Data { block } => self.place_on(row, block).map(|place| {
                let offset = place.start + self.rng.below(BLOCK_BYTES as u64);
                self.world.flip(file, offset, 1 << self.rng.below(8));
                self.damage_block(block);
            }),
            Damage::Metadata { block } => self.damage_metadata(file, block),
            Damage::Misdirected { block } => self.place_on(row, block).map(|place| {
                let from = (RESERVED_BYTES, self.map.allocated(MemberIndex(row as u16)).end);
                self.world.misdirect(file, Some(Misdirection { from, to: place.start }));
            }),
        };
        if done.is_some() {
            self.tally.damages += 1;
            self.damage.may_differ = true;
        }
        Ok(())
    }

    /// With checksums, waits until those of all data are on the members, if that comes to be.
    fn calm_down(&mut self) -> Result<(), String> {
        if !self.shape.has_checksums {
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
        let has_failed = |row| self.state(row) == Some(MemberState::Failed);
        self.served.as_ref().is_some_and(|served| {
            let store = served.store();
            served.volume().is_idle()
                && store.active_regions() == 0
                && store.unsynced_bytes() == 0
                && !store.has_dirty_pages()
                && !(0..self.rows.len()).any(has_failed)
        })
    }

    /// Notes that a mirror of a block is damaged.
    fn damage_block(&mut self, block: u64) {
        if self.shape.has_checksums && !self.damage.has_lost_checksums && self.is_calm() {
            let is_well = self.has_no_fault();
            self.damage.has_lost_good &= !is_well || !self.damage.rotten.is_empty();
            self.damage.rotten.insert(block);
        } else {
            self.oracle.damage(block);
        }
    }

    /// Promises nothing any more of blocks with one damaged mirror.
    pub(crate) fn give_up_rotten(&mut self) {
        let rotten = std::mem::take(&mut self.damage.rotten);
        rotten.into_iter().for_each(|block| self.oracle.damage(block));
    }

    /// Has a disk lose a sector of a block, or all of it.
    pub(crate) fn lose_sectors(&mut self, row: usize, block: u64) {
        let Some(Range { start, .. }) = self.place_on(row, block) else { return };
        self.changes += 1;
        self.damage.has_lost_good = true;
        self.damage.lost.insert(block);
        self.lose_kept(row, block);
        self.kept.lose_copy(row, block);
        self.oracle.forget_reads();
        let (offset, length) = match self.rng.below(2) {
            0 => (0, BLOCK_BYTES),
            _ => (self.rng.below(8) * 512, 512),
        };
        self.world.lose_sectors(self.rows[row], start + offset, length);
    }

    /// Returns true if a member is known to lack a block of the clients: it lost a sector of it, or
    /// the service says so.
    fn lacks(&self, row: usize, block: u64) -> bool {
        let Some(place) = self.place_on(row, block) else { return false };
        self.world.has_lost(self.rows[row], place.start, BLOCK_BYTES)
            || self.bad_rows(block).any(|bad| bad == row)
    }

    /// The members that lack a part of a block, as the service says.
    fn bad_rows(&self, block: u64) -> impl Iterator<Item = usize> {
        let start = block_offset(&self.map, block);
        let end = start + BLOCK_BYTES as u64;
        let bad = self.served.iter().flat_map(|served| served.store().bad_blocks());
        let bad = bad.filter(move |(_, range)| range.start < end && start < range.end);
        bad.map(|(member, _)| member.get())
    }

    /// Returns true if the service lists a block as bad on some member.
    pub(crate) fn is_listed(&self, block: u64) -> bool {
        self.bad_rows(block).next().is_some()
    }

    /// Returns true if no mirror of a block of the clients can be read.
    pub(crate) fn is_lost(&self, block: u64) -> bool {
        let mut rows = (0..self.rows.len()).filter(|&row| self.place_on(row, block).is_some());
        let may_be_lost = self.damage.may_differ || self.damage.lost.contains(&block);
        may_be_lost && rows.all(|row| self.lacks(row, block))
    }

    /// Returns true if a member is known to lack a block.
    pub(crate) fn has_bad_blocks(&self) -> bool {
        let lacks = |row| (0..BLOCKS).any(|block| self.lacks(row, block));
        (0..self.rows.len()).any(lacks)
    }

    /// Where a member has its mirror of a block of the clients.
    fn place_on(&self, row: usize, block: u64) -> Option<Range<u64>> {
        let mapped = self.map.map(block_offset(&self.map, block), BLOCK_BYTES as u64);
        let mirror = mapped.mirrors.iter().find(|mirror| mirror.member.get() == row)?;
        Some(mirror.offset..mirror.offset + BLOCK_BYTES as u64)
    }

    /// Changes a bit of a metadata block, unless the one before it is bad already.
    fn damage_metadata(&mut self, file: ObjectId, block: u64) -> Option<()> {
        let read = |offset, length| self.world.read_file(file, offset, length);
        let block = (block + self.rng.below(BLOCKS) * BLOCKS) % METADATA_BLOCKS;
        let offset = match block {
            0 | 1 => {
                let other = read(LABEL_SLOTS[1 - block as usize], METADATA_BYTES);
                newest_label([&other, &vec![0; METADATA_BYTES]]).ok()?;
                self.damage.bad_labels.insert(file);
                LABEL_SLOTS[block as usize]
            }
            2..18 => {
                let slots = LABEL_SLOTS.map(|slot| read(slot, METADATA_BYTES));
                let found = newest_label([&slots[0], &slots[1]]).ok()?.found;
                let (volume, member) = (found.label.array.uuid, found.member);
                let mut log = read(DIRTY_LOG_OFFSET, DIRTY_LOG_BYTES as usize);
                let newest = newest_record(&log, volume, member).ok()??.sequence;
                let begin = (block - 2) as usize * METADATA_BYTES;
                log[begin..begin + METADATA_BYTES].fill(0);
                let left = newest_record(&log, volume, member).ok()??.sequence;
                (left + 1 >= newest).then_some(DIRTY_LOG_OFFSET + begin as u64)?
            }
            _ => SCRUB_OFFSET + (block - 18) * METADATA_BYTES as u64,
        };
        self.damage.has_bad_metadata = true;
        let offset = offset + self.rng.below(METADATA_BYTES as u64);
        self.world.flip(file, offset, 1 << self.rng.below(8));
        Some(())
    }

    /// Notes what a bad disk did since the last turn, and whether checksums were lost that would
    /// show it.
    pub(crate) fn take_damage(&mut self) {
        if self.served.as_ref().is_some_and(|served| served.store().lost_checksum_pages() > 0) {
            self.damage.has_lost_checksums = true;
            self.give_up_rotten();
        }
        if self.shape.extra != ExtraFaults::Damage {
            return;
        }
        // A disk may be replaced meanwhile, and be the member again after a crash.
        let files = self.disks.iter().map(|disk| disk.file);
        let misdirected: Vec<(u64, u64, u64)> =
            files.flat_map(|file| self.world.take_misdirected(file)).collect();
        for (offset, length, to) in misdirected {
            let ranges = [offset..offset + length, to..to + length];
            for block in 0..BLOCKS {
                let Some(place) = self.place_on(self.shape.bad_row, block) else { continue };
                let is_hit =
                    |range: &Range<u64>| range.start < place.end && place.start < range.end;
                if ranges.iter().any(is_hit) {
                    self.damage_block(block);
                }
            }
        }
    }

    /// Checks that data which nothing damaged are not found to be wrong. A write that a crash cut
    /// is on one mirror alone where the other lacked the block, and counts once that is replaced.
    pub(crate) fn check_found(&self) -> Result<(), String> {
        if self.damage.may_differ {
            return Ok(());
        }
        if self.scrub_progress().is_some_and(|scrub| scrub.differing_blocks > 0) {
            return Err("a scrub found mirrors that differ".to_owned());
        }
        let mut members = (0..).map(MemberIndex).take(self.rows.len());
        let is_mismatched = self.served.as_ref().is_some_and(|served| {
            let lost = self.damage.lost.len() as u64;
            members.any(|member| served.store().mismatched_blocks(member) > lost)
        });
        match is_mismatched {
            false => Ok(()),
            true => Err("undamaged data do not match their checksums".to_owned()),
        }
    }

    /// Has a scrub make the mirrors equal after damage: from most of them, or from the good one of
    /// two. Then no scrub finds anything.
    pub(crate) fn repair_damage(&mut self) -> Result<(), String> {
        let bad_row = self.shape.bad_row;
        for row in (0..self.rows.len()).filter(|&row| row != bad_row) {
            self.scrub_to_end(true, Some(row as u64 + 1))?;
        }
        let found = self.scrub_to_end(false, None)?;
        match found.differing_blocks + found.mismatched_blocks {
            0 => Ok(()),
            found => Err(format!("{found} blocks differ after they were repaired")),
        }
    }
}
