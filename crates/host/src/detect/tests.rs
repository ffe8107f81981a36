//! Recorded copies of machines, in `tests/sysroots`: each gives its array file, and no change to
//! any of its files leads to a panic.

use super::{DetectError, DetectedArray, Sysroot, detect_all, detect_at, detect_without_copies};
use mirrorball_core::rng::Rng;
use mirrorball_disk::array_file::ArrayFile;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

pub(super) fn sysroots() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sysroots")
}

/// The names of the recorded copies.
pub(super) fn names() -> Vec<String> {
    let entries = fs::read_dir(sysroots()).unwrap().map(|entry| entry.unwrap());
    let folders = entries.filter(|entry| entry.path().join("sys").is_dir());
    let mut names: Vec<String> =
        folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    assert!(names.len() > 15, "{names:?}");
    names
}

/// The only array of a recorded copy.
fn only(name: &str) -> DetectedArray {
    let mut all = detect_all(&Sysroot::recorded(&sysroots().join(name)));
    assert_eq!(all.len(), 1, "{name}: {all:?}");
    all.remove(0).unwrap()
}

#[test]
fn every_recorded_copy_gives_its_array_file() {
    for name in names() {
        let array = only(&name);
        let text = array.array_file();
        let file = ArrayFile::parse(&text, "a.toml").unwrap_or_else(|error| {
            panic!("{name}: {error}\n{text}");
        });
        let source = file.spec.source.as_ref().unwrap();
        assert_eq!(source.system, array.system.name());
        assert_eq!(file.spec.members.len(), array.members.len());
        insta::assert_snapshot!(name, text);
    }
}

#[test]
fn every_recorded_copy_gives_its_json() {
    for name in names() {
        let json = serde_json::to_string_pretty(&only(&name)).unwrap();
        insta::assert_snapshot!(format!("{name}.json"), json);
    }
}

#[test]
fn a_path_below_a_mount_and_the_devices_lead_to_the_same_array() {
    for (name, targets) in [
        ("btrfs-raid1-three", &["/srv/data", "/srv/data/films/x", "/dev/sdh", "pool"][..]),
        ("md-raid1-hdd-ssd", &["/srv/data/x", "/dev/md0", "md0"]),
        (
            "lvm-raid1",
            &["/srv/data", "/dev/vg0/data", "/dev/mapper/vg0-data", "vg0/data", "vg0", "data"],
        ),
        (
            "luks-on-lvm-on-md",
            &["/srv/data", "/dev/mapper/home", "home", "/dev/vg1/home", "vg1", "md0"],
        ),
        ("nvme-multipath", &["/dev/nvme0n1", "nvme0n1", "nvme-subsys0"]),
        ("zfs-mirror", &["/tank/media/x", "tank", "tank/media"]),
    ] {
        let members = |array: &DetectedArray| {
            array.members.iter().map(|it| it.kernel_name.clone()).collect::<Vec<_>>()
        };
        let expected = only(name);
        for target in targets {
            let found = detect_at(&Sysroot::recorded(&sysroots().join(name)), target);
            let found = found.unwrap_or_else(|error| panic!("{name} {target}: {error:?}"));
            assert_eq!(found.system, expected.system, "{name} {target}");
            assert_eq!(members(&found), members(&expected), "{name} {target}");
        }
    }
}

#[test]
fn a_nested_stack_is_listed_from_the_top() {
    let root = Sysroot::recorded(&sysroots().join("luks-on-lvm-on-md"));
    let array = detect_at(&root, "/srv/data").unwrap();
    let kinds: Vec<&str> = array.stack.iter().map(|layer| layer.kind.as_str()).collect();
    assert_eq!(kinds, ["xfs", "luks", "lvm", "md raid1"]);
    let mirrored: Vec<bool> = array.stack.iter().map(|layer| layer.is_mirrored).collect();
    assert_eq!(mirrored, [false, false, false, true]);
    assert_eq!(array.mount.as_deref(), Some("/srv/data"));
}

/// A recorded copy in a folder of its own, with some files of md changed; none removes the file.
fn changed(name: &str, files: &[(&str, Option<&str>)]) -> (tempfile::TempDir, Sysroot) {
    let folder = tempfile::tempdir().unwrap();
    copy(&sysroots().join(name), folder.path(), &mut Vec::new());
    for (file, content) in files {
        let path = folder.path().join("sys/block/md0/md").join(file);
        match content {
            Some(content) => fs::write(path, content).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
    }
    let root = Sysroot::recorded(folder.path());
    (folder, root)
}

#[test]
fn a_running_recovery_says_how_far_the_member_is() {
    let completed = ("sync_completed", Some("500000000 / 1953260928\n"));
    let recover =
        [("dev-sda/state", Some("spare\n")), ("sync_action", Some("recover\n")), completed];
    let (_folder, root) = changed("md-raid1-hdd-ssd", &recover);
    let text = detect_at(&root, "md0").unwrap().array_file();
    assert!(text.contains("condition = \"recovery at 25.6 %\""), "{text}");
    // 25.6 % of 976630464 KiB are 244157.6 MiB.
    assert!(text.contains("rebuilding = \"244157MiB\" # state: spare"), "{text}");
    assert!(ArrayFile::parse(&text, "a.toml").is_ok(), "{text}");
    // The progress of a check is not that of a rebuild.
    let check = [recover[0], ("sync_action", Some("check\n")), completed];
    let (_folder, root) = changed("md-raid1-hdd-ssd", &check);
    let text = detect_at(&root, "md0").unwrap().array_file();
    assert!(text.contains("rebuilding = \"0\""), "{text}");
}

#[test]
fn a_stopped_array_is_named_and_an_array_that_keeps_no_copies_too() {
    let stopped = [("array_state", Some("inactive\n")), ("sync_action", None)];
    let (_folder, root) = changed("md-raid1-hdd-ssd", &stopped);
    let array = detect_at(&root, "md0").unwrap();
    assert!(array.condition.is_stopped() && array.not_known.is_empty(), "{array:?}");
    for (state, message) in [
        ("clean", Some("md0: cannot read its level")),
        ("inactive", Some("not running")),
        ("clear", None),
    ] {
        let files = [("array_state", Some(state)), ("level", None)];
        let (_folder, root) = changed("md-raid1-hdd-ssd", &files);
        let found = detect_all(&root);
        match (message, &found[..]) {
            (None, []) => {}
            (Some(message), [Err(DetectError::Unreadable(error))]) => {
                assert!(error.message.contains(message), "{error}");
            }
            other => panic!("{state}: {other:?}"),
        }
    }
    for (level, words) in [
        ("raid0", "md0 is md raid0 of 2 devices"),
        ("raid5", "md0 is md raid5 of 2 devices, which has parity instead of copies"),
    ] {
        let (_folder, root) = changed("md-raid1-hdd-ssd", &[("level", Some(level))]);
        assert!(detect_all(&root).is_empty());
        assert_eq!(detect_without_copies(&root), [words]);
    }
}

#[test]
fn a_member_that_vanishes_while_it_is_read_is_no_missing_member() {
    let (folder, root) = changed("md-raid1-hdd-ssd", &[("degraded", Some("0\n"))]);
    fs::remove_dir_all(folder.path().join("sys/block/md0/md/dev-sda")).unwrap();
    let error = detect_at(&root, "md0").unwrap_err();
    let DetectError::Unreadable(error) = error else { panic!("{error:?}") };
    assert!(error.message.contains("devices of 1 of its members cannot be read"), "{error}");
    // The kernel says that one is missing.
    let (folder, root) = changed("md-raid1-hdd-ssd", &[("degraded", Some("1\n"))]);
    fs::remove_dir_all(folder.path().join("sys/block/md0/md/dev-sda")).unwrap();
    assert_eq!(detect_at(&root, "md0").unwrap().condition.missing, 1);
}

#[test]
fn the_flags_of_a_raid10_are_shown_and_not_in_force() {
    let flagged = [("dev-sdc/state", Some("in_sync,write_mostly\n"))];
    let (_folder, root) = changed("md-raid10", &flagged);
    let array = detect_all(&root).remove(0).unwrap();
    assert_eq!(array.in_force().as_deref(), Some("md/raid10"));
    assert!(array.members.iter().any(|member| member.write_mostly), "{array:?}");
    assert!(array.notes.iter().any(|note| note.contains("has no effect")), "{:?}", array.notes);
}

#[test]
fn a_policy_for_a_member_that_is_not_there_is_not_known() {
    let folder = tempfile::tempdir().unwrap();
    copy(&sysroots().join("btrfs-raid1-three"), folder.path(), &mut Vec::new());
    let fsid = "sys/fs/btrfs/e67170fd-8ca4-41db-aca2-917730aa330b";
    fs::write(folder.path().join(fsid).join("read_policy"), "pid [devid:99]\n").unwrap();
    let array = detect_at(&Sysroot::recorded(folder.path()), "/srv/data").unwrap();
    assert_eq!((array.in_force(), &array.not_known[..]), (None, &["the read policy"][..]));
    assert_eq!(array.policy.text.as_deref(), Some("devid:99"));
}

#[test]
fn a_btrfs_that_is_not_mounted_is_named() {
    let folder = tempfile::tempdir().unwrap();
    copy(&sysroots().join("btrfs-raid1-three"), folder.path(), &mut Vec::new());
    fs::remove_dir_all(folder.path().join("sys/fs/btrfs")).unwrap();
    let root = Sysroot::recorded(folder.path());
    let number = root.text("/sys/block/sdg/dev").unwrap();
    fs::create_dir_all(folder.path().join("run/udev/data")).unwrap();
    let udev = folder.path().join(format!("run/udev/data/b{number}"));
    fs::write(udev, "E:ID_FS_TYPE=btrfs\n").unwrap();
    let error = detect_at(&root, "/dev/sdg");
    let Err(DetectError::NoArray(error)) = error else { panic!("{error:?}") };
    assert!(error.message.ends_with("it holds a btrfs that is not mounted"), "{error}");
}

#[test]
fn write_behind_is_noted() {
    let (_folder, root) = changed("md-raid1-hdd-ssd", &[("bitmap/backlog", Some("256\n"))]);
    let array = detect_at(&root, "md0").unwrap();
    assert!(array.notes.iter().any(|it| it.starts_with("write-behind is on")), "{:?}", array.notes);
    assert_eq!(array.policy.settings, [("write-behind".to_owned(), "256".to_owned())]);
}

/// Copies a tree, symbolic links as links, and returns its files.
fn copy(from: &Path, to: &Path, files: &mut Vec<PathBuf>) {
    fs::create_dir_all(to).unwrap();
    let mut entries: Vec<PathBuf> =
        fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let target = to.join(path.file_name().unwrap());
        let kind = path.symlink_metadata().unwrap().file_type();
        if kind.is_symlink() {
            symlink(fs::read_link(&path).unwrap(), &target).unwrap();
            files.push(target);
        } else if kind.is_dir() {
            copy(&path, &target, files);
        } else {
            fs::copy(&path, &target).unwrap();
            files.push(target);
        }
    }
}

/// The only array of a recorded copy without a file or folder of it.
fn without(name: &str, file: &str) -> DetectedArray {
    let folder = tempfile::tempdir().unwrap();
    copy(&sysroots().join(name), folder.path(), &mut Vec::new());
    let path = folder.path().join(file);
    match path.is_dir() {
        true => fs::remove_dir_all(path).unwrap(),
        false => fs::remove_file(path).unwrap(),
    }
    let mut all = detect_all(&Sysroot::recorded(folder.path()));
    assert_eq!(all.len(), 1, "{name}: {all:?}");
    all.remove(0).unwrap()
}

#[test]
fn the_policy_in_force_is_offered_whatever_the_version() {
    let text = "nvme-subsys1 - NQN=nqn.1988-11.com.dell:powerstore\n    iopolicy=queue-depth\n\\\n \
                +- nvme1 tcp traddr=10.0.0.1 live optimized\n \
                +- nvme2 tcp traddr=10.0.0.2 live optimized\n";
    // RHEL 9 has it in its 5.14, and the paste names no version.
    for version in ["", "Linux storage1 5.14.0-570.12.1.el9_6.x86_64 #1 SMP\n"] {
        let array = super::detect_pasted(&format!("{version}{text}")).remove(0).unwrap();
        assert_eq!(array.policy.offered, ["numa", "round-robin", "queue-depth"], "{array:?}");
    }
}

#[test]
fn state_that_cannot_be_read_is_named_and_is_no_fact() {
    let md = "sys/block/md0/md";
    for (name, file, not_known, in_force) in [
        ("lvm-raid1-writemostly", "tools", "level, write-mostly members", None),
        ("dm-multipath", "tools/dmsetup-status", "which paths are up", Some("dm/service-time")),
        ("nvme-multipath", "sys/class/nvme-subsystem/nvme-subsys0/iopolicy", "read policy", None),
        ("zfs-mirror", "sys/module/zfs/parameters", "the module parameters", None),
        ("btrfs-raid1-three", "tools", "which device has which devid", Some("btrfs/pid")),
        ("md-raid1-writemostly", &*format!("{md}/dev-sda/state"), "the state of a member", None),
        ("md-raid1-resyncing", &*format!("{md}/sync_action"), "whether a resync", Some("md/raid1")),
        ("md-raid10", &*format!("{md}/component_size"), "the size", Some("md/raid10")),
        ("md-raid10", "proc/sys/kernel/osrelease", "the version", Some("md/raid10")),
    ] {
        let array = without(name, file);
        assert!(array.not_known.iter().any(|it| it.contains(not_known)), "{name}: {array:?}");
        assert!(!array.notes.is_empty(), "{name}: {array:?}");
        assert_eq!(array.in_force().as_deref(), in_force, "{name}");
        assert!(array.members.iter().all(|member| !member.is_rebuilding), "{name}: {array:?}");
        let text = array.array_file();
        let source = ArrayFile::parse(&text, "a.toml").unwrap().spec.source.unwrap();
        assert!(source.not_known.is_some_and(|it| it.contains(not_known)), "{text}");
    }
}

/// Files that a copy has and `detect` does not read.
const UNREAD: [&str; 16] = [
    "stat", "inflight", "ro", "removable", "hidden", "wwid", "nsid", "error_stats", "iostats",
    "max_sectors_kb", "physical_block_size", "logical_block_size", "bytes_used", "disk_used",
    "disk_total", "used_bytes",
];

fn is_read(path: &Path) -> bool {
    path.file_name().is_none_or(|name| UNREAD.iter().all(|unread| name != *unread))
}

/// Detects everything there is, and checks that what was written can be read back or is refused
/// with an error.
fn detect_everything(folder: &Path) {
    let root = Sysroot::recorded(folder);
    let mut found = detect_all(&root);
    found.push(detect_at(&root, "/srv/data/file"));
    for array in found.into_iter().flatten() {
        let text = array.array_file();
        let table: Result<toml::Table, _> = text.parse();
        assert!(table.is_ok(), "{}\n{text}", table.unwrap_err());
        let _ = ArrayFile::parse(&text, "a.toml");
    }
}

/// Each time everything is read again, so all files of all copies take minutes.
const ONE_IN: u64 = 9;

#[test]
fn each_missing_file_and_link_leaves_an_answer_or_an_error() {
    let mut rng = Rng::stream(7, "missing");
    for name in names() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Vec::new();
        copy(&sysroots().join(&name), folder.path(), &mut files);
        for path in files.iter().filter(|path| is_read(path) && rng.below(ONE_IN) == 0) {
            let kept = folder.path().join("kept");
            fs::rename(path, &kept).unwrap();
            detect_everything(folder.path());
            fs::rename(&kept, path).unwrap();
        }
    }
}

#[test]
fn garbage_in_a_file_leaves_an_answer_or_an_error() {
    let mut rng = Rng::stream(7, "garbage");
    let words: [&[u8]; 12] = [
        b"", b"0", b"-1", b"18446744073709551615", b"9223372036854775807", b"[", b"\xff\xfe\0",
        b"1 (2)", b"raid1", b"\"\n[member]\n", b"99999999999999999999", b"a b c d e f g h\n\tb",
    ];
    for name in names() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Vec::new();
        copy(&sysroots().join(&name), folder.path(), &mut files);
        files.retain(|path| !path.symlink_metadata().unwrap().is_symlink());
        files.retain(|path| is_read(path) && rng.below(ONE_IN) == 0);
        for path in &files {
            let bytes = fs::read(path).unwrap();
            let word = words[rng.below(words.len() as u64) as usize];
            let cut = rng.below(bytes.len() as u64 + 1) as usize;
            let spliced = [&bytes[..cut], word, &bytes[(cut + cut / 7).min(bytes.len())..]];
            let garbage = if rng.below(2) == 0 { word.to_vec() } else { spliced.concat() };
            fs::write(path, garbage).unwrap();
            detect_everything(folder.path());
            fs::write(path, bytes).unwrap();
        }
    }
}
