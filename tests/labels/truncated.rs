//! Members whose files are truncated while the volume is served.

use super::*;
use std::thread::sleep;
use std::time::Duration;

/// Where the second block is that the tests write.
const BEHIND: u64 = 8 << 20;
/// What is left of the file.
const LEFT_BYTES: u64 = 6 << 20;

/// Writes the whole volume.
fn fill(folder: &Folder) {
    let mut client = client(folder);
    for offset in (0..SIZE_BYTES - DATA as u64).step_by(BLOCK) {
        client.write(offset, &[1; BLOCK]);
    }
    client.flush();
}

fn set_length(folder: &Folder, name: &str, length: u64) {
    File::options().write(true).open(folder.path(name)).unwrap().set_len(length).unwrap();
}

/// A member that was seen to be truncated says so by itself, so that it does not start alone.
#[test]
fn a_truncated_member_does_not_start_by_itself() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    fill(&folder);
    set_length(&folder, "b.img", LEFT_BYTES);
    // Though nothing reads or writes it.
    assert!(folder.ctl(&["status"]).contains("devid 2 has failed: its file was truncated"));
    set_length(&folder, "b.img", SIZE_BYTES);
    folder.ctl(&["status"]);
    service.terminate();
    let refused = refusal(&folder, &["b.img", "--degraded"]);
    assert!(refused.contains("cannot start"), "{refused}");
    let service = serve(&folder, &["a.img", "b.img"]);
    wait_until_in_sync(&folder);
    folder.ctl(&["members", "fail", "1"]);
    assert_reads(&folder, BEHIND, 1);
    service.terminate();
}

/// Nothing that was cut off is read as zeroes: not while the volume is served, and not after the
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
    let stalled = "rebuilding devid 2: 6291456 of ";
    wait_until("the rebuild to stop", || {
        let status = folder.ctl(&["status"]);
        status.contains(stalled) && status.matches("it does not go on: too few").count() == 2
    });
    let status = folder.ctl(&["status"]);
    let lost = "devid 1 has lost data that no other member in sync has: its file was truncated, \
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
    service.terminate();
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

/// A member that got what it had missed lacks more than that once it is truncated.
#[test]
fn a_member_that_caught_up_is_not_called_in_sync_after_it_is_truncated() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    fill(&folder);
    wait_until_in_sync(&folder);
    folder.ctl(&["members", "fail", "1"]);
    client(&folder).write(0, &[1; BLOCK]);
    folder.ctl(&["members", "rebuild", "1"]);
    wait_until_in_sync(&folder);
    let is_idle = || !folder.ctl(&["status"]).contains("after a crash now");
    wait_until("the log to be empty", is_idle);
    folder.ctl(&["members", "fail", "2"]);
    // The map of missed writes begins with the first.
    client(&folder).write(0, &[1; BLOCK]);
    client(&folder).flush();
    wait_until("the log to be empty", is_idle);
    let behind = || client(&folder).request(NbdRequest::Read, BEHIND, &[], BLOCK);
    set_length(&folder, "a.img", LEFT_BYTES);
    assert!(behind().is_err());
    set_length(&folder, "a.img", SIZE_BYTES);
    sleep(Duration::from_secs(1));
    assert!(behind().is_err(), "{}", folder.ctl(&["status"]));
    assert_reads(&folder, 0, 1);
    service.terminate();
    assert!(refusal(&folder, &["a.img"]).contains("only the first 6 MiB are in sync"));
    // The other one has all, and is copied.
    let service = serve(&folder, &["a.img", "b.img", "--discard", "a.img", "--degraded"]);
    wait_until_in_sync(&folder);
    assert_reads(&folder, BEHIND, 1);
    service.terminate();
}
