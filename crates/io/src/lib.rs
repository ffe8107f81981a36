//! Volumes in real time: members that are files, devices, remote exports or emulated disks, and
//! the servers that export them.
//!
//! `mirrorball_sim` runs the same volume, policies and disk models on a virtual clock.

mod accept_backoff;
pub mod address;
pub mod assemble;
mod background_teardown;
pub mod block_status;
mod blocking_worker;
pub mod clock;
pub mod conditions;
pub mod control;
pub mod device_address;
pub mod driver;
pub mod examine;
pub mod executor;
pub mod export;
pub mod kept_policy;
pub mod lateness;
pub mod member;
pub mod programs;
pub mod rebuild;
pub mod reopen;
pub mod scrub;
pub mod service;
pub mod spares;
pub mod systemd;
mod tls_relay;

/// The volume of a service: its gate is there if the members have labels.
pub type Volume = mirrorball_core::volume::Volume<mirrorball_store::StoreGate>;
