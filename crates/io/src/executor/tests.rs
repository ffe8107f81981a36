//! Requests through an executor on real files and on emulated members, with either backend.

use super::*;
use crate::clock::Speed;
use crate::driver::BackendKind;
use crate::driver::FileId;
use crate::driver::buffers::{BufferKey, Slice};
use crate::member::file::RealMember;
use crate::member::file::tests::OPTIONS;
use mirrorball_core::geometry::{ChunkMap, Profile};
use mirrorball_core::io::RequestKind;
use mirrorball_core::member::{MemberState, Members};
use mirrorball_core::policies::Spec;
use mirrorball_disk::array_file::ArrayFile;
use std::fs::File;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A policy that reads both mirrors: each into a buffer of its own.
const READ_ALL: &str = "crucible/read-all-first";
const MEMBER_BYTES: u64 = 8 << 20;

/// Two fast disks, mirrored, emulated with their data in memory.
fn emulated(policy: &str) -> Executor {
    array("raid1", 2, policy)
}

/// A number of fast disks, emulated with their data in memory.
pub(super) fn array(profile: &str, count: usize, policy: &str) -> Executor {
    let member = "[[member]]\nmodel = \"delay\"\nsize = \"8M\"\n";
    let text = format!("profile = \"{profile}\"\n{}", member.repeat(count));
    let spec = ArrayFile::parse(&text, "array.toml").unwrap().spec;
    let configs = spec.member_configs().unwrap();
    let member = |config| NewMember { config, source: Source::EmulatedMemory };
    let members = configs.iter().cloned().map(member).collect();
    let volume = volume(spec.chunk_map().unwrap(), configs, policy);
    let clock = Clock::new(Speed::parse("10x").unwrap());
    let driver = Driver::new(None).unwrap().0;
    Executor::new(driver, clock, members, Some(spec.model_array(1).unwrap()), Some(volume)).unwrap()
}

fn volume(map: ChunkMap, configs: Vec<MemberConfig>, policy: &str) -> Volume {
    let policy = Spec::parse(policy).unwrap().build(&[1, 2]).unwrap();
    Volume::without_gate(map, Members::new(configs), policy, 1)
}

/// Two files, mirrored.
fn real(folder: &Path, backend: BackendKind, policy: &str) -> Option<Executor> {
    let driver = Driver::new(Some(backend)).ok()?.0;
    let mut members = Vec::new();
    for devid in [1, 2] {
        let path = member(folder, devid);
        File::create(&path).unwrap().set_len(MEMBER_BYTES).unwrap();
        let real = RealMember::open(&path, OPTIONS).unwrap();
        let config = MemberConfig::new(devid, real.size_bytes);
        members.push(NewMember { config, source: Source::Real(real.file) });
    }
    let configs: Vec<MemberConfig> = members.iter().map(|member| member.config.clone()).collect();
    let volume =
        volume(ChunkMap::allocate(Profile::Raid1, None, &configs).unwrap(), configs, policy);
    let clock = Clock::new(Speed::REAL);
    Some(Executor::new(driver, clock, members, None, Some(volume)).unwrap())
}

fn member(folder: &Path, devid: u64) -> PathBuf {
    folder.join(format!("member-{devid}.img"))
}

/// Runs requests to their ends; returns the results in the order of their tokens.
pub(super) fn run(executor: &mut Executor, requests: &[IoRequest]) -> Vec<Result<(), VolumeError>> {
    for request in requests {
        executor.submit(*request);
    }
    let (mut done, mut ended) = (Vec::new(), Vec::new());
    for _ in 0..100_000 {
        executor.turn();
        ended.extend(std::iter::from_fn(|| executor.poll_reply()));
        if ended.len() == requests.len() && executor.is_idle() {
            break;
        }
        executor.wait(None, &mut done).unwrap();
        done.drain(..).for_each(|done| executor.on_event(&done));
    }
    assert!(executor.is_idle());
    ended.sort_by_key(|end| end.token.key());
    ended.into_iter().map(|end| end.result).collect()
}

fn request(number: u32, kind: RequestKind, offset: u64, buffer: BufferKey) -> IoRequest {
    let length = if kind == RequestKind::Flush { 0 } else { 65536 };
    let (token, target) = (Token::new(EventOwner::NbdRequest, number), Target::Volume);
    IoRequest { token, target, kind, offset, length, buffer: Some(buffer), stream: 7 }
}

/// Writes a pattern to both ends of the volume, reads it back, and discards it.
fn exercise(executor: &mut Executor) {
    let last = executor.size_bytes(Target::Volume) - 65536;
    let buffers = [0, 1].map(|_| executor.driver.acquire(65536));
    let whole = |buffer| Slice::data(buffer, 0, 65536);
    for (fill, buffer) in (1..).zip(buffers) {
        executor.driver.bytes_mut(whole(buffer)).fill(fill);
    }
    let both = |kind| [request(0, kind, 0, buffers[0]), request(1, kind, last, buffers[1])];
    assert_eq!(run(executor, &both(RequestKind::Write)), [Ok(()); 2]);
    assert_eq!(run(executor, &both(RequestKind::Flush)), [Ok(()); 2]);
    // Read through the other's buffer: what stands in it is not what is to be found.
    let crossed = [
        request(0, RequestKind::Read, last, buffers[0]),
        request(1, RequestKind::Read, 0, buffers[1]),
    ];
    for _ in 0..4 {
        assert_eq!(run(executor, &crossed), [Ok(()); 2]);
        for (fill, buffer) in (1..).zip([buffers[1], buffers[0]]) {
            let bytes = executor.driver.bytes_mut(whole(buffer));
            assert!(bytes.iter().all(|&byte| byte == fill));
            bytes.fill(0xee);
        }
    }
    assert_eq!(run(executor, &both(RequestKind::Discard)), [Ok(()); 2]);
    assert_eq!(run(executor, &both(RequestKind::Read)), [Ok(()); 2]);
    assert!(executor.driver.bytes(whole(buffers[0])).iter().all(|&byte| byte == 0));
}

#[test]
fn an_emulated_volume_keeps_its_data_and_counts_lateness() {
    let mut executor = emulated("round-robin");
    exercise(&mut executor);
    for (_, stats) in executor.members() {
        assert_eq!((stats.in_flight, stats.errors, stats.writes), (0, 0, 2));
        assert!(stats.reads > 0, "both members are read");
        assert_eq!(stats.lateness.count(), stats.reads + stats.writes + 4, "every end counts");
    }
}

#[test]
fn of_several_reads_the_first_answer_counts() {
    let mut executor = emulated(READ_ALL);
    exercise(&mut executor);
    let reads: Vec<u64> = executor.members().map(|(_, stats)| stats.reads).collect();
    assert_eq!(reads, [10, 10], "both are read, each time");
}

#[test]
fn a_volume_on_files_keeps_its_data_on_both() {
    let [ring, threads] = [BackendKind::Ring, BackendKind::Threads];
    for (backend, policy) in [(ring, "round-robin"), (threads, "pid"), (ring, READ_ALL)] {
        let folder = TempDir::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let Some(mut executor) = real(folder.path(), backend, policy) else {
            eprintln!("skipped: {backend}");
            continue;
        };
        exercise(&mut executor);
        let buffer = executor.driver.acquire(65536);
        executor.driver.bytes_mut(Slice::data(buffer, 0, 65536)).fill(0x5a);
        assert_eq!(run(&mut executor, &[request(0, RequestKind::Write, 0, buffer)]), [Ok(())]);
        let images = [1, 2].map(|devid| std::fs::read(member(folder.path(), devid)).unwrap());
        assert!(images[0] == images[1], "the mirrors are alike");
        assert_eq!(images[0].iter().filter(|&&byte| byte == 0x5a).count(), 65536);
    }
}

#[test]
fn a_member_that_was_let_go_of_is_gone_until_it_is_opened_again() {
    let folder = TempDir::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    for backend in [BackendKind::Ring, BackendKind::Threads] {
        let Some(mut executor) = real(folder.path(), backend, "first") else { continue };
        let index = MemberIndex(0);
        assert_eq!(executor.file_id(index), FileId::at(&member(folder.path(), 1)));
        assert_eq!(executor.detach(index), Ok(()));
        assert_eq!(executor.file_id(index), None);
        let buffer = executor.driver.acquire(65536);
        let target = Target::Member(index);
        let write = IoRequest { target, ..request(0, RequestKind::Write, 4 << 20, buffer) };
        assert_eq!(run(&mut executor, &[write]), [Err(VolumeError::Unwritable)]);
        // Nothing of it is held any more: neither the lock nor the descriptor.
        let again = RealMember::open(&member(folder.path(), 1), OPTIONS).unwrap();
        executor.attach(index, Source::Real(again.file)).unwrap();
        executor.driver.bytes_mut(Slice::data(buffer, 0, 65536)).fill(0x5a);
        assert_eq!(run(&mut executor, &[write]), [Ok(())]);
        let image = std::fs::read(member(folder.path(), 1)).unwrap();
        assert!(image[4 << 20..][..65536].iter().all(|&byte| byte == 0x5a));
    }
}

#[test]
fn a_file_that_ends_before_a_read_does_fails_its_member() {
    let folder = TempDir::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let mut executor = real(folder.path(), BackendKind::Threads, "first").unwrap();
    exercise(&mut executor);
    let file = File::options().write(true).open(member(folder.path(), 1)).unwrap();
    let last = executor.size_bytes(Target::Volume) - 65536;
    file.set_len(MEMBER_BYTES - 65536).unwrap();
    let buffer = executor.driver.acquire(65536);
    assert_eq!(run(&mut executor, &[request(0, RequestKind::Read, last, buffer)]), [Ok(())]);
    let volume = executor.volume().unwrap();
    assert_eq!(volume.members()[MemberIndex(0)].state, MemberState::Failed);
}

#[test]
fn a_discard_that_cannot_be_is_no_error_but_remembered() {
    let folder = TempDir::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    for errno in [Errno::OPNOTSUPP, Errno::IO] {
        let mut executor = real(folder.path(), BackendKind::Threads, "first").unwrap();
        exercise(&mut executor);
        assert!(executor.discards_zero(Target::Volume), "both files know holes");
        let buffer = executor.driver.acquire(65536);
        executor.submit(request(0, RequestKind::Discard, 0, buffer));
        let mut done = Vec::new();
        let end = loop {
            executor.turn();
            if let Some(end) = executor.poll_reply() {
                break end;
            }
            executor.wait(None, &mut done).unwrap();
            for end in done.drain(..) {
                executor.on_event(&Event { result: Err(errno), ..end });
            }
        };
        assert_eq!(end.result, Ok(()));
        assert!(!executor.discards_zero(Target::Volume), "{errno}: the contents are unknown");
    }
}

#[test]
fn a_member_alone_takes_requests_and_refuses_what_is_outside() {
    let mut executor = emulated("round-robin");
    let buffer = executor.driver.acquire(65536);
    let target = Target::Member(MemberIndex(1));
    let write =
        IoRequest { target, ..request(0, RequestKind::Write, MEMBER_BYTES - 65536, buffer) };
    let outside = IoRequest {
        offset: MEMBER_BYTES - 512,
        token: Token::new(EventOwner::NbdRequest, 1),
        ..write
    };
    let results = run(&mut executor, &[write, outside]);
    assert_eq!(results, [Ok(()), Err(VolumeError::OutOfRange)]);
}

#[test]
fn a_member_is_rebuilt_strip_by_strip_from_its_mirrors() {
    let mut executor = array("raid10", 4, "round-robin");
    let bytes = executor.size_bytes(Target::Volume) as usize;
    let [data, copy] = [0, 1].map(|_| executor.driver.acquire(bytes));
    let whole = |buffer| Slice::data(buffer, 0, bytes);
    for (index, byte) in executor.driver.bytes_mut(whole(data)).iter_mut().enumerate() {
        *byte = (index >> 12) as u8 ^ (index >> 20) as u8;
    }
    let all = |kind, buffer| IoRequest { length: bytes as u64, ..request(0, kind, 0, buffer) };
    let stale = MemberIndex(2);
    let rebuilding = MemberState::Rebuilding { recovered_bytes: 0 };
    executor.volume_mut().unwrap().set_member_state(stale, MemberState::Failed);
    assert_eq!(run(&mut executor, &[all(RequestKind::Write, data)]), [Ok(())]);
    executor.volume_mut().unwrap().set_member_state(stale, rebuilding);
    let rebuild = IoRequest { length: MEMBER_BYTES, ..all(RequestKind::Rebuild(stale), copy) };
    assert_eq!(run(&mut executor, &[rebuild]), [Ok(())]);
    assert_eq!(executor.volume().unwrap().members()[stale].state, MemberState::InSync);
    // Whichever other member is gone: what it shared with the rebuilt one comes from there.
    for other in [0, 1, 3].map(MemberIndex) {
        executor.volume_mut().unwrap().set_member_state(other, MemberState::Failed);
        executor.driver.bytes_mut(whole(copy)).fill(0xee);
        assert_eq!(run(&mut executor, &[all(RequestKind::Read, copy)]), [Ok(())]);
        let driver = &executor.driver;
        assert!(driver.bytes(whole(copy)) == driver.bytes(whole(data)), "{other:?} is gone");
        executor.volume_mut().unwrap().set_member_state(other, MemberState::InSync);
    }
}
