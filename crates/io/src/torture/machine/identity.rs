//! Disks that are not what they seem: clones, and copies from earlier in the place of a member.
//!
//! Each is shown to the rules of assembly, which have to refuse it; then the volume starts with its
//! own disks. A copy from earlier has to be refused if a client's write was replied to after it was
//! made, and the volume was served for a while after that, long enough for two more records of the
//! dirty log. Of a younger one nothing is promised, if no label was written since.

use super::super::history::{BLOCKS, End};
use super::super::model::BLOCK_BYTES;
use super::{Machine, ObjectId};
use mirrorball_core::member::MemberState;
use mirrorball_core::units::Nanos;
use mirrorball_store::label::assembly::{ArrayVerdict, MemberStanding};
use std::collections::BTreeSet;

/// In this time of service after a write, the dirty log gets two records.
const TELLING: Nanos = Nanos::from_secs(8);

/// A copy of a member.
pub(super) struct Snapshot {
    row: usize,
    member: ObjectId,
    copy: ObjectId,
    /// The first reply to a write in this run of the service: the number of the run, and the time.
    written: Option<(u64, Nanos)>,
    /// True once the dirty log has to tell it from the member.
    is_noticeable: bool,
}

impl Machine {
    pub(super) fn take_snapshot(&mut self, row: usize) {
        let member = self.rows[row];
        let copy = self.simulation.copy_file(member);
        self.snapshot = Some(Snapshot { row, member, copy, written: None, is_noticeable: false });
    }

    /// Takes that a write was replied to.
    pub(super) fn on_written(&mut self) {
        let (run, now) = (self.tally.starts, self.simulation.now());
        let states = self.volume().into_iter().flat_map(|volume| volume.members().iter());
        let in_sync = states.filter(|(_, member)| member.state == MemberState::InSync);
        let in_sync: Vec<usize> = in_sync.map(|(index, _)| index.get()).collect();
        if let Some(snapshot) = &mut self.snapshot
            // No other member knows of what was written while it was the only one in sync.
            && in_sync.iter().any(|&row| row != snapshot.row)
            && snapshot.written.is_none_or(|(other, _)| other != run)
        {
            snapshot.written = Some((run, now));
        }
    }

    /// Takes that a member may get no more records. If it is gone before it had two, it does not
    /// know that the copy is old.
    pub(super) fn on_member_lost(&mut self) {
        let (run, now) = (self.tally.starts, self.simulation.now());
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.written.take_if(|(other, at)| run != *other || now < *at + TELLING);
        }
    }

    /// Takes that a run of the service ends.
    pub(super) fn on_end(&mut self) {
        let (run, now) = (self.tally.starts, self.simulation.now());
        if let Some(snapshot) = &mut self.snapshot
            && let Some((other, at)) = snapshot.written
        {
            snapshot.is_noticeable |= run == other && now >= at + TELLING;
        }
    }

    /// Tries to start with a clone and its member: both must be refused.
    pub(super) fn try_clone(&mut self, end: End, row: usize) -> Result<(), String> {
        self.end(end)?;
        let member = self.rows[row];
        self.simulation.sync_file(member);
        let clone = self.simulation.copy_file(member);
        let opener = self.opener();
        if opener.found(member).is_some() {
            // Where a spare took the place of two members in turn, a disk is in two rows.
            let mut disks: BTreeSet<ObjectId> = self.rows.iter().copied().collect();
            disks.insert(clone);
            let found: Vec<_> = disks.iter().filter_map(|&disk| opener.found(disk)).collect();
            let assembly = mirrorball_store::label::assembly::assemble(&found, &[]);
            let cloned = assembly.standings.iter().filter(|&&it| it == MemberStanding::Cloned);
            if cloned.count() != 2 || assembly.verdict(&self.map()) != ArrayVerdict::Doubtful {
                return Err(format!("a clone of devid {} is not refused", row + 1));
            }
            self.tally.refusals += 1;
        }
        self.start(0)
    }

    /// Tries to start with a copy from earlier in the place of its member.
    pub(super) fn try_snapshot(&mut self, end: End) -> Result<(), String> {
        self.end(end)?;
        if let Some(Snapshot { row, member, copy, is_noticeable, .. }) = self.snapshot.take()
            && self.rows[row] == member
        {
            self.rows.iter().for_each(|&file| self.simulation.sync_file(file));
            let opener = self.opener();
            let standing = |disks: &[ObjectId]| {
                let found: Vec<_> = disks.iter().map(|&disk| opener.found(disk)).collect();
                let found: Option<Vec<_>> = found.into_iter().collect();
                let assembly =
                    found.map(|found| mirrorball_store::label::assembly::assemble(&found, &[]));
                assembly.map(|assembly| assembly.standings[row])
            };
            let mut disks = self.rows.clone();
            let is_current = standing(&disks) == Some(MemberStanding::InSync);
            disks[row] = copy;
            match standing(&disks) {
                Some(MemberStanding::InSync) if is_current && !self.is_same(row, copy) => {
                    if is_noticeable {
                        return Err(format!("an old copy of devid {} seems in sync", row + 1));
                    }
                    self.tally.unpromised += 1;
                }
                Some(MemberStanding::OldCopy) => self.tally.refusals += 1,
                _ => {}
            }
        }
        self.start(0)
    }

    /// Returns true if a copy of a member holds the same blocks of clients.
    fn is_same(&self, row: usize, copy: ObjectId) -> bool {
        let map = self.map();
        (0..BLOCKS).all(|block| {
            let mapped = map.map(self.block_offset(&map, block), BLOCK_BYTES as u64);
            mapped.mirrors().iter().filter(|mirror| mirror.member.get() == row).all(|mirror| {
                let read = |file| self.simulation.read_file(file, mirror.offset, BLOCK_BYTES);
                read(copy) == read(self.rows[row])
            })
        })
    }
}
