//! The arrays and disks of this machine: describes arrays as array files, and measures disks.
//!
//! `detect` reads the kernel's files below `/sys` and `/proc`. `probe` reads a disk, and fits a
//! model to what it took. Neither writes.

pub mod detect;
pub mod probe;
