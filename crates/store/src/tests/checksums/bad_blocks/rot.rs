//! Bad blocks of volumes with checksums: no mirror had the right data.

use super::*;

/// A volume whose first disk returns wrong data of block 3, which the second one therefore lacks.
fn rotten() -> Rig {
    let mut rig = Rig::new();
    rig.write(0, 7, 8);
    rig.calm_down();
    *rig.at(0, 3 * BLOCK) ^= 1;
    assert_eq!(rebuild(&mut rig, ROWS[1]), Ok(()));
    rig.calm_down();
    check(&mut rig);
    rig
}

/// Wrong data stay an error, and the others are there.
fn check(rig: &mut Rig) {
    assert_eq!(bad(rig), [(ROWS[1], 3 * BLOCK..4 * BLOCK)]);
    assert_eq!(rig.read(3 * BLOCK, 1), Err(VolumeError::Unreadable));
    assert_eq!((rig.read(0, 3), rig.read(4 * BLOCK, 4)), (Ok(vec![7; 3]), Ok(vec![7; 4])));
}

/// Synchronises mirrors, which does not make wrong data good.
fn check_resync(rig: &mut Rig) {
    let range = store(&rig.volume).next_unsynced(0).unwrap();
    let mut buffer = vec![0; (range.end - range.start) as usize];
    let mut resync = |rig: &mut Rig| rig.request(RequestKind::Resync, range.start, &mut buffer);
    assert_eq!(resync(rig).or_else(|_| resync(rig)), Ok(()));
    assert_eq!(store(&rig.volume).unsynced_bytes(), 0);
}

#[test]
fn wrong_data_stay_an_error_when_the_member_that_lacks_them_is_replaced_again() {
    let mut rig = rotten();
    command(&mut rig.volume, |store, _| store.resync_bad_blocks(ROWS[1]));
    check(&mut rig);
    check_resync(&mut rig);
    check(&mut rig);
}

/// Mirrors of the region of a bad block differ, but no write was under way.
#[test]
fn wrong_data_next_to_a_bad_block_stay_an_error_when_that_is_synchronised() {
    let mut rig = rotten();
    (*rig.at(0, 5 * BLOCK), *rig.at(1, 5 * BLOCK)) = (1, 2);
    command(&mut rig.volume, |store, _| store.resync_bad_blocks(ROWS[1]));
    assert_eq!(rig.read(5 * BLOCK, 1), Err(VolumeError::Unreadable));
    check_resync(&mut rig);
    assert_eq!(rig.read(5 * BLOCK, 1), Err(VolumeError::Unreadable));
}

/// The crash leaves the region of the bad block in the dirty log.
#[test]
fn wrong_data_stay_an_error_after_a_crash_with_writes_close_to_them() {
    let mut rig = rotten();
    rig.write(100 * BLOCK, 1, 1);
    let found: Vec<FoundMember> = rig.disks.iter().map(|disk| found(disk)).collect();
    let assembly = assemble(&found, &[]);
    let states: Vec<MemberState> = assembly.members.iter().map(|row| row.state).collect();
    let capacity = rig.volume.map().capacity_bytes();
    let labels = VolumeLabels::of(&assembly, &found, capacity, 2);
    rig.volume = volume_with(labels, &states, Box::new(First), false);
    check(&mut rig);
    check_resync(&mut rig);
    check(&mut rig);
    rig.write(3 * BLOCK, 5, 1);
    assert_eq!((rig.read(3 * BLOCK, 1), bad(&rig)), (Ok(vec![5]), vec![]));
}
