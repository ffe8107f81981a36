//! The core of Mirrorball: which copy serves each read of a mirrored volume.
//!
//! Geometry, members and their books, the [`policy::ReadPolicy`] trait with every policy, and the
//! [`volume::Volume`] state machine. Nothing here knows a clock, a file, a thread, a source of
//! randomness of its own or a model of a disk: `now` and the generator are arguments. The same code
//! therefore runs on a virtual clock, on modelled disks in real time, and on real devices.

pub mod geometry;
pub mod histogram;
pub mod io;
pub mod member;
pub mod nearest;
pub mod policies;
pub mod policy;
pub mod recent;
pub mod rng;
pub mod slab;
pub mod units;
pub mod volume;
