//! One line per mirror of a choice, for spreadsheets and plots.
//!
//! `choice` counts from zero and is the same on all lines of a choice. `parts` are `name=value`,
//! joined by semicolons. `taken` is `first`, `further` or empty. `took_ns` is on the line of the
//! mirror that was read first. An empty field means unknown or never.

use crate::experiment::explain::{Explained, ExplainedChoice, MirrorChoice, NamedValue, ReadOrder};
use crate::report::Style;

const COLUMNS: &str = "choice,at_ns,stream,background,offset,length,devid,member_offset,in_flight,\
                       score_name,score,parts,expected_ns,taken,oracle,took_ns";

pub(super) fn render(explained: &Explained, _style: Style) -> String {
    let mut text = format!("{COLUMNS}\n");
    for (number, choice) in explained.choices.iter().enumerate() {
        for mirror in &choice.mirrors {
            text += &format!("{number},{}\n", line(choice, mirror));
        }
    }
    text
}

fn line(choice: &ExplainedChoice, mirror: &MirrorChoice) -> String {
    let known = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    let part = |part: &NamedValue| format!("{}={}", part.name, part.value);
    let parts: Vec<String> = mirror.parts.iter().map(part).collect();
    let taken = match mirror.taken {
        ReadOrder::No => "",
        ReadOrder::First => "first",
        ReadOrder::Further => "further",
    };
    let took_ns = choice.took_ns.filter(|_| mirror.taken == ReadOrder::First);
    let fields = [
        choice.at_ns.to_string(),
        choice.stream.to_string(),
        u8::from(choice.background).to_string(),
        choice.offset.to_string(),
        choice.length.to_string(),
        mirror.devid.to_string(),
        mirror.offset.to_string(),
        mirror.in_flight.to_string(),
        mirror.score.as_ref().map_or(String::new(), |score| score.name.to_owned()),
        mirror.score.as_ref().map_or(String::new(), |score| score.value.to_string()),
        parts.join(";"),
        known(mirror.expected_ns),
        taken.to_owned(),
        u8::from(mirror.oracle).to_string(),
        known(took_ns),
    ];
    fields.join(",")
}
