//! Scrubs of full stripes: what the comparison of parities and data finds, and its repair.
//!
//! With two parities a page in which a single column is wrong tells which one it is. With one
//! parity, with two wrong columns or without a member it tells only that something is wrong. A
//! scrub reports what it finds, and a repair of the stripe compares it again and makes it
//! consistent: a column that is located is recovered from the others, and elsewhere the parities
//! are computed from the data, as md does. Without all columns nothing is repaired, since what is
//! missing would be recovered from what may be wrong.

use super::Volume;
use super::gate::Gate;
use super::keys::StripeKey;
use super::row_plan::{Arithmetic, RowPlan};
use super::stripe_ops::{StripeOp, StripeWork};
use super::stripe_steps::{StripeBuffer, StripeFinding, StripeProblem, StripeStep, WrongRows};
use crate::column_set::ColumnSet;
use crate::geometry::FullStripe;
use crate::io::VolumeError;
use crate::slab::SlabKey;
use std::ops::Range;

impl<G: Gate> Volume<G> {
    /// Takes the rows of a stripe that [`StripeStep::Verify`] found wrong, if any.
    pub fn on_verified(&mut self, buffer: StripeBuffer, wrong: &[WrongRows]) {
        let key = StripeKey::from_slot(buffer.0);
        let op = self.stripes().ops.get(key);
        let (stripe, work, first) = (op.stripe, op.work, op.rows.start);
        let is_whole =
            op.plans.iter().all(|plan| plan.arithmetic == Arithmetic::Verify(ColumnSet::default()));
        let wrong: Vec<WrongRows> = wrong
            .iter()
            .map(|WrongRows { rows, column }| WrongRows {
                rows: first + rows.start..first + rows.end,
                // Without a column, it was recovered from what may be wrong.
                column: column.filter(|_| is_whole),
            })
            .collect();
        for WrongRows { rows, column } in &wrong {
            let member = column.map(|column| self.layout.map().column(&stripe, column).0);
            if let Some(member) = member.filter(|_| work == StripeWork::Scrub) {
                self.states.members_mut().get_mut(member).errors += 1;
            }
            self.stripes_mut().findings.push(StripeFinding {
                volume_offset: stripe.volume_offset,
                rows: rows.clone(),
                problem: member.map_or(StripeProblem::Mismatch, StripeProblem::Member),
            });
        }
        if !is_whole && !wrong.is_empty() {
            // What was recovered for a column whose medium failed may be wrong, so it stays
            // unreadable.
            let plans = &mut self.stripes_mut().ops.get_mut(key).plans;
            plans.iter_mut().for_each(|plan| plan.writes = ColumnSet::default());
        }
        if work == StripeWork::Repair && !wrong.is_empty() {
            match is_whole && !self.options.is_read_only {
                true => self.correct(key, &wrong),
                false => {
                    let failures = wrong.into_iter().map(|it| (it.rows, VolumeError::Unreadable));
                    self.stripes_mut().ops.get_mut(key).failures.extend(failures);
                }
            }
        }
        self.write_stripe(key);
    }

    /// Plans and computes what makes rows consistent, of which all columns were read.
    fn correct(&mut self, key: StripeKey, wrong: &[WrongRows]) {
        let stripe = self.stripes().ops.get(key).stripe;
        let parities = ColumnSet::range(stripe.data..stripe.columns());
        let mut plans = Vec::new();
        for WrongRows { rows, column } in wrong {
            let local = self.local_rows(key, rows);
            let (arithmetic, writes) = match *column {
                Some(column) => {
                    let one = ColumnSet::one(column);
                    let (missing, wanted) = (one.bits(), one.bits());
                    self.add_step(key, || StripeStep::Recover { rows: local, missing, wanted });
                    (Arithmetic::Recover { missing: one, wanted: one }, one)
                }
                None => {
                    self.add_step(key, || StripeStep::Compute(local));
                    (Arithmetic::Compute, parities)
                }
            };
            let (covered, reads) = Default::default();
            plans.push(RowPlan { rows: rows.clone(), covered, reads, arithmetic, writes });
        }
        self.stripes_mut().ops.get_mut(key).plans = plans;
    }

    /// Takes what scrubs and repairs of full stripes found.
    pub fn take_stripe_findings(&mut self) -> Vec<StripeFinding> {
        self.stripes.as_mut().map(|it| std::mem::take(&mut it.findings)).unwrap_or_default()
    }

    /// The end of the full stripe that holds the last byte of a range; with mirrors, the end of the
    /// range.
    pub fn whole_stripes_end(&self, range: &Range<u64>) -> u64 {
        match self.stripes {
            Some(_) if !range.is_empty() => {
                let stripe = self.full_stripe(range.end - 1);
                stripe.volume_offset + stripe.length()
            }
            _ => range.end,
        }
    }

    /// Number of bytes of a range whose parities can be compared with the data: of stripes of which
    /// more columns are in sync than they have data.
    pub(super) fn comparable_stripe_bytes(&self, range: Range<u64>) -> u64 {
        let (mut offset, mut bytes) = (range.start, 0);
        while offset < range.end {
            let stripe = self.full_stripe(offset);
            let end = range.end.min(stripe.volume_offset + stripe.length());
            bytes += if self.has_spare_column(&stripe) { end - offset } else { 0 };
            offset = end;
        }
        bytes
    }

    /// Returns true if more columns of a stripe are in sync than it has data.
    pub(super) fn has_spare_column(&self, stripe: &FullStripe) -> bool {
        let in_sync = self.in_sync_columns(stripe, &(0..stripe.strip_bytes)).count();
        in_sync > usize::from(stripe.data)
    }
}

/// What a scrub reports of rows that it could not read.
pub(super) fn unreadable_rows(op: &StripeOp) -> impl Iterator<Item = StripeFinding> + '_ {
    let volume_offset = op.stripe.volume_offset;
    let failures = op.failures.iter().filter(|(_, error)| *error == VolumeError::Unreadable);
    failures.map(move |(rows, _)| StripeFinding {
        volume_offset,
        rows: rows.clone(),
        problem: StripeProblem::Unreadable,
    })
}
