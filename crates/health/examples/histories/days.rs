//! The controller over many days of made counters: how often does it change a setting?
//!
//! Services and loads are random, not modelled disks: a day has a slow swing of the load, bursts,
//! and in some hours a member that is slower by a random factor for a random time. An avoided
//! member gets no reads, and the others share them.

use crate::control::{reading, settings};
use crate::world::{SECOND, chance, fraction};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use mirrorball_health::control::{
    ChangeCost, ChangeReason, ControlDecision, ControlMemory, Controller,
};
use mirrorball_health::counters::DiskCounters;
use mirrorball_health::judge::{DiskFacts, DiskHistory, DiskWindow, Judge};
use mirrorball_health::service::DiskKind;

const DAY_S: u64 = 86_400;

/// An episode in which a member is slow.
struct Episode {
    member: usize,
    factor: f64,
    until_s: u64,
    /// Changes away from the member since it began.
    away: u32,
}

/// The disks and the load of a day.
struct Day {
    kind: DiskKind,
    members: usize,
    service_ms: f64,
    /// Most reads a second.
    peak: f64,
    cost: ChangeCost,
    is_faulty: bool,
    episode: Option<Episode>,
    /// When a member was slow last.
    slow_at: u64,
    burst_until: u64,
}

/// Counts over all days.
#[derive(Default)]
struct Tally {
    changes: usize,
    most: usize,
    calm_days: u32,
    changes_in_calm_days: usize,
    episodes: u32,
    trials: u32,
    taken_back: u32,
    without_cause: u32,
    again: u32,
}

/// The counters of a second of a disk that is sent this many reads.
fn window(rng: &mut Rng, reads_per_s: f64, service_ms: f64) -> DiskWindow {
    let noise = 0.8 + 0.4 * fraction(rng);
    let reads = (reads_per_s * noise) as u64;
    let busy = (reads_per_s * service_ms / 1e3).min(0.95);
    // One server: the wait grows with the time that it is busy.
    let wait_ms = reads as f64 * service_ms / (1.0 - busy) * (0.8 + 0.4 * fraction(rng));
    let counters = DiskCounters {
        reads,
        read_sectors: 8 * reads,
        read_ms: wait_ms as u64,
        busy_ms: ((busy * 1e3) as u64).clamp(u64::from(reads > 0), 1000),
        ..Default::default()
    };
    DiskWindow { time: SECOND, counters, errors: 0 }
}

impl Day {
    fn draw(rng: &mut Rng, number: u64) -> Day {
        let kind = if chance(rng, 50) { DiskKind::Hdd } else { DiskKind::Ssd };
        let service_ms = if kind == DiskKind::Hdd { 8.0 } else { 0.15 };
        let members = 2 + rng.below(2) as usize;
        let peak = (0.05 + 0.4 * fraction(rng)) * 1e3 / service_ms * (members - 1) as f64;
        Day {
            kind,
            members,
            service_ms,
            peak,
            cost: if number.is_multiple_of(2) { ChangeCost::Free } else { ChangeCost::Suspends },
            is_faulty: chance(rng, 50),
            episode: None,
            slow_at: 0,
            burst_until: 0,
        }
    }

    /// Begins and ends episodes and bursts; returns the reads a second of all members.
    fn pass(&mut self, rng: &mut Rng, second: u64, tally: &mut Tally) -> f64 {
        let may_begin = self.is_faulty && self.episode.is_none() && second < DAY_S * 3 / 4;
        if may_begin && rng.below(4 * 3600) == 0 {
            let member = rng.below(self.members as u64) as usize;
            let factor = 1.2 + 6.0 * fraction(rng);
            let until_s = second + 20 + rng.below(7200);
            self.episode = Some(Episode { member, factor, until_s, away: 0 });
            tally.episodes += 1;
        }
        if self.episode.as_ref().is_some_and(|it| it.until_s <= second) {
            self.episode = None;
        }
        if self.episode.is_some() {
            self.slow_at = second;
        }
        if rng.below(1800) == 0 {
            self.burst_until = second + rng.below(120);
        }
        let swing = (second as f64 / DAY_S as f64 * std::f64::consts::TAU).sin();
        self.peak * (0.6 + 0.4 * swing) * if second < self.burst_until { 1.5 } else { 1.0 }
    }

    /// The windows of all members under a load.
    fn windows(&self, rng: &mut Rng, load: f64, avoids: &[bool]) -> Vec<Option<DiskWindow>> {
        let serving = avoids.iter().filter(|it| !**it).count() as f64;
        let of_member = |place: usize| {
            let slow = self.episode.as_ref().filter(|it| it.member == place);
            let service = self.service_ms * slow.map_or(1.0, |it| it.factor);
            let share = if avoids[place] { 0.0 } else { load / serving };
            Some(window(rng, share, service))
        };
        (0..self.members).map(of_member).collect()
    }

    fn count(&mut self, second: u64, reason: ChangeReason, tally: &mut Tally) {
        match reason {
            ChangeReason::Trial => tally.trials += 1,
            ChangeReason::StillSlow => {}
            ChangeReason::DoesNotHold | ChangeReason::Overload => tally.taken_back += 1,
            ChangeReason::SlowMembers => {
                tally.without_cause += u32::from(second > self.slow_at + 30);
                if let Some(episode) = &mut self.episode {
                    episode.away += 1;
                    tally.again += u32::from(episode.away > 1);
                }
            }
        }
    }

    fn run(&mut self, rng: &mut Rng, tally: &mut Tally) {
        let facts = |place: usize| DiskFacts {
            name: format!("sd{place}"),
            class: self.kind,
            model: Some("one".to_owned()),
            link: None,
            is_shingled: false,
        };
        let disks = (0..self.members).map(|it| (facts(it), DiskHistory::default()));
        let mut judge = Judge::new(disks);
        let settings = settings(self.members);
        let limits = self.cost.limits();
        let mut controller = Controller::new(settings, limits, ControlMemory::default());
        let mut changes = 0;
        for second in 1..=DAY_S {
            let load = self.pass(rng, second, tally);
            let avoids = controller.settings()[controller.current()].avoids.clone();
            let windows = self.windows(rng, load, &avoids);
            let now = Nanos::from_secs(second);
            if judge.observe(now, SECOND, &windows)
                && let ControlDecision::Change { reason, .. } =
                    controller.decide(&reading(now, &judge))
            {
                changes += 1;
                self.count(second, reason, tally);
            }
        }
        assert!(changes <= limits.a_day, "{changes} changes in a day");
        tally.changes += changes;
        tally.most = tally.most.max(changes);
        if !self.is_faulty {
            tally.calm_days += 1;
            tally.changes_in_calm_days += changes;
        }
    }
}

/// Runs days from a seed, and prints the changes.
pub(crate) fn report(days: u64, seed: u64) {
    let mut rng = Rng::stream(seed, "days");
    let mut tally = Tally::default();
    for number in 0..days {
        Day::draw(&mut rng, number).run(&mut rng, &mut tally);
    }
    println!("{days} days from seed {seed}, {} episodes of a slow member", tally.episodes);
    println!(
        "changes: {} in all, at most {} in a day, {} in the {} days without an episode",
        tally.changes, tally.most, tally.changes_in_calm_days, tally.calm_days
    );
    println!(
        "{} trials of the usual setting, {} changes taken back, {} away from a member that was not \
         slow, {} once more in one episode",
        tally.trials, tally.taken_back, tally.without_cause, tally.again
    );
}
