//! Ioctls of btrfs that show what nothing in sysfs does: two which device has which devid, and one
//! whether a scrub runs.
//!
//! The first two work without root on any open folder of the file system. Their structures have a
//! fixed size and only plain fields; they are read as bytes at the offsets of `linux/btrfs.h`.

#![allow(unsafe_code, reason = "an ioctl takes the address of a buffer; see the page above")]

use super::btrfs_device::BtrfsDevice;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::ioctl::{self, Updater, opcode};
use std::path::Path;

/// Most devids that are asked for: a file with a devid of 2^60 must not keep us for ever.
const DEVIDS_MAX: u64 = 4096;

#[repr(C, align(8))]
struct FsInfo([u8; 1024]);

#[repr(C, align(8))]
struct DeviceInfo([u8; 4096]);

/// First number is a devid; the others are counts, for which a zero is as good.
#[repr(C, align(8))]
struct BtrfsScrub([u8; 1024]);

const SCRUB_PROGRESS: ioctl::Opcode = opcode::read_write::<BtrfsScrub>(0x94, 29);
const FS_INFO: ioctl::Opcode = opcode::read::<FsInfo>(0x94, 31);
const DEVICE_INFO: ioctl::Opcode = opcode::read_write::<DeviceInfo>(0x94, 30);

/// The devices of the btrfs that `folder` is on, missing ones included.
///
/// # Errors
/// If the folder cannot be opened, or the kernel refuses.
pub(super) fn devices(folder: &Path) -> Result<Vec<BtrfsDevice>, Errno> {
    let file = open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut info = FsInfo([0; 1024]);
    // SAFETY: the opcode has the size of the buffer, which the kernel fills and does not keep.
    unsafe { ioctl::ioctl(&file, Updater::<FS_INFO, FsInfo>::new(&mut info))? };
    let devid_max = u64_at(&info.0, 0);
    let mut devices = Vec::new();
    for devid in 0..=devid_max.min(DEVIDS_MAX) {
        let mut info = DeviceInfo([0; 4096]);
        info.0[..8].copy_from_slice(&devid.to_ne_bytes());
        // SAFETY: as above.
        let found =
            unsafe { ioctl::ioctl(&file, Updater::<DEVICE_INFO, DeviceInfo>::new(&mut info)) };
        if found.is_err() {
            // A devid that is not in use.
            continue;
        }
        // The path is the last KiB; before it are three numbers, two UUIDs and reserved ones.
        let path = info.0[3072..].split(|byte| *byte == 0).next().unwrap_or_default();
        devices.push(BtrfsDevice {
            devid,
            total_bytes: u64_at(&info.0, 32),
            used_bytes: Some(u64_at(&info.0, 24)),
            path: String::from_utf8_lossy(path).into_owned(),
        });
    }
    Ok(devices)
}

/// True if the kernel scrubs one of these devids of the btrfs that `folder` is on.
///
/// # Errors
/// If the folder cannot be opened, or the kernel does not say, as to a user without privileges.
pub(super) fn is_scrubbed(folder: &Path, devids: &[u64]) -> Result<bool, Errno> {
    let file = open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for devid in devids {
        let mut progress = BtrfsScrub([0; 1024]);
        progress.0[..8].copy_from_slice(&devid.to_ne_bytes());
        // SAFETY: the opcode has the size of the buffer, which the kernel fills and does not keep.
        let asked = unsafe {
            ioctl::ioctl(&file, Updater::<SCRUB_PROGRESS, BtrfsScrub>::new(&mut progress))
        };
        match asked {
            Ok(()) => return Ok(true),
            // No scrub runs there; a device that is missing has none.
            Err(Errno::NOTCONN | Errno::NODEV) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_ne_bytes(number)
}
