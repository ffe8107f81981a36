//! Decisions about members of md arrays, worked out by hand.

use super::MdError;
use super::members::{Assembled, FoundMember, assemble};
use crate::md_superblock::{Role, Superblock};

const MIB: u64 = 1 << 20;

/// A member of an array of two, clean, with 100 events: device number and slot `slot`.
fn member(slot: u16) -> FoundMember {
    FoundMember {
        device: format!("d{slot}"),
        size_bytes: 9 * MIB,
        superblock: Superblock {
            array: [7; 16],
            name: "data".to_owned(),
            size_bytes: 8 * MIB,
            raid_disks: 2,
            data_offset_bytes: MIB,
            recovered_bytes: None,
            number: slot.into(),
            write_mostly: false,
            bad_blocks: None,
            events: 100,
            is_clean: true,
            roles: vec![Role::Active(0), Role::Active(1)],
        },
        has_bad_blocks: false,
    }
}

fn changed(slot: u16, change: impl FnOnce(&mut Superblock)) -> FoundMember {
    let mut member = member(slot);
    change(&mut member.superblock);
    member
}

fn read(members: &[FoundMember]) -> Result<Assembled, MdError> {
    assemble(&members.iter().collect::<Vec<&FoundMember>>())
}

/// The devices that are read, by slot, and all notes.
fn slots(members: &[FoundMember]) -> (Vec<Option<usize>>, String) {
    let assembled = read(members).unwrap();
    (assembled.slots, assembled.notes.join("\n"))
}

fn refusal(members: &[FoundMember]) -> String {
    read(members).unwrap_err().to_string()
}

#[test]
fn members_in_sync_are_read_in_the_order_of_their_slots() {
    let (slots, notes) = slots(&[member(1), member(0)]);
    assert_eq!(slots, [Some(1), Some(0)]);
    assert_eq!(notes, "`data` is an md raid1 of 2 members and 8 MiB, served read-only");
}

#[test]
fn a_missing_member_leaves_a_slot_without_a_device() {
    let (slots, notes) = slots(&[member(1)]);
    assert_eq!(slots, [None, Some(0)]);
    assert!(notes.contains("of the 2 members of `data` 1 is missing or not read"), "{notes}");
}

#[test]
fn a_member_that_missed_writes_is_not_read() {
    let newest = changed(0, |it| {
        it.events = 120;
        it.roles[1] = Role::Faulty;
    });
    let (slots, notes) = slots(&[newest, member(1)]);
    assert_eq!(slots, [Some(0), None]);
    assert!(notes.contains("`d1` missed writes: it has 100 events, and the newest member 120"));
}

/// One event behind is behind: md may have recorded the loss of the member with that event.
#[test]
fn a_member_one_event_behind_is_not_read() {
    let newest = changed(0, |it| it.events = 101);
    assert_eq!(slots(&[newest, member(1)]).0, [Some(0), None]);
}

#[test]
fn halves_that_ran_alone_are_refused_whichever_has_more_events() {
    for (events, lost) in [90, 100, 110].into_iter().zip([Role::Faulty, Role::Spare, Role::Spare]) {
        let one = changed(0, |it| it.roles[1] = lost);
        let other = changed(1, |it| {
            it.events = events;
            it.roles[0] = lost;
        });
        let error = refusal(&[one, other]);
        assert!(error.contains("ran without each other"), "{events}: {error}");
    }
}

#[test]
fn each_half_alone_can_be_read() {
    let one = changed(0, |it| it.roles[1] = Role::Faulty);
    assert_eq!(slots(&[one]).0, [Some(0), None]);
}

#[test]
fn of_an_array_that_was_not_stopped_one_member_is_read() {
    let dirty = |slot| changed(slot, |it| it.is_clean = false);
    let (slots, notes) = slots(&[dirty(1), dirty(0)]);
    assert_eq!(slots, [Some(1), None]);
    assert!(notes.contains("only `d0` is read"), "{notes}");
}

#[test]
fn a_member_in_recovery_is_not_read() {
    let recovering = changed(1, |it| it.recovered_bytes = Some(4 * MIB));
    let (slots, notes) = slots(&[member(0), recovering]);
    assert_eq!(slots, [Some(0), None]);
    assert!(notes.contains("`d1` is being recovered, and is not read"), "{notes}");
}

#[test]
fn a_member_with_bad_blocks_is_not_read_and_alone_not_enough() {
    let bad = FoundMember { has_bad_blocks: true, ..member(1) };
    assert_eq!(slots(&[member(0), bad.clone()]).0, [Some(0), None]);
    let error = refusal(&[bad]);
    assert!(error.contains("no device has all data of the md array `data`: `d1` has bad blocks"));
}

#[test]
fn spares_and_failed_members_are_not_read() {
    for (role, reason) in [(Role::Spare, "is a spare"), (Role::Faulty, "failed in the array")] {
        let roles = [Role::Active(0), Role::Active(1), role];
        let mut members: Vec<FoundMember> = [0, 1, 2].map(member).into();
        members.iter_mut().for_each(|it| it.superblock.roles = roles.into());
        let (slots, notes) = slots(&members);
        assert_eq!(slots, [Some(0), Some(1)]);
        assert!(notes.contains(&format!("`d2` {reason}")), "{notes}");
    }
}

#[test]
fn a_spare_in_front_of_the_others_changes_nothing() {
    let roles = [Role::Active(0), Role::Active(1), Role::Spare];
    let at =
        |number: u16, events| changed(number, |it| (it.roles, it.events) = (roles.into(), events));
    assert_eq!(slots(&[at(2, 100), at(0, 100), at(1, 100)]).0, [Some(1), Some(2)]);
    assert_eq!(slots(&[at(2, 100), at(0, 90), at(1, 100)]).0, [None, Some(2)]);
}

/// After a disk was replaced, its successor has a number of its own and the slot of the old one.
#[test]
fn a_replaced_member_has_the_slot_that_the_table_says() {
    let roles = [Role::Active(0), Role::Faulty, Role::Active(1)];
    let after = |number| changed(number, |it| it.roles = roles.into());
    assert_eq!(slots(&[after(0), after(2)]).0, [Some(0), Some(1)]);
}

#[test]
fn copies_and_other_arrays_are_refused() {
    let error = refusal(&[member(0), FoundMember { device: "copy".into(), ..member(0) }]);
    assert!(error.contains("`d0` and `copy` are the same member"), "{error}");
    let error = refusal(&[member(0), changed(1, |it| it.array = [8; 16])]);
    assert!(error.contains("members of different md arrays"), "{error}");
}

#[test]
fn a_member_whose_data_are_elsewhere_or_cut_off_is_not_used() {
    let moved = changed(1, |it| it.data_offset_bytes = 2 * MIB);
    assert_eq!(slots(&[member(0), moved]).0, [Some(0), None]);
    let error = refusal(&[FoundMember { size_bytes: 9 * MIB - 1, ..member(0) }]);
    assert!(error.contains("truncated"), "{error}");
}

#[test]
fn more_members_than_copies_of_a_volume_are_refused() {
    for (raid_disks, is_possible) in [(0, false), (1, true), (4, true), (5, false)] {
        let result = read(&[changed(0, |it| it.raid_disks = raid_disks)]);
        assert_eq!(result.is_ok(), is_possible, "{raid_disks}");
    }
}
