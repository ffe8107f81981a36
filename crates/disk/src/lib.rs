//! Models of disks and links: when an I/O finishes, and nothing else.
//!
//! A model takes the time as an argument and holds no data, so the same model runs on a virtual
//! clock and in real time.
//!
//! The modules, each built on those before it: [`model`] (the traits), then the models ([`delay`],
//! [`hdd`], [`ssd`]), [`link`] and [`fault`]; [`cache_tier`], the rules of a cache, and
//! `cached_disk`, a disk behind one; [`model_array`], which drives the models of an array;
//! [`workload`] and [`figure`], which measure a model; [`profile`], the registry of models;
//! [`characterise`], which compares models with published figures; and [`array_file`].

pub mod array_file;
mod byte_range;
mod byte_ranges;
pub mod cache_contents;
pub mod cache_tier;
mod cached_disk;
pub mod characterise;
pub mod controller;
pub mod delay;
mod disk_part;
pub mod fault;
mod fault_kind;
pub mod figure;
pub mod hdd;
pub mod link;
pub mod model;
pub mod model_array;
pub mod profile;
mod quantity;
pub mod ssd;
pub mod workload;
