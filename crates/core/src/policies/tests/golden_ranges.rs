//! Golden decisions of the rules that go by address, by turns or by the clock: Solaris, VxVM,
//! RAIDframe's partition and the older rules of ZFS.

use super::script::{Script, Step, complete, follow, members, read, read_long, wait};
use crate::units::{GIB, KIB, MIB};

/// Members of a gibibyte: the parts of two are 512 MiB, those of three 341 1/3 MiB.
#[test]
fn solaris_gives_each_mirror_its_part() {
    let third = GIB.div_ceil(3);
    follow(
        "solaris/geometric",
        members(3, |_| ()),
        &[
            read(0, 1, "the first third"),
            read(third - 1, 1, "its last byte; the read crosses, its first byte decides"),
            read(third, 2, "the second third begins"),
            read(2 * third - 1, 2, "its last byte"),
            read(2 * third, 3, "the last third begins"),
            read(GIB - 4096, 3, "the end"),
            read(0, 1, "one in flight or five: load is not considered"),
            Step::Eligible(&[1, 3]),
            read(GIB / 2 - 4096, 1, "two are left, so halves: the lower one"),
            read(GIB / 2, 3, "the upper half, of the second that is left"),
            Step::Eligible(&[2, 3]),
            read(0, 2, "the first that is left has the lower half"),
        ],
    );
    Script::new("geometric", members(2, |_| ())).with_stripes(&[2, 1]).follow(&[
        read(0, 1, "the first member, not the first stripe"),
        read(GIB / 2, 2, "the second member"),
    ]);
}

/// Members of 1 and 4 GiB: the address is taken on the first.
#[test]
fn solaris_takes_the_size_of_the_first_member() {
    follow(
        "solaris/geometric",
        members(2, |config| config.size_bytes = if config.devid == 1 { GIB } else { 4 * GIB }),
        &[
            read(GIB / 2 - 4096, 1, "the lower half of 1 GiB"),
            read(GIB / 2, 2, "the upper half of 1 GiB, though the lower one of 4"),
        ],
    );
}

#[test]
fn raidframe_partition_halves_the_primary() {
    follow(
        "raidframe/partition",
        members(3, |_| ()),
        &[
            read(0, 1, "the lower half: the primary"),
            read(GIB / 2 - 4096, 1, "the end of the lower half"),
            read(GIB / 2, 2, "the upper half: its mirror"),
            read(GIB - 4096, 2, "the end; a third copy is not read"),
            read(0, 1, "two in flight: load is not considered"),
            Step::Eligible(&[1, 3]),
            read(GIB / 2, 3, "2 is missing: the next one is the mirror"),
            read(0, 1, "the primary is there"),
            Step::Eligible(&[2, 3]),
            read(0, 2, "the primary is missing: the next one takes its place"),
            read(GIB / 2, 3, "and 3 is the mirror"),
        ],
    );
}

#[test]
fn vxvm_takes_turns_but_continues_a_run() {
    follow(
        "vxvm/round",
        members(3, |_| ()),
        &[
            read(8 * MIB, 1, "the first turn"),
            read(8 * MIB + 4 * KIB, 1, "it continues"),
            read_long(8 * MIB + 8 * KIB, 64 * KIB, 1, "it continues"),
            read(
                8 * MIB + 72 * KIB,
                1,
                "a run continues where the last read ended, whatever its length",
            ),
            read(0, 2, "not sequential: the next turn; the run did not use turns up"),
            read(8 * MIB + 76 * KIB, 3, "only one run is remembered: a turn"),
            read(4096, 1, "not where the last read ended: a turn"),
            read(4096, 2, "the same block again is no continuation"),
            read(8192, 2, "it continues"),
            Step::Eligible(&[1, 3]),
            read(12 * KIB, 3, "it continues, but 2 is gone: the turn after 2"),
            read(16 * KIB, 3, "it continues on 3"),
            Step::Eligible(&[1, 2, 3]),
            read(20 * KIB, 3, "it stays on 3, though 2 is back"),
            read(0, 1, "the turn after 3"),
        ],
    );
    Script::new("vxvm/round", members(2, |_| ())).with_stripes(&[2, 1]).follow(&[
        read(0, 1, "no read came before, so nothing continues: the turn of the first member"),
        read(MIB, 2, "the next"),
    ]);
}

#[test]
fn zfs_offset_stripes_the_volume() {
    follow(
        "zfs/offset",
        members(3, |_| ()),
        &[
            read(0, 1, "0 % 3"),
            read(2 * MIB - 4096, 1, "the end of the first 2 MiB"),
            read(2 * MIB, 2, "1 % 3"),
            read(4 * MIB, 3, "2 % 3"),
            read(6 * MIB, 1, "3 % 3"),
            read(6 * MIB, 1, "again: load is not considered"),
            Step::Eligible(&[1, 3]),
            read(2 * MIB, 3, "1 % 3 is missing: the next child"),
            read(4 * MIB, 3, "2 % 3: still of three"),
            Step::Eligible(&[1, 2]),
            read(4 * MIB, 1, "2 % 3 is missing: the next, from the start again"),
        ],
    );
    Script::new("zfs/offset", members(2, |_| ()))
        .with_stripes(&[2, 1])
        .follow(&[read(0, 2, "the chunk's first copy"), read(2 * MIB, 1, "its second")]);
}

#[test]
fn zfs_pending_breaks_ties_by_the_clock() {
    follow(
        "zfs/pending-10ms",
        members(3, |_| ()),
        &[
            read(0, 1, "all idle, interval 0: number 0 of 3"),
            read(4096, 2, "2 and 3 are idle: number 0 of 2, though 1 is in position"),
            read(0, 3, "3 is idle"),
            wait(9),
            read(0, 1, "one each, still interval 0"),
            wait(1),
            read(0, 3, "2 and 3 have one, interval 1: number 1 of 2"),
            read(0, 2, "2 has one, the others two"),
            read(0, 2, "two each, interval 1: number 1 of 3"),
            complete(3, 1),
            Step::Write { devid: 3, offset: 0, length: 4096 },
            read(0, 3, "1 and 3 have two: a write counts; number 1 of 2"),
            wait(10),
            read(0, 1, "1 has two, the others three"),
            read(0, 3, "three each, interval 2: number 2 of 3"),
            wait(10),
            read(0, 2, "1 and 2 have three, interval 3: number 1 of 2"),
        ],
    );
    Script::new("zfs/pending-10ms", members(2, |_| ())).with_stripes(&[2, 1]).follow(&[
        read(0, 1, "number 0 is the first member, not the first stripe"),
        complete(1, 1),
        wait(10),
        read(0, 2, "both idle, interval 1"),
    ]);
}
