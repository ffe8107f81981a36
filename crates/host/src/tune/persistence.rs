//! Files that set a setting again when the machine starts.
//!
//! md, LVM and pools of ZFS keep their settings themselves, and dm-multipath has a file anyway.
//! btrfs gets a unit that is started by the mount, NVMe a rule of udev that is read behind those of
//! vendors, and the module of ZFS its parameters. No file runs a shell or this program.

use crate::bench::knob::Knob;
use crate::bench::knob_path::{MODPROBE_FILE, is_word};
use crate::bench::tool_knob::MARK;
use crate::detect::{DetectedArray, StorageSystem};
use mirrorball_core::diagnostic::Diagnostic;

const ZFS_PARAMETERS: &str = "/sys/module/zfs/parameters/";

/// The files for knobs with these values: paths and texts. Fails if a name cannot be written into a
/// file as it is.
pub(super) fn files(
    array: &DetectedArray,
    values: &[(&Knob, &str)],
) -> Result<Vec<(String, String)>, Diagnostic> {
    match array.system {
        StorageSystem::Btrfs => btrfs(array, values),
        StorageSystem::Nvme => nvme(array, values),
        StorageSystem::Zfs => Ok(zfs(values)),
        StorageSystem::Md
        | StorageSystem::MdRaid10
        | StorageSystem::Lvm
        | StorageSystem::Dm
        | StorageSystem::DmMirror => Ok(Vec::new()),
    }
}

/// A service that writes the policy, and the mount unit's wish for it.
fn btrfs(
    array: &DetectedArray,
    values: &[(&Knob, &str)],
) -> Result<Vec<(String, String)>, Diagnostic> {
    let Some((knob, policy)) = values.first() else { return Ok(Vec::new()) };
    let id = array.id.as_deref().unwrap_or_default();
    let mount = array.mount.as_deref().filter(|mount| mount.starts_with('/'));
    let Some(mount) = mount else {
        let what = format!("{} is not mounted, so that no unit can wait for its mount", array.name);
        return Err(Diagnostic::new(what).with_help("give the mount point"));
    };
    let is_value = |it: char| it.is_ascii_alphanumeric() || "-:".contains(it);
    if !is_word(id) || !policy.chars().all(is_value) {
        return Err(refused(&array.name));
    }
    let (unit, service) = (escaped(mount), format!("mirrorball-btrfs-{id}.service"));
    let path = &knob.path;
    let text = format!(
        "{MARK}[Unit]\nDescription=Read policy of the btrfs {id}\nAfter={unit}.mount\n\n[Service]\n\
         Type=oneshot\nExecStart=/usr/bin/printf {policy}\nStandardOutput=file:{path}\n"
    );
    let wish = format!("{MARK}[Unit]\nWants={service}\n");
    Ok(vec![
        (format!("/etc/systemd/system/{service}"), text),
        (format!("/etc/systemd/system/{unit}.mount.d/mirrorball-btrfs.conf"), wish),
    ])
}

/// A rule of udev for the subsystem with the NQN.
fn nvme(
    array: &DetectedArray,
    values: &[(&Knob, &str)],
) -> Result<Vec<(String, String)>, Diagnostic> {
    let Some((_, policy)) = values.first() else { return Ok(Vec::new()) };
    let nqn = array.id.as_deref().unwrap_or_default();
    let is_nqn = |it: char| it.is_ascii_alphanumeric() || "-.:_".contains(it);
    let is_valid = !nqn.is_empty() && nqn.chars().all(is_nqn) && is_word(policy);
    if !is_valid || !is_word(&array.name) {
        return Err(refused(&array.name));
    }
    let text = format!(
        "{MARK}ACTION==\"add|change\", SUBSYSTEM==\"nvme-subsystem\", ATTR{{subsystype}}==\"nvm\", \
         ATTR{{subsysnqn}}==\"{nqn}\", ATTR{{iopolicy}}=\"{policy}\"\n"
    );
    Ok(vec![(format!("/etc/udev/rules.d/99-mirrorball-{}.rules", array.name), text)])
}

/// The parameters of the module. Its other settings are kept by the pool.
fn zfs(values: &[(&Knob, &str)]) -> Vec<(String, String)> {
    let parameter = |(knob, value): &(&Knob, &str)| {
        let name = knob.path.strip_prefix(ZFS_PARAMETERS)?;
        let is_number = value.chars().all(|it| it.is_ascii_digit());
        is_number.then(|| format!(" {name}={value}"))
    };
    let parameters: String = values.iter().filter_map(parameter).collect();
    match parameters.is_empty() {
        true => Vec::new(),
        false => vec![(MODPROBE_FILE.to_owned(), format!("{MARK}options zfs{parameters}\n"))],
    }
}

fn refused(name: &str) -> Diagnostic {
    let what = format!("the identity of {name} has characters that no file is given");
    Diagnostic::new(what).with_help("apply the setting without --persist")
}

/// The name of the unit of a mount point, as `systemd-escape --path` writes it.
fn escaped(path: &str) -> String {
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        return "-".to_owned();
    }
    let mut text = String::new();
    for (place, byte) in names.join("/").bytes().enumerate() {
        match byte {
            b'/' => text.push('-'),
            b'.' if place == 0 => text += "\\x2e",
            b':' | b'_' | b'.' => text.push(byte.into()),
            byte if byte.is_ascii_alphanumeric() => text.push(byte.into()),
            byte => text += &format!("\\x{byte:02x}"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn names_of_mount_units_are_those_of_systemd() {
        for (path, unit) in [
            ("/", "-"),
            ("/srv/data", "srv-data"),
            ("/srv//my data/", "srv-my\\x20data"),
            ("/.snap/a-b", "\\x2esnap-a\\x2db"),
            ("/mnt/a\n[Service]", "mnt-a\\x0a\\x5bService\\x5d"),
        ] {
            assert_eq!(escaped(path), unit);
        }
    }
}
