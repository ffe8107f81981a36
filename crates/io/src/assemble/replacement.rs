//! Opens a device that takes the place of a member of a running volume, or the same one again: what
//! it may hold, and how that is removed.

use super::AssembleError;
use super::create::write_spare;
use super::occupied::occupant;
use super::open::{MemberOpener, Open, OpenPurpose};
use super::wipe::{clear_metadata, wipe};
use crate::conditions::diverged_help;
use crate::device_address::DeviceAddress;
use crate::examine::{DeviceError, metadata_from, spare_block};
use crate::member::file::{Occupied, OpenError, OpenOptions};
use crate::reopen::{MemberPlace, OpenMember, OpenRequest, OpenedMember, SpareRequest};
use mirrorball_core::member::MemberIndex;
use mirrorball_store::label::assembly::FoundMember;
use mirrorball_store::label::{Label, LabelledSpare, OwnData, SpareBlock, Uuid, own_data};
use std::io;

impl MemberOpener {
    /// Opens a member of a running volume again. Fails if it cannot be opened, or cannot take the
    /// place of what it was.
    fn open_replacement(
        &self,
        request: &OpenRequest,
        notes: &mut Vec<String>,
    ) -> Result<OpenedMember, AssembleError> {
        let OpenRequest { size_bytes, .. } = request;
        let (open, name) = self.open_again_at(request, notes)?;
        let unfit = |what| AssembleError::Unfit { place: name.clone(), what };
        let has_bytes = open.size_bytes() - open.size_bytes() % open.block_bytes();
        if has_bytes < *size_bytes {
            let is_file = matches!(&open, Open::Real(real) if real.is_file);
            let help = match (is_file, self.other_device(request)) {
                (true, Some(other)) => {
                    format!("enlarge it: `truncate -s {size_bytes} {name}`{other}")
                }
                (true, None) => format!(
                    "give a larger device, or enlarge the file: `truncate -s {size_bytes} {name}`"
                ),
                (false, other) => format!("give a larger device{}", other.unwrap_or_default()),
            };
            return Err(unfit(format!(
                "has {has_bytes} bytes, but the member needs {size_bytes}\n  help: {help}"
            )));
        }
        if open.block_bytes() > self.block_bytes {
            let (block, unit) = (open.block_bytes(), self.block_bytes);
            return Err(unfit(format!(
                "has blocks of {block} bytes, but the clients of the volume use blocks of {unit} \
                 bytes"
            )));
        }
        // The label may be in a volatile cache, where an update must not rely on it.
        let failed = |error| AssembleError::Device { device: name.clone(), error };
        open.flush().map_err(failed)?;
        let read = |offset, length| open.read(offset, length);
        let found = check(request, read, || occupant(&open)).map_err(unfit)?;
        match &found {
            Some(found) => open.make_label_durable(&found.newest),
            None => clear(request, &open),
        }
        .map_err(failed)?;
        let is_recorded = request.is_copied && matches!(request.place, MemberPlace::New(..));
        let label = request.label.as_ref().filter(|_| is_recorded && matches!(open, Open::Real(_)));
        let spare = label.map(|label| write_spare(&self.platform, &open, label, has_bytes));
        let spare = spare.transpose().map_err(failed)?;
        let source = open.restricted(*size_bytes).source();
        Ok(OpenedMember { source, found, spare, notes: Vec::new() })
    }

    /// Opens what is at the place of a member; returns its path or URI, too.
    fn open_again_at(
        &self,
        request: &OpenRequest,
        notes: &mut Vec<String>,
    ) -> Result<(Open, String), AssembleError> {
        let (opened, name) = match &request.place {
            MemberPlace::Original => {
                let opened = self.open(request.member, notes).map(|(_, open)| open);
                (opened, self.place(request.member))
            }
            MemberPlace::Moved(address) | MemberPlace::Renamed(address) => {
                (self.open_source(&address.source(), notes), address.to_string())
            }
            MemberPlace::New(address, occupied) => {
                let options = OpenOptions { occupied: *occupied, ..self.options };
                let purpose = OpenPurpose::Replace;
                let opener = MemberOpener::of_devices(purpose, options, self.peer_timeout)
                    .on(&self.platform);
                return Ok((opener.open_source(&address.source(), notes)?, address.to_string()));
            }
            MemberPlace::Spare(address, _) => {
                (self.open_source(&address.source(), notes), address.to_string())
            }
        };
        let other = self.other_device(request).unwrap_or_default();
        let opened = opened.map_err(|error| match error {
            AssembleError::Open { error: error @ OpenError::Missing(_), .. } => {
                let size_bytes = request.size_bytes;
                let help = format!(
                    "\n  help: connect the device, or create a file: `truncate -s {size_bytes} \
                     {name}`{other}"
                );
                AssembleError::Open { error, help }
            }
            AssembleError::Open { error: error @ OpenError::WrongKind { .. }, .. } => {
                let help = format!("\n  help: put a file or a block device at this path{other}");
                AssembleError::Open { error, help }
            }
            error => error,
        });
        Ok((opened?, name))
    }

    /// The advice to use another device for a member, as the end of a sentence; `None` if the
    /// request names one.
    fn other_device(&self, request: &OpenRequest) -> Option<String> {
        if request.place.new_device().is_some() {
            return None;
        }
        let devid = self.members.get(request.member.get()).map(|member| member.devid);
        let devid = devid?;
        Some(format!(", or use another device: `ctl members replace {devid} DEVICE`"))
    }
}

impl OpenMember for MemberOpener {
    fn open_again(&self, request: &OpenRequest) -> Result<OpenedMember, String> {
        let mut notes = Vec::new();
        let opened = self.open_replacement(request, &mut notes);
        let opened = opened.map_err(|error| error.to_string())?;
        Ok(OpenedMember { notes, ..opened })
    }

    fn prepare_spare(&self, request: &SpareRequest) -> Result<LabelledSpare, String> {
        self.prepare(request)
    }

    fn device(&self, member: MemberIndex) -> Option<DeviceAddress> {
        self.address(member)
    }
}

/// Refuses a device that is another member of this volume, or of another volume, or has data of
/// another program. Returns its label and dirty log if it is the member itself, unless it is to
/// replace the member. `read` reads from an offset on, and `occupant` says what a device without a
/// label contains.
pub(crate) fn check(
    request: &OpenRequest,
    read: impl Fn(u64, u32) -> io::Result<Vec<u8>>,
    occupant: impl Fn() -> Option<String>,
) -> Result<Option<FoundMember>, String> {
    let label = request.label.as_ref().expect("members with a device have labels");
    let is_refused = matches!(request.place, MemberPlace::New(_, Occupied::Refuse));
    let is_given_up = matches!(request.place, MemberPlace::New(_, Occupied::Allow));
    let is_renamed = matches!(request.place, MemberPlace::Renamed(_));
    let other = || {
        let devid = label.members[request.member.get()].devid;
        format!(
            "is not the device of this member\n  help: `ctl members replace {devid} DEVICE` has it \
             take the place of the member"
        )
    };
    let give_up = "give another device, or --occupied to destroy what it contains";
    if let MemberPlace::Spare(_, uuid) = request.place {
        return check_spare(label, uuid, read);
    }
    let metadata = match metadata_from(read) {
        Ok(metadata) => metadata,
        Err(DeviceError::Unreadable(error)) => return Err(format!("cannot be read: {error}")),
        Err(DeviceError::Label(_)) if is_renamed => return Err(other()),
        Err(DeviceError::Label(_)) => {
            let occupant = occupant().filter(|_| is_refused);
            return match occupant {
                Some(what) => Err(format!("contains {what}\n  help: {give_up}")),
                None => Ok(None),
            };
        }
    };
    let found = &metadata.newest.found;
    if found.label.array.uuid != label.array.uuid {
        // What is at the path of the member may be there by mistake; a new device was named.
        if is_given_up {
            return Ok(None);
        }
        let what = format!("is a member of the volume `{}`", found.label.array.name);
        return Err(if is_refused { format!("{what}\n  help: {give_up}") } else { what });
    }
    match label.row(found.member) {
        Some(row) if row != request.member.get() => {
            Err(format!("is the member with devid {}", label.members[row].devid))
        }
        Some(row) if !is_given_up && own_data(label, &metadata) != OwnData::None => {
            let what = match own_data(label, &metadata) {
                OwnData::Unknown => {
                    "left so long ago that it is not known whether it has data that the other \
                     members lack"
                }
                OwnData::None | OwnData::Some => {
                    "was used without the other members since it left, and has data that they lack"
                }
            };
            Err(format!("{what}\n  help: {}", diverged_help(label.members[row].devid)))
        }
        // Named as the replacement, its own device is a new one: all of it is copied.
        Some(_) if request.place.new_device().is_some() => Ok(None),
        Some(_) if request.own_uuid == Some(found.member) => Ok(Some(metadata)),
        _ if is_renamed => Err(other()),
        None if is_refused => {
            Err(format!("was a member of this volume, and may have data of it\n  help: {give_up}"))
        }
        _ => Ok(None),
    }
}

/// Refuses a device that is not this spare of the volume any more.
fn check_spare(
    label: &Label,
    uuid: Uuid,
    read: impl Fn(u64, u32) -> io::Result<Vec<u8>>,
) -> Result<Option<FoundMember>, String> {
    match metadata_from(&read) {
        Err(DeviceError::Label(_)) => {}
        Err(DeviceError::Unreadable(error)) => return Err(format!("cannot be read: {error}")),
        Ok(metadata) => {
            let name = metadata.newest.found.label.array.name;
            return Err(format!("is a member of the volume `{name}` now"));
        }
    }
    let is_it = |block: &SpareBlock| block.volume == label.array.uuid && block.uuid == uuid;
    match spare_block(read).filter(is_it) {
        Some(_) => Ok(None),
        None => Err("is not the spare that it was".to_owned()),
    }
}

/// Removes what a device holds of another use: all metadata of this program and, if the user gave
/// up what it contains, of others.
fn clear(request: &OpenRequest, open: &Open) -> io::Result<()> {
    match request.place {
        MemberPlace::New(_, Occupied::Allow) => wipe(open),
        // It was cleared when it was made a spare. Its block stays until it has a label.
        MemberPlace::Spare(..) => Ok(()),
        _ => clear_metadata(open),
    }
}
