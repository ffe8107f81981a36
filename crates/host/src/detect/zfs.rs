//! ZFS: sysfs does not show the disks of a pool, so they are read from `zpool status -LP`.

mod space;

use super::array::{
    ArrayCondition, DetectError, DetectedArray, DetectedMember, DetectedPolicy, StorageSystem,
};
use super::block::BlockDevice;
use super::md::profile_of_layout;
use super::members::{complete, counted_errors, no_mirror, notes_on, read_member, unreadable};
use super::mounts::mounts;
use super::stack::StackLayer;
use super::sysroot::Sysroot;
use super::tools::ZPOOL_STATUS;
use mirrorball_core::geometry::ArrayLayout;
use mirrorball_core::policies::Spec;

const PARAMETERS: &str = "/sys/module/zfs/parameters";

/// The module parameters `zfs_vdev_mirror_*` in the order of the policy's, with their defaults.
const PARAMETERS_OF_POLICY: [(&str, &str); 5] = [
    ("rotating_seek_inc", "5"),
    ("non_rotating_seek_inc", "1"),
    ("rotating_inc", "0"),
    ("non_rotating_inc", "0"),
    ("rotating_seek_offset", "1048576"),
];

/// A pool, as `zpool status` shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ZfsPool {
    pub(super) name: String,
    state: String,
    scan: String,
    /// True if no copy of some blocks of files is good.
    has_damaged_files: bool,
    /// The data vdevs with their leaves.
    vdevs: Vec<Vdev>,
    /// Vdevs of the log, the cache, the spares and the like: section, name and state.
    others: Vec<[String; 3]>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Vdev {
    name: String,
    leaves: Vec<VdevLeaf>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct VdevLeaf {
    path: String,
    state: String,
    is_resilvering: bool,
    errors: Option<String>,
    /// The disks of a group that has the place of one, as while it is replaced.
    group: Vec<VdevLeaf>,
}

/// End of the note about a spare.
const REPLACE: &str = ": replace that";

impl VdevLeaf {
    /// The disk that the pool has in this place when it is whole: the new one of two, else, of a
    /// group, one that has all data, else one that is usable.
    fn listed(&self) -> &VdevLeaf {
        let usable = || self.group.iter().filter(|it| it.state == "ONLINE");
        let comes = self.group.last().filter(|it| self.is_replaced() && it.state == "ONLINE");
        let listed = comes.or(self.complete());
        listed.or(usable().next()).or(self.group.last()).unwrap_or(self)
    }

    /// A disk of a group that has all data.
    fn complete(&self) -> Option<&VdevLeaf> {
        self.group.iter().find(|it| it.state == "ONLINE" && !it.is_resilvering)
    }

    fn is_replaced(&self) -> bool {
        self.path.starts_with("replacing-")
    }

    /// A group of two disks in words.
    fn replacement(&self) -> Option<String> {
        let [old, .., new] = &self.group[..] else { return None };
        let (state, old, new) = (&old.state, &old.path, &new.path);
        Some(match self.is_replaced() {
            false => format!("the spare {new} stands in for {old} ({state}){REPLACE}"),
            true => {
                let which = if self.listed().path == *new { "new" } else { "old" };
                let disks = format!("{new} for {old}, {state}");
                format!("a disk is being replaced: the {which} one is listed ({disks})")
            }
        })
    }
}

/// The pools of the machine. Empty where ZFS is not loaded. Fails if ZFS is loaded but its pools
/// cannot be listed.
pub(super) fn pools(sysroot: &Sysroot) -> Result<Vec<ZfsPool>, DetectError> {
    let is_loaded = sysroot.exists("/sys/module/zfs") || sysroot.exists("/proc/spl/kstat/zfs");
    if !is_loaded && !mounts(sysroot).iter().any(|mount| mount.kind == "zfs") {
        return Ok(Vec::new());
    }
    let text = sysroot
        .tool(&ZPOOL_STATUS)
        .map_err(|reason| unreadable("ZFS: the disks of its pools are not known", &reason))?;
    Ok(parse_status(&text))
}

impl ZfsPool {
    /// Describes it. Fails if its data vdevs are no mirrors, or their disks cannot be read.
    pub(super) fn array(&self, sysroot: &Sysroot) -> Result<DetectedArray, DetectError> {
        let mut notes = Vec::new();
        let mirrors: Vec<&Vdev> =
            self.vdevs.iter().filter(|vdev| vdev.name.starts_with("mirror")).collect();
        let copies = mirrors.iter().map(|vdev| vdev.leaves.len()).max().unwrap_or(0);
        let others = self.vdevs.iter().filter(|vdev| !vdev.name.starts_with("mirror"));
        let others: Vec<&str> = others.map(|vdev| vdev.name.as_str()).collect();
        if mirrors.is_empty() {
            let what = format!("pool {} has the vdevs {}", self.name, others.join(", "));
            return Err(no_mirror(what, "read policies choose among the disks of mirror vdevs"));
        }
        if !others.is_empty() {
            notes.push(format!("vdevs that are no mirrors are left out: {}", others.join(", ")));
        }
        let leaves = mirrors.iter().flat_map(|vdev| &vdev.leaves);
        notes.extend(leaves.filter_map(VdevLeaf::replacement));
        notes.extend(self.other_vdevs());
        let layout = self.layout(&mirrors, copies)?;
        let mut policy = policy(sysroot);
        let mut not_known = Vec::new();
        if policy.settings.is_empty() {
            notes.push("the module parameters cannot be read: taken for the defaults".to_owned());
            not_known.push("the module parameters");
            policy.text = None;
        }
        let mut members = members(sysroot, &mirrors);
        let listed = self.listed_space(sysroot);
        self.set_used_bytes(&listed, mirrors.len() as u64, &mut members);
        complete(&mut members);
        if self.allocated_bytes(&listed).is_none() {
            let is_guessed = members.iter().any(|member| member.filled_bytes().is_some());
            notes.extend(self.guess_of_data(sysroot, is_guessed));
            not_known.extend(is_guessed.then_some("how much data the pool has"));
        }
        notes.extend(notes_on(&members));
        Ok(DetectedArray {
            system: StorageSystem::Zfs,
            version: sysroot.text("/sys/module/zfs/version"),
            name: self.name.clone(),
            id: sysroot.text(&format!("/proc/spl/kstat/zfs/{}/guid", self.name)),
            profile: profile_of_layout(layout, members.len()),
            layout: Some(layout),
            mount: self.mount(sysroot),
            read_ahead_kb: None,
            limit: None,
            policy,
            condition: ArrayCondition {
                filled_percent: self.filled_percent(&listed, &members),
                ..self.condition(&members)
            },
            members,
            stack: vec![StackLayer::mirrored(self.name.clone(), "zfs mirror")],
            notes,
            not_known,
        })
    }

    /// The layout of mirrors of so many disks. Fails if these differ, or are too many.
    fn layout(&self, mirrors: &[&Vdev], copies: usize) -> Result<ArrayLayout, DetectError> {
        let refused = |reason: &str| {
            let help =
                "pools whose mirrors all have the same number of disks, 2 to 16, can be described";
            unreadable(format!("pool {}: {reason}", self.name), help)
        };
        if mirrors.iter().any(|vdev| vdev.leaves.len() != copies) {
            return Err(refused("its mirrors have different numbers of disks"));
        }
        let layout = format!("zfs-mirror:{copies}").parse::<ArrayLayout>();
        let layout = layout.map_err(|error| refused(&error.message))?;
        let checked = layout.check_members(mirrors.len() * copies).map(|()| layout);
        checked.map_err(|error| refused(&error.diagnostic().message))
    }

    /// The rest of a row that begins with the name of the pool, which may have blanks.
    fn behind_name<'b>(&self, row: &'b str) -> Option<&'b str> {
        let rest = row.strip_prefix(&self.name)?;
        (rest.is_empty() || rest.starts_with(char::is_whitespace)).then_some(rest)
    }

    fn mount(&self, sysroot: &Sysroot) -> Option<String> {
        let is_ours = |source: &str| source.split('/').next() == Some(&self.name);
        let mut all = mounts(sysroot).into_iter();
        all.find(|mount| mount.kind == "zfs" && is_ours(&mount.source)).map(|mount| mount.point)
    }

    /// Vdevs that hold no data of files, in words.
    fn other_vdevs(&self) -> impl Iterator<Item = String> + '_ {
        let sections = [
            ("logs", "log, which takes synchronous writes, left out"),
            ("cache", "cache, left out"),
            ("spares", "spares, not members"),
            ("special", "special vdevs, which hold metadata, left out"),
            ("dedup", "vdevs of the deduplication table, left out"),
        ];
        sections.into_iter().filter_map(|(section, words)| {
            let groups = self.vdevs.iter().flat_map(|vdev| &vdev.leaves);
            let groups: Vec<&VdevLeaf> = groups.flat_map(|leaf| &leaf.group).collect();
            let is_in_use = |name: &str| groups.iter().any(|leaf| leaf.path == name);
            let own = self.others.iter().filter(|[other, ..]| other == section);
            let own = own.filter(|[_, name, _]| !is_in_use(name));
            let named = own.map(|[_, name, state]| match state.as_str() {
                "ONLINE" | "" => name.clone(),
                "AVAIL" => format!("{name} (available)"),
                other => format!("{name} ({other})"),
            });
            let names: Vec<String> = named.collect();
            (!names.is_empty()).then(|| format!("{words}: {}", names.join(", ")))
        })
    }

    fn condition(&self, members: &[DetectedMember]) -> ArrayCondition {
        let missing = members.iter().filter(|member| member.is_failed).count();
        let first = self.scan.split_whitespace().next().unwrap_or_default();
        let runs = self.scan.contains("in progress");
        let progress = self.scan.split_whitespace().find_map(|word| word.strip_suffix('%'));
        let leaves = self.vdevs.iter().flat_map(|vdev| &vdev.leaves);
        let stand_ins = leaves.filter_map(VdevLeaf::replacement);
        let mut stand_ins = stand_ins.filter_map(|it| it.strip_suffix(REPLACE).map(str::to_owned));
        let own = self.others.iter().filter(|[section, ..]| section == "spares");
        let free = own.filter(|[_, _, state]| state == "AVAIL");
        ArrayCondition {
            spares: free.map(|[_, name, _]| name.clone()).filter(|_| missing > 0).collect(),
            stand_in: stand_ins.next(),
            degraded: missing > 0 || self.state == "DEGRADED",
            missing,
            activity: match self.state.as_str() {
                "SUSPENDED" | "UNAVAIL" => Some("suspended".to_owned()),
                _ => runs.then(|| first.to_owned()),
            },
            progress_percent: progress.and_then(|it| it.parse().ok()).filter(|_| runs),
            hours_left: self.hours_left().filter(|_| runs),
            has_damaged_files: self.has_damaged_files,
            ..ArrayCondition::default()
        }
    }
}

fn members(sysroot: &Sysroot, mirrors: &[&Vdev]) -> Vec<DetectedMember> {
    let leaves = mirrors.iter().flat_map(|vdev| vdev.leaves.iter().map(move |leaf| (vdev, leaf)));
    let member = |(devid, (vdev, place)): (u64, (&&Vdev, &VdevLeaf))| {
        let leaf = place.listed();
        let device = BlockDevice::by_path(sysroot, &leaf.path);
        let device = device.or_else(|| BlockDevice::by_name(sysroot, &leaf.path));
        let mut member = read_member(sysroot, devid, device.as_ref());
        // A link, such as those by identifiers, or an alias is the name that the pool has.
        let is_link = leaf.path.matches('/').count() > 2 && !leaf.path.starts_with("/dev/mapper/");
        let is_path = leaf.path.starts_with('/');
        if if is_path { device.is_none() || is_link } else { device.is_some() } {
            member.device = Some(leaf.path.clone());
        }
        // A disk that is gone has a number as its name.
        member.kernel_name = member.kernel_name.or((!is_path).then(|| leaf.path.clone()));
        member.group = Some(vdev.name.clone());
        member.state.clone_from(&leaf.state);
        member.is_failed = !matches!(leaf.state.as_str(), "ONLINE" | "DEGRADED");
        // While it is replaced, the old disk serves.
        let is_served = member.is_failed || place.complete().is_some();
        member.is_rebuilding = leaf.is_resilvering && !is_served;
        member.errors.clone_from(&leaf.errors);
        member
    };
    (1..).zip(leaves).map(member).collect()
}

fn policy(sysroot: &Sysroot) -> DetectedPolicy {
    let names = sysroot.names(PARAMETERS);
    let names = names.into_iter().filter(|name| name.starts_with("zfs_vdev_mirror_"));
    let value = |name: String| Some((name.clone(), sysroot.text(&format!("{PARAMETERS}/{name}"))?));
    let mut settings: Vec<(String, String)> = names.filter_map(value).collect();
    settings.sort();
    let text = Some("zfs mirror".to_owned());
    // Before 0.7 the module has this parameter, and none of the others.
    let is_old = settings.iter().any(|(name, _)| name == "zfs_vdev_mirror_switch_us");
    let spec = if is_old { Some("zfs/pending-10ms".to_owned()) } else { policy_spec(&settings) };
    DetectedPolicy { text, spec, offered: Vec::new(), settings }
}

/// The policy with the module parameters as they are; `None` if one is not known or out of range.
fn policy_spec(settings: &[(String, String)]) -> Option<String> {
    let values = PARAMETERS_OF_POLICY.map(|(name, default)| {
        let name = format!("zfs_vdev_mirror_{name}");
        let written = settings.iter().find(|(other, _)| *other == name);
        (written.map_or(default, |(_, value)| value.as_str()), default)
    });
    let last_changed = values.iter().rposition(|(value, default)| value != default);
    let changed = &values[..last_changed.map_or(0, |last| last + 1)];
    let spec = changed.iter().fold("zfs/mirror".to_owned(), |spec, (value, _)| spec + ":" + value);
    // Without any of the files the module is older than they are, or cannot be read.
    (!settings.is_empty()).then(|| Spec::parse(&spec).ok())?.map(|spec| spec.to_string())
}

/// Reads `zpool status -LP`: a tab and two spaces for each level below the pool.
fn parse_status(text: &str) -> Vec<ZfsPool> {
    let mut pools: Vec<ZfsPool> = Vec::new();
    let mut key = String::new();
    let mut section = None;
    for line in text.lines() {
        if let Some(name) = line.trim_start().strip_prefix("pool:").filter(|_| !in_table(line)) {
            pools.push(ZfsPool { name: name.trim().to_owned(), ..ZfsPool::default() });
            (key, section) = (String::new(), None);
            continue;
        }
        let Some(pool) = pools.last_mut() else { continue };
        if !in_table(line) {
            if let Some((word, value)) = line.trim().split_once(':') {
                word.clone_into(&mut key);
                match word {
                    "state" => value.trim().clone_into(&mut pool.state),
                    "errors" => pool.has_damaged_files |= is_damage(value.trim()),
                    "scan" => value.trim().clone_into(&mut pool.scan),
                    _ => {}
                }
            }
            continue;
        }
        if key == "scan" {
            pool.scan = format!("{} {}", pool.scan, line.trim());
        } else if key == "config" {
            pool.add_row(line, &mut section);
        }
    }
    pools
}

/// True if the line about errors of data names some: `3 data errors, use '-v' for a list`.
fn is_damage(errors: &str) -> bool {
    errors.starts_with("Permanent errors") || errors.contains(" data errors, use")
}

fn in_table(line: &str) -> bool {
    line.starts_with('\t')
}

impl ZfsPool {
    /// Adds a row of the table: name, state, and behind the counters what it does at the moment.
    /// Rows below `section`, which is empty for the data, are those of the log and the like.
    fn add_row(&mut self, line: &str, section: &mut Option<String>) {
        let row = line.trim_start_matches('\t');
        let level = (row.len() - row.trim_start_matches(' ').len()) / 2;
        let mut words = row.split_whitespace();
        let (Some(name), state) = (words.next(), words.next().unwrap_or_default()) else { return };
        if level == 0 {
            let is_pool = self.behind_name(row).is_some();
            let other = if is_pool { String::new() } else { name.to_owned() };
            *section = Some(other).filter(|_| name != "NAME");
            return;
        }
        match section.as_deref() {
            Some("") => {}
            Some(other) if level == 1 => {
                return self.others.push([other, name, state].map(str::to_owned));
            }
            _ => return,
        }
        // A terminal may have broken the line before the bracket.
        let is_resilvering = row.contains("(resilvering");
        if level == 1 {
            self.vdevs.push(Vdev { name: name.to_owned(), ..Vdev::default() });
        } else if let Some(vdev) = self.vdevs.last_mut() {
            let counts = ["read", "write", "checksum"].into_iter().zip(words);
            let errors = counted_errors(counts);
            let (path, state) = (name.to_owned(), state.to_owned());
            let leaf = VdevLeaf { path, state, is_resilvering, errors, group: Vec::new() };
            match vdev.leaves.last_mut() {
                // A disk in a group, such as `replacing-1`; a group in it is known by its disks.
                Some(group) if level > 2 => {
                    let is_group = ["replacing-", "spare-"].iter().any(|it| name.starts_with(it));
                    group.group.extend(Some(leaf).filter(|_| !is_group));
                }
                _ => vdev.leaves.push(leaf),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameters_in_force_are_those_of_the_policy() {
        let spec = |settings: &[(&str, &str)]| {
            let full = |(name, value): &(&str, &str)| {
                (format!("zfs_vdev_mirror_{name}"), (*value).to_owned())
            };
            policy_spec(&settings.iter().map(full).collect::<Vec<_>>())
        };
        let offset = ("rotating_seek_offset", "1048576");
        assert_eq!(spec(&[offset]).as_deref(), Some("zfs/mirror"), "the defaults");
        let tuned = [("rotating_inc", "20"), ("rotating_seek_inc", "100"), offset];
        assert_eq!(spec(&tuned).as_deref(), Some("zfs/mirror:100:1:20"));
        let flash = [("non_rotating_seek_inc", "0"), ("rotating_seek_offset", "65536")];
        assert_eq!(spec(&flash).as_deref(), Some("zfs/mirror:5:0:0:0:64K"));
        assert_eq!(spec(&[("rotating_inc", "-1")]), None);
        assert_eq!(spec(&[]), None);
    }
}
