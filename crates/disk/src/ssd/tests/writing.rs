//! The write cache, amplification and flushes.

use super::*;

#[test]
fn the_cache_absorbs_a_burst_and_then_the_dies_set_the_pace() {
    let parameters = SsdParameters {
        write_amplification: 3.0,
        copy_read: Nanos(100_000),
        erase: Nanos(3_200_000),
        collection_burst: 16,
        ..plain()
    };
    let mut model = Ssd::new(&parameters, 1);
    let absorbed = 20_000 + 2_000 + 4_096;
    let run = closed_loop(&mut model, 1, 20_000, random_writes(1));
    // A unit of 16 KiB, copied twice: 400 + 2 x (100 + 400 + 3200 / 16) us on one of 8 dies.
    let unit_ns = 400_000.0 + 2.0 * (100_000.0 + 400_000.0 + 200_000.0);
    let expected = 8.0 * 4.0 * 1e9 / unit_ns;
    // A MiB holds 256 writes, and drains while they come.
    let first = run.waits_ns.iter().position(|&wait| wait > absorbed).unwrap();
    assert_near(first as f64, 256.0 / (1.0 - expected * absorbed as f64 / 1e9), 0.01);
    let late = &run.waits_ns[10_000..];
    let pace = late.len() as f64 * 1e9 / late.iter().sum::<u64>() as f64;
    assert_near(pace, expected, 0.01);
}

#[test]
fn amplification_slows_random_writes_alone() {
    for (waf, factor) in [(1.0, 1.0), (2.5, 2.5), (7.3, 7.3)] {
        let parameters = SsdParameters { write_amplification: waf, ..plain() };
        let bound = 8.0 * 16_384.0 / 400_000e-9;
        let mut model = Ssd::new(&parameters, 1);
        let run = closed_loop(&mut model, 32, 40_000, random_writes(1));
        assert_near(run.per_second() * 4_096.0, bound / factor, 0.03);
        let mut model = Ssd::new(&parameters, 1);
        let run = closed_loop(&mut model, 32, 40_000, |n| write(n, n * 4_096, 4_096));
        // The link takes as much time for a write as for a read: 2 us and a byte a nanosecond.
        assert_near(run.per_second() * 4_096.0, bound.min(4_096e9 / 6_096.0), 0.03);
    }
}

#[test]
fn the_dies_do_all_the_work_that_a_write_of_any_size_makes() {
    for size in [4_096, 16_384, 1 << 20, 8 << 20] {
        let parameters = SsdParameters {
            write_amplification: 4.0,
            collection_burst: 1,
            queue_depth: 4_096,
            ..plain()
        };
        let mut model = Ssd::new(&parameters, 1);
        for n in 0..(8 << 20) / size {
            // With a gap in between, so that each is a random write.
            model.submit(Nanos::ZERO, write(n, n * (size + 4_096), size));
        }
        // 512 units and three copies of each, on eight dies.
        let work_ns = 4 * 512 / 8 * 400_000;
        for die in 0..8 {
            let idle = |now| {
                let end = model.flash.read_end(now, ByteRange { offset: die << 14, length: 4_096 });
                end == Some(now + 54_096)
            };
            assert!(!idle(work_ns - 1_000), "die {die} has done too little, writes of {size}");
            assert!(idle(work_ns), "die {die} has too much to do, writes of {size}");
        }
    }
}

/// Random reads and writes in equal parts, 64 in flight.
fn mixed(model: &mut Ssd) -> Run {
    let mut rng = Rng::new(3);
    let mut writes = random_writes(1);
    closed_loop(model, 64, 60_000, |tag| {
        let io = writes(tag);
        if rng.below(2) == 0 { io } else { DiskIo { op: Op::Read, ..io } }
    })
}

#[test]
fn reads_take_time_from_the_writes_behind_them() {
    for dies in [1, 3, 8] {
        let run = mixed(&mut Ssd::new(&SsdParameters { dies, ..plain() }, 1));
        // Each pair holds dies for a read and a quarter of a program.
        let expected = 2.0 * f64::from(dies) * 1e9 / (54_096.0 + 100_000.0);
        assert_near(run.per_second(), expected, 0.05);
    }
}

/// The instant that admits writes is the one at which the dies have really done their work.
#[test]
fn the_account_of_the_cache_agrees_with_the_dies() {
    let parameters = SsdParameters {
        write_amplification: 3.0,
        copy_read: Nanos(100_000),
        erase: Nanos(3_000_000),
        suspend: Some(Nanos(20_000)),
        suspend_refused: 0.2,
        ..plain()
    };
    let mut model = Ssd::new(&parameters, 1);
    let end_ns = mixed(&mut model).end_ns;
    let mut done_ns = 0.0;
    for die in 0..8 {
        let range = ByteRange { offset: die << 14, length: 4_096 };
        let (mut busy, mut idle) = (end_ns, 2 * end_ns);
        while idle - busy > 1_000 {
            let middle = u64::midpoint(busy, idle);
            match model.flash.read_end(middle, range) == Some(middle + 54_096) {
                true => idle = middle,
                false => busy = middle,
            }
        }
        done_ns += idle as f64 / 8.0;
    }
    assert_near(model.writes.drained_at as f64, done_ns, 0.01);
}

#[test]
fn a_flush_with_protection_is_constant_and_free_when_clean() {
    let mut model = Ssd::new(&plain(), 1);
    assert_eq!(alone(&mut model, 0, flush(0)), 2_000, "nothing was written");
    for n in 1..50 {
        let now = n * 10_000_000;
        for write_number in 0..n {
            let at = now + write_number * 30_000;
            alone(&mut model, at, write(1, write_number << 20, 4_096));
        }
        assert_eq!(alone(&mut model, now + 5_000_000, flush(2)), 15_000 + 2_000);
        assert_eq!(alone(&mut model, now + 6_000_000, flush(3)), 2_000);
    }
}

#[test]
fn a_flush_without_protection_programs_what_is_cached() {
    let parameters = SsdParameters { power_loss_protection: false, ..plain() };
    let mut model = Ssd::new(&parameters, 1);
    let wait = alone(&mut model, 0, write(0, 0, 4_096));
    // The unit that is partly filled is closed and programmed.
    assert_eq!(alone(&mut model, wait, flush(1)), 400_000 + 15_000 + 2_000);
    // Twenty full units on eight dies, one begun: at most three programs one after another.
    let now = 100_000_000;
    let wait = alone(&mut model, now, write(0, 1 << 30, 20 * 16_384));
    assert_eq!(alone(&mut model, now + wait, flush(1)), 1_200_000 - wait + 15_000 + 2_000);
}

#[test]
fn on_sata_a_flush_runs_alone() {
    let parameters = SsdParameters { power_loss_protection: false, flush_alone: true, ..plain() };
    let read_ns = 50_000 + 4_096 + 10_000 + 6_096;
    for (parameters, alone_too) in [(plain(), false), (parameters, true)] {
        let mut model = Ssd::new(&parameters, 1);
        alone(&mut model, 0, write(9, 0, 4_096));
        let now = 1_000_000;
        // The write goes to some die; these reads, one before and one behind the flush, to others.
        model.submit(Nanos(now), read(0, 3 * 16_384, 4_096));
        model.submit(Nanos(now + 1_000), flush(1));
        model.submit(Nanos(now + 2_000), read(2, 5 * 16_384, 4_096));
        let ended = drain(&mut model);
        let at = |tag| ended.iter().find(|end| end.tag == tag).unwrap().at.0 - now;
        if alone_too {
            let flush_ns = 400_000 + 15_000 + 2_000;
            assert_eq!((at(0), at(1)), (read_ns, read_ns + flush_ns));
            let after = at(2) - at(1);
            assert!(after == read_ns, "{after} ns after the flush");
        } else {
            assert_eq!(at(1), 1_000 + 15_000 + 2_000);
            assert!(at(2) < 2_000 + 2 * read_ns);
        }
    }
}

#[test]
fn a_discard_is_cheap_and_programs_nothing() {
    let mut model = Ssd::new(&plain(), 1);
    let discard = DiskIo { tag: 0, op: Op::Discard, offset: 0, length: 1 << 40 };
    assert_eq!(alone(&mut model, 0, discard), 20_000 + 2_000);
    assert_eq!(alone(&mut model, 1_000_000, flush(1)), 2_000, "nothing to flush");
}
