//! Paths to one device, which dm-multipath and NVMe have in common.

pub(super) const PATHS_NOTE: &str =
    "the members are paths to one device: a simulation has a device for each";

/// Says which paths stand by, if any does.
pub(super) fn standby(serving: usize, standing: &[&str], why: &str) -> Option<String> {
    let count = standing.len();
    let serve = if serving == 1 { "path serves" } else { "paths serve" };
    let stand = if count == 1 { "stands" } else { "stand" };
    let text = format!("{serving} {serve}, {count} {stand} by ({why}): {}", standing.join(", "));
    (count > 0).then_some(text)
}
