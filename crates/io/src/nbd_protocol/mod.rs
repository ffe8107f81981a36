//! The parts of the NBD protocol that the server and the client share.
//!
//! - [`wire`]: constants and message layouts.
//! - [`uri`]: addresses of exports, such as `nbd://host:port/export`.
//!
//! The server is [`crate::export::nbd`], the client [`crate::member::remote`]. Neither uses the
//! other.
//!
//! Source: the NBD protocol document, `doc/proto.md` of the NetworkBlockDevice/nbd repository.

pub mod uri;
pub mod wire;
