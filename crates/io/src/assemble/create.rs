//! Creating a volume: writes labels to the members of an array file.
//!
//! The metadata area of each member, from 4 KiB to 1 MiB, is zeroed first, so that no block of an
//! earlier volume is left. Then each slot is written on all members, and flushed, before the next:
//! a crash leaves either no volume or one that can be created again.

use super::layout_notes::layout_notes;
pub(super) use super::occupied::occupant;
use super::occupied::occupant_before_data;
use super::open::{MemberOpener, Open, OpenPurpose};
use super::wipe::{clear_metadata, wipe, wipe_begin};
use super::{AssembleError, PARITY_HELP};
use crate::entropy::random_bytes;
use crate::examine::label_from;
use crate::label_limits;
use crate::member::file::{Occupied, OpenOptions};
use crate::mirror_check::Difference;
use mirrorball_core::checksum::CHECKSUM_BLOCK_BYTES;
use mirrorball_core::geometry::{ChunkMap, Profile, RESERVED_BYTES};
use mirrorball_core::label::assembly::holds_all;
use mirrorball_core::label::{
    DataId, LABEL_SLOTS, LABELLED_MEMBERS_MAX, Label, LabelledArray, LabelledMember, LabelledSpare,
    Lineage, SPARE_OFFSET, SPARES_MAX, SpareBlock, Uuid, checksum_table_bytes, map_checksum,
};
use mirrorball_core::member::{MemberConfig, MemberIndex, MemberState};
use mirrorball_core::units::{BLOCK_BYTES, Nanos, format_bytes};
use mirrorball_disk::array_file::{ArraySpec, KeptPolicy, MemberSource, MemberSpec};
use std::io;

/// Bytes that are written at once.
const STEP_BYTES: u64 = 1 << 20;

/// How to create a volume, or to label an array that has data.
pub struct CreateOptions<'a> {
    /// The array.
    pub array: &'a ArraySpec,
    /// Name of the volume.
    pub name: String,
    /// The read policy.
    pub policy: KeptPolicy,
    /// True if data have checksums, in a table at the end of each member.
    pub checksums: bool,
    /// How devices are opened. [`Occupied::Allow`] gives up what they hold; of an array that has
    /// data, what is in front of the data.
    pub options: OpenOptions,
}

/// Which data of an array without labels are valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// Those of the member with this devid; the others are rebuilt from it.
    Member(u64),
    /// Those of all members, if they are equal.
    Equal,
}

/// A volume that was created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Created {
    /// Its label.
    pub label: Label,
    /// How it is laid out.
    pub map: ChunkMap,
    /// Bytes of each member that hold checksums; zero without checksums.
    pub checksum_bytes: u64,
    /// Notes for the user, a line each.
    pub notes: Vec<String>,
}

/// Why a volume cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The array cannot be opened.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// A member holds data of another program.
    #[error(
        "`{device}` contains {what}: nothing was written\n  help: give another device, or \
         --occupied to destroy what it contains"
    )]
    Occupied {
        /// The device.
        device: String,
        /// What it holds.
        what: String,
    },
    /// A member to adopt holds data of another program where labels are written.
    #[error(
        "`{device}` contains {what}, which labels would overwrite: nothing was written\n  help: \
         check `path`: an array has its data from 1 MiB on, so these are of another program. \
         --occupied destroys them"
    )]
    OccupiedBegin {
        /// The device.
        device: String,
        /// What it holds.
        what: String,
    },
    /// A member to adopt has a label.
    #[error(
        "`{device}` has a label already: it is a member of the volume `{volume}`\n  help: serve \
         the volume: mirrorball serve {} --export ADDRESS", devices.join(" ")
    )]
    Labelled {
        /// The device.
        device: String,
        /// The name of its volume.
        volume: String,
        /// All devices of the array file.
        devices: Vec<String>,
    },
    /// A member is a disk model.
    #[error(
        "cannot label the member with devid {devid}: it is a disk model, not a file or \
         device\n  help: {help}"
    )]
    Model {
        /// Its devid.
        devid: u64,
        /// What to do.
        help: &'static str,
    },
    /// The name cannot be that of a volume.
    #[error("--name: {0}")]
    Name(String),
    /// The array file has something that labels cannot describe.
    #[error("cannot label the array: {0}")]
    Unfit(String),
    /// An array that has data cannot get checksums.
    #[error(
        "--checksums: an array that has data cannot get checksums, because they need space at the \
         end of each member, where the array has data\n  help: adopt it without --checksums; or \
         create a volume with `mirrorball create --checksums` on other devices, and copy the data"
    )]
    NoSpaceForChecksums,
    /// The array has parity.
    #[error("{0}: parity is simulated and emulated, not served\n  help: {PARITY_HELP}")]
    Parity(Profile),
    /// There is no such member.
    #[error(
        "--trust {0}: the array has no member with devid {0}\n  help: `mirrorball check` lists the \
         members of the array"
    )]
    NoSuchMember(u64),
    /// The trusted member does not have all data.
    #[error(
        "--trust {0}: the member with devid {0} does not hold all data of the volume, so the \
         others cannot be rebuilt from it\n  help: leave out --trust, and all mirrors are compared"
    )]
    NotWhole(u64),
    /// Mirrors differ.
    #[error(
        "{0}: nothing was written\n  help: give --trust DEVID, the member with the valid data, \
         from which the others are rebuilt"
    )]
    Differ(Difference),
    /// A device cannot be read or written.
    #[error("cannot write to `{device}`: {error}\n  help: check the device, or space for the file")]
    Write {
        /// The device.
        device: String,
        /// Why.
        error: io::Error,
    },
}

/// The members of an array file, open.
struct Candidates {
    members: Vec<(MemberConfig, Open)>,
    devices: Vec<String>,
    array: LabelledArray,
    spares: Vec<(String, Open)>,
    map: ChunkMap,
    notes: Vec<String>,
}

/// Creates a volume. What the members held is lost.
///
/// # Errors
/// If the array cannot be labelled, a device is in use or holds data, or cannot be written.
pub fn create(creation: &CreateOptions<'_>) -> Result<Created, CreateError> {
    let candidates = open_candidates(creation, OpenPurpose::Create)?;
    let members = candidates.members.iter().map(|(_, open)| open).zip(&candidates.devices);
    clear_occupants(members, creation)?;
    clear_occupants(candidates.spares.iter().map(|(device, open)| (open, device)), creation)?;
    let is_empty = candidates.members.iter().all(|(_, open)| open.is_hole());
    let has_redundancy = candidates.map.tolerated_failures() > 0;
    let resync_from = (has_redundancy && !is_empty).then_some(0);
    let states = vec![MemberState::InSync; candidates.members.len()];
    write_labels(creation, candidates, &states, resync_from)
}

/// Removes what devices hold, if the user gave it up. All are checked before the first is written.
fn clear_occupants<'a>(
    devices: impl Iterator<Item = (&'a Open, &'a String)>,
    creation: &CreateOptions<'_>,
) -> Result<(), CreateError> {
    let mut occupied = devices.filter_map(|(open, device)| Some((open, device, occupant(open)?)));
    if creation.options.occupied == Occupied::Refuse {
        return match occupied.next() {
            Some((_, device, what)) => Err(CreateError::Occupied { device: device.clone(), what }),
            None => Ok(()),
        };
    }
    for (open, device, _) in occupied {
        wipe(open).map_err(|error| write_error(device, error))?;
    }
    Ok(())
}

/// Labels an array that has data.
///
/// # Errors
/// As [`create`], or if the mirrors differ and none is trusted.
pub fn adopt(creation: &CreateOptions<'_>, trust: Trust) -> Result<Created, CreateError> {
    if creation.checksums {
        return Err(CreateError::NoSpaceForChecksums);
    }
    let candidates = open_candidates(creation, OpenPurpose::Adopt)?;
    let Candidates { members, devices, map, .. } = &candidates;
    for ((_, open), device) in members.iter().zip(devices) {
        if let Ok(found) = label_from(|offset, length| open.read(offset, length)) {
            let (device, volume) = (device.clone(), found.found.label.array.name);
            return Err(CreateError::Labelled { device, volume, devices: devices.clone() });
        }
        if creation.options.occupied == Occupied::Refuse
            && let Some(what) = occupant_before_data(open)
        {
            return Err(CreateError::OccupiedBegin { device: device.clone(), what });
        }
    }
    clear_occupants(candidates.spares.iter().map(|(device, open)| (open, device)), creation)?;
    let mut states = vec![MemberState::InSync; members.len()];
    match trust {
        Trust::Member(devid) => {
            let row = members.iter().position(|(config, _)| config.devid == devid);
            let row = row.ok_or(CreateError::NoSuchMember(devid))?;
            if !holds_all(map, |other, _| other == row) {
                return Err(CreateError::NotWhole(devid));
            }
            states.fill(MemberState::Rebuilding { recovered_bytes: 0 });
            states[row] = MemberState::InSync;
        }
        Trust::Equal => {
            if let Some(difference) = compare(&candidates).map_err(AssembleError::from)? {
                return Err(CreateError::Differ(difference));
            }
        }
    }
    // All of it, so that nothing is recognised there later.
    let occupied =
        members.iter().zip(devices).filter(|((_, it), _)| occupant_before_data(it).is_some());
    for ((_, open), device) in occupied {
        wipe_begin(open).map_err(|error| write_error(device, error))?;
    }
    write_labels(creation, candidates, &states, None)
}

fn open_candidates(
    creation: &CreateOptions<'_>,
    purpose: OpenPurpose,
) -> Result<Candidates, CreateError> {
    let CreateOptions { array, name, policy, checksums, options } = creation;
    let unfit = |what: String| Err(CreateError::Unfit(what));
    if array.profile.parities() > 0 {
        return Err(CreateError::Parity(array.profile));
    }
    if array.members.len() > LABELLED_MEMBERS_MAX {
        let count = array.members.len();
        return unfit(format!(
            "it has {count} members, and a label {LABELLED_MEMBERS_MAX} at most"
        ));
    }
    label_limits::check_name(name).map_err(CreateError::Name)?;
    if let Err(what) = label_limits::check_policy(policy) {
        return unfit(what);
    }
    if let Some(member) = array.members.iter().find(|member| member.range.begin_bytes > 0) {
        let devid = member.devid;
        return unfit(format!(
            "the member with devid {devid} has a `begin`, but a labelled member begins where its \
             device does\n  help: remove `begin`, or use a partition"
        ));
    }
    let mut notes = Vec::new();
    refuse_models(array)?;
    let opener = MemberOpener::new(array, purpose, *options, Nanos::from_secs(30));
    opener.check_distinct()?;
    let members = (0..array.members.len())
        .map(|index| opener.open(MemberIndex(index as u16), &mut notes))
        .collect::<Result<Vec<(MemberConfig, Open)>, AssembleError>>()?;
    let configs: Vec<MemberConfig> = members.iter().map(|(config, _)| config.clone()).collect();
    let mut map = opener.allocate(array, &configs)?;
    let block_bytes = members.iter().map(|(_, open)| open.block_bytes()).max();
    let mut labelled = LabelledArray {
        uuid: Uuid(random_bytes().map_err(AssembleError::from)?),
        name: name.clone(),
        profile: map.profile(),
        layout: array.layout,
        stripe_width_max: array.stripe_width_max.map(|width| width as u32),
        block_bytes: block_bytes.unwrap_or(BLOCK_BYTES),
        has_checksums: *checksums,
        map_checksum: 0,
    };
    if *checksums {
        labelled.block_bytes = labelled.block_bytes.max(CHECKSUM_BLOCK_BYTES);
        map = opener.allocate(array, &labelled.data_configs(&configs))?;
    }
    labelled.map_checksum = map_checksum(&map);
    let reserved = |index: usize| map.allocated(MemberIndex(index as u16)).start;
    if (0..members.len()).any(|index| reserved(index) < RESERVED_BYTES) {
        return unfit(format!("its layout {} leaves no space for labels", array.layout));
    }
    let names = array.members.iter().map(|member| source_name(&member.source));
    let devices: Vec<String> = names.collect();
    notes.extend(layout_notes(&map, &labelled.data_configs(&configs), &devices));
    let spares = open_spares(array, &opener, &configs, &mut notes)?;
    Ok(Candidates { members, devices, spares, array: labelled, map, notes })
}

/// Refuses an array with disk models.
fn refuse_models(array: &ArraySpec) -> Result<(), CreateError> {
    let is_model = |it: &&MemberSpec| matches!(it.source, MemberSource::Model(_));
    let Some(model) = array.members.iter().find(is_model) else { return Ok(()) };
    let help = match array.source {
        Some(_) => {
            "a file of `mirrorball detect` describes an array that is in use; write an array file \
             with the `path` of unused files or devices"
        }
        None => "give it `path` in place of `model`",
    };
    Err(CreateError::Model { devid: model.devid, help })
}

/// Opens the spares of an array file, each of which has to fit the smallest member at least.
fn open_spares(
    array: &ArraySpec,
    opener: &MemberOpener,
    members: &[MemberConfig],
    notes: &mut Vec<String>,
) -> Result<Vec<(String, Open)>, CreateError> {
    if array.spares.len() > SPARES_MAX {
        let count = array.spares.len();
        let text = format!("it has {count} spares, and a label {SPARES_MAX} at most");
        return Err(CreateError::Unfit(text));
    }
    let needed_bytes = members.iter().map(|config| config.size_bytes).min().unwrap_or(0);
    let open = |source: &MemberSource| {
        let device = source_name(source);
        let open = opener.open_source(source, notes)?;
        match open.size_bytes() < needed_bytes {
            true => Err(CreateError::Unfit(format!(
                "the spare `{device}` has {}, but the smallest member has {}\n  help: give a \
                 larger device, or remove its [[spare]] from the array file",
                format_bytes(open.size_bytes()),
                format_bytes(needed_bytes)
            ))),
            false => Ok((device, open)),
        }
    };
    array.spares.iter().map(open).collect()
}

/// The path or URI of a real device.
fn source_name(source: &MemberSource) -> String {
    match source {
        MemberSource::Path(path) => path.display().to_string(),
        MemberSource::Uri(uri) => uri.clone(),
        MemberSource::Model(_) => String::new(),
    }
}

/// Writes the block of a spare, whose UUID is drawn.
pub(super) fn write_spare(
    open: &Open,
    label: &Label,
    size_bytes: u64,
) -> io::Result<LabelledSpare> {
    let spare = LabelledSpare { uuid: Uuid(random_bytes()?), size_bytes };
    clear_metadata(open)?;
    let (volume, name) = (label.array.uuid, label.array.name.clone());
    let block = SpareBlock { volume, uuid: spare.uuid, name };
    open.write(SPARE_OFFSET, &block.encode())?;
    open.flush()?;
    Ok(spare)
}

/// Compares all mirrors; returns the first difference.
fn compare(candidates: &Candidates) -> io::Result<Option<Difference>> {
    let Candidates { members, map, .. } = candidates;
    let mut volume_offset = 0;
    while volume_offset < map.capacity_bytes() {
        let length = STEP_BYTES.min(map.capacity_bytes() - volume_offset);
        let mapped = map.map(volume_offset, length);
        let mut first: Option<(u64, Vec<u8>)> = None;
        for mirror in mapped.mirrors() {
            let (config, open) = &members[mirror.member.get()];
            let bytes = open.read(mirror.offset, mapped.length as u32)?;
            match &first {
                Some((devid, expected)) if *expected != bytes => {
                    let devids = [*devid, config.devid];
                    return Ok(Some(Difference { volume_offset, devids }));
                }
                Some(_) => {}
                None => first = Some((config.devid, bytes)),
            }
        }
        volume_offset += mapped.length;
    }
    Ok(None)
}

fn write_labels(
    creation: &CreateOptions<'_>,
    candidates: Candidates,
    states: &[MemberState],
    resync_from: Option<u64>,
) -> Result<Created, CreateError> {
    let Candidates { members, devices, spares, array, map, notes } = candidates;
    let specs = &creation.array.members;
    let block_bytes = array.block_bytes;
    let system = |error| CreateError::from(AssembleError::System(error));
    let mut rows = Vec::new();
    for (((config, _), spec), &state) in members.iter().zip(specs).zip(states) {
        rows.push(LabelledMember {
            uuid: Uuid(random_bytes().map_err(system)?),
            devid: config.devid,
            size_bytes: config.size_bytes,
            state,
            lacks_repairs: false,
            write_mostly: spec.write_mostly,
            rotational: spec.rotational,
            optimal_io_bytes: spec.optimal_io_bytes,
            priority: spec.priority,
        });
    }
    let id = u64::from_le_bytes(random_bytes().map_err(system)?).max(1);
    let mut label = Label {
        array,
        generation: 1,
        lineage: Lineage::new(DataId(id)),
        is_clean: true,
        resync_from,
        policy: creation.policy.policy.clone(),
        program: creation.policy.program.clone(),
        members: rows,
        spares: Vec::new(),
        is_read_only: false,
    };
    for (device, open) in &spares {
        let size_bytes = open.size_bytes() - open.size_bytes() % block_bytes;
        let spare = write_spare(open, &label, size_bytes);
        label.spares.push(spare.map_err(|error| write_error(device, error))?);
    }
    for ((_, open), device) in members.iter().zip(&devices) {
        clear_metadata(open).map_err(|error| write_error(device, error))?;
    }
    for (generation, slot) in (1..).zip(LABEL_SLOTS) {
        label.generation = generation;
        for (((_, open), device), row) in members.iter().zip(&devices).zip(&label.members) {
            let block = label.encode(row.uuid, slot);
            open.write(slot, &block).map_err(|error| write_error(device, error))?;
        }
    }
    let sizes = label.members.iter().map(|member| member.size_bytes);
    let checksum_bytes = match label.array.has_checksums {
        true => checksum_table_bytes(label.array.profile, sizes),
        false => 0,
    };
    Ok(Created { label, map, checksum_bytes, notes })
}

fn write_error(device: &str, error: io::Error) -> CreateError {
    CreateError::Write { device: device.to_owned(), error }
}
