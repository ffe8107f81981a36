//! Members without labels that hold no data: they are not taken for mirrors in sync.

use crate::common::nbd_client::NbdClient;
use crate::common::service::{Service, wait_until};
use crate::common::{Folder, stderr, stdout};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

const SIZE_BYTES: u64 = 256 << 20;
/// Bytes that a client writes, at an offset between two samples of the comparison.
const WRITTEN_OFFSET: u64 = 100 << 20;

fn empty(folder: &Folder, name: &str) -> File {
    // A new file: the kernel may release the lock of a server that ended with a delay.
    let _ = fs::remove_file(folder.path(name));
    let file = File::create(folder.path(name)).unwrap();
    file.set_len(SIZE_BYTES).unwrap();
    file
}

/// A folder with two sparse images, and an array of them to which a client wrote 4 KiB.
fn written() -> Folder {
    let folder = Folder::new();
    let array = "profile = \"raid1\"\n[[member]]\npath = \"a.img\"\n[[member]]\npath = \"b.img\"\n";
    fs::write(folder.path("pair.toml"), array).unwrap();
    empty(&folder, "a.img");
    empty(&folder, "b.img");
    let service = serve(&folder, &[]);
    let mut client = NbdClient::connect(&folder, "socket");
    client.write(WRITTEN_OFFSET, &[7; 4096]);
    client.flush();
    drop(client);
    service.terminate();
    folder
}

fn serve(folder: &Folder, more: &[&str]) -> Service {
    let places = ["--export", "nbd:unix:socket", "--control", "control"];
    Service::start(folder, &[&["serve", "pair.toml"][..], &places, more].concat())
}

/// The error of a start. One that is not refused for its members ends at the control socket.
fn refusal(folder: &Folder) -> String {
    let places = ["--export", "nbd:unix:socket", "--control", "."];
    let output = folder.run(&[&["serve", "pair.toml"][..], &places].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    stderr(&output)
}

#[test]
fn a_new_file_in_the_place_of_a_lost_member_is_rebuilt_on_request() {
    let folder = written();
    fs::remove_file(folder.path("b.img")).unwrap();
    let output = folder.run(&["serve", "pair.toml", "--export", "nbd:unix:socket"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let message = stderr(&output);
    assert!(message.contains("b.img`: no such file"), "{message}");
    assert!(message.contains("create an empty file and start with --trust"), "{message}");
    empty(&folder, "b.img");
    let message = refusal(&folder);
    assert!(message.contains("the member with devid 2 is blank"), "{message}");
    assert!(message.contains("help: start with --trust 1"), "{message}");
    let service = serve(&folder, &["--trust", "1", "--policy", "devid:2"]);
    wait_until("the rebuild", || folder.ctl(&["status"]).contains("in sync"));
    let mut client = NbdClient::connect(&folder, "socket");
    assert_eq!(client.read(WRITTEN_OFFSET, 4096), [7; 4096]);
    drop(client);
    service.terminate();
    // Now both have the data.
    serve(&folder, &[]).terminate();
}

/// An older copy of a member, which has data elsewhere, and a device that reads as zeroes.
#[test]
fn data_of_sparse_files_are_compared() {
    let folder = written();
    let other = empty(&folder, "b.img");
    other.write_all_at(&[7; 4096], (1 << 20) + (200 << 20)).unwrap();
    let message = refusal(&folder);
    assert!(message.contains("hold different data in the 64 KiB at offset 104857600"), "{message}");
    // Allocated zeroes are no data.
    other.set_len(0).unwrap();
    for mib in [0, 64] {
        other.write_all_at(&[0; 1 << 20], mib << 20).unwrap();
    }
    other.set_len(SIZE_BYTES).unwrap();
    let message = refusal(&folder);
    assert!(message.contains("the member with devid 2 is blank: it reads as zeroes"), "{message}");
    assert!(message.contains("help: start with --trust 1"), "{message}");
}

#[test]
fn new_members_without_data_are_served() {
    let folder = written();
    empty(&folder, "a.img");
    empty(&folder, "b.img");
    let output = folder.run(&["check", "pair.toml"]);
    stdout(&output);
    serve(&folder, &[]).terminate();
}
