//! Arrays of md: `/proc/mdstat`, and `mdadm --detail`, `--detail --scan` and `--examine`.

use super::super::sysroot::base_name;
use super::md_array::{MdArray, MdDevice};
use super::md_parts::add;
use super::text::{command, disk_of, is_disk_name, number_in, size_of};
use super::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// Works of md, as its outputs call them and as sysfs does.
const ACTIONS: [(&str, &str); 6] = [
    ("resync", "resync"),
    ("recovery", "recover"),
    ("recovering", "recover"),
    ("check", "check"),
    ("reshape", "reshape"),
    ("resyncing", "resync"),
];

fn action_in<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<&'static str> {
    // One that waits is `resync=DELAYED` or `resync=PENDING`.
    let mut names = words.into_iter().map(|word| word.split('=').next().unwrap_or(word));
    names.find_map(|word| ACTIONS.iter().find(|it| it.0 == word).map(|it| it.1))
}

/// True for the name of an array: `md0`, `md_d1`.
pub(super) fn is_md_name(name: &str) -> bool {
    let rest = name.strip_prefix("md");
    rest.is_some_and(|rest| rest.starts_with(|it: char| it.is_ascii_digit() || it == '_'))
        && !name.contains(char::is_whitespace)
}

/// A name and what follows it, at the begin of a line, or behind another line joined to it.
fn array_line(line: &str) -> Option<(&str, Vec<&str>)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_name = |at: &usize| {
        let is_behind = words.get(at + 2).is_some_and(|it| ["active", "inactive"].contains(it));
        is_md_name(words[*at]) && words.get(at + 1) == Some(&":") && (*at == 0 || is_behind)
    };
    let at = (0..words.len()).find(is_name)?;
    Some((words[at], words[at + 2..].to_vec()))
}

/// Arrays of `/proc/mdstat`: `md0 : active raid1 sdb1[1] sda1[0](W)`.
pub(super) fn read_mdstat(tree: &mut Tree, lines: &[&str]) {
    for (at, line) in lines.iter().enumerate() {
        let Some((name, own)) = array_line(line) else { continue };
        let ends = |line: &&&str| {
            !line.trim().is_empty()
                && array_line(line).is_none()
                && command(line).is_none()
                && !line.trim_start().starts_with("unused devices")
        };
        let below = lines[at + 1..].iter().take_while(ends);
        let below = below.flat_map(|line| line.split_whitespace());
        let words: Vec<&str> = own.into_iter().chain(below).collect();
        if let Some(array) = of_mdstat(&words) {
            let in_use = array.devices.values().filter(|it| it.state.starts_with("in_sync"));
            let (in_use, up) = (in_use.count() as u64, array.up.unwrap_or(0));
            if in_use > 0 && in_use < up.min(array.devices.len() as u64) {
                tree.note(format!(
                    "the text contradicts itself: {up} members of {name} are up by its counts, and \
                     {in_use} by their flags; the flags are taken"
                ));
            }
            add(tree, name, array);
        }
    }
}

/// The array of the words behind its name.
fn of_mdstat(words: &[&str]) -> Option<MdArray> {
    let mut array =
        MdArray { is_inactive: words.first() == Some(&"inactive"), ..MdArray::default() };
    let is_level = |word: &&&str| {
        let rest = word.strip_prefix("raid");
        rest.is_some_and(|rest| rest.parse::<u64>().is_ok())
            || ["linear", "multipath"].contains(word)
    };
    array.level = words.iter().find(is_level).map_or(String::new(), |it| (*it).to_owned());
    // A container of external metadata has arrays, but is none.
    let is_container = words.iter().any(|it| it.starts_with("external:") && !it.contains('/'));
    if array.level.is_empty() && !array.is_inactive || is_container {
        return None;
    }
    let before = |word: &str| {
        let at = words.iter().position(|it| it.trim_end_matches(',') == word)?;
        words.get(at.checked_sub(1)?).copied()
    };
    let inside = |word: &&&str| word.starts_with('[') && word.ends_with(']') && word.contains('/');
    let counts = words.iter().find(inside).map(|word| word.trim_matches(['[', ']']));
    let counts = counts.and_then(|it| it.split_once('/'));
    let counts = counts.and_then(|(slots, up)| Some((slots.parse().ok()?, up.parse().ok()?)));
    let mut devices: Vec<(u64, &str, &str)> = words.iter().filter_map(|it| md_member(it)).collect();
    devices.sort_unstable();
    let in_use = devices.iter().filter(|it| !is_out(it.2)).count() as u64;
    array.slots = counts.map_or(in_use, |(slots, _)| slots);
    // A replacement counts, too.
    array.up = counts.map(|(slots, up): (u64, u64)| up.min(slots));
    let copies = |kind: &str| before(kind).and_then(|it| it.parse::<u64>().ok());
    let near = copies("near-copies");
    let far = copies("far-copies").or_else(|| copies("offset-copies"));
    array.layout = Some(layout(near, far, copies("offset-copies").is_some()))
        .filter(|_| near.is_some() || far.is_some());
    array.size_kib = before("blocks").and_then(|it| it.parse().ok());
    array.chunk_bytes = before("chunks").or_else(|| before("chunk")).and_then(size_of);
    // The kernel calls a rebuild that waits a resync.
    let is_rebuild = words.contains(&"resync=DELAYED") && array.up < Some(array.slots);
    array.action = if is_rebuild { Some("recover") } else { action_in(words.iter().copied()) };
    array.progress = words.iter().find_map(|word| {
        let (done, all) = word.strip_prefix('(')?.strip_suffix(')')?.split_once('/')?;
        // KiB here, sectors in sysfs.
        Some((done.parse::<u64>().ok()? * 2, all.parse::<u64>().ok()? * 2))
    });
    array.kib_per_s = words
        .iter()
        .find_map(|word| word.strip_prefix("speed=")?.strip_suffix("K/sec")?.parse().ok());
    let map = words.iter().rfind(|word| word.starts_with("[U") || word.starts_with("[_"));
    array.devices = placed(&devices, array.slots, map.map_or("", |it| it.trim_matches(['[', ']'])));
    Some(array)
}

/// True for a member with these flags that has no slot: a spare, a faulty one, or a journal.
fn is_out(flags: &str) -> bool {
    flags.contains(['S', 'F', 'J'])
}

/// The devices of `/proc/mdstat` in their slots. `map` has `U` for each slot that is in use.
fn placed(devices: &[(u64, &str, &str)], slots: u64, map: &str) -> BTreeMap<String, MdDevice> {
    let map: Vec<char> = map.chars().collect();
    let letter = |slot: u64| usize::try_from(slot).ok().and_then(|at| map.get(at).copied());
    // The number of a device that came later may be that of an empty slot.
    let in_use = devices.iter().filter(|it| !is_out(it.2)).count();
    let is_full = in_use <= map.iter().filter(|it| **it == 'U').count();
    let is_placed = |number: u64, flags: &str| {
        number < slots && !is_out(flags) && !(is_full && letter(number) == Some('_'))
    };
    let is_free = |slot: &u64| !devices.iter().any(|it| it.0 == *slot && is_placed(it.0, it.2));
    let mut free: Vec<u64> = (0..slots.min(64)).filter(is_free).collect();
    // A device that came later has a number behind the slots: it has one that is in use, or it is
    // being rebuilt.
    free.sort_by_key(|slot| letter(*slot) == Some('_'));
    let place = |(number, device, flags): &(u64, &str, &str)| {
        let slot = match () {
            () if is_out(flags) => None,
            () if is_placed(*number, flags) => Some(*number),
            () => free.first().copied(),
        };
        free.retain(|other| Some(*other) != slot);
        let is_up = slot.is_some_and(|slot| letter(slot) != Some('_'));
        let state =
            state_words(flags.contains('F'), is_up, flags.contains('W'), flags.contains('R'));
        (base_name(device).to_owned(), MdDevice { slot, state, offset: None })
    };
    devices.iter().map(place).collect()
}

/// The words of sysfs for the state of a member.
fn state_words(
    is_faulty: bool,
    is_up: bool,
    is_write_mostly: bool,
    is_replacement: bool,
) -> String {
    let mut state = vec![match () {
        () if is_faulty => "faulty",
        () if is_up => "in_sync",
        () => "spare",
    }];
    state.extend(is_write_mostly.then_some("write_mostly"));
    state.extend(is_replacement.then_some("replacement"));
    state.join(",")
}

fn layout(near: Option<u64>, far: Option<u64>, is_offset: bool) -> u64 {
    let byte = |copies: Option<u64>| copies.unwrap_or(1).min(255);
    byte(near) | byte(far) << 8 | u64::from(is_offset) << 16
}

/// Number, device and flags of a member such as `sda1[0](W)`.
fn md_member(word: &str) -> Option<(u64, &str, &str)> {
    let (device, rest) = word.split_once('[')?;
    let (number, flags) = rest.split_once(']')?;
    Some((number.parse().ok()?, device, flags)).filter(|_| !device.is_empty())
}

/// `mdadm --detail`, `mdadm --examine`, and the lines `ARRAY …` of `--scan`.
pub(super) fn read_mdadm(tree: &mut Tree, lines: &[&str]) {
    let named = |line: &str| {
        let device = line.trim().strip_suffix(':')?.strip_prefix("/dev/")?;
        (!device.contains(char::is_whitespace)).then(|| device.to_owned())
    };
    let is_version = |line: &&str| line.trim_start().starts_with("Version : ");
    // Without its first line an output begins with the version.
    let is_headless = lines.iter().any(is_version) && !lines.iter().any(|it| named(it).is_some());
    let heading = |line: &str| {
        named(line).or_else(|| (is_headless && is_version(&line)).then(|| "md0".to_owned()))
    };
    if is_headless {
        tree.note("the text does not name the array of `mdadm --detail`: taken for md0".to_owned());
    }
    for (at, line) in lines.iter().enumerate() {
        let Some(device) = heading(line) else { continue };
        let below: Vec<&str> = lines[at + 1..]
            .iter()
            .copied()
            .take_while(|line| heading(line).is_none() && command(line).is_none())
            .collect();
        let key = |name: &str| {
            let value = |line: &&str| {
                let (key, value) = line.split_once(" : ")?;
                (key.trim() == name).then(|| value.trim().to_owned())
            };
            below.iter().find_map(value)
        };
        // Metadata 0.90 has the name of later ones for the UUID of the array.
        let of_member = key("Magic").and_then(|_| key("UUID"));
        match key("Array UUID").or(of_member) {
            Some(uuid) => examined(tree, &device, &uuid, &below, &key),
            None if key("Raid Level").is_some_and(|level| level != "container") => {
                let (name, array) = (name_of(&device), detailed(&below, &key));
                if key("State").is_some_and(|state| state.contains("FAILED")) {
                    tree.note(format!("mdadm calls {name} FAILED: some data have no copy left"));
                }
                add(tree, &name, array);
            }
            None => {}
        }
    }
    let text = lines.join(" ");
    for part in text.split("ARRAY /dev/").skip(1) {
        scanned(tree, part);
    }
}

/// The name of the kernel: `md0` of `md/0`; below `/dev`, where it is not known: `md/data`.
fn name_of(device: &str) -> String {
    let name = base_name(device).trim_matches(|it: char| !it.is_ascii_alphanumeric());
    match () {
        () if is_md_name(name) => name.to_owned(),
        () if name.starts_with(|it: char| it.is_ascii_digit()) => format!("md{name}"),
        () => format!("md/{name}"),
    }
}

/// The facts that all outputs of mdadm have in one way.
fn common(key: &dyn Fn(&str) -> Option<String>) -> MdArray {
    let number = |name: &str| key(name).and_then(|value| number_in(&value));
    let layout_text = key("Layout").unwrap_or_default();
    let copies = |name: &str| {
        let rest = layout_text.split([',', ' ']).find_map(|it| it.strip_prefix(name))?;
        number_in(rest)
    };
    let (near, offset) = (copies("near="), copies("offset="));
    let far = copies("far=").or(offset);
    // Old versions of `--examine` print sectors, but the size behind them is right.
    let size = key("Array Size").unwrap_or_default();
    let gib = size.split_once(" GiB").and_then(|it| it.0.rsplit('(').next()?.parse::<f64>().ok());
    let is_sectors = |it: u64| gib.is_some_and(|gib| it as f64 > gib * 1.5 * 1024.0 * 1024.0);
    MdArray {
        level: key("Raid Level").unwrap_or_default(),
        slots: number("Raid Devices").unwrap_or(0),
        size_kib: number_in(&size).map(|it| if is_sectors(it) { it / 2 } else { it }),
        uuid: key("Array UUID").or_else(|| key("UUID")),
        layout: (near.or(far).is_some()).then(|| layout(near, far, offset.is_some())),
        chunk_bytes: key("Chunk Size").as_deref().and_then(size_of),
        ..MdArray::default()
    }
}

fn detailed(below: &[&str], key: &dyn Fn(&str) -> Option<String>) -> MdArray {
    let number = |name: &str| key(name).and_then(|value| number_in(&value));
    let mut array = common(key);
    array.member_kib = number("Used Dev Size");
    let state = key("State").unwrap_or_default();
    array.is_inactive = ["inactive", "Not Started"].iter().any(|it| state.contains(it));
    array.has_slots = true;
    array.action = action_in(state.split([',', ' ']));
    let percent = ["Rebuild", "Resync", "Check", "Reshape"]
        .iter()
        .find_map(|work| number(&format!("{work} Status")));
    array.progress = percent.map(|percent| (percent, 100));
    let is_heading = |line: &&&str| line.trim_start().starts_with("Number ");
    let rows = below.iter().skip_while(|line| !is_heading(line)).skip(1);
    let text = rows.copied().collect::<Vec<_>>().join(" ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut words = &words[..];
    let mut up = 0;
    // Number, major, minor and slot; then words of the state, and the device if it is there.
    while let [_, major, minor, slot, rest @ ..] = words {
        let is_row = number_in(major).is_some() && number_in(minor).is_some();
        let is_next = |at: usize| {
            let number = |word: &&str| *word == "-" || word.parse::<u64>().is_ok();
            rest.len() >= at + 4 && rest[at..at + 4].iter().all(number)
        };
        if !is_row {
            break;
        }
        let length = (0..rest.len()).find(|at| is_next(*at)).unwrap_or(rest.len());
        let named = rest[..length].iter().find_map(|it| it.strip_prefix("/dev/"));
        let named = named.filter(|it| !it.starts_with("block/"));
        let mapped = |it: &str| it.strip_prefix("mapper/").map(|name| format!("dm-{name}"));
        let named = named.map(|it| mapped(it).unwrap_or_else(|| base_name(it).to_owned()));
        let device = named.or_else(|| disk_by(major, minor));
        let is = |word: &str| rest[..length].contains(&word);
        let is_write_mostly = is("writemostly") || is("write-mostly");
        let slot = slot.parse().ok().filter(|_| !is("faulty"));
        // A second device in a slot replaces the first.
        let is_second = slot.is_some() && array.devices.values().any(|it| it.slot == slot);
        let slot = slot.filter(|_| !is_second);
        let is_replacement = is_second || is("replacement");
        let state = state_words(is("faulty"), is("sync"), is_write_mostly, is_replacement);
        up += u64::from(slot.is_some() && is("sync"));
        if let Some(device) = device {
            array.devices.insert(device, MdDevice { slot, state, offset: None });
        }
        words = &rest[length..];
    }
    array.up = Some(up).filter(|_| !array.devices.is_empty());
    array
}

/// The disk or partition of the SCSI layer, or the mapping, that has this number.
fn disk_by(major: &str, minor: &str) -> Option<String> {
    let minor: u32 = minor.parse().ok()?;
    match major {
        "8" => {
            let disk = char::from_u32(u32::from('a') + minor / 16)?;
            let part = Some(minor % 16).filter(|it| *it > 0).map(|it| it.to_string());
            Some(format!("sd{disk}{}", part.unwrap_or_default()))
        }
        "253" | "254" => Some(format!("dm-{minor}")),
        _ => None,
    }
}

/// A member of an array by `mdadm --examine`: with the others of the same UUID it makes the array.
fn examined(
    tree: &mut Tree,
    device: &str,
    uuid: &str,
    below: &[&str],
    key: &dyn Fn(&str) -> Option<String>,
) {
    let is_old =
        key("Version").is_some_and(|version| version.trim_start_matches('0').starts_with(".9"));
    let number = |name: &str| key(name).and_then(|value| number_in(&value));
    let found = tree.md.iter().find(|(_, array)| array.uuid.as_deref() == Some(uuid));
    let given = key("Name").unwrap_or_default();
    let given = given.split_whitespace().next().unwrap_or_default().rsplit(':').next();
    let name = found.map(|(name, _)| name.clone());
    let minor = key("Preferred Minor");
    let given = given.filter(|it| !it.is_empty()).or(minor.as_deref());
    let name = name.unwrap_or_else(|| name_of(given.unwrap_or("0")));
    let mut array = common(key);
    // The size of a member is in sectors, but in KiB of metadata 0.90.
    let parts = if is_old { 1 } else { 2 };
    array.member_kib =
        number("Used Dev Size").or_else(|| number("Avail Dev Size")).map(|it| it / parts);
    let role = key("Device Role").unwrap_or_default();
    let own = below.iter().find_map(|line| line.trim().strip_prefix("this "));
    let own =
        own.filter(|line| line.contains("active")).and_then(|line| line.split_whitespace().nth(3));
    let mut slot = own.or(role.strip_prefix("Active device ")).and_then(number_in);
    if role.is_empty() && !is_old {
        // The end of the text is lost.
        let others = tree.md.get(&name).map(|array| &array.devices);
        let is_free =
            |slot: &u64| others.is_none_or(|it| it.values().all(|it| it.slot != Some(*slot)));
        slot = (0..array.slots.min(64)).find(is_free);
    }
    let state = if slot.is_some() { "in_sync" } else { "spare" };
    let member = MdDevice { slot, state: state.to_owned(), offset: number("Data Offset") };
    array.devices.insert(base_name(device).to_owned(), member);
    add(tree, &name, array);
}

/// Devices in the slots from 0 on, all of them in sync.
fn in_slots<'a>(devices: impl Iterator<Item = &'a str>) -> BTreeMap<String, MdDevice> {
    let member = |(slot, device): (u64, &str)| {
        let state = "in_sync".to_owned();
        (device.to_owned(), MdDevice { slot: Some(slot), state, offset: None })
    };
    (0..).zip(devices).map(member).collect()
}

/// `md0 level=raid1 num-devices=2 … devices=/dev/sda1,/dev/sdb1`, as `--verbose` prints.
fn scanned(tree: &mut Tree, part: &str) {
    let words: Vec<&str> = part.split_whitespace().collect();
    let value = |key: &str| words.iter().find_map(|word| word.strip_prefix(key));
    let (Some(name), Some(level)) = (words.first(), value("level=")) else { return };
    let devices = value("devices=").unwrap_or_default().split(',').filter(|it| !it.is_empty());
    let array = MdArray {
        level: level.to_owned(),
        slots: value("num-devices=").and_then(number_in).unwrap_or(0),
        devices: in_slots(devices.map(base_name)),
        ..MdArray::default()
    };
    add(tree, &name_of(name), array);
}

/// An array of which only the devices below it are known, as `lsblk` shows it.
pub(super) fn add_plain(
    tree: &mut Tree,
    name: &str,
    level: &str,
    size_kib: Option<u64>,
    below: &[String],
) {
    name_mappings(tree, name, below);
    let array = MdArray {
        level: level.to_owned(),
        size_kib,
        devices: in_slots(below.iter().map(String::as_str)),
        ..MdArray::default()
    };
    add(tree, name, array);
}

/// Renames the members of an array that `/proc/mdstat` has by their numbers to the mappings `below`
/// it, where the text does not say which is which.
fn name_mappings(tree: &mut Tree, name: &str, below: &[String]) {
    let number = |device: &str| device.strip_prefix("dm-").map(|it| it.parse::<u32>().ok());
    let below: Vec<String> = below.iter().map(|it| tree.kernel_name(it)).collect();
    let is_named = |device: &String| matches!(number(device), Some(None));
    let Some(array) = tree.md.get_mut(name) else { return };
    let has_numbers = array.devices.keys().all(|it| matches!(number(it), Some(Some(_))));
    if below.is_empty()
        || !has_numbers
        || array.devices.len() != below.len()
        || !below.iter().all(is_named)
    {
        return;
    }
    let mut numbered: Vec<(String, MdDevice)> =
        std::mem::take(&mut array.devices).into_iter().collect();
    numbered.sort_by_key(|(device, _)| number(device));
    let (first, mapping) = (numbered[0].0.clone(), below[0].trim_start_matches("dm-").to_owned());
    array.devices = below.into_iter().zip(numbered).map(|(device, (_, it))| (device, it)).collect();
    tree.note(format!(
        "the text does not say which mapping is {first}: taken for {mapping}, and the others in \
         their order; `lsblk -o NAME,KNAME,SIZE,ROTA,MODEL` says it"
    ));
}

/// Notes the members whose disks are not among those that `lsblk` lists.
pub(super) fn check_listed(tree: &mut Tree) {
    if tree.listed.is_empty() {
        return;
    }
    let mut notes = Vec::new();
    for (name, array) in &tree.md {
        let in_use = array.devices.iter().filter(|(_, it)| it.state.starts_with("in_sync"));
        let disks = in_use.map(|(device, _)| disk_of(device)).filter(|disk| is_disk_name(disk));
        let is_listed_as_disk =
            |disk: &&str| !["dm-", "loop"].iter().any(|it| disk.starts_with(it));
        let disks: BTreeSet<&str> = disks.filter(is_listed_as_disk).collect();
        let missing = disks.iter().filter(|disk| !tree.listed.contains(**disk));
        let missing: Vec<&str> = missing.copied().collect();
        // A shorter listing is of some disks.
        if !missing.is_empty() && tree.listed.len() >= disks.len() {
            let missing = missing.join(", ");
            notes.push(format!(
                "the text contradicts itself: lsblk does not list {missing}, of {name}; is it of \
                 another machine?"
            ));
        }
    }
    notes.into_iter().for_each(|note| tree.note(note));
}
