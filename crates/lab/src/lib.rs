//! Experiments: plan -> run -> record -> study -> report.
//!
//! One typed, versioned structure stands at each arrow. A [`plan::Plan`] lists cells; [`run::run`]
//! puts each through an [`executor::Executor`] and saves its [`record::CellRecord`] in a
//! [`results::Results`] folder; a [`study::Study`] draws figures from records and
//! [`report`] writes it in one format or another. Nothing after `run` measures, so old results can
//! be studied again. How a policy decides is known elsewhere.

pub mod environment;
pub mod executor;
pub mod explain;
pub mod hash;
pub mod import;
pub mod inputs;
pub mod league;
mod page;
pub mod plan;
pub mod recipe;
pub mod record;
pub mod report;
pub mod results;
pub mod run;
pub mod schema;
pub mod simulate;
pub mod study;

#[cfg(test)]
mod fixtures;
