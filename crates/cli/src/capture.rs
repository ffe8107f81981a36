//! `mirrorball capture`: records what a running array is asked.

use crate::ending::{Ending, Failure};
use crate::numbers;
use crate::output_file::{self, Existing};
use crate::screen;
use anyhow::{Context, Error, anyhow};
use mirrorball_core::diagnostic::quoted;
use mirrorball_core::units::Nanos;
use mirrorball_host::capture::{CaptureTarget, TraceSession};
use mirrorball_host::detect::{Sysroot, detect_at};
use mirrorball_lab::temporary_file::TemporaryFile;
use mirrorball_trace::{CAPTURE_HEADER, CaptureCounts, CaptureWriter, TraceFile, TraceSummary};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Pause when the buffer of the kernel is empty.
const PAUSE: Duration = Duration::from_millis(20);
/// Bytes read of the kernel's buffer at a time.
const READ_BYTES: u64 = 1 << 20;
const TRACE_BYTES_MAX: u64 = 2 << 30;
/// Time between looks at the chunks of a btrfs.
const CHUNKS_INTERVAL: Duration = Duration::from_secs(1);
/// The built-in array that is suggested where the load was none of an array.
const EXAMPLE_ARRAY: &str = "two-hdd-raid1";
/// Time between looks at the numbers in flight.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Record what a running array is asked, as a trace
///
/// As root, records the kernel's block tracepoints: when each request was queued, what it asked,
/// and how long it took. Without root, or where the kernel has no tracefs, counts rates, sizes and
/// depths, and writes a job that resembles them. Sends no I/O to the array. The trace has no data,
/// no names and no ids of processes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Ctrl-C ends the recording early and keeps it.

Examples:
  mirrorball capture /srv/data --for 10m
  mirrorball advise /srv/data --load load.trace
  mirrorball import trace load.trace --fit load.fio")]
pub(crate) struct Args {
    /// Path on a mounted file system, or block device
    #[arg(value_name = "PATH|DEVICE")]
    path: String,

    /// How long to record, with its unit, for example 30s or 10m
    #[arg(long = "for", value_name = "TIME", default_value = "1m", allow_hyphen_values = true,
          value_parser = numbers::positive_duration)]
    time: Nanos,

    /// Trace to write; with --counters a job file [default: load.trace or load.fio]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace the file of -o if it exists
    #[arg(long)]
    force: bool,

    /// Count the load in place of recording it, as without root
    #[arg(long)]
    counters: bool,
}

/// A recording while it runs.
struct LoadRecorder<'a> {
    target: &'a CaptureTarget,
    session: TraceSession,
    writer: CaptureWriter,
    file: TemporaryFile,
    text: Vec<u8>,
    trace: String,
    bytes: u64,
    /// When the chunks were read, and how many requests were outside of them before.
    renewed: (Instant, u64),
}

struct RecordingCost {
    time: Duration,
    cpu: Duration,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let wrong = |error| Failure::WrongUse(Error::new(error));
    let sysroot = Sysroot::live();
    let target = CaptureTarget::find(&sysroot, &args.path).map_err(wrong)?;
    let existing = if args.force { Existing::Replace } else { Existing::Keep(Some("-o FILE")) };
    let stop = stop_at_ctrl_c().map_err(Failure::Fault)?;
    if !args.counters {
        let session = target.chunks().and_then(|it| Ok((it, TraceSession::new(&target.devices)?)));
        match session {
            Ok((chunks, session)) => {
                let output = args.output.clone().unwrap_or_else(|| "load.trace".into());
                output_file::check(&output, existing).map_err(Failure::WrongUse)?;
                if output.exists() && !output.is_file() {
                    let output = output.display();
                    return Err(Failure::WrongUse(anyhow!(
                        "cannot record to {output}: it is not a file\n  help: give another with -o"
                    )));
                }
                let file = output_file::create(&output, existing);
                let file = file.with_context(|| output.display().to_string());
                let recorder = LoadRecorder {
                    target: &target,
                    session,
                    writer: CaptureWriter::new(target.devices.clone(), chunks),
                    file: file.map_err(Failure::WrongUse)?,
                    text: Vec::new(),
                    trace: CAPTURE_HEADER.to_owned(),
                    bytes: 0,
                    renewed: (Instant::now(), 0),
                };
                return record(args, recorder, (&output, existing), stop);
            }
            Err(error) => screen::say(format_args!("note: counters only: {error}")),
        }
    }
    let output = args.output.clone().unwrap_or_else(|| "load.fio".into());
    check_is_job(&output).map_err(Failure::WrongUse)?;
    output_file::check(&output, existing).map_err(Failure::WrongUse)?;
    let (started, before, mut looks) = (Instant::now(), target.counters(&sysroot), <_>::default());
    while wait(started, args.time, stop, LOOK_INTERVAL) {
        target.look(&sysroot, &mut looks);
    }
    let time = Nanos(started.elapsed().as_nanos() as u64);
    let load = target.load((before, target.counters(&sysroot)), time, looks);
    if load.is_idle() {
        return Err(idle_array(args));
    }
    let job = load.fit(&format!("counters of {}", args.path)).map_err(wrong)?;
    output_file::write(&output, &job, existing).map_err(Failure::Fault)?;
    screen::print(&load.describe())?;
    Ok(advised(args, &output, stop))
}

/// Checks that the name of a file to write a job into is not that of a trace.
fn check_is_job(output: &Path) -> anyhow::Result<()> {
    if output.extension().is_some_and(|it| it == "trace" || it == "csv") {
        let output = output.display();
        return Err(anyhow!(
            "{output} would be a job and no trace, because counters have no requests\n  help: \
             record as root and without --counters, or give -o load.fio"
        ));
    }
    Ok(())
}

/// Ends the recording at Ctrl-C. Further ones have no effect: the buffer in the kernel is removed
/// when the recording has ended, within a second.
fn stop_at_ctrl_c() -> anyhow::Result<&'static AtomicBool> {
    static STOP: AtomicBool = AtomicBool::new(false);
    let handled = ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed));
    handled.context("cannot listen for Ctrl-C")?;
    Ok(&STOP)
}

/// Waits for one interval; returns false if the time is over, or at Ctrl-C.
fn wait(started: Instant, time: Nanos, stop: &AtomicBool, interval: Duration) -> bool {
    let left = Duration::from_nanos(time.0).saturating_sub(started.elapsed());
    if !left.is_zero() && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(interval.min(left));
    }
    !left.is_zero() && !stop.load(Ordering::Relaxed)
}

/// Records until the time is over, and shows what was recorded.
fn record(
    args: &Args,
    mut recorder: LoadRecorder<'_>,
    (output, existing): (&Path, Existing),
    stop: &AtomicBool,
) -> Result<Ending, Failure> {
    let fault = |error: io::Error| {
        Failure::Fault(Error::new(error).context(format!("cannot record {}", args.path)))
    };
    let (started, cpu) = (Instant::now(), cpu_time());
    recorder.session.start().map_err(fault)?;
    while started.elapsed() < Duration::from_nanos(args.time.0)
        && !stop.load(Ordering::Relaxed)
        && recorder.bytes < TRACE_BYTES_MAX
    {
        if !recorder.take().map_err(fault)? {
            std::thread::sleep(PAUSE);
            recorder.renew_chunks();
        }
    }
    recorder.session.stop();
    let time = started.elapsed();
    while recorder.take().map_err(fault)? {}
    recorder.writer.finish(&mut recorder.trace);
    recorder.file.file().write_all(recorder.trace.as_bytes()).map_err(fault)?;
    let cost = RecordingCost { time, cpu: cpu_time().saturating_sub(cpu) };
    let LoadRecorder { session, writer, file, .. } = recorder;
    let (counts, lost) = (writer.counts, session.lost());
    drop(session);
    if counts.written == 0 {
        return Err(idle_array(args));
    }
    output_file::give_name(file, output, existing).map_err(fault)?;
    screen::print(&recorded(&counts, lost, &cost))?;
    let wrong = |error| Failure::WrongUse(Error::new(error));
    let file = TraceFile::new(output, Some("msr"), None).map_err(wrong)?;
    screen::print(&TraceSummary::of(&file).map_err(wrong)?.describe())?;
    Ok(advised(args, output, stop))
}

impl LoadRecorder<'_> {
    /// Writes what the kernel has recorded since; returns false if there was nothing.
    fn take(&mut self) -> io::Result<bool> {
        let read = self.session.read(&mut self.text, READ_BYTES)?;
        let whole = self.text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in self.text[..whole].split(|byte| *byte == b'\n') {
            self.writer.add(line, &mut self.trace);
        }
        self.text.drain(..whole);
        self.bytes += self.trace.len() as u64;
        self.file.file().write_all(self.trace.as_bytes())?;
        self.trace.clear();
        Ok(read > 0)
    }

    /// Reads again where a btrfs has its data: it makes chunks as it fills.
    fn renew_chunks(&mut self) {
        let outside = self.writer.counts.outside;
        if outside > self.renewed.1
            && self.renewed.0.elapsed() >= CHUNKS_INTERVAL
            && let Ok(chunks) = self.target.chunks()
        {
            self.writer.chunks = chunks;
            self.renewed = (Instant::now(), outside);
        }
    }
}

fn recorded(counts: &CaptureCounts, lost: u64, cost: &RecordingCost) -> String {
    let CaptureCounts { written, unfinished, outside, malformed } = counts;
    let mut text = format!("recorded  {written} requests in {:.1} s", cost.time.as_secs_f64());
    for (count, what) in [
        (lost, "events lost, for which the kernel's buffer had no place"),
        (*unfinished, "without an end"),
        (*outside, "outside of the array left out"),
        (*malformed, "lines not understood"),
    ] {
        if count > 0 || what.starts_with("events") {
            text += &format!("; {count} {what}");
        }
    }
    text += &format!(
        "\noverhead  {:.1} % of one CPU\n",
        100.0 * cost.cpu.as_secs_f64() / cost.time.as_secs_f64().max(1e-9)
    );
    text
}

fn idle_array(args: &Args) -> Failure {
    Failure::Fault(anyhow!(
        "nothing was asked of {} in {}\n  help: capture while programs use it, or for longer",
        args.path,
        args.time
    ))
}

/// Says what the file is for: advice on the array, or on one that the machine could have.
fn advised(args: &Args, output: &Path, stop: &AtomicBool) -> Ending {
    let array = match detect_at(&Sysroot::live(), &args.path) {
        Ok(_) => quoted(&args.path),
        Err(_) => EXAMPLE_ARRAY.to_owned(),
    };
    let shown = output.display().to_string();
    screen::say(format_args!(
        "wrote {shown}; try `mirrorball advise {array} --load {}`",
        quoted(&shown)
    ));
    if stop.load(Ordering::Relaxed) { Ending::Interrupted } else { Ending::Done }
}

fn cpu_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split_whitespace().next().and_then(|word| word.parse().ok());
    Duration::from_nanos(ns.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_job_is_not_written_into_a_file_named_as_a_trace() {
        let is_job = |name: &str| super::check_is_job(name.as_ref()).is_ok();
        assert!(is_job("load.fio") && is_job("load") && !is_job("x.trace") && !is_job("x.csv"));
    }
}
