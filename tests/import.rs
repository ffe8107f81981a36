//! `mirrorball import fio` as a user meets it, from what fio 3.33 wrote to a report.

use crate::common::{Folder, stderr, stdout};
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Output;

/// An empty folder, and the path of fio's files.
struct Place {
    folder: Folder,
}

impl Place {
    fn new() -> Place {
        Place { folder: Folder::new() }
    }

    /// Copies of fio's file `name` that differ in their first line, as text before the JSON may.
    fn copies(&self, name: &str, count: usize) -> Vec<String> {
        let text = fs::read_to_string(fixture(name)).unwrap();
        let names: Vec<String> = (1..=count).map(|number| format!("{number}-{name}")).collect();
        for copy in &names {
            let path = self.path(copy);
            fs::write(path, format!("fio: {copy} {{not JSON}}\n{text}")).unwrap();
        }
        names
    }

    fn import(&self, more: &[&str]) -> Output {
        self.run(&[&["import", "fio"], more].concat())
    }

    fn refuses(&self, more: &[&str], parts: &[&str]) {
        self.folder.refuses(&[&["import", "fio"], more].concat(), parts);
    }
}

impl Deref for Place {
    type Target = Folder;

    fn deref(&self) -> &Folder {
        &self.folder
    }
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../lab/src/experiment/import/fio/fixtures")
        .join(name)
}

#[test]
fn two_policies_that_fio_measured_are_reported() {
    let place = Place::new();
    let files = place.copies("clones.json", 3);
    let names: Vec<&str> = files.iter().map(String::as_str).collect();
    let about = ["--array", "two-ssd-raid1", "--job", "mine", "-o", "live"];
    stdout(&place.import(&[&names[..2], &about, &["--policy", "pid"]].concat()));
    // One after the other, and one of them twice.
    stdout(&place.import(&[&names[..1], &about, &["--policy", "my-patch"]].concat()));
    let output = place.import(&[&names[..2], &about, &["--policy", "my-patch"]].concat());
    assert!(
        stderr(&output).contains("skipped, because live already holds them: 1-clones.json"),
        "{}",
        stderr(&output)
    );

    let text = stdout(&place.run(&["report", "live", "--format", "table"]));
    assert!(text.contains("\ntwo-ssd-raid1: 2 policies, 1 job, 2 repeats (seeds 1, 2)"), "{text}");
    for part in ["* btrfs/pid", "= my-patch", "writes", "`my-patch` ties with it"] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    assert!(!text.contains("oracle"), "fio does not know it:\n{text}");
}

#[test]
fn a_live_run_is_compared_with_its_simulation() {
    let place = Place::new();
    let files = place.copies("plain.txt", 2);
    let names: Vec<&str> = files.iter().map(String::as_str).collect();
    let about = ["--array", "two-ssd-raid1", "--job", "rand-4k-qd32", "--policy", "queue"];
    stdout(&place.import(&[&names[..], &about, &["-o", "live"]].concat()));
    let short =
        ["--policy", "queue,pid", "--duration", "50ms", "--repeats", "2", "-o", "simulated"];
    stdout(&place.run(&[&["compare", "two-ssd-raid1", "rand-4k-qd32"], &short[..]].concat()));
    let text = stdout(&place.run(&["report", "simulated", "live", "--format", "table"]));
    assert!(text.contains("rand-4k-qd32, live against simulated"), "{text}");
    let remark = "! job `rand-4k-qd32` has other contents in `live` than in `simulated`";
    assert!(text.contains(remark), "{text}");
}

#[test]
fn logs_go_with_one_file() {
    let place = Place::new();
    let path = |name: &str| fixture(name).to_str().unwrap().to_owned();
    let (result, log) = (path("single.json"), path("single_lat.1.log"));
    stdout(&place.import(&[&result, "--log", &log, "-o", "out"]));
    let cells = fs::read_dir(place.path("out/cells")).unwrap();
    let cell = fs::read_to_string(cells.map(|entry| entry.unwrap().path()).next().unwrap());
    assert!(cell.unwrap().contains("\"latency_over_time\":\"requests\""));
    place.refuses(
        &[&result, &path("clones.json"), "--log", &log, "-o", "live"],
        &["--log belongs to one RESULT.json, but there are 2"],
    );
    place.refuses(&[&result, "--log", &result, "-o", "live"], &["single.json", "NAME_bw.1.log"]);
    place
        .refuses(&[&result, "--log", "absent_bw.log", "-o", "live"], &["absent_bw.log", "No such"]);
}

#[test]
fn every_file_that_cannot_be_used_is_named_and_nothing_is_written() {
    let place = Place::new();
    let write = |name: &str, text: &str| fs::write(place.path(name), text).unwrap();
    let whole = fs::read_to_string(fixture("groups.json")).unwrap();
    write("whole.json", &whole);
    write("half.json", &whole[..whole.len() / 2]);
    write("foreign.json", "{\"a\": 1}");
    let all = ["whole.json", "half.json", "foreign.json", "absent.json", "-o", "live"];
    let parts = [
        "half.json is cut off",
        "foreign.json is JSON, but not output of fio",
        "cannot read absent.json",
    ];
    place.refuses(&all, &parts);
    place.refuses(&["whole.json", "-o", "live", "--array", "no.toml"], &["--array", "no.toml"]);
    place.refuses(&["whole.json", "-o", "live", "--policy", "oracle"], &["--policy", "oracle"]);
    for several in ["all", "btrfs/*", "pid,zfs"] {
        let message = format!("--policy: `{several}` means several policies");
        place.refuses(&["whole.json", "-o", "live", "--policy", several], &[&message]);
    }
    write("list.json", "[]");
    place.refuses(&["list.json", "-o", "live"], &["not output of fio: it is not an object"]);
    write("a_bw.1.log", "abc, 1, 0, 0\n");
    let log = ["whole.json", "--log", "a_bw.1.log", "-o", "live"];
    place.refuses(&log, &["--log: a_bw.1.log:1: column 1, `abc`, is not a number"]);
    place.refuses(&["whole.json", "-o", "live", "-j", ""], &["--job: the name is empty"]);
    place.refuses(&["whole.json", "-o", "live", "-a", ""], &["--array: the name is empty"]);
    place.refuses(&["whole.json"], &["--output"]);
    let hint = place.run(&["report", "whole.json"]);
    assert!(stderr(&hint).contains("mirrorball import fio FILE -o DIR"), "{}", stderr(&hint));
}
