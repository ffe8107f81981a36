//! Updates of the labels: when one starts, and what follows from its ends.

use crate::StoreGate;
use crate::label_writer::UpdateStep;
use crate::metadata::MetadataJob;
use mirrorball_core::io::Op;
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::volume::MemberStates;
use mirrorball_core::volume::gate::{Array, Released};

/// The labels of a member that has to stay cannot be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LabelsUnwritable;

impl StoreGate {
    /// Starts an update of the labels if they are not current, unless one is under way.
    pub(crate) fn update_labels(&mut self, array: &mut Array<'_>) {
        if self.labels.has_io_in_flight() || self.labels.is_current(array.states) {
            return;
        }
        assert!(!self.is_read_only, "a read-only volume writes nothing");
        let sequence = self.log.departure_sequence();
        let members = self.labels.start(array.states, sequence);
        self.queue_metadata(members, Op::Write, MetadataJob::Label);
        // With no member left to write, the update is over at once.
        self.advance_labels(array);
    }

    /// Starts the update of the labels that the changes so far need, unless one is under way.
    pub fn record_changes(&mut self, array: &mut Array<'_>) {
        if !self.is_read_only {
            self.update_labels(array);
        }
    }

    /// Whether the labels say what was changed before the last [`StoreGate::record_changes`];
    /// `None` while they are written.
    ///
    /// # Errors
    /// If they could not be written.
    pub fn last_update(&self) -> Option<Result<(), LabelsUnwritable>> {
        let result = if self.labels.is_stuck() { Err(LabelsUnwritable) } else { Ok(()) };
        (!self.labels.has_io_in_flight()).then_some(result)
    }

    /// Commits at the start what the newest label announced, unless it may have been committed.
    /// Until then, members cannot be failed that may not have it.
    pub fn commit_announcement(&mut self, array: &mut Array<'_>) {
        let mut members = (0..).map(MemberIndex).take(array.states.members().len());
        if !self.is_read_only && members.any(|member| array.states.is_unrecorded(member)) {
            self.update_labels(array);
        }
    }

    /// Returns true if a member was rebuilt, and a label is being written that says so.
    pub fn is_being_recorded(&self, member: MemberIndex, states: &MemberStates) -> bool {
        self.labels.has_io_in_flight() && states.is_unrecorded(member)
    }

    /// The members that take metadata about data: not those that joined and whose own label does
    /// not say so yet. By that they may be in sync, with older data.
    pub(crate) fn takers_of_metadata(&self, states: &MemberStates) -> Vec<MemberIndex> {
        let takes = |member: &MemberIndex| {
            states.members()[*member].state == MemberState::InSync || self.labels.has_own(*member)
        };
        states.active().filter(takes).collect()
    }

    /// Continues an update of which no I/O is in flight.
    pub(crate) fn advance_labels(&mut self, array: &mut Array<'_>) {
        match self.labels.advance(array.states) {
            None => {}
            Some(UpdateStep::Write(members)) => {
                assert!(!members.is_empty(), "a step without a member is over");
                self.queue_metadata(members, Op::Write, MetadataJob::Label);
            }
            Some(UpdateStep::Committed) if self.labels.is_current(array.states) => {
                let held = std::mem::take(&mut self.labels.held);
                self.released.extend(held.into_iter().map(Released::End));
                let waiting = std::mem::take(&mut self.labels.waiting);
                self.release(waiting);
                self.continue_rebuilds(true, array);
            }
            Some(UpdateStep::Committed) => self.update_labels(array),
            Some(UpdateStep::Unwritable(members)) => {
                assert!(!self.labels.is_current(array.states), "the update is not over");
                members.iter().for_each(|&member| self.lose_member(member, array));
                match members.iter().all(|&member| array.states.is_failed(member)) {
                    true => self.advance_labels(array),
                    // What waits for labels that cannot be written fails.
                    false => {
                        let held = std::mem::take(&mut self.labels.held);
                        let waiting = std::mem::take(&mut self.labels.waiting);
                        let failed = held.into_iter().chain(waiting);
                        self.released.extend(failed.map(Released::Fail));
                        self.continue_rebuilds(false, array);
                    }
                }
            }
        }
    }
}
