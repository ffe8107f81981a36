//! Values for the parameters of a program: `gain=4&floor=2`.

use super::error;
use super::program::{PolicyProgram, names_program};
use crate::diagnostic::Diagnostic;
use std::fmt;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct ConfiguredProgram {
    pub(super) program: Arc<dyn PolicyProgram>,
    /// Index of a parameter and its value, in the order of the parameters.
    values: Vec<(usize, u64)>,
}

impl ConfiguredProgram {
    /// Parses `program/NAME@HASH` or `program/NAME@HASH?name=value&name=value`; the hash may be cut
    /// short, or left out, if that names one of the programs.
    pub(super) fn parse(
        programs: &[Arc<dyn PolicyProgram>],
        text: &str,
    ) -> Result<ConfiguredProgram, Diagnostic> {
        let (name, written) = match text.split_once('?') {
            Some((name, written)) => (name, Some(written)),
            None => (text, None),
        };
        let mut named = programs.iter().filter(|program| names_program(name, program.name()));
        let program = named.next().ok_or_else(|| error::unknown_program(name))?;
        if let Some(other) = named.next() {
            return Err(error::ambiguous_program(name, [program.name(), other.name()]));
        }
        let mut values: Vec<(usize, u64)> = Vec::new();
        for item in written.iter().flat_map(|written| written.split('&')) {
            let (index, value) = parse_item(program.as_ref(), item)?;
            if values.iter().any(|&(known, _)| known == index) {
                let parameter = &program.parameters()[index].name;
                return Err(error::repeated_parameter(program.name(), parameter));
            }
            values.push((index, value));
        }
        values.sort_unstable();
        Ok(ConfiguredProgram { program: Arc::clone(program), values })
    }

    /// A value for every parameter: as given, or the default.
    pub(super) fn all_values(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.program.parameters().iter().map(|it| it.default).collect();
        for &(index, value) in &self.values {
            all[index] = value;
        }
        all
    }
}

/// Parses `name=value`: the index of the parameter, and the value.
fn parse_item(program: &dyn PolicyProgram, item: &str) -> Result<(usize, u64), Diagnostic> {
    let (name, value) = item.split_once('=').unwrap_or((item, ""));
    let parameters = program.parameters();
    let Some(index) = parameters.iter().position(|parameter| parameter.name == name) else {
        let names: Vec<&str> = parameters.iter().map(|parameter| &*parameter.name).collect();
        return Err(error::unknown_parameter(program.name(), name, &names));
    };
    match value.parse::<u64>() {
        Ok(number) if parameters[index].range.contains(&number) => Ok((index, number)),
        _ => Err(error::bad_program_value(program.name(), &parameters[index], value)),
    }
}

/// The canonical form, which parses to the same.
impl fmt::Display for ConfiguredProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program.name())?;
        let parameters = self.program.parameters();
        for (place, &(index, value)) in self.values.iter().enumerate() {
            let separator = if place == 0 { '?' } else { '&' };
            write!(f, "{separator}{}={value}", parameters[index].name)?;
        }
        Ok(())
    }
}
