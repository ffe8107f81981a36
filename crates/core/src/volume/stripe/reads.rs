//! Reads of a volume with parity: each column from its member, or recovered from others.
//!
//! The parts of a request in one full stripe are decided together. If all of them can and should be
//! read from their members, they are, without a lock. Else they are one operation on the stripe,
//! under the lock of its rows: what it reads for one of them is read for all. A policy that
//! reconstructs is asked where there are more columns than it takes; all other policies are never
//! asked, since there is one copy of each block.

use super::column_rows::{ColumnRows, strips};
use super::operation::{Extent, StripeOperation, StripeWork, rows_of};
use super::{Client, RequestKey, StripeContext, StripeOwner, StripeTask, Stripes};
use crate::column_set::ColumnSet;
use crate::geometry::{FullStripe, PARITY_WIDTH_MAX};
use crate::io::{IoError, IoId, MemberIo, Op, Purpose, ReadRole};
use crate::member::MemberIndex;
use crate::policy::{Ctx, Mirror, StripeRead};
use crate::units::Nanos;
use crate::volume::Work;
use std::ops::Range;

/// The rest of a read in one full stripe that is to be handed out.
pub(super) struct StripRead {
    client: Client,
    range: Range<u64>,
    /// True if it was decided to read all of it from its members.
    is_decided: bool,
}

impl Stripes {
    /// Queues the read of a range of one full stripe, and returns the number of its strips.
    pub(super) fn queue_reads(
        &mut self,
        client: Client,
        range: Range<u64>,
        context: &mut StripeContext<'_>,
    ) -> u32 {
        let parts = strips(&context.full_stripe(range.start), &range).count() as u32;
        self.reads.push_back(StripRead { client, range, is_decided: false });
        context.queue(StripeTask::ReadStrips);
        parts
    }

    /// Reads the next strip from its member. If there may be a reason to do otherwise, all that is
    /// left of the read is decided together.
    pub(super) fn read_strips(
        &mut self,
        now: Nanos,
        context: &mut StripeContext<'_>,
    ) -> Option<(MemberIo, StripeOwner)> {
        let read = self.reads.pop_front().expect("each task has a read");
        let reconstructs = context.decider.policy.reconstructs();
        let needs_decision = reconstructs && !read.is_decided;
        if context.can_read_strip(&read.range) && !needs_decision {
            return Some(self.issue_strip(read, now, context));
        }
        let StripRead { client, range, .. } = read;
        let stripe = context.full_stripe(range.start);
        let places: Vec<ColumnRows> = strips(&stripe, &range).collect();
        let wanted = ColumnSet::of(places.iter().map(|place| place.column));
        let extents: Vec<Extent> =
            places.into_iter().map(|place| Extent { client, place }).collect();
        let left_out = match reconstructs {
            true => {
                let read = (client, range.start, rows_of(&extents));
                context.ask_columns_to_leave_out(&stripe, read, wanted, now)
            }
            false => ColumnSet::default(),
        };
        if wanted.and(left_out).is_empty() && context.can_read_strips(&range) {
            let decided = StripRead { client, range, is_decided: true };
            return Some(self.issue_strip(decided, now, context));
        }
        let read = StripeOperation::new(StripeWork::Read, stripe, extents);
        self.add(StripeOperation { left_out, ..read }, context);
        None
    }

    /// Reads the first strip of a read from its member. The rest is next, but not handed out yet: a
    /// member may change its state before.
    fn issue_strip(
        &mut self,
        mut read: StripRead,
        now: Nanos,
        context: &mut StripeContext<'_>,
    ) -> (MemberIo, StripeOwner) {
        let Client { key, id, stream, background, .. } = read.client;
        let offset = read.range.start;
        let mapped = context.map.map(offset, read.range.end - offset);
        let place = mapped.mirrors[0];
        read.range.start += mapped.length;
        if !read.range.is_empty() {
            self.reads.push_front(read);
            context.work.push_front(Work::Stripe(StripeTask::ReadStrips));
        }
        let io = MemberIo {
            id: IoId(0),
            request: id,
            member: place.member,
            op: Op::Read,
            purpose: Purpose::User,
            offset: place.offset,
            length: mapped.length,
            volume_offset: offset,
            stream,
            background,
            role: ReadRole::Only,
            submitted_at: now,
        };
        (io, StripeOwner::Strip(key))
    }

    /// Handles the end of a read of a strip: what its member could not give is recovered from the
    /// other members of its stripe.
    pub(super) fn on_strip_read(
        &mut self,
        key: RequestKey,
        io: &MemberIo,
        result: Result<(), IoError>,
        context: &mut StripeContext<'_>,
    ) {
        let Err(error) = result else { return self.ended.push_back((key, Ok(()))) };
        let stripe = context.full_stripe(io.volume_offset);
        let client = Client::of(key, &context.requests.get(key).request);
        let range = io.volume_offset..io.volume_offset + io.length;
        let extents: Vec<Extent> =
            strips(&stripe, &range).map(|place| Extent { client, place }).collect();
        assert_eq!(extents.len(), 1, "a read of a strip is within it");
        let lost = ColumnSet::one(extents[0].place.column);
        let is_spoiled = matches!(error, IoError::Medium | IoError::Checksum);
        let spoiled = if is_spoiled { lost } else { ColumnSet::default() };
        let read = StripeOperation::new(StripeWork::Read, stripe, extents);
        self.add(StripeOperation { lost, spoiled, ..read }, context);
    }
}

impl StripeContext<'_> {
    /// Returns true if the member of the first strip of a range has its data and is in no back-off.
    fn can_read_strip(&self, range: &Range<u64>) -> bool {
        self.states.all_eligible() || {
            let mapped = self.map.map(range.start, range.end - range.start);
            let Mirror { member, offset, .. } = mapped.mirrors[0];
            let is_in_sync = self.states.is_in_sync(member, offset, mapped.length);
            is_in_sync && !self.states.is_in_backoff(member)
        }
    }

    /// Returns true if each strip of a range can be read from its member.
    fn can_read_strips(&self, range: &Range<u64>) -> bool {
        let mut rest = range.clone();
        while !rest.is_empty() && self.can_read_strip(&rest) {
            rest.start += self.map.map(rest.start, rest.end - rest.start).length;
        }
        rest.is_empty()
    }

    fn ask_columns_to_leave_out(
        &mut self,
        stripe: &FullStripe,
        (client, offset, rows): (Client, u64, Range<u64>),
        wanted: ColumnSet,
        now: Nanos,
    ) -> ColumnSet {
        let eligible = self.in_sync_columns(stripe, &rows).and(self.columns_at_work(stripe));
        let spare = eligible.count().saturating_sub(stripe.data.into());
        if spare == 0 {
            return ColumnSet::default();
        }
        let nowhere = Mirror { member: MemberIndex(0), offset: 0, copy: 0 };
        let mut places = [nowhere; PARITY_WIDTH_MAX];
        let columns = &mut places[..stripe.columns().into()];
        for (copy, place) in (0..).zip(columns.iter_mut()) {
            let (member, start) = self.map.column(stripe, copy);
            *place = Mirror { member, offset: start + rows.start, copy };
        }
        let Client { stream, background, .. } = client;
        let length = rows.end - rows.start;
        let read = StripeRead { offset, length, stream, background, wanted, eligible, spare };
        self.decider.choices += 1;
        let members = self.states.members();
        let ctx = &mut Ctx { now, members, rng: &mut self.decider.rng };
        let left_out = self.decider.policy.leave_out(&read, columns, ctx);
        read.check(left_out);
        left_out
    }
}
