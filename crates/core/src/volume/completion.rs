//! Events: the ends of member I/O, and times that come.

use super::durability::OwnIo;
use super::keys::IoKey;
use super::{InFlightIo, Volume};
use crate::io::{IoError, IoId, MemberIo, Op, Outcome};
use crate::policy::Ctx;
use crate::units::Nanos;

impl Volume {
    /// Reports the end of a member I/O, and returns that I/O with its outcome.
    ///
    /// # Panics
    /// If `id` is not in flight, or `now` is before its submission.
    pub fn complete(
        &mut self,
        id: IoId,
        result: Result<(), IoError>,
        now: Nanos,
    ) -> (MemberIo, Outcome) {
        let InFlightIo { io, piece, target, superseded, policy_number, job } =
            self.in_flight.remove(IoKey::of(id)).expect("a member I/O completes once");
        assert_eq!(io.id, id, "a member I/O completes once");
        assert!(io.submitted_at <= now, "an I/O of {} ends at {now}", io.submitted_at);
        let wait = now - io.submitted_at;
        let outcome = Outcome { result, completed_at: now, wait, superseded };
        self.states.members_mut().get_mut(io.member).account_completion(&io, &outcome);
        if policy_number == self.policy_number {
            self.policy.on_complete(&io, &outcome, &mut Ctx { now, rng: &mut self.rng });
        }
        match result {
            Ok(()) => self.states.on_success(io.member),
            Err(error) => {
                let had_failed = self.states.is_failed(io.member);
                if self.states.on_error(io.member, error, now) {
                    if !had_failed && self.states.is_failed(io.member) {
                        self.note_lost_repairs(io.member);
                    }
                    self.notify_members_change();
                }
            }
        }
        if io.op == Op::Flush && result.is_err() && !self.states.is_failed(io.member) {
            self.failed_flushes.insert(io.member);
            if self.has_lost_writes() {
                self.log.iter_mut().for_each(|log| log.on_failed_flush(io.member));
                self.labels.iter_mut().for_each(|labels| labels.on_failed_flush(io.member));
            }
        }
        if self.races.has_queued_reads() {
            self.advance_queued_reads(&io);
        }
        if let Some(job) = job {
            match job {
                OwnIo::Metadata(job) => self.on_metadata_io(job, &io, result, now),
                OwnIo::Stripe => self.on_stripe_io(piece, target, &io, result),
            }
        } else if !superseded {
            self.on_target_io(piece, target, &io, result);
        }
        if self.checksums.is_some() {
            self.arm_for_pages(now);
        }
        if let Some(log) = self.log.as_mut().filter(|log| log.repairs.may_be_lost()) {
            log.arm(now);
        }
        (io, outcome)
    }

    /// Returns true if writes may be lost that ended, because a member that the volume cannot do
    /// without failed a flush: a later one makes up for nothing. Fails such members as far as the
    /// volume can do without them, because others hold everything.
    pub(super) fn has_lost_writes(&mut self) -> bool {
        for member in std::mem::take(&mut self.failed_flushes) {
            self.lose_member(member);
            if !self.states.is_failed(member) {
                self.failed_flushes.insert(member);
            }
        }
        !self.failed_flushes.is_empty()
    }

    /// When [`Volume::on_timeout`] is due, if nothing happens before.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        if self.states.all_eligible() && !self.races.has_timers() && self.log.is_none() {
            // Asked before every event, and nearly always so.
            return None;
        }
        let tick = self.log.as_ref().and_then(|log| log.next_tick());
        let due = [self.states.next_backoff_end(), self.races.next_timer(), tick];
        due.into_iter().flatten().min()
    }

    /// Does what is due at `now`: back-offs end, second reads start, idle regions leave the log.
    pub fn on_timeout(&mut self, now: Nanos) {
        self.queue_due_second_reads(now);
        self.tick_log(now);
        if self.states.end_backoffs(now) {
            self.notify_members_change();
        }
    }
}
