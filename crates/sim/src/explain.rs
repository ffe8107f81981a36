//! What a policy decided within a window of simulated time, why, and what else was possible.
//!
//! A witness stands beside the engine. Before each choice it writes down the eligible mirrors, the
//! reasons that the policy tells, and when the models say that each mirror would have the data;
//! then which mirror is read, and when the answer came. It changes nothing: the run is the one that
//! the same seed gives without a witness, up to the end of the window.
//!
//! What a model foresees is exact for what its disk holds at that moment and knows nothing of what
//! comes after, so a read may take longer or shorter than was foreseen for its mirror. The
//! hindsight is that of the greedy oracle, one choice at a time: it does not follow what would have
//! become of the reads after it.

use crate::oracle;
use mirrorball_core::io::{IoId, MemberIo, Op, Outcome, RequestId};
use mirrorball_core::member::MemberIndex;
use mirrorball_core::policy::{MirrorScore, Read};
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::Volume;
use mirrorball_disk::bank::Bank;

/// Which choices are written down: those from a moment on, until one of two ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Choices before this are not.
    pub from: Nanos,
    /// Nor are those at or after this.
    pub until: Nanos,
    /// Nor are more than so many.
    pub reads_max: usize,
}

/// What was decided within a window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// The choices, in the order in which they were made.
    pub decisions: Vec<Decision>,
    /// The devids of all members, in their order.
    pub devids: Vec<u64>,
    /// When the run ended: at the end of the window, or with its jobs.
    pub ended: Nanos,
}

/// One choice among mirrors. Reads with a single eligible mirror are none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// When it was made.
    pub at: Nanos,
    /// The read that wanted a mirror.
    pub read: Read,
    /// The eligible mirrors, in the order in which the policy was shown them.
    pub candidates: Vec<Candidate>,
    /// Place of the mirror that was read first.
    pub chosen: usize,
    /// What was read as well: other parts of a split, or second reads.
    pub further: Vec<Further>,
    /// Place of the mirror that the oracle would have read.
    pub oracle: usize,
    /// From the choice to the data; none if the read failed, or was under way when the jobs ended.
    pub wait: Option<Nanos>,
}

/// A mirror that was read beside the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Further {
    /// Its place.
    pub place: usize,
    /// How long after the choice.
    pub after: Nanos,
    /// How much of the read.
    pub length: u64,
}

/// One eligible mirror of a choice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The member that holds it.
    pub member: MemberIndex,
    /// Its first byte on that member.
    pub offset: u64,
    /// What the member had in flight.
    pub in_flight: u32,
    /// What the policy told of it, if it tells.
    pub reason: Option<MirrorScore>,
    /// How long it would have taken if nothing had come after it; none if for ever.
    pub foreseen: Option<Nanos>,
}

impl Decision {
    /// Whether the oracle could not have done better.
    pub fn agrees(&self) -> bool {
        self.chosen == self.oracle || self.cost() == Some(Nanos::ZERO)
    }

    /// How much later than the oracle's mirror the chosen one was foreseen to have the data; none
    /// if it would never have had it. Where several were read at once the first to have it counts.
    /// A split is taken as if its first mirror were to give it all.
    pub fn cost(&self) -> Option<Nanos> {
        let foreseen = |place: usize| self.candidates[place].foreseen;
        let is_rival = |it: &&Further| it.after == Nanos::ZERO && it.length == self.read.length;
        let rivals = self.further.iter().filter(is_rival).map(|it| it.place);
        let chosen = rivals.chain([self.chosen]).filter_map(foreseen).min();
        match (chosen, foreseen(self.oracle)) {
            (Some(chosen), Some(oracle)) => Some(chosen.saturating_sub(oracle)),
            (None, Some(_)) => None,
            (_, None) => Some(Nanos::ZERO),
        }
    }
}

/// Writes down what is decided within a window.
pub(crate) struct Witness {
    window: Window,
    decisions: Vec<Decision>,
    open: Vec<Open>,
    /// The choice that the next I/O answers.
    asked: Option<Decision>,
}

/// A decision whose read has not ended.
struct Open {
    decision: usize,
    request: RequestId,
    bytes_left: u64,
    in_flight: Vec<IoId>,
}

impl Witness {
    pub(crate) fn new(window: Window) -> Witness {
        Witness { window, decisions: Vec::new(), open: Vec::new(), asked: None }
    }

    /// Whether nothing more is to be seen.
    pub(crate) fn is_done(&self, now: Nanos) -> bool {
        !self.is_watching(now.max(self.window.from)) && self.open.is_empty()
    }

    pub(crate) fn finish(self, volume: &Volume, ended: Nanos) -> Explanation {
        let devids = volume.members().iter().map(|(_, member)| member.config.devid).collect();
        Explanation { decisions: self.decisions, devids, ended }
    }

    /// Before the volume hands out its next I/O: is there a choice, and what is to be said of it?
    pub(crate) fn before_io(&mut self, volume: &mut Volume, bank: &Bank, now: Nanos) {
        if !self.is_watching(now) {
            return;
        }
        let Some(choice) = volume.next_choice() else {
            return;
        };
        let mut reasons = volume.explain_choice(&choice, now).into_iter();
        let mirrors = choice.mirrors.as_slice();
        let foreseen: Vec<Nanos> = oracle::completions(&choice, bank, now).collect();
        let members = volume.members();
        let candidates = mirrors.iter().zip(&foreseen).map(|(mirror, &at)| Candidate {
            member: mirror.member,
            offset: mirror.offset,
            in_flight: members[mirror.member].in_flight(),
            reason: reasons.next(),
            foreseen: (at < Nanos::MAX).then(|| at - now),
        });
        self.asked = Some(Decision {
            at: now,
            read: choice.read,
            candidates: candidates.collect(),
            chosen: 0,
            further: Vec::new(),
            oracle: oracle::earliest(&foreseen, mirrors, members),
            wait: None,
        });
    }

    /// An I/O was handed out.
    pub(crate) fn on_submit(&mut self, io: &MemberIo) {
        if let Some(mut decision) = self.asked.take() {
            decision.chosen = place_of(&decision, io).expect("what is chosen is eligible");
            self.open.push(Open {
                decision: self.decisions.len(),
                request: io.request,
                bytes_left: decision.read.length,
                in_flight: vec![io.id],
            });
            self.decisions.push(decision);
            return;
        }
        let of_request = |open: &&mut Open| open.request == io.request && io.op == Op::Read;
        for open in self.open.iter_mut().filter(of_request) {
            let decision = &mut self.decisions[open.decision];
            let read = decision.read.offset..decision.read.offset + decision.read.length;
            if let Some(place) = place_of(decision, io).filter(|_| read.contains(&io.volume_offset))
            {
                let after = io.submitted_at - decision.at;
                decision.further.push(Further { place, after, length: io.length });
                open.in_flight.push(io.id);
            }
        }
    }

    /// An I/O ended.
    pub(crate) fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome) {
        let Some(index) = self.open.iter().position(|open| open.in_flight.contains(&io.id)) else {
            return;
        };
        let open = &mut self.open[index];
        open.in_flight.retain(|&id| id != io.id);
        if outcome.result.is_ok() {
            open.bytes_left = open.bytes_left.saturating_sub(io.length);
        }
        if open.bytes_left == 0 {
            let decision = &mut self.decisions[open.decision];
            decision.wait = Some(outcome.completed_at - decision.at);
        }
        if open.bytes_left == 0 || open.in_flight.is_empty() {
            self.open.remove(index);
        }
    }

    fn is_watching(&self, now: Nanos) -> bool {
        let Window { from, until, reads_max } = self.window;
        (from..until).contains(&now) && self.decisions.len() < reads_max
    }
}

/// The place of the mirror that an I/O goes to.
fn place_of(decision: &Decision, io: &MemberIo) -> Option<usize> {
    decision.candidates.iter().position(|candidate| candidate.member == io.member)
}

#[cfg(test)]
mod tests;
