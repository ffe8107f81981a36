//! Estimates what the pairs of a sweep cost, so that its shards take about the same time.
//!
//! A cell takes milliseconds to seconds: the number of its requests decides. When a sweep is
//! planned, each pair is simulated for a small part of its time under a few of the policies, and
//! the requests are scaled to the whole time. The estimate is a count, so it is the same on every
//! machine. It decides which shard runs a cell, and no figure.

use crate::plan::SweepPlan;
use anyhow::Result;
use mirrorball_core::units::Nanos;
use mirrorball_lab::experiment::inputs::Inputs;
use mirrorball_lab::experiment::record::{FAIR_ORACLE, ORACLE};
use mirrorball_sim::engine::{self, Checks, PolicyUnderTest, Simulation};
use mirrorball_sim::job::{JobFile, Section};
use mirrorball_sim::record::{RunRecord, SectionRecord};
use rayon::iter::{IntoParallelIterator, ParallelIterator};

/// Policies under which a pair is simulated: a closed job makes a hundred times as many requests
/// under one that finds the fast member.
const POLICIES: usize = 3;
/// Part of the time of a job that is simulated.
const PART: u64 = 64;
/// The shortest time that is simulated.
const SHORTEST: Nanos = Nanos::from_millis(1);
/// Cost of a cell without its requests, in requests.
const CELL: f64 = 1_000.0;

/// The plan with what the cells of each pair cost. Fails if the inputs of a pair do not fit each
/// other.
pub(crate) fn with_costs(mut plan: SweepPlan) -> Result<SweepPlan> {
    let cost = |pair| Ok(of_cell(&plan, &plan.inputs(pair)?));
    let costs: Vec<u32> =
        (0..plan.pair_count()).into_par_iter().map(cost).collect::<Result<_>>()?;
    plan.pairs.iter_mut().zip(costs).for_each(|(pair, cost)| pair.cost = cost);
    Ok(plan)
}

/// Cost of a cell of a pair, in requests. A job without a time limit counts as the shortest one:
/// its requests are not known before it has run.
fn of_cell(plan: &SweepPlan, inputs: &Inputs) -> u32 {
    let job = without_delays(&inputs.jobs[0]);
    let runtime = |section: &Section| plan.duration_ns.map(Nanos).or(section.runtime);
    let Some(longest) = job.sections.iter().filter_map(runtime).max() else { return CELL as u32 };
    let pilot = Nanos(longest.0 / PART).max(SHORTEST);
    let requests = |policy: &str| {
        let spec = inputs.registry.parse(policy).ok()?;
        let run = Simulation {
            array: &inputs.array,
            job: &job,
            policy: PolicyUnderTest::Parsed(&spec),
            seed: 1,
            duration: Some(pilot),
            checks: Checks::Off,
        };
        // A cell that fails does so again when it is run, and is reported then.
        let record = engine::run(&run).ok()?;
        let time = |section: &Section| runtime(section).map_or(pilot, |it| it + section.ramp);
        Some(scaled(&record, |place| time(&job.sections[place]).0 as f64 / pilot.0 as f64))
    };
    let found: Vec<f64> = chosen(&plan.policies).into_iter().filter_map(requests).collect();
    let mean = found.iter().sum::<f64>() / found.len().max(1) as f64;
    (CELL + mean) as u32
}

/// The same job, in which all sections begin at once: delays may be longer than what is simulated.
fn without_delays(job: &JobFile) -> JobFile {
    let mut job = job.clone();
    job.sections.iter_mut().for_each(|section| section.start_delay = Nanos::ZERO);
    job
}

/// The first, the middle and the last of the policies that are no oracles.
fn chosen(policies: &[String]) -> Vec<&str> {
    let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
    let policies: Vec<&str> =
        policies.into_iter().filter(|policy| ![ORACLE, FAIR_ORACLE].contains(policy)).collect();
    let step = (policies.len().saturating_sub(1) / (POLICIES - 1)).max(1);
    policies.into_iter().step_by(step).take(POLICIES).collect()
}

/// Requests and member I/O of a run, those of each section times its factor.
fn scaled(record: &RunRecord, factor: impl Fn(usize) -> f64) -> f64 {
    let count = |section: &SectionRecord| {
        let counts = [&section.read, &section.write, &section.trim].map(|it| it.latency.count());
        counts.iter().sum::<u64>() as f64
    };
    let counts: Vec<f64> = record.sections.iter().map(count).collect();
    let member_ios = record.member_ios as f64 / counts.iter().sum::<f64>().max(1.0);
    let requests: f64 = counts.iter().enumerate().map(|(place, it)| it * factor(place)).sum();
    requests * (1.0 + member_ios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_from_the_whole_list_are_simulated() {
        let names = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        assert_eq!(chosen(&names(&["a", ORACLE])), ["a"]);
        assert_eq!(chosen(&names(&["a", "b"])), ["a", "b"]);
        assert_eq!(chosen(&names(&["a", "b", "c", "d", "e", "f", ORACLE])), ["a", "c", "e"]);
        assert!(chosen(&names(&[ORACLE])).is_empty());
    }

    #[test]
    fn more_requests_cost_more() {
        let policies = ["btrfs/pid", "md/raid1"].map(str::to_owned).to_vec();
        let build = mirrorball_lab::experiment::build::BuildIdentity::with_hash("0");
        let mut plan = SweepPlan::grid(build, Vec::new(), Vec::new(), policies, None);
        let cost = |plan: &SweepPlan, array: &str, options: &str| {
            let array =
                format!("profile = \"raid1\"\n[[member]]\nmodel = \"{array}\"\ncount = 2\n");
            let job = format!("[a]\nrw=randread\nbs=4k\ndirect=1\nioengine=libaio\n{options}");
            let inputs = Inputs::from_texts(("a", &array), &[("j", &job)]).unwrap();
            of_cell(plan, &inputs)
        };
        let one = "runtime=1\ntime_based\niodepth=1\n";
        let disk = cost(&plan, "hdd-7k2-ent", one);
        let ssd = cost(&plan, "ssd-sata-plp", one);
        let deep = cost(&plan, "ssd-sata-plp", "runtime=1\ntime_based\niodepth=32\n");
        let late = cost(&plan, "ssd-sata-plp", "runtime=1\ntime_based\niodepth=32\nstartdelay=5\n");
        // Reads of 120 us, two counts for each: 1,000 + 16,700.
        assert!(disk < 2_000 && (15_000..20_000).contains(&ssd), "{disk}, {ssd}");
        assert!(deep > 5 * ssd && late == deep, "{deep}, {late}");
        let endless = cost(&plan, "ssd-sata-plp", "size=1m\n");
        assert_eq!(endless, 1_000, "no time limit");
        plan.duration_ns = Some(10_000_000_000);
        assert!(cost(&plan, "ssd-sata-plp", one) > 8 * ssd);
    }
}
