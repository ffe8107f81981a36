//! Numbers and layouts of the NBD protocol. Everything is big-endian.
//!
//! Source: `doc/proto.md` of the NetworkBlockDevice/nbd repository.

/// `NBDMAGIC`: the first eight bytes that a server sends.
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`: the next eight, and what every option of a client begins with.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// What every reply to an option begins with.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// What every request begins with.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// What every simple reply begins with.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// What every chunk of a structured reply begins with.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Bytes of a request, its data aside.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of a simple reply, its data aside.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Bytes before the payload of a chunk.
pub const CHUNK_BYTES: usize = 20;
/// Bytes before the data of a chunk of read data: the chunk's header and the offset.
pub const DATA_CHUNK_BYTES: usize = CHUNK_BYTES + 8;
/// The most data that one request reads or writes, as clients assume where nothing is said.
pub const DATA_BYTES_MAX: u32 = 32 << 20;
/// The most bytes of a server's reply to an option that a client takes: names and messages have at
/// most 4096.
pub const OPTION_REPLY_BYTES_MAX: u32 = 64 << 10;
/// The longest option that a client may send; the longest sensible one is an export's name of 4096
/// bytes and a handful of contexts.
pub const OPTION_BYTES_MAX: u32 = 12 << 10;

/// Handshake flags of both sides: fixed newstyle, and no 124 zeroes.
pub const FIXED_NEWSTYLE: u16 = 1;
/// See [`FIXED_NEWSTYLE`].
pub const NO_ZEROES: u16 = 2;

/// Options that a client may send.
pub mod option {
    /// Attach to an export, without any reply but its size: the old way.
    pub const EXPORT_NAME: u32 = 1;
    /// End the connection.
    pub const ABORT: u32 = 2;
    /// List the exports.
    pub const LIST: u32 = 3;
    /// Go on behind TLS.
    pub const START_TLS: u32 = 5;
    /// Tell about an export.
    pub const INFO: u32 = 6;
    /// Tell about an export, and attach to it.
    pub const GO: u32 = 7;
    /// Use structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Tell which contexts there are for block status.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose among them.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// What a client sends after the greeting to attach to the first export: its flags, and the option
/// [`option::GO`] with an empty name and no wish to be informed.
pub fn attach_request() -> Vec<u8> {
    let mut bytes = u32::from(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes().to_vec();
    bytes.extend(OPTION_MAGIC.to_be_bytes());
    bytes.extend(option::GO.to_be_bytes());
    bytes.extend(6u32.to_be_bytes());
    bytes.extend([0; 6]);
    bytes
}

/// Kinds of replies to options.
pub mod option_reply {
    /// It is done, or the list is complete.
    pub const ACK: u32 = 1;
    /// The name of an export.
    pub const SERVER: u32 = 2;
    /// Something about an export.
    pub const INFO: u32 = 3;
    /// A context for block status.
    pub const META_CONTEXT: u32 = 4;
    /// The option is not known here.
    pub const ERR_UNSUPPORTED: u32 = 1 << 31 | 1;
    /// An error, whichever: the highest bit.
    pub const ERR: u32 = 1 << 31;
    /// The option makes no sense.
    pub const ERR_INVALID: u32 = 1 << 31 | 3;
    /// The client must begin TLS first.
    pub const ERR_TLS_REQUIRED: u32 = 1 << 31 | 5;
    /// There is no such export.
    pub const ERR_UNKNOWN: u32 = 1 << 31 | 6;
}

/// Kinds of information about an export.
pub mod info {
    /// Its size and its transmission flags.
    pub const EXPORT: u16 = 0;
    /// Its name.
    pub const NAME: u16 = 1;
    /// A description for people.
    pub const DESCRIPTION: u16 = 2;
    /// The least, the preferred and the greatest length of a request.
    pub const BLOCK_SIZE: u16 = 3;
}

/// What an export can do.
pub mod transmission_flag {
    /// The flags mean something.
    pub const HAS_FLAGS: u16 = 1;
    /// It cannot be written.
    pub const READ_ONLY: u16 = 1 << 1;
    /// It can be flushed.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// A request may ask to be durable when it is replied to.
    pub const SEND_FUA: u16 = 1 << 3;
    /// It has heads that move.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// It takes requests to discard ranges.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// It takes requests to zero a range.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// A structured read may be asked to come whole (it always does).
    pub const SEND_DF: u16 = 1 << 7;
    /// Several connections see the same.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
}

/// Kinds of requests.
pub mod request {
    /// Read a range.
    pub const READ: u16 = 0;
    /// Write a range; its data follow.
    pub const WRITE: u16 = 1;
    /// No more requests will come.
    pub const DISCONNECT: u16 = 2;
    /// Make durable what was replied to.
    pub const FLUSH: u16 = 3;
    /// A range is not needed any more.
    pub const TRIM: u16 = 4;
    /// A range shall read as zeroes.
    pub const WRITE_ZEROES: u16 = 6;
    /// Which parts of a range are allocated?
    pub const BLOCK_STATUS: u16 = 7;

    /// The effect shall be durable when replied to.
    pub const FLAG_FUA: u16 = 1;
    /// Zeroes must stay allocated.
    pub const FLAG_NO_HOLE: u16 = 1 << 1;
    /// Read data shall come in one chunk.
    pub const FLAG_DF: u16 = 1 << 2;
    /// One extent is enough.
    pub const FLAG_REQ_ONE: u16 = 1 << 3;
}

/// Kinds of chunks of a structured reply.
pub mod chunk {
    /// No more chunks follow.
    pub const FLAG_DONE: u16 = 1;
    /// Data at an offset.
    pub const OFFSET_DATA: u16 = 1;
    /// Extents with their status.
    pub const BLOCK_STATUS: u16 = 5;
    /// An error.
    pub const ERROR: u16 = 1 << 15 | 1;
}

/// What an extent is, in the context `base:allocation`.
pub mod status_flag {
    /// It is not allocated.
    pub const HOLE: u32 = 1;
    /// It reads as zeroes.
    pub const ZERO: u32 = 1 << 1;
}

/// Errors as they go over the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum WireError {
    /// The export is read-only.
    NotPermitted = 1,
    /// The device failed.
    Io = 5,
    /// The request makes no sense.
    Invalid = 22,
    /// A write lies outside the export.
    NoSpace = 28,
    /// The request is too long.
    Overflow = 75,
    /// The request is of a kind that is not known here.
    Unsupported = 95,
}

/// A request as it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawRequest {
    /// What shall be special about it.
    pub flags: u16,
    /// Its kind.
    pub kind: u16,
    /// Given back with the reply.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
}

impl RawRequest {
    /// Reads a request; `None` if it does not begin as one.
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

    /// The request as it goes over the wire.
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

/// A simple reply as it came, its data aside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawReply {
    /// Zero, or what went wrong.
    pub error: u32,
    /// That of the request.
    pub cookie: u64,
}

impl RawReply {
    /// Reads a simple reply; `None` if it does not begin as one.
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

/// A simple reply, its data aside; zero is no error.
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

/// What stands before the data of a structured read.
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
