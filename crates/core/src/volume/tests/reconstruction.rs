//! Reads of which a policy leaves columns out: what they read, and when they may not.

use super::parity::{raid, read};
use super::*;
use crate::column_set::ColumnSet;
use crate::geometry::FullStripe;
use crate::policy::StripeRead;
use crate::units::KIB;

const STRIP: u64 = 64 * KIB;

/// Leaves out these columns where they are eligible.
struct Without(ColumnSet);

impl ReadPolicy for Without {
    fn choose(&mut self, _: &Read, _: &[Mirror], _: &mut Ctx<'_>) -> Choice {
        panic!("there is one copy of each block")
    }

    fn reconstructs(&self) -> bool {
        true
    }

    fn leave_out(&mut self, read: &StripeRead, _: &[Mirror], _: &mut Ctx<'_>) -> ColumnSet {
        self.0.and(read.eligible).first(read.spare)
    }
}

/// An array whose first full stripe holds 7, read without these columns, and the stripe.
fn without(layout: &str, members: usize, columns: &[u8]) -> (World, FullStripe) {
    let mut world = raid(layout, members);
    world.put(1, 0, MIB, 7);
    world.volume.set_policy(Box::new(Without(ColumnSet::of(columns.iter().copied()))));
    let stripe = world.volume.map().full_stripe(0).unwrap();
    (world, stripe)
}

/// The columns of the first stripe that were read, in the order of the I/Os.
fn columns_read(world: &World, stripe: &FullStripe) -> Vec<u8> {
    let map = world.volume.map();
    let column = |io: &MemberIo| {
        (0..stripe.columns()).find(|column| map.column(stripe, *column).0 == io.member)
    };
    assert!(world.handed_out.iter().all(|io| io.op == Op::Read));
    world.handed_out.iter().filter_map(column).collect()
}

#[test]
fn a_column_that_is_left_out_is_recovered_from_n_others() {
    for (layout, members, left_out, expected) in [
        ("md-raid5", 4, &[0][..], &[1, 2, 3][..]),
        ("md-raid6", 5, &[0], &[1, 2, 3]),
        ("md-raid6", 5, &[0, 1], &[2, 3, 4]),
        ("md-raid6", 5, &[1, 2], &[0]),
        ("md-raid5", 4, &[2], &[0]),
    ] {
        let (mut world, stripe) = without(layout, members, left_out);
        assert_eq!(read(&mut world, 2, 0, 4096), Ok(vec![7; 8]));
        assert_eq!(columns_read(&world, &stripe), expected, "{layout} without {left_out:?}");
    }
}

/// A policy that is asked which columns to leave out has a choice; without spare columns it is not
/// asked, nor is one that reconstructs nothing.
#[test]
fn a_read_that_can_leave_a_column_out_is_a_choice() {
    let (mut world, _) = without("md-raid5", 4, &[]);
    read(&mut world, 2, 0, 4096).unwrap();
    assert_eq!(world.volume.choices(), 1);
    world.volume.set_member_state(MemberIndex(1), MemberState::Failed);
    read(&mut world, 3, 0, 4096).unwrap();
    assert_eq!(world.volume.choices(), 1, "no column is left to spare");
    let mut world = raid("md-raid5", 4);
    read(&mut world, 4, 0, 4096).unwrap();
    assert_eq!(world.volume.choices(), 0);
}

/// Columns that are read for the request serve the recovery too: a whole row takes n reads.
#[test]
fn a_full_stripe_without_a_column_takes_no_more_reads() {
    let (mut world, stripe) = without("md-raid6", 6, &[2]);
    assert_eq!(read(&mut world, 2, 0, 4 * STRIP), Ok(vec![7; 512]));
    assert_eq!(columns_read(&world, &stripe), [0, 1, 3, 4]);
    let (mut world, stripe) = without("md-raid5", 5, &[]);
    assert_eq!(read(&mut world, 2, 0, 4 * STRIP), Ok(vec![7; 512]));
    assert_eq!(columns_read(&world, &stripe), [0, 1, 2, 3]);
    // The same without a member.
    let lost = world.volume.map().column(&stripe, 1).0;
    world.volume.set_member_state(lost, MemberState::Failed);
    assert_eq!(read(&mut world, 3, 0, 4 * STRIP), Ok(vec![7; 512]));
    assert_eq!(columns_read(&world, &stripe), [0, 2, 3, 4]);
}

/// From the middle of column 0 to the middle of column 2: in each range of rows, what is missing.
#[test]
fn rows_are_recovered_where_they_are_read() {
    let (mut world, stripe) = without("md-raid5", 4, &[1]);
    world.put(2, STRIP, STRIP, 8);
    let blocks = read(&mut world, 3, STRIP / 2, 2 * STRIP).unwrap();
    assert_eq!(blocks, [vec![7; 64], vec![8; 128], vec![7; 64]].concat());
    let mut columns = columns_read(&world, &stripe);
    columns.sort_unstable();
    assert_eq!(columns, [0, 2, 3]);
}

#[test]
fn nothing_is_recovered_while_a_write_is_under_way() {
    let (mut world, _) = without("md-raid5", 4, &[0]);
    world.write(2, STRIP, 4096, 8);
    let mut ios = world.pump();
    while ios.iter().all(|io| io.op == Op::Read) {
        world.complete_all(ios);
        ios = world.pump();
    }
    // The parity is written, the data are not.
    let data = ios.iter().position(|io| io.volume_offset == STRIP).unwrap();
    let late = ios.remove(data);
    world.complete_all(ios);
    world.request(3, RequestKind::Read, 0, 4096);
    assert!(world.pump().is_empty(), "it waits for the write");
    world.complete(late);
    world.settle();
    assert_eq!([world.reply(), world.reply()], [Some((2, Ok(()))), Some((3, Ok(())))]);
    assert!(world.buffers[&3].values().all(|value| *value == 7));
}

/// With no column to spare nothing can be left out, and the policy is not asked to.
#[test]
fn a_degraded_array_reads_what_is_left() {
    let (mut world, stripe) = without("md-raid5", 4, &[0]);
    let lost = world.volume.map().column(&stripe, 3).0;
    world.volume.set_member_state(lost, MemberState::Failed);
    assert_eq!(read(&mut world, 2, 0, 4096), Ok(vec![7; 8]));
    assert_eq!(columns_read(&world, &stripe), [0]);
}

/// Of the others one cannot be read: the column itself is read then.
#[test]
fn a_column_that_is_left_out_is_read_if_others_fail() {
    let (mut world, stripe) = without("md-raid5", 4, &[0]);
    let (member, offset) = world.volume.map().column(&stripe, 2);
    world.bad.push((member.0, offset / BLOCK));
    assert_eq!(read(&mut world, 2, 0, 4096), Ok(vec![7; 8]));
    assert_eq!(columns_read(&world, &stripe), [1, 2, 3, 0]);
}

#[test]
#[should_panic(expected = "where 1 are to spare")]
fn a_policy_that_leaves_out_too_much_is_found_out() {
    struct TooMuch;
    impl ReadPolicy for TooMuch {
        fn choose(&mut self, _: &Read, _: &[Mirror], _: &mut Ctx<'_>) -> Choice {
            panic!("there is one copy of each block")
        }

        fn reconstructs(&self) -> bool {
            true
        }

        fn leave_out(&mut self, read: &StripeRead, _: &[Mirror], _: &mut Ctx<'_>) -> ColumnSet {
            read.eligible.first(read.spare + 1)
        }
    }
    let (mut world, _) = without("md-raid5", 4, &[]);
    world.volume.set_policy(Box::new(TooMuch));
    world.request(2, RequestKind::Read, 0, 4096);
    world.pump();
}
