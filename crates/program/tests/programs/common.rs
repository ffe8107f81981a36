//! Compiles policies for the tests.

use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_program::Loader;
use mirrorball_program::program::Program;
use mirrorball_program::toolchain::{Toolchain, ToolchainError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The tools for C, or `None` on a machine that lacks them. In CI they must be there.
pub(crate) fn toolchain() -> Option<Toolchain> {
    match Toolchain::find() {
        Ok(toolchain) => Some(toolchain),
        Err(error @ (ToolchainError::NoCompiler | ToolchainError::NoLinker)) => {
            let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
            assert!(!is_ci, "{error}");
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Path of an example of the folder `programs`.
pub(crate) fn example(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs").join(file)
}

/// Compiles a policy; `text` follows the line that includes the header.
pub(crate) fn compile(toolchain: &Toolchain, text: &str) -> Vec<u8> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("policy-{}-{number}.c", std::process::id()));
    std::fs::write(&path, format!("#include \"mirrorball_policy.h\"\n{text}")).unwrap();
    let compiled = toolchain.compile(&path).unwrap_or_else(|error| panic!("{error}"));
    std::fs::remove_file(path).unwrap();
    compiled.object
}

pub(crate) fn load(toolchain: &Toolchain, text: &str) -> Result<Program, Diagnostic> {
    Loader::new().unwrap().load_program(&compile(toolchain, text))
}
