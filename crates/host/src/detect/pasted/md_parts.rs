//! An array of md of which several parts of a text say something.

use super::md_array::{MdArray, MdDevice};
use super::text::is_disk_name;
use super::tree::Tree;
use std::collections::BTreeMap;

/// Adds an array, or what a second part of the text says of it.
pub(super) fn add(tree: &mut Tree, name: &str, mut array: MdArray) {
    let devices = std::mem::take(&mut array.devices).into_iter();
    array.devices = devices.map(|(name, it)| (tree.kernel_name(&name), it)).collect();
    let members = |array: &MdArray| -> Vec<String> { array.devices.keys().cloned().collect() };
    let has_any = |it: &MdArray, other: &MdArray| {
        other.devices.keys().any(|device| it.devices.contains_key(device))
    };
    let same = tree.md.iter().find(|(other, it)| {
        let has_members = !it.devices.is_empty() && !array.is_inactive;
        *other == name
            || (it.uuid.is_some() && it.uuid == array.uuid)
            || (it.up.is_some() && is_superblock(&array) && has_any(it, &array))
            || (has_members && members(it) == members(&array))
    });
    let Some(name_before) = same.map(|(other, _)| other.clone()) else {
        tree.md.insert(name.to_owned(), array);
        return;
    };
    let is_of_kernel = |name: &str| !name.contains('/');
    let takes_name = is_of_kernel(name) && !is_of_kernel(&name_before);
    let name = if takes_name && !tree.md.contains_key(name) { name } else { &name_before };
    let Some(before) = tree.md.remove(&name_before) else { return };
    let before = tree.md.entry(name.to_owned()).or_insert(before);
    let contradictions = contradictions(&name_before, before, &array);
    // A superblock says what it knew when it was written: what runs says more.
    let is_superblock = is_superblock(&array);
    // A missing member is not to be hidden, whatever part comes first.
    if array.up < before.up && array.up.is_some() {
        (before.up, before.devices) = (array.up, array.devices.clone());
    } else if array.has_slots && !before.has_slots {
        before.has_slots = true;
        place(&mut before.devices, &array.devices);
    }
    before.member_kib = before.member_kib.or(array.member_kib);
    before.size_kib = before.size_kib.or(array.size_kib);
    before.layout = before.layout.or(array.layout);
    before.chunk_bytes = before.chunk_bytes.or(array.chunk_bytes);
    before.action = before.action.or(array.action);
    before.progress = before.progress.or(array.progress);
    before.kib_per_s = before.kib_per_s.or(array.kib_per_s);
    before.uuid = before.uuid.take().or(array.uuid);
    before.up = before.up.or(array.up);
    if before.slots == 0 {
        before.slots = array.slots;
    }
    if before.level.is_empty() {
        before.level = array.level;
    }
    let is_new = before.devices.is_empty();
    for (device, other) in array.devices {
        let is_free = before.devices.values().all(|it| it.slot.is_none() || it.slot != other.slot);
        if let Some(own) = before.devices.get_mut(&device) {
            own.offset = own.offset.or(other.offset);
        } else if is_new
            || is_superblock && before.up.is_none()
            || is_free && before.up.is_some() && before.up == array.up
        {
            before.devices.insert(device, other);
        }
    }
    contradictions.into_iter().for_each(|note| tree.note(note));
}

fn is_superblock(array: &MdArray) -> bool {
    array.uuid.is_some() && array.up.is_none()
}

/// Reads the slots of the devices, and whether they are in sync, from `others`.
fn place(devices: &mut BTreeMap<String, MdDevice>, others: &BTreeMap<String, MdDevice>) {
    for (device, own) in devices {
        let Some(other) = others.get(device) else { continue };
        let [word, of_other] = [&own.state, &other.state].map(|it| it.split(',').next());
        let (Some(word), Some(of_other)) = (word, of_other) else { continue };
        if word != "faulty" && of_other != "faulty" {
            (own.slot, own.state) = (other.slot, own.state.replacen(word, of_other, 1));
        }
    }
}

/// Notes of what two parts of a text say differently of an array.
fn contradictions(name: &str, before: &MdArray, array: &MdArray) -> Vec<String> {
    let mut contradictions = Vec::new();
    if before.is_inactive {
        return contradictions;
    }
    let mut differ = |what: &str, a: String, b: String| {
        if a != b && !a.is_empty() && !b.is_empty() && a != "0" && b != "0" {
            contradictions.push(format!(
                "the text contradicts itself: the {what} of {name} is {a} in one part and \
                 {b} in another; the first is taken"
            ));
        }
    };
    differ("level", before.level.clone(), array.level.clone());
    differ("number of members", before.slots.to_string(), array.slots.to_string());
    // A spare or a device that was removed need not be in both.
    let active = |array: &MdArray| -> Vec<String> {
        let active = array.devices.iter().filter(|(_, it)| it.slot.is_some());
        active.map(|(name, _)| name.clone()).collect()
    };
    let (own, other) = (active(before), active(array));
    let within = |a: &[String], b: &[String]| a.iter().all(|name| b.contains(name));
    // A device of the device mapper has several names.
    let is_named = |name: &String| is_disk_name(name) && !name.starts_with("dm-");
    let is_same = within(&own, &other) || within(&other, &own);
    if !is_same && !is_superblock(array) && own.iter().chain(&other).all(is_named) {
        differ("list of members", own.join(", "), other.join(", "));
    }
    // `lsblk` rounds sizes.
    if let (Some(own), Some(other)) = (before.size_kib, array.size_kib)
        && own.abs_diff(other) > own / 10
    {
        differ("size", format!("{own} KiB"), format!("{other} KiB"));
    }
    for (device, own, other) in flags_of_both(before, array) {
        differ(&format!("state of {device}"), own, other);
    }
    if let (Some(own), Some(other)) = (before.up, array.up)
        && own != other
    {
        contradictions.push(format!(
            "the text contradicts itself: {own} members of {name} are in use in one part and \
             {other} in another; the smaller number is taken"
        ));
    }
    contradictions
}

/// Devices with a flag in one of two parts that say the states of members, and the flag in each.
fn flags_of_both(one: &MdArray, other: &MdArray) -> Vec<(String, String, String)> {
    if one.up.is_none() || other.up.is_none() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (device, first) in &one.devices {
        let Some(second) = other.devices.get(device) else { continue };
        for flag in ["write_mostly", "faulty"] {
            let shown = |it: &MdDevice| match it.state.contains(flag) {
                true => flag.to_owned(),
                false => format!("not {flag}"),
            };
            found.push((device.clone(), shown(first), shown(second)));
        }
    }
    found
}
