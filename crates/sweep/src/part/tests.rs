//! Rows that are written are read back, and other files are refused.

use super::*;
use mirrorball_lab::experiment::build::BuildIdentity;
use parquet::file::metadata::ColumnChunkMetaData;
use std::fs;
use tempfile::TempDir;

fn plan() -> SweepPlan {
    let build = BuildIdentity::with_hash("0");
    let mut plan = SweepPlan::grid(build, Vec::new(), Vec::new(), Vec::new(), None);
    let vary = [("a.x", serde_json::json!(1)), ("b", serde_json::json!("text"))];
    for (name, value) in vary {
        plan.arrays.push(crate::plan::SweepInput {
            name: "array".to_owned(),
            text: String::new(),
            fingerprint: String::new(),
            vary: [(name.to_owned(), value)].into(),
        });
    }
    plan
}

/// Row `number`: a value of each kind, lists of every length, and the ends of the ranges.
fn row(columns: &[RowColumn], number: u64) -> CellRow {
    let is_missing = number.is_multiple_of(3);
    let list = |limit: u64| (0..number % 5).map(move |n| limit - n * number % 7);
    let value = |column: &RowColumn| match column.kind {
        ColumnKind::Text if column.name == "key" => Field::Text(format!("{number:032x}").into()),
        ColumnKind::Text => Field::Text(["", "text", "ü"][number as usize % 3].into()),
        ColumnKind::OptionalText if !is_missing => Field::Text("value".into()),
        ColumnKind::Whole => Field::Whole(u64::MAX - number),
        ColumnKind::OptionalWhole if !is_missing => Field::Whole(number),
        ColumnKind::Real => Field::Real(1.0 / number as f64),
        ColumnKind::OptionalReal if !is_missing => Field::Real(number as f64),
        ColumnKind::Flag => Field::Flag(is_missing),
        ColumnKind::Bins => Field::Wholes(list(1855).collect()),
        ColumnKind::Wholes => Field::Wholes(list(u64::MAX).collect()),
        ColumnKind::Reals => Field::Reals(list(1000).map(|it| it as f64).collect()),
        _ => Field::Missing,
    };
    columns.iter().map(value).collect()
}

fn write(path: &Path, hash: &str, purpose: FilePurpose<'_>, rows: &[CellRow]) {
    let mut writer = PartWriter::new(File::create(path).unwrap(), &plan(), hash, purpose).unwrap();
    for group in rows.chunks(700) {
        writer.write(group).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn every_kind_of_value_survives_the_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("part.parquet");
    let columns = columns(&plan());
    let kinds: Vec<ColumnKind> = columns.iter().map(|column| column.kind).collect();
    assert_eq!(kinds[kinds.len() - 2..], [ColumnKind::OptionalReal, ColumnKind::OptionalText]);
    let rows: Vec<CellRow> = (0..2_000).map(|number| row(&columns, number)).collect();
    for purpose in [FilePurpose::Part { host: "machine" }, FilePurpose::Packed] {
        write(&path, "hash", purpose, &rows);
        let part = PartReader::open(&path, &plan(), "hash").unwrap();
        let read: Vec<CellRow> =
            (0..part.groups()).flat_map(|group| part.rows(group).unwrap()).collect();
        assert_eq!(part.groups(), 3);
        assert!(read == rows, "{purpose:?}");
        assert_eq!(part.keys(1).unwrap(), (700..1400).collect::<Vec<CellKey>>());
    }
}

/// DuckDB before 2.0 reads no whole numbers whose bytes are split.
#[test]
fn only_parts_have_bytes_split_by_place() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("part.parquet");
    let rows: Vec<CellRow> = (0..100).map(|number| row(&columns(&plan()), number)).collect();
    let split = |purpose| -> Vec<String> {
        write(&path, "hash", purpose, &rows);
        let part = PartReader::open(&path, &plan(), "hash").unwrap();
        let columns = part.reader.metadata().row_group(0).columns();
        let is_split = |column: &&ColumnChunkMetaData| {
            column.encodings().any(|encoding| encoding == Encoding::BYTE_STREAM_SPLIT)
        };
        columns
            .iter()
            .filter(is_split)
            .map(|column| column.column_path().parts()[0].clone())
            .collect()
    };
    assert_eq!(split(FilePurpose::Packed), [""; 0]);
    let lists = ["lat_bin", "lat_count", "m_devid", "m_reads", "m_wait_mean_ns"];
    assert_eq!(split(FilePurpose::Part { host: "machine" }), lists);
}

#[test]
fn a_damaged_file_and_one_of_another_plan_are_distinguished() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("part.parquet");
    let rows: Vec<CellRow> = (0..100).map(|number| row(&columns(&plan()), number)).collect();
    write(&path, "hash", FilePurpose::Packed, &rows);
    let open = |hash| PartReader::open(&path, &plan(), hash).err();
    assert!(open("hash").is_none());
    assert!(matches!(open("other"), Some(NoPart::Foreign(_))));
    let bytes = fs::read(&path).unwrap();
    for length in [0, 3, 8, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&path, &bytes[..length]).unwrap();
        assert!(matches!(open("hash"), Some(NoPart::Damaged(_))), "{length} bytes");
    }
}
