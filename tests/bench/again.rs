//! `mirrorball bench` with a results folder that an earlier one has left, and what Ctrl-C leaves.

use super::machine::{Machine, POLICY_BEFORE};
use crate::common::{stderr, stdout};
use std::fs;

const RUN: [&str; 6] =
    ["/srv/data", "rand-4k-qd1", "--policy", "btrfs/pid,btrfs/devid:2", "-o", "live"];

/// `bench` of two settings in two rounds, into the folder `live`.
fn two_rounds<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&RUN[..], &["--rounds", "2"], more].concat()
}

/// A fio that notes each of its runs, and does `more` in the run with this number.
fn counted(machine: &Machine, number: usize, more: &str) {
    let runs = machine.folder.path("runs");
    let runs = runs.display();
    machine.fio(&format!("echo run >> '{runs}'\n[ $(wc -l < '{runs}') != {number} ] || {more}"));
}

fn runs(machine: &Machine) -> usize {
    fs::read_to_string(machine.folder.path("runs")).unwrap_or_default().lines().count()
}

#[test]
fn an_interrupted_bench_goes_on_with_the_rounds_that_lack_a_run() {
    let machine = Machine::btrfs();
    counted(&machine, 4, "{ kill -INT $PPID; exec sleep 600; }");
    let output = machine.bench(&two_rounds(&[]));
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{said}");
    for part in [
        "interrupted: 3 of 4 runs are saved in live",
        "run the same command with -o live to continue",
        "the settings of the array are as before, and no file of bench is left on it",
    ] {
        assert!(said.contains(part), "no `{part}` in\n{said}");
    }
    assert_eq!((machine.policy().as_str(), machine.left().len()), (POLICY_BEFORE, 0));
    let first = fs::read_dir(machine.folder.path("live/cells")).unwrap();
    let first: Vec<_> = first.map(|it| it.unwrap().path()).collect();
    let modified = |path: &std::path::PathBuf| fs::metadata(path).unwrap().modified().unwrap();
    let before: Vec<_> = first.iter().map(modified).collect();

    let output = machine.bench(&two_rounds(&[]));
    let said = stderr(&output);
    assert!(said.contains("note: 2 of 4 runs are saved in live, and are not run again"), "{said}");
    let shown = stdout(&output);
    assert!(shown.contains("members during rand-4k-qd1"), "{shown}");
    assert_eq!(runs(&machine), 4 + 2, "the second round as a whole");
    assert_eq!(machine.saved("live"), 4);
    let replaced = first.iter().zip(&before).filter(|(path, then)| modified(path) != **then);
    assert_eq!(replaced.count(), 1, "the run of the second round");

    let output = machine.bench(&two_rounds(&[]));
    assert_eq!(stdout(&output), shown, "the tables are the same");
    let said = stderr(&output);
    assert!(said.contains("all 4 runs are saved in live, so nothing is measured"), "{said}");
    assert_eq!(runs(&machine), 6);
    assert_eq!(machine.left(), Vec::<String>::new());
}

#[test]
fn results_of_another_bench_are_refused_before_anything_is_run() {
    let machine = Machine::btrfs();
    counted(&machine, 0, "true");
    assert_eq!(machine.bench(&two_rounds(&[])).status.code(), Some(0));
    let refuses = |arguments: &[&str], parts: &[&str]| {
        let output = machine.bench(arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        assert!(!said.contains("\\n") && said.contains("help: choose another folder"), "{said}");
    };
    let other =
        "live holds results of a different comparison: seeds: saved [1, 2]; requested [7, 8";
    refuses(&two_rounds(&["--seed", "7"]), &[other]);
    let settle = two_rounds(&["--settle", "1s"]);
    refuses(&settle, &["live holds runs under other conditions: --settle: saved 4.00s; requested"]);
    let version = machine.path("proc/version");
    let kernel = fs::read_to_string(&version).unwrap_or_default();
    fs::write(&version, kernel + " patched").unwrap();
    refuses(&two_rounds(&[]), &["other conditions: kernel: saved ", "patched"]);
    assert_eq!(runs(&machine), 4);
    assert_eq!(machine.left(), Vec::<String>::new());
}

#[test]
fn ctrl_c_before_the_first_run_has_ended_says_that_nothing_is_saved() {
    let machine = Machine::btrfs();
    counted(&machine, 1, "{ kill -INT $PPID; exec sleep 600; }");
    let output = machine.bench(&two_rounds(&[]));
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{said}");
    for part in [
        "interrupted before the first run was finished: no result is saved",
        "the settings of the array are as before, and no file of bench is left on it",
    ] {
        assert!(said.contains(part), "no `{part}` in\n{said}");
    }
    assert_eq!((machine.saved("live"), machine.left().len()), (0, 0));
    assert_eq!(machine.policy(), POLICY_BEFORE);
}
