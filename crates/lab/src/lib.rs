//! Experiments, the reports about them, and evaluations made of both.
//!
//! - [`experiment`] plans cells, runs them, saves their records and studies the figures.
//! - [`report`] writes a study as a table, CSV, JSON, markdown, mail or an HTML page.
//! - [`evaluation`] runs many experiments for one result: the league and the recipes.
//!
//! Each uses those above it in this list and none below; `tests/tidy` holds these arrows.

pub mod evaluation;
pub mod experiment;
pub mod report;

#[cfg(test)]
#[path = "tests/fixtures.rs"]
mod fixtures;

#[cfg(test)]
mod schema_tests;
