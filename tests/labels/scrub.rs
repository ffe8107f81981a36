//! Scrubs: what differs is found, and repaired where it is known which mirror is right.

use super::*;

/// Has a scrub run to its end, and returns what it found.
pub(super) fn scrub(folder: &Folder, arguments: &[&str]) -> String {
    folder.ctl(&[&["scrub", "start"], arguments].concat());
    wait_until("the scrub", || folder.ctl(&["scrub"]).contains("scrub finished: "));
    folder.ctl(&["scrub", "status"])
}

#[test]
fn a_scrub_finds_what_differs_and_repairs_it_on_request() {
    let folder = created(2);
    let check = || {
        let status = ["ctl", "--control", "control", "scrub", "status", "--check"];
        folder.run(&status).status.code()
    };
    let service = serve(&folder, &["a.img", "b.img"]);
    client(&folder).write(0, &[1; BLOCK]);
    assert_eq!(folder.ctl(&["scrub"]), "no scrub yet\n");
    assert_eq!(check(), Some(1), "nothing was compared");
    assert!(scrub(&folder, &[]).contains("(100.0 %)\n  no mirrors differ\n"));
    service.terminate();
    let file = File::options().write(true).open(folder.path("b.img")).unwrap();
    for offset in [100, 8192 + 5] {
        file.write_all_at(&[9], DATA as u64 + offset).unwrap();
    }
    let service = serve(&folder, &["a.img", "b.img"]);
    assert!(folder.ctl(&["status"]).contains("no mirrors differ"), "the labels keep the last one");
    assert_eq!(check(), Some(0));
    let found = scrub(&folder, &[]);
    assert!(found.contains("differed in 2 blocks of 4 KiB\n"), "{found}");
    assert!(found.contains("2 blocks of 4 KiB left as they were\n"), "{found}");
    assert!(found.contains("scrub start --repair --from DEVID` copies its data"), "{found}");
    for range in ["bytes 0 to 4095", "bytes 8192 to 12287"] {
        let line = format!("  {range} of the volume: mirrors differ\n");
        assert!(found.contains(&line), "no `{line}` in {found}");
    }
    assert_eq!(check(), Some(1));
    service.terminate();
    assert!(data(&folder, "a.img") != data(&folder, "b.img"));
    let service = serve(&folder, &["a.img", "b.img"]);
    assert_eq!(check(), Some(1), "it is kept over a restart");
    let refused = ["ctl", "--control", "control", "scrub", "start", "--repair"];
    let error = stderr(&folder.run(&refused));
    assert!(error.contains("nothing shows which of them is right"), "{error}");
    let found = scrub(&folder, &["--repair", "--from", "1"]);
    assert!(found.contains("  2 blocks of 4 KiB repaired\n"), "{found}");
    assert_eq!(check(), Some(0));
    assert!(scrub(&folder, &[]).contains("no mirrors differ"));
    assert_eq!(check(), Some(0));
    service.terminate();
    assert!(data(&folder, "a.img") == data(&folder, "b.img"));
    assert_eq!(data(&folder, "b.img")[8192 + 5], 1, "the good copy is kept");
}

#[test]
fn a_scrub_repairs_from_most_mirrors_and_names_the_odd_one() {
    let folder = created(3);
    let service = serve(&folder, &["--scan", "."]);
    client(&folder).write(0, &[1; BLOCK]);
    service.terminate();
    let file = File::options().write(true).open(folder.path("a.img")).unwrap();
    file.write_all_at(&[9], DATA as u64 + 100).unwrap();
    let service = serve(&folder, &["--scan", "."]);
    let found = scrub(&folder, &["--repair"]);
    assert!(found.contains("devid 1 differed from most mirrors in 1 block of 4 KiB"), "{found}");
    service.terminate();
    for name in ["a.img", "b.img", "c.img"] {
        assert!(data(&folder, name)[..BLOCK] == [1; BLOCK], "{name}");
    }
}

#[test]
fn a_scrub_of_a_single_mirror_is_refused() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    folder.ctl(&["members", "fail", "2"]);
    let output = folder.run(&["ctl", "--control", "control", "scrub", "start"]);
    assert_eq!(output.status.code(), Some(2));
    let message = stderr(&output);
    assert!(message.contains("no two mirrors are in sync"), "{message}");
    assert!(message.contains("help: wait until no member is being rebuilt"), "{message}");
    service.terminate();
}

#[test]
fn a_scrub_is_paused_and_goes_on_over_restarts() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    folder.ctl(&["scrub", "start", "--rate", "2M"]);
    let has_begun = || !folder.ctl(&["scrub"]).contains(": 0 of");
    wait_until("the first step", has_begun);
    let refused = ["ctl", "--control", "control", "scrub", "start"];
    assert_eq!(folder.run(&refused).status.code(), Some(2), "one at a time");
    assert!(folder.ctl(&["scrub", "pause"]).contains("scrub paused: "));
    service.terminate();
    let service = serve(&folder, &["a.img", "b.img"]);
    let status = folder.ctl(&["scrub"]);
    assert!(status.contains("scrub paused: ") && has_begun(), "{status}");
    assert!(folder.ctl(&["scrub", "resume"]).contains("scrub running: "));
    service.terminate();
    let service = serve(&folder, &["a.img", "b.img"]);
    assert!(folder.ctl(&["scrub"]).contains("scrub running: ") && has_begun());
    let check = ["ctl", "--control", "control", "scrub", "status", "--check"];
    let fails = |reason| {
        let output = folder.run(&check);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(stderr(&output).contains(reason), "{output:?}");
    };
    fails("note: no scrub has finished yet");
    assert!(folder.ctl(&["scrub", "cancel"]).contains("scrub cancelled: "));
    fails("note: the last scrub was cancelled");
    scrub(&folder, &[]);
    folder.ctl(&["scrub", "start", "--rate", "2M"]);
    folder.ctl(&["scrub", "pause"]);
    fails("note: the scrub is paused\n  help: `mirrorball ctl --control control scrub resume`");
    // The one before is remembered over a restart.
    service.terminate();
    let service = serve(&folder, &["a.img", "b.img"]);
    folder.ctl(&["scrub", "resume"]);
    assert_eq!(folder.run(&check).status.code(), Some(0), "one has finished");
    folder.ctl(&["scrub", "cancel"]);
    let refused = ["ctl", "--control", "control", "scrub", "resume"];
    assert_eq!(folder.run(&refused).status.code(), Some(2));
    service.terminate();
}

/// The members that have the record leave one after the other.
#[test]
fn a_member_that_joins_gets_the_result_of_the_last_scrub() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    client(&folder).write(0, &[1; BLOCK]);
    let found = scrub(&folder, &[]);
    for (devid, name) in [("1", "c.img"), ("2", "d.img")] {
        File::create(folder.path(name)).unwrap().set_len(SIZE_BYTES).unwrap();
        folder.ctl(&["members", "replace", devid, name]);
        wait_until_in_sync(&folder);
    }
    service.terminate();
    let service = serve(&folder, &["c.img", "d.img"]);
    assert_eq!(folder.ctl(&["scrub"]), found);
    service.terminate();
}

/// The scrub has more to do than the rebuild.
#[test]
fn a_device_that_is_added_is_waited_for_and_no_scrub() {
    let folder = created(3);
    File::create(folder.path("new.img")).unwrap().set_len(SIZE_BYTES).unwrap();
    let service = serve(&folder, &["a.img", "b.img", "c.img"]);
    folder.ctl(&["members", "fail", "2"]);
    folder.ctl(&["scrub", "start", "--rate", "512K"]);
    let text = folder.ctl(&["members", "add", "new.img", "--wait"]);
    assert!(text.contains("new.img` took the place of devid 2"), "{text}");
    let status = folder.ctl(&["status"]);
    assert!(status.contains("pair: in sync"), "{status}");
    assert!(folder.ctl(&["scrub"]).contains("running"));
    service.terminate();
}
