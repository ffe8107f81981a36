//! Golden decisions of md raid1 and of the ZFS mirror.

use super::script::{Script, Step, complete, follow, members, read, read_long};
use crate::member::MemberConfig;
use crate::policies::Spec;
use crate::units::{KIB, MIB};

/// Length of the reads of a run: a disk gives a run up once it has two of them.
const RUN_STEP: u64 = 32 * KIB;

/// Disks that give up a run of 64 KiB if they do not rotate.
fn disks_of_64k_runs(count: u64, rotational: bool) -> Vec<MemberConfig> {
    members(count, |config| {
        config.rotational = rotational;
        config.optimal_io_bytes = 2 * RUN_STEP;
    })
}

#[test]
fn md_of_rotational_disks() {
    follow(
        "md/raid1",
        members(2, |_| ()),
        &[
            read(0, 1, "all heads are at 0: sequential on the first slot"),
            read(4096, 1, "1 continues"),
            read(MIB, 2, "no stream; 2 is idle"),
            read(8192, 1, "1 continues, though it has two in flight"),
            read(MIB + 4096, 2, "2 continues"),
            read(512 * KIB, 1, "no stream, none idle; both heads at 0: the lower slot"),
            complete(2, 1),
            read(700 * KIB, 2, "heads at 0 and at 1 MiB + 4 KiB: 2 is nearer"),
            read(704 * KIB, 2, "2 continues"),
            complete(1, 1),
            complete(1, 1),
            complete(1, 1),
            read(900 * KIB, 2, "nearer, though 2 has three in flight and 1 has one"),
            read(12 * KIB, 1, "the head of 1 is there: sequential by position"),
            read(516 * KIB, 1, "nearer 1: its last read was at 12 KiB, so no stream"),
        ],
    );
}

#[test]
fn md_takes_idle_disks_first_and_streams_before_all() {
    follow(
        "md",
        members(2, |_| ()),
        &[
            read(MIB, 1, "both idle: the lower slot"),
            read(8 * MIB, 2, "2 is idle"),
            complete(1, 1),
            complete(2, 1),
            read(7 * MIB, 1, "both idle: the lower slot, though the head of 2 is nearer"),
            complete(1, 1),
            read(8 * MIB + 4096, 2, "a stream goes before an idle disk of a lower slot"),
            Step::Write { devid: 2, offset: 32 * MIB, length: 4096 },
            complete(2, 1),
            complete(2, 1),
            read(32 * MIB + 4096, 2, "a write moves the head too"),
        ],
    );
    Script::new("md", members(2, |_| ())).with_stripes(&[2, 1]).follow(&[
        read(0, 1, "sequential on both: the lower slot, not the first stripe"),
        read(MIB, 2, "2 is idle"),
    ]);
}

#[test]
fn md_while_a_member_is_rebuilt_and_another_is_slow() {
    follow(
        "md",
        members(3, |_| ()),
        &[
            Step::Eligible(&[1, 3]),
            read(MIB, 1, "both idle: the lower slot"),
            read(MIB + 4096, 1, "1 continues"),
            read(64 * MIB, 3, "3 is idle; 2 would be, but is being rebuilt"),
            Step::Eligible(&[1, 2, 3]),
            read(128 * MIB, 2, "rebuilt, and idle"),
            read(64 * MIB + 4096, 3, "3 continues"),
            complete(1, 900),
            complete(1, 900),
            read(32 * MIB, 1, "idle, however slow it was"),
            complete(2, 1),
            read(128 * MIB + 8192, 2, "idle; 4096 on from its head is no stream"),
            read(60 * MIB, 1, "no one is idle; heads are 59, 68 and 60 MiB away"),
            Step::Eligible(&[2, 3]),
            read(60 * MIB + 4096, 3, "the stream's disk cannot serve: 60 against 68 MiB"),
            read(64 * MIB + 2048, 2, "64 MiB each: the lower slot"),
        ],
    );
}

#[test]
fn md_of_non_rotational_disks() {
    let solid = |optimal| {
        members(2, move |config| {
            config.rotational = false;
            config.optimal_io_bytes = optimal;
        })
    };
    let step = 32 * KIB;
    let at = |reads: u64| MIB + reads * step;
    follow(
        "md",
        solid(64 * KIB),
        &[
            read_long(at(0), step, 1, "both idle: the lower slot; a run begins at 1 MiB"),
            read_long(at(1), step, 1, "the run is 32 KiB, less than io_opt"),
            read_long(at(2), step, 2, "the run is io_opt, and 2 is idle"),
            read_long(at(3), step, 2, "2 has a run of 32 KiB of its own"),
            read_long(at(4), step, 2, "the run is io_opt, but 1 is not idle: stay"),
            read_long(8 * MIB, step, 1, "no stream: two in flight against three"),
            read_long(16 * MIB, step, 1, "three each: the lower slot"),
            complete(1, 1),
            complete(1, 1),
            complete(1, 1),
            complete(1, 1),
            read_long(at(5), step, 1, "1 is idle now: 2 gives up its run"),
        ],
    );
    follow(
        "md",
        solid(0),
        &[
            read_long(MIB, MIB, 1, "both idle"),
            read_long(2 * MIB, MIB, 1, "no io_opt: the stream never leaves"),
            read_long(3 * MIB, MIB, 1, "never"),
        ],
    );
}

#[test]
fn md_before_6_9_keeps_long_runs_where_they_are() {
    let solid = || {
        members(3, |config| {
            config.rotational = false;
            config.optimal_io_bytes = 64 * KIB;
        })
    };
    let step = 32 * KIB;
    let at = |reads: u64| MIB + reads * step;
    follow(
        "md/raid1-2016",
        solid(),
        &[
            read_long(at(0), step, 1, "all idle: the lowest slot"),
            read_long(at(1), step, 1, "the run is 32 KiB, less than io_opt"),
            read_long(at(2), step, 1, "the run is io_opt, and 2 is idle, but 1 keeps it"),
            read_long(at(3), step, 1, "still"),
            read_long(8 * MIB, step, 2, "no stream: the first with an empty queue"),
            read_long(9 * MIB, step, 3, "the only one with an empty queue"),
            Step::Eligible(&[2, 3]),
            read_long(at(4), step, 2, "its disk cannot serve: one each, the lower slot"),
            read_long(at(5), step, 2, "a run of 32 KiB there"),
            read_long(at(6), step, 2, "a run of io_opt there"),
            Step::Eligible(&[1, 2, 3]),
            read_long(at(4), step, 1, "the first run ends here, and stays in spite of 4 to 1"),
        ],
    );
}

/// Slot order decides between an idle disk and the disk of the stream.
#[test]
fn md_before_4_10_takes_the_first_disk_that_is_idle_or_has_the_stream() {
    let disks = |rotational| disks_of_64k_runs(3, rotational);
    let (step, at) = (RUN_STEP, |reads: u64| MIB + reads * RUN_STEP);
    follow(
        "md/raid1-2012",
        disks(true),
        &[
            read(MIB, 1, "all idle: the lowest slot"),
            read(64 * MIB, 2, "2 and 3 are idle: the lower of them"),
            read(64 * MIB + 4096, 2, "2 has the stream, and comes before 3, which is idle"),
            read(128 * MIB, 3, "3 is idle"),
            complete(1, 1),
            read(128 * MIB + 4096, 1, "3 has the stream, but 1 is idle and comes first"),
            read(128 * MIB + 8192, 1, "1 has that stream now; so it is read before 3"),
            read(66 * MIB, 1, "none idle; heads at 1 MiB + 4 KiB, 0 and 0: 1 is nearest"),
            complete(2, 1),
            read(65 * MIB, 2, "none idle; the head of 2 is less than 1 MiB away"),
        ],
    );
    follow(
        "md/raid1-2012",
        disks(false),
        &[
            read_long(at(0), step, 1, "all idle: the lowest slot"),
            read_long(at(1), step, 1, "the run is 32 KiB, less than io_opt"),
            read_long(at(2), step, 2, "the run is io_opt, and 2 is idle"),
            read_long(at(3), step, 2, "2 has a run of 32 KiB of its own"),
            read_long(at(4), step, 3, "that is io_opt too, and 3 is idle"),
            read_long(at(5), step, 3, "3 has a run of 32 KiB of its own"),
            read_long(at(6), step, 3, "no other is idle: it stays"),
            read_long(8 * MIB, step, 1, "no stream: two in flight against two and three"),
            complete(2, 1),
            complete(2, 1),
            read_long(at(7), step, 2, "2 is idle, and comes before 3"),
        ],
    );
}

#[test]
fn md_moves_a_long_run_between_idle_disks_unless_they_rotate() {
    let disks = |rotational| disks_of_64k_runs(2, rotational);
    let (step, at) = (RUN_STEP, |reads: u64| MIB + reads * RUN_STEP);
    follow(
        "md",
        disks(false),
        &[
            read_long(at(0), step, 1, "both idle: the lower slot"),
            complete(1, 1),
            read_long(at(1), step, 1, "1 continues"),
            complete(1, 1),
            read_long(at(2), step, 2, "a run of io_opt: 1 counts as busy, though it is idle"),
            complete(2, 1),
            read_long(at(3), step, 2, "2 continues"),
            complete(2, 1),
            read_long(at(4), step, 1, "back to 1"),
        ],
    );
    follow(
        "md",
        disks(true),
        &[
            read_long(at(0), step, 1, "both idle: the lower slot"),
            read_long(at(1), step, 1, "1 continues"),
            read_long(at(2), step, 1, "a run of io_opt, but the disk rotates: it keeps its stream"),
        ],
    );
}

/// The run of a stream is long once it reaches beyond io_opt, and its part beyond that is no
/// shorter than where it began: at address 0 that is one read later than elsewhere.
#[test]
fn md_of_non_rotational_disks_at_address_zero() {
    let step = 32 * KIB;
    follow(
        "md",
        members(2, |config| {
            config.rotational = false;
            config.optimal_io_bytes = 64 * KIB;
        }),
        &[
            read_long(8 * MIB, step, 1, "both idle: the lower slot"),
            read_long(16 * MIB, step, 2, "2 is idle"),
            complete(1, 1),
            complete(2, 1),
            read_long(0, step, 1, "both idle, no stream: the lower slot; a run begins at 0"),
            complete(1, 1),
            read_long(step, step, 1, "1 continues"),
            complete(1, 1),
            read_long(2 * step, step, 1, "the run ends at io_opt, not beyond: 1 keeps it"),
            complete(1, 1),
            read_long(3 * step, step, 2, "now it is beyond, by no less than 0: 2 is idle"),
        ],
    );
}

#[test]
fn md_scans_three_slots_in_order() {
    Script::new("md", members(3, |_| ())).with_stripes(&[3, 1, 2]).follow(&[
        read(MIB, 1, "all idle: the lowest slot, the second stripe"),
        read(64 * MIB, 2, "2 and 3 are idle: the lower of them, the last stripe"),
        read(128 * MIB, 3, "3 is idle"),
    ]);
}

#[test]
fn md_scans_from_the_disk_that_the_array_was_created_with() {
    let reads = [
        read(MIB, 3, "all idle: the first slot, which 3 has"),
        read(64 * MIB, 1, "1 and 2 are idle: the lower of them"),
        read(128 * MIB, 2, "2 is idle"),
        read(192 * MIB, 3, "one each, all heads at 0: the first slot"),
    ];
    for policy in ["md/raid1:3", "md/raid1-2012:3", "md/raid1-2016:3"] {
        follow(policy, members(3, |_| ()), &reads);
    }
    let error = Spec::parse("md/raid1:9").unwrap().build(&[1, 2]).err().unwrap();
    assert!(error.to_string().contains("devid 9"), "{error}");
}

#[test]
fn md_of_mixed_disks_goes_by_queues() {
    follow(
        "md",
        members(2, |config| config.rotational = config.devid == 1),
        &[
            read(MIB, 1, "both idle: the lower slot, though it is rotational"),
            read(64 * MIB, 2, "2 is idle"),
            read(128 * MIB, 1, "one each: the lower slot"),
            read(2 * MIB, 2, "two against one; the head of 1 is as near"),
            read(256 * MIB, 1, "two each"),
            complete(1, 1),
            Step::Write { devid: 1, offset: 0, length: 4096 },
            read(300 * MIB, 2, "a write counts: three against two"),
        ],
    );
}

/// Offsets never continue a run and heads never move, so that queues alone decide.
#[test]
fn md_weighs_writes_on_arrays_with_a_non_rotational_disk() {
    let write = |devid| Step::Write { devid, offset: 900 * MIB, length: 4096 };
    follow(
        "md/raid1-weighted-writes",
        members(2, |config| config.rotational = false),
        &[
            read(MIB, 1, "both idle: the lower slot"),
            read(8 * MIB, 2, "2 is idle"),
            write(1),
            write(1),
            write(1),
            read(16 * MIB, 2, "1 + 3 against 1"),
            read(24 * MIB, 2, "4 against 2"),
            read(32 * MIB, 2, "4 against 3"),
            read(40 * MIB, 1, "four each: three writes are three, so the lower slot"),
            read(48 * MIB, 2, "5 against 4"),
            write(1),
            read(56 * MIB, 2, "2 + 5 against 5: four writes are five"),
            read(64 * MIB, 2, "7 against 6: unweighted, six each would go to the lower slot"),
            read(72 * MIB, 1, "seven each"),
            read(72 * MIB + 4096, 1, "a stream stays, however it weighs"),
        ],
    );
    follow(
        "md/raid1-weighted-writes",
        members(2, |config| config.rotational = config.devid == 1),
        &[
            write(1),
            write(1),
            write(1),
            write(1),
            read(MIB, 2, "2 is idle"),
            read(8 * MIB, 2, "5 against 1"),
            read(16 * MIB, 2, "5 against 2"),
            read(24 * MIB, 2, "5 against 3"),
            read(32 * MIB, 2, "5 against 4: writes weigh on the rotational disk too"),
            read(40 * MIB, 1, "five each: the lower slot"),
        ],
    );
}

#[test]
fn zfs_of_rotational_disks() {
    follow(
        "zfs/mirror",
        members(2, |_| ()),
        &[
            read(0, 1, "0 each; (0 >> 21) % 2 = 0"),
            read(4096, 1, "1 in flight + 0 (exact) against 0 + 2 (near)"),
            read(8192, 1, "2 + 0 against 0 + 2: tie, 0 % 2 = 0"),
            read(12288, 2, "3 + 0 against 0 + 2"),
            read(2 * MIB, 2, "3 + 5 (far) against 1 + 5"),
            read(8 * MIB, 2, "3 + 5 against 2 + 5"),
            read(2 * MIB, 2, "3 + 5 against 3 + 5: tie, (2 MiB >> 21) % 2 = 1"),
            complete(1, 1),
            complete(1, 1),
            complete(1, 1),
            read(20 * MIB, 1, "0 + 5 against 4 + 5"),
            read(20 * MIB + 4096, 1, "1 + 0 (exact) against 4 + 5"),
            Step::Write { devid: 1, offset: 32 * MIB, length: 4096 },
            complete(2, 1),
            read(22 * MIB, 2, "a write counts and moves the position: 3 + 5 each, 11 % 2 = 1"),
        ],
    );
}

#[test]
fn zfs_counts_by_its_parameters() {
    follow(
        "zfs/mirror:20:0:3:0:2M",
        members(2, |member| member.rotational = member.devid == 1),
        &[
            read(8 * MIB, 2, "0 + 20 (far) on the rotational disk, 0 + 0 on the other"),
            read(8 * MIB + 4096, 2, "20 against 1 + 0"),
            Step::Write { devid: 1, offset: 10 * MIB, length: 4096 },
            read(10 * MIB + 4096, 2, "1 + 3 (exact) against 2 + 0"),
            read(32 * MIB, 2, "21 against 3 + 0"),
            read(32 * MIB + 4096, 2, "21 against 4 + 0"),
            complete(1, 1),
            read(11 * MIB, 2, "0 + 10 (1 MiB away is near) against 5 + 0"),
        ],
    );
}

#[test]
fn zfs_is_near_below_a_mebibyte_and_breaks_ties_in_slot_order() {
    follow(
        "zfs",
        members(2, |_| ()),
        &[
            read(MIB, 1, "exactly 1 MiB is far: 5 each; tie, 0"),
            read(2 * MIB, 1, "1 + 2 (1 MiB less 4096 away) against 0 + 5"),
            read(3 * MIB + 4096, 2, "2 + 5 (exactly 1 MiB away) against 0 + 5"),
        ],
    );
    Script::new("zfs", members(2, |_| ())).with_stripes(&[2, 1]).follow(&[
        read(4 * MIB, 1, "5 each; (4 MiB >> 21) % 2 = 0: the lower slot, not the first stripe"),
        read(2 * MIB, 2, "1 + 5 against 0 + 5"),
        read(10 * MIB, 2, "6 each; 5 % 2 = 1: the higher slot"),
    ]);
}

#[test]
fn zfs_of_three_while_one_is_resilvered_and_one_is_slow() {
    follow(
        "zfs",
        members(3, |_| ()),
        &[
            read(64 * MIB, 3, "5 each: 32 % 3 = 2, the third"),
            read(66 * MIB, 2, "5, 5 and 1 + 5: 33 % 2 = 1, the second of the tied"),
            read(66 * MIB + 4096, 2, "5, 1 + 0 (exact) and 6"),
            Step::Eligible(&[1, 3]),
            read(66 * MIB + 8192, 1, "the stream's disk cannot serve: 5 against 1 + 5"),
            read(64 * MIB + 4096, 3, "1 + 5 against 1 + 0 (exact)"),
            read(65 * MIB, 3, "1 + 5 (more than 1 MiB) against 2 + 2 (less)"),
            Step::Eligible(&[1, 2, 3]),
            read(300 * MIB, 1, "1 + 5, 2 + 5 and 3 + 5"),
            complete(3, 1),
            complete(3, 1),
            complete(3, 1),
            read(400 * MIB, 3, "2 + 5, 2 + 5 and 0 + 5: the others have not answered yet"),
            read(500 * MIB, 3, "7, 7 and 1 + 5"),
            read(502 * MIB, 3, "7 each: 251 % 3 = 2"),
            read(504 * MIB, 1, "7, 7 and 8: 252 % 2 = 0"),
        ],
    );
}

#[test]
fn zfs_of_mixed_disks() {
    follow(
        "zfs",
        members(2, |config| config.rotational = config.devid == 1),
        &[
            read(100 * MIB, 2, "0 + 5 against 0 + 1 for a non-rotational seek"),
            read(200 * MIB, 2, "5 against 1 + 1"),
            read(200 * MIB + 4096, 2, "5 against 2 + 0 (exact)"),
            read(200 * MIB, 2, "5 against 3 + 1, however near"),
            read(200 * MIB, 1, "5 against 4 + 1: tie, (200 MiB >> 21) % 2 = 0"),
            read(300 * MIB, 2, "1 + 5 against 4 + 1"),
            read(300 * MIB + 4096, 2, "6 against 5 + 0"),
            read(200 * MIB + 4096, 1, "1 + 0 (exact) against 6 + 1"),
        ],
    );
}
