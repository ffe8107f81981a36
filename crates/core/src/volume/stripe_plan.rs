//! The plans of an operation on a full stripe: which columns its rows take, as its members are now.

use super::column_rows::{joined, segments};
use super::gate::Gate;
use super::keys::StripeKey;
use super::row_plan::{Access, ColumnStates, RowPlan};
use super::stripe_ops::{StripeOp, StripeWork};
use super::{Volume, Work};
use crate::column_set::ColumnSet;
use crate::geometry::FullStripe;
use crate::io::{Op, Purpose, VolumeError};
use crate::units::SECTOR_BYTES;
use std::ops::Range;

impl<G: Gate> Volume<G> {
    /// Plans the next rows of an operation, and reads what that takes. Rows that cannot be done
    /// fail; the others go on.
    pub(super) fn plan_stripe(&mut self, key: StripeKey) {
        let (plans, refused) = self.plans(key);
        // A column is rewritten where its medium failed and nowhere else: what is recovered for it
        // may be wrong, because another column is wrong without an error.
        let spoiled = self.stripes().ops.get(key).spoiled;
        let rewrites = |plan: &RowPlan| {
            let is_long = plan.rows.end - plan.rows.start > SECTOR_BYTES;
            is_long && !plan.writes.without(plan.covered).and(spoiled).is_empty()
        };
        if (!refused.is_empty() || plans.iter().any(rewrites)) && self.divide_or_retry(key) {
            return self.plan_stripe(key);
        }
        let reads = joined(&plans, |plan| plan.reads);
        let op = self.stripes_mut().ops.get_mut(key);
        let (error, purpose) = match op.work {
            StripeWork::Write => (VolumeError::Unwritable, Purpose::User),
            StripeWork::Read => (VolumeError::Unreadable, Purpose::User),
            StripeWork::Scrub | StripeWork::Repair => (VolumeError::Unreadable, Purpose::Scrub),
            StripeWork::Rebuild(_) => (VolumeError::Unreadable, Purpose::Rebuild),
        };
        op.failures.extend(refused.into_iter().map(|rows| (rows, error)));
        let is_over = plans.is_empty();
        (op.plans, op.needs_plan, op.is_writing) = (plans, false, false);
        match reads.is_empty() {
            _ if is_over => self.end_window(key),
            true => self.compute_stripe(key),
            false => self.queue_stripe_ios(key, reads, Op::Read, purpose),
        }
    }

    /// The plans of the next rows of an operation, and the rows for which there is none.
    fn plans(&self, key: StripeKey) -> (Vec<RowPlan>, Vec<Range<u64>>) {
        let op = self.stripes().ops.get(key);
        let window = op.window();
        let (mut plans, mut refused) = (Vec::new(), Vec::new());
        let mut plan = |rows: Range<u64>, covered| match self.access(op, &rows, covered) {
            Some(Access { reads, arithmetic, writes }) => {
                plans.push(RowPlan { rows, covered, reads, arithmetic, writes });
            }
            None => refused.push(rows),
        };
        let places = op.extents.iter().map(|extent| &extent.place);
        match op.work {
            StripeWork::Write | StripeWork::Read => {
                segments(places, window).for_each(|(rows, covered)| plan(rows, covered));
            }
            _ => plan(window, ColumnSet::default()),
        }
        (plans, refused)
    }

    /// Divides rows that cannot be done together, or tries once more what could not be read: it may
    /// have been rewritten meanwhile. Returns false if neither may help.
    fn divide_or_retry(&mut self, key: StripeKey) -> bool {
        let op = self.stripes_mut().ops.get_mut(key);
        let window = op.window();
        let middle = ((window.start + window.end) / 2).next_multiple_of(SECTOR_BYTES);
        if !op.spoiled.is_empty() && middle < window.end {
            op.todo.pop();
            op.todo.extend([middle..window.end, window.start..middle]);
        } else if !op.lost.is_empty() && !op.has_retried {
            op.has_retried = true;
        } else {
            return false;
        }
        (op.lost, op.spoiled) = (ColumnSet::default(), ColumnSet::default());
        true
    }

    /// What some rows of an operation take.
    fn access(&self, op: &StripeOp, rows: &Range<u64>, covered: ColumnSet) -> Option<Access> {
        let states = self.column_states(op, rows);
        match op.work {
            StripeWork::Write => states.write(covered, self.stripes().rmw_level),
            StripeWork::Read => states.read(covered),
            // What is missing would be recovered from what may be wrong.
            StripeWork::Repair if states.is_incomplete() => None,
            StripeWork::Scrub | StripeWork::Repair => states.scrub(),
            StripeWork::Rebuild(column) => states.rebuild(column),
        }
    }

    fn column_states(&self, op: &StripeOp, rows: &Range<u64>) -> ColumnStates {
        let stripe = &op.stripe;
        let all = ColumnSet::range(0..stripe.columns());
        let where_member = |is_wanted: &dyn Fn(u8) -> bool| {
            ColumnSet::of(all.iter().filter(|column| is_wanted(*column)))
        };
        let member = |column| self.layout.map().column(stripe, column).0;
        let in_sync = self.in_sync_columns(stripe, rows);
        let writable = match in_sync == all {
            true => all,
            false => where_member(&|column| !self.states.is_failed(member(column))),
        };
        let at_work = match self.states.all_eligible() {
            true => all,
            false => where_member(&|column| !self.states.is_in_backoff(member(column))),
        };
        ColumnStates {
            data: ColumnSet::range(0..stripe.data),
            parities: ColumnSet::range(stripe.data..stripe.columns()),
            in_sync,
            readable: in_sync.without(op.lost),
            preferred: at_work.without(op.left_out),
            writable,
            spoiled: op.spoiled,
        }
    }

    /// The columns whose members are in sync in some rows.
    pub(super) fn in_sync_columns(&self, stripe: &FullStripe, rows: &Range<u64>) -> ColumnSet {
        if self.states.all_eligible() {
            return ColumnSet::range(0..stripe.columns());
        }
        let length = rows.end - rows.start;
        let is_in_sync = |column: &u8| {
            let (member, start) = self.layout.map().column(stripe, *column);
            self.states.is_in_sync(member, start + rows.start, length)
        };
        ColumnSet::of((0..stripe.columns()).filter(is_in_sync))
    }

    /// Queues the next rows of an operation.
    pub(super) fn queue_next_rows(&mut self, key: StripeKey) {
        self.work.push_back(Work::NextRows(key));
    }
}
