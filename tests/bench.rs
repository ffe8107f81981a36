//! `mirrorball bench` on copies of recorded machines, with a fio that prints what it once measured.
//!
//! The copy stands for the machine: its files of the kernel are set and restored, its disks count,
//! and the file to read is created in it. The fio is a script on `PATH`. Nothing is timed. One
//! module has an array of this machine.

mod again;
mod inputs;
mod loop_devices;
mod machine;

use crate::common::{stderr, stdout};
use machine::{Machine, POLICY_BEFORE};
use std::fs;
use std::path::Path;
use std::process::Stdio;

#[test]
fn every_policy_is_measured_in_turn_and_the_old_one_restored() {
    let machine = Machine::btrfs();
    let seen = machine.folder.path("seen");
    let note = format!("cat '{}' >> '{}'", machine.read_policy().display(), seen.display());
    machine.fio(&note);
    let policies = "btrfs/pid,btrfs/round-robin:4K,btrfs/devid:2";
    let output = machine
        .bench(&["/srv/data", "rand-4k-qd1", "--policy", policies, "--rounds", "2", "-o", "live"]);
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
    let process = machine.folder.path("process");
    let kills_both = "pkill -9 -P $PPID mirrorball; kill -9 $PPID; exec sleep 600 >/dev/null 2>&1";
    machine.fio(&format!("echo $$ > '{}'; {kills_both}", process.display()));
    let arguments = ["/srv/data", "rand-4k-qd1", "--policy", "btrfs/devid:2", "--rounds", "2"];
    let output = machine.bench(&arguments);
    assert_eq!(output.status.code(), None, "killed");
    let fio = fs::read_to_string(process).unwrap();
    let fio_runs = || {
        let state = fs::read_to_string(format!("/proc/{}/stat", fio.trim())).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ")
    };
    assert!(fio_runs(), "its number is recorded before it starts");
    assert!(machine.policy().contains("[devid:2]"), "{}", machine.policy());
    assert_eq!(machine.left().len(), 2, "a journal and a folder: {:?}", machine.left());

    let again = machine.bench(&arguments);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("run `mirrorball bench --restore` first"));
    let root = machine.path("").display().to_string();
    let restore = ["bench", "--restore", "--sysroot", &root];
    let output = machine.folder.run(&restore);
    assert!(stderr(&output).contains("devid:2 -> pid"), "{}", stderr(&output));
    let ended = format!("ended sleep, process {}, which bench had started", fio.trim());
    assert!(stderr(&output).contains(&ended), "{}", stderr(&output));
    // The kernel ends a killed process soon, and not at once.
    while fio_runs() {
        std::thread::yield_now();
    }
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(machine.policy(), POLICY_BEFORE);
    assert_eq!(machine.left(), Vec::<String>::new());
    let output = stdout(&machine.folder.run(&restore));
    assert!(output.contains("nothing to restore"), "{output}");
}

/// A fio whose latency under `devid:2` is four times as long, at the same rate.
fn slow_under_devid_2(machine: &Machine) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../lab/src/experiment/import/fio/fixtures/single.json");
    let mut output: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&fixture).unwrap()).unwrap();
    let read = &mut output["jobs"][0]["read"];
    for latency in ["clat_ns", "lat_ns"] {
        for figure in ["min", "max", "mean"] {
            let value = read[latency][figure].as_f64().unwrap();
            read[latency][figure] = serde_json::json!(4.0 * value);
        }
    }
    let bins = read["clat_ns"]["bins"].as_object().unwrap().clone();
    let later = |(bin, count): (&String, &serde_json::Value)| {
        ((4 * bin.parse::<u64>().unwrap()).to_string(), count.clone())
    };
    read["clat_ns"]["bins"] = bins.iter().map(later).collect();
    let slow = machine.folder.path("slow.json");
    fs::write(&slow, output.to_string()).unwrap();
    // Without counters, which this fio would have to count on.
    fs::remove_file(machine.path("proc/diskstats")).unwrap();
    machine.fio(&format!(
        "if grep -q '\\[devid:2' '{}'; then cat '{}'; else cat '{}'; fi; exit",
        machine.read_policy().display(),
        slow.display(),
        fixture.display()
    ));
}

/// The job gives its requests a rate, so that every setting has the same throughput.
#[test]
fn settings_are_compared_by_the_score_of_the_report_and_with_the_first_one() {
    let machine = Machine::btrfs();
    slow_under_devid_2(&machine);
    for (policies, first) in [
        ("btrfs/pid,btrfs/devid:2", "btrfs/pid"),
        ("btrfs/round-robin:4K,btrfs/devid:2", "btrfs/round-robin:4K"),
    ] {
        let run = ["/srv/data", "poisson-4k", "--policy", policies, "--rounds", "5"];
        let output = machine.bench(&run);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let said = stdout(&output);
        assert!(said.contains(&format!("against {first}")), "{said}");
        let row = said.lines().find(|line| line.ends_with("slower")).unwrap_or(&said);
        assert!(row.contains("btrfs/devid:2") && row.contains(" 0.2"), "{row}");
        assert!(said.contains("round 5 has no partner"), "{said}");
    }
}

#[test]
fn advise_takes_what_was_measured_on_the_same_array() {
    let machine = Machine::btrfs();
    slow_under_devid_2(&machine);
    let policies = "btrfs/devid:2,btrfs/pid";
    let run = ["/srv/data", "poisson-4k", "--policy", policies, "--rounds", "4", "-o", "live"];
    assert_eq!(machine.bench(&run).status.code(), Some(0));
    fs::write(machine.read_policy(), "pid round-robin:262144 [devid:2]\n").unwrap();
    let root = machine.path("").display().to_string();
    let ask = ["advise", "/srv/data", "--sysroot", &root, "--measured", "live"];
    let said = stdout(&machine.folder.run(&ask));
    for part in [
        "devid 2, /dev/sdh: measured",
        "You have      btrfs/devid:2\n",
        "Best offered  btrfs/pid: ",
        "set    echo pid > /sys/fs/btrfs/",
        "Best known    nothing else that is worth a change",
        "Confidence    measured on this array by `bench`, 4 rounds",
    ] {
        assert!(said.contains(part), "no `{part}` in\n{said}");
    }
    let refused = |ask: &[&str], parts: &[&str]| {
        let output = machine.folder.run(ask);
        assert_eq!(output.status.code(), Some(2));
        let said = stderr(&output);
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    };
    // The setting in force was not measured.
    fs::write(machine.read_policy(), "pid [round-robin:262144] devid:2\n").unwrap();
    refused(&ask, &["btrfs/round-robin", "in force, was not measured", "bench"]);
    // Those of another array, and of a simulation.
    let other = Machine::md();
    let other_root = other.path("").display().to_string();
    let of_other = ["advise", "/srv/data", "--sysroot", &other_root, "--measured", "live"];
    refused(&of_other, &["these are results of the array btrfs pool (UUID", "not of md md0"]);
    // Another one of the same label.
    let twin = Machine::btrfs();
    let (fsid, other_fsid) = twin.rename_file_system();
    let twin_root = twin.path("").display().to_string();
    let of_twin = ["advise", "/srv/data", "--sysroot", &twin_root, "--measured", "live"];
    refused(&of_twin, &[&format!("(UUID {fsid}), not of btrfs pool (UUID {other_fsid})")]);
    let simulate =
        ["compare", "two-hdd-raid1", "rand-4k-qd1", "--policy", "pid", "-o", "simulated"];
    let simulate = [&simulate[..], &["--duration", "10ms", "--repeats", "2"]].concat();
    stdout(&machine.folder.run(&simulate));
    let without_oracle = [&simulate[..5], &["-o", "bare"], &simulate[7..], &["--no-oracle"]];
    stdout(&machine.folder.run(&without_oracle.concat()));
    for folder in ["simulated", "bare"] {
        let simulated = [&ask[..5], &[folder]].concat();
        refused(&simulated, &["these results were simulated", "mirrorball bench"]);
    }
}

#[test]
fn disks_that_do_not_count_are_named() {
    let machine = Machine::md();
    let disk = machine.path("sys/class/block/sda");
    fs::write(fs::canonicalize(disk).unwrap().join("queue/iostats"), "0\n").unwrap();
    let output = machine.bench(&["/srv/data", "rand-4k-qd1", "--rounds", "3"]);
    let said = stdout(&output);
    assert!(said.contains("sda does not count its I/O"), "{said}");
    assert!(!stderr(&output).contains("from a cache"), "{}", stderr(&output));
}

#[test]
fn runs_that_a_cache_answered_are_in_no_table_and_not_run_again() {
    let machine = Machine::btrfs();
    machine.fio("if [ $runs = 2 ]; then runs=1; fi");
    let arguments = ["/srv/data", "rand-4k-qd1", "--policy", "btrfs/pid", "--rounds", "3"];
    let arguments = [&arguments[..], &["-o", "live"]].concat();
    let output = machine.bench(&arguments);
    assert!(stderr(&output).contains("from a cache"), "{}", stderr(&output));
    assert_eq!(machine.saved("live"), 2);
    let report = machine.folder.run(&["report", "live", "--format", "csv"]);
    assert_eq!(stdout(&report).matches("btrfs/pid").count(), 2, "{}", stdout(&report));
    assert!(stderr(&report).contains("1 cell is left out"), "{}", stderr(&report));
    let again = machine.bench(&arguments);
    assert!(stderr(&again).contains("all 3 runs are saved"), "{}", stderr(&again));
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
    assert!(
        stderr(&output).contains("(exit status: 3): no such engine\n  help: run fio"),
        "{}",
        stderr(&output)
    );
    assert_eq!((machine.policy().as_str(), machine.left().len()), (POLICY_BEFORE, 0));

    machine.fio("kill -INT $PPID; exec sleep 600");
    let mut command = machine.command(&arguments);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_eq!((machine.policy().as_str(), machine.left().len()), (POLICY_BEFORE, 0));
}

#[test]
fn a_policy_that_another_program_sets_voids_the_run_and_stays() {
    // In the last case the other program sets what bench itself sets in another run.
    for (policies, foreign, left) in [
        ("btrfs/devid:2", "devid:7", "devid:2"),
        ("btrfs/pid", "devid:7", "pid"),
        ("btrfs/devid:2,btrfs/devid:1", "devid:1", "devid:2"),
    ] {
        let machine = Machine::btrfs();
        let policy = machine.read_policy();
        let sets = format!("echo 'pid round-robin:262144 [{foreign}]'");
        machine.fio(&format!("{sets} > '{}'", policy.display()));
        let one_run = ["/srv/data", "rand-4k-qd1", "--policy", policies, "--rounds", "1"];
        let output = machine.bench(&[&one_run[..], &["-o", "live"]].concat());
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        let shows = format!("shows `{foreign}`, but bench left it at `{left}`");
        assert!(said.contains(&shows), "{said}");
        assert!(said.contains("before bench it was `pid`"), "{said}");
        assert!(machine.policy().contains(&format!("[{foreign}]")), "{}", machine.policy());
        assert_eq!(machine.left(), Vec::<String>::new());
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
        "bench", "/srv/data", "rand-4k-qd1", "--policy", "btrfs/pid", "--rounds", "1", "--size",
        "1MiB", "--lateness-max", "1ns", "--sysroot",
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
    assert!(plan.contains("3 jobs, 5 settings, 10 rounds"), "a whole square: {plan}");
    let shorter = stdout(&machine.bench(&["/srv/data", "--plan", "--budget", "30m"]));
    assert!(shorter.contains("7 of 10 orders are run"), "{shorter}");
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
    refuses(&machine, &["/srv/data", "two-ssd-raid1"], "help: give jobs after the path");
    fs::write(machine.folder.path("more.fio"), "bs=4k\n").unwrap();
    let with = "[global]\ninclude more.fio\n[a]\nrw=randread\n";
    fs::write(machine.folder.path("with.fio"), with).unwrap();
    refuses(&machine, &["/srv/data", "./with.fio"], "`with` includes another file");
    // fio would open and write the files that the trace names.
    let trace = "fio version 3 iolog\n1 /etc/passwd add\n2 /etc/passwd read 0 4096\n";
    fs::write(machine.folder.path("run.log"), trace).unwrap();
    fs::write(machine.folder.path("replay.fio"), "[a]\nread_iolog=run.log\n").unwrap();
    refuses(&machine, &["/srv/data", "./replay.fio"], "`replay` replays a trace");
    fs::write(machine.folder.path("runs.fio"), "[a]\nrw=randread\nexec_prerun=true\n").unwrap();
    let runs = stdout(&machine.bench(&["/srv/data", "./runs.fio", "--plan"]));
    assert!(runs.contains("runs: bench leaves out `exec_prerun`"), "{runs}");
    let one = ["/srv/data", "--plan", "--policy", "btrfs/devid:2", "--settle", "0s"];
    let one = stdout(&machine.bench(&one));
    assert!(
        one.contains("--policy names one setting, btrfs/devid:2: nothing is compared"),
        "{one}"
    );
    assert!(one.contains("each run  11.0s measured"), "{one}");
    fs::remove_dir(machine.path("srv/data")).unwrap();
    assert!(stdout(&machine.bench(&["pool", "--plan"])).contains("3 jobs, 5 settings"));
    refuses(&machine, &["pool"], "no such folder\n  help: create the folder");
    fs::create_dir(machine.path("srv/data")).unwrap();
    refuses(&machine, &["--restore", "--rounds", "3"], "--restore");
    refuses(&machine, &["two-ssd-raid1", "--plan"], "`two-ssd-raid1` is a simulated array");
    let file = machine.folder.path("bin/fio").display().to_string();
    refuses(&machine, &["/srv/data", "--plan", "-o", &file], "as results folder: it is a file");
    for (tree, target, condition) in [
        ("md-raid1-degraded", "md0", "degraded, 1 member out of service"),
        ("md-raid1-resyncing", "md0", "md0 is not measured: a resync is running ("),
        ("md-raid1-checking", "md0", "md0 is not measured: a check is running ("),
    ] {
        refuses(&Machine::copy_of(tree), &[target], condition);
    }
    let md = Machine::md();
    refuses(&md, &["/dev/md0", "fsync-writer", "--read-device"], "`fsync-writer` writes");
}
