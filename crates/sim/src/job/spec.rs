//! The sections of a job file as plain data.

use super::replay::{Replay, ReplayPace};
use super::target::JobTarget;
use mirrorball_core::units::Nanos;
use serde::{Serialize, Serializer};
use std::ops::{Index, IndexMut};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize)]
pub enum Direction {
    #[default]
    Read,
    Write,
    Trim,
}

/// One value for each direction; fio writes them as `reads,writes,trims`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct PerDirection<T>(pub [T; 3]);

/// The directions of a section's requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Mix {
    Only(Direction),
    ReadWrite {
        /// Percent of reads, 0 to 100.
        read_percent: u64,
    },
    /// Discards, each followed by a write of the same range.
    TrimWrite,
}

/// Order of the addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub enum Access {
    /// Each request starts where the one before it in its direction ended.
    #[default]
    Sequential,
    /// By [`Section::distribution`].
    Random,
}

/// A size, in bytes or in percent of the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum SizeOrPercent {
    Bytes(u64),
    /// Percent of the volume, rounded to whole blocks.
    Percent(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct SizeShare {
    pub bytes: u64,
    /// Share of the requests, in proportion to the sum of the shares of its direction.
    #[serde(rename = "percent")]
    pub weight: u64,
}

/// Change to the order of addresses by a number after `rw`, as in `rw=read:64k`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub enum AddressModifier {
    /// No change.
    #[default]
    None,
    /// Bytes that a sequential job skips after each request; it goes backwards if negative.
    Skip(i64),
    /// Requests of a random job for each random address. The others follow the request before, or
    /// repeat its address.
    Runs {
        length: u64,
        /// Whether the others repeat the address.
        is_identical: bool,
    },
}

/// Zones of `zonemode=strided`: some bytes are requested of each zone, then some are skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct StridedZones {
    pub size_bytes: u64,
    pub range_bytes: u64,
    /// Bytes between zones.
    pub skip_bytes: u64,
}

/// Order in which the requests of a clone go to its files.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub enum FileOrder {
    /// One file after the other.
    Sequential,
    #[default]
    RoundRobin,
    Drawn(Distribution),
}

/// A zone of `random_distribution=zoned`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Zone {
    /// Percent of the requests that go here; all zones together have 100.
    pub access_percent: u64,
    /// Part of the region that it spans, behind the zones before it. All percentages together are
    /// 100.
    pub size: SizeOrPercent,
}

/// Distribution of random addresses. `center` is the position of the hottest block as a fraction of
/// the region, or `None` for a position drawn from the seed.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub enum Distribution {
    /// All blocks are equally likely.
    #[default]
    Uniform,
    /// Zipf's law with exponent `theta`, scattered over the region.
    Zipf {
        /// The exponent: positive and not 1.
        theta: f64,
        /// Position of the hottest block.
        center: Option<f64>,
    },
    /// Self-similar with power `h`: of the requests, 1 - h go to h of the blocks. Scattered.
    Pareto {
        /// Between 0 and 1, exclusive.
        h: f64,
        /// Position of the hottest block.
        center: Option<f64>,
    },
    /// The normal distribution of fio: see [`workload`](crate::workload). Scattered.
    Normal {
        /// Percent of the region by which it is widened, 0 to 100.
        deviation: f64,
        /// Position of the top of the bell curve.
        center: Option<f64>,
    },
    /// Uniform within each of several zones of a direction.
    Zoned(PerDirection<Vec<Zone>>),
    /// These blocks, in their order, again and again.
    Sequence {
        blocks: Vec<u64>,
        /// Whether each turn begins as many blocks further on as there are in the sequence.
        strides: bool,
    },
}

/// How a rate limit spaces the requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub enum Arrivals {
    /// Evenly; late requests are caught up.
    #[default]
    Linear,
    /// As a Poisson process: an open loop, bounded by the queue depth.
    Poisson,
}

/// One section of a job file, with its defaults from `global` resolved.
///
/// Serialises to its canonical form: all that decides the results of a run, and nothing else.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Section {
    /// The section's name, or `name=`.
    pub name: String,
    /// Line of its section header, from one.
    #[serde(skip)]
    pub line: usize,
    pub index: usize,
    /// Sections of one group run together. A section with `stonewall` starts a new group.
    pub group: usize,
    /// `description=`, if given.
    #[serde(skip)]
    pub description: Option<String>,
    /// Devices or files that it works on.
    #[serde(skip_serializing_if = "JobTarget::is_volume")]
    pub target: JobTarget,
    /// Order in which requests go to several files.
    #[serde(skip_serializing_if = "is_default")]
    pub file_order: FileOrder,
    /// Requests to a file before the next file is chosen.
    #[serde(skip_serializing_if = "is_one")]
    pub file_ios: u64,
    /// Number of files with requests at a time; all of them if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<usize>,
    pub mix: Mix,
    /// How addresses follow each other.
    pub access: Access,
    /// Request sizes, never empty.
    pub sizes: PerDirection<Vec<SizeShare>>,
    /// Change to the order of addresses.
    #[serde(skip_serializing_if = "is_default")]
    pub modifier: AddressModifier,
    /// Zones that it works in, one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zones: Option<StridedZones>,
    /// Alignment of random addresses; the smallest size if `None`.
    #[serde(skip_serializing_if = "is_default")]
    pub align_bytes: PerDirection<Option<u64>>,
    /// Size of the region; the rest of the volume or file if `None`.
    pub size: Option<SizeOrPercent>,
    /// Start of the first clone's region.
    pub offset: SizeOrPercent,
    /// Added to the start for each further clone.
    pub offset_increment: SizeOrPercent,
    /// Alignment of a start in percent; the smallest size if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset_align: Option<u64>,
    /// Bytes of a pass over the files; the sum of their sizes if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass_bytes: Option<u64>,
    /// Whether a pass goes on behind these bytes to the end of the files, and they bound the total.
    #[serde(skip_serializing_if = "is_default")]
    pub passes_end_with_file: bool,
    /// Total bytes to transfer; the region's size if `None`.
    pub io_bytes: Option<u64>,
    /// Percent of the region's size to transfer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_percent: Option<u64>,
    /// Maximum number of requests per loop.
    pub number_ios: Option<u64>,
    /// Number of passes over the region.
    pub loops: u64,
    /// Requests in flight per clone, as fio would reach it (see [`Note`](super::Note)s).
    pub depth: u32,
    pub clones: u32,
    /// Time limit, counted from the end of the ramp.
    #[serde(serialize_with = "optional_nanos")]
    pub runtime: Option<Nanos>,
    /// Whether to continue until [`Section::runtime`].
    pub time_based: bool,
    /// True if the run ends with the runtime, without those in flight. As fio does it, the runtime
    /// ends the requests, and the run ends with the last reply.
    #[serde(skip_serializing_if = "is_default")]
    pub ends_in_flight: bool,
    /// Time to run before anything is measured.
    #[serde(serialize_with = "nanos")]
    pub ramp: Nanos,
    /// Earliest start, counted from the start of the run.
    #[serde(serialize_with = "nanos")]
    pub start_delay: Nanos,
    /// Percent of a random job's requests that are random; the others follow their predecessor.
    pub random_percent: PerDirection<u64>,
    pub distribution: Distribution,
    /// Whether uniform random addresses visit every block once before any is visited again.
    pub random_map: bool,
    /// `randseed=`, if given: mixed into the seed of the run, which decides.
    pub random_seed: Option<u64>,
    /// Whether runs that follow one another on one array make the same requests. Other runs do if
    /// their seeds are equal.
    #[serde(skip_serializing_if = "is_true")]
    pub random_repeat: bool,
    /// Most bytes a second, per direction.
    pub rate_bytes_per_s: PerDirection<Option<u64>>,
    /// Most requests a second, per direction. A rate in bytes goes before.
    pub rate_ios_per_s: PerDirection<Option<u64>>,
    /// How a rate limit spaces the requests.
    pub arrivals: Arrivals,
    /// Pause after every [`Section::think_ios`] requests, counted from the last completion.
    #[serde(serialize_with = "nanos")]
    pub think_time: Nanos,
    /// See [`Section::think_time`]; at least 1.
    pub think_ios: u64,
    /// Requests of a burst that fio issues before it counts the first as ended. It pauses when
    /// [`Section::think_ios`] were counted since the pause before.
    #[serde(skip_serializing_if = "is_default")]
    pub think_lag: u64,
    /// Whether a rate is not caught up after a pause.
    #[serde(skip_serializing_if = "is_default")]
    pub rate_skips_pauses: bool,
    /// Whether requests bypass the page cache.
    pub direct: bool,
    /// Number of writes between flushes; zero for no flushes.
    pub fsync: u64,
    /// As [`Section::fsync`], in addition to it: there is no metadata to skip in simulation.
    pub fdatasync: u64,
    /// Whether a flush follows the last write.
    pub final_flush: bool,
    /// Whether the section counts for the score of a policy. Background load does not: see the
    /// pragma `; mirrorball: counts=no`.
    pub counts: bool,
    /// First and last of the sections that end with the first clone of this one that ends
    /// (`exitall`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<[usize; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<Flow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth_goal: Option<DepthGoal>,
    /// Whether fio would join the section with others in its output. Results are always kept per
    /// section.
    #[serde(skip)]
    pub group_reporting: bool,
    /// The trace that it replays in place of requests of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// The file that it works on in place of the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<FileSpec>,
}

/// Share of a section's clones in the requests of all clones of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Flow {
    /// `flow_id`.
    pub id: u64,
    /// Requests of a clone in proportion to the weights of all clones.
    pub weight: u64,
    /// Pause of a clone that is ahead, after its requests have ended; it only waits if zero.
    #[serde(serialize_with = "nanos")]
    pub pause: Nanos,
}

/// Search for the largest depth at which a share of the requests is fast enough
/// (`latency_target`).
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct DepthGoal {
    #[serde(serialize_with = "nanos")]
    pub latency: Nanos,
    /// Time at a depth before the next one.
    #[serde(serialize_with = "nanos")]
    pub window: Nanos,
    /// Percent of the requests that are not slower.
    pub percentile: f64,
    /// Whether the search goes on when a depth was found.
    pub is_endless: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct FileSpec {
    /// When its blocks are allocated.
    pub allocation: Allocation,
    /// Whether each request waits for the one before, as under the exclusive lock of the inode.
    pub is_exclusive: bool,
    /// Stripe unit of the filesystem (`su` of mkfs.xfs).
    pub unit_bytes: u64,
    /// Stripe units in a full stripe (`sw`).
    pub units: u64,
    /// Whether extents are aligned to full stripes instead of units (`swalloc` of mount).
    pub swalloc: bool,
    /// Size of the allocation groups; that of mkfs.xfs if `None`.
    pub ag_bytes: Option<u64>,
}

/// When the blocks of a file are allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Allocation {
    /// There is no filesystem: the job works on the volume.
    Raw,
    /// All before the job starts, as by `fallocate=posix`.
    Preallocated,
    /// Each by the first write to it, as with `fallocate=none`.
    Sparse,
}

impl FileSpec {
    /// Whether there is a filesystem.
    pub fn is_raw(&self) -> bool {
        self.allocation == Allocation::Raw
    }
}

impl Default for Mix {
    fn default() -> Mix {
        Mix::Only(Direction::Read)
    }
}

impl Default for SizeOrPercent {
    fn default() -> SizeOrPercent {
        SizeOrPercent::Bytes(0)
    }
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
    pub fn directions(self) -> &'static [Direction] {
        match self {
            Mix::Only(Direction::Read) | Mix::ReadWrite { read_percent: 100 } => &[Direction::Read],
            Mix::Only(Direction::Write) | Mix::ReadWrite { read_percent: 0 } => &[Direction::Write],
            Mix::Only(Direction::Trim) => &[Direction::Trim],
            Mix::ReadWrite { .. } => &[Direction::Read, Direction::Write],
            Mix::TrimWrite => &[Direction::Trim, Direction::Write],
        }
    }
}

impl Section {
    /// Whether all its directions have a rate (`rate` or `rate_iops`), or a trace sets the times of
    /// its requests. The throughput of such a section says nothing about the array; its latency
    /// does.
    pub fn has_rate(&self) -> bool {
        if let Some(replay) = &self.replay {
            return replay.pace == ReplayPace::Open;
        }
        self.mix.directions().iter().all(|&direction| {
            self.rate_bytes_per_s[direction].or(self.rate_ios_per_s[direction]).is_some()
        })
    }

    /// Requests in flight of all clones.
    pub fn in_flight(&self) -> u64 {
        u64::from(self.clones) * u64::from(self.depth)
    }

    /// The smallest request of a direction: the block that addresses are counted in.
    pub fn block_bytes(&self, direction: Direction) -> u64 {
        let sizes = self.sizes[direction].iter().map(|size| size.bytes);
        sizes.min().expect("every direction has a size")
    }
}

// What most sections have is left out, so that their canonical form stays what it was.

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_true(value: &bool) -> bool {
    *value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_one(value: &u64) -> bool {
    *value == 1
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn nanos<S: Serializer>(time: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.0)
}

fn optional_nanos<S: Serializer>(time: &Option<Nanos>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.0).serialize(serializer)
}
