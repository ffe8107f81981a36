//! Outages: all members, which are on other machines; threads; the server.

use super::*;
use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use std::time::{Duration, Instant};

fn start_peer(folder: &Folder, number: u64) -> Service {
    let (disks, address) = (format!("disks-{number}"), format!("nbd:unix:peer-{number}"));
    let emulate = ["emulate", "peer.toml", "--members", "--backing", &disks, "--export", &address];
    Service::start(folder, &emulate)
}

/// Neither are both members failed for good, nor are they in sync with different data.
#[test]
fn a_volume_goes_on_after_all_its_members_were_away() {
    let folder = Folder::new();
    let single = "profile = \"single\"\n[[member]]\nmodel = \"delay\"\nsize = \"24MiB\"\n";
    fs::write(folder.path("peer.toml"), single).unwrap();
    let mut text = "profile = \"raid1\"\n".to_owned();
    for number in 1..=2 {
        fs::create_dir(folder.path(&format!("disks-{number}"))).unwrap();
        text += &format!("[[member]]\nuri = \"{}\"\n", folder.nbd_uri(&format!("peer-{number}")));
    }
    fs::write(folder.path("pair.toml"), text).unwrap();
    let peers = [start_peer(&folder, 1), start_peer(&folder, 2)];
    let output = folder.run(&["create", "pair.toml"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let [first, second] = ["peer-1", "peer-2"].map(|peer| folder.nbd_uri(peer));
    let start = || serve(&folder, &[&first, &second, "--policy", "round-robin"]);
    let mut service = start();
    client(&folder).write(0, &[1; BLOCK]);
    client(&folder).flush();
    for peer in peers {
        peer.stop("-KILL");
    }
    let write = |fill| client(&folder).request(NbdRequest::Write, 0, &[fill; BLOCK], BLOCK);
    assert!(write(2).is_err(), "no member can take it");
    let peers = [start_peer(&folder, 1), start_peer(&folder, 2)];
    // Whichever I/O found the first member gone may have failed it, a flush too. The other is the
    // last copy then, and takes writes at once, or if its server may have lost some, after a start.
    // A rebuild is refused until the connection to it is back.
    let rebuild = ["ctl", "--control", "control", "members", "rebuild"];
    let rebuild_failed = || {
        let members = folder.ctl(&["members"]);
        let is_failed = |it: &&str| members.contains(&format!("devid {it}: fail"));
        let failed: Vec<&str> = ["1", "2"].into_iter().filter(is_failed).collect();
        assert!(failed.len() < 2, "{members}");
        let is_begun =
            |devid: &str| folder.run(&[&rebuild[..], &[devid]].concat()).status.success();
        failed.into_iter().all(is_begun)
    };
    let is_written = || rebuild_failed() && write(3).is_ok();
    let since = Instant::now();
    while !is_written() && since.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(50));
    }
    if !is_written() {
        let events = folder.ctl(&["events"]);
        assert!(events.contains("the server may have lost writes"), "{events}");
        service.stop("-KILL");
        service = start();
        wait_until("a write", is_written);
    }
    assert_reads(&folder, 0, 3);
    wait_until("a rebuild", rebuild_failed);
    wait_until_in_sync(&folder);
    assert_reads(&folder, 0, 3);
    client(&folder).flush();
    service.terminate();
    for peer in peers {
        peer.terminate();
    }
    let disk = |number: u64| data(&folder, &format!("disks-{number}/member-1.img"));
    assert!(disk(1) == disk(2));
}

/// Opening a member takes a thread. Without one the request is refused, and the volume goes on.
#[test]
fn a_volume_goes_on_where_no_thread_can_be_started() {
    let folder = created(2);
    let served = ["serve", "a.img", "b.img", "--export", "nbd:unix:socket", "--control", "control"];
    let plain = folder.command(&served);
    // The limit is of the processes of a user, and root has none.
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let by_user = |program: &OsStr| {
        let mut command = Command::new(if is_root { OsStr::new("setpriv") } else { program });
        let user = ["--reuid=54321", "--clear-groups"].map(OsStr::new);
        command.args(user.into_iter().chain([program]).filter(|_| is_root));
        command
    };
    for path in [".", "a.img", "b.img"].into_iter().filter(|_| is_root) {
        fs::set_permissions(folder.path(path), Permissions::from_mode(0o777)).unwrap();
    }
    let test = by_user("test".as_ref()).arg("-x").arg(plain.get_program()).status();
    if !test.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: another user cannot run the program");
    }
    let mut command = by_user(plain.get_program());
    command.args(plain.get_args()).current_dir(folder.path("."));
    let service = Service::start_command(command);
    client(&folder).write(0, &[5; BLOCK]);
    let id = service.id().to_string();
    let limited = by_user("prlimit".as_ref()).args(["--pid", &id, "--nproc=1:"]).status();
    assert!(limited.unwrap().success());
    folder.ctl(&["members", "fail", "2"]);
    let output = folder.run(&["ctl", "--control", "control", "members", "rebuild", "2"]);
    let error = stderr(&output);
    assert!(error.contains("cannot start a thread") && error.contains("ulimit -u"), "{error}");
    assert_reads(&folder, 0, 5);
    service.terminate();
}

/// The kernel ends an io_uring, with the files in its table, a while after the process.
#[test]
fn members_are_released_when_the_server_is_gone() {
    let folder = created(2);
    for option in [&[][..], &["--read-only"]] {
        let service = serve(&folder, &[option, &["a.img", "b.img"]].concat());
        service.terminate();
        for name in ["a.img", "b.img"] {
            let mut lock = Command::new("flock");
            let lock = lock.args(["-n", name, "true"]).current_dir(folder.path("."));
            assert!(lock.status().unwrap().success(), "{name} {option:?}");
        }
    }
}

/// A member that leaves before the mirrors are synchronised lacks more than the writes that it
/// missed.
#[test]
fn a_member_that_leaves_before_the_first_synchronisation_has_ended_is_rebuilt_whole() {
    let folder = place(2);
    fs::write(folder.path("a.img"), vec![1; SIZE_BYTES as usize]).unwrap();
    fs::write(folder.path("b.img"), vec![2; SIZE_BYTES as usize]).unwrap();
    assert!(folder.run(&["create", "pair.toml", "--occupied"]).status.success());
    let service = serve(&folder, &["a.img", "--degraded"]);
    client(&folder).write(8 << 20, &[7; BLOCK]);
    wait_until("the end of the synchronisation", || {
        !folder.ctl(&["status"]).contains("being synchronised")
    });
    service.terminate();
    let service = serve(&folder, &["a.img", "b.img"]);
    wait_until_in_sync(&folder);
    service.terminate();
    assert!(data(&folder, "a.img") == data(&folder, "b.img"));
}

#[test]
fn an_older_copy_is_read_alone_while_the_other_member_is_in_service() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    client(&folder).write(0, &[5; BLOCK]);
    folder.ctl(&["members", "fail", "2"]);
    folder.ctl(&["members", "remove", "2"]);
    client(&folder).write(0, &[6; BLOCK]);
    let before = fs::read(folder.path("b.img")).unwrap();
    let old = folder.run(&["serve", "b.img", "--export", "nbd:unix:old"]);
    assert!(stderr(&old).contains("start with --read-only"), "{old:?}");
    let arguments = ["serve", "b.img", "--read-only", "--export", "nbd:unix:old"];
    let old = Service::start(&folder, &arguments);
    assert!(has_line(&old, "a missing member may have newer ones"), "{:?}", old.lines);
    assert!(NbdClient::connect(&folder, "old").read(0, BLOCK) == [5; BLOCK]);
    assert_reads(&folder, 0, 6);
    old.terminate();
    assert!(fs::read(folder.path("b.img")).unwrap() == before, "nothing is written");
    service.terminate();
}

#[test]
fn a_device_that_was_cut_is_refused() {
    let folder = created(2);
    // The members have records of writes.
    let service = serve(&folder, &["a.img", "b.img"]);
    client(&folder).write(0, &[1; BLOCK]);
    service.terminate();
    File::options().write(true).open(folder.path("a.img")).unwrap().set_len(8 << 20).unwrap();
    let examined = folder.run(&["examine", "a.img", "b.img"]);
    assert_eq!(examined.status.code(), Some(1));
    let text = String::from_utf8(examined.stdout).unwrap();
    assert!(text.contains("a device is smaller than its member"), "{text}");
    let served = folder.run(&["serve", "a.img", "b.img", "--export", "nbd:unix:socket"]);
    assert_eq!(served.status.code(), Some(2));
    assert!(stderr(&served).contains("it was truncated"), "{}", stderr(&served));
    // In the midst of the metadata.
    for size_bytes in [8192, 12_288, 69_632, 135_168] {
        let image = File::options().write(true).open(folder.path("a.img")).unwrap();
        image.set_len(size_bytes).unwrap();
        let examined = folder.run(&["examine", "a.img", "b.img"]);
        assert_eq!(examined.status.code(), Some(1), "{size_bytes}: {}", stderr(&examined));
        let text = String::from_utf8(examined.stdout).unwrap();
        for part in ["a device is smaller than its member", "`a.img`: too small"] {
            assert!(text.contains(part), "{size_bytes}: {text}");
        }
        let served = folder.run(&["serve", "a.img", "b.img", "--export", "nbd:unix:socket"]);
        assert!(stderr(&served).contains("it was truncated"), "{}", stderr(&served));
    }
    let service = serve(&folder, &["a.img", "b.img", "--discard", "a.img"]);
    let note = "the volume starts without it; `mirrorball ctl --control ";
    assert!(has_line(&service, note), "{:?}", service.lines);
    assert_reads(&folder, 0, 1);
    client(&folder).write(0, &[2; BLOCK]);
    service.terminate();
    let service = serve(&folder, &["a.img", "b.img"]);
    assert!(has_line(&service, note), "{:?}", service.lines);
    assert_reads(&folder, 0, 2);
    service.terminate();
}

/// The socket is there, and the path is right.
#[test]
fn ctl_says_that_a_service_that_was_killed_does_not_listen_any_more() {
    let folder = created(2);
    serve(&folder, &["a.img", "b.img"]).stop("-KILL");
    let part = "no service listens at control socket `control` any more: the one that made it was";
    // The kernel closes the files of a ring after the process has ended.
    wait_until("the socket to be closed", || {
        let output = folder.run(&["ctl", "--control", "control", "status"]);
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{error}");
        error.contains(part) && error.contains("help: start it again")
    });
}

#[test]
fn nothing_is_said_to_be_synchronised_with_a_single_member() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    folder.ctl(&["members", "fail", "2"]);
    client(&folder).write(0, &[1; BLOCK]);
    service.stop("-KILL");
    let service = serve(&folder, &["a.img"]);
    let note = "was not stopped in good order; a single member is in sync, so no mirrors differ";
    assert!(has_line(&service, note), "{:?}", service.lines);
    assert!(!has_line(&service, "synchronised while"), "{:?}", service.lines);
    client(&folder).write(0, &[2; BLOCK]);
    let status = folder.ctl(&["status"]);
    assert!(!status.contains("synchronised"), "{status}");
    service.terminate();
}
