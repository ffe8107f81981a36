//! Backing files of emulated members.
//!
//! Writes of clients destroy what a backing file held before. So a file that this program creates
//! is marked with the extended attribute [`MARK`], and an existing file is used only if it has the
//! size of the disk and either the mark or no data. [`Occupied::Allow`] permits every file; one
//! that is smaller than the disk is then extended, and none is truncated or marked.
//!
//! Non-goals: to check which disk a marked file belongs to.

use super::AssembleError;
use crate::member::file::{Caching, Occupied, OpenError, OpenOptions, RealMember};
use rustix::fs::{
    Mode, OFlags, SeekFrom, XattrFlags, fgetxattr, fsetxattr, fstat, ftruncate, open, seek,
};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Extended attribute of files that this program created or found without data.
const MARK: &str = "user.mirrorball.backing";

/// Why a file cannot be the backing of a disk.
#[derive(Debug, thiserror::Error)]
pub enum BackingError {
    /// The system refused.
    #[error("cannot use `{}` as backing file: {error}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// What the system reported.
        error: Errno,
    },
    /// It has another size than the disk.
    #[error(
        "cannot use `{}` as backing file: it has {size_bytes} bytes, but the disk has \
         {disk_bytes}; give another path, or --occupied to use this file anyway", path.display()
    )]
    WrongSize {
        /// The file.
        path: PathBuf,
        /// Its size.
        size_bytes: u64,
        /// The size of the disk.
        disk_bytes: u64,
    },
    /// It holds data of another program.
    #[error(
        "cannot use `{}` as backing file: it holds data that `emulate` did not write, and clients \
         could overwrite them; give another path, or --occupied to use this file anyway",
        path.display()
    )]
    HoldsData {
        /// The file.
        path: PathBuf,
    },
}

/// Opens the backing file of a disk of `disk_bytes`, and creates it if it is missing.
pub(super) fn open_backing(
    path: &Path,
    disk_bytes: u64,
    existing: Occupied,
    notes: &mut Vec<String>,
) -> Result<RealMember, AssembleError> {
    let system = |error| BackingError::System { path: path.to_owned(), error };
    if !path.exists() {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = open(path, flags, Mode::RUSR | Mode::WUSR).map_err(system)?;
        if let Err(error) = ftruncate(&file, disk_bytes) {
            let _ = std::fs::remove_file(path);
            return Err(system(error).into());
        }
        mark(&file, path, notes);
    } else if !path.is_file() {
        return Err(OpenError::WrongKind(path.to_owned()).into());
    } else {
        let file = open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(system)?;
        let size_bytes = fstat(&file).map_err(system)?.st_size as u64;
        let path = path.to_owned();
        match existing {
            Occupied::Allow if size_bytes < disk_bytes => {
                ftruncate(&file, disk_bytes).map_err(system)?;
                let path = path.display();
                notes.push(format!("extended `{path}` from {size_bytes} to {disk_bytes} bytes"));
            }
            Occupied::Allow => {}
            Occupied::Refuse if size_bytes != disk_bytes => {
                return Err(BackingError::WrongSize { path, size_bytes, disk_bytes }.into());
            }
            Occupied::Refuse if is_marked(&file) => {}
            Occupied::Refuse if has_data(&file) => {
                return Err(BackingError::HoldsData { path }.into());
            }
            Occupied::Refuse => mark(&file, &path, notes),
        }
    }
    let options = OpenOptions { caching: Caching::Buffered, occupied: Occupied::Refuse };
    Ok(RealMember::open(path, options)?)
}

fn mark(file: &OwnedFd, path: &Path, notes: &mut Vec<String>) {
    if let Err(error) = fsetxattr(file, MARK, b"1", XattrFlags::empty()) {
        let path = path.display();
        notes.push(format!(
            "cannot mark `{path}` as a backing file: {error}; to use it again, give --occupied"
        ));
    }
}

fn is_marked(file: &OwnedFd) -> bool {
    fgetxattr(file, MARK, &mut [0u8; 16]).is_ok()
}

/// Returns false only if the filesystem says that the file is one hole.
fn has_data(file: &OwnedFd) -> bool {
    !matches!(seek(file, SeekFrom::Data(0)), Err(Errno::NXIO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use tempfile::TempDir;

    const DISK_BYTES: u64 = 8 << 20;

    /// A folder on a filesystem with holes and extended attributes, which memory may lack.
    fn folder() -> TempDir {
        TempDir::new_in(env!("CARGO_MANIFEST_DIR")).unwrap()
    }

    fn image(path: &Path, size_bytes: u64) -> File {
        let file = File::create_new(path).unwrap();
        file.set_len(size_bytes).unwrap();
        file
    }

    fn open_refusing(path: &Path) -> Result<RealMember, String> {
        let opened = open_backing(path, DISK_BYTES, Occupied::Refuse, &mut Vec::new());
        opened.map_err(|error| error.to_string())
    }

    #[test]
    fn its_own_file_is_used_again() {
        let folder = folder();
        let path = folder.path().join("disk.img");
        drop(open_refusing(&path).unwrap());
        File::options().write(true).open(&path).unwrap().write_all_at(&[1; 512], 0).unwrap();
        drop(open_refusing(&path).unwrap());
        assert_eq!(path.metadata().unwrap().len(), DISK_BYTES);
    }

    #[test]
    fn a_file_without_data_is_used_and_then_its_own() {
        let folder = folder();
        let path = folder.path().join("disk.img");
        let file = image(&path, DISK_BYTES);
        drop(open_refusing(&path).unwrap());
        file.write_all_at(&[1; 512], 0).unwrap();
        drop(open_refusing(&path).unwrap());
    }

    #[test]
    fn files_of_others_are_refused_and_not_changed() {
        let folder = folder();
        let path = folder.path().join("data.img");
        image(&path, DISK_BYTES).write_all_at(b"precious", 4 << 20).unwrap();
        let before = std::fs::read(&path).unwrap();
        assert!(open_refusing(&path).unwrap_err().contains("holds data that `emulate` did not"));
        assert!(std::fs::read(&path).unwrap() == before);
        for size_bytes in [0, 1 << 20, DISK_BYTES + 512] {
            let path = folder.path().join(format!("{size_bytes}.img"));
            image(&path, size_bytes);
            let error = open_refusing(&path).unwrap_err();
            assert!(error.contains(&format!("it has {size_bytes} bytes")), "{error}");
            assert!(error.contains("--occupied"), "{error}");
            assert_eq!(path.metadata().unwrap().len(), size_bytes);
        }
    }

    #[test]
    fn occupied_permits_every_file_and_keeps_its_data() {
        let folder = folder();
        for size_bytes in [4096, DISK_BYTES, DISK_BYTES + 4096] {
            let path = folder.path().join(format!("{size_bytes}.img"));
            image(&path, size_bytes).write_all_at(b"precious", 0).unwrap();
            let mut notes = Vec::new();
            let member = open_backing(&path, DISK_BYTES, Occupied::Allow, &mut notes).unwrap();
            assert_eq!(notes.len(), usize::from(size_bytes < DISK_BYTES), "{notes:?}");
            assert_eq!(member.size_bytes, size_bytes.max(DISK_BYTES));
            assert_eq!(std::fs::read(&path).unwrap()[..8], *b"precious");
            drop(member);
            assert!(open_refusing(&path).is_err(), "it is not marked");
        }
    }
}
