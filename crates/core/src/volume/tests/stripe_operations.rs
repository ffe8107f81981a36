//! Operations on full stripes: which run together, are joined, and what failures leave.

use super::parity::{check_parities, raid, read};
use super::*;
use crate::units::KIB;

const STRIP: u64 = 64 * KIB;

/// A RAID5 of four members whose blocks of the first two full stripes hold 1, without a member.
fn degraded(lost: impl Fn(&World) -> MemberIndex) -> (World, MemberIndex) {
    let mut world = raid("md-raid5", 4);
    world.put(1, 0, 6 * STRIP, 1);
    let lost = lost(&world);
    world.volume.set_member_state(lost, MemberState::Failed);
    (world, lost)
}

fn member_of(world: &World, offset: u64) -> MemberIndex {
    world.volume.map().map(offset, 512).mirrors[0].member
}

/// As md, which works on rows of pages; a full stripe of btrfs has one operation at a time.
#[test]
fn operations_on_other_rows_run_together() {
    let (mut world, _) = degraded(|world| member_of(world, 0));
    world.handed_out.clear();
    for id in 2..=9 {
        world.request(id, RequestKind::Read, (id - 2) * 8192, 4096);
    }
    world.write(10, STRIP + 4096, 4096, 10);
    world.request(11, RequestKind::Read, 2048, 512);
    assert_eq!(world.pump().len(), 8 * 3 + 2, "only the read of a page that is busy waits");
}

/// Two writes in flight that touch: each has its own result.
#[test]
fn a_joined_write_fails_alone() {
    let (mut world, lost) = degraded(|world| member_of(world, 0));
    // The first needs the strip of the next member in its rows, which cannot be read.
    let bad = world.volume.map().map(STRIP, 512).mirrors[0];
    world.bad.push((bad.member.0, bad.offset / BLOCK));
    world.request(2, RequestKind::Scrub, 0, 3 * STRIP);
    let scrub = world.pump();
    world.write(3, 0, 4096, 3);
    world.write(4, 2 * STRIP + 4096, 4096, 4);
    assert_eq!(world.pump(), [], "they wait together");
    world.complete_all(scrub);
    world.settle();
    let replies = std::iter::from_fn(|| world.reply());
    let expected =
        [(2, Err(VolumeError::Unreadable)), (3, Err(VolumeError::Unwritable)), (4, Ok(()))];
    assert_eq!(replies.collect::<Vec<_>>(), expected);
    assert_eq!(read(&mut world, 5, 2 * STRIP + 4096, 4096), Ok(vec![4; 8]));
    assert_eq!(world.volume.members()[lost].state, MemberState::Failed);
}

/// The buffer of an operation is of its rows, so writes that are far apart are not joined.
#[test]
fn writes_that_do_not_touch_are_not_joined() {
    let mut world = raid("md-raid5", 4);
    world.write(1, 0, 4096, 1);
    world.write(2, STRIP - 4096, 4096, 2);
    world.write(3, 8192, 4096, 3);
    world.write(4, 4096, 4096, 4);
    let reads = world.pump();
    // The fourth touches the third, which came last.
    assert_eq!(reads.len(), 6, "{reads:?}");
    assert!(reads.iter().all(|io| io.length <= 8192));
    world.complete_all(reads);
    world.settle();
    check_parities(&world, 0..384);
    for (id, row, value) in [(5, 0, 1), (6, STRIP - 4096, 2), (7, 8192, 3), (8, 4096, 4)] {
        while world.reply().is_some() {}
        assert_eq!(read(&mut world, id, row, 4096), Ok(vec![value; 8]));
    }
}

/// The write of a member that was gone is no reason to fail it after its return.
#[test]
fn a_failed_write_does_not_fail_a_member_that_came_back() {
    for layout in ["md-raid5", "md-raid1"] {
        let mut world = raid_or_mirror(layout);
        world.write(1, 0, 4096, 1);
        let ios = world.pump();
        let (reads, mut ios): (Vec<_>, Vec<_>) = ios.into_iter().partition(|io| io.op == Op::Read);
        world.complete_all(reads);
        ios.extend(world.pump());
        let gone = ios.remove(0);
        world.volume.complete(gone.id, Err(IoError::Gone), world.now);
        assert_eq!(world.volume.members()[gone.member].state, MemberState::Failed);
        let back = MemberState::Rebuilding { recovered_bytes: 0 };
        world.volume.set_member_state(gone.member, back);
        world.complete_all(ios);
        world.settle();
        assert_eq!(world.reply(), Some((1, Ok(()))), "{layout}");
        assert_eq!(world.volume.members()[gone.member].state, back, "{layout}");
    }
}

fn raid_or_mirror(layout: &str) -> World {
    match layout {
        "md-raid1" => World::new(Profile::Raid1, 2, Box::new(First)),
        _ => raid(layout, 4),
    }
}

/// A survivor that timed out just now is not read where others do.
#[test]
fn a_member_in_backoff_is_left_alone() {
    let mut world = raid("md-raid6", 5);
    world.put(1, 0, 3 * STRIP, 1);
    let (first, second) = (member_of(&world, 0), member_of(&world, STRIP));
    world.request(2, RequestKind::Read, STRIP, 4096);
    let io = world.pump().remove(0);
    world.volume.complete(io.id, Err(IoError::Transport), world.now);
    world.settle();
    assert_eq!(world.reply(), Some((2, Ok(()))));
    for lost in [false, true] {
        if lost {
            world.volume.set_member_state(first, MemberState::Failed);
        }
        for offset in [0, STRIP] {
            let id = 10 + offset + u64::from(lost);
            assert_eq!(read(&mut world, id, offset, 4096), Ok(vec![1; 8]));
            assert!(world.handed_out.iter().all(|io| io.member != second), "{lost} {offset}");
        }
    }
}

#[test]
fn a_scrub_fails_for_what_it_cannot_read() {
    let mut world = raid("md-raid6", 5);
    let mut scrub = |id: u64, losses: usize| {
        world.request(id, RequestKind::Scrub, 0, 4096);
        let mut losses_left = losses;
        loop {
            let ios = world.pump();
            if ios.is_empty() {
                return world.reply().unwrap().1;
            }
            for io in ios {
                if losses_left > 0 && io.member == MemberIndex(2) {
                    losses_left -= 1;
                    world.volume.complete(io.id, Err(IoError::Transport), world.now);
                } else {
                    world.complete(io);
                }
            }
        }
    };
    assert_eq!(scrub(1, 1), Ok(()), "it is read a second time");
    assert_eq!(scrub(2, 2), Err(VolumeError::Unreadable));
    for member in 0..3 {
        world.volume.set_member_state(MemberIndex(member), MemberState::Failed);
    }
    assert_eq!(
        world.result(3, RequestKind::Scrub, 0, 4096),
        Err(VolumeError::Unreadable),
        "too few are left"
    );
}
