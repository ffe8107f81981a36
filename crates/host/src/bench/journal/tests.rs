//! The journal as text, and as a file.

use super::*;
use proptest::prelude::{Strategy, any, prop_assert_eq, proptest};
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};

const POLICY: &str = "/sys/fs/btrfs/F/read_policy";

fn journal() -> impl Strategy<Value = Journal> {
    let knob = ("[a-z0-9][a-z0-9-]{0,36}", any::<String>(), any::<Vec<String>>());
    let knobs = proptest::collection::vec(knob, 0..4);
    (any::<String>(), any::<Option<String>>(), knobs).prop_map(|(array, folder, knobs)| {
        let knob = |(path, before, ours): (String, _, _)| {
            let path = format!("/sys/fs/btrfs/{path}/read_policy");
            let knob = Knob { path, kind: KnobKind::Choice };
            JournalKnob { knob, member: Identifiers::default(), before, ours }
        };
        Journal {
            version: VERSION,
            array,
            identity: Identifiers::default(),
            boot_id: String::new(),
            process: 7,
            folder: folder.map(|path| JournalFolder { above: path.clone(), path, inode: Some(7) }),
            knobs: knobs.into_iter().map(knob).collect(),
            fio: Some(StartedProcess { process: 7, start_time: 9 }),
            tuned: None,
        }
    })
}

proptest! {
    #[test]
    fn every_journal_is_read_as_it_was_written(journal in journal()) {
        prop_assert_eq!(Journal::decode(&journal.encode()), Ok(journal));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>()) {
        let _ = Journal::decode(&text);
    }
}

#[test]
fn a_journal_of_another_version_or_cut_off_is_refused() {
    let sysroot = Sysroot::recorded(Path::new("/nowhere"));
    let text = Journal::new(&sysroot, "md0", Identifiers::default(), Vec::new()).encode();
    let other = text.replace("\"version\": 2", "\"version\": 1");
    assert!(Journal::decode(&other).unwrap_err().contains("version 1"));
    let fewer = "{\"version\": 3}";
    assert!(Journal::decode(fewer).unwrap_err().contains("version 3"));
    for end in 0..text.len() - 2 {
        assert!(Journal::decode(&text[..end]).is_err(), "{end}");
    }
}

#[test]
fn a_journal_with_what_bench_never_does_is_refused() {
    let sysroot = Sysroot::recorded(Path::new("/nowhere"));
    let state = "/sys/block/md0/md/dev-sda/state";
    let entry = |path: &str| JournalKnob {
        knob: Knob { path: path.to_owned(), kind: KnobKind::Plain },
        member: Identifiers::default(),
        before: "0".to_owned(),
        ours: Vec::new(),
    };
    for (path, refused) in [
        (POLICY, false),
        ("/etc/passwd", true),
        ("/sys/../etc/passwd", true),
        (state, true),
        ("/sys/kernel/uevent_helper", true),
        ("/sys/block/md0/md/sync_action", true),
        ("/sys/block/md0/md/sync_min", true),
        ("lvm:vg0/$(reboot):/dev/sda", true),
        ("lvm:vg0/data:/dev/sda", true),
        ("/etc/modprobe.d/mirrorball-zfs.conf", true),
    ] {
        let journal = Journal::new(&sysroot, "pool", Identifiers::default(), vec![entry(path)]);
        let read = Journal::decode(&journal.encode());
        let part = format!("`{path}`, which Mirrorball never sets");
        match (read, refused) {
            (Ok(_), false) => {}
            (Err(error), true) => assert!(error.contains(&part), "{error}"),
            (other, _) => panic!("{path}: {other:?}"),
        }
    }
}

#[test]
fn a_journal_that_another_user_may_have_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool.journal");
    let sysroot = Sysroot::recorded(folder.path());
    let journal = Journal::new(&sysroot, "pool", Identifiers::default(), Vec::new());
    // A link where the text is written first leads nowhere.
    let theirs = folder.path().join("theirs");
    fs::write(&theirs, "kept").unwrap();
    symlink(&theirs, path.with_extension("journal.new")).unwrap();
    journal.write(&path).unwrap();
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "kept");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(Journal::read(&path), Ok(Some(journal)));

    fs::set_permissions(&path, Permissions::from_mode(0o620)).unwrap();
    let error = Journal::read(&path).unwrap_err().to_string();
    assert!(error.contains("another user may have written it"), "{error}");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let link = folder.path().join("link.journal");
    symlink(&path, &link).unwrap();
    assert!(Journal::read(&link).is_err());
    let folder = create_folder(&sysroot).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    assert_eq!(mode(&create_folder(&sysroot).unwrap()), 0o700);
}

#[test]
fn a_written_journal_replaces_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("md-md0.journal");
    let sysroot = Sysroot::recorded(folder.path());
    assert_eq!(Journal::read(&path), Ok(None));
    for array in ["one", "two"] {
        let journal = Journal::new(&sysroot, array, Identifiers::default(), Vec::new());
        journal.write(&path).unwrap();
        assert_eq!(Journal::read(&path).unwrap().unwrap().array, array);
    }
    remove(&path).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let created = create_folder(&sysroot).unwrap();
    assert!(created.is_dir() && created.ends_with("var/lib/mirrorball/bench"));
    assert_eq!(create_folder(&sysroot).unwrap(), created);
}
