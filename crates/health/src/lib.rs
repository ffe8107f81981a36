//! Judges which disk of a running array is slow, from counters that the kernel keeps anyway.
//!
//! Pure functions of samples and time: nothing here reads a clock or a file.
//!
//! - [`counters`]: the kernel's counters of a disk, and their differences.
//! - [`service`]: what a wait says of the disk itself: the queue in front of it is taken out.
//! - [`judge`]: the disks of an array, judged against their own history and against each other.
//! - [`control`]: which members serve reads meanwhile, and when they are read again.
//! - [`evidence`]: the sequential test that turns many small differences into one verdict.

pub mod control;
pub mod counters;
pub mod evidence;
pub mod judge;
pub mod service;
