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

/// Machine, array, number of members, lines of the array file, and texts that are not in it.
type Case = (&'static str, &'static str, usize, &'static [&'static str], &'static [&'static str]);

const CASES: [Case; 18] = [
    ("01-nvme-sata-raid10", "md1", 2, &["in_force = \"md/raid10-2008\""], &["link ="]),
    ("01-nvme-sata-raid10", "md0", 2, &["in_force = \"md/raid1-2016\""], &[]),
    (
        "02-raid10-on-multipath",
        "md10",
        14,
        &[
            "# note: each member: over 2 paths",
            "# note: spares, not members: dm-29, dm-31",
            "# disk: sda, HUS726040ALS210, 3907018584KiB, scheduler mq-deadline",
        ],
        &["class default"],
    ),
    (
        "03-raid1-of-raid0",
        "md127",
        2,
        &[
            "set = { link = \"1120MB/s\", channel = \"2400MB/s\", dies = 32 }",
            "write_mostly = true",
            "# note: the read-ahead of md127 is 128 KiB, and a stripe of a raid0 below it is 1024 \
             KiB: for one stream one disk works at a time; `blockdev --setra 4096 /dev/md127` \
             makes all of them work",
        ],
        &[],
    ),
    (
        "05-multipath-14-paths",
        "mpathe",
        7,
        &["# Guessed models: 7, see `guessed` below"],
        &["hdd-7k2-desktop"],
    ),
    (
        "06-zfs-smr-resilver",
        "dpool",
        2,
        &[
            "model = \"hdd-smr\"",
            "length = \"917GiB\"",
            "rebuilding = \"534295MiB\" # state: ONLINE",
            "condition = \"resilver at 56.9 %, 14 h left at its rate\"",
            "# note: log, which takes synchronous writes, left out: /dev/sdc1",
        ],
        &[],
    ),
    ("07-zfs-3way-hdd-hdd-ssd", "test", 3, &["in_force = \"zfs/pending-10ms\""], &[]),
    ("08-zfs-33-mirrors", "big", 8, &["# note: cache, left out: /dev/nvme0n1p1"], &[]),
    (
        "09-btrfs-added-disk-unbalanced",
        "/mnt/nas",
        2,
        &[
            "length = \"11181640624KiB\"",
            "# note: devid 3 (/dev/mapper/btrfs3) holds nothing: reads and scrubs do not use it, \
             so it is left out; `btrfs balance start --full-balance /mnt/nas` spreads the data \
             over it",
        ],
        &["devid = 3"],
    ),
    (
        "12-raspberry-usb-raid1",
        "md0",
        2,
        &["name = \"usb2\"", "read = \"35MB/s\"", "link = \"usb2\""],
        &[],
    ),
    (
        "13-raid1-recovering",
        "md127",
        2,
        &["model = \"hdd-5k4-1tb\"", "rebuilding = \"71527MiB\" # state: spare"],
        &[],
    ),
    (
        "14-lvm-raid1-integrity",
        "nas/media",
        2,
        &[
            "device = \"/dev/sda\"",
            "# note: each member: dm-integrity checks what is read, and with its journal writes \
             all data twice: writes take about twice as long as simulated",
        ],
        &["iorig", "described as on the first"],
    ),
    ("14b-lvm-raid1-integrity-hdd-ssd", "nas/media", 2, &["device = \"/dev/sdb\""], &["iorig"]),
    (
        "15-nvme-tcp-ana",
        "/srv/vm",
        2,
        &["# note: 2 paths serve, 2 stand by (not optimized): nvme1c3n1, nvme1c4n1"],
        &["class default"],
    ),
    (
        "16-thin-pool-on-lvm-raid1",
        "/var/lib/pvc a",
        2,
        &[
            "name = \"vg1/thin-pool-1_tdata\"",
            "mount = \"/var/lib/pvc a\"",
            "length = \"409605MiB\"",
        ],
        &[],
    ),
    ("19-nas-system-raid1-8-members", "md1", 8, &["layout = \"md-raid1\""], &[]),
    (
        "24-btrfs-on-bcache-raid6",
        "/volum1",
        5,
        &[
            "profile = \"raid1c3\"",
            "cache = { model = \"nvme-gen4\", size = \"317956MiB\" }",
            "# note: the data are raid6, without copies to choose among: this describes the \
             metadata, which are raid1c3",
        ],
        &[],
    ),
    (
        "25-btrfs-one-of-four-missing",
        "/srv/pool",
        4,
        &[
            "# note: about 2.3 TiB of the data have 1 copy left, until the missing device is \
             replaced",
            "length = \"2200GiB\"",
        ],
        &[],
    ),
];

#[test]
fn the_machines_of_owners_are_described_as_they_are() {
    for (name, target, members, lines, absent) in CASES {
        let (_folder, root) = machine(name);
        let array = detect_at(&root, target).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let text = array.array_file();
        let spec = ArrayFile::parse(&text, "a.toml").unwrap_or_else(|e| panic!("{name}: {e}")).spec;
        assert_eq!(spec.members.len(), members, "{name}: {text}");
        for line in lines {
            assert!(text.lines().any(|it| it == *line), "{name}: no `{line}` in\n{text}");
        }
        for other in absent {
            assert!(!text.contains(other), "{name}: `{other}` in\n{text}");
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
    fs::write(folder.path().join("tools/dmsetup-status"), status).unwrap();
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
