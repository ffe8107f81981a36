//! Golden decisions of the balancers that come from research on servers.

use super::script::{Script, Step, complete, follow, members, read, wait};

const fn write(devid: u64) -> Step {
    Step::Write { devid, offset: 0, length: 4096 }
}

#[test]
fn power_of_two_choices_of_two_mirrors() {
    follow(
        "research/p2c",
        members(2, |_| ()),
        &[
            write(1),
            read(0, 2, "1 has a write in flight; both are always drawn"),
            write(2),
            read(0, 1, "one against two"),
            write(1),
            write(1),
            read(0, 2, "four against two"),
            read(0, 2, "four against three"),
            complete(1, 9),
            complete(1, 9),
            read(0, 1, "two against four; that they took 9 ms does not matter"),
            read(0, 1, "three against four"),
        ],
    );
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

/// Members of 2 and 4 ms that serve one I/O at a time.
#[test]
fn shortest_expected_delay() {
    follow(
        "research/sed",
        members(2, |_| ()),
        &[
            read(0, 1, "both untried: the first"),
            read(0, 2, "2 is untried, 1 is awaited"),
            read(0, 1, "both awaited with one in flight: the first"),
            read(0, 2, "both awaited: one against two"),
            wait(2),
            complete(1, 2),
            wait(2),
            complete(1, 4),
            complete(2, 4),
            wait(4),
            complete(2, 8),
            read(0, 1, "2 against 4 ms: the second waits of 4 and 8 ms were half queue"),
            read(0, 1, "2 x 2 against 4: a tie, the first"),
            read(0, 2, "3 x 2 against 4"),
            read(0, 1, "3 x 2 against 2 x 4"),
            read(0, 1, "4 x 2 against 2 x 4: a tie"),
            read(0, 2, "5 x 2 against 2 x 4"),
            write(1),
            write(1),
            read(0, 2, "7 x 2 against 3 x 4; without the writes it would be 5 x 2"),
        ],
    );
}

#[test]
fn shortest_expected_delay_averages_and_expires() {
    follow(
        "sed",
        members(2, |_| ()),
        &[
            read(0, 1, "both untried: the first"),
            read(0, 2, "2 is untried"),
            wait(2),
            complete(1, 2),
            wait(2),
            complete(2, 4),
            read(0, 1, "2 against 4 ms"),
            wait(18),
            complete(1, 18),
            read(0, 1, "(7 x 2 + 18) / 8 = 4 against 4 ms: a tie"),
            wait(12),
            complete(1, 12),
            read(0, 2, "(7 x 4 + 12) / 8 = 5 against 4 ms"),
            wait(4),
            complete(2, 4),
            wait(966),
            read(0, 2, "4 against 5 ms; 1 was last read 970 ms ago, 2 966 ms"),
            wait(4),
            complete(2, 4),
            wait(26),
            read(0, 2, "1 was last read 1000 ms ago: still known"),
            wait(4),
            complete(2, 4),
            read(0, 1, "1 was last read 1004 ms ago: expired, so untried"),
            read(0, 2, "1 is awaited"),
            wait(3),
            complete(1, 3),
            complete(2, 3),
            read(0, 1, "the mean of 1 was replaced: 3 against (7 x 4 + 3) / 8 ms"),
        ],
    );
}

#[test]
fn shortest_expected_delay_is_of_reads_alone() {
    follow(
        "sed",
        members(2, |_| ()),
        &[
            read(0, 1, "both untried: the first"),
            read(0, 2, "2 is untried"),
            wait(2),
            complete(1, 2),
            wait(2),
            complete(2, 4),
            write(1),
            wait(34),
            complete(1, 34),
            read(0, 1, "2 against 4 ms; with the write it would be (7 x 2 + 34) / 8 = 6"),
            wait(2),
            complete(1, 2),
            read(0, 1, "still 2 against 4 ms"),
        ],
    );
}

/// Members of 2 and 8 ms that serve one I/O at a time.
#[test]
fn never_queue() {
    follow(
        "research/nq",
        members(2, |_| ()),
        &[
            read(0, 1, "both idle: the first"),
            read(0, 2, "2 is idle"),
            read(0, 1, "none is idle and both are awaited: one each, the first"),
            read(0, 2, "both awaited: one against two"),
            wait(2),
            complete(1, 2),
            wait(2),
            complete(1, 4),
            wait(4),
            complete(2, 8),
            read(0, 1, "1 is idle, 2 has one in flight"),
            read(0, 1, "2 x 2 against 2 x 8: none is idle"),
            wait(8),
            complete(2, 16),
            read(0, 2, "2 is idle; alone it needs 8 ms, 1 would need 3 x 2"),
            read(0, 1, "3 x 2 against 2 x 8"),
            complete(1, 8),
            complete(1, 8),
            complete(1, 8),
            complete(2, 1),
            read(0, 1, "both idle: the first, whatever they took"),
            write(2),
            wait(1001),
            read(0, 2, "none is idle, both have expired; 2 has a write and no read: untried"),
            read(0, 1, "both awaited: one against two"),
        ],
    );
    Script::new("nq", members(2, |_| ())).with_stripes(&[2, 1]).follow(&[
        read(0, 2, "both idle: the first mirror, not the first member"),
        read(0, 1, "1 is idle"),
    ]);
}

/// Members of 2 and 4 ms; each waited for nothing else, so R = 1/µ and the mean queue is 0.
#[test]
fn c3_cubes_the_queue() {
    follow(
        "research/c3",
        members(2, |_| ()),
        &[
            read(0, 1, "both untried: the first"),
            read(0, 2, "2 is untried, 1 is awaited"),
            wait(2),
            complete(1, 2),
            wait(2),
            complete(2, 4),
            read(0, 1, "1 x 2 against 1 x 4"),
            read(0, 2, "8 x 2 against 1 x 4"),
            read(0, 1, "8 x 2 against 8 x 4"),
            read(0, 2, "27 x 2 against 8 x 4"),
            read(0, 1, "27 x 2 against 27 x 4"),
            read(0, 2, "64 x 2 against 27 x 4"),
            read(0, 1, "64 x 2 against 64 x 4"),
        ],
    );
}

/// Two reads in parallel on 1, one on 2, all of 4 ms: R = 1/µ = 4 on both, but the read of 1
/// left one behind.
#[test]
fn c3_adds_the_mean_queue() {
    follow(
        "c3",
        members(2, |_| ()),
        &[
            read(0, 1, "both untried: the first"),
            read(0, 2, "2 is untried"),
            read(0, 1, "both awaited with one in flight: the first"),
            wait(4),
            complete(1, 4),
            complete(2, 4),
            read(0, 2, "(1 + 1 + 1)^3 x 4 against 1 x 4"),
            read(0, 2, "27 x 4 against 8 x 4: one in flight each, but 1 had a queue"),
            read(0, 1, "27 x 4 against (1 + 2 + 0)^3 x 4: a tie"),
            read(0, 2, "64 x 4 against 27 x 4"),
            read(0, 1, "64 x 4 against 64 x 4: a tie"),
        ],
    );
}

/// A read of 1 waited 8 ms behind a write and was served in 2; one of 2 took 9 ms.
#[test]
fn c3_adds_the_time_in_the_queue() {
    follow(
        "c3",
        members(2, |_| ()),
        &[
            write(1),
            read(0, 1, "both untried: the write does not try 1"),
            read(0, 2, "2 is untried"),
            wait(8),
            complete(1, 8),
            wait(1),
            complete(2, 9),
            wait(1),
            complete(1, 10),
            read(0, 2, "10 - 2 + 1 x 2 against 9 - 9 + 1 x 9: idle, the wait decides"),
            read(0, 1, "8 + 2 against 8 x 9"),
            read(0, 1, "8 + 8 x 2 against 8 x 9"),
            read(0, 1, "8 + 27 x 2 against 8 x 9"),
            read(0, 2, "8 + 64 x 2 against 8 x 9"),
        ],
    );
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
