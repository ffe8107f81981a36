//! The end of an operation on a full stripe, or of some of its rows: what was written and what was
//! not.
//!
//! A write that fails fails its member, as with mirrors, and the parities have what it missed. If
//! the volume cannot do without the member, the write is tried once more. If that fails too, so
//! does the request, and the rows are torn (see `torn_rows`).

use super::column_rows::ColumnRows;
use super::held_ranges::overlap;
use super::keys::StripeKey;
use super::row_plan::{Arithmetic, RowPlan};
use super::stripe_ops::StripeWork;
use super::stripe_scrub::unreadable_rows;
use super::stripe_steps::StripeStep;
use super::{Volume, Work};
use crate::column_set::ColumnSet;
use crate::io::{Op, RequestKind, VolumeError};
use crate::member::MemberIndex;

impl Volume {
    /// Ends the rows that were done, and goes on with the next.
    pub(super) fn end_window(&mut self, key: StripeKey) {
        if self.fail_or_rewrite(key) {
            return;
        }
        let op = self.stripes_mut().ops.get_mut(key);
        let (plans, unwritten) = (std::mem::take(&mut op.plans), std::mem::take(&mut op.unwritten));
        for plan in &plans {
            let overlaps = |it: &&ColumnRows| overlap(&it.rows, &plan.rows);
            let failed = unwritten.iter().filter(overlaps).map(|it| it.column);
            self.end_rows(key, plan, ColumnSet::of(failed));
        }
        self.end_entry(key, !unwritten.is_empty());
        let op = self.stripes_mut().ops.get_mut(key);
        op.todo.pop();
        (op.lost, op.spoiled) = Default::default();
        (op.has_retried, op.has_rewritten) = (false, false);
        match op.todo.is_empty() {
            true => self.end_stripe(key),
            false => self.queue_next_rows(key),
        }
    }

    /// Fails the members that could not be written. Those that the volume cannot do without are
    /// written once more; returns true if there are any.
    fn fail_or_rewrite(&mut self, key: StripeKey) -> bool {
        let op = self.stripes_mut().ops.get_mut(key);
        let (stripe, work) = (op.stripe, op.work);
        let (unwritten, mut failed) = (std::mem::take(&mut op.unwritten), Vec::new());
        for place in unwritten {
            let (member, _) = self.layout.map().column(&stripe, place.column);
            if !self.states.can_fail(member) {
                failed.push(place);
                continue;
            }
            self.fail_member(member);
            if work == StripeWork::Repair {
                let failures = &mut self.stripes_mut().ops.get_mut(key).failures;
                failures.push((place.rows, VolumeError::Unwritable));
            }
        }
        let op = self.stripes_mut().ops.get_mut(key);
        if failed.is_empty() || op.has_rewritten {
            op.unwritten = failed;
            return false;
        }
        op.has_rewritten = true;
        let purpose = op.purpose;
        self.queue_stripe_ios(key, failed, Op::Write, purpose);
        true
    }

    /// Ends some rows; the columns in `failed` could not be written, and their members stay.
    fn end_rows(&mut self, key: StripeKey, plan: &RowPlan, failed: ColumnSet) {
        let is_read_only = self.is_read_only;
        let op = self.stripes().ops.get(key);
        let (stripe, work) = (op.stripe, op.work);
        let parities = ColumnSet::range(stripe.data..stripe.columns());
        // A column that was rewritten because its medium failed stays as bad as it was.
        let rewritten = plan.writes.without(op.spoiled);
        let needed = match work {
            StripeWork::Write => plan.covered.or(parities).or(rewritten),
            StripeWork::Resync => parities.or(rewritten),
            StripeWork::Scrub | StripeWork::Repair => rewritten,
            StripeWork::Read | StripeWork::Rebuild(_) => ColumnSet::default(),
        };
        let is_stored = match work {
            StripeWork::Write | StripeWork::Resync => {
                let in_sync = self.in_sync_columns(&stripe, &plan.rows).count();
                usize::from(stripe.columns()) - in_sync <= usize::from(stripe.parities)
            }
            _ => true,
        };
        let stripes = self.stripes_mut();
        let is_computed = match plan.arithmetic {
            Arithmetic::Compute => true,
            // Then the parities were computed from what was recovered, too.
            Arithmetic::Recover { .. } => matches!(work, StripeWork::Write | StripeWork::Resync),
            _ => false,
        };
        let is_computed = is_computed && !is_read_only;
        let torn = &mut stripes.torn;
        if is_computed && failed.and(plan.covered.or(parities).or(needed)).is_empty() {
            torn.mend(&stripe, &plan.rows);
        } else if !failed.and(needed).is_empty() && !plan.writes.and(parities).is_empty() {
            torn.tear(&stripe, &plan.rows);
        }
        let is_unbuilt = matches!(work, StripeWork::Rebuild(it) if failed.contains(it));
        if !failed.and(needed).is_empty() || !is_stored || is_unbuilt {
            let failures = &mut stripes.ops.get_mut(key).failures;
            return failures.push((plan.rows.clone(), VolumeError::Unwritable));
        }
        let is_skipped = plan.arithmetic == Arithmetic::Nothing;
        match work {
            StripeWork::Rebuild(column) if is_skipped && column < stripe.data => {
                torn.lose(&stripe, column, &plan.rows);
            }
            StripeWork::Write => {
                plan.covered.iter().for_each(|it| torn.on_written(&stripe, it, &plan.rows));
            }
            _ => {}
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
        self.release_mended();
        for extent in &op.extents {
            self.end_piece_of(extent.request, op.result(extent));
        }
    }

    /// Returns true if a member may lack writes to its first `bytes` that are not replied to yet,
    /// or that a flush did not make durable, though it is in sync.
    pub(super) fn may_lack_writes(&self, member: MemberIndex, bytes: u64) -> bool {
        let pieces = self.pieces.iter().map(|(_, piece)| piece);
        let mut writes = pieces.filter(|piece| piece.kind == RequestKind::Write);
        let is_within = |(at, offset): (MemberIndex, u64)| at == member && offset < bytes;
        let map = self.layout.map();
        let mut ops = self.stripes.iter().flat_map(|stripes| stripes.ops.iter());
        self.failed_flushes.contains(&member)
            || self.unfinished_writes() > 0
            || writes.any(|it| it.failed.iter().any(|at| is_within(it.plan.location(at))))
            || ops.any(|(_, op)| {
                let place = |place: &ColumnRows| map.column(&op.stripe, place.column);
                op.unwritten.iter().any(|at| is_within(place(at)))
            })
    }

    /// Forgets which writes of a member failed before it came back: it is rebuilt from its
    /// beginning, and must not fail for them a second time.
    pub(super) fn forget_failed_writes(&mut self, member: MemberIndex) {
        for piece in self.pieces.iter_mut().filter(|piece| piece.kind == RequestKind::Write) {
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
