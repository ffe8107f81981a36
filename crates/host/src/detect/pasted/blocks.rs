//! Block devices and what they lie on: `lsblk` as a tree, a list, pairs or JSON.

use super::table::{TYPES, TableRow, rows};
use super::text::{disk_of, is_disk_name, is_mapping_name, size_of};
use super::tree::{Fact, Tree, mapping_name};
use super::{md, paths};
use serde_json::Value;
use std::collections::BTreeMap;

/// A device of the listing, and how deep it stands.
struct Listed {
    name: String,
    depth: usize,
    row: TableRow,
}

/// Types of mappings, by the signatures of the devices below them.
const ON_MEMBERS: [(&str, &str); 3] =
    [("mpath_member", "mpath"), ("crypto_LUKS", "crypt"), ("LVM2_member", "lvm")];

/// Which disks are behind USB, as their folders say, and which links lead to partitions.
pub(super) fn read_places(tree: &mut Tree, lines: &[&str]) {
    [listing(lines), pairs(lines)].iter().for_each(|all| set_places(tree, all));
}

pub(super) fn read_json_places(tree: &mut Tree, value: &Value) {
    set_places(tree, &listed_in_json(value));
}

fn set_places(tree: &mut Tree, all: &[Listed]) {
    for (at, Listed { name, row, .. }) in all.iter().enumerate() {
        if row.get("TRAN") == Some("usb") && is_disk_name(name) {
            tree.set_usb(name);
        }
        if MAPPINGS.contains(&kind(all, at)) {
            let number = row.get("MAJ:MIN").and_then(|it| it.split_once(':'));
            let number = number.map(|(_, minor)| minor);
            let number = number.or(row.get("KNAME").and_then(|it| base(it).strip_prefix("dm-")));
            tree.set_mapping(name, number.and_then(|it| it.parse().ok()));
        } else if let Some(uuid) = row.get("PARTUUID").filter(|_| is_disk_name(name)) {
            tree.add(format!("/dev/{name}"), "node");
            tree.link(format!("/dev/disk/by-partuuid/{uuid}"), format!("/dev/{name}"));
        }
    }
}

/// Devices of each btrfs by its UUID, as `lsblk -f` shows them: label, paths and sizes.
pub(super) fn btrfs_devices(lines: &[&str]) -> BTreeMap<String, (String, Vec<(String, u64)>)> {
    let mut found: BTreeMap<String, (String, Vec<(String, u64)>)> = BTreeMap::new();
    let all = [listing(lines), pairs(lines)];
    for (all, at) in all.iter().flat_map(|all| (0..all.len()).map(move |at| (all, at))) {
        let get = |heading: &str| all[at].row.get(heading);
        let (Some("btrfs"), Some(uuid)) = (get("FSTYPE"), get("UUID")) else { continue };
        let (label, devices) = found.entry(uuid.to_owned()).or_default();
        get("LABEL").unwrap_or_default().clone_into(label);
        let is_mapping = MAPPINGS.contains(&kind(all, at));
        let path = format!("/dev/{}{}", if is_mapping { "mapper/" } else { "" }, all[at].name);
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
        let kind = kind(all, at);
        let is_disk = is_disk_name(&device.name) && ["", "disk", "part", "loop"].contains(&kind);
        if let Some(bytes) = get("SIZE").and_then(size_of).filter(|_| is_disk) {
            tree.say(&device.name, Fact::Size, &bytes.to_string());
        }
        let is_whole = disk_of(&device.name) == device.name;
        if is_disk && is_whole && ["", "disk"].contains(&kind) {
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
            add_virtual(tree, device, kind, &below);
        }
    }
}

/// The place in the listing of the device that one lies on: above it in a tree, or the one that it
/// names.
fn above(all: &[Listed], at: usize) -> Option<usize> {
    match all[at].row.get("PKNAME") {
        Some(parent) => place_of(all, base(parent)),
        None => (0..at).rev().find(|above| all[*above].depth < all[at].depth),
    }
}

/// The first place of a device that has this name, or this name in the kernel.
fn place_of(all: &[Listed], name: &str) -> Option<usize> {
    let is_it = |it: &Listed| it.name == name || it.row.get("KNAME").map(base) == Some(name);
    all.iter().position(is_it)
}

/// The devices that one of the listing lies on: in a tree it stands below each of them.
fn below(all: &[Listed], at: usize) -> Vec<String> {
    let name = &all[at].name;
    // The first place of the device stands for all.
    if all[..at].iter().any(|device| device.name == *name) {
        return Vec::new();
    }
    let mut below: Vec<String> = Vec::new();
    for own in (0..all.len()).filter(|own| all[*own].name == *name) {
        let parent = match above(all, own) {
            Some(above) => Some(device_name(all, above)),
            None => all[own].row.get("PKNAME").map(|parent| base(parent).to_owned()),
        };
        below.extend(parent.filter(|parent| !below.contains(parent)));
    }
    below
}

/// Types of devices of the device mapper.
const MAPPINGS: [&str; 4] = ["crypt", "lvm", "mpath", "dm"];

/// The type of a device of the listing. Where the listing has none, what lies on a disk and is
/// neither a part of it nor an array is a mapping.
fn kind(all: &[Listed], at: usize) -> &str {
    let Listed { name, row, .. } = &all[at];
    if let Some(kind) = row.get("TYPE") {
        return kind;
    }
    let Some(above) = above(all, at) else { return "" };
    let signature = all[above].row.get("FSTYPE");
    let on_members = ON_MEMBERS.iter().find(|(member, _)| signature == Some(member));
    match on_members {
        _ if name.starts_with("md") || is_disk_name(name) && !is_mapping_name(name) => "",
        Some((_, kind)) => kind,
        None if name.starts_with("mpath") => "mpath",
        None => "dm",
    }
}

/// The name of a device of the listing in the tree: those of the device mapper have one before it.
fn device_name(all: &[Listed], at: usize) -> String {
    match MAPPINGS.contains(&kind(all, at)) {
        true => mapping_name(&all[at].name),
        false => all[at].name.clone(),
    }
}

fn add_virtual(tree: &mut Tree, device: &Listed, kind: &str, below: &[String]) {
    const UUIDS: [(&str, &str); 3] = [("crypt", "CRYPT-"), ("lvm", "LVM-"), ("dm", "dm-")];
    let size = device.row.get("SIZE").and_then(size_of);
    if below.is_empty() {
        return;
    }
    if let Some((_, uuid)) = UUIDS.iter().find(|(of, _)| *of == kind) {
        let folder = tree.mapped(&device.name, uuid, below);
        if let Some(bytes) = size {
            tree.add(format!("{folder}/size"), (bytes / 512).to_string());
        }
        return;
    }
    match kind {
        "mpath" => paths::add_plain(tree, &device.name, below),
        _ if kind.starts_with("raid") || kind == "linear" || md::is_md_name(&device.name) => {
            let kib = size.map(|bytes| bytes / 1024);
            md::add_plain(tree, &device.name, kind, kib, below);
        }
        _ => {}
    }
}
