//! Remote members: NBD servers of other projects and of this program as mirrors of a volume.
//!
//! Tests with `nbdkit` and `qemu-nbd` are skipped where these are not installed, unless `CI` is
//! `true`; `./test` installs them.

mod errors;

use crate::common::external::{self, External};
use crate::common::nbd_client::NbdClient;
use crate::common::service::{Service, wait_until};
use crate::common::{Folder, stderr};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;

const SIZE_BYTES: u64 = 64 << 20;
/// Size of the unused start of a member.
const RESERVED_BYTES: usize = 1 << 20;

/// A folder with two images, and an array of the first and of the server at `socket`.
fn place() -> Folder {
    let folder = Folder::new();
    let text = format!(
        "profile = \"raid1\"\n[[member]]\npath = \"a.img\"\n[[member]]\n\
         uri = \"{}\"\n",
        peer_uri(&folder)
    );
    fs::write(folder.path("pair.toml"), text).unwrap();
    for name in ["a.img", "b.img"] {
        File::create(folder.path(name)).unwrap().set_len(SIZE_BYTES).unwrap();
    }
    folder
}

/// The URI of the server at `peer`.
fn peer_uri(folder: &Folder) -> String {
    folder.nbd_uri("peer")
}

/// Serves the volume, whose members are labelled first, and waits until its mirrors are equal.
fn serve(folder: &Folder) -> Service {
    folder.create("pair.toml");
    let peer = peer_uri(folder);
    let arguments = ["serve", "a.img", &peer, "--policy", "round-robin", "--metrics", "0"];
    let places = ["--export", "nbd:unix:socket", "--control", "control"];
    let service = Service::start(folder, &[&arguments[..], &places].concat());
    wait_until("equal mirrors", || folder.ctl(&["status"]).contains("in sync"));
    service
}

/// The remote server: the second image, served by this program as a single member.
fn peer(folder: &Folder) -> Service {
    let single = "profile = \"single\"\n[[member]]\nmodel = \"delay\"\nsize = \"64MiB\"\n";
    fs::write(folder.path("peer.toml"), single).unwrap();
    fs::create_dir_all(folder.path("disks")).unwrap();
    let emulate = ["emulate", "peer.toml", "--members", "--backing", "disks"];
    Service::start(folder, &[&emulate[..], &["--export", "nbd:unix:peer"]].concat())
}

/// Runs fio with checksums on the volume; returns false if fio is not installed.
fn fio_verify(folder: &Folder, more: &[&str]) -> bool {
    let uri = format!("--uri={}", folder.nbd_uri("socket"));
    let target = ["--ioengine=nbd", &uri, "--size=32m"];
    external::fio_verify(&folder.path("."), &[&target[..], more].concat())
}

fn metric(service: &Service, name: &str) -> u64 {
    let mut socket = TcpStream::connect(service.metrics_address()).unwrap();
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().parse().unwrap()
}

#[test]
fn other_servers_as_mirrors() {
    let nbdkit = ["--foreground", "--unix", "peer", "file", "b.img"];
    let qemu = ["--socket", "peer", "--format", "raw", "--persistent", "--shared", "8", "b.img"];
    for (program, arguments) in [("nbdkit", &nbdkit[..]), ("qemu-nbd", &qemu[..])] {
        let folder = place();
        let absolute = folder.path("peer").display().to_string();
        let arguments = arguments.iter().map(|&part| if part == "peer" { &absolute } else { part });
        let arguments: Vec<&str> = arguments.collect();
        let is_ready = || folder.path("peer").exists();
        let Some(theirs) = External::start(&folder, program, &arguments, is_ready) else {
            continue;
        };
        let ours = serve(&folder);
        if fio_verify(&folder, &["--fsync=64"]) {
            assert!(metric(&ours, "mirrorball_member_reads_total{devid=\"2\"}") > 100);
            assert!(folder.ctl(&["status"]).contains("in sync"), "{program}");
            ours.terminate();
            drop(theirs);
            let images = ["a.img", "b.img"].map(|name| fs::read(folder.path(name)).unwrap());
            let data = RESERVED_BYTES..SIZE_BYTES as usize;
            let [first, second] = images.each_ref().map(|image| &image[data.clone()]);
            assert!(first == second, "{program}: the mirrors differ");
            assert!(first.iter().any(|&byte| byte != 0), "{program}: nothing was written");
        }
    }
}

/// The peer is killed while fio verifies checksums: no wrong byte, and the volume is degraded. When
/// the peer returns, it is not read before it is rebuilt.
#[test]
fn killed_peer_under_load() {
    let folder = place();
    let other = peer(&folder);
    let ours = serve(&folder);
    let written = "mirrorball_member_writes_total{devid=\"2\"}";
    std::thread::scope(|scope| {
        let fio = scope.spawn(|| fio_verify(&folder, &["--fsync=64", "--rate_iops=4000"]));
        wait_until("writes", || fio.is_finished() || metric(&ours, written) > 100);
        other.stop("-KILL");
        if !fio.join().unwrap() {
            return;
        }
        assert!(folder.ctl(&["status"]).contains("degraded"));
        assert!(folder.ctl(&["members"]).contains("devid 2: failed"));
        let rebuild = ["ctl", "--control", "control", "members", "rebuild", "2"];
        let absent = folder.run(&rebuild);
        assert!(stderr(&absent).contains("cannot attach"), "{}", stderr(&absent));
        let other = peer(&folder);
        wait_until("the peer is back", || {
            let slowly = [&rebuild[..], &["--rate", "1"]].concat();
            folder.run(&slowly).status.success()
        });
        assert!(folder.ctl(&["status"]).contains("peer) is being rebuilt"));
        let read = "mirrorball_member_reads_total{devid=\"2\"}";
        let before = metric(&ours, read);
        assert!(fio_verify(&folder, &[]), "it is written, and not read");
        assert_eq!(metric(&ours, read), before);
        folder.ctl(&["members", "rebuild", "2", "--rate", "1G"]);
        wait_until("the rebuild", || folder.ctl(&["status"]).contains("in sync"));
        assert!(fio_verify(&folder, &[]));
        assert!(metric(&ours, read) > before, "it is read again");
        ours.terminate();
        other.terminate();
        let data = RESERVED_BYTES..SIZE_BYTES as usize;
        let first = fs::read(folder.path("a.img")).unwrap();
        let second = fs::read(folder.path("disks/member-1.img")).unwrap();
        assert!(first[data.clone()] == second[data], "the mirrors differ");
    });
}

/// The volume is only read while the peer is away, so the peer misses no write.
#[test]
fn peer_without_missed_writes_is_read_again() {
    let folder = place();
    let other = peer(&folder);
    let ours = serve(&folder);
    let uri = folder.nbd_uri("socket");
    let copy = || external::run(&folder.path("."), "nbdcopy", &[&uri, "null:"]).is_some();
    if !copy() {
        return;
    }
    other.stop("-KILL");
    assert!(copy(), "while it is away");
    let status = folder.ctl(&["status"]);
    assert!(status.contains("degraded") && status.contains("no other member may fail"), "{status}");
    let line = status.lines().find(|line| line.contains("devid 2 (nbd+unix:///?socket="));
    assert!(line.unwrap().contains("peer) cannot be reached: no connection"), "{status}");
    assert!(folder.ctl(&["members"]).contains("devid 2: unreachable"));
    let check = ["ctl", "--control", "control", "status", "--check"];
    assert_eq!(folder.run(&check).status.code(), Some(1));
    let read = "mirrorball_member_reads_total{devid=\"2\"}";
    let before = metric(&ours, read);
    let other = peer(&folder);
    wait_until("it is read", || copy() && metric(&ours, read) > before);
    assert_eq!(folder.run(&check).status.code(), Some(0), "{}", folder.ctl(&["status"]));
    let events = folder.ctl(&["events"]);
    let unreachable = "\"name\":\"member-unreachable\",\"severity\":\"warning\",\"devid\":2";
    let gone = events.find(&format!("\"began\",{unreachable}")).expect("it was unreachable");
    assert!(events[gone..].contains(&format!("\"ended\",{unreachable}")), "{events}");
    ours.terminate();
    other.terminate();
}

/// No request follows after the peer is gone, and with it the writes that were not flushed.
#[test]
fn peer_with_unflushed_writes_fails_at_once() {
    let folder = place();
    let other = peer(&folder);
    let ours = serve(&folder);
    NbdClient::connect(&folder, "socket").write(0, &[0x11; 4096]);
    other.stop("-KILL");
    wait_until("it is noticed", || folder.ctl(&["status"]).contains("degraded"));
    assert!(folder.ctl(&["members"]).contains("devid 2: failed"));
    ours.terminate();
}

/// A rebuild would give up what the stale member has, for nothing.
#[test]
fn a_last_copy_whose_server_restarted_is_no_source_before_a_restart() {
    let folder = place();
    let other = peer(&folder);
    let ours = serve(&folder);
    folder.ctl(&["members", "fail", "1"]);
    NbdClient::connect(&folder, "socket").write(0, &[0x11; 4096]);
    other.stop("-KILL");
    let other = peer(&folder);
    let what = "error: devid 2 (nbd";
    wait_until("it is noticed", || folder.ctl(&["status"]).contains(what));
    let status = folder.ctl(&["status"]);
    assert!(
        status.contains("\n    help: restart the service once that server answers"),
        "{status}"
    );
    assert!(!status.contains("copy the data elsewhere"), "{status}");
    let rebuild = ["ctl", "--control", "control", "members", "rebuild", "1"];
    let output = folder.run(&rebuild);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("devid 2, which has the only copy of some data, cannot be"));
    assert!(folder.ctl(&["members"]).contains("devid 1: failed"));
    assert!(!ours.has_printed("it is in sync now"));
    ours.terminate();
    let peer = peer_uri(&folder);
    let places = ["--export", "nbd:unix:socket", "--control", "control"];
    let ours = Service::start(&folder, &[&["serve", "a.img", &peer][..], &places].concat());
    folder.ctl(&["members", "rebuild", "1", "--wait"]);
    ours.terminate();
    other.terminate();
}

/// The peer is stopped by a signal: its connections stay open, and it does not answer. The volume
/// reads from the other mirror, and from this one again when it continues.
#[test]
fn silent_peer_does_not_block_reads() {
    let folder = place();
    let other = self::peer(&folder);
    folder.create("pair.toml");
    let peer = peer_uri(&folder);
    let arguments = ["serve", "a.img", &peer, "--policy", "round-robin", "--metrics", "0"];
    let more = ["--export", "nbd:unix:socket", "--control", "control", "--peer-timeout", "500ms"];
    let ours = Service::start(&folder, &[&arguments[..], &more].concat());
    wait_until("equal mirrors", || folder.ctl(&["status"]).contains("in sync"));
    let uri = folder.nbd_uri("socket");
    let copy = || external::run(&folder.path("."), "nbdcopy", &[&uri, "null:"]).is_some();
    if !copy() {
        return;
    }
    other.signal("-STOP");
    copy();
    assert!(folder.ctl(&["members"]).contains("devid 2: unreachable"));
    let errors = "mirrorball_member_errors_total{devid=\"2\"}";
    assert!(metric(&ours, errors) > 0, "it was asked");
    other.signal("-CONT");
    let read = "mirrorball_member_reads_total{devid=\"2\"}";
    let before = metric(&ours, read);
    wait_until("it is read", || {
        copy();
        metric(&ours, read) > before
    });
    ours.terminate();
    other.terminate();
}

#[test]
fn unusable_peers_are_refused() {
    let folder = place();
    let peer = peer_uri(&folder);
    let serve = |uri| ["serve", uri, "--export", "nbd:unix:socket"];
    // It may come back: a service manager tries again.
    let output = folder.run(&serve(&peer));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("cannot attach"), "{}", stderr(&output));
    folder.refuses(&["create", "pair.toml"], &["cannot attach", "No such file"]);
    let other = serve("nbd:/replica");
    folder.refuses(&other, &["`nbd:/replica` is not the URI", "nbd://HOST/EXPORT"]);
    let metrics = [&serve(&peer)[..], &["--metrics", "localhost"]].concat();
    folder.refuses(&metrics, &["the port `localhost` is not a number", "write PORT"]);
}
