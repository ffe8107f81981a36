//! Which of the spares that were found are those of a volume.

use crate::conditions::{ConditionSubject, Problem, Situation};
use crate::examine::ExaminedVolume;
use crate::spares::FoundSpare;
use mirrorball_store::label::{LabelledSpare, SpareBlock};

/// The spares of a volume. Others are not used, and a note says why; so are those that are missing.
pub(super) fn spares_of(
    volume: &ExaminedVolume,
    found: Vec<(FoundSpare, SpareBlock)>,
    notes: &mut Vec<String>,
) -> Vec<FoundSpare> {
    let newest = &volume.assembly.newest;
    let mut spares: Vec<FoundSpare> = Vec::new();
    for (spare, block) in found {
        let address = &spare.address;
        let is_listed = newest.spares.iter().any(|listed| listed.uuid == spare.uuid)
            || newest.row(spare.uuid).is_some();
        if block.volume != volume.uuid {
            notes.push(format!("`{address}` is a spare of the volume `{}`: not used", block.name));
        } else if !is_listed {
            notes.push(format!(
                "`{address}` is not a spare any more: not used; `ctl members add --spare \
                 {address}` makes it one again"
            ));
        } else if let Some(same) = spares.iter().find(|other| other.uuid == spare.uuid) {
            notes.push(format!("`{address}` is a copy of the spare `{}`: not used", same.address));
        } else {
            spares.push(spare);
        }
    }
    let is_missing = |listed: &&LabelledSpare| !spares.iter().any(|it| it.uuid == listed.uuid);
    for LabelledSpare { uuid, replaces, .. } in newest.spares.iter().filter(is_missing) {
        let subject = ConditionSubject::spare(format!("UUID {uuid}"));
        notes.push(
            Problem::SpareMissing(*replaces).describe(&subject, Situation::SERVED).to_string(),
        );
    }
    spares
}
