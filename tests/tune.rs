//! `mirrorball tune` on copies of recorded machines: applied, listed and undone.

mod auto;
mod journals;

use crate::common::{Folder, stderr, stdout};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A copy of a recorded machine.
struct Machine {
    folder: Folder,
}

impl Machine {
    fn copy_of(name: &str) -> Machine {
        let machine = Machine { folder: Folder::new() };
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sysroots");
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(recorded.join(name)).arg(machine.path(""));
        assert!(copy.status().unwrap().success());
        machine.boot("one\n");
        machine
    }

    /// The machine is started, and this is what tells its start from others.
    fn boot(&self, id: &str) {
        let file = self.path("proc/sys/kernel/random/boot_id");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, id).unwrap();
    }

    /// A copy in which these files have other texts.
    fn with(name: &str, files: &[(&str, &str)]) -> Machine {
        let machine = Machine::copy_of(name);
        for (path, text) in files {
            fs::create_dir_all(machine.path(path).parent().unwrap()).unwrap();
            fs::write(machine.path(path), text).unwrap();
        }
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path("root").join(path.trim_start_matches('/'))
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_default()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let root = self.path("").display().to_string();
        self.folder.command(&[&["tune", "--sysroot", &root], arguments].concat())
    }

    fn tune(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The files of the machine with their texts, but for those of locks.
    fn files(&self) -> BTreeMap<PathBuf, String> {
        let mut files = BTreeMap::new();
        let mut left = vec![self.path("")];
        while let Some(folder) = left.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                let (path, kind) = (entry.path(), entry.file_type().unwrap());
                if kind.is_dir() {
                    left.push(path);
                } else if kind.is_file() && path.extension().is_none_or(|it| it != "lock") {
                    files.insert(path.clone(), fs::read_to_string(path).unwrap_or_default());
                }
            }
        }
        files
    }
}

const FSID: &str = "e67170fd-8ca4-41db-aca2-917730aa330b";
const POLICIES: &str = "[pid] round-robin:262144 devid:1\n";

fn btrfs() -> Machine {
    let machine = Machine::copy_of("btrfs-raid1-three");
    let folder = fs::read_dir(machine.path("sys/fs/btrfs")).unwrap().flatten();
    let file = folder.map(|it| it.path().join("read_policy")).find(|it| it.exists()).unwrap();
    assert!(file.display().to_string().contains(FSID), "{}", file.display());
    fs::write(file, POLICIES).unwrap();
    machine
}

fn multipath() -> Machine {
    let status = "mpatha: 0 209715200 multipath 2 0 0 0 1 1 A 0 2 2 8:144 A 0 0 1 8:160 A 0 0 1 \n";
    Machine::with("dm-multipath", &[("tools/dmsetup-status", status)])
}

/// A machine, the array, a setting, a file that shows it and the texts there before and after.
type Case = (Machine, &'static str, &'static str, String, &'static str, &'static str);

/// Every system with its settings.
fn cases() -> Vec<Case> {
    let state = |member: &str| format!("sys/devices/virtual/block/md0/md/dev-{member}/state");
    let table = || "tools/dmsetup-table".to_owned();
    let zfs = |name: &str| format!("sys/module/zfs/parameters/zfs_vdev_mirror_{name}");
    let nvme = "sys/devices/virtual/nvme-subsystem/nvme-subsys0/iopolicy".to_owned();
    let policy = || format!("sys/fs/btrfs/{FSID}/read_policy");
    let copy = Machine::copy_of;
    let next = [("sys/module/zfs/version", "2.4.99-1\n")];
    let on = "tools/zpool-get-scheduler-dev-sdb1".to_owned();
    vec![
        (
            copy("md-raid1-hdd-ssd"),
            "md0",
            "md/raid1+write-mostly:1",
            state("sda"),
            "in_sync",
            "in_sync,write_mostly",
        ),
        (
            copy("md-raid1-writemostly"),
            "md0",
            "md/raid1",
            state("sda"),
            "in_sync,write_mostly",
            "in_sync",
        ),
        (
            copy("lvm-raid1"),
            "vg0/data",
            "md/raid1+write-mostly:1",
            table(),
            "raid1 4 0 nosync ",
            "raid1 6 0 nosync region_size 4096 write_mostly 0 2 ",
        ),
        (
            copy("lvm-raid1-writemostly"),
            "vg0/data",
            "md/raid1+write-mostly:2",
            table(),
            "raid1 5 0 write_mostly 0 ",
            "raid1 5 0 region_size 4096 write_mostly 1 2",
        ),
        (btrfs(), "/srv/data", "btrfs/devid:2", policy(), "[pid]", "[devid:2]"),
        (btrfs(), "/srv/data", "btrfs/round-robin:64K", policy(), "[pid]", "[round-robin:65536]"),
        (
            copy("nvme-multipath"),
            "nvme-subsys0",
            "nvme/queue-depth",
            nvme.clone(),
            "numa",
            "queue-depth",
        ),
        (copy("nvme-multipath"), "nvme-subsys0", "nvme/round-robin", nvme, "numa", "round-robin"),
        (multipath(), "mpatha", "dm/queue-length", table(), "service-time", "queue-length"),
        (multipath(), "mpatha", "dm/round-robin", table(), "service-time", "round-robin"),
        (
            multipath(),
            "mpatha",
            "dm/historical-service-time",
            table(),
            " service-time",
            " historical-service-time",
        ),
        (copy("zfs-mirror"), "tank", "zfs/mirror:100", zfs("rotating_seek_inc"), "5", "100"),
        (copy("zfs-mirror"), "tank", "zfs/mirror:5:5", zfs("non_rotating_seek_inc"), "1", "5"),
        (copy("zfs-mirror"), "tank", "zfs/mirror:100:0:20", zfs("rotating_inc"), "0", "20"),
        (Machine::with("zfs-mirror", &next), "tank", "zfs/mirror", on, "", "on"),
    ]
}

#[test]
fn every_setting_of_every_system_is_applied_listed_and_undone() {
    for (machine, target, policy, file, before, after) in cases() {
        let files = machine.files();
        let show = format!("{target} {policy}");
        assert!(machine.text(&file).contains(before), "{show}: {}", machine.text(&file));
        let planned = stdout(&machine.tune(&[target, "-p", policy, "--persist"]));
        assert!(planned.contains("Nothing was changed. To apply it"), "{show}: {planned}");
        assert_eq!(machine.files(), files, "{show}: a plan changes nothing");

        let applied = stdout(&machine.tune(&[target, "-p", policy, "--persist", "--apply"]));
        assert!(applied.contains(&format!("{policy} is in force")), "{show}: {applied}");
        assert!(machine.text(&file).contains(after), "{show}: {}", machine.text(&file));
        let listed = stdout(&machine.tune(&["--status"]));
        assert!(listed.contains(&format!("{target}: {policy}, in force")), "{show}: {listed}");
        let again = stdout(&machine.tune(&[target, "-p", policy, "--apply"]));
        assert!(again.contains("nothing is set"), "{show}: {again}");
        let changed = machine.files().into_iter().filter(|(path, _)| !files.contains_key(path));
        for (path, text) in changed.filter(|(path, _)| path.starts_with(machine.path("etc"))) {
            assert!(text.starts_with("# Written by `mirrorball tune`"), "{}", path.display());
            assert!(planned.contains(text.lines().nth(1).unwrap()), "{show}: shown before");
        }

        let undone = machine.tune(&[target, "--undo"]);
        assert_eq!(undone.status.code(), Some(0), "{show}: {}", stderr(&undone));
        let mut left = machine.files();
        // LVM adds the word of a flag behind the others.
        if policy.contains("write-mostly:2") {
            assert!(left.remove(&machine.path(&file)).unwrap().contains("write_mostly 0 2"));
            left.insert(machine.path(&file), files[&machine.path(&file)].clone());
        }
        if before.is_empty() {
            assert_eq!(left.remove(&machine.path(&file)).as_deref(), Some("auto\n"));
        }
        assert_eq!(left, files, "{show}: as before");
        let nothing = stdout(&machine.tune(&["--undo"]));
        assert!(nothing.contains("nothing to undo"), "{nothing}");
    }
}

#[test]
fn what_advise_names_is_applied() {
    let machine = Machine::copy_of("md-raid1-hdd-ssd");
    let state = "sys/devices/virtual/block/md0/md/dev-sda/state";
    let arguments = ["md0", "rand-4k-qd1", "-d", "200ms"];
    let planned = stdout(&machine.tune(&arguments));
    assert!(planned.contains("md/raid1+write-mostly:1 in place of md/raid1"), "{planned}");
    assert!(planned.contains("times the speed, over 1 job, simulated"), "{planned}");
    let narrow = machine.command(&arguments).env("COLUMNS", "60").output().unwrap();
    let is_path = |line: &&str| line.contains(env!("CARGO_TARGET_TMPDIR"));
    let narrow = stdout(&narrow);
    let mut lines = narrow.lines().filter(|line| !is_path(line));
    assert!(lines.all(|line| line.chars().count() <= 60), "{narrow}");
    assert_eq!(machine.text(state), "in_sync\n");
    let text = stdout(&machine.tune(&[&arguments[..], &["--apply", "--json"]].concat()));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["setting"], "md/raid1+write-mostly:1");
    assert!(json["predicted_factor"].as_f64().unwrap() > 1.1, "{text}");
    assert_eq!(machine.text(state), "in_sync,write_mostly\n");
    let text = stdout(&machine.tune(&["--status", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["arrays"][0]["places"][0]["state"], "applied");
    assert_eq!(json["arrays"][0]["before"], "md/raid1");
}

#[test]
fn a_second_setting_is_undone_to_what_was_before_the_first() {
    let machine = btrfs();
    for policy in ["btrfs/devid:2", "btrfs/round-robin:4K", "btrfs/devid:3"] {
        stdout(&machine.tune(&["/srv/data", "-p", policy, "--apply"]));
    }
    stdout(&machine.tune(&["--undo"]));
    assert_eq!(machine.text(&format!("sys/fs/btrfs/{FSID}/read_policy")), POLICIES);
}

#[test]
fn settings_and_files_of_others_are_left() {
    let machine = btrfs();
    let policy = format!("sys/fs/btrfs/{FSID}/read_policy");
    let unit = format!("etc/systemd/system/mirrorball-btrfs-{FSID}.service");
    let persist = ["/srv/data", "-p", "btrfs/devid:2", "--persist", "--apply"];
    fs::create_dir_all(machine.path("etc/systemd/system")).unwrap();
    fs::write(machine.path(&unit), "[Unit]\n").unwrap();
    let output = machine.tune(&persist);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("`mirrorball tune` did not write it"), "{}", stderr(&output));
    assert_eq!(
        (machine.text(&policy).as_str(), machine.text(&unit).as_str()),
        (POLICIES, "[Unit]\n")
    );

    fs::remove_file(machine.path(&unit)).unwrap();
    stdout(&machine.tune(&persist));
    let service = machine.text(&unit);
    assert!(service.contains("ExecStart=/usr/bin/printf devid:2\n"), "{service}");
    fs::write(machine.path(&policy), "pid round-robin:262144 [devid:3]\n").unwrap();
    fs::write(machine.path(&unit), service + "# mine\n").unwrap();
    let output = machine.tune(&["--status"]);
    assert_eq!(output.status.code(), Some(1));
    let listed = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(listed.contains("shows devid:3: changed by another program"), "{listed}");
    let output = machine.tune(&[persist[0], "-p", "btrfs/round-robin:4K", "--apply"]);
    assert!(stderr(&output).contains("which tune did not set"), "{}", stderr(&output));
    let output = machine.tune(&["--undo"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(machine.text(&policy).contains("[devid:3]"));
    assert!(machine.text(&unit).ends_with("# mine\n"));
}

/// Settings after a restart of the machine, with and without the files that keep it.
#[test]
fn after_a_restart_a_setting_is_lost_or_undone() {
    let policy = format!("sys/fs/btrfs/{FSID}/read_policy");
    let apply = ["/srv/data", "-p", "btrfs/devid:2", "--apply"];
    let machine = btrfs();
    stdout(&machine.tune(&apply));
    machine.boot("two\n");
    fs::write(machine.path(&policy), POLICIES).unwrap();
    let output = machine.tune(&["--status"]);
    let listed = String::from_utf8(output.stdout).unwrap();
    assert!(listed.contains("reset by a restart; --persist keeps it"), "{listed}");
    stdout(&machine.tune(&["--undo"]));

    stdout(&machine.tune(&[&apply[..], &["--persist"]].concat()));
    machine.boot("two\n");
    // The unit has written it again.
    fs::write(machine.path(&policy), "pid round-robin:262144 [devid:2]\n").unwrap();
    assert!(stdout(&machine.tune(&["--status"])).contains("in force"));
    stdout(&machine.tune(&["--undo"]));
    assert!(machine.text(&policy).contains("[pid]"));
    assert!(!machine.path("etc/systemd/system").join("srv-data.mount.d").exists());

    let machine = Machine::copy_of("md-raid1-hdd-ssd");
    stdout(&machine.tune(&["md0", "-p", "md/raid1+write-mostly:1", "--apply"]));
    machine.boot("two\n");
    assert!(stdout(&machine.tune(&["--status"])).contains("in force"), "in the superblocks");
    stdout(&machine.tune(&["md0", "--undo"]));
    assert_eq!(machine.text("sys/devices/virtual/block/md0/md/dev-sda/state"), "in_sync\n");
}

#[test]
fn what_bench_refuses_is_refused() {
    for (tree, target, part) in [
        ("md-raid1-degraded", "md0", "is not changed: it is degraded"),
        ("md-raid1-resyncing", "md0", "a resync is running"),
        ("md-raid1-checking", "md0", "a check is running"),
        ("dm-multipath", "mpatha", "1 path down"),
    ] {
        let machine = Machine::copy_of(tree);
        let output = machine.tune(&[target, "-p", "md/raid1+write-mostly:1", "--apply"]);
        assert_eq!(output.status.code(), Some(2), "{tree}");
        assert!(stderr(&output).contains(part), "{tree}: {}", stderr(&output));
        assert!(!machine.path("var/lib/mirrorball").exists(), "{tree}");
    }
    let machine = Machine::copy_of("md-raid10");
    let output = machine.tune(&["md0", "-p", "md/raid1+write-mostly:1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("is not offered for md0"), "{}", stderr(&output));
    let output = machine.tune(&["md0", "--undo"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("tune has applied nothing to md0"), "{}", stderr(&output));
}

/// A forged state names no program and no file of others.
#[test]
fn a_forged_state_or_a_hostile_name_runs_nothing() {
    let machine = Machine::copy_of("lvm-raid1");
    stdout(&machine.tune(&["vg0/data", "-p", "md/raid1+write-mostly:1", "--apply"]));
    let folder = machine.path("var/lib/mirrorball/bench");
    let journal = fs::read_dir(&folder).unwrap().flatten().map(|it| it.path());
    let journal = journal.into_iter().find(|it| it.extension().unwrap() == "tune").unwrap();
    let text = fs::read_to_string(&journal).unwrap();
    for place in [
        "/sys/kernel/uevent_helper",
        "lvm:vg0/data;reboot:/dev/sda",
        "lvm:vg0/$(touch /tmp/x):/dev/sda",
        "lvm:--config/data:/dev/sda",
        "/etc/cron.d/mirrorball",
        "/etc/systemd/system/../../cron.d/x",
    ] {
        fs::write(&journal, text.replace("lvm:vg0/data:/dev/sda", place)).unwrap();
        let output = machine.tune(&["--undo"]);
        assert_eq!(output.status.code(), Some(1), "{place}");
        assert!(stderr(&output).contains("which Mirrorball never sets"), "{}", stderr(&output));
        assert!(journal.exists());
    }
    // A device with such a name is not put into a command at all.
    let links = Machine::copy_of("lvm-raid1");
    let table = links.text("tools/dmsetup-table").replace("vg0-data", "vg0;reboot-data");
    fs::write(links.path("tools/dmsetup-table"), table).unwrap();
    let name = links.path("sys/block/dm-4/dm/name");
    fs::write(name, "vg0;reboot-data\n").unwrap();
    let output = links.tune(&["/dev/dm-4", "-p", "md/raid1+write-mostly:1", "--apply"]);
    assert_ne!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Kills `tune --apply` at random moments: the old setting is back, or the new one stays, and
/// never both members have the flag. `TUNE_KILLS` is the number of kills.
#[test]
fn a_killed_apply_leaves_the_old_setting_or_the_new_one() {
    let kills = std::env::var("TUNE_KILLS").map_or(12, |text| text.parse().unwrap());
    let machine = Machine::copy_of("md-raid1-hdd-ssd");
    let states = || {
        let state = |member| format!("sys/devices/virtual/block/md0/md/dev-{member}/state");
        ["sda", "sdb"].map(|member| machine.text(&state(member)).contains("write_mostly"))
    };
    let journal = || {
        let entries = fs::read_dir(machine.path("var/lib/mirrorball/bench"));
        let mut names = entries.into_iter().flatten().flatten().map(|it| it.file_name());
        names.any(|name| name.to_str().unwrap().ends_with(".tune"))
    };
    let (mut old, mut new) = (0, 0);
    let apply = ["md0", "-p", "md/raid1+write-mostly:1", "--apply"];
    let started = Instant::now();
    assert!(machine.tune(&apply).status.success());
    let usual = started.elapsed();
    stdout(&machine.tune(&["--undo"]));
    for kill in 0..kills {
        let mut command = machine.command(&apply);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // A low-discrepancy sequence over the usual time and a little more.
        let part = (f64::from(kill) * 0.618_034).fract() * 1.2;
        std::thread::sleep(usual.mul_f64(part));
        child.kill().unwrap();
        child.wait().unwrap();
        // The watchdog ends after it; the lock is free then.
        let undo = |target: &str| machine.tune(&[target, "--undo"]);
        let deadline = Instant::now() + Duration::from_secs(20);
        while journal() && !stdout_of(&machine.tune(&["--status"])).contains("in force (") {
            assert!(Instant::now() < deadline, "the watchdog restores");
        }
        match states() {
            [true, false] => {
                new += 1;
                assert!(journal(), "what stays can be undone");
                stdout(&undo("md0"));
            }
            [false, false] => old += 1,
            other => panic!("{other:?} after kill {kill}"),
        }
        assert_eq!(states(), [false, false]);
        while journal() {
            assert!(Instant::now() < deadline, "no journal is left");
        }
    }
    println!("{kills} kills: {old} times the old setting, {new} times the new one");
}

fn stdout_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
