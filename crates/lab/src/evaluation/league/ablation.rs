//! Ablation: a policy without each of its components, to measure what each component gains.
//!
//! A policy that supports ablation has as its first parameter one called `without`, whose words
//! name its components; the first word is the default and leaves nothing out.

use anyhow::{Result, anyhow};
use mirrorball_core::policies::{self, ParameterInfo, Spec, Unit};

const PARAMETER: &str = "without";

/// The policy, and then the same policy without each of its components.
///
/// # Errors
/// If the name is not a policy, or the policy has no components to leave out.
pub fn variants(policy: &str) -> Result<Vec<String>> {
    let spec = Spec::parse(policy)?;
    let info = spec.info().ok_or_else(|| anyhow!("`{spec}` is a program"))?;
    let left_out = components(info.parameters).ok_or_else(|| {
        anyhow!(
            "--ablation is not possible with `{}`: it has no parameter `{PARAMETER}` that disables \
             a component\n  help: policies with `{PARAMETER}`: {}",
            info.name,
            possible().join(", ")
        )
    })?;
    let without = |word: &&str| Spec::parse(&format!("{}:{word}", info.name));
    let whole = Ok(Spec::new(info));
    let specs = std::iter::once(whole).chain(left_out.iter().map(without));
    specs.map(|spec| Ok(spec?.to_string())).collect()
}

/// The names of the policies that support ablation.
fn possible() -> Vec<&'static str> {
    let infos = policies::all().filter(|info| components(info.parameters).is_some());
    infos.map(|info| info.name).collect()
}

/// The words that leave something out.
fn components(parameters: &[ParameterInfo]) -> Option<&'static [&'static str]> {
    match parameters.first() {
        Some(ParameterInfo { name: PARAMETER, unit: Unit::Word(words), .. }) => Some(&words[1..]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_leaves_nothing_out() {
        let parameter = |name, unit| ParameterInfo {
            name,
            unit,
            default: Some(0),
            range: 0..=2,
            multiple_of: 1,
            meaning: "what is left out",
        };
        let words = Unit::Word(&["nothing", "position", "probes"]);
        let found = components(&[parameter(PARAMETER, words), parameter("other", Unit::Count)]);
        assert_eq!(found, Some(&["position", "probes"][..]));
        assert_eq!(components(&[parameter("layout", words)]), None);
        assert_eq!(components(&[]), None);
    }

    #[test]
    fn what_cannot_be_taken_apart_is_refused() {
        let message = variants("btrfs/pid").unwrap_err().to_string();
        assert!(message.contains("`btrfs/pid`: it has no parameter `without`"), "{message}");
    }
}
