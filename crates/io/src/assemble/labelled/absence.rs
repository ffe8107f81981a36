//! Members that are missing when the journal is written again.

use super::super::AssembleError;
use super::super::journal::{RecoveryError, labels_before_recovery, needs_absence, recovery};
use super::super::open::Open;
use super::unreadable::JournalReader;
use super::{LabelledError, LabelledOptions, choose, member_address};
use crate::entropy::random_bytes;
use crate::examine::{ExaminedDevice, ExaminedVolume, metadata_from, volumes};
use crate::member::file::MemberAccess;
use mirrorball_core::label::DataId;
use mirrorball_core::label::assembly::FoundMember;
use mirrorball_core::member::MemberIndex;

/// What failed if a label cannot be written.
const WRITING_LABEL: &str = "writing which members are missing to the label of";

/// Records which members are missing, if entries of the journal are to be written or ended without
/// them.
pub(super) fn record_absence(
    volume: ExaminedVolume,
    serving: &LabelledOptions,
    devices: &mut [ExaminedDevice],
    opened: &[Open],
    left_out: &[usize],
) -> Result<ExaminedVolume, LabelledError> {
    let access = serving.options.access;
    if access == MemberAccess::ReadOnly {
        return Ok(volume);
    }
    let assembly = &volume.assembly;
    let device = |member: MemberIndex| {
        let at = assembly.members[member.get()].found.expect("the device was found");
        volume.devices[at]
    };
    let journals = JournalReader::new(&volume, opened, access);
    let read = |member, offset, length| journals.read(device(member), offset, length);
    let recovery = recovery(assembly, read).map_err(AssembleError::from)?;
    if !needs_absence(&recovery, left_out) {
        return Ok(volume);
    }
    let found: Vec<FoundMember> =
        volume.devices.iter().filter_map(|&index| devices[index].found()).collect();
    for index in assembly.members.iter().filter_map(|row| Some(volume.devices[row.found?])) {
        if let Ok(newest) = &devices[index].label {
            opened[index].make_label_durable(newest).map_err(AssembleError::from)?;
        }
    }
    let id = u64::from_le_bytes(random_bytes().map_err(AssembleError::from)?).max(1);
    let writes = labels_before_recovery(assembly, &found, DataId(id));
    if writes.is_empty() {
        return Ok(volume);
    }
    for (member, offset, bytes) in writes {
        let written = opened[device(member)].write(offset, &bytes);
        written.map_err(|error| {
            let device = (member, member_address(&volume, devices, member));
            let error = RecoveryError::new(&assembly.newest, device, WRITING_LABEL, error);
            AssembleError::from(error)
        })?;
    }
    for &index in &volume.devices {
        let metadata = metadata_from(|offset, length| opened[index].read(offset, length));
        devices[index] = ExaminedDevice::new(devices[index].address.clone(), metadata);
    }
    choose(volumes(devices, left_out), serving, devices)
}
