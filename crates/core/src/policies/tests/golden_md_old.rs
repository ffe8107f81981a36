//! Golden decisions of md raid10 where its mirrors have other addresses.

use super::script::members;
use crate::geometry::ArrayLayout;
use crate::member::{MemberIndex, Members};
use crate::policies::Spec;
use crate::policy::{Choice, Ctx, Mirror, Read};
use crate::rng::Rng;
use crate::units::{GIB, MIB, Nanos};

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
            let mut ctx = Ctx { now: Nanos::ZERO, members: &members, rng: &mut Rng::new(1) };
            policy.choose(&read, mirrors, &mut ctx)
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
        let mut ctx = Ctx { now: Nanos::ZERO, members: &members, rng: &mut Rng::new(1) };
        let mirrors = [mirror(0, GIB), mirror(1, MIB)];
        let choice = policy.choose(&read, &mirrors, &mut ctx);
        assert_eq!(choice, Choice::Mirror(usize::from(lowest)), "{spec} on {layout}");
    }
}
