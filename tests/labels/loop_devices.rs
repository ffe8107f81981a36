//! Members that are loop devices, and the files behind them. Skipped where the user may not make
//! loop devices.

use super::{SIZE_BYTES, place, serve};
use crate::common::external::{run, skip_unless, try_run};
use crate::common::{Folder, stderr};
use std::fs::File;

/// A loop device on a file; dropping it detaches it.
struct LoopDevice(String);

impl LoopDevice {
    fn on(folder: &Folder, file: &str) -> Option<LoopDevice> {
        let is_there = File::options().write(true).open("/dev/loop-control").is_ok();
        if !skip_unless(is_there, "no right to make loop devices, or none in this kernel") {
            return None;
        }
        let device = run(&folder.path("."), "losetup", &["--find", "--show", file])?;
        Some(LoopDevice(device.trim().to_owned()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_loop_device_and_the_file_behind_it_are_not_used_at_once() {
    let folder = place(2);
    let Some(device) = LoopDevice::on(&folder, "a.img") else { return };
    for more in [&[][..], &["--occupied"]] {
        let arguments = [&["create", "pair.toml"], more].concat();
        let what = format!("in use by the loop device `{}`", device.0);
        folder.refuses(&arguments, &["`a.img`", &what, "losetup --detach"]);
    }
    drop(device);
    let output = folder.run(&["create", "pair.toml"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let service = serve(&folder, &["a.img", "b.img"]);
    let Some(device) = LoopDevice::on(&folder, "a.img") else { return };
    // The lock of the file does not hold for the loop device.
    let arguments = ["serve", &device.0, "b.img", "--degraded", "--export", "nbd:unix:other"];
    let what = format!("`{}` is in use by a server", device.0);
    folder.refuses(&arguments, &[&what, "a.img` open, to which this loop device"]);
    service.terminate();
    let service = serve(&folder, &[&device.0, "b.img"]);
    let arguments = ["serve", "a.img", "--degraded", "--export", "nbd:unix:other"];
    folder.refuses(&arguments, &["`a.img` is in use by the loop device"]);
    service.terminate();
}

#[test]
fn a_device_in_use_is_not_taken_even_if_its_data_are_given_up() {
    let folder = Folder::new();
    File::create(folder.path("swap.img")).unwrap().set_len(SIZE_BYTES).unwrap();
    let Some(device) = LoopDevice::on(&folder, "swap.img") else { return };
    let here = folder.path(".");
    if run(&here, "mkswap", &[&device.0]).is_none() {
        return;
    }
    let Some(on) = try_run(&here, "swapon", &[&device.0]) else { return };
    if !skip_unless(on.status.success(), "no right to use swap space") {
        return;
    }
    let array = format!("profile = \"single\"\n[[member]]\npath = \"{}\"\n", device.0);
    std::fs::write(folder.path("one.toml"), array).unwrap();
    let refused = folder.run(&["create", "one.toml", "--occupied"]);
    run(&here, "swapoff", &[&device.0]);
    let error = stderr(&refused);
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("is in use: ") && error.contains("swap"), "{error}");
    let created = folder.run(&["create", "one.toml", "--occupied"]);
    assert!(created.status.success(), "{}", stderr(&created));
}
