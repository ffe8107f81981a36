//! Judges the judge of `watch` on random histories of simulated arrays, with the truth known.
//!
//! Each history is an array of one to four disks of our models under 30 minutes of changing load:
//! random reads and writes that come by themselves, a reader of a stream, scrubs. In half of them a
//! disk becomes slow between the 18th and the 22nd minute. Counters are those that Linux would
//! keep, read once a second, in whole milliseconds.

use crate::world::{MODELS, SECOND, World, chance, draw_load};
use mirrorball_core::rng::Rng;
use mirrorball_disk::array_file::ArrayFile;
use mirrorball_health::counters::DiskCounters;
use mirrorball_health::judge::{DiskFacts, DiskHistory, DiskState, DiskWindow, Judge};
use mirrorball_health::service::DiskKind;
use std::collections::{BTreeMap, BTreeSet};

const LENGTH_S: u64 = 1800;
const SLOWNESS: [f64; 6] = [1.3, 1.5, 2.0, 3.0, 5.0, 10.0];
/// Seconds for which a plain rule must hold.
const RULE_S: u32 = 30;

/// The disks of a history, and which becomes slow.
struct DrawnArray {
    disks: Vec<DiskFacts>,
    text: String,
    slow: Option<SlowDisk>,
}

#[derive(Clone, Copy)]
struct SlowDisk {
    place: usize,
    factor: f64,
    from_s: u64,
}

fn draw(rng: &mut Rng) -> DrawnArray {
    let (class, models) = MODELS[[0, 0, 0, 1, 1, 2][rng.below(6) as usize]];
    let count = if chance(rng, 10) { 1 } else { 2 + rng.below(3) as usize };
    let is_uniform = chance(rng, 70);
    let first = rng.below(models.len() as u64) as usize;
    let slow = chance(rng, 50).then(|| SlowDisk {
        place: rng.below(count as u64) as usize,
        factor: SLOWNESS[rng.below(SLOWNESS.len() as u64) as usize],
        from_s: 1080 + rng.below(240),
    });
    let mut text = "name = \"drawn\"\nprofile = \"single\"\n".to_owned();
    let mut disks = Vec::new();
    for place in 0..count {
        let model = match is_uniform {
            true => models[first],
            false => models[rng.below(models.len() as u64) as usize],
        };
        text += &format!("[[member]]\nmodel = \"{model}\"\nsize = \"100GB\"\n");
        if let Some(SlowDisk { factor, from_s, .. }) = slow.filter(|slow| slow.place == place) {
            text += &format!("fault = [{{ slow = {factor:.1}, from = \"{from_s}s\" }}]\n");
        }
        let (name, model) = (format!("sd{place}"), Some(model.to_owned()));
        disks.push(DiskFacts { name, class, model, link: None });
    }
    DrawnArray { disks, text, slow }
}

const RULES: [&str; 3] = ["mirrorball watch", "await over a bound", "twice the peers' median"];

/// When each rule first named each disk, in seconds.
type Found = [BTreeMap<usize, u64>; 3];

/// Plain rules: await over 30 ms (hard disks) or 3 ms for half a minute, as alerts of `iostat`
/// have it; and wait over twice the median of all disks of the array for as long.
fn plain_rules(
    windows: &[DiskWindow],
    class: DiskKind,
    held: &mut [[u32; 2]],
) -> [BTreeSet<usize>; 2] {
    let wait = |it: &DiskWindow| {
        let count = it.counters.reads + it.counters.writes;
        (it.counters.read_ms + it.counters.write_ms) as f64 / count.max(1) as f64
    };
    let waits: Vec<f64> = windows.iter().map(wait).collect();
    let mut sorted = waits.clone();
    sorted.sort_by(f64::total_cmp);
    let median = sorted[(sorted.len() - 1) / 2];
    let bound = if class == DiskKind::Hdd { 30.0 } else { 3.0 };
    let mut named = [BTreeSet::new(), BTreeSet::new()];
    for (place, wait) in waits.iter().enumerate() {
        let is_over = [*wait > bound, waits.len() > 1 && *wait > 2.0 * median.max(0.05)];
        for rule in 0..2 {
            held[place][rule] = if is_over[rule] { held[place][rule] + 1 } else { 0 };
            if held[place][rule] >= RULE_S {
                named[rule].insert(place);
            }
        }
    }
    named
}

/// The end of a history.
struct Outcome {
    drawn: DrawnArray,
    found: Found,
    /// Seconds at which the slow disk had enough load to be judged, after it became slow.
    loaded_s: Vec<u64>,
}

fn run(seed: u64) -> Outcome {
    let mut rng = Rng::new(seed);
    let drawn = draw(&mut rng);
    let spec = ArrayFile::parse(&drawn.text, "drawn").expect("a valid array").spec;
    let count = drawn.disks.len();
    let class = drawn.disks[0].class;
    let array = spec.model_array(seed).expect("models of ours");
    let mut world = World::new(array, Rng::stream(seed, "load"), count);
    let mut judge = Judge::new(drawn.disks.iter().map(|it| (it.clone(), DiskHistory::default())));
    let mut found: Found = Default::default();
    let mut before = vec![DiskCounters::default(); count];
    let mut held = vec![[0; 2]; count];
    let mut load = draw_load(&mut rng, class, count);
    let mut load_until = 60 + rng.below(240);
    let mut loaded_s = Vec::new();
    for second in 1..=LENGTH_S {
        if second > load_until {
            load = draw_load(&mut rng, class, count);
            load_until = second + 60 + rng.below(240);
        }
        world.pass(&load);
        let now = world.now;
        let counters = world.counters();
        let window = |(now, then): (&DiskCounters, &DiskCounters)| DiskWindow {
            time: SECOND,
            counters: now.since(then),
            errors: 0,
        };
        let windows: Vec<DiskWindow> = counters.iter().zip(&before).map(window).collect();
        before = counters;
        if let Some(slow) = drawn.slow.filter(|slow| second > slow.from_s) {
            let DiskWindow { counters, .. } = &windows[slow.place];
            // As much as the judge wants in five seconds.
            if counters.reads.max(counters.writes) >= 2 && counters.read_ms + counters.write_ms >= 1
            {
                loaded_s.push(second);
            }
        }
        let [over, peers] = plain_rules(&windows, class, &mut held);
        let windows: Vec<_> = windows.into_iter().map(Some).collect();
        judge.observe(now, SECOND, &windows);
        let slow = judge.disks().enumerate();
        let slow = slow.filter(|(_, (_, state, ..))| matches!(state, DiskState::Slow { .. }));
        let ours: BTreeSet<usize> = slow.map(|(place, _)| place).collect();
        for (found, named) in found.iter_mut().zip([ours, over, peers]) {
            for place in named {
                found.entry(place).or_insert(second);
            }
        }
    }
    Outcome { drawn, found, loaded_s }
}

#[derive(Clone, Copy, Default)]
struct Score {
    right: u32,
    wrong: u32,
    missed: u32,
    unloaded: u32,
}

/// Runs histories from a seed on, and prints the scores of the rules.
pub(crate) fn report(histories: u64, first: u64) {
    let mut by_factor: BTreeMap<u64, [Score; 3]> = BTreeMap::new();
    let mut false_alarms = [0; 3];
    let mut healthy_s = 0;
    let mut delays: [Vec<usize>; 3] = Default::default();
    for seed in first..first + histories {
        let Outcome { drawn, found, loaded_s } = run(seed);
        let healthy = drawn.slow.map_or(LENGTH_S, |slow| slow.from_s);
        healthy_s += healthy;
        for rule in 0..3 {
            let early = |(place, at): (&usize, &u64)| {
                *at < healthy || drawn.slow.is_none_or(|slow| slow.place != *place)
            };
            let wrong = found[rule].iter().filter(|it| early(*it)).count() as u32;
            false_alarms[rule] += wrong;
            if rule == 0 && wrong > 0 {
                println!("seed {seed}: {wrong} false alarms");
            }
            if let Some(slow) = drawn.slow {
                let score = &mut by_factor.entry((slow.factor * 10.0) as u64).or_default()[rule];
                score.wrong += wrong;
                match found[rule].get(&slow.place).filter(|at| **at >= slow.from_s) {
                    Some(at) => {
                        score.right += 1;
                        delays[rule].push(loaded_s.iter().filter(|it| *it <= at).count());
                    }
                    // A minute of load is what is asked for.
                    None if loaded_s.len() < 60 => score.unloaded += 1,
                    None => score.missed += 1,
                }
            }
        }
    }
    println!(
        "{histories} histories from seed {first}, {healthy_s} s of arrays without a slow disk"
    );
    for (rule, name) in RULES.iter().enumerate() {
        delays[rule].sort_unstable();
        let delay = delays[rule].get(delays[rule].len() / 2).copied().unwrap_or(0);
        let (mut right, mut judged) = (0, 0);
        for (_, scores) in by_factor.range(20..) {
            right += scores[rule].right;
            judged += scores[rule].right + scores[rule].missed;
        }
        println!(
            "{name}: {} false alarms; from x2 on recall {:.3}, precision {:.3}; median delay \
             {delay} s of load",
            false_alarms[rule],
            f64::from(right) / f64::from(judged.max(1)),
            f64::from(right) / f64::from((right + false_alarms[rule]).max(1)),
        );
        for (factor, scores) in &by_factor {
            let Score { right, wrong, missed, unloaded } = scores[rule];
            println!(
                "  x{:.1}: found {right} of {}, another disk named {wrong}; without a minute of \
                 load {unloaded}",
                *factor as f64 / 10.0,
                right + missed
            );
        }
    }
}
