//! Pasted text without what terminals, mails and pages put around it.

use std::borrow::Cow;

/// The lines of a text: without colours, quoting marks and marks of code, with blanks for tabs.
pub(super) fn lines(text: &str) -> Vec<String> {
    let mut plain = without_tags(&without_colours(&decoded(text)));
    for mark in ["```", "**", "<pre>", "</pre>", "<code>"] {
        plain = plain.replace(mark, "");
    }
    let entities = [("</code>", ""), ("&gt;", ">"), ("&lt;", "<"), ("&nbsp;", " "), ("&amp;", "&")];
    for (entity, plain_text) in entities {
        plain = plain.replace(entity, plain_text);
    }
    let mut lines: Vec<String> = plain.replace("\r\n", "\n").lines().map(unquoted).collect();
    // A bar is a mark of quoting only if all lines have it: tools draw trees with it.
    let is_barred = |line: &String| line.is_empty() || line.starts_with("| ") || line == "|";
    if lines.iter().any(|line| !line.is_empty()) && lines.iter().all(is_barred) {
        let inner = |line: &String| line.strip_prefix("| ").unwrap_or_default().to_owned();
        lines = lines.iter().map(inner).collect();
    }
    // Some pages put a blank line behind each.
    let is_spaced = lines.len() > 4 && lines.iter().skip(1).step_by(2).all(String::is_empty);
    if is_spaced {
        lines.retain(|line| !line.is_empty());
    }
    lines
}

/// The text of a mail as it was written: `=3D` stands for a sign, and a sign at its end joins a
/// line to the next.
fn decoded(text: &str) -> Cow<'_, str> {
    if !["=3D", "=20\n", "=20\r\n", "=E2=94", "=C2=A0"].iter().any(|it| text.contains(it)) {
        return Cow::Borrowed(text);
    }
    let joined = text.replace("=\r\n", "").replace("=\n", "");
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut bytes: Vec<u8> = Vec::new();
    let mut rest = joined.as_bytes();
    while let [first, after @ ..] = rest {
        let code = match after {
            [a, b, ..] if *first == b'=' => digit(*a).zip(digit(*b)).map(|(a, b)| a * 16 + b),
            _ => None,
        };
        let byte = code.and_then(|code| u8::try_from(code).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

/// The text without tags of forums, such as `[CODE]` and `[COLOR=#000000]`.
fn without_tags(text: &str) -> String {
    const TAGS: [&str; 8] =
        ["code", "color", "indent", "quote", "font", "size", "spoiler", "noparse"];
    let mut plain = String::new();
    let mut rest = text;
    while let Some((front, behind)) = rest.split_once('[') {
        plain += front;
        let tag = behind.split_once(']').filter(|(tag, _)| {
            let name = tag.trim_start_matches('/').split('=').next().unwrap_or_default();
            TAGS.contains(&name.to_lowercase().as_str())
        });
        rest = tag.map_or(behind, |(_, behind)| behind);
        plain += if tag.is_some() { "" } else { "[" };
    }
    plain + rest
}

/// Lines without a mark of a comment before them, as scripts and notes keep outputs.
pub(super) fn uncommented(lines: &[String]) -> Vec<String> {
    let inner = |line: &String| {
        let rest = line.trim_start().trim_start_matches(['#', '+', '*']);
        rest.strip_prefix(' ').unwrap_or(rest).to_owned()
    };
    lines.iter().map(inner).collect()
}

/// The strings of a list, as programs print the lines of an output: a line each.
pub(super) fn listed_strings(lines: &[String]) -> Vec<String> {
    let inner = |line: &String| {
        let text = line.trim().trim_end_matches(',');
        let text = text.trim_matches(['"', '\'']);
        text.replace("\\n", "\n").replace("\\t", "\t")
    };
    let lines: Vec<String> = lines.iter().map(inner).collect();
    lines.iter().flat_map(|line| line.lines()).map(str::to_owned).collect()
}

/// The lines with those joined again that a terminal of `width` columns broke. A line that begins
/// with blanks and a name is a row of its own.
pub(super) fn joined_at(lines: &[String], width: usize) -> Vec<String> {
    let is_row = |line: &str| {
        let rest = line.trim_start_matches("  ");
        rest.len() < line.len() && rest.trim_start().starts_with(char::is_alphabetic)
    };
    let mut joined: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in lines {
        match joined.last_mut() {
            Some(last) if is_open && !is_row(line) => last.push_str(line),
            _ => joined.push(line.clone()),
        }
        is_open = line.chars().count() == width;
    }
    joined
}

/// A line without marks of quoting before it, and with blanks for tabs.
fn unquoted(line: &str) -> String {
    const TAB: usize = 8;
    let mut rest = line.trim_end();
    while let Some(inner) = rest.trim_start().strip_prefix('>') {
        let inner = inner.strip_prefix(' ').unwrap_or(inner);
        rest = inner;
    }
    let mut text = String::new();
    let mut column = 0;
    for character in rest.chars() {
        let width = if character == '\t' { TAB - column % TAB } else { 1 };
        column += width;
        match character {
            '\t' => text.extend(std::iter::repeat_n(' ', width)),
            _ => text.push(character),
        }
    }
    text
}

/// The text without escape sequences, also those whose first character was lost, and with plain
/// characters for those that pages make of them.
fn without_colours(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => match rest.next() {
                Some('[') => while rest.next().is_some_and(|it| !('@'..='~').contains(&it)) {},
                Some(']') => while rest.next().is_some_and(|it| it != '\u{7}') {},
                _ => {}
            },
            '[' => {
                let code: String = rest.clone().take_while(|it| *it != 'm').take(9).collect();
                let is_code = |it: char| it.is_ascii_digit() || it == ';';
                let is_colour = (1..9).contains(&code.len())
                    && code.chars().all(is_code)
                    && rest.clone().nth(code.len()) == Some('m');
                match is_colour {
                    true => drop(rest.nth(code.len())),
                    false => plain.push('['),
                }
            }
            '\u{a0}' | '\u{2007}' | '\u{202f}' => plain.push(' '),
            '\u{2018}' | '\u{2019}' => plain.push('\''),
            '\u{201c}' | '\u{201d}' => plain.push('"'),
            '\u{200b}' | '\u{feff}' => {}
            '\n' | '\r' | '\t' => plain.push(character),
            other if other.is_control() => {}
            other => plain.push(other),
        }
    }
    plain
}

/// The words of a command behind a prompt, such as `root@nas:~# smartctl -i /dev/sda`.
pub(super) fn command(line: &str) -> Option<Vec<&str>> {
    const TOOLS: [&str; 19] = [
        "lsblk", "mdadm", "zpool", "zfs", "btrfs", "lvs", "pvs", "vgs", "multipath", "nvme",
        "smartctl", "uname", "fdisk", "dmsetup", "ls", "cat", "head", "more", "tail",
    ];
    let mut words: Vec<&str> = line.split_whitespace().collect();
    // Behind some prompts there is no blank.
    if let Some(first) = words.first_mut() {
        let inner = first.trim_start_matches(['#', '$', '%', '>']);
        *first = if inner.is_empty() { first } else { inner };
    }
    let is_tool = |word: &&str| TOOLS.contains(&word.rsplit('/').next().unwrap_or_default());
    let at = words.iter().position(is_tool)?;
    let is_prompt = |word: &&str| *word == "sudo" || word.ends_with(['$', '#', '%', '>']);
    let follows = at == 0 || is_prompt(&words[at - 1]);
    // The first line of an output of smartctl has its version.
    let has_version =
        words.get(at + 1).is_some_and(|it| it.starts_with(|it: char| it.is_ascii_digit()));
    let is_output = words[at] == "smartctl" && has_version;
    // The name alone may be a word of a table.
    (follows && !is_output && (at > 0 || words.len() > 1)).then(|| words[at..].to_vec())
}

/// A size as tools write it: `9.1T`, `3.64TiB`, `512k`, `976,5g`, or `4000787030016`.
pub(in super::super) fn size_of(text: &str) -> Option<u64> {
    let end = text.find(|it: char| !it.is_ascii_digit() && it != '.' && it != ',');
    let Some(end) = end else { return text.parse().ok() };
    let (number, unit) = text.split_at(end);
    let letter = unit.chars().next()?.to_ascii_uppercase();
    let power = "BKMGTPE".find(letter).filter(|_| unit.len() <= 3)?;
    // Tools write units of 1024, but for those with a `B` and without an `i`.
    let base: f64 = match unit.get(1..) {
        Some("B") if unit.starts_with(|it: char| it.is_ascii_uppercase()) => 1000.0,
        Some("" | "iB" | "B" | "b" | "ib") => 1024.0,
        _ => return None,
    };
    let number: f64 = number.replace(',', ".").parse().ok()?;
    let bytes = number * base.powi(i32::try_from(power).ok()?);
    (bytes < 1e19).then_some(bytes as u64)
}

/// The whole number in front of a word.
pub(super) fn number_in(text: &str) -> Option<u64> {
    let digits = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    text[..digits].parse().ok()
}

/// The disk of a partition, by its name: `sda` of `sda1`, `nvme0n1` of `nvme0n1p1`.
pub(super) fn disk_of(name: &str) -> &str {
    let front = name.trim_end_matches(|it: char| it.is_ascii_digit());
    let is_numbered = |front: &str| front.ends_with(|it: char| it.is_ascii_digit());
    if front.len() < name.len() {
        if let Some(disk) = front.strip_suffix("-part") {
            return disk;
        }
        if let Some(disk) = front.strip_suffix('p').filter(|front| is_numbered(front)) {
            return disk;
        }
    }
    match ["sd", "vd", "hd", "xvd", "dasd"].iter().any(|it| front.starts_with(it)) {
        true if !front.contains('-') => front,
        _ => name,
    }
}

/// True for a name that only mappings have, such as `dm-0` or `luks-1b4e28ba`.
pub(super) fn is_mapping_name(name: &str) -> bool {
    ["dm-", "luks-"].iter().any(|it| name.len() > it.len() && name.starts_with(it))
}

/// True for the name of a disk or a partition, such as `sdaa1`, `nvme0n1p2`, `ada0` or
/// `ata-WDC_WD40EFRX_WD-1`.
pub(super) fn is_disk_name(name: &str) -> bool {
    let letters = |rest: &str| {
        let rest = rest.trim_end_matches(|it: char| it.is_ascii_digit());
        (1..=4).contains(&rest.len()) && rest.bytes().all(|it| it.is_ascii_lowercase())
    };
    let numbered = |rest: &str| rest.starts_with(|it: char| it.is_ascii_digit());
    let by_letter = ["sd", "vd", "hd", "xvd", "dasd"];
    let by_number = ["nvme", "mmcblk", "ada", "da", "nvd", "nda", "loop", "vtbd", "pmem", "bcache"];
    let by_id = ["ata-", "nvme-", "scsi-", "wwn-", "usb-", "virtio-", "google-"];
    is_mapping_name(name)
        || by_letter.iter().any(|it| name.strip_prefix(it).is_some_and(letters))
        || by_number.iter().any(|it| name.strip_prefix(it).is_some_and(numbered))
        || by_id.iter().any(|it| name.len() > it.len() && name.starts_with(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_units_of_their_tools() {
        assert_eq!(size_of("1K"), Some(1024));
        assert_eq!(size_of("1.50TiB"), Some(3 << 39));
        assert_eq!(size_of("1,5g"), Some(3 << 29));
        assert_eq!(size_of("2.00GB"), Some(2_000_000_000));
        assert_eq!(size_of("512"), Some(512));
        for text in ["", "x", "1X", "1Kxyz", "-1K", "99999999999999999999E"] {
            assert_eq!(size_of(text), None, "{text}");
        }
    }

    #[test]
    fn names_of_partitions_have_those_of_their_disks() {
        for (name, disk) in [
            ("sda1", "sda"),
            ("nvme0n1p2", "nvme0n1"),
            ("nvme0n1", "nvme0n1"),
            ("ada0p3", "ada0"),
            ("ata-WDC_WD40-1_A-part9", "ata-WDC_WD40-1_A"),
            ("md127", "md127"),
        ] {
            assert_eq!(disk_of(name), disk);
        }
        assert!(["sda1", "nvme0n1", "da3", "wwn-0x5"].into_iter().all(is_disk_name));
        assert!(!["sdata-long", "tank", "mirror-0", "data", "sd"].into_iter().any(is_disk_name));
    }
}
