//! Volumes of storage arrays, whose speed is that of the array and not that of a disk.

use super::array::DetectedMember;
use super::disk::DiskBus;
use super::model_choice::is_volume;
use mirrorball_disk::array_file::ModelConfidence;

/// Marks the model of a volume as guessed, unless the disk behind it is a known one: the speed of a
/// LUN is that of its storage array.
pub(super) fn guess_if_lun(member: &mut DetectedMember) {
    let is_known = member.model.confidence == ModelConfidence::KnownModel;
    let Some(disk) = member.disk.as_ref().filter(|_| !is_known) else { return };
    let names: Vec<&str> =
        [&disk.vendor, &disk.model].into_iter().flatten().map(|it| &**it).collect();
    member.model.confidence = ModelConfidence::Guessed;
    let is_of_controller = is_volume(disk);
    let what = match &*names.join(" ") {
        "" => "a volume of unknown make".to_owned(),
        names if is_of_controller => format!("a volume of a RAID controller ({names})"),
        names => format!("a volume of a storage array ({names})"),
    };
    member.model.reason =
        format!("{what}, whose speed is not known: measure it by `mirrorball probe`");
    let is_flash = disk.rotational == Some(false) || disk.bus == DiskBus::Nvme;
    if !is_flash && !is_of_controller {
        // What the storage says of its volume is no fact about its disks, and few are of one disk.
        "ssd-sata-plp".clone_into(&mut member.model.profile);
    }
}
