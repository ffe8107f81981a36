//! `mirrorball serve`: a mirrored volume on real files and devices.

use crate::devices;
use crate::ending::{Ending, Failure};
use crate::numbers;
use crate::programs;
use crate::serving::{self, ListenArgs};
use anyhow::{anyhow, bail};
use mirrorball_core::diagnostic::quoted;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};
use mirrorball_io::assemble::{self, Assembly, LabelledError, LabelledOptions};
use mirrorball_io::device_address::DeviceAddress;
use mirrorball_io::driver::Platform;
use mirrorball_io::examine::DeviceError;
use mirrorball_io::member::file::{Caching, MemberAccess, Occupied, OpenOptions};
use mirrorball_lab::experiment::inputs::load_array_file;
use mirrorball_store::label::Uuid;
use std::path::{Path, PathBuf};

/// Serve a volume on real files and block devices
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A volume that `mirrorball create` has labelled starts from the paths of its \
members, in any order, or from a folder with them (--scan). It starts only if every member that \
was in sync is there; --degraded or --read-only starts it without those that are missing.

Exit code 1 if a member is missing, so that it may start later; 3 if only you can decide, as between
devices that do not agree while none is missing; 2 if the command is wrong.

Examples:
  mirrorball serve /dev/sdb /dev/sdc --export nbd:unix:/tmp/volume.sock
  mirrorball serve --scan /dev --volume data --export fuse:/run/data"
)]
pub(crate) struct Args {
    /// Members of a volume: files, block devices or NBD URIs
    #[arg(value_name = "DEVICE")]
    devices: Vec<String>,

    #[command(flatten)]
    listen: ListenArgs,

    /// Find the members in a folder, for example /dev
    #[arg(long, value_name = "DIR", conflicts_with = "devices")]
    scan: Option<PathBuf>,

    /// Name of the volume, if members of several are found, or its UUID, if several have this
    /// name
    #[arg(long, value_name = "NAME")]
    volume: Option<String>,

    /// Start although members that were in sync are missing. A missing member is rebuilt at the
    /// next start with its device, or by `ctl members replace`
    #[arg(long)]
    degraded: bool,

    /// Serve the volume read-only, also if members are missing, and write nothing to any member
    #[arg(long)]
    read_only: bool,

    /// Give up the data of a member that does not agree with the others, and rebuild it from them.
    /// If DEVICE is a second copy of a member that is there, it is neither used nor changed. The
    /// UUID of a member that is missing gives it up as lost. May be given several times
    #[arg(long, value_name = "DEVICE|UUID")]
    discard: Vec<String>,

    /// Read policy, as `mirrorball policies` lists it [default: the one in the labels]
    #[arg(short, long)]
    policy: Option<String>,

    /// Disconnect a remote member that has not answered a request for this time with its unit, for
    /// example 500ms or 30s; at least 10ms
    #[arg(long, value_name = "TIME", default_value = "30s", allow_hyphen_values = true,
          value_parser = peer_timeout)]
    peer_timeout: Nanos,

    /// Use block devices even if they contain a filesystem or a partition table in front of the
    /// data of the volume. A device in use is refused even so
    #[arg(long)]
    occupied: bool,

    /// Read and write members through the page cache, instead of with direct I/O
    #[arg(long)]
    buffered: bool,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    args.check_devices().map_err(Failure::WrongUse)?;
    if args.read_only && !args.discard.is_empty() {
        let text = "--discard cannot be used with --read-only: a discarded member is rebuilt, and \
                    --read-only writes nothing\n  help: leave one of them out";
        return Err(Failure::WrongUse(anyhow!(text)));
    }
    let addresses = match &args.scan {
        Some(folder) => devices::scan(folder)?,
        None => devices::parse(&args.devices)?,
    };
    serving::run(args.assemble(addresses)?, &args.listen)?;
    Ok(Ending::Done)
}

impl Args {
    /// Checks that there are devices, and no array file among them.
    fn check_devices(&self) -> anyhow::Result<()> {
        if self.devices.is_empty() && self.scan.is_none() {
            bail!("no member is given\n  help: give devices, or --scan DIR");
        }
        let is_array = |name: &&String| {
            name.ends_with(".toml")
                || (!Path::new(name).exists() && ArrayFile::builtin(name).is_ok())
        };
        match self.devices.iter().find(is_array) {
            Some(name) => Err(array_refusal(name, &load_array_file(name)?.1)),
            None => Ok(()),
        }
    }

    fn options(&self) -> OpenOptions {
        OpenOptions {
            access: if self.read_only { MemberAccess::ReadOnly } else { MemberAccess::ReadWrite },
            caching: if self.buffered { Caching::Buffered } else { Caching::Direct },
            occupied: if self.occupied { Occupied::Allow } else { Occupied::Refuse },
            report_wait: devices::report_wait,
        }
    }

    fn assemble(&self, addresses: Vec<DeviceAddress>) -> Result<Assembly, Failure> {
        let (policy, registry) = match self.policy.as_deref().map(programs::load).transpose()? {
            Some((policy, registry)) => (Some(policy), registry),
            // For the program that the labels may name. A machine that cannot run programs serves
            // volumes all the same, by the fallback.
            None => (None, programs::registry().unwrap_or_default()),
        };
        let is_uuid = |text: &&String| text.parse::<Uuid>().is_ok();
        let (lost, discarded): (Vec<&String>, Vec<&String>) =
            self.discard.iter().partition(is_uuid);
        let lost = lost.into_iter().flat_map(|text| text.parse()).collect();
        let serving = LabelledOptions {
            devices: addresses,
            is_scan: self.scan.is_some(),
            volume: self.volume.clone(),
            discarded: devices::parse(discarded)?,
            lost,
            degraded: self.degraded,
            options: self.options(),
            peer_timeout: self.peer_timeout,
            policy,
            registry,
            platform: Platform::System(self.listen.backend.map(serving::Backend::kind)),
        };
        assemble::serve_labelled(serving).map_err(|error| match error {
            error @ LabelledError::Nothing => Failure::WrongUse(match &self.scan {
                Some(folder) => anyhow!("{}: {error}", folder.display()),
                None => error.into(),
            }),
            LabelledError::Assemble(error) if error.is_passing() => Failure::Fault(error.into()),
            error @ LabelledError::Unreadable { error: DeviceError::Unreadable(_), .. } => {
                Failure::Fault(error.into())
            }
            error @ (LabelledError::Doubtful { lacks_member: false, .. }
            | LabelledError::ReadOnlyFeatures(_)) => Failure::NeedsUser(error.into()),
            error @ (LabelledError::Doubtful { .. }
            | LabelledError::NeedsDegraded { .. }
            | LabelledError::Announced(_)
            | LabelledError::Incomplete { .. }
            | LabelledError::NothingLeft { .. }) => Failure::Fault(error.into()),
            error => Failure::WrongUse(error.into()),
        })
    }
}

/// The error for an array file in place of members.
fn array_refusal(name: &str, array: &ArraySpec) -> anyhow::Error {
    let Ok(devices) = devices::of_array(array) else {
        return anyhow!(
            "`{name}` is an array of disk models, and `serve` serves real members\n  help: \
             `mirrorball emulate {name}` serves disk models"
        );
    };
    let devices: Vec<String> = devices.iter().map(|it| quoted(&it.to_string())).collect();
    anyhow!(
        "`{name}` is an array file, and volumes are served by the labels of their members\n  help: \
         write labels with `mirrorball create {name}`, which destroys what the members contain, \
         then run `mirrorball serve {}`",
        devices.join(" ")
    )
}

/// Parses --peer-timeout, with a lower limit below which healthy peers would be disconnected.
fn peer_timeout(text: &str) -> Result<Nanos, String> {
    match numbers::duration(text)? {
        time if time >= Nanos::from_millis(10) => Ok(time),
        _ => Err("must be at least 10ms".to_owned()),
    }
}
