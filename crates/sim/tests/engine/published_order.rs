//! The order in which policies came out on a real array, on the simulated one that stands for it.
//!
//! kakra's benchmark of May 2025 (kakra/linux PR #36, six unequal HDDs): random 4 KiB reads,
//! `latency-rr` before `latency` before `pid` at depth 32, idle and during a defrag; at depth 1
//! both latency policies before `pid` and `round-robin`, which suffer during a defrag.
//! Absolute figures are another matter: that array had a cache in front, and ours is made up of
//! published disks. Means over seeds, because `pid` is a coin toss.
//!
//! What this is worth: the defrag's rate was chosen with this order in view. Of no limit, 10, 16,
//! 24 and 32 MB/s the order holds at the four limits; without one it fails at depth 1, where `pid`
//! leads. The bound on what is left during a defrag was set after seeing our figures, and is far
//! from the published collapse. So this guards against change; it is no independent confirmation.

use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};
use mirrorball_sim::engine::{Checks, PolicyUnderTest, Simulation, run};
use mirrorball_sim::job::{JobContext, JobFile};

const SEEDS: u64 = 6;

/// Mean IOPS of one policy and one job over the seeds.
fn mean_iops(array: &ArraySpec, jobs: &JobFile, policy: &str) -> f64 {
    let iops = |seed| {
        let policy = PolicyUnderTest::Policy(policy);
        let (duration, checks) = (Some(Nanos::from_secs(30)), Checks::Off);
        let record =
            run(&Simulation { array, job: jobs, policy, seed, duration, checks }).expect("it runs");
        record.sections[0].read.latency.count() as f64 / record.measured.as_secs_f64()
    };
    (1..=SEEDS).map(iops).sum::<f64>() / SEEDS as f64
}

/// Mean IOPS of the four policies: `pid`, `round-robin`, `latency`, `latency-rr`.
fn published_four(job: &str) -> [f64; 4] {
    let array = ArrayFile::builtin(ArrayFile::DEFAULT).expect("it is built in").spec;
    let jobs = JobFile::parse(job, "job.fio", &JobContext::empty()).expect("a valid job");
    let policies = ["btrfs/pid", "btrfs/round-robin", "kakra/latency", "kakra/latency-rr"];
    policies.map(|policy| mean_iops(&array, &jobs, policy))
}

#[test]
fn at_depth_32_idle_and_during_a_defrag() {
    let idle = published_four(include_str!("../../jobs/rand-4k-qd32.fio"));
    let loaded = published_four(include_str!("../../jobs/rand-4k-qd32-defrag.fio"));
    for [pid, round_robin, latency, latency_rr] in [idle, loaded] {
        let order = format!("{latency_rr:.0} > {latency:.0} > {pid:.0} > {round_robin:.0}");
        assert!(latency_rr > latency && latency > pid && pid > round_robin, "{order}");
    }
}

#[test]
fn at_depth_1_latency_wins_and_policies_that_ignore_load_lose_during_a_defrag() {
    let idle = published_four(include_str!("../../jobs/rand-4k-qd1.fio"));
    let loaded = published_four(include_str!("../../jobs/rand-4k-qd1-defrag.fio"));
    for [pid, round_robin, latency, latency_rr] in [idle, loaded] {
        let blind = pid.max(round_robin);
        assert!(latency.min(latency_rr) > blind, "{latency:.0}, {latency_rr:.0}, {blind:.0}");
    }
    for policy in [0, 1] {
        let left = loaded[policy] / idle[policy];
        assert!(left < 0.65, "{left:.2} of the idle rate is no collapse");
    }
}
