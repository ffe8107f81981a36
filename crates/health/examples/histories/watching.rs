//! Judges the judge of `watch`, and rules of others, on random histories with the truth known.

use crate::faults::{FaultKind, Truth};
use crate::history::{DAY_S, History};
use crate::rules::{RULES, Rules};
use crate::world::SECOND;
use mirrorball_core::units::Nanos;
use mirrorball_health::judge::{Cause, DiskFacts, DiskHistory, DiskState, DiskWindow, Judge};
use mirrorball_health::service::DiskKind;
use std::collections::BTreeMap;

const HISTORY_S: u64 = 1800;
/// Seconds from a disk's naming to the cause that counts.
const CAUSE_AFTER_S: u64 = 30;

/// The verdicts of a rule on a history.
#[derive(Clone, Default)]
struct Found {
    /// Disks that are named now, and whether for tidying up.
    named: Vec<(usize, bool)>,
    false_alarms: u32,
    /// Healthy disks that are said to tidy up after writes, which is no alarm.
    tidying: u32,
    /// When the slow disk was named first.
    at: Option<u64>,
    cause: Option<Cause>,
}

impl Found {
    fn observe(&mut self, second: u64, named: Vec<(usize, Option<Cause>)>, truth: Option<&Truth>) {
        let truth = truth.filter(|it| second >= it.from_s);
        let named: Vec<(usize, Option<Cause>, bool)> = named
            .into_iter()
            .map(|(place, cause)| (place, cause, cause == Some(Cause::AfterWrites)))
            .collect();
        for &(place, cause, is_tidying) in &named {
            let is_new = !self.named.contains(&(place, is_tidying));
            match truth {
                Some(truth) if truth.places.contains(&place) => {
                    // Tidying up is no alarm, but where it is the truth.
                    if is_tidying && truth.cause() != Cause::AfterWrites {
                        continue;
                    }
                    let at = *self.at.get_or_insert(second);
                    if second <= at + CAUSE_AFTER_S && place == truth.places[0] {
                        self.cause = cause;
                    }
                }
                _ if is_new && is_tidying => self.tidying += 1,
                _ if is_new => self.false_alarms += 1,
                _ => {}
            }
        }
        self.named = named.into_iter().map(|(place, _, tidying)| (place, tidying)).collect();
    }
}

/// The end of a history.
pub(crate) struct Outcome {
    truth: Option<Truth>,
    /// By the judge, and by the rules.
    found: Vec<Found>,
    /// Seconds at which the slow disk had enough load to be judged, after it became slow.
    loaded_s: Vec<u64>,
    healthy_s: u64,
}

/// The judge and the rules on a history.
pub(crate) struct Trial {
    judge: Judge,
    rules: Rules,
    found: Vec<Found>,
    loaded_s: Vec<u64>,
    second: u64,
}

impl Trial {
    pub(crate) fn new(class: DiskKind, disks: &[DiskFacts]) -> Trial {
        Trial {
            judge: Judge::new(disks.iter().map(|it| (it.clone(), DiskHistory::default()))),
            rules: Rules::new(class, disks.len()),
            found: vec![Found::default(); 1 + RULES.len()],
            loaded_s: Vec::new(),
            second: 0,
        }
    }

    /// Judges a second.
    pub(crate) fn observe(&mut self, windows: &[DiskWindow], truth: Option<&Truth>) {
        self.second += 1;
        let second = self.second;
        let concerns = |it: &Truth| {
            it.reached_s.is_some_and(|at| second > at) && it.concerns(&windows[it.places[0]])
        };
        if truth.is_some_and(concerns) {
            self.loaded_s.push(second);
        }
        let all: Vec<_> = windows.iter().copied().map(Some).collect();
        self.judge.observe(Nanos(second * SECOND.0), SECOND, &all);
        let ours = self.judge.disks().zip(0..).filter_map(|((_, state, ..), place)| match state {
            DiskState::Slow { cause, .. } => Some((place, Some(cause))),
            _ => None,
        });
        self.found[0].observe(second, ours.collect(), truth);
        for (found, named) in self.found[1..].iter_mut().zip(self.rules.observe(windows)) {
            found.observe(second, named.into_iter().map(|it| (it, None)).collect(), truth);
        }
    }

    pub(crate) fn end(self, truth: Option<Truth>) -> Outcome {
        // A disk whose fault waits for heat or writes may stay healthy.
        let truth = truth.filter(|it| it.reached_s.is_some());
        let healthy_s = truth.as_ref().map_or(self.second, |it| it.from_s);
        Outcome { truth, found: self.found, loaded_s: self.loaded_s, healthy_s }
    }
}

fn run(seed: u64, length_s: u64) -> Outcome {
    let mut history = History::draw(seed, length_s);
    let mut trial = Trial::new(history.class, &history.disks);
    while let Some(windows) = history.pass() {
        trial.observe(&windows, history.truth.as_ref());
    }
    trial.end(history.truth)
}

#[derive(Clone, Default)]
struct Score {
    right: u32,
    missed: u32,
    unloaded: u32,
    right_cause: u32,
    delays_s: Vec<usize>,
}

impl Score {
    fn add(&mut self, found: &Found, truth: &Truth, loaded_s: &[u64]) {
        match found.at {
            Some(at) => {
                self.right += 1;
                self.delays_s.push(loaded_s.iter().filter(|it| **it <= at).count());
                self.right_cause += u32::from(found.cause == Some(truth.cause()));
            }
            // A minute of load is what is asked for.
            None if loaded_s.len() < 60 => self.unloaded += 1,
            None => self.missed += 1,
        }
    }

    fn line(&mut self) -> String {
        self.delays_s.sort_unstable();
        let delay = self.delays_s.get(self.delays_s.len() / 2).copied().unwrap_or(0);
        format!(
            "found {} of {} ({:.3}), after {delay} s of load (median), cause right in {:.3}; \
             without a minute of load {}",
            self.right,
            self.right + self.missed,
            f64::from(self.right) / f64::from((self.right + self.missed).max(1)),
            f64::from(self.right_cause) / f64::from(self.right.max(1)),
            self.unloaded
        )
    }
}

/// Runs histories from a seed on, and prints the scores of the judge and the rules.
pub(crate) fn report(histories: u64, first: u64) {
    score(histories, first, HISTORY_S);
}

/// Runs healthy days from a seed on, and prints the false alarms.
pub(crate) fn report_controls(days: u64, first: u64) {
    score(days, first, DAY_S);
}

fn score(histories: u64, first: u64, length_s: u64) {
    let mut tally = Tally::default();
    (first..first + histories).for_each(|seed| tally.add(seed, &run(seed, length_s)));
    tally.print();
}

/// The scores of many histories.
#[derive(Default)]
pub(crate) struct Tally {
    histories: u64,
    by_factor: BTreeMap<u64, Score>,
    by_kind: BTreeMap<FaultKind, Score>,
    from_twice: [Score; 1 + RULES.len()],
    false_alarms: [u32; 1 + RULES.len()],
    healthy_s: u64,
    tidying: u32,
}

impl Tally {
    pub(crate) fn add(&mut self, seed: u64, outcome: &Outcome) {
        self.histories += 1;
        self.healthy_s += outcome.healthy_s;
        self.tidying += outcome.found[0].tidying;
        for (rule, found) in outcome.found.iter().enumerate() {
            self.false_alarms[rule] += found.false_alarms;
            let Some(truth) = &outcome.truth else { continue };
            if truth.factor >= 2.0 {
                self.from_twice[rule].add(found, truth, &outcome.loaded_s);
            }
            if rule == 0 {
                let milli = (truth.factor * 1e3) as u64;
                let by_factor = self.by_factor.entry(milli).or_default();
                by_factor.add(found, truth, &outcome.loaded_s);
                if truth.factor >= 2.0 {
                    let by_kind = self.by_kind.entry(truth.kind).or_default();
                    by_kind.add(found, truth, &outcome.loaded_s);
                }
            }
        }
        let wrong = outcome.found[0].false_alarms;
        if wrong > 0 {
            println!("seed {seed}: {wrong} false alarms");
        }
    }

    pub(crate) fn print(&mut self) {
        let years = self.healthy_s as f64 / (365.25 * DAY_S as f64);
        let histories = self.histories;
        println!("{histories} histories, {years:.3} years of arrays that were healthy");
        println!("{} healthy disks that are said to tidy up after writes", self.tidying);
        let names = std::iter::once("mirrorball watch").chain(RULES);
        for ((name, score), wrong) in names.zip(&mut self.from_twice).zip(&self.false_alarms) {
            let precision = f64::from(score.right) / f64::from((score.right + wrong).max(1));
            println!("{name}: {wrong} false alarms ({:.1} a year)", f64::from(*wrong) / years);
            println!("  from x2 on precision {precision:.3}, {}", score.line());
        }
        for (milli, score) in &mut self.by_factor {
            println!("x{:.1}: {}", *milli as f64 / 1e3, score.line());
        }
        for (kind, score) in &mut self.by_kind {
            println!("{kind:?}, from x2 on: {}", score.line());
        }
    }
}
