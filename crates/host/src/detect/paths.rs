//! Paths to one device, which dm-multipath and NVMe have in common.

use super::array::{DetectError, DetectedMember};
use super::members::no_mirror;
use mirrorball_disk::array_file::ModelConfidence;

/// A note on every array of paths.
pub(super) const PATHS_NOTE: &str =
    "the members are paths to one device: a simulation has a device for each";

/// Notes which paths stand by.
///
/// # Errors
/// If all but one do: then there is nothing to choose.
pub(super) fn note_standby(
    name: &str,
    serving: usize,
    standing: &[&str],
    why: &str,
    help: &str,
    notes: &mut Vec<String>,
) -> Result<(), DetectError> {
    let count = standing.len();
    if count == 0 {
        return Ok(());
    }
    let s = if serving == 1 { "s" } else { "" };
    let paths = if serving == 1 { "path" } else { "paths" };
    let stand = if count == 1 { "stands" } else { "stand" };
    let text =
        format!("{serving} {paths} serve{s}, {count} {stand} by ({why}): {}", standing.join(", "));
    if serving == 1 {
        return Err(no_mirror(format!("{name}: {text}"), help));
    }
    notes.push(text);
    Ok(())
}

/// Marks the model of a path as guessed, unless the disk behind it is a known one: the speed of a
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
