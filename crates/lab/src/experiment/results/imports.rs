//! What a reader should know of imported cells.

use crate::experiment::record::CellRecord;
use std::collections::{BTreeMap, BTreeSet};

/// Which latencies they have, and options that are not known.
pub(super) fn notes(cells: &[CellRecord]) -> Vec<String> {
    let imports = || cells.iter().filter_map(|cell| Some((cell, cell.imported.as_ref()?)));
    let mut by_kind: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (cell, import) in imports() {
        if let Some(kind) = import.latency.in_words() {
            by_kind.entry(kind).or_default().insert(&cell.cell.policy);
        }
    }
    let has_both = by_kind.len() > 1;
    let of_kind = |(kind, policies): (&&str, &BTreeSet<&str>)| match has_both {
        false => (*kind).to_owned(),
        true => {
            let policies: Vec<&str> = policies.iter().copied().collect();
            format!("{kind}, of {}", policies.join(", "))
        }
    };
    let kinds: Vec<String> = by_kind.iter().map(of_kind).collect();
    let end = if has_both { ": do not compare one with the other" } else { "" };
    let latencies = format!("the imported latencies are {}{end}", kinds.join("; "));
    let several: BTreeSet<&str> =
        imports().flat_map(|(_, import)| &import.of_several).map(String::as_str).collect();
    let options = several.iter().map(|name| {
        format!(
            "`{name}` is several jobs that fio reports together (group_reporting): it repeats the \
             options of one, which are left out"
        )
    });
    let latencies = (!kinds.is_empty()).then_some(latencies);
    latencies.into_iter().chain(options).collect()
}
