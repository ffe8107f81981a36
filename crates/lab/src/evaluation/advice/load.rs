//! The load of the jobs: what policies are compared by, and whether what is in force serves it.
//!
//! Where requests come at a rate of their own, policies are compared by mean latency. If they come
//! faster than they are served, the latency grows as long as the job runs, and a factor of
//! latencies says little: then the factor of requests/s is stated too.

use super::figure_text::number;
use crate::experiment::study::statistics::geometric_mean;
use crate::experiment::study::{Figure, JobStudy, Study};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// A section that is not served as fast as its requests come.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct UnservedSection {
    /// Name of the job, or of the section if it has several.
    pub name: String,
    /// Requests per second that come, in words.
    pub asked: String,
    /// Requests per second that are served.
    pub iops: f64,
}

/// The figures by which the jobs of a study are judged, in words.
pub(super) fn compared(study: &Study) -> String {
    let has = |figure| study.jobs.iter().flat_map(|job| &job.terms).any(|it| it.figure == figure);
    let names = [(Figure::Iops, "requests/s"), (Figure::Mean, "mean latency")];
    let names: Vec<&str> = names.into_iter().filter(|it| has(it.0)).map(|it| it.1).collect();
    names.join(" and ")
}

/// The sections that `policy` does not serve as fast as their requests come.
pub(super) fn unserved(study: &Study, policy: &str) -> Vec<UnservedSection> {
    let of_job = |job: &JobStudy| -> Vec<UnservedSection> {
        let Some(row) = job.rows.iter().find(|row| row.policy == policy) else { return Vec::new() };
        let sections = job.sections.iter().zip(&row.sections);
        let missed = sections.filter(|(section, row)| section.counts && row.missed_rate);
        let unserved = missed.filter_map(|(section, row)| {
            let name = if job.sections.len() == 1 { &job.job } else { &section.name };
            Some(UnservedSection {
                name: name.clone(),
                asked: section.asked(number)?,
                iops: row.figures.iops.value,
            })
        });
        unserved.collect()
    };
    study.jobs.iter().flat_map(of_job).collect()
}

/// How many times the requests/s `policy` serves of the sections that `now` does not serve as fast
/// as they come; none if there is no section like that, or none of its requests is served.
pub(super) fn throughput(study: &Study, policy: &str, now: &str) -> Option<f64> {
    let of_job = |job: &JobStudy| -> Vec<f64> {
        let row = |policy: &str| job.rows.iter().find(|row| row.policy == policy);
        let (Some(then), Some(now)) = (row(policy), row(now)) else { return Vec::new() };
        let sections = job.sections.iter().zip(then.sections.iter().zip(&now.sections));
        let missed = sections.filter(|(section, (_, now))| section.counts && now.missed_rate);
        let factor = |(then, now): (f64, f64)| (now > 0.0).then(|| then / now);
        let rates =
            missed.map(|(_, (then, now))| (then.figures.iops.value, now.figures.iops.value));
        rates.filter_map(factor).collect()
    };
    let factors: Vec<f64> = study.jobs.iter().flat_map(of_job).collect();
    (!factors.is_empty()).then(|| geometric_mean(&factors))
}
