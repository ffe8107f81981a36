//! Parsing of the command line by clap, with commands in groups and examples in whole lines.

use crate::screen;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Command, Parser};
use mirrorball_core::suggest::closest_name;
use mirrorball_lab::report::{command_lines, wrapped};
use std::ffi::OsString;

/// The command line, or the end of the process with a message.
pub(crate) fn parse<P: Parser>() -> P {
    try_parse(std::env::args_os().collect()).unwrap_or_else(|error| {
        if !error.use_stderr() {
            error.exit();
        }
        // Not through clap, which prints control characters of the command line as they are.
        screen::say(error.to_string().trim_end());
        std::process::exit(error.exit_code())
    })
}

fn try_parse<P: Parser>(words: Vec<OsString>) -> Result<P, Error> {
    let width = screen::width_columns().unwrap_or(WIDTH_MAX).min(WIDTH_MAX);
    let mut command = with_whole_examples(P::command(), width).term_width(width);
    command.build();
    let mut command = with_grouped_commands(command, width);
    let matches = command.try_get_matches_from_mut(&words);
    let matches = matches.map_err(|error| {
        with_example(suggesting(nearest_first(error), &command, &words), &command, &words)
    })?;
    P::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// The error with the most similar name first: clap has it last.
fn nearest_first(mut error: Error) -> Error {
    for kind in [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg] {
        if let Some(ContextValue::Strings(names)) = error.get(kind) {
            let names = names.iter().rev().cloned().collect();
            error.insert(kind, ContextValue::Strings(names));
        }
    }
    error
}

/// The error with the commands that have what was not found where it was given, if clap suggests
/// nothing: `ctl scrub` for `scrub`, `scrub start --repair` for `ctl scrub --repair`.
fn suggesting(mut error: Error, command: &Command, words: &[OsString]) -> Error {
    let kinds = [ContextKind::InvalidSubcommand, ContextKind::InvalidArg];
    let found = kinds.into_iter().find_map(|kind| error.get(kind));
    let known =
        [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::Suggested];
    let Some(ContextValue::String(missing)) = found else { return error };
    if known.into_iter().any(|kind| error.get(kind).is_some()) {
        return error;
    }
    let at = named_command(command, words);
    let option = missing.strip_prefix("--");
    let has = |below: &&Command| match option {
        Some(option) => below.get_arguments().any(|it| it.get_long() == Some(option)),
        None => below.find_subcommand(missing).is_some(),
    };
    // Up to the command that was meant, an option is named with it.
    let from =
        if option.is_some() && at.get_name() != command.get_name() { at.get_name() } else { "" };
    let commands = at.get_subcommands().filter(has);
    let commands =
        commands.map(|it| format!("{from} {} {missing}", it.get_name()).trim().to_owned());
    let mut commands: Vec<String> = commands.collect();
    if commands.is_empty() && option.is_none() {
        let near = closest_name(missing, at.get_subcommands().map(Command::get_name));
        commands.extend(near.map(str::to_owned));
    }
    if !commands.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(commands));
    }
    error
}

/// The command that these words lead to.
fn named_command<'a>(command: &'a Command, words: &[OsString]) -> &'a Command {
    let named = words.iter().filter_map(|word| word.to_str());
    named.fold(command, |at, word| at.find_subcommand(word).unwrap_or(at))
}

/// The error about a missing argument or value, with the first example that has it.
fn with_example(mut error: Error, command: &Command, words: &[OsString]) -> Error {
    let is_empty = |value: &ContextValue| *value == ContextValue::String(String::new());
    let missing = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(names))) => names.first(),
        (ErrorKind::InvalidValue, Some(ContextValue::String(name)))
            if error.get(ContextKind::InvalidValue).is_some_and(is_empty) =>
        {
            Some(name)
        }
        _ => None,
    };
    let help = named_command(command, words).get_after_help().map(ToString::to_string);
    let (Some(missing), Some(help)) = (missing, help) else { return error };
    // Positional arguments have no name in an example.
    let option = missing.split([' ', '<', '[', '=']).next().unwrap_or_default();
    let lines: Vec<&str> = help.lines().collect();
    let commands = lines.split_inclusive(|line| !line.ends_with('\\')).map(|it| it.join("\n"));
    let mut examples = commands.filter(|it| it.starts_with("  mirrorball "));
    if let Some(example) = examples.find(|it| it.contains(option)) {
        let tip = format!("for example\n{example}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// The command with examples that fit into a terminal of this width. clap breaks lines between any
/// words, which would make two commands of one; here the shell joins them again.
fn with_whole_examples(command: Command, width: usize) -> Command {
    let mut command = command.mut_subcommands(|command| with_whole_examples(command, width));
    if let Some(text) = command.get_after_help() {
        let text = text.to_string();
        let lines: Vec<String> = text.split('\n').map(|line| broken_example(line, width)).collect();
        command = command.after_help(lines.join("\n"));
    }
    command
}

/// Commands by what they are for, as `--help` lists them.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Choose a setting for an array", &["advise", "tune", "watch", "detect", "probe", "bench"]),
    ("Compare policies", &["compare", "report", "explain", "import", "capture"]),
    ("Repeat and scale experiments", &["recipe", "league", "sweep"]),
    ("Look up and write", &["policies", "program", "models", "check"]),
    ("Run volumes", &["create", "serve", "ctl", "examine", "clear", "emulate"]),
    ("Tools", &["completions", "man", "help"]),
];

/// The command with its sub-commands by groups, which clap cannot list.
fn with_grouped_commands(command: Command, width: usize) -> Command {
    let longest = command.get_subcommands().map(|it| it.get_name().len()).max().unwrap_or(0);
    let line = |name: &&str| {
        let known = command.find_subcommand(name).and_then(Command::get_about);
        let about = known.map_or_else(String::new, ToString::to_string);
        let indent = longest + 4;
        let text = wrapped(&about, width.saturating_sub(indent).max(1));
        format!("  {name:<longest$}  {}\n", text.replace('\n', &format!("\n{:indent$}", "")))
    };
    let group = |(title, names): &(&str, &[&str])| {
        format!("{title}:\n{}\n", names.iter().map(line).collect::<String>())
    };
    let groups: String = GROUPS.iter().map(group).collect();
    let template = format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}

/// A line of examples, on several lines that end in a backslash if it is too long.
fn broken_example(line: &str, width: usize) -> String {
    if !line.starts_with("  mirrorball ") || line.chars().count() <= width {
        return line.to_owned();
    }
    // A longer indent of the lines behind the first, and a backslash.
    let lines = command_lines(line.trim(), width.saturating_sub(8));
    format!("  {}", lines.join(" \\\n      "))
}

/// Maximum width of the help in columns.
const WIDTH_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::CommandFactory;

    fn refusal(words: &[&str]) -> String {
        let words = ["mirrorball"].iter().chain(words).map(OsString::from).collect();
        try_parse::<Cli>(words).unwrap_err().to_string()
    }

    #[test]
    fn negative_numbers_are_refused_with_the_range() {
        for words in [["compare", "-n", "-1"], ["league", "-t", "-1"], ["compare", "-t", "-1"]] {
            assert!(refusal(&words).contains("expected a whole number from 1 to"), "{words:?}");
        }
        let message = refusal(&["compare", "-s", "-1"]);
        assert!(message.contains("expected a seed: a whole number from 0"), "{message}");
    }

    #[test]
    fn the_nearest_command_is_named_first() {
        assert!(refusal(&["compar"]).contains("'compare', 'clear'"), "{}", refusal(&["compar"]));
        assert!(refusal(&["help", "compar"]).contains("'compare'"));
    }

    #[test]
    fn a_missing_argument_or_value_is_answered_with_an_example() {
        for (words, expected) in [
            (&["explain"][..], "mirrorball explain two-ssd-raid1 rand-4k-qd32\n"),
            (&["advise", "--new"], "mirrorball advise --new /dev/sda /dev/sdb\n"),
            (&["advise", "-o", "a.toml"], "mirrorball advise /srv/data --probe -o my-array.toml\n"),
        ] {
            let message = refusal(words);
            assert!(message.contains(&format!("tip: for example\n  {expected}")), "{message}");
        }
        assert!(!refusal(&["advise", "--repeats", "x"]).contains("for example"));
    }

    #[test]
    fn a_command_or_option_in_the_wrong_place_is_answered_with_the_right_one() {
        for (words, expected) in [
            (&["scrub", "--repair"][..], "'ctl scrub'"),
            (&["ctl", "scrub", "--repair"], "'scrub start --repair'"),
        ] {
            assert!(refusal(words).contains(expected), "{}", refusal(words));
        }
    }

    #[test]
    fn examples_on_several_lines_are_one_command() {
        let line = "  mirrorball serve /dev/sdb /dev/sdc --export nbd:unix:/tmp/volume.sock";
        assert_eq!(broken_example(line, 100), line);
        let expected = "  mirrorball serve /dev/sdb \\\n      /dev/sdc --export \\\n      \
                        nbd:unix:/tmp/volume.sock";
        assert_eq!(broken_example(line, 40), expected);
        let prose = "Only lines that begin with the name of the program are examples of commands";
        assert_eq!(broken_example(prose, 40), prose);
        let mut command = with_whole_examples(Cli::command(), 40).term_width(40);
        let serve = command.find_subcommand_mut("serve").unwrap();
        let help = serve.clone().term_width(40).render_long_help().to_string();
        let examples = help.split("Examples:").nth(1).unwrap();
        let joined = examples.replace("\\\n", " ");
        for line in joined.trim_end().lines().skip(1) {
            assert!(line.starts_with("  mirrorball "), "{line} in\n{examples}");
        }
    }

    #[test]
    fn each_command_is_in_one_group() {
        let mut command = Cli::command();
        command.build();
        let mut names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        names.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(names, grouped);
        let help = refusal(&["--help"]);
        let advise = help.find("\n  advise ").unwrap();
        assert!(help.find("Choose a setting").unwrap() < advise, "{help}");
    }
}
