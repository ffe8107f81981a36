//! Parsing of the command line, where clap's own answers do not help.

use crate::screen;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Command, Parser};
use mirrorball_lab::report::wrapped;
use std::ffi::OsString;

/// The command line, or the end of the process with a message.
pub(crate) fn parse<P: Parser>() -> P {
    try_parse(std::env::args_os().collect()).unwrap_or_else(|error| {
        if !error.use_stderr() {
            error.exit();
        }
        // Not through clap, which prints control characters of the command line as they are.
        screen::say(message(&error).trim_end());
        std::process::exit(error.exit_code())
    })
}

/// Words of clap, and those that the help has for the same.
const WORDS: [(&str, &str); 9] = [
    ("unexpected argument '-", "unknown option '-"),
    ("the argument '-", "the option '-"),
    ("a similar argument exists", "a similar option exists"),
    ("some similar arguments exist", "similar options exist"),
    ("unrecognized subcommand", "unknown command"),
    ("a similar subcommand exists", "a similar command exists"),
    ("some similar subcommands exist", "similar commands exist"),
    ("the following required arguments were not provided", "these are missing"),
    ("  tip:", "  help:"),
];

/// Required arguments, with the help for a command line without them.
const REQUIRED: [(&str, &str); 7] = [
    ("\n  <ARRAY>\n  <JOB>", "give an array and a job, for example two-ssd-raid1 rand-4k-qd1"),
    ("\n  <JOB>", "give a job file or a built-in job, for example rand-4k-qd1"),
    ("\n  <DIR|FILE>...", "give a results folder, or files from its `cells` folder"),
    ("\n  <FILE>...", "give array files (.toml) and job files (.fio), or names of built-in ones"),
    ("\n  <RESULT.json>...", "give files that fio wrote with --output-format=json+"),
    ("\n  <DEVICE|FILE>", "give a device or a file, or --model MODEL"),
    ("\n  <PATH|DEVICE>", "give a mount point, a device or the name of an array"),
];

fn message(error: &Error) -> String {
    match error.kind() {
        ErrorKind::ArgumentConflict => conflict(error),
        ErrorKind::MissingSubcommand => {
            let commands = named(error, ContextKind::ValidSubcommand);
            let commands: Vec<&String> = commands.iter().filter(|it| *it != "help").collect();
            let commands: Vec<&str> = commands.into_iter().map(String::as_str).collect();
            format!("error: the command is missing\n  help: give one of {}", commands.join(", "))
        }
        _ => in_our_words(&error.to_string()),
    }
}

/// Arguments that exclude each other, or one that is repeated.
fn conflict(error: &Error) -> String {
    let given = named(error, ContextKind::InvalidArg);
    let others = named(error, ContextKind::PriorArg);
    let listed = |arguments: &[String]| {
        arguments.iter().map(|it| bare(it)).collect::<Vec<String>>().join(", ")
    };
    let first = listed(&given);
    if given == others {
        let help = match given.iter().any(|argument| argument.ends_with("<LIST>")) {
            true => "give it once, with commas between its items",
            false => "give it once",
        };
        return format!("error: {first} is given more than once\n  help: {help}");
    }
    let others = listed(&others);
    format!("error: {first} cannot be used with {others}\n  help: leave one of them out")
}

/// The texts of an error's context.
fn named(error: &Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}

/// The name of an argument without the value of an option and without the brackets of usage lines.
fn bare(argument: &str) -> String {
    match argument.starts_with('-') {
        true => argument.split([' ', '=', '[']).next().unwrap_or_default().to_owned(),
        false => argument.trim_end_matches("...").trim_matches(['[', ']', '<', '>']).to_owned(),
    }
}

/// An error of clap in the words and with the quotation marks of the other errors.
fn in_our_words(error: &str) -> String {
    let (message, usage) = match error.find("\n\nUsage:") {
        Some(at) => error.split_at(at),
        None => (error, ""),
    };
    // A tip may follow.
    let message = message.replacen(" found\n", "\n", 1);
    let message = message.strip_suffix(" found").unwrap_or(&message);
    let help = REQUIRED.iter().find(|(argument, _)| message.ends_with(argument));
    let help = help.map(|(_, help)| format!("\n  help: {help}")).unwrap_or_default();
    let message = WORDS.iter().fold(message.to_owned(), |text, (old, new)| text.replace(old, new));
    quoted_like_ours(&message) + &help + &usage.replace("'--help'", "`--help`")
}

/// The text with names between backticks instead of apostrophes: those that begin after a space.
fn quoted_like_ours(text: &str) -> String {
    let mut quoted = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(" '") {
        let (before, name) = (&rest[..=at], &rest[at + 2..]);
        let Some(length) = name.find('\'') else { break };
        quoted += &format!("{before}`{}`", &name[..length]);
        rest = &name[length + 1..];
    }
    quoted + rest
}

fn try_parse<P: Parser>(mut words: Vec<OsString>) -> Result<P, Error> {
    // clap takes `help --help` for the name of a command.
    if words.get(1).is_some_and(|word| word == "help") {
        words.retain(|word| word != "--help" && word != "-h");
    }
    let width = screen::width_columns().unwrap_or(WIDTH_MAX).min(WIDTH_MAX);
    let mut command = with_whole_examples(P::command(), width).term_width(width);
    command.build();
    let mut command = with_grouped_commands(with_narrow_usage(command, width), width);
    let matches = command.try_get_matches_from_mut(words).map_err(without_wrong_tip)?;
    P::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
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

/// The command with usage lines that fit into a terminal of this width, which clap does not break.
fn with_narrow_usage(command: Command, width: usize) -> Command {
    let mut command = command.mut_subcommands(|command| with_narrow_usage(command, width));
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    // What stands before it, and the indent of the lines after the first.
    const BEFORE: usize = "Usage: ".len();
    if usage.contains('\n') || BEFORE + usage.chars().count() <= width {
        return command;
    }
    let mut columns = BEFORE;
    let mut text = String::new();
    for word in words_of_usage(usage) {
        let length = word.chars().count();
        if !text.is_empty() && columns + 1 + length > width {
            text += &format!("\n{:BEFORE$}", "");
            columns = BEFORE;
        } else if !text.is_empty() {
            text.push(' ');
            columns += 1;
        }
        text += &word;
        columns += length;
    }
    command.override_usage(text)
}

/// The words of a usage line; an option and its value are one.
fn words_of_usage(usage: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in usage.split(' ') {
        match words.last_mut() {
            Some(option) if option.starts_with("--") && word.starts_with('<') => {
                option.push(' ');
                *option += word;
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// A line of examples, on several lines that end in a backslash if it is too long.
fn broken_example(line: &str, width: usize) -> String {
    if !line.starts_with("  mirrorball ") || line.chars().count() <= width {
        return line.to_owned();
    }
    let (mut text, mut columns) = (String::from(" "), 1);
    for word in line.split_whitespace() {
        let length = word.chars().count();
        // With a space before it, and the backslash after it.
        if columns + 1 + length + 2 > width && columns > 4 {
            text += " \\\n     ";
            columns = 5;
        }
        text += &format!(" {word}");
        columns += 1 + length;
    }
    text
}

/// Removes the tip to write an unknown option after `--`, where it would be taken for a name.
fn without_wrong_tip(mut error: Error) -> Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().starts_with("to pass "));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    error
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
        message(&try_parse::<Cli>(words).unwrap_err())
    }

    #[test]
    fn unknown_options_are_not_offered_as_names() {
        let message = refusal(&["compare", "--size", "5"]);
        assert!(message.starts_with("error: unknown option `--size`\n"), "{message}");
        assert!(!message.contains("-- --size"), "{message}");
        let message = refusal(&["compare", "--repeat", "5"]);
        assert!(message.contains("help: a similar option exists: `--repeats`"), "{message}");
        assert!(message.starts_with("error: unknown option `--repeat`\n"), "{message}");
    }

    #[test]
    fn errors_speak_of_options_and_commands_and_quote_alike() {
        for (words, parts) in [
            (&["comapre"][..], &["unknown command `comapre`", "`compare`"][..]),
            (&["compare", "--rank", "foo"], &["`foo` for `--rank <LIST>`"]),
            (&["examine"], &["these are missing:\n  <DEVICE>..."]),
            (&["probe"], &["these are missing:\n  <DEVICE|FILE>\n  help: give a device or a file"]),
            (&["bench"], &["these are missing:\n  <PATH|DEVICE>\n  help: give a mount point, a"]),
            (&["explain"], &["\n  <ARRAY>\n  <JOB>\n  help: give an array and a job, for example"]),
            (&["explain", "x"], &["\n  <JOB>\n  help: give a job file or a built-in job"]),
            (&["check"], &["\n  help: give array files (.toml) and job files (.fio)"]),
            (&["report"], &["\n  help: give a results folder, or files from its `cells`"]),
            (&["import", "fio", "-o", "x"], &["\n  help: give files that fio wrote with"]),
            (
                &["detect", "-o", "x", "--json"],
                &["--json", "cannot be used with", "--output", "help: leave one of them out"],
            ),
            (
                &["advise", "--probe", "--sysroot", "x"],
                &["--probe cannot be used with --sysroot\n"],
            ),
            (&["policies", "pid", "--system", "md"], &["NAME cannot be used with --system"]),
            (&["bench", "x", "--restore"], &["PATH|DEVICE", "cannot be used with", "--restore"]),
            (&["recipe", "x", "--all"], &["NAME", "cannot be used with", "--all"]),
            (
                &["compare", "-p", "pid", "-p", "queue"],
                &["--policy is given more than once", "with commas between its items"],
            ),
            (&["compare", "-n", "2", "-n", "3"], &["--repeats is given more than once"]),
            (
                &["ctl", "-c", "x"],
                &["the command is missing", "status, members, stats, scrub, events, policy"],
            ),
        ] {
            let message = refusal(words);
            for part in parts {
                assert!(message.contains(part), "no {part} in {message}");
            }
            let message = message.split("\n\nUsage").next().unwrap();
            for word in ["subcommand", "argument", "'"] {
                assert!(!message.contains(word), "{word} in {message}");
            }
        }
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
    fn examples_on_several_lines_are_one_command() {
        let line = "  mirrorball serve /dev/sdb /dev/sdc --export nbd:unix:/tmp/volume.sock";
        assert_eq!(broken_example(line, 100), line);
        let expected = "  mirrorball serve /dev/sdb /dev/sdc \\\n      --export \\\n      \
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
    fn usage_lines_fit_into_a_narrow_terminal() {
        let mut command = Cli::command().term_width(40);
        command.build();
        let mut command = with_narrow_usage(command, 40);
        for (name, expected) in [
            ("serve", "Usage: mirrorball serve [OPTIONS]\n       --export <ADDRESS> [DEVICE]...\n"),
            ("man", "Usage: mirrorball man [OPTIONS]"),
        ] {
            let help = command.find_subcommand_mut(name).unwrap().render_help().to_string();
            let usage = &help[help.find("Usage:").unwrap()..];
            assert!(usage.starts_with(expected), "{usage}");
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

    #[test]
    fn help_of_help_is_the_help() {
        for words in [["help", "--help"], ["help", "-h"]] {
            assert!(refusal(&words).contains("Usage: mirrorball <COMMAND>"), "{words:?}");
        }
        assert!(refusal(&["help", "compare", "--help"]).contains("Usage: mirrorball compare"));
    }
}
