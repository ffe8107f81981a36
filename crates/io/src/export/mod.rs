//! Servers that export volumes and members to clients.
//!
//! - [`nbd`]: over TCP and unix sockets, with or without TLS.
//! - [`fuse`]: as files in a directory.
//! - [`ublk`]: as block devices.
//! - `chunked_ops`: splits large write-zeroes and discard requests; shared by all three.

pub(crate) mod chunked_ops;
pub mod fuse;
pub mod nbd;
pub mod ublk;

use crate::executor::Target;

/// A volume or member that clients can attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its name. NBD clients that send an empty name get the first export.
    pub name: String,
    /// The description that `nbdinfo --list` shows.
    pub description: String,
    /// The volume or member that is exported.
    pub target: Target,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Offsets and lengths of requests are multiples of this.
    pub block_bytes: u32,
    /// True if clients should treat it as a rotating disk.
    pub rotational: bool,
    /// True if it cannot be written.
    pub is_read_only: bool,
}

/// When the effect of a write, discard or write-zeroes request must be durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// At the next flush.
    Later,
    /// Before the reply is sent (FUA).
    AtReply,
}
