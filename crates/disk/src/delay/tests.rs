//! The closed forms of the delay model, exact to the nanosecond.

use super::*;
use crate::model::foresee;
use mirrorball_core::rng::Rng;
use proptest::prelude::*;

const MILLI: u64 = 1_000_000;

fn delay(service_ms: u64, servers: u32, bandwidth: Option<u64>) -> Delay {
    let service = Nanos::from_millis(service_ms);
    Delay::new(DelayParameters { servers, bandwidth, ..DelayParameters::new(service) })
}

fn read(tag: u64, length: u64) -> DiskIo {
    DiskIo { tag, op: Op::Read, offset: tag << 20, length }
}

/// Keeps `depth` reads in flight for `count` completions; returns them with their latencies.
fn closed_loop(model: &mut Delay, depth: u64, count: usize) -> Vec<(Completion, Nanos)> {
    let mut submitted = Vec::new();
    let mut ended = Vec::new();
    let mut fresh = Vec::new();
    for tag in 0..depth {
        model.submit(Nanos::ZERO, read(tag, 4096));
        submitted.push(Nanos::ZERO);
    }
    while ended.len() < count {
        let now = model.next_event().unwrap();
        model.advance(now, &mut fresh);
        for completion in fresh.drain(..) {
            assert_eq!(completion.at, now);
            ended.push((completion, now - submitted[completion.tag as usize]));
            model.submit(now, read(submitted.len() as u64, 4096));
            submitted.push(now);
        }
    }
    ended
}

#[test]
fn throughput_and_latency_at_every_depth() {
    for (servers, depth) in [(1, 1), (1, 8), (4, 1), (4, 4), (4, 6), (4, 32), (7, 3)] {
        let mut model = delay(2, servers, None);
        let count = 8400;
        let ended = closed_loop(&mut model, depth, count);
        let busy = u64::from(servers).min(depth);
        // Servers in step complete `busy` reads every 2 ms.
        let last = ended[count - 1].0.at;
        assert_eq!(last, Nanos::from_millis(2 * (count as u64).div_ceil(busy)));
        let waits: u64 = ended[count / 2..].iter().map(|(_, wait)| wait.0).sum();
        let mean_ms = waits as f64 / (count / 2) as f64 / MILLI as f64;
        let expected_ms = 2.0 * depth as f64 / busy as f64;
        assert!((mean_ms - expected_ms).abs() < 0.01, "c={servers} q={depth}: {mean_ms} ms");
    }
}

/// D/D/1 with utilisation 1/2 never waits; with utilisation 2 the n-th waits n service times less
/// n arrivals; D/D/3 at utilisation 2/3 never waits.
#[test]
fn regular_arrivals() {
    for (servers, interval_ms) in [(1, 4), (1, 1), (3, 1)] {
        let mut model = delay(2, servers, None);
        for n in 0..100 {
            let now = Nanos::from_millis(n * interval_ms);
            let backlog_ms = match (servers, interval_ms) {
                (1, 1) => n,
                _ => 0,
            };
            let expected = now + Nanos::from_millis(2 + backlog_ms);
            assert_eq!(model.completion_if_submitted(now, read(n, 4096)), expected);
            model.submit(now, read(n, 4096));
        }
    }
}

#[test]
fn bandwidth_adds_to_the_service_time_of_data_only() {
    let mut model = delay(1, 1, Some(100_000_000));
    let ios = [(Op::Read, 100_000), (Op::Write, 200_000), (Op::Flush, 0), (Op::Discard, 1 << 30)];
    for (tag, (op, length)) in ios.into_iter().enumerate() {
        model.submit(Nanos::ZERO, DiskIo { tag: tag as u64, op, offset: 0, length });
    }
    let mut ended = Vec::new();
    model.advance(Nanos::MAX, &mut ended);
    let at_ms: Vec<u64> = ended.iter().map(|completion| completion.at.0 / MILLI).collect();
    assert_eq!(at_ms, [2, 5, 6, 7]);
}

/// Holding times of 5 and 1 ms alternate on two servers that take what comes first: completions
/// overtake and are handed out in order of time.
#[test]
fn a_mixture_of_lengths_overtakes_on_several_servers() {
    let mut model = delay(1, 2, Some(1_000_000));
    for tag in 0..6 {
        model.submit(Nanos::ZERO, read(tag, (tag + 1) % 2 * 4000));
    }
    let mut ended = Vec::new();
    model.advance(Nanos::MAX, &mut ended);
    let ended: Vec<(u64, u64)> = ended.iter().map(|c| (c.tag, c.at.0 / MILLI)).collect();
    // One server takes 0 (5 ms), 3 (1 ms), 4; the other 1 (1 ms), 2 (5 ms), 5.
    assert_eq!(ended, [(1, 1), (0, 5), (2, 6), (3, 6), (5, 7), (4, 11)]);
}

/// At 3 ms the server is at the second of five reads of 2 ms. That one is too late to take back;
/// the fourth makes room for the fifth, and the queue is a place shorter for the next.
#[test]
fn what_has_not_begun_is_taken_back_and_the_rest_moves_up() {
    let mut model = delay(2, 1, None);
    for tag in 0..5 {
        model.submit(Nanos::ZERO, read(tag, 4096));
    }
    let mut ended = Vec::new();
    let now = Nanos::from_millis(3);
    model.advance(now, &mut ended);
    assert_eq!(
        [0, 1, 3, 3, 9].map(|tag| model.cancel(now, tag)),
        [false, false, true, false, false]
    );
    assert_eq!(model.completion_if_submitted(now, read(9, 4096)), Nanos::from_millis(10));
    assert!(!model.cancel(Nanos::from_millis(4), 2), "it begins now");
    model.advance(Nanos::MAX, &mut ended);
    let ended: Vec<(u64, u64)> = ended.iter().map(|c| (c.tag, c.at.0 / MILLI)).collect();
    assert_eq!(ended, [(0, 2), (1, 4), (2, 6), (4, 8)]);
}

proptest! {
    /// Whatever the servers and the mixture of lengths, the rest completes as if what was taken
    /// back had never been submitted, and what is foreseen stays exact.
    #[test]
    fn taking_back_leaves_no_trace(seed: u64, servers in 1u32..6, bandwidth in 1u64..50) {
        let mut rng = Rng::new(seed);
        let mut model = delay(1, servers, Some(bandwidth * 100_000));
        let (mut now, mut cancelled, mut ended) = (Nanos::ZERO, Vec::new(), Vec::new());
        let mut load = Vec::new();
        for tag in 0..100 {
            now += Nanos(rng.below(2) * rng.below(2_000_000));
            model.advance(now, &mut ended);
            let io = read(tag, rng.below(4) * 1000);
            model.submit(now, io);
            load.push((now, io));
            if rng.below(3) == 0 {
                let tag = tag.saturating_sub(rng.below(10));
                cancelled.extend(model.cancel(now, tag).then_some(tag));
                let io = read(1000, rng.below(4) * 1000);
                let foreseen = model.completion_if_submitted(now, io);
                prop_assert_eq!(foreseen, foresee(&model, now, io));
            }
        }
        model.advance(Nanos::MAX, &mut ended);
        let mut reference = delay(1, servers, Some(bandwidth * 100_000));
        let mut expected = Vec::new();
        for (at, io) in load.into_iter().filter(|(_, io)| !cancelled.contains(&io.tag)) {
            reference.advance(at, &mut expected);
            reference.submit(at, io);
        }
        reference.advance(Nanos::MAX, &mut expected);
        prop_assert_eq!(ended, expected);
    }
}

#[test]
fn parameters_are_read_in_human_units() {
    let text = "service = '2ms'\nservers = 3\nbandwidth = '200MB/s'";
    let parameters: DelayParameters = toml::from_str(text).unwrap();
    let service = Nanos::from_millis(2);
    let expected = DelayParameters { service, servers: 3, bandwidth: Some(200_000_000) };
    assert_eq!(parameters, expected);
    let parameters: DelayParameters = toml::from_str("service = '15us'").unwrap();
    assert_eq!(parameters, DelayParameters::new(Nanos::from_micros(15)));
    for (text, complaint) in [
        ("service = '2'", "has no unit"),
        ("service = '2ms'\nservers = -1", "expected u32"),
        ("service = '2ms'\nspeed = 1", "unknown field"),
    ] {
        let error = toml::from_str::<DelayParameters>(text).unwrap_err().to_string();
        assert!(error.contains(complaint), "{error}");
    }
    for (text, complaint) in [
        ("service = '2ms'\nservers = 0", "`servers` is 0, but a disk needs at least one"),
        (
            "service = '2ms'\nbandwidth = '0MB/s'",
            "`bandwidth` is 0, so nothing would ever complete",
        ),
    ] {
        let parameters: DelayParameters = toml::from_str(text).unwrap();
        assert_eq!(parameters.check(), Err(complaint.to_owned()));
    }
}
