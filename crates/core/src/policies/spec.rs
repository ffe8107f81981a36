//! Parser of policy strings: `round-robin:256K`, `zfs/mirror+hedge`, `btrfs/*`, `all`.
//!
//! A [`Spec`] is a row of the table with the values given after its name, or a program with the
//! values of its parameters, and rows with values for each of its modifiers.

use super::error;
use super::modifiers::{self, ModifierInfo};
use super::program::{PROGRAM_FAMILY, PROGRAM_FILE, PolicyProgram};
use super::program_values::ConfiguredProgram;
use super::value::{is_rounded, parse_value};
use super::{Basis, Build, ParameterInfo, PolicyInfo, Unit, all, find, usage_of};
use crate::diagnostic::Diagnostic;
use crate::policy::ReadPolicy;
use std::fmt;
use std::sync::Arc;

/// A policy with its modifiers and the values of their parameters.
#[derive(Clone, Debug)]
pub struct Spec {
    rule: Rule,
    /// In the order from the innermost to the outermost.
    modifiers: Vec<ModifierSpec>,
}

/// Information that a spec decides by, without its modifiers.
#[derive(Clone, Debug)]
enum Rule {
    Row(SpecRow),
    Program(ConfiguredProgram),
}

/// A row of the table with the values that were given after its name.
#[derive(Clone, Debug)]
struct SpecRow {
    info: &'static PolicyInfo,
    /// Fewer than the parameters if the last ones were omitted.
    values: Vec<u64>,
}

/// A modifier with the values that were given after its name.
#[derive(Clone, Debug)]
struct ModifierSpec {
    info: &'static ModifierInfo,
    values: Vec<u64>,
}

/// Parses a policy string that may name one of `programs`.
pub(super) fn parse_with(
    programs: &[Arc<dyn PolicyProgram>],
    text: &str,
) -> Result<Spec, Diagnostic> {
    match text.split_once('+') {
        Some((policy, modifiers)) => {
            if policy.is_empty() {
                return Err(error::missing_policy(Some(modifiers)));
            }
            let spec = Spec::of_rule(Rule::parse(programs, policy)?);
            spec.with_modifiers(ModifierSpec::parse_all(modifiers)?)
        }
        None => Ok(Spec::of_rule(Rule::parse(programs, text)?)),
    }
}

impl Rule {
    /// Parses a policy without modifiers.
    fn parse(programs: &[Arc<dyn PolicyProgram>], text: &str) -> Result<Rule, Diagnostic> {
        if text.starts_with(PROGRAM_FAMILY) {
            return Ok(Rule::Program(ConfiguredProgram::parse(programs, text)?));
        }
        if text.starts_with(PROGRAM_FILE) {
            return Err(error::unloaded_program(text));
        }
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        if name.is_empty() {
            return Err(error::missing_policy(None));
        }
        if name.ends_with('*') && text != name {
            return Err(error::pattern_with_values(text));
        }
        let (name, value) = split_drbd_striping(name);
        let info = find(name).ok_or_else(|| error::unknown_policy(name))?;
        let values = parse_values(info.name, info.parameters, value.into_iter().chain(parts))?;
        Ok(Rule::Row(SpecRow { info, values }))
    }

    /// Canonical name, without values.
    fn name(&self) -> &str {
        match self {
            Rule::Row(row) => row.info.name,
            Rule::Program(configured) => configured.program.name(),
        }
    }

    fn build(&self, devids: &[u64]) -> Result<Box<dyn ReadPolicy>, Diagnostic> {
        match self {
            Rule::Row(SpecRow { info, values }) => {
                let values = &with_defaults(info.parameters, values, devids);
                (info.build)(&Build { name: info.name, values, devids })
            }
            Rule::Program(configured) => configured.program.build(&configured.all_values(), devids),
        }
    }
}

impl Spec {
    /// A policy with its default values.
    pub fn new(info: &'static PolicyInfo) -> Spec {
        Spec::of_rule(Rule::Row(SpecRow { info, values: Vec::new() }))
    }

    fn of_rule(rule: Rule) -> Spec {
        Spec { rule, modifiers: Vec::new() }
    }

    /// Parses `name`, `name:value` or `name:value:value`, where the name is canonical or an alias,
    /// optionally followed by modifiers, each `+name`, `+name:value` and so on. Programs are named
    /// by [`super::Registry::parse`]. Fails if a name is unknown, a parameter does not accept its
    /// value, there are too many values, or two modifiers contradict each other.
    pub fn parse(text: &str) -> Result<Spec, Diagnostic> {
        parse_with(&[], text)
    }

    /// Adds modifiers. Fails only if they contradict each other or the policy.
    fn with_modifiers(mut self, modifiers: Vec<ModifierSpec>) -> Result<Spec, Diagnostic> {
        self.modifiers.extend(modifiers);
        self.check_modifiers()?;
        // The order of the table, and of equals the order of their values, so that a combination
        // has one canonical form.
        self.modifiers.sort_by_key(|modifier| (modifier.table_index(), modifier.values.clone()));
        Ok(self)
    }

    /// Rows of its modifiers, from the innermost to the outermost.
    pub fn modifiers(&self) -> impl Iterator<Item = &'static ModifierInfo> {
        self.modifiers.iter().map(|modifier| modifier.info)
    }

    /// The policy's row, or `None` if it is a program.
    pub fn info(&self) -> Option<&'static PolicyInfo> {
        match &self.rule {
            Rule::Row(row) => Some(row.info),
            Rule::Program(_) => None,
        }
    }

    /// The program, or `None` if it is a policy of the table.
    pub fn program(&self) -> Option<&dyn PolicyProgram> {
        match &self.rule {
            Rule::Row(_) => None,
            Rule::Program(configured) => Some(configured.program.as_ref()),
        }
    }

    /// The fallback of a program, with the same modifiers unless they contradict it. `None` for a
    /// policy of the table. Fails if the fallback is no policy of the table.
    pub fn fallback(&self) -> Result<Option<Spec>, Diagnostic> {
        let Some(program) = self.program() else { return Ok(None) };
        let fallback = Spec::parse(program.fallback())?;
        let modified = fallback.clone().with_modifiers(self.modifiers.clone());
        Ok(Some(modified.unwrap_or(fallback)))
    }

    /// A value for every parameter of a program: as given, or the default. Empty for a policy of
    /// the table.
    pub fn program_values(&self) -> Vec<u64> {
        match &self.rule {
            Rule::Row(_) => Vec::new(),
            Rule::Program(configured) => configured.all_values(),
        }
    }

    /// Rank of how complex the rule is: by what it decides by, then by its modifiers, then by its
    /// parameters. Of two policies that serve an array equally well, the one with the lower rank is
    /// easier to understand and to predict. A program ranks as a policy that fits a model, since
    /// nothing is known of its rule.
    pub fn complexity(&self) -> u32 {
        let modifiers = self.modifiers.len().min(99) as u32;
        let (basis, parameters) = match &self.rule {
            Rule::Row(row) => (row.info.basis, row.info.parameters.len()),
            Rule::Program(configured) => (Basis::Model, configured.program.parameters().len()),
        };
        basis as u32 * 10_000 + modifiers * 100 + parameters.min(99) as u32
    }

    /// Builds the policy for an array with these devids. Fails if the array has no member with a
    /// devid, or two modifiers contradict each other once omitted devids have their default.
    pub fn build(&self, devids: &[u64]) -> Result<Box<dyn ReadPolicy>, Diagnostic> {
        let spec = self.with_all_values(devids);
        // The default of an omitted devid may be one that was given to another modifier.
        spec.check_modifiers()?;
        let mut policy = spec.rule.build(devids)?;
        for ModifierSpec { info, values } in &spec.modifiers {
            policy = (info.build)(&Build { name: info.name, values, devids }, policy)?;
        }
        Ok(policy)
    }

    /// The same with a value for every parameter of a modifier.
    fn with_all_values(&self, devids: &[u64]) -> Spec {
        let filled = |modifier: &ModifierSpec| ModifierSpec {
            info: modifier.info,
            values: with_defaults(modifier.info.parameters, &modifier.values, devids),
        };
        let modifiers = self.modifiers.iter().map(filled).collect();
        Spec { rule: self.rule.clone(), modifiers }
    }

    /// Checks that no two modifiers, and no modifier and the policy, exclude each other.
    fn check_modifiers(&self) -> Result<(), Diagnostic> {
        for (index, one) in self.modifiers.iter().enumerate() {
            let contradiction = |name: &str| Err(error::contradiction(name, &one.to_string()));
            let name = self.rule.name();
            if one.info.excludes.contains(&name) {
                return contradiction(name);
            }
            for other in &self.modifiers[..index] {
                let is_same = one.info.name == other.info.name;
                let is_repeated = is_same && (!one.info.repeatable || one.values == other.values);
                let is_excluded = one.info.excludes.contains(&other.info.name);
                if is_repeated {
                    return Err(error::given_twice(&other.to_string(), &one.to_string()));
                }
                if is_excluded || !is_same && one.has_devid_of(other) {
                    return contradiction(&other.to_string());
                }
            }
        }
        Ok(())
    }
}

impl ModifierSpec {
    /// Parses `name`, `name:value`, `name+name:value` and so on: what follows the first plus sign.
    fn parse_all(text: &str) -> Result<Vec<ModifierSpec>, Diagnostic> {
        text.split('+').map(ModifierSpec::parse).collect()
    }

    fn parse(text: &str) -> Result<ModifierSpec, Diagnostic> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        if name.is_empty() {
            return Err(error::missing_modifier());
        }
        let info = modifiers::find(name).ok_or_else(|| error::unknown_modifier(name))?;
        let values = parse_values(&format!("+{name}"), info.parameters, parts)?;
        Ok(ModifierSpec { info, values })
    }

    fn table_index(&self) -> usize {
        let index = modifiers::ALL.iter().position(|info| info.name == self.info.name);
        index.expect("a modifier is a row of the table")
    }

    /// True if both take the same devid: a member cannot be both preferred and avoided.
    fn has_devid_of(&self, other: &ModifierSpec) -> bool {
        let takes_devid =
            |it: &ModifierSpec| it.info.parameters.first().is_some_and(|p| p.unit == Unit::Devid);
        takes_devid(self) && takes_devid(other) && self.values == other.values
    }
}

/// Splits DRBD's names `32K-striping` to `1M-striping` into the name of the policy and its value.
fn split_drbd_striping(name: &str) -> (&str, Option<&str>) {
    let size = name.strip_suffix("-striping");
    match size.map(|size| size.strip_prefix("drbd/").unwrap_or(size)) {
        Some(size) if size.starts_with(|letter: char| letter.is_ascii_digit()) => {
            ("drbd/striping", Some(size))
        }
        _ => (name, None),
    }
}

/// A value for every parameter: as given, or the default.
fn with_defaults(parameters: &[ParameterInfo], written: &[u64], devids: &[u64]) -> Vec<u64> {
    let first_devid = devids.first().copied().unwrap_or(0);
    let left_out = parameters.iter().skip(written.len());
    let defaults = left_out.map(|parameter| parameter.default.unwrap_or(first_devid));
    written.iter().copied().chain(defaults).collect()
}

fn parse_values<'a>(
    name: &str,
    parameters: &'static [ParameterInfo],
    written: impl Iterator<Item = &'a str>,
) -> Result<Vec<u64>, Diagnostic> {
    let mut values = Vec::new();
    for value in written {
        let parameter = parameters
            .get(values.len())
            .ok_or_else(|| error::too_many_values(name, &usage_of(name, parameters), value))?;
        let parsed = parse_value(parameter, value)
            .map_err(|problem| error::bad_value(name, parameter, value, problem))?;
        values.push(parsed);
    }
    Ok(values)
}

/// Two specs are equal if their canonical forms are.
impl PartialEq for Spec {
    fn eq(&self, other: &Spec) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Spec {}

/// The canonical form: `btrfs/round-robin:256K+hedge`. Parsing it gives the same spec.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = match &self.rule {
            Rule::Row(row) => written(row.info.name, row.info.parameters, &row.values),
            Rule::Program(configured) => configured.to_string(),
        };
        for modifier in &self.modifiers {
            text += &modifier.to_string();
        }
        f.pad(&text)
    }
}

impl fmt::Display for ModifierSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("+{}", self.info.name);
        f.write_str(&written(&name, self.info.parameters, &self.values))
    }
}

fn written(name: &str, parameters: &[ParameterInfo], values: &[u64]) -> String {
    let values = parameters.iter().zip(values);
    let values = values.map(|(parameter, &value)| format!(":{}", parameter.written(value)));
    name.to_owned() + &values.collect::<String>()
}

/// Parses a comma-separated list of policies, families (`btrfs/*`) and `all`, each optionally with
/// modifiers, which apply to each of its policies (`all+hedge`). White space around an item is
/// ignored. A policy that is named twice is in the result once, at its first position.
///
/// # Errors
/// As [`Spec::parse`], and if an item is empty or a family unknown.
pub fn parse_list(text: &str) -> Result<Vec<Spec>, Diagnostic> {
    parse_list_with(&[], text)
}

/// Parses a list whose items may name `programs`.
pub(super) fn parse_list_with(
    programs: &[Arc<dyn PolicyProgram>],
    text: &str,
) -> Result<Vec<Spec>, Diagnostic> {
    let mut list: Vec<Spec> = Vec::new();
    for item in text.split(',').map(str::trim) {
        let (name, modifiers) = match item.split_once('+') {
            Some((name, modifiers)) => (name, Some(modifiers)),
            None => (item, None),
        };
        match modifiers {
            None if name.is_empty() && text.contains(',') => return Err(error::empty_item(text)),
            Some(_) if name.is_empty() => return Err(error::missing_policy(modifiers)),
            _ => {}
        }
        let specs = match name.strip_suffix("/*") {
            Some(family) => parse_family(family)?,
            None if name == "all" => all().map(Spec::new).collect(),
            None => vec![parse_with(programs, name)?],
        };
        let specs = match modifiers {
            Some(modifiers) => modify_all(specs, &ModifierSpec::parse_all(modifiers)?)?,
            None => specs,
        };
        for spec in specs {
            if !list.contains(&spec) {
                list.push(spec);
            }
        }
    }
    Ok(list)
}

/// A note for each value of a list of policies that is rounded up, such as the 5K in
/// `round-robin:5K`. Items with errors have none.
pub fn rounding_notes(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter_map(rounding_note).collect()
}

fn rounding_note(item: &str) -> Option<String> {
    let policy = item.split('+').next()?;
    let spec = Spec::parse(policy).ok()?;
    let Rule::Row(row) = &spec.rule else { return None };
    let mut parts = policy.split(':');
    let (_, in_name) = split_drbd_striping(parts.next()?);
    let written = row.info.parameters.iter().zip(in_name.into_iter().chain(parts));
    let (parameter, _) =
        written.into_iter().find(|(parameter, value)| is_rounded(parameter, value))?;
    let multiple = parameter.written(parameter.multiple_of);
    Some(format!(
        "`{policy}` runs as `{spec}`: `{}` is rounded up to a multiple of {multiple}",
        parameter.name
    ))
}

/// Adds modifiers to each policy. Policies that the modifiers contradict are omitted, unless that
/// is all of them.
fn modify_all(specs: Vec<Spec>, modifiers: &[ModifierSpec]) -> Result<Vec<Spec>, Diagnostic> {
    let mut modified = Vec::new();
    let mut contradiction = None;
    for spec in specs {
        match spec.with_modifiers(modifiers.to_vec()) {
            Ok(spec) => modified.push(spec),
            Err(error) => contradiction = Some(error),
        }
    }
    match contradiction {
        Some(error) if modified.is_empty() => Err(error),
        _ => Ok(modified),
    }
}

fn parse_family(family: &str) -> Result<Vec<Spec>, Diagnostic> {
    let rows: Vec<Spec> = all().filter(|info| info.family() == family).map(Spec::new).collect();
    if rows.is_empty() { Err(error::unknown_family(family)) } else { Ok(rows) }
}
