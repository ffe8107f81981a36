//! The core of Mirrorball: which copy serves each read of a mirrored volume.
//!
//! The crate holds the geometry, the members and their statistics, the [`policy::ReadPolicy`] trait
//! with every policy, and the [`volume::Volume`] state machine. It uses no clock, file, thread,
//! global random generator or disk model: `now` and the generator are arguments. The same code
//! therefore runs on a virtual clock, on modelled disks in real time, and on real devices.

pub mod column_set;
pub mod diagnostic;
pub mod geometry;
pub mod histogram;
pub mod io;

pub mod member;
pub mod policies;
pub mod policy;
pub mod rng;
pub mod slab;
pub mod sliding_window;
pub mod suggest;
pub mod time_queue;
pub mod units;
pub mod volume;
