//! The real clock: members that are files or devices, emulated members, and exports.
//!
//! What `mirrorball_sim` does on a virtual clock this room does in real time, with the same
//! volume, the same policies and the same models.

pub mod address;
pub mod assemble;
pub mod clock;
pub mod control;
pub mod driver;
mod errands;
pub mod executor;
mod farewell;
pub mod fuse;
pub mod lateness;
pub mod member;
pub mod nbd;
pub mod rebuild;
pub mod reopen;
mod retry;
pub mod sample;
pub mod service;
mod steps;
pub mod survey;
pub mod ublk;
