//! `mirrorball recipe`: repeats published experiments and compares the figures.

use crate::ending::{Ending, Failure};
use crate::{progress, screen};
use anyhow::{Context, Result, bail};
use mirrorball_lab::evaluation::recipe::compare::Repetition;
use mirrorball_lab::evaluation::recipe::{Recipe, builtin_names, load, markdown, run, text};
use mirrorball_lab::report::wrapped;

/// Repeat published experiments and compare the figures
///
/// A recipe holds published results, and the arrays and jobs that repeat the experiment in the
/// simulator. The command simulates each row of the published tables and prints the published and
/// the simulated values side by side. Without a name, or as `recipe list`, it lists the built-in
/// recipes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  mirrorball recipe
  mirrorball recipe btrfs-2025-hetero-hdd
  mirrorball recipe --all --format markdown > recipes.md
  mirrorball recipe path/to/my-recipe")]
pub(crate) struct Args {
    /// Recipes to run: built-in names, or folders with a `recipe.toml`
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Run all built-in recipes
    #[arg(long, conflicts_with = "names")]
    all: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    format: RecipeFormat,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum RecipeFormat {
    /// Tables for a terminal.
    Text,
    /// Everything as JSON.
    Json,
    /// Tables in Markdown; with --all a page of all recipes.
    Markdown,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let names: Vec<&str> = match args.all {
        true => builtin_names().collect(),
        false => args.names.iter().map(String::as_str).collect(),
    };
    let text = if names.is_empty() || names == ["list"] && !std::path::Path::new("list").exists() {
        check_listing(args).map_err(Failure::WrongUse)?;
        listing(screen::width_columns()).map_err(Failure::Fault)?
    } else {
        let recipes: Result<Vec<Recipe>> = names.iter().map(|name| load(name)).collect();
        let recipes = recipes.map_err(Failure::WrongUse)?;
        let done = repeat(&recipes).map_err(Failure::Fault)?;
        written(args, &done)
    };
    screen::print(&text)?;
    Ok(Ending::Done)
}

/// Lists names and titles. Where they do not fit into a line, titles go below the names.
fn listing(width_columns: Option<usize>) -> Result<String> {
    let width = builtin_names().map(str::len).max().unwrap_or(0);
    let mut text = String::new();
    for name in builtin_names() {
        let title = load(name)?.title;
        text += &match width_columns {
            Some(columns) if width + 2 + title.len() > columns => {
                let title = wrapped(&title, columns - 4).replace('\n', "\n    ");
                format!("{name}\n    {title}\n")
            }
            _ => format!("{name:<width$}  {title}\n"),
        };
    }
    let end = "`mirrorball recipe NAME` runs one, `mirrorball recipe --all` runs all.";
    let end = width_columns.map_or(end.to_owned(), |columns| wrapped(end, columns));
    Ok(format!("{text}\n{end}\n"))
}

fn repeat(recipes: &[Recipe]) -> Result<Vec<Repetition>> {
    let bar = progress::bar(recipes.iter().map(run::count).sum::<usize>() as u64, "runs");
    let done = recipes.iter().map(|recipe| {
        let runs = run::run(recipe, &|| bar.inc(1));
        Ok(Repetition::new(recipe, &runs.with_context(|| recipe.name.clone())?))
    });
    let done = done.collect();
    bar.finish_and_clear();
    done
}

fn written(args: &Args, done: &[Repetition]) -> String {
    match args.format {
        RecipeFormat::Json => screen::json(&done),
        RecipeFormat::Markdown if args.all => markdown::page(done),
        RecipeFormat::Markdown => done.iter().map(markdown::section).collect(),
        RecipeFormat::Text => {
            let parts = done.iter().map(|one| text::render(one, screen::style()));
            parts.collect::<Vec<_>>().join("\n\n")
        }
    }
}

/// Refuses options that apply to recipes that are run, if only the list is printed.
fn check_listing(args: &Args) -> Result<()> {
    match args.format {
        RecipeFormat::Text => Ok(()),
        RecipeFormat::Json | RecipeFormat::Markdown => bail!(
            "--format has no effect without a recipe\n  help: give names of recipes, or --all"
        ),
    }
}
