//! What a request asks, checked against its export.

use super::status_request::EXTENTS_MAX;
use crate::export::{Durability, Export};
use crate::nbd_protocol::wire::{DATA_BYTES_MAX, RawRequest, WireError, request};

/// What a request asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Read the range.
    Read,
    /// Write the range; its data follow.
    Write,
    /// Make durable what was replied to.
    Flush,
    /// Forget the range.
    Trim,
    /// Zero the range.
    WriteZeroes,
    /// Tell which parts of the range are allocated.
    BlockStatus,
}

/// A request that can be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NbdCommand {
    /// What is asked.
    pub action: Action,
    /// Whether it is to be durable when replied to.
    pub durability: Durability,
    /// Given back with the reply.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
    /// How many extents the reply to a question for block status may have.
    pub extents_max: usize,
}

/// What to do with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Validated {
    /// Do it.
    Accept(NbdCommand),
    /// Reply with this error, once the data that follow the request, if any do, are thrown away.
    Reject {
        /// What to reply.
        error: WireError,
        /// Bytes that follow the request.
        data_bytes: u32,
    },
    /// The client is done.
    Disconnect,
    /// The client is out of its mind: nothing it sends from here on can be understood.
    ProtocolError,
}

/// A kind of request: its number, what it asks, and the flags it may have.
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

/// Judges a request to `export`. Block status needs `status_agreed`, a meta context chosen in the
/// handshake.
pub fn validate(raw: &RawRequest, export: &Export, status: StatusContext) -> Validated {
    if raw.kind == request::DISCONNECT {
        return Validated::Disconnect;
    }
    let data_bytes = if raw.kind == request::WRITE { raw.length } else { 0 };
    // So much is never sent on purpose, and there is no sense in waiting for it.
    if data_bytes > DATA_BYTES_MAX {
        return Validated::ProtocolError;
    }
    match check(raw, export, status) {
        Ok(command) => Validated::Accept(command),
        Err(error) => Validated::Reject { error, data_bytes },
    }
}

/// Whether a client chose the context in which block status is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatusContext {
    /// It did not, and may not ask.
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
    // A flush has no range, whatever it says.
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
