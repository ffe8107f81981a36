//! Edits of an array file that keep its meaning otherwise: to ask about the same array with other
//! disks.
//!
//! The result is a new text, in which each member has a table and a devid of its own, models named
//! by a path have an absolute one, and there are no comments.

use super::model_reader::is_file_name;
use super::{ArrayFile, ArraySpec, ModelConfidence, Partition};
use crate::link::LinkParameters;
use crate::profile::ModelProfile;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::geometry::{ArrayLayout, LayoutKind, Profile};
use mirrorball_core::suggest::did_you_mean;
use mirrorball_core::units::{SECTOR_BYTES, parse_bytes};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

#[derive(Clone, Debug)]
pub struct ArrayEdit {
    file: Table,
    members: Vec<Table>,
    spec: ArraySpec,
}

/// A model that was fitted to measurements of the disk of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FittedModel {
    /// The file of its profile, relative to the folder of the array file.
    pub file: String,
    /// How well it is known to fit.
    pub confidence: ModelConfidence,
    /// The way to the disk, if it was measured together with the disk.
    pub link: Option<LinkParameters>,
    /// Which part of the disk a member is that the file names by its path only.
    pub part: Option<Partition>,
}

/// Data of a new member in an array whose members all have all data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddedMember {
    /// One more copy of the data, as in md, ZFS and gmirror.
    MoreCopies,
    /// More space for the same number of copies, as in btrfs.
    MoreSpace,
}

/// The keys of a member that describe its disk, and not its place in the array.
const OF_DISK: [&str; 18] = [
    "model", "path", "uri", "size", "begin", "length", "set", "fault", "rotational", "optimal_io",
    "device", "kernel_name", "confidence", "write_mostly", "rebuilding", "failed", "state",
    "errors",
];

impl ArrayEdit {
    /// Begins to edit a file. Panics if the file was not read from its text.
    pub fn new(file: &ArrayFile) -> ArrayEdit {
        let mut table: Table = file.text.parse().expect("the file was read from this text");
        let folder = Path::new(&file.file_name).parent().unwrap_or(Path::new(""));
        let written = match table.remove("member") {
            Some(Value::Array(members)) => members,
            _ => Vec::new(),
        };
        if let Some(Value::Table(cache)) = table.get_mut("cache") {
            make_model_absolute(cache, folder);
        }
        let mut devids = file.spec.members.iter().map(|member| member.devid);
        let mut members = Vec::new();
        for mut member in written.into_iter().filter_map(into_table) {
            let count = member.remove("count").and_then(|count| count.as_integer()).unwrap_or(1);
            make_model_absolute(&mut member, folder);
            if let Some(Value::Table(cache)) = member.get_mut("cache") {
                make_model_absolute(cache, folder);
            }
            for devid in devids.by_ref().take(usize::try_from(count).unwrap_or(1)) {
                let mut member = member.clone();
                member.insert("devid".to_owned(), integer(devid));
                members.push(member);
            }
        }
        put(&mut table, "name", &file.spec.name);
        ArrayEdit { file: table, members, spec: file.spec.clone() }
    }

    /// Writes the policy in force, and removes the flags of members that it names. `system` is
    /// written as the storage system if the file names none.
    pub fn set_in_force(&mut self, system: &str, spec: &str) {
        let mut source = self.file.remove("source").and_then(into_table).unwrap_or_default();
        if !source.contains_key("system") {
            put(&mut source, "system", system);
        }
        put(&mut source, "in_force", spec);
        self.file.insert("source".to_owned(), Value::Table(source));
        for member in &mut self.members {
            member.remove("write_mostly");
        }
    }

    /// Sets the read-ahead of buffered readers, in KiB.
    pub fn set_read_ahead(&mut self, kib: u64) {
        let mut host = self.file.remove("host").and_then(into_table).unwrap_or_default();
        host.insert("read_ahead_kb".to_owned(), integer(kib));
        self.file.insert("host".to_owned(), Value::Table(host));
    }

    /// Puts a member into service: it is neither failed nor being rebuilt.
    pub fn take_into_service(&mut self, devid: u64) {
        let index = self.devids().iter().position(|known| *known == devid);
        for key in ["failed", "rebuilding"] {
            if let Some(index) = index {
                self.members[index].remove(key);
            }
        }
    }

    /// Puts a disk of this model, whole and without faults, in the place of a member. Fails if
    /// there is no such member, or no such model.
    pub fn replace(&mut self, devid: u64, model: &str) -> Result<(), Diagnostic> {
        let model = model_name(model)?;
        let index = self.index_of(devid)?;
        let member = &mut self.members[index];
        for key in OF_DISK {
            member.remove(key);
        }
        put(member, "model", &model);
        Ok(())
    }

    /// States which model the disk of a member is. All else that is known of the disk stays. Fails
    /// if there is no such member, or no such model.
    pub fn state_model(&mut self, devid: u64, model: &str) -> Result<(), Diagnostic> {
        let model = model_name(model)?;
        let index = self.index_of(devid)?;
        for key in ["set", "confidence"] {
            self.members[index].remove(key);
        }
        put(&mut self.members[index], "model", &model);
        Ok(())
    }

    /// States which class of disks a member is of, by the model that stands for the class.
    pub fn state_class(&mut self, devid: u64, model: &str, is_rotational: bool) {
        let Some(index) = self.devids().iter().position(|known| *known == devid) else { return };
        let member = &mut self.members[index];
        member.remove("set");
        put(member, "model", model);
        put(member, "confidence", ModelConfidence::ClassDefault.name());
        member.insert("rotational".to_owned(), Value::Boolean(is_rotational));
    }

    pub fn remove(&mut self, devid: u64) -> Result<(), Diagnostic> {
        let index = self.index_of(devid)?;
        self.members.remove(index);
        Ok(())
    }

    /// States the size of the disk of a member.
    pub fn resize(&mut self, devid: u64, bytes: u64) {
        if let Some(index) = self.devids().iter().position(|known| *known == devid) {
            put(&mut self.members[index], "size", &bytes.to_string());
        }
    }

    /// Lays the same members out in another way: a layout, or a profile of btrfs. Fails if there is
    /// neither of this name.
    pub fn lay_out(&mut self, name: &str) -> Result<(), Diagnostic> {
        if name.parse::<Profile>().is_ok() {
            put(&mut self.file, "profile", name);
            return Ok(());
        }
        let layout = name.parse::<ArrayLayout>();
        layout.map_err(|error| Diagnostic::new(error.message).with_help(error.help))?;
        put(&mut self.file, "layout", name);
        // With a layout other than that of btrfs the number of members decides the profile.
        self.file.remove("profile");
        Ok(())
    }

    /// Puts a fitted model in the place of the one of a member, which keeps its disk and its place
    /// on it. A real member, which the file names by its path, becomes a modelled one.
    pub fn fit(&mut self, devid: u64, fitted: &FittedModel) {
        let Some(index) = self.devids().iter().position(|known| *known == devid) else { return };
        let range = self.spec.members[index].range;
        let member = &mut self.members[index];
        member.remove("set");
        if let Some(Value::String(path)) = member.remove("path") {
            put(member, "device", &path);
            let begin_bytes = fitted.part.map_or(0, |part| part.begin_bytes);
            let rest = |part: Partition| part.length_bytes.saturating_sub(range.begin_bytes);
            let known_rest = fitted.part.map(rest);
            member.remove("size");
            // Array files take parts of whole sectors, which old partitions are not.
            let whole = |bytes: u64| (bytes - bytes % SECTOR_BYTES).to_string();
            put(member, "begin", &whole(begin_bytes + range.begin_bytes));
            if let Some(bytes) = range.size_bytes.or(known_rest) {
                put(member, "length", &whole(bytes));
            }
        }
        put(member, "model", &fitted.file);
        put(member, "confidence", fitted.confidence.name());
        if let Some(link) = &fitted.link {
            put(member, "link", &link.name);
            self.add_link(link);
        }
    }

    fn add_link(&mut self, link: &LinkParameters) {
        let mut table = Table::new();
        put(&mut table, "name", &link.name);
        for (key, rate) in [("read", link.read_rate), ("write", link.write_rate)] {
            if let Some(rate) = rate {
                put(&mut table, key, &format!("{rate}B/s"));
            }
        }
        put(&mut table, "latency", &format!("{}ns", link.latency.0));
        put(&mut table, "jitter", &format!("{}ns", link.jitter.0));
        let links = self.file.entry("link").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(links) = links {
            links.push(Value::Table(table));
        }
    }

    /// The size of the disk of a member, as the file states it.
    pub fn stated_bytes(&self, devid: u64) -> Option<u64> {
        let index = self.devids().iter().position(|known| *known == devid)?;
        let member = &self.members[index];
        let size = member.get("size").filter(|_| member.contains_key("model"))?;
        match size {
            Value::String(text) => parse_bytes(text).ok(),
            other => other.as_integer().and_then(|bytes| u64::try_from(bytes).ok()),
        }
    }

    /// Adds a disk of this model, whole, and returns its devid.
    pub fn add(&mut self, model: &str, brings: AddedMember) -> Result<u64, Diagnostic> {
        let model = model_name(model)?;
        let devid = self.devids().into_iter().max().map_or(1, |highest| highest + 1);
        if brings == AddedMember::MoreCopies {
            self.add_copy();
        }
        let mut member = Table::new();
        put(&mut member, "model", &model);
        member.insert("devid".to_owned(), integer(devid));
        self.members.push(member);
        Ok(devid)
    }

    /// Raises the number of copies by one if each member has a copy of all data.
    fn add_copy(&mut self) {
        let members = self.members.len();
        let layout: ArrayLayout = self.text_of("layout").parse().unwrap_or(self.spec.layout);
        if layout.kind() == LayoutKind::ZfsMirror
            && layout.profile(members) != Some(Profile::Raid10)
        {
            put(&mut self.file, "layout", &format!("zfs-mirror:{}", members + 1));
        }
        let profile = self.text_of("profile").parse::<Profile>();
        if layout == ArrayLayout::BTRFS
            && profile.is_ok_and(|it| it.copies() == members && !it.is_striped())
            && let Some(next) = Profile::fitting(members + 1)
        {
            put(&mut self.file, "profile", next.name());
        }
    }

    pub fn rename(&mut self, name: &str) {
        put(&mut self.file, "name", name);
    }

    pub fn text(&self) -> String {
        let mut file = self.file.clone();
        // With a layout other than that of btrfs the number of members decides the profile.
        if self.spec.layout != ArrayLayout::BTRFS {
            file.remove("profile");
        }
        let members = self.members.iter().cloned().map(Value::Table).collect();
        file.insert("member".to_owned(), Value::Array(members));
        file.to_string()
    }

    fn index_of(&self, devid: u64) -> Result<usize, Diagnostic> {
        let devids = self.devids();
        devids.iter().position(|known| *known == devid).ok_or_else(|| {
            let known: Vec<String> = devids.iter().map(ToString::to_string).collect();
            let help = format!("the devids are {}", known.join(", "));
            Diagnostic::new(format!("no member has devid {devid}")).with_help(help)
        })
    }

    fn devids(&self) -> Vec<u64> {
        let devid = |member: &Table| member.get("devid").and_then(Value::as_integer);
        self.members.iter().filter_map(devid).filter_map(|it| u64::try_from(it).ok()).collect()
    }

    fn text_of(&self, key: &str) -> &str {
        self.file.get(key).and_then(Value::as_str).unwrap_or_default()
    }
}

/// Replaces the path of a model file by one that does not depend on the folder of the array file.
fn make_model_absolute(table: &mut Table, folder: &Path) {
    let model = table.get("model").and_then(Value::as_str).map(str::to_owned);
    if let Some(model) = model.filter(|model| is_file_name(model)) {
        put(table, "model", &absolute(&folder.join(model)));
    }
}

/// A model as array files of any folder name it.
pub fn model_name(model: &str) -> Result<String, Diagnostic> {
    if is_file_name(model) {
        let text = std::fs::read_to_string(model).map_err(|error| {
            Diagnostic::new(format!("cannot read the model file `{model}`: {error}"))
        })?;
        ModelProfile::parse(&text, model)?;
        return Ok(absolute(Path::new(model)));
    }
    let known: Vec<&str> = ModelProfile::builtin_names().collect();
    if known.contains(&model) {
        return Ok(model.to_owned());
    }
    let help = match (ModelProfile::names_that_begin(model), did_you_mean(model, known)) {
        (Some(kin), _) => kin,
        (None, Some(near)) => format!("{near} `mirrorball models` lists all"),
        (None, None) => {
            "`mirrorball models` lists all; a path of a model file ends in .toml".to_owned()
        }
    };
    Err(Diagnostic::new(format!("there is no model `{model}`")).with_help(help))
}

fn absolute(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
    path.to_string_lossy().into_owned()
}

fn into_table(value: Value) -> Option<Table> {
    match value {
        Value::Table(table) => Some(table),
        _ => None,
    }
}

fn put(table: &mut Table, key: &str, value: &str) {
    table.insert(key.to_owned(), Value::String(value.to_owned()));
}

fn integer(number: u64) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array_file::MemberSource;
    use mirrorball_core::units::{GIB, MIB, Nanos};

    const ARRAY: &str = "profile = \"raid1\"\n[cache]\nmodel = \"nvme-gen3\"\n\
        [source]\nsystem = \"md\"\n[[link]]\nname = \"hba\"\n\
        [[member]]\nmodel = \"hdd-7k2-ent\"\ncount = 2\nlink = \"hba\"\nsize = \"1TB\"\n\
        write_mostly = true\n[[member]]\nmodel = \"ssd-sata-plp\"\ndevid = 9\n";

    fn edit(text: &str) -> ArrayEdit {
        ArrayEdit::new(&ArrayFile::parse(text, "folder/pair.toml").unwrap())
    }

    fn parsed(edit: &ArrayEdit) -> ArraySpec {
        let text = edit.text();
        ArrayFile::parse(&text, "b.toml").unwrap_or_else(|error| panic!("{error}\n{text}")).spec
    }

    fn models(spec: &ArraySpec) -> Vec<(u64, String)> {
        let name = |source: &MemberSource| match source {
            MemberSource::Model(profile) => profile.name.clone(),
            other => format!("{other:?}"),
        };
        spec.members.iter().map(|member| (member.devid, name(&member.source))).collect()
    }

    #[test]
    fn an_unchanged_array_keeps_its_meaning() {
        for name in ArrayFile::builtin_names() {
            let file = ArrayFile::builtin(name).unwrap();
            let again = parsed(&ArrayEdit::new(&file));
            assert_eq!(again.canonical_text(), file.spec.canonical_text(), "{name}");
            assert_eq!(again.name, file.spec.name);
        }
        assert_eq!(edit(ARRAY).spec.canonical_text(), parsed(&edit(ARRAY)).canonical_text());
    }

    #[test]
    fn a_replaced_member_keeps_its_place_and_nothing_of_its_disk() {
        let mut edit = edit(ARRAY);
        edit.replace(2, "ssd-sata-plp").unwrap();
        let spec = parsed(&edit);
        let expected = [(1, "hdd-7k2-ent"), (2, "ssd-sata-plp"), (9, "ssd-sata-plp")];
        assert_eq!(models(&spec), expected.map(|(devid, name)| (devid, name.to_owned())));
        assert!(spec.members[0].write_mostly && !spec.members[1].write_mostly);
        assert_eq!(spec.members[1].link, Some(0));
        assert_eq!(spec.members[0].partition, None);
        let error = edit.replace(3, "ssd-sata-plp").unwrap_err().to_string();
        assert_eq!(error, "no member has devid 3\n  help: the devids are 1, 2, 9");
        let error = edit.replace(2, "ssd-sata-pl").unwrap_err().to_string();
        assert!(error.contains("no model `ssd-sata-pl`") && error.contains("`ssd-sata-plp`?"));
        let error = edit.replace(2, "hdd").unwrap_err().to_string();
        assert!(error.contains("help: the models hdd-* are hdd-15k, "), "{error}");
        let error = edit.replace(2, "no/such.toml").unwrap_err().to_string();
        assert!(error.contains("cannot read the model file `no/such.toml`"), "{error}");
    }

    #[test]
    fn an_added_member_brings_a_copy_or_space() {
        let pair = "[[member]]\nmodel = \"hdd-7k2-ent\"\ncount = 2\n";
        for (head, brings, layout, profile) in [
            ("profile = \"raid1\"\n", AddedMember::MoreSpace, "btrfs", "raid1"),
            ("profile = \"raid1\"\n", AddedMember::MoreCopies, "btrfs", "raid1c3"),
            ("layout = \"md-raid1\"\n", AddedMember::MoreCopies, "md-raid1", "raid1c3"),
            ("layout = \"zfs-mirror:2\"\n", AddedMember::MoreCopies, "zfs-mirror:3", "raid1c3"),
            (
                "layout = \"md-raid10-near:2\"\n",
                AddedMember::MoreCopies,
                "md-raid10-near:2",
                "raid10",
            ),
        ] {
            let mut edit = edit(&format!("{head}{pair}"));
            assert_eq!(edit.add("nvme-gen3", brings), Ok(3));
            let spec = parsed(&edit);
            let found = (spec.layout.to_string(), spec.profile.name().to_owned());
            assert_eq!(found, (layout.to_owned(), profile.to_owned()));
            assert_eq!(spec.members.len(), 3);
        }
    }

    #[test]
    fn a_fitted_model_takes_the_place_of_the_one_that_was_chosen() {
        let text = "profile = \"raid1\"\n[[link]]\nname = \"hba\"\n[[member]]\n\
            model = \"hdd-5k4\"\ndevice = \"/dev/sda1\"\nset = { rpm = 5900 }\n\
            size = \"1TB\"\nlength = \"500GiB\"\nlink = \"hba\"\n[[member]]\n\
            path = \"/dev/sdb1\"\nbegin = \"1MiB\"\n";
        let mut edit = edit(text);
        assert_eq!(edit.stated_bytes(1), Some(1_000_000_000_000));
        assert_eq!(edit.stated_bytes(2), None);
        // The name of a model does as well as that of a file.
        let (file, confidence) = ("hdd-7k2-ent".to_owned(), ModelConfidence::Fitted);
        let model = |part| FittedModel { file: file.clone(), confidence, link: None, part };
        edit.fit(1, &model(None));
        let network = LinkParameters {
            name: "devid-2".to_owned(),
            read_rate: Some(117_000_001),
            write_rate: None,
            latency: Nanos(130_401),
            jitter: Nanos(9),
        };
        let part = Partition { begin_bytes: 8 * MIB + 512, length_bytes: 100 * GIB };
        edit.fit(2, &FittedModel { link: Some(network.clone()), ..model(Some(part)) });
        let (text, spec) = (edit.text(), parsed(&edit));
        let fitted = Some(ModelConfidence::Fitted);
        assert!(spec.members.iter().all(|member| member.confidence == fitted), "{text}");
        let MemberSource::Model(first) = &spec.members[0].source else { panic!("{text}") };
        assert_eq!((first.capacity_bytes, spec.members[0].link), (1_000_000_000_000, Some(0)));
        let length_bytes = spec.members[0].partition.unwrap().length_bytes;
        assert_eq!(length_bytes, 500 * GIB, "it keeps its part of the disk");
        assert_eq!(spec.members[1].device.as_deref(), Some("/dev/sdb1"));
        let part = Partition { begin_bytes: 9 * MIB, length_bytes: 100 * GIB - MIB };
        assert_eq!(spec.members[1].partition, Some(part));
        assert_eq!((spec.members[1].link, &spec.links[1]), (Some(1), &network));
    }

    #[test]
    fn the_policy_in_force_takes_the_place_of_flags() {
        let mut edit = edit(ARRAY);
        edit.set_in_force("md", "md/raid1+write-mostly:1");
        edit.rename("changed");
        let spec = parsed(&edit);
        assert!(spec.members.iter().all(|member| !member.write_mostly));
        assert_eq!(spec.source.unwrap().in_force.as_deref(), Some("md/raid1+write-mostly:1"));
        assert_eq!(spec.name, "changed");
    }
}
