//! The only member with some data, whose file is truncated.

use super::truncated::{BEHIND, LEFT_BYTES, fill, set_length};
use super::*;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// next start, though the file is as long again.
#[test]
fn the_last_member_that_is_truncated_is_not_trusted_again() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    fill(&folder);
    wait_until_in_sync(&folder);
    folder.ctl(&["members", "fail", "2"]);
    File::create(folder.path("c.img")).unwrap().set_len(SIZE_BYTES).unwrap();
    folder.ctl(&["members", "replace", "2", "c.img"]);
    folder.ctl(&["members", "rebuild", "2", "--rate", "2MiB"]);
    let read = |offset| client(&folder).request(NbdRequest::Read, offset, &[], BLOCK);
    set_length(&folder, "a.img", LEFT_BYTES);
    assert!(read(BEHIND).is_err());
    set_length(&folder, "a.img", SIZE_BYTES);
    assert!(read(BEHIND).is_err(), "a hole is no data");
    assert_reads(&folder, 0, 1);
    let stalled = "c.img) does not go on: 6291456 of ";
    wait_until("the rebuild to stop", || {
        let status = folder.ctl(&["status"]);
        status.contains(stalled) && status.matches(" %): too few of").count() == 2
    });
    let status = folder.ctl(&["status"]);
    let lost = "a.img) has lost data that no other member in sync has: its file was truncated, \
                and 6 MiB from its start are left";
    assert!(status.contains(lost) && status.contains("reads and 0 writes of clients"), "{status}");
    let check = folder.run(&["ctl", "-c", "control", "status", "--check"]);
    assert_eq!(check.status.code(), Some(1));
    let events = folder.ctl(&["events"]);
    for part in [
        r#""event":"member-damaged","devid":1,"reason":"its file was truncated","left_bytes":6"#,
        r#""event":"requests-failed","reads":"#,
        r#""event":"rebuild-stalled","devid":2,"reason":"too few of"#,
    ] {
        assert!(events.contains(part), "no `{part}` in {events}");
    }
    service.signal("-TERM");
    wait_until("the note", || service.has_printed("it starts again only with another member that"));
    assert!(!service.has_printed("after the next start"), "it is refused");
    assert_eq!(service.exit_code(), Some(0));
    let refused = refusal(&folder, &["a.img", "c.img"]);
    for part in [
        "some of its data are on no member that is in sync",
        "of the member with devid 1 only the first 6 MiB are in sync, because",
        "or start with --read-only, which serves what can be read",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    let service = serve(&folder, &["a.img", "c.img", "--read-only"]);
    assert!(
        has_line(&service, "cannot be read: of the member with devid 1"),
        "{:?}",
        service.lines
    );
    assert_reads(&folder, 0, 1);
    assert!(read(BEHIND).is_err());
    let status = folder.ctl(&["status"]);
    assert!(status.contains("and is not rebuilt while the volume is read-only"), "{status}");
    service.terminate();
}

/// Where it was cut is found before a write makes the file longer.
#[test]
fn a_write_does_not_hide_where_a_file_was_cut() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    for offset in [0, BEHIND] {
        client(&folder).write(offset, &[1; BLOCK]);
    }
    client(&folder).flush();
    wait_until_in_sync(&folder);
    folder.ctl(&["members", "fail", "2"]);
    sleep(Duration::from_millis(10));
    set_length(&folder, "a.img", LEFT_BYTES);
    let write = client(&folder).request(NbdRequest::Write, BEHIND + (4 << 20), &[2; BLOCK], BLOCK);
    assert!(write.is_err());
    let read = client(&folder).request(NbdRequest::Read, BEHIND, &[], BLOCK);
    assert!(read.is_err());
    assert_reads(&folder, 0, 1);
    service.terminate();
}

/// Its rebuild in place needs all of the file, and so does the next start.
#[test]
fn the_file_of_the_last_member_is_as_long_again_once_labels_say_what_is_left() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    fill(&folder);
    wait_until_in_sync(&folder);
    folder.ctl(&["members", "fail", "2"]);
    let half = SIZE_BYTES / 2;
    set_length(&folder, "a.img", half);
    let read = || client(&folder).request(NbdRequest::Read, 0, &[], BLOCK);
    wait_until("the cut to be found", || {
        _ = read();
        folder.ctl(&["status"]).contains("a.img) has lost data")
    });
    let length = || folder.path("a.img").metadata().unwrap().len();
    wait_until("the file to be as long again", || length() == SIZE_BYTES + 4096);
    service.terminate();
    let refused = refusal(&folder, &["a.img"]);
    assert!(refused.contains("only the first 12 MiB are in sync"), "{refused}");
}

/// Of the larger one a part is not used.
#[test]
fn a_sole_member_that_is_cut_behind_all_data_goes_on() {
    let folder = place(2);
    set_length(&folder, "a.img", SIZE_BYTES + (12 << 20));
    assert!(folder.run(&["create", "pair.toml"]).status.success());
    let service = serve(&folder, &["a.img", "b.img"]);
    fill(&folder);
    wait_until_in_sync(&folder);
    folder.ctl(&["members", "fail", "2"]);
    set_length(&folder, "a.img", SIZE_BYTES + (4 << 20));
    assert!(!folder.ctl(&["status"]).contains("has lost data"));
    assert_reads(&folder, BEHIND, 1);
    let length = folder.path("a.img").metadata().unwrap().len();
    assert_eq!(length, SIZE_BYTES + (12 << 20) + 4096);
    service.signal("-KILL");
    let service = serve(&folder, &["a.img", "b.img"]);
    assert_reads(&folder, BEHIND, 1);
    service.terminate();
}

/// The label says that data were lost, and which file has a guard: it still counts.
#[test]
fn the_file_of_the_last_member_is_cut_again_while_it_is_not_served() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    fill(&folder);
    wait_until_in_sync(&folder);
    folder.ctl(&["members", "fail", "2"]);
    let cut_bytes = 16 << 20;
    set_length(&folder, "a.img", cut_bytes);
    let read = |offset| client(&folder).request(NbdRequest::Read, offset, &[], BLOCK);
    assert!(read(cut_bytes).is_err());
    let length = || folder.path("a.img").metadata().unwrap().len();
    wait_until("the file to be as long again", || length() == SIZE_BYTES + 4096);
    assert_reads(&folder, BEHIND, 1);
    service.terminate();
    for length in [LEFT_BYTES, SIZE_BYTES] {
        set_length(&folder, "a.img", length);
    }
    let service = serve(&folder, &["a.img", "--read-only"]);
    assert_reads(&folder, 0, 1);
    assert!(read(BEHIND).is_err(), "a hole is no data");
    service.terminate();
}

/// The file is as long as before, and nobody knows which of its data are left.
#[test]
fn nothing_is_read_from_the_last_member_once_most_of_its_file_was_freed() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    fill(&folder);
    wait_until_in_sync(&folder);
    folder.ctl(&["members", "fail", "2"]);
    let hole = ["--punch-hole", "--offset", "6MiB", "--length", "14MiB"];
    let path = folder.path("a.img");
    assert!(Command::new("fallocate").args(hole).arg(path).status().unwrap().success());
    wait_until("the loss to be found", || folder.ctl(&["status"]).contains("a.img) has lost data"));
    for offset in [0, BEHIND] {
        let read = client(&folder).request(NbdRequest::Read, offset, &[], BLOCK);
        assert!(read.is_err(), "{offset}");
    }
    service.terminate();
}

/// The advice is not to do what was done.
#[test]
fn a_member_of_which_nothing_is_left_is_refused_with_other_advice() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    fill(&folder);
    wait_until_in_sync(&folder);
    folder.ctl(&["members", "fail", "2"]);
    set_length(&folder, "a.img", 0);
    wait_until("the cut to be found", || {
        _ = client(&folder).request(NbdRequest::Read, 0, &[], BLOCK);
        folder.ctl(&["status"]).contains("a.img) has lost data")
    });
    service.terminate();
    let refused = refusal(&folder, &["a.img", "--read-only"]);
    assert!(refused.contains("no member that is there has data in sync"), "{refused}");
    assert!(!refused.contains("--read-only"), "{refused}");
}

/// Of a file that was truncated while it was not served, nothing behind the cut is read either.
#[test]
fn a_truncated_file_is_read_as_far_as_it_goes() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    for offset in [0, BEHIND] {
        client(&folder).write(offset, &[1; BLOCK]);
    }
    service.terminate();
    set_length(&folder, "a.img", LEFT_BYTES);
    let degraded = ["serve", "a.img", "--degraded", "--export", "nbd:unix:socket"];
    folder.refuses(&degraded, &["if it is the only copy, --read-only serves what can be read"]);
    let service = serve(&folder, &["a.img", "--read-only"]);
    assert!(has_line(&service, "what is missing is not read from it"), "{:?}", service.lines);
    let behind = || client(&folder).request(NbdRequest::Read, BEHIND, &[], BLOCK);
    assert!(behind().is_err());
    assert_reads(&folder, 0, 1);
    set_length(&folder, "a.img", SIZE_BYTES);
    assert!(behind().is_err(), "a hole is no data");
    service.terminate();
    // Before the first read, too.
    set_length(&folder, "a.img", LEFT_BYTES);
    let service = serve(&folder, &["a.img", "--read-only"]);
    set_length(&folder, "a.img", SIZE_BYTES);
    assert!(behind().is_err());
    service.terminate();
    set_length(&folder, "a.img", LEFT_BYTES);
    let service = serve(&folder, &["a.img", "b.img", "--read-only"]);
    assert_reads(&folder, BEHIND, 1);
    service.terminate();
}

/// Its length says that only what is not used is gone.
#[test]
fn a_larger_member_that_is_cut_into_its_data_and_made_longer_is_not_read() {
    let folder = place(2);
    set_length(&folder, "a.img", SIZE_BYTES + (12 << 20));
    assert!(folder.run(&["create", "pair.toml"]).status.success());
    let service = serve(&folder, &["a.img", "b.img"]);
    fill(&folder);
    wait_until_in_sync(&folder);
    folder.ctl(&["status"]);
    for length in [LEFT_BYTES, SIZE_BYTES + (4 << 20)] {
        set_length(&folder, "a.img", length);
    }
    let status = folder.ctl(&["status"]);
    assert!(status.contains("a.img) has failed: its file was truncated"), "{status}");
    assert_reads(&folder, BEHIND, 1);
    // The sole member, and not up to its data.
    for length in [LEFT_BYTES, BEHIND + (4 << 20)] {
        set_length(&folder, "b.img", length);
    }
    assert!(folder.ctl(&["status"]).contains("b.img) has lost data"));
    assert!(client(&folder).request(NbdRequest::Read, BEHIND, &[], BLOCK).is_err());
    assert_reads(&folder, 0, 1);
    service.terminate();
}
