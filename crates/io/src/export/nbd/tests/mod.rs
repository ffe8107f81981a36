//! The protocol against what no client should send, and the server against bad clients.

mod clients;
mod limits;
mod protocol;
