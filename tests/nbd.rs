//! `mirrorball emulate` and `mirrorball serve` with NBD clients of other projects.
//!
//! `nbdinfo` and `nbdcopy` (libnbd), `qemu-img` and fio's nbd engine attach to a running server.
//! Tests of a client that is not installed are skipped, unless `CI` is `true`; `./test` installs
//! them.

mod holes;

use crate::common::nbd_client::NbdClient;
use crate::common::service::Service;
use crate::common::{Folder, external, noise};
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Output;

const PAIR: &str = "profile = \"raid1\"\n[[member]]\npath = \"a.img\"\n[[member]]\n\
                    path = \"b.img\"\n";
/// Size of the unused start of a member.
const RESERVED_BYTES: u64 = 1 << 20;

/// A folder, and the service that runs in it.
struct Place {
    folder: Folder,
    service: Option<Service>,
}

impl Place {
    fn new() -> Place {
        Place { folder: Folder::new(), service: None }
    }

    /// A place with the volume `pair` on two images, and its array file.
    fn with_pair() -> Place {
        let place = Place::new();
        fs::write(place.path("pair.toml"), PAIR).unwrap();
        for name in ["a.img", "b.img"] {
            File::create(place.path(name)).unwrap().set_len(64 << 20).unwrap();
        }
        place.folder.create("pair.toml");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path(name)
    }

    /// Starts a service that exports `socket`.
    fn start(&mut self, arguments: &[&str]) {
        let common = ["--export", "nbd:unix:socket", "--control", "control"];
        self.service = Some(Service::start(&self.folder, &[arguments, &common].concat()));
    }

    fn uri(&self) -> String {
        self.folder.nbd_uri("socket")
    }

    fn ctl(&self, arguments: &[&str]) -> String {
        self.folder.ctl(arguments)
    }

    fn stop(&mut self, signal: &str) -> Option<i32> {
        self.service.take().unwrap().stop(signal)
    }

    /// Asserts that both images hold the same volume.
    fn assert_alike(&self) {
        let [first, second] = ["a.img", "b.img"].map(|name| fs::read(self.path(name)).unwrap());
        let begin = RESERVED_BYTES as usize;
        assert!(first[begin..] == second[begin..], "the mirrors differ");
    }

    fn client(&self, program: &str, arguments: &[&str]) -> Option<String> {
        external::run(&self.folder.path("."), program, arguments)
    }
}

/// Writes pseudo-random bytes to `path`.
fn write_noise(path: &Path, bytes: usize) {
    fs::write(path, noise(bytes)).unwrap();
}

fn fio_verify(folder: &Path, uri: &str) -> bool {
    let uri = format!("--uri={uri}");
    external::fio_verify(folder, &["--ioengine=nbd", &uri, "--size=32m", "--fsync=64"])
}

#[test]
fn public_clients_copy_to_a_volume_and_back() {
    let mut place = Place::with_pair();
    place.start(&["serve", "a.img", "b.img", "--policy", "round-robin"]);
    let uri = place.uri();
    // nbdinfo calls `file` for the content; without it, it prints uninitialised memory.
    if let Some(info) = place.client("nbdinfo", &["--no-content", "--json", &uri]) {
        for part in ["\"can_multi_conn\": true", "\"base:allocation\"", "\"export-size\": 66"] {
            assert!(info.contains(part), "no {part} in {info}");
        }
    }
    let size_bytes = 65_994_752;
    write_noise(&place.path("noise.img"), size_bytes);
    let copied = place.client("nbdcopy", &["--flush", "noise.img", &uri]);
    if copied.is_some() {
        place.client("nbdcopy", &[&uri, "back.img"]);
        let [noise, back] = ["noise.img", "back.img"].map(|n| fs::read(place.path(n)).unwrap());
        assert!(noise == back[..size_bytes]);
        place.assert_alike();
        let first = fs::read(place.path("a.img")).unwrap();
        assert!(first[RESERVED_BYTES as usize..][..size_bytes] == noise[..]);
    }
    if place.client("qemu-img", &["convert", "-n", "-f", "raw", "noise.img", &uri]).is_some() {
        place.client("qemu-img", &["compare", "-f", "raw", "-F", "raw", "noise.img", &uri]);
    }
    assert_eq!(place.stop("-TERM"), Some(0));
    assert!(!place.path("socket").exists(), "it removes its socket");
}

/// fio writes with checksums and reads back, while the policy is changed repeatedly.
#[test]
fn no_request_is_lost_while_the_policy_changes() {
    let mut place = Place::with_pair();
    place.start(&["serve", "a.img", "b.img", "--buffered"]);
    let (folder, uri) = (place.path("."), place.uri());
    let fio = std::thread::spawn(move || fio_verify(&folder, &uri));
    for policy in ["latency-rr", "round-robin:256K", "read-all-first", "pid"].repeat(10) {
        assert!(place.ctl(&["policy", policy]).starts_with("policy changed from "));
    }
    fio.join().unwrap();
    assert!(place.ctl(&["status"]).contains("in sync"));
    assert_eq!(place.stop("-INT"), Some(0));
}

/// The second export address is taken, so the service fails to start.
#[test]
fn failed_start_leaves_no_socket() {
    let place = Place::with_pair();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = format!("nbd:tcp:{}", taken.local_addr().unwrap().port());
    for (other, code) in [(tcp.as_str(), 2), ("fuse:pair.toml/x", 1)] {
        let exports = ["-e", "nbd:unix:socket", "-e", other, "--control", "control"];
        let output = place.folder.run(&[&["serve", "a.img", "b.img"], &exports[..]].concat());
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{message}");
        assert!(message.contains("error: cannot"), "{message}");
        for name in ["socket", "control"] {
            assert!(!place.path(name).exists(), "{name} is left: {message}");
        }
    }
}

#[test]
fn emulated_disk_keeps_its_data_after_a_kill() {
    let mut place = Place::new();
    let disk = ["emulate", "ssd-sata-consumer", "--size", "64M", "--backing", "disk.img"];
    place.start(&disk);
    write_noise(&place.path("noise.img"), 8 << 20);
    let copied = place.client("nbdcopy", &["noise.img", &place.uri()]).is_some();
    let stats = place.ctl(&["stats"]);
    assert!(!copied || stats.contains("lateness"), "{stats}");
    place.stop("-KILL");
    assert!(place.path("socket").exists(), "a killed service cannot remove its socket");
    place.start(&disk);
    if copied {
        let uri = place.uri();
        place.client("nbdcopy", &[&uri, "back.img"]);
        let [noise, back] = ["noise.img", "back.img"].map(|n| fs::read(place.path(n)).unwrap());
        assert!(noise == back[..noise.len()]);
    }
    assert_eq!(place.stop("-TERM"), Some(0));
}

/// The user's file is not used as backing file, or changed, without consent.
#[test]
fn backing_files_of_others_need_occupied() {
    let mut place = Place::new();
    let emulate = |size, file| {
        ["emulate", "delay", "--size", size, "--backing", file, "-e", "nbd:unix:socket"]
    };
    write_noise(&place.path("photos.tar"), 2 << 20);
    let before = fs::read(place.path("photos.tar")).unwrap();
    place.folder.refuses(&emulate("64M", "photos.tar"), &["2097152 bytes", "--occupied"]);
    place.folder.refuses(&emulate("2M", "photos.tar"), &["holds data", "--occupied"]);
    assert!(fs::read(place.path("photos.tar")).unwrap() == before);
    place.start(&[&emulate("2M", "photos.tar")[..6], &["--occupied"]].concat());
    let uri = place.uri();
    if place.client("nbdcopy", &[&uri, "copy.tar"]).is_some() {
        assert!(fs::read(place.path("copy.tar")).unwrap() == before);
    }
    assert_eq!(place.stop("-TERM"), Some(0));
}

/// At a thousand times the speed every disk is late; one without I/O has no lateness.
#[test]
fn figures_of_a_host_that_was_late_are_refused() {
    let mut place = Place::new();
    place.start(&["emulate", "delay", "--size", "64M", "--speed", "1000x", "--check"]);
    let check = |place: &Place| {
        let stats = ["ctl", "--control", "control", "stats", "--check"];
        let output = place.folder.command(&stats).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(check(&place).0, Some(0));
    write_noise(&place.path("noise.img"), 1 << 20);
    if place.client("nbdcopy", &["noise.img", &place.uri()]).is_none() {
        return;
    }
    let (code, text) = check(&place);
    assert!(
        code == Some(1) && text.contains("measured times are invalid: lateness p99"),
        "{code:?} {text}"
    );
    assert!(text.contains("above the limit of 150ns"), "{text}");
    assert!(place.ctl(&["stats"]).contains("invalid"), "also without --check");
    assert!(
        place.ctl(&["stats", "--reset"]).contains("invalid"),
        "figures are printed before they are cleared"
    );
    let (code, text) = check(&place);
    assert!(code == Some(0) && !text.contains(" wait:"), "{code:?} {text}");
    assert!(text.contains("(1048576 bytes)"), "counters go on: {text}");
    place.client("nbdcopy", &["noise.img", &place.uri()]);
    assert_eq!(place.stop("-TERM"), Some(1));
}

/// `dm/io-affinity` chooses by the CPU, and each connection counts as one.
#[test]
fn each_connection_is_a_cpu_for_policies() {
    let mut place = Place::new();
    let emulate = ["emulate", "two-delays-raid1", "--backing", "none"];
    place.start(&[&emulate[..], &["--policy", "dm/io-affinity"]].concat());
    let mut clients = [(); 2].map(|()| NbdClient::connect(&place.folder, "socket"));
    for client in &mut clients {
        (0..8).for_each(|block| drop(client.read(block * 4096, 4096)));
    }
    let members: serde_json::Value =
        serde_json::from_str(&place.ctl(&["members", "--format", "json"])).unwrap();
    assert_eq!([&members[0]["reads"], &members[1]["reads"]], [8, 8], "{members}");
}

#[test]
fn members_are_exported_separately() {
    let mut place = Place::new();
    fs::create_dir(place.path("disks")).unwrap();
    place.start(&["emulate", "two-delays-raid1", "--members", "--backing", "none"]);
    let uri = format!("nbd+unix:///member-2?socket={}", place.path("socket").display());
    if let Some(info) = place.client("nbdinfo", &["--no-content", &uri]) {
        assert!(info.contains("member-2"), "{info}");
    }
}

#[test]
fn refusals_say_what_to_do() {
    let place = Place::with_pair();
    let refused = |arguments: &[&str], code, parts: &[&str]| {
        let output = place.folder.command(arguments).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        for part in parts {
            assert!(message.contains(part), "{arguments:?}: no `{part}` in {message}");
        }
    };
    let export = ["--export", "nbd:unix:socket"];
    let array = "`pair.toml` is an array file, and volumes are served by the labels of their";
    let help =
        ["with `mirrorball create pair.toml`, which destroys", "`mirrorball serve a.img b.img`"];
    refused(&[&["serve", "pair.toml"], &export[..]].concat(), 2, &[array, help[0], help[1]]);
    let emulate = "`mirrorball emulate` serves disk models";
    refused(&[&["serve", "two-hdd-raid1"], &export[..]].concat(), 2, &[emulate]);
    refused(&["serve", "a.img", "b.img", "--export", "unix:x"], 2, &["nbd:unix:PATH"]);
    refused(&["serve", "a.img", "b.img"], 2, &["--export"]);
    let image = File::options().write(true).open(place.path("a.img")).unwrap();
    image.set_len(1 << 20).unwrap();
    let small = ["a.img` (devid 1) has 1 MiB, but a member needs", "`truncate -s 24M a.img`"];
    refused(&["create", "pair.toml", "--occupied"], 2, &small);
    fs::write(place.path("socket"), "precious").unwrap();
    let emulate = [&["emulate", "hdd-5k4", "--backing", "none"], &export[..]].concat();
    refused(&emulate, 2, &["is not a socket"]);
    let emulate = |what, more: &[&'static str]| [&["emulate", what], more, &export[..]].concat();
    let none = "has no effect here";
    refused(
        &emulate("hdd-5k4", &["--size", "5"]),
        2,
        &["--size", "5 bytes", "give at least 2097152 bytes (2 MiB)"],
    );
    refused(&emulate("two-hdd-raid1", &["--size", "5G"]), 2, &["--size", none]);
    refused(&emulate("hdd-5k4", &["--members"]), 2, &["--members", none]);
    refused(&emulate("hdd-5k4", &["-p", "pid"]), 2, &["--policy", none]);
    refused(&emulate("hdd-5k4", &["--occupied"]), 2, &["--occupied", "--backing memory"]);
    let both = ["--occupied", "--backing", "none"];
    refused(&emulate("two-hdd-raid1", &both), 2, &["--occupied", "--backing none"]);
    refused(&emulate("hdd-6k", &[]), 2, &["no model or array is named `hdd-6k`", "help: did you"]);
    assert_eq!(fs::read(place.path("socket")).unwrap(), b"precious");
    fs::remove_file(place.path("a.img")).unwrap();
    refused(&["create", "pair.toml"], 2, &["a.img", "no such file"]);
}

#[test]
fn control_socket_may_be_given_before_and_after_the_action() {
    let place = Place::new();
    let asked = |words: &[&str]| {
        let Output { status, stderr, .. } = place.folder.command(words).output().unwrap();
        (status.code(), String::from_utf8(stderr).unwrap())
    };
    let no_service = (Some(1), "cannot connect to control socket `v.ctl`");
    for (words, (code, part)) in [
        (&["ctl", "-c", "v.ctl", "status"][..], no_service),
        (&["ctl", "status", "-c", "v.ctl"], no_service),
        (&["ctl", "members", "rebuild", "2", "--control", "v.ctl"], no_service),
        (&["ctl", "status"], (Some(2), "--control PATH")),
        (&["ctl", "status", "--stat"], (Some(2), "mirrorball ctl --control <PATH> status")),
        (&["ctl", "members", "rebuild", "x"], (Some(2), "expected the devid of a member")),
    ] {
        let (ended, message) = asked(words);
        assert_eq!(ended, code, "{words:?}: {message}");
        assert!(message.contains(part), "{words:?}: {message}");
    }
}
