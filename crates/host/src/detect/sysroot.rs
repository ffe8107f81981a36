//! The files that the kernel and the tools of storage systems show: those of this machine, or a
//! recorded copy of them in a folder.
//!
//! Paths are those of the machine, such as `/sys/block/md0/md/level`. In a recorded copy they count
//! from its folder, symbolic links too, so a copy reads the same wherever it lies and no link leads
//! out of it. A copy made where links cannot be kept has files with their targets instead. Outputs
//! of tools are in its folder `tools`.
//!
//! A file that is missing, cannot be read or is empty is `None`: devices come and go while they are
//! read.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most bytes read of one file. The files of the kernel are far smaller.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Most symbolic links followed for one path, as in Linux.
const LINKS_MAX: usize = 40;

/// The root of the tree to read.
#[derive(Clone, Debug)]
pub struct Sysroot {
    root: PathBuf,
    is_live: bool,
    /// The files of a tree in memory, by their paths.
    memory: Option<Arc<BTreeMap<String, TreeEntry>>>,
}

/// A file or a link of a tree in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TreeEntry {
    Text(String),
    Link(String),
}

impl Sysroot {
    pub fn live() -> Sysroot {
        Sysroot { root: PathBuf::from("/"), is_live: true, memory: None }
    }

    /// A recorded copy of a machine's files.
    pub fn recorded(root: &Path) -> Sysroot {
        Sysroot { root: root.to_owned(), is_live: false, memory: None }
    }

    pub(super) fn in_memory(files: BTreeMap<String, TreeEntry>) -> Sysroot {
        Sysroot { root: PathBuf::new(), is_live: false, memory: Some(Arc::new(files)) }
    }

    /// Returns true for this machine, where tools and ioctls can be used.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live
    }

    /// True for what a text says of a machine.
    pub(super) fn is_pasted(&self) -> bool {
        self.memory.is_some()
    }

    /// The text of a file, without white space around it.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        let text = self.raw_text(path)?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    pub(crate) fn raw_text(&self, path: &str) -> Option<String> {
        let path = self.resolve(path)?;
        if let Some(files) = &self.memory {
            return match files.get(&path)? {
                TreeEntry::Text(text) => Some(text.clone()),
                TreeEntry::Link(_) => None,
            };
        }
        let mut bytes = Vec::new();
        self.open_resolved(&path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Opens a file, to be read again and again; `None` for one of a tree in memory.
    pub(crate) fn open(&self, path: &str) -> Option<File> {
        let path = self.resolve(path)?;
        if self.memory.is_some() { None } else { self.open_resolved(&path) }
    }

    fn open_resolved(&self, path: &str) -> Option<File> {
        let path = self.host_path(path);
        // A pipe in a recorded copy would be waited for.
        if !fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        File::open(path).ok()
    }

    /// The first number in a file: `3 (2)` is 3.
    pub(crate) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.split_whitespace().next()?.parse().ok()
    }

    /// The value of a file that has 0 or 1.
    pub(super) fn flag(&self, path: &str) -> Option<bool> {
        self.number(path).map(|number| number != 0)
    }

    /// The names in a folder: shorter ones first, so that `sdb` is before `sdaa` and `9` before
    /// `10`.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let Some(path) = self.resolve(path) else { return Vec::new() };
        let mut names: Vec<String> = match &self.memory {
            Some(files) => {
                let below = files.range(format!("{path}/")..).map(|(name, _)| name);
                let rests = below.map_while(|name| name.strip_prefix(&path)?.strip_prefix('/'));
                rests.filter_map(|rest| rest.split('/').next()).map(str::to_owned).collect()
            }
            None => {
                let Ok(entries) = fs::read_dir(self.host_path(&path)) else { return Vec::new() };
                entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
            }
        };
        names.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
        names.dedup();
        names
    }

    /// Returns true if there is a file or a folder of this path.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.resolve(path).is_some()
    }

    /// The path with every symbolic link followed; `None` if there is no such file.
    pub(crate) fn resolve(&self, path: &str) -> Option<String> {
        let mut links = 0;
        let mut left: VecDeque<String> = path.split('/').map(str::to_owned).collect();
        let mut resolved: Vec<String> = Vec::new();
        while let Some(name) = left.pop_front() {
            match name.as_str() {
                "" | "." => continue,
                ".." => {
                    resolved.pop();
                    continue;
                }
                _ => resolved.push(name),
            }
            let Some(target) = self.target(&format!("/{}", resolved.join("/")))? else { continue };
            links += 1;
            if links > LINKS_MAX {
                return None;
            }
            resolved.pop();
            if target.starts_with('/') {
                resolved.clear();
            }
            for name in target.split('/').rev() {
                left.push_front(name.to_owned());
            }
        }
        Some(format!("/{}", resolved.join("/")))
    }

    /// The target of a link; `None` within `Some` for what is no link.
    fn target(&self, path: &str) -> Option<Option<String>> {
        if let Some(files) = &self.memory {
            let is_below = || {
                let mut below = files.range(format!("{path}/")..);
                below.next().is_some_and(|(name, _)| name.starts_with(&format!("{path}/")))
            };
            return match files.get(path) {
                Some(TreeEntry::Link(target)) => Some(Some(target.clone())),
                Some(TreeEntry::Text(_)) => Some(None),
                None => is_below().then_some(None),
            };
        }
        let here = self.host_path(path);
        let metadata = here.symlink_metadata().ok()?;
        match metadata.is_symlink() {
            true => Some(Some(fs::read_link(&here).ok()?.to_str()?.to_owned())),
            false => Some(self.target_in_text(&here, &metadata)),
        }
    }

    /// The target of a link that a recorded copy has as a file: such a text is in no file of sysfs.
    fn target_in_text(&self, path: &Path, metadata: &fs::Metadata) -> Option<String> {
        /// Longest target of a link in Linux.
        const TARGET_BYTES_MAX: u64 = 4096;
        if self.is_live || !metadata.is_file() || metadata.len() > TARGET_BYTES_MAX {
            return None;
        }
        let text = fs::read_to_string(path).ok()?;
        let is_target = text == ".." || text.starts_with("../");
        (is_target && !text.contains(char::is_whitespace)).then_some(text)
    }

    /// The path of this process for a path of the tree.
    pub(crate) fn host_path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

/// The last name of a path.
pub(super) fn base_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn tree() -> (tempfile::TempDir, Sysroot) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("sys/devices/md0/md")).unwrap();
        fs::create_dir_all(folder.path().join("sys/block")).unwrap();
        fs::write(folder.path().join("sys/devices/md0/md/raid_disks"), "3 (2)\n").unwrap();
        fs::write(folder.path().join("sys/devices/md0/md/empty"), "").unwrap();
        let link = |target, name| symlink(target, folder.path().join(name)).unwrap();
        link("../devices/md0", "sys/block/md0");
        link("/sys/block/md0", "sys/absolute");
        link("loop", "sys/loop");
        link("../../../../../../../etc/passwd", "sys/out");
        fs::write(folder.path().join("sys/block/md1"), "../devices/md0").unwrap();
        let root = Sysroot::recorded(folder.path());
        (folder, root)
    }

    #[test]
    fn links_are_followed_within_the_tree_and_never_out_of_it() {
        let (_folder, root) = tree();
        assert_eq!(root.resolve("/sys/block/md0").as_deref(), Some("/sys/devices/md0"));
        assert_eq!(root.resolve("/sys/block/md1/md").as_deref(), Some("/sys/devices/md0/md"));
        assert_eq!(root.resolve("/sys/absolute/md").as_deref(), Some("/sys/devices/md0/md"));
        assert_eq!(root.resolve("/sys/loop"), None, "a link to itself ends");
        assert_eq!(root.text("/sys/out"), None);
        assert_eq!(root.text("/../../../../../../../etc/passwd"), None);
    }

    #[test]
    fn missing_and_empty_files_are_none_and_a_reshape_has_two_numbers() {
        let (_folder, root) = tree();
        assert_eq!(root.number("/sys/block/md0/md/raid_disks"), Some(3));
        assert_eq!(root.text("/sys/block/md0/md/empty"), None);
        assert_eq!(root.text("/sys/block/md0/md/gone"), None);
        assert_eq!(root.text("/sys/block/md0/md"), None, "a folder");
        assert_eq!(root.names("/sys/gone"), Vec::<String>::new());
    }
}
