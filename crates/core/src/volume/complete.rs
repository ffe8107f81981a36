//! Events: the ends of member I/O, and times that come.

use super::Volume;
use super::gate::{Gate, GateEvent};
use super::in_flight::{InFlightIo, Owner};
use crate::io::{IoError, IoId, MemberIo, Op, Outcome};
use crate::policy::Ctx;
use crate::units::Nanos;

impl<G: Gate> Volume<G> {
    /// Reports the end of a member I/O, and returns that I/O with its outcome.
    ///
    /// # Panics
    /// If `id` is not in flight, or `now` is before its submission.
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
            let ctx = &mut Ctx { now, rng: &mut self.decider.rng };
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
        if self.states.on_error(member, error, now) {
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
        self.queue_due_second_reads(now);
        self.change_gate(|gate, array| gate.on_timeout(now, array));
        if self.states.end_backoffs(now) {
            self.notify_members_change();
        }
        let next = [self.states.next_backoff_end(), self.races.next_timer()];
        assert!(next.into_iter().flatten().all(|at| at > now), "all that was due at {now} is done");
    }
}
