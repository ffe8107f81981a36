//! Settings put back, on copies of the files of a machine.

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

    // Nor does a number that nobody has say that it was replaced.
    tree.set("/sys/block/md0/md/dev-sdb/slot", "2\n");
    tree.set("/sys/block/md0/md/degraded", "0\n");
    assert!(!tree.restore(&journal).is_as_before() && tree.path().exists());
}

#[test]
fn a_setting_is_gone_with_a_member_that_was_replaced() {
    let tree = Tree::new();
    let serial = |disk, text| tree.set(&format!("/sys/block/{disk}/device/serial"), text);
    serial("sda", "A1\n");
    serial("sdb", "C3\n");
    let journal = tree.journal();
    serial("sda", "B2\n");
    tree.set("/sys/block/md0/md/degraded", "1\n");
    assert!(!tree.restore(&journal).is_as_before() && tree.path().exists());
    tree.set("/sys/block/md0/md/degraded", "0\n");
    let report = tree.restore(&journal);
    let line = format!("left {STATE}: its member was replaced, the setting is gone with it");
    assert!(report.lines().contains(&line), "{report:?}");
    assert!(report.is_as_before() && !tree.path().exists());
}

#[test]
fn a_folder_that_is_out_of_reach_keeps_the_journal() {
    let tree = Tree::new();
    let mut journal = tree.journal();
    let path = tree.folder.path().join("mount/.mirrorball-bench-1-2");
    let above = "/mount".to_owned();
    let inode = None;
    journal.folder = Some(JournalFolder { path: path.display().to_string(), above, inode });
    let report = tree.restore(&journal);
    assert!(report.failed[0].contains("/mount is not on the array"), "{report:?}");
    assert!(tree.path().exists());
    fs::create_dir_all(&path).unwrap();
    assert!(tree.restore(&journal).is_as_before());
    assert!(!path.exists() && !tree.path().exists());
}

/// Value that bench sets a policy to.
fn policy_value() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("pid".to_owned()),
        (0..5u64).prop_map(|shift| format!("round-robin:{}", 4096 << shift)),
        (0..4u64).prop_map(|devid| format!("devid:{devid}")),
    ]
}

proptest! {
    // Each case makes a tree of files: 256 took 27 s of a processor.
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]

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
