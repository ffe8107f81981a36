//! The pragma `file`: a job that works on a file of an XFS instead of the volume itself.

use super::error::job_error;
use super::pragma_words::{YES_NO, one_of, words};
use super::spec::{Allocation, Direction, FileSpec, Mix, Section};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{KIB, parse_bytes};

const KEYS: [&str; 6] = ["file", "lock", "su", "sw", "swalloc", "agsize"];
const ALLOCATIONS: [(&str, Allocation); 3] = [
    ("raw", Allocation::Raw),
    ("preallocated", Allocation::Preallocated),
    ("sparse", Allocation::Sparse),
];
const LOCKS: [(&str, bool); 2] = [("shared", false), ("exclusive", true)];
const BLOCK: u64 = 4 * KIB;

/// Reads the words of a pragma with `file=`.
pub(super) fn parse_pragma(text: &str) -> Result<FileSpec, Diagnostic> {
    let allocation = Allocation::Raw;
    let mut file = FileSpec {
        allocation,
        is_exclusive: false,
        unit_bytes: BLOCK,
        units: 1,
        swalloc: false,
        ag_bytes: None,
    };
    for (key, value) in words(text, &KEYS)? {
        match key {
            "file" => file.allocation = one_of(key, value, &ALLOCATIONS)?,
            "lock" => file.is_exclusive = one_of(key, value, &LOCKS)?,
            "su" => file.unit_bytes = parse_size(key, value)?,
            "sw" => {
                let units = value.parse().ok().filter(|units| (1..=64).contains(units));
                file.units = units.ok_or_else(|| {
                    job_error(format!("`sw={value}` is no number from 1 to 64"), "write sw=3")
                })?;
            }
            "swalloc" => file.swalloc = one_of(key, value, &YES_NO)?,
            _ => file.ag_bytes = Some(parse_size(key, value)?),
        }
    }
    if file.ag_bytes.is_some_and(|bytes| !bytes.is_multiple_of(file.unit_bytes)) {
        let help = "mkfs.xfs rounds it to stripe units; write for example agsize=3200M";
        return Err(job_error("`agsize` is no multiple of `su`", help));
    }
    Ok(file)
}

fn parse_size(key: &str, value: &str) -> Result<u64, Diagnostic> {
    let bytes = parse_bytes(value).ok().filter(|&bytes| bytes > 0 && bytes.is_multiple_of(BLOCK));
    bytes.ok_or_else(|| {
        let message = format!("`{key}={value}` is no size in whole blocks of 4 KiB");
        job_error(message, format!("write for example {key}=1M"))
    })
}

/// Checks that a section can work on its file, if it has one; `others` are the sections above it.
pub(super) fn check(section: &Section, others: &[Section]) -> Result<(), Diagnostic> {
    let Some(file) = &section.file else { return Ok(()) };
    let name = &section.name;
    let refuse = |why: &str, help: &str| {
        Err(job_error(format!("section `{name}` has a `file` {why}"), help))
    };
    if section.clones > 1 && (file.is_exclusive || !file.is_raw()) {
        return refuse("and numjobs above 1", "remove numjobs, and raise iodepth");
    }
    if file.is_raw() {
        return Ok(());
    }
    if !section.direct {
        return refuse("and goes through the page cache", "add direct=1");
    }
    if section.replay.is_some() || section.mix == Mix::Only(Direction::Trim) {
        return refuse("and does not read or write it", "use rw=randwrite or the like");
    }
    if others.iter().any(|other| other.file.is_some_and(|file| !file.is_raw())) {
        return refuse("as another has", "one section of a job may have a file");
    }
    Ok(())
}
