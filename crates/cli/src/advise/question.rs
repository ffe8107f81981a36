//! The question about one array: what is run, and the answer.

use super::target::{self, AdviseTarget, FOLDER};
use super::{Args, STANDARD_MIX};
use crate::compare;
use crate::compare::system::{ChosenSystem, Offered};
use crate::ending::Failure;
use crate::progress::stop_at_ctrl_c;
use crate::screen;
use anyhow::{Context, Result, anyhow};
use mirrorball_core::diagnostic::quoted;
use mirrorball_core::policies::Registry;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::{ArraySpec, MemberSource};
use mirrorball_lab::evaluation::advice::answer::{ArrayAnswer, OutOfService};
use mirrorball_lab::evaluation::advice::effort;
use mirrorball_lab::evaluation::advice::maintenance::{Maintenance, MaintenanceOptions};
use mirrorball_lab::evaluation::advice::stated_policy;
use mirrorball_lab::experiment::build::BuildIdentity;
use mirrorball_lab::experiment::hash::stable_hash;
use mirrorball_lab::experiment::inputs::{Inputs, load_array};
use mirrorball_lab::experiment::plan::{Cell, Choices, Plan};
use mirrorball_lab::experiment::results::Results;
use mirrorball_lab::experiment::run;
use mirrorball_lab::experiment::study::{Criteria, Study};
use mirrorball_lab::experiment::systems;
use std::path::Path;

/// A question that can be run.
pub(super) struct Question {
    pub(super) inputs: Inputs,
    /// The array file, or the name of a built-in array.
    pub(super) array: String,
    /// The jobs that were named.
    pub(super) jobs: Vec<String>,
    pub(super) chosen: ChosenSystem,
    offered: Offered,
    plan: Plan,
    /// Members that the advice takes for in service, and that are not.
    pub(super) out_of_service: Vec<OutOfService>,
    share: Share,
}

/// How much of the time for an answer a question has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// All of it.
    Whole,
    /// One of several changes: only settings of the system are compared, and no times of
    /// maintenance are measured.
    OneOf(usize),
}

impl Question {
    /// The question about a target.
    ///
    /// # Errors
    /// If the array, a job or an option cannot be used, or no read of the array has a choice.
    pub(super) fn new(
        args: &Args,
        target: &AdviseTarget,
        jobs: &[String],
    ) -> Result<Question, Failure> {
        let array = load_array(&target.array).map_err(Failure::WrongUse)?.1;
        let chosen = chosen_system(args, &target.array, &array).map_err(Failure::WrongUse)?;
        let condition = array.source.as_ref().and_then(|source| source.condition.as_deref());
        target::check_running(&array.name, condition)?;
        let stated = array.source.as_ref().and_then(|source| source.policy.as_deref());
        if let (Some(policy), None) = (stated, stated_policy(&array, chosen.system)) {
            screen::say_later(format_args!(
                "note: the policy in force, `{policy}`, is not known to Mirrorball"
            ));
        }
        let mut out_of_service = target.out_of_service.clone();
        out_of_service.extend(target::out_of_service(&array));
        let name = target::as_advised(target.array.clone(), &array, &chosen);
        let name = name.map_err(Failure::WrongUse)?;
        let question = Question::about(args, &name, &chosen, jobs, Share::Whole)?;
        Ok(Question { out_of_service, ..question })
    }

    /// Checks what can be checked before the disks of a target are measured.
    ///
    /// # Errors
    /// If the system, a job or an option cannot be used, or members are paths to one device.
    pub(super) fn check(
        args: &Args,
        target: &AdviseTarget,
        spec: &ArraySpec,
        jobs: &[String],
    ) -> Result<(), Failure> {
        let chosen = chosen_system(args, &target.array, spec).map_err(Failure::WrongUse)?;
        if chosen.system.is_multipath {
            return Err(Failure::WrongUse(anyhow!(
                "--probe measures disks, but the members of {} are paths to one device\n  help: \
                 leave out --probe",
                spec.name
            )));
        }
        // Real members are not simulated as they are; they may become models.
        if spec.members.iter().all(|it| matches!(it.source, MemberSource::Model(_))) {
            Question::about(args, &target.array, &chosen, jobs, Share::Whole)?;
        }
        Ok(())
    }

    /// The question about an array file without flags.
    ///
    /// # Errors
    /// As above.
    pub(super) fn about(
        args: &Args,
        array: &str,
        chosen: &ChosenSystem,
        jobs: &[String],
        share: Share,
    ) -> Result<Question, Failure> {
        let mix: Vec<String> = match jobs {
            [] => STANDARD_MIX.map(str::to_owned).to_vec(),
            jobs => jobs.to_vec(),
        };
        let inputs = Inputs::load(array, &mix).map_err(Failure::WrongUse)?;
        target::check_choice(array, &inputs.array)?;
        let offered = chosen.offered(&inputs.array).map_err(Failure::WrongUse)?;
        let plan = plan(args, array, &inputs, &offered, chosen, &mix, share);
        let plan = plan.map_err(Failure::WrongUse)?;
        let (array, jobs, chosen) = (array.to_owned(), jobs.to_vec(), chosen.clone());
        let out_of_service = Vec::new();
        Ok(Question { inputs, array, jobs, chosen, offered, plan, out_of_service, share })
    }

    /// Canonical string of the policy in force.
    pub(super) fn now(&self) -> &str {
        &self.offered.now
    }

    /// Runs the question, and returns the answer and whether a job completed nothing; `None` if it
    /// was interrupted.
    ///
    /// # Errors
    /// If results cannot be written or a cell fails.
    pub(super) fn answer(&self, args: &Args) -> Result<Option<(ArrayAnswer, bool)>, Failure> {
        // A folder of its own for each question: other jobs or repeats are another plan.
        let keys: Vec<String> = self.plan.cells().iter().map(Cell::key).collect();
        // A copy of an array under another name has the same cells, and is another plan.
        let inputs = std::iter::once(&self.plan.array).chain(&self.plan.jobs);
        let inputs = inputs.flat_map(|input| [input.name.as_str(), input.text.as_str()]);
        let hash = stable_hash(keys.iter().map(String::as_str).chain(inputs));
        let folder = Path::new(FOLDER).join(format!("advice-{}", &hash[..12]));
        let results = Results::open(&folder, &self.plan).map_err(|error| {
            let help = "change to a folder that you may write to";
            Failure::WrongUse(anyhow!("{error:#}\n  help: {help}"))
        })?;
        let ran = compare::run_cells(args.threads, &self.plan, &self.inputs, &results);
        let (ending, counts) = ran.map_err(Failure::Fault)?;
        if self.share == Share::Whole {
            compare::say_counts(counts);
        }
        let summaries = match ending {
            run::Ending::Complete(summaries) => summaries,
            run::Ending::Interrupted { .. } => return Ok(None),
        };
        let baseline = Some(self.offered.now.clone());
        let duration = Nanos(self.plan.duration_ns.expect("the plan of an advice has a duration"));
        let plan = self.plan.clone();
        let study = Study::new(plan, summaries, Criteria { baseline, ..Criteria::default() });
        let array = &self.inputs.array;
        let failed = self.out_of_service.iter().filter(|member| member.is_failed);
        let failed: Vec<u64> = failed.map(|member| member.devid).collect();
        let advice = self.offered.advice(&study, array, &failed);
        let mut answer = ArrayAnswer::new(array, &study, advice);
        answer.results = folder.display().to_string();
        answer.mark_failed(&self.out_of_service);
        // With jobs of their own, users have asked something else.
        if self.jobs.is_empty() && self.share == Share::Whole {
            let options = MaintenanceOptions {
                policies: answer.advice.policies(),
                has_copies: !self.chosen.system.is_multipath,
                has_cursors: ["btrfs", "zfs"].contains(&self.chosen.system.name),
                rebuilt_devid: self.out_of_service.first().map(|member| member.devid),
                recovered_bytes: self.out_of_service.first().map_or(0, |it| it.recovered_bytes),
                duration,
                seed: args.seed,
                threads: args.threads,
                stop: stop_at_ctrl_c("finishing the running cells").map_err(Failure::Fault)?,
            };
            answer.maintenance = match Maintenance::measure(array, &options) {
                Ok(Some(maintenance)) => Some(maintenance),
                Ok(None) => return Ok(None),
                Err(error) => return Err(Failure::Fault(error)),
            };
        }
        Ok(Some((answer, study.has_dead_job())))
    }
}

pub(super) fn chosen_system(args: &Args, name: &str, array: &ArraySpec) -> Result<ChosenSystem> {
    if let Some(chosen) = &args.system {
        return match &array.source {
            Some(source)
                if systems::find(&source.system)?.serving(array)
                    != chosen.system.serving(array) =>
            {
                Err(anyhow!(
                    "--system {}: the array {} is of the storage system {}\n  help: leave out \
                     --system, or give a version of that system, as in --system {2}:VERSION",
                    chosen.system.name,
                    array.name,
                    source.system
                ))
            }
            _ => Ok(chosen.clone()),
        };
    }
    let Some(source) = &array.source else {
        if !Path::new(name).exists() {
            screen::say_later(format_args!(
                "note: a built-in array names no storage system; md is assumed, and --system names \
                 another"
            ));
            return ChosenSystem::found("md", None);
        }
        return Err(anyhow!(
            "the array {name} names no storage system\n  help: give --system md, or add \
             `[source]` and below it `system = \"md\"` to the file"
        ));
    };
    ChosenSystem::found(&source.system, source.version.as_deref())
        .context("the array's storage system")
}

/// The plan, with seeds and a duration that the array asks for.
fn plan(
    args: &Args,
    name: &str,
    inputs: &Inputs,
    offered: &Offered,
    chosen: &ChosenSystem,
    jobs: &[String],
    share: Share,
) -> Result<Plan> {
    let (policies, parts) = match share {
        Share::Whole => (args.policy.as_str(), 1),
        Share::OneOf(count) => (offered.now.as_str(), count as u64),
    };
    let specs = offered
        .with(policies, &Registry::default())
        .map_err(|error| anyhow!("--policy: {error}"))?;
    let seeds = effort::balanced_seeds(args.seed, args.repeats, inputs.array.chunk_map()?.copies());
    let duration = match args.duration {
        Some(duration) => duration,
        // The oracle runs, too.
        None => effort::duration(
            inputs,
            &offered.now,
            parts * seeds.len() as u64 * (specs.len() as u64 + 1),
        )?,
    };
    let words: Vec<String> = jobs.iter().map(|job| quoted(job)).collect();
    let command = format!(
        "mirrorball advise {} {} --system {} --policy {} --repeats {} --seed {} --duration {}ns",
        quoted(name),
        words.join(" "),
        quoted(chosen.as_written()),
        quoted(policies),
        args.repeats,
        args.seed,
        duration.0
    );
    let policies = specs.iter().map(ToString::to_string).collect();
    let (repeats, seed, duration_ns) = (args.repeats, args.seed, Some(duration.0));
    let choices = Choices { policies, repeats, seed, duration_ns };
    let (array, sources) = (inputs.array_source.clone(), inputs.job_sources.clone());
    Ok(Plan::new(BuildIdentity::current()?, array, sources, choices, command).with_seeds(seeds))
}
