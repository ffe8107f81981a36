//! Scrubs and resyncs of data with checksums: the gate judges each unit of a piece by what all
//! mirrors hold, and what a mirror lacks is copied to it.

use super::Volume;
use super::gate::{Gate, Judged, Judgement};
use super::piece::{Piece, PieceKey};
use super::plan::{PlanTarget, TargetSet};
use crate::io::RequestKind;

impl<G: Gate> Volume<G> {
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
        let unit_bytes = self.unit_bytes();
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
