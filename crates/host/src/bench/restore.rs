//! Puts back what a journal says: by `bench` at its end, by its watchdog, or by `bench --restore`.
//!
//! A knob that shows a value which is neither ours nor the one before was set by another program,
//! and stays. After a restart of the machine only md's flags are put back: the other settings are
//! lost with the kernel that held them, and what it shows now is what it was started with. Flags of
//! an array that is not there, and a folder on it, are not lost: then the journal is kept.

use super::data_folder;
use super::journal::{self, Journal, JournalFolder, JournalKnob, StartedLoad};
use super::knob::Knob;
use super::knob_place::locate;
use crate::detect::{Identifiers, Sysroot, array_identifiers, detect_at};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// What md's `sync_action` shows during a check, and is set to to end it.
pub(super) const CHECK: &str = "check";
pub(super) const IDLE: &str = "idle";

/// What became of the knobs of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Paths that were written, each with the value before and the value now in force.
    pub restored: Vec<(String, String, String)>,
    /// Number of settings that were as before, or are gone with the array that had them.
    pub unchanged: usize,
    /// Paths that another program changed, with the value that they show; they were left.
    pub foreign: Vec<(String, String)>,
    /// Paths that the restart of the machine has reset; they were left.
    pub after_restart: Vec<String>,
    /// What could not be put back, and why.
    pub failed: Vec<String>,
    /// The journal, if it is kept because something could not be put back.
    pub kept: Option<String>,
}

impl RestoreReport {
    /// True if everything is as it was before `bench`, as far as a restart has not reset it.
    pub fn is_as_before(&self) -> bool {
        self.failed.is_empty() && self.foreign.is_empty()
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
        lines.extend(self.kept.iter().map(|journal| {
            format!(
                "the journal {journal} is kept: run `mirrorball bench --restore` again, or remove \
                 the journal if what it lists is gone for good"
            )
        }));
        lines
    }

    fn fail(&mut self, reason: String) {
        if !self.failed.contains(&reason) {
            self.failed.push(reason);
        }
    }
}

/// Puts back what the journal at `path` says, and removes the journal if nothing failed.
pub(super) fn restore(sysroot: &Sysroot, path: &Path, journal: &Journal) -> RestoreReport {
    let mut report = RestoreReport::default();
    let is_later_boot = journal.is_of_earlier_boot(sysroot);
    if let Some(load) = &journal.load
        && !is_later_boot
    {
        end_load(sysroot, &journal.identity, load, &mut report);
    }
    // In reverse, so that what depends on an earlier change is undone before it.
    for knob in journal.knobs.iter().rev() {
        restore_knob(sysroot, &journal.identity, knob, is_later_boot, &mut report);
    }
    if let Some(folder) = &journal.folder {
        remove_folder(sysroot, &journal.identity, folder, &mut report);
    }
    if report.failed.is_empty()
        && let Err(error) = journal::remove(path)
    {
        report.fail(format!("cannot remove the journal {}: {error}", path.display()));
    }
    if !report.failed.is_empty() {
        report.kept = Some(path.display().to_string());
    }
    report
}

fn restore_knob(
    sysroot: &Sysroot,
    identity: &Identifiers,
    entry: &JournalKnob,
    is_later_boot: bool,
    report: &mut RestoreReport,
) {
    let JournalKnob { knob, member, before, ours } = entry;
    let is_lasting = knob.kind.is_lasting();
    let located = locate(sysroot, identity, knob, member).and_then(|knob| {
        let raw = knob.raw(sysroot);
        raw.map(|raw| (knob.clone(), raw)).ok_or_else(|| format!("cannot read {}", knob.path))
    });
    let (knob, now) = match located {
        Ok(found) => found,
        Err(reason) if is_lasting => return report.fail(reason),
        Err(_) => {
            // The setting is gone with the array, which is stopped or not mounted.
            report.unchanged += 1;
            return;
        }
    };
    let writes = knob.kind.writes_to_restore(before, &now);
    if writes.is_empty() {
        report.unchanged += 1;
        return;
    }
    if is_later_boot && !is_lasting {
        report.after_restart.push(knob.path);
        return;
    }
    let (old, value) = (knob.kind.value(before), knob.kind.value(&now));
    let is_ours = ours.contains(&value) || knob.kind.may_be_left_by_restore(before, &value);
    if value != old && !is_ours {
        report.foreign.push((knob.path, value));
        return;
    }
    match written(sysroot, &knob, &writes) {
        Ok(shown) if shown == old => report.restored.push((knob.path, value, old)),
        Ok(shown) => report.fail(format!("{} shows `{shown}` after `{old}` was set", knob.path)),
        Err(error) => report.fail(error.to_string()),
    }
}

/// Writes the texts one after the other, and returns the value that is in force then.
fn written(sysroot: &Sysroot, knob: &Knob, texts: &[String]) -> io::Result<String> {
    for text in texts {
        knob.write(sysroot, text)?;
    }
    knob.value(sysroot)
}

/// Ends work in the background that `bench` started in this boot.
fn end_load(
    sysroot: &Sysroot,
    identity: &Identifiers,
    load: &StartedLoad,
    report: &mut RestoreReport,
) {
    match load {
        StartedLoad::Check(knob) => {
            // An array that is not there checks nothing.
            let Ok(knob) = locate(sysroot, identity, knob, &Identifiers::default()) else { return };
            if knob.value(sysroot).is_ok_and(|action| action == CHECK)
                && let Err(error) = knob.write(sysroot, IDLE)
            {
                report.fail(error.to_string());
            }
        }
        StartedLoad::EndedBy(command) => {
            if let [program, arguments @ ..] = command.as_slice() {
                // That it fails is usual: the work may have ended.
                let mut command = Command::new(program);
                command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
                let _ = command.stderr(Stdio::null()).status();
            }
        }
    }
}

fn remove_folder(
    sysroot: &Sysroot,
    identity: &Identifiers,
    folder: &JournalFolder,
    report: &mut RestoreReport,
) {
    let JournalFolder { path, above } = folder;
    if Path::new(path).symlink_metadata().is_ok() {
        if let Err(error) = data_folder::remove(Path::new(path)) {
            report.fail(format!("cannot remove the folder {path}: {error}"));
        }
        return;
    }
    let is_array = detect_at(sysroot, above)
        .is_ok_and(|array| identity.matches(&array_identifiers(sysroot, &array)) == Some(true));
    if !is_array {
        report.fail(format!(
            "the folder {path}, which may have a large file, is out of reach: {above} is not on \
             the array ({identity}): mount it there"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::knob::KnobKind;
    use crate::bench::knob_place::MdPath;
    use crate::detect::{find_md, md_members};
    use proptest::prelude::{Just, Strategy, prop_assert_eq, prop_oneof, proptest};
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
                (BOOT_ID, "one\n"),
                ("/sys/block/md0/md/uuid", "6a7b1cf3-0583-6719-a38e-9f19423ff1af\n"),
                (STATE, "in_sync\n"),
                ("/sys/block/md0/md/dev-sda/slot", "0\n"),
                ("/sys/block/md0/md/dev-sdb/state", "in_sync\n"),
                ("/sys/block/md0/md/dev-sdb/slot", "1\n"),
            ] {
                tree.set(path, text);
            }
            tree
        }

        fn sysroot(&self) -> Sysroot {
            Sysroot::recorded(self.folder.path())
        }

        fn set(&self, path: &str, text: &str) {
            let file = self.sysroot().host_path(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }

        /// The machine is started again, and finds the array under another name.
        fn restart(&self, array: &str) {
            self.set(BOOT_ID, "two\n");
            let folder = |name: &str| self.sysroot().host_path(&format!("/sys/block/{name}"));
            fs::rename(folder("md0"), folder(array)).unwrap();
        }

        fn text(&self, path: &str) -> String {
            fs::read_to_string(self.sysroot().host_path(path)).unwrap()
        }

        /// A journal of both knobs, written.
        fn journal(&self) -> Journal {
            let members = md_members(&self.sysroot(), "md0");
            let identity = |path: &str| {
                let member = MdPath::of(path).and_then(|path| path.member);
                let found = members.iter().find(|(name, _)| Some(name.as_str()) == member);
                found.map_or_else(Identifiers::default, |(_, identity)| identity.clone())
            };
            let entry = |path: &str, kind, ours: &[&str]| JournalKnob {
                knob: Knob { path: path.to_owned(), kind },
                member: identity(path),
                before: self.text(path),
                ours: ours.iter().map(|it| (*it).to_owned()).collect(),
            };
            let knobs = vec![
                entry(POLICY, KnobKind::Choice, &["pid", "round-robin:4096", "devid:2"]),
                entry(STATE, KnobKind::Flag, &["on", "off"]),
            ];
            let uuid = "6a7b1cf305836719a38e9f19423ff1af";
            let identity = serde_json::from_str(&format!("[[\"UUID in sysfs\", \"{uuid}\"]]"));
            let journal = Journal::new(&self.sysroot(), "pool", identity.unwrap(), knobs);
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
        assert!(report.is_as_before() && !tree.path().exists());
        assert_eq!(report.restored.len(), 2);
    }

    #[test]
    fn what_another_program_set_is_left() {
        let tree = Tree::new();
        let journal = tree.journal();
        tree.set(POLICY, "pid round-robin:262144 [devid:7]\n");
        let report = tree.restore(&journal);
        assert_eq!(report.foreign, [(POLICY.to_owned(), "devid:7".to_owned())]);
        assert!(tree.text(POLICY).contains("[devid:7]"));
        assert!(!report.is_as_before() && report.kept.is_none() && !tree.path().exists());
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
    fn a_setting_that_is_gone_with_its_array_is_nothing_to_restore() {
        let tree = Tree::new();
        let journal = tree.journal();
        fs::remove_file(tree.sysroot().host_path(POLICY)).unwrap();
        let report = tree.restore(&journal);
        assert!(report.is_as_before(), "{report:?}");
        assert_eq!(report.unchanged, 2);
    }

    #[test]
    fn flags_of_an_array_with_another_name_are_restored() {
        let tree = Tree::new();
        let journal = tree.journal();
        tree.set(STATE, "in_sync,write_mostly\n");
        tree.restart("md127");
        let report = tree.restore(&journal);
        let path = "/sys/block/md127/md/dev-sda/state";
        assert_eq!(tree.text(path), "in_sync\n");
        assert_eq!(report.restored[0].0, path);
        assert!(report.is_as_before() && !tree.path().exists());
    }

    #[test]
    fn flags_of_an_array_that_is_not_there_keep_the_journal() {
        let tree = Tree::new();
        let journal = tree.journal();
        tree.set(STATE, "in_sync,write_mostly\n");
        tree.restart("gone");
        let sysroot = tree.sysroot();
        let away = tree.folder.path().join("away");
        fs::rename(sysroot.host_path("/sys/block/gone"), &away).unwrap();
        // Another array has the name now.
        tree.set("/sys/block/md0/md/uuid", "00000000-0583-6719-a38e-9f19423ff1af\n");
        tree.set(STATE, "in_sync,write_mostly\n");
        let report = tree.restore(&journal);
        assert!(report.failed[0].contains("is not there: assemble it"), "{report:?}");
        assert!(!report.is_as_before() && tree.path().exists());
        assert_eq!(tree.text(STATE), "in_sync,write_mostly\n", "not of this array");
        assert!(report.lines().last().unwrap().contains("run `mirrorball bench --restore` again"));
        fs::rename(away, sysroot.host_path("/sys/block/md127")).unwrap();
        let report = tree.restore(&journal);
        assert!(report.is_as_before() && !tree.path().exists(), "{report:?}");
        assert_eq!(tree.text("/sys/block/md127/md/dev-sda/state"), "in_sync\n");
    }

    #[test]
    fn a_flag_follows_its_disk_and_not_its_name() {
        let tree = Tree::new();
        tree.set(STATE, "in_sync,write_mostly\n");
        let journal = tree.journal();
        assert_eq!(journal.knobs[1].knob.path, STATE);
        // Killed while no member had the flag. Then the disks have exchanged their names.
        tree.set(STATE, "in_sync\n");
        tree.set(BOOT_ID, "two\n");
        tree.set("/sys/block/md0/md/dev-sda/slot", "1\n");
        tree.set("/sys/block/md0/md/dev-sdb/slot", "0\n");
        let report = tree.restore(&journal);
        assert_eq!(tree.text(STATE), "in_sync\n");
        assert_eq!(tree.text("/sys/block/md0/md/dev-sdb/state"), "in_sync,write_mostly\n");
        assert!(report.is_as_before());

        // It was replaced by a disk in no slot of this array.
        journal.write(&tree.path()).unwrap();
        tree.set("/sys/block/md0/md/dev-sdb/slot", "none\n");
        let report = tree.restore(&journal);
        assert!(report.failed[0].contains("that was sda (slot 0) is not in the array"));
        assert!(tree.path().exists());
    }

    #[test]
    fn a_folder_that_is_out_of_reach_keeps_the_journal() {
        let tree = Tree::new();
        let mut journal = tree.journal();
        let path = tree.folder.path().join("mount/.mirrorball-bench-1-2");
        let above = "/mount".to_owned();
        journal.folder = Some(JournalFolder { path: path.display().to_string(), above });
        let report = tree.restore(&journal);
        assert!(report.failed[0].contains("/mount is not on the array"), "{report:?}");
        assert!(tree.path().exists());
        fs::create_dir_all(&path).unwrap();
        assert!(tree.restore(&journal).is_as_before());
        assert!(!path.exists() && !tree.path().exists());
    }

    #[test]
    fn only_work_that_bench_started_in_this_boot_is_ended() {
        let tree = Tree::new();
        let action = "/sys/block/md0/md/sync_action";
        let ended = tree.folder.path().join("ended");
        let mut journal = tree.journal();
        let knob = Knob { path: action.to_owned(), kind: KnobKind::Plain };
        let end = vec!["touch".to_owned(), ended.display().to_string()];
        for (load, shown, boot, after, is_ended) in [
            (Some(StartedLoad::Check(knob.clone())), "check", "one", "idle", false),
            (Some(StartedLoad::Check(knob.clone())), "recover", "one", "recover", false),
            (Some(StartedLoad::Check(knob)), "check", "two", "check", false),
            (None, "check", "one", "check", false),
            (Some(StartedLoad::EndedBy(end.clone())), "idle", "two", "idle", false),
            (Some(StartedLoad::EndedBy(end)), "idle", "one", "idle", true),
        ] {
            journal.load = load;
            journal.write(&tree.path()).unwrap();
            tree.set(action, shown);
            tree.set(BOOT_ID, boot);
            assert!(tree.restore(&journal).is_as_before());
            assert_eq!((tree.text(action).as_str(), ended.exists()), (after, is_ended));
        }
    }

    /// What bench sets a policy to.
    fn policy_value() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("pid".to_owned()),
            (0..5u64).prop_map(|shift| format!("round-robin:{}", 4096 << shift)),
            (0..4u64).prop_map(|devid| format!("devid:{devid}")),
        ]
    }

    proptest! {
        /// Bench is killed after any of its writes, and the process that restores after any of its.
        #[test]
        fn restoring_again_after_a_kill_leads_back(
            earlier in proptest::collection::vec(policy_value(), 0..4),
            set in proptest::collection::vec(policy_value(), 0..5),
            writes_before_kill in 0..4usize,
        ) {
            let tree = Tree::new();
            let knob = Knob { path: POLICY.to_owned(), kind: KnobKind::Choice };
            for value in &earlier {
                knob.set(&tree.sysroot(), value).unwrap();
            }
            let before = tree.text(POLICY);
            let mut journal = tree.journal();
            journal.knobs[0].ours = set.clone();
            for value in &set {
                knob.set(&tree.sysroot(), value).unwrap();
            }
            let writes = knob.kind.writes_to_restore(&before, &tree.text(POLICY));
            for text in writes.iter().take(writes_before_kill) {
                knob.write(&tree.sysroot(), text).unwrap();
            }
            let report = tree.restore(&journal);
            prop_assert_eq!(tree.text(POLICY), before);
            prop_assert_eq!(report.foreign, Vec::new());
        }
    }

    #[test]
    fn the_array_of_the_tests_is_found() {
        let tree = Tree::new();
        let journal = tree.journal();
        assert_eq!(find_md(&tree.sysroot(), &journal.identity, "md0").as_deref(), Some("md0"));
    }
}
