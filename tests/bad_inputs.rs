//! Inputs that are refused, each with the cause and the remedy: a row for each.

use crate::common::{Folder, stderr, stdout};
use std::fs;

/// Runs each command in a folder with files of many kinds. All of a row's parts are in its message.
fn refuses_each(rows: &[(&[&str], &[&str])]) {
    let folder = Folder::new();
    let pair = "[[member]]\nmodel = \"hdd-7k2-desktop\"\n".repeat(2);
    for (name, text) in [
        ("pair.toml", format!("profile = \"raid1\"\n{pair}")),
        ("foo.toml", format!("profile = \"raid1\"\n[source]\nsystem = \"foo\"\n{pair}")),
        (
            "uri.toml",
            format!("profile = \"raid1\"\n{}", "[[member]]\nuri = \"http://x\"\n".repeat(2)),
        ),
        ("profile.toml", "name = \"x\"\nsummary = \"x\"\nkind = \"hdd\"\n".to_owned()),
        ("of-text.toml", "profile = \"raid1\"\n[[member]]\nmodel = \"./x.toml\"\n".to_owned()),
        ("x.toml", "hello\n".to_owned()),
        ("x.txt", "hello\n".to_owned()),
        ("empty.json", "{}".to_owned()),
        ("versioned.json", "{\"schema_version\": 4}".to_owned()),
        ("plan.json", "{\n\"schema_version\": 4, \"jobs\": [{}]}".to_owned()),
        ("behind.fio", "[a]\nrw=randread\nbs=4k\noffset=100T\n".to_owned()),
        ("bare", "name = \"x\"\n".to_owned()),
        ("cut.json", "{\"fio version\": \"fio-3.33\", \"jobs\": [".to_owned()),
        ("sample/sample.json", "{}".to_owned()),
    ] {
        fs::create_dir_all(folder.path(name).parent().unwrap()).unwrap();
        fs::write(folder.path(name), text).unwrap();
    }
    for name in ["one.img", "two.img"] {
        fs::write(folder.path(name), [0xff; 4096]).unwrap();
    }
    for (arguments, parts) in rows {
        folder.refuses(arguments, parts);
    }
}

#[test]
fn empty_names_are_called_empty() {
    let unset = "check that the shell variable in its place is set";
    refuses_each(&[
        (&["compare", "", "rand-4k-qd1"], &["the name of the array is empty", unset]),
        (&["compare", "two-ssd-raid1", ""], &["the name of the job is empty", unset]),
        (&["explain", "", "rand-4k-qd1"], &["the name of the array is empty", unset]),
        (&["create", ""], &["the name of the array is empty", unset]),
        (&["check", ""], &["the name of the file is empty", unset]),
        (&["models", ""], &["the name of the model is empty", unset]),
        (&["recipe", ""], &["the name of the recipe is empty", unset]),
        (&["emulate", "", "-e", "nbd:unix:s"], &["the name of the model or array is empty", unset]),
    ]);
}

#[test]
fn files_of_another_kind_are_called_what_they_are() {
    let profile = "profile.toml:3:8: this is a model profile, not an array file";
    let members = ["profile = \"raid1\"", "[[member]] with a `path` for each device"];
    refuses_each(&[
        (&["check", "profile.toml"], &[profile, "model = \"profile.toml\""]),
        (&["compare", "profile.toml", "rand-4k-qd1"], &[profile]),
        (&["models", "profile.toml"], &["`mirrorball probe --model profile.toml` shows"]),
        (
            &["probe", "--model", "./pair.toml"],
            &["./pair.toml: this is an array file, not a model profile", "one disk"],
        ),
        (
            &["check", "of-text.toml"],
            &["of-text.toml:3:9: `./x.toml` is not a model profile: ", "x.toml:1:6: "],
        ),
        (&["create", "one.img"], &["one.img is not an array file", members[0], members[1]]),
        (&["create", "one.img", "two.img"], &["expected one array file", members[1]]),
        (&["compare", "one.img"], &["one.img is not a text file", "give an array file, in UTF-8"]),
        (&["recipe", "x.txt"], &["x.txt is a file, not a recipe", "a folder with `recipe.toml`"]),
        (&["check", "x.txt"], &["x.txt:1: unknown option `hello`", "is it a job file?"]),
        (&["report", "empty.json"], &["is JSON, but not a result of mirrorball\n  help: give a"]),
        (&["report", "versioned.json"], &["versioned.json is damaged: missing field `"]),
        (&["import", "fio", "empty.json", "-o", "out"], &["not output of fio", "json+"]),
        (
            &["import", "fio", "plan.json", "-o", "out"],
            &["plan.json was written by mirrorball, not by fio", "json+"],
        ),
        (
            &["import", "fio", "sample", "-o", "out"],
            &["cannot read sample", "for example sample/*.json"],
        ),
        (
            &["import", "fio", "empty.json", "-o", "sample"],
            &["sample holds results of `league --sample`", "another folder with -o"],
        ),
        (
            &["emulate", "delay", "--size", "64M", "--backing", "none", "-e", "fuse:x.txt"],
            &["cannot mount on `x.txt`: it is not a folder", "created if it is missing"],
        ),
    ]);
}

#[test]
fn what_is_not_there_is_named_with_what_to_give() {
    let uri = "help: write nbd://HOST/EXPORT";
    refuses_each(&[
        (&["compare", "zebra.toml"], &["zebra.toml: cannot read", "check the path; the built-in"]),
        (&["compare", "pair.toml", "zebra.fio"], &["check the path; the built-in jobs are"]),
        (&["create", "nosuch"], &["there is no file `nosuch`\n  help: give an array file whose"]),
        (&["create", "two-ssd-raid1"], &["`two-ssd-raid1` is a built-in array: its members are"]),
        (&["serve", "nosuch.toml", "-e", "nbd:unix:s"], &["\n  help: check the path\n"]),
        (&["import", "fio", "nosuch", "-o", "out"], &["cannot read nosuch", "check the path"]),
        (&["import", "fio", "cut.json", "-o", "out"], &["is cut off", "let it finish"]),
        (&["probe", "--model", "bare"], &["no built-in model `bare`", "write ./bare for the file"]),
        (&["probe", "--model", "./bare"], &["the key `kind` is missing\n  help: add a line"]),
        (&["policies", "btrfs/nosuch"], &["the policies of btrfs are btrfs/pid, btrfs/"]),
        (&["detect", "--sysroot", "x.txt"], &["x.txt is a file, not a folder"]),
        (&["serve", "nbd:", "-e", "nbd:unix:s"], &["is not the URI of an NBD export", uri]),
        (&["examine", "nbd:x"], &["`nbd:x` is not the URI of an NBD export", uri]),
        (
            &["emulate", "hdd-5k4", "--tls-certificates", "certs", "-e", "nbd:tcp:0"],
            &["`certs` for TLS: there is no such folder", "server-cert.pem and server-key.pem"],
        ),
        (&["league", "--sample", "3", "--pairing", "4"], &["a number from 1 to 3"]),
        (&["check", "foo.toml"], &["foo.toml: [source]: unknown system `foo`", "the systems are"]),
        (&["check", "uri.toml"], &["uri.toml:2: `http://x` is not the URI", uri]),
        (&["advise", "hdd-ssd-raid"], &["did you mean the built-in array `hdd-ssd-raid1`?"]),
        (&["models", "nvme-gen5"], &["did you mean `nvme-gen3` or `nvme-gen4`?"]),
        (&["advise", "--new", "2*hdd-7k2-4t"], &["did you mean `hdd-7k2-4tb`?"]),
        (
            &["compare", "two-hdd-raid1", "seq-read", "-p", "mine/mine.c"],
            &["`mirrorball program build mine/mine.c`", "program:mine/mine.wasm"],
        ),
    ]);
}

#[test]
fn texts_in_the_wrong_form_are_refused_with_the_right_one() {
    refuses_each(&[
        (
            &["compare", "pair.toml", "-p", "md/raid1,zfs/mirror", "--baseline", "pid"],
            &["--baseline: `btrfs/pid` is not one of the compared policies", "add it to --policy"],
        ),
        (
            &["compare", "--report", "pair.toml", "rand-4k-qd1"],
            &["'pair.toml' for '--report", "ends in .html", "may come last"],
        ),
        (
            &["compare", "pair.toml", "behind.fio"],
            &["job `a` begins at 100 TiB, but the volume of `pair.toml` has 1.8 TiB"],
        ),
        (
            &["explain", "pair.toml", "rand-4k-qd1", "--at", "60ms", "-d", "50ms"],
            &["the window starts at 60.0ms (--at), but the job ends"],
        ),
    ]);
}

#[test]
fn notes_say_what_is_assumed() {
    let folder = Folder::new();
    let source = "[source]\nsystem = \"btrfs\"\npolicy = \"foo\"\n";
    let pair = "[[member]]\nmodel = \"hdd-7k2-desktop\"\n".repeat(2);
    let text = format!("profile = \"raid1\"\n{source}{pair}");
    fs::write(folder.path("foo.toml"), text).unwrap();
    fs::write(folder.path("offset.fio"), "[a]\nrw=randread\nbs=4k\noffset=1g\n").unwrap();
    let short = ["-d", "50ms", "-n", "2", "-p", "first"];
    let zfs = "OpenZFS 99 is newer than OpenZFS 2.4, the newest version whose source was examined";
    for (arguments, note, printed) in [
        (&["policies", "--system", "zfs:99"][..], zfs, "zfs/mirror"),
        (&["policies", "--system", "spdk:9"], "no version of SPDK is known to differ", "spdk/"),
        (&["check", "foo.toml"], "note: foo.toml: the policy `foo` in [source]", "raid1 over 2"),
        (&["check", "offset.fio"], "", "over the volume from 1 GiB on"),
        (
            &[&["advise", "foo.toml", "rand-4k-qd1"][..], &short].concat(),
            "note: the policy in force, `foo`, is not known to Mirrorball",
            "btrfs/pid, the default: what is in force is not known",
        ),
    ] {
        let output = folder.run(arguments);
        assert!(stdout(&output).contains(printed), "{arguments:?}: {}", stdout(&output));
        assert!(stderr(&output).contains(note), "{arguments:?}: {}", stderr(&output));
    }
    let listing = folder.run(&["policies", "--system", "gmirror:1"]);
    assert!(stderr(&listing).contains("are known: from 5.3 on; name"), "{}", stderr(&listing));
    let examined = folder.run(&["examine", "."]);
    assert_eq!(examined.status.code(), Some(1));
    let help = "`.` is a folder\n  help: give the files and devices in it, for example ./*";
    assert!(stderr(&examined).contains(help), "{}", stderr(&examined));
}
