//! Arrays in texts that people paste: `/proc/mdstat`, `lsblk`, `zpool status`, `btrfs filesystem
//! show` and `df`, and `multipath -ll`, several of them in one text, with quoting marks.
//!
//! Each text becomes the files of sysfs, or the output of a tool, that says the same, and the array
//! is detected in this tree. What a text does not say is missing there: it is guessed and marked.

use super::sysroot::{Sysroot, TreeEntry, base_name};
use mirrorball_core::units::parse_bytes;
use std::collections::BTreeMap;

/// The tree that a text describes.
pub(super) fn tree(text: &str) -> Sysroot {
    let lines: Vec<String> = text.lines().map(unquoted).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut tree = Tree::default();
    tree.read_lsblk(&lines);
    tree.read_mdstat(&lines);
    tree.read_zpool(&lines);
    tree.read_btrfs(&lines);
    tree.read_multipath(&lines);
    Sysroot::in_memory(tree.files)
}

/// A line without marks of quoting before it, and with the spaces that pages make of others.
fn unquoted(line: &str) -> String {
    let mut rest = line.trim_end();
    while let Some(inner) = rest.strip_prefix("> ").or_else(|| rest.strip_prefix('>')) {
        rest = inner;
    }
    rest.replace('\u{a0}', " ")
}

/// The disk of a partition, by its name: `sda` of `sda1`, `nvme0n1` of `nvme0n1p1`.
fn disk_of(name: &str) -> &str {
    let front = name.trim_end_matches(|it: char| it.is_ascii_digit());
    let is_numbered = |front: &str| front.ends_with(|it: char| it.is_ascii_digit());
    match front.strip_suffix('p').filter(|front| is_numbered(front)) {
        Some(disk) if front.len() < name.len() => disk,
        _ if ["sd", "vd", "hd"].iter().any(|it| front.starts_with(it)) => front,
        _ => name,
    }
}

/// The files of the tree.
#[derive(Default)]
struct Tree {
    files: BTreeMap<String, TreeEntry>,
}

impl Tree {
    fn add(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.files.entry(path.into()).or_insert_with(|| TreeEntry::Text(text.into()));
    }

    fn link(&mut self, path: impl Into<String>, target: impl Into<String>) {
        self.files.entry(path.into()).or_insert_with(|| TreeEntry::Link(target.into()));
    }

    /// The folder of a device, made if it is new.
    fn device(&mut self, name: &str) -> String {
        let disk = disk_of(name);
        let of_disk = format!("/sys/devices/pasted/{disk}");
        self.add(format!("{of_disk}/dev"), format!("pasted:{disk}"));
        self.link(format!("/sys/block/{disk}"), of_disk.clone());
        self.link(format!("/sys/class/block/{disk}"), of_disk.clone());
        self.link(format!("/sys/dev/block/pasted:{disk}"), of_disk.clone());
        if disk == name {
            return of_disk;
        }
        let folder = format!("{of_disk}/{name}");
        self.add(format!("{folder}/partition"), "1");
        self.add(format!("{folder}/dev"), format!("pasted:{name}"));
        self.link(format!("/sys/class/block/{name}"), folder.clone());
        folder
    }

    /// Sizes, media and models of disks in the table of `lsblk`, by its heading.
    fn read_lsblk(&mut self, lines: &[&str]) {
        let is_heading = |line: &&&str| {
            line.trim_start().starts_with("NAME") && line.split_whitespace().any(|it| it == "SIZE")
        };
        let Some(at) = lines.iter().position(|line| is_heading(&line)) else { return };
        let heading: Vec<&str> = lines[at].split_whitespace().collect();
        let column = |name: &str| heading.iter().position(|it| *it == name);
        for line in &lines[at + 1..] {
            let line = line.replace(['├', '└', '─', '│', '|', '`'], " ");
            let words: Vec<&str> = line.split_whitespace().collect();
            let Some(name) = words.first().filter(|_| words.len() > 1) else { break };
            let is_disk = ["sd", "vd", "hd", "nvme"].iter().any(|it| name.starts_with(it));
            let word = |name: &str| column(name).and_then(|at| words.get(at)).copied();
            let Some(bytes) = word("SIZE").and_then(size_of).filter(|_| is_disk) else { continue };
            let folder = self.device(name);
            self.add(format!("{folder}/size"), (bytes / 512).to_string());
            if let Some(rotational) = word("ROTA").filter(|it| ["0", "1"].contains(it)) {
                self.add(format!("{folder}/queue/rotational"), rotational);
            }
            // A model has spaces, and is the rest of the line if it is the last column.
            let is_last = column("MODEL").is_some_and(|at| at + 1 == heading.len());
            let model = column("MODEL").filter(|_| is_last).and_then(|at| words.get(at..));
            if let Some(model) = model.filter(|words| !words.is_empty()) {
                self.add(format!("{folder}/device/model"), model.join(" "));
            }
        }
    }

    /// Arrays of `/proc/mdstat`: `md0 : active raid1 sdb1[1] sda1[0](W)`.
    fn read_mdstat(&mut self, lines: &[&str]) {
        for (at, line) in lines.iter().enumerate() {
            let Some((name, rest)) = line.split_once(" : ") else { continue };
            let words: Vec<&str> = rest.split_whitespace().collect();
            let is_md = name.starts_with("md") && !name.contains(' ');
            let level = words.iter().find(|word| word.starts_with("raid")).filter(|_| is_md);
            let Some(level) = level else { continue };
            let below = lines[at + 1..].iter().take_while(|line| line.starts_with(' '));
            let below: Vec<&str> = below.flat_map(|line| line.split_whitespace()).collect();
            self.add_md(name.trim(), level, &words, &below);
        }
    }

    fn add_md(&mut self, name: &str, level: &str, words: &[&str], below: &[&str]) {
        let folder = self.device(name);
        let md = format!("{folder}/md");
        let before = |word: &str| {
            let at = below.iter().position(|it| *it == word)?;
            below.get(at.checked_sub(1)?).copied()
        };
        let inside =
            |word: &&&str| word.starts_with('[') && word.contains('/') && word.ends_with(']');
        let counts = below.iter().find(inside).map(|word| word.trim_matches(['[', ']']));
        let Some((slots, up)) = counts.and_then(|it| it.split_once('/')) else { return };
        let (Ok(slots), Ok(up)) = (slots.parse::<u64>(), up.parse::<u64>()) else { return };
        self.add(format!("{md}/level"), level);
        self.add(format!("{md}/raid_disks"), slots.to_string());
        self.add(format!("{md}/degraded"), slots.saturating_sub(up).to_string());
        self.add(format!("{md}/array_state"), "clean");
        let copies = |kind: &str| before(kind).and_then(|it| it.parse::<u64>().ok());
        let near = copies("near-copies");
        let far = copies("far-copies").or_else(|| copies("offset-copies"));
        let is_offset = copies("offset-copies").is_some();
        let copies = near.unwrap_or(1).max(1) * far.unwrap_or(1).max(1);
        if let Some(blocks) = before("blocks").and_then(|it| it.parse::<u64>().ok()) {
            let each = if level == "raid10" { blocks * copies / slots.max(1) } else { blocks };
            self.add(format!("{md}/component_size"), each.to_string());
        }
        let number = near.unwrap_or(1) | far.unwrap_or(1) << 8 | u64::from(is_offset) << 16;
        self.add(format!("{md}/layout"), if level == "raid10" { number } else { 0 }.to_string());
        let chunk = before("chunks").or_else(|| before("chunk")).and_then(size_of);
        self.add(format!("{md}/chunk_size"), chunk.unwrap_or(0).to_string());
        let work = ["resync", "recovery", "check", "reshape"];
        let action = work.into_iter().find(|work| below.contains(work));
        let action = action.map_or("idle", |it| if it == "recovery" { "recover" } else { it });
        self.add(format!("{md}/sync_action"), action);
        if let Some((done, all)) =
            below.iter().find_map(|word| word.strip_prefix('(')?.strip_suffix(')')?.split_once('/'))
        {
            self.add(format!("{md}/sync_completed"), format!("{done} / {all}"));
        }
        let map = below.iter().rfind(|word| word.starts_with("[U") || word.starts_with("[_"));
        let map = map.map_or("", |word| word.trim_matches(['[', ']']));
        let mut free: Vec<u64> = (0..slots).collect();
        let mut devices: Vec<(u64, &str, &str)> =
            words.iter().filter_map(|word| md_member(word)).collect();
        devices.sort_unstable();
        free.retain(|slot| devices.iter().all(|(number, ..)| number != slot));
        for (number, device, flags) in devices {
            // A new device has a number behind the slots until it is in sync.
            let is_out = flags.contains('S') || flags.contains('F');
            let slot = if number < slots { Some(number) } else { free.first().copied() };
            let slot = slot.filter(|_| !is_out);
            free.retain(|other| Some(*other) != slot);
            let is_up = slot.is_some_and(|slot| map.chars().nth(slot as usize) != Some('_'));
            let mut state = vec![match () {
                () if flags.contains('F') => "faulty",
                () if is_up => "in_sync",
                () => "spare",
            }];
            state.extend(flags.contains('W').then_some("write_mostly"));
            let own = format!("{md}/dev-{device}");
            let block = self.device(device);
            self.link(format!("{own}/block"), block.clone());
            self.link(format!("{folder}/slaves/{device}"), block);
            self.add(format!("{own}/state"), state.join(","));
            self.add(format!("{own}/slot"), slot.map_or("none".to_owned(), |it| it.to_string()));
        }
    }

    /// `zpool status`: its table gets the tabs back that pages make spaces of, and names of disks
    /// their paths.
    fn read_zpool(&mut self, lines: &[&str]) {
        let Some(first) = lines.iter().position(|it| it.trim_start().starts_with("pool:")) else {
            return;
        };
        let mut text = String::new();
        let mut indent = None;
        for line in &lines[first..] {
            let trimmed = line.trim_start();
            if ["pool:", "state:", "scan:", "config:", "errors:"]
                .iter()
                .any(|it| trimmed.starts_with(it))
            {
                indent = None;
                text += &format!(" {trimmed}\n");
                continue;
            }
            let width = line.replace('\t', "        ").len() - trimmed.len();
            if trimmed.starts_with("NAME ") {
                indent = Some(width);
            }
            let depth = indent.map_or(0, |indent| width.saturating_sub(indent));
            let name = trimmed.split_whitespace().next().unwrap_or_default();
            let is_disk = ["sd", "vd", "hd", "nvme"].iter().any(|it| name.starts_with(it));
            let path = if is_disk && depth > 0 { "/dev/" } else { "" };
            if is_disk && depth > 0 {
                self.device(name);
            } else if let Some(device) = name.strip_prefix("/dev/") {
                self.device(base_name(device));
            }
            text += &format!("\t{:depth$}{path}{trimmed}\n", "");
        }
        self.add("/sys/module/zfs/initstate", "live");
        self.add("/tools/zpool-status", text);
    }

    /// `btrfs filesystem show`, and the profile of the data from `df` or `usage`.
    fn read_btrfs(&mut self, lines: &[&str]) {
        let mut fsid = String::new();
        let mut show = String::new();
        let profile = |kind: &str| {
            let of_kind = |line: &&str| line.trim_start().strip_prefix(kind).map(str::to_owned);
            let found = lines.iter().find_map(of_kind)?;
            Some(found.split([':', ',', ' ']).find(|it| !it.is_empty())?.to_lowercase())
        };
        for line in lines {
            if let Some((front, uuid)) = line.split_once("uuid: ") {
                uuid.trim().clone_into(&mut fsid);
                let label = front.split('\'').nth(1);
                if let Some(label) = label {
                    self.add(format!("/sys/fs/btrfs/{fsid}/label"), label);
                }
                for (kind, name) in [("data", "Data,"), ("metadata", "Metadata,")] {
                    let profile = profile(name).unwrap_or_else(|| "raid1".to_owned());
                    let folder = format!("/sys/fs/btrfs/{fsid}/allocation/{kind}/{profile}");
                    self.add(format!("{folder}/total_bytes"), "1");
                }
                show += &format!("{line}\n");
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let ["devid", devid, "size", size, "used", used, "path", path, ..] = words[..] else {
                continue;
            };
            let bytes = |text: &str| size_of(text).unwrap_or(0);
            show +=
                &format!("\tdevid {devid} size {} used {} path {path}\n", bytes(size), bytes(used));
            let name = base_name(path).to_owned();
            let device = self.device(&name);
            self.link(format!("/sys/fs/btrfs/{fsid}/devices/{name}"), device);
            self.add(format!("/sys/fs/btrfs/{fsid}/devinfo/{devid}/missing"), "0");
        }
        if !show.is_empty() {
            self.add("/tools/btrfs-filesystem-show", show);
        }
    }

    /// `multipath -ll`: a map, its groups with their selector and state, and the paths of each.
    fn read_multipath(&mut self, lines: &[&str]) {
        let mut name = String::new();
        let (mut table, mut status) = (BTreeMap::new(), BTreeMap::new());
        for line in lines {
            let line = line.replace(['|', '`', '+', '-', '\\', '_'], " ");
            let words: Vec<&str> = line.split_whitespace().collect();
            let of = |key: &str| words.iter().find_map(|word| word.strip_prefix(key));
            if words.get(1).is_some_and(|word| word.starts_with('(')) || words.contains(&"dm") {
                name = words.first().copied().unwrap_or_default().to_owned();
            } else if let Some(selector) = of("policy='").filter(|_| !name.is_empty()) {
                let groups: &mut Vec<(String, String, Vec<String>)> =
                    table.entry(name.clone()).or_default();
                let state = if of("status=") == Some("active") { "A" } else { "E" };
                groups.push((line_selector(lines, selector), state.to_owned(), Vec::new()));
            } else if let Some(groups) = table.get_mut(&name)
                && let Some((_, _, paths)) = groups.last_mut()
                && let Some(device) = words.iter().find(|word| is_disk_name(word))
            {
                let is_up = words.contains(&"active");
                paths.push((*device).to_owned());
                status.insert((*device).to_owned(), if is_up { "A" } else { "F" });
            }
        }
        for (name, groups) in table {
            self.add_multipath(&name, &groups, &status);
        }
    }

    fn add_multipath(
        &mut self,
        name: &str,
        groups: &[(String, String, Vec<String>)],
        status: &BTreeMap<String, &str>,
    ) {
        let folder = self.device(&format!("dm-{name}"));
        self.add(format!("{folder}/dm/name"), name);
        self.add(format!("{folder}/dm/uuid"), format!("mpath-{name}"));
        let mut lines =
            ["table", "status"].map(|_| format!("{name}: 0 1 multipath 0 0 {} 1", groups.len()));
        for (selector, state, paths) in groups {
            lines[0] += &format!(" {selector} 0 {} 0", paths.len());
            lines[1] += &format!(" {state} 0 {} 0", paths.len());
            for path in paths {
                let block = self.device(path);
                self.link(format!("{folder}/slaves/{path}"), block);
                lines[0] += &format!(" pasted:{path}");
                lines[1] += &format!(" pasted:{path} {} 0", status.get(path).unwrap_or(&"A"));
            }
        }
        let [table, state] = lines;
        for (file, line) in [("table", table), ("status", state)] {
            let path = format!("/tools/dmsetup-{file}");
            let before = match self.files.get(&path) {
                Some(TreeEntry::Text(text)) => text.clone(),
                _ => String::new(),
            };
            self.files.insert(path, TreeEntry::Text(format!("{before}{line}\n")));
        }
    }
}

/// The selector as it was before marks were taken out: `service-time` of `service time`.
fn line_selector(lines: &[&str], word: &str) -> String {
    let known = ["round-robin", "queue-length", "service-time", "historical-service-time"];
    let is_it = |name: &&&str| {
        name.starts_with(word.trim_end_matches('\''))
            && lines.iter().any(|line| line.contains(&format!("policy='{name}")))
    };
    known.iter().find(is_it).map_or("service-time", |name| *name).to_owned()
}

/// True for a name such as `sda` or `sdaa`.
fn is_disk_name(word: &str) -> bool {
    word.strip_prefix("sd")
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|it| it.is_ascii_lowercase()))
}

/// Number, device and flags of a member such as `sda1[0](W)`.
fn md_member(word: &str) -> Option<(u64, &str, &str)> {
    let (device, rest) = word.split_once('[')?;
    let (number, flags) = rest.split_once(']')?;
    Some((number.parse().ok()?, device, flags)).filter(|_| !device.is_empty())
}

/// A size as tools write it: `9.1T`, `3.64TiB`, `512k`.
fn size_of(text: &str) -> Option<u64> {
    let end = text.find(|it: char| !it.is_ascii_digit() && it != '.')?;
    let (number, unit) = text.split_at(end);
    let unit = unit.chars().next().filter(|it| "KMGTPkmgtp".contains(*it))?.to_ascii_uppercase();
    let number: f64 = number.parse().ok()?;
    let one = parse_bytes(&format!("1{unit}iB")).ok()?;
    Some((number * one as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::super::{DetectedArray, detect_pasted};

    fn only(text: &str) -> DetectedArray {
        let mut found = detect_pasted(text);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0).unwrap_or_else(|error| panic!("{error:?}"))
    }

    fn names(array: &DetectedArray) -> Vec<&str> {
        array.members.iter().filter_map(|it| it.kernel_name.as_deref()).collect()
    }

    const LSBLK: &str = "$ lsblk -o NAME,SIZE,ROTA,MODEL\n\
        NAME      SIZE ROTA MODEL\nsda       3.6T    1 WDC WD40EFRX-68N32N0\n\
        └─sda1    3.6T    1\nsdb     931.5G    0 Samsung SSD 870 EVO 1TB\n└─sdb1  931.5G    0\n";

    const MDSTAT: &str = "$ cat /proc/mdstat\nPersonalities : [raid1]\n\
        md0 : active raid1 sdb1[2](W) sda1[0]\n      976630464 blocks super 1.2 [2/1] [U_]\n\
        \x20     [==>..................]  recovery = 12.6% (123055438/976630464) finish=127.5min\n\
        \x20     bitmap: 0/8 pages [0KB], 65536KB chunk\n\nunused devices: <none>\n";

    #[test]
    fn an_array_of_md_has_its_members_flags_and_disks() {
        for text in [format!("{MDSTAT}\n{LSBLK}"), format!("{LSBLK}{MDSTAT}").replace('\n', "\n> ")]
        {
            let array = only(&text);
            assert_eq!((array.name.as_str(), names(&array)), ("md0", vec!["sda1", "sdb1"]));
            assert!(array.members[1].write_mostly && array.members[1].is_rebuilding, "{array:?}");
            assert_eq!(array.condition_text().as_deref(), Some("degraded; recover at 12.6 %"));
            let models: Vec<&str> = array.members.iter().map(|it| &*it.model.profile).collect();
            assert_eq!(models, ["hdd-5k4-4tb", "ssd-sata-consumer"]);
        }
        let guessed = only(MDSTAT);
        assert!(guessed.array_file().contains("# Guessed models: 2"), "{}", guessed.array_file());
    }

    #[test]
    fn a_raid10_has_its_layout() {
        let array = only(
            "md1 : active raid10 sdd1[3] sdc1[2] sdb1[1] sda1[0]\n      \
             1953259520 blocks super 1.2 512K chunks 2 far-copies [4/4] [UUUU]\n",
        );
        assert_eq!(array.layout.unwrap().to_string(), "md-raid10-far:2");
        assert_eq!(array.members[0].size_bytes, Some(976_629_760 * 1024));
    }

    #[test]
    fn pools_of_zfs_are_read_with_spaces_for_tabs_and_names_without_paths() {
        let array = only(
            "# zpool status\n  pool: tank\n state: DEGRADED\n  scan: none requested\nconfig:\n\n\
             \x20       NAME        STATE     READ WRITE CKSUM\n\
             \x20       tank        DEGRADED     0     0     0\n\
             \x20         mirror-0  DEGRADED     0     0     0\n\
             \x20           sda     ONLINE       0     0     0\n\
             \x20           sdb     FAULTED      0     0     0\n\
             \x20         mirror-1  ONLINE       0     0     0\n\
             \x20           sdc     ONLINE       0     0     0\n\
             \x20           sdd     ONLINE       0     0     0\n\nerrors: No known data errors\n",
        );
        assert_eq!(
            (array.name.as_str(), names(&array)),
            ("tank", vec!["sda", "sdb", "sdc", "sdd"])
        );
        assert_eq!(array.condition.missing, 1);
    }

    #[test]
    fn file_systems_of_btrfs_have_devices_and_a_profile() {
        let array = only(
            "Label: 'pool'  uuid: 11111111-2222-4333-8444-555555555555\n\
             \tTotal devices 2 FS bytes used 1.20TiB\n\
             \tdevid    1 size 3.64TiB used 1.21TiB path /dev/sda\n\
             \tdevid    2 size 3.64TiB used 1.21TiB path /dev/sdb1\n\n\
             Data, RAID1: total=1.21TiB, used=1.20TiB\nMetadata, RAID1: total=2.00GiB\n",
        );
        assert_eq!((array.profile, names(&array)), ("raid1", vec!["sda", "sdb1"]));
    }

    #[test]
    fn of_multipath_the_active_group_is_read() {
        let array = only(
            "mpatha (3600508b4000156d70001200000b0000) dm-2 HP,HSV210\n\
             size=100G features='1 queue_if_no_path' hwhandler='1 alua' wp=rw\n\
             |-+- policy='queue-length 0' prio=50 status=active\n\
             | |- 2:0:0:1 sda 8:0   active ready running\n\
             | `- 3:0:0:1 sdc 8:32  failed faulty running\n\
             `-+- policy='queue-length 0' prio=10 status=enabled\n\
             \x20 |- 2:0:1:1 sdb 8:16  active ready running\n\
             \x20 `- 3:0:1:1 sdd 8:48  active ready running\n",
        );
        assert_eq!((array.name.as_str(), names(&array)), ("mpatha", vec!["sda", "sdc"]));
        assert_eq!(array.in_force().as_deref(), Some("dm/queue-length"));
        assert_eq!(array.condition_text().as_deref(), Some("1 path down"));
        assert!(array.notes.iter().any(|it| it.starts_with("2 paths serve, 2 stand by")));
    }

    #[test]
    fn a_text_without_an_array_has_none() {
        for text in [
            "",
            "hello",
            "md0 : ",
            "> > >",
            "NAME SIZE\n",
            "pool:",
            "uuid: ",
            "md0 : active raid1 a[99999999999]",
        ] {
            let found = detect_pasted(text);
            assert!(found.iter().all(Result::is_err), "{text}: {found:?}");
        }
    }
}
