//! Members that contain data of another program.

use super::{created, data, place, serve, wait_until_in_sync};
use crate::common::{Folder, stderr};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// Writes the magic number of an ext4 filesystem to a file.
fn make_ext4(folder: &Folder, name: &str) {
    let file = File::options().write(true).open(folder.path(name)).unwrap();
    file.write_all_at(b"\x53\xef", 0x438).unwrap();
}

#[test]
fn create_refuses_what_holds_data() {
    let folder = created(2);
    folder.refuses(&["create", "pair.toml"], &["a member of the volume `pair`", "--occupied"]);
    folder.refuses(&["check", "a.img"], &["a member of a volume", "`mirrorball examine a.img`"]);
    let folder = place(2);
    make_ext4(&folder, "b.img");
    folder.refuses(&["create", "pair.toml"], &["`b.img` contains an ext2", "--occupied"]);
    assert!(folder.run(&["create", "pair.toml", "--occupied"]).status.success());
    assert_eq!(fs::read(folder.path("b.img")).unwrap()[0x438..0x43a], [0, 0], "wiped");
    // The mirrors differ where nothing was written yet: they are synchronised.
    let service = serve(&folder, &["a.img", "b.img"]);
    wait_until_in_sync(&folder);
    service.terminate();
    assert!(data(&folder, "a.img") == data(&folder, "b.img"));
}

/// `examine` and `serve` name what a device without a label contains.
#[test]
fn a_member_of_md_is_named() {
    let folder = place(2);
    let file = File::options().write(true).open(folder.path("b.img")).unwrap();
    file.write_all_at(b"\xfc\x4e\x2b\xa9", 4096).unwrap();
    let named = "`b.img` has no label: it contains a member of an md array";
    folder.refuses(&["serve", "b.img", "--export", "nbd:unix:socket"], &[named]);
    let output = folder.run(&["examine", "b.img"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(named), "{}", stderr(&output));
}
