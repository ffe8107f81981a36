//! Restoring a label that was saved, on a device whose labels were overwritten.
//!
//! What happened since the label was saved is not known: another member may have later data. So the
//! device becomes the only member, as if it had been started alone and the others been removed: a
//! data id is drawn, and no other device is a member. If one that has a label is found with it, the
//! rules of assembly decide between them, and nothing is written to either before a user did.

use super::AssembleError;
use super::occupied::occupant;
use super::open::{MemberOpener, Open, OpenPurpose};
use super::wipe::clear_metadata_but;
use crate::device_address::DeviceAddress;
use crate::driver::Platform;
use crate::examine::{DeviceError, label_from, metadata_from, read_blocks};
use crate::member::file::{Occupied, OpenOptions};
use mirrorball_core::member::MemberState;
use mirrorball_core::units::Nanos;
use mirrorball_store::label::{
    BAD_BLOCKS_BYTES, BAD_BLOCKS_OFFSET, BlockError, DataId, LABEL_SLOTS, Label, Lineage,
    MemberLabel, Uuid, newest_bad_blocks,
};
use std::io;

/// Why a label cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The device cannot be opened, or is in use.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// The saved label cannot be used.
    #[error("the saved label {0}")]
    Label(String),
    /// The device is not one without a label.
    #[error("`{device}` {what}: nothing was written")]
    Device {
        device: String,
        /// Why not.
        what: String,
    },
    /// The device cannot be read or written.
    #[error("cannot write to `{device}`: {error}\n  help: check the device")]
    Write { device: String, error: io::Error },
}

/// The label of a device as bytes to be saved.
pub fn saved_label(label: &MemberLabel) -> Box<[u8]> {
    label.label.encode(label.member, LABEL_SLOTS[0])
}

/// A label that was restored.
pub struct Restored {
    pub label: Label,
    /// True if it had bad blocks, and their list is overwritten: what is there is read as data.
    pub has_lost_bad_blocks: bool,
}

/// Restores a label from its bytes, with the list of bad blocks if that can be read. Fails if the
/// bytes are no label of a member in sync, the device has a label (unless the list that it names is
/// lost) or is too small, or the volume needs more than one member.
pub fn restore(
    saved: &[u8],
    device: &DeviceAddress,
    options: OpenOptions,
) -> Result<Restored, RestoreError> {
    let platform = Platform::System(None);
    let unfit = |text: &str| RestoreError::Label(text.to_owned());
    let saved = Label::decode(saved, LABEL_SLOTS[0])
        .map_err(|error| unfit(&format!("cannot be used: {error}")))?;
    let row = saved.label.row(saved.member).filter(|_| saved.calls_in_sync(saved.member));
    let row = row.ok_or_else(|| unfit("is of a device that was not in sync"))?;
    let opener = MemberOpener::of_devices(OpenPurpose::Clear, options, Nanos::from_secs(30));
    let open = opener.open_source(&device.source(), &mut Vec::new())?;
    check(&saved, row, device, &open)?;
    let is_refused = options.occupied == Occupied::Refuse && !is_list_lost(&open);
    if let Some(what) = occupant(&open).filter(|_| is_refused) {
        let what = format!("contains {what}; --occupied destroys that");
        return Err(RestoreError::Device { device: device.to_string(), what });
    }
    let id = u64::from_le_bytes(platform.random_bytes().map_err(AssembleError::from)?).max(1);
    let least_generation = saved.label.bad_blocks_generation;
    let (slots, generation, is_empty) = bad_blocks(&saved, &open);
    let label = alone(saved.label, row, DataId(id)).map_err(|text| unfit(&text))?;
    let label = Label { bad_blocks_generation: if is_empty { 0 } else { generation }, ..label };
    let write = || {
        // What another program finds a file system by is in front of the labels.
        open.write(0, &vec![0; LABEL_SLOTS[0] as usize])?;
        clear_metadata_but(&open, &slots)?;
        for (generation, slot) in (label.generation - 1..).zip(LABEL_SLOTS) {
            open.write(slot, &Label { generation, ..label.clone() }.encode(saved.member, slot))?;
        }
        open.flush()
    };
    let device = device.to_string();
    write().map_err(|error| RestoreError::Write { device, error })?;
    Ok(Restored { label, has_lost_bad_blocks: generation < least_generation })
}

/// The slots of the list of bad blocks, the generation of the newest one, and whether that is
/// empty. Nothing if none can be read: one that is older than the label would have blocks that were
/// written since.
fn bad_blocks(saved: &MemberLabel, open: &Open) -> (Vec<u8>, u64, bool) {
    let read = |offset, length| open.read(offset, length);
    let slots = read_blocks(read, BAD_BLOCKS_OFFSET, BAD_BLOCKS_BYTES).ok();
    let found = slots.and_then(|slots| {
        let (list, _) = newest_bad_blocks(&slots, saved.label.array.uuid, saved.member)?;
        let is_known = list.generation >= saved.label.bad_blocks_generation;
        is_known.then(|| (slots, list.generation, list.blocks.is_empty()))
    });
    found.unwrap_or((Vec::new(), 0, true))
}

/// Refuses a device that has a label, or is smaller than the member was.
fn check(
    saved: &MemberLabel,
    row: usize,
    device: &DeviceAddress,
    open: &Open,
) -> Result<(), RestoreError> {
    let needed_bytes = saved.label.members[row].size_bytes;
    let is_large = open.size_bytes() >= needed_bytes;
    let what = match label_from(|offset, length| open.read(offset, length)) {
        Ok(newest) if newest.found.label.generation > saved.label.generation => format!(
            "has a newer label: generation {}, and the saved one is {}",
            newest.found.label.generation, saved.label.generation
        ),
        Ok(newest) if newest.found.member != saved.member || !is_list_lost(open) => {
            "has a label that can be read".to_owned()
        }
        Err(DeviceError::Unreadable(error)) => format!("cannot be read: {error}"),
        Ok(_) | Err(DeviceError::Label(BlockError::Absent | BlockError::Damaged)) if is_large => {
            return Ok(());
        }
        Ok(_) | Err(DeviceError::Label(BlockError::Absent | BlockError::Damaged)) => {
            format!("has {} bytes, but the member has {needed_bytes}", open.size_bytes())
        }
        Err(DeviceError::Label(error)) => format!("has {error}"),
    };
    Err(RestoreError::Device { device: device.to_string(), what })
}

/// Returns true if a device has a label, and has lost the list of bad blocks that it names.
fn is_list_lost(open: &Open) -> bool {
    metadata_from(|offset, length| open.read(offset, length)).is_ok_and(|it| {
        let generation = it.bad_blocks.map_or(0, |(list, _)| list.generation);
        generation < it.newest.found.label.bad_blocks_generation
    })
}

/// The label of a volume whose other members were removed.
fn alone(saved: Label, row: usize, id: DataId) -> Result<Label, String> {
    let map = saved.array.chunk_map(&saved.map_configs());
    let map = map.map_err(|error| format!("has no layout: {error}"))?;
    if map.tolerated_failures() + 1 < saved.members.len() {
        return Err("is of a volume that needs several members".to_owned());
    }
    let mut members = saved.members.clone();
    for (_, other) in members.iter_mut().enumerate().filter(|(index, _)| *index != row) {
        (other.uuid, other.state) = (Uuid::NIL, MemberState::Failed);
        (other.lacks_repairs, other.is_kept_out) = (false, false);
    }
    Ok(Label {
        // Without a past: every other device went on separately, however old it is.
        lineage: Lineage::new(id),
        generation: saved.generation + 2,
        is_clean: false,
        members,
        spares: Vec::new(),
        ..saved
    })
}
