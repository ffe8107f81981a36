//! Golden decisions of kakra's policies: the lowest mean, the 25 % band, resets, queues.

use super::script::{Script, Step, complete, follow, members, read, read_by, read_long};
use crate::policies::shared::checkpointed_mean::{CHECKPOINT_AGE, PROBE_DECISIONS};
use crate::units::KIB;

#[test]
fn latency() {
    follow(
        "kakra/latency",
        members(2, |_| ()),
        &[
            read(0, 1, "no mean is known: the lowest stripe"),
            complete(1, 4),
            read(0, 2, "2 is unknown"),
            complete(2, 6),
            read(0, 1, "4 against 6 ms"),
            complete(1, 10),
            read(0, 2, "1 has (4 + 10) / 2 = 7 ms"),
            complete(2, 8),
            read(0, 1, "both 7 ms: ties to the lower stripe"),
            complete(1, 7),
            read(0, 1, "still 7 ms each"),
        ],
    );
}

/// Reads once from each member, then until the mean of member 2 is about to be reset: its age is
/// [`CHECKPOINT_AGE`].
fn almost_reset(spec: &str) -> Script {
    let mut script = Script::new(spec, members(2, |_| ()));
    script.follow(&[
        read(0, 1, "unknown both"),
        complete(1, 4),
        read(0, 2, "2 is unknown"),
        complete(2, 40),
    ]);
    for decision in 0..CHECKPOINT_AGE {
        assert_eq!(script.read(0, 4096, 0), 1, "decision {decision}: 4 against 40 ms");
        script.play(&complete(1, 4));
    }
    script
}

#[test]
fn ages_and_ignored_counts() {
    let script = almost_reset("kakra/latency");
    assert_eq!(script.counter("age", Some(2)), CHECKPOINT_AGE);
    assert_eq!(script.counter("age", Some(1)), 0, "chosen last");
    assert_eq!(script.counter("ignored", Some(1)), 1, "once, because 2 was unknown");
    assert_eq!(script.counter("ignored", Some(2)), CHECKPOINT_AGE + 1, "and the very first");
    assert_eq!(script.counter("count", Some(2)), 0);
    assert_eq!(script.counter("checkpoint_ios", Some(2)), 0, "no baseline yet");
    assert_eq!(script.counter("checkpoint_avg_ns", Some(2)), 40_000_000, "the lifetime mean");
}

#[test]
fn a_member_passed_over_for_long_is_probed_for_a_hundred_decisions() {
    let mut script = almost_reset("kakra/latency");
    for decision in 0..PROBE_DECISIONS {
        assert_eq!(script.read(0, 4096, 0), 2, "decision {decision} of the probe: unknown wins");
        script.play(&complete(2, 3));
        if decision == 0 {
            assert_eq!(script.counter("age", Some(2)), -100);
            assert_eq!(script.counter("count", Some(2)), 1);
            assert_eq!(script.counter("checkpoint_ios", Some(2)), 1);
            assert_eq!(script.counter("checkpoint_wait_ns", Some(2)), 40_000_000);
        }
    }
    assert_eq!(script.counter("age", Some(2)), -1);
    script.follow(&[read(0, 2, "known again, without its 40 ms: 3 against 4 ms")]);
    assert_eq!(script.counter("checkpoint_avg_ns", Some(2)), 3_000_000);
    assert_eq!(script.counter("ignored", Some(2)), CHECKPOINT_AGE + 1, "a probe is not ignored");
}

#[test]
fn a_probe_that_ends_when_chosen_is_one_read() {
    let mut script = almost_reset("kakra/latency:once");
    script.follow(&[
        read(0, 2, "unknown wins"),
        complete(2, 30),
        read(0, 1, "known again: 30 against 4 ms"),
    ]);
    assert_eq!(script.counter("count", Some(2)), 1);
}

/// Turns of 4 KiB, so that each read is one.
#[test]
fn latency_round_robin() {
    follow(
        "latency-rr:4096",
        members(3, |_| ()),
        &[
            read(0, 1, "0 blocks; all unknown are candidates: 0 % 3"),
            complete(1, 80),
            read(0, 3, "1 block; only 2 and 3 are unknown: 1 % 2 = 1, the second by devid"),
            complete(3, 100),
            read(0, 2, "2 blocks; only 2 is unknown"),
            complete(2, 101),
            read(0, 3, "3 blocks; 80 and 100 ms are within 1.25 x 80 = 100: 3 % 2 = 1"),
            complete(3, 100),
            read(0, 1, "4 blocks: 4 % 2 = 0; 2 with 101 ms is left out"),
            complete(1, 100),
            read(0, 3, "5 blocks; means 90, 101, 100, limit 112.5: 5 % 3 = 2"),
            complete(3, 100),
            read(0, 1, "6 blocks: 6 % 3 = 0"),
            complete(1, 30),
            read(0, 1, "7 blocks; means 70, 101, 100, limit 87.5: only 1"),
        ],
    );
}

#[test]
fn latency_round_robin_takes_turns_of_256_kib_by_devid() {
    let mut script = Script::new("latency-rr", members(2, |_| ())).with_stripes(&[2, 1]);
    script.follow(&[
        read_long(0, 252 * KIB, 1, "0 blocks; both unknown, the lower devid"),
        read(0, 1, "63 blocks: still its turn"),
        read(0, 2, "64 blocks: the other"),
        complete(1, 5),
        complete(1, 5),
        complete(2, 6),
        read_long(0, 252 * KIB, 2, "65 blocks; 6 is within 1.25 x 5 ms: still its turn"),
        read(0, 1, "128 blocks"),
        read(0, 1, "129 blocks"),
    ]);
}

#[test]
fn latency_round_robin_probes_alone() {
    let mut script = almost_reset("latency-rr");
    script.follow(&[
        read(0, 2, "its mean counts as 0, and 1.25 x 0 leaves 1 out"),
        complete(2, 5),
        read(0, 2, "still probing"),
    ]);
}

#[test]
fn queue() {
    follow(
        "queue",
        members(3, |_| ()),
        &[
            read_by(4, 2, "all idle, none chosen yet: stream 4 % 3 = 1"),
            read_by(4, 1, "1 and 3 are idle, 2 is not: 4 % 2 = 0"),
            read(0, 3, "the only idle one"),
            read_by(1, 3, "one in flight each: the one chosen last, not 1 % 3"),
            read_by(5, 2, "1 and 2 have one, 3 has two: 5 % 2 = 1"),
            read(0, 1, "1 has one, the others two"),
            complete(3, 1),
            Step::Write { devid: 3, offset: 0, length: 4096 },
            read_by(2, 1, "the write counts: two each, the one chosen last again"),
            complete(2, 900),
            read(0, 2, "3, 1 and 2 in flight; how long it took does not matter"),
        ],
    );
}

/// Eight reads from each member in its first second: 4 ms on 1, `wait_ms` on 2. Nothing is in
/// flight then, and the window has just ended.
fn after_a_window(wait_ms: u64) -> Script {
    let mut script = Script::new("kakra/queue-adaptive", members(2, |_| ()));
    for round in 0..8 {
        // No veto yet: the write leaves the other as the shortest queue.
        for (devid, wait_ms) in [(1, 4), (2, wait_ms)] {
            script.play(&Step::Write { devid: 3 - devid, offset: 0, length: 4096 });
            assert_eq!(script.read(0, 4096, 0), devid, "round {round}: healths are unknown");
            script.play(&complete(3 - devid, 1));
            script.play(&complete(devid, wait_ms));
        }
    }
    script.play(&Step::Wait { millis: 1000 });
    script
}

#[test]
fn queue_adaptive_vetoes_until_the_other_is_much_busier() {
    let mut script = after_a_window(9);
    script.follow(&[
        read_by(1, 1, "both idle: 2 was chosen last, but 9 ms are more than 2 x 4: a veto"),
        read(0, 1, "2 is idle: a veto, for 1 has only one in flight"),
        read(0, 1, "one veto more: two against none"),
        read(0, 1, "three against none"),
        read(0, 1, "four against none"),
        read(0, 1, "five against none"),
        read(0, 1, "six against none"),
        read(0, 1, "seven against none"),
        read(0, 2, "eight against none: overflow"),
        read(0, 1, "eight against one: a veto"),
        read(0, 2, "nine against one: overflow"),
        complete(1, 4),
        read(0, 1, "eight against two: a veto"),
    ]);
    assert_eq!(script.counter("health_avg_ns", Some(1)), 4_000_000);
    assert_eq!(script.counter("health_avg_ns", Some(2)), 9_000_000);
    assert_eq!(script.counter("vetoed", Some(2)), 10);
    assert_eq!(script.counter("overflow", Some(2)), 2);
    assert_eq!(script.counter("vetoed", Some(1)), 0);
    assert_eq!(script.counter("overflow", Some(1)), 0);
}

#[test]
fn queue_adaptive_is_the_shortest_queue_while_healths_are_alike() {
    let mut script = after_a_window(8);
    script.follow(&[
        read_by(0, 2, "both idle: 2 was chosen last, and 8 ms are not more than 2 x 4"),
        read(0, 1, "1 is idle"),
        read(0, 1, "one each: the one chosen last"),
        read(0, 2, "one against two"),
        read(0, 2, "two each: the one chosen last"),
        read(0, 1, "two against three"),
    ]);
    assert_eq!(script.counter("vetoed", Some(2)), 0);
}

/// A refresh needs eight reads; a health without a refresh for ten seconds becomes unknown.
#[test]
fn queue_adaptive_refreshes_and_expires() {
    let mut script = after_a_window(9);
    let veto = "2 was chosen last, 9 against 4 ms: a veto";
    script.follow(&[read(0, 1, veto), complete(1, 5)]);
    for _ in 0..6 {
        script.follow(&[read(0, 1, "the window has not ended"), complete(1, 5)]);
    }
    script.follow(&[Step::Wait { millis: 1500 }, read(0, 1, "seven reads do not end it")]);
    assert_eq!(script.counter("health_avg_ns", Some(1)), 4_000_000);
    script.follow(&[complete(1, 5), read(0, 1, "the eighth does"), complete(1, 5)]);
    assert_eq!(script.counter("health_avg_ns", Some(1)), 5_000_000);
    script.follow(&[
        Step::Write { devid: 1, offset: 0, length: 4096 },
        Step::Wait { millis: 8499 },
        read(0, 2, "9 against 5 ms is not more than twice"),
        complete(2, 30),
    ]);
    assert_eq!(
        script.counter("health_avg_ns", Some(2)),
        9_000_000,
        "9999 ms after its window began"
    );
    script.follow(&[Step::Wait { millis: 1 }, read(0, 2, "unknown from now on")]);
    assert_eq!(script.counter("health_avg_ns", Some(2)), 0);
    assert_eq!(script.counter("health_avg_ns", Some(1)), 5_000_000, "8500 ms old");
}
