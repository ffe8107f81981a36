//! Sizes of the devices of a labelled volume: none is used that is smaller than its label says.

use super::super::AssembleError;
use super::super::open::Open;
use super::LabelledError;
use crate::examine::{ExaminedDevice, ExaminedVolume};
use crate::member::file::MemberAccess;
use mirrorball_core::member::MemberState;
use mirrorball_store::label::LabelledMember;
use mirrorball_store::label::assembly::{AssembledMember, MemberStanding};

/// Refuses a device that is smaller than its label says and has current data, or seems an older
/// copy: its records may be in the part that is gone.
///
/// # Errors
/// [`LabelledError::TooSmall`].
pub(super) fn check_sizes(
    volume: &ExaminedVolume,
    devices: &[ExaminedDevice],
    opened: &[Open],
) -> Result<(), LabelledError> {
    let newest = &volume.assembly.newest;
    for (&index, standing) in volume.devices.iter().zip(&volume.assembly.standings) {
        let is_refused = standing.is_current() || *standing == MemberStanding::OldCopy;
        let label = devices[index].label().ok();
        let row = label.and_then(|label| newest.row(label.found.member));
        let Some(row) = row.filter(|_| is_refused) else { continue };
        let LabelledMember { devid, size_bytes: needed_bytes, .. } = newest.members[row];
        let (device, size_bytes) = (devices[index].address.to_string(), opened[index].size_bytes());
        if size_bytes < needed_bytes {
            return Err(LabelledError::TooSmall { device, devid, size_bytes, needed_bytes });
        }
    }
    Ok(())
}

/// The devices of the members, in the order of the label. No power cut takes the labels of those
/// that are written to. One that would be rebuilt and is smaller than its label says is left out.
pub(super) fn rows(
    volume: &mut ExaminedVolume,
    devices: &[ExaminedDevice],
    opened: &mut [Option<Open>],
    access: MemberAccess,
    notes: &mut Vec<String>,
) -> Result<Vec<Option<Open>>, LabelledError> {
    let mut rows = Vec::new();
    let assembly = &mut volume.assembly;
    for (member, row) in assembly.newest.members.iter().zip(&mut assembly.members) {
        let Some(at) = row.found else {
            rows.push(None);
            continue;
        };
        let index = volume.devices[at];
        let open = opened[index].take().expect("a device is one member");
        let LabelledMember { devid, size_bytes: needed_bytes, .. } = *member;
        if open.size_bytes() < needed_bytes {
            notes.push(format!(
                "`{}` has {} bytes, but the member with devid {devid} has {needed_bytes} by its \
                 label: the volume starts without it; `ctl members replace {devid} DEVICE` \
                 rebuilds the member on another device",
                devices[index].address,
                open.size_bytes()
            ));
            *row = AssembledMember { found: None, state: MemberState::Failed, has_diverged: false };
            rows.push(None);
            continue;
        }
        if let (MemberAccess::ReadWrite, Ok(newest)) = (access, devices[index].label()) {
            let device = || devices[index].address.to_string();
            open.make_label_durable(newest)
                .map_err(|error| AssembleError::Device { device: device(), error })?;
        }
        rows.push(Some(open.restricted(needed_bytes)));
    }
    Ok(rows)
}
