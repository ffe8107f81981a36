//! Pieces that a mirror cannot give: read from another one, in halves, or given up. With checksums
//! the gate judges each unit of a scrub or resync by what all mirrors hold, and what a mirror lacks
//! is copied to it.

use super::gate::{Gate, Judged, Judgement, Unreadable, UnreadableReason};
use super::piece::{Piece, PieceKey};
use super::plan::{PiecePlan, PlanTarget, TargetSet};
use super::{Volume, Work};
use crate::io::RequestKind;

impl<G: Gate> Volume<G> {
    /// Reads a piece again, under its lock. Where mirrors differ, only the sectors that the first
    /// mirror cannot give are read from another: the others must not change.
    pub(super) fn retry(&mut self, key: PieceKey) {
        let piece = self.requests.piece(key);
        let is_bad = !piece.spoiled.is_empty() && !piece.has_answer;
        let is_divided = is_bad && self.reads_first_only(&piece.plan);
        match piece.has_lock {
            _ if is_divided && self.halves(&piece.plan).is_some() => self.halve(key),
            true => self.work.push_back(Work::Decide(key)),
            false => self.start(key),
        }
    }

    /// The plans of two parts of a piece: its halves, or, of a sector that mirrors lack a part of,
    /// what is before and behind an edge of that part.
    pub(super) fn halves(&self, plan: &PiecePlan) -> Option<[PiecePlan; 2]> {
        let is_edge = |edge: &u64| (edge - plan.offset).is_multiple_of(self.options.block_bytes);
        plan.halves().or_else(|| {
            let edge = self.gate()?.lacking_edge(&plan.range()).filter(is_edge)?;
            Some(plan.cut_at(edge))
        })
    }

    /// Returns true if mirrors in sync lack a part of a piece that can be cut, and each part is to
    /// be read from the mirror that would be read for it alone: to copy or compare mirrors, or
    /// because they differ.
    #[inline]
    pub(super) fn lacks_a_part(&self, key: PieceKey) -> bool {
        let Piece { kind, ref plan, .. } = *self.requests.piece(key);
        let is_divided = || match kind {
            RequestKind::Scrub | RequestKind::Resync | RequestKind::Rebuild(_) => true,
            RequestKind::Read => self.reads_first_only(plan),
            _ => false,
        };
        let lacking = self.lacking(plan);
        !lacking.is_empty()
            && is_divided()
            && !lacking.and(plan.scrub_targets(&self.states)).is_empty()
            && self.halves(plan).is_some()
    }

    /// Ends a piece that could not be read, or tries its halves: bad spots of different targets
    /// seldom coincide.
    pub(super) fn give_up(&mut self, key: PieceKey) {
        let piece = self.requests.piece(key);
        assert_eq!(piece.pending, 0, "a piece is given up when nothing is read any more");
        let may_help = !piece.spoiled.or(self.lacking(&piece.plan)).is_empty()
            && piece.good.is_empty()
            && !piece.has_answer
            && !matches!(piece.kind, RequestKind::Repair(_));
        match may_help && self.halves(&piece.plan).is_some() {
            true => self.halve(key),
            false => self.leave_unreadable(key),
        }
    }

    /// Cuts a piece into its halves, and starts them as if nothing had been read.
    pub(super) fn halve(&mut self, key: PieceKey) {
        let mut piece = self.requests.piece(key).clone();
        assert_eq!(piece.pending, 0, "nothing of it is read: {piece:?}");
        let halves = self.halves(&piece.plan).expect("it can be cut");
        piece.forget_reads();
        let [first, second] = halves.map(|plan| Piece { plan, ..piece.clone() });
        *self.requests.piece_mut(key) = first;
        let second = self.add_part(second);
        for half in [key, second] {
            self.issue_first(half);
        }
    }

    /// Ends a piece that no mirror could give, or reads it without a check.
    pub(super) fn leave_unreadable(&mut self, key: PieceKey) {
        let mut decision = Unreadable::Fail;
        let piece = self.requests.piece(key);
        let in_sync = piece.plan.scrub_targets(&self.states);
        let bad = piece.spoiled.or(self.lacking(&piece.plan));
        // A target that did not answer may have it.
        let has_answered = piece.failed.without(piece.spoiled).is_empty();
        let is_lost = has_answered && !in_sync.is_empty() && in_sync.without(bad).is_empty();
        let reason = UnreadableReason { is_mismatch: !piece.mismatched.is_empty(), is_lost };
        if self.has_gate() && (reason.is_mismatch || is_lost) {
            let view = self.view(key);
            let decided = self.ask_gate(|gate, array| gate.on_unreadable(&view, reason, array));
            decision = decided.unwrap_or(decision);
        }
        let piece = self.requests.piece_mut(key);
        assert!(piece.good.is_empty(), "no mirror gave the piece: {piece:?}");
        match decision {
            Unreadable::Fail => {}
            Unreadable::LeaveOut => piece.has_answer = true,
            Unreadable::ReadUnchecked => {
                for target in std::mem::take(&mut piece.mismatched).iter() {
                    piece.failed.remove(target);
                    piece.spoiled.remove(target);
                }
                return self.work.push_back(Work::Decide(key));
            }
        }
        self.finish(key);
    }

    /// Has a scrub or resync judged by what was read of all mirrors, and acts on the judgement.
    pub(super) fn judge(&mut self, key: PieceKey) {
        let piece = self.requests.piece(key).clone();
        assert!(piece.has_lock && piece.pending == 0, "{piece:?} is compared under its lock");
        let to_copy = match piece.kind {
            // A target that is in sync in a part only was not read.
            RequestKind::Resync => piece.plan.resync_targets(&self.states, piece.good),
            _ => piece.spoiled,
        };
        let view = self.view(key);
        let judged = self.ask_gate(|gate, array| gate.judge(&view, to_copy, array)).flatten();
        let Some(Judged { first, units }) = judged else { return self.give_up(key) };
        let can_halve = !piece.spoiled.is_empty() && self.halves(&piece.plan).is_some();
        if can_halve && units.contains(&Judgement::Lost) {
            // Another mirror may have it, where its medium can be read.
            self.requests.piece_mut(key).good = TargetSet::default();
            return self.give_up(key);
        }
        self.act_on(key, &units, first);
    }

    /// Cuts a piece into runs of units with one judgement each, and acts on them.
    fn act_on(&mut self, key: PieceKey, units: &[Judgement], good: PlanTarget) {
        let whole = self.requests.piece(key).clone();
        let unit_bytes = self.gate().map_or(0, Gate::unit_bytes);
        let count = whole.plan.length.div_ceil(unit_bytes);
        assert_eq!(units.len() as u64, count, "a judgement for each unit of {whole:?}");
        let mut starts: Vec<usize> =
            (1..units.len()).filter(|&at| units[at] != units[at - 1]).collect();
        starts.insert(0, 0);
        let mut end = whole.plan.length;
        let mut runs = Vec::new();
        for start in starts.into_iter().rev() {
            let skip = start as u64 * unit_bytes;
            let plan = whole.plan.part(skip, end - skip);
            let run = match start {
                0 => {
                    self.requests.piece_mut(key).plan = plan;
                    key
                }
                _ => self.add_part(Piece { plan, ..whole.clone() }),
            };
            runs.push((run, units[start]));
            end = skip;
        }
        assert_eq!(end, 0, "the runs are the whole piece");
        for (run, judgement) in runs {
            let piece = self.requests.piece_mut(run);
            (piece.good, piece.failed) = (TargetSet::default(), TargetSet::default());
            piece.spoiled = TargetSet::default();
            match judgement {
                Judgement::Fine => {
                    piece.good.insert(good);
                    self.finish(run);
                }
                Judgement::Lost => {
                    piece.spoiled = whole.spoiled.or(whole.good);
                    piece.failed = whole.failed.or(whole.good);
                    self.leave_unreadable(run);
                }
                Judgement::Copy(target) => {
                    assert!(!self.options.is_read_only, "a read-only volume copies nothing");
                    let source = piece.plan.location(target).0;
                    piece.kind = RequestKind::Repair(source);
                    piece.failed = piece.plan.targets_elsewhere(source);
                    self.issue_first(run);
                }
            }
        }
    }
}
