//! The places on the volume that a clone of a section works on: one region for each of its devices
//! or files.

use super::error::job_error;
use super::spec::{Access, AddressModifier, Direction, Distribution, Section, SizeOrPercent};
use super::target::{FileLayout, JobTarget, Region};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{SECTOR_BYTES, format_bytes};

/// Name of the volume in an error where the array is not known.
pub(super) const VOLUME: &str = "the volume";

impl Section {
    /// The regions of clone number `clone` on a volume of `volume_bytes`, one for each of its files
    /// or devices: whole blocks of its smallest size, unless requests may go round.
    ///
    /// # Panics
    /// If one does not lie within the volume; [`JobFile::validate_against`] checks it.
    ///
    /// [`JobFile::validate_against`]: super::JobFile::validate_against
    pub fn regions(&self, clone: u32, volume_bytes: u64) -> Vec<Region> {
        match self.try_regions(clone, volume_bytes, VOLUME) {
            Ok(regions) => regions,
            Err(fault) => panic!("job {}: {}", self.name, fault.message),
        }
    }

    /// Checks that its files lie within a volume, which errors call `place`.
    pub(super) fn check_files(&self, volume_bytes: u64, place: &str) -> Result<(), Diagnostic> {
        let JobTarget::Files(FileLayout { sets }) = &self.target else { return Ok(()) };
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
    ) -> Result<Vec<Region>, Diagnostic> {
        let containers = self.target.containers(clone, volume_bytes);
        let place = match (&self.target, containers.len()) {
            (JobTarget::Files(_), _) => "its file",
            (_, 1) => place,
            _ => "its part of the volume",
        };
        let in_container = |it: &Region| {
            let region = self.region_in(clone, it.bytes, place)?;
            Ok(Region { offset: it.offset + region.offset, ..region })
        };
        containers.iter().map(in_container).collect()
    }

    /// The smallest request: regions are whole numbers of it.
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

    /// The region of a clone within a device or file of `whole_bytes`.
    fn region_in(&self, clone: u32, whole_bytes: u64, place: &str) -> Result<Region, Diagnostic> {
        let block_bytes = self.smallest_block();
        let is_whole =
            self.ends_with_blocks() || matches!(self.size, Some(SizeOrPercent::Percent(_)));
        let whole = |bytes: u64| bytes / block_bytes * block_bytes;
        let align_bytes = self.offset_align.unwrap_or(block_bytes);
        // fio rounds a relative offset up to whole blocks, and a relative size down.
        let start_of = |extent| match extent {
            SizeOrPercent::Bytes(bytes) => bytes,
            SizeOrPercent::Percent(percent) => {
                part(whole_bytes, percent).saturating_add(align_bytes - 1) / align_bytes
                    * align_bytes
            }
        };
        let step = start_of(self.offset_increment).saturating_mul(u64::from(clone));
        let offset = start_of(self.offset).saturating_add(step);
        let files = self.target.count() as u64;
        let bytes = match self.size {
            None => whole_bytes.saturating_sub(offset),
            Some(SizeOrPercent::Bytes(bytes)) => bytes / files,
            // A relative offset was rounded up, so the last of several clones may lack a block.
            Some(SizeOrPercent::Percent(percent)) => {
                part(whole_bytes, percent).min(whole_bytes.saturating_sub(offset))
            }
        };
        self.check_end(clone, offset, bytes, (whole_bytes, place))?;
        let largest = self.mix.directions().iter().map(|&direction| self.block_bytes(direction));
        let largest = largest.max().unwrap_or(SECTOR_BYTES);
        if whole(bytes) < largest {
            let (region, largest) = (format_bytes(bytes), format_bytes(largest));
            let message = format!(
                "job `{}` has a region of {region}, smaller than its block size of {largest}",
                self.name
            );
            return Err(job_error(message, format!("make size {largest} or larger")));
        }
        let counts = self.mix.directions().iter().map(|&it| self.place_count(it, whole(bytes)));
        let count = counts.min().unwrap_or(1);
        if let Distribution::Sequence { blocks, .. } = &self.distribution
            && let Some(block) = blocks.iter().find(|&&block| block >= count)
        {
            let message = format!("the sequence of job `{}` has a block {block}", self.name);
            return Err(job_error(message, format!("the region has {count} blocks, from 0 on")));
        }
        self.check_zones(whole(bytes))?;
        Ok(Region { offset, bytes: if is_whole { whole(bytes) } else { bytes } })
    }

    /// Whether a pass ends where no whole block is left. As in fio, a pass that goes round has as
    /// many bytes as the region, the part of a block at its end included.
    fn ends_with_blocks(&self) -> bool {
        let is_plain = self.modifier == AddressModifier::None;
        is_plain
            && match self.access {
                Access::Sequential => self.mix.directions().len() == 1,
                Access::Random => {
                    let is_uniform = self.distribution == Distribution::Uniform;
                    is_uniform && self.random_map && self.random_percent.0 == [100; 3]
                }
            }
    }

    /// Checks that the zones of a distribution lie within a region: fio ends a job beyond it.
    fn check_zones(&self, region_bytes: u64) -> Result<(), Diagnostic> {
        let Distribution::Zoned(zones) = &self.distribution else { return Ok(()) };
        let end = |&direction: &Direction| {
            let sizes = zones[direction].iter().map(|zone| match zone.size {
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
