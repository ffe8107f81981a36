//! The NBD server: sockets, buffers and memory around the protocol of [`mirrorball_nbd`].
//!
//! - [`server`]: listeners, connections, and their messages.
//! - `connection`: received bytes that are not parsed yet, and replies to send.
//! - `requests`: requests of clients, carried out by the executor, and their replies.
//! - `served_request`: a client's request in flight.
//! - `waiting`: clients that wait for memory or a turn, and those that are closed for others.
//! - `memory_budget`: the memory of all requests and replies together.
//! - [`acceptor`]: accepts TLS connections and hands plain sockets to the server.
//!
//! Every copy is written before a write is replied to, and a flush covers all connections, so
//! clients may use several connections (`NBD_FLAG_CAN_MULTI_CONN`).

pub mod acceptor;
mod connection;
mod memory_budget;
mod requests;
mod served_request;
pub mod server;
#[cfg(test)]
mod tests;
mod waiting;
