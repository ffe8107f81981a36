//! Fits the model of a hard disk.
//!
//! Closed forms first: the revolution, the rates, the seek curve, the command overhead and the
//! interface rate from reads that the cache answers, the number of cache segments from streams. The
//! simulator then finds how many commands the disk reorders and how far it reads ahead, from the
//! deeper queues and the streams.
//!
//! Not determined by reads: surfaces, skews and the size of a track (only their product shows, in
//! the rates), and all that concerns writes.

use super::cached_reads::{self, CacheContext, CachedReads};
use super::device_fit::{DeviceFit, FitInput, class_default, complete, one_device, with_estimates};
use super::estimate::Notation::{self, Bytes, Count, Duration, Fraction, Rate};
use super::estimate::ParameterEstimate;
use super::estimate::ValueOrigin::{self, Fitted, Measured};
use super::plan::SEGMENT_SHORT;
use super::recording::{Recording, StepRecord};
use super::replay::MODEL_SEED;
use super::rotation::{self, RotationFit};
use super::search::{Search, SearchResult, Searched};
use super::seeks::{self, Jumps, SeekFit};
use super::zones::{self, ZoneFit};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{KIB, MIB, Nanos};
use mirrorball_disk::hdd::HddParameters;
use mirrorball_disk::model::ModelParameters;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The keys of the profile, in their order.
const NAMES: [&str; 26] = [
    "rpm", "surfaces", "zones", "outer_rate", "inner_rate", "seek_track", "seek_points",
    "head_switch", "write_settle", "command_overhead", "interface_rate", "queue_depth",
    "age_limit", "segments", "segment_size", "read_ahead", "write_cache", "media_cache", "band",
    "write_window", "idle_delay", "flush_overhead", "queued_flush", "recovery_probability",
    "recovery_min", "recovery_max",
];
/// Reads shorter than this share of a revolution were answered by the cache.
const HIT: f64 = 0.12;
/// Streams that are few enough for every cache: those of the first two groups.
const FEW_STREAMS: usize = 6;
/// Length of their reads. How far the disk reads ahead of them shows in whole reads.
const STREAM_READ: u64 = 64 * KIB;
const QUEUE_DEPTHS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Evaluations of the simulator for the parameters that are searched together.
const EVALUATIONS: usize = 40;
/// Growth of the misfit that tells two queue depths apart.
const DISTINCT: f64 = 4.0;

struct ClosedForms {
    rotation: RotationFit,
    zones: ZoneFit,
    seeks: SeekFit,
    cached: CachedReads,
    segments: Option<usize>,
    /// Size of a segment that was filled, and of the next larger that was not.
    segment_size: Option<(f64, f64)>,
    recoveries: Option<Recoveries>,
}

/// Reads that took longer than the mechanism explains.
struct Recoveries {
    count: usize,
    reads: usize,
    least: f64,
    most: f64,
}

/// The parameters of a hard disk.
pub(super) fn fit(input: &FitInput<'_>) -> Result<DeviceFit, Diagnostic> {
    let rotation = need(input.recording, "revolution").map(rotation::fit)?;
    let defaults = class_defaults(rotation.period)?;
    let forms = closed_forms(input, rotation, &defaults)?;
    let mut estimates = closed_estimates(&forms, &defaults);
    let start = parameters(&with_estimates(&defaults, &estimates)?)?;
    start.check().map_err(Diagnostic::new)?;
    let mut notes = Vec::new();
    let queue_depth = fit_queue_depth(input, &start, &mut estimates);
    let start = HddParameters { queue_depth, ..start };
    fit_rest(input, &start, &mut estimates);
    if forms.rotation.cached_share > 0.0 {
        let share = 100.0 * forms.rotation.cached_share;
        notes.push(format!("{share:.0} % of the repeated reads were answered by a cache"));
    }
    if forms.cached.overhead.is_none() {
        notes.push("no cached read was seen: `command_overhead` is part of the seeks".to_owned());
    }
    if forms.recoveries.is_none() {
        let reads = single_reads(input.recording).len();
        let most = 100.0 * 3.0 / reads.max(1) as f64;
        notes.push(format!("no recovery in {reads} reads: fewer than {most:.2} % meet one"));
    }
    let parameters = complete(&NAMES, estimates, &defaults);
    Ok(DeviceFit { kind: "hdd", parameters, link: None, notes })
}

fn need<'a>(recording: &'a Recording, name: &str) -> Result<&'a StepRecord, Diagnostic> {
    recording.step(name).ok_or_else(|| {
        let error = Diagnostic::new(format!("the step `{name}` was not measured"));
        error.with_help("let the probe run longer: without it there is no model")
    })
}

/// The profile of the class that the time of a revolution suggests.
fn class_defaults(period: f64) -> Result<toml::Table, Diagnostic> {
    let name = match 60.0 / period {
        rpm if rpm > 9_000.0 => "hdd-15k",
        rpm if rpm < 6_500.0 => "hdd-5k4-4tb",
        _ => "hdd-7k2-4tb",
    };
    let mut table = class_default(name)?;
    for key in ["seek_average", "seek_full"] {
        table.remove(key);
    }
    Ok(table)
}

fn parameters(table: &toml::Table) -> Result<HddParameters, Diagnostic> {
    HddParameters::deserialize(table.clone())
        .map_err(|error| Diagnostic::new(format!("the fitted parameters make no disk: {error}")))
}

fn closed_forms(
    input: &FitInput<'_>,
    rotation: RotationFit,
    defaults: &toml::Table,
) -> Result<ClosedForms, Diagnostic> {
    let few = || Diagnostic::new("too few reads to fit a hard disk");
    let zones = zones::fit(need(input.recording, "zones")?, input.capacity_bytes);
    let zones = zones.ok_or_else(few)?;
    let host = input.host.mean.as_secs_f64();
    let step = |name: &str| input.recording.step(name);
    let cached = (step("cached-4k"), step("cached-256k"));
    let assumed_rate = rate(defaults, "interface_rate");
    let context = CacheContext { revolution: rotation.period, host, assumed_rate };
    let cached = cached_reads::fit(cached.0, cached.1, context);
    let assumed = duration(defaults, "command_overhead");
    let block = 4096.0 / zones.tracks.rate(0.5);
    let constant = host + cached.overhead.map_or(assumed, |overhead| overhead.0) + block;
    let random = need(input.recording, "random-qd1")?;
    let mut jumps = Jumps::default();
    jumps.add(random, &zones.tracks, input.capacity_bytes, constant);
    if let Some(step) = input.recording.step("seek") {
        jumps.add(step, &zones.tracks, input.capacity_bytes, constant);
    }
    let seeks = seeks::fit(&jumps, rotation.period).ok_or_else(few)?;
    let segments = input.recording.step("streams").and_then(|it| segments(it, rotation.period));
    let segment_size =
        input.recording.step("segment").and_then(|it| segment_size(it, rotation.period));
    let longest = seeks.points.last().map_or(0.0, |point| point.1);
    let over = constant + longest + 1.1 * rotation.period;
    let recoveries = recoveries(&single_reads(input.recording), over, &rotation);
    Ok(ClosedForms { rotation, zones, seeks, cached, segments, segment_size, recoveries })
}

/// The most interleaved streams whose reads the cache still answers.
fn segments(step: &StepRecord, period: f64) -> Option<usize> {
    // A group begins where the offsets leave all streams of the one before.
    let mut best = None;
    let mut seen: Vec<u64> = Vec::new();
    let (mut later, mut hits, mut streams) = (0, 0, 0);
    let mut close = |streams: usize, later: usize, hits: usize| {
        if streams > 1 && later > 0 && hits * 10 >= later * 3 {
            best = best.max(Some(streams));
        }
    };
    for sample in &step.samples {
        let continues = seen.contains(&sample.read.offset);
        if !continues && later > 0 {
            close(streams, later, hits);
            seen.clear();
            (later, hits, streams) = (0, 0, 0);
        }
        if continues {
            later += 1;
            hits += usize::from(sample.latency() < HIT * period);
        } else {
            streams += 1;
        }
        seen.push(sample.read.offset + sample.read.length);
    }
    close(streams, later, hits);
    best
}

/// How far the disk reads ahead of a few interleaved streams: the bytes that the cache answers for
/// each read that it does not.
fn read_ahead(step: &StepRecord, revolution: Nanos) -> Option<f64> {
    let period = revolution.as_secs_f64();
    let (mut hits, mut misses) = (0, 0);
    let mut ends: Vec<(u64, usize)> = Vec::new();
    for sample in &step.samples {
        let begin = sample.read.offset;
        let end = begin + sample.read.length;
        match ends.iter().position(|(end, _)| *end == begin) {
            Some(stream) => {
                let (at, round) = &mut ends[stream];
                (*at, *round) = (end, *round + 1);
                // The disk notices a stream at its second read.
                if *round >= 2 {
                    let is_hit = sample.latency() < HIT * period;
                    (hits, misses) = (hits + u64::from(is_hit), misses + u64::from(!is_hit));
                }
            }
            None if ends.len() >= FEW_STREAMS => break,
            None => ends.push((end, 0)),
        }
    }
    (hits > 0 && misses > 0).then(|| hits as f64 / misses as f64 * STREAM_READ as f64)
}

/// The longest stretch that the disk had read ahead after a pause, and the next one that was tried.
/// A stretch counts if most reads at its end were answered by the cache.
fn segment_size(step: &StepRecord, period: f64) -> Option<(f64, f64)> {
    let mut by_length: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
    for pair in step.samples.chunks_exact(2) {
        let length =
            (pair[1].read.offset + pair[1].read.length).saturating_sub(pair[0].read.offset);
        let (hits, all) = by_length.entry(length).or_default();
        *hits += usize::from(pair[1].latency() < HIT * period);
        *all += 1;
    }
    let is_held = |(hits, all): &(usize, usize)| 2 * hits > *all;
    let lengths: Vec<(u64, bool)> =
        by_length.iter().map(|(length, counts)| (*length, is_held(counts))).collect();
    let held = lengths.iter().rposition(|(_, is_held)| *is_held)?;
    let next = lengths.get(held + 1).map_or(2 * lengths[held].0, |(length, _)| *length);
    let size = |length: u64| (length + SEGMENT_SHORT) as f64;
    Some((size(lengths[held].0), size(next)))
}

/// Latencies of all reads of one block with one in flight that parameters may be fitted to.
fn single_reads(recording: &Recording) -> Vec<f64> {
    let names = ["glance", "revolution", "random-qd1", "seek"];
    let steps = recording.steps.iter().filter(|step| names.contains(&step.name));
    steps.flat_map(StepRecord::latencies).collect()
}

fn recoveries(reads: &[f64], longest: f64, rotation: &RotationFit) -> Option<Recoveries> {
    let over: Vec<f64> = reads.iter().copied().filter(|latency| *latency > longest).collect();
    // What lies beyond is a recovery and some wait; half a longest access is its mean.
    let extra = |latency: f64| (latency - longest / 2.0).max(rotation.period);
    (over.len() >= 3).then(|| Recoveries {
        count: over.len(),
        reads: reads.len(),
        least: over.iter().copied().map(extra).fold(f64::MAX, f64::min),
        most: over.iter().copied().map(extra).fold(0.0, f64::max),
    })
}

fn closed_estimates(forms: &ClosedForms, defaults: &toml::Table) -> Vec<ParameterEstimate> {
    let measured = |name, notation: Notation, value, interval| {
        ParameterEstimate::new(name, notation, Measured, value, interval)
    };
    let rpm = |period: f64| 60.0 / period;
    let turning = forms.rotation.interval.map(|(low, high)| (rpm(high), rpm(low)));
    // The line is that of the edges; a profile has the rates of the middles of its edge zones.
    let zones = defaults.get("zones").and_then(toml::Value::as_integer).unwrap_or(32) as f64;
    let step = (forms.zones.tracks.inner - forms.zones.tracks.outer) / 2.0 / zones;
    let moved = |interval: Option<(f64, f64)>, by: f64| interval.map(|(l, h)| (l + by, h + by));
    let mut estimates = vec![
        measured("rpm", Count, rpm(forms.rotation.period), turning),
        measured(
            "outer_rate",
            Rate,
            forms.zones.tracks.outer + step,
            moved(forms.zones.outer_interval, step),
        ),
        measured(
            "inner_rate",
            Rate,
            forms.zones.tracks.inner - step,
            moved(forms.zones.inner_interval, -step),
        ),
        measured("seek_track", Duration, forms.seeks.track, forms.seeks.track_interval),
        seek_points(&forms.seeks),
    ];
    let track = &mut estimates[3];
    if !forms.seeks.is_track_measured {
        track.note = "extrapolated from the shortest seeks".to_owned();
    }
    let as_track = track.text.clone();
    let head_switch = ParameterEstimate::assumed("head_switch", as_track);
    estimates.push(head_switch.noted("as the track seek"));
    if let Some((overhead, interval)) = forms.cached.overhead {
        estimates.push(measured("command_overhead", Duration, overhead, interval));
    }
    if let Some((rate, interval)) = forms.cached.rate {
        estimates.push(measured("interface_rate", Rate, rate, interval));
    }
    if let Some(segments) = forms.segments {
        let interval = Some((segments as f64, 2.0 * segments as f64 - 1.0));
        estimates.push(measured("segments", Count, segments as f64, interval));
    }
    if let Some((size, next)) = forms.segment_size {
        let interval = Some((size, next));
        estimates.push(measured("segment_size", Bytes, size, interval));
    }
    if let Some(recoveries) = &forms.recoveries {
        let share = recoveries.count as f64 / recoveries.reads as f64;
        let spread = 2.0 * (recoveries.count as f64).sqrt() / recoveries.reads as f64;
        let interval = Some(((share - spread).max(0.0), share + spread));
        estimates.push(measured("recovery_probability", Fraction, share, interval));
        let seen = format!("of {} that were seen", recoveries.count);
        let least = measured("recovery_min", Duration, recoveries.least, None);
        estimates.push(least.noted(format!("the shortest {seen}")));
        let most = measured("recovery_max", Duration, recoveries.most, None);
        estimates.push(most.noted(format!("the longest {seen}")));
    }
    estimates
}

fn seek_points(seeks: &SeekFit) -> ParameterEstimate {
    let point = |&(at, time): &(f64, f64)| format!("[{at:?}, {}]", Duration.write(time));
    let points: Vec<String> = seeks.points.iter().map(point).collect();
    let ms = |seconds: f64| format!("{:.2}", 1e3 * seconds);
    let interval = seeks.interval.map(|(low, high)| format!(", {} to {}", ms(low), ms(high)));
    ParameterEstimate {
        name: "seek_points",
        text: format!("[{}]", points.join(", ")),
        interval: None,
        origin: Measured,
        note: format!("mean {} ms{}", ms(seeks.mean), interval.unwrap_or_default()),
    }
}

/// The number of commands that the disk chooses among. More than the deepest queue that was
/// measured, or than the kernel hands over, cannot be distinguished.
fn fit_queue_depth(
    input: &FitInput<'_>,
    start: &HddParameters,
    estimates: &mut Vec<ParameterEstimate>,
) -> usize {
    let workloads = input.workloads(|name| name.starts_with("random-qd"));
    let build = |values: &[f64]| {
        let queue_depth = values[0] as usize;
        let parameters = HddParameters { queue_depth, ..start.clone() };
        one_device(parameters.build(input.capacity_bytes, MODEL_SEED), None, MODEL_SEED)
    };
    let search = Search { workloads: &workloads, host: input.host, build };
    let misfits: Vec<f64> =
        QUEUE_DEPTHS.iter().map(|depth| search.misfit(&[*depth as f64])).collect();
    let least = misfits.iter().copied().fold(f64::MAX, f64::min);
    let alike: Vec<usize> = QUEUE_DEPTHS
        .iter()
        .zip(&misfits)
        .filter(|(_, misfit)| **misfit < least + DISTINCT)
        .map(|(depth, _)| *depth)
        .collect();
    let default = input.queue_depth.map_or(start.queue_depth, |depth| depth as usize);
    let (low, high) = (alike[0], alike[alike.len() - 1]);
    if workloads.is_empty() || (low..=high).contains(&default) && high > low {
        let mut assumed = ParameterEstimate::assumed("queue_depth", default.to_string());
        if !workloads.is_empty() {
            assumed.note = format!("at least {low} fits");
        }
        estimates.push(assumed);
        return default;
    }
    let at = misfits.iter().position(|misfit| *misfit == least).unwrap_or(0);
    let depth = QUEUE_DEPTHS[at];
    let interval = Some((low as f64, high as f64));
    estimates.push(ParameterEstimate::new("queue_depth", Count, Fitted, depth as f64, interval));
    depth
}

/// How long a command may wait, and how far the disk reads ahead.
fn fit_rest(input: &FitInput<'_>, start: &HddParameters, estimates: &mut Vec<ParameterEstimate>) {
    let deep = ["random-qd16", "random-qd32"];
    let workloads = input.workloads(|name| deep.contains(&name));
    let age =
        Searched { start: start.age_limit.as_secs_f64(), deviation: 0.7, bounds: (0.02, 20.0) };
    let build = |values: &[f64]| {
        let age_limit = Nanos::from_secs_f64(values[0]);
        let parameters = HddParameters { age_limit, ..start.clone() };
        one_device(parameters.build(input.capacity_bytes, MODEL_SEED), None, MODEL_SEED)
    };
    let search = Search { workloads: &workloads, host: input.host, build };
    let found = search.run(&[age], EVALUATIONS / 2);
    estimates.extend(estimate("age_limit", Duration, &found[0]));
    let workloads = input.workloads(|name| name == "streams");
    let seen = input.recording.step("streams").and_then(|it| read_ahead(it, start.revolution()));
    let ahead = searched_read_ahead(seen, start);
    let build = |values: &[f64]| {
        let parameters = HddParameters { read_ahead: values[0] as u64, ..start.clone() };
        one_device(parameters.build(input.capacity_bytes, MODEL_SEED), None, MODEL_SEED)
    };
    let search = Search { workloads: &workloads, host: input.host, build };
    let mut found = search.run(&[ahead], EVALUATIONS);
    let reads = (found[0].value / STREAM_READ as f64).round().max(1.0);
    found[0].value = (reads * STREAM_READ as f64).min(start.segment_size as f64);
    estimates.extend(estimate("read_ahead", Bytes, &found[0]));
}

/// The search for the read-ahead, around what was `seen`. On a late host reads of one segment look
/// like reads ahead, and more is seen than a segment holds, which no disk reads.
fn searched_read_ahead(seen: Option<f64>, start: &HddParameters) -> Searched {
    let bounds = (16.0 * KIB as f64, start.segment_size.min(8 * MIB) as f64);
    Searched {
        start: seen.unwrap_or(start.read_ahead.max(STREAM_READ) as f64).min(bounds.1).max(bounds.0),
        deviation: if seen.is_some() { 0.3 } else { 1.0 },
        bounds,
    }
}

/// A fitted parameter; `None` if it keeps its default.
fn estimate(
    name: &'static str,
    notation: Notation,
    found: &SearchResult,
) -> Option<ParameterEstimate> {
    let interval = found.interval?;
    let origin: ValueOrigin = Fitted;
    Some(ParameterEstimate::new(name, notation, origin, found.value, Some(interval)))
}

fn rate(table: &toml::Table, key: &str) -> f64 {
    let text = table.get(key).and_then(toml::Value::as_str).unwrap_or("600MB/s");
    mirrorball_core::units::parse_rate(text).unwrap_or(600_000_000) as f64
}

fn duration(table: &toml::Table, key: &str) -> f64 {
    let text = table.get(key).and_then(toml::Value::as_str).unwrap_or("0s");
    mirrorball_core::units::parse_duration(text).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_ahead_than_a_segment_holds() {
        let start = parameters(&class_default("hdd-7k2-4tb").unwrap()).unwrap();
        let small = HddParameters { segment_size: 128 * KIB, read_ahead: 64 * KIB, ..start };
        for seen in [None, Some(100e3), Some(803.0 * KIB as f64), Some(1e9), Some(1.0)] {
            let Searched { start, bounds, .. } = searched_read_ahead(seen, &small);
            assert!(bounds.0 <= start && start <= bounds.1, "{seen:?}: {start} in {bounds:?}");
            let parameters = HddParameters { read_ahead: start as u64, ..small.clone() };
            assert_eq!(parameters.check(), Ok(()), "{seen:?}");
        }
    }
}
