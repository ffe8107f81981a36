//! `dmsetup table` and `dmsetup status`: RAID volumes of LVM, and multipath.
//!
//! Their lines are kept as the tool prints them, with the names of disks in the place of numbers.
//! The numbers of mappings are not in them: images of a RAID volume are known by their names.

use super::paths::SELECTORS;
use super::text::command;
use super::tree::Tree;

pub(super) fn read(tree: &mut Tree, lines: &[&str]) {
    let outputs = lines.iter().filter(|line| command(line).is_none());
    let words: Vec<&str> = outputs.flat_map(|line| line.split_whitespace()).collect();
    // Name, first sector, length and kind; lines may be broken.
    let begins = |at: &usize| match words[*at..] {
        [name, "0", length, kind, ..] => {
            let name = name.strip_suffix(':').unwrap_or_default();
            let is_known = ["linear", "raid", "multipath"].contains(&kind);
            !name.is_empty() && !name.contains('/') && length.parse::<u64>().is_ok() && is_known
        }
        _ => false,
    };
    let at: Vec<usize> = (0..words.len()).filter(begins).collect();
    for (index, begin) in at.iter().enumerate() {
        let end = at.get(index + 1).copied().unwrap_or(words.len());
        let [name, _, length, kind, own @ ..] = &words[*begin..end] else { continue };
        let (name, length) = (name.trim_end_matches(':'), length.parse().unwrap_or(0));
        match *kind {
            "linear" if name.contains("_rimage_") => {
                let disks: Vec<String> = own.first().and_then(|it| disk(it)).into_iter().collect();
                add(tree, name, "LVM-", &disks, length);
            }
            "raid" => add_raid(tree, name, own, length),
            "multipath" => {
                let paths: Vec<String> = own.iter().filter_map(|word| disk(word)).collect();
                add(tree, name, "mpath-", &paths, length);
                let is_table = own.iter().any(|word| SELECTORS.contains(word));
                let named = own.iter().map(|word| match disk(word) {
                    Some(disk) => format!(" pasted:{disk}"),
                    None => format!(" {word}"),
                });
                let named: String = named.collect();
                keep(tree, is_table, &format!("{name}: 0 {length} multipath{named}"));
            }
            _ => {}
        }
    }
}

/// A RAID volume: `raid1 3 0 region_size 4096 2 253:2 253:3 …`, or `raid1 2 AA 4096/4096 idle …`.
fn add_raid(tree: &mut Tree, name: &str, own: &[&str], length: u64) {
    let Some(count) = own.get(1).and_then(|it| it.parse::<usize>().ok()) else { return };
    let is_health = |word: &&&str| word.bytes().all(|it| b"AaD".contains(&it));
    let health = own.get(2).filter(is_health).filter(|it| it.len() == count);
    // Behind the parameters.
    let images = match health {
        Some(_) => Some(count),
        None => own.get(count.saturating_add(2)).and_then(|it| it.parse().ok()),
    };
    let Some(images) = images.filter(|count| (1..=64).contains(count)) else { return };
    let images: Vec<String> = (0..images).map(|it| format!("dm-{name}_rimage_{it}")).collect();
    for image in &images {
        tree.mapped(image.trim_start_matches("dm-"), "LVM-", &[]);
    }
    add(tree, name, "LVM-", &images, length);
    keep(tree, health.is_none(), &format!("{name}: 0 {length} raid {}", own.join(" ")));
}

fn add(tree: &mut Tree, name: &str, uuid: &str, below: &[String], sectors: u64) {
    let folder = tree.mapped(name, uuid, below);
    tree.add(format!("{folder}/size"), sectors.to_string());
}

fn keep(tree: &mut Tree, is_table: bool, line: &str) {
    let file = if is_table { "/tools/dmsetup-table" } else { "/tools/dmsetup-status" };
    tree.append(file, &format!("{line}\n"));
}

/// The name of a disk of SCSI or a partition of it, or of an array of md, by its number.
fn disk(number: &str) -> Option<String> {
    let (major, minor) = number.split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    let block = match major {
        8 => 0,
        65..=71 => major - 64,
        128..=135 => major - 120,
        9 => return Some(format!("md{minor}")),
        _ => return None,
    };
    let (mut index, partition) = (block * 16 + minor / 16, minor % 16);
    let mut letters = String::new();
    loop {
        letters.insert(0, char::from(b'a' + (index % 26) as u8));
        match index / 26 {
            0 => break,
            rest => index = rest - 1,
        }
    }
    let partition = if partition == 0 { String::new() } else { partition.to_string() };
    Some(format!("sd{letters}{partition}"))
}

#[cfg(test)]
mod tests {
    use super::disk;

    #[test]
    fn numbers_of_disks_have_their_names() {
        for (number, name) in [
            ("8:0", Some("sda")),
            ("8:17", Some("sdb1")),
            ("65:160", Some("sdaa")),
            ("128:0", Some("sddy")),
            ("9:127", Some("md127")),
            ("253:3", None),
            ("x", None),
        ] {
            assert_eq!(disk(number).as_deref(), name, "{number}");
        }
    }
}
