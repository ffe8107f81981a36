//! Has every operation and calls every helper.

#![no_std]

use mirrorball_policy as policy;
use policy::{Choose, Event, Policy, parameter, program};

parameter!(HEDGE_AFTER, "hedge_after", 77, 0, 1000, "time before a second mirror is read");

struct Whole {
    members: u32,
}

impl Policy for Whole {
    const START: Whole = Whole { members: 0 };

    fn choose(&mut self, c: &Choose) -> usize {
        let place = policy::random_below(c.nr) as usize;
        match policy::random() % 3 {
            0 => policy::split(1 << place),
            1 => policy::read_all(1 << place),
            _ => policy::hedge(usize::from(place == 0), HEDGE_AFTER.get()),
        }
        policy::note(place, i64::from(c.mirrors()[place].member.in_flight()));
        place
    }

    fn submit(&mut self, e: &Event) {
        policy::count(3, i64::from(e.op));
    }

    fn complete(&mut self, e: &Event) {
        if e.member >= self.members {
            policy::error(e.member);
        }
    }

    fn init(&mut self) {
        while policy::member(self.members).is_some() {
            self.members += 1;
        }
    }

    fn change(&mut self) {
        self.init();
    }
}

program!(
    Whole,
    "whole",
    "1.2",
    "btrfs/pid",
    "calls every helper";
    submit,
    complete,
    init,
    change
);
