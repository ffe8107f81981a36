//! The server, and its clients, valid and invalid.

mod clients;
mod limits;
mod tls;
