//! The writes behind the commands of a setting.
//!
//! The files of `systems/` say how a setting is put into force as commands for a shell. Those that
//! write to files of the kernel are all of one form: `cd FOLDER`, `echo TEXT > FILE`, and several
//! of these joined by `&&`. They are done without a shell. Other commands (`lvchange`, edits of
//! files in `/etc`) are not: what they change cannot be restored by writing a file.

/// A text and the file that it is written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileWrite {
    pub(super) path: String,
    pub(super) text: String,
}

/// The writes of a command; `None` if it does something else.
pub(super) fn writes(command: &str) -> Option<Vec<FileWrite>> {
    let mut folder = "";
    let mut writes = Vec::new();
    for part in command.split("&&").map(str::trim) {
        if let Some(path) = part.strip_prefix("cd ") {
            folder = path.trim();
            continue;
        }
        let (text, file) = part.strip_prefix("echo ")?.split_once('>')?;
        let (text, file) = (unquoted(text.trim())?, file.trim());
        if file.is_empty() || file.contains([' ', '>', '|', ';', '$', '`', '*']) {
            return None;
        }
        let path = if file.starts_with('/') { file.to_owned() } else { format!("{folder}/{file}") };
        if !path.starts_with("/sys/") || path.split('/').any(|name| name == "..") {
            return None;
        }
        writes.push(FileWrite { path, text: text.to_owned() });
    }
    Some(writes)
}

/// A word without the quotes around it; `None` if a shell would do more with it.
fn unquoted(text: &str) -> Option<&str> {
    let quoted = ['\'', '"'].into_iter();
    let mut inner = quoted.filter_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote));
    let inner = inner.next().unwrap_or(text);
    (!inner.is_empty() && !inner.contains(['\'', '"', '$', '`', '\\'])).then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::{FileWrite, writes};
    use mirrorball_lab::experiment::systems;

    fn write(path: &str, text: &str) -> FileWrite {
        FileWrite { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn echoes_into_files_of_the_kernel_are_read() {
        let command = "echo 'round-robin:4096' > /sys/fs/btrfs/F/read_policy";
        let expected = vec![write("/sys/fs/btrfs/F/read_policy", "round-robin:4096")];
        assert_eq!(writes(command), Some(expected));
        let command = "cd /sys/module/zfs/parameters && echo 5 > a && echo 1 > /sys/b";
        let expected = vec![write("/sys/module/zfs/parameters/a", "5"), write("/sys/b", "1")];
        assert_eq!(writes(command), Some(expected));
        let command = "echo -writemostly > /sys/block/md0/md/dev-sda/state";
        let expected = vec![write("/sys/block/md0/md/dev-sda/state", "-writemostly")];
        assert_eq!(writes(command), Some(expected));
    }

    #[test]
    fn what_is_more_than_a_write_is_not_done() {
        for command in [
            "lvchange --yes --writemostly /dev/sdb:y vg/lv",
            "echo a > /etc/multipath.conf",
            "echo a > /sys/../etc/passwd",
            "echo $(reboot) > /sys/a",
            "echo a > /sys/a; reboot",
            "echo a > b",
            "echo a",
            "",
        ] {
            assert_eq!(writes(command), None, "{command}");
        }
    }

    /// The systems of which some settings are files, and no others.
    #[test]
    fn settings_of_these_systems_are_files() {
        let sets_files = |system: &&systems::System| {
            let mut commands = system.offers.iter().filter_map(|offer| offer.set.as_deref());
            commands.any(|it| writes(it).is_some())
        };
        let names = systems::all().iter().filter(sets_files).map(|system| system.name);
        assert_eq!(names.collect::<Vec<&str>>(), ["btrfs", "md", "zfs", "nvme"]);
    }
}
