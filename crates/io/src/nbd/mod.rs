//! NBD: an export for anybody's client, and what it takes to be a client of anybody's server.
//!
//! - [`wire`]: numbers and layouts of the protocol.
//! - [`handshake`]: what happens before the first request (fixed newstyle).
//! - [`command`]: what a request asks, checked against its export.
//! - [`server`]: connections and requests in flight, over the driver and the executor.
//! - [`tls`]: clients and members behind TLS, which look like plain ones to all of these.
//! - [`uri`] and [`client`]: where a member on another machine is, and how to attach to it; its
//!   requests are those of [`crate::member::remote`].
//!
//! The codecs are plain functions of bytes: tests and the fuzzer feed them what nobody sends.
//! Our server speaks `NBD_OPT_GO`, `INFO`, `LIST`, `EXPORT_NAME`, structured replies, the meta
//! context `base:allocation`, several connections to one export, block sizes, FUA, flush, trim and
//! write zeroes. Every copy is written before a write is replied to, and a flush covers all
//! connections, so clients may use as many as they like (`NBD_FLAG_CAN_MULTI_CONN`).
//!
//! Non-goals: TLS at will (a listener demands it or refuses it), resizing, and extended headers.
//!
//! Source: the NBD protocol document, `doc/proto.md` of the NetworkBlockDevice/nbd repository.

pub mod client;
pub mod command;
mod connection;
pub mod handshake;
mod job;
pub mod server;
mod side_door;
mod status;
#[cfg(test)]
mod tests;
pub mod tls;
pub mod uri;
pub mod wire;

use crate::executor::Target;

/// What a client may attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its name; clients that give none get the first export.
    pub name: String,
    /// What `nbdinfo --list` shows beside it.
    pub description: String,
    /// What it is.
    pub target: Target,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Offsets and lengths are multiples of this.
    pub block_bytes: u32,
    /// Whether clients should think that it rotates.
    pub rotational: bool,
}
