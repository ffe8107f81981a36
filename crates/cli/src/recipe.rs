//! `mirrorball recipe`: published experiments, repeated, number beside number.

use crate::ending::{Ending, Failure};
use crate::screen;
use anyhow::{Context, Result, anyhow, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use mirrorball_lab::evaluation::recipe::compare::Repetition;
use mirrorball_lab::evaluation::recipe::{Recipe, builtin_names, load, markdown, page, run, text};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where `--report` writes.
const PAGE: &str = "recipes.html";

/// Repeat published experiments and show their figures beside ours
///
/// A recipe is an array, jobs and the table that somebody published of them. Without a name the
/// recipes are listed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  mirrorball recipe
  mirrorball recipe btrfs-2025-hetero-hdd
  mirrorball recipe --all --report
  mirrorball recipe --all --format markdown -o recipes.md
  mirrorball recipe path/to/my-recipe")]
pub(crate) struct Args {
    /// The recipes to run: built-in names, or folders with a `recipe.toml`
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Run all built-in recipes
    #[arg(long, conflicts_with = "names")]
    all: bool,

    /// Also write a page with bars, `recipes.html` in this folder
    #[arg(long)]
    report: bool,

    /// How to write it
    #[arg(short, long, value_enum, default_value = "text")]
    format: Format,

    /// Write to this new file instead of the terminal
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// How to write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For a terminal.
    Text,
    /// Everything, for programs.
    Json,
    /// For a web page: of all recipes, the chapter of the book.
    Markdown,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let names: Vec<&str> = match args.all {
        true => builtin_names().collect(),
        false => args.names.iter().map(String::as_str).collect(),
    };
    let text = if names.is_empty() {
        listing().map_err(Failure::Fault)?
    } else {
        let recipes: Result<Vec<Recipe>> = names.iter().map(|name| load(name)).collect();
        let recipes = recipes.map_err(Failure::WrongUse)?;
        // Before minutes of work rather than after.
        refuse_existing(args).map_err(Failure::WrongUse)?;
        let done = repeat(&recipes).map_err(Failure::Fault)?;
        if args.report {
            save(Path::new(PAGE), &page::render(&done)).map_err(Failure::WrongUse)?;
            screen::say(format_args!("the report is in {PAGE}"));
        }
        written(args, &done).map_err(Failure::Fault)?
    };
    match &args.output {
        None => screen::print(&text)?,
        Some(path) => save(path, &text).map_err(Failure::WrongUse)?,
    }
    Ok(Ending::Done)
}

fn listing() -> Result<String> {
    let width = builtin_names().map(str::len).max().unwrap_or(0);
    let mut text = String::new();
    for name in builtin_names() {
        text += &format!("{name:<width$}  {}\n", load(name)?.title);
    }
    Ok(text + "\n`mirrorball recipe NAME` repeats one, `mirrorball recipe --all` all of them.\n")
}

fn repeat(recipes: &[Recipe]) -> Result<Vec<Repetition>> {
    // Hidden by indicatif itself where stderr is no terminal.
    let bar = ProgressBar::new(recipes.iter().map(run::count).sum::<usize>() as u64);
    let template = "{bar:40} {pos}/{len} runs, {eta} to go";
    bar.set_style(ProgressStyle::with_template(template).expect("the template is well formed"));
    let done = recipes.iter().map(|recipe| {
        let runs = run::run(recipe, &|| bar.inc(1));
        Ok(Repetition::new(recipe, &runs.with_context(|| recipe.name.clone())?))
    });
    let done = done.collect();
    bar.finish_and_clear();
    done
}

fn written(args: &Args, done: &[Repetition]) -> Result<String> {
    Ok(match args.format {
        Format::Json => serde_json::to_string_pretty(done)? + "\n",
        Format::Markdown if args.all => markdown::page(done),
        Format::Markdown => done.iter().map(markdown::section).collect(),
        Format::Text => {
            let parts = done.iter().map(|one| text::render(one, screen::style()));
            parts.collect::<Vec<_>>().join("\n\n")
        }
    })
}

fn refuse_existing(args: &Args) -> Result<()> {
    let page = args.report.then_some(Path::new(PAGE));
    for path in args.output.as_deref().into_iter().chain(page) {
        ensure!(!path.exists(), "{}: there is one already (move it away)", path.display());
    }
    Ok(())
}

/// Nothing is overwritten unasked.
fn save(path: &Path, text: &str) -> Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| {
        anyhow!("{}: {error} (-o names a file that is not there yet)", path.display())
    })?;
    file.write_all(text.as_bytes()).with_context(|| format!("{}: cannot write", path.display()))
}
