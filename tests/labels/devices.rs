//! Which file or device a member is, as `ctl` says it.

use super::*;
use serde_json::Value;

/// The devices of members 1 and 2 as all forms of `ctl members` and `ctl status` have them, by
/// their names in the folder.
fn devices(folder: &Folder) -> [Option<String>; 2] {
    let name = |device: &Value| {
        let device = device.as_str()?;
        let inside = device.strip_prefix(folder.path("").to_str().unwrap());
        Some(inside.expect("an absolute path").to_owned())
    };
    let list = |command| -> Value {
        serde_json::from_str(&folder.ctl(&[command, "--format", "json"])).unwrap()
    };
    let (members, status, text) = (list("members"), list("status"), folder.ctl(&["members"]));
    let device = |row: usize| {
        let device = name(&members[row]["device"]);
        assert_eq!(name(&status["members"][row]["device"]), device, "{status}");
        let line = text.lines().nth(row).unwrap();
        let shown = device.as_ref().map(|device| format!("{}, ", folder.path(device).display()));
        let has_it = shown.is_some_and(|shown| line.contains(&shown));
        assert_eq!(has_it || line.contains("img"), device.is_some(), "{line}");
        device
    };
    [device(0), device(1)]
}

#[test]
fn each_member_is_shown_with_the_device_that_it_has_now() {
    let folder = created(2);
    for name in ["new.img", "spare.img"] {
        File::create(folder.path(name)).unwrap().set_len(SIZE_BYTES).unwrap();
    }
    let image = |name: &str| Some(name.to_owned());
    let service = serve(&folder, &["b.img", "a.img"]);
    assert_eq!(devices(&folder), [image("a.img"), image("b.img")]);
    folder.ctl(&["members", "replace", "1", "new.img"]);
    wait_until_in_sync(&folder);
    assert_eq!(devices(&folder), [image("new.img"), image("b.img")]);
    folder.ctl(&["members", "fail", "2"]);
    assert_eq!(devices(&folder), [image("new.img"), image("b.img")]);
    let failed = format!("devid 2 ({}) has failed", folder.path("b.img").display());
    assert!(folder.ctl(&["status"]).contains(&failed));
    folder.ctl(&["members", "remove", "2"]);
    assert_eq!(devices(&folder), [image("new.img"), None]);
    folder.ctl(&["members", "add", "--spare", "spare.img"]);
    wait_until_in_sync(&folder);
    assert_eq!(devices(&folder), [image("new.img"), image("spare.img")]);
    folder.ctl(&["members", "fail", "2"]);
    folder.ctl(&["members", "rebuild", "2"]);
    wait_until_in_sync(&folder);
    assert_eq!(devices(&folder), [image("new.img"), image("spare.img")]);
    service.terminate();
    let service = serve(&folder, &["new.img", "--degraded"]);
    assert_eq!(devices(&folder), [image("new.img"), None]);
    service.terminate();
}

/// Two of three members went on without the third, and the third without them.
#[test]
fn a_member_that_diverged_from_a_majority_is_left_out_and_named() {
    let folder = created(3);
    for (names, fill) in [(&["a.img", "b.img"][..], 1), (&["c.img"], 2)] {
        let service = serve(&folder, &[names, &["--degraded"]].concat());
        client(&folder).write(0, &[fill; BLOCK]);
        service.terminate();
    }
    let service = serve(&folder, &["c.img", "b.img", "a.img"]);
    assert_reads(&folder, 0, 1);
    let error = "error: the device of devid 3 was used without the others and is left out";
    wait_for_line(&service, error);
    let status = folder.ctl(&["status"]);
    assert!(status.contains(error) && !status.contains("missing"), "{status}");
    assert!(folder.ctl(&["members"]).contains("devid 3: diverged,"));
    for command in [&["rebuild", "3"][..], &["rebuild", "3", "--device", "c.img"]] {
        let refused = folder.run(&[&["ctl", "--control", "control", "members"], command].concat());
        let refused = stderr(&refused);
        assert!(refused.contains("was used without the other"), "{refused}");
        assert!(
            refused.contains("members replace 3 DEVICE --occupied` gives that up"),
            "{refused}"
        );
    }
    service.terminate();
    fs::copy(folder.path("c.img"), folder.path("old.img")).unwrap();
    let service = serve(&folder, &["c.img", "b.img", "a.img", "--discard", "c.img"]);
    wait_until_in_sync(&folder);
    service.terminate();
    assert!(data(&folder, "a.img") == data(&folder, "c.img"));
    let service = serve(&folder, &["a.img", "b.img", "--degraded"]);
    fs::remove_file(folder.path("c.img")).unwrap();
    File::create(folder.path("c.img")).unwrap().set_len(SIZE_BYTES).unwrap();
    folder.ctl(&["members", "replace", "3", "c.img", "--wait"]);
    service.terminate();
    let error = refusal(&folder, &["a.img", "b.img", "old.img"]);
    assert!(error.contains("missing; `old.img`: not a member any more, but it may"), "{error}");
}

#[test]
fn to_wait_for_a_rebuild_fails_for_errors_of_its_member_alone() {
    let folder = created(3);
    let service = serve(&folder, &["a.img", "b.img", "c.img"]);
    for devid in ["2", "3"] {
        folder.ctl(&["members", "fail", devid]);
    }
    for (devid, end) in [("2", "devid 3 ("), ("3", "done")] {
        let wait = ["ctl", "--control", "control", "members", "rebuild", devid, "--wait"];
        let output = folder.run(&wait);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stderr(&output).contains(end), "{}", stderr(&output));
    }
    service.terminate();
}
