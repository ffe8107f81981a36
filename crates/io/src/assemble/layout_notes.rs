//! What the user should know of the layout of a new volume: space that it leaves unused, and
//! profiles with parity that are a costly mirror.

use mirrorball_core::geometry::{ChunkMap, Profile};
use mirrorball_core::member::{MemberConfig, MemberIndex};
use mirrorball_core::units::format_bytes;

/// The notes on a volume of these members, less what labels keep at their ends, on these devices.
pub(super) fn layout_notes(
    map: &ChunkMap,
    members: &[MemberConfig],
    devices: &[String],
) -> Vec<String> {
    costly_mirror(map, members.len()).into_iter().chain(unused(map, members, devices)).collect()
}

/// With a single strip of data in each row, each parity equals that strip.
fn costly_mirror(map: &ChunkMap, members: usize) -> Option<String> {
    let instead = match map.parities() {
        0 => return None,
        1 => Profile::Raid1,
        _ => Profile::Raid1c3,
    };
    let profile = map.profile();
    let is_mirror = members == 1 + map.parities();
    is_mirror.then(|| {
        format!(
            "{profile} of {members} members has one strip of data in each row, so it keeps what \
             {instead} keeps, and its writes cost more: use {instead}, or more members"
        )
    })
}

/// A note for each member that is larger than another, and has a hundredth or more unused.
fn unused<'a>(
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
    use mirrorball_core::geometry::ArrayLayout;

    fn members(sizes: &[u64]) -> Vec<MemberConfig> {
        sizes.iter().zip(1..).map(|(size, devid)| MemberConfig::new(devid, size << 30)).collect()
    }

    fn notes(map: &ChunkMap, members: &[MemberConfig]) -> Vec<String> {
        let devices: Vec<String> = members.iter().map(|it| format!("d{}", it.devid)).collect();
        layout_notes(map, members, &devices)
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

    #[test]
    fn parity_with_one_strip_of_data_is_a_mirror() {
        let note = |profile, count: usize| {
            let members = members(&vec![10; count]);
            notes(&ChunkMap::allocate(profile, None, &members).unwrap(), &members)
        };
        let two = note(Profile::Raid5, 2);
        assert!(two[0].starts_with("raid5 of 2 members has") && two[0].contains("use raid1,"));
        let three = note(Profile::Raid6, 3);
        assert!(three[0].contains("what raid1c3 keeps") && three.len() == 1, "{three:?}");
        assert!(note(Profile::Raid5, 3).is_empty() && note(Profile::Raid6, 4).is_empty());
    }
}
