//! Members whose files are truncated while they are used.
//!
//! One that the volume cannot do without stays, and keeps what is left of it: nothing behind that
//! is read any more, also when the file is as long again.

use super::Executor;
use super::active_io::ActiveIo;
use super::member_fault::MemberFault;
use super::member_slot::Cut;
use crate::driver::{DATA_UNIT, Output};
use crate::member::Store;
use mirrorball_core::io::Op;
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::volume::Volume;
use rustix::io::Errno;
use std::ops::Range;

impl Executor {
    /// The bytes from its first on that can be read of a member whose file was truncated, although
    /// the volume cannot do without it; `None` if it was not, or was rebuilt or failed since.
    pub fn left_bytes(&self, member: MemberIndex) -> Option<u64> {
        let volume = self.volume.as_ref().filter(|_| self.slots[member.get()].was_cut)?;
        match volume.members()[member].state {
            MemberState::Rebuilding { recovered_bytes } => {
                let has_data = recovered_bytes > volume.map().allocated(member).start;
                Some(if has_data { recovered_bytes } else { 0 })
            }
            MemberState::InSync | MemberState::Failed => None,
        }
    }

    /// Takes that a member was truncated before the start, and ends there; at its end if it was
    /// made as long again.
    pub(crate) fn on_found_short(&mut self, member: MemberIndex, end: u64) {
        let is_short = end < self.slots[member.get()].config.size_bytes;
        self.on_data_lost(member, if is_short { Cut::At(end) } else { Cut::Regrown });
    }

    /// Looks whether files of members were truncated since they were used. Returns how often one
    /// was found to be, since the start.
    pub(crate) fn check_lengths(&mut self) -> u32 {
        for index in 0..self.slots.len() {
            let member = MemberIndex(index as u16);
            // The look at a device that fails may not end.
            if !matches!(self.fault(member), Some(MemberFault::Io(..))) {
                self.check_length(member);
            }
        }
        self.cuts
    }

    /// Checks that the file of a member was not truncated. Returns the bytes of its data that are
    /// left if it was.
    pub(super) fn check_length(&mut self, member: MemberIndex) -> Option<u64> {
        let cut = self.slots[member.get()].check_length(self.now, &self.driver)?;
        Some(self.on_data_lost(member, cut))
    }

    /// Where the file or device of a member ended when an I/O did, if the I/O says so: it may be as
    /// long again by now.
    pub(super) fn found_end(&self, io: &ActiveIo, result: &Result<Output, Errno>) -> Option<Cut> {
        let slot = &self.slots[io.member.get()];
        let Store::Real { handle, begin_bytes, least_bytes, .. } = slot.store else { return None };
        if io.attachment != slot.attachment {
            return None;
        }
        match result {
            Ok(Output::Bytes(bytes)) if io.op == Op::Read && (*bytes as u64) < io.length => {
                Some(Cut::At(io.offset + *bytes as u64))
            }
            // Behind the end of a device.
            Err(Errno::NOSPC) if least_bytes.is_none() => {
                let end = self.driver.device_end(handle).ok()?.saturating_sub(begin_bytes);
                (end < slot.config.size_bytes).then_some(Cut::At(end))
            }
            _ => None,
        }
    }

    /// Takes that the file of a member was truncated. Returns the bytes of it that are left: only
    /// those that certainly are, if it was made longer since, or an I/O may have, so that it is not
    /// known where it was cut. A part that the volume does not use is no loss.
    pub(super) fn on_data_lost(&mut self, member: MemberIndex, cut: Cut) -> u64 {
        let slot = &self.slots[member.get()];
        let size_bytes = slot.config.size_bytes;
        if let (Cut::At(end), Some(volume)) = (cut, &self.volume)
            && end >= volume.used_bytes(member)
            && slot.has_all_allocated
            && !self.may_have_grown(member, end)
        {
            if volume.label().is_some() && !volume.is_read_only() {
                self.restore_length(member);
            }
            return end;
        }
        let is_file = !matches!(slot.store, Store::Real { least_bytes: None, .. });
        let fault = if is_file { MemberFault::Truncated } else { MemberFault::Ended };
        self.note_fault(member, fault);
        let left_bytes = match cut {
            Cut::At(end) if !self.may_have_grown(member, end) => self.cut_end(member, end),
            Cut::At(end) => self.certain_bytes(member, end),
            // Anywhere. Where nobody could say that only zeroes were freed, all would be lost.
            Cut::MostlyFreed if self.can_be_trusted() => 0,
            Cut::Regrown | Cut::MostlyFreed | Cut::Freed => self.certain_bytes(member, size_bytes),
        };
        let left_bytes = left_bytes.min(size_bytes);
        let slot = &mut self.slots[member.get()];
        slot.was_cut = true;
        slot.forget_changes();
        self.cuts = self.cuts.wrapping_add(1);
        if let Some(volume) = &mut self.volume {
            volume.on_data_lost(member, left_bytes);
        }
        left_bytes
    }

    /// Returns true if a user who knows that a member lost nothing can say so: not of parity and
    /// checksums, whose volumes are not labelled again.
    fn can_be_trusted(&self) -> bool {
        let volume = self.volume.as_ref();
        volume.is_none_or(|it| !it.has_checksums())
    }

    /// Makes files that were cut as long again, once labels say what is left of them: until then,
    /// their lengths do. Members that are rebuilt in place need all of it, and no write of theirs
    /// is to hide that one is cut again.
    pub(super) fn restore_lengths(&mut self) {
        for index in 0..self.slots.len() {
            let member = MemberIndex(index as u16);
            if !self.slots[index].was_cut || !self.is_recorded(member) {
                continue;
            }
            if self.slots[index].wants_length() && self.check_length(member).is_none() {
                self.restore_length(member);
            }
            let has_data = |volume: &Volume| volume.members()[member].state == MemberState::InSync;
            self.slots[index].was_cut = !self.volume.as_ref().is_some_and(has_data);
        }
    }

    /// Makes the file of a labelled member as long as it must be, if that is possible.
    fn restore_length(&mut self, member: MemberIndex) {
        let slot = &mut self.slots[member.get()];
        slot.restore_length(&self.driver);
        if let Some(volume) = &mut self.volume {
            volume.set_guard(member, slot.store.has_guard());
        }
    }

    /// Returns true if the labels say which part of a member is left, or that it is whole again,
    /// and whether its journal is.
    fn is_recorded(&self, member: MemberIndex) -> bool {
        let volume = self.volume.as_ref().filter(|volume| !volume.is_read_only());
        let states = volume.and_then(|volume| {
            let recorded = volume.label()?.members.get(member.get())?.state;
            Some((volume.members()[member].state, recorded))
        });
        match states {
            Some((
                MemberState::Rebuilding { recovered_bytes: left_bytes },
                MemberState::Rebuilding { recovered_bytes },
            )) => recovered_bytes <= left_bytes,
            Some((MemberState::InSync, MemberState::InSync)) => true,
            _ => false,
        }
    }

    /// Returns true if the file of a member, which ends there, may have been shorter after it was
    /// cut: a write that was in flight since its length was checked last reaches its end. None
    /// makes a device larger.
    fn may_have_grown(&self, member: MemberIndex, end: u64) -> bool {
        let store = &self.slots[member.get()].store;
        if matches!(store, Store::Real { least_bytes: None, .. }) {
            return false;
        }
        self.changes(member).any(|(offset, length)| offset < end && end <= offset + length)
    }

    /// The bytes that are left of a file which no I/O of the service can have made longer since it
    /// was cut. Others may have: it ends with the last data that are older than that.
    fn cut_end(&self, member: MemberIndex, end: u64) -> u64 {
        // Others may call everything data.
        let Store::Real { handle, begin_bytes, keeps_allocated: true, .. } =
            self.slots[member.get()].store
        else {
            return end;
        };
        let last = begin_bytes + self.certain_bytes(member, end);
        let unit = last..(last + DATA_UNIT).min(begin_bytes + end);
        let data_end = self.driver.data_end(handle, unit);
        data_end.map_or(end, |at| at.saturating_sub(begin_bytes))
    }

    /// The changes of a member that were in flight since the length of its file was checked last:
    /// offset and length of each.
    fn changes(&self, member: MemberIndex) -> impl Iterator<Item = (u64, u64)> {
        let active = self.active.iter().map(|(_, io)| io);
        let active = active.filter(move |io| io.member == member && io.op != Op::Read);
        let ended = self.slots[member.get()].ended_changes().iter().copied();
        active.map(|io| (io.offset, io.length)).chain(ended)
    }

    /// The bytes from its first on that a member has not lost, whose file ends there but may have
    /// been cut before that. Data that no write in flight can have brought back are older than the
    /// cut, so it is behind them.
    fn certain_bytes(&self, member: MemberIndex, end: u64) -> u64 {
        // Others may call everything data.
        let Store::Real { handle, begin_bytes, keeps_allocated: true, .. } =
            self.slots[member.get()].store
        else {
            return 0;
        };
        let changes: Vec<Range<u64>> = self
            .changes(member)
            .map(|(offset, length)| {
                let begin = begin_bytes + offset;
                let end = (begin + length).next_multiple_of(DATA_UNIT);
                begin - begin % DATA_UNIT..end
            })
            .collect();
        let last_data = |range| self.driver.last_data(handle, range);
        last_untouched(&changes, begin_bytes + end, last_data).saturating_sub(begin_bytes)
    }

    /// Returns true if an I/O that succeeded is beyond what is left of the file of its member:
    /// these bytes, if it was found to be truncated just now.
    pub(super) fn is_lost(&self, io: &ActiveIo, left_bytes: Option<u64>) -> bool {
        let was_cut = io.op == Op::Read && self.slots[io.member.get()].was_cut;
        let is_in_sync = || {
            let member = self.volume.as_ref().map(|volume| &volume.members()[io.member]);
            member.is_none_or(|member| member.is_in_sync(io.offset, io.length))
        };
        left_bytes.is_some_and(|left| io.offset + io.length > left) || (was_cut && !is_in_sync())
    }
}

/// The last place before `end` at which a file has data and that none of these changes, which begin
/// and end at units, reaches; zero if there is none. `last_data` finds the last data of a range.
fn last_untouched(
    changes: &[Range<u64>],
    end: u64,
    last_data: impl Fn(Range<u64>) -> Option<u64>,
) -> u64 {
    let mut end = end;
    loop {
        let before = changes.iter().filter(|it| it.start < end).max_by_key(|it| it.end);
        let begin = before.map_or(0, |it| it.end);
        let found = if begin < end { last_data(begin..end) } else { None };
        match (found, before) {
            (Some(at), _) => return at,
            (None, Some(before)) => end = before.start,
            (None, None) => return 0,
        }
    }
}
