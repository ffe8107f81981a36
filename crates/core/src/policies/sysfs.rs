//! btrfs's sysfs file `read_policy`: what may be written to it, and what it shows.
//!
//! The rules are the kernel's, so that a script written for `/sys/fs/btrfs/UUID/read_policy` means
//! the same here: an exact name, optionally `:value`; the value with suffixes, in hexadecimal or
//! octal too, blanks allowed behind it and nowhere else; a final newline is ignored. All else is
//! `EINVAL`, without a word of why; the general entrance, [`super::spec::Spec::parse`], explains.
//!
//! One difference: the kernel copies what was written into 32 bytes and reads the stump of anything
//! longer, which may name another value than was meant. Here what does not fit is `EINVAL`.
//!
//! Source: `btrfs_read_policy_store` and `_show` in Linux 6.15 `fs/btrfs/sysfs.c`; the strings that
//! must fail are those of fstests btrfs/329.

use super::spec::Spec;
use super::value::parse_value;
use super::{PolicyInfo, find};
use std::fmt;

/// The three policies that the file knows, in the order in which it shows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BtrfsPolicy {
    /// `pid`
    Pid,
    /// `round-robin[:bytes]`
    RoundRobin,
    /// `devid[:id]`
    Devid,
}

/// What a filesystem remembers between writes: the values of inactive policies too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BtrfsSetting {
    /// The policy in force.
    pub active: BtrfsPolicy,
    /// Bytes of a turn of `round-robin`.
    pub round_robin_bytes: u64,
    /// The member named by `devid`.
    pub devid: u64,
}

/// What a write is checked against.
#[derive(Clone, Copy, Debug)]
pub struct BtrfsContext<'a> {
    /// The devids of the filesystem, present or missing.
    pub devids: &'a [u64],
    /// The member that `devid` without a value means: in btrfs the one of highest generation.
    pub latest_devid: u64,
}

/// "Invalid argument": all that sysfs says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Einval;

/// The kernel's buffer, less its terminating zero.
const LONGEST: usize = 31;

const NAMES: [(&str, BtrfsPolicy); 3] = [
    ("pid", BtrfsPolicy::Pid),
    ("round-robin", BtrfsPolicy::RoundRobin),
    ("devid", BtrfsPolicy::Devid),
];

impl BtrfsSetting {
    /// As after a mount: `pid`, turns of 256 KiB.
    pub fn at_mount(latest_devid: u64) -> BtrfsSetting {
        let round_robin_bytes = default_bytes(info(BtrfsPolicy::RoundRobin));
        BtrfsSetting { active: BtrfsPolicy::Pid, round_robin_bytes, devid: latest_devid }
    }

    /// The policy in force, to be built.
    pub fn spec(&self) -> Spec {
        let values = match self.active {
            BtrfsPolicy::Pid => vec![],
            BtrfsPolicy::RoundRobin => vec![self.round_robin_bytes],
            BtrfsPolicy::Devid => vec![self.devid],
        };
        Spec::with_values(info(self.active), values)
    }
}

impl fmt::Display for Einval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Invalid argument")
    }
}

impl std::error::Error for Einval {}

/// The setting after `text` was written to the file.
///
/// A value is rounded up to whole sectors and has no upper bound but the sign bit. `round-robin`
/// without one goes back to 262144, `devid` without one to the context's. A value after `pid` is
/// read, then ignored. Nothing written changes nothing: sysfs does not call the kernel for it.
///
/// # Errors
/// [`Einval`] if the name is not exactly one of the three, the value is none, or no such devid is
/// in the filesystem.
pub fn btrfs_store(
    text: &str,
    setting: &BtrfsSetting,
    context: &BtrfsContext<'_>,
) -> Result<BtrfsSetting, Einval> {
    if text.is_empty() {
        return Ok(*setting);
    }
    if text.len() > LONGEST {
        return Err(Einval);
    }
    let (name, value) = match text.split_once(':') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let name = name.strip_suffix('\n').unwrap_or(name);
    let &(_, active) = NAMES.iter().find(|(known, _)| *known == name).ok_or(Einval)?;
    // `pid` takes no value, but what is written there must still be one.
    let parameters = match active {
        BtrfsPolicy::Pid => info(BtrfsPolicy::Devid).parameters,
        BtrfsPolicy::RoundRobin | BtrfsPolicy::Devid => info(active).parameters,
    };
    let value = value.map(|text| parse_value(&parameters[0], text).ok_or(Einval)).transpose()?;
    let mut setting = BtrfsSetting { active, ..*setting };
    match active {
        BtrfsPolicy::Pid => {}
        BtrfsPolicy::RoundRobin => {
            setting.round_robin_bytes = value.unwrap_or_else(|| default_bytes(info(active)));
        }
        BtrfsPolicy::Devid => {
            setting.devid = value.unwrap_or(context.latest_devid);
            if !context.devids.contains(&setting.devid) {
                return Err(Einval);
            }
        }
    }
    Ok(setting)
}

/// What the file shows: every policy with its value in plain bytes, the active one in brackets, and
/// a newline at the end, as the kernel writes it. `pid [round-robin:262144] devid:1`
pub fn btrfs_show(setting: &BtrfsSetting) -> String {
    let shown = NAMES.map(|(name, policy)| {
        let text = match policy {
            BtrfsPolicy::Pid => name.to_string(),
            BtrfsPolicy::RoundRobin => format!("{name}:{}", setting.round_robin_bytes),
            BtrfsPolicy::Devid => format!("{name}:{}", setting.devid),
        };
        if policy == setting.active { format!("[{text}]") } else { text }
    });
    shown.join(" ") + "\n"
}

fn info(policy: BtrfsPolicy) -> &'static PolicyInfo {
    let (name, _) = NAMES[policy as usize];
    find(name).expect("the names of the sysfs file are aliases in the table")
}

fn default_bytes(info: &PolicyInfo) -> u64 {
    info.parameters[0].default.expect("round-robin has a default")
}
