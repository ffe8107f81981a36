//! Machines of owners, rebuilt from public reports: each is described as it is.
//!
//! `tests/sysroots/owners/` has a machine in a file each: a line for each file, `PATH = TEXT`, and
//! for each link, `PATH -> TARGET`.

use super::tests::sysroots;
use super::{DetectError, Sysroot, detect_all, detect_at};
use mirrorball_disk::array_file::ArrayFile;
use std::fs;
use std::os::unix::fs::symlink;

/// A machine in a folder of its own.
fn machine(name: &str) -> (tempfile::TempDir, Sysroot) {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(sysroots().join("owners").join(format!("{name}.txt"))).unwrap();
    for line in text.lines() {
        let mut parts = line.splitn(3, ' ');
        let (path, kind) = (folder.path().join(parts.next().unwrap()), parts.next().unwrap());
        let content = parts.next().unwrap_or_default();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match kind {
            "->" => symlink(content, path).unwrap(),
            _ => {
                let text = content.replace("\\n", "\n").replace("\\t", "\t") + "\n";
                fs::write(path, text).unwrap();
            }
        }
    }
    let root = Sysroot::recorded(folder.path());
    (folder, root)
}

#[test]
fn the_machines_of_owners_are_described_as_they_are() {
    // After `=== `: machine, array and number of members. Then lines of the array file, and behind
    // `!` texts that are not in it.
    for case in include_str!("owner_cases.txt").split("=== ").skip(1) {
        let (head, lines) = case.split_once('\n').unwrap();
        let (name, rest) = head.split_once(' ').unwrap();
        let (target, members) = rest.rsplit_once(' ').unwrap();
        let (_folder, root) = machine(name);
        let array = detect_at(&root, target).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let text = array.array_file();
        let spec = ArrayFile::parse(&text, "a.toml").unwrap_or_else(|e| panic!("{name}: {e}")).spec;
        assert_eq!(spec.members.len().to_string(), members, "{name}: {text}");
        for line in lines.lines() {
            let is_as_said = match line.strip_prefix('!') {
                Some(absent) => !text.contains(absent),
                None => text.lines().any(|it| it == line),
            };
            assert!(is_as_said, "{name}: `{line}`\n{text}");
        }
    }
}

#[test]
fn every_array_of_the_machines_of_owners_can_be_read() {
    for (name, arrays) in [
        ("01-nvme-sata-raid10", 2),
        ("02-raid10-on-multipath", 17),
        ("05-multipath-14-paths", 1),
        ("16-thin-pool-on-lvm-raid1", 1),
        ("19-nas-system-raid1-8-members", 2),
        ("19b-nas-system-raid1-4-bays", 1),
        ("33-several-arrays", 5),
    ] {
        let found = detect_all(&machine(name).1);
        assert!(found.iter().all(Result::is_ok), "{name}: {found:?}");
        assert_eq!(found.len(), arrays, "{name}");
    }
}

/// By default multipath-tools make a group for each path.
#[test]
fn one_path_that_serves_is_nothing_to_choose() {
    let (folder, root) = machine("05-multipath-14-paths");
    let status =
        "mpathe: 0 2097152 multipath 2 0 1 0 2 1 A 0 1 2 8:0 A 0 0 1 E 0 1 2 8:16 A 0 0 1\n";
    let group = |path| format!("queue-length 0 1 1 {path} 1");
    let groups = [group("8:0"), group("8:16")].join(" ");
    let table = format!("mpathe: 0 2097152 multipath 0 1 alua 2 1 {groups}\n");
    fs::write(folder.path().join("tools/dmsetup-status"), status).unwrap();
    fs::write(folder.path().join("tools/dmsetup-table"), table).unwrap();
    let Err(DetectError::NoArray(error)) = detect_at(&root, "mpathe") else { panic!() };
    assert!(error.message.contains("1 path serves, 13 stand by"), "{error}");
    assert!(error.help.unwrap().contains("path_grouping_policy multibus"));
}

/// As with two partitions of one disk.
#[test]
fn members_on_one_disk_share_its_rate() {
    let (folder, root) = machine("01-nvme-sata-raid10");
    let md = folder.path().join("sys/devices/virtual/block/md1/md");
    fs::remove_dir_all(md.join("dev-nvme0n1p2")).unwrap();
    fs::create_dir(md.join("dev-sda1")).unwrap();
    for (file, text) in [("slot", "0\n"), ("offset", "264192\n"), ("state", "in_sync\n")] {
        fs::write(md.join("dev-sda1").join(file), text).unwrap();
    }
    let text = detect_at(&root, "md1").unwrap().array_file();
    assert_eq!(text.lines().filter(|line| *line == "link = \"sda\"").count(), 2, "{text}");
    assert!(text.contains("# one disk with several members\nname = \"sda\"\nread = \"560MB/s\""));
}
