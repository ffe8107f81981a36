//! Members whose files are truncated while the volume is served.

use super::*;
use std::process::Command;
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
    let stalled = "the rebuild of devid 2 does not go on: 6291456 of ";
    wait_until("the rebuild to stop", || {
        let status = folder.ctl(&["status"]);
        status.contains(stalled) && status.matches(" %): too few of").count() == 2
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
    service.signal("-TERM");
    wait_until("the note", || service.has_printed("it starts again only with another member that"));
    assert!(!service.has_printed("after the next start"), "it is refused");
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

/// No write of the volume reaches the end of a file, so none hides that it was cut.
#[test]
fn a_file_is_longer_than_its_member_while_it_has_a_label() {
    let folder = created(2);
    let lengths = || ["a.img", "b.img"].map(|name| folder.path(name).metadata().unwrap().len());
    assert_eq!(lengths(), [SIZE_BYTES; 2]);
    let service = serve(&folder, &["a.img", "b.img", "--read-only"]);
    assert_eq!(lengths(), [SIZE_BYTES; 2], "nothing is changed");
    service.terminate();
    let service = serve(&folder, &["a.img", "b.img"]);
    assert_eq!(lengths(), [SIZE_BYTES + 4096; 2]);
    client(&folder).write(0, &[1; BLOCK]);
    folder.ctl(&["status"]);
    // Without them it may have been shorter meanwhile.
    set_length(&folder, "a.img", SIZE_BYTES);
    let status = folder.ctl(&["status"]);
    assert!(status.contains("devid 1 has failed: its file was truncated"), "{status}");
    folder.ctl(&["members", "rebuild", "1"]);
    wait_until_in_sync(&folder);
    assert_eq!(lengths(), [SIZE_BYTES + 4096; 2]);
    folder.ctl(&["members", "fail", "2"]);
    File::create(folder.path("c.img")).unwrap().set_len(SIZE_BYTES).unwrap();
    folder.ctl(&["members", "replace", "2", "c.img"]);
    assert_eq!(folder.path("c.img").metadata().unwrap().len(), SIZE_BYTES + 4096);
    service.terminate();
    assert!(folder.run(&["clear", "a.img", "b.img"]).status.success());
    assert_eq!(lengths(), [SIZE_BYTES; 2]);
}

/// What it missed is not all that it lacks: it does not get only that.
#[test]
fn a_member_that_is_truncated_while_it_is_failed_is_rebuilt_whole() {
    let folder = created(2);
    let cut = |is_served: bool| {
        let service = serve(&folder, &["a.img", "b.img"]);
        fill(&folder);
        wait_until_in_sync(&folder);
        folder.ctl(&["members", "fail", "2"]);
        client(&folder).write(0, &[1; BLOCK]);
        match is_served {
            true => {
                set_length(&folder, "b.img", LEFT_BYTES);
                service
            }
            false => {
                service.terminate();
                set_length(&folder, "b.img", LEFT_BYTES);
                let service = serve(&folder, &["a.img", "b.img"]);
                assert!(
                    has_line(&service, "the volume starts without the member with devid 2"),
                    "{:?}",
                    service.lines
                );
                service
            }
        }
    };
    for is_served in [true, false] {
        let service = cut(is_served);
        folder.ctl(&["members", "rebuild", "2"]);
        wait_until_in_sync(&folder);
        folder.ctl(&["members", "fail", "1"]);
        assert_reads(&folder, BEHIND, 1);
        assert_reads(&folder, 0, 1);
        folder.ctl(&["members", "rebuild", "1"]);
        wait_until_in_sync(&folder);
        service.terminate();
    }
}

/// Who makes a file as long again as it was created did not do it well: it was longer.
#[test]
fn a_file_that_was_cut_and_made_as_long_again_is_not_read() {
    let folder = created(2);
    let cut = || [LEFT_BYTES, SIZE_BYTES].map(|length| set_length(&folder, "b.img", length));
    let service = serve(&folder, &["a.img", "b.img"]);
    fill(&folder);
    folder.ctl(&["status"]);
    cut();
    let status = folder.ctl(&["status"]);
    assert!(status.contains("devid 2 has failed: its file was truncated"), "{status}");
    for _ in 0..2 {
        folder.ctl(&["members", "rebuild", "2"]);
        wait_until_in_sync(&folder);
        folder.ctl(&["members", "fail", "1"]);
        assert_reads(&folder, BEHIND, 1);
        folder.ctl(&["members", "rebuild", "1"]);
        wait_until_in_sync(&folder);
        folder.ctl(&["members", "fail", "2"]);
        // While it has failed, too.
        cut();
    }
    folder.ctl(&["members", "rebuild", "2"]);
    wait_until_in_sync(&folder);
    service.terminate();
    // And while the volume is not served.
    cut();
    let both = ["serve", "a.img", "b.img", "--export", "nbd:unix:socket"];
    folder.refuses(&both, &["was truncated and made longer again"]);
    let examined = folder.run(&["examine", "a.img", "b.img"]);
    assert_eq!(examined.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&examined.stdout).contains("smaller than it was"));
    let service = serve(&folder, &["a.img", "b.img", "--read-only"]);
    assert!(has_line(&service, "only what seems to be left is read from it"));
    assert_reads(&folder, BEHIND, 1);
    service.terminate();
    let service = serve(&folder, &["a.img", "--degraded"]);
    client(&folder).write(BEHIND, &[2; BLOCK]);
    service.terminate();
    let service = serve(&folder, &["a.img", "b.img"]);
    assert!(has_line(&service, "`ctl members rebuild 2` copies all of it"), "{:?}", service.lines);
    folder.ctl(&["members", "rebuild", "2"]);
    wait_until_in_sync(&folder);
    service.terminate();
    // As the refusal says, for who knows that nothing is lost.
    set_length(&folder, "b.img", SIZE_BYTES);
    folder.refuses(&both, &[&format!("truncate -s {}", SIZE_BYTES + 4096)]);
    set_length(&folder, "b.img", SIZE_BYTES + 4096);
    let service = serve(&folder, &["a.img", "b.img"]);
    folder.ctl(&["members", "fail", "1"]);
    assert_reads(&folder, BEHIND, 2);
    service.terminate();
}

/// Its rebuild in place needs all of the file, and so does the next start.
#[test]
fn the_file_of_the_last_member_is_as_long_again_once_labels_say_what_is_left() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    client(&folder).write(0, &[1; BLOCK]);
    wait_until_in_sync(&folder);
    folder.ctl(&["members", "fail", "2"]);
    let half = SIZE_BYTES / 2;
    set_length(&folder, "a.img", half);
    let read = || client(&folder).request(NbdRequest::Read, 0, &[], BLOCK);
    wait_until("the cut to be found", || {
        _ = read();
        folder.ctl(&["status"]).contains("devid 1 has lost data")
    });
    let length = || folder.path("a.img").metadata().unwrap().len();
    wait_until("the file to be as long again", || length() == SIZE_BYTES + 4096);
    service.terminate();
    let refused = refusal(&folder, &["a.img"]);
    assert!(refused.contains("only the first 12 MiB are in sync"), "{refused}");
}

/// What is allocated is no data.
#[test]
fn a_file_that_was_cut_and_allocated_again_is_not_read() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    fill(&folder);
    wait_until_in_sync(&folder);
    let cut = |name: &str, length: u64| {
        set_length(&folder, name, LEFT_BYTES);
        let allocate = ["--length", &length.to_string()];
        let mut command = Command::new("fallocate");
        assert!(command.args(allocate).arg(folder.path(name)).status().unwrap().success());
    };
    cut("b.img", SIZE_BYTES);
    let status = folder.ctl(&["status"]);
    assert!(status.contains("devid 2 has failed: its file was truncated"), "{status}");
    assert_reads(&folder, BEHIND, 1);
    cut("a.img", SIZE_BYTES);
    assert!(folder.ctl(&["status"]).contains("devid 1 has lost data"));
    assert!(client(&folder).request(NbdRequest::Read, BEHIND, &[], BLOCK).is_err());
    assert_reads(&folder, 0, 1);
    service.terminate();
}

/// Its length is what it was, and less is allocated for it.
#[test]
fn a_file_that_lost_a_part_of_what_was_allocated_is_not_read() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    fill(&folder);
    wait_until_in_sync(&folder);
    let cut = |name| [20 << 20, SIZE_BYTES + 4096].map(|length| set_length(&folder, name, length));
    folder.ctl(&["status"]);
    cut("b.img");
    let status = folder.ctl(&["status"]);
    assert!(status.contains("devid 2 has failed: its file was truncated"), "{status}");
    cut("a.img");
    assert!(folder.ctl(&["status"]).contains("devid 1 has lost data"));
    let read = client(&folder).request(NbdRequest::Read, 20 << 20, &[], BLOCK);
    assert!(read.is_err());
    assert_reads(&folder, BEHIND, 1);
    service.terminate();
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
    [LEFT_BYTES, SIZE_BYTES].map(|length| set_length(&folder, "a.img", length));
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
    wait_until("the loss to be found", || {
        folder.ctl(&["status"]).contains("devid 1 has lost data")
    });
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
        folder.ctl(&["status"]).contains("devid 1 has lost data")
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

/// Read-only, no member is left out: each may have data that another lacks.
#[test]
fn of_two_truncated_files_all_that_is_left_is_read() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    for offset in [0, 4 << 20, BEHIND] {
        client(&folder).write(offset, &[1; BLOCK]);
    }
    service.terminate();
    set_length(&folder, "a.img", LEFT_BYTES);
    set_length(&folder, "b.img", LEFT_BYTES / 2);
    let service = serve(&folder, &["a.img", "b.img", "--read-only"]);
    assert_reads(&folder, 0, 1);
    assert_reads(&folder, 4 << 20, 1);
    assert!(client(&folder).request(NbdRequest::Read, BEHIND, &[], BLOCK).is_err());
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

/// A folder that is scanned has it even if the user would leave it out.
#[test]
fn the_error_about_a_short_device_names_a_start_without_it() {
    for (devices, device) in [(["a.img", "b.img"], "a.img"), (["--scan", "."], "./a.img")] {
        let folder = created(2);
        set_length(&folder, "a.img", LEFT_BYTES);
        let start = ["serve", "--export", "nbd:unix:socket"];
        let help = format!("start with --discard {device} and rebuild the member: `ctl members");
        for more in [&[][..], &["--degraded"]] {
            folder.refuses(&[&start, &devices[..], more].concat(), &[&help]);
        }
        let service = serve(&folder, &[&devices[..], &["--discard", device]].concat());
        assert!(!has_line(&service, "is rebuilt from the other"), "{:?}", service.lines);
        for note in ["its data are discarded (--discard)", "`ctl members rebuild 1` copies all"] {
            assert!(has_line(&service, note), "{:?}", service.lines);
        }
        folder.ctl(&["members", "rebuild", "1"]);
        wait_until_in_sync(&folder);
        service.terminate();
    }
}
