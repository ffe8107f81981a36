//! Block status: holes are reported, and written data never are reported as holes.

use super::Place;
use mirrorball_nbd::wire::{RawRequest, option, request, status_flag};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

const HOLE: u32 = status_flag::HOLE | status_flag::ZERO;

/// A client that selected `base:allocation`.
struct Client(UnixStream);

impl Client {
    fn new(place: &Place) -> Client {
        let mut client = Client(UnixStream::connect(place.path("socket")).unwrap());
        client.receive(18);
        client.0.write_all(&[0, 0, 0, 3]).unwrap();
        client.option(option::STRUCTURED_REPLY, &[]);
        client.receive(20);
        let name = "base:allocation";
        let query = [&[0; 4][..], &[0, 0, 0, 1], &[0, 0, 0, name.len() as u8], name.as_bytes()];
        client.option(option::SET_META_CONTEXT, &query.concat());
        client.receive(20 + 4 + name.len() + 20);
        client.option(option::EXPORT_NAME, &[]);
        client.receive(10);
        client
    }

    fn option(&mut self, number: u32, data: &[u8]) {
        let length = (data.len() as u32).to_be_bytes();
        let parts = [b"IHAVEOPT", &number.to_be_bytes()[..], &length, data];
        self.0.write_all(&parts.concat()).unwrap();
    }

    fn receive(&mut self, bytes: usize) -> Vec<u8> {
        let mut received = vec![0; bytes];
        self.0.read_exact(&mut received).unwrap();
        received
    }

    fn ask(&mut self, kind: u16, flags: u16, offset: u64, length: u32) {
        let raw = RawRequest { flags, kind, cookie: 7, offset, length };
        self.0.write_all(&raw.bytes()).unwrap();
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        self.ask(request::WRITE, 0, offset, data.len() as u32);
        self.0.write_all(data).unwrap();
        assert_eq!(self.receive(16)[4..8], [0; 4]);
    }

    fn trim(&mut self, offset: u64, length: u32) {
        self.ask(request::TRIM, 0, offset, length);
        assert_eq!(self.receive(16)[4..8], [0; 4]);
    }

    /// The extents from `offset` on: their lengths and flags.
    fn status(&mut self, flags: u16, offset: u64, length: u32) -> Vec<(u32, u32)> {
        self.ask(request::BLOCK_STATUS, flags, offset, length);
        let head = self.receive(20);
        let payload = u32::from_be_bytes(head[16..].try_into().unwrap());
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        let payload = self.receive(payload as usize);
        assert_eq!((head[6..8].to_vec(), &payload[..4]), (vec![0, 5], &[0, 0, 0, 1][..]));
        let extents = payload[4..].chunks_exact(8);
        extents.map(|extent| (number(&extent[..4]), number(&extent[4..]))).collect()
    }
}

/// A place with `count` images of 64 MiB, and a volume on them.
fn array(profile: &str, count: usize) -> Place {
    let place = Place::new();
    let mut text = format!("profile = \"{profile}\"\n");
    for number in 0..count {
        text += &format!("[[member]]\npath = \"{number}.img\"\n");
        File::create(place.path(&format!("{number}.img"))).unwrap().set_len(64 << 20).unwrap();
    }
    fs::write(place.path("array.toml"), text).unwrap();
    place.folder.create("array.toml");
    place
}

/// Each acknowledged write is reported as data on another connection.
fn writes_are_seen(place: &Place) {
    let (mut writer, mut asker) = (Client::new(place), Client::new(place));
    for index in 0..400 {
        let offset = index * 7919 % 15000 * 4096;
        writer.write(offset, &[1; 4096]);
        let seen = asker.status(request::FLAG_REQ_ONE, offset, 4096);
        assert_eq!(seen, [(4096, 0)], "write {index}");
    }
    assert!(asker.status(0, 0, 60_000 << 10).iter().any(|&(_, flags)| flags == HOLE));
    writer.trim(0, 15000 * 4096);
    assert_eq!(asker.status(request::FLAG_REQ_ONE, 65536, 65536), [(65536, HOLE)]);
}

#[test]
fn written_data_are_never_holes() {
    for backend in ["uring", "threads"] {
        for (profile, count) in [("raid1", 2), ("raid10", 4)] {
            let mut place = array(profile, count);
            let members = &["0.img", "1.img", "2.img", "3.img"][..count];
            place.start(&[&["serve", "--backend", backend], members].concat());
            writes_are_seen(&place);
            assert_eq!(place.stop("-TERM"), Some(0));
        }
    }
    let mut place = Place::new();
    for backing in [&[][..], &["--backing", "disk.img"]] {
        let emulate = ["emulate", "ssd-sata-consumer", "--size", "64M", "--speed", "100x"];
        place.start(&[&emulate[..], backing].concat());
        writes_are_seen(&place);
        assert_eq!(place.stop("-TERM"), Some(0));
    }
}

/// Each mirror may be read next.
#[test]
fn hole_of_one_mirror_is_not_reported() {
    let mut place = array("raid1", 2);
    let open = |name| File::options().write(true).open(place.path(name)).unwrap();
    let [first, image] = ["0.img", "1.img"].map(open);
    for image in [&first, &image] {
        image.write_all_at(&[1; 4096], 1 << 20).unwrap();
    }
    image.write_all_at(&[0; 4096], (20 << 20) + 65536).unwrap();
    place.start(&["serve", "0.img", "1.img"]);
    let mut client = Client::new(&place);
    let before = (19 << 20) + 65536;
    let rest = (63 << 20) - before - 4096;
    let all = [(before - 4096, HOLE), (4096, 0), (rest, HOLE)];
    assert_eq!(client.status(0, 4096, (63 << 20) - 4096), all);
    assert_eq!(client.status(request::FLAG_REQ_ONE, 4096, (63 << 20) - 4096), all[..1]);
    // It fails, and the other is used alone.
    place.ctl(&["members", "fail", "2"]);
    client.write(0, &[1; 512]);
    assert_eq!(client.status(0, 4096, 62 << 20), [(62 << 20, HOLE)]);
    assert_eq!(place.stop("-TERM"), Some(0));
}

/// Copying a disk of 64 GiB that is almost empty writes almost nothing.
#[test]
fn public_clients_skip_holes() {
    let mut place = Place::new();
    place.start(&["emulate", "hdd-7k2-desktop", "--size", "64G"]);
    let uri = place.uri();
    let mut client = Client::new(&place);
    client.write(1 << 30, &[1; 131_072]);
    drop(client);
    if let Some(map) = place.client("nbdinfo", &["--map", &uri]) {
        let lines: Vec<Vec<&str>> = map.lines().map(|l| l.split_whitespace().collect()).collect();
        let hole = |begin, length| vec![begin, length, "3", "hole,zero"];
        let data = vec!["1073741824", "131072", "0", "data"];
        let expected = [hole("0", "1073741824"), data, hole("1073872896", "67645603840")];
        assert_eq!(lines, expected);
    }
    if place.client("nbdcopy", &[&uri, "copy.img"]).is_some() {
        let copy = File::open(place.path("copy.img")).unwrap();
        assert_eq!(copy.metadata().unwrap().len(), 64 << 30);
        let mut bytes = [0; 4096];
        copy.read_exact_at(&mut bytes, 1 << 30).unwrap();
        assert_eq!(bytes, [1; 4096]);
    }
    let json = ["map", "-f", "raw", "--output", "json", &uri];
    if let Some(map) = place.client("qemu-img", &json) {
        let map: serde_json::Value = serde_json::from_str(&map).unwrap();
        let data = map.as_array().unwrap().iter().find(|extent| extent["data"] == true).unwrap();
        assert_eq!((&data["start"], &data["length"]), (&(1 << 30).into(), &131_072.into()));
    }
    let members: serde_json::Value =
        serde_json::from_str(&place.ctl(&["members", "--format", "json"])).unwrap();
    assert!(members[0]["read_bytes"].as_u64().unwrap() < 4 << 20, "too much was read: {members}");
    assert_eq!(place.stop("-TERM"), Some(0));
}
