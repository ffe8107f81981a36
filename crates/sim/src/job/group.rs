//! Groups of sections that run together: which section begins one, and whether all end together.

use super::error::job_error;
use super::spec::Section;
use mirrorball_core::diagnostic::Diagnostic;

/// Options of a section that concern its group.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupDraft {
    /// `stonewall`: it begins a group.
    pub(super) stonewall: bool,
    /// `wait_for`: the name of a section.
    pub(super) waits_for: Option<String>,
    /// `exitall`: the first clone to end ends others. It holds for the whole file.
    pub(super) ends_together: bool,
    /// `exit_what`.
    pub(super) end: GroupEnd,
    /// `new_group`: fio reports it apart from the sections above.
    pub(super) is_new: bool,
}

/// Jobs that end with the first one, with `exitall`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum GroupEnd {
    /// Those that fio reports together.
    #[default]
    Reported,
    /// Those that run.
    Running,
    /// All, also those that have not begun.
    Everything,
}

impl GroupDraft {
    /// Whether a section begins a group because it waits for another one. `sections` are those
    /// above it, the last ones in `group`.
    pub(super) fn begins_group(
        &self,
        sections: &[Section],
        group: usize,
    ) -> Result<bool, Diagnostic> {
        let Some(name) = &self.waits_for else { return Ok(false) };
        let Some(awaited) = sections.iter().rfind(|section| section.name == *name) else {
            let message = format!("`wait_for={name}`: no section above has this name");
            return Err(job_error(message, "write the name of a section above"));
        };
        let running = sections.iter().filter(|section| section.group == group);
        let other = running.map(|section| &section.name).find(|running| *running != name);
        match other {
            _ if awaited.group < group => Ok(false),
            None => Ok(true),
            Some(other) => Err(job_error(
                format!("`wait_for={name}` while [{other}] may still run is not supported"),
                format!("write stonewall, which waits for [{other}] too"),
            )),
        }
    }
}

/// Applies `exitall`. Returns the number of sections that run: those behind a group that ends
/// everything never do.
pub(super) fn end_together(sections: &mut [Section], drafts: &[GroupDraft]) -> usize {
    if !drafts.iter().any(|draft| draft.ends_together) {
        return sections.len();
    }
    // Neither number falls from one section to the next.
    let mut reported = 0;
    let number = |(index, draft): (usize, &GroupDraft)| {
        reported += usize::from(index > 0 && (draft.stonewall || draft.is_new));
        (reported, sections[index].group)
    };
    let numbers: Vec<(usize, usize)> = drafts.iter().enumerate().map(number).collect();
    for (index, draft) in drafts.iter().enumerate() {
        let of = |it: &(usize, usize)| match draft.end {
            GroupEnd::Reported => it.0,
            _ => it.1,
        };
        let own = of(&numbers[index]);
        let first = numbers.partition_point(|it| of(it) < own);
        let last = numbers.partition_point(|it| of(it) <= own) - 1;
        sections[index].ends = Some([first, last]);
    }
    let mut ending = sections.iter().zip(drafts);
    let last = ending.find(|(_, draft)| draft.end == GroupEnd::Everything);
    let last = last.map(|(section, _)| section.group);
    last.map_or(sections.len(), |last| sections.partition_point(|it| it.group <= last))
}
