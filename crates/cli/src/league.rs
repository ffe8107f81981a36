//! `mirrorball league`: compares a policy with all others on arrays and jobs drawn at random.

use crate::ending::{Ending, Failure};
use crate::numbers::{self, THREADS, whole_number};
use crate::output_file::{self, Existing};
use crate::progress::{self, Cells};
use crate::{folders, programs, screen};
use anyhow::{Result, anyhow, bail, ensure};
use mirrorball_core::diagnostic::quoted;
use mirrorball_core::policies::{PROGRAM_FILE, Registry, rounding_notes};
use mirrorball_lab::evaluation::league::record::Folder;
use mirrorball_lab::evaluation::league::standings::Standings;
use mirrorball_lab::evaluation::league::text::{self, Detail};
use mirrorball_lab::evaluation::league::{
    self, LeagueOutcome, LeagueRequest, PairingFiles, QUICK_RIVALS, SIZE_MAX, all_rivals,
};
use mirrorball_lab::experiment::record::ORACLE;
use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Seed of the design sample. A judged sample gets another one.
const DESIGN_SEED: u64 = 1;
const DEFAULT_SUBJECT: &str = "mirrorball/auto";
/// Number of pairings without --sample, and with --quick too.
const SIZE: u32 = 100;
const QUICK_SIZE: u32 = 24;

/// Compare a policy with all others over many arrays and jobs
///
/// Draws pairings, each of one array and one job, at random, so that no policy can be tuned to
/// them. Simulates each pairing under the policies being evaluated (--subject), their rivals
/// (--policy) and the oracles (references that ask the disk models which mirror would complete a
/// read first). The results are saved; run the same command again to continue after Ctrl-C. After a
/// change of a subject, the same command also compares it with its last build.
#[derive(Debug, clap::Args)]
#[command(after_help = "With all rivals, 100 pairings take about 5 minutes on one CPU.

Examples:
  mirrorball league --quick
  mirrorball league --sample 20 --subject program:mine.wasm
  mirrorball league --quick --subject research/sed,zfs/mirror
  mirrorball league --sample 500 --seed 71 --all --format markdown
  mirrorball league --sample 100 --list
  mirrorball league --sample 100 --pairing 37")]
pub(crate) struct Args {
    /// Policies to evaluate, separated by commas; `program:FILE` is a program
    #[arg(long, value_name = "LIST", default_value = DEFAULT_SUBJECT)]
    subject: String,

    /// Rivals, separated by commas [default: all policies except mirrorball/*]
    #[arg(short, long, value_name = "LIST")]
    policy: Option<String>,

    /// Compare with twelve rivals instead of all, in shorter runs, on fewer pairings
    #[arg(long)]
    quick: bool,

    /// Number of pairings of an array and a job [default: 100, or 24 with --quick]
    #[arg(long = "sample", value_name = "N", allow_hyphen_values = true,
          value_parser = whole_number(1..=SIZE_MAX))]
    size: Option<u32>,

    /// Seed of all draws. Seed 1 is for the development of policies; judge them on another seed
    #[arg(short, long, default_value_t = DESIGN_SEED, allow_hyphen_values = true,
          value_parser = numbers::seed)]
    seed: u64,

    /// List the pairings that are drawn, and run nothing
    #[arg(long, conflicts_with = "pairing")]
    list: bool,

    /// Write the array and the job of pairing K as files in the current folder, and run nothing
    #[arg(long, value_name = "K", allow_hyphen_values = true,
          value_parser = whole_number(1..=SIZE_MAX))]
    pairing: Option<u32>,

    /// Folder for the results, which is created if it is missing [default:
    /// mirrorball-results/sample-SEED]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Reuse saved results of rivals and oracles that another build of the program made. Only the
    /// --subject policies are simulated again
    #[arg(long)]
    keep_rivals: bool,

    /// Show all rivals and all pairings in tables, not only the best rivals and the worst pairings
    #[arg(long)]
    all: bool,

    /// Replace the files of --pairing if they exist
    #[arg(long)]
    force: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    format: Format,

    /// Number of threads, from 1 to 1024; results do not depend on it [default: one per CPU]
    #[arg(short, long, value_name = "N", allow_hyphen_values = true,
          value_parser = whole_number(THREADS))]
    threads: Option<NonZeroUsize>,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Tables for a terminal.
    Table,
    /// Tables in Markdown.
    Markdown,
    /// Everything as JSON.
    Json,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    if args.list && args.format != Format::Table {
        let text = "--format has no effect with --list\n  help: leave one of them out";
        return Err(Failure::WrongUse(anyhow!(text)));
    }
    let request = request(args).map_err(Failure::WrongUse)?;
    let output = args.pairing.map(|_| Path::new("."));
    let existing = Existing::from_force(args.force, output, "--pairing")?;
    if args.list {
        screen::print(&text::listed(&league::list(&request), screen::style()))?;
        return Ok(Ending::Done);
    }
    if let Some(number) = args.pairing {
        return write_pairing(args, &request, number, existing);
    }
    let path = folder(args, &request);
    let folder = Folder::open(&path, &request).map_err(Failure::WrongUse)?;
    let cells = Cells::alike(request.size as usize * request.cells_per_pairing());
    let played = progress::run_cells(cells, "saving what is done", args.threads, |options| {
        league::run(&request, &folder, options)
    });
    let LeagueOutcome { done, standings } = played.map_err(Failure::Fault)?.0;
    if let Some(standings) = standings {
        screen::print(&rendered(args, &standings))?;
    }
    let (size, shown) = (request.size, path.display());
    if done < size as usize {
        screen::say(format_args!("interrupted: {done} of {size} pairings are saved in {shown}"));
        screen::say("  run the same command again to continue");
        return Ok(Ending::Interrupted);
    }
    screen::say(format_args!("results are in {shown}"));
    Ok(Ending::Done)
}

fn request(args: &Args) -> Result<LeagueRequest> {
    let LeaguePolicies { subjects, rivals, registry, written } = policies(args)?;
    let size = args.size.unwrap_or(if args.quick { QUICK_SIZE } else { SIZE });
    if let Some(number) = args.pairing.filter(|it| args.size.is_some_and(|size| *it > size)) {
        bail!(
            "--pairing {number}: the sample has {size} pairings\n  help: give a number from 1 to \
             {size}"
        );
    }
    Ok(LeagueRequest {
        size,
        seed: args.seed,
        subjects,
        rivals,
        quick: args.quick,
        keeps_rivals: args.keep_rivals,
        command: command(),
        registry,
        written,
    })
}

#[derive(Default)]
struct LeaguePolicies {
    /// Canonical strings of the policies that are evaluated.
    subjects: Vec<String>,
    /// Canonical strings of their rivals.
    rivals: Vec<String>,
    /// The programs among them.
    registry: Registry,
    /// Policy strings of the programs as they were written, by canonical string.
    written: BTreeMap<String, String>,
}

fn policies(args: &Args) -> Result<LeaguePolicies> {
    let mut registry = None;
    let loaded_subjects = programs::load_into(&mut registry, "--subject", &args.subject)?;
    let policy = args.policy.as_deref();
    let loaded_rivals =
        policy.map(|list| programs::load_into(&mut registry, "--policy", list)).transpose()?;
    let registry = registry.unwrap_or_default();
    let mut written = BTreeMap::new();
    let lists = [Some((&*args.subject, &loaded_subjects)), policy.zip(loaded_rivals.as_ref())];
    for (given, loaded) in lists.into_iter().flatten() {
        for (given, loaded) in given.split(',').zip(loaded.split(',')) {
            if given.trim().starts_with(PROGRAM_FILE) {
                written.insert(registry.parse(loaded)?.to_string(), given.trim().to_owned());
            }
        }
    }
    let subjects = listed("--subject", &loaded_subjects, &registry)?;
    let rivals = match &loaded_rivals {
        Some(list) => listed("--policy", list, &registry)?,
        None if args.quick => QUICK_RIVALS.map(str::to_owned).to_vec(),
        None => all_rivals(),
    };
    let rivals: Vec<String> =
        rivals.into_iter().filter(|rival| !subjects.contains(rival)).collect();
    ensure!(
        !rivals.is_empty(),
        "no rival is left, because all are --subject policies\n  help: give others with --policy"
    );
    Ok(LeaguePolicies { subjects, rivals, registry, written })
}

/// The command as it was given, apart from the program's path.
fn command() -> String {
    let words = std::env::args().skip(1).map(|word| quoted(&word));
    std::iter::once("mirrorball".to_owned()).chain(words).collect::<Vec<String>>().join(" ")
}

fn listed(option: &str, list: &str, registry: &Registry) -> Result<Vec<String>> {
    let specs = registry.parse_list(list).map_err(|error| {
        match list.split(',').any(|it| it == ORACLE) {
            true => anyhow!(
                "{option}: `{ORACLE}` is not a policy\n  help: the league adds it to every table"
            ),
            false => anyhow!("{option}: {error}"),
        }
    })?;
    for note in rounding_notes(list) {
        screen::say_later(format_args!("note: {note}"));
    }
    Ok(specs.iter().map(ToString::to_string).collect())
}

/// Short and full runs are different cells, so they have folders of their own.
fn folder(args: &Args, request: &LeagueRequest) -> PathBuf {
    let length = if request.quick { "-quick" } else { "" };
    let name = format!("sample-{}{length}", request.seed);
    args.output.clone().unwrap_or_else(|| folders::results().join(name))
}

/// Writes the files of a pairing, and prints the command that runs its cells.
fn write_pairing(
    args: &Args,
    request: &LeagueRequest,
    number: u32,
    existing: Existing,
) -> Result<Ending, Failure> {
    let PairingFiles { name, array, job, .. } =
        league::files(request, number).map_err(Failure::Fault)?;
    let (array_file, job_file) = (format!("{name}.toml"), format!("{name}.fio"));
    let files = [(&array_file, array), (&job_file, job)];
    // Files that this command wrote before stay.
    let is_new = |(file, text): &&(&String, String)| {
        fs::read(file).map_or(true, |found| found != text.as_bytes())
    };
    for (file, _) in files.iter().filter(is_new) {
        output_file::check(Path::new(file), existing).map_err(Failure::WrongUse)?;
    }
    for (file, text) in files.iter().filter(is_new) {
        output_file::write(Path::new(file), text, existing).map_err(Failure::Fault)?;
    }
    let runs_others = request.subjects != [DEFAULT_SUBJECT];
    let chosen: Vec<&str> = match args.policy.is_some() || args.quick || runs_others {
        true => request.subjects.iter().chain(&request.rivals).map(String::as_str).collect(),
        false => vec!["all"],
    };
    let words = request.compare_command(number, chosen);
    screen::say(format_args!("wrote {array_file} and {job_file}; run the pairing with"));
    screen::print(&format!("{words}\n"))?;
    Ok(Ending::Done)
}

fn rendered(args: &Args, standings: &Standings) -> String {
    let detail = if args.all { Detail::All } else { Detail::Screen };
    match args.format {
        Format::Table => text::text(standings, detail, screen::style()),
        Format::Markdown => text::markdown(standings, detail),
        Format::Json => screen::json(standings),
    }
}
