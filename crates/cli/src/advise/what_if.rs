//! `--what-if`: the same question about the array after a change of its disks, its layout or its
//! read-ahead.

mod change;

use super::Args;
use super::question::Question;
use super::target::{self, AdviseTarget};
use crate::ending::Failure;
use crate::screen;
use anyhow::{Context, Result, anyhow, bail};
use change::NewDisk;
use mirrorball_core::geometry::{ArrayLayout, GeometryError, Profile};
use mirrorball_core::member::MemberState;
use mirrorball_core::units::{Nanos, format_bytes};
use mirrorball_disk::array_file::{
    AddedMember, ArrayEdit, ArrayFile, ArraySpec, MemberSource, MemberSpec,
};
use mirrorball_disk::profile::ModelProfile;
use mirrorball_lab::evaluation::advice::answer::{ArrayAnswer, OutOfService, RankedChange};
use mirrorball_lab::evaluation::advice::question::{AdviceQuestion, Share};
use mirrorball_lab::experiment::inputs::load_array;
use mirrorball_lab::experiment::systems::{self, Commands, System};

pub(crate) use change::ArrayChange;

/// Value of `--what-if` where none is given.
pub(super) const EACH: &str = "each";

/// Amounts of read-ahead to try: the default of block devices, that of btrfs, and between.
const READ_AHEAD_KIB: [u64; 3] = [128, 1024, 4096];

/// The target with a disk in the place of each missing member that a change replaces, if no read
/// has a choice of members without it; and the changes that are left.
pub(super) fn with_missing_replaced(
    args: &Args,
    mut target: AdviseTarget,
) -> Result<(AdviseTarget, Vec<ArrayChange>), Failure> {
    let changes = args.what_if.clone();
    if changes.is_empty() {
        return Ok((target, changes));
    }
    let (_, spec) = load_array(&target.array).map_err(Failure::WrongUse)?;
    if target::check_choice(&target.array, &spec).is_ok() {
        return Ok((target, changes));
    }
    let is_missing = |change: &ArrayChange| match change {
        ArrayChange::Replace { devid, .. } => spec.members.iter().any(|member| {
            member.devid == *devid && !member.is_in_service() && member.device.is_none()
        }),
        _ => false,
    };
    let (made, left): (Vec<ArrayChange>, Vec<ArrayChange>) =
        changes.into_iter().partition(is_missing);
    if made.is_empty() {
        return Ok((target, left));
    }
    let file = target::read(&target.array).map_err(Failure::WrongUse)?;
    let mut edit = ArrayEdit::new(&file);
    for change in &made {
        if let ArrayChange::Replace { devid, disk } = change {
            let replaced = replace(&mut edit, &spec, *devid, disk).context("--what-if");
            replaced.map_err(Failure::WrongUse)?;
            let failed = OutOfService { devid: *devid, is_failed: true, recovered_bytes: 0 };
            target.out_of_service.push(failed);
        }
    }
    let name = format!("{}-what-if", spec.name);
    let path = target::save(&name, &edit.text()).map_err(Failure::WrongUse)?;
    target.array = path.display().to_string();
    target.planned = made.iter().map(ToString::to_string).collect();
    let condition = target.condition.or(spec.source.and_then(|source| source.condition));
    target.condition = Some(condition.unwrap_or_else(|| "degraded".to_owned()));
    Ok((target, left))
}

/// The question about the changed array; `None` if no change is asked for, or each. Fails if there
/// is no such member or model, or the array cannot be changed like this.
pub(super) fn changed(
    args: &Args,
    changes: &[ArrayChange],
    question: &Question,
) -> Result<Option<Question>, Failure> {
    if changes.is_empty() {
        return Ok(None);
    }
    if changes.contains(&ArrayChange::Each) && changes.len() > 1 {
        let error = "--what-if without a change tries each by itself\n  help: leave out the others";
        return Err(Failure::WrongUse(anyhow!(error)));
    }
    let text = edited(changes, question).context("--what-if").map_err(Failure::WrongUse)?;
    if changes == [ArrayChange::Each] {
        return Ok(None);
    }
    let name = format!("{}-what-if", question.asked.inputs.array.name);
    let path = target::save(&name, &text).map_err(Failure::WrongUse)?;
    let path = path.display().to_string();
    let mut changed = Question::about(
        args,
        &path,
        &question.asked.chosen,
        &question.asked.options.jobs,
        Share::Whole,
        &question.asked.durations,
    )?;
    let is_replaced = |devid: u64| {
        changes.iter().any(|change| match change {
            ArrayChange::Replace { devid: replaced, .. } => *replaced == devid,
            _ => false,
        })
    };
    note_if_smaller(changes, question, &changed);
    let out = question.out_of_service.iter().filter(|member| !is_replaced(member.devid));
    changed.out_of_service = out.copied().collect();
    Ok(Some(changed))
}

/// True if both names are of one profile, or of one kind of layout, whatever its copies.
fn is_same_layout(one: &str, other: &str) -> bool {
    let kind = |name: &str| name.parse::<ArrayLayout>().ok().map(|layout| layout.kind());
    one == other || kind(one).is_some_and(|it| kind(other) == Some(it))
}

/// The default of the rule that serves an array of this layout.
fn default_of_layout(system: &System, layout: &str) -> String {
    let of_layout =
        |other: &&System| other.layouts.iter().any(|known| is_same_layout(known, layout));
    let own = |it: &&System| it.name == system.name;
    let mut all = systems::all().iter().filter(|it| own(it) || of_layout(it));
    let other = all.find(|it| !own(it) && system.instead.values().any(|name| name == it.name));
    other.unwrap_or(system).default.clone()
}

/// Tries each sensible single change, and returns them, the one that brings most first; `None` if
/// the run was interrupted. `before` is the answer of the array as it is.
pub(super) fn each(
    args: &Args,
    question: &Question,
    before: &ArrayAnswer,
) -> Result<Option<Vec<RankedChange>>, Failure> {
    let changes = single_changes(question);
    let mut ranked = Vec::new();
    let mut befores: Vec<(Vec<Nanos>, ArrayAnswer)> = Vec::new();
    for change in &changes {
        // A layout may take another number of members.
        let Ok(text) = edited(std::slice::from_ref(change), question) else { continue };
        let name = format!("{}-what-if", question.asked.inputs.array.name);
        let path = target::save(&name, &text).map_err(Failure::WrongUse)?.display().to_string();
        let share = Share::OneOf(changes.len());
        let about = Question::about(
            args,
            &path,
            &question.asked.chosen,
            &question.asked.options.jobs,
            share,
            &question.asked.durations,
        );
        let Ok(changed) = about else { continue };
        let is_detected = question.asked.inputs.array.source.is_some();
        // What a layout without space for the data would bring is of no use.
        if is_detected && space_lost(std::slice::from_ref(change), question, &changed).is_some() {
            continue;
        }
        let Some((after, _)) = changed.answer(args)? else { return Ok(None) };
        let durations = &changed.asked.durations;
        if befores.iter().all(|(known, _)| known != durations) {
            let before = question.as_long_as(args, &changed, before)?;
            let Some(before) = before else { return Ok(None) };
            befores.push((durations.clone(), before));
        }
        let before = befores.iter().find(|(known, _)| known == durations);
        let (_, before) = before.expect("it was added");
        ranked.push(RankedChange::new(change.written(), before, after));
    }
    let gain = |change: &RankedChange| change.gain.unwrap_or(0.0);
    ranked.sort_by(|left, right| gain(right).total_cmp(&gain(left)));
    Ok(Some(ranked))
}

/// Better disks in the place of one member of each kind, of one with errors first; one more disk of
/// the best kind, other layouts, and other amounts of read-ahead. Only disks in the place of a
/// member that is missing, failed or rebuilt, if there is one, since others may have the last copy.
fn single_changes(question: &Question) -> Vec<ArrayChange> {
    let array = &question.asked.inputs.array;
    let mut changes = Vec::new();
    let mut kinds: Vec<(&str, u64)> = Vec::new();
    let mut best: Option<&ModelProfile> = None;
    let is_out =
        |it: &MemberSpec| it.state != MemberState::InSync || question.is_out_of_service(it.devid);
    let has_out = array.members.iter().any(is_out);
    let is_due = |it: &MemberSpec| if has_out { is_out(it) } else { it.errors.is_some() };
    let mut members: Vec<_> = array.members.iter().collect();
    // Of several of a kind, one that is due is the one to replace.
    members.sort_by_key(|it| !is_due(it));
    let out: Vec<u64> = members.iter().filter(|it| is_out(it)).map(|it| it.devid).collect();
    let flash = members.iter().filter_map(|member| match &member.source {
        MemberSource::Model(profile) if !profile.rotational => Some(profile.name.as_str()),
        _ => None,
    });
    let flash: Vec<&str> = flash.filter(|name| ModelProfile::builtin(name).is_ok()).collect();
    for member in members {
        let MemberSource::Model(profile) = &member.source else { continue };
        let is_better = best.is_none_or(|best| best.rotational && !profile.rotational);
        best = if is_better { Some(profile) } else { best };
        let kind = (profile.name.as_str(), profile.capacity_bytes);
        if kinds.contains(&kind) {
            continue;
        }
        kinds.push(kind);
        let better = match profile.rotational {
            // A twin of a flash disk that the array has, too.
            true => [&flash[..], &["ssd-sata-plp", "nvme-gen4"]].concat(),
            false if profile.name.contains("nvme") => Vec::new(),
            false => vec!["nvme-gen4"],
        };
        let replace =
            |model: &&str| ArrayChange::Replace { devid: member.devid, disk: NewDisk::new(model) };
        for change in better.iter().map(replace) {
            if !changes.contains(&change) {
                changes.push(change);
            }
        }
    }
    changes.extend(best.map(|profile| ArrayChange::Add(NewDisk::new(&profile.name))));
    let system = question.asked.chosen.system;
    changes.extend(layouts(system, array).map(ArrayChange::Layout));
    let others = READ_AHEAD_KIB.iter().filter(|kib| **kib != array.host.read_ahead_kb);
    let others = others.filter(|_| system.read_ahead.is_some());
    changes.extend(others.map(|kib| ArrayChange::ReadAhead(*kib)));
    let is_of_out = |change: &ArrayChange| match change {
        ArrayChange::Replace { devid, .. } => out.contains(devid),
        _ => false,
    };
    changes.retain(|change| !has_out || is_of_out(change));
    changes
}

/// The commands of a changed read-ahead; none without one, or if the system has no such command.
pub(super) fn commands(changes: &[ArrayChange], question: &Question) -> Option<Commands> {
    let AdviceQuestion { chosen, inputs, plan, .. } = &question.asked;
    let (system, array) = (chosen.system, &inputs.array);
    let kib = changes.iter().find_map(|change| match change {
        ArrayChange::ReadAhead(kib) => Some(*kib),
        _ => None,
    });
    let knob = system.read_ahead.as_ref()?;
    // A file that was not detected says nothing of the machine, and a pasted text may not.
    let is_detected = array.source.as_ref().is_some_and(|source| source.name.is_some());
    let is_known = is_detected && plan.array.text.contains("read_ahead_kb");
    let previous = is_known.then_some(array.host.read_ahead_kb);
    Some(knob.commands(system, array, kib?, previous))
}

/// Layouts with copies, and profiles of btrfs, that a system has.
fn layouts_of(system: &System) -> Vec<String> {
    let is_kin = |other: &&System| {
        let mut instead = system.instead.values().chain(other.instead.values());
        other.name == system.name || instead.any(|it| it == other.name || it == system.name)
    };
    let kin = systems::all().iter().filter(is_kin);
    let mut names: Vec<String> = kin.flat_map(|it| it.layouts.clone()).collect();
    if names.iter().any(|name| name == "btrfs") {
        names = ["raid1", "raid10", "raid1c3", "raid1c4"].map(str::to_owned).to_vec();
    }
    names.sort();
    names.dedup();
    names
}

/// Fails if the system has no layout of this name with copies, whatever their number.
fn check_layout(system: &System, name: &str) -> Result<()> {
    let known = layouts_of(system);
    if known.iter().any(|known| is_same_layout(known, name)) {
        return Ok(());
    }
    let name = format!("{} has no layout {name} with copies", system.name);
    match known.is_empty() {
        true => bail!("{name}, and none to choose from\n  help: leave out layout="),
        false => bail!("{name}; its layouts are {}", known.join(", ")),
    }
}

/// The layouts of a system, but for the one in use.
fn layouts(system: &System, array: &ArraySpec) -> impl Iterator<Item = String> {
    // A built-in array has the layout of btrfs, which stands for that of the system.
    let (kind, profile) = (array.layout.kind(), array.profile);
    let own = system.layouts.first().filter(|_| array.layout == ArrayLayout::BTRFS);
    layouts_of(system).into_iter().filter(move |name| {
        let is_layout = name.parse::<ArrayLayout>().is_ok_and(|layout| layout.kind() == kind);
        let is_profile = name.parse::<Profile>().is_ok_and(|it| it == profile);
        !is_layout && !is_profile && own != Some(name)
    })
}

/// The space that the array has after the changes, and how much less that is, if it is less.
fn space_lost(changes: &[ArrayChange], before: &Question, after: &Question) -> Option<(u64, u64)> {
    let capacity = |question: &Question| {
        question.asked.inputs.array.chunk_map().map_or(0, |map| map.capacity_bytes())
    };
    let (before, after) = (capacity(before), capacity(after));
    // A layout has members of whole chunks.
    let rounding = if has_layout(changes) { before / 1000 } else { 0 };
    let less = before.saturating_sub(after);
    (less > rounding).then_some((after, less))
}

fn has_layout(changes: &[ArrayChange]) -> bool {
    changes.iter().any(|it| matches!(it, ArrayChange::Layout(_)))
}

/// Says if the array has less space after the changes: a new disk is too small for what it holds,
/// or a layout keeps more copies.
fn note_if_smaller(changes: &[ArrayChange], before: &Question, after: &Question) {
    let Some((after, less)) = space_lost(changes, before, after) else { return };
    let why = match has_layout(changes) {
        true => "its data must fit into that",
        false => "a new disk is smaller than its part of the data, which most systems refuse",
    };
    screen::say(format_args!(
        "note: the volume has {} after the change, {} less than now: {why}",
        format_bytes(after),
        format_bytes(less)
    ));
}

fn size(member: &MemberSpec) -> Option<u64> {
    match (&member.source, member.partition) {
        (MemberSource::Model(_), Some(part)) => Some(part.length_bytes),
        (MemberSource::Model(profile), None) => Some(profile.capacity_bytes),
        _ => None,
    }
}

/// Puts a disk in the place of a member. Fails if there is no such member or model.
fn replace(edit: &mut ArrayEdit, array: &ArraySpec, devid: u64, disk: &NewDisk) -> Result<()> {
    edit.replace(devid, &disk.model)?;
    let old = array.members.iter().find(|member| member.devid == devid);
    if let Some(bytes) = disk.bytes.or(old.and_then(size)) {
        edit.resize(devid, bytes);
    }
    Ok(())
}

/// Fails if the disks that are added to several mirrors make no whole ones.
fn check_groups(changes: &[ArrayChange], array: &ArraySpec) -> Result<()> {
    let added = changes.iter().filter(|it| matches!(it, ArrayChange::Add(_))).count();
    if let (false, Err(GeometryError::PartialGroup { copies, .. })) =
        (has_layout(changes), array.layout.check_members(array.members.len() + added))
        && array.members.len() > copies
    {
        bail!(
            "a mirror is of {copies} disks, and {added} more make no whole one\n  help: give \
             --what-if add=MODEL {copies} times"
        );
    }
    Ok(())
}

fn edited(changes: &[ArrayChange], question: &Question) -> Result<String> {
    let system = question.asked.chosen.system;
    if system.is_multipath {
        bail!(
            "the members of {} are paths to one device, so no disk can be replaced or added\n  \
             help: leave out --what-if",
            question.asked.inputs.array.name
        );
    }
    // btrfs places the same number of copies on more disks.
    let brings = match system.name {
        "btrfs" => AddedMember::MoreSpace,
        _ => AddedMember::MoreCopies,
    };
    let array = &question.asked.inputs.array;
    check_groups(changes, array)?;
    let mut edit = ArrayEdit::new(&target::read(&question.array)?);
    let mut in_force = question.asked.now().to_owned();
    let mut replaced = Vec::new();
    for change in changes {
        match change {
            ArrayChange::Replace { devid, disk } => {
                if replaced.contains(devid) {
                    bail!("devid {devid} is replaced twice\n  help: give one of the two");
                }
                replaced.push(*devid);
                replace(&mut edit, array, *devid, disk)?;
                // A new disk has no flag.
                let flag = format!("write-mostly:{devid}");
                let parts: Vec<&str> = in_force.split('+').filter(|part| *part != flag).collect();
                in_force = parts.join("+");
            }
            ArrayChange::Add(disk) => {
                let devid = edit.add(&disk.model, brings)?;
                let least = array.members.iter().filter_map(size).min();
                if let Some(bytes) = disk.bytes.or(least) {
                    edit.resize(devid, bytes);
                }
            }
            ArrayChange::Layout(name) => {
                check_layout(system, name)?;
                edit.lay_out(name)?;
                in_force = default_of_layout(system, name);
            }
            ArrayChange::ReadAhead(kib) => {
                if changes.iter().filter(|it| matches!(it, ArrayChange::ReadAhead(_))).count() > 1 {
                    bail!("the read-ahead is given twice\n  help: give one of the two");
                }
                if system.read_ahead.is_none() {
                    bail!("{} reads ahead by itself: there is no such setting", system.title);
                }
                edit.set_read_ahead(*kib);
            }
            ArrayChange::Each => {}
        }
    }
    edit.set_in_force(system.name, &in_force);
    edit.rename(&format!("{} after the change", question.asked.inputs.array.name));
    let text = edit.text();
    ArrayFile::parse(&text, "the changed array").map_err(|error| anyhow!("{error}"))?;
    Ok(text)
}
