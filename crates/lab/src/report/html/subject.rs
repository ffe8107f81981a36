//! The subject of a panel: one policy under one job in one set.

use super::View;
use super::gather::{JobSet, JobView, PolicyRun};
use super::rates::{columns, time_axis};
use crate::report::chart::frame::{Axis, Frame, Unit};
use maud::html;

/// The policy, job and set that a panel shows.
pub(super) struct Subject<'v, 'a> {
    pub(super) job: &'v JobView<'a>,
    pub(super) set: &'v JobSet<'a>,
    pub(super) run: &'v PolicyRun<'a>,
}

impl Subject<'_, '_> {
    /// Text alternative of a chart.
    pub(super) fn label(&self, view: &View<'_>, what: &str) -> String {
        let (name, job) = (&view.styles.get(self.run.policy).name, self.job.name);
        format!("{what}: {name} under {job}{}", view.of_set(self.set.part))
    }

    /// A chart over time without a caption.
    pub(super) fn frame(
        &self,
        view: &View<'_>,
        (kind, what): (&'static str, &str),
        y: Axis,
        unit: Unit,
    ) -> Frame {
        Frame {
            kind,
            job: self.job.number,
            part: self.set.part,
            section: None,
            policy: Some(self.run.policy),
            label: self.label(view, what),
            caption: html! {},
            x: time_axis(self.job),
            y,
            steps: columns(self.job),
            unit,
        }
    }
}
