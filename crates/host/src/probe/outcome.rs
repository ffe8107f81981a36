//! Outcome of a probe: a profile, how good it is, and whether to rely on it.

use super::estimate::ParameterEstimate;
use super::plan::DeviceClass;
use super::workload_fit::WorkloadFit;
use mirrorball_disk::link::LinkParameters;
use serde::Serialize;

/// Whether to rely on a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verdict", content = "reasons")]
pub enum ProbeVerdict {
    /// Every workload is within 5 % of the mean or twice its floor.
    Good,
    /// Every workload is within 15 %; those that are not good are named.
    UsableForRanking(Vec<String>),
    /// The same, but the host was late.
    Late(Vec<String>),
    /// Something stands against it.
    Doubtful(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbeOutcome {
    pub target: String,
    pub class: DeviceClass,
    pub capacity_bytes: u64,
    pub parameters: Vec<ParameterEstimate>,
    /// How near the model is to each workload.
    pub workloads: Vec<WorkloadFit>,
    /// Whether to rely on it.
    pub verdict: ProbeVerdict,
    pub notes: Vec<String>,
    /// Steps that were not run or not finished.
    pub missing: Vec<&'static str>,
    pub(super) kind: &'static str,
    /// The link before it, which belongs into the array file.
    #[serde(skip)]
    pub link: Option<LinkParameters>,
}
