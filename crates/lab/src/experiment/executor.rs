//! What runs a cell.
//!
//! The lab plans, saves and studies cells without knowledge of what an experiment is made of; an
//! executor has it. [`super::simulate`] is one; tests use another that makes measurements up.

use super::plan::Cell;
use anyhow::Result;
use mirrorball_sim::record::RunRecord;

/// Runs cells, several at a time.
pub trait CellExecutor: Sync {
    /// Runs one cell to its end. Equal cells give equal records. Fails if the cell cannot be run,
    /// or the simulation broke one of its own rules.
    fn run(&self, cell: &Cell<'_>) -> Result<RunRecord>;
}
