//! Assembly: builds an executor from an array file, with emulated or real members.

mod backing;
mod clear;
mod create;
pub(crate) mod durable_label;
mod fallback;
pub(crate) mod labelled;
mod layout_notes;
mod md;
mod occupied;
mod open;
pub(crate) mod replacement;
pub(crate) mod spare;
mod start_policy;
mod wipe;

use crate::clock::{Clock, Speed};
use crate::driver::{BackendKind, Driver};
use crate::examine::label_from;
use crate::executor::{Executor, Target};
use crate::export::Export;
use crate::member::file::{Occupied, OpenError, OpenOptions};
use crate::member::remote::client::ClientError;
use crate::member::{NewMember, Source};
use crate::mirror_check::{self, BlankMember, Difference, Mismatch};
use crate::nbd_protocol::uri::{NbdUri, UriError};
use crate::reopen::OpenMember;
use crate::spares::FoundSpare;
pub use backing::BackingError;
use backing::open_backing;
pub use clear::{ClearError, clear};
pub use create::{CreateError, CreateOptions, Created, Trust, adopt, create};
pub use labelled::{LabelledError, LabelledOptions, serve_labelled};
pub use md::{MdError, MdOptions, SuperblockError, serve_md};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::geometry::ChunkMap;
use mirrorball_core::member::{MemberConfig, MemberIndex, MemberState, Members};
use mirrorball_core::policy::ReadPolicy;
use mirrorball_core::units::{BLOCK_BYTES, Nanos};
use mirrorball_core::volume::Volume;
use mirrorball_disk::array_file::{ArraySpec, MemberSource};
use occupied::refuse_occupied;
use open::{MemberOpener, Open, OpenMembers, OpenPurpose};
pub use start_policy::{StartPolicy, start_policy};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What to do about a volume with parity.
pub(crate) const PARITY_HELP: &str = "use a profile with copies, such as raid1 or raid1c3; for \
     parity on real disks make an md array, with `mdadm --create`. `emulate` serves disk models \
     with parity";

/// Where emulated members keep their data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// In memory.
    Memory,
    /// Nowhere: reads return zeroes.
    Nothing,
    /// In sparse files `member-DEVID.img` of a folder. Missing ones are created.
    Folder {
        /// The folder.
        path: PathBuf,
        /// What to do about existing files of other programs.
        existing: Occupied,
    },
    /// In a sparse file, which is created if missing; for one member.
    File {
        /// The file.
        path: PathBuf,
        /// What to do about an existing file of another program.
        existing: Occupied,
    },
}

/// What is exported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExportMode {
    /// One volume over all.
    Volume,
    /// Each member, without a volume.
    Members,
}

/// How to emulate an array.
pub struct EmulateOptions<'a> {
    /// The array.
    pub array: &'a ArraySpec,
    /// What to export.
    pub shape: ExportMode,
    /// The policy of the volume, if there is one.
    pub policy: Box<dyn ReadPolicy>,
    /// Its name.
    pub policy_name: Option<String>,
    /// Where the data are kept.
    pub backing: Backing,
    /// Speed of the models' time.
    pub speed: Speed,
    /// Seed of the models.
    pub seed: u64,
    /// I/O backend; io_uring if available, else threads, if not given.
    pub backend: Option<BackendKind>,
}

/// How to serve a volume on real members.
pub struct ServeOptions<'a> {
    /// The array.
    pub array: &'a ArraySpec,
    /// The policy of the volume.
    pub policy: Box<dyn ReadPolicy>,
    /// Its name.
    pub policy_name: String,
    /// How members are opened.
    pub options: OpenOptions,
    /// How long remote members may owe a reply.
    pub peer_timeout: Nanos,
    /// The devid of the member that the others are rebuilt from, if members differ.
    pub trusted: Option<u64>,
    /// I/O backend; io_uring if available, else threads, if not given.
    pub backend: Option<BackendKind>,
}

/// An executor, and what to export from it.
pub struct Assembly {
    /// The executor.
    pub executor: Executor,
    /// The exports.
    pub exports: Vec<Export>,
    /// Opens real members again before a rebuild.
    pub opener: Option<Arc<dyn OpenMember>>,
    /// The spares of the volume that were found.
    pub spares: Vec<FoundSpare>,
    /// Notes for the user, a line each.
    pub notes: Vec<String>,
    /// Name of the volume or array.
    pub name: String,
    /// Name of the policy of the volume, if there is one.
    pub policy: Option<String>,
}

/// Why an array cannot be assembled.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// The array file is invalid.
    #[error(transparent)]
    Array(#[from] Diagnostic),
    /// A member cannot be opened.
    #[error("{error}{help}")]
    Open {
        /// Why.
        error: OpenError,
        /// What to do, if `error` does not say it.
        help: String,
    },
    /// A file or device is too small for a member.
    #[error("`{device}` (devid {devid}) has {size}, but a member needs at least {needed}{help}")]
    TooSmall {
        /// The file or device.
        device: String,
        /// The devid of the member.
        devid: u64,
        /// Its size.
        size: String,
        /// The least size.
        needed: String,
        /// What to do.
        help: String,
    },
    /// A member is of the wrong kind.
    #[error("cannot serve the member with devid {devid}: it is {what}\n  help: {hint}")]
    WrongMember {
        /// The devid of the member.
        devid: u64,
        /// Its kind.
        what: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// The file ends before the member does.
    #[error(
        "`{}` has {size_bytes} bytes, but the `begin` and `size` of the member with devid {devid} \
         need more\n  help: reduce them, or enlarge the file", path.display()
    )]
    TooShort {
        /// The devid of the member.
        devid: u64,
        /// Its file.
        path: PathBuf,
        /// The size of that.
        size_bytes: u64,
    },
    /// The URI of a member is invalid.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// A remote member cannot be attached to.
    #[error(
        "cannot attach to the remote member `{uri}`: {error}\n  help: check \
         that an NBD server with this export listens there"
    )]
    Attach {
        /// Its URI.
        uri: Box<NbdUri>,
        /// Why.
        error: ClientError,
    },
    /// The file or export cannot replace the one that was open.
    #[error("`{place}` {what}")]
    Unfit {
        /// Its path or URI.
        place: String,
        /// Why not.
        what: String,
    },
    /// Members do not fit the profile.
    #[error(transparent)]
    Geometry(#[from] mirrorball_core::geometry::GeometryError),
    /// Mirrors hold different data.
    #[error(
        "{0}, so at least one of them is out of date\n  help: use --trust DEVID to rebuild all \
         other members from the member DEVID, which overwrites their data"
    )]
    Differ(Difference),
    /// A mirror holds no data.
    #[error(
        "{blank}\n  help: start with --trust {}, if that member has the data of the volume: all \
         other members are rebuilt from it", blank.with_data
    )]
    Blank {
        /// The blank member, and the one with data.
        blank: BlankMember,
    },
    /// The device of a labelled member was not found.
    #[error(
        "the device of the member with devid {0} was not found when the volume was started\n  \
         help: start the volume with it again, which copies what it missed, or `ctl members \
         replace {0} DEVICE` rebuilds the member on any device"
    )]
    NotFound(u64),
    /// A member has a label.
    #[error(
        "the members belong to the volume `{0}`, and their labels say which of them are in \
         sync\n  help: serve it with the paths of the members in place of the array file"
    )]
    Labelled(String),
    /// Two members are the same file or device.
    #[error("`{0}` is given twice\n  help: give each member a file or device of its own")]
    Twice(String),
    /// There is no trusted member with this devid.
    #[error(
        "--trust {0}: the array has no member with devid {0}\n  help: `mirrorball check` lists the \
         members of the array"
    )]
    NoSuchMember(u64),
    /// A backing file cannot be used.
    #[error(transparent)]
    Backing(#[from] BackingError),
    /// The system failed.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Assembles an array of emulated disks.
///
/// # Errors
/// If a member is real, or a backing file cannot be used.
pub fn emulate(emulation: EmulateOptions<'_>) -> Result<Assembly, AssembleError> {
    let EmulateOptions { array, shape, policy, policy_name, backing, speed, seed, backend } =
        emulation;
    refuse_array_cache(array)?;
    refuse_controller_of_members(array, shape)?;
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
    let driver = driver(backend, &mut notes)?;
    let model_array = array.model_array(seed)?;
    let mut executor = Executor::new(driver, Clock::new(speed), plans, Some(model_array), volume)?;
    if let Some(controller) = array.controller {
        executor = executor.with_controller(controller);
    }
    let exports = exports(array, shape, &executor, BLOCK_BYTES as u32);
    let (name, policy) = (array.name.clone(), policy_name);
    let spares = Vec::new();
    Ok(Assembly { executor, exports, opener: None, spares, notes, name, policy })
}

/// Assembles an array of real members. Samples of the mirrors are compared, and a difference is an
/// error unless a member is trusted.
///
/// # Errors
/// If a member is modelled, missing or in use, or mirrors differ.
pub fn serve(serving: ServeOptions<'_>) -> Result<Assembly, AssembleError> {
    let ServeOptions { array, policy, policy_name, options, peer_timeout, trusted, backend } =
        serving;
    let mut notes = Vec::new();
    let mut opened = Vec::new();
    let purpose = OpenPurpose::ServeArray;
    let mut opener = MemberOpener::new(array, purpose, options, peer_timeout);
    opener.check_distinct()?;
    for index in 0..array.members.len() {
        let (config, open) = opener.open(MemberIndex(index as u16), &mut notes)?;
        if let Ok(found) = label_from(|offset, length| open.read(offset, length)) {
            return Err(AssembleError::Labelled(found.found.label.array.name));
        }
        opened.push((config, open));
    }
    refuse_parity(array)?;
    let configs: Vec<MemberConfig> = opened.iter().map(|(config, _)| config.clone()).collect();
    let map = opener.allocate(array, &configs)?;
    refuse_occupied(&opened, &map, options, |member| opener.place(member))?;
    match trusted {
        Some(devid) => trust(devid, &mut opened, &mut notes)?,
        None if map.copies() == 1 => {}
        None => match mirror_check::check(&map, &configs, &OpenMembers(&opened))? {
            Ok(equal) => notes.push(equal.to_string()),
            Err(Mismatch::Differ(difference)) => return Err(AssembleError::Differ(difference)),
            Err(Mismatch::Blank(blank)) => return Err(AssembleError::Blank { blank }),
        },
    }
    let block_bytes = opened.iter().map(|(_, open)| open.block_bytes()).max();
    opener.block_bytes = block_bytes.unwrap_or(BLOCK_BYTES);
    let configs = opened.iter().map(|(config, _)| config.clone()).collect();
    let volume = volume(map, configs, policy, 0).with_block_bytes(opener.block_bytes);
    let driver = driver(backend, &mut notes)?;
    let plan = |(config, open): (_, Open)| NewMember { config, source: open.source() };
    let plans = opened.into_iter().map(plan).collect();
    let clock = Clock::new(Speed::REAL);
    let executor = Executor::new(driver, clock, plans, None, Some(volume))?;
    let exports = exports(array, ExportMode::Volume, &executor, opener.block_bytes as u32);
    notes.push(
        "the members have no labels, so nothing is recorded on them: after a crash mirrors may \
         differ, and a member that failed may come back as if it were in sync\n  help: \
         `mirrorball adopt FILE` writes labels, which prevent this"
            .to_owned(),
    );
    let (name, policy) = (array.name.clone(), Some(policy_name));
    let (opener, spares) = (Some(Arc::new(opener) as _), Vec::new());
    Ok(Assembly { executor, exports, opener, spares, notes, name, policy })
}

/// Refuses an array with parity.
///
/// # Errors
/// If the array has parity.
fn refuse_parity(array: &ArraySpec) -> Result<(), Diagnostic> {
    if array.profile.parities() == 0 {
        return Ok(());
    }
    let name = match array.layout.profile(array.members.len()) {
        Some(_) => format!("layout {}", array.layout),
        None => format!("profile {}", array.profile),
    };
    let error = Diagnostic::new(format!("{name}: parity is simulated and emulated, not served"));
    Err(error.in_file(&array.file_name).with_help(PARITY_HELP))
}

/// Refuses an array with a cache tier in front of it.
///
/// # Errors
/// If it has one.
fn refuse_array_cache(array: &ArraySpec) -> Result<(), Diagnostic> {
    if array.cache.is_none() {
        return Ok(());
    }
    let message = "`[cache]`, a cache in front of the whole array, can only be simulated";
    let help = "remove `[cache]`, or give members a `cache` of their own: those are emulated";
    Err(Diagnostic::new(message).in_file(&array.file_name).with_help(help))
}

/// Refuses to export the members of an array with a controller, whose cache is in front of them.
///
/// # Errors
/// If members are exported and the array has a controller.
fn refuse_controller_of_members(array: &ArraySpec, shape: ExportMode) -> Result<(), Diagnostic> {
    if array.controller.is_none() || shape == ExportMode::Volume {
        return Ok(());
    }
    let message = "`--members` exports the disks, and the `[controller]` is in front of them";
    let help = "leave out `--members`, or remove `[controller]`";
    Err(Diagnostic::new(message).in_file(&array.file_name).with_help(help))
}

fn volume(
    map: ChunkMap,
    configs: Vec<MemberConfig>,
    policy: Box<dyn ReadPolicy>,
    seed: u64,
) -> Volume {
    Volume::new(map, Members::new(configs), policy, seed).with_one_buffer()
}

fn driver(backend: Option<BackendKind>, notes: &mut Vec<String>) -> io::Result<Driver> {
    let (driver, refusal) = Driver::new(backend)?;
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

/// The export of the volume of an executor.
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

/// Leaves only the trusted member in sync.
fn trust(
    devid: u64,
    opened: &mut [(MemberConfig, Open)],
    notes: &mut Vec<String>,
) -> Result<(), AssembleError> {
    if !opened.iter().any(|(config, _)| config.devid == devid) {
        return Err(AssembleError::NoSuchMember(devid));
    }
    for (config, _) in opened.iter_mut().filter(|(config, _)| config.devid != devid) {
        config.state = MemberState::Rebuilding { recovered_bytes: 0 };
        notes.push(format!(
            "devid {} is being rebuilt, and is not read before it is in sync",
            config.devid
        ));
    }
    Ok(())
}
