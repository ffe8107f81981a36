//! Which files the sections of a job work on, and where the volume has them.
//!
//! As in fio, a clone without `filename` has files of its own, named after its job and its number,
//! and sections that name one file share it. A file is as large as its largest user needs. Files
//! lie one after the other in the order of their first use, each from a multiple of its size
//! rounded up to a power of two, at most 1 MiB: file systems start large files at stripe units.
//!
//! A device, and a file whose size no section says, has an equal part of the volume with the other
//! ones of its kind. A section that names nothing and says no size works on the volume.

use super::error::job_error;
use super::spec::{Section, SizeOrPercent};
use super::target::{FileLayout, JobTarget, Region};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::{MIB, SECTOR_BYTES};
use std::collections::BTreeMap;

/// Maximum number of files and devices of all clones together, where those that clones share count
/// for each: a simulation has a state of half a KiB for each.
pub(super) const FILES_MAX: u64 = 1 << 15;
/// Names of files by fio, unless `filename` or `filename_format` is set.
const FORMAT: &str = "$jobname.$jobnum.$filenum";

/// Files of a section whose options are being applied.
#[derive(Clone, Debug)]
pub(super) struct FileDraft {
    /// Name in the section's header, which files have whatever `name` says.
    pub(super) header: String,
    /// `filename`.
    pub(super) names: Option<String>,
    pub(super) directories: Option<String>,
    pub(super) format: String,
    /// `nrfiles`.
    pub(super) count: u64,
    /// `filesize`: least and most bytes.
    pub(super) bytes: Option<[u64; 2]>,
    /// Whether its engine works on one device.
    pub(super) is_device: bool,
    /// Whether it works on the volume, whatever it names: a replay, or a file of an XFS.
    pub(super) is_volume: bool,
    /// Whether a pass goes on behind `size` to the end of a file, as a synchronous engine does it.
    pub(super) passes_end_with_file: bool,
    /// Whether its section makes the files and no requests.
    pub(super) is_only_made: bool,
}

impl Default for FileDraft {
    fn default() -> FileDraft {
        FileDraft {
            header: String::new(),
            names: None,
            directories: None,
            format: FORMAT.to_owned(),
            count: 1,
            bytes: None,
            is_device: false,
            is_volume: false,
            passes_end_with_file: false,
            is_only_made: false,
        }
    }
}

/// Files of a place that a section uses.
struct UsedPlace {
    index: usize,
    /// Number of its files.
    files: usize,
    /// Sizes of its files that sections above made.
    made_bytes: Vec<u64>,
}

/// Files or a device.
struct SharedPlace {
    /// Sizes of its files; `None` for a device, and if no section says one.
    files: Option<Vec<u64>>,
    /// Number of clones or directories that have files of their own.
    sets: u64,
}

/// Sets the targets of sections that have these files. Returns the number of devices that share the
/// volume.
pub(super) fn lay_out(sections: &mut [Section], drafts: &[FileDraft]) -> Result<usize, Diagnostic> {
    let (mut places, mut used): (Vec<SharedPlace>, Vec<Vec<UsedPlace>>) = Default::default();
    let mut named = BTreeMap::new();
    let mut files: u64 = 0;
    for (section, draft) in sections.iter_mut().zip(drafts) {
        let of_section = draft.places_of(section, &mut places, &mut named);
        let of_clone: usize = of_section.iter().map(|place| place.files).sum();
        files += of_clone as u64 * u64::from(section.clones);
        used.push(of_section);
        if files > FILES_MAX {
            let message = format!(
                "the clones of the job have at least {files} files together, but at most \
                 {FILES_MAX} are possible"
            );
            return Err(job_error(message, "reduce nrfiles or numjobs, or name fewer"));
        }
    }
    let (mut end, mut devices) = (0, 0);
    let mut parts = Vec::new();
    for place in &places {
        parts.push(devices);
        devices += u64::from(place.files.is_none());
    }
    let layouts: Vec<Vec<Vec<Region>>> =
        places.iter().map(|place| place.lay_out(&mut end)).collect();
    for ((section, draft), used) in sections.iter_mut().zip(drafts).zip(used) {
        let is_device = |place: &UsedPlace| places[place.index].files.is_none();
        section.target = match used.first() {
            None => JobTarget::VOLUME,
            Some(first) if is_device(first) => {
                let devices_of = used.iter().filter(|it| is_device(it));
                let parts = devices_of.map(|it| parts[it.index]).collect();
                JobTarget::Devices { parts, of: devices }
            }
            Some(_) => JobTarget::Files(joined(&used, &layouts, draft.sets(section))),
        };
    }
    Ok(devices as usize)
}

/// The files of a section, which has `sets` of them.
fn joined(used: &[UsedPlace], layouts: &[Vec<Vec<Region>>], sets: u64) -> FileLayout {
    let set = |set: usize| {
        let files = used.iter().filter_map(|place| Some((place, layouts[place.index].get(set)?)));
        files.flat_map(|(place, files)| files.iter().take(place.files).copied()).collect()
    };
    let has_files = |place: &&UsedPlace| layouts[place.index].iter().any(|set| !set.is_empty());
    let made_bytes = used.iter().filter(has_files).flat_map(|it| it.made_bytes.iter().copied());
    let made_bytes: Vec<u64> = made_bytes.collect();
    let is_made = made_bytes.iter().any(|&bytes| bytes > 0);
    FileLayout {
        sets: (0..sets as usize).map(set).collect(),
        made_bytes: if is_made { made_bytes } else { Vec::new() },
    }
}

impl SharedPlace {
    /// Places for the files of each set, from `end` on.
    fn lay_out(&self, end: &mut u64) -> Vec<Vec<Region>> {
        let mut place = |bytes: &u64| {
            let align_bytes = bytes.next_power_of_two().clamp(SECTOR_BYTES, MIB);
            let offset = end.checked_next_multiple_of(align_bytes).unwrap_or(u64::MAX);
            *end = offset.saturating_add(*bytes);
            Region { offset, bytes: *bytes }
        };
        let files = self.files.as_deref().unwrap_or_default();
        (0..self.sets).map(|_| files.iter().map(&mut place).collect()).collect()
    }
}

impl FileDraft {
    /// The places that a section works on, which are added to `places` if they are new. None if it
    /// works on the volume.
    fn places_of(
        &self,
        section: &mut Section,
        places: &mut Vec<SharedPlace>,
        named: &mut BTreeMap<String, usize>,
    ) -> Vec<UsedPlace> {
        let names = self.names();
        let is_device = self.is_device || names.iter().flatten().any(|name| is_device(name));
        let count = names.as_ref().map_or(self.count, |names| names.len() as u64);
        self.apply_file_size(section, count, is_device);
        let files = self.needed(section, count).filter(|_| !is_device);
        if self.is_volume || (names.is_none() && files.is_none()) {
            return Vec::new();
        }
        let (names, files, each) = match names {
            Some(names) => {
                let file = |at: usize| files.as_ref().map(|files| vec![files[at]]);
                let files: Vec<_> = (0..names.len()).map(file).collect();
                (names, files, 1)
            }
            None => (vec![self.format.replace("$jobname", &self.header)], vec![files], count),
        };
        let sets = self.sets(section);
        let found = names.into_iter().zip(files).map(|(name, files)| {
            let index = *named.entry(name).or_insert(places.len());
            if index == places.len() {
                places.push(SharedPlace { files: None, sets });
            }
            let mut made_bytes = places[index].files.clone().unwrap_or_default();
            made_bytes.resize(each as usize, 0);
            places[index].add(files, sets);
            UsedPlace { index, files: each as usize, made_bytes }
        });
        found.collect()
    }

    /// The names of `filename`, with their directories.
    fn names(&self) -> Option<Vec<String>> {
        let folder = self.directories.as_deref().unwrap_or("");
        let names = split(self.names.as_ref()?).into_iter();
        let names = names.map(|name| format!("{folder}/{}", name.trim_start_matches("./")));
        Some(names.collect())
    }

    /// Number of clones with files of their own.
    fn sets(&self, section: &Section) -> u64 {
        let directories = self.directories.as_deref().map_or(1, |text| split(text).len() as u64);
        let clones = u64::from(section.clones);
        match self.names {
            Some(_) => directories.min(clones),
            None if self.format.contains("$jobnum") => clones,
            None => directories.min(clones),
        }
    }

    /// Puts `filesize` in the place of `size`, which then is the number of bytes of a pass. A file
    /// that another section needs larger is not used beyond it.
    fn apply_file_size(&self, section: &mut Section, count: u64, is_device: bool) {
        let Some([least, most]) = self.bytes else { return };
        section.pass_bytes = match section.size {
            Some(SizeOrPercent::Bytes(bytes)) => Some(bytes),
            Some(SizeOrPercent::Percent(_)) => return,
            None => None,
        };
        section.passes_end_with_file = self.passes_end_with_file && section.pass_bytes.is_some();
        // What is behind an offset in percent is known when the file has its place.
        let (offset, is_absolute) = match section.offset {
            SizeOrPercent::Bytes(bytes) => (bytes, true),
            SizeOrPercent::Percent(_) => (0, is_device),
        };
        let each = most.saturating_sub(offset);
        let is_fixed =
            is_absolute && least == most && section.offset_increment == SizeOrPercent::Bytes(0);
        let all = SizeOrPercent::Bytes(each.saturating_mul(count));
        section.size = Some(all).filter(|_| is_device || is_fixed);
    }

    /// Bytes that a section needs of each of `count` files; `None` if it does not say so.
    fn needed(&self, section: &Section, count: u64) -> Option<Vec<u64>> {
        if let Some([least, most]) = self.bytes {
            let mut rng = Rng::stream(section.random_seed.unwrap_or(0), &section.name);
            let steps = (most - least) / SECTOR_BYTES + 1;
            let draw = |_| match steps {
                1 => most,
                _ => least + rng.below(steps) * SECTOR_BYTES,
            };
            return Some((0..count).map(draw).collect());
        }
        let (SizeOrPercent::Bytes(offset), SizeOrPercent::Bytes(step)) =
            (section.offset, section.offset_increment)
        else {
            return None;
        };
        let Some(SizeOrPercent::Bytes(bytes)) = section.size else { return None };
        let last = step.saturating_mul(u64::from(section.clones) - 1);
        let end = offset.saturating_add(last).saturating_add(bytes / count);
        Some(vec![end; count as usize])
    }
}

impl SharedPlace {
    /// Makes it large enough for one more section.
    fn add(&mut self, files: Option<Vec<u64>>, sets: u64) {
        self.sets = self.sets.max(sets);
        let Some(files) = files else { return };
        let known = self.files.get_or_insert_default();
        known.resize(known.len().max(files.len()), 0);
        for (known, bytes) in known.iter_mut().zip(files) {
            *known = bytes.max(*known);
        }
    }
}

/// The entries of a list; `\:` is a colon within one.
fn split(text: &str) -> Vec<String> {
    let entries = text.replace("\\:", "\0");
    entries.split(':').map(|entry| entry.replace('\0', ":")).collect()
}

/// Whether a name is that of a device.
fn is_device(name: &str) -> bool {
    let path = name.trim_start_matches('/');
    let is_memory = path.starts_with("dev/shm/");
    (path.starts_with("dev/") && !is_memory) || path.starts_with("\\\\.\\")
}
