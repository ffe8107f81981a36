//! Tests of arrays with parity: each strip where the system puts it, each byte at one place.

use super::*;
use crate::member::{MemberConfig, MemberIndex};
use crate::units::{GIB, KIB, MIB};
use proptest::prelude::*;
use proptest::sample::select;

fn members(sizes: &[u64]) -> Vec<MemberConfig> {
    (1..).zip(sizes).map(|(devid, &size)| MemberConfig::new(devid, size)).collect()
}

fn arranged(layout: &str, chunk_bytes: u64, sizes: &[u64]) -> Result<ChunkMap, GeometryError> {
    let layout: ArrayLayout = layout.parse().unwrap();
    ChunkMap::arrange(layout.with_chunk(chunk_bytes).unwrap(), &members(sizes))
}

/// The strips of the first rows on each member, letter by letter: data by their number on the
/// volume, from `a` on.
fn picture(map: &ChunkMap, width: u16, rows: u64) -> Vec<String> {
    let strip_bytes = map.full_stripe(0).unwrap().strip_bytes;
    let start = map.allocated(MemberIndex(0)).start;
    let letter = |member: u16, row: u64| {
        let offset = start + row * strip_bytes;
        let (stripe, column) = map.column_at(MemberIndex(member), offset).unwrap();
        match map.locate(MemberIndex(member), offset) {
            Some(held) => char::from(b'a' + (held.volume_offset / strip_bytes) as u8),
            None if column.number == stripe.data => 'P',
            None => 'Q',
        }
    };
    (0..rows).map(|row| (0..width).map(|member| letter(member, row)).collect()).collect()
}

/// From md(4) and `raid5_compute_sector`, worked out by hand.
#[test]
fn strips_lie_where_md_puts_them() {
    let of = |layout| picture(&arranged(layout, 64 * KIB, &[100 * MIB; 4]).unwrap(), 4, 4);
    assert_eq!(of("md-raid5-left-symmetric"), ["abcP", "efPd", "iPgh", "Pjkl"]);
    assert_eq!(of("md-raid5-left-asymmetric"), ["abcP", "dePf", "gPhi", "Pjkl"]);
    assert_eq!(of("md-raid5-right-symmetric"), ["Pabc", "fPde", "hiPg", "jklP"]);
    assert_eq!(of("md-raid6-left-symmetric"), ["QabP", "cdPQ", "fPQe", "PQgh"]);
}

#[test]
fn strips_lie_where_btrfs_puts_them() {
    let of = |profile| {
        let map = ChunkMap::allocate(profile, None, &members(&[100 * MIB; 4])).unwrap();
        picture(&map, 4, 4)
    };
    assert_eq!(of(Profile::Raid5), ["abcP", "Pdef", "iPgh", "klPj"]);
    assert_eq!(of(Profile::Raid6), ["abPQ", "QcdP", "PQef", "hPQg"]);
}

/// Offsets by hand: data offset of mdadm for 100 MiB with chunks of 1 MiB, then a row of 1 MiB.
#[test]
fn offsets_count_rows_from_the_data_offset() {
    let map = arranged("md-raid6-left-symmetric", MIB, &[100 * MIB; 5]).unwrap();
    let start = map.allocated(MemberIndex(0)).start;
    // Row 2 is 12PQ0: strip 6 of the volume on member 4, strips 7 and 8 on members 0 and 1.
    for (strip, member) in [(6, 4), (7, 0), (8, 1)] {
        let mirror = map.map(strip * MIB + 4096, 8192).mirrors[0];
        assert_eq!((mirror.member, mirror.offset), (MemberIndex(member), start + 2 * MIB + 4096));
    }
    let stripe = map.full_stripe(7 * MIB + 5).unwrap();
    assert_eq!((stripe.volume_offset, stripe.length()), (6 * MIB, 3 * MIB));
    let columns: Vec<_> = (0..5).map(|column| map.column(&stripe, column)).collect();
    let expected = [4, 0, 1, 2, 3].map(|member| (MemberIndex(member), start + 2 * MIB));
    assert_eq!(columns, expected);
    assert_eq!(map.map(7 * MIB - 512, 4096).length, 512, "cut at the end of a strip");
    assert_eq!(map.capacity_bytes() % (3 * MIB), 0);
}

/// btrfs fills the two larger members after the small one is full; a row is then narrower.
#[test]
fn unequal_members_make_chunks_of_unequal_width() {
    let sizes = [3 * GIB, 3 * GIB, 3 * GIB, GIB];
    let map = ChunkMap::allocate(Profile::Raid5, None, &members(&sizes)).unwrap();
    let widths: Vec<usize> = map.chunks().map(|chunk| chunk.stripes.len()).collect();
    assert_eq!((widths[0], widths.last()), (4, Some(&3)));
    for chunk in map.chunks() {
        let data = chunk.stripes.len() as u64 - 1;
        assert_eq!(chunk.length, chunk.stripe_bytes * data);
        let last = map.full_stripe(chunk.volume_offset + chunk.length - 1).unwrap();
        assert_eq!(u64::from(last.data), data);
        assert_eq!(last.volume_offset + last.length(), chunk.volume_offset + chunk.length);
    }
}

#[test]
fn arrays_that_cannot_have_parity_are_refused() {
    let refused = |map: Result<ChunkMap, GeometryError>| map.unwrap_err().to_string();
    assert_eq!(
        refused(ChunkMap::allocate(Profile::Raid6, None, &members(&[GIB; 2]))),
        "profile raid6 needs at least 3 members, but the array has 2\n  help: add members, or use \
         profile raid1"
    );
    assert_eq!(
        refused(ChunkMap::allocate(Profile::Raid6, Some(2), &members(&[GIB; 4]))),
        "stripe_width_max is 2, but a chunk of profile raid6 spans at least 3 members\n  help: \
         raise it or remove it"
    );
    assert_eq!(
        refused(arranged("md-raid6", 64 * KIB, &[GIB; 3])),
        "layout md-raid6-left-symmetric needs at least 4 members, but the array has 3\n  help: add \
         members"
    );
    let too_wide = |width: usize, more: &str| {
        format!(
            "a chunk of profile raid5 would span {width} members, but a row of strips with parity \
             spans at most 64\n  help: use fewer members{more}"
        )
    };
    assert_eq!(refused(arranged("md-raid5", 64 * KIB, &[GIB; 65])), too_wide(65, ""));
    let wide = members(&[GIB; 70]);
    let refused_width = |most| refused(ChunkMap::allocate(Profile::Raid5, most, &wide));
    assert_eq!(refused_width(None), too_wide(70, ", or `stripe_width_max = 64`"));
    assert_eq!(refused_width(Some(65)), too_wide(65, ", or `stripe_width_max = 64`"));
    ChunkMap::allocate(Profile::Raid5, Some(64), &wide).unwrap();
    let small = refused(arranged("md-raid5", 16 * MIB, &[12 * MIB; 3]));
    assert!(small.starts_with("the member with devid 1 has 12 MiB"), "{small}");
}

#[test]
fn data_are_held_while_no_more_members_are_missing_than_parities() {
    let holds =
        |map: &ChunkMap, missing: &[u16]| map.is_held(|member, _| !missing.contains(&member.0));
    let raid5 = ChunkMap::allocate(Profile::Raid5, None, &members(&[GIB; 4])).unwrap();
    assert!(holds(&raid5, &[]) && holds(&raid5, &[2]) && !holds(&raid5, &[0, 3]));
    let raid6 = arranged("md-raid6", 64 * KIB, &[GIB; 5]).unwrap();
    assert!(holds(&raid6, &[1, 4]) && !holds(&raid6, &[0, 2, 3]));
    let mirrors = ChunkMap::allocate(Profile::Raid1c3, None, &members(&[GIB; 3])).unwrap();
    assert!(holds(&mirrors, &[0, 1]) && !holds(&mirrors, &[0, 1, 2]));
    assert_eq!([raid5, raid6, mirrors].map(|map| map.tolerated_failures()), [1, 2, 2]);
}

/// Walks all full stripes. Each strip of each member belongs to one column of one of them, columns
/// are on distinct members, and every byte of data is mapped there and back.
pub(super) fn check_every_strip(map: &ChunkMap, members: usize) {
    let mut rows_of = vec![0u64; members];
    let (mut offset, mut strip_bytes) = (0, 0);
    while offset < map.capacity_bytes() {
        let stripe = map.full_stripe(offset).unwrap();
        assert_eq!(stripe.volume_offset, offset);
        strip_bytes = stripe.strip_bytes;
        let mut seen = Vec::new();
        for column in 0..stripe.columns() {
            let (member, at) = map.column(&stripe, column);
            assert!(!seen.contains(&member), "two columns on {member:?}");
            seen.push(member);
            let start = map.allocated(member).start;
            assert_eq!(at, start + rows_of[member.get()] * strip_bytes, "a gap or an overlap");
            rows_of[member.get()] += 1;
            let inside = StripeColumn { number: column, offset: strip_bytes - 512 };
            assert_eq!(map.column_at(member, at + strip_bytes - 512), Some((stripe, inside)));
            if column >= stripe.data {
                assert_eq!(map.locate(member, at), None);
                continue;
            }
            let on_volume = offset + u64::from(column) * strip_bytes;
            let mapped = map.map(on_volume, strip_bytes);
            assert_eq!(mapped.length, strip_bytes);
            assert_eq!((mapped.mirrors[0].member, mapped.mirrors[0].offset), (member, at));
            let held = VolumeRange { volume_offset: on_volume + 512, length: strip_bytes - 512 };
            assert_eq!(map.locate(member, at + 512), Some(held));
        }
        offset += stripe.length();
    }
    assert_eq!(offset, map.capacity_bytes());
    for (member, rows) in (0..).map(MemberIndex).zip(rows_of) {
        let allocated = map.allocated(member);
        assert_eq!(allocated.end, allocated.start + rows * strip_bytes);
        assert_eq!(map.column_at(member, allocated.end), None);
        assert_eq!(map.column_at(member, 0), None);
    }
}

const LAYOUTS: &[&str] = &[
    "md-raid5-left-symmetric",
    "md-raid5-right-asymmetric",
    "md-raid5-parity-first",
    "md-raid6-left-symmetric",
    "md-raid6-left-asymmetric",
    "md-raid6-right-symmetric",
    "md-raid6-parity-last",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_strip_of_md_has_one_place(
        layout in select(LAYOUTS),
        chunk_shift in 12..22u32,
        sizes in prop::collection::vec(16 * MIB..40 * MIB, 4..9),
    ) {
        let map = arranged(layout, 1 << chunk_shift, &sizes).unwrap();
        prop_assert!(map.capacity_bytes() > 0);
        check_every_strip(&map, sizes.len());
    }
}
