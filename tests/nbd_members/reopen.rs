//! Rebuilding a member whose file or server was replaced: afterwards the new one holds all data.

use super::RESERVED_BYTES;
use crate::common::service::{Service, wait_until};
use crate::common::{Folder, external, stderr};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

const SIZE_BYTES: u64 = 16 << 20;

/// A folder with two images that hold noise, and the file of an array.
fn place(array: &str) -> Folder {
    let folder = Folder::new();
    fs::write(folder.path("pair.toml"), format!("profile = \"raid1\"\n{array}")).unwrap();
    let noise: Vec<u8> = (0..SIZE_BYTES).map(|index| ((index * index) >> 7) as u8).collect();
    for name in ["a.img", "b.img"] {
        fs::write(folder.path(name), &noise).unwrap();
    }
    folder
}

/// A folder with a volume on two images.
fn files() -> Folder {
    let folder = place("[[member]]\npath = \"a.img\"\n[[member]]\npath = \"b.img\"\n");
    folder.create("pair.toml");
    folder
}

fn empty(folder: &Folder, name: &str, size_bytes: u64) {
    File::create(folder.path(name)).unwrap().set_len(size_bytes).unwrap();
}

fn serve(folder: &Folder, more: &[&str]) -> Service {
    serve_devices(folder, &["a.img", "b.img"], more)
}

/// Serves a volume, and waits until its mirrors are equal.
fn serve_devices(folder: &Folder, devices: &[&str], more: &[&str]) -> Service {
    let serve = ["serve", "--policy", "first"];
    let places = ["--export", "nbd:unix:socket", "--control", "control"];
    let service = Service::start(folder, &[&serve[..], devices, &places, more].concat());
    wait_until_in_sync(folder);
    service
}

/// The error of `members rebuild 2`.
fn refusal(folder: &Folder) -> String {
    let output = folder.run(&["ctl", "--control", "control", "members", "rebuild", "2"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    stderr(&output)
}

fn wait_until_in_sync(folder: &Folder) {
    wait_until("the rebuild", || folder.ctl(&["status"]).contains("in sync"));
}

/// Sends one request over a new connection; returns the data of a read.
fn request(folder: &Folder, kind: u16, offset: u64, data: &[u8]) -> Vec<u8> {
    let mut socket = UnixStream::connect(folder.path("socket")).unwrap();
    socket.read_exact(&mut [0; 18]).unwrap();
    // Fixed newstyle without 124 zeroes, and NBD_OPT_EXPORT_NAME for the first export.
    socket
        .write_all(&[&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 1, 0, 0, 0, 0]].concat())
        .unwrap();
    socket.read_exact(&mut [0; 10]).unwrap();
    let length = (data.len() as u32).to_be_bytes();
    let head = [&[0x25, 0x60, 0x95, 0x13, 0, 0][..], &kind.to_be_bytes(), &[0; 8]].concat();
    let sent = if kind == 1 { data } else { &[] };
    socket.write_all(&[&head[..], &offset.to_be_bytes(), &length, sent].concat()).unwrap();
    let mut reply = [0; 16];
    socket.read_exact(&mut reply).unwrap();
    assert_eq!(reply[4..8], [0; 4], "an error");
    let mut bytes = if kind == 1 { Vec::new() } else { data.to_vec() };
    socket.read_exact(&mut bytes).unwrap();
    bytes
}

fn write(folder: &Folder, offset: u64, fill: u8) {
    request(folder, 1, offset, &[fill; 65536]);
}

fn read(folder: &Folder, offset: u64) -> Vec<u8> {
    request(folder, 0, offset, &[0; 65536])
}

/// Asserts that both files hold the same volume.
fn assert_alike(folder: &Folder, names: [&str; 2]) {
    let [first, second] = names.map(|name| fs::read(folder.path(name)).unwrap());
    let [first, second] =
        [first, second].map(|bytes| bytes[RESERVED_BYTES..SIZE_BYTES as usize].to_vec());
    assert!(first == second, "the mirrors differ");
    assert!(first.contains(&0x77), "what was written last is not there");
}

/// Replaces the file of the second member by one of zeroes.
fn replace(folder: &Folder, size_bytes: u64) {
    empty(folder, "new.img", size_bytes);
    fs::rename(folder.path("new.img"), folder.path("b.img")).unwrap();
}

/// Sets the size of a file.
fn cut(folder: &Folder, name: &str, size_bytes: u64) {
    File::options().write(true).open(folder.path(name)).unwrap().set_len(size_bytes).unwrap();
}

#[test]
fn failed_member_is_rebuilt_into_the_file_at_its_path() {
    let folder = files();
    let ours = serve(&folder, &[]);
    folder.ctl(&["members", "fail", "2"]);
    write(&folder, 0, 0x11);
    assert!(folder.ctl(&["members"]).contains("devid 2: failed"));
    fs::remove_file(folder.path("b.img")).unwrap();
    assert!(refusal(&folder).contains("b.img`: no such file"), "{}", refusal(&folder));
    fs::create_dir(folder.path("b.img")).unwrap();
    assert!(refusal(&folder).contains("neither a file nor"));
    fs::remove_dir(folder.path("b.img")).unwrap();
    fs::hard_link(folder.path("a.img"), folder.path("b.img")).unwrap();
    assert!(refusal(&folder).contains("another member of this array"));
    fs::remove_file(folder.path("b.img")).unwrap();
    replace(&folder, SIZE_BYTES - 1);
    assert!(refusal(&folder).contains("16776704 bytes, but"), "{}", refusal(&folder));
    // The volume is served all the time.
    write(&folder, 65536, 0x22);
    assert!(read(&folder, 65536).iter().all(|&byte| byte == 0x22));
    assert!(folder.ctl(&["members"]).contains("devid 2: failed"));
    replace(&folder, SIZE_BYTES);
    assert!(folder.ctl(&["members", "rebuild", "2"]).contains("devid 2 is being rebuilt"));
    wait_until_in_sync(&folder);
    write(&folder, 1 << 20, 0x77);
    ours.terminate();
    assert_alike(&folder, ["a.img", "b.img"]);
    serve(&folder, &[]).terminate();
}

#[test]
fn last_member_in_sync_is_not_failed() {
    let folder = files();
    let ours = serve(&folder, &[]);
    for name in ["a.img", "b.img"] {
        cut(&folder, name, 0);
    }
    let copy = ["--", &folder.nbd_uri("socket"), "null:"];
    let Some(copied) = external::try_run(&folder.path("."), "nbdcopy", &copy) else { return };
    assert!(!copied.status.success());
    let members = folder.ctl(&["members"]);
    assert!(members.contains(": failed") && members.contains(": in sync"), "{members}");
    ours.terminate();
}

/// The second server takes the address of the first, which is stopped but still connected.
#[test]
fn peer_is_rebuilt_on_the_server_at_its_address() {
    let folder = files();
    let peer_uri = super::peer_uri(&folder);
    let text = format!(
        "profile = \"raid1\"\n[[member]]\npath = \"a.img\"\n[[member]]\nuri = \"{peer_uri}\"\n"
    );
    fs::write(folder.path("pair.toml"), text).unwrap();
    empty(&folder, "a.img", SIZE_BYTES);
    let single = "profile = \"single\"\n[[member]]\nmodel = \"delay\"\nsize = \"16MiB\"\n";
    fs::write(folder.path("peer.toml"), single).unwrap();
    let peer = |disks: &str, socket: &str| {
        fs::create_dir(folder.path(disks)).unwrap();
        let address = format!("nbd:unix:{socket}");
        let emulate = ["emulate", "peer.toml", "--members", "--backing", disks];
        Service::start(&folder, &[&emulate[..], &["--export", &address]].concat())
    };
    let first = peer("first", "peer");
    folder.create("pair.toml");
    let ours = serve_devices(&folder, &["a.img", &peer_uri], &["--peer-timeout", "500ms"]);
    first.signal("-STOP");
    write(&folder, 0, 0x11);
    assert!(folder.ctl(&["members"]).contains("devid 2: failed"));
    fs::remove_file(folder.path("peer")).unwrap();
    assert!(refusal(&folder).contains("cannot attach"), "{}", refusal(&folder));
    let second = peer("second", "other");
    fs::rename(folder.path("other"), folder.path("peer")).unwrap();
    folder.ctl(&["members", "rebuild", "2"]);
    first.signal("-CONT");
    wait_until_in_sync(&folder);
    write(&folder, 1 << 20, 0x77);
    ours.terminate();
    second.terminate();
    assert_alike(&folder, ["a.img", "second/member-1.img"]);
}

/// No request follows after the peer is gone, and with it the writes that were not flushed.
#[test]
fn peer_with_unflushed_writes_fails_at_once() {
    let folder = super::place();
    let other = super::peer(&folder);
    let ours = super::serve(&folder);
    write(&folder, 0, 0x11);
    other.stop("-KILL");
    wait_until("it is noticed", || folder.ctl(&["status"]).contains("degraded"));
    assert!(folder.ctl(&["members"]).contains("devid 2: failed"));
    ours.terminate();
}
