//! Runs some cells of a sweep again and compares every bit of their rows with those saved.
//!
//! Machines differ in CPU and mathematical library, and a figure must not. Which cells are run
//! again depends on their keys and the seed, so two machines can check the same ones.

use crate::column::{CellRow, Field, KEY, RowColumn, columns};
use crate::folder::{DoneCells, SweepFolder};
use crate::pack::for_each_cell;
use crate::part::key_of;
use crate::run::simulate;
use anyhow::{Context, Result};
use mirrorball_core::rng::Rng;
use std::sync::atomic::{AtomicBool, Ordering};

/// Result of a check of saved cells.
#[derive(Debug, Default)]
pub struct Verification {
    /// Number of cells that were run again.
    pub checked: usize,
    /// The cells that differ, each with the columns that do.
    pub differences: Vec<String>,
    /// True if it was stopped before the end.
    pub is_interrupted: bool,
}

/// Runs a part of the cells that are done again, at least one.
pub fn verify(
    folder: &SweepFolder,
    done: &DoneCells,
    fraction: f64,
    seed: u64,
    stop: &AtomicBool,
) -> Result<Verification> {
    let rank = |place: usize| Rng::stream(seed, &format!("{:032x}", folder.keys[place])).unit();
    let places = (0..folder.cells.len()).filter(|place| done.is_done[*place]);
    let least = places.min_by(|left, right| rank(*left).total_cmp(&rank(*right)));
    let mut found = Verification::default();
    for_each_cell(folder, done, |saved| {
        let key = key_of(&saved[0][KEY])?;
        let place = folder.place(key).context("a part was changed meanwhile")?;
        if Some(place) != least && rank(place) >= fraction || stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (_, fresh) = simulate(folder, &[place], stop).remove(0);
        let fresh = match fresh {
            Err(_) if stop.load(Ordering::Relaxed) => return Ok(()),
            fresh => fresh.with_context(|| folder.shown(place))?,
        };
        found.checked += 1;
        let names = differing(&columns(&folder.plan), &fresh, &saved);
        if !names.is_empty() {
            found.differences.push(format!("{}: {}", folder.shown(place), names.join(", ")));
        }
        Ok(())
    })?;
    found.is_interrupted = stop.load(Ordering::Relaxed);
    Ok(found)
}

/// The names of the columns in which two versions of the rows of a cell differ.
fn differing(columns: &[RowColumn], fresh: &[CellRow], saved: &[CellRow]) -> Vec<String> {
    let differs = |place: usize| {
        let rows = |rows: &[CellRow]| -> Vec<Field> {
            rows.iter().map(|row| row[place].clone()).collect()
        };
        rows(fresh) != rows(saved)
    };
    let names = columns.iter().enumerate().filter(|(place, _)| differs(*place));
    names.map(|(_, column)| column.name.clone()).collect()
}

#[cfg(test)]
mod tests;
