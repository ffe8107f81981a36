//! Which rows of a comparison are shown on a screen: the ten best policies, the baseline, and those
//! that the user named. Rows with the same figures are one.

use super::Style;
use super::titled_tables;
use crate::experiment::record::ORACLE;
use crate::experiment::study::{JobStudy, MatrixRow, Row, Study};
use mirrorball_core::units::counted;

const BEST: usize = 10;
/// Hidden rows below which all are shown.
const HIDDEN_MIN: usize = 3;
/// On a narrower terminal the number of rows with the same figures is written as `+8`.
const NARROW: usize = 60;

/// How much of a comparison is shown.
#[derive(Clone, Copy, Debug)]
pub struct TableExtent<'a> {
    /// Every row of each table, and none for several policies.
    pub all_rows: bool,
    /// The tables of each job, too.
    pub job_tables: bool,
    /// Canonical strings of the policies that are always shown.
    pub named: &'a [String],
}

pub(super) const EVERYTHING: TableExtent<'_> =
    TableExtent { all_rows: true, job_tables: true, named: &[] };

/// Policies with the same figures, by their places among all rows.
struct Alike {
    shown: usize,
    others: usize,
}

/// The rows of the matrix, and the number of policies that are not shown.
pub(super) fn matrix_rows(
    study: &Study,
    extent: &TableExtent<'_>,
    style: Style,
) -> (Vec<MatrixRow>, usize) {
    let rows: Vec<&MatrixRow> = study.matrix.rows.iter().collect();
    let is_alike = |left: &MatrixRow, right: &MatrixRow| left.percent == right.percent;
    let (alike, hidden) = chosen(study, extent, &rows, |row| &row.policy, is_alike);
    let row = |it: Alike| MatrixRow {
        policy: named(&rows[it.shown].policy, it.others, style),
        ..rows[it.shown].clone()
    };
    (alike.into_iter().map(row).collect(), hidden)
}

/// The rows of a job, and the number of policies that are not shown.
pub(super) fn job_rows(
    study: &Study,
    job: &JobStudy,
    extent: &TableExtent<'_>,
    style: Style,
) -> (Vec<Row>, usize) {
    let rows = titled_tables::ranked(job);
    let is_alike = |left: &Row, right: &Row| {
        let policy = &right.policy;
        Row { policy: policy.clone(), standing: right.standing, ..left.clone() } == *right
    };
    let (alike, hidden) = chosen(study, extent, &rows, |row| &row.policy, is_alike);
    let row = |it: Alike| Row {
        policy: named(&rows[it.shown].policy, it.others, style),
        ..rows[it.shown].clone()
    };
    (alike.into_iter().map(row).collect(), hidden)
}

/// A policy with the number of others that have the same figures.
fn named(policy: &str, others: usize, style: Style) -> String {
    match others {
        0 => policy.to_owned(),
        others if style.width_columns < NARROW => format!("{policy} +{others}"),
        others => format!("{policy} and {}", counted(others, "other", "others")),
    }
}

/// Which of `rows`, the best first, are shown, and the number of policies that are not.
fn chosen<T>(
    study: &Study,
    extent: &TableExtent<'_>,
    rows: &[&T],
    policy: impl Fn(&T) -> &String,
    is_alike: impl Fn(&T, &T) -> bool,
) -> (Vec<Alike>, usize) {
    let baseline = study.criteria.baseline.as_ref();
    let is_kept = |index: usize| {
        let policy = policy(rows[index]);
        baseline == Some(policy) || extent.named.contains(policy) || policy == ORACLE
    };
    let mut groups: Vec<Alike> = Vec::new();
    for index in 0..rows.len() {
        let alike = groups.iter_mut().find(|group| {
            let is_free = !is_kept(index) || !is_kept(group.shown);
            is_free && is_alike(rows[group.shown], rows[index])
        });
        match alike {
            Some(group) if !extent.all_rows && policy(rows[index]) != ORACLE => {
                group.others += 1;
                group.shown = if is_kept(index) { index } else { group.shown };
            }
            _ => groups.push(Alike { shown: index, others: 0 }),
        }
    }
    if extent.all_rows || groups.len() < BEST + HIDDEN_MIN {
        return (groups, 0);
    }
    let (shown, hidden): (Vec<_>, Vec<_>) = groups
        .into_iter()
        .enumerate()
        .partition(|(place, group)| *place < BEST || is_kept(group.shown));
    let hidden = hidden.iter().map(|(_, group)| 1 + group.others).sum();
    (shown.into_iter().map(|(_, group)| group).collect(), hidden)
}
