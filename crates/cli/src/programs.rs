//! Programs as policies: the registry that commands give to the libraries.

use crate::ending::Failure;
use anyhow::anyhow;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::{PROGRAM_FILE, Registry};
use mirrorball_io::programs::load_programs;

/// A registry that can load programs, if this build runs them.
pub(crate) fn registry() -> Result<Registry, Diagnostic> {
    #[cfg(feature = "programs")]
    {
        let loader = mirrorball_program::Loader::new()?;
        Ok(Registry::with_loader(std::sync::Arc::new(loader)))
    }
    #[cfg(not(feature = "programs"))]
    Ok(Registry::default())
}

/// Loads the programs that a value of --policy names by file. Returns the value with their
/// canonical names, and the registry that knows them.
pub(crate) fn load(policies: &str) -> Result<(String, Registry), Failure> {
    if !policies.contains(PROGRAM_FILE) {
        // An engine takes a millisecond to make.
        return Ok((policies.to_owned(), Registry::default()));
    }
    let loaded = registry().and_then(|mut registry| {
        let text = load_programs(policies, &mut registry)?;
        Ok((text, registry))
    });
    loaded.map_err(|error| Failure::WrongUse(anyhow!("--policy: {error}")))
}
