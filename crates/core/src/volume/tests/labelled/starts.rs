//! Starts from labels that a crash left behind.

use super::*;
use crate::label::assembly::{FoundMember, MemberStanding, assemble};
use crate::label::{DataId, DirtyRecord, LABEL_SLOTS, Label, MemberLabel, NewestLabel};
use std::cell::{Cell, RefCell};

/// A device with the label of the member of a row, and the label before it in the other slot.
fn device(label: &Label, row: usize, previous: Option<&Label>) -> FoundMember {
    FoundMember {
        newest: NewestLabel {
            found: MemberLabel { member: label.members[row].uuid, label: label.clone() },
            slot: 0,
            previous: previous.cloned(),
        },
        record: None,
        may_lack_record: false,
        scrub: None,
        stale_maps: Vec::new(),
    }
}

/// The volume that starts with these devices, and what each is worth.
fn started(found: &[FoundMember]) -> (Volume, Vec<MemberStanding>) {
    let assembly = assemble(found, &[]);
    let newest = &assembly.newest;
    let map = newest.array.chunk_map(&newest.map_configs()).unwrap();
    let mut configs = newest.map_configs();
    configs.iter_mut().zip(&assembly.members).for_each(|(config, it)| config.state = it.state);
    let volume = Volume::new(map, Members::new(configs), Box::new(First), 1);
    let labels = VolumeLabels::of(&assembly, found, volume.capacity_bytes(), 1);
    (volume.with_labels(labels), assembly.standings)
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
    let offsets = RefCell::new(Vec::new());
    let result = run(&mut volume, (RequestKind::Write, 0, 4096), |io| {
        if io.member == MemberIndex(1) && io.op == Op::Write {
            offsets.borrow_mut().push(io.offset);
        }
        false
    });
    assert_eq!(result, Ok(()));
    let offsets = offsets.into_inner();
    assert!(LABEL_SLOTS.contains(&offsets[0]), "{offsets:?}");
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
        assert!(volume.fail_on_request(MemberIndex(1)));
        while let Some(io) = volume.poll_io(Nanos::ZERO) {
            volume.complete(io.id, Ok(()), Nanos::ZERO);
        }
        volume.label().unwrap().lineage.history[0].sequence
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
    let write = (RequestKind::Write, 0, 4096);
    assert!(run(&mut volume, write, |io| io.member == MemberIndex(0)).is_err());
    assert_eq!(volume.members()[MemberIndex(0)].state, MemberState::InSync);

    let labels = RefCell::new([0; 2]);
    let (mut volume, _) = started(&found);
    let result = run(&mut volume, write, |io| {
        let is_label = io.op == Op::Write && LABEL_SLOTS.contains(&io.offset);
        labels.borrow_mut()[io.member.get()] += u32::from(is_label);
        false
    });
    assert_eq!(result, Ok(()));
    assert_eq!(labels.into_inner(), [3, 2], "what it missed, and both steps");
    assert_eq!(volume.label().unwrap().generation, newest.generation + 2);
    assert_eq!(run(&mut volume, write, |io| io.member == MemberIndex(0)), Ok(()));
    assert_eq!(volume.members()[MemberIndex(0)].state, MemberState::Failed);
}

/// Its label calls another member in sync that has the new one, so it does not start alone.
#[test]
fn a_member_may_fail_at_the_end_of_a_rebuild_if_another_in_sync_has_the_label() {
    let mut label = new_label(Profile::Raid1, 3, 11 * MIB, false);
    let (kept, lost, rebuilt) = (MemberIndex(0), MemberIndex(1), MemberIndex(2));
    let size_bytes = label.members[2].size_bytes;
    label.members[2].state = MemberState::Rebuilding { recovered_bytes: 0 };
    let rebuild = (RequestKind::Rebuild(rebuilt), 0, size_bytes);
    let written = Cell::new(0);
    let is_gone_after = |labels: u32| {
        written.set(0);
        let written = &written;
        move |io: &MemberIo| {
            let is_label = io.op == Op::Write && LABEL_SLOTS.contains(&io.offset);
            written.set(written.get() + u32::from(is_label && io.member == lost));
            written.get() > labels && io.member == lost
        }
    };
    let mut volume = volume_of(label.clone(), Vec::new());
    assert_eq!(run(&mut volume, rebuild, is_gone_after(u32::MAX)), Ok(()));
    let mut volume = volume_of(label, Vec::new());
    // The last update is announced, and then committed.
    assert_eq!(run(&mut volume, rebuild, is_gone_after(written.get() - 2)), Ok(()));
    let states = [kept, lost, rebuilt].map(|member| volume.members()[member].state);
    assert_eq!(states, [MemberState::InSync, MemberState::Failed, MemberState::InSync]);
    assert_eq!(run(&mut volume, (RequestKind::Write, 0, 4096), |io| io.member == lost), Ok(()));
}

/// The label could not be written to two members. One cannot be failed, so it is written again; the
/// other failed, and returned before that.
#[test]
fn a_label_that_is_written_again_says_no_more_of_a_member_than_it_has() {
    let mut label = new_label(Profile::Raid1, 3, 11 * MIB, false);
    let (kept, returned) = (MemberIndex(1), MemberIndex(2));
    label.members[2].state = MemberState::Rebuilding { recovered_bytes: 10 * MIB };
    let mut volume = volume_of(label, Vec::new());
    let write = (RequestKind::Write, 0, 4096);
    assert!(run(&mut volume, write, |io| io.member != MemberIndex(0)).is_err());
    let states = [kept, returned].map(|member| volume.members()[member].state);
    assert_eq!(states, [MemberState::InSync, MemberState::Failed]);
    volume.set_member_state(returned, MemberState::Rebuilding { recovered_bytes: 0 });
    let (kind, offset, length) = write;
    let id = RequestId(1);
    volume.submit(Request { id, kind, offset, length, stream: 0, cpu: 0, background: false });
    let mut count = 0;
    while let Some(io) = volume.poll_io(Nanos::ZERO) {
        if io.member == returned && io.op == Op::Write && LABEL_SLOTS.contains(&io.offset) {
            let label = Label::decode(&volume.metadata_bytes(&io), io.offset).unwrap().label;
            let state = label.members[returned.get()].state;
            assert_eq!(state, MemberState::Rebuilding { recovered_bytes: 0 });
            count += 1;
        }
        volume.complete(io.id, Ok(()), Nanos::ZERO);
    }
    assert_eq!(volume.poll_reply().map(|reply| reply.result), Some(Ok(())));
    assert!(count >= 2, "announced and committed");
}
