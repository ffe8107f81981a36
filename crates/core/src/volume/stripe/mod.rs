//! Full stripes: the second plan of a volume, for layouts with parity.
//!
//! A volume with parity hands each request but a flush to [`Stripes`], which owns everything that
//! parity needs. The volume calls it to cut a request, to do a [`StripeTask`] of its work queue,
//! and at the end of a member I/O; it takes the parts of requests that ended
//! ([`Stripes::pop_ended`]), and hands steps on buffers ([`StripeStep`]) to the executor.
//!
//! - `reads`: each column is read from its member, or recovered from others.
//! - `operation`: all other work, and reads that recover a column, are operations on full stripes.
//!   An operation holds the lock of its rows from its start to its end, so nothing else writes to
//!   them or recovers from them meanwhile.
//! - `planning`: the plans of the rows of an operation, which `row_plan` makes as pure functions of
//!   the columns that can be read and written.
//! - `run`: an operation is started, read, computed, written and ended.
//! - `steps`: the executor does the arithmetic. A simulation has no data and does none.

mod column_rows;
mod operation;
mod planning;
mod reads;
mod row_plan;
mod run;
mod steps;

pub use row_plan::RmwLevel;
pub use steps::{BufferRows, RequestRows, StripeBuffer, StripePlace, StripeStep};

use super::member_states::MemberStates;
use super::piece::{RequestKey, StripeKey};
use super::range_locks::RangeLocks;
use super::request::LiveRequests;
use super::{Decider, Work};
use crate::column_set::ColumnSet;
use crate::geometry::{ChunkMap, FullStripe, LayoutKind};
use crate::io::{IoError, MemberIo, Request, RequestId, RequestKind, VolumeError};
use crate::member::{MemberIndex, MemberState};
use crate::slab::{Slab, SlabKey};
use crate::units::Nanos;
use column_rows::ColumnRows;
use operation::{Extent, StripeOperation, StripeWork};
use reads::StripRead;
use std::collections::VecDeque;
use std::ops::Range;

/// The full stripes of a volume with parity.
#[derive(Default)]
pub(super) struct Stripes {
    operations: Slab<StripeKey, StripeOperation>,
    locks: RangeLocks<StripeKey>,
    /// True if operations on other rows of a stripe run together, as md's do; a full stripe of
    /// btrfs has one operation at a time.
    locks_rows: bool,
    /// The writes that have not started and may be joined, each with the first byte of its stripe,
    /// in the order in which they came. Nearly always they start in this order.
    joinable: VecDeque<(u64, StripeKey)>,
    /// The reads of the tasks [`StripeTask::ReadStrips`] in the work queue, in their order.
    reads: VecDeque<StripRead>,
    ended: VecDeque<(RequestKey, Result<(), VolumeError>)>,
    steps: VecDeque<(StripeBuffer, StripeStep)>,
    pub(super) rmw_level: RmwLevel,
    /// True if there are no data, so that no steps are needed.
    pub(super) is_simulated: bool,
}

/// The parts of a volume that its stripes use.
pub(super) struct StripeContext<'a> {
    pub(super) map: &'a ChunkMap,
    pub(super) requests: &'a LiveRequests,
    pub(super) states: &'a mut MemberStates,
    pub(super) decider: &'a mut Decider,
    pub(super) work: &'a mut VecDeque<Work>,
    pub(super) is_read_only: bool,
}

/// Work of the stripes in the work queue of their volume.
#[derive(Clone, Copy, Debug)]
pub(super) enum StripeTask {
    /// Do the next of the reads.
    ReadStrips,
    /// Start this operation, whose rows are locked for it.
    Start(StripeKey),
    /// Do the next rows of this operation.
    NextRows(StripeKey),
    /// Hand out an I/O of this operation.
    Issue { operation: StripeKey, index: u16 },
}

/// The owner of a member I/O of the stripes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StripeOwner {
    /// The read of a part of this request from its member.
    Strip(RequestKey),
    Operation(StripeKey, u8),
}

/// The request that an I/O of the stripes serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Client {
    key: RequestKey,
    id: RequestId,
    /// First byte, on the volume.
    begin: u64,
    stream: u64,
    background: bool,
}

impl Client {
    fn of(key: RequestKey, request: &Request) -> Client {
        let Request { id, offset: begin, stream, background, .. } = *request;
        Client { key, id, begin, stream, background }
    }
}

impl Stripes {
    /// The stripes of a volume; `None` if it has no parity.
    pub(super) fn of(map: &ChunkMap) -> Option<Box<Stripes>> {
        let locks_rows = map.layout().kind() != LayoutKind::Btrfs;
        (map.parities() > 0).then(|| Box::new(Stripes { locks_rows, ..Stripes::default() }))
    }

    /// Cuts a request into parts, and returns their number. A read has a part for each strip, a
    /// write for each strip of each operation, and a scrub for each stripe. A discard has none:
    /// members would return anything for it, and the parities would no longer match.
    pub(super) fn cut(
        &mut self,
        key: RequestKey,
        request: &Request,
        context: &mut StripeContext<'_>,
    ) -> u32 {
        let client = Client::of(key, request);
        let (mut offset, end) = (request.offset, request.offset + request.length);
        let mut parts = 0;
        while offset < end && request.kind != RequestKind::Discard {
            let stripe = context.full_stripe(offset);
            let part = offset..end.min(stripe.volume_offset + stripe.length());
            offset = part.end;
            parts += match request.kind {
                RequestKind::Read => self.queue_reads(client, part, context),
                RequestKind::Write => self.add_write(client, &stripe, part, context),
                RequestKind::Scrub => {
                    let place = ColumnRows { column: 0, rows: 0..stripe.strip_bytes };
                    let extents = vec![Extent { client, place }];
                    self.add(StripeOperation::new(StripeWork::Scrub, stripe, extents), context);
                    1
                }
                kind => unreachable!("{kind:?} of a volume with parity"),
            };
        }
        parts
    }

    /// Cuts the rebuild of a range of a member into operations on the stripes that it touches, and
    /// returns their number.
    pub(super) fn cut_rebuild(
        &mut self,
        key: RequestKey,
        request: &Request,
        (member, mut range): (MemberIndex, Range<u64>),
        context: &mut StripeContext<'_>,
    ) -> u32 {
        let client = Client::of(key, request);
        let mut parts = 0;
        while !range.is_empty() {
            let at = context.map.column_at(member, range.start);
            let (stripe, column) = at.expect("a member is allocated without holes");
            let length = (stripe.strip_bytes - column.offset).min(range.end - range.start);
            range.start += length;
            let rows = column.offset..column.offset + length;
            let extents =
                vec![Extent { client, place: ColumnRows { column: column.number, rows } }];
            let kind = StripeWork::Rebuild(column.number);
            self.add(StripeOperation::new(kind, stripe, extents), context);
            parts += 1;
        }
        parts
    }

    /// Does a task of the work queue, which may hand out a member I/O.
    pub(super) fn do_task(
        &mut self,
        task: StripeTask,
        now: Nanos,
        context: &mut StripeContext<'_>,
    ) -> Option<(MemberIo, StripeOwner)> {
        match task {
            StripeTask::ReadStrips => self.read_strips(now, context),
            StripeTask::Issue { operation, index } => self.issue(operation, index, now, context),
            StripeTask::Start(operation) => {
                self.start(operation, context);
                None
            }
            StripeTask::NextRows(operation) => {
                self.plan(operation, context);
                None
            }
        }
    }

    /// Handles the end of a member I/O that a task handed out.
    pub(super) fn on_io(
        &mut self,
        owner: StripeOwner,
        io: &MemberIo,
        result: Result<(), IoError>,
        context: &mut StripeContext<'_>,
    ) {
        match owner {
            StripeOwner::Strip(request) => self.on_strip_read(request, io, result, context),
            StripeOwner::Operation(key, column) => {
                let stripe = &self.operations.get(key).stripe;
                let (member, start) = context.map.column(stripe, column);
                assert_eq!(member, io.member, "the I/O of a column goes to its member");
                let rows = io.offset - start..io.offset - start + io.length;
                self.end_io(key, ColumnRows { column, rows }, io.op, result, context);
            }
        }
    }

    /// The next part of a request that ended.
    pub(super) fn pop_ended(&mut self) -> Option<(RequestKey, Result<(), VolumeError>)> {
        self.ended.pop_front()
    }

    pub(super) fn pop_step(&mut self) -> Option<(StripeBuffer, StripeStep)> {
        self.steps.pop_front()
    }

    /// The place of the data of a member I/O of an operation.
    pub(super) fn place(
        &self,
        (key, column): (StripeKey, u8),
        io: &MemberIo,
        map: &ChunkMap,
    ) -> StripePlace {
        let operation = self.operations.get(key);
        let (_, start) = map.column(&operation.stripe, column);
        let row = io.offset - start - operation.rows.start;
        assert!(row + io.length <= operation.rows_bytes(), "an I/O is within the rows: {io:?}");
        let offset = u64::from(column) * operation.rows_bytes() + row;
        StripePlace { buffer: StripeBuffer(key.slot()), offset }
    }
}

impl StripeContext<'_> {
    fn full_stripe(&self, offset: u64) -> FullStripe {
        self.map.full_stripe(offset).expect("the volume has parity")
    }

    fn member(&self, stripe: &FullStripe, column: u8) -> MemberIndex {
        self.map.column(stripe, column).0
    }

    fn in_sync_columns(&self, stripe: &FullStripe, rows: &Range<u64>) -> ColumnSet {
        let all = ColumnSet::range(0..stripe.columns());
        if self.states.all_eligible() {
            return all;
        }
        let length = rows.end - rows.start;
        let is_in_sync = |column: &u8| {
            let (member, start) = self.map.column(stripe, *column);
            self.states.is_in_sync(member, start + rows.start, length)
        };
        ColumnSet::of(all.iter().filter(is_in_sync))
    }

    /// The columns whose members are in no back-off.
    fn columns_at_work(&self, stripe: &FullStripe) -> ColumnSet {
        let all = ColumnSet::range(0..stripe.columns());
        if self.states.all_eligible() {
            return all;
        }
        let is_in_backoff = |column| self.states.is_in_backoff(self.member(stripe, column));
        ColumnSet::of(all.iter().filter(|column| !is_in_backoff(*column)))
    }

    /// Fails a member that could not be written.
    fn fail_member(&mut self, member: MemberIndex) {
        if !self.states.is_failed(member) {
            self.states.set(member, MemberState::Failed);
        }
    }

    fn queue(&mut self, task: StripeTask) {
        self.work.push_back(Work::Stripe(task));
    }
}
