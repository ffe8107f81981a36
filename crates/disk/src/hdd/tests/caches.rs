//! Reading ahead: streams, skips, thrashing, and what an idle disk has read.

use super::*;
use mirrorball_core::units::MIB;

fn reading_ahead() -> HddParameters {
    HddParameters { segments: 8, read_ahead: 512 * KIB, ..plain() }
}

/// The next read of a stream that starts in a part of the disk of its own.
struct Streams {
    count: u64,
    steps: Vec<u64>,
}

impl Streams {
    const READ: u64 = 64 * KIB;

    fn new(count: u64) -> Streams {
        Streams { count, steps: vec![0; count as usize] }
    }

    fn next(&mut self, stream: u64) -> DiskIo {
        let step = &mut self.steps[stream as usize];
        *step += 1;
        let offset = stream * (CAPACITY / self.count / MIB * MIB) + *step * Streams::READ;
        DiskIo { tag: stream, op: Op::Read, offset, length: Streams::READ }
    }
}

/// Bytes per second of one reader who takes turns among a number of streams.
fn rate_of_turns(count: u64) -> f64 {
    let mut streams = Streams::new(count);
    let draw = |number: u64| streams.next(number % count);
    Bench::new(&reading_ahead()).saturate(1, 1500, draw) * Streams::READ as f64
}

#[test]
fn taking_turns_among_more_streams_than_segments_thrashes() {
    let rates = [1, 2, 4, 8, 16, 32, 64].map(rate_of_turns);
    assert!(close(rates[0], RATE as f64, 0.02), "one stream: {rates:?}");
    for sharing in &rates[1..4] {
        assert!(*sharing > 0.2 * RATE as f64, "up to 8 streams keep their segments: {rates:?}");
    }
    for thrashing in &rates[4..] {
        assert!(*thrashing < 0.25 * rates[3], "more lose what was read ahead: {rates:?}");
    }
}

#[test]
fn readers_of_streams_share_the_disk() {
    // Sixteen lose what was read ahead of them, which is a third of each turn.
    for (count, least) in [(2, 0.5), (4, 0.5), (16, 0.3)] {
        let mut streams = Streams::new(count);
        let mut bench = Bench::new(&reading_ahead());
        for stream in 0..count {
            bench.disk.submit(Nanos::ZERO, streams.next(stream));
        }
        let mut completions = Vec::new();
        while bench.now < Nanos::from_secs(10) {
            bench.now = bench.disk.next_event().expect("reads are in flight");
            bench.disk.advance(bench.now, &mut completions);
            for end in completions.drain(..) {
                bench.disk.submit(bench.now, streams.next(end.tag));
            }
        }
        let total = streams.steps.iter().sum::<u64>();
        let rate = (total * Streams::READ) as f64 / 10.0;
        assert!(rate > least * RATE as f64, "{count} streams run at {rate}");
        for steps in &streams.steps {
            assert!(close(*steps as f64, (total / count) as f64, 0.4), "{:?}", streams.steps);
        }
    }
}

#[test]
fn a_skip_costs_what_passes_under_the_head() {
    let mut bench = Bench::new(&reading_ahead());
    bench.read(0, 64 * KIB);
    let start = bench.now;
    for step in 1..=200 {
        bench.read(step * 128 * KIB, 64 * KIB);
    }
    let rate = (200 * 64 * KIB) as f64 / (bench.now - start).as_secs_f64();
    assert!(close(rate, RATE as f64 / 2.0, 0.02), "half of what passes is read: {rate}");
}

#[test]
fn a_disk_left_alone_reads_ahead_until_the_segment_is_full() {
    let mut bench = Bench::new(&reading_ahead());
    let length = 64 * KIB;
    bench.read(0, length);
    bench.rest(Nanos::from_secs(1));
    let transfer = Nanos::transfer(length, 1_000_000_000);
    // Sixteen fit, less what rounding and the switches of tracks take.
    for step in 1..=15 {
        assert_eq!(bench.read(step * length, length), transfer, "read {step} is in the segment");
    }
    // The head stopped where the segment was full, and has to wait for that place again.
    let mut bench = Bench::new(&reading_ahead());
    bench.read(0, length);
    bench.rest(Nanos::from_secs(1));
    assert!(bench.read(18 * length, length) > transfer * 4);
}

#[test]
fn a_read_behind_the_head_waits_for_it_and_no_longer() {
    let mut bench = Bench::new(&reading_ahead());
    bench.read(0, 64 * KIB);
    let passed_at = bench.now;
    bench.rest(Nanos::from_micros(200));
    bench.submit(Op::Read, 64 * KIB, 256 * KIB);
    let took = (bench.next().at - passed_at).as_secs_f64();
    // A quarter MiB at the raw rate of the track: faster than the sustained by the switches.
    assert!(close(took, 256.0 * 1024.0 / 1.1 / RATE as f64, 0.01), "{took}");
}

#[test]
fn what_was_read_ahead_is_kept_when_the_head_leaves() {
    let mut bench = Bench::new(&reading_ahead());
    bench.read(0, 64 * KIB);
    bench.rest(Nanos::from_millis(5));
    bench.read(50 * GIB, 4096);
    let transfer = Nanos::transfer(64 * KIB, 1_000_000_000);
    assert_eq!(bench.read(64 * KIB, 64 * KIB), transfer);
    bench.write(0, 4096);
    assert!(bench.read(64 * KIB, 64 * KIB) > transfer, "a write in the segment drops it");
}

#[test]
fn without_segments_nothing_is_kept() {
    let mut bench = Bench::new(&plain());
    bench.read(0, 64 * KIB);
    bench.rest(Nanos::from_millis(5));
    assert!(bench.read(0, 64 * KIB) > Nanos::transfer(64 * KIB, RATE));
}

#[test]
fn a_queued_stream_is_served_in_order() {
    let mut bench = Bench::new(&reading_ahead());
    bench.submit(Op::Read, 50 * GIB, 4096);
    let tags: Vec<u64> =
        (0..8).map(|step| bench.submit(Op::Read, step * 128 * KIB, 128 * KIB)).collect();
    let order: Vec<u64> = bench.drain().iter().map(|completion| completion.tag).collect();
    let stream: Vec<u64> = order.into_iter().filter(|tag| tags.contains(tag)).collect();
    assert_eq!(stream, tags);
}
