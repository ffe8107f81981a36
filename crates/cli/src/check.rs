//! `mirrorball check`: are these arrays and jobs well formed, and what do they say?
//!
//! Every file is checked, whatever is wrong with those before it.

use crate::ending::{Ending, Failure};
use crate::screen;
use anyhow::{Result, bail};
use mirrorball_core::units::{GIB, MIB, Nanos, TIB};
use mirrorball_disk::array_file::{ArraySpec, MemberSource, MemberSpec};
use mirrorball_lab::inputs::{load_array, load_job};
use mirrorball_sim::job::{Access, Background, Direction, Extent, Job, JobFile, Mix};
use std::path::Path;

/// Check array files (.toml) and job files (.fio), and show what they say
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Built-in arrays and jobs may be named like files. Exit code 2 if any file \
is wrong.

Examples:
  mirrorball check my-array.toml my-job.fio
  mirrorball check arrays/*.toml jobs/*.fio
  mirrorball check arrays/hetero-hdd-raid1.toml"
)]
pub(crate) struct Args {
    /// The files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let mut ending = Ending::Done;
    for file in &args.files {
        match describe(file) {
            Ok(text) => screen::print(&text)?,
            Err(error) => {
                eprintln!("error: {error:#}");
                ending = Ending::WrongUse;
            }
        }
    }
    Ok(ending)
}

fn describe(file: &str) -> Result<String> {
    match Path::new(file).extension().and_then(|ending| ending.to_str()) {
        Some("toml") => Ok(format!("{file}: {}", array(&load_array(file)?.1)?)),
        Some("fio") => Ok(format!("{file}: {}", job_file(&load_job(file)?.1))),
        _ => bail!(
            "{file}: neither an array nor a job by its name (arrays end in .toml, jobs in .fio)"
        ),
    }
}

fn array(spec: &ArraySpec) -> Result<String> {
    let count = spec.members.len();
    let mut text = format!("{}: {} over {count} members", spec.name, spec.profile.name());
    let is_real = |member: &MemberSpec| !matches!(member.source, MemberSource::Model(_));
    if spec.members.iter().any(is_real) {
        text += ", some of them real: not for simulation";
    } else {
        let capacity_bytes = spec.chunk_map()?.capacity_bytes();
        let used_bytes = spec.used_bytes(capacity_bytes);
        text += &format!(", {}", size(capacity_bytes));
        if used_bytes > 0 {
            text += &format!(", the first {} of them older data", size(used_bytes));
        }
    }
    text.push('\n');
    for member in &spec.members {
        let what = match &member.source {
            MemberSource::Model(profile) => {
                format!("{}, {}", profile.name, size(profile.capacity_bytes))
            }
            MemberSource::Path(path) => path.display().to_string(),
            MemberSource::Uri(uri) => uri.clone(),
        };
        text += &format!("  devid {}: {what}", member.devid);
        if let Some(link) = member.link {
            text += &format!(", behind {}", spec.links[link].name);
        }
        if !member.faults.is_empty() {
            text += &format!(", faults: {}", member.faults.len());
        }
        text.push('\n');
    }
    Ok(text)
}

fn job_file(file: &JobFile) -> String {
    let (jobs, background) = (file.jobs.len(), file.background.len());
    let mut text = format!("jobs: {jobs}, beside them: {background}\n");
    for job in &file.jobs {
        text += &format!("  [{}] {}\n", job.name, job_line(job));
    }
    for Background { kind, rate_bytes_per_s, .. } in &file.background {
        let rate = rate_bytes_per_s.map(|rate| format!("at {}/s", size(rate)));
        let rate = rate.unwrap_or("as fast as it can".to_owned());
        text += &format!("  beside: {} {rate}\n", format!("{kind:?}").to_lowercase());
    }
    for note in &file.notes {
        text += &format!("  note: line {}: `{}`: {}\n", note.line, note.option, note.reason);
    }
    text
}

fn job_line(job: &Job) -> String {
    let access = match job.access {
        Access::Sequential => "sequential",
        Access::Random => "random",
    };
    let mix = match job.mix {
        Mix::Only(Direction::Read) => "reads".to_owned(),
        Mix::Only(Direction::Write) => "writes".to_owned(),
        Mix::Only(Direction::Trim) => "trims".to_owned(),
        Mix::ReadWrite { read_percent } => format!("reads ({read_percent} %) and writes"),
    };
    let sizes = &job.sizes[job.mix.directions()[0]];
    let sizes: Vec<String> = sizes.iter().map(|share| size(share.bytes)).collect();
    let region = match job.size {
        None => "the whole volume".to_owned(),
        Some(Extent::Bytes(bytes)) => size(bytes),
        Some(Extent::Percent(percent)) => format!("{percent} % of the volume"),
    };
    let clones = if job.clones == 1 { String::new() } else { format!(", {} clones", job.clones) };
    let cache = if job.direct { "" } else { ", through the page cache" };
    let until = match (job.runtime, job.time_based) {
        (Some(runtime), true) => format!(", for {runtime}"),
        (Some(runtime), false) => format!(", for {runtime} at most"),
        (None, _) => String::new(),
    };
    let ramp = if job.ramp == Nanos::ZERO { String::new() } else { format!(" after {}", job.ramp) };
    format!(
        "{access} {mix} of {} over {region}, {} in flight{clones}{cache}{until}{ramp}",
        sizes.join(" or "),
        job.depth
    )
}

/// A size in the largest unit that it fills.
fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (1024, "KiB")];
    let unit = UNITS.into_iter().find(|&(unit, _)| bytes >= unit);
    let (unit, name) = unit.unwrap_or((1, "bytes"));
    if bytes.is_multiple_of(unit) {
        format!("{} {name}", bytes / unit)
    } else {
        format!("{:.1} {name}", bytes as f64 / unit as f64)
    }
}
