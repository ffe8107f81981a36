//! Build identity: tells two builds of the program apart, so that results of an older one are
//! never taken for those of a newer one.
//!
//! The identity is a hash of the executable that runs: of the segments that are loaded into memory
//! (code, constants and initial data), not of its debug information, which is several times larger
//! and changes no result. The source of every policy is among the constants, so any change of a
//! policy changes the identity; building the same source again gives the same bytes and the same
//! identity. A file that is not a 64-bit little-endian ELF file is hashed whole.
//!
//! Source: Tool Interface Standard, "Executable and Linking Format", version 1.2; the 64-bit layout
//! is that of elf(5).

use crate::experiment::hash::WordHasher;
use anyhow::{Context, Result};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Version of the program.
pub const PROGRAM_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Bytes that are read and hashed at a time.
const BLOCK_BYTES: u64 = 256 * 1024;
/// Digits of the hash that are shown to people.
const DIGITS_SHOWN: usize = 12;

/// Version of the program and hash of its executable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct BuildIdentity {
    /// Version of the program.
    pub version: String,
    /// Hash of the executable, 32 hexadecimal digits.
    pub hash: String,
}

impl BuildIdentity {
    /// Identity of the running program, computed once in a process.
    ///
    /// # Errors
    /// If the executable cannot be read.
    pub fn current() -> Result<BuildIdentity> {
        static CURRENT: OnceLock<BuildIdentity> = OnceLock::new();
        if let Some(identity) = CURRENT.get() {
            return Ok(identity.clone());
        }
        let path = executable().context("cannot find the running program")?;
        let hash = hash_of(&path).with_context(|| {
            format!("cannot hash the running program ({}), which names its build", path.display())
        })?;
        let identity = BuildIdentity { version: PROGRAM_VERSION.to_owned(), hash };
        Ok(CURRENT.get_or_init(|| identity).clone())
    }

    /// Identity of this version of the program with a given hash, for results that were not made
    /// by the running executable.
    pub fn with_hash(hash: impl Into<String>) -> BuildIdentity {
        BuildIdentity { version: PROGRAM_VERSION.to_owned(), hash: hash.into() }
    }
}

impl fmt::Display for BuildIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, hash } = self;
        match hash.get(..DIGITS_SHOWN).unwrap_or(hash) {
            "" => formatter.write_str(version),
            shown => write!(formatter, "{version} ({shown})"),
        }
    }
}

/// The file that runs. Linux keeps `/proc/self/exe` readable when a new build replaces the file.
fn executable() -> io::Result<PathBuf> {
    let link = Path::new("/proc/self/exe");
    if link.exists() { Ok(link.to_owned()) } else { std::env::current_exe() }
}

/// Hash of the loaded part of an executable.
fn hash_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let segments = loaded_segments(&mut file, length)?;
    let mut hasher = WordHasher::default();
    let mut block = vec![0; BLOCK_BYTES as usize];
    for Range { start, end } in segments {
        hasher.absorb(&(end - start).to_le_bytes());
        file.seek(SeekFrom::Start(start))?;
        let mut left = end - start;
        while left > 0 {
            let part = &mut block[..left.min(BLOCK_BYTES) as usize];
            file.read_exact(part)?;
            hasher.absorb(part);
            left -= part.len() as u64;
        }
    }
    Ok(hasher.finish())
}

/// Ranges of the file that are loaded into memory; the whole file if it is not a 64-bit
/// little-endian ELF file.
fn loaded_segments(file: &mut File, length: u64) -> io::Result<Vec<Range<u64>>> {
    let whole = || std::iter::once(0..length).collect();
    let mut header = [0; 64];
    if length < header.len() as u64 {
        return Ok(whole());
    }
    file.read_exact(&mut header)?;
    let is_elf64 = header.starts_with(b"\x7fELF\x02\x01");
    let (entry_bytes, entries) = (u64::from(u16_at(&header, 54)), u64::from(u16_at(&header, 56)));
    let table = u64_at(&header, 32);
    let table_fits =
        table.checked_add(entry_bytes * entries).is_some_and(|table_end| table_end <= length);
    if !is_elf64 || entry_bytes < 56 || !table_fits {
        return Ok(whole());
    }
    let mut entries_read = vec![0; (entry_bytes * entries) as usize];
    file.seek(SeekFrom::Start(table))?;
    file.read_exact(&mut entries_read)?;
    const LOAD: [u8; 4] = 1u32.to_le_bytes();
    let segments: Vec<Range<u64>> = entries_read
        .chunks_exact(entry_bytes as usize)
        .filter(|entry| entry.starts_with(&LOAD))
        .map(|entry| (u64_at(entry, 8), u64_at(entry, 32)))
        .map(|(start, bytes)| start..start.saturating_add(bytes))
        .collect();
    let are_inside = segments.iter().all(|segment| segment.end <= length);
    Ok(if segments.is_empty() || !are_inside { whole() } else { segments })
}

fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(bytes[offset..offset + 2].try_into().expect("two bytes"))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// An ELF file with one loaded segment, one that is not loaded, and debug information behind.
    fn elf(loaded: &[u8], note: &[u8], debug: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(64, 0);
        bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
        bytes[54..56].copy_from_slice(&56u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&2u16.to_le_bytes());
        let mut offset = 64 + 2 * 56;
        for (kind, part) in [(1u32, loaded), (4, note)] {
            let mut entry = vec![0; 56];
            entry[..4].copy_from_slice(&kind.to_le_bytes());
            entry[8..16].copy_from_slice(&(offset as u64).to_le_bytes());
            entry[32..40].copy_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend(entry);
            offset += part.len();
        }
        [&bytes[..], loaded, note, debug].concat()
    }

    fn hash_of_bytes(bytes: &[u8]) -> String {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, bytes).unwrap();
        hash_of(&path).unwrap()
    }

    #[test]
    fn only_loaded_segments_count() {
        let before = hash_of_bytes(&elf(b"code and constants", b"note", b"lines 1 to 9"));
        assert_eq!(before, hash_of_bytes(&elf(b"code and constants", b"NOTE", b"lines 1 to 10")));
        assert_ne!(before, hash_of_bytes(&elf(b"code and c0nstants", b"note", b"lines 1 to 9")));
    }

    #[test]
    fn every_byte_of_another_kind_of_file_counts() {
        let before = hash_of_bytes(b"#!/bin/sh\nexec mirrorball\n");
        assert_ne!(before, hash_of_bytes(b"#!/bin/sh\nexec mirrorball \n"));
        assert_ne!(hash_of_bytes(b""), hash_of_bytes(b"\0"));
        let mut cut_off = elf(b"code", b"note", b"");
        cut_off.truncate(150);
        assert_ne!(hash_of_bytes(&cut_off), hash_of_bytes(&cut_off[..149]));
    }

    #[test]
    fn the_running_program_has_one_identity() {
        let current = BuildIdentity::current().unwrap();
        assert_eq!(current, BuildIdentity::current().unwrap());
        assert_eq!((current.hash.len(), &*current.version), (32, PROGRAM_VERSION));
        let shown = BuildIdentity::with_hash("0123456789abcdef").to_string();
        assert_eq!(shown, format!("{PROGRAM_VERSION} (0123456789ab)"));
    }
}
