//! Speed of the simulator with programs: simulated reads per second, next to the built-in policies
//! that decide the same.
//!
//! `cargo bench -p mirrorball --features programs --bench programs`. A simulation with a program
//! has to run at least half as fast. Of nine runs the best counts: other load on the machine only
//! slows one down. Without clang there is nothing to measure, and the bench says so.

use mirrorball_core::policies::{Registry, Spec};
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};
use mirrorball_program::Loader;
use mirrorball_program::toolchain::Toolchain;
use mirrorball_sim::engine::{Checks, PolicyUnderTest, Simulation, run};
use mirrorball_sim::job::{JobContext, JobFile};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// An example and the built-in that it repeats.
const EXAMPLES: [(&str, &str); 9] = [
    ("btrfs-pid", "btrfs/pid"),
    ("btrfs-round-robin", "btrfs/round-robin"),
    ("latency-rr", "kakra/latency-rr"),
    ("md-raid1", "md/raid1"),
    ("nvme-queue-depth", "nvme/queue-depth"),
    ("gmirror-load", "gmirror/load"),
    ("bcachefs-latency", "bcachefs/inverse-square-latency"),
    ("peak-ewma", "research/peak-ewma"),
    ("mirrorball-auto", "mirrorball/auto"),
];

/// Name, members of the array, and how long it is simulated; random reads of 4 KiB at depth 32.
const CASES: [(&str, &str, Nanos); 2] = [
    ("two SSDs", "model = \"ssd-sata-plp\"\ncount = 2\nsize = \"480GB\"", Nanos::from_secs(1)),
    ("eight HDDs", "model = \"hdd-7k2-ent\"\ncount = 8\nsize = \"2TB\"", Nanos::from_secs(60)),
];
const RUNS: usize = 9;
const RATIO_MIN: f64 = 0.5;

fn main() {
    let toolchain = match Toolchain::find() {
        Ok(toolchain) => toolchain,
        Err(error) => return println!("nothing is measured: {error}"),
    };
    let loader = Loader::new().expect("this machine runs programs");
    let mut registry = Registry::with_loader(Arc::new(loader));
    println!("million simulated reads a second: program, built-in, ratio");
    for (name, members, simulated) in CASES {
        let array = format!("name = \"bench\"\nprofile = \"raid1\"\n[[member]]\n{members}\n");
        let array = ArrayFile::parse(&array, "bench.toml").expect("a valid array").spec;
        println!("{name}");
        for (example, builtin) in EXAMPLES {
            let program = load(&toolchain, &mut registry, example);
            let builtin = Spec::parse(builtin).expect("a row of the table");
            let (mut own, mut other) = (0.0_f64, 0.0_f64);
            for _ in 0..RUNS {
                own = own.max(rate(&array, simulated, &program));
                other = other.max(rate(&array, simulated, &builtin));
            }
            let mark = if own / other < RATIO_MIN { "  TOO SLOW" } else { "" };
            println!("  {example:<20} {own:>6.2} {other:>6.2} {:>6.2}{mark}", own / other);
        }
    }
}

fn load(toolchain: &Toolchain, registry: &mut Registry, example: &str) -> Spec {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs");
    let compiled = toolchain.compile(&source.join(format!("{example}.c")));
    let program = registry.load(&compiled.expect("the examples compile").object);
    registry.parse(program.expect("the examples load").name()).expect("it was loaded")
}

/// Simulated reads per second, in millions.
fn rate(array: &ArraySpec, simulated: Nanos, policy: &Spec) -> f64 {
    let job = "[job]\nioengine=io_uring\ndirect=1\nnorandommap\nruntime=1\ntime_based\n\
               rw=randread\nbs=4k\niodepth=32\n";
    let job = &JobFile::parse(job, "bench.fio", &JobContext::empty()).expect("a valid job");
    let (policy, duration) = (PolicyUnderTest::Parsed(policy), Some(simulated));
    let checks = Checks::Off;
    let start = Instant::now();
    let record =
        run(&Simulation { array, job, policy, seed: 1, duration, checks }).expect("it runs");
    let reads = record.sections[0].read.latency.count();
    reads as f64 / start.elapsed().as_secs_f64() / 1e6
}
