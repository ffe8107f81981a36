//! The question about one array: what is run, and the answer.

use super::Args;
use super::target::{self, AdviseTarget};
use crate::ending::Failure;
use crate::folders;
use crate::progress::stop_at_ctrl_c;
use crate::rounds::{self, Rounds};
use crate::screen;
use anyhow::{Context, Result, anyhow};
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::{ArraySpec, MemberSource};
use mirrorball_lab::evaluation::advice::answer::{ArrayAnswer, OutOfService};
use mirrorball_lab::evaluation::advice::chosen_system::ChosenSystem;
use mirrorball_lab::evaluation::advice::maintenance::Maintenance;
use mirrorball_lab::evaluation::advice::question::{AdviceQuestion, QuestionOptions, Share};
use mirrorball_lab::evaluation::advice::stated_policy;
use mirrorball_lab::evaluation::advice::{Advice, advised_array};
use mirrorball_lab::experiment::build::BuildIdentity;
use mirrorball_lab::experiment::hash::stable_hash;
use mirrorball_lab::experiment::inputs::{Inputs, load_array};
use mirrorball_lab::experiment::plan::Cell;
use mirrorball_lab::experiment::run;
use mirrorball_lab::experiment::systems;
use std::path::Path;

/// A question that can be run.
pub(super) struct Question {
    pub(super) asked: AdviceQuestion,
    /// The array file, or the name of a built-in array.
    pub(super) array: String,
    /// Members that the advice takes for in service, and that are not.
    pub(super) out_of_service: Vec<OutOfService>,
}

impl Question {
    /// The question about a target. Fails if the array, a job or an option cannot be used, or no
    /// read of the array has a choice.
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
        out_of_service.extend(advised_array::out_of_service(&array));
        let name = target::as_advised(target.array.clone(), &array).map_err(Failure::WrongUse)?;
        let question = Question::about(args, &name, &chosen, jobs, Share::Whole, &[])?;
        Ok(Question { out_of_service, ..question })
    }

    /// Checks what can be checked before the disks of a target are measured. Fails if the system, a
    /// job or an option cannot be used, or members are paths to one device.
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
            let name = target::as_advised(target.array.clone(), spec).map_err(Failure::WrongUse)?;
            Question::about(args, &name, &chosen, jobs, Share::Whole, &[])?;
        }
        Ok(())
    }

    /// The question about an array that was checked. Jobs are simulated for at most the times
    /// `longest`, if it is not empty.
    pub(super) fn about(
        args: &Args,
        array: &str,
        chosen: &ChosenSystem,
        jobs: &[String],
        share: Share,
        longest: &[Nanos],
    ) -> Result<Question, Failure> {
        let options = QuestionOptions {
            policies: args.policy.clone(),
            repeats: args.repeats,
            budget: args.budget,
            seed: args.seed,
            duration: args.duration,
            jobs: jobs.to_vec(),
            longest: longest.to_vec(),
        };
        let inputs = Inputs::load(array, &options.job_names()).map_err(Failure::WrongUse)?;
        target::check_choice(array, &inputs.array)?;
        let build = BuildIdentity::current();
        let asked = AdviceQuestion::new(array, inputs, chosen.clone(), options, share, build);
        let asked = asked.map_err(Failure::WrongUse)?;
        Ok(Question { asked, array: array.to_owned(), out_of_service: Vec::new() })
    }

    /// True if a member is missing, has failed or is rebuilt.
    pub(super) fn is_out_of_service(&self, devid: u64) -> bool {
        self.out_of_service.iter().any(|it| it.devid == devid)
    }

    /// Runs the question, and returns the answer and whether a job completed nothing; `None` if it
    /// was interrupted. Fails if results cannot be written or a cell fails.
    pub(super) fn answer(&self, args: &Args) -> Result<Option<(ArrayAnswer, bool)>, Failure> {
        self.figures(args, None)
    }

    /// The answer `own` to this question with the figures of jobs that are simulated as long as
    /// those of `other`, to compare the two; `None` if it was interrupted.
    pub(super) fn as_long_as(
        &self,
        args: &Args,
        other: &Question,
        own: &ArrayAnswer,
    ) -> Result<Option<ArrayAnswer>, Failure> {
        let AdviceQuestion { chosen, options, durations, .. } = &self.asked;
        let longest = &other.asked.durations;
        if durations == longest {
            return Ok(Some(own.clone()));
        }
        let share = Share::OneOf(1);
        let mut again = Question::about(args, &self.array, chosen, &options.jobs, share, longest)?;
        // A change is compared with the best setting only.
        again.asked.plan.policies.retain(|policy| policy == own.best_setting());
        Ok(again.figures(args, Some(&own.advice))?.map(|(answer, _)| answer))
    }

    /// The answer with advice that was decided, if it was.
    fn figures(
        &self,
        args: &Args,
        decided: Option<&Advice>,
    ) -> Result<Option<(ArrayAnswer, bool)>, Failure> {
        let (plan, inputs) = (&self.asked.plan, &self.asked.inputs);
        // A folder of its own for each question: other jobs or repeats are another plan.
        let keys: Vec<String> = plan.cells().iter().map(Cell::key).collect();
        // A copy of an array under another name has the same cells, and is another plan.
        let sources = std::iter::once(&plan.array).chain(&plan.jobs);
        let sources = sources.flat_map(|input| [input.name.as_str(), input.text.as_str()]);
        let hash = stable_hash(keys.iter().map(String::as_str).chain(sources));
        let folder = folders::results().join(format!("advice-{}", &hash[..12]));
        let rounds = Rounds {
            plan,
            round: self.asked.round,
            costs: &self.asked.costs,
            inputs,
            folder: &folder,
            threads: args.threads,
            help: "change to a folder that you may write to",
        };
        let (part, ending, counts) =
            rounds.run(|part, summaries| self.asked.is_settled(part.seeds.len(), summaries))?;
        if self.asked.share == Share::Whole {
            rounds::say_counts(counts);
        }
        let summaries = match ending {
            run::Ending::Complete(summaries) => summaries,
            run::Ending::Interrupted { .. } => return Ok(None),
        };
        let out = &self.out_of_service;
        let (mut answer, is_dead) = self.asked.answer(part.seeds.len(), summaries, out, decided);
        answer.results = folder.display().to_string();
        let stop = stop_at_ctrl_c("finishing the running cells").map_err(Failure::Fault)?;
        if let Some(options) = self.asked.maintenance(&answer, out, args.threads, stop) {
            let measured = Maintenance::measure(&inputs.array, &options).map_err(Failure::Fault)?;
            let Some(maintenance) = measured else { return Ok(None) };
            answer.set_maintenance(Some(maintenance));
        }
        Ok(Some((answer, is_dead)))
    }
}

/// The storage system that is asked about. Says what its user should know of its version.
pub(super) fn chosen_system(args: &Args, name: &str, array: &ArraySpec) -> Result<ChosenSystem> {
    let chosen = system_of(args, name, array)?;
    if let Some(note) = &chosen.note {
        screen::say_later(format_args!("note: {note}"));
    }
    Ok(chosen)
}

fn system_of(args: &Args, name: &str, array: &ArraySpec) -> Result<ChosenSystem> {
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
