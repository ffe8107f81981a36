//! How far our figures agree with the published ones.
//!
//! Per cell the ratio of ours to the published value. Per table, over the pairs of rows in each of
//! its ranked columns: Kendall's tau ("A new measure of rank correlation", Biometrika 1938) over
//! the pairs that were more than 10 % apart in the original, where ours within 1 % of each other
//! count for neither side, so that no noise decides; and the ratio error, by how much
//! ours(a)/ours(b) is off published(a)/published(b), taken in the direction that makes it larger:
//! twice too much and half too little are both 100 %. Where a range was published, the nearest of
//! the ratios that it allows counts.

use super::published::Published;
use super::read::{Claim, FreeParameter, Recipe, RecipeRow, RecipeTable, TableColumn};
use super::run::Runs;
use crate::experiment::record::{PROGRAM_VERSION, SCHEMA_VERSION};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// Pairs of published values that are no further apart than this are not ranked.
pub const APART: f64 = 1.1;

/// Of two values that are no further apart than this, neither is above the other.
pub const TIED: f64 = 1.01;

/// A tau is a fraction of few pairs, written with two digits in a recipe.
const ROUNDING: f64 = 0.005;

/// A recipe with published and simulated values.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Repetition {
    /// Version of this structure, that of everything saved.
    pub schema_version: u32,
    /// Version of the program that ran it.
    pub program_version: String,
    /// The recipe.
    pub recipe: String,
    /// What it repeats.
    pub title: String,
    /// Where the values were published.
    pub sources: Vec<String>,
    /// What was measured and how we repeat it.
    pub about: String,
    /// What the sources leave free.
    pub free: Vec<FreeParameter>,
    /// What does not match, and the reason found.
    pub mismatch: String,
    /// Its tables.
    pub tables: Vec<TableComparison>,
}

/// One table with published and simulated values.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct TableComparison {
    /// What it shows.
    pub title: String,
    /// What heads the names of the rows.
    pub of: String,
    /// Its columns.
    pub columns: Vec<ColumnHead>,
    /// Its rows.
    pub rows: Vec<RowComparison>,
    /// The claims of the source, and whether they hold here.
    pub claims: Vec<ClaimComparison>,
    /// How well the order of its rows agrees; none if nothing is ranked.
    pub agreement: Option<RankAgreement>,
    /// How well it would agree if other rows were those published.
    pub alternatives: Vec<Alternative>,
    /// The rank agreement that a test holds it to.
    pub tau_at_least: Option<f64>,
    /// The median ratio error that a test holds it to.
    pub ratio_error_at_most: Option<f64>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ColumnHead {
    /// Its name in the recipe.
    pub name: String,
    /// What heads it.
    pub title: String,
    /// Whether the rows are ranked by it.
    pub ranked: bool,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct RowComparison {
    /// What it is called.
    pub name: String,
    /// The policy.
    pub policy: String,
    /// One per column.
    pub cells: Vec<CellComparison>,
    /// Why it does not match, where that follows from a definition.
    pub explained: Option<String>,
}

/// A value of ours, and what was published of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CellComparison {
    /// What was published, if anything was.
    pub published: Option<Published>,
    /// Ours.
    pub ours: f64,
    /// Ours divided by the published; none if there is none, or it is zero.
    pub ratio: Option<f64>,
    /// Whether ours is within the tolerance of its column, if it has one and the row is held.
    pub within: Option<bool>,
}

/// A claim of the source, and whether it holds here.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ClaimComparison {
    /// The words of the source.
    pub says: String,
    /// Our values: the one said to be higher, then the other.
    pub ours: [f64; 2],
    /// Whether ours agree.
    pub holds: bool,
}

/// How well the order and the ratios of rows agree.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct RankAgreement {
    /// Kendall's tau, -1 to 1; none if no pair is far enough apart.
    pub tau: Option<f64>,
    /// The pairs it is taken over.
    pub ranked_pairs: usize,
    /// The median of the ratio errors of all pairs, as a fraction.
    pub ratio_error_median: f64,
    /// The worst.
    pub ratio_error_worst: f64,
}

/// The rank agreement with another row in the place of one, where the source does not tell which of
/// the two was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Alternative {
    /// The row that takes the place.
    pub row: String,
    /// The row whose published values are compared.
    pub instead_of: String,
    /// Kendall's tau then.
    pub tau: Option<f64>,
}

impl TableComparison {
    /// What a test holds it to and it misses, in words.
    pub fn misses(&self) -> Vec<String> {
        let mut misses = Vec::new();
        let tau = self.agreement.as_ref().and_then(|agreement| agreement.tau);
        if let Some(least) = self.tau_at_least
            && tau.is_none_or(|tau| tau < least - ROUNDING)
        {
            misses.push(format!("tau {tau:?}, not {least}"));
        }
        let error = self.agreement.as_ref().map(|agreement| agreement.ratio_error_median);
        if let Some(most) = self.ratio_error_at_most
            && error.is_none_or(|error| error > most)
        {
            misses.push(format!("median ratio error {error:?}, not {most}"));
        }
        let off =
            self.rows.iter().filter(|row| row.cells.iter().any(|it| it.within == Some(false)));
        misses.extend(off.map(|row| format!("{} is beyond its tolerance", row.name)));
        misses
    }
}

impl Repetition {
    /// Compares the runs of a recipe with the published values.
    pub fn new(recipe: &Recipe, runs: &Runs<'_>) -> Repetition {
        Repetition {
            schema_version: SCHEMA_VERSION,
            program_version: PROGRAM_VERSION.to_owned(),
            recipe: recipe.name.clone(),
            title: recipe.title.clone(),
            sources: recipe.sources.clone(),
            about: recipe.about.clone(),
            free: recipe.free.clone(),
            mismatch: recipe.mismatch.clone(),
            tables: recipe.tables.iter().map(|table| compare_table(table, runs)).collect(),
        }
    }
}

fn compare_table(table: &RecipeTable, runs: &Runs<'_>) -> TableComparison {
    let row = |row: &RecipeRow| RowComparison {
        name: row.name.clone(),
        policy: row.policy.clone(),
        cells: compare_row(table, row, runs),
        explained: row.explained.clone(),
    };
    let rows: Vec<RowComparison> = table.rows.iter().map(row).collect();
    let head = |column: &TableColumn| ColumnHead {
        name: column.name.clone(),
        title: match column.devid {
            Some(devid) => format!("{} of {devid}", column.measure.title),
            None => column.measure.title.to_owned(),
        },
        ranked: column.ranked,
    };
    let columns: Vec<ColumnHead> = table.columns.iter().map(head).collect();
    TableComparison {
        title: table.title.clone(),
        of: table.of.clone(),
        agreement: agreement(&columns, &rows),
        alternatives: alternatives(table, &columns, &rows),
        claims: table.claims.iter().map(|claim| compare_claim(claim, &columns, &rows)).collect(),
        columns,
        rows,
        tau_at_least: table.tau_at_least,
        ratio_error_at_most: table.ratio_error_at_most,
    }
}

fn compare_row(table: &RecipeTable, row: &RecipeRow, runs: &Runs<'_>) -> Vec<CellComparison> {
    let pool = runs.pool(table, row);
    let cell = |(column, &published): (&TableColumn, &Option<Published>)| {
        let ours = (column.measure.take)(&pool, column.devid.or(row.devid).unwrap_or(0));
        let held = column.tolerance.filter(|_| row.explained.is_none()).zip(published);
        let is_percentage = column.measure.title.starts_with('%');
        CellComparison {
            published,
            ours,
            ratio: published.and_then(|published| published.ratio_of(ours)),
            within: held.map(|(tolerance, published)| {
                let nearest = ours.clamp(published.low, published.high());
                let scale = if is_percentage { 1.0 } else { nearest };
                (ours - nearest).abs() <= tolerance * scale
            }),
        }
    };
    table.columns.iter().zip(&row.published).map(cell).collect()
}

fn compare_claim(claim: &Claim, columns: &[ColumnHead], rows: &[RowComparison]) -> ClaimComparison {
    let column = columns.iter().position(|column| column.name == claim.column);
    let column = column.expect("the reader checks the columns of claims");
    let of = |name: &str| {
        let row = rows.iter().find(|row| row.name == name);
        row.expect("the reader checks the rows of claims").cells[column].ours
    };
    let ours = [of(&claim.more), of(&claim.less)];
    ClaimComparison { says: claim.says.clone(), ours, holds: ours[0] > ours[1] * TIED }
}

fn alternatives(
    table: &RecipeTable,
    columns: &[ColumnHead],
    rows: &[RowComparison],
) -> Vec<Alternative> {
    let swapped = |(number, row): (usize, &RecipeRow)| {
        let instead_of = row.instead_of.clone()?;
        let mut rows = rows.to_vec();
        let place = rows.iter().position(|row| row.name == instead_of);
        let place = place.expect("the reader checks the rows that are replaced");
        for index in 0..columns.len() {
            rows[place].cells[index].ours = rows[number].cells[index].ours;
        }
        let tau = agreement(columns, &rows).and_then(|agreement| agreement.tau);
        Some(Alternative { row: row.name.clone(), instead_of, tau })
    };
    table.rows.iter().enumerate().filter_map(swapped).collect()
}

fn agreement(columns: &[ColumnHead], rows: &[RowComparison]) -> Option<RankAgreement> {
    let (mut score, mut ranked_pairs, mut errors) = (0.0, 0, Vec::new());
    for (index, _) in columns.iter().enumerate().filter(|(_, column)| column.ranked) {
        let value = |row: &RowComparison| {
            let cell = &row.cells[index];
            cell.published.map(|published| (published, cell.ours))
        };
        let values: Vec<(Published, f64)> = rows.iter().filter_map(value).collect();
        for (number, &one) in values.iter().enumerate() {
            for &other in &values[number + 1..] {
                errors.extend(ratio_error(one, other));
                if let Some(verdict) = verdict(one, other) {
                    score += verdict;
                    ranked_pairs += 1;
                }
            }
        }
    }
    errors.sort_unstable_by(f64::total_cmp);
    let worst = *errors.last()?;
    let middle = errors.len() / 2;
    let median = match errors.len() % 2 {
        0 => (errors[middle - 1] + errors[middle]) / 2.0,
        _ => errors[middle],
    };
    Some(RankAgreement {
        tau: (ranked_pairs > 0).then(|| score / ranked_pairs as f64),
        ranked_pairs,
        ratio_error_median: median,
        ratio_error_worst: worst,
    })
}

/// 1 if ours are in the published order, -1 if in the other, 0 if they are [`TIED`]; none if the
/// published ones are too close.
fn verdict(
    (one, ours_one): (Published, f64),
    (other, ours_other): (Published, f64),
) -> Option<f64> {
    let is_above = |upper: Published, lower: Published| upper.low > lower.high() * APART;
    let ours = if ours_one > ours_other * TIED {
        1.0
    } else if ours_other > ours_one * TIED {
        -1.0
    } else {
        0.0
    };
    if is_above(one, other) {
        Some(ours)
    } else if is_above(other, one) {
        Some(-ours)
    } else {
        None
    }
}

/// By how much the ratio of ours is off the nearest ratio that the published ones allow; none
/// where one of them is zero or open, so that there is no ratio.
fn ratio_error(
    (one, ours_one): (Published, f64),
    (other, ours_other): (Published, f64),
) -> Option<f64> {
    let ratio = ours_one / ours_other;
    let (least, most) = (one.low / other.high?, one.high? / other.low);
    if !(ratio > 0.0 && ratio.is_finite() && least > 0.0 && most.is_finite()) {
        return None;
    }
    Some((ratio / most).max(least / ratio).max(1.0) - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(value: f64) -> Published {
        Published { low: value, high: Some(value) }
    }

    fn rows(pairs: &[(Published, f64)]) -> Vec<RowComparison> {
        let cell = |&(published, ours)| CellComparison {
            published: Some(published),
            ours,
            ratio: None,
            within: None,
        };
        let row = |pair| RowComparison {
            name: String::new(),
            policy: String::new(),
            cells: vec![cell(pair)],
            explained: None,
        };
        pairs.iter().map(row).collect()
    }

    fn agreement_of(pairs: &[(Published, f64)]) -> RankAgreement {
        let column = ColumnHead { name: String::new(), title: String::new(), ranked: true };
        agreement(&[column], &rows(pairs)).expect("there are pairs")
    }

    #[test]
    fn tau_counts_only_pairs_that_are_apart_in_the_original() {
        // 100 and 105 are not ranked; of the other two pairs one is in order.
        let found = agreement_of(&[(exact(100.0), 9.0), (exact(105.0), 3.0), (exact(200.0), 5.0)]);
        assert_eq!((found.tau, found.ranked_pairs), (Some(0.0), 2));
        let found = agreement_of(&[(exact(1.0), 2.0), (exact(2.0), 4.0), (exact(3.0), 8.0)]);
        assert_eq!((found.tau, found.ranked_pairs), (Some(1.0), 3));
        // Within 1 % ours tie.
        assert_eq!(agreement_of(&[(exact(1.0), 7.0), (exact(2.0), 7.06)]).tau, Some(0.0));
        assert_eq!(agreement_of(&[(exact(1.0), 7.0), (exact(2.0), 7.08)]).tau, Some(1.0));
    }

    #[test]
    fn the_ratio_error_is_the_same_in_both_directions_and_free_of_scale() {
        let doubled = agreement_of(&[(exact(10.0), 40.0), (exact(10.0), 20.0)]);
        let halved = agreement_of(&[(exact(10.0), 20.0), (exact(10.0), 40.0)]);
        assert_eq!(doubled.ratio_error_worst, 1.0);
        assert_eq!(halved.ratio_error_worst, 1.0);
        let scaled = agreement_of(&[(exact(10.0), 30.0), (exact(20.0), 60.0)]);
        assert_eq!(scaled.ratio_error_median, 0.0);
    }

    #[test]
    fn a_range_agrees_with_all_it_allows() {
        let range = Published { low: 0.0, high: Some(20.0) };
        assert_eq!(range.ratio_of(15.0), Some(1.0));
        assert_eq!(range.ratio_of(30.0), Some(1.5));
        assert_eq!(verdict((exact(100.0), 50.0), (range, 30.0)), Some(1.0));
        assert_eq!(verdict((exact(21.0), 50.0), (range, 30.0)), None, "5 % apart at the least");
        let two = Published { low: 10.0, high: Some(20.0) };
        // Between 5 and 10 times is allowed: 4 is a quarter too little, 8 is right.
        assert_eq!(ratio_error((exact(100.0), 40.0), (two, 10.0)), Some(0.25));
        assert_eq!(ratio_error((exact(100.0), 80.0), (two, 10.0)), Some(0.0));
        assert_eq!(ratio_error((exact(100.0), 80.0), (exact(0.0), 10.0)), None);
    }
}
