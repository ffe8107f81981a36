//! Experiments, the reports about them, and evaluations made of both.
//!
//! - [`experiment`] plans cells, runs them, saves their records and studies the figures.
//! - [`report`] writes a study as a table, CSV, JSON, markdown or an HTML page.
//! - [`evaluation`] runs many experiments for one result: the league and the recipes.
//!
//! Each of the three uses those above it and none below; `tests/tidy` holds these arrows.
//! [`temporary_file`] lets the files that are written appear whole or not at all.

pub mod evaluation;
pub mod experiment;
pub mod report;
pub mod temporary_file;

#[cfg(test)]
#[path = "tests/fixtures.rs"]
mod fixtures;

#[cfg(test)]
mod schema_tests;
