//! A job while its options are being applied: defaults, then `global`, then its own section.

use super::engines::{Engine, EngineDepth, EnginePath};
use super::error::job_error;
use super::group::GroupDraft;
use super::layout::FileDraft;
use super::replay::ReplayPace;
use super::replay_draft::{INEFFECTIVE, ReplayDraft, drop_ineffective};
use super::spec::{
    Access, AddressModifier, Arrivals, DepthGoal, Direction, Distribution, Flow, Mix, PerDirection,
    Section, SizeOrPercent, SizeShare, StridedZones,
};
use super::value::KbBase;
use super::{JobContext, Note};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{Nanos, SECTOR_BYTES};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub(super) job: Section,
    pub(super) kb_base: KbBase,
    pub(super) group: GroupDraft,
    pub(super) engine: Engine,
    pub(super) read_percent: u64,
    /// The trace that it replays, if any.
    pub(super) replay: ReplayDraft,
    pub(super) files: FileDraft,
    /// Whether workers submit its requests, so that a synchronous engine reaches its depth.
    pub(super) is_offloaded: bool,
    /// Whether each write is durable before it completes.
    pub(super) is_synchronous: bool,
    pub(super) verify: Verify,
    pub(super) zones: ZoneDraft,
    pub(super) repeats_address: bool,
    /// Whether pauses count requests that are issued; fio counts those that have ended.
    pub(super) thinks_by_issue: bool,
    /// Whether random addresses come from a shift register, which visits each block once.
    pub(super) is_lfsr: bool,
    /// Whether a sequence of blocks moves on after each turn.
    pub(super) strides: bool,
    /// Ranges of a discard.
    pub(super) ranges: u64,
    /// Sizes of `bssplit` and `bsrange`, which go before `bs`.
    pub(super) listed_sizes: PerDirection<Option<Vec<SizeShare>>>,
    /// The file and the line of each option that is set, by the first name in its row.
    pub(super) places: BTreeMap<&'static str, (String, usize)>,
}

/// Verification of data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Verify {
    pub(super) is_on: bool,
    pub(super) is_only: bool,
    /// Whether fio reads nothing back.
    pub(super) is_write_only: bool,
}

/// Zones that are visited in turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ZoneDraft {
    pub(super) is_strided: bool,
    pub(super) size_bytes: u64,
    pub(super) range_bytes: u64,
    pub(super) skip_bytes: u64,
}

pub(super) struct Finished {
    pub(super) job: Section,
    pub(super) files: FileDraft,
    pub(super) notes: Vec<Note>,
}

impl Draft {
    /// fio's own defaults.
    pub(super) fn new() -> Draft {
        let sizes = vec![SizeShare { bytes: 4096, weight: 100 }];
        let job = Section {
            sizes: PerDirection([sizes.clone(), sizes.clone(), sizes]),
            random_percent: PerDirection([100; 3]),
            file_ios: 1,
            loops: 1,
            depth: 1,
            clones: 1,
            think_ios: 1,
            random_map: true,
            random_repeat: true,
            counts: true,
            ..Section::default()
        };
        Draft { job, read_percent: 50, ..Draft::default() }
    }

    /// The flow that it is in; its weight is zero if it is in none.
    pub(super) fn flow(&mut self) -> &mut Flow {
        self.job.flow.get_or_insert_default()
    }

    /// The goal for its depth; its latency is zero if there is none.
    pub(super) fn goal(&mut self) -> &mut DepthGoal {
        let none = DepthGoal { percentile: 100.0, ..DepthGoal::default() };
        self.job.depth_goal.get_or_insert(none)
    }

    /// The finished job, at its place in the file, with what the user should know of it.
    pub(super) fn finish(
        mut self,
        index: usize,
        group: usize,
        line: usize,
        context: &JobContext<'_>,
    ) -> Result<Finished, Diagnostic> {
        (self.job.index, self.job.group, self.job.line) = (index, group, line);
        if let Mix::ReadWrite { .. } = self.job.mix {
            self.job.mix = Mix::ReadWrite { read_percent: self.read_percent };
        }
        if self.job.arrivals == Arrivals::Poisson && !self.job.has_rate() {
            let message = format!("job `{}` has rate_process=poisson but no rate", self.job.name);
            let fault = job_error(message, "add a rate, for example rate_iops=200");
            return Err(self.at("rate_process", fault));
        }
        let has_both =
            |it| self.job.rate_bytes_per_s[it].and(self.job.rate_ios_per_s[it]).is_some();
        if [Direction::Read, Direction::Write, Direction::Trim].into_iter().any(has_both) {
            let message =
                format!("job `{}` has a rate in bytes and one in requests", self.job.name);
            let fault = job_error(message, "remove rate= or rate_iops=: fio refuses both");
            return Err(self.at("rate_iops", fault));
        }
        for (sizes, listed) in self.job.sizes.0.iter_mut().zip(&mut self.listed_sizes.0) {
            *sizes = listed.take().unwrap_or_else(|| std::mem::take(sizes));
        }
        let mut notes = Vec::new();
        self.finish_verify(&mut notes);
        self.finish_order()?;
        self.finish_time_and_depth(&mut notes);
        self.finish_pace(&mut notes)?;
        let has_depth = self.places.contains_key("iodepth");
        self.finish_generator(&mut notes)?;
        self.note_sizes(&mut notes);
        if self.replay.path.is_some() && self.job.think_time > Nanos::ZERO {
            let message = "`thinktime` cannot be combined with read_iolog";
            let help = "write `; mirrorball: replay=think`, or remove it";
            return Err(self.at("thinktime", job_error(message, help)));
        }
        let replay = std::mem::take(&mut self.replay);
        let finished = replay.finish(&mut self.job, has_depth, context);
        finished.map_err(|fault| self.at("read_iolog", fault))?;
        self.finish_path(&mut notes);
        self.files.is_device |= self.engine.path == EnginePath::Device;
        self.files.is_volume =
            self.job.replay.is_some() || self.job.file.is_some_and(|file| !file.is_raw());
        self.files.passes_end_with_file =
            self.engine.depth == EngineDepth::One && !self.is_offloaded;
        let notes = notes.into_iter().filter_map(|(option, reason)| {
            let (file, line) = self.places.get(option)?.clone();
            Some(Note { file, line, option: option.to_owned(), reason })
        });
        let notes = notes.collect();
        Ok(Finished { job: self.job, files: self.files, notes })
    }

    /// An error at the line of an option, if it is set.
    fn at(&self, option: &str, fault: Diagnostic) -> Diagnostic {
        match self.places.get(option) {
            Some((file, line)) => fault.in_file(file).at_line(*line),
            None => fault,
        }
    }

    fn finish_verify(&mut self, notes: &mut Notes) {
        let writes = self.job.mix.directions().contains(&Direction::Write);
        if self.verify.is_only && writes {
            self.job.mix = Mix::Only(Direction::Read);
            notes.push(("verify_only", "the data are read, and not checked".to_owned()));
        } else if self.verify.is_on && writes && !self.verify.is_write_only {
            let reason = "the reads that check the data after the writes are left out; \
                          do_verify=0 leaves them out of fio too";
            notes.push(("verify", reason.to_owned()));
        }
    }

    /// Settles the order of addresses: what a number after `rw` means, and zones.
    fn finish_order(&mut self) -> Result<(), Diagnostic> {
        let is_random = self.job.access == Access::Random;
        self.job.modifier = match self.job.modifier {
            AddressModifier::Skip(length) if is_random => {
                let length = u64::try_from(length).unwrap_or(1).max(1);
                let is_identical = self.repeats_address;
                if length == 1 {
                    AddressModifier::None
                } else {
                    AddressModifier::Runs { length, is_identical }
                }
            }
            AddressModifier::Skip(0) => AddressModifier::None,
            modifier => modifier,
        };
        if let Distribution::Sequence { strides, .. } = &mut self.job.distribution {
            *strides = self.strides;
        }
        if !is_random {
            self.job.align_bytes = PerDirection::default();
        }
        // The smallest size is the default: only another alignment leaves the map out.
        for (align, sizes) in self.job.align_bytes.0.iter_mut().zip(&self.job.sizes.0) {
            *align = align.filter(|it| sizes.iter().map(|size| size.bytes).min() != Some(*it));
        }
        if self.job.align_bytes.0.iter().any(Option::is_some) {
            self.job.random_map = false;
        }
        self.finish_zones()
    }

    fn finish_zones(&mut self) -> Result<(), Diagnostic> {
        let ZoneDraft { is_strided, size_bytes, range_bytes, skip_bytes } = self.zones;
        match (is_strided, size_bytes > 0) {
            (true, true) => {}
            (false, false) => return Ok(()),
            (false, true) => {
                let message = "`zonesize` without zonemode=strided: fio refuses it";
                let fault = job_error(message, "write zonemode=strided, or remove zonesize");
                return Err(self.at("zonesize", fault));
            }
            (true, false) => {
                let message = "zonemode=strided without `zonesize`: fio refuses it";
                let fault = job_error(message, "write zonesize, the bytes to request of a zone");
                return Err(self.at("zonemode", fault));
            }
        }
        if self.job.mix == Mix::TrimWrite {
            let message = "trimwrite in strided zones: fio may move to the next zone between a \
                           discard and its write";
            let help = "remove zonesize, or write one section that trims and one that writes";
            return Err(self.at("zonesize", job_error(message, help)));
        }
        let range_bytes = if range_bytes == 0 { size_bytes } else { range_bytes };
        let blocks = self.job.mix.directions().iter().flat_map(|&d| &self.job.sizes[d]);
        if blocks.map(|size| size.bytes).max().is_some_and(|bytes| bytes > range_bytes) {
            let help = "make zonerange as large as a block";
            let option = if self.zones.range_bytes == 0 { "zonesize" } else { "zonerange" };
            return Err(self.at(option, job_error("a zone is smaller than a block", help)));
        }
        self.job.zones = Some(StridedZones { size_bytes, range_bytes, skip_bytes });
        Ok(())
    }

    /// A shift register visits each block once, with a map and without. Only random addresses come
    /// from it.
    fn finish_generator(&mut self, notes: &mut Notes) -> Result<(), Diagnostic> {
        let is_random = self.job.access == Access::Random && self.replay.path.is_none();
        if !self.is_lfsr || !is_random {
            return Ok(());
        }
        if matches!(self.job.distribution, Distribution::Zoned(_)) {
            let message =
                "random_generator=lfsr with zones: fio ends such a job after a few requests";
            return Err(self.at("random_generator", job_error(message, "remove random_generator")));
        }
        self.job.random_map = true;
        let sizes = self.job.mix.directions().iter().flat_map(|&d| &self.job.sizes[d]);
        let sizes: BTreeSet<u64> = sizes.map(|size| size.bytes).collect();
        if sizes.len() > 1 || self.job.align_bytes.0.iter().any(Option::is_some) {
            let reason = "each block is requested once; with blocks of several sizes or aligned \
                          ones fio 3.33 ends such a job early, some without a request";
            notes.push(("random_generator", reason.to_owned()));
        }
        Ok(())
    }

    fn finish_time_and_depth(&mut self, notes: &mut Notes) {
        let job = &mut self.job;
        if job.time_based && job.runtime.is_none() {
            job.time_based = false;
            let reason = "has no effect without runtime, as in fio: the job ends with its size";
            notes.push(("time_based", reason.to_owned()));
        }
        let name = self.files.names.as_deref();
        let keeps_depth = self.is_offloaded || self.engine.has_depth(job.direct, name);
        if !self.thinks_by_issue && !self.is_offloaded {
            job.think_lag = self.engine.uncounted(job.depth, keeps_depth);
        }
        if job.depth > 1 && !keeps_depth {
            let why = match self.engine.depth {
                EngineDepth::DirectOnly => "libaio without direct=1",
                EngineDepth::CharacterDevice => "sg on a block device",
                _ => "a synchronous ioengine (psync unless another is set)",
            };
            let reason =
                format!("has the effect of 1, as in fio: {why} keeps one request in flight");
            notes.push(("iodepth", reason));
            job.depth = 1;
        }
    }

    /// Settles pauses, flows and goals, and discards of several ranges.
    fn finish_pace(&mut self, notes: &mut Notes) -> Result<(), Diagnostic> {
        let job = &mut self.job;
        job.flow = job.flow.filter(|flow| flow.weight > 0);
        if self.replay.path.is_some() {
            let reason = "has no effect: the trace decides when requests are issued";
            drop_ineffective(job);
            notes.extend(INEFFECTIVE.map(|option| (option, reason.to_owned())));
        }
        if job.think_time == Nanos::ZERO {
            job.think_lag = 0;
        } else if self.is_offloaded && !self.thinks_by_issue && job.depth > 1 {
            let reason = "counts requests when they are issued; with io_submit_mode=offload fio \
                          counts them when its threads are idle, and may make more between pauses";
            notes.push(("thinktime", reason.to_owned()));
        }
        job.depth_goal = job.depth_goal.filter(|goal| goal.latency > Nanos::ZERO);
        if job.depth_goal.is_some() && job.clones > 1 {
            let clones = job.clones;
            let message = format!(
                "`latency_target` with numjobs={clones}: the clones of a job have one result, \
                 which each would restart"
            );
            let fault = job_error(message, "write a section for each clone");
            return Err(self.at("latency_target", fault));
        }
        match (job.mix, self.ranges) {
            (_, 0 | 1) => {}
            (Mix::TrimWrite, _) => {
                let fault = job_error("num_range with rw=trimwrite: fio refuses it", "remove it");
                return Err(self.at("num_range", fault));
            }
            (Mix::Only(Direction::Trim), ranges) => {
                job.depth = job.depth.saturating_mul(ranges as u32);
                job.number_ios = job.number_ios.map(|ios| ios.saturating_mul(ranges));
                let reason = "each range is a discard of its own, and iodepth counts them";
                notes.push(("num_range", reason.to_owned()));
            }
            _ => {}
        }
        Ok(())
    }

    /// Settles the way of the requests to the volume: page cache and flushes.
    fn finish_path(&mut self, notes: &mut Notes) {
        let job = &mut self.job;
        let writes = job.mix.directions().contains(&Direction::Write);
        let is_synchronous = self.is_synchronous && job.replay.is_none();
        let flushes = [("fsync", job.fsync), ("fdatasync", job.fdatasync)];
        for (option, _) in flushes.into_iter().filter(|(_, every)| *every > 0) {
            let reason = match job.mix {
                Mix::ReadWrite { .. } => {
                    "flushes follow writes only, as in fio 3.38; older versions of fio flush also \
                     after each read behind such a write"
                }
                Mix::TrimWrite => {
                    "flushes follow writes, as in fio 3.42; fio 3.33 makes none among discards"
                }
                Mix::Only(_) => continue,
            };
            notes.push((option, reason.to_owned()));
        }
        if self.engine.path == EnginePath::Nowhere {
            let reason = "the disks serve each request; under fio it ends at once, without I/O";
            notes.push(("ioengine", reason.to_owned()));
        }
        if self.engine.path == EnginePath::PageCacheOnly && std::mem::take(&mut job.direct) {
            let reason = "has no effect: mmap always goes through the page cache";
            notes.push(("direct", reason.to_owned()));
        }
        if !self.engine.has_page_cache() {
            job.direct = true;
        } else if !job.direct && writes && !is_synchronous {
            let reason = "writes without direct=1 are not collected in a page cache: each waits \
                          for the disks";
            let option = if job.replay.is_some() { "read_iolog" } else { "rw" };
            notes.push((option, reason.to_owned()));
        }
        if let Some(replay) = &job.replay {
            notes.extend(replay.merged().map(|reason| ("read_iolog", reason)));
            if replay.pace == ReplayPace::Closed {
                let reason = "has no effect: a closed replay does not keep the times of the trace";
                notes.push(("replay_time_scale", reason.to_owned()));
            }
        }
        if is_synchronous && writes {
            for (option, every) in flushes {
                if every > 0 {
                    notes.push((option, "has no effect: each write is durable".to_owned()));
                }
            }
            (job.fsync, job.fdatasync) = (1, 0);
            let reason = "a flush follows each write";
            notes.push(("sync", reason.to_owned()));
        }
    }

    /// Notes sizes and offsets that are not whole sectors.
    fn note_sizes(&self, notes: &mut Notes) {
        let job = &self.job;
        if self.replay.path.is_some() {
            return;
        }
        let sizes = job.mix.directions().iter().flat_map(|&d| &job.sizes[d]);
        let is_odd = |bytes: u64| !bytes.is_multiple_of(SECTOR_BYTES);
        let reason = format!(
            "requests are widened to whole sectors of {SECTOR_BYTES} bytes, so more bytes are \
             transferred than under fio"
        );
        let by_size = ["bssplit", "bsrange", "bs"];
        let by_size = by_size.into_iter().find(|option| self.places.contains_key(option));
        let least = |direction: &Direction| job.block_bytes(*direction);
        let used = job.mix.directions().iter().map(least).max();
        let is_mapped = job.access == Access::Random && job.random_map;
        let is_mapped = is_mapped && !self.is_lfsr && !job.time_based;
        let all = [Direction::Read, Direction::Write, Direction::Trim].iter().map(least).min();
        if is_mapped && job.distribution == Distribution::Uniform && used > all {
            let reason = "as under fio, the job may end early, at a block that is drawn: its map \
                          has blocks of the smallest size of any direction. norandommap leaves the \
                          map out";
            notes.extend(by_size.map(|option| (option, reason.to_owned())));
        }
        if sizes.clone().any(|size| is_odd(size.bytes)) {
            notes.extend(by_size.map(|option| (option, reason)));
        } else if matches!(job.offset, SizeOrPercent::Bytes(bytes) if is_odd(bytes)) {
            notes.push(("offset", reason));
        }
    }
}

/// Options with what the user should know of their effect.
type Notes = Vec<(&'static str, String)>;
