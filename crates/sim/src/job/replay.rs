//! The trace that a section replays, as plain data.
//!
//! The simulation reads every format of [`mirrorball_trace::FORMATS`]; fio reads its own iologs.

use super::error::job_error;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{Nanos, SECTOR_BYTES, format_bytes};
use mirrorball_trace::{TraceFile, TraceOp, TraceSummary};
use serde::Serialize;
use std::sync::Arc;

/// When the requests of a trace are issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum ReplayPace {
    /// At the times of the trace, whether earlier requests have completed or not.
    Open,
    /// As fast as the queue depth allows, in the order of the trace.
    Closed,
    /// After the completions that they followed in the trace, with the same gaps.
    ThinkTime,
}

/// The trace that a section replays.
///
/// Serialises to its canonical form: the hash of the trace stands for its path.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Replay {
    #[serde(skip)]
    pub file: TraceFile,
    /// Resemblance of the job.
    #[serde(skip)]
    pub summary: Arc<TraceSummary>,
    /// Hash of its requests.
    pub(super) content: String,
    /// When its requests are issued.
    pub pace: ReplayPace,
    /// Rate in percent of that of the trace.
    pub time_scale_percent: u64,
    pub offset_divisor: u64,
    /// Offsets are rounded down to a multiple of this, after the division.
    pub align_bytes: u64,
    /// Whether reads, writes, discards and flushes are left out.
    pub skips: [bool; 4],
    /// Whether requests behind the end of the volume start over at its beginning.
    pub wraps: bool,
}

const OPS: [TraceOp; 4] = [TraceOp::Read, TraceOp::Write, TraceOp::Trim, TraceOp::Flush];

impl Replay {
    /// A time of the trace on the clock of the replay.
    #[inline]
    pub fn scaled(&self, time: Nanos) -> Nanos {
        if self.time_scale_percent == 100 {
            return time;
        }
        let scaled = u128::from(time.0) * 100 / u128::from(self.time_scale_percent);
        Nanos(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// Requests per second that arrive between two times after the start, or until the last one:
    /// reads if it reads, else writes. None if the replay does not keep the times of the trace.
    pub fn offered_iops(&self, from: Nanos, until: Nanos) -> Option<f64> {
        let kinds = [TraceOp::Read, TraceOp::Write];
        let op = kinds.into_iter().find(|&op| self.count(op) > 0)?;
        let duration = self.scaled(self.summary.duration);
        let until = until.min(duration);
        if self.pace != ReplayPace::Open || until <= from {
            return None;
        }
        let original = |time: Nanos| time.0 as f64 * self.time_scale_percent as f64 / 100.0;
        let count = self.summary.arrivals(op, original(from), original(until));
        Some(count / (until - from).as_secs_f64())
    }

    /// Notes on a trace of several devices or processes, of which a replay has one, and on doubts.
    pub(super) fn merged(&self) -> impl Iterator<Item = String> {
        let devices = self.summary.devices.len();
        let processes = self.summary.processes();
        let devices = (devices > 1).then(|| {
            format!(
                "the addresses of its {devices} devices are laid over each other: `; mirrorball: \
                 replay=open device=NAME` reads one"
            )
        });
        let processes = (processes > 1).then(|| {
            format!(
                "a replay is one process, as fio's is, where the trace has about {processes}: \
                 policies that choose by the process see one. A fitted job keeps them (`import \
                 trace --fit`, `advise --load`)"
            )
        });
        devices.into_iter().chain(processes).chain(self.summary.doubts())
    }

    /// Checks that the trace fits a volume, which errors call `place`.
    pub(super) fn check_fit(&self, volume_bytes: u64, place: &str) -> Result<(), Diagnostic> {
        let end = self.highest_end();
        if self.wraps || end <= volume_bytes {
            return Ok(());
        }
        let message = format!(
            "the trace `{}` is larger than {place}, which has {}: it ends {} after the end",
            self.file.shown(),
            format_bytes(volume_bytes),
            format_bytes(end - volume_bytes)
        );
        let help = "use a larger volume, divide the offsets with replay_scale=N, or add the line \
                    `; mirrorball: replay=open beyond=wrap`";
        Err(job_error(message, help))
    }

    /// An upper bound of the ends of its requests on the volume.
    fn highest_end(&self) -> u64 {
        let summary = &self.summary;
        let sizes = summary.read_sizes.iter().chain(&summary.write_sizes);
        let largest = sizes.map(|size| size.bytes).max().unwrap_or(0);
        let end = match self.offset_divisor {
            1 => summary.end_bytes,
            divisor => (summary.end_bytes / divisor).saturating_add(largest),
        };
        end.checked_next_multiple_of(SECTOR_BYTES).unwrap_or(u64::MAX)
    }

    pub(super) fn count(&self, op: TraceOp) -> u64 {
        let index = op as usize;
        if self.skips[index] { 0 } else { self.summary.requests[index] }
    }

    /// Whether it discards.
    pub(crate) fn trims(&self) -> bool {
        self.count(TraceOp::Trim) > 0
    }

    /// Trace that is replayed, and how.
    pub fn describe(&self) -> String {
        let summary = &self.summary;
        let pace = match self.pace {
            ReplayPace::Open => "at the times of the trace",
            ReplayPace::Closed => "as fast as possible",
            ReplayPace::ThinkTime => "with the think times of the trace",
        };
        let rate = match (self.time_scale_percent, self.pace) {
            (100, _) | (_, ReplayPace::Closed) => String::new(),
            (percent, _) => format!(", at {percent} % of its rate"),
        };
        let total: u64 = OPS.map(|op| self.count(op)).iter().sum();
        let of_all = match summary.total() {
            all if all == total => String::new(),
            all => format!(" of {all}"),
        };
        format!(
            "replay of `{}` ({}): {total}{of_all} requests over {}, {:.0} % reads, up to {}, \
             {pace}{rate}",
            self.file.shown(),
            self.file.format.name,
            summary.duration,
            100.0 * self.count(TraceOp::Read) as f64 / total.max(1) as f64,
            format_bytes(summary.end_bytes / self.offset_divisor),
        )
    }
}
