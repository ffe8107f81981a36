//! What each member did over time: its share of the reads, and its queue.

use super::View;
use super::gather::{JobView, PolicyRun};
use super::series::MemberCurves;
use super::subject::Subject;
use crate::report::chart::frame::{Axis, Unit, values};
use crate::report::chart::scale::{SMALL, Scale};
use crate::report::chart::{number, path};
use maud::{Markup, html};

/// Colours of members in the style sheet, `m0` and so on, dark to light.
const COLOURS: usize = 8;

/// Shares, piled up to all reads.
pub(super) fn share(view: &View<'_>, subject: &Subject<'_, '_>) -> Option<Markup> {
    let Subject { job, run, .. } = subject;
    let members = &run.series.members;
    if members.iter().all(|member| member.share.iter().all(Option::is_none)) {
        return None;
    }
    let y = Scale::Linear { from: 0.0, to: 1.0 };
    let axis = Axis::new(y, SMALL, |share| format!("{:.0} %", 100.0 * share));
    let what = ("share", "Share of reads per member over time");
    let frame = subject.frame(view, what, axis, Unit::Word("%"));
    let piles = piles(members);
    Some(frame.draw(&html! {
        // From the top of the pile down, so that hovering lists them as they stand.
        @for (member, pile) in members.iter().zip(&piles).rev() {
            g data-name={ "devid " (member.devid) } data-class=(class(job, member.devid))
                data-values=(values(member.share.iter().map(|share| Some(100.0 * (*share)?))))
            {
                path class={ "pile " (class(job, member.devid)) } d=(path::columns(pile)) {}
            }
        }
    }))
}

/// Where each member's share lies in the pile, column by column.
pub(super) fn piles(members: &[MemberCurves]) -> Vec<Vec<Option<(f64, f64)>>> {
    let columns = members.first().map_or(0, |member| member.share.len());
    let mut below = vec![0.0; columns];
    let mut pile = |member: &MemberCurves| {
        let spans = member.share.iter().zip(&mut below).map(|(share, below)| {
            let span = (*below, *below + (*share)?);
            *below = span.1;
            Some(span)
        });
        spans.collect()
    };
    members.iter().map(&mut pile).collect()
}

/// I/O in flight.
pub(super) fn queue(view: &View<'_>, subject: &Subject<'_, '_>) -> Option<Markup> {
    let what = ("queue", "Queue depth per member over time");
    lines(view, subject, what, "in flight", |member| &member.queue)
}

/// A line per member; none without data. All panels share the scale of the policies that are shown
/// initially. A panel that exceeds it gets its own scale and a remark, since one policy with
/// thousands of I/O in flight would flatten all other lines.
pub(super) fn lines(
    view: &View<'_>,
    subject: &Subject<'_, '_>,
    what: (&'static str, &str),
    unit: &'static str,
    pick: fn(&MemberCurves) -> &Vec<Option<f64>>,
) -> Option<Markup> {
    let Subject { job, run, .. } = subject;
    if run.series.members.is_empty() {
        return None;
    }
    let most = |run: &PolicyRun<'_>| {
        let all = run.series.members.iter().flat_map(pick).flatten();
        all.copied().fold(0.0, f64::max)
    };
    let shown = job.runs().filter(|run| view.styles.get(run.policy).is_shown);
    let usual = shown.map(most).fold(0.0, f64::max);
    let has_own_scale = most(run) > usual;
    let y = Scale::up_to_a_tick(if has_own_scale { most(run) } else { usual }, SMALL);
    let axis = Axis::new(y, SMALL, number::short);
    let mut frame = subject.frame(view, what, axis, Unit::Word(unit));
    if has_own_scale {
        frame.caption = html! { span.unit { "different scale" } };
    }
    let line = |member: &MemberCurves| {
        let line = pick(member);
        let path = path::through_columns(line.iter().map(|value| Some(y.place((*value)?))));
        let class = class(job, member.devid);
        html! {
            g data-name={ "devid " (member.devid) } data-class=(class)
                data-values=(values(line.iter().copied()))
            {
                path class={ "line thin " (class) } d=(path) {}
            }
        }
    };
    let lines: Vec<Markup> = run.series.members.iter().map(line).collect();
    Some(frame.draw(&html! { @for line in &lines { (line) } }))
}

/// Which colour is which member.
pub(super) fn legend(job: &JobView<'_>) -> Markup {
    html! {
        p.legend {
            @for &devid in &job.devids {
                span { span class={ "swatch " (class(job, devid)) } {} "devid " (devid) }
            }
        }
    }
}

/// The colour of a member: members are spread over the whole range of colours.
pub(super) fn class(job: &JobView<'_>, devid: u64) -> String {
    let place = job.devids.iter().position(|&other| other == devid).unwrap_or(0);
    let last = job.devids.len().saturating_sub(1).max(1);
    let colour =
        if job.devids.len() > COLOURS { place % COLOURS } else { place * (COLOURS - 1) / last };
    format!("m{colour}")
}
