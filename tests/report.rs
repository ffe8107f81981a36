//! `mirrorball report` as a page: what is in the file, and where it goes.

use crate::common::{Folder, stderr, stdout};
use std::fs;
use std::process::Output;

/// A folder with the results of a short comparison in `out`.
fn results() -> Folder {
    let folder = Folder::new();
    compare(&folder, &["-o", "out"]);
    folder
}

fn read(folder: &Folder, name: &str) -> String {
    fs::read_to_string(folder.path(name)).unwrap()
}

fn compare(folder: &Folder, more: &[&str]) -> String {
    let usual = ["compare", "two-delays-raid1", "rand-4k-qd32", "--policy", "pid,latency-rr"];
    let short = ["--duration", "1s", "--repeats", "2"];
    succeeds(&folder.run(&[&usual[..], &short, more].concat()))
}

/// Standard error of a run that succeeded.
fn succeeds(output: &Output) -> String {
    stdout(output);
    stderr(output)
}

#[test]
fn a_page_is_the_default() {
    let place = results();
    let output = place.run(&["report", "out"]);
    assert!(succeeds(&output).contains("the report is in report.html"));
    assert!(output.stdout.is_empty());
    let page = read(&place, "report.html");
    assert!(page.contains("mirrorball compare two-delays-raid1"), "what was run");
    assert!(page.len() < 1_000_000, "{} bytes for one job and two policies", page.len());
}

#[test]
fn the_same_results_make_the_same_page() {
    let place = results();
    succeeds(&place.run(&["report", "out", "-o", "one.html"]));
    succeeds(&place.run(&["report", "out", "-o", "two.html"]));
    assert!(read(&place, "one.html") == read(&place, "two.html"));
    assert!(compare(&place, &["-o", "out", "--report"]).contains("out/report.html"));
    assert!(read(&place, "one.html") == read(&place, "out/report.html"));
    compare(&place, &["-o", "out", "--report"]);
    compare(&place, &["-o", "out", "--report", "three.html"]);
    assert!(read(&place, "one.html") == read(&place, "three.html"));
}

#[test]
fn a_file_of_the_user_is_not_replaced_unasked() {
    let place = results();
    fs::write(place.path("report.html"), "mine").unwrap();
    place.refuses(&["report", "out"], &["report.html already exists", "--force"]);
    place.refuses(&["report", "nosuch"], &["nosuch"]);
    assert!(!stderr(&place.run(&["report", "nosuch"])).contains("report.html"));
    assert_eq!(read(&place, "report.html"), "mine");
    succeeds(&place.run(&["report", "out", "--force"]));
    assert!(read(&place, "report.html").starts_with("<!DOCTYPE html>"));
    // A page of ours is replaced by the next of its default name.
    succeeds(&place.run(&["report", "out"]));
    fs::copy(place.path("report.html"), place.path("named.html")).unwrap();
    place.refuses(&["report", "out", "-o", "named.html"], &["named.html already exists"]);
}

/// A limit on the size of files stands in for a full file system.
#[test]
fn a_page_that_cannot_be_written_leaves_the_folder_as_it_was() {
    let place = results();
    let limited = |arguments: &str| {
        let program = env!("CARGO_BIN_EXE_mirrorball");
        let script = format!("trap '' XFSZ; ulimit -f 8; exec '{program}' {arguments}");
        let mut shell = std::process::Command::new("bash");
        shell.args(["-c", &script]).current_dir(place.path(".")).output().unwrap()
    };
    fs::write(place.path("old.html"), "mine").unwrap();
    let before = place.contents(".");
    for arguments in ["report out -o new.html", "report out -o old.html --force"] {
        let output = limited(arguments);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains("cannot write"), "{}", stderr(&output));
        assert!(before == place.contents("."), "{arguments}: a file was changed");
    }
}

#[test]
fn a_hyphen_is_standard_output_and_force_needs_a_file() {
    let place = results();
    let output = place.run(&["report", "out", "-o", "-", "-f", "csv"]);
    assert!(stdout(&output).starts_with("array,job"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("the report is in") && !place.path("-").exists());
    let none = "--force has no effect without an output file\n  help: give -o FILE";
    place.refuses(&["report", "out", "-f", "table", "--force"], &[none]);
    place.refuses(&["report", "out", "-o", "-", "--force"], &[none]);
}

#[test]
fn a_device_and_the_target_of_a_link_are_written() {
    let place = results();
    let printed = place.run(&["report", "out", "-o", "/dev/stdout", "--force", "-f", "csv"]);
    assert!(stdout(&printed).starts_with("array,job"));
    fs::write(place.path("target.csv"), "old").unwrap();
    std::os::unix::fs::symlink("target.csv", place.path("link.csv")).unwrap();
    succeeds(&place.run(&["report", "out", "-o", "link.csv", "--force"]));
    assert!(read(&place, "target.csv").starts_with("array,job"));
    assert!(place.path("link.csv").is_symlink());
}

#[test]
fn the_ending_of_the_file_says_what_to_write() {
    let place = results();
    for (file, start) in
        [("a.html", "<!DOCTYPE html>"), ("a.csv", "array,job"), ("a.json", "{"), ("a.txt", "Use `")]
    {
        succeeds(&place.run(&["report", "out", "-o", file]));
        assert!(read(&place, file).starts_with(start), "{file}: {:.40}", read(&place, file));
    }
    place.refuses(
        &["report", "out", "-o", "a.pdf"],
        &["file name extension .pdf", ".html", ".md", "--format"],
    );
    succeeds(&place.run(&["report", "out", "-o", "a.log", "--format", "csv"]));
    assert!(read(&place, "a.log").starts_with("array,job"));
}
