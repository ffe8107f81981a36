//! Requests to a volume with parity: how they become operations on full stripes.

use super::column_rows::ColumnRows;
use super::gate::Gate;
use super::keys::{RequestKey, StripeKey};
use super::row_plan::RmwLevel;
use super::stripe_ops::{StripeExtent, StripeOp, StripeWork};
use super::{Volume, Work};
use crate::geometry::FullStripe;
use crate::io::{Request, RequestKind};
use crate::member::MemberIndex;
use std::ops::Range;

impl<G: Gate> Volume<G> {
    /// Chooses when a write updates the parities of a stripe rather than computing them.
    pub fn with_rmw_level(mut self, level: RmwLevel) -> Volume<G> {
        if let Some(stripes) = &mut self.stripes {
            stripes.rmw_level = level;
        }
        self
    }

    /// Asks for no steps on buffers of stripes: for an executor without data.
    pub fn without_data(mut self) -> Volume<G> {
        if let Some(stripes) = &mut self.stripes {
            stripes.is_simulated = true;
        }
        self
    }

    /// Cuts a read into pieces, one for each strip, and a write or scrub into operations on the
    /// stripes that it touches. A discard does nothing: members would return anything for it,
    /// and the parities would no longer match.
    pub(super) fn cut_into_stripes(&mut self, key: RequestKey, request: &Request) {
        let (mut offset, end) = (request.offset, request.offset + request.length);
        if request.kind == RequestKind::Read {
            return self.cut_into_strips(key, offset..end);
        }
        while offset < end && request.kind != RequestKind::Discard {
            let stripe = self.full_stripe(offset);
            let part = offset..end.min(stripe.volume_offset + stripe.length());
            offset = part.end;
            match request.kind {
                RequestKind::Write => self.add_stripe_write(key, stripe, part, request.background),
                RequestKind::RepairStripes => {
                    self.add_whole_stripe(key, StripeWork::Repair, stripe);
                }
                RequestKind::Scrub => self.add_whole_stripe(key, StripeWork::Scrub, stripe),
                kind => unreachable!("{kind:?} of a volume with parity"),
            }
        }
    }

    /// Cuts the rebuild of a range of a member into operations on the stripes that it touches.
    pub(super) fn cut_rebuild_into_stripes(
        &mut self,
        key: RequestKey,
        member: MemberIndex,
        mut range: Range<u64>,
    ) {
        while !range.is_empty() {
            let at = self.layout.map().column_at(member, range.start);
            let (stripe, column) = at.expect("a member is allocated without holes");
            let length = (stripe.strip_bytes - column.offset).min(range.end - range.start);
            range.start += length;
            let rows = column.offset..column.offset + length;
            let place = ColumnRows { column: column.number, rows };
            let extents = vec![StripeExtent { request: key, place }];
            self.requests.get_mut(key).pieces_left += 1;
            self.add_stripe_op(StripeOp::new(StripeWork::Rebuild(column.number), stripe, extents));
        }
    }

    pub(super) fn full_stripe(&self, offset: u64) -> FullStripe {
        self.layout.map().full_stripe(offset).expect("the volume has parity")
    }

    fn add_whole_stripe(&mut self, request: RequestKey, work: StripeWork, stripe: FullStripe) {
        let place = ColumnRows { column: 0, rows: 0..stripe.strip_bytes };
        self.requests.get_mut(request).pieces_left += 1;
        self.add_stripe_op(StripeOp::new(work, stripe, vec![StripeExtent { request, place }]));
    }

    /// Adds a write of a part of a stripe, to one that has not started if there is one.
    fn add_stripe_write(
        &mut self,
        request: RequestKey,
        stripe: FullStripe,
        part: Range<u64>,
        background: bool,
    ) {
        let mut extents = Vec::with_capacity(stripe.data.into());
        let mut offset = part.start;
        while offset < part.end {
            let within = offset - stripe.volume_offset;
            let start = within % stripe.strip_bytes;
            let length = (stripe.strip_bytes - start).min(part.end - offset);
            let column = (within / stripe.strip_bytes) as u8;
            let place = ColumnRows { column, rows: start..start + length };
            extents.push(StripeExtent { request, place });
            offset += length;
        }
        self.requests.get_mut(request).pieces_left += extents.len() as u32;
        if self.stripes_mut().join(&stripe, background, &extents) {
            return;
        }
        let op = StripeOp { background, ..StripeOp::new(StripeWork::Write, stripe, extents) };
        let key = self.add_stripe_op(op);
        self.stripes_mut().joinable.push_back((stripe.volume_offset, key));
    }

    /// Adds an operation; it starts when its rows are free.
    pub(super) fn add_stripe_op(&mut self, op: StripeOp) -> StripeKey {
        let stripes = self.stripes_mut();
        let range = stripes.lock(&op.stripe, &op.rows);
        let key = stripes.ops.insert(op);
        if stripes.locks.acquire(range, key) {
            self.work.push_back(Work::StartStripe(key));
        }
        key
    }
}
