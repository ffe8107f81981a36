//! Rows of full stripes that the first synchronisation has not come to: what is written there is
//! protected at once, what was never written reads as anything.

use super::parity::{check_parities, ios_of_write, raid, read};
use super::*;
use crate::units::KIB;

const STRIP: u64 = 64 * KIB;

/// A volume of two full stripes of three strips, whose members were not empty.
fn unsynced(layout: &str, members: usize) -> World {
    let mut world = raid(layout, members);
    for stripe in [0, 3 * STRIP] {
        let stripe = world.volume.full_stripe(stripe);
        for column in 0..stripe.columns() {
            let (member, start) = world.volume.map().column(&stripe, column);
            for block in 0..STRIP / BLOCK {
                let word = 0x100 + 7 * u64::from(column) + block;
                world.disks.insert((member.0, start / BLOCK + block), word);
            }
        }
    }
    unsync(&mut world);
    world
}

/// As after a restart, which does not know which rows were written.
fn unsync(world: &mut World) {
    let (first, end) = (world.volume.full_stripe(0), world.volume.capacity_bytes());
    world.volume.stripes_mut().torn.unsync_from(&first, end);
}

fn member_of(world: &World, offset: u64) -> MemberIndex {
    world.volume.map().map(offset, 512).mirrors[0].member
}

fn resync(world: &mut World, id: u64) {
    world.request(id, RequestKind::Resync, 0, 6 * STRIP);
    world.settle();
    assert_eq!(world.reply(), Some((id, Ok(()))));
}

#[test]
fn what_is_written_is_protected_at_once_and_after_a_restart() {
    for (layout, members) in [("md-raid5", 4), ("md-raid6", 5)] {
        for restarts in [false, true] {
            let mut world = unsynced(layout, members);
            let (reads, _) = ios_of_write(&mut world, 1, STRIP + 4096, 4096);
            assert_eq!(reads, 2, "{layout}: the other data, and no old parity");
            if restarts {
                unsync(&mut world);
            }
            let lost = member_of(&world, STRIP);
            world.volume.set_member_state(lost, MemberState::Failed);
            assert_eq!(read(&mut world, 2, STRIP + 4096, 4096), Ok(vec![1; 8]));
            assert!(read(&mut world, 3, STRIP, 4096).is_ok(), "never written");
            // Without the member, its part of other rows is what the parities say.
            ios_of_write(&mut world, 4, 8192, 4096);
            let garbage = read(&mut world, 5, STRIP + 8192, 4096);
            if restarts {
                unsync(&mut world);
            }
            assert_eq!(read(&mut world, 6, STRIP + 8192, 4096), garbage);
            world.request(7, RequestKind::Flush, 0, 0);
            world.settle();
            assert_eq!(world.reply(), Some((7, Ok(()))));
        }
    }
}

#[test]
fn a_member_may_fail_and_be_rebuilt_during_the_synchronisation() {
    for (layout, members) in [("md-raid5", 4), ("md-raid6", 5)] {
        for column in 0..members as u8 {
            let mut world = unsynced(layout, members);
            ios_of_write(&mut world, 1, STRIP, STRIP);
            unsync(&mut world);
            let stripe = world.volume.full_stripe(0);
            let lost = world.volume.map().column(&stripe, column).0;
            world.volume.set_member_state(lost, MemberState::Failed);
            resync(&mut world, 2);
            ios_of_write(&mut world, 3, 4 * STRIP, 4096);
            world.disks.retain(|(member, _), _| *member != lost.0);
            let state = MemberState::Rebuilding { recovered_bytes: 0 };
            world.volume.set_member_state(lost, state);
            world.request(4, RequestKind::Rebuild(lost), 0, 200 * MIB);
            world.settle();
            assert_eq!(world.reply(), Some((4, Ok(()))));
            assert_eq!(read(&mut world, 5, STRIP, STRIP), Ok(vec![1; 128]), "{layout} {column}");
            assert_eq!(read(&mut world, 6, 4 * STRIP, 4096), Ok(vec![3; 8]));
            check_parities(&world, 0..6 * STRIP / BLOCK);
        }
    }
}

/// The member may have other data than its parity says: it gets these.
#[test]
fn a_member_that_could_not_be_read_gets_what_the_parities_say() {
    let mut world = unsynced("md-raid5", 4);
    let (other, written) = (member_of(&world, 0), member_of(&world, STRIP));
    world.write(1, STRIP, 4096, 1);
    for _ in 0..2 {
        for io in world.pump() {
            match io.member == other {
                true => {
                    world.volume.complete(io.id, Err(IoError::Transport), world.now);
                }
                false => {
                    world.complete(io);
                }
            }
        }
    }
    world.settle();
    assert_eq!(world.reply(), Some((1, Ok(()))));
    assert_eq!(world.volume.members()[other].state, MemberState::InSync);
    world.volume.set_member_state(written, MemberState::Failed);
    assert_eq!(read(&mut world, 2, STRIP, 4096), Ok(vec![1; 8]));
}
