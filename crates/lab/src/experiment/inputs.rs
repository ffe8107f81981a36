//! The array and the jobs of an experiment, found and understood.
//!
//! Each is named by a path or by the name of one that is compiled in, so that the program runs from
//! any folder. A file that exists wins over a built-in of the same name. Everything that can be
//! found wrong before a run is found here: what the readers refuse, real members, jobs larger than
//! the volume, two jobs of one name.

mod find;

use crate::experiment::hash::stable_hash;
use crate::experiment::plan::InputText;
use anyhow::{Error, Result, bail};
use find::InputKind;
use mirrorball_core::diagnostic::{Diagnostic, Escaped};
use mirrorball_core::policies::Registry;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::{ArrayFile, ArraySpec, MemberSource};
use mirrorball_sim::engine;
use mirrorball_sim::job::{JobContext, JobFile, Note};
use std::path::Path;

const ARRAY: InputKind = InputKind {
    name: "array",
    ending: ".toml",
    builtin: || ArrayFile::builtin_names().collect(),
    allows_latin1: false,
};
const JOB: InputKind = InputKind {
    name: "job",
    ending: ".fio",
    builtin: || builtin_job_names().collect(),
    allows_latin1: true,
};

/// The jobs compiled in, by name.
const BUILTIN_JOBS: [(&str, &str); 18] = [
    ("rand-4k-qd1", include_str!("../../jobs/rand-4k-qd1.fio")),
    ("rand-4k-qd1-defrag", include_str!("../../jobs/rand-4k-qd1-defrag.fio")),
    ("rand-4k-qd32", include_str!("../../jobs/rand-4k-qd32.fio")),
    ("rand-4k-qd32-defrag", include_str!("../../jobs/rand-4k-qd32-defrag.fio")),
    ("seq-read", include_str!("../../jobs/seq-read.fio")),
    ("seq-read-defrag", include_str!("../../jobs/seq-read-defrag.fio")),
    ("four-streams", include_str!("../../jobs/four-streams.fio")),
    ("mixed-sizes", include_str!("../../jobs/mixed-sizes.fio")),
    ("poisson-4k", include_str!("../../jobs/poisson-4k.fio")),
    ("randrw-4k-70-30", include_str!("../../jobs/randrw-4k-70-30.fio")),
    ("zipf-4k-qd16", include_str!("../../jobs/zipf-4k-qd16.fio")),
    ("fsync-writer", include_str!("../../jobs/fsync-writer.fio")),
    ("rand-write-4k", include_str!("../../jobs/rand-write-4k.fio")),
    ("seq-write", include_str!("../../jobs/seq-write.fio")),
    ("rand-4k-qd1-scrub", include_str!("../../jobs/rand-4k-qd1-scrub.fio")),
    ("rand-4k-qd32-scrub", include_str!("../../jobs/rand-4k-qd32-scrub.fio")),
    ("seq-read-scrub", include_str!("../../jobs/seq-read-scrub.fio")),
    ("four-streams-scrub", include_str!("../../jobs/four-streams-scrub.fio")),
];

/// The jobs that are run if none is named.
pub const DEFAULT_JOBS: [&str; 6] = [
    "rand-4k-qd1", "rand-4k-qd1-defrag", "rand-4k-qd32", "rand-4k-qd32-defrag", "seq-read",
    "seq-read-defrag",
];

/// Requests in flight up to which the oracle takes part, as a multiple of what the disks accept.
const ORACLE_QUEUES_MAX: u64 = 4;

/// An array and jobs that fit it.
#[derive(Debug)]
pub struct Inputs {
    pub array: ArraySpec,
    pub array_source: InputText,
    /// The jobs, in the order they were named.
    pub jobs: Vec<JobFile>,
    pub job_sources: Vec<InputText>,
    /// What was accepted in the jobs of the user's own files and changes nothing, or counts
    /// otherwise than it looks: each option once.
    pub notes: Vec<Note>,
    /// The programs that policies may name.
    pub registry: Registry,
}

impl Inputs {
    /// Loads an array and jobs by path or built-in name. Fails if one cannot be read or understood,
    /// or they do not fit each other; the message has the file, the line and a hint.
    pub fn load(array_name: &str, jobs: &[String]) -> Result<Inputs> {
        let loaded = load_array(array_name);
        let (array_source, array) = loaded.map_err(|error| swapped(array_name, jobs, error))?;
        let mut inputs = Inputs {
            array,
            array_source,
            jobs: Vec::new(),
            job_sources: Vec::new(),
            notes: Vec::new(),
            registry: Registry::default(),
        };
        for name in jobs {
            let (source, job) = load_job(name)?;
            check_fit(array_name, &inputs.array, &job)?;
            if inputs.job_sources.iter().any(|other| other.name == source.name) {
                let is_same = |other: &&String| *other == name;
                let (what, help) = match jobs.iter().filter(is_same).count() {
                    0 | 1 => (
                        format!("two jobs have the name `{}`", source.name),
                        "rename one of the files",
                    ),
                    _ => (format!("`{name}` is given twice"), "remove one of them"),
                };
                return Err(Diagnostic::new(what).with_help(help).into());
            }
            if Path::new(name).exists() {
                inputs.note(&job.notes);
            }
            inputs.job_sources.push(source);
            inputs.jobs.push(job);
        }
        Ok(inputs)
    }

    /// An array and jobs, each a name and a text, without other files and variables around them.
    /// Fails if one cannot be understood, or they do not fit each other.
    pub fn from_texts(array: (&str, &str), jobs: &[(&str, &str)]) -> Result<Inputs> {
        let spec = array_of_text(array.0, array.1)?;
        let source = |(name, text): (&str, &str), fingerprint| InputText {
            name: name.to_owned(),
            text: text.to_owned(),
            fingerprint,
        };
        let mut inputs = Inputs {
            array_source: source(array, fingerprint(&spec)),
            job_sources: Vec::new(),
            array: spec,
            jobs: Vec::new(),
            notes: Vec::new(),
            registry: Registry::default(),
        };
        for &(name, text) in jobs {
            let job = job_of_text(name, text)?;
            check_fit(&inputs.array.file_name, &inputs.array, &job)?;
            inputs.job_sources.push(source((name, text), job_fingerprint(&job)));
            inputs.jobs.push(job);
        }
        Ok(inputs)
    }

    /// Whether the oracle would take most of the time of a comparison. Beyond what the disks accept
    /// at once, it simulates all that waits in the host, for each read.
    pub fn has_costly_oracle(&self) -> bool {
        let accepted = self.array.members.iter().map(|member| match &member.source {
            MemberSource::Model(profile) => u64::from(profile.queue_depth()),
            _ => 0,
        });
        let accepted: u64 = accepted.sum();
        self.jobs.iter().any(|job| job.in_flight_max() > ORACLE_QUEUES_MAX * accepted)
    }

    /// Lets policies name the programs of a registry.
    #[must_use]
    pub fn with_registry(self, registry: Registry) -> Inputs {
        Inputs { registry, ..self }
    }

    /// Puts an edited file of the same array in its place.
    #[must_use]
    pub fn with_array(self, file: ArrayFile) -> Inputs {
        let name = self.array_source.name;
        let fingerprint = fingerprint(&file.spec);
        let array_source = InputText { name, text: file.text, fingerprint };
        Inputs { array: file.spec, array_source, ..self }
    }

    /// Lets no job count before its warm-up, nor what is in flight at its end.
    #[must_use]
    pub fn in_steady_state(self, warm_ups: &[Nanos]) -> Inputs {
        let jobs = self.jobs.into_iter().zip(warm_ups);
        let jobs: Vec<JobFile> = jobs.map(|(job, &time)| job.in_steady_state(time)).collect();
        let sources = self.job_sources.into_iter().zip(&jobs);
        let sources =
            sources.map(|(it, job)| InputText { fingerprint: job_fingerprint(job), ..it });
        let job_sources = sources.collect();
        Inputs { jobs, job_sources, ..self }
    }

    fn note(&mut self, notes: &[Note]) {
        for note in notes {
            if self.notes.iter().all(|known| known.option != note.option) {
                self.notes.push(note.clone());
            }
        }
    }
}

/// Checks that the jobs of a file can run on an array. Errors call it `array_name`, the file or
/// name that the user wrote. Fails if the array has a real member, a job does not fit the free part
/// of the volume, or the work next to the jobs asks for what the array has not; the message has the
/// file, the line and a hint.
pub fn check_fit(array_name: &str, array: &ArraySpec, jobs: &JobFile) -> Result<()> {
    let capacity_bytes = array.chunk_map()?.capacity_bytes();
    // Jobs begin behind the older data.
    let used_bytes = array.used_bytes(capacity_bytes);
    let volume = format!("the volume of `{array_name}`");
    let place = if used_bytes > 0 { format!("the free part of {volume}") } else { volume };
    jobs.validate_against_named(capacity_bytes - used_bytes, &place)?;
    Ok(engine::check(array, jobs)?)
}

pub fn builtin_job_names() -> impl Iterator<Item = &'static str> {
    BUILTIN_JOBS.iter().map(|(name, _)| *name)
}

/// Adds to the error for an array that is a job what to write.
fn swapped(name: &str, jobs: &[String], error: Error) -> Error {
    if !is_job(name) {
        return error;
    }
    let is_array = |name: &&String| load_array(name).is_ok();
    let array = jobs.iter().find(is_array).map_or(ArrayFile::DEFAULT, String::as_str);
    let help = format!("the array comes first: {array} {name}");
    Diagnostic::new(error.to_string()).with_help(help).into()
}

/// True for a name of a job that is not one of an array.
fn is_job(name: &str) -> bool {
    let has_job = name.ends_with(".fio") || builtin_job(name).is_some();
    has_job && ArrayFile::builtin(name).is_err()
}

/// Loads an array by path or built-in name. Its members may be real.
pub fn load_array(name: &str) -> Result<(InputText, ArraySpec)> {
    match ArrayFile::builtin(name) {
        Ok(file) if !Path::new(name).exists() => Ok(loaded(name, file)),
        _ => load_from(name, &ARRAY),
    }
}

/// Loads the array file of a volume. A built-in array has no devices, so none is looked for.
pub fn load_array_file(name: &str) -> Result<(InputText, ArraySpec)> {
    if ArrayFile::builtin(name).is_ok() && !Path::new(name).exists() {
        let what = format!("`{name}` is a built-in array: its members are disk models");
        let help = "give an array file whose members have a `path` or a `uri`; `mirrorball \
                    emulate` serves disk models";
        return Err(Diagnostic::new(what).with_help(help).into());
    }
    load_from(name, &InputKind { builtin: Vec::new, ..ARRAY })
}

fn load_from(name: &str, kind: &InputKind) -> Result<(InputText, ArraySpec)> {
    if is_job(name) {
        bail!("`{name}` is a job, but an array is expected here");
    }
    if !kind.is_path(name) {
        return Err(kind.unknown(name));
    }
    let parsed = ArrayFile::parse(&kind.read(name)?, name);
    let file = parsed.map_err(|error| match error.help {
        None if !name.ends_with(kind.ending) => {
            error.with_help("is it an array file? their names end in .toml")
        }
        _ => error,
    })?;
    Ok(loaded(name, file))
}

fn loaded(name: &str, file: ArrayFile) -> (InputText, ArraySpec) {
    let fingerprint = fingerprint(&file.spec);
    (InputText { name: stem(name), text: file.text, fingerprint }, file.spec)
}

/// Hash of the canonical text of an array: of what decides the results, not of where the file is
/// stored.
pub fn fingerprint(spec: &ArraySpec) -> String {
    stable_hash([&*spec.canonical_text()])
}

pub fn load_job(name: &str) -> Result<(InputText, JobFile)> {
    let is_array = name.ends_with(".toml") || ArrayFile::builtin(name).is_ok();
    if is_array && builtin_job(name).is_none() {
        let error = Diagnostic::new(format!("`{name}` is an array, but a job is expected here"));
        return Err(error.with_help("one array comes first, then jobs").into());
    }
    let (text, file_name) = match builtin_job(name) {
        Some((name, text)) if !Path::new(name).exists() => {
            (text.to_owned(), format!("jobs/{name}.fio"))
        }
        _ if JOB.is_path(name) => (JOB.read(name)?, name.to_owned()),
        _ => return Err(JOB.unknown(name)),
    };
    let job = JobFile::parse(&text, &file_name, &JobContext::process())?;
    let fingerprint = job_fingerprint(&job);
    Ok((InputText { name: stem(name), text, fingerprint }, job))
}

/// Hash of the canonical text of a job: of its sections and its background work, with every
/// default, variable and included file resolved.
pub fn job_fingerprint(job: &JobFile) -> String {
    let canonical = serde_json::to_string(&(&job.sections, &job.background));
    stable_hash([&*canonical.expect("a job is plain data")])
}

/// The array of a text that is in no file. Errors call it `name`.
pub fn array_of_text(name: &str, text: &str) -> Result<ArraySpec> {
    Ok(ArrayFile::parse(text, &format!("{name}.toml"))?.spec)
}

/// The job of a text that is in no file. No variable is set, and it can include no file.
pub fn job_of_text(name: &str, text: &str) -> Result<JobFile> {
    Ok(JobFile::parse(text, &format!("{name}.fio"), &JobContext::empty())?)
}

pub fn builtin_job_text(name: &str) -> Option<&'static str> {
    BUILTIN_JOBS.iter().find(|(builtin, _)| *builtin == name).map(|(_, text)| *text)
}

/// The built-in job of this name, with or without `jobs/` and `.fio` around it.
fn builtin_job(name: &str) -> Option<(&'static str, &'static str)> {
    let bare = name.strip_prefix("jobs/").unwrap_or(name);
    let bare = bare.strip_suffix(".fio").unwrap_or(bare);
    BUILTIN_JOBS.into_iter().find(|(candidate, _)| *candidate == bare)
}

/// A file's name without folder and ending: what results call it. Reports print it, so it holds no
/// control character.
fn stem(name: &str) -> String {
    let stem = Path::new(name).file_stem().unwrap_or_default();
    Escaped(&stem.to_string_lossy()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_name_is_shown_without_control_characters() {
        assert_eq!(stem("jobs/n\u{1b}[31m.fio"), "n\\u{1b}[31m");
    }

    /// A job that is shipped but not compiled in would not be found from another folder.
    #[test]
    fn every_shipped_job_is_built_in_and_every_default_exists() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../jobs");
        for entry in fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".fio") {
                assert!(builtin_job(&name).is_some(), "{name} is not in BUILTIN_JOBS");
            }
        }
        assert!(DEFAULT_JOBS.iter().all(|name| builtin_job(name).is_some()));
    }

    #[test]
    fn every_built_in_job_fits_the_default_array() {
        let names: Vec<String> = builtin_job_names().map(str::to_owned).collect();
        Inputs::load(ArrayFile::DEFAULT, &names).unwrap();
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_nearest() {
        let message = |result: Result<(InputText, JobFile)>| result.unwrap_err().to_string();
        assert!(message(load_job("rand-4k-q1")).contains("did you mean `rand-4k-qd1`?"));
        assert!(message(load_job("zebra")).contains("the built-in jobs are rand-4k-qd1"));
        let swapped = Inputs::load("rand-4k-qd1", &["two-ssd-raid1".to_owned()]).unwrap_err();
        assert_eq!(
            swapped.to_string(),
            "`rand-4k-qd1` is a job, but an array is expected here\n  help: the array comes \
             first: two-ssd-raid1 rand-4k-qd1"
        );
    }

    #[test]
    fn a_volume_is_not_looked_for_among_the_built_in_arrays() {
        let help = "give an array file whose members have a `path` or a `uri`";
        let models = "`two-ssd-raid1` is a built-in array: its members are disk models";
        let emulate = "; `mirrorball emulate` serves disk models";
        for (name, what, more) in
            [("nosuch", "there is no file `nosuch`", ""), ("two-ssd-raid1", models, emulate)]
        {
            let expected = format!("{what}\n  help: {help}{more}");
            assert_eq!(load_array_file(name).unwrap_err().to_string(), expected);
        }
        let missing = load_array_file("nosuch.toml").unwrap_err().to_string();
        assert!(missing.ends_with("\n  help: check the path"), "{missing}");
    }

    #[test]
    fn folders_and_files_without_text_are_named_as_they_are() {
        let folder = tempfile::TempDir::new().unwrap();
        let message = |path: &str| load_array(path).unwrap_err().to_string();
        let path = folder.path().to_str().unwrap();
        assert_eq!(
            message(path),
            format!("{path} is a folder, not an array file\n  help: array files end in .toml")
        );
        let path = folder.path().join("bin.toml");
        fs::write(&path, [0xff, 0xfe]).unwrap();
        let path = path.to_str().unwrap();
        let expected = format!(
            "{path} is not a text file: it has bytes that are not UTF-8\n  help: give an array \
             file, in UTF-8"
        );
        assert_eq!(message(path), expected);
    }

    #[test]
    fn the_fingerprint_follows_the_meaning_and_not_the_place() {
        let text = "profile = \"raid1\"\n[[member]]\nmodel = \"hdd-5k4\"\ncount = 2\n";
        let folder = tempfile::TempDir::new().unwrap();
        let fingerprint = |file: &str, text: &str| {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            load_array(path.to_str().unwrap()).unwrap().0.fingerprint
        };
        let here = fingerprint("here/a.toml", text);
        assert_eq!(here, fingerprint("there/a.toml", text));
        assert_ne!(here, fingerprint("here/a.toml", &text.replace("5k4", "15k")));
    }

    /// The text of the job is the same; what it includes is not.
    #[test]
    fn a_job_fingerprint_changes_with_an_included_file() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("job.fio");
        fs::write(&path, "[global]\ninclude shared.inc\n[a]\nrw=randread\nsize=1g\n").unwrap();
        let with_depth = |depth: u32| {
            let text = format!("ioengine=libaio\ndirect=1\niodepth={depth}\n");
            fs::write(folder.path().join("shared.inc"), text).unwrap();
            load_job(path.to_str().unwrap()).unwrap().0.fingerprint
        };
        let one = with_depth(1);
        assert_ne!(one, with_depth(2));
        assert_eq!(one, with_depth(1));
    }
}
