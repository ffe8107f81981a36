//! The table `[controller]` of an array file.

use super::model_reader::refuse_real_members;
use super::reader::TomlSection;
use super::spec::MemberSpec;
use crate::controller::ControllerSpec;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{MIB, format_bytes, parse_bytes};

const KEYS: [&str; 4] = ["cache", "high_mark", "low_mark", "depth"];
/// Smallest cache: a few writes of the largest usual size.
const CACHE_BYTES_MIN: u64 = 16 * MIB;
/// Largest number of units that are written back at once.
const DEPTH_MAX: u32 = 4096;

/// Reads `[controller]`, if there is one.
pub(super) fn read_controller(
    root: &TomlSection<'_>,
    members: &[MemberSpec],
) -> Result<Option<ControllerSpec>, Diagnostic> {
    let Some(table) = root.table("controller", "[controller]")? else { return Ok(None) };
    table.allow_only(&KEYS)?;
    refuse_real_members(&table, "[controller]", members)?;
    let Some(cache_bytes) = table.quantity("cache", parse_bytes)? else {
        let error = table.error("the controller has no `cache`");
        return Err(error.with_help("add its size, for example cache = \"1GiB\""));
    };
    if cache_bytes < CACHE_BYTES_MIN {
        let message = format!("`cache` is {}, which is too small", format_bytes(cache_bytes));
        let least = format_bytes(CACHE_BYTES_MIN);
        return Err(table.error_at("cache", message).with_help(format!("give {least} or more")));
    }
    let high_mark = table.quantity("high_mark", parse_mark)?;
    let high_mark = high_mark.unwrap_or(ControllerSpec::HIGH_MARK_DEFAULT);
    let low_mark = table.quantity("low_mark", parse_mark)?;
    let low_mark = low_mark.unwrap_or(ControllerSpec::LOW_MARK_DEFAULT.min(high_mark));
    if low_mark > high_mark {
        let percent = |mark: f64| (100.0 * mark).round();
        let (low, high) = (percent(low_mark), percent(high_mark));
        let message = format!("`low_mark` is {low}%, above the `high_mark` of {high}%");
        let help = "write-back starts at the high mark and stops at the low one";
        return Err(table.error_at("low_mark", message).with_help(help));
    }
    let depth = table.integer("depth")?.unwrap_or(ControllerSpec::DEPTH_DEFAULT);
    if !(1..=DEPTH_MAX).contains(&depth) {
        let error = table.error_at("depth", format!("`depth` is {depth}"));
        return Err(error.with_help(format!("give 1 to {DEPTH_MAX}")));
    }
    Ok(Some(ControllerSpec { cache_bytes, high_mark, low_mark, depth }))
}

/// Reads a share of the cache: `75%`.
fn parse_mark(text: &str) -> Result<f64, String> {
    let percent = text.trim().strip_suffix('%').and_then(|number| number.trim().parse().ok());
    match percent {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(format!("`{text}` is not a percentage from 0% to 100%, such as \"75%\"")),
    }
}
