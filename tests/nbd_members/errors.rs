//! A disk that dies: it fails reads, as long as a file is there, and takes writes. It is the peer,
//! served by nbdkit.

use super::*;
use crate::common::nbd_client::{NbdClient, NbdRequest};

const BLOCK: usize = 4096;

/// The peer fails each read while the file `broken` is there; `None` without nbdkit.
fn breakable_peer(folder: &Folder) -> Option<External> {
    let (socket, broken) = (folder.path("peer"), folder.path("broken"));
    let (socket, broken) = (socket.display().to_string(), broken.display().to_string());
    let file = format!("error-pread-file={broken}");
    let arguments = ["--foreground", "--unix", &socket, "--filter=error", "file", "b.img"];
    let errors = ["error-pread=EIO", "error-pread-rate=100%", &file];
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
        wait_until("a line on stderr", || ours.has_printed("has failed: read of "));
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
        ours.terminate();
        drop(theirs);
    }
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
    // A read that succeeds ends the doubling of the back-off, in which errors are not counted.
    for error in 1.. {
        break_peer(&folder, true);
        assert!(read(&folder).is_err());
        break_peer(&folder, false);
        assert_eq!(read(&folder), Ok(vec![7; BLOCK]));
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

/// The old disk is the only one that has the sector, and it is on another machine.
#[test]
fn a_working_disk_is_replaced_though_the_other_one_has_a_bad_sector() {
    let folder = place();
    let single = "profile = \"single\"\n[[member]]\nmodel = \"delay\"\nsize = \"64MiB\"\n";
    let fault = "fault = [{ bad = { offset = \"40MiB\", length = \"4K\" } }]\n";
    let peers = [("bad", fault), ("peer", "")].map(|(name, fault)| {
        let file = format!("{name}.toml");
        fs::write(folder.path(&file), format!("{single}{fault}")).unwrap();
        let export = format!("nbd:unix:{name}");
        Service::start(&folder, &["emulate", &file, "--members", "--export", &export])
    });
    let [bad, peer] = ["bad", "peer"].map(|name| folder.nbd_uri(name));
    let uris = [&bad, &peer].map(|uri| format!("[[member]]\nuri = \"{uri}\"\n"));
    fs::write(folder.path("pair.toml"), format!("profile = \"raid1\"\n{}", uris.concat())).unwrap();
    folder.create("pair.toml");
    let places = ["--export", "nbd:unix:socket", "--control", "control", "--metrics", "0"];
    let members = ["serve", &bad, &peer, "--policy", "first"];
    let ours = Service::start(&folder, &[&members[..], &places].concat());
    let errors = "mirrorball_member_errors_total{devid=\"1\"}";
    NbdClient::connect(&folder, "socket").write(0, &[7; BLOCK]);
    assert_eq!(metric(&ours, errors), 0);
    File::create(folder.path("new.img")).unwrap().set_len(SIZE_BYTES).unwrap();
    folder.ctl(&["members", "replace", "2", "new.img", "--wait"]);
    assert_eq!(metric(&ours, errors), 1, "its bad sector was repaired from the old disk");
    folder.ctl(&["members", "fail", "1"]);
    let [bad, peer] = peers;
    peer.stop("-KILL");
    assert_eq!(read(&folder), Ok(vec![7; BLOCK]));
    ours.terminate();
    bad.terminate();
}
