//! Policies that a policy string can name: those of the table, and programs.
//!
//! A [`Registry`] keeps the programs of one command. A policy string names a program by its name
//! and the hash of its object, `program/NAME@HASH`, so equal strings mean equal rules on every
//! machine.

use super::program::{PolicyProgram, ProgramLoader};
use super::spec::{self, Spec};
use crate::diagnostic::Diagnostic;
use std::sync::Arc;

/// The policies that policy strings can name in one command or service.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    loader: Option<Arc<dyn ProgramLoader>>,
    programs: Vec<Arc<dyn PolicyProgram>>,
}

/// Two registries are equal if policy strings mean the same in both.
impl PartialEq for Registry {
    fn eq(&self, other: &Registry) -> bool {
        let names = |registry: &Registry| -> Vec<String> {
            registry.programs.iter().map(|program| program.name().to_owned()).collect()
        };
        names(self) == names(other)
    }
}

impl Eq for Registry {}

impl Registry {
    /// A registry that can load programs. The default one cannot: its policies are those of the
    /// table.
    pub fn with_loader(loader: Arc<dyn ProgramLoader>) -> Registry {
        Registry { loader: Some(loader), programs: Vec::new() }
    }

    /// Loads a program from its object, unless it is loaded already, so that policy strings can
    /// name it. Fails if this build runs no programs, or the object is refused.
    pub fn load(&mut self, object: &[u8]) -> Result<Arc<dyn PolicyProgram>, Diagnostic> {
        if let Some(known) = self.programs.iter().find(|program| program.object() == object) {
            return Ok(Arc::clone(known));
        }
        let loader = self.loader.as_ref().ok_or_else(Registry::no_loader)?;
        let program = loader.load(object)?;
        // The hash in the name is short, so a program could be made to have the name of another.
        if self.programs.iter().any(|known| known.name() == program.name()) {
            let what = format!("two different programs have the name `{}`", program.name());
            return Err(Diagnostic::new(what).with_help("use one of them only"));
        }
        self.programs.push(Arc::clone(&program));
        Ok(program)
    }

    /// The error of a build that runs no programs.
    pub fn no_loader() -> Diagnostic {
        Diagnostic::new("this build of Mirrorball cannot run programs")
            .with_help("build it with `cargo build --release --features programs`")
    }

    /// The programs, in the order in which they were loaded.
    pub fn programs(&self) -> &[Arc<dyn PolicyProgram>] {
        &self.programs
    }

    /// Parses a policy string as [`Spec::parse`] does; it may name a program of this registry, as
    /// `program/NAME@HASH` or `program/NAME@HASH?parameter=value&parameter=value`, the hash as far
    /// as it tells the programs apart.
    ///
    /// # Errors
    /// As [`Spec::parse`], and if the registry has no such program or a program has no such
    /// parameter.
    pub fn parse(&self, text: &str) -> Result<Spec, Diagnostic> {
        spec::parse_with(&self.programs, text)
    }

    /// Parses a list as [`super::parse_list`] does; its items may name programs of this registry.
    ///
    /// # Errors
    /// As [`super::parse_list`] and [`Registry::parse`].
    pub fn parse_list(&self, text: &str) -> Result<Vec<Spec>, Diagnostic> {
        spec::parse_list_with(&self.programs, text)
    }
}
