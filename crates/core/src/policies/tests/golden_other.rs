//! Golden decisions of SPDK and RAIDframe.

use super::script::{Step, complete, follow, members, read, read_long};
use crate::units::MIB;

#[test]
fn spdk_counts_bytes_of_reads() {
    follow(
        "spdk/raid1",
        members(2, |_| ()),
        &[
            read_long(0, 8192, 1, "no bytes in flight: the lowest index"),
            read(0, 2, "8192 against 0"),
            read(0, 2, "8192 against 4096"),
            read(0, 1, "8192 each"),
            Step::Write { devid: 2, offset: 0, length: 65536 },
            read(0, 2, "12288 against 8192: a write does not count"),
            complete(2, 1),
            read(0, 2, "12288 against 8192"),
            read(0, 1, "12288 each"),
            complete(2, 1),
            complete(2, 1),
            read(0, 2, "16384 against 8192; the write ended and took nothing off"),
            read(0, 2, "16384 against 12288"),
            read(0, 1, "16384 each"),
        ],
    );
}

#[test]
fn raidframe_goes_by_queue_then_by_position() {
    follow(
        "raidframe/idle",
        members(2, |_| ()),
        &[
            read(0, 1, "none in flight, heads at 0: the lowest index"),
            read(4096, 2, "1 against 0, though the head of 1 is there"),
            read(8192, 2, "one each: 4096 against 0"),
            read(12288, 1, "1 against 2, though the head of 2 is there"),
            read(MIB, 1, "two each: from 16384 against from 12288"),
            read(MIB, 2, "3 against 2"),
            read(0, 1, "three each, both heads at 1 MiB + 4096: the lowest index"),
            Step::Write { devid: 2, offset: 8 * MIB, length: 4096 },
            read(8 * MIB + 4096, 2, "four each, a write counts and moves the head"),
        ],
    );
}
