//! Disks: `smartctl -i`, `nvme list`, `fdisk -l`, `lsscsi`, and links by id.

use super::super::sysroot::base_name;
use super::text::{command, disk_of, is_disk_name, size_of};
use super::tree::{Fact, Tree};
use serde_json::Value;

/// `smartctl -i` or `-a`, whose device is in the command before it.
pub(super) fn read_smartctl(tree: &mut Tree, lines: &[&str]) {
    let mut device: Option<String> = None;
    for line in lines {
        if let Some(words) = command(line) {
            let path = words.iter().find_map(|word| word.strip_prefix("/dev/"));
            device =
                path.filter(|_| words[0].ends_with("smartctl")).map(|it| disk_of(it).to_owned());
            continue;
        }
        let Some((key, value)) = line.split_once(':') else { continue };
        let Some(name) = device.as_deref().map(namespace) else { continue };
        let value = value.trim();
        match key.trim() {
            "Device Model" | "Model Number" | "Product" => tree.say(&name, Fact::Model, value),
            "Serial Number" | "Serial number" => tree.say(&name, Fact::Serial, value),
            "User Capacity" | "Total NVM Capacity" | "Namespace 1 Size/Capacity" => {
                let digits: String = value
                    .chars()
                    .take_while(|it| it.is_ascii_digit() || ",.' ".contains(*it))
                    .filter(char::is_ascii_digit)
                    .collect();
                tree.say(&name, Fact::Size, &digits);
            }
            "Rotation Rate" => rotation(tree, &name, value),
            _ => {}
        }
    }
}

/// The block device of an NVMe controller: `nvme0n1` of `nvme0`.
fn namespace(name: &str) -> String {
    let number = name.strip_prefix("nvme");
    let is_controller =
        number.is_some_and(|it| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit()));
    if is_controller { format!("{name}n1") } else { name.to_owned() }
}

/// `5400 rpm` or `Solid State Device`.
fn rotation(tree: &mut Tree, name: &str, value: &str) {
    let rpm = value.split(' ').next().and_then(|it| it.parse::<u64>().ok());
    tree.say(name, Fact::Rotational, if rpm.is_some_and(|rpm| rpm > 0) { "1" } else { "0" });
    if let Some(rpm) = rpm {
        let path = format!("/run/udev/data/bpasted:{name}");
        tree.add(path, format!("E:ID_ATA_ROTATION_RATE_RPM={rpm}\n"));
    }
}

/// The rows of `nvme list`.
pub(super) fn read_nvme_list(tree: &mut Tree, lines: &[&str]) {
    let is_row = |line: &str| line.trim_start().starts_with("/dev/nvme");
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_row(line)) {
        // A row that was broken goes on in the next line.
        let next = lines.get(at + 1).filter(|next| !is_row(next));
        let text = format!("{line} {}", next.filter(|_| !line.contains(" / ")).unwrap_or(&""));
        let words: Vec<&str> = text.split_whitespace().collect();
        let Some(slash) = words.iter().position(|word| *word == "/").filter(|at| *at > 4) else {
            continue;
        };
        let name = base_name(words[0]);
        let first = if words[1].starts_with("/dev/ng") { 2 } else { 1 };
        // Before the slash are the number of the namespace, and the used bytes with their unit.
        if let Some(model) = words.get(first + 1..slash - 3).filter(|it| !it.is_empty()) {
            tree.say(name, Fact::Serial, words[first]);
            tree.say(name, Fact::Model, &model.join(" "));
        }
        if let [number, unit, ..] = words[slash + 1..]
            && let Some(bytes) = size_of(&format!("{number}{unit}"))
        {
            tree.say(name, Fact::Size, &bytes.to_string());
        }
    }
}

/// `fdisk -l`, `lsscsi`, and `ls -l /dev/disk/by-id`.
pub(super) fn read_others(tree: &mut Tree, lines: &[&str]) {
    let mut disk: Option<String> = None;
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["Disk", path, rest @ ..] = words.as_slice()
            && let Some(name) = path.strip_prefix("/dev/").and_then(|it| it.strip_suffix(':'))
        {
            let bytes = rest.iter().position(|it| it.trim_end_matches(',') == "bytes");
            let bytes = bytes.and_then(|at| rest.get(at.checked_sub(1)?));
            disk = Some(name.to_owned()).filter(|name| is_disk_name(name));
            if let (Some(name), Some(bytes)) = (&disk, bytes) {
                tree.say(name, Fact::Size, bytes);
            }
        } else if let (Some(model), Some(name)) = (line.trim().strip_prefix("Disk model: "), &disk)
        {
            tree.say(name, Fact::Model, model.trim());
        } else if let [place, "disk", vendor, model @ .., revision, path] = words.as_slice()
            && place.starts_with('[')
            && let Some(name) = path.strip_prefix("/dev/")
            && !model.is_empty()
        {
            let vendor = if *vendor == "ATA" { String::new() } else { format!("{vendor} ") };
            debug_assert!(!revision.is_empty());
            tree.say(name, Fact::Model, format!("{vendor}{}", model.join(" ")).trim());
        } else if let [.., id, "->", target] = words.as_slice()
            && is_disk_name(base_name(target))
        {
            let name = base_name(target);
            let id = base_name(id);
            if let Some((model, serial)) = model_in(id).filter(|_| disk_of(name) == name) {
                tree.say(name, Fact::Model, &model);
                tree.say(name, Fact::Serial, &serial);
            }
            tree.add(format!("/dev/{name}"), "node");
            tree.link(format!("/dev/disk/by-id/{id}"), format!("/dev/{name}"));
        }
    }
}

/// Model and serial number in the name of a link, such as `ata-WDC_WD40EFRX-68N32N0_WD-WCC7K0`.
pub(super) fn model_in(id: &str) -> Option<(String, String)> {
    let rest = ["ata-", "nvme-", "scsi-SATA_", "usb-"].iter().find_map(|it| id.strip_prefix(it));
    let rest = rest.filter(|rest| !rest.starts_with("eui.") && !rest.starts_with("uuid."))?;
    let rest = disk_of(rest).trim_end_matches("-0:0");
    // The number of the namespace follows the serial number of an NVMe disk in newer names.
    let number = rest.rsplit_once('_').filter(|(front, number)| {
        id.starts_with("nvme-") && number.parse::<u8>().is_ok() && front.contains('_')
    });
    let (model, serial) = number.map_or(rest, |(front, _)| front).rsplit_once('_')?;
    (!model.is_empty()).then(|| (model.replace('_', " "), serial.to_owned()))
}

/// `nvme list -o json` and `smartctl -j`.
pub(super) fn read_json(tree: &mut Tree, value: &Value) {
    let text = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
    for device in value.get("Devices").and_then(Value::as_array).into_iter().flatten() {
        let Some(path) = text(device, "DevicePath") else { continue };
        let name = base_name(&path);
        if let Some(model) = text(device, "ModelNumber") {
            tree.say(name, Fact::Model, model.trim());
        }
        if let Some(bytes) = device.get("PhysicalSize").and_then(Value::as_u64) {
            tree.say(name, Fact::Size, &bytes.to_string());
        }
    }
    let device = value.get("device").and_then(|device| text(device, "name"));
    let Some(name) = device.map(|it| namespace(disk_of(base_name(&it)))) else { return };
    if let Some(model) = text(value, "model_name") {
        tree.say(&name, Fact::Model, &model);
    }
    let bytes = value.get("user_capacity").and_then(|it| it.get("bytes")).and_then(Value::as_u64);
    if let Some(bytes) = bytes {
        tree.say(&name, Fact::Size, &bytes.to_string());
    }
    if let Some(rpm) = value.get("rotation_rate").and_then(Value::as_u64) {
        rotation(tree, &name, &format!("{rpm} rpm"));
    }
}
