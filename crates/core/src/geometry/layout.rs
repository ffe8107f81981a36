//! The layouts as a table: where each system puts the copies of the volume on its members.
//!
//! All differences between layouts that are figures or names are in this table. [`arrange`] has one
//! rule for each [`Arrangement`].
//!
//! [`arrange`]: super::arrange
//!
//! Sources: md(4); `raid1.h`, `raid10.c` and `dm-raid.c` of Linux's `drivers/md`; `super1.c` of
//! mdadm; `lv_manip.c` of LVM; `metaslab.c` and `vdev_impl.h` of OpenZFS; `g_mirror.c` of FreeBSD.

use super::rotation::{ROTATIONS, Rotation};
use super::{MAX_COPIES, Profile, RESERVED_BYTES};
use crate::suggest::closest_name;
use crate::units::{KIB, MIB, SECTOR_BYTES, format_bytes};
use std::fmt;
use std::str::FromStr;

/// A system's way to lay out an array.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LayoutKind {
    /// Chunks on the members with the most unallocated space, by a [`Profile`].
    Btrfs,
    /// Linux md raid1.
    MdRaid1,
    /// Linux md raid10, `near` copies.
    MdRaid10Near,
    /// Linux md raid10, `far` copies.
    MdRaid10Far,
    /// Linux md raid10, `offset` copies.
    MdRaid10Offset,
    /// LVM `--type raid1`.
    LvmRaid1,
    ZfsMirror,
    Gmirror,
    /// Linux md raid5, with one of its rotations.
    MdRaid5,
    /// Linux md raid6, with one of its rotations.
    MdRaid6,
}

impl LayoutKind {
    /// Returns true if the copies of a block lie at different offsets by design.
    pub fn places_copies_apart(self) -> bool {
        matches!(self, LayoutKind::MdRaid10Far | LayoutKind::MdRaid10Offset)
    }
}

/// The layout of an array: its kind, and the figures that a user chooses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ArrayLayout {
    kind: LayoutKind,
    /// Copies of each byte; zero if the kind does not let a user choose.
    copies: usize,
    /// Bytes of md's chunk; zero if the kind has none.
    chunk_bytes: u64,
    /// How parity rotates, if there is any.
    rotation: Rotation,
}

/// Largest chunk with parity: operations keep a chunk of each member in memory, up to 1 GiB.
const PARITY_CHUNK_BYTES_MAX: u64 = 16 << 20;

#[derive(Clone, Copy, Debug)]
pub(super) struct LayoutRules {
    name: &'static str,
    pub(super) arrangement: Arrangement,
    pub(super) reserved: Reserved,
    /// Copies if the name has no number; zero if the name takes none.
    copies_default: usize,
    /// Bytes of a chunk unless given; zero if there is no chunk size to choose.
    chunk_default: u64,
}

/// How copies lie relative to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrangement {
    /// Chunks by the rules of a profile.
    Allocated,
    /// A copy on each member, at one offset. Requests are cut at multiples of this size, if given.
    Whole { cut_bytes: Option<u64> },
    /// The copies of a strip follow each other on neighbouring members.
    Near,
    /// Each copy of the volume is a raid0 over all members, one after the other on each member,
    /// turned by one member from copy to copy.
    Far,
    /// Each row of strips is repeated below itself, turned by one member from copy to copy.
    Offset,
    /// Groups of members, each with whole copies; strips of this size go to one group in turn
    /// until it has `turn_bytes`, then to the next.
    Groups { strip_bytes: u64, turn_bytes: u64 },
    /// Rows of one strip on each member, this many of them parity.
    Parity(usize),
}

/// The parts of a member that do not hold data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reserved {
    pub(super) start: ReservedStart,
    pub(super) end_bytes: u64,
    /// The data of a member are a multiple of this.
    pub(super) multiple_of: u64,
}

/// The part of a member before its data.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReservedStart {
    Bytes(u64),
    /// As mdadm chooses the data offset of version 1.2 metadata.
    Mdadm,
}

/// The error of a layout that cannot be read: a message and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutError {
    pub message: String,
    pub help: String,
}

/// Copies and chunk of a row that lets a user choose them.
const MD_RAID10: (usize, u64) = (2, 512 * KIB);
/// Copies and chunk of a row that does not.
const FIXED: (usize, u64) = (0, 0);
/// The same of md's layouts with parity: the data are one copy.
const MD_PARITY: (usize, u64) = (0, 512 * KIB);

/// One row per layout, in the order of the enum.
const TABLE: [LayoutRules; 10] = [
    rules("btrfs", Arrangement::Allocated, start(RESERVED_BYTES), FIXED),
    // The size of a barrier unit, at whose end md cuts requests. mdadm rounds sizes to 64 KiB.
    rules("md-raid1", Arrangement::Whole { cut_bytes: Some(64 * MIB) }, mdadm(64 * KIB), FIXED),
    rules("md-raid10-near", Arrangement::Near, mdadm(SECTOR_BYTES), MD_RAID10),
    rules("md-raid10-far", Arrangement::Far, mdadm(SECTOR_BYTES), MD_RAID10),
    rules("md-raid10-offset", Arrangement::Offset, mdadm(SECTOR_BYTES), MD_RAID10),
    // Extents of 4 MiB after 1 MiB of label and metadata; the first is `rmeta`. dm cuts requests at
    // the size of a region, 2 MiB.
    rules(
        "lvm-raid1",
        Arrangement::Whole { cut_bytes: Some(2 * MIB) },
        Reserved { multiple_of: 4 * MIB, ..start(5 * MIB) },
        FIXED,
    ),
    // Two labels of 256 KiB and 3.5 MiB for a boot loader in front, two labels behind. Records of
    // 128 KiB, and 1 MiB (`metaslab_aliquot`) before the next vdev has its turn.
    rules(
        "zfs-mirror",
        Arrangement::Groups { strip_bytes: 128 * KIB, turn_bytes: MIB },
        Reserved { end_bytes: 512 * KIB, multiple_of: 256 * KIB, ..start(4 * MIB) },
        (2, 0),
    ),
    // The last 512-byte sector has the metadata; rounded down to the sector of a volume.
    rules(
        "gmirror",
        Arrangement::Whole { cut_bytes: None },
        Reserved { end_bytes: 512, ..start(0) },
        FIXED,
    ),
    rules("md-raid5", Arrangement::Parity(1), mdadm(SECTOR_BYTES), MD_PARITY),
    rules("md-raid6", Arrangement::Parity(2), mdadm(SECTOR_BYTES), MD_PARITY),
];

const fn rules(
    name: &'static str,
    arrangement: Arrangement,
    reserved: Reserved,
    (copies_default, chunk_default): (usize, u64),
) -> LayoutRules {
    LayoutRules { name, arrangement, reserved, copies_default, chunk_default }
}

const fn start(bytes: u64) -> Reserved {
    Reserved { start: ReservedStart::Bytes(bytes), end_bytes: 0, multiple_of: SECTOR_BYTES }
}

const fn mdadm(multiple_of: u64) -> Reserved {
    Reserved { start: ReservedStart::Mdadm, end_bytes: 0, multiple_of }
}

impl LayoutKind {
    /// Every kind, in the order of the table.
    const ALL: [LayoutKind; 10] = [
        LayoutKind::Btrfs,
        LayoutKind::MdRaid1,
        LayoutKind::MdRaid10Near,
        LayoutKind::MdRaid10Far,
        LayoutKind::MdRaid10Offset,
        LayoutKind::LvmRaid1,
        LayoutKind::ZfsMirror,
        LayoutKind::Gmirror,
        LayoutKind::MdRaid5,
        LayoutKind::MdRaid6,
    ];

    const fn rules(self) -> &'static LayoutRules {
        &TABLE[self as usize]
    }
}

impl ArrayLayout {
    /// The default: chunks by the rules of btrfs.
    pub const BTRFS: ArrayLayout = ArrayLayout {
        kind: LayoutKind::Btrfs,
        copies: 0,
        chunk_bytes: 0,
        rotation: Rotation::Btrfs,
    };

    /// The names of all layouts, without numbers of copies and rotations of parity.
    pub fn names() -> [&'static str; TABLE.len()] {
        TABLE.map(|rules| rules.name)
    }

    /// The same with another chunk size. Fails if the layout has no chunk size, or not this one.
    pub fn with_chunk(self, chunk_bytes: u64) -> Result<ArrayLayout, LayoutError> {
        if self.chunk_bytes == 0 {
            return Err(LayoutError {
                message: format!("layout {self} has no chunk size to choose"),
                help: "leave `chunk` out; it is for layouts of md raid10, raid5 and raid6"
                    .to_owned(),
            });
        }
        let has_parity = matches!(self.rules().arrangement, Arrangement::Parity(_));
        let largest = if has_parity { PARITY_CHUNK_BYTES_MAX } else { 1 << 63 };
        let (sizes, size) = (if has_parity { "to 16M" } else { "on" }, format_bytes(chunk_bytes));
        if !chunk_bytes.is_power_of_two() || !(SECTOR_BYTES..=largest).contains(&chunk_bytes) {
            return Err(LayoutError {
                message: format!("a chunk of {size} is not possible in {self}"),
                help: format!("give a power of two from 4K {sizes}, such as 64K or 512K"),
            });
        }
        Ok(ArrayLayout { chunk_bytes, ..self })
    }

    /// The system's way.
    pub fn kind(self) -> LayoutKind {
        self.kind
    }

    /// Size of a chunk of md raid10, raid5 or raid6; `None` for other layouts.
    pub fn chunk_bytes(self) -> Option<u64> {
        Some(self.chunk_bytes).filter(|&bytes| bytes > 0)
    }

    /// The profile that an array of this layout over `members` members has: raid1, raid1c3 or
    /// raid1c4 if each member has all data, else raid10. `None` for btrfs, where a user chooses it.
    pub fn profile(self, members: usize) -> Option<Profile> {
        match self.rules().arrangement {
            Arrangement::Allocated => None,
            Arrangement::Near | Arrangement::Far | Arrangement::Offset => Some(Profile::Raid10),
            Arrangement::Parity(1) => Some(Profile::Raid5),
            Arrangement::Parity(_) => Some(Profile::Raid6),
            Arrangement::Groups { .. } if members > self.copies => Some(Profile::Raid10),
            Arrangement::Groups { .. } | Arrangement::Whole { .. } => {
                Some(match self.copies(members) {
                    0..=2 => Profile::Raid1,
                    3 => Profile::Raid1c3,
                    _ => Profile::Raid1c4,
                })
            }
        }
    }

    pub(super) fn rules(self) -> &'static LayoutRules {
        self.kind.rules()
    }

    /// Copies of each byte on an array of `members` members, not for btrfs.
    pub(super) fn copies(self, members: usize) -> usize {
        match self.rules().arrangement {
            Arrangement::Parity(_) => 1,
            _ if self.copies == 0 => members,
            _ => self.copies,
        }
    }

    pub(super) fn rotation(self) -> Rotation {
        self.rotation
    }

    fn has_parity(self) -> bool {
        matches!(self.rules().arrangement, Arrangement::Parity(_))
    }
}

/// The name with its number of copies, as in array files, without the size of a chunk.
impl fmt::Display for ArrayLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.rules().name;
        match self.copies {
            _ if self.has_parity() => {
                let mut rotations = ROTATIONS.iter();
                let found = rotations.find(|(_, rotation)| *rotation == self.rotation);
                let (rotation, _) = found.expect("a rotation of md is in the table");
                f.pad(&format!("{name}-{rotation}"))
            }
            0 => f.pad(name),
            copies => f.pad(&format!("{name}:{copies}")),
        }
    }
}

/// Reads a name, with a number of copies where the layout takes one: `md-raid10-far:2`.
impl FromStr for ArrayLayout {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<ArrayLayout, LayoutError> {
        let (name, number) = match text.split_once(':') {
            Some((name, number)) => (name, Some(number)),
            None => (text, None),
        };
        let kind = LayoutKind::ALL.into_iter().find(|kind| kind.rules().name == name);
        let (kind, rotation) = match kind {
            Some(kind) => (kind, Rotation::Btrfs),
            None => rotated(name)?,
        };
        let rotation = match kind {
            LayoutKind::MdRaid5 | LayoutKind::MdRaid6 if rotation == Rotation::Btrfs => {
                ROTATIONS[0].1
            }
            _ => rotation,
        };
        let &LayoutRules { copies_default, chunk_default, .. } = kind.rules();
        let copies = match number {
            None => copies_default,
            Some(number) if copies_default == 0 => {
                return Err(LayoutError {
                    message: format!("layout {name} takes no number of copies"),
                    help: format!("leave `:{number}` out"),
                });
            }
            Some(number) => match number.parse() {
                Ok(copies) if (2..=MAX_COPIES).contains(&copies) => copies,
                _ => {
                    let message = format!("`{number}` is not a number of copies");
                    let help = format!("give 2 to {MAX_COPIES}, for example `{name}:2`");
                    return Err(LayoutError { message, help });
                }
            },
        };
        Ok(ArrayLayout { kind, copies, chunk_bytes: chunk_default, rotation })
    }
}

/// Reads the name of a layout with parity: `md-raid6-left-symmetric`.
fn rotated(name: &str) -> Result<(LayoutKind, Rotation), LayoutError> {
    let kind = match name {
        _ if name.starts_with("md-raid5-") => LayoutKind::MdRaid5,
        _ if name.starts_with("md-raid6-") => LayoutKind::MdRaid6,
        _ => return Err(unknown(name)),
    };
    let rest = &name["md-raidN-".len()..];
    match ROTATIONS.iter().find(|(rotation, _)| *rotation == rest) {
        Some(&(_, rotation)) => Ok((kind, rotation)),
        None => {
            let names: Vec<&str> = ROTATIONS.iter().map(|(rotation, _)| *rotation).collect();
            let level = kind.rules().name;
            let nearest = closest_name(rest, names.iter().copied());
            let guess = nearest.map(|nearest| format!("; did you mean `{level}-{nearest}`?"));
            Err(LayoutError {
                message: format!("unknown layout `{name}`: {level} has no rotation `{rest}`"),
                help: format!(
                    "its rotations are {}{}",
                    names.join(", "),
                    guess.unwrap_or_default()
                ),
            })
        }
    }
}

fn unknown(name: &str) -> LayoutError {
    let names = ArrayLayout::names();
    let nearest = closest_name(name, names);
    let guess = nearest.map(|nearest| format!("; did you mean `{nearest}`?"));
    LayoutError {
        message: format!("unknown layout `{name}`"),
        help: format!("the layouts are {}{}", names.join(", "), guess.unwrap_or_default()),
    }
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  help: {}", self.message, self.help)
    }
}

impl std::error::Error for LayoutError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ArrayLayout, LayoutError> {
        text.parse()
    }

    #[test]
    fn names_read_back_with_their_copies() {
        for kind in LayoutKind::ALL {
            let layout = parse(kind.rules().name).unwrap();
            assert_eq!(layout.kind(), kind);
            assert_eq!(parse(&layout.to_string()), Ok(layout), "{layout}");
            let spelled = format!("{kind:?}").to_lowercase();
            assert_eq!(kind.rules().name.replace('-', ""), spelled, "the order of the table");
        }
        assert_eq!(parse("md-raid10-far").unwrap().to_string(), "md-raid10-far:2");
        assert_eq!(parse("md-raid10-near:3").unwrap().to_string(), "md-raid10-near:3");
        assert_eq!(parse("btrfs"), Ok(ArrayLayout::BTRFS));
    }

    #[test]
    fn rotations_have_the_names_of_mdadm() {
        assert_eq!(parse("md-raid5").unwrap().to_string(), "md-raid5-left-symmetric");
        for (rotation, _) in ROTATIONS {
            for name in [format!("md-raid5-{rotation}"), format!("md-raid6-{rotation}")] {
                assert_eq!(parse(&name).unwrap().to_string(), name);
            }
        }
        assert_eq!(
            parse("md-raid5-left-symetric").unwrap_err().to_string(),
            "unknown layout `md-raid5-left-symetric`: md-raid5 has no rotation `left-symetric`\n  \
             help: its rotations are left-symmetric, left-asymmetric, right-symmetric, \
             right-asymmetric, parity-first, parity-last; did you mean `md-raid5-left-symmetric`?"
        );
        parse("md-raid5:2").unwrap_err();
        let wide = parse("md-raid6").unwrap().with_chunk(1 << 20).unwrap();
        assert_eq!(wide.chunk_bytes(), Some(1 << 20));
        wide.with_chunk(3 << 20).unwrap_err();
    }

    #[test]
    fn chunks_are_those_of_md_raid10() {
        let far = parse("md-raid10-far").unwrap();
        assert_eq!(far.chunk_bytes(), Some(512 * KIB));
        assert_eq!(far.with_chunk(64 * KIB).unwrap().chunk_bytes(), Some(64 * KIB));
        let odd = far.with_chunk(96 * KIB).unwrap_err().to_string();
        assert_eq!(
            odd,
            "a chunk of 96 KiB is not possible in md-raid10-far:2\n  help: give a power of two \
             from 4K on, such as 64K or 512K"
        );
        far.with_chunk(2048).unwrap_err();
        let mirror = parse("md-raid1").unwrap();
        assert_eq!(mirror.chunk_bytes(), None);
        assert_eq!(
            mirror.with_chunk(64 * KIB).unwrap_err().to_string(),
            "layout md-raid1 has no chunk size to choose\n  help: leave `chunk` out; it is for \
             layouts of md raid10, raid5 and raid6"
        );
    }

    #[test]
    fn mistakes_are_answered_with_what_to_write() {
        let all = "the layouts are btrfs, md-raid1, md-raid10-near, md-raid10-far, \
                   md-raid10-offset, lvm-raid1, zfs-mirror, gmirror, md-raid5, md-raid6";
        for (written, message, help) in [
            (
                "md-raid10-fat:2",
                "unknown layout `md-raid10-fat`",
                format!("{all}; did you mean `md-raid10-far`?"),
            ),
            ("striped", "unknown layout `striped`", all.to_owned()),
            ("md-raid1:2", "layout md-raid1 takes no number of copies", "leave `:2` out".into()),
            (
                "md-raid10-near:17",
                "`17` is not a number of copies",
                "give 2 to 16, for example `md-raid10-near:2`".into(),
            ),
            (
                "zfs-mirror:",
                "`` is not a number of copies",
                "give 2 to 16, for example `zfs-mirror:2`".into(),
            ),
        ] {
            let error = parse(written).unwrap_err();
            assert_eq!((error.message.as_str(), error.help), (message, help), "{written}");
        }
    }
}
