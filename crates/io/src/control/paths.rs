//! Members whose files are no longer at their paths while they are used. What is written to a file
//! that was removed is lost when the service ends; one that was renamed has its data.

use super::protocol::{Misplaced, StateChange};
use crate::driver::FileId;
use crate::executor::Executor;
use crate::rebuild::Rebuild;
use crate::reopen::PathState;
use mirrorball_core::member::MemberState;
use mirrorball_core::units::Nanos;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Interval at which the paths are looked at.
const INTERVAL: Nanos = Nanos::from_secs(10);

/// What is known of the paths of members.
#[derive(Default)]
pub(super) struct PathWatch {
    looked_at: Option<Nanos>,
    misplaced: Vec<Misplaced>,
}

impl PathWatch {
    /// Looks at the paths if it is time to, and returns the events of members that were well at the
    /// last look.
    pub(super) fn changes(&mut self, executor: &Executor, rebuild: &Rebuild) -> Vec<StateChange> {
        if self.remaining(executor, rebuild) != Some(Nanos::ZERO) {
            return Vec::new();
        }
        self.looked_at = Some(executor.driver.now());
        let known = std::mem::replace(&mut self.misplaced, misplaced(executor, rebuild));
        let new = self.misplaced.iter().filter(|member| !known.contains(member));
        let change = |member: &Misplaced| StateChange::MemberMisplaced {
            devid: member.devid,
            at_path: member.at_path.clone(),
            path: member.path.clone(),
            renamed: member.renamed,
            path_now: member.path_now.clone(),
        };
        new.map(change).collect()
    }

    /// The time until the next look; `None` if no paths are known.
    pub(super) fn remaining(&self, executor: &Executor, rebuild: &Rebuild) -> Option<Nanos> {
        let due = self.looked_at.map_or(Nanos::ZERO, |at| at + INTERVAL);
        rebuild.knows_paths().then(|| due.saturating_sub(executor.driver.now()))
    }
}

/// Members that work although their file is no longer at their path.
pub(crate) fn misplaced(executor: &Executor, rebuild: &Rebuild) -> Vec<Misplaced> {
    let Some(volume) = executor.volume() else { return Vec::new() };
    let working = volume.members().iter().filter(|(_, it)| it.state != MemberState::Failed);
    let misplaced = working.filter_map(|(index, member)| {
        let (at_path, path) = match rebuild.path_state(index, executor) {
            PathState::Same => return None,
            PathState::Replaced(path) => ("another file", path),
            PathState::Missing(path) => ("nothing", path),
        };
        let found = executor.file_id(index).and_then(path_of_open);
        Some(Misplaced {
            renamed: found.is_some(),
            path_now: found.flatten(),
            devid: member.config.devid,
            at_path: at_path.to_owned(),
            path: path.display().to_string(),
            size_bytes: member.config.size_bytes,
        })
    });
    misplaced.collect()
}

/// The path of a file that this process has open, if it is known; `None` if the file was removed.
fn path_of_open(id: FileId) -> Option<Option<String>> {
    for entry in fs::read_dir("/proc/self/fd").ok()?.flatten() {
        let Ok(file) = fs::metadata(entry.path()) else { continue };
        if (file.dev(), file.ino()) != (id.device, id.inode) {
            continue;
        }
        let path = fs::read_link(entry.path()).ok();
        // NFS and FUSE rename a removed file that is open, and remove it when it is closed.
        let name = path.as_ref().and_then(|it| it.file_name()).unwrap_or_default();
        if [".nfs", ".fuse_hidden"].iter().any(|it| name.to_string_lossy().starts_with(it)) {
            return None;
        }
        // Of a file with several names the one that was opened may be gone.
        let path = path.filter(|it| fs::metadata(it).is_ok_and(|it| it.ino() == id.inode));
        return (file.nlink() > 0).then(|| path.map(|it| it.display().to_string()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_renamed_file_is_not_taken_for_a_removed_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let file = File::create(path("a")).unwrap();
        let stat = file.metadata().unwrap();
        let id = FileId { device: stat.dev(), inode: stat.ino() };
        let expected = |name| Some(Some(path(name).display().to_string()));
        assert_eq!(path_of_open(id), expected("a"));
        fs::rename(path("a"), path("b")).unwrap();
        assert_eq!(path_of_open(id), expected("b"));
        fs::hard_link(path("b"), path("c")).unwrap();
        fs::remove_file(path("b")).unwrap();
        assert_eq!(path_of_open(id), Some(None), "it has another name");
        fs::remove_file(path("c")).unwrap();
        assert_eq!(path_of_open(id), None);
    }
}
