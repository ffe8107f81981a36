//! Members that fail while others are not in sync, and changes during a rebuild.

use super::*;
use crate::policies::{Spec, all};

/// The second member of two is being rebuilt, from the first, up to here.
fn half_rebuilt(recovered_bytes: u64) -> World {
    World::with(Profile::Raid1, 2, Box::new(First), |config: &mut MemberConfig| {
        if config.devid == 2 {
            config.state = MemberState::Rebuilding { recovered_bytes };
        }
    })
}

fn states(world: &World) -> Vec<MemberState> {
    world.volume.members().iter().map(|(_, member)| member.state).collect()
}

/// Completes a request's I/O, that on `broken` with an error.
fn complete_but(world: &mut World, broken: u16, error: IoError) {
    for io in world.pump() {
        match io.member.0 == broken {
            true => drop(world.volume.complete(io.id, Err(error), world.now)),
            false => drop(world.complete(io)),
        }
    }
}

#[test]
fn a_failed_write_does_not_fail_the_only_member_in_sync() {
    // In the stale part of the other member, which is not read, and in the recovered part.
    for recovered_bytes in [0, 100 * MIB] {
        let mut world = half_rebuilt(recovered_bytes);
        let before = states(&world);
        world.write(1, 0, 4096, 7);
        complete_but(&mut world, 0, IoError::Medium);
        assert_eq!(world.reply(), Some((1, Err(VolumeError::Unwritable))), "{recovered_bytes}");
        assert_eq!(states(&world), before);
        assert_eq!(world.result(2, RequestKind::Read, 4096, 4096), Ok(()), "the volume lives");
    }
}

#[test]
fn the_member_being_rebuilt_fails_if_it_cannot_be_written() {
    let mut world = half_rebuilt(0);
    world.write(1, 0, 4096, 7);
    complete_but(&mut world, 1, IoError::Medium);
    assert_eq!(world.reply(), Some((1, Ok(()))));
    assert_eq!(states(&world), [MemberState::InSync, MemberState::Failed]);
}

/// The repair went to the former storage, and the new one would fail for it.
#[test]
fn a_repair_is_not_read_back_from_a_member_that_was_replaced_meanwhile() {
    let mut world = World::new(Profile::Raid1, 2, Box::new(First));
    world.write(1, 0, 4096, 7);
    world.settle();
    assert_eq!(world.reply(), Some((1, Ok(()))));
    world.request(2, RequestKind::Read, 0, 4096);
    complete_but(&mut world, 0, IoError::Medium);
    let read = world.pump();
    world.complete_all(read);
    let repair = world.pump();
    assert_eq!((repair[0].member.0, repair[0].purpose), (0, Purpose::Repair));
    for state in [MemberState::Failed, MemberState::Rebuilding { recovered_bytes: 0 }] {
        world.volume.set_member_state(MemberIndex(0), state);
    }
    world.complete_all(repair);
    assert_eq!((world.pump().len(), world.reply()), (0, Some((2, Ok(())))));
}

#[test]
fn a_write_that_cannot_be_read_back_fails() {
    let mut world = half_rebuilt(0);
    world.volume.set_member_state(MemberIndex(0), MemberState::Failed);
    world.write(1, 0, 4096, 7);
    world.settle();
    assert_eq!(world.reply(), Some((1, Err(VolumeError::Unwritable))));
}

#[test]
fn the_last_member_in_sync_is_not_failed() {
    let mut world = half_rebuilt(100 * MIB);
    world.write(1, 0, 4096, 7);
    complete_but(&mut world, 0, IoError::Gone);
    assert_eq!(world.reply(), Some((1, Err(VolumeError::Unwritable))));
    assert_eq!(states(&world)[0], MemberState::InSync);
    // A flush that it fails is not made up for by a later one.
    world.request(2, RequestKind::Flush, 0, 0);
    complete_but(&mut world, 0, IoError::Medium);
    assert_eq!(world.reply(), Some((2, Err(VolumeError::Unwritable))));
    assert_eq!(world.result(3, RequestKind::Flush, 0, 0), Err(VolumeError::Unwritable));
}

#[test]
fn a_member_being_rebuilt_is_not_failed_where_it_may_hold_the_only_copy() {
    for (recovered_bytes, other, can_fail) in [
        (0, MemberState::Failed, true),
        (100 * MIB, MemberState::Failed, false),
        (100 * MIB, MemberState::InSync, true),
    ] {
        let mut world =
            World::with(Profile::Raid1, 3, Box::new(First), |config| match config.devid {
                2 => config.state = other,
                3 => config.state = MemberState::Rebuilding { recovered_bytes },
                _ => {}
            });
        world.volume.lose_member(MemberIndex(2));
        assert_eq!(states(&world)[2] == MemberState::Failed, can_fail, "{recovered_bytes}");
    }
}

#[test]
fn a_failed_repair_does_not_fail_the_only_member_in_sync() {
    let mut world = half_rebuilt(100 * MIB);
    let mirror = world.volume.map().map(0, 4096).mirrors.iter().find(|m| m.member.0 == 0).copied();
    world.bad.push((0, mirror.unwrap().offset / BLOCK));
    world.request(1, RequestKind::Scrub, 0, 4096);
    for io in world.pump() {
        world.complete(io);
    }
    complete_but(&mut world, 0, IoError::Medium);
    assert_eq!(world.reply(), Some((1, Ok(()))));
    assert_eq!(states(&world)[0], MemberState::InSync);
}

/// A request of each kind, in a volume whose second member takes writes and fails all reads.
#[test]
fn a_member_that_does_not_give_back_what_was_repaired_is_failed() {
    for kind in [RequestKind::Read, RequestKind::Scrub] {
        let mut world = World::new(Profile::Raid1, 2, Box::new(First));
        world.write(1, 0, 4096, 7);
        world.settle();
        assert_eq!(world.reply(), Some((1, Ok(()))));
        let first = world.volume.map().map(0, 4096).mirrors[0].member;
        world.request(2, kind, 0, 4096);
        loop {
            let ios = world.pump();
            if ios.is_empty() {
                break;
            }
            for io in ios {
                match io.op == Op::Read && io.member == first {
                    true => drop(world.volume.complete(io.id, Err(IoError::Medium), world.now)),
                    false => drop(world.complete(io)),
                }
            }
        }
        assert_eq!(world.reply(), Some((2, Ok(()))), "{kind:?}");
        assert_eq!(states(&world)[first.get()], MemberState::Failed, "{kind:?}");
    }
}

/// Each error is repaired. The member is failed, unless it is the last copy.
#[test]
fn a_member_with_many_read_errors_in_an_hour_is_failed_or_failing() {
    for has_other in [true, false] {
        let mut world = match has_other {
            true => World::new(Profile::Raid1, 2, Box::new(First)),
            false => half_rebuilt(200 * MIB),
        };
        for error in 1..=21 {
            world.now += Nanos::from_secs(100);
            world.volume.on_timeout(world.now);
            let mirrors = world.volume.map().map(0, 4096).mirrors.to_vec();
            let mirror = mirrors.iter().find(|it| it.member.0 == 0).unwrap();
            world.bad.push((0, mirror.offset / BLOCK));
            world.request(error, RequestKind::Scrub, 0, 4096);
            world.settle();
            assert_eq!(world.reply(), Some((error, Ok(()))));
            let is_failing = world.volume.states.is_failing(MemberIndex(0), world.now);
            let is_failed = states(&world)[0] == MemberState::Failed;
            assert_eq!(is_failed, error == 21 && has_other, "{error}");
            assert_eq!(is_failing, error == 21 && !has_other, "{error}");
            assert!(world.bad.is_empty() || is_failed, "it was repaired");
        }
    }
}

/// A member that no other can stand in for is read in its back-off, which grows to a minute.
#[test]
fn a_last_copy_that_fails_each_read_of_a_client_is_failing_after_twenty() {
    let mut world = half_rebuilt(0);
    let mirrors = world.volume.map().map(0, 4096).mirrors.to_vec();
    let mirror = mirrors.iter().find(|it| it.member.0 == 0).unwrap();
    world.bad.push((0, mirror.offset / BLOCK));
    for error in 1..=25 {
        world.now += Nanos::from_secs(1);
        world.volume.on_timeout(world.now);
        assert!(world.result(error, RequestKind::Read, 0, 4096).is_err());
        let is_failing = world.volume.states.is_failing(MemberIndex(0), world.now);
        assert_eq!(is_failing, error > 20, "{error}");
    }
}

/// The same sector is tried again until it is written; here after each back-off.
#[test]
fn a_rebuild_that_does_not_go_on_fails_none_of_its_sources() {
    let mut world = World::new(Profile::Raid1c3, 3, Box::new(First));
    let begins = MemberState::Rebuilding { recovered_bytes: 0 };
    world.volume.set_member_state(MemberIndex(2), begins);
    for mirror in world.volume.map().map(0, 4096).mirrors.iter() {
        world.bad.push((mirror.member.0, mirror.offset / BLOCK));
    }
    let begin = world.volume.map().allocated(MemberIndex(2)).start;
    for attempt in 1..=30 {
        world.now += Nanos::from_secs(100);
        world.volume.on_timeout(world.now);
        world.request(attempt, RequestKind::Rebuild(MemberIndex(2)), begin, 4096);
        world.settle();
        assert!(matches!(world.reply(), Some((_, Err(_)))), "{attempt}");
    }
    assert_eq!(states(&world)[..2], [MemberState::InSync; 2]);
}

#[test]
fn a_flush_without_a_member_in_sync_fails() {
    let mut world = World::new(Profile::Raid1, 2, Box::new(First));
    for member in [0, 1] {
        world.volume.set_member_state(MemberIndex(member), MemberState::Failed);
    }
    world.request(1, RequestKind::Flush, 0, 0);
    assert_eq!(world.reply(), Some((1, Err(VolumeError::Unwritable))));
}

/// The members of the set that holds the start of the volume, and one of another set.
fn pair_and_other(world: &World) -> ([MemberIndex; 2], MemberIndex) {
    let mapped = world.volume.map().map(0, 4096);
    let pair = [0, 1].map(|copy| mapped.mirrors[copy].member);
    let other = (0..4).map(MemberIndex).find(|member| !pair.contains(member));
    (pair, other.unwrap())
}

#[test]
fn a_flush_fails_once_both_copies_of_a_write_are_gone() {
    let mut world = World::new(Profile::Raid10, 4, Box::new(First));
    let ([first, second], _) = pair_and_other(&world);
    world.put(1, 0, 4096, 7);
    world.volume.set_member_state(first, MemberState::Failed);
    assert_eq!(world.result(2, RequestKind::Flush, 0, 0), Ok(()), "the other copy is left");
    world.volume.set_member_state(second, MemberState::Failed);
    assert_eq!(world.result(3, RequestKind::Flush, 0, 0), Err(VolumeError::Unwritable));
    // A copy that is stale holds nothing of it; one in sync does.
    world.volume.set_member_state(first, MemberState::Rebuilding { recovered_bytes: 2 * MIB });
    assert_eq!(world.result(4, RequestKind::Flush, 0, 0), Err(VolumeError::Unwritable));
    world.volume.set_member_state(first, MemberState::Rebuilding { recovered_bytes: 200 * MIB });
    assert_eq!(world.result(5, RequestKind::Flush, 0, 0), Ok(()));
}

/// Each of two members fails in turn, by an error of a write that is acknowledged all the same.
#[test]
fn three_copies_survive_two_failures() {
    let mut world = World::new(Profile::Raid1c3, 3, Box::new(First));
    world.put(1, 0, 4096, 7);
    for (id, broken) in [(2, 0), (3, 1)] {
        world.write(id, 8192, 4096, 10 + id);
        complete_but(&mut world, broken, IoError::Medium);
        world.settle();
        assert_eq!(world.reply(), Some((id, Ok(()))), "member {broken}");
        assert_eq!(states(&world)[usize::from(broken)], MemberState::Failed);
    }
    assert_eq!(world.result(4, RequestKind::Flush, 0, 0), Ok(()));
    for (id, offset, value) in [(5, 0, 7), (6, 8192, 13)] {
        assert_eq!(world.result(id, RequestKind::Read, offset, 4096), Ok(()));
        let read = &world.buffers[&id];
        assert!(read.len() == 8 && read.values().all(|&it| it == value), "{read:?}");
    }
}

#[test]
fn a_flush_succeeds_without_one_member_of_each_pair() {
    let mut world = World::new(Profile::Raid10, 4, Box::new(First));
    let ([first, _], other) = pair_and_other(&world);
    for member in [first, other] {
        world.volume.set_member_state(member, MemberState::Failed);
    }
    assert_eq!(world.result(1, RequestKind::Flush, 0, 0), Ok(()));
    assert_eq!(world.members_of(Op::Flush, Purpose::User).len(), 2);
}

#[test]
fn a_rebuild_fails_if_its_member_failed_and_returned_meanwhile() {
    let rebuilt = MemberIndex(1);
    let stale = MemberState::Rebuilding { recovered_bytes: 0 };
    // The member is away while the range is read: it gets no write of what was read. Or it is away
    // after the range was written: then it may have missed later writes to the range.
    for returns_before_the_write in [false, true] {
        let mut world = half_rebuilt(0);
        world.request(1, RequestKind::Rebuild(rebuilt), 0, 8 * MIB);
        let reads = world.pump();
        world.volume.set_member_state(rebuilt, MemberState::Failed);
        let mut reads = reads.into_iter();
        let first = reads.next().unwrap();
        if returns_before_the_write {
            world.volume.set_member_state(rebuilt, stale);
        }
        world.complete(first);
        world.volume.set_member_state(rebuilt, stale);
        world.complete_all(reads);
        world.settle();
        assert_eq!(world.reply(), Some((1, Err(VolumeError::NotRebuilding))));
        assert_eq!(states(&world)[1], stale, "nothing counts as recovered");
    }
}

#[test]
fn a_rebuild_fails_if_its_member_did_not_take_the_data_and_cannot_be_failed() {
    let rebuilding = MemberState::Rebuilding { recovered_bytes: 16 * MIB };
    let adjust = |config: &mut MemberConfig| match config.devid {
        2 => config.state = rebuilding,
        3 => config.state = MemberState::Failed,
        _ => {}
    };
    for error in [IoError::Gone, IoError::Medium] {
        let mut world = World::with(Profile::Raid1, 3, Box::new(First), adjust);
        world.request(1, RequestKind::Rebuild(MemberIndex(1)), 16 * MIB, 8 * MIB);
        complete_but(&mut world, 1, error);
        complete_but(&mut world, 1, error);
        world.settle();
        assert_eq!(world.members_of(Op::Write, Purpose::Rebuild), [1]);
        assert_eq!(world.reply(), Some((1, Err(VolumeError::Unwritable))));
        assert_eq!(states(&world)[1], rebuilding, "nothing counts as recovered");
    }
}

#[test]
fn a_discard_waits_for_a_rebuild_of_its_range_and_a_rebuild_for_a_discard() {
    let mut world = half_rebuilt(0);
    world.request(1, RequestKind::Rebuild(MemberIndex(1)), 0, 8 * MIB);
    let read = world.pump();
    world.request(2, RequestKind::Discard, 0, 4096);
    assert!(world.pump().is_empty(), "the data read from its range is about to be written");
    world.complete_all(read);
    world.settle();
    let (last, discards) =
        (world.handed_out.last().unwrap(), world.members_of(Op::Discard, Purpose::User));
    assert_eq!((last.op, discards.len()), (Op::Discard, 2));

    world.request(3, RequestKind::Discard, 64 * MIB, 4096);
    let discards = world.pump();
    world.request(4, RequestKind::Scrub, 64 * MIB, 4096);
    assert!(world.pump().is_empty(), "its copies may differ until the discard ends");
    world.complete_all(discards);
    assert!(!world.pump().is_empty());
}

#[test]
fn a_new_policy_is_not_notified_of_io_in_flight() {
    for info in all() {
        let mut world = World::new(Profile::Raid1, 2, Box::new(First));
        world.request(1, RequestKind::Read, 0, 4096);
        let ios = world.pump();
        world.volume.set_policy(Spec::new(info).build(&[1, 2]).unwrap());
        world.request(2, RequestKind::Read, 4096, 4096);
        world.complete_all(ios);
        world.settle();
        let replies = [world.reply(), world.reply()];
        assert_eq!(replies, [Some((1, Ok(()))), Some((2, Ok(())))], "{}", info.name);
    }
}
