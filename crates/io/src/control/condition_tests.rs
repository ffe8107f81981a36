//! Disks that hang or fail, as conditions and events report them, and what a user can do then.

use super::conditions::WatchedParts;
use super::*;
use crate::assemble::Assembly;
use crate::device_address::DeviceAddress;
use crate::driver::sim::{FileFault, ObjectId, SimOptions, SimulatedWorld};
use crate::executor::fault_tests::labelled;
use crate::executor::{IoRequest, Target};
use crate::export::nbd::server::ConnectionsMax;
use crate::member::file::Occupied;
use crate::rebuild::{RebuildRequest, RebuildStart};
use crate::reopen::{MemberPlace, Reopener};
use mirrorball_core::io::RequestKind;
use mirrorball_core::member::{MemberIndex, MemberState};
use std::time::Duration;

const LENGTH: usize = 1 << 20;

/// A mirrored volume of `/a` and `/b`, and an empty disk `/c`.
struct Place {
    world: SimulatedWorld,
    files: [ObjectId; 3],
    executor: Executor,
    server: Server,
    rebuild: Rebuild,
    scrub: Scrub,
    spares: Spares,
    events: EventLog,
    buffer: BufferKey,
    /// Number of requests that ended.
    ended: usize,
}

impl Place {
    fn new() -> Place {
        let world = SimulatedWorld::new(SimOptions::default());
        let files = ["/a", "/b", "/c"].map(|path| {
            let file = world.add_file(16 << 20);
            world.set_path(path, file);
            file
        });
        let Assembly { mut executor, exports, opener, .. } = labelled(&world);
        let server = Server::new(exports, Vec::new(), ConnectionsMax(1), &mut executor);
        let reopener = opener.map(|opener| Reopener::new(opener, &mut executor.driver).unwrap());
        let buffer = executor.driver.acquire(LENGTH);
        executor.driver.bytes_mut(Slice::data(buffer, 0, LENGTH)).fill(7);
        let mut place = Place {
            rebuild: Rebuild::new(&mut executor).with_reopener(reopener),
            scrub: Scrub::new(&executor),
            spares: Spares::default(),
            events: EventLog::default(),
            ended: 0,
            world,
            files,
            executor,
            server,
            buffer,
        };
        // The mirrors are synchronised first.
        place.run_for(Nanos::from_secs(20));
        assert_eq!(place.conditions(), "");
        place
    }

    /// As a turn of the service: waits for an event or a timer.
    fn turn(&mut self, limit: Nanos) {
        let timer = self.rebuild.step(&mut self.executor);
        while self.rebuild.poll_reply().is_some() || self.rebuild.poll_replaced().is_some() {}
        self.executor.turn();
        while let Some(reply) = self.executor.poll_reply() {
            match reply.token.owner() {
                EventOwner::Rebuild => self.rebuild.on_reply(reply, &self.executor),
                _ => self.ended += 1,
            }
        }
        let Place { executor, rebuild, scrub, spares, events, .. } = self;
        events.observe(WatchedParts { executor, rebuild, scrub, spares });
        let timers = [timer, executor.until_stalled(), Some(limit)].into_iter().flatten();
        let timeout = timers.min().map(|timeout| Duration::from_nanos(timeout.0));
        let mut done = Vec::new();
        executor.wait(timeout, &mut done).unwrap();
        let is_of_member = |done: &&Event| {
            matches!(done.token.owner(), EventOwner::MemberFile | EventOwner::SuccessorFile)
        };
        done.iter().filter(is_of_member).for_each(|done| executor.on_event(done));
    }

    fn run_for(&mut self, time: Nanos) {
        let end = self.world.now() + time;
        while self.world.now() < end {
            self.turn(end.saturating_sub(self.world.now()));
        }
    }

    /// Turns until this is so, without other timers than those of the service.
    fn run_until(&mut self, what: &str, is_so: impl Fn(&Place) -> bool) {
        let end = self.world.now() + Nanos::from_secs(300);
        while !is_so(self) {
            assert!(self.world.now() < end, "{what}: {}", self.conditions());
            self.turn(Nanos::from_secs(300));
        }
        // Events are recorded by the next one.
        self.turn(Nanos::ZERO);
    }

    fn write(&mut self) {
        self.executor.submit(IoRequest {
            token: Token::new(EventOwner::NbdRequest, 1),
            target: Target::Volume,
            kind: RequestKind::Write,
            offset: 0,
            length: LENGTH as u64,
            buffer: Some(self.buffer),
            stream: 1,
        });
    }

    /// Has a device take the place of devid 2, at a rate that copies a step of it.
    fn replace(&mut self, device: &str, rate: Option<u64>) -> Result<RebuildStart, RebuildError> {
        let address = DeviceAddress::parse(device).unwrap();
        let place = MemberPlace::New(address, Occupied::Refuse);
        let request = RebuildRequest { devid: 2, replacement: Some(place), rate, client: 1 };
        self.rebuild.begin(request, &mut self.executor)
    }

    fn fail(&mut self) -> Result<String, RequestError> {
        let Place { executor, server, rebuild, scrub, spares, .. } = self;
        member_commands::fail(2, &mut ServiceParts { executor, server, rebuild, scrub, spares })
    }

    fn set_fault(&self, disk: usize, fault: FileFault) {
        self.world.set_fault(self.files[disk], fault);
    }

    fn conditions(&self) -> String {
        let Place { executor, rebuild, scrub, spares, .. } = self;
        let conditions = WatchedParts { executor, rebuild, scrub, spares }.conditions();
        conditions.iter().map(|it| format!("{}: {it}\n", it.name)).collect()
    }

    fn has(&self, condition: &str) -> bool {
        self.conditions().lines().any(|line| line.starts_with(condition))
    }

    /// The texts of the events of a kind since the start that are about this condition.
    fn events(&self, kind: &str, condition: &str) -> Vec<String> {
        let lines = self.events.lines_after(0);
        let events = lines.lines().map(|line| serde_json::from_str(line).unwrap());
        let events =
            events.filter(|it: &serde_json::Value| it["event"] == kind && it["name"] == condition);
        events.map(|it| it["text"].as_str().unwrap().to_owned()).collect()
    }

    fn state(&self) -> MemberState {
        self.executor.volume().unwrap().members()[MemberIndex(1)].state
    }
}

const MEMBER: &str = "devid 2 (/b) does not answer: no I/O has ended for 30 s, with 1 in flight";

#[test]
fn a_disk_that_hangs_is_reported_also_while_it_is_copied() {
    let mut place = Place::new();
    place.set_fault(1, FileFault::Hangs);
    place.write();
    place.run_until("stalled", |place| place.has("member-stalled"));
    assert_eq!(place.events("began", "member-stalled"), [MEMBER]);
    assert_eq!(place.replace("/c", Some(1)), Ok(RebuildStart::Opening));
    place.run_for(Nanos::from_secs(10));
    assert!(place.has("member-replacing") && place.has("member-stalled"));
    assert_eq!(place.events("ended", "member-stalled"), [""; 0]);
    place.set_fault(1, FileFault::None);
    place.run_until("the write", |place| place.ended == 1);
    let over = "devid 2 (/b): it answers again; it is in sync now";
    assert_eq!(place.events("ended", "member-stalled"), [over]);
}

/// The member answers, and nothing is said of it.
#[test]
fn a_hung_device_to_which_a_member_is_copied_is_reported_and_given_up() {
    let mut place = Place::new();
    assert_eq!(place.replace("/c", Some(1)), Ok(RebuildStart::Opening));
    place.run_for(Nanos::from_secs(10));
    place.set_fault(2, FileFault::Hangs);
    place.write();
    place.run_until("stalled", |place| place.has("replace-stalled"));
    let text = "/c, to which devid 2 (/b) is being copied, does not answer: no I/O has ended for \
                30 s, with 1 in flight";
    assert_eq!(place.events("began", "replace-stalled"), [text]);
    assert!(place.conditions().contains("ctl members remove --spare /c` ends the copy"));
    assert!(place.rebuild.end_copy_to("/c", &mut place.executor).is_some());
    place.run_for(Nanos::from_secs(40));
    assert!(!place.has("replace-stalled") && !place.has("member-stalled"));
    assert_eq!(place.ended, 0, "the write waits for the device");
    // An error of the device that was given up says nothing of the next one.
    let next = place.world.add_file(16 << 20);
    place.world.set_path("/d", next);
    assert_eq!(place.replace("/d", Some(1)), Ok(RebuildStart::Opening));
    place.run_for(Nanos::from_secs(10));
    place.set_fault(2, FileFault::Fails(rustix::io::Errno::NODEV));
    place.run_until("the write", |place| place.ended == 1);
    place.run_for(Nanos::from_secs(1));
    assert!(place.has("member-replacing") && !place.has("replace-failed"));
}

/// As the condition advises: neither command waits for the disk.
#[test]
fn a_member_that_hangs_is_failed_and_replaced() {
    for is_opened_before in [false, true] {
        let mut place = Place::new();
        place.write();
        place.run_until("the first write", |place| place.ended == 1);
        place.set_fault(1, FileFault::Hangs);
        place.write();
        place.run_until("stalled", |place| place.has("member-stalled"));
        if is_opened_before {
            assert_eq!(place.replace("/c", None), Ok(RebuildStart::Opening));
        }
        assert!(place.fail().unwrap().contains("devid 2 is failed"));
        if !is_opened_before {
            place.run_for(Nanos::from_secs(1));
            let again = place.replace("/b", None).unwrap_err().to_string();
            assert!(again.contains("before its failure is still in flight"), "{again}");
            assert_eq!(place.replace("/c", None), Ok(RebuildStart::Opening));
            // The rebuild would undo it.
            let refused = place.fail().unwrap_err().error;
            assert!(refused.contains("\n  help: run the command again"), "{refused}");
        }
        place.run_until("a rebuild", |place| place.has("member-rebuilding"));
        assert!(!place.has("member-stalled"));
        place.run_for(Nanos::from_secs(10));
        assert_eq!(place.ended, 1, "the write waits for the disk");
        place.set_fault(1, FileFault::None);
        place.run_until("in sync", |place| place.state() == MemberState::InSync);
        assert_eq!(place.ended, 2);
        let read = |disk| place.world.read_file(place.files[disk], 1 << 20, LENGTH);
        assert!(read(2) == [7; LENGTH] && read(0) == read(2));
    }
}

/// Without the request it comes back at the next start.
#[test]
fn a_member_that_failed_by_itself_is_failed_by_the_user_too() {
    let mut place = Place::new();
    place.set_fault(1, FileFault::FailsWrites);
    place.write();
    place.run_until("failed", |place| place.has("member-failed"));
    assert!(place.conditions().contains("the next start takes it back by itself"));
    assert!(place.fail().unwrap().contains("devid 2 is failed, also after a restart"));
    place.turn(Nanos::ZERO);
    let texts = place.events("changed", "member-failed");
    assert!(texts[0].ends_with("; then requested by an operator"), "{texts:?}");
    assert!(!place.conditions().contains("the next start"));
}
