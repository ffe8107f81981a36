//! Frequencies and moments of the draws, against closed forms, with fixed seeds.

use super::tests::{clone_of, job};
use super::{Next, Workload};
use mirrorball_core::io::RequestKind;
use mirrorball_core::units::{GIB, KIB, Nanos};

const DRAWS: u64 = 200_000;
const BLOCKS: u64 = GIB / 4096;

fn blocks(options: &str) -> Vec<u64> {
    let options = format!("rw=randread\ntime_based\nruntime=1\n{options}");
    let mut workload = clone_of(&job(&options), 0, 1);
    (0..DRAWS).map(|_| issue(&mut workload).1 / 4096).collect()
}

/// Kind, offset and length of the next request.
fn issue(workload: &mut Workload) -> (RequestKind, u64, u64) {
    match workload.next(Nanos::ZERO) {
        Next::Issue(issue) => (issue.kind, issue.offset, issue.length),
        other => panic!("{other:?}"),
    }
}

/// How often each block came, the most frequent first.
fn ranked(blocks: &[u64]) -> Vec<(u64, u64)> {
    let mut counts = std::collections::BTreeMap::new();
    for &block in blocks {
        *counts.entry(block).or_insert(0u64) += 1;
    }
    let mut ranked: Vec<(u64, u64)> = counts.into_iter().map(|(b, count)| (count, b)).collect();
    ranked.sort_unstable_by(|left, right| right.cmp(left));
    ranked
}

#[track_caller]
fn assert_share(count: u64, expected: f64) {
    // Five deviations of a binomial count.
    let deviation = (DRAWS as f64 * expected * (1.0 - expected)).sqrt();
    let error = (count as f64 - DRAWS as f64 * expected).abs();
    assert!(error <= 5.0 * deviation + 1.0, "{count} of {DRAWS}, not {expected}");
}

#[test]
fn zipf_has_its_frequencies() {
    for theta in [0.6, 0.99, 1.2, 2.0] {
        let ranked = ranked(&blocks(&format!("random_distribution=zipf:{theta}")));
        let zeta: f64 = (1..=BLOCKS).map(|rank| (rank as f64).powf(-theta)).sum();
        // Below a theta of 1 the ranks lie too close to be distinguished by counting.
        let ranks = if theta < 1.0 { 1 } else { 5 };
        for (rank, (count, _)) in (1..=ranks).zip(&ranked) {
            assert_share(*count, f64::from(rank).powf(-theta) / zeta);
        }
    }
}

/// Shares of fio 3.33: 89 % of the requests go to one file, then 3, 2 and 1 % to those behind it.
#[test]
fn popular_files_are_neighbours() {
    const FILES: u64 = 16;
    let shares = |law: &str| {
        let options = format!("size=64m\nnrfiles={FILES}\nfile_service_type={law}");
        let mut counts = vec![0u64; FILES as usize];
        blocks(&options).into_iter().for_each(|block| counts[block as usize / 1024] += 1);
        counts
    };
    // From the start of a file on, its ranks are 1 to 1024, and so on.
    let counts = shares("zipf:1.2:0.25");
    let zeta = |ranks: std::ops::Range<u64>| -> f64 {
        ranks.map(|rank| ((rank + 1) as f64).powf(-1.2)).sum()
    };
    for (behind, file) in [(0, 4), (1, 5), (2, 6), (11, 15), (12, 0)] {
        let ranks = behind * 1024..(behind + 1) * 1024;
        assert_share(counts[file], zeta(ranks) / zeta(0..FILES * 1024));
    }
    assert!((177_000..179_000).contains(&counts[4]), "{counts:?}");
    // The bell has its middle in the middle, or at its center.
    let counts = shares("normal:0:0.25");
    assert!(counts[3].abs_diff(counts[4]) < 3_000 && counts[4] > 30_000, "{counts:?}");
    let counts = shares("normal:0");
    assert!(counts[7].abs_diff(counts[8]) < 3_000 && counts[8] > 30_000, "{counts:?}");
}

#[test]
fn zipf_on_few_blocks_is_exact() {
    let options = "random_distribution=zipf:1.5\nsize=16k";
    let counts: Vec<u64> = ranked(&blocks(options)).into_iter().map(|(count, _)| count).collect();
    let zeta: f64 = (1..=4).map(|rank| f64::from(rank).powf(-1.5)).sum();
    for (rank, count) in (1..).zip(counts) {
        assert_share(count, f64::from(rank).powf(-1.5) / zeta);
    }
}

#[test]
fn a_center_places_the_hottest_block_and_the_others_are_scattered() {
    let blocks = blocks("random_distribution=zipf:1.2:0.25");
    let ranked = ranked(&blocks);
    assert_eq!(ranked[0].1, BLOCKS / 4);
    let spread: Vec<u64> = ranked[1..9].iter().map(|(_, block)| block * 8 / BLOCKS).collect();
    let mut eighths = spread.clone();
    eighths.sort_unstable();
    eighths.dedup();
    assert!(eighths.len() >= 4, "{spread:?}");
}

/// Of the requests, 1 - h go to h of the blocks: the rule that defines the law.
#[test]
fn pareto_is_self_similar() {
    for h in [0.2, 0.35] {
        let ranked = ranked(&blocks(&format!("random_distribution=pareto:{h}\nsize=4m")));
        let hot = (1024.0 * h) as usize;
        let share: u64 = ranked[..hot].iter().map(|(count, _)| count).sum();
        let expected = (1.0 - h) * DRAWS as f64;
        assert!((share as f64 - expected).abs() < 0.01 * DRAWS as f64, "{share} for {expected}");
    }
}

/// A bell that is scattered shows its width in how often two draws agree: 1 / (2 s sqrt(pi)) for a
/// normal law with a deviation of s blocks, which is a twelfth of the region if nothing widens it.
#[test]
fn the_bell_has_its_width() {
    let concentration = |options: &str| {
        let ranked = ranked(&blocks(options));
        let pairs: u64 = ranked.iter().map(|(count, _)| count * (count - 1)).sum();
        pairs as f64 / (DRAWS as f64 * (DRAWS - 1) as f64) * BLOCKS as f64
    };
    let expected = 12.0 / (2.0 * std::f64::consts::PI.sqrt());
    let narrow = concentration("random_distribution=normal:0");
    assert!((narrow / expected - 1.0).abs() < 0.02, "{narrow} for {expected}");
    let wide = concentration("random_distribution=normal:30");
    assert!(wide < 0.8 * narrow, "{wide} after {narrow}");
}

#[test]
fn zones_are_hit_by_their_shares_and_evenly_within() {
    let blocks = blocks("random_distribution=zoned:60/10:30/20:8/30:2/40");
    let below = |percent: u64| BLOCKS * percent / 100;
    let within =
        |from, to| blocks.iter().filter(|&&b| b >= below(from) && b < below(to)).count() as u64;
    assert_share(within(0, 10), 0.6);
    assert_share(within(10, 30), 0.3);
    assert_share(within(30, 60), 0.08);
    assert_share(within(60, 100), 0.02);
    assert_share(within(0, 5), 0.3);
}

#[test]
fn zones_may_have_sizes_in_bytes() {
    let blocks = blocks("random_distribution=zoned_abs:90/256m:10/768m,100/1m");
    let within = blocks.iter().filter(|&&block| block < 65_536).count() as u64;
    assert_share(within, 0.9);
    assert!(blocks.iter().any(|&block| block > BLOCKS * 99 / 100));
}

#[test]
fn uniform_draws_are_uniform_with_and_without_a_map() {
    for options in ["norandommap", ""] {
        let blocks = blocks(options);
        for eighth in 0..8 {
            let within = blocks.iter().filter(|&&block| block * 8 / BLOCKS == eighth).count();
            assert_share(within as u64, 0.125);
        }
    }
}

#[test]
fn mixes_and_sizes_have_their_shares() {
    let options = "rw=randrw\nrwmixread=70\nbssplit=4k/10:64k/50:32k/40,8k\nnorandommap\n\
                   time_based\nruntime=1";
    let mut workload = clone_of(&job(options), 0, 1);
    let (mut reads, mut sizes) = (0u64, [0u64; 3]);
    for _ in 0..DRAWS {
        match issue(&mut workload) {
            (RequestKind::Read, _, length) => {
                reads += 1;
                let known = [4 * KIB, 64 * KIB, 32 * KIB];
                sizes[known.iter().position(|&size| size == length).unwrap()] += 1;
            }
            (_, _, length) => assert_eq!(length, 8 * KIB),
        }
    }
    assert_share(reads, 0.7);
    for (count, share) in sizes.into_iter().zip([0.1, 0.5, 0.4]) {
        assert_share(count, 0.7 * share);
    }
}

#[test]
fn a_share_of_random_requests_is_random_and_the_others_follow() {
    let blocks = blocks("percentage_random=30");
    let following = blocks.windows(2).filter(|pair| pair[1] == pair[0] + 1).count() as u64;
    assert_share(following, 0.7);
}
