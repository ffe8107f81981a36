//! Volumes in real time: members that are files, devices, remote exports or emulated disks, and
//! the servers that export them.
//!
//! `mirrorball_sim` runs the same volume, policies and disk models on a virtual clock.

pub mod address;
pub mod assemble;
pub mod clock;
pub mod control;
pub mod driver;
mod errands;
pub mod executor;
pub mod export;
mod farewell;
pub mod lateness;
pub mod member;
pub mod nbd_protocol;
pub mod rebuild;
pub mod reopen;
mod retry;
pub mod sample;
pub mod service;
pub mod survey;
pub mod tls;
