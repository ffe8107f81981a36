//! Creating a volume: writes labels to the members of an array file.
//!
//! The metadata area of each member, from 4 KiB to 1 MiB, is zeroed first, so that no block of an
//! earlier volume is left. Then each slot is written on all members, and flushed, before the next:
//! a crash leaves either no volume or one that can be created again.

use super::layout_notes::layout_notes;
use super::occupied::occupant;
use super::open::{MemberOpener, Open, OpenPurpose};
use super::wipe::{clear_metadata, wipe};
use super::{AssembleError, PARITY_HELP};
use crate::driver::Platform;
use crate::kept_policy::KeptPolicy;
use crate::member::file::{Occupied, OpenOptions};
use mirrorball_core::geometry::{ChunkMap, Profile, RESERVED_BYTES};
use mirrorball_core::member::{MemberConfig, MemberIndex, MemberState};
use mirrorball_core::units::{BLOCK_BYTES, Nanos, format_bytes};
use mirrorball_disk::array_file::{ArraySpec, MemberSource, MemberSpec};
use mirrorball_store::checksum::CHECKSUM_BLOCK_BYTES;
use mirrorball_store::label::{
    DataId, LABEL_SLOTS, LABELLED_MEMBERS_MAX, Label, LabelledArray, LabelledMember, LabelledSpare,
    Lineage, NAME_BYTES_MAX, SPARE_OFFSET, SPARES_MAX, SpareBlock, Uuid, checksum_table_bytes,
    map_checksum,
};
use std::io;

pub struct CreateOptions<'a> {
    pub array: &'a ArraySpec,
    pub name: String,
    pub policy: KeptPolicy,
    /// True if data have checksums, in a table at the end of each member.
    pub checksums: bool,
    /// How devices are opened. [`Occupied::Allow`] gives up what they hold.
    pub options: OpenOptions,
    pub platform: Platform,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Created {
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
    Occupied { device: String, what: String },
    /// A member is a disk model.
    #[error(
        "cannot label the member with devid {devid}: it is a disk model, not a file or \
         device\n  help: {help}"
    )]
    Model { devid: u64, help: &'static str },
    #[error("--name: {0}")]
    Name(String),
    /// The array file has something that labels cannot describe.
    #[error("cannot label the array: {0}")]
    Unfit(String),
    #[error("{0}: parity is simulated and emulated, not served\n  help: {PARITY_HELP}")]
    Parity(Profile),
    /// A device cannot be read or written.
    #[error("cannot write to `{device}`: {error}\n  help: check the device")]
    Write { device: String, error: io::Error },
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

/// Creates a volume. What the members held is lost. Fails if the array cannot be labelled, a device
/// is in use or holds data, or cannot be written.
pub fn create(creation: &CreateOptions<'_>) -> Result<Created, CreateError> {
    let candidates = open_candidates(creation)?;
    let members = candidates.members.iter().map(|(_, open)| open).zip(&candidates.devices);
    clear_occupants(members, creation)?;
    clear_occupants(candidates.spares.iter().map(|(device, open)| (open, device)), creation)?;
    let is_empty = candidates.members.iter().all(|(_, open)| open.is_hole());
    let has_redundancy = candidates.map.tolerated_failures() > 0;
    let resync_from = (has_redundancy && !is_empty).then_some(0);
    write_labels(creation, candidates, resync_from)
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

fn open_candidates(creation: &CreateOptions<'_>) -> Result<Candidates, CreateError> {
    let CreateOptions { array, name, policy, checksums, options, platform } = creation;
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
    check_name(name).map_err(CreateError::Name)?;
    if let Err(what) = policy.check_length() {
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
    let opener = MemberOpener::new(array, OpenPurpose::Create, *options, Nanos::from_secs(30));
    let opener = opener.on(platform);
    opener.check_distinct()?;
    let members = (0..array.members.len())
        .map(|index| opener.open(MemberIndex(index as u16), &mut notes))
        .collect::<Result<Vec<(MemberConfig, Open)>, AssembleError>>()?;
    let configs: Vec<MemberConfig> = members.iter().map(|(config, _)| config.clone()).collect();
    let mut map = opener.allocate(array, &configs)?;
    let block_bytes = members.iter().map(|(_, open)| open.block_bytes()).max();
    let mut labelled = LabelledArray {
        uuid: Uuid(platform.random_bytes().map_err(AssembleError::from)?),
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

/// Checks that a volume may have this name; the error says why not, and what to do.
fn check_name(name: &str) -> Result<(), String> {
    let help = "\n  help: give another one with --name";
    if name.is_empty() {
        return Err(format!("the name is empty{help}"));
    }
    if name.len() > NAME_BYTES_MAX {
        let (length, most) = (name.len(), NAME_BYTES_MAX);
        return Err(format!("the name has {length} bytes, but may have {most}{help}"));
    }
    for (letter, what) in [('/', "a slash"), ('\n', "a line end")] {
        if name.contains(letter) {
            return Err(format!("`{name}` contains {what}{help}"));
        }
    }
    Ok(())
}

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
    platform: &Platform,
    open: &Open,
    label: &Label,
    size_bytes: u64,
) -> io::Result<LabelledSpare> {
    let spare = LabelledSpare { uuid: Uuid(platform.random_bytes()?), size_bytes, replaces: None };
    clear_metadata(open)?;
    let (volume, name) = (label.array.uuid, label.array.name.clone());
    let block = SpareBlock { volume, uuid: spare.uuid, name };
    open.write(SPARE_OFFSET, &block.encode())?;
    open.flush()?;
    Ok(spare)
}

fn write_labels(
    creation: &CreateOptions<'_>,
    candidates: Candidates,
    resync_from: Option<u64>,
) -> Result<Created, CreateError> {
    let Candidates { members, devices, spares, array, map, notes } = candidates;
    let (specs, platform) = (&creation.array.members, &creation.platform);
    let block_bytes = array.block_bytes;
    let system = |error| CreateError::from(AssembleError::System(error));
    let mut rows = Vec::new();
    for ((config, _), spec) in members.iter().zip(specs) {
        rows.push(LabelledMember {
            uuid: Uuid(platform.random_bytes().map_err(system)?),
            devid: config.devid,
            size_bytes: config.size_bytes,
            state: MemberState::InSync,
            lacks_repairs: false,
            is_kept_out: false,
            write_mostly: spec.write_mostly,
            rotational: spec.rotational,
            optimal_io_bytes: spec.optimal_io_bytes,
            priority: spec.priority,
        });
    }
    let id = u64::from_le_bytes(platform.random_bytes().map_err(system)?).max(1);
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
        bad_blocks_generation: 0,
        is_read_only: false,
    };
    for (device, open) in &spares {
        let size_bytes = open.size_bytes() - open.size_bytes() % block_bytes;
        let spare = write_spare(platform, open, &label, size_bytes);
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
