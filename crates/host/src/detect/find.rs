//! From a path, a device or a name to the array behind it, through the layers between.

use super::array::{DetectError, DetectedArray, DetectedMember};
use super::block::{BlockDevice, mapper_devices};
use super::btrfs::{self, Btrfs};
use super::leaf;
use super::live;
use super::mapper::{Mapped, volume_name};
use super::md::Md;
use super::members::{NO_MIRROR, no_mirror, unreadable};
use super::mounts::{MountEntry, mount_of, mounts};
use super::nvme::NvmePaths;
use super::stack::StackLayer;
use super::sysroot::Sysroot;
use super::zfs;
use mirrorball_core::diagnostic::Diagnostic;
use std::io::ErrorKind;
use std::path::Path;

/// Error of a target without an array.
const WHAT_IS_FOUND: &str = "detect finds btrfs on several devices, md raid1 and raid10, LVM RAID, \
                             device-mapper mirrors and multipath, ZFS mirrors, and NVMe multipath";

/// Every array of the machine, each with the error if it cannot be described. Those that keep no
/// copies are left out.
pub(super) fn all(sysroot: &Sysroot) -> Vec<Result<DetectedArray, DetectError>> {
    let mut found = every(sysroot);
    found.retain(|array| !matches!(array, Err(DetectError::NoArray(_))));
    found
}

/// Storage of the machine that keeps no copies, in words: `md0 is md raid0 of 2 devices`.
pub(super) fn without_copies(sysroot: &Sysroot) -> Vec<String> {
    let found = every(sysroot).into_iter().filter_map(|found| match found {
        Err(DetectError::NoArray(diagnostic)) => Some(diagnostic),
        _ => None,
    });
    let described = |found: Diagnostic| {
        let what = found.message.trim_start_matches(NO_MIRROR).to_owned();
        let help = found.help.filter(|help| help.starts_with("if "));
        help.map_or(what.clone(), |help| format!("{what}; {help}"))
    };
    let found: Vec<String> = found.map(described).collect();
    let names = sysroot.names("/sys/block");
    let devices = names.iter().filter_map(|name| BlockDevice::by_name(sysroot, name));
    let of_md = devices.filter(|device| Md::at(sysroot, device).is_none()).filter_map(|device| {
        let level = device.md_level(sysroot)?;
        let instead = match level.as_str() {
            "raid4" | "raid5" | "raid6" => ", which has parity instead of copies",
            "raid1" => ", which has no second copy",
            _ => "",
        };
        let count = device.slaves(sysroot).len();
        let devices = if count == 1 { "device" } else { "devices" };
        Some(format!("{} is md {level} of {count} {devices}{instead}", device.name))
    });
    [found, of_md.collect()].concat()
}

/// Every array of the machine, each with the error if it cannot be described or keeps no copies.
fn every(sysroot: &Sysroot) -> Vec<Result<DetectedArray, DetectError>> {
    let mut found: Vec<Result<DetectedArray, DetectError>> = Vec::new();
    let btrfs = Btrfs::all(sysroot).into_iter().filter(|btrfs| btrfs.only_device().is_none());
    found.extend(btrfs.map(|btrfs| btrfs.array()));
    let names = sysroot.names("/sys/block");
    let devices = names.iter().filter_map(|name| BlockDevice::by_name(sysroot, name));
    // LVM takes no command for the metadata of a pool.
    let is_hidden = |device: &BlockDevice| {
        let (name, _) = device.mapper(sysroot);
        ["_tmeta", "_cmeta", "_pmspare"].iter().any(|end| name.ends_with(end))
    };
    let devices = devices.filter(|device| !is_hidden(device));
    found.extend(devices.filter_map(|device| mirrored(sysroot, &device)));
    match zfs::pools(sysroot) {
        Ok(pools) => found.extend(pools.iter().map(|pool| pool.array(sysroot))),
        Err(error) => found.push(Err(error)),
    }
    found
}

/// The array behind `target`: a path, a device, or the name of a device, a file system, a volume, a
/// pool or a subsystem.
pub(super) fn behind(sysroot: &Sysroot, target: &str) -> Result<DetectedArray, DetectError> {
    if target.is_empty() {
        let help = "give a mount point or a path on it, a block device, or the name of an array";
        return Err(DetectError::NoArray(Diagnostic::new("the path is missing").with_help(help)));
    }
    let may_be_name =
        !target.contains('/') || (!target.starts_with('/') && !exists(sysroot, target));
    if may_be_name && let Some(found) = by_name(sysroot, target) {
        return found;
    }
    let path = absolute(sysroot, target)?;
    if let Some(device) = device_of(sysroot, &path) {
        return match Btrfs::find(sysroot, &path) {
            Some(btrfs) => of_btrfs(sysroot, target, &btrfs, Vec::new()),
            None => below(sysroot, target, &device, Vec::new()),
        };
    }
    if sysroot.is_live() && live::is_char_device(&path) {
        return Err(unknown(format!("{target} is a character device, not a block device")));
    }
    if !sysroot.is_live() && path.starts_with("/dev/") {
        return Err(unknown(format!("the recorded copy has no block device {path}")));
    }
    let all = mounts(sysroot);
    let Some(mount) = mount_of(&all, &path) else {
        return Err(no_mount(sysroot, &path, &all));
    };
    match mount.kind.as_str() {
        "btrfs" => match Btrfs::find(sysroot, &mount.source) {
            Some(btrfs) => of_btrfs(sysroot, target, &btrfs, Vec::new()),
            None => Err(unknown(format!(
                "{path} is on btrfs {}, which /sys/fs/btrfs does not list",
                mount.source
            ))),
        },
        "zfs" => {
            let name = mount.source.split('/').next().unwrap_or_default();
            pool(sysroot, name).unwrap_or_else(|| {
                Err(unknown(format!("{path} is on ZFS, but `zpool status` does not list {name}")))
            })
        }
        kind => {
            let device = BlockDevice::by_number(sysroot, &mount.device)
                .or_else(|| BlockDevice::by_path(sysroot, &mount.source));
            match device {
                Some(device) => {
                    let layer = StackLayer::plain(mount.point.clone(), kind);
                    below(sysroot, target, &device, vec![layer])
                }
                None => Err(on_no_device(sysroot, &path, mount)),
            }
        }
    }
}

/// The error for a path on a file system that is on no block device.
fn on_no_device(sysroot: &Sysroot, path: &str, mount: &MountEntry) -> DetectError {
    if mount.kind == "bcachefs" {
        let what = format!("{path} is on bcachefs ({}), which is not read", mount.source);
        let help = "describe its devices in an array file, and give that to `mirrorball advise \
                    --system bcachefs`";
        return DetectError::NoArray(Diagnostic::new(what).with_help(help));
    }
    let what =
        format!("{path} is on {} ({}), which is on no block device", mount.kind, mount.source);
    if sysroot.is_live() {
        return unknown(what);
    }
    // Files below mount points are not recorded.
    let help = "a recorded copy does not say which paths exist: give a mount point, a device or \
                the name of an array";
    DetectError::NoArray(Diagnostic::new(what).with_help(help))
}

/// The error for a path without a mount among `all`.
fn no_mount(sysroot: &Sysroot, path: &str, all: &[MountEntry]) -> DetectError {
    let points: Vec<&str> = all.iter().map(|mount| mount.point.as_str()).collect();
    let (what, help) = match (sysroot.is_live(), &points[..]) {
        (true, _) => (
            format!("cannot find the file system of {path}"),
            "/proc/self/mountinfo has no mount of it".to_owned(),
        ),
        (false, []) => (
            format!("the recorded copy has no mount of {path}"),
            "it has no mounts at all: give the name of an array".to_owned(),
        ),
        (false, points) => (
            format!("the recorded copy has no mount of {path}"),
            format!("its mounts are {}", points.join(", ")),
        ),
    };
    DetectError::NoArray(Diagnostic::new(what).with_help(help))
}

fn unknown(what: String) -> DetectError {
    DetectError::NoArray(Diagnostic::new(what).with_help(WHAT_IS_FOUND))
}

/// Returns true if this relative path exists on this machine.
fn exists(sysroot: &Sysroot, target: &str) -> bool {
    sysroot.is_live() && Path::new(target).exists()
}

/// The absolute path without links and dots. In a recorded copy folders below mount points are
/// missing, so paths are taken as they are.
fn absolute(sysroot: &Sysroot, target: &str) -> Result<String, DetectError> {
    let no_path = |reason: &str| {
        let error = Diagnostic::new(format!("cannot detect an array at `{target}`: {reason}"));
        DetectError::NoArray(error.with_help(
            "give a mount point or a path on it, a block device, or the name of an array; \
             `mirrorball detect` lists the arrays, or describes the only one",
        ))
    };
    if !sysroot.is_live() {
        return match target.starts_with('/') {
            true => Ok(target.to_owned()),
            false => Err(no_path("the recorded copy has no array of this name")),
        };
    }
    let path = std::fs::canonicalize(target).map_err(|error| match error.kind() {
        ErrorKind::NotFound if !target.contains('/') => {
            no_path("there is no file and no array of this name")
        }
        ErrorKind::NotFound => no_path("there is no such file"),
        _ => no_path(&error.to_string()),
    })?;
    path.to_str().map(str::to_owned).ok_or_else(|| no_path("the path is not UTF-8"))
}

fn device_of(sysroot: &Sysroot, path: &str) -> Option<BlockDevice> {
    if !sysroot.is_live() {
        return BlockDevice::by_path(sysroot, path);
    }
    BlockDevice::by_number(sysroot, &live::block_number(path)?)
}

/// The array that is called `name`. The label of a btrfs may be the name of another array, too.
fn by_name(sysroot: &Sysroot, name: &str) -> Option<Result<DetectedArray, DetectError>> {
    if let Some(btrfs) = Btrfs::find(sysroot, name) {
        return Some(of_btrfs(sysroot, name, &btrfs, Vec::new()));
    }
    let labelled = Btrfs::labelled(sysroot, name);
    let found = |btrfs: &Btrfs<'_>| of_btrfs(sysroot, name, btrfs, Vec::new());
    let other = by_name_of_system(sysroot, name);
    match (&labelled[..], other) {
        ([], other) => other,
        ([one], None | Some(Err(_))) => Some(found(one)),
        // The btrfs is on the array.
        ([one], Some(Ok(other))) if found(one).is_ok_and(|array| array.is_same(&other)) => {
            Some(found(one))
        }
        (labelled, other) => {
            let mut all: Vec<String> = labelled.iter().map(Btrfs::described).collect();
            let other = other.and_then(Result::ok);
            all.extend(other.map(|it| format!("{} {}", it.system.name(), it.name)));
            let what = format!("{name} stands for several arrays: {}", all.join(", "));
            let help = "give the mount point, a device or the UUID of one of them";
            Some(Err(DetectError::NoArray(Diagnostic::new(what).with_help(help))))
        }
    }
}

/// The array that its storage system, or the kernel, calls `name`.
fn by_name_of_system(sysroot: &Sysroot, name: &str) -> Option<Result<DetectedArray, DetectError>> {
    if name.starts_with("nvme-subsys") {
        return all(sysroot)
            .into_iter()
            .find(|found| found.as_ref().is_ok_and(|array| array.name == name));
    }
    let device = BlockDevice::by_path(sysroot, &format!("/dev/{name}"))
        .or_else(|| mapper_devices(sysroot).find(|device| device.mapper(sysroot).0 == name));
    match device {
        Some(device) => Some(below(sysroot, name, &device, Vec::new())),
        None => volume(sysroot, name).or_else(|| {
            // A data set has the name of its pool in front.
            pool(sysroot, name.split('/').next().unwrap_or_default())
        }),
    }
}

/// The array of the logical volume, or the volume group, that is called `name`.
fn volume(sysroot: &Sysroot, name: &str) -> Option<Result<DetectedArray, DetectError>> {
    let mut found: Vec<(String, DetectedArray)> = Vec::new();
    for device in mapper_devices(sysroot) {
        let (mapped, uuid) = device.mapper(sysroot);
        let full = volume_name(&mapped);
        let is_named = full.split_once('/').is_some_and(|(group, lv)| group == name || lv == name);
        if !uuid.starts_with("LVM-") || !is_named {
            continue;
        }
        // Images of a volume are single devices.
        if let Ok(array) = below(sysroot, name, &device, Vec::new()) {
            found.push((full, array));
        }
    }
    let names: Vec<&str> = found.iter().map(|(full, _)| full.as_str()).collect();
    match &names[..] {
        [] => None,
        [_] => found.pop().map(|(_, array)| Ok(array)),
        names => {
            let what = format!("{name} stands for several volumes: {}", names.join(", "));
            let help = format!("give one of them, such as {}", names[0]);
            Some(Err(DetectError::NoArray(Diagnostic::new(what).with_help(help))))
        }
    }
}

fn pool(sysroot: &Sysroot, name: &str) -> Option<Result<DetectedArray, DetectError>> {
    match zfs::pools(sysroot) {
        Ok(pools) => pools.iter().find(|pool| pool.name == name).map(|pool| pool.array(sysroot)),
        Err(error) => Some(Err(error)),
    }
}

/// A btrfs, or what is below it if it has one device.
fn of_btrfs(
    sysroot: &Sysroot,
    target: &str,
    btrfs: &Btrfs<'_>,
    mut stack: Vec<StackLayer>,
) -> Result<DetectedArray, DetectError> {
    match btrfs.only_device() {
        Some(device) => {
            stack.push(btrfs.layer());
            let mut array = below(sysroot, target, &device, stack)?;
            array.mount = btrfs.mount().map(|mount| mount.point).or(array.mount);
            Ok(array)
        }
        None => btrfs.array(),
    }
}

/// The array of this device, if it chooses among copies or paths.
fn mirrored(sysroot: &Sysroot, device: &BlockDevice) -> Option<Result<DetectedArray, DetectError>> {
    if let Some(md) = Md::at(sysroot, device) {
        return Some(md.array());
    }
    if sysroot.exists(&device.file("md")) && device.md_level(sysroot).is_none() {
        let state = sysroot.text(&device.file("md/array_state")).unwrap_or_default();
        // A device without an array: one that was stopped or never assembled, or a container of
        // arrays, as of Intel's firmware.
        let metadata = sysroot.text(&device.file("md/metadata_version")).unwrap_or_default();
        let is_container =
            metadata.strip_prefix("external:").is_some_and(|it| !it.starts_with('/'));
        if state == "clear" || is_container {
            return None;
        }
        let what = match state.as_str() {
            "inactive" => format!("{}: the array is not running, and has no level", device.name),
            _ => format!("{}: cannot read its level", device.name),
        };
        return Some(Err(unreadable(what, "see `cat /proc/mdstat`; is it being stopped?")));
    }
    if let Some(mapped) = Mapped::at(sysroot, device) {
        return Some(mapped.array());
    }
    NvmePaths::at(sysroot, device).map(|nvme| nvme.array())
}

/// The first mirrored layer from a device downwards. `stack` has the layers between `target` and
/// the device.
fn below(
    sysroot: &Sysroot,
    target: &str,
    device: &BlockDevice,
    mut stack: Vec<StackLayer>,
) -> Result<DetectedArray, DetectError> {
    /// More layers than any stack has.
    const LAYERS_MAX: usize = 32;
    let mut here = device.clone();
    let mut notes = Vec::new();
    while stack.len() < LAYERS_MAX {
        if let Some(found) = mirrored(sysroot, &here) {
            let mut array = found?;
            array.notes.append(&mut notes);
            // The mount is that of the topmost layer.
            let mounted = stack.first().filter(|layer| layer.name.starts_with('/'));
            let mount = mounted.filter(|layer| !layer.name.starts_with("/dev/"));
            array.mount = mount.map(|layer| layer.name.clone()).or(array.mount);
            stack.append(&mut array.stack);
            array.stack = stack;
            return Ok(array);
        }
        let next = leaf::below(sysroot, &here);
        let kind = next.as_ref().and_then(|below| below.kind);
        let kind = kind.map_or_else(|| here.kind(sysroot), str::to_owned);
        stack.push(StackLayer::plain(here.device_path(sysroot), kind));
        if here.is_partition(sysroot) {
            here = here.disk(sysroot);
            continue;
        }
        match next {
            None => break,
            Some(next) if next.is_one_of_several => {
                return among(sysroot, &here, &here.slaves(sysroot));
            }
            Some(next) => {
                let held = "caches the array: the figures are for reads that it does not hold";
                notes.extend(next.cache.map(|it| format!("{} {held}", it.device_path(sysroot))));
                here = next.device;
            }
        }
    }
    let names: Vec<String> =
        stack.iter().map(|layer| format!("{} ({})", layer.name, layer.kind)).collect();
    let error = format!(
        "no mirrored storage below {target}: it is {}{}, which is one device",
        if stack[0].name == target { "" } else { "on " },
        names.join(" on ")
    );
    match with_member(sysroot, device) {
        None if btrfs::is_on(sysroot, device) => Err(DetectError::NoArray(
            Diagnostic::new(format!("{error}; it holds a btrfs that is not mounted"))
                .with_help("mount it, and give the mount point: the kernel shows a btrfs then"),
        )),
        None => Err(unknown(error)),
        Some(name) => {
            let help = format!("it is a member of {name}: give {name}");
            Err(DetectError::NoArray(Diagnostic::new(error).with_help(help)))
        }
    }
}

/// The name of the array of which a device, or a partition of it, is a member.
fn with_member(sysroot: &Sysroot, device: &BlockDevice) -> Option<String> {
    let is_it = |member: &DetectedMember| {
        let disk = member.disk.as_ref().map(|disk| &disk.name);
        member.kernel_name.as_ref() == Some(&device.name) || disk == Some(&device.name)
    };
    let mut arrays = all(sysroot).into_iter().flatten();
    arrays.find(|array| array.members.iter().any(is_it)).map(|array| array.name)
}

/// The error for a layer over several devices that is no mirror itself, naming arrays below it.
fn among(
    sysroot: &Sysroot,
    device: &BlockDevice,
    below: &[BlockDevice],
) -> Result<DetectedArray, DetectError> {
    let is_mirrored = |device: &&BlockDevice| mirrored(sysroot, device).is_some();
    let arrays = below.iter().filter(is_mirrored);
    let arrays: Vec<String> = arrays.map(|array| array.device_path(sysroot)).collect();
    let what = format!(
        "{} ({}) is over {} devices and keeps no copies",
        device.device_path(sysroot),
        device.kind(sysroot),
        below.len()
    );
    match arrays.as_slice() {
        [] => Err(no_mirror(what, WHAT_IS_FOUND)),
        arrays => {
            Err(no_mirror(what, &format!("arrays are below it: detect {}", arrays.join(", or "))))
        }
    }
}
