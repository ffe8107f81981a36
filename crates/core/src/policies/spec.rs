//! Policies as people write them: `round-robin:256K`, `zfs/mirror+hedge`, `btrfs/*`, `all`.
//!
//! A [`Spec`] is a row of the table and the values written after its name, and the same of each
//! modifier around it. What is wrong is answered with the nearest name, or with the parameter and
//! its range.

pub use super::error::PolicyError;
use super::modifiers::{self, ModifierInfo};
use super::value::parse_value;
use super::{Build, ParameterInfo, PolicyInfo, Unit, all, families, find, usage_of};
use crate::policy::ReadPolicy;
use crate::suggest::closest_name;
use std::fmt;

/// A policy, the modifiers around it, and the values they are to be built with.
#[derive(Clone, Debug)]
pub struct Spec {
    info: &'static PolicyInfo,
    /// The values as written; fewer than the parameters where the last ones are left out.
    values: Vec<u64>,
    /// From the inside out.
    modifiers: Vec<ModifierSpec>,
}

/// A modifier and the values written after its name.
#[derive(Clone, Debug)]
struct ModifierSpec {
    info: &'static ModifierInfo,
    values: Vec<u64>,
}

impl Spec {
    /// A policy with its default values.
    pub fn new(info: &'static PolicyInfo) -> Spec {
        Spec { info, values: Vec::new(), modifiers: Vec::new() }
    }

    /// Reads `name`, `name:value` or `name:value:value`, the name canonical or an alias, and behind
    /// it modifiers, each `+name`, `+name:value` and so on.
    ///
    /// # Errors
    /// If a name is unknown, a value is not what its parameter takes, there are too many, or two
    /// modifiers contradict each other.
    pub fn parse(text: &str) -> Result<Spec, PolicyError> {
        let (policy, modifiers) = text.split_once('+').unwrap_or((text, ""));
        let mut parts = policy.split(':');
        let name = parts.next().unwrap_or_default();
        if name.is_empty() {
            return Err(PolicyError::Empty);
        }
        let (name, value) = respelled(name);
        let info = find(name).ok_or_else(|| unknown_policy(name))?;
        let values = parse_values(info.name, info.parameters, value.into_iter().chain(parts))?;
        let spec = Spec { values, ..Spec::new(info) };
        if text.contains('+') { spec.modified(modifiers) } else { Ok(spec) }
    }

    /// The policy with further modifiers around it, written `name+name:value`.
    ///
    /// # Errors
    /// As [`Spec::parse`].
    pub fn modified(mut self, modifiers: &str) -> Result<Spec, PolicyError> {
        for modifier in modifiers.split('+') {
            self.modifiers.push(ModifierSpec::parse(modifier)?);
        }
        self.find_contradiction()?;
        // From the inside out, as the table has them, equals by their values: one way to write it.
        self.modifiers.sort_by_key(|modifier| (modifier.place(), modifier.values.clone()));
        Ok(self)
    }

    /// The rows of its modifiers, from the inside out.
    pub fn modifiers(&self) -> impl Iterator<Item = &'static ModifierInfo> {
        self.modifiers.iter().map(|modifier| modifier.info)
    }

    /// The policy's row.
    pub fn info(&self) -> &'static PolicyInfo {
        self.info
    }

    /// Builds the policy for an array with these devids.
    ///
    /// # Errors
    /// If a value does not fit the array: [`PolicyError::UnknownDevid`], or a
    /// [`PolicyError::Contradiction`] of members that were left out.
    pub fn build(&self, devids: &[u64]) -> Result<Box<dyn ReadPolicy>, PolicyError> {
        let spec = self.with_all_values(devids);
        // A devid that was left out may turn out to be one that was written.
        spec.find_contradiction()?;
        let name = spec.info.name;
        let mut policy = (spec.info.build)(&Build { name, values: &spec.values, devids })?;
        for ModifierSpec { info, values } in &spec.modifiers {
            policy = (info.build)(&Build { name: info.name, values, devids }, policy)?;
        }
        Ok(policy)
    }

    /// The same with every default written out.
    fn with_all_values(&self, devids: &[u64]) -> Spec {
        let filled = |modifier: &ModifierSpec| ModifierSpec {
            info: modifier.info,
            values: with_defaults(modifier.info.parameters, &modifier.values, devids),
        };
        Spec {
            info: self.info,
            values: with_defaults(self.info.parameters, &self.values, devids),
            modifiers: self.modifiers.iter().map(filled).collect(),
        }
    }

    fn find_contradiction(&self) -> Result<(), PolicyError> {
        for (place, one) in self.modifiers.iter().enumerate() {
            let contradicts =
                |name: &str| Err(PolicyError::Contradiction(name.to_owned(), one.to_string()));
            if one.info.excludes.contains(&self.info.name) {
                return contradicts(self.info.name);
            }
            for other in &self.modifiers[..place] {
                let same = one.info.name == other.info.name;
                let again = same && (!one.info.repeatable || one.values == other.values);
                if again || one.info.excludes.contains(&other.info.name) {
                    return contradicts(&other.to_string());
                }
                if !same && one.names_the_member_of(other) {
                    return contradicts(&other.to_string());
                }
            }
        }
        Ok(())
    }
}

impl ModifierSpec {
    fn parse(text: &str) -> Result<ModifierSpec, PolicyError> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        if name.is_empty() {
            return Err(PolicyError::NoModifier);
        }
        let unknown = || {
            let names = modifiers::ALL.iter().map(|info| info.name);
            PolicyError::UnknownModifier(name.to_owned(), closest_name(name, names))
        };
        let info = modifiers::find(name).ok_or_else(unknown)?;
        let values = parse_values(&format!("+{name}"), info.parameters, parts)?;
        Ok(ModifierSpec { info, values })
    }

    fn place(&self) -> usize {
        let place = modifiers::ALL.iter().position(|info| info.name == self.info.name);
        place.expect("a modifier is a row of the table")
    }

    /// Whether both are told of one member: one cannot be both preferred and left alone.
    fn names_the_member_of(&self, other: &ModifierSpec) -> bool {
        let takes_devid =
            |it: &ModifierSpec| it.info.parameters.first().is_some_and(|p| p.unit == Unit::Devid);
        takes_devid(self) && takes_devid(other) && self.values == other.values
    }
}

/// DRBD has a name for each size of its stripes, `32K-striping` to `1M-striping`: here it is the
/// value of one policy.
fn respelled(name: &str) -> (&str, Option<&str>) {
    let size = name.strip_suffix("-striping");
    match size.map(|size| size.strip_prefix("drbd/").unwrap_or(size)) {
        Some(size) if size.starts_with(|letter: char| letter.is_ascii_digit()) => {
            ("drbd/striping", Some(size))
        }
        _ => (name, None),
    }
}

/// A value for every parameter: as written, or by default.
fn with_defaults(parameters: &[ParameterInfo], written: &[u64], devids: &[u64]) -> Vec<u64> {
    let first_devid = devids.first().copied().unwrap_or(0);
    let left_out = parameters.iter().skip(written.len());
    let defaults = left_out.map(|parameter| parameter.default.unwrap_or(first_devid));
    written.iter().copied().chain(defaults).collect()
}

/// Reads the values written behind a name.
fn parse_values<'a>(
    name: &str,
    parameters: &'static [ParameterInfo],
    written: impl Iterator<Item = &'a str>,
) -> Result<Vec<u64>, PolicyError> {
    let mut values = Vec::new();
    for value in written {
        let too_many = || PolicyError::TooManyValues {
            of: name.to_owned(),
            usage: usage_of(name, parameters),
            value: value.to_owned(),
        };
        let parameter = parameters.get(values.len()).ok_or_else(too_many)?;
        let bad =
            || PolicyError::BadValue { of: name.to_owned(), parameter, value: value.to_owned() };
        values.push(parse_value(parameter, value).ok_or_else(bad)?);
    }
    Ok(values)
}

/// Two specs are the same if they are written the same.
impl PartialEq for Spec {
    fn eq(&self, other: &Spec) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Spec {}

/// The canonical form: `btrfs/round-robin:256K+hedge`. Reading it gives the same spec.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = written(self.info.name, self.info.parameters, &self.values);
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

/// Reads a comma-separated list of policies, families (`btrfs/*`) and `all`, each perhaps with
/// modifiers, which then go around each of them (`all+hedge`). Blanks around an item are ignored;
/// what is named twice counts once, where it first stands.
///
/// # Errors
/// As [`Spec::parse`], and if an item is empty or a family unknown.
pub fn parse_list(text: &str) -> Result<Vec<Spec>, PolicyError> {
    let mut list: Vec<Spec> = Vec::new();
    for item in text.split(',').map(str::trim) {
        let (name, modifiers) = match item.split_once('+') {
            Some((name, modifiers)) => (name, Some(modifiers)),
            None => (item, None),
        };
        let specs = match name.strip_suffix("/*") {
            Some(family) => parse_family(family)?,
            None if name == "all" => all().map(Spec::new).collect(),
            None => vec![Spec::parse(name)?],
        };
        let specs = match modifiers {
            Some(modifiers) => modify_all(specs, modifiers)?,
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

/// Puts modifiers around each policy. Of several, those that the modifiers cannot go around are
/// left out, unless that is all of them.
fn modify_all(specs: Vec<Spec>, modifiers: &str) -> Result<Vec<Spec>, PolicyError> {
    let mut modified = Vec::new();
    let mut refused = None;
    for spec in specs {
        match spec.modified(modifiers) {
            Ok(spec) => modified.push(spec),
            Err(error @ PolicyError::Contradiction(..)) => refused = Some(error),
            Err(error) => return Err(error),
        }
    }
    match refused {
        Some(error) if modified.is_empty() => Err(error),
        _ => Ok(modified),
    }
}

fn parse_family(family: &str) -> Result<Vec<Spec>, PolicyError> {
    let rows: Vec<Spec> = all().filter(|info| info.family() == family).map(Spec::new).collect();
    if rows.is_empty() {
        let nearest = closest_name(family, families());
        return Err(PolicyError::UnknownFamily(family.to_string(), nearest));
    }
    Ok(rows)
}

fn unknown_policy(name: &str) -> PolicyError {
    if let Some(info) = modifiers::find(name) {
        return PolicyError::ModifierAlone(info.name);
    }
    let aliases = all().flat_map(|info| info.aliases.iter().copied());
    let names = all().map(|info| info.name);
    PolicyError::UnknownPolicy(name.to_string(), closest_name(name, names.chain(aliases)))
}
