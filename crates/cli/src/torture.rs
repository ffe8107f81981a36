//! `mirrorball torture`: histories of a volume with failures and power cuts, in simulation.

use crate::ending::{Ending, Failure};
use crate::numbers::{self, whole_number};
use crate::screen;
use mirrorball_io::torture::{
    HISTORY_OPERATIONS, Promises, TortureFailure, TortureReport, torture,
};

/// Histories between two reports of progress.
const PROGRESS: u64 = 500;

/// Test volumes in simulation: random histories with failures and power cuts
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The code that serves volumes runs on simulated members and a simulated clock. \
Clients write, read and flush; members fail and return; the service is stopped, killed or loses \
power, and starts again with all members or some of them. In a third of the histories, the clients \
use the NBD server, and a user the control socket. A model knows what may be read. Nothing outside \
of the process is used or changed.

A history that breaks a rule is printed with its seed, reduced to the operations that it needs, \
and the exit code is 1. The same seed gives the same history.

Example:
  mirrorball torture --seed 7 --operations 1000000"
)]
pub(crate) struct Args {
    /// Seed of the first history. The second history uses this number plus 1, and so on
    #[arg(long, default_value_t = 1, allow_hyphen_values = true, value_parser = numbers::seed)]
    seed: u64,

    /// Number of operations of all histories together, rounded up to a multiple of 60, as each
    /// history has 60
    #[arg(long, default_value_t = 60_000, allow_hyphen_values = true,
          value_parser = whole_number(1..=u64::MAX))]
    operations: u64,

    /// Simulate members that confirm a flush and make nothing durable, to show what is printed when
    /// a rule is broken
    #[arg(long)]
    lying_flush: bool,

    /// Test volumes with checksums: data that a disk damaged must not be returned
    #[arg(long, conflicts_with = "lying_flush")]
    checksums: bool,
}

impl Args {
    /// Promises of the simulated members, and the option that selects them.
    fn promises(&self) -> (Promises, &'static str) {
        match (self.lying_flush, self.checksums) {
            (true, _) => (Promises::FlushLies, " --lying-flush"),
            (_, true) => (Promises::KeptWithChecksums, " --checksums"),
            (false, false) => (Promises::Kept, ""),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let (promises, _) = args.promises();
    let histories = args.operations.div_ceil(HISTORY_OPERATIONS);
    if !args.operations.is_multiple_of(HISTORY_OPERATIONS) {
        screen::say(format_args!(
            "note: a history has {HISTORY_OPERATIONS} operations, so {} are run",
            histories.saturating_mul(HISTORY_OPERATIONS)
        ));
    }
    let mut report = TortureReport::default();
    // A panic of the code under test is reported as the failure of a history.
    std::panic::set_hook(Box::new(|_| {}));
    for history in 0..histories {
        let seed = args.seed.wrapping_add(history);
        if let Err(failure) = torture(seed, promises, &mut report) {
            screen::print(&failure_text(&failure, args))?;
            return Ok(Ending::FoundFailure);
        }
        if (history + 1).is_multiple_of(PROGRESS) {
            screen::say(format_args!("{} of {histories} histories", history + 1));
        }
    }
    let TortureReport { histories, operations, replies, power_cuts, kills, starts, .. } = report;
    let TortureReport { damages, refusals, unpromised, .. } = report;
    let TortureReport { recoveries_cut, divergences, spares_used, .. } = report;
    let histories = match histories {
        1 => "1 history".to_owned(),
        _ => format!("{histories} histories"),
    };
    screen::print(&format!(
        "{operations} operations in {histories} broke no rule; in the course of them {replies} \
         requests were answered, the volume started {starts} times, after {power_cuts} power cuts \
         and {kills} kills, {recoveries_cut} of them in the middle of a recovery, and {} times a \
         member was out of sync and was rebuilt; {spares_used} spares took the place of a member; \
         disks damaged data or metadata without an error {damages} times, {refusals} clones, old \
         copies and damaged members were refused, and {divergences} times two halves that had \
         been used alone\nnot checked, because nothing is promised there: {unpromised} reads of \
         damaged data without checksums and starts with copies a few seconds old\n",
        report.failures
    ))?;
    Ok(Ending::Done)
}

fn failure_text(failure: &TortureFailure, args: &Args) -> String {
    let TortureFailure { seed, volume, what, history } = failure;
    let mut text = format!("the history of seed {seed} ({volume}) breaks a rule: {what}\n");
    for operation in history {
        text += &format!("  {operation}\n");
    }
    let (_, option) = args.promises();
    let history = format!("--seed {seed} --operations {HISTORY_OPERATIONS}");
    text + &format!("repeat it with `mirrorball torture {history}{option}`\n")
}
