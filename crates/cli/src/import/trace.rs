//! `mirrorball import trace`: characterises a block trace, and fits a job to it.

use crate::ending::{Ending, Failure};
use crate::output_file::{self, Existing};
use crate::screen;
use anyhow::Error;
use mirrorball_trace::{FORMATS, TraceFile, TraceSummary};
use std::path::PathBuf;

/// Characterise a block trace, and write a job that resembles it
///
/// Shows the read share, sizes, sequentiality, locality and bursts of a trace, in total and by
/// device. To replay the trace itself, write `read_iolog=FILE` in a job file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  mirrorball import trace web.csv
  mirrorball import trace web.csv --device src1.0 --fit web.fio
  mirrorball import trace --formats")]
pub(super) struct TraceArgs {
    /// Trace, not compressed
    #[arg(required_unless_present = "formats", value_name = "TRACE")]
    file: Option<PathBuf>,

    /// Format of the trace [default: detected by its first lines]
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,

    /// Device, volume or file of the trace to read [default: all]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,

    /// Job file to write, with the read share, sizes, sequentiality, locality and rate of the
    /// trace. `-` is standard output, and the description goes to standard error then
    #[arg(long, value_name = "JOB.fio")]
    fit: Option<PathBuf>,

    /// Replace the file of --fit if it exists
    #[arg(long)]
    force: bool,

    /// List the known formats with their columns and units
    #[arg(long, exclusive = true)]
    formats: bool,
}

pub(super) fn run(args: &TraceArgs) -> Result<Ending, Failure> {
    let Some(path) = args.file.as_ref().filter(|_| !args.formats) else {
        screen::print(&format_list())?;
        return Ok(Ending::Done);
    };
    let existing = Existing::from_force(args.force, args.fit.as_deref(), "--fit FILE")?;
    if let Some(job) = &args.fit {
        output_file::check(job, existing).map_err(Failure::WrongUse)?;
    }
    let wrong = |error| Failure::WrongUse(Error::new(error));
    let file = TraceFile::new(path, args.format.as_deref(), args.device.clone()).map_err(wrong)?;
    let summary = TraceSummary::of(&file).map_err(wrong)?;
    let (name, units) = (file.format.name, &file.units);
    let description = format!("format    {name} ({units})\n{}", summary.describe());
    match args.fit.as_deref().is_some_and(output_file::is_stdout) {
        true => screen::say(description.trim_end()),
        false => screen::print(&description)?,
    }
    if let Some(job) = &args.fit {
        let text =
            summary.fit(&format!("the trace {}", path.display()), u64::MAX).map_err(wrong)?;
        output_file::write(job, &text, existing).map_err(Failure::Fault)?;
        if !output_file::is_stdout(job) {
            screen::say(format_args!("wrote {}", job.display()));
        }
    }
    Ok(Ending::Done)
}

fn format_list() -> String {
    let rows = FORMATS.iter().map(|format| {
        format!(
            "{}\n  columns: {}\n  units: {}\n  source: {}\n",
            format.name, format.columns, format.units, format.source
        )
    });
    rows.collect()
}
