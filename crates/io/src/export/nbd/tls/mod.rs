//! TLS for clients of the NBD server.
//!
//! - `prelude`: the negotiation before TLS, in which a client may only ask for TLS.
//! - [`porter`]: accepts TLS connections, checks certificates, and hands the server plain sockets.

pub mod porter;
mod prelude;
#[cfg(test)]
mod tests;
