//! The columns of the rows of a sweep, and the rows of a cell.
//!
//! A cell has a row for each section of its job and each kind of requests. Columns are those of the
//! frames of the Python package, and one for each parameter that varies. Latencies are whole
//! histograms, as two lists: fio's bins that are not empty, and the number of requests in each.

use crate::plan::{SweepCell, SweepPlan};
use mirrorball_lab::experiment::record::{
    CellRecord, DirectionRecord, MemberRecord, ORACLE, SectionRecord,
};
use mirrorball_lab::experiment::study::distinct_names;
use serde_json::Value as Json;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;
use std::sync::Arc;

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowColumn {
    /// Name.
    pub name: String,
    /// Type of its values.
    pub kind: ColumnKind,
}

/// Type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Texts.
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
    /// True or false.
    Flag,
    /// Lists of indexes of histogram bins.
    Bins,
    /// Lists of whole numbers.
    Wholes,
    /// Lists of floating-point numbers.
    Reals,
}

/// A value in a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// A text.
    Text(Arc<str>),
    /// A whole number.
    Whole(u64),
    /// A floating-point number.
    Real(f64),
    /// True or false.
    Flag(bool),
    /// Whole numbers.
    Wholes(Box<[u64]>),
    /// Floating-point numbers.
    Reals(Box<[f64]>),
    /// No value.
    Missing,
}

/// A row: a value for each column, in the order of the columns.
pub type CellRow = Vec<Field>;

/// The number of the column with the key of the cell.
pub const KEY: usize = 0;

const FIXED: [(&str, ColumnKind); 43] = [
    ("key", ColumnKind::Text),
    ("schema_version", ColumnKind::Whole),
    ("program_version", ColumnKind::Text),
    ("program_build", ColumnKind::Text),
    ("array_name", ColumnKind::Text),
    ("array_fingerprint", ColumnKind::Text),
    ("job", ColumnKind::Text),
    ("job_fingerprint", ColumnKind::Text),
    ("policy", ColumnKind::Text),
    ("policy_family", ColumnKind::Text),
    ("modifiers", ColumnKind::Text),
    ("seed", ColumnKind::Whole),
    ("repeat", ColumnKind::Whole),
    ("duration_ns", ColumnKind::OptionalWhole),
    ("section", ColumnKind::Text),
    ("direction", ColumnKind::Text),
    ("is_background", ColumnKind::Flag),
    ("has_rate", ColumnKind::Flag),
    ("requests", ColumnKind::Whole),
    ("bytes", ColumnKind::Whole),
    ("errors", ColumnKind::Whole),
    ("measured_ns", ColumnKind::Whole),
    ("iops", ColumnKind::Real),
    ("mib_per_s", ColumnKind::Real),
    ("mean_ns", ColumnKind::Whole),
    ("p50_ns", ColumnKind::Whole),
    ("p90_ns", ColumnKind::Whole),
    ("p95_ns", ColumnKind::Whole),
    ("p99_ns", ColumnKind::Whole),
    ("p99_9_ns", ColumnKind::Whole),
    ("p99_99_ns", ColumnKind::Whole),
    ("lat_bin", ColumnKind::Bins),
    ("lat_count", ColumnKind::Wholes),
    ("lat_sum_ns", ColumnKind::Whole),
    ("lat_min_ns", ColumnKind::Whole),
    ("lat_max_ns", ColumnKind::Whole),
    ("extra_reads", ColumnKind::Whole),
    ("background_bytes", ColumnKind::Whole),
    ("member_ios", ColumnKind::Whole),
    ("m_devid", ColumnKind::Wholes),
    ("m_reads", ColumnKind::Wholes),
    ("m_wait_mean_ns", ColumnKind::Wholes),
    ("m_share", ColumnKind::Reals),
];

/// The columns of a plan.
pub fn columns(plan: &SweepPlan) -> Vec<RowColumn> {
    let fixed = FIXED.iter().map(|&(name, kind)| RowColumn { name: name.to_owned(), kind });
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

/// The rows of a cell.
pub fn rows(plan: &SweepPlan, cell: SweepCell, record: &CellRecord) -> Vec<CellRow> {
    let start = identity(plan, cell, record);
    let end = ending(plan, cell, record);
    let names = distinct_names(record.sections.iter().map(|section| section.name.as_str()));
    let mut rows = Vec::new();
    for (name, section) in names.iter().zip(&record.sections) {
        let directions = [
            ("read", &section.read),
            ("write", &section.write),
            ("trim", &section.trim),
            ("fsync", &section.flush),
        ];
        let made = directions.into_iter().filter_map(|(name, it)| Some((name, it.as_ref()?)));
        let mut made: Vec<(&str, &DirectionRecord)> = made.collect();
        let nothing = DirectionRecord::default();
        if made.is_empty() {
            made.push(("none", &nothing));
        }
        for (direction, figures) in made {
            let middle = middle(name, section, direction, figures);
            rows.push([&start[..], &middle, &end].concat());
        }
    }
    rows
}

fn text(text: &str) -> Field {
    Field::Text(text.into())
}

/// The columns up to the repeat's duration.
fn identity(plan: &SweepPlan, cell: SweepCell, record: &CellRecord) -> Vec<Field> {
    let (array, job) = plan.texts(cell.pair);
    let policy = record.cell.policy.as_str();
    let family = policy.split_once('/').map_or(ORACLE, |(family, _)| family);
    vec![
        text(&record.key),
        Field::Whole(record.schema_version.into()),
        text(&record.build.version),
        text(&record.build.hash),
        text(&record.cell.array),
        text(&array.fingerprint),
        text(&record.cell.job),
        text(&job.fingerprint),
        text(policy),
        text(family),
        text(policy.split_once('+').map_or("", |(_, modifiers)| modifiers)),
        Field::Whole(record.cell.seed),
        Field::Whole(record.cell.repeat.into()),
        record.cell.duration_ns.map_or(Field::Missing, Field::Whole),
    ]
}

/// The columns of a section and a direction.
fn middle(
    name: &str,
    section: &SectionRecord,
    direction: &str,
    figures: &DirectionRecord,
) -> Vec<Field> {
    let DirectionRecord { ios, bytes, errors, iops, mib_per_s, latency, percentiles } = figures;
    vec![
        text(name),
        text(direction),
        Field::Flag(section.is_background),
        Field::Flag(section.has_rate),
        Field::Whole(*ios),
        Field::Whole(*bytes),
        Field::Whole(*errors),
        Field::Whole(section.measured_ns),
        Field::Real(*iops),
        Field::Real(*mib_per_s),
        Field::Whole(percentiles.mean_ns),
        Field::Whole(percentiles.p50_ns),
        Field::Whole(percentiles.p90_ns),
        Field::Whole(percentiles.p95_ns),
        Field::Whole(percentiles.p99_ns),
        Field::Whole(percentiles.p99_9_ns),
        Field::Whole(percentiles.p99_99_ns),
        Field::Wholes(latency.bins.iter().map(|&bin| u64::from(bin)).collect()),
        Field::Wholes(latency.counts.as_slice().into()),
        Field::Whole(latency.sum_ns),
        Field::Whole(latency.min_ns),
        Field::Whole(latency.max_ns),
    ]
}

/// The columns of the whole cell that come last.
fn ending(plan: &SweepPlan, cell: SweepCell, record: &CellRecord) -> Vec<Field> {
    let members = &record.members;
    let wholes = |of: fn(&MemberRecord) -> u64| Field::Wholes(members.iter().map(of).collect());
    let mut fields = vec![
        Field::Whole(members.iter().map(|member| member.extra_reads).sum()),
        Field::Whole(record.background_bytes),
        Field::Whole(record.member_ios),
        wholes(|member| member.devid),
        wholes(|member| member.foreground_reads),
        wholes(|member| member.read_wait_mean_ns),
        Field::Reals(members.iter().map(|member| member.share).collect()),
    ];
    let (array, job) = plan.texts(cell.pair);
    let kinds = columns(plan).into_iter().skip(FIXED.len()).map(|column| column.kind);
    for (parameter, kind) in plan.varied().into_iter().zip(kinds) {
        let value = array.vary.get(parameter).or_else(|| job.vary.get(parameter));
        fields.push(match (value, kind) {
            (None, _) => Field::Missing,
            (Some(value), ColumnKind::OptionalReal) => {
                value.as_f64().map_or(Field::Missing, Field::Real)
            }
            (Some(Json::String(value)), _) => text(value),
            (Some(value), _) => text(&value.to_string()),
        });
    }
    fields
}

/// The place of a column that every plan has.
///
/// # Panics
/// If there is none of this name.
pub fn place_of(name: &str) -> usize {
    let place = FIXED.iter().position(|(column, _)| *column == name);
    place.expect("a name of a column of every plan")
}

/// A hash of rows: equal rows have equal hashes, and others most likely do not.
pub fn fingerprint(rows: &[CellRow]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for field in rows.iter().flatten() {
        discriminant(field).hash(&mut hasher);
        match field {
            Field::Text(text) => text.hash(&mut hasher),
            Field::Whole(number) => number.hash(&mut hasher),
            Field::Real(number) => number.to_bits().hash(&mut hasher),
            Field::Flag(is_set) => is_set.hash(&mut hasher),
            Field::Wholes(numbers) => numbers.hash(&mut hasher),
            Field::Reals(numbers) => numbers.iter().for_each(|it| it.to_bits().hash(&mut hasher)),
            Field::Missing => {}
        }
    }
    hasher.finish()
}

/// A row as a JSON object.
pub fn json(columns: &[RowColumn], row: &[Field]) -> String {
    let field = |(column, field): (&RowColumn, &Field)| {
        let value = match field {
            Field::Text(text) => Json::from(&**text),
            Field::Whole(number) => Json::from(*number),
            Field::Real(number) => Json::from(*number),
            Field::Flag(is_set) => Json::from(*is_set),
            Field::Wholes(numbers) => Json::from(numbers.to_vec()),
            Field::Reals(numbers) => Json::from(numbers.to_vec()),
            Field::Missing => Json::Null,
        };
        format!("{}:{value}", Json::from(column.name.as_str()))
    };
    let fields: Vec<String> = columns.iter().zip(row).map(field).collect();
    format!("{{{}}}", fields.join(","))
}
