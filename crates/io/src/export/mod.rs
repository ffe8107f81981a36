//! Servers that export volumes and members to clients.
//!
//! - [`nbd`]: over TCP and unix sockets, with or without TLS.
//! - [`fuse`]: as files in a directory.
//! - `chunked_ops`: splits large write-zeroes and discard requests; shared by both.

pub(crate) mod chunked_ops;
pub mod fuse;
pub mod nbd;

use crate::executor::Target;

/// A volume or member that clients can attach to.
pub type Export = mirrorball_nbd::handshake::Export<Target>;

/// When the effect of a write, discard or write-zeroes request must be durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// At the next flush.
    Later,
    /// Before the reply is sent (FUA).
    AtReply,
}
