//! Promises of every model, over random disks and loads.

use super::*;
use mirrorball_core::rng::Rng;
use proptest::prelude::*;

/// A disk drawn from everything that changes its paths.
fn any_disk() -> impl Strategy<Value = HddParameters> {
    let queue = (1usize..33, 1u64..400, 0u64..300, any::<bool>());
    let caches = (0u8..5, 0u64..2, 0u64..80, 1usize..20, 0u64..20, 0u64..10);
    let recovery = prop_oneof![Just(0.0), Just(0.2)];
    (queue, caches, recovery).prop_map(|(queue, caches, recovery_probability)| HddParameters {
        queue_depth: queue.0,
        age_limit: Nanos::from_millis(queue.1),
        command_overhead: Nanos::from_micros(queue.2),
        queued_flush: queue.3,
        segments: caches.0,
        read_ahead: caches.1 * 256 * KIB,
        write_cache: caches.2 * 4096,
        write_window: caches.3,
        idle_delay: Nanos::from_millis(caches.4),
        flush_overhead: Nanos::from_millis(caches.5),
        recovery_probability,
        recovery_min: Nanos::from_millis(3),
        recovery_max: Nanos::from_millis(50),
        zones: 3,
        inner_rate: RATE / 2,
        write_settle: Nanos::from_micros(500),
        ..plain()
    })
}

/// A load of all operations, partly in sequence, some at once and some after a pause.
fn any_load(seed: u64, count: u64) -> Vec<(Nanos, DiskIo)> {
    let mut rng = Rng::new(seed);
    let (mut at, mut end) = (Nanos::ZERO, 0);
    let operations = [Op::Read, Op::Read, Op::Read, Op::Write, Op::Write, Op::Flush, Op::Discard];
    let load = (0..count).map(|tag| {
        let op = operations[rng.below(7) as usize];
        let length = if op == Op::Flush { 0 } else { 4096 << rng.below(9) };
        let sequential = rng.below(2) == 0 && end + length <= CAPACITY;
        let offset = if sequential { end } else { rng.below(CAPACITY / (2 << 20)) * (2 << 20) };
        end = offset + length;
        if rng.below(3) == 0 {
            at += Nanos(rng.below(40_000_000));
        }
        (at, DiskIo { tag, op, offset, length })
    });
    load.collect()
}

/// Drives a disk through a load as the trait demands; returns the completions.
fn drive(disk: &mut Hdd, load: &[(Nanos, DiskIo)]) -> Vec<Completion> {
    let mut completions = Vec::new();
    for &(at, io) in load {
        while let Some(event) = disk.next_event().filter(|&event| event <= at) {
            disk.advance(event, &mut completions);
        }
        disk.submit(at, io);
        assert!(disk.next_event().is_none_or(|event| event >= at), "an event in the past");
    }
    let mut last = Nanos::ZERO;
    while let Some(event) = disk.next_event() {
        assert!(event >= last, "events go back from {last} to {event}");
        last = event;
        disk.advance(event, &mut completions);
    }
    completions
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_io_ends_once_in_order_and_not_too_early(parameters in any_disk(), seed: u64) {
        let load = any_load(seed, 150);
        let ends = drive(&mut Hdd::new(&parameters, CAPACITY, seed), &load);
        prop_assert!(ends.is_sorted_by_key(|end| end.at), "out of order");
        let mut tags: Vec<u64> = ends.iter().map(|end| end.tag).collect();
        tags.sort_unstable();
        prop_assert_eq!(tags, (0..150).collect::<Vec<u64>>());
        for end in &ends {
            let (submitted_at, io) = load[end.tag as usize];
            let least = match io.op {
                Op::Read | Op::Write => Nanos::transfer(io.length, parameters.interface_rate),
                Op::Flush | Op::Discard => Nanos::ZERO,
            };
            // Commands are through their overhead and their data through the interface, which the
            // disk may begin to send while the head still reads.
            prop_assert!(end.at >= submitted_at + parameters.command_overhead.max(least));
            prop_assert!(end.result.is_ok());
        }
    }

    #[test]
    fn a_flush_ends_after_the_writes_before_it(parameters in any_disk(), seed: u64) {
        let load = any_load(seed, 150);
        let mut disk = Hdd::new(&parameters, CAPACITY, seed);
        let ends = drive(&mut disk, &load);
        let end_of = |tag: u64| ends.iter().find(|end| end.tag == tag).expect("it ended").at;
        if !parameters.queued_flush {
            for (_, flush) in load.iter().filter(|(_, io)| io.op == Op::Flush) {
                for tag in 0..flush.tag {
                    prop_assert!(end_of(tag) <= end_of(flush.tag), "{tag} ended after the flush");
                }
            }
        }
    }

    #[test]
    fn what_is_foreseen_happens(parameters in any_disk(), seed: u64, pause in 0u64..30) {
        let load = any_load(seed, 60);
        let mut disk = Hdd::new(&parameters, CAPACITY, seed);
        let mut completions = Vec::new();
        for &(at, io) in &load[..59] {
            disk.advance(at, &mut completions);
            disk.submit(at, io);
        }
        let (at, io) = (load[58].0 + Nanos::from_millis(pause), load[59].1);
        disk.advance(at, &mut completions);
        let before = disk.clone();
        let foreseen = disk.completion_if_submitted(at, io);
        disk.submit(at, io);
        let ends = drive(&mut disk, &[]);
        let end = ends.iter().find(|end| end.tag == io.tag).expect("it ended");
        prop_assert_eq!(foreseen, end.at);
        prop_assert_eq!(drive(&mut before.clone(), &[]).len() + 1, ends.len());
    }

    /// Advancing in several steps or in one gives the same completions.
    #[test]
    fn advancing_in_one_leap_ends_everything_at_the_same_times(
        parameters in any_disk(),
        seed: u64,
    ) {
        let load = any_load(seed, 80);
        let steps = drive(&mut Hdd::new(&parameters, CAPACITY, seed), &load);
        let mut disk = Hdd::new(&parameters, CAPACITY, seed);
        let mut leaps = Vec::new();
        for &(at, io) in &load {
            disk.advance(at, &mut leaps);
            disk.submit(at, io);
        }
        disk.advance(Nanos::from_secs(1000), &mut leaps);
        prop_assert_eq!(steps, leaps);
    }
}

#[test]
fn seeds_differ() {
    let load = any_load(1, 20);
    let run = |seed| drive(&mut Hdd::new(&plain(), CAPACITY, seed), &load);
    assert_ne!(run(1), run(2));
}
