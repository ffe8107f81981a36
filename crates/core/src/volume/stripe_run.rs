//! The life of an operation on a full stripe: planned, read, computed, written, ended.
//!
//! An operation holds the lock of its rows from its start to its end, so nothing else writes to
//! them or recovers from them meanwhile. Reads of data that need no other column take no lock. A
//! read that fails makes a new plan without the column.

use super::column_rows::{ColumnRows, joined};
use super::gate::Gate;
use super::in_flight::Owner;
use super::keys::StripeKey;
use super::row_plan::{Arithmetic, RowPlan};
use super::stripe_ops::{StripeExtent, StripeOp, StripeWork, Stripes};
use super::stripe_steps::{BufferRows, RequestRows, StripeBuffer, StripePlace, StripeStep};
use super::{Volume, Work};
use crate::column_set::ColumnSet;
use crate::io::{IoError, IoId, MemberIo, Op, Purpose, ReadRole};
use crate::slab::SlabKey;
use crate::units::Nanos;
use std::ops::Range;

impl<G: Gate> Volume<G> {
    /// The next step on the buffer of a stripe. Steps are done before member I/O that was handed
    /// out after them, and before replies.
    pub fn poll_stripe_step(&mut self) -> Option<(StripeBuffer, StripeStep)> {
        self.stripes.as_mut()?.steps.pop_front()
    }

    /// Place of the data of a member I/O whose role is [`ReadRole::Stripe`].
    ///
    /// # Panics
    /// If it is not in flight.
    pub fn stripe_place(&self, io: &MemberIo) -> StripePlace {
        let in_flight = self.in_flight.find(io.id).expect("the I/O is in flight");
        let Owner::Stripe(key, column) = in_flight.owner else { panic!("{io:?}") };
        let op = self.stripes().ops.get(key);
        let (_, start) = self.layout.map().column(&op.stripe, column);
        let row = io.offset - start - op.rows.start;
        let rows_bytes = op.rows.end - op.rows.start;
        let offset = u64::from(column) * rows_bytes + row;
        StripePlace { buffer: StripeBuffer(key.slot()), offset }
    }

    /// Starts an operation whose rows are locked for it.
    pub(super) fn start_stripe(&mut self, key: StripeKey) {
        let stripes = self.stripes_mut();
        let op = stripes.ops.get_mut(key);
        let (stripe, rows_bytes) = (op.stripe, op.rows.end - op.rows.start);
        op.todo = vec![op.rows.clone()];
        if op.work == StripeWork::Write {
            let at = stripes.joinable.iter().position(|(_, other)| *other == key);
            stripes.joinable.remove(at.expect("a write may be joined until it starts"));
        }
        self.add_step(key, || StripeStep::Begin { stripe: Box::new(stripe), rows_bytes });
        self.plan_stripe(key);
    }

    /// Issues a member I/O of an operation; `None` if its member cannot take it any more.
    pub(super) fn issue_stripe_io(
        &mut self,
        key: StripeKey,
        index: u16,
        now: Nanos,
    ) -> Option<MemberIo> {
        let op = self.stripes().ops.get(key);
        let ColumnRows { column, rows } = op.ios[usize::from(index)].clone();
        let (kind, purpose) = (op.kind, op.purpose);
        let (member, start) = self.layout.map().column(&op.stripe, column);
        let (offset, length) = (start + rows.start, rows.end - rows.start);
        let can_do = match kind {
            Op::Read => self.states.is_in_sync(member, offset, length),
            _ => !self.states.is_failed(member),
        };
        if !can_do {
            self.end_stripe_io(key, ColumnRows { column, rows }, kind, Err(IoError::Gone));
            return None;
        }
        let is_data = column < op.stripe.data;
        let strip =
            if is_data { u64::from(column) * op.stripe.strip_bytes + rows.start } else { 0 };
        let volume_offset = op.stripe.volume_offset + strip;
        let request = self.requests.get(op.extents[0].request).request;
        let io = MemberIo {
            id: IoId(0),
            request: request.id,
            member,
            op: kind,
            purpose,
            offset,
            length,
            volume_offset,
            stream: request.stream,
            background: request.background,
            role: ReadRole::Stripe,
            submitted_at: now,
        };
        Some(self.hand_out(io, Owner::Stripe(key, column)))
    }

    /// Handles the end of a member I/O of an operation.
    pub(super) fn on_stripe_io(
        &mut self,
        key: StripeKey,
        column: u8,
        io: &MemberIo,
        result: Result<(), IoError>,
    ) {
        let (_, start) = self.layout.map().column(&self.stripes().ops.get(key).stripe, column);
        let rows = io.offset - start..io.offset - start + io.length;
        self.end_stripe_io(key, ColumnRows { column, rows }, io.op, result);
    }

    fn end_stripe_io(
        &mut self,
        key: StripeKey,
        place: ColumnRows,
        kind: Op,
        result: Result<(), IoError>,
    ) {
        let op = self.stripes_mut().ops.get_mut(key);
        op.pending -= 1;
        match (result, kind) {
            (Ok(()), _) => {}
            (Err(error), Op::Read) => {
                op.needs_plan = true;
                op.lost.insert(place.column);
                if error == IoError::Medium {
                    op.spoiled.insert(place.column);
                }
            }
            (Err(_), _) => op.unwritten.push(place),
        }
        match op {
            StripeOp { pending: 0, is_writing: true, .. } => self.end_window(key),
            StripeOp { pending: 0, needs_plan: true, .. } => self.plan_stripe(key),
            StripeOp { pending: 0, .. } => self.compute_stripe(key),
            _ => {}
        }
    }

    /// Computes what is written, or given to the request, from what was read.
    pub(super) fn compute_stripe(&mut self, key: StripeKey) {
        let op = self.stripes().ops.get(key);
        let (work, count) = (op.work, op.plans.len());
        for index in 0..count {
            let RowPlan { rows, arithmetic, writes, .. } =
                self.stripes().ops.get(key).plans[index].clone();
            let local = self.local_rows(key, &rows);
            let recovers = match arithmetic {
                Arithmetic::Recover { missing, wanted } => Some((missing, wanted)),
                Arithmetic::Verify(missing) if !missing.is_empty() => Some((missing, missing)),
                _ => None,
            };
            if let Some((missing, wanted)) = recovers {
                let (missing, wanted) = (missing.bits(), wanted.bits());
                self.add_step(key, || StripeStep::Recover { rows: local.clone(), missing, wanted });
            }
            match work {
                StripeWork::Write => self.add_write_steps(key, &rows, arithmetic, writes),
                StripeWork::Read => self.add_deliveries(key, &rows),
                _ if arithmetic == Arithmetic::Compute => {
                    self.add_step(key, || StripeStep::Compute(local));
                }
                _ if matches!(arithmetic, Arithmetic::Verify(_))
                    && !self.stripes().is_simulated =>
                {
                    // What it finds continues the operation.
                    return self.add_step(key, || StripeStep::Verify(local));
                }
                _ => {}
            }
        }
        self.write_stripe(key);
    }

    /// The steps that bring the data of a write into the buffer, and the parities up to date.
    fn add_write_steps(
        &mut self,
        key: StripeKey,
        rows: &Range<u64>,
        arithmetic: Arithmetic,
        writes: ColumnSet,
    ) {
        if self.stripes().is_simulated {
            return;
        }
        let op = self.stripes().ops.get(key);
        let data = op.stripe.data;
        let parities = [writes.contains(data), data < 63 && writes.contains(data + 1)];
        for data in self.request_parts(key, rows) {
            self.add_step(key, || match arithmetic {
                Arithmetic::Update => StripeStep::Update { data, parities },
                _ => StripeStep::Load(data),
            });
        }
        if matches!(arithmetic, Arithmetic::Compute | Arithmetic::Recover { .. }) {
            let local = self.local_rows(key, rows);
            self.add_step(key, || StripeStep::Compute(local));
        }
    }

    /// The steps that give the request its data.
    fn add_deliveries(&mut self, key: StripeKey, rows: &Range<u64>) {
        if self.stripes().is_simulated {
            return;
        }
        for data in self.request_parts(key, rows) {
            self.add_step(key, || StripeStep::Deliver(data));
        }
    }

    /// The data of each extent in some rows, and their places in the buffer.
    fn request_parts(&self, key: StripeKey, rows: &Range<u64>) -> Vec<RequestRows> {
        let op = self.stripes().ops.get(key);
        let part = |extent: &StripeExtent| {
            let ColumnRows { column, rows: extent_rows } = &extent.place;
            let within = extent_rows.start.max(rows.start)..extent_rows.end.min(rows.end);
            let strip = u64::from(*column) * op.stripe.strip_bytes;
            (!within.is_empty()).then(|| RequestRows {
                request: self.requests.get(extent.request).request.id,
                volume_offset: op.stripe.volume_offset + strip + within.start,
                place: BufferRows { column: *column, rows: self.local_rows(key, &within) },
            })
        };
        op.extents.iter().filter_map(part).collect()
    }

    /// Rows as they are counted in the buffer.
    pub(super) fn local_rows(&self, key: StripeKey, rows: &Range<u64>) -> Range<u64> {
        let first = self.stripes().ops.get(key).rows.start;
        rows.start - first..rows.end - first
    }

    /// Writes what was computed.
    pub(super) fn write_stripe(&mut self, key: StripeKey) {
        let is_read_only = self.options.is_read_only;
        let op = self.stripes_mut().ops.get_mut(key);
        op.is_writing = true;
        let writes = match is_read_only {
            true => Vec::new(),
            false => joined(&op.plans, |plan| plan.writes),
        };
        let purpose = match op.work {
            StripeWork::Write => Purpose::User,
            StripeWork::Read | StripeWork::Scrub | StripeWork::Repair => Purpose::Repair,
            StripeWork::Rebuild(_) => Purpose::Rebuild,
        };
        match writes.is_empty() {
            true => self.end_window(key),
            false => self.queue_stripe_ios(key, writes, Op::Write, purpose),
        }
    }

    pub(super) fn queue_stripe_ios(
        &mut self,
        key: StripeKey,
        places: Vec<ColumnRows>,
        kind: Op,
        purpose: Purpose,
    ) {
        let op = self.stripes_mut().ops.get_mut(key);
        op.pending = places.len() as u32;
        (op.ios, op.kind, op.purpose) = (places, kind, purpose);
        let count = op.ios.len() as u16;
        for index in 0..count {
            self.work.push_back(Work::StripeIo { op: key, index });
        }
    }

    pub(super) fn add_step(&mut self, key: StripeKey, step: impl FnOnce() -> StripeStep) {
        let stripes = self.stripes_mut();
        if !stripes.is_simulated {
            stripes.steps.push_back((StripeBuffer(key.slot()), step()));
        }
    }

    pub(super) fn stripes(&self) -> &Stripes {
        self.stripes.as_deref().expect("the volume has parity")
    }

    pub(super) fn stripes_mut(&mut self) -> &mut Stripes {
        self.stripes.as_deref_mut().expect("the volume has parity")
    }
}
