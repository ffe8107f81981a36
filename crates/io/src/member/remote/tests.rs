//! A remote member and a peer that does what the test says: well, badly, or not at all.

use super::*;
use crate::clock::{Clock, Speed};
use crate::driver::BackendKind;
use crate::driver::Endpoint;
use crate::driver::buffers::BufferKey;
use crate::executor::{Executor, IoRequest, Target};
use crate::export::Export;
use crate::member::{NewMember, Source};
use mirrorball_core::io::RequestKind;
use mirrorball_core::member::MemberConfig;
use mirrorball_nbd::handshake::{ServerHandshake, Step, greeting};
use mirrorball_nbd::uri::{NbdUri, Place};
use mirrorball_nbd::wire::{RawRequest, simple_reply};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

const SIZE_BYTES: usize = 1 << 20;

/// Behaviour of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Mood {
    /// It does them.
    Well,
    Refusing,
    /// It closes them, and every new connection.
    Gone,
    /// It replies to an unknown request.
    Confused,
    /// It sends half of the data of a read, and hangs up.
    Halfway,
    /// It takes requests, and nothing comes of them.
    Silent,
}

const MOODS: [Mood; 6] =
    [Mood::Well, Mood::Refusing, Mood::Gone, Mood::Confused, Mood::Halfway, Mood::Silent];

/// A peer in threads of its own, with the member that is its client.
struct Pair {
    _folder: TempDir,
    mood: Arc<AtomicU8>,
    driver: Driver,
    uri: NbdUri,
    remote: Remote,
    buffer: BufferKey,
    now: Nanos,
    /// How much time passes from turn to turn.
    step: Nanos,
}

impl Pair {
    fn new() -> Pair {
        Pair::by(None)
    }

    fn by(backend: Option<BackendKind>) -> Pair {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nbd");
        let listener = UnixListener::bind(&path).unwrap();
        let (mood, data) = (Arc::new(AtomicU8::new(0)), Arc::new(Mutex::new(vec![0; SIZE_BYTES])));
        let shared = mood.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let (mood, data) = (shared.clone(), data.clone());
                std::thread::spawn(move || serve(socket.unwrap(), &mood, &data));
            }
        });
        let place = Place::Unix(path);
        let uri = NbdUri { place, export: "disk".to_owned(), certificates: None };
        let mut driver = Driver::new(backend).unwrap().0;
        let peer = Peer::open(Arc::new(uri.clone())).unwrap();
        assert_eq!(peer.export.size_bytes, SIZE_BYTES as u64);
        let remote = Remote::new(MemberIndex(3), peer, &mut driver).unwrap();
        let buffer = driver.acquire(65536);
        let mut pair = Pair {
            _folder: folder,
            mood,
            driver,
            uri,
            remote,
            buffer,
            now: Nanos::ZERO,
            step: Nanos::ZERO,
        };
        pair.wait_for_connections();
        pair
    }

    fn set(&mut self, mood: Mood) {
        self.mood.store(mood as u8, Relaxed);
    }

    /// Lets things happen until every connection is up.
    fn wait_for_connections(&mut self) {
        let mut ended = VecDeque::new();
        for _ in 0..2000 {
            if self.remote.connections() == CONNECTIONS {
                return;
            }
            self.turn(&mut ended);
        }
        panic!("{} connections are up", self.remote.connections());
    }

    /// Runs requests of 4096 bytes to their ends: how each went, in the order of the requests.
    fn run(&mut self, op: Op, count: u32) -> Vec<Result<(), IoError>> {
        let mut ended = VecDeque::new();
        let moves = matches!(op, Op::Read | Op::Write);
        for key in 0..count {
            let offset = u64::from(key) * 4096;
            let data = moves.then(|| Slice::data(self.buffer, offset as usize, 4096));
            let request =
                RemoteRequest { key, op, offset, length: if moves { 4096 } else { 0 }, data };
            self.remote.start(request, &mut self.driver, &mut ended);
        }
        for _ in 0..2000 {
            if ended.len() == count as usize {
                break;
            }
            self.turn(&mut ended);
        }
        ended.make_contiguous().sort_by_key(|&(key, _)| key);
        assert!(ended.iter().map(|&(key, _)| key).eq(0..count), "each ends once: {ended:?}");
        ended.into_iter().map(|(_, result)| result).collect()
    }

    fn turn(&mut self, ended: &mut VecDeque<RemoteReply>) {
        self.remote.flush(&mut self.driver);
        self.now += self.step;
        self.remote.on_time(self.driver.now() + self.now, &mut self.driver);
        let mut done = Vec::new();
        self.driver.wait(Some(Duration::from_millis(10)), &mut done).unwrap();
        for done in done {
            assert_eq!(member_of(done.token), MemberIndex(3));
            self.remote.on_event(&done, &mut self.driver, ended);
        }
    }

    fn fill(&mut self, byte: u8) {
        self.driver.bytes_mut(Slice::data(self.buffer, 0, 65536)).fill(byte);
    }

    fn holds(&self, byte: u8) -> bool {
        let bytes = self.driver.bytes(Slice::data(self.buffer, 0, 65536));
        bytes.iter().all(|&found| found == byte)
    }
}

/// One connection of the peer.
fn serve(mut socket: UnixStream, mood: &AtomicU8, data: &Mutex<Vec<u8>>) {
    let export = Export {
        name: "disk".to_owned(),
        description: String::new(),
        target: Target::Volume,
        size_bytes: SIZE_BYTES as u64,
        block_bytes: 512,
        rotational: true,
        is_read_only: false,
    };
    let mood = || MOODS[usize::from(mood.load(Relaxed))];
    let (mut handshake, mut input, mut output) =
        (ServerHandshake::default(), Vec::new(), Vec::new());
    if mood() == Mood::Gone || socket.write_all(&greeting()).is_err() {
        return;
    }
    loop {
        let mut byte = [0];
        if socket.read_exact(&mut byte).is_err() {
            return;
        }
        input.push(byte[0]);
        let exports = std::slice::from_ref(&export);
        let (taken, step) = handshake.advance(&input, exports, &mut output);
        input.drain(..taken);
        if socket.write_all(&std::mem::take(&mut output)).is_err() {
            return;
        }
        match step {
            Step::More => {}
            Step::Agreed(_) => break,
            Step::StartTls | Step::End => return,
        }
    }
    let mut head = [0; 28];
    while socket.read_exact(&mut head).is_ok() {
        let raw = RawRequest::parse(&head).unwrap();
        let range = raw.offset as usize..raw.offset as usize + raw.length as usize;
        let mut written = vec![0; range.len()];
        if raw.kind == request::WRITE && socket.read_exact(&mut written).is_err() {
            return;
        }
        let reply = |error| simple_reply(error, raw.cookie).to_vec();
        let mut bytes = match mood() {
            Mood::Well | Mood::Halfway => reply(0),
            Mood::Refusing => reply(5),
            Mood::Gone => return,
            Mood::Silent => continue,
            Mood::Confused => simple_reply(0, raw.cookie ^ 1 << 40).to_vec(),
        };
        match raw.kind {
            request::READ if mood() == Mood::Well => bytes.extend(&data.lock().unwrap()[range]),
            request::READ if mood() == Mood::Halfway => bytes.extend(&vec![9; range.len() / 2]),
            request::WRITE => data.lock().unwrap()[range].copy_from_slice(&written),
            _ => {}
        }
        if socket.write_all(&bytes).is_err() || mood() == Mood::Halfway {
            return;
        }
    }
}

#[test]
fn what_is_written_is_read_back_over_all_connections() {
    for backend in [None, Some(BackendKind::Threads)] {
        let mut pair = Pair::by(backend);
        pair.fill(7);
        assert_eq!(pair.run(Op::Write, 16), [Ok(()); 16]);
        assert_eq!(pair.run(Op::Flush, 1), [Ok(())]);
        pair.fill(0);
        assert_eq!(pair.run(Op::Read, 16), [Ok(()); 16]);
        assert!(pair.holds(7));
        assert_eq!(pair.run(Op::Discard, 1), [Ok(())]);
        pair.set(Mood::Gone);
        assert_eq!(pair.run(Op::Read, 9), [Err(IoError::Gone); 9], "the discard is not durable");
    }
}

#[test]
fn an_error_of_the_peer_is_one_of_its_medium() {
    let mut pair = Pair::new();
    pair.set(Mood::Refusing);
    for op in [Op::Read, Op::Write, Op::Flush] {
        assert_eq!(pair.run(op, 3), [Err(IoError::Medium); 3]);
    }
    pair.set(Mood::Well);
    assert_eq!(pair.run(Op::Read, 3), [Ok(()); 3], "the connections live");
}

/// Nothing was written that it could have forgotten, so it serves again when it is back.
#[test]
fn a_peer_that_goes_is_an_error_of_transport_and_may_come_back() {
    for mood in [Mood::Gone, Mood::Confused, Mood::Halfway] {
        let mut pair = Pair::new();
        pair.set(mood);
        assert_eq!(pair.run(Op::Read, 9), [Err(IoError::Transport); 9], "{mood:?}");
        pair.set(Mood::Well);
        pair.wait_for_connections();
        assert_eq!(pair.run(Op::Read, 9), [Ok(()); 9], "{mood:?}");
    }
}

#[test]
fn a_peer_that_owes_a_reply_for_too_long_is_hung_up_on() {
    let mut pair = Pair::new();
    let mut driver = Driver::new(None).unwrap().0;
    assert_eq!(pair.remote.on_time(Nanos::MAX, &mut driver), None, "it owes nothing");
    assert_eq!(pair.run(Op::Read, 9), [Ok(()); 9]);
    // Time stands still, so whatever comes comes in time.
    pair.set(Mood::Silent);
    let request = |pair: &mut Pair, key, ended: &mut VecDeque<RemoteReply>| {
        let data = Some(Slice::data(pair.buffer, 0, 4096));
        let request = RemoteRequest { key, op: Op::Read, offset: 0, length: 4096, data };
        pair.remote.start(request, &mut pair.driver, ended);
    };
    let mut ended = VecDeque::new();
    request(&mut pair, 7, &mut ended);
    for _ in 0..20 {
        pair.turn(&mut ended);
    }
    assert!(ended.is_empty());
    // A request that is young does not save an old one.
    pair.step = peer::REPLY_TIMEOUT / 4;
    let mut turns = 0;
    while ended.is_empty() {
        turns += 1;
        assert!(turns < 1000, "the connections are not closed");
        if turns == 3 {
            request(&mut pair, 8, &mut ended);
        }
        pair.turn(&mut ended);
    }
    assert!(turns >= 4, "not before its time");
    while ended.len() < 2 {
        pair.turn(&mut ended);
    }
    ended.make_contiguous().sort_by_key(|&(key, _)| key);
    assert_eq!(ended, [7, 8].map(|key| (key, Err(IoError::Transport))), "all connections");
    pair.step = Nanos::ZERO;
    pair.set(Mood::Well);
    pair.wait_for_connections();
    assert_eq!(pair.run(Op::Read, 9), [Ok(()); 9]);
}

#[test]
fn a_peer_that_may_have_lost_writes_is_gone_until_it_is_attached_again() {
    let mut pair = Pair::new();
    assert_eq!(pair.run(Op::Write, 2), [Ok(()); 2]);
    assert_eq!(pair.run(Op::Flush, 1), [Ok(())]);
    pair.set(Mood::Gone);
    assert_eq!(pair.run(Op::Read, 8), [Err(IoError::Transport); 8], "all was durable");
    pair.set(Mood::Well);
    pair.wait_for_connections();
    assert_eq!(pair.run(Op::Write, 2), [Ok(()); 2]);
    pair.set(Mood::Gone);
    assert_eq!(pair.run(Op::Read, 8), [Err(IoError::Gone); 8]);
    pair.set(Mood::Well);
    pair.wait_for_connections();
    assert_eq!(pair.run(Op::Read, 1), [Err(IoError::Gone)], "though it answers");
    pair.remote.detach(&mut pair.driver);
    assert_eq!((pair.remote.connections(), pair.run(Op::Read, 1)), (0, vec![Err(IoError::Gone)]));
    let peer = Peer::open(Arc::new(pair.uri.clone())).unwrap();
    pair.remote.attach(peer, &mut pair.driver).unwrap();
    assert_eq!(pair.run(Op::Read, 1), [Ok(())]);
    pair.wait_for_connections();
    assert_eq!(pair.run(Op::Write, 9), [Ok(()); 9]);
    // What the earlier attachment left has ended, and has harmed nothing.
    pair.set(Mood::Gone);
    assert_eq!(pair.run(Op::Flush, 8), [Err(IoError::Gone); 8]);
}

#[test]
fn requests_in_flight_end_on_the_server_that_is_replaced() {
    let mut pair = Pair::new();
    let mut ended = VecDeque::new();
    for key in 0..8 {
        let data = Some(Slice::data(pair.buffer, 0, 4096));
        let request = RemoteRequest { key, op: Op::Write, offset: 0, length: 4096, data };
        pair.remote.start(request, &mut pair.driver, &mut ended);
    }
    pair.remote.detach(&mut pair.driver);
    let peer = Peer::open(Arc::new(pair.uri.clone())).unwrap();
    pair.remote.attach(peer, &mut pair.driver).unwrap();
    for _ in 0..2000 {
        pair.turn(&mut ended);
        if ended.len() == 8 {
            break;
        }
    }
    assert_eq!(ended.iter().map(|&(_, result)| result).collect::<Vec<_>>(), [Ok(()); 8]);
    pair.wait_for_connections();
    assert_eq!(pair.run(Op::Write, 9), [Ok(()); 9]);
}

#[test]
fn attaching_again_leaves_nothing_behind() {
    let mut pair = Pair::new();
    let held = pair.driver.buffers_held();
    for round in 0..20 {
        // Connections that are up, and some that are down, when it is detached.
        assert_eq!(pair.run(Op::Read, 9), [Ok(()); 9]);
        if round % 2 == 0 {
            pair.set(Mood::Gone);
            assert_eq!(pair.run(Op::Read, 9), [Err(IoError::Transport); 9]);
            pair.set(Mood::Well);
        }
        pair.remote.detach(&mut pair.driver);
        let peer = Peer::open(Arc::new(pair.uri.clone())).unwrap();
        pair.remote.attach(peer, &mut pair.driver).unwrap();
        pair.wait_for_connections();
        assert!(pair.remote.connections.len() <= 2 * CONNECTIONS, "round {round}");
        assert!(pair.driver.buffers_held() <= held + CONNECTIONS, "round {round}");
    }
}

#[test]
fn a_silent_peer_does_not_hang_the_start() {
    let mut pair = Pair::new();
    let mut peer = Peer::open(Arc::new(pair.uri.clone())).unwrap();
    peer.timeout = Nanos::from_millis(20);
    assert_eq!(peer.read(0, 4096).unwrap(), [0; 4096]);
    pair.set(Mood::Silent);
    let error = peer.read(0, 4096).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(error.to_string().contains("--peer-timeout"), "{error}");
    pair.set(Mood::Well);
    assert!(peer.read(0, 4096).is_err(), "the late reply is not taken for this one");
}

#[test]
fn replies_come_in_any_order_glued_and_cut() {
    const SHARE: usize = 30_000;
    let lengths = [4096, SHARE, 512];
    for cut in [1, 15, 16, 17, 527, 528, 529, 543, 544, 4640, 4700, 16_384, 20_000] {
        let mut driver = Driver::new(None).unwrap().0;
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let handle = driver.adopt(ours.into()).unwrap();
        let mut connection = PeerConnection::default();
        connection.connect(handle, Token::new(EventOwner::RemoteReceive, 0), &mut driver);
        let buffer = driver.acquire(3 * SHARE);
        let place = |key: u32| Slice::data(buffer, key as usize * SHARE, lengths[key as usize]);
        for key in 0..3 {
            let (length, data) = (lengths[key as usize] as u64, Some(place(key)));
            let request = RemoteRequest { key, op: Op::Read, offset: 0, length, data };
            connection.queue(request, request::READ, 0, &mut driver);
        }
        connection.send(Token::new(EventOwner::RemoteSend, 0), &mut driver);
        let requests = [(); 3].map(|()| {
            let mut head = [0; 28];
            theirs.read_exact(&mut head).unwrap();
            RawRequest::parse(&head).unwrap()
        });
        let mut replies = Vec::new();
        for key in [2, 0, 1] {
            replies.extend(simple_reply(0, requests[key].cookie));
            replies.extend((0..lengths[key]).map(|index| (index % 251 + key) as u8));
        }
        let (mut ended, mut done) = (Vec::new(), Vec::new());
        for part in [&replies[..cut], &replies[cut..]] {
            theirs.write_all(part).unwrap();
            for _ in 0..10 {
                driver.wait(Some(Duration::from_millis(1)), &mut done).unwrap();
                for Event { token, result } in done.drain(..) {
                    match token.owner() {
                        EventOwner::RemoteSend => connection.on_sent(result.is_ok(), &mut driver),
                        _ => connection.on_received(received(result), &mut driver),
                    }
                }
                connection.receive(Token::new(EventOwner::RemoteReceive, 0), &mut driver);
                ended.extend(connection.take_ended());
            }
        }
        let keys: Vec<u32> = ended.iter().map(|(ended, _)| ended.request.key).collect();
        assert_eq!(keys, [2, 0, 1], "cut at {cut}");
        for key in 0..3 {
            let bytes = driver.bytes(place(key));
            let right = |(index, &byte)| byte == (index % 251 + key as usize) as u8;
            assert!(bytes.iter().enumerate().all(right), "{key}, cut at {cut}");
        }
    }
}

/// A policy that measures delays would see the first reply as the latest.
#[test]
fn replies_that_arrive_together_end_in_the_order_of_the_server() {
    const COUNT: u32 = 5;
    let driver = Driver::new(None).unwrap().0;
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let peer = Peer {
        connect: Arc::new(NbdUri::parse("nbd+unix:///?socket=/nowhere").unwrap()),
        socket: Endpoint::Fd(ours.into()),
        export: RemoteExport { size_bytes: SIZE_BYTES as u64, flags: 0, block_bytes: 512 },
        timeout: peer::REPLY_TIMEOUT,
        lock: None,
    };
    let config = MemberConfig::new(1, SIZE_BYTES as u64);
    let members = vec![NewMember { config, source: Source::Remote(peer) }];
    let clock = Clock::new(Speed::REAL);
    let mut executor = Executor::new(driver, clock, members, None, None).unwrap();
    let buffer = executor.driver.acquire(4096);
    for key in 0..COUNT {
        executor.submit(IoRequest {
            token: Token::new(EventOwner::Scrub, key),
            target: Target::Member(MemberIndex(0)),
            kind: RequestKind::Read,
            offset: 0,
            length: 512,
            buffer: Some(buffer),
            stream: 0,
        });
    }
    let (mut replies, mut ended, mut events) = (Vec::new(), Vec::new(), Vec::new());
    while ended.len() < COUNT as usize {
        executor.turn();
        ended.extend(std::iter::from_fn(|| executor.poll_reply()));
        executor.wait(Some(Duration::from_millis(1)), &mut events).unwrap();
        events.drain(..).for_each(|event| executor.on_event(&event));
        theirs.set_nonblocking(true).unwrap();
        let mut header = [0; 28];
        while theirs.read(&mut header).is_ok() {
            replies.extend(simple_reply(0, RawRequest::parse(&header).unwrap().cookie));
            replies.extend([7; 512]);
            if replies.len() == COUNT as usize * (16 + 512) {
                theirs.write_all(&replies).unwrap();
            }
        }
    }
    let keys: Vec<u32> = ended.iter().map(|reply| reply.token.key()).collect();
    assert_eq!(keys, Vec::from_iter(0..COUNT));
}
