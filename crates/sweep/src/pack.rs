//! Merges the parts of a sweep into one file, in the order of the plan.
//!
//! The result depends on the plan alone: neither on how cells were distributed nor on which were
//! run twice. A cell that two parts have must have the same rows in both. Memory is bounded: the
//! plan is taken a window of cells at a time, and each pass reads the rows of its window.

use crate::column::{self, CellRow, columns};
use crate::folder::{DoneCells, SweepFolder, write_durably};
use crate::part::{GROUP_ROWS, key_of};
use anyhow::{Error, Result, anyhow};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::Path;

/// Cells whose rows are held at a time.
const WINDOW_CELLS: usize = 50_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackFormat {
    Parquet,
    /// Comma-separated values; lists are written as JSON.
    Csv,
    /// A JSON object per line.
    Ndjson,
}

impl PackFormat {
    pub fn of(path: &Path) -> Option<PackFormat> {
        match path.extension()?.to_str()? {
            "parquet" => Some(PackFormat::Parquet),
            "csv" => Some(PackFormat::Csv),
            "ndjson" | "jsonl" => Some(PackFormat::Ndjson),
            _ => None,
        }
    }
}

/// Writes the rows of all cells that are done. Fails if a part cannot be read, the file cannot be
/// written, or two parts disagree on a cell.
pub fn pack(folder: &SweepFolder, done: &DoneCells, path: &Path, format: PackFormat) -> Result<()> {
    write_durably(path, |file| match format {
        PackFormat::Parquet => pack_parquet(folder, done, file),
        PackFormat::Csv | PackFormat::Ndjson => pack_lines(folder, done, file, format),
    })
}

fn pack_parquet(folder: &SweepFolder, done: &DoneCells, file: &mut File) -> Result<()> {
    let mut writer = folder.packed_writer(BufWriter::new(file))?;
    let mut rows: Vec<CellRow> = Vec::new();
    for_each_cell(folder, done, |cell| {
        rows.extend(cell);
        while rows.len() >= GROUP_ROWS {
            let rest = rows.split_off(GROUP_ROWS);
            writer.write(&rows)?;
            rows = rest;
        }
        Ok(())
    })?;
    writer.write(&rows)?;
    writer.finish()
}

fn pack_lines(
    folder: &SweepFolder,
    done: &DoneCells,
    file: &mut File,
    format: PackFormat,
) -> Result<()> {
    let columns = columns(&folder.plan);
    let mut file = BufWriter::new(file);
    let is_csv = format == PackFormat::Csv;
    if is_csv {
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        writeln!(file, "{}", names.join(","))?;
    }
    for_each_cell(folder, done, |cell| {
        for row in cell {
            let line = if is_csv { column::csv(&row) } else { column::json(&columns, &row) };
            writeln!(file, "{line}")?;
        }
        Ok(())
    })?;
    Ok(file.flush()?)
}

/// Calls `each` with the rows of each cell that is done, in the order of the plan.
///
/// # Errors
/// Those of `each`, and if parts cannot be read or disagree.
pub fn for_each_cell(
    folder: &SweepFolder,
    done: &DoneCells,
    mut each: impl FnMut(Vec<CellRow>) -> Result<()>,
) -> Result<()> {
    for start in (0..folder.cells.len()).step_by(WINDOW_CELLS) {
        let end = (start + WINDOW_CELLS).min(folder.cells.len());
        let mut window: Vec<Vec<CellRow>> = vec![Vec::new(); end - start];
        for_each_saved(folder, done, start..end, |place, rows| {
            let slot = &mut window[place - start];
            if slot.is_empty() {
                *slot = rows.to_vec();
            } else if slot != rows {
                return Err(disagreement(folder, place));
            }
            Ok(())
        })?;
        window.into_iter().filter(|rows| !rows.is_empty()).try_for_each(&mut each)?;
    }
    Ok(())
}

/// Calls `each` with the place and the rows of the cells that have a place in `places`, one part
/// after the other. A cell that two parts have comes twice.
///
/// # Errors
/// Those of `each`, and if parts cannot be read.
fn for_each_saved(
    folder: &SweepFolder,
    done: &DoneCells,
    places: Range<usize>,
    mut each: impl FnMut(usize, &[CellRow]) -> Result<()>,
) -> Result<()> {
    let inside = |key| folder.place(key).filter(|place| places.contains(place));
    let is_of_one_cell = |left: &CellRow, right: &CellRow| left[column::KEY] == right[column::KEY];
    for path in &done.parts {
        let part = folder.part(path)?;
        for group in 0..part.groups() {
            if !part.keys(group)?.into_iter().any(|key| inside(key).is_some()) {
                continue;
            }
            for cell in part.rows(group)?.chunk_by(is_of_one_cell) {
                if let Some(place) = inside(key_of(&cell[0][column::KEY])?) {
                    each(place, cell)?;
                }
            }
        }
    }
    Ok(())
}

/// The error that two parts have different rows for the cell with this place.
fn disagreement(folder: &SweepFolder, place: usize) -> Error {
    anyhow!(
        "two parts have different figures for one cell: {}\n  help: run `mirrorball sweep verify` \
         on each machine that took part",
        folder.shown(place)
    )
}
