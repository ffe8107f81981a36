//! Examination of devices: reads their labels, changes nothing, and takes no lock.

use crate::device_address::DeviceAddress;
use crate::driver::read_aligned;
use crate::member::remote::peer::Peer;
use mirrorball_core::geometry::GeometryError;
use mirrorball_core::label::assembly::{
    ArrayVerdict, FoundMember, LabelAssembly, MemberStanding, assemble,
};
use mirrorball_core::label::{
    BlockError, DIRTY_LOG_BYTES, DIRTY_LOG_OFFSET, DirtyRecord, LABEL_SLOTS, METADATA_BYTES,
    NewestLabel, SCRUB_BYTES, SCRUB_OFFSET, ScrubRecord, Uuid, map_checksum, newest_label,
    newest_record, newest_scrub,
};
use rustix::fs::{Mode, OFlags};
use std::io;
use std::sync::Arc;

/// A device and what its label says.
pub struct ExaminedDevice {
    /// Where it is.
    pub address: DeviceAddress,
    /// Its label, or why there is none.
    pub label: Result<NewestLabel, DeviceError>,
    /// The newest record of its dirty log.
    pub record: Option<DirtyRecord>,
    /// The newest record of a scrub.
    pub scrub: Option<ScrubRecord>,
}

impl ExaminedDevice {
    /// A device with this metadata.
    pub(crate) fn new(
        address: DeviceAddress,
        metadata: Result<FoundMember, DeviceError>,
    ) -> ExaminedDevice {
        match metadata {
            Ok(FoundMember { newest, record, scrub }) => {
                ExaminedDevice { address, label: Ok(newest), record, scrub }
            }
            Err(error) => ExaminedDevice { address, label: Err(error), record: None, scrub: None },
        }
    }

    /// Its metadata, if it has a label.
    pub(crate) fn found(&self) -> Option<FoundMember> {
        let newest = self.label.as_ref().ok()?.clone();
        Some(FoundMember { newest, record: self.record.clone(), scrub: self.scrub })
    }
}

/// Why a device has no usable label.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// Its label cannot be used.
    #[error("has {0}")]
    Label(BlockError),
}

/// The devices of one volume, assembled.
pub struct ExaminedVolume {
    /// Its UUID.
    pub uuid: Uuid,
    /// Indexes of its devices among all that were examined.
    pub devices: Vec<usize>,
    /// What the labels say together; its standings are in the order of `devices`.
    pub assembly: LabelAssembly,
    /// Whether the volume may start.
    pub verdict: Result<ArrayVerdict, MapError>,
}

/// Why the data of a labelled volume cannot be found on its members.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MapError {
    /// The profile does not fit the members.
    #[error("the label describes an array that is not possible: {0}")]
    Geometry(#[from] GeometryError),
    /// The map is another one.
    #[error(
        "this version of mirrorball lays the volume out in another way than the version that \
         created it; use that version"
    )]
    OtherMap,
}

/// Reads the labels of devices.
pub fn examine(addresses: Vec<DeviceAddress>) -> Vec<ExaminedDevice> {
    let examine = |address: DeviceAddress| {
        let metadata = read_metadata(&address);
        ExaminedDevice::new(address, metadata)
    };
    addresses.into_iter().map(examine).collect()
}

/// Groups devices by volume, and assembles each volume. Devices with an index in `discarded` are
/// taken as stale.
pub fn volumes(devices: &[ExaminedDevice], discarded: &[usize]) -> Vec<ExaminedVolume> {
    let mut groups: Vec<(Uuid, Vec<usize>)> = Vec::new();
    for (index, device) in devices.iter().enumerate() {
        let Ok(NewestLabel { found, .. }) = &device.label else { continue };
        let uuid = found.label.array.uuid;
        match groups.iter_mut().find(|(other, _)| *other == uuid) {
            Some((_, group)) => group.push(index),
            None => groups.push((uuid, vec![index])),
        }
    }
    groups.into_iter().filter_map(|(uuid, group)| volume(uuid, group, devices, discarded)).collect()
}

fn volume(
    uuid: Uuid,
    group: Vec<usize>,
    devices: &[ExaminedDevice],
    discarded: &[usize],
) -> Option<ExaminedVolume> {
    let found: Vec<FoundMember> = group.iter().filter_map(|&it| devices[it].found()).collect();
    let is_discarded = |&at: &usize| discarded.contains(&group[at]);
    let discarded: Vec<usize> = (0..group.len()).filter(is_discarded).collect();
    if discarded.len() == found.len() {
        return None;
    }
    let assembly = assemble(&found, &discarded);
    let verdict = chunk_map(&assembly).map(|map| assembly.verdict(&map));
    Some(ExaminedVolume { uuid, devices: group, assembly, verdict })
}

/// The chunk map of an assembled volume.
///
/// # Errors
/// If it is not the one that the volume was created with.
pub(crate) fn chunk_map(
    assembly: &LabelAssembly,
) -> Result<mirrorball_core::geometry::ChunkMap, MapError> {
    let newest = &assembly.newest;
    let map = newest.array.chunk_map(&newest.map_configs())?;
    match map_checksum(&map) == newest.array.map_checksum {
        true => Ok(map),
        false => Err(MapError::OtherMap),
    }
}

/// A standing in words.
pub fn standing_text(standing: MemberStanding) -> String {
    match standing {
        MemberStanding::InSync => "in sync".to_owned(),
        MemberStanding::Rebuilding { recovered_bytes } => {
            format!("being rebuilt, {recovered_bytes} bytes are in sync")
        }
        MemberStanding::Stale => {
            "stale: it missed writes, and is rebuilt when the volume starts".into()
        }
        MemberStanding::OldCopy => {
            "an older copy of a member in sync, such as a restored snapshot".into()
        }
        MemberStanding::Diverged => "diverged: it may have data that the others lack".to_owned(),
        MemberStanding::Cloned => "a copy: another device is the same member".to_owned(),
        MemberStanding::Unknown => "not a member any more".to_owned(),
    }
}

fn read_metadata(address: &DeviceAddress) -> Result<FoundMember, DeviceError> {
    let unreadable = |error: String| DeviceError::Unreadable(error);
    match address {
        DeviceAddress::Path(path) => {
            // Not blocking: it may be a pipe.
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let file = rustix::fs::open(path, flags, Mode::empty());
            let file = file.map_err(|error| unreadable(error.to_string()))?;
            metadata_from(|offset, length| Ok(read_aligned(&file, offset, length as usize)?))
        }
        DeviceAddress::Uri(uri, _) => {
            let peer = Peer::open_unlocked(Arc::new(uri.clone()));
            let peer = peer.map_err(|error| unreadable(error.to_string()))?;
            metadata_from(|offset, length| peer.read(offset, length))
        }
    }
}

/// The label and the dirty log of a device of which `read(offset, length)` reads.
pub(crate) fn metadata_from(
    read: impl Fn(u64, u32) -> io::Result<Vec<u8>>,
) -> Result<FoundMember, DeviceError> {
    let newest = label_from(&read)?;
    let unreadable = |error: io::Error| DeviceError::Unreadable(error.to_string());
    let (volume, member) = (newest.found.label.array.uuid, newest.found.member);
    let log = read(DIRTY_LOG_OFFSET, DIRTY_LOG_BYTES).map_err(unreadable)?;
    let record = newest_record(&log, volume, member);
    let scrub = read(SCRUB_OFFSET, SCRUB_BYTES).map_err(unreadable)?;
    let scrub = newest_scrub(&scrub, volume, member);
    Ok(FoundMember { newest, record, scrub })
}

/// The label of a device of which `read(offset, length)` reads.
pub(crate) fn label_from(
    read: impl Fn(u64, u32) -> io::Result<Vec<u8>>,
) -> Result<NewestLabel, DeviceError> {
    let slot = |slot: usize| {
        let bytes = read(LABEL_SLOTS[slot], METADATA_BYTES as u32);
        bytes.map_err(|error| DeviceError::Unreadable(error.to_string()))
    };
    newest_label([&slot(0)?, &slot(1)?]).map_err(DeviceError::Label)
}
