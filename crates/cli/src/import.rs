//! `mirrorball import`: saves results of other programs as cells, for `report`, and characterises
//! traces.
//!
//! All files are read and checked before anything is written.

mod trace;

use crate::ending::{Ending, Failure};
use crate::screen;
use anyhow::{Context, Result, anyhow, bail};
use mirrorball_core::policies::Spec;
use mirrorball_lab::experiment::import::fio::{Log, RESULT_BYTES_MAX, cell, is_partial};
use mirrorball_lab::experiment::import::{self, ImportLabels};
use mirrorball_lab::experiment::inputs::load_array;
use mirrorball_lab::experiment::record::{CellRecord, ORACLE};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Import results of other programs, or characterise a trace
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  mirrorball import fio result.json -o live --policy pid --array my-array.toml")]
pub(crate) struct Args {
    #[command(subcommand)]
    from: From,
}

#[derive(Debug, clap::Subcommand)]
enum From {
    Fio(FioArgs),
    Trace(trace::TraceArgs),
}

/// Import output of fio (`--output-format=json+` or `json`)
///
/// Each file becomes one cell: the run of one job under one policy. Several files of the same job
/// and policy become repeats, also when they are imported later. A file that was imported before is
/// skipped, unless it comes with logs and was imported without.
#[derive(Debug, clap::Args)]
#[command(after_help = "json+ has complete latency histograms; json has percentiles only. \
Of several states of one run (--status-interval) the last counts; a run without latencies \
(gtod_reduce) has its throughput.

Examples:
  mirrorball import fio pid-*.json -o live --policy pid --array my-array.toml
  mirrorball import fio latency-*.json -o live --policy latency --array my-array.toml
  mirrorball report live
  mirrorball import fio run.json --log run_bw.1.log --log run_lat.1.log -o run")]
struct FioArgs {
    /// Output files of fio 2 or 3, in UTF-8 or UTF-16; text around the JSON is ignored
    #[arg(required = true, value_name = "RESULT.json")]
    files: Vec<PathBuf>,

    /// Results folder to add the cells to; it is created if it is missing, with those above it
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,

    /// Policy that served the reads: a built-in policy or any other name, which is not checked
    /// [default: fio, which means: not known]
    #[arg(short, long, default_value = "fio", hide_default_value = true)]
    policy: String,

    /// Array that was read: an array file, a built-in array or any name [default: fio, which means:
    /// not known]
    #[arg(short, long, default_value = "fio", hide_default_value = true)]
    array: String,

    /// Name of the job [default: the job names in the output of fio]
    #[arg(short, long)]
    job: Option<String>,

    /// Bandwidth, IOPS, latency or histogram log that fio wrote with the RESULT.json. May be given
    /// several times
    #[arg(short, long = "log", value_name = "FILE")]
    logs: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    match &args.from {
        From::Fio(args) => run_fio(args),
        From::Trace(args) => trace::run(args),
    }
}

fn run_fio(args: &FioArgs) -> Result<Ending, Failure> {
    let about = about(args).map_err(Failure::WrongUse)?;
    import::check_folder(&args.output, &about).map_err(Failure::WrongUse)?;
    let records = fio_records(args, &about).map_err(Failure::WrongUse)?;
    import::check_jobs(&args.output, &records).map_err(Failure::WrongUse)?;
    for (path, record) in args.files.iter().zip(&records) {
        for name in record.imported.iter().flat_map(|import| &import.of_several) {
            screen::say(format_args!(
                "note: {}: `{name}` is several jobs that fio reports together (group_reporting): \
                 the options that it repeats are of one, and are left out",
                path.display()
            ));
        }
    }
    let added = import::add(&args.output, records).map_err(Failure::Fault)?;
    for path in &added.written {
        screen::say(format_args!("added {}", path.display()));
    }
    if !added.known.is_empty() {
        let files = added.known.iter().map(|&index| args.files[index].display().to_string());
        let files: Vec<String> = files.collect();
        screen::say(format_args!(
            "note: skipped, because {} already holds them: {}",
            args.output.display(),
            files.join(", ")
        ));
    }
    Ok(Ending::Done)
}

fn about(args: &FioArgs) -> Result<ImportLabels> {
    if args.job.as_deref() == Some("") {
        bail!("--job: the name is empty\n  help: give a name, or leave out --job");
    }
    if args.array.is_empty() {
        bail!("--array: the name is empty\n  help: give a name, or leave out --array");
    }
    let (array, array_text) = array(&args.array)?;
    Ok(ImportLabels { array, array_text, policy: policy(&args.policy)?, job: args.job.clone() })
}

fn fio_records(args: &FioArgs, about: &ImportLabels) -> Result<Vec<CellRecord>> {
    if args.files.len() > 1 && !args.logs.is_empty() {
        bail!(
            "--log belongs to one RESULT.json, but there are {}\n  help: import each with its own \
             logs",
            args.files.len()
        );
    }
    let logs = args.logs.iter().map(|path| Log::open(path).context("--log"));
    let logs = logs.collect::<Result<Vec<Log>>>()?;
    let mut records = Vec::new();
    let mut failures = Vec::new();
    for path in &args.files {
        let shown = path.display();
        let text = read(path).map_err(|error| {
            let help = match error.kind() {
                ErrorKind::NotFound => "check the path".to_owned(),
                ErrorKind::IsADirectory => format!("give files, for example {shown}/*.json"),
                _ => "give a file that you may read".to_owned(),
            };
            anyhow!("cannot read {shown}: {error}\n  help: {help}")
        });
        if text.as_ref().is_ok_and(|text| is_partial(text)) {
            screen::say(format_args!(
                "note: {shown}: fio was stopped before its end, so the figures are of a part of \
                 the run"
            ));
        }
        let record = text.and_then(|text| {
            if let Some((name, help)) = mirrorball_trace::compression(&text) {
                bail!("{shown} is compressed with {name}\n  help: {help}");
            }
            cell(&text, &logs, about).map_err(|error| anyhow!("{shown} {error:#}"))
        });
        match record {
            Ok(record) => records.push(record),
            Err(error) => failures.push(error.to_string()),
        }
    }
    if !failures.is_empty() {
        let mut text = failures.join("\n  ");
        if !text.contains("\n  help: ") {
            text += "\n  help: give files that fio wrote with --output-format=json+";
        }
        bail!(text);
    }
    Ok(records)
}

/// The name of an array, and its text if it is an array file or built in.
fn array(name: &str) -> Result<(String, String)> {
    let is_file = Path::new(name).exists() || name.contains('/') || name.ends_with(".toml");
    match load_array(name) {
        Ok((source, _)) => Ok((source.name, source.text)),
        Err(error) if is_file => Err(error.context("--array")),
        Err(_) => Ok((name.to_owned(), String::new())),
    }
}

/// The canonical name of a built-in policy, else the name unchanged.
fn policy(name: &str) -> Result<String> {
    if name.is_empty() || name == ORACLE {
        bail!(
            "--policy: `{name}` cannot be the name of a policy\n  help: give the policy that \
             served the reads"
        );
    }
    if name == "all" || name.contains(['*', ',']) {
        bail!(
            "--policy: `{name}` means several policies, but only one is allowed here\n  help: give \
             the policy that served the reads"
        );
    }
    let Ok(spec) = Spec::parse(name) else {
        if name.contains(['/', '+', ':']) {
            screen::say(format_args!("note: no built-in policy is named {name}"));
        }
        return Ok(name.to_owned());
    };
    Ok(spec.to_string())
}

/// A file, and of one that is too large so much that it can be refused.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(RESULT_BYTES_MAX + 1).read_to_end(&mut text)?;
    Ok(text)
}
