//! Figures of disks whose answers are known in closed form, and every profile against its own.

use super::*;
use crate::delay::DelayParameters;
use crate::figure::Statistic;
use crate::model::{Model, ModelParameters};
use mirrorball_core::units::{MIB, Nanos};

fn delay(servers: u32, bandwidth: Option<u64>) -> Box<dyn Model> {
    let service = Nanos::from_millis(2);
    DelayParameters { service, servers, bandwidth }.build(1 << 40, 0)
}

fn measure(name: &str, model: &mut dyn Model) -> Observation {
    WorkloadRun::new(ModelWorkload::named(name).unwrap(), 1 << 40, Nanos::ZERO, 1).run(model)
}

/// The promise of the profiles: every published figure is met within its tolerance.
#[test]
fn every_builtin_does_what_its_sources_say() {
    let mut misses = Vec::new();
    for profile in ModelProfile::builtins() {
        for row in compare(&profile, 1).iter().filter(|row| !row.holds()) {
            let Expectation { workload, statistic, value, unit, tolerance, .. } = &row.expected;
            misses.push(format!(
                "{}: {}/{} is {:.1} {}, published {value} (tolerance {tolerance})",
                profile.name, workload.name, statistic.name, row.simulated, unit.name,
            ));
        }
    }
    assert!(misses.is_empty(), "{}", misses.join("\n"));
}

/// The rule for everyone: 10 %, tails 25 %. A row with a tolerance of its own says why.
#[test]
fn a_tolerance_of_its_own_is_explained() {
    for profile in ModelProfile::builtins() {
        for row in profile.expectations {
            let usual = row.statistic.tolerance;
            let what = format!("{}: {}/{}", profile.name, row.workload.name, row.statistic.name);
            assert!(row.tolerance <= usual || !row.note.is_empty(), "{what} has no note");
        }
    }
    for row in Statistic::all() {
        let tail = row.name.starts_with('p') && row.name != "p50";
        assert_eq!(row.tolerance, if tail { 0.25 } else { 0.1 }, "{}", row.name);
    }
}

#[test]
fn another_seed_gives_about_the_same_figures() {
    let profile = ModelProfile::builtin("hdd-7k2-desktop-worn").unwrap();
    let (one, other) = (compare(&profile, 1), compare(&profile, 2));
    assert!(one.iter().zip(&other).any(|(one, other)| one.simulated != other.simulated));
    for (one, other) in one.iter().zip(&other) {
        let ratio = one.simulated / other.simulated;
        assert!((0.75..1.33).contains(&ratio), "{}: {ratio}", one.expected.statistic.name);
    }
}

#[test]
fn a_published_distribution_is_met_within_its_demerit() {
    let profile = ModelProfile::builtin("hdd-7k2-desktop-worn").unwrap();
    let published = &profile.distributions[0];
    let seen = observe(&profile, published.workload, published.measured_at, 1);
    let figure = demerit(&published.quantiles, &seen.latencies);
    assert!(figure.fraction_of_mean < 0.05, "{figure:?}");
}

/// Closed forms of a fixed service time of 2 ms.
#[test]
fn the_loop_measures_what_a_delay_does() {
    let alone = measure("randread-qd1", delay(1, None).as_mut());
    assert_eq!(alone.latencies.max(), Some(Nanos::from_millis(2)));
    assert_eq!(alone.latencies.count(), 20_000);
    assert_eq!(alone.elapsed, Nanos::from_secs(40));
    let named = |name: &str| Statistic::all().iter().find(|row| row.name == name).unwrap();
    assert!((named("iops").read(&alone) - 500.0).abs() < 1e-9);
    assert!((named("mean").read(&alone) - 2e-3).abs() < 1e-12);
    let deep = measure("randread-qd32", delay(8, None).as_mut());
    assert!((named("iops").read(&deep) / 4000.0 - 1.0).abs() < 1e-3);
    assert!((named("p99").read(&deep) / 8e-3 - 1.0).abs() < 0.01);
    // 2 ms and a MiB at 1 GiB/s.
    let stream = measure("seqread-1m", delay(1, Some(1 << 30)).as_mut());
    let expected = (1 << 20) as f64 / (2e-3 + 1.0 / 1024.0);
    assert!((named("rate").read(&stream) / expected - 1.0).abs() < 1e-3);
    // A cycle of eight writes and a flush, one flush of which is measured.
    let flushes = measure("flush-after-8", delay(1, None).as_mut());
    assert!((named("iops").read(&flushes) - 500.0 / 9.0).abs() < 1e-6);
    assert_eq!(flushes.latencies.count(), 300);
    // With an fsync writer each read waits for one of the other's.
    let with_writer = measure("randread-with-fsync", delay(1, None).as_mut());
    assert!((named("mean").read(&with_writer) - 4e-3).abs() < 1e-6);
}

#[test]
fn workloads_cover_what_they_say() {
    let capacity = 1 << 40;
    let offsets = |name: &str, count: u64| -> Vec<u64> {
        let mut run =
            WorkloadRun::new(ModelWorkload::named(name).unwrap(), capacity, Nanos::ZERO, 1);
        (0..count).map(|tag| run.next_io(0, tag).offset).collect()
    };
    assert_eq!(offsets("seqread-1m", 3), [0, MIB, 2 * MIB]);
    let spread = offsets("seqread-spread", 65);
    assert_eq!((spread[63], spread[64]), (63 * MIB, capacity / 16));
    let random = offsets("randread-qd1", 1000);
    let mean = random.iter().sum::<u64>() / 1000;
    assert!(mean.abs_diff(capacity / 2) < capacity / 20, "over the whole disk: {mean}");
    assert!(random.iter().all(|offset| offset % 4096 == 0));
    for (index, row) in ModelWorkload::all().iter().enumerate() {
        let first = ModelWorkload::all().iter().position(|other| other.name == row.name);
        assert_eq!(first, Some(index), "{} is listed twice", row.name);
    }
}

#[test]
fn demerit_is_the_horizontal_distance() {
    let mut simulated = Histogram::default();
    for micros in 1..=1000 {
        simulated.record(Nanos::from_micros(micros));
    }
    let published = |shift: f64| -> Vec<(f64, f64)> {
        (1..20).map(|step| f64::from(step) / 20.0).map(|at| (at, at * 1e-3 + shift)).collect()
    };
    let same = demerit(&published(0.0), &simulated);
    assert!(same.root_mean_square < 5e-6, "within the bins: {same:?}");
    let shifted = demerit(&published(100e-6), &simulated);
    assert!((shifted.root_mean_square - 100e-6).abs() < 5e-6, "{shifted:?}");
    assert!((shifted.fraction_of_mean - 100.0 / 600.0).abs() < 0.01, "{shifted:?}");
    // A quantile that stands for a thousandth of the reads weighs a thousandth.
    let tail = [(0.5, 0.5e-3), (0.998, 0.998e-3), (0.999, 0.101)];
    let figure = demerit(&tail, &simulated).root_mean_square;
    let expected = (0.0015f64 * 0.1 * 0.1).sqrt();
    assert!((figure / expected - 1.0).abs() < 0.02, "{figure} {expected}");
}
