//! The life of an operation on a full stripe: started, read, computed, written, ended.
//!
//! A read that fails makes a new plan without the column. A write that fails fails its member, as
//! in md, and the parities have what it missed. If more members are missing then than there are
//! parities, the request fails, and nothing is recovered in these rows any more: what a write left
//! half done is never read. A column that could be read is rewritten, and a member rebuilt, only
//! where the volume can do without that: a member whose rewrite fails stays then, as bad as it was.

use super::column_rows::{ColumnRows, joined};
use super::operation::{Extent, StripeWork};
use super::row_plan::{Arithmetic, RowPlan};
use super::steps::{BufferRows, RequestRows, StripeBuffer, StripeStep};
use super::{StripeContext, StripeKey, StripeOwner, StripeTask, Stripes};
use crate::column_set::ColumnSet;
use crate::io::{IoError, IoId, MemberIo, Op, Purpose, ReadRole, VolumeError};
use crate::slab::SlabKey;
use crate::units::Nanos;
use std::ops::Range;

impl Stripes {
    /// Starts an operation whose rows are locked for it.
    pub(super) fn start(&mut self, key: StripeKey, context: &mut StripeContext<'_>) {
        let operation = self.operations.get_mut(key);
        assert!(operation.todo.is_empty(), "an operation starts once");
        operation.todo = vec![operation.rows.clone()];
        let (stripe, rows_bytes) = (operation.stripe, operation.rows_bytes());
        if operation.kind == StripeWork::Write {
            let at = self.joinable.iter().position(|(_, other)| *other == key);
            self.joinable.remove(at.expect("a write may be joined until it starts"));
        }
        self.add_step(key, || StripeStep::Begin { stripe: Box::new(stripe), rows_bytes });
        self.plan(key, context);
    }

    /// Queues the I/Os of an operation.
    pub(super) fn queue_ios(
        &mut self,
        key: StripeKey,
        ios: Vec<ColumnRows>,
        (op, purpose): (Op, Purpose),
        context: &mut StripeContext<'_>,
    ) {
        let operation = self.operations.get_mut(key);
        assert_eq!(operation.pending, 0, "the I/O that was queued before ended");
        operation.pending = ios.len() as u32;
        for index in 0..ios.len() as u16 {
            context.queue(StripeTask::Issue { operation: key, index });
        }
        (operation.ios, operation.op, operation.purpose) = (ios, op, purpose);
    }

    /// Hands out a member I/O of an operation; `None` if its member cannot take it any more.
    pub(super) fn issue(
        &mut self,
        key: StripeKey,
        index: u16,
        now: Nanos,
        context: &mut StripeContext<'_>,
    ) -> Option<(MemberIo, StripeOwner)> {
        let operation = self.operations.get(key);
        let stripe = &operation.stripe;
        let place = operation.ios[usize::from(index)].clone();
        let (op, purpose) = (operation.op, operation.purpose);
        let (member, start) = context.map.column(stripe, place.column);
        let (offset, length) = (start + place.rows.start, place.rows.end - place.rows.start);
        assert!(place.rows.end <= stripe.strip_bytes, "an I/O stays within its strip: {place:?}");
        let can_do = match op {
            Op::Read => context.states.is_in_sync(member, offset, length),
            _ => !context.states.is_failed(member),
        };
        if !can_do {
            self.end_io(key, place, op, Err(IoError::Gone), context);
            return None;
        }
        let is_data = place.column < stripe.data;
        let within = u64::from(place.column) * stripe.strip_bytes + place.rows.start;
        let client = operation.extents[0].client;
        let io = MemberIo {
            id: IoId(0),
            request: client.id,
            member,
            op,
            purpose,
            offset,
            length,
            volume_offset: stripe.volume_offset + if is_data { within } else { 0 },
            stream: client.stream,
            background: client.background,
            role: ReadRole::Stripe,
            submitted_at: now,
        };
        Some((io, StripeOwner::Operation(key, place.column)))
    }

    /// Handles the end of a member I/O of an operation.
    pub(super) fn end_io(
        &mut self,
        key: StripeKey,
        place: ColumnRows,
        op: Op,
        result: Result<(), IoError>,
        context: &mut StripeContext<'_>,
    ) {
        let operation = self.operations.get_mut(key);
        assert!(operation.pending > 0, "an I/O of an operation ends once: {place:?}");
        assert_eq!(operation.op, op, "the I/Os in flight are of one kind");
        operation.pending -= 1;
        match (result, op) {
            (Ok(()), _) => {}
            (Err(error), Op::Read) => {
                operation.needs_plan = true;
                operation.lost.insert(place.column);
                if error == IoError::Medium {
                    operation.spoiled.insert(place.column);
                }
            }
            (Err(_), _) => {
                let member = context.member(&operation.stripe, place.column);
                let is_write = operation.kind == StripeWork::Write;
                if is_write || context.states.can_fail(member) {
                    context.fail_member(member);
                } else if operation.kind == StripeWork::Rebuild(place.column) {
                    operation.failures.push((place.rows, VolumeError::Unwritable));
                }
            }
        }
        match (operation.pending, op) {
            (1.., _) => {}
            (0, Op::Read) if operation.needs_plan => self.plan(key, context),
            (0, Op::Read) => self.compute(key, context),
            (0, _) => self.end_window(key, context),
        }
    }

    /// Computes what is written, or given to the request, from what was read; then writes it.
    pub(super) fn compute(&mut self, key: StripeKey, context: &mut StripeContext<'_>) {
        let operation = self.operations.get(key);
        let purpose = match operation.kind {
            StripeWork::Write => Purpose::User,
            StripeWork::Read | StripeWork::Scrub => Purpose::Repair,
            StripeWork::Rebuild(_) => Purpose::Rebuild,
        };
        let writes = match context.is_read_only {
            true => Vec::new(),
            false => joined(&operation.plans, |plan| plan.writes),
        };
        if !self.is_simulated {
            for plan in operation.plans.clone() {
                self.add_steps(key, &plan);
            }
        }
        match writes.is_empty() {
            true => self.end_window(key, context),
            false => self.queue_ios(key, writes, (Op::Write, purpose), context),
        }
    }

    /// Adds the steps of some rows: recover columns, bring the data of a write into the buffer and
    /// the parities up to date, or give a request its data.
    fn add_steps(&mut self, key: StripeKey, plan: &RowPlan) {
        let RowPlan { rows, arithmetic, writes, .. } = plan;
        let operation = self.operations.get(key);
        let (kind, data) = (operation.kind, operation.stripe.data);
        let local = operation.local_rows(rows);
        let parts = self.request_parts(key, rows);
        if let Arithmetic::Recover { missing, wanted } = arithmetic {
            let (rows, missing, wanted) = (local.clone(), missing.bits(), wanted.bits());
            self.add_step(key, || StripeStep::Recover { rows, missing, wanted });
        }
        match kind {
            StripeWork::Read => {
                for part in parts {
                    self.add_step(key, || StripeStep::Deliver(part));
                }
            }
            StripeWork::Write => {
                let parities = [writes.contains(data), data < 63 && writes.contains(data + 1)];
                for data in parts {
                    self.add_step(key, || match arithmetic {
                        Arithmetic::Update => StripeStep::Update { data, parities },
                        _ => StripeStep::Load(data),
                    });
                }
                if matches!(arithmetic, Arithmetic::Compute | Arithmetic::Recover { .. }) {
                    self.add_step(key, || StripeStep::Compute(local));
                }
            }
            StripeWork::Rebuild(_) | StripeWork::Scrub => {}
        }
    }

    /// The data of each extent in some rows, and their places in the buffer.
    fn request_parts(&self, key: StripeKey, rows: &Range<u64>) -> Vec<RequestRows> {
        let operation = self.operations.get(key);
        let part = |Extent { client, place }: &Extent| {
            let within = place.rows.start.max(rows.start)..place.rows.end.min(rows.end);
            let strip = u64::from(place.column) * operation.stripe.strip_bytes;
            (!within.is_empty()).then(|| RequestRows {
                request: client.id,
                request_offset: client.begin,
                volume_offset: operation.stripe.volume_offset + strip + within.start,
                place: BufferRows { column: place.column, rows: operation.local_rows(&within) },
            })
        };
        operation.extents.iter().filter_map(part).collect()
    }

    fn add_step(&mut self, key: StripeKey, step: impl FnOnce() -> StripeStep) {
        if !self.is_simulated {
            self.steps.push_back((StripeBuffer(key.slot()), step()));
        }
    }

    /// Ends the rows that were done, and goes on with the next.
    pub(super) fn end_window(&mut self, key: StripeKey, context: &mut StripeContext<'_>) {
        let operation = self.operations.get_mut(key);
        assert_eq!(operation.pending, 0, "rows end when none of their I/O is in flight");
        if operation.kind == StripeWork::Write {
            for RowPlan { rows, .. } in std::mem::take(&mut operation.plans) {
                let stripe = &operation.stripe;
                let in_sync = context.in_sync_columns(stripe, &rows).count();
                if in_sync < stripe.data.into() {
                    operation.failures.push((rows, VolumeError::Unwritable));
                }
            }
        }
        operation.todo.pop();
        (operation.lost, operation.spoiled) = (ColumnSet::default(), ColumnSet::default());
        operation.has_retried = false;
        match operation.todo.is_empty() {
            true => self.end(key, context),
            false => context.queue(StripeTask::NextRows(key)),
        }
    }

    /// Ends an operation: frees its rows and ends its part of the requests.
    fn end(&mut self, key: StripeKey, context: &mut StripeContext<'_>) {
        self.add_step(key, || StripeStep::End);
        let operation = self.operations.remove(key).expect("an operation ends once");
        let lock = self.lock(&operation.stripe, &operation.rows);
        for granted in self.locks.release(lock) {
            context.queue(StripeTask::Start(granted));
        }
        for extent in &operation.extents {
            self.ended.push_back((extent.client.key, operation.result(extent)));
        }
    }
}
