//! `mirrorball probe`: models in virtual time, and what it refuses.

use crate::common::{Folder, noise, stderr, stdout};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

#[test]
fn a_probed_model_becomes_a_profile_that_arrays_take() {
    let folder = Folder::new();
    let probe = ["probe", "--model", "hdd-15k", "-o", "disk.toml"];
    let said = stdout(&folder.run(&probe));
    for part in ["verdict: ", "rpm ", "15000", "measured", "random-tenth", "held out"] {
        assert!(said.contains(part), "no `{part}` in\n{said}");
    }
    let array = "profile = \"raid1\"\n[[member]]\nmodel = \"disk.toml\"\ncount = 2\n";
    std::fs::create_dir(folder.path("arrays")).unwrap();
    std::fs::write(folder.path("arrays/pair.toml"), array).unwrap();
    std::fs::copy(folder.path("disk.toml"), folder.path("arrays/disk.toml")).unwrap();
    let checked = stdout(&folder.run(&["check", "arrays/pair.toml"]));
    assert!(checked.contains("raid1 over 2 members"), "{checked}");
    folder.refuses(&probe, &["disk.toml already exists", "--force"]);
}

#[test]
fn json_has_the_whole_result() {
    let folder = Folder::new();
    let json = folder.run(&["probe", "--model", "hdd-15k", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&stdout(&json)).unwrap();
    assert_eq!(json["class"], "hdd");
    assert_eq!(json["parameters"][0]["name"], "rpm");
    assert_eq!(json["parameters"][0]["origin"], "measured");
    assert!(json["workloads"][0]["demerit_seconds"].is_number());
}

#[test]
fn outputs_are_refused_before_anything_is_measured() {
    let folder = Folder::new();
    // The target is missing, which would be an error of its own once it is opened.
    let probe = |more: &[&'static str]| [&["probe", "missing"], more].concat();
    let json = probe(&["--format", "json", "-o", "-"]);
    folder.refuses(&json, &["--format json and -o - both write to standard output"]);
    std::fs::write(folder.path("there"), "kept").unwrap();
    folder.refuses(&probe(&["-o", "there"]), &["there already exists", "--force"]);
}

#[test]
fn a_profile_on_standard_output_leaves_the_tables_to_standard_error() {
    let folder = Folder::new();
    let probed = folder.run(&["probe", "--model", "hdd-15k", "-o", "-"]);
    let profile = stdout(&probed);
    assert!(profile.contains("\nkind = \"hdd\"\n") && !profile.contains("demerit  of mean"));
    let said = stderr(&probed);
    assert!(said.starts_with("verdict: ") && said.contains("random-qd4"), "{said}");
}

#[test]
fn what_cannot_be_measured_is_refused_by_name() {
    let folder = Folder::new();
    folder.refuses(&["probe", "missing"], &["cannot probe `missing`: no such file or device"]);
    folder.refuses(&["probe", "."], &["cannot probe `.`: it is a folder", "help: name a block"]);
    let character_device = ["cannot probe `/dev/null`: it is a character device", "help: name a"];
    folder.refuses(&["probe", "/dev/null"], &character_device);
    // To open a FIFO would wait for a writer.
    let made = std::process::Command::new("mkfifo").arg(folder.path("fifo")).status().unwrap();
    assert!(made.success());
    folder.refuses(&["probe", "fifo"], &["cannot probe `fifo`: it is neither a file nor a block"]);
    std::fs::write(folder.path("small"), vec![1; 1 << 20]).unwrap();
    folder.refuses(&["probe", "small"], &["cannot probe `small`: it has 1 MiB", "256 MiB"]);
    let holes = std::fs::File::create(folder.path("holes")).unwrap();
    holes.set_len(1 << 30).unwrap();
    folder.refuses(&["probe", "holes"], &["the file has holes", "help: "]);
    folder.refuses(&["probe", "--model", "hdd-15"], &["no built-in model `hdd-15`", "hdd-15k"]);
    let neither = folder.run(&["probe"]);
    assert_eq!(neither.status.code(), Some(2), "{}", stderr(&neither));
}

/// Whether the signal comes before enough is measured depends on the machine.
#[test]
fn ctrl_c_ends_with_130_whether_or_not_it_leaves_a_profile() {
    let folder = Folder::new();
    std::fs::write(folder.path("disk.img"), noise(257 << 20)).unwrap();
    let mut command = folder.command(&["probe", "disk.img", "-o", "disk.toml"]);
    let mut run = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(run.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("at most 60 s, reads only") {
        if lines.read_line(&mut said).unwrap() == 0 {
            assert!(said.contains("its file system has no direct reads"), "{said}");
            assert_eq!(run.wait().unwrap().code(), Some(2));
            return;
        }
    }
    assert!(Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap().success());
    lines.read_to_string(&mut said).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130), "{said}");
    let is_written = folder.path("disk.toml").exists();
    assert_eq!(said.contains("wrote disk.toml"), is_written, "{said}");
    let why = ["no profile was written: ", "help: let the probe run for"];
    assert_eq!(why.iter().all(|part| said.contains(part)), !is_written, "{said}");
}
