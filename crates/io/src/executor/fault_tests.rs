//! Volumes in a simulated world whose members do what they should not.

use super::*;
use crate::assemble::{self, Assembly, CreateOptions, LabelledOptions};
use crate::clock::Speed;
use crate::device_address::DeviceAddress;
use crate::driver::Platform;
use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::sim::{FileFault, ObjectId, SimOptions, SimulatedWorld};
use crate::kept_policy::KeptPolicy;
use crate::member::file::tests::OPTIONS;
use mirrorball_core::geometry::{ChunkMap, Profile};
use mirrorball_core::io::RequestKind;
use mirrorball_core::member::{MemberState, Members};
use mirrorball_core::policies::{Registry, Spec};
use mirrorball_disk::array_file::ArrayFile;

const MEMBER_BYTES: u64 = 16 << 20;
const LENGTH: usize = 4 << 20;

/// A mirrored volume of two files, and a buffer of [`LENGTH`].
struct Place {
    world: SimulatedWorld,
    files: [ObjectId; 2],
    executor: Executor,
    buffer: BufferKey,
}

impl Place {
    fn new() -> Place {
        let world = SimulatedWorld::new(SimOptions { partial_every: 3, ..Default::default() });
        let files = [0; 2].map(|_| world.add_file(MEMBER_BYTES));
        let configs = [1, 2].map(|devid| MemberConfig::new(devid, MEMBER_BYTES));
        let members = files.iter().zip(&configs).map(|(file, config)| NewMember {
            config: config.clone(),
            source: source(&world, *file),
        });
        let map = ChunkMap::allocate(Profile::Raid1, None, &configs).unwrap();
        let policy = Spec::parse("round-robin").unwrap().build(&[1, 2]).unwrap();
        let volume = Volume::without_gate(map, Members::new(configs.to_vec()), policy, 1);
        let (driver, clock) = (Driver::simulated(&world), Clock::new(Speed::REAL));
        let members = members.collect();
        let mut executor = Executor::new(driver, clock, members, None, Some(volume)).unwrap();
        let buffer = executor.driver.acquire(LENGTH);
        executor.driver.bytes_mut(Slice::data(buffer, 0, LENGTH)).fill(7);
        Place { world, files, executor, buffer }
    }

    fn start(&mut self, kind: RequestKind) {
        self.executor.submit(IoRequest {
            token: Token::new(EventOwner::NbdRequest, 1),
            target: Target::Volume,
            kind,
            offset: 0,
            length: if kind == RequestKind::Flush { 0 } else { LENGTH as u64 },
            buffer: Some(self.buffer),
            stream: 1,
        });
    }

    /// Lets everything that was started end; returns the results.
    fn settle(&mut self) -> Vec<Result<(), VolumeError>> {
        let (mut results, mut done) = (Vec::new(), Vec::new());
        loop {
            self.executor.turn();
            results.extend(std::iter::from_fn(|| self.executor.poll_reply()).map(|it| it.result));
            if self.executor.is_idle() {
                return results;
            }
            self.executor.wait(Some(Duration::from_millis(1)), &mut done).unwrap();
            done.drain(..).for_each(|done| self.executor.on_event(&done));
        }
    }

    fn run(&mut self, kind: RequestKind) -> Result<(), VolumeError> {
        self.start(kind);
        self.settle()[..].try_into().map(|[result]: [_; 1]| result).unwrap()
    }

    /// The bytes of the volume on each member.
    fn contents(&self) -> [Vec<u8>; 2] {
        self.files.map(|file| self.world.read_file(file, 1 << 20, LENGTH))
    }

    fn states(&self) -> [MemberState; 2] {
        let members = self.executor.volume().unwrap().members();
        [0, 1].map(|index| members[MemberIndex(index)].state)
    }
}

fn source(world: &SimulatedWorld, file: ObjectId) -> Source {
    let file = world.endpoint(file);
    Source::Real(file)
}

/// A volume with labels on two files of this world, whose paths are `/a` and `/b`.
pub(crate) fn labelled(world: &SimulatedWorld) -> Assembly {
    let platform = Platform::Simulated(world.clone());
    let text = "profile = 'raid1'\n[[member]]\npath = '/a'\n[[member]]\npath = '/b'\n";
    let created = assemble::create(&CreateOptions {
        array: &ArrayFile::parse(text, "volume.toml").unwrap().spec,
        name: "volume".to_owned(),
        policy: KeptPolicy { policy: "first".to_owned(), program: None },
        checksums: false,
        options: OPTIONS,
        platform: platform.clone(),
    });
    assert!(created.is_ok());
    let serving = LabelledOptions {
        devices: ["/a", "/b"].map(|path| DeviceAddress::parse(path).unwrap()).to_vec(),
        is_scan: false,
        volume: None,
        discarded: Vec::new(),
        lost: Vec::new(),
        degraded: false,
        options: OPTIONS,
        peer_timeout: Nanos::from_secs(5),
        policy: None,
        registry: Registry::default(),
        platform,
    };
    assemble::serve_labelled(serving).ok().unwrap()
}

#[test]
fn mirrors_of_which_one_refuses_a_discard_are_to_be_resynchronised() {
    let world = SimulatedWorld::new(SimOptions::default());
    let files = [0; 2].map(|_| world.add_file(MEMBER_BYTES));
    world.set_path("/a", files[0]);
    world.set_path("/b", files[1]);
    let mut executor = labelled(&world).executor;
    let buffer = executor.driver.acquire(LENGTH);
    executor.driver.bytes_mut(Slice::data(buffer, 0, LENGTH)).fill(7);
    let mut place = Place { world, files, executor, buffer };
    assert_eq!(place.run(RequestKind::Write), Ok(()));
    let unsynced_bytes = |place: &Place| place.executor.records().unwrap().unsynced_bytes();
    let before = unsynced_bytes(&place);
    place.world.set_fault(place.files[1], FileFault::RefusesDiscards);
    assert_eq!(place.run(RequestKind::Discard), Ok(()));
    assert!(unsynced_bytes(&place) > before, "one mirror has a hole");
    let contents = place.contents();
    assert_ne!(contents[0], contents[1]);
    assert!(!place.executor.discards_zero(Target::Volume));
    assert_eq!(place.run(RequestKind::Discard), Ok(()));
    assert_eq!(place.contents(), contents, "no mirror takes a further one");
    assert_eq!(place.states(), [MemberState::InSync; 2]);
    assert_eq!(place.executor.driver.buffers_held(), 1);
}

/// The last member that is left stays, and the request fails.
#[test]
fn an_io_past_the_end_of_a_device_fails_its_member() {
    for kind in [RequestKind::Read, RequestKind::Write] {
        let mut place = Place::new();
        assert_eq!(place.run(RequestKind::Write), Ok(()));
        let failed = [MemberState::Failed, MemberState::InSync];
        for (file, result) in [(0, Ok(())), (1, Err(()))] {
            place.world.set_fault(place.files[file], FileFault::Ends(2 << 20));
            assert_eq!(place.run(kind).map_err(|_| ()), result, "{kind:?}");
            assert_eq!(place.states(), failed, "{kind:?}");
        }
        let fault = place.executor.fault(MemberIndex(0)).unwrap();
        assert_eq!(fault == MemberFault::Ended, kind == RequestKind::Read, "{fault}");
    }
}

#[test]
fn old_storage_that_fails_does_not_fail_the_new_one() {
    for kind in [RequestKind::Write, RequestKind::Read, RequestKind::Flush] {
        let mut place = Place::new();
        assert_eq!(place.run(RequestKind::Write), Ok(()));
        let member = MemberIndex(0);
        place.world.set_fault(place.files[0], FileFault::Hangs);
        place.start(kind);
        place.start(kind);
        place.executor.turn();
        let new = place.world.add_file(MEMBER_BYTES);
        let in_flight = |place: &Place| place.executor.members().next().unwrap().1.in_flight;
        let before = in_flight(&place);
        place.executor.attach(member, source(&place.world, new)).unwrap();
        assert_eq!(in_flight(&place), before, "the volume has to know of the new storage first");
        let rebuilding = MemberState::Rebuilding { recovered_bytes: 0 };
        place.executor.volume_mut().unwrap().set_member_state(member, rebuilding);
        place.world.set_fault(place.files[0], FileFault::Fails(Errno::NODEV));
        assert_eq!(place.settle(), [Ok(()); 2]);
        assert_eq!(place.states(), [rebuilding, MemberState::InSync], "{kind:?}");
    }
}

#[test]
fn a_member_is_stalled_while_no_io_of_it_ends() {
    let mut place = Place::new();
    let stalled = |place: &Place| [0, 1].map(|index| place.executor.stalled(MemberIndex(index)));
    assert_eq!(place.executor.until_stalled(), None);
    place.world.set_fault(place.files[1], FileFault::Hangs);
    place.start(RequestKind::Write);
    let mut waited = Nanos::ZERO;
    while stalled(&place)[1].is_none() {
        place.executor.turn();
        let limit = place.executor.until_stalled().unwrap();
        assert!(waited + limit <= Nanos::from_secs(30), "{waited:?} {limit:?}");
        let step = Duration::from_nanos(limit.0.min(3_000_000_000));
        let (before, mut done) = (place.executor.time(), Vec::new());
        place.executor.wait(Some(step), &mut done).unwrap();
        waited += place.executor.time() - before;
        done.drain(..).for_each(|done| place.executor.on_event(&done));
        place.executor.turn();
    }
    assert!(stalled(&place)[0].is_none(), "it has nothing in flight");
    assert_eq!(stalled(&place)[1], Some((Nanos::from_secs(30), 1)));
    let new = place.world.add_file(MEMBER_BYTES);
    place.executor.attach(MemberIndex(1), source(&place.world, new)).unwrap();
    assert_eq!(stalled(&place), [None; 2], "the new storage has nothing in flight");
    place.world.set_fault(place.files[1], FileFault::None);
    assert_eq!(place.settle(), [Ok(())]);
    assert_eq!((stalled(&place), place.executor.until_stalled()), ([None; 2], None));
}

impl Place {
    /// Lets this number of requests end.
    fn until(&mut self, count: usize) {
        let (mut ended, mut done) = (0, Vec::new());
        for _ in 0..1000 {
            self.executor.turn();
            ended += std::iter::from_fn(|| self.executor.poll_reply()).count();
            if ended == count {
                return;
            }
            self.executor.wait(Some(Duration::from_millis(1)), &mut done).unwrap();
            done.drain(..).for_each(|done| self.executor.on_event(&done));
        }
        panic!("{ended} of {count} requests ended");
    }

    fn fill(&mut self, byte: u8) {
        self.executor.driver.bytes_mut(Slice::data(self.buffer, 0, LENGTH)).fill(byte);
    }
}

/// A part of a block is changed by a read and a write, while another client writes to the block.
#[test]
fn a_range_that_is_held_loses_no_change_of_others() {
    let mut place = Place::new();
    assert_eq!(place.run(RequestKind::Write), Ok(()));
    let block = place.executor.driver.acquire(4096);
    let data = Slice::data(block, 0, 4096);
    let request = |kind| IoRequest {
        token: Token::new(EventOwner::FuseRequest, 2),
        target: Target::Volume,
        kind,
        offset: 8192,
        length: 4096,
        buffer: Some(block),
        stream: 2,
    };
    place.fill(8);
    place.start(RequestKind::Write);
    place.executor.read_and_hold(request(RequestKind::Read));
    place.until(2);
    assert!(place.executor.driver.bytes(data) == [8; 4096], "after the write in flight");
    place.fill(9);
    place.start(RequestKind::Write);
    place.executor.driver.bytes_mut(Slice::data(block, 0, 100)).fill(1);
    place.executor.change_held(request(RequestKind::Write));
    place.until(1);
    let changed = [vec![8; 8192], vec![1; 100], vec![8; LENGTH - 8292]].concat();
    assert!(place.contents() == [changed.clone(), changed], "the other write waits");
    place.executor.end_hold();
    assert_eq!(place.settle(), [Ok(())]);
    assert!(place.contents() == [vec![9; LENGTH], vec![9; LENGTH]]);
}

/// The fault fails one sync: flushes that come while another is under way share the next.
#[test]
fn flushes_that_wait_share_a_sync() {
    let mut place = Place::new();
    let flush = |token| IoRequest {
        token: Token::new(EventOwner::NbdRequest, token),
        target: Target::Member(MemberIndex(0)),
        kind: RequestKind::Flush,
        offset: 0,
        length: 0,
        buffer: None,
        stream: 1,
    };
    (0..3).for_each(|token| place.executor.submit(flush(token)));
    let mut done = Vec::new();
    let first = loop {
        if let Some(reply) = place.executor.poll_reply() {
            break reply.result;
        }
        place.executor.wait(Some(Duration::from_millis(1)), &mut done).unwrap();
        done.drain(..).for_each(|done| place.executor.on_event(&done));
    };
    assert_eq!(first, Ok(()));
    place.world.set_fault(place.files[0], FileFault::FailsNextSync);
    place.executor.submit(flush(3));
    assert_eq!(
        place.settle(),
        [Err(VolumeError::Unwritable), Err(VolumeError::Unwritable), Ok(())]
    );
    assert_eq!(place.executor.members().next().unwrap().1.flushes, 2);
}
