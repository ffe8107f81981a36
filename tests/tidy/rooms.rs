//! The arrows between rooms point one way, and the pure rooms stay pure.
//!
//! `core`, `disk` and `sim` run on a virtual clock as well as a real one, so they may not look at a
//! clock, a thread or a file by themselves, nor let the order of a hash map decide anything.

use crate::Canary;
use crate::source::{File, Offence, Token, Tree};

/// Each room and the rooms it may know, as ARCHITECTURE.md draws them.
const ROOMS: [(&str, &[&str]); 6] = [
    ("core", &[]),
    ("disk", &["core"]),
    ("sim", &["core", "disk"]),
    ("lab", &["core", "disk", "sim"]),
    ("io", &["core", "disk"]),
    ("cli", &["core", "disk", "sim", "lab", "io"]),
];

const NOW: &str = "take `now` as an argument";
const ORDER: &str = "use a Vec or a BTreeMap, whose order is the same in every run";
const CHANCE: &str = "draw from mirrorball_core::rng::Rng, seeded by argument";
const OUTSIDE: &str = "let the caller do it and pass the result in";

/// Names that a room may not use in its sources, and what to do instead.
const BANNED: [(&[&str], &str, &str); 11] = [
    (&["core", "disk", "sim"], "Instant", NOW),
    (&["core", "disk", "sim"], "SystemTime", NOW),
    (&["core", "disk", "sim"], "HashMap", ORDER),
    (&["core", "disk", "sim"], "HashSet", ORDER),
    (&["core", "disk", "sim"], "RandomState", CHANCE),
    (&["core", "disk", "sim"], "rand", CHANCE),
    (&["core", "disk", "sim"], "thread", OUTSIDE),
    (&["core", "disk", "sim"], "net", OUTSIDE),
    (&["core", "disk", "sim"], "process", OUTSIDE),
    (&["core"], "fs", OUTSIDE),
    (&["core"], "env", OUTSIDE),
];

/// Rooms that name a room they may not know, in their manifest or in their sources.
pub(crate) fn arrows(tree: &Tree) -> Vec<Offence> {
    let manifests = tree.files.iter().filter_map(|file| {
        let room = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        Some(manifest_arrows(file, room))
    });
    let mut offences: Vec<Offence> = manifests.flatten().collect();
    for file in tree.rust() {
        let Some(room) = room_of(file) else { continue };
        for token in &file.tokens {
            let named = token.ident().and_then(|ident| ident.strip_prefix("mirrorball_"));
            offences.extend(named.and_then(|to| arrow(file, token.line, room, to)));
        }
    }
    offences
}

/// Names in pure rooms that reach for the world outside. Tests may: they read golden files.
pub(crate) fn purity(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in tree.rust() {
        let Some(room) = room_of(file).filter(|room| is_source(file, room)) else { continue };
        for (index, token) in file.tokens.iter().enumerate() {
            let Some(ident) = token.ident() else { continue };
            let row =
                BANNED.iter().find(|(rooms, name, _)| *name == ident && rooms.contains(&room));
            let Some((_, name, advice)) = row else { continue };
            // A module's name is a common word elsewhere; in a path it has `::` beside it.
            let is_module = name.starts_with(char::is_lowercase);
            if !is_module || in_path(&file.tokens, index) {
                offences.push(file.offence(token.line, format!("`{name}` in {room}: {advice}")));
            }
        }
    }
    offences
}

fn manifest_arrows(manifest: &File, room: &str) -> Vec<Offence> {
    if !ROOMS.iter().any(|(name, _)| *name == room) {
        let what = "a room without arrows: add it to ROOMS here and to ARCHITECTURE.md";
        return vec![manifest.offence(1, what)];
    }
    let mut offences = Vec::new();
    let mut section = "";
    for (number, line) in manifest.lines() {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']);
            continue;
        }
        let Some(key) = line.split(['=', '.', ' ']).next().filter(|key| !key.is_empty()) else {
            continue;
        };
        if section.ends_with("dependencies") && !key.starts_with('#') {
            let to = key.strip_prefix("mirrorball-");
            offences.extend(to.and_then(|to| arrow(manifest, number, room, to)));
            if room == "core" && section == "dependencies" {
                let what = format!("core depends on `{key}`: core has no dependencies at all");
                offences.push(manifest.offence(number, what));
            }
        }
    }
    offences
}

/// The offence, if `room` may not know the room `to`.
fn arrow(file: &File, line: usize, room: &str, to: &str) -> Option<Offence> {
    let (_, known) = ROOMS.iter().find(|(name, _)| *name == room)?;
    if to == room || known.contains(&to) || !ROOMS.iter().any(|(name, _)| *name == to) {
        return None;
    }
    let what = format!("{room} may not know {to}: move the code up, or pass what it needs in");
    Some(file.offence(line, what))
}

fn room_of(file: &File) -> Option<&str> {
    file.path.strip_prefix("crates/")?.split('/').next()
}

fn is_source(file: &File, room: &str) -> bool {
    file.path.starts_with(&format!("crates/{room}/src/")) && !file.is_test()
}

fn in_path(tokens: &[Token], index: usize) -> bool {
    let is_colon = |at: usize| tokens.get(at).is_some_and(|token| token.is_punct(':'));
    (is_colon(index + 1) && is_colon(index + 2))
        || (index >= 2 && is_colon(index - 1) && is_colon(index - 2))
}

pub(crate) fn arrows_canary() -> Canary {
    let core = "[package]\nname = \"mirrorball-core\"\n[dependencies]\nserde = \"1\"\n";
    let disk = "[dependencies]\nmirrorball-core = { path = \"../core\" }\n\
                mirrorball-sim.workspace = true\n[dev-dependencies]\nmirrorball-lab = \"1\"\n";
    Canary {
        files: vec![
            ("crates/core/Cargo.toml", core.into()),
            ("crates/core/src/lib.rs", "fn a() { mirrorball_disk::b(); mirrorball_sin(); }".into()),
            ("crates/disk/Cargo.toml", disk.into()),
            ("crates/disk/src/lib.rs", "use mirrorball_core::x;\n\nuse mirrorball_sim::y;".into()),
            ("crates/shed/Cargo.toml", "[dependencies]\n".into()),
        ],
        caught_at: vec![
            "crates/core/Cargo.toml:4",
            "crates/disk/Cargo.toml:3",
            "crates/disk/Cargo.toml:5",
            "crates/shed/Cargo.toml:1",
            "crates/core/src/lib.rs:1",
            "crates/disk/src/lib.rs:3",
        ],
    }
}

pub(crate) fn purity_canary() -> Canary {
    let core = "//! HashMap\nuse std::time::{Duration, Instant};\nuse std::collections::HashMap;\n\
                fn a(thread: u8) { \"std::fs::read\"; std::thread::yield_now(); }\n\
                use std::fs;\nfn b(net: u8) { fs::read(net); env!(\"A\"); rand::random() }";
    Canary {
        files: vec![
            ("crates/core/src/lib.rs", core.into()),
            ("crates/disk/src/lib.rs", "use std::fs;\nuse std::net::TcpStream;".into()),
            ("crates/disk/src/hdd/tests/speed.rs", "use std::process::id;".into()),
            ("crates/lab/src/lib.rs", "use std::time::Instant;".into()),
            ("crates/sim/benches/speed.rs", "use std::time::Instant;".into()),
        ],
        caught_at: vec![
            "crates/core/src/lib.rs:2",
            "crates/core/src/lib.rs:3",
            "crates/core/src/lib.rs:4",
            "crates/core/src/lib.rs:5",
            "crates/core/src/lib.rs:6",
            "crates/core/src/lib.rs:6",
            "crates/disk/src/lib.rs:2",
        ],
    }
}
