//! Golden decisions of the balancers that come from research on servers.

use super::script::{Script, Step, complete, members, read, wait};

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

/// After a first read of 4 and 8 ms on members 1 and 2, which chance may take in either order.
fn measured_peaks() -> Script {
    let mut script = Script::new("research/peak-ewma", members(2, |_| ()));
    let first = script.read(0, 4096, 0);
    let second = script.read(0, 4096, 0);
    assert_ne!(first, second, "an untried member comes before an awaited one");
    for step in [wait(4), complete(1, 4), wait(4), complete(2, 8)] {
        script.play(&step);
    }
    script
}

#[test]
fn peak_ewma_takes_a_peak_at_once() {
    measured_peaks().follow(&[
        read(0, 1, "4 against 8 ms"),
        read(0, 1, "2 x 4 against 8; 4 ms ago it was 4, now 0.04 % less"),
        read(0, 2, "3 x 4 against 8"),
        read(0, 1, "3 x 4 against 2 x 8"),
        read(0, 1, "4 x 4 against 2 x 8, less 0.04 %"),
        read(0, 2, "5 x 4 against 2 x 8"),
        complete(1, 30),
        read(0, 2, "4 x 30 against 3 x 8: the peak is the latency at once"),
        complete(1, 3),
        complete(1, 3),
        complete(1, 3),
        read(0, 1, "30 against 4 x 8: no time has passed, so the fast reads weigh nothing"),
        read(0, 2, "2 x 30 against 4 x 8"),
        write(2),
        write(2),
        write(2),
        write(2),
        read(0, 1, "2 x 30 against 9 x 8: writes are in flight too"),
    ]);
}

/// Member 1 has 30 ms and is not read; 2 is read once a second in 8 ms, which is a peak each time,
/// because at the next decision it has decayed to 8 e^-0.0992 = 7.244. After k seconds 1 has
/// 30 e^-(k - 0.008)/10: 7.404 at k = 14, 6.699 at k = 15.
#[test]
fn peak_ewma_decays_with_time() {
    let mut script = measured_peaks();
    script.follow(&[read(0, 1, "4 against 8 ms"), complete(1, 30)]);
    for _second in 1..15 {
        script.follow(&[
            wait(992),
            read(0, 2, "1 has not decayed enough yet"),
            wait(8),
            complete(2, 8),
        ]);
    }
    script.follow(&[wait(992), read(0, 1, "6.699 against 7.244")]);
}

/// The read is 10 s on its way, of which the script counts 3 ms: 30 / e + 3 x (1 - 1 / e) = 12.93.
#[test]
fn peak_ewma_weighs_fast_reads_by_the_time_since_the_last_decay() {
    measured_peaks().follow(&[
        read(0, 1, "4 against 8 ms"),
        complete(1, 30),
        write(2),
        write(2),
        write(2),
        read(0, 1, "30 against 4 x 8"),
        Step::Wait { millis: 10_000 },
        complete(1, 3),
        complete(2, 1),
        complete(2, 1),
        complete(2, 1),
        read(0, 2, "12.93 against 8 / e = 2.94"),
        read(0, 2, "12.93 against 2 x 2.94"),
        read(0, 2, "12.93 against 3 x 2.94"),
        read(0, 2, "12.93 against 4 x 2.94 = 11.77"),
        read(0, 1, "12.93 against 5 x 2.94 = 14.72; undecayed, 30 would lose"),
    ]);
}
