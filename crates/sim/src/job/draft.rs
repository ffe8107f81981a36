//! A job while its options are being applied: defaults, then `global`, then its own section.

use super::error::job_error;
use super::replay_draft::ReplayDraft;
use super::spec::{
    Access, Arrivals, Direction, Distribution, Mix, PerDirection, Section, SizeOrPercent, SizeShare,
};
use super::value::KbBase;
use super::{JobContext, Note};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::Nanos;

/// The option that says how many requests are in flight.
pub(super) const DEPTH: &str = "iodepth";

/// Whether an I/O engine of fio keeps `iodepth` requests in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Engine {
    /// One: each request is a call that returns when it is done.
    Synchronous,
    /// As many as asked with `direct=1`; without, submission itself reads and waits.
    AsynchronousIfDirect,
    /// As many as asked.
    Asynchronous,
}

/// A job in the making.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) job: Section,
    pub(super) kb_base: KbBase,
    pub(super) stonewall: bool,
    pub(super) engine: Engine,
    pub(super) read_percent: u64,
    /// The trace that it replays, if any.
    pub(super) replay: ReplayDraft,
    /// The file and the line that set the depth, if one did.
    pub(super) depth_from: Option<(String, usize)>,
}

/// fio's own defaults.
impl Default for Draft {
    fn default() -> Draft {
        let sizes = vec![SizeShare { bytes: 4096, percent: 100 }];
        let job = Section {
            name: String::new(),
            line: 0,
            index: 0,
            group: 0,
            description: None,
            filename: None,
            mix: Mix::Only(Direction::Read),
            access: Access::Sequential,
            sizes: PerDirection([sizes.clone(), sizes.clone(), sizes]),
            size: None,
            offset: SizeOrPercent::Bytes(0),
            offset_increment: SizeOrPercent::Bytes(0),
            io_bytes: None,
            number_ios: None,
            loops: 1,
            depth: 1,
            clones: 1,
            runtime: None,
            time_based: false,
            ramp: Nanos::ZERO,
            start_delay: Nanos::ZERO,
            random_percent: PerDirection([100; 3]),
            distribution: Distribution::Uniform,
            random_map: true,
            random_seed: None,
            random_repeat: true,
            rate_bytes_per_s: PerDirection([None; 3]),
            rate_ios_per_s: PerDirection([None; 3]),
            arrivals: Arrivals::Linear,
            think_time: Nanos::ZERO,
            think_ios: 1,
            direct: false,
            fsync: 0,
            fdatasync: 0,
            final_flush: false,
            counts: true,
            group_reporting: false,
            replay: None,
            file: None,
        };
        let (kb_base, engine) = (KbBase(1024), Engine::Synchronous);
        Draft {
            job,
            kb_base,
            stonewall: false,
            engine,
            read_percent: 50,
            replay: ReplayDraft::default(),
            depth_from: None,
        }
    }
}

impl Draft {
    /// The finished job, at its place in the file, with what the user should know of it.
    pub(super) fn finish(
        self,
        index: usize,
        group: usize,
        line: usize,
        context: &JobContext<'_>,
    ) -> Result<(Section, Option<Note>), Diagnostic> {
        let (mut job, mut note) = (self.job, None);
        let depth_is_set = self.depth_from.is_some();
        (job.index, job.group, job.line) = (index, group, line);
        if let Mix::ReadWrite { .. } = job.mix {
            job.mix = Mix::ReadWrite { read_percent: self.read_percent };
        }
        if job.time_based && job.runtime.is_none() {
            let message = format!("job `{}` has time_based but no runtime", job.name);
            return Err(job_error(message, "add a time limit, for example runtime=60"));
        }
        if job.arrivals == Arrivals::Poisson && !job.has_rate() {
            let message = format!("job `{}` has rate_process=poisson but no rate", job.name);
            return Err(job_error(message, "add a rate, for example rate_iops=200"));
        }
        if job.depth > 1 && !self.engine.keeps_depth(job.direct) {
            let why = match self.engine {
                Engine::AsynchronousIfDirect => "libaio without direct=1",
                _ => "a synchronous ioengine (psync unless another is set)",
            };
            let (file, line) = self.depth_from.expect("the default depth is 1");
            let reason =
                format!("has the effect of 1, as in fio: {why} keeps one request in flight");
            note = Some(Note { file, line, option: DEPTH.to_owned(), reason });
            job.depth = 1;
        }
        self.replay.finish(&mut job, depth_is_set, context)?;
        Ok((job, note))
    }
}

impl Engine {
    fn keeps_depth(self, direct: bool) -> bool {
        match self {
            Engine::Synchronous => false,
            Engine::AsynchronousIfDirect => direct,
            Engine::Asynchronous => true,
        }
    }
}
