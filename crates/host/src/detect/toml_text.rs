//! A detected array as an array file. What was guessed is marked by a comment.

use super::array::{DetectedArray, DetectedCache, DetectedMember, SharedLink, StorageSystem};
use mirrorball_core::geometry::ArrayLayout;
use mirrorball_core::units::{GIB, KIB, MIB, TIB, parse_bytes};
use mirrorball_disk::array_file::ModelConfidence;
use mirrorball_disk::profile::ModelProfile;
use std::fmt::Write;

impl DetectedArray {
    pub fn array_file(&self) -> String {
        let mut text = String::new();
        let system = self.system.name();
        line(&mut text, &format!("# Written by `mirrorball detect`: {system}, {}", self.name));
        let guessed = self.members.iter().filter(|member| is_guessed(member)).count();
        if guessed > 0 {
            line(&mut text, &format!("# Guessed models: {guessed}, see `guessed` below"));
        }
        for note in &self.notes {
            line(&mut text, &format!("# note: {note}"));
        }
        let layers: Vec<String> =
            self.stack.iter().map(|layer| format!("{} ({})", layer.name, layer.kind)).collect();
        line(&mut text, &format!("# stack: {}", layers.join(" on ")));
        key(&mut text, "name", &self.name);
        match self.layout {
            None => key(&mut text, "profile", self.profile),
            Some(layout) => {
                key(&mut text, "layout", &layout.to_string());
                if let Some(bytes) = layout.chunk_bytes() {
                    key(&mut text, "chunk", &size(bytes));
                }
            }
        }
        self.write_links(&mut text);
        self.write_host(&mut text);
        self.write_source(&mut text);
        for member in &self.members {
            self.write_member(&mut text, member);
        }
        text
    }

    fn write_links(&self, text: &mut String) {
        let mut links: Vec<&SharedLink> = Vec::new();
        for link in self.members.iter().filter_map(|member| member.link.as_ref()) {
            if !links.iter().any(|other| other.name == link.name) {
                links.push(link);
            }
        }
        for link in links {
            line(text, "\n[[link]]");
            line(text, &format!("# {}", printable(&link.reason)));
            key(text, "name", &link.name);
            let rate = format!("{}MB/s", link.bytes_per_s / 1_000_000);
            key(text, "read", &rate);
            key(text, "write", &rate);
        }
    }

    fn write_host(&self, text: &mut String) {
        // More would be a misreading: no integer of TOML has it.
        let Some(kib) = self.read_ahead_kb.filter(|kib| *kib <= u64::from(u32::MAX)) else {
            return;
        };
        line(text, "\n[host]");
        line(text, &format!("read_ahead_kb = {kib}"));
    }

    fn write_source(&self, text: &mut String) {
        line(text, "\n[source]");
        key(text, "system", self.system.name());
        let mut optional = |name: &str, value: &Option<String>| {
            if let Some(value) = value {
                key(text, name, value);
            }
        };
        optional("version", &self.version);
        optional("name", &Some(self.name.clone()));
        optional("fsid", &self.id);
        optional("mount", &self.mount);
        optional("policy", &self.policy.text);
        optional("in_force", &self.in_force());
        optional("condition", &self.condition_text());
        let not_known = (!self.not_known.is_empty()).then(|| self.not_known.join("; "));
        optional("not_known", &not_known);
        // More would be a misreading: no integer of TOML has it.
        if let Some(limit) = self.limit.filter(|limit| limit.kib <= u64::from(u32::MAX)) {
            line(text, &format!("limit_kib = {}", limit.kib));
            line(text, &format!("limit_is_own = {}", limit.is_own));
        }
        for (name, values) in
            [("offered", &self.policy.offered), ("spares", &self.condition.spares)]
        {
            let values: Vec<String> = values.iter().map(|it| quoted(it)).collect();
            if !values.is_empty() {
                line(text, &format!("{name} = [{}]", values.join(", ")));
            }
        }
        for (name, value) in &self.policy.settings {
            line(text, &format!("# setting: {} = {}", printable(name), printable(value)));
        }
    }

    fn write_member(&self, text: &mut String, member: &DetectedMember) {
        line(text, "\n[[member]]");
        line(text, &format!("devid = {}", member.devid));
        let confidence = member.model.confidence.name();
        line(text, &format!("# {confidence}: {}", printable(&member.model.reason)));
        key(text, "model", &member.model.profile);
        key(text, "confidence", confidence);
        if let Some(device) = &member.device {
            key(text, "device", device);
        }
        // A device of the device mapper has two names, and sysfs knows it by the other.
        let device = member.device.as_deref().unwrap_or_default();
        let says_more = |name: &&str| Some(*name) != device.rsplit('/').next();
        if let Some(name) = member.kernel_name.as_deref().filter(says_more) {
            key(text, "kernel_name", name);
        }
        write_place(text, member, self.system_layout());
        write_striped(text, member);
        if let Some(link) = &member.link {
            key(text, "link", &link.name);
        }
        if let Some(cache) = &member.cache {
            self.write_cache(text, cache);
        }
        if let Some(group) = &member.group {
            line(text, &format!("# in {}", printable(group)));
        }
        if let Some(disk) = &member.disk {
            let mut facts = vec![disk.name.clone()];
            facts.extend(disk.model.clone());
            facts.extend(disk.serial.as_ref().map(|serial| format!("serial {serial}")));
            facts.extend(disk.size_bytes.map(size));
            facts.extend(disk.scheduler.as_ref().map(|name| format!("scheduler {name}")));
            line(text, &format!("# disk: {}", printable(&facts.join(", "))));
            if let Some(rotational) = disk.rotational {
                line(text, &format!("rotational = {rotational}"));
            }
            if let Some(bytes) = disk.optimal_io_bytes {
                key(text, "optimal_io", &size(bytes));
            }
        }
        if let Some(errors) = &member.errors {
            key(text, "errors", errors);
        }
        if member.write_mostly {
            line(text, "write_mostly = true");
        }
        if member.is_failed {
            line(text, "failed = true");
            key(text, "state", &member.state);
        } else if member.is_rebuilding {
            let recovered = size(self.recovered_bytes(member));
            let state = printable(&member.state);
            line(text, &format!("rebuilding = \"{recovered}\" # state: {state}"));
        }
    }

    /// The cache of a member: its part of the device, where several members share that.
    fn write_cache(&self, text: &mut String, cache: &DetectedCache) {
        let is_same = |other: &&DetectedCache| other.name == cache.name;
        let caches = self.members.iter().filter_map(|member| member.cache.as_ref());
        let sharing = caches.filter(is_same).count().max(1) as u64;
        line(text, &format!("# cache: {}, for {sharing} members", printable(&cache.name)));
        let share = cache.size_bytes.map(|bytes| bytes / sharing / MIB * MIB);
        let share =
            share.filter(|bytes| *bytes > 0).map(|bytes| format!(", size = \"{}\"", size(bytes)));
        let model = quoted(&cache.model.profile);
        line(text, &format!("cache = {{ model = {model}{} }}", share.unwrap_or_default()));
    }

    /// The layout if the begin of a detected member is that of its data, behind the metadata of the
    /// system.
    fn system_layout(&self) -> Option<ArrayLayout> {
        match self.system {
            StorageSystem::Md | StorageSystem::MdRaid10 | StorageSystem::Lvm => self.layout,
            StorageSystem::Btrfs
            | StorageSystem::Dm
            | StorageSystem::DmMirror
            | StorageSystem::Zfs
            | StorageSystem::Nvme => None,
        }
    }
}

fn is_guessed(member: &DetectedMember) -> bool {
    member.model.confidence == ModelConfidence::Guessed
}

/// Parameters of a model that are those of as many disks as a member is striped over.
fn write_striped(text: &mut String, member: &DetectedMember) {
    const RATES: [&str; 5] = ["outer_rate", "inner_rate", "interface_rate", "link", "channel"];
    let count = member.striped as u64;
    let Some(profile) = ModelProfile::builtin(&member.model.profile).ok().filter(|_| count > 0)
    else {
        return;
    };
    let table = profile.parameter_table();
    let rate = |name: &&str| {
        let rate = parse_bytes(table.get(*name)?.as_str()?.strip_suffix("/s")?).ok()?;
        Some(format!("{name} = \"{}MB/s\"", rate * count / 1_000_000))
    };
    let dies = table.get("dies").and_then(|dies| u64::try_from(dies.as_integer()?).ok());
    let dies = dies.map(|dies| format!("dies = {}", dies * count));
    let all: Vec<String> = RATES.iter().filter_map(rate).chain(dies).collect();
    line(text, &format!("set = {{ {} }}", all.join(", ")));
}

fn write_place(text: &mut String, member: &DetectedMember, layout: Option<ArrayLayout>) {
    /// Array files take parts of whole pages.
    const PAGE: u64 = 4096;
    let disk_bytes = member.disk.as_ref().and_then(|disk| disk.size_bytes);
    // What holds no data is neither read nor scrubbed.
    let filled_bytes = member.filled_bytes();
    if member.size_bytes.is_none() {
        let like = match (disk_bytes, filled_bytes) {
            (Some(_), _) => "the disk, used whole",
            (None, Some(_)) => "its data",
            (None, None) => "the model",
        };
        line(text, &format!("# guessed: the size is that of {like}"));
        if filled_bytes.is_none() {
            disk_bytes.into_iter().for_each(|bytes| key(text, "size", &size(bytes)));
        }
    }
    let known_bytes = member.size_bytes.or(filled_bytes.and(disk_bytes.or(filled_bytes)));
    let Some(size_bytes) = known_bytes else { return };
    let data_bytes = filled_bytes.unwrap_or(size_bytes);
    if data_bytes < size_bytes {
        line(text, &format!("# holds data in {data_bytes} of {size_bytes} bytes"));
    }
    // The data of the system begin behind its metadata, which are part of the member.
    let around = layout.map(|layout| layout.member_around(data_bytes));
    let bytes = around.map_or(data_bytes, |around| around.size_bytes);
    let before = around.map_or(0, |around| around.data_begin_bytes);
    let begin = member.begin_bytes.map_or(0, |begin| begin.saturating_sub(before));
    let end = begin.checked_add(bytes);
    let (Some(disk_bytes), Some(end)) = (disk_bytes.filter(|disk| *disk > bytes), end) else {
        key(text, "size", &size(bytes));
        return;
    };
    let first = begin.div_ceil(PAGE) * PAGE;
    let length = end.min(disk_bytes).saturating_sub(first) / PAGE * PAGE;
    if length == 0 {
        key(text, "size", &size(bytes));
        return;
    }
    key(text, "size", &size(disk_bytes));
    match member.begin_bytes {
        Some(_) if first == 0 => {}
        Some(_) => key(text, "begin", &size(first)),
        None => line(text, "# guessed: the member begins at the start of its disk"),
    }
    key(text, "length", &size(length));
}

fn line(text: &mut String, content: &str) {
    // A comment ends with its line: a line feed in it would begin something else.
    let (break_before, content) = match content.strip_prefix('\n') {
        Some(rest) => ("\n", rest),
        None => ("", content),
    };
    let content: String = content.chars().filter(|it| !it.is_control()).collect();
    let _ = writeln!(text, "{break_before}{}", content.trim_end());
}

fn key(text: &mut String, key: &str, value: &str) {
    line(text, &format!("{key} = {}", quoted(value)));
}

/// A TOML string of the printable characters of `value`.
fn quoted(value: &str) -> String {
    toml::Value::String(printable(value)).to_string().replace('\n', " ")
}

/// Without control characters and invisible marks, which array files refuse.
fn printable(value: &str) -> String {
    value.chars().filter(|it| !mirrorball_core::diagnostic::Escaped::is_invisible(*it)).collect()
}

/// A size in the largest unit that divides it.
fn size(bytes: u64) -> String {
    let units = [(TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{quoted, size};

    #[test]
    fn sizes_are_exact() {
        assert_eq!(size(805_306_368), "768MiB");
        assert_eq!(size(1_000_204_886_016), "976762584KiB");
        assert_eq!(size(1025), "1025");
        assert_eq!(size(0), "0");
    }

    #[test]
    fn values_are_valid_toml_whatever_they_are() {
        for value in ["a\"b", "a\\b", "'", "a\u{7}\n\u{202e}b", "\"\"\"", ""] {
            let text = format!("a = {}", quoted(value));
            let table: toml::Table = text.parse().expect(&text);
            assert!(table["a"].as_str().is_some_and(|read| !read.contains('\n')), "{text}");
        }
    }
}
