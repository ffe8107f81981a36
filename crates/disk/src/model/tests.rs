//! Cancellation on every built-in profile: random loads with and without it.

use super::*;
use crate::profile::ModelProfile;
use mirrorball_core::rng::Rng;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug)]
enum Step {
    Submit(DiskIo),
    /// Tries to take back the I/O with this tag.
    Cancel(u64),
}

/// A load that is deeper than most queues, with attempts to take back some of what came before.
fn any_load(rng: &mut Rng, operations: &[Op], capacity_bytes: u64) -> Vec<(Nanos, Step)> {
    let pause_ns = 1 + rng.below(10_000_000);
    let mut now = Nanos::ZERO;
    let mut load = Vec::new();
    for tag in 0..150 {
        if rng.below(20) == 0 {
            now += Nanos(rng.below(pause_ns * 20));
        }
        let op = operations[rng.below(operations.len() as u64) as usize];
        let length = if op == Op::Flush { 0 } else { 4096 << rng.below(6) };
        let offset = rng.below(capacity_bytes / (1 << 20)) << 20;
        load.push((now, Step::Submit(DiskIo { tag, op, offset, length })));
        while rng.below(3) == 0 {
            now += Nanos(rng.below(2) * rng.below(pause_ns));
            load.push((now, Step::Cancel(rng.below(tag + 1))));
        }
    }
    load
}

/// Drives a model through a load and up to its last step; returns what was taken back and what
/// completed, in which order the model never goes back in time.
fn drive(model: &mut dyn Model, load: &[(Nanos, Step)]) -> (BTreeSet<u64>, Vec<Completion>) {
    let (mut cancelled, mut ended) = (BTreeSet::new(), Vec::new());
    let mut open = BTreeSet::new();
    for &(now, step) in load {
        let before = ended.len();
        advance_to(model, now, &mut ended);
        for end in &ended[before..] {
            assert!(open.remove(&end.tag), "{} ended twice or was taken back", end.tag);
        }
        match step {
            Step::Submit(io) => {
                model.submit(now, io);
                open.insert(io.tag);
            }
            Step::Cancel(tag) => {
                let taken_back = model.cancel(now, tag);
                assert!(!taken_back || open.remove(&tag), "{tag} was not in flight");
                cancelled.extend(taken_back.then_some(tag));
            }
        }
        assert!(model.next_event().is_none_or(|event| event >= now), "an event in the past");
    }
    (cancelled, ended)
}

/// Plays every event up to and including `now`.
fn advance_to(model: &mut dyn Model, now: Nanos, ended: &mut Vec<Completion>) {
    while let Some(event) = model.next_event().filter(|&event| event <= now) {
        model.advance(event, ended);
    }
}

const ALL: [Op; 7] = [Op::Read, Op::Read, Op::Read, Op::Write, Op::Write, Op::Flush, Op::Discard];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Every I/O completes once unless it was cancelled, then never; and time does not go back.
    /// What is foreseen after all that is what happens.
    #[test]
    fn what_is_taken_back_never_completes(seed: u64) {
        for profile in ModelProfile::builtins() {
            let mut rng = Rng::new(seed);
            let load = any_load(&mut rng, &ALL, profile.capacity_bytes);
            let mut model = profile.build(seed);
            let (cancelled, mut ended) = drive(model.as_mut(), &load);
            let now = load.last().expect("it has steps").0;
            let io = DiskIo { tag: 1000, op: Op::Read, offset: 1 << 20, length: 4096 };
            let foreseen = model.completion_if_submitted(now, io);
            model.submit(now, io);
            advance_to(model.as_mut(), Nanos(u64::MAX - 1), &mut ended);
            prop_assert!(ended.is_sorted_by_key(|end| end.at), "{}", profile.name);
            let mut tags: Vec<u64> = ended.iter().map(|end| end.tag).collect();
            tags.sort_unstable();
            let expected = (0..150).chain([1000]).filter(|tag| !cancelled.contains(tag));
            prop_assert_eq!(tags, expected.collect::<Vec<_>>(), "{}", profile.name);
            let end = ended.iter().find(|end| end.tag == io.tag).expect("it completed");
            prop_assert_eq!(end.at, foreseen, "{}", profile.name);
        }
    }

    /// A disk that cannot abort what is in its own queue gives back only what waits in the host in
    /// the order of arrival, and a delay is nothing but such a queue: all the rest goes as if what
    /// was taken back had never come. (A flush is left out: it keeps others waiting while it is
    /// there.)
    #[test]
    fn what_waits_in_order_leaves_no_trace(seed: u64) {
        for profile in ModelProfile::builtins() {
            let profile = without_abort(profile);
            let mut rng = Rng::new(seed);
            let load = any_load(&mut rng, &[Op::Read, Op::Write], profile.capacity_bytes);
            let mut model = profile.build(seed);
            let (cancelled, mut ended) = drive(model.as_mut(), &load);
            advance_to(model.as_mut(), Nanos(u64::MAX - 1), &mut ended);
            let stays = |step: &Step| match step {
                Step::Submit(io) => !cancelled.contains(&io.tag),
                Step::Cancel(_) => false,
            };
            let rest: Vec<_> = load.iter().copied().filter(|(_, step)| stays(step)).collect();
            let mut reference = profile.build(seed);
            let (_, mut expected) = drive(reference.as_mut(), &rest);
            advance_to(reference.as_mut(), Nanos(u64::MAX - 1), &mut expected);
            prop_assert_eq!(ended, expected, "{} without {:?}", profile.name, cancelled);
        }
    }
}

fn without_abort(profile: ModelProfile) -> ModelProfile {
    match profile.kind {
        "hdd" => {
            let overrides = toml::Table::from_iter([("abort_queued".to_owned(), false.into())]);
            profile.with_overrides(overrides).expect("every hard disk has this parameter")
        }
        _ => profile,
    }
}

/// How many of 40 reads submitted at once can be taken back at once: those beyond the queue of the
/// disk, or all but the one being served where a single queued command can be taken back.
#[test]
fn each_profile_gives_back_what_its_kind_can() {
    let expected = |profile: &ModelProfile| {
        let aborts =
            profile.parameter_table().get("abort_queued").and_then(|value| value.as_bool());
        match profile.kind {
            "delay" => 39,
            _ if aborts == Some(true) => 39,
            _ => 40 - profile.queue_depth().min(40) as usize,
        }
    };
    let taken_back = |profile: &ModelProfile| {
        let mut model = profile.build(1);
        for tag in 0..40 {
            let io = DiskIo { tag, op: Op::Read, offset: (tag * 7919 % 40) << 30, length: 4096 };
            model.submit(Nanos(1), io);
        }
        (0..40).rev().filter(|&tag| model.cancel(Nanos(1), tag)).count()
    };
    for profile in ModelProfile::builtins() {
        assert_eq!(taken_back(&profile), expected(&profile), "{}", profile.name);
    }
    let named = |name| expected(&ModelProfile::builtin(name).unwrap());
    assert_eq!(["hdd-15k", "hdd-5k4", "nvme-tlc-ent"].map(named), [39, 8, 0]);
}
