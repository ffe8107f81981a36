//! Labels that are removed.

use super::{BLOCK, client, created, data, refusal, serve};
use crate::common::{stderr, stdout};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

#[test]
fn a_cleared_member_is_an_ordinary_file_with_its_data() {
    let folder = created(2);
    File::create(folder.path("other.img")).unwrap().set_len(1 << 20).unwrap();
    let service = serve(&folder, &["a.img", "b.img"]);
    client(&folder).write(0, &[7; BLOCK]);
    // The service writes meanwhile.
    let refused = stderr(&folder.run(&["clear", "a.img"]));
    assert!(refused.contains("`a.img` is in use by a server"), "{refused}");
    service.terminate();
    let before = data(&folder, "b.img");
    // All are checked before the first is written to.
    folder.refuses(&["clear", "b.img", "other.img"], &["`other.img` has no label", "wipefs"]);
    folder.refuses(&["clear", "b.img", "./b.img"], &["is given twice"]);
    let text = stdout(&folder.run(&["clear", "b.img"]));
    let expected = "removed the label of `b.img`: it was the member with devid 2 of the volume `pa";
    assert!(text.starts_with(expected), "{text}");
    assert!(before.starts_with(&data(&folder, "b.img")));
    assert!(fs::read(folder.path("b.img")).unwrap()[..1 << 20].iter().all(|byte| *byte == 0));
    let examined = folder.run(&["examine", "b.img"]);
    assert!(stderr(&examined).contains("`b.img` has no label"), "{examined:?}");
    folder.refuses(&["clear", "b.img"], &["`b.img` has no label"]);
    assert!(refusal(&folder, &["a.img"]).contains("devid 2"));
    // The volume is as it is without that device.
    let service = serve(&folder, &["a.img", "--degraded"]);
    folder.ctl(&["members", "add", "b.img"]);
    super::wait_until_in_sync(&folder);
    service.terminate();
}

#[test]
fn damaged_labels_and_spares_are_cleared() {
    let folder = created(2);
    let service = serve(&folder, &["a.img", "b.img"]);
    File::create(folder.path("s.img")).unwrap().set_len(super::SIZE_BYTES).unwrap();
    folder.ctl(&["members", "add", "--spare", "s.img"]);
    service.terminate();
    let text = stdout(&folder.run(&["clear", "s.img"]));
    assert!(text.contains("it was a spare of the volume `pair`"), "{text}");
    let file = File::options().write(true).open(folder.path("b.img")).unwrap();
    for slot in [4 << 10, 68 << 10] {
        file.write_all_at(&[0xaa; 8], slot + 100).unwrap();
    }
    let text = stdout(&folder.run(&["clear", "b.img"]));
    assert!(text.contains("it was a device with a label with a wrong checksum"), "{text}");
    for name in ["b.img", "s.img"] {
        let examined = folder.run(&["examine", name]);
        assert!(stderr(&examined).contains("has no label"), "{examined:?}");
    }
}

/// All labels were overwritten. One device is restored, and the other gets its data.
#[test]
fn a_saved_label_is_restored_and_the_device_is_the_only_member() {
    let folder = created(2);
    let save = |file: &str| folder.run(&["examine", "--save", file, "a.img"]).status;
    assert_eq!(save("early.label").code(), Some(0));
    let service = serve(&folder, &["a.img", "b.img"]);
    client(&folder).write(0, &[7; BLOCK]);
    service.terminate();
    save("a.label");
    assert_eq!(save("a.label").code(), Some(2), "a file is not replaced");
    let newer = "has a newer label: generation ";
    folder.refuses(&["create", "--restore", "early.label", "a.img"], &["`a.img` ", newer]);
    folder.refuses(&["create", "--restore", "a.label", "a.img"], &["a label that can be read"]);
    for name in ["a.img", "b.img"] {
        let file = File::options().write(true).open(folder.path(name)).unwrap();
        file.write_all_at(&vec![0; 1 << 20], 0).unwrap();
    }
    let serving = ["serve", "a.img", "b.img", "--export", "nbd:unix:socket"];
    folder.refuses(&serving, &["`a.img` has no label", "create --restore"]);
    let text = stdout(&folder.run(&["create", "--restore", "a.label", "a.img"]));
    assert!(text.contains("`a.img` is the only member of the volume `pair`, and"), "{text}");
    folder.refuses(&["create", "--restore", "a.label", "a.img", "b.img"], &["one at a time"]);
    let service = serve(&folder, &["a.img"]);
    super::assert_reads(&folder, 0, 7);
    folder.ctl(&["members", "replace", "2", "b.img", "--wait"]);
    service.terminate();
    assert!(data(&folder, "a.img") == data(&folder, "b.img"));
    serve(&folder, &["a.img", "b.img"]).terminate();
}

/// Nothing says that a restored device has what one with a label has, of the same generation.
#[test]
fn a_restored_label_does_not_win_over_members_that_are_as_old() {
    let folder = created(3);
    let devices = ["a.img", "b.img", "c.img"];
    serve(&folder, &devices).terminate();
    let service = serve(&folder, &devices);
    client(&folder).write(0, &[7; BLOCK]);
    folder.run(&["examine", "--save", "a.label", "a.img"]);
    assert_eq!(service.stop("-KILL"), None);
    let file = File::options().write(true).open(folder.path("a.img")).unwrap();
    file.write_all_at(&vec![0; 2 << 20], 0).unwrap();
    stdout(&folder.run(&["create", "--restore", "a.label", "a.img"]));
    let error = super::doubt(&folder, &devices);
    assert!(error.contains("diverged"), "{error}");
    let service = serve(&folder, &["a.img", "b.img", "c.img", "--discard", "a.img"]);
    super::assert_reads(&folder, 0, 7);
    service.terminate();
}

/// The other member went on with the volume: nothing is written to it unasked.
#[test]
fn a_restored_label_does_not_win_over_a_member_that_has_one() {
    let folder = created(2);
    folder.run(&["examine", "--save", "b.label", "b.img"]);
    let service = serve(&folder, &["a.img", "b.img"]);
    client(&folder).write(0, &[7; BLOCK]);
    service.terminate();
    folder.run(&["clear", "b.img"]);
    let service = serve(&folder, &["a.img", "--degraded"]);
    client(&folder).write(0, &[8; BLOCK]);
    service.terminate();
    let before = data(&folder, "a.img");
    stdout(&folder.run(&["create", "--restore", "b.label", "b.img"]));
    let error = super::doubt(&folder, &["a.img", "b.img"]);
    assert!(error.contains("`b.img`: diverged"), "{error}");
    assert!(data(&folder, "a.img") == before);
    let service = serve(&folder, &["a.img", "b.img", "--discard", "b.img"]);
    super::assert_reads(&folder, 0, 8);
    service.terminate();
}
