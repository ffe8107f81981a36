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

/// What a disk does wrong without an error. One disk of a volume does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Damage {
    /// A bit of a block of the clients changes.
    Data { block: u64 },
    /// A bit of a block of metadata changes.
    Metadata { block: u64 },
    /// The next write of data goes to the place of a block.
    MisdirectedData { block: u64 },
    /// The next write of metadata goes to a place that nothing reads.
    MisdirectedMetadata,
}

/// A request of the user that changes no member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum UserCommand {
    Status,
    Statistics,
    Events,
    PauseScrub,
    ResumeScrub,
    CancelScrub,
    KeepPolicy,
}

impl UserCommand {
    const ALL: [UserCommand; 7] = [
        UserCommand::Status,
        UserCommand::Statistics,
        UserCommand::Events,
        UserCommand::PauseScrub,
        UserCommand::ResumeScrub,
        UserCommand::CancelScrub,
        UserCommand::KeepPolicy,
    ];

    fn in_words(self) -> &'static str {
        match self {
            UserCommand::Status => "ctl status",
            UserCommand::Statistics => "ctl stats",
            UserCommand::Events => "ctl events",
            UserCommand::PauseScrub => "ctl scrub pause",
            UserCommand::ResumeScrub => "ctl scrub resume",
            UserCommand::CancelScrub => "ctl scrub cancel",
            UserCommand::KeepPolicy => "ctl policy NAME --keep",
        }
    }
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
    /// The user of the service wants something that changes no member.
    Command(UserCommand),
    /// The user fails a member.
    Fail { member: usize },
    /// A member is gone.
    Lose { member: usize },
    /// One in a few reads of a member fails.
    SpoilReads { member: usize },
    /// The next flush of a member fails, and some of what it should have made durable is lost.
    SpoilFlush { member: usize },
    /// The next write of a member fails.
    SpoilWrite { member: usize },
    /// A member works again.
    Mend { member: usize },
    /// The user has a member rebuilt.
    Rebuild { member: usize },
    /// The user puts an empty disk in the place of a member.
    Replace { member: usize },
    /// The user adds a spare.
    AddSpare,
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
    /// A disk damages its data.
    Damage(Damage),
    /// A copy of a member is made, for later.
    Snapshot { member: usize },
    /// The service ends, and is to be started with the copy in the place of the member. Then it is
    /// started with the member.
    RestoreSnapshot { end: End },
    /// The service ends. The user starts it with some of the members, whose bit is set, and then
    /// with the others, and it is written to each time. Then it is to be started with all.
    Halves { end: End, first: u8 },
    /// The service ends, and is to be started with a clone and its member. Then it is started
    /// without the copy.
    Clone { end: End, member: usize },
}

impl Operation {
    /// What happens to a volume with `count` members. Members have their devids, from 1.
    pub(super) fn in_words(&self, count: usize) -> String {
        let devid = |member: usize| member % count + 1;
        match *self {
            Operation::Write { block } => format!("write block {block}"),
            Operation::Read { block } => format!("read block {block}"),
            Operation::Flush => "flush".to_owned(),
            Operation::Command(command) => command.in_words().to_owned(),
            Operation::Fail { member } => format!("ctl members fail {}", devid(member)),
            Operation::SpoilFlush { member } => {
                format!("the next flush of devid {} fails", devid(member))
            }
            Operation::SpoilWrite { member } => {
                format!("the next write to devid {} fails", devid(member))
            }
            Operation::Halves { end, first } => {
                let is_first = |member: &usize| first >> member & 1 != 0;
                let first: Vec<String> =
                    (0..count).filter(is_first).map(|it| devid(it).to_string()).collect();
                let (end, first) = (end.in_words(), first.join(", "));
                format!("{end}, start with devid {first} alone, then with the others, then all")
            }
            Operation::Lose { member } => format!("devid {} is gone", devid(member)),
            Operation::SpoilReads { member } => {
                format!("some reads of devid {} fail", devid(member))
            }
            Operation::Mend { member } => format!("devid {} works again", devid(member)),
            Operation::Rebuild { member } => format!("rebuild devid {}", devid(member)),
            Operation::Replace { member } => format!("replace devid {}", devid(member)),
            Operation::AddSpare => "ctl members add --spare".to_owned(),
            Operation::Remove { member } => format!("remove devid {}", devid(member)),
            Operation::Scrub => "scrub".to_owned(),
            Operation::Wait { millis } => format!("{millis} ms pass"),
            Operation::Settle => "requests in flight end".to_owned(),
            Operation::Damage(damage) => damage.in_words(),
            Operation::Snapshot { member } => format!("devid {} is copied", devid(member)),
            Operation::RestoreSnapshot { end } => {
                format!("{}, start with the copy, then without it", end.in_words())
            }
            Operation::Clone { end, member } => {
                let (end, devid) = (end.in_words(), devid(member));
                format!("{end}, start with a clone of devid {devid}, then without it")
            }
            Operation::Restart { end, without } => {
                let end = end.in_words();
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

impl End {
    fn in_words(self) -> &'static str {
        match self {
            End::Stop => "stop",
            End::Kill => "kill",
            End::PowerCut => "power cut",
        }
    }
}

impl Damage {
    fn in_words(self) -> String {
        match self {
            Damage::Data { block } => format!("a bit of block {block} changes on the bad disk"),
            Damage::Metadata { block } => {
                format!("a bit of metadata block {block} changes on the bad disk")
            }
            Damage::MisdirectedData { block } => {
                format!("the next write to the bad disk goes to block {block}")
            }
            Damage::MisdirectedMetadata => {
                "the next write of metadata to the bad disk goes nowhere".to_owned()
            }
        }
    }
}

/// The faults of a seed that are not in every history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ExtraFaults {
    /// None.
    None,
    /// One disk damages its data without an error.
    Damage,
    /// Disks are cloned, copied and put back, and found in any order.
    Identity,
}

/// The extra faults of a seed.
pub(super) fn extra_faults(seed: u64) -> ExtraFaults {
    match seed % 7 {
        3 => ExtraFaults::Damage,
        4 => ExtraFaults::Identity,
        _ => ExtraFaults::None,
    }
}

/// Returns true if the history of a seed is one of a whole service: its clients use the NBD server
/// and its user the control socket.
pub(super) fn has_service(seed: u64) -> bool {
    seed / 8 % 3 == 1
}

/// Number of spares that the volume of a seed has at first.
pub(super) fn spares(seed: u64) -> u64 {
    if has_service(seed) { seed / 24 % 4 } else { 0 }
}

/// Draws a history. In half of them, members are replaced, too, and in a fifth removed.
pub(super) fn draw(seed: u64, count: u64) -> Vec<Operation> {
    let rng = &mut Rng::stream(seed, "history");
    let replacements = &mut Rng::stream(seed, "replacements");
    let removals = &mut Rng::stream(seed, "removals");
    let extra = &mut Rng::stream(seed, "extra faults");
    let of_service = &mut Rng::stream(seed, "service");
    let (extra_faults, has_service) = (extra_faults(seed), has_service(seed));
    let operation = |_| match operation(rng) {
        operation
            if has_service
                && !matches!(operation, Operation::Restart { .. })
                && of_service.below(8) == 0 =>
        {
            operation_of_service(spares(seed) > 0, of_service)
        }
        operation if !matches!(operation, Operation::Restart { .. }) && extra.below(12) == 0 => {
            extra_fault(extra_faults, extra).unwrap_or(operation)
        }
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

fn extra_fault(kind: ExtraFaults, rng: &mut Rng) -> Option<Operation> {
    let (member, block) = (rng.below(12) as usize, rng.below(BLOCKS));
    let end = [End::Stop, End::Kill, End::PowerCut][rng.below(3) as usize];
    match (kind, rng.below(4)) {
        (ExtraFaults::None, _) => None,
        (ExtraFaults::Damage, 0) => Some(Operation::Damage(Damage::Data { block })),
        (ExtraFaults::Damage, 1) => Some(Operation::Damage(Damage::Metadata { block })),
        (ExtraFaults::Damage, 2) => Some(Operation::Damage(Damage::MisdirectedData { block })),
        (ExtraFaults::Damage, _) => Some(Operation::Damage(Damage::MisdirectedMetadata)),
        (ExtraFaults::Identity, 0 | 1) => Some(Operation::Snapshot { member }),
        (ExtraFaults::Identity, 2) => Some(Operation::RestoreSnapshot { end }),
        (ExtraFaults::Identity, _) => Some(Operation::Clone { end, member }),
    }
}

/// An operation that is only in histories of a whole service.
fn operation_of_service(has_spares: bool, rng: &mut Rng) -> Operation {
    let member = rng.below(12) as usize;
    let end = [End::Stop, End::Kill, End::PowerCut][rng.below(3) as usize];
    match rng.below(8) {
        0 | 1 => Operation::Fail { member },
        2 => Operation::SpoilFlush { member },
        3 => Operation::SpoilWrite { member },
        4 => Operation::Halves { end, first: rng.below(16) as u8 },
        5 => Operation::Scrub,
        6 if has_spares => Operation::AddSpare,
        _ => Operation::Command(UserCommand::ALL[rng.below(7) as usize]),
    }
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
