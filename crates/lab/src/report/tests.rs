//! Snapshots of every format on a small made-up study.

use super::*;
use crate::fixtures::{Achieved, plan, study};
use crate::plan::Cell;

fn render(name: &str, study: &Study, style: Style) -> String {
    let format = FORMATS.iter().find(|format| format.name == name).unwrap();
    (format.render)(&Findings::of_study(study), style)
}

/// Two jobs: the second writes as well, and one policy loses reads there.
fn made_up(cell: &Cell<'_>) -> Achieved {
    let noise = 7 * cell.seed % 5;
    let reads = match cell.policy {
        "btrfs/pid" => 940 + 40 * noise,
        "kakra/latency" => 11_960 + 10 * noise,
        "kakra/latency-rr" => 12_000 - 10 * noise,
        "oracle" => 15_000,
        _ => 1_400,
    };
    let mut achieved = Achieved::reads(reads);
    if cell.policy.starts_with("kakra") {
        achieved.first_percent = 93;
    }
    if cell.job_index == 1 {
        achieved.writes = 400;
        achieved.errors = u64::from(cell.policy == "gmirror/round-robin");
    }
    achieved
}

fn small_study() -> Study {
    let policies = ["btrfs/pid", "gmirror/round-robin", "kakra/latency", "kakra/latency-rr"];
    study(&plan(&["rand-4k-qd32-defrag", "mixed"], &policies, 3), made_up)
}

#[test]
fn table() {
    insta::assert_snapshot!(render("table", &small_study(), Style::Plain));
}

#[test]
fn markdown() {
    insta::assert_snapshot!(render("markdown", &small_study(), Style::Plain));
}

#[test]
fn csv() {
    insta::assert_snapshot!(render("csv", &small_study(), Style::Plain));
}

#[test]
fn json_is_the_study_again() {
    let study = small_study();
    let read: Study = serde_json::from_str(&render("json", &study, Style::Plain)).unwrap();
    assert_eq!((read.jobs, read.matrix, read.verdict), (study.jobs, study.matrix, study.verdict));
    assert_eq!(read.plan, study.plan);
}

#[test]
fn colour_is_only_added() {
    let study = small_study();
    let coloured = render("table", &study, Style::Coloured);
    assert!(coloured.contains("\x1b[1;32m* kakra/latency"), "{coloured}");
    let mut stripped = String::new();
    for part in coloured.split('\x1b') {
        let text = part.strip_prefix('[').and_then(|code| code.split_once('m'));
        stripped += text.map_or(part, |(_, rest)| rest);
    }
    assert_eq!(stripped, render("table", &study, Style::Plain));
}

#[test]
fn the_widest_usual_table_fits_a_terminal() {
    let jobs =
        ["a-4k-qd32-defrag", "b", "c", "d", "e", "f", "g-rand-4k", "h", "rand-4k-qd1-defrag"];
    let policies = ["btrfs/round-robin:262144", "btrfs/pid"];
    let study = study(&plan(&jobs, &policies, 3), made_up);
    let text = render("table", &study, Style::Plain);
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 120, "{widest} columns");
    assert!(text.contains("continued"), "nine jobs do not fit beside each other");
}
