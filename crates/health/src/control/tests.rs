//! The control law on made samples. Simulated arrays are in the example `control`.

use super::*;
use mirrorball_core::rng::Rng;

const STEP: Nanos = Nanos::from_secs(5);
const FINE: MemberReading = MemberReading {
    class: DiskKind::Ssd,
    is_slow: false,
    read_ratio: Some(1.0),
    reads_per_s: 500.0,
    read_wait_ms: 0.2,
    depth: 1.0,
    utilisation: 0.1,
};

fn slow(factor: f64) -> MemberReading {
    let read_wait_ms = FINE.read_wait_ms * factor;
    MemberReading { is_slow: true, read_ratio: Some(factor), read_wait_ms, ..FINE }
}

/// A member that is not read.
fn unread(of: MemberReading) -> MemberReading {
    MemberReading { read_ratio: None, reads_per_s: 0.0, read_wait_ms: 0.0, ..of }
}

/// The alternatives of an array whose members can each be marked.
fn flags(members: usize) -> Vec<ReadSetting> {
    let all = 0..1_u32 << members;
    let avoids = |set: u32| (0..members).map(|member| set >> member & 1 == 1).collect();
    all.map(|set| ReadSetting { spec: format!("set {set}"), avoids: avoids(set) }).collect()
}

struct Rig {
    controller: Controller,
    now: Nanos,
}

impl Rig {
    fn new(members: usize, cost: ChangeCost) -> Rig {
        let memory = ControlMemory::default();
        Rig { controller: Controller::new(flags(members), cost.limits(), memory), now: STEP }
    }

    fn decide(&mut self, members: &[MemberReading]) -> ControlDecision {
        self.now += STEP;
        let observation =
            ArrayReading { now: self.now, is_at_rest: true, members: members.to_vec() };
        self.controller.decide(&observation)
    }

    /// Evaluates `count` times; returns the changes.
    fn run(&mut self, count: usize, members: &[MemberReading]) -> Vec<(usize, ChangeReason)> {
        let decided = (0..count).map(|_| self.decide(members));
        let changes = decided.filter_map(|decision| match decision {
            ControlDecision::Change { to, reason, .. } => Some((to, reason)),
            ControlDecision::Stay(_) => None,
        });
        changes.collect()
    }
}

#[test]
fn a_slow_member_is_avoided_at_once_and_read_again_when_a_trial_shows_that_it_recovered() {
    let mut rig = Rig::new(2, ChangeCost::Suspends);
    assert_eq!(rig.run(100, &[FINE, FINE]), []);
    assert_eq!(rig.run(1, &[FINE, slow(4.0)]), [(2, ChangeReason::SlowMembers)]);
    // The judge has seen no reads of it since.
    let avoided = [FINE, unread(slow(4.0))];
    assert_eq!(rig.run(179, &avoided), [], "it holds for a quarter of an hour");
    assert_eq!(rig.run(1, &avoided), [(0, ChangeReason::Trial)]);
    let changes = rig.run(5, &[FINE, slow(4.0)]);
    assert_eq!(changes, [(2, ChangeReason::StillSlow)], "and the next trial is later");
    assert_eq!(rig.run(350, &avoided), []);
    assert_eq!(rig.run(10, &avoided).first(), Some(&(0, ChangeReason::Trial)));
    let recovered = MemberReading { is_slow: true, ..FINE };
    assert_eq!(rig.run(50, &[FINE, recovered]), [], "the judge calls it slow a little longer");
    assert_eq!(rig.controller.current(), 0);
}

#[test]
fn a_change_that_brings_nothing_is_taken_back_and_no_more_is_tried_after_three() {
    let mut rig = Rig::new(2, ChangeCost::Free);
    let worse = [MemberReading { read_wait_ms: 0.9, ..FINE }, unread(slow(4.0))];
    for _ in 0..TAKEN_BACK_MAX {
        assert_eq!(rig.run(3, &[FINE, slow(4.0)]).len(), 1);
        assert_eq!(rig.run(12, &worse), [(0, ChangeReason::DoesNotHold)]);
    }
    assert_eq!(rig.run(1000, &[FINE, slow(4.0)]), []);
    assert_eq!(rig.decide(&[FINE, slow(4.0)]), ControlDecision::Stay(StayReason::GivenUp));
}

#[test]
fn nothing_is_changed_for_a_small_gain_a_saturated_member_or_an_array_not_at_rest() {
    let mut rig = Rig::new(2, ChangeCost::Free);
    let rare = MemberReading { reads_per_s: 5.0, ..slow(4.0) };
    assert_eq!(rig.decide(&[FINE, rare]), ControlDecision::Stay(StayReason::SmallGain));
    let busy = |it| MemberReading { class: DiskKind::Hdd, utilisation: 0.6, ..it };
    let decision = rig.decide(&[busy(FINE), busy(slow(4.0))]);
    assert_eq!(decision, ControlDecision::Stay(StayReason::SmallGain), "one arm cannot carry both");
    let every = rig.decide(&[slow(4.0), slow(3.0)]);
    assert_eq!(every, ControlDecision::Stay(StayReason::NoAlternative), "some member must be read");
    let members = vec![FINE, slow(4.0)];
    let observation = ArrayReading { now: rig.now, is_at_rest: false, members };
    assert_eq!(rig.controller.decide(&observation), ControlDecision::Stay(StayReason::NotAtRest));
    assert_eq!(rig.run(1, &[FINE, slow(4.0)]).len(), 1);
    rig.controller.on_failed_change();
    assert_eq!(rig.decide(&[FINE, slow(4.0)]), ControlDecision::Stay(StayReason::GivenUp));
}

#[test]
fn a_busy_member_without_reads_does_not_spoil_the_predicted_gain() {
    let mut rig = Rig::new(3, ChangeCost::Free);
    let busy = MemberReading { class: DiskKind::Hdd, utilisation: 0.9, ..unread(FINE) };
    let members = [FINE, slow(4.0), busy];
    let ControlDecision::Change { to, predicted_gain, .. } = rig.decide(&members) else {
        panic!("a change");
    };
    assert_eq!(rig.controller.settings()[to].avoids, [false, true, false]);
    assert!(predicted_gain.unwrap() >= GAIN_MIN, "{predicted_gain:?}");
}

#[test]
fn a_clock_that_is_set_back_delays_changes_by_the_interval_alone() {
    let mut rig = Rig::new(2, ChangeCost::Free);
    rig.controller.memory.changes_ns = vec![1_000_000 * STEP.0];
    assert_eq!(rig.decide(&[FINE, slow(4.0)]), ControlDecision::Stay(StayReason::TooSoon));
    assert_eq!(rig.run(3, &[FINE, slow(4.0)]).len(), 1);
}

/// Whatever is seen: some member serves, changes are an interval apart, and a day has few.
#[test]
fn the_rules_hold_under_any_samples() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let members = 2 + rng.below(3) as usize;
        let cost = [ChangeCost::Free, ChangeCost::Suspends][rng.below(2) as usize];
        let mut rig = Rig::new(members, cost);
        let limits = cost.limits();
        let mut times: Vec<Nanos> = Vec::new();
        for _ in 0..20_000 {
            let member = |rng: &mut Rng| {
                let factor = 0.2 + rng.below(60) as f64 / 10.0;
                let kind = [DiskKind::Hdd, DiskKind::Ssd][rng.below(2) as usize];
                let it = MemberReading { class: kind, is_slow: rng.below(3) == 0, ..slow(factor) };
                if rng.below(5) == 0 { unread(it) } else { it }
            };
            let seen: Vec<MemberReading> = (0..members).map(|_| member(&mut rng)).collect();
            if let ControlDecision::Change { to, .. } = rig.decide(&seen) {
                let avoids = &rig.controller.settings()[to].avoids;
                assert!(avoids.contains(&false), "seed {seed}: {avoids:?}");
                if let Some(last) = times.last() {
                    assert!(rig.now - *last >= limits.interval, "seed {seed}");
                }
                times.push(rig.now);
                let day = times.iter().filter(|at| rig.now.saturating_sub(**at) < DAY).count();
                assert!(day <= limits.a_day, "seed {seed}: {day} changes in a day");
                // A service that is started again forgets neither.
                let memory = rig.controller.memory().clone();
                let alternatives = rig.controller.settings().to_vec();
                if to == 0 && rng.below(3) == 0 {
                    rig.controller = Controller::new(alternatives, limits, memory);
                }
            }
        }
        assert!(!times.is_empty(), "seed {seed}");
    }
}
