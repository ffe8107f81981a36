//! What runs a cell.
//!
//! The lab plans, saves and studies without knowing what an experiment is made of; an executor
//! knows. [`crate::experiment::simulate`] is the real one; tests put in one that makes records up.

use crate::experiment::plan::Cell;
use anyhow::Result;
use mirrorball_sim::record::RunRecord;

/// Runs cells, several at a time.
pub trait Executor: Sync {
    /// Runs one cell to its end. Equal cells give equal records.
    ///
    /// # Errors
    /// If the cell cannot be run, or the simulation broke one of its own rules.
    fn run(&self, cell: &Cell<'_>) -> Result<RunRecord>;
}
