//! Both backends do the same, on files and on sockets.

use super::*;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};

const PATIENCE: Option<Duration> = Some(Duration::from_secs(10));

pub(super) fn token(key: u32) -> Token {
    Token::new(EventOwner::Stop, key)
}

pub(super) fn drivers() -> Vec<Driver> {
    let mut drivers = vec![Driver::new(Some(BackendKind::Threads)).unwrap().0];
    match Driver::new(Some(BackendKind::Ring)) {
        Ok((driver, _)) => drivers.push(driver),
        Err(error) => eprintln!("skipped: io_uring ({error})"),
    }
    drivers
}

/// Waits for a number of ends, in the order of their tokens.
fn wait_for(driver: &mut Driver, count: usize) -> Vec<(u32, Result<Output, Errno>)> {
    let mut done = Vec::new();
    for _ in 0..10_000 {
        if done.len() < count {
            driver.wait(PATIENCE, &mut done).unwrap();
        }
    }
    assert_eq!(done.len(), count, "{done:?}");
    let mut ends: Vec<_> = done.into_iter().map(|done| (done.token.key(), done.result)).collect();
    ends.sort_by_key(|(token, _)| *token);
    ends
}

#[test]
fn what_is_written_is_read_back_and_holes_read_as_zeroes() {
    for mut driver in drivers() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let file = driver.adopt(file.into()).unwrap();
        let buffer = driver.acquire(8192);
        let (first, second) = (Slice::data(buffer, 0, 4096), Slice::data(buffer, 4096, 4096));
        driver.bytes_mut(first).fill(7);
        driver.bytes_mut(second).fill(9);
        driver.write(token(1), file, 0, first);
        driver.write(token(2), file, 65536, second);
        let both = [(1, Ok(Output::Bytes(4096))), (2, Ok(Output::Bytes(4096)))];
        assert_eq!(wait_for(&mut driver, 2), both);
        driver.discard(token(3), file, 0, 4096);
        driver.sync(token(4), file);
        assert_eq!(wait_for(&mut driver, 2)[1], (4, Ok(Output::Bytes(0))));
        driver.read(token(1), file, 65536, first);
        driver.read(token(2), file, 0, second);
        assert_eq!(wait_for(&mut driver, 2), both);
        assert!(driver.bytes(first).iter().all(|&byte| byte == 9));
        assert!(driver.bytes(second).iter().all(|&byte| byte == 0));
        driver.read(token(5), file, (1 << 20) - 512, first);
        assert_eq!(wait_for(&mut driver, 1), [(5, Ok(Output::Bytes(512)))], "the file ends there");
        driver.release(buffer);
    }
}

#[test]
fn connections_carry_more_than_a_socket_holds_at_once() {
    for mut driver in drivers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = driver.adopt(UnixListener::bind(&path).unwrap().into()).unwrap();
        driver.accept(token(1), listener);
        let mut client = UnixStream::connect(&path).unwrap();
        let ends = wait_for(&mut driver, 1);
        let (1, Ok(Output::Connection(socket))) = ends[0] else { panic!("{ends:?}") };

        let bytes = 4 << 20;
        let buffer = driver.acquire(bytes);
        driver.bytes_mut(Slice::data(buffer, 0, bytes)).fill(5);
        let half = bytes / 2;
        let halves = [Slice::data(buffer, 0, half), Slice::data(buffer, half, half)];
        driver.send(token(2), socket, &halves);
        let reader = std::thread::spawn(move || {
            let mut all = vec![0; bytes];
            client.read_exact(&mut all).unwrap();
            client.write_all(b"thanks").unwrap();
            (all, client)
        });
        assert_eq!(wait_for(&mut driver, 1), [(2, Ok(Output::Bytes(bytes)))]);
        let (all, client) = reader.join().unwrap();
        assert!(all.iter().all(|&byte| byte == 5));

        driver.receive(token(3), socket, halves[0]);
        assert_eq!(wait_for(&mut driver, 1), [(3, Ok(Output::Bytes(6)))]);
        assert_eq!(driver.bytes(Slice::data(buffer, 0, 6)), b"thanks");
        driver.receive(token(4), socket, halves[0]);
        drop(client);
        assert_eq!(wait_for(&mut driver, 1), [(4, Ok(Output::Bytes(0)))], "the client is gone");
    }
}

/// As systemd needs it, which passes the same listener to the next service.
#[test]
fn a_shared_listener_goes_on_listening() {
    for mut driver in drivers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let kept = UnixListener::bind(&path).unwrap();
        let passed = || kept.try_clone().unwrap().into();
        let [closed, dropped] = [(); 2].map(|()| driver.adopt_shared(passed()).unwrap());
        driver.accept(token(1), closed);
        driver.accept(token(2), dropped);
        let mut events = Vec::new();
        driver.wait(Some(Duration::ZERO), &mut events).unwrap();
        driver.close(closed);
        while driver.in_flight() > 1 {
            driver.wait(Some(Duration::from_secs(10)), &mut events).unwrap();
        }
        assert!(matches!(events[..], [Event { result: Err(_), .. }]), "{events:?}");
        assert!(driver.end_operations(), "an accept is not cancelled");
        drop(driver);
        UnixStream::connect(&path).unwrap();
        kept.accept().unwrap();
    }
}

#[test]
fn closing_ends_what_waits_and_patience_ends() {
    for mut driver in drivers() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let socket = driver.adopt(ours.into()).unwrap();
        let buffer = driver.acquire(4096);
        driver.receive(token(1), socket, Slice::data(buffer, 0, 4096));
        let mut done = Vec::new();
        driver.wait(Some(Duration::from_millis(1)), &mut done).unwrap();
        assert!(done.is_empty(), "the peer has sent nothing");
        driver.close(socket);
        assert_eq!(wait_for(&mut driver, 1), [(1, Ok(Output::Bytes(0)))]);
        assert_eq!(driver.in_flight(), 0);
    }
}

#[test]
fn immediate_completions_do_not_starve_other_operations() {
    for mut driver in drivers() {
        let [(ours, theirs), (quiet, other)] = [(); 2].map(|()| UnixStream::pair().unwrap());
        let [busy, quiet] = [ours, quiet].map(|socket| driver.adopt(socket.into()).unwrap());
        let [source, target] = [0, 0].map(|_| driver.acquire(64));
        driver.receive(token(2), quiet, Slice::data(target, 0, 64));
        (&other).write_all(b"hello").unwrap();
        let (mut done, mut waits) = (Vec::new(), 0);
        while !done.iter().any(|done: &Event| done.token == token(2)) {
            done.clear();
            driver.send(token(1), busy, &[Slice::data(source, 0, 64)]);
            driver.wait(PATIENCE, &mut done).unwrap();
            assert_eq!(done[0].token, token(1), "it had room and ended at once");
            waits += 1;
        }
        assert_eq!(waits, IMMEDIATE_WAITS_MAX + 1, "the others are looked after now and then");
        drop((theirs, other));
    }
}

#[test]
fn a_read_goes_on_where_the_page_cache_ends() {
    for mut driver in drivers() {
        // On a disk, so that there is something to be read from behind the page cache.
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let data: Vec<u8> = (0..1 << 20).map(|index| (index >> 10) as u8).collect();
        file.write_all(&data).unwrap();
        file.sync_all().unwrap();
        let advice = rustix::fs::Advice::DontNeed;
        rustix::fs::fadvise(&file, 1 << 19, None, advice).unwrap();
        let handle = driver.adopt(file.into()).unwrap();
        let buffer = driver.acquire(1 << 20);
        driver.read(token(1), handle, 0, Slice::data(buffer, 0, 1 << 20));
        assert_eq!(wait_for(&mut driver, 1), [(1, Ok(Output::Bytes(1 << 20)))]);
        assert!(driver.bytes(Slice::data(buffer, 0, 1 << 20)) == data);
    }
}
