//! The plans of an operation on a full stripe: which columns its rows take, as its members are now.

use super::column_rows::{joined, segments};
use super::operation::{StripeOperation, StripeWork};
use super::row_plan::{Access, ColumnStates, RowPlan};
use super::{StripeContext, StripeKey, Stripes};
use crate::column_set::ColumnSet;
use crate::io::{Op, Purpose, VolumeError};
use crate::units::SECTOR_BYTES;
use std::ops::Range;

impl Stripes {
    /// Plans the next rows of an operation, and reads what that takes. Rows that cannot be done
    /// fail; the others go on.
    pub(super) fn plan(&mut self, key: StripeKey, context: &mut StripeContext<'_>) {
        let (plans, refused) = self.plans(key, context);
        // A column is rewritten where its medium failed and nowhere else: what is recovered for it
        // may be wrong, because another column is wrong without an error.
        let operation = self.operations.get_mut(key);
        assert_eq!(operation.pending, 0, "rows are planned when no I/O is in flight");
        let rewrites = |plan: &RowPlan| {
            let is_long = plan.rows.end - plan.rows.start > SECTOR_BYTES;
            is_long && !plan.writes.without(plan.covered).and(operation.spoiled).is_empty()
        };
        if (!refused.is_empty() || plans.iter().any(rewrites)) && operation.divide_or_retry() {
            return self.plan(key, context);
        }
        let reads = joined(&plans, |plan| plan.reads);
        let (error, purpose) = match operation.kind {
            StripeWork::Write => (VolumeError::Unwritable, Purpose::User),
            StripeWork::Read => (VolumeError::Unreadable, Purpose::User),
            StripeWork::Scrub => (VolumeError::Unreadable, Purpose::Scrub),
            StripeWork::Rebuild(_) => (VolumeError::Unreadable, Purpose::Rebuild),
        };
        operation.failures.extend(refused.into_iter().map(|rows| (rows, error)));
        let is_over = plans.is_empty();
        (operation.plans, operation.needs_plan) = (plans, false);
        match reads.is_empty() {
            _ if is_over => self.end_window(key, context),
            true => self.compute(key, context),
            false => self.queue_ios(key, reads, (Op::Read, purpose), context),
        }
    }

    /// The plans of the next rows of an operation, and the rows for which there is none.
    fn plans(
        &self,
        key: StripeKey,
        context: &StripeContext<'_>,
    ) -> (Vec<RowPlan>, Vec<Range<u64>>) {
        let operation = self.operations.get(key);
        let window = operation.window();
        let (mut plans, mut refused) = (Vec::new(), Vec::new());
        let mut plan = |rows: Range<u64>, covered| {
            let states = context.column_states(operation, &rows);
            let access = match operation.kind {
                StripeWork::Write => states.write(covered, self.rmw_level),
                StripeWork::Read => states.read(covered),
                StripeWork::Scrub => states.scrub(),
                StripeWork::Rebuild(column) => states.rebuild(column),
            };
            match access {
                Some(Access { reads, arithmetic, writes }) => {
                    assert!(reads.is_within(states.readable), "{reads:?} of {states:?}");
                    plans.push(RowPlan { rows, covered, reads, arithmetic, writes });
                }
                None => refused.push(rows),
            }
        };
        let places = operation.extents.iter().map(|extent| &extent.place);
        match operation.kind {
            StripeWork::Write | StripeWork::Read => {
                segments(places, window).for_each(|(rows, covered)| plan(rows, covered));
            }
            _ => plan(window, ColumnSet::default()),
        }
        (plans, refused)
    }
}

impl StripeOperation {
    /// Divides rows that cannot be done together, or tries once more what could not be read: it may
    /// have been rewritten meanwhile. Returns false if neither may help.
    fn divide_or_retry(&mut self) -> bool {
        let window = self.window();
        let middle = ((window.start + window.end) / 2).next_multiple_of(SECTOR_BYTES);
        if !self.spoiled.is_empty() && middle < window.end {
            assert!(window.start < middle, "both halves have rows: {window:?}");
            self.todo.pop();
            self.todo.extend([middle..window.end, window.start..middle]);
        } else if !self.lost.is_empty() && !self.has_retried {
            self.has_retried = true;
        } else {
            return false;
        }
        (self.lost, self.spoiled) = (ColumnSet::default(), ColumnSet::default());
        true
    }
}

impl StripeContext<'_> {
    fn column_states(&self, operation: &StripeOperation, rows: &Range<u64>) -> ColumnStates {
        let stripe = &operation.stripe;
        let all = ColumnSet::range(0..stripe.columns());
        let in_sync = self.in_sync_columns(stripe, rows);
        let has_failed = |column| self.states.is_failed(self.member(stripe, column));
        let writable = match in_sync == all {
            true => all,
            false => ColumnSet::of(all.iter().filter(|column| !has_failed(*column))),
        };
        assert!(operation.spoiled.is_within(operation.lost), "what is spoiled was not read");
        ColumnStates {
            data: ColumnSet::range(0..stripe.data),
            parities: ColumnSet::range(stripe.data..stripe.columns()),
            in_sync,
            readable: in_sync.without(operation.lost),
            preferred: self.columns_at_work(stripe).without(operation.left_out),
            writable,
            spoiled: operation.spoiled,
        }
    }
}
