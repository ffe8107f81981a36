//! Parts that all systems share: a member with its disk and its model, mounts, and versions.

use super::array::{DetectError, DetectedMember};
use super::block::{BlockDevice, leaf};
use super::disk::DetectedDisk;
use super::model_choice::choose_model;
use super::mounts::mounts;
use super::sysroot::Sysroot;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_disk::array_file::ModelConfidence;

/// How the message about something without copies begins.
pub(super) const NO_MIRROR: &str = "no mirror: ";

/// A member of this number on a device; `None` for one that is missing.
pub(super) fn read_member(
    sysroot: &Sysroot,
    devid: u64,
    device: Option<&BlockDevice>,
) -> DetectedMember {
    let below = device.map(|device| leaf(sysroot, device));
    let disk = below.as_ref().and_then(|below| below.disk.as_ref());
    let disk = disk.map(|disk| DetectedDisk::read(sysroot, disk));
    DetectedMember {
        devid,
        device: device.map(|device| device.device_path(sysroot)),
        kernel_name: device.map(|device| device.name.clone()),
        size_bytes: device.and_then(|device| device.size_bytes(sysroot)),
        begin_bytes: below.as_ref().and_then(|below| below.begin_bytes),
        state: if device.is_some() { "in sync" } else { "missing" }.to_owned(),
        is_failed: device.is_none(),
        is_rebuilding: false,
        write_mostly: false,
        group: None,
        layers: below.map_or(Vec::new(), |below| below.layers),
        model: choose_model(disk.as_ref()),
        disk,
    }
}

/// Gives members without a disk the model and the size of the first member that has one, so that
/// the array can be simulated as it would be when complete.
pub(super) fn fill_missing(members: &mut [DetectedMember]) {
    let Some(other) = members.iter().find(|member| member.disk.is_some()).cloned() else { return };
    for member in members.iter_mut().filter(|member| member.disk.is_none()) {
        member.model.profile.clone_from(&other.model.profile);
        member.model.confidence = ModelConfidence::Guessed;
        let and_size = if member.size_bytes.is_none() { ", and its size" } else { "" };
        let reason = format!("as devid {}{and_size}: its own disk is not known", other.devid);
        member.model.reason = reason;
        member.size_bytes = member.size_bytes.or(other.size_bytes);
    }
}

/// Notes about members that share a disk: their I/O gets in each other's way, and they fail
/// together.
pub(super) fn shared_disks(members: &[DetectedMember]) -> Vec<String> {
    let mut notes = Vec::new();
    for (index, member) in members.iter().enumerate() {
        let Some(disk) = &member.disk else { continue };
        let same = |other: &&DetectedMember| {
            other.disk.as_ref().is_some_and(|other| other.name == disk.name)
        };
        if let Some(other) = members[..index].iter().find(same) {
            notes.push(format!(
                "devid {} and devid {} are on one disk, {}: they are simulated as two disks",
                other.devid, member.devid, disk.name
            ));
        }
    }
    notes
}

/// Where a block device is mounted.
pub(super) fn mount_point(sysroot: &Sysroot, device: &BlockDevice) -> Option<String> {
    let number = sysroot.text(&device.file("dev"))?;
    mounts(sysroot).into_iter().find(|mount| mount.device == number).map(|mount| mount.point)
}

/// Release of the kernel, such as `6.12.1`.
pub(super) fn kernel_release(sysroot: &Sysroot) -> Option<String> {
    sysroot.text("/proc/sys/kernel/osrelease")
}

/// True if the release of the kernel is `wanted` or later; `None` if it is not known.
pub(super) fn is_kernel_since(sysroot: &Sysroot, wanted: (u32, u32)) -> Option<bool> {
    let release = kernel_release(sysroot)?;
    let mut numbers = release.split(['.', '-', '+']).map(str::parse::<u32>);
    let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some((major, minor) >= wanted)
}

/// The profile whose chunks have this many copies.
pub(super) fn profile_of_copies(copies: usize) -> Option<&'static str> {
    match copies {
        2 => Some("raid1"),
        3 => Some("raid1c3"),
        4 => Some("raid1c4"),
        _ => None,
    }
}

/// The share of `done / total` in percent.
pub(super) fn percent(done: u64, total: u64) -> Option<f64> {
    (total > 0 && done <= total).then(|| (done as f64 / total as f64 * 1000.0).round() / 10.0)
}

/// The error for something that keeps no copies.
pub(super) fn no_mirror(what: impl std::fmt::Display, help: &str) -> DetectError {
    DetectError::NoArray(Diagnostic::new(format!("{NO_MIRROR}{what}")).with_help(help))
}

/// The error for an array of which something cannot be read.
pub(super) fn unreadable(what: impl std::fmt::Display, help: &str) -> DetectError {
    DetectError::Unreadable(Diagnostic::new(what.to_string()).with_help(help))
}
