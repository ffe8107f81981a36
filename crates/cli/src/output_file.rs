//! Output files: written completely or not at all, and never over an existing file unasked.
//!
//! The text goes to a temporary file in the same folder, is flushed to the disk and gets its name
//! last. A full file system or a crash leaves the old file as it was. Devices and pipes, such as
//! `/dev/stdout`, cannot be replaced by a file; they are written directly.

use crate::ending::Failure;
use crate::screen;
use anyhow::{Context, Result, anyhow, bail};
use mirrorball_lab::temporary_file::{TemporaryFile, folder_of};
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Start of the files of --metrics.
const METRICS_START: &[u8] = b"# HELP mirrorball_";

/// Treatment of an existing file of the same name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays in any case.
    Stays,
    /// It stays, and nothing is written. With the options that give the file another name, if
    /// there are any.
    Keep(Option<&'static str>),
    Replace,
}

impl Existing {
    /// The choice of an option `--force`, which needs an option that names an output file. Fails if
    /// it is given without `output`; `options` are the ones that would give it, with `FILE` where
    /// they take a name.
    pub(crate) fn from_force(
        is_forced: bool,
        output: Option<&Path>,
        options: &'static str,
    ) -> Result<Existing, Failure> {
        match (is_forced, output) {
            (false, _) => Ok(Existing::Keep(Some(options).filter(|it| it.contains("FILE")))),
            (true, Some(path)) if !is_stdout(path) => Ok(Existing::Replace),
            (true, _) => Err(Failure::WrongUse(anyhow!(
                "--force has no effect without an output file\n  help: give {options}"
            ))),
        }
    }
}

/// Returns true for `-`, which stands for standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Fails if the file exists and must be kept, is a block device, or its folder does not exist.
/// Called before long work, whose output could not be written. Fails if the file cannot be written
/// for one of these reasons.
pub(crate) fn check(path: &Path, existing: Existing) -> Result<()> {
    if is_stdout(path) {
        return Ok(());
    }
    let shown = path.display();
    if path.is_dir() {
        bail!("cannot write {shown}: it is a folder\n  help: give the name of a file in it");
    }
    if path.metadata().is_ok_and(|it| it.file_type().is_block_device()) {
        bail!(
            "cannot write {shown}: it is a block device, whose data would be lost\n  help: give \
             the name of a file"
        );
    }
    if existing != Existing::Replace && path.symlink_metadata().is_ok() {
        return Err(exists(path, existing));
    }
    match folder_of(path) {
        folder if folder.is_dir() => Ok(()),
        folder if folder.exists() => {
            let folder = folder.display();
            bail!("cannot write {shown}: {folder} is not a folder\n  help: give another path")
        }
        _ => bail!("cannot write {shown}: its folder does not exist\n  help: create it first"),
    }
}

/// Writes a file, or to standard output if the path is `-`. Fails if the file exists and must be
/// kept, or cannot be written; an existing file is then unchanged.
pub(crate) fn write(path: &Path, text: &str, existing: Existing) -> Result<()> {
    if is_stdout(path) {
        return screen::print(text).map_err(Failure::into_cause);
    }
    match (write_bytes(path, text.as_bytes(), existing), existing) {
        (Err(error), _) if error.kind() == ErrorKind::AlreadyExists => Err(exists(path, existing)),
        (other, _) => other.with_context(|| format!("cannot write {}", path.display())),
    }
}

/// Checks the file of --metrics, which a running command replaces again and again. Fails if it has
/// something else.
pub(crate) fn check_metrics(path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path.filter(|it| it.is_file()) else { return Ok(()) };
    let mut start = Vec::new();
    let read = fs::File::open(path).map(|file| file.take(METRICS_START.len() as u64));
    if read.and_then(|mut file| file.read_to_end(&mut start)).is_ok()
        && METRICS_START.starts_with(&start)
    {
        return Ok(());
    }
    let help = "help: name another file, or remove this one";
    let error = anyhow!("{} exists, and has no metrics of Mirrorball\n  {help}", path.display());
    Err(Failure::WrongUse(error))
}

fn exists(path: &Path, existing: Existing) -> anyhow::Error {
    let path = path.display();
    let help = match existing {
        Existing::Keep(Some(options)) => {
            format!("give another file with {options}, or overwrite it with --force")
        }
        Existing::Keep(None) => {
            "move it, run the command in another folder, or overwrite it with --force".to_owned()
        }
        Existing::Stays | Existing::Replace => "give another name, or move it first".to_owned(),
    };
    anyhow!("{path} already exists\n  help: {help}")
}

/// Writes bytes to a file. Fails if the system does not let it, or the file exists and must be
/// kept.
pub(crate) fn write_bytes(path: &Path, bytes: &[u8], existing: Existing) -> io::Result<()> {
    let old = fs::metadata(path).ok().filter(|_| existing == Existing::Replace);
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        return OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let mut temporary = create(path, existing)?;
    temporary.file().write_all(bytes)?;
    give_name(temporary, path, existing)
}

/// Creates a temporary file, to be written and given the name of this file.
pub(crate) fn create(path: &Path, existing: Existing) -> io::Result<TemporaryFile> {
    TemporaryFile::create_next_to(&replaced(path, existing))
}

/// The file behind a symbolic link is replaced, not the link.
fn replaced(path: &Path, existing: Existing) -> PathBuf {
    let whole = fs::canonicalize(path).ok().filter(|_| existing == Existing::Replace);
    whole.unwrap_or_else(|| path.to_owned())
}

/// Gives a file that is complete its name. Fails if the name is taken and the file that has it must
/// be kept, or the disk fails.
pub(crate) fn give_name(
    mut temporary: TemporaryFile,
    path: &Path,
    existing: Existing,
) -> io::Result<()> {
    temporary.file().sync_all()?;
    match existing {
        Existing::Replace => temporary.rename(&replaced(path, existing)),
        Existing::Stays | Existing::Keep(_) => temporary.rename_to_new(path),
    }
}
