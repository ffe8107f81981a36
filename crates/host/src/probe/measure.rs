//! Probes a device or a model, from the first read to the profile.

use super::device::{self, HostCheck, ProbeControl};
use super::device_fit::{FitInput, one_device};
use super::fit::{Objections, fit_device};
use super::machine::{ProbedDevice, RunningProbe};
use super::outcome::ProbeOutcome;
use super::plan::{Budget, DeviceClass};
use super::recording::Recording;
use super::rotation;
use super::target::ProbeTarget;
use super::virtual_time::{self, HostCost};
use crate::detect::is_made_up;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{MIB, Nanos, format_bytes};
use mirrorball_disk::link::LinkParameters;
use mirrorball_disk::profile::ModelProfile;

/// Seed of the addresses that are read.
const PLAN_SEED: u64 = 7;
/// Seed of a model that is probed; others are used for fitting.
const PROBED_SEED: u64 = 0x5eed;
/// Time that the host adds to a read of a model that is probed, as in arrays without a `[host]`.
const MODEL_HOST: HostCost = HostCost {
    mean: Nanos::from_micros(15),
    deviation: Nanos::from_micros(2),
    request_bytes: None,
};
/// Bounds of the p99 of a host's lateness, as for emulated disks.
const LATE_ROTATIONAL: f64 = 500e-6;
const LATE_SOLID: f64 = 150e-6;
/// Share of a processor above which the host limits the rate.
const HOST_BOUND: f64 = 0.9;
/// Share of reads that others may do on the device.
const FOREIGN_MAX: f64 = 0.01;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeOptions {
    /// How much time to take.
    pub budget: Budget,
    /// The class of the device; found by timing if not given.
    pub class: Option<DeviceClass>,
}

/// Measures a device and fits a model to it. Fails if it cannot be read, or too little was measured
/// for a model.
pub fn probe_device(
    target: &ProbeTarget,
    options: ProbeOptions,
    control: ProbeControl<'_>,
) -> Result<ProbeOutcome, Diagnostic> {
    let facts = &target.facts;
    let subject = ProbedDevice {
        capacity_bytes: target.size_bytes,
        class: options.class,
        is_remote: facts.is_remote,
        // Virtual disks say that they rotate, too.
        may_rotate: facts.rotational == Some(true)
            && facts.model.as_ref().is_some_and(|model| !is_made_up(model)),
    };
    let mut probe = RunningProbe::new(subject, options.budget, PLAN_SEED);
    let host = device::run(&mut probe, target, control)?;
    let name = target.path.display().to_string();
    if probe.has_failed() {
        let error = Diagnostic::new(format!("too many reads of `{name}` failed"));
        return Err(error.with_help("look into the log of the kernel: the device may be failing"));
    }
    let class = probe.class().ok_or_else(stopped)?;
    let recording = probe.into_recording();
    let input = FitInput {
        recording: &recording,
        capacity_bytes: target.size_bytes,
        host: HostCost { request_bytes: target.facts.request_bytes, ..host.read_cost },
        queue_depth: target.facts.queue_depth,
    };
    let mut outcome = fit_device(&name, class, &input, objections(class, &host, &recording))?;
    outcome.notes.extend(notes(target, class, &host));
    Ok(outcome)
}

/// Measures a model in virtual time, as if it were a device whose parameters are not known, and
/// fits a model to it. Fails if too little was measured for a model.
pub fn probe_model(
    profile: &ModelProfile,
    link: Option<&LinkParameters>,
    options: ProbeOptions,
) -> Result<ProbeOutcome, Diagnostic> {
    let capacity_bytes = profile.capacity_bytes;
    let (class, is_remote) = (options.class, link.is_some());
    let subject = ProbedDevice { capacity_bytes, class, is_remote, may_rotate: false };
    let mut probe = RunningProbe::new(subject, options.budget, PLAN_SEED);
    let mut models = one_device(profile.build(PROBED_SEED), link, PROBED_SEED);
    virtual_time::run(&mut probe, &mut models, MODEL_HOST, PROBED_SEED);
    let class = probe.class().ok_or_else(stopped)?;
    let recording = probe.into_recording();
    let input =
        FitInput { recording: &recording, capacity_bytes, host: MODEL_HOST, queue_depth: None };
    fit_device(&profile.name, class, &input, Objections::default())
}

fn stopped() -> Diagnostic {
    let error = Diagnostic::new("stopped before the kind of the device was known");
    error.with_help("let the probe run for a few seconds at least")
}

/// Objections to any model of what was measured.
fn objections(class: DeviceClass, host: &HostCheck, recording: &Recording) -> Objections {
    let mut doubts = Vec::new();
    let (mut late, bound) = match class {
        DeviceClass::Hdd => (host.lateness_p99.as_secs_f64(), LATE_ROTATIONAL),
        DeviceClass::Ssd | DeviceClass::Network => (host.lateness_p99.as_secs_f64(), LATE_SOLID),
    };
    if let Some(step) = recording.step("revolution").filter(|_| class == DeviceClass::Hdd) {
        late = late.max(rotation::fit(step).lateness_p99);
    }
    let lateness = (late > bound).then(|| {
        let (late, bound) = (1e6 * late, 1e6 * bound);
        format!("the host was late by {late:.0} us in one of a hundred reads (bound {bound:.0} us)")
    });
    if host.processor_share > HOST_BOUND {
        let percent = 100.0 * host.processor_share;
        doubts
            .push(format!("the probe used {percent:.0} % of a processor, which limited the rate"));
    }
    if let Some(foreign) = host.foreign {
        let most = FOREIGN_MAX * host.reads as f64;
        if foreign.writes as f64 > most || foreign.reads as f64 > most {
            doubts.push(format!(
                "other programs used the device: {} reads, {} writes",
                foreign.reads.max(0),
                foreign.writes
            ));
        }
        if (foreign.reads as f64) < -most {
            doubts.push(format!("{} reads did not reach the device", -foreign.reads));
        }
    }
    let errors: u64 = recording.steps.iter().map(|step| step.errors).sum();
    if errors > 0 {
        doubts.push(format!("{errors} reads failed"));
    }
    Objections { doubts, lateness }
}

/// Facts of the kernel that matter for the reader of the profile.
fn notes(target: &ProbeTarget, class: DeviceClass, host: &HostCheck) -> Vec<String> {
    let facts = &target.facts;
    let mut notes = Vec::new();
    if let Some(model) = &facts.model {
        notes.push(format!("{} is a {model}", facts.name));
    }
    if let Some(scheduler) = facts.scheduler.as_ref().filter(|it| *it != "none") {
        notes.push(format!("queued reads went through the I/O scheduler {scheduler}"));
    }
    let rotates = class == DeviceClass::Hdd;
    if facts.rotational.is_some_and(|reported| reported != rotates) {
        let (reported, found) = match rotates {
            true => ("not rotational", "it rotates"),
            false => ("rotational", "it does not rotate"),
        };
        notes.push(format!("the kernel reports {} as {reported}, but {found}", facts.name));
    }
    if let Some(bytes) = facts.request_bytes.filter(|bytes| *bytes < MIB) {
        let size = format_bytes(bytes);
        notes.push(format!("the kernel splits reads above {size}, and so does the comparison"));
    }
    if facts.is_part {
        let unknown = if rotates { ": longer seeks are not known" } else { "" };
        notes.push(format!("only a part of the disk was read{unknown}"));
    }
    notes.extend(facts.uses.iter().map(|it| format!("in use: {it}")));
    notes.push(format!("host: {} a read subtracted", host.read_cost.mean));
    notes
}
