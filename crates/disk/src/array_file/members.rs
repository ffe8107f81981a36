//! The `[[member]]` tables of an array file.

use super::cache_table::read_member_cache;
use super::faults::read_faults;
use super::model_reader::read_model;
use super::partition::{read_aligned, read_partition};
use super::reader::TomlSection;
use super::source::read_confidence;
use super::spec::{DevicePart, MemberSource, MemberSpec};
use crate::link::LinkParameters;
use crate::profile::ModelProfile;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::member::{MemberConfig, MemberState};
use mirrorball_core::units::{format_bytes, parse_bytes};

/// The keys of a member of any kind, and those that only a modelled one has.
const COMMON: [&str; 15] = [
    "devid", "path", "begin", "uri", "rotational", "optimal_io", "priority", "write_mostly",
    "rebuilding", "failed", "device", "kernel_name", "confidence", "state", "errors",
];
const MODELLED: [&str; 8] = ["model", "count", "link", "set", "size", "length", "fault", "cache"];

/// Largest number of members of an array. It bounds the time of a simulation: the layout of a wide
/// striped chunk and the choice of the next event take time in proportion to the number of members.
/// With 384 members, `mirrorball check` takes about 1 s. (Linux md allows more: 1920 with version 1
/// metadata since mdadm 3.2.4.)
const MEMBERS_MAX: usize = 384;

/// Reads the members of the file, in order. `links` are the links that they may name.
pub(super) fn read_members(
    root: &TomlSection<'_>,
    links: &[LinkParameters],
) -> Result<Vec<MemberSpec>, Diagnostic> {
    let mut members: Vec<MemberSpec> = Vec::new();
    for section in root.tables("member", "[[member]]")? {
        // As btrfs numbers them: one more than the highest so far.
        let highest = members.iter().map(|member| member.devid).max();
        let next_devid = highest.map_or(1, |highest| highest.saturating_add(1));
        let (first, count) = read_member(&section, links, next_devid)?;
        if members.len() + count > MEMBERS_MAX {
            let total = members.len() + count;
            let message =
                format!("the array has {total} members or more, but the limit is {MEMBERS_MAX}");
            let help = "use fewer and larger members";
            return Err(section.error_at("count", message).with_help(help));
        }
        if let Some(other) = members.iter().find(|other| other.devid == first.devid) {
            let message =
                format!("devid {} is taken by the member of line {}", first.devid, other.line);
            let help = "remove `devid` to number the members automatically";
            return Err(section.error_at("devid", message).with_help(help));
        }
        for devid in (first.devid..).take(count) {
            // Clones of one table differ in what is numbered by devid, and in nothing else.
            let shift = (devid - first.devid) as u32;
            let priority = match section.has("priority") {
                true => first.priority,
                false => first.priority.saturating_add(shift).min(255),
            };
            members.push(MemberSpec { devid, priority, ..first.clone() });
        }
    }
    if members.is_empty() {
        let error = root.error("the array has no [[member]]");
        return Err(error.with_help("for example [[member]] and, below it, model = \"hdd-5k4\""));
    }
    Ok(members)
}

/// Reads the spares of the file, in order.
pub(super) fn read_spares(root: &TomlSection<'_>) -> Result<Vec<MemberSource>, Diagnostic> {
    let spare = |section: &TomlSection<'_>| {
        section.allow_only(&["path", "uri"])?;
        let help = "for example path = \"/dev/sdd\"";
        match section.one_of(&["path", "uri"])? {
            Some(_) => read_source(section),
            None => Err(section.error("a spare needs a `path` or a `uri`").with_help(help)),
        }
    };
    root.tables("spare", "[[spare]]")?.iter().map(spare).collect()
}

/// Reads one table: its first member, and how many there are of the kind.
fn read_member(
    section: &TomlSection<'_>,
    links: &[LinkParameters],
    next_devid: u64,
) -> Result<(MemberSpec, usize), Diagnostic> {
    allow_only_known(section)?;
    let source = read_source(section)?;
    let devid = section.integer("devid")?.unwrap_or(next_devid);
    if devid == 0 {
        let error = section.error_at("devid", "`devid` is 0, but members are numbered from 1");
        return Err(error.with_help("remove `devid` to number the members automatically"));
    }
    let (partition, size_bytes) = match &source {
        MemberSource::Model(profile) => {
            let partition = read_partition(section, profile.capacity_bytes)?;
            (partition, partition.map_or(profile.capacity_bytes, |part| part.length_bytes))
        }
        MemberSource::Path(_) | MemberSource::Uri(_) => (None, u64::MAX),
    };
    let expected = format!("a whole number from 1 to {MEMBERS_MAX}");
    let count = section.integer_expecting::<u16>("count", &expected)?.unwrap_or(1).into();
    if count == 0 {
        return Err(section.error_at("count", "`count` is 0").with_help("remove the member"));
    }
    if let Some(key) =
        ["devid", "device", "kernel_name"].into_iter().find(|key| count > 1 && section.has(key))
    {
        let message = format!("`{key}` names one member, but `count` is {count}");
        return Err(section.error_at(key, message).with_help("write one [[member]] for each"));
    }
    let config = MemberConfig::new(devid, size_bytes);
    let member = MemberSpec {
        devid,
        source,
        link: read_link_name(section, links)?,
        faults: read_faults(section, size_bytes)?,
        cache: read_member_cache(section)?.map(Box::new),
        priority: section.integer::<u8>("priority")?.map_or(config.priority, u32::from),
        write_mostly: section.flag("write_mostly")?.unwrap_or(false),
        rotational: section.flag("rotational")?,
        optimal_io_bytes: section.quantity("optimal_io", parse_bytes)?,
        state: read_state(section, size_bytes)?,
        range: read_range(section)?,
        partition,
        device: section.printable_text("device")?.map(|text| text.value.to_owned()),
        kernel_name: section.printable_text("kernel_name")?.map(|text| text.value.to_owned()),
        confidence: read_confidence(section)?,
        system_state: section.printable_text("state")?.map(|text| text.value.to_owned()),
        errors: section.printable_text("errors")?.map(|text| text.value.to_owned()),
        line: section.line(),
    };
    Ok((member, count))
}

fn allow_only_known(section: &TomlSection<'_>) -> Result<(), Diagnostic> {
    let known: Vec<&str> = MODELLED.iter().chain(&COMMON).copied().collect();
    section.allow_only(&known).map_err(|error| match &error.help {
        Some(help) if !help.starts_with("did you mean") => {
            let help = format!("{help}; parameters of the model go into set = {{ … }}");
            error.with_help(help)
        }
        _ => error,
    })
}

fn read_source(section: &TomlSection<'_>) -> Result<MemberSource, Diagnostic> {
    match section.one_of(&["model", "path", "uri"])? {
        Some("model") => {
            let model = section.text("model")?.expect("the key is there");
            Ok(MemberSource::Model(Box::new(read_model(section, model)?)))
        }
        Some(real) => {
            let is_for_models = |key: &&&str| section.has(key) && (real, **key) != ("path", "size");
            if let Some(key) = MODELLED.iter().find(is_for_models) {
                let message =
                    format!("`{key}` is for disk models, but `{real}` makes the member a real one");
                return Err(section.error_at(key, message).with_help("remove one of them"));
            }
            let value = section.text(real)?.expect("the key is there").value;
            if value.is_empty() {
                return Err(section.error_at(real, format!("`{real}` is empty")));
            }
            match real {
                "path" => Ok(MemberSource::Path(value.into())),
                _ => Ok(MemberSource::Uri(value.to_owned())),
            }
        }
        None => {
            let names: Vec<&str> = ModelProfile::builtin_names().collect();
            let help = format!("`model` is a path ending in .toml, or one of {}", names.join(", "));
            Err(section.error("the member has no `model`, `path` or `uri`").with_help(help))
        }
    }
}

/// Which part of its file or device a real member is. For a modelled member only the size is kept.
fn read_range(section: &TomlSection<'_>) -> Result<DevicePart, Diagnostic> {
    if section.has("uri") && section.has("begin") {
        let error = section.error_at("begin", "`begin` is for a member with a `path` or a `model`");
        return Err(error.with_help("leave it out"));
    }
    let begin = match section.has("path") {
        true => read_aligned(section, "begin")?,
        false => None,
    };
    let size_bytes = section.quantity("size", parse_bytes)?;
    Ok(DevicePart { begin_bytes: begin.unwrap_or(0), size_bytes })
}

fn read_link_name(
    section: &TomlSection<'_>,
    links: &[LinkParameters],
) -> Result<Option<usize>, Diagnostic> {
    let Some(name) = section.text("link")? else { return Ok(None) };
    let known: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
    if let Some(index) = known.iter().position(|known| *known == name.value) {
        return Ok(Some(index));
    }
    let error = section.source.error(name.start, format!("there is no link `{}`", name.value));
    Err(match known.is_empty() {
        true => error.with_help(format!("add [[link]] and, below it, name = \"{}\"", name.value)),
        false => error.with_suggestion(name.value, &known, "the links are"),
    })
}

fn read_state(section: &TomlSection<'_>, size_bytes: u64) -> Result<MemberState, Diagnostic> {
    let failed = section.flag("failed")?.unwrap_or(false);
    match section.quantity("rebuilding", parse_bytes)? {
        Some(_) if failed => {
            let error = section.error_at("rebuilding", "a failed member cannot be `rebuilding`");
            Err(error.with_help("remove one of them"))
        }
        Some(recovered_bytes) if recovered_bytes > size_bytes => {
            let message = format!(
                "`rebuilding` is larger than the member, which has {}",
                format_bytes(size_bytes)
            );
            Err(section
                .error_at("rebuilding", message)
                .with_help("`rebuilding` is the size recovered so far"))
        }
        Some(recovered_bytes) => Ok(MemberState::Rebuilding { recovered_bytes }),
        None if failed => Ok(MemberState::Failed),
        None => Ok(MemberState::InSync),
    }
}
