//! Jobs: workloads written as fio job files.
//!
//! The same file runs in simulation and under the real fio, so the reader follows what fio 3.33
//! *does* (its HOWTO, and `fio --parse-only --debug=parse` where the HOWTO and the program differ).
//! It is stricter in one way: what fio would silently misread (`size=1.5k` is one byte to it) is an
//! error here. An option that changes nothing in simulation is accepted and noted once; one that
//! would change the result and is not supported is an error that names the option, its file and
//! line. `options.rs` holds the one table of both.
//!
//! What fio cannot express is written as a comment, a pragma, so that the file still runs under
//! fio: `; mirrorball: background=defrag rate=100MB/s`.
//!
//! Model: text -> lines -> sections -> options applied to a draft that starts as a copy of the
//! `global` sections above it -> [`Section`]. Reading touches no file: includes and variables come
//! through an [`JobContext`].
//!
//! Non-goals: arithmetic in values, `$ncpus` and its kin, and fio's command line.

mod apply;
mod context;
mod declared;
mod draft;
mod engines;
mod error;
mod file;
mod group;
mod layout;
mod lexer;
mod lists;
mod options;
mod pragma;
mod pragma_words;
mod region;
mod replay;
mod replay_draft;
mod setters;
mod spec;
mod target;
mod value;

#[cfg(test)]
mod bad_input_tests;
#[cfg(test)]
mod field_tests;
#[cfg(test)]
mod tests;

pub use context::{FindTrace, JobContext};
pub use declared::Declared;
pub use pragma::{Background, BackgroundKind, Rebuilder};
pub use replay::{Replay, ReplayPace};
pub use spec::{
    Access, AddressModifier, Allocation, Arrivals, DepthGoal, Direction, Distribution, FileOrder,
    FileSpec, Flow, Mix, PerDirection, Section, SizeOrPercent, SizeShare, StridedZones, Zone,
};
pub use target::{FileLayout, JobTarget, Region, WorkRegion};
pub use value::parse_time;

use apply::OptionLine;
use draft::{Draft, Finished};
use error::{job_error, section_in_include};
use group::GroupDraft;
use layout::FileDraft;
use lexer::{Content, Line};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::Nanos;
use options::{above_first_section, outside_section};
use pragma::Pragma;
use replay_draft::ReplayPragma;
use serde::Serialize;

/// A note about an accepted option that changes nothing in simulation, or has another effect than
/// its value suggests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub file: String,
    /// The line of its first use, from one.
    pub line: usize,
    pub option: String,
    /// Why it changes nothing, or its effect.
    pub reason: String,
}

/// A job file.
///
/// Serialises to its canonical form: all that decides the results of a run, and nothing else.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobFile {
    /// Name, as given by the caller.
    #[serde(skip)]
    pub file: String,
    /// Jobs in the order of the file, at least one. Those with equal [`Section::group`] run
    /// together; a group starts when the one before it has ended.
    pub sections: Vec<Section>,
    /// Background work, from the pragmas, in the order of the file.
    pub background: Vec<Background>,
    /// Options that were accepted and change nothing, each once.
    #[serde(skip)]
    pub notes: Vec<Note>,
}

/// Maximum number of requests that the sections of a group keep in flight together: a simulation
/// holds all of them in memory.
const IN_FLIGHT_MAX: u64 = 1 << 20;
/// Maximum depth of nested includes. fio has no limit and follows a file that includes itself until
/// it is out of file descriptors.
const INCLUDE_DEPTH_MAX: usize = 16;
/// Maximum number of includes. Without it, files that include each other twice would be read 2^16
/// times within the maximum depth.
const INCLUDES_MAX: usize = 256;
/// Maximum number of errors of a file: one with more is probably no job file.
const FAULTS_MAX: usize = 20;

impl JobFile {
    /// Reads a job file from its text. `file` names it in messages, and is what relative includes
    /// are relative to. Fails if a line would be refused or misread by fio, or asks for something
    /// that would change the result and is not supported. The error has the others of the file with
    /// it.
    pub fn parse(
        text: &str,
        file: &str,
        environment: &JobContext<'_>,
    ) -> Result<JobFile, Diagnostic> {
        let mut reader = JobReader::new(file, environment);
        let without_mark = text.strip_prefix('\u{feff}');
        if without_mark.is_some() {
            reader.note(file, 1, "byte order mark", "is skipped; fio refuses the file: remove it");
        }
        let read = reader.read(without_mark.unwrap_or(text), file, 0);
        let read = read.and_then(|()| reader.finish_section());
        let mut faults = std::mem::take(&mut reader.faults);
        if faults.is_empty() {
            return read.and_then(|()| reader.finish());
        }
        faults.extend(read.err());
        faults.sort_by_key(|fault| fault.line);
        let others = faults.split_off(1).into();
        Err(Diagnostic { others, ..faults.remove(0) })
    }

    /// The same for rates that do not depend on the length of the run: `warm_up` passes before
    /// anything counts, and requests that are in flight at the end of the runtime do not, nor the
    /// time until they end.
    #[must_use]
    pub fn in_steady_state(mut self, warm_up: Nanos) -> JobFile {
        for section in &mut self.sections {
            section.ramp = section.ramp.max(warm_up);
            section.ends_in_flight = true;
        }
        self
    }

    /// Largest number of requests that sections without a rate keep in flight together.
    pub fn in_flight_max(&self) -> u64 {
        let groups = self.sections.chunk_by(|section, next| section.group == next.group);
        let in_flight = |group: &[Section]| {
            let unbounded = group.iter().filter(|section| !section.has_rate());
            unbounded.map(Section::in_flight).sum()
        };
        groups.map(in_flight).max().unwrap_or(0)
    }

    /// Checks the regions within files, which do not depend on the volume.
    fn check_regions(&self) -> Result<(), Diagnostic> {
        let on_files = |job: &&Section| matches!(job.target, JobTarget::Files(_));
        for job in self.sections.iter().filter(on_files) {
            for clone in 0..job.clones {
                let regions = job.try_regions(clone, 0, region::VOLUME);
                regions.map_err(|fault| fault.in_file(&self.file).at_line(job.line))?;
            }
        }
        Ok(())
    }

    /// Checks that every clone of every section fits a volume of `volume_bytes`. Fails if a clone's
    /// region does not lie within `volume_bytes` or has no whole block, with the sizes.
    pub fn validate_against(&self, volume_bytes: u64) -> Result<(), Diagnostic> {
        self.validate_against_named(volume_bytes, region::VOLUME)
    }

    /// The same for a volume that the errors call `place`, such as "the volume of `pair.toml`".
    pub fn validate_against_named(&self, volume_bytes: u64, place: &str) -> Result<(), Diagnostic> {
        for job in &self.sections {
            if let Some(replay) = &job.replay {
                let fits = replay.check_fit(volume_bytes, place);
                fits.map_err(|fault| fault.in_file(&self.file).at_line(job.line))?;
            }
            let fits = job.check_files(volume_bytes, place);
            fits.map_err(|fault| fault.in_file(&self.file).at_line(job.line))?;
            for clone in 0..job.clones {
                if let Err(fault) = job.try_regions(clone, volume_bytes, place) {
                    return Err(fault.in_file(&self.file).at_line(job.line));
                }
            }
        }
        Ok(())
    }
}

/// The section whose lines are being read.
struct OpenSection {
    name: String,
    line: usize,
    options: Vec<OptionLine>,
    counts: Option<bool>,
    replay: Option<ReplayPragma>,
    file: Option<FileSpec>,
}

/// The state of reading one job file with its includes.
struct JobReader<'a> {
    environment: JobContext<'a>,
    defaults: Draft,
    section: Option<OpenSection>,
    group: usize,
    /// Requests in flight of the sections of the last group.
    in_flight: u64,
    includes: usize,
    result: JobFile,
    files: Vec<FileDraft>,
    groups: Vec<GroupDraft>,
    /// Errors in single lines.
    faults: Vec<Diagnostic>,
}

impl<'a> JobReader<'a> {
    fn new(file: &str, environment: &JobContext<'a>) -> JobReader<'a> {
        let result = JobFile {
            file: file.to_owned(),
            sections: Vec::new(),
            background: Vec::new(),
            notes: Vec::new(),
        };
        let (environment, defaults) = (*environment, Draft::new());
        let (files, groups, faults) = (Vec::new(), Vec::new(), Vec::new());
        let (section, group, in_flight, includes) = (None, 0, 0, 0);
        JobReader {
            environment,
            defaults,
            section,
            group,
            in_flight,
            includes,
            result,
            files,
            groups,
            faults,
        }
    }

    /// Keeps an error, so that the lines after it are read too.
    fn keep(&mut self, fault: Diagnostic) -> Result<(), Diagnostic> {
        if self.faults.len() + 1 == FAULTS_MAX {
            return Err(fault);
        }
        self.faults.push(fault);
        Ok(())
    }

    fn read(&mut self, text: &str, file: &str, depth: usize) -> Result<(), Diagnostic> {
        for (number, line) in text.lines().enumerate() {
            let (number, content) = (number + 1, lexer::content(line));
            let fail = |fault: Diagnostic| fault.in_file(file).at_line(number);
            let content = match content {
                Ok(content) => content,
                Err(fault) => {
                    self.keep(fail(fault))?;
                    continue;
                }
            };
            match content {
                Content::Nothing => {}
                Content::Pragma(words) => {
                    let pragma = pragma::parse(words, number).map_err(fail)?;
                    self.apply_pragma(pragma).map_err(fail)?;
                }
                Content::Section(_) if depth > 0 => return Err(fail(section_in_include())),
                Content::Section(name) => {
                    self.finish_section()?;
                    let name = name.to_owned();
                    self.section = Some(OpenSection::new(name, number));
                }
                Content::Include(path) => self.include(path, file, number, depth)?,
                Content::Option(Line { name, value }) => {
                    let Some(section) = &mut self.section else {
                        return Err(fail(outside_section(name, file)));
                    };
                    let (name, value) = (name.to_owned(), value.map(str::to_owned));
                    let file = file.to_owned();
                    section.options.push(OptionLine { file, line: number, name, value });
                }
            }
        }
        Ok(())
    }

    fn apply_pragma(&mut self, pragma: Pragma) -> Result<(), Diagnostic> {
        let word = match &pragma {
            Pragma::Background(work) => {
                self.result.background.push(*work);
                return Ok(());
            }
            Pragma::Counts(_) => "counts",
            Pragma::Replay(_) => "replay",
            Pragma::File(_) => "file",
        };
        let help = "move it below the first line of its section, such as [load]";
        let section = self.section.as_mut().filter(|section| section.name != lexer::GLOBAL);
        let section = section
            .ok_or_else(|| job_error(format!("`{word}` outside the section of a job"), help))?;
        let repeated = match pragma {
            Pragma::Counts(counts) => section.counts.replace(counts).is_some(),
            Pragma::Replay(replay) => section.replay.replace(replay).is_some(),
            Pragma::File(file) => section.file.replace(file).is_some(),
            Pragma::Background(_) => false,
        };
        if repeated {
            return Err(job_error(format!("`{word}` is given twice"), "remove one"));
        }
        Ok(())
    }

    fn include(
        &mut self,
        path: &str,
        from: &str,
        line: usize,
        depth: usize,
    ) -> Result<(), Diagnostic> {
        let fail = |fault: Diagnostic| fault.in_file(from).at_line(line);
        if self.section.is_none() {
            return Err(fail(above_first_section("include")));
        }
        if depth == INCLUDE_DEPTH_MAX {
            return Err(fail(job_error(
                format!("includes are nested deeper than {INCLUDE_DEPTH_MAX}"),
                "does a file include itself, directly or through another file?",
            )));
        }
        self.includes += 1;
        if self.includes > INCLUDES_MAX {
            return Err(fail(job_error(
                format!("the job includes more than {INCLUDES_MAX} files"),
                "do two files include each other?",
            )));
        }
        let folder_end = from.rfind('/').filter(|_| !path.starts_with('/'));
        let path = match folder_end {
            Some(slash) => format!("{}{path}", &from[..=slash]),
            None => path.to_owned(),
        };
        let text = (self.environment.include)(&path).map_err(|reason| {
            fail(job_error(
                format!("cannot include `{path}`: {reason}"),
                "included paths are relative to the folder of the file with the include",
            ))
        })?;
        self.read(&text, &path, depth + 1)
    }

    /// Applies the options of the current section: to the defaults for `global`, else to a new
    /// section.
    fn finish_section(&mut self) -> Result<(), Diagnostic> {
        let Some(section) = self.section.take() else {
            return Ok(());
        };
        let global = section.name == lexer::GLOBAL;
        let mut draft = self.defaults.clone();
        if !global {
            draft.files.header.clone_from(&section.name);
            draft.job.name = section.name;
        }
        draft.job.counts = section.counts.unwrap_or(true);
        draft.replay.pragma = section.replay;
        draft.job.file = section.file;
        self.apply_all(&mut draft, section.options)?;
        if global {
            self.defaults = draft;
            return Ok(());
        }
        if !self.faults.is_empty() {
            return Ok(());
        }
        let file = self.result.file.clone();
        let in_section = |fault: Diagnostic| fault.in_file(&file).at_line(section.line);
        let above = &self.result.sections;
        let begins = match draft.group.stonewall {
            true => !above.is_empty(),
            false => draft.group.begins_group(above, self.group).map_err(in_section)?,
        };
        if begins {
            (self.group, self.in_flight) = (self.group + 1, 0);
        }
        let (index, group) = (self.result.sections.len(), self.group);
        self.groups.push(draft.group.clone());
        let finished = draft.finish(index, group, section.line, &self.environment);
        let located =
            |fault: Diagnostic| if fault.line.is_some() { fault } else { in_section(fault) };
        let Finished { job, files, notes } = finished.map_err(located)?;
        for Note { file, line, option, reason } in notes {
            self.note(&file, line, &option, &reason);
        }
        let checked = file::check(&job, &self.result.sections);
        self.in_flight += job.in_flight();
        self.result.sections.push(job);
        self.files.push(files);
        checked.and_then(|()| self.check_in_flight()).map_err(in_section)
    }

    /// Checks the number of requests that the sections of the last group have in flight.
    fn check_in_flight(&self) -> Result<(), Diagnostic> {
        let total = self.in_flight;
        if total <= IN_FLIGHT_MAX {
            return Ok(());
        }
        let sections = self.result.sections.iter().filter(|job| job.group == self.group);
        let largest = sections.max_by_key(|job| job.in_flight()).expect("the sum is not zero");
        let Section { name, clones, depth, .. } = largest;
        Err(job_error(
            format!(
                "the sections that run together keep {total} requests in flight, but at most \
                 {IN_FLIGHT_MAX} are possible; most are of [{name}]: numjobs={clones} times \
                 iodepth={depth}"
            ),
            "reduce numjobs or iodepth, or run sections one after the other with stonewall",
        ))
    }

    fn note(&mut self, file: &str, line: usize, option: &str, reason: &str) {
        let is_known = |note: &Note| note.option == option && note.reason == reason;
        if !self.result.notes.iter().any(is_known) {
            let (file, option, reason) = (file.to_owned(), option.to_owned(), reason.to_owned());
            self.result.notes.push(Note { file, line, option, reason });
        }
    }

    fn finish(mut self) -> Result<JobFile, Diagnostic> {
        if self.result.sections.is_empty() {
            let fault = job_error("the file has no job", "add a section such as [random-reads]");
            return Err(fault.in_file(&self.result.file).at_line(1));
        }
        let devices = layout::lay_out(&mut self.result.sections, &self.files)
            .map_err(|fault| fault.in_file(&self.result.file).at_line(1))?;
        self.leave_out_makers()?;
        let running = group::end_together(&mut self.result.sections, &self.groups);
        if let [never, ..] = &self.result.sections[running..] {
            let (name, line) = (never.name.clone(), never.line);
            let reason = format!("[{name}] and those below never run: a job above ends all");
            self.note(&self.result.file.clone(), line, "exit_what", &reason);
            self.result.sections.truncate(running);
        }
        if !self.result.sections.iter().any(|section| section.counts) {
            let help = "remove `counts=no` from at least one section";
            let error = job_error("every section has `counts=no`, so the job has no score", help);
            return Err(error.in_file(&self.result.file).at_line(1));
        }
        if devices > 1 {
            let reason = format!("each of {devices} devices has an equal part of the volume");
            let file = self.result.file.clone();
            let first = self.result.sections.iter().find(|section| !section.target.is_volume());
            self.note(&file, first.map_or(1, |section| section.line), "filename", &reason);
        }
        self.result.check_regions()?;
        Ok(self.result)
    }

    /// Removes the sections that make files only, when the files have their places.
    fn leave_out_makers(&mut self) -> Result<(), Diagnostic> {
        let mut makers = self.files.iter().map(|files| files.is_only_made);
        let mut drafts = self.files.iter().map(|files| files.is_only_made);
        self.result.sections.retain(|_| !makers.next().unwrap_or(false));
        self.groups.retain(|_| !drafts.next().unwrap_or(false));
        for (index, section) in self.result.sections.iter_mut().enumerate() {
            section.index = index;
        }
        if self.result.sections.is_empty() {
            let fault =
                job_error("every section has create_only=1", "remove it from those that run");
            return Err(fault.in_file(&self.result.file).at_line(1));
        }
        Ok(())
    }
}

impl OpenSection {
    fn new(name: String, line: usize) -> OpenSection {
        OpenSection { name, line, options: Vec::new(), counts: None, replay: None, file: None }
    }
}
