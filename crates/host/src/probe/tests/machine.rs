//! The state machine alone: plans, stopping, failing reads, and devices that do not rotate.

use crate::probe::machine::{MachineAction, ProbedDevice, ReadEnd, RunningProbe};
use crate::probe::plan::{Budget, DeviceClass, planned_time};
use crate::probe::{ProbeOptions, probe_model};
use mirrorball_core::units::{GIB, Nanos};
use mirrorball_disk::profile::ModelProfile;

const SUBJECT: ProbedDevice =
    ProbedDevice { capacity_bytes: 100 * GIB, class: None, is_remote: false, may_rotate: false };

/// Runs a probe against a device that answers each read after `latency`, until `until`.
fn run(probe: &mut RunningProbe, latency: Nanos, until: Nanos, is_ok: bool) -> usize {
    let mut now = Nanos::ZERO;
    let mut in_flight: Vec<(Nanos, usize)> = Vec::new();
    let mut reads = 0;
    loop {
        match probe.poll(now) {
            MachineAction::Read { slot, read } => {
                assert!(read.offset + read.length <= SUBJECT.capacity_bytes, "{read:?}");
                in_flight.push((now + latency, slot));
                reads += 1;
                continue;
            }
            MachineAction::Finished => return reads,
            MachineAction::WaitUntil(at) if in_flight.is_empty() => now = at,
            MachineAction::WaitUntil(_) | MachineAction::Wait => {
                let (at, slot) = in_flight.remove(0);
                now = at;
                probe.complete(ReadEnd { slot, at, is_ok, is_blank: None });
            }
        }
        if now >= until {
            probe.stop();
        }
    }
}

#[test]
fn plans_fit_their_budgets() {
    for class in [DeviceClass::Hdd, DeviceClass::Ssd, DeviceClass::Network] {
        let quick = planned_time(class, Budget::Quick).as_secs_f64();
        let full = planned_time(class, Budget::Full).as_secs_f64();
        assert!(quick <= 60.0 && full <= 600.0, "{class:?}: {quick} s, {full} s");
    }
}

#[test]
fn the_time_that_is_left_is_that_of_the_longest_plan_until_the_class_is_known() {
    let most =
        |budget| planned_time(DeviceClass::Hdd, budget).max(planned_time(DeviceClass::Ssd, budget));
    for budget in [Budget::Quick, Budget::Full] {
        let mut probe = RunningProbe::new(SUBJECT, budget, 1);
        probe.poll(Nanos::ZERO);
        assert_eq!(probe.progress(Nanos::ZERO).remaining, most(budget));
    }
    let disk = ProbedDevice { class: Some(DeviceClass::Network), ..SUBJECT };
    let mut probe = RunningProbe::new(disk, Budget::Quick, 1);
    let planned = planned_time(DeviceClass::Network, Budget::Quick);
    probe.poll(Nanos::ZERO);
    assert_eq!(probe.progress(Nanos::ZERO).remaining, planned);
    let later = Nanos::from_millis(100);
    assert_eq!(probe.progress(later).remaining, planned.saturating_sub(later));
    let mut probe = RunningProbe::new(disk, Budget::Quick, 1);
    run(&mut probe, Nanos::from_micros(80), Nanos::MAX, true);
    assert_eq!(probe.progress(Nanos::from_secs(60)).remaining, Nanos::ZERO, "it has ended");
}

#[test]
fn a_stopped_probe_ends_with_what_it_has_and_names_the_rest() {
    let mut probe = RunningProbe::new(SUBJECT, Budget::Quick, 1);
    run(&mut probe, Nanos::from_micros(80), Nanos::from_secs(5), true);
    assert_eq!(probe.class(), Some(DeviceClass::Ssd));
    let recording = probe.into_recording();
    assert!(recording.step("random-qd1").is_some());
    assert!(recording.missing.contains(&"random-qd256"), "{:?}", recording.missing);
}

#[test]
fn an_empty_device_is_given_up_after_the_look_at_its_contents() {
    let mut probe = RunningProbe::new(SUBJECT, Budget::Quick, 1);
    let mut now = Nanos::ZERO;
    let mut blank = 0;
    loop {
        match probe.poll(now) {
            MachineAction::Read { slot, .. } => {
                now += Nanos::from_micros(80);
                let is_blank = probe.looks_at_contents().then_some(true);
                blank += usize::from(is_blank.is_some());
                probe.complete(ReadEnd { slot, at: now, is_ok: true, is_blank });
            }
            MachineAction::Finished => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(blank, 256);
    assert!(probe.into_recording().step("random-qd1").is_none());
}

#[test]
fn a_device_whose_reads_fail_is_given_up() {
    let mut probe = RunningProbe::new(SUBJECT, Budget::Quick, 1);
    let reads = run(&mut probe, Nanos::from_micros(80), Nanos::MAX, false);
    assert!(probe.has_failed() && reads < 30, "{reads}");
}

#[test]
fn equal_latencies_are_no_rotation_though_their_gaps_are_coherent() {
    let mut probe = RunningProbe::new(SUBJECT, Budget::Quick, 1);
    run(&mut probe, Nanos::from_millis(5), Nanos::from_secs(9), true);
    assert_eq!(probe.class(), Some(DeviceClass::Network));
    // The kernel says that it rotates: other programs hide its turns.
    let mut probe =
        RunningProbe::new(ProbedDevice { may_rotate: true, ..SUBJECT }, Budget::Quick, 1);
    run(&mut probe, Nanos::from_millis(5), Nanos::from_secs(9), true);
    assert_eq!(probe.class(), Some(DeviceClass::Hdd));
}

#[test]
fn a_profile_that_was_fitted_is_read_back_and_probes_alike() {
    let options = ProbeOptions { budget: Budget::Quick, class: None };
    let profile = ModelProfile::builtin("hdd-15k").unwrap();
    let first = probe_model(&profile, None, options).unwrap();
    let text = first.profile_text();
    assert_eq!(text, probe_model(&profile, None, options).unwrap().profile_text());
    let fitted = ModelProfile::parse(&text, "fitted").unwrap();
    assert!(fitted.rotational && fitted.capacity_bytes == profile.capacity_bytes);
    assert!(text.contains("rpm = 15000 "), "{text}");
}
