//! Guard: recognises files and block devices that contain data of another program.
//!
//! The kernel reports devices in use when they are opened. This searches the first MiB of a device,
//! which no volume uses for data, and all of a device that is to be overwritten, for signatures of
//! filesystems, partition tables, and other users of disks.
//!
//! Non-goals: all signatures that `wipefs` finds.
//!
//! Source of the signatures: the specifications of the formats, as `blkid` of util-linux uses them.

use mirrorball_core::geometry::RESERVED_BYTES;
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;

/// Bytes at a place that identify the contents of a device.
struct Signature {
    offset: u64,
    bytes: &'static [u8],
    what: &'static str,
}

/// Bytes at a place before the end of a device, whose size is rounded down to a multiple of `unit`.
struct EndSignature {
    unit: u64,
    before_end: u64,
    bytes: &'static [u8],
    what: &'static str,
}

const MD: &str = "a member of an md array";
const DDF: &str = "a member of a RAID controller's array (DDF)";
const STRATIS: &str = "a device of a Stratis pool";
const DRBD: &str = "a DRBD device";
const LUKS: &str = "an encrypted volume (LUKS)";
const LVM: &str = "a physical volume of LVM";
const OCFS2: &str = "an OCFS2 filesystem";
const UFS: &str = "a UFS filesystem";
const ZFS: &str = "a member of a ZFS pool";
const MD_MAGIC: &[u8] = b"\xfc\x4e\x2b\xa9";
const DDF_MAGIC: &[u8] = b"\xde\x11\xde\x11";
/// Of the second header of LUKS2, which is behind the first one, whose size the user chose.
const LUKS2_MAGIC: &[u8] = b"SKUL\xba\xbe";
const STRATIS_MAGIC: &[u8] = b"!Stra0tis\x86\xff\x02\x5e\x41rh";
/// Of the superblock of UFS2, in both byte orders.
const UFS2_MAGIC: [&[u8]; 2] = [b"\x19\x01\x54\x19", b"\x19\x54\x01\x19"];
const UFS_MAGIC_OFFSET: u64 = 1372;
/// Size of a label of ZFS, of which there are two at each end.
const ZFS_LABEL: u64 = 256 << 10;
/// The first name in a label of ZFS, and its length.
const ZFS_MAGIC: &[u8] = b"\0\0\0\x07version\0";
/// Place in the label: the list of pairs, encoded by XDR, begins at 16 KiB with how it is encoded,
/// its version and flags, and the two sizes of the first pair, of 4 bytes each.
const ZFS_VERSION: u64 = (16 << 10) + 20;

const SIGNATURES: [Signature; 53] = [
    Signature { offset: 0x438, bytes: b"\x53\xef", what: "an ext2, ext3 or ext4 filesystem" },
    Signature { offset: 0, bytes: b"XFSB", what: "an XFS filesystem" },
    Signature { offset: 0x10040, bytes: b"_BHRfS_M", what: "a btrfs filesystem" },
    Signature { offset: 1024, bytes: b"\x10\x20\xf5\xf2", what: "an F2FS filesystem" },
    Signature { offset: 32 << 10, bytes: b"JFS1", what: "a JFS filesystem" },
    Signature { offset: 64 << 10, bytes: b"\x01\x16\x19\x70", what: "a GFS2 filesystem" },
    // The superblock is in the third block, of 512 bytes to 4 KiB.
    Signature { offset: 1024, bytes: b"OCFSV2", what: OCFS2 },
    Signature { offset: 2048, bytes: b"OCFSV2", what: OCFS2 },
    Signature { offset: 4096, bytes: b"OCFSV2", what: OCFS2 },
    Signature { offset: 8192, bytes: b"OCFSV2", what: OCFS2 },
    // At one of four places; the last is where members have metadata.
    Signature { offset: UFS_MAGIC_OFFSET, bytes: UFS2_MAGIC[0], what: UFS },
    Signature { offset: UFS_MAGIC_OFFSET, bytes: UFS2_MAGIC[1], what: UFS },
    Signature { offset: 8192 + UFS_MAGIC_OFFSET, bytes: UFS2_MAGIC[0], what: UFS },
    Signature { offset: 8192 + UFS_MAGIC_OFFSET, bytes: UFS2_MAGIC[1], what: UFS },
    Signature { offset: 65536 + UFS_MAGIC_OFFSET, bytes: UFS2_MAGIC[0], what: UFS },
    Signature { offset: 65536 + UFS_MAGIC_OFFSET, bytes: UFS2_MAGIC[1], what: UFS },
    Signature { offset: 3, bytes: b"NTFS    ", what: "an NTFS filesystem" },
    Signature { offset: 3, bytes: b"EXFAT   ", what: "an exFAT filesystem" },
    Signature { offset: 82, bytes: b"FAT32   ", what: "a FAT filesystem" },
    Signature { offset: 4086, bytes: b"SWAPSPACE2", what: "swap space" },
    Signature {
        offset: 4096 + 24,
        bytes: b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
        what: "a device of bcache or an old bcachefs filesystem",
    },
    Signature {
        offset: 4096 + 24,
        bytes: b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
        what: "a bcachefs filesystem",
    },
    Signature { offset: ZFS_VERSION, bytes: ZFS_MAGIC, what: ZFS },
    Signature { offset: ZFS_LABEL + ZFS_VERSION, bytes: ZFS_MAGIC, what: ZFS },
    Signature { offset: 3, bytes: b"-FVE-FS-", what: "an encrypted volume (BitLocker)" },
    Signature { offset: 0, bytes: b"LUKS\xba\xbe", what: LUKS },
    Signature { offset: 16 << 10, bytes: LUKS2_MAGIC, what: LUKS },
    Signature { offset: 32 << 10, bytes: LUKS2_MAGIC, what: LUKS },
    Signature { offset: 64 << 10, bytes: LUKS2_MAGIC, what: LUKS },
    Signature { offset: 128 << 10, bytes: LUKS2_MAGIC, what: LUKS },
    Signature { offset: 256 << 10, bytes: LUKS2_MAGIC, what: LUKS },
    Signature { offset: 512 << 10, bytes: LUKS2_MAGIC, what: LUKS },
    Signature { offset: 1 << 20, bytes: LUKS2_MAGIC, what: LUKS },
    Signature { offset: 2 << 20, bytes: LUKS2_MAGIC, what: LUKS },
    Signature { offset: 4 << 20, bytes: LUKS2_MAGIC, what: LUKS },
    // In any of the first four sectors.
    Signature { offset: 0, bytes: b"LABELONE", what: LVM },
    Signature { offset: 512, bytes: b"LABELONE", what: LVM },
    Signature { offset: 1024, bytes: b"LABELONE", what: LVM },
    Signature { offset: 1536, bytes: b"LABELONE", what: LVM },
    Signature { offset: 0, bytes: b"SnAp", what: "a store of a device-mapper snapshot" },
    Signature { offset: 0, bytes: b"dmvdo001", what: "a device of VDO" },
    Signature { offset: 512 + 4, bytes: STRATIS_MAGIC, what: STRATIS },
    Signature { offset: 4608 + 4, bytes: STRATIS_MAGIC, what: STRATIS },
    Signature { offset: 4096, bytes: MD_MAGIC, what: MD },
    Signature { offset: 0, bytes: MD_MAGIC, what: MD },
    Signature { offset: 0, bytes: b"hsqs", what: "a squashfs filesystem" },
    Signature { offset: 32_769, bytes: b"CD001", what: "an ISO 9660 filesystem" },
    Signature { offset: 1024, bytes: b"\xe2\xe1\xf5\xe0", what: "an EROFS filesystem" },
    Signature { offset: 0, bytes: b"bluestore block device", what: "a Ceph BlueStore device" },
    Signature { offset: 0, bytes: b"QFI\xfb", what: "a qcow2 image" },
    Signature { offset: 0, bytes: b"conectix", what: "a VHD image" },
    Signature { offset: 512, bytes: b"EFI PART", what: "a partition table (GPT)" },
    Signature { offset: 510, bytes: b"\x55\xaa", what: "a partition table or a boot sector" },
];

const END_SIGNATURES: [EndSignature; 11] = [
    // The superblock of version 0.90, and of 1.0.
    EndSignature { unit: 64 << 10, before_end: 64 << 10, bytes: MD_MAGIC, what: MD },
    EndSignature { unit: 4096, before_end: 8192, bytes: MD_MAGIC, what: MD },
    EndSignature {
        unit: 512,
        before_end: 1024,
        bytes: b"Intel Raid ISM Cfg Sig. ",
        what: "a member of an Intel RAID array",
    },
    EndSignature { unit: 512, before_end: 512, bytes: DDF_MAGIC, what: DDF },
    EndSignature { unit: 512, before_end: 257 * 512, bytes: DDF_MAGIC, what: DDF },
    // Metadata of versions 8 and 9 in the last 4 KiB.
    EndSignature { unit: 4096, before_end: 4096 - 60, bytes: b"\x83\x74\x02\x6b", what: DRBD },
    EndSignature { unit: 4096, before_end: 4096 - 60, bytes: b"\x83\x74\x02\x6c", what: DRBD },
    EndSignature { unit: 4096, before_end: 4096 - 60, bytes: b"\x83\x74\x02\x6d", what: DRBD },
    EndSignature {
        unit: 512,
        before_end: 512,
        bytes: b"EFI PART",
        what: "the copy of a partition table (GPT)",
    },
    EndSignature {
        unit: ZFS_LABEL,
        before_end: 2 * ZFS_LABEL - ZFS_VERSION,
        bytes: ZFS_MAGIC,
        what: ZFS,
    },
    EndSignature {
        unit: ZFS_LABEL,
        before_end: ZFS_LABEL - ZFS_VERSION,
        bytes: ZFS_MAGIC,
        what: ZFS,
    },
];

/// The contents of a device in front of the data of volumes. What is further back may be the data
/// of a volume.
pub fn contents_before_data(device: impl AsFd) -> Result<Option<&'static str>, Errno> {
    contents_before_data_by(|offset, length| {
        let mut found = vec![0; length];
        let length = rustix::io::pread(&device, &mut *found, offset)?;
        found.truncate(length);
        Ok(found)
    })
}

/// The same of a device of which `read(offset, length)` reads; the result is shorter at its end.
pub fn contents_before_data_by(
    read: impl Fn(u64, usize) -> Result<Vec<u8>, Errno>,
) -> Result<Option<&'static str>, Errno> {
    first_of(places(None).filter(is_before_data), read)
}

/// The contents of a device of this size, by the first signature found anywhere.
pub fn contents_by(
    size_bytes: u64,
    read: impl Fn(u64, usize) -> Result<Vec<u8>, Errno>,
) -> Result<Option<&'static str>, Errno> {
    first_of(places(Some(size_bytes)), read)
}

/// The same of a device of which `read(offset, length)` reads whole blocks; `None` also if it
/// cannot be read.
pub(crate) fn contents_by_blocks(
    size_bytes: u64,
    read: impl Fn(u64, u32) -> io::Result<Vec<u8>>,
) -> Option<&'static str> {
    let part = |offset, length| read_part(size_bytes, &read, offset, length);
    contents_by(size_bytes, part).ok()?
}

/// Reads a part of a device in whole blocks; the result is shorter at its end.
fn read_part(
    size_bytes: u64,
    read: impl Fn(u64, u32) -> io::Result<Vec<u8>>,
    offset: u64,
    length: usize,
) -> Result<Vec<u8>, Errno> {
    let start = offset - offset % 4096;
    let until = (offset + length as u64).next_multiple_of(4096);
    let read = |until: u64| read(start, until.saturating_sub(start) as u32);
    // Behind the end direct I/O reads less, and a server nothing.
    let bytes = read(until).or_else(|_| read(until.min(size_bytes)));
    let bytes = bytes.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let skip = (offset - start) as usize;
    Ok(bytes.get(skip..skip + length).map(<[u8]>::to_vec).unwrap_or_default())
}

/// A place of a signature, its bytes, and what has them.
type Place = (u64, &'static [u8], &'static str);

/// Returns true if no volume has data at the place.
fn is_before_data((offset, bytes, _): &Place) -> bool {
    offset + bytes.len() as u64 <= RESERVED_BYTES
}

/// The signatures to look for. Those near the end need the size.
fn places(size_bytes: Option<u64>) -> impl Iterator<Item = Place> {
    let begin = SIGNATURES.iter().map(|it| (it.offset, it.bytes, it.what));
    let end = size_bytes.into_iter().flat_map(|size_bytes| {
        END_SIGNATURES.iter().filter_map(move |it| {
            let end = size_bytes / it.unit * it.unit;
            Some((end.checked_sub(it.before_end)?, it.bytes, it.what))
        })
    });
    begin.chain(end)
}

fn first_of(
    places: impl Iterator<Item = Place>,
    read: impl Fn(u64, usize) -> Result<Vec<u8>, Errno>,
) -> Result<Option<&'static str>, Errno> {
    for (offset, bytes, what) in places {
        if read(offset, bytes.len())? == *bytes {
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
        const SIZE_BYTES: u64 = (5 << 20) + 4096 + 100;
        let mut data = vec![0xa5; SIZE_BYTES as usize];
        let all = |data: &[u8]| {
            let read = |offset: u64, length| Ok(data[offset as usize..][..length].to_vec());
            (contents_before_data_by(read).unwrap(), contents_by(SIZE_BYTES, read).unwrap())
        };
        assert_eq!(all(&data), (None, None));
        for place in places(Some(SIZE_BYTES)) {
            let (offset, bytes, what) = place;
            data[offset as usize..][..bytes.len()].copy_from_slice(bytes);
            let found = is_before_data(&place).then_some(what);
            assert_eq!(all(&data), (found, Some(what)), "at {offset}");
            data[offset as usize..][..bytes.len()].fill(0xa5);
        }
        let file = tempfile::tempfile().unwrap();
        assert_eq!(contents_before_data(&file), Ok(None), "an empty device");
        file.write_all_at(b"XFSB", 0).unwrap();
        assert_eq!(contents_before_data(&file), Ok(Some("an XFS filesystem")));
    }

    /// As XDR encodes the list of pairs of a ZFS label: how it is encoded, version and flags of the
    /// list, and of the first pair its sizes, its name, type, count and value.
    #[test]
    fn each_of_the_four_labels_of_zfs_is_found() {
        const LABEL: u64 = 256 << 10;
        let list = [
            &[1, 1, 0, 0][..],
            &[0; 4],
            &[0, 0, 0, 1],
            &[0, 0, 0, 36],
            &[0, 0, 0, 32],
            &[0, 0, 0, 7],
            b"version\0",
            &[0, 0, 0, 8],
            &[0, 0, 0, 1],
            &5000u64.to_be_bytes(),
        ];
        let size_bytes = 20 * LABEL + 3 * 4096;
        for label in [0, LABEL, 18 * LABEL, 19 * LABEL] {
            let mut data = vec![0; size_bytes as usize];
            let at = label as usize + 16384;
            data[at..at + 48].copy_from_slice(&list.concat());
            let read = |offset: u64, length| Ok(data[offset as usize..][..length].to_vec());
            assert_eq!(contents_by(size_bytes, read), Ok(Some(ZFS)), "at {label}");
        }
    }

    /// By the specifications, on a device of 1,000,000 sectors and a half.
    #[test]
    fn places_near_the_end_are_as_the_programs_have_them() {
        let ends: Vec<u64> =
            places(Some(512_000_256)).skip(SIGNATURES.len()).map(|it| it.0).collect();
        let drbd = 512_000_000 - 4096 + 60;
        let expected = [
            511_901_696, 511_991_808, 511_998_976, 511_999_488, 511_868_416, drbd, drbd, drbd,
            511_999_488, 511_459_348, 511_721_492,
        ];
        assert_eq!(ends, expected);
    }
}
