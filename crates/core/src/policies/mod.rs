//! Every read policy, and the one table that lists them.
//!
//! The CLI's listing, the docs, the golden tests, the lab's matrix and the reports iterate [`all`].
//! Adding a policy is one file here, one `mod` line and one row of the folder `table`. A row names
//! the policy, what it takes, where it comes from, and how to build it; its page is the header of
//! its own source.
//!
//! Policies are named `family/name`. A short alias exists where it cannot be mistaken; `btrfs` owns
//! the plain names that its sysfs file has or was proposed to have (`pid`, `round-robin`, `devid`,
//! `latency`), `kakra` owns `latency-rr` and `queue`. Rules that two policies share live in the
//! module `shared`, under a name of their own.

mod bcachefs_inverse_square_latency;
mod btrfs_devid;
mod btrfs_inflight;
mod btrfs_latency;
mod btrfs_pid;
mod btrfs_rostecki;
mod btrfs_rotation;
mod btrfs_round_robin;
mod btrfs_titovets;
mod crucible_read_all_first;
mod dm_historical_service_time;
mod dm_io_affinity;
mod dm_queue_length;
mod dm_round_robin;
mod dm_service_time;
mod drbd_least_pending;
mod drbd_prefer_local;
mod drbd_prefer_remote;
mod drbd_round_robin;
mod drbd_striping;
mod error;
mod gmirror_load;
mod gmirror_load_old;
mod gmirror_prefer;
mod gmirror_round_robin;
mod gmirror_split;
mod graid_raid1;
mod kakra_latency;
mod kakra_latency_rr;
mod kakra_queue;
mod kakra_queue_adaptive;
mod md_raid1;
mod md_raid10;
mod md_raid1_2010;
mod md_raid1_weighted_writes;
mod mirrorball_auto;
mod mirrorball_first;
mod mirrorball_random;
pub mod modifiers;
mod nvme_adaptive;
mod nvme_numa;
mod nvme_queue_depth;
mod nvme_round_robin;
mod origins;
mod raidframe_idle;
mod raidframe_partition;
mod research_c3;
mod research_nq;
mod research_p2c;
mod research_peak_ewma;
mod research_prequal;
mod research_sed;
mod shared;
mod solaris_geometric;
mod spdk_raid1;
mod spec;
mod table;
#[cfg(test)]
mod tests;
mod value;
mod vxvm_round;
mod zfs_mirror;
mod zfs_offset;
mod zfs_pending_10ms;

use crate::member::MemberIndex;
use crate::policy::ReadPolicy;
use std::ops::RangeInclusive;

pub use spec::{PolicyError, Spec, parse_list};
pub use table::{FAMILIES, all};

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
    /// A plain number of whatever the parameter's name says.
    Count,
    /// Hundredths; written with or without a percent sign.
    Percent,
    /// Milliseconds; written `500ms` or `10s`, a plain number being milliseconds.
    Millis,
    /// One of these words; its value is its place.
    Word(&'static [&'static str]),
}

/// What a policy is built from.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// What is built, for messages.
    pub name: &'a str,
    /// A value for each of the policy's parameters, in their order.
    pub values: &'a [u64],
    /// The devids of the array, in the order of its members.
    pub devids: &'a [u64],
}

impl PolicyInfo {
    /// The part of the name before the slash.
    pub fn family(&self) -> &'static str {
        self.name.split_once('/').expect("a canonical name is family/name").0
    }

    /// The policy's page: Markdown with the headings Idea, State, Cost, Good at, Bad at, Origin.
    pub fn page(&self) -> String {
        page_of(self.source)
    }

    /// How its name is written with its parameters: `btrfs/round-robin[:bytes]`.
    pub fn usage(&self) -> String {
        usage_of(self.name, self.parameters)
    }
}

impl Build<'_> {
    /// The member with this devid.
    ///
    /// # Errors
    /// If there is none: [`PolicyError::UnknownDevid`].
    pub fn member(&self, devid: u64) -> Result<MemberIndex, PolicyError> {
        let place = self.devids.iter().position(|&other| other == devid);
        let unknown = || PolicyError::UnknownDevid {
            of: self.name.to_owned(),
            devid,
            devids: self.devids.to_vec(),
        };
        place.map(|place| MemberIndex(place as u16)).ok_or_else(unknown)
    }
}

/// The header of a source, as Markdown.
fn page_of(source: &str) -> String {
    let header = source.lines().map_while(|line| line.strip_prefix("//!"));
    let lines: Vec<&str> = header.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    lines.join("\n") + "\n"
}

fn usage_of(name: &str, parameters: &[ParameterInfo]) -> String {
    let shown = parameters.iter().map(|parameter| format!("[:{}", parameter.name));
    name.to_owned() + &shown.collect::<String>() + &"]".repeat(parameters.len())
}

impl ParameterInfo {
    /// What a value must be, for messages: `a size (such as 64K) from 32K to 1M`.
    pub fn expected(&self) -> String {
        let (least, most) = (*self.range.start(), *self.range.end());
        let what = match self.unit {
            Unit::Word(words) => return format!("one of `{}`", words.join("`, `")),
            Unit::Bytes => "a size (such as 64K)",
            Unit::Devid => "a devid",
            Unit::Count => "a number",
            Unit::Percent => "a percentage",
            Unit::Millis => "a time",
        };
        // A bound that no value reaches in practice says nothing.
        if most >= i64::MAX as u64 / 2 {
            format!("{what} of at least {}", self.written(least))
        } else {
            format!("{what} from {} to {}", self.written(least), self.written(most))
        }
    }

    /// A value as people write it; reading that gives the value.
    pub fn written(&self, value: u64) -> String {
        match self.unit {
            Unit::Bytes => value::shortest_size(value),
            Unit::Devid | Unit::Count => value.to_string(),
            Unit::Percent => format!("{value}%"),
            Unit::Millis if value.is_multiple_of(1000) => format!("{}s", value / 1000),
            Unit::Millis => format!("{value}ms"),
            Unit::Word(words) => words[value as usize].to_owned(),
        }
    }
}

/// The row with this canonical name or alias.
pub fn find(name: &str) -> Option<&'static PolicyInfo> {
    all().find(|info| info.name == name || info.aliases.contains(&name))
}

/// The names of the families, in the order in which they are listed.
fn families() -> Vec<&'static str> {
    FAMILIES.iter().map(|family| family[0].family()).collect()
}
