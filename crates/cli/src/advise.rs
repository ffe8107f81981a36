//! `mirrorball advise`: what to change on an array of this machine, or on one that a file
//! describes.
//!
//! Detects the array, compares the settings of its storage system and a few policies of others by
//! simulation, and names what is in force, the best setting that the system offers with its
//! commands, and the best policy known. It changes nothing.

use crate::compare::system::{ChosenSystem, Offered};
use crate::compare::{self, progress};
use crate::ending::{Ending, Failure};
use crate::numbers::{self, THREADS, whole_number};
use crate::screen;
use anyhow::{Context, Result, anyhow};
use mirrorball_core::policies::Spec;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::{ArrayFile, ArraySpec, MemberSource, ModelConfidence};
use mirrorball_host::detect::{DetectError, DetectedArray, Sysroot, detect_all, detect_at};
use mirrorball_lab::evaluation::advice::{Advice, text};
use mirrorball_lab::experiment::build::BuildIdentity;
use mirrorball_lab::experiment::hash::stable_hash;
use mirrorball_lab::experiment::inputs::Inputs;
use mirrorball_lab::experiment::plan::{Cell, Choices, Plan};
use mirrorball_lab::experiment::results::Results;
use mirrorball_lab::experiment::run;
use mirrorball_lab::experiment::study::{Criteria, Study};
use mirrorball_lab::report::{Align, Column, Emphasis, Grid, GridRow, draw};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// The jobs if none is named: random reads, alone and many at once, one and several sequential
/// readers, each on an idle array and during a scrub.
const STANDARD_MIX: [&str; 8] = [
    "rand-4k-qd1",
    "rand-4k-qd32",
    "seq-read",
    "four-streams",
    "rand-4k-qd1-scrub",
    "rand-4k-qd32-scrub",
    "seq-read-scrub",
    "four-streams-scrub",
];

/// Policies that are compared with the settings of the system: one of each kind that is known to
/// do well somewhere.
const KNOWN_POLICIES: &str =
    "mirrorball/auto,md/raid1,zfs/mirror,gmirror/load,kakra/queue,research/peak-ewma,research/sed";

/// Folder for what was detected and for the results.
const FOLDER: &str = "mirrorball-results";

/// Say which read setting to use on an array, and what it brings
///
/// Detects the array at a path, compares the settings that its storage system offers, by
/// simulation, and prints what you have, the best that the system offers with the commands to set,
/// check and undo it, and the best policy known. Changes nothing.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The disks are simulated by models that `detect` chooses. The answer says how \
sure each choice is; edit the array file and give it in place of the path to correct one.

Exit code 2 if there is no array at the path, or its storage system is not known.

Examples:
  mirrorball advise /srv/data
  mirrorball advise /dev/md0 my-job.fio
  mirrorball advise my-array.toml --system md:6.12"
)]
pub(crate) struct Args {
    /// Mount point or path on it, block device, name of an array, or array file [default: the only
    /// array of this machine]
    array: Option<String>,

    /// Jobs: fio job files or built-in jobs [default: random and sequential reads, idle and during
    /// a scrub]
    #[arg(value_name = "JOB")]
    jobs: Vec<String>,

    /// Storage system, where an array file does not name it: btrfs, md:6.12, zfs, …
    #[arg(long, value_name = "SYSTEM[:VERSION]")]
    system: Option<ChosenSystem>,

    /// Policies to compare with the settings of the system, separated by commas
    #[arg(short, long, value_name = "LIST", default_value = KNOWN_POLICIES)]
    policy: String,

    /// Number of repeats of each job under each policy, from 2 to 1000, each with another seed
    #[arg(short = 'n', long, value_name = "N", default_value_t = 3,
          value_parser = whole_number(2u32..=1000))]
    repeats: u32,

    /// Seed of the first repeat. The second repeat uses this number plus 1, and so on
    #[arg(short, long, default_value_t = 1, value_parser = numbers::seed)]
    seed: u64,

    /// Simulated time of every job with its unit, for example 500ms, 10s or 2m
    #[arg(short, long, value_name = "TIME", default_value = "3s",
          value_parser = compare::positive_duration)]
    duration: Nanos,

    /// Number of threads; results do not depend on it [default: one per CPU]
    #[arg(short, long, value_name = "N", value_parser = whole_number(THREADS))]
    threads: Option<NonZeroUsize>,

    /// Read a recorded copy of the files of a machine in DIR instead of this machine
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let target = target(args)?;
    let jobs: Vec<String> = match &args.jobs[..] {
        [] => STANDARD_MIX.map(str::to_owned).to_vec(),
        jobs => jobs.to_vec(),
    };
    let inputs = Inputs::load(&target.array, &jobs).map_err(Failure::WrongUse)?;
    let chosen = chosen_system(args, &inputs.array).map_err(Failure::WrongUse)?;
    let mut offered = chosen.offered(&inputs.array).map_err(Failure::WrongUse)?;
    if let Some(now) = target.in_force.and_then(|now| Spec::parse(&now).ok()) {
        offered.now = now.to_string();
    }
    screen::print(&about(&inputs.array, &target.condition))?;
    let plan = plan(args, &inputs, &offered, &jobs).map_err(Failure::WrongUse)?;
    // A folder of its own for each question: other jobs or repeats are another plan.
    let keys: Vec<String> = plan.cells().iter().map(Cell::key).collect();
    let question = stable_hash(keys.iter().map(String::as_str));
    let folder = Path::new(FOLDER).join(format!("advice-{}", &question[..12]));
    let results = Results::open(&folder, &plan)
        .with_context(|| format!("cannot write results into {}", folder.display()))
        .map_err(Failure::WrongUse)?;
    let ending = progress::run_cells(args.threads, &plan, &inputs, &results);
    let summaries = match ending.map_err(Failure::Fault)? {
        run::Ending::Complete(summaries) => summaries,
        run::Ending::Interrupted { .. } => return Ok(Ending::Interrupted),
    };
    let baseline = Some(offered.now.clone());
    let study = Study::new(plan, summaries, Criteria { baseline, ..Criteria::default() });
    let advice = offered.advice(&study, &inputs.array);
    let width = screen::style().width_columns;
    screen::print(&format!("\n{}\n{}", text::render(&advice, width), table(&study, &advice)))?;
    screen::say(format_args!("results are in {}", folder.display()));
    Ok(if study.has_dead_job() { Ending::FoundFailure } else { Ending::Done })
}

/// What advice is asked for.
struct Target {
    /// The array file.
    array: String,
    /// The setting in force, where the machine says.
    in_force: Option<String>,
    /// What is unusual about the array's state.
    condition: Option<String>,
}

/// The array file that was named, or one of what was detected.
fn target(args: &Args) -> Result<Target, Failure> {
    if let Some(name) = &args.array {
        let is_builtin = ArrayFile::builtin_names().any(|builtin| builtin == name);
        if name.ends_with(".toml") || is_builtin && !Path::new(name).exists() {
            return Ok(Target { array: name.clone(), in_force: None, condition: None });
        }
    }
    let sysroot = crate::detect::sysroot(args.sysroot.as_deref())?;
    let mut detected = match &args.array {
        Some(path) => detect_at(&sysroot, path).map_err(|error| not_detected(path, error))?,
        None => only_array(args, &sysroot)?,
    };
    let mut in_force = detected.policy.spec.clone();
    let condition = detected.condition.text();
    for member in &mut detected.members {
        // The flag is a setting that is compared with others, no property of the disk.
        if std::mem::take(&mut member.write_mostly)
            && let Some(spec) = &mut in_force
        {
            *spec += &format!("+write-mostly:{}", member.devid);
        }
        // The advice is for the array when it is whole again.
        member.is_rebuilding = false;
        member.is_failed = false;
    }
    let path = save(&detected).map_err(Failure::WrongUse)?;
    let array = path.display().to_string();
    screen::say(format_args!("the array is described in {array}"));
    Ok(Target { array, in_force, condition })
}

/// The failure to find an array at a path, which may be that of an array file.
fn not_detected(path: &str, error: DetectError) -> Failure {
    match error {
        DetectError::NoArray(diagnostic) if Path::new(path).is_file() => {
            let help = "if it is an array file, give it a name that ends in .toml";
            Failure::WrongUse(diagnostic.with_help(help).into())
        }
        error => crate::detect::failure(error),
    }
}

fn only_array(args: &Args, sysroot: &Sysroot) -> Result<DetectedArray, Failure> {
    let found: Vec<_> = detect_all(sysroot).into_iter().filter_map(Result::ok).collect();
    let names: Vec<&str> = found.iter().map(|array| array.name.as_str()).collect();
    let place = match &args.sysroot {
        None => "this machine".to_owned(),
        Some(folder) => folder.display().to_string(),
    };
    let message = match &names[..] {
        [_] => return Ok(found.into_iter().next().expect("there is one")),
        [] => format!(
            "{place} has no array that can be read\n  help: give the path of one, or an array file"
        ),
        names => format!(
            "{place} has {} arrays: {}\n  help: name one, as in `mirrorball advise {}`",
            names.len(),
            names.join(", "),
            names[0]
        ),
    };
    Err(Failure::WrongUse(anyhow!(message)))
}

/// Saves the description of an array under a name that is free, or that has the same text.
fn save(array: &DetectedArray) -> Result<PathBuf> {
    let text = array.array_file();
    std::fs::create_dir_all(FOLDER).with_context(|| format!("cannot make {FOLDER}"))?;
    let stem = crate::detect::file_stem(&array.name);
    for number in 1.. {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        let path = Path::new(FOLDER).join(format!("{stem}{suffix}.toml"));
        match std::fs::read_to_string(&path) {
            Ok(existing) if existing == text => return Ok(path),
            Ok(_) => {}
            Err(_) => {
                let existing = crate::output_file::Existing::from_force(false);
                crate::output_file::write(&path, &text, existing)?;
                return Ok(path);
            }
        }
    }
    unreachable!("some number is free")
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

fn plan(args: &Args, inputs: &Inputs, offered: &Offered, jobs: &[String]) -> Result<Plan> {
    let specs = offered.with(&args.policy).map_err(|error| anyhow!("--policy: {error}"))?;
    let choices = Choices {
        policies: specs.iter().map(ToString::to_string).collect(),
        repeats: args.repeats,
        seed: args.seed,
        duration_ns: Some(args.duration.0),
    };
    let (array, sources) = (inputs.array_source.clone(), inputs.job_sources.clone());
    let words: Vec<String> = jobs.iter().map(|job| compare::quoted(job)).collect();
    let command =
        format!("mirrorball compare {} {}", compare::quoted(&array.name), words.join(" "));
    let build = BuildIdentity::current()?;
    Ok(Plan::new(build, array, sources, choices, command))
}

/// The members, with how sure their models are.
fn about(array: &ArraySpec, condition: &Option<String>) -> String {
    let mut text = format!("{}\n", array.name);
    if let Some(condition) = condition {
        text +=
            &format!("  its state: {condition}; the advice is for the array when it is whole\n");
    }
    for member in &array.members {
        let device = member.device.as_deref().unwrap_or("member");
        let model = match &member.source {
            MemberSource::Model(profile) => profile.name.as_str(),
            MemberSource::Path(_) | MemberSource::Uri(_) => "a real disk",
        };
        let confidence = member.confidence.map_or("as the array file says", ModelConfidence::name);
        text += &format!("  {} {device}: simulated as {model} ({confidence})\n", member.devid);
    }
    let mut confidences = array.members.iter().filter_map(|member| member.confidence);
    let is_rough = |it| matches!(it, ModelConfidence::ClassDefault | ModelConfidence::Guessed);
    if confidences.any(is_rough) {
        text += "  the figures are those of the models; correct a model in the array file\n";
    }
    text
}

/// What each candidate reaches under each job, as a factor of what is in force.
fn table(study: &Study, advice: &Advice) -> String {
    let candidates = [&advice.offered, &advice.conditional, &advice.known];
    let mut specs = vec![advice.now.as_str()];
    for candidate in candidates.into_iter().flatten() {
        if !specs.contains(&candidate.spec.as_str()) {
            specs.push(&candidate.spec);
        }
    }
    let column = |title: &str, align, drop_order| Column {
        title: title.to_owned(),
        group: String::new(),
        align,
        drop_order,
    };
    let mut columns = vec![column("job, times as fast", Align::Left, 0)];
    columns.extend(specs.iter().map(|spec| column(spec, Align::Right, 0)));
    let rows = study.jobs.iter().map(|job| {
        let score = |spec: &str| {
            let row = job.rows.iter().find(|row| row.policy == spec);
            row.map_or(0.0, |row| row.score.value)
        };
        let now = score(&advice.now);
        let factor = |spec: &&str| match now > 0.0 {
            true => format!("{:.2}", score(spec) / now),
            false => "-".to_owned(),
        };
        let texts = std::iter::once(job.job.clone()).chain(specs.iter().map(factor)).collect();
        GridRow { texts, emphasis: Emphasis::None }
    });
    draw(&Grid { columns, rows: rows.collect() }, screen::style())
}
