//! Who takes part in a run: the clones of its jobs, and the work beside them.
//!
//! Jobs work in the part of the volume behind the older data. Defrag reads the older data, or the
//! third quarter of a volume that holds none, and writes to the far half of what is free.

use crate::background::{Defrag, Pace, Rebuild, Scrub};
use crate::client::Client;
use crate::engine::Run;
use crate::job::{Background, BackgroundKind, Job};
use crate::program::{Buffered, Direct};
use crate::readahead;
use crate::workload::{Placement, Workload};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::member::{MemberIndex, MemberState, Members};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::{GIB, Nanos};
use mirrorball_core::volume::Volume;

/// A client and what the volume is told of it.
pub(crate) struct Seat {
    pub(crate) client: Box<dyn Client>,
    /// The job it is a clone of; background work is of none, and a clone that ended of none more.
    pub(crate) job: Option<usize>,
    /// What a kernel would know as the pid.
    pub(crate) stream: u64,
    pub(crate) cpu: u32,
    /// Added to the offsets of its orders on the volume.
    pub(crate) base: u64,
    pub(crate) in_flight: u32,
    pub(crate) wakes_at: Option<Nanos>,
    pub(crate) ended: bool,
}

/// The stream of the first clone of a run: far from zero, so that nobody takes a stream for an
/// index. Its parity is a coin toss, as that of a process id is; the other clones count on from it.
pub fn first_stream(seed: u64) -> u64 {
    1000 + Rng::stream(seed, "streams").below(30_000)
}

/// Makes the seats of a run.
pub(crate) struct Seating<'a> {
    run: &'a Run<'a>,
    volume: &'a Volume,
    used_bytes: u64,
}

impl<'a> Seating<'a> {
    pub(crate) fn new(run: &'a Run<'a>, volume: &'a Volume) -> Seating<'a> {
        let used_bytes = run.array.used_bytes(volume.capacity_bytes());
        Seating { run, volume, used_bytes }
    }

    /// The clones of a job that starts now.
    pub(crate) fn clones(&self, job: &Job, now: Nanos) -> Vec<Seat> {
        let mut job = job.clone();
        if let Some(duration) = self.run.duration {
            job.runtime = Some(duration);
            job.time_based = true;
        }
        let before: u32 = self.run.jobs.jobs[..job.index].iter().map(|job| job.clones).sum();
        let first_stream = first_stream(self.run.seed);
        let seat = |clone| {
            let number = before + clone;
            let stream = first_stream + u64::from(number);
            let mut seat = self.seat(self.clone_of(&job, clone, now), stream, number);
            seat.job = Some(job.index);
            seat.base = self.used_bytes;
            seat
        };
        (0..job.clones).map(seat).collect()
    }

    /// The work beside the jobs.
    pub(crate) fn background(&self) -> Result<Vec<Seat>, Diagnostic> {
        // Processes of their own: next to the jobs' streams, a single job and its background would
        // always have different parities, and `btrfs/pid` would keep them apart by luck.
        let mut rng = Rng::stream(self.run.seed, "background streams");
        let work = self.run.jobs.background.iter().enumerate();
        work.map(|(number, work)| {
            let stream = 40_000 + rng.below(20_000);
            Ok(self.seat(self.worker(work)?, stream, number as u32))
        })
        .collect()
    }

    fn seat(&self, client: Box<dyn Client>, stream: u64, number: u32) -> Seat {
        Seat {
            client,
            job: None,
            stream,
            cpu: number % self.run.array.host.cpus,
            base: 0,
            in_flight: 0,
            wakes_at: None,
            ended: false,
        }
    }

    fn clone_of(&self, job: &Job, clone: u32, now: Nanos) -> Box<dyn Client> {
        let free_bytes = self.volume.capacity_bytes() - self.used_bytes;
        let seed = self.run.seed;
        let placement = Placement { clone, volume_bytes: free_bytes, group_start: now, seed };
        let workload = Workload::new(job, placement);
        if job.direct {
            return Box::new(Direct::new(workload, job.depth));
        }
        let region = job.region(clone, free_bytes);
        let file = readahead::Run { offset: region.offset, length: region.bytes };
        let read_ahead_kib = self.run.array.host.read_ahead_kb;
        Box::new(Buffered::new(workload, job.depth, read_ahead_kib, file))
    }

    fn worker(&self, work: &Background) -> Result<Box<dyn Client>, Diagnostic> {
        let pace = Pace::new(work.rate_bytes_per_s);
        Ok(match work.kind {
            BackgroundKind::Scrub => Box::new(Scrub::new(self.volume.capacity_bytes(), pace)),
            BackgroundKind::Defrag => {
                let (source, target) = self.defrag_runs();
                if target.length < GIB || source.length < GIB {
                    let message = "the volume is too small for a defrag beside the jobs".to_owned();
                    return Err(self.misfit(work, message, "use members of 16 GiB or more"));
                }
                Box::new(Defrag::new(source, target, pace, self.run.seed))
            }
            BackgroundKind::Rebuild => {
                let (member, stale) = self.rebuilding(work)?;
                Box::new(Rebuild::new(member, stale, pace))
            }
        })
    }

    fn defrag_runs(&self) -> (readahead::Run, readahead::Run) {
        let capacity = self.volume.capacity_bytes();
        let run = |offset, end| readahead::Run { offset, length: end - offset };
        let half = self.used_bytes + (capacity - self.used_bytes) / 2;
        if self.used_bytes > 0 {
            return (run(0, self.used_bytes), run(half, capacity));
        }
        let three_quarters = half + (capacity - half) / 2;
        (run(half, three_quarters), run(three_quarters, capacity))
    }

    fn rebuilding(&self, work: &Background) -> Result<(MemberIndex, readahead::Run), Diagnostic> {
        let wanted = |devid| work.devid.is_none_or(|wanted| wanted == devid);
        let last = stale_runs(self.volume.members()).filter(|&(_, devid, _)| wanted(devid)).last();
        let Some((member, _, stale)) = last else {
            let which = work
                .devid
                .map_or("no member".to_owned(), |devid| format!("no member with devid {devid}"));
            let message = format!("a rebuild, but {which} of the array is being rebuilt");
            return Err(self.misfit(work, message, "give a member `rebuilding = \"0\"`"));
        };
        Ok((member, stale))
    }

    fn misfit(&self, work: &Background, message: String, help: &str) -> Diagnostic {
        Diagnostic::new(message).with_help(help).in_file(&self.run.jobs.file).at_line(work.line)
    }
}

/// Each member that is being rebuilt, with its devid and what of it is stale.
fn stale_runs(members: &Members) -> impl Iterator<Item = (MemberIndex, u64, readahead::Run)> {
    members.iter().filter_map(|(index, member)| {
        let MemberState::Rebuilding { recovered_bytes } = member.state else {
            return None;
        };
        let length = member.config.size_bytes.saturating_sub(recovered_bytes);
        let stale = readahead::Run { offset: recovered_bytes, length };
        Some((index, member.config.devid, stale))
    })
}
