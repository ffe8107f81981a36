//! Replay of a trace while its options are being applied: those of fio, and the pragma for what fio
//! cannot express.
//!
//! `read_iolog=FILE` replays a trace in place of generated requests. The pragma
//! `; mirrorball: replay=open` within a section chooses the pace, names the format, selects one
//! device, or allows addresses behind the end of the volume.
//!
//! The whole trace is read once with the job file, so a malformed line is found before a run, and
//! the hash of its requests becomes a part of the job.

use super::JobContext;
use super::error::job_error;
use super::pragma_words::{one_of, words};
use super::replay::{Replay, ReplayPace};
use super::spec::{Arrivals, Direction, Mix, Section, SizeOrPercent, SizeShare};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::SECTOR_BYTES;
use mirrorball_trace::{TraceFile, TraceOp, TraceSummary};
use std::sync::Arc;

/// Value of the pragma `replay`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct ReplayPragma {
    pace: Option<ReplayPace>,
    format: Option<String>,
    device: Option<String>,
    wraps: bool,
}

/// The replay of a section whose options are being applied.
#[derive(Clone, Debug)]
pub(super) struct ReplayDraft {
    pub(super) path: Option<String>,
    pub(super) no_stall: bool,
    pub(super) time_scale_percent: u64,
    pub(super) offset_divisor: u64,
    pub(super) align_bytes: u64,
    pub(super) skips: [bool; 4],
    pub(super) pragma: Option<ReplayPragma>,
}

impl Default for ReplayDraft {
    fn default() -> ReplayDraft {
        ReplayDraft {
            path: None,
            no_stall: false,
            time_scale_percent: 100,
            offset_divisor: 1,
            align_bytes: 1,
            skips: [false; 4],
            pragma: None,
        }
    }
}

const PACES: [(&str, ReplayPace); 3] =
    [("open", ReplayPace::Open), ("closed", ReplayPace::Closed), ("think", ReplayPace::ThinkTime)];
const KEYS: [&str; 4] = ["replay", "format", "device", "beyond"];
/// The words of `replay_skip`, in the order of [`Replay::skips`].
const SKIPPED: [&str; 4] = ["read", "write", "trim", "sync"];
/// Requests in flight of a section that keeps the times of its trace, unless `iodepth` is set.
const DEPTH: u32 = 1024;

impl ReplayDraft {
    /// Makes `job` a replay if a trace is named.
    pub(super) fn finish(
        self,
        job: &mut Section,
        depth_is_set: bool,
        context: &JobContext<'_>,
    ) -> Result<(), Diagnostic> {
        let Some(path) = &self.path else {
            return match self.pragma {
                None => Ok(()),
                Some(_) => {
                    let message = format!("section `{}` has a `replay` but no trace", job.name);
                    Err(job_error(message, "add the option read_iolog=FILE"))
                }
            };
        };
        let pragma = self.pragma.clone().unwrap_or_default();
        let file = (context.trace)(path, pragma.format.as_deref(), pragma.device);
        let file = file.map_err(of_trace)?;
        let pace = pace(&job.name, self.no_stall, pragma.pace, &file)?;
        let summary = TraceSummary::of(&file).map_err(of_trace)?;
        let replay = Replay {
            file,
            content: summary.content.clone(),
            summary: Arc::new(summary),
            pace,
            time_scale_percent: self.time_scale_percent,
            offset_divisor: self.offset_divisor,
            align_bytes: self.align_bytes,
            skips: self.skips,
            wraps: pragma.wraps,
        };
        if !depth_is_set && pace != ReplayPace::Closed {
            job.depth = DEPTH;
        }
        let sizes = vec![SizeShare { bytes: SECTOR_BYTES, weight: 100 }];
        job.sizes.0 = [sizes.clone(), sizes.clone(), sizes];
        job.mix = mix_of(&replay);
        job.size = None;
        (job.offset, job.offset_increment) = (SizeOrPercent::Bytes(0), SizeOrPercent::Bytes(0));
        job.replay = Some(replay);
        Ok(())
    }
}

/// The directions of the requests that are replayed.
fn mix_of(replay: &Replay) -> Mix {
    match (replay.count(TraceOp::Read), replay.count(TraceOp::Write)) {
        (0, 0) => Mix::Only(Direction::Trim),
        (_, 0) => Mix::Only(Direction::Read),
        (0, _) => Mix::Only(Direction::Write),
        (reads, writes) => {
            let percent = (100.0 * reads as f64 / (reads + writes) as f64).round() as u64;
            Mix::ReadWrite { read_percent: percent.clamp(1, 99) }
        }
    }
}

/// Options that have no effect on a trace, as under fio 3.33.
pub(super) const INEFFECTIVE: [&str; 9] = [
    "rate", "rate_iops", "rate_process", "io_size", "number_ios", "loops", "fsync", "fdatasync",
    "flow",
];

/// Sets the options of [`INEFFECTIVE`] to what they are by default.
pub(super) fn drop_ineffective(job: &mut Section) {
    (job.rate_bytes_per_s, job.rate_ios_per_s) = Default::default();
    (job.arrivals, job.loops) = (Arrivals::default(), 1);
    (job.io_bytes, job.io_percent, job.number_ios) = (None, None, None);
    (job.fsync, job.fdatasync, job.flow) = (0, 0, None);
}

fn pace(
    section: &str,
    no_stall: bool,
    asked: Option<ReplayPace>,
    file: &TraceFile,
) -> Result<ReplayPace, Diagnostic> {
    let pace = match (asked, no_stall) {
        (Some(pace), true) if pace != ReplayPace::Closed => {
            let message = format!("section `{section}` has replay_no_stall and another `replay=`");
            return Err(job_error(message, "remove one of them, or write replay=closed"));
        }
        (Some(pace), _) => pace,
        (None, true) => ReplayPace::Closed,
        (None, false) => ReplayPace::Open,
    };
    if pace == ReplayPace::ThinkTime && !file.format.has_response {
        let name = file.format.name;
        let message = format!("replay=think needs response times, which the format {name} lacks");
        return Err(job_error(message, "write replay=open or replay=closed"));
    }
    Ok(pace)
}

/// The error of a trace as one of the job, which has a place of its own.
fn of_trace(error: Diagnostic) -> Diagnostic {
    let help = error.help.clone().unwrap_or_else(|| "check the trace".to_owned());
    let text = Diagnostic { help: None, ..error }.to_string();
    job_error(format!("read_iolog: {text}"), help)
}

pub(super) fn parse_pragma(text: &str) -> Result<ReplayPragma, Diagnostic> {
    let mut pragma = ReplayPragma::default();
    for (key, value) in words(text, &KEYS)? {
        match key {
            "replay" => pragma.pace = Some(one_of("pace", value, &PACES)?),
            "format" => pragma.format = Some(value.to_owned()),
            "device" => pragma.device = Some(value.to_owned()),
            _ => pragma.wraps = one_of(key, value, &[("wrap", true), ("refuse", false)])?,
        }
    }
    Ok(pragma)
}

/// The value of `replay_skip`.
pub(super) fn parse_skips(text: &str) -> Result<[bool; 4], Diagnostic> {
    let mut skips = [false; 4];
    for word in text.split(',') {
        let index = SKIPPED.iter().position(|known| *known == word);
        let index = index.ok_or_else(|| {
            job_error(format!("`{word}` is no kind of request"), "write read,write,trim,sync")
        })?;
        skips[index] = true;
    }
    if skips[..3] == [true; 3] {
        return Err(job_error("nothing is left of the trace", "skip fewer kinds of requests"));
    }
    Ok(skips)
}
