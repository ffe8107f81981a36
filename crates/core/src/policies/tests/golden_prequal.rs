//! Golden decisions of Prequal. The counts in a reason are those sampled so far, by depth from 0
//! on; 0.84 of them, rounded up, do not exceed the limit.

use super::script::{Step, complete, follow, members, read};

const fn write(devid: u64) -> Step {
    Step::Write { devid, offset: 0, length: 4096 }
}

#[test]
fn prequal_takes_the_fastest_of_the_cold() {
    follow(
        "research/prequal",
        members(2, |_| ()),
        &[
            read(0, 1, "2: limit 0; both cold and untried: the first"),
            read(0, 2, "3 1: limit 1; 2 is untried, 1 is awaited"),
            complete(1, 4),
            complete(2, 8),
            read(0, 1, "5 1: limit 1; 4 against 8 ms"),
            read(0, 1, "6 2: 7 of 8, limit 1; depth 1 is unknown, so as at 0: 4 against 8"),
            read(0, 2, "7 2 1: 9 of 10, limit 1; two in flight are hot"),
            read(0, 1, "7 3 2: 11 of 12, limit 2; both cold, 4 against 8"),
            read(0, 2, "7 4 2 1: 12 of 14, limit 2; three are hot"),
            complete(1, 4),
            complete(1, 10),
            complete(1, 20),
            complete(2, 9),
            complete(2, 16),
            read(0, 1, "9 4 2 1: limit 2; at 0, 4 (of 4, 4) against 8 (of 8, 9)"),
            read(0, 2, "10 5 2 1: limit 2; at 1 it took 10 against 8 at 0"),
            read(0, 1, "10 7 2 1: 17 of 20, limit 1; at 1, 10 against 16"),
            read(0, 2, "10 8 3 1: 19 of 22, limit 2; 20 at 2 against 16 at 1"),
            read(0, 2, "10 8 5 1: limit 2; 20 at 2 against 16, from 1"),
            read(0, 1, "10 8 6 2: 22 of 26, limit 2; 2 is hot with three"),
            read(0, 1, "10 8 6 4: 24 of 28, limit 2; both hot with three: the first"),
            read(0, 2, "10 8 6 5 1: 26 of 30, limit 3; 1 is hot with four"),
            write(2),
            read(
                0,
                1,
                "10 8 6 5 2 1: 27 of 32, limit 3; both hot, four against five: writes count",
            ),
        ],
    );
}

#[test]
fn prequal_expires_after_a_second() {
    follow(
        "prequal",
        members(2, |_| ()),
        &[
            read(0, 1, "both untried: the first"),
            read(0, 2, "2 is untried"),
            complete(1, 4),
            complete(2, 8),
            Step::Wait { millis: 1000 },
            read(0, 1, "the last sample of 2 is 1000 ms old: still known, 4 against 8"),
            complete(1, 9),
            Step::Wait { millis: 1 },
            read(0, 2, "the last sample of 2 is 1001 ms old: untried"),
            read(0, 1, "2 is awaited"),
            complete(1, 9),
            complete(2, 12),
            read(0, 1, "9 (of 4, 9, 9) against 12: the 8 has expired"),
        ],
    );
}

/// Steps after which member 1 has 4 ms at depth 0, 30 ms at depth `writes`, and 2 has 10 ms at 0.
fn measured_at_two_depths(writes: usize) -> Vec<Step> {
    let mut steps = vec![
        read(0, 1, "both untried: the first"),
        read(0, 2, "2 is untried"),
        complete(1, 4),
        complete(2, 10),
        Step::Eligible(&[1]),
    ];
    steps.extend((0..writes).map(|_| write(1)));
    steps.push(read(0, 1, "alone"));
    steps.extend((0..writes).map(|_| complete(1, 1)));
    steps.push(complete(1, 30));
    steps.push(Step::Eligible(&[1, 2]));
    steps
}

#[test]
fn prequal_uses_the_nearest_depth() {
    let mut steps = measured_at_two_depths(2);
    steps.extend([
        write(1),
        read(0, 1, "4 2 1: limit 1; at 1, between 0 and 2, the lower: 4 against 10"),
        read(0, 2, "5 2 2: 8 of 9, limit 2; at 2 it took 30"),
    ]);
    follow("prequal", members(2, |_| ()), &steps);
    let mut steps = measured_at_two_depths(3);
    steps.extend([
        write(1),
        read(0, 1, "4 2 0 1: limit 1; at 1, nearer to 0 than to 3: 4 against 10"),
        read(0, 2, "5 2 1 1: 8 of 9, limit 2; at 2, nearer to 3: 30"),
    ]);
    follow("prequal", members(2, |_| ()), &steps);
}

#[test]
fn prequal_has_one_depth_from_63_on() {
    let mut steps = vec![
        read(0, 1, "both untried: the first"),
        read(0, 2, "2 is untried"),
        complete(1, 4),
        complete(2, 8),
    ];
    steps.extend((0..70).map(|_| write(1)));
    steps.push(read(0, 1, "limit 70, the largest of six; known at 0 alone: 4 against 8"));
    steps.extend((0..70).map(|_| complete(1, 1)));
    steps.push(complete(1, 20));
    steps.extend((0..65).map(|_| write(1)));
    steps.push(read(0, 2, "limit 65, the seventh of eight; behind 70 it took 20, so behind 65"));
    follow("prequal", members(2, |_| ()), &steps);
}
