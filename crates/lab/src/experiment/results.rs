//! The results folder: `plan.json` and one file per finished cell under `cells/`.
//!
//! Each file is written under a temporary name and renamed, so that no reader sees half of one. It
//! is not synced: after a power failure a cell may be cut off, and a cell that cannot be read (cut
//! off, edited) is run again. A folder belongs to one plan. Running the plan again reuses the saved
//! cells and runs the rest; another plan is refused, so that no folder holds cells of two plans.
//!
//! [`load`] reads what is saved into [`ResultSet`]s, which reports are made of.

mod derive;
pub(crate) mod digest;
mod imports;
mod read;
mod set;

pub(crate) use set::saved_cells;
pub use set::{Loaded, ResultSet, Skipped, load};

use crate::experiment::plan::{Cell, Plan};
use crate::experiment::record::{CellRecord, SCHEMA_VERSION};
use crate::temporary_file::TemporaryFile;
use anyhow::{Context, Result, anyhow, bail};
use digest::Integrity;
use serde::Serialize;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

pub(crate) const PLAN_FILE: &str = "plan.json";
pub(crate) const CELLS_FOLDER: &str = "cells";
/// Cells of a benchmark that say nothing about their policy.
pub(crate) const LEFT_OUT_FOLDER: &str = "left-out";
/// The file that marks a results folder of a random league.
pub(crate) const SAMPLE_FILE: &str = "sample.json";

/// A results folder that belongs to a plan.
#[derive(Debug)]
pub struct Results {
    folder: PathBuf,
}

impl Results {
    /// Checks that `folder` may hold the results of `plan`: it is absent or empty, or holds the
    /// same plan, of as many repeats, fewer or more. Writes nothing. Fails if it holds another plan
    /// or something else; the message says what differs.
    pub fn check(folder: &Path, plan: &Plan) -> Result<()> {
        let shown = folder.display();
        let plan_path = folder.join(PLAN_FILE);
        if !plan_path.exists() {
            let is_empty = match fs::read_dir(folder) {
                Ok(mut entries) => entries.next().is_none(),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
                Err(error) => {
                    let problem = folder_problem(folder, &error);
                    bail!("cannot use {shown} as results folder: {problem}");
                }
            };
            if folder.join(SAMPLE_FILE).exists() {
                bail!("{shown} holds results of `league --sample`");
            }
            if folder.join(CELLS_FOLDER).is_dir() {
                bail!("{shown} holds imported results, and `compare` cannot add to them");
            }
            if !is_empty {
                bail!("{shown} is not empty and is not a results folder");
            }
            return Ok(());
        }
        let text = fs::read_to_string(&plan_path)
            .with_context(|| format!("cannot read {}", plan_path.display()))?;
        let Ok(found) = serde_json::from_str::<Plan>(&text) else {
            let plan = plan_path.display();
            bail!("{plan} is not a plan that this version can read");
        };
        let differences = plan.differences(&plan.with_repeats_of(&found));
        if !differences.is_empty() {
            let listed = differences.join("\n  ");
            if plan.build != found.build && differences.len() == 1 {
                bail!("{shown} holds results of this comparison by another build\n  {listed}");
            }
            bail!("{shown} holds results of a different comparison\n  {listed}");
        }
        Ok(())
    }

    /// Creates the folder for `plan`, or opens it if it holds the same plan. One of fewer repeats
    /// is replaced.
    ///
    /// # Errors
    /// As [`Results::check`], or if the folder cannot be written.
    pub fn open(folder: &Path, plan: &Plan) -> Result<Results> {
        Results::check(folder, plan)?;
        let cells = folder.join(CELLS_FOLDER);
        fs::create_dir_all(&cells).map_err(|error| {
            let shown = folder.display();
            anyhow!("cannot create the results folder {shown}: {}", folder_problem(folder, &error))
        })?;
        let plan_path = folder.join(PLAN_FILE);
        let text = fs::read_to_string(&plan_path).unwrap_or_default();
        let found = serde_json::from_str::<Plan>(&text).ok();
        let kept = match found.filter(|found| found.seeds.len() >= plan.seeds.len()) {
            None => plan.clone(),
            Some(found) if found.seeds.len() > plan.seeds.len() => found,
            Some(found) => found.with_ranking_of(plan),
        };
        let mut saved = serde_json::to_vec_pretty(&kept).expect("a plan is plain data");
        saved.push(b'\n');
        if saved != text.as_bytes() {
            write_whole(&plan_path, &saved)?;
        }
        Ok(Results { folder: folder.to_owned() })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The saved record of `cell`, if it is there, as it was saved, and of the build of its plan.
    pub fn load(&self, cell: &Cell<'_>) -> Option<CellRecord> {
        Results::load_from(&self.cell_path(cell), cell)
    }

    /// The record of `cell` that was left out, under the conditions of [`Results::load`].
    pub fn load_left_out(&self, cell: &Cell<'_>) -> Option<CellRecord> {
        Results::load_from(&self.folder.join(LEFT_OUT_FOLDER).join(cell.file_name()), cell)
    }

    fn load_from(path: &Path, cell: &Cell<'_>) -> Option<CellRecord> {
        let text = fs::read_to_string(path).ok()?;
        if digest::check(&text) != Integrity::Intact {
            return None;
        }
        let record: CellRecord = serde_json::from_str(&text).ok()?;
        let current = record.schema_version == SCHEMA_VERSION && record.key == cell.key();
        current.then_some(record)
    }

    /// Saves the record of `cell`.
    pub fn save(&self, cell: &Cell<'_>, record: &impl Serialize) -> Result<()> {
        Results::save_at(&self.cell_path(cell), record)
    }

    /// Saves the record of `cell` where no report reads it, because it says nothing about the
    /// policy.
    pub fn save_left_out(&self, cell: &Cell<'_>, record: &impl Serialize) -> Result<()> {
        let folder = self.folder.join(LEFT_OUT_FOLDER);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Results::save_at(&folder.join(cell.file_name()), record)
    }

    fn save_at(path: &Path, record: &impl Serialize) -> Result<()> {
        write_whole(path, record_text(record).as_bytes())
    }

    fn cell_path(&self, cell: &Cell<'_>) -> PathBuf {
        self.folder.join(CELLS_FOLDER).join(cell.file_name())
    }
}

/// The text of the file of a record, in one line. Panics if the record is not plain data.
pub fn record_text(record: &impl Serialize) -> String {
    digest::seal(&serde_json::to_string(record).expect("a record is plain data"))
}

/// Why a folder cannot be used, in words.
pub(crate) fn folder_problem(folder: &Path, error: &io::Error) -> String {
    let is_file = |part: &&Path| part.exists() && !part.is_dir();
    match (error.kind(), folder.ancestors().find(is_file)) {
        (ErrorKind::NotADirectory | ErrorKind::AlreadyExists, Some(file)) => {
            format!("{} is a file", file.display())
        }
        _ => error.to_string(),
    }
}

/// Writes a file under a temporary name and renames it, so that no reader sees half of it.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = TemporaryFile::create_next_to(path).and_then(|mut temporary| {
        temporary.file().write_all(bytes)?;
        temporary.rename(path)
    });
    written.with_context(|| format!("cannot write {}", path.display()))
}
