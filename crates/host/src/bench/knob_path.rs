//! Places of settings, and the grammar of their names.
//!
//! A journal is written to by root and read by root, and a name of a device can be anything that
//! its maker chose. So a place that is none of these is refused, and nothing of it reaches a shell:
//! commands are run with their words as they are.

/// First word of the place of a write-mostly flag of LVM, and of a property of a vdev.
const LVM: &str = "lvm:";
const ZPOOL: &str = "zpool:";
/// The file that `tune` writes for dm-multipath.
pub(crate) const MULTIPATH_FILE: &str = "/etc/multipath/conf.d/mirrorball.conf";
/// The file that `tune` writes for the module of ZFS.
pub(crate) const MODPROBE_FILE: &str = "/etc/modprobe.d/mirrorball-zfs.conf";

/// A place that holds a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnobPath<'a> {
    Kernel,
    /// The flag of a device of a volume of LVM, which `lvchange` sets.
    LvmFlag {
        /// Volume group and logical volume.
        volume: &'a str,
        /// Path of the physical volume.
        device: &'a str,
    },
    /// The property `scheduler` of a device of a pool, which `zpool` sets.
    ZpoolScheduler {
        pool: &'a str,
        device: &'a str,
    },
    /// A file that `tune` writes whole, and removes.
    OwnFile,
}

impl<'a> KnobPath<'a> {
    /// The place of this name; `None` if it is none of those that hold a setting.
    pub(crate) fn of(path: &'a str) -> Option<KnobPath<'a>> {
        if let Some(rest) = path.strip_prefix(LVM) {
            let (volume, device) = rest.split_once(':')?;
            let (group, name) = volume.split_once('/')?;
            let is_valid = is_word(group) && is_word(name) && is_device(device);
            return is_valid.then_some(KnobPath::LvmFlag { volume, device });
        }
        if let Some(rest) = path.strip_prefix(ZPOOL) {
            let (pool, device) = rest.split_once(':')?;
            let is_valid = is_word(pool) && is_device(device);
            return is_valid.then_some(KnobPath::ZpoolScheduler { pool, device });
        }
        match () {
            () if is_of_kernel(path) => Some(KnobPath::Kernel),
            () if is_own_file(path) => Some(KnobPath::OwnFile),
            () => None,
        }
    }

    /// The place of the flag of a device of a volume of LVM.
    pub(crate) fn lvm(volume: &str, device: &str) -> String {
        format!("{LVM}{volume}:{device}")
    }

    /// The place of the property of a device of a pool.
    pub(crate) fn zpool(pool: &str, device: &str) -> String {
        format!("{ZPOOL}{pool}:{device}")
    }

    /// The same place of the device at another path.
    pub(crate) fn at_device(self, device: &str) -> Option<String> {
        match self {
            KnobPath::LvmFlag { volume, .. } => Some(KnobPath::lvm(volume, device)),
            KnobPath::ZpoolScheduler { pool, .. } => Some(KnobPath::zpool(pool, device)),
            KnobPath::Kernel | KnobPath::OwnFile => None,
        }
    }
}

/// True for a name that is one word to every tool, and no option or folder above.
pub(crate) fn is_word(name: &str) -> bool {
    let is_safe = |it: char| it.is_ascii_alphanumeric() || "-_.+@%=,!".contains(it);
    !name.is_empty() && !name.starts_with(['-', '.']) && name.chars().all(is_safe)
}

/// True for the path of a device below `/dev`.
fn is_device(path: &str) -> bool {
    let is_name = |name: &str| name.split(':').all(is_word);
    path.strip_prefix("/dev/").is_some_and(|rest| rest.split('/').all(is_name))
}

/// True for the files of the kernel that settings are in. Not every file below `/sys` holds a
/// setting: some name a program that the kernel runs.
fn is_of_kernel(path: &str) -> bool {
    let names: Vec<&str> = path.split('/').collect();
    match names[..] {
        ["", "sys", "block", array, "md", member, "state"] => {
            is_word(array) && member.strip_prefix("dev-").is_some_and(is_word)
        }
        ["", "sys", "fs", "btrfs", id, "read_policy"] => is_word(id),
        ["", "sys", "class", "nvme-subsystem", name, "iopolicy"] => is_word(name),
        ["", "sys", "module", "zfs", "parameters", name] => {
            is_word(name) && name.starts_with("zfs_vdev_mirror_")
        }
        _ => false,
    }
}

/// True for the files that `tune` writes.
fn is_own_file(path: &str) -> bool {
    let is_unit = |name: &str| {
        let is_safe = |it: char| it.is_ascii_alphanumeric() || "-_.:\\".contains(it);
        name.chars().all(is_safe)
    };
    let between = |name: &'_ str, begin: &str, end: &str| {
        name.strip_prefix(begin).and_then(|it| it.strip_suffix(end)).is_some_and(is_unit)
    };
    if path == MULTIPATH_FILE || path == MODPROBE_FILE {
        return true;
    }
    let names: Vec<&str> = path.split('/').collect();
    match names[..] {
        ["", "etc", "udev", "rules.d", name] => between(name, "99-mirrorball-", ".rules"),
        ["", "etc", "systemd", "system", name] => between(name, "mirrorball-btrfs-", ".service"),
        ["", "etc", "systemd", "system", folder, "mirrorball-btrfs.conf"] => {
            between(folder, "", ".mount.d")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::KnobPath::{self, Kernel, LvmFlag, OwnFile, ZpoolScheduler};

    #[test]
    fn places_of_settings_and_no_others_are_known() {
        let lvm = LvmFlag { volume: "vg0/data", device: "/dev/disk/by-path/pci-0000:00:1f" };
        let zpool = ZpoolScheduler { pool: "tank", device: "/dev/sda1" };
        for (path, place) in [
            ("/sys/block/md0/md/dev-sda1/state", Some(Kernel)),
            ("/sys/fs/btrfs/8c1-f/read_policy", Some(Kernel)),
            ("/sys/class/nvme-subsystem/nvme-subsys0/iopolicy", Some(Kernel)),
            ("/sys/module/zfs/parameters/zfs_vdev_mirror_rotating_inc", Some(Kernel)),
            ("lvm:vg0/data:/dev/disk/by-path/pci-0000:00:1f", Some(lvm)),
            ("zpool:tank:/dev/sda1", Some(zpool)),
            ("/etc/multipath/conf.d/mirrorball.conf", Some(OwnFile)),
            ("/etc/udev/rules.d/99-mirrorball-nvme-subsys0.rules", Some(OwnFile)),
            ("/etc/systemd/system/srv-my\\x20data.mount.d/mirrorball-btrfs.conf", Some(OwnFile)),
            ("/etc/systemd/system/mirrorball-btrfs-8c1-f.service", Some(OwnFile)),
            ("/sys/kernel/uevent_helper", None),
            ("/sys/module/zfs/parameters/../../../kernel/uevent_helper", None),
            ("/sys/block/../md/dev-sda/state", None),
            ("/sys/block/md0/md/sync_action", None),
            ("/sys/block/md0/md/sync_max", None),
            ("/sys/block/md0/md/dev-/state", None),
            ("lvm:vg0/data:/etc/passwd", None),
            ("lvm:vg0/data:/dev/../etc/passwd", None),
            ("lvm:-o/data:/dev/sda", None),
            ("lvm:vg0/$(reboot):/dev/sda", None),
            ("lvm:vg0/data:/dev/sda;reboot", None),
            ("lvm:vg0/data:DEVICE-1", None),
            ("zpool:tank:-f", None),
            ("/etc/systemd/system/mirrorball-btrfs-/../a.service", None),
            ("/etc/systemd/system/../a.mount.d/mirrorball-btrfs.conf", None),
            ("/etc/cron.d/mirrorball", None),
            ("/etc/passwd", None),
            ("", None),
        ] {
            assert_eq!(KnobPath::of(path), place, "{path}");
        }
        assert_eq!(zpool.at_device("/dev/sdb").as_deref(), Some("zpool:tank:/dev/sdb"));
    }
}
