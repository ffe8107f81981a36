//! What comes before any setting: a member to replace, work in the background to wait for, space to
//! free.

use super::answer::{ArrayAnswer, OutOfService};
use super::figure_text::hours_text;
use super::maintenance::Maintenance;
use crate::experiment::systems::{System, find, is_plain, state_command};
use mirrorball_core::geometry::LayoutKind;
use mirrorball_disk::array_file::{ArraySpec, MemberSpec};

/// The end of a state that says how long its work still takes.
const LEFT: &str = " left at its rate";
/// What a state says of a spare.
const STANDS_IN: &str = " stands in for ";

/// The steps for an array with this condition, as `detect` words it, the most urgent first. The
/// members `out` of `array` are not in service on the machine, and `add` has the commands that the
/// advice gives for new disks.
pub fn first_steps(
    system: &System,
    array: &ArraySpec,
    condition: Option<&str>,
    out: &[OutOfService],
    add: &[String],
) -> Vec<String> {
    let mut steps = steps(system, array, condition, out, add);
    let has_mount = array.source.as_ref().is_some_and(|source| source.mount.is_some());
    let unexplained = steps.iter_mut().find(|step| !has_mount && step.contains(" MOUNT`"));
    unexplained.into_iter().for_each(|step| *step += "; MOUNT is its mount point");
    steps
}

fn steps(
    system: &System,
    array: &ArraySpec,
    condition: Option<&str>,
    out: &[OutOfService],
    add: &[String],
) -> Vec<String> {
    let shown_by = |template: &Option<String>| {
        let command = template.as_ref().map(|it| state_command(it, array, None));
        command.map_or(String::new(), |command| format!(" (`{command}`)"))
    };
    let show_errors = if system.errors.is_some() { &system.errors } else { &system.state };
    let counted = counted_errors(array, out, &shown_by(show_errors));
    let Some(condition) = condition else { return counted.into_iter().collect() };
    let is_copying =
        |state: &str| ["resync", "recover", "resilver"].iter().any(|work| state.starts_with(work));
    let mut states: Vec<&str> = condition.split("; ").collect();
    // Nothing is missing but what is being written.
    let has_spare = states[0].contains(STANDS_IN);
    let is_recovering =
        (has_spare || states[0] == "degraded") && states.iter().any(|state| is_copying(state));
    if is_recovering && has_spare {
        states.rotate_left(1);
    } else if is_recovering {
        states.remove(0);
    }
    let step = |state: &str| {
        let shown = shown_by(&system.state);
        if system.is_multipath {
            return format!("{state}: repair it first{shown}");
        }
        if state.contains(STANDS_IN) {
            let when = if is_recovering { "then" } else { "first" };
            let how = stand_in_step(system, array, state);
            return format!("{state}: replace that disk {when}{shown}{how}");
        }
        if state.starts_with("degraded") {
            let spares = array.source.as_ref().map_or(&[][..], |source| &source.spares);
            let new = NewDisks { add, spares };
            return format!("{state}: {}", replacement(system, array, (out, new), &shown));
        }
        if is_lasting(state) {
            return lasting_step(state, condition, shown_by, system);
        }
        if is_copying(state) {
            let danger = format!("; until then {}", danger(array.members.len() - 1));
            let danger = if is_recovering { danger } else { String::new() };
            return format!("{state}: wait for its end first{shown}{danger}");
        }
        format!("{state}: until it ends, reads are slower than below{shown}")
    };
    let is_degraded = states.iter().take_while(|state| state.starts_with("degraded")).count();
    let mut steps: Vec<String> = states.into_iter().map(step).collect();
    steps.splice(is_degraded..is_degraded, counted);
    steps
}

/// True if this member is to be replaced.
fn is_failed(member: &MemberSpec, out: &[OutOfService]) -> bool {
    !member.is_in_service() || out.iter().any(|it| it.is_failed && it.devid == member.devid)
}

/// The step for members with errors that are not to be replaced: a disk that has them is not the
/// one to rely on.
fn counted_errors(array: &ArraySpec, out: &[OutOfService], shown: &str) -> Option<String> {
    let of = |member: &MemberSpec| {
        let device = member.device.as_deref().and_then(|path| path.rsplit('/').next());
        let name = device.map_or_else(|| format!("devid {}", member.devid), str::to_owned);
        Some(format!("{name}: {}", member.errors.as_ref()?))
    };
    let kept = array.members.iter().filter(|member| !is_failed(member, out));
    let all: Vec<String> = kept.filter_map(of).collect();
    let first = all.first()?;
    let (counted, cause) = match &all[..] {
        [_] => (first.clone(), "the disk, its cable or its port"),
        _ => (all.join(", "), "a cable, a port, a controller or memory that the disks share"),
    };
    Some(format!("{counted}: find out why before anything else{shown}; often {cause}"))
}

/// Work in the background that says how long its rest takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RunningWork<'a> {
    /// Such as `recovery`.
    work: &'a str,
    is_scrub: bool,
    /// The part that is done.
    done: f64,
    /// How long the rest takes, such as `1.6 h`.
    pub(super) left: &'a str,
    hours_left: f64,
}

impl<'a> RunningWork<'a> {
    /// The scrub or rebuild that a condition names.
    pub(super) fn of(condition: &'a str) -> Option<RunningWork<'a>> {
        let state = condition.split("; ").find(|state| state.ends_with(LEFT))?;
        let (front, left) = state.trim_end_matches(LEFT).rsplit_once(", ")?;
        let (number, unit) = left.split_once(' ')?;
        let minutes = if unit == "min" { 60.0 } else { 1.0 };
        let (work, percent) = front.split_once(" at ")?;
        let is_scrub = ["check", "repair", "scrub"].contains(&work);
        (is_scrub || ["recovery", "resilver"].contains(&work)).then_some(())?;
        Some(RunningWork {
            work,
            is_scrub,
            done: percent.trim_end_matches(" %").parse::<f64>().ok()? / 100.0,
            left,
            hours_left: number.parse::<f64>().ok()? / minutes,
        })
    }

    /// True if the row has the simulated times of this work: of a rebuild, those of its rest.
    pub(super) fn is_of(&self, row: &str) -> bool {
        if self.is_scrub { row.starts_with("scrub") } else { row.ends_with(" left)") }
    }
}

/// A remark if the work that `condition` names is much slower than simulated, or faster: what runs
/// says more than a simulation.
pub fn remark_on_rate(
    condition: Option<&str>,
    maintenance: Option<&Maintenance>,
) -> Option<String> {
    /// Many times the simulated time: below it, other I/O explains much.
    const MANY: f64 = 3.0;
    /// The simulated time of an idle array is longer by this factor.
    const FASTER: f64 = 1.25;
    let running = RunningWork::of(condition?)?;
    let RunningWork { work, is_scrub, done, left, hours_left } = running;
    let rows = maintenance?.work.iter().filter(|row| running.is_of(&row.work));
    let part = if is_scrub { 1.0 - done } else { 1.0 };
    let simulated = rows.filter_map(|row| Some((row.load, row.times.first()?.hours? * part)));
    let simulated: Vec<(&str, f64)> = simulated.collect();
    let by_hours = |a: &&(&str, f64), b: &&(&str, f64)| a.1.total_cmp(&b.1);
    let (load, longest) = simulated.iter().max_by(by_hours)?;
    let (_, shortest) = simulated.iter().min_by(by_hours)?;
    if hours_left > longest * MANY {
        return Some(format!(
            "{work}: {left}{LEFT}, but {} simulated with {load}: look for other I/O, a limit that \
             was set, or a slow disk (`mirrorball watch`); much fragmented or small data slow it, \
             too",
            hours_text(*longest)
        ));
    }
    (hours_left * FASTER < *shortest).then(|| {
        format!(
            "{work}: {left}{LEFT}, and {} simulated on an idle array: there is less to copy, or \
             the disks are faster than their models; its own rate says more",
            hours_text(*shortest)
        )
    })
}

/// What the next failure does where so many members are left, and some data have one copy.
fn danger(left: usize) -> &'static str {
    if left == 1 { "one more failure loses all data" } else { "one more failure may lose data" }
}

/// What takes the places of failed members.
#[derive(Clone, Copy)]
struct NewDisks<'a> {
    /// The commands of the advice, with a flag for the new disk.
    add: &'a [String],
    /// Spares that are free.
    spares: &'a [String],
}

/// The commands that replace failed members, by spares first; to remove them only, if `is_removal`.
fn commands(
    system: &System,
    array: &ArraySpec,
    failed: &[&MemberSpec],
    NewDisks { add, spares }: NewDisks<'_>,
    is_removal: bool,
) -> String {
    let removal = |member: &&MemberSpec| {
        let template = system.remove.as_ref().filter(|_| member.device.is_some());
        template.map(|template| vec![state_command(template, array, Some(member))])
    };
    let replacement = |(place, member): (usize, &&MemberSpec)| {
        let new = match (spares.get(place), failed.len()) {
            (Some(spare), _) if is_plain(spare) => spare.clone(),
            (_, 1) => "/dev/NEW".to_owned(),
            _ => format!("/dev/NEW-{}", member.devid),
        };
        let flagged = add.iter().find(|command| command.ends_with(&new)).cloned();
        let template = system.replace.as_ref()?;
        let plain = || state_command(template, array, Some(member)).replace("/dev/NEW", &new);
        Some(flagged.unwrap_or_else(plain).lines().map(str::to_owned).collect())
    };
    let removals = failed.iter().filter_map(removal);
    let added = failed.iter().enumerate().filter(|_| !is_removal).filter_map(replacement);
    let added: Vec<Vec<String>> = added.collect();
    // Each command for all members, then the next.
    let lines = added.iter().map(Vec::len).max().unwrap_or(0);
    let added = (0..lines).flat_map(|line| added.iter().filter_map(move |it| it.get(line)));
    let all = removals.flatten().chain(added.cloned());
    let mut all: Vec<String> = all.map(|command| format!("`{command}`")).collect();
    all.dedup();
    all.join(", ")
}

/// What comes first for members that are not in service: the disk of one that was taken offline, or
/// removed, is not replaced.
fn replacement(
    system: &System,
    array: &ArraySpec,
    (out, new): (&[OutOfService], NewDisks<'_>),
    shown: &str,
) -> String {
    let failed = array.members.iter().filter(|member| is_failed(member, out));
    let failed: Vec<&MemberSpec> = failed.collect();
    if failed.is_empty() {
        return format!("find the member that is missing or not online first{shown}");
    }
    let back = |member: &&&MemberSpec| {
        let command = state_command(system.online.as_ref()?, array, Some(member));
        match member.system_state.as_deref()? {
            "OFFLINE" => Some(format!("take devid {} online first: `{command}`", member.devid)),
            "REMOVED" => {
                Some(format!("connect devid {} again first, then `{command}`", member.devid))
            }
            _ => None,
        }
    };
    let mut texts: Vec<String> = failed.iter().filter_map(|it| back(&it)).collect();
    let broken: Vec<&MemberSpec> = failed.iter().filter(|it| back(it).is_none()).copied().collect();
    let devids: Vec<String> = broken.iter().map(|member| member.devid.to_string()).collect();
    let devids = devids.join(" and ");
    let spare = system.spare.as_ref().filter(|_| new.spares.len() >= broken.len());
    let commands = commands(system, array, &broken, new, spare.is_some());
    texts.extend(match (spare, commands.as_str()) {
        _ if broken.is_empty() => None,
        (Some(why), "") => Some(spare_step(array, why)),
        (Some(why), commands) => {
            Some(format!("{}; then take devid {devids} out: {commands}", spare_step(array, why)))
        }
        (None, "") => Some(format!("replace devid {devids} first")),
        (None, commands) => Some(format!("replace devid {devids} first: {commands}")),
    });
    let is_mounted = array.source.as_ref().is_some_and(|source| source.mount.is_some());
    let mounting = system.unmounted.as_ref().filter(|_| !is_mounted);
    let present = array.members.iter().find(|member| !is_failed(member, out));
    let mounting = mounting.map(|template| state_command(template, array, present));
    texts.extend(mounting.map(|it| format!("if it is not mounted: `{it}`")));
    for (member, errors) in broken.iter().filter_map(|it| Some((it, it.errors.as_ref()?))) {
        texts.push(format!(
            "devid {} has {errors}: its cable or its port can cause them, too",
            member.devid
        ));
    }
    let copies = array.chunk_map().map_or(0, |map| map.copies());
    if failed.len() + 1 >= copies {
        texts.push(danger(array.members.len() - failed.len()).to_owned());
    }
    texts.join("; ")
}

/// How to replace the disk for which a spare stands in, as `state` says, behind a colon; nothing if
/// its name is not known, or is not to be put into a command.
fn stand_in_step(system: &System, array: &ArraySpec, state: &str) -> String {
    let old = state.split_once(STANDS_IN).and_then(|(_, rest)| rest.split(' ').next());
    let template = system.stand_in.as_ref().zip(old.filter(|old| is_plain(old)));
    let step = |(template, old): (&String, &str)| {
        format!(": {}", state_command(&template.replace("{old}", old), array, None))
    };
    template.map(step).unwrap_or_default()
}

/// Why a free spare is not used: where all is well, its rebuild runs.
fn spare_step(array: &ArraySpec, why: &str) -> String {
    let why = state_command(why, array, None);
    format!("a spare is free, but no rebuild runs: find out why first ({why})")
}

/// Why no advice is given for an array of which some data have no copy left, and what to do; none
/// if each block has one. The chunks of btrfs may lie on any of its devices.
pub fn lost_data(array: &ArraySpec) -> Option<String> {
    let system = find(&array.source.as_ref()?.system).ok().filter(|it| !it.is_multipath)?;
    let map = array.chunk_map().ok()?;
    let is_out = |member: &&MemberSpec| !member.is_in_service();
    let out: Vec<String> =
        array.members.iter().filter(is_out).map(|it| it.devid.to_string()).collect();
    let is_lost = match array.layout.kind() {
        LayoutKind::Btrfs => out.len() >= map.copies(),
        _ => map
            .mirror_sets()
            .any(|mut set| set.all(|(member, _)| !array.members[member.get()].is_in_service())),
    };
    let present = array.members.iter().find(|member| member.is_in_service());
    let how = system.lost.as_ref().map(|it| state_command(it, array, present));
    let how = how.unwrap_or_else(|| "get one of them back into service first".to_owned());
    let condition = array.source.as_ref().and_then(|source| source.condition.as_deref());
    let is_suspended = condition.is_some_and(|it| it.split("; ").any(|it| it == "suspended"));
    let why = match out.is_empty() {
        true => "the pool is suspended".to_owned(),
        false => format!("out of service: devid {}", out.join(" and ")),
    };
    (is_lost || is_suspended).then(|| {
        format!(
            "some data have no copy left ({why})\n  help: replace no disk: {how}; or restore a \
             backup"
        )
    })
}

/// The step for a state that lasts until its owner acts; `shown_by` has a command in brackets.
fn lasting_step(
    state: &str,
    condition: &str,
    shown_by: impl Fn(&Option<String>) -> String,
    system: &System,
) -> String {
    let [named, compact, spread, shown] =
        [&system.errors, &system.compact, &system.spread, &system.state].map(shown_by);
    let is_balancing = condition.contains("balance");
    let has_empty = condition.contains("; nothing");
    match state.split(' ').next() {
        Some("some") => format!("{state}, with no good copy: restore them from a backup{named}"),
        Some("nothing") if is_balancing => {
            format!("{state}: no read uses it until the balance has spread the data")
        }
        Some("nothing") => {
            let when = if condition == state { "first" } else { "then" };
            format!(
                "{state}: spread the data {when}{spread}, which rewrites all of them: until then \
                 no read uses it"
            )
        }
        Some("nearly" | "no") if has_empty => format!(
            "{state}: free space first, or add one more disk: each chunk needs several with room"
        ),
        Some("no") => format!(
            "{state}: give back chunks that are half empty first{compact}, or writes of metadata \
             may find no space"
        ),
        _ => format!("{state}: free space first, or add a disk{shown}"),
    }
}

/// True if a state lasts until its owner acts, and slows no reads.
fn is_lasting(state: &str) -> bool {
    ["some ", "no ", "nothing ", "nearly "].iter().any(|word| state.starts_with(word))
}

impl ArrayAnswer {
    /// The commands of the advice for the new disks of failed members.
    pub fn add_commands(&self) -> &[String] {
        self.advice.offered.as_ref().map_or(&[], |it| &it.commands.add)
    }

    /// The array that the advice is for, if the real one is not as it should be.
    pub(super) fn advised_array(&self) -> Option<String> {
        let condition = self.condition.as_ref()?;
        let is_unknown = |member: &&super::answer::AnsweredMember| {
            !member.is_in_service && member.remark.is_none()
        };
        let missing = self.members.iter().filter(is_unknown);
        let devids: Vec<String> = missing.map(|member| member.devid.to_string()).collect();
        let mut in_service = self.members.iter().filter(|member| member.is_in_service);
        if !devids.is_empty() {
            return Some(format!(
                "The disk of devid {} is not known, so the advice is for the array without it",
                devids.join(", ")
            ));
        }
        if self.advice.is_of_paths {
            return Some("The advice is for the time when all paths are up".to_owned());
        }
        if condition.split("; ").all(is_lasting) {
            return None;
        }
        let whole = "The advice is for the array when it is whole and idle";
        Some(match (in_service.next(), in_service.next()) {
            (Some(one), None) => {
                format!("{whole}; until then devid {} serves all reads", one.devid)
            }
            _ => whole.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests;
