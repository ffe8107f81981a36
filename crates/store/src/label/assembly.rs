//! The rules of assembly: from the labels that were found to what each member is worth, and to
//! whether the volume may start.
//!
//! The *newest* label is the one that every other found label agrees with or is older than (see the
//! page of this folder). If there is none, the lineages diverged: a part of the members ran without
//! the others, and those without it. The newest label is then that of the lineage with more members
//! in sync among the devices, of equals that of the higher generation; never that of the device
//! that is named first. If they are a *majority* of its members, and of those that it removed and
//! the others call in sync, the volume starts, and the devices that went on separately are left
//! out, unless those are a majority of the members that they know: each part may have removed or
//! replaced the other. Otherwise only the user can say which data to keep.
//!
//! A label remembers the last data ids only. A device with none of them and a generation before
//! them was left behind longer ago. It is older, unless it may have been used without the current
//! members (`excludes`).
//!
//! | the newest label says | the label of the member | standing |
//! |---|---|---|
//! | in sync | of the same generation, or one behind | in sync |
//! | in sync | two or more behind | an older copy: refused |
//! | in sync | current, but its dirty log is older than every member's is | the same |
//! | in sync | announced, never committed, and not in sync by it | stale: rebuilt |
//! | being rebuilt | of the same generation, or one behind | the rebuild goes on |
//! | being rebuilt | two or more behind, or likewise | stale: rebuilt |
//! | not in sync | another one of the same generation and data, not in sync | stale: the same |
//! | failed | older | stale: rebuilt |
//! | failed by an operator | older | kept out: not used |
//! | not a member | any that is older | unknown: ignored |
//! | any | diverged from it | diverged: left out if there is a majority, else refused |
//! | not in sync | older, but with a newer dirty log than the others had when it left | the same |
//! | any | on two devices | cloned: refused |
//!
//! A label that was announced and never committed is not in the way: if another member's label goes
//! on from the label before, nothing depended on it, and its member is older. This holds if it
//! calls that other member in sync, or its own not. Nor does one count that says a member left, if
//! only members have it that are not in sync by it, and one that is has the label before.
//!
//! A volume starts by itself only if every member that the newest label calls in sync was found. A
//! member that is alone cannot know that it is stale, so to start without the others is a decision
//! of the user. Members that are being rebuilt do not start without any that is in sync: it would
//! start by itself later, because its label does not say that they have its data. So may those
//! that members were rebuilt from, as long as only an announcement calls the rebuilt ones in sync:
//! without any of the former, these start only if the user knows that the former are lost.

use super::block::Uuid;
use super::contents::{Label, MemberLabel};
use super::departure::went_on;
pub use super::found_member::FoundMember;
use super::relation::{
    are_related, carriers, excludes, has_same_contents, is_forgotten, is_newer, is_next,
    is_refuted, lacks_nothing, left_at, reached_no_member_in_sync, rebuilt_by_both,
};
use mirrorball_core::geometry::ChunkMap;
use mirrorball_core::member::MemberState;
use std::collections::BTreeSet;

/// Standing of a found device in its volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberStanding {
    InSync,
    Rebuilding {
        /// The recovery offset.
        recovered_bytes: u64,
    },
    /// It missed writes and is rebuilt: whole, or where it missed them (`catch_up`).
    Stale,
    /// An operator failed it, and has not taken it back.
    KeptOut,
    /// A copy from earlier of a member in sync.
    OldCopy,
    /// It may have data that the newest lineage lacks.
    Diverged,
    /// Another device has the same member UUID.
    Cloned,
    /// The newest label does not list it.
    Unknown,
}

/// The devices of a volume that were found, in relation to each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LabelAssembly {
    pub newest: Label,
    /// For each found label, what its device is worth.
    pub standings: Vec<MemberStanding>,
    /// For each member of the newest label, the device to use and the state to start in.
    pub members: Vec<AssembledMember>,
    /// Rows that the newest label calls in sync and the one before does not, if the newest may
    /// never have been committed.
    pub announced: Vec<usize>,
    /// Rows that the one before calls in sync then.
    pub rebuilt_from: Vec<usize>,
    /// True if devices that diverged are a majority of the members that they know.
    pub has_rival: bool,
    /// Number of members that the newest label removed, and devices that diverged call in sync.
    pub removed: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AssembledMember {
    /// Index of its label among those found, if it was found.
    pub found: Option<usize>,
    pub state: MemberState,
    /// True if its device is left out, because it diverged.
    pub has_diverged: bool,
}

/// Whether an assembled volume may start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ArrayVerdict {
    /// It may.
    Start,
    /// Members that the newest label calls in sync are missing: the user has to decide.
    NeedsDegraded { missing: Vec<usize> },
    /// Every member in sync was rebuilt, and only an announcement says so. Those that they were
    /// rebuilt from are not there, and may start by themselves later.
    Announced {
        rebuilt_from: Vec<usize>,
        /// Rows of members that the newest label calls in sync and that are missing.
        missing: Vec<usize>,
    },
    /// Some data are on none of the members that are in sync.
    Incomplete {
        /// Rows of the members that are missing or not in sync.
        missing: Vec<usize>,
    },
    /// A device is in doubt: the user has to remove it, or to give up its data.
    Doubtful,
}

/// Relates the labels of one volume to each other. Devices with an index in `discarded` are taken
/// as stale members, because the user gave up their data, and rebuilt whole; but not if another
/// device is that member.
/// Panics if no label was found that counts, or labels are of several volumes.
pub fn assemble(devices: &[FoundMember], discarded: &[usize]) -> LabelAssembly {
    let found: Vec<MemberLabel> = devices.iter().map(|it| it.newest.found.clone()).collect();
    let (newest, mut standings) = compare_labels(&found, discarded);
    compare_records(&mut standings, devices, (newest, discarded));
    let (announced, rebuilt_from) = announced_rows(&standings, devices, newest);
    let diverged: Vec<usize> =
        (0..found.len()).filter(|&index| standings[index] == MemberStanding::Diverged).collect();
    let is_apart = |&index: &usize| {
        matches!(standings[index], MemberStanding::Diverged | MemberStanding::KeptOut)
    };
    let apart: Vec<usize> = (0..found.len()).filter(is_apart).collect();
    let is_rival =
        |&index: &usize| is_majority(carriers(index, &found, &apart), &found[index].label);
    let has_rival = diverged.iter().any(is_rival);
    let removed = removed_members(newest, diverged.iter().map(|&index| &found[index].label));
    let members = newest.members.iter().map(|row| {
        let is_it = |&index: &usize| {
            let standing = standings[index];
            let is_used = standing.state() != MemberState::Failed;
            found[index].member == row.uuid && (is_used || standing == MemberStanding::KeptOut)
        };
        let device = (0..found.len()).find(is_it);
        let state = device.map_or(MemberState::Failed, |index| standings[index].state());
        let has_diverged = diverged.iter().any(|&index| found[index].member == row.uuid);
        AssembledMember { found: device, state, has_diverged }
    });
    let (mut newest, members): (_, Vec<AssembledMember>) = (newest.clone(), members.collect());
    for (row, member) in newest.members.iter_mut().zip(&members) {
        row.lacks_repairs |= member.found.is_some_and(|index| discarded.contains(&index));
    }
    assert_eq!(standings.len(), devices.len(), "each device has a standing");
    let is_there = |it: &AssembledMember| it.found.is_some() || it.state == MemberState::Failed;
    assert!(members.iter().all(is_there), "a member in use was found");
    LabelAssembly { newest, members, standings, announced, rebuilt_from, has_rival, removed }
}

/// The newest label, and what each device is worth by its label.
fn compare_labels<'a>(
    found: &'a [MemberLabel],
    discarded: &[usize],
) -> (&'a Label, Vec<MemberStanding>) {
    let counts = |index: &usize| !discarded.contains(index);
    let mut counting: Vec<usize> = (0..found.len()).filter(counts).collect();
    // Of labels that are as good as each other, the order of the devices shall not decide.
    counting.sort_by_key(|&index| {
        let MemberLabel { member, label } = &found[index];
        (member.0, label.generation, label.lineage.id.0)
    });
    // What reached no member in sync does not count against others either.
    let reached = |index: &usize| !reached_no_member_in_sync(*index, found, &counting);
    let reached: Vec<usize> = counting.iter().copied().filter(reached).collect();
    let is_unrefuted =
        |index: &usize| !reached.iter().any(|&it| is_refuted(&found[*index], &found[it]));
    let mut standing_labels: Vec<usize> = reached.iter().copied().filter(is_unrefuted).collect();
    if standing_labels.is_empty() {
        // None was committed. A member that is not in sync by its own has nothing that others lack.
        let in_sync = |&index: &usize| found[index].calls_in_sync(found[index].member);
        standing_labels.extend(counting.iter().copied().filter(in_sync));
        if standing_labels.is_empty() {
            standing_labels.extend(counting.first());
        }
    }
    // One that another descends from is not the newest, whatever a third is.
    let is_older = |index: usize| {
        let has_newer = |&other: &usize| {
            is_newer(&found[other], &found[index]) && !is_newer(&found[index], &found[other])
        };
        standing_labels.iter().any(has_newer)
    };
    let mut heads: Vec<usize> =
        standing_labels.iter().copied().filter(|&index| !is_older(index)).collect();
    if heads.is_empty() {
        heads.clone_from(&standing_labels);
    }
    let newest = heads.into_iter().reduce(|best, index| {
        let is_better = match are_related(&found[index].label, &found[best].label) {
            true => is_newer(&found[index], &found[best]),
            false => {
                let order = |at: usize| {
                    let Label { generation, lineage, .. } = &found[at].label;
                    (carriers(at, found, &counting), *generation, lineage.id.0)
                };
                order(index) > order(best)
            }
        };
        if is_better { index } else { best }
    });
    let holder = &found[newest.expect("a volume is assembled from at least one label")];
    let newest = &holder.label;
    assert!(found.iter().all(|other| other.label.array.uuid == newest.array.uuid), "one volume");
    let standings: Vec<MemberStanding> = (0..found.len())
        .map(|index| {
            if counts(&index) {
                let has_no_weight = !standing_labels.contains(&index)
                    && has_no_weight(index, found, &reached, newest);
                return standing(index, found, &counting, holder, has_no_weight);
            }
            let is_other = |&other: &usize| found[other].member == found[index].member;
            let is_replaced = counting.iter().any(is_other);
            let is_member = newest.row(found[index].member).is_some();
            if is_member && !is_replaced { MemberStanding::Stale } else { MemberStanding::Unknown }
        })
        .collect();
    (newest, standings)
}

/// Returns true if a label reached no member in sync, or if one refutes it that is related to the
/// newest, or is refuted by one that is. A label that only diverged devices refute is diverged,
/// too: its member was in use with those.
fn has_no_weight(index: usize, found: &[MemberLabel], reached: &[usize], newest: &Label) -> bool {
    let is_related = |it: usize| are_related(&found[it].label, newest);
    let is_refuted_by = |one: usize, other: usize| is_refuted(&found[one], &found[other]);
    let refutes = |&it: &usize| {
        let is_refuted = || reached.iter().any(|&by| is_related(by) && is_refuted_by(it, by));
        is_refuted_by(index, it) && (is_related(it) || is_refuted())
    };
    !reached.contains(&index) || reached.iter().any(refutes)
}

/// Number of members whose device the newest label says was removed, and others call in sync. Where
/// another device took the place of one, that counts in its place.
fn removed_members<'a>(newest: &Label, others: impl Iterator<Item = &'a Label>) -> usize {
    let in_sync = others.flat_map(|label| &label.members);
    let in_sync = in_sync.filter(|row| row.state == MemberState::InSync && row.has_device());
    let removed = in_sync.filter(|row| newest.row(row.uuid).is_none());
    let removed = removed.map(|row| row.uuid).collect::<BTreeSet<Uuid>>().len();
    removed.min(newest.members.iter().filter(|row| !row.has_device()).count())
}

/// Returns true if so many are more than half of the members of a label. Removed ones do not count.
fn is_majority(count: usize, label: &Label) -> bool {
    2 * count > label.members.iter().filter(|row| row.has_device()).count()
}

/// Finds devices whose label is current, but not their dirty log: they are from earlier, though no
/// label was written since. If those are the only ones in sync, others that left them went on.
fn compare_records(
    standings: &mut [MemberStanding],
    devices: &[FoundMember],
    (newest, discarded): (&Label, &[usize]),
) {
    let least_sequence = least_sequence(standings, devices);
    for (index, (standing, device)) in standings.iter_mut().zip(devices).enumerate() {
        let record = device.record.as_ref();
        let sequence = record.map_or(0, |record| record.sequence);
        let found = &device.newest.found;
        *standing = match *standing {
            MemberStanding::Stale
                if !discarded.contains(&index) && went_on(newest, found, record) =>
            {
                MemberStanding::Diverged
            }
            _ if sequence >= least_sequence => continue,
            MemberStanding::InSync => MemberStanding::OldCopy,
            MemberStanding::Rebuilding { .. } => MemberStanding::Stale,
            other => other,
        }
    }
}

/// The rows of members that only an announcement calls in sync, and of those that the label before
/// calls so, which may be the newest that they have. None if a label shows that the step was
/// committed.
fn announced_rows(
    standings: &[MemberStanding],
    devices: &[FoundMember],
    newest: &Label,
) -> (Vec<usize>, Vec<usize>) {
    let current = devices.iter().zip(standings).filter(|(_, it)| it.is_current());
    let labels = current.flat_map(|(device, _)| {
        std::iter::once(&device.newest.found.label).chain(&device.newest.previous)
    });
    let is_parent = |label: &Label| match newest.lineage.history.first() {
        Some(past) => past.id == label.lineage.id && past.until == label.generation,
        None => false,
    };
    let is_before = |label: &&Label| {
        newest.generation.checked_sub(1) == Some(label.generation)
            && (label.lineage.id == newest.lineage.id || is_parent(label))
    };
    let before: Vec<&Label> = labels.filter(is_before).collect();
    if before.is_empty() || before.iter().any(|label| has_same_contents(label, newest)) {
        return (Vec::new(), Vec::new());
    }
    let rows = 0..newest.members.len();
    let (rebuilt_from, others): (Vec<usize>, Vec<usize>) = rows.partition(|&row| {
        let uuid = newest.members[row].uuid;
        before.iter().any(|label| label.calls_in_sync(uuid))
    });
    let is_in_sync = |row: &usize| newest.members[*row].state == MemberState::InSync;
    (others.into_iter().filter(is_in_sync).collect(), rebuilt_from)
}

/// The sequence number that the dirty log of every member in sync has at least, as the newest
/// record says that any of them has.
pub(crate) fn least_sequence(standings: &[MemberStanding], devices: &[FoundMember]) -> u64 {
    let in_sync = devices.iter().zip(standings).filter(|(_, it)| **it == MemberStanding::InSync);
    let records = in_sync.filter_map(|(device, _)| device.record.as_ref());
    let newest = records.max_by_key(|record| record.sequence);
    newest.map_or(0, |record| record.least_sequence)
}

impl LabelAssembly {
    /// Whether the volume, laid out by `map`, may start.
    pub fn verdict(&self, map: &ChunkMap) -> ArrayVerdict {
        assert_eq!(self.members.len(), self.newest.members.len(), "a state for each row");
        let is_in_sync = |row: usize| self.members[row].state == MemberState::InSync;
        let in_sync = (0..self.members.len()).filter(|&row| is_in_sync(row)).count();
        // A half that removed the other is half of both.
        let all = self.newest.members.iter().filter(|row| row.has_device()).count() + self.removed;
        let has_majority = 2 * in_sync > all && !self.has_rival;
        let is_in_the_way = |standing: &MemberStanding| match standing {
            MemberStanding::Diverged => !has_majority,
            standing => standing.is_doubtful(),
        };
        if self.standings.iter().any(is_in_the_way) {
            return ArrayVerdict::Doubtful;
        }
        let rows = 0..self.members.len();
        // Members in sync that do not know of the end of a rebuild start without the rebuilt one.
        if !rows.clone().any(is_in_sync) || !holds_all(map, |row, end| self.holds(row, end)) {
            let missing = rows.filter(|&row| !is_in_sync(row)).collect();
            return ArrayVerdict::Incomplete { missing };
        }
        let newest = &self.newest.members;
        let is_missed = |&row: &usize| {
            newest[row].state == MemberState::InSync && self.members[row].found.is_none()
        };
        let missing: Vec<usize> = rows.clone().filter(is_missed).collect();
        let is_announced = |row| !is_in_sync(row) || self.announced.contains(&row);
        if !self.rebuilt_from.is_empty() && rows.clone().all(is_announced) {
            return ArrayVerdict::Announced { rebuilt_from: self.rebuilt_from.clone(), missing };
        }
        match missing.is_empty() {
            true => ArrayVerdict::Start,
            false => ArrayVerdict::NeedsDegraded { missing },
        }
    }

    /// Returns true if a member holds its data from the start to `end`.
    fn holds(&self, row: usize, end: u64) -> bool {
        match self.members[row].state {
            MemberState::InSync => true,
            MemberState::Rebuilding { recovered_bytes } => end <= recovered_bytes,
            MemberState::Failed => false,
        }
    }
}

impl MemberStanding {
    pub fn state(self) -> MemberState {
        match self {
            MemberStanding::InSync => MemberState::InSync,
            MemberStanding::Rebuilding { recovered_bytes } => {
                MemberState::Rebuilding { recovered_bytes }
            }
            MemberStanding::Stale => MemberState::Rebuilding { recovered_bytes: 0 },
            MemberStanding::KeptOut
            | MemberStanding::OldCopy
            | MemberStanding::Diverged
            | MemberStanding::Cloned
            | MemberStanding::Unknown => MemberState::Failed,
        }
    }

    /// Returns true if the newest label says what the device holds.
    pub fn is_current(self) -> bool {
        matches!(self, MemberStanding::InSync | MemberStanding::Rebuilding { .. })
    }

    /// Returns true if only the user can decide about the device.
    pub fn is_doubtful(self) -> bool {
        matches!(self, MemberStanding::OldCopy | MemberStanding::Diverged | MemberStanding::Cloned)
    }
}

/// Returns true if every byte of the volume is on a member, of which `holds(row, end)` says that it
/// holds its data up to `end`.
pub fn holds_all(map: &ChunkMap, holds: impl Fn(usize, u64) -> bool) -> bool {
    map.is_held(|member, end| holds(member.get(), end))
}

fn standing(
    index: usize,
    found: &[MemberLabel],
    counting: &[usize],
    holder: &MemberLabel,
    has_no_weight: bool,
) -> MemberStanding {
    let newest = &holder.label;
    let MemberLabel { member, label } = &found[index];
    let is_clone = |&other: &usize| other != index && found[other].member == *member;
    if counting.iter().any(is_clone) {
        return MemberStanding::Cloned;
    }
    let is_same = label.lineage.id == newest.lineage.id;
    let behind = newest.generation.checked_sub(label.generation);
    // With the same data id, whatever a member has that is not in sync is on those that are.
    let is_announced_twice = is_same
        && label.generation == newest.generation
        && (!found[index].calls_in_sync(*member) || lacks_nothing(holder, &found[index]));
    let behind = behind.filter(|&behind| match behind {
        0 => has_same_contents(label, newest) || is_announced_twice,
        _ => {
            let is_known = left_at(newest, label).is_some_and(|until| label.generation <= until);
            is_same || is_known || is_forgotten(newest, label) && !excludes(&found[index], newest)
        }
    });
    let behind = match (behind, has_no_weight) {
        (_, true) => u64::MAX,
        (Some(0), false) if !has_same_contents(label, newest) => u64::MAX,
        (Some(behind), false) => behind,
        (None, false) => return MemberStanding::Diverged,
    };
    let Some(row) = newest.row(*member) else { return MemberStanding::Unknown };
    let is_parent = newest.lineage.history.first().map(|past| past.id) == Some(label.lineage.id);
    let is_current = behind == 0 || (behind == 1 && (is_same || is_parent));
    match (newest.members[row].state, is_current) {
        (MemberState::InSync, true) => MemberStanding::InSync,
        // By its own label, which does not count, it was about to be rebuilt. Nor does the newest
        // count, if each was announced by a member that was not in sync.
        (MemberState::InSync, false)
            if (has_no_weight || is_announced_twice) && !found[index].calls_in_sync(*member) =>
        {
            MemberStanding::Stale
        }
        (MemberState::InSync, false) => MemberStanding::OldCopy,
        (MemberState::Rebuilding { recovered_bytes }, true) => {
            MemberStanding::Rebuilding { recovered_bytes }
        }
        (MemberState::Failed, _) if newest.members[row].is_kept_out => MemberStanding::KeptOut,
        // Its own label reached no other, and the newest is the one before, or is in its place.
        (MemberState::Rebuilding { .. }, false) if has_no_weight && is_next(label, newest) => {
            rebuilt_by_both(&found[index], newest)
                .map_or(MemberStanding::Stale, |recovered_bytes| MemberStanding::Rebuilding {
                    recovered_bytes,
                })
        }
        (MemberState::Rebuilding { .. }, false) | (MemberState::Failed, _) => MemberStanding::Stale,
    }
}

#[cfg(test)]
#[path = "assembly_tests.rs"]
pub(super) mod tests;
