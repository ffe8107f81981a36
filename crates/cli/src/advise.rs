//! `mirrorball advise`: what to change on an array of this machine, or on one that a file
//! describes.
//!
//! Detects the array, measures its disks where asked, compares the settings of its storage system
//! and a few policies of others by simulation, and names what is in force, the best setting that
//! the system offers with its commands, and the best policy known. It changes nothing.

mod benched;
mod measured;
mod new_array;
mod question;
mod target;
mod what_if;

use crate::ending::{Ending, Failure};
use crate::numbers::{self, THREADS, whole_number};
use crate::output_file::{self, Existing};
use crate::probe::DeviceClassArg;
use crate::{report, screen};
use anyhow::anyhow;
use clap::Parser as _;
use mirrorball_core::units::Nanos;
use mirrorball_lab::evaluation::advice::answer::{Answer, ArrayAnswer, WhatIf};
use mirrorball_lab::evaluation::advice::chosen_system::ChosenSystem;
use mirrorball_lab::evaluation::advice::question::{KNOWN_POLICIES, SEED};
use mirrorball_lab::evaluation::advice::state::{first_steps, remark_on_rate};
use mirrorball_lab::evaluation::advice::{effort, page, text};
use mirrorball_lab::experiment::results::{self, Loaded};
use mirrorball_lab::experiment::study::Criteria;
use mirrorball_lab::report::is_page;
use question::Question;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use what_if::ArrayChange;

/// Say which read setting to use on an array, and what it brings
///
/// Detects the array at a path, compares the settings that its storage system offers, by
/// simulation, and prints what you have, the best that the system offers with the commands to set,
/// check and undo it, and the best policy known. Writes only into the folder mirrorball-results,
/// and the files of -o and --report.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The disks are simulated by models that `detect` chooses. The answer says how \
sure each choice is; edit the array file and give it in place of the path to correct one, or have \
the disks measured with --probe, which needs root and an idle array.

What was detected is saved as mirrorball-results/NAME.toml, the results in
mirrorball-results/advice-….

Exit code 2 if there is no array at the path, or its storage system is not known; 1 if no advice is
possible: an array cannot be read, all members have failed, or a member is missing and no read has a
choice of members without it, or --probe gave some member no model.

Examples:
  mirrorball advise
  mirrorball advise /srv/data
  mirrorball advise /dev/md0 my-job.fio
  mirrorball advise /srv/data --load load.trace
  mirrorball advise my-array.toml --system md:6.12
  (cat /proc/mdstat; lsblk -o NAME,SIZE,ROTA,MODEL) | mirrorball advise -
  mirrorball advise /srv/data --probe -o my-array.toml
  mirrorball advise /srv/data --what-if
  mirrorball advise /srv/data --what-if replace=1:ssd-sata-plp
  mirrorball advise --new /dev/sda /dev/sdb"
)]
pub(crate) struct Args {
    /// Mount point or path on it, block device, name of an array, array file, or built-in array;
    /// `-` reads pasted outputs, as `detect` does; `lsblk -o NAME,SIZE,ROTA,MODEL` among them says
    /// what disks these are [default: the only array of this machine, or an
    /// example if it has none; a job may then come first]
    array: Option<String>,

    /// Jobs: fio job files or built-in jobs [default: random and sequential reads, idle and during
    /// a scrub]
    #[arg(value_name = "JOB")]
    jobs: Vec<String>,

    /// Storage system and version, where an array file does not name them: btrfs, md:6.12, zfs, …
    #[arg(long, value_name = "SYSTEM[:VERSION]")]
    system: Option<ChosenSystem>,

    /// Policies to compare with the settings of the system, separated by commas [default:
    /// mirrorball/auto, md/raid1, zfs/mirror, gmirror/load, kakra/queue, research/peak-ewma,
    /// research/sed]
    #[arg(short, long, value_name = "LIST", default_value = KNOWN_POLICIES,
          hide_default_value = true)]
    policy: String,

    /// Number of repeats of each job under each policy, from 2 to 1000, each with another seed
    /// [default: 6, and 6 more at a time until the advice is certain or the budget is used]
    #[arg(short = 'n', long, value_name = "N",
          allow_hyphen_values = true, value_parser = whole_number(2u32..=1000))]
    repeats: Option<u32>,

    /// Time for all repeats, on two CPUs of a usual machine: the answer does not depend on how fast
    /// this one is
    #[arg(long, value_name = "TIME", default_value_t = effort::BUDGET, conflicts_with = "repeats",
          allow_hyphen_values = true, value_parser = numbers::positive_duration)]
    budget: Nanos,

    /// Seed of the first repeat. The others have seeds after it, such that the numbers of processes
    /// leave every remainder equally often, on which `btrfs/pid` decides
    #[arg(short, long, default_value_t = SEED, allow_hyphen_values = true,
          value_parser = numbers::seed)]
    seed: u64,

    /// Simulated time of every job with its unit, for example 500ms, 10s or 2m, after a warm-up of
    /// a quarter of it [default: for each job from 200ms to 3s, the less the more I/O it makes]
    #[arg(short, long, value_name = "TIME",
          allow_hyphen_values = true, value_parser = numbers::positive_duration)]
    duration: Option<Nanos>,

    /// Number of threads, from 1 to 1024; results do not depend on it [default: one per CPU]
    #[arg(short, long, value_name = "N", allow_hyphen_values = true,
          value_parser = whole_number(THREADS))]
    threads: Option<NonZeroUsize>,

    /// Also answer for the array after a change: replace=DEVID:MODEL, add=MODEL, layout=NAME or
    /// read-ahead=SIZE. Repeat it for several changes at once. Without a value, as the last option:
    /// try each single change, and rank them by what they bring
    ///
    /// The devids are in the answer, `mirrorball models` lists the models; a product (WD40EFRX)
    /// stands for its model and size. Another new disk has the size
    /// of the one it replaces, or of the smallest member; replace=1:nvme-gen4:8TB gives another.
    /// The changed array is laid out again, as after a rebuild or a balance, and its new disks are
    /// used whole.
    #[arg(long, value_name = "CHANGE", num_args = 0..=1, default_missing_value = what_if::EACH)]
    what_if: Vec<ArrayChange>,

    /// Compare the layouts that md, ZFS and btrfs offer on these disks, for reads, writes, rebuild
    /// and space: devices of this machine, models, models with a size (hdd-smr:8TB), products
    /// (WD40EFRX), '4*MODEL'. --system names one system
    #[arg(long, value_name = "DISK", num_args = 1..,
          conflicts_with_all = ["array", "what_if", "probe", "measured", "report", "policy"])]
    new: Vec<String>,

    /// Compare the settings under a load: a trace, as of `mirrorball capture`, which becomes a job
    /// that resembles it
    #[arg(long, value_name = "TRACE", conflicts_with_all = ["jobs", "measured", "new"])]
    load: Option<PathBuf>,

    /// Measure the disks first, by reading them one after the other, and simulate them by models
    /// that are fitted to the measurements: at most a minute each, with --probe=full ten
    ///
    /// Nothing is written to the disks. Disks that other programs use meanwhile, and disks of which
    /// no model fits, keep the model that was chosen. Ctrl-C keeps what was measured. An array file
    /// whose models were fitted is not measured again.
    #[arg(long, value_name = "BUDGET", num_args = 0..=1, require_equals = true, value_enum,
          default_missing_value = "quick", conflicts_with = "sysroot")]
    probe: Option<ProbeBudget>,

    /// Kind of the disks that --probe measures [default: what the kernel says of disks with a model
    /// name, else found by timing]
    #[arg(long, value_enum, requires = "probe")]
    class: Option<DeviceClassArg>,

    /// Take what `mirrorball bench -o DIR` measured on this array, in the place of simulations
    ///
    /// Only the settings and jobs that were measured are compared.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["probe", "what_if", "jobs"])]
    measured: Option<PathBuf>,

    /// Write the array with its fitted models to FILE, and the models next to it [default: in
    /// mirrorball-results]
    #[arg(short, long, value_name = "FILE", requires = "probe", conflicts_with = "sysroot")]
    output: Option<PathBuf>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = AnswerFormat::Table)]
    format: AnswerFormat,

    /// Also write an HTML page with the answer and charts to this file; an older page of this
    /// program is replaced [default: report.html in the results folder]
    #[arg(long, value_name = "FILE.html", num_args = 0..=1,
          default_missing_value = report::IN_RESULTS, value_parser = report::page_file)]
    report: Option<PathBuf>,

    /// Replace the files of -o and --report if they exist
    #[arg(long)]
    force: bool,

    /// Read a recorded copy of the files of a machine in DIR instead of this machine
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,
}

/// How long each disk is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ProbeBudget {
    /// At most a minute
    Quick,
    /// At most ten minutes
    Full,
}

/// How the answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum AnswerFormat {
    /// Text and tables for a terminal
    Table,
    /// Everything as JSON
    Json,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    if !args.new.is_empty() {
        return new_array::run(args);
    }
    let existing = check_outputs(args)?;
    let (array, mut jobs) = target::array_and_jobs(args);
    let target = target::find(args, array)?;
    target::check_copies(&target.array)?;
    if let Some(load) = &args.load {
        jobs = vec![target::fitted_job(&target, load).map_err(Failure::WrongUse)?];
    }
    let measured = measured::with_fitted(args, target, &jobs)?;
    if measured.is_interrupted {
        return Ok(Ending::Interrupted);
    }
    if let Some(folder) = &args.measured {
        let (array, is_dead) = benched::answer(args, &measured.target, folder)?;
        return finish(
            args,
            existing,
            &Answer { array, what_if: None, changes: Vec::new() },
            !is_dead,
        );
    }
    let (target, changes) = what_if::with_missing_replaced(args, measured.target)?;
    let question = Question::new(args, &target, &jobs)?;
    let source = question.asked.inputs.array.source.as_ref();
    let condition = source.and_then(|source| source.condition.clone());
    let changed = what_if::changed(args, &changes, &question)?;
    let (spec, system) = (question.asked.inputs.array.clone(), question.asked.chosen.system);
    let out_of_service = question.out_of_service.clone();
    let Some((mut array, is_dead)) = question.answer(args)? else {
        return Ok(Ending::Interrupted);
    };
    array.is_example_because = target.is_example_because;
    array.condition = target.condition.or(condition);
    let condition = array.condition.as_deref();
    let add = array.add_commands();
    array.first = first_steps(system, &spec, condition, &out_of_service, add);
    array
        .first
        .extend(target.planned.iter().map(|it| format!("the answer is for after that: {it}")));
    array.first.extend(remark_on_rate(array.condition.as_deref(), array.maintenance.as_ref()));
    let mut answer = Answer { array, what_if: None, changes: Vec::new() };
    if changes == [ArrayChange::Each] {
        let ranked = what_if::each(args, &question, &answer.array)?;
        let Some(ranked) = ranked else { return Ok(Ending::Interrupted) };
        answer.changes = ranked;
        return finish(args, existing, &answer, !is_dead && measured.is_complete);
    }
    if let Some(changed) = changed {
        let Some((after, _)) = changed.answer(args)? else { return Ok(Ending::Interrupted) };
        let before = question.as_long_as(args, &changed, &answer.array)?;
        let commands = what_if::commands(&changes, &question);
        let changes = changes.iter().map(|change| change.described(spec.layout)).collect();
        let Some(before) = before else { return Ok(Ending::Interrupted) };
        let what_if = WhatIf::new(changes, &before, after);
        answer.what_if = Some(WhatIf { commands, ..what_if });
    }
    finish(args, existing, &answer, !is_dead && measured.is_complete)
}

/// The answer to a command line of `advise` about an array that is complete and idle; `None` if
/// Ctrl-C ended it.
pub(crate) fn answer_of_defaults(words: &[OsString]) -> Result<Option<ArrayAnswer>, Failure> {
    #[derive(clap::Parser)]
    struct Words {
        #[command(flatten)]
        args: Args,
    }
    let Words { args } = Words::try_parse_from(words)
        .map_err(|error| Failure::WrongUse(anyhow!("{}", error.to_string().trim())))?;
    let (array, jobs) = target::array_and_jobs(&args);
    let target = target::find(&args, array)?;
    let question = Question::new(&args, &target, &jobs)?;
    Ok(question.answer(&args)?.map(|(answer, _)| answer))
}

/// Prints the answer and writes its page.
fn finish(
    args: &Args,
    existing: Existing,
    answer: &Answer,
    is_whole: bool,
) -> Result<Ending, Failure> {
    screen::print(&rendered(args, answer))?;
    let folders = folders(answer);
    for folder in &folders {
        screen::say(format_args!("results are in {}", folder.display()));
    }
    if let Some(file) = &args.report {
        let (path, older) = report::page_of(file, Path::new(&answer.array.results));
        let existing = if older == Existing::Replace { older } else { existing };
        let Loaded { sets, .. } = results::load(&folders, &Criteria::default());
        let page = page::render(answer, &sets);
        output_file::write(&path, &page, existing).map_err(Failure::Fault)?;
        screen::say(format_args!("the report is in {}", path.display()));
    }
    Ok(if is_whole { Ending::Done } else { Ending::FoundFailure })
}

/// Treatment of existing files.
fn check_outputs(args: &Args) -> Result<Existing, Failure> {
    if args.probe.is_some() && crate::detect::is_pasted(None, args.array.as_ref()) {
        let help = "leave out --probe, or run `mirrorball advise PATH --probe` on their machine";
        let error = "--probe measures disks, and a pasted text has none";
        return Err(Failure::WrongUse(anyhow!("{error}\n  help: {help}")));
    }
    let page = args.report.as_ref().filter(|file| *file != Path::new(report::IN_RESULTS));
    let output = args.output.as_deref().or(page.map(PathBuf::as_path));
    let existing = Existing::from_force(args.force, output, "-o FILE or --report FILE")?;
    for (path, what, option) in [
        (args.output.as_ref(), "array file", "-o my-array.toml"),
        (page, "page", "--report a.html"),
    ] {
        let Some(path) = path else { continue };
        if output_file::is_stdout(path) {
            let error = format!("the {what} cannot be written to standard output");
            let help = format!("which has the answer\n  help: give a file, for example {option}");
            return Err(Failure::WrongUse(anyhow!("{error}, {help}")));
        }
        let of_page = what == "page" && is_page(path);
        let existing = if of_page { Existing::Replace } else { existing };
        output_file::check(path, existing).map_err(Failure::WrongUse)?;
    }
    if let Some(path) = args.output.as_deref().filter(|it| it.extension() != Some("toml".as_ref()))
    {
        let (error, path) = ("an array file has a name that ends in .toml", path.display());
        return Err(Failure::WrongUse(anyhow!("-o {path}: {error}\n  help: give {path}.toml")));
    }
    Ok(existing)
}

fn rendered(args: &Args, answer: &Answer) -> String {
    match args.format {
        AnswerFormat::Json => screen::json(answer),
        AnswerFormat::Table => text::answer(answer, screen::style()),
    }
}

/// The results folders, none twice: a change may lead to the same array.
fn folders(answer: &Answer) -> Vec<PathBuf> {
    let changed = answer.what_if.iter().map(|what_if| what_if.array.results.as_str());
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in [answer.array.results.as_str()].into_iter().chain(changed) {
        if !folders.iter().any(|known| known == Path::new(folder)) {
            folders.push(PathBuf::from(folder));
        }
    }
    folders
}
