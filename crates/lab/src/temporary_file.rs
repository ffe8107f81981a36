//! Temporary files: written in the folder of a file and then given its name, so that no reader sees
//! half of a file.
//!
//! The folder may be shared with other users. So the name is random, and the file is created only
//! if nothing has that name, not even a symbolic link: a link that another user left there is never
//! followed.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

const NAMES_MAX: usize = 16;

/// A new file in the folder of another. It is removed when dropped, unless it was renamed.
#[derive(Debug)]
pub struct TemporaryFile {
    file: File,
    path: PathBuf,
    is_renamed: bool,
}

impl TemporaryFile {
    /// Creates an empty file in the folder of `target`.
    pub fn create_next_to(target: &Path) -> io::Result<TemporaryFile> {
        let names = std::iter::repeat_with(|| RandomState::new().hash_one(std::process::id()));
        TemporaryFile::create_named(folder_of(target), names.take(NAMES_MAX))
    }

    /// Creates a file with the first of the numbers that is free.
    fn create_named(
        folder: &Path,
        numbers: impl Iterator<Item = u64>,
    ) -> io::Result<TemporaryFile> {
        for number in numbers {
            let path = folder.join(format!(".mirrorball-{number:016x}.part"));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(TemporaryFile { file, path, is_renamed: false }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other(format!("{NAMES_MAX} random names for a temporary file are taken")))
    }

    /// The file, to be written.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file the name `target`, in place of a file that has it.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn rename(mut self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.is_renamed {
            // A temporary file that cannot be removed does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}

pub fn folder_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    fn part(number: u64) -> String {
        format!(".mirrorball-{number:016x}.part")
    }

    #[test]
    fn a_link_or_file_of_the_same_name_is_not_written() {
        let folder = TempDir::new().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("victim"), "precious").unwrap();
        symlink(path("victim"), path(&part(1))).unwrap();
        symlink(path("dangling"), path(&part(2))).unwrap();
        fs::write(path(&part(3)), "of another process").unwrap();
        let mut temporary = TemporaryFile::create_named(folder.path(), 1..=4).unwrap();
        temporary.file().write_all(b"page").unwrap();
        temporary.rename(&path("page.html")).unwrap();
        assert_eq!(fs::read_to_string(path("page.html")).unwrap(), "page");
        assert_eq!(fs::read_to_string(path("victim")).unwrap(), "precious");
        assert_eq!(fs::read_to_string(path(&part(3))).unwrap(), "of another process");
        assert!(!path("dangling").exists() && path(&part(2)).is_symlink());
    }

    #[test]
    fn only_an_own_file_is_removed() {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join(part(1)), "of another process").unwrap();
        assert!(TemporaryFile::create_named(folder.path(), 1..=1).is_err());
        drop(TemporaryFile::create_named(folder.path(), 1..=2).unwrap());
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), [part(1).as_str()]);
    }

    #[test]
    fn names_are_random() {
        let folder = TempDir::new().unwrap();
        let target = folder.path().join("page.html");
        let [first, second] = [(); 2].map(|()| TemporaryFile::create_next_to(&target).unwrap());
        assert_ne!(first.path(), second.path());
    }
}
