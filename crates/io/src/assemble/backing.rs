//! Backing files of emulated members.
//!
//! Writes of clients destroy what a backing file held before. So a file that this program creates
//! is marked with the extended attribute [`MARK`], and an existing file is used only if it has the
//! size of the disk and either the mark or no data. [`Occupied::Allow`] permits every file; one
//! that is smaller than the disk is then extended, and none is truncated or marked.
//!
//! The value of the mark names the file that it was set on. `cp -a` copies the attribute, but the
//! copy is another file, which its owner may have written to, so the mark does not count there.
//!
//! Non-goals: to check which disk a marked file belongs to.

use super::AssembleError;
use crate::member::file::{
    Caching, MemberAccess, Occupied, OpenError, OpenOptions, RealMember, kind_name,
};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, SeekFrom, StatxFlags, XattrFlags, fgetxattr, fsetxattr, fstat,
    ftruncate, open, seek, statx,
};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Extended attribute of files that this program created or found without data.
const MARK: &str = "user.mirrorball.backing";

/// Why a file cannot be the backing of a disk.
#[derive(Debug, thiserror::Error)]
pub enum BackingError {
    #[error("cannot use `{}` as backing file: {error}{}", path.display(), hint(*error))]
    System { path: PathBuf, error: Errno },
    /// It has another size than the disk.
    #[error(
        "cannot use `{}` as backing file: it has {size_bytes} bytes, but the disk has \
         {disk_bytes}\n  help: give another path, or --occupied to use this file anyway",
        path.display()
    )]
    WrongSize { path: PathBuf, size_bytes: u64, disk_bytes: u64 },
    /// It is a symbolic link to a file that does not exist.
    #[error(
        "cannot use `{}` as backing file: it is a symbolic link to a file that does not \
         exist\n  help: remove the link, or give the path of the file", path.display()
    )]
    DanglingLink { path: PathBuf },
    /// It holds data of another program.
    #[error(
        "cannot use `{}` as backing file: it holds data that `emulate` did not write, and clients \
         could overwrite them\n  help: give another path, or --occupied to use this file anyway",
        path.display()
    )]
    HoldsData { path: PathBuf },
}

fn hint(error: Errno) -> &'static str {
    match error {
        Errno::NOENT => "\n  help: its folder does not exist; create it first",
        Errno::NOTDIR => "\n  help: a part of its path is a file; give another path",
        Errno::ACCESS | Errno::PERM | Errno::ROFS => "\n  help: give a path that you may write to",
        Errno::NOSPC | Errno::FBIG => "\n  help: give a path on a larger filesystem",
        _ => "",
    }
}

/// Opens the backing file of a disk of `disk_bytes`, and creates it if it is missing.
pub(super) fn open_backing(
    path: &Path,
    disk_bytes: u64,
    existing: Occupied,
    notes: &mut Vec<String>,
) -> Result<RealMember, AssembleError> {
    let system = |error| BackingError::System { path: path.to_owned(), error };
    let is_new = !path.exists();
    if is_new {
        create(path, disk_bytes)?;
    } else if !path.is_file() {
        let kind = rustix::fs::stat(path).map_err(system)?;
        let what = kind_name(FileType::from_raw_mode(kind.st_mode));
        let error = OpenError::WrongKind { path: path.to_owned(), what };
        let help =
            "\n  help: give the path of a file, which is created if it is missing".to_owned();
        return Err(AssembleError::Open { error, help });
    }
    let options = OpenOptions {
        access: MemberAccess::ReadWrite,
        caching: Caching::Buffered,
        occupied: Occupied::Refuse,
        report_wait: |_| {},
    };
    let opened = RealMember::open(path, options);
    let mut member = opened.map_err(|error| AssembleError::Open { error, help: String::new() })?;
    // The file is locked from here on, so no other server fills or extends it after these checks.
    let fd = member.file.try_clone_fd()?;
    let size_bytes = fstat(&fd).map_err(system)?.st_size as u64;
    let path = path.to_owned();
    match existing {
        _ if is_new => mark(&fd, &path, notes),
        Occupied::Allow if size_bytes < disk_bytes => {
            ftruncate(&fd, disk_bytes).map_err(system)?;
            member.size_bytes = disk_bytes;
            let path = path.display();
            notes.push(format!("extended `{path}` from {size_bytes} to {disk_bytes} bytes"));
        }
        Occupied::Allow => {}
        Occupied::Refuse if size_bytes != disk_bytes => {
            return Err(BackingError::WrongSize { path, size_bytes, disk_bytes }.into());
        }
        Occupied::Refuse if is_marked(&fd) => {}
        Occupied::Refuse if has_data(&fd) => {
            return Err(BackingError::HoldsData { path }.into());
        }
        Occupied::Refuse => mark(&fd, &path, notes),
    }
    Ok(member)
}

/// Creates a file of `disk_bytes` without data.
fn create(path: &Path, disk_bytes: u64) -> Result<(), BackingError> {
    let system = |error| BackingError::System { path: path.to_owned(), error };
    if path.is_symlink() {
        return Err(BackingError::DanglingLink { path: path.to_owned() });
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::RUSR | Mode::WUSR).map_err(system)?;
    ftruncate(&file, disk_bytes).map_err(|error| {
        let _ = std::fs::remove_file(path);
        system(error)
    })
}

fn mark(file: &OwnedFd, path: &Path, notes: &mut Vec<String>) {
    let marked =
        identity(file).and_then(|name| fsetxattr(file, MARK, name.as_bytes(), XattrFlags::empty()));
    if let Err(error) = marked {
        let path = path.display();
        notes.push(format!(
            "cannot mark `{path}` as a backing file: {error}; to use it again, give --occupied"
        ));
    }
}

fn is_marked(file: &OwnedFd) -> bool {
    let mut value = [0u8; 128];
    let Ok(length) = fgetxattr(file, MARK, &mut value) else { return false };
    identity(file).is_ok_and(|name| name.as_bytes() == &value[..length])
}

/// A name of the file that no copy of it has: its inode and when that was created. Where the
/// filesystem does not record that time, the number of the device is used instead, which may
/// change when the machine is restarted.
fn identity(file: &OwnedFd) -> Result<String, Errno> {
    let wanted = StatxFlags::INO | StatxFlags::BTIME;
    let found = statx(file, c"", AtFlags::EMPTY_PATH, wanted)?;
    let inode = found.stx_ino;
    if found.stx_mask & StatxFlags::BTIME.bits() != 0 {
        let born = found.stx_btime;
        return Ok(format!("inode {inode} born {}.{:09}", born.tv_sec, born.tv_nsec));
    }
    Ok(format!("inode {inode} device {}:{}", found.stx_dev_major, found.stx_dev_minor))
}

/// Returns false only if the filesystem says that the file is one hole.
fn has_data(file: &OwnedFd) -> bool {
    !matches!(seek(file, SeekFrom::Data(0)), Err(Errno::NXIO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::file::tests::OPTIONS;
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
    fn mark_of_a_copied_file_does_not_count() {
        let folder = folder();
        let path = folder.path().join("disk.img");
        let copy = folder.path().join("copy.img");
        let write = |path: &Path, bytes: &[u8]| {
            File::options().write(true).open(path).unwrap().write_all_at(bytes, 0).unwrap();
        };
        drop(open_refusing(&path).unwrap());
        write(&path, b"emulated");
        // As `cp --preserve=xattr` does.
        std::fs::copy(&path, &copy).unwrap();
        let mut value = [0u8; 128];
        let length = fgetxattr(File::open(&path).unwrap(), MARK, &mut value).unwrap();
        let copied = File::open(&copy).unwrap();
        fsetxattr(copied, MARK, &value[..length], XattrFlags::empty()).unwrap();
        write(&copy, b"precious");
        assert!(open_refusing(&copy).unwrap_err().contains("holds data that `emulate` did not"));
        assert_eq!(std::fs::read(&copy).unwrap()[..8], *b"precious");
        drop(open_refusing(&path).unwrap());
    }

    #[test]
    fn file_in_use_is_not_marked() {
        let folder = folder();
        let path = folder.path().join("disk.img");
        let file = image(&path, DISK_BYTES);
        let options = OpenOptions { caching: Caching::Buffered, ..OPTIONS };
        let other = RealMember::open(&path, options).unwrap();
        assert!(open_refusing(&path).unwrap_err().contains("in use by a server"));
        // The other server writes its data; after it the file is no backing file.
        file.write_all_at(&[1; 512], 0).unwrap();
        drop(other);
        assert!(open_refusing(&path).unwrap_err().contains("holds data that `emulate` did not"));
    }

    #[test]
    fn dangling_link_is_named() {
        let folder = folder();
        let link = folder.path().join("link.img");
        std::os::unix::fs::symlink(folder.path().join("missing.img"), &link).unwrap();
        let error = open_refusing(&link).unwrap_err();
        assert!(error.contains("a symbolic link to a file that does not exist"), "{error}");
        assert!(!link.exists(), "the file behind the link is not created");
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
