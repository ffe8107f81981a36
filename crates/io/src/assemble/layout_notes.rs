//! Notes on the space that the layout of a new volume leaves unused.

use mirrorball_core::geometry::ChunkMap;
use mirrorball_core::member::{MemberConfig, MemberIndex};
use mirrorball_core::units::format_bytes;

/// A note for each member of a volume that is larger than another, and has a hundredth or more
/// unused. `members` are without the tables of checksums at their ends.
pub(super) fn layout_notes<'a>(
    map: &'a ChunkMap,
    members: &'a [MemberConfig],
    devices: &'a [String],
) -> impl Iterator<Item = String> + 'a {
    let least_bytes = members.iter().map(|member| member.size_bytes).min().unwrap_or(0);
    let rows = members.iter().zip(devices).enumerate();
    rows.filter(move |(_, (member, _))| member.size_bytes > least_bytes).filter_map(
        |(index, (member, device))| {
            let end = map.allocated(MemberIndex(index as u16)).end;
            let unused_bytes = member.size_bytes.saturating_sub(end);
            (unused_bytes >= member.size_bytes.div_ceil(100)).then(|| {
                format!(
                    "{} of `{device}` are not used, because other members are smaller",
                    format_bytes(unused_bytes)
                )
            })
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_core::geometry::{ArrayLayout, Profile};

    fn members(sizes: &[u64]) -> Vec<MemberConfig> {
        sizes.iter().zip(1..).map(|(size, devid)| MemberConfig::new(devid, size << 30)).collect()
    }

    fn notes(map: &ChunkMap, members: &[MemberConfig]) -> Vec<String> {
        let devices: Vec<String> = members.iter().map(|it| format!("d{}", it.devid)).collect();
        layout_notes(map, members, &devices).collect()
    }

    #[test]
    fn unused_space_of_larger_members_is_named() {
        let pair = members(&[10, 16]);
        let btrfs = ChunkMap::allocate(Profile::Raid1, None, &pair).unwrap();
        let why = "because other members are smaller";
        assert_eq!(notes(&btrfs, &pair), [format!("6 GiB of `d2` are not used, {why}")]);
        let md = "md-raid1".parse::<ArrayLayout>().unwrap();
        let trio = members(&[16, 10, 12]);
        let found = notes(&ChunkMap::arrange(md, &trio).unwrap(), &trio);
        assert_eq!(found.len(), 2, "{found:?}");
        for (note, device) in found.iter().zip(["d1", "d3"]) {
            assert!(note.contains(&format!("GiB of `{device}` are not used, {why}")), "{note}");
        }
    }

    #[test]
    fn members_of_one_size_and_chunks_that_fill_all_have_no_note() {
        let equal = members(&[10, 10, 10]);
        let map = ChunkMap::allocate(Profile::Raid1, None, &equal).unwrap();
        assert!(notes(&map, &equal).is_empty());
        let unequal = members(&[20, 10, 10]);
        let map = ChunkMap::allocate(Profile::Raid1, None, &unequal).unwrap();
        assert!(notes(&map, &unequal).is_empty(), "{:?}", notes(&map, &unequal));
    }
}
