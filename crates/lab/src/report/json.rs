//! The whole study as JSON, by the schema in `docs/result-schema.json`.

use super::Style;
use crate::study::Study;

pub(super) fn render(study: &Study, _style: Style) -> String {
    let text = serde_json::to_string_pretty(study).expect("a study is plain data");
    text + "\n"
}
