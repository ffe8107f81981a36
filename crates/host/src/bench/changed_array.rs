//! An array whose settings may be changed, with all that puts them back: the journal, the lock and
//! the watchdog.

use super::array_lock::ArrayLock;
use super::journal::{Journal, StartedProcess};
use super::knob::Knob;
use super::process_tree::start_time;
use super::restore::{self, RestoreReport};
use super::watchdog::Watchdog;
use crate::detect::Sysroot;
use mirrorball_core::diagnostic::Diagnostic;
use std::cell::RefCell;
use std::ffi::OsString;
use std::io;

/// Settings that may be changed. Dropping it restores them.
pub(crate) struct ChangedArray {
    sysroot: Sysroot,
    journal: RefCell<Journal>,
    is_restored: bool,
    // Released before the watchdog ends, which would wait for it if a journal is left.
    lock: ArrayLock,
    watchdog: Watchdog,
}

impl ChangedArray {
    /// Starts the watchdog, and writes the journal: a process that is killed between them leaves
    /// none. Fails if either fails; nothing is changed then.
    pub(crate) fn new(
        sysroot: &Sysroot,
        lock: ArrayLock,
        journal: Journal,
        watchdog: &[OsString],
    ) -> Result<ChangedArray, Diagnostic> {
        let path = lock.journal().to_owned();
        let mut command = watchdog.to_vec();
        command.push(path.clone().into());
        let watchdog = Watchdog::start(&command).map_err(|error| {
            Diagnostic::new(format!("cannot start the watchdog process: {error}"))
        })?;
        journal.write(&path).map_err(|error| {
            Diagnostic::new(format!("cannot write the journal {}: {error}", path.display()))
        })?;
        let (sysroot, journal) = (sysroot.clone(), RefCell::new(journal));
        Ok(ChangedArray { sysroot, journal, is_restored: false, lock, watchdog })
    }

    pub(crate) fn restore(&mut self) -> RestoreReport {
        self.is_restored = true;
        restore::restore(&self.sysroot, self.lock.journal(), &self.journal.borrow())
    }

    /// Records on the disk which setting `tune` puts into force: the values of knobs by path.
    pub(crate) fn note_setting(
        &mut self,
        spec: &str,
        values: &[(&Knob, &String)],
    ) -> Result<(), Diagnostic> {
        let journal = self.journal.get_mut();
        if let Some(tuned) = &mut journal.tuned {
            spec.clone_into(&mut tuned.spec);
        }
        for entry in &mut journal.knobs {
            let value = values.iter().find(|(knob, _)| knob.path == entry.knob.path);
            if let Some((_, value)) = value {
                // The last of ours is the one in force.
                entry.ours.retain(|ours| ours != *value);
                entry.ours.push((*value).clone());
            }
        }
        self.write()
    }

    /// Leaves the settings as they are now, until `tune --undo`.
    pub(crate) fn leave(mut self) -> Result<(), Diagnostic> {
        if let Some(tuned) = &mut self.journal.get_mut().tuned {
            tuned.stays = true;
        }
        self.write()?;
        self.is_restored = true;
        Ok(())
    }

    /// Checks that a crash of this process would be noticed.
    pub(crate) fn check_watchdog(&self) -> Result<(), Diagnostic> {
        self.watchdog.check().map_err(|error| {
            let what = format!("the watchdog process, which restores the settings, ended: {error}");
            Diagnostic::new(what).with_help("start it again")
        })
    }

    /// Records on the disk, and with the watchdog, that fio is about to run in this process. Fails
    /// if the journal cannot be written, or the watchdog has ended.
    pub(crate) fn fio_starts(&self, process: u32) -> io::Result<()> {
        let start_time = start_time(process).unwrap_or_default();
        self.journal.borrow_mut().fio = Some(StartedProcess { process, start_time });
        self.journal.borrow().write(self.lock.journal())?;
        self.watchdog.started(process)
    }

    /// Records that fio has ended. The journal on the disk may name it until its next change.
    pub(crate) fn fio_ended(&self, process: u32) {
        self.journal.borrow_mut().fio = None;
        self.watchdog.ended(process);
    }

    /// Records on the disk that the folder of the data was created.
    pub(crate) fn folder_created(&mut self, inode: u64) -> Result<(), Diagnostic> {
        if let Some(folder) = &mut self.journal.get_mut().folder {
            folder.inode = Some(inode);
        }
        self.write()
    }

    /// Records that the folder of the data was not created: one of that name is there.
    pub(crate) fn forget_folder(&mut self) -> Result<(), Diagnostic> {
        self.journal.get_mut().folder = None;
        self.write()
    }

    /// Records on the disk that another program has set the knob of a path: what it shows stays.
    pub(crate) fn forget_knob(&self, path: &str) -> Result<(), Diagnostic> {
        self.journal.borrow_mut().knobs.retain(|entry| entry.knob.path != path);
        self.write()
    }

    fn write(&self) -> Result<(), Diagnostic> {
        let path = self.lock.journal();
        self.journal.borrow().write(path).map_err(|error: io::Error| {
            Diagnostic::new(format!("cannot write the journal {}: {error}", path.display()))
        })
    }
}

impl Drop for ChangedArray {
    fn drop(&mut self) {
        if !self.is_restored {
            self.restore();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::journal::JournalKnob;
    use crate::bench::knob::KnobKind;
    use crate::detect::Identifiers;
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
        let entry = JournalKnob {
            knob: knob.clone(),
            member: Identifiers::default(),
            before,
            ours: vec!["devid:2".to_owned()],
        };
        let journal = Journal::new(&sysroot, "pool", Identifiers::default(), vec![entry]);
        let path = folder.path().join("pool.journal");
        let lock = ArrayLock::of_journal(&path, false).unwrap();
        let watchdog = Watchdog::idle_command();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let changed = ChangedArray::new(&sysroot, lock, journal, &watchdog).unwrap();
            assert!(path.exists(), "the journal is written first");
            changed.check_watchdog().unwrap();
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

    #[test]
    fn nothing_is_changed_without_a_watchdog() {
        let folder = tempfile::tempdir().unwrap();
        let sysroot = Sysroot::recorded(folder.path());
        let path = folder.path().join("pool.journal");
        let lock = ArrayLock::of_journal(&path, false).unwrap();
        let journal = Journal::new(&sysroot, "pool", Identifiers::default(), Vec::new());
        let error = ChangedArray::new(&sysroot, lock, journal, &["true".into()]).err().unwrap();
        assert!(error.to_string().contains("watchdog"), "{error}");
        assert!(!path.exists());
    }
}
