//! The end of an operation on a full stripe, or of some of its rows: what was written and what was
//! not.
//!
//! A write that fails fails its member, as in md, and the parities have what it missed. If more
//! members are missing then than there are parities, the request fails, and nothing is recovered in
//! these rows any more: what a write left half done is never read. A column that could be read is
//! rewritten, and a member rebuilt, only where the volume can do without that: a member whose
//! rewrite fails stays then, as bad as it was.

use super::column_rows::ColumnRows;
use super::gate::Gate;
use super::held_ranges::overlap;
use super::keys::StripeKey;
use super::row_plan::RowPlan;
use super::stripe_ops::StripeWork;
use super::stripe_scrub::unreadable_rows;
use super::stripe_steps::StripeStep;
use super::{Volume, Work};
use crate::column_set::ColumnSet;
use crate::io::{RequestKind, VolumeError};
use crate::member::MemberIndex;

impl<G: Gate> Volume<G> {
    /// Ends the rows that were done, and goes on with the next.
    pub(super) fn end_window(&mut self, key: StripeKey) {
        let unwritten = self.fail_unwritten(key);
        let plans = std::mem::take(&mut self.stripes_mut().ops.get_mut(key).plans);
        for plan in &plans {
            let overlaps = |it: &&ColumnRows| overlap(&it.rows, &plan.rows);
            let failed = unwritten.iter().filter(overlaps).map(|it| it.column);
            self.end_rows(key, plan, ColumnSet::of(failed));
        }
        let op = self.stripes_mut().ops.get_mut(key);
        op.todo.pop();
        (op.lost, op.spoiled, op.has_retried) = Default::default();
        match op.todo.is_empty() {
            true => self.end_stripe(key),
            false => self.queue_next_rows(key),
        }
    }

    /// Fails the members that could not be written. Returns what could not be rewritten on members
    /// that stay.
    fn fail_unwritten(&mut self, key: StripeKey) -> Vec<ColumnRows> {
        let op = self.stripes_mut().ops.get_mut(key);
        let (stripe, work) = (op.stripe, op.work);
        let (unwritten, mut kept) = (std::mem::take(&mut op.unwritten), Vec::new());
        for place in unwritten {
            let (member, _) = self.layout.map().column(&stripe, place.column);
            if work != StripeWork::Write && !self.states.can_fail(member) {
                kept.push(place);
                continue;
            }
            self.fail_member(member);
            if work == StripeWork::Repair {
                let failures = &mut self.stripes_mut().ops.get_mut(key).failures;
                failures.push((place.rows, VolumeError::Unwritable));
            }
        }
        kept
    }

    /// Ends some rows; the columns in `failed` could not be rewritten, and their members stay.
    fn end_rows(&mut self, key: StripeKey, plan: &RowPlan, failed: ColumnSet) {
        let op = self.stripes().ops.get(key);
        let is_done = match op.work {
            StripeWork::Write => {
                let in_sync = self.in_sync_columns(&op.stripe, &plan.rows).count();
                usize::from(op.stripe.columns()) - in_sync <= usize::from(op.stripe.parities)
            }
            // A column that was rewritten because its medium failed stays as bad as it was.
            StripeWork::Scrub | StripeWork::Repair => {
                plan.writes.without(op.spoiled).and(failed).is_empty()
            }
            StripeWork::Rebuild(column) => !failed.contains(column),
            StripeWork::Read => true,
        };
        if !is_done {
            let failures = &mut self.stripes_mut().ops.get_mut(key).failures;
            failures.push((plan.rows.clone(), VolumeError::Unwritable));
        }
    }

    /// Ends an operation: frees its rows and ends its part of the requests.
    pub(super) fn end_stripe(&mut self, key: StripeKey) {
        self.add_step(key, || StripeStep::End);
        let stripes = self.stripes_mut();
        let op = stripes.ops.remove(key).expect("an operation ends once");
        assert_eq!(op.pending, 0, "an operation ends when none of its I/O is in flight");
        if op.work == StripeWork::Scrub && !stripes.is_simulated {
            stripes.findings.extend(unreadable_rows(&op));
        }
        let lock = stripes.lock(&op.stripe, &op.rows);
        for granted in stripes.locks.release(lock) {
            self.work.push_back(Work::StartStripe(granted));
        }
        for extent in &op.extents {
            self.end_piece_of(extent.request, op.result(extent));
        }
    }

    /// Forgets which writes of a member failed before it came back: it is rebuilt from its
    /// beginning, and must not fail for them a second time.
    pub(super) fn forget_failed_writes(&mut self, member: MemberIndex) {
        for piece in self.requests.pieces_mut().filter(|piece| piece.kind == RequestKind::Write) {
            let plan = piece.plan;
            let missed = piece.failed.iter().find(|target| plan.location(*target).0 == member);
            missed.into_iter().for_each(|target| piece.failed.remove(target));
        }
        let map = self.layout.map();
        for op in self.stripes.iter_mut().flat_map(|stripes| stripes.ops.iter_mut()) {
            let stripe = op.stripe;
            op.unwritten.retain(|place| map.column(&stripe, place.column).0 != member);
        }
    }
}
