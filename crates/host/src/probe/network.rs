//! Fits a link and a server with a fixed service time to a device behind a network.
//!
//! With one read in flight a read takes two crossings, their jitter and the service; the jitter
//! shows as the spread, the rate as the slope over the size. Deeper queues show how many reads are
//! served at once: the greatest rate is the number of servers over the service time, and the way to
//! it tells the two apart.

use super::device_fit::{DeviceFit, FitInput, one_device};
use super::estimate::Notation::{Count, Duration, Rate};
use super::estimate::ParameterEstimate;
use super::estimate::ValueOrigin::Fitted;
use super::recording::StepRecord;
use super::replay::MODEL_SEED;
use super::search::{Search, SearchResult, Searched};
use super::statistics::mean;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{KIB, MIB, Nanos};
use mirrorball_disk::delay::DelayParameters;
use mirrorball_disk::link::LinkParameters;
use mirrorball_disk::model::ModelParameters;
use mirrorball_disk::model_array::ModelArray;

/// Numbers of servers that are tried.
const SERVERS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const EVALUATIONS: usize = 90;
const LINK_NAME: &str = "network";
/// Growth of the misfit that tells two numbers of servers apart.
const DISTINCT: f64 = 4.0;

/// Results of the closed forms, in seconds and bytes per second.
#[derive(Clone, Copy)]
struct ClosedForms {
    /// Mean latency of one block with one read in flight, without the host and the transfer.
    single: f64,
    jitter: f64,
    rate: f64,
    /// Greatest number of reads per second.
    most: f64,
}

/// The parameters of a device behind a network.
pub(super) fn fit(input: &FitInput<'_>) -> Result<DeviceFit, Diagnostic> {
    let forms = closed_forms(input)?;
    let workloads = input.workloads(|_| true);
    let build = |values: &[f64]| build(input, &forms, values);
    let search = Search { workloads: &workloads, host: input.host, build };
    let start = |servers: u32| {
        // The greatest rate, or a small part of the latency where that would not leave any.
        let service = (f64::from(servers) / forms.most).min(0.9 * forms.single);
        [service, forms.jitter, forms.rate, f64::from(servers)]
    };
    let misfits = SERVERS.map(|servers| (servers, search.misfit(&start(servers))));
    let least = misfits.iter().map(|it| it.1).fold(f64::MAX, f64::min);
    let alike: Vec<u32> =
        misfits.iter().filter(|it| it.1 < least + DISTINCT).map(|it| it.0).collect();
    // Several numbers give the same greatest rate; the fewest servers that fit say the least more
    // than was seen.
    let servers = alike[0];
    let first = start(servers);
    let parameters = [
        Searched { start: first[0], deviation: 0.4, bounds: (1e-7, 0.95 * forms.single) },
        Searched { start: first[1], deviation: 0.3, bounds: (1e-7, forms.single) },
        Searched { start: first[2], deviation: 0.1, bounds: (1e6, 1e11) },
    ];
    let with_servers = |values: &[f64]| {
        let values = [values[0], values[1], values[2], f64::from(servers)];
        self::build(input, &forms, &values)
    };
    let search = Search { workloads: &workloads, host: input.host, build: with_servers };
    let found = search.run(&parameters, EVALUATIONS);
    let values = [found[0].value, found[1].value, found[2].value, f64::from(servers)];
    let (_, link) = device_and_link(&forms, &values);
    let notes = vec![link_note(&link, &found)];
    let of_servers = (f64::from(alike[0]), f64::from(alike[alike.len() - 1]));
    let servers =
        ParameterEstimate::new("servers", Count, Fitted, f64::from(servers), Some(of_servers));
    // More servers of a longer service have the same greatest rate.
    let most = of_servers.1 / of_servers.0;
    let interval = found[0].interval.map(|(low, high)| (low, high * most));
    let service = ParameterEstimate::new("service", Duration, Fitted, values[0], interval);
    let service = match found[0].interval {
        Some(_) => service,
        None => ParameterEstimate::assumed("service", service.text)
            .noted("part of the latency of the link"),
    };
    Ok(DeviceFit { kind: "delay", parameters: vec![service, servers], link: Some(link), notes })
}

fn closed_forms(input: &FitInput<'_>) -> Result<ClosedForms, Diagnostic> {
    let step = |name: &str| {
        let error = || Diagnostic::new(format!("the step `{name}` was not measured"));
        input.recording.step(name).ok_or_else(error)
    };
    let single = step("random-qd1")?.latencies();
    let (small, large) = (step("size-64k")?.latencies(), step("size-1m")?.latencies());
    let slope = (mean(&large) - mean(&small)) / (MIB - 64 * KIB) as f64;
    let rate = 1.0 / slope.max(1e-12);
    let centre = mean(&single);
    let squares: Vec<f64> = single.iter().map(|latency| (latency - centre).powi(2)).collect();
    let queued = input.recording.steps.iter().filter(|step| step.name.starts_with("random-qd"));
    Ok(ClosedForms {
        single: (centre - input.host.mean.as_secs_f64() - 4096.0 / rate).max(1e-6),
        // Two crossings, each with a uniform addition.
        jitter: (6.0 * mean(&squares)).sqrt().min(0.9 * centre),
        rate,
        most: queued.map(StepRecord::reads_per_second).fold(1.0, f64::max),
    })
}

/// Service, jitter, rate and servers as a model. The latency of the link is what they leave of the
/// single read.
fn build(input: &FitInput<'_>, forms: &ClosedForms, values: &[f64]) -> ModelArray {
    let (device, link) = device_and_link(forms, values);
    one_device(device.build(input.capacity_bytes, MODEL_SEED), Some(&link), MODEL_SEED)
}

fn device_and_link(forms: &ClosedForms, values: &[f64]) -> (DelayParameters, LinkParameters) {
    let [service, jitter, rate, servers] = [values[0], values[1], values[2], values[3]];
    let latency = ((forms.single - service - jitter) / 2.0).max(0.0);
    let device = DelayParameters {
        servers: servers as u32,
        ..DelayParameters::new(Nanos::from_secs_f64(service.max(1e-9)))
    };
    let link = LinkParameters {
        name: LINK_NAME.to_owned(),
        read_rate: Some((rate as u64).max(1)),
        write_rate: None,
        latency: Nanos::from_secs_f64(latency),
        jitter: Nanos::from_secs_f64(jitter),
    };
    (device, link)
}

/// The link with its intervals, for the reader of the profile.
fn link_note(link: &LinkParameters, found: &[SearchResult]) -> String {
    let between = |found: &SearchResult, write: &dyn Fn(f64) -> String| match found.interval {
        Some((low, high)) => format!(" ({} to {})", write(low), write(high)),
        None => String::new(),
    };
    let time = |seconds: f64| Duration.write(seconds).trim_matches('"').to_owned();
    let rate = |rate: f64| Rate.write(rate).trim_matches('"').to_owned();
    format!(
        "link: latency {} a crossing, jitter {}{}, rate {}{}",
        link.latency,
        link.jitter,
        between(&found[1], &time),
        rate(found[2].value),
        between(&found[2], &rate)
    )
}
