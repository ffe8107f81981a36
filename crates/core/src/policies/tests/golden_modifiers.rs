//! Decisions of modifiers, worked out by hand from their definitions.

use super::script::{Script, Step, complete, members};
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
