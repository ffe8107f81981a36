//! The policy in an array file, which `ctl policy NAME --keep` changes.
//!
//! The file is replaced by a new one of the same owner and mode, so that no reader sees half of it.
//! A file that is no longer the one that the server read is left alone.

use crate::screen;
use mirrorball_disk::array_file::KeptPolicy;
use mirrorball_io::control::{Control, PolicyStore};
use mirrorball_io::executor::Executor;
use mirrorball_lab::temporary_file::{TemporaryFile, folder_of};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

/// An array file that was read.
#[derive(Debug)]
pub(crate) struct PolicyFile {
    /// Path, without symbolic links.
    path: PathBuf,
    /// Text as it was read, or written since.
    text: String,
    /// The policy that it had when it was read.
    policy: Option<KeptPolicy>,
}

impl PolicyFile {
    /// The file of this name, which had this text and this policy; `None` if there is none, as of a
    /// built-in array.
    pub(crate) fn new(name: &str, text: String, policy: Option<KeptPolicy>) -> Option<PolicyFile> {
        let path = fs::canonicalize(name).ok().filter(|path| path.is_file())?;
        Some(PolicyFile { path, text, policy })
    }

    /// Lets clients of the control socket keep the policy in this file.
    pub(super) fn add_to(self, control: Control, executor: &mut Executor) -> io::Result<Control> {
        let policy = self.policy.clone();
        control.with_policy_store(Box::new(self), policy, executor)
    }

    fn put(&mut self, policy: &KeptPolicy) -> Result<(), String> {
        let path = self.path.display().to_string();
        let unwritten = |error: io::Error| {
            format!("cannot write the array file `{path}`: {error}\n  help: leave out --keep")
        };
        let current = fs::read_to_string(&self.path).map_err(unwritten)?;
        if current != self.text {
            return Err(format!(
                "the array file `{path}` was changed after the server read it\n  help: restart the \
                 server, or leave out --keep"
            ));
        }
        let text = policy.put_into(&self.text).map_err(|error| error.to_string())?;
        replace(&self.path, &text).map_err(unwritten)?;
        self.text = text;
        Ok(())
    }
}

impl PolicyStore for PolicyFile {
    fn keep(&mut self, policy: &KeptPolicy) -> Result<(), String> {
        self.put(policy)
    }

    fn record_fault(&mut self, policy: &KeptPolicy) {
        if let Err(error) = self.put(policy) {
            screen::say(format_args!("note: the fault of the policy is not recorded: {error}"));
        }
    }
}

/// Replaces a file that may be written by one with this text, which survives a crash.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    // A file that is not to be written is not to be replaced.
    let old = OpenOptions::new().write(true).open(path)?.metadata()?;
    let mut new = TemporaryFile::create_next_to(path)?;
    let file = new.file();
    let made = file.metadata()?;
    if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
        fchown(&*file, Some(old.uid()), Some(old.gid()))?;
    }
    file.set_permissions(old.permissions())?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    new.rename(path)?;
    File::open(folder_of(path))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_disk::array_file::ArrayFile;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use tempfile::TempDir;

    const TEXT: &str = "# ours\nprofile = \"single\"\n[[member]]\npath = \"/a\"\n";

    fn builtin(name: &str) -> KeptPolicy {
        KeptPolicy { policy: name.to_owned(), program: None }
    }

    #[test]
    fn the_file_behind_a_link_is_replaced_by_one_of_the_same_mode() {
        let folder = TempDir::new().unwrap();
        let (file, link) = (folder.path().join("pair.toml"), folder.path().join("link.toml"));
        fs::write(&file, TEXT).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o604)).unwrap();
        symlink("pair.toml", &link).unwrap();
        let mut kept = PolicyFile::new(link.to_str().unwrap(), TEXT.to_owned(), None).unwrap();
        // The second change is to the text that the first one wrote.
        for name in ["md/raid1", "btrfs/pid"] {
            kept.put(&builtin(name)).unwrap();
            let text = fs::read_to_string(&file).unwrap();
            assert_eq!(text, format!("{TEXT}\n[policy]\nname = \"{name}\"\n"));
            let spec = ArrayFile::parse(&text, "pair.toml").unwrap().spec;
            assert_eq!(spec.policy, Some(builtin(name)));
        }
        assert!(link.is_symlink());
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o604);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file is left");
    }

    #[test]
    fn a_file_that_was_changed_or_removed_is_left_alone() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("pair.toml");
        let changed = format!("{TEXT}# theirs\n");
        fs::write(&file, &changed).unwrap();
        let mut kept = PolicyFile::new(file.to_str().unwrap(), TEXT.to_owned(), None).unwrap();
        let error = kept.put(&builtin("md/raid1")).unwrap_err();
        assert!(error.contains("pair.toml` was changed after the server read it\n  help: restart"));
        assert_eq!(fs::read_to_string(&file).unwrap(), changed);
        fs::remove_file(&file).unwrap();
        let error = kept.put(&builtin("md/raid1")).unwrap_err();
        assert!(error.starts_with("cannot write the array file `/"), "{error}");
        assert!(!file.exists());
        assert!(PolicyFile::new("two-hdd-raid1", TEXT.to_owned(), None).is_none());
    }
}
