//! Decision trace: the choices of a policy within a window of simulated time.
//!
//! Before each choice the trace records the eligible mirrors, the policy's reasons, and the
//! expected completion on each mirror by the models; then the mirror that was read, and the
//! completion. It does not change the run: up to the end of the window, the same seed without a
//! trace gives the same events.
//!
//! An expected completion is exact for the requests that the disk has at that moment, and ignores
//! later requests, so the read may take a different time. The comparison with the oracle covers one
//! choice at a time: it does not simulate how the reads after that choice would have changed.

use crate::oracle;
use mirrorball_core::io::{IoId, MemberIo, Op, Outcome, RequestId};
use mirrorball_core::member::MemberIndex;
use mirrorball_core::policy::{MirrorScore, Read};
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::Volume;
use mirrorball_disk::model_array::ModelArray;

/// The window of choices to record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceWindow {
    /// Earlier choices are not recorded.
    pub from: Nanos,
    /// Choices at or after this time are not recorded.
    pub until: Nanos,
    /// Maximum number of choices.
    pub reads_max: usize,
}

/// The choices made within a window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// The choices, in the order in which they were made.
    pub decisions: Vec<Decision>,
    /// The devids of all members, in their order.
    pub devids: Vec<u64>,
    /// When the run ended: at the end of the window, or with its last section.
    pub ended: Nanos,
}

/// One choice among mirrors. A read with a single eligible mirror is not a choice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Time of the choice.
    pub at: Nanos,
    /// The read.
    pub read: Read,
    /// The eligible mirrors, in the order given to the policy.
    pub candidates: Vec<MirrorCandidate>,
    /// Index of the mirror that was read first.
    pub chosen: usize,
    /// Further reads: other parts of a split, or second reads of a race.
    pub extra_reads: Vec<ExtraRead>,
    /// Index of the mirror that the oracle would have read.
    pub oracle: usize,
    /// Time from the choice to the data; none if the read failed, or had not ended with the run.
    pub wait: Option<Nanos>,
}

/// A further read for a choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtraRead {
    /// Index of the mirror.
    pub mirror: usize,
    /// Time since the choice.
    pub after: Nanos,
    /// Bytes read.
    pub length: u64,
}

/// One eligible mirror of a choice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MirrorCandidate {
    /// The member.
    pub member: MemberIndex,
    /// First byte on the member.
    pub offset: u64,
    /// Number of I/Os that the member had in flight.
    pub in_flight: u32,
    /// The policy's reason, if the policy gives reasons.
    pub reason: Option<MirrorScore>,
    /// Expected time to the data if no other request followed; none if the disk never answers.
    pub expected: Option<Nanos>,
}

impl Decision {
    /// Whether the chosen mirror was as good as the one of the oracle.
    pub fn agrees(&self) -> bool {
        self.chosen == self.oracle || self.cost() == Some(Nanos::ZERO)
    }

    /// Expected completion on the chosen mirror minus that on the oracle's mirror; none if the
    /// chosen mirror never answers. If several mirrors are read at once, the earliest counts. A
    /// split counts as if its first mirror served the whole read.
    pub fn cost(&self) -> Option<Nanos> {
        let expected = |mirror: usize| self.candidates[mirror].expected;
        let is_rival = |it: &&ExtraRead| it.after == Nanos::ZERO && it.length == self.read.length;
        let rivals = self.extra_reads.iter().filter(is_rival).map(|it| it.mirror);
        let chosen = rivals.chain([self.chosen]).filter_map(expected).min();
        match (chosen, expected(self.oracle)) {
            (Some(chosen), Some(oracle)) => Some(chosen.saturating_sub(oracle)),
            (None, Some(_)) => None,
            (_, None) => Some(Nanos::ZERO),
        }
    }
}

/// Records the choices within a window.
pub(crate) struct DecisionTrace {
    window: TraceWindow,
    decisions: Vec<Decision>,
    unfinished: Vec<Unfinished>,
    /// The choice whose I/O comes next.
    next: Option<Decision>,
}

/// A decision whose read has not ended.
struct Unfinished {
    decision: usize,
    request: RequestId,
    bytes_left: u64,
    in_flight: Vec<IoId>,
}

impl DecisionTrace {
    pub(crate) fn new(window: TraceWindow) -> DecisionTrace {
        DecisionTrace { window, decisions: Vec::new(), unfinished: Vec::new(), next: None }
    }

    /// Whether the window is over and all its reads have ended.
    pub(crate) fn is_done(&self, now: Nanos) -> bool {
        !self.is_recording(now.max(self.window.from)) && self.unfinished.is_empty()
    }

    pub(crate) fn finish(self, volume: &Volume, ended: Nanos) -> Explanation {
        let devids = volume.members().iter().map(|(_, member)| member.config.devid).collect();
        Explanation { decisions: self.decisions, devids, ended }
    }

    /// Records the next choice, if the next member I/O of the volume needs one.
    pub(crate) fn before_io(&mut self, volume: &mut Volume, model_array: &ModelArray, now: Nanos) {
        if !self.is_recording(now) {
            return;
        }
        let Some(choice) = volume.next_choice() else {
            return;
        };
        let mut reasons = volume.explain_choice(&choice, now).into_iter();
        let mirrors = choice.mirrors.as_slice();
        let expected: Vec<Nanos> = oracle::completions(&choice, model_array, now).collect();
        let members = volume.members();
        let candidates = mirrors.iter().zip(&expected).map(|(mirror, &at)| MirrorCandidate {
            member: mirror.member,
            offset: mirror.offset,
            in_flight: members[mirror.member].in_flight(),
            reason: reasons.next(),
            expected: (at < Nanos::MAX).then(|| at - now),
        });
        self.next = Some(Decision {
            at: now,
            read: choice.read,
            candidates: candidates.collect(),
            chosen: 0,
            extra_reads: Vec::new(),
            oracle: oracle::earliest(&expected, mirrors, members),
            wait: None,
        });
    }

    /// Reports that a member I/O was submitted.
    pub(crate) fn on_submit(&mut self, io: &MemberIo) {
        if let Some(mut decision) = self.next.take() {
            decision.chosen = mirror_of(&decision, io).expect("the chosen mirror is eligible");
            self.unfinished.push(Unfinished {
                decision: self.decisions.len(),
                request: io.request,
                bytes_left: decision.read.length,
                in_flight: vec![io.id],
            });
            self.decisions.push(decision);
            return;
        }
        let is_of_request = |it: &&mut Unfinished| it.request == io.request && io.op == Op::Read;
        for unfinished in self.unfinished.iter_mut().filter(is_of_request) {
            let decision = &mut self.decisions[unfinished.decision];
            let read = decision.read.offset..decision.read.offset + decision.read.length;
            if let Some(mirror) =
                mirror_of(decision, io).filter(|_| read.contains(&io.volume_offset))
            {
                let after = io.submitted_at - decision.at;
                decision.extra_reads.push(ExtraRead { mirror, after, length: io.length });
                unfinished.in_flight.push(io.id);
            }
        }
    }

    /// Reports that a member I/O ended.
    pub(crate) fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome) {
        let Some(index) = self.unfinished.iter().position(|it| it.in_flight.contains(&io.id))
        else {
            return;
        };
        let unfinished = &mut self.unfinished[index];
        unfinished.in_flight.retain(|&id| id != io.id);
        if outcome.result.is_ok() {
            unfinished.bytes_left = unfinished.bytes_left.saturating_sub(io.length);
        }
        if unfinished.bytes_left == 0 {
            let decision = &mut self.decisions[unfinished.decision];
            decision.wait = Some(outcome.completed_at - decision.at);
        }
        if unfinished.bytes_left == 0 || unfinished.in_flight.is_empty() {
            self.unfinished.remove(index);
        }
    }

    fn is_recording(&self, now: Nanos) -> bool {
        let TraceWindow { from, until, reads_max } = self.window;
        (from..until).contains(&now) && self.decisions.len() < reads_max
    }
}

/// Index of the mirror that an I/O reads.
fn mirror_of(decision: &Decision, io: &MemberIo) -> Option<usize> {
    decision.candidates.iter().position(|candidate| candidate.member == io.member)
}

#[cfg(test)]
mod tests;
