//! Golden decisions of the balancers that come from research on servers.

use super::script::{Script, Step, complete, members};

const fn write(devid: u64) -> Step {
    Step::Write { devid, offset: 0, length: 4096 }
}

/// Queues of 0, 1 and 2. The shortest is among the two drawn in two of three cases and wins them,
/// the middle one wins the third, the longest none.
#[test]
fn power_of_two_choices_of_three_mirrors() {
    let mut script = Script::new("p2c", members(3, |_| ()));
    for devid in [1, 3, 3] {
        script.play(&write(devid));
    }
    let mut counts = [0u32; 4];
    for _ in 0..9_000 {
        let devid = script.read(0, 4096, 0);
        script.play(&complete(devid, 1));
        counts[devid as usize] += 1;
    }
    assert_eq!(counts[3], 0, "{counts:?}");
    // The binomial deviation is 45; five of them.
    assert!(counts[2].abs_diff(6_000) < 225, "{counts:?}");
}

/// Of three equals each is as likely: two of six ordered pairs begin with it.
#[test]
fn power_of_two_choices_of_equals() {
    let mut script = Script::new("p2c", members(3, |_| ()));
    let mut counts = [0u32; 4];
    for _ in 0..9_000 {
        let devid = script.read(0, 4096, 0);
        script.play(&complete(devid, 1));
        counts[devid as usize] += 1;
    }
    // The binomial deviation is 45; five of them.
    assert!(counts[1..].iter().all(|count| count.abs_diff(3_000) < 225), "{counts:?}");
}
