//! Result sets: what the folders and files named on a command line hold, ready to be reported.
//!
//! A folder is one set; all single files together are one more. What cannot be used is named with
//! its reason and the rest is reported. A folder without a readable `plan.json` (loose cells, an
//! import) gets the plan that most of its cells agree on.
//!
//! A study compares all policies under all jobs. Where an interrupted run left some combinations
//! without a single cell, whole jobs or policies are left out, those that lack most first, until
//! no combination is missing; a combination that lacks only some of its repeats stays.

use super::read::{OF_SAMPLE, read_cell};
use super::{CELLS_FOLDER, LEFT_OUT_FOLDER, PLAN_FILE, SAMPLE_FILE};
use super::{derive, imports};
use crate::experiment::plan::{Plan, Reference};
use crate::experiment::record::{CellIdentity, CellRecord, ORACLE, SCHEMA_VERSION};
use crate::experiment::study::statistics::LOOKS_MAX;
use crate::experiment::study::{CellSummary, Criteria, Study};
use rayon::prelude::{IntoParallelRefIterator, ParallelIterator};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct ResultSet {
    /// Its label in a comparison: the name of its folder.
    pub label: String,
    /// The cells that the study is of, in the order of its plan.
    pub cells: Vec<CellRecord>,
    /// What they amount to.
    pub study: Study,
    /// Files that hold nothing usable, and why.
    pub skipped: Vec<Skipped>,
    /// What else a reader should know, such as jobs that were left out.
    pub notes: Vec<String>,
}

/// A file or a folder that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub path: PathBuf,
    /// Why, in words that follow the path.
    pub reason: String,
}

/// What [`load`] found.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The sets that can be reported, in the order they were named.
    pub sets: Vec<ResultSet>,
    /// What held nothing that can be reported, and its files.
    pub refused: Vec<Skipped>,
}

/// Reads the folders and files of saved cells that a user named, and studies them by `criteria`.
pub fn load(paths: &[PathBuf], criteria: &Criteria) -> Loaded {
    let mut loaded = Loaded::default();
    let (folders, files): (Vec<&PathBuf>, Vec<&PathBuf>) =
        paths.iter().partition(|path| path.is_dir());
    for folder in folders {
        loaded.add(label_of(folder), folder, load_folder(folder), criteria);
    }
    if let Some(first) = files.first() {
        let mut found = Found::default();
        found.read(&files.iter().map(|file| file.to_path_buf()).collect::<Vec<PathBuf>>());
        let folder = first.parent().unwrap_or(Path::new("")).to_path_buf();
        let cells_folder = folder.file_name().is_some_and(|name| name == CELLS_FOLDER);
        let named = if cells_folder { folder.parent().unwrap_or(&folder) } else { &folder };
        loaded.add(label_of(named), first, found, criteria);
    }
    loaded.part_labels(paths);
    loaded
}

/// Every cell in a folder that can be read, whatever experiment it is of.
pub(crate) fn saved_cells(folder: &Path) -> Vec<CellRecord> {
    load_folder(folder).cells.into_iter().map(|(_, record)| record).collect()
}

/// What a folder or a list of files holds, before it is known to be of one experiment.
#[derive(Default)]
struct Found {
    plan: Option<Plan>,
    cells: Vec<(PathBuf, CellRecord)>,
    skipped: Vec<Skipped>,
}

impl Loaded {
    fn add(&mut self, label: String, path: &Path, found: Found, criteria: &Criteria) {
        let nothing_wrong = found.skipped.is_empty();
        match into_set(label, path, found, criteria) {
            Ok(set) => self.sets.push(set),
            Err((reason, skipped)) => {
                // Where files were refused they say why there is nothing.
                if nothing_wrong || skipped.is_empty() {
                    self.refused.push(Skipped { path: path.to_owned(), reason });
                }
                self.refused.extend(skipped);
            }
        }
    }

    /// Gives sets of one name the paths that they were named by, and a number where even those are
    /// the same.
    fn part_labels(&mut self, paths: &[PathBuf]) {
        let labels: Vec<String> = self.sets.iter().map(|set| set.label.clone()).collect();
        let is_shared = |label| labels.iter().filter(|other| **other == label).count() > 1;
        let mut named = paths.iter();
        for set in &mut self.sets {
            if is_shared(set.label.clone()) {
                let path = named.by_ref().find(|path| label_of(path) == set.label);
                set.label = path.map_or(set.label.clone(), |path| path.display().to_string());
            }
        }
        for index in 1..self.sets.len() {
            let label = self.sets[index].label.clone();
            let before = self.sets[..index].iter().filter(|set| set.label == label).count();
            if before > 0 {
                self.sets[index].label = format!("{label} ({})", before + 1);
            }
        }
    }
}

/// The last part of a path that names something.
fn label_of(path: &Path) -> String {
    let full = path.canonicalize().unwrap_or(path.to_owned());
    let name = full.file_name().unwrap_or(full.as_os_str());
    name.to_string_lossy().into_owned()
}

fn load_folder(folder: &Path) -> Found {
    let mut found = Found::default();
    if folder.join(SAMPLE_FILE).exists() {
        let (path, reason) = (folder.to_owned(), OF_SAMPLE.to_owned());
        found.skipped.push(Skipped { path, reason });
        return found;
    }
    let plan_path = folder.join(PLAN_FILE);
    if plan_path.exists() {
        match read_plan(&plan_path) {
            Ok(plan) => found.plan = Some(plan),
            Err(reason) => found.skipped.push(Skipped { path: plan_path, reason }),
        }
    }
    let cells = folder.join(CELLS_FOLDER);
    let place = if cells.is_dir() { &cells } else { folder };
    match json_files(place) {
        Ok(files) => found.read(&files),
        Err(error) => {
            let reason = format!("cannot be read: {error}");
            found.skipped.push(Skipped { path: place.to_owned(), reason });
        }
    }
    found
}

fn read_plan(path: &Path) -> Result<Plan, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    let plan: Plan = serde_json::from_str(&text)
        .map_err(|error| format!("is not a plan that this version can read: {error}"))?;
    if !(1..=LOOKS_MAX).contains(&plan.looks) {
        return Err(format!(
            "is not a plan that this version can read: `looks` is {}, and must be 1 to \
             {LOOKS_MAX}\n  help: correct it, or run the command in it again",
            plan.looks
        ));
    }
    let is_whole = !plan.jobs.is_empty() && !plan.policies.is_empty() && !plan.seeds.is_empty();
    if plan.schema_version == SCHEMA_VERSION && is_whole {
        Ok(plan)
    } else {
        Err("is not a plan that this version can read".to_owned())
    }
}

/// Files that may be cells, by name. A `.part` is being written.
fn json_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_json = path.extension().is_some_and(|ending| ending == "json");
        if is_json && path.file_name().is_some_and(|name| name != PLAN_FILE) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

impl Found {
    /// Reads `files` in parallel and keeps their order.
    fn read(&mut self, files: &[PathBuf]) {
        let outcomes: Vec<Result<CellRecord, String>> =
            files.par_iter().map(|path| read_cell(path)).collect();
        for (path, outcome) in files.iter().zip(outcomes) {
            match outcome {
                Ok(record) => self.cells.push((path.clone(), record)),
                Err(reason) => self.skipped.push(Skipped { path: path.clone(), reason }),
            }
        }
    }
}

/// The reason to refuse a folder without cells: results may be in folders below it.
fn holds_nothing(folder: &Path) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let below = entries.map(|entry| entry.path()).filter(|path| path.join(CELLS_FOLDER).is_dir());
    let mut below: Vec<PathBuf> = below.collect();
    below.sort();
    match &below[..] {
        [] => "holds no saved results\n  help: give a folder written by `compare` or `import`, or \
               files from its `cells` folder"
            .to_owned(),
        [first, ..] => format!(
            "holds no saved results itself, but {} of its folders do\n  help: give one of them, \
             such as {}",
            below.len(),
            first.display()
        ),
    }
}

/// The set, or why there is none and which files are to blame.
fn into_set(
    label: String,
    path: &Path,
    found: Found,
    criteria: &Criteria,
) -> Result<ResultSet, (String, Vec<Skipped>)> {
    let Found { plan, cells, mut skipped } = found;
    if cells.is_empty() {
        return Err((holds_nothing(path), skipped));
    }
    let mut plan = plan.unwrap_or_else(|| derive::plan(&cells));
    let mut kept = Vec::new();
    let mut seen: BTreeMap<(String, String, u64), PathBuf> = BTreeMap::new();
    for (path, record) in cells {
        let CellIdentity { job, policy, seed, .. } = record.cell.clone();
        let twin = seen.get(&(job.clone(), policy.clone(), seed));
        let is_twin = twin.map(|twin| format!("is the same cell as {}", twin.display()));
        match derive::misfit(&record, &plan).or(is_twin) {
            Some(reason) => skipped.push(Skipped { path, reason }),
            None => {
                seen.insert((job, policy, seed), path);
                kept.push(record);
            }
        }
    }
    let mut cells = kept;
    let mut notes: Vec<String> = derive::mixed_builds(&cells).into_iter().collect();
    notes.extend(imports::notes(&cells));
    let left_out = json_files(&path.join(LEFT_OUT_FOLDER)).map_or(0, |files| files.len());
    if left_out > 0 {
        let cells = if left_out == 1 { "1 cell is" } else { &format!("{left_out} cells are") };
        notes.push(format!(
            "{cells} left out: a cache of the host answered, or the rate changed its level"
        ));
    }
    let planned = plan.cells().len() - left_out.min(plan.cells().len());
    if cells.len() < planned {
        notes.push(format!(
            "{} of {planned} cells are saved; the command in plan.json, run again, simulates the \
             others",
            cells.len()
        ));
    }
    notes.extend(leave_out_gaps(&mut plan, &mut cells));
    if cells.is_empty() {
        return Err(("holds no results that belong to its plan".to_owned(), skipped));
    }
    if plan.policies.is_empty() {
        return Err(("holds results of the oracle only".to_owned(), skipped));
    }
    let summaries = cells.iter().cloned().map(CellSummary::new);
    let study = Study::new(plan, summaries.collect(), criteria.clone());
    Ok(ResultSet { label, cells, study, skipped, notes })
}

/// Leaves jobs and policies out until every policy has a cell under every job, and puts the cells
/// in the order of the plan. Returns what was left out.
fn leave_out_gaps(plan: &mut Plan, cells: &mut Vec<CellRecord>) -> Vec<String> {
    let there: BTreeSet<(&str, &str)> =
        cells.iter().map(|cell| (&*cell.cell.job, &*cell.cell.policy)).collect();
    let mut jobs: Vec<String> = plan.jobs.iter().map(|job| job.name.clone()).collect();
    let mut policies: Vec<String> = plan.contenders().map(str::to_owned).collect();
    let mut notes = Vec::new();
    loop {
        let has = |job: &String, policy: &String| there.contains(&(job.as_str(), policy.as_str()));
        let of_job = |job| policies.iter().filter(|policy| has(job, policy)).count();
        let of_policy = |policy| jobs.iter().filter(|job| has(job, policy)).count();
        // The part that is there, so that the least has most gaps; a job goes before a policy.
        let job_parts = jobs.iter().map(|job| of_job(job) as f64 / policies.len() as f64);
        let policy_parts = policies.iter().map(|name| of_policy(name) as f64 / jobs.len() as f64);
        let parts: Vec<f64> = job_parts.chain(policy_parts).collect();
        let least = (0..parts.len()).min_by(|&a, &b| parts[a].total_cmp(&parts[b]));
        let Some(least) = least.filter(|&index| parts[index] < 1.0) else { break };
        if least < jobs.len() {
            let (there, all) = (of_job(&jobs[least]), policies.len());
            let job = jobs.remove(least);
            notes.push(format!("job `{job}` is left out: {there} of {all} policies have cells"));
        } else {
            let (there, all) = (of_policy(&policies[least - jobs.len()]), jobs.len());
            let policy = policies.remove(least - jobs.len());
            notes.push(format!("`{policy}` is left out: it has cells under {there} of {all} jobs"));
        }
    }
    if !policies.iter().any(|policy| policy == ORACLE) {
        plan.reference = Reference::Nothing;
    }
    plan.jobs.retain(|job| jobs.contains(&job.name));
    plan.policies.retain(|policy| policies.contains(policy));
    cells.retain(|cell| jobs.contains(&cell.cell.job) && policies.contains(&cell.cell.policy));
    let place = |names: &[String], name: &str| names.iter().position(|other| other == name);
    cells.sort_by_cached_key(|record| {
        let cell = &record.cell;
        (place(&jobs, &cell.job), place(&policies, &cell.policy), cell.repeat, cell.seed)
    });
    notes
}

#[cfg(test)]
mod tests;
