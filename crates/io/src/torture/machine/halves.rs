//! Halves of a volume that are each started without the other and written to. Each has data that
//! the other lacks, so together they are refused, until the user gives up what one of them has.

use super::super::history::End;
use super::clients::ClientRequest;
use super::{Machine, ObjectId};
use mirrorball_core::member::MemberState;
use mirrorball_store::label::assembly::{ArrayVerdict, assemble};

/// The block that is written to.
const BLOCK: u64 = 0;

impl Machine {
    /// Starts the members whose bit is set in `first`, then the others, then all.
    pub(super) fn try_halves(&mut self, end: End, first: u8) -> Result<(), String> {
        self.end(end)?;
        let all = (1u8 << self.rows.len()) - 1;
        let (first, second) = (first & all, !first & all);
        if !self.is_whole() || !self.may_start(first) || !self.may_start(second) {
            return self.start(0);
        }
        self.snapshot = None;
        self.allows_degraded = true;
        let before = self.model.clone();
        self.run_half(second)?;
        let with_first = std::mem::replace(&mut self.model, before);
        self.run_half(first)?;
        self.allows_degraded = false;
        self.rows.iter().for_each(|&file| self.simulation.sync_file(file));
        if self.verdict(all) != Some(ArrayVerdict::Doubtful) {
            return Err("two halves that were each written to start together".to_owned());
        }
        self.tally.divergences += 1;
        // The user gives up the data of the second half.
        self.model = with_first;
        self.model.forget_reads();
        self.discarded = self.disks_of(second);
        self.start(0)?;
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
        let written = self.model.acknowledged()[BLOCK as usize];
        self.submit(ClientRequest::Flush, 0);
        self.settle()?;
        match *self.model.possible(BLOCK) {
            [value] if value == written => Ok(()),
            _ => Err("members that are well take no writes".to_owned()),
        }
    }

    /// Returns true if all members are well and in sync, and no data are damaged.
    fn is_whole(&self) -> bool {
        let is_bad = |file: &ObjectId| {
            let disk = self.disks.iter().find(|disk| disk.file == *file);
            disk.is_none_or(|disk| disk.is_bad)
        };
        let opener = self.opener();
        let found: Option<Vec<_>> = self.rows.iter().map(|&disk| opener.found(disk)).collect();
        let in_sync = found.map(|found| {
            let assembly = assemble(&found, &[]);
            assembly.verdict(&self.map()) == ArrayVerdict::Start
                && assembly.members.iter().all(|row| row.state == MemberState::InSync)
        });
        in_sync == Some(true)
            && !self.rows.iter().any(is_bad)
            && self.tally.damages == 0
            && !self.has_bad_metadata
    }

    /// Returns true if a part of the members has all data.
    fn may_start(&self, part: u8) -> bool {
        matches!(self.verdict(part), Some(ArrayVerdict::NeedsDegraded { .. }))
    }

    fn disks_of(&self, part: u8) -> Vec<ObjectId> {
        let rows = self.rows.iter().enumerate();
        rows.filter(|(row, _)| part >> row & 1 == 1).map(|(_, &disk)| disk).collect()
    }

    fn verdict(&self, part: u8) -> Option<ArrayVerdict> {
        let opener = self.opener();
        let disks = self.disks_of(part);
        let found: Vec<_> = disks.into_iter().filter_map(|disk| opener.found(disk)).collect();
        (!found.is_empty()).then(|| assemble(&found, &[]).verdict(&self.map()))
    }
}
