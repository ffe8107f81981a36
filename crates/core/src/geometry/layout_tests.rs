//! Layouts of systems other than btrfs: tables worked out by hand, and properties of all arrays.

use super::*;
use crate::member::{MemberConfig, MemberIndex};
use crate::units::{GIB, KIB, MIB, TIB};
use proptest::prelude::*;
use proptest::sample::select;

const CHUNK: u64 = 512 * KIB;
/// Data offset that mdadm chooses for members of 64 MiB with chunks of 512 KiB.
const START: u64 = 2 * MIB;

fn layout(text: &str) -> ArrayLayout {
    text.parse().unwrap()
}

fn members(sizes: &[u64]) -> Vec<MemberConfig> {
    (1..).zip(sizes).map(|(devid, &size_bytes)| MemberConfig::new(devid, size_bytes)).collect()
}

fn arrange(text: &str, sizes: &[u64]) -> Result<ChunkMap, GeometryError> {
    ChunkMap::arrange(layout(text), &members(sizes))
}

/// An array of `count` members with 4 chunks of data each.
fn small(text: &str, count: usize) -> ChunkMap {
    arrange(text, &vec![START + 4 * CHUNK + 100 * KIB; count]).unwrap()
}

/// For each strip its copies, as `(member, row)` in the order of the mirrors.
fn strips(map: &ChunkMap) -> Vec<Vec<(u16, u64)>> {
    let strips = (0..map.capacity_bytes() / CHUNK).map(|strip| {
        let mapped = map.map(strip * CHUNK, CHUNK);
        assert_eq!(mapped.length, CHUNK);
        let place = |mirror: &crate::policy::Mirror| {
            assert_eq!((mirror.offset - START) % CHUNK, 0);
            (mirror.member.0, (mirror.offset - START) / CHUNK)
        };
        mapped.mirrors.iter().map(place).collect()
    });
    strips.collect()
}

/// The table of each member, as md(4) draws it: the strips in each of its rows.
fn rows(map: &ChunkMap, count: usize) -> Vec<Vec<u64>> {
    let mut rows = vec![vec![99; count]; 4];
    for (strip, copies) in (0..).zip(strips(map)) {
        for (member, row) in copies {
            assert_eq!(rows[row as usize][usize::from(member)], 99, "a place is used twice");
            rows[row as usize][usize::from(member)] = strip;
        }
    }
    rows
}

#[test]
fn near_copies_are_neighbours() {
    assert_eq!(rows(&small("md-raid10-near:2", 2), 2), [[0, 0], [1, 1], [2, 2], [3, 3]]);
    let four = [[0, 0, 1, 1], [2, 2, 3, 3], [4, 4, 5, 5], [6, 6, 7, 7]];
    assert_eq!(rows(&small("md-raid10-near:2", 4), 4), four);
    // An odd number of members: the second copy of a strip may begin the next row.
    assert_eq!(
        rows(&small("md-raid10-near:2", 3), 3),
        [[0, 0, 1], [1, 2, 2], [3, 3, 4], [4, 5, 5]]
    );
    // Ten strips; the last place of the last row is left over.
    assert_eq!(
        rows(&small("md-raid10-near:2", 5), 5),
        [[0, 0, 1, 1, 2], [2, 3, 3, 4, 4], [5, 5, 6, 6, 7], [7, 8, 8, 9, 9]]
    );
    assert_eq!(
        rows(&small("md-raid10-near:3", 4), 4),
        [[0, 0, 0, 1], [1, 1, 2, 2], [2, 3, 3, 3], [4, 4, 4, 99]].map(|row: [u64; 4]| row.to_vec())
    );
    let odd = small("md-raid10-near:2", 3);
    assert_eq!(strips(&odd)[1], [(2, 0), (0, 1)], "in the order of md: the first copy first");
}

#[test]
fn far_copies_are_in_another_part_of_the_next_members() {
    assert_eq!(rows(&small("md-raid10-far:2", 2), 2), [[0, 1], [2, 3], [1, 0], [3, 2]]);
    assert_eq!(rows(&small("md-raid10-far:2", 3), 3), [[0, 1, 2], [3, 4, 5], [2, 0, 1], [5, 3, 4]]);
    assert_eq!(
        rows(&small("md-raid10-far:2", 5), 5),
        [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [4, 0, 1, 2, 3], [9, 5, 6, 7, 8]]
    );
    // Three copies in four rows: a third of a member is one row, and one is left over.
    assert_eq!(
        rows(&small("md-raid10-far:3", 4), 4),
        [[0, 1, 2, 3], [3, 0, 1, 2], [2, 3, 0, 1], [99; 4]]
    );
    assert_eq!(strips(&small("md-raid10-far:3", 4))[2], [(2, 0), (3, 1), (0, 2)]);
}

#[test]
fn offset_copies_are_in_the_next_row_of_the_next_members() {
    assert_eq!(rows(&small("md-raid10-offset:2", 2), 2), [[0, 1], [1, 0], [2, 3], [3, 2]]);
    assert_eq!(
        rows(&small("md-raid10-offset:2", 3), 3),
        [[0, 1, 2], [2, 0, 1], [3, 4, 5], [5, 3, 4]]
    );
    assert_eq!(
        rows(&small("md-raid10-offset:2", 4), 4),
        [[0, 1, 2, 3], [3, 0, 1, 2], [4, 5, 6, 7], [7, 4, 5, 6]]
    );
    assert_eq!(
        rows(&small("md-raid10-offset:3", 5), 5),
        [[0, 1, 2, 3, 4], [4, 0, 1, 2, 3], [3, 4, 0, 1, 2], [99; 5]]
    );
}

#[test]
fn a_read_of_md_raid10_is_cut_at_chunks_unless_each_member_has_all_data() {
    let far = small("md-raid10-far:2", 2);
    assert_eq!(far.map(128 * KIB, MIB).length, 384 * KIB);
    let near = small("md-raid10-near:2", 2);
    assert_eq!(near.map(128 * KIB, MIB).length, MIB);
    let wide = ChunkMap::arrange(
        layout("md-raid10-far:2").with_chunk(64 * KIB).unwrap(),
        &members(&[64 * MIB; 2]),
    );
    assert_eq!(wide.unwrap().map(0, MIB).length, 64 * KIB);
}

/// Sizes as the systems themselves have them; the smallest member decides.
#[test]
fn capacities_are_those_of_the_systems() {
    let capacity = |text, sizes: &[u64]| arrange(text, sizes).unwrap().capacity_bytes();
    // mdadm leaves 129 MiB in front of a large member.
    assert_eq!(capacity("md-raid1", &[2 * TIB; 3]), 2 * TIB - 129 * MIB);
    assert_eq!(capacity("md-raid1", &[2 * TIB, TIB + 5000]), TIB - 129 * MIB);
    assert_eq!(capacity("md-raid10-near:2", &[TIB; 3]), (TIB - 129 * MIB) / 2 * 3);
    assert_eq!(capacity("md-raid10-far:2", &[TIB, 2 * TIB]), TIB - 129 * MIB);
    assert_eq!(capacity("lvm-raid1", &[TIB; 2]), TIB - 8 * MIB, "extents of 4 MiB");
    assert_eq!(capacity("gmirror", &[TIB, TIB - 4096]), TIB - 8192, "the last sector");
    assert_eq!(capacity("zfs-mirror:2", &[TIB; 4]), 2 * (TIB - 4 * MIB - 512 * KIB));
    assert_eq!(capacity("zfs-mirror:3", &[TIB; 3]), TIB - 4 * MIB - 512 * KIB);
}

#[test]
fn whole_copies_lie_at_one_offset() {
    for (text, start, cut) in
        [("md-raid1", 129 * MIB, 64 * MIB), ("lvm-raid1", 5 * MIB, 2 * MIB), ("gmirror", 0, TIB)]
    {
        let map = arrange(text, &[TIB; 4]).unwrap();
        let mapped = map.map(GIB + 4 * KIB, GIB);
        assert_eq!(mapped.length, GIB.min(cut.saturating_sub(4 * KIB)), "{text}");
        let places = mapped.mirrors.iter().map(|mirror| (mirror.member.0, mirror.offset));
        assert!(places.eq((0..4).map(|member| (member, start + GIB + 4 * KIB))), "{text}");
    }
}

/// 1 MiB, or eight records, go to one pair, then to the next; a pair twice as large gets twice as
/// many.
#[test]
fn zfs_takes_turns_by_free_space() {
    let pairs = |sizes: &[u64], count: u64| -> String {
        let map = arrange("zfs-mirror:2", sizes).unwrap();
        let pair = |record| {
            let mapped = map.map(record * 128 * KIB, MIB);
            assert_eq!(mapped.length, 128 * KIB, "each record is read by itself");
            let [first, second] = *mapped.mirrors else { panic!("two copies") };
            assert_eq!((first.member.0 + 1, first.offset), (second.member.0, second.offset));
            char::from_digit(u32::from(first.member.0 / 2), 10).unwrap()
        };
        (0..count).map(pair).collect()
    };
    assert_eq!(pairs(&[TIB; 4], 24), "000000001111111100000000");
    let unequal = [TIB, TIB, 2 * TIB, 3 * TIB];
    assert_eq!(pairs(&unequal, 24), "000001111111111100000111");
    let map = arrange("zfs-mirror:2", &unequal).unwrap();
    assert_eq!(map.capacity_bytes(), 3 * TIB - 9 * MIB, "each pair is used to its end");
    assert_eq!(map.map(128 * KIB, 1).mirrors[0].offset, 4 * MIB + 128 * KIB);
    assert_eq!(map.map(16 * 128 * KIB, 1).mirrors[1].offset, 4 * MIB + 5 * 128 * KIB);
}

#[test]
fn members_map_back_to_the_volume() {
    let map = small("md-raid10-near:2", 3);
    let run = |volume_offset, length| Some(VolumeRange { volume_offset, length });
    let first = MemberIndex(0);
    assert_eq!(map.locate(first, START - 1), None);
    assert_eq!(map.locate(first, START + 5), run(5, CHUNK - 5));
    assert_eq!(map.locate(first, START + CHUNK), run(CHUNK, CHUNK));
    assert_eq!(map.locate(first, START + 3 * CHUNK + 7), run(4 * CHUNK + 7, CHUNK - 7));
    assert_eq!(map.locate(first, START + 4 * CHUNK), None);
    assert_eq!(map.allocated(first), START..START + 4 * CHUNK);

    let far = small("md-raid10-far:2", 2);
    assert_eq!(far.locate(first, START + 2 * CHUNK), run(CHUNK, CHUNK), "the second copy");
    let near = small("md-raid10-near:3", 4);
    assert_eq!(near.allocated(MemberIndex(3)), START..START + 3 * CHUNK, "a place is left over");
    assert_eq!(near.locate(MemberIndex(3), START + 3 * CHUNK), None);
}

/// A chunk of the map holds at most 2^32 strips; an array that needs more has several.
#[test]
fn arrays_of_many_small_chunks_are_laid_out_in_parts() {
    let layout = layout("md-raid10-far:2").with_chunk(4 * KIB).unwrap();
    let map = ChunkMap::arrange(layout, &members(&[20 * TIB; 3])).unwrap();
    let rows = (20 * TIB - 129 * MIB) / 2 / (4 * KIB);
    assert_eq!(map.capacity_bytes(), 3 * rows * 4 * KIB);
    assert_eq!(map.chunks().len(), 2);
    let strip = 3 * rows - 2;
    let mapped = map.map(strip * 4 * KIB, 4 * KIB);
    let place = |member, row| (MemberIndex(member), 129 * MIB + row * 4 * KIB);
    let places: Vec<_> = mapped.mirrors.iter().map(|m| (m.member, m.offset)).collect();
    assert_eq!(places, [place(1, rows - 1), place(2, 2 * rows - 1)]);
    for mirror in mapped.mirrors {
        let located = map.locate(mirror.member, mirror.offset).unwrap();
        assert_eq!(located.volume_offset, strip * 4 * KIB);
    }
}

#[test]
fn refusals_say_what_the_layout_needs() {
    for (text, sizes, message) in [
        (
            "md-raid1",
            vec![GIB; 17],
            "layout md-raid1 keeps a copy on each of the 17 members, but a read chooses among at \
             most 16 copies\n  help: use fewer members",
        ),
        (
            "gmirror",
            vec![GIB],
            "layout gmirror needs at least 2 members, but the array has 1\n  help: add members",
        ),
        (
            "md-raid10-near:3",
            vec![GIB; 2],
            "layout md-raid10-near:3 needs at least 3 members, but the array has 2\n  help: add \
             members",
        ),
        (
            "zfs-mirror:2",
            vec![GIB; 5],
            "layout zfs-mirror:2 makes groups of 2 members, but the array has 5\n  help: add or \
             remove members",
        ),
        (
            "md-raid10-far:2",
            vec![GIB, 2 * MIB],
            "the member with devid 2 has 2 MiB, but a member needs at least 3 MiB\n  help: \
             write for example size = \"500G\"",
        ),
        (
            "md-raid1",
            vec![ARRAY_BYTES_MAX; 2],
            "the members have 8 PiB together, but an array can have at most 4 PiB\n  help: \
             check the units of the sizes; write for example size = \"500G\"",
        ),
    ] {
        assert_eq!(arrange(text, &sizes).unwrap_err().to_string(), message);
    }
    assert!(arrange("zfs-mirror", &[]).is_err());
}

/// The input of a layout.
#[derive(Clone, Debug)]
struct Plan {
    layout: ArrayLayout,
    members: Vec<MemberConfig>,
}

fn plans() -> impl Strategy<Value = Plan> {
    const FIXED: &[&str] = &["md-raid1", "lvm-raid1", "gmirror", "zfs-mirror:2", "zfs-mirror:3"];
    const RAID10: &[&str] = &["near", "far", "offset"];
    let fixed = select(FIXED).prop_map(layout);
    let raid10 = (select(RAID10), 2..=4usize, 12..21u32).prop_map(|(name, copies, shift)| {
        layout(&format!("md-raid10-{name}:{copies}")).with_chunk(1 << shift).unwrap()
    });
    let sizes = prop::collection::vec(MIB..96 * MIB, 1..=9);
    (prop_oneof![2 => fixed, 3 => raid10], sizes)
        .prop_map(|(layout, sizes)| Plan { layout, members: members(&sizes) })
}

/// Where md's documentation puts a copy of a strip: (member, row).
fn md_place(layout: ArrayLayout, members: u64, rows: u64, strip: u64, copy: u64) -> (u64, u64) {
    let copies = layout.copies(0) as u64;
    match layout.kind() {
        LayoutKind::MdRaid10Near => {
            ((strip * copies + copy) % members, (strip * copies + copy) / members)
        }
        LayoutKind::MdRaid10Far => {
            ((strip + copy) % members, strip / members + copy * (rows / copies))
        }
        _ => ((strip + copy) % members, strip / members * copies + copy),
    }
}

/// Walks the volume from end to end. Each copy is on another member, no place of a member is used
/// twice, the places of a member make one range, and each maps back.
pub(super) fn check_every_byte(map: &ChunkMap, members: usize) {
    let mut places: Vec<Vec<(u64, u64)>> = vec![Vec::new(); members];
    let mut offset = 0;
    while offset < map.capacity_bytes() {
        let mapped = map.map(offset, map.capacity_bytes() - offset);
        assert_eq!(mapped.mirrors.len(), map.copies());
        for (copy, mirror) in mapped.mirrors.iter().enumerate() {
            assert_eq!(usize::from(mirror.copy), copy);
            let earlier = &mapped.mirrors[..copy];
            assert!(earlier.iter().all(|other| other.member != mirror.member), "{mapped:?}");
            places[mirror.member.get()].push((mirror.offset, mapped.length));
            let back = VolumeRange { volume_offset: offset, length: mapped.length };
            assert_eq!(map.locate(mirror.member, mirror.offset), Some(back));
        }
        offset += mapped.length;
    }
    let mut set_ends = vec![0; members];
    for (member, end) in map.mirror_sets().flatten() {
        set_ends[member.get()] = end.max(set_ends[member.get()]);
    }
    for (member, mut places) in (0..).map(MemberIndex).zip(places) {
        places.sort_unstable();
        let allocated = map.allocated(member);
        if !places.is_empty() {
            assert_eq!(set_ends[member.get()], allocated.end, "the last set of {member:?}");
        }
        let mut end = allocated.start;
        for (offset, length) in places {
            assert_eq!(offset, end, "a gap or an overlap on {member:?}");
            end += length;
        }
        assert_eq!(end, allocated.end);
        assert_eq!(map.locate(member, end), None);
        if let Some(before) = allocated.start.checked_sub(1) {
            assert_eq!(map.locate(member, before), None);
        }
    }
}

proptest! {
    #[test]
    fn every_byte_has_its_copies_on_distinct_members(plan in plans()) {
        let Ok(map) = ChunkMap::arrange(plan.layout, &plan.members) else { return Ok(()) };
        prop_assert_eq!(map.layout(), plan.layout);
        prop_assert_eq!(map.copies(), plan.layout.copies(plan.members.len()));
        check_every_byte(&map, plan.members.len());
        for (index, member) in (0..).zip(&plan.members) {
            prop_assert!(map.allocated(MemberIndex(index)).end <= member.size_bytes);
        }
    }

    #[test]
    fn raid10_is_that_of_md(plan in plans(), part in any::<prop::sample::Index>()) {
        let Some(chunk) = plan.layout.chunk_bytes() else { return Ok(()) };
        let Ok(map) = ChunkMap::arrange(plan.layout, &plan.members) else { return Ok(()) };
        let start = map.allocated(MemberIndex(0)).start;
        let least = plan.members.iter().map(|member| member.size_bytes).min().unwrap();
        let (count, rows) = (plan.members.len() as u64, (least - start) / chunk);
        let copies = map.copies() as u64;
        let strips = match plan.layout.kind() {
            LayoutKind::MdRaid10Near => rows * count / copies,
            _ => rows / copies * count,
        };
        prop_assert_eq!(map.capacity_bytes(), strips * chunk);
        let strip = part.index(strips as usize) as u64;
        for mirror in map.map(strip * chunk, 1).mirrors {
            let copy = u64::from(mirror.copy);
            let (member, row) = md_place(plan.layout, count, rows, strip, copy);
            let place = (u64::from(mirror.member.0), mirror.offset);
            prop_assert_eq!(place, (member, start + row * chunk));
        }
    }
}

#[test]
fn a_member_around_data_has_exactly_those_data() {
    for (name, data) in [
        ("md-raid1", 64 * MIB),
        ("md-raid1", 127 * GIB + 900 * MIB),
        ("md-raid1", 976_630_464 * KIB),
        ("md-raid10-near:2", 500 * GIB),
        ("md-raid10-far:2", 3_815_318 * MIB),
        ("lvm-raid1", 500 * GIB),
        ("zfs-mirror:2", 953_856 * MIB),
        ("gmirror", 100 * GIB),
    ] {
        let around = layout(name).member_around(data);
        let map = arrange(name, &[around.size_bytes; 2]).unwrap();
        let first = map.chunks().next().unwrap().stripes[0].offset;
        assert_eq!(first, around.data_begin_bytes, "{name}");
        assert_eq!(map.capacity_bytes(), data, "{name}");
    }
    assert_eq!(layout("md-raid1").member_around(u64::MAX).size_bytes, u64::MAX);
}

#[test]
fn the_profile_follows_from_the_layout() {
    let profile = |text: &str, members| text.parse::<ArrayLayout>().unwrap().profile(members);
    assert_eq!(profile("btrfs", 2), None);
    assert_eq!(profile("md-raid1", 2), Some(Profile::Raid1));
    assert_eq!(profile("lvm-raid1", 3), Some(Profile::Raid1c3));
    assert_eq!(profile("gmirror", 4), Some(Profile::Raid1c4));
    assert_eq!(profile("md-raid10-far:3", 3), Some(Profile::Raid10));
    assert_eq!(profile("zfs-mirror:3", 3), Some(Profile::Raid1c3));
    assert_eq!(profile("zfs-mirror:2", 4), Some(Profile::Raid10));
    assert_eq!(profile("md-raid5", 4), Some(Profile::Raid5));
    assert_eq!(profile("md-raid6-parity-first", 5), Some(Profile::Raid6));
}
