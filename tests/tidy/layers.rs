//! Crates depend on each other in one direction, and the pure crates stay pure.
//!
//! `core`, `disk` and `sim` run on a virtual clock as well as a real one, so they may not use a
//! clock, a thread or a file, nor let the order of a hash map decide anything.

use crate::Canary;
use crate::source::{File, Offence, Token, Tree};

/// Each crate and the crates it may depend on, as ARCHITECTURE.md draws them.
const LAYERS: [(&str, &[&str]); 16] = [
    ("core", &[]),
    ("store", &["core"]),
    ("parity", &[]),
    ("program", &["core"]),
    ("trace", &["core"]),
    ("disk", &["core"]),
    ("nbd", &["core"]),
    ("sim", &["core", "disk", "trace"]),
    ("lab", &["core", "disk", "sim"]),
    ("io", &["core", "store", "disk", "nbd", "parity"]),
    ("vopr", &["core", "store", "disk", "nbd", "io"]),
    // Of `disk` its example only.
    ("health", &["core", "disk"]),
    ("host", &["core", "disk", "sim", "lab", "io", "health", "trace"]),
    ("sweep", &["core", "disk", "sim", "lab"]),
    ("web", &["core", "disk", "sim", "lab", "host"]),
    (
        "cli",
        &[
            "core", "store", "disk", "sim", "lab", "io", "host", "health", "nbd", "program",
            "sweep", "trace", // Its tests compare the page with the program.
            "web",
        ],
    ),
];

const NOW: &str = "take `now` as an argument";
const ORDER: &str = "use a Vec or a BTreeMap, whose order is the same in every run";
const CHANCE: &str = "draw from mirrorball_core::rng::Rng, seeded by argument";
const OUTSIDE: &str = "let the caller do it and pass the result";

/// Names that a crate may not use in its sources, and what to do instead.
const BANNED: [(&[&str], &str, &str); 11] = [
    (&["core", "store", "disk", "sim", "health"], "Instant", NOW),
    (&["core", "store", "disk", "sim", "health"], "SystemTime", NOW),
    (&["core", "store", "disk", "sim", "health"], "HashMap", ORDER),
    (&["core", "store", "disk", "sim", "health"], "HashSet", ORDER),
    (&["core", "store", "disk", "sim", "health"], "RandomState", CHANCE),
    (&["core", "store", "disk", "sim", "health"], "rand", CHANCE),
    (&["core", "store", "disk", "sim", "health"], "thread", OUTSIDE),
    (&["core", "store", "disk", "sim", "health"], "net", OUTSIDE),
    (&["core", "store", "disk", "sim", "health"], "process", OUTSIDE),
    (&["core", "store"], "fs", OUTSIDE),
    (&["core", "store"], "env", OUTSIDE),
];

/// Sources of `io` that may use [`std::time::Instant`]: the driver's clock, and waits for the
/// system in places that have no driver. All others get their time from the driver, so that a
/// simulated driver decides it.
const CLOCK_USERS: [&str; 6] = [
    "crates/io/src/address.rs",
    "crates/io/src/driver/mod.rs",
    "crates/io/src/driver/teardown.rs",
    "crates/io/src/export/fuse/mount.rs",
    "crates/io/src/export/nbd/acceptor.rs",
    "crates/io/src/member/release.rs",
];

/// Crates that name a crate they may not depend on, in their manifest or in their sources.
pub(crate) fn dependencies(tree: &Tree) -> Vec<Offence> {
    let manifests = tree.files.iter().filter_map(|file| {
        let package = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        Some(manifest_dependencies(file, package))
    });
    let mut offences: Vec<Offence> = manifests.flatten().collect();
    for file in tree.rust() {
        let Some(package) = package_of(file) else { continue };
        for token in &file.tokens {
            let named = token.ident().and_then(|ident| ident.strip_prefix("mirrorball_"));
            offences.extend(named.and_then(|to| dependency(file, token.line, package, to)));
        }
    }
    offences
}

/// Clocks, threads, files and hash maps in pure crates. Tests may use them: they read golden files.
pub(crate) fn purity(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in tree.rust() {
        let Some(package) = package_of(file).filter(|package| is_source(file, package)) else {
            continue;
        };
        for (index, token) in file.tokens.iter().enumerate() {
            let Some(ident) = token.ident() else { continue };
            let row = BANNED
                .iter()
                .find(|(packages, name, _)| *name == ident && packages.contains(&package));
            let Some((_, name, advice)) = row else { continue };
            // A module's name is a common word elsewhere; in a path it follows `::`.
            let is_module = name.starts_with(char::is_lowercase);
            if !is_module || in_path(&file.tokens, index) {
                offences.push(file.offence(token.line, format!("`{name}` in {package}: {advice}")));
            }
        }
    }
    offences
}

/// Uses of `Instant` in other sources of `io` than [`CLOCK_USERS`], and rows of it without a use.
pub(crate) fn io_clock(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in tree.rust().filter(|file| is_source(file, "io")) {
        let uses = file.tokens.iter().filter(|token| token.ident() == Some("Instant"));
        let lines: Vec<usize> = uses.map(|token| token.line).collect();
        if !CLOCK_USERS.contains(&file.path.as_str()) {
            let what = "`Instant` in io: use the time of the driver, `driver.now()`";
            offences.extend(lines.into_iter().map(|line| file.offence(line, what)));
        } else if lines.is_empty() {
            offences.push(file.offence(1, "it does not use `Instant`: remove it from CLOCK_USERS"));
        }
    }
    offences
}

fn manifest_dependencies(manifest: &File, package: &str) -> Vec<Offence> {
    if !LAYERS.iter().any(|(name, _)| *name == package) {
        let what = "a crate without a layer: add it to LAYERS here and to ARCHITECTURE.md";
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
            offences.extend(to.and_then(|to| dependency(manifest, number, package, to)));
            if package == "core" && section == "dependencies" && key != "smallvec" {
                let what = format!("core depends on `{key}`: core depends only on `smallvec`");
                offences.push(manifest.offence(number, what));
            }
        }
    }
    offences
}

/// The offence, if `package` may not depend on the crate `to`.
fn dependency(file: &File, line: usize, package: &str, to: &str) -> Option<Offence> {
    let (_, known) = LAYERS.iter().find(|(name, _)| *name == package)?;
    if to == package || known.contains(&to) || !LAYERS.iter().any(|(name, _)| *name == to) {
        return None;
    }
    let what = format!(
        "{package} may not depend on {to}: move the code up, or pass what it needs as an argument"
    );
    Some(file.offence(line, what))
}

fn package_of(file: &File) -> Option<&str> {
    file.path.strip_prefix("crates/")?.split('/').next()
}

fn is_source(file: &File, package: &str) -> bool {
    file.path.starts_with(&format!("crates/{package}/src/")) && !file.is_test()
}

fn in_path(tokens: &[Token], index: usize) -> bool {
    let is_colon = |at: usize| tokens.get(at).is_some_and(|token| token.is_punct(':'));
    (is_colon(index + 1) && is_colon(index + 2))
        || (index >= 2 && is_colon(index - 1) && is_colon(index - 2))
}

pub(crate) fn dependencies_canary() -> Canary {
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

pub(crate) fn io_clock_canary() -> Canary {
    let used = "//! Instant\nuse std::time::Instant;\nfn a() { \"Instant\"; Instant::now(); }";
    let full = "fn a() -> std::time::Instant { b() }";
    Canary {
        files: vec![
            ("crates/io/src/address.rs", used.into()),
            ("crates/io/src/driver/mod.rs", "use std::time::Duration;".into()),
            ("crates/io/src/executor/mod.rs", used.into()),
            ("crates/io/src/rebuild.rs", full.into()),
            ("crates/io/src/driver/tests/timers.rs", used.into()),
            ("crates/io/tests/speed.rs", used.into()),
            ("crates/io/examples/bare_nbd.rs", used.into()),
            ("crates/cli/src/main.rs", used.into()),
        ],
        caught_at: vec![
            "crates/io/src/driver/mod.rs:1",
            "crates/io/src/executor/mod.rs:2",
            "crates/io/src/executor/mod.rs:3",
            "crates/io/src/rebuild.rs:1",
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
