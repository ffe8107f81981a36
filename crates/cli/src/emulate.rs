//! `mirrorball emulate`: disks of a model, served as block devices.

use crate::ending::{Ending, Failure};
use crate::serving::{self, DEFAULT_POLICY, ListenArgs};
use crate::{folders, numbers};
use anyhow::{anyhow, bail};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::geometry::{ARRAY_BYTES_MAX, MEMBER_BYTES_MIN};
use mirrorball_core::suggest::did_you_mean;
use mirrorball_core::units::format_bytes;
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};
use mirrorball_disk::profile::ModelProfile;
use mirrorball_io::assemble::{self, AssembleError, Backing, EmulateOptions, ExportMode};
use mirrorball_io::clock::Speed;
use mirrorball_io::member::file::Occupied;
use mirrorball_lab::experiment::inputs::load_array;
use std::path::{Path, PathBuf};

/// Serve emulated disks with the latency of a disk model
#[derive(Debug, clap::Args)]
#[command(after_help = "The model decides how long each request takes; clients read back what \
they wrote. A busy machine completes requests later than the model says. `mirrorball ctl stats` \
prints this lateness for each disk. If it is above a limit, the measured times of the disk are \
invalid, and the command says so when it ends.

Examples:
  mirrorball emulate hdd-7k2-desktop --size 100G --export nbd:unix:/tmp/hdd.sock
  mirrorball emulate two-hdd-raid1 --policy latency-rr --export nbd:unix:/tmp/volume.sock
  mirrorball emulate arrays/hdd-ssd-raid1.toml --members --backing disks --export nbd:tcp:10809
  mirrorball emulate two-hdd-raid1 --members --export fuse:/tmp/disks --loop
  fio --name=try --ioengine=nbd --uri='nbd+unix:///?socket=/tmp/hdd.sock' --rw=randread")]
pub(crate) struct Args {
    /// Built-in model, array file or built-in array
    #[arg(value_name = "MODEL|ARRAY")]
    what: String,

    /// Size of the disk in bytes, for example 500GiB or 2TB; for a model only [default: the size in
    /// the model]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, value_parser = numbers::size)]
    size: Option<u64>,

    #[command(flatten)]
    listen: ListenArgs,

    /// Serve each member of the array as a separate disk, instead of one volume; for an array only
    #[arg(long)]
    members: bool,

    /// Read policy of the volume, as `mirrorball policies` lists it; for an array only [default:
    /// mirrorball/auto]
    #[arg(short, long, conflicts_with = "members")]
    policy: Option<String>,

    /// Where to store data: `memory`, `none` (data are discarded, reads return zeroes), or a path.
    /// The path is that of a sparse file for a model, and of a folder of such files for an array
    #[arg(long, value_name = "PATH|memory|none", default_value = "memory")]
    backing: String,

    /// Use existing backing files that `emulate` did not create, or whose size is not that of the
    /// disk. Clients overwrite their data. A file that it created is used without this option, also
    /// if another program has written to it since
    #[arg(long)]
    occupied: bool,

    /// Time scale, from 0.001x to 1000x: 10x makes the disks ten times as fast
    #[arg(long, default_value = "1x", allow_hyphen_values = true, value_parser = Speed::parse)]
    speed: Speed,

    /// Exit with code 1 if the measured times of a disk are invalid, because its requests completed
    /// too late
    #[arg(long)]
    check: bool,

    /// Seed of the random numbers of the models
    #[arg(short, long, default_value_t = 1, allow_hyphen_values = true,
          value_parser = numbers::seed)]
    seed: u64,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let is_model = ModelProfile::builtin_names().any(|name| name == args.what);
    let array = match is_model {
        true => one_disk(&args.what, args.size)?,
        false if !can_name_array(&args.what) => return Err(unknown(&args.what)),
        false if args.size.is_some() => {
            return Err(without_effect(
                "--size",
                "the members of an array have sizes of their own",
                "leave it out",
            ));
        }
        false => load_array(&args.what).map_err(Failure::WrongUse)?.1,
    };
    args.check(is_model)?;
    if args.backing.is_empty() {
        let help = "give a file or a folder, or `memory` or `none`";
        return Err(Failure::WrongUse(anyhow!("--backing: the path is missing\n  help: {help}")));
    }
    let shape = if args.members || is_model { ExportMode::Members } else { ExportMode::Volume };
    let policy = args.policy.as_deref().unwrap_or(DEFAULT_POLICY);
    let (spec, policy) = serving::load_policy(policy, &array)?;
    let backing = match args.backing.as_str() {
        "memory" => Backing::Memory,
        "none" => Backing::Nothing,
        path if is_model => Backing::File { path: path.into(), existing: args.existing() },
        path => Backing::Folder { path: folder(path)?, existing: args.existing() },
    };
    if let Backing::File { path, .. } = &backing
        && path.is_dir()
    {
        let path = path.display();
        let text = format!(
            "--backing: {path} is a folder, but a model needs a file\n  help: give for example \
             {path}/disk.img"
        );
        return Err(Failure::WrongUse(anyhow!(text)));
    }
    let emulation = EmulateOptions {
        array: &array,
        shape,
        policy,
        policy_name: (shape == ExportMode::Volume).then(|| spec.to_string()),
        backing,
        speed: args.speed,
        seed: args.seed,
        backend: args.listen.backend.map(serving::Backend::kind),
    };
    let assembly = assemble::emulate(emulation).map_err(|error| match error {
        error @ AssembleError::System(_) => Failure::Fault(error.into()),
        error => Failure::WrongUse(error.into()),
    })?;
    let refused = serving::run(assembly, &args.listen)?;
    Ok(if args.check && refused > 0 { Ending::FoundFailure } else { Ending::Done })
}

impl Args {
    /// Refuses options that have no effect.
    fn check(&self, is_model: bool) -> Result<(), Failure> {
        if is_model && self.members {
            let why = "a model is one disk, not an array";
            return Err(without_effect("--members", why, "leave it out"));
        }
        if is_model && self.policy.is_some() {
            let why = "a model is one disk, which has no mirror";
            return Err(without_effect("--policy", why, "leave it out"));
        }
        if self.occupied && matches!(self.backing.as_str(), "memory" | "none") {
            let backing = &self.backing;
            let why = format!("--backing {backing} uses no files");
            return Err(without_effect("--occupied", &why, "give --backing PATH"));
        }
        Ok(())
    }

    /// Treatment of existing backing files of other programs.
    fn existing(&self) -> Occupied {
        if self.occupied { Occupied::Allow } else { Occupied::Refuse }
    }
}

/// Returns true if `what` can name an array: a built-in one, or a file.
fn can_name_array(what: &str) -> bool {
    let is_path = what.contains(['/', '.']) || Path::new(what).exists();
    is_path || ArrayFile::builtin(what).is_ok()
}

fn without_effect(option: &str, why: &str, help: &str) -> Failure {
    Failure::WrongUse(anyhow!("{option} has no effect here: {why}\n  help: {help}"))
}

fn unknown(what: &str) -> Failure {
    if what.is_empty() {
        return Failure::WrongUse(Diagnostic::empty_name("model or array").into());
    }
    let models: Vec<&str> = ModelProfile::builtin_names().collect();
    let arrays: Vec<&str> = ArrayFile::builtin_names().collect();
    let unknown = Diagnostic::new(format!("no model or array is named `{what}`"));
    let help = did_you_mean(what, models.iter().chain(&arrays).copied());
    let help = help.unwrap_or_else(|| {
        format!(
            "the models are {}; the built-in arrays are {}; other arrays are TOML files",
            models.join(", "),
            arrays.join(", ")
        )
    });
    Failure::WrongUse(unknown.with_help(help).into())
}

fn one_disk(model: &str, size_bytes: Option<u64>) -> Result<ArraySpec, Failure> {
    if let Some(bytes) = size_bytes {
        check_size(model, bytes).map_err(Failure::WrongUse)?;
    }
    let size = size_bytes.map(|bytes| format!("size = \"{bytes}\"\n")).unwrap_or_default();
    let text = format!("profile = \"single\"\n[[member]]\nmodel = \"{model}\"\n{size}");
    let file = ArrayFile::parse(&text, model).map_err(|error| Failure::WrongUse(error.into()));
    Ok(file?.spec)
}

/// Checks the size of a disk of a model. The user wrote no array, so errors of one would mean
/// nothing to them.
fn check_size(model: &str, bytes: u64) -> anyhow::Result<()> {
    let capacities = ModelProfile::builtin(model)?.capacities();
    let least = MEMBER_BYTES_MIN.max(*capacities.start());
    let most = ARRAY_BYTES_MAX.min(*capacities.end());
    let shown = format_bytes(bytes);
    if bytes < least {
        let needed = format_bytes(least);
        bail!(
            "--size: {shown} is too small for an emulated disk\n  help: give at least {least} \
             bytes ({needed})"
        );
    }
    if bytes > most {
        // In bytes: rounded, the limit may be the same text as a size above it.
        bail!(
            "--size: {shown} is too large for the model `{model}`\n  help: give at most {most} \
             bytes"
        );
    }
    Ok(())
}

fn folder(path: &str) -> Result<PathBuf, Failure> {
    folders::create(Path::new(path)).map_err(|error| {
        Failure::WrongUse(error.context("--backing, which is a folder for an array"))
    })?;
    Ok(path.into())
}
