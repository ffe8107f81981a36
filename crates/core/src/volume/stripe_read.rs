//! Reads of a volume with parity: each column from its member, or recovered from others.
//!
//! The pieces of a request in one full stripe are decided together. If all of them can and should
//! be read from their members, they are, without a lock. Else they are one operation on the stripe,
//! under the lock of its rows: what it reads for one of them is read for all. A policy that
//! reconstructs is asked where there are more columns than it takes; all other policies are never
//! asked, since there is one copy of each block.

use super::column_rows::ColumnRows;
use super::gate::Gate;
use super::keys::{PieceKey, RequestKey};
use super::piece::Piece;
use super::stripe_ops::{StripeExtent, StripeOp, StripeWork, rows_of};
use super::target::PlanTarget;
use super::{TargetIo, Volume, Work, choice};
use crate::column_set::ColumnSet;
use crate::geometry::{FullStripe, PARITY_WIDTH_MAX};
use crate::io::{MemberIo, Op, Purpose, ReadRole, RequestKind};
use crate::member::MemberIndex;
use crate::policy::{Ctx, Mirror, StripeRead};
use crate::units::Nanos;
use std::ops::Range;

impl<G: Gate> Volume<G> {
    /// Finds out whether the policy is to be asked which columns a read leaves out.
    pub(super) fn note_reconstruction(&mut self) {
        let asks_policy = self.decider.policy.reconstructs();
        if let Some(stripes) = &mut self.stripes {
            stripes.asks_policy = asks_policy;
        }
    }

    /// Cuts a read into pieces, one for each strip.
    pub(super) fn cut_into_strips(&mut self, key: RequestKey, mut range: Range<u64>) {
        while !range.is_empty() {
            let plan = self.layout.plan(range.start, range.end - range.start);
            range.start += plan.length;
            let piece = self.requests.add_piece(Piece::new(key, RequestKind::Read, plan));
            self.work.push_back(Work::ReadStrip(piece));
        }
    }

    /// Reads a piece from its member. If there may be a reason to do otherwise, it is decided
    /// together with the next pieces of the same request and stripe.
    pub(super) fn read_strip(&mut self, key: PieceKey, now: Nanos) -> Option<MemberIo> {
        let piece = self.requests.piece(key);
        let needs_decision = self.stripes().asks_policy && !piece.is_decided;
        match self.can_read_strip(piece) && !needs_decision {
            true => Some(self.issue_strip(key, now)),
            false => self.read_strips(key, now),
        }
    }

    /// Reads a piece, which its member could not give, from the other members of its stripe.
    pub(super) fn reconstruct(&mut self, key: PieceKey) {
        let piece: Piece = *self.requests.piece(key);
        let (stripe, extent) = self.extent_of(&piece);
        let column = ColumnSet::one(extent.place.column);
        let mut op = StripeOp::new(StripeWork::Read, stripe, vec![extent]);
        if !piece.failed.is_empty() {
            op.lost = column;
        }
        if !piece.spoiled.is_empty() {
            op.spoiled = column;
        }
        self.read_by_operation(&[key], op);
    }

    fn issue_strip(&mut self, key: PieceKey, now: Nanos) -> MemberIo {
        self.requests.piece_mut(key).pending = 1;
        let (op, purpose, role) = (Op::Read, Purpose::User, ReadRole::Only);
        self.issue(TargetIo { piece: key, target: PlanTarget::FIRST, op, purpose, role }, now)
    }

    /// Returns true if the member of a piece has its data and is in no back-off.
    fn can_read_strip(&self, piece: &Piece) -> bool {
        let plan = &piece.plan;
        let (member, offset) = plan.location(PlanTarget::FIRST);
        self.states.all_eligible()
            || (self.states.is_in_sync(member, offset, plan.length)
                && !self.states.is_in_backoff(member))
    }

    /// Reads a piece and the next pieces of its request in the same stripe.
    fn read_strips(&mut self, first: PieceKey, now: Nanos) -> Option<MemberIo> {
        let piece = *self.requests.piece(first);
        let (stripe, extent) = self.extent_of(&piece);
        let (mut keys, mut extents) = (vec![first], vec![extent]);
        let end = stripe.volume_offset + stripe.length();
        while let Some(&Work::ReadStrip(key)) = self.work.front() {
            let next = *self.requests.piece(key);
            if next.request != piece.request
                || !(piece.plan.offset..end).contains(&next.plan.offset)
            {
                break;
            }
            self.work.pop_front();
            keys.push(key);
            extents.push(self.extent_of(&next).1);
        }
        let wanted = ColumnSet::of(extents.iter().map(|extent| extent.place.column));
        let left_out = match self.stripes().asks_policy {
            true => self.columns_to_leave_out(&piece, &stripe, &rows_of(&extents), wanted, now),
            false => ColumnSet::default(),
        };
        let can_read = keys.iter().all(|key| self.can_read_strip(self.requests.piece(*key)));
        if can_read && wanted.and(left_out).is_empty() {
            for &key in &keys {
                self.requests.piece_mut(key).is_decided = true;
            }
            // A member may change its state before the others are handed out.
            keys[1..].iter().rev().for_each(|key| self.work.push_front(Work::ReadStrip(*key)));
            return Some(self.issue_strip(first, now));
        }
        let mut op = StripeOp::new(StripeWork::Read, stripe, extents);
        op.left_out = left_out;
        self.read_by_operation(&keys, op);
        None
    }

    /// Asks the policy which columns a read leaves out.
    fn columns_to_leave_out(
        &mut self,
        piece: &Piece,
        stripe: &FullStripe,
        rows: &Range<u64>,
        wanted: ColumnSet,
        now: Nanos,
    ) -> ColumnSet {
        let eligible = self.eligible_columns(stripe, rows);
        let spare = eligible.count().saturating_sub(stripe.data.into());
        if spare == 0 {
            return ColumnSet::default();
        }
        let nowhere = Mirror { member: MemberIndex(0), offset: 0, copy: 0 };
        let mut places = [nowhere; PARITY_WIDTH_MAX];
        let columns = &mut places[..stripe.columns().into()];
        for (copy, place) in (0..).zip(columns.iter_mut()) {
            let (member, start) = self.layout.map().column(stripe, copy);
            *place = Mirror { member, offset: start + rows.start, copy };
        }
        let request = &self.requests.get(piece.request).request;
        let read = StripeRead {
            offset: piece.plan.offset,
            length: rows.end - rows.start,
            stream: request.stream,
            background: request.background,
            wanted,
            eligible,
            spare,
        };
        self.decider.choices += 1;
        let ctx = &mut Ctx { now, rng: &mut self.decider.rng };
        let left_out = self.decider.policy.leave_out(&read, columns, self.states.members(), ctx);
        choice::check_left_out(left_out, &read);
        left_out
    }

    /// The columns whose members are in sync in some rows, and in no back-off.
    fn eligible_columns(&self, stripe: &FullStripe, rows: &Range<u64>) -> ColumnSet {
        let in_sync = self.in_sync_columns(stripe, rows);
        if self.states.all_eligible() {
            return in_sync;
        }
        let member = |column| self.layout.map().column(stripe, column).0;
        ColumnSet::of(in_sync.iter().filter(|it| !self.states.is_in_backoff(member(*it))))
    }

    /// Replaces pieces of a request by an operation on their stripe.
    fn read_by_operation(&mut self, keys: &[PieceKey], op: StripeOp) {
        for &key in keys {
            self.requests.remove_piece(key);
        }
        self.add_stripe_op(op);
    }

    /// The full stripe of a piece, and the part of the request that it is there.
    fn extent_of(&self, piece: &Piece) -> (FullStripe, StripeExtent) {
        let offset = piece.plan.offset;
        let stripe = self.full_stripe(offset);
        let within = offset - stripe.volume_offset;
        let column = (within / stripe.strip_bytes) as u8;
        let start = within % stripe.strip_bytes;
        let place = ColumnRows { column, rows: start..start + piece.plan.length };
        (stripe, StripeExtent { request: piece.request, place })
    }
}
