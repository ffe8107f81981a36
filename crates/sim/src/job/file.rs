//! The pragma `file`: a job that works on a file of an XFS instead of the volume itself.

use super::error::job_error;
use super::spec::{Allocation, Direction, FileSpec, Mix, Section};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::suggest::closest_name;
use mirrorball_core::units::{KIB, parse_bytes};

const KEYS: [&str; 6] = ["file", "lock", "su", "sw", "swalloc", "agsize"];
const BLOCK: u64 = 4 * KIB;

/// Reads the words of a pragma with `file=`.
pub(super) fn parse_pragma(words: &str) -> Result<FileSpec, Diagnostic> {
    let allocation = Allocation::Raw;
    let mut file = FileSpec {
        allocation,
        is_exclusive: false,
        unit_bytes: BLOCK,
        units: 1,
        swalloc: false,
        ag_bytes: None,
    };
    let mut seen: Vec<&str> = Vec::new();
    for word in words.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        if seen.contains(&key) {
            return Err(job_error(format!("`{key}` is given twice"), "keep one of them"));
        }
        seen.push(key);
        match key {
            "file" => file.allocation = parse_allocation(value)?,
            "lock" => {
                file.is_exclusive = choose(key, value, [("shared", false), ("exclusive", true)])?;
            }
            "su" => file.unit_bytes = parse_size(key, value)?,
            "sw" => {
                let units = value.parse().ok().filter(|units| (1..=64).contains(units));
                file.units = units.ok_or_else(|| {
                    job_error(format!("`sw={value}` is no number from 1 to 64"), "write sw=3")
                })?;
            }
            "swalloc" => file.swalloc = choose(key, value, [("yes", true), ("no", false)])?,
            "agsize" => file.ag_bytes = Some(parse_size(key, value)?),
            _ => {
                let help = match closest_name(key, KEYS) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("known are {}", KEYS.join(", ")),
                };
                let message = format!("unknown word `{key}` in a `mirrorball:` comment");
                return Err(job_error(message, help));
            }
        }
    }
    if file.ag_bytes.is_some_and(|bytes| !bytes.is_multiple_of(file.unit_bytes)) {
        let help = "mkfs.xfs rounds it to stripe units; write for example agsize=3200M";
        return Err(job_error("`agsize` is no multiple of `su`", help));
    }
    Ok(file)
}

fn parse_allocation(value: &str) -> Result<Allocation, Diagnostic> {
    let known = [
        ("raw", Allocation::Raw),
        ("preallocated", Allocation::Preallocated),
        ("sparse", Allocation::Sparse),
    ];
    choose("file", value, known)
}

fn choose<T: Copy, const N: usize>(
    key: &str,
    value: &str,
    known: [(&str, T); N],
) -> Result<T, Diagnostic> {
    let found = known.iter().find(|(name, _)| *name == value).map(|&(_, choice)| choice);
    found.ok_or_else(|| {
        let names = known.map(|(name, _)| name).join(", ");
        job_error(format!("`{key}={value}` is not known"), format!("known are {names}"))
    })
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
