//! Models of disks and links: when an I/O finishes, and nothing else.
//!
//! Everything here is pure: a model takes the time as an argument and holds no data, so the same
//! model runs on a virtual clock and in real time.

pub mod model;
