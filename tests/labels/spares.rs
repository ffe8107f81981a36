//! Spares: they take the place of members that fail, over restarts, kills and refusals.

use super::{
    BLOCK, SIZE_BYTES, assert_reads, client, data, has_line, place, serve, wait_until_in_sync,
};
use crate::common::service::wait_until;
use crate::common::{Folder, stderr, stdout};
use std::fs::{self, File};

/// A folder with a volume of two members and a spare.
fn created() -> Folder {
    let folder = place(2);
    let text = fs::read_to_string(folder.path("pair.toml")).unwrap();
    let text = text + "[[spare]]\npath = \"s.img\"\n";
    fs::write(folder.path("pair.toml"), text).unwrap();
    empty(&folder, "s.img", SIZE_BYTES);
    let output = folder.run(&["create", "pair.toml"]);
    let text = stdout(&output);
    for part in ["1 spare takes the place", "mirrorball serve a.img b.img s.img"] {
        assert!(text.contains(part), "{text}");
    }
    folder
}

fn empty(folder: &Folder, name: &str, size_bytes: u64) {
    File::create(folder.path(name)).unwrap().set_len(size_bytes).unwrap();
}

#[test]
fn a_spare_that_is_too_small_is_refused_with_advice() {
    let folder = place(2);
    let text = fs::read_to_string(folder.path("pair.toml")).unwrap();
    fs::write(folder.path("pair.toml"), text + "[[spare]]\npath = \"s.img\"\n").unwrap();
    empty(&folder, "s.img", SIZE_BYTES / 2);
    let error = stderr(&folder.run(&["create", "pair.toml"]));
    for part in ["s.img` has 12 MiB, but the smallest member has 24 MiB", "remove its [[spare]]"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_spare_takes_the_place_of_a_member_that_fails() {
    let folder = created();
    let text = stdout(&folder.run(&["examine", "a.img", "b.img", "s.img"]));
    assert!(text.contains("  spare: 24 MiB, s.img (UUID "), "{text}");
    let service = serve(&folder, &["--scan", "."]);
    assert!(folder.ctl(&["members"]).contains("s.img: ready, 24 MiB"));
    client(&folder).write(0, &[7; BLOCK]);
    folder.ctl(&["members", "fail", "2"]);
    wait_until("the spare", || folder.ctl(&["events"]).contains("member-replaced"));
    wait_until_in_sync(&folder);
    assert!(!folder.ctl(&["members"]).contains("spare "), "it is a member now");
    service.stop("-KILL");
    // The member that failed is not one any more.
    let service = serve(&folder, &["a.img", "b.img", "s.img"]);
    assert!(has_line(&service, "`b.img`: not a member any more"), "{:?}", service.lines);
    wait_until_in_sync(&folder);
    assert_reads(&folder, 0, 7);
    service.terminate();
    assert!(data(&folder, "a.img") == data(&folder, "s.img"));
}

#[test]
fn spares_are_added_and_removed() {
    let folder = created();
    empty(&folder, "t.img", SIZE_BYTES);
    empty(&folder, "small.img", SIZE_BYTES / 2);
    let service = serve(&folder, &["a.img", "b.img", "s.img"]);
    let refused = |device: &str, part: &str| {
        let output =
            folder.run(&["ctl", "--control", "control", "members", "add", "--spare", device]);
        assert!(!output.status.success() && stderr(&output).contains(part), "{}", stderr(&output));
    };
    refused("small.img", "has 12 MiB, but the smallest member needs 24 MiB");
    refused("s.img", "is a spare of the volume already");
    refused("a.img", "is the member with devid 1\n  help: give a device that is no member");
    refused("nosuch.img", "no such file");
    folder.ctl(&["members", "add", "--spare", "t.img"]);
    let added = folder.ctl(&["members"]);
    assert!(added.contains("s.img: ready") && added.contains("t.img: ready"), "{added}");
    folder.ctl(&["members", "remove", "--spare", "s.img"]);
    let output =
        folder.run(&["ctl", "--control", "control", "members", "remove", "--spare", "s.img"]);
    assert!(stderr(&output).contains("is not a spare of the volume"), "{}", stderr(&output));
    let events = folder.ctl(&["events"]);
    assert!(events.contains("spare-added") && events.contains("spare-removed"), "{events}");
    service.terminate();
    let service = serve(&folder, &["a.img", "b.img", "s.img", "t.img"]);
    let note = "`s.img` is not a spare any more: not used";
    assert!(has_line(&service, note), "{:?}", service.lines);
    assert!(folder.ctl(&["members"]).contains("t.img: ready"));
    service.terminate();
    let output = folder.run(&["create", "pair.toml", "--name", "other"]);
    assert!(stderr(&output).contains("a member of the volume `pair`"), "{}", stderr(&output));
}
