//! A request, checked against its export.

use crate::handshake::{Agreement, Export, StatusContext};
use crate::wire::{DATA_BYTES_MAX, RawRequest, WireError, request};

/// Limit of extents in the reply to a block status request.
pub const EXTENTS_MAX: usize = 1024;

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
pub struct ExportRequest {
    /// The operation.
    pub action: Action,
    /// True if its effect must be durable before the reply (FUA).
    pub is_durable: bool,
    /// True if its reply is structured.
    pub structured: bool,
    /// The client's identifier of the request, returned with the reply.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
    /// Limit of extents in the reply to a block status request.
    pub extents_max: usize,
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
