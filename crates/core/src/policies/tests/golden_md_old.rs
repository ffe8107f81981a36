//! Golden decisions of md raid10, md raid1 of 2010 and graid.

use super::script::{Script, Step, complete, follow, members, read};
use crate::geometry::ArrayLayout;
use crate::member::{MemberIndex, MemberState, Members};
use crate::policies::Spec;
use crate::policy::{Choice, Ctx, Mirror, Read};
use crate::rng::Rng;
use crate::units::{GIB, MIB, Nanos};

#[test]
fn md_raid10_near_of_rotational_disks() {
    follow(
        "md/raid10",
        members(2, |_| ()),
        &[
            read(MIB, 1, "both idle: 0 each, the first stripe"),
            read(2 * MIB, 2, "2 is idle"),
            read(3 * MIB, 1, "none idle, both heads at 0: the first stripe"),
            complete(2, 1),
            read(0, 1, "the head of 1 is there: 0, as good as the idle 2, and first"),
            read(4096, 2, "2 is idle: 0 against 4096"),
            read(2 * MIB + 4096, 2, "none idle; the head of 2 is there"),
            read(MIB, 1, "1 MiB against 1 MiB + 4096"),
            read(MIB + 4096, 2, "1 MiB + 4096 against 1 MiB"),
            complete(1, 1),
            read(MIB + 4096, 1, "the head of 1 came there with its completion"),
            read(4 * MIB, 2, "3 MiB - 4096 against 2 MiB - 4096"),
            Step::Write { devid: 1, offset: 64 * MIB, length: 4096 },
            complete(2, 1),
            complete(2, 1),
            complete(2, 1),
            complete(2, 1),
            read(MIB + 4096, 1, "0 at 1 by position, 0 at 2 for idle: the first stripe"),
            read(MIB + 8192, 2, "2 is idle: 0 against 4096"),
        ],
    );
    Script::new("md/raid10:near", members(2, |_| ())).with_stripes(&[2, 1]).follow(&[
        read(MIB, 2, "both idle: the first stripe, not the lower slot"),
        read(2 * MIB, 1, "1 is idle"),
    ]);
}

#[test]
fn md_raid10_reads_non_rotational_disks_by_their_queues() {
    follow(
        "md/raid10",
        members(3, |config| config.rotational = config.devid == 1),
        &[
            read(0, 2, "1 rotates: never while another copy does not; of equals the first"),
            read(4096, 3, "1 against 0"),
            read(8192, 2, "one each"),
            complete(3, 1),
            read(MIB, 3, "2 against 0"),
            read(MIB, 3, "2 against 1"),
            read(MIB, 2, "two each"),
            Step::Eligible(&[1, 3]),
            read(MIB, 3, "1 is idle, but it rotates"),
        ],
    );
}

/// The script's mirrors share one address, as near ones do, so these are written out.
#[test]
fn md_raid10_far_and_offset_read_the_lowest_address() {
    let mut members = Members::new(members(3, |_| ()));
    members.get_mut(MemberIndex(1)).reads_in_flight = 9;
    members.get_mut(MemberIndex(2)).completed_end = MIB;
    let mirror = |member, offset| Mirror { member: MemberIndex(member), offset, copy: 0 };
    let read = Read { offset: 0, length: 4096, stream: 0, cpu: 0, background: false, copies: 2 };
    for spec in ["md/raid10:far", "md/raid10:offset"] {
        let mut policy = Spec::parse(spec).unwrap().build(&[1, 2, 3]).unwrap();
        let mut choose = |mirrors: &[Mirror]| {
            let mut ctx = Ctx { now: Nanos::ZERO, rng: &mut Rng::new(1) };
            policy.choose(&read, mirrors, &members, &mut ctx)
        };
        let steps = [
            ([mirror(0, 512), mirror(1, 0)], 1, "lower, though it has nine in flight"),
            ([mirror(1, 0), mirror(0, 512)], 0, "the same in another order"),
            ([mirror(0, 512), mirror(1, 1024)], 0, "lower, and idle"),
            ([mirror(0, 512), mirror(2, 256)], 1, "lower, both idle"),
            ([mirror(1, 512), mirror(2, 512)], 0, "a tie: the first stripe, busy as it is"),
            ([mirror(2, 512), mirror(1, 512)], 0, "a tie: the first stripe"),
            ([mirror(2, MIB), mirror(1, 4096)], 1, "lower, though the head of 2 is there"),
            ([mirror(1, 4096), mirror(2, MIB)], 0, "the same in another order"),
            ([mirror(2, MIB), mirror(0, MIB + 4096)], 0, "lower, and the stream of 2"),
            ([mirror(1, 0), mirror(2, MIB)], 0, "1 is rebuilt: the first band again, busy or not"),
        ];
        for (mirrors, place, because) in steps {
            assert_eq!(choose(&mirrors), Choice::Mirror(place), "{spec}: {because}");
        }
    }
}

#[test]
fn md_raid10_reads_non_rotational_disks_by_their_queues_in_all_layouts() {
    for spec in ["md/raid10:far", "md/raid10:offset"] {
        follow(
            spec,
            members(2, |config| config.rotational = false),
            &[
                read(MIB, 1, "both idle: the first stripe"),
                read(MIB + 4096, 2, "1 against 0"),
                read(0, 1, "one each: the first stripe"),
                complete(2, 1),
                read(0, 2, "2 against 0"),
            ],
        );
    }
}

#[test]
fn md_raid1_of_2010() {
    follow(
        "md/raid1-2010",
        members(2, |_| ()),
        &[
            read(MIB, 1, "idle, and first in the scan from slot 0"),
            read(8 * MIB, 2, "1 is busy and its head at 0; 2 is idle"),
            read(8 * MIB + 4096, 2, "continues the array's last read: the disk used last"),
            read(MIB + 4096, 2, "no stream, none idle, both heads at 0: the disk used last"),
            complete(1, 1),
            read(20 * MIB, 1, "1 is idle"),
            read(MIB + 4096, 1, "the head of 1 is there"),
            complete(2, 1),
            read(8 * MIB, 2, "7 MiB - 4096 against 4096"),
            read(2 * MIB, 1, "1 MiB - 4096 against 6 MiB + 4096"),
            read(2 * MIB + 4096, 1, "continues: the disk used last, though its head is away"),
            read(8 * MIB + 4096, 2, "the head of 2 is there"),
            complete(1, 1),
            complete(1, 1),
            complete(1, 1),
            complete(1, 1),
            read(8 * MIB + 4096, 2, "the scan begins at 2, whose head is there; 1 is idle"),
            read(64 * MIB, 1, "1 is idle"),
        ],
    );
    follow(
        "md/raid1-2010",
        members(3, |_| ()),
        &[
            read(MIB, 1, "idle, slot 0"),
            complete(1, 1),
            read(64 * MIB, 1, "the disk used last is idle again"),
            read(128 * MIB, 2, "1 is busy: the next slot"),
            complete(1, 1),
            read(256 * MIB, 3, "the scan goes on from 2, so 3 comes before the idle 1"),
            Step::Eligible(&[1, 2]),
            read(MIB, 1, "3 holds no copy: on from the next slot, which is 1"),
        ],
    );
    follow(
        "md/raid1-2010",
        members(2, |_| ()),
        &[
            read(MIB, 1, "both idle: slot 0"),
            read(MIB + 4096, 1, "continues the array's last read: 1, though 2 is idle"),
            read(64 * MIB, 2, "no stream, and 2 is idle"),
        ],
    );
}

#[test]
fn graid_of_rotational_disks() {
    let mut script = Script::new("graid/raid1", members(2, |_| ()));
    script.follow(&[
        read(0, 1, "0 - 512 each: the lowest index"),
        read(4096, 1, "32 - 512 (exact) against 0 - 256 (near)"),
        read(8 * MIB, 2, "92 against 0"),
        read(8 * MIB + 4096, 2, "144 against 32 - 512"),
        read(100 * MIB, 2, "190 against 92"),
        Step::Write { devid: 1, offset: 200 * MIB, length: 4096 },
        read(200 * MIB + 4096, 1, "297 - 512 against 250: a write moves the head"),
    ]);
    // (4 * 256 + 7 * 297) / 8 and (3 * 256 + 7 * 250) / 8.
    assert_eq!(script.counter("load_256ths", Some(1)), 387);
    assert_eq!(script.counter("load_256ths", Some(2)), 314);
    script.follow(&[
        complete(1, 1),
        complete(1, 1),
        complete(1, 1),
        read(300 * MIB, 2, "387 against 314: completions do not change a load"),
        read(400 * MIB, 1, "(1 * 256 + 7 * 387) / 8 = 370 against (4 * 256 + 7 * 314) / 8 = 402"),
    ]);
}

#[test]
fn graid_reads_a_rebuilding_disk_last() {
    let state = MemberState::Rebuilding { recovered_bytes: GIB };
    let configs = members(2, |config| {
        if config.devid == 1 {
            config.state = state;
        }
    });
    follow(
        "graid/raid1",
        configs,
        &[
            read(0, 2, "65536 - 512 against 0 - 512"),
            read(64 * MIB, 2, "65536 against 32"),
            read(0, 2, "65536 - 512 against 92"),
        ],
    );
}

/// Without a parameter, the rule is that of the array: here the head is near the higher address.
#[test]
fn md_raid10_follows_the_layout_of_the_array() {
    let mut members = Members::new(members(2, |_| ()));
    for index in [0, 1] {
        let member = members.get_mut(MemberIndex(index));
        (member.reads_in_flight, member.completed_end) = (1, GIB);
    }
    let mirror = |member, offset| Mirror { member: MemberIndex(member), offset, copy: 0 };
    let read = Read { offset: 0, length: 4096, stream: 0, cpu: 0, background: false, copies: 2 };
    for (spec, layout, lowest) in [
        ("md/raid10", "md-raid10-far:2", true),
        ("md/raid10", "md-raid10-offset:2", true),
        ("md/raid10", "md-raid10-near:2", false),
        ("md/raid10", "md-raid1", false),
        ("md/raid10", "btrfs", false),
        ("md/raid10:array", "md-raid10-far:2", true),
        ("md/raid10:near", "md-raid10-far:2", false),
        ("md/raid10:far", "md-raid10-near:2", true),
    ] {
        let kind = layout.parse::<ArrayLayout>().unwrap().kind();
        members.set_copies_are_apart(kind.places_copies_apart());
        let mut policy = Spec::parse(spec).unwrap().build(&[1, 2]).unwrap();
        policy.on_members_change(&members);
        let mut ctx = Ctx { now: Nanos::ZERO, rng: &mut Rng::new(1) };
        let mirrors = [mirror(0, GIB), mirror(1, MIB)];
        let choice = policy.choose(&read, &mirrors, &members, &mut ctx);
        assert_eq!(choice, Choice::Mirror(usize::from(lowest)), "{spec} on {layout}");
    }
}
