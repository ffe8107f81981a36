//! The question about one array: what is run, and the answer.

use super::target::{self, FOLDER, Target};
use super::{Args, STANDARD_MIX};
use crate::compare::system::{ChosenSystem, Offered};
use crate::compare::{self, progress};
use crate::ending::Failure;
use anyhow::{Context, Result, anyhow};
use mirrorball_disk::array_file::ArraySpec;
use mirrorball_lab::evaluation::advice::Advice;
use mirrorball_lab::experiment::build::BuildIdentity;
use mirrorball_lab::experiment::hash::stable_hash;
use mirrorball_lab::experiment::inputs::{Inputs, load_array};
use mirrorball_lab::experiment::plan::{Cell, Choices, Plan};
use mirrorball_lab::experiment::results::Results;
use mirrorball_lab::experiment::run;
use mirrorball_lab::experiment::study::{Criteria, Study};
use std::path::{Path, PathBuf};

/// A question that can be run.
pub(super) struct Question {
    pub(super) inputs: Inputs,
    offered: Offered,
    plan: Plan,
}

/// What came of a question.
pub(super) struct Answer {
    pub(super) study: Study,
    pub(super) advice: Advice,
    /// The results folder.
    pub(super) folder: PathBuf,
}

impl Question {
    /// The question about a target.
    ///
    /// # Errors
    /// If the array, a job or an option cannot be used, or no read of the array has a choice.
    pub(super) fn new(args: &Args, target: &Target, jobs: &[String]) -> Result<Question, Failure> {
        let array = load_array(&target.array).map_err(Failure::WrongUse)?.1;
        let chosen = chosen_system(args, &array).map_err(Failure::WrongUse)?;
        let name = target::without_flags(target.array.clone(), &array, &chosen);
        Question::about(args, &name.map_err(Failure::WrongUse)?, &chosen, jobs)
    }

    /// The question about an array file without flags.
    fn about(
        args: &Args,
        array: &str,
        chosen: &ChosenSystem,
        jobs: &[String],
    ) -> Result<Question, Failure> {
        let jobs: Vec<String> = match jobs {
            [] => STANDARD_MIX.map(str::to_owned).to_vec(),
            jobs => jobs.to_vec(),
        };
        let inputs = Inputs::load(array, &jobs).map_err(Failure::WrongUse)?;
        target::check_choice(array, &inputs.array)?;
        let offered = chosen.offered(&inputs.array).map_err(Failure::WrongUse)?;
        let plan = plan(args, array, &inputs, &offered, &jobs).map_err(Failure::WrongUse)?;
        Ok(Question { inputs, offered, plan })
    }

    /// Runs the question; `None` if it was interrupted.
    ///
    /// # Errors
    /// If results cannot be written or a cell fails.
    pub(super) fn answer(self, args: &Args) -> Result<Option<Answer>, Failure> {
        // A folder of its own for each question: other jobs or repeats are another plan.
        let keys: Vec<String> = self.plan.cells().iter().map(Cell::key).collect();
        let hash = stable_hash(keys.iter().map(String::as_str));
        let folder = Path::new(FOLDER).join(format!("advice-{}", &hash[..12]));
        let results = Results::open(&folder, &self.plan)
            .with_context(|| format!("cannot write results into {}", folder.display()))
            .map_err(Failure::WrongUse)?;
        let ending = progress::run_cells(args.threads, &self.plan, &self.inputs, &results);
        let summaries = match ending.map_err(Failure::Fault)? {
            run::Ending::Complete(summaries) => summaries,
            run::Ending::Interrupted { .. } => return Ok(None),
        };
        let baseline = Some(self.offered.now.clone());
        let study = Study::new(self.plan, summaries, Criteria { baseline, ..Criteria::default() });
        let advice = self.offered.advice(&study, &self.inputs.array);
        Ok(Some(Answer { study, advice, folder }))
    }
}

fn chosen_system(args: &Args, array: &ArraySpec) -> Result<ChosenSystem> {
    if let Some(system) = &args.system {
        return Ok(system.clone());
    }
    let Some(source) = &array.source else {
        let help = "name it with --system, for example --system md:6.12";
        return Err(anyhow!(
            "the array file does not say which storage system the array is of\n  help: {help}"
        ));
    };
    ChosenSystem::found(&source.system, source.version.as_deref())
        .context("the array's storage system")
}

fn plan(
    args: &Args,
    name: &str,
    inputs: &Inputs,
    offered: &Offered,
    jobs: &[String],
) -> Result<Plan> {
    let specs = offered.with(&args.policy).map_err(|error| anyhow!("--policy: {error}"))?;
    let policies: Vec<String> = specs.iter().map(ToString::to_string).collect();
    let list = policies.join(",");
    let choices = Choices {
        policies,
        repeats: args.repeats,
        seed: args.seed,
        duration_ns: Some(args.duration.0),
    };
    let (array, sources) = (inputs.array_source.clone(), inputs.job_sources.clone());
    let words: Vec<String> = jobs.iter().map(|job| compare::quoted(job)).collect();
    let command = format!(
        "mirrorball compare {} {} --policy {} --repeats {} --seed {} --duration {}ns",
        compare::quoted(name),
        words.join(" "),
        compare::quoted(&list),
        args.repeats,
        args.seed,
        args.duration.0
    );
    Ok(Plan::new(BuildIdentity::current()?, array, sources, choices, command))
}
