//! `mirrorball bench` on copies of recorded machines, with a fio that prints what it once measured.
//!
//! The copy stands for the machine: its files of the kernel are set and restored, its disks count,
//! and the file to read is created in it. The fio is a script on `PATH`. Nothing is timed.

use crate::common::{Folder, stderr, stdout};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const POLICY_BEFORE: &str = "[pid] round-robin:262144 devid:1\n";

/// A copy of a recorded machine, and a fio.
struct Machine {
    folder: Folder,
}

impl Machine {
    /// A btrfs whose kernel offers all policies.
    fn btrfs() -> Machine {
        let machine = Machine::copy_of("btrfs-raid1-three");
        fs::write(machine.read_policy(), POLICY_BEFORE).unwrap();
        fs::create_dir_all(machine.path("srv/data")).unwrap();
        machine
    }

    /// An md raid1 of a hard disk and an SSD.
    fn md() -> Machine {
        let machine = Machine::copy_of("md-raid1-hdd-ssd");
        fs::create_dir_all(machine.path("srv/data")).unwrap();
        machine
    }

    fn copy_of(name: &str) -> Machine {
        let machine = Machine { folder: Folder::new() };
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sysroots");
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(recorded.join(name)).arg(machine.folder.path("root"));
        assert!(copy.status().unwrap().success());
        machine.counters(0);
        machine.fio("");
        machine
    }

    /// A fio that does `more` first, lets the disks count, and prints a result.
    fn fio(&self, more: &str) {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../lab/src/experiment/import/fio/fixtures/single.json");
        let bin = self.folder.path("bin");
        fs::create_dir_all(&bin).unwrap();
        self.counters_text(1000, &self.folder.path("after"));
        let script = format!(
            "#!/bin/sh\nset -e\nfor job; do :; done\ngrep -q '^filename=' \"$job\"\n{more}\n\
             cat '{}' > '{}'\ncat '{}'\n",
            self.folder.path("after").display(),
            self.path("proc/diskstats").display(),
            fixture.display()
        );
        let path = bin.join("fio");
        fs::write(&path, script).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn counters(&self, reads: u64) {
        self.counters_text(reads, &self.path("proc/diskstats"));
    }

    /// Counters of the members after this number of reads of the first.
    fn counters_text(&self, reads: u64, path: &Path) {
        let line = |(name, reads): (&str, u64)| {
            format!("   8  0 {name} {reads} 0 {} {} 0 0 0 0 0 9 9\n", 8 * reads, 2 * reads)
        };
        let disks =
            [("sda", reads), ("sdb", 3 * reads), ("sdg", reads), ("sdh", reads), ("sdi", 0)];
        fs::write(path, disks.map(line).concat()).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path("root").join(name)
    }

    fn read_policy(&self) -> PathBuf {
        let mut file_systems = fs::read_dir(self.path("sys/fs/btrfs")).unwrap();
        let is_fsid = |path: &PathBuf| path.join("read_policy").exists();
        file_systems
            .find_map(|it| Some(it.unwrap().path()).filter(is_fsid))
            .unwrap()
            .join("read_policy")
    }

    /// The state of a member of md0.
    fn state(&self, member: &str) -> String {
        let path = format!("sys/devices/virtual/block/md0/md/dev-{member}/state");
        fs::read_to_string(self.path(&path)).unwrap()
    }

    fn bench(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// `bench`, with windows and a bound that do not matter to a fio that ends at once.
    fn command(&self, arguments: &[&str]) -> Command {
        let root = self.path("").display().to_string();
        let usual = ["--size", "1MiB", "--lateness-max", "1h", "--sysroot", &root];
        let mut command = self.folder.command(&[&["bench"], arguments, &usual].concat());
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", self.folder.path("bin").display()));
        command
    }

    /// Journals and folders that a bench left.
    fn left(&self) -> Vec<String> {
        let names = |path: PathBuf| {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().into_string().unwrap())
        };
        let journals = names(self.path("var/lib/mirrorball/bench"));
        let journals = journals.filter(|name| name.ends_with(".journal"));
        journals.chain(names(self.path("srv/data"))).collect()
    }

    /// Number of the runs that a results folder has.
    fn saved(&self, folder: &str) -> usize {
        let cells = fs::read_dir(self.folder.path(folder).join("cells"));
        cells.into_iter().flatten().count()
    }

    fn policy(&self) -> String {
        fs::read_to_string(self.read_policy()).unwrap()
    }
}

#[test]
fn every_policy_is_measured_in_turn_and_the_old_one_restored() {
    let machine = Machine::btrfs();
    let seen = machine.folder.path("seen");
    let note = format!("cat '{}' >> '{}'", machine.read_policy().display(), seen.display());
    machine.fio(&note);
    let policies = "btrfs/pid,btrfs/round-robin:4K,btrfs/devid:2";
    let output = machine.bench(&[
        "/srv/data",
        "rand-4k-qd1",
        "--policy",
        policies,
        "--rounds",
        "2",
        "-o",
        "live",
    ]);
    let said = stdout(&output);
    assert!(said.contains("1 job, 3 settings, 2 rounds: 6 runs"), "{said}");
    for part in ["btrfs/pid", "btrfs/round-robin:4K", "btrfs/devid:2", "r_await", "sdg"] {
        assert!(said.contains(part), "no `{part}` in\n{said}");
    }
    let seen = fs::read_to_string(seen).unwrap();
    let active: Vec<&str> =
        seen.lines().map(|line| line.split(['[', ']']).nth(1).unwrap()).collect();
    let expected = ["pid", "round-robin:4096", "devid:2", "round-robin:4096", "devid:2", "pid"];
    assert_eq!(active, expected, "the rows of a Williams square");
    assert_eq!(machine.policy(), POLICY_BEFORE, "with the parameters of inactive policies");
    assert_eq!(machine.left(), Vec::<String>::new());

    let report = stdout(&machine.folder.run(&["report", "live", "--format", "csv"]));
    assert_eq!(report.matches("btrfs/devid:2").count(), 2, "{report}");
}

#[test]
fn members_are_counted_and_flags_of_md_are_set_and_taken_back() {
    let machine = Machine::md();
    let seen = machine.folder.path("seen");
    let state = machine.path("sys/devices/virtual/block/md0/md/dev-sda/state");
    machine.fio(&format!("cat '{}' >> '{}'", state.display(), seen.display()));
    let output = machine.bench(&["/srv/data", "rand-4k-qd1", "--rounds", "1", "-o", "live"]);
    let said = stdout(&output);
    let seen = fs::read_to_string(seen).unwrap();
    let expected = ["in_sync", "in_sync,write_mostly", "in_sync"];
    assert_eq!(seen.lines().collect::<Vec<&str>>(), expected);
    assert_eq!(
        (machine.state("sda"), machine.state("sdb")),
        ("in_sync\n".into(), "in_sync\n".into())
    );
    let member = said.lines().find(|line| line.contains("sdb")).unwrap();
    assert!(member.contains("75.0 %") && member.contains("2.00"), "{member}");
    let cells = fs::read_dir(machine.folder.path("live/cells")).unwrap();
    assert_eq!(cells.count(), 3);
}

#[test]
fn a_killed_bench_is_restored_by_its_watchdog() {
    let machine = Machine::btrfs();
    // Kills bench itself, without a chance to restore.
    machine.fio("kill -9 $PPID");
    let arguments = ["/srv/data", "rand-4k-qd1", "--policy", "btrfs/devid:2", "--rounds", "2"];
    let output = machine.bench(&arguments);
    assert_eq!(output.status.code(), None, "killed");
    // The output is whole when the watchdog, which shares it, has ended.
    assert!(stderr(&output).contains("the watchdog does"), "{}", stderr(&output));
    assert_eq!(machine.policy(), POLICY_BEFORE);
    assert_eq!(machine.left(), Vec::<String>::new());
}

#[test]
fn what_is_left_when_both_are_killed_is_restored_by_the_command() {
    let machine = Machine::btrfs();
    machine.fio("pkill -9 -P $PPID mirrorball; kill -9 $PPID");
    let arguments = ["/srv/data", "rand-4k-qd1", "--policy", "btrfs/devid:2", "--rounds", "2"];
    let output = machine.bench(&arguments);
    assert_eq!(output.status.code(), None, "killed");
    assert!(machine.policy().contains("[devid:2]"), "{}", machine.policy());
    assert_eq!(machine.left().len(), 2, "a journal and a folder: {:?}", machine.left());

    let again = machine.bench(&arguments);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("run `mirrorball bench --restore` first"));
    let root = machine.path("").display().to_string();
    let restore = ["bench", "--restore", "--sysroot", &root];
    let output = machine.folder.run(&restore);
    assert!(stderr(&output).contains("devid:2 -> pid"), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(machine.policy(), POLICY_BEFORE);
    assert_eq!(machine.left(), Vec::<String>::new());
    let output = stdout(&machine.folder.run(&restore));
    assert!(output.contains("nothing to restore"), "{output}");
}

#[test]
fn a_check_of_md_runs_with_each_run_and_is_ended() {
    let machine = Machine::md();
    let action = machine.path("sys/devices/virtual/block/md0/md/sync_action");
    let seen = machine.folder.path("seen");
    let note = format!("cat '{}' >> '{}'", action.display(), seen.display());
    let scrub = ["/srv/data", "rand-4k-qd1", "--rounds", "1", "--background", "scrub"];
    machine.fio(&note);
    let output = machine.bench(&scrub);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(&seen).unwrap(), "check\n".repeat(3));
    assert_eq!(fs::read_to_string(&action).unwrap(), "idle\n");

    machine.fio("kill -9 $PPID");
    assert_eq!(machine.bench(&scrub).status.code(), None, "killed");
    assert_eq!(fs::read_to_string(&action).unwrap(), "idle\n", "by the watchdog");
    assert_eq!(machine.left(), Vec::<String>::new());
    let output = machine.bench(&["/srv/data", "--background", "defrag"]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("no defragmentation of md\n  help: give --background scrub"), "{said}");
}

/// The kernel goes on with a check where the last one was ended.
#[test]
fn each_check_of_md_begins_at_the_same_place() {
    let machine = Machine::md();
    let min = machine.path("sys/devices/virtual/block/md0/md/sync_min");
    fs::write(&min, "1024\n").unwrap();
    let seen = machine.folder.path("seen");
    let (min_path, seen_path) = (min.display(), seen.display());
    machine.fio(&format!("cat '{min_path}' >> '{seen_path}'; echo 4096 > '{min_path}'"));
    let scrub = ["/srv/data", "rand-4k-qd1", "--rounds", "1", "--background", "scrub"];
    let output = machine.bench(&scrub);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(&seen).unwrap(), "1024\n".repeat(3));
    assert_eq!(fs::read_to_string(&min).unwrap(), "1024\n");
}

/// A fio that kills bench and its watchdog in its second run.
fn kills_both_in_the_second_run(machine: &Machine) {
    let runs = machine.folder.path("runs");
    let runs = runs.display();
    machine.fio(&format!(
        "echo run >> '{runs}'\n[ $(wc -l < '{runs}') = 1 ] || {{ pkill -9 -P $PPID mirrorball; \
         kill -9 $PPID; }}"
    ));
}

#[test]
fn after_a_restart_flags_are_restored_on_the_array_with_that_uuid_and_no_other() {
    let machine = Machine::md();
    let boot_id = machine.path("proc/sys/kernel/random/boot_id");
    fs::create_dir_all(boot_id.parent().unwrap()).unwrap();
    fs::write(&boot_id, "one\n").unwrap();
    kills_both_in_the_second_run(&machine);
    let output = machine.bench(&["/srv/data", "rand-4k-qd1", "--rounds", "2"]);
    assert_eq!(output.status.code(), None, "killed");
    assert_eq!(machine.state("sda"), "in_sync,write_mostly\n");
    fs::write(&boot_id, "two\n").unwrap();

    let root = machine.path("").display().to_string();
    let restore = ["bench", "--restore", "--sysroot", &root];
    let uuid = machine.path("tools/mdadm-detail-md0");
    let detail = fs::read_to_string(&uuid).unwrap();
    fs::write(&uuid, detail.replace("6a7b1cf3", "00000000")).unwrap();
    let (mount, away) = (machine.path("srv/data"), machine.path("srv/away"));
    fs::rename(&mount, &away).unwrap();
    let output = machine.folder.run(&restore);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    for part in ["is not there: assemble it", "/srv/data is not on the array", "is kept: run"] {
        assert!(stderr(&output).contains(part), "no `{part}` in\n{}", stderr(&output));
    }
    assert_eq!(machine.state("sda"), "in_sync,write_mostly\n", "of another array");

    fs::write(&uuid, detail).unwrap();
    fs::rename(&away, &mount).unwrap();
    let output = machine.folder.run(&restore);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(machine.state("sda"), "in_sync\n");
    assert_eq!(machine.left(), Vec::<String>::new());
}

#[test]
fn fio_is_ended_with_a_killed_bench() {
    let machine = Machine::btrfs();
    let process = machine.folder.path("process");
    machine.fio(&format!("echo $$ > '{}'; kill -9 $PPID; exec sleep 600", process.display()));
    let output = machine.bench(&["/srv/data", "rand-4k-qd1", "--policy", "btrfs/pid"]);
    assert_eq!(output.status.code(), None, "killed");
    let id = fs::read_to_string(process).unwrap();
    let state = fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
    assert_eq!(machine.left(), Vec::<String>::new());
}

#[test]
fn an_interrupted_bench_and_one_whose_fio_fails_restore() {
    let machine = Machine::btrfs();
    let arguments = ["/srv/data", "rand-4k-qd1", "--policy", "btrfs/devid:2", "--rounds", "2"];
    machine.fio("echo 'no such engine' >&2; exit 3");
    let output = machine.bench(&arguments);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("fio says: no such engine"), "{}", stderr(&output));
    assert_eq!((machine.policy().as_str(), machine.left().len()), (POLICY_BEFORE, 0));

    machine.fio("kill -INT $PPID; exec sleep 600");
    let mut command = machine.command(&arguments);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_eq!((machine.policy().as_str(), machine.left().len()), (POLICY_BEFORE, 0));
}

#[test]
fn a_policy_that_another_program_sets_voids_the_run_and_stays() {
    for policies in ["btrfs/devid:2", "btrfs/pid"] {
        let machine = Machine::btrfs();
        let policy = machine.read_policy();
        let foreign = "echo 'pid round-robin:262144 [devid:7]'";
        machine.fio(&format!("{foreign} > '{}'", policy.display()));
        let one_run = ["/srv/data", "rand-4k-qd1", "--policy", policies, "--rounds", "1"];
        let output = machine.bench(&[&one_run[..], &["-o", "live"]].concat());
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        let left = policies.trim_start_matches("btrfs/");
        assert!(
            said.contains(&format!("shows `devid:7`, but bench left it at `{left}`")),
            "{said}"
        );
        assert!(said.contains("before bench it was `pid`"), "{said}");
        assert!(machine.policy().contains("[devid:7]"));
        assert_eq!(machine.left(), Vec::<String>::new());
        assert_eq!(machine.saved("live"), 0, "the run is void");
    }
}

#[test]
fn a_run_in_which_a_member_fails_is_void() {
    let machine = Machine::md();
    let state = machine.path("sys/devices/virtual/block/md0/md/dev-sdb/state");
    let degraded = machine.path("sys/devices/virtual/block/md0/md/degraded");
    let (state, degraded) = (state.display(), degraded.display());
    machine.fio(&format!("echo faulty > '{state}'; echo 1 > '{degraded}'"));
    let output = machine.bench(&["/srv/data", "rand-4k-qd1", "--rounds", "1", "-o", "live"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("is not measured: it is degraded"), "{}", stderr(&output));
    assert_eq!(machine.saved("live"), 0);
}

#[test]
fn a_late_host_refuses_its_runs() {
    let machine = Machine::btrfs();
    let arguments = [
        "bench",
        "/srv/data",
        "rand-4k-qd1",
        "--policy",
        "btrfs/pid",
        "--rounds",
        "1",
        "--size",
        "1MiB",
        "--lateness-max",
        "1ns",
        "--sysroot",
    ];
    let root = machine.path("").display().to_string();
    let mut command = machine.folder.command(&[&arguments[..], &[&root]].concat());
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", machine.folder.path("bin").display()));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("this host is too busy to measure"), "{}", stderr(&output));
    assert!(stderr(&output).contains("--lateness-max"), "{}", stderr(&output));
    assert_eq!(machine.saved("mirrorball-results/bench-pool"), 0);
}

#[test]
fn the_plan_is_printed_and_what_cannot_be_measured_is_refused() {
    let machine = Machine::btrfs();
    let plan = stdout(&machine.bench(&["/srv/data", "--plan"]));
    assert!(plan.contains("3 jobs, 5 settings"), "{plan}");
    assert!(plan.contains("btrfs/pid, btrfs/round-robin:256K, btrfs/devid:1"), "{plan}");
    assert!(machine.left().is_empty());
    let refuses = |machine: &Machine, arguments: &[&str], part: &str| {
        let output = machine.bench(arguments);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(part), "no `{part}` in\n{}", stderr(&output));
    };
    let named = ["/srv/data", "--plan", "--policy", "btrfs/round-robin"];
    assert!(stdout(&machine.bench(&named)).contains("settings  btrfs/round-robin:256K\n"));
    refuses(&machine, &["/srv/data", "--policy", "md/raid1"], "`md/raid1` is not offered");
    refuses(&machine, &["/srv/data", "--budget", "1s"], "--budget 1.00s is too short");
    refuses(&machine, &["/srv/data", "--read-device"], "is not the path of a device");
    let one_job = ["/srv/data", "rand-4k-qd1", "--budget", "1s", "--policy", "btrfs/pid"];
    refuses(&machine, &one_job, "one round of 1 job under 1 setting takes");
    refuses(&machine, &["/srv/data", "no-such-job"], "`no-such-job`\n  help: the built-in jobs");
    refuses(&machine, &["/srv/data", "seq-read", "seq-read"], "`seq-read` is given twice");
    fs::remove_dir(machine.path("srv/data")).unwrap();
    assert!(stdout(&machine.bench(&["pool", "--plan"])).contains("3 jobs, 5 settings"));
    refuses(&machine, &["pool"], "no such folder\n  help: create the folder");
    fs::create_dir(machine.path("srv/data")).unwrap();
    refuses(&machine, &["--restore", "--rounds", "3"], "--restore");
    refuses(&machine, &["two-ssd-raid1", "--plan"], "two-ssd-raid1 is a simulated array");
    let file = machine.folder.path("bin/fio").display().to_string();
    refuses(&machine, &["/srv/data", "--plan", "-o", &file], "as results folder: it is a file");
    let predicted = ["/srv/data", "--plan", "--predicted", "no-such-folder"];
    refuses(&machine, &predicted, "--predicted: no-such-folder is not a folder with results");
    for (tree, target, condition) in [
        ("md-raid1-degraded", "md0", "degraded, 1 member missing"),
        ("md-raid1-resyncing", "md0", "resync"),
        ("md-raid1-checking", "md0", "check"),
    ] {
        refuses(&Machine::copy_of(tree), &[target], condition);
    }
    let md = Machine::md();
    refuses(&md, &["/dev/md0", "fsync-writer", "--read-device"], "`fsync-writer` writes");
}
