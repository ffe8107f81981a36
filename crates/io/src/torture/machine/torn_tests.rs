//! Writes that fail midway while a member is missing, and crashes after them.

use super::super::Promises;
use super::super::history::End;
use super::Machine;
use super::clients::ClientRequest;
use crate::driver::sim::FileFault;
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::Volume;
use rustix::io::Errno;

/// A machine with a raid5 without the member of block 0, and a write of block 1 that failed after
/// this many turns.
fn failed_after(turns: u32) -> Machine {
    let mut machine = Machine::new(0, Promises::KeptWithParity);
    machine.start(0).unwrap();
    let rows = [0, 1].map(|block| {
        machine.submit(ClientRequest::Write, block);
        machine.settle().unwrap();
        (0..machine.rows.len()).find(|&row| machine.place_on(row, block).is_some()).unwrap()
    });
    machine.set_fault(rows[0], FileFault::Fails(Errno::NODEV));
    machine.submit(ClientRequest::Write, 1);
    machine.settle().unwrap();
    machine.submit(ClientRequest::Write, 1);
    for _ in 0..turns {
        machine.turn(Nanos::from_millis(1)).unwrap();
    }
    machine.set_fault(rows[1], FileFault::Fails(Errno::IO));
    machine.settle().unwrap();
    machine.set_fault(rows[1], FileFault::None);
    machine
}

fn unfinished(machine: &Machine) -> usize {
    machine.volume().map_or(0, Volume::unfinished_writes)
}

/// The write of block 0 ends the torn entry. Whenever the program is killed, what it and the torn
/// entry wrote is consistent.
#[test]
fn a_crash_after_a_torn_entry_was_ended_by_a_write_loses_nothing() {
    let torn = (0..60).find(|&turns| unfinished(&failed_after(turns)) == 1);
    let torn = torn.expect("a write fails in place");
    let mut ended = 0;
    for turns in (0..28).step_by(4) {
        let mut machine = failed_after(torn);
        machine.submit(ClientRequest::Write, 0);
        for _ in 0..turns {
            machine.turn(Nanos::from_millis(1)).unwrap();
        }
        ended += u32::from(unfinished(&machine) == 0);
        machine.end(End::Kill).unwrap();
        machine.start(0).unwrap();
        machine.finish().unwrap_or_else(|error| panic!("after {turns} turns: {error}"));
    }
    assert!(ended > 0);
}
