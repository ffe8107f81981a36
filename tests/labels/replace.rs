//! Another device in the place of a member: it is rebuilt, and the volume starts with it from then
//! on, whether the old one is there or not.

use super::*;

fn image(folder: &Folder, name: &str, size_bytes: u64) {
    File::create(folder.path(name)).unwrap().set_len(size_bytes).unwrap();
}

/// The error of a request that must be refused.
fn refused(folder: &Folder, arguments: &[&str]) -> String {
    let output = folder.run(&[&["ctl", "--control", "control", "members"], arguments].concat());
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
    stderr(&output)
}

/// A served volume whose member 2 failed and missed a write, and an empty device `new.img`.
fn with_a_failed_member() -> (Folder, Service) {
    let folder = created(2);
    image(&folder, "new.img", SIZE_BYTES);
    let service = serve(&folder, &["a.img", "b.img"]);
    client(&folder).write(0, &[1; BLOCK]);
    folder.ctl(&["members", "fail", "2"]);
    client(&folder).write(0, &[2; BLOCK]);
    (folder, service)
}

#[test]
fn a_failed_member_is_replaced_and_the_old_one_is_left_out() {
    let (folder, service) = with_a_failed_member();
    let text = folder.ctl(&["members", "add", "new.img", "--wait"]);
    assert!(text.contains("new.img` took the place of devid 2 and is being rebuilt"), "{text}");
    assert!(folder.ctl(&["status"]).contains("pair: in sync"));
    service.terminate();
    assert!(data(&folder, "a.img") == data(&folder, "new.img"));
    // The volume starts without the old one and with it, which is not used.
    for devices in [&["a.img", "new.img"][..], &["a.img", "b.img", "new.img"], &["--scan", "."]] {
        let service = serve(&folder, devices);
        let left_out = has_line(&service, "b.img`: not a member any more");
        assert_eq!(left_out, devices.len() != 2 || devices[0] == "--scan", "{:?}", service.lines);
        assert_reads(&folder, 0, 2);
        assert!(folder.ctl(&["status"]).contains("pair: in sync"));
        service.terminate();
    }
    let error = refusal(&folder, &["b.img", "a.img"]);
    for part in ["the member with devid 2 (UUID ", "is missing; `b.img`: not a member any more\n"] {
        assert!(error.contains(part), "no `{part}` in {error}");
    }
}

/// A label knows eight data ids. The disk that was replaced knows none of those of the members.
#[test]
fn a_disk_that_was_replaced_nine_departures_ago_is_left_out_in_either_order() {
    let (folder, service) = with_a_failed_member();
    folder.ctl(&["members", "add", "new.img"]);
    wait_until_in_sync(&folder);
    for fill in 3..12 {
        let devid = ["1", "2"][usize::from(fill) % 2];
        let fail = ["ctl", "--control", "control", "members", "fail", devid];
        // The labels say a moment later that the other member is in sync.
        wait_until("the labels", || folder.run(&fail).status.success());
        client(&folder).write(0, &[fill; BLOCK]);
        folder.ctl(&["members", "rebuild", devid]);
        wait_until_in_sync(&folder);
    }
    service.terminate();
    for devices in [&["b.img", "a.img", "new.img"][..], &["new.img", "a.img", "b.img"]] {
        let service = serve(&folder, devices);
        assert!(has_line(&service, "b.img`: not a member any more"), "{:?}", service.lines);
        assert!(folder.ctl(&["status"]).contains("pair: in sync"));
        assert_reads(&folder, 0, 11);
        service.terminate();
    }
    assert!(data(&folder, "a.img") == data(&folder, "new.img"));
    assert!(data(&folder, "b.img")[..BLOCK] == [1; BLOCK]);
}

/// The message names all, so that the user acts once.
#[test]
fn all_older_copies_are_named_and_given_up_at_once() {
    let folder = created(3);
    let names = ["a.img", "b.img", "c.img"];
    for fill in [1, 2] {
        let service = serve(&folder, &names);
        client(&folder).write(0, &[fill; BLOCK]);
        service.terminate();
        for name in names.iter().filter(|_| fill == 1) {
            fs::copy(folder.path(name), folder.path(&format!("old-{name}"))).unwrap();
        }
    }
    for name in &names[1..] {
        fs::rename(folder.path(&format!("old-{name}")), folder.path(name)).unwrap();
    }
    let error = refusal(&folder, &names);
    for part in [
        "current data of devid 2 and 3 in place of `b.img` and `c.img`; if they",
        "rebuild `b.img` and `c.img` from the others with --discard b.img --discard c.img\n",
    ] {
        assert!(error.contains(part), "no `{part}` in {error}");
    }
    let discard = ["--discard", "b.img", "--discard", "c.img"];
    let service = serve(&folder, &[&names[..], &discard].concat());
    wait_until_in_sync(&folder);
    assert_reads(&folder, 0, 2);
    service.terminate();
}

/// Data that were written to it elsewhere are on no other member, so it is not overwritten unasked.
#[test]
fn a_member_that_was_used_without_the_others_is_not_taken_back() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    client(&folder).write(0, &[1; BLOCK]);
    service.terminate();
    fs::copy(folder.path("b.img"), folder.path("home.img")).unwrap();
    let service = serve(&folder, &["b.img", "--degraded"]);
    client(&folder).write(0, &[2; BLOCK]);
    service.terminate();
    fs::rename(folder.path("b.img"), folder.path("away.img")).unwrap();
    fs::rename(folder.path("home.img"), folder.path("b.img")).unwrap();
    let service = serve(&folder, &["a.img", "b.img"]);
    fs::rename(folder.path("b.img"), folder.path("home.img")).unwrap();
    fs::rename(folder.path("away.img"), folder.path("b.img")).unwrap();
    folder.ctl(&["members", "fail", "2"]);
    client(&folder).write(0, &[3; BLOCK]);
    for command in [&["rebuild", "2"][..], &["replace", "2", "b.img"]] {
        let error = refused(&folder, command);
        assert!(error.contains("was used without the other members since it left"), "{error}");
    }
    folder.ctl(&["members", "replace", "2", "b.img", "--occupied"]);
    wait_until_in_sync(&folder);
    assert_reads(&folder, 0, 3);
    service.terminate();
    assert!(data(&folder, "a.img") == data(&folder, "b.img"));
}

#[test]
fn a_member_that_is_missing_at_the_start_is_replaced() {
    let folder = created(3);
    image(&folder, "new.img", SIZE_BYTES);
    let service = serve(&folder, &["a.img", "b.img", "--degraded"]);
    client(&folder).write(0, &[3; BLOCK]);
    for request in ["rebuild", "fail"] {
        let error = refused(&folder, &[request, "3"]);
        let help = "members rebuild 3 --device DEVICE` copies what it missed";
        assert!(error.contains(help), "{error}");
    }
    wait_for_line(&service, "error: devid 3 is missing");
    let status = folder.ctl(&["status"]);
    assert!(
        status.contains("  error: devid 3 is missing\n    help: connect its device"),
        "{status}"
    );
    assert!(folder.ctl(&["members"]).contains("devid 3: missing,"));
    let json: serde_json::Value =
        serde_json::from_str(&folder.ctl(&["status", "--format", "json"])).unwrap();
    let condition = &json["conditions"][0];
    assert_eq!((&condition["name"], &condition["devid"]), (&"member-missing".into(), &3.into()));
    folder.ctl(&["members", "replace", "3", "new.img"]);
    assert!(!folder.ctl(&["members"]).contains("missing"));
    wait_until_in_sync(&folder);
    // Killed, not stopped: the labels say who is a member.
    service.stop("-KILL");
    let service = serve(&folder, &["new.img", "b.img", "a.img"]);
    assert_reads(&folder, 0, 3);
    service.terminate();
}

/// The counters start at zero when it is back.
#[test]
fn a_member_comes_back_under_another_name_and_gets_what_it_missed() {
    let folder = created(2);
    image(&folder, "new.img", SIZE_BYTES);
    let written = || {
        let text = folder.ctl(&["members", "--format", "json"]);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json[1]["written_bytes"].as_u64().unwrap()
    };
    let service = serve(&folder, &["a.img", "b.img"]);
    for _ in 0..200 {
        client(&folder).write(0, &[1; BLOCK]);
    }
    assert!(written() > 200 * BLOCK as u64);
    let error = refused(&folder, &["rebuild", "2", "--device", "b.img"]);
    assert!(error.contains("has not failed") && error.contains("replace 2 DEVICE`"), "{error}");
    folder.ctl(&["members", "fail", "2"]);
    client(&folder).write(0, &[2; BLOCK]);
    fs::rename(folder.path("b.img"), folder.path("moved.img")).unwrap();
    for other in ["new.img", "a.img"] {
        refused(&folder, &["rebuild", "2", "--device", other]);
    }
    assert!(fs::read(folder.path("new.img")).unwrap().iter().all(|&byte| byte == 0));
    folder.ctl(&["members", "rebuild", "2", "--device", "moved.img"]);
    wait_until_in_sync(&folder);
    assert!(written() < 100 * BLOCK as u64, "{} bytes", written());
    assert!(folder.ctl(&["members"]).contains("moved.img"));
    service.terminate();
    assert!(data(&folder, "a.img") == data(&folder, "moved.img"));
    // As well if it was missing at the start.
    let service = serve(&folder, &["a.img", "--degraded"]);
    client(&folder).write(0, &[3; BLOCK]);
    folder.ctl(&["members", "rebuild", "2", "--device", "moved.img"]);
    wait_until_in_sync(&folder);
    assert!(written() < 100 * BLOCK as u64, "{} bytes", written());
    service.terminate();
    assert!(data(&folder, "a.img") == data(&folder, "moved.img"));
}

/// Until it is replaced, a member is as it was, also after a crash.
#[test]
fn a_member_that_is_replaced_stays_in_use_until_the_new_device_has_all() {
    let folder = created(2);
    image(&folder, "new.img", SIZE_BYTES);
    let service = serve(&folder, &["a.img", "b.img"]);
    client(&folder).write(0, &[4; BLOCK]);
    let text = folder.ctl(&["members", "replace", "1", "new.img", "--rate", "1M"]);
    for part in ["devid 1 is being copied to `", "new.img`, and stays in use until that takes"] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    let status = folder.ctl(&["status"]);
    for part in ["a.img) is being copied to ", "new.img, which takes its place then: ", "in sync"] {
        assert!(status.contains(part), "no `{part}` in {status}");
    }
    let members = folder.ctl(&["members"]);
    assert!(members.contains("devid 1: in sync") && members.contains("a.img"), "{members}");
    let error = refused(&folder, &["replace", "1", "other.img"]);
    assert!(error.contains("devid 1 is being copied to `"), "{error}");
    client(&folder).write(BLOCK as u64, &[5; BLOCK]);
    service.stop("-KILL");
    // The copy begins again by itself.
    let service = serve(&folder, &["a.img", "b.img", "new.img"]);
    wait_until("the end", || folder.ctl(&["events"]).contains("\"member-replaced\""));
    wait_until_in_sync(&folder);
    assert_reads(&folder, BLOCK as u64, 5);
    let (old, new) = ("new.img", "third.img");
    image(&folder, new, SIZE_BYTES);
    folder.ctl(&["members", "replace", "1", new, "--rate", "1M"]);
    for block in 0..100 {
        client(&folder).write(block * BLOCK as u64, &[block as u8; BLOCK]);
    }
    folder.ctl(&["members", "rebuild", "1", "--rate", "1G"]);
    wait_until_in_sync(&folder);
    client(&folder).write(7 * BLOCK as u64, &[9; BLOCK]);
    assert!(folder.ctl(&["members"]).contains(new));
    service.terminate();
    assert!(data(&folder, new) == data(&folder, "b.img"));
    assert!(data(&folder, old)[7 * BLOCK..8 * BLOCK] == [7; BLOCK], "it was in use until then");
    let service = serve(&folder, &[new, "b.img", "a.img", old]);
    for left_out in ["`a.img`: not a member any more", "`new.img`: not a member any more"] {
        assert!(has_line(&service, left_out), "{:?}", service.lines);
    }
    service.terminate();
}

#[test]
fn a_replacement_can_be_ended_and_is_not_taken_for_a_spare() {
    let folder = created(2);
    image(&folder, "new.img", SIZE_BYTES);
    let service = serve(&folder, &["a.img", "b.img"]);
    let replace = ["members", "replace", "1", "new.img", "--rate", "1M"];
    let waiting = [&["ctl", "--wait", "--control", "control"], &replace[..]].concat();
    let waited = std::thread::scope(|scope| {
        let waited = scope.spawn(|| folder.run(&waiting));
        wait_until("the copy", || folder.ctl(&["status"]).contains("is being copied to"));
        let ended = folder.ctl(&["members", "remove", "--spare", "new.img"]);
        assert!(ended.contains("new.img` any more, and stays in use"), "{ended}");
        waited.join().unwrap()
    });
    let text = stderr(&waited);
    assert_eq!(waited.status.code(), Some(1), "{text}");
    assert!(text.contains("new.img` did not take the place of devid 1: the copy was"), "{text}");
    let status = folder.ctl(&["status"]);
    assert!(!status.contains("is being copied to") && !status.contains("spare"), "{status}");

    folder.ctl(&[&replace[..], &["--occupied"]].concat());
    service.stop("-KILL");
    let service = serve(&folder, &["a.img", "b.img"]);
    let missing = "is missing, to which devid 1 was being copied";
    assert!(has_line(&service, missing), "{:?}", service.lines);
    service.terminate();
}

#[test]
fn devices_that_cannot_or_should_not_replace_a_member_are_refused() {
    let folder = created(2);
    for (name, size_bytes) in [("new.img", SIZE_BYTES), ("small.img", SIZE_BYTES / 2)] {
        image(&folder, name, size_bytes);
    }
    image(&folder, "luks.img", SIZE_BYTES);
    let file = File::options().write(true).open(folder.path("luks.img")).unwrap();
    file.write_all_at(b"LUKS\xba\xbe", 0).unwrap();
    let other = "name = \"other\"\nprofile = \"single\"\n[[member]]\npath = \"other.img\"\n";
    fs::write(folder.path("other.toml"), other).unwrap();
    image(&folder, "other.img", SIZE_BYTES);
    assert!(folder.run(&["create", "other.toml"]).status.success());
    let service = serve(&folder, &["a.img", "b.img"]);
    for (arguments, parts) in [
        (&["add", "new.img"][..], &["no member has failed", "members replace"][..]),
        (
            &["replace", "2", "small.img"],
            &["devid 2", "has 12582912 bytes", "enlarge the file: `truncate -s 25165824 /"],
        ),
        (&["replace", "2", "a.img"], &["a.img` is the member with devid 1\n", "no member"]),
        (
            &["replace", "2", "b.img"],
            &[
                "b.img` is the member with devid 2 already",
                "`mirrorball ctl --control control members rebuild 2 --rate BYTES`",
            ],
        ),
        (&["replace", "2", "nosuch"], &["nosuch`: no such file", "truncate -s SIZE FILE"]),
        (&["replace", "2", "."], &["is a folder", "help: give a file in the folder"]),
        (&["replace", "9", "new.img"], &["no member with devid 9"]),
        (&["replace", "2", "luks.img"], &["contains an encrypted volume (LUKS)", "--occupied"]),
        (&["replace", "2", "other.img"], &["a member of the volume `other`", "--occupied"]),
        (&["replace", "2", ""], &["path of a device is empty"]),
        (
            &["replace", "2", "nbd://backup/b"],
            &["cannot be copied to an NBD server: `nbd://backup/b`", "members fail 2`"],
        ),
    ] {
        let error = refused(&folder, arguments);
        assert!(parts.iter().all(|part| error.contains(part)), "{arguments:?}: {error}");
    }
    assert!(folder.ctl(&["status"]).contains("pair: in sync"));
    folder.ctl(&["members", "fail", "2"]);
    // What the device contains may be given up. Then the disk before it may not, without a word.
    folder.ctl(&["members", "replace", "2", "luks.img", "--occupied"]);
    wait_until_in_sync(&folder);
    let error = refused(&folder, &["replace", "2", "b.img"]);
    assert!(error.contains("was a member of this volume"), "{error}");
    service.terminate();
    assert!(data(&folder, "a.img") == data(&folder, "luks.img"));
}

/// `members rebuild` would copy what it missed, and leave the damage.
#[test]
fn a_failed_member_replaced_by_its_own_device_is_copied_whole() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    client(&folder).write(0, &[3; BLOCK]);
    folder.ctl(&["members", "fail", "2"]);
    let file = File::options().write(true).open(folder.path("b.img")).unwrap();
    file.write_all_at(&[9; BLOCK], SIZE_BYTES / 2).unwrap();
    folder.ctl(&["members", "replace", "2", "b.img"]);
    wait_until_in_sync(&folder);
    service.terminate();
    assert!(data(&folder, "a.img") == data(&folder, "b.img"));
}

#[test]
fn emulated_members_are_not_replaced() {
    let folder = Folder::new();
    let places = ["--export", "nbd:unix:socket", "--control", "control", "--backing", "none"];
    let service =
        Service::start(&folder, &[&["emulate", "two-delays-raid1"][..], &places].concat());
    for request in [&["replace", "2", "new.img"][..], &["add", "new.img"]] {
        assert!(refused(&folder, request).contains("emulated have no device"));
    }
    let policy = folder.run(&["ctl", "--control", "control", "policy", "pid", "--keep"]);
    assert_eq!(policy.status.code(), Some(2));
    let message = stderr(&policy);
    assert!(message.contains("emulated members have no labels\n  help: leave out"), "{message}");
    service.terminate();
}

/// A member that may have the only copy of some data keeps its device until the other one is in
/// sync again.
#[test]
fn a_refusal_says_which_rebuild_to_wait_for() {
    let (folder, service) = with_a_failed_member();
    let error = refused(&folder, &["replace", "1", "new.img"]);
    assert!(error.contains("because devid 2 is not in sync\n  help: rebuild devid 2"), "{error}");
    fs::remove_file(folder.path("b.img")).unwrap();
    let error = refused(&folder, &["rebuild", "2"]);
    assert!(error.contains("create a file: `truncate -s 25165824 b.img`, or use anot"), "{error}");
    fs::create_dir(folder.path("b.img")).unwrap();
    let error = refused(&folder, &["rebuild", "2"]);
    assert!(error.contains("put a file or a block device at this path, or use an"), "{error}");
    fs::remove_dir(folder.path("b.img")).unwrap();
    fs::hard_link(folder.path("a.img"), folder.path("b.img")).unwrap();
    assert!(refused(&folder, &["rebuild", "2"]).contains("in use by a server"));
    fs::remove_file(folder.path("b.img")).unwrap();
    image(&folder, "b.img", SIZE_BYTES / 2);
    let error = refused(&folder, &["rebuild", "2"]);
    assert!(error.contains("enlarge it: `truncate -s 25165824 b.img`, or use another"), "{error}");
    image(&folder, "b.img", SIZE_BYTES);
    folder.ctl(&["members", "rebuild", "2", "--rate", "4K"]);
    let error = refused(&folder, &["replace", "1", "new.img"]);
    assert!(error.contains("help: wait for the rebuild of devid 2"), "{error}");
    folder.ctl(&["members", "rebuild", "2", "--rate", "1G"]);
    wait_until_in_sync(&folder);
    service.terminate();
    assert!(data(&folder, "a.img") == data(&folder, "b.img"));
}

/// The events so far: what happened, the name of the condition, and the devid.
fn events(folder: &Folder) -> Vec<String> {
    let text = folder.ctl(&["events"]);
    let line = |line: &str| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(event["number"].is_u64() && event["time_unix_ms"].is_u64(), "{line}");
        let text = |key: &str| event[key].as_str().unwrap_or_default();
        let devid = event["devid"].as_u64().map_or(String::new(), |devid| devid.to_string());
        format!("{} {} {devid}", text("event"), text("name"))
    };
    text.lines().map(line).collect()
}

#[test]
fn a_removed_member_stays_out_until_another_device_takes_its_place() {
    let (folder, service) = with_a_failed_member();
    let error = refused(&folder, &["remove", "1"]);
    assert!(
        error.contains(
            "devid 1 is in use\n  help: `mirrorball ctl --control control members fail 1` stops"
        ),
        "{error}"
    );
    let text = folder.ctl(&["members", "remove", "2"]);
    assert!(text.contains("the device of devid 2 is removed, and is not a member any"), "{text}");
    assert!(folder.ctl(&["members"]).contains("devid 2: removed"));
    let status = folder.ctl(&["status"]);
    assert!(
        status.contains(
            "the device of devid 2 was removed\n    help: `mirrorball ctl --control control members"
        ),
        "{status}"
    );
    let error = refused(&folder, &["remove", "2"]);
    assert!(error.contains("removed already"), "{error}");
    let error = refused(&folder, &["rebuild", "2"]);
    assert!(
        error.contains("`mirrorball ctl --control control members replace 2 DEVICE` rebuilds the"),
        "{error}"
    );
    assert_eq!(
        events(&folder),
        [
            "service-started  ", "began member-failed 2", "ended member-failed 2",
            "began member-removed 2",
        ]
    );
    // The server does not have it open any more.
    let fds = fs::read_dir(format!("/proc/{}/fd", service.id())).unwrap();
    let mut open = fds.filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
    assert!(!open.any(|file| file.ends_with("b.img")));
    service.terminate();
    let service = serve(&folder, &["a.img", "b.img"]);
    assert!(has_line(&service, "b.img`: not a member any more"), "{:?}", service.lines);
    assert!(folder.ctl(&["members"]).contains("devid 2: removed"));
    assert!(
        stdout(&folder.run(&["examine", "a.img"])).contains("devid 2: removed, 24 MiB, no dev")
    );
    let follower = folder.command(&["ctl", "--control", "control", "events", "--follow"]);
    let follower = { follower }.stdout(std::process::Stdio::piped()).spawn().unwrap();
    folder.ctl(&["members", "add", "new.img"]);
    wait_until_in_sync(&folder);
    service.terminate();
    assert!(data(&folder, "a.img") == data(&folder, "new.img"));
    let followed = follower.wait_with_output().unwrap();
    assert_eq!(followed.status.code(), Some(0), "{}", stderr(&followed));
    let text = stdout(&followed);
    for part in [
        "\"began\",\"name\":\"member-removed\"",
        "\"member-replaced\"",
        "\"ended\",\"name\":\"member-rebuilding\"",
        "\"service-stopping\"",
    ] {
        assert!(text.contains(&format!("\"event\":{part}")), "no {part} in {text}");
    }
    assert_eq!(text.lines().count(), text.matches("\"number\"").count());
}

#[test]
fn a_follower_of_events_notices_that_the_service_is_killed() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    let mut follower = folder.command(&["ctl", "--control", "control", "events", "--follow"]);
    let output = (std::process::Stdio::piped(), std::process::Stdio::piped());
    let mut follower = follower.stdout(output.0).stderr(output.1).spawn().unwrap();
    let mut first = [0];
    std::io::Read::read_exact(follower.stdout.as_mut().unwrap(), &mut first).unwrap();
    service.stop("-KILL");
    let followed = follower.wait_with_output().unwrap();
    assert_eq!(followed.status.code(), Some(1));
    assert!(stderr(&followed).contains("without the event that it stops"), "{}", stderr(&followed));
}
