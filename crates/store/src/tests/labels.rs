//! Labels of a running volume, and the requests that wait for them.

use super::*;

/// The others' records say from which sequence number on a member in sync has one. Without it, the
/// member would be taken for an old copy at the next start.
#[test]
fn a_member_without_data_gets_a_record_before_it_is_in_sync() {
    let mut label = new_label(Profile::Raid1, 3, 11 * MIB, false);
    let empty = MemberIndex(2);
    label.members[2].state = MemberState::Rebuilding { recovered_bytes: 0 };
    let map = label.array.chunk_map(&label.map_configs()).unwrap();
    let size_bytes = label.members[2].size_bytes;
    assert!(map.allocated(empty).is_empty(), "two of three hold the only chunk");
    let mut volume = volume_of(label, Vec::new());
    volume.submit(request(1, (RequestKind::Rebuild(empty), 0, size_bytes)));
    let ios = complete_all(&mut volume, Nanos::ZERO);
    assert_eq!(volume.poll_reply().map(|reply| reply.result), Some(Ok(())));
    assert_eq!(volume.members()[empty].state, MemberState::InSync);
    let record = ios.iter().position(|io| io.member == empty && is_record(io));
    let label = ios.iter().rposition(is_label);
    assert!(record.is_some() && record < label, "{ios:?}");
}

/// A write is acknowledged, another member is gone, and the flush of the label that is to say so
/// fails: it may have lost the write, whatever later flushes say.
#[test]
fn after_a_failed_flush_of_metadata_no_flush_succeeds_until_another_member_has_all() {
    let label = new_label(Profile::Raid1, 2, 11 * MIB, false);
    let size_bytes = label.members[0].size_bytes;
    let mut volume = volume_of(label, Vec::new());
    assert_eq!(run(&mut volume, WRITE, |_| false), Ok(()));
    let (kept, lost) = (MemberIndex(0), MemberIndex(1));
    volume.set_member_state(lost, MemberState::Failed);
    let is_flush = |io: &MemberIo| io.op == Op::Flush;
    assert_eq!(run(&mut volume, WRITE, is_flush), Err(VolumeError::Unwritable));
    assert_eq!(volume.members()[kept].state, MemberState::InSync, "it is the last");
    assert_eq!(run(&mut volume, FLUSH, |_| false), Err(VolumeError::Unwritable));
    assert_eq!(run(&mut volume, WRITE, |_| false), Ok(()), "the label was written again");
    assert_eq!(run(&mut volume, FLUSH, |_| false), Err(VolumeError::Unwritable));
    volume.set_member_state(lost, MemberState::Rebuilding { recovered_bytes: 0 });
    assert_eq!(run(&mut volume, (RequestKind::Rebuild(lost), 0, size_bytes), |_| false), Ok(()));
    assert_eq!(run(&mut volume, FLUSH, |_| false), Ok(()));
    let states = [kept, lost].map(|member| volume.members()[member].state);
    assert_eq!(states, [MemberState::Failed, MemberState::InSync]);
}

/// A flush of a client fails while a label is written to the last member: the flush of the label
/// that succeeds afterwards does not make it durable.
#[test]
fn a_label_that_another_flush_may_have_lost_is_written_again() {
    let mut label = new_label(Profile::Raid1, 2, 11 * MIB, false);
    label.members[1].state = MemberState::Failed;
    let mut volume = volume_of(label, Vec::new());
    volume.submit(request(1, WRITE));
    let first = volume.poll_io(Nanos::ZERO).unwrap();
    assert!(is_label(&first), "{first:?}");
    // The flush of the client is under way before that of the label.
    volume.submit(request(2, FLUSH));
    let flush = volume.poll_io(Nanos::ZERO).unwrap();
    assert_eq!((flush.op, flush.purpose), (Op::Flush, Purpose::User));
    volume.complete(first.id, Ok(()), Nanos::ZERO);
    volume.complete(flush.id, Err(IoError::Transport), Nanos::ZERO);
    let mut labels = vec![first];
    labels.extend(complete_all(&mut volume, Nanos::ZERO));
    volume.submit(request(3, WRITE));
    labels.extend(complete_all(&mut volume, Nanos::ZERO));
    let slots: Vec<u64> = labels.iter().filter(|io| is_label(io)).map(|io| io.offset).collect();
    let [first, second] = LABEL_SLOTS;
    assert_eq!(slots, [second, second, first], "announced twice, and committed");
}

/// A member was rebuilt, and the one with the data is gone before its label says so: by that label
/// it starts alone. So nothing is written without it, until it has another label.
#[test]
fn no_member_is_failed_for_one_that_its_label_does_not_call_in_sync() {
    let mut label = new_label(Profile::Raid1, 2, 11 * MIB, false);
    let (kept, rebuilt) = (MemberIndex(0), MemberIndex(1));
    let size_bytes = label.members[1].size_bytes;
    label.members[1].state = MemberState::Rebuilding { recovered_bytes: 10 * MIB };
    let rebuild = (RequestKind::Rebuild(rebuilt), 10 * MIB, size_bytes - 10 * MIB);
    let mut volume = volume_of(label.clone(), Vec::new());
    let mut count = 0;
    assert_eq!(
        run(&mut volume, rebuild, |io| is_gone_after(u32::MAX, kept, &mut count, io)),
        Ok(())
    );
    // The last update is announced, and then committed.
    for (labels, is_announced) in [(count - 2, false), (count - 1, true)] {
        let mut volume = volume_of(label.clone(), Vec::new());
        let mut written = 0;
        let is_gone = |io: &MemberIo| is_gone_after(labels, kept, &mut written, io);
        assert_eq!(run(&mut volume, rebuild, is_gone), Ok(()));
        assert_eq!(volume.members()[rebuilt].state, MemberState::InSync);
        let is_written = run(&mut volume, WRITE, |io| io.member == kept).is_ok();
        let is_failed = volume.members()[kept].state == MemberState::Failed;
        assert_eq!((is_written, is_failed), (is_announced, is_announced));
    }
}

/// Counts the labels that a member gets; returns true if it is one too many, or an I/O after that.
fn is_gone_after(labels: u32, member: MemberIndex, written: &mut u32, io: &MemberIo) -> bool {
    *written += u32::from(is_label(io) && io.member == member);
    *written > labels && io.member == member
}

/// The label of such a member calls another in sync that has the new one, so it does not start
/// alone.
#[test]
fn a_member_may_fail_at_the_end_of_a_rebuild_if_another_in_sync_has_the_label() {
    let mut label = new_label(Profile::Raid1, 3, 11 * MIB, false);
    let (kept, lost, rebuilt) = (MemberIndex(0), MemberIndex(1), MemberIndex(2));
    label.members[2].state = MemberState::Rebuilding { recovered_bytes: 0 };
    let rebuild = (RequestKind::Rebuild(rebuilt), 0, label.members[2].size_bytes);
    let run_rebuild = |labels| {
        let (mut volume, mut written) = (volume_of(label.clone(), Vec::new()), 0);
        let is_gone = |io: &MemberIo| is_gone_after(labels, lost, &mut written, io);
        assert_eq!(run(&mut volume, rebuild, is_gone), Ok(()));
        (volume, written)
    };
    let (_, count) = run_rebuild(u32::MAX);
    // The last update is announced, and then committed.
    let (mut volume, _) = run_rebuild(count - 2);
    let states = [kept, lost, rebuilt].map(|member| volume.members()[member].state);
    assert_eq!(states, [MemberState::InSync, MemberState::Failed, MemberState::InSync]);
    assert_eq!(run(&mut volume, WRITE, |io| io.member == lost), Ok(()));
}

/// The label could not be written to two members. One cannot be failed, so it is written again; the
/// other failed, and returned before that.
#[test]
fn a_label_that_is_written_again_says_no_more_of_a_member_than_it_has() {
    let mut label = new_label(Profile::Raid1, 3, 11 * MIB, false);
    let (kept, returned) = (MemberIndex(1), MemberIndex(2));
    label.members[2].state = MemberState::Rebuilding { recovered_bytes: 10 * MIB };
    let mut volume = volume_of(label, Vec::new());
    assert!(run(&mut volume, WRITE, |io| io.member != MemberIndex(0)).is_err());
    let states = [kept, returned].map(|member| volume.members()[member].state);
    assert_eq!(states, [MemberState::InSync, MemberState::Failed]);
    let begins = MemberState::Rebuilding { recovered_bytes: 0 };
    volume.set_member_state(returned, begins);
    volume.submit(request(1, WRITE));
    let mut count = 0;
    while let Some(io) = volume.poll_io(Nanos::ZERO) {
        if io.member == returned && is_label(&io) {
            let label = Label::decode(&volume.metadata_bytes(&io), io.offset).unwrap().label;
            assert_eq!(label.members[returned.get()].state, begins);
            count += 1;
        }
        volume.complete(io.id, Ok(()), Nanos::ZERO);
    }
    assert_eq!(volume.poll_reply().map(|reply| reply.result), Some(Ok(())));
    assert!(count >= 2, "announced and committed");
}

/// A crash would make the member in sync again, and lose what was replied to.
#[test]
fn a_write_and_a_flush_end_after_the_labels_say_that_a_member_missed_them() {
    let lost = MemberIndex(0);
    for (range, op) in [(WRITE, Op::Write), (FLUSH, Op::Flush)] {
        let mut volume = volume_of(new_label(Profile::Raid1, 2, 11 * MIB, false), Vec::new());
        assert_eq!(run(&mut volume, WRITE, |_| false), Ok(()));
        volume.submit(request(2, range));
        while let Some(io) = volume.poll_io(Nanos::ZERO) {
            assert_eq!(volume.poll_reply(), None, "before {io:?}");
            let fails = io.member == lost && io.op == op && io.purpose == Purpose::User;
            volume.complete(io.id, if fails { Err(IoError::Gone) } else { Ok(()) }, Nanos::ZERO);
        }
        assert_eq!(volume.poll_reply().map(|reply| reply.result), Some(Ok(())));
        assert_eq!(row(&volume, lost).state, MemberState::Failed);
    }
}

/// A crash repeats what is behind the recorded offset, and no more.
#[test]
fn progress_of_the_first_synchronisation_is_recorded_after_a_flush() {
    let mut label = new_label(Profile::Raid1, 2, 21 * MIB, false);
    label.resync_from = Some(0);
    let mut volume = volume_of(label, Vec::new());
    let recorded = |volume: &Volume| store(volume).label().resync_from;
    let mut resynced = 0;
    while let Some(range) = store(&volume).next_unsynced(resynced) {
        assert!(!store(&volume).wants_resync_flush());
        resynced = range.end;
        let resync = (RequestKind::Resync, range.start, range.end - range.start);
        assert_eq!(run(&mut volume, resync, |_| false), Ok(()));
        assert_eq!(recorded(&volume), Some(range.start), "not before the flush");
        let left_bytes = volume.capacity_bytes() - range.start;
        assert_eq!(store(&volume).crash_resync_bytes(), left_bytes);
        assert!(store(&volume).wants_resync_flush());
        // The member is failed for it, and its label must not say more than it has.
        let is_first = range.start == 0;
        let fails = |io: &MemberIo| is_first && io.op == Op::Flush && io.member == MemberIndex(1);
        assert_eq!(run(&mut volume, FLUSH, fails), Ok(()));
        let next = Some(range.end).filter(|&end| end < volume.capacity_bytes());
        assert_eq!(recorded(&volume), next);
    }
    assert_eq!((resynced, recorded(&volume)), (volume.capacity_bytes(), None));
    assert_eq!(store(&volume).crash_resync_bytes(), 0);
}

/// It may have lost the beginning that was rebuilt, whatever else is recorded meanwhile.
#[test]
fn labels_claim_no_progress_of_a_rebuild_that_is_not_flushed() {
    let mut volume = volume_of(new_label(Profile::Raid10, 4, 1001 * MIB, false), Vec::new());
    let rebuilt = MemberIndex(1);
    volume.lose_member(rebuilt);
    assert_eq!(run(&mut volume, WRITE, |_| false), Ok(()));
    let begins = MemberState::Rebuilding { recovered_bytes: 0 };
    volume.set_member_state(rebuilt, begins);
    let rebuild = (RequestKind::Rebuild(rebuilt), 0, 8 * MIB);
    assert_eq!(run(&mut volume, rebuild, |_| false), Ok(()));
    assert_ne!(volume.members()[rebuilt].state, begins);
    assert!(command(&mut volume, |store, array| store.keep_policy("other", None, array)));
    complete_all(&mut volume, Nanos::ZERO);
    assert_eq!(store(&volume).label().policy, "other");
    assert_eq!(row(&volume, rebuilt).state, begins);
}

#[test]
fn a_flush_of_a_read_only_volume_records_nothing() {
    let mut label = new_label(Profile::Raid1, 2, 21 * MIB, false);
    label.resync_from = Some(0);
    let mut volume = read_only_volume_of(label);
    assert_eq!(run(&mut volume, FLUSH, |_| panic!("no I/O")), Ok(()));
    assert_eq!(store(&volume).label().resync_from, Some(0));
}

/// Not even where its labels say less than is so: nothing depends on what it does.
#[test]
fn a_scrub_of_a_read_only_volume_records_nothing() {
    let label = Label { is_clean: false, ..new_label(Profile::Raid1c3, 3, 11 * MIB, false) };
    let mut volume = read_only_volume_of(label);
    volume.set_member_state(MemberIndex(2), MemberState::Failed);
    let only_reads = |io: &MemberIo| {
        assert_eq!(io.op, Op::Read);
        false
    };
    assert_eq!(run(&mut volume, (RequestKind::Scrub, 0, MIB), only_reads), Ok(()));
}

/// The response to an operator waits for it.
#[test]
fn a_command_is_recorded_once_the_labels_of_all_members_say_it() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 11 * MIB, false), vec![]);
    let update = |volume: &Volume| store(volume).last_update();
    assert_eq!(update(&volume), Some(Ok(())));
    volume.lose_member(MemberIndex(1));
    command(&mut volume, |store, array| store.keep_out(MemberIndex(1), array));
    let mut written = 0;
    while let Some(io) = volume.poll_io(Nanos::ZERO) {
        assert_eq!(update(&volume), None, "after {written} I/Os");
        volume.complete(io.id, Ok(()), Nanos::ZERO);
        written += u32::from(is_label(&io));
    }
    assert_eq!((update(&volume), written), (Some(Ok(())), 2));
    assert!(row(&volume, MemberIndex(1)).is_kept_out);
    // Of the last copy.
    command(&mut volume, |store, array| store.keep_policy("second", None, array));
    while let Some(io) = volume.poll_io(Nanos::ZERO) {
        volume.complete(io.id, Err(IoError::Transport), Nanos::ZERO);
    }
    assert_eq!(update(&volume), Some(Err(LabelsUnwritable)));
}

/// The first step of its rebuild waits for a page of checksums, or for the end of a write.
#[test]
fn a_replacement_is_recorded_though_its_rebuild_waits() {
    let member = MemberIndex(1);
    for has_checksums in [true, false] {
        let label = new_label(Profile::Raid1, 2, 11 * MIB, has_checksums);
        let mut volume = volume_of(label, vec![]);
        fail_member(&mut volume, member);
        complete_all(&mut volume, Nanos::ZERO);
        if !has_checksums {
            volume.submit(request(1, WRITE));
            while let Some(io) = volume.poll_io(Nanos::ZERO)
                && io.purpose == Purpose::Metadata
            {
                volume.complete(io.id, Ok(()), Nanos::ZERO);
            }
        }
        let before = row(&volume, member).uuid;
        command(&mut volume, |store, array| store.on_storage_replaced(member, None, array));
        volume.set_member_state(member, MemberState::Rebuilding { recovered_bytes: 0 });
        volume.submit(request(2, (RequestKind::Rebuild(member), 0, MIB)));
        command(&mut volume, StoreGate::record_changes);
        while store(&volume).last_update().is_none() {
            let io = volume.poll_io(Nanos::ZERO).expect("labels are being written");
            volume.complete(io.id, Ok(()), Nanos::ZERO);
        }
        assert_ne!(row(&volume, member).uuid, before, "{has_checksums}");
    }
}
