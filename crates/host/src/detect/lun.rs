//! Volumes of storage arrays, whose speed is that of the array and not that of a disk.

use super::array::DetectedMember;
use mirrorball_disk::array_file::ModelConfidence;

/// Marks the model of a volume as guessed, unless the disk behind it is a known one: the speed of a
/// LUN is that of its storage array.
pub(super) fn guess_if_lun(member: &mut DetectedMember) {
    let is_known = member.model.confidence == ModelConfidence::KnownModel;
    let Some(disk) = member.disk.as_ref().filter(|_| !is_known) else { return };
    let names: Vec<&str> =
        [&disk.vendor, &disk.model].into_iter().flatten().map(|it| &**it).collect();
    member.model.confidence = ModelConfidence::Guessed;
    let of = if names.is_empty() { String::new() } else { format!(" ({})", names.join(" ")) };
    member.model.reason = format!(
        "a volume of a storage array{of}, whose speed is not known: measure it by `mirrorball \
         probe`"
    );
    if disk.rotational == Some(true) {
        // What the storage says of its volume is no fact about its disks.
        "ssd-sata-plp".clone_into(&mut member.model.profile);
    }
}
