//! Runs a service in a simulated world with many seeds: `simulation [FIRST [COUNT]]`.
//!
//! The test of the same name runs a few fixed seeds; this one searches. It panics at the first seed
//! that breaks a promise, after printing that seed.

#![allow(clippy::unwrap_used, reason = "a panic is how a simulation reports a failure")]

mod client;
mod peer;
mod scenario;

use scenario::Scenario;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut number = |default| arguments.next().transpose().map(|number| number.unwrap_or(default));
    let (Ok(first), Ok(count)) = (number(0), number(1000)) else {
        eprintln!("error: wrong arguments: expected `simulation [FIRST [COUNT]]`, two numbers");
        std::process::exit(2);
    };
    for seed in first..first.saturating_add(count) {
        eprintln!("seed {seed}");
        let outcome = Scenario::new(seed).run();
        println!("seed {seed}: {outcome}");
    }
}
