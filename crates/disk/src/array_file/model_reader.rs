//! The model of a disk in an array file: of a member, or of a cache in front of one or of all.

use super::reader::{Located, TomlSection};
use super::spec::{MemberSource, MemberSpec};
use crate::profile::ModelProfile;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::parse_bytes;
use std::path::Path;

/// The model of a member: a built-in profile or a file, with size and parameters overridden.
pub(super) fn read_model(
    section: &TomlSection<'_>,
    model: Located<&str>,
) -> Result<ModelProfile, Diagnostic> {
    let mut profile = match is_file_name(model.value) {
        true => read_model_file(section, model)?,
        false => ModelProfile::builtin(model.value).map_err(|error| {
            let known: Vec<&str> = ModelProfile::builtin_names().collect();
            let listing = "a model is a path ending in .toml, or one of";
            let unknown = section.source.error(model.start, error.message);
            unknown.with_suggestion(model.value, &known, listing)
        })?,
    };
    let set = section.plain_table("set")?;
    profile = profile.with_overrides(set).map_err(|Diagnostic { message, help, .. }| {
        let error = section.error_at("set", format!("`set` of `{}`: {message}", model.value));
        Diagnostic { help, ..error }
    })?;
    if let Some(size_bytes) = section.quantity("size", parse_bytes)? {
        profile = profile.with_capacity(size_bytes);
    }
    profile.check_capacity().map_err(|problem| {
        let whose = if section.has("size") { "`size`" } else { "the size" };
        let message = format!("{whose} of a member of model `{}` {problem}", model.value);
        section.error_at("size", message).with_help("write for example size = \"500G\"")
    })?;
    Ok(profile)
}

/// Refuses a table of the array that is a model in front of members that are not.
pub(super) fn refuse_real_members(
    table: &TomlSection<'_>,
    name: &str,
    members: &[MemberSpec],
) -> Result<(), Diagnostic> {
    let is_real = |member: &MemberSpec| !matches!(member.source, MemberSource::Model(_));
    if !members.iter().any(is_real) {
        return Ok(());
    }
    let error = table.error(format!("`{name}` is a model, but the array has real members"));
    Err(error.with_help("remove it, or give each member a `model`"))
}

/// A name with a directory or the extension of a profile is a file.
pub(super) fn is_file_name(model: &str) -> bool {
    model.contains('/') || model.ends_with(".toml")
}

fn read_model_file(
    section: &TomlSection<'_>,
    model: Located<&str>,
) -> Result<ModelProfile, Diagnostic> {
    let path = Path::new(section.source.file).with_file_name("").join(model.value);
    let text = std::fs::read_to_string(&path).map_err(|error| {
        let message = format!("cannot read the model file `{}`: {error}", path.display());
        let error = section.source.error(model.start, message);
        error.with_help("the path is relative to the folder of the array file")
    })?;
    ModelProfile::parse(&text, &path.display().to_string()).map_err(|error| {
        let help = error.help.clone();
        let inside = Diagnostic { help: None, ..error };
        let message = format!("`{}` is not a model profile: {inside}", model.value);
        Diagnostic { help, ..section.source.error(model.start, message) }
    })
}
