//! The arrays of this machine: finds them and describes them as array files.
//!
//! `detect` reads the kernel's files below `/sys` and `/proc`, and never writes.

pub mod detect;
