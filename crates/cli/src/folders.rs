//! Folders that a command creates if they are missing, and the one of results.

use crate::screen;
use anyhow::{Result, anyhow, bail};
use rustix::fs::{Access, access};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The folder of results here.
const RESULTS: &str = "mirrorball-results";

/// The folder of results that no option names: here, or, if this folder cannot be written, in the
/// user's cache, or below that of temporary files. Says which of them it is unless it is here.
pub(crate) fn results() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let here = PathBuf::from(RESULTS);
        if can_write(&here) {
            return here;
        }
        let Some(found) = in_cache().filter(|it| can_write(it)).or_else(temporary) else {
            return here;
        };
        let shown = found.display();
        screen::say(format_args!("note: this folder cannot be written: results go to {shown}"));
        found
    })
}

/// True if a folder, or one that is missing, can be written.
fn can_write(folder: &Path) -> bool {
    let existing = folder.ancestors().find(|it| it.exists()).unwrap_or(Path::new("."));
    existing.is_dir() && access(existing, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

fn in_cache() -> Option<PathBuf> {
    let folder =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(cache.join(RESULTS))
}

/// A folder that only this user can write.
fn temporary() -> Option<PathBuf> {
    let user = rustix::process::geteuid();
    let folder = std::env::temp_dir().join(format!("{RESULTS}-{}", user.as_raw()));
    let _ = DirBuilder::new().mode(0o700).create(&folder);
    // Not a link that another user made, nor that user's folder.
    let found = fs::symlink_metadata(&folder).ok()?;
    (found.is_dir() && found.uid() == user.as_raw()).then_some(folder)
}

/// Creates a folder, and those above it, unless it is there. Fails if the path, or a part of it, is
/// a file, or the system refuses.
pub(crate) fn create(path: &Path) -> Result<()> {
    let shown = path.display();
    if let Some(file) = path.ancestors().find(|part| part.exists()).filter(|part| !part.is_dir()) {
        let file = file.display();
        bail!("cannot create the folder {shown}: {file} is a file\n  help: give another path");
    }
    fs::create_dir_all(path).map_err(|error| {
        anyhow!(
            "cannot create the folder {shown}: {error}\n  help: give a path that you may write to"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{can_write, create};

    #[test]
    fn a_missing_folder_is_judged_by_the_one_above() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(can_write(&folder.path().join("a/b")));
        assert!(!can_write(&file.join("a")));
    }

    #[test]
    fn a_file_in_place_of_a_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        for path in [file.clone(), file.join("below")] {
            let error = create(&path).unwrap_err().to_string();
            assert!(error.contains(&format!("{} is a file", file.display())), "{error}");
        }
        create(&folder.path().join("a/b")).unwrap();
        assert!(folder.path().join("a/b").is_dir());
    }
}
