//! The subject of a panel: one policy under one job in one set.

use super::View;
use super::gather::{JobSet, JobView, PolicyRun};

/// The policy, job and set that a panel shows.
pub(super) struct Subject<'v, 'a> {
    /// The job.
    pub(super) job: &'v JobView<'a>,
    /// The set.
    pub(super) set: &'v JobSet<'a>,
    /// The policy's run.
    pub(super) run: &'v PolicyRun<'a>,
}

impl Subject<'_, '_> {
    /// Text alternative of a chart.
    pub(super) fn label(&self, view: &View<'_>, what: &str) -> String {
        let (name, job) = (&view.styles.get(self.run.policy).name, self.job.name);
        format!("{what}: {name} under {job}{}", view.of_set(self.set.part))
    }
}
