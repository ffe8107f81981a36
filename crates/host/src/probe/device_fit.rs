//! The result of fitting a class of device: the parameters of a profile.

use super::estimate::{ParameterEstimate, ValueOrigin};
use super::recording::{Recording, StepPurpose};
use super::virtual_time::HostCost;
use super::workload_fit::RecordedWorkload;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_disk::link::{Link, LinkParameters};
use mirrorball_disk::model::Model;
use mirrorball_disk::model_array::{ModelArray, ModelMember};
use mirrorball_disk::profile::ModelProfile;

#[derive(Clone, Copy)]
pub(super) struct FitInput<'a> {
    pub(super) recording: &'a Recording,
    pub(super) capacity_bytes: u64,
    /// Time that the host adds to each read.
    pub(super) host: HostCost,
    /// Number of commands that the device takes at once, as the kernel reports it.
    pub(super) queue_depth: Option<u32>,
}

/// The parameters of a profile, and what was noticed on the way.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeviceFit {
    pub(super) kind: &'static str,
    pub(super) parameters: Vec<ParameterEstimate>,
    pub(super) link: Option<LinkParameters>,
    pub(super) notes: Vec<String>,
}

impl FitInput<'_> {
    /// The workloads that parameters are fitted to, of the steps whose names `is_wanted` takes.
    pub(super) fn workloads(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<RecordedWorkload<'_>> {
        let steps = self.recording.steps.iter();
        let wanted = steps.filter(|step| {
            step.purpose == StepPurpose::Fitted && step.samples.len() > 20 && is_wanted(step.name)
        });
        wanted.map(RecordedWorkload::of).collect()
    }
}

/// The workloads of a recording that a model is compared with: those that were fitted to, and those
/// held out.
pub(super) fn compared(recording: &Recording) -> Vec<RecordedWorkload<'_>> {
    let steps = recording.steps.iter().filter(|step| {
        matches!(step.purpose, StepPurpose::Fitted | StepPurpose::HeldOut)
            && step.samples.len() > 20
    });
    steps.map(RecordedWorkload::of).collect()
}

/// One device, perhaps behind a link, as a model array.
pub(super) fn one_device(
    model: Box<dyn Model>,
    link: Option<&LinkParameters>,
    seed: u64,
) -> ModelArray {
    let member = ModelMember { model, link: link.map(|_| 0) };
    let links = link.map(|link| Link::new(link.clone(), seed));
    ModelArray::new(vec![member], links.into_iter().collect())
}

/// The parameters of a built-in profile, which are the defaults of a class.
pub(super) fn class_default(name: &str) -> Result<toml::Table, Diagnostic> {
    Ok(ModelProfile::builtin(name)?.parameter_table().clone())
}

/// `estimates` and, in the order of `names`, what they leave out, as `defaults` has it.
pub(super) fn complete(
    names: &[&'static str],
    mut estimates: Vec<ParameterEstimate>,
    defaults: &toml::Table,
) -> Vec<ParameterEstimate> {
    let mut all = Vec::new();
    for name in names {
        match estimates.iter().position(|estimate| estimate.name == *name) {
            Some(at) => all.push(estimates.swap_remove(at)),
            None => {
                let value = defaults.get(*name);
                all.extend(value.map(|it| ParameterEstimate::assumed(name, it.to_string())));
            }
        }
    }
    all
}

/// The defaults with every estimate in their place.
pub(super) fn with_estimates(
    defaults: &toml::Table,
    estimates: &[ParameterEstimate],
) -> Result<toml::Table, Diagnostic> {
    let mut table = defaults.clone();
    for estimate in estimates.iter().filter(|it| it.origin != ValueOrigin::Assumed) {
        let line = format!("{} = {}", estimate.name, estimate.text);
        let parsed = line.parse::<toml::Table>();
        let parsed = parsed.map_err(|error| Diagnostic::new(format!("{line}: {error}")))?;
        table.extend(parsed);
    }
    Ok(table)
}
