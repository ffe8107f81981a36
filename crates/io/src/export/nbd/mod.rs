//! The NBD server.
//!
//! - [`handshake`]: negotiation before the first request (fixed newstyle).
//! - [`command`]: a request, checked against its export.
//! - [`server`]: connections and requests in flight, over the driver and the executor.
//! - [`tls`]: accepts TLS connections and hands plain sockets to the server.
//!
//! Handshake and requests are parsed by plain functions of bytes, so that tests and the fuzzer can
//! feed them any input.
//! The server implements `NBD_OPT_GO`, `INFO`, `LIST`, `EXPORT_NAME`, structured replies, the meta
//! context `base:allocation`, several connections to one export, block sizes, FUA, flush, trim and
//! write zeroes. Every copy is written before a write is replied to, and a flush covers all
//! connections, so clients may use several connections (`NBD_FLAG_CAN_MULTI_CONN`).
//!
//! Non-goals: optional TLS (a listener requires it or refuses it), resizing, and extended headers.
//!
//! Source: the NBD protocol document, `doc/proto.md` of the NetworkBlockDevice/nbd repository.

pub mod command;
mod connection;
mod external_connections;
pub mod handshake;
mod input;
mod keys;
mod long_requests;
mod memory_budget;
mod memory_queue;
mod pending_request;
mod queues;
mod reclaim;
mod requests;
pub mod server;
mod status_request;
#[cfg(test)]
mod tests;
pub mod tls;
