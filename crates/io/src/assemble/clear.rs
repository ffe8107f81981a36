//! Removing labels: makes a member, a former member or a spare an ordinary device again.
//!
//! The metadata area is zeroed, from 4 KiB to 1 MiB, and read back. Data are left as they are, and
//! so are checksums at the end of a member, which name the volume that they are of.

use super::AssembleError;
use super::open::{MemberOpener, Open, OpenPurpose};
use super::wipe::clear_metadata;
use crate::device_address::DeviceAddress;
use crate::examine::{DeviceError, label_from, spare_block};
use crate::member::file::OpenOptions;
use mirrorball_core::units::Nanos;
use mirrorball_store::label::BlockError;
use std::io;

/// Why labels cannot be removed.
#[derive(Debug, thiserror::Error)]
pub enum ClearError {
    /// A device cannot be opened, or is in use.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// A device has no label.
    #[error(
        "`{0}` has no label of mirrorball: nothing was written\n  help: give members or spares; \
         `wipefs` removes the metadata of other programs"
    )]
    NoLabel(String),
    /// A device cannot be read or written.
    #[error("cannot remove the label of `{device}`: {error}\n  help: check the device")]
    Failed { device: String, error: io::Error },
    /// A device returns its label after it was overwritten.
    #[error(
        "`{0}` still has a label after it was overwritten\n  help: the device loses writes; do not \
         use it"
    )]
    Left(String),
}

/// Removes the labels of devices. All are opened and checked before the first is written to.
/// Returns what each of them was, in words. Fails if a device has no label, is in use, or cannot be
/// written.
pub fn clear(
    devices: &[DeviceAddress],
    options: OpenOptions,
) -> Result<Vec<(DeviceAddress, String)>, ClearError> {
    if let Some(device) = DeviceAddress::first_repeated(devices) {
        return Err(AssembleError::Twice(device.to_string()).into());
    }
    let opener = MemberOpener::of_devices(OpenPurpose::Clear, options, Nanos::from_secs(30));
    let mut found = Vec::new();
    for device in devices {
        let open = opener.open_source(&device.source(), &mut Vec::new())?;
        let name = device.to_string();
        let what = contents(&open).map_err(|error| failed(device, error))?;
        found.push((device, open, what.ok_or(ClearError::NoLabel(name))?));
    }
    let mut cleared = Vec::new();
    for (device, open, what) in found {
        let written = clear_metadata(&open).and_then(|()| open.flush());
        written.map_err(|error| failed(device, error))?;
        match contents(&open).map_err(|error| failed(device, error))? {
            None => cleared.push((device.clone(), what)),
            Some(_) => return Err(ClearError::Left(device.to_string())),
        }
    }
    Ok(cleared)
}

fn failed(device: &DeviceAddress, error: io::Error) -> ClearError {
    ClearError::Failed { device: device.to_string(), error }
}

/// Contents of a device by its metadata; `None` without a label.
fn contents(open: &Open) -> io::Result<Option<String>> {
    let read = |offset, length| open.read(offset, length);
    if let Some(block) = spare_block(read) {
        return Ok(Some(format!("a spare of the volume `{}`", block.name)));
    }
    match label_from(read) {
        Ok(newest) => {
            let label = &newest.found.label;
            let row = label.row(newest.found.member).map(|row| label.members[row].devid);
            let devid = row.map(|devid| format!("the member with devid {devid}"));
            let what = devid.as_deref().unwrap_or("a former member");
            Ok(Some(format!("{what} of the volume `{}` ({})", label.array.name, label.array.uuid)))
        }
        Err(DeviceError::Label(BlockError::Absent)) => Ok(None),
        Err(DeviceError::Label(error)) => Ok(Some(format!("a device with {error}"))),
        Err(DeviceError::Unreadable(error)) => Err(io::Error::other(error)),
    }
}
