//! Member I/O in flight: launched, ended in parts, ended.
//!
//! I/O to a real member has one part, the file operation or the request to the other machine. I/O
//! to an emulated one has the model's part, and that of its data where that takes time. Data in
//! memory is moved at once: what is under way at the same time may come before or after, and a copy
//! of a megabyte when the I/O is due would make it late.

use super::station::Station;
use super::{Executor, MemberStats, Order, TOKEN_OWNER, Target};
use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::{Handle, Token};
use crate::member::Store;
use crate::member::remote::Ask;
use mirrorball_core::io::{IoError, IoId, Op, VolumeError};
use mirrorball_core::member::MemberIndex;
use mirrorball_core::slab::Slab;
use mirrorball_core::units::Nanos;
use mirrorball_disk::model::DiskIo;

/// Who asked for a member I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// The volume, under this name.
    Volume(IoId),
    /// The request itself.
    Order,
}

/// One member I/O.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) origin: Origin,
    /// The request whose buffer it uses.
    pub(super) order: u32,
    pub(super) member: MemberIndex,
    pub(super) op: Op,
    /// First byte, on the member.
    pub(super) offset: u64,
    pub(super) length: u64,
    /// Where its data begins in that of the request.
    pub(super) within: usize,
    /// A buffer of its own: for one of several reads of the same data.
    pub(super) own_buffer: Option<BufferKey>,
    pub(super) submitted_at: Nanos,
    /// When the model said that it ends, once it did.
    pub(super) due: Option<Nanos>,
    pub(super) parts_left: u8,
    pub(super) result: Result<(), IoError>,
}

/// A read with a buffer of its own that brought what its request wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Won {
    pub(super) buffer: BufferKey,
    pub(super) flight: Flight,
}

impl Executor {
    /// Starts a member I/O.
    pub(super) fn launch(&mut self, flight: Flight) {
        let key = self.flights.insert(flight);
        let station = &mut self.stations[flight.member.get()];
        station.stats.in_flight += 1;
        station.changes_in_flight += u32::from(flight.op != Op::Read);
        let handle = match &mut station.store {
            Store::Real { handle, begin_bytes, .. } => {
                let (handle, offset) = (*handle, *begin_bytes + flight.offset);
                return self.start_file_part(key, &Flight { offset, ..flight }, handle);
            }
            Store::Remote(remote) => {
                let moves = matches!(flight.op, Op::Read | Op::Write);
                let data = moves.then(|| place(&self.orders, &flight));
                let Flight { op, offset, length, .. } = flight;
                let ask = Ask { key, op, offset, length, data };
                self.flights.get_mut(key).parts_left += 1;
                remote.start(ask, &mut self.driver, &mut self.remote_ended);
                return self.end_remote();
            }
            Store::Absent => {
                self.flights.get_mut(key).parts_left += 1;
                self.remote_ended.push((key, Err(IoError::Gone)));
                return self.end_remote();
            }
            Store::EmulatedFile(handle) => Some(*handle),
            Store::EmulatedMemory(memory) => {
                let (orders, buffers) = (&self.orders, &mut self.driver.buffers);
                match flight.op {
                    Op::Read => {
                        memory.read(flight.offset, buffers.bytes_mut(place(orders, &flight)))
                    }
                    Op::Write => memory.write(flight.offset, buffers.bytes(place(orders, &flight))),
                    Op::Discard => memory.discard(flight.offset, flight.length),
                    Op::Flush => {}
                }
                None
            }
            Store::EmulatedNothing => {
                if flight.op == Op::Read {
                    self.driver.buffers.bytes_mut(place(&self.orders, &flight)).fill(0);
                }
                None
            }
        };
        // A flush of the backing file would cost what the host's disk does, and say nothing about
        // the emulated one.
        if let Some(handle) = handle.filter(|_| flight.op != Op::Flush) {
            self.start_file_part(key, &flight, handle);
        }
        let Flight { op, offset, length, submitted_at, .. } = flight;
        self.flights.get_mut(key).parts_left += 1;
        let bank = self.bank.as_mut().expect("an emulated member has a model");
        bank.submit(submitted_at, flight.member, DiskIo { tag: key.into(), op, offset, length });
    }

    /// One part of a member I/O ended; the I/O ends with its last part.
    pub(super) fn end_part(&mut self, key: u32, result: Result<(), IoError>) {
        let flight = self.flights.get_mut(key);
        flight.result = flight.result.and(result);
        flight.parts_left -= 1;
        if flight.parts_left > 0 {
            return;
        }
        let flight = self.flights.remove(key).expect("a member I/O ends once");
        let now = self.now;
        let station = &mut self.stations[flight.member.get()];
        station.changes_in_flight -= u32::from(flight.op != Op::Read);
        station.discards &= flight.op != Op::Discard || flight.result.is_ok();
        count(&mut station.stats, &flight, now);
        if let Some(due) = flight.due {
            // By a fresh look at the clock: what came before it in this turn made it late, too.
            let late = self.clock.now().saturating_sub(due);
            station.stats.lateness.record(self.clock.real(late));
        }
        match flight.origin {
            Origin::Volume(id) => {
                let volume = self.volume.as_mut().expect("the volume asked for it");
                let (_, outcome) = volume.complete(id, flight.result, now);
                let wanted = outcome.result.is_ok() && !outcome.lost;
                match flight.own_buffer {
                    None => {}
                    // Other parts of the request may still be on their way into its buffer.
                    Some(buffer) if wanted => self.won.push(Won { buffer, flight }),
                    Some(buffer) => self.driver.buffers.release(buffer),
                }
            }
            Origin::Order => {
                let error = match flight.op {
                    Op::Read => VolumeError::Unreadable,
                    Op::Write | Op::Flush | Op::Discard => VolumeError::Unwritable,
                };
                self.end_order(flight.order, flight.result.map_err(|_| error));
            }
        }
    }

    /// Whether whatever is discarded of a target reads as zeroes after that, as far as is known by
    /// now: a discard that does not lets this be false from its end on.
    ///
    /// # Panics
    /// If the target is not there.
    pub fn discards_zero(&self, target: Target) -> bool {
        match target {
            Target::Volume => self.stations.iter().all(Station::discards_zero),
            Target::Member(member) => self.stations[member.get()].discards_zero(),
        }
    }

    /// Ends what members without a file said has ended.
    pub(super) fn end_remote(&mut self) {
        while let Some((key, result)) = self.remote_ended.pop() {
            self.end_part(key, result);
        }
    }

    fn start_file_part(&mut self, key: u32, flight: &Flight, file: Handle) {
        let token = Token::new(TOKEN_OWNER, key);
        self.flights.get_mut(key).parts_left += 1;
        match flight.op {
            Op::Read => {
                self.driver.read(token, file, flight.offset, place(&self.orders, flight));
            }
            Op::Write => {
                self.driver.write(token, file, flight.offset, place(&self.orders, flight));
            }
            Op::Flush => self.driver.sync(token, file),
            Op::Discard => self.driver.discard(token, file, flight.offset, flight.length),
        }
    }
}

/// Where the data of a member I/O is, or goes.
fn place(orders: &Slab<Order>, flight: &Flight) -> Slice {
    let length = flight.length as usize;
    match flight.own_buffer {
        Some(buffer) => Slice::data(buffer, 0, length),
        None => {
            let buffer = orders.get(flight.order).buffer.expect("data has a buffer");
            Slice::data(buffer, flight.within, length)
        }
    }
}

fn count(stats: &mut MemberStats, flight: &Flight, now: Nanos) {
    stats.in_flight -= 1;
    let wait = now - flight.submitted_at;
    match (flight.result, flight.op) {
        (Err(IoError::Cancelled), _) => {}
        (Err(_), _) => stats.errors += 1,
        (Ok(()), Op::Read) => {
            stats.reads += 1;
            stats.read_bytes += flight.length;
            stats.read_wait.record(wait);
        }
        (Ok(()), Op::Write) => {
            stats.writes += 1;
            stats.written_bytes += flight.length;
            stats.write_wait.record(wait);
        }
        (Ok(()), Op::Flush) => stats.flushes += 1,
        (Ok(()), Op::Discard) => {}
    }
}
