//! TLS for clients of the NBD server.
//!
//! - `prelude`: the negotiation before TLS, in which a client may only ask for TLS.
//! - [`acceptor`]: accepts TLS connections, checks certificates, and hands the server plain
//!   sockets.

pub mod acceptor;
mod prelude;
#[cfg(test)]
mod tests;
