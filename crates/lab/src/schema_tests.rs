//! The published schema of everything that is saved or printed as JSON.
//!
//! `docs/result-schema.json` is generated from the types, and a test holds it to them. To update
//! it after a change: `UPDATE_SCHEMA=1 cargo test -p mirrorball-lab schema`.

use crate::evaluation::advice::answer::Answer;
use crate::evaluation::advice::new_layouts::NewLayouts;
use crate::evaluation::league::record::PairingRecord;
use crate::evaluation::league::standings::Standings;
use crate::evaluation::recipe::compare::Repetition;
use crate::experiment::plan::Plan;
use crate::experiment::record::CellRecord;
use crate::experiment::study::Study;
use crate::report::Findings;
use schemars::{JsonSchema, schema_for};
use serde::Serialize;
use std::fs;

/// Any JSON document of Mirrorball.
#[derive(Debug, Serialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
#[serde(untagged)]
enum Document {
    /// `plan.json` in a results folder.
    Plan(Box<Plan>),
    /// A file under `cells/` in a results folder.
    Cell(Box<CellRecord>),
    /// What `compare --format json` prints, and `report --format json` of one set of results.
    Study(Box<Study>),
    /// What `report --format json` prints of several.
    Findings(Box<Findings<'static>>),
    /// What `recipe --format json` prints, one per recipe.
    Repetitions(Vec<Repetition>),
    /// What `advise --format json` prints.
    Answer(Box<Answer>),
    /// What `advise --new … --format json` prints.
    NewLayouts(Box<NewLayouts>),
    /// A file of a pairing in the results folder of `league`.
    Pairing(Box<PairingRecord>),
    /// What `league --format json` prints.
    League(Box<Standings>),
}

fn schema_text() -> String {
    let schema = schema_for!(Document);
    serde_json::to_string_pretty(&schema).expect("a schema is plain data") + "\n"
}

#[test]
fn the_schema_in_docs_is_that_of_the_types() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/result-schema.json");
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        fs::write(path, schema_text()).unwrap();
    }
    let published = fs::read_to_string(path).unwrap_or_default();
    assert!(
        published == schema_text(),
        "docs/result-schema.json is stale; update it with\n    \
         UPDATE_SCHEMA=1 cargo test -p mirrorball-lab schema\n\
         and raise SCHEMA_VERSION if a field changed its meaning or went"
    );
}
