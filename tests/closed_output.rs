//! Output that is closed or full: the program does its work all the same, its exit codes are those
//! documented, and signals end it.

use crate::common::Folder;
use crate::common::samples::{ARRAY, JOB};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn folder() -> Folder {
    let folder = Folder::new();
    fs::write(folder.path("pair.toml"), ARRAY).unwrap();
    fs::write(folder.path("reader.fio"), JOB).unwrap();
    folder
}

/// A file that is always full.
fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

fn interrupt(mut program: Child) -> Option<i32> {
    let id = program.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(60) {
        if let Some(status) = program.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    program.kill().unwrap();
    panic!("the signal did not end the program");
}

#[test]
fn exit_codes_do_not_depend_on_output() {
    let folder = folder();
    let compare = ["compare", "pair.toml", "reader.fio", "-p", "pid", "-n", "1", "-d", "100ms"];
    for (arguments, code) in [
        (&[&compare[..], &["-o", "out", "--report"]].concat()[..], 0),
        (&["report", "out"], 0),
        (&["explain", "pair.toml", "reader.fio", "--at", "1ms"], 0),
        (&["report", "out", "nosuch", "--force"], 1),
        (&["check", "pair.toml", "nosuch.fio"], 2),
        (&["compare", "nosuch"], 2),
    ] {
        let status = folder.command(arguments).stdout(Stdio::null()).stderr(full()).status();
        assert_eq!(status.unwrap().code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn interrupted_comparison_exits_with_130() {
    let folder = folder();
    let words = ["compare", "pair.toml", "reader.fio", "-p", "pid", "-n", "1000", "-o", "out"];
    let program = folder.command(&words).stderr(full()).spawn().unwrap();
    let begin = Instant::now();
    while fs::read_dir(folder.path("out/cells")).map_or(0, Iterator::count) == 0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "nothing is saved");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(interrupt(program), Some(130));
}

/// As `mirrorball serve ... 2>&1 | tee log`, where Ctrl-C ends `tee` first.
#[test]
fn service_with_closed_stderr_stops_on_a_signal() {
    let folder = folder();
    let words = ["emulate", "hdd-7k2-desktop", "--size", "64M", "--export", "nbd:unix:socket"];
    let mut program = folder.command(&words).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(program.stderr.take().unwrap()).lines();
    assert!(lines.by_ref().map_while(Result::ok).any(|line| line == "ready"));
    drop(lines);
    assert_eq!(interrupt(program), Some(0));
    assert!(!folder.path("socket").exists(), "the socket is left");
}

#[test]
fn full_stdout_is_reported() {
    let folder = folder();
    let output = folder.command(&["policies"]).stdout(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.starts_with("error: cannot write to stdout: No space left"), "{message}");
}
