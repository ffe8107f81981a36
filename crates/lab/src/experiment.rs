//! Experiments: plan -> run -> record -> study.
//!
//! One typed, versioned structure stands at each arrow. A [`plan::Plan`] lists cells; [`run::run`]
//! puts each through an [`executor::CellExecutor`] and saves its [`record::CellRecord`] in a
//! [`results::Results`] folder; a [`study::Study`] computes figures from records. Nothing after
//! `run` measures, so saved results can be studied again. [`import`] makes records of what other
//! programs measured, and [`explain`] runs one cell with a trace of its decisions.
//! [`systems`] says which policies a storage system offers, and how to set them.

pub mod build;
pub mod environment;
pub mod executor;
pub mod explain;
pub mod hash;
pub mod import;
pub mod inputs;
pub mod plan;
pub mod record;
pub mod results;
pub mod run;
pub mod simulate;
pub mod study;
pub mod systems;
