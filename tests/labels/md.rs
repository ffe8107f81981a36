//! The members of an md raid1, served read-only. The superblocks are those that Linux 6.12 and
//! mdadm wrote in `benches/md-in-qemu.sh`: 63 MiB of data from 1 MiB on.

use super::{BLOCK, DATA, assert_reads, client, has_line, refusal, serve};
use crate::common::nbd_client::NbdRequest;
use crate::common::{Folder, stderr};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Makes members of 64 MiB with these superblocks; the data of each begin with a block of `fill`.
fn members<const N: usize>(superblocks: [(&str, u8); N]) -> Folder {
    let folder = Folder::new();
    for (name, fill) in superblocks {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../tests/labels/md")
            .join(format!("{name}.bin"));
        let file = File::create(folder.path(name)).unwrap();
        file.set_len(64 << 20).unwrap();
        file.write_all_at(&fs::read(source).unwrap(), 4096).unwrap();
        file.write_all_at(&[fill; BLOCK], DATA as u64).unwrap();
    }
    folder
}

#[test]
fn a_clean_array_is_read_and_nothing_is_written() {
    let folder = members([("clean-a", 3), ("clean-b", 3)]);
    let before = ["clean-a", "clean-b"].map(|name| fs::read(folder.path(name)).unwrap());
    let service = serve(&folder, &["clean-b", "clean-a", "--read-only"]);
    assert!(has_line(&service, "`data` is an md raid1 of 3 members and 63 MiB"));
    assert!(has_line(&service, "of the 3 members of `data` 1 is missing"), "{:?}", service.lines);
    assert_reads(&folder, 0, 3);
    let mut client = client(&folder);
    assert_eq!(client.read((63 << 20) - 512, 512), [0; 512], "the end");
    assert!(client.request(NbdRequest::Read, 63 << 20, &[], 512).is_err(), "beyond the end");
    assert!(client.request(NbdRequest::Write, 0, &[9; 512], 512).is_err());
    let status = folder.ctl(&["status"]);
    assert!(status.contains("degraded"), "{status}");
    assert!(folder.ctl(&["members"]).contains("clean-a, 0 in flight"));
    service.terminate();
    let after = ["clean-a", "clean-b"].map(|name| fs::read(folder.path(name)).unwrap());
    assert!(before == after);
}

#[test]
fn a_member_that_missed_writes_is_never_read() {
    let folder = members([("degraded-a", 3), ("degraded-b", 4)]);
    let service = serve(&folder, &["degraded-b", "degraded-a", "--read-only"]);
    assert!(has_line(&service, "`degraded-b` missed writes"), "{:?}", service.lines);
    assert_reads(&folder, 0, 3);
    service.terminate();
}

#[test]
fn after_a_loss_of_power_one_member_is_read() {
    let folder = members([("dirty-a", 3), ("dirty-b", 4)]);
    let service = serve(&folder, &["dirty-b", "dirty-a", "--read-only"]);
    assert!(has_line(&service, "only `dirty-a` is read"), "{:?}", service.lines);
    assert_reads(&folder, 0, 3);
    service.terminate();
}

#[test]
fn halves_that_ran_alone_are_refused() {
    let folder = members([("halves-a", 3), ("halves-b", 4)]);
    let error = refusal(&folder, &["halves-a", "halves-b", "--read-only"]);
    assert!(error.contains("`halves-a` and `halves-b` ran without each other"), "{error}");
}

/// The refusal of a wrong command line.
fn wrong_use(folder: &Folder, devices: &[&str]) -> String {
    let output = folder.run(&[&["serve"], devices, &["--export", "nbd:unix:socket"]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    stderr(&output)
}

#[test]
fn md_members_are_not_served_for_writing_and_are_examined() {
    let folder = members([("clean-a", 3), ("clean-b", 3)]);
    let error = wrong_use(&folder, &["clean-a", "clean-b"]);
    assert!(error.contains("`clean-a` is member 1 of 3 of the md raid1 `data`, clean"), "{error}");
    assert!(error.contains("--read-only"), "{error}");
    let output = folder.run(&["examine", "clean-b"]);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("`clean-b` is member 2 of 3 of the md raid1 `data`"), "{text}");
    assert!(text.contains("serve --read-only"), "{text}");
}

#[test]
fn a_damaged_superblock_is_refused() {
    let folder = members([("clean-a", 3), ("clean-b", 3)]);
    let file = File::options().write(true).open(folder.path("clean-b")).unwrap();
    file.write_all_at(&[1], 4096 + 200).unwrap();
    let error = wrong_use(&folder, &["clean-a", "clean-b", "--read-only"]);
    assert!(error.contains("`clean-b` has an md superblock with a wrong checksum"), "{error}");
}
