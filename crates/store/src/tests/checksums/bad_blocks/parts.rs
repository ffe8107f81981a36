//! Bad blocks of which clients wrote a part that is shorter than a sector.

use super::*;

fn write_part(rig: &mut Rig, byte: u8) {
    assert_eq!(rig.request(RequestKind::Write, 3 * BLOCK, &mut [byte; 512]), Ok(()));
}

fn read_part(rig: &mut Rig) -> Result<u8, VolumeError> {
    let mut part = [0; 512];
    rig.request(RequestKind::Read, 3 * BLOCK, &mut part).map(|()| part[0])
}

/// A volume of the second disk alone, which lacks block 3 but for its first 512 bytes.
fn partly_written() -> Rig {
    let mut rig = rebuilt(false);
    fail_member(&mut rig.volume, ROWS[0]);
    rig.run_ios(0, &mut []);
    rig.bad_sectors[0].clear();
    write_part(&mut rig, 5);
    assert_eq!(bad(&rig), [(ROWS[1], 3 * BLOCK + 512..4 * BLOCK)]);
    rig
}

#[test]
fn a_rebuild_copies_the_written_part_of_a_bad_sector() {
    let mut rig = partly_written();
    assert_eq!(rebuild(&mut rig, ROWS[0]), Ok(()));
    assert_eq!(bad(&rig), ROWS.map(|row| (row, 3 * BLOCK + 512..4 * BLOCK)));
    fail_member(&mut rig.volume, ROWS[1]);
    rig.run_ios(0, &mut []);
    assert_eq!(read_part(&mut rig), Ok(5));
}

#[test]
fn a_copy_to_another_device_has_the_written_part_of_a_bad_sector() {
    let mut rig = partly_written();
    rig.disks[0].fill(0xee);
    assert_eq!(copy(&mut rig, ROWS[1]), Ok(()));
    assert_eq!(read_part(&mut rig), Ok(5));
    assert_eq!(bad(&rig), [(ROWS[1], 3 * BLOCK + 512..4 * BLOCK)]);
}

/// After a crash the second write is on the first disk only.
#[test]
fn a_resync_makes_the_written_part_of_a_bad_sector_equal() {
    let mut rig = written(false);
    rig.write(2 * BLOCK, 9, 2);
    rig.volume = started(&rig.disks);
    for row in 0..2 {
        let place = rig.place(row, 3 * BLOCK) as u64;
        rig.bad_sectors[row].push(place);
    }
    let range = store(&rig.volume).next_unsynced(0).unwrap();
    let mut buffer = vec![0; (range.end - range.start) as usize];
    let mut resync = |rig: &mut Rig| rig.request(RequestKind::Resync, range.start, &mut buffer);
    assert_eq!(resync(&mut rig), Err(VolumeError::Unreadable));
    assert_eq!(resync(&mut rig), Ok(()));
    assert_eq!(bad(&rig).len(), 2);
    write_part(&mut rig, 5);
    write_part(&mut rig, 6);
    *rig.at(1, 3 * BLOCK) = 5;
    rig.volume = started(&rig.disks);
    assert_ne!(store(&rig.volume).unsynced_bytes(), 0);
    assert_eq!(resync(&mut rig), Ok(()));
    assert_eq!(store(&rig.volume).unsynced_bytes(), 0);
    assert_eq!([0, 1].map(|row| *rig.at(row, 3 * BLOCK)), [6, 6]);
}
