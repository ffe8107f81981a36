//! Layouts worked out by hand, and the messages for arrays that cannot be allocated.

use super::*;
use crate::member::{MemberConfig, MemberIndex};
use crate::policy::Mirror;
use crate::units::{GIB, KIB, MIB, TIB};

fn members(sizes: &[u64]) -> Vec<MemberConfig> {
    (1..).zip(sizes).map(|(devid, &size_bytes)| MemberConfig::new(devid, size_bytes)).collect()
}

fn allocate(profile: Profile, gibibytes: &[u64]) -> ChunkMap {
    let sizes: Vec<u64> = gibibytes.iter().map(|size| size * GIB).collect();
    ChunkMap::allocate(profile, None, &members(&sizes)).unwrap()
}

/// The members of each chunk, in the order of its stripes.
fn chunk_members(map: &ChunkMap) -> Vec<Vec<u16>> {
    map.chunks().map(|chunk| chunk.stripes.iter().map(|stripe| stripe.member.0).collect()).collect()
}

fn stripe_mibs(map: &ChunkMap) -> Vec<u64> {
    map.chunks().map(|chunk| chunk.stripe_bytes / MIB).collect()
}

fn mirror(member: u16, offset: u64, copy: u8) -> Mirror {
    Mirror { member: MemberIndex(member), offset, copy }
}

#[test]
fn two_equal_members_of_raid1_are_filled_evenly() {
    let map = allocate(Profile::Raid1, &[10, 10]);
    assert_eq!(map.capacity_bytes(), 10 * GIB - MIB);
    assert_eq!(chunk_members(&map), vec![vec![0, 1]; 10]);
    assert_eq!(stripe_mibs(&map)[8..], [1024, 1023]);
    let extent = map.map(GIB + 4 * KIB, 2 * GIB);
    let offset = MIB + GIB + 4 * KIB;
    assert_eq!(extent.mirrors[..], [mirror(0, offset, 0), mirror(1, offset, 1)]);
    assert_eq!(extent.length, GIB - 4 * KIB, "a request is cut at the end of its chunk");
    assert_eq!(map.map(4 * KIB, 128 * KIB).length, 128 * KIB, "and not at the ends of strips");
}

/// The largest member has a stripe in each chunk. The second takes the first ten alone, until the
/// third has as much free space; then they take turns. The last stripe of each is short of a MiB.
#[test]
fn three_unequal_members_of_raid1_use_all_space_but_what_has_no_partner() {
    let map = allocate(Profile::Raid1, &[30, 20, 10]);
    assert_eq!(map.capacity_bytes(), 30 * GIB - 2 * MIB);
    let turns = [[0, 1], [0, 2]].repeat(10);
    assert_eq!(chunk_members(&map), [vec![[0, 1]; 10], turns].concat());
    assert_eq!(stripe_mibs(&map)[27..], [1024, 1023, 1023]);
    assert_eq!(map.allocated(MemberIndex(0)).end, 30 * GIB - MIB);
    assert_eq!(map.allocated(MemberIndex(2)).end, 10 * GIB);
}

#[test]
fn raid10_of_six_distributes_strips_over_three_pairs() {
    let map = allocate(Profile::Raid10, &[12; 6]);
    assert_eq!(map.capacity_bytes(), 3 * (12 * GIB - MIB));
    assert_eq!(map.chunks().next().unwrap().length, 3 * GIB);
    for (offset, first, member_offset) in [
        (0, 0, MIB),
        (64 * KIB, 2, MIB),
        (128 * KIB + 512, 4, MIB + 512),
        (192 * KIB, 0, MIB + 64 * KIB),
        (3 * GIB, 0, MIB + GIB),
    ] {
        let extent = map.map(offset, MIB);
        let expected = [mirror(first, member_offset, 0), mirror(first + 1, member_offset, 1)];
        assert_eq!(extent.mirrors[..], expected, "{offset}");
        assert_eq!(extent.length, 64 * KIB - offset % (64 * KIB), "{offset}");
    }
}

/// A chunk may take 1433.6 MiB. Over three members that is 480 MiB each, rounded up to 16; over
/// two, 720 MiB each; on one, 1 GiB is less. The last stripe of each width takes what is left.
#[test]
fn raid0_of_unequal_members_narrows_as_they_fill() {
    let map = allocate(Profile::Raid0, &[8, 4, 2]);
    assert_eq!(map.capacity_bytes(), 14 * GIB - 3 * MIB);
    let wide = [480, 480, 480, 480, 127];
    assert_eq!(stripe_mibs(&map), [&wide[..], &[720, 720, 608], &[1024; 4]].concat());
    let widths: Vec<usize> = map.chunks().map(|chunk| chunk.stripes.len()).collect();
    assert_eq!(widths, [3, 3, 3, 3, 3, 2, 2, 2, 1, 1, 1, 1]);
}

#[test]
fn a_chunk_of_a_large_array_is_ten_gibibytes_rounded_up_per_stripe() {
    let map = ChunkMap::allocate(Profile::Raid0, None, &members(&[TIB; 24])).unwrap();
    let first = map.chunks().next().unwrap();
    assert_eq!((first.stripe_bytes, first.length), (432 * MIB, 24 * 432 * MIB));
}

#[test]
fn equals_go_by_devid_and_not_by_place() {
    let mut configs = members(&[10 * GIB; 3]);
    configs[0].devid = 9;
    let map = ChunkMap::allocate(Profile::Raid1, None, &configs).unwrap();
    assert_eq!(chunk_members(&map)[..3], [[1, 2], [0, 1], [2, 0]]);
}

#[test]
fn stripe_width_max_narrows_striped_profiles_only() {
    let with_width = |profile, width| {
        ChunkMap::allocate(profile, Some(width), &members(&[10 * GIB; 6])).unwrap()
    };
    let pairs = chunk_members(&with_width(Profile::Raid0, 2));
    assert_eq!(pairs[..4], [[0, 1], [2, 3], [4, 5], [0, 1]]);
    // Five is no whole number of pairs.
    let fours = chunk_members(&with_width(Profile::Raid10, 5));
    assert_eq!(fours[..3], [[0, 1, 2, 3], [4, 5, 0, 1], [2, 3, 4, 5]]);
    assert_eq!(with_width(Profile::Raid10, 100), allocate(Profile::Raid10, &[10; 6]));
    assert_eq!(with_width(Profile::Raid1c3, 1), allocate(Profile::Raid1c3, &[10; 6]));
}

#[test]
fn a_member_without_a_chunk_is_empty() {
    let map = ChunkMap::allocate(Profile::Raid1, None, &members(&[GIB, GIB, 2 * MIB])).unwrap();
    let empty = MemberIndex(2);
    assert_eq!(map.allocated(empty).end, RESERVED_BYTES);
    assert_eq!(map.locate(empty, RESERVED_BYTES), None);
}

#[test]
#[should_panic(expected = "2 bytes at 10736369663 of 10736369664 bytes")]
fn a_range_beyond_the_volume_is_a_bug() {
    allocate(Profile::Raid1, &[10, 10]).map(10 * GIB - MIB - 1, 2);
}

#[test]
fn refusals_say_what_is_wrong_and_what_to_do() {
    for (profile, width, sizes, message) in [
        (
            Profile::Raid1c3,
            None,
            vec![GIB; 2],
            "profile raid1c3 needs at least 3 members, but the array has 2\n  help: add members, \
             or use profile raid1",
        ),
        (
            Profile::Raid0,
            None,
            vec![],
            "profile raid0 needs at least 1 member, but the array has 0\n  help: add members",
        ),
        (
            Profile::Raid1,
            None,
            vec![GIB, MIB],
            "the member with devid 2 has 1 MiB, but a member needs at least 1.1 MiB\n  help: \
             write for example size = \"500G\"",
        ),
        (
            Profile::Raid1,
            None,
            vec![u64::MAX, GIB],
            "the members have 16384.0 PiB together, but an array can have at most 4 PiB\n  help: \
             check the units of the sizes; write for example size = \"500G\"",
        ),
        (
            Profile::Raid10,
            Some(1),
            vec![GIB; 4],
            "stripe_width_max is 1, but a chunk of profile raid10 spans at least 2 members\n  \
             help: raise it or remove it",
        ),
    ] {
        let error = ChunkMap::allocate(profile, width, &members(&sizes)).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    let smallest = members(&[MIB + 64 * KIB; 2]);
    let map = ChunkMap::allocate(Profile::Raid1, None, &smallest).unwrap();
    assert_eq!(map.capacity_bytes(), STRIP_BYTES);
    let zero = ChunkMap::allocate(Profile::Raid0, Some(0), &smallest).unwrap_err();
    let expected =
        GeometryError::StripeWidthTooSmall { profile: Profile::Raid0, stripe_width_max: 0 };
    assert_eq!(zero, expected);
}
