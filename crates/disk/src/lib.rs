//! Models of disks and links: when an I/O finishes, and nothing else.
//!
//! Everything here is pure: a model takes the time as an argument and holds no data, so the same
//! model runs on a virtual clock and in real time.

pub mod array_file;
pub mod characterise;
pub mod delay;
pub mod fault;
pub mod hdd;
pub mod link;
pub mod model;
pub mod model_array;
pub mod profile;
pub mod ssd;
mod time_queue;
