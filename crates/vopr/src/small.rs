//! Small workloads: every sequence of a few operations, with a power cut at every turn of the
//! service.
//!
//! What a reply or a record must wait for is at stake for some milliseconds only. Random histories
//! cut there rarely; these do it always. After the cut the member that was gone is there again.

use crate::history::{DiskFault, End, ExtraFaults, HistoryStep};
use crate::machine::{Machine, Tally};
use crate::shape::{HistoryShape, Promises};
use crate::{BrokenRule, catch};
use mirrorball_core::geometry::Profile;
use mirrorball_core::units::Nanos;

const ALPHABET: [HistoryStep; 6] = [
    HistoryStep::Write { block: 0 },
    HistoryStep::Write { block: 5 },
    HistoryStep::Flush,
    HistoryStep::Fault { member: 1, fault: DiskFault::Gone },
    HistoryStep::Mend { member: 1 },
    HistoryStep::Rebuild { member: 1 },
];

/// Runs all workloads of `length` operations.
pub(crate) fn run_all(length: u32) -> Result<Tally, Box<BrokenRule>> {
    let mut tally = Tally::default();
    for number in 0..ALPHABET.len().pow(length) {
        let digit = |place: u32| ALPHABET[number / ALPHABET.len().pow(place) % ALPHABET.len()];
        let operations: Vec<HistoryStep> = (0..length).map(digit).collect();
        for seed in 0..4 {
            tally += cut_everywhere(&operations, seed).map_err(|(turn, what)| {
                let mut history: Vec<String> =
                    operations.iter().map(|operation| operation.in_words(2)).collect();
                history.push(format!("a power cut at turn {turn}"));
                let (volume, command) = (shape(seed).in_words(), format!("--small {length}"));
                Box::new(BrokenRule { volume, what, history, command })
            })?;
        }
    }
    Ok(tally)
}

/// Runs a workload until it ends without a cut.
fn cut_everywhere(operations: &[HistoryStep], seed: u64) -> Result<Tally, (u64, String)> {
    let mut tally = Tally::default();
    for turn in 0.. {
        let cut = catch(|| Machine::new(shape(seed))?.run_and_cut(operations, turn));
        let cut = cut.map_err(|what| (turn, what))?;
        tally += cut;
        if cut.power_cuts == 0 {
            break;
        }
    }
    Ok(tally)
}

fn shape(seed: u64) -> HistoryShape {
    HistoryShape {
        seed,
        promises: Promises::Kept,
        profile: Profile::Raid1,
        members: 2,
        member_bytes: 11 << 20,
        has_checksums: seed % 2 == 1,
        spares: 0,
        remote: None,
        extra: ExtraFaults::None,
        bad_row: 0,
    }
}

impl Machine {
    /// Runs operations one after the other if the seed is less than 2, else all at once, and cuts
    /// the power after a number of turns, unless the workload ends before. Then the volume has to
    /// start and recover.
    fn run_and_cut(mut self, operations: &[HistoryStep], turns: u64) -> Result<Tally, String> {
        self.start(0)?;
        let mut left = turns;
        for &operation in operations {
            self.tally.operations += 1;
            self.perform(operation)?;
            while left > 0 && self.shape.seed < 2 && !self.is_quiet() {
                self.turn(Nanos::from_millis(5))?;
                left -= 1;
            }
        }
        while left > 0 && !self.is_quiet() {
            self.turn(Nanos::from_millis(5))?;
            left -= 1;
        }
        if left == 0 {
            self.end(End::PowerCut)?;
        } else {
            self.end(End::Stop)?;
        }
        self.mend_all();
        self.start(0)?;
        self.read_all()?;
        self.recover()?;
        self.read_all()?;
        self.end(End::Stop)?;
        Ok(self.tally)
    }
}
