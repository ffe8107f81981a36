//! Members on a filesystem that is full. Skipped where the user may not mount one.

use super::{BLOCK, SIZE_BYTES, client, created, serve, wait_until_in_sync};
use crate::common::external::{skip_unless, try_run};
use crate::common::nbd_client::NbdRequest;
use crate::common::service::wait_until;
use crate::common::{Folder, stderr};
use std::fs::{self, File};

/// A filesystem of 8 MiB in the folder `full`; dropping it unmounts it.
struct SmallFilesystem(String);

impl SmallFilesystem {
    fn new(folder: &Folder) -> Option<SmallFilesystem> {
        fs::create_dir(folder.path("full")).unwrap();
        let path = folder.path("full").display().to_string();
        let mount = ["-t", "tmpfs", "-o", "size=8m", "none", &path];
        let output = try_run(&folder.path("."), "mount", &mount)?;
        let is_mounted = skip_unless(output.status.success(), "no right to mount a filesystem");
        is_mounted.then_some(SmallFilesystem(path))
    }

    fn enlarge(&self, folder: &Folder) {
        let mount = ["-o", "remount,size=64m", &self.0];
        assert!(try_run(&folder.path("."), "mount", &mount).unwrap().status.success());
    }
}

impl Drop for SmallFilesystem {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").args(["--lazy", &self.0]).status();
    }
}

/// A device that cannot be written is given up, and the member stays.
#[test]
fn a_device_that_cannot_take_the_place_of_a_member_is_named() {
    let folder = created(2);
    let Some(_filesystem) = SmallFilesystem::new(&folder) else { return };
    for name in ["full/new.img", "other.img"] {
        File::create(folder.path(name)).unwrap().set_len(SIZE_BYTES).unwrap();
    }
    let service = serve(&folder, &["a.img", "b.img"]);
    client(&folder).write(0, &[1; BLOCK]);
    folder.ctl(&["members", "replace", "2", "full/new.img"]);
    let text = "new.img cannot take the place of devid 2 (";
    wait_until("the end of the space", || folder.ctl(&["status"]).contains(text));
    let status = folder.ctl(&["status"]);
    for part in ["pair: in sync", "which stays in use: write of ", "No space left on device"] {
        assert!(status.contains(part), "no `{part}` in {status}");
    }
    wait_until("a line on stderr", || service.has_printed(text));
    client(&folder).write(0, &[2; BLOCK]);
    folder.ctl(&["members", "replace", "2", "other.img"]);
    wait_until_in_sync(&folder);
    assert!(!folder.ctl(&["status"]).contains(text));
    service.terminate();
    let data = |name: &str| fs::read(folder.path(name)).unwrap()[1 << 20..].to_vec();
    assert!(data("a.img") == data("other.img"));
}

/// The volume cannot do without the member that is full, so it stays, and has an error.
#[test]
fn the_last_error_of_a_member_that_stays_is_shown() {
    let folder = Folder::new();
    let Some(filesystem) = SmallFilesystem::new(&folder) else { return };
    for name in ["full/a.img", "b.img"] {
        File::create(folder.path(name)).unwrap().set_len(SIZE_BYTES).unwrap();
    }
    let members = ["full/a.img", "b.img"].map(|name| format!("[[member]]\npath = \"{name}\"\n"));
    let text = format!("profile = \"raid1\"\n{}", members.concat());
    fs::write(folder.path("pair.toml"), text).unwrap();
    let output = folder.run(&["create", "pair.toml"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let service = serve(&folder, &["full/a.img", "b.img"]);
    folder.ctl(&["members", "fail", "2"]);
    assert!(!folder.ctl(&["members"]).contains("last error"));
    let write = |block: usize| {
        let (offset, data) = ((block * BLOCK) as u64, [1; BLOCK]);
        client(&folder).request(NbdRequest::Write, offset, &data, BLOCK)
    };
    let error = (0..200).find_map(|block| write(block).err());
    assert_eq!(error, Some(28), "ENOSPC, as the filesystem is full");
    let status = folder.ctl(&["status"]);
    let line = status.lines().find(|line| line.contains("; last error of devid 1 (")).unwrap();
    for part in ["full/a.img), ", " s ago: write of ", ": No space left on device"] {
        assert!(line.contains(part), "no `{part}` in {status}");
    }
    assert!(
        !folder.ctl(&["events"]).contains("mirrors-unsynced"),
        "there is nothing to compare with"
    );
    assert!(folder.ctl(&["events"]).contains("\"name\":\"requests-failed\""));
    let printed = "because too few members could serve them; last error of devid 1 (";
    wait_until("a line on stderr", || service.has_printed(printed));
    let members = folder.ctl(&["members"]);
    let shown = members.lines().next().unwrap();
    assert!(shown.starts_with("devid 1: in sync, ") && shown.contains(", last error "), "{shown}");
    filesystem.enlarge(&folder);
    wait_until("a write to end well", || write(0).is_ok());
    let json: serde_json::Value =
        serde_json::from_str(&folder.ctl(&["status", "--format", "json"])).unwrap();
    let last = json["members"][0]["last_error"]["error"].as_str().unwrap();
    assert!(last.contains("No space left on device"), "it stays: {json}");
    service.terminate();
}
