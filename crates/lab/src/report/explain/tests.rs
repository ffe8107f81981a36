//! A whole answer on disks of fixed service time, and made-up ones for what those never give.

use super::*;
use crate::experiment::explain::{
    ExplainRequest, Explained, MemberShare, Summary, TraceLimit, explain,
};
use crate::experiment::inputs::Inputs;
use crate::experiment::record::{ORACLE, PROGRAM_VERSION};
use crate::report::ColourMode;
use std::fs;
use tempfile::TempDir;

const STYLE: Style = Style { ink: ColourMode::Plain, width_columns: 80 };

/// Two members that take 2 ms and 1 ms, one at a time each, under four readers.
fn unequal(profile: &str) -> Inputs {
    let folder = TempDir::new().unwrap();
    let (array, job) = (folder.path().join("unequal.toml"), folder.path().join("readers.fio"));
    let member = |service| {
        format!(
            "[[member]]\nmodel = \"delay\"\nsize = \"64GiB\"\nset = {{ service = \"{service}\" }}\n"
        )
    };
    let text = format!("profile = \"{profile}\"\n{}{}", member("2ms"), member("1ms"));
    fs::write(&array, text).unwrap();
    let text = "[readers]\nioengine=libaio\ndirect=1\nrw=randread\nbs=4k\nsize=1g\niodepth=4\n\
                runtime=2\ntime_based\n";
    fs::write(&job, text).unwrap();
    Inputs::load(array.to_str().unwrap(), &[job.to_str().unwrap().to_owned()]).unwrap()
}

fn request(policy: &str) -> ExplainRequest<'_> {
    let (from, limit) = (Nanos::from_secs(1), TraceLimit::Reads(6));
    ExplainRequest { policy, seed: 1, duration: None, from, limit }
}

fn answer(policy: &str) -> Explained {
    explain(&unequal("raid1"), &request(policy)).unwrap()
}

/// The text without the version, which changes.
fn unversioned(text: &str) -> String {
    text.replace(PROGRAM_VERSION, "VERSION")
}

#[test]
fn forms_of_a_small_answer() {
    let answer = answer("zfs/mirror");
    let table = render(&answer, STYLE);
    assert!(table.lines().all(|line| line.chars().count() <= 80));
    let json = serde_json::to_string_pretty(&answer).unwrap();
    for (name, text) in [("table", table), ("json", json)] {
        // Of the long form the beginning shows how it is written.
        let text = unversioned(&text);
        let lines: Vec<&str> = text.lines().take(60).collect();
        insta::assert_snapshot!(name, lines.join("\n"));
    }
}

#[test]
fn a_narrow_terminal_has_scores_in_the_place_of_offsets() {
    let style = Style { width_columns: 40, ..STYLE };
    let table = render(&answer("mirrorball/auto"), style);
    assert!(table.lines().all(|line| line.chars().count() <= 40), "{table}");
    assert!(table.contains("cost"), "{table}");
    assert!(!table.contains("expected: time that"), "no column has it: {table}");
}

#[test]
fn the_summary_adds_up() {
    for policy in ["zfs/mirror", "btrfs/pid", ORACLE] {
        let Explained { choices, summary, .. } = answer(policy);
        assert_eq!(summary.choices, choices.len() as u64);
        let sum = |of: fn(&MemberShare) -> u64| summary.members.iter().map(of).sum::<u64>();
        assert_eq!(sum(|member| member.chosen), summary.choices);
        assert_eq!(sum(|member| member.oracle), summary.choices);
        assert_eq!(sum(|member| member.took_ns), summary.took_ns);
        assert_eq!(summary.agreed == summary.choices, summary.cost_ns == 0);
    }
}

#[test]
fn the_oracle_agrees_with_itself() {
    let Explained { summary, .. } = answer(ORACLE);
    assert_eq!(summary.agreed, summary.choices);
    assert_eq!(
        summary.sentences(ORACLE),
        "Every choice of oracle was as good as that of the oracle."
    );
}

/// Four reads in flight on disks of one server each: 4 / (1 / 2 ms + 1 / 1 ms) is 2.67 ms a read.
#[test]
fn a_time_takes_in_every_choice_within() {
    let limit = TraceLimit::Time(Nanos::from_millis(100));
    let request = ExplainRequest { limit, ..request("zfs/mirror") };
    let answer = explain(&unequal("raid1"), &request).unwrap();
    assert!((140..=160).contains(&answer.choices.len()), "{}", answer.choices.len());
    assert!(!answer.is_cut_short);
    let end_ns = 1_100_000_000;
    assert!(answer.choices.iter().all(|it| (1_000_000_000..end_ns).contains(&it.at_ns)));
}

#[test]
fn a_job_that_cannot_be_explained_is_refused_with_a_hint() {
    let message = |profile, request: &ExplainRequest<'_>| {
        explain(&unequal(profile), request).unwrap_err().to_string()
    };
    let late = ExplainRequest { from: Nanos::from_secs(3), ..request("md/raid1") };
    assert!(message("raid1", &late).contains("--at"));
    assert!(message("raid0", &request("md/raid1")).contains("raid10"));
}

/// A read that no answer could come to, and one that failed.
#[test]
fn a_choice_without_an_end_is_shown_as_such() {
    let mut answer = answer("md/raid1");
    let choice = &mut answer.choices[0];
    (choice.agreed, choice.took_ns, choice.cost_ns) = (false, None, None);
    for mirror in &mut choice.mirrors {
        mirror.oracle = mirror.taken == ReadOrder::No;
        mirror.expected_ns = mirror.expected_ns.filter(|_| mirror.oracle);
    }
    answer.summary = Summary::new(&answer.choices, &[1, 2]);
    let text = render(&answer, STYLE);
    let chosen = text.lines().find(|line| line.starts_with('-')).unwrap();
    let ends: Vec<&str> = chosen.split_whitespace().rev().take(2).collect();
    assert_eq!(ends, ["-", "never"], "{text}");
    let running = text.replace('\n', " ");
    assert!(running.contains("1 of them read from a disk that does not answer"), "{text}");
}

#[test]
fn bytes_have_at_most_three_digits() {
    assert_eq!(shown_bytes(512), "512");
    assert_eq!(shown_bytes(4096), "4K");
    assert_eq!(shown_bytes(1_234_567), "1.18M");
    assert_eq!(shown_bytes(429 << 30), "429G");
    assert_eq!(shown_bytes((4 << 40) + (1 << 35)), "4.03T");
}
