//! Recipes: published experiments, repeated; published and simulated figures side by side.
//!
//! A recipe is data: a folder with `recipe.toml`, arrays and fio job files. `recipe.toml` names the
//! source, states every parameter that the source leaves free and how it was chosen, and holds the
//! published values as they were printed. [`run::run`] simulates each row; [`compare`] computes how
//! far ours agree: the ratio of each value, Kendall's tau of the order of the rows, and how far the
//! ratios between rows are off. The forms for people are [`text`] and [`markdown`].
//!
//! The built-in recipes are compiled in, as arrays and jobs are. A folder of one's own works too.
//!
//! Non-goals: fitting anything, and tuning a policy to its published figure. A parameter may be
//! free for a table, never for one of its rows.

mod builtin;
pub mod compare;
pub mod markdown;
mod measure;
mod pool;
mod published;
mod read;
pub mod run;
mod series;
mod source_text;
pub mod text;

pub use measure::{MEASURES, Measure};
pub use published::Published;
pub use read::{Claim, FreeParameter, Process, Recipe, RecipeRow, RecipeTable};
pub use series::Series;

use anyhow::{Context, Result};
use builtin::BUILTINS;
use mirrorball_core::diagnostic::Diagnostic;
use std::fs;
use std::path::Path;

const RECIPE_FILE: &str = "recipe.toml";
/// What a recipe is, as help.
const A_RECIPE: &str = "a recipe is a folder with `recipe.toml` and the files named in it";

pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    BUILTINS.iter().map(|&(name, _)| name)
}

/// Loads a recipe by the path of its folder or by its built-in name. Fails if there is none, or it
/// cannot be read or understood; the message has the file and a hint.
pub fn load(name: &str) -> Result<Recipe> {
    let folder = Path::new(name);
    if folder.is_file() {
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        let help = match parent {
            _ if folder.file_name() != Some(RECIPE_FILE.as_ref()) => A_RECIPE.to_owned(),
            Some(parent) => format!("give its folder: {}", parent.display()),
            None => "give its folder: .".to_owned(),
        };
        return Err(Diagnostic::new(format!("{name} is a file, not a recipe"))
            .with_help(help)
            .into());
    }
    if name.is_empty() {
        return Err(Diagnostic::empty_name("recipe").into());
    }
    let is_builtin = builtin_names().any(|builtin| builtin == name);
    if folder.is_dir() && !is_builtin && !folder.join(RECIPE_FILE).exists() {
        let error = Diagnostic::new(format!("{name} has no file {RECIPE_FILE}"));
        return Err(error.with_help(A_RECIPE).into());
    }
    if name.contains('/') || folder.join(RECIPE_FILE).exists() {
        let stem = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Recipe::read(&stem, name, &|file| {
            let path = folder.join(file);
            fs::read_to_string(&path).map_err(|error| {
                let text = format!("cannot read {}: {error}", path.display());
                Diagnostic::new(text).with_help(A_RECIPE).into()
            })
        });
    }
    let Some(&(name, files)) = BUILTINS.iter().find(|(candidate, _)| *candidate == name) else {
        let names: Vec<&str> = builtin_names().collect();
        let unknown = Diagnostic::new(format!("there is no recipe `{name}`"));
        return Err(unknown.with_suggestion(name, &names, "the built-in recipes are").into());
    };
    Recipe::read(name, &format!("recipes/{name}"), &|file| {
        let found = files.iter().find(|(candidate, _)| *candidate == file);
        let (_, text) = found.with_context(|| format!("recipes/{name} has no `{file}`"))?;
        Ok((*text).to_owned())
    })
}

#[cfg(test)]
mod tests;
