//! Members that contain data of another program.

use super::{BLOCK, assert_reads, client, created, data, place, serve, wait_until_in_sync};
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

/// Data of an array begin at 1 MiB, so what is in front of them was never served.
#[test]
fn adopt_and_serve_refuse_what_holds_data_in_front_of_their_own() {
    let folder = place(2);
    let service = serve(&folder, &["pair.toml"]);
    client(&folder).write(0, &[1; BLOCK]);
    service.terminate();
    make_ext4(&folder, "b.img");
    let trusted = ["adopt", "pair.toml", "--trust", "1"];
    let contains = "`b.img` contains an ext2, ext3 or ext4 filesystem, which";
    for adopt in [&trusted[..2], &trusted] {
        folder.refuses(adopt, &[contains, "labels would overwrite", "--occupied destroys"]);
    }
    for more in [&[][..], &["--trust", "1"]] {
        let serve = [&["serve", "pair.toml", "--export", "nbd:unix:socket"], more].concat();
        folder.refuses(&serve, &[contains, "clients would overwrite", "--occupied"]);
    }
    let service = serve(&folder, &["pair.toml", "--occupied"]);
    assert_reads(&folder, 0, 1);
    service.terminate();
    let output = folder.run(&["adopt", "pair.toml", "--occupied"]);
    assert!(output.status.success(), "{}", stderr(&output));
    // What was there is gone, so nothing refuses the member as a device.
    assert_eq!(fs::read(folder.path("b.img")).unwrap()[..4096], [0; 4096]);
    let service = serve(&folder, &["pair.toml"]);
    assert_reads(&folder, 0, 1);
    service.terminate();
}
