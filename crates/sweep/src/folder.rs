//! The folder of a sweep: its plan, and the parts that hold what was run.
//!
//! ```text
//! sweep.json       the plan
//! parts/*.parquet  rows of cells; a name is the hash of the keys in the file
//! ```
//!
//! A part is written under a temporary name, flushed to the disk and renamed, so it is whole. The
//! keys in the parts say which cells are done; there is no other list, which could disagree. A part
//! that cannot be read is left alone and its cells count as missing. A file of another sweep is
//! refused, because its figures could end up in a result.

use crate::column::CellRow;
use crate::part::{FilePurpose, NoPart, PartReader, PartWriter};
use crate::plan::{CellKey, SweepCell, SweepPlan};
use anyhow::{Context, Result, anyhow, bail};
use mirrorball_lab::experiment::build::BuildIdentity;
use mirrorball_lab::experiment::hash::stable_hash;
use mirrorball_lab::temporary_file::{TemporaryFile, folder_of};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

pub const PLAN_FILE: &str = "sweep.json";
const PARTS: &str = "parts";
const ENDING: &str = "parquet";

/// The folder of a sweep, with the cells of its plan.
#[derive(Debug)]
pub struct SweepFolder {
    path: PathBuf,
    pub plan: SweepPlan,
    hash: String,
    /// The cells, in the order of the plan.
    pub cells: Vec<SweepCell>,
    /// Their keys, in the same order.
    pub keys: Vec<CellKey>,
    places: HashMap<CellKey, usize>,
}

#[derive(Debug, Default)]
pub struct DoneCells {
    /// Whether each cell is done, in the order of the plan.
    pub is_done: Vec<bool>,
    pub parts: Vec<PathBuf>,
    pub bytes: u64,
    /// Files in place of parts that cannot be read, and why.
    pub damaged: Vec<(PathBuf, String)>,
}

impl DoneCells {
    pub fn count(&self) -> usize {
        self.is_done.iter().filter(|is_done| **is_done).count()
    }
}

impl SweepFolder {
    /// Writes a plan to a folder, which is created, is empty or has the same plan. Fails if two
    /// cells of the plan are the same, or the folder holds something else or cannot be written.
    pub fn create(path: &Path, plan: SweepPlan) -> Result<SweepFolder> {
        let folder = SweepFolder::new(path, plan);
        folder.refuse_equal_cells()?;
        let (shown, file) = (path.display(), path.join(PLAN_FILE));
        let text = folder.plan.text();
        match fs::read_to_string(&file) {
            Ok(found) if found == text => return Ok(folder),
            Ok(_) => bail!("{shown} holds another sweep\n  help: give another folder with -o"),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => bail!("cannot read {}: {error}", file.display()),
        }
        SweepFolder::check_free(path)?;
        let cannot = || format!("cannot create the folder of a sweep {shown}");
        fs::create_dir_all(path.join(PARTS)).with_context(cannot)?;
        let write = |file: &mut File| Ok(file.write_all(text.as_bytes())?);
        write_durably(&file, write).with_context(cannot)?;
        Ok(folder)
    }

    /// Checks that a folder is empty or missing, before a plan is made that would go there. Fails
    /// if it holds something.
    fn check_free(path: &Path) -> Result<()> {
        let shown = path.display();
        if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
            bail!("{shown} is not empty and is not a sweep\n  help: give another folder");
        }
        Ok(())
    }

    /// Opens the folder of a sweep. Fails if there is no plan, or this version cannot read it.
    pub fn open(path: &Path) -> Result<SweepFolder> {
        let (shown, file) = (path.display(), path.join(PLAN_FILE));
        let text = fs::read_to_string(&file).map_err(|error| match error.kind() {
            ErrorKind::NotFound => anyhow!(
                "{shown} holds no sweep: there is no {PLAN_FILE}\n  help: make one with \
                 `mirrorball sweep plan FILE -o {shown}`"
            ),
            _ => anyhow!("cannot read {}: {error}", file.display()),
        })?;
        let plan = SweepPlan::parse(&text).with_context(|| file.display().to_string())?;
        Ok(SweepFolder::new(path, plan))
    }

    fn new(path: &Path, plan: SweepPlan) -> SweepFolder {
        let (path, hash, cells) = (path.to_owned(), plan.hash(), plan.cells());
        let keys = plan.keys(&cells);
        let places = keys.iter().enumerate().map(|(place, key)| (*key, place)).collect();
        SweepFolder { path, plan, hash, cells, keys, places }
    }

    fn refuse_equal_cells(&self) -> Result<()> {
        for (place, key) in self.keys.iter().enumerate() {
            if self.places[key] != place {
                let cell = self.shown(place);
                bail!("two cells of the sweep are the same: {cell}\n  help: remove one of them");
            }
        }
        Ok(())
    }

    /// Refuses to run the plan by another build, whose figures may differ. Fails if the plan is of
    /// another build.
    pub fn check_build(&self, build: &BuildIdentity) -> Result<()> {
        if self.plan.build == *build {
            return Ok(());
        }
        bail!(
            "{} was planned by another build: {}; this is {build}\n  help: run it with that build, \
             or plan it again with this one",
            self.path.display(),
            self.plan.build
        )
    }

    pub fn place(&self, key: CellKey) -> Option<usize> {
        self.places.get(&key).copied()
    }

    pub fn shown(&self, place: usize) -> String {
        let (cell, key) = (self.cells[place], self.keys[place]);
        let (array, job) = self.plan.texts(cell.pair);
        let policy = &self.plan.policies[cell.policy as usize];
        let seed = self.plan.pairs[cell.pair as usize].seed.wrapping_add(cell.repeat.into());
        let vary = array.vary.iter().chain(&job.vary);
        let vary: String = vary.map(|(name, value)| format!(", {name} = {value}")).collect();
        format!("{key:032x}: {} on {} under {policy}, seed {seed}{vary}", job.name, array.name)
    }

    /// Reads which cells are done. Fails if a file belongs to something else than this sweep.
    pub fn done(&self) -> Result<DoneCells> {
        let is_done = vec![false; self.cells.len()];
        let mut done = DoneCells { is_done, ..DoneCells::default() };
        self.read_new_parts(&mut done)?;
        Ok(done)
    }

    /// Adds to `done` the parts that it lacks.
    pub fn read_new_parts(&self, done: &mut DoneCells) -> Result<()> {
        for path in self.part_files()? {
            let is_known = |known: &PathBuf| *known == path;
            if done.parts.iter().chain(done.damaged.iter().map(|(it, _)| it)).any(is_known) {
                continue;
            }
            match self.keys_of(&path) {
                Ok(places) => {
                    places.into_iter().for_each(|place| done.is_done[place] = true);
                    done.bytes += fs::metadata(&path).map_or(0, |metadata| metadata.len());
                    done.parts.push(path);
                }
                Err(NoPart::Damaged(error)) => done.damaged.push((path, format!("{error:#}"))),
                Err(NoPart::Foreign(reason)) => bail!(
                    "{}: {reason}\n  help: move it out of the folder of the sweep",
                    path.display()
                ),
            }
        }
        Ok(())
    }

    /// Opens a part that [`SweepFolder::done`] has found. Fails if it was removed or changed since.
    pub fn part(&self, path: &Path) -> Result<PartReader> {
        PartReader::open(path, &self.plan, &self.hash).map_err(|error| match error {
            NoPart::Damaged(error) => error.context(path.display().to_string()),
            NoPart::Foreign(reason) => anyhow!("{}: {reason}", path.display()),
        })
    }

    fn keys_of(&self, path: &Path) -> Result<Vec<usize>, NoPart> {
        let part = PartReader::open(path, &self.plan, &self.hash)?;
        let mut places = Vec::new();
        for group in 0..part.groups() {
            let mut keys = part.keys(group).map_err(NoPart::Damaged)?;
            keys.dedup();
            for key in keys {
                let foreign = || NoPart::Foreign(format!("cell {key:032x} is not in the plan"));
                places.push(self.place(key).ok_or_else(foreign)?);
            }
        }
        Ok(places)
    }

    /// The files in place of parts, by name.
    fn part_files(&self) -> Result<Vec<PathBuf>> {
        let folder = self.path.join(PARTS);
        let mut files = Vec::new();
        let cannot = || format!("cannot read {}", folder.display());
        for entry in fs::read_dir(&folder).with_context(cannot)? {
            let path = entry.with_context(cannot)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // Temporary files, of a process that runs or was killed.
            if name.starts_with('.') {
                continue;
            }
            if path.extension().is_none_or(|ending| ending != ENDING) {
                bail!(
                    "{}: a file that is no part of a sweep\n  help: move it out of the folder",
                    path.display()
                );
            }
            files.push(path);
        }
        files.sort();
        Ok(files)
    }

    /// Writes a part with the rows of some cells, given by their places and in this order.
    pub fn save(&self, places: &[usize], rows: &[CellRow], host: &str) -> Result<()> {
        let keys: Vec<String> =
            places.iter().map(|&place| format!("{:032x}", self.keys[place])).collect();
        let name = &stable_hash(keys.iter().map(String::as_str))[16..];
        let path = self.path.join(PARTS).join(format!("{name}.{ENDING}"));
        let write = |file: &mut File| {
            let file = BufWriter::new(file);
            let purpose = FilePurpose::Part { host };
            let mut writer = PartWriter::new(file, &self.plan, &self.hash, purpose)?;
            writer.write(rows)?;
            writer.finish()
        };
        write_durably(&path, write).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Starts a file of rows of the whole sweep.
    pub fn packed_writer<W: Write + Send>(&self, file: W) -> Result<PartWriter<W>> {
        PartWriter::new(file, &self.plan, &self.hash, FilePurpose::Packed)
    }
}

/// Writes a file that is whole or not there, also after a power failure.
pub fn write_durably(path: &Path, write: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    let mut temporary = TemporaryFile::create_next_to(path)?;
    write(temporary.file())?;
    temporary.file().sync_all()?;
    temporary.rename(path)?;
    // The new name survives a power failure only if the folder is flushed too.
    File::open(folder_of(path))?.sync_all()?;
    Ok(())
}
