//! Fits a device of any class, compares the model with what was measured, and judges it.

use super::device_fit::{DeviceFit, FitInput, compared, one_device};
use super::outcome::{ProbeOutcome, ProbeVerdict};
use super::plan::DeviceClass;
use super::replay::MODEL_SEED;
use super::workload_fit::{RecordedWorkload, WorkloadFit};
use super::{hdd, network, ssd};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_disk::profile::ModelProfile;

/// Largest demerit of a good model, as a fraction of the mean.
const GOOD: f64 = 0.05;
/// Largest demerit of a model that ranks policies.
const USABLE: f64 = 0.15;
/// The same where the host was late, which spreads what is measured: such a model of a hard disk
/// still is one of it, and what would stand for it is guessed.
const USABLE_LATE: f64 = 0.3;
/// The workload that is shown and not judged: which of several streams a disk leaves first depends
/// on skews that no read of the probe shows, and on how far it reads ahead.
const NOT_JUDGED: &str = "streams+random";
/// A model within this multiple of the floor is good, whatever its demerit.
const FLOORS: f64 = 2.0;

/// Reasons against a model that its distance from what was measured does not show.
#[derive(Debug, Default)]
pub(super) struct Objections {
    /// Reasons against any model.
    pub(super) doubts: Vec<String>,
    /// The lateness of the host, if it is above its bound.
    pub(super) lateness: Option<String>,
}

/// Fits a device of this class. Fails if what was measured does not suffice for a model.
pub(super) fn fit_device(
    target: &str,
    class: DeviceClass,
    input: &FitInput<'_>,
    objections: Objections,
) -> Result<ProbeOutcome, Diagnostic> {
    let fitted = match class {
        DeviceClass::Hdd => hdd::fit(input)?,
        DeviceClass::Ssd => ssd::fit(input)?,
        DeviceClass::Network => network::fit(input)?,
    };
    let DeviceFit { kind, parameters, link, notes } = fitted;
    let mut outcome = ProbeOutcome {
        target: target.to_owned(),
        class,
        capacity_bytes: input.capacity_bytes,
        parameters,
        workloads: Vec::new(),
        verdict: ProbeVerdict::Good,
        notes,
        missing: input.recording.missing.clone(),
        kind,
        link,
    };
    let profile = ModelProfile::parse(&outcome.profile_text(), "the fitted profile")?;
    let compare = |workload: RecordedWorkload<'_>| {
        let build = || one_device(profile.build(MODEL_SEED), outcome.link.as_ref(), MODEL_SEED);
        workload.compare(build, input.capacity_bytes, input.host)
    };
    outcome.workloads = compared(input.recording).into_iter().map(compare).collect();
    outcome.verdict = judge(&outcome.workloads, &outcome.missing, objections);
    let not_judged = outcome.workloads.iter().find(|workload| workload.name == NOT_JUDGED);
    if let Some(off) = not_judged.map(WorkloadFit::iops_error).filter(|off| off.abs() > GOOD) {
        let note = format!(
            "{NOT_JUDGED}: the rate of the model is off by {:+.0} %; it depends on the skew, which \
             is not measured, and on the length of the read-ahead",
            100.0 * off
        );
        outcome.notes.push(note);
    }
    Ok(outcome)
}

fn judge(
    workloads: &[WorkloadFit],
    missing: &[&str],
    Objections { mut doubts, lateness }: Objections,
) -> ProbeVerdict {
    let mut off = Vec::new();
    let usable = if lateness.is_some() { USABLE_LATE } else { USABLE };
    for workload in workloads.iter().filter(|workload| workload.name != NOT_JUDGED) {
        let demerit = workload.demerit_of_mean();
        let floor = FLOORS * workload.floor_of_mean();
        let text = || format!("{} is off by {:.1} % of its mean", workload.name, 100.0 * demerit);
        if demerit > usable.max(floor) {
            doubts.push(text());
        } else if demerit > usable {
            // Noise is no proof that the model is right.
            off.push(text() + ", and its reads vary too much to tell why");
        } else if demerit > GOOD.max(floor) {
            off.push(text());
        }
    }
    if !missing.is_empty() {
        let reasons = if doubts.is_empty() { &mut off } else { &mut doubts };
        reasons.push(format!("not measured: {}", missing.join(", ")));
    }
    let reasons = |rest| lateness.iter().cloned().chain(rest).collect();
    match (doubts.is_empty(), off.is_empty()) {
        (false, _) => ProbeVerdict::Doubtful(reasons(doubts)),
        (true, _) if lateness.is_some() => ProbeVerdict::Late(reasons(off)),
        (true, false) => ProbeVerdict::UsableForRanking(off),
        (true, true) => ProbeVerdict::Good,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict over one workload with this demerit and floor, in fractions of its mean.
    fn verdict(name: &'static str, demerit_seconds: f64, floor_seconds: f64) -> String {
        verdict_of((name, demerit_seconds, floor_seconds), None)
    }

    fn verdict_of(
        (name, demerit_seconds, floor_seconds): (&'static str, f64, f64),
        lateness: Option<String>,
    ) -> String {
        let workload = WorkloadFit {
            name,
            is_held_out: false,
            reads: 1,
            mean_seconds: 1.0,
            model_mean_seconds: 1.0,
            iops: 1.0,
            model_iops: 1.0,
            demerit_seconds,
            floor_seconds,
            distributions: (Vec::new(), Vec::new()),
        };
        let verdict = judge(&[workload], &[], Objections { doubts: Vec::new(), lateness });
        serde_json::to_value(verdict).unwrap()["verdict"].as_str().unwrap().to_owned()
    }

    #[test]
    fn noise_excuses_a_model_up_to_a_bound() {
        assert_eq!(verdict("random-qd1", 0.04, 0.0), "good");
        assert_eq!(verdict("random-qd1", 0.08, 0.0), "usable-for-ranking");
        assert_eq!(verdict("random-qd1", 0.08, 0.05), "good");
        assert_eq!(verdict("random-qd1", 0.3, 0.05), "doubtful");
        assert_eq!(verdict("random-qd1", 0.3, 0.2), "usable-for-ranking", "not good by its noise");
        assert_eq!(verdict(NOT_JUDGED, 0.3, 0.0), "good");
    }

    #[test]
    fn a_late_host_excuses_more() {
        let late = |demerit| verdict_of(("streams", demerit, 0.05), Some("late".to_owned()));
        assert_eq!([late(0.2), late(0.35)], ["late", "doubtful"]);
    }

    #[test]
    fn steps_that_are_missing_are_named_whatever_else_is_wrong() {
        let missing = "not measured: zones, streams";
        let of = |doubts: &[&str], lateness: Option<&str>| {
            let doubts = doubts.iter().map(ToString::to_string).collect();
            let objections = Objections { doubts, lateness: lateness.map(str::to_owned) };
            judge(&[], &["zones", "streams"], objections)
        };
        let words = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (late, used) = ("the host was late", "other programs used the device");
        assert_eq!(of(&[], None), ProbeVerdict::UsableForRanking(words(&[missing])));
        assert_eq!(of(&[], Some(late)), ProbeVerdict::Late(words(&[late, missing])));
        let doubtful = ProbeVerdict::Doubtful(words(&[late, used, missing]));
        assert_eq!(of(&[used], Some(late)), doubtful);
    }
}
