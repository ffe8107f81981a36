//! Block status: holes are reported, and written data never are reported as holes.

use super::Place;
use crate::common::nbd_client::{NbdClient, NbdRequest, request_bytes};
use mirrorball_nbd::wire::{option, request, status_flag};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;

const HOLE: u32 = status_flag::HOLE | status_flag::ZERO;

/// A client that selected `base:allocation`.
fn client(place: &Place) -> NbdClient {
    let mut client = NbdClient::begin(&place.folder, "socket");
    client.option(option::STRUCTURED_REPLY, &[]);
    client.receive(20);
    let name = "base:allocation";
    let query = [&[0; 4][..], &[0, 0, 0, 1], &[0, 0, 0, name.len() as u8], name.as_bytes()];
    client.option(option::SET_META_CONTEXT, &query.concat());
    client.receive(20 + 4 + name.len() + 20);
    client.attach()
}

/// The extents from `offset` on: their lengths and flags.
fn status(client: &mut NbdClient, flags: u16, offset: u64, length: u32) -> Vec<(u32, u32)> {
    let ask = request_bytes(NbdRequest::BlockStatus, flags, offset, length);
    client.0.write_all(&ask).unwrap();
    let head = client.receive(20);
    let payload = u32::from_be_bytes(head[16..].try_into().unwrap());
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    let payload = client.receive(payload as usize);
    assert_eq!((head[6..8].to_vec(), &payload[..4]), (vec![0, 5], &[0, 0, 0, 1][..]));
    let extents = payload[4..].chunks_exact(8);
    extents.map(|extent| (number(&extent[..4]), number(&extent[4..]))).collect()
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
    let (mut writer, mut asker) = (client(place), client(place));
    for index in 0..400 {
        let offset = index * 7919 % 15000 * 4096;
        writer.write(offset, &[1; 4096]);
        let seen = status(&mut asker, request::FLAG_REQ_ONE, offset, 4096);
        assert_eq!(seen, [(4096, 0)], "write {index}");
    }
    assert!(status(&mut asker, 0, 0, 60_000 << 10).iter().any(|&(_, flags)| flags == HOLE));
    writer.request(NbdRequest::Trim, 0, &[], 15000 * 4096).unwrap();
    assert_eq!(status(&mut asker, request::FLAG_REQ_ONE, 65536, 65536), [(65536, HOLE)]);
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
    let mut client = client(&place);
    let before = (19 << 20) + 65536;
    let rest = (63 << 20) - before - 4096;
    let all = [(before - 4096, HOLE), (4096, 0), (rest, HOLE)];
    assert_eq!(status(&mut client, 0, 4096, (63 << 20) - 4096), all);
    assert_eq!(status(&mut client, request::FLAG_REQ_ONE, 4096, (63 << 20) - 4096), all[..1]);
    // It fails, and the other is used alone.
    place.ctl(&["members", "fail", "2"]);
    client.write(0, &[1; 512]);
    assert_eq!(status(&mut client, 0, 4096, 62 << 20), [(62 << 20, HOLE)]);
    assert_eq!(place.stop("-TERM"), Some(0));
}

/// Copying a disk of 64 GiB that is almost empty writes almost nothing.
#[test]
fn public_clients_skip_holes() {
    let mut place = Place::new();
    place.start(&["emulate", "hdd-7k2-desktop", "--size", "64G"]);
    let uri = place.uri();
    let mut client = client(&place);
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
