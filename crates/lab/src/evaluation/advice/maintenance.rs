//! How long a scrub and a rebuild take, and how long a flush: by policy and by load.
//!
//! A short window is simulated at three places of the volume, because a hard disk is slower further
//! in, and the mean time for a byte is extrapolated to all data. Nothing limits the work: a limit
//! of the system, such as md's `sync_speed_max`, makes it longer. Only the first seed is used: the
//! places differ more than seeds.
//!
//! Non-goals: the time to replace a disk, and errors found on the way.

mod scrubbed_part;

use crate::experiment::inputs::load_job;
use crate::experiment::run::RunOptions;
use anyhow::{Context, Result};
use mirrorball_core::geometry::ChunkMap;
use mirrorball_core::histogram::Histogram;
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::policies::Spec;
use mirrorball_core::units::{MIB, Nanos};
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
/// The longest window: more adds little to a rate.
const WINDOW_MAX: Nanos = Nanos::from_secs(1);
/// The job whose flushes are measured.
const FLUSH_JOB: &str = "fsync-writer";

/// Times of a scrub, a rebuild and a flush, for each policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Maintenance {
    /// Simulated time of each window.
    pub window_ns: u64,
    /// The policies, in the order of the columns.
    pub policies: Vec<String>,
    /// Scrub and rebuild under each load.
    pub work: Vec<WorkTimes>,
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

/// How to run.
pub struct MaintenanceOptions<'a> {
    /// The policies, none twice.
    pub policies: Vec<String>,
    /// False if the members are paths to one device, which nothing scrubs or rebuilds.
    pub has_copies: bool,
    /// True if a scrub has a cursor for each device or vdev, as in btrfs and ZFS.
    pub has_cursors: bool,
    /// The member whose rebuild is simulated; the last if none is given and none is missing.
    pub rebuilt_devid: Option<u64>,
    /// What of it is recovered already, in bytes.
    pub recovered_bytes: u64,
    /// Simulated time of a flush window; the others are no longer.
    pub duration: Nanos,
    /// The seed of every window.
    pub seed: u64,
    /// Number of threads; one per CPU if not given.
    pub threads: Option<NonZeroUsize>,
    /// Ends the run.
    pub stop: &'a AtomicBool,
}

/// What is simulated in one window.
struct Window {
    array: ArraySpec,
    job: JobFile,
}

/// A load, with the options of its section.
struct Load {
    name: &'static str,
    options: &'static str,
}

const LOADS: [Load; 3] = [
    // A job needs a section: two small reads a second leave the disks idle.
    Load { name: "idle", options: "iodepth=1\nrate_iops=2" },
    Load { name: "1 random reader", options: "iodepth=1" },
    Load { name: "32 random reads", options: "iodepth=32" },
];

impl Maintenance {
    /// Simulates the windows; `None` if it was stopped.
    ///
    /// # Errors
    /// If the array cannot be simulated.
    pub fn measure(
        array: &ArraySpec,
        options: &MaintenanceOptions<'_>,
    ) -> Result<Option<Maintenance>> {
        let map = array.chunk_map()?;
        let window = options.duration.min(WINDOW_MAX);
        let mut rows: Vec<Work> = Vec::new();
        if options.has_copies {
            let Some(part) = ScrubbedPart::of(array, &map, options)? else { return Ok(None) };
            rows.extend(LOADS.iter().map(|load| scrub(&part, load)));
            let rebuilt = RebuiltMember::of(array, &map, options);
            rows.extend(LOADS.iter().map(|load| rebuild(array, load, &rebuilt)));
        }
        let mut work = Vec::new();
        for mut it in rows {
            for policy in &options.policies {
                let policy = it.policy(policy);
                let Some(runs) = run_all(&it.windows, policy, window, options)? else {
                    return Ok(None);
                };
                it.row.times.push(it.time(&runs));
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
        Ok(Some(Maintenance { window_ns: window.0, policies, work, flushes }))
    }
}

/// Time of the rebuild of a member of an idle array; `None` if it was stopped.
///
/// # Errors
/// If the array cannot be simulated.
pub fn rebuild_time(
    array: &ArraySpec,
    options: &MaintenanceOptions<'_>,
) -> Result<Option<WorkTime>> {
    let rebuilt = RebuiltMember::of(array, &array.chunk_map()?, options);
    let work = rebuild(array, &LOADS[0], &rebuilt);
    let policy = options.policies.first().map_or("mirrorball/first", |policy| work.policy(policy));
    let window = options.duration.min(WINDOW_MAX);
    let runs = run_all(&work.windows, policy, window, options)?;
    Ok(runs.map(|runs| work.time(&runs)))
}

const SCRUB: &str = "scrub";

/// A row, and how its times are found.
struct Work {
    row: WorkTimes,
    windows: Vec<Window>,
    /// Bytes that are moved for each one of the row: a rebuild reads what it writes.
    moved_per_byte: f64,
    /// Bytes that the simulated part has to do.
    bytes_of_part: u64,
    /// Number of such parts that work at once.
    parts: f64,
}

impl Work {
    /// The policy for the windows: one for members that the part has not is left out.
    fn policy<'a>(&self, policy: &'a str) -> &'a str {
        let devids = self.windows[0].array.members.iter().map(|member| member.devid);
        let devids: Vec<u64> = devids.collect();
        let fits = Spec::parse(policy).is_ok_and(|spec| spec.build(&devids).is_ok());
        if fits { policy } else { "mirrorball/first" }
    }

    fn time(&self, runs: &[RunRecord]) -> WorkTime {
        let time = WorkTime::new(runs, self.moved_per_byte, self.bytes_of_part);
        WorkTime { bytes_per_s: time.bytes_per_s * self.parts, ..time }
    }
}

/// The row of a scrub, and its windows.
fn scrub(part: &ScrubbedPart, load: &Load) -> Work {
    let window = |percent: &u8| Window {
        array: part.array.clone(),
        job: job(load, &format!("scrub from={percent}%")),
    };
    let windows = PLACES_PERCENT.iter().map(window).collect();
    let &ScrubbedPart { bytes, bytes_of_part, parts, .. } = part;
    let row = WorkTimes { work: SCRUB.to_owned(), load: load.name, bytes, times: Vec::new() };
    Work { row, windows, moved_per_byte: 1.0, bytes_of_part, parts }
}

/// A member to rebuild, and what of it is left.
struct RebuiltMember {
    index: usize,
    /// What the row is called.
    work: String,
    left: Range<u64>,
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
        RebuiltMember { index, work, left }
    }
}

/// The row of a rebuild, and its windows.
fn rebuild(array: &ArraySpec, load: &Load, member: &RebuiltMember) -> Work {
    let bytes = member.left.end - member.left.start;
    let window = |percent: &u8| {
        let done_bytes = member.left.start + bytes / 100 * u64::from(*percent);
        let recovered_bytes = done_bytes - done_bytes % MIB;
        let mut array = array.clone();
        array.members[member.index].state = MemberState::Rebuilding { recovered_bytes };
        Window { array, job: job(load, "rebuild") }
    };
    let windows = PLACES_PERCENT.iter().map(window).collect();
    let work = member.work.clone();
    let row = WorkTimes { work, load: load.name, bytes, times: Vec::new() };
    Work { row, windows, moved_per_byte: 2.0, bytes_of_part: bytes, parts: 1.0 }
}

fn allocated_bytes(map: &ChunkMap, member: usize) -> u64 {
    let data = map.allocated(MemberIndex(member as u16));
    data.end - data.start
}

fn job(load: &Load, background: &str) -> JobFile {
    let text = format!(
        "; mirrorball: background={background}\n[load]\nioengine=libaio\ndirect=1\nrw=randread\n\
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
    let runs = RunOptions { threads, stop, on_cell: &|_| () }.run_units(windows, run)?;
    Ok((runs.len() == windows.len()).then_some(runs))
}

impl WorkTime {
    fn new(runs: &[RunRecord], moved_per_byte: f64, bytes: u64) -> WorkTime {
        let seconds_per_byte = |run: &RunRecord| {
            // The load has no ramp, so the whole run is measured.
            run.measured.as_secs_f64() * moved_per_byte / run.background_bytes as f64
        };
        let mean = runs.iter().map(seconds_per_byte).sum::<f64>() / runs.len() as f64;
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
mod tests {
    use super::*;
    use mirrorball_disk::array_file::ArrayFile;

    fn measured(text: &str, policies: &[&str]) -> Maintenance {
        let array = ArrayFile::parse(text, "a.toml").unwrap().spec;
        let options = MaintenanceOptions {
            policies: policies.iter().map(|policy| (*policy).to_owned()).collect(),
            has_copies: true,
            has_cursors: true,
            rebuilt_devid: None,
            recovered_bytes: 0,
            duration: Nanos::from_millis(500),
            seed: 1,
            threads: None,
            stop: &AtomicBool::new(false),
        };
        Maintenance::measure(&array, &options).unwrap().unwrap()
    }

    /// Two delays of 10 ms and no rate: 512 KiB scrubbed on each member at once, two at a time.
    #[test]
    fn hours_follow_from_the_rate_and_the_sizes() {
        let text = "layout = \"md-raid1\"\n[host]\noverhead = \"0us\"\n\
                    [[member]]\nmodel = \"delay\"\n\
                    set = { service = \"10ms\", servers = 64 }\nsize = \"1TiB\"\ncount = 2\n";
        let maintenance = measured(text, &["md/raid1"]);
        let [scrub, .., rebuild] = &maintenance.work[..] else { panic!() };
        assert_eq!((scrub.work.as_str(), scrub.load), ("scrub", "idle"));
        assert_eq!(
            (rebuild.work.as_str(), rebuild.load),
            ("rebuild of devid 2", "32 random reads")
        );
        let time = scrub.times[0];
        let expected = 2.0 * 2.0 * 512.0 * 1024.0 / 0.01;
        assert!((time.bytes_per_s / expected - 1.0).abs() < 0.05, "{time:?} {expected}");
        let hours = scrub.bytes as f64 / time.bytes_per_s / 3600.0;
        assert!((time.hours.unwrap() / hours - 1.0).abs() < 1e-9);
        assert!(scrub.bytes.abs_diff(2 << 40) < 1 << 30, "both copies: {}", scrub.bytes);
        assert!(rebuild.bytes.abs_diff(1 << 40) < 1 << 30, "one member: {}", rebuild.bytes);
        // 128 KiB read, then written, two at a time.
        let time = maintenance.work[3].times[0];
        let expected = 2.0 * 128.0 * 1024.0 / 0.02;
        assert!((time.bytes_per_s / expected - 1.0).abs() < 0.05, "{time:?} {expected}");
        assert!(maintenance.flushes[0].p50_ns > 0);
    }

    /// A pool of 33 mirrors takes as long as one, and reports of its owner say one to two days.
    #[test]
    fn all_vdevs_of_zfs_and_all_devices_of_btrfs_are_scrubbed_at_once() {
        for layout in ["zfs-mirror:2", "btrfs"] {
            let scrub = |count: usize| {
                let text = format!(
                    "layout = \"{layout}\"\n[[member]]\nmodel = \"hdd-7k2-18tb\"\ncount = {count}\n"
                );
                let text = text.replace("layout = \"btrfs\"", "profile = \"raid1\"");
                measured(&text, &["md/raid1"]).work.remove(0)
            };
            let (two, eight) = (scrub(2), scrub(8));
            let ratio = eight.times[0].hours.unwrap() / two.times[0].hours.unwrap();
            assert!((ratio - 1.0).abs() < 0.02, "{layout}: {ratio}");
            assert!((eight.bytes as f64 / two.bytes as f64 - 4.0).abs() < 0.01, "{layout}");
            let rates = eight.times[0].bytes_per_s / two.times[0].bytes_per_s;
            assert!((rates - 4.0).abs() < 0.1, "{layout}: {rates}");
            assert!((16.0..48.0).contains(&two.times[0].hours.unwrap()), "{:?}", two.times);
        }
    }

    /// A hard disk of 150 MB/s takes 1.8 h for 960 GB, however fast the other is.
    #[test]
    fn the_slowest_device_of_btrfs_decides_the_time_of_a_scrub() {
        for order in [["hdd-7k2-ent", "ssd-sata-plp"], ["ssd-sata-plp", "hdd-7k2-ent"]] {
            let members =
                order.map(|model| format!("[[member]]\nmodel = \"{model}\"\nsize = \"960GB\"\n"));
            let text = format!("profile = \"raid1\"\n{}", members.concat());
            let hours = measured(&text, &["btrfs/pid"]).work.remove(0).times[0].hours.unwrap();
            assert!((1.5..2.2).contains(&hours), "{hours}");
        }
    }

    #[test]
    fn of_a_running_rebuild_the_rest_counts() {
        let text = |state: &str| {
            format!(
                "layout = \"md-raid1\"\n[host]\noverhead = \"0us\"\n\
                 [[member]]\nmodel = \"delay\"\nset = {{ service = \"10ms\" }}\nsize = \"1TiB\"\n\
                 [[member]]\nmodel = \"delay\"\nset = {{ service = \"10ms\" }}\nsize = \"1TiB\"\n\
                 {state}"
            )
        };
        let whole = measured(&text(""), &["md/raid1"]);
        let rest = measured(&text("rebuilding = \"768GiB\""), &["md/raid1"]);
        let (whole, rest) = (&whole.work[3], &rest.work[3]);
        assert_eq!(rest.work, "rebuild of devid 2 (25 % left)");
        let share = rest.bytes as f64 / whole.bytes as f64;
        assert!((share - 0.25).abs() < 0.001, "{share}");
        let share = rest.times[0].hours.unwrap() / whole.times[0].hours.unwrap();
        assert!((share - 0.25).abs() < 0.01, "{share}");
    }

    #[test]
    fn a_load_makes_work_take_longer_and_a_missing_member_is_the_one_rebuilt() {
        let text = "profile = \"raid1c3\"\n[[member]]\nmodel = \"hdd-7k2-desktop\"\n\
                    [[member]]\nmodel = \"hdd-7k2-desktop\"\nfailed = true\n\
                    [[member]]\nmodel = \"hdd-7k2-desktop\"\n";
        let maintenance = measured(text, &["md/raid1", "btrfs/pid"]);
        let rate = |row: usize| maintenance.work[row].times[0].bytes_per_s;
        assert!(rate(0) > 1.2 * rate(2), "{:?}", maintenance.work);
        assert!(rate(3) > 1.2 * rate(5), "{:?}", maintenance.work);
        assert_eq!(maintenance.work[3].work, "rebuild of devid 2");
        assert_eq!(maintenance.work[3].times.len(), 2);
    }
}
