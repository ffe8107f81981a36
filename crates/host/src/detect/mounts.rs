//! Mounts: `/proc/self/mountinfo`, and which of them a path is on.

use super::sysroot::Sysroot;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MountEntry {
    /// `major:minor` of its device; of no use for btrfs and ZFS, which have none.
    pub(super) device: String,
    pub(super) point: String,
    /// Type of the file system.
    pub(super) kind: String,
    /// The device or the data set that was mounted.
    pub(super) source: String,
    pub(super) options: String,
}

/// All mounts, in the order of the kernel.
pub(super) fn mounts(sysroot: &Sysroot) -> Vec<MountEntry> {
    let text = sysroot.raw_text("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(parse_line).collect()
}

/// The mount that `path` is on: the longest mount point above it; of equals the last, which hides
/// the others.
pub(super) fn mount_of<'a>(mounts: &'a [MountEntry], path: &str) -> Option<&'a MountEntry> {
    let above = mounts.iter().filter(|mount| is_at_or_below(path, &mount.point));
    above.max_by_key(|mount| mount.point.len())
}

/// Returns true if `path` is `folder` or below it.
fn is_at_or_below(path: &str, folder: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Fields: id, parent, `major:minor`, root, mount point, options, optional ones, `-`, type, source,
/// options of the file system.
fn parse_line(line: &str) -> Option<MountEntry> {
    let (front, back) = line.split_once(" - ")?;
    let front: Vec<&str> = front.split(' ').collect();
    let mut back = back.split(' ');
    Some(MountEntry {
        device: (*front.get(2)?).to_owned(),
        point: unescape(front.get(4)?),
        kind: back.next()?.to_owned(),
        source: unescape(back.next()?),
        options: back.next().unwrap_or("").to_owned(),
    })
}

/// Replaces `\040` and the like, which stand for space, tab, newline and backslash.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if first == b'\\' => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTINFO: &str = "\
        27 1 253:0 / / rw,relatime - ext4 /dev/vda rw\n\
        43 27 0:39 / /srv/a\\040b rw,relatime shared:1 master:2 - btrfs /dev/sda rw,degraded\n\
        44 27 9:0 / /srv rw - xfs /dev/md0 rw\n\
        45 44 9:1 / /srv rw - xfs /dev/md1 rw\n\
        broken line\n\
        46 27 0:1\n";

    #[test]
    fn a_path_is_on_the_longest_mount_point_and_the_last_of_equals() {
        let mounts: Vec<MountEntry> = MOUNTINFO.lines().filter_map(parse_line).collect();
        assert_eq!(mounts.len(), 4);
        let source = |path| mount_of(&mounts, path).map(|mount| mount.source.as_str());
        assert_eq!(source("/srv/a b/c"), Some("/dev/sda"));
        assert_eq!(source("/srv/a bc"), Some("/dev/md1"));
        assert_eq!(source("/srv"), Some("/dev/md1"));
        assert_eq!(source("/srvx"), Some("/dev/vda"));
        assert_eq!(mounts[1].options, "rw,degraded");
        assert_eq!(mount_of(&[], "/"), None);
    }

    #[test]
    fn octal_escapes_are_characters_and_others_stay() {
        assert_eq!(unescape("a\\040b\\134\\012"), "a b\\\n");
        assert_eq!(unescape("\\04"), "\\04");
        assert_eq!(unescape("\\999é"), "\\999é");
    }
}
