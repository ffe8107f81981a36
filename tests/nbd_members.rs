//! Members on other machines: the servers of others and our own as mirrors of a volume.
//!
//! `nbdkit` and `qemu-nbd` are skipped, saying so, where they are not installed, unless `CI` is
//! `true`; `./test` installs them.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

#[path = "nbd_members/reopen.rs"]
mod reopen;
mod support;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Folder, stderr, stdout};

const SIZE_BYTES: u64 = 64 << 20;
/// The first bytes of a member hold nothing of the volume.
const RESERVED_BYTES: usize = 1 << 20;
const TOO_LONG: Duration = Duration::from_secs(60);

/// A program that is ended with the test.
struct Running(Child);

impl Running {
    /// Starts one of ours, and waits until it is ready; what it said until then comes with it.
    fn ours(folder: &Folder, arguments: &[&str]) -> (Running, Vec<String>) {
        let mut child = folder.command(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = lines.by_ref().map_while(Result::ok).take_while(|line| line != "ready");
        let said: Vec<String> = said.collect();
        assert!(child.try_wait().unwrap().is_none(), "{arguments:?}: {said:?}");
        std::thread::spawn(move || lines.count());
        (Running(child), said)
    }

    /// Starts one of others, and waits for its socket; `None` if it is not installed.
    fn theirs(folder: &Folder, program: &str, arguments: &[&str], socket: &str) -> Option<Running> {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder.path("."));
        let in_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
        let Ok(child) = command.stdout(Stdio::null()).spawn() else {
            assert!(!in_ci, "{program} is missing: install it");
            eprintln!("skipped: {program} is missing");
            return None;
        };
        let running = Running(child);
        until(program, || folder.path(socket).exists());
        Some(running)
    }

    /// Ends it as a crash would.
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    fn signal(&self, signal: &str) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    fn stop(mut self) {
        self.signal("-TERM");
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + TOO_LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A folder with two images, and an array of the local one and of what listens at `socket`.
fn place() -> Folder {
    let folder = Folder::new();
    let text = format!(
        "profile = \"raid1\"\n[[member]]\npath = \"a.img\"\n[[member]]\n\
         uri = \"nbd+unix:///?socket={}\"\n",
        folder.path("peer").display()
    );
    fs::write(folder.path("pair.toml"), text).unwrap();
    for name in ["a.img", "b.img"] {
        File::create(folder.path(name)).unwrap().set_len(SIZE_BYTES).unwrap();
    }
    folder
}

fn serve(folder: &Folder) -> (Running, Vec<String>) {
    let arguments = ["serve", "pair.toml", "--policy", "round-robin", "--metrics", "0"];
    let places = ["--export", "nbd:unix:socket", "--control", "control"];
    Running::ours(folder, &[&arguments[..], &places].concat())
}

/// The other machine: the second image, served by ourselves as a single member.
fn peer(folder: &Folder) -> Running {
    let single = "profile = \"single\"\n[[member]]\nmodel = \"delay\"\nsize = \"64MiB\"\n";
    fs::write(folder.path("peer.toml"), single).unwrap();
    fs::create_dir_all(folder.path("disks")).unwrap();
    let emulate = ["emulate", "peer.toml", "--members", "--backing", "disks"];
    Running::ours(folder, &[&emulate[..], &["--export", "nbd:unix:peer"]].concat()).0
}

fn ctl(folder: &Folder, arguments: &[&str]) -> String {
    stdout(&folder.run(&[&["ctl", "--control", "control"], arguments].concat()))
}

/// Writes 32 MiB in random order and reads it back; whether fio is there.
fn fio_verify(folder: &Path, more: &[&str]) -> bool {
    let uri = format!("--uri=nbd+unix:///?socket={}", folder.join("socket").display());
    let job = ["--name=verify", "--ioengine=nbd", &uri, "--rw=randwrite", "--bs=16k"];
    let verify = ["--size=32m", "--iodepth=16", "--verify=crc32c", "--verify_fatal=1"];
    let output = Command::new("fio").args(job).args(verify).args(more).current_dir(folder).output();
    let Ok(output) = output else {
        eprintln!("skipped: fio is missing");
        return false;
    };
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        stderr(&output)
    );
    true
}

/// The value of a metric of the volume.
fn metric(said: &[String], name: &str) -> u64 {
    let place = said.iter().find_map(|line| line.strip_prefix("metrics: http://"));
    let place = place.unwrap().strip_suffix("/metrics").unwrap();
    let mut socket = TcpStream::connect(place).unwrap();
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().parse().unwrap()
}

#[test]
fn servers_of_others_hold_one_half_of_a_mirror() {
    let nbdkit = ["--foreground", "--unix", "peer", "file", "b.img"];
    let qemu = ["--socket", "peer", "--format", "raw", "--persistent", "--shared", "8", "b.img"];
    for (program, arguments) in [("nbdkit", &nbdkit[..]), ("qemu-nbd", &qemu[..])] {
        let folder = place();
        let absolute = folder.path("peer").display().to_string();
        let arguments = arguments.iter().map(|&part| if part == "peer" { &absolute } else { part });
        let arguments: Vec<&str> = arguments.collect();
        let Some(theirs) = Running::theirs(&folder, program, &arguments, "peer") else { continue };
        let (ours, said) = serve(&folder);
        if fio_verify(&folder.path("."), &["--fsync=64"]) {
            assert!(metric(&said, "mirrorball_member_reads_total{devid=\"2\"}") > 100);
            assert!(ctl(&folder, &["status"]).contains("in sync"), "{program}");
            ours.stop();
            drop(theirs);
            let images = ["a.img", "b.img"].map(|name| fs::read(folder.path(name)).unwrap());
            let [first, second] = images.each_ref().map(|image| &image[RESERVED_BYTES..]);
            assert!(first == second, "{program}: the mirrors differ");
            assert!(first.iter().any(|&byte| byte != 0), "{program}: nothing was written");
        }
    }
}

/// The peer is killed in the middle of fio with checksums: no wrong byte, and the volume says that
/// it is degraded. What returns is not read until it is rebuilt.
#[test]
fn a_peer_that_is_killed_under_load_harms_no_data() {
    let folder = place();
    let other = peer(&folder);
    let (ours, said) = serve(&folder);
    let written = "mirrorball_member_writes_total{devid=\"2\"}";
    std::thread::scope(|scope| {
        let fio =
            scope.spawn(|| fio_verify(&folder.path("."), &["--fsync=64", "--rate_iops=4000"]));
        until("writes", || fio.is_finished() || metric(&said, written) > 100);
        other.kill();
        if !fio.join().unwrap() {
            return;
        }
        assert!(ctl(&folder, &["status"]).contains("degraded"));
        assert!(ctl(&folder, &["members"]).contains("devid 2: failed"));
        let rebuild = ["ctl", "--control", "control", "members", "rebuild", "2"];
        let absent = folder.run(&rebuild);
        assert!(stderr(&absent).contains("cannot attach"), "{}", stderr(&absent));
        let other = peer(&folder);
        until("the peer is back", || {
            let slowly = [&rebuild[..], &["--rate", "1"]].concat();
            folder.run(&slowly).status.success()
        });
        assert!(ctl(&folder, &["status"]).contains("rebuilding devid 2: "));
        let read = "mirrorball_member_reads_total{devid=\"2\"}";
        let before = metric(&said, read);
        assert!(fio_verify(&folder.path("."), &[]), "it is written, and not read");
        assert_eq!(metric(&said, read), before);
        ctl(&folder, &["members", "rebuild", "2", "--rate", "1G"]);
        until("the rebuild", || ctl(&folder, &["status"]).contains("in sync"));
        assert!(fio_verify(&folder.path("."), &[]));
        assert!(metric(&said, read) > before, "it is read again");
        ours.stop();
        other.stop();
        let first = fs::read(folder.path("a.img")).unwrap();
        let second = fs::read(folder.path("disks/member-1.img")).unwrap();
        assert!(first[RESERVED_BYTES..] == second[RESERVED_BYTES..], "the mirrors differ");
    });
}

/// The volume is only read while the peer is away, so there is nothing that it missed.
#[test]
fn a_peer_that_missed_nothing_is_read_again_when_it_returns() {
    let folder = place();
    let other = peer(&folder);
    let (ours, said) = serve(&folder);
    let uri = format!("nbd+unix:///?socket={}", folder.path("socket").display());
    let copy = || {
        let output = Command::new("nbdcopy").args([&uri, "null:"]).output();
        output.map(|output| assert!(output.status.success(), "{}", stderr(&output))).is_ok()
    };
    if !copy() {
        eprintln!("skipped: nbdcopy is missing");
        return;
    }
    other.kill();
    assert!(copy(), "while it is away");
    assert!(ctl(&folder, &["status"]).contains("in sync"), "{}", ctl(&folder, &["members"]));
    let read = "mirrorball_member_reads_total{devid=\"2\"}";
    let before = metric(&said, read);
    let other = peer(&folder);
    until("it is read", || copy() && metric(&said, read) > before);
    ours.stop();
    other.stop();
}

/// The peer is stopped, not killed: its connections stay, and nothing comes. The volume reads on
/// from the other mirror, and from this one again when it goes on.
#[test]
fn a_peer_that_goes_silent_holds_nobody_up() {
    let folder = place();
    let other = peer(&folder);
    let arguments = ["serve", "pair.toml", "--policy", "round-robin", "--metrics", "0"];
    let more = ["--export", "nbd:unix:socket", "--control", "control", "--peer-timeout", "500ms"];
    let (ours, said) = Running::ours(&folder, &[&arguments[..], &more].concat());
    let uri = format!("nbd+unix:///?socket={}", folder.path("socket").display());
    let copy = || Command::new("nbdcopy").args([&uri, "null:"]).output();
    if copy().is_err() {
        eprintln!("skipped: nbdcopy is missing");
        return;
    }
    let succeeds = || {
        let output = copy().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    };
    other.signal("-STOP");
    succeeds();
    assert!(ctl(&folder, &["status"]).contains("in sync"), "{}", ctl(&folder, &["members"]));
    let errors = "mirrorball_member_errors_total{devid=\"2\"}";
    assert!(metric(&said, errors) > 0, "it was asked");
    other.signal("-CONT");
    let read = "mirrorball_member_reads_total{devid=\"2\"}";
    let before = metric(&said, read);
    until("it is read", || {
        succeeds();
        metric(&said, read) > before
    });
    ours.stop();
    other.stop();
}

#[test]
fn a_peer_that_is_none_is_refused_with_a_hint() {
    let folder = place();
    let serve = ["serve", "pair.toml", "--export", "nbd:unix:socket"];
    folder.refuses(&serve, &["cannot attach", "No such file"]);
    let array = "profile = \"single\"\n[[member]]\nuri = \"nbd:/replica\"\n";
    fs::write(folder.path("pair.toml"), array).unwrap();
    folder.refuses(&serve, &["`nbd:/replica` is not the URI", "nbd://HOST/EXPORT"]);
    let metrics = [&serve[..], &["--metrics", "localhost"]].concat();
    folder.refuses(&metrics, &["`localhost` is no address for metrics"]);
}
