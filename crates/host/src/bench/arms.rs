//! The settings to compare: what the running system offers, each as values of knobs.
//!
//! [`System::settings`] says what a system offers for an array. A setting is put into force by the
//! values of all knobs that any of them touches, so the order of settings does not matter. Knobs of
//! settings that are not measured are watched too: another program may change them. The setting in
//! force is the first. Settings that are no files (LVM, dm-multipath, DRBD) cannot be
//! compared; the one in force can be measured.

use super::knob::Knob;
use super::setting_commands::{FileWrite, tool_write, writes};
use crate::detect::{DetectedArray, Sysroot};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::{Spec, parse_list};
use mirrorball_disk::array_file::ArraySpec;
use mirrorball_lab::evaluation::advice::policy_in_force;
use mirrorball_lab::experiment::systems::{self, Availability, Setting, System, Version};
use std::collections::BTreeSet;

/// A setting to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BenchArm {
    /// Canonical policy string.
    pub(crate) spec: String,
    pub(crate) values: Vec<String>,
}

/// Places that the settings may be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettingPlaces {
    /// Files of the kernel alone.
    KernelFiles,
    /// Those, and what tools set.
    All,
}

/// The settings to measure, and the knobs that make them.
#[derive(Clone, Debug)]
pub(crate) struct ArmSet {
    pub(crate) arms: Vec<BenchArm>,
    pub(crate) knobs: Vec<Knob>,
    /// The value of each knob when the settings were chosen.
    pub(crate) in_force: Vec<String>,
    /// Settings that change nothing here.
    pub(crate) same: Vec<String>,
    pub(crate) notes: Vec<String>,
}

impl ArmSet {
    /// The settings of `list`, or one of each kind, on `array`, which `detected` describes; those
    /// that are in files of the kernel. Fails if `list` names a policy that the running system does
    /// not offer.
    pub(crate) fn new(
        sysroot: &Sysroot,
        detected: &DetectedArray,
        array: &ArraySpec,
        list: Option<&str>,
    ) -> Result<ArmSet, Diagnostic> {
        ArmSet::in_places(sysroot, detected, array, list, SettingPlaces::KernelFiles)
    }

    /// The same for settings in other places.
    pub(crate) fn in_places(
        sysroot: &Sysroot,
        detected: &DetectedArray,
        array: &ArraySpec,
        list: Option<&str>,
        places: SettingPlaces,
    ) -> Result<ArmSet, Diagnostic> {
        let system = systems::find(detected.system.name())?.serving(array);
        let version = detected.version.as_ref().and_then(|text| text.parse::<Version>().ok());
        let version = version.filter(|version| system.check_version(version).is_ok());
        let settings = system.settings(array, version.as_ref());
        let now = policy_in_force(array, system, &settings);
        let offered = |it: &&Setting| it.availability == Availability::Offered;
        let offered: Vec<&Setting> = settings.iter().filter(offered).collect();
        let mut notes = Vec::new();
        let mut writable: Vec<(String, Vec<FileWrite>)> = Vec::new();
        for setting in &offered {
            match file_writes(setting, system, array, places) {
                Some(writes) => writable.push((setting.spec.clone(), writes)),
                None if setting.spec == now => {}
                None => notes.push(format!(
                    "{} is not measured: it is not set by writing a file of the kernel",
                    setting.spec
                )),
            }
        }
        let chosen = match list {
            Some(list) => named(list, &now, &writable, detected)?,
            None => one_of_each(&offered, &now),
        };
        let all = writable.iter().flat_map(|(_, writes)| writes.iter().map(|it| it.path.clone()));
        let watched: BTreeSet<String> = all.collect();
        writable.retain(|(spec, _)| chosen.contains(spec) && *spec != now);
        if list.is_some() {
            writable.sort_by_key(|(spec, _)| chosen.iter().position(|it| it == spec));
        }
        let mut set = ArmSet::of_writes(sysroot, &now, &watched, &writable);
        if list.is_some() && !chosen.contains(&now) {
            set.arms.remove(0);
        }
        set.notes.extend(notes);
        Ok(set)
    }

    /// The setting in force, and those of `writable`, with the knobs at `paths`.
    fn of_writes(
        sysroot: &Sysroot,
        now: &str,
        paths: &BTreeSet<String>,
        writable: &[(String, Vec<FileWrite>)],
    ) -> ArmSet {
        let mut notes = Vec::new();
        let mut knobs = Vec::new();
        let mut in_force = Vec::new();
        let mut same = Vec::new();
        let mut missing = BTreeSet::new();
        for path in paths {
            match Knob::found(sysroot, path) {
                Some((knob, raw)) => {
                    in_force.push(knob.kind.value(&raw));
                    knobs.push(knob);
                }
                None => {
                    missing.insert(path.clone());
                }
            }
        }
        let mut arms = vec![BenchArm { spec: now.to_owned(), values: in_force.clone() }];
        for (spec, writes) in writable {
            if let Some(gone) = writes.iter().find(|write| missing.contains(&write.path)) {
                notes.push(format!("{spec} is not measured: {} cannot be read", gone.path));
                continue;
            }
            let mut values = in_force.clone();
            for write in writes {
                let place = knobs.iter().position(|knob| knob.path == write.path);
                let place = place.expect("every path that can be read has a knob");
                values[place] = knobs[place].kind.value_of_written(&write.text);
            }
            match arms.iter().find(|arm| arm.values == values) {
                Some(same_arm) => {
                    if same_arm.values == in_force {
                        same.push(spec.clone());
                    }
                    notes.push(format!("{spec} is not measured: here it is {}", same_arm.spec));
                }
                None => arms.push(BenchArm { spec: spec.clone(), values }),
            }
        }
        ArmSet { arms, knobs, in_force, same, notes }
    }

    pub(crate) fn values_of(&self, knob: usize) -> Vec<String> {
        let values: BTreeSet<&String> = self.arms.iter().map(|arm| &arm.values[knob]).collect();
        values.into_iter().cloned().collect()
    }
}

/// The writes that lead from any setting of the system to this one; `None` if they are in other
/// places.
fn file_writes(
    setting: &Setting,
    system: &System,
    array: &ArraySpec,
    places: SettingPlaces,
) -> Option<Vec<FileWrite>> {
    let commands = setting.commands_from_any(system, array);
    if commands.is_empty() {
        return None;
    }
    let mut all = Vec::new();
    for command in commands {
        let by_tool = || tool_write(&command).filter(|_| places == SettingPlaces::All);
        all.extend(writes(&command).or_else(by_tool)?);
    }
    Some(all)
}

/// The settings that a list of policies names.
fn named(
    list: &str,
    now: &str,
    writable: &[(String, Vec<FileWrite>)],
    detected: &DetectedArray,
) -> Result<Vec<String>, Diagnostic> {
    let specs = parse_list(list).map_err(|mut error| {
        error.message = format!("--policy: {}", error.message);
        error
    })?;
    let mut offered: Vec<&str> = vec![now];
    offered.extend(writable.iter().map(|(spec, _)| spec.as_str()).filter(|spec| *spec != now));
    let is_offered = |spec: &str| offered.contains(&spec);
    let as_offered = |spec: String| match with_default(&spec).filter(|it| is_offered(it)) {
        Some(with_default) if !is_offered(&spec) => with_default,
        _ => spec,
    };
    let specs: Vec<String> = specs.iter().map(|spec| as_offered(spec.to_string())).collect();
    match specs.iter().find(|spec| !offered.contains(&spec.as_str())) {
        None => Ok(specs),
        Some(other) => {
            let kernel = detected.version.as_deref().unwrap_or("of unknown version");
            let what = format!(
                "--policy: `{other}` is not offered for {} by the running system ({})",
                detected.name, kernel
            );
            let help = format!("it offers {}", offered.join(", "));
            Err(Diagnostic::new(what).with_help(help))
        }
    }
}

/// One setting of each offer with values, and all of the others.
fn one_of_each(offered: &[&Setting], now: &str) -> Vec<String> {
    let mut chosen = vec![now.to_owned()];
    for setting in offered {
        let offer = setting.offer;
        let bare = offer.policy.trim_end_matches(":{value}");
        let default = with_default(bare).unwrap_or_default();
        let of_offer: Vec<&str> = offered
            .iter()
            .filter(|other| std::ptr::eq(other.offer, offer))
            .map(|other| other.spec.as_str())
            .collect();
        let is_chosen = match offer.values.is_empty() {
            true => true,
            false if of_offer.contains(&default.as_str()) => setting.spec == default,
            false => setting.spec == of_offer[of_offer.len() / 2],
        };
        if is_chosen && !chosen.contains(&setting.spec) {
            chosen.push(setting.spec.clone());
        }
    }
    chosen
}

/// A policy that is named without parameters, with the default of its first one.
fn with_default(spec: &str) -> Option<String> {
    let parsed = Spec::parse(spec).ok().filter(|_| !spec.contains([':', '+']))?;
    let first = parsed.info()?.parameters.first()?;
    Some(format!("{spec}:{}", first.written(first.default?)))
}
