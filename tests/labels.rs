//! Labelled volumes: what survives a stop, a crash, a lost member, and a split brain.

mod announced;
mod checksums;
mod clear;
mod devices;
mod full;
mod loop_devices;
mod occupied;
mod outage;
mod replace;
mod scrub;
mod spares;

use crate::common::nbd_client::{NbdClient, NbdRequest};
use crate::common::service::{Service, wait_until};
use crate::common::{Folder, stderr, stdout};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

const SIZE_BYTES: u64 = 24 << 20;
/// Where the data of the volume begin on a member.
const DATA: usize = 1 << 20;
const BLOCK: usize = 65536;

/// A folder with empty images and an array file of them.
fn place(count: usize) -> Folder {
    let folder = Folder::new();
    let profile = ["raid1", "raid1c3"][count - 2];
    let mut text = format!("profile = \"{profile}\"\n");
    for name in ["a.img", "b.img", "c.img"].into_iter().take(count) {
        text += &format!("[[member]]\npath = \"{name}\"\n");
        File::create(folder.path(name)).unwrap().set_len(SIZE_BYTES).unwrap();
    }
    fs::write(folder.path("pair.toml"), text).unwrap();
    folder
}

fn created(count: usize) -> Folder {
    let folder = place(count);
    let output = folder.run(&["create", "pair.toml"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    let redundancy =
        ["  2 copies, 1 member may fail\n", "  3 copies, 2 members may fail\n"][count - 2];
    let checksums = "  no checksums: wrong data that a disk returns as good are not noticed";
    for part in ["created volume `pair`", redundancy, checksums, "mirrorball serve a.img b.img"] {
        assert!(text.contains(part), "{text}");
    }
    folder
}

fn serve(folder: &Folder, devices: &[&str]) -> Service {
    let places = ["--export", "nbd:unix:socket", "--control", "control"];
    Service::start(folder, &[&["serve"], devices, &places].concat())
}

/// The error of a volume that must not start now, and may later.
fn refusal(folder: &Folder, devices: &[&str]) -> String {
    refusal_with(1, folder, devices)
}

/// The error of a volume that starts only if the user decides.
fn doubt(folder: &Folder, devices: &[&str]) -> String {
    refusal_with(3, folder, devices)
}

fn refusal_with(code: i32, folder: &Folder, devices: &[&str]) -> String {
    let output = folder.run(&[&["serve"], devices, &["--export", "nbd:unix:socket"]].concat());
    assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
    stderr(&output)
}

fn client(folder: &Folder) -> NbdClient {
    NbdClient::connect(folder, "socket")
}

/// Reads a block often enough for every policy to have used each mirror.
fn assert_reads(folder: &Folder, offset: u64, fill: u8) {
    let mut client = client(folder);
    for _ in 0..32 {
        let bytes = client.read(offset, BLOCK);
        assert!(bytes == [fill; BLOCK], "it begins with {:x?}", &bytes[..4]);
    }
}

fn wait_until_in_sync(folder: &Folder) {
    wait_until("the rebuild", || {
        let status = folder.ctl(&["status"]);
        status.contains("pair: in sync") && !status.contains("is being copied to")
    });
}

fn data(folder: &Folder, name: &str) -> Vec<u8> {
    fs::read(folder.path(name)).unwrap()[DATA..].to_vec()
}

fn has_line(service: &Service, part: &str) -> bool {
    service.lines.iter().any(|line| line.contains(part))
}

/// Waits until a service prints a line, before or after it is ready.
fn wait_for_line(service: &Service, part: &str) {
    wait_until(part, || has_line(service, part) || service.has_printed(part));
}

#[test]
fn a_volume_starts_from_its_members_in_any_order() {
    let folder = created(2);
    let service = serve(&folder, &["b.img", "a.img"]);
    client(&folder).write(0, &[7; BLOCK]);
    service.terminate();
    for devices in [&["a.img", "b.img"][..], &["--scan", "."]] {
        let service = serve(&folder, devices);
        assert!(!has_line(&service, "synchronised"), "{:?}", service.lines);
        assert_reads(&folder, 0, 7);
        let status = folder.ctl(&["status"]);
        assert!(status.contains("pair: in sync\n  2 copies, 1 member may fail\n"), "{status}");
        service.terminate();
    }
    assert!(data(&folder, "a.img") == data(&folder, "b.img"));
}

#[test]
fn a_missing_member_needs_the_user_and_is_rebuilt_when_it_returns() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    client(&folder).write(0, &[1; BLOCK]);
    service.terminate();
    let error = refusal(&folder, &["a.img"]);
    assert!(error.contains("devid 2") && error.contains("--degraded: then `ctl"), "{error}");
    let service = serve(&folder, &["a.img", "--degraded"]);
    assert!(folder.ctl(&["status"]).contains("pair: degraded"));
    client(&folder).write(0, &[2; BLOCK]);
    service.terminate();
    // The one that went on starts alone from now on; the other does not.
    serve(&folder, &["a.img"]).terminate();
    refusal(&folder, &["b.img"]);
    let service = serve(&folder, &["a.img", "b.img"]);
    assert!(has_line(&service, "missed writes"), "{:?}", service.lines);
    assert_reads(&folder, 0, 2);
    wait_until_in_sync(&folder);
    service.terminate();
    assert!(data(&folder, "a.img") == data(&folder, "b.img"));
    refusal(&folder, &["a.img"]);
}

#[test]
fn the_rate_of_a_running_rebuild_is_changed() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    client(&folder).write(0, &[1; BLOCK]);
    folder.ctl(&["members", "fail", "2"]);
    let folder = &folder;
    let rebuild = |more: &[&str]| folder.ctl(&[&["members", "rebuild", "2"], more].concat());
    assert!(rebuild(&["--rate", "4K"]).contains("is being rebuilt"));
    assert!(rebuild(&["--rate", "8K"]).contains("rebuilt already, now at most 8 KiB/s"));
    let shown = std::thread::scope(|scope| {
        let show = |what| scope.spawn(move || folder.ctl(&[what, "--wait"]));
        let shown = ["status", "members"].map(show);
        assert!(rebuild(&[]).contains("rebuilt already, now without a rate limit"));
        shown.map(|shown| shown.join().unwrap())
    });
    assert!(shown[0].contains("pair: in sync"), "it is what is so after the wait: {shown:?}");
    assert_eq!(shown[1].matches("in sync").count(), 2, "{shown:?}");
    service.terminate();
}

#[test]
fn a_member_that_an_operator_failed_is_out_until_it_is_taken_back() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    folder.ctl(&["status", "--check"]);
    assert!(folder.ctl(&["policy", "round-robin", "--keep"]).contains("round-robin"));
    client(&folder).write(0, &[1; BLOCK]);
    for _ in 0..2 {
        assert!(folder.ctl(&["members", "fail", "2"]).contains("devid 2 is failed"));
    }
    let ctl = |arguments: &[&str]| {
        folder.run(&[&["ctl", "--control", "control"], arguments].concat()).status.code()
    };
    assert_eq!(ctl(&["members", "fail", "1"]), Some(2), "the last one stays");
    assert_eq!(ctl(&["status", "--check"]), Some(1));
    client(&folder).write(0, &[2; BLOCK]);
    service.terminate();
    for is_killed in [false, true] {
        let service = serve(&folder, &["a.img", "b.img"]);
        assert!(has_line(&service, "`b.img`: failed by an operator"), "{:?}", service.lines);
        let status = folder.ctl(&["status"]);
        assert!(status.contains("b.img) has failed: requested by an operator"), "{status}");
        assert!(status.contains("policy btrfs/round-robin"), "in its full form: {status}");
        assert_reads(&folder, 0, 2);
        match is_killed {
            true => drop(service.stop("-KILL")),
            false => service.terminate(),
        }
    }
    let label = folder.run(&["examine", "a.img", "b.img"]);
    let text = stdout(&label);
    for part in ["policy btrfs/round-robin\n", "devid 2: failed, 24 MiB, b.img\n"] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    let service = serve(&folder, &["a.img", "b.img"]);
    folder.ctl(&["members", "rebuild", "2"]);
    wait_until_in_sync(&folder);
    service.terminate();
    serve(&folder, &["a.img", "b.img"]).terminate();
    assert!(data(&folder, "a.img") == data(&folder, "b.img"));
    // Another way to take it back is to give up its data at the start.
    let service = serve(&folder, &["a.img", "b.img"]);
    folder.ctl(&["members", "fail", "2"]);
    service.terminate();
    let service = serve(&folder, &["a.img", "b.img", "--discard", "b.img"]);
    wait_until_in_sync(&folder);
    service.terminate();
}

#[test]
fn a_start_without_a_write_changes_nothing() {
    let folder = created(2);
    let before = [data(&folder, "a.img"), fs::read(folder.path("a.img")).unwrap()];
    let service = serve(&folder, &["a.img", "--degraded"]);
    client(&folder).read(0, BLOCK);
    service.terminate();
    // Its file is longer than the member.
    let now = [data(&folder, "a.img"), fs::read(folder.path("a.img")).unwrap()];
    assert!(before.iter().zip(&now).all(|(before, now)| now.starts_with(before)));
    serve(&folder, &["a.img", "b.img"]).terminate();
}

#[test]
fn halves_that_were_used_alone_do_not_start_together() {
    let folder = created(2);
    for (name, fill) in [("a.img", 1), ("b.img", 2)] {
        let service = serve(&folder, &[name, "--degraded"]);
        client(&folder).write(0, &[fill; BLOCK]);
        service.terminate();
    }
    let error = doubt(&folder, &["a.img", "b.img"]);
    let examined = folder.run(&["examine", "a.img", "b.img"]);
    assert_eq!(examined.status.code(), Some(1));
    let text = String::from_utf8(examined.stdout).unwrap();
    assert_eq!(text.matches(" used without the others").count(), 2, "{text}");
    for text in [&error, &text] {
        assert!(text.contains("its devices do not agree") && !text.contains("in sync"), "{text}");
        assert_eq!(text.matches("img`: diverged: it may have data").count(), 2, "{text}");
    }
    let service = serve(&folder, &["a.img", "b.img", "--discard", "b.img"]);
    assert_reads(&folder, 0, 1);
    wait_until_in_sync(&folder);
    service.terminate();
    serve(&folder, &["a.img", "b.img"]).terminate();
    assert!(data(&folder, "a.img") == data(&folder, "b.img"));
}

#[test]
fn a_copy_and_a_restored_snapshot_are_refused() {
    let folder = created(2);
    fs::copy(folder.path("b.img"), folder.path("copy.img")).unwrap();
    let error = doubt(&folder, &["a.img", "b.img", "copy.img"]);
    assert!(
        error.contains("one of 2 devices that are devid 2, with labels of the same age"),
        "{error}"
    );
    let service = serve(&folder, &["a.img", "b.img"]);
    client(&folder).write(0, &[1; BLOCK]);
    service.terminate();
    // The device that has the current data may come.
    let error = refusal(&folder, &["a.img", "copy.img"]);
    assert!(error.contains("older copy"), "{error}");
    let help = "help: give the device that has the current data of devid 2 in place of `copy.img`";
    assert!(error.contains(help), "{error}");
    let service = serve(&folder, &["a.img", "b.img", "copy.img", "--discard", "copy.img"]);
    let note = "--discard copy.img: it is not used and not changed, because `b.img` is the same";
    assert!(has_line(&service, note), "{:?}", service.lines);
    service.terminate();
}

#[test]
fn a_new_disk_among_members_is_refused_with_the_way_to_use_it() {
    let folder = created(2);
    File::create(folder.path("b.img")).unwrap().set_len(SIZE_BYTES).unwrap();
    for devices in [["a.img", "b.img"], ["b.img", "a.img"]] {
        let serve = [&["serve"][..], &devices, &["--export", "nbd:unix:socket"]].concat();
        let help = "start without it (--degraded), then run `ctl members replace DEVID b.img`";
        folder.refuses(&serve, &["`b.img` has no label, so it is no member of `pair`", help]);
    }
    File::options().write(true).open(folder.path("a.img")).unwrap().set_len(4 << 20).unwrap();
    let serve = ["serve", "a.img", "--degraded", "--export", "nbd:unix:socket"];
    folder.refuses(&serve, &["`a.img` has 4194304 bytes", "`ctl members replace 1 DEVICE`"]);
}

/// Two devices are the same member, and neither is used.
#[test]
fn examine_names_each_device_of_a_member() {
    let folder = created(2);
    fs::copy(folder.path("b.img"), folder.path("copy.img")).unwrap();
    let output = folder.run(&["examine", "a.img", "b.img", "copy.img"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("devid 2: in sync, 24 MiB, 2 devices: `b.img`, `copy.img`"), "{text}");
}

#[test]
fn after_a_kill_the_mirrors_are_made_equal() {
    let folder = created(3);
    // A scan does not take a link for another member.
    std::os::unix::fs::symlink("b.img", folder.path("0.img")).unwrap();
    let service = serve(&folder, &["--scan", "."]);
    client(&folder).write(8 << 20, &[1; BLOCK]);
    assert_eq!(service.stop("-KILL"), None);
    // What a write in flight leaves behind: each mirror has another version of the block.
    for (name, fill) in [("a.img", 3), ("b.img", 4), ("c.img", 5)] {
        let file = File::options().write(true).open(folder.path(name)).unwrap();
        file.write_all_at(&[fill; BLOCK], (DATA + (8 << 20)) as u64).unwrap();
    }
    let service = serve(&folder, &["--scan", ".", "--policy", "round-robin"]);
    assert!(has_line(&service, "mirrors may differ in 4 MiB"), "{:?}", service.lines);
    let first = client(&folder).read(8 << 20, BLOCK)[0];
    assert!((3..6).contains(&first));
    assert_reads(&folder, 8 << 20, first);
    wait_until_in_sync(&folder);
    assert_reads(&folder, 8 << 20, first);
    service.terminate();
    let all = ["a.img", "b.img", "c.img"].map(|name| data(&folder, name));
    assert!(all[0] == all[1] && all[1] == all[2]);
    let service = serve(&folder, &["--scan", "."]);
    assert!(!has_line(&service, "not stopped in"), "{:?}", service.lines);
    service.terminate();
}

#[test]
fn a_read_only_volume_writes_nothing() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    client(&folder).write(0, &[1; BLOCK]);
    assert_eq!(service.stop("-KILL"), None);
    let before = ["a.img", "b.img"].map(|name| fs::read(folder.path(name)).unwrap());
    let service = serve(&folder, &["a.img", "b.img", "--read-only"]);
    assert_reads(&folder, 0, 1);
    let refused = client(&folder).request(NbdRequest::Write, 0, &[2; BLOCK], BLOCK);
    assert_eq!(refused, Err(1), "EPERM");
    client(&folder).flush();
    let status = folder.ctl(&["status"]);
    assert!(status.contains("read-only") && !status.contains("being synchronised"), "{status}");
    for (words, part) in [
        (&["members", "fail", "1"][..], "cannot fail the member: the volume is read"),
        (&["members", "rebuild", "1"], "cannot rebuild the member: the volume is read"),
        (&["members", "replace", "1", "c.img"], "cannot replace the member: the volume is read"),
        (&["members", "add", "c.img"], "cannot add a device: the volume is read-only"),
        (&["policy", "pid", "--keep"], "the policy cannot be kept: the volume is read-only"),
    ] {
        folder.refuses(&[&["ctl", "-c", "control"], words].concat(), &[part, "restart the server"]);
    }
    assert_eq!(folder.ctl(&["status"]), status, "nothing changed");
    service.terminate();
    assert!(before == ["a.img", "b.img"].map(|name| fs::read(folder.path(name)).unwrap()));
}

#[test]
fn options_and_devices_without_effect_are_refused() {
    let folder = created(2);
    let refuses = |words: &[&str], parts: &[&str]| {
        let export = ["--export", "nbd:unix:socket"];
        folder.refuses(&[&["serve"], words, &export].concat(), parts);
    };
    refuses(&[], &["no member is given", "--scan DIR"]);
    refuses(
        &["a.img", "pair.toml"],
        &["`pair.toml` is an array file", "`mirrorball serve a.img b"],
    );
    refuses(&["a.img", "./a.img"], &["`./a.img` is given twice"]);
    refuses(&["gone.img"], &["cannot open `gone.img`: no such file", "--scan DIR"]);
    refuses(&["a.img", "b.img", "--volume", "x"], &["volume `x`", "the volume found is pair"]);
    refuses(&["--scan", ".", "--volume", "x"], &["volume `x`", "the volume found is pair"]);
    refuses(&["a.img", "b.img", "--discard", "c"], &["--discard c", "devices are a.img, b.img"]);
    let pair = ["a.img", "b.img", "--discard", "./a.img"];
    refuses(
        &[&pair[..], &["--read-only"]].concat(),
        &["--discard cannot be used with --read-only"],
    );
    let all = ["every device of the volume `pair` is discarded", "leave out --discard for"];
    refuses(&[&pair[..], &["--discard", "b.img"]].concat(), &all);
    refuses(&["--scan", ".", "--discard", "a.img", "--discard", "b.img"], &all);
    refuses(&["a.img", "--degraded", "--discard", "a.img"], &all);
    fs::create_dir(folder.path("empty")).unwrap();
    refuses(&["--scan", "empty"], &["empty: no member of a volume was found"]);
    refuses(&["empty"], &["`empty` is a folder", "--scan DIR"]);
    refuses(&[""], &["the path of a device is empty", "shell variable"]);
    refuses(&["--scan", "gone"], &["cannot scan `gone`", "help: give a folder"]);
    let backing = ["emulate", "hdd-15k", "--backing", "empty", "--export", "nbd:unix:socket"];
    folder.refuses(&backing, &["--backing: empty is a folder", "for example empty/disk.img"]);
    folder.refuses(&["examine", "a.img", "a.img"], &["a.img is given twice"]);
    let plain = place(2);
    let unlabelled = ["serve", "a.img", "--export", "nbd:unix:socket"];
    plain
        .refuses(&unlabelled, &["`a.img` has no label\n", "`mirrorball create` makes", "destroys"]);
    let same = "profile = \"raid1\"\n[[member]]\npath = \"a.img\"\n[[member]]\npath = \"a.img\"\n";
    fs::write(plain.path("same.toml"), same).unwrap();
    plain.refuses(&["create", "same.toml"], &["`a.img` is given twice"]);
    plain.refuses(&["create", "two-hdd-raid1"], &["is a built-in array", "disk model", "`path`"]);
    plain.refuses(&["create", "pair.toml", "--name", ""], &["--name: the name is empty"]);
    plain.refuses(&["create", "pair.toml", "--name", "a/b"], &["`a/b` contains a slash"]);
    let long = "x".repeat(300);
    plain.refuses(&["create", "pair.toml", "--name", &long], &["the name has 300 bytes, but may"]);
}

#[test]
fn volumes_of_one_name_are_chosen_by_uuid() {
    let folder = created(2);
    for (old, new) in [("a.img", "c.img"), ("b.img", "d.img")] {
        fs::rename(folder.path(old), folder.path(new)).unwrap();
        File::create(folder.path(old)).unwrap().set_len(SIZE_BYTES).unwrap();
    }
    assert!(folder.run(&["create", "pair.toml"]).status.success());
    let both = ["serve", "--scan", ".", "--volume", "pair", "--export", "nbd:unix:socket"];
    folder
        .refuses(&both, &["several volumes have the name `pair`", "give the UUID: --volume UUID"]);
    let both = ["serve", "--scan", ".", "--export", "nbd:unix:socket"];
    folder.refuses(&both, &["belong to several volumes", "choose one with --volume UUID"]);
}

/// The one that is in service is no reason to stop that service.
#[test]
fn one_of_several_volumes_is_chosen_also_if_another_is_in_service() {
    let folder = created(2);
    for (old, new) in [("a.img", "c.img"), ("b.img", "d.img")] {
        fs::rename(folder.path(old), folder.path(new)).unwrap();
        File::create(folder.path(old)).unwrap().set_len(SIZE_BYTES).unwrap();
    }
    assert!(folder.run(&["create", "pair.toml", "--name", "other"]).status.success());
    let service = serve(&folder, &["a.img", "b.img"]);
    let scan = ["serve", "--scan", ".", "--export", "nbd:unix:second"];
    let output = folder.run(&scan);
    let error = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{error}");
    for part in ["several volumes: `other` (", ", `pair` (", "choose one with --volume NAME"] {
        assert!(error.contains(part), "no `{part}` in {error}");
    }
    let second = Service::start(&folder, &[&scan[..], &["--volume", "pair"]].concat());
    second.terminate();
    service.terminate();
}

#[test]
fn what_is_discarded_is_not_called_stale() {
    let folder = created(2);
    let service = serve(&folder, &["--scan", ".", "--volume", "pair", "--discard", "b.img"]);
    assert!(has_line(&service, "its data are discarded (--discard)"), "{:?}", service.lines);
    assert!(!has_line(&service, "stale"), "{:?}", service.lines);
    service.terminate();
}

#[test]
fn examine_shows_labels_for_people_and_programs() {
    let folder = created(2);
    let output = folder.run(&["examine", "a.img", "b.img"]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    for part in ["volume `pair`: it can start", "devid 2: in sync, 24 MiB, b.img", "generation 2"] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    let output = folder.run(&["examine", "a.img", "pair.toml"]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(text.contains("only with --degraded or --read-only"), "{text}");
    let message = stderr(&output);
    assert!(
        message.contains("error: `pair.toml` has no label\n  help: an array file"),
        "{message}"
    );
    // A scan leaves the array file out, and takes a link for the member that it leads to.
    std::os::unix::fs::symlink("a.img", folder.path("link.img")).unwrap();
    let output = folder.run(&["examine", "--scan", "."]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text} {}", stderr(&output));
    assert!(text.contains("volume `pair`: it can start"), "{text}");
    assert!(!text.contains("pair.toml") && stderr(&output).is_empty(), "{text}");
    fs::create_dir(folder.path("empty")).unwrap();
    folder.refuses(&["examine", "--scan", "empty"], &["empty: no member of a volume was found"]);
    folder.refuses(&["examine", "--scan", "gone"], &["cannot scan `gone`"]);
    folder.refuses(&["examine", "--scan", ".", "a.img"], &["cannot be used with"]);
    let output = folder.run(&["examine", "a.img", "pair.toml", "--format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["volumes"][0]["verdict"], "needs-degraded");
    assert_eq!(json["others"][0]["device"], "pair.toml");
}
