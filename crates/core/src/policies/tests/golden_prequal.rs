//! Golden decisions of Prequal. The counts in a reason are those sampled so far, by depth from 0
//! on; 0.84 of them, rounded up, do not exceed the limit.

use super::script::{Step, complete, follow, members, read};

const fn write(devid: u64) -> Step {
    Step::Write { devid, offset: 0, length: 4096 }
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
