//! Reads `recipe.toml` and the files that it names, and rejects everything invalid.
//!
//! Everything is checked before anything is run: unknown keys, columns that are not measures,
//! policies, arrays, jobs that do not fit their array, and claims about missing rows.

use super::RECIPE_FILE;
use super::measure::{self, Measure};
use super::published::Published;
use super::series::Series;
use super::source_text::SourceText;
use crate::experiment::inputs::check_fit;
use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::Spec;
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};
use mirrorball_sim::first_stream;
use mirrorball_sim::job::{JobContext, JobFile};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;

/// A recipe, understood.
#[derive(Debug)]
pub struct Recipe {
    pub name: String,
    /// What it repeats, in a line.
    pub title: String,
    /// Where the values were published.
    pub sources: Vec<String>,
    /// What was measured and how we repeat it.
    pub about: String,
    /// What the sources leave free.
    pub free: Vec<FreeParameter>,
    /// What does not match, and the reason found.
    pub mismatch: String,
    /// Runs that follow one another.
    pub series: Vec<Series>,
    pub tables: Vec<RecipeTable>,
    /// The arrays that its rows name, by file name.
    pub arrays: BTreeMap<String, ArraySpec>,
    /// The jobs that its rows name, by file name.
    pub jobs: BTreeMap<String, JobFile>,
}

/// A parameter that the source does not give.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FreeParameter {
    /// Which.
    pub parameter: String,
    /// What it was set to.
    pub value: String,
    /// How that was chosen, and what is plausible.
    pub chosen: String,
}

/// Parity of the reading process's id, by which alone `btrfs/pid` decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Process {
    Even,
    Odd,
}

#[derive(Debug)]
pub struct RecipeTable {
    pub title: String,
    /// What heads the names of the rows.
    pub of: String,
    /// The section of the job that is measured; none if the job has one, or only members are
    /// measured.
    pub section: Option<String>,
    pub columns: Vec<TableColumn>,
    pub rows: Vec<RecipeRow>,
    /// What the source claims about it in words.
    pub claims: Vec<Claim>,
    /// The rank agreement that a test holds it to; none where nothing is ranked.
    pub tau_at_least: Option<f64>,
    /// The median ratio error that a test holds it to, a fraction.
    pub ratio_error_at_most: Option<f64>,
    /// The bytes of the table in `recipe.toml`.
    span: Range<usize>,
}

#[derive(Debug)]
pub struct TableColumn {
    pub name: String,
    pub measure: &'static Measure,
    /// The member, if the column's name gives it; else the row's.
    pub devid: Option<u64>,
    /// Whether the rows are ranked by it.
    pub ranked: bool,
    /// How far ours may be off: a fraction, or points where the measure is a percentage.
    pub tolerance: Option<f64>,
}

/// One row: a cell with its repeats, and what was published of it.
#[derive(Debug)]
pub struct RecipeRow {
    pub name: String,
    /// The policy, canonical.
    pub policy: String,
    pub array: String,
    pub job: String,
    /// The series that its runs are of; none if they run alone.
    pub series: Option<String>,
    pub seeds: Vec<u64>,
    pub devid: Option<u64>,
    /// The row whose published values it might have had as well: another process, say.
    pub instead_of: Option<String>,
    /// Why it does not match, where that follows from a definition: such a row is not held.
    pub explained: Option<String>,
    /// One per column; none where nothing was published.
    pub published: Vec<Option<Published>>,
    /// The bytes of the row in `recipe.toml`.
    span: Range<usize>,
}

/// A claim in words, without a figure: one row is above another in a column.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub says: String,
    pub column: String,
    /// The row with the higher value.
    pub more: String,
    /// The row with the lower value.
    pub less: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipeText {
    title: String,
    sources: Vec<String>,
    about: String,
    mismatch: String,
    #[serde(default)]
    free: Vec<FreeParameter>,
    #[serde(default = "one")]
    repeats: u64,
    process: Option<Process>,
    #[serde(default)]
    series: Vec<Spanned<Series>>,
    table: Vec<Spanned<TableText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableText {
    title: String,
    #[serde(default = "policy")]
    of: String,
    #[serde(default = "default_array")]
    array: String,
    job: Option<String>,
    series: Option<String>,
    section: Option<String>,
    repeats: Option<u64>,
    columns: Vec<String>,
    #[serde(default)]
    ranked: Vec<String>,
    #[serde(default)]
    tolerance: BTreeMap<String, f64>,
    tau_at_least: Option<f64>,
    ratio_error_at_most: Option<f64>,
    row: Vec<Spanned<toml::Table>>,
    #[serde(default)]
    claim: Vec<Spanned<Claim>>,
}

fn one() -> u64 {
    1
}

fn policy() -> String {
    "policy".to_owned()
}

fn default_array() -> String {
    "array.toml".to_owned()
}

pub(super) type Files<'a> = dyn Fn(&str) -> Result<String> + 'a;

impl Recipe {
    /// Reads a recipe; `folder` is what messages call the place of its files.
    pub(super) fn read(name: &str, folder: &str, files: &Files<'_>) -> Result<Recipe> {
        let path = format!("{folder}/{RECIPE_FILE}");
        let source = files(RECIPE_FILE)?;
        let source = SourceText { path: &path, text: &source };
        let text: RecipeText = toml::from_str(source.text).map_err(|error| source.toml(&error))?;
        let mut series: Vec<Series> = Vec::new();
        for next in text.series {
            let span = next.span();
            let checked = next.into_inner().check(&series);
            series.push(checked.map_err(|error| source.place(&span, error, ""))?);
        }
        let (repeats, process) = (text.repeats, text.process);
        let tables = text.table.into_iter().map(|table| {
            let span = table.span();
            let title = table.get_ref().title.clone();
            let read = read_table(table, repeats, process, &source);
            read.map_err(|error| source.place(&span, error, &format!("table `{title}`")))
        });
        let mut recipe = Recipe {
            name: name.to_owned(),
            title: text.title,
            sources: text.sources,
            about: text.about,
            free: text.free,
            mismatch: text.mismatch,
            series,
            tables: tables.collect::<Result<_>>()?,
            arrays: BTreeMap::new(),
            jobs: BTreeMap::new(),
        };
        recipe.read_files(folder, files, &source)?;
        recipe.check_sections(&source)?;
        Ok(recipe)
    }

    /// Every table measures one section: figures of unlike sections are never added up.
    fn check_sections(&self, source: &SourceText<'_>) -> Result<()> {
        for table in &self.tables {
            for row in &table.rows {
                let names: Vec<&str> =
                    self.jobs[&row.job].sections.iter().map(|section| &*section.name).collect();
                let known = match &table.section {
                    Some(name) => names.contains(&&**name),
                    None => names.len() == 1 || table.columns.iter().all(|it| it.measure.of_member),
                };
                if !known {
                    let error =
                        Diagnostic::new(format!("`section` must name a section of {}", row.job))
                            .with_help(format!("its sections are {}", names.join(", ")));
                    let part = format!("table `{}`", table.title);
                    return Err(source.place(&table.span, error.into(), &part));
                }
            }
        }
        Ok(())
    }

    fn read_files(
        &mut self,
        folder: &str,
        files: &Files<'_>,
        source: &SourceText<'_>,
    ) -> Result<()> {
        let Recipe { series, tables, arrays, jobs, .. } = self;
        for row in tables.iter().flat_map(|table| &table.rows) {
            let read = runs_of(row, series).and_then(|runs| {
                runs.iter().try_for_each(|&(policy, job)| {
                    read_run_files((&row.array, job, policy), folder, files, arrays, jobs)
                })
            });
            read.map_err(|error| source.place(&row.span, error, &format!("row `{}`", row.name)))?;
        }
        Ok(())
    }
}

/// Policy and job of the runs that a row needs: its own, or all of its series.
fn runs_of<'a>(row: &'a RecipeRow, series: &'a [Series]) -> Result<Vec<(&'a str, &'a str)>> {
    let Some(name) = &row.series else { return Ok(vec![(&row.policy, &row.job)]) };
    let Some(found) = series.iter().find(|series| series.name == *name) else {
        let names: Vec<&str> = series.iter().map(|series| &*series.name).collect();
        let error = Diagnostic::new(format!("there is no series `{name}`"));
        return Err(error.with_suggestion(name, &names, "the series are").into());
    };
    found.check_row(&row.policy, &row.job)?;
    Ok(found.runs().collect())
}

/// Reads the array and the job of a run, unless another run did, and checks them with its policy.
fn read_run_files(
    (array, job, policy): (&str, &str, &str),
    folder: &str,
    files: &Files<'_>,
    arrays: &mut BTreeMap<String, ArraySpec>,
    jobs: &mut BTreeMap<String, JobFile>,
) -> Result<()> {
    if !arrays.contains_key(array) {
        let path = format!("{folder}/{array}");
        let spec = ArrayFile::parse(&files(array)?, &path)?.spec;
        arrays.insert(array.to_owned(), spec);
    }
    if !jobs.contains_key(job) {
        let path = format!("{folder}/{job}");
        let file = JobFile::parse(&files(job)?, &path, &JobContext::empty())?;
        jobs.insert(job.to_owned(), file);
    }
    let array = &arrays[array];
    let devids: Vec<u64> = array.members.iter().map(|member| member.devid).collect();
    Spec::parse(policy)?.build(&devids)?;
    check_fit(&array.file_name, array, &jobs[job])
}

fn read_table(
    text: Spanned<TableText>,
    repeats: u64,
    process: Option<Process>,
    source: &SourceText<'_>,
) -> Result<RecipeTable> {
    let span = text.span();
    let text = text.into_inner();
    for name in text.ranked.iter().chain(text.tolerance.keys()) {
        ensure!(text.columns.contains(name), "`{name}` is not one of the table's columns");
    }
    let columns = text.columns.iter().map(|name| {
        let (measure, devid) = measure::find(name).ok_or_else(|| unknown_measure(name))?;
        let ranked = text.ranked.contains(name);
        let tolerance = text.tolerance.get(name).copied();
        Ok(TableColumn { name: name.clone(), measure, devid, ranked, tolerance })
    });
    let columns: Vec<TableColumn> = columns.collect::<Result<_>>()?;
    let repeats = text.repeats.unwrap_or(repeats);
    let TableText { array, job, series, .. } = text;
    let defaults = Defaults { array, job, series, repeats, process };
    let rows = text.row.into_iter().map(|row| {
        let span = row.span();
        let read = read_row(row, &columns, &defaults);
        read.map_err(|error| source.place(&span, error, ""))
    });
    let rows: Vec<RecipeRow> = rows.collect::<Result<_>>()?;
    let has_row = |name: &String| rows.iter().any(|row| row.name == *name);
    for claim in &text.claim {
        let Claim { more, less, column, .. } = claim.get_ref();
        let missing = match [more, less].into_iter().find(|name| !has_row(name)) {
            Some(row) => format!("the row `{row}`"),
            None if !text.columns.contains(column) => format!("the column `{column}`"),
            None => continue,
        };
        let error = anyhow!("a claim names {missing}, which does not exist");
        return Err(source.place(&claim.span(), error, ""));
    }
    for row in &rows {
        if let Some(of) = row.instead_of.as_ref().filter(|of| !has_row(of)) {
            let error = anyhow!("`instead_of` names the row `{of}`, which does not exist");
            return Err(source.place(&row.span, error, &format!("row `{}`", row.name)));
        }
    }
    Ok(RecipeTable {
        title: text.title,
        of: text.of,
        section: text.section,
        columns,
        rows,
        claims: text.claim.into_iter().map(Spanned::into_inner).collect(),
        tau_at_least: text.tau_at_least,
        ratio_error_at_most: text.ratio_error_at_most,
        span,
    })
}

/// What a row takes over from its table.
struct Defaults {
    array: String,
    job: Option<String>,
    series: Option<String>,
    repeats: u64,
    process: Option<Process>,
}

fn read_row(
    row: Spanned<toml::Table>,
    columns: &[TableColumn],
    defaults: &Defaults,
) -> Result<RecipeRow> {
    let span = row.span();
    let mut row = row.into_inner();
    let policy = take_text(&mut row, "policy")?.ok_or_else(|| anyhow!("a row has no `policy`"))?;
    let policy = Spec::parse(&policy)?.to_string();
    let name = take_text(&mut row, "name")?.unwrap_or_else(|| policy.clone());
    let array = take_text(&mut row, "array")?.unwrap_or_else(|| defaults.array.clone());
    let job = take_text(&mut row, "job")?.or_else(|| defaults.job.clone());
    let job = job.ok_or_else(|| anyhow!("row `{name}` has no `job`, and its table has none"))?;
    let series = take_text(&mut row, "series")?.or_else(|| defaults.series.clone());
    let explained = take_text(&mut row, "explained")?;
    let instead_of = take_text(&mut row, "instead_of")?;
    let devid = take_number(&mut row, "devid")?;
    let process = match row.remove("process") {
        None => defaults.process,
        Some(value) => Some(value.try_into().context("`process` must be \"even\" or \"odd\"")?),
    };
    let seeds = seeds_of(process, defaults.repeats);
    let mut published = Vec::new();
    for column in columns {
        let is_whole = column.measure.of_member && column.devid.or(devid).is_none();
        ensure!(!is_whole, "row `{name}` has no `devid` for the column `{}`", column.name);
        let value = row.remove(&column.name).map(|value| {
            Published::from_toml(&value)
                .ok_or_else(|| anyhow!("row `{name}`: `{value}` is neither a number nor a range"))
        });
        published.push(value.transpose()?);
    }
    if let Some(key) = row.keys().next() {
        bail!("row `{name}`: `{key}` is not one of the table's columns");
    }
    Ok(RecipeRow {
        name,
        policy,
        array,
        job,
        series,
        seeds,
        devid,
        instead_of,
        explained,
        published,
        span,
    })
}

/// The first seeds whose runs are by a process of this parity.
fn seeds_of(process: Option<Process>, repeats: u64) -> Vec<u64> {
    let is_wanted = |seed: &u64| match process {
        None => true,
        Some(Process::Even) => first_stream(*seed).is_multiple_of(2),
        Some(Process::Odd) => !first_stream(*seed).is_multiple_of(2),
    };
    (1..).filter(is_wanted).take(repeats as usize).collect()
}

fn take_text(row: &mut toml::Table, key: &str) -> Result<Option<String>> {
    match row.remove(key) {
        None => Ok(None),
        Some(toml::Value::String(text)) => Ok(Some(text)),
        Some(other) => bail!("`{key}` must be a string, not `{other}`"),
    }
}

fn take_number(row: &mut toml::Table, key: &str) -> Result<Option<u64>> {
    match row.remove(key) {
        None => Ok(None),
        Some(toml::Value::Integer(number)) if number > 0 => Ok(Some(number as u64)),
        Some(other) => bail!("`{key}` must be a whole number from 1, not `{other}`"),
    }
}

fn unknown_measure(name: &str) -> anyhow::Error {
    let known: Vec<&str> = measure::MEASURES.iter().map(|measure| measure.name).collect();
    let error = Diagnostic::new(format!("`{name}` is not a measure"));
    Error::new(error.with_suggestion(name, &known, "the measures are"))
}
