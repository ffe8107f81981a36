//! `mirrorball league`, whole: a small sample, continued, taken apart and run again.

use crate::common::{Folder, stderr, stdout};
use serde_json::Value;
use std::fs;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The saved tables of the league, of a seed that no policy was developed on.
const JUDGED: &str = "league/results/random-judged.md";

/// Three short pairings under two rivals: seconds.
const SAMPLE: [&str; 9] = [
    "league", "--sample", "3", "--quick", "--policy", "btrfs/pid,zfs/mirror", "--subject",
    "research/sed", "--seed=5",
];

fn sample(folder: &Folder, more: &[&str]) -> String {
    stdout(&folder.run(&[&SAMPLE[..], more].concat()))
}

#[test]
fn a_sample_is_judged_saved_and_continued() {
    let folder = Folder::new();
    let first = sample(&folder, &[]);
    for part in ["3 pairings, 2 rivals, seed 5", "Where research/sed is worst", "starves"] {
        assert!(first.contains(part), "no `{part}` in\n{first}");
    }
    assert!(!first.contains("by class of"), "three pairings say nothing of a class\n{first}");
    let narrow = folder.command(&SAMPLE).env("COLUMNS", "80").output().unwrap();
    let narrow = stdout(&narrow);
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    assert!(narrow.contains(" \\\n    "), "a shell joins the lines of a command\n{narrow}");
    assert!(sample(&folder, &["--all"]).contains("research/sed by class of array"));
    let file = folder.path("mirrorball-results/sample-5-quick/pairing-00002.json");
    let written = fs::metadata(&file).unwrap().modified().unwrap();
    assert_eq!(sample(&folder, &[]), first);
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), written, "it was run again");
    let results = "mirrorball-results/sample-5-quick";
    folder.refuses(&["report", results], &["results of `league --sample`", "to print them"]);
    let file = format!("{results}/pairing-00001.json");
    folder.refuses(&["report", &file], &["results of `league --sample`"]);
    folder.refuses(&[&SAMPLE[..], &["--list", "-f", "json"]].concat(), &["--format has no effect"]);
    fs::write(folder.path("mine.txt"), "mine").unwrap();
    folder.refuses(&[&SAMPLE[..], &["-o", "mine.txt"]].concat(), &["mine.txt is a file"]);
    // The pairings of another sample have the same numbers.
    let mut other = SAMPLE;
    other[8] = "--seed=6";
    let other = [&other[..], &["-o", results]].concat();
    folder.refuses(&other, &["holds the sample of seed 5, short runs, not of seed 6", "-o"]);
    let notes = ["-o", "."];
    folder.refuses(&[&SAMPLE[..], &notes].concat(), &["holds no results of a sample", "-o"]);
}

fn pairings(folder: &Folder, more: &[&str]) -> Vec<Value> {
    let json = sample(folder, &[&["--format", "json"], more].concat());
    let standings: Value = serde_json::from_str(&json).unwrap();
    standings["pairings"].as_array().unwrap().clone()
}

fn score(pairing: &Value, policy: &str) -> f64 {
    let entries = pairing["entries"].as_array().unwrap();
    entries.iter().find(|entry| entry["policy"] == policy).unwrap()["score"].as_f64().unwrap()
}

/// A pairing is two ordinary files and a command, which gives the figures of the sample.
#[test]
fn a_pairing_runs_again_by_its_files() {
    let folder = Folder::new();
    let sampled = pairings(&folder, &[]);
    let command = sample(&folder, &["--pairing", "1"]);
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    assert_eq!(&words[..3], ["compare", "sample-5-1.toml", "sample-5-1.fio"]);
    stdout(&folder.run(&["check", "sample-5-1.toml", "sample-5-1.fio"]));
    let json = stdout(&folder.run(&[&words[..], &["--format", "json"]].concat()));
    let findings: Value = serde_json::from_str(&json).unwrap();
    let cells = findings["cells"].as_array().unwrap();
    for policy in ["research/sed", "zfs/mirror", "oracle"] {
        let cell = cells.iter().find(|cell| cell["policy"] == policy).unwrap();
        let compared = cell["score"].as_f64().unwrap();
        let sampled = score(&sampled[0], policy);
        assert!((compared - sampled).abs() < 1e-3, "{policy}: {compared} and {sampled}");
    }
    let again = [&SAMPLE[..], &["--pairing", "1"]].concat();
    assert_eq!(stdout(&folder.run(&again)), command, "the same files");
    fs::write(folder.path("sample-5-1.toml"), "mine").unwrap();
    folder.refuses(
        &again,
        &["sample-5-1.toml already exists\n  help: move it, run the command in another folder"],
    );
    stdout(&folder.run(&[&again[..], &["--force"]].concat()));
    let subjects = "mirrorball/auto:locality,research/sed";
    let of_subjects = ["league", "--sample", "1", "--pairing", "1", "--subject", subjects];
    let command = stdout(&Folder::new().run(&of_subjects));
    assert!(command.contains("--policy mirrorball/auto:locality,research/sed,btrfs/"), "{command}");
}

#[test]
fn a_sample_can_be_listed_and_wrong_use_is_refused() {
    let folder = Folder::new();
    let listed = stdout(&folder.run(&["league", "--sample", "40", "--list"]));
    assert_eq!(listed.lines().count(), 41, "{listed}");
    assert!(listed.contains("HDDs") && listed.contains("streams"), "{listed}");
    folder.refuses(&["league", "--sample", "3", "--pairing", "4"], &["the sample has 3 pairings"]);
    folder.refuses(&["league", "--sample", "0"], &["a whole number from 1 to 100000"]);
    for wrong in [&["--list", "--pairing", "1"][..], &["--force"]] {
        let output = folder.run(&[&["league"], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", stderr(&output));
    }
}

#[test]
fn the_size_of_a_league_has_a_default() {
    let folder = Folder::new();
    let size = |more: &[&str]| {
        stdout(&folder.run(&[&["league", "--list"], more].concat())).lines().count() - 1
    };
    assert_eq!((size(&[]), size(&["--quick"])), (100, 24));
}

#[test]
fn wrong_policies_are_refused() {
    let folder = Folder::new();
    folder.refuses(&["league", "--subject", "zfs/miror"], &["--subject:", "zfs/mirror"]);
    folder.refuses(&["league", "--threads", "many"], &["a whole number from 1 to 1024"]);
    let itself = ["league", "--subject", "zfs/mirror", "--policy", "zfs/mirror"];
    folder.refuses(&itself, &["no rival is left", "--policy"]);
    folder.refuses(&["league", "--subject", "oracle"], &["the league adds it to every table"]);
}

fn kept(path: &str) -> String {
    fs::read_to_string(format!("{ROOT}/{path}")).unwrap()
}

/// The head of the judged sample, its best policies and the familiar ones.
/// The geometric means of `mirrorball/auto` and of the best rival.
#[test]
fn the_readme_quotes_the_kept_league() {
    let judged = kept(JUDGED);
    let readme = kept("README.md");
    for policy in ["| **mirrorball/auto**", "| research/sed |"] {
        let row = judged.lines().find(|line| line.starts_with(policy)).unwrap();
        let mean = row.split('|').nth(2).and_then(|cell| cell.split_whitespace().next()).unwrap();
        assert!(readme.contains(mean), "the README lacks {mean} of {policy}");
    }
}
