//! The whole study as JSON, by the schema in `docs/result-schema.json`; several with their labels.

use super::{Findings, Style};

pub(super) fn render(findings: &Findings<'_>, _style: Style) -> String {
    let text = match &findings.sets[..] {
        [only] => serde_json::to_string_pretty(&only.study),
        _ => serde_json::to_string_pretty(findings),
    };
    text.expect("a study is plain data") + "\n"
}
