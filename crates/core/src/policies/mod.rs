//! Read policies, and the table that lists them.
//!
//! The listing of the command line, the documentation, the golden tests, the default comparison and
//! the reports iterate [`all`]. A policy is one file here, one `mod` line and one row in the folder
//! `table`. The row has its name, parameters and constructor; its page is the header of its
//! source file.
//!
//! Policies are named `family/name`. A policy has a short alias if that is unambiguous. `btrfs` has
//! the aliases that its sysfs file accepts or was proposed to accept (`pid`, `round-robin`,
//! `devid`, `latency`), `kakra` has `latency-rr` and `queue`. Rules that several policies use are
//! in the module `shared`.

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
mod md_raid10_2008;
mod md_raid1_2010;
mod md_raid1_2012;
mod md_raid1_2016;
mod md_raid1_weighted_writes;
mod mirrorball_auto;
mod mirrorball_first;
mod mirrorball_random;
pub mod modifiers;
mod nvme_adaptive;
mod nvme_numa;
mod nvme_queue_depth;
mod nvme_round_robin;
mod program;
mod program_values;
mod raidframe_idle;
mod raidframe_partition;
mod registry;
mod research_c3;
mod research_linnos;
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
mod zfs_mirror_bypass;
mod zfs_offset;
mod zfs_pending_10ms;

use crate::diagnostic::Diagnostic;
use crate::member::MemberIndex;
use crate::policy::ReadPolicy;
use std::ops::RangeInclusive;

pub use program::{
    OBJECT_BYTES_MAX, PROGRAM_FAMILY, PROGRAM_FILE, PolicyProgram, ProgramLoader, ProgramParameter,
    names_program, short_policy_name,
};
pub use registry::Registry;
pub use spec::{Spec, parse_list, rounding_notes};
pub use table::{FAMILIES, all};

/// Maximum number of mirrors of a read: four times that of raid1c4.
pub const MIRRORS_MAX: usize = 16;

/// One policy: names, parameters and constructor.
#[derive(Debug)]
pub struct PolicyInfo {
    /// Canonical name, `family/name`.
    pub name: &'static str,
    /// Short names of this policy.
    pub aliases: &'static [&'static str],
    /// Information that it decides by.
    pub basis: Basis,
    pub summary: &'static str,
    /// Values that may follow the name, each after a colon, in this order.
    pub parameters: &'static [ParameterInfo],
    /// Builds the policy; `build` holds a value for each of `parameters`.
    pub build: fn(build: &Build<'_>) -> Built,
    source: &'static str,
}

/// Information that a policy decides by, from the simplest rule to the most complex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Basis {
    /// The read itself: its address, its process or CPU, or a member that is named. No state.
    Address,
    /// Turns or random draws: a counter at most.
    Turns,
    /// Requests or bytes in flight.
    Queues,
    /// Waits, service times or head positions, measured and kept per member.
    Measurements,
    /// A model of each member, fitted to its measurements.
    Model,
}

/// A value that may follow the name of a policy or modifier.
#[derive(Debug)]
pub struct ParameterInfo {
    /// Name of the parameter, for messages.
    pub name: &'static str,
    pub unit: Unit,
    /// Value if none is given; `None` for the first devid of the array.
    pub default: Option<u64>,
    /// Accepted values, before rounding.
    pub range: RangeInclusive<u64>,
    /// Values are rounded up to a multiple of this.
    pub multiple_of: u64,
    /// Effect of the parameter, as a noun phrase.
    pub meaning: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bytes, optionally with a suffix K, M, G, T, P or E (powers of 1024).
    Bytes,
    Devid,
    /// A number without a unit.
    Count,
    /// Hundredths, optionally with a percent sign.
    Percent,
    /// Milliseconds: `500ms`, `10s`, or a plain number of milliseconds.
    Millis,
    /// One of these words; the value is its index.
    Word(&'static [&'static str]),
}

/// A policy, or the reason why it cannot be built.
pub type Built = Result<Box<dyn ReadPolicy>, Diagnostic>;

#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// Name of what is built, for messages.
    pub name: &'a str,
    /// A value for each parameter, in their order.
    pub values: &'a [u64],
    /// Devids of the array, in the order of its members.
    pub devids: &'a [u64],
}

impl PolicyInfo {
    /// Part of the name before the slash.
    pub fn family(&self) -> &'static str {
        self.name.split_once('/').expect("a canonical name is family/name").0
    }

    /// The policy's page: Markdown with the headings Idea, State, Cost, Good at, Bad at, Origin.
    pub fn page(&self) -> String {
        page_of(self.source)
    }

    /// Syntax of the policy with its parameters: `btrfs/round-robin[:bytes]`.
    pub fn usage(&self) -> String {
        usage_of(self.name, self.parameters)
    }
}

impl Build<'_> {
    /// Finds the member with this devid. Fails if the array has no such member.
    pub fn member(&self, devid: u64) -> Result<MemberIndex, Diagnostic> {
        match self.devids.iter().position(|&other| other == devid) {
            Some(index) => Ok(MemberIndex(index as u16)),
            None => Err(error::unknown_devid(self.name, devid, self.devids)),
        }
    }
}

/// Header of a source file, as Markdown.
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
    /// Description of the accepted values, for messages: `a size (such as 64K) from 32K to 1M,
    /// rounded up to a multiple of 32K`.
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
        if self.multiple_of > 1 {
            let bounds = ParameterInfo { multiple_of: 1, range: self.range.clone(), ..*self };
            let multiple = self.written(self.multiple_of);
            return format!("{}, rounded up to a multiple of {multiple}", bounds.expected());
        }
        match self.unit {
            // No member has the devid 0.
            Unit::Devid if least == 0 => "a devid, or 0 for the lowest devid".to_owned(),
            // The limit is that of a signed number in the kernel.
            Unit::Bytes if most >= i64::MAX as u64 / 2 => {
                format!("{what} of at least {} and below 8E", self.written(least))
            }
            _ if most >= i64::MAX as u64 / 2 => {
                format!("{what} of at least {}", self.written(least))
            }
            _ => format!("{what} from {} to {}", self.written(least), self.written(most)),
        }
    }

    /// Formats a value so that parsing the text gives the value.
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

/// Finds the row with this canonical name or alias.
pub fn find(name: &str) -> Option<&'static PolicyInfo> {
    all().find(|info| info.name == name || info.aliases.contains(&name))
}

/// Builds a policy that takes no values.
fn built<P: ReadPolicy + Default + 'static>(_build: &Build<'_>) -> Built {
    Ok(Box::new(P::default()))
}

/// Names of the families, in the order of the listing.
fn families() -> Vec<&'static str> {
    FAMILIES.iter().map(|(_, family)| family[0].family()).collect()
}
