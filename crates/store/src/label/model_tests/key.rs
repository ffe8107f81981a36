//! States of the model that differ in names only have one key.

use super::{Device, Label, MemberState, STALE, World};
use std::collections::{BTreeMap, BTreeSet};

impl World {
    /// The state without the names of ids and the exact generations.
    pub(super) fn key(&self) -> Vec<u64> {
        let snapshot = self.snapshot.as_ref().map(|(_, device)| device);
        let devices: Vec<&Device> = self.devices.iter().flatten().chain(snapshot).collect();
        let session = self.session.as_ref().map(|session| &session.label);
        let own = devices.iter().map(|it| &it.label.label);
        let labels: Vec<&Label> = own
            .chain(devices.iter().filter_map(|it| it.previous.as_ref()))
            .chain(session)
            .collect();
        let pasts = || labels.iter().flat_map(|it| &it.lineage.history);
        let all: BTreeSet<u64> =
            labels.iter().map(|it| it.generation).chain(pasts().map(|it| it.until)).collect();
        let (mut generations, mut last, mut number) = (BTreeMap::new(), 0, 0);
        for generation in all {
            number += (generation - last).min(3);
            last = generation;
            generations.insert(generation, number);
        }
        let alive: BTreeSet<u64> = labels.iter().map(|it| it.lineage.id.0).collect();
        let mut names: BTreeMap<u128, u64> = BTreeMap::new();
        let mut name = |of: u128| {
            let next = names.len() as u64 + 1;
            *names.entry(of).or_insert(next)
        };
        let mut key = Vec::new();
        for device in &devices {
            key.push(name(u128::from_be_bytes(device.label.member.0)));
        }
        for label in &labels {
            key.extend([generations[&label.generation], name(label.lineage.id.0.into())]);
            for past in &label.lineage.history {
                // An id that no label has any more is like any other.
                let id = if alive.contains(&past.id.0) { name(past.id.0.into()) } else { 0 };
                key.extend([id, generations[&past.until]]);
            }
            for row in &label.members {
                let state = match row.state {
                    MemberState::InSync => 0,
                    STALE => 1,
                    MemberState::Failed => 2,
                    _ => 3,
                };
                key.extend([name(u128::from_be_bytes(row.uuid.0)), state]);
            }
        }
        let holders = |write: u32| {
            let halves = devices.iter().flat_map(|it| it.writes);
            let bits = halves.map(|half| u64::from(half >> write & 1));
            bits.fold(1, |all, bit| all << 1 | bit)
        };
        key.extend((0..self.written).map(holders).collect::<BTreeSet<u64>>());
        let places = self.session.as_ref().map(|it| it.places);
        let placed = places.into_iter().flatten().map(|it| it.map_or(99, |it| it as u64));
        let there = self.devices.iter().map(|it| u64::from(it.is_some()));
        key.extend(placed.chain(there));
        key.extend(self.snapshot.iter().map(|(place, _)| *place as u64));
        key.extend([self.has_diverged, self.has_churned].map(u64::from));
        let announced = self.announced.as_ref().map(|(_, set)| set);
        for set in [self.last.as_ref(), self.interrupted.as_ref(), announced] {
            key.push(set.map_or(99, |set| set.iter().map(|&place| 1 << place).sum()));
        }
        key
    }
}
