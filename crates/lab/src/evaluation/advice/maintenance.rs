//! How long a scrub and a rebuild take, and how long a flush: by policy and by load.
//!
//! A short window is simulated at three places of the volume, because a hard disk is slower further
//! in, and the mean time for a byte is extrapolated to all data. The limit of the array, else the
//! default of the system, such as md's `sync_speed_max`, is in force. Times are of the first seed
//! alone: the places differ more than seeds.
//!
//! Non-goals: the time to replace a disk, and errors found on the way.

mod limits;
mod scrubbed_part;

pub use limits::{LimitedTime, LimitedTimes};

use super::figure_text::hours_text;
use crate::experiment::inputs::load_job;
use crate::experiment::run::RunOptions;
use crate::experiment::systems::{LimitedWork, System, WorkLimit};
use anyhow::{Context, Result};
use mirrorball_core::geometry::ChunkMap;
use mirrorball_core::histogram::Histogram;
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::policies::Spec;
use mirrorball_core::units::{KIB, MIB, Nanos};
use mirrorball_disk::array_file::ArraySpec;
use mirrorball_sim::SimError;
use mirrorball_sim::engine::{self, Checks, PolicyUnderTest, Simulation};
use mirrorball_sim::job::{JobContext, JobFile};
use mirrorball_sim::record::RunRecord;
#[cfg(test)]
use schemars::JsonSchema;
use scrubbed_part::ScrubbedPart;
use serde::Serialize;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

/// Places of the volume that a window begins at, in percent.
const PLACES_PERCENT: [u8; 3] = [16, 50, 83];
const FLUSH_JOB: &str = "fsync-writer";

/// Times of a scrub, a rebuild and a flush, for each policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Maintenance {
    /// Simulated time of the longest window.
    pub window_ns: u64,
    /// The policies, in the order of the columns.
    pub policies: Vec<String>,
    /// Scrub and rebuild under each load.
    pub work: Vec<WorkTimes>,
    /// What a limit on the rebuild or the scrub would cost and bring, under the first policy; none
    /// if the system has no limit.
    pub limited: Option<LimitedTimes>,
    /// Latency of a flush after each write, while a reader runs.
    pub flushes: Vec<FlushTimes>,
}

/// One kind of work under one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct WorkTimes {
    /// `scrub`, or `rebuild of devid 2`.
    pub work: String,
    /// What else the array does.
    pub load: &'static str,
    /// Bytes that the work reads or recovers.
    pub bytes: u64,
    /// One per policy.
    pub times: Vec<WorkTime>,
}

/// One policy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct WorkTime {
    /// Mean rate over the places; zero if nothing was moved.
    pub bytes_per_s: f64,
    /// Extrapolated time of all of it; none if nothing was moved.
    pub hours: Option<f64>,
}

/// The latency of flushes under one policy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct FlushTimes {
    /// Half of the flushes took no longer.
    pub p50_ns: u64,
    /// Of a hundred flushes, 99 took no longer.
    pub p99_ns: u64,
}

pub struct MaintenanceOptions<'a> {
    /// The policies, none twice.
    pub policies: Vec<String>,
    /// False if the members are paths to one device, which nothing scrubs or rebuilds.
    pub has_copies: bool,
    /// True if a scrub has a cursor for each device or vdev, as in btrfs and ZFS.
    pub has_cursors: bool,
    /// The system, and the limit that it can put on its work.
    pub limit: Option<(&'a System, &'a WorkLimit)>,
    /// The member whose rebuild is simulated; the last if none is given and none is missing.
    pub rebuilt_devid: Option<u64>,
    /// What of it is recovered already, in bytes.
    pub recovered_bytes: u64,
    /// Simulated time of a flush window.
    pub duration: Nanos,
    pub seed: u64,
    /// Number of threads; one per CPU if not given.
    pub threads: Option<NonZeroUsize>,
    /// Ends the run.
    pub stop: &'a AtomicBool,
}

struct Window {
    array: ArraySpec,
    job: JobFile,
}

/// A load, with the options of its section.
struct Load {
    name: &'static str,
    options: &'static str,
    /// Simulated time of a window: of many requests less, which take long to simulate.
    window: Nanos,
}

const fn load(name: &'static str, options: &'static str, seconds: u64) -> Load {
    Load { name, options, window: Nanos::from_secs(seconds) }
}

const LOADS: [Load; 3] = [
    // A job needs a section: two small reads a second leave the disks idle.
    load("idle", "iodepth=1\nrate_iops=2", 3),
    load("1 random reader", "iodepth=1", 3),
    load("32 random reads", "iodepth=32", 1),
];

impl MaintenanceOptions<'_> {
    /// The limit in force, in KiB/s: what the array has, else the default of the system.
    fn limit_kib(&self, array: &ArraySpec) -> Option<u64> {
        let (_, limit) = self.limit?;
        let of_array = array.source.as_ref().and_then(|source| source.limit_kib);
        of_array.or(limit.default_kib)
    }
}

impl Maintenance {
    /// Simulates the windows; `None` if it was stopped.
    pub fn measure(
        array: &ArraySpec,
        options: &MaintenanceOptions<'_>,
    ) -> Result<Option<Maintenance>> {
        let map = array.chunk_map()?;
        let mut rows: Vec<Work> = Vec::new();
        let mut limited = None;
        if options.has_copies {
            let Some(part) = ScrubbedPart::of(array, &map, options)? else { return Ok(None) };
            let now = options.limit_kib(array);
            rows.extend(LOADS.iter().map(|load| scrub(&part, load, now)));
            let rebuilt = RebuiltMember::of(array, &map, options);
            rows.extend(LOADS.iter().map(|load| rebuild(array, load, &rebuilt, now)));
            limited = limits::measure(array, options, |load, kib| match options.limit {
                Some((_, limit)) if limit.work == LimitedWork::Scrub => scrub(&part, load, kib),
                _ => rebuild(array, load, &rebuilt, kib),
            })?;
        }
        let mut work: Vec<WorkTimes> = Vec::new();
        for mut it in rows {
            let idle = work.iter().find(|idle| idle.work == it.row.work);
            for (index, policy) in options.policies.iter().enumerate() {
                let Some((time, _)) = it.measure(policy, options)? else { return Ok(None) };
                // In the shorter windows under load caches may still fill.
                let idle = idle.map(|idle| idle.times[index]);
                let is_faster = |idle: &WorkTime| idle.bytes_per_s < time.bytes_per_s;
                it.row.times.push(idle.filter(is_faster).unwrap_or(time));
            }
            work.push(it.row);
        }
        let job = load_job(FLUSH_JOB)?.1;
        let flush = [Window { array: array.clone(), job }];
        let mut flushes = Vec::new();
        for policy in &options.policies {
            let Some(runs) = run_all(&flush, policy, options.duration, options)? else {
                return Ok(None);
            };
            flushes.push(FlushTimes::new(&runs));
        }
        let policies = options.policies.clone();
        let window_ns = LOADS[0].window.0;
        Ok(Some(Maintenance { window_ns, policies, work, limited, flushes }))
    }
}

impl Maintenance {
    /// The work that takes longest under a policy, next to the first policy, in words; none if
    /// none takes several times as long.
    pub(super) fn slow_work(&self, policy: &str) -> Option<String> {
        /// Other load explains less.
        const SEVERAL: f64 = 3.0;
        let place = self.policies.iter().position(|known| known == policy)?;
        let compared = self.work.iter().filter_map(|work| {
            let usual = work.times.first()?.hours?;
            let hours = work.times[place].hours;
            Some((work, usual, hours, hours.map_or(f64::INFINITY, |hours| hours / usual)))
        });
        let slowest = compared.max_by(|left, right| left.3.total_cmp(&right.3));
        let (work, usual, hours, _) = slowest.filter(|(.., factor)| *factor > SEVERAL)?;
        let WorkTimes { work, load, .. } = work;
        let hours = hours.map_or("never ends".to_owned(), |it| format!("takes {}", hours_text(it)));
        Some(format!("{work} with {load} {hours}, in place of {}", hours_text(usual)))
    }
}

/// Time of the rebuild of a member of an idle array; `None` if it was stopped.
pub fn rebuild_time(
    array: &ArraySpec,
    options: &MaintenanceOptions<'_>,
) -> Result<Option<WorkTime>> {
    let rebuilt = RebuiltMember::of(array, &array.chunk_map()?, options);
    let work = rebuild(array, &LOADS[0], &rebuilt, options.limit_kib(array));
    let policy = options.policies.first().map_or("mirrorball/first", String::as_str);
    Ok(work.measure(policy, options)?.map(|(time, _)| time))
}

const SCRUB: &str = "scrub";

/// A row, and how its times are found.
struct Work {
    row: WorkTimes,
    windows: Vec<Window>,
    /// Simulated time of each.
    length: Nanos,
    /// Bytes that are moved for each one of the row: a rebuild reads what it writes.
    moved_per_byte: f64,
    /// Bytes that the simulated part has to do.
    bytes_of_part: u64,
    /// Number of such parts that work at once.
    parts: f64,
    /// Number of devices of a part that move a byte each for one that a limit counts.
    devices: usize,
    limit_kib: Option<u64>,
}

impl Work {
    /// How long it takes under a policy, and the runs; `None` if it was stopped. The first third of
    /// a window does not count: until then caches fill.
    fn measure(
        &self,
        policy: &str,
        options: &MaintenanceOptions<'_>,
    ) -> Result<Option<(WorkTime, Vec<RunRecord>)>> {
        let policy = self.policy(policy);
        let third = Nanos(self.length.0 / 3);
        let Some(early) = run_all(&self.windows, policy, third, options)? else { return Ok(None) };
        let runs = run_all(&self.windows, policy, self.length, options)?;
        Ok(runs.map(|runs| (self.time(&early, &runs), runs)))
    }

    /// The policy for the windows: one for members that the part has not is left out.
    fn policy<'a>(&self, policy: &'a str) -> &'a str {
        let devids = self.windows[0].array.members.iter().map(|member| member.devid);
        let devids: Vec<u64> = devids.collect();
        let fits = Spec::parse(policy).is_ok_and(|spec| spec.build(&devids).is_ok());
        if fits { policy } else { "mirrorball/first" }
    }

    fn time(&self, early: &[RunRecord], runs: &[RunRecord]) -> WorkTime {
        let of = |early| WorkTime::new(early, runs, self.moved_per_byte, self.bytes_of_part);
        let limit = self.limit_kib.map(|kib| (kib * KIB) as f64 * self.devices as f64);
        // A limit is kept by pauses, so at the end of a window work is ahead of it.
        let limit = limit.filter(|limit| of(&[]).bytes_per_s >= *limit);
        let time = match limit {
            Some(limit) => WorkTime {
                bytes_per_s: limit,
                hours: Some(self.bytes_of_part as f64 / limit / 3600.0),
            },
            // Little moves in a short window under many reads.
            None => Some(of(early)).filter(|it| it.hours.is_some()).unwrap_or(of(&[])),
        };
        WorkTime { bytes_per_s: time.bytes_per_s * self.parts, ..time }
    }
}

/// The row of a scrub, and its windows; limited to this rate of each device.
fn scrub(part: &ScrubbedPart, load: &Load, limit_kib: Option<u64>) -> Work {
    let window = |percent: &u8| Window {
        array: part.array.clone(),
        job: job(load, &format!("scrub from={percent}%"), limit_kib),
    };
    let windows = PLACES_PERCENT.iter().map(window).collect();
    let &ScrubbedPart { bytes, bytes_of_part, parts, copies, .. } = part;
    let row = WorkTimes { work: SCRUB.to_owned(), load: load.name, bytes, times: Vec::new() };
    let length = load.window;
    Work {
        row,
        windows,
        length,
        moved_per_byte: 1.0,
        bytes_of_part,
        parts,
        devices: copies,
        limit_kib,
    }
}

/// A member to rebuild, and what of it is left.
struct RebuiltMember {
    index: usize,
    work: String,
    left: Range<u64>,
    /// True if the code of md rebuilds it, which keeps its rate by a limit.
    is_by_md: bool,
}

impl RebuiltMember {
    /// The member that the options name, or the one that is missing or being rebuilt, else the
    /// last.
    fn of(array: &ArraySpec, map: &ChunkMap, options: &MaintenanceOptions<'_>) -> RebuiltMember {
        let members = &array.members;
        let out = members.iter().position(|member| member.state != MemberState::InSync);
        let given = members.iter().position(|it| Some(it.devid) == options.rebuilt_devid);
        let index = given.or(out).unwrap_or(members.len() - 1);
        let data = map.allocated(MemberIndex(index as u16));
        let recovered = match members[index].state {
            MemberState::Rebuilding { recovered_bytes } => recovered_bytes,
            _ if given.is_some() => options.recovered_bytes,
            _ => 0,
        };
        let left = recovered.clamp(data.start, data.end)..data.end;
        let all = (data.end - data.start).max(1);
        let percent = (left.end - left.start) as f64 / all as f64 * 100.0;
        let devid = members[index].devid;
        let work = match left.start > data.start {
            true => format!("rebuild of devid {devid} ({percent:.0} % left)"),
            false => format!("rebuild of devid {devid}"),
        };
        let is_by_md = options.limit.is_some_and(|(_, limit)| limit.work == LimitedWork::Rebuild);
        RebuiltMember { index, work, left, is_by_md }
    }
}

/// The row of a rebuild, and its windows; limited to this rate of the member.
fn rebuild(array: &ArraySpec, load: &Load, member: &RebuiltMember, limit_kib: Option<u64>) -> Work {
    let background = if member.is_by_md { "rebuild as=md" } else { "rebuild" };
    let bytes = member.left.end - member.left.start;
    let window = |percent: &u8| {
        let done_bytes = member.left.start + bytes / 100 * u64::from(*percent);
        let recovered_bytes = done_bytes - done_bytes % MIB;
        let mut array = array.clone();
        array.members[member.index].state = MemberState::Rebuilding { recovered_bytes };
        Window { array, job: job(load, background, limit_kib) }
    };
    let windows = PLACES_PERCENT.iter().map(window).collect();
    let work = member.work.clone();
    let row = WorkTimes { work, load: load.name, bytes, times: Vec::new() };
    let length = load.window;
    Work {
        row,
        windows,
        length,
        moved_per_byte: 2.0,
        bytes_of_part: bytes,
        parts: 1.0,
        devices: 1,
        limit_kib,
    }
}

fn allocated_bytes(map: &ChunkMap, member: usize) -> u64 {
    let data = map.allocated(MemberIndex(member as u16));
    data.end - data.start
}

/// The job of a load, with this work in the background, if any.
fn job(load: &Load, background: &str, limit_kib: Option<u64>) -> JobFile {
    let rate = limit_kib.map_or_else(String::new, |kib| format!(" rate={kib}KiB/s"));
    let pragma = match background {
        "" => String::new(),
        work => format!("; mirrorball: background={work}{rate}\n"),
    };
    let text = format!(
        "{pragma}[load]\nioengine=libaio\ndirect=1\n\
         rw=randread\n\
         bs=4k\n{}\ntime_based\nruntime=60\n",
        load.options
    );
    JobFile::parse(&text, "maintenance.fio", &JobContext::empty()).expect("the job is well formed")
}

/// Runs the windows under one policy; `None` if it was stopped.
fn run_all(
    windows: &[Window],
    policy: &str,
    duration: Nanos,
    options: &MaintenanceOptions<'_>,
) -> Result<Option<Vec<RunRecord>>> {
    let run = |window: &Window| {
        let run = Simulation {
            array: &window.array,
            job: &window.job,
            policy: PolicyUnderTest::Policy(policy),
            seed: options.seed,
            duration: Some(duration),
            checks: Checks::Off,
        };
        match engine::run_until(&run, options.stop) {
            Err(SimError::Stopped) => Ok(None),
            ran => ran
                .map(Some)
                .with_context(|| format!("scrub, rebuild and flushes under `{policy}`")),
        }
    };
    let &MaintenanceOptions { threads, stop, .. } = options;
    let runs =
        RunOptions { threads, stop, costs: &[], on_cell: &|_, _| () }.run_units(windows, run)?;
    Ok((runs.len() == windows.len()).then_some(runs))
}

impl WorkTime {
    /// The time of all of it at the mean of the rates of `runs`, but for what was done in `early`,
    /// shorter runs of the same windows; none to count all.
    fn new(early: &[RunRecord], runs: &[RunRecord], moved_per_byte: f64, bytes: u64) -> WorkTime {
        let seconds_per_byte = |(index, run): (usize, &RunRecord)| {
            // The load has no ramp, so the whole run is measured.
            let before = early.get(index).map(|it| (it.measured, it.background_bytes));
            let (time, moved) = before.unwrap_or_default();
            let seconds = run.measured.saturating_sub(time).as_secs_f64();
            seconds * moved_per_byte / run.background_bytes.saturating_sub(moved) as f64
        };
        let sum = runs.iter().enumerate().map(seconds_per_byte).sum::<f64>();
        let mean = sum / runs.len() as f64;
        match mean.is_finite() && mean > 0.0 {
            true => WorkTime { bytes_per_s: 1.0 / mean, hours: Some(bytes as f64 * mean / 3600.0) },
            false => WorkTime { bytes_per_s: 0.0, hours: None },
        }
    }
}

impl FlushTimes {
    fn new(runs: &[RunRecord]) -> FlushTimes {
        let mut latency = Histogram::default();
        for section in runs.iter().flat_map(|run| &run.sections) {
            latency.merge(&section.flush.latency);
        }
        FlushTimes { p50_ns: latency.quantile(0.5).0, p99_ns: latency.quantile(0.99).0 }
    }
}

#[cfg(test)]
mod tests;
