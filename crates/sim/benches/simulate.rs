//! How fast the simulator is: simulated reads per second of one core.
//!
//! `cargo bench -p mirrorball-sim`. The last lines print reads per second for each case.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};
use mirrorball_sim::engine::{Checks, PolicyUnderTest, Simulation, run};
use mirrorball_sim::job::{JobContext, JobFile};
use std::time::{Duration, Instant};

/// A case: its name, the array, the options of its one job, and how long it is simulated.
struct Case {
    name: &'static str,
    array: &'static str,
    job: &'static str,
    simulated: Nanos,
}

const CASES: [Case; 4] = [
    Case {
        name: "two SSDs, random 4 KiB, depth 32",
        array: "[[member]]\nmodel = \"ssd-sata-plp\"\ncount = 2\nsize = \"480GB\"",
        job: "rw=randread\nbs=4k\niodepth=32",
        simulated: Nanos::from_secs(1),
    },
    Case {
        name: "two NVMe SSDs, random 4 KiB, depth 32",
        array: "[[member]]\nmodel = \"nvme-tlc-ent\"\ncount = 2\nsize = \"480GB\"",
        job: "rw=randread\nbs=4k\niodepth=32",
        simulated: Nanos::from_millis(500),
    },
    Case {
        name: "eight HDDs, random 4 KiB, depth 32",
        array: "[[member]]\nmodel = \"hdd-7k2-ent\"\ncount = 8\nsize = \"2TB\"",
        job: "rw=randread\nbs=4k\niodepth=32",
        simulated: Nanos::from_secs(60),
    },
    Case {
        name: "eight HDDs, random 4 KiB, depth 256",
        array: "[[member]]\nmodel = \"hdd-7k2-ent\"\ncount = 8\nsize = \"2TB\"",
        job: "rw=randread\nbs=4k\niodepth=256",
        simulated: Nanos::from_secs(60),
    },
];

fn array(case: &Case) -> ArraySpec {
    let text = format!("name = \"bench\"\nprofile = \"raid1\"\n{}\n", case.array);
    ArrayFile::parse(&text, "bench.toml").expect("a valid array").spec
}

fn job(case: &Case) -> JobFile {
    let text = format!(
        "[job]\nioengine=io_uring\ndirect=1\nnorandommap\nruntime=1\ntime_based\n{}\n",
        case.job
    );
    JobFile::parse(&text, "bench.fio", &JobContext::empty()).expect("a valid job")
}

fn simulate(array: &ArraySpec, jobs: &JobFile, case: &Case, policy: &str) -> u64 {
    let (policy, duration) = (PolicyUnderTest::Policy(policy), Some(case.simulated));
    let checks = Checks::Off;
    let record =
        run(&Simulation { array, job: jobs, policy, seed: 1, duration, checks }).expect("it runs");
    record.sections[0].read.latency.count()
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("simulate");
    group.sample_size(10).warm_up_time(Duration::from_millis(300));
    group.measurement_time(Duration::from_secs(2));
    for case in &CASES {
        let (array, jobs) = (array(case), job(case));
        group.throughput(Throughput::Elements(simulate(&array, &jobs, case, "btrfs/pid")));
        group.bench_function(case.name, |bencher| {
            bencher.iter(|| simulate(&array, &jobs, case, "btrfs/pid"));
        });
    }
    group.finish();
    print_rates();
}

/// The slowest and the fastest policy of each case, in millions of simulated reads per second; of
/// five runs the best, because whatever else the machine does only ever slows one down.
fn print_rates() {
    println!("\nsimulated reads per second and core");
    for case in &CASES {
        let (array, jobs) = (array(case), job(case));
        let rate = |policy: &'static str| {
            let run = || {
                let start = Instant::now();
                let reads = simulate(&array, &jobs, case, policy);
                reads as f64 / start.elapsed().as_secs_f64() / 1e6
            };
            ((0..5).map(|_| run()).fold(0.0, f64::max), policy)
        };
        let mut rates: Vec<(f64, &str)> =
            mirrorball_core::policies::all().map(|policy| rate(policy.name)).collect();
        rates.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ((slowest, by), (fastest, at)) = (rates[0], rates[rates.len() - 1]);
        println!("{:40} {slowest:5.2} M/s ({by}) to {fastest:5.2} M/s ({at})", case.name);
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
