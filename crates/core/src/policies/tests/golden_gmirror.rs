//! Golden decisions of gmirror's policies. With the priorities of `gmirror label` the list runs
//! from the last member to the first.

use super::script::{Script, Step, complete, follow, members, read, read_long};
use crate::units::{KIB, MIB};

#[test]
fn prefer() {
    follow(
        "gmirror/prefer",
        members(3, |_| ()),
        &[
            read(0, 3, "priority 2 is the highest"),
            read(0, 3, "its queue does not matter"),
            Step::Eligible(&[1, 2]),
            read(0, 2, "priority 1 of 0 and 1"),
            Step::Eligible(&[1]),
            read(0, 1, "the only one"),
            Step::Eligible(&[1, 2, 3]),
            read(0, 3, "it is back"),
            read(MIB, 3, "wherever the read is"),
            complete(3, 900),
            read(MIB + 4096, 3, "however slow it answered"),
            Step::Eligible(&[1, 2]),
            read(MIB + 8192, 2, "3 is being rebuilt, so its stream moves"),
            read(0, 2, "again"),
            Step::Eligible(&[1, 2, 3]),
            read(0, 3, "rebuilt"),
        ],
    );
    let equal = members(3, |config| config.priority = 5);
    follow("prefer", equal, &[read(0, 3, "of equals the one inserted last is the head")]);
    let reversed = members(3, |config| config.priority = 10 - config.devid as u32);
    follow("prefer", reversed, &[read(0, 1, "priority, not devid")]);
}

#[test]
fn round_robin() {
    follow(
        "gmirror/round-robin",
        members(3, |_| ()),
        &[
            read(0, 3, "the head of the list"),
            read_long(0, MIB, 2, "the next, whatever the size"),
            read(0, 1, "the last"),
            read(0, 3, "around"),
            Step::Eligible(&[1, 3]),
            read(0, 1, "2 would be next but is dead"),
            read(0, 3, "around"),
            Step::Eligible(&[1, 2, 3]),
            read(0, 2, "after 3 comes 2 again"),
            complete(3, 900),
            read(4096, 1, "the last"),
            read(8192, 3, "around: a stream is broken up, and the slow disk has its turn"),
            read(0, 2, "the next"),
            Step::Eligible(&[1, 2]),
            read(0, 1, "the last"),
            read(0, 2, "3 is being rebuilt: around to 2"),
            Step::Eligible(&[1, 2, 3]),
            read(0, 1, "after 2 comes 1; 3 does not get its turn back"),
        ],
    );
}

#[test]
fn split() {
    follow(
        "gmirror/split",
        members(3, |_| ()),
        &[
            read(0, 3, "4096 bytes are not more than the slice: head of the list"),
            read_long(0, 8 * KIB, 0, "longer: split"),
            read(0, 2, "the split did not move the pointer"),
            read_long(0, 128 * KIB, 0, "longer: split"),
            read(0, 1, "the last of the list"),
            read(0, 3, "around"),
            Step::Eligible(&[1, 3]),
            read_long(MIB, 128 * KIB, 0, "split in two, because 2 is being rebuilt"),
            read(0, 1, "2 would be next"),
            Step::Eligible(&[1, 2, 3]),
            complete(3, 900),
            read(0, 3, "around, however slow"),
            read_long(0, 4608, 0, "a block more than the slice: split"),
            read(4608, 2, "the next, though all heads are elsewhere"),
        ],
    );
    follow(
        "split:16K",
        members(2, |_| ()),
        &[
            read_long(0, 16 * KIB, 2, "as long as the slice: a turn"),
            read_long(0, 20 * KIB, 0, "longer: split"),
        ],
    );
}

#[test]
fn load_old() {
    follow(
        "gmirror/load-old",
        members(3, |_| ()),
        &[
            read(0, 3, "none was ever used: the head of the list"),
            read(0, 2, "3 was just used; 2 is the next that never was"),
            read(0, 1, "1 never was"),
            read(0, 3, "all in use, none has completed: waits of 0 tie to the head"),
            complete(3, 9),
            read(0, 2, "9, 0, 0 ms in list order: the first 0"),
            complete(2, 7),
            complete(1, 8),
            read(0, 2, "9, 7, 8 ms, whatever the queues"),
            Step::Wait { millis: 1_500 },
            read(0, 2, "second 1 less second 0 is not 2: 7 ms is least; 2 is used in second 1"),
            Step::Wait { millis: 600 },
            read(0, 3, "second 2 less 0: 3 was not used for long, though it has 9 ms"),
            read(0, 1, "nor was 1"),
            read(0, 2, "2 was used in second 1: all were used, 7 ms is least"),
            Step::Write { devid: 3, offset: 0, length: 4096 },
            complete(3, 6),
            read(0, 3, "the last wait of 3 is 6 ms"),
            Step::Eligible(&[1, 2]),
            read(0, 2, "3 is being rebuilt: 7 against 8 ms"),
            Step::Eligible(&[1, 2, 3]),
            read(4096, 3, "rebuilt: 6 ms, though 2 read just before this"),
            complete(2, 6),
            read(8192, 3, "6 ms each: the head of the list"),
        ],
    );
}

#[test]
fn load_old_uses_waits_of_writes_and_whole_seconds() {
    follow(
        "load-old",
        members(2, |_| ()),
        &[
            read(0, 2, "the head"),
            read(0, 1, "never used"),
            complete(2, 5),
            complete(1, 6),
            Step::Write { devid: 2, offset: 0, length: 4096 },
            complete(2, 20),
            read(0, 1, "the last I/O of 2 was a write of 20 ms"),
            Step::Wait { millis: 1_900 },
            read(0, 1, "second 1: 2 was unused for one whole second only"),
            Step::Wait { millis: 1_100 },
            read(0, 2, "second 3: 2 was unused since second 0"),
            read(0, 1, "1 was used at 1.9 s, so 3 - 1 = 2 whole seconds in 1.1 s"),
        ],
    );
}

/// The list is 2, 1. Loads in 256ths of a request; each is (256 q + 7 load) / 8 after a choice.
#[test]
fn load() {
    let far = 512 * MIB;
    let mut script = Script::new("gmirror/load", members(2, |_| ()));
    script.follow(&[
        read(0, 1, "both heads are at 0 (-512 each): ties go to the last of the list"),
        read(4096, 1, "32 - 512 (exact) against 0 - 256 (near)"),
        read(8192, 1, "92 - 512 = -420 against -256"),
        read(12288, 1, "176 - 512 = -336 against -256"),
        read(16384, 2, "282 - 512 = -230 against -256: the queue outweighs the position"),
    ]);
    assert_eq!(script.counter("load_256ths", Some(1)), 374, "(4 * 256 + 7 * 282) / 8");
    assert_eq!(script.counter("load_256ths", Some(2)), 32, "the read just sent counts");
    script.follow(&[
        read(20480, 2, "374 - 256 (near) against 32 - 512 (exact)"),
        read(far, 2, "455 against 92, both far"),
        complete(1, 1),
        complete(1, 1),
        complete(1, 1),
        complete(1, 1),
        Step::Wait { millis: 60_000 },
        read(far / 2, 2, "526 against 176: loads fall with decisions, not with time"),
        read(far, 2, "460 against 282"),
        read(far / 2, 1, "(7 * 460) / 8 = 402 against (5 * 256 + 7 * 282) / 8 = 406"),
    ]);
}

#[test]
fn load_counts_writes_and_every_member() {
    let mut script = Script::new("load", members(3, |_| ()));
    script.play(&Step::Write { devid: 2, offset: 0, length: 4096 });
    script.play(&Step::Eligible(&[1, 3]));
    script.follow(&[read(4096, 1, "2 is not eligible; 1 is last of the list")]);
    assert_eq!(script.counter("load_256ths", Some(2)), 32, "its write in flight counts");
    script.follow(&[read(8192, 1, "32 - 512 against -256")]);
    assert_eq!(script.counter("load_256ths", Some(2)), 60, "(256 + 7 * 32) / 8");
}

#[test]
fn load_is_near_below_a_mebibyte() {
    follow(
        "load",
        members(2, |_| ()),
        &[
            read(MIB, 1, "both heads exactly 1 MiB away: no bonus, tie to the last"),
            read(2 * MIB + 4096, 2, "1 exactly 1 MiB behind: 32 against 0"),
            read(2 * MIB, 2, "1: 60 - 256 (1 MiB less 4096 away); 2: 32 - 256 (behind its head)"),
            read(MIB + 4096, 1, "1: 84 - 512 (exact); 2: 92 - 256 (1 MiB less 4096 away)"),
        ],
    );
}
