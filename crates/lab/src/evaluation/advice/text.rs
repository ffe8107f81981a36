//! Advice as text: three entries, each with its commands, how far to trust them, and the figures.

mod changes;
mod times;

use super::answer::{Answer, AnsweredMember, ArrayAnswer, JobAnswer, JobFigure};
use super::figure_text::{factor_text, number, speed_text};
use super::load::UnservedSection;
use super::{Advice, AdvisedPolicy, CLEAR_GAIN, SlowerJob, UNCERTAIN};
use crate::experiment::systems::Commands;
use crate::report::{
    Column, Emphasis, Grid, GridRow, Style, command_lines, draw, note, whole_words, wrapped,
};
use changes::{best_change, changed_array, gain, ranked};
use times::{limits, times};

pub(super) const NAME_WIDTH: usize = 14;
pub(super) const COMMANDS: [&str; 4] = ["add", "set", "check", "undo"];
/// Before a text below the name of its entry, on a narrow terminal.
const INDENT_NARROW: usize = 2;
/// A narrower terminal has no space for names before their texts.
const NARROW: usize = 60;

/// The unit of a job with sections of both kinds.
const SCORE: &str = "score: the geometric mean over the sections of the job, of requests/s, or of \
                     1/s of mean latency where the job sets the rate";
/// What follows a policy that is not known to be in force.
const ASSUMED: &str = ", the default: what is in force is not known";

/// What a change of hardware brings, if that was asked for; else the whole answer, the decision
/// first: what comes before any setting, what to do on the array, then what these rest on.
pub fn answer(answer: &Answer, style: Style) -> String {
    let (array, width) = (&answer.array, style.width_columns);
    let changes = changes(answer, style);
    if changes.is_empty() {
        return states(array, width) + &as_it_is(array, style);
    }
    // That of the changed array stands with it.
    let confidence = match answer.what_if {
        Some(_) => String::new(),
        None => entry("Confidence", &array.advice.confidence, width),
    };
    let grounds = advised(array, width) + &confidence;
    let name = &array.name;
    let rest = format!("What to set on {name} as it is: the same command without --what-if");
    let rest = example(array, width) + &wrapped(&rest, width) + "\n";
    states(array, width) + &changes + &grounds + &rest
}

/// What the decision rests on, with what a change of hardware brings.
pub(super) fn grounds(answer: &Answer, style: Style) -> String {
    let changes = changes(answer, style);
    changes + "\n" + &members_and_figures(&answer.array, style)
}

/// What changes of hardware bring; empty if none was asked for.
fn changes(answer: &Answer, style: Style) -> String {
    match &answer.what_if {
        Some(what_if) => {
            let gain = gain(what_if, &answer.array, style.width_columns);
            gain + &changed_array(what_if, &answer.array, style)
        }
        None => ranked(answer, style),
    }
}

fn as_it_is(array: &ArrayAnswer, style: Style) -> String {
    let width = style.width_columns;
    let decision = heading(array, width) + &render(&array.advice, width);
    decision + &advised(array, width) + "\n" + &members_and_figures(array, style)
}

fn members_and_figures(array: &ArrayAnswer, style: Style) -> String {
    let members = members(array, &array.members, style.width_columns);
    let mut text = format!("Members\n{members}");
    if !array.jobs.is_empty() {
        text += &format!("\n{}", jobs(array, style));
    }
    text += &by_process(array, style);
    if let Some(maintenance) = &array.maintenance {
        text += &format!("\n{}", times(maintenance, array, style));
        let limited = maintenance.limited.as_ref();
        // A member that is not simulated is missing in all rows.
        let is_whole =
            array.members.iter().all(|member| member.is_in_service || member.remark.is_none());
        text += &limited.map_or_else(String::new, |it| limits(it, is_whole, style));
    }
    text
}

/// The entries of the answer alone.
pub(super) fn decision(answer: &Answer, width: usize) -> String {
    let best = best_change(answer, width);
    let what_if = answer.what_if.as_ref();
    let gain = what_if.map_or_else(String::new, |it| gain(it, &answer.array, width));
    let advice = render(&answer.array.advice, width) + &advised(&answer.array, width);
    states(&answer.array, width) + &best + &gain + &advice
}

/// What comes before any setting.
fn states(answer: &ArrayAnswer, width: usize) -> String {
    answer.first.iter().map(|step| entry("State", step, width)).collect()
}

/// The name of the array, with what is unusual about it.
fn heading(answer: &ArrayAnswer, width: usize) -> String {
    example(answer, width) + &wrapped(&answer.name, width) + "\n"
}

/// Why the array is an example, if it is one.
fn example(answer: &ArrayAnswer, width: usize) -> String {
    let Some(reason) = &answer.is_example_because else { return String::new() };
    let example = format!("An example: {reason}. Give the path of an array, or an array file.");
    wrapped(&example, width) + "\n"
}

/// The array that the advice is for, where it is not the one at hand.
fn advised(answer: &ArrayAnswer, width: usize) -> String {
    answer.advised_array().map_or_else(String::new, |it| entry("", &it, width))
}

/// The members, with how sure their models are, of an array that had the members `before`.
fn members(answer: &ArrayAnswer, before: &[AnsweredMember], width: usize) -> String {
    let is_same = |member: &AnsweredMember| {
        before.iter().any(|old| (old.devid, &old.model) == (member.devid, &member.model))
    };
    let shown = |member: &AnsweredMember| {
        let stated = if is_same(member) { "as the array says" } else { "as --what-if says" };
        let confidence = member.confidence.unwrap_or(stated);
        let model = match answer.is_measured {
            true => "measured".to_owned(),
            false => format!("simulated as {} ({confidence})", member.model),
        };
        let cache = member.cache.as_ref().filter(|_| !answer.is_measured);
        let cache = cache.map_or_else(String::new, |cache| format!(", behind a cache of {cache}"));
        let model = model + &cache;
        match (member.is_in_service, member.remark) {
            (true, _) => model,
            (false, None) => "missing, not read".to_owned(),
            (false, Some(remark)) => format!("{model}; {remark}"),
        }
    };
    let mut text = String::new();
    let runs = answer.members.chunk_by(|a, b| a.devid + 1 == b.devid && shown(a) == shown(b));
    // A long run of equal members is one line.
    let parts = runs.flat_map(|run| run.chunks(if run.len() > 4 { run.len() } else { 1 }));
    for part in parts {
        let (first, last) = (&part[0], &part[part.len() - 1]);
        let device = |member: &AnsweredMember| member.device.clone().unwrap_or_default();
        let ends = |a: String, b: String| if a == b { a } else { format!("{a} to {b}") };
        let devids = ends(first.devid.to_string(), last.devid.to_string());
        let devices = ends(device(first), device(last));
        let devices = if devices.is_empty() { devices } else { format!(", {devices}") };
        let name = if part.len() > 1 { "devids" } else { "devid" };
        let line = format!("{name} {devids}{devices}: {}", shown(first));
        text += &format!("  {}\n", wrapped(&line, width - 4).replace('\n', "\n    "));
    }
    text
}

/// The advice for a terminal of `width` characters. A shell joins the lines of a command again.
pub fn render(advice: &Advice, width: usize) -> String {
    let assumed = if advice.now_is_assumed { ASSUMED } else { "" };
    let now = entry("You have", &format!("{}{assumed}{}", advice.now, unserved(advice)), width);
    let remark = advice.remark.as_ref().map_or_else(String::new, |it| entry("", it, width));
    now + &remark + &choices(advice, width)
}

/// The load that what is in force does not serve.
fn unserved(advice: &Advice) -> String {
    let section = |it: &UnservedSection| {
        format!("{} of {} requests/s of {}", number(it.iops), it.asked, it.name)
    };
    let sections: Vec<String> = advice.unserved.iter().map(section).collect();
    match sections.is_empty() {
        true => String::new(),
        false => format!("; it does not serve the load: {}", sections.join(", ")),
    }
}

/// The entries after what is in force.
fn choices(advice: &Advice, width: usize) -> String {
    let mut text = match &advice.offered {
        None => {
            let why = match advice.has_choice {
                true => {
                    "nothing to choose: the jobs completed no read, and the setting decides reads"
                }
                false => "nothing to choose: each read has a single member that can serve it",
            };
            entry("Best offered", why, width)
        }
        Some(offered) if offered.spec == advice.now => {
            let same = match advice.is_guess {
                false => format!("nothing better than {} in {}", advice.now, advice.system),
                true => format!(
                    "nothing clearly better than {} in {}, if the disks are as guessed: measure \
                     them first, by `mirrorball advise PATH --probe` on their machine",
                    advice.now, advice.system
                ),
            };
            let mut text = entry("Best offered", &same, width);
            if !offered.commands.add.is_empty() {
                text += &lines("add", &offered.commands.add, width);
                let new = "NEW is the disk in the place of the one that failed";
                text += &entry("", new, width);
            }
            text
        }
        Some(offered) => candidate("Best offered", offered, advice, width),
    };
    if let Some(conditional) = &advice.conditional {
        text += &candidate("On condition", conditional, advice, width);
    }
    match &advice.known {
        Some(known) => text += &candidate("Best known", known, advice, width),
        None if advice.offered.is_none() => {}
        None => text += &entry("Best known", "nothing else that is worth a change", width),
    }
    text + &entry("Confidence", &advice.confidence, width)
}

fn candidate(name: &str, candidate: &AdvisedPolicy, advice: &Advice, width: usize) -> String {
    let factor = candidate_speed(candidate, &advice.compared);
    let takes =
        candidate.takes.as_ref().map_or_else(String::new, |takes| format!("; needs {takes}"));
    let mut text = entry(name, &format!("{}: {factor}{takes}", candidate.spec), width);
    let commands = &candidate.commands;
    text += &all_commands(commands, width);
    let is_doubtful = candidate.is_unverified && !commands.set.is_empty();
    let remarks = [
        commands.persist.clone(),
        candidate.note.clone(),
        is_doubtful.then(|| "These commands were not verified in a source.".to_owned()),
    ];
    for remark in remarks.iter().flatten() {
        text += &entry("", remark, width);
    }
    text
}

/// The commands, and what the words in capitals in them stand for.
fn all_commands(commands: &Commands, width: usize) -> String {
    let mut text = lines("add", &commands.add, width);
    text += &lines("set", &commands.set, width);
    text += &lines("check", commands.check.as_slice(), width);
    text += &lines("undo", &commands.undo, width);
    if !commands.placeholders.is_empty() {
        text += &entry("", &commands.placeholders.join("; "), width);
    }
    text
}

pub(super) fn lines(name: &str, commands: &[String], width: usize) -> String {
    let (head, indent) = match width >= NARROW {
        true => (format!("{:NAME_WIDTH$}{name:<6} ", ""), NAME_WIDTH + 7),
        false => (format!("{:INDENT_NARROW$}{name}\n{:INDENT_NARROW$}", "", ""), INDENT_NARROW),
    };
    let named = |command: &String| {
        if indent + command.chars().count() <= width {
            return format!("{head}{command}\n");
        }
        let (command, remark) = command.split_once("  # ").unwrap_or((command, ""));
        let remark = if remark.is_empty() { String::new() } else { entry("", remark, width) };
        // Two blanks more in front of a further line, and a backslash behind.
        let further = format!(" \\\n{:indent$}  ", "");
        let lines = command_lines(command, width.saturating_sub(indent + 4)).join(&further);
        format!("{head}{lines}\n{remark}")
    };
    commands.iter().map(named).collect()
}

/// How much faster a policy is, over how many jobs, and under which it is slower.
fn candidate_speed(candidate: &AdvisedPolicy, compared: &str) -> String {
    let Some(factor) = candidate.factor else {
        return "what you have completed nothing".to_owned();
    };
    let over = match candidate.jobs {
        0 | 1 => String::new(),
        jobs => format!(" (geometric mean over {jobs} jobs)"),
    };
    let speed = speed_text(factor, candidate.is_rough);
    let short = if candidate.is_overloaded { ", which is not all of the load" } else { "" };
    let throughput = candidate.throughput.map_or_else(String::new, |factor| {
        format!("; {} times the requests/s{short}", factor_text(factor, candidate.is_rough))
    });
    let only_if = candidate.only_if.filter(|_| factor != 1.0);
    let only_if = only_if.map_or_else(String::new, |only_if| format!(", {only_if}"));
    let slower = candidate.slower.iter().map(|it| (it.job.as_str(), it.factor));
    let work = candidate.slow_work.as_ref().map_or_else(String::new, |it| format!("; but {it}"));
    let slower = slower_jobs(", but", slower);
    // One job loses more than all gain on average.
    let loses_more = |it: &SlowerJob| factor < CLEAR_GAIN && it.factor * factor < 1.0;
    let doubt = match candidate.slower.iter().any(loses_more) {
        true => "; which is better depends on the load, so give `advise` a job like yours",
        false => "",
    };
    format!("{speed} in {compared}{over}{only_if}{slower}{throughput}{doubt}{work}")
}

/// The jobs that are slower, if there are some, behind `before`.
fn slower_jobs<'a>(before: &str, jobs: impl Iterator<Item = (&'a str, f64)>) -> String {
    let jobs: Vec<String> = jobs.map(|(job, factor)| format!("{job} ({factor:.2})")).collect();
    if jobs.is_empty() {
        String::new()
    } else {
        format!("{before} slower under {}", jobs.join(", "))
    }
}

/// A name and a text behind it, or below it on a narrow terminal, wrapped.
pub(super) fn entry(name: &str, text: &str, width: usize) -> String {
    if width >= NARROW {
        let indent = format!("\n{:NAME_WIDTH$}", "");
        let lines = whole_words(text, width - NAME_WIDTH).join(&indent);
        return format!("{name:<NAME_WIDTH$}{lines}\n");
    }
    let indent = format!("\n{:INDENT_NARROW$}", "");
    let lines = whole_words(text, width.saturating_sub(INDENT_NARROW)).join(&indent);
    let name = if name.is_empty() { String::new() } else { format!("{name}\n") };
    format!("{name}{:INDENT_NARROW$}{lines}\n", "")
}

/// The columns of policies: name and policy.
fn columns(advice: &Advice) -> Vec<(&'static str, &str)> {
    let better = advice.candidates().filter(|(_, candidate)| candidate.spec != advice.now);
    let better = better.map(|(name, candidate)| (name, candidate.spec.as_str()));
    [("now", advice.now.as_str())].into_iter().chain(better).collect()
}

/// A table with a row for each name, and its texts; several below one another where it is too wide.
fn table<N: AsRef<str>>(
    first: &str,
    names: &[N],
    rows: Vec<(String, Vec<String>)>,
    style: Style,
) -> String {
    let mut columns = vec![Column::left(first)];
    columns.extend(names.iter().map(|name| Column::right(name.as_ref())));
    let row = |(name, texts): (String, Vec<String>)| GridRow {
        texts: [vec![name], texts].concat(),
        emphasis: Emphasis::None,
    };
    let grid = Grid { columns, rows: rows.into_iter().map(row).collect() };
    grid.folded(style.width_columns).iter().map(|part| draw(part, style)).collect()
}

/// What each candidate reaches under each job, as a factor of what is in force; the speed of that
/// if there is nothing else.
fn jobs(answer: &ArrayAnswer, style: Style) -> String {
    let columns = columns(&answer.advice);
    let unit = answer.jobs.first().map_or("requests/s", |job| job.unit);
    let is_alone = columns.len() == 1;
    let row = |job: &JobAnswer, name: &str, text: &dyn Fn(&JobFigure) -> Option<String>| {
        let figures =
            columns.iter().map(|(_, spec)| job.policies.iter().find(|it| it.policy == *spec));
        let texts = figures.map(|it| it.and_then(text).unwrap_or("-".to_owned()));
        (name.to_owned(), texts.collect())
    };
    let factor = |relative: Option<f64>| relative.map(|it| factor_text(it, false));
    let rows = answer.jobs.iter().flat_map(|job| {
        let whole = |it: &JobFigure| match is_alone {
            true => Some(number(it.value)),
            false => factor(it.relative),
        };
        let mut rows = vec![row(job, &job.job, &whole)];
        let sections = job.policies.first().map_or(&[][..], |it| &it.sections);
        for (place, section) in sections.iter().enumerate().filter(|_| !is_alone) {
            let part = |it: &JobFigure| factor(it.sections[place].relative);
            rows.push(row(job, &format!("  {}", section.section), &part));
        }
        rows
    });
    let names: Vec<&str> =
        columns.iter().map(|(name, _)| if is_alone { unit } else { name }).collect();
    let title = if is_alone { "Speed of what you have" } else { "Speed relative to what you have" };
    let table = table("job", &names, rows.collect(), style);
    let score = if is_alone && unit == "score" {
        note(SCORE, style.width_columns) + "\n"
    } else {
        String::new()
    };
    format!("{title}\n{table}{score}{}", spread(answer, style.width_columns))
}

/// What the number of the reading process decides.
fn by_process(answer: &ArrayAnswer, style: Style) -> String {
    let mut text = String::new();
    for (_, spec) in columns(&answer.advice) {
        let rows = answer.jobs.iter().filter_map(|job| {
            let figure = job.policies.iter().find(|figure| figure.policy == spec)?;
            let values: Vec<String> = figure.by_process.iter().map(|it| number(*it)).collect();
            (!values.is_empty()).then(|| (job.job.clone(), values))
        });
        let rows: Vec<_> = rows.collect();
        let Some(copies) = rows.first().map(|(_, values)| values.len()) else { continue };
        let names: Vec<String> = (0..copies).map(|it| format!("pid % {copies} = {it}")).collect();
        let unit = answer.jobs.first().map_or("requests/s", |job| job.unit);
        let title = format!("Under {spec} the number of the reading process decides, in {unit}");
        let title = wrapped(&title, style.width_columns);
        text += &format!("\n{title}\n{}", table("job", &names, rows, style));
    }
    text
}

/// The widest interval over the repeats.
fn spread(answer: &ArrayAnswer, width: usize) -> String {
    let columns = columns(&answer.advice);
    let figures = answer.jobs.iter().flat_map(|job| {
        let named = job.policies.iter().filter_map(|figure| {
            let (name, _) = columns.iter().find(|(_, spec)| *spec == figure.policy)?;
            Some((figure.spread?, *name, job.job.as_str(), figure.policy.as_str()))
        });
        named.collect::<Vec<_>>()
    });
    let Some((spread, name, job, policy)) = figures.max_by(|a, b| a.0.total_cmp(&b.0)) else {
        return String::new();
    };
    let mut text = format!(
        "Spread over the repeats (95 % intervals): at most ±{:.0} %, of `{job}`, {name}",
        (spread * 100.0).ceil()
    );
    let mut of_jobs = answer.jobs.iter().flat_map(|job| &job.policies);
    let is_by_process = of_jobs.any(|it| it.policy == policy && !it.by_process.is_empty());
    if spread > UNCERTAIN {
        text += match is_by_process {
            true => "; it comes from the number of the reading process, see below",
            false => "; more repeats (--repeats) or longer runs (--duration) narrow it",
        };
    }
    note(&text, width) + "\n"
}

/// The commands of a knob, and how it survives a restart.
fn knob_lines(commands: &Commands, width: usize) -> String {
    let persist = commands.persist.iter().map(|it| entry("", it, width));
    all_commands(commands, width) + &persist.collect::<String>()
}
