//! `mirrorball explain`: one choice after the other, in every form, and what it refuses.

use crate::common::samples::{ARRAY, JOB};
use crate::common::{Folder, check_generated, stdout};
use serde_json::Value;
use std::fs;

fn folder() -> Folder {
    let folder = Folder::new();
    fs::write(folder.path("pair.toml"), ARRAY).unwrap();
    fs::write(folder.path("reader.fio"), JOB).unwrap();
    folder
}

const CHAPTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results.md");

#[test]
fn the_example_of_the_guide_is_what_is_printed() {
    let line = "explain two-hdd-raid1 four-streams --policy gmirror/load --reads 4";
    let words: Vec<&str> = line.split(' ').collect();
    let printed = stdout(&Folder::new().run(&words));
    check_generated(CHAPTER, "choices", &format!("```text\n$ mirrorball {line}\n{printed}```"));
}

#[test]
fn every_form_tells_the_same_choices() {
    let folder = folder();
    let words = ["explain", "pair.toml", "reader.fio", "--policy", "zfs/mirror", "--reads", "7"];
    let with = |more: &[&str]| stdout(&folder.run(&[&words, more].concat()));
    let table = with(&[]);
    assert!(table.starts_with("7 choices of zfs/mirror from 1.00s on: reader on pair, seed 1\n"));
    let rows = |mark: &str| table.lines().filter(|line| line.starts_with(mark)).count();
    // The legend has a line for each mark in the table.
    assert_eq!((rows("* "), rows("- ")), (7 + 1, 0), "{table}");

    let answer: Value = serde_json::from_str(&with(&["--format", "json"])).unwrap();
    let choices = answer["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 7);
    for choice in choices {
        let mirrors = choice["mirrors"].as_array().unwrap();
        let lowest = mirrors.iter().map(|it| it["score"]["value"].as_i64().unwrap()).min();
        let first = mirrors.iter().find(|it| it["taken"] == "first").unwrap();
        assert_eq!(first["score"]["value"].as_i64(), lowest, "{choice}");
        assert!(choice["took_ns"].as_u64().unwrap() > 0);
    }
    assert_eq!(table, with(&[]), "the same again");
}

/// The report equals a comparison with the same seed: all reads of the job, by member.
#[test]
fn the_choices_are_those_of_a_comparison() {
    let folder = folder();
    fs::write(folder.path("short.fio"), JOB.replace("runtime=10\ntime_based\n", "io_size=2m\n"))
        .unwrap();
    let words = ["compare", "pair.toml", "short.fio", "-p", "kakra/queue", "-n", "1", "-s", "7"];
    stdout(&folder.run(&[&words[..], &["-o", "out"]].concat()));
    let csv = stdout(&folder.run(&["report", "out", "--format", "csv"]));
    let compared = csv.lines().find(|line| line.contains("kakra/queue")).unwrap();

    let words = ["explain", "pair.toml", "short.fio", "-p", "kakra/queue", "-s", "7", "--at", "0s"];
    let output = folder.run(&[&words[..], &["--for", "1h", "--format", "json"]].concat());
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let summary = &answer["summary"];
    assert_eq!(summary["choices"], 512);
    for member in summary["members"].as_array().unwrap() {
        let share = member["chosen"].as_f64().unwrap() / 512.0;
        let expected = format!("{}:{share:.4}", member["devid"]);
        assert!(compared.contains(&expected), "no {expected} in {compared}");
    }
}

/// A hedge reads the second mirror when the first has taken long, not at once.
#[test]
fn a_second_read_that_comes_later_says_when() {
    let words = ["explain", "hdd-ssd-raid1", "rand-4k-qd1", "-p", "md/raid1+hedge"];
    let text = stdout(&Folder::new().run(&[&words[..], &["--reads", "60"]].concat()));
    let parts = ["  from 16.", "\nfrom TIME: ", "The estimate leaves out that 2 of the"];
    assert!(parts.iter().all(|part| text.contains(part)) && !text.contains("as well"), "{text}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = folder();
    let refuses = |more: &[&str], parts: &[&str]| {
        folder.refuses(&[&["explain", "pair.toml", "reader.fio"], more].concat(), parts);
    };
    refuses(&["-p", "zfs/miror"], &["--policy", "did you mean `zfs/mirror`?"]);
    refuses(&["-p", "devid:9"], &["--policy", "9"]);
    refuses(&["--reads", "0"], &["--reads", "a whole number from 1 to 10000"]);
    refuses(&["--for", "0s"], &["--for", "must be greater than zero, for example 500ms"]);
    let half = ["explain", "pair.toml", "reader.fio", "-d", "200ms"];
    assert!(!stdout(&folder.run(&half)).is_empty(), "the default of --at is within the job");
    refuses(&["--at", "1m"], &["the window starts at", "the job ends at 10.0", "--duration"]);
    let end = ["the job ends at", "(1.00ms of --duration, and the requests in flight then)"];
    refuses(&["--at", "1m", "--duration", "1ms"], &end);
    folder.refuses(&["explain", "pair.toml", "no-such-job"], &["no-such-job"]);
    let array = ARRAY.replace("raid1", "raid0");
    fs::write(folder.path("striped.toml"), array).unwrap();
    let nothing = "no read had two mirrors to choose from";
    folder.refuses(&["explain", "striped.toml", "reader.fio"], &[nothing, "raid0 keeps one copy"]);
    fs::write(folder.path("writer.fio"), JOB.replace("randread", "randwrite")).unwrap();
    folder.refuses(&["explain", "pair.toml", "writer.fio"], &[nothing, "the job does not read"]);
    for (line, reason) in
        [("write_mostly = true", "is write_mostly"), ("failed = true", "has failed")]
    {
        fs::write(folder.path("one.toml"), format!("{ARRAY}{line}\n")).unwrap();
        let parts = [nothing, "devid 2", reason];
        folder.refuses(&["explain", "one.toml", "reader.fio"], &parts);
    }
}
