//! Everything as JSON.

use crate::experiment::explain::Explained;
use crate::report::Style;

pub(super) fn render(explained: &Explained, _style: Style) -> String {
    serde_json::to_string_pretty(explained).expect("an answer is plain data") + "\n"
}
