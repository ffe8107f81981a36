//! Operations on full stripes, and what the volume keeps of them.

use super::column_rows::ColumnRows;
use super::held_ranges::overlap;
use super::keys::{RequestKey, StripeKey};
use super::range_locks::RangeLocks;
use super::row_plan::{RmwLevel, RowPlan};
use super::stripe_steps::{StripeBuffer, StripeFinding, StripeStep};
use crate::column_set::ColumnSet;
use crate::geometry::{ChunkMap, FullStripe, LayoutKind};
use crate::io::{Op, Purpose, VolumeError};
use crate::slab::Slab;
use crate::units::SECTOR_BYTES;
use std::collections::VecDeque;
use std::ops::Range;

/// The full stripes of a volume with parity.
#[derive(Default)]
pub(super) struct Stripes {
    pub(super) ops: Slab<StripeKey, StripeOp>,
    pub(super) locks: RangeLocks<StripeKey>,
    /// True if operations on other rows of a stripe run together, as md's do; a full stripe of
    /// btrfs has one operation at a time.
    pub(super) locks_rows: bool,
    /// The writes that have not started and may be joined, each with the first byte of its stripe,
    /// in the order in which they came. Nearly always they start in this order.
    pub(super) joinable: VecDeque<(u64, StripeKey)>,
    /// What scrubs and repairs found since it was last taken.
    pub(super) findings: Vec<StripeFinding>,
    /// True if the policy is asked which columns a read leaves out.
    pub(super) asks_policy: bool,
    pub(super) steps: VecDeque<(StripeBuffer, StripeStep)>,
    pub(super) rmw_level: RmwLevel,
    /// True if there are no data, so that no steps are needed.
    pub(super) is_simulated: bool,
}

impl Stripes {
    /// The stripes of a volume; `None` if it has no parity.
    pub(super) fn of(map: &ChunkMap) -> Option<Box<Stripes>> {
        let locks_rows = map.layout().kind() != LayoutKind::Btrfs;
        (map.parities() > 0).then(|| Box::new(Stripes { locks_rows, ..Stripes::default() }))
    }

    /// The lock of some rows: as whole pages, or all rows of the stripe.
    pub(super) fn lock(&self, stripe: &FullStripe, rows: &Range<u64>) -> Range<u64> {
        if !self.locks_rows {
            return spread(stripe, &(0..stripe.strip_bytes));
        }
        let start = rows.start / SECTOR_BYTES * SECTOR_BYTES;
        spread(stripe, &(start..rows.end.next_multiple_of(SECTOR_BYTES)))
    }

    /// Joins parts of a request to a write that has not started, and returns true; or returns false
    /// if that would change the order of overlapping operations.
    pub(super) fn join(
        &mut self,
        stripe: &FullStripe,
        background: bool,
        extents: &[StripeExtent],
    ) -> bool {
        let rows = rows_of(extents);
        let part = self.lock(stripe, &rows);
        let is_of_stripe = |(first, _): &&(u64, StripeKey)| *first == stripe.volume_offset;
        for &(_, key) in self.joinable.iter().rev().filter(is_of_stripe) {
            let op = self.ops.get(key);
            let touches = op.rows.start <= rows.end && rows.start <= op.rows.end;
            let is_near = touches || !self.locks_rows;
            if op.background != background || !is_near || !op.can_join(extents) {
                continue;
            }
            let all = op.rows.start.min(rows.start)..op.rows.end.max(rows.end);
            let (held, whole) = (self.lock(stripe, &op.rows), self.lock(stripe, &all));
            if self.locks.extend(key, &held, whole, &part) {
                let op = self.ops.get_mut(key);
                op.extents.extend_from_slice(extents);
                op.rows = all;
                return true;
            }
        }
        false
    }
}

/// Rows of a stripe in a space where those of other stripes are elsewhere: a strip is no longer
/// than the data of its stripe.
fn spread(stripe: &FullStripe, rows: &Range<u64>) -> Range<u64> {
    stripe.volume_offset + rows.start..stripe.volume_offset + rows.end
}

/// The rows from the first to the last of some extents.
pub(super) fn rows_of(extents: &[StripeExtent]) -> Range<u64> {
    let starts = extents.iter().map(|extent| extent.place.rows.start);
    let ends = extents.iter().map(|extent| extent.place.rows.end);
    starts.min().unwrap_or(0)..ends.max().unwrap_or(0)
}

/// What an operation does with its stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StripeWork {
    /// Writes its extents.
    Write,
    /// Reads its extents: columns that their members could not give, or that the policy left out,
    /// and others of the same request.
    Read,
    /// Writes a column that its member lost.
    Rebuild(u8),
    /// Compares.
    Scrub,
    /// Compares and corrects.
    Repair,
}

/// A part of a request on one column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct StripeExtent {
    pub(super) request: RequestKey,
    pub(super) place: ColumnRows,
}

/// An operation on a full stripe, which holds the lock of its rows once it started.
pub(super) struct StripeOp {
    pub(super) work: StripeWork,
    pub(super) stripe: FullStripe,
    /// The rows that it has a buffer for.
    pub(super) rows: Range<u64>,
    /// The requests that it serves: at least one.
    pub(super) extents: Vec<StripeExtent>,
    /// Rows to do, the next last. Bad spots of different columns seldom are in the same rows, so
    /// rows that cannot be done together are divided.
    pub(super) todo: Vec<Range<u64>>,
    /// Columns that could not be read.
    pub(super) lost: ColumnSet,
    /// Columns whose medium failed.
    pub(super) spoiled: ColumnSet,
    /// Columns that the policy leaves out: they are read only if there are too few others.
    pub(super) left_out: ColumnSet,
    /// What could not be written.
    pub(super) unwritten: Vec<ColumnRows>,
    pub(super) plans: Vec<RowPlan>,
    /// Its member I/Os that were queued last, all of one kind and purpose.
    pub(super) ios: Vec<ColumnRows>,
    pub(super) kind: Op,
    pub(super) purpose: Purpose,
    pub(super) pending: u32,
    pub(super) is_writing: bool,
    /// True if what could not be read was tried again.
    pub(super) has_retried: bool,
    /// True if a read failed since the plans were made.
    pub(super) needs_plan: bool,
    pub(super) background: bool,
    /// Rows that could not be done.
    pub(super) failures: Vec<(Range<u64>, VolumeError)>,
}

impl StripeOp {
    pub(super) fn new(
        work: StripeWork,
        stripe: FullStripe,
        extents: Vec<StripeExtent>,
    ) -> StripeOp {
        StripeOp {
            work,
            stripe,
            rows: rows_of(&extents),
            extents,
            todo: Vec::new(),
            lost: ColumnSet::default(),
            spoiled: ColumnSet::default(),
            left_out: ColumnSet::default(),
            unwritten: Vec::new(),
            plans: Vec::new(),
            ios: Vec::new(),
            kind: Op::Read,
            purpose: Purpose::User,
            pending: 0,
            is_writing: false,
            has_retried: false,
            needs_plan: false,
            background: false,
            failures: Vec::new(),
        }
    }

    /// The rows that are done now.
    pub(super) fn window(&self) -> Range<u64> {
        self.todo.last().expect("an operation under way has rows to do").clone()
    }

    /// The result of one of its extents.
    pub(super) fn result(&self, extent: &StripeExtent) -> Result<(), VolumeError> {
        let failure = self.failures.iter().find(|(rows, _)| overlap(rows, &extent.place.rows));
        failure.map_or(Ok(()), |(_, error)| Err(*error))
    }

    /// Returns true if other parts of a request may be added. If they overlap, their order counts.
    fn can_join(&self, extents: &[StripeExtent]) -> bool {
        const EXTENTS_MAX: usize = 256;
        let overlaps = |one: &ColumnRows, other: &ColumnRows| {
            one.column == other.column && overlap(&one.rows, &other.rows)
        };
        let fits = self.extents.len() + extents.len() <= EXTENTS_MAX;
        let mut pairs = extents.iter().flat_map(|new| self.extents.iter().map(move |it| (new, it)));
        fits && pairs.all(|(new, it)| !overlaps(&new.place, &it.place))
    }
}
