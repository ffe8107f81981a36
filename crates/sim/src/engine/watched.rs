//! A run that is watched: it advances by as much as the caller asks for, and what happens to the
//! array in between is decided while it runs.
//!
//! Equal seeds and equal changes at equal times give equal runs. Two runs with one seed have the
//! same requests under different policies, as far as these do not wait for each other.

use super::{Engine, NEVER, PolicyUnderTest, Simulation};
use crate::client_slot::ClientFactory;
use crate::error::SimError;
use crate::job::JobFile;
use crate::simulation::Checks;
pub use crate::watcher::LoggedIo;
use crate::watcher::{IoLog, Watcher};
use mirrorball_core::member::MemberIndex;
use mirrorball_core::policies::Spec;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::ArraySpec;
use mirrorball_disk::fault::{Fault, FaultWindow};

pub struct WatchedRun {
    engine: Engine,
    array: ArraySpec,
    job: JobFile,
    seed: u64,
}

#[derive(Debug)]
pub struct Step {
    /// The I/O of members, in the order of their events, up to some thousands.
    pub events: Vec<LoggedIo>,
    /// Bytes that foreground reads of members returned.
    pub read_bytes: u64,
    pub reads: u64,
    /// Number of I/Os that each member has in flight now.
    pub in_flight: Vec<u32>,
    /// False once every section has ended.
    pub is_running: bool,
}

impl WatchedRun {
    /// A run of the first group of a job, which has not begun. Fails if the array, the job and the
    /// policy do not fit each other.
    pub fn new(
        array: &ArraySpec,
        job: &JobFile,
        policy: &Spec,
        seed: u64,
        duration: Nanos,
    ) -> Result<WatchedRun, SimError> {
        let mut array = array.clone();
        // A fault that never begins lets later ones be added.
        let never = FaultWindow { from: Nanos::MAX, until: Nanos::MAX };
        for member in &mut array.members {
            member.faults.push(Fault::Dead { during: never });
        }
        let job = job.clone();
        let policy = PolicyUnderTest::Parsed(policy);
        let (duration, checks) = (Some(duration), Checks::Off);
        let run = Simulation { array: &array, job: &job, policy, seed, duration, checks };
        let mut engine = Engine::with_policy(&run, 0)?;
        engine.watcher = Some(Watcher::Io(IoLog::default()));
        let sections = run.sections()?;
        let first = sections.iter().take_while(|section| section.group == 0).count();
        engine.start_group(&run, &sections[..first], &NEVER)?;
        Ok(WatchedRun { engine, array, job, seed })
    }

    /// The time that it has reached.
    pub fn now(&self) -> Nanos {
        self.engine.now
    }

    /// Advances to a time, or a little beyond: to the first event at or after it. Fails if the
    /// policy is a program that had a fault.
    pub fn advance_to(&mut self, time: Nanos) -> Result<Step, SimError> {
        self.log().pause_at = time;
        self.engine.run_group(Nanos::MAX, &NEVER)?;
        let log = std::mem::take(self.log());
        let members = self.engine.volume.members();
        Ok(Step {
            events: log.events,
            read_bytes: log.read_bytes,
            reads: log.reads,
            in_flight: members.iter().map(|(_, member)| member.in_flight()).collect(),
            is_running: self.engine.foreground_left > 0,
        })
    }

    /// Replaces the policy, from the next choice on. Fails if it does not fit the array.
    pub fn set_policy(&mut self, policy: &Spec) -> Result<(), SimError> {
        let devids: Vec<u64> = self.array.members.iter().map(|member| member.devid).collect();
        self.engine.volume.set_policy(policy.build(&devids)?);
        Ok(())
    }

    /// Makes a disk slower by a factor, in thousandths, from now on.
    pub fn slow_down(&mut self, member: MemberIndex, factor_milli: u64) {
        let during = FaultWindow { from: self.engine.now, until: Nanos::MAX };
        self.add_fault(member, Fault::Slow { factor_milli, during });
    }

    /// Pulls a disk out, for good. The last copy stays a member, and its reads fail.
    pub fn pull_out(&mut self, member: MemberIndex) {
        let during = FaultWindow { from: self.engine.now, until: Nanos::MAX };
        self.add_fault(member, Fault::Dead { during });
        self.engine.volume.lose_member(member);
    }

    /// Begins the background work of a job file, such as a scrub. Fails if the array cannot do it.
    pub fn start_background(&mut self, work: &JobFile) -> Result<(), SimError> {
        let policy = PolicyUnderTest::Canary;
        let (array, seed, checks) = (&self.array, self.seed, Checks::Off);
        let run = Simulation { array, job: work, policy, seed, duration: None, checks };
        let slots = ClientFactory::new(&run, &self.engine.volume, self.seed).background()?;
        slots.into_iter().for_each(|slot| self.engine.add_client(slot));
        Ok(())
    }

    /// The streams of the clones of each section, in order: the first, and how many.
    pub fn streams(&self) -> Vec<(u64, u32)> {
        let mut first = super::client_slot::first_stream(self.seed);
        let sections = self.job.sections.iter().map(|section| {
            let streams = (first, section.clones);
            first += u64::from(section.clones);
            streams
        });
        sections.collect()
    }

    fn add_fault(&mut self, member: MemberIndex, fault: Fault) {
        self.engine.model_array.add_fault(member, fault);
    }

    fn log(&mut self) -> &mut IoLog {
        match &mut self.engine.watcher {
            Some(Watcher::Io(log)) => log,
            _ => unreachable!("a watched run has a log"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::run;
    use crate::job::JobContext;
    use mirrorball_disk::array_file::ArrayFile;

    const SECOND: Nanos = Nanos::from_secs(1);

    fn watched(policy: &str) -> (WatchedRun, ArraySpec, JobFile) {
        let array = ArrayFile::builtin("hdd-ssd-raid1").unwrap().spec;
        let text = "[reader]\nrw=randread\nbs=4k\niodepth=8\ntime_based\nruntime=4\n";
        let job = JobFile::parse(text, "reader.fio", &JobContext::empty()).unwrap();
        let spec = Spec::parse(policy).unwrap();
        let run = WatchedRun::new(&array, &job, &spec, 7, Nanos(4 * SECOND.0)).unwrap();
        (run, array, job)
    }

    fn reads(step: &Step, member: u16) -> usize {
        let ended = step.events.iter().filter(|io| io.end.is_some_and(|(_, is_ok)| is_ok));
        ended.filter(|io| io.member == MemberIndex(member)).count()
    }

    #[test]
    fn steps_add_up_to_the_run_of_the_engine() {
        let (mut watched, array, job) = watched("md/raid1");
        let mut bytes = 0;
        while watched.now() < Nanos(4 * SECOND.0) {
            let step = watched.advance_to(watched.now() + Nanos(100_000_000)).unwrap();
            bytes += step.read_bytes;
            if !step.is_running {
                break;
            }
        }
        let spec = Spec::parse("md/raid1").unwrap();
        let whole = run(&Simulation {
            array: &array,
            job: &job,
            policy: PolicyUnderTest::Parsed(&spec),
            seed: 7,
            duration: Some(Nanos(4 * SECOND.0)),
            checks: Checks::Off,
        });
        assert_eq!(bytes, whole.unwrap().sections[0].read.bytes);
    }

    #[test]
    fn what_is_done_to_the_array_changes_who_serves() {
        let (mut watched, ..) = watched("mirrorball/first");
        let step = watched.advance_to(SECOND).unwrap();
        assert!(reads(&step, 0) > 50 && reads(&step, 1) == 0);
        watched.set_policy(&Spec::parse("btrfs/devid:2").unwrap()).unwrap();
        watched.advance_to(Nanos(SECOND.0 * 3 / 2)).unwrap();
        let fast = watched.advance_to(Nanos(SECOND.0 * 2)).unwrap();
        assert!(reads(&fast, 0) == 0 && reads(&fast, 1) > 1000);
        watched.slow_down(MemberIndex(1), 8000);
        let slow = watched.advance_to(Nanos(SECOND.0 * 5 / 2)).unwrap();
        assert!(slow.reads * 4 < fast.reads, "{} of {}", slow.reads, fast.reads);
        watched.pull_out(MemberIndex(1));
        let alone = watched.advance_to(Nanos(SECOND.0 * 3)).unwrap();
        assert!(reads(&alone, 0) > 20, "the other copy serves");
        assert_eq!(watched.streams().len(), 1);
    }

    #[test]
    fn a_scrub_can_begin_while_readers_run() {
        let (mut watched, ..) = watched("md/raid1");
        watched.advance_to(SECOND).unwrap();
        let scrub = "; mirrorball: background=scrub rate=50MB/s\n[x]\nrw=read\n";
        let scrub = JobFile::parse(scrub, "scrub.fio", &JobContext::empty()).unwrap();
        watched.start_background(&scrub).unwrap();
        let step = watched.advance_to(Nanos(SECOND.0 * 2)).unwrap();
        assert!(step.events.iter().any(|io| io.is_background && io.end.is_some()));
    }
}
