//! The places on the volume that a clone of a section works on: one region for each of its devices
//! or files.

use super::error::job_error;
use super::spec::{Access, Direction, Distribution, Section, SizeOrPercent};
use super::target::{FileLayout, JobTarget, Region, WorkRegion};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{SECTOR_BYTES, format_bytes};

/// Name of the volume in an error where the array is not known.
pub(super) const VOLUME: &str = "the volume";

impl Section {
    /// The regions of clone number `clone` on a volume of `volume_bytes`, one for each of its files
    /// or devices.
    ///
    /// # Panics
    /// If one does not lie within the volume; [`JobFile::validate_against`] checks it.
    ///
    /// [`JobFile::validate_against`]: super::JobFile::validate_against
    pub fn regions(&self, clone: u32, volume_bytes: u64) -> Vec<WorkRegion> {
        match self.try_regions(clone, volume_bytes, VOLUME) {
            Ok(regions) => regions,
            Err(fault) => panic!("job {}: {}", self.name, fault.message),
        }
    }

    /// Checks that its files lie within a volume, which errors call `place`.
    pub(super) fn check_files(&self, volume_bytes: u64, place: &str) -> Result<(), Diagnostic> {
        let JobTarget::Files(FileLayout { sets, .. }) = &self.target else { return Ok(()) };
        let ends = sets.iter().flatten().map(|file| file.offset.saturating_add(file.bytes));
        let Some(end) = ends.max().filter(|&end| end > volume_bytes) else { return Ok(()) };
        let beyond = beyond(end, volume_bytes, place);
        let (what, help) = match sets.iter().flatten().count() {
            1 => ("job", "reduce size or offset; size may be in percent: 10%"),
            _ => (
                "the last file of job",
                "reduce size, nrfiles or numjobs, or let the jobs share a file: filename=data",
            ),
        };
        Err(job_error(format!("{what} `{}` ends {beyond}", self.name), help))
    }

    /// Computes the regions of a clone; `place` is the volume's name in the error.
    pub(super) fn try_regions(
        &self,
        clone: u32,
        volume_bytes: u64,
        place: &str,
    ) -> Result<Vec<WorkRegion>, Diagnostic> {
        let containers = self.target.containers(clone, volume_bytes);
        let place = match (&self.target, containers.len()) {
            (JobTarget::Files(_), _) => "its file",
            (_, 1) => place,
            _ => "its part of the volume",
        };
        let in_container = |(it, made_bytes): &(Region, u64)| {
            let region = self.region_in(clone, it.bytes, place)?;
            // fio makes a file as large as the region needs.
            let is_made_for_it = self.file.is_some_and(|file| !file.is_raw());
            let made_bytes = if is_made_for_it { 0 } else { *made_bytes };
            let bytes = (region.offset + region.bytes).max(made_bytes);
            let region = Region { offset: it.offset + region.offset, ..region };
            Ok(WorkRegion { region, container: Region { bytes, ..*it } })
        };
        let regions = containers.iter().map(in_container).collect::<Result<Vec<_>, _>>()?;
        self.check_blocks(&regions)?;
        Ok(regions)
    }

    /// Checks that a block fits one of the files or devices. As in fio, there are no requests to
    /// the others.
    fn check_blocks(&self, regions: &[WorkRegion]) -> Result<(), Diagnostic> {
        let largest = self.mix.directions().iter().map(|&direction| self.block_bytes(direction));
        let largest = largest.max().unwrap_or(SECTOR_BYTES);
        let is_room = |WorkRegion { region, container }: &WorkRegion| {
            container.offset + container.bytes - region.offset >= largest && region.bytes > 0
        };
        let all: u64 = regions.iter().map(|it| it.region.bytes).sum();
        if all >= self.smallest_block() && regions.iter().any(is_room) {
            return Ok(());
        }
        let most = regions.iter().map(|it| it.region.bytes).max().unwrap_or(0);
        let (region, block) = (format_bytes(most), format_bytes(largest));
        let message = format!(
            "job `{}` has a region of {region}, smaller than its block size of {block}",
            self.name
        );
        let is_on_files = matches!(self.target, JobTarget::Files(_));
        let all = format_bytes(largest.saturating_mul(regions.len() as u64));
        let help = match regions.len() {
            1 if is_on_files => format!("make size or filesize {block} or larger"),
            1 => format!("make size {block} or larger"),
            _ => format!("make filesize {block}, or size {all}, or larger"),
        };
        Err(job_error(message, help))
    }

    /// The smallest request.
    fn smallest_block(&self) -> u64 {
        let sizes = self.mix.directions().iter().map(|&direction| self.block_bytes(direction));
        sizes.min().unwrap_or(SECTOR_BYTES)
    }

    /// Number of places in a region at which a request of a direction may begin: the last block
    /// ends with the region.
    pub(crate) fn place_count(&self, direction: Direction, region_bytes: u64) -> u64 {
        let block_bytes = self.block_bytes(direction);
        let align_bytes = self.align_bytes[direction].unwrap_or(block_bytes);
        let room = region_bytes.saturating_sub(block_bytes.saturating_sub(align_bytes));
        (room / align_bytes).max(1)
    }

    /// Start of a clone's region. As in fio, one in percent is rounded up to whole blocks.
    pub(super) fn start_of(&self, clone: u32, whole_bytes: u64) -> u64 {
        let extents = [self.offset, self.offset_increment];
        let [offset, step] = extents.map(|extent| match extent {
            SizeOrPercent::Bytes(bytes) => bytes,
            SizeOrPercent::Percent(percent) => part(whole_bytes, percent),
        });
        let start = offset.saturating_add(step.saturating_mul(u64::from(clone)));
        if extents.iter().all(|it| matches!(it, SizeOrPercent::Bytes(_))) {
            return start;
        }
        let align_bytes = self.offset_align.unwrap_or_else(|| self.smallest_block());
        start.checked_next_multiple_of(align_bytes).unwrap_or(u64::MAX)
    }

    /// The region of a clone within a device or file of `whole_bytes`.
    fn region_in(&self, clone: u32, whole_bytes: u64, place: &str) -> Result<Region, Diagnostic> {
        let block_bytes = self.smallest_block();
        let offset = self.start_of(clone, whole_bytes);
        let files = self.target.count() as u64;
        let bytes = match self.size {
            None => whole_bytes.saturating_sub(offset),
            Some(SizeOrPercent::Bytes(bytes)) => bytes / files,
            Some(SizeOrPercent::Percent(100)) => whole_bytes.saturating_sub(offset),
            // A relative offset was rounded up, so the last of several clones may lack a block.
            Some(SizeOrPercent::Percent(percent)) => {
                let bytes = part(whole_bytes, percent).min(whole_bytes.saturating_sub(offset));
                bytes / block_bytes * block_bytes
            }
        };
        self.check_end(clone, offset, bytes, (whole_bytes, place))?;
        let counts = self.mix.directions().iter().map(|&it| self.place_count(it, bytes));
        let count = counts.min().unwrap_or(1);
        if let Distribution::Sequence { blocks, .. } = &self.distribution
            && let Some(block) = blocks.iter().find(|&&block| block >= count)
        {
            let message = format!("the sequence of job `{}` has a block {block}", self.name);
            return Err(job_error(message, format!("the region has {count} blocks, from 0 on")));
        }
        self.check_zones(bytes)?;
        Ok(Region { offset, bytes })
    }

    /// Checks that the zones with requests lie within a region: fio ends a job beyond it.
    fn check_zones(&self, region_bytes: u64) -> Result<(), Diagnostic> {
        let Distribution::Zoned(zones) = &self.distribution else { return Ok(()) };
        let end = |&direction: &Direction| {
            let last = zones[direction].iter().rposition(|zone| zone.access_percent > 0);
            let used = &zones[direction][..last.map_or(0, |last| last + 1)];
            let sizes = used.iter().map(|zone| match zone.size {
                SizeOrPercent::Bytes(bytes) => bytes,
                SizeOrPercent::Percent(_) => 0,
            });
            sizes.fold(0, u64::saturating_add)
        };
        let end = self.mix.directions().iter().map(end).max().unwrap_or(0);
        if self.access == Access::Sequential || end <= region_bytes {
            return Ok(());
        }
        let (name, end, has) = (&self.name, format_bytes(end), format_bytes(region_bytes));
        let message = format!("the zones of job `{name}` end at {end}, but its region has {has}");
        Err(job_error(message, "reduce the sizes in zoned_abs: fio ends such a job early"))
    }

    /// Checks that a region lies within a device or file of a size and a name.
    fn check_end(
        &self,
        clone: u32,
        offset: u64,
        bytes: u64,
        (whole_bytes, place): (u64, &str),
    ) -> Result<(), Diagnostic> {
        let part = match self.clones {
            1 => String::new(),
            clones => format!("copy {} of {clones} of ", clone + 1),
        };
        let (name, has) = (&self.name, format_bytes(whole_bytes));
        let begins_behind = offset > whole_bytes || offset == whole_bytes && whole_bytes > 0;
        if begins_behind && self.size.is_none() {
            let begin = format_bytes(offset);
            let message = format!("{part}job `{name}` begins at {begin}, but {place} has {has}");
            return Err(job_error(message, "reduce offset, or offset_increment or numjobs"));
        }
        let end = offset.saturating_add(bytes.max(self.smallest_block()));
        if offset.saturating_add(bytes) <= whole_bytes && offset != whole_bytes {
            return Ok(());
        }
        let beyond = beyond(end, whole_bytes, place);
        let help = match self.clones {
            1 => "reduce size or offset; size may be in percent: 10%",
            _ => "reduce size, offset, offset_increment or numjobs; size may be in percent: 10%",
        };
        Err(job_error(format!("{part}job `{name}` ends {beyond}"), help))
    }
}

/// How far behind the end of `place` an end is.
fn beyond(end: u64, whole_bytes: u64, place: &str) -> String {
    let (excess, has) = (end.saturating_sub(whole_bytes), format_bytes(whole_bytes));
    // The sizes alone would read alike if the excess is small.
    match excess.saturating_mul(20) < whole_bytes {
        true => format!("{} after the end of {place}, which has {has}", format_bytes(excess)),
        false => format!("at {}, but {place} has {has}", format_bytes(end)),
    }
}

/// `percent` percent of `bytes`, rounded down.
fn part(bytes: u64, percent: u64) -> u64 {
    (u128::from(bytes) * u128::from(percent) / 100) as u64
}
