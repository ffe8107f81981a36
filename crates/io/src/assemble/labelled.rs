//! Assembly by label: serves a volume from devices whose labels say what they are.

mod announced;
mod choice;
mod described;
mod error;
mod notes;
mod opened;
mod sizes;
mod spares;

use super::open::{MemberOpener, Open, OpenPurpose};
use super::start_policy::{StartPolicy, start_policy};
use super::{AssembleError, Assembly, ExportMode, driver, exports};
use crate::Volume;
use crate::clock::{Clock, Speed};
use crate::device_address::DeviceAddress;
use crate::driver::Platform;
use crate::examine::{ExaminedDevice, ExaminedVolume, chunk_map, device_text, volumes};
use crate::executor::Executor;
use crate::kept_policy::KeptPolicy;
use crate::member::file::{MemberAccess, OpenOptions};
use crate::member::{NewMember, Source};
use announced::{accept_announcement, announced_text, check_lost};
use choice::{choose, no_such_volume};
use described::array_spec;
pub use error::LabelledError;
use mirrorball_core::geometry::ChunkMap;
use mirrorball_core::member::{MemberConfig, MemberIndex, MemberState, Members};
use mirrorball_core::policies::Registry;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::{ArraySpec, MemberSpec};
use mirrorball_store::label::assembly::{
    ArrayVerdict, AssembledMember, FoundMember, LabelAssembly, MemberStanding,
};
use mirrorball_store::label::{
    Label, LabelledArray, LabelledMember, NewestLabel, SpareBlock, Uuid,
};
use mirrorball_store::{StoreGate, VolumeLabels, has_lost_bad_blocks};
use notes::{discarded_copy, missing_text, not_members, perhaps_older, problems, unsynced_note};
use opened::{Opened, open_devices};
use sizes::check_sizes;
use spares::spares_of;
use std::sync::Arc;

/// How to serve a volume whose members have labels.
pub struct LabelledOptions {
    /// The devices, of which some may belong to no volume if they were found by a scan.
    pub devices: Vec<DeviceAddress>,
    /// True if the devices were found by a scan: those that are not of the volume are left out.
    pub is_scan: bool,
    /// Name or UUID of the volume, if devices may be of several.
    pub volume: Option<String>,
    /// Devices whose data the user gives up.
    pub discarded: Vec<DeviceAddress>,
    /// Members that the user gives up though they are missing: they will not be found again.
    pub lost: Vec<Uuid>,
    /// True if the volume may start without members that were in sync.
    pub degraded: bool,
    /// How devices are opened. Without write access, nothing is written.
    pub options: OpenOptions,
    /// How long remote members may owe a reply.
    pub peer_timeout: Nanos,
    /// The policy, if not the one that the label names.
    pub policy: Option<String>,
    /// The programs that `policy` may name; loads the one of the label.
    pub registry: Registry,
    /// Where the devices are, and the driver.
    pub platform: Platform,
}

/// Serves a volume by the labels of its members. Fails if the labels do not agree, or members are
/// missing. A device that cannot be read or written counts as missing.
pub fn serve_labelled(serving: LabelledOptions) -> Result<Assembly, LabelledError> {
    let mut notes = Vec::new();
    let mut opened = open_devices(&serving, &mut notes)?;
    if opened.devices.is_empty() && !opened.unusable.is_empty() {
        return Err(opened.unusable.remove(0).1);
    }
    let discarded = discarded(&serving, &opened)?;
    let volumes = volumes(&opened.devices, &discarded);
    let mut volume = choose(volumes, &serving, &opened.devices)?;
    notes.extend(check_lost(&volume, &serving)?);
    let LabelledArray { name, profile, .. } = volume.assembly.newest.array.clone();
    if profile.parities() > 0 {
        return Err(LabelledError::Parity { name, profile });
    }
    check_sizes(&volume, &opened)?;
    let mut verdict_notes = check_verdict((&volume, &discarded), &serving, &opened)?;
    let map = chunk_map(&volume.assembly)?;
    // Their labels still count, so no older data are taken for the newest.
    if opened.leave_out(&mut volume, serving.options.access, &mut notes) {
        volume.verdict = Ok(volume.assembly.verdict(&map));
        verdict_notes = check_verdict((&volume, &discarded), &serving, &opened)?;
    }
    notes.extend(verdict_notes);
    notes.extend(opened.faults().map(|fault| format!("{fault}: the volume starts without it")));
    let Opened { devices, opened, spares, .. } = opened;
    let found = volume.devices.iter().filter_map(|&index| devices[index].metadata.as_ref().ok());
    let found: Vec<FoundMember> = found.cloned().collect();
    if has_lost_bad_blocks(&volume.assembly, &found) {
        return Err(LabelledError::BadBlocksLost(name));
    }
    let rows = rows(&volume, opened);
    let array = array_spec(&volume, &devices);
    let spares = spares_of(&volume, spares, &mut notes);
    let assembly = build(&serving, (name, &volume.assembly, map, found), &array, rows, notes)?;
    Ok(Assembly { spares, ..assembly })
}

/// The devices of the members, in the order of the label.
fn rows(volume: &ExaminedVolume, opened: Vec<Result<Open, LabelledError>>) -> Vec<Option<Open>> {
    let mut opened: Vec<Option<Open>> = opened.into_iter().map(Result::ok).collect();
    let LabelAssembly { newest, members, .. } = &volume.assembly;
    let mut row = |(member, row): (&LabelledMember, &AssembledMember)| {
        let open = opened[volume.devices[row.found?]].take().expect("a device is one member");
        Some(open.restricted(member.size_bytes))
    };
    newest.members.iter().zip(members).map(&mut row).collect()
}

/// Why a device without a label cannot be served among others, which have one.
fn no_label(device: String, contents: Option<String>, others: &[ExaminedDevice]) -> LabelledError {
    let labels = others.iter().flat_map(ExaminedDevice::label);
    match labels.map(|it| it.found.label.array.name.clone()).next() {
        Some(volume) => LabelledError::Foreign { device, volume },
        None => {
            let contents = contents.map_or(String::new(), |what| format!(": it contains {what}"));
            LabelledError::NoLabel { device, contents }
        }
    }
}

/// The devices of a scan that are members of the volume that is wanted. Devices of others are
/// neither locked nor complained about.
fn scanned(serving: &LabelledOptions) -> Result<Vec<DeviceAddress>, LabelledError> {
    let examined = crate::examine::examine_on(&serving.platform, serving.devices.clone());
    let labelled: Vec<ExaminedDevice> = examined.into_iter().filter(has_label).collect();
    if let Some(wanted) = &serving.volume
        && !labelled.iter().any(|device| is_wanted(device, serving))
    {
        return Err(no_such_volume(wanted, &labelled));
    }
    let found = volumes(&labelled, &[]);
    if found.len() > 1 {
        // Before a device is opened, which may be in use: another volume may be in service.
        choose(found, serving, &labelled)?;
    }
    let wanted = labelled.into_iter().filter(|device| is_wanted(device, serving));
    Ok(wanted.map(|device| device.address).collect())
}

/// Returns true if a device is a member or a spare.
fn has_label(device: &ExaminedDevice) -> bool {
    device.metadata.is_ok() || device.spare.is_some()
}

fn is_wanted(device: &ExaminedDevice, serving: &LabelledOptions) -> bool {
    let Ok(NewestLabel { found, .. }) = device.label() else {
        let is_called = |wanted: &str, block: &SpareBlock| {
            block.name == wanted || wanted.parse() == Ok(block.volume)
        };
        let wanted = serving.volume.as_deref();
        return device
            .spare
            .as_ref()
            .is_some_and(|it| wanted.is_none_or(|name| is_called(name, it)));
    };
    serving.volume.as_deref().is_none_or(|wanted| is_called(&found.label, wanted))
}

fn is_called(label: &Label, wanted: &str) -> bool {
    label.array.name == wanted || wanted.parse() == Ok(label.array.uuid)
}

/// The indexes of the devices to discard. A device of each volume must be left.
fn discarded(serving: &LabelledOptions, opened: &Opened) -> Result<Vec<usize>, LabelledError> {
    let Opened { devices, unusable, .. } = opened;
    let is_usable = |wanted: &&DeviceAddress| !unusable.iter().any(|(it, _)| it.is_same(wanted));
    let index = |wanted: &DeviceAddress| {
        let found = devices.iter().position(|device| device.address.is_same(wanted));
        found.ok_or_else(|| {
            let known: Vec<String> = devices.iter().map(|it| it.address.to_string()).collect();
            let known = format!("the devices are {}", known.join(", "));
            LabelledError::NotThere { device: wanted.to_string(), known }
        })
    };
    let discarded = serving.discarded.iter().filter(is_usable).map(index);
    let discarded: Vec<usize> = discarded.collect::<Result<_, _>>()?;
    let is_lost = |volume: &ExaminedVolume| volume.devices.iter().all(|it| discarded.contains(it));
    match volumes(devices, &[]).iter().find(|volume| is_lost(volume)) {
        Some(lost) => Err(LabelledError::AllDiscarded(lost.assembly.newest.array.name.clone())),
        None => Ok(discarded),
    }
}

/// Refuses a volume that may not start, some of whose devices are discarded. Returns notes for the
/// user.
fn check_verdict(
    (volume, discarded): (&ExaminedVolume, &[usize]),
    serving: &LabelledOptions,
    opened: &Opened,
) -> Result<Vec<String>, LabelledError> {
    let mut notes = Vec::new();
    let devices = &opened.devices;
    let newest = &volume.assembly.newest;
    let name = newest.array.name.clone();
    let is_read_only = serving.options.access == MemberAccess::ReadOnly;
    if newest.is_read_only && !is_read_only {
        return Err(LabelledError::ReadOnlyFeatures(name));
    }
    let missing = |rows: &[usize]| {
        let names: Vec<String> = rows.iter().map(|&row| missing_text(volume, row)).collect();
        names.join("; ")
    };
    let others = || not_members(volume, discarded, devices) + &opened.faults_text();
    match accept_announcement(volume, discarded, serving)? {
        ArrayVerdict::Announced { rebuilt_from, .. } => {
            return Err(LabelledError::Announced(announced_text(volume, &rebuilt_from, devices)));
        }
        ArrayVerdict::Start => {}
        ArrayVerdict::NeedsDegraded { missing: rows } if serving.degraded || is_read_only => {
            let states = volume.assembly.members.iter().map(|member| member.state);
            let out_of_sync = states.filter(|state| *state != MemberState::InSync).count();
            let is_protected = out_of_sync < chunk_map(&volume.assembly)?.tolerated_failures();
            let how = if is_protected { "with less" } else { "without" };
            notes.push(format!("`{name}` starts {how} redundancy: {}", missing(&rows)));
            notes.push(perhaps_older(newest, is_read_only));
        }
        ArrayVerdict::NeedsDegraded { missing: rows } => {
            let devid = match rows[..] {
                [row] => newest.members[row].devid.to_string(),
                _ => "DEVID".to_owned(),
            };
            let missing = missing(&rows) + &others();
            return Err(LabelledError::NeedsDegraded { name, missing, devid });
        }
        ArrayVerdict::Incomplete { missing: rows } if is_read_only && has_data(volume)? => {
            notes.push(format!(
                "some data of `{name}` are on no member that is in sync, and cannot be read: {}",
                missing(&rows)
            ));
            let is_missing = |&row: &usize| volume.assembly.members[row].found.is_none();
            let is_doubtful = rows.iter().any(is_missing);
            notes.extend(is_doubtful.then(|| perhaps_older(newest, is_read_only)));
        }
        ArrayVerdict::Incomplete { missing: rows } if is_read_only => {
            return Err(LabelledError::NothingLeft { name, missing: missing(&rows) });
        }
        ArrayVerdict::Incomplete { missing: rows } => {
            let missing = missing(&rows) + &others();
            return Err(LabelledError::Incomplete { name, missing });
        }
        ArrayVerdict::Doubtful => {
            let has_clones = volume.assembly.standings.contains(&MemberStanding::Cloned);
            let is_missing = |(row, member): (&LabelledMember, &AssembledMember)| {
                row.has_device() && member.found.is_none() && !member.has_diverged
            };
            let mut rows = newest.members.iter().zip(&volume.assembly.members);
            let lacks_member = !has_clones && rows.any(is_missing);
            let problems = problems(volume, devices);
            return Err(LabelledError::Doubtful { name, problems, lacks_member });
        }
    }
    notes.extend(standing_notes((volume, discarded), opened));
    Ok(notes)
}

/// How the devices of a volume that are not in sync can be used.
fn standing_notes(
    (volume, discarded): (&ExaminedVolume, &[usize]),
    opened: &Opened,
) -> Vec<String> {
    let newest = &volume.assembly.newest;
    let devices = &opened.devices;
    let mut notes = Vec::new();
    let is_left_out = |index: usize| {
        let label = devices[index].label().ok();
        let row = label.and_then(|label| newest.row(label.found.member));
        row.is_some_and(|row| opened.is_too_small_or_unwritable(index, &newest.members[row]))
    };
    for (at, &index) in volume.devices.iter().enumerate() {
        let standing = volume.assembly.standings[at];
        let device = &devices[index].address;
        if discarded.contains(&index) && standing == MemberStanding::Unknown {
            notes.push(discarded_copy(volume, devices, at));
        } else if discarded.contains(&index) && is_left_out(index) {
            // Another note says that it is left out.
            notes.push(format!("`{device}`: its data are discarded (--discard)"));
        } else if discarded.contains(&index) {
            notes.push(format!(
                "`{device}`: its data are discarded (--discard); it is rebuilt from the other \
                 members"
            ));
        } else if standing == MemberStanding::InSync {
            continue;
        } else if is_left_out(index) && !standing.is_doubtful() {
            notes.push(format!("`{device}`: not in sync"));
        } else {
            notes.push(format!("`{device}`: {}", device_text(volume, devices, at)));
        }
    }
    notes
}

/// Returns true if a member has data, if only at its beginning.
fn has_data(volume: &ExaminedVolume) -> Result<bool, LabelledError> {
    let map = chunk_map(&volume.assembly)?;
    let mut rows = (0..).map(MemberIndex).zip(&volume.assembly.members);
    Ok(rows.any(|(index, member)| match member.state {
        MemberState::InSync => true,
        MemberState::Rebuilding { recovered_bytes } => recovered_bytes > map.allocated(index).start,
        MemberState::Failed => false,
    }))
}

/// Builds the executor of a volume: its name, what its labels say, its map and what its devices
/// hold.
fn build(
    serving: &LabelledOptions,
    (name, assembly, map, found): (String, &LabelAssembly, ChunkMap, Vec<FoundMember>),
    array: &ArraySpec,
    rows: Vec<Option<Open>>,
    mut notes: Vec<String>,
) -> Result<Assembly, LabelledError> {
    let newest = &assembly.newest;
    let devids: Vec<u64> = newest.members.iter().map(|member| member.devid).collect();
    let kept = KeptPolicy { policy: newest.policy.clone(), program: newest.program.clone() };
    let started = start_policy(serving.policy.as_deref(), &kept, &serving.registry, &devids);
    let StartPolicy { name: policy_name, policy, note } =
        started.map_err(|error| LabelledError::Policy(error.to_string()))?;
    notes.extend(note);
    let configs = configs(assembly, array, &rows);
    let block_bytes = newest.array.block_bytes;
    let has_mirrors = map.copies() > 1;
    let seed = u64::from_le_bytes(serving.platform.random_bytes().map_err(AssembleError::from)?);
    let labels = VolumeLabels::of(assembly, &found, map.capacity_bytes(), seed);
    let is_read_only = serving.options.access == MemberAccess::ReadOnly;
    let members = Members::new(configs.iter().cloned());
    let volume = Volume::with_gate(map, members, policy, 0, |map, states| {
        Some(StoreGate::new(labels, map, states, is_read_only))
    });
    let mut volume = volume.with_block_bytes(block_bytes).with_one_buffer();
    if has_mirrors {
        notes.extend(unsynced_note(&name, (newest.is_clean, is_read_only), &volume));
    }
    if is_read_only {
        volume = volume.read_only();
    }
    volume.change_gate(StoreGate::commit_announcement);
    let purpose = OpenPurpose::ServeDevices;
    let opener = MemberOpener::new(array, purpose, serving.options, serving.peer_timeout);
    let mut opener = opener.on(&serving.platform);
    opener.block_bytes = block_bytes;
    let driver = driver(&serving.platform, &mut notes).map_err(AssembleError::from)?;
    let sources = rows.into_iter().map(|row| row.map_or(Source::Absent, Open::source));
    let members = configs.into_iter().zip(sources);
    let members = members.map(|(config, source)| NewMember { config, source }).collect();
    let clock = Clock::new(Speed::REAL);
    let executor = Executor::new(driver, clock, members, None, Some(volume));
    let mut executor = executor.map_err(AssembleError::from)?;
    for (member, _) in
        (0..).map(MemberIndex).zip(&assembly.members).filter(|(_, it)| it.has_diverged)
    {
        executor.set_diverged(member);
    }
    let exports = exports(array, ExportMode::Volume, &executor, block_bytes as u32);
    let opener = Some(Arc::new(opener) as _);
    let policy = Some(policy_name);
    let spares = Vec::new();
    Ok(Assembly { executor, exports, opener, spares, notes, name, policy })
}

/// The descriptions of the members for the volume.
fn configs(
    assembly: &LabelAssembly,
    array: &ArraySpec,
    rows: &[Option<Open>],
) -> Vec<MemberConfig> {
    let members = assembly.newest.members.iter().zip(&assembly.members);
    let members = members.zip(array.members.iter().zip(rows));
    let config = |((labelled, assembled), (spec, row)): (
        (&LabelledMember, &AssembledMember),
        (&MemberSpec, &Option<Open>),
    )| {
        let usual = MemberConfig::new(spec.devid, labelled.size_bytes);
        let found = row.as_ref().map(|open| open.config(spec));
        let (size_bytes, state) = (labelled.size_bytes, assembled.state);
        MemberConfig { size_bytes, state, ..found.unwrap_or(usual) }
    };
    members.map(config).collect()
}
