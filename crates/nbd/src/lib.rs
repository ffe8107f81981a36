//! The NBD protocol as state machines over bytes: no socket, thread or clock.
//!
//! A caller passes received bytes in, and gets requests or replies out, with the bytes to send. The
//! data of reads and writes do not pass through: a message is its header, and the caller moves the
//! bytes after it between the socket and its own buffer.
//!
//! - [`server`]: the server's side of a connection: [`handshake`], then requests and replies.
//! - [`client`]: the client's side of a connection.
//! - [`tls`]: certificates, and the bridge between a TLS connection and a plain stream.
//! - [`uri`]: addresses of exports, such as `nbd://host:port/export`.
//! - [`wire`]: constants and message layouts.
//!
//! The server supports `NBD_OPT_GO`, `INFO`, `LIST`, `EXPORT_NAME`, `STARTTLS`, structured replies,
//! the meta context `base:allocation`, several connections to one export, block sizes, FUA, flush,
//! trim and write zeroes. The client uses simple replies, so that the data of a read can be
//! received into its memory.
//!
//! Non-goals: optional TLS (a server requires it or refuses it), resizing, and extended headers.
//!
//! Source: the NBD protocol document, `doc/proto.md` of the NetworkBlockDevice/nbd repository.

pub mod client;
pub mod handshake;
pub mod server;
pub mod tls;
pub mod uri;
pub mod wire;
