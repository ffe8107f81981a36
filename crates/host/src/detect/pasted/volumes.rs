//! Volumes of LVM: `lvs -a -o +devices` and `pvs`, with any columns, as text or JSON.

use super::super::sysroot::base_name;
use super::table::{TableRow, rows};
use super::text::{command, size_of};
use super::tree::{Fact, Tree, mapping_name};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Default)]
struct LogicalVolume {
    attributes: String,
    size_bytes: Option<u64>,
    kind: Option<String>,
    pool: Option<String>,
    percent: Option<f64>,
    /// Physical or logical volumes that it lies on.
    below: Vec<String>,
}

type VolumeName = (String, String);

/// Headings that the second half of a broken heading has.
const HEADINGS: [&str; 10] =
    ["Attr", "Type", "LSize", "Data%", "Meta%", "Move", "Log", "Cpy%Sync", "Convert", "Devices"];

fn is_attributes(word: &&str) -> bool {
    let is_letter = |it: u8| it.is_ascii_alphabetic() || it == b'-';
    (9..=10).contains(&word.len())
        && word.bytes().all(is_letter)
        && word.bytes().filter(|it| *it == b'-').count() >= 3
}

/// True if a line begins a row: it has attributes, or the row before it has, and it is no end of a
/// broken line.
fn begins(before: &[&str], words: &[&str]) -> bool {
    let is_number = words.first().is_some_and(|it| it.parse::<f64>().is_ok());
    let is_of_heading = words.iter().any(|it| HEADINGS.contains(it));
    let has_devices = words.len() > 1 && words.last().is_some_and(|it| it.ends_with(')'));
    let is_open = before.last().is_some_and(|it| !it.ends_with(')'));
    let at = words.iter().position(is_attributes);
    let is_complete = before.iter().any(is_attributes);
    match at {
        Some(at) => at > 0,
        None if is_number || is_of_heading => false,
        None if has_devices && !(is_complete && is_open) => true,
        None => words.len() > 2 && (is_complete || before.is_empty()),
    }
}

pub(super) fn read_lvs(tree: &mut Tree, lines: &[&str]) {
    let is_heading = |words: &[&str]| {
        words.contains(&"LV")
            && ["VG", "Devices"].iter().any(|it| words.contains(it))
            && words.iter().all(|it| !it.starts_with(|it: char| it.is_lowercase()))
    };
    let found = rows(lines, is_heading, begins);
    let physical: Vec<(String, String)> = physical_volumes(lines)
        .filter_map(|row| Some((row.get("VG")?.to_owned(), row.get("PV")?.to_owned())))
        .collect();
    let mut rows: Vec<TableRow> = found.into_iter().map(|(_, row)| row).collect();
    if rows.is_empty() {
        rows = rows_without_heading(lines);
    }
    let group = group_in_command(lines).unwrap_or("VG");
    if group == "VG" && rows.iter().any(|row| row.get("VG").is_none()) {
        tree.note("the text does not name the volume group, which VG stands for".to_owned());
    }
    add_volumes(tree, rows, group, &physical);
}

/// Rows of `lvs -a -o +devices` in a text that lost the heading: `LV VG Attr LSize … Devices`.
fn rows_without_heading(lines: &[&str]) -> Vec<TableRow> {
    let outputs = lines.iter().filter(|line| command(line).is_none());
    let words: Vec<&str> = outputs.flat_map(|line| line.split_whitespace()).collect();
    let is_size = |word: &str| size_of(word.trim_start_matches('<')).is_some();
    let begins = |at: &usize| {
        matches!(words[*at..], [_, _, attributes, size, ..]
        if attributes.len() == 10 && is_attributes(&attributes) && is_size(size))
    };
    let at: Vec<usize> = (0..words.len()).filter(begins).collect();
    let row = |(index, begin): (usize, &usize)| {
        let end = at.get(index + 1).copied().unwrap_or(words.len());
        let own = &words[*begin..end];
        let percent = own[4..].iter().find(|word| word.parse::<f64>().is_ok());
        let devices = own[4..].iter().find(|word| word.ends_with(')'));
        let cells = [
            ("LV", Some(&own[0])),
            ("VG", Some(&own[1])),
            ("Attr", Some(&own[2])),
            ("LSize", Some(&own[3])),
            ("Cpy%Sync", percent),
            ("Devices", devices),
        ];
        let cells = cells.into_iter().filter_map(|(heading, value)| Some((heading, value?)));
        TableRow::of(cells.map(|(heading, value)| (heading.to_owned(), (*value).to_owned())))
    };
    at.iter().enumerate().map(row).collect()
}

/// The group that `lvs` was asked for: its last word, if that is no option.
fn group_in_command<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let words = lines.iter().filter_map(|line| command(line)).find(|words| words[0] == "lvs")?;
    let [.., before, last] = words.as_slice() else { return None };
    let is_value = ["-o", "-O", "-S"].contains(before);
    let last = last.trim_matches('`');
    (!is_value && !last.starts_with(['-', '+'])).then(|| last.split('/').next().unwrap_or(last))
}

/// The rows of `pvs`.
fn physical_volumes(lines: &[&str]) -> impl Iterator<Item = TableRow> {
    let is_heading = |words: &[&str]| words.contains(&"PV") && words.contains(&"PSize");
    let begins = |_: &[&str], words: &[&str]| words.iter().any(|word| word.starts_with("/dev/"));
    rows(lines, is_heading, begins).into_iter().map(|(_, row)| row)
}

/// `pvs`: the sizes of physical volumes.
pub(super) fn read_pvs(tree: &mut Tree, lines: &[&str]) {
    for row in physical_volumes(lines) {
        let path = row.get("PV").and_then(|path| path.strip_prefix("/dev/"));
        let bytes = row.get("PSize").and_then(|size| size_of(size.trim_start_matches('<')));
        if let (Some(name), Some(bytes)) = (path.filter(|it| !it.contains('/')), bytes) {
            tree.say(name, Fact::Size, &bytes.to_string());
        }
    }
}

/// `lvs --reportformat json`.
pub(super) fn read_json(tree: &mut Tree, value: &Value) {
    const KEYS: [(&str, &str); 8] = [
        ("lv_name", "LV"),
        ("vg_name", "VG"),
        ("lv_attr", "Attr"),
        ("lv_size", "LSize"),
        ("segtype", "Type"),
        ("pool_lv", "Pool"),
        ("copy_percent", "Cpy%Sync"),
        ("devices", "Devices"),
    ];
    let reports = value.get("report").and_then(Value::as_array).into_iter().flatten();
    let volumes = reports.filter_map(|it| it.get("lv")?.as_array()).flatten();
    let row = |volume: &Value| {
        let cell = |(key, heading): &(&str, &str)| {
            let value = volume.get(*key)?.as_str()?;
            Some(((*heading).to_owned(), value.to_owned()))
        };
        TableRow::of(KEYS.iter().filter_map(cell))
    };
    add_volumes(tree, volumes.map(row).collect(), "VG", &[]);
}

/// Adds the volumes of `rows`, in `group` where these have none. `physical` has the groups of
/// physical volumes, and their paths.
fn add_volumes(tree: &mut Tree, rows: Vec<TableRow>, group: &str, physical: &[(String, String)]) {
    let mut volumes: BTreeMap<VolumeName, LogicalVolume> = BTreeMap::new();
    for row in rows {
        let Some(name) = row.get("LV") else { continue };
        let group = row.get("VG").unwrap_or(group);
        let name = name.trim_matches(['[', ']']).to_owned();
        let volume = volumes.entry((group.to_owned(), name)).or_default();
        let size = row.get("LSize").and_then(|size| size_of(size.trim_start_matches('<')));
        volume.size_bytes = volume.size_bytes.or(size);
        if let Some(attributes) = row.get("Attr") {
            attributes.clone_into(&mut volume.attributes);
        }
        let text = |heading: &str| row.get(heading).map(str::to_owned);
        volume.kind = volume.kind.take().or_else(|| text("Type"));
        volume.pool = volume.pool.take().or_else(|| text("Pool"));
        // Where blanks are gone the only percentage of a RAID volume may stand below another.
        let is_raid = volume.attributes.starts_with(['r', 'R']);
        let headings: &[&str] = match is_raid {
            true => &["Cpy%Sync", "Copy%", "Data%", "Meta%"],
            false => &["Cpy%Sync", "Copy%"],
        };
        let percent = headings.iter().find_map(|heading| row.get(heading));
        volume.percent =
            volume.percent.or(percent.and_then(|it| it.replace(',', ".").parse().ok()));
        // The data of an image with dm-integrity.
        let origin = row.get("Origin").map(|it| it.trim_matches(['[', ']']));
        let origin = origin.filter(|it| it.ends_with("_iorig"));
        let devices = row.get("Devices").or(origin).unwrap_or_default();
        let devices = devices.split([',', ' ']).filter(|it| !it.is_empty());
        for device in devices.map(|it| it.split('(').next().unwrap_or(it).to_owned()) {
            if !volume.below.contains(&device) {
                volume.below.push(device);
            }
        }
    }
    let names: Vec<VolumeName> = volumes.keys().cloned().collect();
    for name in &names {
        place_images(tree, &mut volumes, name, physical);
    }
    for name in volumes.keys() {
        add_volume(tree, &volumes, name);
    }
}

/// Names the images of a RAID volume, and the physical volumes that these are taken to be on, if
/// the text does not say where they are.
fn place_images(
    tree: &mut Tree,
    volumes: &mut BTreeMap<VolumeName, LogicalVolume>,
    (group, name): &VolumeName,
    physical: &[(String, String)],
) {
    let image = |number: usize| (group.clone(), format!("{name}_rimage_{number}"));
    let mut count = (0..).take_while(|number| volumes.contains_key(&image(*number))).count();
    let Some(volume) = volumes.get_mut(&(group.clone(), name.clone())) else { return };
    // `lvs` without -a does not list the images.
    let is_hidden = count == 0 && volume.attributes.starts_with(['r', 'R']);
    if is_hidden {
        count = if volume.kind.as_deref() == Some("raid10") { 4 } else { 2 };
    }
    if count < 2 || !volume.below.is_empty() {
        return;
    }
    volume.below = (0..count).map(|number| image(number).1).collect();
    let mut own = physical.iter().filter(|(of, _)| of == group);
    for number in 0..count {
        let mut place = image(number);
        let origin = volumes.get(&place).and_then(|image| image.below.first());
        if let Some(origin) = origin.filter(|it| it.ends_with("_iorig")) {
            place = (group.clone(), origin.clone());
        }
        let place = volumes.entry(place).or_default();
        if place.below.is_empty() {
            place.below.extend(own.next().map(|(_, path)| path.clone()));
        }
    }
    let what = match is_hidden {
        true => format!(
            "of how many images {group}/{name} is, and on which disks: taken for {count}, on"
        ),
        false => format!("on which disks {group}/{name} is: taken for"),
    };
    tree.note(format!(
        "the text does not say {what} the first of its group; `lvs -a -o +devices` says it"
    ));
}

/// The name of a volume in the device mapper: hyphens within a name are doubled.
fn mapped_name(group: &str, name: &str) -> String {
    format!("{}-{}", group.replace('-', "--"), name.replace('-', "--"))
}

fn add_volume(tree: &mut Tree, volumes: &BTreeMap<VolumeName, LogicalVolume>, name: &VolumeName) {
    let Some(volume) = volumes.get(name) else { return };
    let mapped = mapped_name(&name.0, &name.1);
    let device = |below: &String| match below.strip_prefix("/dev/mapper/") {
        Some(name) => mapping_name(name),
        None if below.starts_with("/dev/") => base_name(below).to_owned(),
        None => format!("dm-{}", mapped_name(&name.0, below)),
    };
    // Of an image without a row nothing is known.
    let is_gone = |below: &String| {
        ["unknown", "["].iter().any(|it| below.starts_with(it))
            || below.contains("_rimage_") && !volumes.contains_key(&(name.0.clone(), below.clone()))
    };
    let mut below: Vec<String> =
        volume.below.iter().filter(|it| !is_gone(it)).map(device).collect();
    if below.is_empty() {
        below.extend(volume.pool.iter().map(device));
    }
    let folder = tree.mapped(&mapped, "LVM-", &below);
    if let Some(bytes) = volume.size_bytes {
        tree.add(format!("{folder}/size"), (bytes / 512).to_string());
    }
    let images: Vec<&String> = volume.below.iter().filter(|it| it.contains("_rimage_")).collect();
    if !images.is_empty() {
        add_raid(tree, volumes, name, volume, &images);
    }
}

/// The lines of `dmsetup table` and `status` of a RAID volume.
fn add_raid(
    tree: &mut Tree,
    volumes: &BTreeMap<VolumeName, LogicalVolume>,
    name: &VolumeName,
    volume: &LogicalVolume,
    images: &[&String],
) {
    let image = |image: &str| volumes.get(&(name.0.clone(), image.to_owned()));
    let sizes = image(images[0]).and_then(|image| image.size_bytes).zip(volume.size_bytes);
    let level = match volume.kind.as_deref() {
        Some(kind) if kind.starts_with("raid") => kind.to_owned(),
        _ => guessed_level(tree, name, sizes, images.len()),
    };
    let mut flags = String::new();
    let mut health = String::new();
    for (index, own) in images.iter().enumerate() {
        let found = image(own);
        let attributes = found.map_or("", |image| image.attributes.as_str());
        if attributes.as_bytes().get(8) == Some(&b'w') {
            flags += &format!(" write_mostly {index}");
        }
        let is_on_disk = |it: &LogicalVolume| it.below.iter().any(|it| it.contains("/dev/"));
        let is_unknown = |it: &LogicalVolume| it.below.iter().any(|it| it.contains("unknown"));
        // LVM puts a target that only fails in the place of an image that is gone.
        let is_gone = found.is_some_and(|it| {
            it.kind.as_deref() == Some("error")
                || attributes.starts_with('v')
                || !is_on_disk(it) && is_unknown(it)
        });
        health.push(match () {
            () if is_gone => 'D',
            () if attributes.starts_with('I') => 'a',
            () => 'A',
        });
    }
    let mapped = mapped_name(&name.0, &name.1);
    let parameters = 1 + flags.split_whitespace().count();
    let devices = " -".repeat(images.len() * 2);
    let count = images.len();
    let line = format!("{mapped}: 0 1 raid {level} {parameters} 0{flags} {count}{devices}\n");
    tree.append("/tools/dmsetup-table", &line);
    let percent = volume.percent.unwrap_or(100.0).clamp(0.0, 100.0);
    let action = match () {
        () if percent >= 100.0 => "idle",
        () if health.contains('a') => "recover",
        () => "resync",
    };
    let done = (percent * 100.0) as u64;
    let line = format!("{mapped}: 0 1 raid {level} {count} {health} {done}/10000 {action} 0 0 -\n");
    tree.append("/tools/dmsetup-status", &line);
}

/// The level of a RAID volume by its size and that of its images.
fn guessed_level(
    tree: &mut Tree,
    name: &VolumeName,
    sizes: Option<(u64, u64)>,
    count: usize,
) -> String {
    let ratio = sizes.map(|(image, volume)| volume as f64 / (image as f64).max(1.0));
    let is = |value: f64| ratio.is_none_or(|ratio| (ratio - value).abs() < 0.1);
    let all = count as f64;
    let (level, is_sure) = match () {
        () if is(1.0) => ("raid1", ratio.is_some()),
        () if is(all) => ("raid0", true),
        () if is(all / 2.0) => ("raid10", count != 4),
        () if is(all - 1.0) => ("raid5_ls", true),
        () if is(all - 2.0) => ("raid6_zr", true),
        () => ("raid1", false),
    };
    if !is_sure {
        let (group, name) = name;
        tree.note(format!(
            "the text has no level of {group}/{name}: taken for {level}; `lvs -o +segtype` says it"
        ));
    }
    level.to_owned()
}
