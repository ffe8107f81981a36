//! Sweeps: experiments of many thousand cells, in shards that any engine can run.
//!
//! A *sweep* is many experiments in one plan: a grid of arrays, jobs, policies and seeds, or a
//! random sample of one. [`spec`] reads what the user wrote, [`vary`] makes the texts of arrays and
//! jobs with other values, and [`plan`] lists the cells. A cell has the key that `compare` would
//! give it, the hash of everything that decides its result, so equal keys have equal results.
//!
//! [`run`] simulates cells and writes their rows in *parts*, Parquet files that appear whole or not
//! at all ([`part`], [`folder`]). A cell is done if its key is in a part. Hence resuming a sweep,
//! repeating a part of it and two machines that run the same cells are one case, and no process has
//! to know of another. [`pack`] merges the parts in the order of the plan: the same bytes, however
//! the cells were distributed. [`verify`] runs cells again and compares.
//!
//! A plan says what its cells cost, about, so that shards of it take about the same time.
//!
//! Non-goals: scheduling. Which process runs which cells is for an engine that exists, such as
//! SLURM, Kubernetes or Dask.

pub mod column;
mod cost;
pub mod folder;
pub mod pack;
pub mod part;
pub mod plan;
pub mod run;
pub mod spec;
pub mod vary;
pub mod verify;
