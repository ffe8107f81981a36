//! The writes behind the commands of a setting.
//!
//! The files of `systems/` say how a setting is put into force as commands for a shell. Those that
//! write to files of the kernel are all of one form: `cd FOLDER`, `echo TEXT > FILE`, and several
//! of these joined by `&&`. Others run `lvchange` or `zpool`, or write a file for `multipathd`. All
//! are done without a shell.

use super::knob_path::{KnobPath, MULTIPATH_FILE};
use super::tool_knob::multipath_text;

/// A text and the place that it is written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileWrite {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The writes of a command; `None` if it does something else.
pub(crate) fn writes(command: &str) -> Option<Vec<FileWrite>> {
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

/// The change that a command of a tool makes; `None` if it is another command. The commands around
/// the file of multipath change nothing by themselves.
pub(crate) fn tool_write(command: &str) -> Option<Vec<FileWrite>> {
    const SELECTOR: &str = "printf 'overrides {\\n\\tpath_selector \"";
    let one = |path: String, text: &str| {
        KnobPath::of(&path)?;
        Some(vec![FileWrite { path, text: text.to_owned() }])
    };
    if let Some(rest) = command.strip_prefix(SELECTOR) {
        let (selector, rest) = rest.split_once(" 0\"\\n}\\n' ")?;
        let is_word = selector.chars().all(|it| it.is_ascii_lowercase() || it == '-');
        let is_file = rest.trim_start_matches(['>', ' ']) == MULTIPATH_FILE;
        return (is_word && is_file)
            .then(|| one(MULTIPATH_FILE.to_owned(), &multipath_text(selector)))?;
    }
    match command.split(' ').collect::<Vec<&str>>()[..] {
        ["lvchange", "--yes", "--writemostly", flag, volume] => {
            let (device, value) = flag.rsplit_once(':')?;
            one(KnobPath::lvm(volume, device), value)
        }
        ["zpool", "set", property, pool, device] => {
            one(KnobPath::zpool(pool, device), property.strip_prefix("scheduler=")?)
        }
        ["mkdir", "-p", "/etc/multipath/conf.d"] | ["multipathd", "reconfigure"] => {
            Some(Vec::new())
        }
        _ => None,
    }
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
    use super::{FileWrite, tool_write, writes};
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

    /// A command of every setting of every system that can be set on a running array is known, but
    /// for those of systems that `detect` does not find, and of patches.
    #[test]
    fn commands_of_tools_are_changes() {
        let selector = "printf 'overrides {\\n\\tpath_selector \"queue-length 0\"\\n}\\n'     > \
                        /etc/multipath/conf.d/mirrorball.conf";
        let changed = |command: &str| tool_write(command).map(|all| all[0].path.clone());
        assert_eq!(changed(selector).as_deref(), Some("/etc/multipath/conf.d/mirrorball.conf"));
        let flag = "lvchange --yes --writemostly /dev/sda:y vg0/data";
        assert_eq!(changed(flag).as_deref(), Some("lvm:vg0/data:/dev/sda"));
        assert_eq!(tool_write("multipathd reconfigure"), Some(Vec::new()));
        for command in [
            "lvchange --yes --writemostly DEVICE-1:y vg0/data",
            "lvchange --yes --writemostly /dev/sda;reboot:y vg0/data",
            "zpool set scheduler=on -f /dev/sda",
            "zpool destroy tank",
            &selector.replace("queue-length", "x\\n}"),
            &selector.replace("/etc/multipath/conf.d/mirrorball.conf", "/etc/passwd"),
        ] {
            assert_eq!(tool_write(command), None, "{command}");
        }
        for name in ["btrfs", "md", "lvm", "dm", "zfs", "nvme"] {
            let system = systems::find(name).unwrap();
            let named = |text: &str| {
                let text = text.replace("{device}", "/dev/sda").replace("{member}", "sda");
                text.replace("{array}", "vg0/data").replace("{", "").replace("}", "")
            };
            let offers = system.offers.iter().filter(|offer| offer.patch.is_none());
            for set in offers.filter_map(|offer| offer.set.as_deref()) {
                for line in set.lines().filter(|_| name != "dm").map(named) {
                    let line = line.replace("vg0/data /dev", "tank /dev");
                    let is_known = writes(&line).or_else(|| tool_write(&line)).is_some();
                    assert!(is_known, "{name}: {line}");
                }
            }
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
