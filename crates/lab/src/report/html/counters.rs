//! Counters of the policy: final values, and their course over time.

use super::View;
use super::subject::Subject;
use crate::experiment::record::CounterSeries;
use crate::report::chart::scale::Scale;
use crate::report::chart::{SIDE, number, path};
use maud::{Markup, html};

/// The table of one policy; none if it counts nothing.
pub(super) fn panel(view: &View<'_>, subject: &Subject<'_, '_>) -> Option<Markup> {
    let counters = &subject.run.series.counters;
    if counters.is_empty() {
        return None;
    }
    let mut names: Vec<&str> = Vec::new();
    let mut owners: Vec<Option<u64>> = Vec::new();
    for counter in counters {
        if !names.contains(&counter.name.as_str()) {
            names.push(&counter.name);
        }
        if !owners.contains(&counter.devid) {
            owners.push(counter.devid);
        }
    }
    let find = |name: &str, owner: Option<u64>| {
        counters.iter().find(|counter| counter.name == name && counter.devid == owner)
    };
    Some(html! {
        div.scroll tabindex="0" role="group" data-kind="counters"
            aria-label=(subject.label(view, "Counters"))
        {
            table.counters {
                thead {
                    tr {
                        th { "devid" }
                        @for owner in &owners {
                            th.number { (owner_name(*owner)) }
                        }
                    }
                }
                tbody {
                    @for name in &names {
                        tr {
                            th scope="row" { (name.trim_end_matches("_ns").replace('_', " ")) }
                            @for owner in &owners { td.number { (cell(find(name, *owner))) } }
                        }
                    }
                }
            }
        }
    })
}

fn owner_name(owner: Option<u64>) -> String {
    owner.map_or("all".to_owned(), |devid| devid.to_string())
}

fn cell(counter: Option<&CounterSeries>) -> Markup {
    let Some(counter) = counter else { return html! {} };
    let last = counter.values.iter().flatten().last();
    html! {
        @if let Some(&last) = last {
            span title=(last) { (written(&counter.name, last)) }
            svg.spark viewBox={ "0 0 " (SIDE) " " (SIDE) } preserveAspectRatio="none"
                aria-hidden="true"
            {
                path.line.thin d=(course(counter)) {}
            }
        }
    }
}

/// Counters whose names end in a unit of time are times.
fn written(name: &str, value: i64) -> String {
    if name.ends_with("_ns") {
        number::duration(value as f64 / 1e3)
    } else if value.unsigned_abs() < 10_000 {
        value.to_string()
    } else {
        let digits = 10f64.powi(value.unsigned_abs().ilog10() as i32 - 2);
        number::short((value as f64 / digits).round() * digits)
    }
}

/// From its least value at the bottom to its greatest at the top.
fn course(counter: &CounterSeries) -> String {
    let known = || counter.values.iter().flatten().map(|&value| value as f64);
    let least = known().fold(0.0, f64::min);
    let most = known().fold(least + 1.0, f64::max);
    let scale = Scale::Linear { from: least, to: most };
    let last = counter.values.len().saturating_sub(1).max(1) as f64;
    path::line(
        counter
            .values
            .iter()
            .enumerate()
            .map(|(index, value)| Some((index as f64 / last, scale.place((*value)? as f64)))),
    )
}
