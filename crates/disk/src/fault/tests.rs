//! Faults over the delay model, whose completions are known to the nanosecond.

use super::*;
use crate::delay::{Delay, DelayParameters};

const SECOND: u64 = 1_000_000_000;

fn window(from_ms: u64, until_ms: u64) -> FaultWindow {
    FaultWindow { from: Nanos::from_millis(from_ms), until: Nanos::from_millis(until_ms) }
}

/// One server of 2 ms with faults.
fn faulty(faults: &[Fault]) -> Faulty {
    let inner = Delay::new(DelayParameters::new(Nanos::from_millis(2)));
    Faulty::new(Box::new(inner), faults, 1)
}

fn io(tag: u64, op: Op, offset: u64, length: u64) -> DiskIo {
    DiskIo { tag, op, offset, length }
}

fn read(tag: u64) -> DiskIo {
    io(tag, Op::Read, 0, 4096)
}

/// Keeps `depth` reads in flight up to `end_ms`; returns every completion, checked for order.
fn closed_loop(model: &mut Faulty, depth: u64, end_ms: u64) -> Vec<Completion> {
    let mut ended: Vec<Completion> = Vec::new();
    let mut next_tag = 0..;
    for tag in next_tag.by_ref().take(depth as usize) {
        model.submit(Nanos::ZERO, read(tag));
    }
    while let Some(now) = model.next_event().filter(|now| now.0 < end_ms * SECOND / 1000) {
        let before = ended.len();
        model.advance(now, &mut ended);
        let succeeded = ended[before..].iter().filter(|completion| completion.result.is_ok());
        for tag in next_tag.by_ref().take(succeeded.count()) {
            model.submit(now, read(tag));
        }
        assert!(ended[before..].iter().all(|completion| completion.at == now));
    }
    assert!(ended.is_sorted_by_key(|completion| completion.at));
    ended
}

fn count(ended: &[Completion], from_ms: u64, until_ms: u64) -> usize {
    let during = window(from_ms, until_ms);
    ended.iter().filter(|completion| during.contains(completion.at)).count()
}

#[test]
fn a_slow_disk_has_a_fraction_of_the_throughput_at_every_depth() {
    for depth in [1, 32] {
        let fault = Fault::Slow { factor_milli: 4000, during: window(10_000, 20_000) };
        let ended = closed_loop(&mut faulty(&[fault]), depth, 30_000);
        assert_eq!(count(&ended, 0, 10_000), 4999);
        assert_eq!(count(&ended, 10_001, 20_001), 1250);
        assert_eq!(count(&ended, 20_001, 30_000), 4999);
    }
}

/// An I/O of 2 ms that is half done when the slow time begins takes 1 + 1 * 4 ms; one that is still
/// at it when the slow time ends finishes at full speed.
#[test]
fn a_slow_time_stretches_what_falls_into_it() {
    let fault = Fault::Slow { factor_milli: 4000, during: window(1, 7) };
    let mut model = faulty(&[fault]);
    let mut ended = Vec::new();
    for tag in 0..2 {
        model.submit(Nanos::ZERO, read(tag));
    }
    assert_eq!(model.next_event(), Some(Nanos::from_millis(5)));
    model.advance(Nanos(SECOND), &mut ended);
    // The second has 0.5 ms of its work done by 7 ms and needs 1.5 more.
    assert_eq!(ended.iter().map(|c| c.at.0 / 100_000).collect::<Vec<_>>(), [50, 85]);
}

#[test]
fn nothing_completes_in_a_stall_and_the_work_is_only_put_off() {
    let stall = Fault::Stall { at: Nanos::from_millis(5), length: Nanos::from_millis(1000) };
    let mut model = faulty(&[stall]);
    let ended = closed_loop(&mut model, 3, 2000);
    assert_eq!(count(&ended, 0, 5), 2);
    assert_eq!(count(&ended, 5, 1005), 0);
    assert_eq!(ended[2].at, Nanos::from_millis(1006));
}

/// Even what takes no time at all waits for the end of a stall.
#[test]
fn an_instant_disk_stalls_too() {
    let inner = Delay::new(DelayParameters::new(Nanos::ZERO));
    let stall = Fault::Stall { at: Nanos(100), length: Nanos(50) };
    let mut model = Faulty::new(Box::new(inner), &[stall], 1);
    let mut ended = Vec::new();
    for instant in [99, 100, 120, 150].map(Nanos) {
        model.advance(instant, &mut ended);
        let foreseen = model.completion_if_submitted(instant, read(instant.0));
        assert_eq!(foreseen, if instant == Nanos(99) { instant } else { Nanos(150) });
        model.submit(instant, read(instant.0));
        model.advance(instant, &mut ended);
    }
    let ended: Vec<(u64, u64)> = ended.iter().map(|c| (c.tag, c.at.0)).collect();
    assert_eq!(ended, [(99, 99), (100, 150), (120, 150), (150, 150)]);
}

#[test]
fn errors_come_at_their_rate_within_their_window_and_take_their_time() {
    let fault = Fault::Errors { rate: 0.1, during: window(10_000, 30_000) };
    let mut model = faulty(&[fault]);
    let mut failures = 0;
    let mut ended = Vec::new();
    for tag in 0..20_000 {
        let now = Nanos::from_millis(2 * tag);
        model.submit(now, read(tag));
        ended.clear();
        let end = now + Nanos::from_millis(2);
        model.advance(end, &mut ended);
        assert_eq!(ended[0].at, end);
        if ended[0].result == Err(IoError::Transport) {
            assert!(window(10_000, 30_000).contains(now));
            failures += 1;
        }
    }
    // 10,000 draws at 0.1: mean 1000, deviation 30.
    assert!((850..1150).contains(&failures), "{failures}");
}

#[test]
fn a_bad_range_fails_reads_until_it_is_rewritten() {
    let mut model = faulty(&[Fault::Bad { offset: 8192, length: 65536 }]);
    let steps = [
        (Op::Read, 0, 8192, Ok(())),
        (Op::Read, 4096, 8192, Err(IoError::Medium)),
        (Op::Write, 8192, 4096, Ok(())),
        (Op::Read, 8192, 4096, Ok(())),
        (Op::Read, 8192, 8192, Err(IoError::Medium)),
        (Op::Write, 0, 1 << 20, Ok(())),
        (Op::Read, 0, 1 << 20, Ok(())),
        (Op::Flush, 0, 0, Ok(())),
    ];
    for (tag, (op, offset, length, _)) in steps.into_iter().enumerate() {
        model.submit(Nanos::ZERO, io(tag as u64, op, offset, length));
    }
    let mut ended = Vec::new();
    model.advance(Nanos(SECOND), &mut ended);
    for (completion, (op, offset, _, expected)) in ended.iter().zip(steps) {
        assert_eq!(completion.result, expected, "{op:?} at {offset}");
    }
}

#[test]
fn death_fails_what_is_in_flight_and_later_and_a_returned_disk_serves() {
    let mut model = faulty(&[Fault::Dead { during: window(5, 100) }]);
    let mut ended = Vec::new();
    for tag in 0..5 {
        model.submit(Nanos::ZERO, read(tag));
    }
    assert_eq!(model.completion_if_submitted(Nanos::ZERO, read(9)), Nanos::MAX, "it dies first");
    model.advance(Nanos::from_millis(4), &mut ended);
    assert_eq!(model.next_event(), Some(Nanos::from_millis(5)));
    model.advance(Nanos::from_millis(50), &mut ended);
    assert_eq!(model.completion_if_submitted(Nanos::from_millis(50), read(5)), Nanos::MAX);
    model.submit(Nanos::from_millis(50), read(5));
    assert_eq!(model.next_event(), Some(Nanos::from_millis(50)));
    model.advance(Nanos::from_millis(99), &mut ended);
    model.submit(Nanos::from_millis(100), read(6));
    model.advance(Nanos(SECOND), &mut ended);
    let gone = Err(IoError::Gone);
    let expected = [
        (0, 2, Ok(())),
        (1, 4, Ok(())),
        (2, 5, gone),
        (3, 5, gone),
        (4, 5, gone),
        (5, 50, gone),
        (6, 102, Ok(())),
    ];
    let ended: Vec<_> = ended.iter().map(|c| (c.tag, c.at.0 / 1_000_000, c.result)).collect();
    assert_eq!(ended, expected);
    assert_eq!(model.next_event(), None);
}

/// A death that passes while nothing is in flight, and one that begins at the instant of a
/// completion, which has just made it.
#[test]
fn deaths_at_the_edges() {
    let mut model =
        faulty(&[Fault::Dead { during: window(10, 11) }, Fault::Dead { during: window(52, 60) }]);
    let mut ended = Vec::new();
    model.submit(Nanos::from_millis(50), read(0));
    model.submit(Nanos::from_millis(50), read(1));
    assert_eq!(model.next_event(), Some(Nanos::from_millis(52)));
    model.advance(Nanos::from_millis(52), &mut ended);
    let ended: Vec<_> = ended.iter().map(|c| (c.tag, c.result)).collect();
    assert_eq!(ended, [(0, Ok(())), (1, Err(IoError::Gone))]);
}

/// The disk stands still from 1 ms to 11 ms with one read begun. The other is still in its queue
/// and goes; the first completes 10 ms late.
#[test]
fn a_stalled_disk_gives_back_what_it_has_not_begun() {
    let stall = Fault::Stall { at: Nanos::from_millis(1), length: Nanos::from_millis(10) };
    let mut model = faulty(&[stall]);
    for tag in 0..3 {
        model.submit(Nanos::ZERO, read(tag));
    }
    let now = Nanos::from_millis(5);
    assert_eq!([0, 1].map(|tag| model.cancel(now, tag)), [false, true]);
    let mut ended = Vec::new();
    model.advance(Nanos(SECOND), &mut ended);
    let ended: Vec<_> = ended.iter().map(|c| (c.tag, c.at.0 / 1_000_000)).collect();
    assert_eq!(ended, [(0, 12), (2, 14)]);
}

/// Death has answered both; what the disk still does in silence is not what a later I/O of the same
/// tag means. With the last I/O taken back, a second death fails no I/O.
#[test]
fn an_answered_request_stays_answered_after_the_death_of_the_disk() {
    let mut model =
        faulty(&[Fault::Dead { during: window(1, 2) }, Fault::Dead { during: window(5, 6) }]);
    let mut ended = Vec::new();
    for tag in 0..2 {
        model.submit(Nanos::ZERO, read(tag));
    }
    model.advance(Nanos::from_millis(1), &mut ended);
    assert_eq!((ended.len(), model.cancel(Nanos::from_millis(1), 1)), (2, false));
    let now = Nanos::from_millis(3);
    model.submit(now, read(1));
    assert_eq!([0, 1, 1].map(|tag| model.cancel(now, tag)), [false, true, false]);
    model.advance(Nanos::from_millis(4), &mut ended);
    assert_eq!((ended.len(), model.next_event()), (2, None));
}

#[test]
fn without_faults_nothing_changes() {
    let mut bare = Delay::new(DelayParameters::new(Nanos(777)));
    let mut wrapped = Faulty::new(Box::new(bare.clone()), &[], 1);
    let (mut from_bare, mut from_wrapped) = (Vec::new(), Vec::new());
    for tag in 0..100 {
        let now = Nanos(tag * tag * 31);
        bare.advance(now, &mut from_bare);
        wrapped.advance(now, &mut from_wrapped);
        bare.submit(now, read(tag));
        wrapped.submit(now, read(tag));
        assert_eq!(bare.next_event(), wrapped.next_event());
    }
    bare.advance(Nanos::MAX, &mut from_bare);
    wrapped.advance(Nanos::MAX, &mut from_wrapped);
    assert_eq!(from_bare, from_wrapped);
}
