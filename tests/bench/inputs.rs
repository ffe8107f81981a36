//! Requests that `mirrorball bench` refuses before it runs anything, because it would measure, or
//! compare with, something else than what was meant.

use super::machine::Machine;
use crate::common::{stderr, stdout};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Exit code 2, these parts in the message, and nothing left.
fn refuses(machine: &Machine, arguments: &[&str], parts: &[&str]) {
    let output = machine.bench(arguments);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in parts {
        assert!(said.contains(part), "no `{part}` in\n{said}");
    }
    assert!(!said.contains("run 1 of"), "{said}");
    assert_eq!(machine.left(), Vec::<String>::new());
}

#[test]
fn a_label_of_two_file_systems_is_refused_with_both_named() {
    let machine = Machine::btrfs();
    let first = machine.read_policy().parent().unwrap().to_owned();
    let fsid = first.file_name().unwrap().to_str().unwrap().to_owned();
    let second = "11111111-2222-3333-4444-555555555555";
    assert!(stdout(&machine.bench(&["pool", "--plan"])).contains("3 jobs"));
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(&first).arg(first.with_file_name(second));
    assert!(copy.status().unwrap().success());
    let parts = ["pool stands for several arrays", &fsid, second, "at /srv/data", "help: give the"];
    refuses(&machine, &["pool", "--plan"], &parts);
    for name in [&fsid, "/srv/data"] {
        assert!(stdout(&machine.bench(&[name, "--plan"])).contains("3 jobs"), "{name}");
    }
}

#[test]
fn a_prediction_of_something_else_is_refused_before_anything_is_run() {
    let machine = Machine::btrfs();
    let describe = |machine: &Machine, file: &str| {
        let root = machine.path("").display().to_string();
        stdout(&machine.folder.run(&["detect", "/srv/data", "--sysroot", &root, "-o", file]));
    };
    let simulate = |array: &str, job: &str, policy: &str, folder: &str| {
        let run = ["compare", array, job, "--policy", policy, "-o", folder];
        let short = ["--duration", "10ms", "--repeats", "2"];
        stdout(&machine.folder.run(&[&run[..], &short].concat()));
    };
    describe(&machine, "pool.toml");
    simulate("pool.toml", "rand-4k-qd1", "btrfs/pid", "predicted");
    let bench = |jobs: &[&'static str], folder: &'static str| {
        [&["/srv/data"], jobs, &["--plan", "--predicted", folder]].concat()
    };
    let plan = stdout(&machine.bench(&bench(&["rand-4k-qd1"], "predicted")));
    assert!(plan.contains("note      predicted has no prediction of btrfs/devid:1\n"), "{plan}");

    let missing = ["it has no job `seq-read`, but rand-4k-qd1", "help: name the jobs"];
    refuses(&machine, &bench(&["rand-4k-qd1", "seq-read"], "predicted"), &missing);
    std::fs::write(machine.folder.path("rand-4k-qd1.fio"), "[other]\nrw=randread\n").unwrap();
    let changed = bench(&["./rand-4k-qd1.fio"], "predicted");
    refuses(&machine, &changed, &["its job `rand-4k-qd1` has other contents"]);
    simulate("pool.toml", "rand-4k-qd1", "md/raid1", "of-md");
    let none = ["it has none of the settings that are measured, but md/raid1", "--policy btrfs/"];
    refuses(&machine, &bench(&["rand-4k-qd1"], "of-md"), &none);
    // An array without a source is known by the number of its members.
    simulate("two-hdd-raid1", "rand-4k-qd1", "btrfs/pid", "of-two");
    let of_two = ["two-hdd-raid1 with 2 members, not of pool with 3 members", "detect /srv/data"];
    refuses(&machine, &bench(&["rand-4k-qd1"], "of-two"), &of_two);
    let (fsid, other) = machine.rename_file_system();
    let of_twin = [&*format!("(UUID {fsid}), not of btrfs pool (UUID {other})")];
    refuses(&machine, &bench(&["rand-4k-qd1"], "predicted"), &of_twin);

    let run = ["/srv/data", "rand-4k-qd1", "--policy", "btrfs/pid", "--rounds", "1", "-o", "live"];
    stdout(&machine.bench(&run));
    let measured = ["these results were measured, not simulated", "mirrorball compare"];
    refuses(&machine, &bench(&["rand-4k-qd1"], "live"), &measured);
}

#[test]
fn the_results_of_a_bench_are_printed_in_the_formats_of_a_report() {
    let machine = Machine::btrfs();
    let run = ["/srv/data", "rand-4k-qd1", "--policy", "btrfs/pid", "--rounds", "1"];
    let output = machine.bench(&[&run[..], &["-o", "live", "--format", "json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(stderr(&output).contains("1 job, 1 setting, 1 round"), "{}", stderr(&output));
    let report = machine.folder.run(&["report", "live", "--format", "json"]);
    let mut report: serde_json::Value = serde_json::from_str(&stdout(&report)).unwrap();
    // A report has a reference policy, and `bench` compares with its first setting.
    report["criteria"]["baseline"] = serde_json::Value::Null;
    assert_eq!(report, json);
}

/// It would be one of the file system that this machine has at that place.
#[test]
fn a_recorded_copy_is_neither_scrubbed_nor_defragmented() {
    let machine = Machine::btrfs();
    let run = ["/srv/data", "rand-4k-qd1", "--rounds", "1", "--background"];
    for load in ["scrub", "defrag"] {
        let parts = ["pool is a recorded copy", "help: give --background none"];
        refuses(&machine, &[&run[..], &[load]].concat(), &parts);
    }
}

/// Restoring writes and runs what a journal says.
#[test]
fn a_journal_that_another_user_may_have_written_is_not_restored() {
    let machine = Machine::btrfs();
    let journals = machine.path("var/lib/mirrorball/bench");
    std::fs::create_dir_all(&journals).unwrap();
    let journal = journals.join("pool.journal");
    let command = "[\"touch\", \"ran\"]";
    let text = format!(
        "{{\"version\": 2, \"array\": \"pool\", \"identity\": [], \"boot_id\": \"\", \
         \"process\": 1, \"folder\": null, \"knobs\": [], \"load\": {{\"ended_by\": \
         {command}}}}}"
    );
    std::fs::write(&journal, text).unwrap();
    let root = machine.path("").display().to_string();
    for (mode, part) in [
        (0o666, "another user may have written it"),
        (0o600, "the command `touch ran`, which bench never runs"),
    ] {
        std::fs::set_permissions(&journal, std::fs::Permissions::from_mode(mode)).unwrap();
        let output = machine.folder.run(&["bench", "--restore", "--sysroot", &root]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(part), "no `{part}` in\n{}", stderr(&output));
        assert!(journal.exists() && !machine.folder.path("ran").exists());
    }
}
