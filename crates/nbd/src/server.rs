//! The server's side of a connection, and requests, checked against their export.
//!
//! [`ServerConnection::receive`] parses one message. The caller sends what it says, and takes the
//! data of a write, which follow the request, into its own memory. A protocol error concerns only
//! the connection it arrived on.

use crate::handshake::{Agreement, Export, ServerHandshake, StatusContext, Step};
use crate::wire::{
    DATA_BYTES_MAX, DATA_CHUNK_BYTES, RawRequest, WireError, data_chunk, error_chunk, request,
    simple_reply,
};

/// Limit of extents in the reply to a block status request.
pub const EXTENTS_MAX: usize = 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    Read,
    /// Write the range; the data follow the request.
    Write,
    /// Make all acknowledged writes durable.
    Flush,
    /// Discard the range.
    Trim,
    WriteZeroes,
    /// Report which parts of the range are allocated.
    BlockStatus,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExportRequest {
    pub action: Action,
    /// True if its effect must be durable before the reply (FUA).
    pub is_durable: bool,
    /// True if its reply is structured.
    pub structured: bool,
    /// The client's identifier of the request, returned with the reply.
    pub cookie: u64,
    pub offset: u64,
    pub length: u32,
    /// Limit of extents in the reply to a block status request.
    pub extents_max: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Received {
    Incomplete,
    Options {
        /// The replies to them, which are to be sent before more is parsed.
        replies: Vec<u8>,
        /// True if the connection is to be closed after them.
        is_last: bool,
    },
    /// A valid request to the export of this index. The data of a write follow it.
    Request(ExportRequest, usize),
    Rejected {
        reply: ReplyHead,
        /// Number of bytes that follow the request, and are to be skipped.
        data_bytes: usize,
    },
    /// The last message. The connection is to be closed after the last reply.
    Disconnect,
    /// A protocol error: the rest of the stream cannot be parsed.
    ProtocolError,
}

/// The bytes of a reply before its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplyHead {
    bytes: [u8; DATA_CHUNK_BYTES],
    length: usize,
    data_bytes: usize,
}

#[derive(Debug)]
pub struct ServerConnection(Phase);

#[derive(Debug)]
enum Phase {
    Negotiating(ServerHandshake),
    Serving(Agreement),
}

impl Default for ServerConnection {
    fn default() -> ServerConnection {
        ServerConnection(Phase::Negotiating(ServerHandshake::default()))
    }
}

impl ServerConnection {
    /// True until client and server have agreed on an export.
    pub fn is_negotiating(&self) -> bool {
        matches!(self.0, Phase::Negotiating(_))
    }

    /// Parses the first message of `input`; returns how many bytes it has. A request that the
    /// caller cannot accept yet may be left in the input, and parsed again.
    pub fn receive<T>(&mut self, input: &[u8], exports: &[Export<T>]) -> (usize, Received) {
        match &mut self.0 {
            Phase::Negotiating(handshake) => {
                let mut replies = Vec::new();
                let (taken, step) = handshake.advance(input, exports, &mut replies);
                if let Step::Agreed(agreement) = step {
                    self.0 = Phase::Serving(agreement);
                }
                let is_last = step == Step::End;
                match step {
                    Step::More if taken == 0 => (0, Received::Incomplete),
                    _ => (taken, Received::Options { replies, is_last }),
                }
            }
            Phase::Serving(agreement) => receive_request(input, exports, *agreement),
        }
    }
}

fn receive_request<T>(
    input: &[u8],
    exports: &[Export<T>],
    agreement: Agreement,
) -> (usize, Received) {
    let Some(header) = input.first_chunk() else { return (0, Received::Incomplete) };
    let taken = header.len();
    let Some(raw) = RawRequest::parse(header) else { return (taken, Received::ProtocolError) };
    if raw.kind == request::DISCONNECT {
        return (taken, Received::Disconnect);
    }
    let data_bytes = if raw.kind == request::WRITE { raw.length } else { 0 };
    // No valid client sends so much, and skipping it would take long.
    if data_bytes > DATA_BYTES_MAX {
        return (taken, Received::ProtocolError);
    }
    let received = match ExportRequest::check(&raw, &exports[agreement.export], agreement) {
        Ok(request) => Received::Request(request, agreement.export),
        Err(error) => {
            let structured = agreement.structured && raw.kind == request::READ;
            let reply = ReplyHead::error(raw.cookie, structured, error);
            Received::Rejected { reply, data_bytes: data_bytes as usize }
        }
    };
    (taken, received)
}

impl ReplyHead {
    #[inline]
    pub fn new(request: &ExportRequest, result: Result<(), WireError>) -> ReplyHead {
        let &ExportRequest { cookie, offset, length, structured, .. } = request;
        let data_bytes = if request.action == Action::Read { length } else { 0 };
        match result {
            Err(error) => ReplyHead::error(cookie, structured, error),
            Ok(()) if structured => {
                ReplyHead::from_bytes(&data_chunk(cookie, offset, length), data_bytes)
            }
            Ok(()) => ReplyHead::from_bytes(&simple_reply(0, cookie), data_bytes),
        }
    }

    fn error(cookie: u64, structured: bool, error: WireError) -> ReplyHead {
        match structured {
            true => ReplyHead::from_bytes(&error_chunk(cookie, error), 0),
            false => ReplyHead::from_bytes(&simple_reply(error as u32, cookie), 0),
        }
    }

    #[inline]
    fn from_bytes<const BYTES: usize>(head: &[u8; BYTES], data_bytes: u32) -> ReplyHead {
        let mut bytes = [0; DATA_CHUNK_BYTES];
        bytes[..BYTES].copy_from_slice(head);
        ReplyHead { bytes, length: BYTES, data_bytes: data_bytes as usize }
    }

    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    #[inline]
    pub fn data_bytes(&self) -> usize {
        self.data_bytes
    }
}

/// A type of request: its number, its operation, and the flags that it may have.
const KINDS: [(u16, Action, u16); 6] = {
    use request::*;
    [
        (READ, Action::Read, FLAG_FUA | FLAG_DF),
        (WRITE, Action::Write, FLAG_FUA),
        (FLUSH, Action::Flush, FLAG_FUA),
        (TRIM, Action::Trim, FLAG_FUA),
        (WRITE_ZEROES, Action::WriteZeroes, FLAG_FUA | FLAG_NO_HOLE),
        (BLOCK_STATUS, Action::BlockStatus, FLAG_FUA | FLAG_REQ_ONE),
    ]
};

impl ExportRequest {
    /// True if the request is a read or a write.
    pub fn has_data(&self) -> bool {
        matches!(self.action, Action::Read | Action::Write)
    }

    /// Checks a request to `export`.
    ///
    /// # Errors
    /// The error of the reply, if the request is invalid.
    pub fn check<T>(
        raw: &RawRequest,
        export: &Export<T>,
        agreement: Agreement,
    ) -> Result<ExportRequest, WireError> {
        let kind = KINDS.iter().find(|(number, ..)| *number == raw.kind);
        let &(_, action, flags) = kind.ok_or(WireError::Unsupported)?;
        let status = agreement.status;
        let needs_context = action == Action::BlockStatus && status == StatusContext::None;
        if raw.flags & !flags != 0 || needs_context {
            return Err(WireError::Invalid);
        }
        // A flush has no range; the protocol reserves its offset and length.
        let (offset, length) = match action {
            Action::Flush => (0, 0),
            _ => (raw.offset, raw.length),
        };
        if action != Action::Flush {
            check_range(action, offset, length, export)?;
        }
        let changes = matches!(action, Action::Write | Action::Trim | Action::WriteZeroes);
        Ok(ExportRequest {
            action,
            is_durable: raw.flags & request::FLAG_FUA != 0 && changes,
            structured: agreement.structured && action == Action::Read,
            cookie: raw.cookie,
            offset,
            length,
            extents_max: if raw.flags & request::FLAG_REQ_ONE != 0 { 1 } else { EXTENTS_MAX },
        })
    }
}

fn check_range<T>(
    action: Action,
    offset: u64,
    length: u32,
    export: &Export<T>,
) -> Result<(), WireError> {
    let block = u64::from(export.block_bytes);
    if length == 0 || !offset.is_multiple_of(block) || !u64::from(length).is_multiple_of(block) {
        return Err(WireError::Invalid);
    }
    if action == Action::Read && length > DATA_BYTES_MAX {
        return Err(WireError::Overflow);
    }
    let inside = offset.checked_add(u64::from(length)).is_some_and(|end| end <= export.size_bytes);
    match (inside, action) {
        (true, _) => Ok(()),
        (false, Action::Write | Action::WriteZeroes) => Err(WireError::NoSpace),
        (false, _) => Err(WireError::Invalid),
    }
}
