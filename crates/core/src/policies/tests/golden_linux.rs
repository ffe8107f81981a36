//! Golden decisions of DRBD and old btrfs patches.

use super::script::{
    Script, Step, complete, follow, members, read, read_by, read_long, read_on_cpu,
};
use crate::units::{KIB, MIB};

#[test]
fn drbd_prefers_a_side() {
    follow(
        "drbd/prefer-local",
        members(3, |_| ()),
        &[
            read(0, 1, "local is the lowest index"),
            read(MIB, 1, "however busy"),
            read(4096, 1, "whatever the offset"),
            Step::Eligible(&[2, 3]),
            read(0, 2, "1 is dead: 2 is the lowest"),
            read(0, 2, "and stays so"),
            Step::Eligible(&[1, 3]),
            read(0, 1, "1 is back"),
        ],
    );
    Script::new("drbd/prefer-local", members(2, |_| ())).with_stripes(&[2, 1]).follow(&[read(
        0,
        1,
        "the lowest index, not the first stripe",
    )]);
    follow(
        "drbd/prefer-remote",
        members(3, |_| ()),
        &[
            read(0, 2, "the first peer"),
            read(0, 3, "the next"),
            read(0, 2, "and around"),
            Step::Eligible(&[1, 3]),
            read(0, 3, "the only peer"),
            read(0, 3, "again"),
            Step::Eligible(&[2, 3]),
            read(0, 3, "2 is local now"),
            Step::Eligible(&[1, 2, 3]),
            read(0, 2, "around, past the local one"),
        ],
    );
}

#[test]
fn drbd_round_robin() {
    follow(
        "drbd/round-robin",
        members(3, |_| ()),
        &[
            read(0, 1, "local first"),
            read(4096, 2, "remote: the first peer"),
            read_long(8192, MIB, 1, "local, whatever the size"),
            read(0, 3, "remote: the next peer"),
            read(0, 1, "local"),
            read(0, 2, "remote: around"),
        ],
    );
}

#[test]
fn drbd_least_pending() {
    follow(
        "drbd/least-pending",
        members(2, |_| ()),
        &[
            read(0, 1, "0 against 0: local"),
            read(0, 2, "1 against 0"),
            read(0, 1, "1 against 1: local"),
            read(0, 2, "2 against 1"),
            Step::Write { devid: 2, offset: 0, length: 4096 },
            read(0, 1, "2 against 3, a write counts"),
            read(0, 1, "3 against 3"),
            read(0, 2, "4 against 3"),
        ],
    );
    follow(
        "drbd/least-pending",
        members(3, |_| ()),
        &[
            read(0, 1, "0 against 0"),
            read(0, 2, "1 against 0 at the first peer"),
            read(0, 3, "1 against 0 at the next"),
            read(0, 1, "1 against 1 at the first peer again"),
            read(0, 2, "2 against 1: its turn was not used up"),
        ],
    );
}

#[test]
fn drbd_striping() {
    follow(
        "drbd/striping:32K",
        members(2, |_| ()),
        &[
            read(0, 1, "stripe 0"),
            read(28 * KIB, 1, "the end of stripe 0"),
            read(32 * KIB, 2, "stripe 1"),
            read(64 * KIB, 1, "stripe 2"),
            read_long(60 * KIB, 64 * KIB, 2, "begins in stripe 1"),
            read(MIB, 1, "stripe 32"),
        ],
    );
    follow(
        "drbd/striping",
        members(3, |_| ()),
        &[
            read(252 * KIB, 1, "stripe 0 of 256 KiB"),
            read(256 * KIB, 2, "stripe 1: the first peer"),
            read(260 * KIB, 3, "stripe 1: the next peer"),
        ],
    );
}

#[test]
fn btrfs_titovets() {
    let mut rotational = Script::new("btrfs/titovets", members(2, |_| ()));
    for _ in 0..9 {
        rotational.follow(&[read_by(1, 2, "the pid's stripe; up to 8 more than the other")]);
    }
    rotational.follow(&[
        read_by(1, 1, "9 against 0: more than 8"),
        read_by(1, 2, "9 against 1: 8"),
        read_by(0, 1, "the pid's stripe, and the shorter"),
    ]);
    let solid = members(2, |config| config.rotational = false);
    follow(
        "btrfs/titovets",
        solid,
        &[
            read_by(0, 1, "the pid's stripe"),
            read_by(0, 1, "1 against 0"),
            read_by(0, 1, "2 against 0"),
            read_by(0, 2, "3 against 0: more than 2"),
            read_by(0, 1, "3 against 1: 2"),
            Step::Write { devid: 1, offset: 0, length: 4096 },
            read_by(0, 2, "5 against 1, a write counts"),
        ],
    );
    let mut mixed =
        Script::new("btrfs/titovets", members(2, |config| config.rotational = config.devid == 1));
    for _ in 0..9 {
        mixed.follow(&[read_by(0, 2, "the one that does not rotate, whatever the pid")]);
    }
    mixed.follow(&[read_by(0, 1, "9 against 0: more than 8")]);
    follow(
        "btrfs/titovets",
        members(3, |_| ()),
        &[
            read_by(2, 3, "the third stripe"),
            Step::Eligible(&[1, 2]),
            read_by(2, 1, "it is dead: the lowest live one"),
        ],
    );
}

#[test]
fn btrfs_inflight() {
    let mut script = Script::new("btrfs/inflight", members(2, |_| ()));
    script.follow(&[
        read(0, 1, "none known: the lowest stripe"),
        complete(1, 10),
        read(0, 2, "2 is unknown: 0"),
        complete(2, 20),
    ]);
    for _ in 0..20 {
        script.follow(&[read(0, 1, "10 ms below ten in flight, 20 ms below twenty: a tie")]);
    }
    script.follow(&[
        read(0, 2, "10 + 10 * 2 against 20"),
        read(0, 2, "30 against 20: one in flight does not count"),
        complete(1, 10),
        read(0, 1, "10 + 10 * 1 against 20: a tie again"),
        Step::Write { devid: 1, offset: 0, length: 4096 },
        complete(1, 10),
        read(0, 2, "twenty in flight, of which one is a write"),
    ]);
}

#[test]
fn btrfs_rostecki_fills_one_queue_after_the_other() {
    follow(
        "btrfs/rostecki",
        members(3, |config| config.queue_depth = 2),
        &[
            read(0, 1, "the first stripe, empty"),
            read(MIB, 1, "one of two: its queue is not full; not round-robin"),
            read(2 * MIB, 2, "1 is full: the next"),
            read(3 * MIB, 2, "2 was used last and is not full"),
            Step::Write { devid: 3, offset: 0, length: 4096 },
            read(4 * MIB, 3, "2 is full; 3 has one write"),
            read(5 * MIB, 3, "all are full: the one used last gets all reads"),
            read(6 * MIB, 3, "again"),
            complete(1, 1),
            read(7 * MIB, 1, "3 has four: on and around to 1, which has one"),
            complete(3, 1),
            complete(3, 1),
            complete(3, 1),
            read(8 * MIB, 3, "1 is full, so is 2, 3 has one"),
            read_on_cpu(1, 1, "this CPU has used none, so it begins at 1; all are full: it stays"),
            complete(2, 1),
            read_on_cpu(1, 2, "1 is full: the next"),
            complete(1, 1),
            complete(1, 1),
            read(9 * MIB, 1, "CPU 0 used 3, which is full: around to 1"),
            Step::Eligible(&[2, 3]),
            complete(3, 1),
            read(10 * MIB, 3, "1 is dead, 2 is full, 3 has one"),
        ],
    );
}

#[test]
fn btrfs_rostecki_counts_a_seek_on_rotational_disks_of_mixed_arrays() {
    let configs = members(2, |config| {
        config.queue_depth = 2;
        config.rotational = config.devid == 1;
    });
    follow(
        "btrfs/rostecki",
        configs,
        &[
            read(0, 1, "0, and the last I/O ended there"),
            read(4096, 1, "1, and it continues"),
            complete(1, 1),
            read(MIB, 2, "1 + 1 for the seek is 2"),
            read(64 * MIB, 2, "1: a seek costs nothing on 2"),
            read(8192, 1, "2 is full; 1 has 1, and the read continues its last"),
            complete(1, 1),
            complete(1, 1),
            read(MIB, 1, "0 + 1 for the seek"),
            complete(1, 1),
            Step::Write { devid: 1, offset: 32 * MIB, length: 4096 },
            read(32 * MIB + 4096, 1, "1, and it continues the write"),
            complete(2, 1),
            read(0, 2, "1 is full"),
        ],
    );
}
