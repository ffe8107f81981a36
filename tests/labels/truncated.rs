//! Members whose files are truncated while the volume is served.

use super::*;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// Where the second block is that the tests write.
pub(super) const BEHIND: u64 = 8 << 20;
/// What is left of the file.
pub(super) const LEFT_BYTES: u64 = 6 << 20;

/// Writes the whole volume.
pub(super) fn fill(folder: &Folder) {
    let mut client = client(folder);
    for offset in (0..SIZE_BYTES - DATA as u64).step_by(BLOCK) {
        client.write(offset, &[1; BLOCK]);
    }
    client.flush();
}

pub(super) fn set_length(folder: &Folder, name: &str, length: u64) {
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
    assert!(folder.ctl(&["status"]).contains("b.img) has failed: its file was truncated"));
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
    assert!(status.contains("a.img) has failed: its file was truncated"), "{status}");
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
    assert!(status.contains("b.img) has failed: its file was truncated"), "{status}");
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
    assert!(status.contains("b.img) has failed: its file was truncated"), "{status}");
    assert_reads(&folder, BEHIND, 1);
    cut("a.img", SIZE_BYTES);
    assert!(folder.ctl(&["status"]).contains("a.img) has lost data"));
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
    assert!(status.contains("b.img) has failed: its file was truncated"), "{status}");
    cut("a.img");
    assert!(folder.ctl(&["status"]).contains("a.img) has lost data"));
    let read = client(&folder).request(NbdRequest::Read, 20 << 20, &[], BLOCK);
    assert!(read.is_err());
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
        // The label that says that it failed may be under way to it.
        let rebuild = ["ctl", "-c", "control", "members", "rebuild", "1"];
        wait_until("the rebuild to start", || folder.run(&rebuild).status.success());
        wait_until_in_sync(&folder);
        service.terminate();
    }
}
