//! Errors in policy strings, as [`Diagnostic`]s that say what to write instead.

use super::value::ValueProblem;
use super::{ParameterInfo, ProgramParameter, all, families, modifiers};
use crate::diagnostic::Diagnostic;
use crate::suggest::{alternatives, closest_name};

/// A policy string without a policy: empty, or `modifiers` only (`+hedge`).
pub(super) fn missing_policy(modifiers: Option<&str>) -> Diagnostic {
    match modifiers {
        Some(modifiers) => Diagnostic::new(format!("the policy before `+{modifiers}` is missing"))
            .with_help(format!(
                "write for example `pid+{modifiers}`; `mirrorball policies` lists policies"
            )),
        None => Diagnostic::new("the name of the policy is missing")
            .with_help("write for example `pid`; `mirrorball policies` lists the policies"),
    }
}

pub(super) fn empty_item(list: &str) -> Diagnostic {
    Diagnostic::new(format!("the policy list `{list}` has an empty item"))
        .with_help("remove the extra comma")
}

pub(super) fn unknown_policy(name: &str) -> Diagnostic {
    if let Some(info) = modifiers::find(name) {
        let name = info.name;
        return Diagnostic::new(format!("`{name}` is a modifier, not a policy"))
            .with_help(format!("write it after a policy, as in `pid+{name}`"));
    }
    if name == "oracle" {
        return Diagnostic::new(
            "`oracle` is not a policy, but a reference that only a simulation has",
        )
        .with_help("`compare` adds it to every table; `explain --policy oracle` explains it");
    }
    if let Some(stem) = name.strip_suffix(".c").or(name.strip_suffix(".rs")) {
        return Diagnostic::new(format!("`{name}` is the source of a program, not a policy"))
            .with_help(format!(
                "compile it with `mirrorball program build {name}`, and name the object: \
                 program:{stem}.wasm"
            ));
    }
    if name.ends_with(".wasm") {
        return Diagnostic::new(format!("unknown policy `{name}`"))
            .with_help(format!("a program is named by its file: program:{name}"));
    }
    if name.contains([',', '*']) || name == "all" || families().contains(&name) {
        return Diagnostic::new(format!("`{name}` does not name one policy")).with_help(
            "`mirrorball policies` lists the policies; in a list, FAMILY/* means all of a family",
        );
    }
    let unknown = Diagnostic::new(format!("unknown policy `{name}`"));
    let meant = similar_names(name);
    let family = name.split_once('/').map(|(family, _)| family);
    if let Some(family) = family.filter(|it| meant.is_empty() && families().contains(it)) {
        return unknown.with_help(policies_of(family));
    }
    if meant.is_empty() {
        let families = families().join("/*, ");
        return unknown.with_help(format!(
            "`mirrorball policies` lists the policies; the families are {families}/*"
        ));
    }
    unknown.with_help(format!("did you mean {}?", alternatives(&meant)))
}

/// The policies of a family, for help.
fn policies_of(family: &str) -> String {
    let names = all().filter(|info| info.family() == family).map(|info| info.name);
    format!("the policies of {family} are {}", names.collect::<Vec<&str>>().join(", "))
}

/// The error for values behind a pattern, such as `btrfs/*:4`.
pub(super) fn pattern_with_values(text: &str) -> Diagnostic {
    Diagnostic::new(format!("`{text}`: a pattern takes no values"))
        .with_help("name one policy with its values")
}

/// No family has this name.
pub(super) fn unknown_family(family: &str) -> Diagnostic {
    let unknown = Diagnostic::new(format!("unknown policy family `{family}/*`"));
    unknown.with_help(match closest_name(family, families()) {
        Some(name) => format!("did you mean `{name}/*`?"),
        None => format!("the families are {}/*", families().join("/*, ")),
    })
}

/// The parameter does not accept this value; `of` is the policy, or the modifier with its plus.
pub(super) fn bad_value(
    of: &str,
    parameter: &ParameterInfo,
    value: &str,
    problem: ValueProblem,
) -> Diagnostic {
    let name = parameter.name;
    let message = match problem {
        ValueProblem::Missing => format!("the value for `{name}` of {of} is missing"),
        ValueProblem::Malformed => format!("bad value `{value}` for `{name}` of {of}"),
        ValueProblem::TooSmall => format!("the value `{value}` for `{name}` of {of} is too small"),
        ValueProblem::TooLarge => format!("the value `{value}` for `{name}` of {of} is too large"),
    };
    Diagnostic::new(message).with_help(format!("expected {}", parameter.expected()))
}

/// More values than parameters; `usage` is the syntax of `of`.
pub(super) fn too_many_values(of: &str, usage: &str, value: &str) -> Diagnostic {
    Diagnostic::new(format!("unexpected value `{value}` after {of}"))
        .with_help(format!("the syntax is {usage}"))
}

/// No name after a plus.
pub(super) fn missing_modifier() -> Diagnostic {
    Diagnostic::new("the modifier after `+` is missing").with_help(all_modifiers())
}

pub(super) fn unknown_modifier(name: &str) -> Diagnostic {
    let names = modifiers::ALL.iter().map(|info| info.name);
    Diagnostic::new(format!("unknown modifier `+{name}`")).with_help(
        match closest_name(name, names) {
            Some(name) => format!("did you mean `+{name}`?"),
            None => all_modifiers(),
        },
    )
}

/// Two parts of a policy string that exclude each other.
pub(super) fn contradiction(one: &str, other: &str) -> Diagnostic {
    Diagnostic::new(format!("`{one}` and `{other}` contradict each other"))
        .with_help("leave one of them out")
}

/// A modifier that may be given once is given twice, with these values.
pub(super) fn given_twice(one: &str, other: &str) -> Diagnostic {
    let message = if one == other {
        format!("`{one}` is given twice")
    } else {
        format!("`{one}` and `{other}` are the same modifier, which may be given once")
    };
    Diagnostic::new(message).with_help("remove one of them")
}

/// The array has no member with this devid.
pub(super) fn unknown_devid(of: &str, devid: u64, devids: &[u64]) -> Diagnostic {
    let devids: Vec<String> = devids.iter().map(u64::to_string).collect();
    Diagnostic::new(format!("{of}: the array has no member with devid {devid}"))
        .with_help(format!("the array has the devids {}", devids.join(", ")))
}

/// No program with this canonical name was loaded.
pub(super) fn unknown_program(name: &str) -> Diagnostic {
    Diagnostic::new(format!("the program `{name}` is not loaded"))
        .with_help("name the file of its object, as in `program:ewma.wasm`")
}

/// A shortened name of several programs.
pub(super) fn ambiguous_program(name: &str, programs: [&str; 2]) -> Diagnostic {
    let [one, other] = programs;
    Diagnostic::new(format!("`{name}` is the name of several programs"))
        .with_help(format!("name one by more of its hash: `{one}` or `{other}`"))
}

/// A program that is named by a file, where no file can be read.
pub(super) fn unloaded_program(text: &str) -> Diagnostic {
    Diagnostic::new(format!("`{text}`: a program cannot be named here")).with_help(
        "programs can be given to `compare`, `league`, `sweep`, `explain`, `emulate`, `serve` and \
         `ctl policy`",
    )
}

/// The program has no parameter called `parameter`.
pub(super) fn unknown_parameter(program: &str, parameter: &str, known: &[&str]) -> Diagnostic {
    let error = Diagnostic::new(format!("{program} has no parameter `{parameter}`"));
    match known {
        [] => error.with_help("the program has no parameters: leave out what follows the `?`"),
        _ => error.with_suggestion(parameter, known, "its parameters are"),
    }
}

/// The parameter of a program does not accept this value.
pub(super) fn bad_program_value(
    program: &str,
    parameter: &ProgramParameter,
    value: &str,
) -> Diagnostic {
    let (name, range) = (&parameter.name, &parameter.range);
    let (least, most) = (range.start(), range.end());
    Diagnostic::new(format!("bad value `{value}` for `{name}` of {program}"))
        .with_help(format!("expected a whole number from {least} to {most}"))
}

pub(super) fn repeated_parameter(program: &str, parameter: &str) -> Diagnostic {
    Diagnostic::new(format!("the parameter `{parameter}` of {program} is given twice"))
        .with_help("remove one of them")
}

/// Policies that `name` may have meant: those whose part after the slash is `name`, else one with a
/// typing error.
fn similar_names(name: &str) -> Vec<String> {
    let with_second_part = |part: &str| -> Vec<String> {
        let names = all().map(|info| info.name);
        names.filter(|name| second_part(name) == part).map(str::to_owned).collect()
    };
    let exact = with_second_part(&name.to_lowercase());
    if !exact.is_empty() {
        return exact;
    }
    let aliases = all().flat_map(|info| info.aliases.iter().copied());
    let names = || all().map(|info| info.name).chain(aliases.clone());
    match closest_name(name, names().chain(all().map(|info| second_part(info.name)))) {
        Some(near) if names().any(|it| it == near) => vec![near.to_owned()],
        Some(part) => with_second_part(part),
        None => with_second_part(second_part(name)),
    }
}

/// Part of a name after the slash; the whole name if it has none.
fn second_part(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, part)| part)
}

fn all_modifiers() -> String {
    let names: Vec<String> = modifiers::ALL.iter().map(|info| format!("+{}", info.name)).collect();
    format!("the modifiers are {}", names.join(", "))
}
