//! The request, checked: the array, the settings, the jobs and the number of rounds.
//!
//! Everything that can be found wrong before the first change is found here.

use super::arms::ArmSet;
use super::data_folder;
use super::design::{self, BenchStep, RunTimes};
use super::fio_job;
use super::journal;
use super::pid_remainders::{self, PidRemainders};
use crate::detect::{DetectedArray, DetectedMember, Identifiers, Sysroot, array_identifiers};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{Nanos, counted, format_bytes};
use mirrorball_disk::array_file::ArrayFile;
use mirrorball_lab::experiment::build::BuildIdentity;
use mirrorball_lab::experiment::hash::stable_hash;
use mirrorball_lab::experiment::inputs::load_job;
use mirrorball_lab::experiment::plan::{Cell, Choices, InputText, Plan, Reference};
use mirrorball_sim::job::{Direction, JobFile, Mix};
use rustix::fs::statvfs;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Bound of the lateness where all members rotate, and where one does not: those that figures of
/// emulated disks are held to.
const LATENESS_MAX_ROTATIONAL: Nanos = Nanos::from_micros(500);
const LATENESS_MAX: Nanos = Nanos::from_micros(150);
/// The time for all runs if none is given.
const BUDGET_DEFAULT: Nanos = Nanos::from_secs(40 * 60);

/// Shortest window that a test of steadiness has enough rates for.
const STEADINESS_TESTED: Nanos = Nanos::from_secs(6);

#[derive(Clone, Debug)]
pub struct BenchRequest<'a> {
    pub sysroot: &'a Sysroot,
    /// The path, device or name that was given.
    pub target: &'a str,
    pub jobs: &'a [String],
    /// Policies to measure; one of each kind if not given.
    pub policies: Option<&'a str>,
    /// The lengths of a run's windows.
    pub times: RunTimes,
    pub budget: Nanos,
    /// Number of rounds, in place of the budget.
    pub rounds: Option<usize>,
    pub size_bytes: u64,
    pub seed: u64,
    /// True to read the device itself, in place of a file.
    pub reads_device: bool,
    /// Most time that this host may be late; a bound by the kind of the members if not given.
    pub lateness_max: Option<Nanos>,
    /// True if the plan is printed and nothing is run.
    pub only_plans: bool,
    /// The command, for the record.
    pub command: &'a str,
    /// The build of the program, for the record.
    pub build: BuildIdentity,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DataPlace {
    /// A file in this folder, which is created and removed.
    Folder {
        folder: PathBuf,
        /// The folder that it is in, by its path on the machine.
        above: String,
    },
    Device(String),
}

/// A job, as it was read.
#[derive(Clone, Debug)]
pub(super) struct BenchJob {
    pub(super) text: String,
    /// True if no section writes.
    pub(super) only_reads: bool,
    /// Groups of sections, which run one after the other.
    pub(super) groups: usize,
}

/// A benchmark that can be run.
#[derive(Clone, Debug)]
pub struct Bench {
    pub(super) sysroot: Sysroot,
    pub(super) target: String,
    /// The array, as it was when the request was checked.
    pub array: DetectedArray,
    pub(super) identity: Identifiers,
    pub(super) arms: ArmSet,
    pub(super) jobs: Vec<BenchJob>,
    pub(super) place: DataPlace,
    pub(super) size_bytes: u64,
    pub(super) lateness_max: Nanos,
    /// The lengths of a run's windows.
    pub times: RunTimes,
    pub rounds: usize,
    pub plan: Plan,
    pub notes: Vec<String>,
}

impl Bench {
    /// Checks a request on `array`, which was detected at its target. Fails if the array is not
    /// complete and idle, a job or policy is not known or not possible here, or the budget is too
    /// small.
    pub fn new(request: BenchRequest<'_>, array: DetectedArray) -> Result<Bench, Diagnostic> {
        check_condition(&array, "measured")?;
        let (described, text) = description(&array)?;
        let arms = ArmSet::new(request.sysroot, &array, &described.spec, request.policies)?;
        let (jobs, sources) = jobs(&request)?;
        let place = place(&request, &array)?;
        check_place(&request, &place, &jobs, &sources)?;
        let rounds = rounds(&request, &jobs, arms.arms.len())?;
        let identity = array_identifiers(request.sysroot, &array);
        let mut notes = arms.notes.clone();
        notes.extend(notes_on(&request, &arms, &jobs, &sources));
        notes.extend(design::imbalance(rounds, arms.arms.len()));
        let policies: Vec<String> = arms.arms.iter().map(|arm| arm.spec.clone()).collect();
        notes.extend(PidRemainders::new(array.profile).and_then(|remainders| {
            let namespace = pid_remainders::namespace();
            let is_live = request.sysroot.is_live();
            remainders.note(rounds, &policies, if is_live { &namespace } else { "" })
        }));
        let silent = array.members.iter().filter_map(|it| silent_disk(request.sysroot, it));
        notes.extend(silent.map(|disk| {
            format!(
                "{disk} does not count its I/O: the members are not shown (1 in \
                 /sys/block/{disk}/queue/iostats has it count)"
            )
        }));
        notes.extend(array.notes.iter().cloned());
        let fingerprint = stable_hash([&*described.spec.canonical_text()]);
        let source = InputText { name: array.name.clone(), text, fingerprint };
        let choices = Choices {
            policies,
            seeds: (0..rounds as u64).map(|round| request.seed.wrapping_add(round)).collect(),
            duration_ns: Some(request.times.measure.0),
        };
        let mut plan =
            Plan::new(request.build, source, sources, choices, request.command.to_owned());
        plan.reference = Reference::Nothing;
        let rotates = |it: &DetectedMember| {
            it.disk.as_ref().is_some_and(|disk| disk.rotational == Some(true))
        };
        let bound = match array.members.iter().all(rotates) {
            true => LATENESS_MAX_ROTATIONAL,
            false => LATENESS_MAX,
        };
        Ok(Bench {
            sysroot: request.sysroot.clone(),
            target: request.target.to_owned(),
            identity,
            arms,
            jobs,
            place,
            size_bytes: request.size_bytes,
            lateness_max: request.lateness_max.unwrap_or(bound),
            times: request.times,
            rounds,
            plan,
            notes,
            array,
        })
    }

    pub(super) fn steps(&self) -> Vec<BenchStep> {
        design::steps(self.rounds, self.jobs.len(), self.arms.arms.len())
    }

    pub(super) fn cell(&self, step: &BenchStep) -> Cell<'_> {
        Cell {
            plan: &self.plan,
            job_index: step.job,
            policy: &self.plan.policies[step.arm],
            repeat: step.round as u32,
            seed: self.plan.seeds[step.round],
        }
    }

    /// The kernel's name of a member whose I/O is counted.
    pub(super) fn counted_name(&self, member: &DetectedMember) -> Option<String> {
        let name = member.kernel_name.clone();
        name.filter(|_| silent_disk(&self.sysroot, member).is_none())
    }

    /// Most time that this host may be late.
    pub fn lateness_max(&self) -> Nanos {
        self.lateness_max
    }

    /// How long all runs take together.
    pub fn duration(&self) -> Nanos {
        let groups: Vec<usize> = self.jobs.iter().map(|job| job.groups).collect();
        let round = design::round_time(self.times, &groups, self.arms.arms.len());
        Nanos(round.0.saturating_mul(self.rounds as u64))
    }
}

/// The disk of a member, if its I/O is not counted.
fn silent_disk(sysroot: &Sysroot, member: &DetectedMember) -> Option<String> {
    let disk = member.disk.as_ref()?.name.clone();
    let iostats = sysroot.number(&format!("/sys/block/{disk}/queue/iostats"));
    (iostats == Some(0)).then_some(disk)
}

fn notes_on(
    request: &BenchRequest<'_>,
    arms: &ArmSet,
    jobs: &[BenchJob],
    sources: &[InputText],
) -> Vec<String> {
    let mut notes = Vec::new();
    if let [only] = arms.arms.as_slice() {
        notes.push(match request.policies {
            Some(_) => format!("--policy names one setting, {}: nothing is compared", only.spec),
            None => format!(
                "the running system offers one setting that can be measured, {}: nothing is \
                 compared",
                only.spec
            ),
        });
    }
    for (job, source) in jobs.iter().zip(sources) {
        let left_out = fio_job::left_out(&job.text);
        if !left_out.is_empty() {
            notes.push(format!("{}: bench leaves out {}", source.name, left_out.join(", ")));
        }
    }
    if request.times.measure < STEADINESS_TESTED {
        notes.push(format!(
            "with --measure below {STEADINESS_TESTED}, bench does not test whether the rate was \
             steady within a run"
        ));
    }
    let is_lasting = arms.knobs.iter().any(|knob| knob.kind.is_lasting());
    let volatile = journal::volatile_folder(request.sysroot);
    if let Some(folder) = volatile.filter(|_| is_lasting && request.sysroot.is_live()) {
        notes.push(format!(
            "{} is emptied by a restart of the machine, but the flags of md are not: after a crash \
             of the machine, bench could not restore them",
            folder.display()
        ));
    }
    notes
}

/// Checks that the array is complete and does nothing else, so that it may be measured or changed.
pub(crate) fn check_condition(array: &DetectedArray, verb: &str) -> Result<(), Diagnostic> {
    let condition = match array.has_paths() {
        true => array.condition_text(),
        // How full it is and what it has lost change no setting.
        false => array.condition.text(),
    };
    let Some(condition) = condition else { return Ok(()) };
    let condition = match (&array.condition.activity, array.condition.degraded) {
        (Some(activity), false) if !array.has_paths() => {
            let progress = array.condition.progress_percent;
            let progress = progress.map_or_else(String::new, |done| format!(" ({done:.1} % done)"));
            match activity.as_str() {
                "inactive" | "clear" | "frozen" => format!("it is {activity}"),
                "recover" => format!("a recovery is running{progress}"),
                _ => format!("a {activity} is running{progress}"),
            }
        }
        _ => format!("it is {condition}"),
    };
    let what = format!("{} is not {verb}: {condition}", array.name);
    let help = match array.condition.degraded {
        true if array.has_paths() => "find why a path is down, and wait until it is back",
        true => "replace the missing member, and wait for its rebuild",
        false => "wait until it has ended",
    };
    Err(Diagnostic::new(what).with_help(help))
}

/// The array as an array file. Flags of members are settings to measure, not part of it.
pub(crate) fn description(array: &DetectedArray) -> Result<(ArrayFile, String), Diagnostic> {
    let mut array = array.clone();
    array.policy.spec = array.in_force();
    for member in &mut array.members {
        member.write_mostly = false;
    }
    let text = array.array_file();
    Ok((ArrayFile::parse(&text, &array.name)?, text))
}

/// A displayed error, whose help is on a line of its own, as a diagnostic.
fn message_and_help(text: &str) -> Diagnostic {
    match text.split_once("\n  help: ") {
        Some((message, help)) => Diagnostic::new(message).with_help(help),
        None => Diagnostic::new(text),
    }
}

fn jobs(request: &BenchRequest<'_>) -> Result<(Vec<BenchJob>, Vec<InputText>), Diagnostic> {
    let (mut jobs, mut sources): (Vec<BenchJob>, Vec<InputText>) = (Vec::new(), Vec::new());
    for name in request.jobs {
        if ArrayFile::builtin(name).is_ok() {
            let what = format!("`{name}` is a simulated array, but a job is expected here");
            return Err(Diagnostic::new(what).with_help("give jobs after the path"));
        }
        let (source, job) =
            load_job(name).map_err(|error| message_and_help(&format!("{error:#}")))?;
        if sources.iter().any(|other| other.name == source.name) {
            let is_same = |other: &&String| *other == name;
            let (what, help) = match request.jobs.iter().filter(is_same).count() {
                0 | 1 => {
                    (format!("two jobs have the name `{}`", source.name), "rename one of the files")
                }
                _ => (format!("`{name}` is given twice"), "remove one of them"),
            };
            return Err(Diagnostic::new(what).with_help(help));
        }
        if fio_job::includes_a_file(&source.text) {
            let what = format!("job `{}` includes another file", source.name);
            let help = "copy its lines into the job: bench checks each before fio runs it as root";
            return Err(Diagnostic::new(what).with_help(help));
        }
        if let Some(engine) = fio_job::foreign_engine(&source.text) {
            let what = format!("job `{}` has the I/O engine `{engine}`", source.name);
            let help = "bench runs fio as root on one file: give libaio, io_uring, psync or \
                        another engine for files";
            return Err(Diagnostic::new(what).with_help(help));
        }
        if job.sections.iter().any(|section| section.replay.is_some()) {
            let what = format!("job `{}` replays a trace", source.name);
            let help = "bench runs fio as root, and fio opens the files that a trace names: fit a \
                        job with `mirrorball import trace TRACE --fit JOB.fio`";
            return Err(Diagnostic::new(what).with_help(help));
        }
        if !job.background.is_empty() {
            let what = format!("job `{}` declares work in the background", source.name);
            let help = "bench runs fio alone: give a job without it, as `compare` simulates both";
            return Err(Diagnostic::new(what).with_help(help));
        }
        jobs.push(bench_job(&source.text, &job));
        sources.push(source);
    }
    Ok((jobs, sources))
}

fn bench_job(text: &str, job: &JobFile) -> BenchJob {
    let groups: BTreeSet<usize> = job.sections.iter().map(|section| section.group).collect();
    let reads = |mix: Mix| matches!(mix, Mix::Only(Direction::Read));
    BenchJob {
        text: text.to_owned(),
        only_reads: job.sections.iter().all(|section| reads(section.mix)),
        groups: groups.len(),
    }
}

/// Where the jobs read: below the path that was given, if it is a folder; else below the mount
/// point.
fn place(request: &BenchRequest<'_>, array: &DetectedArray) -> Result<DataPlace, Diagnostic> {
    if request.reads_device {
        if !request.target.starts_with("/dev/") {
            let what = format!("--read-device: `{}` is not the path of a device", request.target);
            return Err(Diagnostic::new(what).with_help("give it as in `/dev/md0`"));
        }
        return Ok(DataPlace::Device(request.target.to_owned()));
    }
    let given = request.sysroot.host_path(request.target);
    let is_given = request.target.starts_with('/') && given.is_dir();
    let above = match (&array.mount, is_given) {
        (_, true) => request.target,
        (Some(mount), false) => mount.as_str(),
        (None, false) => {
            let what =
                format!("{} is not mounted, so bench cannot create a file on it", array.name);
            let help = "mount it, or give --read-device to read the device itself";
            return Err(Diagnostic::new(what).with_help(help));
        }
    };
    let folder = data_folder::path(&request.sysroot.host_path(above));
    Ok(DataPlace::Folder { folder, above: above.to_owned() })
}

/// Checks that the jobs can run there.
fn check_place(
    request: &BenchRequest<'_>,
    place: &DataPlace,
    jobs: &[BenchJob],
    sources: &[InputText],
) -> Result<(), Diagnostic> {
    let folder = match place {
        DataPlace::Folder { folder, .. } => folder,
        DataPlace::Device(device) => {
            let mut writers = jobs.iter().zip(sources).filter(|(job, _)| !job.only_reads);
            let Some((_, source)) = writers.next() else { return Ok(()) };
            let what = format!("job `{}` writes, and {device} has data", source.name);
            let help = "leave out --read-device: bench then creates a file for the job";
            return Err(Diagnostic::new(what).with_help(help));
        }
    };
    let above = folder.parent().unwrap_or(Path::new("/"));
    let space = match statvfs(above) {
        Ok(space) => space,
        // A recorded copy has no folder of the data, and a plan needs none.
        Err(Errno::NOENT) if request.only_plans => return Ok(()),
        Err(Errno::NOENT) => {
            let what = format!("cannot create a file in {}: no such folder", above.display());
            return Err(Diagnostic::new(what).with_help("create the folder, or give another one"));
        }
        Err(error) => {
            let what = format!("cannot create a file in {}: {error}", above.display());
            let help = "give a folder on the array that can be written";
            return Err(Diagnostic::new(what).with_help(help));
        }
    };
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    if request.size_bytes > free / 10 * 9 {
        let what = format!(
            "a file of {} does not fit into {}, which has {} free",
            format_bytes(request.size_bytes),
            above.display(),
            format_bytes(free)
        );
        return Err(Diagnostic::new(what).with_help("give a smaller one with --size"));
    }
    Ok(())
}

fn rounds(request: &BenchRequest<'_>, jobs: &[BenchJob], arms: usize) -> Result<usize, Diagnostic> {
    if let Some(rounds) = request.rounds {
        return Ok(rounds);
    }
    let groups: Vec<usize> = jobs.iter().map(|job| job.groups).collect();
    let round = design::round_time(request.times, &groups, arms);
    match design::rounds_within(request.budget, round, arms) {
        rounds @ 2.. => Ok(rounds),
        _ => {
            let what = format!(
                "--budget {}{} is too short: one round of {} under {} takes {round}, and two are \
                 needed",
                request.budget,
                if request.budget == BUDGET_DEFAULT { ", the default," } else { "" },
                counted(jobs.len(), "job", "jobs"),
                counted(arms, "setting", "settings")
            );
            let help = "raise it, name fewer jobs or policies, or shorten --settle and --measure";
            Err(Diagnostic::new(what).with_help(help))
        }
    }
}
