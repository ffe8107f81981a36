//! A request, checked against its export.

use crate::export::{Durability, Export};
use crate::nbd_protocol::wire::{DATA_BYTES_MAX, RawRequest, WireError, request};

/// Limit of extents in the reply to a block status request.
const EXTENTS_MAX: usize = 1024;
/// The memory of a reply without data: the smallest buffer.
pub(super) const REPLY_BYTES: usize = 4096;
/// The memory of the longest reply to a block status request.
const STATUS_BYTES: usize = 16 << 10;

/// The operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Read the range.
    Read,
    /// Write the range; the data follow the request.
    Write,
    /// Make all acknowledged writes durable.
    Flush,
    /// Discard the range.
    Trim,
    /// Zero the range.
    WriteZeroes,
    /// Report which parts of the range are allocated.
    BlockStatus,
}

/// A valid request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NbdCommand {
    /// The operation.
    pub action: Action,
    /// When its effect must be durable.
    pub durability: Durability,
    /// The client's identifier of the request, returned with the reply.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
    /// Limit of extents in the reply to a block status request.
    pub extents_max: usize,
}

impl NbdCommand {
    /// The memory that the request and its reply need.
    pub(super) fn memory_bytes(&self) -> usize {
        match self.action {
            Action::Read | Action::Write => (self.length as usize).max(REPLY_BYTES),
            Action::BlockStatus => STATUS_BYTES,
            Action::Flush | Action::Trim | Action::WriteZeroes => REPLY_BYTES,
        }
    }
}

/// The result of validating a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Validated {
    /// Carry it out.
    Accept(NbdCommand),
    /// Skip the data that follow the request, and reply with this error.
    Reject {
        /// The error.
        error: WireError,
        /// Bytes that follow the request.
        data_bytes: u32,
    },
    /// The client disconnects.
    Disconnect,
    /// The client violates the protocol, so the rest of the stream cannot be parsed.
    ProtocolError,
}

/// A type of request: its number, its operation, and the flags that it may have.
struct Kind {
    number: u16,
    action: Action,
    flags: u16,
}

const KINDS: [Kind; 6] = [
    Kind {
        number: request::READ,
        action: Action::Read,
        flags: request::FLAG_FUA | request::FLAG_DF,
    },
    Kind { number: request::WRITE, action: Action::Write, flags: request::FLAG_FUA },
    Kind { number: request::FLUSH, action: Action::Flush, flags: request::FLAG_FUA },
    Kind { number: request::TRIM, action: Action::Trim, flags: request::FLAG_FUA },
    Kind {
        number: request::WRITE_ZEROES,
        action: Action::WriteZeroes,
        flags: request::FLAG_FUA | request::FLAG_NO_HOLE,
    },
    Kind {
        number: request::BLOCK_STATUS,
        action: Action::BlockStatus,
        flags: request::FLAG_FUA | request::FLAG_REQ_ONE,
    },
];

/// Checks a request to `export`. Block status requires the meta context `status`, which the client
/// selects in the handshake.
pub fn validate(raw: &RawRequest, export: &Export, status: StatusContext) -> Validated {
    if raw.kind == request::DISCONNECT {
        return Validated::Disconnect;
    }
    let data_bytes = if raw.kind == request::WRITE { raw.length } else { 0 };
    // No valid client sends so much, and skipping it would take long.
    if data_bytes > DATA_BYTES_MAX {
        return Validated::ProtocolError;
    }
    match check(raw, export, status) {
        Ok(command) => Validated::Accept(command),
        Err(error) => Validated::Reject { error, data_bytes },
    }
}

/// The meta context that a client selected for block status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatusContext {
    /// None: block status requests are invalid.
    None,
    /// `base:allocation`.
    Allocation,
}

fn check(
    raw: &RawRequest,
    export: &Export,
    status: StatusContext,
) -> Result<NbdCommand, WireError> {
    let kind = KINDS.iter().find(|kind| kind.number == raw.kind);
    let kind = kind.ok_or(WireError::Unsupported)?;
    let action = kind.action;
    if raw.flags & !kind.flags != 0 {
        return Err(WireError::Invalid);
    }
    if action == Action::BlockStatus && status == StatusContext::None {
        return Err(WireError::Invalid);
    }
    // A flush has no range; the protocol reserves its offset and length.
    let (offset, length) = if action == Action::Flush { (0, 0) } else { (raw.offset, raw.length) };
    if action != Action::Flush {
        check_range(action, offset, length, export)?;
    }
    let at_reply = raw.flags & request::FLAG_FUA != 0
        && matches!(action, Action::Write | Action::Trim | Action::WriteZeroes);
    let durability = if at_reply { Durability::AtReply } else { Durability::Later };
    let extents_max = if raw.flags & request::FLAG_REQ_ONE != 0 { 1 } else { EXTENTS_MAX };
    Ok(NbdCommand { action, durability, cookie: raw.cookie, offset, length, extents_max })
}

fn check_range(action: Action, offset: u64, length: u32, export: &Export) -> Result<(), WireError> {
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
