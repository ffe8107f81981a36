//! Evaluations: many experiments and one result.
//!
//! The [`league`] plays policies against each other on a matrix of arrays and jobs, and a
//! [`sample`] on arrays and jobs that are drawn at random. A [`recipe`] repeats a published
//! experiment and prints the published figure next to ours. [`advice`] says what to change on an
//! array of a storage system.

pub mod advice;
pub mod league;
pub mod recipe;
pub mod sample;
