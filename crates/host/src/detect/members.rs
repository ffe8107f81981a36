//! Parts that all systems share: a member with its disk and its model, mounts, and versions.

use super::array::{DetectError, DetectedCache, DetectedMember};
use super::block::BlockDevice;
use super::disk::DetectedDisk;
use super::leaf::leaf;
use super::links::{settle_links, shared_link};
use super::lun::guess_if_lun;
use super::model_choice::{choose_model, is_volume};
use super::mounts::mounts;
use super::sysroot::Sysroot;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::geometry::{ArrayLayout, Profile};
use mirrorball_disk::array_file::ModelConfidence;
use mirrorball_disk::profile::ModelProfile;

/// How the message about something without copies begins.
pub(super) const NO_MIRROR: &str = "no mirror: ";

/// A member of this number on a device; `None` for one that is missing.
pub(super) fn read_member(
    sysroot: &Sysroot,
    devid: u64,
    device: Option<&BlockDevice>,
) -> DetectedMember {
    let below = device.map(|device| leaf(sysroot, device)).unwrap_or_default();
    let disk = below.disk.as_ref().map(|disk| DetectedDisk::read(sysroot, disk));
    let cache = |device: &BlockDevice| {
        let disk = DetectedDisk::read(sysroot, &leaf(sysroot, device).disk?);
        let model = choose_model(Some(&disk));
        let size_bytes = device.size_bytes(sysroot);
        Some(DetectedCache { name: device.name.clone(), size_bytes, model })
    };
    let place = below.disk.as_ref().map_or("", BlockDevice::folder);
    let links = ["/session", "/rport-", "/nvme-fabrics/", "/block/nbd", "/rbd"];
    let is_remote = links.iter().any(|it| place.contains(it));
    let is_lun = below.layers.iter().any(|layer| layer.kind == "dm multipath")
        || disk.as_ref().is_some_and(is_volume)
        || is_remote;
    let mut member = DetectedMember {
        devid,
        device: device.map(|device| device.device_path(sysroot)),
        kernel_name: device.and_then(|device| device.kernel_name(sysroot)),
        size_bytes: device.and_then(|device| device.size_bytes(sysroot)),
        begin_bytes: below.begin_bytes,
        state: if device.is_some() { "in sync" } else { "missing" }.to_owned(),
        is_failed: device.is_none(),
        is_rebuilding: false,
        write_mostly: false,
        group: None,
        model: choose_model(disk.as_ref()),
        cache: below.cache.as_ref().and_then(cache),
        link: below.disk.as_ref().and_then(|disk| shared_link(sysroot, disk)),
        errors: None,
        used_bytes: None,
        striped: below.striped,
        is_on_several: below.is_one_of_several,
        layers: below.layers,
        remarks: below.remarks,
        disk,
    };
    let far = "it is reached over a network: a probe shows whether it is farther away than others";
    member.remarks.extend(is_remote.then(|| far.to_owned()));
    if is_lun {
        guess_if_lun(&mut member);
    }
    member
}

/// Gives members without a disk the model and the size of the first member that has one, so that
/// the array can be simulated as it would be when complete; and settles the links of members.
pub(super) fn complete(members: &mut [DetectedMember]) {
    settle_links(members);
    let Some(other) = members.iter().find(|member| member.disk.is_some()).cloned() else { return };
    for member in members.iter_mut().filter(|member| member.disk.is_none()) {
        member.model.profile.clone_from(&other.model.profile);
        member.model.confidence = ModelConfidence::Guessed;
        let and_size = if member.size_bytes.is_none() { ", and its size" } else { "" };
        let reason = format!("as devid {}{and_size}: its own disk is not known", other.devid);
        member.model.reason = reason;
        member.size_bytes = member.size_bytes.or(other.size_bytes);
        member.used_bytes = member.used_bytes.or(other.used_bytes);
    }
}

/// Errors of each kind, with their counts as a tool or the kernel writes them, in words; `None` if
/// there are none.
pub(super) fn counted_errors<'a>(
    counts: impl Iterator<Item = (&'a str, &'a str)>,
) -> Option<String> {
    let is_count = |count: &str| count.starts_with(|it: char| ('1'..='9').contains(&it));
    let counts = counts.filter(|(_, count)| is_count(count));
    let all: Vec<(String, bool)> =
        counts.map(|(kind, count)| (format!("{count} {kind}"), count == "1")).collect();
    let words: Vec<&str> = all.iter().map(|(words, _)| words.as_str()).collect();
    let listed = match &words[..] {
        [] => return None,
        [front @ .., last] if !front.is_empty() => format!("{} and {last}", front.join(", ")),
        [one, ..] => (*one).to_owned(),
    };
    Some(format!("{listed} error{}", if matches!(all[..], [(_, true)]) { "" } else { "s" }))
}

/// Facts of a member's disk that contradict its model name.
fn contradictions(member: &DetectedMember) -> Vec<String> {
    let is_by_name = member.model.confidence == ModelConfidence::KnownModel;
    let profile = is_by_name.then(|| ModelProfile::builtin(&member.model.profile));
    let rotational = profile.and_then(Result::ok).map(|profile| profile.rotational);
    member.disk.as_ref().map_or_else(Vec::new, |disk| disk.contradictions(rotational))
}

/// Notes about the layers below members, each with the members that it is about, and about members
/// that share a disk: their I/O gets in each other's way, and they fail together.
pub(super) fn notes_on(members: &[DetectedMember]) -> Vec<String> {
    let mut notes: Vec<(String, Vec<u64>)> = Vec::new();
    for member in members {
        for remark in member.remarks.iter().cloned().chain(contradictions(member)) {
            match notes.iter_mut().find(|(other, _)| *other == remark) {
                Some((_, devids)) => devids.push(member.devid),
                None => notes.push((remark, vec![member.devid])),
            }
        }
    }
    let about = |(remark, devids): (String, Vec<u64>)| {
        let one_of = |devids: &[u64]| {
            let devids: Vec<String> = devids.iter().map(ToString::to_string).collect();
            devids.join(", ")
        };
        match devids.len() == members.len() {
            true => format!("each member: {remark}"),
            false => format!("devid {}: {remark}", one_of(&devids)),
        }
    };
    let mut notes: Vec<String> = notes.into_iter().map(about).collect();
    for (index, member) in members.iter().enumerate() {
        let Some(disk) = &member.disk else { continue };
        let same = |other: &&DetectedMember| {
            other.disk.as_ref().is_some_and(|other| other.name == disk.name)
        };
        if let Some(other) = members[..index].iter().find(same) {
            let (one, two, name) = (other.devid, member.devid, &disk.name);
            notes.push(match other.is_on_several || member.is_on_several {
                true => {
                    format!("devid {one} and devid {two} may share {name}: look at their layers")
                }
                false => format!(
                    "devid {one} and devid {two} are on one disk, {name}: they share its rate, and \
                     fail together"
                ),
            });
        }
    }
    notes
}

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

/// Advice if there are more copies than can be described.
pub(super) const COPIES_HELP: &str = "arrays of 2 to 16 copies or paths can be described";

/// The profile with this many copies, and the layout if no profile of btrfs has as many. Fails if
/// there are too few or too many; with the reason.
pub(super) fn layout_of_copies(
    copies: usize,
) -> Result<(&'static str, Option<ArrayLayout>), String> {
    let btrfs = [(2, "raid1"), (3, "raid1c3"), (4, "raid1c4")];
    if let Some((_, profile)) = btrfs.iter().find(|(count, _)| *count == copies) {
        return Ok((profile, None));
    }
    let layout: ArrayLayout = "md-raid1".parse().expect("the layout is in the table");
    layout.check_members(copies).map_err(|error| error.diagnostic().message)?;
    Ok((layout.profile(copies).map_or("raid1c4", Profile::name), Some(layout)))
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
