//! The NBD server: sockets, buffers and memory around the protocol of [`mirrorball_nbd`].
//!
//! - [`server`]: messages and requests of clients, carried out by the executor, and their replies.
//! - `connection`: received bytes that are not parsed yet, requests in flight, and replies to send.
//! - `waiting`: clients that wait for memory or a turn.
//! - `lifecycle`: how connections begin and end, and which are closed for others.
//! - `block_status`: the requests that ask for holes.
//! - `memory_budget`: the memory of all requests and replies together.
//! - [`acceptor`]: accepts TLS connections and hands plain sockets to the server.
//!
//! Every copy is written before a write is replied to, and a flush covers all connections, so
//! clients may use several connections (`NBD_FLAG_CAN_MULTI_CONN`).

pub mod acceptor;
mod block_status;
mod connection;
mod lifecycle;
mod memory_budget;
pub mod server;
#[cfg(test)]
mod tests;
mod waiting;
