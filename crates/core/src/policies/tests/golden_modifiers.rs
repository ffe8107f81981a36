//! Decisions of modifiers, worked out by hand from their definitions.

use super::script::{Script, Step, complete, members, read};
use crate::io::{MemberIo, ReadRole};
use crate::policies::Spec;
use crate::policy::{Choice, Ctx};
use crate::rng::Rng;
use crate::units::{MIB, Nanos};

#[test]
fn a_split_is_cut_among_what_is_left() {
    let mut script = Script::new("gmirror/split+write-mostly:2", members(3, |_| {}));
    let (_, choice) = script.choose(0, MIB, 0);
    let Choice::Split(places) = choice else { panic!("{choice:?}") };
    assert_eq!(places.iter().collect::<Vec<_>>(), [0, 2]);
}

/// Plays fifty reads of each member that take these milliseconds.
fn measure(script: &mut Script, waits_ms: &[u64]) {
    for (place, &wait_ms) in waits_ms.iter().enumerate() {
        let devid = place as u64 + 1;
        for _ in 0..50 {
            script.submit_read(devid);
            script.play(&complete(devid, wait_ms));
        }
    }
}

#[test]
fn fail_slow_sends_out_who_is_twice_as_slow_and_tries_again() {
    let mut script = Script::new("round-robin:4K+fail-slow", members(3, |_| {}));
    measure(&mut script, &[10, 20, 21]);
    script.follow(&[
        Step::Wait { millis: 100 },
        read(0, 1, "turn 150 of three: the first"),
        read(0, 2, "twice as slow as 1, and no more"),
        read(0, 1, "3 is more than twice as slow: btrfs gives its turn to the lowest left"),
        read(0, 1, "turn 153: the first"),
        read(0, 2, "the second"),
        Step::Wait { millis: 9_900 },
        read(0, 1, "3 sits out still"),
        Step::Wait { millis: 100 },
        read(0, 1, "turn 156: the first"),
        read(0, 2, "the second"),
        read(0, 3, "ten seconds are over: its mean is reset"),
    ]);
    assert_eq!(script.counter("exclusions", None), 1);
}

#[test]
fn fail_slow_compares_members_of_one_kind() {
    let ssd_first = |config: &mut crate::member::MemberConfig| {
        config.rotational = config.devid > 1;
    };
    let mut script = Script::new("round-robin:4K+fail-slow", members(3, ssd_first));
    measure(&mut script, &[1, 20, 30]);
    script.follow(&[
        Step::Wait { millis: 100 },
        read(0, 1, "none is excluded: the disks are slow compared with the SSD only"),
        read(0, 2, "in turn"),
        read(0, 3, "in turn"),
    ]);
}

#[test]
fn fail_slow_never_leaves_a_block_without_a_mirror() {
    let mut script = Script::new("first+fail-slow", members(3, |_| {}));
    measure(&mut script, &[50, 10, 40]);
    script.follow(&[
        Step::Wait { millis: 100 },
        read(0, 2, "1 and 3 are excluded"),
        Step::Eligible(&[1, 3]),
        read(0, 1, "both are excluded: the policy chooses among both"),
    ]);
}

#[test]
fn autosit_needs_more_than_twenty_points() {
    // Halves of three, 10 11 12 and 13 14 2000, with medians of 11 and 14: a spread of 3, a fence
    // at 14 + 50 x 3 = 164; 2000 is beyond it by more than 5 spreads: 5 points a second.
    let mut script = Script::new("first+autosit", members(6, |_| {}));
    let mut second = |expected: u64, because: &'static str| {
        measure(&mut script, &[2000, 10, 11, 12, 13, 14]);
        script.follow(&[Step::Wait { millis: 1000 }, read(0, expected, because)]);
        script.play(&complete(expected, 10));
    };
    second(1, "5 points");
    second(1, "10");
    second(1, "15");
    second(1, "20, which is not more than 20");
    second(2, "25: out, as one of six copies may be");
}

#[test]
fn autosit_forgives_two_points_after_as_many_outliers_as_members() {
    // 170 ms lie 6 ms beyond the fence at 164, two spreads of 3: 2 points a second.
    let mut script = Script::new("first+autosit", members(6, |_| {}));
    for second in 1..=12 {
        measure(&mut script, &[170, 10, 11, 12, 13, 14]);
        let because = "2 points a second, 2 off at the sixth and the twelfth: 10, 20, not more";
        script.follow(&[Step::Wait { millis: 1000 }, read(0, 1, because)]);
        script.play(&complete(1, 170));
        assert_eq!(script.counter("exclusions", None), 0, "second {second}");
    }
    measure(&mut script, &[170, 10, 11, 12, 13, 14]);
    script.follow(&[Step::Wait { millis: 1000 }, read(0, 2, "22 points in the thirteenth")]);
}

#[test]
fn autosit_ignores_small_arrays_and_seconds_with_an_unread_member() {
    for (waits, because) in [
        (&[9000, 10, 11, 12][..], "four members have no quartiles"),
        (&[9000, 10, 11, 12, 13][..], "five: the slow one is half of the upper half"),
        (&[9000, 10, 11, 12, 13, 0][..], "one was not read"),
    ] {
        let mut script = Script::new("first+autosit", members(waits.len() as u64, |_| {}));
        for _ in 0..10 {
            measure(&mut script, waits);
            script.follow(&[Step::Wait { millis: 1000 }, read(0, 1, because)]);
            script.play(&complete(1, 10));
        }
        assert_eq!(script.counter("exclusions", None), 0);
    }
}

#[test]
fn tied_joins_the_shortest_of_the_other_queues() {
    let mut script = Script::new("first+tied:2ms", members(3, |_| {}));
    script.play(&Step::Write { devid: 2, offset: 0, length: 512 });
    let expected = Choice::Tied { first: 0, second: 2, after: Nanos::from_millis(2) };
    assert_eq!(script.choose(0, 4096, 0).1, expected);
    script.play(&Step::Eligible(&[1, 2]));
    let expected = Choice::Tied { first: 0, second: 1, after: Nanos::from_millis(2) };
    assert_eq!(script.choose(0, 4096, 0).1, expected);
}

#[test]
fn hedge_waits_for_its_quantile_and_keeps_its_budget() {
    let mut script = Script::new("first+hedge:95%:10%", members(3, |_| {}));
    for _ in 0..63 {
        script.read(0, 4096, 0);
        script.play(&complete(1, 10));
    }
    assert_eq!(script.choose(0, 4096, 0).1, Choice::Mirror(0), "63 reads are too few");
    script.read(0, 4096, 0);
    script.play(&complete(1, 10));
    let Choice::Hedge { first: 0, backup: 1, after } = script.choose(0, 4096, 0).1 else {
        panic!("64 reads of its kind were seen");
    };
    // All waits are equal: the estimate lies from 5/6400 below them to 95/6400 above, and a 32nd of
    // it is added.
    let (low, high) = (Nanos::from_micros(10_000), Nanos::from_micros(10_500));
    assert!(low <= after && after <= high, "{after}");
    assert_eq!(script.choose(0, 8192, 0).1, Choice::Mirror(0), "of that length none was seen");
    // 66 reads at 10 hundredths saved 6.6; each second read costs 100 hundredths.
    let mut hedged = 0;
    while let (read, Choice::Hedge { .. }) = script.choose(0, 4096, 0) {
        let mirror =
            crate::policy::Mirror { member: crate::member::MemberIndex(1), offset: 0, copy: 1 };
        let io = read.io(&mirror, Nanos::ZERO);
        let mut rng = Rng::new(1);
        let mut ctx = Ctx { now: Nanos::ZERO, members: &script.members, rng: &mut rng };
        script.policy.on_submit(&MemberIo { role: ReadRole::Extra, ..io }, &mut ctx);
        hedged += 1;
    }
    assert_eq!((hedged, script.counter("hedges", None)), (7, 7));
}

#[test]
fn the_estimate_of_hedge_finds_the_quantile() {
    let mut script = Script::new("first+hedge:90%", members(2, |_| {}));
    let mut draw = Rng::new(3);
    let mut between = 0;
    for number in 0..20_000 {
        script.read(0, 4096, 0);
        script.play(&complete(1, 1 + draw.below(100)));
        if number >= 10_000 {
            let after = match script.choose(0, 4096, 0).1 {
                Choice::Hedge { after, .. } => after,
                other => panic!("{other:?}"),
            };
            between += u32::from((80..=98).contains(&(after.0 / 1_000_000)));
        }
    }
    assert!(between > 9_000, "the 90th of 1 to 100 ms is 90 ms: near it {between} of 10000 times");
}

#[test]
fn what_a_second_read_leaves_behind_is_no_service() {
    for spec in ["research/sed+tied", "research/c3+tied", "dm/historical-service-time:0+hedge"] {
        let mut script = Script::new(spec, members(2, |_| {}));
        script.submit_read(1);
        script.submit_read(1);
        script.submit_read(2);
        script.follow(&[
            Step::Wait { millis: 5 },
            complete(2, 5),
            Step::Wait { millis: 3 },
            // Behind the first, which the member is busy with.
            Step::Cancel { devid: 1 },
            Step::Wait { millis: 2 },
            complete(1, 10),
        ]);
        script.submit_read(1);
        script.submit_read(2);
        script.follow(&[read(0, 2, "5 ms against 10, not against the 2 since the other went")]);
    }
}

#[test]
fn a_cancelled_read_is_no_latency() {
    let mut script = Script::new("nvme/adaptive+tied", members(2, |_| {}));
    script.submit_read(1);
    script.submit_read(1);
    script.follow(&[Step::Wait { millis: 1 }, Step::Cancel { devid: 1 }]);
    assert_eq!(script.counter("weight", Some(1)), 0, "nothing was measured");
    script.follow(&[Step::Wait { millis: 9 }, complete(1, 10)]);
    assert_eq!(script.counter("weight", Some(1)), 64);
}

#[test]
fn modifiers_are_written_in_one_order() {
    let written = |text: &str| Spec::parse(text).unwrap().to_string();
    assert_eq!(written("pid+write-mostly:2+hedge"), "btrfs/pid+hedge+write-mostly:2");
    assert_eq!(written("pid+hedge:90:3"), "btrfs/pid+hedge:90%:3%");
    assert_eq!(
        written("round-robin:256K+write-mostly:3+write-mostly:1"),
        "btrfs/round-robin:256K+write-mostly:1+write-mostly:3"
    );
    assert_eq!(written("first+autosit:1500"), "mirrorball/first+autosit:1500ms");
    assert_eq!(written("first+tied:2s"), "mirrorball/first+tied:2s");
}
