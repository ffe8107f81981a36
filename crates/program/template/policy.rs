//! NAME: a read policy for Mirrorball.
//!
//! Takes the mirror whose next read is expected to end first: a moving average of the time that a
//! read takes on the member, times the I/O in flight there plus one. Change it to your own rule.
//!
//! `mirrorball program build NAME.rs` compiles it with the crate `mirrorball_policy`, which has
//! everything that a policy sees and may call.

#![no_std]

use mirrorball_policy::{Choose, Event, OK, Policy, READ, note, parameter, program};

// A number that the user may set: --policy 'program:NAME.wasm?gain=4'.
parameter!(GAIN, "gain", 8, 1, 64, "a new read counts as one part in this many");

const MEMBERS_MAX: usize = 64;

/// The state of the policy. Each volume has its own.
struct MovingAverage {
    average_ns: [u64; MEMBERS_MAX],
}

impl Policy for MovingAverage {
    const START: MovingAverage = MovingAverage { average_ns: [0; MEMBERS_MAX] };

    /// Required: returns the index of the mirror that serves the read.
    fn choose(&mut self, c: &Choose) -> usize {
        let (mut best, mut best_ns) = (0, u64::MAX);
        for (index, mirror) in c.mirrors().iter().enumerate() {
            let average_ns = self.average_ns[mirror.member.index as usize % MEMBERS_MAX];
            let expected_ns = average_ns * u64::from(mirror.member.in_flight() + 1);
            // `mirrorball explain` shows the score of each mirror.
            note(index, expected_ns as i64);
            if expected_ns < best_ns {
                (best, best_ns) = (index, expected_ns);
            }
        }
        best
    }

    /// Optional: an I/O ended.
    fn complete(&mut self, e: &Event) {
        let average_ns = &mut self.average_ns[e.member as usize % MEMBERS_MAX];
        if e.op != READ || e.result != OK {
            return;
        }
        *average_ns = match *average_ns {
            0 => e.wait_ns,
            old => old + e.wait_ns / GAIN.get() - old / GAIN.get(),
        };
    }
}

// Name, version, fallback and what it does; then the optional operations that it has. The fallback
// is the built-in policy that decides if this one has a fault; "" is the least I/O in flight.
program!(
    MovingAverage,
    "NAME",
    "0.1",
    "",
    "moving average of the read time, times the I/O in flight";
    complete
);
