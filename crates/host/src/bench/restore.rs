//! Puts back what a journal says: by `bench` at its end, by its watchdog, or by `bench --restore`.
//!
//! A knob that shows a value which is neither ours nor the one before was set by someone else, and
//! stays. After a restart of the machine only md's flags are put back: the other settings are lost
//! with the kernel that held them, and what it shows now is what it was started with.

use super::data_folder;
use super::journal::{self, Journal, JournalKnob};
use super::knob::KnobKind;
use crate::detect::Sysroot;
use std::path::Path;
use std::process::{Command, Stdio};

/// What became of the knobs of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Paths that were written, each with the value before and the value now in force.
    pub restored: Vec<(String, String, String)>,
    /// Paths that were as before.
    pub unchanged: usize,
    /// Paths that someone else changed, with the value that they show; they were left.
    pub foreign: Vec<(String, String)>,
    /// Paths that the restart of the machine has reset; they were left.
    pub after_restart: Vec<String>,
    /// What could not be put back, and why.
    pub failed: Vec<String>,
}

impl RestoreReport {
    /// True if nothing is left to do.
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty()
    }

    /// The report in lines.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (path, from, to) in &self.restored {
            lines.push(format!("restored {path}: {from} -> {to}"));
        }
        for (path, value) in &self.foreign {
            lines.push(format!("left {path}: it shows `{value}`, which bench did not set"));
        }
        for path in &self.after_restart {
            lines.push(format!("left {path}: the machine was restarted, which has reset it"));
        }
        lines.extend(self.failed.iter().map(|reason| format!("not restored: {reason}")));
        lines
    }
}

/// Puts back what the journal at `path` says, and removes the journal if nothing failed.
pub(super) fn restore(sysroot: &Sysroot, path: &Path, journal: &Journal) -> RestoreReport {
    let mut report = RestoreReport::default();
    for command in &journal.commands {
        end_background(sysroot, command);
    }
    let is_later_boot = journal.is_of_earlier_boot(sysroot);
    // In reverse, so that what depends on an earlier change is undone before it.
    for knob in journal.knobs.iter().rev() {
        restore_knob(sysroot, knob, is_later_boot, &mut report);
    }
    if let Some(folder) = &journal.folder
        && let Err(error) = data_folder::remove(Path::new(folder))
    {
        report.failed.push(format!("cannot remove the folder {folder}: {error}"));
    }
    if report.is_complete()
        && let Err(error) = journal::remove(path)
    {
        report.failed.push(format!("cannot remove the journal {}: {error}", path.display()));
    }
    report
}

fn restore_knob(
    sysroot: &Sysroot,
    entry: &JournalKnob,
    is_later_boot: bool,
    report: &mut RestoreReport,
) {
    let JournalKnob { knob, before, ours } = entry;
    let Some(now) = knob.raw(sysroot) else {
        // Without the array there is nothing to put back: it is stopped or not mounted.
        report.unchanged += 1;
        return;
    };
    let writes = knob.kind.writes_to_restore(before, &now);
    if writes.is_empty() {
        report.unchanged += 1;
        return;
    }
    if is_later_boot && knob.kind != KnobKind::Flag {
        report.after_restart.push(knob.path.clone());
        return;
    }
    let (old, value) = (knob.kind.value(before), knob.kind.value(&now));
    if value != old && !ours.contains(&value) {
        report.foreign.push((knob.path.clone(), value));
        return;
    }
    for text in &writes {
        if let Err(error) = knob.write(sysroot, text) {
            report.failed.push(error.to_string());
            return;
        }
    }
    match knob.value(sysroot) {
        Ok(shown) if shown == old => report.restored.push((knob.path.clone(), value, old)),
        Ok(shown) => {
            let reason = format!("{} shows `{shown}` after `{old}` was written", knob.path);
            report.failed.push(reason);
        }
        Err(error) => report.failed.push(error.to_string()),
    }
}

/// Runs a command that ends background work. That it fails is usual: the work may have ended.
fn end_background(sysroot: &Sysroot, command: &[String]) {
    if let [program, arguments @ ..] = command
        && sysroot.is_live()
    {
        let quiet = || Stdio::null();
        let mut command = Command::new(program);
        let _ = command.args(arguments).stdin(quiet()).stdout(quiet()).stderr(quiet()).status();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::knob::Knob;
    use std::fs;

    const POLICY: &str = "/sys/fs/btrfs/F/read_policy";
    const STATE: &str = "/sys/block/md0/md/dev-sda/state";
    const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

    struct Tree {
        folder: tempfile::TempDir,
    }

    impl Tree {
        fn new() -> Tree {
            let tree = Tree { folder: tempfile::tempdir().unwrap() };
            for (path, text) in [
                (POLICY, "[pid] round-robin:262144 devid:1\n"),
                (STATE, "in_sync\n"),
                (BOOT_ID, "one\n"),
            ] {
                let file = tree.sysroot().host_path(path);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, text).unwrap();
            }
            tree
        }

        fn sysroot(&self) -> Sysroot {
            Sysroot::recorded(self.folder.path())
        }

        fn set(&self, path: &str, text: &str) {
            fs::write(self.sysroot().host_path(path), text).unwrap();
        }

        fn text(&self, path: &str) -> String {
            fs::read_to_string(self.sysroot().host_path(path)).unwrap()
        }

        /// A journal of both knobs, written.
        fn journal(&self) -> Journal {
            let entry = |path: &str, kind, ours: &[&str]| JournalKnob {
                knob: Knob { path: path.to_owned(), kind },
                before: self.text(path),
                ours: ours.iter().map(|it| (*it).to_owned()).collect(),
            };
            let knobs = vec![
                entry(POLICY, KnobKind::Choice, &["pid", "round-robin:4096", "devid:2"]),
                entry(STATE, KnobKind::Flag, &["on", "off"]),
            ];
            let journal = Journal::new(&self.sysroot(), "pool", knobs);
            journal.write(&self.path()).unwrap();
            journal
        }

        fn path(&self) -> std::path::PathBuf {
            self.folder.path().join("pool.journal")
        }

        fn restore(&self, journal: &Journal) -> RestoreReport {
            restore(&self.sysroot(), &self.path(), journal)
        }
    }

    #[test]
    fn every_knob_is_as_before_and_the_journal_is_gone() {
        let tree = Tree::new();
        let before = (tree.text(POLICY), tree.text(STATE));
        let journal = tree.journal();
        for (knob, value) in journal.knobs.iter().zip(["round-robin:4096", "on"]) {
            knob.knob.set(&tree.sysroot(), value).unwrap();
        }
        assert_ne!((tree.text(POLICY), tree.text(STATE)), before);
        let report = tree.restore(&journal);
        assert_eq!((tree.text(POLICY), tree.text(STATE)), before);
        assert!(report.is_complete() && !tree.path().exists());
        assert_eq!(report.restored.len(), 2);
    }

    #[test]
    fn what_someone_else_set_is_left() {
        let tree = Tree::new();
        let journal = tree.journal();
        tree.set(POLICY, "pid round-robin:262144 [devid:7]\n");
        let report = tree.restore(&journal);
        assert_eq!(report.foreign, [(POLICY.to_owned(), "devid:7".to_owned())]);
        assert!(tree.text(POLICY).contains("[devid:7]"));
    }

    #[test]
    fn after_a_restart_only_flags_are_restored() {
        let tree = Tree::new();
        let journal = tree.journal();
        tree.set(POLICY, "pid round-robin:262144 [devid:2]\n");
        tree.set(STATE, "in_sync,write_mostly\n");
        tree.set(BOOT_ID, "two\n");
        let report = tree.restore(&journal);
        assert_eq!(report.after_restart, [POLICY]);
        assert_eq!(tree.text(STATE), "in_sync\n");
        assert!(tree.text(POLICY).contains("[devid:2]"));
        assert!(!tree.path().exists());
    }

    #[test]
    fn a_knob_that_is_gone_is_nothing_to_restore() {
        let tree = Tree::new();
        let journal = tree.journal();
        fs::remove_file(tree.sysroot().host_path(POLICY)).unwrap();
        let report = tree.restore(&journal);
        assert!(report.is_complete(), "{report:?}");
        assert_eq!(report.unchanged, 2);
    }
}
