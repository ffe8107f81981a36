//! `mirrorball report` as a user meets it: saved results in, text out, exit codes and messages.

use crate::common::{Folder, stderr, stdout};
use std::fs;

/// A folder with the results of a short comparison in `out`.
fn results() -> Folder {
    let folder = Folder::new();
    compare(&folder, "two-delays-raid1", &["-o", "out"]);
    folder
}

fn compare(folder: &Folder, array: &str, more: &[&str]) -> String {
    let usual = ["compare", array, "rand-4k-qd32", "--policy", "pid,queue"];
    let short = ["--duration", "100ms", "--repeats", "2"];
    stdout(&folder.run(&[&usual[..], &short, more].concat()))
}

#[test]
fn saved_results_say_in_every_format_what_the_run_said() {
    let place = results();
    for format in ["table", "json", "csv", "markdown"] {
        let at_the_run = compare(
            &place,
            "two-delays-raid1",
            &["-o", "out", "--format", format, "--all", "--tables"],
        );
        let later = stdout(&place.run(&["report", "out", "--format", format]));
        assert_eq!(later, at_the_run, "{format}");
    }
}

#[test]
fn saved_results_are_ranked_by_other_figures() {
    let place = results();
    let ranked = ["--rank", "p99", "--baseline", "kakra/queue"];
    let at_the_run = compare(&place, "two-delays-raid1", &[&["-o", "out"][..], &ranked].concat());
    let report = ["report", "out", "--format", "table"];
    let later = stdout(&place.run(&[&report[..], &ranked].concat()));
    assert!(later.contains("ranked by p99"), "{later}");
    assert_eq!(later, at_the_run);
    assert_eq!(stdout(&place.run(&report)), at_the_run, "as the run was ranked");
    let by_mean = stdout(&place.run(&[&report[..], &["--rank", "mean"]].concat()));
    assert!(by_mean.contains("ranked by mean"), "{by_mean}");
    let refuses = |more: [&'static str; 2], parts: &[&str]| {
        place.refuses(&[&report[..], &more].concat(), parts);
    };
    refuses(["--baseline", "zfs/mirror"], &["`zfs/mirror` is not one of the compared policies"]);
    refuses(["--baseline", "pdi"], &["--baseline: unknown policy `pdi`"]);
}

#[test]
fn what_cannot_be_used_is_named_and_the_rest_is_reported() {
    let place = results();
    let cells = fs::read_dir(place.path("out/cells")).unwrap();
    let cell = cells.map(|entry| entry.unwrap().path()).min().unwrap();
    let text = fs::read_to_string(&cell).unwrap();
    fs::write(&cell, &text[..text.len() / 2]).unwrap();
    let output = place.run(&["report", "out", "--format", "table"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let name = cell.file_name().unwrap().to_str().unwrap();
    assert!(stderr(&output).contains(&format!("{name} is cut off")), "{}", stderr(&output));
    assert!(stderr(&output).contains("3 of 4 cells are saved"), "{}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("Use `"));
}

#[test]
fn two_folders_are_compared() {
    let place = results();
    let slower = "profile = \"raid1\"\n[[member]]\nmodel = \"hdd-5k4\"\ncount = 2\n";
    fs::write(place.path("two-delays-raid1.toml"), slower).unwrap();
    compare(&place, "two-delays-raid1.toml", &["-o", "after"]);
    let text = stdout(&place.run(&["report", "out", "after", "--format", "table"]));
    for part in ["== out ==", "== after ==", "rand-4k-qd32, after against out", "- kakra/queue"] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    let remark = "! array `two-delays-raid1` has other contents in `after` than in `out`";
    assert!(text.contains(remark), "{text}");
    let (_, closing) = text.rsplit_once("\n\n").unwrap();
    assert!(closing.starts_with("`after` is 0."), "{closing}");
    let same = stdout(&place.run(&["report", "out", "out/cells/../../out", "--format", "table"]));
    assert!(same.contains("1.00 times as fast"), "{same}");
}

#[test]
fn tables_fit_the_width_that_columns_asks_for() {
    let place = results();
    let output = place
        .command(&["report", "out", "--format", "table"])
        .env("COLUMNS", "60")
        .output()
        .unwrap();
    let text = stdout(&output);
    assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    assert!(text.contains("left out of 60 columns: MiB/s"), "{text}");
}

/// On a narrow terminal, only what is to be copied (in backticks) may be wider.
#[test]
fn every_text_fits_a_narrow_terminal() {
    let folder = Folder::new();
    for arguments in [
        &["explain", "two-ssd-raid1", "rand-4k-qd1", "--policy", "auto", "--reads", "3"][..],
        &["models"],
        &["models", "hdd-7k2-ent"],
        &["policies", "btrfs/pid"],
        &["policies", "md"],
        &["check", "hetero-hdd-raid1"],
    ] {
        let output = folder.command(arguments).env("COLUMNS", "40").output().unwrap();
        let text = stdout(&output);
        let is_wide = |line: &&str| line.chars().count() > 40 && !line.contains('`');
        let wide: Vec<&str> = text.lines().filter(is_wide).collect();
        assert!(wide.is_empty(), "{arguments:?}: {wide:#?}");
    }
}

#[test]
fn where_nothing_can_be_reported_it_says_why() {
    let place = results();
    fs::create_dir(place.path("empty")).unwrap();
    fs::write(place.path("foreign.json"), "{\"name\": \"package\"}").unwrap();
    place.refuses(&["report", "empty"], &["empty holds no saved results"]);
    place.refuses(&["report", "absent"], &["absent cannot be read"]);
    place.refuses(
        &["report", "foreign.json"],
        &["foreign.json is JSON, but not a result of mirrorball"],
    );
    place.refuses(&["report"], &["DIR|FILE"]);
    place.refuses(&["report", "out", "--format", "cvs"], &["cvs", "csv"]);
}
