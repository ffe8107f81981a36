//! Starts from labels that a crash left behind.

use super::*;
use crate::label::assembly::{FoundMember, MemberStanding, assemble};
use crate::label::{DirtyRecord, MemberLabel, NewestLabel};

/// A device with the label of the member of a row, and the label before it in the other slot.
fn device(label: &Label, row: usize, previous: Option<&Label>) -> FoundMember {
    FoundMember::of_label(NewestLabel {
        found: MemberLabel { member: label.members[row].uuid, label: label.clone() },
        slot: 0,
        previous: previous.cloned(),
    })
}

/// The volume that starts with these devices, and what each is worth.
fn started(found: &[FoundMember]) -> (Volume, Vec<MemberStanding>) {
    let assembly = assemble(found, &[]);
    let newest = &assembly.newest;
    let map = newest.array.chunk_map(&newest.map_configs()).unwrap();
    let labels = VolumeLabels::of(&assembly, found, map.capacity_bytes(), 1);
    let states: Vec<MemberState> = assembly.members.iter().map(|row| row.state).collect();
    (volume_with(labels, &states, Box::new(First), false), assembly.standings)
}

/// A device in use has a label that is at least as new as its records. Here the newest label says
/// already that the member is rebuilt, but not its own: a crash ended the update before it got
/// there.
#[test]
fn a_member_whose_label_missed_that_it_joined_gets_no_record_before_it() {
    let mut newest = new_label(Profile::Raid1, 2, 11 * MIB, false);
    let old = newest.clone();
    newest.lineage = newest.lineage.successor(DataId(2), newest.generation);
    newest.generation += 3;
    newest.is_clean = false;
    newest.members[1].state = MemberState::Rebuilding { recovered_bytes: 0 };
    let (mut volume, standings) = started(&[device(&newest, 0, None), device(&old, 1, None)]);
    assert_eq!(standings, [MemberStanding::InSync, MemberStanding::Stale]);
    let mut writes = Vec::new();
    let result = run(&mut volume, WRITE, |io| {
        writes.extend((io.member == MemberIndex(1) && io.op == Op::Write).then_some(*io));
        false
    });
    assert_eq!(result, Ok(()));
    assert!(is_label(&writes[0]), "{writes:?}");
}

/// The member that is rebuilt announced alone that another left. It may have the only copy of some
/// data: as long as it lacks the newest label, no later one is announced, which it might miss, too.
#[test]
fn a_member_that_announced_a_label_alone_gets_the_newest_before_there_is_another() {
    let mut newest = new_label(Profile::Raid1, 3, 11 * MIB, false);
    newest.is_clean = false;
    newest.members[2].state = MemberState::Rebuilding { recovered_bytes: MIB };
    let mut alone = newest.clone();
    alone.lineage = newest.lineage.successor(DataId(2), newest.generation);
    alone.generation += 1;
    alone.members[1].state = MemberState::Failed;
    let found = [0, 1].map(|row| device(&newest, row, None));
    let [first, second] = found;
    let (mut volume, standings) = started(&[first, second, device(&alone, 2, Some(&newest))]);
    let kept = MemberStanding::Rebuilding { recovered_bytes: MIB };
    assert_eq!(standings, [MemberStanding::InSync, MemberStanding::InSync, kept]);
    let mut labels = Vec::new();
    let result = run(&mut volume, WRITE, |io| {
        labels.extend(is_label(io).then_some(io.member));
        false
    });
    assert_eq!(result, Ok(()));
    assert_eq!(labels[0], MemberIndex(2), "{labels:?}");
    assert_eq!(labels.len(), 1 + 2 * 3, "what it missed, and both steps: {labels:?}");
}

/// A record carries what was so before it, and a short session writes one: after many, the members
/// in sync are far ahead of that.
#[test]
fn what_a_member_had_that_leaves_is_recorded_only_if_it_is_known() {
    let history_of = |is_clean, sequence, least_sequence| {
        let mut label = new_label(Profile::Raid1, 2, 11 * MIB, false);
        label.is_clean = is_clean;
        let mut found = [0, 1].map(|row| device(&label, row, None));
        let record = DirtyRecord { sequence, least_sequence, ..DirtyRecord::default() };
        found.iter_mut().for_each(|device| device.record = Some(record.clone()));
        let (mut volume, _) = started(&found);
        fail_member(&mut volume, MemberIndex(1));
        complete_all(&mut volume, Nanos::ZERO);
        store(&volume).label().lineage.history[0].sequence
    };
    assert_eq!(history_of(true, 23, 4), Some(23), "all have the last record");
    assert_eq!(history_of(false, 23, 22), Some(22));
    assert_eq!(history_of(false, 23, 4), None);
}

/// The label that calls a rebuilt member in sync was announced to that member alone. Until the
/// other has it, it starts alone by its own label, so it cannot be failed.
#[test]
fn the_end_of_a_rebuild_is_committed_before_the_member_with_the_data_may_fail() {
    let mut before = new_label(Profile::Raid1, 2, 11 * MIB, false);
    before.is_clean = false;
    let size_bytes = before.members[1].size_bytes;
    before.members[1].state = MemberState::Rebuilding { recovered_bytes: size_bytes };
    let mut newest = before.clone();
    newest.generation += 1;
    newest.members[1].state = MemberState::InSync;
    let found = [device(&before, 0, None), device(&newest, 1, Some(&before))];
    let (mut volume, standings) = started(&found);
    assert_eq!(standings, [MemberStanding::InSync; 2]);
    let first = MemberIndex(0);
    assert!(run(&mut volume, WRITE, |io| io.member == first).is_err());
    assert_eq!(volume.members()[first].state, MemberState::InSync);

    for is_at_start in [true, false] {
        let (mut volume, _) = started(&found);
        if is_at_start {
            command(&mut volume, StoreGate::commit_announcement);
        } else {
            volume.submit(request(1, WRITE));
        }
        let mut labels = [0; 2];
        for io in complete_all(&mut volume, Nanos::ZERO).iter().filter(|io| is_label(io)) {
            labels[io.member.get()] += 1;
        }
        assert_eq!(labels, [3, 2], "what it missed, and both steps");
        assert_eq!(store(&volume).label().generation, newest.generation + 2);
        assert_eq!(volume.poll_reply().is_some(), !is_at_start);
        assert_eq!(run(&mut volume, WRITE, |io| io.member == first), Ok(()));
        assert_eq!(volume.members()[first].state, MemberState::Failed);
    }
}

/// By its label the device lacks only what was written since it left.
#[test]
fn a_device_whose_data_were_given_up_is_rebuilt_whole() {
    let old = new_label(Profile::Raid1, 2, 11 * MIB, false);
    let mut newest = old.clone();
    newest.lineage = old.lineage.successor(DataId(2), old.generation);
    newest.lineage.history[0].sequence = Some(0);
    newest.lineage.history[0].was_complete = true;
    newest.generation += 2;
    newest.members[1].state = MemberState::Failed;
    let found = [device(&newest, 0, None), device(&old, 1, None)];
    for (discarded, catching_up) in [(&[][..], vec![MemberIndex(1)]), (&[1], vec![])] {
        let assembly = assemble(&found, discarded);
        assert_eq!(assembly.standings[1], MemberStanding::Stale);
        let labels = VolumeLabels::of(&assembly, &found, 10 * MIB, 1);
        assert_eq!(labels.catching_up, catching_up);
        // The labels say it, should this start end before the device has its own.
        assert_eq!(labels.label.members[1].lacks_repairs, !discarded.is_empty());
    }
}
