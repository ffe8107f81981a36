//! The cache tier of an array file: `cache = { … }` of a member, or `[cache]` of the array.

use super::model_reader::{read_model, refuse_real_members};
use super::reader::TomlSection;
use super::spec::MemberSpec;
use crate::cache_tier::{CacheMode, CacheSpec};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{MIB, format_bytes, parse_bytes};

const KEYS: [&str; 7] =
    ["model", "size", "set", "mode", "sequential_cutoff", "promote_after", "warm"];
/// Smallest cache: a few I/Os of the largest usual size.
const CACHE_BYTES_MIN: u64 = 16 * MIB;

pub(super) fn read_member_cache(member: &TomlSection<'_>) -> Result<Option<CacheSpec>, Diagnostic> {
    let Some(table) = member.table("cache", "`cache`")? else { return Ok(None) };
    let example = "cache = { model = \"ssd-sata-consumer\", size = \"240GB\" }";
    read_cache(&table, "`cache`", example).map(Some)
}

/// Reads `[cache]`, the cache in front of the array, if there is one.
pub(super) fn read_array_cache(
    root: &TomlSection<'_>,
    members: &[MemberSpec],
) -> Result<Option<CacheSpec>, Diagnostic> {
    let Some(table) = root.table("cache", "[cache]")? else { return Ok(None) };
    refuse_real_members(&table, "[cache]", members)?;
    read_cache(&table, "`[cache]`", "model = \"nvme-gen3\"").map(Some)
}

fn read_cache(table: &TomlSection<'_>, name: &str, example: &str) -> Result<CacheSpec, Diagnostic> {
    table.allow_only(&KEYS)?;
    let Some(model) = table.text("model")? else {
        let error = table.error(format!("{name} needs the `model` of its device"));
        return Err(error.with_help(format!("for example {example}")));
    };
    let device = read_model(table, model)?;
    if device.capacity_bytes < CACHE_BYTES_MIN {
        let message =
            format!("the cache has {}, which is too small", format_bytes(device.capacity_bytes));
        let least = format_bytes(CACHE_BYTES_MIN);
        return Err(table.error_at("size", message).with_help(format!("give {least} or more")));
    }
    let cutoff = table.quantity("sequential_cutoff", parse_bytes)?;
    let promote_after = table.integer("promote_after")?.unwrap_or(1);
    if promote_after == 0 {
        let error = table.error_at("promote_after", "`promote_after` is 0");
        return Err(error.with_help("1 puts a block into the cache when it is missed"));
    }
    Ok(CacheSpec {
        device,
        mode: read_mode(table)?,
        sequential_cutoff_bytes: cutoff.unwrap_or(CacheSpec::SEQUENTIAL_CUTOFF_BYTES_DEFAULT),
        promote_after,
        warm_share: table.quantity("warm", parse_share)?.unwrap_or(0.0),
    })
}

fn read_mode(table: &TomlSection<'_>) -> Result<CacheMode, Diagnostic> {
    let Some(name) = table.text("mode")? else { return Ok(CacheMode::ALL[0]) };
    let known = CacheMode::ALL.map(CacheMode::name);
    CacheMode::ALL.into_iter().find(|mode| mode.name() == name.value).ok_or_else(|| {
        let message = format!("unknown mode `{}` of a cache", name.value);
        let error = table.source.error(name.start, message);
        error.with_suggestion(name.value, &known, "the modes are")
    })
}

fn parse_share(text: &str) -> Result<f64, String> {
    let percent = text.trim().strip_suffix('%').and_then(|number| number.trim().parse().ok());
    match percent {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(format!("`{text}` is not a percentage from 0% to 100%, such as \"20%\"")),
    }
}
