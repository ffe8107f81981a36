//! Small workloads: every sequence of a few operations, with a power cut at every turn of the
//! service and in the start after it; and `create` with a power cut at every write.
//!
//! What a reply or a record must wait for is at stake for some milliseconds only. Random histories
//! cut there rarely; these do it always. After the cut the member that was gone is there again.

use crate::history::{DiskFault, End, ExtraFaults, HistoryStep};
use crate::machine::{Machine, Tally};
use crate::shape::{HistoryShape, Promises};
use crate::{BrokenRule, catch};
use mirrorball_core::geometry::Profile;
use mirrorball_core::units::Nanos;

const ALPHABET: [HistoryStep; 7] = [
    HistoryStep::Wait { millis: 20_000 },
    HistoryStep::Write { block: 0 },
    HistoryStep::Write { block: 5 },
    HistoryStep::Flush,
    HistoryStep::Fault { member: 1, fault: DiskFault::Gone },
    HistoryStep::Mend { member: 1 },
    HistoryStep::Rebuild { member: 1 },
];

const GONE: [HistoryStep; 2] = [
    HistoryStep::Fault { member: 1, fault: DiskFault::Gone },
    HistoryStep::Fault { member: 2, fault: DiskFault::Gone },
];
const MENDED: [HistoryStep; 2] = [HistoryStep::Mend { member: 1 }, HistoryStep::Mend { member: 2 }];
/// Two of three members leave, and one comes back while a client writes.
const RETURN: [HistoryStep; 9] = [
    GONE[0],
    GONE[1],
    HistoryStep::Write { block: 0 },
    HistoryStep::Settle,
    MENDED[0],
    MENDED[1],
    HistoryStep::Rebuild { member: 1 },
    // In another region.
    HistoryStep::Write { block: 11 },
    HistoryStep::Write { block: 5 },
];
/// A block is written again after its region left the dirty log, and leaves it once more.
const REWRITE: [HistoryStep; 4] = [
    HistoryStep::Write { block: 0 },
    HistoryStep::Wait { millis: 20_000 },
    HistoryStep::Write { block: 0 },
    HistoryStep::Wait { millis: 20_000 },
];

const START_TURNS: u64 = 20;
/// The start after a cut is cut after fewer turns than this.
const AGAIN: u64 = 7;

/// Runs all workloads of `length` operations, and some longer ones.
pub(crate) fn run_all(length: u32) -> Result<Tally, Box<BrokenRule>> {
    let mut tally = Tally::default();
    for seed in 0..4 {
        tally += cut_create(shape(seed), length)?;
    }
    for seed in 0..4 {
        tally += cut_everywhere(&REWRITE, shape(seed), length)?;
        let shape = HistoryShape { profile: Profile::Raid1c3, members: 3, ..shape(seed) };
        tally += cut_everywhere(&RETURN, shape, length)?;
    }
    for number in 0..ALPHABET.len().pow(length) {
        let digit = |place: u32| ALPHABET[number / ALPHABET.len().pow(place) % ALPHABET.len()];
        let operations: Vec<HistoryStep> = (0..length).map(digit).collect();
        for seed in 0..4 {
            tally += cut_everywhere(&operations, shape(seed), length)?;
        }
    }
    Ok(tally)
}

/// Cuts `create` at every write: the volume can be created again, and used.
fn cut_create(shape: HistoryShape, length: u32) -> Result<Tally, Box<BrokenRule>> {
    let mut tally = Tally::default();
    for writes in 0.. {
        let mut is_cut = false;
        let created = catch(|| {
            let machine = Machine::after_cuts(shape, Some(writes))?;
            is_cut = machine.is_cut;
            machine.run(&[HistoryStep::Write { block: 0 }])
        });
        tally += created.map_err(|what| {
            let history = vec![format!("a power cut after write {writes} of `create`")];
            let (volume, command) = (shape.in_words(), format!("--small {length}"));
            Box::new(BrokenRule { volume, what, history, command })
        })?;
        if !is_cut {
            break;
        }
    }
    Ok(tally)
}

/// Runs a workload until it ends without a cut.
fn cut_everywhere(
    operations: &[HistoryStep],
    shape: HistoryShape,
    length: u32,
) -> Result<Tally, Box<BrokenRule>> {
    let mut tally = Tally::default();
    for turn in 0.. {
        let cut = catch(|| Machine::new(shape)?.run_and_cut(operations, turn));
        let cut = cut.map_err(|what| {
            let steps = operations.iter();
            let mut history: Vec<String> = steps.map(|it| it.in_words(shape.members)).collect();
            history.push(format!("a power cut at turn {turn}, and {} later", turn % AGAIN));
            let (volume, command) = (shape.in_words(), format!("--small {length}"));
            Box::new(BrokenRule { volume, what, history, command })
        })?;
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
        member_bytes: 7 << 20,
        has_checksums: seed % 2 == 1,
        spares: 0,
        remote: None,
        extra: ExtraFaults::None,
        bad_row: 0,
    }
}

impl Machine {
    /// Runs operations one after the other for half of the seeds, else all at once, and cuts the
    /// power after a number of turns, unless the workload ends before. The start after it, of three
    /// members without the first, is cut as well. Then the volume has to start and recover.
    fn run_and_cut(mut self, operations: &[HistoryStep], turns: u64) -> Result<Tally, String> {
        self.start(0)?;
        let mut left = turns;
        for _ in 0..START_TURNS.min(left) {
            self.turn(Nanos::from_millis(5))?;
            left -= 1;
        }
        for &operation in operations {
            self.tally.operations += 1;
            if let HistoryStep::Wait { millis } = operation {
                let until = self.world.now() + Nanos::from_millis(millis);
                while left > 0 && self.world.now() < until {
                    self.turn(until - self.world.now())?;
                    left -= 1;
                }
                continue;
            }
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
            self.mend_all();
            self.start(if self.rows.len() > 2 { 1 } else { 0 })?;
            for _ in 0..turns % AGAIN {
                self.turn(Nanos::from_millis(5))?;
            }
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
