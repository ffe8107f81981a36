//! The `mirrorball` command: a table of contents.
//!
//! Each sub-command is a file with its arguments, its help and its `run`. Errors are printed once,
//! here. Exit codes: 0 success, 1 failure, 2 invalid command line or input, 130 interrupted by
//! Ctrl-C (as a shell reports a program that SIGINT ended).

// Both panic where they cannot write: `screen` has what does not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod advise;
mod bench;
mod capture;
mod check;
mod check_job;
mod clear;
mod command_line;
mod compare;
mod completions;
mod create;
mod ctl;
mod detect;
mod devices;
mod emulate;
mod ending;
mod examine;
mod explain;
mod folders;
mod import;
mod league;
mod man;
mod models;
mod numbers;
mod output_file;
mod policies;
mod probe;
mod program;
mod programs;
mod progress;
mod ranking;
mod recipe;
mod redundancy;
mod report;
mod rounds;
mod screen;
mod serve;
mod serving;
mod sweep;
mod terminal;
mod tune;
mod watch;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Compares read policies of mirrored storage on simulated arrays, and serves volumes with them.
#[derive(Debug, Parser)]
#[command(name = "mirrorball", bin_name = "mirrorball", version, propagate_version = true)]
#[command(max_term_width = 100)]
#[command(
    after_help = "Start with `mirrorball advise`. Exit codes: 0 success, 1 failure (a check \
                        failed, or a system error), 2 invalid command line or input, 130 \
                        interrupted."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Advise(advise::Args),
    Detect(detect::Args),
    Probe(probe::Args),
    Bench(bench::Args),
    Compare(compare::Args),
    Report(report::Args),
    Explain(explain::Args),
    Recipe(recipe::Args),
    League(league::Args),
    Sweep(sweep::Args),
    Import(import::Args),
    Capture(capture::Args),
    Policies(policies::Args),
    Program(program::Args),
    Models(models::Args),
    Check(check::Args),
    Emulate(emulate::Args),
    Create(create::CreateArgs),
    Examine(examine::Args),
    Clear(clear::Args),
    Serve(serve::Args),
    Ctl(ctl::Args),
    Watch(watch::Args),
    Tune(tune::Args),
    Completions(completions::Args),
    Man(man::Args),
}

fn main() -> ExitCode {
    let result = match command_line::parse::<Cli>().command {
        Command::Advise(args) => advise::run(&args),
        Command::Detect(args) => detect::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Recipe(args) => recipe::run(&args),
        Command::League(args) => league::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Capture(args) => capture::run(&args),
        Command::Policies(args) => policies::run(&args),
        Command::Program(args) => program::run(&args),
        Command::Models(args) => models::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Emulate(args) => emulate::run(&args),
        Command::Create(args) => create::create(&args),
        Command::Examine(args) => examine::run(&args),
        Command::Clear(args) => clear::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Ctl(args) => ctl::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    };
    screen::say_kept();
    let ending = result.unwrap_or_else(|failure| {
        screen::say(format_args!("error: {:#}", failure.cause()));
        failure.ending()
    });
    ending.exit_code()
}

#[cfg(test)]
mod examples_tests;
