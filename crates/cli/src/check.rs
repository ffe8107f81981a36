//! `mirrorball check`: validates arrays and jobs, and prints a summary of each.
//!
//! Checks every file, also after an error in another. Then checks that each job fits each array,
//! for arrays that can be simulated. Opens real members for reading, to report a missing one and to
//! print sizes. Does not connect to NBD exports.

use crate::check_job;
use crate::ending::{Ending, Failure};
use crate::screen;
use anyhow::{Context, Result, anyhow};
use mirrorball_core::diagnostic::{Diagnostic, Escaped};
use mirrorball_core::geometry::{ArrayLayout, ChunkMap, GeometryError, Stripe};
use mirrorball_core::member::{MemberConfig, MemberState};
use mirrorball_core::units::format_bytes as size;
use mirrorball_disk::array_file::{
    ArrayFile, ArraySpec, DevicePart, MemberSource, MemberSpec, Partition, Used,
};
use mirrorball_disk::cache_tier::CacheSpec;
use mirrorball_disk::profile::ModelProfile;
use mirrorball_io::device_address::DeviceAddress;
use mirrorball_io::examine::examine;
use mirrorball_lab::evaluation::advice::stated_policy;
use mirrorball_lab::experiment::inputs::{builtin_job_names, check_fit, load_array, load_job};
use mirrorball_lab::experiment::systems;
use mirrorball_sim::job::JobFile;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Seek, SeekFrom};
use std::path::Path;

/// Check array files (.toml) and job files (.fio), and print a summary of each
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Also checks that each job fits each array that is simulated. Opens files and \
devices of members for reading; does not connect to NBD exports. The exit code is 2 if a file has \
an error or a job does not fit an array.

Examples:
  mirrorball check my-array.toml my-job.fio
  mirrorball check arrays/*.toml jobs/*.fio
  mirrorball check two-hdd-raid1 rand-4k-qd1"
)]
pub(crate) struct Args {
    /// Array files, job files, and names of built-in arrays and jobs
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
}

/// The arrays and jobs without an error.
#[derive(Default)]
struct CheckedFiles {
    /// Each with its name as the user wrote it.
    arrays: Vec<(String, ArraySpec)>,
    jobs: Vec<JobFile>,
    /// Options and the reasons of their notes, as far as they were printed.
    noted: BTreeSet<(String, String)>,
}

/// True if a file or device has a label.
fn is_labelled(file: &str) -> bool {
    let device = DeviceAddress::Path(file.into());
    Path::new(file).exists() && examine(vec![device]).iter().any(|it| it.label().is_ok())
}

/// Adds where results and traces are read, if a file without the ending of jobs is none.
fn other_than_job(file: &str, error: anyhow::Error) -> anyhow::Error {
    let is_named_job = file.ends_with(".fio") || !Path::new(file).exists();
    match is_named_job {
        true => error,
        false => anyhow!(
            "{error:#}\n  help: if it holds results of fio, give it to `mirrorball import fio`; a \
             trace of blocks, to `mirrorball import trace`"
        ),
    }
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let mut ending = Ending::Done;
    let mut report = |error: &anyhow::Error| {
        screen::say(format_args!("error: {error:#}"));
        ending = Ending::WrongUse;
    };
    let mut checked = CheckedFiles::default();
    for file in &args.files {
        match checked.add(file) {
            Ok(text) => screen::print(&screen::broken(&text))?,
            Err(error) => report(&error),
        }
    }
    let (pairs, misfits) = checked.check_pairs();
    misfits.iter().for_each(&mut report);
    if pairs > 0 && misfits.is_empty() {
        screen::print("every job fits every array\n")?;
    }
    Ok(ending)
}

/// The kind of a file, by its name.
enum FileKind {
    Array,
    Job,
}

impl FileKind {
    fn of(file: &str) -> Result<FileKind, Diagnostic> {
        match Path::new(file).extension().and_then(|extension| extension.to_str()) {
            Some("toml") => return Ok(FileKind::Array),
            Some("fio") => return Ok(FileKind::Job),
            _ if ArrayFile::builtin_names().any(|name| name == file) => return Ok(FileKind::Array),
            _ if builtin_job_names().any(|name| name == file) => return Ok(FileKind::Job),
            _ => {}
        }
        if file.is_empty() {
            return Err(Diagnostic::empty_name("file"));
        }
        if Path::new(file).is_dir() {
            let error = Diagnostic::new(format!("cannot check {file}: it is a folder"));
            return Err(error.with_help(format!("give files, for example {file}/*.toml")));
        }
        if is_labelled(file) {
            let error = Diagnostic::new(format!("cannot check {file}: it is a member of a volume"));
            return Err(error.with_help(format!("`mirrorball examine {file}` describes it")));
        }
        if Path::new(file).exists() {
            return Ok(FileKind::Job);
        }
        if ModelProfile::builtin(file).is_ok() {
            let error = Diagnostic::new(format!("cannot check `{file}`: it is a built-in model"));
            return Err(error.with_help(format!("`mirrorball models {file}` describes it")));
        }
        let error = Diagnostic::new(format!(
            "cannot check `{file}`: there is no such file, and no built-in array or job of that \
             name"
        ));
        let names: Vec<&str> = ArrayFile::builtin_names().chain(builtin_job_names()).collect();
        let listing = "arrays end in .toml and jobs in .fio; the built-in ones are";
        Err(error.with_suggestion(file, &names, listing))
    }
}

impl CheckedFiles {
    fn add(&mut self, file: &str) -> Result<String> {
        match FileKind::of(file)? {
            FileKind::Array => {
                let spec = load_array(file)?.1;
                check_source(file, &spec)?;
                let text = format!("{file}: {}", array(&spec)?);
                self.arrays.push((file.to_owned(), spec));
                Ok(text)
            }
            FileKind::Job => {
                let jobs = load_job(file).map_err(|error| other_than_job(file, error))?.1;
                let text = format!("{file}: {}", check_job::summary(&jobs, &mut self.noted));
                self.jobs.push(jobs);
                Ok(text)
            }
        }
    }

    /// Checks that each job fits each array that can be simulated. Returns the number of pairs and
    /// the errors.
    fn check_pairs(&self) -> (usize, Vec<anyhow::Error>) {
        let simulated = self.arrays.iter().filter(|(_, array)| !array.members.iter().any(is_real));
        let pairs = simulated.flat_map(|array| self.jobs.iter().map(move |jobs| (array, jobs)));
        let misfits =
            pairs.clone().filter_map(|((name, array), jobs)| check_fit(name, array, jobs).err());
        (pairs.count(), misfits.collect())
    }
}

/// Checks what only commands other than `compare` use: the storage system, the policy in force and
/// the URIs of members.
fn check_source(file: &str, spec: &ArraySpec) -> Result<()> {
    for member in &spec.members {
        if let MemberSource::Uri(uri) = &member.source {
            let place = || format!("{file}:{}", member.line);
            DeviceAddress::parse(uri).with_context(place)?;
        }
    }
    let Some(source) = &spec.source else { return Ok(()) };
    let system = systems::find(&source.system).with_context(|| format!("{file}: [source]"))?;
    if let (Some(policy), None) = (&source.policy, stated_policy(spec, system)) {
        screen::say(format_args!(
            "note: {file}: the policy `{policy}` in [source] is not known; `advise` takes the \
             default of {}",
            system.title
        ));
    }
    Ok(())
}

fn is_real(member: &MemberSpec) -> bool {
    !matches!(member.source, MemberSource::Model(_))
}

fn array(spec: &ArraySpec) -> Result<String> {
    let count = spec.members.len();
    let members = if count == 1 { "member" } else { "members" };
    let mut text = format!("{}: {} over {count} {members}", spec.name, spec.profile.name());
    if spec.layout != ArrayLayout::BTRFS {
        text += &format!(", layout {}", spec.layout);
        if let Some(bytes) = spec.layout.chunk_bytes() {
            text += &format!(" with chunks of {}", size(bytes));
        }
    }
    if spec.members.iter().any(is_real) {
        text += ", some of them files, devices or NBD exports: cannot be simulated";
    } else {
        let capacity_bytes = spec.chunk_map()?.capacity_bytes();
        let used_bytes = spec.used_bytes(capacity_bytes);
        text += &format!(", {}", size(capacity_bytes));
        if used_bytes > 0 {
            text += &format!(", the first {} used by older data", size(used_bytes));
        } else if !matches!(spec.used, Used::Bytes(0)) {
            text += ", none used by older data: `used` is rounded down to whole GiB";
        }
    }
    text.push('\n');
    if let Some(cache) = &spec.cache {
        text += &format!("  in front of the array: {}\n", cache_tier(cache));
    }
    if let Some(controller) = &spec.controller {
        let cache = size(controller.cache_bytes);
        text += &format!("  controller: write-back cache of {cache}, kept by a battery\n");
    }
    for member in &spec.members {
        let what = match &member.source {
            MemberSource::Model(profile) => {
                let whole = size(profile.capacity_bytes);
                match member.partition {
                    None => format!("{}, {whole}", profile.name),
                    Some(Partition { begin_bytes, length_bytes }) => {
                        let (length, begin) = (size(length_bytes), size(begin_bytes));
                        format!("{}, {length} from {begin} on of {whole}", profile.name)
                    }
                }
            }
            MemberSource::Path(path) => {
                let bytes = member_bytes(spec, member, path)?;
                format!("{}, {}", Escaped(&path.display().to_string()), size(bytes))
            }
            MemberSource::Uri(uri) => Escaped(uri).to_string(),
        };
        text += &format!("  devid {}: {what}", member.devid);
        if let Some(link) = member.link {
            text += &format!(", behind {}", spec.links[link].name);
        }
        text += &member.cache.as_ref().map_or(String::new(), |it| format!(", {}", cache_tier(it)));
        text += &state(member);
        if !member.faults.is_empty() {
            text += &format!(", faults: {}", member.faults.len());
        }
        text.push('\n');
    }
    if !spec.members.iter().any(is_real) {
        text += &mirror_sets(spec, &spec.chunk_map()?);
    }
    Ok(text)
}

/// A cache tier in front of a member or of the array.
fn cache_tier(cache: &CacheSpec) -> String {
    let CacheSpec { device, mode, .. } = cache;
    format!("{} cache of {} on {}", mode.name(), size(device.capacity_bytes), device.name)
}

/// Sets of mirrors beyond this number are counted only.
const MIRROR_SETS_MAX: usize = 12;

/// Which members hold the same data, and how much; the sets with the most data first.
fn mirror_sets(spec: &ArraySpec, map: &ChunkMap) -> String {
    if map.copies() < 2 {
        return String::new();
    }
    let mut bytes_of: BTreeMap<Vec<u64>, u64> = BTreeMap::new();
    for chunk in map.chunks() {
        for stripes in chunk.stripes.chunks_exact(map.copies()) {
            let devid = |stripe: &Stripe| spec.members[stripe.member.get()].devid;
            let mut devids: Vec<u64> = stripes.iter().map(devid).collect();
            devids.sort_unstable();
            *bytes_of.entry(devids).or_default() += chunk.stripe_bytes;
        }
    }
    let mut sets: Vec<(Vec<u64>, u64)> = bytes_of.into_iter().collect();
    sets.sort_by_key(|(_, bytes)| Reverse(*bytes));
    let mut text = String::new();
    for (devids, bytes) in sets.iter().take(MIRROR_SETS_MAX) {
        let devids: Vec<String> = devids.iter().map(ToString::to_string).collect();
        text += &format!("  copies on devids {}: {}\n", devids.join(" and "), size(*bytes));
    }
    if let Some(more) = sets.get(MIRROR_SETS_MAX..).filter(|more| !more.is_empty()) {
        let bytes: u64 = more.iter().map(|(_, bytes)| bytes).sum();
        text += &format!("  copies on {} other sets of devids: {}\n", more.len(), size(bytes));
    }
    text
}

/// The state of a member, unless it is in sync and not write-mostly.
fn state(member: &MemberSpec) -> String {
    let mut text = match member.state {
        MemberState::InSync => String::new(),
        MemberState::Rebuilding { recovered_bytes } => {
            format!(", being rebuilt, {} recovered", size(recovered_bytes))
        }
        MemberState::Failed => ", failed".to_owned(),
    };
    if member.write_mostly {
        text += ", write-mostly";
    }
    text
}

/// The size of a member that is a file or a device, which must be large enough.
fn member_bytes(spec: &ArraySpec, member: &MemberSpec, path: &Path) -> Result<u64> {
    let place = format!("{}:{}", spec.file_name, member.line);
    let shown = path.display();
    let bytes = size_of(path).map_err(|error| {
        let help = match error.kind() {
            ErrorKind::NotFound => {
                "correct `path`, which is relative to the folder of the array file, or connect the \
                 device; for a new array, create the file"
            }
            ErrorKind::IsADirectory => "give a file in the folder, or a block device",
            _ => "check that you may read it, or correct `path`",
        };
        anyhow!("{place}: cannot open the member {shown}: {error}\n  help: {help}")
    })?;
    let DevicePart { begin_bytes, size_bytes } = member.range;
    let room = bytes.saturating_sub(begin_bytes);
    if bytes < begin_bytes || size_bytes.is_some_and(|size_bytes| size_bytes > room) {
        let what = "the `begin` and `size` of the member need more";
        let help = "reduce them, or enlarge the file";
        return Err(anyhow!("{place}: {shown} has {}, but {what}\n  help: {help}", size(bytes)));
    }
    // The others are as large as they may be, so only this one can be too small.
    let least = |other: &MemberSpec| MemberConfig::new(other.devid, 1 << 40);
    let mut configs: Vec<MemberConfig> = spec.members.iter().map(least).collect();
    let index = spec.members.iter().position(|other| other.devid == member.devid);
    configs[index.unwrap_or(0)].size_bytes = size_bytes.unwrap_or(room);
    if let Err(GeometryError::MemberTooSmall { devid, size_bytes, needed }) =
        spec.allocate(&configs)
    {
        let (has, needs) = (size(size_bytes), size(needed));
        // For a member that is a file from its beginning on, in whole MiB.
        let command = match path.is_file() && begin_bytes == 0 {
            true => {
                format!(
                    ", for example with `truncate -s {}M {shown}`",
                    needed.max(24 << 20).div_ceil(1 << 20)
                )
            }
            false => String::new(),
        };
        let chunk = match spec.layout.chunk_bytes() {
            Some(_) => ", or reduce `chunk`",
            None => "",
        };
        return Err(anyhow!(
            "{place}: {shown} (devid {devid}) has {has}, but a member needs at least \
             {needs}\n  help: enlarge the file{command}, or give a larger device{chunk}"
        ));
    }
    Ok(bytes)
}

/// The size of a file or a block device. The metadata of a block device do not have it.
fn size_of(path: &Path) -> std::io::Result<u64> {
    let mut file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    file.seek(SeekFrom::End(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirror_sets_are_those_of_the_layout() {
        let sets = |text: &str| {
            let spec = ArrayFile::parse(text, "a.toml").unwrap().spec;
            mirror_sets(&spec, &spec.chunk_map().unwrap())
        };
        let member = |size: &str| format!("[[member]]\nmodel = \"delay\"\nsize = \"{size}\"\n");
        // A disk as large as both others pairs with each of them.
        let unequal = member("201GiB") + &member("101GiB") + &member("101GiB");
        let text = sets(&format!("profile = \"raid1\"\n{unequal}"));
        let expected =
            "  copies on devids 1 and 2: 101.0 GiB\n  copies on devids 1 and 3: 100 GiB\n";
        assert_eq!(text, expected, "the last chunk is cut where the second disk ends");
        let four = member("100GiB").repeat(4);
        let near = sets(&format!("layout = \"md-raid10-near:2\"\n{four}"));
        assert!(near.contains("devids 1 and 2: ") && near.contains("devids 3 and 4: "), "{near}");
        assert_eq!(near.lines().count(), 2, "{near}");
        let far = sets(&format!("layout = \"md-raid10-far:2\"\n{four}"));
        assert_eq!(far.lines().count(), 4, "each with its neighbour: {far}");
        assert_eq!(sets(&format!("profile = \"raid0\"\n{four}")), "");
        let many = sets(&format!("profile = \"raid1\"\n{}", member("100GiB").repeat(40)));
        assert!(many.contains("other sets of devids: "), "{many}");
    }
}
