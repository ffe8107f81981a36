//! Why a policy read from where it did: its choices within a stretch of simulated time, the scores
//! that it told, what each mirror was foreseen to take, and what the oracle would have done.
//!
//! This is no experiment: one policy, one seed, and nothing is saved. [`explain`] runs the cell
//! that a comparison would run with the same seed, as far as it must, and gives plain data, which
//! reports write.
//!
//! Hindsight is that of the greedy oracle, choice by choice, in the situation that the policy had
//! brought about. It is what one other choice would have been worth and not what another policy
//! would have made of the whole run.

mod summary;

use crate::experiment::inputs::Inputs;
use crate::experiment::record::{ORACLE, PROGRAM_VERSION};
use anyhow::{Result, anyhow, bail};
use mirrorball_core::member::MemberState;
use mirrorball_core::policy::{MirrorScore, ScoreTerm};
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::MemberSpec;
use mirrorball_sim::engine::{self, Checks, PolicyUnderTest, Simulation};
use mirrorball_sim::explain::{Candidate, Decision, Explanation, TraceWindow};
use mirrorball_sim::job::Direction;
use serde::Serialize;

pub use summary::{MemberShare, Summary};

/// The most choices that are told of at once.
pub const READS_MAX: usize = 10_000;

/// What is to be explained.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// A policy string, or [`ORACLE`].
    pub policy: &'a str,
    /// Seed of the run.
    pub seed: u64,
    /// Replaces every section's `runtime`, if given.
    pub duration: Option<Nanos>,
    /// From when on choices are told of.
    pub from: Nanos,
    /// How many.
    pub extent: Extent,
}

/// How many choices are told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// So many, [`READS_MAX`] at most.
    Reads(usize),
    /// Those within so much time; no more than [`READS_MAX`].
    Time(Nanos),
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// Version of the program that gave it.
    pub program_version: &'static str,
    /// Name of the array.
    pub array: String,
    /// Name of the job.
    pub job: String,
    /// The policy, as asked for.
    pub policy: String,
    /// Seed of the run.
    pub seed: u64,
    /// The moment asked for.
    pub from_ns: u64,
    /// Whether there were more choices in the time asked for than are told of.
    pub is_cut_short: bool,
    /// The choices, in the order in which they were made.
    pub choices: Vec<ChoiceMade>,
    /// What they amount to.
    pub summary: Summary,
}

/// One choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChoiceMade {
    /// When it was made.
    pub at_ns: u64,
    /// Who read: what a kernel would know as the pid.
    pub stream: u64,
    /// Whether nobody waited for it.
    pub background: bool,
    /// First byte on the volume.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// The eligible mirrors, in the order in which the policy was shown them.
    pub mirrors: Vec<MirrorShown>,
    /// From the choice to the data; none if the read failed, or was under way when the jobs ended.
    pub took_ns: Option<u64>,
    /// Whether the oracle could not have done better.
    pub agreed: bool,
    /// How much longer than the oracle's mirror the chosen one was foreseen to take; none if it
    /// would never have answered.
    pub cost_ns: Option<u64>,
}

/// One mirror of a choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MirrorShown {
    /// Whose it is.
    pub devid: u64,
    /// Its first byte there.
    pub offset: u64,
    /// What the member had in flight.
    pub in_flight: u32,
    /// What the policy compares, if it tells: the lowest is the best.
    pub score: Option<Figure>,
    /// What that is made of.
    pub parts: Vec<Figure>,
    /// How long a read of it would have taken if nothing had come after it; none if for ever.
    pub foreseen_ns: Option<u64>,
    /// Whether the policy read it.
    pub taken: Taken,
    /// Whether the oracle would have.
    pub oracle: bool,
}

/// Whether a mirror was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Taken {
    /// It was not.
    No,
    /// It was, at once.
    First,
    /// As well: a part of the read, or all of it a second time.
    Further,
}

/// A named number, with its unit in the name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Figure {
    /// What it is.
    pub name: &'static str,
    /// How much of it.
    pub value: i64,
}

/// Runs the one job of `inputs` as far as it must, and tells what was decided.
///
/// # Errors
/// If the policy does not fit the array, or nothing was decided in the time asked for.
///
/// # Panics
/// If there is not exactly one job.
pub fn explain(inputs: &Inputs, question: &Question<'_>) -> Result<Explained> {
    let ([jobs], [job]) = (&inputs.jobs[..], &inputs.job_sources[..]) else {
        panic!("one job is explained at a time");
    };
    let policy = match question.policy {
        ORACLE => PolicyUnderTest::Oracle,
        policy => PolicyUnderTest::Policy(policy),
    };
    let (until, reads) = match question.extent {
        Extent::Reads(reads) => (Nanos::MAX, reads.min(READS_MAX)),
        // One more shows that there were more.
        Extent::Time(time) => (question.from.saturating_add(time), READS_MAX + 1),
    };
    let window = TraceWindow { from: question.from, until, reads_max: reads };
    let run = Simulation {
        array: &inputs.array,
        job: jobs,
        policy,
        seed: question.seed,
        duration: question.duration,
        checks: Checks::Off,
    };
    let mut explanation = engine::explain(&run, window)?;
    if explanation.decisions.is_empty() {
        bail!(nothing_decided(&explanation, inputs, question.from));
    }
    let is_cut_short = explanation.decisions.len() > READS_MAX;
    explanation.decisions.truncate(READS_MAX);
    let choices: Vec<ChoiceMade> =
        explanation.decisions.iter().map(|it| ChoiceMade::new(it, &explanation.devids)).collect();
    Ok(Explained {
        program_version: PROGRAM_VERSION,
        array: inputs.array_source.name.clone(),
        job: job.name.clone(),
        policy: question.policy.to_owned(),
        seed: question.seed,
        from_ns: question.from.0,
        is_cut_short,
        summary: Summary::new(&choices, &explanation.devids),
        choices,
    })
}

/// Why there was nothing to choose.
fn nothing_decided(explanation: &Explanation, inputs: &Inputs, from: Nanos) -> anyhow::Error {
    if explanation.ended <= from {
        return anyhow!(
            "the job ended after {}, before {from}\n  hint: ask for an earlier --at, or give the \
             job more time with --duration",
            explanation.ended
        );
    }
    let none = "no read had two mirrors to choose from";
    let profile = inputs.array.profile;
    if profile.copies() == 1 {
        let name = profile.name();
        return anyhow!("{none}: {name} keeps one copy\n  hint: raid1 and raid10 keep more");
    }
    let mut directions = inputs.jobs.iter().flat_map(|file| &file.sections).map(|job| job.mix);
    if !directions.any(|mix| mix.directions().contains(&Direction::Read)) {
        return anyhow!("{none}: the job does not read\n  hint: rw=randread is one that does");
    }
    let unread: Vec<String> = inputs.array.members.iter().filter_map(why_unread).collect();
    if unread.is_empty() {
        return anyhow!("{none} from {from} on\n  hint: ask for another --at, or for more time");
    }
    anyhow!("{none}: {}\n  hint: such members are not read while another can be", unread.join(", "))
}

/// What keeps a member from being chosen.
fn why_unread(member: &MemberSpec) -> Option<String> {
    let why = match member.state {
        MemberState::Failed => "has failed",
        MemberState::Rebuilding { .. } => "is being rebuilt",
        MemberState::InSync if member.write_mostly => "is write_mostly",
        MemberState::InSync => return None,
    };
    Some(format!("devid {} {why}", member.devid))
}

impl Explained {
    /// What was explained, in a line.
    pub fn title(&self) -> String {
        let Explained { array, job, policy, seed, .. } = self;
        let count = match &self.choices[..] {
            [_] => "one choice".to_owned(),
            choices => format!("{} choices", choices.len()),
        };
        let from = Nanos(self.from_ns);
        format!("{count} of {policy} from {from} on: {job} on {array}, seed {seed}")
    }

    /// Whether the policy gave reasons.
    pub(crate) fn tells(&self) -> bool {
        self.choices.iter().flat_map(|choice| &choice.mirrors).any(|it| it.score.is_some())
    }

    /// The name that all scores have, if they have one.
    pub(crate) fn score_name(&self) -> Option<&'static str> {
        let mirrors = || self.choices.iter().flat_map(|choice| &choice.mirrors);
        let mut names = mirrors().filter_map(|mirror| Some(mirror.score.as_ref()?.name));
        let first = names.next()?;
        names.all(|name| name == first).then_some(first)
    }

    /// The names of all parts of scores, in the order in which they first come; but for what is in
    /// flight, which is shown of every policy.
    pub(crate) fn part_names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for part in self.choices.iter().flat_map(|it| &it.mirrors).flat_map(|it| &it.parts) {
            if part.name != "in_flight" && !names.contains(&part.name) {
                names.push(part.name);
            }
        }
        names
    }
}

impl ChoiceMade {
    fn new(decision: &Decision, devids: &[u64]) -> ChoiceMade {
        let Decision { at, read, candidates, chosen, extra_reads, oracle, wait } = decision;
        let mirror = |(place, candidate): (usize, &Candidate)| {
            let taken = match place {
                place if place == *chosen => Taken::First,
                place if extra_reads.iter().any(|it| it.mirror == place) => Taken::Further,
                _ => Taken::No,
            };
            let reason = candidate.reason.as_ref();
            MirrorShown {
                devid: devids[candidate.member.get()],
                offset: candidate.offset,
                in_flight: candidate.in_flight,
                score: reason.map(|reason| Figure::new(&reason.score)),
                parts: reason.map_or(Vec::new(), Figure::parts),
                foreseen_ns: candidate.expected.map(|foreseen| foreseen.0),
                taken,
                oracle: place == *oracle,
            }
        };
        ChoiceMade {
            at_ns: at.0,
            stream: read.stream,
            background: read.background,
            offset: read.offset,
            length: read.length,
            mirrors: candidates.iter().enumerate().map(mirror).collect(),
            took_ns: wait.map(|wait| wait.0),
            agreed: decision.agrees(),
            cost_ns: decision.cost().map(|cost| cost.0),
        }
    }

    /// The mirror that was read first.
    pub fn first(&self) -> &MirrorShown {
        let first = self.mirrors.iter().find(|mirror| mirror.taken == Taken::First);
        first.expect("one is read first")
    }

    /// The mirror that the oracle would have read.
    pub fn of_oracle(&self) -> &MirrorShown {
        self.mirrors.iter().find(|mirror| mirror.oracle).expect("it would have read one")
    }
}

impl Figure {
    fn new(part: &ScoreTerm) -> Figure {
        Figure { name: part.name, value: part.value }
    }

    fn parts(reason: &MirrorScore) -> Vec<Figure> {
        reason.parts.iter().map(Figure::new).collect()
    }

    /// Its name in words, without a unit that [`Figure::shown`] writes.
    pub fn words(name: &str) -> String {
        let bare = name.strip_suffix("_ns").or(name.strip_suffix("_bytes")).unwrap_or(name);
        bare.replace('_', " ")
    }

    /// Its value as people write it.
    pub fn shown(&self) -> String {
        let sign = if self.value < 0 { "-" } else { "" };
        let size = self.value.unsigned_abs();
        if self.name.ends_with("_ns") {
            format!("{sign}{}", Nanos(size))
        } else if self.name.contains("bytes") {
            format!("{sign}{}", shown_bytes(size))
        } else {
            format!("{sign}{size}")
        }
    }
}

/// Bytes with at most three digits before the point: `512`, `4K`, `1.5M`, `12.3G`.
pub(crate) fn shown_bytes(bytes: u64) -> String {
    let units = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];
    let Some((unit, power)) = units.into_iter().find(|(_, power)| bytes >> power > 0) else {
        return bytes.to_string();
    };
    let value = bytes as f64 / (1u64 << power) as f64;
    let decimals = match value {
        v if v == v.round() => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{unit}")
}
