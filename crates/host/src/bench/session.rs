//! The runs of a benchmark, with the settings put into force before each and restored at the end.

use super::array_lock::ArrayLock;
use super::journal::{self, Journal, JournalKnob};
use super::knob::Knob;
use super::outcome::{BenchControl, BenchOutcome};
use super::request::{Bench, DataPlace, check_condition};
use super::restore::{self, RestoreReport};
use super::runs::Runs;
use super::watchdog::Watchdog;
use crate::detect::{DetectError, DetectedArray, Sysroot, detect_at};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_lab::experiment::results::Results;
use std::ffi::OsString;

/// Settings that may be changed. Dropping it restores them.
struct ChangedArray<'a> {
    sysroot: &'a Sysroot,
    journal: Journal,
    is_restored: bool,
    // Released before the watchdog ends, which would wait for it if a journal is left.
    lock: ArrayLock,
    _watchdog: Watchdog,
}

impl<'a> ChangedArray<'a> {
    /// Writes the journal, and starts the watchdog.
    ///
    /// # Errors
    /// If either fails; nothing is changed then.
    fn new(
        sysroot: &'a Sysroot,
        lock: ArrayLock,
        journal: Journal,
        watchdog: &[OsString],
    ) -> Result<ChangedArray<'a>, Diagnostic> {
        let path = lock.journal().to_owned();
        let mut command = watchdog.to_vec();
        command.push(path.clone().into());
        journal.write(&path).map_err(|error| {
            Diagnostic::new(format!("cannot write the journal {}: {error}", path.display()))
        })?;
        match Watchdog::start(&command) {
            Ok(watchdog) => {
                Ok(ChangedArray { sysroot, journal, is_restored: false, lock, _watchdog: watchdog })
            }
            Err(error) => {
                restore::restore(sysroot, &path, &journal);
                Err(Diagnostic::new(format!("cannot start the watchdog process: {error}")))
            }
        }
    }

    fn restore(&mut self) -> RestoreReport {
        self.is_restored = true;
        restore::restore(self.sysroot, self.lock.journal(), &self.journal)
    }
}

impl Drop for ChangedArray<'_> {
    fn drop(&mut self) {
        if !self.is_restored {
            self.restore();
        }
    }
}

impl Bench {
    /// Runs all of it, and restores the settings.
    ///
    /// # Errors
    /// If the array is locked or changed by others, fio fails, or a file cannot be written. The
    /// settings are restored then too.
    pub fn run<'a>(&'a self, control: BenchControl<'a>) -> Result<BenchOutcome, Diagnostic> {
        let lock = ArrayLock::take(&self.sysroot, &self.array)?;
        if Journal::read(lock.journal())?.is_some() {
            let what = "an earlier bench of this array did not restore its settings";
            let help = "run `mirrorball bench --restore` first";
            return Err(Diagnostic::new(what).with_help(help));
        }
        let results = Results::open(control.results, &self.plan)
            .map_err(|error| Diagnostic::new(format!("{error:#}")))?;
        let journal = self.journal();
        let mut changed = ChangedArray::new(&self.sysroot, lock, journal, &control.watchdog)?;
        let outcome = Runs::new(self, results, control).and_then(Runs::all);
        let restored = changed.restore();
        outcome.map(|outcome| BenchOutcome { restored, ..outcome })
    }

    fn journal(&self) -> Journal {
        let entry = |(number, knob): (usize, &Knob)| JournalKnob {
            knob: knob.clone(),
            before: knob.raw(&self.sysroot).unwrap_or_default(),
            ours: self.arms.values_of(number),
        };
        let knobs = self.arms.knobs.iter().enumerate().map(entry).collect();
        let mut journal = Journal::new(&self.sysroot, &self.target, knobs);
        for load in self.jobs.iter().filter_map(|job| job.load.as_ref()) {
            let is_known = |it: &JournalKnob| journal.knobs.iter().any(|other| other == it);
            let knob = load.journal_knob(&self.sysroot).filter(|it| !is_known(it));
            journal.knobs.extend(knob);
            let command = load.journal_command().filter(|it| !journal.commands.contains(it));
            journal.commands.extend(command);
        }
        if let DataPlace::Folder(folder) = &self.place {
            journal.folder = Some(folder.display().to_string());
        }
        journal
    }

    /// The value of each knob.
    pub(super) fn values_now(&self) -> Result<Vec<String>, Diagnostic> {
        let value = |knob: &Knob| {
            knob.value(&self.sysroot).map_err(|error| Diagnostic::new(error.to_string()))
        };
        self.arms.knobs.iter().map(value).collect()
    }

    /// Checks that the array is the one that the request was made for, complete and idle.
    pub(super) fn check_array(&self) -> Result<(), Diagnostic> {
        let now = detect_at(&self.sysroot, &self.target).map_err(|error| match error {
            DetectError::NoArray(error) | DetectError::Unreadable(error) => error,
        })?;
        check_condition(&now)?;
        let members = |array: &DetectedArray| {
            let members = array.members.iter();
            members.map(|it| (it.devid, it.device.clone())).collect::<Vec<_>>()
        };
        if members(&now) == members(&self.array) {
            return Ok(());
        }
        let what = format!("the members of {} were changed while it was measured", self.array.name);
        Err(Diagnostic::new(what).with_help("measure it again"))
    }
}

/// Restores the settings of every journal that is there, of arrays that no `bench` measures. Each
/// comes with the array's name.
///
/// # Errors
/// If a journal cannot be read, or its array is being measured.
pub fn restore_all(sysroot: &Sysroot) -> Result<Vec<(String, RestoreReport)>, Diagnostic> {
    let mut reports = Vec::new();
    for path in journal::all(sysroot) {
        let _lock = ArrayLock::of_journal(&path, false)?;
        // The watchdog may have been faster.
        if let Some(journal) = Journal::read(&path)? {
            reports.push((journal.array.clone(), restore::restore(sysroot, &path, &journal)));
        }
    }
    Ok(reports)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::knob::KnobKind;
    use std::fs;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    const POLICY: &str = "/sys/fs/btrfs/F/read_policy";

    #[test]
    fn a_panic_restores() {
        let folder = tempfile::tempdir().unwrap();
        let sysroot = Sysroot::recorded(folder.path());
        let file = sysroot.host_path(POLICY);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "[pid] devid:1\n").unwrap();
        let knob = Knob { path: POLICY.to_owned(), kind: KnobKind::Choice };
        let before = knob.raw(&sysroot).unwrap();
        let entry = JournalKnob { knob: knob.clone(), before, ours: vec!["devid:2".to_owned()] };
        let journal = Journal::new(&sysroot, "pool", vec![entry]);
        let path = folder.path().join("pool.journal");
        let lock = ArrayLock::of_journal(&path, false).unwrap();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let changed = ChangedArray::new(&sysroot, lock, journal, &["true".into()]).unwrap();
            assert!(path.exists(), "the journal is written first");
            knob.set(&sysroot, "devid:2").unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), "pid [devid:2]\n");
            let _changed = changed;
            std::panic::resume_unwind(Box::new("a bug"));
        }));
        assert!(caught.is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "[pid] devid:1\n");
        assert!(!path.exists());
        ArrayLock::of_journal(&path, false).expect("the lock is released");
    }
}
