//! Examination of devices: reads their labels, changes nothing, and takes no lock.

mod conditions;

use crate::device_address::DeviceAddress;
use crate::driver::{Endpoint, Platform};
use crate::member::guard;
use crate::member::remote::peer::{Peer, connector};
pub use conditions::label_conditions;
use mirrorball_core::geometry::GeometryError;
use mirrorball_core::member::MemberState;
use mirrorball_store::label::assembly::{
    ArrayVerdict, AssembledMember, FoundMember, LabelAssembly, MemberStanding, assemble,
};
use mirrorball_store::label::{
    BAD_BLOCKS_BYTES, BAD_BLOCKS_OFFSET, BlockError, DIRTY_LOG_BYTES, DIRTY_LOG_OFFSET,
    LABEL_SLOTS, Label, LabelledMember, METADATA_BYTES, NewestLabel, SCRUB_BYTES, SCRUB_OFFSET,
    SPARE_OFFSET, STALE_MAP_BYTES, STALE_MAP_OFFSET, SpareBlock, Uuid, map_checksum,
    may_lack_record, newest_bad_blocks, newest_label, newest_record, newest_scrub, stale_maps,
};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::sync::Arc;
use std::time::Duration;

pub struct ExaminedDevice {
    pub address: DeviceAddress,
    /// The label and the other metadata, or why there is no label.
    pub metadata: Result<FoundMember, DeviceError>,
    /// The block of a spare, if it has no label.
    pub spare: Option<SpareBlock>,
}

impl ExaminedDevice {
    pub(crate) fn new(
        address: DeviceAddress,
        metadata: Result<FoundMember, DeviceError>,
    ) -> ExaminedDevice {
        ExaminedDevice { address, metadata, spare: None }
    }

    /// The same device, which says this of itself if it has no label.
    pub(crate) fn with_spare(self, spare: Option<SpareBlock>) -> ExaminedDevice {
        ExaminedDevice { spare: spare.filter(|_| self.metadata.is_err()), ..self }
    }

    /// The label. Fails if there is none that can be used.
    pub fn label(&self) -> Result<&NewestLabel, &DeviceError> {
        self.metadata.as_ref().map(|found| &found.newest)
    }
}

/// Why a device has no usable label.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// The label cannot be used.
    #[error("has {0}")]
    Label(BlockError),
}

pub struct ExaminedVolume {
    pub uuid: Uuid,
    /// Indexes of its devices among all that were examined.
    pub devices: Vec<usize>,
    /// The assembly of the labels; its standings are in the order of `devices`.
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
    /// The label has offsets that are not on the volume.
    #[error("a device has {0}")]
    Label(#[from] BlockError),
}

/// The system, whatever its driver.
const SYSTEM: Platform = Platform::System(None);

/// How often [`examine`] reads again while labels change.
const READINGS: usize = 20;
/// The time between two readings, longer than a change of all labels usually takes.
const READING_INTERVAL: Duration = Duration::from_millis(100);

/// Reads the labels of devices.
///
/// A volume in service changes the labels of its members one after the other. Where those of a
/// volume are not of the same change, they are read again, until two readings are the same.
pub fn examine(addresses: Vec<DeviceAddress>) -> Vec<ExaminedDevice> {
    examine_on(&SYSTEM, addresses)
}

pub fn examine_on(platform: &Platform, addresses: Vec<DeviceAddress>) -> Vec<ExaminedDevice> {
    let wait = || platform.sleep(READING_INTERVAL);
    let read = |address: &DeviceAddress| metadata_from(reader(platform, address)?);
    let devices = examine_with(addresses, read, wait);
    let with_spare = |device: ExaminedDevice| {
        let reader = reader(platform, &device.address).ok().filter(|_| device.metadata.is_err());
        device.with_spare(reader.and_then(spare_block))
    };
    devices.into_iter().map(with_spare).collect()
}

fn examine_with(
    addresses: Vec<DeviceAddress>,
    read: impl Fn(&DeviceAddress) -> Result<FoundMember, DeviceError>,
    wait: impl Fn(),
) -> Vec<ExaminedDevice> {
    let read_all =
        || addresses.iter().map(|it| ExaminedDevice::new(it.clone(), read(it))).collect();
    let mut devices: Vec<ExaminedDevice> = read_all();
    for _ in 1..READINGS {
        if !are_of_different_changes(&devices) {
            break;
        }
        wait();
        let again = read_all();
        let is_same =
            devices.iter().zip(&again).all(|(one, other)| label_of(one) == label_of(other));
        devices = again;
        if is_same {
            break;
        }
    }
    devices
}

/// Whether two devices of one volume have labels of different generations.
fn are_of_different_changes(devices: &[ExaminedDevice]) -> bool {
    let mut generations = HashMap::new();
    devices.iter().filter_map(label_of).any(|label| {
        *generations.entry(label.array.uuid).or_insert(label.generation) != label.generation
    })
}

fn label_of(device: &ExaminedDevice) -> Option<&Label> {
    Some(&device.label().ok()?.found.label)
}

/// Groups devices by volume, and assembles each volume. Devices with an index in `discarded` are
/// taken as stale.
pub fn volumes(devices: &[ExaminedDevice], discarded: &[usize]) -> Vec<ExaminedVolume> {
    let mut groups: Vec<(Uuid, Vec<usize>)> = Vec::new();
    for (index, device) in devices.iter().enumerate() {
        let Ok(NewestLabel { found, .. }) = device.label() else { continue };
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
    let found: Vec<FoundMember> =
        group.iter().filter_map(|&it| devices[it].metadata.as_ref().ok().cloned()).collect();
    let is_discarded = |&at: &usize| discarded.contains(&group[at]);
    let discarded: Vec<usize> = (0..group.len()).filter(is_discarded).collect();
    if discarded.len() == found.len() {
        return None;
    }
    let mut assembly = assemble(&found, &discarded);
    let verdict = chunk_map(&assembly).map(|map| assembly.verdict(&map));
    if verdict == Ok(ArrayVerdict::Doubtful) {
        diverge_all(&mut assembly);
    }
    Some(ExaminedVolume { uuid, devices: group, assembly, verdict })
}

/// Has all sides of a volume diverge if one has: none is right before the user says so.
fn diverge_all(assembly: &mut LabelAssembly) {
    let LabelAssembly { standings, members, .. } = assembly;
    if !standings.contains(&MemberStanding::Diverged) {
        return;
    }
    let is_in_sync = |it: &&mut MemberStanding| **it == MemberStanding::InSync;
    standings.iter_mut().filter(is_in_sync).for_each(|it| *it = MemberStanding::Diverged);
    for member in members.iter_mut().filter(|it| it.state == MemberState::InSync) {
        let state = MemberState::Failed;
        *member = AssembledMember { found: None, state, has_diverged: true };
    }
}

/// The chunk map of an assembled volume. Fails if it is not the one that the volume was created
/// with.
pub(crate) fn chunk_map(
    assembly: &LabelAssembly,
) -> Result<mirrorball_core::geometry::ChunkMap, MapError> {
    let newest = &assembly.newest;
    let map = newest.array.chunk_map(&newest.map_configs())?;
    match map_checksum(&map) == newest.array.map_checksum {
        true => Ok(newest.check_map(&map).map(|()| map)?),
        false => Err(MapError::OtherMap),
    }
}

/// Standing of device `at` of a volume, in words.
pub fn device_text(volume: &ExaminedVolume, devices: &[ExaminedDevice], at: usize) -> String {
    let newest = &volume.assembly.newest;
    let row = uuid_of(&devices[volume.devices[at]]).and_then(|uuid| newest.row(uuid));
    let devid = row.map(|row| newest.members[row].devid);
    match (volume.assembly.standings[at], devid) {
        (MemberStanding::InSync, _) => "in sync".to_owned(),
        (MemberStanding::Rebuilding { recovered_bytes }, _) => {
            format!("being rebuilt, {recovered_bytes} bytes are in sync")
        }
        (MemberStanding::Stale, _) => {
            "stale: it missed writes, and is rebuilt when the volume starts".to_owned()
        }
        (MemberStanding::KeptOut, devid) => format!(
            "failed by an operator: it is not used before `mirrorball ctl members \
             rebuild {}`",
            devid.unwrap_or(0)
        ),
        (MemberStanding::OldCopy, _) => {
            "an older copy of a member in sync, such as a restored snapshot".to_owned()
        }
        (MemberStanding::Diverged, None) if volume.verdict != Ok(ArrayVerdict::Doubtful) => {
            "not a member any more, but it may have data that the members lack".to_owned()
        }
        (MemberStanding::Diverged, _) => {
            "diverged: it may have data that the others lack; `--discard` gives them up".to_owned()
        }
        (MemberStanding::Cloned, devid) => clone_text(volume, devices, at, devid),
        (MemberStanding::Unknown, _) => "not a member any more".to_owned(),
    }
}

/// Which of the devices of one member a device is, by the age of its label.
fn clone_text(
    volume: &ExaminedVolume,
    devices: &[ExaminedDevice],
    at: usize,
    devid: Option<u64>,
) -> String {
    let generation = |at: usize| label_of(&devices[volume.devices[at]]).map(|it| it.generation);
    let uuid = |at: usize| uuid_of(&devices[volume.devices[at]]);
    let is_same = |other: &usize| uuid(*other) == uuid(at);
    let same: Vec<usize> = (0..volume.devices.len()).filter(is_same).collect();
    let others = || same.iter().filter(|other| **other != at);
    let newer = others().find(|other| generation(**other) > generation(at));
    let age = match newer {
        Some(newer) => {
            format!("with an older label than `{}`", devices[volume.devices[*newer]].address)
        }
        None if others().all(|other| generation(*other) < generation(at)) => {
            "with the newest label of them".to_owned()
        }
        None => "with labels of the same age".to_owned(),
    };
    let devid = devid.map_or("the same member".to_owned(), |devid| format!("devid {devid}"));
    format!("one of {} devices that are {devid}, {age}", same.len())
}

fn uuid_of(device: &ExaminedDevice) -> Option<Uuid> {
    Some(device.label().ok()?.found.member)
}

/// Returns true if a device ends before the size that the label gives its member.
pub fn is_too_small(address: &DeviceAddress, member: &LabelledMember) -> bool {
    let last = METADATA_BYTES as u32;
    let Some(offset) = member.size_bytes.checked_sub(u64::from(last)) else { return false };
    let read = reader(&SYSTEM, address).ok().map(|read| read(offset, last));
    !matches!(read, Some(Ok(bytes)) if bytes.len() == last as usize)
}

/// Data of another program on a device, such as a filesystem, in words.
pub fn foreign_contents(address: &DeviceAddress) -> Option<&'static str> {
    let read = reader(&SYSTEM, address).ok()?;
    let size_bytes = match address {
        DeviceAddress::Path(path) => File::open(path).ok()?.seek(SeekFrom::End(0)).ok()?,
        DeviceAddress::Uri(uri, _) => {
            Peer::open_unlocked(Arc::new(uri.clone())).ok()?.export.size_bytes
        }
    };
    guard::contents_by_blocks(size_bytes, read)
}

/// Reads a length from an offset on.
type Reader = Box<dyn Fn(u64, u32) -> io::Result<Vec<u8>>>;

fn reader(platform: &Platform, address: &DeviceAddress) -> Result<Reader, DeviceError> {
    let unreadable = |error: String| DeviceError::Unreadable(error);
    match address {
        DeviceAddress::Path(path) => {
            // Not blocking: it may be a pipe.
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let file = match platform {
                Platform::System(_) => {
                    rustix::fs::open(path, flags, Mode::empty()).map(Endpoint::Fd)
                }
                Platform::Simulated(world) => world.open_unlocked(path),
            };
            let file = file.map_err(|error| unreadable(error.to_string()))?;
            Ok(Box::new(move |offset, length| Ok(file.read(offset, length as usize)?)))
        }
        DeviceAddress::Uri(uri, text) => {
            let peer = Peer::open_unlocked(connector(platform, uri, text));
            let peer = peer.map_err(|error| unreadable(error.to_string()))?;
            Ok(Box::new(move |offset, length| peer.read(offset, length)))
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
    let read = |offset, length| read_blocks(&read, offset, length).map_err(unreadable);
    let log = read(DIRTY_LOG_OFFSET, DIRTY_LOG_BYTES)?;
    let record = newest_record(&log, volume, member).map_err(DeviceError::Label)?;
    let may_lack_record = may_lack_record(&log, record.as_ref());
    let scrub = read(SCRUB_OFFSET, SCRUB_BYTES)?;
    let scrub = newest_scrub(&scrub, volume, member);
    let stale_maps = stale_maps(&read(STALE_MAP_OFFSET, STALE_MAP_BYTES)?, volume, member);
    let bad_blocks = read(BAD_BLOCKS_OFFSET, BAD_BLOCKS_BYTES)?;
    let bad_blocks = newest_bad_blocks(&bad_blocks, volume, member);
    let found = FoundMember::of_label(newest);
    Ok(FoundMember { record, may_lack_record, scrub, stale_maps, bad_blocks, ..found })
}

/// Reads blocks of metadata. One that the medium has lost counts as damaged: a member is not
/// refused for a bad sector that the next write to it mends. So does what is behind the end of a
/// device that was cut.
pub(crate) fn read_blocks(
    read: impl Fn(u64, u32) -> io::Result<Vec<u8>>,
    offset: u64,
    length: u32,
) -> io::Result<Vec<u8>> {
    // Direct reads return what the device said of its medium. A server that replies with an error
    // does not say which one.
    const OF_MEDIUM: [Errno; 4] = [Errno::IO, Errno::NODATA, Errno::ILSEQ, Errno::REMOTEIO];
    let is_lost = |error: &io::Error| {
        Errno::from_io_error(error).is_some_and(|errno| OF_MEDIUM.contains(&errno))
            || error.kind() == ErrorKind::InvalidData
    };
    match read(offset, length) {
        Err(error) if is_lost(&error) => {}
        bytes => {
            let mut bytes = bytes?;
            bytes.resize(length as usize, 0xff);
            return Ok(bytes);
        }
    }
    const BLOCK_BYTES: u32 = METADATA_BYTES as u32;
    let blocks = (0..length / BLOCK_BYTES).map(|block| {
        let bytes = read(offset + u64::from(block * BLOCK_BYTES), BLOCK_BYTES);
        match bytes {
            Err(error) if is_lost(&error) => Ok(vec![0xff; METADATA_BYTES]),
            bytes => bytes,
        }
    });
    Ok(blocks.collect::<io::Result<Vec<Vec<u8>>>>()?.concat())
}

/// The block of a spare on a device, of which `read(offset, length)` reads.
pub(crate) fn spare_block(read: impl Fn(u64, u32) -> io::Result<Vec<u8>>) -> Option<SpareBlock> {
    let bytes = read(SPARE_OFFSET, METADATA_BYTES as u32).ok()?;
    SpareBlock::decode(&bytes).ok()
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

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_core::geometry::{ArrayLayout, Profile};
    use mirrorball_store::label::{DataId, LabelledArray, Lineage, MemberLabel};
    use std::cell::Cell;

    /// Metadata of a member whose label is of this generation.
    fn found(member: u8, generation: u64) -> FoundMember {
        let array = LabelledArray {
            uuid: Uuid([9; 16]),
            name: String::new(),
            profile: Profile::Raid1,
            layout: "btrfs".parse::<ArrayLayout>().unwrap(),
            stripe_width_max: None,
            block_bytes: 4096,
            has_checksums: false,
            map_checksum: 0,
        };
        let label = Label {
            array,
            generation,
            lineage: Lineage::new(DataId(1)),
            is_clean: false,
            resync_from: None,
            policy: "pid".to_owned(),
            program: None,
            members: Vec::new(),
            spares: Vec::new(),
            bad_blocks_generation: 0,
            is_read_only: false,
        };
        let found = MemberLabel { member: Uuid([member; 16]), label };
        FoundMember::of_label(NewestLabel { found, slot: 0, previous: None })
    }

    #[test]
    fn a_block_that_the_medium_has_lost_counts_as_damaged() {
        const BLOCK: u64 = METADATA_BYTES as u64;
        let read = |error: Errno| {
            move |offset: u64, length: u32| match (offset..offset + u64::from(length))
                .contains(&(3 * BLOCK))
            {
                true => Err(error.into()),
                false => Ok(vec![7; length as usize]),
            }
        };
        for errno in [Errno::IO, Errno::NODATA] {
            let bytes = read_blocks(read(errno), 2 * BLOCK, 3 * BLOCK as u32).unwrap();
            let blocks: Vec<u8> = bytes.chunks(BLOCK as usize).map(|block| block[0]).collect();
            assert_eq!(blocks, [7, 0xff, 7]);
        }
        let cut = read_blocks(|_, _| Ok(vec![7; 10]), 0, BLOCK as u32).unwrap();
        assert_eq!((cut.len() as u64, cut[9], cut[10]), (BLOCK, 7, 0xff));
        assert!(read_blocks(read(Errno::NODEV), 2 * BLOCK, 3 * BLOCK as u32).is_err());
    }

    /// The generations that are found if the readings of the members give these in turn, and the
    /// number of waits.
    fn settled(readings: &[[u64; 2]]) -> ([u64; 2], usize) {
        let waits = Cell::new(0);
        let addresses = ["0", "1"].map(|path| DeviceAddress::Path(path.into()));
        let read = |address: &DeviceAddress| {
            let at = usize::from(address.to_string() == "1");
            let reading = readings[waits.get().min(readings.len() - 1)];
            Ok(found(at as u8, reading[at]))
        };
        let devices = examine_with(addresses.into(), read, || waits.set(waits.get() + 1));
        let generation = |at: usize| label_of(&devices[at]).unwrap().generation;
        ([generation(0), generation(1)], waits.get())
    }

    #[test]
    fn labels_of_one_change_are_read_once() {
        assert_eq!(settled(&[[5, 5]]), ([5, 5], 0));
    }

    #[test]
    fn labels_that_change_are_read_until_they_are_of_one_change() {
        assert_eq!(settled(&[[5, 6], [6, 7], [7, 7]]), ([7, 7], 2));
    }

    #[test]
    fn labels_that_stay_different_are_taken_as_they_are() {
        assert_eq!(settled(&[[5, 6], [5, 6]]), ([5, 6], 1));
    }

    #[test]
    fn labels_that_change_all_the_time_are_not_read_for_ever() {
        let readings: Vec<[u64; 2]> = (0..40).map(|at| [at, at + 1]).collect();
        assert_eq!(settled(&readings).1, READINGS - 1);
    }
}
