//! A volume over such disks, with a model of what its clients may read.

use super::disk::{Cached, Disk, SECTOR, Sectors, apply};
use super::*;
use crate::label::assembly::{FoundMember, LabelAssembly, assemble};
use crate::label::{
    METADATA_BYTES, STALE_MAP_BYTES, STALE_MAP_OFFSET, may_lack_record, newest_label,
    newest_record, stale_maps,
};
use mirrorball_core::policy::MirrorSet;
use std::collections::VecDeque;
use std::ops::Range;

/// Draws any valid choice from the volume's generator.
struct Any;

impl ReadPolicy for Any {
    fn choose(&mut self, _: &Read, mirrors: &[Mirror], _: &Members, ctx: &mut Ctx<'_>) -> Choice {
        let number = mirrors.len() as u64;
        let first = ctx.rng.below(number) as usize;
        let other = (first + 1 + ctx.rng.below(number - 1) as usize) % mirrors.len();
        // The first back-off is twice as long.
        let after = Nanos::from_millis(50 * ctx.rng.below(2));
        match ctx.rng.below(8) {
            0 => Choice::Split(MirrorSet::all(mirrors)),
            1 => Choice::All(MirrorSet::all(mirrors)),
            2..4 => Choice::Hedge { first, backup: other, after },
            4..6 => Choice::Tied { first, second: other, after },
            _ => Choice::Mirror(first),
        }
    }
}

pub(super) const MEMBER_BYTES: u64 = 9 * MIB;
/// The sectors of the volume that are used: two neighbours, and one in each other region.
pub(super) const CELLS: [u64; 4] = [0, 1, 4 * MIB / SECTOR, 7 * MIB / SECTOR];

/// What a client does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    /// Writes a number of cells from one of [`CELLS`] on.
    Write {
        cell: usize,
        count: u64,
    },
    Flush,
    /// A member stops to answer.
    Lose(usize),
    /// A background step of a resync or rebuild.
    Copy,
    /// A member that failed works again, and is to be rebuilt.
    Return(usize),
    /// Time passes: the dirty log does what is due.
    Wait,
}

/// What a cell may hold: values in the order of their writes.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    /// The last value known to be durable, then the later ones.
    pub(super) values: Vec<u8>,
    /// The last value that was acknowledged.
    pub(super) acknowledged: u8,
}

pub(super) struct PendingClient {
    pub(super) operation: Operation,
    /// Of a write: its value, and the cells that it goes to.
    pub(super) value: u8,
    pub(super) cells: Vec<usize>,
    /// Of a flush: for each cell, the last value that was acknowledged before.
    pub(super) covered: Vec<u8>,
}

/// A running volume over disks.
pub(super) struct Machine {
    pub(super) disks: Vec<Disk>,
    pub(super) volume: Volume,
    pub(super) queue: VecDeque<(MemberIo, Option<usize>)>,
    pub(super) buffers: BTreeMap<u64, Sectors>,
    pub(super) cells: Vec<Cell>,
    pub(super) clients: BTreeMap<u64, PendingClient>,
    pub(super) next_id: u64,
    pub(super) next_value: u8,
    pub(super) now: Nanos,
    pub(super) copied_to: u64,
}

pub(super) fn array() -> (Vec<MemberConfig>, ChunkMap) {
    let configs: Vec<MemberConfig> =
        (1..=3).map(|devid| MemberConfig::new(devid, MEMBER_BYTES)).collect();
    let map = ChunkMap::allocate(Profile::Raid1c3, None, &configs).unwrap();
    (configs, map)
}

/// Disks with the labels of a new volume.
pub(super) fn new_disks() -> Vec<Disk> {
    let label = new_label(Profile::Raid1c3, 3, MEMBER_BYTES, false);
    let disk = |row: &LabelledMember| {
        let mut disk = Disk::default();
        let bytes = label.encode(row.uuid, LABEL_SLOTS[0]);
        disk.durable = sectors_of(LABEL_SLOTS[0], &bytes);
        disk
    };
    label.members.iter().map(disk).collect()
}

pub(super) fn sectors_of(offset: u64, bytes: &[u8]) -> Sectors {
    let chunks = bytes.chunks_exact(SECTOR as usize).zip(offset / SECTOR..);
    chunks.map(|(chunk, at)| (at, chunk.try_into().unwrap())).collect()
}

/// What the disks with these indexes hold.
pub(super) fn found(disks: &[Disk], present: &[usize]) -> Vec<FoundMember> {
    present
        .iter()
        .map(|&index| {
            let slots = LABEL_SLOTS.map(|slot| disks[index].bytes(slot, METADATA_BYTES));
            let newest = newest_label([&slots[0], &slots[1]]).expect("a label survives every cut");
            let log = disks[index].bytes(DIRTY_LOG_OFFSET, DIRTY_LOG_BYTES as usize);
            let record = newest_record(&log, Uuid([9; 16]), newest.found.member);
            let may_lack_record = may_lack_record(&log, record.as_ref());
            let maps = disks[index].bytes(STALE_MAP_OFFSET, STALE_MAP_BYTES as usize);
            let stale_maps = stale_maps(&maps, Uuid([9; 16]), newest.found.member);
            FoundMember { newest, record, may_lack_record, scrub: None, stale_maps }
        })
        .collect()
}

pub(super) fn assembled(
    disks: &[Disk],
    present: &[usize],
) -> (LabelAssembly, Vec<FoundMember>, ArrayVerdict) {
    let members = found(disks, present);
    let assembly = assemble(&members, &[]);
    let verdict = assembly.verdict(&array().1);
    (assembly, members, verdict)
}

/// A line for each label.
fn describe(members: &[FoundMember]) -> String {
    let line = |device: &FoundMember| {
        let Label { generation, lineage, members, .. } = &device.newest.found.label;
        let states: Vec<MemberState> = members.iter().map(|row| row.state).collect();
        let member = device.newest.found.member;
        format!("\n{member}: generation {generation}, {lineage:?}, {states:?}")
    };
    members.iter().map(line).collect()
}

impl Machine {
    /// Starts the volume from the disks with these indexes, or returns the disks if it may not
    /// start. The user starts it degraded if the newest data are there.
    pub(super) fn start(
        mut disks: Vec<Disk>,
        present: &[usize],
        cells: Vec<Cell>,
        seed: u64,
    ) -> Result<Machine, (Vec<Disk>, Vec<Cell>)> {
        for &index in present {
            disks[index].settle();
        }
        let (assembly, members, verdict) = assembled(&disks, present);
        let all: Vec<usize> = (0..disks.len()).collect();
        let (whole, _, _) = assembled(&disks, &all);
        let has_newest = whole.newest.generation == assembly.newest.generation
            && whole.newest.lineage == assembly.newest.lineage;
        match verdict {
            ArrayVerdict::Start => {}
            ArrayVerdict::NeedsDegraded { .. } if has_newest => {}
            ArrayVerdict::Doubtful => {
                panic!("in doubt: {:?}{}", assembly.standings, describe(&members))
            }
            _ => return Err((disks, cells)),
        }
        let states: Vec<MemberState> = assembly.members.iter().map(|row| row.state).collect();
        let labels = VolumeLabels::of(&assembly, &members, array().1.capacity_bytes(), seed);
        let mut machine = Machine {
            disks,
            volume: volume_with(labels, &states, Box::new(Any), false),
            queue: VecDeque::new(),
            buffers: BTreeMap::new(),
            cells,
            clients: BTreeMap::new(),
            next_id: 0,
            next_value: 1,
            now: Nanos::ZERO,
            copied_to: 0,
        };
        for (index, disk) in machine.disks.iter_mut().enumerate() {
            disk.is_gone = !present.contains(&index);
        }
        command(&mut machine.volume, StoreGate::commit_announcement);
        machine.next_value = machine.cells.iter().flat_map(|it| &it.values).max().unwrap() + 1;
        Ok(machine)
    }

    pub(super) fn submit(&mut self, kind: RequestKind, offset: u64, length: u64) -> u64 {
        self.next_id += 1;
        self.buffers.entry(self.next_id).or_default();
        self.volume.submit(request(self.next_id, (kind, offset, length)));
        self.next_id
    }

    pub(super) fn begin(&mut self, operation: Operation) {
        let mut client =
            PendingClient { operation, value: 0, cells: Vec::new(), covered: Vec::new() };
        let id = match operation {
            Operation::Write { cell, count } => {
                let value = self.next_value;
                self.next_value += 1;
                client.value = value;
                let first = CELLS[cell];
                for (index, number) in CELLS.iter().enumerate() {
                    if (first..first + count).contains(number) {
                        client.cells.push(index);
                        self.cells[index].values.push(value);
                    }
                }
                let sectors = first..first + count;
                let data = sectors.map(|at| (at, [value; SECTOR as usize])).collect();
                self.buffers.insert(self.next_id + 1, data);
                self.submit(RequestKind::Write, first * SECTOR, count * SECTOR)
            }
            Operation::Flush => {
                client.covered = self.cells.iter().map(|cell| cell.acknowledged).collect();
                self.submit(RequestKind::Flush, 0, 0)
            }
            Operation::Lose(index) => {
                self.disks[index].is_gone = true;
                return;
            }
            Operation::Return(index) => return self.rejoin(index),
            Operation::Wait => {
                self.now += IDLE_PERIOD;
                self.volume.on_timeout(self.now);
                return self.issue();
            }
            Operation::Copy => match self.next_copy() {
                Some((kind, range)) => self.submit(kind, range.start, range.end - range.start),
                None => return,
            },
        };
        self.clients.insert(id, client);
        self.issue();
    }

    /// Has a member that failed rebuilt, if none of its I/O is in flight. Sectors of the writes
    /// that failed may have been written.
    fn rejoin(&mut self, index: usize) {
        let states: Vec<MemberState> =
            self.volume.members().iter().map(|(_, member)| member.state).collect();
        let is_busy = self.queue.iter().any(|(io, _)| io.member.get() == index);
        if is_busy || states[index] != MemberState::Failed || !states.contains(&MemberState::InSync)
        {
            return;
        }
        let rng = &mut Rng::new(self.next_id);
        let disk = &mut self.disks[index];
        for write in std::mem::take(&mut disk.cache) {
            apply(&mut disk.durable, &write, |_| write.is_done || rng.below(2) == 0);
        }
        disk.is_gone = false;
        let found = found(&self.disks, &[index]);
        let member = MemberIndex(index as u16);
        command(&mut self.volume, |store, array| {
            store.on_storage_replaced(member, found.first(), array)
        });
        self.volume.set_member_state(member, MemberState::Rebuilding { recovered_bytes: 0 });
    }

    pub(super) fn next_copy(&mut self) -> Option<(RequestKind, Range<u64>)> {
        if let Some(range) = store(&self.volume).next_unsynced(self.copied_to) {
            self.copied_to = range.end;
            return Some((RequestKind::Resync, range));
        }
        self.volume.members().iter().find_map(|(index, member)| match member.state {
            MemberState::Rebuilding { recovered_bytes } => {
                let end = (recovered_bytes + 3 * MIB).min(member.config.size_bytes);
                Some((RequestKind::Rebuild(index), recovered_bytes..end))
            }
            _ => None,
        })
    }

    /// Hands out I/O of the volume; disks have writes from then on.
    pub(super) fn issue(&mut self) {
        while let Some(io) = self.volume.poll_io(self.now) {
            let first = io.offset / SECTOR;
            let sectors = first..first + io.length / SECTOR;
            let disk = &mut self.disks[io.member.get()];
            let mut flushed = None;
            match io.op {
                Op::Write if !disk.is_gone => {
                    let data = match io.purpose {
                        Purpose::Metadata => {
                            sectors_of(io.offset, &self.volume.metadata_bytes(&io))
                        }
                        _ => {
                            let from = io.volume_offset / SECTOR;
                            let wanted = from..from + io.length / SECTOR;
                            let data = self.buffers[&io.request.0].range(wanted);
                            data.map(|(at, bytes)| (at - from + first, *bytes)).collect()
                        }
                    };
                    disk.cache.push(Cached { sectors, data, is_done: false, id: io.id });
                }
                Op::Flush => flushed = Some(disk.cache.iter().filter(|it| it.is_done).count()),
                _ => {}
            }
            self.queue.push_back((io, flushed));
        }
    }

    /// Ends one I/O that is in flight.
    pub(super) fn step(&mut self, pick: usize) {
        let Some((io, _)) = self.queue.remove(pick % self.queue.len().max(1)) else { return };
        let disk = &mut self.disks[io.member.get()];
        let result = if disk.is_gone { Err(IoError::Gone) } else { Ok(()) };
        let mut read = None;
        match io.op {
            _ if disk.is_gone => {}
            Op::Write => {
                let write = disk.cache.iter_mut().find(|write| write.id == io.id);
                write.expect("it was issued").is_done = true;
            }
            Op::Read => {
                let (first, to) = (io.offset / SECTOR, io.volume_offset / SECTOR);
                let sectors = disk.read(first..first + io.length / SECTOR);
                read = Some(sectors.into_iter().map(move |(at, it)| (at - first + to, it)));
            }
            Op::Flush => self.end_flush(&io),
            Op::Discard => {}
        }
        let (_, outcome) = self.volume.complete(io.id, result, self.now);
        if let (Some(read), false) = (read, outcome.superseded) {
            self.buffers.entry(io.request.0).or_default().extend(read);
        }
        self.issue();
        while let Some(reply) = self.volume.poll_reply() {
            self.on_reply(reply.request.0, reply.result);
            self.issue();
        }
    }

    /// Makes durable what was written before the flush was issued. What was issued later follows
    /// its own flush; to call less durable than a disk may be is the harder case.
    pub(super) fn end_flush(&mut self, io: &MemberIo) {
        let disk = &mut self.disks[io.member.get()];
        let mut left = Vec::new();
        for write in std::mem::take(&mut disk.cache) {
            // Numbers of I/O grow in the order of issue.
            match write.is_done && write.id.0 < io.id.0 {
                true => apply(&mut disk.durable, &write, |_| true),
                false => left.push(write),
            }
        }
        disk.cache = left;
    }

    pub(super) fn on_reply(&mut self, id: u64, result: Result<(), VolumeError>) {
        let client = self.clients.remove(&id).expect("a reply to a request");
        if result.is_err() {
            return;
        }
        match client.operation {
            Operation::Write { .. } => {
                for index in client.cells {
                    let cell = &mut self.cells[index];
                    // Overlapping writes are ordered, whichever reply comes first.
                    let place = |value| cell.values.iter().position(|&it| it == value);
                    if place(client.value) > place(cell.acknowledged) {
                        cell.acknowledged = client.value;
                    }
                }
            }
            Operation::Flush => {
                for (cell, covered) in self.cells.iter_mut().zip(client.covered) {
                    // It is durable, and what came before it is gone.
                    let first = cell.values.iter().position(|&value| value == covered);
                    cell.values.drain(..first.unwrap_or(0));
                }
            }
            _ => {}
        }
    }

    /// Ends I/O in any order until none is left.
    pub(super) fn settle(&mut self, rng: &mut Rng) {
        while !self.queue.is_empty() {
            let pick = rng.below(self.queue.len() as u64) as usize;
            self.step(pick);
        }
    }

    /// Reads every cell often: it holds a possible value, and always the same.
    pub(super) fn check_reads(&mut self, rng: &mut Rng) {
        for (index, number) in CELLS.into_iter().enumerate() {
            let mut first = None;
            for _ in 0..4 {
                let id = self.submit(RequestKind::Read, number * SECTOR, SECTOR);
                let client = PendingClient {
                    operation: Operation::Copy,
                    value: 0,
                    cells: Vec::new(),
                    covered: Vec::new(),
                };
                self.clients.insert(id, client);
                self.issue();
                self.settle(rng);
                assert!(!self.clients.contains_key(&id), "a read ends");
                let value = self.buffers[&id].get(&number).map_or(0, |sector| sector[0]);
                let cell = &self.cells[index];
                assert!(cell.values.contains(&value), "cell {index} is {value}: {cell:?}");
                assert_eq!(value, *first.get_or_insert(value), "cell {index} reads the same");
            }
        }
    }

    /// Copies what is to be copied, and stops in good order. Returns the disks, whose data are
    /// equal on all members in sync.
    pub(super) fn stop(mut self, rng: &mut Rng) -> (Vec<Disk>, Vec<Cell>) {
        for round in 0.. {
            self.begin(Operation::Copy);
            self.settle(rng);
            if self.next_copy().is_none() {
                break;
            }
            if round == 50 {
                // The last member in sync does not answer.
                assert!(self.disks.iter().any(|disk| disk.is_gone), "copying does not end");
                return (self.disks, self.cells);
            }
        }
        self.begin(Operation::Flush);
        self.settle(rng);
        if self.volume.is_idle() {
            command(&mut self.volume, StoreGate::record_stop);
            self.issue();
            self.settle(rng);
        }
        let states = self.volume.members().iter().map(|(index, it)| (index.get(), it.state));
        let in_sync: Vec<usize> =
            states.filter(|(_, it)| *it == MemberState::InSync).map(|(index, _)| index).collect();
        let data = |index: usize| {
            let mut sectors = self.disks[index].now();
            sectors.retain(|&at, bytes| at * SECTOR >= MIB && *bytes != [0; SECTOR as usize]);
            sectors
        };
        for pair in in_sync.windows(2) {
            let [first, second] = [data(pair[0]), data(pair[1])];
            assert!(first == second, "mirrors {pair:?} differ");
        }
        let sectors = data(in_sync[0]);
        for (cell, number) in self.cells.iter_mut().zip(CELLS) {
            let on_member = self.volume.map().map(number * SECTOR, SECTOR).mirrors()[0].offset;
            let value = sectors.get(&(on_member / SECTOR)).map_or(0, |sector| sector[0]);
            assert!(cell.values.contains(&value), "a cell is {value}: {cell:?}");
            *cell = Cell { values: vec![value], acknowledged: value };
        }
        (self.disks, self.cells)
    }
}
