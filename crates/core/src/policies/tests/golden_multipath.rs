//! Golden decisions of dm-multipath and NVMe multipath.

use super::script::{Script, Step, complete, follow, members, read, read_long, read_on_cpu, wait};
use crate::member::{MemberIndex, MemberState};
use crate::units::MIB;

#[test]
fn multipath_round_robin() {
    follow(
        "dm/round-robin",
        members(3, |_| ()),
        &[
            read(0, 1, "the head of the list"),
            read(0, 2, "2, 3, 1"),
            read(0, 3, "3, 1, 2"),
            read(0, 1, "1, 2, 3"),
            Step::Eligible(&[1, 3]),
            read(0, 3, "2, 3, 1, but 2 is dead"),
            read(0, 1, "2, 1, 3"),
            read(0, 3, "2, 3, 1"),
            Step::Eligible(&[1, 2, 3]),
            read(0, 2, "2 has waited longest"),
            read(0, 1, "1 was before 3: a pointer over the members would give 3"),
        ],
    );
}

#[test]
fn multipath_queue_length() {
    follow(
        "dm/queue-length",
        members(2, |_| ()),
        &[
            read(0, 1, "none in flight: the head of the list"),
            read(0, 2, "1 against 0"),
            read(0, 1, "one each: 1 was chosen longer ago"),
            complete(2, 1),
            read(0, 2, "2 against 0"),
            read(0, 2, "2 against 1"),
            read(0, 1, "two each: 1 was chosen longer ago"),
            complete(2, 1),
            complete(2, 1),
            Step::Write { devid: 2, offset: 0, length: 4096 },
            read(0, 2, "3 against 1 write"),
            complete(1, 1),
            complete(1, 1),
            complete(1, 1),
            complete(2, 1),
            complete(2, 1),
            read(0, 1, "none in flight: 1 was chosen longer ago"),
            complete(1, 1),
            read(0, 2, "one reader takes turns"),
        ],
    );
}

#[test]
fn multipath_service_time() {
    follow(
        "dm/service-time",
        members(2, |_| ()),
        &[
            read_long(0, 8192, 1, "no bytes in flight: the head of the list"),
            read(0, 2, "8192 against 0"),
            read(0, 2, "8192 against 4096"),
            read(0, 1, "8192 each: 1 was chosen longer ago"),
            read(0, 2, "12288 against 8192"),
            read(0, 1, "12288 each: 1 was chosen longer ago"),
            Step::Write { devid: 2, offset: 0, length: 65536 },
            read(0, 1, "16384 against 12288 and a write of 65536"),
            complete(1, 1),
            read_long(0, MIB, 1, "12288 against 77824; its own bytes do not matter"),
            read(0, 2, "1060864 against 77824"),
        ],
    );
}

#[test]
fn nvme_multipath() {
    follow(
        "nvme/round-robin",
        members(3, |_| ()),
        &[
            read(0, 1, "the first"),
            read(0, 2, "the next"),
            read(0, 3, "the next"),
            read(0, 1, "around"),
            Step::Eligible(&[1, 3]),
            read(0, 3, "2 is dead"),
            read(0, 1, "around"),
            Step::Eligible(&[1, 2, 3]),
            read(0, 2, "the next"),
        ],
    );
    let steps = [
        read(0, 1, "none in flight: the lowest index"),
        read(0, 2, "1 against 0"),
        read(0, 1, "one each"),
        Step::Write { devid: 2, offset: 0, length: 4096 },
        read(0, 1, "two each, a write counts"),
        read(0, 2, "3 against 2"),
        read(0, 1, "three each"),
        complete(2, 1),
        read(0, 2, "4 against 2"),
    ];
    follow("nvme/queue-depth", members(2, |_| ()), &steps);
    Script::new("nvme/queue-depth", members(2, |_| ())).with_stripes(&[2, 1]).follow(&steps);
}

#[test]
fn multipath_round_robin_repeats() {
    follow(
        "dm/round-robin:3",
        members(3, |_| ()),
        &[
            read(0, 1, "the head: 1 of 3"),
            read(MIB, 1, "2 of 3"),
            read(0, 1, "3 of 3"),
            read(0, 2, "the next: 1 of 3"),
            Step::Eligible(&[1, 3]),
            read(0, 3, "2 has no mirror here, which ends its turn; 3 has waited longest"),
            Step::Eligible(&[1, 2, 3]),
            read(0, 3, "2 of 3: 2 does not get its turn back"),
            read(0, 3, "3 of 3"),
            read(0, 1, "1, 2, 3"),
            read(0, 1, "2 of 3"),
            read(0, 1, "3 of 3"),
            read(0, 2, "2, 3, 1"),
        ],
    );
}

/// A base weight of 0 makes the last service time the mean.
#[test]
fn multipath_historical_service_time_at_depth() {
    follow(
        "dm/historical-service-time:0",
        members(2, |_| ()),
        &[
            wait(1),
            read(0, 1, "both idle, neither ever completed: the head of the list"),
            read(0, 2, "of 2, idle, and 1, busy, neither is staler than 0: the head, 2"),
            wait(9),
            complete(1, 9),
            wait(10),
            complete(2, 19),
            read(
                0,
                1,
                "9 ms, fresh until 10 + 2 * 9 = 28; 19 ms, until 58: both idle, 1 is staler",
            ),
            read(0, 1, "2 * 9 against 19, though 2 is idle: it is fresh"),
            read(0, 2, "3 * 9 against 19"),
            read(0, 1, "3 * 9 against 2 * 19"),
            read(0, 1, "4 * 9 against 2 * 19"),
            read(0, 2, "5 * 9 against 2 * 19"),
            wait(9),
            read(0, 2, "45 against 57 ms, but 1 is stale since 28: two in flight against four"),
            read(0, 2, "stale: three against four"),
            read(0, 1, "stale, four each: the head of the list"),
            complete(1, 9),
            read(0, 1, "9 ms since 20 make it fresh: 5 * 9 against 5 * 19"),
        ],
    );
}

/// At depth one both are idle at every decision. The fast disk takes 1 ms, the slow 10.
#[test]
fn multipath_historical_service_time_one_at_a_time() {
    let mut script = Script::new("dm/historical-service-time:0", members(2, |_| ()));
    script.follow(&[
        wait(1),
        read(0, 1, "both idle and unknown: the head"),
        wait(1),
        complete(1, 1),
        read(0, 2, "2 never completed: staler than 2 + 2 * 1 = 4"),
        wait(10),
        complete(2, 10),
    ]);
    for _ in 0..18 {
        // From 12 ms on, one more each time; 2 is fresh until 12 + 2 * 10 = 32.
        script.follow(&[read(0, 1, "1 was fresh for 2 ms: before 32"), wait(1), complete(1, 1)]);
    }
    script.follow(&[
        read(0, 2, "30 + 2 against 32: the head of the list, however slow"),
        wait(10),
        complete(2, 10),
        read(0, 1, "32 against 40 + 20"),
    ]);
}

#[test]
fn multipath_historical_service_time_forgets_by_the_length_of_the_sample() {
    follow(
        "dm/historical-service-time",
        members(2, |_| ()),
        &[
            wait(1),
            read(0, 1, "the head"),
            read(0, 2, "the head"),
            read(0, 1, "one each, both stale: the head"),
            read(0, 2, "one against two, both stale"),
            wait(9),
            complete(1, 9),
            read(
                0,
                1,
                "9 ms count 5 %: 0.46; 2 seems to take no time, but is stale: one against two",
            ),
            read(0, 2, "stale, two each: the head of the list"),
            complete(2, 9),
            read(0, 2, "0.46 each, fresh, two each: of equal estimates the later of the list"),
            read(0, 1, "2 + 1 against 3 + 1"),
            wait(2000),
            complete(1, 2000),
            complete(2, 2000),
            complete(2, 2000),
            complete(2, 2000),
            read(0, 2, "2000 ms are the mean of 1; of 2 too, but two of no time followed: 1802"),
        ],
    );
}

#[test]
fn multipath_historical_service_time_takes_similar_times_as_equal() {
    follow(
        "dm/historical-service-time:0:3",
        members(2, |_| ()),
        &[
            wait(1),
            read(0, 1, "none in flight, none known: the head"),
            read(0, 2, "none against one"),
            wait(9),
            complete(1, 9),
            read(0, 1, "not similar; 2 seems to take no time, but is stale: none against one"),
            wait(10),
            complete(2, 19),
            complete(1, 10),
            read(0, 2, "10 and 19 ms are similar, none in flight: the head"),
            read(0, 1, "none against one"),
            read(0, 2, "one each: the head"),
            read(0, 1, "one against two"),
            complete(2, 1),
            read(
                0,
                2,
                "0 and 10 ms are not similar: both are busy, 0 is shorter, and fresh until 20",
            ),
        ],
    );
    follow(
        "dm/historical-service-time:0:2",
        members(2, |_| ()),
        &[
            wait(1),
            read(0, 1, "the head"),
            read(0, 2, "none against one"),
            wait(9),
            complete(1, 9),
            wait(10),
            complete(2, 19),
            read(0, 1, "19 is more than 2 * 9: both idle, 1 is staler"),
            read(0, 1, "2 * 9 against 19"),
        ],
    );
}

#[test]
fn multipath_io_affinity() {
    follow(
        "dm/io-affinity",
        members(3, |_| ()),
        &[
            read_on_cpu(0, 1, "0 % 3 = 0: the first stripe"),
            read_on_cpu(1, 2, "1 % 3"),
            read_on_cpu(2, 3, "2 % 3"),
            read_on_cpu(3, 1, "3 % 3"),
            read_on_cpu(7, 2, "7 % 3"),
            read_on_cpu(1, 2, "the same CPU, whatever the queue"),
            Step::Eligible(&[2, 3]),
            read_on_cpu(1, 2, "1 % 3 of all stripes, not of those that live"),
            read_on_cpu(0, 2, "the first is dead: the lowest live one"),
            Step::Eligible(&[1, 3]),
            read_on_cpu(4, 1, "the second is dead: the lowest live one"),
            Step::Eligible(&[1, 2, 3]),
            read_on_cpu(4, 2, "it is back"),
        ],
    );
    Script::new("dm/io-affinity", members(2, |_| ())).with_stripes(&[2, 1]).follow(&[read_on_cpu(
        0,
        2,
        "the first stripe, not the first member",
    )]);
}

#[test]
fn nvme_numa_keeps_its_path() {
    let mut script = Script::new("nvme/numa", members(3, |_| ())).with_stripes(&[3, 2, 1]);
    script.follow(&[
        read(0, 1, "the first of the list, not the first stripe"),
        read(64 * MIB, 1, "kept, whatever the queue and the place"),
        read_on_cpu(5, 1, "on any CPU: one node"),
        Step::Eligible(&[2, 3]),
        read(0, 2, "1 cannot serve: the first of the others"),
        Step::Eligible(&[1, 2, 3]),
        read(0, 2, "kept while it can serve"),
        Step::Eligible(&[1, 3]),
        read(0, 1, "2 cannot: the first"),
        Step::Eligible(&[2, 3]),
        read(0, 2, "1 cannot"),
        Step::Eligible(&[1, 2, 3]),
        read(0, 2, "kept"),
    ]);
    script.policy.on_members_change(&script.members);
    script.follow(&[read(0, 1, "a member came back: searched again")]);
}

/// Plays this many reads that must all come from one member, on CPU 0.
fn turn(script: &mut Script, reads: u32, from: u64) {
    for number in 0..reads {
        assert_eq!(script.read(0, 4096, 0), from, "read {number} of {reads}");
    }
}

#[test]
fn nvme_adaptive_shares_out_64_reads_by_inverse_latency() {
    let mut script = Script::new("nvme/adaptive", members(2, |_| ()));
    script.follow(&[
        read(0, 1, "no weights: the first"),
        read(0, 1, "it keeps its turn until a read of it completes"),
        complete(1, 10),
    ]);
    // Its first read is a batch. A score of 1 s / 10 ms = 100 against none: 64, and at least 1.
    assert_eq!([1, 2].map(|devid| script.counter("weight", Some(devid))), [64, 1]);
    turn(&mut script, 64, 1);
    script.follow(&[read(0, 2, "64 are spent: 2 has one"), complete(2, 30)]);
    // 1 s / 30 ms = 33: 64 * 100 / 133 = 48, 64 * 33 / 133 = 15.
    assert_eq!([1, 2].map(|devid| script.counter("weight", Some(devid))), [48, 15]);
    turn(&mut script, 64, 1); // It was given 64 when its turn ended, under the old weights.
    turn(&mut script, 15, 2);
    turn(&mut script, 48, 1);
    turn(&mut script, 15, 2);
    script.follow(&[
        read_on_cpu(1, 1, "this CPU begins a round of its own"),
        read(0, 1, "CPU 0 goes on with its own"),
        read_on_cpu(1, 1, "47 are left"),
    ]);
    turn(&mut script, 47, 1);
    turn(&mut script, 15, 2);
}

#[test]
fn nvme_adaptive_smooths_batches_of_15_seconds() {
    let mut script = Script::new("nvme/adaptive", members(2, |_| ()));
    let weights = |script: &Script| [1, 2].map(|devid| script.counter("weight", Some(devid)));
    turn(&mut script, 8, 1);
    script.play(&complete(1, 10));
    turn(&mut script, 64, 1);
    turn(&mut script, 1, 2);
    script.follow(&[complete(2, 30), wait(14_999), complete(1, 100)]);
    assert_eq!(weights(&script), [48, 15], "the batch has not ended");
    script.follow(&[wait(1), complete(1, 1001)]);
    assert_eq!(weights(&script), [48, 15], "more than a second does not count");
    script.follow(&[Step::Write { devid: 2, offset: 0, length: 4096 }, complete(2, 500)]);
    assert_eq!(weights(&script), [48, 15], "a write does not count");
    script.follow(&[complete(1, 20)]);
    // The batch is (100 + 20) / 2 = 60; (7 * 10 + 60) / 8 = 16.25 ms, a score of 61 against 33.
    assert_eq!(weights(&script), [41, 22]);
    script.members.get_mut(MemberIndex(0)).state = MemberState::Failed;
    script.policy.on_members_change(&script.members);
    assert_eq!(weights(&script), [0, 22], "a failed member loses its mean");
    script.follow(&[Step::Eligible(&[2]), read(0, 2, "the only one"), Step::Eligible(&[1, 2])]);
    turn(&mut script, 21, 2);
    turn(&mut script, 30, 1);
}
