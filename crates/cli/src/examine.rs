//! `mirrorball examine`: shows the labels of devices, and what they are worth together.

use crate::ctl::condition_text;
use crate::devices;
use crate::ending::{Ending, Failure};
use crate::output_file::{self, Existing, write_bytes};
use crate::screen;
use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use mirrorball_core::policies::{Spec, short_policy_name};
use mirrorball_core::units::format_bytes;
use mirrorball_io::assemble::saved_label;
use mirrorball_io::conditions::{Condition, ReportedState};
use mirrorball_io::device_address::DeviceAddress;
use mirrorball_io::examine::{
    DeviceError, ExaminedDevice, ExaminedVolume, device_text, examine, foreign_contents,
    is_too_small, label_conditions, volumes,
};
use mirrorball_store::label::assembly::{ArrayVerdict, MemberStanding};
use mirrorball_store::label::{BlockError, Label, LabelledMember, LabelledSpare};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Show the labels of devices, and whether the volume that they belong to may start
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads only, and takes no lock: devices may be in use. Exits with code 1 if a \
device has no label or a volume cannot start without --degraded or other options. Name all devices \
that may belong together, or search a folder for them (--scan), where devices without a label are \
left out.

Examples:
  mirrorball examine /dev/sdb /dev/sdc
  mirrorball examine --scan /dev"
)]
pub(crate) struct Args {
    /// Files, block devices or NBD URIs
    #[arg(required_unless_present = "scan", conflicts_with = "scan", value_name = "DEVICE")]
    devices: Vec<String>,

    /// Find the members of labelled volumes in a folder, for example /dev
    #[arg(long, value_name = "DIR")]
    scan: Option<PathBuf>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = ExamineFormat::Text)]
    format: ExamineFormat,

    /// Save the label of a device to a new file, for `create --restore FILE`. Save it again after
    /// each change of members
    #[arg(long, value_name = "FILE", conflicts_with = "scan")]
    save: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ExamineFormat {
    /// Plain text
    Text,
    /// JSON for programs
    Json,
}

#[derive(Debug, Serialize)]
struct Examination {
    volumes: Vec<VolumeReport>,
    /// Devices without a usable label.
    others: Vec<OtherDevice>,
    /// Spares of volumes that were not found, or that do not list them.
    other_spares: Vec<OtherDevice>,
}

#[derive(Debug, Serialize)]
struct VolumeReport {
    name: String,
    uuid: String,
    profile: String,
    layout: String,
    /// The policy, or the fallback of `program`.
    policy: String,
    /// The program that chooses in place of `policy`.
    program: Option<ProgramRow>,
    clean: bool,
    /// Where the part begins whose mirrors were never synchronised; `None` for none.
    resync_from: Option<u64>,
    /// True if data have checksums.
    checksums: bool,
    generation: u64,
    data_id: String,
    /// `start`, `needs-degraded`, `announced`, `incomplete`, `doubtful`, `too-small` or
    /// `other-layout`.
    verdict: &'static str,
    /// Conditions by the newest label.
    conditions: Vec<Condition>,
    members: Vec<MemberRow>,
    spares: Vec<SpareRow>,
    devices: Vec<DeviceReport>,
}

/// A spare, as the newest label describes it.
#[derive(Debug, Serialize)]
struct SpareRow {
    uuid: String,
    size_bytes: u64,
    /// Device, if that was found.
    device: Option<String>,
}

/// A member, as the newest label describes it.
#[derive(Debug, Serialize)]
struct MemberRow {
    devid: u64,
    uuid: String,
    size_bytes: u64,
    /// State by that label, unless its device diverged.
    state: ReportedState,
    device: Option<String>,
}

/// A program, as the newest label describes it.
#[derive(Debug, Serialize)]
struct ProgramRow {
    /// `program:FILE`, with parameters and modifiers.
    reference: String,
    /// Name, with the hash of its object.
    name: String,
    /// True if a fault ended it, so that the volume starts with `policy`.
    has_faulted: bool,
}

/// A device, as its own label describes it.
#[derive(Debug, Serialize)]
struct DeviceReport {
    device: String,
    devid: Option<u64>,
    generation: u64,
    data_id: String,
    standing: String,
}

#[derive(Debug, Serialize)]
struct OtherDevice {
    device: String,
    error: String,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let devices = match &args.scan {
        Some(folder) => scanned(folder)?,
        None => named(&args.devices)?,
    };
    if let Some(file) = &args.save {
        save(file, &devices).map_err(Failure::WrongUse)?;
        let text = format!("saved the label of `{}` in {}\n", devices[0].address, file.display());
        screen::print(&screen::escaped(&text))?;
        return Ok(Ending::Done);
    }
    let found: Vec<VolumeReport> =
        volumes(&devices, &[]).iter().map(|volume| volume_report(volume, &devices)).collect();
    let is_listed = |device: &ExaminedDevice| {
        let name = device.address.to_string();
        let spares = found.iter().flat_map(|volume| &volume.spares);
        spares.into_iter().any(|spare| spare.device.as_ref() == Some(&name))
    };
    let other_spare = |device: &ExaminedDevice| {
        let block = device.spare.as_ref().filter(|_| !is_listed(device))?;
        let error = format!("is a spare of the volume `{}` by its own account only", block.name);
        Some(OtherDevice { device: device.address.to_string(), error })
    };
    let other_spares = devices.iter().filter_map(other_spare).collect();
    let other = |device: &ExaminedDevice| {
        let error = device.label().err().filter(|_| device.spare.is_none())?;
        let error = match foreign_contents(&device.address) {
            Some(what) => format!("{error}: it contains {what}"),
            None => error.to_string(),
        };
        Some(OtherDevice { device: device.address.to_string(), error })
    };
    let others = devices.iter().filter_map(other).collect();
    let examination = Examination { volumes: found, others, other_spares };
    if matches!(args.format, ExamineFormat::Text) {
        say_others(&examination);
    }
    screen::print(&match args.format {
        ExamineFormat::Text => screen::escaped(&text(&examination)),
        ExamineFormat::Json => screen::json(&examination),
    })?;
    let may_start = examination.volumes.iter().all(|volume| volume.verdict == "start");
    let is_well = may_start && examination.others.is_empty();
    Ok(if is_well { Ending::Done } else { Ending::FoundFailure })
}

fn save(file: &Path, devices: &[ExaminedDevice]) -> anyhow::Result<()> {
    let [device] = devices else { bail!("--save saves one label\n  help: give one device") };
    let label = device.label().map_err(|error| anyhow!("`{}`: {error}", device.address))?;
    output_file::check(file, Existing::Stays)?;
    let written = write_bytes(file, &saved_label(&label.found), Existing::Stays);
    written.with_context(|| format!("cannot write {}", file.display()))
}

fn named(devices: &[String]) -> Result<Vec<ExaminedDevice>, Failure> {
    let addresses = devices::parse(devices)?;
    if let Some(device) = DeviceAddress::first_repeated(&addresses) {
        let text = format!("{device} is given twice\n  help: give each device once");
        return Err(Failure::WrongUse(anyhow!(text)));
    }
    Ok(examine(addresses))
}

/// The devices of a folder that have a label, or had one that is damaged.
fn scanned(folder: &Path) -> Result<Vec<ExaminedDevice>, Failure> {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for device in examine(devices::scan(folder)?) {
        match device.label() {
            Err(DeviceError::Label(BlockError::Absent)) if device.spare.is_none() => {}
            Err(DeviceError::Unreadable(why)) => {
                unreadable.push(format!("`{}` ({why})", device.address));
            }
            Ok(_) | Err(DeviceError::Label(_)) => found.push(device),
        }
    }
    let folder = folder.display();
    if let Some(first) = unreadable.first() {
        let count = unreadable.len();
        screen::say(format_args!(
            "note: of the devices in {folder}, {count} cannot be read, the first of them {first}; \
             a user who may read them sees their labels"
        ));
    }
    if found.is_empty() {
        let help = "`mirrorball create` makes a volume of files and devices";
        let text = format!("{folder}: no member of a volume was found\n  help: {help}");
        return Err(Failure::WrongUse(anyhow!(text)));
    }
    Ok(found)
}

fn volume_report(volume: &ExaminedVolume, devices: &[ExaminedDevice]) -> VolumeReport {
    let newest = &volume.assembly.newest;
    let address = |at: usize| devices[volume.devices[at]].address.to_string();
    let members = newest.members.iter().zip(&volume.assembly.members).map(|(row, member)| {
        let LabelledMember { devid, uuid, size_bytes, state, .. } = row;
        MemberRow {
            devid: *devid,
            uuid: uuid.to_string(),
            size_bytes: *size_bytes,
            state: match row.has_device() {
                true if member.has_diverged => ReportedState::Diverged,
                true => (*state).into(),
                false => ReportedState::Removed,
            },
            device: member.found.map(address),
        }
    });
    let too_small: Vec<usize> =
        (0..volume.devices.len()).filter(|&at| is_too_small_member(volume, devices, at)).collect();
    let reports = volume.devices.iter().enumerate().filter_map(|(at, &index)| {
        let found = &devices[index].label().ok()?.found;
        Some(DeviceReport {
            device: devices[index].address.to_string(),
            devid: newest.row(found.member).map(|row| newest.members[row].devid),
            generation: found.label.generation,
            data_id: data_id(&found.label),
            standing: match too_small.contains(&at) {
                true => "too small: the device is smaller than its label says".to_owned(),
                false => device_text(volume, devices, at),
            },
        })
    });
    VolumeReport {
        name: newest.array.name.clone(),
        uuid: volume.uuid.to_string(),
        profile: newest.array.profile.to_string(),
        layout: newest.array.layout.to_string(),
        policy: Spec::parse(&newest.policy).map_or(newest.policy.clone(), |it| it.to_string()),
        program: newest.program.as_ref().map(|program| ProgramRow {
            reference: program.reference.clone(),
            name: program.name.clone(),
            has_faulted: program.has_faulted,
        }),
        clean: newest.is_clean,
        resync_from: newest.resync_from,
        checksums: newest.array.has_checksums,
        generation: newest.generation,
        data_id: data_id(newest),
        verdict: match &volume.verdict {
            Ok(ArrayVerdict::Start | ArrayVerdict::NeedsDegraded { .. })
                if !too_small.is_empty() =>
            {
                "too-small"
            }
            Ok(ArrayVerdict::Doubtful) if are_doubtful(&too_small, volume) => "too-small",
            Ok(ArrayVerdict::Start) => "start",
            Ok(ArrayVerdict::NeedsDegraded { .. }) => "needs-degraded",
            Ok(ArrayVerdict::Announced { .. }) => "announced",
            Ok(ArrayVerdict::Incomplete { .. }) => "incomplete",
            Ok(ArrayVerdict::Doubtful) => "doubtful",
            Err(_) => "other-layout",
        },
        conditions: label_conditions(volume, devices),
        members: members.collect(),
        spares: newest.spares.iter().map(|spare| spare_row(spare, newest, devices)).collect(),
        devices: reports.collect(),
    }
}

/// Returns true if the device at this index of a volume is used, or seems an older copy, and is
/// smaller than its member. Its newest records may be in the part that is gone.
fn is_too_small_member(volume: &ExaminedVolume, devices: &[ExaminedDevice], at: usize) -> bool {
    let device = &devices[volume.devices[at]];
    let newest = &volume.assembly.newest;
    let row = device.label().ok().and_then(|label| newest.row(label.found.member));
    let is_old_copy = volume.assembly.standings[at] == MemberStanding::OldCopy;
    let is_used = |row: &usize| is_old_copy || volume.assembly.members[*row].found == Some(at);
    let row = row.filter(is_used).map(|row| &newest.members[row]);
    row.is_some_and(|row| is_too_small(&device.address, row))
}

/// Returns true if the devices at these indexes are all that only the user can decide about.
fn are_doubtful(too_small: &[usize], volume: &ExaminedVolume) -> bool {
    let mut standings = volume.assembly.standings.iter().enumerate();
    standings.all(|(at, standing)| too_small.contains(&at) || !standing.is_doubtful())
}

fn spare_row(spare: &LabelledSpare, newest: &Label, devices: &[ExaminedDevice]) -> SpareRow {
    let is_it = |device: &&ExaminedDevice| {
        let block = device.spare.as_ref();
        block.is_some_and(|it| it.volume == newest.array.uuid && it.uuid == spare.uuid)
    };
    SpareRow {
        uuid: spare.uuid.to_string(),
        size_bytes: spare.size_bytes,
        device: devices.iter().find(is_it).map(|device| device.address.to_string()),
    }
}

fn data_id(label: &Label) -> String {
    format!("{:016x}", label.lineage.id.0)
}

fn program_text(program: &ProgramRow) -> String {
    let ProgramRow { reference, name, has_faulted } = program;
    let name = short_policy_name(name);
    let how = if *has_faulted { "ended by a fault" } else { "chooses in place of the policy" };
    format!("  {reference} ({name}): {how}\n")
}

fn text(examination: &Examination) -> String {
    let mut text = String::new();
    for volume in &examination.volumes {
        let VolumeReport { name, uuid, profile, layout, policy, .. } = volume;
        let clean = match volume.clean {
            true => "stopped in good order",
            false => "in use, or not stopped in good order",
        };
        let verdict = match volume.verdict {
            "start" => "it can start, unless a server has it open (not tested)",
            "needs-degraded" => {
                "members are missing: it starts only with --degraded or --read-only"
            }
            "announced" => {
                "it cannot start without a member that others were rebuilt from: `serve` says more"
            }
            "incomplete" => "it cannot start: some data are on no member in sync",
            "doubtful" => "it cannot start: its devices do not agree",
            "too-small" => "it cannot start: a device is smaller than its member",
            _ => "it cannot start: this version lays it out in another way",
        };
        text += &format!("volume `{name}`: {verdict}\n  UUID {uuid}\n");
        text.extend(volume.conditions.iter().map(condition_text));
        text += &format!("  {clean}\n  profile {profile}, layout {layout}, policy {policy}\n");
        if let Some(from) = volume.resync_from {
            let from = format_bytes(from);
            text += &format!("  the first synchronisation has come to {from}\n");
        }
        text.extend(volume.program.as_ref().map(program_text));
        if volume.checksums {
            text += "  data have checksums\n";
        }
        text += &format!("  generation {}, data id {}\n", volume.generation, volume.data_id);
        for member in &volume.members {
            // A device with its UUID may be there that is not used; it is listed below.
            let is_its = |device: &&DeviceReport| device.devid == Some(member.devid);
            let its: Vec<&DeviceReport> = volume.devices.iter().filter(is_its).collect();
            let MemberRow { devid, size_bytes, state, .. } = member;
            let device = match (&member.device, &its[..]) {
                (Some(device), _) => device.clone(),
                (None, []) if *state == ReportedState::Removed => "no device".to_owned(),
                (None, []) => "missing".to_owned(),
                (None, [other]) => format!("`{}` is not used", other.device),
                (None, several) => {
                    let names: Vec<String> =
                        several.iter().map(|device| format!("`{}`", device.device)).collect();
                    format!("{} devices: {}", names.len(), names.join(", "))
                }
            };
            let size = format_bytes(*size_bytes);
            text += &format!("  devid {devid}: {}, {size}, {device}\n", state.name());
        }
        for SpareRow { uuid, size_bytes, device } in &volume.spares {
            let device = device.as_deref().unwrap_or("missing");
            let size = format_bytes(*size_bytes);
            text += &format!("  spare: {size}, {device} (UUID {uuid})\n");
        }
        for device in &volume.devices {
            let DeviceReport { device, generation, data_id, standing, .. } = device;
            text += &format!(
                "  `{device}`: {standing}; its label has generation {generation}, data id \
                 {data_id}\n"
            );
        }
    }
    for OtherDevice { device, error } in &examination.other_spares {
        text += &format!("`{device}` {error}\n");
    }
    screen::broken(&text)
}

/// The pattern of all files in a folder.
fn in_folder(folder: &str) -> String {
    Path::new(folder).join("*").display().to_string()
}

/// Says which devices have no label, and what to give instead.
fn say_others(examination: &Examination) {
    for OtherDevice { device, error } in &examination.others {
        let is_folder = Path::new(device).is_dir();
        let error = if is_folder { "is a folder" } else { error };
        let help = if is_folder {
            format!("give the files and devices in it, for example {}", in_folder(device))
        } else if device.ends_with(".toml") {
            "an array file is not a member: give the files and devices that it names".to_owned()
        } else if error.contains("Permission denied") {
            "run as root, or as a user who may read it".to_owned()
        } else if error.contains("No such file") {
            "give the path of a file or device, or the URI of an NBD export".to_owned()
        } else {
            "give members that `mirrorball create` has labelled; if a label was overwritten, its \
             `--restore FILE` writes back one that was saved"
                .to_owned()
        };
        screen::say(format_args!("error: `{device}` {error}\n  help: {help}"));
    }
}
