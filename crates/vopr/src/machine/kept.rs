//! Mirrors that certainly have a block of the clients, in histories in which disks lose sectors.
//!
//! A member that leaves keeps the blocks of regions that are not written while any is away, unless
//! the user fails or replaces it. What a member in sync has can be read.

use super::Machine;
use super::clients::block_offset;
use crate::history::{BLOCKS, ExtraFaults};
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_io::driver::sim::{FileFault, ObjectId};
use mirrorball_store::REGION_BYTES;
use mirrorball_store::label::{
    DIRTY_LOG_BYTES, DIRTY_LOG_OFFSET, LABEL_SLOTS, METADATA_BYTES, NewestLabel, newest_label,
    newest_record,
};
use std::collections::BTreeSet;

/// See the page of this module.
pub(super) struct KeptMirrors {
    /// For each member and block, true if the member has it.
    has: Vec<[bool; BLOCKS as usize]>,
    /// For each member, the empty disk that is to take its place.
    replacing: Vec<Option<ObjectId>>,
    /// For each member, the blocks that others in sync had since then.
    copied: Vec<[bool; BLOCKS as usize]>,
    was_in_sync: Vec<bool>,
    /// Regions that were written while a member was away.
    stale_regions: BTreeSet<u64>,
    /// True if a region had been written shortly before.
    was_active: bool,
}

impl KeptMirrors {
    pub(super) fn new(members: usize) -> KeptMirrors {
        KeptMirrors {
            has: vec![[true; BLOCKS as usize]; members],
            replacing: vec![None; members],
            copied: vec![[true; BLOCKS as usize]; members],
            was_in_sync: vec![true; members],
            stale_regions: BTreeSet::new(),
            was_active: false,
        }
    }

    /// Notes that a disk lost what may have been copied to it.
    pub(super) fn lose_copy(&mut self, row: usize, block: u64) {
        self.copied[row][block as usize] = false;
    }

    /// Returns true if a disk is to take the place of a member by a command.
    pub(super) fn is_replacing(&self, row: usize, disk: ObjectId) -> bool {
        self.replacing[row] == Some(disk)
    }

    pub(super) fn replace(&mut self, row: usize, disk: ObjectId) {
        self.replacing[row] = Some(disk);
        self.copied[row].fill(true);
    }
}

impl Machine {
    /// Notes that a member may lack a block, or get a write in flight for nothing.
    pub(super) fn lose_kept(&mut self, row: usize, block: u64) {
        self.kept.has[row][block as usize] = false;
        self.requests.forget_member(row, block);
    }

    pub(super) fn lose_all_kept(&mut self, row: usize) {
        (0..BLOCKS).for_each(|block| self.lose_kept(row, block));
    }

    /// The members in sync that have a block, or are there to get it.
    pub(super) fn kept_on(&self, block: u64, gets_it: bool) -> Vec<usize> {
        let is_there = |&row: &usize| {
            self.shape.extra == ExtraFaults::Losses
                && self.state(row) == Some(MemberState::InSync)
                && !matches!(
                    self.world.fault(self.rows[row]),
                    FileFault::Fails(_) | FileFault::Hangs
                )
                && (gets_it || self.kept.has[row][block as usize])
        };
        (0..self.rows.len()).filter(is_there).collect()
    }

    /// Notes that members have a block which was durably written while `rows` were there.
    pub(super) fn keep(&mut self, block: u64, rows: &[usize]) {
        let still = self.kept_on(block, true);
        for &row in rows.iter().filter(|row| still.contains(row)) {
            self.kept.has[row][block as usize] = true;
        }
    }

    /// A member that is not in sync after a start may lack any region, and one that left before it
    /// those that any record has.
    pub(super) fn note_kept_at_start(&mut self) {
        self.note_last_regions();
        self.kept.was_active = true;
        self.note_kept();
    }

    /// Members that leave lack all that any may lack of the last records: they have one map.
    fn note_last_regions(&mut self) {
        for row in 0..self.rows.len() {
            let (last, _) = self.last_regions(row);
            self.kept.stale_regions.extend(last);
        }
    }

    fn region(&self, block: u64) -> u64 {
        block_offset(&self.map, block) / REGION_BYTES
    }

    /// Blocks in regions that were written while any member was away: members have one stale map.
    fn stale_blocks(&mut self) -> Vec<u64> {
        let mut rows = 0..self.rows.len();
        if rows.all(|row| self.state(row) == Some(MemberState::InSync)) {
            self.kept.stale_regions.clear();
        } else {
            let written = self.requests.written_blocks();
            let regions: Vec<u64> = written.into_iter().map(|it| self.region(it)).collect();
            self.kept.stale_regions.extend(regions);
        }
        let is_stale = |block: &u64| self.kept.stale_regions.contains(&self.region(*block));
        (0..BLOCKS).filter(is_stale).collect()
    }

    /// The regions in the last record of the dirty log of a member, and whether its label says that
    /// it was stopped in good order since.
    fn last_regions(&self, row: usize) -> (Vec<u64>, bool) {
        let read = |offset, length| self.world.read_file(self.rows[row], offset, length);
        let slots = LABEL_SLOTS.map(|slot| read(slot, METADATA_BYTES));
        let Ok(NewestLabel { found, .. }) = newest_label([&slots[0], &slots[1]]) else {
            return (Vec::new(), false);
        };
        let log = read(DIRTY_LOG_OFFSET, DIRTY_LOG_BYTES as usize);
        let record = newest_record(&log, found.label.array.uuid, found.member);
        let regions = record.ok().flatten().map_or(Vec::new(), |record| record.regions);
        (regions.into_iter().map(u64::from).collect(), found.label.is_clean)
    }

    /// Returns true if a member is rebuilt whole.
    fn gets_all(&self, row: usize) -> bool {
        let is_rebuilt = matches!(self.state(row), Some(MemberState::Rebuilding { .. }));
        let store = self.served.as_ref().map(|served| served.store());
        is_rebuilt && !store.is_some_and(|it| it.is_catching_up(MemberIndex(row as u16)))
    }

    /// Notes what members lack that have left, and have got that were replaced.
    pub(super) fn note_kept(&mut self) {
        let Some(served) = self.served.as_ref() else { return };
        if self.shape.extra != ExtraFaults::Losses {
            return;
        }
        let is_busy = served.has_commands() || served.is_copying();
        let is_active = served.store().active_regions() > 0 || self.unsynced_bytes() > 0;
        let leaves = |row: &usize| {
            self.kept.was_in_sync[*row] && self.state(*row) != Some(MemberState::InSync)
        };
        if (0..self.rows.len()).any(|row| leaves(&row)) {
            self.note_last_regions();
        }
        let stale = self.stale_blocks();
        for row in 0..self.rows.len() {
            let is_in_sync = self.state(row) == Some(MemberState::InSync);
            let leaves = self.kept.was_in_sync[row] && !is_in_sync;
            let is_old = !is_in_sync && self.unsynced_bytes() > 0;
            if leaves && self.kept.was_active || self.gets_all(row) || is_old {
                self.lose_all_kept(row);
            }
            // It gets them when it returns.
            if leaves && let (last, false) = self.last_regions(row) {
                let blocks = (0..BLOCKS).filter(|it| last.contains(&self.region(*it)));
                blocks.collect::<Vec<u64>>().into_iter().for_each(|it| self.lose_kept(row, it));
            }
            if !is_in_sync {
                stale.iter().for_each(|&block| self.lose_kept(row, block));
            }
            if let Some(disk) = self.kept.replacing[row] {
                let is_over = is_in_sync && !is_busy;
                let is_copied = is_over && self.rows[row] == disk;
                for block in 0..BLOCKS {
                    let is_elsewhere = self.kept_on(block, false).iter().any(|it| *it != row);
                    let KeptMirrors { has, copied, .. } = &mut self.kept;
                    let (has, copied) =
                        (&mut has[row][block as usize], &mut copied[row][block as usize]);
                    *copied &= is_elsewhere;
                    *has = *copied && (*has || is_copied);
                }
                self.kept.replacing[row] = Some(disk).filter(|_| !is_over);
            }
            self.kept.was_in_sync[row] = is_in_sync;
        }
        self.kept.was_active = is_active;
    }
}
