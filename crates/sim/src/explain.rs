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
use mirrorball_core::policy::{Mirror, ScoreTerm};
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::Volume;
use mirrorball_disk::model_array::ModelArray;
use serde::Serialize;

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
    pub choices: Vec<ExplainedChoice>,
    /// The devids of all members, in their order.
    pub devids: Vec<u64>,
    /// When the run ended: at the end of the window, or with its last section.
    pub ended: Nanos,
}

/// One choice among mirrors. A read with a single eligible mirror is not a choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedChoice {
    pub at_ns: u64,
    /// Stream of the read: what a kernel would see as the pid.
    pub stream: u64,
    /// Whether background work read.
    pub background: bool,
    /// First byte on the volume.
    pub offset: u64,
    pub length: u64,
    /// The eligible mirrors, in the order given to the policy.
    pub mirrors: Vec<MirrorChoice>,
    /// Time from the choice to the data; none if the read failed, or had not ended with the run.
    pub took_ns: Option<u64>,
    /// Whether the chosen mirror was as good as the one of the oracle.
    pub agreed: bool,
    /// Expected time of the chosen mirror minus that of the oracle's mirror; none if the chosen
    /// mirror never answers. If several mirrors are read at once, the earliest counts. A split
    /// counts as if its first mirror served the whole read.
    pub cost_ns: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MirrorChoice {
    pub devid: u64,
    /// First byte on the member.
    pub offset: u64,
    /// Number of I/Os that the member had in flight.
    pub in_flight: u32,
    /// The score, if the policy gives scores; the lowest is the best.
    pub score: Option<NamedValue>,
    /// The terms of the score.
    pub parts: Vec<NamedValue>,
    /// Expected time to the data if no other request followed; none if the disk never answers.
    pub expected_ns: Option<u64>,
    /// Whether and when the policy read it.
    pub taken: ReadOrder,
    /// Time from the choice to a further read that came later, as that of a hedge; else none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub later_ns: Option<u64>,
    /// Whether the oracle would have read it.
    pub oracle: bool,
}

/// Whether and when a mirror was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadOrder {
    No,
    First,
    /// It was read as well: a part of a split, or a second read of a race.
    Further,
}

/// A named number, with its unit in the name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedValue {
    pub name: &'static str,
    pub value: i64,
}

impl From<&ScoreTerm> for NamedValue {
    fn from(term: &ScoreTerm) -> NamedValue {
        NamedValue { name: term.name, value: term.value }
    }
}

impl ExplainedChoice {
    /// The mirror that was read first. Panics if none was.
    pub fn first(&self) -> &MirrorChoice {
        let first = self.mirrors.iter().find(|mirror| mirror.taken == ReadOrder::First);
        first.expect("one is read first")
    }

    /// The mirror that the oracle would have read. Panics if there is none.
    pub fn of_oracle(&self) -> &MirrorChoice {
        self.mirrors.iter().find(|mirror| mirror.oracle).expect("it would have read one")
    }

    /// Compares the mirrors that are read at once with the one of the oracle.
    fn judge(&mut self, read_at_once: &[usize]) {
        let expected = read_at_once.iter().filter_map(|&mirror| self.mirrors[mirror].expected_ns);
        self.cost_ns = match (expected.min(), self.of_oracle().expected_ns) {
            (Some(chosen), Some(oracle)) => Some(chosen.saturating_sub(oracle)),
            (None, Some(_)) => None,
            (_, None) => Some(0),
        };
        self.agreed = self.first().oracle || self.cost_ns == Some(0);
    }
}

/// Records the choices within a window.
pub(crate) struct DecisionTrace {
    window: TraceWindow,
    devids: Vec<u64>,
    choices: Vec<ExplainedChoice>,
    unfinished: Vec<Unfinished>,
    /// The choice whose I/O comes next.
    next: Option<ExplainedChoice>,
}

/// A choice whose read has not ended.
struct Unfinished {
    choice: usize,
    request: RequestId,
    bytes_left: u64,
    in_flight: Vec<IoId>,
    /// Mirrors that are asked for the whole read at the time of the choice.
    read_at_once: Vec<usize>,
}

impl DecisionTrace {
    pub(crate) fn new(window: TraceWindow) -> DecisionTrace {
        DecisionTrace {
            window,
            devids: Vec::new(),
            choices: Vec::new(),
            unfinished: Vec::new(),
            next: None,
        }
    }

    /// Whether the window is over and all its reads have ended.
    pub(crate) fn is_done(&self, now: Nanos) -> bool {
        !self.is_recording(now.max(self.window.from)) && self.unfinished.is_empty()
    }

    pub(crate) fn finish(self, volume: &Volume, ended: Nanos) -> Explanation {
        Explanation { choices: self.choices, devids: devids(volume), ended }
    }

    /// Records the next choice, if the next member I/O of the volume needs one.
    pub(crate) fn before_io(&mut self, volume: &mut Volume, model_array: &ModelArray, now: Nanos) {
        if !self.is_recording(now) {
            return;
        }
        let Some(choice) = volume.next_choice() else {
            return;
        };
        if self.devids.is_empty() {
            self.devids = devids(volume);
        }
        let mut reasons = volume.explain_choice(&choice, now).into_iter();
        let mirrors = choice.mirrors.as_slice();
        let expected: Vec<Nanos> = oracle::completions(&choice, model_array, now).collect();
        let members = volume.members();
        let of_oracle = oracle::earliest(&expected, mirrors, members);
        let candidate = |(place, (mirror, &at)): (usize, (&Mirror, &Nanos))| {
            let reason = reasons.next();
            MirrorChoice {
                devid: self.devids[mirror.member.get()],
                offset: mirror.offset,
                in_flight: members[mirror.member].in_flight(),
                score: reason.as_ref().map(|reason| NamedValue::from(&reason.score)),
                parts: reason.iter().flat_map(|it| &it.parts).map(NamedValue::from).collect(),
                expected_ns: (at < Nanos::MAX).then(|| (at - now).0),
                taken: ReadOrder::No,
                later_ns: None,
                oracle: place == of_oracle,
            }
        };
        let read = choice.read;
        self.next = Some(ExplainedChoice {
            at_ns: now.0,
            stream: read.stream,
            background: read.background,
            offset: read.offset,
            length: read.length,
            mirrors: mirrors.iter().zip(&expected).enumerate().map(candidate).collect(),
            took_ns: None,
            agreed: false,
            cost_ns: None,
        });
    }

    /// Reports that a member I/O was submitted.
    pub(crate) fn on_submit(&mut self, io: &MemberIo) {
        if let Some(mut choice) = self.next.take() {
            let chosen = self.mirror_of(&choice, io).expect("the chosen mirror is eligible");
            choice.mirrors[chosen].taken = ReadOrder::First;
            choice.judge(&[chosen]);
            self.unfinished.push(Unfinished {
                choice: self.choices.len(),
                request: io.request,
                bytes_left: choice.length,
                in_flight: vec![io.id],
                read_at_once: vec![chosen],
            });
            self.choices.push(choice);
            return;
        }
        for index in 0..self.unfinished.len() {
            let place = self.unfinished[index].choice;
            let choice = &self.choices[place];
            let is_part = self.unfinished[index].request == io.request
                && io.op == Op::Read
                && (choice.offset..choice.offset + choice.length).contains(&io.volume_offset);
            let Some(mirror) = self.mirror_of(choice, io).filter(|_| is_part) else { continue };
            let (unfinished, choice) = (&mut self.unfinished[index], &mut self.choices[place]);
            unfinished.in_flight.push(io.id);
            let later = io.submitted_at.0 - choice.at_ns;
            let read = &mut choice.mirrors[mirror];
            if read.taken == ReadOrder::No {
                read.taken = ReadOrder::Further;
                read.later_ns = Some(later).filter(|later| *later > 0);
            }
            if io.submitted_at.0 == choice.at_ns && io.length == choice.length {
                unfinished.read_at_once.push(mirror);
                choice.judge(&unfinished.read_at_once);
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
            let choice = &mut self.choices[unfinished.choice];
            choice.took_ns = Some(outcome.completed_at.0 - choice.at_ns);
        }
        if unfinished.bytes_left == 0 || unfinished.in_flight.is_empty() {
            self.unfinished.remove(index);
        }
    }

    fn is_recording(&self, now: Nanos) -> bool {
        let TraceWindow { from, until, reads_max } = self.window;
        (from..until).contains(&now) && self.choices.len() < reads_max
    }

    /// Index of the mirror that an I/O reads.
    fn mirror_of(&self, choice: &ExplainedChoice, io: &MemberIo) -> Option<usize> {
        let devid = self.devids[io.member.get()];
        choice.mirrors.iter().position(|mirror| mirror.devid == devid)
    }
}

fn devids(volume: &Volume) -> Vec<u64> {
    volume.members().iter().map(|(_, member)| member.config.devid).collect()
}

#[cfg(test)]
mod tests;
