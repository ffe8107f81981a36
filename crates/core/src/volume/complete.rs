//! Member I/O in flight, its end, and times that come.

use super::Volume;
use super::gate::{Gate, GateEvent};
use super::piece::{IoKey, PieceKey};
use super::plan::PlanTarget;
use super::stripe::StripeOwner;
use crate::io::{IoError, IoId, MemberIo, Op, Outcome, Purpose};
use crate::policy::Ctx;
use crate::slab::{Slab, SlabKey};
use crate::units::Nanos;

/// The part of the volume that a member I/O belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// A target of a piece, which may have ended if the I/O is superseded.
    Piece(PieceKey, PlanTarget),
    Stripe(StripeOwner),
    /// The gate, which named it so.
    Gate(u32),
}

/// A member I/O handed out and not completed.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlightIo {
    pub(super) io: MemberIo,
    pub(super) owner: Owner,
    /// True if its race is over; its piece may have ended.
    pub(super) superseded: bool,
    /// The policy that was notified of its submission.
    pub(super) policy_number: u32,
}

/// All member I/O in flight, by its [`IoId`].
#[derive(Debug, Default)]
pub(super) struct LiveIos {
    ios: Slab<IoKey, InFlightIo>,
    issued: u32,
}

impl LiveIos {
    /// Gives an I/O its number and keeps it.
    #[inline]
    pub(super) fn insert(&mut self, mut in_flight: InFlightIo) -> &MemberIo {
        debug_assert!(in_flight.io.length > 0 || in_flight.io.op == Op::Flush, "{in_flight:?}");
        self.issued = self.issued.wrapping_add(1);
        // The count in the upper half distinguishes a second completion of an I/O from the first
        // completion of a later I/O in the same slot.
        let count = u64::from(self.issued) << 32;
        let kept = self.ios.insert_with(|slot| {
            in_flight.io.id = IoId(count | u64::from(slot.slot()));
            in_flight
        });
        &kept.io
    }

    /// Removes an I/O that ended.
    #[inline]
    pub(super) fn remove(&mut self, id: IoId) {
        self.ios.discard(IoKey::of(id));
    }

    /// The I/O with this number, if it is still in flight.
    #[inline]
    pub(super) fn find(&self, id: IoId) -> Option<&InFlightIo> {
        self.ios.find(IoKey::of(id)).filter(|found| found.io.id == id)
    }

    pub(super) fn get(&self, key: IoKey) -> &InFlightIo {
        self.ios.get(key)
    }

    pub(super) fn get_mut(&mut self, key: IoKey) -> &mut InFlightIo {
        self.ios.get_mut(key)
    }
}

impl<G: Gate> Volume<G> {
    /// Reports the end of a member I/O, and returns that I/O with its outcome. Panics if `id` is
    /// not in flight, or `now` is before its submission.
    #[inline(always)]
    pub fn complete(
        &mut self,
        id: IoId,
        result: Result<(), IoError>,
        now: Nanos,
    ) -> (MemberIo, Outcome) {
        let found = self.in_flight.find(id).expect("a member I/O completes once");
        let &InFlightIo { ref io, owner, superseded, policy_number } = found;
        assert!(io.submitted_at <= now, "an I/O of {} ends at {now}", io.submitted_at);
        let wait = now - io.submitted_at;
        let ended = (*io, Outcome { result, completed_at: now, wait, superseded });
        let (io, outcome) = (&ended.0, &ended.1);
        self.in_flight.remove(id);
        self.states.members_mut().get_mut(io.member).account_completion(io, outcome);
        if policy_number == self.decider.policy_number {
            let members = self.states.members();
            let ctx = &mut Ctx { now, members, rng: &mut self.decider.rng };
            self.decider.policy.on_complete(io, outcome, ctx);
        }
        match result {
            Ok(()) => self.states.on_success(io.member),
            Err(error) => self.on_member_error(io, error, now),
        }
        if self.races.has_queued_reads() {
            self.advance_queued_reads(io);
        }
        match owner {
            Owner::Piece(..) if superseded => {}
            Owner::Piece(piece, target) => self.on_target_io(piece, target, io, result),
            Owner::Stripe(owner) => {
                self.ask_stripes(|stripes, context| stripes.on_io(owner, io, result, context));
            }
            Owner::Gate(token) => {
                self.ask_gate(|gate, array| gate.complete(token, io, result, now, array));
            }
        }
        self.continue_released();
        self.ask_gate(|gate, _| gate.arm_timeout(now));
        ended
    }

    /// Applies an I/O error to the state of its member.
    fn on_member_error(&mut self, io: &MemberIo, error: IoError, now: Nanos) {
        let member = io.member;
        let had_failed = self.states.is_failed(member);
        // A rebuild is tried again where nothing could be read: its source is not worse for that.
        let is_client = io.purpose != Purpose::Rebuild;
        let is_counted = io.op == Op::Read && is_client && !self.options.is_read_only;
        if self.states.on_error(member, error, is_counted, now) {
            if !had_failed && self.states.is_failed(member) {
                self.report(GateEvent::MemberSet { member, had_failed });
            }
            self.notify_members_change();
        }
        if io.op == Op::Flush && !self.states.is_failed(member) {
            assert_ne!(error, IoError::Checksum, "a flush returns no data");
            self.states.set_unflushed(member);
            if self.fail_unflushed_members() {
                self.report(GateEvent::FlushFailed(member));
            }
        }
    }

    /// When [`Volume::on_timeout`] is due, if nothing happens before.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        if !self.has_gate() && self.states.all_eligible() && !self.races.has_timers() {
            // Asked before every event, and nearly always so.
            return None;
        }
        let gate = self.gate().and_then(Gate::poll_timeout);
        let due = [self.states.next_backoff_end(), self.races.next_timer(), gate];
        due.into_iter().flatten().min()
    }

    /// Does what is due at `now`: back-offs end, second reads start, idle regions leave the log.
    pub fn on_timeout(&mut self, now: Nanos) {
        while let Some(second_read) = self.races.pop_due(now) {
            self.work.push_back(second_read);
        }
        self.change_gate(|gate, array| gate.on_timeout(now, array));
        if self.states.end_backoffs(now) {
            self.notify_members_change();
        }
        let next = [self.states.next_backoff_end(), self.races.next_timer()];
        assert!(next.into_iter().flatten().all(|at| at > now), "all that was due at {now} is done");
    }
}
