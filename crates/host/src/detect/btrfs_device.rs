//! A device of a btrfs, as the kernel or `btrfs filesystem show` lists it.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BtrfsDevice {
    pub(crate) devid: u64,
    pub(super) total_bytes: u64,
    /// Bytes in chunks; none if that is not known.
    pub(super) used_bytes: Option<u64>,
    /// Empty for a missing device.
    pub(crate) path: String,
}

/// Reads the devices of a file system in the output of `btrfs filesystem show`.
pub(super) fn parse_show(text: &str, fsid: &str) -> Vec<BtrfsDevice> {
    let mut is_ours = false;
    let mut devices = Vec::new();
    for line in text.lines() {
        if let Some((_, uuid)) = line.split_once("uuid:") {
            is_ours = uuid.trim() == fsid;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["devid", devid, "size", size, "used", used, "path", path, ..] = words.as_slice()
            && is_ours
            && let Ok(devid) = devid.parse()
        {
            // Sizes are bytes if the tool was run with --raw.
            let total_bytes = size.parse().unwrap_or(0);
            let used_bytes = used.parse().ok();
            devices.push(BtrfsDevice { devid, total_bytes, used_bytes, path: (*path).to_owned() });
        }
    }
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn show_lists_the_devices_of_one_file_system() {
        let text = "Label: 'a'  uuid: 1-2\n\tTotal devices 2 FS bytes used 3\n\
            \tdevid    1 size 4096 used 0 path /dev/sda\n\
            \tdevid    2 size 1.00GiB used 0 path /dev/sdb\n\
            Label: none  uuid: 3-4\n\tdevid    1 size 1 used 0 path /dev/sdc\n";
        let devices = parse_show(text, "1-2");
        assert_eq!(devices.len(), 2);
        assert_eq!((devices[0].total_bytes, devices[1].total_bytes), (4096, 0));
        assert_eq!(devices[1].path, "/dev/sdb");
    }
}
