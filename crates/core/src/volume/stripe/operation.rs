//! Operations on full stripes: their state, their locks, and writes that are joined.

use super::column_rows::{ColumnRows, strips};
use super::row_plan::RowPlan;
use super::{Client, StripeContext, StripeKey, StripeTask, Stripes};
use crate::column_set::ColumnSet;
use crate::geometry::FullStripe;
use crate::io::{Op, Purpose, VolumeError};
use crate::units::SECTOR_BYTES;
use crate::volume::held_ranges::overlap;
use std::ops::Range;

/// Greatest number of parts of requests in one operation.
const EXTENTS_MAX: usize = 256;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StripeWork {
    Write,
    /// Reads its extents: columns that their members could not give, or that the policy left out,
    /// and others of the same request.
    Read,
    /// Writes a column that its member lost.
    Rebuild(u8),
    /// Reads all columns, and rewrites those whose medium failed.
    Scrub,
}

/// A part of a request on one column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    pub(super) client: Client,
    pub(super) place: ColumnRows,
}

/// An operation on a full stripe, which holds the lock of its rows once it started.
pub(super) struct StripeOperation {
    pub(super) kind: StripeWork,
    pub(super) stripe: FullStripe,
    pub(super) rows: Range<u64>,
    /// The parts of requests that it serves: at least one.
    pub(super) extents: Vec<Extent>,
    /// Rows to do, the next last. Bad spots of different columns seldom are in the same rows, so
    /// rows that cannot be done together are divided.
    pub(super) todo: Vec<Range<u64>>,
    /// Columns that could not be read.
    pub(super) lost: ColumnSet,
    /// Columns whose medium failed.
    pub(super) spoiled: ColumnSet,
    /// Columns that the policy leaves out: they are read only if there are too few others.
    pub(super) left_out: ColumnSet,
    pub(super) plans: Vec<RowPlan>,
    /// The member I/Os that were queued last, all of one operation and purpose.
    pub(super) ios: Vec<ColumnRows>,
    pub(super) op: Op,
    pub(super) purpose: Purpose,
    pub(super) pending: u32,
    /// True if what could not be read was tried again.
    pub(super) has_retried: bool,
    /// True if a read failed since the plans were made.
    pub(super) needs_plan: bool,
    /// Rows that could not be done.
    pub(super) failures: Vec<(Range<u64>, VolumeError)>,
}

impl StripeOperation {
    pub(super) fn new(
        kind: StripeWork,
        stripe: FullStripe,
        extents: Vec<Extent>,
    ) -> StripeOperation {
        let rows = rows_of(&extents);
        assert!(rows.end <= stripe.strip_bytes, "{rows:?} of {} bytes", stripe.strip_bytes);
        StripeOperation {
            kind,
            stripe,
            rows,
            extents,
            todo: Vec::new(),
            lost: ColumnSet::default(),
            spoiled: ColumnSet::default(),
            left_out: ColumnSet::default(),
            plans: Vec::new(),
            ios: Vec::new(),
            op: Op::Read,
            purpose: Purpose::User,
            pending: 0,
            has_retried: false,
            needs_plan: false,
            failures: Vec::new(),
        }
    }

    /// Bytes of each column in its buffer.
    pub(super) fn rows_bytes(&self) -> u64 {
        self.rows.end - self.rows.start
    }

    /// The rows that are done now.
    pub(super) fn window(&self) -> Range<u64> {
        self.todo.last().expect("an operation under way has rows to do").clone()
    }

    /// Rows as they are counted in the buffer.
    pub(super) fn local_rows(&self, rows: &Range<u64>) -> Range<u64> {
        assert!(self.rows.start <= rows.start && rows.end <= self.rows.end, "{rows:?}");
        rows.start - self.rows.start..rows.end - self.rows.start
    }

    pub(super) fn result(&self, extent: &Extent) -> Result<(), VolumeError> {
        let failure = self.failures.iter().find(|(rows, _)| overlap(rows, &extent.place.rows));
        failure.map_or(Ok(()), |(_, error)| Err(*error))
    }

    /// Returns true if other parts of a request may be added. If they overlap, their order counts.
    fn can_join(&self, extents: &[Extent]) -> bool {
        let overlaps = |one: &ColumnRows, other: &ColumnRows| {
            one.column == other.column && overlap(&one.rows, &other.rows)
        };
        let fits = self.extents.len() + extents.len() <= EXTENTS_MAX;
        let mut pairs = extents.iter().flat_map(|new| self.extents.iter().map(move |it| (new, it)));
        fits && pairs.all(|(new, it)| !overlaps(&new.place, &it.place))
    }
}

impl Stripes {
    /// Adds an operation; it starts when its rows are free.
    pub(super) fn add(
        &mut self,
        operation: StripeOperation,
        context: &mut StripeContext<'_>,
    ) -> StripeKey {
        let range = self.lock(&operation.stripe, &operation.rows);
        let key = self.operations.insert(operation);
        if self.locks.acquire(range, key) {
            context.queue(StripeTask::Start(key));
        }
        key
    }

    /// Adds a write of a part of a stripe, to one that has not started if there is one. Returns the
    /// number of its strips.
    pub(super) fn add_write(
        &mut self,
        client: Client,
        stripe: &FullStripe,
        part: Range<u64>,
        context: &mut StripeContext<'_>,
    ) -> u32 {
        let extents: Vec<Extent> =
            strips(stripe, &part).map(|place| Extent { client, place }).collect();
        let parts = extents.len() as u32;
        if !self.join(stripe, client.background, &extents) {
            let write = StripeOperation::new(StripeWork::Write, *stripe, extents);
            let key = self.add(write, context);
            self.joinable.push_back((stripe.volume_offset, key));
        }
        parts
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
    fn join(&mut self, stripe: &FullStripe, background: bool, extents: &[Extent]) -> bool {
        let rows = rows_of(extents);
        let part = self.lock(stripe, &rows);
        let is_of_stripe = |(first, _): &&(u64, StripeKey)| *first == stripe.volume_offset;
        for &(_, key) in self.joinable.iter().rev().filter(is_of_stripe) {
            let write = self.operations.get(key);
            assert!(write.todo.is_empty(), "a write may be joined until it starts");
            let touches = write.rows.start <= rows.end && rows.start <= write.rows.end;
            let is_near = touches || !self.locks_rows;
            let is_alike = write.extents[0].client.background == background;
            if !is_alike || !is_near || !write.can_join(extents) {
                continue;
            }
            let all = write.rows.start.min(rows.start)..write.rows.end.max(rows.end);
            let (held, whole) = (self.lock(stripe, &write.rows), self.lock(stripe, &all));
            if self.locks.extend(key, &held, whole, &part) {
                let write = self.operations.get_mut(key);
                write.extents.extend_from_slice(extents);
                write.rows = all;
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
pub(super) fn rows_of(extents: &[Extent]) -> Range<u64> {
    assert!(!extents.is_empty(), "an operation serves a request");
    let starts = extents.iter().map(|extent| extent.place.rows.start);
    let ends = extents.iter().map(|extent| extent.place.rows.end);
    starts.min().unwrap_or(0)..ends.max().unwrap_or(0)
}
