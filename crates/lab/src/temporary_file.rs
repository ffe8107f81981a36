//! Temporary files: written in the folder of a file and then given its name, so that no reader sees
//! half of a file.
//!
//! The folder may be shared with other users. So the file is created only if nothing has its name,
//! not even a symbolic link: a link that another user left there is never followed.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

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
        let number = RandomState::new().hash_one(std::process::id());
        let path = folder_of(target).join(format!(".mirrorball-{number:016x}.part"));
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        Ok(TemporaryFile { file, path, is_renamed: false })
    }

    /// The file, to be written.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives the file the name `target`, in place of a file that has it. Fails if it cannot be
    /// renamed.
    pub fn rename(mut self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.is_renamed = true;
        Ok(())
    }

    /// Gives the file the name `target`, unless something has it, also something that appears at
    /// this moment, where the file system has hard links.
    pub fn rename_to_new(self, target: &Path) -> io::Result<()> {
        match fs::hard_link(&self.path, target) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => match target.exists() {
                false => self.rename(target),
                true => Err(ErrorKind::AlreadyExists.into()),
            },
            // The temporary name goes with the value.
            linked => linked,
        }
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
    use tempfile::TempDir;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let folder = TempDir::new().unwrap();
        let target = folder.path().join("page.html");
        drop(TemporaryFile::create_next_to(&target).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "it is removed");
        let [mut first, second] = [(); 2].map(|()| TemporaryFile::create_next_to(&target).unwrap());
        assert_ne!(first.path, second.path);
        first.file().write_all(b"page").unwrap();
        assert!(!target.exists());
        first.rename(&target).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "page");
        assert_eq!(second.rename_to_new(&target).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&target).unwrap(), "page");
        let third = TemporaryFile::create_next_to(&target).unwrap();
        third.rename_to_new(&folder.path().join("other.html")).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary name is left");
    }
}
