//! Checksums of the data: what a disk returns wrong is read from another mirror and repaired.

use super::*;
use std::io::{Read, Write};
use std::net::TcpStream;

const CHECKSUM_BLOCK: u64 = 4096;
/// The error of a request that cannot be read.
const EIO: u32 = 5;

/// A volume with checksums of the members `a.img`, `b.img` and so on.
fn checksummed(profile: &str, names: &[&str]) -> Folder {
    let folder = Folder::new();
    let mut text = format!("profile = \"{profile}\"\n");
    for name in names {
        text += &format!("[[member]]\npath = \"{name}\"\n");
        File::create(folder.path(name)).unwrap().set_len(SIZE_BYTES).unwrap();
    }
    fs::write(folder.path("pair.toml"), text).unwrap();
    let output = folder.run(&["create", "pair.toml", "--checksums"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("checksums of the data take 1 MiB of each member"));
    folder
}

/// Changes a bit of the data in this block on a member, behind the back of the volume.
fn damage(folder: &Folder, name: &str, block: u64) {
    let file = File::options().read(true).write(true).open(folder.path(name)).unwrap();
    let (offset, mut byte) = (DATA as u64 + block * CHECKSUM_BLOCK + 77, [0]);
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 4], offset).unwrap();
}

fn served(folder: &Folder) -> Service {
    serve(folder, &["a.img", "b.img", "--policy", "round-robin", "--metrics", "0"])
}

/// A volume whose first block of the tests has this data, stopped in good order.
fn written(fill: u8) -> Folder {
    let folder = checksummed("raid1", &["a.img", "b.img"]);
    let service = served(&folder);
    client(&folder).write(0, &[fill; BLOCK]);
    service.terminate();
    folder
}

fn block(fill: u8) -> Vec<u8> {
    vec![fill; CHECKSUM_BLOCK as usize]
}

fn metrics(service: &Service) -> String {
    let mut socket = TcpStream::connect(service.metrics_address()).unwrap();
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

/// Scrubs; returns the exit code of `status --check` then.
fn scrubbed(folder: &Folder, options: &[&str]) -> Option<i32> {
    folder.ctl(&[&["scrub", "start"], options].concat());
    wait_until("the scrub", || folder.ctl(&["scrub"]).contains("scrub finished"));
    folder.run(&["ctl", "-c", "control", "status", "--check"]).status.code()
}

#[test]
fn damaged_data_are_read_from_the_other_mirror_and_repaired() {
    let folder = written(7);
    for (name, at) in [("a.img", 0), ("b.img", 3), ("a.img", 9)] {
        damage(&folder, name, at);
    }
    let service = served(&folder);
    assert_reads(&folder, 0, 7);
    let status = folder.ctl(&["status"]);
    assert!(status.contains("  checksums: reads are verified\n"), "{status}");
    let members = folder.ctl(&["members"]);
    let counts: Vec<&str> = members.lines().map(|it| it.rsplit(", ").next().unwrap()).collect();
    assert_eq!(counts, ["2 bad checksums", "1 bad checksums"], "{members}");
    let events = folder.ctl(&["events"]);
    assert!(
        events.contains("\"name\":\"checksum-mismatch\",\"severity\":\"warning\",\"devid\":2,"),
        "{events}"
    );
    let status = folder.ctl(&["status"]);
    assert!(
        status.contains("a.img): 2 blocks of 4 KiB did not match their checksums\n"),
        "{status}"
    );
    assert_eq!(scrubbed(&folder, &[]), Some(0), "all was checked since");
    damage(&folder, "b.img", 5);
    assert_eq!(scrubbed(&folder, &[]), Some(1), "it found damage");
    assert_eq!(scrubbed(&folder, &[]), Some(0), "it found none");
    let metrics = metrics(&service);
    assert!(metrics.contains("mirrorball_volume_checksums 1"), "{metrics}");
    assert!(metrics.contains("mirrorball_member_mismatched_blocks_total{devid=\"1\"} 2"));
    service.terminate();
    for name in ["a.img", "b.img"] {
        assert!(data(&folder, name)[..BLOCK] == [7; BLOCK], "{name} is repaired");
    }
}

#[test]
fn a_device_that_takes_a_place_has_no_mismatches() {
    let folder = written(7);
    let service = served(&folder);
    let is_mismatched = || folder.ctl(&["status"]).contains("img): 1 block of 4 KiB did not match");
    damage(&folder, "b.img", 1);
    assert_eq!((scrubbed(&folder, &[]), is_mismatched()), (Some(1), true));
    File::create(folder.path("c.img")).unwrap().set_len(SIZE_BYTES).unwrap();
    folder.ctl(&["members", "replace", "2", "c.img", "--wait"]);
    assert!(!is_mismatched());
    assert!(!folder.ctl(&["members"]).contains(" 1 bad checksums"));
    damage(&folder, "c.img", 1);
    assert_eq!((scrubbed(&folder, &[]), is_mismatched()), (Some(1), true));
    service.terminate();
}

/// The scrub finds a block without a checksum that differs on the same member.
#[test]
fn a_scrub_without_mismatches_ends_those_of_before() {
    let folder = checksummed("raid1c3", &["a.img", "b.img", "c.img"]);
    let devices = ["a.img", "b.img", "c.img", "--policy", "round-robin"];
    let service = serve(&folder, &devices);
    client(&folder).write(0, &[7; BLOCK]);
    service.terminate();
    damage(&folder, "b.img", 3);
    damage(&folder, "b.img", 1000);
    let service = serve(&folder, &devices);
    while !folder.ctl(&["status"]).contains("b.img): 1 block of 4 KiB did not match") {
        assert_reads(&folder, 0, 7);
    }
    assert_eq!(scrubbed(&folder, &["--repair"]), Some(0), "{}", folder.ctl(&["status"]));
    assert!(folder.ctl(&["scrub"]).contains("mirrors differed in 1 block"));
    service.terminate();
}

#[test]
fn a_block_that_no_mirror_has_is_an_error_until_it_is_written() {
    let folder = written(7);
    damage(&folder, "a.img", 1);
    damage(&folder, "b.img", 1);
    let service = served(&folder);
    let read = |at: u64| {
        let offset = at * CHECKSUM_BLOCK;
        client(&folder).request(NbdRequest::Read, offset, &[], CHECKSUM_BLOCK as usize)
    };
    assert_eq!(read(1), Err(EIO));
    assert_eq!(read(0), Ok(block(7)));
    assert_eq!(read(2), Ok(block(7)));
    let status = folder.ctl(&["status"]);
    for part in [
        "  error: 1 read and 0 writes of clients failed since the start",
        "a block that no mirror has right is an error until it is written again",
    ] {
        assert!(status.contains(part), "no `{part}` in {status}");
    }
    client(&folder).write(CHECKSUM_BLOCK, &block(8));
    assert_eq!(read(1), Ok(block(8)));
    let half = client(&folder).request(NbdRequest::Read, 512, &[], 512);
    assert!(half.is_err(), "requests are whole blocks");
    service.terminate();
}

#[test]
fn a_scrub_repairs_by_checksums_and_names_the_bad_member() {
    let folder = written(7);
    for at in [0, 5, 15] {
        damage(&folder, "b.img", at);
    }
    let service = serve(&folder, &["a.img", "b.img", "--read-only"]);
    let check = ["ctl", "--control", "control", "scrub", "status", "--check"];
    let found = scrub::scrub(&folder, &[]);
    assert!(found.contains("  3 blocks of 4 KiB left as they were\n"), "{found}");
    assert_eq!(folder.run(&check).status.code(), Some(1), "nothing is repaired");
    service.terminate();
    let service = served(&folder);
    let found = scrub::scrub(&folder, &[]);
    let bad = "  3 blocks of 4 KiB did not match their checksums, rewritten from a mirror \
               that does\n  devid 2 had wrong data in 3 ";
    assert!(found.contains(bad), "{found}");
    assert_eq!(folder.run(&check).status.code(), Some(0), "all are repaired");
    assert!(scrub::scrub(&folder, &[]).contains("no mirrors differ"));
    service.terminate();
    assert!(data(&folder, "a.img")[..BLOCK] == data(&folder, "b.img")[..BLOCK]);
}

#[test]
fn a_single_copy_is_verified() {
    let folder = checksummed("single", &["a.img"]);
    let service = serve(&folder, &["a.img"]);
    client(&folder).write(0, &[7; BLOCK]);
    service.stop("-KILL");
    let service = serve(&folder, &["a.img"]);
    assert_reads(&folder, 0, 7);
    service.terminate();
    let service = serve(&folder, &["a.img"]);
    assert!(scrub::scrub(&folder, &[]).contains("(100.0 %)\n  no wrong data\n"));
    service.terminate();
    damage(&folder, "a.img", 2);
    let service = serve(&folder, &["a.img"]);
    let read = client(&folder).request(NbdRequest::Read, 0, &[], BLOCK);
    assert_eq!(read, Err(EIO));
    let found = scrub::scrub(&folder, &[]);
    let copy = "  the only copy is wrong or cannot be read: 1 block of 4 KiB\n";
    for part in [copy, "  bytes 8192 to 12287 of the volume: no right copy\n"] {
        assert!(found.contains(part) && !found.contains("mirror"), "no `{part}` in {found}");
    }
    service.terminate();
}

#[test]
fn labels_say_that_there_are_checksums() {
    let folder = checksummed("raid1", &["a.img", "b.img"]);
    let text = stdout(&folder.run(&["examine", "a.img", "b.img"]));
    assert!(text.contains("  data have checksums\n"), "{text}");
    let json = stdout(&folder.run(&["examine", "a.img", "b.img", "--format", "json"]));
    assert!(json.contains("\"checksums\": true"), "{json}");
}
