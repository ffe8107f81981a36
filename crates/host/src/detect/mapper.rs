//! The device mapper: RAID volumes of LVM, mirrors, and dm-multipath.
//!
//! sysfs shows the devices of a volume, but neither its level nor the state of its images: these
//! are in `dmsetup table` and `dmsetup status`, which need root.

mod multipath;

use super::array::{
    ArrayCondition, DetectError, DetectedArray, DetectedLimit, DetectedMember, DetectedPolicy,
    StorageSystem,
};
use super::block::BlockDevice;
use super::leaf;
use super::md::{Raid10Layout, fixed_layout, profile_of_layout};
use super::members::{
    COPIES_HELP, complete, kernel_release, layout_of_copies, mount_point, no_mirror, notes_on,
    percent, read_member, unreadable,
};
use super::stack::StackLayer;
use super::sysroot::Sysroot;
use super::tools::{DMSETUP_STATUS, DMSETUP_TABLE, Tool};
use mirrorball_core::geometry::ArrayLayout;

/// A device of the device mapper that chooses among devices below it.
pub(super) struct Mapped<'a> {
    sysroot: &'a Sysroot,
    device: BlockDevice,
    name: String,
    kind: MappedKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MappedKind {
    /// Images of the target `raid`.
    Raid,
    /// Images of the old target `mirror`.
    Mirror,
    Multipath,
}

/// The words of a raid target's table.
#[derive(Debug, Default, PartialEq, Eq)]
struct RaidTable {
    level: String,
    chunk_bytes: u64,
    write_mostly: Vec<u64>,
    copies: u64,
    format: String,
    limit_kib: Option<u64>,
}

impl<'a> Mapped<'a> {
    /// The device, if it chooses among others.
    pub(super) fn at(sysroot: &'a Sysroot, device: &BlockDevice) -> Option<Mapped<'a>> {
        let (name, uuid) = device.mapper(sysroot);
        if name.is_empty() {
            return None;
        }
        let slaves = device.slaves(sysroot);
        let has_images = |mark: &str| {
            let is_image = |slave: &BlockDevice| image_index(sysroot, slave, mark).is_some();
            slaves.iter().any(is_image)
        };
        let kind = match () {
            () if uuid.starts_with("mpath-") => MappedKind::Multipath,
            () if has_images("_rimage_") => MappedKind::Raid,
            () if has_images("_mimage_") => MappedKind::Mirror,
            () => return None,
        };
        Some(Mapped { sysroot, device: device.clone(), name, kind })
    }

    /// Describes it. Fails if its level cannot be read or has no copies.
    pub(super) fn array(&self) -> Result<DetectedArray, DetectError> {
        match self.kind {
            MappedKind::Multipath => self.multipath(),
            MappedKind::Raid => self.raid(),
            MappedKind::Mirror => self.mirror(),
        }
    }

    /// The fields that all kinds share.
    fn describe(
        &self,
        profile: &'static str,
        members: Vec<DetectedMember>,
        mut notes: Vec<String>,
    ) -> DetectedArray {
        if self.kind != MappedKind::Multipath {
            notes.extend(notes_on(&members));
        }
        let missing = members.iter().filter(|member| member.is_failed).count();
        let (system, kind) = match self.kind {
            MappedKind::Multipath => (StorageSystem::Dm, "dm multipath"),
            MappedKind::Raid => (StorageSystem::Lvm, "lvm raid"),
            MappedKind::Mirror => (StorageSystem::DmMirror, "dm mirror"),
        };
        DetectedArray {
            system,
            version: kernel_release(self.sysroot),
            name: self.name.clone(),
            id: None,
            profile,
            layout: None,
            mount: mount_point(self.sysroot, &self.device),
            read_ahead_kb: self.sysroot.number(&self.device.file("queue/read_ahead_kb")),
            limit: None,
            policy: DetectedPolicy::default(),
            members,
            condition: ArrayCondition { degraded: missing > 0, missing, ..Default::default() },
            stack: vec![StackLayer::mirrored(self.device.device_path(self.sysroot), kind)],
            notes,
            not_known: Vec::new(),
        }
    }

    /// The array with a copy on each of these devices, or paths to one copy.
    fn of_copies(
        &self,
        members: Vec<DetectedMember>,
        notes: Vec<String>,
    ) -> Result<DetectedArray, DetectError> {
        let (profile, layout) = layout_of_copies(members.len())
            .map_err(|reason| unreadable(format!("{}: {reason}", self.name), COPIES_HELP))?;
        let mut array = self.describe(profile, members, notes);
        array.layout = layout;
        Ok(array)
    }

    fn raid(&self) -> Result<DetectedArray, DetectError> {
        let mut notes = Vec::new();
        let mut members = self.images("_rimage_");
        let mut not_known = Vec::new();
        let read = self.line_of(&DMSETUP_TABLE).and_then(|line| {
            parse_raid(&line).ok_or_else(|| format!("`{line}` of `dmsetup table` is no RAID"))
        });
        let table = match read {
            Ok(table) => Some(table),
            Err(reason) if members.len() == 2 => {
                notes.push(format!(
                    "level and write-mostly members are not known ({reason}): assumed raid1, as \
                     the volume has 2 images, and none write-mostly"
                ));
                not_known.push("level, write-mostly members and the place on the disks");
                None
            }
            Err(reason) => {
                let what = format!("{}: the level of its LVM RAID is not known", self.name);
                return Err(unreadable(what, &reason));
            }
        };
        let is_read = table.is_some();
        let table = table.unwrap_or(RaidTable { level: "raid1".to_owned(), ..Default::default() });
        let layout = self.raid_layout(&table, members.len())?;
        for index in &table.write_mostly {
            if let Some(member) = members.iter_mut().find(|member| member.devid == index + 1) {
                member.write_mostly = true;
            }
        }
        let activity = match self.line_of(&DMSETUP_STATUS) {
            Ok(line) => apply_status(&line, &mut members),
            Err(reason) => {
                notes.push(format!("the health of the images is not known: {reason}"));
                not_known.push("the health of the images");
                None
            }
        };
        let is_stale = activity.is_none() && fail_stale(&mut members);
        complete(&mut members);
        let profile = profile_of_layout(layout, members.len());
        let mut array = self.describe(profile, members, notes);
        array.layout = Some(layout);
        array.name = volume_name(&self.name);
        array.condition.remark = is_stale
            .then(|| format!("what is not in sync waits for `lvchange --refresh {}`", array.name));
        // LVM takes commands for no origin of a cache.
        let origin = ["_wcorig", "_corig"].iter().find_map(|it| array.name.strip_suffix(it));
        if let Some(cached) = origin.map(str::to_owned) {
            let first = format!("`lvconvert --splitcache {cached}` first, and attach it again");
            array.notes.push(format!("LVM changes {cached} only without its cache: {first}"));
            array.name = cached;
        }
        let flagged = array.members.iter().filter(|member| member.write_mostly);
        let flagged: Vec<&str> = flagged.filter_map(|member| member.device.as_deref()).collect();
        let settings = match flagged.is_empty() {
            true => Vec::new(),
            false => vec![("write-mostly".to_owned(), flagged.join(" "))],
        };
        array.not_known = not_known;
        array.limit = self.limit(table.limit_kib);
        let text = is_read.then(|| format!("dm raid {}", table.level));
        let rule = if table.level == "raid1" { "md/raid1" } else { "md/raid10" };
        let spec = is_read.then(|| rule.to_owned());
        array.policy = DetectedPolicy { text, spec, settings, offered: Vec::new() };
        let (activity, progress) = activity.unzip();
        array.condition.activity = activity;
        array.condition.progress_percent = progress.flatten();
        Ok(array)
    }

    /// The limit on a rebuild: the volume's own, or that of md on this machine.
    fn limit(&self, own: Option<u64>) -> Option<DetectedLimit> {
        let of_machine = || self.sysroot.number("/proc/sys/dev/raid/speed_limit_max");
        let kib = own.filter(|kib| *kib > 0).or_else(of_machine)?;
        Some(DetectedLimit { kib, is_own: own.is_some() })
    }

    fn raid_layout(&self, table: &RaidTable, images: usize) -> Result<ArrayLayout, DetectError> {
        let found = match table.level.as_str() {
            "raid1" => {
                let layout = fixed_layout("lvm-raid1");
                let checked = layout.check_members(images).map(|()| layout);
                checked.map_err(|error| error.diagnostic().message)
            }
            level if level.starts_with("raid10") => {
                let copies = table.copies.max(2);
                let (near, far) = if table.format.is_empty() || table.format == "near" {
                    (copies, 1)
                } else {
                    (1, copies)
                };
                let layout = Raid10Layout { near, far, is_offset: table.format == "offset" };
                let chunk_bytes = (table.chunk_bytes > 0).then_some(table.chunk_bytes);
                layout.array_layout(images, chunk_bytes)
            }
            level => {
                let what = format!("{} is LVM {level} of {images} images", self.name);
                return Err(no_mirror(
                    what,
                    "read policies choose among the copies of raid1 and raid10",
                ));
            }
        };
        found.map_err(|reason| unreadable(format!("{}: {reason}", self.name), COPIES_HELP))
    }

    /// A mirror of the old target. It reads from its first image.
    fn mirror(&self) -> Result<DetectedArray, DetectError> {
        let mut members = self.images("_mimage_");
        complete(&mut members);
        let mut array = self.of_copies(members, Vec::new())?;
        array.policy.text = Some("dm mirror".to_owned());
        array.policy.spec = Some("mirrorball/first".to_owned());
        Ok(array)
    }

    /// The images of a volume, each on its physical volume.
    fn images(&self, mark: &str) -> Vec<DetectedMember> {
        let slaves = self.device.slaves(self.sysroot);
        let mut members = Vec::new();
        for image in &slaves {
            let Some(index) = image_index(self.sysroot, image, mark) else { continue };
            let (above, volume) = leaf::physical_volume(self.sysroot, image).unzip();
            // Layers are those below a linear image, else those below the image itself.
            let is_linear = above.as_ref() == Some(image);
            let place = if is_linear { volume.as_ref() } else { Some(image) };
            let mut member = read_member(self.sysroot, index.saturating_add(1), place);
            // LVM names members by their physical volumes.
            member.device = volume.as_ref().map(|device| device.device_path(self.sysroot));
            member.kernel_name = volume.as_ref().and_then(|it| it.kernel_name(self.sysroot));
            let on_disk = volume.and_then(|it| leaf::leaf(self.sysroot, &it).begin_bytes);
            let within = above.and_then(|it| self.begin_of(&it));
            member.size_bytes = image.size_bytes(self.sysroot);
            member.begin_bytes = within.zip(on_disk).and_then(|(a, b)| a.checked_add(b));
            members.push(member);
        }
        members.sort_by_key(|member| member.devid);
        members
    }

    /// First byte of a linear device on the device below it.
    fn begin_of(&self, device: &BlockDevice) -> Option<u64> {
        let (name, _) = device.mapper(self.sysroot);
        let text = self.sysroot.tool(&DMSETUP_TABLE).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))?;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [_, _, "linear", _, sectors] => sectors.parse::<u64>().ok()?.checked_mul(512),
            _ => None,
        }
        .filter(|begin| *begin < 1 << 60)
    }

    /// The first line of a tool's output about this device, without its name.
    fn line_of(&self, tool: &Tool) -> Result<String, String> {
        let text = self.sysroot.tool(tool)?;
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{}: ", self.name)));
        let missing = || format!("`{}` does not list {}", tool.command.join(" "), self.name);
        line.map(str::to_owned).ok_or_else(missing)
    }
}

/// The number of an image: 1 of `vg-lv_rimage_1`.
fn image_index(sysroot: &Sysroot, device: &BlockDevice, mark: &str) -> Option<u64> {
    let (name, _) = device.mapper(sysroot);
    name.rsplit_once(mark)?.1.parse().ok()
}

/// `vg/lv` of a name in the device mapper, where hyphens within a name are doubled.
pub(super) fn volume_name(name: &str) -> String {
    let masked = name.replace("--", "\u{0}");
    match masked.split_once('-') {
        Some((group, volume)) => format!("{group}/{volume}").replace('\u{0}', "-"),
        None => name.to_owned(),
    }
}

/// Reads `START LEN raid LEVEL NPARAMS CHUNK [params] NDEVS …`.
fn parse_raid(line: &str) -> Option<RaidTable> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["raid", level, count, rest @ ..] = words.get(2..)? else { return None };
    let parameters = rest.get(..count.parse().ok()?)?;
    let (chunk, mut parameters) = parameters.split_first()?;
    let mut table = RaidTable {
        level: (*level).to_owned(),
        chunk_bytes: chunk.parse::<u64>().ok()?.checked_mul(512)?,
        ..Default::default()
    };
    while let [name, rest @ ..] = parameters {
        parameters = rest;
        let value = rest.first().copied().unwrap_or_default();
        match *name {
            "sync" | "nosync" => continue,
            "write_mostly" => table.write_mostly.extend(value.parse::<u64>().ok()),
            "raid10_copies" => table.copies = value.parse().unwrap_or(0),
            "raid10_format" => table.format = value.to_owned(),
            "max_recovery_rate" => table.limit_kib = value.parse().ok(),
            _ => {}
        }
        parameters = rest.get(1..).unwrap_or_default();
    }
    Some(table)
}

/// Counts the images as failed that are not in sync while nothing rebuilds them: LVM has such ones
/// after a path to them was lost, and waits for a command. Returns whether there are any.
fn fail_stale(members: &mut [DetectedMember]) -> bool {
    let stale = members.iter_mut().filter(|member| member.is_rebuilding);
    let count =
        stale.map(|member| (member.is_rebuilding, member.is_failed) = (false, true)).count();
    count > 0
}

/// Applies `START LEN raid LEVEL NDEVS HEALTH DONE/TOTAL ACTION …` to the members, and returns the
/// work that runs.
fn apply_status(line: &str, members: &mut [DetectedMember]) -> Option<(String, Option<f64>)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["raid", _, _, health, done, rest @ ..] = words.get(2..)? else { return None };
    for member in &mut *members {
        let letter = usize::try_from(member.devid - 1).ok().and_then(|at| health.chars().nth(at));
        (member.state, member.is_failed, member.is_rebuilding) = match letter {
            Some('A') => ("in sync".to_owned(), false, false),
            Some('a') => ("alive, not in sync".to_owned(), false, true),
            Some('D') => ("dead".to_owned(), true, false),
            Some('-') => ("absent".to_owned(), true, false),
            _ => ("not known".to_owned(), member.is_failed, false),
        };
    }
    // In the first resync no image counts as in sync, but all can be read.
    if members.iter().all(|member| member.is_failed || member.is_rebuilding) {
        members.iter_mut().for_each(|member| member.is_rebuilding = false);
    }
    let action = rest.first().filter(|action| **action != "idle")?;
    let progress = done.split_once('/');
    let progress =
        progress.and_then(|(done, total)| percent(done.parse().ok()?, total.parse().ok()?));
    Some(((*action).to_owned(), progress))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_raid_volumes_are_read() {
        let line = "0 409600 raid raid1 8 0 nosync write_mostly 1 write_mostly 0 region_size 4096 \
            2 253:0 253:1 253:2 253:3";
        let table = parse_raid(line).unwrap();
        assert_eq!((table.level.as_str(), table.write_mostly), ("raid1", vec![1, 0]));
        let line = "0 8 raid raid10 7 128 raid10_copies 2 raid10_format far max_recovery_rate 512 \
            4 - - - - - - - -";
        let table = parse_raid(line).unwrap();
        assert_eq!((table.chunk_bytes, table.copies, table.format.as_str()), (65536, 2, "far"));
        assert_eq!(table.limit_kib, Some(512));
        assert_eq!(parse_raid("0 8 raid"), None);
        assert_eq!(parse_raid("0 8 raid raid1 99 0"), None);
    }

    #[test]
    fn in_the_first_resync_of_a_volume_its_images_can_be_read() {
        let sysroot = Sysroot::recorded(std::path::Path::new("/nonexistent"));
        let states = |line: &str| {
            let mut members = [1, 2].map(|devid| read_member(&sysroot, devid, None));
            let (action, percent) = apply_status(line, &mut members).unwrap();
            let rebuilding = members.map(|member| (member.is_failed, member.is_rebuilding));
            (action, percent.unwrap(), rebuilding)
        };
        let resync = states("0 8 raid raid1 2 aa 256/1024 resync 0 0 -");
        assert_eq!(resync, ("resync".to_owned(), 25.0, [(false, false), (false, false)]));
        let recover = states("0 8 raid raid1 2 Aa 256/1024 recover 0 0 -");
        assert_eq!(recover, ("recover".to_owned(), 25.0, [(false, false), (false, true)]));
    }
}
