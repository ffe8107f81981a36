//! The place of a machine where the program runs on none, as in a browser: only copies and pasted
//! texts are read there, and all else has this one answer.

use super::btrfs_device::BtrfsDevice;
use std::path::Path;

const NO_MACHINE: &str = "there is no machine here to ask";

pub(super) fn run(_command: &[&str]) -> Result<String, String> {
    Err(NO_MACHINE.to_owned())
}

pub(super) fn is_char_device(_path: &str) -> bool {
    false
}

pub(super) fn block_number(_path: &str) -> Option<String> {
    None
}

pub(super) fn has_bytes(_device: &str, _place: u64, _bytes: &[u8; 8]) -> bool {
    false
}

pub(super) fn btrfs_devices(_folder: &Path) -> Result<Vec<BtrfsDevice>, String> {
    Err(NO_MACHINE.to_owned())
}

pub(super) fn is_scrubbed(_folder: &Path, _devids: &[u64]) -> Result<bool, String> {
    Err(NO_MACHINE.to_owned())
}
