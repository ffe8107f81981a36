//! `begin` and `length` of a member: the part of a disk that it is.

use super::reader::TomlSection;
use super::spec::Partition;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{SECTOR_BYTES, parse_bytes};

/// Reads the part of a modelled disk of `capacity_bytes`; `None` for all of it. A `begin` without a
/// `length` means the rest of the disk.
pub(super) fn read_partition(
    section: &TomlSection<'_>,
    capacity_bytes: u64,
) -> Result<Option<Partition>, Diagnostic> {
    let help = "`size` is that of the whole disk, `length` that of the member";
    let begin_bytes = read_aligned(section, "begin")?.unwrap_or(0);
    if begin_bytes >= capacity_bytes {
        let message = format!("`begin` is not on the disk, which has {capacity_bytes} bytes");
        return Err(section.error_at("begin", message).with_help(help));
    }
    let rest_bytes = capacity_bytes - begin_bytes;
    let length_bytes = read_aligned(section, "length")?.unwrap_or(rest_bytes);
    if length_bytes == 0 {
        let error = section.error_at("length", "`length` is 0, so nothing would be left");
        return Err(error.with_help("leave it out for the rest of the disk"));
    }
    if length_bytes > rest_bytes {
        let message = format!(
            "the part ends at byte {}, and the disk has {capacity_bytes} bytes",
            begin_bytes.saturating_add(length_bytes)
        );
        return Err(section.error_at("length", message).with_help(help));
    }
    let is_part = length_bytes < capacity_bytes;
    Ok(is_part.then_some(Partition { begin_bytes, length_bytes }))
}

/// Reads a size that must be a whole number of sectors.
pub(super) fn read_aligned(
    section: &TomlSection<'_>,
    key: &str,
) -> Result<Option<u64>, Diagnostic> {
    let bytes = section.quantity(key, parse_bytes)?;
    if bytes.is_some_and(|bytes| !bytes.is_multiple_of(SECTOR_BYTES)) {
        let message = format!("`{key}` is not a multiple of {SECTOR_BYTES} bytes");
        return Err(section.error_at(key, message));
    }
    Ok(bytes)
}
