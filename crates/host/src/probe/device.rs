//! Runs a probe against an open device or file, in real time.
//!
//! Reads go through the driver of `io` with direct I/O. Before and after, the host itself is
//! looked at: how late it wakes up from a sleep, what a read costs that no device serves, and how
//! much of a processor the probe used. A host that is late measures itself.
//!
//! Where other programs keep the processors busy, a completion wakes the probe, which then waits
//! for its turn. The kernel counts that time for each thread, and it is subtracted from the time
//! at which the read is seen to end.

use super::machine::{MachineAction, ProbeProgress, ReadEnd, RunningProbe};
use super::statistics::quantile;
use super::target::{DeviceCounters, DeviceFacts, ProbeTarget};
use super::virtual_time::HostCost;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{KIB, Nanos};
use mirrorball_io::driver::buffers::{BufferKey, Slice};
use mirrorball_io::driver::{Driver, Event, EventOwner, Handle, Output, Token};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::pread;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Sleeps and reads that look at the host.
const HOST_TRIALS: usize = 200;
const SLEEP: Duration = Duration::from_millis(1);
/// Time after which the runner looks for a stop request.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Reads from this length on have memory in one piece.
const LONG_READ: u64 = 128 * KIB;
/// Time between two reports of progress.
const REPORT_EVERY: Nanos = Nanos::from_millis(250);

/// Needs of a run against a device from outside.
pub struct ProbeControl<'a> {
    /// Set to end the probe early.
    pub stop: &'a AtomicBool,
    /// Called now and then.
    pub on_progress: &'a mut dyn FnMut(ProbeProgress),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct HostCheck {
    /// Cost of a read that no device serves.
    pub(super) read_cost: HostCost,
    /// How late the host woke up, apart from what is subtracted: the slowest hundredth.
    pub(super) lateness_p99: Nanos,
    /// Share of one processor that the probe used.
    pub(super) processor_share: f64,
    pub(super) reads: u64,
    /// I/O of the device that is not ours, and reads of ours that it did not count; `None` if the
    /// kernel has no counters.
    pub(super) foreign: Option<ForeignIo>,
}

/// Difference between the counters of the device and ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ForeignIo {
    pub(super) writes: u64,
    /// Reads of others, or minus the number of ours that it did not count.
    pub(super) reads: i64,
}

impl ForeignIo {
    /// From what the device counted, the reads that were submitted, and the most that it may count
    /// for them, because it may split them.
    fn new(before: DeviceCounters, after: DeviceCounters, submitted: u64, most: u64) -> ForeignIo {
        let counted = after.reads.saturating_sub(before.reads);
        let reads = counted as i64 - counted.clamp(submitted, most) as i64;
        ForeignIo { writes: after.writes.saturating_sub(before.writes), reads }
    }
}

/// A driver that says when what it waited for happened.
struct TimedDriver {
    driver: Driver,
    /// Counters of the scheduler for this thread; `None` if the kernel has none.
    counters: Option<OwnedFd>,
}

/// The open device with a buffer for each slot of the probe.
struct DeviceRun<'a> {
    timed: TimedDriver,
    file: Handle,
    facts: DeviceFacts,
    buffers: Vec<Option<(BufferKey, u64)>>,
    control: ProbeControl<'a>,
    reads: u64,
    /// Reads that the kernel may count for them.
    parts: u64,
    events: Vec<Event>,
}

/// Runs `probe` against `target`. Fails if the kernel has no means of asynchronous reads, or
/// waiting for them fails.
pub(super) fn run(
    probe: &mut RunningProbe,
    target: &ProbeTarget,
    control: ProbeControl<'_>,
) -> Result<HostCheck, Diagnostic> {
    let failed = |error: std::io::Error| {
        Diagnostic::new(format!("cannot read `{}`: {error}", target.path.display()))
    };
    let mut timed = TimedDriver::new().map_err(failed)?;
    let mut late = lateness(&mut timed).map_err(failed)?;
    let read_cost = read_cost(&mut timed).map_err(failed)?;
    let fd = target.fd.try_clone().map_err(failed)?;
    let file = timed.driver.adopt(fd).map_err(failed)?;
    let before = target.counters();
    let (busy, started) = (processor_time(), timed.driver.now());
    let facts = target.facts.clone();
    let (reads, parts, buffers, events) = (0, 0, Vec::new(), Vec::new());
    let mut run = DeviceRun { timed, file, facts, buffers, control, reads, parts, events };
    run.drive(probe).map_err(failed)?;
    let elapsed = run.timed.driver.now().saturating_sub(started).as_secs_f64();
    let busy = processor_time() - busy;
    late.extend(lateness(&mut run.timed).map_err(failed)?);
    let foreign = before
        .zip(target.counters())
        .map(|(before, after)| ForeignIo::new(before, after, run.reads, run.parts));
    Ok(HostCheck {
        read_cost,
        lateness_p99: Nanos::from_secs_f64(quantile(&late, 0.99)),
        processor_share: if elapsed > 0.0 { busy / elapsed } else { 0.0 },
        reads: run.reads,
        foreign,
    })
}

impl TimedDriver {
    fn new() -> std::io::Result<TimedDriver> {
        let path = "/proc/thread-self/schedstat";
        let counters = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok();
        Ok(TimedDriver { driver: Driver::new(None)?.0, counters })
    }

    /// Waits for events, and returns when they happened.
    fn wait(&mut self, timeout: Duration, events: &mut Vec<Event>) -> std::io::Result<Nanos> {
        let before = self.time_runnable();
        self.driver.wait(Some(timeout), events)?;
        let now = self.driver.now();
        Ok(now.saturating_sub(self.time_runnable().saturating_sub(before)))
    }

    /// The time that this thread was runnable and did not run: the second counter.
    fn time_runnable(&self) -> Nanos {
        let mut bytes = [0; 64];
        let length = self.counters.as_ref().and_then(|fd| pread(fd, &mut bytes, 0).ok());
        let text = std::str::from_utf8(&bytes[..length.unwrap_or(0)]).unwrap_or_default();
        Nanos(text.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0))
    }
}

impl DeviceRun<'_> {
    fn drive(&mut self, probe: &mut RunningProbe) -> std::io::Result<()> {
        let mut reported = Nanos::ZERO;
        loop {
            let now = self.timed.driver.now();
            let timeout = match probe.poll(now) {
                MachineAction::Read { slot, read } => {
                    let slice = self.slice(slot, read.length);
                    let token = Token::new(EventOwner::MemberFile, slot as u32);
                    self.timed.driver.read(token, self.file, read.offset, slice);
                    self.reads += 1;
                    self.parts += self.facts.most_parts(read.length);
                    continue;
                }
                MachineAction::WaitUntil(at) => Duration::from_nanos(at.saturating_sub(now).0),
                MachineAction::Wait => WAIT_MAX,
                MachineAction::Finished => return Ok(()),
            };
            self.wait(probe, timeout.min(WAIT_MAX))?;
            if self.control.stop.load(Ordering::Relaxed) {
                probe.stop();
            }
            if now.saturating_sub(reported) >= REPORT_EVERY {
                reported = now;
                (self.control.on_progress)(probe.progress(now));
            }
        }
    }

    fn wait(&mut self, probe: &mut RunningProbe, timeout: Duration) -> std::io::Result<()> {
        let mut events = std::mem::take(&mut self.events);
        let at = self.timed.wait(timeout, &mut events)?;
        for event in events.drain(..) {
            let slot = event.token.key() as usize;
            let Some(Some((buffer, length))) = self.buffers.get(slot).copied() else { continue };
            let is_ok = event.result == Ok(Output::Bytes(length as usize));
            let slice = Slice::data(buffer, 0, length as usize);
            let is_blank = probe.looks_at_contents().then(|| {
                let bytes = self.timed.driver.bytes(slice);
                bytes.iter().all(|byte| *byte == bytes[0])
            });
            probe.complete(ReadEnd { slot, at, is_ok, is_blank });
        }
        self.events = events;
        Ok(())
    }

    /// The buffer of a slot, as long as a read needs it.
    fn slice(&mut self, slot: usize, length: u64) -> Slice {
        if self.buffers.len() <= slot {
            self.buffers.resize(slot + 1, None);
        }
        let buffer = match self.buffers[slot] {
            Some((buffer, held)) if held == length => buffer,
            other => {
                if let Some((buffer, _)) = other {
                    self.timed.driver.release(buffer);
                }
                // A device takes memory in many pieces as several requests.
                let buffer = match length >= LONG_READ {
                    true => self.timed.driver.acquire_in_one_piece(length as usize),
                    false => self.timed.driver.acquire(length as usize),
                };
                self.buffers[slot] = Some((buffer, length));
                buffer
            }
        };
        Slice::data(buffer, 0, length as usize)
    }
}

/// How late the host wakes up from sleeps, in seconds.
fn lateness(timed: &mut TimedDriver) -> std::io::Result<Vec<f64>> {
    let mut events = Vec::new();
    let mut late = Vec::new();
    for _ in 0..HOST_TRIALS {
        let before = timed.driver.now();
        let slept = timed.wait(SLEEP, &mut events)?.saturating_sub(before).as_secs_f64();
        late.push((slept - SLEEP.as_secs_f64()).max(0.0));
    }
    Ok(late)
}

/// Cost of a read that no device serves: median and spread of reads of `/dev/zero`.
fn read_cost(timed: &mut TimedDriver) -> std::io::Result<HostCost> {
    let zero = open("/dev/zero", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let file = timed.driver.adopt(zero)?;
    let buffer = timed.driver.acquire(4096);
    let mut events = Vec::new();
    let mut costs = Vec::new();
    for _ in 0..HOST_TRIALS {
        let before = timed.driver.now();
        let token = Token::new(EventOwner::MemberFile, 0);
        timed.driver.read(token, file, 0, Slice::data(buffer, 0, 4096));
        let mut ended = before;
        while events.is_empty() {
            ended = timed.wait(WAIT_MAX, &mut events)?;
        }
        events.clear();
        costs.push(ended.saturating_sub(before).as_secs_f64());
    }
    timed.driver.release(buffer);
    timed.driver.close(file);
    let median = quantile(&costs, 0.5);
    let deviation = quantile(&costs, 0.84) - median;
    Ok(HostCost {
        mean: Nanos::from_secs_f64(median),
        deviation: Nanos::from_secs_f64(deviation.min(median)),
        request_bytes: None,
    })
}

/// The processor time of this process so far, in seconds.
fn processor_time() -> f64 {
    // Ticks of `/proc/self/stat` are hundredths of a second on every architecture of Linux.
    const TICKS_PER_SECOND: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let times = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    times.sum::<f64>() / TICKS_PER_SECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_read_is_not_that_of_another_program() {
        let before = DeviceCounters { reads: 1000, writes: 7 };
        let foreign = |reads: u64| {
            let after = DeviceCounters { reads: 1000 + reads, writes: 9 };
            ForeignIo::new(before, after, 100, 120)
        };
        let reads = [90, 100, 110, 120, 125].map(|reads| foreign(reads).reads);
        assert_eq!(reads, [-10, 0, 0, 0, 5]);
        assert_eq!(foreign(0).writes, 2);
    }
}
