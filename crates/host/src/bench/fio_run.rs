//! One run of fio, watched: the counters of the members over time, and how late this host is.
//!
//! While fio runs, this thread sleeps and wakes up. How late it wakes up says how loaded the host
//! is: fio's threads are as late. The counters of the disks are read twice a second.

use super::changed_array::ChangedArray;
use super::process_tree::kill_tree;
use super::reader_log::ReaderLog;
use crate::detect::Sysroot;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::Nanos;
use mirrorball_health::counters::DiskCounters;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const DISKSTATS: &str = "/proc/diskstats";
const SLEEP: Duration = Duration::from_millis(5);
/// Sleeps between two samples of the counters.
const SLEEPS_PER_SAMPLE: u32 = 100;
/// Sleeps before fio's processes are looked at: it starts them within a tenth of a second.
const SLEEPS_BEFORE_ACCEPTING: u32 = 40;
/// Most characters of fio's messages that an error quotes.
const MESSAGE_MAX: usize = 400;
/// Becomes fio when it is let: if `bench` dies before it has recorded the process, fio never runs.
const GATE: &str = "read -r _ && exec fio \"$@\" </dev/null";
/// Exit code of a shell if there is no such program.
const NO_PROGRAM: i32 = 127;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CounterSample {
    /// Since the start of fio.
    pub(super) at: Nanos,
    /// In the order of the members; none where there is no disk of that name.
    pub(super) members: Vec<Option<DiskCounters>>,
}

#[derive(Clone, Debug)]
pub(super) struct FioRun {
    pub(super) output: Vec<u8>,
    /// At least two.
    pub(super) samples: Vec<CounterSample>,
    /// How late each sleep ended, in seconds.
    pub(super) lateness: Vec<f64>,
    /// Numbers of the threads that read, by the first appearance of their job.
    pub(super) readers: Vec<u32>,
}

pub(super) enum FioEnd {
    Done(FioRun),
    /// It was stopped, and killed.
    Stopped,
    /// The processes of fio were not accepted, and fio was killed.
    NotAccepted,
}

pub(super) struct FioCommand<'a> {
    pub(super) job: &'a Path,
    pub(super) output: &'a Path,
    /// True if fio must refuse to write.
    pub(super) is_read_only: bool,
}

/// The members to watch, and when to stop.
pub(super) struct FioWatch<'a> {
    pub(super) sysroot: &'a Sysroot,
    /// Names of the kernel; empty for a member without a disk.
    pub(super) members: &'a [String],
    pub(super) is_stopped: &'a dyn Fn() -> bool,
    /// Knows which fio to end if this process dies.
    pub(super) changed: &'a ChangedArray,
    /// True if the run may go on with these readers; asked once, soon after the start.
    pub(super) accepts: &'a dyn Fn(&[u32]) -> bool,
}

/// Runs fio to its end. Fails if fio cannot be started, or fails.
pub(super) fn run(command: &FioCommand<'_>, watch: &FioWatch<'_>) -> Result<FioEnd, Diagnostic> {
    let messages = command.output.with_extension("err");
    let mut child = start(command, &messages)?;
    let outcome = match let_start(&mut child, watch) {
        Ok(()) => watched(&mut child, watch),
        Err(error) => kill(&mut child).and(Err(error)),
    };
    watch.changed.fio_ended(child.id());
    let (status, run) = match outcome {
        Ok(Watched::Ended(status, run)) => (status, run),
        Ok(Watched::Killed(end)) => return Ok(end),
        Err(error) => return Err(Diagnostic::new(format!("cannot wait for fio: {error}"))),
    };
    let message = fs::read_to_string(&messages).unwrap_or_default();
    if status.code() == Some(NO_PROGRAM) {
        return Err(Diagnostic::new("cannot start fio: no such program")
            .with_help("install fio 3, for example: apt install fio"));
    }
    if !status.success() {
        let mut what = format!("fio failed on {} ({status})", command.job.display());
        let shown: String = message.trim().chars().take(MESSAGE_MAX).collect();
        if !shown.is_empty() {
            what += &format!(": {}", shown.replace('\n', "; "));
        }
        let help = "run fio with this job file to see its whole output, and correct the job";
        return Err(Diagnostic::new(what).with_help(help));
    }
    let _ = fs::remove_file(&messages);
    let output = fs::read(command.output).map_err(|error| {
        Diagnostic::new(format!("cannot read {}: {error}", command.output.display()))
    })?;
    Ok(FioEnd::Done(FioRun { output, ..run }))
}

fn start(command: &FioCommand<'_>, messages: &Path) -> Result<Child, Diagnostic> {
    let create = |path: &Path| {
        File::create(path)
            .map_err(|error| Diagnostic::new(format!("cannot write {}: {error}", path.display())))
    };
    let mut fio = Command::new("sh");
    fio.args(["-c", GATE, "sh", "--output-format=json+", "--eta=never"]);
    if command.is_read_only {
        fio.arg("--readonly");
    }
    fio.arg(command.job).stdin(Stdio::piped()).process_group(0);
    fio.stdout(create(command.output)?).stderr(create(messages)?);
    fio.spawn().map_err(|error| Diagnostic::new(format!("cannot start a shell for fio: {error}")))
}

/// Records the process, and lets it become fio.
fn let_start(child: &mut Child, watch: &FioWatch<'_>) -> io::Result<()> {
    watch.changed.fio_starts(child.id())?;
    let gate = child.stdin.take();
    gate.map_or(Ok(()), |mut gate| gate.write_all(b"\n"))
}

enum Watched {
    /// It ended; its output is not read yet.
    Ended(ExitStatus, FioRun),
    Killed(FioEnd),
}

/// Waits for the end of fio.
fn watched(child: &mut Child, watch: &FioWatch<'_>) -> io::Result<Watched> {
    let started = Instant::now();
    let now = || Nanos(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let mut run = FioRun {
        output: Vec::new(),
        samples: vec![sample(watch, Nanos::ZERO)],
        lateness: Vec::new(),
        readers: Vec::new(),
    };
    let mut readers = ReaderLog::default();
    let mut sleeps = 0;
    loop {
        let due = Instant::now() + SLEEP;
        std::thread::sleep(SLEEP);
        run.lateness.push(due.elapsed().as_secs_f64());
        sleeps += 1;
        if let Some(status) = child.try_wait()? {
            run.samples.push(sample(watch, now()));
            run.readers = readers.numbers();
            return Ok(Watched::Ended(status, run));
        }
        if (watch.is_stopped)() {
            kill(child)?;
            return Ok(Watched::Killed(FioEnd::Stopped));
        }
        if sleeps == SLEEPS_BEFORE_ACCEPTING {
            readers.look(child.id());
            let numbers = readers.numbers();
            if !numbers.is_empty() && !(watch.accepts)(&numbers) {
                kill(child)?;
                return Ok(Watched::Killed(FioEnd::NotAccepted));
            }
        }
        if sleeps % SLEEPS_PER_SAMPLE == 0 {
            run.samples.push(sample(watch, now()));
            readers.look(child.id());
        }
    }
}

/// Ends fio and its processes at once.
fn kill(child: &mut Child) -> io::Result<()> {
    kill_tree(child.id());
    child.wait().map(drop)
}

fn sample(watch: &FioWatch<'_>, at: Nanos) -> CounterSample {
    let text = watch.sysroot.text(DISKSTATS).unwrap_or_default();
    let members = watch.members.iter().map(|name| DiskCounters::of(&text, name)).collect();
    CounterSample { at, members }
}
