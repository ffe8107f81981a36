//! A job as plain data: what the reader hands on and a [`Workload`](crate::workload::Workload) is
//! made of.

use super::error::job_error;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{Nanos, SECTOR_BYTES};
use serde::{Serialize, Serializer};
use std::ops::{Index, IndexMut};

/// What one request does with its blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub enum Direction {
    /// Reads them.
    Read,
    /// Writes them.
    Write,
    /// Discards them.
    Trim,
}

/// One value for each direction; fio writes them as `reads,writes,trims`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct PerDirection<T>(pub [T; 3]);

/// The directions of a job's requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Mix {
    /// All the same.
    Only(Direction),
    /// Reads and writes, so many percent of them reads.
    ReadWrite {
        /// 0 to 100.
        read_percent: u64,
    },
}

/// How addresses follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Access {
    /// Each request starts where the one before it in its direction ended.
    Sequential,
    /// By [`Section::distribution`].
    Random,
}

/// A size, absolute or relative to the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum SizeOrPercent {
    /// So many bytes.
    Bytes(u64),
    /// So many percent of the volume, in whole blocks.
    Percent(u64),
}

/// A request size with its share of the requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct SizeShare {
    /// Bytes of the request, in whole sectors.
    pub bytes: u64,
    /// Percent of the requests; the shares of a direction add up to 100.
    pub percent: u64,
}

/// A zone of `random_distribution=zoned`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Zone {
    /// Percent of the requests that go here; all zones together have 100.
    pub access_percent: u64,
    /// Percent of the region that it spans; all zones together have 100.
    pub size_percent: u64,
}

/// How random addresses are drawn. `center` is where the hottest block lies, as a fraction of the
/// region, or `None` for a place drawn from the seed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub enum Distribution {
    /// All blocks alike.
    Uniform,
    /// Zipf's law with exponent `theta`, scattered over the region.
    Zipf {
        /// The exponent: positive and not 1.
        theta: f64,
        /// Place of the hottest block.
        center: Option<f64>,
    },
    /// Self-similar with power `h`: of the requests, 1 - h go to h of the blocks. Scattered.
    Pareto {
        /// Between 0 and 1, exclusive.
        h: f64,
        /// Place of the hottest block.
        center: Option<f64>,
    },
    /// fio's bell: see [`workload`](crate::workload). Scattered.
    Normal {
        /// Percent of the region by which it is widened, 0 to 100.
        deviation: f64,
        /// Place of the top of the bell.
        center: Option<f64>,
    },
    /// Uniform within zones that are hit unequally.
    Zoned(Vec<Zone>),
}

/// How a rate is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Arrivals {
    /// At even distances; one that is late is caught up.
    Linear,
    /// As a Poisson process: an open loop, bounded by the depth.
    Poisson,
}

/// One section of a job file, with its defaults from `global` resolved.
///
/// Serialises to its canonical form: all that decides the results of a run, and nothing else.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Section {
    /// The section's name, or `name=`.
    pub name: String,
    /// Line of its section header, from one.
    #[serde(skip)]
    pub line: usize,
    /// Its place in the file, from zero.
    pub index: usize,
    /// Which jobs run together: one more than the job above it if this one has `stonewall`.
    pub group: usize,
    /// `description=`, if given.
    #[serde(skip)]
    pub description: Option<String>,
    /// `filename=`, if given. Every job addresses the volume, whatever file it names.
    #[serde(skip)]
    pub filename: Option<String>,
    /// Directions of the requests.
    pub mix: Mix,
    /// How addresses follow each other.
    pub access: Access,
    /// Request sizes, never empty.
    pub sizes: PerDirection<Vec<SizeShare>>,
    /// Size of the region; the rest of the volume if `None`.
    pub size: Option<SizeOrPercent>,
    /// Where the region of the first clone starts.
    pub offset: SizeOrPercent,
    /// How much further that of each next clone starts.
    pub offset_increment: SizeOrPercent,
    /// How many bytes to move in all, if not the region's size.
    pub io_bytes: Option<u64>,
    /// How many requests to make at most, per loop.
    pub number_ios: Option<u64>,
    /// How often to run over the region.
    pub loops: u64,
    /// Requests in flight per clone, as fio would reach it (see [`Note`](super::Note)s).
    pub depth: u32,
    /// How many clones run.
    pub clones: u32,
    /// When to stop, counted from the start of the clone plus [`Section::ramp`].
    #[serde(serialize_with = "optional_nanos")]
    pub runtime: Option<Nanos>,
    /// Whether to go on until [`Section::runtime`] whatever was done.
    pub time_based: bool,
    /// How long to run before anything is measured.
    #[serde(serialize_with = "nanos")]
    pub ramp: Nanos,
    /// Not to start before, counted from the start of the run.
    #[serde(serialize_with = "nanos")]
    pub start_delay: Nanos,
    /// Percent of a random job's requests that are random; the others follow their predecessor.
    pub random_percent: PerDirection<u64>,
    /// How random addresses are drawn.
    pub distribution: Distribution,
    /// Whether uniform addresses cover every block once before any comes again.
    pub random_map: bool,
    /// `randseed=`, if given: mixed into the seed of the run, which decides.
    pub random_seed: Option<u64>,
    /// Most bytes a second, per direction.
    pub rate_bytes_per_s: PerDirection<Option<u64>>,
    /// Most requests a second, per direction. A rate in bytes goes before.
    pub rate_ios_per_s: PerDirection<Option<u64>>,
    /// How a rate is kept.
    pub arrivals: Arrivals,
    /// How long to pause after every [`Section::think_ios`] requests, once they have completed.
    #[serde(serialize_with = "nanos")]
    pub think_time: Nanos,
    /// See [`Section::think_time`]; at least 1.
    pub think_ios: u64,
    /// Whether requests bypass the page cache.
    pub direct: bool,
    /// A flush after every so many writes; zero for never.
    pub fsync: u64,
    /// The same as [`Section::fsync`], and beside it: simulation knows no metadata to leave out.
    pub fdatasync: u64,
    /// Whether a flush follows the last write.
    pub final_flush: bool,
    /// Whether the section counts for the score of a policy. Background load does not: see the
    /// pragma `; mirrorball: counts=no`.
    pub counts: bool,
    /// Whether fio would join the section with others in its output. Results are always kept per
    /// section.
    #[serde(skip)]
    pub group_reporting: bool,
}

/// The part of the volume that one clone works on: whole blocks of its smallest size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl<T> Index<Direction> for PerDirection<T> {
    type Output = T;
    #[inline]
    fn index(&self, direction: Direction) -> &T {
        &self.0[direction as usize]
    }
}

impl<T> IndexMut<Direction> for PerDirection<T> {
    #[inline]
    fn index_mut(&mut self, direction: Direction) -> &mut T {
        &mut self.0[direction as usize]
    }
}

impl Mix {
    /// The directions that occur.
    pub fn directions(self) -> &'static [Direction] {
        match self {
            Mix::Only(Direction::Read) | Mix::ReadWrite { read_percent: 100 } => &[Direction::Read],
            Mix::Only(Direction::Write) | Mix::ReadWrite { read_percent: 0 } => &[Direction::Write],
            Mix::Only(Direction::Trim) => &[Direction::Trim],
            Mix::ReadWrite { .. } => &[Direction::Read, Direction::Write],
        }
    }
}

impl Section {
    /// Whether all its directions have a rate (`rate` or `rate_iops`). The throughput of such a
    /// section says nothing about the array; its latency does.
    pub fn has_rate(&self) -> bool {
        self.mix.directions().iter().all(|&direction| {
            self.rate_bytes_per_s[direction].or(self.rate_ios_per_s[direction]).is_some()
        })
    }

    /// The smallest request of a direction: the block that addresses are counted in.
    pub fn block_bytes(&self, direction: Direction) -> u64 {
        let sizes = self.sizes[direction].iter().map(|size| size.bytes);
        sizes.min().expect("the reader leaves no direction without a size")
    }

    /// The region of clone number `clone` on a volume of `volume_bytes`.
    ///
    /// # Panics
    /// If it does not lie within the volume; [`JobFile::validate_against`] tells beforehand.
    ///
    /// [`JobFile::validate_against`]: super::JobFile::validate_against
    pub fn region(&self, clone: u32, volume_bytes: u64) -> Region {
        match self.try_region(clone, volume_bytes) {
            Ok(region) => region,
            Err(fault) => panic!("job {}: {}", self.name, fault.message),
        }
    }

    pub(super) fn check_region(&self, clone: u32, volume_bytes: u64) -> Result<(), Diagnostic> {
        self.try_region(clone, volume_bytes).map(|_| ())
    }

    fn try_region(&self, clone: u32, volume_bytes: u64) -> Result<Region, Diagnostic> {
        let sizes = self.mix.directions().iter().map(|&direction| self.block_bytes(direction));
        let block_bytes = sizes.clone().min().unwrap_or(SECTOR_BYTES);
        let whole = |bytes: u64| bytes / block_bytes * block_bytes;
        // fio rounds a relative offset up to whole blocks, and a relative size down.
        let start_of = |extent| match extent {
            SizeOrPercent::Bytes(bytes) => bytes,
            SizeOrPercent::Percent(percent) => {
                whole(part(volume_bytes, percent).saturating_add(block_bytes - 1))
            }
        };
        let step = start_of(self.offset_increment).saturating_mul(u64::from(clone));
        let offset = start_of(self.offset).saturating_add(step);
        let bytes = match self.size {
            None => volume_bytes.saturating_sub(offset),
            Some(SizeOrPercent::Bytes(bytes)) => bytes,
            // A relative offset was rounded up, so the last of several clones may lack a block.
            Some(SizeOrPercent::Percent(percent)) => {
                part(volume_bytes, percent).min(volume_bytes.saturating_sub(offset))
            }
        };
        let largest = sizes.max().unwrap_or(SECTOR_BYTES);
        if offset.saturating_add(bytes) > volume_bytes || offset == volume_bytes {
            let end = offset.saturating_add(bytes.max(block_bytes));
            return Err(job_error(
                format!(
                    "job `{}` is larger than the volume: clone {} of {} ends at byte {end}, \
                     the volume has {volume_bytes}",
                    self.name,
                    clone + 1,
                    self.clones
                ),
                "lower size, offset, offset_increment or numjobs; size=10% always fits",
            ));
        }
        if whole(bytes) < largest {
            return Err(job_error(
                format!("job `{}` has a region of {bytes} bytes and blocks larger", self.name),
                format!("make size at least {largest}"),
            ));
        }
        Ok(Region { offset, bytes: whole(bytes) })
    }
}

/// `percent` percent of `bytes`, rounded down.
fn part(bytes: u64, percent: u64) -> u64 {
    (u128::from(bytes) * u128::from(percent) / 100) as u64
}

fn nanos<S: Serializer>(time: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.0)
}

fn optional_nanos<S: Serializer>(time: &Option<Nanos>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.0).serialize(serializer)
}
