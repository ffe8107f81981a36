//! Requests that `mirrorball bench` refuses before it runs anything, because it would measure, or
//! compare with, something else than what was meant.

use super::machine::Machine;
use crate::common::{stderr, stdout};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Exit code 2, these parts in the message, and nothing left.
fn refuses(machine: &Machine, arguments: &[&str], parts: &[&str]) {
    let output = machine.bench(arguments);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in parts {
        assert!(said.contains(part), "no `{part}` in\n{said}");
    }
    assert!(!said.contains("run 1 of"), "{said}");
    assert_eq!(machine.left(), Vec::<String>::new());
}

#[test]
fn a_label_of_two_file_systems_is_refused_with_both_named() {
    let machine = Machine::btrfs();
    let first = machine.read_policy().parent().unwrap().to_owned();
    let fsid = first.file_name().unwrap().to_str().unwrap().to_owned();
    let second = "11111111-2222-3333-4444-555555555555";
    assert!(stdout(&machine.bench(&["pool", "--plan"])).contains("3 jobs"));
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(&first).arg(first.with_file_name(second));
    assert!(copy.status().unwrap().success());
    let parts = ["pool stands for several arrays", &fsid, second, "at /srv/data", "help: give the"];
    refuses(&machine, &["pool", "--plan"], &parts);
    for name in [&fsid, "/srv/data"] {
        assert!(stdout(&machine.bench(&[name, "--plan"])).contains("3 jobs"), "{name}");
    }
}

/// fio would run without the scrub, under the name of a job with one.
#[test]
fn a_job_with_work_in_the_background_is_refused() {
    let parts = ["`rand-4k-qd1-scrub` declares work in the background", "help: bench runs fio"];
    refuses(&Machine::btrfs(), &["/srv/data", "rand-4k-qd1-scrub", "--plan"], &parts);
}

/// Restoring writes what a journal says.
#[test]
fn a_journal_that_another_user_may_have_written_is_not_restored() {
    let machine = Machine::btrfs();
    let journals = machine.path("var/lib/mirrorball/bench");
    std::fs::create_dir_all(&journals).unwrap();
    let journal = journals.join("pool.journal");
    let knob = "{\"knob\": {\"path\": \"/etc/passwd\", \"kind\": \"plain\"}, \"member\": [], \
                \"before\": \"root\", \"ours\": []}";
    let text = format!(
        "{{\"version\": 2, \"array\": \"pool\", \"identity\": [], \"boot_id\": \"\", \
         \"process\": 1, \"folder\": null, \"knobs\": [{knob}]}}"
    );
    std::fs::write(&journal, text).unwrap();
    let root = machine.path("").display().to_string();
    for (mode, part) in [
        (0o666, "another user may have written it"),
        (0o600, "it names `/etc/passwd`, which Mirrorball never sets"),
    ] {
        std::fs::set_permissions(&journal, std::fs::Permissions::from_mode(mode)).unwrap();
        let output = machine.folder.run(&["bench", "--restore", "--sysroot", &root]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(part), "no `{part}` in\n{}", stderr(&output));
        assert!(journal.exists());
    }
}
