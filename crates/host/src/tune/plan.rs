//! The changes that a setting makes on an array, found before anything is changed.

use super::persistence;
use crate::bench::arms::{ArmSet, BenchArm, SettingPlaces};
use crate::bench::knob::{Knob, KnobKind};
use crate::bench::request::{check_condition, description};
use crate::detect::{DetectedArray, Identifiers, Sysroot, array_identifiers};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_lab::experiment::systems::{self, InForce, Version};
use serde::Serialize;

/// A change that `tune` would make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedChange {
    /// The file of the kernel, or what a tool sets.
    pub place: String,
    pub from: String,
    /// The value after it: for a file of ours, its text.
    pub to: String,
}

/// A setting for an array, and what it changes.
#[derive(Clone, Debug)]
pub struct TunePlan {
    pub(super) sysroot: Sysroot,
    pub(super) target: String,
    pub(super) identity: Identifiers,
    /// The array, as it was when the plan was made.
    pub array: DetectedArray,
    /// Canonical policy string of the setting.
    pub spec: String,
    /// Canonical policy string of the setting in force.
    pub now: String,
    /// The command that shows what is in force.
    pub check: Option<String>,
    /// How the setting survives a restart without a file of ours, in words.
    pub persist: Option<String>,
    pub(super) knobs: Vec<PlannedKnob>,
}

/// A knob with the text that it shows and the value that it gets.
#[derive(Clone, Debug)]
pub(super) struct PlannedKnob {
    pub(super) knob: Knob,
    pub(super) shown: String,
    pub(super) value: String,
}

impl PlannedKnob {
    pub(super) fn is_change(&self) -> bool {
        self.knob.kind.value(&self.shown) != self.value
    }
}

/// The settings of an array of which one may be planned, with what the system says of them.
fn arms(
    sysroot: &Sysroot,
    array: &DetectedArray,
    list: Option<&str>,
) -> Result<ArmSet, Diagnostic> {
    let (described, _) = description(array)?;
    ArmSet::in_places(sysroot, array, &described.spec, list, SettingPlaces::All)
}

impl TunePlan {
    /// The plan of the setting `spec`, with the files that keep it over restarts if it `persists`.
    /// Fails if the array is not complete and idle, or the running system does not offer the
    /// setting.
    pub fn new(
        sysroot: &Sysroot,
        target: &str,
        array: DetectedArray,
        spec: &str,
        persists: bool,
    ) -> Result<TunePlan, Diagnostic> {
        check_condition(&array, "changed")?;
        let now = TunePlan::setting_in_force(sysroot, &array)?;
        let arms = arms(sysroot, &array, Some(spec))?;
        let in_force = BenchArm { spec: spec.to_owned(), values: arms.in_force.clone() };
        let arm = match arms.arms.as_slice() {
            [arm] => Some(arm),
            _ => arms.same.iter().any(|same| same == spec).then_some(&in_force),
        };
        let Some(arm) = arm else {
            let what = match arms.notes.first() {
                Some(note) => note.replace("is not measured", "cannot be set"),
                None => format!("{spec} cannot be set here"),
            };
            return Err(Diagnostic::new(what).with_help("name one policy"));
        };
        let with_value = arms.knobs.iter().zip(&arm.values);
        let planned = |(knob, value): (&Knob, &String)| {
            let shown = knob.raw(sysroot)?;
            Some(PlannedKnob { knob: knob.clone(), shown, value: value.clone() })
        };
        let mut knobs: Vec<PlannedKnob> = with_value.filter_map(planned).collect();
        if persists {
            let values = knobs.iter().map(|it| (&it.knob, it.value.as_str()));
            let values: Vec<(&Knob, &str)> = values.collect();
            for (path, text) in persistence::files(&array, &values)? {
                let knob = Knob { path, kind: KnobKind::Text };
                let shown = knob.raw(sysroot).unwrap_or_default();
                knobs.push(PlannedKnob { knob, shown, value: text });
            }
        }
        let (check, persist) = words(&array, &arm.spec, &now)?;
        let identity = array_identifiers(sysroot, &array);
        Ok(TunePlan {
            sysroot: sysroot.clone(),
            target: target.to_owned(),
            identity,
            spec: arm.spec.clone(),
            now,
            check,
            persist,
            knobs,
            array,
        })
    }

    /// A plan of these knobs, whose setting `now` is in force.
    pub(super) fn of_knobs(
        sysroot: &Sysroot,
        target: &str,
        array: DetectedArray,
        now: &str,
        knobs: Vec<PlannedKnob>,
    ) -> TunePlan {
        TunePlan {
            sysroot: sysroot.clone(),
            target: target.to_owned(),
            identity: array_identifiers(sysroot, &array),
            spec: now.to_owned(),
            now: now.to_owned(),
            check: None,
            persist: None,
            knobs,
            array,
        }
    }

    /// Canonical policy string of the setting in force. Fails if the array cannot be described.
    pub fn setting_in_force(
        sysroot: &Sysroot,
        array: &DetectedArray,
    ) -> Result<String, Diagnostic> {
        let arms = arms(sysroot, array, None)?;
        let first = arms.arms.into_iter().next();
        Ok(first.map(|arm| arm.spec).unwrap_or_default())
    }

    /// The changes, in their order.
    pub fn changes(&self) -> Vec<PlannedChange> {
        let changes = self.knobs.iter().filter(|knob| knob.is_change());
        let change = |it: &PlannedKnob| PlannedChange {
            place: it.knob.path.clone(),
            from: it.knob.kind.value(&it.shown),
            to: it.value.clone(),
        };
        changes.map(change).collect()
    }

    /// Paths and texts of the files that would be written.
    pub fn files(&self) -> Vec<(String, String)> {
        let files = self.knobs.iter().filter(|it| it.knob.kind == KnobKind::Text && it.is_change());
        files.map(|it| (it.knob.path.clone(), it.value.clone())).collect()
    }
}

/// The command that shows what is in force, and how the setting persists, in words.
fn words(
    array: &DetectedArray,
    spec: &str,
    now: &str,
) -> Result<(Option<String>, Option<String>), Diagnostic> {
    let (described, _) = description(array)?;
    let spec_of = &described.spec;
    let system = systems::find(array.system.name())?.serving(spec_of);
    let version = array.version.as_ref().and_then(|text| text.parse::<Version>().ok());
    let settings = system.settings(spec_of, version.as_ref());
    let Some(setting) = settings.iter().find(|setting| setting.spec == spec) else {
        return Ok((None, None));
    };
    let in_force = InForce { spec: now, written: None, is_default: false, failed: &[] };
    let commands = setting.commands(system, spec_of, in_force);
    Ok((commands.check, commands.persist))
}
