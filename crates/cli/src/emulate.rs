//! `mirrorball emulate`: modelled disks as real block devices.

use crate::ending::{Ending, Failure};
use crate::serving::{self, ListenArgs};
use anyhow::anyhow;
use mirrorball_core::suggest::closest_name;
use mirrorball_core::units::parse_bytes;
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};
use mirrorball_disk::profile::ModelProfile;
use mirrorball_io::assemble::{self, AssembleError, Backing, EmulateOptions, ExportMode};
use mirrorball_io::clock::Speed;
use mirrorball_lab::experiment::inputs::load_array;
use std::path::{Path, PathBuf};

/// Make modelled disks block devices that take as long as the disks would
#[derive(Debug, clap::Args)]
#[command(after_help = "Data are really stored and read back; how long each request takes is the \
model's. How much later than the model said requests ended is in `mirrorball ctl stats`, as \
lateness; past a bound the figures are refused.

Examples:
  mirrorball emulate hdd-7k2-desktop --size 100G --export nbd:unix:/tmp/hdd.sock
  mirrorball emulate two-hdd-raid1 --policy latency-rr --export nbd:unix:/tmp/volume.sock
  mirrorball emulate arrays/hdd-ssd-raid1.toml --members --backing disks --export nbd:tcp:10809
  mirrorball emulate two-hdd-raid1 --members --export fuse:/tmp/disks --loop
  mirrorball emulate two-hdd-raid1 --members --export ublk
  fio --name=try --ioengine=nbd --uri='nbd+unix:///?socket=/tmp/hdd.sock' --rw=randread")]
pub(crate) struct Args {
    /// A built-in model, an array file or a built-in array
    #[arg(value_name = "MODEL|ARRAY")]
    what: String,

    /// Size of the disk, for a model: 500G, 2TB [default: the model's own]
    #[arg(long, value_parser = parse_bytes)]
    size: Option<u64>,

    #[command(flatten)]
    listen: ListenArgs,

    /// Serve each member of the array as a device of its own, instead of one volume
    #[arg(long)]
    members: bool,

    /// The read policy of the volume
    #[arg(short, long, default_value = "mirrorball/auto", conflicts_with = "members")]
    policy: String,

    /// Where the data are: `memory`, `none` (reads bring zeroes), or a path: a sparse file for one
    /// disk, a folder of them for an array
    #[arg(long, default_value = "memory")]
    backing: String,

    /// How fast time passes for the disks: 10x makes them ten times as fast
    #[arg(long, default_value = "1x", value_parser = Speed::parse)]
    speed: Speed,

    /// End with exit code 1 if the figures of a disk are refused because it was late
    #[arg(long)]
    check: bool,

    /// Whatever is random in the models comes from here
    #[arg(short, long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let is_model = ModelProfile::builtin_names().any(|name| name == args.what);
    let array = match is_model {
        true => one_disk(&args.what, args.size)?,
        false if !can_name_array(&args.what) => return Err(unknown(&args.what)),
        false if args.size.is_some() => {
            let text = "--size is for one model; an array file says how large its members are";
            return Err(Failure::WrongUse(anyhow!(text)));
        }
        false => load_array(&args.what).map_err(Failure::WrongUse)?.1,
    };
    let shape = if args.members || is_model { ExportMode::Members } else { ExportMode::Volume };
    let backing = match args.backing.as_str() {
        "memory" => Backing::Memory,
        "none" => Backing::Nothing,
        path if is_model => Backing::File(path.into()),
        path => Backing::Folder(folder(path)?),
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

/// Whether this may name an array: a built-in one, or a file.
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
    Failure::WrongUse(anyhow!("there is neither a model nor an array called `{what}` ({hint})"))
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
    made.map_err(|error| Failure::WrongUse(anyhow!("cannot make the folder `{path}`: {error}")))?;
    Ok(path.into())
}
