//! The array file: members, links and profile of an array, as a user writes them in TOML.
//!
//! ```toml
//! name = "six unequal disks, RAID1"   # the file's name if left out
//! profile = "raid1"            # single, raid0, raid1, raid1c3, raid1c4, raid10, raid5, raid6
//! layout = "btrfs"             # or "md-raid10-far:2", "zfs-mirror:2" …, which has its own profile
//! chunk = "512K"               # of the layouts of md raid10
//! stripe_width_max = 4         # largest number of members in a chunk of raid0 or raid10
//! used = "60%"                 # of the volume, or a size: older data at its start
//! [host]                       # the machine around the disks
//! overhead = { mean = "15us", jitter = "10%" } # per request, outside the device; or "15us"
//! read_ahead_kb = 128
//! cpus = 8
//! [cache]                      # a cache tier in front of the array; as `cache` of a member
//! model = "nvme-gen3"
//! [controller]                 # a write-back cache in front of the array; none if left out
//! cache = "1GiB"
//! high_mark = "75%"            # write-back starts
//! low_mark = "25%"             # write-back stops
//! depth = 16                   # full stripes written back at once
//! [source]                     # where the array was found; written by `mirrorball detect`
//! system = "btrfs"
//! [[link]]
//! name = "hba"
//! read = "200MB/s"             # towards the host; unlimited if left out
//! write = "190MB/s"
//! latency = "10us"             # of one crossing; an I/O crosses twice
//! jitter = "5us"               # largest random addition to a crossing
//! [[member]]
//! model = "hdd-7k2-desktop"    # a built-in model profile, or a path to one
//! count = 2
//! link = "hba"
//! size = "1TB"                 # of the whole disk
//! begin = "100GB"              # the part of it that is the member; all of it if left out
//! length = "500GB"
//! set = { rpm = 7200 }         # override any parameter of the model
//! fault = [
//!   { slow = 4.0, from = "10s", until = "20s" },
//!   { stall = "2s", at = "30s" },
//!   { error_rate = 0.001, from = "10s" },
//!   { bad = { offset = "1GiB", length = "64K" } },
//!   { dead = true, from = "40s", until = "60s" },
//! ]
//! [[member]]
//! model = "delay"
//! devid = 7                    # else one more than the highest so far, from 1
//! rotational = true            # as the kernel reports it; that of the model if left out
//! optimal_io = "128K"          # likewise
//! priority = 3                 # else the devid less 1, as gmirror gives it
//! device = "/dev/sdb1"         # the disk that the model stands for; not opened
//! confidence = "class default" # how well the model is known to fit it
//! write_mostly = true
//! rebuilding = "500GB"         # recovered so far; or failed = true
//! [[member]]
//! path = "/dev/sdc"            # a real member, which cannot be simulated
//! begin = "1GiB"               # the part that is the member; all of it if left out
//! size = "500GB"
//! [[member]]
//! uri = "nbd://replica/export" # likewise
//! ```
//!
//! The first mistake gives an error with the place and what to do. Non-goals: opening real members,
//! and running anything.

mod cache_table;
mod canonical;
mod controller_table;
mod edit;
mod faults;
mod members;
mod model_reader;
mod partition;
mod reader;
mod source;
mod spec;

pub use edit::{AddedMember, ArrayEdit, FittedModel, model_name};
pub use source::{ArraySource, ModelConfidence};
pub use spec::{
    ArraySpec, DevicePart, Host, HostOverhead, MemberSource, MemberSpec, Partition, Used,
};

use crate::link::LinkParameters;
use cache_table::read_array_cache;
use controller_table::read_controller;
use members::{read_members, read_spares};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::geometry::{ArrayLayout, GeometryError, LayoutError, Profile, UnknownProfile};
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::units::{Nanos, parse_bytes, parse_duration, parse_rate};
use mirrorball_core::volume::RmwLevel;
use reader::{Located, TomlSection, TomlSource};
use source::read_array_source;
use std::path::Path;
use toml::de::DeTable;

/// An array file: its text, which results record, and the array that it describes.
#[derive(Clone, Debug)]
pub struct ArrayFile {
    /// The path of the file, or the name of a built-in array.
    pub file_name: String,
    pub text: String,
    pub spec: ArraySpec,
}

/// The arrays compiled in, the default first.
const BUILTINS: [(&str, &str); 9] = [
    ("hetero-hdd-raid1", include_str!("../arrays/hetero-hdd-raid1.toml")),
    ("two-hdd-raid1", include_str!("../arrays/two-hdd-raid1.toml")),
    ("two-ssd-raid1", include_str!("../arrays/two-ssd-raid1.toml")),
    ("hdd-ssd-raid1", include_str!("../arrays/hdd-ssd-raid1.toml")),
    ("eight-hdd-raid10", include_str!("../arrays/eight-hdd-raid10.toml")),
    ("four-hdd-hba-raid10", include_str!("../arrays/four-hdd-hba-raid10.toml")),
    ("three-nvme-raid1c3", include_str!("../arrays/three-nvme-raid1c3.toml")),
    ("five-hdd-raid6", include_str!("../arrays/five-hdd-raid6.toml")),
    ("two-delays-raid1", include_str!("../arrays/two-delays-raid1.toml")),
];

impl ArrayFile {
    pub const DEFAULT: &str = BUILTINS[0].0;

    /// The names of the arrays compiled in, the default first.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTINS.iter().map(|&(name, _)| name)
    }

    /// The array compiled in under `name`, with or without `arrays/` and `.toml` around it. Fails
    /// if there is none; the help has the nearest name.
    pub fn builtin(name: &str) -> Result<ArrayFile, Diagnostic> {
        let bare = name.strip_prefix("arrays/").unwrap_or(name);
        let bare = bare.strip_suffix(".toml").unwrap_or(bare);
        match BUILTINS.iter().find(|(candidate, _)| *candidate == bare) {
            Some((name, text)) => ArrayFile::parse(text, &format!("arrays/{name}.toml")),
            None => {
                let known: Vec<&str> = ArrayFile::builtin_names().collect();
                let error = Diagnostic::new("there is no built-in array of this name");
                let error = error.in_file(name);
                Err(error.with_suggestion(bare, &known, "the built-in ones are"))
            }
        }
    }

    /// Reads an array from `text`. `file_name` names it in messages; paths of model files are
    /// relative to its folder. Fails if it is not TOML, a key is unknown or missing or has the
    /// wrong kind of value, a name is unknown, or the profile does not allow these members.
    pub fn parse(text: &str, file_name: &str) -> Result<ArrayFile, Diagnostic> {
        let source = TomlSource { file: file_name, text };
        let table = DeTable::parse(text).map_err(|error| source.syntax_error(&error))?;
        let spec = read_array(&source.root(&table))?;
        Ok(ArrayFile { file_name: file_name.to_owned(), text: text.to_owned(), spec })
    }
}

/// The keys of the file, outside of its tables.
const KEYS: [&str; 14] = [
    "name", "profile", "layout", "chunk", "stripe_width_max", "rmw_level", "used", "host", "cache",
    "controller", "source", "link", "member", "spare",
];

fn read_array(root: &TomlSection<'_>) -> Result<ArraySpec, Diagnostic> {
    if root.has("kind") && !root.has("member") {
        let file = root.source.file;
        let error = root.error_at("kind", "this is a model profile, not an array file");
        let help = format!("name it in an array file: model = \"{file}\"");
        return Err(error.with_help(format!("{help}; `mirrorball probe --model` shows it")));
    }
    root.allow_only(&KEYS)?;
    let file_name = root.source.file;
    let name = match root.printable_text("name")? {
        Some(name) => name.value.to_owned(),
        None => Path::new(file_name).file_stem().unwrap_or_default().display().to_string(),
    };
    let layout = read_layout(root)?;
    let written_profile = read_profile(root, layout)?;
    let links = read_links(root)?;
    let stripe_width_max = root.integer("stripe_width_max")?;
    let used = root.quantity("used", parse_used)?.unwrap_or(Used::Bytes(0));
    let host = read_host(root)?;
    let source = read_array_source(root)?;
    let members = read_members(root, &links)?;
    let spares = read_spares(root)?;
    let cache = read_array_cache(root, &members)?.map(Box::new);
    let controller = read_controller(root, &members)?;
    layout.check_members(members.len()).map_err(|error| {
        let Diagnostic { message, help, .. } = error.diagnostic();
        Diagnostic { help, ..root.error_at("layout", message) }
    })?;
    let profile = match (layout.profile(members.len()), written_profile) {
        (Some(implied), Some(written)) if implied != written => {
            return Err(contradicting_profile(root, layout, members.len(), implied));
        }
        (Some(profile), _) | (None, Some(profile)) => profile,
        (None, None) => unreachable!("an array of btrfs has a profile"),
    };
    let rmw_level = read_rmw_level(root, profile)?;
    let file_name = file_name.to_owned();
    let spec = ArraySpec {
        name,
        file_name,
        profile,
        layout,
        stripe_width_max,
        rmw_level,
        used,
        host,
        cache,
        controller,
        source,
        links,
        members,
        spares,
    };
    check_geometry(root, &spec)?;
    Ok(spec)
}

/// Reads `layout` and `chunk`.
fn read_layout(root: &TomlSection<'_>) -> Result<ArrayLayout, Diagnostic> {
    let refuse =
        |start, LayoutError { message, help }| root.source.error(start, message).with_help(help);
    let layout = match root.text("layout")? {
        Some(Located { value, start }) => value.parse().map_err(|error| refuse(start, error))?,
        None => ArrayLayout::BTRFS,
    };
    if layout != ArrayLayout::BTRFS && root.has("stripe_width_max") {
        let message = format!("`stripe_width_max` is for btrfs, and the layout is {layout}");
        return Err(root.error_at("stripe_width_max", message).with_help("leave it out"));
    }
    match root.quantity("chunk", parse_bytes)? {
        Some(_) if !root.has("layout") => {
            let message = "`chunk` is for layouts of md raid10, raid5 and raid6, but `layout` is \
                           missing, so it is btrfs";
            let help = "remove `chunk`, or write a layout of md such as md-raid10-near:2 or \
                        md-raid5 in place of `profile`";
            Err(root.error_at("chunk", message).with_help(help))
        }
        Some(bytes) => {
            layout.with_chunk(bytes).map_err(|error| refuse(root.start_of("chunk"), error))
        }
        None => Ok(layout),
    }
}

/// Reads `rmw_level`, by the numbers of md.
fn read_rmw_level(root: &TomlSection<'_>, profile: Profile) -> Result<RmwLevel, Diagnostic> {
    let Some(level) = root.integer::<u64>("rmw_level")? else { return Ok(RmwLevel::default()) };
    if profile.parities() == 0 {
        let message = format!("`rmw_level` is for parity, and the profile is {profile}");
        return Err(root.error_at("rmw_level", message).with_help("leave it out"));
    }
    match level {
        0 => Ok(RmwLevel::Never),
        1 => Ok(RmwLevel::FewerReads),
        2 => Ok(RmwLevel::NoMoreReads),
        _ => {
            let error = root.error_at("rmw_level", format!("there is no `rmw_level` {level}"));
            Err(error.with_help("give 0, 1 or 2, as in `/sys/block/mdN/md/rmw_level`"))
        }
    }
}

/// Reads `profile`, which only an array of btrfs needs.
fn read_profile(
    root: &TomlSection<'_>,
    layout: ArrayLayout,
) -> Result<Option<Profile>, Diagnostic> {
    let names = Profile::ALL.map(Profile::name);
    let Some(written) = root.text("profile")? else {
        if layout != ArrayLayout::BTRFS {
            return Ok(None);
        }
        let help = format!("give one of {}", names.join(", "));
        return Err(root.error("the array has no `profile`").with_help(help));
    };
    written.value.parse().map(Some).map_err(|unknown: UnknownProfile| {
        let message = format!("unknown profile `{}`", written.value);
        let guess = unknown.suggestion().map(|name| format!("; did you mean `{name}`?"));
        let help = format!("the profiles are {}{}", names.join(", "), guess.unwrap_or_default());
        root.source.error(written.start, message).with_help(help)
    })
}

fn contradicting_profile(
    root: &TomlSection<'_>,
    layout: ArrayLayout,
    members: usize,
    implied: Profile,
) -> Diagnostic {
    let message = format!(
        "layout {layout} over {members} members is profile {implied}, which `profile` contradicts"
    );
    root.error_at("profile", message).with_help("remove `profile`")
}

fn read_host(root: &TomlSection<'_>) -> Result<Host, Diagnostic> {
    let default = Host::default();
    let Some(host) = root.table("host", "[host]")? else { return Ok(default) };
    host.allow_only(&["overhead", "read_ahead_kb", "cpus"])?;
    let cpus = host.integer("cpus")?.unwrap_or(default.cpus);
    if cpus == 0 {
        let error = host.error_at("cpus", "`cpus` is 0, so no request could be issued");
        return Err(error.with_help("give 1 or more"));
    }
    Ok(Host {
        overhead: read_host_overhead(&host)?.unwrap_or(default.overhead),
        read_ahead_kb: host.integer("read_ahead_kb")?.unwrap_or(default.read_ahead_kb),
        cpus,
    })
}

/// Reads `overhead`: a duration, or a table with `mean` and `jitter`.
fn read_host_overhead(host: &TomlSection<'_>) -> Result<Option<HostOverhead>, Diagnostic> {
    if !host.has_table("overhead") {
        let mean = host.quantity("overhead", parse_duration)?;
        return Ok(mean.map(HostOverhead::with_default_jitter));
    }
    let Some(overhead) = host.table("overhead", "`overhead`")? else { return Ok(None) };
    overhead.allow_only(&["mean", "jitter"])?;
    let Some(mean) = overhead.quantity("mean", parse_duration)? else {
        let help = "for example overhead = { mean = \"15us\", jitter = \"20%\" }";
        return Err(overhead.error("`overhead` has no `mean`").with_help(help));
    };
    let jitter = overhead.quantity("jitter", parse_jitter)?;
    Ok(Some(HostOverhead { mean, jitter: jitter.unwrap_or(HostOverhead::JITTER_DEFAULT) }))
}

/// Reads a jitter as a fraction of the mean: `20%`.
fn parse_jitter(text: &str) -> Result<f64, String> {
    let percent = text.trim().strip_suffix('%').and_then(|number| number.trim().parse().ok());
    match percent {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(format!("`{text}` is not a percentage from 0% to 100%, such as \"10%\"")),
    }
}

fn read_links(root: &TomlSection<'_>) -> Result<Vec<LinkParameters>, Diagnostic> {
    let mut links: Vec<LinkParameters> = Vec::new();
    for section in root.tables("link", "[[link]]")? {
        section.allow_only(&["name", "read", "write", "latency", "jitter"])?;
        let Some(name) = section.printable_text("name")? else {
            let error = section.error("the link has no `name` for members to refer to");
            return Err(error.with_help("add for example name = \"hba0\""));
        };
        if links.iter().any(|link| link.name == name.value) {
            let message = format!("there are two links `{}`", name.value);
            return Err(section.source.error(name.start, message).with_help("rename one of them"));
        }
        let rate = |key| match section.quantity(key, parse_rate)? {
            Some(0) => {
                let error = section.error_at(key, format!("`{key}` is 0, so no data would pass"));
                Err(error.with_help("remove it for a link without a limit"))
            }
            rate => Ok(rate),
        };
        links.push(LinkParameters {
            name: name.value.to_owned(),
            read_rate: rate("read")?,
            write_rate: rate("write")?,
            latency: section.quantity("latency", parse_duration)?.unwrap_or(Nanos::ZERO),
            jitter: section.quantity("jitter", parse_duration)?.unwrap_or(Nanos::ZERO),
        });
    }
    Ok(links)
}

/// Reads `60%` or a size.
fn parse_used(text: &str) -> Result<Used, String> {
    let expected = || format!("`{text}` is not a share such as 60%, or a size such as 500GB");
    match text.trim().strip_suffix('%') {
        None => parse_bytes(text).map(Used::Bytes).map_err(|_| expected()),
        Some(percent) => match percent.trim().parse::<f64>() {
            Ok(percent) if (0.0..100.0).contains(&percent) => Ok(Used::Share(percent / 100.0)),
            Ok(_) => Err("a share is at least 0% and less than 100%, such as 60%".to_owned()),
            Err(_) => Err(expected()),
        },
    }
}

/// Checks that the profile allows the members and that the older data leave space. For an array
/// with real members, checks only their number.
fn check_geometry(root: &TomlSection<'_>, spec: &ArraySpec) -> Result<(), Diagnostic> {
    let members = spec.members.len();
    if spec.layout == ArrayLayout::BTRFS && members < spec.profile.rules().members_min {
        let error = GeometryError::TooFewMembers { profile: spec.profile, members };
        return Err(geometry_error(root, spec, &error));
    }
    if spec.members.iter().all(|member| member.state == MemberState::Failed) {
        let error = root.error("every member is `failed`, so no request can be served");
        return Err(error.with_help("remove `failed` from a member"));
    }
    let Ok(configs) = spec.member_configs() else { return Ok(()) };
    let map = spec.allocate(&configs).map_err(|error| geometry_error(root, spec, &error))?;
    let is_there = |member: MemberIndex, _| spec.members[member.get()].state != MemberState::Failed;
    if map.parities() > 0 && !map.is_held(is_there) {
        let failed = spec.members.iter().filter(|it| it.state == MemberState::Failed).count();
        let parities = map.parities();
        let message = format!(
            "{failed} members are `failed`, but the parity makes up for {parities} at most"
        );
        return Err(root.error(message).with_help("remove `failed` from a member"));
    }
    if map.parities() > 0 && spec.members.iter().any(|member| member.write_mostly) {
        let message = "`write_mostly` has no effect with parity: each part of the data is on one \
                       member";
        return Err(root.error(message).with_help("remove `write_mostly`"));
    }
    let capacity_bytes = map.capacity_bytes();
    if spec.used_bytes(capacity_bytes) >= capacity_bytes {
        let message = "`used` is as large as the volume, so no space is left for jobs";
        return Err(root.error_at("used", message).with_help("give less, such as used = \"60%\""));
    }
    Ok(())
}

/// An error of the geometry, at the key or the member that it is about.
fn geometry_error(root: &TomlSection<'_>, spec: &ArraySpec, error: &GeometryError) -> Diagnostic {
    let Diagnostic { message, mut help, .. } = error.diagnostic();
    let placed = match error {
        GeometryError::MemberTooSmall { devid, .. } => {
            if let Some(help) = help.as_mut().filter(|_| spec.layout.chunk_bytes().is_some()) {
                *help += ", or reduce `chunk`";
            }
            let culprit = spec.members.iter().find(|member| member.devid == *devid);
            size_error(root, culprit, message)
        }
        GeometryError::ArrayTooLarge { .. } => {
            let largest = spec.members.iter().max_by_key(|member| member.range.size_bytes);
            size_error(root, largest, message)
        }
        GeometryError::StripeWidthTooSmall { .. } => root.error_at("stripe_width_max", message),
        GeometryError::StripeTooWide { is_btrfs: false, .. } => root.error_at("layout", message),
        GeometryError::StripeTooWide { .. } if spec.stripe_width_max.is_some() => {
            root.error_at("stripe_width_max", message)
        }
        GeometryError::TooFewMembers { .. } | GeometryError::StripeTooWide { .. } => {
            root.error_at("profile", message)
        }
        GeometryError::TooFewForLayout { .. }
        | GeometryError::PartialGroup { .. }
        | GeometryError::TooManyCopies { .. } => root.error_at("layout", message),
    };
    Diagnostic { help, ..placed }
}

/// An error about the size of a member: at its `size`, or at the member if it has none.
fn size_error(root: &TomlSection<'_>, member: Option<&MemberSpec>, message: String) -> Diagnostic {
    let sections = root.tables("member", "[[member]]").unwrap_or_default();
    let section = sections.iter().find(|it| member.is_some_and(|member| it.line() == member.line));
    section.unwrap_or(root).error_at("size", message)
}

#[cfg(test)]
mod bad_input_tests;
#[cfg(test)]
mod tests;
