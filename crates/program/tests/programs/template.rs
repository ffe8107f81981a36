//! The files of a new policy: its test runs on this machine, and fails if the policy is wrong.

use crate::common::toolchain;
use mirrorball_program::template::files;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Writes the files of a new policy; returns their folder.
fn new_policy(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("template-{name}"));
    fs::create_dir_all(&folder).unwrap();
    for file in files(name) {
        fs::write(folder.join(file.name), file.text).unwrap();
    }
    folder
}

/// Compiles the test as the Makefile does, with clang, and runs it.
fn run_test(folder: &Path, name: &str) -> Output {
    let makefile = fs::read_to_string(folder.join("Makefile")).unwrap();
    let line = makefile.lines().find_map(|line| line.strip_prefix("\t$(CC) ")).unwrap();
    let mut clang = Command::new("clang");
    clang.args(line.split_whitespace()).args(["-Wextra", "-Werror"]);
    let compiled = clang.current_dir(folder).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Command::new(folder.join(format!("{name}_test"))).output().unwrap()
}

#[test]
fn the_test_of_a_new_policy_runs_on_this_machine() {
    if toolchain().is_none() {
        return;
    }
    let folder = new_policy("fresh");
    let done = run_test(&folder, "fresh");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(String::from_utf8_lossy(&done.stdout), "all is as expected\n");
    // A policy that ignores queues fails it.
    let source = folder.join("fresh.c");
    let text = fs::read_to_string(&source).unwrap();
    let without_queue = text.replace(" * (mb_in_flight(m) + 1)", "");
    assert_ne!(text, without_queue);
    fs::write(&source, without_queue).unwrap();
    let failed = run_test(&folder, "fresh");
    let message = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(1), "{message}");
    let expected = "fresh_test.c:33: not so: mb_op_choose(&mb_context) == 0\n";
    assert_eq!(message, expected);
}

/// Found by a trial: the warning was about an argument that the source does not show.
#[test]
fn a_policy_may_ignore_what_it_is_shown() {
    let Some(toolchain) = toolchain() else { return };
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ignores.c");
    let text = "#include \"mirrorball_policy.h\"\nMB_PROGRAM(\"ignores\", \"1\", \"\", \"\");\n\
                MB_CHOOSE(c) { return 0; }\nMB_SUBMIT(e) {}\nMB_COMPLETE(e) {}\n";
    fs::write(&source, text).unwrap();
    assert_eq!(toolchain.compile(&source).unwrap().warnings, "");
}
