//! Imports results of other programs as saved cells: one file is one cell.
//!
//! An import folder holds cells without a plan. Files may be added to it one by one, policy by
//! policy; the plan is what the cells agree on when they are reported. A file that is there already
//! is known by its contents and not added twice. What a cell needs and the other program does not
//! say (array, policy) is [`ImportLabels`].

pub mod fio;

use crate::experiment::record::CellRecord;
use crate::experiment::results::{
    CELLS_FOLDER, PLAN_FILE, SAMPLE_FILE, folder_problem, saved_cells, write_whole,
};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// Labels that the other program's output does not contain.
#[derive(Clone, Debug)]
pub struct ImportLabels {
    pub array: String,
    /// The array file; empty if there is none.
    pub array_text: String,
    /// Canonical policy string, or any name.
    pub policy: String,
    /// Name of the job; none for that of the sections.
    pub job: Option<String>,
}

/// What became of cells that were to be added.
#[derive(Debug, Default)]
pub struct Added {
    pub written: Vec<PathBuf>,
    /// Indexes of the records that the folder held already.
    pub known: Vec<usize>,
}

/// Whether `folder` may take imported cells of the array: it is absent or empty, or holds such
/// cells. Fails if the folder has other contents; the message lists them and says what to do.
pub fn check_folder(folder: &Path, about: &ImportLabels) -> Result<()> {
    let hint = "choose another folder with -o";
    if folder.join(SAMPLE_FILE).exists() {
        let shown = folder.display();
        bail!("{shown} holds results of `league --sample`\n  help: {hint}");
    }
    let shown = folder.display();
    if folder.join(PLAN_FILE).exists() {
        bail!("{shown} holds results of `compare`, and imports cannot be added\n  help: {hint}");
    }
    let mut entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            let problem = folder_problem(folder, &error);
            bail!("cannot use {shown} as results folder: {problem}\n  help: {hint}");
        }
    };
    if entries.next().is_some() && !folder.join(CELLS_FOLDER).is_dir() {
        bail!("{shown} is not empty and is not a results folder\n  help: {hint}");
    }
    let is_other = |record: &CellRecord| {
        (&record.cell.array, &record.array_text) != (&about.array, &about.array_text)
    };
    if let Some(other) = saved_cells(folder).iter().find(|record| is_other(record)) {
        let (saved, given) = (&other.cell.array, &about.array);
        if saved != given {
            bail!(
                "{shown} holds results of array `{saved}`, not of `{given}`\n  help: give --array \
                 {saved}, or {hint}"
            );
        }
        bail!(
            "{shown} holds results of a different array that is also named `{given}`\n  help: \
             {hint}"
        );
    }
    Ok(())
}

/// Fails if the records, with those in `folder`, are of different jobs of one name: `report` shows
/// one of those only.
pub fn check_jobs(folder: &Path, records: &[CellRecord]) -> Result<()> {
    let saved = saved_cells(folder);
    let mut known: Vec<&CellRecord> = saved.iter().collect();
    for record in records {
        let name = &record.cell.job;
        let is_other =
            |other: &&CellRecord| other.cell.job == *name && other.job_text != record.job_text;
        if known.iter().any(is_other) {
            bail!(
                "the results are of different jobs that are all named `{name}`: their options \
                 differ\n  help: import each job with a name of its own, given with --job"
            );
        }
        known.push(record);
    }
    Ok(())
}

/// Adds `records` to a folder that may take them, each as the next repeat of its job and policy
/// there; one that is there without logs gets those of the record.
pub fn add(folder: &Path, records: Vec<CellRecord>) -> Result<Added> {
    let cells = folder.join(CELLS_FOLDER);
    fs::create_dir_all(&cells)
        .with_context(|| format!("cannot create folder {}", cells.display()))?;
    let mut there = saved_cells(folder);
    let mut added = Added::default();
    for (index, mut record) in records.into_iter().enumerate() {
        let has_logs = |record: &CellRecord| !record.run.intervals.from_us.is_empty();
        let known = there.iter().find(|other| other.key == record.key);
        record.cell.repeat = match known {
            Some(known) if has_logs(known) || !has_logs(&record) => {
                added.known.push(index);
                continue;
            }
            // It was imported without its logs.
            Some(known) => known.cell.repeat,
            None => {
                let same = |other: &&CellRecord| {
                    (&other.cell.job, &other.cell.policy) == (&record.cell.job, &record.cell.policy)
                };
                let repeats = there.iter().filter(same).map(|other| other.cell.repeat + 1);
                repeats.max().unwrap_or(0)
            }
        };
        record.cell.seed = u64::from(record.cell.repeat) + 1;
        let path = cells.join(record.cell.file_name(&record.key));
        write_whole(&path, &serde_json::to_vec(&record).expect("a record is plain data"))?;
        added.written.push(path);
        there.retain(|other| other.key != record.key);
        there.push(record);
    }
    Ok(added)
}
