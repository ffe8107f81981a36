//! `mirrorball emulate --export ublk`: a block device if the kernel has the driver, else an error
//! that says what is missing.
//!
//! The test of the device is skipped where the kernel has no ublk driver; `benches/ublk-in-qemu.sh`
//! runs it on a kernel that has.

use crate::common::external::skip_unless;
use crate::common::service::Service;
use crate::common::{Folder, stderr, stdout};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const DISK: [&str; 8] =
    ["emulate", "ssd-sata-consumer", "--size", "64M", "--backing", "disk.img", "--export", "ublk"];

#[test]
fn missing_driver_is_reported() {
    let folder = Folder::new();
    let help = stdout(&folder.run(&["emulate", "--help"]));
    assert!(help.contains("--members --export ublk"), "{help}");
    let emulate = ["emulate", "ssd-sata-consumer", "--export", "ublk", "--export"];
    folder.refuses(&[&emulate[..], &["ublk"]].concat(), &["ublk", "once"]);
    folder.refuses(&[&emulate[..], &["ublk:0"]].concat(), &["ublk takes no value", "write ublk"]);
    if Path::new("/dev/ublk-control").exists() {
        return;
    }
    // No other export is started, so nothing is left.
    let output = folder.run(&[&emulate[..], &["nbd:unix:socket"]].concat());
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    for part in ["/dev/ublk-control", "modprobe ublk_drv", "fuse:DIR --loop"] {
        assert!(message.contains(part), "no `{part}` in {message}");
    }
    assert!(output.stdout.is_empty() && !folder.path("socket").exists());
}

#[test]
fn block_device_keeps_its_data() {
    let has_driver = Path::new("/dev/ublk-control").exists();
    if !skip_unless(has_driver, "this kernel has no ublk driver (see benches/ublk-in-qemu.sh)") {
        return;
    }
    let folder = Folder::new();
    let service = Service::start(&folder, &DISK);
    let path = service.device().to_owned();
    let device = File::options().read(true).write(true).open(&path).unwrap();
    device.write_all_at(&[0x5a; 1 << 20], 1 << 20).unwrap();
    device.sync_all().unwrap();
    drop(device);
    let image = std::fs::read(folder.path("disk.img")).unwrap();
    assert!(image[1 << 20..][..1 << 20].iter().all(|&byte| byte == 0x5a));
    service.terminate();
    assert!(!Path::new(&path).exists(), "it tidies up");
}
