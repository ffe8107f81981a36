//! Makes spares of devices, and recognises them.

use super::create::write_spare;
use super::occupied::occupant;
use super::open::{MemberOpener, OpenPurpose};
use super::wipe::wipe;
use crate::examine::{DeviceError, metadata_from, spare_block};
use crate::member::file::{Occupied, OpenOptions};
use crate::reopen::SpareRequest;
use mirrorball_core::units::format_bytes;
use mirrorball_store::label::{Label, LabelledSpare};
use std::io;

impl MemberOpener {
    /// Makes a spare of a device. Fails if it cannot be opened, is too small for every member, or
    /// contains something that is not given up.
    pub(super) fn prepare(&self, request: &SpareRequest) -> Result<LabelledSpare, String> {
        let SpareRequest { address, occupied, label } = request;
        let options = OpenOptions { occupied: *occupied, ..self.options };
        let opener = MemberOpener::of_devices(OpenPurpose::Replace, options, self.peer_timeout)
            .on(&self.platform);
        let open = opener.open_source(&address.source(), &mut Vec::new());
        let open = open.map_err(|error| error.to_string())?;
        let unfit = |why: String| format!("`{address}` {why}");
        if open.block_bytes() > label.array.block_bytes {
            return Err(unfit(format!(
                "has blocks of {} bytes, and the volume has blocks of {} bytes\n  help: give a \
                 device with smaller blocks",
                open.block_bytes(),
                label.array.block_bytes
            )));
        }
        let size_bytes = open.size_bytes() - open.size_bytes() % open.block_bytes();
        let needed_bytes = label.members.iter().map(|row| row.size_bytes).min().unwrap_or(0);
        if size_bytes < needed_bytes {
            return Err(unfit(format!(
                "has {}, but the smallest member needs {}\n  help: give a larger device",
                format_bytes(size_bytes),
                format_bytes(needed_bytes)
            )));
        }
        let read = |offset, length| open.read(offset, length);
        if let Some(what) = refusal(label, read, || occupant(&open)).map_err(unfit)? {
            if *occupied == Occupied::Refuse {
                return Err(unfit(format!(
                    "contains {what}: nothing was written\n  help: give another device, or \
                     --occupied to destroy what it contains"
                )));
            }
            wipe(&open).map_err(|error| unfit(format!("cannot be written: {error}")))?;
        }
        let spare = write_spare(&self.platform, &open, label, size_bytes);
        spare.map_err(|error| unfit(format!("cannot be written: {error}")))
    }
}

/// Contents of a device that would be lost if it became a spare. Fails if it is a member or a spare
/// of the volume, or cannot be read.
pub(crate) fn refusal(
    label: &Label,
    read: impl Fn(u64, u32) -> io::Result<Vec<u8>>,
    occupant: impl Fn() -> Option<String>,
) -> Result<Option<String>, String> {
    let own = label.array.uuid;
    match metadata_from(&read) {
        Ok(metadata) => {
            let found = &metadata.newest.found;
            match label.row(found.member) {
                Some(row) if found.label.array.uuid == own => {
                    let devid = label.members[row].devid;
                    Err(format!("is the member with devid {devid}"))
                }
                _ => Ok(Some(format!("a member of the volume `{}`", found.label.array.name))),
            }
        }
        Err(DeviceError::Unreadable(error)) => Err(format!("cannot be read: {error}")),
        Err(DeviceError::Label(_)) => match spare_block(&read) {
            Some(block) if block.volume == own => {
                match label.spares.iter().any(|spare| spare.uuid == block.uuid) {
                    true => Err("is a spare of the volume already".to_owned()),
                    false => Ok(None),
                }
            }
            _ => Ok(occupant()),
        },
    }
}
