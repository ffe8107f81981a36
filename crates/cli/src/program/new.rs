//! `mirrorball program new`: the files of a new policy. It needs no engine, so every build has it.

use crate::ending::{Ending, Failure};
use crate::screen;
use anyhow::{Context, anyhow};
use std::fs;
use std::path::Path;

const POLICY_HEADER: &str = include_str!("../../../program/include/mirrorball_policy.h");
/// The header that the first includes where a program is compiled for a kernel.
const KERNEL_HEADER: &str = include_str!("../../../program/include/mirrorball_kernel.h");
/// The header with which a policy is tested on the machine of its developer.
const TEST_HEADER: &str = include_str!("../../../program/include/mirrorball_test.h");

/// Writes the files of a new policy.
pub(super) fn run(name: &str) -> Result<Ending, Failure> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    if name.is_empty() || name.len() > 31 || !name.chars().all(is_plain) {
        return Err(Failure::WrongUse(anyhow!(
            "`{name}` cannot be the name of a policy\n  help: names have 1 to 31 characters of a \
             to z, 0 to 9, - and _"
        )));
    }
    let folder = Path::new(name);
    if folder.exists() {
        return Err(Failure::WrongUse(anyhow!(
            "`{name}` exists already, and nothing is overwritten\n  help: give another name"
        )));
    }
    let write = || -> anyhow::Result<()> {
        fs::create_dir(folder).with_context(|| format!("cannot make the folder `{name}`"))?;
        for (file, text) in files(name) {
            let path = folder.join(file);
            let written = fs::write(&path, text);
            written.with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        Ok(())
    };
    write().map_err(Failure::Fault)?;
    screen::say(format_args!("wrote {name}/{name}.c, its headers, a test and a Makefile"));
    screen::say(format_args!("  compile it with `mirrorball program build {name}/{name}.c`"));
    if !cfg!(feature = "programs") {
        screen::say(
            "note: this build of Mirrorball cannot compile or run programs: build it with `cargo \
             build --release --features programs`; `make test` in the folder needs clang alone",
        );
    }
    Ok(Ending::Done)
}

/// The files of a policy called `name`, by their names: source, Makefile, headers and test.
fn files(name: &str) -> [(String, String); 6] {
    let (source, header) = (format!("{name}.c"), "mirrorball_policy.h");
    let makefile = include_str!("../../template/Makefile")
        .replace("SOURCE", &source)
        .replace("INPUTS", &format!("{source} {header}"))
        .replace("NAME", name);
    let policy = include_str!("../../template/policy.c").replace("NAME", name);
    let test = include_str!("../../template/policy_test.c").replace("NAME", name);
    [
        (source, policy),
        ("Makefile".to_owned(), makefile),
        (header.to_owned(), POLICY_HEADER.to_owned()),
        ("mirrorball_kernel.h".to_owned(), KERNEL_HEADER.to_owned()),
        ("mirrorball_test.h".to_owned(), TEST_HEADER.to_owned()),
        (format!("{name}_test.c"), test),
    ]
}
