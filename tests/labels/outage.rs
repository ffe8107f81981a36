//! An outage of all members, which are on other machines.

use super::*;

fn start_peer(folder: &Folder, number: u64) -> Service {
    let (disks, address) = (format!("disks-{number}"), format!("nbd:unix:peer-{number}"));
    let emulate = ["emulate", "peer.toml", "--members", "--backing", &disks, "--export", &address];
    Service::start(folder, &emulate)
}

/// Neither are both members failed for good, nor are they in sync with different data.
#[test]
fn a_volume_goes_on_after_all_its_members_were_away() {
    let folder = Folder::new();
    let single = "profile = \"single\"\n[[member]]\nmodel = \"delay\"\nsize = \"24MiB\"\n";
    fs::write(folder.path("peer.toml"), single).unwrap();
    let mut text = "profile = \"raid1\"\n".to_owned();
    for number in 1..=2 {
        fs::create_dir(folder.path(&format!("disks-{number}"))).unwrap();
        text += &format!("[[member]]\nuri = \"{}\"\n", folder.nbd_uri(&format!("peer-{number}")));
    }
    fs::write(folder.path("pair.toml"), text).unwrap();
    let peers = [start_peer(&folder, 1), start_peer(&folder, 2)];
    let output = folder.run(&["create", "pair.toml"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let service = serve(&folder, &["pair.toml", "--policy", "round-robin"]);
    client(&folder).write(0, &[1; BLOCK]);
    client(&folder).flush();
    for peer in peers {
        peer.stop("-KILL");
    }
    let write = |fill| client(&folder).request(NbdRequest::Write, 0, &[fill; BLOCK], BLOCK);
    assert!(write(2).is_err(), "no member can take it");
    let peers = [start_peer(&folder, 1), start_peer(&folder, 2)];
    wait_until("a write", || write(3).is_ok());
    assert_reads(&folder, 0, 3);
    let members = folder.ctl(&["members"]);
    let failed = ["1", "2"].into_iter().filter(|it| members.contains(&format!("devid {it}: fail")));
    let failed: Vec<&str> = failed.collect();
    assert!(failed.len() < 2, "{members}");
    for devid in failed {
        folder.ctl(&["members", "rebuild", devid]);
    }
    wait_until_in_sync(&folder);
    assert_reads(&folder, 0, 3);
    client(&folder).flush();
    service.terminate();
    for peer in peers {
        peer.terminate();
    }
    let disk = |number: u64| data(&folder, &format!("disks-{number}/member-1.img"));
    assert!(disk(1) == disk(2));
}
