//! Assembly: builds an executor from an array file, with emulated or real members.

mod backing;
mod clear;
mod create;
pub(crate) mod durable_label;
mod fallback;
pub(crate) mod labelled;
mod layout_notes;
mod occupied;
mod open;
pub(crate) mod replacement;
mod restore;
pub(crate) mod spare;
mod start_policy;
mod wipe;

use crate::Volume;
use crate::clock::{Clock, Speed};
use crate::driver::{BackendKind, Driver, Platform};
use crate::executor::{Executor, Target};
use crate::export::Export;
use crate::member::file::{Occupied, OpenError};
use crate::member::{NewMember, Source};
use crate::reopen::OpenMember;
use crate::spares::FoundSpare;
pub use backing::BackingError;
use backing::open_backing;
pub use clear::{ClearError, clear};
pub use create::{CreateError, CreateOptions, Created, create};
pub use labelled::{LabelledError, LabelledOptions, serve_labelled};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::geometry::ChunkMap;
use mirrorball_core::member::{MemberConfig, MemberIndex, Members};
#[cfg(test)]
use mirrorball_core::policies::Spec;
use mirrorball_core::policy::ReadPolicy;
use mirrorball_core::units::BLOCK_BYTES;
#[cfg(test)]
use mirrorball_disk::array_file::ArrayFile;
use mirrorball_disk::array_file::{ArraySpec, MemberSource};
use mirrorball_nbd::client::ClientError;
use mirrorball_nbd::uri::{NbdUri, UriError};
pub use restore::{RestoreError, Restored, restore, saved_label};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const PARITY_HELP: &str = "use a profile with copies, such as raid1 or raid1c3; for \
     parity on real disks make an md array, with `mdadm --create`. `emulate` serves disk models \
     with parity";

/// Where emulated members keep their data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    Memory,
    /// Nowhere: reads return zeroes.
    Nothing,
    /// In sparse files `member-DEVID.img` of a folder. Missing ones are created.
    Folder {
        path: PathBuf,
        /// Treatment of existing files of other programs.
        existing: Occupied,
    },
    /// In a sparse file, which is created if missing; for one member.
    File {
        path: PathBuf,
        /// Treatment of an existing file of another program.
        existing: Occupied,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExportMode {
    /// One volume over all.
    Volume,
    /// Each member, without a volume.
    Members,
}

pub struct EmulateOptions<'a> {
    pub array: &'a ArraySpec,
    pub shape: ExportMode,
    pub policy: Box<dyn ReadPolicy>,
    pub policy_name: Option<String>,
    pub backing: Backing,
    pub speed: Speed,
    pub seed: u64,
    /// I/O backend; io_uring if available, else threads, if not given.
    pub backend: Option<BackendKind>,
}

/// An executor, and what to export from it.
pub struct Assembly {
    pub executor: Executor,
    pub exports: Vec<Export>,
    /// Opens real members again before a rebuild.
    pub opener: Option<Arc<dyn OpenMember>>,
    pub spares: Vec<FoundSpare>,
    /// Notes for the user, a line each.
    pub notes: Vec<String>,
    pub name: String,
    /// Name of the policy of the volume, if there is one.
    pub policy: Option<String>,
}

/// Why an array cannot be assembled.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    #[error(transparent)]
    Array(#[from] Diagnostic),
    #[error("{error}{help}")]
    Open {
        error: OpenError,
        /// Advice, if `error` does not give it.
        help: String,
    },
    /// A file or device is too small for a member.
    #[error("`{device}` (devid {devid}) has {size}, but a member needs at least {needed}{help}")]
    TooSmall {
        device: String,
        devid: u64,
        size: String,
        /// The least size.
        needed: String,
        help: String,
    },
    /// The file ends before the member does.
    #[error(
        "`{}` has {size_bytes} bytes, but the `size` of the member with devid {devid} is \
         more\n  help: reduce it, or enlarge the file", path.display()
    )]
    TooShort { devid: u64, path: PathBuf, size_bytes: u64 },
    #[error(transparent)]
    Uri(#[from] UriError),
    /// A remote member cannot be attached to.
    #[error("cannot attach to the remote member `{uri}`: {error}\n  help: {}", match error {
        ClientError::Unfit(_) => "give an export that fits",
        _ => "check that an NBD server with this export listens there",
    })]
    Attach { uri: Box<NbdUri>, error: ClientError },
    /// The file or export cannot replace the one that was open.
    #[error("`{place}` {what}")]
    Unfit {
        /// The path or URI.
        place: String,
        /// Why not.
        what: String,
    },
    /// Members do not fit the profile.
    #[error(transparent)]
    Geometry(#[from] mirrorball_core::geometry::GeometryError),
    /// The device of a labelled member was not found.
    #[error("the device of the member with devid {0} was not found when the volume was started")]
    NotFound(u64),
    /// Two members are the same file or device.
    #[error("`{0}` is given twice\n  help: give each member a file or device of its own")]
    Twice(String),
    /// A backing file cannot be used.
    #[error(transparent)]
    Backing(#[from] BackingError),
    /// A label or the block of a spare cannot be read or written.
    #[error("cannot use `{device}`: {error}\n  help: check the device")]
    Device { device: String, error: io::Error },
    #[error("{0}")]
    System(#[from] io::Error),
}

impl AssembleError {
    /// True for the trouble of a system, a device or a peer, which another try may not have.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            AssembleError::System(_)
                | AssembleError::Device { .. }
                | AssembleError::Attach { error: ClientError::System(_), .. }
        ) || matches!(self, AssembleError::Open { error, .. } if error.is_of_device())
    }

    /// True for the trouble of a single device or peer, which is not in use by another service.
    pub(crate) fn is_of_device(&self) -> bool {
        let is_in_use = match self {
            AssembleError::Attach { error: ClientError::System(error), .. } => {
                error.kind() == io::ErrorKind::AddrInUse
            }
            _ => false,
        };
        self.is_passing() && !is_in_use && !matches!(self, AssembleError::System(_))
    }
}

/// Assembles an array of emulated disks. Fails if a member is real, or a backing file cannot be
/// used.
pub fn emulate(emulation: EmulateOptions<'_>) -> Result<Assembly, AssembleError> {
    let EmulateOptions { array, shape, policy, policy_name, backing, speed, seed, backend } =
        emulation;
    refuse_caches_of_array(array)?;
    let configs = array.member_configs()?;
    let mut notes = Vec::new();
    let mut plans = Vec::new();
    for config in &configs {
        let source = match &backing {
            Backing::Memory => Source::EmulatedMemory,
            Backing::Nothing => Source::EmulatedNothing,
            Backing::File { path, existing } => {
                let size_bytes = config.size_bytes;
                Source::EmulatedFile(open_backing(path, size_bytes, *existing, &mut notes)?)
            }
            Backing::Folder { path, existing } => {
                let path = path.join(format!("member-{}.img", config.devid));
                let size_bytes = config.size_bytes;
                Source::EmulatedFile(open_backing(&path, size_bytes, *existing, &mut notes)?)
            }
        };
        plans.push(NewMember { config: config.clone(), source });
    }
    let volume = match shape {
        ExportMode::Volume => {
            let volume = volume(array.chunk_map()?, configs, policy, seed);
            Some(volume.with_rmw_level(array.rmw_level))
        }
        ExportMode::Members => None,
    };
    let driver = driver(&Platform::System(backend), &mut notes)?;
    let model_array = array.model_array(seed)?;
    let executor = Executor::new(driver, Clock::new(speed), plans, Some(model_array), volume)?;
    let exports = exports(array, shape, &executor, BLOCK_BYTES as u32);
    let (name, policy) = (array.name.clone(), policy_name);
    let spares = Vec::new();
    Ok(Assembly { executor, exports, opener: None, spares, notes, name, policy })
}

/// Refuses an array with a cache tier or a controller's cache in front of it.
fn refuse_caches_of_array(array: &ArraySpec) -> Result<(), Diagnostic> {
    let (table, help) = match (&array.cache, &array.controller) {
        (Some(_), _) => ("cache", ", or give members a `cache` of their own: those are emulated"),
        (None, Some(_)) => ("controller", ""),
        (None, None) => return Ok(()),
    };
    let message =
        format!("`[{table}]`, a cache in front of the whole array, can only be simulated");
    let help = format!("remove `[{table}]`{help}");
    Err(Diagnostic::new(message).in_file(&array.file_name).with_help(help))
}

fn volume(
    map: ChunkMap,
    configs: Vec<MemberConfig>,
    policy: Box<dyn ReadPolicy>,
    seed: u64,
) -> Volume {
    Volume::without_gate(map, Members::new(configs), policy, seed).with_one_buffer()
}

fn driver(platform: &Platform, notes: &mut Vec<String>) -> io::Result<Driver> {
    let (driver, refusal) = platform.driver()?;
    let why = refusal.map(|error| format!(", because io_uring is not available: {error}"));
    notes.push(format!("I/O by {}{}", driver.backend(), why.unwrap_or_default()));
    Ok(driver)
}

fn exports(
    array: &ArraySpec,
    shape: ExportMode,
    executor: &Executor,
    block_bytes: u32,
) -> Vec<Export> {
    let stem = Path::new(&array.file_name).file_stem().unwrap_or_default();
    match shape {
        ExportMode::Volume => {
            let name = stem.display().to_string();
            vec![volume_export(name, array.name.clone(), executor, block_bytes)]
        }
        ExportMode::Members => {
            let members = (0..).zip(executor.members());
            let member = |(index, (config, _)): (u16, (&MemberConfig, _))| {
                let name = format!("member-{}", config.devid);
                let what = match &array.members[usize::from(index)].source {
                    MemberSource::Model(profile) => profile.summary.clone(),
                    MemberSource::Path(path) => path.display().to_string(),
                    MemberSource::Uri(uri) => uri.clone(),
                };
                let target = Target::Member(MemberIndex(index));
                Export {
                    name,
                    description: what,
                    target,
                    size_bytes: executor.size_bytes(target),
                    block_bytes,
                    rotational: config.rotational,
                    is_read_only: false,
                }
            };
            members.map(member).collect()
        }
    }
}

fn volume_export(
    name: String,
    description: String,
    executor: &Executor,
    block_bytes: u32,
) -> Export {
    Export {
        name,
        description,
        target: Target::Volume,
        size_bytes: executor.size_bytes(Target::Volume),
        block_bytes,
        rotational: executor.members().all(|(config, _)| config.rotational),
        is_read_only: executor.volume().is_some_and(Volume::is_read_only),
    }
}

/// An array of emulated disks with their data in memory, whose volume is exported as `pair`, for
/// tests.
#[cfg(test)]
pub(crate) fn emulate_in_memory(
    text: &str,
    shape: ExportMode,
    policy: &str,
    speed: Speed,
    backend: Option<BackendKind>,
) -> Assembly {
    let array = ArrayFile::parse(text, "pair.toml").unwrap().spec;
    let devids: Vec<u64> = array.member_configs().unwrap().iter().map(|it| it.devid).collect();
    let policy = Spec::parse(policy).unwrap().build(&devids).unwrap();
    let (policy_name, backing, seed) = (None, Backing::Memory, 1);
    let array = &array;
    emulate(EmulateOptions { array, shape, policy, policy_name, backing, speed, seed, backend })
        .unwrap()
}
