//! Judges the controller of `tune --auto`: a member of an array becomes four times as slow at a
//! time that the controller does not know, and recovers.
//!
//! The same array, load and seed run under no change, under each static setting, under an oracle
//! that knows the times, and under the controller. Settings have their real meaning: an avoided
//! member gets no reads, and a change of md's flags suspends the array until its I/O is done.

use crate::world::{Balance, Load, MODELS, SECOND, World, chance, fraction};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::ArrayFile;
use mirrorball_health::control::{
    ArrayReading, ChangeCost, ControlDecision, ControlMemory, Controller, MemberReading,
    ReadSetting,
};
use mirrorball_health::counters::DiskCounters;
use mirrorball_health::judge::{DiskFacts, DiskHistory, DiskWindow, Judge};
use mirrorball_health::service::DiskKind;

/// How much slower the member becomes.
const FACTOR: f64 = 4.0;
/// Seconds of load before, and with the fault.
const BEFORE_S: u64 = 420;
const FAULT_S: u64 = 600;
/// Seconds after it: until the trial of the usual setting has ended.
const AFTER_S: u64 = 500;
/// Seconds after the onset that are left out.
const REACTION_S: u64 = 30;

/// A setting, or a way to choose one, that is compared in a run.
#[derive(Clone, Copy, PartialEq)]
enum Arm {
    /// A set of avoided members, as bits, for the whole run.
    Static(usize),
    /// The slow member is avoided for as long as it is slow.
    Oracle,
    Controlled,
}

struct Drawn {
    text: String,
    disks: Vec<DiskFacts>,
    load: Load,
    slow: usize,
    cost: ChangeCost,
}

struct ArmResult {
    /// Waits of reads from the reaction time to the end of the fault, in order.
    faulty_ns: Vec<u64>,
    /// Waits of reads before the fault.
    healthy_ns: Vec<u64>,
    changes: usize,
    /// Seconds from the onset to the first change.
    reaction_s: Option<u64>,
    ends_as_usual: bool,
}

fn draw(seed: u64) -> Drawn {
    let mut rng = Rng::stream(seed, "control");
    let (class, models) = MODELS[rng.below(3) as usize];
    let count = 2 + rng.below(2) as usize;
    let is_uniform = chance(&mut rng, 70);
    let first = rng.below(models.len() as u64) as usize;
    let slow = rng.below(count as u64) as usize;
    let mut text = "name = \"drawn\"\nprofile = \"single\"\n".to_owned();
    let mut disks = Vec::new();
    for place in 0..count {
        let other = rng.below(models.len() as u64) as usize;
        let model = models[if is_uniform { first } else { other }];
        text += &format!("[[member]]\nmodel = \"{model}\"\nsize = \"100GB\"\n");
        if place == slow {
            let until = BEFORE_S + FAULT_S;
            text += &format!(
                "fault = [{{ slow = {FACTOR:.1}, from = \"{BEFORE_S}s\", until = \"{until}s\" }}]\n"
            );
        }
        let (name, model) = (format!("sd{place}"), Some(model.to_owned()));
        disks.push(DiskFacts { name, class, model, link: None, is_shingled: false });
    }
    // Loads that the members that are left can carry, and that let the slow one be seen.
    let most = match class {
        DiskKind::Hdd => 60.0,
        DiskKind::Ssd => 400.0,
        DiskKind::Nvme => 600.0,
    };
    let reads_per_s = most * (count - 1) as f64 * (0.15 + 0.55 * fraction(&mut rng));
    let bytes = [4096, 4096, 16_384, 65_536][rng.below(4) as usize];
    let load = Load {
        reads_per_s,
        writes_per_s: reads_per_s * [0.0, 0.1, 0.3][rng.below(3) as usize] / count as f64,
        bytes,
        balance: if chance(&mut rng, 50) { Balance::AnyOfShortest } else { Balance::Chance },
        loops: Vec::new(),
        unread: None,
    };
    let cost = [ChangeCost::Free, ChangeCost::Suspends][rng.below(2) as usize];
    Drawn { text, disks, load, slow, cost }
}

/// The sets of avoided members that leave one, the empty one first.
pub(crate) fn settings(count: usize) -> Vec<ReadSetting> {
    let sets = 0..(1_usize << count) - 1;
    let avoids = |set: usize| (0..count).map(|member| set >> member & 1 == 1).collect();
    sets.map(|set| ReadSetting { spec: format!("{set}"), avoids: avoids(set) }).collect()
}

/// The array in an evaluation, as the controller is given it.
pub(crate) fn reading(now: Nanos, judge: &Judge) -> ArrayReading {
    let members =
        judge.disks().map(|(facts, state, figures, _)| MemberReading::of(facts, state, figures));
    ArrayReading { now, is_at_rest: true, members: members.collect() }
}

fn run(drawn: &Drawn, seed: u64, arm: Arm, length_s: u64) -> ArmResult {
    let count = drawn.disks.len();
    let array = ArrayFile::parse(&drawn.text, "drawn").expect("a valid array").spec;
    let array = array.model_array(seed).expect("models of ours");
    let mut world = World::new(array, Rng::stream(seed, "load"), count);
    let mut judge = Judge::new(drawn.disks.iter().map(|it| (it.clone(), DiskHistory::default())));
    let suspends = drawn.cost == ChangeCost::Suspends;
    let memory = ControlMemory::default();
    let mut controller = Controller::new(settings(count), drawn.cost.limits(), memory);
    if let Arm::Static(set) = arm {
        world.avoid(&settings(count)[set].avoids, false);
    }
    world.take_waits_ns();
    let mut before = vec![DiskCounters::default(); count];
    let (mut healthy_ns, mut faulty_ns) = (Vec::new(), Vec::new());
    let (mut changes, mut reaction_s) = (0, None);
    for second in 1..=length_s {
        world.pass(&drawn.load);
        let waits = world.take_waits_ns();
        match second {
            second if second <= BEFORE_S => healthy_ns.extend(waits),
            second if (BEFORE_S + REACTION_S..BEFORE_S + FAULT_S).contains(&second) => {
                faulty_ns.extend(waits);
            }
            _ => {}
        }
        if arm == Arm::Oracle && (second == BEFORE_S || second == BEFORE_S + FAULT_S) {
            let set = if second == BEFORE_S { 1 << drawn.slow } else { 0 };
            world.avoid(&settings(count)[set].avoids, suspends);
        }
        let counters = world.counters();
        let window = |(now, then): (&DiskCounters, &DiskCounters)| {
            Some(DiskWindow { time: SECOND, counters: now.since(then), errors: 0 })
        };
        let windows: Vec<_> = counters.iter().zip(&before).map(window).collect();
        before = counters;
        if arm != Arm::Controlled || !judge.observe(world.now, SECOND, &windows) {
            continue;
        }
        if let ControlDecision::Change { to, .. } = controller.decide(&reading(world.now, &judge)) {
            changes += 1;
            reaction_s.get_or_insert(second.saturating_sub(BEFORE_S));
            world.avoid(&controller.settings()[to].avoids, suspends);
        }
    }
    faulty_ns.sort_unstable();
    healthy_ns.sort_unstable();
    let ends_as_usual = controller.current() == 0;
    ArmResult { faulty_ns, healthy_ns, changes, reaction_s, ends_as_usual }
}

fn p99_ms(sorted_ns: &[u64]) -> f64 {
    let place = (sorted_ns.len() * 99 / 100).min(sorted_ns.len().saturating_sub(1));
    sorted_ns.get(place).copied().unwrap_or(0) as f64 / 1e6
}

/// Runs from a seed on, and prints how the controller compares.
pub(crate) fn report(runs: u64, first: u64) {
    let fault_end = BEFORE_S + FAULT_S;
    let (mut within, mut back, mut calm, mut kept) = (0, 0, 0, 0);
    let mut reactions = Vec::new();
    let (mut none_ratios, mut oracle_ratios, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    println!(
        "seed,kind,members,change,none_ms,best_static_ms,oracle_ms,controlled_ms,reaction_s,\
         changes,back"
    );
    for seed in first..first + runs {
        let drawn = draw(seed);
        let count = drawn.disks.len();
        let p99 = |arm| p99_ms(&run(&drawn, seed, arm, fault_end).faulty_ns);
        let none = p99(Arm::Static(0));
        let statics = (1..settings(count).len()).map(|set| p99(Arm::Static(set)));
        let best = statics.fold(none, f64::min);
        let oracle = p99(Arm::Oracle);
        let controlled = run(&drawn, seed, Arm::Controlled, fault_end + AFTER_S);
        let own = p99_ms(&controlled.faulty_ns);
        within += u32::from(own <= 1.2 * best);
        back += u32::from(controlled.ends_as_usual);
        none_ratios.push(none / best);
        oracle_ratios.push(oracle / best);
        ratios.push(own / best);
        reactions.extend(controlled.reaction_s);
        println!(
            "{seed},{:?},{count},{:?},{none:.2},{best:.2},{oracle:.2},{own:.2},{},{},{}",
            drawn.disks[0].class,
            drawn.cost,
            controlled.reaction_s.map_or_else(|| "-".to_owned(), |it| it.to_string()),
            controlled.changes,
            controlled.ends_as_usual
        );
        // The same array without a fault: the time before it, again and longer.
        let healthy = Drawn { text: drawn.text.replace("slow = 4.0", "slow = 1.0"), ..drawn };
        let usual = run(&healthy, seed, Arm::Static(0), fault_end);
        let watched = run(&healthy, seed, Arm::Controlled, fault_end);
        calm += u32::from(watched.changes == 0);
        let reads = |it: &ArmResult| it.healthy_ns.len() + it.faulty_ns.len();
        kept += u32::from(reads(&watched) as f64 >= 0.98 * reads(&usual) as f64);
    }
    let quantile = |values: &mut Vec<f64>, part: f64| {
        values.sort_by(f64::total_cmp);
        values[((values.len() - 1) as f64 * part) as usize]
    };
    println!("{runs} runs from seed {first}, a member x{FACTOR} for {FAULT_S} s");
    println!(
        "p99 within 1.2 x of the best static setting {REACTION_S} s after the onset: {within}"
    );
    for (name, values) in [
        ("no change", &mut none_ratios),
        ("oracle", &mut oracle_ratios),
        ("controlled", &mut ratios),
    ] {
        let (half, most) = (quantile(values, 0.5), quantile(values, 0.95));
        println!("{name}: p99 over the best static setting, median {half:.2}, 95 % {most:.2}");
    }
    reactions.sort_unstable();
    let (median, last) = (reactions.get(reactions.len() / 2), reactions.last());
    println!("first change after {median:?} s (median), {last:?} s (last)");
    println!("the usual setting back within {AFTER_S} s of the recovery: {back}");
    println!("without a fault: no change in {calm}, 0.98 of the reads in {kept}");
}
