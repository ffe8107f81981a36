//! Explanation of the choices of a policy within a window of simulated time: the scores that the
//! policy gave, the expected time of each mirror, and the mirror that the oracle would have read.
//!
//! [`explain`] runs one job under one policy and one seed, the cell that a comparison with that
//! seed would run, up to the end of the window. It returns plain data, which reports write;
//! nothing is saved.
//!
//! The oracle is greedy: the explanation says what another mirror would have been worth for that
//! one choice, in the situation that the policy had brought about, and not how the rest of the run
//! would have changed.

mod summary;

use crate::experiment::inputs::Inputs;
use crate::experiment::record::{FAIR_ORACLE, ORACLE, PROGRAM_VERSION};
use anyhow::{Result, anyhow, bail};
use mirrorball_core::member::MemberState;
use mirrorball_core::policies::short_policy_name;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::MemberSpec;
use mirrorball_sim::engine::{self, Checks, PolicyUnderTest, Simulation};
use mirrorball_sim::explain::{ExplainedChoice, Explanation, TraceWindow};
use mirrorball_sim::job::Direction;
use serde::Serialize;

pub use summary::{MemberShare, Summary};

/// Maximum number of choices in an explanation.
pub const READS_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug)]
pub struct ExplainRequest<'a> {
    /// A policy string, [`ORACLE`] or [`FAIR_ORACLE`].
    pub policy: &'a str,
    pub seed: u64,
    /// Replaces every section's `runtime`, if given.
    pub duration: Option<Nanos>,
    pub from: Nanos,
    pub limit: TraceLimit,
}

/// The end of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceLimit {
    /// After this number of choices, at most [`READS_MAX`].
    Reads(usize),
    /// After this time, or after [`READS_MAX`] choices.
    Time(Nanos),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explained {
    pub program_version: &'static str,
    pub array: String,
    pub job: String,
    pub policy: String,
    pub seed: u64,
    pub from_ns: u64,
    /// Whether the window had more choices than [`READS_MAX`].
    pub is_cut_short: bool,
    /// The choices, in the order in which they were made.
    pub choices: Vec<ExplainedChoice>,
    pub summary: Summary,
}

/// Start of the window if the user gives none.
pub const WINDOW_START: Nanos = Nanos::from_secs(1);

/// Runs the one job of `inputs` to the end of the window, and explains the choices made in it.
/// Fails if the policy does not fit the array, or no choice was made in the window. Panics if there
/// is not exactly one job.
pub fn explain(inputs: &Inputs, request: &ExplainRequest<'_>) -> Result<Explained> {
    let ([jobs], [job]) = (&inputs.jobs[..], &inputs.job_sources[..]) else {
        panic!("explain takes one job");
    };
    let spec;
    let policy = match request.policy {
        ORACLE => PolicyUnderTest::Oracle,
        FAIR_ORACLE => PolicyUnderTest::FairOracle,
        policy => {
            spec = inputs.registry.parse(policy)?;
            PolicyUnderTest::Parsed(&spec)
        }
    };
    let (until, reads) = match request.limit {
        TraceLimit::Reads(reads) => (Nanos::MAX, reads.min(READS_MAX)),
        // One more shows that there were more.
        TraceLimit::Time(time) => (request.from.saturating_add(time), READS_MAX + 1),
    };
    let window = TraceWindow { from: request.from, until, reads_max: reads };
    let run = Simulation {
        array: &inputs.array,
        job: jobs,
        policy,
        seed: request.seed,
        duration: request.duration,
        checks: Checks::Off,
    };
    let mut explanation = engine::explain(&run, window)?;
    if explanation.choices.is_empty() {
        bail!(nothing_decided(&explanation, inputs, request));
    }
    let is_cut_short = explanation.choices.len() > READS_MAX;
    explanation.choices.truncate(READS_MAX);
    let Explanation { choices, devids, .. } = explanation;
    Ok(Explained {
        program_version: PROGRAM_VERSION,
        array: inputs.array_source.name.clone(),
        job: job.name.clone(),
        policy: request.policy.to_owned(),
        seed: request.seed,
        from_ns: request.from.0,
        is_cut_short,
        summary: Summary::new(&choices, &devids),
        choices,
    })
}

/// Why there was nothing to choose.
fn nothing_decided(
    explanation: &Explanation,
    inputs: &Inputs,
    request: &ExplainRequest<'_>,
) -> anyhow::Error {
    let (ended, from) = (explanation.ended, request.from);
    let is_over = |duration: &Nanos| *duration < ended && duration.to_string() != ended.to_string();
    let end = match request.duration.filter(is_over) {
        Some(duration) => {
            format!("{ended} ({duration} of --duration, and the requests in flight then)")
        }
        None => ended.to_string(),
    };
    if ended <= from {
        let option = if from == WINDOW_START { "the default of --at" } else { "--at" };
        return anyhow!(
            "the window starts at {from} ({option}), but the job ends at {end}\n  help: give an \
             earlier --at, or give the job more time with --duration"
        );
    }
    let none = "no read had two mirrors to choose from";
    let profile = inputs.array.profile;
    if profile.copies() == 1 {
        let name = profile.name();
        return anyhow!("{none}: {name} keeps one copy\n  help: raid1 and raid10 keep more");
    }
    let mut directions = inputs.jobs.iter().flat_map(|file| &file.sections).map(|job| job.mix);
    if !directions.any(|mix| mix.directions().contains(&Direction::Read)) {
        return anyhow!(
            "{none}: the job does not read\n  help: use a job with reads, such as rw=randread"
        );
    }
    let unread: Vec<String> = inputs.array.members.iter().filter_map(why_unread).collect();
    if unread.is_empty() {
        return anyhow!(
            "no read with a choice of mirrors began between {from} (--at) and the end of the job \
             at {end}\n  help: give an earlier --at, or a longer --for or --duration"
        );
    }
    let unread = unread.join(", ");
    anyhow!(
        "{none}: {unread}\n  help: remove `failed`, `rebuilding` or `write_mostly` from members in \
         the array file, or give an array with more mirrors"
    )
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
    pub fn title(&self) -> String {
        let Explained { array, job, policy, seed, .. } = self;
        let policy = short_policy_name(policy);
        let count = match &self.choices[..] {
            [_] => "one choice".to_owned(),
            choices => format!("{} choices", choices.len()),
        };
        let from = Nanos(self.from_ns);
        let from = match from {
            Nanos::ZERO => "the start".to_owned(),
            from => from.to_string(),
        };
        format!("{count} of {policy} from {from} on: {job} on {array}, seed {seed}")
    }

    /// Whether the policy gave reasons.
    pub(crate) fn has_scores(&self) -> bool {
        self.choices.iter().flat_map(|choice| &choice.mirrors).any(|it| it.score.is_some())
    }

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
