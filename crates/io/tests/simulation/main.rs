//! A service in a simulated world: whatever goes wrong with one member at a time, what clients
//! wrote is what they read, rebuilt members are not stale, and everything ends.
//!
//! `MIRRORBALL_SEED=N` runs one seed and prints what it came to.

mod client;
mod peer;
mod scenario;

use scenario::{Outcome, Scenario};

const SEEDS: u64 = 50;

fn run(seed: u64) -> Outcome {
    Scenario::new(seed).run()
}

#[test]
fn no_acknowledged_write_is_lost_by_faults_of_one_member_at_a_time() {
    if let Some(seed) = std::env::var("MIRRORBALL_SEED").ok().and_then(|seed| seed.parse().ok()) {
        println!("{:?}", run(seed));
        return;
    }
    let mut rebuilds = 0;
    for seed in 0..SEEDS {
        println!("seed {seed}");
        let outcome = run(seed);
        rebuilds += outcome.rebuilds;
        assert!(outcome.replies > 300, "{outcome:?}");
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
