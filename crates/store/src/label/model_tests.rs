//! An exhaustive model of who is current: three members and one that was replaced, and everything
//! that operators, disks and power cuts do to them, in every order up to some number of events.
//!
//! The model has the labels and the rules of assembly of the product; data are the sets of writes
//! that a device has in each half of the volume. Checked at each start:
//!
//! - members in sync have the same writes, and one that is rebuilt so far as its state says;
//! - a device that is called older, or no member, has no write that they lack;
//! - the members that were in sync last start, whatever else is connected, as long as no other
//!   device was used without them;
//! - the order of the devices decides nothing.
//!
//! States that differ only in names of ids and in exact generations are one state.

use super::assembly::{
    ArrayVerdict, FoundMember, LabelAssembly, MemberStanding, assemble, tests as worked_cases,
};
use super::{DataId, Label, MemberLabel, NewestLabel, Uuid};
use mirrorball_core::geometry::Profile;
use mirrorball_core::member::MemberState;
use mirrorball_core::rng::Rng;
use std::collections::{BTreeSet, HashSet};

const MEMBERS: usize = 3;
/// Place of the device that was replaced.
const OLD: usize = 3;
const STALE: MemberState = MemberState::Rebuilding { recovered_bytes: 0 };
const HALF_BYTES: u64 = 1 << 20;
const HALF: MemberState = MemberState::Rebuilding { recovered_bytes: HALF_BYTES };
/// Departures after which a label has forgotten what came before.
const CHURN: usize = 9;

#[derive(Clone, PartialEq, Eq, Debug)]
struct Device {
    label: MemberLabel,
    previous: Option<Label>,
    /// By half of the volume.
    writes: [u32; 2],
}

#[derive(Clone, Debug)]
struct Session {
    label: Label,
    places: [Option<usize>; MEMBERS],
    /// Rows of members that have not the newest label yet, and the label.
    behind: Vec<(usize, Label)>,
}

#[derive(Clone, Debug)]
struct World {
    devices: [Option<Device>; MEMBERS + 1],
    snapshot: Option<(usize, Device)>,
    session: Option<Session>,
    /// Places of the devices that were in sync by the last labels, unless some were put back since
    /// or the labels were not all written.
    last: Option<BTreeSet<usize>>,
    /// Places in sync before or after labels that were not all written, if none was put back since.
    interrupted: Option<BTreeSet<usize>>,
    /// Places in sync by labels that say that others left and were not all written. They may have
    /// been, if a damaged slot hides it, so to go on with those that left, or without one that has
    /// the label, is to diverge.
    announced: Option<(DataId, BTreeSet<usize>)>,
    /// True if devices were used without those that were in sync last.
    has_diverged: bool,
    /// True if members left so often that labels have forgotten what came before.
    has_churned: bool,
    /// True if a start that is refused without need breaks a rule.
    must_start: bool,
    drawn: u64,
    written: u32,
}

/// A change of labels ends after so many label writes, of the first members first or last.
#[derive(Clone, Copy, Debug)]
struct Cut {
    writes: usize,
    is_reversed: bool,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A start with the devices of this set of places, and with `--degraded` where it takes that.
    Start(u8, Option<Cut>),
    Write,
    Leave(usize, Option<Cut>),
    Return(usize, Option<Cut>),
    /// The member returns, and is rebuilt in part.
    ReturnInPart(usize, Option<Cut>),
    /// The member leaves and returns many times.
    Churn(usize),
    /// Another device takes the place of a member that is not in sync.
    Replace(usize),
    /// The service ends, in good order or not: no label is under way.
    Stop,
    Snapshot(usize),
    PutBack,
}

impl World {
    fn new() -> World {
        let states = [MemberState::InSync; MEMBERS];
        let device = |number: u8| {
            let mut label = worked_cases::found(number, 1, &[1], &states);
            label.label.array.profile = Profile::Raid1c3;
            Device { label, previous: None, writes: [0; 2] }
        };
        World {
            devices: [Some(device(1)), Some(device(2)), Some(device(3)), None],
            snapshot: None,
            session: None,
            last: Some((0..MEMBERS).collect()),
            interrupted: None,
            announced: None,
            has_diverged: false,
            has_churned: false,
            must_start: true,
            drawn: 1000,
            written: 0,
        }
    }

    fn events(&self) -> Vec<Event> {
        let cut = |writes, is_reversed| Some(Cut { writes, is_reversed });
        let cuts = || {
            let both = (1..6).flat_map(move |at| [cut(at, false), cut(at, true)]);
            std::iter::once(None).chain(both)
        };
        let mut events = Vec::new();
        let Some(session) = &self.session else {
            let is_there = |places: u8| {
                (0..=OLD).all(|place| places & 1 << place == 0 || self.devices[place].is_some())
            };
            for places in (1..16).filter(|&places| is_there(places)) {
                let few = [None, cut(1, false), cut(1, true), cut(3, false)];
                events.extend(few.map(|cut| Event::Start(places, cut)));
            }
            match &self.snapshot {
                None => events.extend((0..MEMBERS).map(Event::Snapshot)),
                Some(_) => events.push(Event::PutBack),
            }
            return events;
        };
        events.extend([Event::Stop, Event::Write]);
        let in_sync = session.in_sync().count();
        for row in 0..MEMBERS {
            let is_in_sync = session.label.members[row].state == MemberState::InSync;
            match (is_in_sync, session.places[row]) {
                (true, _) if in_sync > 1 => {
                    events.extend(cuts().map(|cut| Event::Leave(row, cut)));
                    events.push(Event::Churn(row));
                }
                (true, _) => {}
                (false, place) => {
                    if place.is_some() {
                        events.extend(cuts().map(|cut| Event::Return(row, cut)));
                        if session.label.members[row].state != HALF {
                            events.extend(cuts().map(|cut| Event::ReturnInPart(row, cut)));
                        }
                    }
                    if place.is_none_or(|place| place == row) && self.devices[OLD].is_none() {
                        events.push(Event::Replace(row));
                    }
                }
            }
        }
        events
    }

    /// The world after the last event of its history. Fails if a rule is broken.
    fn after(&self, history: &[Event]) -> Result<World, String> {
        let mut after = self.clone();
        let event = *history.last().expect("there is an event");
        after.apply(event).map(|()| after).map_err(|broken| {
            let labels = self.devices.iter().flatten().map(|it| brief(&it.label.label));
            format!("{broken}\nafter {history:?}\nlabels {:#?}", labels.collect::<Vec<_>>())
        })
    }

    fn apply(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Start(places, cut) => self.start(places, cut)?,
            Event::Write => self.write(),
            Event::Leave(row, cut) => self.set(row, MemberState::Failed, cut),
            Event::Return(row, cut) => self.rebuild(row, MemberState::InSync, cut),
            Event::ReturnInPart(row, cut) => self.rebuild(row, HALF, cut),
            Event::Churn(row) => {
                for _ in 0..CHURN {
                    self.set(row, MemberState::Failed, None);
                    self.rebuild(row, MemberState::InSync, None);
                }
                self.has_churned = true;
            }
            Event::Replace(row) => {
                let session = self.session.as_mut().expect("in service");
                self.drawn += 1;
                session.label.members[row].uuid = Uuid(u128::from(self.drawn).to_be_bytes());
                session.places[row] = Some(row);
                self.devices[OLD] = self.devices[row].take();
                self.set(row, STALE, None);
            }
            Event::Stop => self.session = None,
            Event::Snapshot(place) => {
                self.snapshot = self.devices[place].clone().map(|device| (place, device));
            }
            Event::PutBack => self.put_back(),
        }
        Ok(())
    }

    fn write(&mut self) {
        let session = self.session.as_ref().expect("in service");
        let rows = session.places.iter().zip(&session.label.members);
        let takers = rows.filter(|(_, row)| row.state != MemberState::Failed);
        for place in takers.filter_map(|(place, _)| *place) {
            let device = self.devices[place].as_mut().expect("it is in use");
            device.writes = device.writes.map(|half| half | 1 << self.written);
        }
        self.written += 1;
    }

    /// Sets the state of a member, and writes labels that say so.
    fn set(&mut self, row: usize, state: MemberState, cut: Option<Cut>) {
        let Some(session) = &self.session else { return };
        let mut label = session.label.clone();
        let was = std::mem::replace(&mut label.members[row].state, state);
        let has_left = was == MemberState::InSync && state != MemberState::InSync;
        self.write_labels(label, has_left, cut);
    }

    fn rebuild(&mut self, row: usize, state: MemberState, cut: Option<Cut>) {
        let session = self.session.as_ref().expect("in service");
        if session.label.members[row].state == MemberState::Failed {
            self.set(row, STALE, None);
        }
        let session = self.session.as_ref().expect("in service");
        let good = session.in_sync().next().expect("some member is in sync");
        let [low, high] = self.devices[good].as_ref().expect("it is in use").writes;
        let place = session.places[row].expect("it is in use");
        let writes = &mut self.devices[place].as_mut().expect("it has a label").writes;
        *writes = [low, if state == HALF { writes[1] } else { high }];
        self.set(row, state, cut);
    }

    /// Writes a label by two generations to all members that take writes, as `LabelWriter` does.
    /// Members that have not the label before get it first.
    fn write_labels(&mut self, mut label: Label, has_left: bool, cut: Option<Cut>) {
        let session = self.session.as_mut().expect("in service");
        let before = std::mem::take(&mut session.behind);
        if has_left {
            self.drawn += 1;
            label.lineage = label.lineage.successor(DataId(self.drawn), session.label.generation);
        }
        label.generation = session.label.generation;
        let takes = |row: &usize| label.members[*row].state != MemberState::Failed;
        let mut takers: Vec<usize> = (0..MEMBERS).filter(takes).collect();
        if cut.is_some_and(|cut| cut.is_reversed) {
            takers.reverse();
        }
        let mut steps: Vec<(usize, Label)> = before;
        for _ in 0..2 {
            label.generation += 1;
            steps.extend(takers.iter().map(|&row| (row, label.clone())));
        }
        let is_cut = cut.is_some_and(|cut| cut.writes < steps.len());
        let count = cut.map_or(steps.len(), |cut| cut.writes.min(steps.len()));
        for (row, label) in steps.drain(..count) {
            let Some(place) = session.places[row] else { continue };
            let label = MemberLabel { member: label.members[row].uuid, label };
            self.devices[place] = Some(match self.devices[place].take() {
                // A label that does not count gives way to the next of its generation.
                Some(Device { label: old, previous: previous @ Some(_), writes })
                    if old.label.generation >= label.label.generation =>
                {
                    Device { label, previous, writes }
                }
                old => {
                    let writes = old.as_ref().map_or([0; 2], |device| device.writes);
                    Device { label, previous: old.map(|device| device.label.label), writes }
                }
            });
        }
        session.label = label;
        let in_sync: BTreeSet<usize> = session.in_sync().collect();
        if !is_cut {
            (self.announced, self.interrupted) = (None, None);
            self.last = Some(in_sync);
            return;
        }
        if has_left {
            self.announced = Some((session.label.lineage.id, in_sync.clone()));
        }
        if let Some(last) = self.last.take_if(|last| *last != in_sync) {
            self.interrupted = Some(&last | &in_sync);
        }
        self.session = None;
    }

    /// Puts a snapshot back, if labels were written since, and not of the only member in sync: else
    /// nothing can tell.
    fn put_back(&mut self) {
        let (place, device) = self.snapshot.take().expect("there is a snapshot");
        let Some(now) = &self.devices[place] else { return };
        let is_same = now.label.member == device.label.member;
        let labels = self.devices.iter().flatten().map(|it| &it.label.label);
        let newest = labels.max_by_key(|it| it.generation).expect("there are devices");
        let in_sync = newest.members.iter().filter(|row| row.state == MemberState::InSync).count();
        let is_only = in_sync == 1 && newest.calls_in_sync(device.label.member);
        let is_as_new = now.label.label.generation < device.label.label.generation + 2;
        if !is_same || is_only || is_as_new {
            return;
        }
        if self.last.as_ref().is_some_and(|last| last.contains(&place)) {
            self.last = None;
        }
        self.interrupted = None;
        self.devices[place] = Some(device);
    }

    fn start(&mut self, places: u8, cut: Option<Cut>) -> Result<(), String> {
        let places: Vec<usize> = (0..=OLD).filter(|place| places & 1 << place != 0).collect();
        let found: Vec<FoundMember> = places.iter().map(|&place| self.found(place)).collect();
        let assembly = assemble(&found, &[]);
        let verdict = verdict(&assembly);
        self.check_order(&found, &assembly, &verdict)?;
        let has_all = match &self.last {
            Some(last) => last.iter().all(|place| places.contains(place)),
            None => self.interrupted.is_some() && (0..MEMBERS).all(|place| places.contains(&place)),
        };
        let is_whole = !self.has_diverged && has_all;
        if self.must_start && is_whole && verdict != ArrayVerdict::Start {
            return Err(format!(
                "{verdict:?} with all that were in sync: {:?}",
                assembly.standings
            ));
        }
        if !matches!(verdict, ArrayVerdict::Start | ArrayVerdict::NeedsDegraded { .. }) {
            return Ok(());
        }
        self.check_data(&places, &assembly)?;
        let place_of = |row: usize| assembly.members[row].found.map(|index| places[index]);
        let in_use: [Option<usize>; MEMBERS] = std::array::from_fn(place_of);
        let mut label = assembly.newest.clone();
        let mut has_left = false;
        for (row, member) in label.members.iter_mut().zip(&assembly.members) {
            has_left |= row.state == MemberState::InSync && member.state != MemberState::InSync;
            row.state = member.state;
        }
        let is_behind = |row: &usize| {
            let index = assembly.members[*row].found;
            index.is_some_and(|index| {
                let generation = found[index].newest.found.label.generation;
                assembly.standings[index].is_current() && generation < assembly.newest.generation
            })
        };
        let rows = (0..MEMBERS).filter(is_behind);
        let behind = rows.map(|row| (row, assembly.newest.clone())).collect();
        let session = Session { label, places: in_use, behind };
        let is_in = |set: &BTreeSet<usize>| session.in_sync().any(|place| set.contains(&place));
        let goes_on = |(id, set): &(DataId, BTreeSet<usize>)| {
            session.in_sync().all(|place| set.contains(&place))
                && session.in_sync().any(|place| self.lineage_at(place) == Some(*id))
        };
        self.has_diverged |= !self.last.as_ref().is_none_or(is_in)
            || !self.interrupted.as_ref().is_none_or(is_in)
            || !self.announced.as_ref().is_none_or(goes_on);
        let label = session.label.clone();
        self.session = Some(session);
        self.write_labels(label, has_left, cut);
        Ok(())
    }

    fn lineage_at(&self, place: usize) -> Option<DataId> {
        self.devices[place].as_ref().map(|device| device.label.label.lineage.id)
    }

    fn found(&self, place: usize) -> FoundMember {
        let Device { label, previous, .. } = self.devices[place].clone().expect("it is there");
        FoundMember::of_label(NewestLabel { found: label, slot: 0, previous })
    }

    fn check_order(
        &self,
        found: &[FoundMember],
        assembly: &LabelAssembly,
        expected: &ArrayVerdict,
    ) -> Result<(), String> {
        let reversed: Vec<FoundMember> = found.iter().rev().cloned().collect();
        let mut other = assemble(&reversed, &[]);
        other.standings.reverse();
        let starts = matches!(expected, ArrayVerdict::Start | ArrayVerdict::NeedsDegraded { .. });
        let is_same =
            verdict(&other) == *expected && (!starts || other.standings == assembly.standings);
        match is_same {
            true => Ok(()),
            false => Err(format!(
                "the order decides between {:?} and {:?}",
                (&assembly.standings, brief(&assembly.newest)),
                (&other.standings, brief(&other.newest))
            )),
        }
    }

    fn check_data(&self, places: &[usize], assembly: &LabelAssembly) -> Result<(), String> {
        let writes = |index: usize| self.devices[places[index]].as_ref().expect("found").writes;
        let is_in_sync = |index: &usize| assembly.standings[*index] == MemberStanding::InSync;
        let mut in_sync = (0..places.len()).filter(is_in_sync).map(writes);
        let current = in_sync.next().ok_or("it starts without a member in sync")?;
        if in_sync.any(|other| other != current) {
            return Err("members in sync differ".to_owned());
        }
        for (index, standing) in assembly.standings.iter().enumerate() {
            let place = places[index];
            let is_older = matches!(standing, MemberStanding::Stale | MemberStanding::Unknown);
            let has_later = (0..2).any(|half| writes(index)[half] & !current[half] != 0);
            // What parts of a volume did without each other is known as long as labels remember it.
            if is_older && has_later && !(self.has_diverged && self.has_churned) {
                return Err(format!("{standing:?} at place {place} has later writes"));
            }
            let is_half = matches!(standing,
                MemberStanding::Rebuilding { recovered_bytes } if *recovered_bytes > 0);
            if is_half && writes(index)[0] != current[0] {
                return Err(format!("{standing:?} at place {place} differs"));
            }
        }
        Ok(())
    }
}

impl Session {
    fn in_sync(&self) -> impl Iterator<Item = usize> {
        let rows = self.places.iter().zip(&self.label.members);
        let in_sync = rows.filter(|(_, row)| row.state == MemberState::InSync);
        in_sync.filter_map(|(place, _)| *place)
    }
}

fn verdict(assembly: &LabelAssembly) -> ArrayVerdict {
    let map = assembly.newest.array.chunk_map(&assembly.newest.map_configs()).unwrap();
    assembly.verdict(&map)
}

/// Generation, data ids and states.
fn brief(label: &Label) -> String {
    let states: Vec<MemberState> = label.members.iter().map(|row| row.state).collect();
    format!("generation {}, {:?}, {states:?}", label.generation, label.lineage)
}

/// Runs all histories of at most so many events; returns the number of states.
fn explore(depth: usize) -> usize {
    let mut seen = HashSet::from([World::new().key()]);
    let mut frontier = vec![(World::new(), Vec::new())];
    for _ in 0..depth {
        let mut next = Vec::new();
        for (world, history) in &frontier {
            for event in world.events() {
                let history = [&history[..], &[event]].concat();
                let after = world.after(&history).unwrap_or_else(|broken| panic!("{broken}"));
                if seen.insert(after.key()) {
                    next.push((after, history));
                }
            }
        }
        frontier = next;
    }
    seen.len()
}

/// `MODEL_EVENTS` runs longer histories.
#[test]
fn no_order_of_events_makes_the_wrong_member_current() {
    let depth = std::env::var("MODEL_EVENTS").ok().and_then(|it| it.parse().ok());
    let states = explore(depth.unwrap_or(3));
    println!("{states} states");
    assert!(states > 1000, "{states} states only");
}

/// Histories that are too long to run all of them: what may start is checked, not what must, since
/// an announced label may be in the way of a start. `MODEL_WALKS` runs more.
#[test]
fn no_long_history_makes_the_wrong_member_current() {
    let count = std::env::var("MODEL_WALKS").ok().and_then(|it| it.parse().ok());
    for walk in 0..count.unwrap_or(3000) {
        let mut rng = Rng::new(walk);
        let (mut world, mut history) = (World { must_start: false, ..World::new() }, Vec::new());
        for _ in 0..14 {
            let events = world.events();
            history.push(events[rng.below(events.len() as u64) as usize]);
            world = world.after(&history).unwrap_or_else(|broken| panic!("walk {walk}: {broken}"));
        }
    }
}

#[path = "model_tests/key.rs"]
mod key;
