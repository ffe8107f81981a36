//! Time of one decision by a program, next to the built-in policy that decides the same.
//!
//! Each example of the folder `programs` is compiled, loaded, and asked for the same reads as the
//! built-in. `choose` includes writing the context; a decision is `choose` and the `on_submit` that
//! follows it. The bounds of `choose` are 100 ns at two mirrors and 120 ns at four; that of loading
//! an object, which compiles it, is 50 ms.
//!
//! Run with `cargo bench -p mirrorball-program`. Criterion compares each figure with the previous
//! run; then tables of the lowest of the same samples follow, which docs/policies.md shows: other
//! load on the machine only makes a sample higher. Without clang there is nothing to measure, and
//! the bench says so.

mod decision_table;

use criterion::{BenchmarkId, Criterion};
use decision_table::{DecisionTable, Load};
use mirrorball_core::policies::{PolicyProgram, Spec};
use mirrorball_core::policy::{Choice, ReadPolicy};
use mirrorball_program::Loader;
use mirrorball_program::program::Program;
use mirrorball_program::toolchain::Toolchain;
use std::path::Path;
use std::time::{Duration, Instant};

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

/// Numbers of mirrors, and the bound of `choose` for each.
const MIRRORS: [(u16, f64); 2] = [(2, 100.0), (4, 120.0)];
const LOAD_BOUND_MS: f64 = 50.0;

/// Subject of a sample.
type Call = fn(&mut DecisionTable) -> Choice;

const CALLS: [(&str, Call); 2] =
    [("choose", DecisionTable::choose), ("decision", DecisionTable::decide)];

/// An example that is ready to be measured.
struct Example {
    name: &'static str,
    builtin: &'static str,
    object: Vec<u8>,
    program: Program,
}

/// Lowest samples in nanoseconds: of the program, and of the built-in.
#[derive(Clone, Copy)]
struct Lowest {
    program_ns: f64,
    builtin_ns: f64,
}

fn main() {
    let toolchain = match Toolchain::find() {
        Ok(toolchain) => toolchain,
        Err(error) => return println!("nothing is measured: {error}"),
    };
    let loader = Loader::new().expect("this machine runs programs");
    let examples = EXAMPLES.map(|(name, builtin)| example(&toolchain, &loader, name, builtin));
    let mut criterion = Criterion::default().configure_from_args();
    let tables = CALLS.map(|(what, call)| {
        MIRRORS.map(|(mirrors, bound_ns)| {
            let lowest = examples.iter().map(|it| measure(&mut criterion, it, what, call, mirrors));
            (mirrors, bound_ns, lowest.collect::<Vec<Lowest>>())
        })
    });
    let load_ms: Vec<f64> =
        examples.iter().map(|it| load_ms(&mut criterion, &loader, it)).collect();
    criterion.final_summary();
    for ((what, _), columns) in CALLS.iter().zip(&tables) {
        println!("{}", report(what, &examples, columns));
    }
    for (example, load_ms) in examples.iter().zip(load_ms) {
        let mark = if load_ms > LOAD_BOUND_MS { "  EXCEEDED" } else { "" };
        let (name, size) = (example.name, example.object.len());
        println!("{name:<20} {size:>6} bytes, loaded in {load_ms:>5.2} ms{mark}");
    }
}

fn example(
    toolchain: &Toolchain,
    loader: &Loader,
    name: &'static str,
    builtin: &'static str,
) -> Example {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs");
    let compiled = toolchain.compile(&folder.join(format!("{name}.c")));
    let object = compiled.expect("the examples compile").object;
    let program = loader.load_program(&object).expect("the examples load");
    Example { name, builtin, object, program }
}

impl Example {
    fn program_policy(&self, devids: &[u64]) -> Box<dyn ReadPolicy> {
        let values: Vec<u64> = self.program.parameters().iter().map(|it| it.default).collect();
        self.program.build(&values, devids).expect("the defaults fit")
    }

    fn builtin_policy(&self, devids: &[u64]) -> Box<dyn ReadPolicy> {
        let spec = Spec::parse(self.builtin).expect("a row of the table");
        spec.build(devids).expect("the defaults fit")
    }
}

fn measure(
    criterion: &mut Criterion,
    example: &Example,
    what: &str,
    call: Call,
    mirrors: u16,
) -> Lowest {
    let mut group = criterion.benchmark_group(format!("{what}, {mirrors} mirrors"));
    group.warm_up_time(Duration::from_millis(200));
    group.measurement_time(Duration::from_millis(500));
    let mut lowest_of = |name: &str, mut table: DecisionTable| {
        let mut samples = Vec::new();
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter_custom(|calls| {
                let took = table.time(calls, call);
                samples.push(took.as_nanos() as f64 / calls as f64);
                took
            });
        });
        lowest(samples)
    };
    let load = Load::MANY;
    let program = DecisionTable::new(mirrors, load, |devids| example.program_policy(devids));
    let builtin = DecisionTable::new(mirrors, load, |devids| example.builtin_policy(devids));
    let program_ns = lowest_of(&format!("program/{}", example.name), program);
    let builtin_ns = lowest_of(example.builtin, builtin);
    group.finish();
    Lowest { program_ns, builtin_ns }
}

/// Lowest time of loading an object: checks, compilation, and a first instance.
fn load_ms(criterion: &mut Criterion, loader: &Loader, example: &Example) -> f64 {
    let mut group = criterion.benchmark_group("load");
    group.sample_size(10).warm_up_time(Duration::from_millis(100));
    group.measurement_time(Duration::from_millis(500));
    let mut samples = Vec::new();
    group.bench_function(BenchmarkId::from_parameter(example.name), |bencher| {
        bencher.iter_custom(|loads| {
            let start = Instant::now();
            for _ in 0..loads {
                loader.load_program(&example.object).expect("it was loaded before");
            }
            let took = start.elapsed();
            samples.push(took.as_secs_f64() * 1000.0 / loads as f64);
            took
        });
    });
    group.finish();
    lowest(samples)
}

/// The lowest sample; not a number if there is none, as under a filter.
fn lowest(samples: Vec<f64>) -> f64 {
    samples.into_iter().fold(f64::NAN, f64::min)
}

/// A row per example, for each number of mirrors: program, built-in, their ratio, and a mark where
/// `choose` exceeds its bound.
fn report(what: &str, examples: &[Example], columns: &[(u16, f64, Vec<Lowest>); 2]) -> String {
    let mut report = format!("{:<20}", format!("ns per {what}"));
    for (mirrors, ..) in columns {
        report += &format!(" {mirrors:>8} mirrors: program, built-in, ratio");
    }
    for (row, example) in examples.iter().enumerate() {
        report += &format!("\n{:<20}", example.name);
        for (_, bound_ns, lowest) in columns {
            let Lowest { program_ns, builtin_ns } = lowest[row];
            let ratio = program_ns / builtin_ns;
            report += &format!(" {program_ns:>24.1} {builtin_ns:>9.1} {ratio:>6.1}");
            if what == "choose" && program_ns > *bound_ns {
                report += " EXCEEDED";
            }
        }
    }
    report + "\n"
}
