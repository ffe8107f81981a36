//! The examples in the help: every one is understood, down to the built-in names in it.

use crate::Cli;
use clap::{ArgMatches, Command, CommandFactory};
use mirrorball_core::policies::{PROGRAM_FILE, Spec, parse_list};
use mirrorball_disk::profile::ModelProfile;
use mirrorball_lab::evaluation::recipe;
use mirrorball_lab::experiment::inputs::{load_array, load_job};

/// Parsers of the value of an argument.
type Reader = fn(&str) -> Result<(), String>;

/// Commands, arguments of theirs that are names of ours, and what understands these.
const NAMES: [(&str, &str, Reader); 16] = [
    ("bench", "jobs", job),
    ("bench", "policy", policies),
    ("check", "files", array_or_job),
    ("compare", "array", array),
    ("compare", "jobs", job),
    ("compare", "policy", policies),
    ("emulate", "what", model_or_array),
    ("emulate", "policy", policies),
    ("explain", "array", array),
    ("explain", "job", job),
    ("explain", "policy", policies),
    ("league", "subject", policies),
    ("models", "name", model_or_array),
    ("policies", "name", policy_or_modifier),
    ("probe", "model", model_or_array),
    ("recipe", "names", published),
];

fn array(name: &str) -> Result<(), String> {
    unless_made_up(name, |name| load_array(name).map(drop))
}

fn job(name: &str) -> Result<(), String> {
    unless_made_up(name, |name| load_job(name).map(drop))
}

fn array_or_job(name: &str) -> Result<(), String> {
    array(name).or_else(|_| job(name))
}

fn model_or_array(name: &str) -> Result<(), String> {
    ModelProfile::builtin(name).map(drop).or_else(|_| array(name))
}

fn policies(list: &str) -> Result<(), String> {
    // Programs of the examples are files that their reader makes.
    let mut builtins = list.split(',').filter(|item| !item.starts_with(PROGRAM_FILE));
    builtins.try_for_each(|item| parse_list(item).map(drop).map_err(|error| error.to_string()))
}

fn policy_or_modifier(name: &str) -> Result<(), String> {
    let around = if name.starts_with('+') { format!("first{name}") } else { name.to_owned() };
    Spec::parse(&around).map(drop).map_err(|error| error.to_string())
}

fn published(name: &str) -> Result<(), String> {
    unless_made_up(name, |name| recipe::load(name).map(drop))
}

/// Reads a file, but for those of the user, which the examples make up.
fn unless_made_up(name: &str, read: fn(&str) -> anyhow::Result<()>) -> Result<(), String> {
    let made_up = ["my-", "path/to/"].iter().any(|begin| name.starts_with(begin));
    if made_up || name.contains('*') {
        return Ok(());
    }
    read(name).map_err(|error| error.to_string())
}

/// The lines of the help of a command and of those below it that call the program, without what a
/// shell makes of their ends.
fn examples(command: &Command) -> Vec<String> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let lines = help.lines().filter(|line| line.starts_with("  mirrorball "));
    let calls = lines.map(|line| line.split(['>', '|']).next().unwrap().trim().to_owned());
    calls.chain(command.get_subcommands().flat_map(examples)).collect()
}

/// Mistakes in the names of an example.
fn misnamed(matches: &ArgMatches) -> Vec<String> {
    let (command, matches) = matches.subcommand().unwrap();
    let of_command = NAMES.iter().filter(|(of, ..)| *of == command);
    let values = of_command.flat_map(|&(_, argument, read)| {
        let values = matches.get_raw(argument).into_iter().flatten();
        values.map(move |value| (value.to_str().unwrap(), read))
    });
    values.filter_map(|(value, read)| read(value).err()).collect()
}

#[test]
fn every_example_is_understood() {
    let command = Cli::command();
    let examples = examples(&command);
    assert!(examples.len() > 35, "only {} examples", examples.len());
    for example in examples {
        let words = example.split_whitespace().map(|word| word.trim_matches('\''));
        let matches = command.clone().try_get_matches_from(words);
        let matches = matches.unwrap_or_else(|error| panic!("{example}: {error}"));
        assert_eq!(misnamed(&matches), Vec::<String>::new(), "{example}");
    }
}

/// A row that names no argument would check nothing.
#[test]
fn every_argument_that_is_a_name_is_there() {
    let command = Cli::command();
    for (name, argument, _) in NAMES {
        let command = command.find_subcommand(name).unwrap();
        assert!(command.get_arguments().any(|it| it.get_id() == argument), "{name} {argument}");
    }
}
