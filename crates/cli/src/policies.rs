//! `mirrorball policies`: lists the read policies and modifiers, or prints their pages.
//!
//! The listing, a page and the pages of the site are made from the same entries.

use crate::ending::{Ending, Failure};
use crate::program;
use crate::screen;
use anyhow::anyhow;
use mirrorball_core::policies::modifiers::{self, ModifierInfo};
use mirrorball_core::policies::{FAMILIES, ParameterInfo, PolicyInfo, Spec};
use mirrorball_lab::evaluation::advice::chosen_system::ChosenSystem;
use mirrorball_lab::experiment::systems::{self, Offer, System};
use mirrorball_lab::report::wrapped;

/// List the read policies and modifiers, or show the page of one
///
/// A policy chooses the mirror that serves a read. A modifier, written after a policy as in
/// `zfs/mirror+hedge`, changes what the policy does.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  mirrorball policies
  mirrorball policies latency-rr
  mirrorball policies btrfs/round-robin
  mirrorball policies +hedge")]
pub(crate) struct Args {
    /// Policy or modifier whose page is shown: a name or an alias; a modifier begins with `+`. A
    /// family, such as btrfs or md, lists its policies
    name: Option<String>,

    /// List only what a storage system offers, in VERSION or in its newest version
    #[arg(long, value_name = "SYSTEM[:VERSION]", conflicts_with = "name")]
    system: Option<ChosenSystem>,

    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: PageFormat,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PageFormat {
    /// Plain text for a terminal.
    Text,
    /// Markdown; without a name, all pages.
    Markdown,
}

/// A policy or modifier, as listings and pages show it.
struct PolicyEntry {
    usage: String,
    aliases: &'static [&'static str],
    summary: &'static str,
    parameters: &'static [ParameterInfo],
    /// Where it can be had, and how it is set there, each under a name.
    availability: Vec<(String, String)>,
    page: String,
}

/// Entries under one heading: a family, or the modifiers.
struct PolicyGroup {
    heading: String,
    entries: Vec<PolicyEntry>,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    if let Some(name) = args.name.as_deref().filter(|name| program::is_named(name)) {
        screen::print(&program::page(name)?)?;
        return Ok(Ending::Done);
    }
    if let Some(family) = args.name.as_deref().and_then(family) {
        let mut text = match args.format {
            PageFormat::Text => listing(screen::width_columns(), &groups_named(family)),
            PageFormat::Markdown => chapter(&groups_named(family)),
        };
        if let (PageFormat::Text, Ok(spec)) = (args.format, Spec::parse(family)) {
            text += &format!(
                "`{family}` alone is an alias of `{}`.\n",
                spec.info().map_or("", |info| info.name)
            );
        }
        screen::print(&text)?;
        return Ok(Ending::Done);
    }
    let entries = args.name.as_deref().map(find).transpose()?;
    if let Some(system) = &args.system {
        system.note.iter().for_each(|note| screen::say_later(format_args!("note: {note}")));
    }
    let text = match (args.format, entries) {
        (PageFormat::Text, None) => {
            listing(screen::width_columns(), &groups_of(args.system.as_ref()))
        }
        (PageFormat::Text, Some(entries)) => screen::broken(&each(&entries, page)),
        (PageFormat::Markdown, None) => chapter(&groups()),
        (PageFormat::Markdown, Some(entries)) => each(&entries, section),
    };
    screen::print(&text)?;
    Ok(Ending::Done)
}

/// The family that a name such as `btrfs` or `btrfs/*` means; `all` means every one. A name that is
/// the alias of a policy, too, such as `md`, means the family if that has other policies.
fn family(name: &str) -> Option<&str> {
    let family = name.strip_suffix("/*").unwrap_or(name);
    let found = FAMILIES.iter().find(|(_, policies)| policies[0].family() == family);
    let is_only_policy = found.is_some_and(|(_, policies)| policies.len() == 1 && name == family);
    (name == "all" || found.is_some() && !is_only_policy).then_some(family)
}

fn groups_named(family: &str) -> Vec<PolicyGroup> {
    let of_family = FAMILIES.iter().zip(groups());
    let named = of_family.filter(|((_, policies), _)| policies[0].family() == family);
    match family {
        "all" => groups(),
        _ => named.map(|(_, group)| group).collect(),
    }
}

/// Finds the policy with this name and its modifiers, or only the modifiers if there is no policy.
fn find(name: &str) -> Result<Vec<PolicyEntry>, Failure> {
    // A modifier without a policy is parsed with the policy `first`.
    let alone = name.starts_with('+');
    let text = if alone { format!("first{name}") } else { name.to_owned() };
    let spec = Spec::parse(&text).map_err(|error| {
        let bare = name.split(':').next().unwrap_or_default();
        let help = match systems::find(bare) {
            _ if modifiers::find(bare).is_some() => {
                format!("`mirrorball policies +{bare}` shows its page")
            }
            Ok(system) => {
                let title = &system.title;
                let what = format!("`{bare}` is a storage system ({title}), not a policy");
                let help = format!("`mirrorball policies --system {bare}` lists what it offers");
                return Failure::WrongUse(anyhow!("{what}\n  help: {help}"));
            }
            Err(_) => return Failure::WrongUse(anyhow!("{error}")),
        };
        Failure::WrongUse(error.with_help(help).into())
    })?;
    let policy = spec.info().filter(|_| !alone).map(PolicyEntry::from);
    Ok(policy.into_iter().chain(spec.modifiers().map(PolicyEntry::from)).collect())
}

/// The text with the lines of each paragraph and list item joined: the terminal decides where they
/// break. What is indented by four blanks, headings and tables stay as they are.
fn joined(text: &str) -> String {
    let is_fixed =
        |line: &str| line.is_empty() || line.starts_with(['#', '|']) || line.starts_with("```");
    let begins = |line: &str| {
        let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
        line.starts_with("- ") || line.starts_with("    ") || number.starts_with(". ")
    };
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        match lines.last_mut() {
            Some(last)
                if !is_fixed(last)
                    && !last.starts_with("    ")
                    && !is_fixed(line)
                    && !begins(line) =>
            {
                *last += " ";
                *last += line.trim_start();
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n") + "\n"
}

fn each(entries: &[PolicyEntry], write: fn(&PolicyEntry) -> String) -> String {
    entries.iter().map(write).collect::<Vec<String>>().join("\n")
}

fn groups() -> Vec<PolicyGroup> {
    let families = FAMILIES.iter().map(|(systems, family)| PolicyGroup {
        heading: format!("{} ({systems})", family[0].family()),
        entries: family.iter().map(PolicyEntry::from).collect(),
    });
    let modifiers = PolicyGroup {
        heading: "modifiers (after any policy, as in `zfs/mirror+hedge`)".to_owned(),
        entries: modifiers::ALL.iter().map(PolicyEntry::from).collect(),
    };
    families.chain([modifiers]).collect()
}

/// The groups of what a system offers; all of them without a system.
fn groups_of(system: Option<&ChosenSystem>) -> Vec<PolicyGroup> {
    let Some(chosen) = system else { return groups() };
    let is_offered = |entry: &PolicyEntry| {
        let name = entry.usage.split([':', '[']).next().unwrap_or_default();
        let has = |offer: &Offer| chosen.system.has(offer, chosen.version.as_ref());
        if let Some(modifier) = name.strip_prefix('+') {
            let mut offers = chosen.system.offers.iter();
            return offers.any(|it| it.modifier.as_deref() == Some(modifier) && has(it));
        }
        let info = mirrorball_core::policies::all().find(|info| info.name == name);
        info.is_some_and(|info| {
            systems::offers_of(info.name)
                .any(|(system, offer)| system.name == chosen.system.name && has(offer))
        })
    };
    let kept = |mut group: PolicyGroup| {
        group.entries.retain(is_offered);
        (!group.entries.is_empty()).then_some(group)
    };
    groups().into_iter().filter_map(kept).collect()
}

/// Lists each name with its parameters, aliases and summary, by family. Lines are wrapped if the
/// width is known.
fn listing(width_columns: Option<usize>, groups: &[PolicyGroup]) -> String {
    let usages = groups.iter().flat_map(|group| &group.entries).map(|entry| entry.usage.len());
    // An entry with many parameters may be wider than the first column.
    let most = width_columns.map_or(36, |columns| (columns / 3).min(36));
    let width = usages.filter(|&width| width <= most).max().unwrap_or(0);
    let wrap = |text: &str, indent: usize| match width_columns {
        Some(columns) => wrapped(text, columns - indent).replace('\n', &hanging(indent)),
        None => text.to_owned(),
    };
    let mut text = String::new();
    for group in groups {
        text += &format!("{}\n", wrap(&group.heading, 2));
        for PolicyEntry { usage, aliases, summary, .. } in &group.entries {
            let about = match aliases {
                [] => (*summary).to_owned(),
                aliases => format!("{summary} [{}]", aliases.join(", ")),
            };
            let about = wrap(&about, width + 4);
            let usage = shown_usage(usage, width_columns, 2);
            let gap = match width_columns {
                Some(_) if usage.len() > width => hanging(width + 4),
                _ => format!("{:1$}  ", "", width.saturating_sub(usage.len())),
            };
            text += &format!("  {usage}{gap}{about}\n");
        }
        text.push('\n');
    }
    let end =
        "Names in brackets are aliases. `mirrorball policies NAME` shows the page of a policy.";
    text + &wrap(end, 0) + "\n"
}

/// Line break and indent of a continued line.
fn hanging(indent: usize) -> String {
    format!("\n{:indent$}", "")
}

/// A usage behind `indent` blanks, broken between parameters where it is too wide.
fn shown_usage(usage: &str, width_columns: Option<usize>, indent: usize) -> String {
    let is_wide = |columns: &usize| indent + usage.len() > *columns;
    let Some(columns) = width_columns.filter(is_wide) else { return usage.to_owned() };
    let parts = wrapped(&usage.replace("[:", " [:"), columns.saturating_sub(indent + 4));
    parts.replace(" [:", "[:").replace('\n', &hanging(indent + 4))
}

fn page(entry: &PolicyEntry) -> String {
    let facts = facts(entry).into_iter().map(|(name, fact)| format!("{name}: {fact}.\n"));
    let facts: String = facts.collect();
    let text = match screen::width_columns() {
        Some(_) => joined(&entry.page),
        None => entry.page.clone(),
    };
    let usage = shown_usage(&entry.usage, screen::width_columns(), 0);
    format!("{usage}: {}\n\n{facts}\n{text}", entry.summary)
}

/// Aliases and parameters of an entry, and where it can be had, each under a name.
fn facts(entry: &PolicyEntry) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    if !entry.aliases.is_empty() {
        facts.push(("aliases".to_owned(), entry.aliases.join(", ")));
    }
    for parameter in entry.parameters {
        let default = parameter.default.map(|value| parameter.written(value));
        let default = default.unwrap_or_else(|| "the first devid of the array".to_owned());
        let (meaning, expected) = (parameter.meaning, parameter.expected());
        let fact = format!("{meaning}; {expected}; default: {default}");
        facts.push((parameter.name.to_owned(), fact));
    }
    facts.extend(entry.availability.iter().cloned());
    facts
}

/// Where a policy can be had: releases, patches, and the commands that set it.
fn availability(policy: &'static str) -> Vec<(String, String)> {
    let offers: Vec<(&System, &Offer)> = systems::offers_of(policy).collect();
    let mut places: Vec<String> =
        offers.iter().map(|(system, offer)| offer.availability(system)).collect();
    places.dedup();
    let mut facts = vec![("available in".to_owned(), places.join("; "))];
    for (system, offer) in offers.iter().filter(|(_, offer)| offer.policy != "*") {
        // A command on each line; a table has one line.
        let joined = |commands: &String| commands.replace('\n', " && ");
        let undo = offer.undo.as_ref().map(|undo| format!("undo: `{}`", joined(undo)));
        let set = offer.set.as_ref().map(|set| format!("`{}`", joined(set)));
        let parts = [set, offer.persist.clone(), undo];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let text = offer.written_for(policy, &parts.join("; "));
        let (text, meanings) = system.described(&text);
        let parts = [vec![text], meanings].concat();
        if offer.set.is_some() {
            let what = offer.modifier.as_ref().map_or_else(String::new, |it| format!("+{it} "));
            facts.push((format!("set {what}in {}", system.title), parts.join("; ")));
        }
    }
    facts
}

/// The chapter: a table per family, then a section per entry.
fn chapter(groups: &[PolicyGroup]) -> String {
    let mut text =
        "# Every policy and modifier\n\nMade by `mirrorball policies --format markdown` \
                    from the sources; do not edit.\n[policies.md](policies.md) explains how to \
                    name and combine them.\n"
            .to_owned();
    for group in groups {
        text += &format!("\n## {}\n\n| name | aliases | rule |\n|---|---|---|\n", group.heading);
        for entry in &group.entries {
            let aliases: Vec<String> = entry.aliases.iter().map(|it| format!("`{it}`")).collect();
            let aliases = aliases.join(", ");
            text += &format!("| `{}` | {aliases} | {} |\n", entry.usage, entry.summary);
        }
        for entry in &group.entries {
            text += &format!("\n{}", section(entry));
        }
    }
    text
}

/// The section of one entry; the headings of its page are one level below its own.
fn section(entry: &PolicyEntry) -> String {
    let facts = facts(entry).into_iter().map(|(name, fact)| format!("| {name} | {fact} |\n"));
    let facts = "| | |\n|---|---|\n".to_owned() + &facts.collect::<String>();
    let page = entry.page.lines().map(|line| match line.strip_prefix("# ") {
        Some(heading) => format!("\n#### {heading}\n\n"),
        None => format!("{line}\n"),
    });
    let page: String = page.collect();
    // The page and the headings both add a blank line.
    let page = page.replace("\n\n\n", "\n\n");
    format!("### `{}`\n\n{}.\n\n{facts}{page}", entry.usage, capitalised(entry.summary))
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

impl From<&'static PolicyInfo> for PolicyEntry {
    fn from(info: &'static PolicyInfo) -> PolicyEntry {
        PolicyEntry {
            usage: info.usage(),
            aliases: info.aliases,
            summary: info.summary,
            parameters: info.parameters,
            availability: availability(info.name),
            page: info.page(),
        }
    }
}

impl From<&ModifierInfo> for PolicyEntry {
    fn from(info: &ModifierInfo) -> PolicyEntry {
        PolicyEntry {
            usage: info.usage(),
            aliases: &[],
            summary: info.summary,
            parameters: info.parameters,
            availability: Vec::new(),
            page: info.page(),
        }
    }
}
