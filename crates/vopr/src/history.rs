//! Histories: the operations of a run, drawn from a seed.

use mirrorball_core::rng::Rng;
use std::fmt;

/// Number of blocks that clients use, in several regions of the volume.
pub(crate) const BLOCKS: u64 = 12;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// In good order.
    Stop,
    Kill,
    /// All machines lose power.
    PowerCut,
}

/// A fault of a member, which it reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DiskFault {
    Gone,
    /// One in a few reads fails.
    Reads,
    /// The next flush fails, and some of what it should have made durable is lost.
    Flush,
    /// The next write fails.
    Write,
    /// Each write fails.
    ReadOnly,
    /// The next write of the list of bad blocks fails.
    BadBlocks,
    /// It does nothing for a time.
    Hangs {
        millis: u64,
    },
    /// Reads of a block of the clients fail until it is written.
    Sectors {
        block: u64,
    },
}

/// Damage by a disk without an error. One disk of a volume does it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Damage {
    /// A bit of a block of the clients changes.
    Data { block: u64 },
    /// A bit of a block of metadata changes.
    Metadata { block: u64 },
    /// The next write of data goes to the place of a block.
    Misdirected { block: u64 },
}

/// A request of the user that changes no member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UserCommand {
    Status,
    Statistics,
    Events,
    PauseScrub,
    ResumeScrub,
    CancelScrub,
    KeepPolicy,
}

/// One step of a history. A member is taken modulo their number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HistoryStep {
    Write {
        block: u64,
    },
    Read {
        block: u64,
    },
    Flush,
    /// A client breaks its connection, whatever is in flight, and makes another.
    Reconnect {
        client: u32,
    },
    /// The user wants something that changes no member.
    Command(UserCommand),
    Fault {
        member: usize,
        fault: DiskFault,
    },
    /// A member works again.
    Mend {
        member: usize,
    },
    /// A connection to a member on another machine breaks.
    Disconnect {
        member: usize,
    },
    Fail {
        member: usize,
    },
    /// The user has a member rebuilt.
    Rebuild {
        member: usize,
    },
    /// The user puts an empty disk in the place of a member.
    Replace {
        member: usize,
    },
    /// The user removes a disk that failed.
    Remove {
        member: usize,
    },
    AddSpare,
    /// The user has the mirrors compared.
    Scrub,
    /// Time passes, in milliseconds.
    Wait {
        millis: u64,
    },
    /// Requests in flight end.
    Settle,
    /// The service ends, all members work again if `mends`, and it is started without the members
    /// whose bit is set.
    Restart {
        end: End,
        mends: bool,
        without: u8,
    },
    Damage(Damage),
    /// A copy of a member is made, for later.
    Snapshot {
        member: usize,
    },
    /// The service ends, and is to be started with the copy in the place of the member. Then it is
    /// started with the member.
    RestoreSnapshot {
        end: End,
    },
    /// The service ends, and is to be started with a clone and its member. Then it is started
    /// without the clone.
    Clone {
        end: End,
        member: usize,
    },
    /// The service ends. The user starts it with some of the members, whose bit is set, and then
    /// with the others, and it is written to each time. Then it is to be started with all.
    Halves {
        end: End,
        first: u8,
    },
}

impl HistoryStep {
    /// The operation in words, of a volume with `count` members. Members have their devids, from 1.
    pub(crate) fn in_words(self, count: usize) -> String {
        let devid = |member: usize| member % count + 1;
        let devids = |bits: u8| {
            let members = (0..count).filter(|member| bits >> member & 1 != 0);
            members.map(|member| devid(member).to_string()).collect::<Vec<String>>().join(", ")
        };
        match self {
            HistoryStep::Write { block } => format!("write block {block}"),
            HistoryStep::Read { block } => format!("read block {block}"),
            HistoryStep::Flush => "flush".to_owned(),
            HistoryStep::Reconnect { client } => format!("client {client} connects again"),
            HistoryStep::Command(command) => format!("ctl: {command:?}"),
            HistoryStep::Fault { member, fault } => format!("devid {} {fault}", devid(member)),
            HistoryStep::Mend { member } => format!("devid {} works again", devid(member)),
            HistoryStep::Disconnect { member } => {
                format!("a connection to devid {} breaks", devid(member))
            }
            HistoryStep::Fail { member } => format!("ctl: fail devid {}", devid(member)),
            HistoryStep::Rebuild { member } => format!("ctl: rebuild devid {}", devid(member)),
            HistoryStep::Replace { member } => format!("ctl: replace devid {}", devid(member)),
            HistoryStep::Remove { member } => format!("ctl: remove devid {}", devid(member)),
            HistoryStep::AddSpare => "ctl: add a spare".to_owned(),
            HistoryStep::Scrub => "ctl: scrub".to_owned(),
            HistoryStep::Wait { millis } => format!("{millis} ms pass"),
            HistoryStep::Settle => "requests in flight end".to_owned(),
            HistoryStep::Restart { end, mends, without } => {
                let mended = if mends { ", all members work" } else { "" };
                match without & ((1 << count) - 1) {
                    0 => format!("{end}{mended}, start with all members"),
                    bits => format!("{end}{mended}, start without devid {}", devids(bits)),
                }
            }
            HistoryStep::Damage(damage) => format!("the bad disk: {damage}"),
            HistoryStep::Snapshot { member } => format!("devid {} is copied", devid(member)),
            HistoryStep::RestoreSnapshot { end } => {
                format!("{end}, start with the copy, then without it")
            }
            HistoryStep::Clone { end, member } => {
                let devid = devid(member);
                format!("{end}, start with a clone of devid {devid}, then without it")
            }
            HistoryStep::Halves { end, first } => {
                let first = devids(first);
                format!("{end}, start with devid {first} alone, then with the others, then all")
            }
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            End::Stop => "stop",
            End::Kill => "kill",
            End::PowerCut => "power cut",
        })
    }
}

impl fmt::Display for DiskFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskFault::Gone => f.write_str("is gone"),
            DiskFault::Reads => f.write_str("fails some reads"),
            DiskFault::Flush => f.write_str("fails its next flush"),
            DiskFault::Write => f.write_str("fails its next write"),
            DiskFault::ReadOnly => f.write_str("fails writes"),
            DiskFault::BadBlocks => f.write_str("fails its next write of bad blocks"),
            DiskFault::Hangs { millis } => write!(f, "hangs for {millis} ms"),
            DiskFault::Sectors { block } => write!(f, "loses sectors of block {block}"),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Data { block } => write!(f, "a bit of block {block} changes"),
            Damage::Metadata { block } => write!(f, "a bit of metadata block {block} changes"),
            Damage::Misdirected { block } => write!(f, "the next write goes to block {block}"),
        }
    }
}

/// The faults of a seed that are not in every history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExtraFaults {
    None,
    /// One disk damages its data without an error.
    Damage,
    /// Disks are cloned, copied and put back, found in any order, and used in two halves.
    Identity,
    /// Disks lose sectors before and while members are rebuilt, and lists of bad blocks fail.
    Losses,
}

/// Draws a history of `count` operations. Half of the histories have some kinds of operations only,
/// so that what these lead to is not ended by another kind each time.
pub(crate) fn draw(seed: u64, count: usize, extra: ExtraFaults) -> Vec<HistoryStep> {
    let rng = &mut Rng::stream(seed, "history");
    let kinds = if rng.below(2) == 0 { u64::MAX } else { rng.below(1 << KINDS) };
    let mut operations = Vec::new();
    let rebuilt = rng.below(12) as usize;
    while operations.len() < count {
        match rng.below(100) {
            _ if extra == ExtraFaults::Losses => draw_loss(rng, rebuilt, &mut operations),
            0..3 => draw_burst(rng, &mut operations),
            3 => draw_return(rng, &mut operations),
            4..8 => operations.extend(draw_extra(extra, rng)),
            _ => {
                let operation = draw_operation(rng);
                operations.extend((kinds >> kind(operation) & 1 == 1).then_some(operation));
            }
        }
    }
    operations.truncate(count);
    operations
}

/// Number of kinds of operations that a history may lack.
const KINDS: u32 = 16;

/// The kind of an operation; that of a write is in every history.
fn kind(operation: HistoryStep) -> u32 {
    match operation {
        HistoryStep::Read { .. } => 0,
        HistoryStep::Flush => 1,
        HistoryStep::Reconnect { .. } | HistoryStep::Disconnect { .. } => 2,
        HistoryStep::Command(_) => 3,
        HistoryStep::Fault { fault: DiskFault::Gone, .. } => 4,
        HistoryStep::Fault { fault: DiskFault::Hangs { .. }, .. } => 5,
        HistoryStep::Fault { .. } => 6,
        HistoryStep::Mend { .. } => 7,
        HistoryStep::Fail { .. } => 8,
        HistoryStep::Rebuild { .. } => 9,
        HistoryStep::Replace { .. } | HistoryStep::Remove { .. } => 10,
        HistoryStep::Scrub => 11,
        HistoryStep::Wait { .. } | HistoryStep::Settle => 12,
        HistoryStep::Restart { end: End::Stop, .. } => 13,
        HistoryStep::Restart { end: End::Kill, .. } => 14,
        HistoryStep::Restart { end: End::PowerCut, .. } => 15,
        _ => 63,
    }
}

/// Two members leave, and one of them comes back while a client writes; soon all lose power, and
/// the volume is to be started without the others.
fn draw_return(rng: &mut Rng, operations: &mut Vec<HistoryStep>) {
    let first = rng.below(12) as usize;
    let members = [first, first + 1];
    operations.extend(members.map(|member| HistoryStep::Fault { member, fault: DiskFault::Gone }));
    operations.push(HistoryStep::Write { block: rng.below(BLOCKS) });
    operations.push(HistoryStep::Settle);
    operations.extend(members.map(|member| HistoryStep::Mend { member }));
    operations.push(HistoryStep::Rebuild { member: first });
    for _ in 0..1 + rng.below(3) {
        operations.push(HistoryStep::Write { block: rng.below(BLOCKS) });
    }
    let without = if rng.below(2) == 0 { 0 } else { rng.below(16) as u8 };
    operations.push(HistoryStep::Restart { end: End::PowerCut, mends: true, without });
}

/// Blocks that disks lose sectors of: two in one region of the volume, one in another.
const LOST_BLOCKS: [u64; 3] = [0, 1, 9];

/// A part of a history in which mostly one member is rebuilt, from others that lose sectors.
fn draw_loss(rng: &mut Rng, rebuilt: usize, operations: &mut Vec<HistoryStep>) {
    let (block, other) = (LOST_BLOCKS[rng.below(3) as usize], rebuilt + 1 + rng.below(2) as usize);
    let member = if rng.below(4) == 0 { other } else { rebuilt };
    let fault = |member, fault| HistoryStep::Fault { member, fault };
    let lose = |member| fault(member, DiskFault::Sectors { block });
    let wait = |bits: u64| HistoryStep::Wait { millis: 1 << bits };
    match rng.below(20) {
        0..3 => operations.push(lose(other)),
        3 => operations.extend([lose(rebuilt), lose(rebuilt + 1), lose(rebuilt + 2)]),
        4 => operations.push(lose(member)),
        5..7 => {
            operations.extend([HistoryStep::Fail { member }, HistoryStep::Replace { member }]);
            // After the list of the new disk, before the next one.
            let late = [wait(10 + rng.below(4)), fault(other, DiskFault::BadBlocks)];
            operations.extend(late.into_iter().take(2 * rng.below(2) as usize));
        }
        7 => operations.push(HistoryStep::Replace { member }),
        8..10 => {
            operations.push(fault(member, DiskFault::Gone));
            operations.extend((rng.below(3) == 0).then_some(HistoryStep::Write { block }));
            operations.extend([HistoryStep::Settle, wait(rng.below(15))]);
            operations.extend([HistoryStep::Mend { member }, HistoryStep::Rebuild { member }]);
        }
        10..12 => operations.push(fault(rebuilt + rng.below(3) as usize, DiskFault::BadBlocks)),
        12 => {
            operations.extend([HistoryStep::Fail { member: other }, wait(10)]);
            operations.push(fault(rebuilt, DiskFault::Flush));
            operations.extend([HistoryStep::Write { block }, HistoryStep::Settle]);
            operations.push(HistoryStep::Restart { end: draw_end(rng), mends: true, without: 0 });
        }
        13..15 => operations.push(HistoryStep::Write { block }),
        15 => operations.push(HistoryStep::Read { block }),
        16 => operations.push(wait(rng.below(15))),
        17 => operations.push(HistoryStep::Rebuild { member: other }),
        _ => {
            let without = if rng.below(4) == 0 { rng.below(8) as u8 } else { 0 };
            let (end, mends) = (draw_end(rng), rng.below(2) == 0);
            operations.push(HistoryStep::Restart { end, mends, without });
        }
    }
    if rng.below(2) == 0 {
        operations.push(wait(14));
        operations.extend(LOST_BLOCKS.map(|block| HistoryStep::Read { block }));
    }
}

/// A fault, requests of clients, and soon a loss of power, after which all members are there again.
/// A reply that came too early is caught only by a loss of power within some milliseconds.
fn draw_burst(rng: &mut Rng, operations: &mut Vec<HistoryStep>) {
    let member = rng.below(12) as usize;
    operations.push(match rng.below(4) {
        0 | 1 => HistoryStep::Fault { member, fault: DiskFault::Gone },
        2 => HistoryStep::Fault { member, fault: DiskFault::Write },
        _ => HistoryStep::Rebuild { member },
    });
    for _ in 0..1 + rng.below(3) {
        operations.push(HistoryStep::Write { block: rng.below(BLOCKS) });
    }
    operations.extend((rng.below(2) == 0).then_some(HistoryStep::Flush));
    operations.extend((rng.below(2) == 0).then_some(HistoryStep::Settle));
    let end = if rng.below(4) == 0 { End::Kill } else { End::PowerCut };
    operations.push(HistoryStep::Restart { end, mends: rng.below(4) > 0, without: 0 });
}

fn draw_end(rng: &mut Rng) -> End {
    [End::Stop, End::Kill, End::PowerCut][rng.below(3) as usize]
}

fn draw_extra(extra: ExtraFaults, rng: &mut Rng) -> Option<HistoryStep> {
    let (member, block, end) = (rng.below(12) as usize, rng.below(BLOCKS), draw_end(rng));
    match (extra, rng.below(5)) {
        (ExtraFaults::None | ExtraFaults::Losses, _) => None,
        (ExtraFaults::Damage, 0 | 1) => Some(HistoryStep::Damage(Damage::Data { block })),
        (ExtraFaults::Damage, 2 | 3) => Some(HistoryStep::Damage(Damage::Metadata { block })),
        (ExtraFaults::Damage, _) => Some(HistoryStep::Damage(Damage::Misdirected { block })),
        (ExtraFaults::Identity, 0 | 1) => Some(HistoryStep::Snapshot { member }),
        (ExtraFaults::Identity, 2) => Some(HistoryStep::RestoreSnapshot { end }),
        (ExtraFaults::Identity, 3) => Some(HistoryStep::Clone { end, member }),
        (ExtraFaults::Identity, _) => Some(HistoryStep::Halves { end, first: rng.below(16) as u8 }),
    }
}

fn draw_operation(rng: &mut Rng) -> HistoryStep {
    let (block, member) = (rng.below(BLOCKS), rng.below(12) as usize);
    match rng.below(200) {
        0..76 => HistoryStep::Write { block },
        76..110 => HistoryStep::Read { block },
        110..128 => HistoryStep::Flush,
        128..130 => HistoryStep::Reconnect { client: rng.below(2) as u32 },
        130..138 => HistoryStep::Fault { member, fault: draw_fault(rng) },
        138..147 => HistoryStep::Mend { member },
        147 => HistoryStep::Disconnect { member },
        148..151 => HistoryStep::Fail { member },
        151..158 => HistoryStep::Rebuild { member },
        158..161 => HistoryStep::Replace { member },
        161 => HistoryStep::Remove { member },
        162 => HistoryStep::AddSpare,
        163 | 164 => HistoryStep::Scrub,
        165..172 => HistoryStep::Wait { millis: 1 << rng.below(14) },
        172..178 => HistoryStep::Settle,
        178..182 => HistoryStep::Command(draw_command(rng)),
        _ => {
            let without = if rng.below(3) == 0 { rng.below(16) as u8 } else { 0 };
            HistoryStep::Restart { end: draw_end(rng), mends: rng.below(4) == 0, without }
        }
    }
}

fn draw_fault(rng: &mut Rng) -> DiskFault {
    match rng.below(12) {
        0..3 => DiskFault::Gone,
        3 => DiskFault::Reads,
        4 => DiskFault::Flush,
        5 => DiskFault::Write,
        6 => DiskFault::Hangs { millis: 1 << rng.below(13) },
        7 => DiskFault::ReadOnly,
        8 => DiskFault::BadBlocks,
        _ => DiskFault::Sectors { block: rng.below(BLOCKS) },
    }
}

fn draw_command(rng: &mut Rng) -> UserCommand {
    const ALL: [UserCommand; 7] = [
        UserCommand::Status,
        UserCommand::Statistics,
        UserCommand::Events,
        UserCommand::PauseScrub,
        UserCommand::ResumeScrub,
        UserCommand::CancelScrub,
        UserCommand::KeepPolicy,
    ];
    ALL[rng.below(7) as usize]
}
