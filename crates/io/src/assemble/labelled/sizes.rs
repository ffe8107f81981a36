//! Sizes of the devices of a labelled volume: none is used that is smaller than its label says.

use super::{LabelledError, Opened};
use crate::examine::ExaminedVolume;
use mirrorball_store::label::LabelledMember;
use mirrorball_store::label::assembly::MemberStanding;

/// Refuses a device that is smaller than its label says and has current data, or seems an older
/// copy: its records may be in the part that is gone.
///
/// # Errors
/// [`LabelledError::TooSmall`].
pub(super) fn check_sizes(
    volume: &ExaminedVolume,
    Opened { devices, opened, .. }: &Opened,
) -> Result<(), LabelledError> {
    let newest = &volume.assembly.newest;
    for (&index, standing) in volume.devices.iter().zip(&volume.assembly.standings) {
        let is_refused = standing.is_current() || *standing == MemberStanding::OldCopy;
        let label = devices[index].label().ok();
        let row = label.and_then(|label| newest.row(label.found.member));
        let Some(row) = row.filter(|_| is_refused) else { continue };
        let LabelledMember { devid, size_bytes: needed_bytes, .. } = newest.members[row];
        let Ok(open) = &opened[index] else { continue };
        let (device, size_bytes) = (devices[index].address.to_string(), open.size_bytes());
        if size_bytes < needed_bytes {
            return Err(LabelledError::TooSmall { device, devid, size_bytes, needed_bytes });
        }
    }
    Ok(())
}
