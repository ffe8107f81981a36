//! The simulator: jobs against a volume on modelled disks, on a virtual clock.
//!
//! [`engine::run`] takes a [`Simulation`] (an array, a job file, a policy and a seed) and returns a
//! [`record::RunRecord`]. Equal inputs and seeds give equal records, bit for bit. The simulator
//! does no real I/O, except that a replay reads its trace.

mod background;
mod canary;
mod checkers;
mod client;
mod client_slot;
mod depth_search;
pub mod engine;
mod error;
pub mod explain;
mod fair_oracle;
mod file_client;
mod host_overhead;
pub mod job;
mod job_client;
mod lockstep;
mod oracle;
mod policy_under_test;
mod progress;
mod read_ahead;
pub mod record;
mod recorder;
mod simulation;
mod watcher;
pub mod workload;
mod write_caches;
mod xfs_file;

pub use client_slot::first_stream;
pub use error::SimError;
pub use simulation::Simulation;
