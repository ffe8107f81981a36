//! Volumes with parity: what each request takes, and what failures leave.

use super::stripe_memory::parities_of;
use super::*;
use crate::geometry::ArrayLayout;
use crate::units::KIB;
use crate::volume::RmwLevel;

pub(super) fn raid(layout: &str, members: usize) -> World {
    let layout: ArrayLayout = layout.parse().unwrap();
    let map =
        |configs: &[MemberConfig]| ChunkMap::arrange(layout.with_chunk(64 * KIB).unwrap(), configs);
    World::over(members, |_| {}, map, Box::new(First))
}

/// Reads and writes of a request, in I/Os of members.
fn counts(world: &World) -> (usize, usize) {
    let of = |op| world.handed_out.iter().filter(|io| io.op == op).count();
    (of(Op::Read), of(Op::Write))
}

pub(super) fn ios_of_write(world: &mut World, id: u64, offset: u64, length: u64) -> (usize, usize) {
    world.handed_out.clear();
    world.put(id, offset, length, id);
    counts(world)
}

pub(super) fn read(
    world: &mut World,
    id: u64,
    offset: u64,
    length: u64,
) -> Result<Vec<u64>, VolumeError> {
    world.handed_out.clear();
    world.request(id, RequestKind::Read, offset, length);
    world.settle();
    let (replied, result) = world.reply().unwrap();
    assert_eq!(replied, id);
    result.map(|()| world.buffers[&id].values().copied().collect())
}

/// Holds the parities of all stripes that were written to what the data say.
pub(super) fn check_parities(world: &World, blocks: std::ops::Range<u64>) {
    let map = world.volume.map();
    for block in blocks {
        let stripe = map.full_stripe(block * BLOCK).unwrap();
        let row = (block * BLOCK - stripe.volume_offset) % stripe.strip_bytes;
        let word = |column| {
            let (member, start) = map.column(&stripe, column);
            world.disks.get(&(member.0, (start + row) / BLOCK)).copied().unwrap_or(0)
        };
        let data: Vec<u64> = (0..stripe.data).map(word).collect();
        let parities = parities_of(&data);
        for (parity, column) in parities.into_iter().zip(stripe.data..stripe.columns()) {
            assert_eq!(word(column), parity, "column {column} of block {block}");
        }
    }
}

/// Reads and writes as `handle_stripe_dirtying` of md counts them, for rows of a stripe: none and
/// n + m for all of it; else the fewer of n - k and k + m reads, and k + m writes.
#[test]
fn requests_take_the_ios_that_md_takes() {
    let strip = 64 * KIB;
    for (layout, members, table) in [
        // Sizes in KiB at offset 0, reads, writes. A part of a strip counts as k = 1.
        ("md-raid5", 3, vec![(4, 1, 2), (64, 1, 2), (128, 0, 3)]),
        ("md-raid5", 5, vec![(4, 2, 2), (64, 2, 2), (128, 2, 3), (192, 1, 4), (256, 0, 5)]),
        ("md-raid6", 5, vec![(4, 2, 3), (64, 2, 3), (128, 1, 4), (192, 0, 5)]),
        ("md-raid6", 8, vec![(4, 3, 3), (64, 3, 3), (128, 4, 4), (320, 1, 7), (384, 0, 8)]),
    ] {
        let mut world = raid(layout, members);
        for (id, (kib, reads, writes)) in (1..).zip(table) {
            let found = ios_of_write(&mut world, id, 0, kib * KIB);
            assert_eq!(found, (reads, writes), "{kib} KiB on {layout} of {members}");
        }
        // From the middle of a strip to the middle of the next: rows with either strip, no row with
        // both; the parities are one I/O each.
        let found = ios_of_write(&mut world, 9, strip / 2, strip);
        assert_eq!(
            found.1,
            2 + members - usize::from(world.volume.map().full_stripe(0).unwrap().data)
        );
        check_parities(&world, 0..1024);
    }
}

#[test]
fn the_rmw_level_decides_between_equals() {
    let reads = |level| {
        let mut world = raid("md-raid5", 3);
        world.volume = world.volume.with_rmw_level(level);
        world.put(1, 0, 128 * KIB, 1);
        ios_of_write(&mut world, 2, 0, 4096);
        check_parities(&world, 0..256);
        world.members_of(Op::Read, Purpose::User).len()
    };
    assert_eq!(
        [RmwLevel::Never, RmwLevel::FewerReads, RmwLevel::NoMoreReads].map(reads),
        [1, 1, 1]
    );
    let five = |level| {
        let mut world = raid("md-raid5", 5);
        world.volume = world.volume.with_rmw_level(level);
        ios_of_write(&mut world, 1, 0, 4096).0
    };
    assert_eq!([RmwLevel::Never, RmwLevel::FewerReads, RmwLevel::NoMoreReads].map(five), [3, 2, 2]);
}

/// Three requests of a strip each, submitted together, are one full stripe.
#[test]
fn adjacent_writes_are_gathered() {
    let mut world = raid("md-raid6", 5);
    for id in 1..=3 {
        world.write(id, (id - 1) * 64 * KIB, 64 * KIB, id);
    }
    world.settle();
    assert_eq!(counts(&world), (0, 5));
    for id in 1..=3 {
        assert_eq!(world.reply(), Some((id, Ok(()))));
    }
    // An overlapping write keeps its turn.
    world.handed_out.clear();
    world.write(4, 0, 64 * KIB, 4);
    world.write(5, 0, 4096, 5);
    world.settle();
    assert_eq!([world.reply(), world.reply()].map(Option::unwrap), [(4, Ok(())), (5, Ok(()))]);
    assert_eq!(read(&mut world, 6, 0, 8192).unwrap()[7..9], [5, 4]);
    check_parities(&world, 0..384);
}

#[test]
fn writes_to_one_stripe_run_one_after_the_other() {
    let mut world = raid("md-raid5", 4);
    world.write(1, 0, 4096, 1);
    let first = world.pump();
    world.write(2, 64 * KIB, 4096, 2);
    world.write(3, 192 * KIB, 4096, 3);
    let others = world.pump();
    let strip = world.volume.map().map(192 * KIB, 512).mirrors[0];
    assert!(others.iter().any(|io| io.offset == strip.offset), "another stripe is free");
    assert!(others.iter().all(|io| io.volume_offset >= 192 * KIB), "the same stripe is not");
    for io in first.into_iter().chain(others) {
        world.complete(io);
    }
    world.settle();
    check_parities(&world, 0..1024);
}

/// n reads recover a strip on RAID6, where md reads all that are left.
#[test]
fn a_lost_strip_is_read_from_n_others() {
    for (layout, members, losses) in [("md-raid5", 4, 1), ("md-raid6", 6, 1), ("md-raid6", 6, 2)] {
        let mut world = raid(layout, members);
        world.put(1, 0, MIB, 7);
        for strip in 0..losses {
            let lost = world.volume.map().map(strip * 64 * KIB, 512).mirrors[0].member;
            world.volume.set_member_state(lost, MemberState::Failed);
        }
        let data = usize::from(world.volume.map().full_stripe(0).unwrap().data);
        for strip in 0..losses {
            assert_eq!(read(&mut world, 2 + strip, strip * 64 * KIB, 4096), Ok(vec![7; 8]));
            assert_eq!(counts(&world), (data, 0), "{layout}");
        }
    }
}

#[test]
fn a_bad_spot_is_recovered_and_rewritten() {
    let mut world = raid("md-raid5", 4);
    world.put(1, 0, 192 * KIB, 5);
    let mirror = world.volume.map().map(8192, 512).mirrors[0];
    world.bad.push((mirror.member.0, mirror.offset / BLOCK));
    assert_eq!(read(&mut world, 2, 0, 64 * KIB), Ok(vec![5; 128]));
    assert!(world.bad.is_empty(), "rewritten before the reply");
    assert_eq!(world.members_of(Op::Write, Purpose::Repair), [mirror.member.0]);
}

/// Two strips of a RAID5 are bad in different rows: each row can be recovered.
#[test]
fn bad_spots_in_different_rows_are_recovered_row_by_row() {
    let mut world = raid("md-raid5", 4);
    world.put(1, 0, 192 * KIB, 5);
    for offset in [0, 64 * KIB + 32768] {
        let mirror = world.volume.map().map(offset, 512).mirrors[0];
        world.bad.push((mirror.member.0, mirror.offset / BLOCK));
    }
    assert_eq!(read(&mut world, 2, 0, 64 * KIB), Ok(vec![5; 128]));
    assert_eq!(read(&mut world, 3, 64 * KIB, 64 * KIB), Ok(vec![5; 128]));
    assert!(world.bad.is_empty());
}

#[test]
fn a_lost_member_is_rebuilt() {
    for (layout, members) in [("md-raid5", 4), ("md-raid6", 5), ("md-raid6-parity-first", 5)] {
        let mut world = raid(layout, members);
        world.write(1, 0, 2 * MIB, 3);
        world.write(2, 4096, 8192, 4);
        world.settle();
        let target = MemberIndex(1);
        let held: Vec<_> =
            world.disks.range((1, 0)..(2, 0)).map(|(at, word)| (*at, *word)).collect();
        world.disks.retain(|(member, _), _| *member != 1);
        world.volume.set_member_state(target, MemberState::Rebuilding { recovered_bytes: 0 });
        // Written while it is stale, before and during the rebuild.
        world.write(3, 4 * MIB, MIB, 6);
        world.settle();
        world.request(4, RequestKind::Rebuild(target), 0, 200 * MIB);
        world.settle();
        while let Some((_, result)) = world.reply() {
            assert_eq!(result, Ok(()), "{layout}");
        }
        assert_eq!(world.volume.members()[target].state, MemberState::InSync);
        for (at, word) in held {
            assert_eq!(world.disks[&at], word, "{layout} at {at:?}");
        }
        check_parities(&world, 0..10240);
    }
}

/// A bad spot of one column must not carry the error of another one to the rest of its strip.
#[test]
fn a_scrub_rewrites_a_column_only_where_its_medium_failed() {
    for (layout, members) in [("md-raid6", 5), ("md-raid5", 4)] {
        let mut world = raid(layout, members);
        world.put(1, 0, 192 * KIB, 9);
        let [spoiled, wrong] = [0, 64 * KIB].map(|it| world.volume.map().map(it, 512).mirrors[0]);
        let block =
            |mirror: &Mirror, page: u64| (mirror.member.0, mirror.offset / BLOCK + 8 * page);
        world.bad.push(block(&spoiled, 3));
        world.disks.insert(block(&wrong, 9), 0x1234);
        let before = world.disks.clone();
        world.handed_out.clear();
        assert_eq!(world.result(2, RequestKind::Scrub, 0, 4096), Ok(()));
        assert!(world.bad.is_empty(), "{layout}: the bad spot was rewritten");
        assert_eq!(world.disks, before, "{layout}: with what it held");
    }
}

/// The member that a write could not reach is failed, and the parity has what it missed.
#[test]
fn a_write_error_in_a_stripe_fails_the_member() {
    let mut world = raid("md-raid5", 4);
    world.write(1, 0, 192 * KIB, 1);
    world.settle();
    world.write(2, 0, 192 * KIB, 2);
    let mut ios = world.pump();
    let lost = ios.remove(0);
    world.volume.complete(lost.id, Err(IoError::Medium), world.now);
    world.complete_all(ios);
    world.settle();
    assert_eq!([world.reply(), world.reply()].map(Option::unwrap), [(1, Ok(())), (2, Ok(()))]);
    assert_eq!(world.volume.members()[lost.member].state, MemberState::Failed);
    assert_eq!(read(&mut world, 3, 0, 192 * KIB), Ok(vec![2; 384]));
}

/// Beyond the losses that the profile allows a write that fails on a member fails that member too,
/// as in md: the half of it that was done is never read.
#[test]
fn a_write_that_fails_beyond_the_losses_fails_its_member() {
    let mut world = raid("md-raid5", 4);
    world.put(1, 0, 384 * KIB, 1);
    let first = world.volume.map().map(0, 512).mirrors[0].member;
    world.volume.set_member_state(first, MemberState::Failed);
    world.write(2, 64 * KIB, 4096, 2);
    let reads = world.pump();
    assert!(reads.iter().all(|io| io.op == Op::Read && io.member != first));
    world.complete_all(reads);
    let mut writes = world.pump();
    let failed = writes.remove(0);
    assert_eq!(failed.member, world.volume.map().map(64 * KIB, 512).mirrors[0].member);
    world.volume.complete(failed.id, Err(IoError::Transport), world.now);
    world.complete_all(writes);
    world.settle();
    assert_eq!(world.reply(), Some((2, Err(VolumeError::Unwritable))));
    assert_eq!(world.volume.members()[failed.member].state, MemberState::Failed);
    for lost in [0, 64 * KIB] {
        assert_eq!(read(&mut world, 3, lost, 4096), Err(VolumeError::Unreadable), "at {lost}");
    }
    assert_eq!(read(&mut world, 4, 128 * KIB, 4096), Ok(vec![1; 8]), "what is there is read");
    assert_eq!(world.result(5, RequestKind::Flush, 0, 0), Err(VolumeError::Unwritable));
}

#[test]
fn a_discard_leaves_the_parity_right() {
    let mut world = raid("md-raid6", 5);
    world.put(1, 0, 192 * KIB, 1);
    world.handed_out.clear();
    assert_eq!(world.result(2, RequestKind::Discard, 0, 192 * KIB), Ok(()));
    assert_eq!(world.handed_out, []);
}

#[test]
fn more_losses_than_parities_are_an_error() {
    let mut world = raid("md-raid6", 5);
    world.put(1, 0, 192 * KIB, 1);
    for strip in 0..3 {
        let member = world.volume.map().map(strip * 64 * KIB, 512).mirrors[0].member;
        world.volume.set_member_state(member, MemberState::Failed);
    }
    assert_eq!(read(&mut world, 2, 0, 4096), Err(VolumeError::Unreadable));
    world.write(3, 0, 4096, 3);
    world.settle();
    assert_eq!(world.reply(), Some((3, Err(VolumeError::Unwritable))));
    assert_eq!(world.result(4, RequestKind::Flush, 0, 0), Err(VolumeError::Unwritable));
}
