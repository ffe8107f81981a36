//! Disks that are not what they seem: clones, and copies from earlier in the place of a member; and
//! halves of a volume that are each used without the other.
//!
//! Each is shown to the assembly, which has to refuse it; then the volume starts with its own
//! disks. A copy from earlier has to be refused if a client's write was replied to after it was
//! made, and the volume was served for a while after that, long enough for two more records of the
//! dirty log. Of a younger one nothing is promised, if no label was written since. Halves have data
//! that the other lacks, so together they are refused, until the user gives up what one of them
//! has.

use super::Machine;
use super::clients::{ClientRequest, block_offset};
use crate::history::{BLOCKS, End};
use crate::oracle::BLOCK_BYTES;
use mirrorball_core::member::MemberState;
use mirrorball_core::units::Nanos;
use mirrorball_io::assemble::LabelledError;
use mirrorball_io::device_address::DeviceAddress;
use mirrorball_io::driver::sim::ObjectId;
use mirrorball_store::label::assembly::{ArrayVerdict, MemberStanding};
use std::collections::BTreeSet;

/// In this time of service after a write, the dirty log gets two records.
const TELLING: Nanos = Nanos::from_secs(8);
const COPY: &str = "/simulated/copy";
/// The block that is written to by halves.
const BLOCK: u64 = 0;

pub(crate) struct Snapshot {
    row: usize,
    member: ObjectId,
    copy: ObjectId,
    /// The first reply to a write in this run of the service: the number of the run, and the time.
    written: Option<(u64, Nanos)>,
    /// True once the dirty log has to tell it from the member.
    is_noticeable: bool,
}

impl Machine {
    pub(crate) fn take_snapshot(&mut self, row: usize) {
        let member = self.rows[row];
        let copy = self.world.copy_file(member);
        self.snapshot = Some(Snapshot { row, member, copy, written: None, is_noticeable: false });
    }

    /// Notes that a write was replied to.
    pub(crate) fn on_written(&mut self) {
        let (run, now) = (self.tally.starts, self.world.now());
        let in_sync: Vec<usize> = (0..self.rows.len())
            .filter(|&row| self.state(row) == Some(MemberState::InSync))
            .collect();
        if let Some(snapshot) = &mut self.snapshot
            // No other member knows of what was written while it was the only one in sync.
            && in_sync.iter().any(|&row| row != snapshot.row)
            && snapshot.written.is_none_or(|(other, _)| other != run)
        {
            snapshot.written = Some((run, now));
        }
    }

    /// Notes that a member may get no more records. If it is gone before it had two, it does not
    /// know that the copy is old.
    pub(crate) fn on_records_lost(&mut self) {
        let (run, now) = (self.tally.starts, self.world.now());
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.written.take_if(|(other, at)| run != *other || now < *at + TELLING);
        }
    }

    /// Notes that a run of the service ends.
    pub(crate) fn on_end(&mut self) {
        let (run, now) = (self.tally.starts, self.world.now());
        if let Some(snapshot) = &mut self.snapshot
            && let Some((other, at)) = snapshot.written
        {
            snapshot.is_noticeable |= run == other && now >= at + TELLING;
        }
    }

    /// Tries to start with a clone and its member: both must be refused.
    pub(crate) fn try_clone(&mut self, end: End, row: usize) -> Result<(), String> {
        self.end(end)?;
        let member = self.rows[row];
        self.world.sync_file(member);
        // Where a spare took the place of two members in turn, a disk is in two rows.
        let disks: BTreeSet<ObjectId> = self.rows.iter().copied().collect();
        let mut devices = self.addresses(&disks.into_iter().collect::<Vec<_>>());
        if self.has_no_fault() && self.examine(&self.addresses(&[member])).is_some() {
            devices.push(self.path_of_copy(self.world.copy_file(member)));
            match self.assemble(&devices, true) {
                Err(LabelledError::Doubtful { .. }) => self.tally.refusals += 1,
                Err(error) => return Err(format!("of a clone the service says: {error}")),
                Ok(_) => return Err(format!("a clone of devid {} is not refused", row + 1)),
            }
        }
        self.start(0)
    }

    fn path_of_copy(&self, copy: ObjectId) -> DeviceAddress {
        self.world.set_path(COPY, copy);
        DeviceAddress::parse(COPY).expect("a path")
    }

    /// Shows the assembly a copy from earlier in the place of its member.
    pub(crate) fn try_snapshot(&mut self, end: End) -> Result<(), String> {
        self.end(end)?;
        if let Some(Snapshot { row, member, copy, is_noticeable, .. }) = self.snapshot.take()
            && self.rows[row] == member
        {
            self.rows.iter().for_each(|&file| self.world.sync_file(file));
            let mut devices = self.addresses(&self.rows);
            let is_current = self.standing(&devices, row) == Some(MemberStanding::InSync);
            devices[row] = self.path_of_copy(copy);
            match self.standing(&devices, row) {
                Some(MemberStanding::InSync) if is_current && !self.is_same(row, copy) => {
                    if is_noticeable {
                        return Err(format!("an old copy of devid {} seems in sync", row + 1));
                    }
                    self.tally.unnoticed += 1;
                }
                Some(MemberStanding::OldCopy) => self.tally.refusals += 1,
                _ => {}
            }
        }
        self.start(0)
    }

    /// The standing of one of these devices by the assembly, if all have labels.
    fn standing(&self, devices: &[DeviceAddress], at: usize) -> Option<MemberStanding> {
        let volume = self.examine(devices)?;
        let place = volume.devices.iter().position(|&device| device == at)?;
        (volume.devices.len() == devices.len()).then(|| volume.assembly.standings[place])
    }

    /// Returns true if a copy of a member holds the same blocks of clients.
    fn is_same(&self, row: usize, copy: ObjectId) -> bool {
        (0..BLOCKS).all(|block| {
            let mapped = self.map.map(block_offset(&self.map, block), BLOCK_BYTES as u64);
            mapped.mirrors.iter().filter(|mirror| mirror.member.get() == row).all(|mirror| {
                let place = |file| (file, mirror.offset);
                self.world.holds_same(place(copy), place(self.rows[row]), BLOCK_BYTES as u64)
            })
        })
    }

    /// Starts the members whose bit is set in `first`, then the others, then all.
    pub(crate) fn try_halves(&mut self, end: End, first: u8) -> Result<(), String> {
        self.mend_all();
        // A remote member in sync whose server may have lost writes is read again after a start.
        self.end(end)?;
        self.start(0)?;
        if self.served.is_some() {
            self.recover()?;
        }
        self.end(end)?;
        let all = (1u8 << self.rows.len()) - 1;
        let (first, second) = (first & all, !first & all);
        if !self.is_whole() || !self.may_start(first) || !self.may_start(second) {
            return self.start(0);
        }
        self.snapshot = None;
        self.allows_degraded = true;
        let before = self.oracle.clone();
        self.run_half(second)?;
        let with_first = std::mem::replace(&mut self.oracle, before);
        self.run_half(first)?;
        self.allows_degraded = false;
        self.rows.iter().for_each(|&file| self.world.sync_file(file));
        let devices = self.addresses(&self.rows);
        match self.assemble(&devices, true) {
            Err(LabelledError::Doubtful { .. }) => self.tally.divergences += 1,
            // The larger half is current, and the other is left out.
            Ok(_) if 2 * first.count_ones() != all.count_ones() => self.tally.divergences += 1,
            _ => return Err("two halves that were each written to start together".to_owned()),
        }
        // The user gives up the data of the second half.
        self.oracle = with_first;
        self.oracle.forget_reads();
        self.discarded = self.disks_of(second);
        self.start_from(0, false)?;
        // A write is replied to when the labels of all members say which data count.
        self.write_durably()?;
        self.discarded.clear();
        Ok(())
    }

    /// Serves a part of the members, and writes a block.
    fn run_half(&mut self, without: u8) -> Result<(), String> {
        self.start_from(without, false)?;
        self.write_durably()?;
        let end = [End::Stop, End::Kill, End::PowerCut][self.rng.below(3) as usize];
        self.end(end)
    }

    fn write_durably(&mut self) -> Result<(), String> {
        self.submit(ClientRequest::Write, BLOCK);
        self.settle()?;
        let written = self.oracle.acknowledged()[BLOCK as usize];
        self.submit(ClientRequest::Flush, 0);
        self.settle()?;
        match *self.oracle.possible(BLOCK) {
            [value] if value == written => Ok(()),
            _ => Err("members that are well do not take writes".to_owned()),
        }
    }

    /// Returns true if all members are well and in sync, and no data are damaged.
    fn is_whole(&self) -> bool {
        let is_in_sync = self.examine(&self.addresses(&self.rows)).is_some_and(|volume| {
            volume.verdict == Ok(ArrayVerdict::Start)
                && volume.devices.len() == self.rows.len()
                && volume.assembly.members.iter().all(|row| row.state == MemberState::InSync)
        });
        is_in_sync && self.has_no_fault() && self.tally.damages == 0
    }

    /// Returns true if a part of the members has all data.
    fn may_start(&self, part: u8) -> bool {
        let volume = self.examine(&self.addresses(&self.disks_of(part)));
        volume.is_some_and(|it| matches!(it.verdict, Ok(ArrayVerdict::NeedsDegraded { .. })))
    }

    fn disks_of(&self, part: u8) -> Vec<ObjectId> {
        let rows = self.rows.iter().enumerate();
        rows.filter(|(row, _)| part >> row & 1 == 1).map(|(_, &disk)| disk).collect()
    }
}
