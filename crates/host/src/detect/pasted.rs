//! Arrays in texts that people paste: outputs of the tools of storage systems, several of them in
//! one text, with quoting marks, prompts, colours and broken lines.
//!
//! Each output becomes the files of sysfs, or the output of a tool, that says the same, and the
//! array is detected in this tree. What a text does not say is missing there: it is guessed and
//! marked. What two parts say differently is a note of the array.

mod blocks;
mod btrfs_work;
mod disks;
mod dmsetup;
mod filesystems;
mod md;
mod md_array;
mod md_files;
mod md_parts;
mod paths;
mod pools;
mod printed;
mod table;
mod text;
mod tree;
mod volumes;

pub(super) use btrfs_work::WORK;
pub(super) use filesystems::MADE_UP_FSID;
pub(super) use text::size_of;

use super::model_choice::model_of_product;
use super::sysroot::Sysroot;
use mirrorball_core::diagnostic::quoted;
use serde_json::Value;
use tree::Tree;

/// The file of the tree with notes about the text.
pub(super) const NOTES: &str = "/pasted/notes";

/// The file of the tree with what to do if there is no array.
pub(super) const HELP: &str = "/pasted/help";

/// Outputs that describe no array, by the beginning of one of their lines, and what to do.
const OTHERS: [(&str, &str); 5] = [
    (
        "ARRAY /dev/md",
        "`mdadm --detail --scan` does not name the members: paste the output of `cat /proc/mdstat` \
         and `lsblk -o NAME,SIZE,ROTA,MODEL`",
    ),
    (
        "--- Logical volume ---",
        "`lvdisplay` does not say where the copies are: paste the output of `lvs -a -o +devices`",
    ),
    (
        "Geom name:",
        "`gmirror list` is not read: write an array file with layout = \"gmirror\", and a \
         [[member]] for each consumer",
    ),
    ("DG Arr Row", CONTROLLER),
    ("Virtual Drive:", CONTROLLER),
];
const CONTROLLER: &str = "a RAID controller chooses the disk of each read by itself; `mirrorball \
                          advise --new` compares layouts of disks without one";
/// Before the model of a disk, as `smartctl` prints it.
const MODELS: [&str; 3] = ["Device Model:", "Model Number:", "Product:"];

/// A part of a text: the output of a tool.
struct Recogniser {
    read: fn(&mut Tree, &[&str]),
    /// The same in JSON, if the tool writes it.
    json: Option<fn(&mut Tree, &Value)>,
}

const fn text(read: fn(&mut Tree, &[&str])) -> Recogniser {
    Recogniser { read, json: None }
}

const fn either(read: fn(&mut Tree, &[&str]), json: fn(&mut Tree, &Value)) -> Recogniser {
    Recogniser { read, json: Some(json) }
}

/// In this order: disks first, by exact facts before rounded ones, then arrays by what says most.
const RECOGNISERS: [Recogniser; 17] = [
    either(blocks::read_places, blocks::read_json_places),
    text(disks::read_others),
    either(disks::read_smartctl, disks::read_json),
    text(disks::read_nvme_list),
    text(md::read_mdstat),
    text(md::read_mdadm),
    either(pools::read_status, pools::read_json),
    text(pools::read_list),
    either(volumes::read_lvs, volumes::read_json),
    text(paths::read_multipath),
    text(dmsetup::read),
    either(paths::read_subsystems, paths::read_json),
    either(blocks::read_lsblk, blocks::read_json),
    text(volumes::read_pvs),
    either(filesystems::read_errors, filesystems::read_json),
    text(btrfs_work::read),
    text(filesystems::read_btrfs),
];

/// The tree that a text describes. If it has no array, it is read again without what may hide one.
pub(super) fn tree(text: &str) -> Sysroot {
    /// Lines as long as terminals are wide.
    const WIDTHS: std::ops::RangeInclusive<usize> = 60..=250;
    let has_array = |tree: &Sysroot| super::detect_all(tree).iter().any(Result::is_ok);
    let lines = text::lines(text);
    let plain = read(&lines);
    if has_array(&plain) {
        return plain;
    }
    let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let is_broken = WIDTHS.contains(&width);
    let joined = is_broken.then(|| text::joined_at(&lines, width));
    let others =
        joined.into_iter().chain([text::uncommented(&lines), text::listed_strings(&lines)]);
    others.map(|lines| read(&lines)).find(has_array).unwrap_or(plain)
}

fn read(lines: &[String]) -> Sysroot {
    let mut tree = Tree::default();
    let values = values(lines);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    read_versions(&mut tree, &lines);
    for recogniser in &RECOGNISERS {
        (recogniser.read)(&mut tree, &lines);
        if let Some(json) = recogniser.json {
            values.iter().for_each(|value| json(&mut tree, value));
        }
    }
    md::check_listed(&mut tree);
    md_files::write(&mut tree);
    printed::add(&mut tree, &lines);
    help(&lines).into_iter().for_each(|help| tree.add(HELP, help));
    Sysroot::in_memory(tree.into_files())
}

/// Help for a text without an array, by an output that it has.
fn help(lines: &[&str]) -> Option<String> {
    let own = |line: &&str| {
        let model = MODELS.iter().find_map(|it| line.trim().strip_prefix(it)).map(str::trim);
        if let Some(model) = model.filter(|model| model_of_product(model).is_some()) {
            let two = quoted(&format!("2*{model}"));
            return Some(format!(
                "a disk is no array: `mirrorball advise --new {two}` compares the layouts of two"
            ));
        }
        let other = OTHERS.iter().find(|(front, _)| line.trim().starts_with(front));
        other.map(|(_, help)| (*help).to_owned())
    };
    lines.iter().find_map(own)
}

/// The values of JSON in a text, from lines that begin with one.
fn values(lines: &[String]) -> Vec<Value> {
    /// Most starts that are tried: each may read the text to its end.
    const STARTS_MAX: usize = 64;
    let mut values = Vec::new();
    let (mut at, mut starts) = (0, 0);
    while at < lines.len() && starts < STARTS_MAX {
        let front = lines[at].trim_start();
        if front.starts_with('{') || front == "[" || front.starts_with("[{") {
            starts += 1;
            // A string may have been broken where a mail breaks lines.
            let rest = lines[at..].join(" ");
            let mut all = serde_json::Deserializer::from_str(&rest).into_iter::<Value>();
            let value = all.next();
            if let Some(Err(error)) = &value
                && error.is_eof()
            {
                values.extend(closed(&rest));
            }
            if let Some(Ok(value)) = value {
                values.push(value);
                let end = all.byte_offset();
                let mut length = 0;
                while at < lines.len() && length < end {
                    length += lines[at].len() + 1;
                    at += 1;
                }
                continue;
            }
        }
        at += 1;
    }
    values
}

/// The value of JSON whose end is lost: up to its last complete object.
fn closed(text: &str) -> Option<Value> {
    let whole = &text[..=text.rfind('}')?];
    let mut open = Vec::new();
    let (mut is_string, mut is_escaped) = (false, false);
    for byte in whole.bytes() {
        match byte {
            b'"' if !is_escaped => is_string = !is_string,
            b'{' if !is_string => open.push('}'),
            b'[' if !is_string => open.push(']'),
            b'}' | b']' if !is_string => drop(open.pop()),
            _ => {}
        }
        is_escaped = byte == b'\\' && !is_escaped;
    }
    let ends: String = open.iter().rev().collect();
    serde_json::from_str(&format!("{whole}{ends}")).ok()
}

/// Versions of the kernel, by `uname` or `/proc/version`, and of OpenZFS.
fn read_versions(tree: &mut Tree, lines: &[&str]) {
    let is_release = |word: &&str| {
        let mut parts = word.split(['.', '-']);
        let mut number = || parts.next().is_some_and(|it| it.parse::<u32>().is_ok());
        number() && number()
    };
    let mut is_uname = false;
    for line in lines.iter().filter(|line| !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let own = match words.as_slice() {
            ["Linux", rest @ ..] => rest,
            all if is_uname => all,
            _ => &[],
        };
        if let Some(release) = own.iter().take(3).find(|word| is_release(word)) {
            tree.add("/proc/sys/kernel/osrelease", *release);
        }
        is_uname = text::command(line).is_some_and(|words| words[0] == "uname");
        let zfs = words.first().and_then(|it| it.strip_prefix("zfs-kmod-"));
        if let Some(version) = zfs.filter(|_| words.len() == 1) {
            tree.add("/sys/module/zfs/version", version);
        }
    }
}

#[cfg(test)]
mod tests;
