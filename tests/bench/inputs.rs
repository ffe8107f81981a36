//! What `mirrorball bench` refuses before it runs anything, because it would measure, or compare
//! with, something else than what was meant.

use super::machine::Machine;
use crate::common::{stderr, stdout};
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
