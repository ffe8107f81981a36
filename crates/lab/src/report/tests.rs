//! Snapshots of every format on a small made-up study.

use super::*;
use crate::experiment::plan::Cell;
use crate::experiment::study::{Criteria, Goal};
use crate::fixtures::{Achieved, criteria, measurement, plan, section, study, study_of};
use mirrorball_disk::cache_tier::CacheTierCounts;
use proptest::prelude::*;
use serde_json::{Value, json};

const PLAIN: Style = Style::FILE;
const COLOURED: Style = Style { ink: ColourMode::Coloured, ..Style::FILE };

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
    insta::assert_snapshot!(render("table", &small_study(), PLAIN));
}

#[test]
fn write_rate_that_is_not_steady_is_remarked() {
    let text = |changes: [f64; 2]| {
        let study = study_of(&plan(&["j"], &["a", "b"], 2), criteria(), |cell| {
            let mut measured = measurement(Achieved::reads(100));
            measured.sections[0].write_rate_change = Some(changes[cell.repeat as usize]);
            measured
        });
        render("table", &study, PLAIN)
    };
    let remark = "j: the write rate changed by up to -45 % within the run";
    let unsteady = text([-0.4, -0.5]);
    assert!(unsteady.contains(remark), "{unsteady}");
    let steady = text([0.25, -0.2]);
    assert!(!steady.contains("write rate"), "the mean is 2.5 %: {steady}");
}

#[test]
fn writes_that_fit_the_caches_are_remarked() {
    let text = |fits: [bool; 2]| {
        let study = study_of(&plan(&["j"], &["a", "b"], 2), criteria(), |cell| {
            let mut measured = measurement(Achieved::reads(100));
            measured.sections[0].writes_fit_cache =
                fits[cell.repeat as usize] || cell.policy == "b";
            measured
        });
        render("table", &study, PLAIN).replace('\n', " ")
    };
    let all = text([true, true]);
    assert!(all.contains("j: all writes fit in the write caches: the write rates"), "{all}");
    let one = text([true, false]);
    assert!(one.contains("write caches under 1 of 2 policies: the write rates"), "{one}");
}

#[test]
fn the_cache_in_front_of_the_array_is_remarked() {
    let text = |[read, hits, written, alone]: [u64; 4]| {
        let study = study_of(&plan(&["j"], &["a", "b"], 2), criteria(), |cell| {
            let mut measured = measurement(Achieved::reads(100));
            measured.choices = Some(0);
            measured.array_cache = Some(CacheTierCounts {
                read_bytes: read,
                read_hit_bytes: if cell.policy == "b" { read } else { hits },
                written_bytes: written,
                written_to_cache_only_bytes: alone,
                ..CacheTierCounts::default()
            });
            measured
        });
        render("table", &study, PLAIN).replace('\n', " ")
    };
    let some = text([100, 30, 0, 0]);
    assert!(some.contains("array: 30 to 100 % of the bytes read came from it "), "{some}");
    assert!(some.contains("No policy had a choice: every read had a single mirror, "), "{some}");
    let all = text([100, 100, 10, 1]);
    assert!(all.contains("100 % of the bytes read came from it; it alone took 10 % of"), "{all}");
    assert!(all.contains("the cache in front of the array served every read, "), "{all}");
}

/// A section that flushes, with a rate that one policy misses.
fn paced_study(goal: &str, policy: &str) -> Study {
    let plan = plan(&["multi"], &["btrfs/pid", policy], 2);
    let goal = if goal.is_empty() { Goal::default() } else { Goal::parse(goal).unwrap() };
    study_of(&plan, Criteria { goal, ..criteria() }, |cell| {
        let mut measured = measurement(Achieved::reads(9_000));
        let is_slow = cell.policy == "btrfs/pid";
        let mut log = section("log", Achieved::reads(if is_slow { 120 } else { 500 }));
        log.write = std::mem::take(&mut log.read);
        log.flush.clone_from(&log.write);
        (log.has_rate, log.asked_iops) = (true, Some(50.0));
        measured.sections = vec![section("small", Achieved::reads(9_000)), log];
        measured
    })
}

#[test]
fn a_missed_rate_is_marked_and_remarked() {
    let text = render("table", &paced_study("", "a/x"), PLAIN);
    assert!(text.contains("12.0 of 50"), "{text}");
    let note = "! log: served less than 95 % of the 50 IOPS that it asks for: btrfs/pid (12.0)";
    assert!(text.contains(note), "{text}");
    let heading =
        "multi, section log (writes; asks for 50 IOPS; ranked by mean latency with fsync)";
    assert!(text.contains(heading), "{text}");
    let running = text.replace('\n', " ");
    assert!(running.contains("over sections of IOPS, and of 1/mean latency for `log`"), "{text}");
    let best = text.lines().filter(|line| line.starts_with("* a/x")).count();
    assert_eq!(best, 1, "of the job, not of each section: {text}");
}

#[test]
fn a_screen_has_no_tables_of_sections_and_no_marks_that_do_not_occur() {
    let study = paced_study("", "a/x");
    let screen = |job_tables| {
        let extent = TableExtent { all_rows: false, job_tables, named: &[] };
        brief(&study, "", &extent, PLAIN)
    };
    let text = screen(false);
    assert!(text.contains("multi (2 sections)") && !text.contains("section log ("), "{text}");
    assert!(text.contains("\nthe tables of each section: --tables\n"), "{text}");
    assert!(!text.contains("ties with it") && !text.contains("? undecided"), "{text}");
    let text = screen(true);
    assert!(text.contains("section log (") && !text.contains("\n\n\n"), "{text}");
}

#[test]
fn a_goal_names_its_figure_in_every_place() {
    let text = render("table", &paced_study("p95", "a/x"), PLAIN);
    let titles = text.lines().find(|line| line.contains("score")).unwrap();
    let titles: Vec<&str> = titles.split_whitespace().collect();
    assert_eq!(titles[..5], ["policy", "score", "±", "p95", "p95"], "{text}");
    assert!(text.contains("section small (ranked by p95)"), "{text}");
    assert!(text.contains("(writes; asks for 50 IOPS; ranked by p95)"), "{text}");
    let score = "score: geometric mean over sections of p95 (of a latency 1/latency)";
    assert!(text.replace('\n', " ").contains(score), "{text}");
    assert!(!text.contains("mean latency") && !text.contains("of IOPS, "), "{text}");
}

#[test]
fn names_of_policies_are_cut_only_where_the_terminal_is_too_narrow() {
    let name = "mirrorball/first+write-mostly:1,write-behind:256";
    let study = paced_study("", name);
    for format in ["table", "markdown", "csv"] {
        assert!(render(format, &study, PLAIN).contains(name), "{format}");
    }
    let narrow = Style { width_columns: 40, ..PLAIN };
    let text = render("table", &study, narrow);
    assert!(text.contains("..") && !text.contains(name), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 40, "{line}");
    }
    assert!(text.contains("% of best"), "{text}");
}

#[test]
fn markdown() {
    insta::assert_snapshot!(render("markdown", &small_study(), PLAIN));
}

#[test]
fn csv() {
    insta::assert_snapshot!(render("csv", &small_study(), PLAIN));
}

#[test]
fn json_is_the_study_again() {
    let study = small_study();
    let read: Value = serde_json::from_str(&render("json", &study, PLAIN)).unwrap();
    assert_eq!(read, serde_json::to_value(&study).unwrap());
}

#[test]
fn colour_is_only_added() {
    let study = small_study();
    let coloured = render("table", &study, COLOURED);
    assert!(coloured.contains("\x1b[1;32m* kakra/latency"), "{coloured}");
    let mut stripped = String::new();
    for part in coloured.split('\x1b') {
        let text = part.strip_prefix('[').and_then(|code| code.split_once('m'));
        stripped += text.map_or(part, |(_, rest)| rest);
    }
    assert_eq!(stripped, render("table", &study, PLAIN));
}

#[test]
fn the_widest_usual_table_fits_a_terminal() {
    let jobs =
        ["a-4k-qd32-defrag", "b", "c", "d", "e", "f", "g-rand-4k", "h", "rand-4k-qd1-defrag"];
    let policies = ["btrfs/round-robin:262144", "btrfs/pid"];
    let study = study(&plan(&jobs, &policies, 3), made_up);
    let text = render("table", &study, PLAIN);
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 120, "{widest} columns");
    assert!(text.contains("continued"), "nine jobs do not fit next to each other");
}

/// The small study, and the same with the second policy slower by a third under fewer repeats.
fn side_by_side(format: &str, style: Style) -> String {
    let before = small_study();
    let slower = |cell: &Cell<'_>| {
        let achieved = made_up(cell);
        let is_hit = cell.policy == "gmirror/round-robin";
        Achieved { reads: achieved.reads * if is_hit { 2 } else { 3 } / 3, ..achieved }
    };
    let mut plan = before.plan.clone();
    plan.build.version = "0.0.9".to_owned();
    let after = study(&plan, slower);
    let sets = [("before", &before), ("after", &after)];
    let findings = Findings {
        sets: sets.iter().map(|&(label, study)| Labelled { label, study }).collect(),
        comparison: Comparison::new(&sets),
    };
    let format = FORMATS.iter().find(|known| known.name == format).unwrap();
    (format.render)(&findings, style)
}

/// What follows the two studies.
fn last_part(format: &str, heading: &str) -> String {
    let text = side_by_side(format, PLAIN);
    text[text.rfind(heading).unwrap()..].to_owned()
}

#[test]
fn table_of_a_comparison() {
    insta::assert_snapshot!(last_part("table", "== before / after"));
}

#[test]
fn markdown_of_a_comparison() {
    insta::assert_snapshot!(last_part("markdown", "# before / after"));
}

#[test]
fn several_sets_in_formats_for_machines() {
    let csv = side_by_side("csv", PLAIN);
    assert!(csv.starts_with("set,array,job,section,requests,policy,"), "{csv}");
    assert_eq!(csv.lines().filter(|line| line.starts_with("after,pair,")).count(), 45);
    let json = side_by_side("json", PLAIN);
    let read: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(read["sets"].as_array().unwrap().len(), 2);
    assert_eq!(read["comparison"]["labels"], json!(["before", "after"]));
}

#[test]
fn tables_fit_the_terminal_and_say_what_is_left_out() {
    let jobs = [
        "rand-4k-qd1", "rand-4k-qd1-defrag", "rand-4k-qd32", "rand-4k-qd32-defrag", "seq-read",
        "seq-read-defrag",
    ];
    let policies = ["research/peak-ewma", "btrfs/round-robin:262144", "btrfs/pid"];
    let study = study(&plan(&jobs, &policies, 3), made_up);
    for width_columns in [60, 72, 80, 100, 140] {
        let style = Style { ink: ColourMode::Plain, width_columns };
        let text = render("table", &study, style);
        for line in text.lines() {
            assert!(line.chars().count() <= width_columns, "{width_columns}: {line}");
        }
        assert_eq!(text.contains("left out of"), width_columns < 140, "{text}");
        assert!(
            text.contains("reads by devid, %") || width_columns < 72,
            "{width_columns}: {text}"
        );
    }
}

#[test]
fn a_screen_has_the_decision_the_best_and_what_was_named() {
    let names: Vec<String> = (0..20).map(|number| format!("family/policy-{number}")).collect();
    let mut policies: Vec<&str> = names.iter().map(String::as_str).collect();
    policies.push("btrfs/pid");
    let rate = |cell: &Cell<'_>| {
        let number = names.iter().position(|name| name == cell.policy);
        // 0 to 2 are alike, and so are 18 and 19.
        number.map_or(500, |number| 2000 - 10 * number.clamp(2, 18) as u64)
    };
    let study = study(&plan(&["a", "b"], &policies, 3), |cell| Achieved::reads(rate(cell)));
    let named = [names[19].clone()];
    let screen = |all_rows, job_tables, width_columns| {
        let extent = TableExtent { all_rows, job_tables, named: &named };
        brief(&study, "", &extent, Style { width_columns, ..PLAIN })
    };
    let row = |text: &str, policy: &str| {
        let mut lines = text.lines().filter_map(|line| line.get(2..));
        lines.any(|line| line.starts_with(&format!("{policy} ")))
    };
    let text = screen(false, false, 80);
    assert!(text.starts_with("Use `family/policy-0`"), "{text}");
    assert!(row(&text, "family/policy-0 and 2 others"), "{text}");
    assert!(row(&text, "family/policy-11") && !row(&text, "family/policy-12"), "{text}");
    assert!(row(&text, "family/policy-19 and 1 other") && row(&text, "btrfs/pid"), "{text}");
    assert!(text.contains("6 policies are not shown: --all"), "{text}");
    assert!(!text.contains("p99"), "{text}");
    assert!(row(&screen(false, false, 40), "family/policy-0 +2"));
    let all = screen(true, false, 80);
    assert!(names.iter().all(|name| row(&all, name)) && !all.contains("--all"), "{all}");
    let tables = screen(false, true, 80);
    assert!(tables.contains("\na\n") && tables.contains("\nb\n"), "{tables}");
    assert!(row(&tables, "family/policy-19 and 1 other") && tables.contains("p99"), "{tables}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever things are called, the text fits the terminal.
    #[test]
    fn names_do_not_widen_a_table(
        job in "[a-z0-9-]{1,90}", other in "[a-zä-]{1,20}", policy in "[a-z/:0-9-]{1,70}",
    ) {
        prop_assume!(job != other && policy != "btrfs/pid");
        let study = study(&plan(&[&job, &other], &[&policy, "btrfs/pid"], 2), made_up);
        render("markdown", &study, PLAIN);
        render("table", &study, Style { width_columns: 40, ..PLAIN });
        let table = render("table", &study, Style { width_columns: 71, ..PLAIN });
        for line in table.lines() {
            prop_assert!(line.chars().count() < 72, "{line}");
        }
    }
}
