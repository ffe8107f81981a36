//! The seek curve from waits that are drawn, not simulated.

use crate::probe::seeks::{Jump, Jumps, fit};
use mirrorball_core::rng::Rng;

const REVOLUTION: f64 = 8.333e-3;

fn curve(distance: f64) -> f64 {
    1e-3 + 11e-3 * distance.sqrt() + 4e-3 * distance
}

/// Random jumps, some of which miss a turn.
fn drawn(count: usize, missed: f64) -> Jumps {
    let mut rng = Rng::new(5);
    let mut jump = || {
        let distance = (rng.unit() - rng.unit()).abs().max(1e-4);
        let turns = if rng.unit() < missed { 1.0 } else { 0.0 };
        Jump { distance, time: curve(distance) + (rng.unit() + turns) * REVOLUTION }
    };
    let long = (0..count).map(|_| jump()).collect();
    let short = (0..64).map(|_| 1e-3 + rng.unit() * REVOLUTION).collect();
    Jumps { long, short }
}

#[test]
fn the_curve_is_found_though_one_read_in_twenty_misses_a_turn() {
    let found = fit(&drawn(1500, 0.05), REVOLUTION).unwrap();
    for (distance, time) in &found.points {
        let off = time - curve(*distance);
        assert!(off.abs() < 0.4e-3, "{distance}: {time} is off by {off}");
    }
    // The mean of the curve: 1 + 11 * 8/15 + 4/3 ms.
    assert!((found.mean - 8.2e-3).abs() < 0.15e-3, "{}", found.mean);
    let (low, high) = found.interval.unwrap();
    assert!(low < 8.2e-3 && 8.2e-3 < high && high - low < 0.6e-3, "{low} to {high}");
    assert!((found.track - 1e-3).abs() < 0.15e-3, "{}", found.track);
    assert!(found.points.windows(2).all(|pair| pair[0].1 <= pair[1].1), "it never falls");
}

#[test]
fn few_jumps_give_no_curve() {
    assert_eq!(fit(&drawn(20, 0.0), REVOLUTION), None);
}
