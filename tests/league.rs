//! `mirrorball league`, whole: a corner of the matrix, in every form.

use crate::common::{Folder, stdout};
use mirrorball_lab::evaluation::league::standings::{LEAST, TAIL_MOST};
use std::fs;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The saved tables of the whole league.
const KEPT: &str = "league/results/table.md";
/// The saved tables of the random league, of a seed that no policy was developed on.
const JUDGED: &str = "league/results/random-judged.md";

/// Two arrays and four jobs under two rivals: seconds.
const CORNER: [&str; 9] = [
    "league",
    "--quick",
    "--arrays",
    "equal-hdd,network",
    "--jobs",
    "rand-4k-qd1,rand-16k-qd16,poisson-30,seq-1-buffered",
    "--policy",
    "btrfs/pid,zfs/mirror",
    "--subject",
];

fn league(folder: &Folder, subject: &str, more: &[&str]) -> String {
    stdout(&folder.run(&[&CORNER[..], &[subject], more].concat()))
}

#[test]
fn a_corner_of_the_league_says_who_is_ahead() {
    let folder = Folder::new();
    let printed = league(&folder, "research/sed", &["--report"]);
    insta::assert_snapshot!(printed);
    let page = fs::read_to_string(folder.path("league.html")).unwrap();
    assert!(page.contains("rand-4k-qd1") && page.contains("title=\"equal-hdd, "), "{page}");
    let again = [&CORNER[..], &["research/sed", "--report"]].concat();
    folder.refuses(&again, &["league.html already exists", "--force"]);
    league(&folder, "research/sed", &["--report", "--force"]);
}

#[test]
fn neither_threads_nor_other_subjects_show_in_a_figure() {
    let folder = Folder::new();
    let one = league(&folder, "research/sed", &["--format", "csv", "--threads", "1"]);
    let two = league(&folder, "research/sed", &["--format", "csv", "--threads", "2"]);
    assert_eq!(one, two);
    let both = league(&folder, "research/sed,btrfs/rotation", &["--format", "csv"]);
    let without: Vec<&str> =
        both.lines().filter(|line| !line.contains(",btrfs/rotation,")).collect();
    assert_eq!(without, one.lines().collect::<Vec<&str>>());
}

#[test]
fn the_final_league_has_both_halves_and_other_seeds() {
    let folder = Folder::new();
    let design = league(&folder, "research/sed", &["--format", "csv"]);
    let both = league(&folder, "research/sed", &["--format", "csv", "--final"]);
    assert!(design.lines().skip(1).all(|line| line.contains(",design,")), "{design}");
    assert_eq!(both.lines().count(), 1 + 2 * 4 * 4, "{both}");
    assert!(both.contains(",design,") && both.contains(",held-out,"));
    let disks = |text: &str| -> Vec<String> {
        let is_theirs = |line: &&str| line.starts_with("equal-hdd,rand-4k-qd1,design,");
        text.lines().filter(is_theirs).map(str::to_owned).collect()
    };
    assert_eq!((disks(&design).len(), disks(&both).len()), (4, 4));
    assert_ne!(disks(&design), disks(&both), "seeds that no design saw");
}

#[test]
fn wrong_names_are_refused() {
    let folder = Folder::new();
    folder.refuses(&["league", "--arrays", "equal-hd"], &["did you mean `equal-hdd`?"]);
    folder.refuses(&["league", "--jobs", "seq-1"], &["the league has no job `seq-1`"]);
    folder.refuses(&["league", "--subject", "zfs/miror"], &["--subject:", "zfs/mirror"]);
    let two = ["league", "--ablation", "--subject", "btrfs/pid,zfs/mirror"];
    folder.refuses(&two, &["--ablation needs exactly one --subject policy"]);
    folder.refuses(&["league", "--seeds", "0"], &["--repeats", "a whole number from 1 to 100"]);
    folder.refuses(&["league", "--threads", "many"], &["a whole number from 1 to 1024"]);
    let itself = ["league", "--subject", "zfs/mirror", "--policy", "zfs/mirror"];
    folder.refuses(&itself, &["no rival is left", "--policy"]);
    let whole = ["league", "--ablation", "--subject", "btrfs/pid"];
    let parts = ["--ablation", "`btrfs/pid`", "no parameter `without`", "mirrorball/auto"];
    folder.refuses(&whole, &parts);
    folder.refuses(&["league", "--subject", "oracle"], &["the league adds it to every table"]);
    for (more, option) in [
        (&["--list"][..], "--list"),
        (&["--final", "--list"], "--list"),
        (&["--final", "--pairing", "2"], "--pairing"),
        (&["-n", "2", "--list"], "--list"),
        (&["--arrays", "equal-hdd", "--keep-rivals"], "--keep-rivals"),
        (&["--final", "-o", "y"], "--output"),
    ] {
        let message = format!("{option} has no effect without --sample");
        folder.refuses(&[&["league"], more].concat(), &[&message, "give --sample N"]);
    }
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

/// The first cells of each row of the tables in a text, with what `of` makes of the whole row.
fn rows<T>(text: &str, of: impl Fn(&[&str]) -> Option<T>) -> Vec<T> {
    let cells = |line: &str| -> Option<T> {
        let inner = line.strip_prefix("| ")?.strip_suffix(" |")?;
        of(&inner.split(" | ").map(str::trim).collect::<Vec<_>>())
    };
    text.lines().filter_map(cells).collect()
}

/// Each loss of the kept league has its row, and each row a cause that the page explains.
#[test]
fn every_loss_of_auto_has_its_cause() {
    let kept = kept(KEPT);
    let lists = kept.split("## ").filter(|part| part.starts_with("Where mirrorball/auto is worst"));
    let is_loss = |row: &[&str]| -> Option<String> {
        let (ratio, tail) = (row[4].parse::<f64>().ok()?, row[6].parse::<f64>().ok()?);
        (ratio < LEAST || tail > TAIL_MOST).then(|| format!("{} {}", row[0], row[1]))
    };
    let mut losses: Vec<String> = lists.flat_map(|list| rows(list, is_loss)).collect();
    let book = self::kept("league/results/auto-losses.md");
    let (causes, lines) = book.split_once("## Lines").unwrap();
    let mut explained = rows(lines, |row| {
        let is_explained = |name: &str| causes.contains(&format!("**{name}.**"));
        let is_head = row[0] == "array";
        assert!(is_head || row[2].split(", ").all(is_explained), "no such cause: {}", row[2]);
        (!is_head).then(|| format!("{} {}", row[0], row[1]))
    });
    losses.sort();
    explained.sort();
    assert_eq!(losses, explained, "league/results/auto-losses.md is of another league");
}

/// Repeats a corner of the kept league with the command in its file. Figures that have changed
/// must be marked as those of an earlier commit, and only those.
#[test]
fn the_kept_league_is_current_or_names_its_commit() {
    let kept = kept(KEPT);
    let command = kept.split('`').nth(1).unwrap().replace('\n', " ");
    let corner = ["--arrays", "equal-hdd,network", "--jobs", "rand-1m-qd8"];
    let arguments: Vec<&str> = command.split(' ').skip(1).chain(corner).collect();
    let output = stdout(&Folder::new().run(&arguments));
    let is_pairing = |line: &&str| line.contains(" | rand-1m-qd8 | ");
    let pairings: Vec<&str> = output.lines().filter(is_pairing).collect();
    assert_eq!(pairings.len(), 2, "{output}");
    let is_kept = |pairing: &&str| kept.lines().any(|line| line == *pairing);
    let is_current = pairings.iter().all(is_kept);
    let is_marked = kept.contains("The figures are those of commit");
    assert!(is_current || is_marked, "{KEPT}: run the league again, or name the commit");
}
