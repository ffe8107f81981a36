//! The write-back cache, flushes, and who has to wait for them.

use super::*;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::MIB;

const CACHE_WRITES: u64 = 64;

/// A disk that caches 64 writes of 4 KiB.
fn caching() -> HddParameters {
    HddParameters {
        write_cache: CACHE_WRITES * 4096,
        command_overhead: Nanos::from_micros(100),
        ..plain()
    }
}

/// Cost of a cached write: overhead and transfer.
fn cached() -> Nanos {
    Nanos::from_micros(100) + Nanos::transfer(4096, 1_000_000_000)
}

fn write_scattered(bench: &mut Bench, count: u64, seed: u64) -> Vec<Nanos> {
    let mut draw = scattered(Op::Write, seed);
    (0..count).map(|tag| bench.write(draw(tag).offset, 4096)).collect()
}

#[test]
fn the_cache_absorbs_then_throttles_and_empties_when_idle() {
    let mut bench = Bench::new(&caching());
    let waits = write_scattered(&mut bench, 1000, 1);
    assert!(waits[..CACHE_WRITES as usize].iter().all(|&wait| wait == cached()), "{waits:?}");
    let rest = &waits[200..];
    let mean = rest.iter().map(|wait| wait.0).sum::<u64>() / rest.len() as u64;
    let alone = 1e9 / Bench::new(&plain()).saturate(1, 2_000, scattered(Op::Write, 1));
    let window = 1e9 / Bench::new(&plain()).saturate(16, 2_000, scattered(Op::Write, 1));
    assert!(close(mean as f64, window, 0.1), "{mean} for the rate of a queue of 16, {window}");
    assert!((mean as f64) < 0.7 * alone, "and faster than without a cache, {alone}");
    bench.rest(Nanos::from_secs(2));
    let waits = write_scattered(&mut bench, CACHE_WRITES, 2);
    assert!(waits.iter().all(|&wait| wait == cached()), "an idle disk has written all back");
}

#[test]
fn room_comes_when_a_write_back_ends_and_not_before() {
    let mut bench = Bench::new(&HddParameters { queue_depth: 256, ..caching() });
    let mut draw = scattered(Op::Write, 3);
    for _ in 0..CACHE_WRITES + 8 {
        bench.submit(Op::Write, draw(0).offset, 4096);
    }
    let ends: Vec<Nanos> = bench.drain().iter().map(|end| end.at).collect();
    let (at_once, later) = ends.split_at(CACHE_WRITES as usize);
    assert!(at_once.windows(2).all(|pair| pair[1] - pair[0] == Nanos(4096)), "{at_once:?}");
    let room_at = later[0] - Nanos(4096);
    assert!(room_at > at_once[0] + Nanos::from_millis(1), "when the first is on the medium");
    for pair in later.windows(2) {
        assert!(pair[1] - pair[0] > Nanos(100_000), "one at a time from there: {later:?}");
    }
}

#[test]
fn an_idle_disk_writes_back_only_after_its_delay() {
    let parameters = HddParameters { idle_delay: Nanos::from_millis(100), ..caching() };
    let mut bench = Bench::new(&parameters);
    bench.read(GIB, 4096);
    write_scattered(&mut bench, 10, 1);
    bench.rest(Nanos::from_millis(50));
    let start = bench.now;
    bench.run(Op::Flush, 0, 0);
    let undisturbed = bench.now - start;
    assert!(undisturbed > Nanos::from_millis(60), "all ten are still to be written: {undisturbed}");
}

#[test]
fn a_stream_of_writes_runs_at_media_rate_in_blocks_larger_than_the_cache() {
    for (cache, length) in [(MIB, MIB), (MIB, 4 * MIB), (64 * MIB, MIB)] {
        let parameters = HddParameters { write_cache: cache, ..caching() };
        let draw = move |tag| DiskIo { tag, op: Op::Write, offset: tag * length, length };
        let mut bench = Bench::new(&parameters);
        bench.saturate(2, 100, draw);
        let rate = bench.saturate(2, 400, move |tag| draw(tag + 102)) * length as f64;
        assert!(close(rate, RATE as f64, 0.03), "{cache} {length}: {rate}");
    }
}

#[test]
fn a_flush_takes_as_long_as_writing_everything_back() {
    for count in [1, 8, CACHE_WRITES] {
        let mut total = Nanos::ZERO;
        for seed in 0..20 {
            let mut bench = Bench::new(&HddParameters { write_window: 1, ..caching() });
            let start = bench.now;
            write_scattered(&mut bench, count, seed);
            bench.run(Op::Flush, 0, 0);
            total += bench.now - start;
        }
        // In order of arrival each costs 9 ms of seek and 5 ms of rotation.
        let each = total.as_secs_f64() / 20.0 / count as f64;
        assert!(close(each, 14e-3, if count == 1 { 0.2 } else { 0.08 }), "{count}: {each}");
    }
}

#[test]
fn a_flush_with_nothing_to_do_costs_its_overhead() {
    let parameters = HddParameters { flush_overhead: Nanos::from_millis(30), ..caching() };
    let mut bench = Bench::new(&parameters);
    assert_eq!(bench.run(Op::Flush, 0, 0), Nanos::from_micros(100));
    bench.write(GIB, 4096);
    bench.rest(Nanos::from_secs(1));
    let written_back = bench.run(Op::Flush, 0, 0);
    assert_eq!(written_back, Nanos::from_micros(30_100), "the disk's own part of a flush");
    assert_eq!(bench.run(Op::Flush, 0, 0), Nanos::from_micros(100));
    assert_eq!(bench.run(Op::Discard, GIB, 4096), Nanos::from_micros(100));
    let mut through = Bench::new(&plain());
    through.write(GIB, 4096);
    assert_eq!(through.run(Op::Flush, 0, 0), Nanos::ZERO, "write-through is always durable");
}

/// How long a read waits that is submitted just behind a flush of twenty writes, and the flush.
fn read_behind_flush(queued_flush: bool) -> (Nanos, Nanos) {
    let mut bench = Bench::new(&HddParameters { queued_flush, ..caching() });
    write_scattered(&mut bench, 20, 4);
    let start = bench.now;
    let flush = bench.submit(Op::Flush, 0, 0);
    let read = bench.submit(Op::Read, 30 * GIB, 4096);
    let ends = bench.drain();
    let wait = |tag| ends.iter().find(|end| end.tag == tag).expect("it ended").at - start;
    (wait(read), wait(flush))
}

#[test]
fn a_sata_flush_holds_up_what_follows_and_a_queued_one_does_not() {
    let (read, flush) = read_behind_flush(false);
    assert!(read > flush, "{read} {flush}");
    let (read, flush) = read_behind_flush(true);
    assert!(read < flush, "{read} {flush}");
}

#[test]
fn a_flush_covers_what_was_acknowledged_before_it_and_no_more() {
    let mut bench = Bench::new(&HddParameters { queued_flush: true, ..caching() });
    write_scattered(&mut bench, 4, 1);
    let flush = bench.submit(Op::Flush, 0, 0);
    let mut draw = scattered(Op::Write, 2);
    for _ in 0..28 {
        bench.submit(Op::Write, draw(0).offset, 4096);
    }
    let ends = bench.drain();
    let end = ends.iter().find(|end| end.tag == flush).expect("it ended");
    assert!(end.at < Nanos::from_millis(250), "not the later writes' 200 ms too: {}", end.at);
    assert!(end.at > Nanos::from_millis(20), "{}", end.at);
}

#[test]
fn readers_do_not_starve_a_full_cache_nor_a_queued_flush() {
    let age_limit = Nanos::from_millis(300);
    let mut bench = Bench::new(&HddParameters { queued_flush: true, age_limit, ..caching() });
    let mut rng = Rng::new(8);
    write_scattered(&mut bench, CACHE_WRITES, 1);
    for _ in 0..16 {
        bench.submit(Op::Read, rng.below(CAPACITY / 4096) * 4096, 4096);
    }
    let (write, flush) = (bench.submit(Op::Write, GIB, 4096), bench.submit(Op::Flush, 0, 0));
    let start = bench.now;
    let (mut waits, mut completions) = ((None, None), Vec::new());
    while waits.0.is_none() || waits.1.is_none() {
        bench.now = bench.disk.next_event().expect("reads are in flight");
        assert!(bench.now < Nanos::from_secs(20), "{waits:?}");
        bench.disk.advance(bench.now, &mut completions);
        for end in std::mem::take(&mut completions) {
            match end.tag {
                tag if tag == write => waits.0 = Some(end.at - start),
                tag if tag == flush => waits.1 = Some(end.at - start),
                _ => drop(bench.submit(Op::Read, rng.below(CAPACITY / 4096) * 4096, 4096)),
            }
        }
    }
    let (write, flush) = (waits.0.expect("it ended"), waits.1.expect("it ended"));
    // Past the limit the disk only writes back: 65 writes of 14 ms at most.
    assert!(write < age_limit + Nanos::from_millis(100), "{write}");
    assert!(flush < age_limit + Nanos::from_millis(1000), "{flush}");
}
