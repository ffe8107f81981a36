//! The settings that were applied, and which of them are in force.

use crate::bench::journal::{self, Journal};
use crate::bench::knob::KnobKind;
use crate::bench::knob_place::locate;
use crate::detect::Sysroot;
use mirrorball_core::diagnostic::Diagnostic;
use serde::Serialize;

/// Whether what was applied is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingState {
    Applied,
    /// As it was before.
    AsBefore,
    ResetByRestart,
    /// Another program has set it.
    ChangedByOther,
    /// The array, or what shows the setting, is not there.
    NotThere,
}

/// A place that `tune` has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TunedPlace {
    /// The file of the kernel, what a tool sets, or the file that was written.
    pub place: String,
    pub before: String,
    /// The value that was set last; empty for a file that was written.
    pub applied: String,
    /// The value that it shows; none if it cannot be read or is a file that was written.
    pub shown: Option<String>,
    /// Whether it is in force.
    pub state: SettingState,
}

/// An array that `tune` has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TunedArray {
    /// The array, as `tune` was asked for it.
    pub array: String,
    /// Canonical policy string of the setting that was applied.
    pub setting: String,
    /// Canonical policy string of the setting before.
    pub before: String,
    /// False while the process that applied it must run for it to stay.
    pub stays: bool,
    pub places: Vec<TunedPlace>,
}

impl TunedArray {
    /// True if all of it is in force.
    pub fn is_applied(&self) -> bool {
        self.places.iter().all(|place| place.state == SettingState::Applied)
    }
}

/// Every array that `tune` has changed, each with the error if its journal cannot be read.
pub fn status(sysroot: &Sysroot) -> Vec<Result<TunedArray, Diagnostic>> {
    let journals = [journal::OF_TUNE, journal::OF_AUTO].map(|it| journal::all(sysroot, it));
    let read = journals.iter().flatten().filter_map(|path| Journal::read(path).transpose());
    read.map(|journal| journal.map(|journal| tuned(sysroot, &journal))).collect()
}

fn tuned(sysroot: &Sysroot, journal: &Journal) -> TunedArray {
    let is_later_boot = journal.is_of_earlier_boot(sysroot);
    let place = |entry: &journal::JournalKnob| {
        let kind = entry.knob.kind;
        let located = locate(sysroot, &journal.identity, &entry.knob, &entry.member).ok();
        let raw = located.and_then(|knob| knob.raw(sysroot));
        let shown = raw.map(|raw| kind.value(&raw));
        let (before, applied) = (kind.value(&entry.before), entry.ours.last().cloned());
        let applied = applied.unwrap_or_default();
        let state = match &shown {
            None => SettingState::NotThere,
            Some(shown) if *shown == applied => SettingState::Applied,
            Some(_) if is_later_boot && !kind.is_lasting() => SettingState::ResetByRestart,
            Some(shown) if *shown == before => SettingState::AsBefore,
            Some(_) => SettingState::ChangedByOther,
        };
        let is_file = kind == KnobKind::Text;
        TunedPlace {
            place: entry.knob.path.clone(),
            before,
            applied: if is_file { String::new() } else { applied },
            shown: shown.filter(|_| !is_file),
            state,
        }
    };
    let setting = journal.tuned.clone();
    TunedArray {
        array: journal.array.clone(),
        setting: setting.as_ref().map(|it| it.spec.clone()).unwrap_or_default(),
        before: setting.as_ref().map(|it| it.before.clone()).unwrap_or_default(),
        stays: journal.stays(),
        places: journal.knobs.iter().map(place).collect(),
    }
}
