//! The examples against the built-ins that they repeat, decision by decision.
//!
//! Both policies are shown one random history of a volume: reads and writes of several streams,
//! members of unequal speed, errors, back-off, a member that fails and returns. Quiet phases have
//! few streams, no writes and no errors, so that runs grow long. Every choice must be the same, and
//! so must every draw of chance.

use crate::common::{example, toolchain};
use mirrorball_core::geometry::{ChunkMap, Profile};
use mirrorball_core::io::{IoError, MemberIo, Outcome, Request, RequestId, RequestKind};
use mirrorball_core::member::{MemberConfig, MemberIndex, MemberState, Members};
use mirrorball_core::policies::{PolicyProgram, Spec, Unit, all};
use mirrorball_core::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::{MIB, Nanos};
use mirrorball_core::volume::Volume;
use mirrorball_program::Loader;
use mirrorball_program::program::Program;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A program and the built-in that it repeats, which must agree.
struct Pair {
    program: Box<dyn ReadPolicy>,
    builtin: Box<dyn ReadPolicy>,
    tally: Arc<Tally>,
}

#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) decisions: AtomicU64,
    /// Decisions to split a read.
    splits: AtomicU64,
    /// Decisions to read from several mirrors at once.
    copies: AtomicU64,
}

impl ReadPolicy for Pair {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let mut rng = ctx.rng.clone();
        let expected = self.builtin.choose(read, mirrors, &mut ctx.with_rng(&mut rng));
        let choice = self.program.choose(read, mirrors, ctx);
        let number = self.tally.decisions.fetch_add(1, Ordering::Relaxed);
        assert_eq!(self.program.fault(), None, "decision {number}");
        assert_eq!(choice, expected, "decision {number}, of {read:?} among {mirrors:?}");
        assert_eq!(*ctx.rng, rng, "decision {number} drew otherwise");
        match choice {
            Choice::Split(_) => self.tally.splits.fetch_add(1, Ordering::Relaxed),
            Choice::All(_) => self.tally.copies.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
        choice
    }

    fn on_submit(&mut self, io: &MemberIo, ctx: &mut Ctx<'_>) {
        self.builtin.on_submit(io, ctx);
        self.program.on_submit(io, ctx);
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, ctx: &mut Ctx<'_>) {
        let mut rng = ctx.rng.clone();
        self.builtin.on_complete(io, outcome, &mut ctx.with_rng(&mut rng));
        self.program.on_complete(io, outcome, ctx);
        assert_eq!(*ctx.rng, rng, "the end of {io:?} drew otherwise");
    }

    fn on_members_change(&mut self, members: &Members) {
        self.builtin.on_members_change(members);
        self.program.on_members_change(members);
    }
}

/// A volume with a random load.
struct History {
    volume: Volume,
    draw: Rng,
    now: Nanos,
    in_flight: Vec<MemberIo>,
    requests: u64,
    /// Where each stream's last read ended.
    streams: [u64; 5],
}

impl History {
    fn new(policy: Box<dyn ReadPolicy>, members: u64, profile: Profile, seed: u64) -> History {
        let mut draw = Rng::new(seed);
        let configs: Vec<MemberConfig> = (1..=members)
            .map(|devid| MemberConfig {
                rotational: draw.below(3) > 0,
                optimal_io_bytes: draw.below(3) * 65_536,
                priority: draw.below(3) as u32,
                ..MemberConfig::new(devid, 256 * MIB)
            })
            .collect();
        let map = ChunkMap::allocate(profile, None, &configs).unwrap();
        let volume = Volume::new(map, Members::new(configs), policy, seed).without_data();
        let (in_flight, streams) = (Vec::new(), [0; 5]);
        History { volume, draw, now: Nanos(1), in_flight, requests: 0, streams }
    }

    /// True in every other phase of the history.
    fn is_quiet(&self) -> bool {
        self.requests / 2_000 % 2 == 1
    }

    /// Something happens: a request, the end of an I/O, a pause, or a change of a member.
    fn step(&mut self) {
        self.now = Nanos(self.now.0 + self.draw.below(400_000));
        match self.draw.below(1000) {
            20..450 if self.in_flight.len() < 40 => self.submit(),
            450..997 if !self.in_flight.is_empty() => self.complete(),
            997 => self.now = Nanos(self.now.0 + self.draw.below(20_000_000_000)),
            998 if !self.is_quiet() => self.fail_member(),
            0..20 | 999 => self.return_member(),
            _ => {}
        }
        if self.volume.poll_timeout().is_some_and(|at| at <= self.now) {
            self.volume.on_timeout(self.now);
        }
        while self.volume.has_work() {
            self.in_flight.extend(self.volume.poll_io(self.now));
        }
        while self.volume.poll_reply().is_some() {}
    }

    fn submit(&mut self) {
        let capacity = self.volume.capacity_bytes();
        let stream = self.draw.below(if self.is_quiet() { 2 } else { 5 });
        let length = 4096 << self.draw.below(6);
        let start = self.streams[stream as usize];
        let is_random = self.draw.below(if self.is_quiet() { 200 } else { 4 }) == 0;
        let is_next = !is_random && start + length <= capacity;
        let offset =
            if is_next { start } else { self.draw.below((capacity - length) / 4096) * 4096 };
        self.streams[stream as usize] = offset + length;
        let is_write = self.draw.below(8) == 0 && !self.is_quiet();
        let kind = if is_write { RequestKind::Write } else { RequestKind::Read };
        self.requests += 1;
        let (id, cpu, background) = (RequestId(self.requests), 0, self.draw.below(9) == 0);
        let stream = 1000 + stream * 7;
        self.volume.submit(Request { id, kind, offset, length, stream, cpu, background });
    }

    fn complete(&mut self) {
        let index = self.draw.below(self.in_flight.len() as u64) as usize;
        let io = self.in_flight.swap_remove(index);
        let result = match self.draw.below(600) {
            _ if self.is_quiet() => Ok(()),
            0 => Err(IoError::Medium),
            1 => Err(IoError::Transport),
            _ => Ok(()),
        };
        self.volume.complete(io.id, result, self.now);
    }

    /// A member fails, unless one has failed.
    fn fail_member(&mut self) {
        if self.failed().is_none() {
            let members = self.volume.members().len() as u64;
            let member = MemberIndex(self.draw.below(members) as u16);
            self.volume.set_member_state(member, MemberState::Failed);
        }
    }

    fn return_member(&mut self) {
        if let Some(member) = self.failed() {
            self.volume.set_member_state(member, MemberState::InSync);
        }
    }

    fn failed(&self) -> Option<MemberIndex> {
        let mut members = self.volume.members().iter();
        members.find(|(_, member)| member.state != MemberState::InSync).map(|(index, _)| index)
    }
}

/// Numbers of members and profiles of the arrays that are tried.
pub(crate) const ARRAYS: [(u64, Profile); 6] = [
    (2, Profile::Raid1),
    (2, Profile::Raid1),
    (4, Profile::Raid1),
    (4, Profile::Raid10),
    (4, Profile::Raid1c4),
    (6, Profile::Raid1c3),
];

/// Compiles and loads an example; `None` without the tools.
fn load(file: &str) -> Option<Program> {
    let source = example(file);
    let compiled = toolchain()?.compile(&source);
    let compiled = compiled.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(compiled.warnings, "");
    Some(Loader::new().unwrap().load_program(&compiled.object).unwrap())
}

/// A policy for members with these devids.
pub(crate) type Build<'a> = Box<dyn FnOnce(&[u64]) -> Box<dyn ReadPolicy> + 'a>;

pub(crate) fn builtin(name: &str) -> Build<'static> {
    let spec = Spec::parse(name).unwrap();
    Box::new(move |devids| spec.build(devids).unwrap())
}

/// Compares a policy with another over a history of this many steps.
pub(crate) fn replay(
    policy: impl FnOnce(&[u64]) -> Box<dyn ReadPolicy>,
    reference: Build<'_>,
    (array, steps): (usize, u64),
) -> Arc<Tally> {
    let (members, profile) = ARRAYS[array];
    let devids: Vec<u64> = (1..=members).collect();
    let tally = Arc::new(Tally::default());
    let pair =
        Pair { program: policy(&devids), builtin: reference(&devids), tally: Arc::clone(&tally) };
    let mut history = History::new(Box::new(pair), members, profile, array as u64);
    for _ in 0..steps {
        history.step();
    }
    tally
}

/// Compares an example with a built-in on all arrays.
fn compare(name: &str, policy: &str) {
    let Some(program) = load(name) else { return };
    let values: Vec<u64> = program.parameters().iter().map(|parameter| parameter.default).collect();
    for array in 0..ARRAYS.len() {
        let start = |devids: &[u64]| program.build(&values, devids).unwrap();
        let tally = replay(start, builtin(policy), (array, 40_000));
        let decisions = tally.decisions.load(Ordering::Relaxed);
        assert!(decisions > 7_000, "only {decisions} decisions on array {array}");
    }
}

#[test]
fn btrfs_pid_decides_as_the_builtin() {
    compare("btrfs-pid.c", "btrfs/pid");
}

#[test]
fn btrfs_round_robin_decides_as_the_builtin() {
    compare("btrfs-round-robin.c", "btrfs/round-robin");
}

#[test]
fn latency_rr_decides_as_the_builtin() {
    compare("latency-rr.c", "kakra/latency-rr");
}

#[test]
fn md_raid1_decides_as_the_builtin() {
    compare("md-raid1.c", "md/raid1");
}

#[test]
fn nvme_queue_depth_decides_as_the_builtin() {
    compare("nvme-queue-depth.c", "nvme/queue-depth");
}

#[test]
fn gmirror_load_decides_as_the_builtin() {
    compare("gmirror-load.c", "gmirror/load");
}

#[test]
fn bcachefs_latency_decides_as_the_builtin() {
    compare("bcachefs-latency.c", "bcachefs/inverse-square-latency");
}

#[test]
fn peak_ewma_decides_as_the_builtin() {
    compare("peak-ewma.c", "research/peak-ewma");
}

#[test]
fn mirrorball_auto_decides_as_the_builtin() {
    compare("mirrorball-auto.c", "mirrorball/auto");
}

#[test]
fn mirrorball_auto_decides_as_the_builtin_without_each_component() {
    let Some(program) = load("mirrorball-auto.c") else { return };
    let auto = all().find(|info| info.name == "mirrorball/auto").unwrap();
    let Unit::Word(components) = auto.parameters[0].unit else { panic!("{auto:?}") };
    assert_eq!(*program.parameters()[0].range.end(), components.len() as u64 - 1);
    let (mut splits, mut copies) = (0, 0);
    for (number, component) in components.iter().enumerate() {
        let name = format!("mirrorball/auto:{component}");
        for array in 0..ARRAYS.len() {
            let start = |devids: &[u64]| program.build(&[number as u64], devids).unwrap();
            let tally = replay(start, builtin(&name), (array, 10_000));
            splits += tally.splits.load(Ordering::Relaxed);
            copies += tally.copies.load(Ordering::Relaxed);
        }
    }
    assert!(splits > 1_000 && copies > 1_000, "{splits} splits, {copies} reads of copies");
}

/// Found by a trial: the warning was about an argument that the source does not show.
#[test]
fn a_policy_may_ignore_what_it_is_shown() {
    let Some(toolchain) = toolchain() else { return };
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ignores.c");
    let text = "#include \"mirrorball_policy.h\"\nMB_PROGRAM(\"ignores\", \"1\", \"\", \"\");\n\
                MB_CHOOSE(c) { return 0; }\nMB_SUBMIT(e) {}\nMB_COMPLETE(e) {}\n";
    std::fs::write(&source, text).unwrap();
    assert_eq!(toolchain.compile(&source).unwrap().warnings, "");
}
