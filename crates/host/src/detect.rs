//! `mirrorball detect`: finds an array and describes it.
//!
//! Reads, and never writes. Everything is read through a [`Sysroot`], so a recorded copy of a
//! machine's files gives the same answer as the machine. What cannot be read without root, or not
//! at all, is named in the notes of the array, and nothing is assumed without one.
//!
//! A path leads to the first layer from the top that chooses among copies or paths: btrfs of
//! several devices, md raid1 and raid10, RAID volumes of LVM, mirrors and multipath of the device
//! mapper, mirrors of ZFS, and NVMe multipath.
//!
//! Non-goal: measuring. A model is chosen by the name of a disk, else by its class.

mod advised;
mod array;
mod block;
mod btrfs;
mod btrfs_device;
#[cfg(unix)]
mod btrfs_ioctl;
mod disk;
mod disk_below;
mod find;
#[cfg(unix)]
mod identity;
mod leaf;
mod links;
#[cfg(unix)]
mod live;
mod lun;
mod mapper;
mod md;
mod members;
mod model_choice;
mod mounts;
#[cfg(not(unix))]
mod no_machine;
mod nvme;
mod pasted;
mod paths;
mod stack;
mod sysroot;
mod toml_text;
mod tools;
mod zfs;

#[cfg(not(unix))]
use no_machine as live;

pub use array::{
    ArrayCondition, DetectError, DetectedArray, DetectedMember, DetectedPolicy, StorageSystem,
};
#[cfg(unix)]
pub(crate) use btrfs_ioctl::{chunks as btrfs_chunks, devices as btrfs_devices};
pub use disk::{DetectedDisk, DiskBus};
pub use disk_below::{DiskBelow, disk_at, disk_below};
#[cfg(unix)]
pub(crate) use identity::{
    Identifiers, array_identifiers, find_md, md_members, member_identities, nvme_identifiers,
};
use mirrorball_disk::array_file::ModelConfidence;
use mirrorball_lab::evaluation::advice::chosen_system::VERSION;
pub(crate) use model_choice::is_made_up;
pub use model_choice::{ModelChoice, model_of_class, model_of_product};
pub use stack::StackLayer;
pub use sysroot::Sysroot;

/// Outputs that describe an array when they are pasted.
const WHAT_TO_PASTE: &str = "paste the output of `cat /proc/mdstat`, `zpool status`, \
                                 `btrfs filesystem show`, `lvs -a -o +devices`, `multipath -ll` or \
                                 `nvme list-subsys`, and that of `lsblk -o NAME,SIZE,ROTA,MODEL`";

/// Help for a text without an array: by its other outputs, else the list of all.
pub fn what_to_paste(sysroot: &Sysroot) -> String {
    sysroot.text(pasted::HELP).unwrap_or_else(|| WHAT_TO_PASTE.to_owned())
}

/// The array behind a path, a block device or a name. Fails if there is none, or it cannot be read.
pub fn detect_at(sysroot: &Sysroot, target: &str) -> Result<DetectedArray, DetectError> {
    find::behind(sysroot, target).map(|array| completed(sysroot, array))
}

/// Every array of the machine, each with the error if it cannot be read.
pub fn detect_all(sysroot: &Sysroot) -> Vec<Result<DetectedArray, DetectError>> {
    let all = find::all(sysroot).into_iter();
    all.map(|found| found.map(|array| completed(sysroot, array))).collect()
}

/// The machine that a pasted text describes: outputs of `/proc/mdstat`, `mdadm`, `lsblk`, `zpool`,
/// `btrfs`, `lvs`, `multipath`, `nvme` and `smartctl`.
pub fn pasted_machine(text: &str) -> Sysroot {
    pasted::tree(text)
}

/// Storage of the machine that keeps no copies, each in words.
pub fn detect_without_copies(sysroot: &Sysroot) -> Vec<String> {
    find::without_copies(sysroot)
}

/// Arrays without those that others lie on, such as the paths of a disk.
pub fn topmost(arrays: Vec<DetectedArray>) -> Vec<DetectedArray> {
    let is_below = |array: &&DetectedArray| arrays.iter().any(|other| other.lies_on(array));
    let below: Vec<String> = arrays.iter().filter(is_below).map(|it| it.name.clone()).collect();
    arrays.into_iter().filter(|array| !below.contains(&array.name)).collect()
}

pub fn file_stem(name: &str) -> String {
    let keep = |it: char| if it.is_alphanumeric() || "-_.".contains(it) { it } else { '-' };
    name.chars().map(keep).collect()
}

/// The array, with its policy in force among those offered, the notes of a pasted text, and one if
/// the version of its system is not known.
fn completed(sysroot: &Sysroot, mut array: DetectedArray) -> DetectedArray {
    array.policy.list_in_force();
    let of_text = sysroot.text(pasted::NOTES).unwrap_or_default();
    array.notes.extend(of_text.lines().map(str::to_owned));
    let is_unknown = |member: &DetectedMember| {
        let of_disk = member.disk.as_ref();
        of_disk.is_some_and(|it| it.rotational.is_none() && it.model.is_none())
            && member.model.confidence == ModelConfidence::Guessed
    };
    if sysroot.is_pasted() && !array.has_paths() && array.members.iter().any(is_unknown) {
        // The flag says which are the slow ones.
        let has_flags = array.members.iter().any(|member| member.write_mostly);
        let fast = |member: &&mut DetectedMember| !member.write_mostly && is_unknown(member);
        for member in array.members.iter_mut().filter(fast).filter(|_| has_flags) {
            model_of_class(false).clone_into(&mut member.model.profile);
            member.model.reason += ", and others are write-mostly";
        }
        let (known, unknown): (Vec<_>, Vec<_>) =
            array.members.iter().partition(|member| !is_unknown(member));
        let devids: Vec<String> = unknown.iter().map(|it| it.devid.to_string()).collect();
        let disks = match (known.len(), devids.len()) {
            (0, _) => "what disks these are".to_owned(),
            (_, 1) => format!("what disk devid {} is", devids[0]),
            _ => format!("what disks the devids {} are", devids.join(", ")),
        };
        array.add_not_known(
            "what disks these are (`lsblk -o NAME,SIZE,ROTA,MODEL` says it)",
            format!(
                "the text does not say {disks}: paste the output of `lsblk -o \
                 NAME,SIZE,ROTA,MODEL`, too"
            ),
        );
    }
    if array.version.is_none() {
        let note = format!("{VERSION} is not known: its newest rules are used");
        array.add_not_known(VERSION, note);
    }
    array
}

#[cfg(test)]
fn detect_pasted(text: &str) -> Vec<Result<DetectedArray, DetectError>> {
    detect_all(&pasted_machine(text))
}

#[cfg(test)]
mod command_tests;
#[cfg(test)]
mod owner_tests;
#[cfg(test)]
mod tests;
