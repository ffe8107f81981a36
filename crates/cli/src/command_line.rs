//! Parsing of the command line, where clap's own answers do not help.

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Command, Parser};
use std::ffi::OsString;

/// The command line, or the end of the process with a message.
pub(crate) fn parse<P: Parser>() -> P {
    try_parse(std::env::args_os().collect()).unwrap_or_else(|error| error.exit())
}

fn try_parse<P: Parser>(mut words: Vec<OsString>) -> Result<P, Error> {
    // clap takes `help --help` for the name of a command.
    if words.get(1).is_some_and(|word| word == "help") {
        words.retain(|word| word != "--help" && word != "-h");
    }
    let mut command: Command = P::command();
    let matches = command.try_get_matches_from_mut(words).map_err(without_wrong_tip)?;
    P::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;

    fn refusal(words: &[&str]) -> String {
        let words = ["mirrorball"].iter().chain(words).map(OsString::from).collect();
        try_parse::<Cli>(words).unwrap_err().to_string()
    }

    #[test]
    fn unknown_options_are_not_offered_as_names() {
        let message = refusal(&["compare", "--size", "5"]);
        assert!(message.starts_with("error: unexpected argument '--size' found"), "{message}");
        assert!(!message.contains("-- --size"), "{message}");
        let message = refusal(&["compare", "--repeat", "5"]);
        assert!(message.contains("a similar argument exists: '--repeats'"), "{message}");
    }

    #[test]
    fn negative_numbers_are_refused_with_the_range() {
        for words in [["compare", "-n", "-1"], ["league", "-n", "-1"], ["compare", "-t", "-1"]] {
            assert!(refusal(&words).contains("expected a whole number from 1 to"), "{words:?}");
        }
        let message = refusal(&["compare", "-s", "-1"]);
        assert!(message.contains("expected a seed: a whole number from 0"), "{message}");
    }

    #[test]
    fn help_of_help_is_the_help() {
        for words in [["help", "--help"], ["help", "-h"]] {
            assert!(refusal(&words).contains("Usage: mirrorball <COMMAND>"), "{words:?}");
        }
        assert!(refusal(&["help", "compare", "--help"]).contains("Usage: mirrorball compare"));
    }
}
