//! `mirrorball check`: are these arrays and jobs well formed, and what do they say?
//!
//! Every file is checked, whatever is wrong with those before it. Then each job is held against
//! each array that is given with it and can be simulated. Real members are opened for reading, to
//! see that they are there and how large they are; exports of other machines are not asked.

use crate::ending::{Ending, Failure};
use crate::screen;
use anyhow::{Context, Result, bail};
use mirrorball_core::member::MemberState;
use mirrorball_core::units::{GIB, MIB, Nanos, TIB};
use mirrorball_disk::array_file::{ArraySpec, MemberSource, MemberSpec};
use mirrorball_lab::experiment::inputs::{check_fit, load_array, load_job};
use mirrorball_sim::job::{Access, Background, Direction, JobFile, Mix, Section, SizeOrPercent};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::Path;

/// Check array files (.toml) and job files (.fio), and show what they say
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Built-in arrays and jobs may be named like files. Each job is held against each \
array given. Exit code 2 if any file is wrong or a job does not fit an array.

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

/// What was understood so far.
#[derive(Default)]
struct Given {
    arrays: Vec<ArraySpec>,
    jobs: Vec<JobFile>,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let mut ending = Ending::Done;
    let mut complain = |error: &anyhow::Error| {
        screen::say(format_args!("error: {error:#}"));
        ending = Ending::WrongUse;
    };
    let mut given = Given::default();
    for file in &args.files {
        match given.take_in(file) {
            Ok(text) => screen::print(&text)?,
            Err(error) => complain(&error),
        }
    }
    let (pairs, misfits) = given.hold_together();
    misfits.iter().for_each(&mut complain);
    if pairs > 0 && misfits.is_empty() {
        screen::print("every job fits every array\n")?;
    }
    Ok(ending)
}

impl Given {
    /// Reads a file and describes it.
    fn take_in(&mut self, file: &str) -> Result<String> {
        match Path::new(file).extension().and_then(|ending| ending.to_str()) {
            Some("toml") => {
                let spec = load_array(file)?.1;
                let text = format!("{file}: {}", array(&spec)?);
                self.arrays.push(spec);
                Ok(text)
            }
            Some("fio") => {
                let jobs = load_job(file)?.1;
                let text = format!("{file}: {}", job_file(&jobs));
                self.jobs.push(jobs);
                Ok(text)
            }
            _ => bail!(
                "{file}: neither an array nor a job by its name (arrays end in .toml, jobs in .fio)"
            ),
        }
    }

    /// Holds each job against each array that can be simulated; returns how many pairs there were
    /// and what is wrong with them.
    fn hold_together(&self) -> (usize, Vec<anyhow::Error>) {
        let simulated = self.arrays.iter().filter(|array| !array.members.iter().any(is_real));
        let pairs = simulated.flat_map(|array| self.jobs.iter().map(move |jobs| (array, jobs)));
        let misfits = pairs.clone().filter_map(|(array, jobs)| {
            let fit = check_fit(array, jobs);
            fit.with_context(|| format!("on {}", array.file_name)).err()
        });
        (pairs.count(), misfits.collect())
    }
}

fn is_real(member: &MemberSpec) -> bool {
    !matches!(member.source, MemberSource::Model(_))
}

fn array(spec: &ArraySpec) -> Result<String> {
    let count = spec.members.len();
    let mut text = format!("{}: {} over {count} members", spec.name, spec.profile.name());
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
            MemberSource::Path(path) => {
                let bytes = size_of(path).with_context(|| {
                    let (file, line) = (&spec.file_name, member.line);
                    format!("{file}:{line}: cannot open the member {}", path.display())
                })?;
                format!("{}, {}", path.display(), size(bytes))
            }
            MemberSource::Uri(uri) => uri.clone(),
        };
        text += &format!("  devid {}: {what}", member.devid);
        if let Some(link) = member.link {
            text += &format!(", behind {}", spec.links[link].name);
        }
        text += &state(member);
        if !member.faults.is_empty() {
            text += &format!(", faults: {}", member.faults.len());
        }
        text.push('\n');
    }
    Ok(text)
}

/// What keeps a member from being read like the others.
fn state(member: &MemberSpec) -> String {
    let mut text = match member.state {
        MemberState::InSync => String::new(),
        MemberState::Rebuilding { recovered_bytes } => {
            format!(", being rebuilt, {} recovered", size(recovered_bytes))
        }
        MemberState::Failed => ", failed".to_owned(),
    };
    if member.write_mostly {
        text += ", write-mostly";
    }
    text
}

/// The size of a file or a block device, which the metadata of the latter do not have.
fn size_of(path: &Path) -> std::io::Result<u64> {
    File::open(path)?.seek(SeekFrom::End(0))
}

fn job_file(file: &JobFile) -> String {
    let (jobs, background) = (file.sections.len(), file.background.len());
    let mut text = format!("jobs: {jobs}, beside them: {background}\n");
    for job in &file.sections {
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

fn job_line(job: &Section) -> String {
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
        Some(SizeOrPercent::Bytes(bytes)) => size(bytes),
        Some(SizeOrPercent::Percent(percent)) => format!("{percent} % of the volume"),
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
