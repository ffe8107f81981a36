//! Every read policy, and the one table that lists them.
//!
//! The CLI's listing, the docs, the golden tests, the lab's matrix and the reports iterate [`ALL`].
//! Adding a policy is one file here, one `mod` line and one row. A row names the policy, what it
//! takes, where it comes from, and how to build it; its page is the header of its own source.
//!
//! Policies are named `family/name`. A short alias exists where it cannot be mistaken; `btrfs` owns
//! the plain names that its sysfs file has or was proposed to have (`pid`, `round-robin`, `devid`,
//! `latency`), `kakra` owns `latency-rr` and `queue`. Rules that two policies share live in the
//! module `shared`, under a name of their own.

mod btrfs_devid;
mod btrfs_latency;
mod btrfs_pid;
mod btrfs_round_robin;
mod gmirror_load;
mod gmirror_load_old;
mod gmirror_prefer;
mod gmirror_round_robin;
mod gmirror_split;
mod kakra_latency;
mod kakra_latency_rr;
mod kakra_queue;
mod md_raid1;
mod mirrorball_first;
mod mirrorball_random;
mod shared;
pub mod spec;
pub mod sysfs;
#[cfg(test)]
mod tests;
mod zfs_mirror;

use crate::policy::ReadPolicy;
use crate::units::SECTOR_BYTES;
use spec::PolicyError;
use std::ops::RangeInclusive;

pub use spec::{Spec, parse_list};

/// The most mirrors a policy can be shown at once: four times what raid1c4 has.
pub const MIRRORS_MAX: usize = 16;

/// One policy: its names, what it takes, where it comes from, and how to build it.
#[derive(Debug)]
pub struct PolicyInfo {
    /// Canonical name, `family/name`.
    pub name: &'static str,
    /// Short names that mean this policy and no other.
    pub aliases: &'static [&'static str],
    /// What it does, in one line.
    pub summary: &'static str,
    /// What may follow the name, each after a colon, in this order.
    pub parameters: &'static [ParameterInfo],
    /// Where the rule was defined.
    pub origin: Origin,
    /// Builds the policy; `build` holds a value for each of `parameters`.
    pub build: fn(build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError>,
    source: &'static str,
}

/// Where a policy's rule was defined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The system it belongs to.
    pub system: &'static str,
    /// Which version of it.
    pub version: &'static str,
    /// The file or thread that defines it.
    pub file: &'static str,
    /// Who wrote it, with a mail address where it is published.
    pub authors: &'static str,
}

/// A value that may follow a policy's name.
#[derive(Debug)]
pub struct ParameterInfo {
    /// Its name, as used in messages.
    pub name: &'static str,
    /// What its number counts.
    pub unit: Unit,
    /// Its value if none is written; `None` for the first devid of the array.
    pub default: Option<u64>,
    /// Accepted values, before rounding.
    pub range: RangeInclusive<u64>,
    /// A value is rounded up to a multiple of this.
    pub multiple_of: u64,
    /// What it changes.
    pub meaning: &'static str,
}

/// What a parameter's number counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bytes; written with or without a suffix K, M, G, T, P or E, each 1024 of the one before.
    Bytes,
    /// A devid.
    Devid,
    /// One of these words; its value is its place.
    Word(&'static [&'static str]),
}

/// What a policy is built from.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// A value for each of the policy's parameters, in their order.
    pub values: &'a [u64],
    /// The devids of the array.
    pub devids: &'a [u64],
}

impl PolicyInfo {
    /// The part of the name before the slash.
    pub fn family(&self) -> &'static str {
        self.name.split_once('/').expect("a canonical name is family/name").0
    }

    /// The policy's page: Markdown with the headings Idea, State, Cost, Good at, Bad at, Origin.
    pub fn page(&self) -> String {
        let header = self.source.lines().map_while(|line| line.strip_prefix("//!"));
        let lines: Vec<&str> = header.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
        lines.join("\n") + "\n"
    }

    /// How its name is written with its parameters: `btrfs/round-robin[:bytes]`.
    pub fn usage(&self) -> String {
        let parameters = self.parameters.iter().map(|parameter| format!("[:{}", parameter.name));
        let closing = "]".repeat(self.parameters.len());
        self.name.to_string() + &parameters.collect::<String>() + &closing
    }
}

impl ParameterInfo {
    /// What a value must be, for messages: `a size of at least 1 byte, such as 262144 or 256K`.
    pub fn expected(&self) -> String {
        match self.unit {
            Unit::Bytes => {
                format!("a size of at least {} byte, such as 262144 or 256K", self.range.start())
            }
            Unit::Devid => format!("a devid of at least {}", self.range.start()),
            Unit::Word(words) => format!("one of `{}`", words.join("`, `")),
        }
    }
}

/// The row with this canonical name or alias.
pub fn find(name: &str) -> Option<&'static PolicyInfo> {
    ALL.iter().find(|info| info.name == name || info.aliases.contains(&name))
}

const CONTIGUOUS_BYTES: ParameterInfo = ParameterInfo {
    name: "bytes",
    unit: Unit::Bytes,
    default: Some(262_144),
    // The last multiple below the sign bit, so that rounding up stays below it.
    range: 1..=i64::MAX as u64 / SECTOR_BYTES * SECTOR_BYTES,
    multiple_of: SECTOR_BYTES,
    meaning: "how much is read from one mirror before the next has its turn",
};

const PROBE: ParameterInfo = ParameterInfo {
    name: "probe",
    unit: Unit::Word(&["window", "once"]),
    default: Some(0),
    range: 0..=1,
    multiple_of: 1,
    meaning: "how long a rehabilitated member counts as unknown: 100 decisions, or until chosen",
};

const GMIRROR: Origin = Origin {
    system: "FreeBSD gmirror",
    version: "5.3 and later",
    file: "sys/geom/mirror/g_mirror.c",
    authors: "Pawel Jakub Dawidek <pjd@FreeBSD.org>",
};

const BTRFS: Origin = Origin {
    system: "Linux btrfs",
    version: "6.14 (size suffixes 6.15), CONFIG_BTRFS_EXPERIMENTAL",
    file: "fs/btrfs/volumes.c",
    authors: "Anand Jain <anand.jain@oracle.com>",
};

const KAKRA: Origin = Origin {
    system: "Linux btrfs, kakra's patch set",
    version: "6.12, dropped for 6.18",
    file: "kakra/linux PR #36",
    authors: "Kai Krakow, from a patch of Anand Jain <anand.jain@oracle.com>",
};

const MIRRORBALL: Origin = Origin {
    system: "Mirrorball",
    version: "0.1",
    file: "crates/core/src/policies",
    authors: "the Mirrorball authors",
};

/// Every policy.
pub const ALL: &[PolicyInfo] = &[
    PolicyInfo {
        name: "mirrorball/first",
        aliases: &["first"],
        summary: "always the first eligible mirror; the null policy",
        parameters: &[],
        origin: MIRRORBALL,
        build: mirrorball_first::build,
        source: include_str!("mirrorball_first.rs"),
    },
    PolicyInfo {
        name: "mirrorball/random",
        aliases: &["random"],
        summary: "each mirror with equal chance; the baseline",
        parameters: &[],
        origin: MIRRORBALL,
        build: mirrorball_random::build,
        source: include_str!("mirrorball_random.rs"),
    },
    PolicyInfo {
        name: "btrfs/pid",
        aliases: &["pid"],
        summary: "the reader's process id picks the stripe",
        parameters: &[],
        origin: Origin {
            version: "every version; the default",
            authors: "btrfs developers",
            ..BTRFS
        },
        build: btrfs_pid::build,
        source: include_str!("btrfs_pid.rs"),
    },
    PolicyInfo {
        name: "btrfs/round-robin",
        aliases: &["round-robin"],
        summary: "mirrors take turns, by blocks read from the whole volume",
        parameters: &[CONTIGUOUS_BYTES],
        origin: BTRFS,
        build: btrfs_round_robin::build,
        source: include_str!("btrfs_round_robin.rs"),
    },
    PolicyInfo {
        name: "btrfs/devid",
        aliases: &["devid"],
        summary: "the mirror on one named member where there is one",
        parameters: &[ParameterInfo {
            name: "id",
            unit: Unit::Devid,
            default: None,
            range: 1..=i64::MAX as u64,
            multiple_of: 1,
            meaning: "the member to read from",
        }],
        origin: BTRFS,
        build: btrfs_devid::build,
        source: include_str!("btrfs_devid.rs"),
    },
    PolicyInfo {
        name: "btrfs/latency",
        aliases: &["latency"],
        summary: "the lowest mean read wait since the start",
        parameters: &[],
        origin: Origin {
            version: "patch v2, October 2024, not merged",
            file: "linux-btrfs, \"btrfs: use the path with the lowest latency for RAID1 reads\"",
            ..BTRFS
        },
        build: btrfs_latency::build,
        source: include_str!("btrfs_latency.rs"),
    },
    PolicyInfo {
        name: "kakra/latency",
        aliases: &[],
        summary: "the lowest mean read wait since the last checkpoint",
        parameters: &[PROBE],
        origin: KAKRA,
        build: kakra_latency::build,
        source: include_str!("kakra_latency.rs"),
    },
    PolicyInfo {
        name: "kakra/latency-rr",
        aliases: &["latency-rr"],
        summary: "turns among the mirrors within 25 % of the lowest mean read wait",
        parameters: &[CONTIGUOUS_BYTES, PROBE],
        origin: KAKRA,
        build: kakra_latency_rr::build,
        source: include_str!("kakra_latency_rr.rs"),
    },
    PolicyInfo {
        name: "kakra/queue",
        aliases: &["queue"],
        summary: "the fewest reads and writes in flight",
        parameters: &[],
        origin: Origin {
            version: "6.12 and 6.18",
            file: "kakra/linux PR #36 and PR #40",
            authors: "Kai Krakow",
            ..KAKRA
        },
        build: kakra_queue::build,
        source: include_str!("kakra_queue.rs"),
    },
    PolicyInfo {
        name: "gmirror/prefer",
        aliases: &["prefer"],
        summary: "the mirror on the member of highest priority",
        parameters: &[],
        origin: GMIRROR,
        build: gmirror_prefer::build,
        source: include_str!("gmirror_prefer.rs"),
    },
    PolicyInfo {
        name: "gmirror/round-robin",
        aliases: &[],
        summary: "the next mirror for each request, whatever its size",
        parameters: &[],
        origin: GMIRROR,
        build: gmirror_round_robin::build,
        source: include_str!("gmirror_round_robin.rs"),
    },
    PolicyInfo {
        name: "gmirror/split",
        aliases: &["split"],
        summary: "large reads are cut, a piece from each mirror; small ones take turns",
        parameters: &[ParameterInfo {
            name: "slice",
            unit: Unit::Bytes,
            default: Some(4096),
            range: 1..=i64::MAX as u64,
            multiple_of: 1,
            meaning: "the longest read that is not cut",
        }],
        origin: GMIRROR,
        build: gmirror_split::build,
        source: include_str!("gmirror_split.rs"),
    },
    PolicyInfo {
        name: "gmirror/load-old",
        aliases: &["load-old"],
        summary: "the lowest wait of each member's last I/O",
        parameters: &[],
        origin: Origin { version: "5.3 to 8.0", ..GMIRROR },
        build: gmirror_load_old::build,
        source: include_str!("gmirror_load_old.rs"),
    },
    PolicyInfo {
        name: "gmirror/load",
        aliases: &["load"],
        summary: "the lowest smoothed queue, less a bonus for a head in position",
        parameters: &[],
        origin: Origin {
            version: "after 8.0 (PR kern/113885, December 2009); the default",
            authors: "Alexander Motin <mav@FreeBSD.org>",
            ..GMIRROR
        },
        build: gmirror_load::build,
        source: include_str!("gmirror_load.rs"),
    },
    PolicyInfo {
        name: "md/raid1",
        aliases: &["md"],
        summary: "follow a stream; else an idle member, the shortest queue, or the nearest head",
        parameters: &[],
        origin: Origin {
            system: "Linux md",
            version: "6.9 and later",
            file: "drivers/md/raid1.c",
            authors: "Yu Kuai <yukuai3@huawei.com>, Paul Luse <paul.e.luse@linux.intel.com>",
        },
        build: md_raid1::build,
        source: include_str!("md_raid1.rs"),
    },
    PolicyInfo {
        name: "zfs/mirror",
        aliases: &["zfs"],
        summary: "the shortest queue plus a penalty for a seek; ties by 2 MiB of offset",
        parameters: &[],
        origin: Origin {
            system: "OpenZFS",
            version: "2.x",
            file: "module/zfs/vdev_mirror.c",
            authors: "Steven Hartland <smh@FreeBSD.org>",
        },
        build: zfs_mirror::build,
        source: include_str!("zfs_mirror.rs"),
    },
];
