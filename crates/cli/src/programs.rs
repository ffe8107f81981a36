//! Programs as policies: the registry that commands give to the libraries.

use crate::ending::Failure;
use anyhow::{Result, anyhow};
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
    let mut registry = None;
    let text = load_into(&mut registry, "--policy", policies).map_err(Failure::WrongUse)?;
    Ok((text, registry.unwrap_or_default()))
}

/// Loads the programs that the value of an option names by file into a registry, which is made if
/// there is none. Returns the value with their canonical names.
pub(crate) fn load_into(
    registry: &mut Option<Registry>,
    option: &str,
    policies: &str,
) -> Result<String> {
    if !policies.contains(PROGRAM_FILE) {
        // An engine takes a millisecond to make.
        return Ok(policies.to_owned());
    }
    let named = |error: Diagnostic| anyhow!("{option}: {error}");
    let loader = registry.take().map_or_else(self::registry, Ok).map_err(named)?;
    load_programs(policies, registry.insert(loader)).map_err(named)
}
