//! Ioctls of btrfs that show what nothing in sysfs does: two which device has which devid, one
//! whether a scrub runs, and one where the chunks are.
//!
//! The first two work without root on any open folder of the file system. Their structures have a
//! fixed size and only plain fields; they are read as bytes at the offsets of `linux/btrfs.h`.

#![allow(unsafe_code, reason = "an ioctl takes the address of a buffer; see the page above")]

use super::btrfs_device::BtrfsDevice;
use mirrorball_trace::BtrfsChunk;
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

/// Key and results of a search in a tree.
#[repr(C, align(8))]
struct TreeSearch([u8; 4096]);

/// Bytes of the key of a search, of a header of a result, and of a chunk before its stripes.
const SEARCH_KEY_BYTES: usize = 104;
const HEADER_BYTES: usize = 32;
const CHUNK_BYTES: usize = 48;
const CHUNK_TREE: u64 = 3;
const CHUNK_OBJECT: u64 = 256;
const CHUNK_ITEM: u32 = 228;

const TREE_SEARCH: ioctl::Opcode = opcode::read_write::<TreeSearch>(0x94, 17);
const SCRUB_PROGRESS: ioctl::Opcode = opcode::read_write::<BtrfsScrub>(0x94, 29);
const FS_INFO: ioctl::Opcode = opcode::read::<FsInfo>(0x94, 31);
const DEVICE_INFO: ioctl::Opcode = opcode::read_write::<DeviceInfo>(0x94, 30);

/// The devices of the btrfs that `folder` is on, missing ones included. Fails if the folder cannot
/// be opened, or the kernel refuses.
pub(crate) fn devices(folder: &Path) -> Result<Vec<BtrfsDevice>, Errno> {
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

/// True if the kernel scrubs one of these devids of the btrfs that `folder` is on. Fails if the
/// folder cannot be opened, or the kernel does not say, as to a user without privileges.
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

/// The chunks of the btrfs that `folder` is on, without those with parity. Fails if the folder
/// cannot be opened, or the kernel does not say, as to a user without privileges.
pub(crate) fn chunks(folder: &Path) -> Result<Vec<BtrfsChunk>, Errno> {
    let file = open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let (mut chunks, mut from) = (Vec::new(), 0_u64);
    loop {
        let mut search = TreeSearch([0; 4096]);
        let last = u64::MAX.to_ne_bytes();
        for (at, word) in [
            (0, CHUNK_TREE.to_ne_bytes()),
            (8, CHUNK_OBJECT.to_ne_bytes()),
            (16, CHUNK_OBJECT.to_ne_bytes()),
            (24, from.to_ne_bytes()),
            (32, last),
            (48, last),
        ] {
            search.0[at..at + 8].copy_from_slice(&word);
        }
        for (at, word) in [(56, CHUNK_ITEM), (60, CHUNK_ITEM), (64, u32::MAX)] {
            search.0[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        // SAFETY: the opcode has the size of the buffer, which the kernel fills and does not keep.
        unsafe { ioctl::ioctl(&file, Updater::<TREE_SEARCH, TreeSearch>::new(&mut search))? };
        let found = u32_at(&search.0, 64);
        let mut at = SEARCH_KEY_BYTES;
        for _ in 0..found {
            let Some(item) = search.0.get(at + HEADER_BYTES..) else { break };
            let logical = u64_at(&search.0, at + 16);
            chunks.extend(chunk(logical, item));
            at += HEADER_BYTES + u32_at(&search.0, at + 28) as usize;
            from = logical + 1;
        }
        if found == 0 {
            return Ok(chunks);
        }
    }
}

/// A chunk item, in the byte order of the disk.
fn chunk(logical: u64, item: &[u8]) -> Option<BtrfsChunk> {
    let word = |at: usize| Some(u64::from_le_bytes(item.get(at..at + 8)?.try_into().ok()?));
    let half = |at: usize| Some(u16::from_le_bytes(item.get(at..at + 2)?.try_into().ok()?));
    let (bytes, profile, count, columns) = (word(0)?, word(24)?, half(44)?, half(46)?);
    let copies = match profile >> 3 & 0xff {
        0x02 | 0x04 => 2,
        0x08 => u64::from(columns.max(1)),
        0x10 | 0x20 => return None,
        0x40 => 3,
        0x80 => 4,
        _ => 1,
    };
    let stripes = (0..usize::from(count)).map(|stripe| {
        let at = CHUNK_BYTES + 32 * stripe;
        Some((word(at)?, word(at + 8)?))
    });
    Some(BtrfsChunk { logical, bytes, copies, stripes: stripes.collect::<Option<_>>()? })
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_ne_bytes(number)
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_ne_bytes(number)
}
