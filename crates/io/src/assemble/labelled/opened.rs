//! The devices that a volume may start from, and which of them cannot be used.

use super::{LabelledError, LabelledOptions, no_label, scanned};
use crate::assemble::AssembleError;
use crate::assemble::occupied::occupant;
use crate::assemble::open::{MemberOpener, Open, OpenPurpose};
use crate::device_address::DeviceAddress;
use crate::examine::{DeviceError, ExaminedDevice, ExaminedVolume, metadata_from, spare_block};
use crate::member::file::MemberAccess;
use crate::spares::FoundSpare;
use mirrorball_core::member::MemberState;
use mirrorball_store::label::assembly::AssembledMember;
use mirrorball_store::label::{BlockError, LabelledMember, SpareBlock};
use std::io;

/// Devices that were opened: those with a label, and spares.
pub(super) struct Opened {
    pub(super) devices: Vec<ExaminedDevice>,
    /// For each of the devices, the error if it cannot be written.
    pub(super) opened: Vec<Result<Open, LabelledError>>,
    pub(super) spares: Vec<(FoundSpare, SpareBlock)>,
    /// Devices that cannot be read, and spares that cannot be written.
    pub(super) unusable: Vec<(DeviceAddress, LabelledError)>,
}

/// Opens the devices and reads their labels.
///
/// # Errors
/// If a device is in use, or has no label; but not if an I/O of a device fails.
pub(super) fn open_devices(
    serving: &LabelledOptions,
    notes: &mut Vec<String>,
) -> Result<Opened, LabelledError> {
    let (mut devices, mut opened) = (Vec::new(), Vec::new());
    let (mut spares, mut unusable) = (Vec::new(), Vec::new());
    let purpose = OpenPurpose::ServeDevices;
    let opener = MemberOpener::of_devices(purpose, serving.options, serving.peer_timeout)
        .on(&serving.platform);
    // A scan finds links, too.
    if let Some(device) =
        DeviceAddress::first_repeated(&serving.devices).filter(|_| !serving.is_scan)
    {
        return Err(AssembleError::Twice(device.to_string()).into());
    }
    let addresses = match serving.is_scan {
        true => scanned(serving)?,
        false => serving.devices.clone(),
    };
    let mut unlabelled = None;
    for address in addresses {
        let open = match opener.open_source(&address.source(), notes) {
            Err(error) if error.is_of_device() => {
                unusable.push((address, error.into()));
                continue;
            }
            open => open?,
        };
        // The label may be in a volatile cache, where an update must not rely on it.
        let is_written = serving.options.access == MemberAccess::ReadWrite;
        let flushed = if is_written { open.flush() } else { Ok(()) };
        let flushed = flushed.map_err(|error| device_error(&address, error));
        let read = |offset, length| open.read(offset, length);
        let metadata = metadata_from(read);
        let spare = spare_block(read).filter(|_| matches!(metadata, Err(DeviceError::Label(_))));
        match (metadata, spare, flushed) {
            (Err(error @ DeviceError::Unreadable(_)), _, flushed) => {
                let unreadable = LabelledError::Unreadable { device: address.to_string(), error };
                unusable.push((address, flushed.err().unwrap_or(unreadable)));
            }
            (_, Some(_), Err(error)) => unusable.push((address, error)),
            (_, Some(block), Ok(())) => {
                let (uuid, size_bytes) = (block.uuid, open.size_bytes());
                spares.push((FoundSpare { address, uuid, size_bytes }, block));
            }
            (Err(DeviceError::Label(BlockError::Absent)), None, _) => {
                let contents = occupant(&open);
                unlabelled.get_or_insert((address.to_string(), contents));
            }
            (Err(error), None, _) => {
                return Err(LabelledError::Unreadable { device: address.to_string(), error });
            }
            (metadata, None, flushed) => {
                devices.push(ExaminedDevice::new(address, metadata));
                opened.push(flushed.map(|()| open));
            }
        }
    }
    match unlabelled {
        Some((device, contents)) => Err(no_label(device, contents, &devices)),
        None => Ok(Opened { devices, opened, spares, unusable }),
    }
}

fn device_error(device: &DeviceAddress, error: io::Error) -> LabelledError {
    AssembleError::Device { device: device.to_string(), error }.into()
}

impl Opened {
    /// Leaves out the members whose devices are too small or cannot be written, and makes the
    /// labels of the others durable. Returns true if a member is left out that cannot be written.
    pub(super) fn leave_out(
        &mut self,
        volume: &mut ExaminedVolume,
        access: MemberAccess,
        notes: &mut Vec<String>,
    ) -> bool {
        let mut has_unwritable = false;
        let assembly = &mut volume.assembly;
        for (member, row) in assembly.newest.members.iter().zip(&mut assembly.members) {
            let Some(at) = row.found else { continue };
            let device = &self.devices[volume.devices[at]];
            let opened = &mut self.opened[volume.devices[at]];
            let LabelledMember { devid, size_bytes: needed_bytes, .. } = *member;
            let size_bytes = opened.as_ref().map_or(needed_bytes, Open::size_bytes);
            if size_bytes < needed_bytes {
                notes.push(format!(
                    "`{}` has {size_bytes} bytes, but the member with devid {devid} has \
                     {needed_bytes} by its label: the volume starts without it; `ctl members \
                     replace {devid} DEVICE` rebuilds the member on another device",
                    device.address
                ));
            } else {
                if let (MemberAccess::ReadWrite, Ok(open), Ok(newest)) =
                    (access, &*opened, device.label())
                    && let Err(error) = open.make_label_durable(newest)
                {
                    *opened = Err(device_error(&device.address, error));
                }
                if opened.is_ok() {
                    continue;
                }
                has_unwritable = true;
            }
            *row = AssembledMember { found: None, state: MemberState::Failed, has_diverged: false };
        }
        has_unwritable
    }

    /// Returns true if a device cannot be written, or is smaller than the label of its member says.
    pub(super) fn is_too_small_or_unwritable(&self, index: usize, member: &LabelledMember) -> bool {
        self.opened[index].as_ref().map_or(true, |open| open.size_bytes() < member.size_bytes)
    }

    /// Why devices cannot be used, each on a line without advice.
    pub(super) fn faults(&self) -> impl Iterator<Item = String> {
        let unwritable = self.opened.iter().filter_map(|it| it.as_ref().err());
        let errors = self.unusable.iter().map(|(_, error)| error).chain(unwritable);
        errors.map(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
    }

    /// The same, as the end of a text about missing members.
    pub(super) fn faults_text(&self) -> String {
        self.faults().map(|fault| format!("; {fault}")).collect()
    }
}
