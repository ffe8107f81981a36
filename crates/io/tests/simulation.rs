//! A service in a simulated world: whatever goes wrong with one member at a time, clients read what
//! they wrote, rebuilt members are not stale, and everything ends.
//!
//! `cargo run --example simulation -- SEED 1` repeats one seed.

#![allow(clippy::unwrap_used, reason = "modules of a test, for which it is allowed")]

#[path = "../examples/simulation/client.rs"]
mod client;
#[path = "../examples/simulation/peer.rs"]
mod peer;
#[path = "../examples/simulation/scenario.rs"]
mod scenario;

use scenario::{Outcome, Scenario};

const SEEDS: u64 = 50;

fn run(seed: u64) -> Outcome {
    Scenario::new(seed).run()
}

#[test]
fn no_acknowledged_write_is_lost_by_faults_of_one_member_at_a_time() {
    let mut rebuilds = 0;
    for seed in 0..SEEDS {
        println!("seed {seed}");
        let outcome = run(seed);
        rebuilds += outcome.rebuilds;
        assert!(outcome.replies > 300, "{outcome}");
    }
    assert!(rebuilds > SEEDS as u32, "members fail and are rebuilt: {rebuilds}");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [3, 4] {
        assert_eq!(run(seed), run(seed));
    }
    assert_ne!(run(3).trace, run(4).trace);
}
