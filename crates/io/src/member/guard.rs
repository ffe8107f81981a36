//! Guard: refuses block devices that contain data of another program.
//!
//! The kernel reports devices in use when they are opened. This searches the first bytes of a
//! device for signatures of filesystems, partition tables, and other users of disks.
//!
//! Non-goals: all signatures that `wipefs` finds; files, which the user names as members.
//!
//! Source of the signatures: the specifications of the formats, as `blkid` of util-linux uses them.

use rustix::io::Errno;
use std::os::fd::AsFd;

/// Bytes at an offset that identify the contents of a device.
struct Signature {
    offset: u64,
    bytes: &'static [u8],
    what: &'static str,
}

const SIGNATURES: [Signature; 18] = [
    Signature { offset: 0x438, bytes: b"\x53\xef", what: "an ext2, ext3 or ext4 filesystem" },
    Signature { offset: 0, bytes: b"XFSB", what: "an XFS filesystem" },
    Signature { offset: 0x10040, bytes: b"_BHRfS_M", what: "a btrfs filesystem" },
    Signature { offset: 1024, bytes: b"\x10\x20\xf5\xf2", what: "an F2FS filesystem" },
    Signature { offset: 3, bytes: b"NTFS    ", what: "an NTFS filesystem" },
    Signature { offset: 3, bytes: b"EXFAT   ", what: "an exFAT filesystem" },
    Signature { offset: 82, bytes: b"FAT32   ", what: "a FAT filesystem" },
    Signature { offset: 4086, bytes: b"SWAPSPACE2", what: "swap space" },
    Signature {
        offset: 4096,
        bytes: b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
        what: "a bcachefs filesystem",
    },
    Signature {
        offset: 4096,
        bytes: b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
        what: "a bcachefs filesystem",
    },
    // The list of pairs of a ZFS label, encoded by XDR, whose first name is `version`.
    Signature { offset: 16384 + 16, bytes: b"\0\0\0\x07version\0", what: "a member of a ZFS pool" },
    Signature { offset: 3, bytes: b"-FVE-FS-", what: "an encrypted volume (BitLocker)" },
    Signature { offset: 0, bytes: b"LUKS\xba\xbe", what: "an encrypted volume (LUKS)" },
    Signature { offset: 512, bytes: b"LABELONE", what: "a physical volume of LVM" },
    Signature { offset: 4096, bytes: b"\xfc\x4e\x2b\xa9", what: "a member of an md array" },
    Signature { offset: 0, bytes: b"\xfc\x4e\x2b\xa9", what: "a member of an md array" },
    Signature { offset: 512, bytes: b"EFI PART", what: "a partition table (GPT)" },
    Signature { offset: 510, bytes: b"\x55\xaa", what: "a partition table or a boot sector" },
];

/// The contents of a device, by the first signature found.
///
/// # Errors
/// If the device cannot be read.
pub fn contents(device: impl AsFd) -> Result<Option<&'static str>, Errno> {
    contents_by(|offset, length| {
        let mut found = vec![0; length];
        let length = rustix::io::pread(&device, &mut *found, offset)?;
        found.truncate(length);
        Ok(found)
    })
}

/// The contents of a device of which `read(offset, length)` reads; the result is shorter at its
/// end.
///
/// # Errors
/// If it cannot be read.
pub fn contents_by(
    read: impl Fn(u64, usize) -> Result<Vec<u8>, Errno>,
) -> Result<Option<&'static str>, Errno> {
    for Signature { offset, bytes, what } in &SIGNATURES {
        if read(*offset, bytes.len())? == *bytes {
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
    fn each_signature_is_found_and_noise_is_not() {
        for signature in &SIGNATURES {
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(&[0xa5; 128 << 10], 0).unwrap();
            assert_eq!(contents(&file), Ok(None));
            file.write_all_at(signature.bytes, signature.offset).unwrap();
            assert_eq!(contents(&file), Ok(Some(signature.what)));
        }
        assert_eq!(contents(tempfile::tempfile().unwrap()), Ok(None), "an empty device");
    }
}
