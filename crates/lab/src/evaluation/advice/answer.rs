//! The whole answer about an array: its members, the advice, and the figures that it rests on.
//!
//! Plain data, printed as JSON. [`WhatIf`] is the same for the array after a change of hardware,
//! with the best setting of each side by side.

use super::maintenance::Maintenance;
use super::{Advice, TIE, UNCERTAIN, served};
use crate::experiment::study::{CellSummary, JobStudy, Row, Study, Term, Yardstick};
use crate::experiment::systems::Commands;
use mirrorball_disk::array_file::{ArraySpec, MemberSource, ModelConfidence};
use mirrorball_sim::first_stream;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer, and the one after a change of hardware.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Answer {
    /// The array as it is.
    pub array: ArrayAnswer,
    /// The array after a change.
    pub what_if: Option<WhatIf>,
    /// Single changes that were tried, the one that brings most first.
    pub changes: Vec<RankedChange>,
}

/// A single change of the hardware or the layout, each side with its best setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct RankedChange {
    /// The change, as `--what-if` takes it.
    pub change: String,
    /// Geometric mean of the gains over the jobs; none if some job has none.
    pub gain: Option<f64>,
    /// Half of the 95 % interval of that mean, as a fraction of it.
    pub spread: Option<f64>,
    /// The best setting after the change.
    pub setting: String,
    /// The job that gains least, and its gain.
    pub least: Option<(String, f64)>,
}

impl RankedChange {
    /// The change `change` of the array `before`, of which `after` is the answer.
    pub fn new(change: String, before: &ArrayAnswer, after: ArrayAnswer) -> RankedChange {
        let what_if = WhatIf::new(vec![change.clone()], before, after);
        let gains = what_if.jobs.iter().filter_map(|job| Some((job.job.clone(), job.gain?)));
        RankedChange {
            change,
            gain: what_if.gain,
            spread: what_if.spread,
            setting: what_if.array.best_setting().to_owned(),
            least: gains.min_by(|left, right| left.1.total_cmp(&right.1)),
        }
    }

    /// True if two changes bring as much within their intervals.
    pub(super) fn is_tied_with(&self, other: &RankedChange) -> bool {
        let (Some(own), Some(theirs)) = (self.gain, other.gain) else { return false };
        let spread = self.spread.unwrap_or(0.0).hypot(other.spread.unwrap_or(0.0));
        (own / theirs).ln().abs() <= spread.max(TIE)
    }
}

/// The answer about one array.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ArrayAnswer {
    /// Its name.
    pub name: String,
    /// Its file, or the name of a built-in array.
    pub file: String,
    /// Why it is a built-in example, and not an array of the user.
    pub is_example_because: Option<String>,
    /// What is unusual about its state.
    pub condition: Option<String>,
    /// What comes before any setting: a member to replace, work to wait for, space to free.
    pub first: Vec<String>,
    /// Its members.
    pub members: Vec<AnsweredMember>,
    /// What to do.
    pub advice: Advice,
    /// What each policy that the advice names reaches.
    pub jobs: Vec<JobAnswer>,
    /// Scrub, rebuild and flushes under these policies.
    pub maintenance: Option<Maintenance>,
    /// The folder of the results.
    pub results: String,
    /// True if the results were measured on the array by `bench`, false if they were simulated.
    pub is_measured: bool,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct AnsweredMember {
    /// Its number.
    pub devid: u64,
    /// Its device on the machine.
    pub device: Option<String>,
    /// The model that stands for it.
    pub model: String,
    /// The model of the cache in front of it; none without a cache.
    pub cache: Option<String>,
    /// How well the model is known to fit.
    pub confidence: Option<&'static str>,
    /// False for a member that is missing or has failed.
    pub is_in_service: bool,
    /// Its state on the machine, if it is simulated in service and is not.
    pub remark: Option<&'static str>,
}

/// A member that the advice takes for in service, and that is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutOfService {
    pub devid: u64,
    /// True if it failed; false while it is rebuilt.
    pub is_failed: bool,
    pub recovered_bytes: u64,
}

/// One job under each policy that the advice names.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct JobAnswer {
    /// Name of the job.
    pub job: String,
    /// The unit of its values.
    pub unit: &'static str,
    /// What is in force first.
    pub policies: Vec<JobFigure>,
}

/// One policy under one job.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct JobFigure {
    /// Canonical policy string.
    pub policy: String,
    /// Mean over the repeats.
    pub value: f64,
    /// Half of the 95 % interval over the repeats, as a fraction of the value.
    pub spread: Option<f64>,
    /// The value as a factor of what is in force; none if that completed nothing.
    pub relative: Option<f64>,
    /// The values by the remainder of the number of the reading process over the number of copies,
    /// as `btrfs/pid` decides; empty if that does not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_process: Vec<f64>,
    /// What becomes of the sections of the job; empty if a single one counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<SectionFactor>,
}

/// The speed of a section of a job as a factor of the speed under what is in force.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SectionFactor {
    /// Name of the section.
    pub section: String,
    /// None if what is in force completed nothing of it.
    pub relative: Option<f64>,
}

/// The sections of `job` under a policy, through an export that slows them all by `slowed`; empty
/// if a single one counts.
pub(super) fn section_factors(
    job: &JobStudy,
    now: &Row,
    row: &Row,
    slowed: f64,
) -> Vec<SectionFactor> {
    let factor = |(term, (was, is)): (&Term, (&f64, &f64))| SectionFactor {
        section: term.section.clone(),
        relative: (*was > 0.0 && *is > 0.0)
            .then(|| slowed * if term.is_rate() { is / was } else { was / is }),
    };
    let is_single = job.terms.len() < 2;
    let terms = job.terms.iter().zip(now.terms.iter().zip(&row.terms));
    terms.filter(|_| !is_single).map(factor).collect()
}

/// The array after a change of hardware.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct WhatIf {
    /// The changes, as they were asked for.
    pub changes: Vec<String>,
    /// How to make them, where commands can.
    pub commands: Option<Commands>,
    /// The changed array.
    pub array: ArrayAnswer,
    /// The best setting of each array under each job.
    pub jobs: Vec<WhatIfJob>,
    /// Geometric mean of the gains; none if some job has none.
    pub gain: Option<f64>,
    /// Half of the 95 % interval of that mean, as a fraction of it; none if some job has none.
    pub spread: Option<f64>,
}

/// One job on both arrays, each with its best setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct WhatIfJob {
    /// Name of the job.
    pub job: String,
    /// The unit of the values.
    pub unit: &'static str,
    /// With the array as it is.
    pub before: f64,
    /// With the changed array.
    pub after: f64,
    /// `after` as a factor of `before`; none if that is zero.
    pub gain: Option<f64>,
    /// Half of the 95 % interval of the gain, as a fraction of it; none with a single repeat.
    pub spread: Option<f64>,
}

impl ArrayAnswer {
    /// The answer about `array`, without times of maintenance.
    pub fn new(array: &ArraySpec, study: &Study, advice: Advice) -> ArrayAnswer {
        let specs = advice.policies();
        let served = advice.known.as_ref().filter(|it| it.served).map(|it| it.spec.as_str());
        let copies = array.chunk_map().map_or(1, |map| map.copies());
        let answered = |job: &JobStudy| {
            let mut answer = JobAnswer::new(study, job, &specs, served);
            // A kernel draws the numbers of its processes.
            for figure in answer.policies.iter_mut().filter(|_| job.had_choice.is_some()) {
                figure.by_process = by_process(study, (&job.job, &figure.policy), copies);
            }
            answer
        };
        let jobs = study.jobs.iter().map(answered).collect();
        let member = |member: &mirrorball_disk::array_file::MemberSpec| AnsweredMember {
            devid: member.devid,
            device: member.device.clone(),
            model: match &member.source {
                MemberSource::Model(profile) => profile.name.clone(),
                MemberSource::Path(_) | MemberSource::Uri(_) => "a real disk".to_owned(),
            },
            cache: member.cache.as_ref().map(|cache| cache.device.name.clone()),
            confidence: member.confidence.map(ModelConfidence::name),
            is_in_service: member.is_in_service(),
            remark: None,
        };
        ArrayAnswer {
            name: array.name.clone(),
            file: array.file_name.clone(),
            is_example_because: None,
            condition: None,
            first: Vec::new(),
            members: array.members.iter().map(member).collect(),
            advice,
            jobs,
            maintenance: None,
            results: String::new(),
            is_measured: false,
        }
    }

    pub fn mark_failed(&mut self, out: &[OutOfService]) {
        for failed in out.iter().filter(|it| it.is_failed) {
            for member in self.members.iter_mut().filter(|it| it.devid == failed.devid) {
                member.is_in_service = false;
                member.remark = Some("out of service now");
            }
        }
    }

    /// Adds times of maintenance, and names the work that takes several times as long under a
    /// policy that would be better for the jobs.
    pub fn set_maintenance(&mut self, maintenance: Option<Maintenance>) {
        let Advice { offered, conditional, known, .. } = &mut self.advice;
        for candidate in [offered, conditional, known].into_iter().flatten() {
            let times = maintenance.as_ref();
            candidate.slow_work = times.and_then(|it| it.slow_work(&candidate.spec));
        }
        self.maintenance = maintenance;
    }

    /// The best setting that the system has in every installation, else what is in force.
    pub fn best_setting(&self) -> &str {
        let offered = self.advice.offered.as_ref();
        offered.map_or(self.advice.now.as_str(), |offered| offered.spec.as_str())
    }

    pub(super) fn best_figure(&self, job: &str) -> Option<(&JobAnswer, &JobFigure)> {
        let job = self.jobs.iter().find(|it| it.job == job)?;
        let best = job.policies.iter().find(|it| it.policy == self.best_setting())?;
        Some((job, best))
    }
}

/// The mean of a policy under a job for each remainder of the number of the process, if some
/// remainder is always faster than another, and by more than noise.
fn by_process(study: &Study, (job, policy): (&str, &str), copies: usize) -> Vec<f64> {
    let mut values = vec![Vec::new(); copies];
    let is_of = |cell: &&CellSummary| cell.identity.job == job && cell.identity.policy == policy;
    for cell in study.cells.iter().filter(is_of) {
        let remainder = first_stream(cell.identity.seed) % copies as u64;
        values[remainder as usize].push(cell.score);
    }
    let extreme =
        |values: &Vec<f64>, best: fn(f64, f64) -> f64| values.iter().copied().reduce(best);
    let lows: Option<Vec<f64>> = values.iter().map(|it| extreme(it, f64::min)).collect();
    let highs: Option<Vec<f64>> = values.iter().map(|it| extreme(it, f64::max)).collect();
    let (Some(lows), Some(highs)) = (lows, highs) else { return Vec::new() };
    let fastest = lows.iter().copied().fold(0.0, f64::max);
    let slowest = highs.iter().copied().fold(f64::INFINITY, f64::min);
    let is_single = values.iter().any(|values| values.len() < 2);
    match is_single || fastest <= slowest * (1.0 + UNCERTAIN) {
        true => Vec::new(),
        false => values.iter().map(|it| it.iter().sum::<f64>() / it.len() as f64).collect(),
    }
}

impl JobAnswer {
    fn new(study: &Study, job: &JobStudy, specs: &[String], served: Option<&str>) -> JobAnswer {
        let rows = || specs.iter().filter_map(|spec| job.rows.iter().find(|it| it.policy == *spec));
        let in_force = rows().next();
        let now = in_force.map_or(0.0, |row| row.score.value);
        let figures = rows().map(|row| {
            let is_served = served == Some(row.policy.as_str());
            let slowed = if is_served { served::slowed(study, job, row) } else { 1.0 };
            let value = row.score.value * slowed;
            JobFigure {
                policy: row.policy.clone(),
                value,
                spread: row.score.relative(),
                relative: (now > 0.0).then(|| value / now),
                by_process: Vec::new(),
                sections: in_force
                    .map_or_else(Vec::new, |now| section_factors(job, now, row, slowed)),
            }
        });
        let unit = match job.yardstick {
            Yardstick::Iops => "requests/s",
            Yardstick::MeanLatency => "1/s of mean latency",
            Yardstick::Score => "score",
        };
        JobAnswer { job: job.job.clone(), unit, policies: figures.collect() }
    }
}

impl WhatIf {
    /// Compares the changed array with the array as it is. The intervals of both count, as if their
    /// repeats were independent: paired seeds can only make the difference surer.
    pub fn new(changes: Vec<String>, before: &ArrayAnswer, after: ArrayAnswer) -> WhatIf {
        let jobs = before.jobs.iter().filter_map(|job| {
            let ((job, was), (_, is)) =
                (before.best_figure(&job.job)?, after.best_figure(&job.job)?);
            Some(WhatIfJob {
                job: job.job.clone(),
                unit: job.unit,
                before: was.value,
                after: is.value,
                gain: (was.value > 0.0).then(|| is.value / was.value),
                spread: was.spread.zip(is.spread).map(|(was, is)| was.hypot(is)),
            })
        });
        let jobs: Vec<WhatIfJob> = jobs.collect();
        let count = jobs.len() as f64;
        let logs: Option<Vec<f64>> = jobs.iter().map(|job| job.gain.map(f64::ln)).collect();
        let mean = |logs: Vec<f64>| (logs.iter().sum::<f64>() / count).exp();
        let gain = logs.filter(|logs| !logs.is_empty()).map(mean).filter(|gain| gain.is_finite());
        let spreads: Option<Vec<f64>> = jobs.iter().map(|job| job.spread).collect();
        let squares = |spreads: Vec<f64>| spreads.iter().map(|it| it * it).sum::<f64>();
        let spread = gain.and(spreads).map(|spreads| squares(spreads).sqrt() / count);
        WhatIf { changes, commands: None, array: after, jobs, gain, spread }
    }
}
