//! The live picture: one run for each policy, with the same requests, and what is done to the array
//! meanwhile.

use anyhow::{Context, Result};
use mirrorball_core::io::Op;
use mirrorball_core::member::MemberIndex;
use mirrorball_core::policies::Spec;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::{ArrayFile, ArraySpec, MemberSource};
use mirrorball_lab::experiment::inputs::job_of_text;
use mirrorball_sim::engine::{LoggedIo, Step, WatchedRun};
use serde::Deserialize;
use serde_json::{Value, json};

/// Longest simulated time of a picture.
const LONGEST: Nanos = Nanos::from_secs(3600);

/// The scrub that can be started: as fast as a slow disk bears.
const SCRUB: &str = "; mirrorball: background=scrub rate=50MB/s\n[scrub]\nrw=read\n";

/// The array, the readers and the policies of a picture.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PictureRequest {
    text: String,
    /// The job file, of whose first sections the readers are.
    job: String,
    policies: Vec<String>,
    seed: u64,
}

/// A change of the array, or of its policy, while it runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    Policy(String),
    /// A disk becomes slower: its place, and the factor.
    Slow(u16, u64),
    /// A disk is pulled out.
    Pull(u16),
    Scrub,
}

/// Runs that are pictured side by side.
pub(crate) struct Picture {
    runs: Vec<WatchedRun>,
    array: ArraySpec,
}

impl Picture {
    pub(crate) fn new(watched: &PictureRequest) -> Result<Picture> {
        let array = ArrayFile::parse(&watched.text, "array.toml")?.spec;
        let job = job_of_text("readers", &watched.job)?;
        let runs = watched.policies.iter().map(|policy| {
            let policy = Spec::parse(policy)?;
            Ok(WatchedRun::new(&array, &job, &policy, watched.seed, LONGEST)?)
        });
        Ok(Picture { runs: runs.collect::<Result<Vec<WatchedRun>>>()?, array })
    }

    /// The members and the readers of the picture.
    pub(crate) fn described(&self) -> Value {
        let members = self.array.members.iter().filter_map(|member| {
            let MemberSource::Model(profile) = &member.source else { return None };
            Some(json!({
                "devid": member.devid,
                "model": profile.name,
                "rotational": profile.rotational,
                "bytes": profile.capacity_bytes,
                "depth": profile.queue_depth(),
            }))
        });
        let readers: u32 = self.runs[0].streams().iter().map(|(_, count)| *count).sum();
        json!({ "members": members.collect::<Vec<Value>>(), "readers": readers })
    }

    /// Advances each run to a time, and returns the I/O of its members.
    pub(crate) fn step(&mut self, until_ns: u64) -> Result<Value> {
        let steps = self.runs.iter_mut().map(|run| {
            let first = run.streams().first().map_or(0, |(first, _)| *first);
            let step = run.advance_to(Nanos(until_ns))?;
            Ok(drawn(&step, run.now(), first))
        });
        Ok(json!({ "runs": steps.collect::<Result<Vec<Value>>>()? }))
    }

    pub(crate) fn change(&mut self, run: Option<usize>, change: &Change) -> Result<Value> {
        for (index, watched) in self.runs.iter_mut().enumerate() {
            if run.is_some_and(|run| run != index) {
                continue;
            }
            let member = |place: u16| {
                let members = self.array.members.len();
                let is_there = usize::from(place) < members;
                is_there.then_some(MemberIndex(place)).context("there is no such member")
            };
            match change {
                Change::Policy(policy) => watched.set_policy(&Spec::parse(policy)?)?,
                Change::Slow(place, factor) => watched.slow_down(member(*place)?, factor * 1000),
                Change::Pull(place) => watched.pull_out(member(*place)?),
                Change::Scrub => watched.start_background(&job_of_text("scrub", SCRUB)?)?,
            }
        }
        Ok(json!({}))
    }
}

/// The I/O of a step as rows of numbers: identity, member, reader (-1 in the background), whether
/// it reads, first byte, bytes, begin, end and whether it succeeded (-1 while it is in flight).
fn drawn(step: &Step, now: Nanos, first_stream: u64) -> Value {
    let row = |io: &LoggedIo| {
        let reader = if io.is_background { -1 } else { (io.stream - first_stream) as i64 };
        let (end, is_ok) = io.end.map_or((-1, -1), |(at, is_ok)| (at.0 as i64, i64::from(is_ok)));
        let read = i64::from(io.op == Op::Read);
        let (id, member) = (io.id.0 as i64, i64::from(io.member.0));
        let (offset, length) = (io.offset as i64, io.length as i64);
        [id, member, reader, read, offset, length, io.at.0 as i64, end, is_ok]
    };
    json!({
        "now": now.0,
        "events": step.events.iter().map(row).collect::<Vec<[i64; 9]>>(),
        "bytes": step.read_bytes,
        "reads": step.reads,
        "in_flight": step.in_flight,
        "running": step.is_running,
    })
}
