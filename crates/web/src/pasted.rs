//! Pasted texts and array files, as lists of disks that a person can correct.

use anyhow::{Result, bail};
use mirrorball_core::units::format_bytes;
use mirrorball_disk::array_file::{AddedMember, ArrayEdit, ArrayFile, MemberSource, MemberSpec};
use mirrorball_host::detect::{
    DetectError, DetectedArray, detect_all, detect_without_copies, file_stem, pasted_machine,
    topmost, what_to_paste,
};
use mirrorball_lab::evaluation::advice::state::lost_data;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Correction {
    Model(u64, String),
    /// The disk of a member has this size in bytes.
    Size(u64, u64),
    /// One more disk of this model.
    Add(String),
    Remove(u64),
    /// Another layout, or another profile of btrfs.
    Layout(String),
}

/// The arrays of a pasted text; one array if it is an array file.
pub(crate) fn understand(text: &str) -> Result<Value> {
    if text.contains("[[member]]") {
        return Ok(json!({ "arrays": [listed("pasted", text)?], "errors": [] }));
    }
    let machine = pasted_machine(text);
    let (mut arrays, mut errors) = (Vec::new(), Vec::new());
    for found in detect_all(&machine) {
        match found {
            Ok(array) => arrays.push(array),
            Err(DetectError::NoArray(error) | DetectError::Unreadable(error)) => {
                errors.push(error.to_string());
            }
        }
    }
    if arrays.is_empty() && errors.is_empty() {
        let others = detect_without_copies(&machine);
        let others = match &others[..] {
            [] => "no array that can be read".to_owned(),
            others => format!("no array with copies of the data: {}", others.join("; ")),
        };
        bail!("the text has {others}\n  help: {}", what_to_paste(&machine));
    }
    let mut values = Vec::new();
    for array in topmost(arrays) {
        match detected(array) {
            Ok(value) => values.push(value),
            Err(error) => errors.push(error.to_string()),
        }
    }
    Ok(json!({ "arrays": values, "errors": errors }))
}

fn detected(array: DetectedArray) -> Result<Value> {
    let (summary, name) = (array.summary(), array.name.clone());
    if array.condition.is_stopped() {
        bail!("{summary}: it serves no reads\n  help: start it");
    }
    let file = array.array_file();
    let Some((array, out)) = array.into_advised() else {
        bail!("{summary}: no member has the data\n  help: get one back into service first");
    };
    if let Some(lost) = lost_data(&ArrayFile::parse(&file, &format!("{name}.toml"))?.spec) {
        bail!("{summary}: {lost}");
    }
    let mut value = listed(&file_stem(&name), &array.array_file())?;
    value["summary"] = json!(summary);
    value["condition"] = json!(array.condition_text());
    value["notes"] = json!(array.notes);
    value["out"] = json!(out);
    Ok(value)
}

/// An array file as a list of disks.
pub(crate) fn listed(name: &str, text: &str) -> Result<Value> {
    let file = ArrayFile::parse(text, &format!("{name}.toml"))?;
    let spec = &file.spec;
    let source = spec.source.as_ref();
    let members: Vec<Value> = spec.members.iter().map(|it| member(&file, it)).collect();
    Ok(json!({
        "name": name,
        "title": spec.name,
        "text": file.text,
        "system": source.map(|it| it.system.clone()),
        "in_force": source.and_then(|it| it.in_force.clone().or_else(|| it.policy.clone())),
        "layout": spec.layout.to_string(),
        "profile": spec.profile.name(),
        "bytes": spec.chunk_map()?.capacity_bytes(),
        "members": members,
        "summary": spec.name,
        "condition": source.and_then(|it| it.condition.clone()),
        "notes": [],
        "out": [],
    }))
}

fn member(file: &ArrayFile, member: &MemberSpec) -> Value {
    let (model, bytes, is_rotational) = match &member.source {
        MemberSource::Model(profile) => {
            let bytes = member.partition.map_or(profile.capacity_bytes, |it| it.length_bytes);
            (profile.name.clone(), bytes, profile.rotational)
        }
        MemberSource::Path(_) | MemberSource::Uri(_) => ("a real disk".to_owned(), 0, false),
    };
    json!({
        "devid": member.devid,
        "device": member.device,
        "model": model,
        "bytes": bytes,
        "size": format_bytes(bytes),
        "rotational": is_rotational,
        "confidence": member.confidence.map(|it| it.name()),
        "link": member.link.map(|index| file.spec.links[index].name.clone()),
        "in_service": member.is_in_service(),
    })
}

/// The text of an array file after corrections.
pub(crate) fn corrected(name: &str, text: &str, corrections: &[Correction]) -> Result<Value> {
    let file = ArrayFile::parse(text, &format!("{name}.toml"))?;
    let is_btrfs = file.spec.source.as_ref().is_some_and(|it| it.system == "btrfs");
    let brings = if is_btrfs { AddedMember::MoreSpace } else { AddedMember::MoreCopies };
    let mut edit = ArrayEdit::new(&file);
    for correction in corrections {
        match correction {
            Correction::Model(devid, model) => edit.state_model(*devid, model)?,
            Correction::Size(devid, bytes) => edit.resize(*devid, *bytes),
            Correction::Add(model) => drop(edit.add(model, brings)?),
            Correction::Remove(devid) => edit.remove(*devid)?,
            Correction::Layout(layout) => edit.lay_out(layout)?,
        }
    }
    listed(name, &edit.text())
}
