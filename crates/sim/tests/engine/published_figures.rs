//! Published figures of disks, seen from a program on a simulated host.
//!
//! A profile's figures are checked on the model alone, behind the default host overhead
//! (`mirrorball_disk::characterise`). Here the whole engine runs the same workload on an array of
//! that one disk with the default `[host]`: `compare` must show what `models` claims.

use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::ArrayFile;
use mirrorball_disk::characterise::observe;
use mirrorball_disk::figure::{MeasuredAt, Statistic};
use mirrorball_disk::profile::ModelProfile;
use mirrorball_disk::workload::ModelWorkload;
use mirrorball_sim::engine::{Checks, PolicyUnderTest, Simulation, run};
use mirrorball_sim::job::{JobContext, JobFile};

/// Workloads, the jobs that are the same for fio, and the statistic compared.
const WORKLOADS: [(&str, &str, &str); 4] = [
    ("randread-qd1", "rw=randread\nbs=4k\niodepth=1", "iops"),
    ("randread-qd32", "rw=randread\nbs=4k\niodepth=32", "iops"),
    ("seqread-1m", "rw=read\nbs=1m\niodepth=4", "rate"),
    ("seqread-128k", "rw=read\nbs=128k\niodepth=32", "rate"),
];

/// Largest difference between the engine and the model alone: the default jitter of the host and
/// other random offsets.
const TOLERANCE: f64 = 0.03;

#[test]
fn an_array_of_one_disk_gives_the_published_figures_of_the_disk() {
    let mut misses = Vec::new();
    for profile in ModelProfile::builtins() {
        for (workload, options, statistic) in WORKLOADS {
            let simulated = measure(&profile, options, statistic);
            let workload = ModelWorkload::named(workload).unwrap();
            let statistic = Statistic::all().iter().find(|row| row.name == statistic).unwrap();
            let alone = statistic.read(&observe(&profile, workload, MeasuredAt::Host, 1));
            let name = format!("{} {}/{}", profile.name, workload.name, statistic.name);
            if (simulated / alone - 1.0).abs() > TOLERANCE {
                misses.push(format!("{name}: {simulated:.1} in the engine, {alone:.1} alone"));
            }
            for row in &profile.expectations {
                let is_same = row.workload == workload && row.statistic == statistic;
                let published = row.value * row.unit.scale;
                if is_same
                    && row.measured_at == MeasuredAt::Host
                    && (simulated / published - 1.0).abs() > row.tolerance
                {
                    misses.push(format!("{name}: {simulated:.1}, published {published:.1}"));
                }
            }
        }
    }
    assert!(misses.is_empty(), "{misses:#?}");
}

/// Reads or bytes per second of a job on an array of this one disk.
fn measure(profile: &ModelProfile, options: &str, statistic: &str) -> f64 {
    let name = &profile.name;
    let text = format!("profile = \"single\"\n[[member]]\nmodel = \"{name}\"\n");
    let array = ArrayFile::parse(&text, "one.toml").expect("a valid array").spec;
    let seconds = if profile.rotational { 60 } else { 1 };
    let text = format!(
        "[job]\nioengine=io_uring\ndirect=1\ntime_based\nruntime={seconds}\nramp_time=1\n\
         {options}\n"
    );
    let job = JobFile::parse(&text, "job.fio", &JobContext::empty()).expect("a valid job");
    let (policy, checks) = (PolicyUnderTest::Policy("first"), Checks::Off);
    let simulation =
        Simulation { array: &array, job: &job, policy, seed: 1, duration: None, checks };
    let record = run(&simulation).expect("it runs");
    let read = &record.sections[0].read;
    let seconds = record.sections[0].measured.max(Nanos(1)).as_secs_f64();
    match statistic {
        "iops" => read.latency.count() as f64 / seconds,
        _ => read.bytes as f64 / seconds,
    }
}
