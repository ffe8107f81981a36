//! A disk that dies: it fails reads, as long as a file is there, and takes writes. It is the peer,
//! served by nbdkit.

use super::*;
use crate::common::nbd_client::{NbdClient, NbdRequest};

const BLOCK: usize = 4096;

/// The peer fails each read while the file `broken` is there; `None` without nbdkit.
fn breakable_peer(folder: &Folder) -> Option<External> {
    faulty_peer(folder, "pread")
}

/// The same, with this operation of nbdkit.
fn faulty_peer(folder: &Folder, operation: &str) -> Option<External> {
    let (socket, broken) = (folder.path("peer"), folder.path("broken"));
    let (socket, broken) = (socket.display().to_string(), broken.display().to_string());
    let file = format!("error-{operation}-file={broken}");
    let (error, rate) = (format!("error-{operation}=EIO"), format!("error-{operation}-rate=100%"));
    let arguments = ["--foreground", "--unix", &socket, "--filter=error", "file", "b.img"];
    let errors = [&*error, &rate, &file];
    let is_ready = || folder.path("peer").exists();
    External::start(folder, "nbdkit", &[&arguments[..], &errors].concat(), is_ready)
}

fn break_peer(folder: &Folder, is_broken: bool) {
    match is_broken {
        true => drop(File::create(folder.path("broken")).unwrap()),
        false => fs::remove_file(folder.path("broken")).unwrap(),
    }
}

fn read(folder: &Folder) -> Result<Vec<u8>, u32> {
    NbdClient::connect(folder, "socket").request(NbdRequest::Read, 0, &[], BLOCK)
}

fn check(folder: &Folder) -> Option<i32> {
    folder.run(&["ctl", "--control", "control", "status", "--check"]).status.code()
}

/// A repair is read back, so one read that fails is enough, of a client or of a scrub.
#[test]
fn a_disk_that_takes_writes_and_returns_no_reads_is_failed() {
    for is_scrubbed in [false, true] {
        let folder = place();
        let Some(theirs) = breakable_peer(&folder) else { return };
        let ours = serve(&folder);
        NbdClient::connect(&folder, "socket").write(0, &[7; BLOCK]);
        assert_eq!(check(&folder), Some(0));
        break_peer(&folder, true);
        if is_scrubbed {
            folder.ctl(&["scrub", "start"]);
        }
        wait_until("it is failed", || {
            assert!(is_scrubbed || read(&folder) == Ok(vec![7; BLOCK]));
            folder.ctl(&["members"]).contains("devid 2: failed")
        });
        wait_until("a line on stderr", || {
            ours.has_printed("were written again and still cannot be read")
        });
        assert_eq!(check(&folder), Some(1));
        assert!(folder.ctl(&["events"]).contains("\"began\",\"name\":\"member-failed\""));
        assert_eq!(
            metric(
                &ours,
                "mirrorball_condition{name=\"member-failed\",severity=\"error\",devid=\"2\"}"
            ),
            1
        );
        assert_eq!(read(&folder), Ok(vec![7; BLOCK]));
        // Without the command it would get at the next start what it missed.
        folder.ctl(&["members", "fail", "2"]);
        ours.terminate();
        break_peer(&folder, false);
        let peer = peer_uri(&folder);
        let start = ["serve", "a.img", &peer, "--export", "nbd:unix:socket"];
        let ours = Service::start(&folder, &start);
        let is_kept_out = ours.lines.iter().any(|line| line.contains("failed by an operator"));
        assert!(is_kept_out, "{:?}", ours.lines);
        ours.terminate();
        drop(theirs);
    }
}

/// As an SSD that went read-only, or a disk that returns no reads.
#[test]
fn a_volume_starts_without_a_member_that_cannot_be_written_or_read() {
    for (operation, fault) in [("pwrite", "failed to write"), ("pread", "failed to read")] {
        let folder = place();
        let Some(theirs) = faulty_peer(&folder, operation) else { return };
        let ours = serve(&folder);
        NbdClient::connect(&folder, "socket").write(0, &[7; BLOCK]);
        ours.terminate();
        break_peer(&folder, true);
        let peer = peer_uri(&folder);
        let places = ["--export", "nbd:unix:socket", "--control", "control"];
        let start = [&["serve", "a.img", &peer][..], &places].concat();
        let refused = folder.run(&start);
        assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
        for part in ["devid 2", "is missing; ", fault, "--degraded"] {
            assert!(stderr(&refused).contains(part), "{part}: {}", stderr(&refused));
        }
        let ours = Service::start(&folder, &[&start[..], &["--degraded"]].concat());
        let note = format!("{fault}: the volume starts without it");
        assert!(ours.lines.iter().any(|line| line.ends_with(&note)), "{:?}", ours.lines);
        assert!(folder.ctl(&["members"]).contains("devid 2: missing"));
        NbdClient::connect(&folder, "socket").write(0, &[8; BLOCK]);
        ours.terminate();
        // The labels say by now that it is not in sync.
        let ours = Service::start(&folder, &start);
        assert_eq!(read(&folder), Ok(vec![8; BLOCK]));
        break_peer(&folder, false);
        folder.ctl(&["members", "rebuild", "2", "--device", &peer]);
        wait_until("a rebuild", || folder.ctl(&["members"]).contains("devid 2: in sync"));
        ours.terminate();
        drop(theirs);
    }
}

#[test]
fn older_data_are_not_served_in_place_of_a_member_that_cannot_be_written() {
    let folder = place();
    let Some(theirs) = faulty_peer(&folder, "pwrite") else { return };
    let ours = serve(&folder);
    NbdClient::connect(&folder, "socket").write(0, &[7; BLOCK]);
    ours.terminate();
    let peer = peer_uri(&folder);
    let export = ["--export", "nbd:unix:socket", "--degraded"];
    let ours = Service::start(&folder, &[&["serve", &peer][..], &export].concat());
    NbdClient::connect(&folder, "socket").write(0, &[8; BLOCK]);
    ours.terminate();
    break_peer(&folder, true);
    let refused = folder.run(&[&["serve", "a.img", &peer][..], &export].concat());
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    for part in ["on no member that is in sync", "failed to write", "--read-only"] {
        assert!(stderr(&refused).contains(part), "{part}: {}", stderr(&refused));
    }
    let export = ["--export", "nbd:unix:socket", "--read-only"];
    let ours = Service::start(&folder, &[&["serve", "a.img", &peer][..], &export].concat());
    assert_eq!(read(&folder), Ok(vec![8; BLOCK]));
    ours.terminate();
    drop(theirs);
}

#[test]
fn the_last_copy_stays_in_use_with_its_errors_and_is_reported() {
    let folder = place();
    let Some(theirs) = breakable_peer(&folder) else { return };
    let ours = serve(&folder);
    NbdClient::connect(&folder, "socket").write(0, &[7; BLOCK]);
    folder.ctl(&["members", "fail", "1"]);
    let status = || folder.ctl(&["status"]);
    let failing = "peer) returns errors, and is used as the last copy of data: read of 4096 bytes";
    break_peer(&folder, true);
    for error in 1.. {
        assert!(read(&folder).is_err());
        if status().contains(failing) {
            assert!(error > 20, "{error} errors");
            break;
        }
        assert!(error < 1000, "it has too many errors: {}", status());
    }
    assert!(!folder.ctl(&["members"]).contains("devid 2: failed"));
    wait_until("a line on stderr", || ours.has_printed(failing));
    let events = folder.ctl(&["events"]);
    assert!(events.contains("\"name\":\"member-failing\",\"severity\":\"error\""), "{events}");
    ours.terminate();
    drop(theirs);
}

/// Two disks on other machines, which may have a bad sector.
fn peers(folder: &Folder, have_bad: [bool; 2]) -> [Service; 2] {
    let single = "profile = \"single\"\n[[member]]\nmodel = \"delay\"\nsize = \"64MiB\"\n";
    let fault = "fault = [{ bad = { offset = \"40MiB\", length = \"4K\" } }]\n";
    [("bad", have_bad[0]), ("peer", have_bad[1])].map(|(name, is_bad)| {
        let file = format!("{name}.toml");
        let fault = if is_bad { fault } else { "" };
        fs::write(folder.path(&file), format!("{single}{fault}")).unwrap();
        let export = format!("nbd:unix:{name}");
        Service::start(folder, &["emulate", &file, "--members", "--export", &export])
    })
}

/// The volume of both peers, with the first and this device.
fn serve_of(folder: &Folder, device: &str) -> Service {
    let peers = ["bad", "peer"].map(|name| folder.nbd_uri(name));
    if !folder.path("peers.toml").exists() {
        let uris = peers.each_ref().map(|uri| format!("[[member]]\nuri = \"{uri}\"\n"));
        let array = format!("profile = \"raid1\"\n{}", uris.concat());
        fs::write(folder.path("peers.toml"), array).unwrap();
        folder.create("peers.toml");
    }
    let places = ["--export", "nbd:unix:socket", "--control", "control", "--metrics", "0"];
    let members = ["serve", &peers[0], device, "--policy", "first"];
    Service::start(folder, &[&members[..], &places].concat())
}

/// The volume after one of its disks was replaced, of which no copy has a sector.
fn replaced_without_a_sector(folder: &Folder) -> ([Service; 2], Service) {
    let peers = peers(folder, [true, true]);
    let ours = serve_of(folder, &folder.nbd_uri("peer"));
    NbdClient::connect(folder, "socket").write(0, &[7; BLOCK]);
    File::create(folder.path("new.img")).unwrap().set_len(SIZE_BYTES).unwrap();
    let replace = ["ctl", "--control", "control", "members", "replace", "2", "new.img", "--wait"];
    let output = folder.run(&replace);
    assert_eq!(output.status.code(), Some(1), "it ends, and reports bad blocks: {output:?}");
    (peers, ours)
}

/// Returns true if the sector is listed as bad, and a read of it fails.
fn is_bad(folder: &Folder) -> bool {
    let members = folder.ctl(&["members"]);
    let is_listed = members.contains("  bytes 40894464 to 40898559 of the volume: bad blocks\n");
    let mut client = NbdClient::connect(folder, "socket");
    let read = client.request(NbdRequest::Read, 40_894_464, &[], BLOCK);
    assert_eq!(read.err(), is_listed.then_some(5), "{members}");
    is_listed
}

/// No copy has the sector, also after a crash, until it is written.
#[test]
fn a_disk_is_replaced_though_no_copy_has_a_sector() {
    let folder = place();
    let (peers, ours) = replaced_without_a_sector(&folder);
    assert!(is_bad(&folder));
    ours.stop("-KILL");
    let ours = serve_of(&folder, "new.img");
    assert!(is_bad(&folder));
    assert_eq!(read(&folder), Ok(vec![7; BLOCK]));
    NbdClient::connect(&folder, "socket").write(40_894_464, &[8; BLOCK]);
    assert!(!is_bad(&folder));
    ours.stop("-KILL");
    let ours = serve_of(&folder, "new.img");
    assert!(!is_bad(&folder));
    let mut client = NbdClient::connect(&folder, "socket");
    assert_eq!(client.read(40_894_464, BLOCK), [8; BLOCK]);
    ours.terminate();
    peers.into_iter().for_each(Service::terminate);
}

/// The last copy. What it lacks is known as long as its list can be read.
#[test]
fn a_restored_label_keeps_the_bad_blocks_or_says_that_they_are_not_known() {
    let folder = place();
    let (peers, ours) = replaced_without_a_sector(&folder);
    ours.terminate();
    peers.into_iter().for_each(Service::terminate);
    let zero = |from: u64, to: u64| {
        let file = File::options().write(true).open(folder.path("new.img")).unwrap();
        file.write_all_at(&vec![0; (to - from) as usize], from).unwrap();
    };
    let list = 976 << 10;
    let serving = ["serve", "new.img", "--export", "nbd:unix:socket", "--control", "control"];
    for (label, from, to, is_known) in
        [("old", 0, list, true), ("own", list, RESERVED_BYTES as u64, false)]
    {
        if is_known {
            folder.run(&["examine", "--save", label, "new.img"]);
        }
        zero(from, to);
        if !is_known {
            let lost = "the list of its bad blocks is lost on all members that are there";
            folder.refuses(&serving, &[lost, "create --restore FILE"]);
            folder.run(&["examine", "--save", label, "new.img"]);
        }
        let restored = folder.run(&["create", "--restore", label, "new.img"]);
        let text = String::from_utf8_lossy(&restored.stdout).into_owned() + &stderr(&restored);
        assert!(text.contains("`new.img` is the only member"), "{text}");
        assert_eq!(text.contains("its bad blocks are not known any more"), !is_known, "{text}");
        let ours = Service::start(&folder, &serving);
        assert_eq!(is_bad(&folder), is_known);
        assert_eq!(read(&folder), Ok(vec![7; BLOCK]));
        ours.terminate();
    }
}

/// The old disk is the only one that has the sector, and it is on another machine.
#[test]
fn a_working_disk_is_replaced_though_the_other_one_has_a_bad_sector() {
    let folder = place();
    let peers = peers(&folder, [true, false]);
    let ours = serve_of(&folder, &folder.nbd_uri("peer"));
    let errors = "mirrorball_member_errors_total{devid=\"1\"}";
    NbdClient::connect(&folder, "socket").write(0, &[7; BLOCK]);
    assert_eq!(metric(&ours, errors), 0);
    File::create(folder.path("new.img")).unwrap().set_len(SIZE_BYTES).unwrap();
    folder.ctl(&["members", "replace", "2", "new.img", "--wait"]);
    assert_ne!(metric(&ours, errors), 0, "its bad sector was repaired from the old disk");
    folder.ctl(&["members", "fail", "1"]);
    let [bad, peer] = peers;
    peer.stop("-KILL");
    assert_eq!(read(&folder), Ok(vec![7; BLOCK]));
    ours.terminate();
    bad.terminate();
}
