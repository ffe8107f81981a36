//! Block devices and what they lie on: `lsblk` as a tree, a list, pairs or JSON.

use super::table::{TYPES, TableRow, rows};
use super::text::{is_disk_name, size_of};
use super::tree::{Fact, Tree};
use super::{md, paths};
use serde_json::Value;
use std::collections::BTreeMap;

/// A device of the listing, with the one that it lies on.
struct Listed {
    name: String,
    depth: usize,
    row: TableRow,
}

/// Which disks are behind USB, as their folders say, and which links lead to partitions.
pub(super) fn read_places(tree: &mut Tree, lines: &[&str]) {
    listing(lines).iter().chain(&pairs(lines)).for_each(|device| set_place(tree, device));
}

pub(super) fn read_json_places(tree: &mut Tree, value: &Value) {
    listed_in_json(value).iter().for_each(|device| set_place(tree, device));
}

fn set_place(tree: &mut Tree, device: &Listed) {
    let name = &device.name;
    if device.row.get("TRAN") == Some("usb") && is_disk_name(name) {
        tree.set_usb(name);
    }
    let number = device.row.get("MAJ:MIN").and_then(|it| it.split_once(':'));
    let is_mapping = device.row.get("TYPE").is_some_and(|it| MAPPINGS.contains(&it));
    if let Some(minor) = number.filter(|_| is_mapping).and_then(|(_, it)| it.parse().ok()) {
        tree.set_mapping(name, minor);
    }
    if let Some(uuid) = device.row.get("PARTUUID").filter(|_| is_disk_name(name)) {
        tree.add(format!("/dev/{name}"), "node");
        tree.link(format!("/dev/disk/by-partuuid/{uuid}"), format!("/dev/{name}"));
    }
}

/// Devices of each btrfs by its UUID, as `lsblk -f` shows them: label, paths and sizes.
pub(super) fn btrfs_devices(lines: &[&str]) -> BTreeMap<String, (String, Vec<(String, u64)>)> {
    let mut found: BTreeMap<String, (String, Vec<(String, u64)>)> = BTreeMap::new();
    for device in listing(lines).iter().chain(&pairs(lines)) {
        let get = |heading: &str| device.row.get(heading);
        let (Some("btrfs"), Some(uuid)) = (get("FSTYPE"), get("UUID")) else { continue };
        let (label, devices) = found.entry(uuid.to_owned()).or_default();
        get("LABEL").unwrap_or_default().clone_into(label);
        let path = format!("/dev/{}", device.name);
        let size = get("SIZE").and_then(size_of).unwrap_or(0);
        if devices.iter().all(|(other, _)| *other != path) {
            devices.push((path, size));
        }
    }
    found.retain(|_, (_, devices)| devices.len() > 1);
    found
}

/// `lsblk` as text, with any columns, and `lsblk -P`: `NAME="sda" SIZE="3.6T" …`.
pub(super) fn read_lsblk(tree: &mut Tree, lines: &[&str]) {
    add_listed(tree, &listing(lines));
    add_listed(tree, &pairs(lines));
}

fn listing(lines: &[&str]) -> Vec<Listed> {
    let is_heading = |words: &[&str]| {
        let known = ["SIZE", "TYPE", "MODEL", "FSTYPE", "MAJ:MIN", "ROTA", "TRAN", "MOUNTPOINT"];
        let is_name = |word: &&&str| ["NAME", "KNAME"].contains(*word);
        words.iter().any(|word| is_name(&word)) && words.iter().any(|word| known.contains(word))
    };
    let begins = |_: &[&str], words: &[&str]| {
        let first = words.first().map_or("", |word| base(word));
        let is_drawn = words.first().is_some_and(|word| word.starts_with(TREE));
        is_drawn
            || is_disk_name(first)
            || first.starts_with("md")
            || words.iter().skip(1).any(|word| TYPES.contains(word))
    };
    let drawn: Vec<String> = lines.iter().map(|line| without_tree(line)).collect();
    let mut drawn: Vec<&str> = drawn.iter().map(String::as_str).collect();
    if !drawn.iter().any(|line| is_heading(&words(line))) {
        // The usual columns, where the begin of the output is lost.
        let is_row = |line: &&str| {
            let words = words(line);
            words.len() > 5 && words[1].contains(':') && TYPES.contains(&words[5])
        };
        if let Some(at) = drawn.iter().position(is_row) {
            drawn.insert(at, "NAME MAJ:MIN RM SIZE RO TYPE MOUNTPOINTS");
        }
    }
    let mut all: Vec<Listed> = Vec::new();
    let mut before = (0, false);
    for (line, row) in rows(&drawn, is_heading, begins) {
        let Some(name) = row.get("NAME").or(row.get("KNAME")) else { continue };
        let name = base(name).to_owned();
        let drawn = line.chars().take_while(|it| TREE.contains(it) || *it == ' ').count() / 2;
        let is_last = line.trim_start().starts_with(LAST);
        // Below the last of its siblings another last one is deeper, also where the blanks that
        // say so are gone.
        let depth = match all.last() {
            Some(above) if is_last && before == (drawn, true) => above.depth + 1,
            _ => drawn,
        };
        before = (drawn, is_last);
        all.push(Listed { name, depth, row });
    }
    all
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Characters before names that lie below others: of the last one of several, and of another one.
const TREE: [char; 2] = [LAST, '├'];
const LAST: char = '└';

/// A line with one character before its name for the tree that is drawn there.
fn without_tree(line: &str) -> String {
    let marks = ['├', '└', '─', '│', '|', '`', ' ', '-'];
    let front: String = line.chars().take_while(|it| marks.contains(it)).collect();
    if front.trim().is_empty() {
        return line.to_owned();
    }
    let blanks = " ".repeat(front.chars().count() - 1);
    let mark = if front.contains([LAST, '`']) { LAST } else { '├' };
    format!("{blanks}{mark}{}", &line[front.len()..])
}

/// The name of a device in a path: `vg0-data` of `/dev/mapper/vg0-data`.
fn base(name: &str) -> &str {
    let name = name.trim_start_matches(TREE);
    let rest = name.strip_prefix("/dev/mapper/").or_else(|| name.strip_prefix("/dev/"));
    rest.unwrap_or(name)
}

fn pairs(lines: &[&str]) -> Vec<Listed> {
    let mut joined: Vec<String> = Vec::new();
    for line in lines.iter().map(|line| line.trim()) {
        let is_first = line.starts_with("NAME=\"") || line.starts_with("KNAME=\"");
        match joined.last_mut() {
            _ if is_first => joined.push(line.to_owned()),
            // The rest of a line that was broken.
            Some(last) if line.contains('"') => *last += &format!(" {line}"),
            _ => {}
        }
    }
    let mut all = Vec::new();
    for line in joined {
        let mut parts = line.split('"');
        let mut cells = Vec::new();
        while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
            let key = key.trim().trim_end_matches('=').to_owned();
            // A name has no blanks: where it has, its line was broken.
            let value =
                if key.ends_with("NAME") { value.replace(' ', "") } else { value.to_owned() };
            cells.push((key, value));
        }
        let row = TableRow::of(cells);
        let name = row.get("NAME").or(row.get("KNAME")).map(|name| base(name).to_owned());
        all.extend(name.map(|name| Listed { name, depth: 0, row }));
    }
    all
}

/// `lsblk -J`.
pub(super) fn read_json(tree: &mut Tree, value: &Value) {
    add_listed(tree, &listed_in_json(value));
}

fn listed_in_json(value: &Value) -> Vec<Listed> {
    let mut all = Vec::new();
    if let Some(devices) = value.get("blockdevices").and_then(Value::as_array) {
        list(devices, 0, &mut all);
    }
    all
}

fn list(devices: &[Value], depth: usize, all: &mut Vec<Listed>) {
    for device in devices.iter().filter_map(Value::as_object) {
        let text = |value: &Value| match value {
            Value::String(text) => text.trim().to_owned(),
            Value::Number(number) => number.to_string(),
            Value::Bool(is_set) => u8::from(*is_set).to_string(),
            _ => String::new(),
        };
        let row = TableRow::of(device.iter().map(|(key, value)| (key.to_uppercase(), text(value))));
        let name = row.get("NAME").or(row.get("KNAME")).map(|name| base(name).to_owned());
        all.extend(name.map(|name| Listed { name, depth, row }));
        if let Some(children) = device.get("children").and_then(Value::as_array) {
            list(children, depth + 1, all);
        }
    }
}

fn add_listed(tree: &mut Tree, all: &[Listed]) {
    for (at, device) in all.iter().enumerate() {
        let get = |heading: &str| device.row.get(heading);
        let is_disk = is_disk_name(&device.name)
            && get("TYPE").is_none_or(|it| ["disk", "part", "loop"].contains(&it));
        if let Some(bytes) = get("SIZE").and_then(size_of).filter(|_| is_disk) {
            tree.say(&device.name, Fact::Size, &bytes.to_string());
        }
        let is_whole = super::text::disk_of(&device.name) == device.name;
        if is_disk && is_whole && get("TYPE").is_none_or(|it| it == "disk") {
            tree.listed.insert(device.name.clone());
        }
        let facts = [("ROTA", Fact::Rotational), ("MODEL", Fact::Model), ("SERIAL", Fact::Serial)];
        for (heading, fact) in facts {
            if let Some(value) = get(heading).filter(|_| is_disk && is_whole) {
                tree.say(&device.name, fact, value);
            }
        }
        if !is_disk {
            let below = below(all, at);
            add_virtual(tree, device, kind(all, at), &below);
        }
    }
}

/// The devices that one of the listing lies on: in a tree it stands below each of them.
fn below(all: &[Listed], at: usize) -> Vec<String> {
    let name = &all[at].name;
    // The first place of the device stands for all.
    if all[..at].iter().any(|device| device.name == *name) {
        return Vec::new();
    }
    let mut below: Vec<String> = Vec::new();
    for (at, device) in all.iter().enumerate().filter(|(_, device)| device.name == *name) {
        let parent = match device.row.get("PKNAME") {
            Some(parent) => Some(base(parent).to_owned()),
            None => {
                let above = all[..at].iter().rev().find(|it| it.depth < device.depth);
                above.map(|it| it.name.clone())
            }
        };
        below.extend(parent.filter(|parent| !below.contains(parent)));
    }
    below.iter().map(|parent| device_name(all, parent)).collect()
}

/// Types of devices of the device mapper.
const MAPPINGS: [&str; 4] = ["crypt", "lvm", "mpath", "dm"];

/// The type of a device of the listing. `lsblk -f` has none; what lies on `mpath_member` is clear.
fn kind(all: &[Listed], at: usize) -> &str {
    let device = &all[at];
    let above = all[..at].iter().rev().find(|it| it.depth < device.depth);
    let is_path = above.is_some_and(|it| it.row.get("FSTYPE") == Some("mpath_member"));
    device.row.get("TYPE").unwrap_or(if is_path { "mpath" } else { "" })
}

/// The name of a device of the listing in the tree: those of the device mapper have one before it.
fn device_name(all: &[Listed], name: &str) -> String {
    let kind = all.iter().position(|device| device.name == name).map_or("", |at| kind(all, at));
    match MAPPINGS.contains(&kind) {
        true => format!("dm-{name}"),
        false => name.to_owned(),
    }
}

fn add_virtual(tree: &mut Tree, device: &Listed, kind: &str, below: &[String]) {
    let size = device.row.get("SIZE").and_then(size_of);
    if below.is_empty() {
        return;
    }
    match kind {
        "crypt" => drop(tree.mapped(&device.name, "CRYPT-", below)),
        "lvm" => drop(tree.mapped(&device.name, "LVM-", below)),
        "mpath" => paths::add_plain(tree, &device.name, below),
        _ if kind.starts_with("raid") || kind == "linear" || md::is_md_name(&device.name) => {
            let kib = size.map(|bytes| bytes / 1024);
            md::add_plain(tree, &device.name, kind, kib, below);
        }
        _ => {}
    }
}
