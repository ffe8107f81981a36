//! Operations on full stripes, and what the volume keeps of them.

use super::column_set::ColumnSet;
use super::keys::{RequestKey, StripeKey};
use super::range_locks::RangeLocks;
use super::row_plan::{ColumnRows, RmwLevel, RowPlan};
use super::stripe_steps::{StripeBuffer, StripeStep};
use crate::geometry::FullStripe;
use crate::io::{Op, Purpose, VolumeError};
use crate::slab::Slab;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// The full stripes of a volume with parity.
#[derive(Default)]
pub(super) struct Stripes {
    pub(super) ops: Slab<StripeKey, StripeOp>,
    /// A lock covers the data of whole stripes.
    pub(super) locks: RangeLocks<StripeKey>,
    /// By the first byte of a stripe, the last write to it that has not started and may be joined.
    pub(super) joinable: BTreeMap<u64, StripeKey>,
    /// Stripes whose parities may not match the data, by their first byte: a write failed midway.
    pub(super) torn: BTreeSet<u64>,
    pub(super) steps: VecDeque<(StripeBuffer, StripeStep)>,
    pub(super) rmw_level: RmwLevel,
    /// True if there are no data, so that no steps are needed.
    pub(super) is_simulated: bool,
}

/// What an operation does with its stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StripeWork {
    /// Writes its extents.
    Write,
    /// Reads a column that its member could not give.
    Read(u8),
    /// Writes a column that its member lost.
    Rebuild(u8),
    /// Compares and corrects.
    Scrub,
    /// Writes parities that match the data.
    Resync,
}

/// A part of a request on one column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct StripeExtent {
    pub(super) request: RequestKey,
    pub(super) place: ColumnRows,
}

/// A member I/O of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct StripeIo {
    pub(super) place: ColumnRows,
    pub(super) op: Op,
    pub(super) purpose: Purpose,
}

/// An operation on a full stripe, which holds the lock of the stripe once it started.
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
    /// Columns that could not be written.
    pub(super) unwritten: ColumnSet,
    pub(super) plans: Vec<RowPlan>,
    pub(super) ios: Vec<StripeIo>,
    pub(super) pending: u32,
    pub(super) is_writing: bool,
    /// True if what could not be read was tried again.
    pub(super) has_retried: bool,
    /// True if a read failed since the plans were made.
    pub(super) needs_plan: bool,
    pub(super) has_started: bool,
    pub(super) background: bool,
    pub(super) result: Result<(), VolumeError>,
}

impl StripeOp {
    pub(super) fn new(
        work: StripeWork,
        stripe: FullStripe,
        extents: Vec<StripeExtent>,
    ) -> StripeOp {
        let mut op = StripeOp {
            work,
            stripe,
            rows: 0..0,
            extents,
            todo: Vec::new(),
            lost: ColumnSet::default(),
            spoiled: ColumnSet::default(),
            unwritten: ColumnSet::default(),
            plans: Vec::new(),
            ios: Vec::new(),
            pending: 0,
            is_writing: false,
            has_retried: false,
            needs_plan: false,
            has_started: false,
            background: false,
            result: Ok(()),
        };
        op.take_rows();
        op
    }

    /// The bytes of the volume in its stripe.
    pub(super) fn range(&self) -> Range<u64> {
        self.stripe.volume_offset..self.stripe.volume_offset + self.stripe.length()
    }

    /// The rows that are done now.
    pub(super) fn window(&self) -> Range<u64> {
        self.todo.last().expect("an operation under way has rows to do").clone()
    }

    /// Joins another part of a request to a write, unless they overlap: then their order counts.
    pub(super) fn joins(&mut self, extents: &[StripeExtent]) -> bool {
        const EXTENTS_MAX: usize = 256;
        let overlaps = |one: &ColumnRows, other: &ColumnRows| {
            one.column == other.column
                && one.rows.start < other.rows.end
                && other.rows.start < one.rows.end
        };
        let fits = self.extents.len() + extents.len() <= EXTENTS_MAX;
        let mut pairs = extents.iter().flat_map(|new| self.extents.iter().map(move |it| (new, it)));
        let is_free = pairs.all(|(new, it)| !overlaps(&new.place, &it.place));
        if fits && is_free {
            self.extents.extend_from_slice(extents);
            self.take_rows();
        }
        fits && is_free
    }

    /// Covers the rows of its extents.
    fn take_rows(&mut self) {
        let starts = self.extents.iter().map(|extent| extent.place.rows.start);
        let ends = self.extents.iter().map(|extent| extent.place.rows.end);
        self.rows = starts.min().unwrap_or(0)..ends.max().unwrap_or(0);
        self.todo = vec![self.rows.clone()];
    }
}
