//! `mirrorball emulate --export ublk`: a block device where the kernel can make one, and elsewhere
//! a word on what is missing.
//!
//! Where the kernel has no ublk driver the device itself is skipped, saying so;
//! `benches/ublk-in-qemu.sh` shows it on a kernel that has.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod support;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{Folder, stderr, stdout};

const DISK: [&str; 8] =
    ["emulate", "ssd-sata-consumer", "--size", "64M", "--backing", "disk.img", "--export", "ublk"];

#[test]
fn what_is_missing_is_told() {
    let folder = Folder::new();
    let help = stdout(&folder.run(&["emulate", "--help"]));
    assert!(help.contains("--members --export ublk"), "{help}");
    let emulate = ["emulate", "ssd-sata-consumer", "--export", "ublk", "--export"];
    folder.refuses(&[&emulate[..], &["ublk"]].concat(), &["ublk", "once"]);
    folder.refuses(&[&emulate[..], &["ublk:0"]].concat(), &["or ublk"]);
    if Path::new("/dev/ublk-control").exists() {
        return;
    }
    // Nothing else is begun that would be left behind.
    let output = folder.run(&[&emulate[..], &["nbd:unix:socket"]].concat());
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    for part in ["/dev/ublk-control", "modprobe ublk_drv", "fuse:DIR --loop"] {
        assert!(message.contains(part), "no `{part}` in {message}");
    }
    assert!(output.stdout.is_empty() && !folder.path("socket").exists());
}

#[test]
fn a_block_device_keeps_what_is_written() {
    if !Path::new("/dev/ublk-control").exists() {
        eprintln!("skipped: this kernel has no ublk driver (benches/ublk-in-qemu.sh brings one)");
        return;
    }
    let folder = Folder::new();
    let mut process = folder.command(&DISK).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let told = lines.find_map(|line| line.unwrap().split_once(" bytes at ").map(|it| it.1.into()));
    let path: String = told.expect("it says where");
    let device = File::options().read(true).write(true).open(&path).unwrap();
    device.write_all_at(&[0x5a; 1 << 20], 1 << 20).unwrap();
    device.sync_all().unwrap();
    drop(device);
    let image = std::fs::read(folder.path("disk.img")).unwrap();
    assert!(image[1 << 20..][..1 << 20].iter().all(|&byte| byte == 0x5a));
    let id = process.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(process.wait().unwrap().code(), Some(0));
    assert!(!Path::new(&path).exists(), "it tidies up");
}
