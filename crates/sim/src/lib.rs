//! The simulator: jobs against a volume on modelled disks, on a virtual clock.
//!
//! [`engine::run`] takes an array, a job file and a policy, and gives back a [`record::Record`].
//! Equal inputs and seeds give equal records, bit for bit. Nothing here does real I/O.

mod background;
mod canary;
mod checkers;
mod client;
mod contender;
pub mod engine;
mod error;
pub mod explain;
pub mod job;
mod oracle;
mod program;
mod readahead;
pub mod record;
mod seats;
pub mod workload;

pub use error::SimError;
pub use seats::first_stream;
