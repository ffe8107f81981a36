//! `mirrorball compare`: which read policy serves an array and its jobs best.
//!
//! All arguments and files are read and checked before anything is written or run; an error up to
//! then is wrong use. Then the lab runs the plan. A first Ctrl-C lets the cells that are running
//! finish, a second one ends the program at once.

mod folder;

use crate::ending::{Ending, Failure};
use crate::numbers::{self, THREADS, whole_number};
use crate::ranking::RankingArgs;
use crate::rounds::{self, Rounds};
use crate::{programs, report, screen};
use anyhow::{Result, anyhow};
use clap::builder::{PossibleValue, PossibleValuesParser};
use mirrorball_core::diagnostic::quoted;
use mirrorball_core::policies::{PROGRAM_FAMILY, Spec, rounding_notes};
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::ArrayFile;
use mirrorball_lab::evaluation::advice::chosen_system::{ChosenSystem, Offered};
use mirrorball_lab::evaluation::advice::effort::{self, Pilot};
use mirrorball_lab::evaluation::advice::text;
use mirrorball_lab::experiment::build::BuildIdentity;
use mirrorball_lab::experiment::inputs::{DEFAULT_JOBS, Inputs, builtin_job_names};
use mirrorball_lab::experiment::plan::{Choices, Plan, Reference};
use mirrorball_lab::experiment::run;
use mirrorball_lab::experiment::study::Study;
use mirrorball_lab::report::{FORMATS, Findings, Format, TableExtent, brief};
use mirrorball_sim::job::Section;
use std::num::NonZeroUsize;
use std::path::PathBuf;

const REPEATS: u32 = 6;
const SEED: u64 = 1;
const ALL_POLICIES: &str = "all";
/// The policy whose runs tell how fast an array is: it makes use of all members.
const PILOT_POLICY: &str = "mirrorball/auto";

/// Compare read policies on a simulated array
///
/// Runs every job under every policy, several times with different seeds, and says which policy
/// serves the array best and by how much. Without arguments: six unequal hard disks in RAID1;
/// random 4 KiB reads with queue depth 1 and 32, and sequential reads, each without other load and
/// during a defragmentation; all policies.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Args {
    /// Array: a TOML file or a built-in array
    #[arg(default_value = ArrayFile::DEFAULT)]
    array: String,

    /// Jobs: fio job files or built-in jobs
    #[arg(value_name = "JOB", default_values = DEFAULT_JOBS, hide_default_value = true)]
    jobs: Vec<String>,

    /// Policies to compare, separated by commas; `btrfs/*` means all policies of btrfs, and
    /// `program:FILE` a program
    #[arg(short, long, value_name = "LIST", default_value = ALL_POLICIES)]
    policy: String,

    #[command(flatten)]
    ranking: RankingArgs,

    /// Also compare the settings of a storage system, of VERSION or of its newest version, and say
    /// what to do: btrfs, md:6.12, zfs, …
    ///
    /// The answer names what the system has now, the best that it offers with the commands to set,
    /// check and undo it, and the best policy known. Systems: btrfs, md (RAID1; for an array of
    /// profile raid10 its RAID10), lvm, dm, zfs, gmirror, drbd, nvme, serve, bcachefs, graid, spdk,
    /// raidframe, crucible, solaris, vxvm.
    #[arg(long, value_name = "SYSTEM[:VERSION]")]
    system: Option<ChosenSystem>,

    /// Number of repeats of each job under each policy, from 1 to 1000, each with another seed
    /// [default: 6, and 6 more at a time until the verdict is certain or the budget is used]
    #[arg(short = 'n', long, value_name = "N",
          allow_hyphen_values = true, value_parser = whole_number(1u32..=1000))]
    repeats: Option<u32>,

    /// Time for all repeats, on two CPUs of a usual machine: results do not depend on how fast this
    /// one is
    #[arg(long, value_name = "TIME", default_value_t = effort::BUDGET, conflicts_with = "repeats",
          allow_hyphen_values = true, value_parser = numbers::positive_duration)]
    budget: Nanos,

    /// Seed of the first repeat. The others have seeds after it, such that the numbers of processes
    /// leave every remainder equally often, on which `btrfs/pid` decides
    #[arg(short, long, default_value_t = SEED, allow_hyphen_values = true,
          value_parser = numbers::seed)]
    seed: u64,

    /// Simulated time of every job with its unit, for example 500ms, 10s or 2m [default: the
    /// `runtime` in the job; of time-based jobs less if all runs would take longer than --budget,
    /// if --repeats is not given]
    #[arg(short, long, value_name = "TIME", allow_hyphen_values = true,
          value_parser = numbers::positive_duration)]
    duration: Option<Nanos>,

    /// Leave out the oracle, a reference that takes the mirror which the disk models say completes
    /// the read first. It is always left out for jobs with more than four times the requests in
    /// flight that the disks accept at once
    #[arg(long)]
    no_oracle: bool,

    /// Show every policy in the tables, not only the ten best, the baseline and those that --policy
    /// names one by one
    #[arg(long)]
    all: bool,

    /// Also show the tables of each job and section: rates, latencies and shares of the members
    #[arg(long)]
    tables: bool,

    /// Output format
    #[arg(short, long, default_value = FORMATS[0].name, value_parser = format_names())]
    format: String,

    /// Results folder, which is created if it is missing, with those above it [default:
    /// mirrorball-results/ARRAY-JOBS, and a suffix if other options differ from their defaults]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Also write an HTML page with charts to this file [default: report.html in the results
    /// folder]
    #[arg(long, value_name = "FILE.html", num_args = 0..=1,
          default_missing_value = report::IN_RESULTS, value_parser = report::page_file)]
    report: Option<PathBuf>,

    /// Number of threads, from 1 to 1024; results do not depend on it [default: one per CPU]
    #[arg(short, long, value_name = "N", allow_hyphen_values = true,
          value_parser = whole_number(THREADS))]
    threads: Option<NonZeroUsize>,
}

fn after_help() -> String {
    let arrays: Vec<&str> = ArrayFile::builtin_names().collect();
    let jobs: Vec<&str> = builtin_job_names().collect();
    format!(
        "Built-in arrays: {}
Built-in jobs: {}
Policies: see `mirrorball policies`

Each cell (the run of one job under one policy with one seed) is saved when it ends. The same \
command, run again, reuses the saved cells and runs the rest. Another build of the program runs \
every cell again, in a new folder; a folder given with -o belongs to one build. `plan.json` in the \
results folder holds the command and all inputs.

Examples:
  mirrorball compare
  mirrorball compare two-ssd-raid1 rand-4k-qd32 --policy 'pid,kakra/*' --format markdown
  mirrorball compare my-array.toml my-job.fio --repeats 20 --duration 30s -o results",
        arrays.join(", "),
        jobs.join(", ")
    )
}

/// The names of the report formats.
fn format_names() -> PossibleValuesParser {
    FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.summary)).into()
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let inputs = Inputs::load(&args.array, &args.jobs);
    let inputs = inputs.map_err(Failure::WrongUse)?;
    report::check_page(args.report.as_deref()).map_err(Failure::WrongUse)?;
    let build = BuildIdentity::current();
    let note = args.system.as_ref().and_then(|system| system.note.as_ref());
    note.iter().for_each(|note| screen::say_later(format_args!("note: {note}")));
    let (inputs, offered) = match &args.system {
        Some(system) => {
            let (inputs, offered) = system.offered(inputs).map_err(Failure::WrongUse)?;
            (inputs, Some(offered))
        }
        None => (inputs, None),
    };
    let mut registry = None;
    let loaded = programs::load_into(&mut registry, "--policy", &args.policy);
    let policies = loaded.map_err(Failure::WrongUse)?;
    let ranking = args.ranking.loaded(&mut registry).map_err(Failure::WrongUse)?;
    let inputs = inputs.with_registry(registry.unwrap_or_default());
    let plan = plan(args, &policies, &inputs, offered.as_ref(), build);
    let (mut plan, round, costs) = plan.map_err(Failure::WrongUse)?;
    ranking.write_into(&mut plan);
    let names: Vec<&str> = plan.policies.iter().map(String::as_str).collect();
    let checked = ranking.check(&names, || "add it to --policy".into());
    checked.map_err(Failure::WrongUse)?;
    let folder = match &args.output {
        Some(folder) => folder.clone(),
        None => folder::default_folder(&plan, is_default(args)),
    };
    let rounds = Rounds {
        plan: &plan,
        round,
        costs: &costs,
        inputs: &inputs,
        folder: &folder,
        threads: args.threads,
        help: match &args.output {
            Some(_) => "choose another folder with -o, or leave -o out",
            None => "choose another folder with -o",
        },
    };
    let in_force = offered.as_ref().map(|offered| offered.now.as_str());
    let criteria = ranking.criteria_against(in_force);
    let (plan, ending, counts) = rounds.run(|part, cells| {
        Study::new(part.clone(), cells.to_vec(), criteria.clone()).verdict.is_settled()
    })?;
    rounds::say_counts(counts);
    let shown = folder.display();
    let summaries = match ending {
        run::Ending::Complete(summaries) => summaries,
        run::Ending::Interrupted { .. } => return Ok(Ending::Interrupted),
    };
    let mut study = Study::new(plan, summaries, criteria);
    let format = FORMATS.iter().find(|format| format.name == args.format);
    let format = format.expect("clap lets known formats pass");
    screen::print(&match format.is_for_people {
        true => answer(args, &mut study, offered.as_ref(), &inputs, format),
        false => (format.render)(&Findings::of_study(&study), screen::style()),
    })?;
    print_notes(args, &inputs, &study, offered.is_some());
    screen::say(format_args!("results are in {shown}"));
    if let Some(file) = &args.report {
        let path = report::write_page(&folder, file, &study.criteria).map_err(Failure::Fault)?;
        screen::say(format_args!("the report is in {}", path.display()));
    }
    // The verdict says which; there is no result to go by.
    Ok(if study.has_dead_job() { Ending::FoundFailure } else { Ending::Done })
}

/// The decision and its tables for people: as a table for a terminal, the decision first.
fn answer(
    args: &Args,
    study: &mut Study,
    offered: Option<&Offered>,
    inputs: &Inputs,
    format: &Format,
) -> String {
    let style = screen::style();
    let advice = offered.map(|offered| offered.advice(study, &inputs.array, &[]));
    if advice.is_some() && !study.has_dead_job() {
        // It may name a policy that the system does not have. The advice says what to use.
        study.verdict.sentence.clear();
    }
    let advised = advice.as_ref().map_or(String::new(), |it| text::render(it, style.width_columns));
    if format.name != FORMATS[0].name {
        let text = (format.render)(&Findings::of_study(study), style);
        return if advised.is_empty() { text } else { format!("{text}\n{advised}") };
    }
    let mut named = advice.map_or(Vec::new(), |advice| advice.policies());
    // What a glob stands for was not named.
    let written = args.policy.split(',').filter_map(|name| Spec::parse(name.trim()).ok());
    named.extend(written.map(|spec| spec.to_string()));
    let is_program = |policy: &&String| policy.starts_with(PROGRAM_FAMILY);
    named.extend(study.plan.policies.iter().filter(is_program).cloned());
    let extent = TableExtent { all_rows: args.all, job_tables: args.tables, named: &named };
    brief(study, &advised, &extent, style)
}

/// Prints what the user should know of the jobs, the oracle and the policies.
fn print_notes(args: &Args, inputs: &Inputs, study: &Study, is_of_a_system: bool) {
    let plan = &study.plan;
    let is_of_some = |policy: &&String| !is_of_a_system && !policy.starts_with(PROGRAM_FAMILY);
    if let Some(policy) = study.verdict.policy.as_ref().filter(is_of_some) {
        screen::say(format_args!(
            "note: `mirrorball policies {policy}` says which systems have it; with --system only \
             what yours offers is advised"
        ));
    }
    for note in &inputs.notes {
        screen::say(format_args!(
            "note: {}:{}: `{}`: {}",
            note.file, note.line, note.option, note.reason
        ));
    }
    if plan.reference == Reference::Nothing && !args.no_oracle {
        screen::say(
            "note: the oracle is left out: the jobs have more than four times the requests in \
             flight that the disks accept at once",
        );
    }
    if let (None, Some(duration_ns)) = (args.duration, plan.duration_ns) {
        screen::say(format_args!(
            "note: each job is simulated for {}, so that all runs take about {} on two CPUs; \
             --duration sets another time",
            Nanos(duration_ns),
            args.budget
        ));
    }
    for note in rounding_notes(&args.policy) {
        screen::say(format_args!("note: {note}"));
    }
}

/// Returns true if the plan differs from the default one at most in its array and jobs.
fn is_default(args: &Args) -> bool {
    args.policy == ALL_POLICIES
        && args.system.is_none()
        && !args.no_oracle
        && (args.repeats, args.seed, args.duration) == (None, SEED, None)
        && args.budget == effort::BUDGET
}

/// The plan that `args` ask for, with all rounds of repeats, the number of repeats of a round, and
/// what a cell of each job costs; `policies` is their list of policies, with its programs loaded.
fn plan(
    args: &Args,
    policies: &str,
    inputs: &Inputs,
    offered: Option<&Offered>,
    build: BuildIdentity,
) -> Result<(Plan, usize, Vec<u64>)> {
    let specs = match offered {
        Some(offered) => offered.with(policies, &inputs.registry),
        None => inputs.registry.parse_list(policies),
    };
    let specs = specs.map_err(|error| anyhow!("--policy: {error}"))?;
    let devids: Vec<u64> = inputs.array.members.iter().map(|member| member.devid).collect();
    for spec in &specs {
        spec.build(&devids).map_err(|error| anyhow!("--policy: {error}"))?;
    }
    let round = args.repeats.unwrap_or(REPEATS);
    let (duration, rounds, costs) = effort(args, inputs, specs.len())?;
    let copies = inputs.array.chunk_map()?.copies();
    let choices = Choices {
        policies: specs.iter().map(ToString::to_string).collect(),
        seeds: effort::seeds_in_rounds(args.seed, round, rounds, copies),
        duration_ns: duration.map(|duration| duration.0),
    };
    let (array, jobs) = (inputs.array_source.clone(), inputs.job_sources.clone());
    let mut plan = Plan::new(build, array, jobs, choices, command(args, duration));
    if args.no_oracle || inputs.has_costly_oracle() {
        plan.reference = Reference::Nothing;
    }
    let plan = plan.with_programs(inputs.registry.programs()).with_looks(rounds);
    Ok((plan, round as usize, costs))
}

/// The simulated time of jobs, `None` for that of the jobs, the most rounds of repeats, and what a
/// cell of each job costs, if that is known.
///
/// Built-in jobs are simulated for a shorter time where their `runtime` would take more than the
/// budget; so are others that go on until their `runtime`, unless the number of repeats is given,
/// as in the commands of a league.
fn effort(args: &Args, inputs: &Inputs, policies: usize) -> Result<(Option<Nanos>, u32, Vec<u64>)> {
    let is_builtin = |job: &String| builtin_job_names().any(|name| name == job);
    let sections = inputs.jobs.iter().flat_map(|job| &job.sections);
    let is_endless = |it: &Section| it.time_based && it.runtime.is_some() && it.replay.is_none();
    let can_end = args.repeats.is_none() && sections.clone().all(is_endless);
    let can_be_shorter = args.duration.is_none() && (can_end || args.jobs.iter().all(is_builtin));
    let runtime = sections.filter_map(|section| section.runtime).max();
    let (Some(time), true) = (args.duration.or(runtime), can_be_shorter || args.repeats.is_none())
    else {
        return Ok((args.duration, 1, Vec::new()));
    };
    // The oracle runs, too.
    let runs = u64::from(args.repeats.unwrap_or(REPEATS)) * (policies as u64 + 1);
    let pilot = Pilot::run(inputs, PILOT_POLICY)?;
    let affordable = pilot.affordable(runs, args.budget);
    let times = vec![time; inputs.jobs.len()];
    let rounds = match args.repeats {
        Some(_) => 1,
        None => pilot.rounds(&times, runs, args.budget),
    };
    let shortened = Some(affordable).filter(|affordable| can_be_shorter && *affordable < time);
    Ok((args.duration.or(shortened), rounds, pilot.costs(&times)))
}

/// The command that makes the same plan, with every option written out. The results folder, the
/// output format and the number of threads are not part of a plan.
fn command(args: &Args, duration: Option<Nanos>) -> String {
    let mut words = vec!["mirrorball".to_owned(), "compare".to_owned(), quoted(&args.array)];
    words.extend(args.jobs.iter().map(|job| quoted(job)));
    if let Some(system) = &args.system {
        words.push(format!("--system {}", system.as_written()));
    }
    words.push(format!("--policy {}", quoted(&args.policy)));
    words.push(match args.repeats {
        Some(repeats) => format!("--repeats {repeats} --seed {}", args.seed),
        None => format!("--budget {} --seed {}", exact(args.budget), args.seed),
    });
    if let Some(duration) = duration {
        words.push(format!("--duration {}", exact(duration)));
    }
    if args.no_oracle {
        words.push("--no-oracle".to_owned());
    }
    words.join(" ")
}

/// A duration in the largest unit in which it is a whole number.
fn exact(duration: Nanos) -> String {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000)];
    match units.into_iter().find(|(_, nanos)| duration.0.is_multiple_of(*nanos)) {
        Some((unit, nanos)) => format!("{}{unit}", duration.0 / nanos),
        None => format!("{}ns", duration.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Words {
        #[command(flatten)]
        args: Args,
    }

    /// A pairing of a league is run again with `--repeats 1`, for as long as the league ran it.
    #[test]
    fn a_job_of_the_user_with_a_number_of_repeats_keeps_its_time() {
        let array = include_str!("../../../arrays/two-ssd-raid1.toml");
        let job = "[a]\nrw=randread\nbs=4k\niodepth=8\nioengine=libaio\ndirect=1\ntime_based\n\
                   runtime=60\n";
        let inputs = Inputs::from_texts(("a", array), &[("a", job)]).unwrap();
        let time = |words: &[&str]| {
            let words = ["compare", "a.toml", "a.fio"].iter().chain(words).copied();
            let Words { args } = Words::try_parse_from(words).unwrap();
            effort(&args, &inputs, 9).unwrap().0
        };
        assert!(time(&[]).is_some_and(|it| it < Nanos::from_secs(60)));
        assert_eq!(time(&["--repeats", "1"]), None);
    }
}
