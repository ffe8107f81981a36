//! The runs of a benchmark, with the settings put into force before each and restored at the end.

use super::array_lock::ArrayLock;
use super::changed_array::ChangedArray;
use super::journal::{self, Journal, JournalFolder, JournalKnob};
use super::knob_place::identity_of_member;
use super::outcome::{BenchControl, BenchOutcome};
use super::request::{Bench, DataPlace, check_condition};
use super::restore::{self, RestoreReport};
use super::runs::BenchRuns;
use crate::detect::{
    DetectError, DetectedArray, StorageSystem, Sysroot, array_identifiers, detect_at,
};
use mirrorball_core::diagnostic::Diagnostic;
use std::path::Path;

impl Bench {
    /// Runs all of it, and restores the settings. Fails if the array is locked or was changed since
    /// the request was checked. Nothing is changed then.
    pub fn run<'a>(&'a self, control: BenchControl<'a>) -> Result<BenchOutcome, Diagnostic> {
        let lock = ArrayLock::take(&self.sysroot, &self.array, &self.identity)?;
        if Journal::read(lock.journal())?.is_some() {
            let what = "an earlier bench of this array did not restore its settings";
            let help = "run `mirrorball bench --restore` first";
            return Err(Diagnostic::new(what).with_help(help));
        }
        // Another bench may have run since.
        self.check_array()?;
        let results = self.open_results(control.results)?;
        let kept = self.kept_runs(&results);
        if kept.len() == self.steps().len() {
            return Ok(BenchOutcome { runs: kept, ..BenchOutcome::default() });
        }
        let journal = self.journal()?;
        let mut changed = ChangedArray::new(&self.sysroot, lock, journal, &control.watchdog)?;
        let outcome = BenchRuns::new(self, results, kept, control, &mut changed).all();
        let restored = changed.restore();
        Ok(BenchOutcome { restored, ..outcome })
    }

    /// The journal of what may be changed. Fails if a setting is not the one that the request was
    /// checked with, or could not be restored.
    fn journal(&self) -> Result<Journal, Diagnostic> {
        let knobs = self.journal_knobs()?;
        let mut journal = Journal::new(&self.sysroot, &self.target, self.identity.clone(), knobs);
        if let DataPlace::Folder { folder, above } = &self.place {
            let path = folder.display().to_string();
            journal.folder = Some(JournalFolder { path, above: above.clone(), inode: None });
        }
        Ok(journal)
    }

    /// The knobs that are set, with their texts, which are read once, so that what is restored is
    /// what was in force.
    fn journal_knobs(&self) -> Result<Vec<JournalKnob>, Diagnostic> {
        let mut entries = Vec::new();
        for (number, (knob, expected)) in
            self.arms.knobs.iter().zip(&self.arms.in_force).enumerate()
        {
            let Some(before) = knob.raw(&self.sysroot) else {
                return Err(Diagnostic::new(format!("cannot read {}", knob.path)));
            };
            let shown = knob.kind.value(&before);
            if shown != *expected {
                let what = format!(
                    "{} was changed from `{expected}` to `{shown}` while bench started",
                    knob.path
                );
                return Err(Diagnostic::new(what).with_help("run bench again"));
            }
            let ours = self.arms.values_of(number);
            if ours.iter().any(|value| value != expected) {
                let member = identity_of_member(&self.sysroot, &self.array, knob)?;
                entries.push(JournalKnob { knob: knob.clone(), member, before, ours });
            }
        }
        Ok(entries)
    }

    /// Checks that the array is the one that the request was made for, complete and idle.
    pub(super) fn check_array(&self) -> Result<(), Diagnostic> {
        // Another btrfs may be mounted meanwhile, with the same label.
        let id = self.array.id.as_ref().filter(|_| self.array.system == StorageSystem::Btrfs);
        let target = id.filter(|_| !self.target.contains('/')).unwrap_or(&self.target);
        let now = detect_at(&self.sysroot, target).map_err(DetectError::into_diagnostic)?;
        check_condition(&now, "measured")?;
        let members = |array: &DetectedArray| {
            let members = array.members.iter();
            members.map(|it| (it.devid, it.device.clone())).collect::<Vec<_>>()
        };
        // Another array may have got its name and its disks.
        let identity = array_identifiers(&self.sysroot, &now);
        let what = match self.identity.matches(&identity) == Some(true) {
            false => format!("{} is another array than it was ({})", self.target, self.identity),
            true if members(&now) == members(&self.array) => return Ok(()),
            true => format!("the members of {} were changed while it was measured", now.name),
        };
        Err(Diagnostic::new(what).with_help("measure it again"))
    }
}

/// Restores the settings of every journal that is there, of arrays that no `bench` measures. Each
/// comes with the array's name, or with the path of a journal that cannot be read, and with the
/// error if its array is being measured.
pub fn restore_all(sysroot: &Sysroot) -> Vec<(String, Result<RestoreReport, Diagnostic>)> {
    let named = |path: &Path| match Journal::read(path) {
        Ok(journal) => journal.map(|journal| journal.array),
        Err(_) => Some(path.display().to_string()),
    };
    let restored = |path: &Path| {
        let _lock = ArrayLock::of_journal(path, false)?;
        // The watchdog may have been faster.
        let journal = Journal::read(path)?;
        Ok(journal.map(|journal| restore::restore(sysroot, path, &journal)))
    };
    let paths = journal::all(sysroot, journal::OF_BENCH).into_iter();
    let all = paths.filter_map(|path| Some((named(&path)?, restored(&path).transpose()?)));
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::knob::{Knob, KnobKind};
    use crate::detect::Identifiers;
    use std::fs;

    #[test]
    fn journals_that_are_locked_or_damaged_do_not_keep_others_from_being_restored() {
        let folder = tempfile::tempdir().unwrap();
        let sysroot = Sysroot::recorded(folder.path());
        let journals = journal::create_folder(&sysroot).unwrap();
        fs::write(journals.join("aaa.journal"), "{\"version\": 2, \"arr").unwrap();
        let policy = "/sys/fs/btrfs/F/read_policy";
        let file = sysroot.host_path(policy);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "pid [devid:2]\n").unwrap();
        let entry = JournalKnob {
            knob: Knob { path: policy.to_owned(), kind: KnobKind::Choice },
            member: Identifiers::default(),
            before: "[pid] devid:1\n".to_owned(),
            ours: vec!["devid:2".to_owned()],
        };
        for (name, knobs) in [("locked", Vec::new()), ("pool", vec![entry])] {
            let journal = Journal::new(&sysroot, name, Identifiers::default(), knobs);
            journal.write(&journals.join(format!("{name}.journal"))).unwrap();
        }
        let lock = ArrayLock::of_journal(&journals.join("locked.journal"), false).unwrap();
        let all = restore_all(&sysroot);
        assert_eq!(fs::read_to_string(&file).unwrap(), "[pid] devid:1\n");
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names[0].ends_with("aaa.journal") && names[1..] == ["locked", "pool"], "{names:?}");
        let failed: Vec<bool> = all.iter().map(|(_, report)| report.is_err()).collect();
        assert_eq!(failed, [true, true, false]);
        drop(lock);
        assert_eq!(restore_all(&sysroot).len(), 2, "the damaged one and the one that was locked");
    }
}
