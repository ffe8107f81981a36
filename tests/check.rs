//! `mirrorball check` as a user meets it.

use crate::common::{stderr, stdout};
use crate::compare::Place;
use std::fs::{self, File};
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
    place.refuses(&["check", "notes.txt"], &["notes.txt:1: the file has no job"]);
    place.write("reads.job", "; gr\u{fc}n\n[reads]\nsize=1g\n");
    assert!(stdout(&place.run(&["check", "reads.job"])).contains("files: 1 GiB at 0 bytes"));
    place.write("bad.fio", "[x]\nbs=4q\n");
    let output = place.run(&["check", "bad.fio", "job.fio"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("bad.fio:2"));
    assert!(String::from_utf8_lossy(&output.stdout).contains("job.fio"), "the others are checked");
}

/// Arrays with parity are simulated; on real members they are refused, before anything is written.
#[test]
fn parity_is_simulated_and_refused_on_real_members() {
    let place = Place::new();
    let text = stdout(&place.run(&["check", "five-hdd-raid6"]));
    let line = "raid6 over 5 members, layout md-raid6-left-symmetric with chunks of 512 KiB";
    assert!(text.contains(line), "{text}");
    let compared =
        ["compare", "five-hdd-raid6", "randrw-4k-70-30", "-p", "btrfs/pid", "--duration", "1s"];
    stdout(&place.run(&[&compared[..], &["--repeats", "1", "--format", "csv"]].concat()));
    let mut members = String::new();
    for name in ["a.img", "b.img", "c.img"] {
        members += &format!("[[member]]\npath = \"{name}\"\n");
        File::create(place.path(name)).unwrap().set_len(24 << 20).unwrap();
    }
    place.write("raid5.toml", &format!("profile = \"raid5\"\n{members}"));
    let (why, help) = ("parity is simulated and emulated, not served", "mdadm --create");
    place.refuses(&["create", "raid5.toml"], &["raid5: ", why, help, "such as raid1"]);
    assert!(std::fs::read(place.path("a.img")).unwrap().iter().all(|&byte| byte == 0));
    place.write("md.toml", &format!("layout = \"md-raid5\"\n{members}"));
    place.refuses(&["create", "md.toml"], &["raid5: ", why]);
    place.write("wide.toml", "layout = \"md-raid6\"\n[[member]]\nmodel = \"hdd-5k4\"\ncount = 3\n");
    place.refuses(&["check", "wide.toml"], &["needs at least 4 members, but the array has 3"]);
    place.write(
        "odd.toml",
        "layout = \"md-raid5\"\nchunk = \"96K\"\n[[member]]\nmodel = \"hdd-5k4\"\n",
    );
    place.refuses(&["check", "odd.toml"], &["a chunk of 96 KiB is not possible", "64K"]);
}

/// `compare` says what it did; `emulate`, which keeps data, has none.
#[test]
fn a_cache_in_front_of_the_array_is_simulated_and_not_emulated() {
    let place = Place::new();
    let cached = "profile = \"raid1\"\n[cache]\nmodel = \"nvme-gen3\"\nsize = \"16GiB\"\n\
                  warm = \"50%\"\n[[member]]\nmodel = \"hdd-5k4\"\ncount = 2\n";
    place.write("cached.toml", cached);
    let text = stdout(&place.run(&["check", "cached.toml"]));
    let line = "\n  in front of the array: writethrough cache of 16 GiB on nvme-gen3\n";
    assert!(text.contains(line), "{text}");
    let compared = ["compare", "cached.toml", "rand-4k-qd1", "-p", "btrfs/pid"];
    let text = stdout(&place.run(&[&compared[..], &["-n", "1", "--duration", "1s"]].concat()));
    assert!(text.contains("cache in front of the array: "), "{text}");
    let emulated = ["emulate", "cached.toml", "--backing", "none", "--export", "nbd:unix:socket"];
    let refusal = "cached.toml: `[cache]`, a cache in front of the whole array, can only be";
    let help = "help: remove `[cache]`, or give members a `cache` of their own";
    place.refuses(&emulated, &[refusal, help]);
    place.refuses(&[&emulated[..], &["--members"]].concat(), &[refusal, help]);
    place.write(
        "real.toml",
        "profile = \"single\"\n[cache]\nmodel = \"nvme-gen3\"\n[[member]]\npath = \"a\"\n",
    );
    let refusal = "real.toml:2:1: `[cache]` is a model, but the array has real members";
    place.refuses(&["create", "real.toml"], &[refusal]);
}

/// As `create` and `serve` do, which would refuse these members.
#[test]
fn members_that_cannot_be_used_are_refused() {
    let place = Place::new();
    let pair = "profile = \"raid1\"\n[[member]]\npath = \"a.img\"\n[[member]]\npath = \"b.img\"\n";
    place.write("pair.toml", pair);
    let bytes = |name, bytes| File::create(place.path(name)).unwrap().set_len(bytes).unwrap();
    bytes("a.img", 24 << 20);
    let missing =
        "pair.toml:4: cannot open the member b.img: No such file or directory (os error 2)";
    place.refuses(&["check", "pair.toml"], &[missing, "\n  help: correct `path`, which"]);
    fs::create_dir(place.path("b.img")).unwrap();
    let folder =
        "pair.toml:4: cannot open the member b.img: is a directory\n  help: give a file in the";
    place.refuses(&["check", "pair.toml"], &[folder]);
    fs::remove_dir(place.path("b.img")).unwrap();
    bytes("b.img", 100 << 10);
    let small =
        "pair.toml:4: b.img (devid 2) has 100 KiB, but a member needs at least 1.1 MiB\n  help";
    place.refuses(&["check", "pair.toml"], &[small]);
    bytes("b.img", 24 << 20);
    assert_eq!(place.run(&["check", "pair.toml"]).status.code(), Some(0));
    place.write("range.toml", &format!("{pair}begin = \"8M\"\nsize = \"20M\"\n"));
    place.refuses(&["check", "range.toml"], &["b.img has 24 MiB, but the `begin` and `size`"]);
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
