//! How the labels of two devices are related: which is newer, which was never committed, and which
//! was left behind so long ago that the other has forgotten it.

use super::contents::{HISTORY, Label, LabelledMember, MemberLabel};
use mirrorball_core::member::MemberState;

/// Labels of one generation are equal, but for the member that has them.
pub(super) fn has_same_contents(one: &Label, other: &Label) -> bool {
    one.lineage == other.lineage
        && one.is_clean == other.is_clean
        && one.resync_from == other.resync_from
        && one.array == other.array
        && one.members == other.members
        && one.spares == other.spares
        && one.policy == other.policy
        && one.program == other.program
}

/// Returns true if `one` descends from `other`, or is of the same data and a later generation. Of
/// two announcements of one generation, that of a member in sync counts, by both if they differ.
pub(super) fn is_newer(one: &MemberLabel, other: &MemberLabel) -> bool {
    let (this, that) = (&one.label, &other.label);
    match this.lineage.id == that.lineage.id {
        true if this.generation == that.generation => {
            one.calls_in_sync(one.member)
                && (!other.calls_in_sync(other.member) || lacks_nothing(one, other))
        }
        true => this.generation > that.generation,
        false => left_at(this, that).is_some() || is_forgotten(this, that),
    }
}

/// Returns true if one label is known to be older than the other, or of the same data.
pub(super) fn are_related(one: &Label, other: &Label) -> bool {
    let is_older = |new: &Label, old: &Label| left_at(new, old).is_some() || is_forgotten(new, old);
    one.lineage.id == other.lineage.id || is_older(one, other) || is_older(other, one)
}

/// Returns true if `old` is of a generation before those that `label` remembers, and so was left
/// behind before.
pub(super) fn is_forgotten(label: &Label, old: &Label) -> bool {
    let Some(oldest) = label.lineage.history.get(HISTORY - 1) else { return false };
    old.generation <= oldest.until
}

/// Returns true if the member of `old`, which `newest` has forgotten, may have been used without
/// the members of `newest`. By its label
///
/// - no other member is in sync; or
/// - another member is not in sync which is so now, whose device was removed or replaced, or which
///   is rebuilt from members of which none is in sync by `old`. This does not count if an operator
///   failed the member of `old` by `newest`: since then only an operator can have started it with
///   others, without those that say so.
pub(super) fn excludes(old: &MemberLabel, newest: &Label) -> bool {
    let others = old.label.members.iter().filter(|row| row.uuid != old.member);
    let (in_sync, out): (Vec<_>, Vec<_>) = others.partition(|row| row.state == MemberState::InSync);
    let is_shared = in_sync.iter().any(|row| newest.calls_in_sync(row.uuid));
    let is_kept_out = newest.row(old.member).is_some_and(|at| newest.members[at].is_kept_out);
    let is_out = |row: &LabelledMember| match newest.row(row.uuid).filter(|_| row.has_device()) {
        Some(at) => match newest.members[at].state {
            MemberState::InSync => true,
            MemberState::Rebuilding { .. } => !is_shared,
            MemberState::Failed => false,
        },
        None => true,
    };
    in_sync.is_empty() || !is_kept_out && out.into_iter().any(is_out)
}

/// Number of the devices that have the data of a label and are in sync by it.
pub(super) fn carriers(index: usize, found: &[MemberLabel], counting: &[usize]) -> usize {
    let label = &found[index].label;
    let others = counting.iter().map(|&other| &found[other]);
    let is_carrier = |other: &&MemberLabel| {
        other.label.lineage.id == label.lineage.id && label.calls_in_sync(other.member)
    };
    others.filter(is_carrier).count()
}

/// Returns true if `one` does not call the member of `other` in sync, but `other` calls that of
/// `one` so. If both have the same data id, `other` has no data that `one` lacks.
pub(super) fn lacks_nothing(one: &MemberLabel, other: &MemberLabel) -> bool {
    other.calls_in_sync(one.member) && !one.calls_in_sync(other.member)
}

/// The last generation of `label` that had the data id of `other`, if it has another one now.
pub(super) fn left_at(label: &Label, other: &Label) -> Option<u64> {
    let mut history = label.lineage.history.iter();
    history.find(|past| past.id == other.lineage.id).map(|past| past.until)
}

/// Returns true if `one` was announced and never committed: the label of another member goes on
/// from the one before without it. Where each calls only its own member in sync, a damaged slot may
/// hide that both were committed, so neither is refuted. A member that is not in sync by its own
/// label has no data that only it has, so its announcement is refuted even so.
pub(super) fn is_refuted(one: &MemberLabel, other: &MemberLabel) -> bool {
    let (this, that) = (&one.label, &other.label);
    let is_side = one.calls_in_sync(one.member) && !one.calls_in_sync(other.member);
    if is_side || one.member == other.member || that.generation < this.generation {
        return false;
    }
    if this.lineage.id == that.lineage.id {
        return false;
    }
    if let Some(until) = left_at(that, this) {
        return this.generation == until + 1;
    }
    this.lineage.history.first().is_some_and(|parent| {
        let goes_on = that.lineage.id == parent.id
            || that.lineage.history.iter().any(|it| it.id == parent.id && it.until >= parent.until);
        goes_on && this.generation == parent.until + 1
    })
}

/// Returns true if one label was the next after the other, of which a member left.
pub(super) fn is_child(label: &Label, parent: &Label) -> bool {
    let past = label.lineage.history.first();
    let is_it = past.is_some_and(|it| it.id == parent.lineage.id && it.until == parent.generation);
    is_it && label.generation == parent.generation + 1
}

/// Returns true if a label was the next after the other, or after the one at which the other's data
/// id began, and at most one update ago. A member that is rebuilt and has such a label was in use
/// since, unless the other says that it failed, or is rebuilt from its beginning. An old copy of it
/// is further behind: to leave and to come back takes two updates.
pub(super) fn is_next(label: &Label, other: &Label) -> bool {
    let begin = |it: &Label| it.lineage.history.first().map(|past| (past.id, past.until));
    let has_same_parent = begin(label).is_some() && begin(label) == begin(other);
    let is_first = begin(label).is_some_and(|(_, until)| label.generation == until + 1);
    let is_recent = other.generation <= label.generation + 2;
    has_same_parent && is_first && is_recent || is_child(label, other)
}

/// Returns true if a label that says a member left is only on members which it does not call in
/// sync, while one that it calls in sync has the label before, and none one that descends from it:
/// it was not committed.
pub(super) fn reached_no_member_in_sync(
    index: usize,
    found: &[MemberLabel],
    counting: &[usize],
) -> bool {
    let label = &found[index].label;
    let in_sync = || {
        let others = counting.iter().map(|&other| &found[other]);
        others.filter(|other| found[index].calls_in_sync(other.member)).map(|it| &it.label)
    };
    in_sync().any(|it| is_child(label, it))
        && !in_sync().any(|it| it.lineage.id == label.lineage.id || left_at(it, label).is_some())
}

/// How many bytes of a member are in sync, if its own label and the newest say that it is rebuilt
/// in part.
pub(super) fn rebuilt_by_both(it: &MemberLabel, newest: &Label) -> Option<u64> {
    let state = |label: &Label| label.row(it.member).map(|row| label.members[row].state);
    match (state(&it.label)?, state(newest)?) {
        (
            MemberState::Rebuilding { recovered_bytes: one },
            MemberState::Rebuilding { recovered_bytes: other },
        ) => Some(one.min(other)).filter(|&bytes| bytes > 0),
        _ => None,
    }
}

#[cfg(test)]
#[path = "relation_tests.rs"]
mod tests;
