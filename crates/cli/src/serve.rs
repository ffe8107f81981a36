//! `mirrorball serve`: a mirrored volume on real files and devices.

use crate::devices;
use crate::ending::{Ending, Failure};
use crate::numbers;
use crate::programs;
use crate::screen;
use crate::serving::{self, DEFAULT_POLICY, ListenArgs, PolicyFile};
use anyhow::{anyhow, bail};
use mirrorball_core::label::Uuid;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};
use mirrorball_io::assemble::{
    self, AssembleError, Assembly, LabelledError, LabelledOptions, MdError, MdOptions,
    ServeOptions, StartPolicy,
};
use mirrorball_io::device_address::DeviceAddress;
use mirrorball_io::examine::{ExaminedDevice, examine, md_text};
use mirrorball_io::member::file::{Caching, MemberAccess, Occupied, OpenOptions};
use mirrorball_lab::experiment::inputs::load_array_file;
use std::path::{Path, PathBuf};

/// Serve a volume on real files and block devices
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A volume that `mirrorball create` or `mirrorball adopt` has labelled starts from \
the paths of its members, in any order, or from a folder with them (--scan). It starts only if \
every member that was in sync is there; --degraded or --read-only starts it without those that \
are missing.

The members of an md raid1 with metadata of version 1.2 are served with --read-only, by what md \
recorded of them. Nothing is written.

An array file (a path that ends in .toml) whose members have no labels is served without recording \
anything on them. When it starts, samples of all mirrors are compared, and it fails if they \
differ, unless --trust says which one is correct. Such a file, pair.toml, is for example
  profile = \"raid1\"
  [[member]]
  path = \"/srv/one.img\"
  [[member]]
  path = \"/srv/two.img\"
with members made by `truncate -s 10G /srv/one.img /srv/two.img`.

Examples:
  mirrorball serve /dev/sdb /dev/sdc --export nbd:unix:/tmp/volume.sock
  mirrorball serve --scan /dev --volume data --export ublk
  mirrorball serve pair.toml --policy latency-rr --export nbd:unix:/tmp/volume.sock"
)]
pub(crate) struct Args {
    /// Members of a labelled volume: files, block devices or NBD URIs; or an array file
    #[arg(value_name = "DEVICE")]
    devices: Vec<String>,

    #[command(flatten)]
    listen: ListenArgs,

    /// Find the members of a labelled volume in a folder, for example /dev
    #[arg(long, value_name = "DIR", conflicts_with = "devices")]
    scan: Option<PathBuf>,

    /// For labelled members: name of the volume, if members of several are found, or its UUID, if
    /// several have this name
    #[arg(long, value_name = "NAME")]
    volume: Option<String>,

    /// For a labelled volume: start although members that were in sync are missing. A missing
    /// member is rebuilt at the next start with its device, or by `ctl members replace`
    #[arg(long)]
    degraded: bool,

    /// For a labelled volume or the members of an md raid1: serve it read-only, also if members are
    /// missing, and write nothing to any member
    #[arg(long)]
    read_only: bool,

    /// For a labelled volume: give up the data of a member that does not agree with the others, and
    /// rebuild it from them. If DEVICE is a second copy of a member that is there, it is neither
    /// used nor changed. The UUID of a member that is missing
    /// gives it up as lost. May be given several times
    #[arg(long, value_name = "DEVICE|UUID")]
    discard: Vec<String>,

    /// Read policy, as `mirrorball policies` lists it [default: the one in the labels or in the
    /// array file, or mirrorball/auto]
    #[arg(short, long)]
    policy: Option<String>,

    /// For an array file whose members have no labels: devid of the member with the correct data,
    /// if mirrors differ. Its data overwrite those on the other mirrors. The devid is the number of
    /// the member in the array file, from 1
    #[arg(long, value_name = "DEVID", allow_hyphen_values = true, value_parser = numbers::devid)]
    trust: Option<u64>,

    /// Disconnect a remote member that has not answered a request for this time with its unit, for
    /// example 500ms or 30s; at least 10ms
    #[arg(long, value_name = "TIME", default_value = "30s", allow_hyphen_values = true,
          value_parser = peer_timeout)]
    peer_timeout: Nanos,

    /// Use block devices, and files without labels, even if they contain a filesystem, a partition
    /// table or a member of another array. Clients overwrite what they contain. A device in use is
    /// refused even so
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
    let (assembly, file) = match args.array_file() {
        Some(name) => args.serve_array(name)?,
        None => (args.serve_devices()?, None),
    };
    serving::run(assembly, file, &args.listen)?;
    Ok(Ending::Done)
}

impl Args {
    /// The array file, if one was given in place of devices.
    fn array_file(&self) -> Option<&str> {
        let [name] = &self.devices[..] else { return None };
        let is_builtin = !Path::new(name).exists() && ArrayFile::builtin(name).is_ok();
        (name.ends_with(".toml") || is_builtin).then_some(name)
    }

    /// Checks that there are devices, or one array file.
    fn check_devices(&self) -> anyhow::Result<()> {
        if self.devices.is_empty() && self.scan.is_none() {
            bail!("no member is given\n  help: give devices, an array file, or --scan DIR");
        }
        let array = self.devices.iter().find(|name| name.ends_with(".toml"));
        if let Some(array) = array.filter(|_| self.devices.len() > 1) {
            bail!(
                "an array file must be the only argument, but there are {}\n  help: give {array} \
                 alone, or the devices alone",
                self.devices.len()
            );
        }
        if let Some(devid) = self.trust.filter(|_| self.array_file().is_none()) {
            bail!(
                "--trust {devid}: it is for an array file whose members have no labels\n  help: to \
                 give up the data of a member, use --discard DEVICE"
            );
        }
        Ok(())
    }

    /// The first of the options that only members with labels have.
    fn option_for_labels(&self) -> Option<&'static str> {
        let given = [
            ("--read-only", self.read_only),
            ("--degraded", self.degraded),
            ("--discard", !self.discard.is_empty()),
            ("--volume", self.volume.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
    }

    fn options(&self) -> OpenOptions {
        OpenOptions {
            access: if self.read_only { MemberAccess::ReadOnly } else { MemberAccess::ReadWrite },
            caching: if self.buffered { Caching::Buffered } else { Caching::Direct },
            occupied: if self.occupied { Occupied::Allow } else { Occupied::Refuse },
            report_wait: devices::report_wait,
        }
    }

    /// Serves an array file; returns the file, too, if it keeps the policy.
    fn serve_array(&self, name: &str) -> Result<(Assembly, Option<PolicyFile>), Failure> {
        let (input, array) = load_array_file(name).map_err(Failure::WrongUse)?;
        let StartPolicy { name: policy_name, policy, note } =
            serving::start_policy(self.policy.as_deref(), &array)?;
        let serving = ServeOptions {
            array: &array,
            policy,
            policy_name,
            options: self.options(),
            peer_timeout: self.peer_timeout,
            trusted: self.trust,
            backend: self.listen.backend.map(serving::Backend::kind),
        };
        match (assemble::serve(serving), self.option_for_labels()) {
            (Ok(_), Some(option)) => {
                let without = match option {
                    "--read-only" => "without --read-only, clients can write to the volume",
                    _ => "or leave it out",
                };
                Err(Failure::WrongUse(anyhow!(
                    "{option} needs a labelled volume, but the members of the array file have no \
                     labels\n  help: label them with `mirrorball adopt`; {without}"
                )))
            }
            (Err(AssembleError::Labelled(_)), _) => Ok((self.serve_members_of(&array)?, None)),
            (
                Err(
                    error @ (AssembleError::System(_)
                    | AssembleError::Differ(_)
                    | AssembleError::Blank { .. }),
                ),
                _,
            ) => Err(Failure::Fault(error.into())),
            (Err(error), _) => Err(Failure::WrongUse(error.into())),
            (Ok(mut assembly), None) => {
                assembly.notes.extend(note);
                let file = PolicyFile::new(name, input.text, array.policy.clone());
                Ok((assembly, file))
            }
        }
    }

    /// Serves an array file whose members have labels: it says where they are, and their labels
    /// say all else.
    fn serve_members_of(&self, array: &ArraySpec) -> Result<Assembly, Failure> {
        if let Some(devid) = self.trust {
            let text = format!(
                "--trust {devid}: the members have labels that say which of them are in \
                 sync\n  help: to give up the data of a member, use --discard DEVICE"
            );
            return Err(Failure::WrongUse(anyhow!(text)));
        }
        let (labelled, others): (Vec<ExaminedDevice>, Vec<ExaminedDevice>) =
            examine(devices::of_array(array)?).into_iter().partition(|it| it.label.is_ok());
        for ExaminedDevice { address, label, .. } in &others {
            if let Err(error) = label {
                screen::say(format_args!("note: `{address}` {error}; it is left out"));
            }
        }
        self.serve_labelled(labelled.into_iter().map(|device| device.address).collect())
    }

    fn serve_devices(&self) -> Result<Assembly, Failure> {
        let addresses = match &self.scan {
            Some(folder) => devices::scan(folder)?,
            None => devices::parse(&self.devices)?,
        };
        let md = addresses.iter().find_map(|address| Some((address, md_text(address)?)));
        match md.filter(|_| self.scan.is_none()) {
            Some(_) if self.read_only => self.serve_md(addresses),
            Some((device, what)) => Err(Failure::WrongUse(anyhow!(
                "`{device}` {what}\n  help: an md array is only read: give --read-only, or \
                 assemble it with `mdadm --assemble`; `mirrorball create` makes a new volume and \
                 destroys the data"
            ))),
            None => self.serve_labelled(addresses),
        }
    }

    /// Serves an md raid1 by its own metadata.
    fn serve_md(&self, devices: Vec<DeviceAddress>) -> Result<Assembly, Failure> {
        if self.volume.is_some() {
            let text = "--volume is for members with labels\n  help: leave it out, and give the \
                        members of one md array";
            return Err(Failure::WrongUse(anyhow!(text)));
        }
        let (policy, registry) = programs::load(self.policy.as_deref().unwrap_or(DEFAULT_POLICY))?;
        let serving = MdOptions {
            devices,
            options: self.options(),
            peer_timeout: self.peer_timeout,
            policy,
            registry,
            backend: self.listen.backend.map(serving::Backend::kind),
        };
        assemble::serve_md(serving).map_err(|error| match error {
            MdError::Assemble(AssembleError::System(error)) => Failure::Fault(error.into()),
            error @ (MdError::Diverged { .. } | MdError::Incomplete { .. }) => {
                Failure::Fault(error.into())
            }
            error => Failure::WrongUse(error.into()),
        })
    }

    fn serve_labelled(&self, addresses: Vec<DeviceAddress>) -> Result<Assembly, Failure> {
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
            backend: self.listen.backend.map(serving::Backend::kind),
        };
        assemble::serve_labelled(serving).map_err(|error| match error {
            error @ LabelledError::Nothing => Failure::WrongUse(match &self.scan {
                Some(folder) => anyhow!("{}: {error}", folder.display()),
                None => error.into(),
            }),
            LabelledError::Assemble(AssembleError::System(error)) => Failure::Fault(error.into()),
            error @ (LabelledError::Doubtful { .. }
            | LabelledError::NeedsDegraded { .. }
            | LabelledError::Announced(_)
            | LabelledError::Incomplete { .. }
            | LabelledError::NothingLeft { .. }) => Failure::Fault(error.into()),
            error => Failure::WrongUse(error.into()),
        })
    }
}

/// Parses --peer-timeout, with a lower limit below which healthy peers would be disconnected.
fn peer_timeout(text: &str) -> Result<Nanos, String> {
    match numbers::duration(text)? {
        time if time >= Nanos::from_millis(10) => Ok(time),
        _ => Err("must be at least 10ms".to_owned()),
    }
}
