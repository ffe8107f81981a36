//! A server and its clients, valid and invalid, over real sockets.

use crate::address::ListenAddress;
use crate::assemble::{Assembly, ExportMode, emulate_in_memory};
use crate::clock::Speed;
use crate::control::protocol::{ControlRequest, MemberReport, ServiceStatus, ask};
use crate::control::{Control, Endpoint, Protocol};
use crate::driver::{BackendKind, PeerPlace};
use crate::export::nbd::server::{ConnectionsMax, Server};
use crate::service::{Service, Stopper};
use mirrorball_nbd::handshake::greeting;
use mirrorball_nbd::wire::{
    DATA_BYTES_MAX, DATA_CHUNK_BYTES, OPTION_MAGIC, REQUEST_MAGIC, SIMPLE_REPLY_BYTES, WireError,
    chunk_header, data_chunk, option, request, simple_reply,
};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::JoinHandle;
use tempfile::TempDir;

/// A service in a thread of its own, on a disk that takes 50 us for everything.
struct Place {
    folder: TempDir,
    stopper: Stopper,
    thread: JoinHandle<()>,
}

impl Place {
    fn new(connections_max: usize, backend: Option<BackendKind>) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nbd");
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let (mut service, stopper) = service(path, connections_max, backend);
            sender.send(stopper).unwrap();
            service.run().unwrap();
        });
        Place { folder, stopper: receiver.recv().unwrap(), thread }
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(self.folder.path().join("nbd")).unwrap()
    }

    fn client(&self, structured: bool) -> Client {
        let mut socket = self.connect();
        let mut hello = [0; 18];
        socket.read_exact(&mut hello).unwrap();
        assert_eq!(hello, greeting());
        socket.write_all(&[0, 0, 0, 3]).unwrap();
        if structured {
            put_option(&mut socket, option::STRUCTURED_REPLY, &[]);
            socket.read_exact(&mut [0; 20]).unwrap();
        }
        put_option(&mut socket, option::EXPORT_NAME, b"");
        let mut export = [0; 10];
        socket.read_exact(&mut export).unwrap();
        assert_eq!(export[..8], (8u64 << 20).to_be_bytes());
        Client { socket }
    }

    fn disk(&self) -> MemberReport {
        let path = self.folder.path().join("nbd.control");
        let mut members: Vec<MemberReport> = ask(&path, &ControlRequest::Members).unwrap();
        members.swap_remove(0)
    }

    fn connections(&self) -> usize {
        let path = self.folder.path().join("nbd.control");
        ask::<ServiceStatus>(&path, &ControlRequest::Status).unwrap().connections
    }

    /// Ends the service, which must end in good order.
    fn stop(self) {
        self.stopper.stop();
        self.thread.join().unwrap();
    }
}

fn service(
    path: PathBuf,
    connections_max: usize,
    backend: Option<BackendKind>,
) -> (Service, Stopper) {
    let text = "profile = \"single\"\n[[member]]\nmodel = \"delay\"\nsize = \"8MiB\"\n";
    let Assembly { mut executor, exports, .. } = emulate_in_memory(
        text,
        ExportMode::Members,
        "first",
        Speed::parse("10x").unwrap(),
        backend,
    );
    let control = path.with_extension("control");
    let listener = executor.driver.adopt(ListenAddress::Unix(path).bind().unwrap().socket).unwrap();
    let control =
        executor.driver.adopt(ListenAddress::Unix(control).bind().unwrap().socket).unwrap();
    let most = ConnectionsMax(connections_max);
    let server = Server::new(exports, vec![listener], most, &mut executor);
    let endpoints = vec![Endpoint { listener: control, protocol: Protocol::JsonLines }];
    let control = Control::new("disk".to_owned(), None, endpoints, &mut executor);
    Service::new(executor, server, Some(control)).unwrap()
}

struct Client {
    socket: UnixStream,
}

impl Client {
    fn send(&mut self, kind: u16, flags: u16, offset: u64, length: u32, data: &[u8]) {
        self.socket
            .write_all(&[&request_bytes(kind, flags, offset, length), data].concat())
            .unwrap();
    }

    fn simple(&mut self) -> u32 {
        let mut reply = [0; SIMPLE_REPLY_BYTES];
        self.socket.read_exact(&mut reply).unwrap();
        let error = u32::from_be_bytes(reply[4..8].try_into().unwrap());
        assert_eq!(reply, simple_reply(error, COOKIE));
        error
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> u32 {
        self.send(request::WRITE, 0, offset, data.len() as u32, data);
        self.simple()
    }

    fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        self.send(request::READ, 0, offset, length, &[]);
        assert_eq!(self.simple(), 0);
        let mut data = vec![0; length as usize];
        self.socket.read_exact(&mut data).unwrap();
        data
    }

    /// Whether the server hung up; what it sent before is thrown away.
    fn sees_disconnect(mut self) -> bool {
        self.socket.read_to_end(&mut Vec::new()).is_ok()
    }
}

const COOKIE: u64 = 0x0123_4567_89ab_cdef;

fn request_bytes(kind: u16, flags: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(COOKIE.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

fn put_option(socket: &mut UnixStream, number: u32, data: &[u8]) {
    let length = (data.len() as u32).to_be_bytes();
    let bytes = [&OPTION_MAGIC.to_be_bytes()[..], &number.to_be_bytes(), &length, data].concat();
    socket.write_all(&bytes).unwrap();
}

#[test]
fn requests_are_served_by_either_backend() {
    for backend in [None, Some(BackendKind::Threads)] {
        let place = Place::new(10, backend);
        let mut client = place.client(false);
        let data: Vec<u8> = (0..1 << 20).map(|index| (index % 251) as u8).collect();
        assert_eq!(client.write(4096, &data), 0, "longer than the receive buffer");
        assert!(client.read(4096, 1 << 20) == data);
        assert_eq!(place.disk().flushes, 0, "no flush was requested");
        for (kind, flushes) in [(request::FLUSH, 1), (request::TRIM, 2)] {
            client.send(kind, request::FLAG_FUA, 4096, 4096, &[]);
            assert_eq!(client.simple(), 0);
            assert_eq!(place.disk().flushes, flushes, "FUA requests flush");
        }
        assert!(client.read(4096, 4096).iter().all(|&byte| byte == 0), "trimmed");
        client.send(request::WRITE_ZEROES, request::FLAG_FUA, 0, 3 << 20, &[]);
        assert_eq!(client.simple(), 0);
        assert!(client.read(1 << 20, 4096).iter().all(|&byte| byte == 0), "zeroed");

        let mut other = place.client(true);
        assert_eq!(other.write(512, &[9; 512]), 0);
        other.send(request::READ, 0, 512, 512, &[]);
        let mut reply = [0; DATA_CHUNK_BYTES + 512];
        other.socket.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..DATA_CHUNK_BYTES], data_chunk(COOKIE, 512, 512));
        assert_eq!(reply[DATA_CHUNK_BYTES..], [9; 512]);
        assert_eq!(client.read(512, 512), [9; 512], "both clients read the same");
        place.stop();
    }
}

#[test]
fn requests_may_arrive_in_parts() {
    let place = Place::new(10, None);
    let mut client = place.client(false);
    let bytes = request_bytes(request::READ, 0, 0, 4096);
    for cut in [1, 10, 27] {
        client.socket.write_all(&[&bytes[..], &bytes[..cut]].concat()).unwrap();
        for rest in [&bytes[cut..], &[]] {
            assert_eq!(client.simple(), 0);
            client.socket.read_exact(&mut [0; 4096]).unwrap();
            client.socket.write_all(rest).unwrap();
        }
    }
    place.stop();
}

#[test]
fn rejected_requests_keep_the_connection() {
    let place = Place::new(10, None);
    let mut client = place.client(false);
    let end = 8 << 20;
    for (kind, flags, offset, length, error) in [
        (request::READ, 0, end, 512, WireError::Invalid),
        (request::READ, 0, 100, 512, WireError::Invalid),
        (request::READ, 0, 0, 0, WireError::Invalid),
        (request::READ, 0, u64::MAX - 511, 512, WireError::Invalid),
        (request::READ, 0, 0, DATA_BYTES_MAX + 512, WireError::Overflow),
        (request::TRIM, 1 << 9, 0, 512, WireError::Invalid),
        (request::BLOCK_STATUS, 0, 0, 512, WireError::Invalid),
        (4711, 0, 0, 512, WireError::Unsupported),
    ] {
        client.send(kind, flags, offset, length, &[]);
        assert_eq!(client.simple(), error as u32, "{kind} {offset} {length}");
    }
    assert_eq!(client.write(end - 512, &[1; 400 << 10]), WireError::NoSpace as u32);
    let mut structured = place.client(true);
    structured.send(request::READ, 0, end, 512, &[]);
    let mut reply = [0; 26];
    structured.socket.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..20], chunk_header(1 << 15 | 1, COOKIE, 6));
    assert!(client.read(0, 4096).iter().all(|&byte| byte == 0), "still in step");
    place.stop();
}

/// Each is one way to misbehave; the server hangs up on it, or it on the server.
#[test]
fn invalid_clients_do_not_affect_others() {
    let place = Place::new(100, None);
    let mut good = place.client(false);
    assert_eq!(good.write(0, &[5; 4096]), 0);
    for round in 0..20u8 {
        let mut garbage = place.connect();
        garbage.write_all(&[round; 3000]).unwrap();
        drop(garbage);
        let mut client = place.client(false);
        client.socket.write_all(&[0xa5; 5000]).unwrap();
        assert!(client.sees_disconnect(), "garbage for a request");
        let mut client = place.client(false);
        client.send(request::WRITE, 0, 0, DATA_BYTES_MAX + 1, &[1; 100]);
        assert!(client.sees_disconnect(), "more data than the limit");
        // Promises much, sends little, and is gone.
        let mut client = place.client(false);
        client.send(request::WRITE, 0, 0, 1 << 20, &[1; 5000]);
        drop(client);
        // Asks for much, and is gone before it comes.
        let mut client = place.client(true);
        for _ in 0..50 {
            client.send(request::READ, 0, 0, 1 << 20, &[]);
        }
        drop(client);
        // Shuts down its sending side and still gets its replies.
        let mut client = place.client(false);
        client.send(request::READ, 0, 0, 512, &[]);
        client.socket.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.simple(), 0);
        assert!(client.sees_disconnect());
        assert_eq!(good.read(0, 4096), [5; 4096], "round {round}");
    }
    place.stop();
}

#[test]
fn disconnect_in_the_middle_of_a_write() {
    let place = Place::new(1000, None);
    for _ in 0..100 {
        let mut client = place.client(false);
        // The reply to the read cannot be sent, and bytes of the write arrive all the same.
        client.socket.shutdown(Shutdown::Read).unwrap();
        let read = request_bytes(request::READ, 0, 0, 4096);
        let write = request_bytes(request::WRITE, 0, 0, 1 << 20);
        client.socket.write_all(&[&read[..], &write, &[1; 100]].concat()).unwrap();
        while client.socket.write_all(&[1]).is_ok() {}
    }
    // The last may still be on their way out.
    assert!((0..10_000).any(|_| place.connections() == 0), "{} are left", place.connections());
    place.stop();
}

#[test]
fn requests_wait_while_a_client_reads_no_replies() {
    let place = Place::new(10, None);
    let mut good = place.client(false);
    // Answers of 1 GiB; and as many small ones, of which each takes a buffer.
    for (length, least) in [(1 << 20, 64), (512, 256)] {
        let mut greedy = place.client(false);
        greedy.socket.set_nonblocking(true).unwrap();
        let requests = request_bytes(request::READ, 0, 0, length).repeat(1024);
        let (before, mut taken) = (place.disk().reads, 0);
        for _ in 0..200 {
            taken += greedy.socket.write(&requests[taken..]).unwrap_or(0);
            assert_eq!(good.read(0, 4096).len(), 4096);
        }
        // What its socket holds is sent, and so much more is kept.
        let answered = place.disk().reads - before - 200;
        assert!((least..2 * least + 256).contains(&answered), "{answered} of {length} bytes");
    }
    place.stop();
}

#[test]
fn handshake_waits_while_a_client_reads_no_replies() {
    let place = Place::new(10, None);
    let mut good = place.client(false);
    let mut greedy = place.connect();
    greedy.read_exact(&mut [0; 18]).unwrap();
    let option =
        |number: u32| [&OPTION_MAGIC.to_be_bytes()[..], &number.to_be_bytes(), &[0; 4]].concat();
    let count = 1 << 18;
    let lists = option(option::LIST).repeat(count);
    let input = [&[0, 0, 0, 3][..], &lists, &option(option::ABORT)].concat();
    greedy.set_nonblocking(true).unwrap();
    let mut taken = 0;
    for _ in 0..200 {
        taken += greedy.write(&input[taken..]).unwrap_or(0);
        assert_eq!(good.read(0, 512).len(), 512);
    }
    assert!(taken < input.len() / 2, "{taken} bytes of options were taken");
    // Once the answers are taken it goes on as if nothing had been.
    greedy.set_nonblocking(false).unwrap();
    let mut reader = greedy.try_clone().unwrap();
    let answers = std::thread::spawn(move || {
        let mut answers = Vec::new();
        reader.read_to_end(&mut answers).unwrap();
        answers
    });
    greedy.write_all(&input[taken..]).unwrap();
    let answers = answers.join().unwrap();
    let (lists, end) = answers.split_at(answers.len() - 20);
    assert_eq!(end[8..12], option::ABORT.to_be_bytes());
    assert_eq!(lists.len() % count, 0);
    let one = lists.len() / count;
    assert!(lists.chunks(one).all(|answer| *answer == lists[..one]), "each is answered alike");
    place.stop();
}

/// A service of its own loop, so that every moment of it is seen.
#[test]
fn trim_of_a_striped_volume_is_split() {
    let text = "profile = \"raid10\"\n[[member]]\nmodel = \"delay\"\nsize = \"4GiB\"\ncount = 4\n";
    let Assembly { mut executor, exports, .. } =
        emulate_in_memory(text, ExportMode::Volume, "first", Speed::parse("10x").unwrap(), None);
    let mut server = Server::new(exports, Vec::new(), ConnectionsMax(1), &mut executor);
    let (ours, mut socket) = UnixStream::pair().unwrap();
    let ours = executor.driver.adopt(ours.into()).unwrap();
    server.on_connection(ours, PeerPlace::Unknown, &mut executor);
    socket.write_all(&[0, 0, 0, 3]).unwrap();
    put_option(&mut socket, option::EXPORT_NAME, b"");
    let length = u32::MAX - 511;
    socket.write_all(&request_bytes(request::TRIM, 0, 0, length)).unwrap();
    socket.set_nonblocking(true).unwrap();
    let (mut done, mut answers, mut most) = (Vec::new(), Vec::new(), 0);
    let expected = 18 + 10 + SIMPLE_REPLY_BYTES;
    while answers.len() < expected {
        executor.turn();
        most = most.max(executor.members().map(|(_, stats)| stats.in_flight).sum());
        while let Some(ended) = executor.poll_reply() {
            server.on_reply(ended, &mut executor);
        }
        server.flush(&mut executor);
        let _ = socket.read_to_end(&mut answers);
        executor.wait(Some(std::time::Duration::from_millis(1)), &mut done).unwrap();
        for done in done.drain(..) {
            match done.token.owner() {
                crate::driver::EventOwner::MemberFile => executor.on_event(&done),
                _ => server.on_event(done, &mut executor),
            }
        }
    }
    assert_eq!(answers[28..], simple_reply(0, COOKIE));
    assert!((1..=4096).contains(&most), "{most} member I/Os at once");
}

#[test]
fn idle_handshakes_are_closed_for_new_connections() {
    crate::service::raise_limits();
    let place = Place::new(200, None);
    let mut good = place.client(false);
    let silent: Vec<UnixStream> = (0..1000).map(|_| place.connect()).collect();
    assert_eq!(good.write(0, &[5; 4096]), 0);
    let mut late = place.client(false);
    assert_eq!(late.read(0, 4096), [5; 4096]);
    drop(silent);
    assert_eq!(good.read(0, 4096), [5; 4096]);
    place.stop();
}

#[test]
fn stop_answers_requests_in_flight() {
    let place = Place::new(10, None);
    let mut client = place.client(false);
    assert_eq!(client.write(0, &[5; 4096]), 0);
    // One of them has arrived when the answer to it is there; the rest is on its way.
    for _ in 0..200 {
        client.send(request::READ, 0, 0, 4096, &[]);
    }
    assert_eq!(client.simple(), 0);
    client.socket.read_exact(&mut [0; 4096]).unwrap();
    place.stopper.stop();
    let mut rest = Vec::new();
    client.socket.read_to_end(&mut rest).unwrap();
    place.stop();
    assert_eq!(rest.len() % (SIMPLE_REPLY_BYTES + 4096), 0, "no answer is cut");
}
