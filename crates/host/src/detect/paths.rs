//! Paths to one device, which dm-multipath and NVMe have in common.

use super::array::DetectError;
use super::members::no_mirror;

pub(super) const PATHS_NOTE: &str =
    "the members are paths to one device: a simulation has a device for each";

/// Notes which paths stand by. Fails if all but one do: then there is nothing to choose.
pub(super) fn note_standby(
    name: &str,
    serving: usize,
    standing: &[&str],
    why: &str,
    help: &str,
    notes: &mut Vec<String>,
) -> Result<(), DetectError> {
    let count = standing.len();
    if count == 0 {
        return Ok(());
    }
    let s = if serving == 1 { "s" } else { "" };
    let paths = if serving == 1 { "path" } else { "paths" };
    let stand = if count == 1 { "stands" } else { "stand" };
    let text =
        format!("{serving} {paths} serve{s}, {count} {stand} by ({why}): {}", standing.join(", "));
    if serving == 1 {
        return Err(no_mirror(format!("{name}: {text}"), help));
    }
    notes.push(text);
    Ok(())
}
