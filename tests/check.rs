//! `mirrorball check` as a user meets it.

use crate::common::{stderr, stdout};
use crate::compare::Place;
use std::process::Command;

#[test]
fn check_prints_a_summary_of_each_file_and_every_error() {
    let place = Place::new();
    let text = stdout(&place.run(&["check", "pair.toml", "job.fio"]));
    for part in ["raid1 over 2 members", "devid 2: hdd-7k2-desktop", "random reads of 4 KiB"] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    let text = stdout(&place.run(&["check", "two-hdd-raid1", "rand-4k-qd1"]));
    assert!(text.contains("raid1 over 2 members"), "{text}");
    assert!(text.ends_with("every job fits every array\n"), "{text}");
    place.refuses(&["check", "two-hd-raid1"], &["did you mean `two-hdd-raid1`?"]);
    place.refuses(&["check", "zebra"], &["there is no such file, and no built-in", "rand-4k-qd1"]);
    place.refuses(&["check", "."], &["cannot check .: it is a folder", "for example ./*.toml"]);
    place.write("notes.txt", "");
    place.refuses(&["check", "notes.txt"], &["its name ends neither in .toml", "rename it"]);
    place.write("bad.fio", "[x]\nbs=4q\n");
    let output = place.run(&["check", "bad.fio", "job.fio"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("bad.fio:2"));
    assert!(String::from_utf8_lossy(&output.stdout).contains("job.fio"), "the others are checked");
}

#[test]
#[cfg(target_os = "linux")]
fn what_has_no_end_is_refused() {
    let place = Place::new();
    for name in ["endless.toml", "endless.fio"] {
        std::os::unix::fs::symlink("/dev/zero", place.path(name)).unwrap();
        // It would read until memory is full.
        let limited = format!("ulimit -v 2000000; exec \"$0\" check {name}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &limited, env!("CARGO_BIN_EXE_mirrorball")]);
        let output = shell.current_dir(place.path(".")).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains("larger than 4 MiB"), "{output:?}");
    }
}
