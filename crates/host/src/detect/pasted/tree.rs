//! The tree of files that a text describes, and what its parts say of one thing differently.

use super::super::sysroot::TreeEntry;
use super::md_array::MdArray;
use super::text::{disk_of, is_mapping_name};
use std::collections::{BTreeMap, BTreeSet};

/// A fact about a disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fact {
    Size,
    Model,
    Serial,
    /// 1 for a disk that turns.
    Rotational,
}

/// The name in the tree of a mapping, until its number is known: `dm-vg0-data`.
pub(super) fn mapping_name(name: &str) -> String {
    let has_number = name.strip_prefix("dm-").is_some_and(|it| it.parse::<u32>().is_ok());
    if has_number { name.to_owned() } else { format!("dm-{name}") }
}

#[derive(Default)]
pub(super) struct Tree {
    pub(super) files: BTreeMap<String, TreeEntry>,
    /// Arrays of md, by their names.
    pub(super) md: BTreeMap<String, MdArray>,
    /// Names of the kernel of mappings, such as `dm-0`, by those that stand for them until these
    /// are known, such as `dm-vg0-data`.
    mappings: BTreeMap<String, String>,
    /// Disks that `lsblk` lists.
    pub(super) listed: BTreeSet<String>,
    /// Disks behind a bridge of USB.
    usb: BTreeSet<String>,
    /// Parts that contradict each other, and what is guessed.
    notes: Vec<String>,
}

impl Tree {
    /// Adds a file; the first text of a file stays.
    pub(super) fn add(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.files.entry(path.into()).or_insert_with(|| TreeEntry::Text(text.into()));
    }

    /// Adds lines to a file.
    pub(super) fn append(&mut self, path: &str, text: &str) {
        match self.files.get_mut(path) {
            Some(TreeEntry::Text(all)) => all.push_str(text),
            _ => self.add(path, text),
        }
    }

    pub(super) fn link(&mut self, path: impl Into<String>, target: impl Into<String>) {
        self.files.entry(path.into()).or_insert_with(|| TreeEntry::Link(target.into()));
    }

    /// Sets a file; `*` in its path stands for each folder that the tree has there.
    pub(super) fn set_matching(&mut self, path: &str, text: &str) {
        let Some((front, back)) = path.split_once('*') else {
            self.files.insert(path.to_owned(), TreeEntry::Text(text.to_owned()));
            return;
        };
        let back = back.split_once('/').map_or("", |(_, file)| file);
        let here = self.files.keys().filter_map(|path| {
            let (name, _) = path.strip_prefix(front)?.split_once('/')?;
            Some(format!("{front}{name}/{back}"))
        });
        for path in here.collect::<BTreeSet<String>>() {
            self.files.insert(path, TreeEntry::Text(text.to_owned()));
        }
    }

    /// Adds a note about the text.
    pub(super) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The files, with the notes of the text in one of them.
    pub(super) fn into_files(mut self) -> BTreeMap<String, TreeEntry> {
        if !self.notes.is_empty() {
            self.add(super::NOTES, self.notes.join("\n"));
        }
        self.files
    }

    /// Marks a disk as one behind USB. To be called before it gets a folder.
    pub(super) fn set_usb(&mut self, name: &str) {
        self.usb.insert(disk_of(name).to_owned());
    }

    /// Marks a device as a mapping, with its number if that is known. To be called before it gets a
    /// folder.
    pub(super) fn set_mapping(&mut self, name: &str, number: Option<u32>) {
        let name = mapping_name(name);
        let known = self.mappings.entry(name.clone()).or_insert(name);
        if let Some(number) = number {
            *known = format!("dm-{number}");
        }
    }

    /// True for a name below `/dev/mapper`.
    pub(super) fn is_mapping(&self, name: &str) -> bool {
        is_mapping_name(name) || self.mappings.contains_key(&mapping_name(name))
    }

    /// The name of the kernel of a device, as far as the text says it.
    pub(super) fn kernel_name(&self, name: &str) -> String {
        self.mappings.get(name).cloned().unwrap_or_else(|| name.replace('/', "!"))
    }

    /// The folder of a device, made if it is new.
    pub(super) fn device(&mut self, given: &str) -> String {
        let name = self.kernel_name(given);
        let disk = disk_of(&name);
        let bus = if self.usb.contains(disk) { "/usb1" } else { "" };
        let of_disk = format!("/sys/devices/pasted{bus}/{disk}");
        self.add(format!("{of_disk}/dev"), format!("pasted:{disk}"));
        self.link(format!("/sys/block/{disk}"), of_disk.clone());
        self.link(format!("/sys/class/block/{disk}"), of_disk.clone());
        self.link(format!("/sys/dev/block/pasted:{disk}"), of_disk.clone());
        let mapped = given.strip_prefix("dm-").filter(|it| it.parse::<u32>().is_err());
        if let Some(mapped) = mapped {
            self.add(format!("{of_disk}/dm/name"), mapped);
        }
        if disk == name {
            return of_disk;
        }
        let folder = format!("{of_disk}/{name}");
        self.add(format!("{folder}/partition"), "1");
        self.add(format!("{folder}/dev"), format!("pasted:{name}"));
        self.link(format!("/sys/class/block/{name}"), folder.clone());
        folder
    }

    /// A device of the device mapper over others. The first part of a text that says these stays.
    pub(super) fn mapped(&mut self, name: &str, uuid: &str, below: &[String]) -> String {
        let folder = self.device(&mapping_name(name));
        self.add(format!("{folder}/dm/uuid"), format!("{uuid}{name}"));
        let slaves = format!("{folder}/slaves/");
        let is_known =
            self.files.range(slaves.clone()..).next().is_some_and(|it| it.0.starts_with(&slaves));
        for device in below.iter().filter(|_| !is_known) {
            let block = self.device(device);
            let device = self.kernel_name(device);
            self.link(format!("{slaves}{device}"), block);
        }
        folder
    }

    /// Notes if a member of an array is larger than its device.
    pub(super) fn check_size(&mut self, array: &str, device: &str, kib: u64) {
        let path = format!("{}/size", self.device(device));
        let Some(TreeEntry::Text(sectors)) = self.files.get(&path) else { return };
        let device_gb = sectors.parse::<f64>().unwrap_or(0.0) * 512.0 / 1e9;
        let member_gb = kib as f64 * 1024.0 / 1e9;
        // Tools round sizes.
        if member_gb > device_gb * 1.05 {
            self.note(format!(
                "the text contradicts itself: a member of {array} has {member_gb:.1} GB, but \
                 {device} has {device_gb:.1} GB"
            ));
        }
    }

    /// Adds a fact about a disk or a partition, and notes if another part says something else.
    pub(super) fn say(&mut self, name: &str, fact: Fact, value: &str) {
        let folder = self.device(name);
        let (file, what, value) = match fact {
            Fact::Size => {
                let sectors = value.parse::<u64>().map_or(0, |it| it / 512);
                if sectors == 0 {
                    return;
                }
                ("size", "size", sectors.to_string())
            }
            Fact::Model => ("device/model", "model", value.replace('_', " ")),
            Fact::Serial => ("device/serial", "serial number", value.to_owned()),
            Fact::Rotational => ("queue/rotational", "kind", value.to_owned()),
        };
        let path = format!("{folder}/{file}");
        let Some(TreeEntry::Text(before)) = self.files.get(&path).cloned() else {
            return self.add(path, value);
        };
        let is_same = match fact {
            // Tools round sizes.
            Fact::Size => {
                let [a, b] = [&before, &value].map(|it| it.parse::<f64>().unwrap_or(0.0));
                (a - b).abs() <= a.max(b) * 0.05
            }
            // Some tools cut names, or put the vendor before them.
            Fact::Model => {
                let [a, b] = [&before, &value].map(|it| it.to_lowercase());
                a.contains(&b) || b.contains(&a)
            }
            Fact::Serial | Fact::Rotational => before == value,
        };
        if is_same {
            if fact == Fact::Model && value.len() > before.len() && value.starts_with(&before) {
                self.files.insert(path, TreeEntry::Text(value));
            }
            return;
        }
        let shown = |text: &str| match fact {
            Fact::Size => {
                let bytes = text.parse::<f64>().unwrap_or(0.0) * 512.0;
                format!("{:.1} GB", bytes / 1e9)
            }
            Fact::Rotational if text == "1" => "rotating".to_owned(),
            Fact::Rotational => "not rotating".to_owned(),
            Fact::Model | Fact::Serial => text.to_owned(),
        };
        let (first, other) = (shown(&before), shown(&value));
        self.note(format!(
            "the text contradicts itself: the {what} of {name} is {first} in one part and {other} \
             in another; the first is taken"
        ));
    }
}
