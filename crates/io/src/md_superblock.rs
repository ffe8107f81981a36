//! The superblock of a member of an md array, metadata version 1.2: read, never written.
//!
//! Source: `include/uapi/linux/raid/md_p.h` of Linux, for offsets and meanings; `super1.c` of mdadm
//! and `md.c` of Linux for the checksum and the list of bad blocks.

use std::{fmt, io};

/// Where version 1.2 has its superblock.
const SUPERBLOCK_OFFSET: u64 = 4096;
/// Bytes of a superblock with the greatest number of devices that md has, rounded to a block.
const SUPERBLOCK_BYTES: u32 = 4096;
/// Unit of sizes and offsets.
const SECTOR: u64 = 512;
const MAGIC: u32 = 0xa92b_4efc;
/// Bytes before the table of roles.
const FIXED_BYTES: usize = 256;
/// Devices that fit the rest of a block.
const DEVICES_MAX: usize = (SUPERBLOCK_BYTES as usize - FIXED_BYTES) / 2;
/// The level of raid1.
const RAID1: i32 = 1;

/// Features that change nothing for a reader, or that this module honours: a bitmap, a recovery
/// that goes on, bad blocks, a new data offset that is in force.
const FEATURES_READ: u32 = 0x1 | FEATURE_RECOVERY | FEATURE_BAD_BLOCKS;
const FEATURE_RECOVERY: u32 = 0x2;
const FEATURE_BAD_BLOCKS: u32 = 0x8;
/// Features by name, for the error about one.
const FEATURES: [(u32, &str); 8] = [
    (0x4, "a reshape that goes on"),
    (0x10, "a replacement that goes on"),
    (0x40, "a change of the data offset that goes on"),
    (0x80, "a recovery by bitmap that goes on"),
    (0x100, "a cluster"),
    (0x200, "a journal"),
    (0x400, "a log of partial parity"),
    (0x800, "a log of partial parity"),
];

/// What a member is in its array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// It has the data of this slot.
    Active(u16),
    /// It has none, and may get some.
    Spare,
    /// It failed, or its place is empty.
    Faulty,
}

/// What the superblock of a member of an md raid1 says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Superblock {
    /// The array.
    pub(crate) array: [u8; 16],
    /// The name of the array, without that of the host.
    pub(crate) name: String,
    /// Bytes of data of each member.
    pub(crate) size_bytes: u64,
    /// Members of the array.
    pub(crate) raid_disks: u32,
    /// First byte of the data.
    pub(crate) data_offset_bytes: u64,
    /// Bytes from the start of the data that are recovered; `None` if all are.
    pub(crate) recovered_bytes: Option<u64>,
    /// The number of the member in the table of roles.
    pub(crate) number: u32,
    /// True if reads go elsewhere where possible.
    pub(crate) write_mostly: bool,
    /// Where the list of bad blocks is; `None` if there is none.
    pub(crate) bad_blocks: Option<BadBlockList>,
    /// Changes of the array so far.
    pub(crate) events: u64,
    /// True if all members have the same data.
    pub(crate) is_clean: bool,
    /// The roles by number.
    pub(crate) roles: Vec<Role>,
}

/// What the member is, as the verb and what follows of a sentence about it.
impl fmt::Display for Superblock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Superblock { name, raid_disks, events, is_clean, .. } = self;
        match self.role(self.number) {
            Role::Active(slot) => {
                write!(f, "is member {} of {raid_disks} of the md raid1 `{name}`", slot + 1)?;
            }
            Role::Spare => write!(f, "is a spare of the md raid1 `{name}`")?,
            Role::Faulty => write!(f, "is a failed member of the md raid1 `{name}`")?,
        }
        let state = if *is_clean { "clean" } else { "not stopped in good order" };
        write!(f, ", {state}, with {events} events")
    }
}

/// Where the list of bad blocks of a member is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BadBlockList {
    /// First byte.
    pub(crate) offset_bytes: u64,
    /// Bytes.
    pub(crate) length_bytes: u32,
}

/// Why a superblock cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SuperblockError {
    /// There is none.
    Absent,
    /// Its checksum is wrong.
    Damaged,
    /// It is of another metadata version, by its number.
    Version(u32),
    /// It is of another level.
    Level(i32),
    /// It uses features that only md knows.
    Features(u32),
    /// Its checksum is right and its contents are not possible.
    Malformed(&'static str),
}

impl fmt::Display for SuperblockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SuperblockError::Absent => write!(f, "has no md superblock of version 1.2"),
            SuperblockError::Damaged => write!(f, "has an md superblock with a wrong checksum"),
            SuperblockError::Version(major) => {
                write!(f, "has md metadata of version {major}, and only 1.2 can be read")
            }
            SuperblockError::Level(level) => {
                write!(f, "is a member of an md array of level {level}, and only raid1 can be read")
            }
            SuperblockError::Features(bits) => {
                let known = FEATURES.iter().find(|(bit, _)| bits & bit != 0);
                match known {
                    Some((_, name)) => write!(f, "is a member of an md array with {name}"),
                    None => write!(f, "uses a feature of md that is not known ({bits:#x})"),
                }
            }
            SuperblockError::Malformed(what) => {
                write!(f, "has an md superblock that is not possible: {what}")
            }
        }
    }
}

/// Reads the superblock of a device of which `read(offset, length)` reads.
///
/// # Errors
/// If it cannot be read; the inner one if there is none, or it cannot be used.
pub(crate) fn superblock_from(
    read: impl Fn(u64, u32) -> io::Result<Vec<u8>>,
) -> io::Result<Result<Superblock, SuperblockError>> {
    Ok(decode(&read(SUPERBLOCK_OFFSET, SUPERBLOCK_BYTES)?))
}

/// Reads the superblock in `block`, the bytes from [`SUPERBLOCK_OFFSET`] on.
///
/// # Errors
/// If there is none, or it cannot be used.
fn decode(block: &[u8]) -> Result<Superblock, SuperblockError> {
    if block.len() < FIXED_BYTES || u32_at(block, 0) != MAGIC {
        return Err(SuperblockError::Absent);
    }
    let major = u32_at(block, 4);
    if major != 1 {
        return Err(SuperblockError::Version(major));
    }
    let devices = u32_at(block, 220) as usize;
    if devices > DEVICES_MAX || FIXED_BYTES + 2 * devices > block.len() {
        return Err(SuperblockError::Malformed("too many devices"));
    }
    if checksum(&block[..FIXED_BYTES + 2 * devices]) != u32_at(block, 216) {
        return Err(SuperblockError::Damaged);
    }
    if u64_at(block, 144).checked_mul(SECTOR) != Some(SUPERBLOCK_OFFSET) {
        return Err(SuperblockError::Malformed("it belongs at another offset"));
    }
    let level = u32_at(block, 72).cast_signed();
    if level != RAID1 {
        return Err(SuperblockError::Level(level));
    }
    let features = u32_at(block, 8);
    if features & !FEATURES_READ != 0 {
        return Err(SuperblockError::Features(features & !FEATURES_READ));
    }
    let roles = block[FIXED_BYTES..].chunks_exact(2).take(devices);
    let superblock = Superblock {
        array: block[16..32].try_into().expect("16 bytes"),
        name: name(&block[32..64]),
        size_bytes: bytes_at(block, 80)?,
        raid_disks: u32_at(block, 92),
        data_offset_bytes: bytes_at(block, 128)?,
        recovered_bytes: match features & FEATURE_RECOVERY {
            0 => None,
            _ => Some(bytes_at(block, 152)?),
        },
        number: u32_at(block, 160),
        write_mostly: block[184] & 1 != 0,
        bad_blocks: bad_block_list(block, features)?,
        events: u64_at(block, 200),
        is_clean: u64_at(block, 208) == u64::MAX,
        roles: roles.map(|role| role_of(u16::from_le_bytes([role[0], role[1]]))).collect(),
    };
    superblock.check_data()?;
    Ok(superblock)
}

impl Superblock {
    /// Checks that the data are a possible part of a device.
    fn check_data(&self) -> Result<(), SuperblockError> {
        let least = SUPERBLOCK_OFFSET + u64::from(SUPERBLOCK_BYTES);
        if self.size_bytes == 0 {
            return Err(SuperblockError::Malformed("the array has no data"));
        }
        if self.data_offset_bytes < least {
            return Err(SuperblockError::Malformed("the data overlap the superblock"));
        }
        if self.data_offset_bytes.checked_add(self.size_bytes).is_none() {
            return Err(SuperblockError::Malformed("the data end beyond every device"));
        }
        Ok(())
    }

    /// Whether two superblocks say the same about each device.
    pub(crate) fn has_same_roles(&self, other: &Superblock) -> bool {
        let devices = self.roles.len().max(other.roles.len()) as u32;
        (0..devices).all(|number| self.role(number) == other.role(number))
    }

    /// What this superblock says about the device with a number.
    pub(crate) fn role(&self, number: u32) -> Role {
        self.roles.get(number as usize).copied().unwrap_or(Role::Faulty)
    }
}

/// True if a list of bad blocks has an entry. Entries that are not used have all bits set.
pub(crate) fn has_bad_blocks(list: &[u8]) -> bool {
    list.chunks_exact(8).any(|entry| entry != [0xff; 8])
}

/// The sum of the 32-bit words, carries folded in once, without the checksum itself.
fn checksum(block: &[u8]) -> u32 {
    let (words, rest) = block.as_chunks::<4>();
    let mut sum: u64 = words.iter().map(|word| u64::from(u32::from_le_bytes(*word))).sum();
    if let [low, high] = rest {
        sum += u64::from(u16::from_le_bytes([*low, *high]));
    }
    sum -= u64::from(u32_at(block, 216));
    ((sum & 0xffff_ffff) + (sum >> 32)) as u32
}

/// The name after the one of the host, as mdadm shows it.
fn name(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.split('\0').next().unwrap_or_default();
    text.rsplit(':').next().unwrap_or_default().to_owned()
}

fn role_of(value: u16) -> Role {
    match value {
        0xffff => Role::Spare,
        0xff00.. => Role::Faulty,
        slot => Role::Active(slot),
    }
}

fn bad_block_list(block: &[u8], features: u32) -> Result<Option<BadBlockList>, SuperblockError> {
    let sectors = u64::from(u16::from_le_bytes([block[186], block[187]]));
    if features & FEATURE_BAD_BLOCKS == 0 || sectors == 0 {
        return Ok(None);
    }
    let offset = i64::from(u32_at(block, 188).cast_signed()) * SECTOR as i64;
    let offset_bytes = SUPERBLOCK_OFFSET.checked_add_signed(offset);
    let error = SuperblockError::Malformed("the list of bad blocks is before the device");
    let (offset_bytes, length_bytes) = (offset_bytes.ok_or(error)?, (sectors * SECTOR) as u32);
    Ok(Some(BadBlockList { offset_bytes, length_bytes }))
}

/// A number of sectors, in bytes.
fn bytes_at(block: &[u8], at: usize) -> Result<u64, SuperblockError> {
    let bytes = u64_at(block, at).checked_mul(SECTOR);
    bytes.ok_or(SuperblockError::Malformed("a size beyond every device"))
}

fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(block: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(block[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// A superblock that Linux wrote, from the tests of the program.
    fn recorded(name: &str) -> Vec<u8> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/labels/md");
        std::fs::read(folder.join(format!("{name}.bin"))).unwrap()
    }

    /// The block with a valid checksum.
    fn signed(mut block: Vec<u8>) -> Vec<u8> {
        let sum = checksum(&block);
        block[216..220].copy_from_slice(&sum.to_le_bytes());
        block
    }

    fn with(at: usize, bytes: &[u8]) -> Result<Superblock, SuperblockError> {
        let mut block = recorded("clean-b");
        block[at..at + bytes.len()].copy_from_slice(bytes);
        decode(&signed(block))
    }

    #[test]
    fn the_superblock_of_linux_is_read() {
        let found = decode(&recorded("clean-b")).unwrap();
        let mut roles = vec![Role::Active(0), Role::Active(1), Role::Active(2)];
        roles.resize(128, Role::Spare);
        let expected = Superblock {
            array: found.array,
            name: "data".to_owned(),
            size_bytes: 63 << 20,
            raid_disks: 3,
            data_offset_bytes: 1 << 20,
            recovered_bytes: None,
            number: 1,
            write_mostly: false,
            bad_blocks: None,
            events: 17,
            is_clean: true,
            roles,
        };
        assert_eq!(found, expected);
        assert!(!decode(&recorded("dirty-a")).unwrap().is_clean);
        assert_eq!(decode(&recorded("degraded-a")).unwrap().role(1), Role::Faulty);
    }

    #[test]
    fn a_damaged_byte_never_passes() {
        let block = recorded("clean-a");
        for at in 0..block.len() {
            let mut damaged = block.clone();
            damaged[at] ^= 0x10;
            assert!(decode(&damaged).is_err(), "byte {at}");
        }
        for length in 0..block.len() {
            assert!(decode(&block[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn what_only_md_can_do_is_refused_by_name() {
        assert_eq!(with(4, &[0]), Err(SuperblockError::Version(0)));
        assert_eq!(with(72, &[5]), Err(SuperblockError::Level(5)));
        assert_eq!(with(8, &[4]), Err(SuperblockError::Features(4)));
        let text = with(9, &[0x80]).unwrap_err().to_string();
        assert!(text.contains("not known (0x8000)"), "{text}");
        for (at, bytes) in [(128, [0; 8]), (80, [0; 8]), (80, [0xff; 8]), (128, [0x7f; 8])] {
            assert!(matches!(with(at, &bytes), Err(SuperblockError::Malformed(_))), "{at}");
        }
        assert!(matches!(with(144, &[0]), Err(SuperblockError::Malformed(_))));
    }

    #[test]
    fn a_recovery_and_bad_blocks_are_seen() {
        assert_eq!(with(8, &[1]).unwrap().recovered_bytes, None, "a bitmap");
        let recovering = with(8, &[2]).unwrap();
        assert_eq!(recovering.recovered_bytes, Some(0));
        // Linux reserves eight sectors for the list, sixteen sectors behind the superblock.
        let list = with(8, &[8]).unwrap().bad_blocks.unwrap();
        assert_eq!((list.offset_bytes, list.length_bytes), (4096 + 16 * 512, 8 * 512));
        assert!(!has_bad_blocks(&[0xff; 4096]));
        assert!(has_bad_blocks(&[&[0xff; 64][..], &[1, 4, 0, 0, 0, 0, 0, 0]].concat()));
    }
}
