//! Evaluations: many experiments and one result.
//!
//! The [`league`] compares policies on arrays and jobs that are drawn at random. A [`recipe`]
//! repeats a published experiment and prints the published figure next to ours. [`advice`] says
//! what to change on an array of a storage system.

pub mod advice;
pub mod league;
pub mod recipe;
