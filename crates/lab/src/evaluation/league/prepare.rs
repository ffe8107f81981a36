//! Sets the rates and lengths of an array's jobs.
//!
//! A run should measure about as many requests as the list sets, on a fast array as on a slow one.
//! So each job is first run under one policy until it has made them; every policy then runs for the
//! same time. Under a job that sets its own pace, the pace is a part of the
//! array's *capacity*: the most IOPS that any of a few policies gets out of it with 32 random reads
//! in flight. Both are simulated with fixed seeds, so they are the same in every league.

use super::files;
use super::matrix::{ArrayEntry, JobEntry};
use crate::experiment::inputs::{self, Inputs};
use crate::experiment::plan::InputText;
use anyhow::{Context, Result};
use mirrorball_core::policies::Registry;
use mirrorball_core::units::{Nanos, parse_duration};
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};
use mirrorball_sim::engine::{self, Checks, PolicyUnderTest, Simulation};
use mirrorball_sim::job::{JobContext, JobFile};
use mirrorball_sim::record::RunRecord;
use rayon::prelude::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};

/// The policy under which lengths are measured: a good one nearly everywhere.
const PACER: &str = "dm/historical-service-time";
/// Those of which the best gives the capacity.
const CAPACITY_POLICIES: [&str; 5] =
    [PACER, "research/peak-ewma", "zfs/mirror", "nvme/queue-depth", "kakra/queue-adaptive"];
/// The job that measures capacity.
const CAPACITY_JOB: &str = "; Random 4 KiB reads, 32 in flight.\n[capacity]\nioengine=libaio\n\
                            direct=1\nrw=randread\nbs=4k\niodepth=32\nnorandommap\n";
const CAPACITY_SEED: u64 = 1;
/// The shortest time that is measured: policies that learn by the clock need some.
const MEASURED_MIN: Nanos = Nanos::from_millis(100);
/// Measured time for each that passes before, in which caches, queues and averages settle.
const RAMP_SHARE: u64 = 4;
/// The same where the length of the run is given.
const RAMP_SHARE_OF_RUN: u64 = 10;

/// Values of the variables of a job file.
struct Variables<'a> {
    ramp: Nanos,
    runtime: Nanos,
    rate: u64,
    background: &'a str,
}

/// The array and its jobs, with every variable filled in.
///
/// # Errors
/// If a run under way fails, or one of the files is not what it should be.
pub(super) fn inputs(array: &ArrayEntry, jobs: &[&JobEntry], length: f64) -> Result<Inputs> {
    let text = files::text(&files::ARRAYS, &array.name);
    let spec = ArrayFile::parse(text, &format!("league/arrays/{}.toml", array.name))?.spec;
    let capacity = match jobs.iter().any(|job| job.load.is_some()) {
        true => capacity(&spec, array)?,
        false => 0.0,
    };
    let jobs: Vec<(InputText, JobFile)> = jobs
        .par_iter()
        .map(|job| sized_job(&spec, array, job, capacity, length))
        .collect::<Result<_>>()?;
    let (job_sources, jobs) = jobs.into_iter().unzip();
    let array_source = InputText {
        name: array.name.clone(),
        text: text.to_owned(),
        fingerprint: inputs::fingerprint(&spec),
    };
    Ok(Inputs {
        array: spec,
        array_source,
        jobs,
        job_sources,
        notes: Vec::new(),
        registry: Registry::default(),
    })
}

/// The most IOPS that one of a few policies gets out of the array.
fn capacity(spec: &ArraySpec, array: &ArrayEntry) -> Result<f64> {
    let text = with_rebuild(CAPACITY_JOB, array);
    let mut job = JobFile::parse(&text, "capacity.fio", &JobContext::empty())?;
    job.sections[0].number_ios = Some(array.reads);
    let rates = CAPACITY_POLICIES.into_par_iter().map(|policy| {
        let record = simulate(spec, &job, policy)?;
        Ok(record.sections[0].read.latency.count() as f64 / record.measured.as_secs_f64())
    });
    Ok(rates.collect::<Result<Vec<f64>>>()?.into_iter().fold(0.0, f64::max))
}

fn sized_job(
    spec: &ArraySpec,
    array: &ArrayEntry,
    job: &JobEntry,
    capacity: f64,
    length: f64,
) -> Result<(InputText, JobFile)> {
    let rate = (capacity * job.load.unwrap_or_default()) as u64;
    let mut variables = Variables {
        ramp: Nanos::ZERO,
        // Longer than any number of requests takes.
        runtime: Nanos::from_secs(100_000),
        rate: rate.max(1),
        background: &array.background,
    };
    (variables.ramp, variables.runtime) = match &array.run {
        Some(run) => {
            let run = parse_duration(run)?;
            (run / RAMP_SHARE_OF_RUN, run - run / RAMP_SHARE_OF_RUN)
        }
        None => {
            let reads = (array.reads as f64 * job.part * length) as u64;
            let measured = time_of(spec, &parsed(array, job, &variables)?.1, reads)?;
            (measured / RAMP_SHARE, measured)
        }
    };
    let (text, file) = parsed(array, job, &variables)?;
    inputs::check_fit(&spec.file_name, spec, &file)?;
    let fingerprint = inputs::job_fingerprint(&file);
    let source = InputText { name: job.name.clone(), text, fingerprint };
    Ok((source, file))
}

/// How long a job takes for `reads` requests, in whole milliseconds.
fn time_of(spec: &ArraySpec, file: &JobFile, reads: u64) -> Result<Nanos> {
    let mut file = file.clone();
    let clones: u64 = file.sections.iter().map(|job| u64::from(job.clones)).sum();
    for job in &mut file.sections {
        job.number_ios = Some(reads.div_ceil(clones));
        // Or it would go on for its runtime whatever it has done.
        job.time_based = false;
    }
    let took = simulate(spec, &file, PACER)?.measured;
    Ok(Nanos::from_millis(took.0.div_ceil(1_000_000)).max(MEASURED_MIN))
}

fn simulate(spec: &ArraySpec, jobs: &JobFile, policy: &str) -> Result<RunRecord> {
    let run = Simulation {
        array: spec,
        job: jobs,
        policy: PolicyUnderTest::Policy(policy),
        seed: CAPACITY_SEED,
        duration: None,
        checks: Checks::Off,
    };
    engine::run(&run).with_context(|| format!("`{policy}` on {}", spec.name))
}

/// The job's text with every variable filled in, and the parsed job.
fn parsed(
    array: &ArrayEntry,
    job: &JobEntry,
    variables: &Variables<'_>,
) -> Result<(String, JobFile)> {
    // Not left to fio's own rule: that does not reach into the comments that pragmas are.
    let text = files::text(&files::JOBS, &job.name)
        .replace("${RAMP}", &format!("{}us", variables.ramp.0 / 1000))
        .replace("${RUNTIME}", &format!("{}us", variables.runtime.0 / 1000))
        .replace("${RATE}", &variables.rate.to_string())
        .replace("${BACKGROUND}", variables.background);
    let text = with_rebuild(&text, array);
    let name = format!("league/jobs/{}.fio", job.name);
    let file = JobFile::parse(&text, &name, &JobContext::empty())?;
    Ok((text, file))
}

/// The job with the array's rebuild in the background, if it has one.
fn with_rebuild(text: &str, array: &ArrayEntry) -> String {
    match &array.rebuild {
        Some(rate) => format!("; mirrorball: background=rebuild rate={rate}\n{text}"),
        None => text.to_owned(),
    }
}
