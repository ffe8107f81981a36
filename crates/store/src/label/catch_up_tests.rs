//! Worked cases of members that come back.

use super::super::assembly::assemble;
use super::super::assembly::tests::{devices, found};
use super::*;
use MemberState::{Failed, InSync};

/// A device that left before the mirrors were synchronised differs also where nothing was written.
#[test]
fn a_device_that_left_before_the_first_synchronisation_does_not_catch_up() {
    let mut newest = found(1, 6, &[2, 1], &[InSync, Failed]).label;
    newest.lineage.history[0].was_complete = true;
    newest.lineage.history[0].sequence = Some(0);
    let catches_up = |newest: &Label, resync_from| {
        let mut device = found(2, 5, &[1], &[InSync; 2]);
        device.label.resync_from = resync_from;
        can_catch_up(newest, &devices(&[device])[0])
    };
    assert!(catches_up(&newest, None));
    assert!(!catches_up(&newest, Some(32 << 20)));
    newest.resync_from = Some(32 << 20);
    assert!(!catches_up(&newest, None));
}

/// A record of before the member left relies on a map of before.
#[test]
fn the_map_of_an_earlier_absence_is_not_missed() {
    let mut newest = found(1, 6, &[2, 1], &[InSync, Failed]);
    newest.label.lineage.history[0].was_complete = true;
    let mut earlier = StaleMap::new(DataId(7), 16);
    earlier.generation = 4;
    for (map_generation, lacks_map) in [(0, false), (3, true), (4, false), (5, true)] {
        let mut devices = devices(std::slice::from_ref(&newest));
        let record = DirtyRecord { regions: vec![3], map_generation, ..DirtyRecord::default() };
        devices[0].record = Some(record);
        devices[0].stale_maps = vec![earlier.clone()];
        let (map, has_more) = assembled_map(&assemble(&devices, &[]), &devices, 16).unwrap();
        assert!(has_more && map.contains(3), "the active region");
        assert_eq!(map.contains(5), lacks_map, "{map_generation}");
    }
}

/// The others were put back to an earlier state, and started without it.
#[test]
fn a_device_whose_log_is_newer_than_that_of_the_others_was_diverged() {
    let mut newest = found(1, 6, &[2, 1], &[InSync, Failed]);
    newest.label.lineage.history[0].was_complete = true;
    newest.label.lineage.history[0].sequence = Some(100);
    let with_record = |sequence| {
        let mut devices = devices(&[newest.clone(), found(2, 5, &[1], &[InSync; 2])]);
        devices[0].record = Some(DirtyRecord { sequence: 200, ..DirtyRecord::default() });
        let least_sequence = sequence - 1;
        devices[1].record =
            Some(DirtyRecord { sequence, least_sequence, ..DirtyRecord::default() });
        let standing = assemble(&devices, &[]).standings[1];
        let own = own_data(&newest.label, &devices[1]);
        (standing, own, can_catch_up(&newest.label, &devices[1]))
    };
    let (stale, diverged) = (MemberStanding::Stale, MemberStanding::Diverged);
    assert_eq!(with_record(99), (stale, OwnData::None, false));
    for sequence in [100, 102] {
        assert_eq!(with_record(sequence), (stale, OwnData::None, true), "{sequence}");
    }
    assert_eq!(with_record(103), (stale, OwnData::None, false));
    assert_eq!(with_record(116), (diverged, OwnData::Some, false));
    let mut devices = devices(&[newest, found(2, 5, &[1], &[InSync; 2])]);
    let record = DirtyRecord { sequence: 116, least_sequence: 115, ..DirtyRecord::default() };
    devices[1].record = Some(record);
    assert_eq!(assemble(&devices, &[1]).standings[1], stale, "the user gave its data up");
    // After a jump of the numbers: what it carries is of before it left.
    devices[1].record.as_mut().unwrap().least_sequence = 101;
    assert_eq!(assemble(&devices, &[]).standings[1], stale);
}

/// A crash before the first write leaves the labels of a stop in good order.
#[test]
fn a_record_that_a_member_being_rebuilt_lacks_is_not_expected_of_it_later() {
    let rebuilding = MemberState::Rebuilding { recovered_bytes: 4096 };
    let mut labels =
        [found(1, 5, &[1], &[InSync, rebuilding]), found(2, 5, &[1], &[InSync, rebuilding])];
    labels.iter_mut().for_each(|it| it.label.is_clean = true);
    let mut devices = devices(&labels);
    for (device, sequence) in devices.iter_mut().zip([10, 9]) {
        let record = DirtyRecord { sequence, least_sequence: 8, ..DirtyRecord::default() };
        device.record = Some(record);
    }
    assert_eq!(assemble(&devices, &[]).log_sequence(&devices), 9);
}
