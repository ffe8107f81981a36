//! The list of all that is built in: arrays, jobs, models of disks, policies and storage systems.

use mirrorball_disk::array_file::ArrayFile;
use mirrorball_disk::profile::ModelProfile;
use mirrorball_lab::evaluation::advice::question::STANDARD_MIX;
use mirrorball_lab::experiment::inputs::{builtin_job_names, builtin_job_text};
use mirrorball_lab::experiment::systems;
use serde_json::{Value, json};

pub(crate) fn catalogue() -> Value {
    let arrays = ArrayFile::builtin_names().filter_map(|name| {
        let file = ArrayFile::builtin(name).ok()?;
        Some(json!({ "name": name, "title": file.spec.name, "text": file.text }))
    });
    let jobs = builtin_job_names()
        .map(|name| json!({ "name": name, "text": builtin_job_text(name).unwrap_or_default() }));
    let models = ModelProfile::builtins().map(|profile| {
        json!({
            "name": profile.name,
            "title": profile.summary,
            "rotational": profile.rotational,
            "bytes": profile.capacity_bytes,
        })
    });
    let policies = mirrorball_core::policies::all()
        .map(|info| json!({ "name": info.name, "title": info.summary }));
    let systems = systems::all().iter().map(|it| json!({ "name": it.name, "title": it.title }));
    json!({
        "arrays": arrays.collect::<Vec<Value>>(),
        "jobs": jobs.collect::<Vec<Value>>(),
        "mix": STANDARD_MIX,
        "models": models.collect::<Vec<Value>>(),
        "policies": policies.collect::<Vec<Value>>(),
        "systems": systems.collect::<Vec<Value>>(),
    })
}
