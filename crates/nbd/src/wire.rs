//! Numbers and layouts of the NBD protocol. Everything is big-endian.
//!
//! Source: `doc/proto.md` of the NetworkBlockDevice/nbd repository.

/// `NBDMAGIC`: the first eight bytes that a server sends.
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`: the next eight, and the first eight of each option of a client.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// The first bytes of a reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// The first bytes of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// The first bytes of a chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Bytes of an option before its data.
pub const OPTION_HEADER_BYTES: usize = 16;
/// Bytes of a reply to an option before its data.
pub const OPTION_REPLY_HEADER_BYTES: usize = 20;
/// Bytes of a request before its data.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of a simple reply before its data.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Bytes before the payload of a chunk.
pub const CHUNK_BYTES: usize = 20;
/// Bytes before the data of a chunk of read data: the chunk's header and the offset.
pub const DATA_CHUNK_BYTES: usize = CHUNK_BYTES + 8;
/// Limit of the data of one request, as clients assume it by default.
pub const DATA_BYTES_MAX: u32 = 32 << 20;
/// Limit of a server's reply to an option; names and messages have at most 4096 bytes.
pub const OPTION_REPLY_BYTES_MAX: u32 = 64 << 10;
/// Limit of a client's option: an export's name of 4096 bytes and some contexts.
pub const OPTION_BYTES_MAX: u32 = 12 << 10;

/// Handshake flags of both sides: fixed newstyle, and no 124 zeroes.
pub const FIXED_NEWSTYLE: u16 = 1;
/// See [`FIXED_NEWSTYLE`].
pub const NO_ZEROES: u16 = 2;

/// Options that a client may send.
pub mod option {
    /// Attach to an export. The reply is its size: the old way.
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const START_TLS: u32 = 5;
    pub const INFO: u32 = 6;
    /// Describe an export, and attach to it.
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    /// List the contexts of block status.
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Kinds of replies to options.
pub mod option_reply {
    /// The option is done, or the list is complete.
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    /// A part of the description of an export.
    pub const INFO: u32 = 3;
    /// A context for block status.
    pub const META_CONTEXT: u32 = 4;
    /// The option is not supported.
    pub const ERR_UNSUPPORTED: u32 = 1 << 31 | 1;
    /// The bit that all errors have.
    pub const ERR: u32 = 1 << 31;
    pub const ERR_INVALID: u32 = 1 << 31 | 3;
    /// The client must begin TLS first.
    pub const ERR_TLS_REQUIRED: u32 = 1 << 31 | 5;
    /// There is no such export.
    pub const ERR_UNKNOWN: u32 = 1 << 31 | 6;
}

/// Kinds of information about an export.
pub mod info {
    /// The size and the transmission flags.
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    /// The minimum, preferred and maximum length of a request.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Features of an export.
pub mod transmission_flag {
    pub const HAS_FLAGS: u16 = 1;
    /// The export cannot be written.
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// FUA requests are supported: durable before the reply.
    pub const SEND_FUA: u16 = 1 << 3;
    /// The export is a rotating disk.
    pub const ROTATIONAL: u16 = 1 << 4;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// Reads in one chunk are supported.
    pub const SEND_DF: u16 = 1 << 7;
    /// Several connections see the same data, and a flush covers all.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
}

pub mod request {
    pub const READ: u16 = 0;
    /// Write a range; the data follow.
    pub const WRITE: u16 = 1;
    pub const DISCONNECT: u16 = 2;
    /// Make replied writes durable.
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const WRITE_ZEROES: u16 = 6;
    /// Report which parts of a range are allocated.
    pub const BLOCK_STATUS: u16 = 7;

    /// Durable before the reply.
    pub const FLAG_FUA: u16 = 1;
    /// Keep zeroes allocated.
    pub const FLAG_NO_HOLE: u16 = 1 << 1;
    /// Read in one chunk.
    pub const FLAG_DF: u16 = 1 << 2;
    /// Report one extent only.
    pub const FLAG_REQ_ONE: u16 = 1 << 3;
}

/// Kinds of chunks of a structured reply.
pub mod chunk {
    /// The last chunk of the reply.
    pub const FLAG_DONE: u16 = 1;
    pub const OFFSET_DATA: u16 = 1;
    pub const BLOCK_STATUS: u16 = 5;
    pub const ERROR: u16 = 1 << 15 | 1;
}

/// Flags of an extent in the context `base:allocation`.
pub mod status_flag {
    /// Not allocated.
    pub const HOLE: u32 = 1;
    pub const ZERO: u32 = 1 << 1;
}

/// Error numbers of replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum WireError {
    /// The export is read-only.
    NotPermitted = 1,
    Io = 5,
    Invalid = 22,
    /// A write is outside the export.
    NoSpace = 28,
    /// The request is too long.
    Overflow = 75,
    /// The kind of request is not supported.
    Unsupported = 95,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionHeader {
    /// [`OPTION_MAGIC`], or the option is malformed.
    pub magic: u64,
    pub option: u32,
    pub length: u32,
}

impl OptionHeader {
    /// Parses a header; `None` if it is incomplete.
    pub fn parse(bytes: &[u8]) -> Option<OptionHeader> {
        let (magic, rest) = bytes.split_first_chunk()?;
        let (option, rest) = rest.split_first_chunk()?;
        let (length, _) = rest.split_first_chunk()?;
        let magic = u64::from_be_bytes(*magic);
        let [option, length] = [option, length].map(|bytes| u32::from_be_bytes(*bytes));
        Some(OptionHeader { magic, option, length })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionReplyHeader {
    /// [`OPTION_REPLY_MAGIC`], or the reply is malformed.
    pub magic: u64,
    pub option: u32,
    /// The kind: a number of [`option_reply`].
    pub kind: u32,
    pub length: u32,
}

impl OptionReplyHeader {
    /// Parses a header; `None` if it is incomplete.
    pub fn parse(bytes: &[u8]) -> Option<OptionReplyHeader> {
        let OptionHeader { magic, option, length: kind } = OptionHeader::parse(bytes)?;
        let length = u32::from_be_bytes(*bytes[OPTION_HEADER_BYTES..].first_chunk()?);
        Some(OptionReplyHeader { magic, option, kind, length })
    }
}

pub fn option_bytes(option: u32, data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u32).to_be_bytes();
    [&OPTION_MAGIC.to_be_bytes()[..], &option.to_be_bytes(), &length, data].concat()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawRequest {
    /// Flags of [`request`].
    pub flags: u16,
    /// The kind: a number of [`request`].
    pub kind: u16,
    /// Returned with the reply.
    pub cookie: u64,
    pub offset: u64,
    pub length: u32,
}

impl RawRequest {
    /// Parses a header; `None` if it has another magic number.
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Option<RawRequest> {
        let (magic, rest) = bytes.split_first_chunk()?;
        let (flags, rest) = rest.split_first_chunk()?;
        let (kind, rest) = rest.split_first_chunk()?;
        let (cookie, rest) = rest.split_first_chunk()?;
        let (offset, rest) = rest.split_first_chunk()?;
        let (length, _) = rest.split_first_chunk()?;
        (u32::from_be_bytes(*magic) == REQUEST_MAGIC).then_some(RawRequest {
            flags: u16::from_be_bytes(*flags),
            kind: u16::from_be_bytes(*kind),
            cookie: u64::from_be_bytes(*cookie),
            offset: u64::from_be_bytes(*offset),
            length: u32::from_be_bytes(*length),
        })
    }

    pub fn bytes(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawReply {
    /// Zero, or an error number.
    pub error: u32,
    pub cookie: u64,
}

impl RawReply {
    /// Parses a header; `None` if it has another magic number.
    pub fn parse(bytes: &[u8; SIMPLE_REPLY_BYTES]) -> Option<RawReply> {
        let (magic, rest) = bytes.split_first_chunk()?;
        let (error, rest) = rest.split_first_chunk()?;
        let (cookie, _) = rest.split_first_chunk()?;
        (u32::from_be_bytes(*magic) == SIMPLE_REPLY_MAGIC).then_some(RawReply {
            error: u32::from_be_bytes(*error),
            cookie: u64::from_be_bytes(*cookie),
        })
    }
}

/// The header of a simple reply; zero is no error.
pub fn simple_reply(error: u32, cookie: u64) -> [u8; SIMPLE_REPLY_BYTES] {
    let mut bytes = [0; SIMPLE_REPLY_BYTES];
    bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// The header of the only chunk of a structured reply.
pub fn chunk_header(kind: u16, cookie: u64, payload_bytes: u32) -> [u8; CHUNK_BYTES] {
    let mut bytes = [0; CHUNK_BYTES];
    bytes[..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&chunk::FLAG_DONE.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..].copy_from_slice(&payload_bytes.to_be_bytes());
    bytes
}

/// The header of a structured reply to a read.
pub fn data_chunk(cookie: u64, offset: u64, data_bytes: u32) -> [u8; DATA_CHUNK_BYTES] {
    let mut bytes = [0; DATA_CHUNK_BYTES];
    let header = chunk_header(chunk::OFFSET_DATA, cookie, data_bytes + 8);
    bytes[..CHUNK_BYTES].copy_from_slice(&header);
    bytes[CHUNK_BYTES..].copy_from_slice(&offset.to_be_bytes());
    bytes
}

/// A structured error without a message.
pub fn error_chunk(cookie: u64, error: WireError) -> [u8; CHUNK_BYTES + 6] {
    let mut bytes = [0; CHUNK_BYTES + 6];
    bytes[..CHUNK_BYTES].copy_from_slice(&chunk_header(chunk::ERROR, cookie, 6));
    bytes[CHUNK_BYTES..CHUNK_BYTES + 4].copy_from_slice(&(error as u32).to_be_bytes());
    bytes
}

/// A block status: the lengths of extents that follow each other, with their flags.
pub fn status_chunk(
    cookie: u64,
    context: u32,
    extents: impl ExactSizeIterator<Item = (u32, u32)>,
) -> Vec<u8> {
    let payload_bytes = 4 + 8 * extents.len();
    let mut bytes = Vec::with_capacity(CHUNK_BYTES + payload_bytes);
    bytes.extend(chunk_header(chunk::BLOCK_STATUS, cookie, payload_bytes as u32));
    bytes.extend(context.to_be_bytes());
    for (length, flags) in extents {
        bytes.extend(length.to_be_bytes());
        bytes.extend(flags.to_be_bytes());
    }
    bytes
}
