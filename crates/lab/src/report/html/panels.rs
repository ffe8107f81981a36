//! Charts of one policy each, side by side for the policies that are shown.
//!
//! A kind of panel is a row of [`KINDS`]: a heading, a description, a legend, and a function that
//! draws one policy. **Adding a kind is one file and one row.** All panels of a kind under one job
//! share their scales.

use super::View;
use super::gather::{JobView, PolicyRun};
use super::subject::Subject;
use super::{heat, members, offsets};
use maud::{Markup, html};

pub(super) struct PanelKind {
    /// Its name for the script and tests.
    pub(super) name: &'static str,
    heading: &'static str,
    description: &'static str,
    legend: fn(&JobView<'_>) -> Markup,
    draw: fn(&View<'_>, &Subject<'_, '_>) -> Option<Markup>,
}

/// Every kind, in the order of the page.
pub(super) const KINDS: [PanelKind; 4] = [
    PanelKind {
        name: "heat",
        heading: "Percentiles of read latency over time",
        description: "Strong colour: reads were slow at that time. The upper rows show the slowest \
                      few of them.",
        legend: heat::legend,
        draw: heat::panel,
    },
    PanelKind {
        name: "share",
        heading: "Share of reads per member over time",
        description: "How the policy spreads reads over members, background reads included.",
        legend: members::legend,
        draw: members::share,
    },
    PanelKind {
        name: "queue",
        heading: "Queue depth per member over time",
        description: "Mean I/O in flight. A line far above the others is a slow member.",
        legend: members::legend,
        draw: members::queue,
    },
    PanelKind {
        name: "offsets",
        heading: "Offset over time per member, and seeks",
        description: "Position of sampled reads of the job, coloured by latency. Sequential \
                      streams are slopes, random reads are clouds. A seek is an I/O that does \
                      not start where the previous one ended.",
        legend: offsets::legend,
        draw: offsets::panel,
    },
];

/// The panels of the policies that are shown from the start, kind by kind.
pub(super) fn draw(view: &View<'_>, job: &JobView<'_>) -> Markup {
    let of_kind = |kind: &PanelKind| {
        let shown = |run: &PolicyRun<'_>| view.styles.get(run.policy).is_shown;
        let mut subjects_shown: Vec<Subject<'_, '_>> =
            subjects(job).filter(|subject| shown(subject.run)).collect();
        subjects_shown.sort_by_key(|subject| (subject.run.policy, subject.set.part));
        let panels: Vec<Markup> =
            subjects_shown.iter().filter_map(|subject| panel(view, kind, subject)).collect();
        let has_any = !panels.is_empty()
            || subjects(job).any(|subject| (kind.draw)(view, &subject).is_some());
        html! {
            @if has_any {
                section.kind {
                    h4 { (kind.heading) }
                    p.description { (kind.description) }
                    ((kind.legend)(job))
                    div.multiples data-slot={ (kind.name) "-" (job.number) } {
                        @for panel in panels { (panel) }
                    }
                }
            }
        }
    };
    html! { @for kind in &KINDS { (of_kind(kind)) } }
}

/// Every panel of one policy, each naming its slot: the script inserts them when the reader chooses
/// the policy.
pub(super) fn of_policy(view: &View<'_>, policy: usize) -> String {
    let mut text = String::new();
    for job in &view.jobs {
        for subject in subjects(job).filter(|subject| subject.run.policy == policy) {
            for panel in KINDS.iter().filter_map(|kind| panel(view, kind, &subject)) {
                text += &panel.into_string();
            }
        }
    }
    text
}

fn subjects<'v, 'a>(job: &'v JobView<'a>) -> impl Iterator<Item = Subject<'v, 'a>> {
    job.sets.iter().flat_map(move |set| set.runs.iter().map(move |run| Subject { job, set, run }))
}

fn panel(view: &View<'_>, kind: &PanelKind, subject: &Subject<'_, '_>) -> Option<Markup> {
    let drawn = (kind.draw)(view, subject)?;
    let entry = view.styles.get(subject.run.policy);
    Some(html! {
        div.panel data-policy=(subject.run.policy) data-part=(subject.set.part)
            data-for={ (kind.name) "-" (subject.job.number) }
        {
            h5 {
                span class={ "swatch " (entry.classes) } {}
                (entry.name) (view.set_mark(subject.set.part))
            }
            (drawn)
        }
    })
}
