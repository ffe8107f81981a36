//! Advice as text: three entries, each with its commands, and how far to trust them.

use super::{Advice, AdvisedPolicy};
use crate::report::wrapped;

/// Width of the entries' names.
const NAME_WIDTH: usize = 14;

/// What follows a policy that is not known to be in force.
const ASSUMED: &str = ", the default: the array file does not say what is in force";

/// The advice for a terminal of `width` characters. Commands are never broken.
pub fn render(advice: &Advice, width: usize) -> String {
    let assumed = if advice.now_is_assumed { ASSUMED } else { "" };
    let mut text = entry("You have", &format!("{}{assumed}", advice.now), width);
    match &advice.offered {
        None => text += &entry("Best offered", "not known: no request succeeded", width),
        Some(offered) if offered.spec == advice.now => {
            let same = format!("nothing better than {} in {}", advice.now, advice.system);
            text += &entry("Best offered", &same, width);
        }
        Some(offered) => text += &candidate("Best offered", offered, width),
    }
    if let Some(conditional) = &advice.conditional {
        text += &candidate("With more", conditional, width);
    }
    match &advice.known {
        Some(known) => text += &candidate("Best known", known, width),
        None => text += &entry("Best known", "nothing compared here is better", width),
    }
    text + &entry("Confidence", &advice.confidence, width)
}

fn candidate(name: &str, candidate: &AdvisedPolicy, width: usize) -> String {
    let factor = match candidate.factor {
        Some(factor) => format!("{factor:.2} times as fast"),
        None => "what you have completed nothing".to_owned(),
    };
    let takes =
        candidate.takes.as_ref().map_or_else(String::new, |takes| format!("; needs {takes}"));
    let mut text = entry(name, &format!("{}: {factor}{takes}", candidate.spec), width);
    let commands = &candidate.commands;
    let lines = |name: &str, commands: &[String]| -> String {
        let indent = " ".repeat(NAME_WIDTH);
        commands.iter().map(|command| format!("{indent}{name:<6} {command}\n")).collect()
    };
    text += &lines("set", &commands.set);
    text += &lines("check", commands.check.as_slice());
    text += &lines("undo", &commands.undo);
    let remarks = [
        commands.persist.clone(),
        candidate.note.clone(),
        candidate.is_unverified.then(|| "These commands were not verified in a source.".to_owned()),
    ];
    for remark in remarks.iter().flatten() {
        text += &entry("", remark, width);
    }
    text
}

/// A name and a text behind it, wrapped.
fn entry(name: &str, text: &str, width: usize) -> String {
    let indent = format!("\n{}", " ".repeat(NAME_WIDTH));
    let lines = wrapped(text, width.saturating_sub(NAME_WIDTH).max(20)).replace('\n', &indent);
    format!("{name:<NAME_WIDTH$}{lines}\n")
}
