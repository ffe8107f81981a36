//! A limit of the system's own on its rebuild or scrub: what it costs in time, and what a reader
//! gains meanwhile.

use super::super::confidence::is_guess;
use super::{LOADS, Load, MaintenanceOptions, Window, Work, WorkTime, job, run_all};
use crate::experiment::study::statistics::mean_interval;
use crate::experiment::systems::{Commands, LimitedWork, System, WorkLimit};
use anyhow::Result;
use mirrorball_core::histogram::Histogram;
use mirrorball_core::member::MemberState;
use mirrorball_disk::array_file::ArraySpec;
use mirrorball_sim::record::RunRecord;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// The load that is measured during the work: the reader that waits for each of its reads.
const READER: &Load = &LOADS[1];
/// What the work is limited to, as parts of its rate without a limit.
const PARTS: [u64; 3] = [2, 5, 20];
/// Number of seeds under which reads are simulated: what differs by less than chance is no effect.
const REPEATS: u64 = 3;
/// Why no limit is named.
const NOT_WHOLE: &str = "No limit is advised until the array is whole: one more failure may lose \
                         data";
const GUESSED: &str = "No limit is advised while the disks are guessed";
const NO_GAIN: &str = "The limit needs no change: half the rate brings the reader less than 10 %";
/// A limit below the one in force is worth a command from this factor on, in reads per second or
/// in the time within which 99 of a hundred end, if the other loses less than that.
const WORTH_A_LIMIT: f64 = 1.1;
/// The least limit: md does not go below it.
const LEAST_KIB: u64 = 1000;

/// Work under several limits.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct LimitedTimes {
    /// `scrub`, or `rebuild of devid 2`.
    pub work: String,
    /// The policy.
    pub policy: String,
    /// What else the array does.
    pub load: &'static str,
    /// The system's name of the limit.
    pub limit: String,
    /// Requests of the load per second while there is no such work.
    pub reads_per_s_without: f64,
    /// Half of the 95 % interval of these over the seeds, as a fraction; none if there were none.
    pub reads_spread_without: Option<f64>,
    /// Of a hundred requests of the load without such work, 99 took no longer.
    pub p99_ns_without: u64,
    /// Number of seeds under which the load was simulated.
    pub repeats: u64,
    /// Each limit, the widest first: as it is, then less.
    pub rows: Vec<LimitedTime>,
    /// When to set the limit of the second row, or why not to.
    pub remark: String,
    /// How to set it; none if it is not to be set.
    pub commands: Option<Commands>,
}

/// Work under one limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct LimitedTime {
    /// The limit in KiB/s of each device; none if there is none.
    pub kib: Option<u64>,
    /// How long the work takes.
    pub time: WorkTime,
    /// Requests of the load per second.
    pub reads_per_s: f64,
    /// Half of the 95 % interval of these over the seeds, as a fraction; none if there were none.
    pub reads_spread: Option<f64>,
    /// Of a hundred requests of the load, 99 took no longer.
    pub p99_ns: u64,
}

/// The reads of a load.
struct LoadReads {
    per_s: f64,
    spread: Option<f64>,
    p99_ns: u64,
}

/// The work under the limit in force and under less; `None` if it was stopped, or the work has no
/// rate to limit. `work` is the row of a load and a limit in KiB/s.
pub(super) fn measure(
    array: &ArraySpec,
    options: &MaintenanceOptions<'_>,
    work: impl Fn(&Load, Option<u64>) -> Work,
) -> Result<Option<LimitedTimes>> {
    let Some((system, limit)) = options.limit else { return Ok(None) };
    let Some(policy) = options.policies.first() else { return Ok(None) };
    let of = |kib: Option<u64>| -> Result<Option<LimitedTime>> {
        let work = work(READER, kib);
        let Some((time, runs)) = work.measure(policy, options)? else { return Ok(None) };
        let reads = repeated(runs, &work.windows, work.policy(policy), options)?;
        Ok(reads.map(|reads| LimitedTime::new(kib, time, &reads)))
    };
    let Some(now) = of(options.limit_kib(array))? else { return Ok(None) };
    let unlimited = work(READER, None);
    // A scrub is simulated on the part that decides its time, so the reader alone reads there, too.
    let place = match limit.work {
        LimitedWork::Scrub => &unlimited.windows[0].array,
        LimitedWork::Rebuild => array,
    };
    let alone = [Window { array: place.clone(), job: job(READER, "", None) }];
    let policy_alone = unlimited.policy(policy);
    let runs = run_all(&alone, policy_alone, READER.window, options)?;
    let Some(runs) = runs else { return Ok(None) };
    let Some(without) = repeated(runs, &alone, policy_alone, options)? else { return Ok(None) };
    let devices = unlimited.parts * unlimited.devices as f64;
    let rate_kib = (now.time.bytes_per_s / devices / 1024.0) as u64;
    let mut rows = vec![now];
    for kib in PARTS.map(|part| rounded(rate_kib / part)) {
        if kib < LEAST_KIB {
            break;
        }
        let Some(row) = of(Some(kib))? else { return Ok(None) };
        rows.push(row);
    }
    if rows.len() < 2 {
        return Ok(None);
    }
    let is_whole = options.rebuilt_devid.is_none()
        && array.members.iter().all(|member| member.state == MemberState::InSync);
    let work = unlimited.row.work;
    let (is_advised, remark) = match () {
        () if !is_whole => (false, NOT_WHOLE.to_owned()),
        () if is_guess(array) => (false, GUESSED.to_owned()),
        () if !rows[1].is_worth_over(&rows[0]) => (false, NO_GAIN.to_owned()),
        () => {
            let work = work.split(' ').next().unwrap_or_default();
            (true, format!("Only if readers matter more than an early end of the {work}:"))
        }
    };
    let half_kib = rows[1].kib.filter(|_| is_advised);
    let commands = half_kib.map(|kib| limit_commands(array, (system, limit), kib));
    Ok(Some(LimitedTimes {
        work,
        policy: policy.clone(),
        load: READER.name,
        limit: limit.knob.name.clone(),
        reads_per_s_without: without.per_s,
        reads_spread_without: without.spread,
        p99_ns_without: without.p99_ns,
        repeats: REPEATS,
        rows,
        remark,
        commands,
    }))
}

/// How to set a limit, and to restore the one in force.
fn limit_commands(array: &ArraySpec, (system, limit): (&System, &WorkLimit), kib: u64) -> Commands {
    let mut commands = limit.knob.commands(system, array, kib, None);
    let source = array.source.as_ref();
    match source.and_then(|it| it.limit_kib).filter(|_| source.is_some_and(|it| it.limit_is_own)) {
        Some(own) => commands.undo = limit.knob.commands(system, array, own, None).set,
        None if source.is_none_or(|it| it.limit_kib.is_none()) => {
            commands.note_unknown_before(false);
        }
        None => {}
    }
    commands
}

/// Two digits, as people write a limit.
fn rounded(kib: u64) -> u64 {
    let step = 10u64.pow(kib.max(1).ilog10().saturating_sub(1));
    kib / step * step
}

impl LimitedTime {
    fn new(kib: Option<u64>, time: WorkTime, reads: &LoadReads) -> LimitedTime {
        let &LoadReads { per_s: reads_per_s, spread: reads_spread, p99_ns } = reads;
        LimitedTime { kib, time, reads_per_s, reads_spread, p99_ns }
    }

    /// True if the load clearly gains over `now`, the limit in force.
    fn is_worth_over(&self, now: &LimitedTime) -> bool {
        let reads = self.reads_per_s / now.reads_per_s;
        let tail = now.p99_ns as f64 / self.p99_ns as f64;
        reads.max(tail) >= WORTH_A_LIMIT && reads.min(tail) > 1.0 / WORTH_A_LIMIT
    }
}

/// The reads of windows under several seeds, of which `first` are the runs under the first; `None`
/// if it was stopped.
fn repeated(
    first: Vec<RunRecord>,
    windows: &[Window],
    policy: &str,
    options: &MaintenanceOptions<'_>,
) -> Result<Option<LoadReads>> {
    let mut repeats = vec![first];
    for number in 1..REPEATS {
        let seed = options.seed.wrapping_add(number);
        let options = MaintenanceOptions { seed, policies: Vec::new(), ..*options };
        let Some(runs) = run_all(windows, policy, READER.window, &options)? else {
            return Ok(None);
        };
        repeats.push(runs);
    }
    Ok(Some(LoadReads::new(&repeats)))
}

impl LoadReads {
    /// Of the runs under each seed.
    fn new(repeats: &[Vec<RunRecord>]) -> LoadReads {
        let mut latency = Histogram::default();
        let mut mean = |runs: &Vec<RunRecord>| {
            let reads = || runs.iter().flat_map(|run| &run.sections).map(|section| &section.read);
            reads().for_each(|read| latency.merge(&read.latency));
            reads().map(|read| read.iops).sum::<f64>() / runs.len() as f64
        };
        let rates: Vec<f64> = repeats.iter().map(&mut mean).collect();
        let rates = mean_interval(&rates);
        let spread = rates.half_width.filter(|_| rates.mean > 0.0).map(|it| it / rates.mean);
        LoadReads { per_s: rates.mean, spread, p99_ns: latency.quantile(0.99).0 }
    }
}
