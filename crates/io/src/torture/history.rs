//! Histories: the operations of a run, drawn from a seed.

use mirrorball_core::rng::Rng;

/// Number of blocks that clients use, in several regions of the volume.
pub(super) const BLOCKS: u64 = 12;

/// How a run of the service ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// In good order.
    Stop,
    /// The program is killed.
    Kill,
    /// The machine loses power.
    PowerCut,
}

/// One step of a history. A member is taken modulo their number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    /// A client writes a block.
    Write { block: u64 },
    /// A client reads a block.
    Read { block: u64 },
    /// A client flushes.
    Flush,
    /// A member is gone.
    Lose { member: usize },
    /// One in a few reads of a member fails.
    SpoilReads { member: usize },
    /// A member works again.
    Mend { member: usize },
    /// The user has a member rebuilt.
    Rebuild { member: usize },
    /// The user puts an empty disk in the place of a member.
    Replace { member: usize },
    /// The user removes a disk that failed.
    Remove { member: usize },
    /// The user has the mirrors compared.
    Scrub,
    /// Time passes, in milliseconds.
    Wait { millis: u64 },
    /// Requests in flight end.
    Settle,
    /// The service ends, and is started again without the members whose bit is set.
    Restart { end: End, without: u8 },
}

impl Operation {
    /// What happens to a volume with `count` members. Members have their devids, from 1.
    pub(super) fn in_words(&self, count: usize) -> String {
        let devid = |member: usize| member % count + 1;
        match *self {
            Operation::Write { block } => format!("write block {block}"),
            Operation::Read { block } => format!("read block {block}"),
            Operation::Flush => "flush".to_owned(),
            Operation::Lose { member } => format!("devid {} is gone", devid(member)),
            Operation::SpoilReads { member } => {
                format!("some reads of devid {} fail", devid(member))
            }
            Operation::Mend { member } => format!("devid {} works again", devid(member)),
            Operation::Rebuild { member } => format!("rebuild devid {}", devid(member)),
            Operation::Replace { member } => format!("replace devid {}", devid(member)),
            Operation::Remove { member } => format!("remove devid {}", devid(member)),
            Operation::Scrub => "scrub".to_owned(),
            Operation::Wait { millis } => format!("{millis} ms pass"),
            Operation::Settle => "requests in flight end".to_owned(),
            Operation::Restart { end, without } => {
                let end = match end {
                    End::Stop => "stop",
                    End::Kill => "kill",
                    End::PowerCut => "power cut",
                };
                let left_out = (0..count).filter(|member| without >> member & 1 != 0);
                let left_out: Vec<String> = left_out.map(|it| devid(it).to_string()).collect();
                match &left_out[..] {
                    [] => format!("{end}, start with all members"),
                    devids => format!("{end}, start without devid {}", devids.join(", ")),
                }
            }
        }
    }
}

/// Draws a history. In half of them, members are replaced, too, and in a fifth removed.
pub(super) fn draw(seed: u64, count: u64) -> Vec<Operation> {
    let rng = &mut Rng::stream(seed, "history");
    let replacements = &mut Rng::stream(seed, "replacements");
    let removals = &mut Rng::stream(seed, "removals");
    let operation = |_| match operation(rng) {
        Operation::Settle | Operation::Mend { .. }
            if seed.is_multiple_of(5) && removals.below(2) == 0 =>
        {
            Operation::Remove { member: removals.below(12) as usize }
        }
        Operation::Rebuild { member } if seed.is_multiple_of(2) && replacements.below(2) == 0 => {
            Operation::Replace { member }
        }
        operation => operation,
    };
    (0..count).map(operation).collect()
}

fn operation(rng: &mut Rng) -> Operation {
    let block = rng.below(BLOCKS);
    let member = rng.below(12) as usize;
    match rng.below(100) {
        0..40 => Operation::Write { block },
        40..58 => Operation::Read { block },
        58..68 => Operation::Flush,
        68..72 => Operation::Lose { member },
        72..74 => Operation::SpoilReads { member },
        74..79 => Operation::Mend { member },
        79..83 => Operation::Rebuild { member },
        83..87 => Operation::Wait { millis: 1 << rng.below(14) },
        87..90 => Operation::Settle,
        90 => Operation::Scrub,
        _ => {
            let end = [End::Stop, End::Kill, End::PowerCut][rng.below(3) as usize];
            let without = if rng.below(3) == 0 { rng.below(16) as u8 } else { 0 };
            Operation::Restart { end, without }
        }
    }
}
