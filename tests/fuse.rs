//! `mirrorball emulate` as files in a folder and as loop devices, used by other programs.
//!
//! Skipped where the kernel has no FUSE; the parts for loop devices also where the user is not
//! root.

use crate::common::external::{self, skip_unless};
use crate::common::service::{Service, wait_until};
use crate::common::{Folder, noise};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

const DISK: [&str; 7] =
    ["emulate", "ssd-sata-consumer", "--size", "64M", "--backing", "disk.img", "--export"];

fn has_fuse() -> bool {
    skip_unless(Path::new("/dev/fuse").exists(), "this kernel has no /dev/fuse")
}

fn has_loop_devices() -> bool {
    let is_there = File::options().write(true).open("/dev/loop-control").is_ok();
    skip_unless(is_there, "no right to make loop devices, or none in this kernel") && has_fuse()
}

/// Runs fio with checksums on a file or device; does nothing if fio is not installed.
fn fio_verify(file: &Path, folder: &Folder) {
    let name = format!("--filename={}", file.display());
    let target = ["--ioengine=libaio", "--direct=1", "--size=16m", "--fsync=64", &name];
    external::fio_verify(&folder.path("."), &target);
}

#[test]
fn file_keeps_its_data_after_a_kill() {
    if !has_fuse() {
        return;
    }
    let folder = Folder::new();
    let arguments = [&DISK[..], &["fuse:mount"]].concat();
    let server = Service::start(&folder, &arguments);
    let path = folder.path("mount/volume");
    // `create` truncates files, but not this one.
    let file = File::create(&path).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 64 << 20);
    fio_verify(&path, &folder);
    let data = noise(3 << 20);
    file.write_all_at(&data, 1 << 20).unwrap();
    file.sync_all().unwrap();
    let reader = File::open(&path).unwrap();
    let mut part = vec![0; 1_234_567];
    reader.read_exact_at(&mut part, (1 << 20) + 89).unwrap();
    assert!(part == data[89..][..part.len()], "reads may begin and end anywhere");
    assert_eq!(reader.read_at(&mut part, (64 << 20) - 5).unwrap(), 5, "a file ends");
    // Parts of blocks; bytes around them must not change. The kernel splits the long one.
    let patch = &data[1000..2_000_123];
    let mut expected = vec![0; 80 + patch.len()];
    reader.read_exact_at(&mut expected, 10 << 20).unwrap();
    expected[70..74].copy_from_slice(b"word");
    expected[77..][..patch.len()].copy_from_slice(patch);
    file.write_all_at(patch, (10 << 20) + 77).unwrap();
    file.write_all_at(b"word", (10 << 20) + 70).unwrap();
    let mut back = vec![0; expected.len()];
    reader.read_exact_at(&mut back, 10 << 20).unwrap();
    assert!(back == expected);
    let refusal = file.write_at(&[1; 512], 64 << 20).unwrap_err().kind();
    assert_eq!(refusal, ErrorKind::StorageFull);
    let hole = ["--punch-hole", "--offset", "2MiB", "--length", "1MiB"];
    assert!(Command::new("fallocate").args(hole).arg(&path).status().unwrap().success());
    drop((file, reader));
    server.stop("-KILL");
    let dead = fs::read_dir(folder.path("mount")).unwrap_err().kind();
    assert_eq!(dead, ErrorKind::NotConnected, "a killed service cannot unmount");

    let server = Service::start(&folder, &arguments);
    assert!(server.lines.iter().any(|line| line.contains("unmounted")), "{:?}", server.lines);
    let mut back = vec![9; data.len()];
    File::open(&path).unwrap().read_exact_at(&mut back, 1 << 20).unwrap();
    assert!(back[..1 << 20] == data[..1 << 20] && back[2 << 20..] == data[2 << 20..]);
    assert!(back[1 << 20..2 << 20].iter().all(|&byte| byte == 0), "the hole is a hole");
    assert_eq!(server.stop("-TERM"), Some(0));
    assert_eq!(fs::read_dir(folder.path("mount")).unwrap().count(), 0, "it tidies up");
}

#[test]
fn loop_device_is_attached_and_detached() {
    if !has_loop_devices() {
        return;
    }
    let folder = Folder::new();
    let arguments = [&DISK[..], &["fuse:mount", "--loop"]].concat();
    let server = Service::start(&folder, &arguments);
    let first = server.device().to_owned();
    fio_verify(Path::new(&first), &folder);
    server.stop("-KILL");

    let server = Service::start(&folder, &arguments);
    let says = |part: &str| server.lines.iter().any(|line| line.contains(part));
    assert!(says(&format!("detached {first}")) && says("unmounted"), "{:?}", server.lines);
    let data = noise(1 << 20);
    let device = File::options().write(true).open(server.device()).unwrap();
    device.write_all_at(&data, 5 << 20).unwrap();
    device.sync_all().unwrap();
    drop(device);
    let mut back = vec![0; data.len()];
    File::open(folder.path("mount/volume")).unwrap().read_exact_at(&mut back, 5 << 20).unwrap();
    assert!(back == data);
    let name = server.device().strip_prefix("/dev/").unwrap().to_owned();
    // Dirty pages are written when the device is detached.
    assert_eq!(server.stop("-INT"), Some(0));
    let backing = Path::new("/sys/block").join(name).join("loop/backing_file");
    let left = fs::read_to_string(backing).unwrap_or_default();
    assert!(!left.contains(&folder.path("mount").display().to_string()), "{left}");
    let image = fs::read(folder.path("disk.img")).unwrap();
    assert!(image[5 << 20..][..data.len()] == data[..]);
}

/// The result of a discard on a remote member is unknown.
#[test]
fn holes_read_as_zeroes_with_any_member() {
    if !has_fuse() {
        return;
    }
    let folder = Folder::new();
    let peer = Service::start(&folder, &[&DISK[..], &["nbd:unix:peer"]].concat());
    File::create(folder.path("local.img")).unwrap().set_len(64 << 20).unwrap();
    let uri = folder.nbd_uri("peer");
    let members = format!("[[member]]\nuri = \"{uri}\"\n[[member]]\npath = \"local.img\"\n");
    fs::write(folder.path("pair.toml"), format!("profile = \"raid1\"\n{members}")).unwrap();
    folder.create("pair.toml");
    let serve = ["serve", &uri, "local.img", "--control", "control", "--export", "fuse:mount"];
    let server = Service::start(&folder, &serve);
    wait_until("equal mirrors", || folder.ctl(&["status"]).contains("in sync"));
    let written = || {
        let members = folder.ctl(&["members", "--format", "json"]);
        let members: serde_json::Value = serde_json::from_str(&members).unwrap();
        members[0]["written_bytes"].as_u64().unwrap()
    };
    let path = folder.path("mount/volume");
    let file = File::options().read(true).write(true).open(&path).unwrap();
    file.write_all_at(&noise(8 << 20), 0).unwrap();
    let before = written();
    let hole = ["--punch-hole", "--offset", "1MiB", "--length", "5MiB"];
    assert!(Command::new("fallocate").args(hole).arg(&path).status().unwrap().success());
    // But for metadata, which may come at any time.
    assert!(written() - before < 1 << 16, "the peer is asked to write zeroes");
    let mut back = vec![9; 8 << 20];
    file.read_exact_at(&mut back, 0).unwrap();
    let mut expected = noise(8 << 20);
    expected[1 << 20..6 << 20].fill(0);
    assert!(back == expected);
    drop(file);
    assert_eq!(server.stop("-TERM"), Some(0));
    assert_eq!(peer.stop("-TERM"), Some(0));
}

#[test]
fn members_are_files_and_wrong_use_is_refused() {
    let folder = Folder::new();
    fs::create_dir(folder.path("full")).unwrap();
    fs::write(folder.path("full/precious"), "precious").unwrap();
    let emulate = ["emulate", "two-delays-raid1", "--members", "--backing", "none", "--export"];
    let with = |more: &[&'static str]| [&emulate[..], more].concat();
    folder.refuses(&with(&["fuse:"]), &["fuse:DIR"]);
    folder.refuses(&with(&["nbd:unix:socket", "--loop"]), &["--loop", "fuse:DIR"]);
    folder.refuses(&with(&["fuse:a", "--export", "fuse:b"]), &["once"]);
    if !has_fuse() {
        return;
    }
    folder.refuses(&with(&["fuse:full"]), &["is not empty"]);
    let server = Service::start(&folder, &with(&["fuse:mount"]));
    let entries = fs::read_dir(folder.path("mount")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["member-1", "member-2"]);
    let second = folder.command(&with(&["fuse:mount"])).output().unwrap();
    let message = String::from_utf8_lossy(&second.stderr);
    assert!(second.status.code() == Some(2) && message.contains("another server"), "{message}");
    assert_eq!(server.stop("-TERM"), Some(0));
}
