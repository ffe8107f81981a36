//! Compiles a policy: finds the compiler and a linker for WebAssembly, and runs both.
//!
//! For C, any clang since version 11 that knows the target `wasm32` will do. The linker is
//! `wasm-ld` of the package lld, or the `rust-lld` that comes with Rust.

use crate::C_HEADER;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// Newest and oldest version that is looked for under a name with a version, as Debian has them.
const VERSIONS: std::ops::RangeInclusive<u32> = 11..=24;

/// Options of clang but for files. `mvp`: programs run on WebAssembly without its extensions.
const CLANG_OPTIONS: [&str; 8] = [
    "--target=wasm32", "-mcpu=mvp", "-O2", "-Wall", "-Wextra", "-nostdlib", "-ffreestanding",
    "-fno-color-diagnostics",
];

/// Options of the linker but for files. The stack comes first, so that a stack that overflows
/// leaves the memory, which is a fault, in place of changing variables.
const LINKER_OPTIONS: [&str; 6] = [
    "--no-entry", "--export-dynamic", "--allow-undefined", "--stack-first", "-z", "stack-size=8192",
];

/// Why a policy was not compiled.
#[derive(Debug, thiserror::Error)]
pub enum ToolchainError {
    /// No clang was found.
    #[error(
        "clang is not installed: it compiles policies in C\n  help: install clang, for example \
         with `apt-get install clang lld`"
    )]
    NoCompiler,
    /// No linker was found.
    #[error(
        "no linker for WebAssembly is installed: neither wasm-ld nor the rust-lld of Rust was \
         found\n  help: install lld, for example with `apt-get install lld`"
    )]
    NoLinker,
    #[error("cannot read `{path}`: {error}")]
    Source { path: PathBuf, error: io::Error },
    /// The compiler or the linker refused its input.
    #[error("{tool} failed for `{path}`:\n{output}")]
    Refused { tool: String, path: PathBuf, output: String },
    /// A tool cannot be run, or a file cannot be written.
    #[error("cannot compile: {what}: {error}")]
    System {
        what: String,
        /// Why it failed.
        error: io::Error,
    },
}

/// A compiler of C and a linker.
#[derive(Clone, Debug)]
pub struct Toolchain {
    clang: PathBuf,
    linker: PathBuf,
    /// True if the linker is LLVM's generic one, which needs the format as an option.
    is_generic_linker: bool,
}

/// A compiled policy, and what the tools printed about it.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub object: Vec<u8>,
    /// Warnings; empty if there are none.
    pub warnings: String,
}

impl Toolchain {
    /// Finds the tools in the folders of `PATH`, and the linker of Rust.
    pub fn find() -> Result<Toolchain, ToolchainError> {
        let clang = find_versioned("clang").ok_or(ToolchainError::NoCompiler)?;
        if let Some(linker) = find_versioned("wasm-ld") {
            return Ok(Toolchain { clang, linker, is_generic_linker: false });
        }
        let linker = find("rust-lld").or_else(rust_linker).ok_or(ToolchainError::NoLinker)?;
        Ok(Toolchain { clang, linker, is_generic_linker: true })
    }

    /// Compiles a file. It finds `mirrorball_policy.h` next to itself, or else the one of this
    /// build. Fails if the file cannot be read, or a tool refuses it.
    pub fn compile(&self, source: &Path) -> Result<Compiled, ToolchainError> {
        let source = source_of(source)?;
        let folder = WorkFolder::new()?;
        let (unlinked, object) = (folder.0.join("policy.o"), folder.0.join("policy.wasm"));
        write(&folder.0.join("mirrorball_policy.h"), C_HEADER)?;
        let mut clang = Command::new(&self.clang);
        clang.args(CLANG_OPTIONS).arg("-I").arg(&folder.0).arg("-c").arg(source);
        let warnings = run(clang.arg("-o").arg(&unlinked), source)?;
        let mut linker = Command::new(&self.linker);
        if self.is_generic_linker {
            linker.args(["-flavor", "wasm"]);
        }
        run(linker.args(LINKER_OPTIONS).arg(&unlinked).arg("-o").arg(&object), source)?;
        let read = fs::read(&object).map_err(|error| system("read the object", error))?;
        Ok(Compiled { object: read, warnings })
    }
}

fn source_of(path: &Path) -> Result<&Path, ToolchainError> {
    let read = fs::File::open(path);
    read.map_err(|error| ToolchainError::Source { path: path.to_owned(), error })?;
    Ok(path)
}

/// A folder of its own, which is removed when it is dropped.
struct WorkFolder(PathBuf);

impl WorkFolder {
    fn new() -> Result<WorkFolder, ToolchainError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("mirrorball-program-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let made = fs::create_dir(&path);
        made.map_err(|error| system(&format!("make the folder {}", path.display()), error))?;
        Ok(WorkFolder(path))
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        // Nothing depends on it: a folder that stays is one of many temporary ones.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a tool; returns what it printed.
fn run(command: &mut Command, source: &Path) -> Result<String, ToolchainError> {
    let tool = command.get_program().to_string_lossy().into_owned();
    let done = command.stdin(Stdio::null()).output();
    let Output { status, stdout, stderr } =
        done.map_err(|error| system(&format!("run {tool}"), error))?;
    let output = String::from_utf8_lossy(&stdout) + String::from_utf8_lossy(&stderr);
    let output = output.trim_end().to_owned();
    if status.success() {
        return Ok(output);
    }
    Err(ToolchainError::Refused { tool, path: source.to_owned(), output })
}

fn write(path: &Path, text: &str) -> Result<(), ToolchainError> {
    fs::write(path, text).map_err(|error| system(&format!("write {}", path.display()), error))
}

fn system(what: &str, error: io::Error) -> ToolchainError {
    ToolchainError::System { what: what.to_owned(), error }
}

/// Finds a program under its name, or under its name with a version, the newest first.
fn find_versioned(name: &str) -> Option<PathBuf> {
    find(name).or_else(|| VERSIONS.rev().find_map(|version| find(&format!("{name}-{version}"))))
}

/// Finds a program in the folders of `PATH`.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn rust_linker() -> Option<PathBuf> {
    let done = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let root = PathBuf::from(String::from_utf8(done.stdout).ok()?.trim());
    let targets = fs::read_dir(root.join("lib/rustlib")).ok()?;
    let mut linkers: Vec<PathBuf> =
        targets.flatten().map(|target| target.path().join("bin/rust-lld")).collect();
    linkers.sort();
    linkers.into_iter().find(|linker| linker.is_file())
}
