//! One file that should hold a saved cell: its record, or why it has none.
//!
//! The reasons are for people who named the wrong file or whose disk ran full: what is in the file
//! instead, and what to do with it. Only a file that does not parse is looked at twice.

use super::digest::{self, Integrity};
use crate::experiment::record::{CellRecord, SCHEMA_VERSION};
use serde_json::Value;
use serde_json::error::Category;
use std::fs;
use std::path::Path;

/// The record in `path`.
///
/// # Errors
/// Why there is none, in words that follow the path.
pub(super) fn read_cell(path: &Path) -> Result<CellRecord, String> {
    let bytes = fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    parse_cell(&bytes)
}

pub(super) fn parse_cell(bytes: &[u8]) -> Result<CellRecord, String> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err("is empty".to_owned());
    }
    let record: CellRecord =
        serde_json::from_slice(bytes).map_err(|error| match error.classify() {
            Category::Eof => {
                format!("is cut off: its JSON ends too early (at its byte {})", bytes.len())
            }
            Category::Data | Category::Syntax | Category::Io => diagnosed(bytes, &error),
        })?;
    if record.schema_version != SCHEMA_VERSION {
        return Err(other_version(u64::from(record.schema_version)));
    }
    if std::str::from_utf8(bytes).is_ok_and(|text| digest::check(text) == Integrity::Changed) {
        return Err("was changed after it was saved: its digest does not fit".to_owned());
    }
    match record.damage() {
        Some(what) => Err(format!("is damaged: {what}")),
        None => Ok(record),
    }
}

/// What a file that is no cell of this version seems to be.
fn diagnosed(bytes: &[u8], error: &serde_json::Error) -> String {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else {
        // fio writes its notes before its JSON.
        let is_fio = bytes.windows(FIO_MARK.len()).any(|window| window == FIO_MARK.as_bytes());
        let is_of_report = CSV_MARKS.iter().any(|mark| bytes.starts_with(mark.as_bytes()));
        return match (is_fio, is_of_report) {
            (true, _) => OF_FIO.to_owned(),
            (_, true) => OF_REPORT.to_owned(),
            _ => OF_NO_PROGRAM.to_owned(),
        };
    };
    let has = |key: &str| value.get(key).is_some();
    if has("fio version") {
        return OF_FIO.to_owned();
    }
    if let Some(version) = value.get("schema_version").and_then(Value::as_u64)
        && version != u64::from(SCHEMA_VERSION)
    {
        return other_version(version);
    }
    if has("policies") && has("seeds") {
        return "is a plan, not a saved result\n  help: give the folder that it is in".to_owned();
    }
    if has("matrix") && has("verdict") {
        return "is output of --format json, not a saved result\n  help: give the results folder"
            .to_owned();
    }
    if has("key") && has("number") && has("entries") {
        return OF_SAMPLE.to_owned();
    }
    if has("schema_version") {
        let error = error.to_string();
        let what = error.split(" at line ").next().unwrap_or_default();
        return format!("is damaged: {what}");
    }
    format!("is JSON, but not a result of mirrorball\n  help: {WHAT_IS_READ}")
}

const FIO_MARK: &str = "\"fio version\"";
/// First words of `--format csv`.
const CSV_MARKS: [&str; 2] = ["array,job,section,", "set,array,job,section,"];
const OF_REPORT: &str = "has the figures of a report as CSV, which is not read back\n  help: give \
                         the results folder";
const OF_FIO: &str = "is output of fio\n  help: `mirrorball import fio FILE -o DIR` converts it";
const OF_NO_PROGRAM: &str = "is not a result of mirrorball: it is not JSON\n  help: give a results \
                             folder, or files from its `cells` folder";
/// What is said of results of the random league.
pub(super) const OF_SAMPLE: &str = "holds results of `league --sample`, which `report` does not \
                                    read\n  help: run the same `mirrorball league --sample` \
                                    command again to print them";
const WHAT_IS_READ: &str = "give a results folder, or files from its `cells` folder";

fn other_version(version: u64) -> String {
    let advice = if version > u64::from(SCHEMA_VERSION) {
        "was saved by a newer mirrorball: use that version"
    } else {
        "was saved by an older mirrorball: run the comparison again"
    };
    format!("{advice} (it has schema version {version}, this program reads {SCHEMA_VERSION})")
}
