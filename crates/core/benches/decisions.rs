//! Time of one decision: every policy and modifier, at 2, 4 and 16 mirrors.
//!
//! A decision is `choose` and the `on_submit` that follows it. The reads are a mix of random and
//! sequential ones of many streams, on members with statistics. After 32 decisions all reads
//! complete, which is not timed. The bounds at 2 mirrors are 20 ns for policies that decide by the
//! address, by turns or by queues, and 60 ns for all (ARCHITECTURE.md, performance).
//!
//! Almost each of these reads is of a new stream. `mirrorball/auto`, which keeps a table of
//! streams, is also measured with 1, 4 and 32 of them, on disks and on flash.
//!
//! Run with `cargo bench -p mirrorball-core --bench decisions`. Criterion compares each figure with
//! the previous run; then a table of the medians of the same samples follows.

mod decision_table;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion};
use decision_table::{DecisionTable, Load};
use mirrorball_core::policies::{Basis, Spec, all, find, modifiers};
use std::fmt::Display;
use std::time::Duration;

const MIRRORS: [u16; 3] = [2, 4, 16];

/// The policy that is also measured with these numbers of streams.
const BY_STREAMS: &str = "mirrorball/auto";
const STREAMS: [u64; 3] = [1, 4, 32];
const PLAIN_BOUND_NS: f64 = 20.0;
const BOUND_NS: f64 = 60.0;

/// Samples in nanoseconds per decision.
type Samples = Vec<f64>;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let columns = MIRRORS.map(|mirrors| measure(&mut criterion, mirrors));
    MIRRORS.iter().for_each(|&mirrors| measure_by_streams(&mut criterion, mirrors));
    criterion.final_summary();
    println!("{}", report(&columns));
}

/// Every policy, then every modifier with the cheapest policy that makes a decision.
fn specs() -> Vec<Spec> {
    let modified = modifiers::ALL.iter().map(|info| format!("btrfs/pid+{}", info.name));
    let modified = modified.map(|text| Spec::parse(&text).expect("both are in their tables"));
    all().map(Spec::new).chain(modified).collect()
}

/// A group of figures for this number of mirrors.
fn group<'a>(
    criterion: &'a mut Criterion,
    name: &str,
    mirrors: u16,
) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(format!("{name}, {mirrors} mirrors"));
    // A decision takes nanoseconds, so half a second is enough for many of them.
    group.warm_up_time(Duration::from_millis(200));
    group.measurement_time(Duration::from_millis(500));
    group
}

/// Measures decisions of a policy under a load.
fn measure_one(
    group: &mut BenchmarkGroup<'_, WallTime>,
    id: impl Display,
    spec: &Spec,
    mirrors: u16,
    load: Load,
) -> Samples {
    let mut table = DecisionTable::new(mirrors, load, |devids| {
        spec.build(devids).expect("defaults fit the array")
    });
    let mut samples = Samples::new();
    group.bench_function(BenchmarkId::from_parameter(id), |bencher| {
        bencher.iter_custom(|decisions| {
            let took = table.time(decisions, DecisionTable::decide);
            samples.push(took.as_nanos() as f64 / decisions as f64);
            took
        });
    });
    samples
}

/// Measures every policy that the command line selects.
fn measure(criterion: &mut Criterion, mirrors: u16) -> Vec<Samples> {
    let mut group = group(criterion, "decision", mirrors);
    let specs = specs().into_iter();
    let column = specs.map(|spec| measure_one(&mut group, &spec, &spec, mirrors, Load::MANY));
    let column = column.collect();
    group.finish();
    column
}

/// Measures the policy that depends on the number of streams with few of them.
fn measure_by_streams(criterion: &mut Criterion, mirrors: u16) {
    let spec = Spec::parse(BY_STREAMS).expect("it is in the table");
    let mut group = group(criterion, BY_STREAMS, mirrors);
    for rotational in [true, false] {
        let kind = if rotational { "disks" } else { "flash" };
        for streams in STREAMS {
            let id = format!("{kind}, {streams} streams");
            measure_one(&mut group, id, &spec, mirrors, Load { streams, rotational });
        }
    }
    group.finish();
}

/// One row per policy: the medians, the bound at two mirrors, and a mark if it is exceeded.
fn report(columns: &[Vec<Samples>; 3]) -> String {
    let mut report = format!("{:<30}", "ns per decision, median");
    report += &MIRRORS.map(|mirrors| format!("{mirrors:>8}")).concat();
    report += " mirrors   bound at 2\n";
    for (row, spec) in specs().iter().enumerate() {
        let name = spec.to_string();
        let medians = columns.each_ref().map(|column| median(&column[row]));
        // Not selected, or run only once, as a test.
        let [Some(at_two), _, _] = medians else { continue };
        let is_plain = find(&name).is_some_and(|info| info.basis <= Basis::Queues);
        let bound_ns = if is_plain { PLAIN_BOUND_NS } else { BOUND_NS };
        let cells = medians.map(|cell| cell.map_or("-".into(), |cell| format!("{cell:.1}")));
        let mark = if at_two > bound_ns { "  EXCEEDED" } else { "" };
        report += &format!("{name:<30}");
        report += &cells.map(|cell| format!("{cell:>8}")).concat();
        report += &format!("{bound_ns:>20}{mark}\n");
    }
    report
}

/// The median, or `None` if there are too few samples.
fn median(samples: &Samples) -> Option<f64> {
    let mut sorted = samples.clone();
    sorted.sort_by(f64::total_cmp);
    (sorted.len() >= 10).then(|| sorted[sorted.len() / 2])
}
