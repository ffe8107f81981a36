//! Numbers and layouts of the interface of the ublk driver.
//!
//! Plain functions between bytes and values. All numbers are in native byte order.
//!
//! Source: the Linux kernel's `include/uapi/linux/ublk_cmd.h` and `Documentation/block/ublk.rst`.

use crate::export::Durability;
use crate::export::Export;
use rustix::ioctl::opcode::{read, read_write};

/// Codes of commands: up to `GET_INFO` for the control device, the others for a device. Since Linux
/// 6.4 they are encoded like ioctls, from a number and the size of their data.
pub(super) mod code {
    use super::{read, read_write};

    pub(in crate::export::ublk) const ADD: u32 = read_write::<[u8; 32]>(b'u', 0x04);
    pub(in crate::export::ublk) const DELETE: u32 = read_write::<[u8; 32]>(b'u', 0x05);
    pub(in crate::export::ublk) const START: u32 = read_write::<[u8; 32]>(b'u', 0x06);
    pub(in crate::export::ublk) const STOP: u32 = read_write::<[u8; 32]>(b'u', 0x07);
    pub(in crate::export::ublk) const SET_PARAMETERS: u32 = read_write::<[u8; 32]>(b'u', 0x08);
    pub(in crate::export::ublk) const GET_INFO: u32 = read::<[u8; 32]>(b'u', 0x02);
    pub(in crate::export::ublk) const FETCH: u32 = read_write::<[u8; 16]>(b'u', 0x20);
    pub(in crate::export::ublk) const COMMIT_AND_FETCH: u32 = read_write::<[u8; 16]>(b'u', 0x21);
}

/// Asks the driver to choose the number of a device.
pub(super) const ANY_DEVICE: u32 = u32::MAX;
/// No queue, in a command to the control device.
const NO_QUEUE: u16 = u16::MAX;
/// Limit of requests in flight of a device.
pub(super) const DEPTH: u16 = 128;
/// Limit of data of one request.
pub(super) const IO_BYTES: u32 = 512 << 10;
/// Size of the sectors in which the driver counts, for all block sizes.
const SECTOR_BYTES: u64 = 512;
/// Limits of discards and write-zeroes requests; the kernel splits longer ones.
const DISCARD_BYTES: u64 = 1 << 30;
const ZEROES_BYTES: u64 = 32 << 20;

/// Encoded size of [`Info`].
pub(super) const INFO_BYTES: usize = 64;
/// Encoded size of the parameters.
pub(super) const PARAMETERS_BYTES: usize = 60;
/// Number of words that describe a request in the memory that the driver shares.
pub(super) const DESCRIPTION_WORDS: usize = 3;

/// The first 8 bytes of a command to the control device: the number of the device and the size of
/// the data.
pub(super) fn control_head(device: u32, data_bytes: usize) -> [u8; 8] {
    let mut head = [0; 8];
    put(&mut head, 0, device.to_ne_bytes());
    put(&mut head, 4, NO_QUEUE.to_ne_bytes());
    put(&mut head, 6, (data_bytes as u16).to_ne_bytes());
    head
}

/// The first 8 bytes of a command to a device: the tag, and the result of its request: bytes, or a
/// negative error number.
pub(super) fn io_head(tag: u16, result: i32) -> [u8; 8] {
    let mut head = [0; 8];
    put(&mut head, 2, tag.to_ne_bytes());
    put(&mut head, 4, result.to_ne_bytes());
    head
}

/// The part of the driver's description of a device that is used here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Info {
    pub(super) device: u32,
    /// ID of the process that serves it; less than one after it was stopped.
    pub(super) process: i32,
    /// A number that its server chose, and the driver only stores.
    pub(super) mark: u64,
}

impl Info {
    /// Encodes the request to add such a device, with one queue of [`DEPTH`].
    pub(super) fn bytes(&self) -> [u8; INFO_BYTES] {
        let mut bytes = [0; INFO_BYTES];
        put(&mut bytes, 0, 1u16.to_ne_bytes());
        put(&mut bytes, 2, DEPTH.to_ne_bytes());
        put(&mut bytes, 8, IO_BYTES.to_ne_bytes());
        put(&mut bytes, 12, self.device.to_ne_bytes());
        put(&mut bytes, 16, self.process.to_ne_bytes());
        put(&mut bytes, 32, self.mark.to_ne_bytes());
        bytes
    }

    pub(super) fn read(bytes: &[u8; INFO_BYTES]) -> Info {
        Info {
            device: u32::from_ne_bytes(take(bytes, 12)),
            process: i32::from_ne_bytes(take(bytes, 16)),
            mark: u64::from_ne_bytes(take(bytes, 32)),
        }
    }
}

/// Encodes the properties of an export for the kernel: size, block sizes, a volatile write cache,
/// and limits of discards.
pub(super) fn parameters(export: &Export) -> [u8; PARAMETERS_BYTES] {
    const BASIC_AND_DISCARD: u32 = 1 | 1 << 1;
    const ROTATIONAL: u32 = 1 << 1;
    const VOLATILE_CACHE: u32 = 1 << 2;
    const FUA: u32 = 1 << 3;
    let attributes = VOLATILE_CACHE | FUA | if export.rotational { ROTATIONAL } else { 0 };
    let block = export.block_bytes.trailing_zeros() as u8;
    // At least a page: smaller writes are slower on every disk.
    let page = block.max(12);
    let sectors = |bytes: u64| (bytes / SECTOR_BYTES) as u32;
    let mut bytes = [0; PARAMETERS_BYTES];
    put(&mut bytes, 0, (PARAMETERS_BYTES as u32).to_ne_bytes());
    put(&mut bytes, 4, BASIC_AND_DISCARD.to_ne_bytes());
    put(&mut bytes, 8, attributes.to_ne_bytes());
    // Block sizes: logical, physical, optimal I/O, minimum I/O.
    put(&mut bytes, 12, [block, page, page, page]);
    put(&mut bytes, 16, sectors(IO_BYTES.into()).to_ne_bytes());
    put(&mut bytes, 24, (export.size_bytes / SECTOR_BYTES).to_ne_bytes());
    put(&mut bytes, 44, export.block_bytes.to_ne_bytes());
    put(&mut bytes, 48, sectors(DISCARD_BYTES).to_ne_bytes());
    put(&mut bytes, 52, sectors(ZEROES_BYTES).to_ne_bytes());
    // Ranges in one discard.
    put(&mut bytes, 56, 1u16.to_ne_bytes());
    bytes
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DeviceAction {
    Read,
    Write,
    Flush,
    Discard,
    WriteZeroes,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DeviceRequest {
    pub(super) action: DeviceAction,
    /// When its effect must be durable.
    pub(super) durability: Durability,
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl DeviceRequest {
    /// Decodes a request; `None` if its operation is not supported or its values are invalid.
    #[inline]
    pub(super) fn read(
        [kind_and_sectors, start, _]: [u64; DESCRIPTION_WORDS],
    ) -> Option<DeviceRequest> {
        const ACTIONS: [Option<DeviceAction>; 6] = [
            Some(DeviceAction::Read),
            Some(DeviceAction::Write),
            Some(DeviceAction::Flush),
            Some(DeviceAction::Discard),
            None,
            Some(DeviceAction::WriteZeroes),
        ];
        const FUA: u32 = 1 << 13;
        let [kind, sectors] = halves(kind_and_sectors);
        let action = (*ACTIONS.get(kind as usize & 0xff)?)?;
        let durability = match kind & FUA {
            0 => Durability::Later,
            _ => Durability::AtReply,
        };
        let (offset, length) = match action {
            // A flush has no range.
            DeviceAction::Flush => (0, 0),
            _ => (start.checked_mul(SECTOR_BYTES)?, u64::from(sectors) * SECTOR_BYTES),
        };
        let moves = matches!(action, DeviceAction::Read | DeviceAction::Write);
        let fits = !moves || length <= IO_BYTES.into();
        fits.then_some(DeviceRequest { action, durability, offset, length })
    }
}

/// The two 32-bit numbers in a word, in memory order.
fn halves(word: u64) -> [u32; 2] {
    let bytes = word.to_ne_bytes();
    [0, 4].map(|offset| u32::from_ne_bytes(take(&bytes, offset)))
}

fn put<const N: usize>(bytes: &mut [u8], offset: usize, value: [u8; N]) {
    bytes[offset..][..N].copy_from_slice(&value);
}

fn take<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes[offset..][..N].try_into().expect("a slice of this length")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Target;

    fn word(low: u32, high: u32) -> u64 {
        let [low, high] = [low, high].map(u32::to_ne_bytes);
        u64::from_ne_bytes([low, high].concat().try_into().unwrap())
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn codes_are_those_of_the_header() {
        // The values of its macros, from a C compiler.
        assert_eq!(code::ADD, 0xc020_7504);
        assert_eq!(code::GET_INFO, 0x8020_7502);
        assert_eq!(code::COMMIT_AND_FETCH, 0xc010_7521);
    }

    #[test]
    fn requests_are_read() {
        let read = |kind, sectors, start| DeviceRequest::read([word(kind, sectors), start, 77]);
        let later = Durability::Later;
        let expected = DeviceRequest {
            action: DeviceAction::Read,
            durability: later,
            offset: 5 << 9,
            length: 8 << 9,
        };
        // Flags for priorities are ignored.
        assert_eq!(read(1 << 8 | 1 << 11, 8, 5), Some(expected));
        let write = read(1 | 1 << 13, 1024, 0).unwrap();
        assert_eq!((write.action, write.durability), (DeviceAction::Write, Durability::AtReply));
        assert_eq!(write.length, u64::from(IO_BYTES));
        assert_eq!(read(1, 1025, 0), None, "more than a buffer has room for");
        let flush = read(2, 0, u64::MAX).unwrap();
        assert_eq!((flush.action, flush.offset, flush.length), (DeviceAction::Flush, 0, 0));
        assert_eq!(read(3, 1 << 21, 1).unwrap().action, DeviceAction::Discard);
        assert_eq!(read(5, 1 << 16, 1).unwrap().action, DeviceAction::WriteZeroes);
        for kind in [4, 6, 15, 255] {
            assert_eq!(read(kind, 8, 0), None, "{kind}");
        }
        assert_eq!(read(0, 8, u64::MAX), None, "beyond all bytes");
    }

    #[test]
    fn a_device_says_what_it_is() {
        let info = Info { device: 3, process: -1, mark: 0x0123_4567_89ab_cdef };
        assert_eq!(Info::read(&info.bytes()), info);
        let mut export = Export {
            name: "disk".to_owned(),
            description: String::new(),
            target: Target::Volume,
            size_bytes: 1 << 30,
            block_bytes: 512,
            rotational: true,
            is_read_only: false,
        };
        let bytes = parameters(&export);
        assert_eq!(u32::from_ne_bytes(take(&bytes, 8)), 0b1110, "it rotates and has a cache");
        assert_eq!(bytes[12..16], [9, 12, 12, 12]);
        assert_eq!(u64::from_ne_bytes(take(&bytes, 24)), 1 << 21);
        export.block_bytes = 4096;
        export.rotational = false;
        let bytes = parameters(&export);
        assert_eq!(u32::from_ne_bytes(take(&bytes, 8)), 0b1100);
        assert_eq!(bytes[12..16], [12; 4]);
        assert_eq!(io_head(0x0102, -5)[2..4], 0x0102_u16.to_ne_bytes());
        assert_eq!(control_head(7, 64)[4..6], [0xff; 2], "no queue");
    }
}
