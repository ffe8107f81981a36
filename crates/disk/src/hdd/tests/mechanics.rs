//! Seek, rotation, zones and the choice of the next command.

use super::super::SeekPoint;
use super::super::geometry::Geometry;
use super::super::seek::{SeekTable, seek_ns};
use super::*;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::MIB;

const CYLINDERS: u32 = 30_000;

/// Mean of the compiled curve over random pairs of cylinders, in nanoseconds.
fn mean_seek(parameters: &HddParameters) -> f64 {
    let table = SeekTable::new(parameters, CYLINDERS, 1.0);
    let mut rng = Rng::new(3);
    let mut cylinder = || rng.below(u64::from(CYLINDERS)) as u32;
    let total: u64 =
        (0..100_000).map(|_| u64::from(table.time(cylinder().abs_diff(cylinder())))).sum();
    total as f64 / 100_000.0
}

#[test]
fn seek_formulas_keep_their_endpoints_and_mean() {
    let root = plain();
    let lee = HddParameters { seek_full: Some(Nanos::from_millis(17)), ..plain() };
    // 1 ms + 8 ms * 15 / 8 for the root alone.
    for (parameters, full_ns) in [(root, 16e6), (lee, 17e6)] {
        let table = SeekTable::new(&parameters, CYLINDERS, 1.0);
        assert_eq!(table.time(0), 1_000_000, "a head switch");
        assert_eq!(table.time(1), 1_000_000, "one track");
        assert!(close(f64::from(table.time(CYLINDERS - 1)), full_ns, 0.001));
        assert!(close(mean_seek(&parameters), 9e6, 0.01), "{}", mean_seek(&parameters));
        assert!((1..CYLINDERS).all(|distance| table.time(distance - 1) <= table.time(distance)));
    }
}

/// The curve of WD's G4 in WD's DiskSim, whose mean over random pairs is 7.45 ms: seven of its
/// 1792 points keep the mean.
#[test]
fn a_measured_curve_is_followed() {
    let points = [
        (0.001, 1_500),
        (0.01, 2_550),
        (0.1, 4_840),
        (1.0 / 3.0, 7_800),
        (0.5, 9_400),
        (1.0, 14_200),
    ];
    let seek_points = points.map(|(at, micros)| SeekPoint(at, Nanos::from_micros(micros))).to_vec();
    let parameters = HddParameters { seek_points, seek_average: None, ..plain() };
    assert!(close(mean_seek(&parameters), 7.45e6, 0.02), "{}", mean_seek(&parameters));
    let table = SeekTable::new(&parameters, CYLINDERS, 1.0);
    for (at, micros) in points {
        let distance = (at * f64::from(CYLINDERS)) as u32;
        assert!(close(f64::from(table.time(distance)), micros as f64 * 1e3, 0.01), "{at}");
    }
}

#[test]
fn interpolation_stays_near_the_curve() {
    let parameters = plain();
    let table = SeekTable::new(&parameters, CYLINDERS, 1.0);
    for distance in 1..CYLINDERS {
        let exact = seek_ns(&parameters, f64::from(distance), f64::from(CYLINDERS));
        assert!(close(f64::from(table.time(distance)), exact, 0.002), "{distance}");
    }
}

#[test]
fn the_layout_is_contiguous_and_ends_meet_starts() {
    let zoned = HddParameters { zones: 7, inner_rate: RATE / 2, ..plain() };
    let geometry = Geometry::new(&zoned, CAPACITY);
    let mut rng = Rng::new(5);
    for _ in 0..20_000 {
        let offset = rng.below(CAPACITY / 4096 - 1) * 4096;
        let length = 4096 * (1 + rng.below(1000)).min((CAPACITY - 4096 - offset) / 4096);
        let extent = geometry.extent(offset, length);
        let next = geometry.extent(offset + length, 4096);
        let gap = next.start.position - extent.end.position;
        assert!(gap <= geometry.widest_gap(), "{offset} + {length}: {gap}");
        assert!(extent.end.position > extent.start.position);
        assert!(next.start.cylinder - extent.start.cylinder <= 2 + (length / MIB) as u32);
        assert!(next.start.cylinder < geometry.cylinders());
    }
    geometry.extent(CAPACITY - 4096, 4096);
}

#[test]
fn the_same_sector_comes_round_once_a_revolution() {
    for overhead in [0, 2_500_000] {
        let mut bench = Bench::new(&HddParameters { command_overhead: Nanos(overhead), ..plain() });
        bench.read(77 * MIB, 4096);
        for _ in 0..100 {
            let took = bench.read(77 * MIB, 4096).0;
            assert!(took.abs_diff(REVOLUTION) <= 2, "{took}");
        }
    }
}

#[test]
fn the_spindle_starts_at_an_angle_of_its_own() {
    let first_read = |seed| {
        let mut disk = Hdd::new(&plain(), CAPACITY, seed);
        disk.submit(Nanos::ZERO, DiskIo { tag: 0, op: Op::Read, offset: 0, length: 512 });
        disk.next_event().expect("a read is in flight").0
    };
    let mean = (0..1000).map(first_read).sum::<u64>() / 1000;
    assert!(mean.abs_diff(REVOLUTION / 2) < REVOLUTION / 20, "{mean}");
}

#[test]
fn a_random_read_costs_seek_rotation_and_transfer() {
    let parameters = HddParameters { command_overhead: Nanos::from_micros(300), ..plain() };
    let per_second = Bench::new(&parameters).saturate(1, 20_000, scattered(Op::Read, 1));
    // 9 ms seek, 5 ms half a revolution, 41 us for 4 KiB of a track that passes in 10 ms.
    let expected = 0.3 + 9.0 + 5.0 + 0.04;
    assert!(close(1e3 / per_second, expected, 0.015), "{}", 1e3 / per_second);
}

#[test]
fn a_write_settles_longer_after_a_seek() {
    let parameters = HddParameters { write_settle: Nanos::from_millis(2), ..plain() };
    let reads = Bench::new(&parameters).saturate(1, 10_000, scattered(Op::Read, 1));
    let writes = Bench::new(&parameters).saturate(1, 10_000, scattered(Op::Write, 1));
    assert!(close(1e3 / writes - 1e3 / reads, 2.0, 0.05), "{reads} {writes}");
}

#[test]
fn a_stream_runs_at_the_rate_of_its_zone_and_loses_no_revolution() {
    let zones = 5;
    let zoned = HddParameters { zones, inner_rate: RATE / 2, segments: 4, ..plain() };
    // Zones are whole cylinders, so they start some megabytes beyond what their rates say.
    let (mut offset, length) = (64 * MIB, 256 * KIB);
    for zone in 0..u64::from(zones) {
        let rate = RATE as f64 * (1.0 - 0.125 * zone as f64);
        let mut bench = Bench::new(&zoned);
        bench.read(offset, length);
        let start = bench.now;
        for step in 1..=400 {
            bench.read(offset + step * length, length);
        }
        let seen = (400 * length) as f64 / (bench.now - start).as_secs_f64();
        assert!(close(seen, rate, 0.005), "zone {zone}: {seen} for {rate}");
        // Equal cylinders, so zones hold bytes in proportion to their rates: 8, 7, 6, 5, 4 of 30.
        offset += CAPACITY / 30 * (8 - zone);
    }
}

#[test]
fn queued_writes_in_sequence_run_at_the_rate_of_the_zone() {
    let parameters = HddParameters {
        write_settle: Nanos::from_millis(1),
        command_overhead: Nanos::from_micros(100),
        ..plain()
    };
    let draw = |tag| DiskIo { tag, op: Op::Write, offset: tag * MIB, length: MIB };
    let per_second = Bench::new(&parameters).saturate(2, 300, draw);
    assert!(close(per_second * MIB as f64, RATE as f64, 0.01), "{per_second}");
    // One at a time, each comes too late for the sector that follows.
    let alone = Bench::new(&parameters).saturate(1, 300, draw);
    assert!(alone < 0.6 * per_second, "{alone} {per_second}");
}

/// The pieces of a request to a far layout come at once: they are read in their order, also when
/// others wait and the head has followed the stream for two revolutions.
#[test]
fn pieces_that_come_at_once_lose_no_revolution() {
    let mut bench = Bench::new(&plain());
    bench.read(0, MIB);
    let start = bench.now;
    let tags: Vec<u64> = (1..=12).map(|piece| bench.submit(Op::Read, piece * MIB, MIB)).collect();
    let ended: Vec<u64> = bench.drain().iter().map(|completion| completion.tag).collect();
    assert_eq!(ended, tags);
    let rate = (12 * MIB) as f64 / (bench.now - start).as_secs_f64();
    assert!(close(rate, RATE as f64, 0.01), "{rate}");
}

#[test]
fn choosing_the_nearest_beats_taking_turns() {
    let rate_of = |queue_depth| {
        let parameters = HddParameters { queue_depth, ..plain() };
        Bench::new(&parameters).saturate(32, 5_000, scattered(Op::Read, 1))
    };
    let rates = [1, 4, 16, 32].map(rate_of);
    assert!(rates.is_sorted(), "{rates:?}");
    assert!(rates[3] > 2.0 * rates[0], "{rates:?}");
    // Depth one serves in order of arrival, whatever is in flight.
    let alone = Bench::new(&plain()).saturate(1, 5_000, scattered(Op::Read, 1));
    assert!(close(rates[0], alone, 0.03), "{} {alone}", rates[0]);
}

/// One read at the far end of the disk while reads at the near end never cease.
fn wait_at_the_far_end(age_limit: Nanos) -> Nanos {
    let mut bench = Bench::new(&HddParameters { age_limit, ..plain() });
    let mut rng = Rng::new(9);
    for _ in 0..8 {
        bench.submit(Op::Read, rng.below(1000) * 4096, 4096);
    }
    let far = bench.submit(Op::Read, CAPACITY - 4096, 4096);
    for _ in 0..2_000 {
        let completion = bench.next();
        if completion.tag == far {
            return completion.at;
        }
        bench.submit(Op::Read, rng.below(1000) * 4096, 4096);
    }
    Nanos::MAX
}

#[test]
fn the_age_limit_holds() {
    let limit = Nanos::from_millis(200);
    let waited = wait_at_the_far_end(limit);
    // The limit, one access that was under way, a full seek, and a revolution.
    assert!(waited > limit && waited < limit + Nanos::from_millis(40), "{waited}");
    assert!(wait_at_the_far_end(Nanos::from_secs(1000)) > limit * 5, "else this proves nothing");
}

#[test]
fn recoveries_are_whole_revolutions_and_spare_streams() {
    let recovery = HddParameters {
        recovery_probability: 1.0,
        recovery_min: Nanos::from_millis(95),
        recovery_max: Nanos::from_millis(105),
        segments: 4,
        ..plain()
    };
    let (mut with, mut without) =
        (Bench::new(&recovery), Bench::new(&HddParameters { segments: 4, ..plain() }));
    let extra = with.read(GIB, 4096) - without.read(GIB, 4096);
    assert!([100_000_000, 110_000_000].contains(&extra.0), "{extra}");
    for step in 1..100 {
        let took = with.read(GIB + step * 4096, 4096);
        assert!(took < Nanos::from_millis(5), "read {step} of a stream took {took}");
    }
}
