//! Fits the model of a solid-state disk.
//!
//! Closed forms: the page types, as the modes of the latencies with one read in flight; the link,
//! from large sequential reads; the channel, from what a read of a page takes longer than one of a
//! block. The simulator then finds the number of dies and how long a read holds its die, from reads
//! that meet on a die, and what a command holds the controller for, from the greatest rate.
//!
//! With one read in flight only the sum of die, firmware and controller shows; it is kept as
//! measured, and the search divides it.
//!
//! Not determined by reads: all that concerns writes, flushes and collection.

use super::device_fit::{DeviceFit, FitInput, class_default, complete, one_device, with_estimates};
use super::estimate::Notation::{self, Bytes, Count, Duration, Rate};
use super::estimate::ParameterEstimate;
use super::estimate::ValueOrigin::{Fitted, Measured};
use super::recording::StepRecord;
use super::replay::MODEL_SEED;
use super::search::{Search, SearchResult, Searched};
use super::statistics::{mean, quantile, sorted};
use super::workload_fit::RecordedWorkload;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{KIB, MIB, Nanos};
use mirrorball_disk::model::ModelParameters;
use mirrorball_disk::model_array::ModelArray;
use mirrorball_disk::ssd::SsdParameters;
use serde::Deserialize;

/// The keys of the profile, in their order.
const NAMES: [&str; 26] = [
    "dies", "page", "read", "page_types", "channel", "program_unit", "program", "suspend",
    "suspend_refused", "slc_cache", "slc_program", "slc_idle", "write_amplification", "copy_read",
    "erase", "collection_burst", "write_cache", "flush", "power_loss_protection", "flush_alone",
    "read_latency", "write_latency", "command", "link", "queue_depth", "read_ahead",
];
/// Rates up to this are those of SATA.
const SATA_RATE_MAX: f64 = 620e6;
/// The link of a drive whose large reads were not measured, because the probe was stopped: SATA.
const LINK_UNKNOWN: f64 = 560e6;
/// Number of dies from which the search begins.
const DIES: [f64; 13] =
    [4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 192.0, 256.0];
const QUEUE_DEPTHS: [u32; 5] = [8, 16, 32, 64, 1024];
/// Numbers of dies for which the other parameters are searched.
const CANDIDATES: usize = 3;
/// Factors around a number of dies at which the misfit is looked at.
const AROUND: [f64; 6] = [0.8, 0.9, 0.95, 1.05, 1.1, 1.25];
const EVALUATIONS: usize = 100;
const SEARCHED: [&str; 10] = [
    "random-qd1", "random-qd4", "random-qd8", "random-qd16", "random-qd32", "random-qd64",
    "random-qd256", "size-16k", "size-64k", "size-1m",
];
/// Growth of the misfit that tells two queue depths apart, in all and as a factor: the other
/// parameters are rough when depths are compared.
const DISTINCT: f64 = 4.0;
const DISTINCT_RATIO: f64 = 1.5;
/// Most page types that are distinguished.
const TYPES_MAX: usize = 4;
/// Two modes are this many times their width apart at least.
const SEPARATION: f64 = 4.0;
/// Block and page whose reads are compared.
const BLOCK: f64 = 4096.0;
const PAGE: f64 = 16384.0;

/// Results of the closed forms, in seconds and bytes per second.
struct ClosedForms {
    /// Latency of the fastest page type with one read in flight, without the host.
    fastest: f64,
    /// Addition of each page type.
    types: Vec<f64>,
    link: f64,
    link_interval: Option<(f64, f64)>,
    is_link_measured: bool,
    channel: Option<f64>,
    command: f64,
    has_read_ahead: bool,
}

/// The parameters of a solid-state disk.
pub(super) fn fit(input: &FitInput<'_>) -> Result<DeviceFit, Diagnostic> {
    refuse_empty(input)?;
    let forms = closed_forms(input)?;
    let name = if forms.link <= SATA_RATE_MAX { "ssd-sata-consumer" } else { "nvme-gen3" };
    let defaults = class_default(name)?;
    let mut estimates = closed_estimates(&forms, &defaults);
    let start = SsdParameters::deserialize(with_estimates(&defaults, &estimates)?)
        .map_err(|error| Diagnostic::new(format!("the fitted parameters make no disk: {error}")))?;
    start.check().map_err(Diagnostic::new)?;
    let start = fit_queue_depth(input, &forms, start, &mut estimates);
    search(input, &forms, &start, &mut estimates);
    let parameters = complete(&NAMES, estimates, &defaults);
    Ok(DeviceFit { kind: "ssd", parameters, link: None, notes: notes(input) })
}

/// Blocks that were never written are answered without reading any flash.
fn refuse_empty(input: &FitInput<'_>) -> Result<(), Diagnostic> {
    let Some(step) = input.recording.step("contents") else { return Ok(()) };
    if !step.blank.is_empty_device() {
        return Ok(());
    }
    let share = step.blank.blank as f64 / step.blank.checked as f64;
    let error = Diagnostic::new(format!(
        "the drive is empty: {:.0} % of its blocks hold a single byte value, and a solid-state \
         disk answers such reads without its flash",
        100.0 * share
    ));
    let help = "probe a drive, or a file on it, that was written long ago: recent data may be in \
                a fast cache";
    Err(error.with_help(help))
}

fn closed_forms(input: &FitInput<'_>) -> Result<ClosedForms, Diagnostic> {
    let step = |name: &str| {
        let error = || Diagnostic::new(format!("the step `{name}` was not measured"));
        input.recording.step(name).ok_or_else(error)
    };
    let host = input.host.mean.as_secs_f64();
    let single = sorted(&step("random-qd1")?.latencies());
    let modes = modes(&single);
    let fastest = (modes[0] - host).max(1e-6);
    let types: Vec<f64> = modes.iter().map(|mode| mode - modes[0]).collect();
    let large = |name: &str, bytes: u64| Some((input.recording.step(name)?, bytes as f64));
    let large = large("sequential-1m", MIB).or_else(|| large("size-128k", 128 * KIB));
    let link = large.map_or(LINK_UNKNOWN, |(step, bytes)| step.reads_per_second() * bytes);
    let deepest = input.recording.steps.iter().filter(|step| step.name.starts_with("random-qd"));
    let rate = deepest.map(StepRecord::reads_per_second).fold(0.0, f64::max);
    // A page has four blocks, and takes the time of its slowest.
    let slower = (0..1000).map(|it| (f64::from(it) + 0.5) / 1000.0);
    let slowest: Vec<f64> =
        slower.map(|at: f64| single[(at.powf(0.25) * single.len() as f64) as usize]).collect();
    let page = input.recording.step("size-16k").map(|step| mean(&step.latencies()));
    let slope = page.map(|page| (page - mean(&slowest)) / (PAGE - BLOCK) - 1.0 / link);
    let channel = slope.map(|slope| 1.0 / slope).filter(|rate| (50e6..10e9).contains(rate));
    let sequential = input.recording.step("sequential-4k").map(|step| mean(&step.latencies()));
    Ok(ClosedForms {
        fastest,
        types,
        link,
        link_interval: large.and_then(|(step, bytes)| {
            let (low, high) = step.reads_per_second_interval()?;
            Some((low * bytes, high * bytes))
        }),
        is_link_measured: large.is_some(),
        channel,
        command: (1.0 / rate.max(1.0) - BLOCK / link).clamp(50e-9, fastest / 2.0),
        has_read_ahead: sequential.is_some_and(|time| time < 0.6 * mean(&single)),
    })
}

/// The medians of the modes of sorted latencies. Page types are equally frequent, so modes are
/// equal shares of the reads; they count if each pair is further apart than the modes are wide.
fn modes(sorted: &[f64]) -> Vec<f64> {
    for count in (2..=TYPES_MAX).rev() {
        let shares: Vec<&[f64]> = sorted.chunks(sorted.len().div_ceil(count)).collect();
        let at = |share: &[f64], fraction: f64| share[(fraction * share.len() as f64) as usize];
        let width = |share: &&[f64]| at(share, 0.85) - at(share, 0.15);
        let widest = shares.iter().map(width).fold(0.0, f64::max);
        let medians: Vec<f64> = shares.iter().map(|share| at(share, 0.5)).collect();
        let are_apart = medians.windows(2).all(|pair| pair[1] - pair[0] > SEPARATION * widest);
        if shares.len() == count && are_apart {
            return medians;
        }
    }
    vec![quantile(sorted, 0.5)]
}

fn closed_estimates(forms: &ClosedForms, defaults: &toml::Table) -> Vec<ParameterEstimate> {
    let types: Vec<String> = forms.types.iter().map(|it| Duration.write(*it)).collect();
    let mut estimates = vec![ParameterEstimate {
        text: format!("[{}]", types.join(", ")),
        ..ParameterEstimate::new("page_types", Duration, Measured, 0.0, None)
    }];
    let link = ParameterEstimate::new("link", Rate, Measured, forms.link, forms.link_interval);
    estimates.push(match forms.is_link_measured {
        true => link,
        false => ParameterEstimate::assumed("link", link.text),
    });
    if !forms.has_read_ahead {
        estimates.push(ParameterEstimate::new("read_ahead", Bytes, Measured, 0.0, None));
    } else if let Some(size) = defaults.get("read_ahead") {
        let estimate = ParameterEstimate::assumed("read_ahead", size.to_string());
        estimates.push(estimate.noted("it reads ahead; how far is not known"));
    }
    estimates
}

/// The parameters with their searched values: dies, share of the single read that holds the die,
/// command, channel and link.
fn with_values(start: &SsdParameters, forms: &ClosedForms, values: &[f64]) -> SsdParameters {
    let [dies, share, command, channel, link] =
        [values[0], values[1], values[2], values[3], values[4]];
    let rest = forms.fastest - command - BLOCK / link;
    let hold = (share * rest).max(BLOCK / channel + 1e-7);
    SsdParameters {
        dies: (dies.round() as u32).max(1),
        read: Nanos::from_secs_f64(hold - BLOCK / channel),
        read_latency: Nanos::from_secs_f64((rest - hold).max(0.0)),
        command: Nanos::from_secs_f64(command),
        channel: channel as u64,
        link: link as u64,
        ..start.clone()
    }
}

fn start_values(forms: &ClosedForms, start: &SsdParameters, dies: f64) -> [f64; 5] {
    let channel = forms.channel.unwrap_or(start.channel as f64);
    [dies, 0.85, forms.command, channel, forms.link]
}

/// A search of the other parameters with one number of dies.
struct DiesSearch<'a> {
    input: &'a FitInput<'a>,
    forms: &'a ClosedForms,
    start: &'a SsdParameters,
    workloads: &'a [RecordedWorkload<'a>],
    dies: f64,
}

impl DiesSearch<'_> {
    fn least(&self) -> f64 {
        self.search().least(&self.parameters(), EVALUATIONS / 3)
    }

    /// The best values, in the order of [`with_values`].
    fn run(&self) -> Vec<SearchResult> {
        let mut found = vec![SearchResult { value: self.dies, interval: None, at_least: None }];
        found.extend(self.search().run(&self.parameters(), EVALUATIONS));
        found
    }

    fn search(&self) -> Search<'_, impl Fn(&[f64]) -> ModelArray> {
        let build = |values: &[f64]| {
            let values = [&[self.dies], values].concat();
            model(self.input, &with_values(self.start, self.forms, &values))
        };
        Search { workloads: self.workloads, host: self.input.host, build }
    }

    /// Share of the hold, command, channel and link. What closed forms gave moves little.
    fn parameters(&self) -> [Searched; 4] {
        let [_, share, command, channel, link] = start_values(self.forms, self.start, self.dies);
        let searched = |start, deviation, bounds| Searched { start, deviation, bounds };
        [
            searched(share, 0.2, (0.2, 0.999)),
            searched(command, 0.2, (2e-8, 2.0 * command + 1e-6)),
            searched(channel, 0.3, (5e7, 2e10)),
            searched(link, 0.02, (0.8 * link, 1.3 * link)),
        ]
    }
}

/// The number of dies with its interval: the numbers around it that fit as well. One that fits
/// clearly better takes its place.
fn refine_dies(
    search: &Search<'_, impl Fn(&[f64]) -> ModelArray>,
    found: &[SearchResult],
    misfit: f64,
) -> SearchResult {
    let values: Vec<f64> = found.iter().map(|found| found.value).collect();
    let dies = values[0];
    let misfit_at = |number: f64| {
        let mut values = values.clone();
        values[0] = number.round().max(1.0);
        (values[0], search.misfit(&values))
    };
    let around = AROUND.map(|factor| misfit_at(dies * factor));
    let best = around.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
    let (value, least) = match best {
        Some((number, least)) if least < misfit - 2.0 * DISTINCT => (number, least),
        _ => (dies, misfit),
    };
    let alike = |it: &&(f64, f64)| it.1 < least + DISTINCT;
    let low = around.iter().filter(alike).map(|it| it.0).fold(value, f64::min);
    let high = around.iter().filter(alike).map(|it| it.0).fold(value, f64::max);
    let is_open = high >= (dies * AROUND[AROUND.len() - 1]).round();
    match is_open {
        true => SearchResult { value, interval: None, at_least: Some(low) },
        false => SearchResult { value, interval: Some((low, high)), at_least: None },
    }
}

/// How many commands the drive takes at once: what the kernel says, else what the rates at depth
/// show.
fn fit_queue_depth(
    input: &FitInput<'_>,
    forms: &ClosedForms,
    start: SsdParameters,
    estimates: &mut Vec<ParameterEstimate>,
) -> SsdParameters {
    if let Some(queue_depth) = input.queue_depth {
        let depth = f64::from(queue_depth);
        estimates.push(
            ParameterEstimate::new("queue_depth", Count, Measured, depth, None)
                .noted("as the kernel reports it"),
        );
        return SsdParameters { queue_depth, ..start };
    }
    let shallow = ["random-qd4", "random-qd8"];
    let workloads = input.workloads(|name| shallow.contains(&name));
    let build = |values: &[f64]| model(input, &with_values(&start, forms, values));
    let search = Search { workloads: &workloads, host: input.host, build };
    let misfits = DIES.map(|dies| (dies, search.misfit(&start_values(forms, &start, dies))));
    let best = misfits.into_iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let dies = best.map_or(32.0, |best| best.0);
    let workloads = input.workloads(|name| name.starts_with("random-qd"));
    let misfits = QUEUE_DEPTHS.map(|queue_depth| {
        let start = SsdParameters { queue_depth, ..start.clone() };
        let build = |values: &[f64]| model(input, &with_values(&start, forms, values));
        let search = Search { workloads: &workloads, host: input.host, build };
        (queue_depth, search.misfit(&start_values(forms, &start, dies)))
    });
    let least = misfits.iter().map(|it| it.1).fold(f64::MAX, f64::min);
    let alike = misfits.iter().filter(|it| it.1 < least * DISTINCT_RATIO + DISTINCT).count();
    let best = misfits.iter().find(|it| it.1 == least).map_or(start.queue_depth, |it| it.0);
    let is_known = alike == 1 && best < QUEUE_DEPTHS[QUEUE_DEPTHS.len() - 1];
    let queue_depth = if is_known { best } else { start.queue_depth.max(best) };
    let depth = ParameterEstimate::new("queue_depth", Count, Fitted, f64::from(queue_depth), None);
    estimates.push(match is_known {
        true => depth,
        false => ParameterEstimate::assumed("queue_depth", queue_depth.to_string()),
    });
    SsdParameters { queue_depth, ..start }
}

fn model(input: &FitInput<'_>, parameters: &SsdParameters) -> ModelArray {
    one_device(parameters.build(input.capacity_bytes, MODEL_SEED), None, MODEL_SEED)
}

fn search(
    input: &FitInput<'_>,
    forms: &ClosedForms,
    start: &SsdParameters,
    estimates: &mut Vec<ParameterEstimate>,
) {
    let workloads = input.workloads(|name| SEARCHED.contains(&name));
    let build = |values: &[f64]| model(input, &with_values(start, forms, values));
    let search = Search { workloads: &workloads, host: input.host, build };
    let mut rough = DIES.map(|dies| (dies, search.misfit(&start_values(forms, start, dies))));
    rough.sort_by(|a, b| a.1.total_cmp(&b.1));
    let of = |dies: f64| DiesSearch { input, forms, start, workloads: &workloads, dies };
    let likely = rough[..CANDIDATES].iter().map(|(dies, _)| (*dies, of(*dies).least()));
    let dies = likely.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(DIES[0], |best| best.0);
    let mut found = of(dies).run();
    let values: Vec<f64> = found.iter().map(|found| found.value).collect();
    let misfit = search.misfit(&values);
    found[0] = refine_dies(&search, &found, misfit);
    let values: Vec<f64> = found.iter().map(|found| found.value).collect();
    let fitted = with_values(start, forms, &values);
    let dies = SearchResult { value: f64::from(fitted.dies), ..found[0] };
    push(estimates, "dies", Count, &dies);
    let scale = |of: f64| of / values[1] * fitted.read.as_secs_f64();
    let read = found[1].interval.map(|(low, high)| (scale(low), scale(high)));
    let read = SearchResult { value: fitted.read.as_secs_f64(), interval: read, at_least: None };
    push(estimates, "read", Duration, &read);
    let latency = SearchResult { value: fitted.read_latency.as_secs_f64(), interval: None, ..read };
    push(estimates, "read_latency", Duration, &latency);
    push(estimates, "command", Duration, &found[2]);
    push(estimates, "channel", Rate, &found[3]);
    if found[4].interval.is_some() {
        estimates.retain(|estimate| estimate.name != "link");
        push(estimates, "link", Rate, &found[4]);
    }
}

/// A value of the search. One that is not identified stands in the profile all the same, because
/// the others were found with it.
fn push(
    estimates: &mut Vec<ParameterEstimate>,
    name: &'static str,
    notation: Notation,
    found: &SearchResult,
) {
    let mut estimate = ParameterEstimate::new(name, notation, Fitted, found.value, found.interval);
    if found.interval.is_none() && name != "read_latency" {
        estimate = ParameterEstimate::assumed(name, estimate.text);
        if let Some(least) = found.at_least {
            estimate.note = format!("at least {}", notation.write(least).trim_matches('"'));
        }
    }
    estimates.push(estimate);
}

/// Findings of idling and of the tail: no parameter of the model.
fn notes(input: &FitInput<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let single = input.recording.step("random-qd1").map(StepRecord::latencies).unwrap_or_default();
    if let Some(step) = input.recording.step("idle") {
        let first: Vec<f64> = step
            .samples
            .iter()
            .filter(|it| it.read.pause > Nanos::ZERO)
            .map(|it| it.latency())
            .collect();
        let extra = mean(&first) - mean(&single);
        if extra > 0.2 * mean(&single) {
            notes.push(format!(
                "the first read after 2 s of idling takes {:.0} us more",
                1e6 * extra
            ));
        }
    }
    let beyond = 3.0 * quantile(&single, 0.5);
    let slow = single.iter().filter(|latency| **latency > beyond).count();
    notes.push(match slow {
        0 => format!("no read of {} took three times the median", single.len()),
        slow => format!("{slow} of {} reads took three times the median or more", single.len()),
    });
    if let Some(step) = input.recording.step("contents").filter(|step| step.blank.checked == 0) {
        notes.push(format!("the contents of {} blocks were not looked at", step.samples.len()));
    }
    notes
}
