//! `mirrorball emulate`: disks of a model, served as block devices.

use crate::ending::{Ending, Failure};
use crate::serving::{self, ListenArgs};
use anyhow::anyhow;
use mirrorball_core::suggest::closest_name;
use mirrorball_core::units::parse_bytes;
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};
use mirrorball_disk::profile::ModelProfile;
use mirrorball_io::assemble::{self, AssembleError, Backing, EmulateOptions, ExportMode};
use mirrorball_io::clock::Speed;
use mirrorball_io::member::file::Occupied;
use mirrorball_lab::experiment::inputs::load_array;
use std::path::{Path, PathBuf};

/// Serve emulated disks with the latency of a disk model
#[derive(Debug, clap::Args)]
#[command(after_help = "Data are stored and read back; the model decides how long each request \
takes. `mirrorball ctl stats` prints how much later than that requests completed (lateness). Above \
a limit, the figures are refused.

Examples:
  mirrorball emulate hdd-7k2-desktop --size 100G --export nbd:unix:/tmp/hdd.sock
  mirrorball emulate two-hdd-raid1 --policy latency-rr --export nbd:unix:/tmp/volume.sock
  mirrorball emulate arrays/hdd-ssd-raid1.toml --members --backing disks --export nbd:tcp:10809
  mirrorball emulate two-hdd-raid1 --members --export fuse:/tmp/disks --loop
  mirrorball emulate two-hdd-raid1 --members --export ublk
  fio --name=try --ioengine=nbd --uri='nbd+unix:///?socket=/tmp/hdd.sock' --rw=randread")]
pub(crate) struct Args {
    /// Built-in model, array file or built-in array
    #[arg(value_name = "MODEL|ARRAY")]
    what: String,

    /// Size of the disk of a model, for example 500G or 2TB [default: the size in the model]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    size: Option<u64>,

    #[command(flatten)]
    listen: ListenArgs,

    /// Serve each member of the array as a separate disk, instead of one volume
    #[arg(long)]
    members: bool,

    /// Read policy of the volume, as `mirrorball policies` lists it
    #[arg(short, long, default_value = "mirrorball/auto", conflicts_with = "members")]
    policy: String,

    /// Storage for data: `memory`, `none` (reads return zeroes), or a path: a sparse file for a
    /// model, a folder of them for an array
    #[arg(long, default_value = "memory")]
    backing: String,

    /// Use backing files that another program wrote, or whose size is not that of the disk
    #[arg(long)]
    occupied: bool,

    /// Time scale: 10x makes the disks ten times as fast
    #[arg(long, default_value = "1x", value_parser = Speed::parse)]
    speed: Speed,

    /// Exit with code 1 if the figures of a disk are refused because it was late
    #[arg(long)]
    check: bool,

    /// Seed of the random numbers of the models
    #[arg(short, long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let is_model = ModelProfile::builtin_names().any(|name| name == args.what);
    let array = match is_model {
        true => one_disk(&args.what, args.size)?,
        false if !can_name_array(&args.what) => return Err(unknown(&args.what)),
        false if args.size.is_some() => {
            let text = "--size applies to a model; the members of an array have their own sizes";
            return Err(Failure::WrongUse(anyhow!(text)));
        }
        false => load_array(&args.what).map_err(Failure::WrongUse)?.1,
    };
    let shape = if args.members || is_model { ExportMode::Members } else { ExportMode::Volume };
    let backing = match args.backing.as_str() {
        "memory" => Backing::Memory,
        "none" => Backing::Nothing,
        path if is_model => Backing::File { path: path.into(), existing: args.existing() },
        path => Backing::Folder { path: folder(path)?, existing: args.existing() },
    };
    let emulation = EmulateOptions {
        array: &array,
        shape,
        policy: serving::policy(&args.policy, &array)?,
        backing,
        speed: args.speed,
        seed: args.seed,
        backend: args.listen.backend.map(serving::Backend::kind),
    };
    let assembly = assemble::emulate(emulation).map_err(|error| match error {
        error @ AssembleError::System(_) => Failure::Fault(error.into()),
        error => Failure::WrongUse(error.into()),
    })?;
    let policy = (shape == ExportMode::Volume).then_some(args.policy.as_str());
    let refused = serving::run(&array, assembly, &args.listen, policy)?;
    Ok(if args.check && refused > 0 { Ending::FoundFailure } else { Ending::Done })
}

impl Args {
    /// What to do about existing backing files of other programs.
    fn existing(&self) -> Occupied {
        if self.occupied { Occupied::Allow } else { Occupied::Refuse }
    }
}

/// Returns true if `what` can name an array: a built-in one, or a file.
fn can_name_array(what: &str) -> bool {
    let is_path = what.contains(['/', '.']) || Path::new(what).exists();
    is_path || ArrayFile::builtin(what).is_ok()
}

fn unknown(what: &str) -> Failure {
    let models: Vec<&str> = ModelProfile::builtin_names().collect();
    let hint = match closest_name(what, models.iter().copied().chain(ArrayFile::builtin_names())) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("the models are {}; an array is a TOML file", models.join(", ")),
    };
    Failure::WrongUse(anyhow!("no model or array is named `{what}` ({hint})"))
}

/// An array of one disk of a built-in model.
fn one_disk(model: &str, size_bytes: Option<u64>) -> Result<ArraySpec, Failure> {
    let size = size_bytes.map(|bytes| format!("size = \"{bytes}\"\n")).unwrap_or_default();
    let text = format!("profile = \"single\"\n[[member]]\nmodel = \"{model}\"\n{size}");
    let file = ArrayFile::parse(&text, model);
    Ok(file.map_err(|error| Failure::WrongUse(error.into()))?.spec)
}

fn folder(path: &str) -> Result<PathBuf, Failure> {
    let made = std::fs::create_dir_all(path);
    made.map_err(|error| Failure::WrongUse(anyhow!("cannot create folder `{path}`: {error}")))?;
    Ok(path.into())
}
