//! Both ends of the protocol over bytes.

mod client;
mod server;
