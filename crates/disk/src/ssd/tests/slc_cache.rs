//! The SLC cache: fast until it is full, and empty again after a pause.

use super::*;

/// A cache of 16 MiB whose programs take a tenth of the usual time.
fn cached() -> SsdParameters {
    SsdParameters {
        slc_cache: 16 << 20,
        slc_program: Some(Nanos(40_000)),
        slc_idle: Nanos::from_millis(100),
        program: Nanos(4_000_000),
        link: 10_000_000_000,
        ..plain()
    }
}

/// Bytes per second of `count` sequential writes of 64 KiB from `now` on, and the end of the last.
fn write_rate(model: &mut Ssd, now: u64, first: u64, count: u64) -> (f64, u64) {
    let mut at = now;
    for n in first..first + count {
        at += alone(model, at, write(n, n << 16, 1 << 16));
    }
    ((count << 16) as f64 * 1e9 / (at - now) as f64, at)
}

#[test]
fn writes_are_fast_until_the_slc_cache_is_full() {
    let mut model = Ssd::new(&cached(), 1);
    // 16 KiB in 40 us on each of 8 dies is more than the commands of depth one can use.
    let (fast, at) = write_rate(&mut model, 0, 0, 256);
    assert!(fast > 1e9, "{fast}");
    // The next fill the write cache of 1 MiB; then the dies set the pace, 8 x 16 KiB in 4 ms.
    let (_, at) = write_rate(&mut model, at, 256, 64);
    let (slow, _) = write_rate(&mut model, at, 320, 256);
    assert_near(slow, 8.0 * 16_384.0 / 4e-3, 0.02);
}

#[test]
fn random_writes_into_the_slc_cache_cause_no_collection() {
    let parameters = SsdParameters { write_amplification: 8.0, ..cached() };
    let mut model = Ssd::new(&parameters, 1);
    let run = closed_loop(&mut model, 32, 4_000, random_writes(1));
    // 2 us a command and 0.4 us for its data.
    assert_near(run.per_second(), 1e9 / 2_409.6, 0.02);
}

#[test]
fn a_pause_empties_the_slc_cache_by_folding() {
    let mut model = Ssd::new(&cached(), 1);
    let (_, at) = write_rate(&mut model, 0, 0, 256);
    // 16 MiB of programs of 4 ms on 8 dies: half a second, after 100 ms of idling.
    let fold_ns = (16 << 20) / (8 * 16_384) * 4_000_000;
    let space = |model: &Ssd, at| {
        let mut model = model.clone();
        let (rate, _) = write_rate(&mut model, at, 256, 128);
        rate > 1e9
    };
    assert!(!space(&model, at + 90_000_000), "no folding before `slc_idle`");
    assert!(!space(&model, at + 100_000_000 + fold_ns / 4), "a quarter is folded");
    assert!(space(&model, at + 110_000_000 + fold_ns / 2), "half of it is free");
    // A command in between starts the wait again.
    let mut interrupted = model.clone();
    alone(&mut interrupted, at + 90_000_000, read(1, 0, 4_096));
    assert!(!space(&interrupted, at + 150_000_000));
    let io = write(900, 256 << 16, 1 << 16);
    let foreseen = model.completion_if_submitted(Nanos(at + 2 * fold_ns), io);
    assert_eq!(foreseen.0 - at - 2 * fold_ns, alone(&mut model, at + 2 * fold_ns, io));
}
