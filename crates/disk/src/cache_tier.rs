//! The rules of a cache on a solid-state disk in front of a slower device, those of bcache that
//! decide its timing.
//!
//! - A read takes what is cached from the cache device, and the rest from the backing device, at
//!   once. What the backing device had to read is then written to the cache; the reader does not
//!   wait for that.
//! - A sequential stream that is longer than `sequential_cutoff_bytes` bypasses the cache: hits are
//!   still served from it, but misses are not inserted, and writes go to the backing device alone.
//! - A write goes to both devices, and ends when both have it (write-through), to the backing
//!   device alone (write-around), or to the cache alone (write-back). What a write does not put
//!   into the cache, it removes from it.
//! - With write-back, while more than a tenth of the cache is dirty, dirty blocks are copied to the
//!   backing device in the order of addresses, one I/O after the other. A write that would make
//!   more than 70 % of the cache dirty is written through.
//! - With `promote_after` above 1 a block is put into the cache only once it was missed as often.
//!   dm-cache promotes what is used often; its multi-queue is not modelled.
//! - A flush goes to both devices, a discard to the backing device.
//!
//! The two figures are the defaults of bcache (`writeback_percent`, `CUTOFF_WRITEBACK_SYNC`).
//!
//! The tier is a state machine without devices and without a clock: the caller submits requests,
//! hands the I/Os that [`CacheTier::poll_io`] returns to the device that each names, and reports
//! their ends. `cached_disk` puts it in front of the model of a disk, the engine of the simulator
//! in front of the whole array.
//!
//! Non-goals: the rate controller of bcache's write-back, write-back of an idle cache, the average
//! size of the I/O of each task (the rules know no tasks), the thresholds of a congested cache
//! device, and the blocks of dm-cache, which are copied as a whole. bcache evicts whole buckets;
//! here the block of 4 KiB that was used least recently goes first.

mod recent_streams;

use crate::cache_contents::{BlockRun, CacheContents};
use crate::model::{ByteRange, Completion, DiskIo};
use crate::profile::ModelProfile;
use mirrorball_core::io::{IoError, Op};
use mirrorball_core::slab::{Slab, SlabKey};
use mirrorball_core::units::MIB;
use recent_streams::RecentStreams;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Dirty share of the cache above which dirty blocks are written back.
const WRITE_BACK_SHARE: f64 = 0.1;
/// Dirty share that no write takes the cache above.
const DIRTY_SHARE_MAX: f64 = 0.7;

/// A cache in front of a member or of the array: plain data that builds it.
#[derive(Clone, Debug)]
pub struct CacheSpec {
    /// The cache device. All of its capacity is cache, and nothing else uses it.
    pub device: ModelProfile,
    pub mode: CacheMode,
    /// A stream of this many bytes or more bypasses the cache; never if zero.
    pub sequential_cutoff_bytes: u64,
    /// Number of times that a block is missed before it is put into the cache, from 1.
    pub promote_after: u32,
    /// Share of the blocks of the backing device that are in the cache at the start, from 0 to 1.
    pub warm_share: f64,
}

/// Effect of a write on the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheMode {
    /// It is written to both devices.
    WriteThrough,
    /// It is written to the cache, and later to the backing device.
    WriteBack,
    /// It is written to the backing device, and removed from the cache.
    WriteAround,
}

/// The rules, with the state of the cache.
#[derive(Clone, Debug)]
pub struct CacheTier {
    mode: CacheMode,
    promote_after: u32,
    cache_bytes: u64,
    blocks: CacheContents,
    streams: RecentStreams,
    is_writing_back: bool,
    requests: Slab<TierRequestKey, CachedRequest>,
    parts: Slab<PartKey, TierPart>,
    /// I/Os that are to be handed out.
    ready: VecDeque<TierIo>,
    runs: Vec<BlockRun>,
    counts: CacheTierCounts,
}

/// An I/O of one of the two devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TierIo {
    pub device: TierDevice,
    /// The I/O, by the addresses of the device. Its tag is returned with its end; no two I/Os in
    /// flight have the same.
    pub io: DiskIo,
    /// Tag of the request that waits for it; none for insertions and write-backs.
    pub request: Option<u64>,
}

/// One of the two devices of a tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TierDevice {
    /// The device behind the cache.
    Backing,
    Cache,
}

/// Counters of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CacheTierCounts {
    /// Bytes of all reads.
    pub read_bytes: u64,
    /// Those that were read from the cache device.
    pub read_hit_bytes: u64,
    /// Bytes of reads, hits excepted, and of writes that bypassed the cache: those of long
    /// sequential streams, and requests larger than the cache.
    pub bypassed_bytes: u64,
    /// Bytes of all writes.
    pub written_bytes: u64,
    /// Those that only the cache device had when the write was complete.
    pub written_to_cache_only_bytes: u64,
    /// Bytes that were written to the cache after they were missed.
    pub inserted_bytes: u64,
    /// Bytes that were copied from the cache to the backing device.
    pub written_back_bytes: u64,
    /// Copies to the backing device that failed: their data are lost.
    pub failed_write_backs: u64,
}

mirrorball_core::slab_key! {
    /// Names a request in flight.
    struct TierRequestKey;
}

mirrorball_core::slab_key! {
    /// Names an I/O of a device; its slot is the tag of the I/O.
    struct PartKey;
}

/// A request that was submitted and has not ended.
#[derive(Clone, Copy, Debug)]
struct CachedRequest {
    io: DiskIo,
    parts_in_flight: u32,
    result: Result<(), IoError>,
    /// Whether the data are written to the cache once they are read.
    is_inserted: bool,
}

/// An I/O that a device was given, or is to be given.
#[derive(Clone, Copy, Debug)]
struct TierPart {
    purpose: TierPurpose,
    device: TierDevice,
}

/// Purpose of an I/O of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TierPurpose {
    Request(TierRequestKey),
    /// It writes to the cache what was read from the backing device.
    Insertion,
    /// It reads dirty blocks from the cache, to write them to the backing device.
    WriteBackRead(ByteRange),
    WriteBackWrite,
}

/// Where a write goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteRoute {
    Backing,
    Cache,
    /// To both at once; it ends when both have ended.
    Both,
}

impl CacheSpec {
    /// The default of bcache.
    pub const SEQUENTIAL_CUTOFF_BYTES_DEFAULT: u64 = 4 * MIB;

    /// Bytes of writes that complete at the speed of the cache device; zero unless it writes back.
    pub fn write_cache_bytes(&self) -> u64 {
        match self.mode {
            CacheMode::WriteBack => (self.device.capacity_bytes as f64 * DIRTY_SHARE_MAX) as u64,
            CacheMode::WriteThrough | CacheMode::WriteAround => 0,
        }
    }
}

impl CacheMode {
    /// All modes, the default first.
    pub const ALL: [CacheMode; 3] =
        [CacheMode::WriteThrough, CacheMode::WriteBack, CacheMode::WriteAround];

    /// Name, which is that of bcache.
    pub fn name(self) -> &'static str {
        match self {
            CacheMode::WriteThrough => "writethrough",
            CacheMode::WriteBack => "writeback",
            CacheMode::WriteAround => "writearound",
        }
    }
}

impl CacheTier {
    /// An idle cache. Equal seeds give equal warm blocks.
    pub fn new(spec: &CacheSpec, seed: u64) -> CacheTier {
        let cache_bytes = spec.device.capacity_bytes;
        CacheTier {
            mode: spec.mode,
            promote_after: spec.promote_after,
            cache_bytes,
            blocks: CacheContents::new(cache_bytes, spec.warm_share, seed),
            streams: RecentStreams::new(spec.sequential_cutoff_bytes),
            is_writing_back: false,
            requests: Slab::default(),
            parts: Slab::default(),
            ready: VecDeque::new(),
            runs: Vec::new(),
            counts: CacheTierCounts::default(),
        }
    }

    /// Accepts a request, by the addresses of the backing device. [`CacheTier::poll_io`] returns
    /// its parts.
    pub fn submit(&mut self, io: DiskIo) {
        let mut runs = std::mem::take(&mut self.runs);
        self.cut(io, &mut runs);
        let is_inserted = self.note_request(io, &runs);
        let request = CachedRequest { io, parts_in_flight: 0, result: Ok(()), is_inserted };
        let key = self.requests.insert(request);
        for run in &runs {
            self.start_part(io.op, run.range, device_of(run), TierPurpose::Request(key));
        }
        self.runs = runs;
        self.write_back();
    }

    /// Returns the next I/O that a device is to do now.
    #[inline]
    pub fn poll_io(&mut self) -> Option<TierIo> {
        self.ready.pop_front()
    }

    /// Records the end of an I/O of a device. Returns the end of the request that waited for it, if
    /// it was the last part of one. Further I/Os may be ready afterwards. Panics if no I/O of this
    /// tag is in flight.
    pub fn end(&mut self, part: Completion) -> Option<Completion> {
        let key = PartKey::from_slot(part.tag as u32);
        let TierPart { purpose, .. } = self.parts.remove(key).expect("an I/O completes once");
        let ended = match purpose {
            TierPurpose::Request(request) => self.end_request_part(request, part),
            TierPurpose::Insertion => None,
            TierPurpose::WriteBackRead(range) => {
                self.start_part(Op::Write, range, TierDevice::Backing, TierPurpose::WriteBackWrite);
                None
            }
            TierPurpose::WriteBackWrite => {
                self.is_writing_back = false;
                self.counts.failed_write_backs += u64::from(part.result.is_err());
                None
            }
        };
        self.write_back();
        ended
    }

    /// Counters so far.
    pub fn counts(&self) -> CacheTierCounts {
        self.counts
    }

    pub fn contents(&self) -> &CacheContents {
        &self.blocks
    }

    pub fn set_contents(&mut self, contents: CacheContents) {
        self.blocks = contents;
    }

    /// The part of a read in flight that the caller may cancel, and its device: its only one left.
    /// Nothing waits in the cache itself; other requests may have reached one of two devices, so
    /// they complete.
    pub(crate) fn cancellable_part(&self, tag: u64) -> Option<(TierDevice, u64)> {
        let wanted = |&(_, request): &(TierRequestKey, &CachedRequest)| request.io.tag == tag;
        let (key, request) = self.requests.iter().find(wanted)?;
        if request.io.op != Op::Read || request.parts_in_flight > 1 {
            return None;
        }
        let is_its_part =
            |(_, part): &(PartKey, &TierPart)| part.purpose == TierPurpose::Request(key);
        let (part, &TierPart { device, .. }) = self.parts.iter().find(is_its_part)?;
        Some((device, u64::from(part.slot())))
    }

    /// Removes the last part of a read, which was cancelled, and the read.
    pub(crate) fn cancel_part(&mut self, tag: u64) {
        let part = self.parts.remove(PartKey::from_slot(tag as u32));
        if let Some(TierPart { purpose: TierPurpose::Request(request), .. }) = part {
            self.requests.remove(request);
        }
    }

    /// The I/Os that a device would do for a request. Their tags are not those of I/Os in flight.
    pub(crate) fn parts_if_submitted(&self, io: DiskIo, device: TierDevice) -> Vec<DiskIo> {
        let mut runs = Vec::new();
        self.cut(io, &mut runs);
        let of_device = runs.iter().filter(|run| device_of(run) == device).enumerate();
        let part = |(number, run): (usize, &BlockRun)| {
            self.io_on(device, io.op, run.range, u64::MAX - number as u64)
        };
        of_device.map(part).collect()
    }

    /// The I/O of a device for a range of the backing device. Neighbours remain neighbours.
    fn io_on(&self, device: TierDevice, op: Op, range: ByteRange, tag: u64) -> DiskIo {
        let ByteRange { offset, length } = range;
        let offset = match (device, op) {
            (TierDevice::Backing, _) | (TierDevice::Cache, Op::Flush) => offset,
            (TierDevice::Cache, Op::Read | Op::Write | Op::Discard) => {
                (offset % self.cache_bytes).min(self.cache_bytes - length)
            }
        };
        DiskIo { tag, op, offset, length }
    }

    fn start_part(&mut self, op: Op, range: ByteRange, device: TierDevice, purpose: TierPurpose) {
        let tag = u64::from(self.parts.insert(TierPart { purpose, device }).slot());
        let io = self.io_on(device, op, range, tag);
        let request = match purpose {
            TierPurpose::Request(key) => {
                let request = self.requests.get_mut(key);
                request.parts_in_flight += 1;
                Some(request.io.tag)
            }
            TierPurpose::Insertion
            | TierPurpose::WriteBackRead(_)
            | TierPurpose::WriteBackWrite => None,
        };
        self.ready.push_back(TierIo { device, io, request });
    }

    /// Whether an I/O goes past the cache: it continues a long stream, or is too large.
    fn bypasses(&self, io: DiskIo) -> bool {
        self.streams.reaches_cutoff(io.range()) || io.length > self.cache_bytes
    }

    /// The parts of the request, each with its device, into `runs`: cached ones are of the cache.
    fn cut(&self, io: DiskIo, runs: &mut Vec<BlockRun>) {
        runs.clear();
        let whole = |is_cached| BlockRun { range: io.range(), is_cached };
        match io.op {
            Op::Flush => runs.extend([whole(false), whole(true)]),
            Op::Discard => runs.push(whole(false)),
            Op::Read if io.length > self.cache_bytes => runs.push(whole(false)),
            Op::Read => self.blocks.runs(io.range(), runs),
            Op::Write => match self.write_route(io) {
                WriteRoute::Backing => runs.push(whole(false)),
                WriteRoute::Cache => runs.push(whole(true)),
                WriteRoute::Both => runs.extend([whole(false), whole(true)]),
            },
        }
    }

    fn write_route(&self, io: DiskIo) -> WriteRoute {
        match self.mode {
            _ if self.bypasses(io) => WriteRoute::Backing,
            CacheMode::WriteAround => WriteRoute::Backing,
            CacheMode::WriteBack if self.blocks.dirty_share(io.length) <= DIRTY_SHARE_MAX => {
                WriteRoute::Cache
            }
            CacheMode::WriteThrough | CacheMode::WriteBack => WriteRoute::Both,
        }
    }

    /// Changes what is cached and what is remembered by a request that is cut into `runs`. Returns
    /// true if what it reads from the backing device is put into the cache.
    fn note_request(&mut self, io: DiskIo, runs: &[BlockRun]) -> bool {
        let range = io.range();
        let bypasses = self.bypasses(io);
        if let Op::Read | Op::Write = io.op {
            self.streams.note(range);
            let hits = runs.iter().filter(|run| run.is_cached && io.op == Op::Read);
            let hit_bytes: u64 = hits.map(|run| run.range.length).sum();
            self.counts.read_hit_bytes += hit_bytes;
            self.counts.bypassed_bytes += if bypasses { io.length - hit_bytes } else { 0 };
        }
        match io.op {
            Op::Read => {
                self.counts.read_bytes += io.length;
                for run in runs.iter().filter(|run| run.is_cached) {
                    self.blocks.touch(run.range);
                }
                let is_missed = runs.iter().any(|run| !run.is_cached);
                is_missed && !bypasses && self.blocks.note_miss(range, self.promote_after)
            }
            Op::Write => {
                self.counts.written_bytes += io.length;
                match (runs.first(), runs.len()) {
                    (_, 2) => self.blocks.insert(range),
                    (Some(BlockRun { is_cached: true, .. }), _) => {
                        self.counts.written_to_cache_only_bytes += io.length;
                        self.blocks.insert_dirty(range);
                    }
                    _ => self.blocks.remove(range),
                }
                false
            }
            Op::Discard => {
                self.blocks.remove(range);
                false
            }
            Op::Flush => false,
        }
    }

    fn end_request_part(&mut self, key: TierRequestKey, part: Completion) -> Option<Completion> {
        let request = self.requests.get_mut(key);
        request.parts_in_flight -= 1;
        request.result = request.result.and(part.result);
        if request.parts_in_flight > 0 {
            return None;
        }
        let CachedRequest { io, result, is_inserted, .. } = *request;
        self.requests.remove(key);
        if is_inserted && result.is_ok() {
            self.insert_missing(io.range());
        }
        Some(Completion { tag: io.tag, at: part.at, result })
    }

    /// Writes to the cache what it lacks of a range.
    fn insert_missing(&mut self, range: ByteRange) {
        let mut runs = std::mem::take(&mut self.runs);
        runs.clear();
        self.blocks.runs(range, &mut runs);
        for &BlockRun { range, .. } in runs.iter().filter(|run| !run.is_cached) {
            self.blocks.insert(range);
            self.counts.inserted_bytes += range.length;
            self.start_part(Op::Write, range, TierDevice::Cache, TierPurpose::Insertion);
        }
        self.runs = runs;
    }

    /// Starts to write back dirty blocks, if too much of the cache is dirty and none are under way.
    fn write_back(&mut self) {
        if self.is_writing_back || self.blocks.dirty_share(0) <= WRITE_BACK_SHARE {
            return;
        }
        let Some(range) = self.blocks.take_dirty() else { return };
        self.is_writing_back = true;
        self.counts.written_back_bytes += range.length;
        self.start_part(Op::Read, range, TierDevice::Cache, TierPurpose::WriteBackRead(range));
    }
}

fn device_of(run: &BlockRun) -> TierDevice {
    if run.is_cached { TierDevice::Cache } else { TierDevice::Backing }
}

#[cfg(test)]
mod tests;
