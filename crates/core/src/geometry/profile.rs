//! The profiles as a table: how many members a chunk takes and how many copies it keeps.
//!
//! All differences between profiles are in this table: the allocator and the map have no case for
//! a single profile.
//!
//! Source: `btrfs_raid_array` of Linux 6.18 `fs/btrfs/volumes.c`.

use crate::suggest::closest_name;
use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

/// The profile of an array: how many copies it keeps and how they lie on members.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Profile {
    /// One copy, each chunk on one member.
    Single,
    /// One copy, each chunk striped over all members.
    Raid0,
    Raid1,
    Raid1c3,
    Raid1c4,
    /// Two copies, each chunk striped over pairs of members.
    Raid10,
    /// One copy and a parity, each chunk striped over all members.
    Raid5,
    /// One copy and two parities, each chunk striped over all members.
    Raid6,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProfileRules {
    /// Name, as in array files.
    pub name: &'static str,
    /// Fewest members a chunk may span (`devs_min`).
    pub members_min: usize,
    /// Most members a chunk may span (`devs_max`); `usize::MAX` if unlimited.
    pub members_max: usize,
    /// A chunk spans a multiple of this many members (`devs_increment`).
    pub members_increment: usize,
    /// Copies of each byte, on distinct members (`ncopies`).
    pub copies: usize,
    /// Strips of parity in each row of strips (`nparity`).
    pub parities: usize,
    /// Neighbouring stripes that hold the same strip of a striped chunk (`sub_stripes`).
    pub sub_stripes: usize,
    /// Members that may fail without loss of data, whichever they are.
    pub tolerated_failures: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownProfile {
    name: String,
}

/// One row per profile, in the order of the enum.
const TABLE: [ProfileRules; 8] = [
    rules("single", [1, 1, 1], [1, 1], 0),
    rules("raid0", [1, usize::MAX, 1], [1, 1], 0),
    rules("raid1", [2, 2, 2], [2, 1], 1),
    rules("raid1c3", [3, 3, 3], [3, 1], 2),
    rules("raid1c4", [4, 4, 4], [4, 1], 3),
    rules("raid10", [2, usize::MAX, 2], [2, 2], 1),
    parity("raid5", 1),
    parity("raid6", 2),
];

/// A row of the table; `members` are min, max and increment, `stripes` are copies and sub-stripes.
const fn rules(
    name: &'static str,
    members: [usize; 3],
    stripes: [usize; 2],
    tolerated_failures: usize,
) -> ProfileRules {
    let [members_min, members_max, members_increment] = members;
    let [copies, sub_stripes] = stripes;
    ProfileRules {
        name,
        members_min,
        members_max,
        members_increment,
        copies,
        parities: 0,
        sub_stripes,
        tolerated_failures,
    }
}

const fn parity(name: &'static str, parities: usize) -> ProfileRules {
    ProfileRules { parities, ..rules(name, [parities + 1, usize::MAX, 1], [1, 1], parities) }
}

impl Profile {
    /// Every profile, in the order of the table.
    pub const ALL: [Profile; 8] = [
        Profile::Single,
        Profile::Raid0,
        Profile::Raid1,
        Profile::Raid1c3,
        Profile::Raid1c4,
        Profile::Raid10,
        Profile::Raid5,
        Profile::Raid6,
    ];

    pub const fn rules(self) -> &'static ProfileRules {
        &TABLE[self as usize]
    }

    /// Name, as in array files.
    pub const fn name(self) -> &'static str {
        self.rules().name
    }

    pub const fn copies(self) -> usize {
        self.rules().copies
    }

    /// Number of strips of parity in each row of strips.
    pub const fn parities(self) -> usize {
        self.rules().parities
    }

    /// Returns true if chunks are striped, so that a request is cut at the ends of strips.
    pub const fn is_striped(self) -> bool {
        self.rules().members_max == usize::MAX
    }

    /// The unstriped profile with the most copies that fits `members` members; `None` without
    /// members.
    pub fn fitting(members: usize) -> Option<Profile> {
        Profile::ALL
            .into_iter()
            .filter(|profile| profile.rules().members_min <= members && !profile.is_striped())
            .max_by_key(|profile| profile.copies())
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Profile, UnknownProfile> {
        Profile::ALL
            .into_iter()
            .find(|profile| profile.name() == name)
            .ok_or_else(|| UnknownProfile { name: name.to_owned() })
    }
}

impl UnknownProfile {
    /// The profile name closest to the unknown one. Among equally close names, the one that
    /// tolerates more failures: `raid6` for `raid7`, not `raid0`.
    pub fn suggestion(&self) -> Option<&'static str> {
        let mut rules: Vec<&ProfileRules> = TABLE.iter().collect();
        rules.sort_by_key(|rules| Reverse(rules.tolerated_failures));
        closest_name(&self.name, rules.into_iter().map(|rules| rules.name))
    }
}

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = TABLE.map(|rules| rules.name).join(", ");
        write!(f, "unknown profile `{}`; the profiles are {names}", self.name)?;
        match self.suggestion() {
            Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for UnknownProfile {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::MAX_COPIES;

    #[test]
    fn names_read_back() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
            assert_eq!(profile.name(), format!("{profile:?}").to_lowercase());
        }
    }

    #[test]
    fn the_columns_of_the_table_agree() {
        for profile in Profile::ALL {
            let rules = profile.rules();
            assert!((1..=MAX_COPIES).contains(&rules.copies), "{rules:?}");
            let redundant = rules.copies - 1 + rules.parities;
            assert_eq!(rules.tolerated_failures, redundant, "{rules:?}");
            assert!(rules.copies == 1 || rules.parities == 0, "{rules:?}");
            assert_eq!(rules.members_min % rules.members_increment, 0, "{rules:?}");
            // A chunk divides into whole groups of copies, neighbours where it is striped.
            assert_eq!(rules.members_increment, rules.copies, "{rules:?}");
            let neighbours = if profile.is_striped() { rules.copies } else { 1 };
            assert_eq!(rules.sub_stripes, neighbours, "{rules:?}");
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_all_names_and_the_nearest() {
        for (written, nearest) in [
            ("RAID1", Some("raid1")),
            ("raid-10", Some("raid10")),
            ("raid1c5", Some("raid1c4")),
            ("raid7", Some("raid6")),
            ("raidz", Some("raid6")),
            ("singel", Some("single")),
            ("mirror", None),
        ] {
            let error = written.parse::<Profile>().unwrap_err();
            assert_eq!(error.suggestion(), nearest, "{written}");
        }
        let listed =
            "the profiles are single, raid0, raid1, raid1c3, raid1c4, raid10, raid5, raid6";
        for (written, message) in [
            ("raid2", format!("unknown profile `raid2`; {listed}; did you mean `raid6`?")),
            ("mirror", format!("unknown profile `mirror`; {listed}")),
        ] {
            assert_eq!(written.parse::<Profile>().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn the_fitting_profile_keeps_as_many_copies_as_there_are_members() {
        let fitting: Vec<_> = (0..6).map(Profile::fitting).collect();
        let four = Some(Profile::Raid1c4);
        let three = Some(Profile::Raid1c3);
        let two = Some(Profile::Raid1);
        assert_eq!(fitting, [None, Some(Profile::Single), two, three, four, four]);
    }
}
