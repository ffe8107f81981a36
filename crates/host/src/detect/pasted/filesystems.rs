//! File systems of btrfs: `filesystem show`, `df` and `usage`, `device usage` and `device stats`.

use super::super::sysroot::{TreeEntry, base_name};
use super::blocks;
use super::text::size_of;
use super::tree::{Tree, mapping_name};
use mirrorball_core::units::MIB;
use serde_json::Value;
use std::collections::BTreeMap;

/// A file system as far as the text says what it is.
#[derive(Default)]
struct FileSystem {
    fsid: Option<String>,
    label: Option<String>,
    /// Bytes of the file system, with copies counted once.
    used_bytes: Option<u64>,
    devices: BTreeMap<u64, FileSystemDevice>,
    /// Profiles of the data and of the metadata, with their sizes, and what these hold.
    profiles: Vec<(&'static str, String, u64, Option<u64>)>,
    /// The device of another file system on which it stands.
    seed: Option<String>,
}

impl FileSystem {
    /// Bytes of the devices that chunks have.
    fn on_devices(&self) -> u64 {
        let used = self.devices.values().map(|device| device.used_bytes);
        used.fold(0, u64::saturating_add)
    }

    /// The devices but for the target of a replace, which has devid 0.
    fn members(&self) -> impl Iterator<Item = &FileSystemDevice> {
        self.devices.iter().filter(|(devid, _)| **devid > 0).map(|(_, device)| device)
    }
}

#[derive(Default)]
struct FileSystemDevice {
    path: String,
    size_bytes: u64,
    used_bytes: u64,
    is_missing: bool,
}

/// A device that is gone, as `usage` writes it.
const MISSING: &str = "missing";

/// All outputs of `btrfs` of a text. Those without a UUID are about the file system before them.
pub(super) fn read_btrfs(tree: &mut Tree, lines: &[&str]) {
    let one_word = |line: &&str| line.replace("<missing disk>", MISSING);
    let lines: Vec<String> = lines.iter().map(one_word).collect();
    let lines: &[&str] = &lines.iter().map(String::as_str).collect::<Vec<&str>>();
    let mut all = shown(tree, lines);
    if all.is_empty() {
        all = listed(lines);
    }
    let mut usage = used(lines);
    let profiles = profiles(lines);
    if let Some(table) = table(lines) {
        usage = table;
    }
    let is_nothing = usage.devices.is_empty() && all.is_empty();
    if is_nothing {
        usage = with_errors_counted(lines);
        if !usage.devices.is_empty() && profiles.is_empty() && usage.profiles.is_empty() {
            let note = "the text has devices of a btrfs without their sizes: guessed";
            tree.note(note.to_owned());
        }
    }
    if all.is_empty() && !usage.devices.is_empty() {
        all.push(std::mem::take(&mut usage));
    } else if let [only] = all.as_mut_slice() {
        let count = |it: &FileSystem| it.devices.len();
        if count(&usage) > 0 && count(only) != count(&usage) {
            tree.note(format!(
                "the text contradicts itself: the btrfs has {} devices in one part and {} in \
                 another; the first is taken",
                count(only),
                count(&usage)
            ));
        }
        only.profiles.append(&mut usage.profiles);
    }
    let lost = lines.iter().find_map(|line| line.trim().strip_prefix("Device missing:"));
    let lost = lost.map(str::trim).filter(|it| size_of(it).is_some_and(|bytes| bytes > 0));
    let is_known = all.iter().flat_map(|it| it.devices.values()).any(|device| device.is_missing);
    if let Some(size) = lost.filter(|_| !is_known) {
        tree.note(format!(
            "{size} of the btrfs are on a device that is missing: `btrfs filesystem show` says \
             which"
        ));
    }
    let count = all.len();
    let alone = |it: &FileSystem| {
        let (devid, device) = it.devices.first_key_value().filter(|_| it.devices.len() == 1)?;
        Some((it.fsid.clone()?, *devid, device.path.clone()))
    };
    let seeds: Vec<(String, u64, String)> = all.iter().filter_map(alone).collect();
    for (index, mut file_system) in all.into_iter().enumerate() {
        let is_of = |(fsid, devid, path): &&(String, u64, String)| {
            let own = file_system.devices.get(devid).filter(|_| file_system.devices.len() > 1);
            file_system.fsid.as_ref().is_some_and(|own| own != fsid)
                && own.is_some_and(|own| own.path == *path)
        };
        file_system.seed = seeds.iter().find(is_of).map(|(.., path)| path.clone());
        // Of several file systems it is one that has room for these data.
        let data = profiles.iter().filter(|(kind, ..)| *kind == "data");
        let bytes = data.fold(0_u64, |sum, it| sum.saturating_add(it.2));
        let has_all = file_system.devices.values().all(|device| !device.is_missing);
        let has_room = count == 1 || !has_all || file_system.on_devices() >= bytes;
        if file_system.profiles.is_empty() && has_room {
            file_system.profiles.clone_from(&profiles);
        }
        write(tree, index, &file_system);
    }
}

/// `btrfs filesystem show`: `Label: … uuid: …`, and a line for each devid.
fn shown(tree: &mut Tree, lines: &[&str]) -> Vec<FileSystem> {
    let text = lines.join(" ");
    let mut all: Vec<FileSystem> = Vec::new();
    for part in text.split("Label: ").skip(1) {
        let Some((label, rest)) = part.split_once("uuid: ") else { continue };
        let label = label.trim().trim_matches(['\'', '"']).to_owned();
        let words: Vec<&str> = rest.split_whitespace().collect();
        // Some hide the UUID.
        let fsid = words.first().filter(|it| it.contains('-'));
        let mut found = FileSystem {
            fsid: fsid.map(|it| (*it).to_owned()),
            label: Some(label.clone()).filter(|label| label != "none" && !label.is_empty()),
            used_bytes: after(&words, "bytes", 2).and_then(size_of),
            ..FileSystem::default()
        };
        // The kernel has other lines with this word.
        let is_device = |at: &usize| words[*at] == "devid" && words.get(at + 2) == Some(&"size");
        for at in (0..words.len()).filter(is_device) {
            let own = &words[at..words.len().min(at + 12)];
            let Some(devid) = own.get(1).and_then(|it| it.parse().ok()) else { continue };
            let bytes = |key: &str| after(own, key, 1).and_then(size_of).unwrap_or(0);
            let path = after(own, "path", 1).unwrap_or_default().to_owned();
            let is_missing = path.starts_with('<')
                || path == "MISSING"
                || own.get(8).is_some_and(|it| it.contains("MISSING"));
            found.devices.insert(
                devid,
                FileSystemDevice {
                    size_bytes: bytes("size"),
                    used_bytes: bytes("used"),
                    path,
                    is_missing,
                },
            );
        }
        if let Some(before) = all.iter().find(|it| it.fsid.is_some() && it.fsid == found.fsid) {
            if before.devices.len() != found.devices.len() {
                let what = "the text contradicts itself: a btrfs has other devices in another part";
                tree.note(format!("{what}; the first is taken"));
            }
            continue;
        }
        // A line with a warning stands for devices that are gone.
        let total = after(&words, "devices", 1).and_then(|it| it.parse::<u64>().ok()).unwrap_or(0);
        let count = found.devices.len() as u64;
        if count < total && !rest.contains("Some devices missing") {
            tree.note(format!(
                "the text shows {count} of the {total} devices of {}: the others are taken for \
                 missing; is the end of the text lost?",
                found.fsid.as_deref().unwrap_or(&label)
            ));
        }
        for devid in 1..=total.min(64) {
            if (found.devices.len() as u64) < total {
                let gone = FileSystemDevice { is_missing: true, ..FileSystemDevice::default() };
                found.devices.entry(devid).or_insert(gone);
            }
        }
        all.push(found);
    }
    all.retain(|found| !found.devices.is_empty());
    all
}

/// File systems of several devices that `lsblk -f` shows.
fn listed(lines: &[&str]) -> Vec<FileSystem> {
    let device = |(path, size_bytes): (String, u64)| FileSystemDevice {
        path,
        size_bytes,
        ..FileSystemDevice::default()
    };
    let found = blocks::btrfs_devices(lines).into_iter();
    let found = found.map(|(fsid, (label, devices))| FileSystem {
        fsid: Some(fsid),
        label: Some(label).filter(|label| !label.is_empty()),
        devices: (1..).zip(devices.into_iter().map(device)).collect(),
        ..FileSystem::default()
    });
    found.collect()
}

/// The word `by` places behind another.
fn after<'a>(words: &[&'a str], key: &str, by: usize) -> Option<&'a str> {
    let at = words.iter().position(|word| *word == key)?;
    words.get(at + by).copied()
}

/// `Data,RAID1: Size:…` of `usage`, `Data, RAID1: total=…` of `df`.
fn profiles(lines: &[&str]) -> Vec<(&'static str, String, u64, Option<u64>)> {
    let mut found: Vec<(&str, String, u64, Option<u64>)> = Vec::new();
    for line in lines {
        let line = line.trim();
        let kinds = [("Data", "data"), ("Metadata", "metadata")];
        let Some((rest, kind)) =
            kinds.iter().find_map(|(word, kind)| Some((line.strip_prefix(word)?, *kind)))
        else {
            continue;
        };
        let Some((profile, rest)) = rest.strip_prefix(',').and_then(|it| it.split_once(':')) else {
            continue;
        };
        // `RAID6/5` is on five devices.
        let profile = profile.trim().split('/').next().unwrap_or_default().to_lowercase();
        let words: Vec<&str> =
            rest.split([' ', '=', ':', ',']).filter(|word| !word.is_empty()).collect();
        let size = ["total", "Size"].iter().find_map(|key| after(&words, key, 1));
        let size = size.or(words.first().copied()).and_then(size_of).unwrap_or(1);
        if !profile.is_empty() && profile.bytes().all(|it| it.is_ascii_alphanumeric()) {
            let used = ["used", "Used"].iter().find_map(|key| after(&words, key, 1));
            found.push((kind, profile, size, used.and_then(size_of)));
        }
    }
    found
}

/// `btrfs filesystem usage` and `device usage`: what each device has of each kind of chunks.
fn used(lines: &[&str]) -> FileSystem {
    let mut found = FileSystem { profiles: profiles(lines), ..FileSystem::default() };
    let mut all: Vec<DeviceUsage> = Vec::new();
    // The kind of chunks whose devices are listed, or the device whose chunks are.
    let mut of = None::<&str>;
    let mut device = None::<String>;
    let mut listed: Vec<&str> = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [first, .., "ID:", devid] => {
                let mut path = first.trim_end_matches(',').to_owned();
                if path == MISSING {
                    // Several may be gone.
                    path = format!("{MISSING} {devid}");
                }
                usage_of(&mut all, &path).devid = devid.parse().ok();
                device = Some(path);
            }
            ["Device", "size:", bytes, ..] => {
                // One that is gone has no size.
                if let (Some(path), Some(0)) = (&device, size_of(bytes)) {
                    usage_of(&mut all, path).is_missing = true;
                }
            }
            [kind, bytes] if device.is_some() && is_kind(kind) => {
                if let (Some(path), Some(bytes)) = (&device, size_of(bytes)) {
                    usage_of(&mut all, path).add(bytes, kind.starts_with("Unallocated"));
                }
            }
            [path, bytes] if of.is_some() && (path.starts_with("/dev/") || *path == MISSING) => {
                if let Some(bytes) = size_of(bytes) {
                    let is_free = of == Some("Unallocated:");
                    usage_of(&mut all, path).add(bytes, is_free);
                    // Only this part lists all devices, in the order of their devids.
                    if is_free && !listed.contains(path) {
                        listed.push(path);
                    }
                }
            }
            [kind, ..] if is_kind(kind) => of = Some(*kind),
            _ => {}
        }
    }
    all.sort_by_key(|own| listed.iter().position(|it| *it == own.path).unwrap_or(usize::MAX));
    for (number, own) in (1..).zip(all) {
        // A number may be cut at the end of a text, and the lists before it lost at its begin.
        let size_bytes = own.free_bytes.map(|free| own.used_bytes.saturating_add(free));
        let device = FileSystemDevice {
            size_bytes: size_bytes.filter(|it| *it >= 64 * MIB).unwrap_or(0),
            used_bytes: own.used_bytes,
            is_missing: own.is_missing || own.path.starts_with(MISSING),
            path: own.path,
        };
        found.devices.insert(own.devid.unwrap_or(number), device);
    }
    found
}

/// Chunks of a device, and its free space if the text says it.
#[derive(Default)]
struct DeviceUsage {
    path: String,
    devid: Option<u64>,
    used_bytes: u64,
    free_bytes: Option<u64>,
    is_missing: bool,
}

impl DeviceUsage {
    fn add(&mut self, bytes: u64, is_free: bool) {
        match is_free {
            true => self.free_bytes = Some(self.free_bytes.unwrap_or(0).saturating_add(bytes)),
            false => self.used_bytes = self.used_bytes.saturating_add(bytes),
        }
    }
}

fn usage_of<'a>(all: &'a mut Vec<DeviceUsage>, path: &str) -> &'a mut DeviceUsage {
    let at = all.iter().position(|own| own.path == path).unwrap_or_else(|| {
        all.push(DeviceUsage { path: path.to_owned(), ..DeviceUsage::default() });
        all.len() - 1
    });
    &mut all[at]
}

fn is_kind(word: &str) -> bool {
    ["Data,", "Metadata,", "System,", "Unallocated:"].iter().any(|kind| word.starts_with(kind))
}

/// `btrfs filesystem usage -T`: a row for each device, and the profiles in the second heading.
fn table(lines: &[&str]) -> Option<FileSystem> {
    let at = lines.iter().position(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(words.as_slice(), ["Id", "Path", ..])
    })?;
    let heading: Vec<&str> = lines[at].split_whitespace().collect();
    let kinds: Vec<&str> = lines.get(at.checked_sub(1)?)?.split_whitespace().collect();
    let mut found = FileSystem::default();
    for (kind, profile) in kinds.iter().zip(&heading[2..]) {
        let kind = match *kind {
            "Data" => "data",
            "Metadata" => "metadata",
            _ => continue,
        };
        found.profiles.push((kind, profile.to_lowercase(), 1, None));
    }
    for line in &lines[at + 1..] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [devid, path, sizes @ ..] = words.as_slice() else { continue };
        let is_missing = *path == MISSING;
        let is_device = path.starts_with("/dev/") || is_missing;
        let (Ok(devid), true) = (devid.parse(), is_device) else { continue };
        let sizes: Vec<u64> = sizes.iter().map(|it| size_of(it).unwrap_or(0)).collect();
        let chunks: u64 = sizes.iter().take(kinds.len()).fold(0, |sum, it| sum.saturating_add(*it));
        let free = sizes.get(kinds.len()).copied().unwrap_or(0);
        found.devices.insert(
            devid,
            FileSystemDevice {
                path: (*path).to_owned(),
                size_bytes: chunks.saturating_add(free),
                used_bytes: chunks,
                is_missing,
            },
        );
    }
    (!found.devices.is_empty()).then_some(found)
}

/// `btrfs device stats`, a line for each counter: `[/dev/sda].write_io_errs    0`.
fn counted<'a>(lines: impl Iterator<Item = &'a str>) -> impl Iterator<Item = (&'a str, &'a str)> {
    lines.filter_map(|line| line.trim().strip_prefix('[')?.split_once("]."))
}

fn with_errors_counted(lines: &[&str]) -> FileSystem {
    let mut found = FileSystem::default();
    for (path, _) in counted(lines.iter().copied()).filter(|(path, _)| path.starts_with("/dev/")) {
        if found.devices.values().all(|device| device.path != path) {
            let devid = found.devices.len() as u64 + 1;
            let device = FileSystemDevice { path: path.to_owned(), ..FileSystemDevice::default() };
            found.devices.insert(devid, device);
        }
    }
    found
}

/// The output of `btrfs device stats`, as text or from JSON.
const STATS: &str = "/tools/btrfs-device-stats";

/// Keeps the errors that devices have had.
pub(super) fn read_errors(tree: &mut Tree, lines: &[&str]) {
    for (path, counter) in counted(lines.iter().copied()) {
        let counter = counter.split_whitespace().collect::<Vec<_>>().join(" ");
        tree.append(STATS, &format!("[{path}].{counter}\n"));
    }
}

/// The file of the kernel with the errors of a device, if the text has them.
fn errors_of(tree: &Tree, path: &str) -> Option<String> {
    let TreeEntry::Text(text) = tree.files.get(STATS)? else { return None };
    let all = counted(text.lines());
    let own: Vec<&str> = all.filter(|(of, _)| *of == path).map(|(_, counter)| counter).collect();
    (!own.is_empty()).then(|| own.join("\n"))
}

/// `btrfs --format json filesystem df` and `device stats`.
pub(super) fn read_json(tree: &mut Tree, value: &Value) {
    let stats = value.get("device-stats").and_then(Value::as_array).into_iter().flatten();
    for device in stats.filter_map(Value::as_object) {
        let Some(path) = device.get("device").and_then(Value::as_str) else { continue };
        for (name, count) in device.iter().filter(|(name, _)| name.ends_with("_errs")) {
            let count = count.to_string();
            read_errors(tree, &[&format!("[{path}].{name} {}", count.trim_matches('"'))]);
        }
    }
}

/// Before the number of a file system whose UUID the text does not say.
pub(in super::super) const MADE_UP_FSID: &str = "pasted-btrfs-";

fn write(tree: &mut Tree, index: usize, found: &FileSystem) {
    let made_up = format!("{MADE_UP_FSID}{index}");
    let fsid = found.fsid.as_ref().unwrap_or(&made_up);
    let folder = format!("/sys/fs/btrfs/{fsid}");
    // What btrfs sets.
    tree.add(format!("{folder}/bdi/read_ahead_kb"), "4096");
    if let Some(label) = &found.label {
        tree.add(format!("{folder}/label"), label.clone());
    }
    if found.devices.contains_key(&0) {
        tree.add(format!("{folder}/devinfo/0/replace_target"), "1");
        tree.add(format!("{folder}/exclusive_operation"), "device replace");
    }
    let name = found.label.as_ref().unwrap_or(fsid);
    if found.devices.len() > 1 && found.profiles.iter().all(|(kind, ..)| *kind != "data") {
        // With two copies the devices hold twice what the file system does, or a little less in
        // round numbers.
        let holds_twice = |bytes: u64| found.on_devices() as f64 >= 1.9 * bytes as f64;
        let has_copies = found.members().any(|device| device.is_missing)
            || found.members().count() > 1 && found.used_bytes.is_none_or(holds_twice);
        let profile = if has_copies && found.seed.is_none() { "raid1" } else { "single" };
        if let Some(seed) = &found.seed {
            tree.note(format!(
                "{seed} is a file system of its own, too: a seed device, which {name} reads and \
                 does not write"
            ));
        }
        tree.note(format!(
            "the text has no profile of the data of {name}: taken for {profile}; `btrfs \
             filesystem df` says it"
        ));
        for kind in ["data", "metadata"] {
            tree.add(format!("{folder}/allocation/{kind}/{profile}/total_bytes"), "1");
        }
    }
    for (kind, profile, bytes, used) in &found.profiles {
        let profile = format!("{folder}/allocation/{kind}/{profile}");
        tree.add(format!("{profile}/total_bytes"), bytes.to_string());
        if let Some(used) = used {
            tree.add(format!("{profile}/used_bytes"), used.to_string());
        }
    }
    let used = found.used_bytes.unwrap_or(0);
    let mut show = format!("Label: none  uuid: {fsid}\n\tTotal devices 0 FS bytes used {used}\n");
    for (devid, device) in &found.devices {
        let FileSystemDevice { path, size_bytes, used_bytes, .. } = device;
        let missing = u8::from(device.is_missing).to_string();
        tree.add(format!("{folder}/devinfo/{devid}/missing"), missing);
        if device.is_missing {
            continue;
        }
        if let Some(errors) = errors_of(tree, path) {
            tree.add(format!("{folder}/devinfo/{devid}/error_stats"), errors);
        }
        show += &format!("\tdevid {devid} size {size_bytes} used {used_bytes} path {path}\n");
        let mapped = path.strip_prefix("/dev/mapper/").map(mapping_name);
        let name = mapped.unwrap_or_else(|| base_name(path).to_owned());
        let block = tree.device(&name);
        tree.link(format!("{folder}/devices/{}", tree.kernel_name(&name)), block);
    }
    tree.append("/tools/btrfs-filesystem-show", &show);
}
