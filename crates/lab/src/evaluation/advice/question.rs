//! The question that advice answers: the cells that are run for an array, and the answer that their
//! results give.
//!
//! A question runs nothing itself: a caller runs the cells of its plan, where and when it likes.

use super::answer::{ArrayAnswer, OutOfService};
use super::chosen_system::{ChosenSystem, Offered};
use super::effort;
use super::maintenance::MaintenanceOptions;
use crate::experiment::build::BuildIdentity;
use crate::experiment::inputs::Inputs;
use crate::experiment::plan::{Choices, Plan};
use crate::experiment::study::{CellSummary, Criteria, Study};
use anyhow::{Result, anyhow};
use mirrorball_core::diagnostic::quoted;
use mirrorball_core::member::MemberIndex;
use mirrorball_core::policies::Registry;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::ArraySpec;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

/// The jobs if none is named: random reads, alone and many at once, one and several sequential
/// readers, each on an idle array and during a scrub.
pub const STANDARD_MIX: [&str; 8] = [
    "rand-4k-qd1", "rand-4k-qd32", "seq-read", "four-streams", "rand-4k-qd1-scrub",
    "rand-4k-qd32-scrub", "seq-read-scrub", "four-streams-scrub",
];

/// Policies that are compared with the settings of the system: one of each kind that is known to
/// do well somewhere.
pub const KNOWN_POLICIES: &str =
    "mirrorball/auto,md/raid1,zfs/mirror,gmirror/load,kakra/queue,research/peak-ewma,research/sed";

/// Repeats of each job under each policy if no number is given.
pub const REPEATS: u32 = 6;

/// Seed of the first repeat if none is given.
pub const SEED: u64 = 1;

/// Choices of the person who asks.
#[derive(Clone, Debug)]
pub struct QuestionOptions {
    /// Policies to compare with the settings of the system, separated by commas.
    pub policies: String,
    /// Number of repeats of each job under each policy.
    pub repeats: u32,
    /// Seed of the first repeat.
    pub seed: u64,
    /// Simulated time of every job; chosen by the array if not given.
    pub duration: Option<Nanos>,
    /// The jobs that the person named; none for [`STANDARD_MIX`].
    pub jobs: Vec<String>,
}

impl Default for QuestionOptions {
    fn default() -> QuestionOptions {
        QuestionOptions {
            policies: KNOWN_POLICIES.to_owned(),
            repeats: REPEATS,
            seed: SEED,
            duration: None,
            jobs: Vec::new(),
        }
    }
}

impl QuestionOptions {
    /// The names of the jobs that are run.
    pub fn job_names(&self) -> Vec<String> {
        match &self.jobs[..] {
            [] => STANDARD_MIX.map(str::to_owned).to_vec(),
            jobs => jobs.to_vec(),
        }
    }
}

/// How much of the time for an answer a question has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// All of it.
    Whole,
    /// One of several changes: only settings of the system are compared, and no times of
    /// maintenance are measured.
    OneOf(usize),
}

/// A question that can be run.
#[derive(Debug)]
pub struct AdviceQuestion {
    /// The array and the jobs.
    pub inputs: Inputs,
    /// The storage system.
    pub chosen: ChosenSystem,
    /// The cells to run.
    pub plan: Plan,
    /// What the person chose.
    pub options: QuestionOptions,
    /// How much of the time it has.
    pub share: Share,
    offered: Offered,
}

impl AdviceQuestion {
    /// The question about an array that the command line calls `name`.
    ///
    /// # Errors
    /// If the system does not fit the array, or a policy is not known.
    pub fn new(
        name: &str,
        inputs: Inputs,
        chosen: ChosenSystem,
        options: QuestionOptions,
        share: Share,
        build: BuildIdentity,
    ) -> Result<AdviceQuestion> {
        let (inputs, offered) = chosen.offered(inputs)?;
        let (policies, parts) = match share {
            Share::Whole => (options.policies.as_str(), 1),
            Share::OneOf(count) => (offered.now.as_str(), count as u64),
        };
        let specs = offered
            .with(policies, &Registry::default())
            .map_err(|error| anyhow!("--policy: {error}"))?;
        let (repeats, seed) = (options.repeats, options.seed);
        let seeds = effort::balanced_seeds(seed, repeats, inputs.array.chunk_map()?.copies());
        let duration = match options.duration {
            Some(duration) => duration,
            None => {
                // The oracle runs, too.
                let runs = parts * seeds.len() as u64 * (specs.len() as u64 + 1);
                effort::duration(&inputs, &offered.now, runs)?
            }
        };
        let words: Vec<String> = options.job_names().iter().map(|job| quoted(job)).collect();
        let command = format!(
            "mirrorball advise {} {} --system {} --policy {} --repeats {repeats} --seed {seed} \
             --duration {}ns",
            quoted(name),
            words.join(" "),
            quoted(chosen.as_written()),
            quoted(policies),
            duration.0
        );
        let policies = specs.iter().map(ToString::to_string).collect();
        let choices = Choices { policies, repeats, seed, duration_ns: Some(duration.0) };
        let (array, sources) = (inputs.array_source.clone(), inputs.job_sources.clone());
        let plan = Plan::new(build, array, sources, choices, command).with_seeds(seeds);
        Ok(AdviceQuestion { inputs, chosen, plan, offered, options, share })
    }

    /// Canonical string of the policy in force.
    pub fn now(&self) -> &str {
        &self.offered.now
    }

    /// The answer from the cells of the first repeats of the plan, in its order, and whether a job
    /// completed nothing. The members `out` of the array are not in service on the machine.
    ///
    /// # Panics
    /// If `summaries` are not of those cells.
    pub fn answer(
        &self,
        repeats: usize,
        summaries: Vec<CellSummary>,
        out: &[OutOfService],
    ) -> (ArrayAnswer, bool) {
        let plan = self.plan.clone().with_seeds(self.plan.seeds[..repeats].to_vec());
        let baseline = Some(self.offered.now.clone());
        let study = Study::new(plan, summaries, Criteria { baseline, ..Criteria::default() });
        let failed: Vec<u64> = out.iter().filter(|it| it.is_failed).map(|it| it.devid).collect();
        let array = &self.inputs.array;
        let advice = self.offered.advice(&study, array, &failed);
        let mut answer = ArrayAnswer::new(array, &study, advice);
        answer.mark_failed(out);
        (answer, study.has_dead_job())
    }

    /// How scrub, rebuild and flushes are measured under the policies of an answer; none if the
    /// question is not about them, as with jobs of the person's own.
    ///
    /// # Panics
    /// If the plan has no duration.
    pub fn maintenance<'a>(
        &self,
        answer: &ArrayAnswer,
        out: &[OutOfService],
        threads: Option<NonZeroUsize>,
        stop: &'a AtomicBool,
    ) -> Option<MaintenanceOptions<'a>> {
        if !self.options.jobs.is_empty() || self.share != Share::Whole {
            return None;
        }
        Some(MaintenanceOptions {
            policies: answer.advice.policies(),
            has_copies: !self.chosen.system.is_multipath,
            has_cursors: ["btrfs", "zfs"].contains(&self.chosen.system.name),
            rebuilt_devid: out.first().map(|member| member.devid),
            recovered_bytes: out.first().map_or(0, |it| it.recovered_bytes),
            duration: Nanos(self.plan.duration_ns.expect("the plan of an advice has a duration")),
            seed: self.options.seed,
            threads,
            stop,
        })
    }
}

/// The devids that are missing from an array of which no read has a choice of members without them;
/// empty if some has.
pub fn devids_for_choice(spec: &ArraySpec) -> Vec<u64> {
    let is_in_service = |member: usize| spec.members[member].is_in_service();
    let has_choice = spec.chunk_map().is_ok_and(|map| {
        let serve = |member: &(MemberIndex, u64)| is_in_service(member.0.get());
        map.copies() > 1 && map.mirror_sets().any(|set| set.filter(serve).count() > 1)
    });
    let failed = spec.members.iter().filter(|member| !has_choice && !member.is_in_service());
    failed.map(|member| member.devid).collect()
}
