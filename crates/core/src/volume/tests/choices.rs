//! Choices that a policy must not make: the volume panics and says why.

use super::races::Fixed;
use super::*;

/// Lets a policy that always makes this choice read from two mirrors.
fn read_by(choice: Choice) {
    let mut world = World::new(Profile::Raid1, 2, Box::new(Fixed(choice)));
    world.request(1, RequestKind::Read, 0, 4096);
    world.pump();
}

#[test]
#[should_panic(expected = "the policy chose mirror 2 of 2")]
fn a_mirror_that_is_not_there() {
    read_by(Choice::Mirror(2));
}

#[test]
#[should_panic(expected = "the policy chose mirror 2 of 2")]
fn a_split_over_a_mirror_that_is_not_there() {
    read_by(Choice::Split(MirrorSet::pair(0, 2)));
}

#[test]
#[should_panic(expected = "the policy chose mirror 3 of 2")]
fn all_of_a_set_with_a_mirror_that_is_not_there() {
    read_by(Choice::All(MirrorSet::pair(1, 3)));
}

#[test]
#[should_panic(expected = "the policy chose mirror 2 of 2")]
fn a_hedge_on_a_mirror_that_is_not_there() {
    read_by(Choice::Hedge { first: 0, backup: 2, after: Nanos::ZERO });
}

#[test]
#[should_panic(expected = "the policy chose mirror 1 for both reads of a race")]
fn a_hedge_on_one_mirror() {
    read_by(Choice::Hedge { first: 1, backup: 1, after: Nanos(1) });
}

#[test]
#[should_panic(expected = "the policy chose mirror 0 for both reads of a race")]
fn a_tie_on_one_mirror() {
    read_by(Choice::Tied { first: 0, second: 0, after: Nanos(1) });
}

#[test]
#[should_panic(expected = "a pair has two different mirrors")]
fn a_pair_of_one_mirror() {
    MirrorSet::pair(1, 1);
}

#[test]
#[should_panic(expected = "an I/O of 5ns ends at 4ns")]
fn a_completion_before_the_submission() {
    let mut world = World::new(Profile::Raid1, 2, Box::new(First));
    world.now = Nanos(5);
    world.request(1, RequestKind::Read, 0, 4096);
    let ios = world.pump();
    world.volume.complete(ios[0].id, Ok(()), Nanos(4));
}

/// The volume decides by itself where one mirror is left.
#[test]
fn a_single_eligible_mirror_is_read_without_asking_the_policy() {
    struct Unasked;
    impl ReadPolicy for Unasked {
        fn choose(&mut self, _: &Read, _: &[Mirror], _: &mut Ctx<'_>) -> Choice {
            panic!("the policy is not asked")
        }
    }
    let mut world = World::new(Profile::Raid1, 2, Box::new(Unasked));
    world.volume.set_member_state(MemberIndex(0), MemberState::Failed);
    assert_eq!(world.result(1, RequestKind::Read, 0, 4096), Ok(()));
}

#[test]
fn split_reads_are_cut_at_the_blocks_of_the_members() {
    let mut world = World::new(Profile::Raid1c3, 3, Box::new(Splitter));
    world.volume = world.volume.with_block_bytes(4096);
    world.request(1, RequestKind::Read, 8192, 256 * 1024);
    world.settle();
    let reads = world.handed_out.iter().filter(|io| io.op == Op::Read);
    let ranges: Vec<(u64, u64)> = reads.map(|io| (io.volume_offset, io.length)).collect();
    assert_eq!(ranges, [(8192, 90_112), (98_304, 90_112), (188_416, 81_920)]);
    assert!(ranges.iter().all(|(offset, length)| (offset | length) % 4096 == 0));
}
