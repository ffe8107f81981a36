//! Limits over all clients, in a simulated world: memory, turns of long requests, idle connections.

use super::super::connection::STALL_TIMEOUT;
use super::super::lifecycle::HANDSHAKE_TIMEOUT;
use super::super::memory_budget::MemoryMax;
use crate::clock::{Clock, Speed};
use crate::driver::Driver;
use crate::driver::sim::{ObjectId, SimOptions, SimulatedWorld};
use crate::executor::{Executor, Target};
use crate::export::Export;
use crate::export::nbd::server::{ConnectionsMax, Server};
use crate::member::{NewMember, Source};
use crate::service::{Service, Stopper};
use mirrorball_core::member::{MemberConfig, MemberIndex};
use mirrorball_core::units::Nanos;
use mirrorball_nbd::wire::{OPTION_MAGIC, RawRequest, SIMPLE_REPLY_BYTES, option, request};

const MEMBER_BYTES: u64 = 1 << 40;
const LARGEST: u32 = 32 << 20;

/// A service of one member, and its world.
struct Place {
    world: SimulatedWorld,
    listener: ObjectId,
    service: Service,
    _stopper: Stopper,
}

struct Client {
    socket: ObjectId,
    received: usize,
}

impl Place {
    fn new(connections_max: usize, memory_max: MemoryMax) -> Place {
        let options = SimOptions { file_latency_max: Nanos::from_millis(1), ..Default::default() };
        let world = SimulatedWorld::new(options);
        let (file, listener) = (world.add_file(MEMBER_BYTES), world.add_listener());
        let file = world.endpoint(file);
        let config = MemberConfig::new(1, MEMBER_BYTES);
        let members = vec![NewMember { config, source: Source::Real(file) }];
        let (driver, clock) = (Driver::simulated(&world), Clock::new(Speed::REAL));
        let mut executor = Executor::new(driver, clock, members, None, None).unwrap();
        let export = Export {
            name: "disk".to_owned(),
            description: String::new(),
            target: Target::Member(MemberIndex(0)),
            size_bytes: MEMBER_BYTES,
            block_bytes: 512,
            rotational: false,
            is_read_only: false,
        };
        let socket = executor.driver.adopt_endpoint(world.endpoint(listener)).unwrap();
        let limit = ConnectionsMax(connections_max);
        let server = Server::new(vec![export], vec![socket], limit, &mut executor);
        let server = server.with_memory(memory_max);
        let (service, _stopper) = Service::new(executor, server, None).unwrap();
        Place { world, listener, service, _stopper }
    }

    fn run(&mut self, time: Nanos) {
        let end = self.world.now() + time;
        while self.world.now() < end {
            self.service.turn(Some(end - self.world.now())).unwrap();
        }
    }

    /// A connection that has sent nothing.
    fn connect(&mut self) -> Client {
        let socket = self.world.connect(self.listener);
        self.run(Nanos::from_millis(1));
        Client { socket, received: 0 }
    }

    fn client(&mut self) -> Client {
        let client = self.connect();
        let name = [&OPTION_MAGIC.to_be_bytes()[..], &option::EXPORT_NAME.to_be_bytes(), &[0; 4]];
        self.world.send(client.socket, &[&[0, 0, 0, 3][..], &name.concat()].concat());
        self.run(Nanos::from_millis(2));
        assert_eq!(self.world.receive(client.socket).len(), 18 + 10, "it is served");
        client
    }

    fn send(&self, client: &Client, kind: u16, length: u32, count: usize) {
        let raw = RawRequest { flags: 0, kind, cookie: 7, offset: 0, length };
        self.world.send(client.socket, &raw.bytes().repeat(count));
    }

    /// Receives what arrived at a client; returns the number of bytes so far.
    fn take(&self, client: &mut Client) -> usize {
        client.received += self.world.receive(client.socket).len();
        client.received
    }

    /// Lets a client take its replies until it has received a number of bytes.
    fn takes(&mut self, client: &mut Client, bytes: usize) {
        for _ in 0..1000 {
            if self.take(client) >= bytes {
                return;
            }
            self.run(Nanos::from_millis(1));
        }
        panic!("{} of {bytes} bytes arrived", client.received);
    }

    /// Lets a client read a block, which must take no longer than a few latencies.
    fn reads_soon(&mut self, client: &mut Client) {
        let expected = client.received + SIMPLE_REPLY_BYTES + 4096;
        self.send(client, request::READ, 4096, 1);
        self.run(Nanos::from_millis(10));
        assert_eq!(self.take(client), expected, "the reply is there in time");
    }

    fn is_closed(&self, client: &Client) -> bool {
        self.world.receive(client.socket);
        self.world.is_closed(client.socket)
    }

    fn in_flight(&self) -> u32 {
        self.service.executor().members().map(|(_, stats)| stats.in_flight).sum()
    }
}

#[test]
fn clients_that_take_no_replies_leave_memory_to_others() {
    let mut place = Place::new(100, MemoryMax::LEAST);
    let mut good = place.client();
    let greedy: Vec<Client> = (0..7).map(|_| place.client()).collect();
    for client in &greedy {
        place.send(client, request::READ, LARGEST, 4);
    }
    for _ in 0..100 {
        place.reads_soon(&mut good);
    }
    let reads = |place: &Place| -> u64 {
        place.service.executor().members().map(|(_, stats)| stats.read_bytes).sum()
    };
    let most = MemoryMax::LEAST.0 as u64 + 101 * 4096;
    assert!(reads(&place) <= most, "{} bytes were read for them", reads(&place));
    assert!(greedy.iter().all(|client| !place.world.is_closed(client.socket)));
}

#[test]
fn stalled_clients_are_closed_when_others_wait_for_memory() {
    let mut place = Place::new(100, MemoryMax::LEAST);
    let (mut first, mut second) = (place.client(), place.client());
    for client in [&first, &second] {
        place.send(client, request::READ, LARGEST, 1);
        place.run(Nanos::from_millis(5));
    }
    let whole = SIMPLE_REPLY_BYTES + LARGEST as usize;
    // The first takes its reply slowly: it keeps its memory for as long as that takes.
    let mut seconds = 0;
    while place.take(&mut first) < whole {
        assert!(!place.is_closed(&second) && seconds < 1000);
        let expected = first.received + (4 << 20);
        place.takes(&mut first, expected.min(whole));
        place.run(STALL_TIMEOUT / 2);
        seconds += 1;
    }
    place.takes(&mut second, whole);
    // Two that do nothing, and a third that waits.
    let silent = place.client();
    let writing = place.client();
    place.send(&silent, request::READ, LARGEST, 1);
    place.send(&writing, request::WRITE, LARGEST / 4, 1);
    place.run(STALL_TIMEOUT * 5);
    assert!(!place.world.is_closed(silent.socket), "no other client waits for its memory");
    let mut third = place.client();
    place.send(&third, request::READ, LARGEST, 1);
    place.run(STALL_TIMEOUT + Nanos::from_secs(3));
    assert!(place.is_closed(&silent) && place.is_closed(&writing));
    place.takes(&mut third, whole);
}

#[test]
fn every_client_gets_its_largest_requests() {
    let mut place = Place::new(100, MemoryMax::LEAST);
    let mut clients: Vec<Client> = (0..5).map(|_| place.client()).collect();
    for client in &clients {
        place.send(client, request::READ, LARGEST, 3);
        place.send(client, request::READ, 4096, 10);
    }
    let expected = 3 * (SIMPLE_REPLY_BYTES + LARGEST as usize) + 10 * (SIMPLE_REPLY_BYTES + 4096);
    let (mut turns, mut left) = (0, clients.len());
    while left > 0 {
        place.run(Nanos::from_millis(1));
        left =
            clients.iter_mut().filter_map(|it| (place.take(it) < expected).then_some(())).count();
        turns += 1;
        assert!(turns < 100_000, "{left} clients wait for ever");
    }
}

#[test]
fn long_requests_take_turns_and_end_with_their_client() {
    let mut place = Place::new(100, MemoryMax::default());
    let (mut good, greedy) = (place.client(), place.client());
    place.send(&greedy, request::WRITE_ZEROES, 1 << 31, 256);
    for _ in 0..5 {
        place.reads_soon(&mut good);
        assert!((1..=3).contains(&place.in_flight()), "{} at once", place.in_flight());
    }
    // Another client's request is not behind those 256.
    place.send(&good, request::WRITE_ZEROES, 4 << 20, 1);
    place.run(Nanos::from_millis(50));
    assert_eq!(place.take(&mut good), 5 * (SIMPLE_REPLY_BYTES + 4096) + SIMPLE_REPLY_BYTES);
    place.world.close(greedy.socket);
    place.run(Nanos::from_millis(20));
    assert_eq!(place.in_flight(), 0, "it has left");
    place.reads_soon(&mut good);
}

#[test]
fn handshakes_end_in_time() {
    let mut place = Place::new(100, MemoryMax::default());
    let (mut good, silent) = (place.client(), place.connect());
    place.run(HANDSHAKE_TIMEOUT / 2);
    assert!(!place.is_closed(&silent));
    let late = place.connect();
    place.run(HANDSHAKE_TIMEOUT / 2 + Nanos::from_millis(5));
    assert!(place.is_closed(&silent) && !place.is_closed(&late));
    place.run(HANDSHAKE_TIMEOUT);
    assert!(place.is_closed(&late));
    place.reads_soon(&mut good);
}

#[test]
fn idle_connections_make_room_for_new_ones() {
    let mut place = Place::new(10, MemoryMax::default());
    let mut good = place.client();
    let idle: Vec<Client> = (0..9).map(|_| place.client()).collect();
    for oldest in &idle {
        place.reads_soon(&mut good);
        let mut late = place.client();
        place.reads_soon(&mut late);
        assert!(place.is_closed(oldest), "the one that was idle for longest");
    }
    place.reads_soon(&mut good);
}
