//! A chart with a line per policy: drawn for those shown initially, packed for the others.

use super::View;
use crate::report::chart::frame::{EndLabel, Frame, end_label};
use maud::{Markup, html};

pub(super) struct Overlay {
    /// Everything but the lines.
    pub(super) frame: Frame,
    pub(super) lines: Vec<PolicyLine>,
}

pub(super) struct PolicyLine {
    pub(super) policy: usize,
    /// Its shapes, in one group that names the policy.
    pub(super) shapes: Markup,
    /// Where it ends, 0 at the bottom.
    pub(super) end: f64,
}

impl Overlay {
    /// The chart with the lines that are shown from the start.
    pub(super) fn draw(&self, view: &View<'_>) -> Markup {
        let shown = || self.lines.iter().filter(|line| view.styles.get(line.policy).is_shown);
        self.frame.draw_with(
            &html! { @for line in shown() { (line.shapes) } },
            None,
            &html! { div.ends aria-hidden="true" { @for line in shown() { (line.name(view)) } } },
        )
    }

    /// The line of one policy with its slot, for the packed block.
    pub(super) fn rest(&self, view: &View<'_>, policy: usize) -> Markup {
        let line = self.lines.iter().find(|line| line.policy == policy);
        html! {
            @if let Some(line) = line {
                div.rest data-for={ (self.frame.kind) "-" (self.frame.job) }
                    data-part=(self.frame.part) data-section=[self.frame.section]
                {
                    svg { (line.shapes) }
                    (line.name(view))
                }
            }
        }
    }
}

impl PolicyLine {
    /// The policy's name at the end of its line.
    fn name(&self, view: &View<'_>) -> Markup {
        let entry = view.styles.get(self.policy);
        end_label(&EndLabel {
            policy: self.policy,
            place: self.end,
            name: &entry.name,
            classes: &entry.classes,
        })
    }
}
