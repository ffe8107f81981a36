//! `mirrorball create`: writes the labels of a volume.

use crate::ending::{Ending, Failure};
use crate::redundancy::{Redundancy, redundancy_text};
use crate::serving::{self, DEFAULT_POLICY};
use crate::{devices, screen};
use anyhow::{Context, anyhow};
use mirrorball_core::diagnostic::quoted;
use mirrorball_core::units::format_bytes;
use mirrorball_disk::array_file::ArraySpec;
use mirrorball_io::assemble::{
    self, AssembleError, CreateError, CreateOptions, Created, RestoreError,
};
use mirrorball_io::device_address::DeviceAddress;
use mirrorball_io::driver::Platform;
use mirrorball_io::kept_policy::KeptPolicy;
use mirrorball_io::member::file::{Caching, MemberAccess, Occupied, OpenOptions};
use mirrorball_io::programs::ProgramReference;
use mirrorball_lab::experiment::inputs::load_array_file;
use std::path::{Path, PathBuf};

/// Create a volume on files and block devices, whose contents are lost
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Writes a label to each member of the array file: the members of the volume, \
their states, the layout and the read policy. `mirrorball serve` then needs the paths of the \
members only. A member with data of another program is refused, if it is recognised: a filesystem, \
swap space, a partition table, an encrypted volume, a disk image, or a member of md, LVM, ZFS, \
bcache, DRBD or another array; `wipefs DEVICE` lists more. With --checksums, each member keeps \
checksums of the data, and the volume has blocks of 4 KiB.

Example, where pair.toml is
  profile = \"raid1\"
  [[member]]
  path = \"/dev/sdb\"
  [[member]]
  path = \"/dev/sdc\"
and the last line serves the volume:
  mirrorball create pair.toml
  mirrorball serve /dev/sdb /dev/sdc --export nbd:unix:/tmp/volume.sock"
)]
pub(crate) struct CreateArgs {
    /// Array file whose members have a `path` or a `uri`; with --restore, a device
    #[arg(value_name = "ARRAY")]
    array: String,

    // Devices in place of an array file are refused with an example of one.
    #[arg(hide = true)]
    others: Vec<String>,

    /// Name of the volume [default: that of the array]
    #[arg(long)]
    name: Option<String>,

    /// Read policy, as `mirrorball policies` lists it [default: mirrorball/auto]
    #[arg(short, long)]
    policy: Option<String>,

    /// Use files and devices even if they contain a filesystem, a partition table or a member of
    /// another array, and destroy what they contain
    #[arg(long)]
    occupied: bool,

    /// Keep a checksum of each 4 KiB of data: what a disk returns wrong is read from another mirror
    /// and repaired. Takes 4 GiB of each member per TiB of the volume. A volume cannot get them
    /// later. Not for raid5 and raid6
    #[arg(long)]
    checksums: bool,

    /// Write the label that `examine --save FILE` saved to a device in place of ARRAY, whose labels
    /// were overwritten. It is the only member then: `ctl members replace` adds the others
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "policy", "checksums"])]
    restore: Option<PathBuf>,
}

pub(crate) fn create(args: &CreateArgs) -> Result<Ending, Failure> {
    if let Some(saved) = &args.restore {
        return restore(args, saved);
    }
    check_array_file(&args.array, &args.others)?;
    let (_, array) = load_array_file(&args.array).map_err(Failure::WrongUse)?;
    let creation = CreateOptions {
        array: &array,
        name: args.name.as_ref().unwrap_or(&array.name).clone(),
        policy: recorded_policy(args.policy.as_deref().unwrap_or(DEFAULT_POLICY), &array)?,
        checksums: args.checksums,
        options: options(args),
        platform: Platform::System(None),
    };
    let created = assemble::create(&creation).map_err(|error| match error {
        error @ CreateError::Write { .. } => Failure::Fault(error.into()),
        CreateError::Assemble(error @ AssembleError::System(_)) => Failure::Fault(error.into()),
        error => Failure::WrongUse(error.into()),
    })?;
    report(&created, &devices::of_array(&array)?)
}

fn options(args: &CreateArgs) -> OpenOptions {
    OpenOptions {
        access: MemberAccess::ReadWrite,
        caching: Caching::Direct,
        occupied: if args.occupied { Occupied::Allow } else { Occupied::Refuse },
        report_wait: devices::report_wait,
    }
}

/// Writes a saved label to a device.
fn restore(args: &CreateArgs, saved: &Path) -> Result<Ending, Failure> {
    if let Some(other) = args.others.first() {
        let error = format!("--restore writes to one device, and `{other}` is a second");
        return Err(Failure::WrongUse(anyhow!("{error}\n  help: restore them one at a time")));
    }
    let bytes = std::fs::read(saved).with_context(|| format!("cannot read {}", saved.display()));
    let device = devices::parse(std::slice::from_ref(&args.array))?.remove(0);
    let restored = assemble::restore(&bytes.map_err(Failure::WrongUse)?, &device, options(args));
    let restored = restored.map_err(|error| match error {
        error @ RestoreError::Write { .. } => Failure::Fault(error.into()),
        RestoreError::Assemble(error @ AssembleError::System(_)) => Failure::Fault(error.into()),
        error => Failure::WrongUse(error.into()),
    })?;
    let text = format!(
        "`{device}` is the only member of the volume `{}`, and taken to have its data: check \
         them\nserve it with\n  mirrorball serve {} --export ADDRESS --control PATH\n\
         and give each other devid a device with\n  \
         mirrorball ctl --control PATH members replace DEVID DEVICE\n",
        restored.label.array.name,
        quoted(&device.to_string()),
    );
    let lost = match restored.has_lost_bad_blocks {
        true => "its bad blocks are not known any more: what is there is read as data\n",
        false => "",
    };
    screen::print(&screen::escaped(&format!("{text}{lost}")))?;
    Ok(Ending::Done)
}

/// Refuses members in place of an array file, as `serve` takes them.
fn check_array_file(array: &str, others: &[String]) -> Result<(), Failure> {
    let path = Path::new(array);
    let is_member = path.exists() && !path.is_dir() && load_array_file(array).is_err();
    if others.is_empty() && (array.ends_with(".toml") || !is_member) {
        return Ok(());
    }
    let what = match others {
        [] => format!("{array} is not an array file"),
        _ => format!("expected one array file, but there are {} names", others.len() + 1),
    };
    Err(Failure::WrongUse(anyhow!(
        "{what}\n  help: write an array file, such as pair.toml, with profile = \"raid1\" and a \
         [[member]] with a `path` for each device, and give that"
    )))
}

fn recorded_policy(policy: &str, array: &ArraySpec) -> Result<KeptPolicy, Failure> {
    let reference = match ProgramReference::parse(policy) {
        // The service may have another working directory.
        Some(program) => program.with_absolute_path().to_string(),
        None => policy.to_owned(),
    };
    let (spec, _) = serving::load_policy(policy, array)?;
    KeptPolicy::new(&spec, &reference)
        .map_err(|error| Failure::WrongUse(anyhow!("--policy: {error}")))
}

fn report(created: &Created, devices: &[DeviceAddress]) -> Result<Ending, Failure> {
    serving::print_notes(created.notes.iter().cloned());
    let array = &created.label.array;
    let redundancy = Redundancy { copies: created.map.copies(), parities: created.map.parities() };
    let mut text = format!(
        "created volume `{}`: {}, {} members, {}\n  {}\n  UUID {}\n",
        array.name,
        array.profile,
        created.label.members.len(),
        format_bytes(created.map.capacity_bytes()),
        redundancy_text(redundancy, created.map.tolerated_failures()),
        array.uuid,
    );
    if created.checksum_bytes > 0 {
        let size = format_bytes(created.checksum_bytes);
        text += &format!("  checksums of the data take {size} of each member\n");
    } else {
        text += "  no checksums: wrong data that a disk returns as good are not noticed before a \
                 scrub (see --checksums)\n";
    }
    match created.label.spares.len() {
        0 => {}
        1 => text += "  1 spare takes the place of a member that fails\n",
        count => text += &format!("  {count} spares take the places of members that fail\n"),
    }
    if created.label.resync_from.is_some() {
        text += "  the server synchronises the mirrors after the start; the volume can be used \
                 during this time\n";
    }
    let devices: Vec<String> = devices.iter().map(|device| quoted(&device.to_string())).collect();
    text += &format!("serve it with\n  mirrorball serve {} --export ADDRESS\n", devices.join(" "));
    screen::print(&text)?;
    Ok(Ending::Done)
}
