//! The extents of files, against those of a real XFS and worked out by hand.

use super::*;

const GIB: u64 = 1 << 30;
/// A volume of 49.998 GiB, less than 16 AGs of 3200 MiB, with strips of 1 MiB and three of them in
/// a full stripe.
const VOLUME: u64 = 53_684_994_048;

fn file() -> XfsFile {
    let ag_bytes = XfsGeometry::ag_bytes(VOLUME, MIB, 3);
    let (volume_bytes, unit_bytes, align_bytes) = (VOLUME, MIB, MIB);
    XfsFile::new(XfsGeometry { volume_bytes, ag_bytes, unit_bytes, align_bytes })
}

#[test]
fn ags_are_no_multiple_of_a_full_stripe() {
    assert_eq!(XfsGeometry::ag_bytes(VOLUME, MIB, 3), 3200 * MIB);
    assert_eq!(XfsGeometry::ag_bytes(48 * GIB, MIB, 3), 3071 * MIB, "3072 is a multiple of 3");
    assert_eq!(XfsGeometry::ag_bytes(48 * GIB, MIB, 1), 3072 * MIB);
    assert_eq!(XfsGeometry::ag_bytes(1 << 40, 64 * KIB, 4), 32 * GIB - 64 * KIB);
}

/// The extents of `fallocate -l 30g` under Linux 6.18, by `xfs_bmap -v` in MiB: offset in the file,
/// AG, offset in the AG. mkfs.xfs 6.1 with `-d su=1024k,sw=3 -m finobt=0,reflink=0`.
#[test]
fn a_preallocated_file_has_the_extents_of_the_kernel() {
    let mut file = file();
    assert!(file.preallocate(30 * GIB));
    let extents: Vec<(u64, u64, u64)> = file
        .extents
        .iter()
        .map(|(&offset, &(place, _))| (offset / MIB, place / MIB / 3200, place / MIB % 3200))
        .collect();
    let whole = [1, 2, 3, 4, 5, 6, 7, 9, 10].into_iter().zip(0..);
    let mut expected: Vec<(u64, u64, u64)> =
        whole.map(|(ag, index)| (3199 * index, ag, 1)).collect();
    expected.push((3199 * 9, 0, 2));
    assert_eq!(extents, expected);
    assert!(!file.preallocate(60 * GIB), "larger than the volume");
}

/// 1600 writes of 3 MiB in random order by fio with `--fallocate=none`, on the same filesystem: the
/// number of the block in the file, and the 4 KiB block of the volume where the kernel put it.
#[test]
fn a_sparse_file_has_the_extents_of_the_kernel() {
    let mut file = file();
    let mut differing = 0;
    for line in include_str!("linux-6.18-sparse.txt").lines() {
        let (block, place) = line.split_once(' ').unwrap();
        let offset = block.parse::<u64>().unwrap() * 3 * MIB;
        assert!(file.allocate(offset..offset + 3 * MIB));
        let parts = file.map(offset..offset + 3 * MIB);
        let expected = place.parse::<u64>().unwrap() * BLOCK;
        differing += u64::from(parts != vec![expected..expected + 3 * MIB; 1]);
    }
    assert_eq!(differing, 0);
}

/// By hand: the first write goes to the third unit, behind headers and inodes.
#[test]
fn gaps_are_kept_within_an_ag_and_dropped_beyond() {
    let mut file = file();
    let mut place = |at: u64| {
        assert!(file.allocate(at * MIB..(at + 3) * MIB));
        file.map(at * MIB..(at + 3) * MIB)[0].start / MIB
    };
    assert_eq!(place(9000), 2);
    assert_eq!(place(9103), 105, "100 behind the end of the first, at 5");
    assert_eq!(place(12_400), 108, "the gap of 3294 does not fit in the AG");
    assert_eq!(place(9015), 17, "a gap of 12 is kept, four lengths");
    assert_eq!(place(9050), 20, "32 are too many: behind the nearer neighbour");
    assert_eq!(place(9092), 94, "begins 11 before the next");
    assert_eq!(place(9080), 82, "12 before the next");
    assert_eq!(place(9060), 30, "7 behind the one before");
}

#[test]
fn reads_of_holes_have_no_place_and_neighbours_are_joined() {
    let mut file = file();
    assert!(file.allocate(0..MIB) && file.allocate(MIB..2 * MIB) && file.allocate(0..2 * MIB));
    assert_eq!(file.map(0..4 * MIB), vec![2 * MIB..4 * MIB; 1]);
    assert_eq!(file.map(3 * MIB..4 * MIB), []);
}
