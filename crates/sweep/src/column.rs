//! The columns of the rows of a sweep, and the rows of a cell.
//!
//! A cell has a row for each section of its job and each kind of requests. Columns are those of the
//! frames of the Python package, and one for each parameter that varies. Latencies are whole
//! histograms, as two lists: fio's bins that are not empty, and the number of requests in each.

use crate::plan::{SweepCell, SweepInput, SweepPlan};
use mirrorball_lab::experiment::record::{
    CellRecord, DirectionRecord, IoKind, MemberRecord, ORACLE, SectionRecord,
};
use mirrorball_lab::experiment::study::distinct_names;
use serde_json::Value as Json;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowColumn {
    pub name: String,
    pub kind: ColumnKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    Text,
    /// Texts, some of which may be missing.
    OptionalText,
    /// Whole numbers from zero on.
    Whole,
    /// Whole numbers, some of which may be missing.
    OptionalWhole,
    /// Floating-point numbers.
    Real,
    /// Floating-point numbers, some of which may be missing.
    OptionalReal,
    Flag,
    /// Lists of indexes of histogram bins.
    Bins,
    Wholes,
    /// Lists of floating-point numbers.
    Reals,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    Text(Arc<str>),
    Whole(u64),
    /// A floating-point number.
    Real(f64),
    Flag(bool),
    Wholes(Box<[u64]>),
    /// Floating-point numbers.
    Reals(Box<[f64]>),
    /// No value.
    Missing,
}

/// A row: a value for each column, in the order of the columns.
pub type CellRow = Vec<Field>;

pub const KEY: usize = 0;

/// A row of a cell, as far as it is known before its fields are.
struct RowSource<'a> {
    plan: &'a SweepPlan,
    cell: SweepCell,
    record: &'a CellRecord,
    /// Name of the section, which no other section has.
    name: &'a str,
    section: &'a SectionRecord,
    direction: &'a str,
    figures: &'a DirectionRecord,
}

/// A column that every plan has: its name, its kind and its value in a row.
type FixedColumn = (&'static str, ColumnKind, fn(&RowSource<'_>) -> Field);

const FIXED: [FixedColumn; 43] = [
    ("key", ColumnKind::Text, |row| text(&row.record.key)),
    ("schema_version", ColumnKind::Whole, |row| Field::Whole(row.record.schema_version.into())),
    ("program_version", ColumnKind::Text, |row| text(&row.record.build.version)),
    ("program_build", ColumnKind::Text, |row| text(&row.record.build.hash)),
    ("array_name", ColumnKind::Text, |row| text(&row.record.cell.array)),
    ("array_fingerprint", ColumnKind::Text, |row| text(&row.inputs().0.fingerprint)),
    ("job", ColumnKind::Text, |row| text(&row.record.cell.job)),
    ("job_fingerprint", ColumnKind::Text, |row| text(&row.inputs().1.fingerprint)),
    ("policy", ColumnKind::Text, |row| text(row.policy())),
    ("policy_family", ColumnKind::Text, |row| {
        text(row.policy().split_once('/').map_or(ORACLE, |(family, _)| family))
    }),
    ("modifiers", ColumnKind::Text, |row| {
        text(row.policy().split_once('+').map_or("", |(_, modifiers)| modifiers))
    }),
    ("seed", ColumnKind::Whole, |row| Field::Whole(row.record.cell.seed)),
    ("repeat", ColumnKind::Whole, |row| Field::Whole(row.record.cell.repeat.into())),
    ("duration_ns", ColumnKind::OptionalWhole, |row| {
        row.record.cell.duration_ns.map_or(Field::Missing, Field::Whole)
    }),
    ("section", ColumnKind::Text, |row| text(row.name)),
    ("direction", ColumnKind::Text, |row| text(row.direction)),
    ("is_background", ColumnKind::Flag, |row| Field::Flag(row.section.is_background)),
    ("has_rate", ColumnKind::Flag, |row| Field::Flag(row.section.has_rate)),
    ("requests", ColumnKind::Whole, |row| Field::Whole(row.figures.ios)),
    ("bytes", ColumnKind::Whole, |row| Field::Whole(row.figures.bytes)),
    ("errors", ColumnKind::Whole, |row| Field::Whole(row.figures.errors)),
    ("measured_ns", ColumnKind::Whole, |row| Field::Whole(row.section.measured.0)),
    ("iops", ColumnKind::Real, |row| Field::Real(row.figures.iops)),
    ("mib_per_s", ColumnKind::Real, |row| Field::Real(row.figures.mib_per_s)),
    ("mean_ns", ColumnKind::Whole, |row| Field::Whole(row.figures.percentiles.mean_ns)),
    ("p50_ns", ColumnKind::Whole, |row| Field::Whole(row.figures.percentiles.p50_ns)),
    ("p90_ns", ColumnKind::Whole, |row| Field::Whole(row.figures.percentiles.p90_ns)),
    ("p95_ns", ColumnKind::Whole, |row| Field::Whole(row.figures.percentiles.p95_ns)),
    ("p99_ns", ColumnKind::Whole, |row| Field::Whole(row.figures.percentiles.p99_ns)),
    ("p99_9_ns", ColumnKind::Whole, |row| Field::Whole(row.figures.percentiles.p99_9_ns)),
    ("p99_99_ns", ColumnKind::Whole, |row| Field::Whole(row.figures.percentiles.p99_99_ns)),
    ("lat_bin", ColumnKind::Bins, |row| {
        Field::Wholes(row.figures.latency.bins().map(|(bin, _)| bin as u64).collect())
    }),
    ("lat_count", ColumnKind::Wholes, |row| {
        Field::Wholes(row.figures.latency.bins().map(|(_, count)| count).collect())
    }),
    ("lat_sum_ns", ColumnKind::Whole, |row| {
        Field::Whole(u64::try_from(row.figures.latency.sum_ns()).unwrap_or(u64::MAX))
    }),
    ("lat_min_ns", ColumnKind::Whole, |row| {
        Field::Whole(row.figures.latency.min().unwrap_or_default().0)
    }),
    ("lat_max_ns", ColumnKind::Whole, |row| {
        Field::Whole(row.figures.latency.max().unwrap_or_default().0)
    }),
    ("extra_reads", ColumnKind::Whole, |row| {
        Field::Whole(row.record.run.sum_of_members(|member| member.extra_reads))
    }),
    ("background_bytes", ColumnKind::Whole, |row| Field::Whole(row.record.run.background_bytes)),
    ("member_ios", ColumnKind::Whole, |row| Field::Whole(row.record.run.member_ios)),
    ("m_devid", ColumnKind::Wholes, |row| row.wholes(|member| member.devid)),
    ("m_reads", ColumnKind::Wholes, |row| row.wholes(|member| member.foreground_reads)),
    ("m_wait_mean_ns", ColumnKind::Wholes, |row| row.wholes(|member| member.read_wait_mean_ns)),
    ("m_share", ColumnKind::Reals, |row| {
        Field::Reals(row.record.run.members.iter().map(|member| member.share).collect())
    }),
];

impl RowSource<'_> {
    fn inputs(&self) -> (&SweepInput, &SweepInput) {
        self.plan.texts(self.cell.pair)
    }

    fn policy(&self) -> &str {
        &self.record.cell.policy
    }

    fn wholes(&self, of: fn(&MemberRecord) -> u64) -> Field {
        Field::Wholes(self.record.run.members.iter().map(of).collect())
    }
}

pub fn columns(plan: &SweepPlan) -> Vec<RowColumn> {
    let fixed = FIXED.iter().map(|&(name, kind, _)| RowColumn { name: name.to_owned(), kind });
    let varied = plan.varied().into_iter().map(|parameter| {
        let inputs = plan.arrays.iter().chain(&plan.jobs);
        let mut values = inputs.filter_map(|input| input.vary.get(parameter));
        let kind = match values.all(Json::is_number) {
            true => ColumnKind::OptionalReal,
            false => ColumnKind::OptionalText,
        };
        RowColumn { name: format!("vary_{}", parameter.replace('.', "_")), kind }
    });
    fixed.chain(varied).collect()
}

pub fn rows(plan: &SweepPlan, cell: SweepCell, record: &CellRecord) -> Vec<CellRow> {
    let varied = varied(plan, cell);
    let names = distinct_names(record.run.sections.iter().map(|section| section.name.as_str()));
    let mut rows = Vec::new();
    for (name, section) in names.iter().zip(&record.run.sections) {
        let made = IoKind::ALL.map(|kind| (kind.name(), section.direction(kind)));
        let made = made.into_iter().filter(|(_, direction)| !direction.is_idle());
        let mut made: Vec<(&str, &DirectionRecord)> = made.collect();
        let nothing = DirectionRecord::default();
        if made.is_empty() {
            made.push(("none", &nothing));
        }
        for (direction, figures) in made {
            let source = RowSource { plan, cell, record, name, section, direction, figures };
            let fixed = FIXED.iter().map(|(_, _, value)| value(&source));
            rows.push(fixed.chain(varied.iter().cloned()).collect());
        }
    }
    rows
}

fn text(text: &str) -> Field {
    Field::Text(text.into())
}

/// The values of the parameters that vary, for the columns that come last.
fn varied(plan: &SweepPlan, cell: SweepCell) -> Vec<Field> {
    let (array, job) = plan.texts(cell.pair);
    let kinds = columns(plan).into_iter().skip(FIXED.len()).map(|column| column.kind);
    let parameters = plan.varied().into_iter().zip(kinds);
    let value = |(parameter, kind): (&str, ColumnKind)| {
        let value = array.vary.get(parameter).or_else(|| job.vary.get(parameter));
        match (value, kind) {
            (None, _) => Field::Missing,
            (Some(value), ColumnKind::OptionalReal) => {
                value.as_f64().map_or(Field::Missing, Field::Real)
            }
            (Some(Json::String(value)), _) => text(value),
            (Some(value), _) => text(&value.to_string()),
        }
    };
    parameters.map(value).collect()
}

impl Field {
    fn json(&self) -> Json {
        match self {
            Field::Text(text) => Json::from(&**text),
            Field::Whole(number) => Json::from(*number),
            Field::Real(number) => Json::from(*number),
            Field::Flag(is_set) => Json::from(*is_set),
            Field::Wholes(numbers) => Json::from(numbers.to_vec()),
            Field::Reals(numbers) => Json::from(numbers.to_vec()),
            Field::Missing => Json::Null,
        }
    }
}

/// A row as comma-separated values.
pub fn csv(row: &[Field]) -> String {
    let value = |field: &Field| match field {
        Field::Missing => String::new(),
        Field::Text(text) => text.to_string(),
        other => other.json().to_string(),
    };
    let quoted = |text: String| match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    };
    row.iter().map(|field| quoted(value(field))).collect::<Vec<String>>().join(",")
}

pub fn json(columns: &[RowColumn], row: &[Field]) -> String {
    let field = |(column, field): (&RowColumn, &Field)| {
        format!("{}:{}", Json::from(column.name.as_str()), field.json())
    };
    let fields: Vec<String> = columns.iter().zip(row).map(field).collect();
    format!("{{{}}}", fields.join(","))
}
