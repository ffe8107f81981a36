//! What was run: the array, the jobs, the machine, every seed, and the command that repeats it.

use crate::experiment::results::ResultSet;
use maud::{Markup, html};
use mirrorball_core::units::counted;

pub(super) fn draw(part: &ResultSet, heading: &str) -> Markup {
    let plan = &part.study.plan;
    let machine = &plan.environment;
    let seeds: Vec<String> = plan.seeds.iter().map(u64::to_string).collect();
    let facts: [(&str, String); 7] = [
        ("array", plan.array.name.clone()),
        ("repeats", counted(seeds.len(), "repeat", "repeats")),
        ("seeds", seeds.join(", ")),
        ("duration", plan.duration_in_words()),
        ("machine", format!("{}: {}, {} CPUs", machine.host, machine.cpu, machine.cpus)),
        ("system", format!("{}, kernel {}", machine.system, machine.kernel)),
        ("program", format!("mirrorball {}", plan.build)),
    ];
    html! {
        section.appendix {
            h2 { (heading) }
            p { "This repeats it:" }
            pre.command tabindex="0" { code { (plan.command) } }
            dl.facts { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } }
            @for note in &part.notes { p.note { (note) } }
            (text("Array", &plan.array.name, &plan.array.text))
            @for job in &plan.jobs { (text("Job", &job.name, &job.text)) }
        }
    }
}

fn text(kind: &str, name: &str, text: &str) -> Markup {
    html! {
        details {
            summary { (kind) " " b { (name) } }
            pre tabindex="0" { code { (text) } }
        }
    }
}
