//! The order of figures on the report page.

use super::gather::JobView;
use super::lazy_panels::packed;
use super::overlay::Overlay;
use super::panels;
use super::{View, appendix, differences, distribution, figures, matrix, rates, verdict};
use crate::report::page::Page;
use maud::{Markup, PreEscaped, html};
use mirrorball_core::units::counted;

const SCRIPT: &str = include_str!("report.js");

pub(super) fn page(view: &View<'_>) -> String {
    let overlays: Vec<Vec<Overlay>> = view.jobs.iter().map(|job| overlays(view, job)).collect();
    let rest = |policy: usize| {
        let lines = overlays.iter().flatten().map(|chart| chart.rest(view, policy).into_string());
        lines.collect::<String>() + &panels::of_policy(view, policy)
    };
    let body = html! {
        (head(view))
        main {
            (summary(view))
            @for (job, charts) in view.jobs.iter().zip(&overlays) {
                (job_section(view, job, charts))
            }
            @for (place, part) in view.parts.iter().enumerate() {
                (appendix::draw(part, &format!("What was run{}", view.of_set(place))))
            }
        }
        div.tip role="status" aria-live="polite" hidden {}
        @for (number, style) in view.styles.all() {
            @if !style.is_shown { (packed(number, &rest(number))) }
        }
        script { (PreEscaped(SCRIPT)) }
    };
    let head = html! { style id="choice" { (PreEscaped(hidden(view))) } };
    Page { title: &title(view), head, body }.render()
}

fn title(view: &View<'_>) -> String {
    if let Some(lead) = &view.lead {
        return lead.title.clone();
    }
    let mut names: Vec<&str> = Vec::new();
    for part in view.parts {
        let name = part.study.plan.array.name.as_str();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(" and ")
}

/// The CSS rule that hides the policies that are not chosen, everywhere on the page.
fn hidden(view: &View<'_>) -> String {
    let hidden = view.styles.all().filter(|(_, entry)| !entry.is_shown);
    let selectors: Vec<String> =
        hidden.map(|(number, _)| format!("[data-policy=\"{number}\"]")).collect();
    if selectors.is_empty() {
        String::new()
    } else {
        format!("{}{{display:none!important}}", selectors.join(","))
    }
}

/// The bar that stays in view: which colour is which policy.
fn head(view: &View<'_>) -> Markup {
    html! {
        header.bar {
            a.name href="#top" { "Mirrorball" }
            ul.legend aria-label="policies shown" {
                @for (number, entry) in view.styles.all() {
                    li data-policy=(number) {
                        button type="button" data-hide=(number)
                            title={ "hide " (entry.name) }
                            aria-label={ "hide " (entry.name) }
                        {
                            span class={ "swatch " (entry.classes) } {}
                            span.policy { (entry.name) }
                            span.cross aria-hidden="true" { "×" }
                        }
                    }
                }
                li.choose { a href="#matrix" { "choose…" } }
            }
            nav.jobs aria-label="jobs" {
                select aria-label="go to a job" data-go {
                    option value="top" { "overview" }
                    @for job in &view.jobs { option value={ "job-" (job.number) } { (job.name) } }
                }
            }
            button.theme type="button" data-theme title="light or dark"
                aria-label="switch between light and dark" { "◐" }
        }
    }
}

fn summary(view: &View<'_>) -> Markup {
    html! {
        section #top {
            h1 { (title(view)) }
            @if let Some(lead) = &view.lead { (lead.decision) }
            @for (place, part) in view.parts.iter().enumerate() {
                @let plan = &part.study.plan;
                p.subtitle {
                    (view.set_mark(place)) " "
                    (counted(plan.policies.len(), "policy", "policies")) " under "
                    (counted(plan.jobs.len(), "job", "jobs")) ", "
                    (counted(plan.seeds.len(), "repeat", "repeats")) " each"
                }
                @if view.lead.is_none() { (verdict::draw(&part.study)) }
            }
            (differences::summary(view))
            h2 #matrix { "Every policy" @if view.has_several_jobs() { " under every job" } }
            (matrix::legend(view))
            p.buttons {
                span { "Show " }
                button type="button" data-set="start" { "the best" }
                button type="button" data-set="all" { "all" }
                button type="button" data-set="none" { "none" }
                label { input type="checkbox" data-only; " only rows that are shown" }
            }
            @for place in 0..view.parts.len() { (matrix::draw(view, place)) }
            p.description.keys {
                "In every chart: hover or press ← → for figures; drag or press + − to zoom; double \
                 click or press 0 to reset the zoom."
            }
        }
    }
}

/// The charts of a job that hold every policy.
fn overlays(view: &View<'_>, job: &JobView<'_>) -> Vec<Overlay> {
    let distributions = job.sets.iter().flat_map(|set| distribution::charts(view, job, set));
    distributions.chain(rates::charts(view, job)).collect()
}

/// Groups the charts that are side by side: those of one kind; with a single set, the
/// distributions of all sections, and then all rates.
fn rows(charts: &[Overlay], sets: usize) -> impl Iterator<Item = &[Overlay]> {
    let kind = |chart: &Overlay| chart.frame.kind;
    charts.chunk_by(move |left, right| match sets {
        1 => (kind(left) == "distribution") == (kind(right) == "distribution"),
        _ => kind(left) == kind(right),
    })
}

fn job_section(view: &View<'_>, job: &JobView<'_>, charts: &[Overlay]) -> Markup {
    html! {
        section.job id={ "job-" (job.number) } {
            h2 { span.kind { "Job " } (job.name) }
            (differences::of_job(view, job.name))
            @for set in &job.sets { (figures::draw(view, job, set)) }
            @for row in rows(charts, job.sets.len()) {
                div.wide { @for chart in row { (chart.draw(view)) } }
            }
            (panels::draw(view, job))
        }
    }
}
