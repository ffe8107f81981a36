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
    assert!(refused.contains("`a.img` is in use by another server"), "{refused}");
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
