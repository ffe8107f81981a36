//! `mirrorball advise`: what to change on an array of this machine, or on one that a file
//! describes.
//!
//! Detects the array, compares the settings of its storage system and a few policies of others by
//! simulation, and names what is in force, the best setting that the system offers with its
//! commands, and the best policy known. It changes nothing.

mod question;
mod target;

use crate::compare::system::ChosenSystem;
use crate::ending::{Ending, Failure};
use crate::numbers::{self, THREADS, whole_number};
use crate::screen;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::{ArraySpec, MemberSource, ModelConfidence};
use mirrorball_lab::evaluation::advice::{Advice, text};
use mirrorball_lab::experiment::study::Study;
use mirrorball_lab::report::{Align, Column, Emphasis, Grid, GridRow, draw, wrapped};
use question::{Answer, Question};
use std::num::NonZeroUsize;
use std::path::PathBuf;

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

/// Say which read setting to use on an array, and what it brings
///
/// Detects the array at a path, compares the settings that its storage system offers, by
/// simulation, and prints what you have, the best that the system offers with the commands to set,
/// check and undo it, and the best policy known. Writes only into the folder mirrorball-results.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The disks are simulated by models that `detect` chooses. The answer says how \
sure each choice is; edit the array file and give it in place of the path to correct one.

What was detected is saved as mirrorball-results/NAME.toml, the results in
mirrorball-results/advice-….

Exit code 2 if there is no array at the path, or its storage system is not known; 1 if no advice is
possible, because a member is missing and no read has a choice of members without it.

Examples:
  mirrorball advise /srv/data
  mirrorball advise /dev/md0 my-job.fio
  mirrorball advise my-array.toml --system md:6.12"
)]
pub(crate) struct Args {
    /// Mount point or path on it, block device, name of an array, array file, or built-in array
    /// [default: the only array of this machine]
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
    #[arg(short = 'n', long, value_name = "N", default_value_t = 3, allow_hyphen_values = true,
          value_parser = whole_number(2u32..=1000))]
    repeats: u32,

    /// Seed of the first repeat. The second repeat uses this number plus 1, and so on
    #[arg(short, long, default_value_t = 1, allow_hyphen_values = true,
          value_parser = numbers::seed)]
    seed: u64,

    /// Simulated time of every job with its unit, for example 500ms, 10s or 2m
    #[arg(short, long, value_name = "TIME", default_value = "3s",
          allow_hyphen_values = true, value_parser = numbers::positive_duration)]
    duration: Nanos,

    /// Number of threads, from 1 to 1024; results do not depend on it [default: one per CPU]
    #[arg(short, long, value_name = "N", allow_hyphen_values = true,
          value_parser = whole_number(THREADS))]
    threads: Option<NonZeroUsize>,

    /// Read a recorded copy of the files of a machine in DIR instead of this machine
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let (array, jobs) = target::array_and_jobs(args);
    let target = target::find(args, array)?;
    let question = Question::new(args, &target, &jobs)?;
    screen::print(&about(&question.inputs.array, &target.condition))?;
    let Some(answer) = question.answer(args)? else { return Ok(Ending::Interrupted) };
    let Answer { study, advice, folder } = &answer;
    let width = screen::style().width_columns;
    screen::print(&format!("\n{}\n{}", text::render(advice, width), table(study, advice)))?;
    screen::say(format_args!("results are in {}", folder.display()));
    Ok(if study.has_dead_job() { Ending::FoundFailure } else { Ending::Done })
}

/// The members, with how sure their models are.
fn about(array: &ArraySpec, condition: &Option<String>) -> String {
    let mut text = format!("{}\n", array.name);
    let mut add = |line: String| {
        let width = screen::style().width_columns;
        text += &format!("  {}\n", wrapped(&line, width - 4).replace('\n', "\n    "));
    };
    if let Some(condition) = condition {
        add(format!("its state: {condition}; {}", what_is_advised(array)));
    }
    for member in &array.members {
        let device = member.device.as_ref().map(|device| format!(", {device}"));
        let model = match &member.source {
            MemberSource::Model(profile) => profile.name.as_str(),
            MemberSource::Path(_) | MemberSource::Uri(_) => "a real disk",
        };
        let confidence = member.confidence.map_or("as the array file says", ModelConfidence::name);
        let (devid, device) = (member.devid, device.unwrap_or_default());
        add(match member.is_in_service() {
            true => format!("devid {devid}{device}: simulated as {model} ({confidence})"),
            false => format!("devid {devid}{device}: missing, not read"),
        });
    }
    text
}

/// Which array the advice is for, if the real one is not as it should be.
fn what_is_advised(array: &ArraySpec) -> String {
    let failed = array.members.iter().filter(|member| !member.is_in_service());
    let failed: Vec<String> = failed.map(|member| member.devid.to_string()).collect();
    match &failed[..] {
        [] => "the advice is for the array when it is whole and idle".to_owned(),
        devids => format!(
            "the disk of devid {} is not known, so the advice is for the array without it",
            devids.join(", ")
        ),
    }
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
    let mut columns = vec![column("job", Align::Left, 0)];
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
    let title = "Speed relative to what you have";
    format!("{title}\n") + &draw(&Grid { columns, rows: rows.collect() }, screen::style())
}
