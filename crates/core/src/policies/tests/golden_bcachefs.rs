//! Golden decisions of bcachefs: means to the nanosecond, draws by their probabilities.

use super::script::{Script, complete, members};

fn latency_ns(script: &Script, devid: u64) -> i64 {
    script.counter("latency_ns", Some(devid))
}

/// Of samples near the mean one in 32 is used. From 4 ms towards 5, each used sample leaves 31/32
/// of the difference, so k of them remove 1 - (31/32)^k of it.
#[test]
fn samples_near_the_mean_are_mostly_dropped() {
    let mut script = Script::new("inverse-square-latency", members(1, |_| ()));
    script.read(0, 4096, 0);
    script.play(&complete(1, 128));
    assert_eq!(latency_ns(&script, 1), 4_000_000);
    let mut taken = 0;
    for _ in 0..3_200 {
        let before = latency_ns(&script, 1);
        script.read(0, 4096, 0);
        script.play(&complete(1, 5));
        let after = latency_ns(&script, 1);
        if after != before {
            assert_eq!(after, (31 * before + 5_000_000) / 32);
            taken += 1;
        }
    }
    // 100 are expected, with a deviation of 9.8; five of them.
    assert!((51..=149).contains(&taken), "{taken} samples were used");
}

/// Number of reads that each member gets, if the members have these means.
fn shares(means_ms: &[u64], reads: u64) -> Vec<u64> {
    let number = means_ms.len() as u64;
    let mut script = Script::new("inverse-square-latency", members(number, |_| ()));
    // From the last to the first, because they win in this order while at 0.
    for devid in (1..=number).rev() {
        assert_eq!(script.read(0, 4096, 0), devid, "the last of the members at 0");
        script.play(&complete(devid, 32 * means_ms[devid as usize - 1]));
    }
    let mut counts = vec![0; means_ms.len()];
    for _ in 0..reads {
        counts[script.read(0, 4096, 0) as usize - 1] += 1;
    }
    counts
}

#[test]
fn shares_follow_the_inverse_squares() {
    let counts = shares(&[1, 2], 10_000);
    // 2 wins with 1 / (1 + 4); the deviation is 40, five of them.
    assert!(counts[1].abs_diff(2_000) < 200, "{counts:?}");
    let counts = shares(&[3, 1], 10_000);
    // 2 wins with 9 / (9 + 1); the deviation is 30.
    assert!(counts[1].abs_diff(9_000) < 150, "{counts:?}");
}

/// Of three equals 3 wins half, and 1 and 2 share the rest: the defect of the original.
#[test]
fn of_three_equals_the_last_gets_half() {
    let counts = shares(&[1, 1, 1], 10_000);
    // The deviations are 43, 43 and 50.
    assert!(counts[0].abs_diff(2_500) < 217, "{counts:?}");
    assert!(counts[1].abs_diff(2_500) < 217, "{counts:?}");
    assert!(counts[2].abs_diff(5_000) < 250, "{counts:?}");
}
