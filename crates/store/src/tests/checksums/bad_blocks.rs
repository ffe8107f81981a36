//! Bad blocks of volumes without checksums.

mod parts;
mod rot;

use super::*;
use crate::label::assembly::{FoundMember, assemble};
use crate::label::{
    BAD_BLOCKS_BYTES, BAD_BLOCKS_OFFSET, METADATA_BYTES, bad_blocks_offset, newest_bad_blocks,
    newest_label, newest_record,
};
use std::ops::Range;

const ROWS: [MemberIndex; 2] = [MemberIndex(0), MemberIndex(1)];

/// A volume with labels on its disks, whose first blocks are written.
fn written(has_checksums: bool) -> Rig {
    let label = new_label(Profile::Raid1, 2, MEMBER_BYTES, has_checksums);
    let mut rig = Rig::with(volume_of(label, vec![]));
    rig.write(0, 7, 8);
    rig.calm_down();
    rig
}

fn bad(rig: &Rig) -> Vec<(MemberIndex, Range<u64>)> {
    store(&rig.volume).bad_blocks()
}

/// The metadata that a start finds on a disk.
fn found(disk: &[u8]) -> FoundMember {
    let read = |offset: u64, length: usize| &disk[offset as usize..][..length];
    let slots = LABEL_SLOTS.map(|slot| read(slot, METADATA_BYTES));
    let newest = newest_label(slots).unwrap();
    let (volume, member) = (newest.found.label.array.uuid, newest.found.member);
    let log = read(DIRTY_LOG_OFFSET, DIRTY_LOG_BYTES as usize);
    let list = read(BAD_BLOCKS_OFFSET, BAD_BLOCKS_BYTES as usize);
    FoundMember {
        record: newest_record(log, volume, member).unwrap(),
        bad_blocks: newest_bad_blocks(list, volume, member),
        ..FoundMember::of_label(newest)
    }
}

/// The volume that starts with these disks after a crash.
fn started(disks: &[Vec<u8>; 2]) -> Volume {
    started_of(disks.iter().map(|disk| found(disk)).collect())
}

fn started_of(found: Vec<FoundMember>) -> Volume {
    let assembly = assemble(&found, &[]);
    let states: Vec<MemberState> = assembly.members.iter().map(|row| row.state).collect();
    let labels = VolumeLabels::of(&assembly, &found, MEMBER_BYTES - MIB, 2);
    volume_with(labels, &states, Box::new(First), false)
}

fn rebuild(rig: &mut Rig, member: MemberIndex) -> Result<(), VolumeError> {
    rig.disks[member.get()].fill(0xee);
    command(&mut rig.volume, |store, array| store.on_storage_replaced(member, None, array));
    rig.volume.set_member_state(member, MemberState::Rebuilding { recovered_bytes: 0 });
    copy(rig, member)
}

/// Rebuilds a member from where it is. What cannot be read is read once more later.
fn copy(rig: &mut Rig, member: MemberIndex) -> Result<(), VolumeError> {
    let mut buffer = vec![0; MEMBER_BYTES as usize];
    let mut step = || rig.request(RequestKind::Rebuild(member), 0, &mut buffer);
    step().or_else(|_| step())
}

/// A volume whose second member lacks the block at 3, which the medium of the first lost.
fn rebuilt(has_checksums: bool) -> Rig {
    let mut rig = written(has_checksums);
    rig.bad_sectors[0].push(rig.place(0, 3 * BLOCK) as u64);
    assert_eq!(rebuild(&mut rig, ROWS[1]), Ok(()));
    assert_eq!(rig.volume.members()[ROWS[1]].state, MemberState::InSync);
    rig
}

#[test]
fn a_rebuild_records_what_no_mirror_can_read_and_goes_on() {
    let mut rig = rebuilt(false);
    for _ in 0..2 {
        assert_eq!(bad(&rig), [(ROWS[1], 3 * BLOCK..4 * BLOCK)]);
        assert_eq!(rig.read(3 * BLOCK, 1), Err(VolumeError::Unreadable));
        assert_eq!(rig.read(0, 3), Ok(vec![7; 3]));
        // Alone, the new disk has all the others.
        rig.bad_sectors[0] = (0..MEMBER_BYTES).step_by(4096).collect();
        assert_eq!(rig.read(0, 3), Ok(vec![7; 3]));
        assert_eq!(rig.read(3 * BLOCK, 1), Err(VolumeError::Unreadable));
        assert_eq!(rig.read(2 * BLOCK, 4), Err(VolumeError::Unreadable));
        assert_eq!(rig.read(4 * BLOCK, 4), Ok(vec![7; 4]));
        rig.bad_sectors[0] = vec![rig.place(0, 3 * BLOCK) as u64];
        assert_ne!(
            store(&rig.volume).label().bad_blocks_generation,
            0,
            "older versions refuse the labels"
        );
        rig.volume = started(&rig.disks);
    }
    rig.write(3 * BLOCK, 5, 1);
    assert_eq!((bad(&rig), store(&rig.volume).label().bad_blocks_generation), (vec![], 0));
    for _ in 0..2 {
        assert_eq!(rig.read(0, 8), Ok(vec![7, 7, 7, 5, 7, 7, 7, 7]));
        rig.volume = started(&rig.disks);
    }
    assert_eq!(rig.read(3 * BLOCK, 1), Ok(vec![5]));
    assert_eq!(bad(&rig), []);
}

/// A controller that is reset fails all mirrors for a while.
#[test]
fn a_passing_error_of_a_sector_is_not_recorded() {
    let mut rig = written(false);
    let [lost, passing] = [3, 5].map(|block| rig.place(0, block * BLOCK) as u64);
    rig.bad_sectors[0] = vec![lost, passing];
    rig.disks[1].fill(0xee);
    command(&mut rig.volume, |store, array| store.on_storage_replaced(ROWS[1], None, array));
    rig.volume.set_member_state(ROWS[1], MemberState::Rebuilding { recovered_bytes: 0 });
    let mut buffer = vec![0; MEMBER_BYTES as usize];
    let mut step = |rig: &mut Rig| rig.request(RequestKind::Rebuild(ROWS[1]), 0, &mut buffer);
    assert_eq!(step(&mut rig), Err(VolumeError::Unreadable));
    assert_eq!(bad(&rig), []);
    rig.bad_sectors[0].pop();
    assert_eq!(step(&mut rig), Ok(()));
    assert_eq!(bad(&rig), [(ROWS[1], 3 * BLOCK..4 * BLOCK)]);
    assert_eq!(*rig.at(1, 5 * BLOCK), 7);
}

/// Each sector is read twice, not in the same step.
#[test]
fn a_rebuild_goes_on_behind_sectors_that_were_lost_one_after_the_other() {
    let mut rig = written(false);
    let lost = [3, 5, 1].map(|block| rig.place(0, block * BLOCK) as u64);
    rig.bad_sectors[0].push(lost[0]);
    rig.disks[1].fill(0xee);
    command(&mut rig.volume, |store, array| store.on_storage_replaced(ROWS[1], None, array));
    rig.volume.set_member_state(ROWS[1], MemberState::Rebuilding { recovered_bytes: 0 });
    let mut buffer = vec![0; MEMBER_BYTES as usize];
    let mut step = |rig: &mut Rig| rig.request(RequestKind::Rebuild(ROWS[1]), 0, &mut buffer);
    for lost in [Some(lost[1]), Some(lost[2]), None] {
        assert_eq!(step(&mut rig), Err(VolumeError::Unreadable));
        rig.bad_sectors[0].extend(lost);
    }
    assert_eq!(step(&mut rig), Ok(()));
    let expected = [1, 3, 5].map(|block| (ROWS[1], block * BLOCK..(block + 1) * BLOCK));
    assert_eq!(bad(&rig), expected);
}

#[test]
fn a_scrub_mends_a_bad_block_that_another_mirror_has() {
    let mut rig = rebuilt(false);
    rig.bad_sectors[0].clear();
    *rig.at(1, 5 * BLOCK) = 8;
    assert_eq!(rig.request(RequestKind::Scrub, 0, &mut vec![0; MIB as usize]), Ok(()));
    assert_eq!((*rig.at(1, 3 * BLOCK), *rig.at(1, 5 * BLOCK)), (7, 8), "no other is repaired");
    assert_eq!(bad(&rig), []);
    rig.volume = started(&rig.disks);
    assert_eq!(bad(&rig), []);
}

/// After a crash with a write to the sector.
#[test]
fn a_resync_ends_where_no_mirror_can_read_a_sector() {
    for lost in [vec![0, 1], vec![0]] {
        let mut rig = written(false);
        rig.write(2 * BLOCK, 9, 2);
        rig.volume = started(&rig.disks);
        let place = rig.place(0, 3 * BLOCK) as u64;
        lost.iter().for_each(|&row| rig.bad_sectors[row].push(place));
        // Where mirrors differ, the first one counts.
        *rig.at(1, 4 * BLOCK) = 8;
        let range = store(&rig.volume).next_unsynced(0).unwrap();
        let mut buffer = vec![0; (range.end - range.start) as usize];
        let mut resync = |rig: &mut Rig| rig.request(RequestKind::Resync, range.start, &mut buffer);
        if lost.len() == 2 {
            assert_eq!(resync(&mut rig), Err(VolumeError::Unreadable));
        }
        assert_eq!(resync(&mut rig), Ok(()));
        assert_eq!(store(&rig.volume).unsynced_bytes(), 0);
        let expected = ROWS.map(|row| (row, 3 * BLOCK..4 * BLOCK));
        assert_eq!(bad(&rig), if lost.len() == 2 { expected.to_vec() } else { vec![] });
        assert_eq!((*rig.at(1, 2 * BLOCK), *rig.at(1, 4 * BLOCK)), (9, 7));
        let read = rig.read(3 * BLOCK, 1);
        assert_eq!(read.is_err(), lost.len() == 2, "{read:?}");
        rig.bad_sectors[0].clear();
        rig.write(3 * BLOCK, 5, 1);
        assert_eq!((bad(&rig), rig.read(3 * BLOCK, 1)), (vec![], Ok(vec![5])));
    }
}

/// Else a long read would return other data than a short one.
#[test]
fn only_a_bad_block_is_read_from_another_mirror_where_mirrors_differ() {
    let mut rig = written(false);
    rig.bad_sectors[1].push(rig.place(1, 3 * BLOCK) as u64);
    assert_eq!(rebuild(&mut rig, ROWS[0]), Ok(()));
    assert_eq!(bad(&rig), [(ROWS[0], 3 * BLOCK..4 * BLOCK)]);
    rig.bad_sectors[1].clear();
    command(&mut rig.volume, |store, _| store.add_unsynced(0..REGION_BYTES));
    (*rig.at(1, 3 * BLOCK), *rig.at(1, 4 * BLOCK)) = (6, 8);
    assert_eq!(rig.read(0, 8), Ok(vec![7, 7, 7, 6, 7, 7, 7, 7]));
}

#[test]
fn a_crash_while_a_bad_block_is_written_leaves_an_error_or_the_data() {
    for has_checksums in [false, true] {
        let mut found = [0, 0];
        for cut in 0.. {
            let mut rig = rebuilt(has_checksums);
            rig.volume = started(&rig.disks);
            let mut data = vec![5; BLOCK as usize];
            rig.volume.submit_write(request(99, (RequestKind::Write, 3 * BLOCK, BLOCK)), &data);
            // Each I/O ends before the next begins.
            (0..cut).for_each(|_| _ = rig.run_io(3 * BLOCK, &mut data));
            let is_acknowledged = rig.volume.poll_reply().is_some();
            rig.volume = started(&rig.disks);
            let read = rig.read(3 * BLOCK, 1);
            // Of two resyncs, the first may fail.
            while let Some(range) = store(&rig.volume).next_unsynced(0) {
                let mut buffer = vec![0; (range.end - range.start) as usize];
                _ = rig.request(RequestKind::Resync, range.start, &mut buffer);
            }
            _ = rig.read(3 * BLOCK, 1);
            _ = rig.request(RequestKind::Scrub, 0, &mut [0; 8 * BLOCK as usize]);
            assert_eq!(rig.mismatched(), [0, 0], "after {cut} I/Os");
            match read {
                Err(_) if !is_acknowledged => found[0] += 1,
                read => {
                    assert_eq!(read, Ok(vec![5]), "after {cut} I/Os");
                    found[1] += 1;
                }
            }
            if is_acknowledged {
                break;
            }
        }
        assert!(found[0] > 5 && found[1] > 2, "{found:?}");
    }
}

/// A member that joins gets the list, whatever list it has from before.
#[test]
fn a_member_that_joins_gets_the_list_before_it_is_in_sync() {
    let mut rig = rebuilt(false);
    fail_member(&mut rig.volume, ROWS[0]);
    rig.run_ios(0, &mut []);
    rig.bad_sectors[0].clear();
    assert_eq!(rebuild(&mut rig, ROWS[0]), Ok(()));
    let expected = ROWS.map(|row| (row, 3 * BLOCK..4 * BLOCK));
    assert_eq!(bad(&rig), expected);
    for disk in &rig.disks {
        let (record, _) = found(disk).bad_blocks.unwrap();
        assert_eq!(record.blocks.iter().count(), 2);
    }
    assert_eq!(rig.read(3 * BLOCK, 1), Err(VolumeError::Unreadable));
}

#[test]
fn a_rebuild_stalls_when_the_list_is_full() {
    let mut rig = written(false);
    let lost = (0..1010).step_by(2).map(|block| rig.place(0, block * BLOCK) as u64);
    rig.bad_sectors[0] = lost.collect();
    assert_eq!(rebuild(&mut rig, ROWS[1]), Err(VolumeError::Unreadable));
    assert_eq!(bad(&rig).len(), 500);
    rig.bad_sectors[0].clear();
    assert_eq!(copy(&mut rig, ROWS[1]), Ok(()));
    assert_eq!(bad(&rig), []);
}

/// Else the new disk would be in sync without the list.
#[test]
fn a_step_whose_list_cannot_be_written_fails_and_the_next_list_counts() {
    let mut rig = written(false);
    rig.bad_sectors[0] = [3, 5].map(|block| rig.place(0, block * BLOCK) as u64).to_vec();
    rig.failures.push((0, Op::Write, bad_blocks_offset(1)));
    assert_eq!(rebuild(&mut rig, ROWS[1]), Err(VolumeError::Unreadable));
    assert_ne!(rig.volume.members()[ROWS[1]].state, MemberState::InSync);
    assert_eq!(rig.failures, []);
    // The list that was tried again differs from the one that only the new disk got.
    assert_eq!(copy(&mut rig, ROWS[1]), Ok(()));
    let expected = [3, 5].map(|block| (1, block * BLOCK..(block + 1) * BLOCK));
    for disk in &rig.disks {
        let (record, _) = found(disk).bad_blocks.unwrap();
        assert_eq!(record.blocks.iter().collect::<Vec<_>>(), expected);
    }
}

/// Members have had lists before, so that the labels know of none. Each slot fails once.
#[test]
fn a_list_that_failed_once_is_written_again_before_its_step_ends() {
    let mut failed = 0;
    for slot in 0..2 {
        let mut rig = rebuilt(false);
        rig.write(3 * BLOCK, 5, 1);
        assert_eq!(store(&rig.volume).label().bad_blocks_generation, 0);
        rig.bad_sectors[0].push(rig.place(0, 3 * BLOCK) as u64);
        rig.failures.push((0, Op::Write, bad_blocks_offset(slot)));
        let mut result = rebuild(&mut rig, ROWS[1]);
        assert_eq!(rig.failures, []);
        while result.is_err() {
            failed += 1;
            result = copy(&mut rig, ROWS[1]);
        }
        rig.volume = started(&rig.disks);
        assert_eq!(bad(&rig), [(ROWS[1], 3 * BLOCK..4 * BLOCK)]);
    }
    assert_ne!(failed, 0);
}

/// It was not written since. Its own bad block is copied to it.
#[test]
fn a_member_that_catches_up_keeps_a_block_that_the_others_lack() {
    let mut rig = rebuilt(false);
    rig.bad_sectors[0].clear();
    let mut devices: Vec<FoundMember> = rig.disks.iter().map(|disk| found(disk)).collect();
    for (record, _) in devices.iter_mut().filter_map(|it| it.bad_blocks.as_mut()) {
        record.blocks.insert(0, 5 * BLOCK..6 * BLOCK);
    }
    rig.volume = started_of(devices);
    fail_member(&mut rig.volume, ROWS[1]);
    rig.run_ios(0, &mut []);
    let returned = found(&rig.disks[1]);
    command(&mut rig.volume, |store, array| {
        store.on_storage_replaced(ROWS[1], Some(&returned), array);
    });
    assert!(store(&rig.volume).is_catching_up(ROWS[1]));
    rig.volume.set_member_state(ROWS[1], MemberState::Rebuilding { recovered_bytes: 0 });
    assert_eq!(copy(&mut rig, ROWS[1]), Ok(()));
    assert_eq!(bad(&rig), [(ROWS[0], 5 * BLOCK..6 * BLOCK)]);
    assert_eq!(rig.read(0, 8), Ok(vec![7; 8]));
}

/// The record of the dirty log that it has is from before the stop.
#[test]
fn a_member_that_leaves_after_a_stop_in_good_order_keeps_a_block_that_the_others_lack() {
    let mut rig = Rig::with(volume_of(new_label(Profile::Raid1, 2, MEMBER_BYTES, false), vec![]));
    rig.write(0, 7, 8);
    rig.stop();
    rig.volume = started(&rig.disks);
    rig.bad_sectors[0].push(rig.place(0, 3 * BLOCK) as u64);
    fail_member(&mut rig.volume, ROWS[1]);
    rig.run_ios(0, &mut []);
    let returned = found(&rig.disks[1]);
    assert!(returned.record.as_ref().is_some_and(|record| record.regions == [0]));
    command(&mut rig.volume, |store, array| {
        store.on_storage_replaced(ROWS[1], Some(&returned), array);
    });
    assert!(store(&rig.volume).is_catching_up(ROWS[1]));
    rig.volume.set_member_state(ROWS[1], MemberState::Rebuilding { recovered_bytes: 0 });
    assert_eq!(copy(&mut rig, ROWS[1]), Ok(()));
    assert_eq!((rig.read(0, 8), bad(&rig)), (Ok(vec![7; 8]), vec![]));
}

/// Each member has the list of all. Without any, what members lack would be read as data.
#[test]
fn a_list_that_one_member_lost_is_that_of_another() {
    let mut rig = rebuilt(false);
    let mut devices: Vec<FoundMember> = rig.disks.iter().map(|disk| found(disk)).collect();
    devices[1].bad_blocks = None;
    let is_lost = |found: &[FoundMember]| crate::has_lost_bad_blocks(&assemble(found, &[]), found);
    assert!(!is_lost(&devices));
    rig.volume = started_of(devices.clone());
    assert_eq!(bad(&rig), [(ROWS[1], 3 * BLOCK..4 * BLOCK)]);
    devices[0].bad_blocks = None;
    assert!(is_lost(&devices));
    rig.write(0, 7, 1);
    let generations = rig.disks.each_ref().map(|disk| found(disk).bad_blocks.unwrap().0.generation);
    assert!(generations[0] > 0 && generations[0] == generations[1], "{generations:?}");
}

/// The new device got them before it took the place of the other one.
#[test]
fn a_member_that_was_replaced_gets_its_bad_blocks_from_another_one() {
    let mut rig = rebuilt(false);
    rig.bad_sectors[0].clear();
    command(&mut rig.volume, |store, _| store.resync_bad_blocks(ROWS[1]));
    let range = store(&rig.volume).next_unsynced(0).unwrap();
    let mut buffer = vec![0; (range.end - range.start) as usize];
    assert_eq!(rig.request(RequestKind::Resync, range.start, &mut buffer), Ok(()));
    assert_eq!((bad(&rig), store(&rig.volume).unsynced_bytes()), (vec![], 0));
}

#[test]
fn a_member_that_is_removed_takes_its_bad_blocks_along() {
    let mut rig = rebuilt(false);
    fail_member(&mut rig.volume, ROWS[1]);
    rig.run_ios(0, &mut []);
    assert_eq!(bad(&rig).len(), 1);
    command(&mut rig.volume, |store, array| {
        assert!(store.remove_device(ROWS[1], array));
    });
    rig.run_ios(0, &mut []);
    rig.bad_sectors[0].clear();
    rig.write(3 * BLOCK, 5, 1);
    assert_eq!(bad(&rig), []);
}

/// It went to the storage that is replaced.
#[test]
fn a_list_that_a_former_storage_did_not_take_fails_no_member() {
    let mut rig = rebuilt(false);
    let request = request(99, (RequestKind::Write, 3 * BLOCK, BLOCK));
    rig.volume.submit_write(request, &[5; BLOCK as usize]);
    let mut late = None;
    while let Some(io) = rig.volume.poll_io(rig.now) {
        let is_list = (BAD_BLOCKS_OFFSET..BAD_BLOCKS_OFFSET + u64::from(BAD_BLOCKS_BYTES))
            .contains(&io.offset);
        if is_list && io.member == ROWS[1] {
            late = Some(io.id);
            continue;
        }
        rig.volume.complete(io.id, Ok(()), rig.now);
    }
    command(&mut rig.volume, |store, array| store.on_storage_replaced(ROWS[1], None, array));
    rig.volume.set_member_state(ROWS[1], MemberState::Rebuilding { recovered_bytes: MIB });
    rig.volume.complete(late.unwrap(), Err(IoError::Transport), rig.now);
    assert_ne!(rig.volume.members()[ROWS[1]].state, MemberState::Failed);
}

#[test]
fn a_write_that_would_divide_a_bad_block_of_a_full_list_fails() {
    let mut rig = written(false);
    let lost = (0..1000).step_by(2).map(|block| rig.place(0, block * BLOCK) as u64);
    rig.bad_sectors[0] = lost.collect();
    assert_eq!(rebuild(&mut rig, ROWS[1]), Ok(()));
    let before = bad(&rig);
    assert_eq!(before.len(), 500);
    let write = |rig: &mut Rig, offset| rig.request(RequestKind::Write, offset, &mut [5; 512]);
    assert_eq!(write(&mut rig, 2 * BLOCK + 512), Err(VolumeError::Unwritable));
    assert_eq!(bad(&rig), before);
    assert_eq!(write(&mut rig, 2 * BLOCK), Ok(()));
    assert_eq!(bad(&rig)[1], (ROWS[1], 2 * BLOCK + 512..3 * BLOCK));
    rig.write(0, 5, 1);
    assert_eq!(write(&mut rig, 2 * BLOCK + 1024), Ok(()));
    assert_eq!(bad(&rig).len(), 500);
}

#[test]
fn a_write_on_the_last_copy_leaves_the_list_only_if_it_was_flushed() {
    let mut rig = rebuilt(false);
    fail_member(&mut rig.volume, ROWS[0]);
    rig.run_ios(0, &mut []);
    rig.failures.push((1, Op::Flush, 0));
    // What a failed flush lost, no later one makes durable.
    for _ in 0..2 {
        let write = rig.request(RequestKind::Write, 3 * BLOCK, &mut [5; BLOCK as usize]);
        assert_eq!(write, Err(VolumeError::Unwritable));
        assert_eq!(bad(&rig), [(ROWS[1], 3 * BLOCK..4 * BLOCK)]);
        assert_eq!(rig.read(3 * BLOCK, 1), Err(VolumeError::Unreadable));
        assert_eq!(rig.failures, []);
    }
    let (record, _) = found(&rig.disks[1]).bad_blocks.unwrap();
    assert_eq!(record.blocks.iter().count(), 1);
}

#[test]
fn no_older_list_counts_where_the_labels_know_of_none() {
    let mut rig = rebuilt(false);
    rig.write(3 * BLOCK, 5, 1);
    for disk in &mut rig.disks {
        let (record, slot) = found(disk).bad_blocks.unwrap();
        assert!(record.blocks.is_empty());
        disk[bad_blocks_offset(slot) as usize + 90] ^= 1;
        assert!(!found(disk).bad_blocks.unwrap().0.blocks.is_empty());
    }
    rig.volume = started(&rig.disks);
    assert_eq!((bad(&rig), rig.read(3 * BLOCK, 1)), (vec![], Ok(vec![5])));
}

#[test]
fn a_list_has_no_range_behind_the_end_of_the_volume() {
    let mut rig = rebuilt(false);
    let capacity = rig.volume.map().capacity_bytes();
    let mut found: Vec<FoundMember> = rig.disks.iter().map(|disk| found(disk)).collect();
    for (record, _) in found.iter_mut().filter_map(|it| it.bad_blocks.as_mut()) {
        record.blocks.insert(0, capacity - BLOCK..capacity + MIB);
        record.blocks.insert(1, 1 << 50..(1 << 50) + BLOCK);
    }
    rig.volume = started_of(found);
    let expected = [(ROWS[0], capacity - BLOCK..capacity), (ROWS[1], 3 * BLOCK..4 * BLOCK)];
    assert_eq!(bad(&rig), expected);
}

#[test]
fn what_a_device_lacked_that_was_replaced_takes_no_room_in_the_list() {
    let mut rig = written(false);
    let lost = (300..1300).step_by(2).map(|block| rig.place(0, block * BLOCK) as u64);
    rig.bad_sectors[0] = lost.collect();
    assert_eq!(rebuild(&mut rig, ROWS[1]), Ok(()));
    assert_eq!(bad(&rig).len(), 500);
    fail_member(&mut rig.volume, ROWS[1]);
    rig.run_ios(0, &mut []);
    rig.write(300 * BLOCK, 7, 1000);
    rig.bad_sectors[0] = vec![rig.place(0, 3 * BLOCK) as u64];
    assert_eq!(rebuild(&mut rig, ROWS[1]), Ok(()));
    assert_eq!(bad(&rig), [(ROWS[1], 3 * BLOCK..4 * BLOCK)]);
}
