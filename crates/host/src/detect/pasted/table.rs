//! Tables of `lsblk`, `lvs` and `pvs`: which word of a row belongs to which heading.
//!
//! Cells may be empty, columns may stand in any order, and the blanks between columns may be gone.
//! A word fits a column by what it is, and better if it stands below its heading.

use super::text::{command, size_of};

/// A row: heading and value of the cells that are not empty.
pub(super) struct TableRow(Vec<(String, String)>);

impl TableRow {
    /// The value below a heading; none if the cell is empty.
    pub(super) fn get(&self, heading: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == heading).map(|(_, value)| value.as_str())
    }

    pub(super) fn of(cells: impl IntoIterator<Item = (String, String)>) -> TableRow {
        TableRow(cells.into_iter().filter(|(_, value)| !value.is_empty() && value != "-").collect())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A size, such as `3.6T`.
    Size,
    /// 0 or 1.
    Flag,
    /// A number, with a point or without.
    Number,
    /// Two numbers with a colon between them.
    Pair,
    Attributes,
    /// A path, or a mark in brackets.
    Path,
    /// Names with places behind them.
    Devices,
    Word(&'static [&'static str]),
    /// Hexadecimal digits with hyphens between them.
    Uuid,
    Name,
    Text,
}

/// Types of block devices.
pub(super) const TYPES: [&str; 18] = [
    "disk", "part", "lvm", "crypt", "rom", "loop", "mpath", "dm", "raid0", "raid1", "raid4",
    "raid5", "raid6", "raid10", "linear", "zram", "md", "raid",
];
const TRANSPORTS: [&str; 10] =
    ["sata", "sas", "ata", "nvme", "usb", "fc", "iscsi", "virtio", "spi", "mmc"];
const SCHEDULERS: [&str; 6] = ["none", "mq-deadline", "bfq", "kyber", "deadline", "cfq"];

const FILE_SYSTEMS: [&str; 14] = [
    "btrfs", "ext2", "ext3", "ext4", "xfs", "zfs_member", "linux_raid_member", "LVM2_member",
    "crypto_LUKS", "vfat", "ntfs", "swap", "bcache", "squashfs",
];

fn kind(heading: &str) -> Kind {
    match heading {
        "SIZE" | "LSize" | "PSize" | "PFree" | "FSAVAIL" | "FSSIZE" | "FSUSED" | "VSize"
        | "VFree" => Kind::Size,
        "RM" | "RO" | "ROTA" | "HOTPLUG" | "RAND" | "DAX" => Kind::Flag,
        "Data%" | "Meta%" | "Cpy%Sync" | "Copy%" | "Snap%" | "#Str" | "MIN-IO" | "OPT-IO"
        | "PHY-SEC" | "LOG-SEC" | "RQ-SIZE" | "RA" | "ALIGNMENT" | "#PV" => Kind::Number,
        "MAJ:MIN" => Kind::Pair,
        "Attr" => Kind::Attributes,
        "MOUNTPOINT" | "MOUNTPOINTS" | "PV" | "PATH" => Kind::Path,
        "Devices" => Kind::Devices,
        "TYPE" => Kind::Word(&TYPES),
        "TRAN" => Kind::Word(&TRANSPORTS),
        "SCHED" => Kind::Word(&SCHEDULERS),
        "FSTYPE" => Kind::Word(&FILE_SYSTEMS),
        "UUID" | "PARTUUID" | "PTUUID" => Kind::Uuid,
        "Fmt" => Kind::Word(&["lvm2", "lvm1"]),
        "MODEL" => Kind::Text,
        _ => Kind::Name,
    }
}

impl Kind {
    fn accepts(self, word: &str) -> bool {
        let is_number = |word: &str| word.parse::<f64>().is_ok();
        match self {
            Kind::Size => size_of(word.trim_start_matches('<')).is_some(),
            Kind::Flag => word == "0" || word == "1",
            Kind::Number => is_number(&word.replace(',', ".")),
            Kind::Pair => word.split_once(':').is_some_and(|(a, b)| is_number(a) && is_number(b)),
            Kind::Attributes => {
                let is_letter = |it: u8| it.is_ascii_alphabetic() || it == b'-';
                (3..=10).contains(&word.len()) && word.bytes().all(is_letter) && word.contains('-')
            }
            Kind::Path => {
                word.starts_with('/') || word.starts_with('[') || word.starts_with("unknown")
            }
            Kind::Devices => word.ends_with(')') && word.contains('('),
            Kind::Uuid => {
                let is_digit = |it: u8| it.is_ascii_hexdigit() || it == b'-';
                word.len() >= 9 && word.contains('-') && word.bytes().all(is_digit)
            }
            // Parts of arrays have many types: `isw_raid_member`, `mpath_member`.
            Kind::Word(words) => {
                words.contains(&word) || *words == FILE_SYSTEMS && word.ends_with("_member")
            }
            Kind::Name | Kind::Text => true,
        }
    }
}

/// A word with the columns that it stands in, if these are known.
type Placed<'a> = (&'a str, Option<(usize, usize)>);

/// Words of a line, with their places if `is_placed`.
fn words(line: &str, is_placed: bool) -> Vec<Placed<'_>> {
    let begin_of = |word: &str| word.as_ptr() as usize - line.as_ptr() as usize;
    let column = |byte: usize| line[..byte].chars().count();
    let placed = |word| {
        let begin = column(begin_of(word));
        (word, is_placed.then(|| (begin, begin + word.chars().count())))
    };
    line.split_whitespace().map(placed).collect()
}

/// The cheapest way of giving the words to the columns.
fn fit(headings: &[Placed<'_>], words: &[Placed<'_>]) -> TableRow {
    /// The cost of a word that stands below no heading.
    const DROPPED: u32 = 20;
    let (columns, count) = (headings.len(), words.len());
    // The cost of the columns from `column` on with the words from `word` on, and the number of
    // words that the column takes; none if the word is dropped.
    let mut best = vec![vec![(0_u32, Some(0_usize)); count + 1]; columns + 1];
    for column in (0..=columns).rev() {
        for word in (0..=count).rev() {
            let dropped = || (best[column][word + 1].0 + DROPPED, None);
            best[column][word] = match () {
                () if column == columns && word == count => (0, Some(0)),
                () if column == columns => dropped(),
                () => {
                    let kind = kind(headings[column].0);
                    let is_text = kind == Kind::Text;
                    // One that takes any word is empty rather than one that takes few.
                    let empty = if matches!(kind, Kind::Name | Kind::Text) { 1 } else { 4 };
                    let mut options = vec![(best[column + 1][word].0 + empty, Some(0))];
                    if word < count {
                        options.push(dropped());
                        let longest = if is_text { (count - word).min(8) } else { 1 };
                        if kind.accepts(words[word].0) {
                            let off = distance(headings[column], words[word]);
                            let taken = |n: usize| (best[column + 1][word + n].0 + off, Some(n));
                            options.extend((1..=longest).map(taken));
                        }
                    }
                    // Of ways that cost the same, the one that takes most.
                    let order = |(cost, taken): &(u32, Option<usize>)| {
                        (*cost, std::cmp::Reverse(taken.unwrap_or(0)))
                    };
                    options.into_iter().min_by_key(order).unwrap_or((0, None))
                }
            };
        }
    }
    let mut cells = Vec::new();
    let (mut column, mut word) = (0, 0);
    while column < columns {
        match best[column][word].1 {
            None => word += 1,
            Some(taken) => {
                let value: Vec<&str> = words[word..word + taken].iter().map(|it| it.0).collect();
                cells.push((headings[column].0.to_owned(), value.join(" ")));
                (column, word) = (column + 1, word + taken);
            }
        }
    }
    TableRow::of(cells)
}

/// How far from its heading a word stands: tables set columns left or right.
fn distance(heading: Placed<'_>, word: Placed<'_>) -> u32 {
    match (heading.1, word.1) {
        (Some((begin, end)), Some((from, to))) if begin == from || end == to => 0,
        (Some((begin, end)), Some((from, to))) if from < end && begin < to => 1,
        _ => 2,
    }
}

/// The rows of every table of the lines, each with its first line. A line begins a row if `begins`
/// says so of the words of the row before it and of its own; else it continues that row, or the
/// heading, which was broken.
pub(super) fn rows<'a>(
    lines: &[&'a str],
    is_heading: fn(&[&str]) -> bool,
    begins: fn(&[&str], &[&str]) -> bool,
) -> Vec<(&'a str, TableRow)> {
    const WORDS_MAX: usize = 64;
    let mut heading: Vec<Placed<'_>> = Vec::new();
    let mut row: Vec<Placed<'_>> = Vec::new();
    let mut first_line = "";
    let mut rows: Vec<(&str, TableRow)> = Vec::new();
    for line in lines.iter().copied().chain([""]) {
        let own: Vec<&str> = line.split_whitespace().collect();
        let is_new = is_heading(&own);
        let ends = own.is_empty() || command(line).is_some() || is_new;
        let before: Vec<&str> = row.iter().map(|word| word.0).collect();
        let is_row = !ends && !heading.is_empty() && begins(&before, &own);
        if (ends || is_row) && !row.is_empty() {
            row.truncate(WORDS_MAX);
            rows.push((first_line, fit(&heading, &row)));
            row.clear();
            first_line = "";
        }
        match () {
            () if is_new => heading = words(line, true),
            // A blank line, or another command, ends the table.
            () if ends => heading.clear(),
            () if is_row => {
                first_line = line;
                row = words(line, true);
            }
            () if !row.is_empty() => row.extend(words(line, false)),
            () if !heading.is_empty() => heading.extend(words(line, false)),
            () => {}
        }
        heading.truncate(WORDS_MAX);
    }
    rows
}
