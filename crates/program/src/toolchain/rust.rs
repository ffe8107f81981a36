//! Compiles a policy in Rust: the crate `mirrorball-policy`, which is part of this build, and then
//! the policy with it.
//!
//! The target is `wasm32v1-none`: WebAssembly without its extensions. The core library of
//! `wasm32-unknown-unknown` uses instructions that the sandbox does not run (bulk memory). The
//! linker is the `rust-lld` that comes with Rust, or else `wasm-ld`.

use super::{Compiled, ToolchainError, WorkFolder, find, find_versioned, run, source_of, system};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crate for policies in Rust, by file.
const CRATE: [(&str, &str); 3] = [
    ("lib.rs", include_str!("../../policy/lib.rs")),
    ("helpers.rs", include_str!("../../policy/helpers.rs")),
    ("exports.rs", include_str!("../../policy/exports.rs")),
];

const TARGET: &str = "wasm32v1-none";

/// Options of rustc for the crate and the policy.
const OPTIONS: [&str; 6] = [
    "--edition=2024", "-Copt-level=2", "-Cpanic=abort", "-Ccodegen-units=1", "-Cembed-bitcode=yes",
    "--color=never",
];

/// Options of rustc for the policy alone. The stack comes first, as in policies in C.
const LINK_OPTIONS: [&str; 5] = [
    "--crate-type=cdylib",
    "-Clto=fat",
    "-Clink-arg=--stack-first",
    "-Clink-arg=-zstack-size=8192",
    "--crate-name=policy",
];

/// A compiler that has the core library of the target.
#[derive(Clone, Debug)]
pub struct RustToolchain {
    rustc: PathBuf,
    /// `wasm-ld`; `None` for the linker of Rust.
    linker: Option<PathBuf>,
}

impl RustToolchain {
    /// Finds the compiler: the variable `RUSTC`, or else `rustc` in the folders of `PATH`. Fails if
    /// it, the target or a linker is missing.
    pub fn find() -> Result<RustToolchain, ToolchainError> {
        let named = std::env::var_os("RUSTC").map(PathBuf::from);
        let rustc = named.or_else(|| find("rustc")).ok_or(ToolchainError::NoRust)?;
        if !has_core(&rustc) {
            return Err(ToolchainError::NoRustTarget);
        }
        let linker = match super::rust_linker(&rustc) {
            Some(_) => None,
            None => Some(find_versioned("wasm-ld").ok_or(ToolchainError::NoLinker)?),
        };
        Ok(RustToolchain { rustc, linker })
    }

    /// Compiles a file, which may use the crate `mirrorball_policy`. Fails if the file cannot be
    /// read, or the compiler refuses it.
    pub fn compile(&self, source: &Path) -> Result<Compiled, ToolchainError> {
        let source = source_of(source)?;
        let folder = WorkFolder::new()?;
        for (name, text) in CRATE {
            super::write(&folder.0.join(name), text)?;
        }
        let library = folder.0.join("libmirrorball_policy.rlib");
        let mut crate_command = self.rustc();
        crate_command.args(["--crate-type=rlib", "--crate-name=mirrorball_policy"]);
        // The path is part of the messages of a panic, and must not change the object.
        crate_command.arg(remap(&folder.0)).arg(folder.0.join("lib.rs"));
        run(crate_command.arg("-o").arg(&library), source)?;
        let object = folder.0.join("policy.wasm");
        let mut command = self.rustc();
        command.args(LINK_OPTIONS).arg(remap(source.parent().unwrap_or(Path::new(""))));
        if let Some(linker) = &self.linker {
            command.arg(format!("-Clinker={}", linker.display()));
        }
        command.arg("--extern").arg(format!("mirrorball_policy={}", library.display()));
        let warnings = run(command.arg(source).arg("-o").arg(&object), source)?;
        let object = fs::read(&object).map_err(|error| system("read the object", error))?;
        Ok(Compiled { object, warnings })
    }

    fn rustc(&self) -> Command {
        let mut command = Command::new(&self.rustc);
        command.args(OPTIONS).args(["--target", TARGET]);
        command
    }
}

/// The option that leaves a folder out of messages.
fn remap(folder: &Path) -> String {
    format!("--remap-path-prefix={}=", folder.display())
}

/// True if the core library of the target is installed.
fn has_core(rustc: &Path) -> bool {
    let asked = Command::new(rustc).args(["--print=target-libdir", "--target", TARGET]).output();
    let Ok(asked) = asked else { return false };
    let folder = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
    let Ok(files) = fs::read_dir(folder) else { return false };
    files.flatten().any(|file| file.file_name().to_string_lossy().starts_with("libcore-"))
}
