//! Assembly of an md raid1 by its own metadata, version 1.2: read-only, and only from members whose
//! data are known to be those of the array.
//!
//! What md records, and what follows from it:
//!
//! - *Events* count the changes of the array. A member with fewer than the most was left out of
//!   writes, and is not read.
//! - The *table of roles* of a member says which members it knows to be in sync. Those with the
//!   most events must agree. An active member with fewer events that does not call them active ran
//!   without them: the two halves have different data, and only the user can say which to read.
//! - An array that is not *clean* was not stopped in good order, and its members may differ where
//!   it was written last. md resynchronises them; a reader who may not write reads only one,
//!   so that a block reads the same each time.
//! - A member that is being recovered, or that has bad blocks, has not all data. It is not read.
//!
//! Non-goals: writing; other levels and versions; bitmaps, which say what to resynchronise.
//!
//! Sources: `super_1_validate` in `md.c` of Linux; [`md_superblock`](crate::md_superblock).

mod members;
mod opener;
#[cfg(test)]
mod tests;

use super::open::{MemberOpener, Open, OpenPurpose};
use super::{AssembleError, Assembly, driver, volume_export};
use crate::clock::{Clock, Speed};
use crate::device_address::DeviceAddress;
use crate::driver::BackendKind;
use crate::executor::Executor;
pub use crate::md_superblock::SuperblockError;
use crate::md_superblock::{has_bad_blocks, superblock_from};
use crate::member::file::{MemberAccess, OpenOptions};
use crate::member::{NewMember, Source};
use members::{Assembled, FoundMember, assemble};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::geometry::{ChunkMap, MAX_COPIES};
use mirrorball_core::member::{MemberConfig, MemberState, Members};
use mirrorball_core::policies::Registry;
use mirrorball_core::units::{BLOCK_BYTES, Nanos};
use mirrorball_core::volume::Volume;
use opener::MdDevices;
use std::sync::Arc;

/// How to serve an md raid1.
pub struct MdOptions {
    /// Its members, in any order.
    pub devices: Vec<DeviceAddress>,
    /// How devices are opened; without write access.
    pub options: OpenOptions,
    /// How long remote members may owe a reply.
    pub peer_timeout: Nanos,
    /// The policy.
    pub policy: String,
    /// The programs that `policy` may name.
    pub registry: Registry,
    /// I/O backend; io_uring if available, else threads, if not given.
    pub backend: Option<BackendKind>,
}

/// Why an md array cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum MdError {
    /// The superblock of a device cannot be used.
    #[error("`{device}` {error}\n  help: {}", help(error))]
    Superblock {
        /// The device.
        device: String,
        /// Why.
        error: SuperblockError,
    },
    /// Devices are of different arrays.
    #[error(
        "`{one}` and `{other}` are members of different md arrays\n  help: give the members of \
         one array"
    )]
    Several {
        /// The first device.
        one: String,
        /// The first of another array.
        other: String,
    },
    /// Two devices are the same member.
    #[error(
        "`{one}` and `{other}` are the same member of the md array `{name}`: one is a copy of \
         the other\n  help: give only one of them"
    )]
    Cloned {
        /// The array.
        name: String,
        /// The first device.
        one: String,
        /// The second.
        other: String,
    },
    /// Members ran without each other.
    #[error(
        "`{one}` and `{other}` ran without each other as the md array `{name}`, so their data \
         differ\n  help: give only the devices whose data you want to read"
    )]
    Diverged {
        /// The array.
        name: String,
        /// A device.
        one: String,
        /// One that it calls faulty, or that calls it so.
        other: String,
    },
    /// No device has all data.
    #[error(
        "no device has all data of the md array `{name}`: {reasons}\n  help: give its other members"
    )]
    Incomplete {
        /// The array.
        name: String,
        /// Why each one has not.
        reasons: String,
    },
    /// The array has no members, or more than a volume has copies.
    #[error(
        "the md array `{name}` has {raid_disks} members; from 1 to {MAX_COPIES} can be served\n  \
         help: assemble it with `mdadm --assemble --readonly`, and serve the md device"
    )]
    Members {
        /// The array.
        name: String,
        /// Its members.
        raid_disks: u32,
    },
    /// A device is smaller than its data.
    #[error(
        "`{device}` has {size_bytes} bytes, but the data of the md array `{name}` on it end at \
         {needed_bytes}: it was truncated, or is not the whole device\n  help: give the whole \
         device, or leave it out"
    )]
    Shrunk {
        /// The array.
        name: String,
        /// The device.
        device: String,
        /// Its size.
        size_bytes: u64,
        /// The end of the data.
        needed_bytes: u64,
    },
    /// The policy cannot be used.
    #[error("--policy: {0}")]
    Policy(String),
    /// A device cannot be opened, or the system failed.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
}

/// What to do about a superblock that cannot be used.
fn help(error: &SuperblockError) -> &'static str {
    match error {
        SuperblockError::Absent => "give only members of one md array",
        SuperblockError::Damaged | SuperblockError::Malformed(_) => {
            "give only the members that are whole; `mdadm --examine` shows what is left of it"
        }
        SuperblockError::Features(_) => {
            "let md finish: assemble it with `mdadm --assemble`, and serve the md device"
        }
        SuperblockError::Version(_) | SuperblockError::Level(_) => {
            "assemble it with `mdadm --assemble --readonly`, and serve the md device"
        }
    }
}

/// A device that was opened.
struct Device {
    open: Open,
    member: FoundMember,
}

/// Serves an md raid1 read-only. Nothing is written to its members.
///
/// # Errors
/// If the superblocks do not agree, no member has all data, or a device cannot be used.
///
/// # Panics
/// If the devices are to be opened for writing.
pub fn serve_md(serving: MdOptions) -> Result<Assembly, MdError> {
    assert_eq!(serving.options.access, MemberAccess::ReadOnly, "md arrays are only read");
    let mut notes = Vec::new();
    let devices = open_devices(&serving, &mut notes)?;
    let found: Vec<&FoundMember> = devices.iter().map(|device| &device.member).collect();
    let assembled = assemble(&found)?;
    notes.extend(assembled.notes.iter().cloned());
    build(serving, devices, &assembled, notes)
}

/// Opens each device and reads its superblock.
fn open_devices(serving: &MdOptions, notes: &mut Vec<String>) -> Result<Vec<Device>, MdError> {
    if let Some(device) = DeviceAddress::first_repeated(&serving.devices) {
        return Err(AssembleError::Twice(device.to_string()).into());
    }
    let purpose = OpenPurpose::ServeDevices;
    let opener = MemberOpener::of_devices(purpose, serving.options, serving.peer_timeout);
    let device = |address: &DeviceAddress| {
        let open = opener.open_source(&address.source(), notes)?;
        let device = address.to_string();
        let superblock = superblock_from(|offset, length| open.read(offset, length));
        let superblock = superblock.map_err(AssembleError::from)?;
        let superblock = superblock.map_err(|error| MdError::Superblock { device, error })?;
        let list =
            superblock.bad_blocks.map(|list| open.read(list.offset_bytes, list.length_bytes));
        let list = list.transpose().map_err(AssembleError::from)?;
        let has_bad_blocks = list.is_some_and(|list| has_bad_blocks(&list));
        let (device, size_bytes) = (address.to_string(), open.size_bytes());
        Ok(Device { open, member: FoundMember { device, size_bytes, superblock, has_bad_blocks } })
    };
    serving.devices.iter().map(device).collect()
}

/// Builds the executor of an assembled array.
fn build(
    serving: MdOptions,
    devices: Vec<Device>,
    assembled: &Assembled,
    mut notes: Vec<String>,
) -> Result<Assembly, MdError> {
    let Assembled { name, slots, data_offset_bytes, size_bytes, .. } = assembled;
    let devids: Vec<u64> = (1..=slots.len() as u64).collect();
    let wrong = |error: Diagnostic| MdError::Policy(error.to_string());
    let spec = serving.registry.parse(&serving.policy).map_err(wrong)?;
    let policy = spec.build(&devids).map_err(wrong)?;
    let map = ChunkMap::md_raid1(slots.len(), *data_offset_bytes, *size_bytes);
    let block_bytes = devices.iter().map(|device| device.open.block_bytes()).max();
    let block_bytes = block_bytes.unwrap_or(BLOCK_BYTES);
    let address = |slot: &Option<usize>| slot.map(|at| serving.devices[at].clone());
    let opener = MdDevices(slots.iter().map(address).collect());
    let mut devices: Vec<Option<Device>> = devices.into_iter().map(Some).collect();
    let member = |(&devid, slot): (&u64, &Option<usize>)| {
        let usual = MemberConfig::new(devid, data_offset_bytes + size_bytes);
        let Some(Device { open, member }) = slot.and_then(|at| devices[at].take()) else {
            let config = MemberConfig { state: MemberState::Failed, ..usual };
            return NewMember { config, source: Source::Absent };
        };
        let config = open.device_config(devid);
        let write_mostly = member.superblock.write_mostly;
        let config = MemberConfig { size_bytes: usual.size_bytes, write_mostly, ..config };
        NewMember { config, source: open.source() }
    };
    let members: Vec<NewMember> = devids.iter().zip(slots).map(member).collect();
    let configs = members.iter().map(|member| member.config.clone());
    let volume = Volume::new(map, Members::new(configs), policy, 0);
    let volume = volume.with_block_bytes(block_bytes).read_only();
    let driver = driver(serving.backend, &mut notes).map_err(AssembleError::from)?;
    let executor = Executor::new(driver, Clock::new(Speed::REAL), members, None, Some(volume));
    let executor = executor.map_err(AssembleError::from)?;
    let exports = vec![volume_export(name.clone(), name.clone(), &executor, block_bytes as u32)];
    let policy = Some(spec.to_string());
    let (name, spares) = (name.clone(), Vec::new());
    let opener = Some(Arc::new(opener) as _);
    Ok(Assembly { executor, exports, opener, spares, notes, name, policy })
}
