//! Applies a plan, and undoes what was applied.

use super::plan::{PlannedKnob, TunePlan};
use crate::bench::array_lock::ArrayLock;
use crate::bench::changed_array::ChangedArray;
use crate::bench::journal::{self, Journal, JournalKnob, TunedSetting};
use crate::bench::knob::KnobKind;
use crate::bench::knob_place::{identity_of_member, locate};
use crate::bench::request::check_condition;
use crate::bench::restore::{self, RestoreReport};
use crate::detect::{
    DetectError, DetectedArray, StorageSystem, Sysroot, array_identifiers, detect_at,
};
use mirrorball_core::diagnostic::Diagnostic;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long `multipathd` may take to load a new table.
const RELOAD_MAX: Duration = Duration::from_secs(10);

impl TunePlan {
    /// Applies the setting, which stays until [`undo`]. `watchdog` is the command, but for the
    /// journal, that restores the old setting if this process is killed meanwhile. Fails if the
    /// array is in use by `bench`, was changed by another program, or does not show the setting
    /// afterwards. What was in force before the first `tune` is restored then.
    pub fn apply(&self, watchdog: &[OsString]) -> Result<(), Diagnostic> {
        let (lock, earlier) = self.lock(journal::OF_TUNE)?;
        let journal = self.journal(earlier.as_ref(), &self.spec)?;
        let mut changed = ChangedArray::new(&self.sysroot, lock, journal, watchdog)?;
        if let Err(error) = self.set().and_then(|()| self.check_after()) {
            let report = changed.restore().lines().join("; ");
            let help = if report.is_empty() { "nothing was changed".to_owned() } else { report };
            return Err(Diagnostic::new(error.to_string()).with_help(help));
        }
        changed.leave()
    }

    /// The lock of the array with the path of its journal of this ending, and an earlier journal
    /// there.
    pub(super) fn lock(&self, ending: &str) -> Result<(ArrayLock, Option<Journal>), Diagnostic> {
        let lock = ArrayLock::take(&self.sysroot, &self.array, &self.identity)?;
        let left = |program: &str, command: &str| {
            let what = format!("an earlier {program} of this array did not restore its settings");
            Diagnostic::new(what).with_help(format!("run `mirrorball {command}` first"))
        };
        if Journal::read(lock.journal())?.is_some() {
            return Err(left("bench", "bench --restore"));
        }
        let lock = lock.with_ending(journal::OF_AUTO);
        if Journal::read(lock.journal())?.is_some() {
            return Err(left("tune --auto", "tune --undo"));
        }
        let lock = lock.with_ending(ending);
        let earlier = Journal::read(lock.journal())?;
        self.check_array()?;
        if let Some(earlier) = &earlier
            && earlier.identity.matches(&self.identity) != Some(true)
        {
            let (name, other) = (&self.array.name, &earlier.array);
            let what = format!("tune has set {other}, which shares settings with {name}");
            let help = format!("run `mirrorball tune {other} --undo` first");
            return Err(Diagnostic::new(what).with_help(help));
        }
        Ok((lock, earlier))
    }

    /// The journal of the plan, on top of an earlier one: undoing leads to what was in force before
    /// the first.
    pub(super) fn journal(
        &self,
        earlier: Option<&Journal>,
        spec: &str,
    ) -> Result<Journal, Diagnostic> {
        let mut knobs = earlier.map(|it| it.knobs.clone()).unwrap_or_default();
        // Members may have got other names since.
        let mut paths: Vec<Option<String>> = Vec::new();
        for JournalKnob { knob, member, .. } in &mut knobs {
            let located = locate(&self.sysroot, &self.identity, knob, member).ok();
            knob.path = located.as_ref().map_or_else(|| knob.path.clone(), |it| it.path.clone());
            paths.push(located.map(|it| it.path));
        }
        let is_later_boot = earlier.is_some_and(|it| it.is_of_earlier_boot(&self.sysroot));
        for planned in &self.knobs {
            let path = &planned.knob.path;
            let known = paths.iter().position(|it| it.as_ref() == Some(path));
            match known {
                Some(place) => continue_entry(&mut knobs[place], planned, is_later_boot)?,
                None if !planned.is_change() => {}
                None if planned.knob.kind == KnobKind::Text && !planned.shown.is_empty() => {
                    let name = &self.array.name;
                    let what = format!(
                        "{path} is there, and `mirrorball tune` did not write it for {name}"
                    );
                    let help = "undo the `tune` that did, or remove the file";
                    return Err(Diagnostic::new(what).with_help(help));
                }
                None => {
                    let member = identity_of_member(&self.sysroot, &self.array, &planned.knob)?;
                    knobs.push(JournalKnob {
                        knob: planned.knob.clone(),
                        member,
                        before: planned.shown.clone(),
                        ours: vec![planned.value.clone()],
                    });
                }
            }
        }
        let first = earlier.and_then(|it| it.tuned.as_ref()).map(|tuned| tuned.before.clone());
        let mut journal = Journal::new(&self.sysroot, &self.target, self.identity.clone(), knobs);
        journal.tuned = Some(TunedSetting {
            spec: spec.to_owned(),
            before: first.unwrap_or_else(|| self.now.clone()),
            stays: false,
        });
        Ok(journal)
    }

    /// Adds values that a knob may get to a journal. Fails if nothing tells the member of the knob
    /// from the others.
    pub(super) fn add_values(
        &self,
        journal: &mut Journal,
        planned: &PlannedKnob,
        values: impl Iterator<Item = String>,
    ) -> Result<(), Diagnostic> {
        let PlannedKnob { knob, shown, .. } = planned;
        let known = journal.knobs.iter().position(|entry| entry.knob.path == knob.path);
        let place = match known {
            Some(place) => place,
            None => {
                let member = identity_of_member(&self.sysroot, &self.array, knob)?;
                let (knob, before) = (knob.clone(), shown.clone());
                journal.knobs.push(JournalKnob { knob, member, before, ours: Vec::new() });
                journal.knobs.len() - 1
            }
        };
        let ours = &mut journal.knobs[place].ours;
        for value in values {
            if !ours.contains(&value) {
                ours.push(value);
            }
        }
        Ok(())
    }

    /// Sets each knob to its value, if no other program set it meanwhile. Marks of members are set
    /// last, so that never all of them have one.
    fn set(&self) -> Result<(), Diagnostic> {
        let changes = self.knobs.iter().filter(|planned| planned.is_change());
        let mut changes: Vec<&PlannedKnob> = changes.collect();
        changes.sort_by_key(|planned| planned.knob.kind.is_mark(&planned.value));
        for planned in changes {
            let PlannedKnob { knob, shown, value } = planned;
            let now = knob.raw(&self.sysroot).unwrap_or_default();
            if knob.kind.value(&now) != knob.kind.value(shown) {
                let what = format!("{} was changed while tune started", knob.path);
                return Err(Diagnostic::new(what).with_help("run tune again"));
            }
            knob.set(&self.sysroot, value)
                .map_err(|error: io::Error| Diagnostic::new(error.to_string()))?;
        }
        Ok(())
    }

    /// Checks that the setting is in force, and the array as it was.
    fn check_after(&self) -> Result<(), Diagnostic> {
        let array = self.check_array()?;
        if self.array.system != StorageSystem::Dm {
            return Ok(());
        }
        // The file is read back; the table follows when multipathd has loaded it.
        let deadline = Instant::now() + RELOAD_MAX;
        let mut shown = TunePlan::setting_in_force(&self.sysroot, &array)?;
        while shown != self.spec && Instant::now() < deadline && self.sysroot.is_live() {
            std::thread::sleep(Duration::from_millis(200));
            shown = TunePlan::setting_in_force(&self.sysroot, &self.check_array()?)?;
        }
        match shown == self.spec {
            true => Ok(()),
            false => Err(Diagnostic::new(format!(
                "the table of {} has {shown} after the file was written: another part of \
                 multipath.conf goes before it",
                self.array.name
            ))),
        }
    }

    /// Checks that the array is the one that the plan was made for, complete and idle.
    pub(super) fn check_array(&self) -> Result<DetectedArray, Diagnostic> {
        let id = self.array.id.as_ref().filter(|_| self.array.system == StorageSystem::Btrfs);
        let target = id.filter(|_| !self.target.contains('/')).unwrap_or(&self.target);
        let now = detect_at(&self.sysroot, target).map_err(DetectError::into_diagnostic)?;
        check_condition(&now, "changed")?;
        let members = |array: &DetectedArray| {
            let members = array.members.iter();
            members.map(|it| (it.devid, it.device.clone())).collect::<Vec<_>>()
        };
        let identity = array_identifiers(&self.sysroot, &now);
        let is_same = self.identity.matches(&identity) == Some(true);
        if is_same && members(&now) == members(&self.array) {
            return Ok(now);
        }
        let what = format!("{} is not the array that it was, or has other members", self.target);
        Err(Diagnostic::new(what).with_help("run tune again"))
    }
}

/// Adds a value to the entry of a knob that an earlier `tune` set.
fn continue_entry(
    entry: &mut JournalKnob,
    planned: &PlannedKnob,
    is_later_boot: bool,
) -> Result<(), Diagnostic> {
    let kind = planned.knob.kind;
    let shown = kind.value(&planned.shown);
    let is_known = shown == kind.value(&entry.before) || entry.ours.contains(&shown);
    if !is_known && !is_later_boot {
        let path = &planned.knob.path;
        let what = format!("{path} shows `{shown}`, which tune did not set");
        let help = "run `mirrorball tune --undo` first, which leaves what others have set";
        return Err(Diagnostic::new(what).with_help(help));
    }
    if !is_known && !kind.is_lasting() {
        // The machine was started again with another value: this is what is to come back.
        entry.before.clone_from(&planned.shown);
    }
    if !entry.ours.contains(&planned.value) {
        entry.ours.push(planned.value.clone());
    }
    Ok(())
}

/// An array by its name, or a journal that cannot be read by its path, with what was restored.
pub type Undone = (String, Result<RestoreReport, Diagnostic>);

/// Restores what was in force before `tune`, on the array at `target` or on all. Fails if `target`
/// is given, and nothing was applied to it.
pub fn undo(sysroot: &Sysroot, target: Option<&str>) -> Result<Vec<Undone>, Diagnostic> {
    // A service began with what was applied.
    let mut all = undo_journals(sysroot, target, journal::OF_AUTO);
    all.extend(undo_journals(sysroot, target, journal::OF_TUNE));
    match target.filter(|_| all.is_empty()) {
        None => Ok(all),
        Some(target) => {
            let what = format!("tune has applied nothing to {target}");
            Err(Diagnostic::new(what).with_help("`mirrorball tune --status` lists what it has"))
        }
    }
}

/// Restores what a service that did not end well, or was to keep its setting, left on the array at
/// `target`.
pub fn undo_service(sysroot: &Sysroot, target: &str) -> Vec<Undone> {
    undo_journals(sysroot, Some(target), journal::OF_AUTO)
}

fn undo_journals(sysroot: &Sysroot, target: Option<&str>, ending: &str) -> Vec<Undone> {
    let detected = target.and_then(|target| detect_at(sysroot, target).ok());
    let identity = detected.map(|array| array_identifiers(sysroot, &array));
    let is_asked = |journal: &Journal| match (target, &identity) {
        (None, _) => true,
        (Some(target), _) if journal.array == target => true,
        (Some(_), Some(identity)) => journal.identity.matches(identity) == Some(true),
        (Some(_), None) => false,
    };
    let restored = |path: &Path| {
        let _lock = ArrayLock::of_journal(path, false)?;
        let of_service = path.with_extension(journal::OF_AUTO);
        if ending == journal::OF_TUNE && of_service.symlink_metadata().is_ok() {
            // Undone now, it would be set again by the undoing of what came after it.
            let what = format!("what came after it is not undone, by {}", of_service.display());
            return Err(Diagnostic::new(what).with_help("undo that first"));
        }
        let journal = Journal::read(path)?;
        Ok(journal.map(|journal| restore::restore(sysroot, path, &journal)))
    };
    let mut all = Vec::new();
    for path in journal::all(sysroot, ending) {
        let name = match Journal::read(&path) {
            Ok(Some(journal)) if is_asked(&journal) => journal.array,
            Err(_) if target.is_none() => path.display().to_string(),
            Ok(_) | Err(_) => continue,
        };
        if let Some(report) = restored(&path).transpose() {
            all.push((name, report));
        }
    }
    all
}
