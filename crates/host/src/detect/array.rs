//! A detected array: plain data, printed as JSON and written as an array file.

use super::disk::DetectedDisk;
use super::model_choice::ModelChoice;
use super::stack::StackLayer;
use super::sysroot::base_name;
use mirrorball_core::geometry::ArrayLayout;
use mirrorball_core::units::MIB;
use mirrorball_disk::profile::ModelProfile;
use mirrorball_lab::experiment::systems;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// A storage system that keeps copies of data, or paths to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StorageSystem {
    Btrfs,
    /// Linux md raid1.
    Md,
    /// Linux md raid10.
    #[serde(rename = "md-raid10")]
    MdRaid10,
    Lvm,
    Dm,
    /// A mirror of the device mapper's old target, as LVM's type `mirror` has it.
    DmMirror,
    Zfs,
    /// A namespace of NVMe with several paths.
    Nvme,
}

impl StorageSystem {
    /// Name in array files.
    pub fn name(self) -> &'static str {
        match self {
            StorageSystem::Btrfs => "btrfs",
            StorageSystem::Md => "md",
            StorageSystem::MdRaid10 => "md-raid10",
            StorageSystem::Lvm => "lvm",
            StorageSystem::Dm => "dm",
            StorageSystem::DmMirror => "dm-mirror",
            StorageSystem::Zfs => "zfs",
            StorageSystem::Nvme => "nvme",
        }
    }
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn layout_and_chunk<S: Serializer>(
    layout: &Option<ArrayLayout>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(2))?;
    map.serialize_entry("layout", &layout.map(|layout| layout.to_string()))?;
    map.serialize_entry("chunk_bytes", &layout.and_then(ArrayLayout::chunk_bytes))?;
    map.end()
}

#[derive(Clone, Debug, Serialize)]
pub struct DetectedArray {
    /// The system that chooses among its copies.
    pub system: StorageSystem,
    /// Version of the kernel, or of OpenZFS.
    pub version: Option<String>,
    /// Name in commands of the system.
    pub name: String,
    /// UUID of the file system, or of the array.
    pub id: Option<String>,
    /// How data lies on the members, as array files name it.
    pub profile: &'static str,
    /// The layout of the system, with its chunk size; that of btrfs if not given.
    #[serde(flatten, serialize_with = "layout_and_chunk")]
    pub layout: Option<ArrayLayout>,
    /// Where it is mounted, or the file system on it.
    pub mount: Option<String>,
    /// Read-ahead of its readers, in KiB.
    pub read_ahead_kb: Option<u64>,
    /// The limit in force on its rebuild or scrub, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<DetectedLimit>,
    /// Read policy and settings.
    pub policy: DetectedPolicy,
    /// Members, in the order of their numbers.
    pub members: Vec<DetectedMember>,
    /// Whether it is complete, and what it does at the moment.
    pub condition: ArrayCondition,
    /// The layers from what was asked for down to the array.
    pub stack: Vec<StackLayer>,
    /// Facts that could not be read, and what was assumed.
    pub notes: Vec<String>,
    /// Facts that could not be read, in a few words: something else was assumed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_known: Vec<&'static str>,
}

/// A limit on a rebuild or a scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DetectedLimit {
    /// KiB/s of each device.
    pub kib: u64,
    /// True if it was set for this array, false if it is that of the machine.
    pub is_own: bool,
}

/// A read policy in use.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DetectedPolicy {
    /// As the system writes it.
    pub text: Option<String>,
    /// As `compare --policy` takes it, without the members that are write-mostly.
    pub spec: Option<String>,
    /// The policies that the running system offers, as it writes them.
    pub offered: Vec<String>,
    /// Settings that change its reads: name and value.
    pub settings: Vec<(String, String)>,
}

impl DetectedPolicy {
    /// Lists the policy in force among those offered. A kernel of a distribution may have it from
    /// a later release, and the version of the kernel may not be known.
    pub(super) fn list_in_force(&mut self) {
        let Some(text) = &self.text else { return };
        if !self.offered.is_empty() && !self.offered.contains(text) {
            self.offered.push(text.clone());
        }
    }
}

impl DetectedArray {
    /// Whether `other` is the same array, found in another way.
    pub(super) fn is_same(&self, other: &DetectedArray) -> bool {
        (self.system, &self.name, &self.id) == (other.system, &other.name, &other.id)
    }

    /// Whether a member of it is `other`, or lies on it.
    pub fn lies_on(&self, other: &DetectedArray) -> bool {
        let Some(own) = other.stack.last().map(|layer| layer.name.as_str()) else { return false };
        let is_it = |member: &DetectedMember| {
            let mut layers = member.layers.iter();
            member.device.as_deref() == Some(own) || layers.any(|layer| layer.name == own)
        };
        self.members.iter().any(is_it)
    }

    /// Whether its members are paths to one device, of which there is one copy.
    pub fn has_paths(&self) -> bool {
        matches!(self.system, StorageSystem::Nvme | StorageSystem::Dm)
    }

    /// The array in a line: `md md0: raid1, 2 members: sda1, sdb1`.
    pub fn summary(&self) -> String {
        let members: Vec<&str> = self.members.iter().map(DetectedMember::name).collect();
        let (system, name) = (self.system.name(), &self.name);
        let mount = self.mount.as_ref().map(|mount| format!(" at {mount}"));
        let count = members.len();
        // The number of copies belongs to the name in btrfs alone.
        let shape = match self.profile {
            _ if self.has_paths() => format!("{count} paths"),
            "raid1c3" | "raid1c4" if self.system != StorageSystem::Btrfs => {
                format!("raid1, {count} members")
            }
            profile => format!("{profile}, {count} members"),
        };
        format!("{system} {name}{}: {shape}: {}", mount.unwrap_or_default(), members.join(", "))
    }

    /// Unusual state; `None` for an array that is complete and idle.
    pub fn condition_text(&self) -> Option<String> {
        if !self.has_paths() {
            let full = self.condition.filled_percent.filter(|percent| *percent >= NEARLY_FULL);
            let full = full.map(|percent| format!("nearly full, {percent} % is allocated"));
            let full = full.or(self.condition.remark.clone());
            let damaged =
                self.condition.has_damaged_files.then(|| "some files are damaged".to_owned());
            let parts = self.condition.text().into_iter().chain(damaged).chain(full);
            let parts: Vec<String> = parts.collect();
            return (!parts.is_empty()).then(|| parts.join("; "));
        }
        match self.condition.missing {
            0 => None,
            1 => Some("1 path down".to_owned()),
            down => Some(format!("{down} paths down")),
        }
    }

    /// Bytes of a member that its running rebuild has recovered, in whole MiB; 0 if none runs or
    /// its progress is not known.
    pub fn recovered_bytes(&self, member: &DetectedMember) -> u64 {
        let recovers = matches!(self.condition.activity.as_deref(), Some("recover" | "resilver"));
        let percent = self.condition.progress_percent.filter(|_| recovers && member.is_rebuilding);
        let size = member.filled_bytes().or(member.size_or_of_disk());
        let size = size.or(member.model_bytes());
        let (Some(percent), Some(size)) = (percent, size) else { return 0 };
        // Progress has one digit after the point.
        let per_mille = (percent * 10.0).round() as u64;
        (size / 1000).saturating_mul(per_mille.min(1000)) / MIB * MIB
    }

    /// Notes that something could not be read.
    pub(super) fn add_not_known(&mut self, what: &'static str, note: String) {
        self.not_known.push(what);
        self.notes.push(note);
    }

    /// The policy in force as `compare --policy` takes it: the rule of the release where there is
    /// no choice, with the members that are write-mostly if their flag has an effect: a raid10 does
    /// not look at it.
    pub fn in_force(&self) -> Option<String> {
        let has_flags = self.policy.spec.as_deref() == Some("md/raid1");
        let flagged = self.members.iter().filter(|member| has_flags && member.write_mostly);
        let modifiers: Vec<String> =
            flagged.map(|member| format!("+write-mostly:{}", member.devid)).collect();
        let system = systems::find(self.system.name()).expect("the systems of `detect` have files");
        let version = self.version.as_ref().and_then(|version| version.parse().ok());
        let of_release = |spec: &String| match &version {
            Some(version) => system.rule_of_release(spec, version, self.profile),
            None => spec.clone(),
        };
        self.policy.spec.as_ref().map(|spec| of_release(spec) + &modifiers.concat())
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct DetectedMember {
    /// Number in array files: as in btrfs; slot plus 1 in md.
    pub devid: u64,
    /// Device, such as `/dev/sdb1`; none if it is missing.
    pub device: Option<String>,
    /// The name of the kernel, such as `sdb1`.
    pub kernel_name: Option<String>,
    pub size_bytes: Option<u64>,
    /// First of these bytes on the disk.
    pub begin_bytes: Option<u64>,
    /// State, as the system writes it.
    pub state: String,
    /// Whether it is out of service: failed or missing.
    pub is_failed: bool,
    /// Whether it is being rebuilt.
    pub is_rebuilding: bool,
    /// Whether it is read only if no other can serve.
    pub write_mostly: bool,
    /// The mirror within the array that it belongs to, such as `mirror-0`.
    pub group: Option<String>,
    /// Layers between the member and its disk, such as LUKS.
    pub layers: Vec<StackLayer>,
    pub disk: Option<DetectedDisk>,
    pub model: ModelChoice,
    /// Number of disks that it is striped over, each as `disk`; 0 if it is on one.
    #[serde(skip_serializing_if = "is_zero")]
    pub striped: usize,
    /// Whether it lies on several disks, of which `disk` is the first.
    #[serde(skip)]
    pub(super) is_on_several: bool,
    /// The device that caches it, as bcache does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<DetectedCache>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<SharedLink>,
    /// Errors that the system has counted for it, in words: `3 read and 12 checksum errors`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<String>,
    /// Bytes of it that hold data, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// Facts about the layers between the member and its disk, in words.
    #[serde(skip)]
    pub(super) remarks: Vec<String>,
}

impl DetectedMember {
    /// The name of the kernel, else the last name of the path.
    pub(super) fn name(&self) -> &str {
        let of_path = || self.device.as_deref().map(base_name);
        self.kernel_name.as_deref().or_else(of_path).unwrap_or("missing")
    }

    /// The size, if that is known, else that of its disk.
    pub(super) fn size_or_of_disk(&self) -> Option<u64> {
        self.size_bytes.or(self.disk.as_ref()?.size_bytes)
    }

    /// Bytes that hold data, if these are known and no small part: a new file system is described
    /// as it will be when it is filled.
    pub(super) fn filled_bytes(&self) -> Option<u64> {
        /// Least part of a member that counts as filled: one in this many.
        const LEAST_PART: u64 = 20;
        let (size, is_known) = match self.size_or_of_disk() {
            Some(bytes) => (bytes, true),
            // One of which no size is known has at least that of its data.
            None => (self.model_bytes()?, false),
        };
        self.used_bytes.filter(|used| *used >= size / LEAST_PART && !(is_known && *used >= size))
    }

    /// The size of the model that stands for its disk.
    fn model_bytes(&self) -> Option<u64> {
        Some(ModelProfile::builtin(&self.model.profile).ok()?.capacity_bytes)
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct DetectedCache {
    /// The name of the kernel, such as `nvme0n1`.
    pub name: String,
    pub size_bytes: Option<u64>,
    pub model: ModelChoice,
}

/// A link that several disks share, such as a bus of USB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SharedLink {
    /// Name in array files.
    pub name: String,
    /// Rate of all disks on it together.
    pub bytes_per_s: u64,
    /// The link in words.
    pub reason: String,
}

/// Percent of its space from which on an array is nearly full.
pub(super) const NEARLY_FULL: u64 = 95;

/// Whether an array is complete, and what it does at the moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ArrayCondition {
    /// Whether copies are missing.
    pub degraded: bool,
    /// Number of members that are failed or missing.
    pub missing: usize,
    /// Work in the background: `resync`, `recover`, `check`, `scrub`, `balance`, ….
    pub activity: Option<String>,
    /// How much of it is done, in percent.
    pub progress_percent: Option<f64>,
    /// How long the rest takes at its present rate, in hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hours_left: Option<f64>,
    /// Another thing that is unusual, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// How much of the space is allocated, in percent, if that is known. Chunks of btrfs do not
    /// count: all may be allocated, and hold little.
    #[serde(skip)]
    pub filled_percent: Option<u64>,
    /// Spares that are free, of an array without a member.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spares: Vec<String>,
    /// The spare that stands in for a member, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stand_in: Option<String>,
    /// Whether no copy of some blocks of files is good, as far as the system knows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_damaged_files: bool,
}

impl ArrayCondition {
    /// States of an md array that serves no reads, as md writes them.
    pub const STOPPED: [&str; 2] = ["inactive", "clear"];

    /// Whether the array has stopped, or was never started: it serves no reads.
    pub fn is_stopped(&self) -> bool {
        self.activity.as_deref().is_some_and(|activity| Self::STOPPED.contains(&activity))
    }

    /// Unusual condition; `None` for an array that is complete and idle.
    pub fn text(&self) -> Option<String> {
        let mut parts = Vec::new();
        if self.degraded {
            parts.push(match self.missing {
                0 if self.stand_in.is_some() => {
                    format!("degraded, {}", self.stand_in.as_deref().unwrap_or_default())
                }
                0 => "degraded".to_owned(),
                1 => "degraded, 1 member out of service".to_owned(),
                missing => format!("degraded, {missing} members out of service"),
            });
        }
        if let Some(activity) = &self.activity {
            // `/proc/mdstat` has the noun, sysfs the verb.
            let activity = if activity == "recover" { "recovery" } else { activity };
            let progress = self.progress_percent.map(|percent| format!(" at {percent:.1} %"));
            // At the start the rate says little.
            let is_telling = self.progress_percent.is_some_and(|percent| percent >= 1.0);
            let left = self.hours_left.filter(|_| is_telling).map(|hours| match hours {
                hours if hours < 1.0 => format!(", {:.0} min left at its rate", hours * 60.0),
                hours if hours < 10.0 => format!(", {hours:.1} h left at its rate"),
                hours => format!(", {hours:.0} h left at its rate"),
            });
            let (progress, left) = (progress.unwrap_or_default(), left.unwrap_or_default());
            parts.push(format!("{activity}{progress}{left}"));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Why no array can be described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DetectError {
    /// There is no array at this path, or no such path.
    NoArray(mirrorball_core::diagnostic::Diagnostic),
    /// There is an array, but what is needed of it cannot be read.
    Unreadable(mirrorball_core::diagnostic::Diagnostic),
}

impl DetectError {
    pub fn into_diagnostic(self) -> mirrorball_core::diagnostic::Diagnostic {
        match self {
            DetectError::NoArray(diagnostic) | DetectError::Unreadable(diagnostic) => diagnostic,
        }
    }
}
