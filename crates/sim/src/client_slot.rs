//! The clients of a run: clones of job sections, and background work.
//!
//! Sections work on the part of the volume behind the array's older data. Defrag reads the older
//! data, or the third quarter of a volume without any, and writes to the second half of the free
//! part.

use crate::background::{Defrag, RateLimit, RebuildClient, ScrubClient};
use crate::client::Client;
use crate::file_client::{FileClient, make_file};
use crate::job::{Background, BackgroundKind, Rebuilder, Section};
use crate::job_client::{BufferedClient, RequestSource, RequestStream};
use crate::read_ahead::IoRange;
use crate::simulation::Simulation;
use crate::workload::{CloneSpec, Flows, ReplayStream, Workload};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::member::{MemberIndex, MemberState, Members};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::{GIB, Nanos, SECTOR_BYTES};
use mirrorball_core::volume::Volume;

/// A client with its state in the engine.
pub(crate) struct ClientSlot {
    pub(crate) client: Box<dyn Client>,
    pub(crate) depth: u32,
    /// Index of the section it is a clone of; `None` for background work, and for a clone that has
    /// ended.
    pub(crate) section: Option<usize>,
    /// Stream id of its requests: what a kernel would see as the pid.
    pub(crate) stream: u64,
    pub(crate) cpu: u32,
    /// Random stream of the host overhead of its requests.
    pub(crate) overhead_rng: Rng,
    /// Added to the offsets of its requests on the volume.
    pub(crate) base: u64,
    pub(crate) in_flight: u32,
    pub(crate) wakes_at: Option<Nanos>,
    pub(crate) ended: bool,
}

/// Fails with the error of the first client that ended with one.
pub(crate) fn check(slots: &mut [ClientSlot]) -> Result<(), Diagnostic> {
    slots.iter_mut().find_map(|slot| slot.client.take_error()).map_or(Ok(()), Err)
}

/// The stream id of the first clone of a run; the other clones count on from it. It is at least
/// 1000, so that it is never mistaken for an index, and its parity is random, as that of a process
/// id is.
pub fn first_stream(seed: u64) -> u64 {
    1000 + Rng::stream(seed, "streams").below(30_000)
}

/// Builds the clients of a run.
pub(crate) struct ClientFactory<'a> {
    run: &'a Simulation<'a>,
    volume: &'a Volume,
    used_bytes: u64,
    /// The seed of this run within a series of runs.
    seed_in_series: u64,
}

impl<'a> ClientFactory<'a> {
    /// `seed_in_series` is the seed of the run, unless it follows others on the same array.
    pub(crate) fn new(
        run: &'a Simulation<'a>,
        volume: &'a Volume,
        seed_in_series: u64,
    ) -> ClientFactory<'a> {
        let used_bytes = run.array.used_bytes(volume.capacity_bytes());
        ClientFactory { run, volume, used_bytes, seed_in_series }
    }

    /// The clones of a section that starts at `now`.
    pub(crate) fn clones(
        &self,
        section: &Section,
        now: Nanos,
        flows: &Flows,
    ) -> Result<Vec<ClientSlot>, Diagnostic> {
        let earlier = &self.run.job.sections[..section.index];
        let before: u32 = earlier.iter().map(|section| section.clones).sum();
        let first_stream = first_stream(self.run.seed);
        let slot = |clone| {
            let number = before + clone;
            let stream = first_stream + u64::from(number);
            let client = self.clone_of(section, clone, now, flows)?;
            let mut slot = self.slot(client, stream, "clone", number);
            slot.section = Some(section.index);
            slot.base = self.used_bytes;
            Ok(slot)
        };
        (0..section.clones).map(slot).collect()
    }

    pub(crate) fn background(&self) -> Result<Vec<ClientSlot>, Diagnostic> {
        // Background work gets stream ids of its own. If they followed the sections' ids, a single
        // clone and its background would always differ in parity, and `btrfs/pid` would always
        // keep them on different members.
        let mut rng = Rng::stream(self.run.seed, "background streams");
        let work = self.run.job.background.iter().enumerate();
        work.map(|(number, work)| {
            let stream = 40_000 + rng.below(20_000);
            Ok(self.slot(self.worker(work)?, stream, "background", number as u32))
        })
        .collect()
    }

    /// `kind` and `number` together name the client, whatever else runs.
    fn slot(&self, client: Box<dyn Client>, stream: u64, kind: &str, number: u32) -> ClientSlot {
        ClientSlot {
            overhead_rng: Rng::stream(self.run.seed, &format!("host {kind} {number}")),
            depth: client.depth(),
            client,
            section: None,
            stream,
            cpu: number % self.run.array.host.cpus,
            base: 0,
            in_flight: 0,
            wakes_at: None,
            ended: false,
        }
    }

    fn clone_of(
        &self,
        section: &Section,
        clone: u32,
        now: Nanos,
        flows: &Flows,
    ) -> Result<Box<dyn Client>, Diagnostic> {
        let free_bytes = self.volume.capacity_bytes() - self.used_bytes;
        let seed = if section.random_repeat { self.run.seed } else { self.seed_in_series };
        let clone_spec = CloneSpec { clone, volume_bytes: free_bytes, group_start: now, seed };
        let source = match &section.replay {
            None => {
                let workload = Workload::new(section, clone_spec).in_flow(section, flows);
                RequestSource::Generated(Box::new(workload))
            }
            Some(replay) => {
                let stream = ReplayStream::new(section, replay, clone_spec)?;
                RequestSource::Replayed(Box::new(stream))
            }
        };
        let exclusive = section.file.is_some_and(|file| file.is_exclusive);
        let depth = if exclusive { 1 } else { section.depth };
        let requests = RequestStream::new(source, depth, section, now);
        if let Some(file) = section.file.filter(|file| !file.is_raw()) {
            let region = section.regions(clone, free_bytes)[0].region;
            let made = make_file(&file, free_bytes, region.offset + region.bytes);
            let at_line =
                |error: Diagnostic| error.in_file(&self.run.job.file).at_line(section.line);
            return Ok(Box::new(FileClient::new(requests, made.map_err(at_line)?)));
        }
        if section.direct {
            return Ok(Box::new(requests));
        }
        let regions = section.regions(clone, free_bytes).into_iter();
        // The kernel reads the rest of a file's last page, too.
        let pages = |bytes: u64| bytes.next_multiple_of(SECTOR_BYTES);
        let files = regions
            .map(|it| IoRange { offset: it.container.offset, length: pages(it.container.bytes) });
        let read_ahead_kib = self.run.array.host.read_ahead_kb;
        Ok(Box::new(BufferedClient::new(requests, read_ahead_kib, files.collect())))
    }

    fn worker(&self, work: &Background) -> Result<Box<dyn Client>, Diagnostic> {
        let rate_limit = RateLimit::new(work.rate_bytes_per_s);
        Ok(match work.kind {
            BackgroundKind::Scrub => {
                let share = work.from_percent.unwrap_or(0);
                Box::new(ScrubClient::new(self.volume.map(), share, rate_limit))
            }
            BackgroundKind::Defrag => {
                let (source, target) = self.defrag_ranges();
                if target.length < GIB || source.length < GIB {
                    let message = "the volume is too small for `background=defrag`".to_owned();
                    return Err(self.misfit(work, message, "use members of 16 GiB or more"));
                }
                Box::new(Defrag::new(source, target, rate_limit, self.seed_in_series))
            }
            BackgroundKind::Rebuild => {
                let (member, stale) = self.rebuild_target(work)?;
                let rebuilder = work.rebuilder.unwrap_or(Rebuilder::Gmirror);
                let rate = work.rate_bytes_per_s;
                Box::new(RebuildClient::new(member, stale, rebuilder, rate))
            }
        })
    }

    fn defrag_ranges(&self) -> (IoRange, IoRange) {
        let capacity = self.volume.capacity_bytes();
        let range = |offset, end| IoRange { offset, length: end - offset };
        let half = self.used_bytes + (capacity - self.used_bytes) / 2;
        if self.used_bytes > 0 {
            return (range(0, self.used_bytes), range(half, capacity));
        }
        let three_quarters = half + (capacity - half) / 2;
        (range(half, three_quarters), range(three_quarters, capacity))
    }

    /// The member that `work` rebuilds, and its stale range.
    fn rebuild_target(&self, work: &Background) -> Result<(MemberIndex, IoRange), Diagnostic> {
        let wanted = |devid| work.devid.is_none_or(|wanted| wanted == devid);
        let stale = stale_ranges(self.volume.members());
        let Some((member, _, stale)) = stale.filter(|&(_, devid, _)| wanted(devid)).last() else {
            let which = work
                .devid
                .map_or("no member".to_owned(), |devid| format!("no member with devid {devid}"));
            let message = format!("`background=rebuild`, but {which} of the array is rebuilding");
            return Err(self.misfit(work, message, "give a member `rebuilding = \"0\"`"));
        };
        Ok((member, stale))
    }

    fn misfit(&self, work: &Background, message: String, help: &str) -> Diagnostic {
        Diagnostic::new(message).with_help(help).in_file(&self.run.job.file).at_line(work.line)
    }
}

/// Each rebuilding member, with its devid and its stale range.
fn stale_ranges(members: &Members) -> impl Iterator<Item = (MemberIndex, u64, IoRange)> {
    members.iter().filter_map(|(index, member)| {
        let MemberState::Rebuilding { recovered_bytes } = member.state else {
            return None;
        };
        let length = member.config.size_bytes.saturating_sub(recovered_bytes);
        Some((index, member.config.devid, IoRange { offset: recovered_bytes, length }))
    })
}
