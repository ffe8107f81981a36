//! The array that advice is asked for: an array file, or what is detected on this machine.

use super::Args;
use crate::ending::Failure;
use crate::folders;
use crate::output_file::{self, Existing};
use crate::screen;
use anyhow::{Result, anyhow};
use mirrorball_core::suggest::closest_name;
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};
use mirrorball_host::detect::{
    ArrayCondition, DetectError, DetectedArray, Sysroot, detect_all, detect_at,
    detect_without_copies, file_stem, topmost, what_to_paste,
};
use mirrorball_lab::evaluation::advice::advised_array;
use mirrorball_lab::evaluation::advice::answer::OutOfService;
use mirrorball_lab::evaluation::advice::chosen_system::VERSION;
use mirrorball_lab::evaluation::advice::question::devids_for_choice;
use mirrorball_lab::evaluation::advice::state::{first_steps, lost_data};
use mirrorball_lab::experiment::inputs::{builtin_job_names, load_array};
use mirrorball_lab::experiment::systems;
use mirrorball_trace::{TraceFile, TraceSummary};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The built-in array that is answered for where a machine has none: two disks as unequal as people
/// mirror them.
const EXAMPLE: &str = "hdd-ssd-raid1";

/// Subject of the advice.
pub(super) struct AdviseTarget {
    /// The array file, or the name of a built-in array.
    pub(super) array: String,
    /// Why it is a built-in example, and not an array of the user.
    pub(super) is_example_because: Option<String>,
    pub(super) condition: Option<String>,
    /// Whether it was detected on a machine just now.
    pub(super) is_detected: bool,
    /// Background work of a detected array.
    pub(super) activity: Option<String>,
    /// Members that were replaced, and that the advice takes for in service.
    pub(super) out_of_service: Vec<OutOfService>,
    /// Changes of `--what-if` without which no read has a choice of members.
    pub(super) planned: Vec<String>,
}

/// The array that was named, and the jobs: the first name may be that of a job.
pub(super) fn array_and_jobs(args: &Args) -> (Option<&String>, Vec<String>) {
    let is_job = |name: &&String| {
        let is_builtin = builtin_job_names().any(|builtin| builtin == name.as_str());
        name.ends_with(".fio") || is_builtin && !Path::new(name).exists()
    };
    match &args.array {
        Some(job) if is_job(&job) => (None, [std::slice::from_ref(job), &args.jobs[..]].concat()),
        array => (array.as_ref(), args.jobs.clone()),
    }
}

/// The array file that was named, or one of what was detected.
pub(super) fn find(args: &Args, array: Option<&String>) -> Result<AdviseTarget, Failure> {
    if let Some(name) = array {
        let is_builtin = ArrayFile::builtin_names().any(|builtin| builtin == name);
        if name.ends_with(".toml") || is_builtin && !Path::new(name).exists() {
            if args.sysroot.is_some() {
                let error = "--sysroot has no effect with a built-in array or an array file";
                return Err(Failure::WrongUse(anyhow!("{error}\n  help: leave it out")));
            }
            return Ok(AdviseTarget::file(name.clone()));
        }
    }
    let (sysroot, array) = crate::detect::machine(args.sysroot.as_deref(), array)?;
    let detected = match array {
        Some(path) => detect_at(&sysroot, path).map_err(|error| not_detected(path, error))?,
        None => match only_array(args, &sysroot)? {
            Ok(array) => array,
            Err(reason) => return Ok(AdviseTarget::example(reason)),
        },
    };
    let has_version = args.system.as_ref().is_some_and(|system| system.version.is_some());
    for note in detected.notes.iter().filter(|it| !has_version || !it.starts_with(VERSION)) {
        screen::say_later(format_args!("note: {note}"));
    }
    check_running(&detected.name, detected.condition_text().as_deref())?;
    // An array file has a member in service.
    if detected.clone().into_advised().is_none() {
        return Err(Failure::Fault(anyhow!(
            "no advice for {}: all its members have failed, so no member has the data\n  help: \
             replace none of them; get one of them back into service first, or restore a backup",
            detected.name
        )));
    }
    let (condition, activity) = (detected.condition_text(), detected.condition.activity.clone());
    let path = save(&detected.name, &detected.array_file()).map_err(Failure::WrongUse)?;
    let array = path.display().to_string();
    screen::say_later(format_args!("the array is described in {array}"));
    Ok(AdviseTarget { condition, is_detected: true, activity, ..AdviseTarget::file(array) })
}

impl AdviseTarget {
    /// An array file, or a built-in array.
    pub(super) fn file(array: String) -> AdviseTarget {
        AdviseTarget {
            array,
            is_example_because: None,
            condition: None,
            is_detected: false,
            activity: None,
            out_of_service: Vec::new(),
            planned: Vec::new(),
        }
    }

    /// The built-in array that is answered for where a machine has none.
    fn example(reason: String) -> AdviseTarget {
        AdviseTarget { is_example_because: Some(reason), ..AdviseTarget::file(EXAMPLE.to_owned()) }
    }
}

/// Checks that an array with this condition runs: a stopped one takes no setting.
pub(super) fn check_running(name: &str, condition: Option<&str>) -> Result<(), Failure> {
    let mut states = condition.into_iter().flat_map(|condition| condition.split("; "));
    let Some(state) = states.find(|state| ArrayCondition::STOPPED.contains(state)) else {
        return Ok(());
    };
    Err(Failure::Fault(anyhow!(
        "no advice for {name}: the array is not running (its state is {state})\n  help: \
         `cat /proc/mdstat` shows which of its devices were found; start it first, as with \
         `mdadm --assemble --scan`"
    )))
}

/// Checks that each block of an array has a copy.
pub(super) fn check_copies(array: &str) -> Result<(), Failure> {
    let (_, spec) = load_array(array).map_err(Failure::WrongUse)?;
    match lost_data(&spec) {
        Some(lost) => Err(Failure::Fault(anyhow!("no advice for {}: {lost}", spec.name))),
        None => Ok(()),
    }
}

/// The failure to find an array at a path, which may be that of an array file.
fn not_detected(path: &str, error: DetectError) -> Failure {
    match error {
        DetectError::NoArray(diagnostic) if Path::new(path).is_file() => {
            let help = format!(
                "if it is an array file, give it a name that ends in .toml; if it has pasted \
                 outputs, `mirrorball advise - < {path}` reads them"
            );
            Failure::WrongUse(diagnostic.with_help(help).into())
        }
        DetectError::NoArray(diagnostic) => {
            let help = match closest_name(path, ArrayFile::builtin_names()) {
                Some(name) => format!("did you mean the built-in array `{name}`?"),
                None => {
                    let help = diagnostic.help.clone().unwrap_or_default();
                    format!("{help}; advise also takes an array file or a built-in array")
                }
            };
            Failure::WrongUse(diagnostic.with_help(help).into())
        }
        error => crate::detect::failure(error),
    }
}

/// The only array of a machine, or why an example is answered for: a machine without an array is
/// one to try the program on. A recorded machine is there for its arrays. Fails if there are
/// several, or one cannot be read.
fn only_array(args: &Args, sysroot: &Sysroot) -> Result<Result<DetectedArray, String>, Failure> {
    let mut found = Vec::new();
    let mut unreadable = Vec::new();
    for array in detect_all(sysroot) {
        match array {
            Ok(array) => found.push(array),
            Err(error) => unreadable.push(crate::detect::failure(error)),
        }
    }
    // Which of several is meant is not guessed, even if one only can be read.
    if let Some(failure) = crate::detect::unreadable(&found, unreadable) {
        return Err(failure);
    }
    let is_pasted = crate::detect::is_pasted(args.sysroot.as_deref(), args.array.as_ref());
    let place = match &args.sysroot {
        _ if is_pasted => "the text".to_owned(),
        None => "this machine".to_owned(),
        Some(folder) => folder.display().to_string(),
    };
    found = topmost(found);
    if found.len() > 1 {
        let place_option =
            crate::detect::place_option(args.sysroot.as_deref(), args.array.as_ref());
        let commands = found.iter().map(|array| {
            let name = mirrorball_core::diagnostic::quoted(crate::detect::target(array));
            format!("\n  mirrorball advise {name}{place_option}  # {}", array.summary())
        });
        let (count, commands) = (found.len(), commands.collect::<String>());
        return Err(Failure::WrongUse(anyhow!("{place} has {count} arrays; name one:{commands}")));
    }
    if let Some(array) = found.pop() {
        return Ok(Ok(array));
    }
    let others = detect_without_copies(sysroot);
    let none = match &others[..] {
        [] => "no array that can be read".to_owned(),
        others => format!("no array with copies of the data: {}", others.join("; ")),
    };
    if is_pasted && !others.is_empty() {
        return Err(Failure::WrongUse(anyhow!("{place} has {none}")));
    }
    if is_pasted {
        let help = what_to_paste(sysroot);
        return Err(Failure::WrongUse(anyhow!("{place} has {none}\n  help: {help}")));
    }
    if args.sysroot.is_none() && args.probe.is_none() && args.measured.is_none() {
        return Ok(Err(format!("{place} has {none}")));
    }
    // The only name that was given may be that of a job.
    let (job, help) = match &args.array {
        Some(job) => (format!("`{job}` is a job, and "), "give an array before the jobs"),
        None => (String::new(), "give the path of an array, or an array file"),
    };
    Err(Failure::WrongUse(anyhow!("{job}{place} has {none}\n  help: {help}")))
}

/// The job that resembles a trace, within the part of the array that jobs work on. A job file is
/// that of counters, and taken as it is.
pub(super) fn fitted_job(target: &AdviseTarget, trace: &Path) -> Result<String> {
    if trace.extension().is_some_and(|ending| ending == "fio") {
        return Ok(trace.display().to_string());
    }
    let summary = TraceSummary::of(&TraceFile::new(trace, None, None)?)?;
    let (_, spec) = load_array(&target.array)?;
    let capacity_bytes = spec.chunk_map()?.capacity_bytes();
    let free_bytes = capacity_bytes - spec.used_bytes(capacity_bytes);
    let shown = trace.display();
    let job = summary.fit(&format!("the trace {shown}"), free_bytes)?;
    let stem = trace.file_stem().unwrap_or_default().to_string_lossy();
    let path = save_as(&stem, "fio", &job)?.display().to_string();
    screen::say_later(format_args!("the job that resembles {shown} is in {path}"));
    if summary.devices.len() > 1 {
        let count = summary.devices.len();
        screen::say_later(format_args!(
            "note: the addresses of the {count} devices of {shown} are laid over each other; \
             `import trace --device NAME --fit` fits one of them"
        ));
    }
    Ok(path)
}

/// The lines of a description without the way to the array, which depends on what was named.
fn facts(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with("# stack:")).collect()
}

/// Saves the description of an array under a name that is free, or that says the same.
pub(super) fn save(name: &str, text: &str) -> Result<PathBuf> {
    save_as(name, "toml", text)
}

fn save_as(name: &str, ending: &str, text: &str) -> Result<PathBuf> {
    let folder = folders::results();
    folders::create(folder)?;
    let stem = file_stem(name);
    let is_same = |path: &Path| {
        std::fs::read_to_string(path).is_ok_and(|existing| facts(&existing) == facts(text))
    };
    for number in 1.. {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        let path = folder.join(format!("{stem}{suffix}.{ending}"));
        if !path.exists() {
            match output_file::write_bytes(&path, text.as_bytes(), Existing::Stays) {
                Ok(()) => return Ok(path),
                // Another run has just taken the name.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(anyhow!("cannot write {}: {error}", path.display())),
            }
        }
        if is_same(&path) {
            return Ok(path);
        }
    }
    unreachable!("some number is free")
}

/// The array that advice is for: as it is, or a changed copy of its file.
pub(super) fn as_advised(array: String, spec: &ArraySpec) -> Result<String> {
    let Some(text) = advised_array::whole(&read(&array)?) else { return Ok(array) };
    let path = save(&format!("{}-whole", spec.name), &text)?.display().to_string();
    screen::say_later(format_args!("the array, whole again, is in {path}"));
    Ok(path)
}

/// The file of an array, or the built-in one of this name.
pub(super) fn read(array: &str) -> Result<ArrayFile> {
    let (source, _) = load_array(array)?;
    // A built-in array has no file that paths could be relative to.
    Ok(ArrayFile::parse(&source.text, array)?)
}

/// Checks that some reads have a choice of members. Fails if each block is on one member only, of
/// those that are in service.
pub(super) fn check_choice(array: &str, spec: &ArraySpec) -> Result<(), Failure> {
    let failed: Vec<String> = devids_for_choice(spec).iter().map(ToString::to_string).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let source = spec.source.clone().unwrap_or_default();
    let condition = source.condition.as_deref().unwrap_or("degraded");
    let state = match systems::find(&source.system) {
        Ok(system) => first_steps(system, spec, Some(condition), &[], &[]).join("; "),
        Err(_) => format!("devid {} is missing", failed.join(", ")),
    };
    Err(Failure::Fault(anyhow!(
        "{}: {state}\n  no advice: each block has one copy on the other members, so no read has a \
         choice\n  help: for the array with a disk in that place: `mirrorball advise {array} \
         --what-if replace={}:MODEL`; `mirrorball models` lists the models",
        spec.name,
        failed[0]
    )))
}
