//! The one owner of what a volume tracks of its members: state, statistics, back-off, rebuild
//! progress, and failed flushes.
//!
//! **Back-off.** A member whose I/O failed is not read for a while. This comes before balancing and
//! apart from it, as the btrfs maintainers ask (David Sterba, linux-btrfs, January 2021 and October
//! 2024): a policy never sees why a member is missing from its choices. The first error costs
//! [`FIRST_BACKOFF`]; each further one without a success in between doubles that, up to
//! [`LONGEST_BACKOFF`]. During its back-off a member still serves reads that no other member can
//! serve, and takes writes. The two figures are ours: short enough that one bad sector hardly moves
//! the balance, long enough that a dying disk is tried about once a minute.
//!
//! Errors of reads are counted, too, by the rule of md: a member with more than
//! [`READ_ERRORS_MAX`] of them is failing, and the count is halved each hour. Errors within
//! [`FIRST_BACKOFF`] of one that was counted count as the same: I/O that was in flight with it, and
//! the parts in which its range is read again.

use super::recovered_ranges::RecoveredRanges;
use crate::io::{IoError, VolumeError};
use crate::member::{Member, MemberIndex, MemberState, Members};
use crate::units::Nanos;
use std::ops::Range;

/// Back-off after the first error.
pub(super) const FIRST_BACKOFF: Nanos = Nanos::from_millis(100);
/// The longest back-off.
pub(super) const LONGEST_BACKOFF: Nanos = Nanos::from_secs(60);

/// Read errors that a member may have: `max_read_errors` of md.
const READ_ERRORS_MAX: u32 = 20;
/// After so long the count of read errors is halved.
const HALVED_AFTER: Nanos = Nanos::from_secs(3600);

/// The members of a volume. The volume reports a change to the policy and to the gate.
pub struct MemberStates {
    members: Members,
    backoffs: Vec<Backoff>,
    rebuilds: Vec<RecoveredRanges>,
    /// How often the state of each member was set. A rebuild that began before the last time may
    /// have missed writes.
    changes: Vec<u32>,
    /// For each member, true if it was rebuilt and the metadata do not say so yet. Another member
    /// that fails now would start without it, so none may be failed because this one has the data.
    unrecorded: Vec<bool>,
    /// For each member, true if it failed a flush, of a client or of metadata, and is in use. While
    /// the volume cannot do without it each flush fails, because the writes that were lost may be
    /// older.
    unflushed: Vec<bool>,
    /// True if each member is in sync, in no back-off and not write-mostly.
    all_eligible: bool,
    /// Number of members that may fail without loss of data, whichever they are.
    tolerated_failures: usize,
    /// Whether every byte is in sync on some member; `None` if the states changed since it was
    /// found out.
    is_complete: Option<bool>,
    version: u64,
}

/// The back-off of one member, and its read errors.
#[derive(Clone, Copy, Debug, Default)]
struct Backoff {
    consecutive_errors: u32,
    until: Option<Nanos>,
    read_errors: u32,
    /// When the last error was counted.
    last_read_error: Option<Nanos>,
}

impl MemberStates {
    pub(super) fn new(members: Members, tolerated_failures: usize) -> MemberStates {
        assert!(tolerated_failures < members.len(), "one of {} members stays", members.len());
        let mut states = MemberStates {
            backoffs: vec![Backoff::default(); members.len()],
            rebuilds: vec![RecoveredRanges::default(); members.len()],
            changes: vec![0; members.len()],
            unrecorded: vec![false; members.len()],
            unflushed: vec![false; members.len()],
            members,
            all_eligible: false,
            tolerated_failures,
            is_complete: None,
            version: 0,
        };
        states.changed();
        states
    }

    #[inline]
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// The members, to account I/O.
    #[inline]
    pub(super) fn members_mut(&mut self) -> &mut Members {
        &mut self.members
    }

    /// Returns true if every member may serve any read: then reads skip the tiers of eligibility.
    #[inline]
    pub(super) fn all_eligible(&self) -> bool {
        self.all_eligible
    }

    pub(super) fn is_in_backoff(&self, member: MemberIndex) -> bool {
        self.backoffs[member.get()].until().is_some()
    }

    /// The members that take writes, and so have metadata that is kept up to date.
    pub fn active(&self) -> impl Iterator<Item = MemberIndex> {
        let members = self.members.iter();
        members.filter(|(_, it)| it.state != MemberState::Failed).map(|(index, _)| index)
    }

    /// Returns true if a member is missing or failed.
    pub fn is_failed(&self, member: MemberIndex) -> bool {
        self.members[member].state == MemberState::Failed
    }

    /// Returns true if the range of this member is in sync.
    #[inline]
    pub fn is_in_sync(&self, member: MemberIndex, offset: u64, length: u64) -> bool {
        self.members[member].is_in_sync(offset, length)
    }

    /// Returns true if every byte is in sync on some member. `find_out` walks the whole volume; it
    /// is called only if members are missing and data may be too, once for each change.
    pub(super) fn find_complete(&mut self, find_out: impl Fn(&MemberStates) -> bool) -> bool {
        let is_complete = self.is_complete.unwrap_or_else(|| {
            let in_sync = |(_, member): &(_, &Member)| member.state == MemberState::InSync;
            let missing = self.members.len() - self.members.iter().filter(in_sync).count();
            missing <= self.tolerated_failures || find_out(self)
        });
        assert!(is_complete || !self.all_eligible, "members in sync hold all data");
        self.is_complete = Some(is_complete);
        is_complete
    }

    /// A number that grows when a state, a back-off or the progress of a rebuild changes.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How often the state of a member was set.
    pub(super) fn changes(&self, member: MemberIndex) -> u32 {
        self.changes[member.get()]
    }

    /// Sets the state of a member; its back-off and rebuild progress start afresh.
    pub fn set(&mut self, member: MemberIndex, state: MemberState) {
        if let MemberState::Rebuilding { recovered_bytes } = state {
            let size_bytes = self.members[member].config.size_bytes;
            assert!(recovered_bytes <= size_bytes, "{recovered_bytes} of {size_bytes} recovered");
        }
        self.members.get_mut(member).state = state;
        self.unrecorded[member.get()] = false;
        self.unflushed[member.get()] = false;
        self.backoffs[member.get()] = Backoff::default();
        self.rebuilds[member.get()] = RecoveredRanges::default();
        self.changes[member.get()] = self.changes[member.get()].wrapping_add(1);
        self.changed();
    }

    /// Fails a member, unless the volume cannot do without it. Returns true if that changed its
    /// state.
    pub fn lose(&mut self, member: MemberIndex) -> bool {
        let fails = !self.is_failed(member) && self.can_fail(member);
        if fails {
            self.set(member, MemberState::Failed);
        }
        fails
    }

    /// Marks a member that failed a flush and stays in use.
    pub(super) fn set_unflushed(&mut self, member: MemberIndex) {
        assert!(!self.is_failed(member), "a failed member is not flushed any more");
        self.unflushed[member.get()] = true;
    }

    /// Members that failed a flush and are in use.
    pub fn unflushed(&self) -> Vec<MemberIndex> {
        let all = (0..).map(MemberIndex).zip(&self.unflushed);
        all.filter(|(_, unflushed)| **unflushed).map(|(member, _)| member).collect()
    }

    /// Returns true if writes may be lost that ended, because a member that the volume could not do
    /// without failed a flush: a later one makes up for nothing.
    pub fn has_lost_writes(&self) -> bool {
        self.unflushed.contains(&true)
    }

    /// Marks a member in sync of which the metadata do not say so yet.
    pub fn set_unrecorded(&mut self, member: MemberIndex) {
        self.unrecorded[member.get()] = self.members[member].state == MemberState::InSync;
    }

    /// Returns true if there is a member in sync, by the metadata too, which is none of these; or
    /// if these are none.
    pub fn has_recorded_except(&self, members: &[MemberIndex]) -> bool {
        let mut all = self.members.iter();
        members.is_empty()
            || all.any(|(index, member)| {
                let is_in_sync = member.state == MemberState::InSync;
                is_in_sync && !self.unrecorded[index.get()] && !members.contains(&index)
            })
    }

    /// Returns true if a member was rebuilt and the metadata do not say so yet.
    pub fn is_unrecorded(&self, member: MemberIndex) -> bool {
        self.unrecorded[member.get()]
    }

    /// Records that metadata with these states are on enough members: none starts by itself without
    /// them.
    pub fn on_recorded<'a>(&mut self, states: impl Iterator<Item = &'a MemberState>) {
        for (unrecorded, state) in self.unrecorded.iter_mut().zip(states) {
            *unrecorded &= *state != MemberState::InSync;
        }
    }

    #[inline]
    pub(super) fn on_success(&mut self, member: MemberIndex) {
        self.backoffs[member.get()].on_success();
    }

    /// Applies an I/O error to the state of its member, and returns true if that may have changed.
    /// `is_counted` if it is of a read, and the medium can be repaired.
    pub(super) fn on_error(
        &mut self,
        member: MemberIndex,
        error: IoError,
        is_counted: bool,
        now: Nanos,
    ) -> bool {
        if matches!(error, IoError::Cancelled | IoError::Checksum) {
            return false;
        }
        let is_counted = is_counted && error == IoError::Medium;
        self.backoffs[member.get()].on_error(is_counted, now);
        self.changed();
        let fails = error == IoError::Gone || self.is_failing(member, now);
        if fails && self.can_fail(member) {
            self.set(member, MemberState::Failed);
        }
        true
    }

    /// Returns true if a member in use should not be: reads of it fail too often, or it failed a
    /// flush. It is the last copy of some data.
    pub fn is_failing(&self, member: MemberIndex, now: Nanos) -> bool {
        self.backoffs[member.get()].is_failing(now) || self.unflushed[member.get()]
    }

    /// When the next back-off ends.
    #[inline]
    pub(super) fn next_backoff_end(&self) -> Option<Nanos> {
        if self.all_eligible {
            return None;
        }
        self.backoffs.iter().filter_map(Backoff::until).min()
    }

    /// Ends each back-off that is over, and returns true if there was one.
    pub(super) fn end_backoffs(&mut self, now: Nanos) -> bool {
        let ended = self.backoffs.iter_mut().filter_map(|b| b.end_if_over(now).then_some(()));
        let has_ended = ended.count() > 0;
        if has_ended {
            self.changed();
        }
        has_ended
    }

    /// Moves the recovery offset of a member over a rebuilt range of it.
    pub(super) fn on_rebuilt(
        &mut self,
        member: MemberIndex,
        range: Range<u64>,
    ) -> Result<(), VolumeError> {
        let MemberState::Rebuilding { recovered_bytes } = self.members[member].state else {
            return Err(VolumeError::NotRebuilding);
        };
        let before = recovered_bytes;
        let recovered_bytes = self.rebuilds[member.get()].add(before, range.start, range.end);
        assert!(recovered_bytes >= before, "a recovery offset only grows");
        assert!(recovered_bytes == before || range.start <= before, "nor over a gap: {range:?}");
        let is_complete = recovered_bytes >= self.members[member].config.size_bytes;
        self.members.get_mut(member).state = match is_complete {
            true => MemberState::InSync,
            false => MemberState::Rebuilding { recovered_bytes },
        };
        self.changed();
        Ok(())
    }

    /// The recovery offset of a member once this range of it is rebuilt; `None` if it is not being
    /// rebuilt.
    pub fn offset_after(&self, member: MemberIndex, range: &Range<u64>) -> Option<u64> {
        let MemberState::Rebuilding { recovered_bytes } = self.members[member].state else {
            return None;
        };
        let mut ranges = self.rebuilds[member.get()].clone();
        let after = ranges.add(recovered_bytes, range.start, range.end);
        assert!(after <= self.members[member].config.size_bytes, "{after} is behind the member");
        Some(after)
    }

    /// Returns true if every block is in sync elsewhere, whichever members share its chunk: the
    /// other members that are not in sync, by the metadata too, are too few to matter.
    pub(super) fn can_lose(&self, member: MemberIndex) -> bool {
        let others = self.members.iter().filter(|(index, _)| *index != member);
        let is_missing = |(index, other): &(MemberIndex, &Member)| {
            other.state != MemberState::InSync || self.unrecorded[index.get()]
        };
        let missing = others.filter(is_missing).count();
        assert!(missing < self.members.len(), "{member:?} is not counted");
        missing < self.tolerated_failures
    }

    /// Returns true if a member may be failed because it cannot be written: others hold all that it
    /// holds. One that is being rebuilt may be the only one that is left of those of a chunk.
    pub fn can_fail(&self, member: MemberIndex) -> bool {
        match self.members[member].state {
            MemberState::Failed | MemberState::Rebuilding { recovered_bytes: 0 } => true,
            MemberState::Rebuilding { .. } | MemberState::InSync => self.can_lose(member),
        }
    }

    fn changed(&mut self) {
        self.is_complete = None;
        self.version = self.version.wrapping_add(1);
        let mut members = self.members.iter().zip(&self.backoffs);
        self.all_eligible = members.all(|((_, member), backoff)| {
            let is_in_sync = member.state == MemberState::InSync;
            is_in_sync && backoff.until().is_none() && !member.config.write_mostly
        });
    }
}

impl Backoff {
    /// End of the back-off, or `None` if the member is in none.
    fn until(&self) -> Option<Nanos> {
        self.until
    }

    /// Counts an error, of a read that can be repaired if `is_counted`.
    fn on_error(&mut self, is_counted: bool, now: Nanos) {
        let is_same = self.last_read_error.is_some_and(|last| now < last + FIRST_BACKOFF);
        if is_counted && !is_same {
            self.read_errors = self.read_errors_at(now).saturating_add(1);
            self.last_read_error = Some(now);
        }
        // I/O that was in flight at the first error fails with it.
        if self.until.is_some_and(|until| now < until) {
            return;
        }
        let doublings = self.consecutive_errors.min(16);
        let wait = Nanos(FIRST_BACKOFF.0 << doublings).min(LONGEST_BACKOFF);
        assert!((FIRST_BACKOFF..=LONGEST_BACKOFF).contains(&wait), "a back-off of {wait}");
        self.consecutive_errors = self.consecutive_errors.saturating_add(1);
        self.until = Some(now + wait);
    }

    fn read_errors_at(&self, now: Nanos) -> u32 {
        let last = self.last_read_error.unwrap_or(now);
        let halvings = now.saturating_sub(last).0 / HALVED_AFTER.0;
        self.read_errors >> halvings.min(31)
    }

    /// Returns true if reads failed so often that the member should not be used.
    fn is_failing(&self, now: Nanos) -> bool {
        self.read_errors_at(now) > READ_ERRORS_MAX
    }

    #[inline]
    fn on_success(&mut self) {
        self.consecutive_errors = 0;
    }

    /// Ends the back-off if it is over, and returns true if it was.
    fn end_if_over(&mut self, now: Nanos) -> bool {
        let over = self.until.is_some_and(|until| until <= now);
        if over {
            self.until = None;
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_longest_and_is_reset_by_a_success() {
        let mut backoff = Backoff::default();
        let next = |backoff: &mut Backoff| {
            backoff.on_error(false, Nanos::ZERO);
            let until = backoff.until().unwrap();
            backoff.on_error(false, until - Nanos(1));
            assert_eq!(backoff.until(), Some(until), "errors during a back-off do not extend it");
            backoff.end_if_over(until);
            until
        };
        assert_eq!(next(&mut backoff), FIRST_BACKOFF);
        assert_eq!(next(&mut backoff), FIRST_BACKOFF * 2);
        for _ in 0..40 {
            next(&mut backoff);
        }
        assert_eq!(next(&mut backoff), LONGEST_BACKOFF);
        backoff.on_success();
        backoff.on_error(false, Nanos::ZERO);
        assert!(!backoff.end_if_over(FIRST_BACKOFF - Nanos(1)));
        assert!(backoff.end_if_over(FIRST_BACKOFF));
        assert_eq!(backoff.until(), None);
    }

    #[test]
    fn more_than_twenty_read_errors_are_too_many_and_half_are_forgotten_each_hour() {
        let mut backoff = Backoff::default();
        let mut now = Nanos::ZERO;
        for error in 1..=41 {
            backoff.on_error(true, now);
            backoff.on_error(true, now + FIRST_BACKOFF - Nanos(1));
            assert_eq!(backoff.is_failing(now), error > 20, "{error}");
            now += FIRST_BACKOFF;
        }
        assert!(backoff.until().unwrap() > now, "they count during a back-off, too");
        let last = now - FIRST_BACKOFF;
        assert!(backoff.is_failing(last + HALVED_AFTER - Nanos(1)));
        assert!(!backoff.is_failing(last + HALVED_AFTER), "20 are left");
        backoff.on_error(false, now);
        assert!(!backoff.is_failing(last + HALVED_AFTER), "other errors are not counted");
    }
}
