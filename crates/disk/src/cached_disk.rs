//! A cache on a solid-state disk in front of a disk, by the rules of bcache that decide its timing.
//!
//! - A read takes what is cached from the cache device, and the rest from the disk, at once. What
//!   the disk had to read is then written to the cache; the reader does not wait for that.
//! - A sequential stream that is longer than `sequential_cutoff_bytes` bypasses the cache: hits are
//!   still served from it, but misses are not inserted, and writes go to the disk alone.
//! - A write goes to the disk and the cache, and ends when both have it (write-through), to the
//!   disk alone (write-around), or to the cache alone (write-back). What a write does not put into
//!   the cache, it removes from it.
//! - With write-back, while more than a tenth of the cache is dirty, dirty blocks are copied to the
//!   disk in the order of addresses, one I/O after the other. A write that would make more than
//!   70 % of the cache dirty is written through.
//! - With `promote_after` above 1 a block is put into the cache only once it was missed as often.
//!   dm-cache promotes what is used often; its multi-queue is not modelled.
//! - A flush goes to both devices, a discard to the disk.
//!
//! The two figures are the defaults of bcache (`writeback_percent`, `CUTOFF_WRITEBACK_SYNC`).
//!
//! Non-goals: the rate controller of bcache's write-back, write-back of an idle cache, the average
//! size of the I/O of each task (the model knows no tasks), the thresholds of a congested cache
//! device, and the blocks of dm-cache, which are copied as a whole. bcache evicts whole buckets;
//! here the block of 4 KiB that was used least recently goes first.

mod recent_streams;

use crate::cache_contents::{BlockRun, CacheContents};
use crate::model::{ByteRange, Completion, DiskIo, Model};
use crate::profile::ModelProfile;
use mirrorball_core::io::{IoError, Op};
use mirrorball_core::rng::Rng;
use mirrorball_core::slab::{Slab, SlabKey};
use mirrorball_core::units::{MIB, Nanos};
use recent_streams::RecentStreams;

/// Dirty share of the cache above which dirty blocks are written back.
const WRITE_BACK_SHARE: f64 = 0.1;
/// Dirty share that no write takes the cache above.
const DIRTY_SHARE_MAX: f64 = 0.7;

/// The cache in front of a member: plain data that builds it.
#[derive(Clone, Debug)]
pub struct CacheSpec {
    /// The cache device. All of its capacity is cache, and no other member uses it.
    pub device: ModelProfile,
    /// What writes do.
    pub mode: CacheMode,
    /// A stream of this many bytes or more bypasses the cache; never if zero.
    pub sequential_cutoff_bytes: u64,
    /// Number of times that a block is missed before it is put into the cache, from 1.
    pub promote_after: u32,
    /// Share of the blocks of the disk that are in the cache at the start, from 0 to 1.
    pub warm_share: f64,
}

/// What a write does with the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheMode {
    /// It is written to the disk and to the cache.
    WriteThrough,
    /// It is written to the cache, and later to the disk.
    WriteBack,
    /// It is written to the disk, and removed from the cache.
    WriteAround,
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

    /// Its name, which is that of bcache.
    pub fn name(self) -> &'static str {
        match self {
            CacheMode::WriteThrough => "writethrough",
            CacheMode::WriteBack => "writeback",
            CacheMode::WriteAround => "writearound",
        }
    }
}

/// A disk with a cache in front of it.
#[derive(Clone)]
pub(crate) struct CachedDisk {
    disk: Box<dyn Model>,
    cache: Box<dyn Model>,
    mode: CacheMode,
    promote_after: u32,
    cache_bytes: u64,
    blocks: CacheContents,
    streams: RecentStreams,
    is_writing_back: bool,
    requests: Slab<RequestKey, CachedRequest>,
    parts: Slab<PartKey, DevicePart>,
    part_completions: Vec<Completion>,
    runs: Vec<BlockRun>,
}

mirrorball_core::slab_key! {
    /// Names a request in flight.
    struct RequestKey;
}

mirrorball_core::slab_key! {
    /// Names an I/O of a device; its slot is the tag that the models of both devices see.
    struct PartKey;
}

#[derive(Clone, Copy)]
struct CachedRequest {
    io: DiskIo,
    parts_in_flight: u32,
    result: Result<(), IoError>,
    /// Whether the data are written to the cache once they are read.
    is_inserted: bool,
}

/// An I/O of one of the two devices.
#[derive(Clone, Copy)]
struct DevicePart {
    purpose: Purpose,
    device: Device,
}

/// What an I/O of a device is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// A request waits for it.
    Request(RequestKey),
    /// It writes to the cache what was read from the disk.
    Insertion,
    /// It reads dirty blocks from the cache, to write them to the disk.
    WriteBackRead(ByteRange),
    /// It writes them to the disk.
    WriteBackWrite,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Device {
    Disk,
    Cache,
}

/// Where a write goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteRoute {
    Disk,
    Cache,
    /// To both at once; it ends when both have ended.
    Both,
}

impl CachedDisk {
    /// `disk` behind an idle cache. Equal seeds give equal caches.
    pub(crate) fn new(disk: Box<dyn Model>, spec: &CacheSpec, seed: u64) -> CachedDisk {
        let mut rng = Rng::new(seed);
        let cache_bytes = spec.device.capacity_bytes;
        CachedDisk {
            disk,
            cache: spec.device.build(rng.next_u64()),
            mode: spec.mode,
            promote_after: spec.promote_after,
            cache_bytes,
            blocks: CacheContents::new(cache_bytes, spec.warm_share, rng.next_u64()),
            streams: RecentStreams::new(spec.sequential_cutoff_bytes),
            is_writing_back: false,
            requests: Slab::default(),
            parts: Slab::default(),
            part_completions: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// The I/O of the cache device for a range of the disk. Neighbours remain neighbours.
    fn on_cache(&self, io: DiskIo) -> DiskIo {
        let offset = match io.op {
            Op::Flush => io.offset,
            Op::Read | Op::Write | Op::Discard => {
                (io.offset % self.cache_bytes).min(self.cache_bytes - io.length)
            }
        };
        DiskIo { offset, ..io }
    }

    fn submit_part(&mut self, now: Nanos, io: DiskIo, device: Device, purpose: Purpose) {
        let key = self.parts.insert(DevicePart { purpose, device });
        if let Purpose::Request(request) = purpose {
            self.requests.get_mut(request).parts_in_flight += 1;
        }
        let tag = u64::from(key.slot());
        match device {
            Device::Disk => self.disk.submit(now, DiskIo { tag, ..io }),
            Device::Cache => {
                let io = self.on_cache(io);
                self.cache.submit(now, DiskIo { tag, ..io });
            }
        }
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
                WriteRoute::Disk => runs.push(whole(false)),
                WriteRoute::Cache => runs.push(whole(true)),
                WriteRoute::Both => runs.extend([whole(false), whole(true)]),
            },
        }
    }

    fn write_route(&self, io: DiskIo) -> WriteRoute {
        match self.mode {
            _ if self.bypasses(io) => WriteRoute::Disk,
            CacheMode::WriteAround => WriteRoute::Disk,
            CacheMode::WriteBack if self.blocks.dirty_share(io.length) <= DIRTY_SHARE_MAX => {
                WriteRoute::Cache
            }
            CacheMode::WriteThrough | CacheMode::WriteBack => WriteRoute::Both,
        }
    }

    /// Changes what is cached and what is remembered by a request that is cut into `runs`. Returns
    /// true if what it reads from the disk is put into the cache.
    fn note_request(&mut self, io: DiskIo, runs: &[BlockRun]) -> bool {
        let range = io.range();
        let bypasses = self.bypasses(io);
        if let Op::Read | Op::Write = io.op {
            self.streams.note(range);
        }
        match io.op {
            Op::Read => {
                for run in runs.iter().filter(|run| run.is_cached) {
                    self.blocks.touch(run.range);
                }
                let is_missed = runs.iter().any(|run| !run.is_cached);
                is_missed && !bypasses && self.blocks.note_miss(range, self.promote_after)
            }
            Op::Write => {
                match (runs.first(), runs.len()) {
                    (_, 2) => self.blocks.insert(range),
                    (Some(BlockRun { is_cached: true, .. }), _) => self.blocks.insert_dirty(range),
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

    /// Takes the end of an I/O of a device.
    fn end_part(&mut self, part: Completion, completions: &mut Vec<Completion>) {
        let key = PartKey::from_slot(part.tag as u32);
        let DevicePart { purpose, .. } = self.parts.remove(key).expect("an I/O completes once");
        match purpose {
            Purpose::Request(request) => self.end_request_part(request, part, completions),
            Purpose::Insertion => {}
            Purpose::WriteBackRead(ByteRange { offset, length }) => {
                let io = DiskIo { tag: 0, op: Op::Write, offset, length };
                self.submit_part(part.at, io, Device::Disk, Purpose::WriteBackWrite);
            }
            Purpose::WriteBackWrite => self.is_writing_back = false,
        }
        self.write_back(part.at);
    }

    fn end_request_part(
        &mut self,
        key: RequestKey,
        part: Completion,
        completions: &mut Vec<Completion>,
    ) {
        let request = self.requests.get_mut(key);
        request.parts_in_flight -= 1;
        request.result = request.result.and(part.result);
        if request.parts_in_flight > 0 {
            return;
        }
        let CachedRequest { io, result, is_inserted, .. } = *request;
        self.requests.remove(key);
        completions.push(Completion { tag: io.tag, at: part.at, result });
        if is_inserted && result.is_ok() {
            self.insert_missing(part.at, io.range());
        }
    }

    /// Writes to the cache what it lacks of a range.
    fn insert_missing(&mut self, now: Nanos, range: ByteRange) {
        let mut runs = std::mem::take(&mut self.runs);
        runs.clear();
        self.blocks.runs(range, &mut runs);
        for &BlockRun { range, .. } in runs.iter().filter(|run| !run.is_cached) {
            self.blocks.insert(range);
            let ByteRange { offset, length } = range;
            let io = DiskIo { tag: 0, op: Op::Write, offset, length };
            self.submit_part(now, io, Device::Cache, Purpose::Insertion);
        }
        self.runs = runs;
    }

    /// Starts to write back dirty blocks, if too much of the cache is dirty and none are under way.
    fn write_back(&mut self, now: Nanos) {
        if self.is_writing_back || self.blocks.dirty_share(0) <= WRITE_BACK_SHARE {
            return;
        }
        let Some(range) = self.blocks.take_dirty() else { return };
        self.is_writing_back = true;
        let ByteRange { offset, length } = range;
        let io = DiskIo { tag: 0, op: Op::Read, offset, length };
        self.submit_part(now, io, Device::Cache, Purpose::WriteBackRead(range));
    }

    /// When a device would complete these I/Os if they were submitted together.
    fn completion_of_parts(device: &dyn Model, now: Nanos, parts: &[DiskIo]) -> Nanos {
        if let [io] = *parts {
            return device.completion_if_submitted(now, io);
        }
        let mut copy = device.boxed_clone();
        parts.iter().for_each(|&io| copy.submit(now, io));
        let (mut ended, mut left, mut last) = (Vec::new(), parts.len(), now);
        while left > 0 {
            copy.advance(copy.next_event().expect("an I/O in flight is an event"), &mut ended);
            for completion in ended.drain(..) {
                if parts.iter().any(|io| io.tag == completion.tag) {
                    (left, last) = (left - 1, last.max(completion.at));
                }
            }
        }
        last
    }
}

fn device_of(run: &BlockRun) -> Device {
    if run.is_cached { Device::Cache } else { Device::Disk }
}

impl Model for CachedDisk {
    fn submit(&mut self, now: Nanos, io: DiskIo) {
        let mut runs = std::mem::take(&mut self.runs);
        self.cut(io, &mut runs);
        let is_inserted = self.note_request(io, &runs);
        let request = CachedRequest { io, parts_in_flight: 0, result: Ok(()), is_inserted };
        let key = self.requests.insert(request);
        for run in &runs {
            let ByteRange { offset, length } = run.range;
            let part = DiskIo { offset, length, ..io };
            self.submit_part(now, part, device_of(run), Purpose::Request(key));
        }
        self.runs = runs;
        self.write_back(now);
    }

    fn next_event(&self) -> Option<Nanos> {
        [self.disk.next_event(), self.cache.next_event()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        while let Some(at) = self.next_event().filter(|&at| at <= now) {
            let mut ended = std::mem::take(&mut self.part_completions);
            // The disk first: what it has read may be inserted at this instant.
            match self.disk.next_event() == Some(at) {
                true => self.disk.advance(at, &mut ended),
                false => self.cache.advance(at, &mut ended),
            }
            for part in ended.drain(..) {
                self.end_part(part, completions);
            }
            self.part_completions = ended;
        }
    }

    /// A read is cancelled where its last part can. Nothing waits in the cache itself; other
    /// requests may have reached one of two devices, so they complete.
    fn cancel(&mut self, now: Nanos, tag: u64) -> bool {
        let wanted = |&(_, request): &(RequestKey, &CachedRequest)| request.io.tag == tag;
        let Some((key, request)) = self.requests.iter().find(wanted) else { return false };
        if request.io.op != Op::Read || request.parts_in_flight > 1 {
            return false;
        }
        let is_its_part =
            |(_, part): &(PartKey, &DevicePart)| part.purpose == Purpose::Request(key);
        let Some((part, &DevicePart { device, .. })) = self.parts.iter().find(is_its_part) else {
            return false;
        };
        let tag = u64::from(part.slot());
        let is_cancelled = match device {
            Device::Disk => self.disk.cancel(now, tag),
            Device::Cache => self.cache.cancel(now, tag),
        };
        if is_cancelled {
            self.parts.remove(part);
            self.requests.remove(key);
        }
        is_cancelled
    }

    /// Exact but for what the insertions and write-backs to come delay.
    fn completion_if_submitted(&self, now: Nanos, io: DiskIo) -> Nanos {
        let mut runs = Vec::new();
        self.cut(io, &mut runs);
        let parts_of = |device: Device| -> Vec<DiskIo> {
            let of_device = runs.iter().filter(|run| device_of(run) == device).enumerate();
            let part = of_device.map(|(number, run)| {
                let ByteRange { offset, length } = run.range;
                // Tags of their own on the devices, where slots of `parts` are taken.
                DiskIo { tag: u64::MAX - number as u64, offset, length, ..io }
            });
            part.map(|part| if device == Device::Cache { self.on_cache(part) } else { part })
                .collect()
        };
        let on_disk = Self::completion_of_parts(self.disk.as_ref(), now, &parts_of(Device::Disk));
        let on_cache =
            Self::completion_of_parts(self.cache.as_ref(), now, &parts_of(Device::Cache));
        on_disk.max(on_cache)
    }

    fn cache_contents(&self) -> Option<CacheContents> {
        Some(self.blocks.clone())
    }

    fn set_cache_contents(&mut self, contents: CacheContents) {
        self.blocks = contents;
    }

    fn boxed_clone(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests;
