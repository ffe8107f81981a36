//! The life of an operation on a full stripe: planned, read, computed, written, ended.
//!
//! An operation holds the lock of its stripe from its start to its end, so nothing else writes to
//! the stripe or recovers from it meanwhile. Reads of data that need no other column take no lock.
//!
//! A read that fails makes a new plan without the column. A write that fails fails its member, as
//! with mirrors, and the parities have what it missed; if the volume cannot do without the member,
//! the write fails and the stripe is *torn*: its parities may not match its data, so nothing is
//! recovered from them until they are written again.

use super::column_set::ColumnSet;
use super::durability::OwnIo;
use super::keys::{IoKey, PieceKey, StripeKey};
use super::row_plan::{Access, Arithmetic, ColumnRows, ColumnStates, RowPlan, joined, segments};
use super::stripe_ops::{StripeIo, StripeOp, StripeWork, Stripes};
use super::stripe_steps::{
    BufferRows, RequestRows, StripeBuffer, StripePlace, StripeStep, StripeVerdict,
};
use super::target::PlanTarget;
use super::{InFlightIo, Volume, Work};
use crate::geometry::FullStripe;
use crate::io::{IoError, IoId, MemberIo, Op, Purpose, ReadRole, VolumeError};
use crate::slab::SlabKey;
use crate::units::{Nanos, SECTOR_BYTES};
use std::ops::Range;

impl Volume {
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
        let in_flight = self.in_flight.get(IoKey::of(io.id));
        let key = StripeKey::from_slot(in_flight.piece.slot());
        let op = self.stripes().ops.get(key);
        let column = in_flight.target.index() as u8;
        let (_, start) = self.layout.map().column(&op.stripe, column);
        let row = io.offset - start - op.rows.start;
        let rows_bytes = op.rows.end - op.rows.start;
        let offset = u64::from(column) * rows_bytes + row;
        StripePlace { buffer: StripeBuffer(key.slot()), offset }
    }

    /// Takes the verdict on a stripe that [`StripeStep::Verify`] asked for.
    pub fn on_verified(&mut self, buffer: StripeBuffer, verdict: StripeVerdict) {
        let key = StripeKey::from_slot(buffer.0);
        let op = self.stripes_mut().ops.get_mut(key);
        match verdict {
            StripeVerdict::Consistent => {}
            StripeVerdict::Corrected(columns) => {
                let columns = ColumnSet::from_bits(columns);
                op.plans.iter_mut().for_each(|plan| plan.writes = columns);
                let stripe = op.stripe;
                for column in columns.iter() {
                    let (member, _) = self.layout.map().column(&stripe, column);
                    self.states.members_mut().get_mut(member).errors += 1;
                }
            }
            StripeVerdict::Inconsistent => op.result = Err(VolumeError::Inconsistent),
        }
        self.write_stripe(key);
    }

    /// Starts an operation whose stripe is locked for it.
    pub(super) fn start_stripe(&mut self, key: StripeKey) {
        let stripes = self.stripes_mut();
        let op = stripes.ops.get_mut(key);
        op.has_started = true;
        let (stripe, rows_bytes) = (op.stripe, op.rows.end - op.rows.start);
        if stripes.joinable.get(&stripe.volume_offset) == Some(&key) {
            stripes.joinable.remove(&stripe.volume_offset);
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
        let StripeIo { place: ColumnRows { column, rows }, op: kind, purpose } =
            op.ios[usize::from(index)].clone();
        let (member, start) = self.layout.map().column(&op.stripe, column);
        let (offset, length) = (start + rows.start, rows.end - rows.start);
        let can_do = match kind {
            Op::Read => self.states.is_in_sync(member, offset, length),
            _ => !self.states.is_failed(member),
        };
        if !can_do {
            self.end_stripe_io(key, column, kind, Err(IoError::Gone));
            return None;
        }
        let is_data = column < op.stripe.data;
        let strip =
            if is_data { u64::from(column) * op.stripe.strip_bytes + rows.start } else { 0 };
        let volume_offset = op.stripe.volume_offset + strip;
        let request = self.requests.get(op.extents[0].request).request;
        self.ios_issued = self.ios_issued.wrapping_add(1);
        let count = u64::from(self.ios_issued) << 32;
        let policy_number = self.policy_number;
        let in_flight = self.in_flight.insert_with(|slot| {
            let io = MemberIo {
                id: IoId(count | u64::from(slot.slot())),
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
            let (piece, target) = (PieceKey::from_slot(key.slot()), PlanTarget::new(column));
            let job = Some(OwnIo::Stripe);
            InFlightIo { io, piece, target, superseded: false, policy_number, job }
        });
        let io = in_flight.io;
        self.account_submission(&io, now);
        Some(io)
    }

    /// Takes the end of a member I/O of an operation.
    pub(super) fn on_stripe_io(
        &mut self,
        owner: PieceKey,
        target: PlanTarget,
        io: &MemberIo,
        result: Result<(), IoError>,
    ) {
        let key = StripeKey::from_slot(owner.slot());
        self.end_stripe_io(key, target.index() as u8, io.op, result);
    }

    fn end_stripe_io(&mut self, key: StripeKey, column: u8, kind: Op, result: Result<(), IoError>) {
        let op = self.stripes_mut().ops.get_mut(key);
        op.pending -= 1;
        match (result, kind) {
            (Ok(()), _) => {}
            (Err(error), Op::Read) => {
                op.needs_plan = true;
                op.lost.insert(column);
                if error == IoError::Medium {
                    op.spoiled.insert(column);
                }
            }
            (Err(_), _) => op.unwritten.insert(column),
        }
        match op {
            StripeOp { pending: 0, is_writing: true, .. } => self.end_window(key),
            StripeOp { pending: 0, needs_plan: true, .. } => self.plan_stripe(key),
            StripeOp { pending: 0, .. } => self.compute_stripe(key),
            _ => {}
        }
    }

    /// Plans the next rows of an operation, and reads what that takes.
    fn plan_stripe(&mut self, key: StripeKey) {
        let op = self.stripes().ops.get(key);
        let window = op.window();
        let mut plans = Vec::new();
        let covered = match op.work {
            StripeWork::Write => {
                segments(op.extents.iter().map(|extent| extent.place.clone()), &window)
            }
            _ => vec![(window, ColumnSet::default())],
        };
        for (rows, covered) in covered {
            let Some(access) = self.access(op, &rows, covered) else {
                return self.divide_or_fail(key);
            };
            let Access { reads, arithmetic, writes } = access;
            plans.push(RowPlan { rows, covered, reads, arithmetic, writes });
        }
        let reads = joined(&plans, |plan| plan.reads);
        let purpose = match op.work {
            StripeWork::Write | StripeWork::Read(_) => Purpose::User,
            StripeWork::Scrub => Purpose::Scrub,
            StripeWork::Rebuild(_) | StripeWork::Resync => Purpose::Rebuild,
        };
        let op = self.stripes_mut().ops.get_mut(key);
        (op.plans, op.needs_plan, op.is_writing) = (plans, false, false);
        match reads.is_empty() {
            true => self.compute_stripe(key),
            false => self.queue_stripe_ios(key, reads, Op::Read, purpose),
        }
    }

    /// What some rows of an operation take.
    fn access(&self, op: &StripeOp, rows: &Range<u64>, covered: ColumnSet) -> Option<Access> {
        let states = self.column_states(op, rows);
        match op.work {
            StripeWork::Write => states.write(covered, self.stripes().rmw_level),
            StripeWork::Read(column) => states.read(column),
            StripeWork::Scrub => states.scrub(),
            StripeWork::Resync => states.resync(),
            StripeWork::Rebuild(column) => {
                let one = ColumnSet::one(column);
                let others = ColumnStates { readable: states.readable.without(one), ..states };
                let access = others.recover(ColumnSet::default())?;
                let writes = access.writes.or(one.and(states.writable));
                Some(Access { writes, ..access })
            }
        }
    }

    fn column_states(&self, op: &StripeOp, rows: &Range<u64>) -> ColumnStates {
        let stripe = &op.stripe;
        let is_writable = |column: &u8| {
            let (member, _) = self.layout.map().column(stripe, *column);
            !self.states.is_failed(member)
        };
        let readable = self.in_sync_columns(stripe, rows);
        let all = ColumnSet::range(0..stripe.columns());
        let writable = match readable == all {
            true => all,
            false => ColumnSet::of(all.iter().filter(is_writable)),
        };
        ColumnStates {
            data: ColumnSet::range(0..stripe.data),
            parities: ColumnSet::range(stripe.data..stripe.columns()),
            readable: readable.without(op.lost),
            writable,
            spoiled: op.spoiled,
            has_parity: !self.stripes().torn.contains(&stripe.volume_offset),
        }
    }

    fn in_sync_columns(&self, stripe: &FullStripe, rows: &Range<u64>) -> ColumnSet {
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

    /// Computes what is written, or given to the request, from what was read.
    fn compute_stripe(&mut self, key: StripeKey) {
        let op = self.stripes().ops.get(key);
        let (work, count) = (op.work, op.plans.len());
        for index in 0..count {
            let RowPlan { rows, arithmetic, writes, .. } =
                self.stripes().ops.get(key).plans[index].clone();
            let local = self.local_rows(key, &rows);
            if let Arithmetic::Recover(missing) = arithmetic {
                let missing = missing.bits();
                self.add_step(key, || StripeStep::Recover { rows: local.clone(), missing });
            }
            match work {
                StripeWork::Write => self.add_write_steps(key, &rows, arithmetic, writes),
                StripeWork::Read(column) => self.add_delivery(key, column, &rows),
                _ if arithmetic == Arithmetic::Compute => {
                    self.add_step(key, || StripeStep::Compute(local));
                }
                _ if arithmetic == Arithmetic::Verify && !self.stripes().is_simulated => {
                    // The verdict continues the operation.
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
        for index in 0..op.extents.len() {
            let op = self.stripes().ops.get(key);
            let place = &op.extents[index].place;
            let within = place.rows.start.max(rows.start)..place.rows.end.min(rows.end);
            if within.is_empty() {
                continue;
            }
            let data = self.request_rows(key, index, &within);
            self.add_step(key, || match arithmetic {
                Arithmetic::Update => StripeStep::Update { data, parities },
                _ => StripeStep::Load(data),
            });
        }
        if matches!(arithmetic, Arithmetic::Compute | Arithmetic::Recover(_)) {
            let local = self.local_rows(key, rows);
            self.add_step(key, || StripeStep::Compute(local));
        }
    }

    fn add_delivery(&mut self, key: StripeKey, column: u8, rows: &Range<u64>) {
        debug_assert_eq!(self.stripes().ops.get(key).extents[0].place.column, column);
        let data = self.request_rows(key, 0, rows);
        self.add_step(key, || StripeStep::Deliver(data));
    }

    /// A part of the data of an extent, and its place in the buffer.
    fn request_rows(&self, key: StripeKey, extent: usize, rows: &Range<u64>) -> RequestRows {
        let op = self.stripes().ops.get(key);
        let extent = &op.extents[extent];
        let column = extent.place.column;
        let strip = u64::from(column) * op.stripe.strip_bytes;
        RequestRows {
            request: self.requests.get(extent.request).request.id,
            volume_offset: op.stripe.volume_offset + strip + rows.start,
            place: BufferRows { column, rows: self.local_rows(key, rows) },
        }
    }

    /// Rows as they are counted in the buffer.
    fn local_rows(&self, key: StripeKey, rows: &Range<u64>) -> Range<u64> {
        let first = self.stripes().ops.get(key).rows.start;
        rows.start - first..rows.end - first
    }

    /// Writes what was computed.
    fn write_stripe(&mut self, key: StripeKey) {
        let is_read_only = self.is_read_only;
        let op = self.stripes_mut().ops.get_mut(key);
        op.is_writing = true;
        let writes = match is_read_only {
            true => Vec::new(),
            false => joined(&op.plans, |plan| plan.writes),
        };
        let purpose = match op.work {
            StripeWork::Write => Purpose::User,
            StripeWork::Read(_) | StripeWork::Scrub => Purpose::Repair,
            StripeWork::Rebuild(_) | StripeWork::Resync => Purpose::Rebuild,
        };
        match writes.is_empty() {
            true => self.end_window(key),
            false => self.queue_stripe_ios(key, writes, Op::Write, purpose),
        }
    }

    fn queue_stripe_ios(
        &mut self,
        key: StripeKey,
        places: Vec<ColumnRows>,
        kind: Op,
        purpose: Purpose,
    ) {
        let op = self.stripes_mut().ops.get_mut(key);
        op.pending = places.len() as u32;
        op.ios = places.into_iter().map(|place| StripeIo { place, op: kind, purpose }).collect();
        let count = op.ios.len() as u16;
        for index in 0..count {
            self.work.push_back(Work::StripeIo { op: key, index });
        }
    }

    /// Divides rows that cannot be done together, or tries once more what could not be read: it may
    /// have been rewritten meanwhile. Fails the operation if neither helps.
    fn divide_or_fail(&mut self, key: StripeKey) {
        let op = self.stripes_mut().ops.get_mut(key);
        let window = op.window();
        let middle = ((window.start + window.end) / 2).next_multiple_of(SECTOR_BYTES);
        if !op.spoiled.is_empty() && middle < window.end {
            op.todo.pop();
            op.todo.extend([middle..window.end, window.start..middle]);
            (op.lost, op.spoiled) = (ColumnSet::default(), ColumnSet::default());
            return self.plan_stripe(key);
        }
        if !op.lost.is_empty() && !op.has_retried {
            (op.lost, op.spoiled) = (ColumnSet::default(), ColumnSet::default());
            op.has_retried = true;
            return self.plan_stripe(key);
        }
        let error = match op.work {
            StripeWork::Write => VolumeError::Unwritable,
            _ => VolumeError::Unreadable,
        };
        op.result = Err(error);
        self.end_stripe(key);
    }

    /// Ends the rows that were done, and goes on with the next.
    fn end_window(&mut self, key: StripeKey) {
        let op = self.stripes().ops.get(key);
        let (stripe, unwritten, work) = (op.stripe, op.unwritten, op.work);
        let parities = ColumnSet::range(stripe.data..stripe.columns());
        let needed = op.plans.iter().fold(parities, |all, plan| all.or(plan.covered));
        let mut can_go_on = true;
        for column in unwritten.iter() {
            let (member, _) = self.layout.map().column(&stripe, column);
            if self.states.can_fail(member) {
                self.fail_member(member);
            } else {
                // A column that was rewritten stays as bad as it was.
                can_go_on &= !needed.contains(column);
            }
        }
        let op = self.stripes().ops.get(key);
        let window = op.window();
        let in_sync = self.in_sync_columns(&stripe, &window).count();
        let missing = usize::from(stripe.columns()) - in_sync;
        let is_stored = can_go_on && missing <= usize::from(stripe.parities);
        let planned: u64 = op.plans.iter().map(|plan| plan.rows.end - plan.rows.start).sum();
        let is_whole = planned == stripe.strip_bytes;
        let is_computed = op.plans.iter().all(|plan| plan.arithmetic == Arithmetic::Compute);
        let writes_parity = matches!(work, StripeWork::Write | StripeWork::Resync)
            || (work == StripeWork::Scrub && is_computed);
        let stripes = self.stripes_mut();
        if writes_parity && !is_stored {
            stripes.torn.insert(stripe.volume_offset);
            stripes.ops.get_mut(key).result = Err(VolumeError::Unwritable);
            return self.end_stripe(key);
        }
        if writes_parity && is_whole && is_computed {
            stripes.torn.remove(&stripe.volume_offset);
        }
        let op = stripes.ops.get_mut(key);
        op.todo.pop();
        (op.lost, op.spoiled, op.unwritten) = Default::default();
        op.has_retried = false;
        match op.todo.is_empty() {
            true => self.end_stripe(key),
            false => self.plan_stripe(key),
        }
    }

    /// Ends an operation: frees its stripe and ends its part of the requests.
    fn end_stripe(&mut self, key: StripeKey) {
        self.add_step(key, || StripeStep::End);
        let stripes = self.stripes_mut();
        let op = stripes.ops.remove(key).expect("an operation ends once");
        assert_eq!(op.pending, 0, "an operation ends when none of its I/O is in flight");
        for granted in stripes.locks.release(op.range()) {
            self.work.push_back(Work::StartStripe(granted));
        }
        for extent in &op.extents {
            self.end_piece_of(extent.request, op.result);
        }
    }

    fn add_step(&mut self, key: StripeKey, step: impl FnOnce() -> StripeStep) {
        let stripes = self.stripes_mut();
        if !stripes.is_simulated {
            stripes.steps.push_back((StripeBuffer(key.slot()), step()));
        }
    }

    fn stripes(&self) -> &Stripes {
        self.stripes.as_deref().expect("the volume has parity")
    }

    fn stripes_mut(&mut self) -> &mut Stripes {
        self.stripes.as_deref_mut().expect("the volume has parity")
    }
}
