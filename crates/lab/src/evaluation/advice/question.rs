//! The question that advice answers: the cells that are run for an array, and the answer that their
//! results give.
//!
//! A question runs nothing itself: a caller runs the cells of its plan, where and when it likes.

use super::Advice;
use super::answer::{ArrayAnswer, OutOfService};
use super::chosen_system::{ChosenSystem, Offered};
use super::effort::{self, Pilot};
use super::maintenance::MaintenanceOptions;
use crate::experiment::build::BuildIdentity;
use crate::experiment::inputs::Inputs;
use crate::experiment::plan::{Choices, Plan, Reference};
use crate::experiment::study::{CellSummary, Criteria, Study};
use crate::experiment::systems::{System, WorkLimit};
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

/// Repeats of each job under each policy in a round, if no number is given.
const REPEATS: u32 = 6;

/// Parts of the repeats that are left out one by one to see whether the advice stays the same.
const PARTS: usize = 6;

/// Seed of the first repeat if none is given.
pub const SEED: u64 = 1;

/// Choices of the person who asks.
#[derive(Clone, Debug)]
pub struct QuestionOptions {
    /// Policies to compare with the settings of the system, separated by commas.
    pub policies: String,
    /// Number of repeats of each job under each policy; if not given, as many as decide, within
    /// the budget.
    pub repeats: Option<u32>,
    /// Time for all repeats on two cores.
    pub budget: Nanos,
    pub seed: u64,
    /// Simulated time of every job; chosen for each by what it does on the array if not given.
    pub duration: Option<Nanos>,
    /// The jobs that the person named; none for [`STANDARD_MIX`].
    pub jobs: Vec<String>,
    /// Simulated times that the jobs do not exceed, so that another array can be compared; empty
    /// for none.
    pub longest: Vec<Nanos>,
}

impl Default for QuestionOptions {
    fn default() -> QuestionOptions {
        QuestionOptions {
            policies: KNOWN_POLICIES.to_owned(),
            repeats: None,
            budget: effort::BUDGET,
            seed: SEED,
            duration: None,
            jobs: Vec::new(),
            longest: Vec::new(),
        }
    }
}

impl QuestionOptions {
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

/// How much is simulated for a question.
struct Effort {
    /// Simulated time of each job after its warm-up.
    durations: Vec<Nanos>,
    /// Most rounds of repeats.
    rounds: u32,
    /// What a cell of each job costs.
    costs: Vec<u64>,
    /// True if jobs are simulated for a shorter time than by default.
    is_short: bool,
}

/// A question that can be run.
#[derive(Debug)]
pub struct AdviceQuestion {
    /// The array and the jobs.
    pub inputs: Inputs,
    /// The storage system.
    pub chosen: ChosenSystem,
    /// The cells of all rounds of repeats.
    pub plan: Plan,
    /// Number of repeats of the first round, and of each one after it.
    pub round: usize,
    /// What a cell of each job costs next to those of the others.
    pub costs: Vec<u64>,
    /// Simulated time of each job after its warm-up.
    pub durations: Vec<Nanos>,
    /// True if jobs are simulated for a shorter time than by default.
    pub is_short: bool,
    /// What the person chose.
    pub options: QuestionOptions,
    /// How much of the time it has.
    pub share: Share,
    offered: Offered,
}

impl AdviceQuestion {
    /// The question about an array that the command line calls `name`. Fails if the system does not
    /// fit the array, or a policy is not known.
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
        let (round, seed) = (options.repeats.unwrap_or(REPEATS), options.seed);
        let specs_count = specs.len() as u64;
        let runs = parts * u64::from(round) * specs_count;
        let usual_runs = u64::from(REPEATS) * specs_count;
        let effort = Effort::new(&inputs, &offered.now, [runs, usual_runs], &options)?;
        let warm_ups: Vec<Nanos> = effort.durations.iter().map(|&it| effort::warm_up(it)).collect();
        let inputs = inputs.in_steady_state(&warm_ups);
        let rounds = if share == Share::Whole { effort.rounds } else { 1 };
        let copies = inputs.array.chunk_map()?.copies();
        let seeds = effort::seeds_in_rounds(seed, round, rounds, copies);
        let repeats = match options.repeats {
            Some(repeats) => format!("--repeats {repeats}"),
            None => format!("--budget {}ns", options.budget.0),
        };
        let words: Vec<String> = options.job_names().iter().map(|job| quoted(job)).collect();
        let duration =
            options.duration.map_or(String::new(), |it| format!(" --duration {}ns", it.0));
        let command = format!(
            "mirrorball advise {} {} --system {} --policy {} {repeats} --seed {seed}{duration}",
            quoted(name),
            words.join(" "),
            quoted(chosen.as_written()),
            quoted(policies),
        );
        let policies = specs.iter().map(ToString::to_string).collect();
        let choices = Choices { policies, seeds, duration_ns: options.duration.map(|it| it.0) };
        let (array, sources) = (inputs.array_source.clone(), inputs.job_sources.clone());
        let mut plan = Plan::new(build, array, sources, choices, command).with_looks(rounds);
        // No policy is judged by how close it comes to the oracle, which costs as much as four.
        plan.reference = Reference::Nothing;
        if options.duration.is_none() {
            let names = plan.jobs.iter().map(|job| job.name.clone());
            plan.job_durations_ns = names.zip(effort.durations.iter().map(|it| it.0)).collect();
        }
        let (round, Effort { costs, durations, is_short, .. }) = (round as usize, effort);
        Ok(AdviceQuestion {
            inputs,
            chosen,
            plan,
            round,
            costs,
            durations,
            is_short,
            options,
            share,
            offered,
        })
    }

    /// Canonical string of the policy in force.
    pub fn now(&self) -> &str {
        &self.offered.now
    }

    /// The limit that the system can put on its rebuild or scrub.
    pub fn limit(&self) -> Option<(&'static System, &'static WorkLimit)> {
        self.offered.limit(self.chosen.version.as_ref())
    }

    /// The answer from the cells of the first repeats of the plan, in its order, and whether a job
    /// completed nothing. The members `out` of the array are not in service on the machine. With
    /// advice that was `decided`, the cells are figures for it. Panics if `summaries` are not of
    /// those cells.
    pub fn answer(
        &self,
        repeats: usize,
        summaries: Vec<CellSummary>,
        out: &[OutOfService],
        decided: Option<&Advice>,
    ) -> (ArrayAnswer, bool) {
        let study = self.study(&self.plan.seeds[..repeats], summaries);
        let failed: Vec<u64> = out.iter().filter(|it| it.is_failed).map(|it| it.devid).collect();
        let array = &self.inputs.array;
        let new = || self.offered.advice(&study, array, &failed);
        let mut advice = decided.cloned().unwrap_or_else(new);
        for candidate in [&mut advice.offered, &mut advice.conditional, &mut advice.known] {
            candidate.iter_mut().for_each(|it| it.is_rough |= self.is_short);
        }
        let mut answer = ArrayAnswer::new(array, &study, advice);
        answer.mark_failed(out);
        (answer, study.has_dead_job())
    }

    /// True if more repeats than the first `repeats`, whose cells these are, would hardly change
    /// the advice: it is the same whichever part of them is left out.
    pub fn is_settled(&self, repeats: usize, summaries: &[CellSummary]) -> bool {
        let seeds = &self.plan.seeds[..repeats];
        let policies = |left_out: &[u64]| {
            let is_kept = |seed: &u64| !left_out.contains(seed);
            let kept: Vec<u64> = seeds.iter().copied().filter(is_kept).collect();
            let cells = summaries.iter().filter(|cell| is_kept(&cell.identity.seed)).cloned();
            let study = self.study(&kept, cells.collect());
            self.offered.advice(&study, &self.inputs.array, &[]).policies()
        };
        // Whole groups of seeds whose numbers of processes leave every remainder.
        let copies = self.inputs.array.chunk_map().map_or(1, |map| map.copies());
        let part = (copies * (repeats / copies).div_ceil(PARTS)).clamp(1, (repeats / 2).max(1));
        let all = policies(&[]);
        repeats > 1 && seeds.chunks(part).all(|part| policies(part) == all)
    }

    fn study(&self, seeds: &[u64], cells: Vec<CellSummary>) -> Study {
        let plan = self.plan.clone().with_seeds(seeds.to_vec());
        let baseline = Some(self.offered.now.clone());
        Study::new(plan, cells, Criteria { baseline, ..Criteria::default() })
    }

    /// How scrub, rebuild and flushes are measured under the policies of an answer; none if the
    /// question is not about them, as with jobs of the person's own.
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
            limit: self.limit(),
            rebuilt_devid: out.first().map(|member| member.devid),
            recovered_bytes: out.first().map_or(0, |it| it.recovered_bytes),
            duration: self.options.duration.unwrap_or(effort::LONGEST),
            seed: self.options.seed,
            threads,
            stop,
        })
    }
}

impl Effort {
    /// That for rounds of `runs` runs of each job, as the person chose; by default there are
    /// `usual_runs`. `now` is in force. Fails if the array cannot be simulated.
    fn new(
        inputs: &Inputs,
        now: &str,
        [runs, usual_runs]: [u64; 2],
        options: &QuestionOptions,
    ) -> Result<Effort> {
        let pilot = Pilot::run(inputs, now)?;
        let usual = pilot.durations(usual_runs, effort::BUDGET);
        let mut durations = match options.duration {
            Some(duration) => vec![duration; inputs.jobs.len()],
            None => pilot.durations(runs, options.budget),
        };
        for (duration, &longest) in durations.iter_mut().zip(&options.longest) {
            *duration = longest.min(*duration);
        }
        Ok(Effort {
            rounds: match options.repeats {
                Some(_) => 1,
                None => pilot.rounds(&durations, runs, options.budget),
            },
            costs: pilot.costs(&durations),
            is_short: durations.iter().zip(&usual).any(|(time, usual)| time < usual),
            durations,
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
