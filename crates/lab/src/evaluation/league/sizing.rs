//! Sizes a drawn job for its array: the rates of arrivals, and how long it runs.
//!
//! A run should measure enough requests of every section, on a slow array as on a fast one, and
//! none should take long to simulate. The job is run under one policy for times that grow by a
//! factor of four, until it has made enough requests or costs enough; every policy then runs for
//! the same time. All of it is simulated with a fixed seed, so it is the same in every run.

use super::array::DrawnArray;
use super::job::{DrawnJob, Sizing};
use crate::experiment::inputs::{self, Inputs};
use anyhow::{Context, Result};
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::ArraySpec;
use mirrorball_sim::engine::{self, Checks, PolicyUnderTest, Simulation};
use mirrorball_sim::job::JobFile;
use mirrorball_sim::record::{RunRecord, SectionRecord};

/// The policy under which jobs are sized: a good one nearly everywhere.
const PACER: &str = "dm/historical-service-time";
const SEED: u64 = 1;
/// Measured time for each that passes before, in which caches, queues and averages settle.
const RAMP_SHARE: u64 = 4;

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Member I/O that a run should measure.
    pub(super) member_ios: u64,
    /// Requests that every section should measure.
    pub(super) section_ios: u64,
    /// Member I/O, or requests, beyond which a run is not made longer.
    pub(super) cost: u64,
    /// The shortest time that is measured.
    pub(super) shortest: Nanos,
    pub(super) longest: Nanos,
}

impl Bounds {
    pub(super) const FULL: Bounds = Bounds {
        member_ios: 8_000,
        section_ios: 400,
        cost: 60_000,
        shortest: Nanos::from_millis(100),
        longest: Nanos::from_secs(120),
    };
    pub(super) const SHORT: Bounds = Bounds {
        member_ios: 2_500,
        section_ios: 150,
        cost: 20_000,
        shortest: Nanos::from_millis(50),
        longest: Nanos::from_secs(40),
    };

    /// What part of the time of a run is enough: above one if it is too short.
    fn part_needed(&self, record: &RunRecord) -> f64 {
        let section = |section: &SectionRecord| self.section_ios as f64 / requests(section);
        let needed = record.sections.iter().map(section);
        needed.fold(self.member_ios as f64 / record.member_ios.max(1) as f64, f64::max)
    }

    /// What part of the time of a run costs as much as a run may.
    fn part_affordable(&self, record: &RunRecord) -> f64 {
        let requests: f64 = record.sections.iter().map(requests).sum();
        self.cost as f64 / requests.max(record.member_ios as f64)
    }
}

fn requests(section: &SectionRecord) -> f64 {
    let counts = [&section.read, &section.write, &section.trim].map(|it| it.latency.count());
    counts.iter().sum::<u64>().max(1) as f64
}

/// The array and the job as files, sized for each other. `name` is what results call both. Fails if
/// a run under way fails, or one of the files is not what it should be: a defect of the draws.
pub(super) fn sized(
    array: &DrawnArray,
    job: &DrawnJob,
    name: &str,
    bounds: &Bounds,
) -> Result<Inputs> {
    let plain = inputs::array_of_text(name, &array.text_without_timed_faults())?;
    let mut sizing = Sizing::default();
    for place in 0..job.sections.len() {
        let rate = match job.sections[place].load {
            Some(load) => Some((load * capacity(&plain, job, place, bounds)?).max(1.0) as u64),
            None => None,
        };
        sizing.rates.push(rate);
    }
    sizing.runtime = runtime(&plain, job, &sizing, bounds)?;
    sizing.ramp = sizing.runtime / RAMP_SHARE;
    let array_text = array.text(sizing.ramp + sizing.runtime);
    Inputs::from_texts((name, &array_text), &[(name, &job.text(&sizing))])
}

/// Requests per second that the array serves to one section alone, 32 in flight.
fn capacity(array: &ArraySpec, job: &DrawnJob, place: usize, bounds: &Bounds) -> Result<f64> {
    let mut runtime = bounds.shortest;
    loop {
        let file = inputs::job_of_text("capacity", &job.alone(place, runtime))?;
        let record = simulate(array, &file)?;
        let served = requests(&record.sections[0]);
        let is_enough = served >= 2.0 * bounds.section_ios as f64;
        if is_enough || runtime >= bounds.longest {
            return Ok(served / record.measured.as_secs_f64());
        }
        runtime = (runtime * 4).min(bounds.longest);
    }
}

fn runtime(array: &ArraySpec, job: &DrawnJob, sizing: &Sizing, bounds: &Bounds) -> Result<Nanos> {
    let mut runtime = bounds.shortest;
    loop {
        let text = job.text(&Sizing { runtime, ..sizing.clone() });
        let record = simulate(array, &inputs::job_of_text("sizing", &text)?)?;
        let part = bounds.part_needed(&record).min(bounds.part_affordable(&record));
        if part <= 1.0 || runtime >= bounds.longest {
            let exact = runtime.as_secs_f64() * part.min(1.0);
            let whole = Nanos::from_millis((exact * 1e3).ceil() as u64);
            return Ok(whole.max(bounds.shortest));
        }
        runtime = (runtime * 4).min(bounds.longest);
    }
}

fn simulate(array: &ArraySpec, job: &JobFile) -> Result<RunRecord> {
    let policy = PolicyUnderTest::Policy(PACER);
    let run = Simulation { array, job, policy, seed: SEED, duration: None, checks: Checks::Off };
    engine::run(&run).with_context(|| format!("`{PACER}` on {}", array.file_name))
}
