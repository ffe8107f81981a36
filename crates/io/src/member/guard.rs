//! Whether a block device holds something that its owner would miss.
//!
//! Whether it is in use the kernel tells when the device is opened. Here its first bytes are looked
//! at for the marks of filesystems, partition tables and other owners of disks.
//!
//! Non-goals: finding everything that was ever written to disks (`wipefs` knows more), and files:
//! an image is a file that somebody named as a member.
//!
//! Source of the marks: the documents of the formats themselves, as `blkid` of util-linux looks for
//! them.

use rustix::io::Errno;
use std::os::fd::AsFd;

/// Bytes at an offset that tell what a device holds.
struct Mark {
    offset: u64,
    bytes: &'static [u8],
    what: &'static str,
}

const MARKS: [Mark; 14] = [
    Mark { offset: 0x438, bytes: b"\x53\xef", what: "an ext2, ext3 or ext4 filesystem" },
    Mark { offset: 0, bytes: b"XFSB", what: "an XFS filesystem" },
    Mark { offset: 0x10040, bytes: b"_BHRfS_M", what: "a btrfs filesystem" },
    Mark { offset: 1024, bytes: b"\x10\x20\xf5\xf2", what: "an F2FS filesystem" },
    Mark { offset: 3, bytes: b"NTFS    ", what: "an NTFS filesystem" },
    Mark { offset: 3, bytes: b"EXFAT   ", what: "an exFAT filesystem" },
    Mark { offset: 82, bytes: b"FAT32   ", what: "a FAT filesystem" },
    Mark { offset: 4086, bytes: b"SWAPSPACE2", what: "swap space" },
    Mark { offset: 0, bytes: b"LUKS\xba\xbe", what: "an encrypted volume (LUKS)" },
    Mark { offset: 512, bytes: b"LABELONE", what: "a physical volume of LVM" },
    Mark { offset: 4096, bytes: b"\xfc\x4e\x2b\xa9", what: "a member of an md array" },
    Mark { offset: 0, bytes: b"\xfc\x4e\x2b\xa9", what: "a member of an md array" },
    Mark { offset: 512, bytes: b"EFI PART", what: "a partition table (GPT)" },
    Mark { offset: 510, bytes: b"\x55\xaa", what: "a partition table or a boot sector" },
];

/// What a device holds, by the first mark found.
///
/// # Errors
/// If the device cannot be read.
pub fn contents(device: impl AsFd) -> Result<Option<&'static str>, Errno> {
    let mut found = [0; 16];
    for Mark { offset, bytes, what } in &MARKS {
        let found = &mut found[..bytes.len()];
        let length = rustix::io::pread(&device, &mut *found, *offset)?;
        if length == bytes.len() && found == *bytes {
            return Ok(Some(what));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn each_mark_is_found_and_noise_is_not() {
        for mark in &MARKS {
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(&[0xa5; 128 << 10], 0).unwrap();
            assert_eq!(contents(&file), Ok(None));
            file.write_all_at(mark.bytes, mark.offset).unwrap();
            assert_eq!(contents(&file), Ok(Some(mark.what)));
        }
        assert_eq!(contents(tempfile::tempfile().unwrap()), Ok(None), "an empty device");
    }
}
