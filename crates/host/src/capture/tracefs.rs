//! A buffer of its own for the tracepoints of some block devices, in tracefs.
//!
//! Other users of tracefs are not disturbed: the instance has its own events, filter, clock and
//! buffer. It is removed when the session ends; one that a killed process left is removed by the
//! next session.

use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_trace::CapturedDevice;
use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Where tracefs is mounted.
const FOLDERS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Start of the names of instances, before the id of the process.
const NAME: &str = "mirrorball-";
const BUFFER_KIB: usize = 8192;
/// A driver that has requests completes those, others the parts that they were asked.
const EVENTS: [&str; 3] = ["block_bio_queue", "block_bio_complete", "block_rq_complete"];

pub struct TraceSession {
    instance: PathBuf,
    /// Where this session mounted tracefs.
    mounted: Option<PathBuf>,
    pipe: Option<File>,
}

impl TraceSession {
    /// A session that can record the requests of these devices. Fails if tracefs cannot be mounted
    /// or used, as without root.
    pub fn new(devices: &[CapturedDevice]) -> Result<TraceSession, Diagnostic> {
        let is_there = |folder: &&&str| Path::new(folder).join("instances").is_dir();
        let mut session = TraceSession { instance: PathBuf::new(), mounted: None, pipe: None };
        let folder = match FOLDERS.iter().find(is_there) {
            Some(folder) => Path::new(folder),
            None => {
                let folder = Path::new(FOLDERS[0]);
                let mounting = mount("tracefs", folder, "tracefs", MountFlags::empty(), None);
                mounting.map_err(|error| unusable("mount tracefs", &error.into()))?;
                session.mounted = Some(folder.to_owned());
                folder
            }
        };
        remove_abandoned(folder);
        let instance = folder.join("instances").join(format!("{NAME}{}", std::process::id()));
        fs::create_dir(&instance)
            .map_err(|error| unusable("make an instance of tracefs", &error))?;
        session.instance = instance;
        session.set_up(devices).map_err(|error| unusable("set up tracefs", &error))?;
        Ok(session)
    }

    fn set_up(&mut self, devices: &[CapturedDevice]) -> io::Result<()> {
        let write = |file: &str, text: &str| fs::write(self.instance.join(file), text);
        write("buffer_size_kb", &BUFFER_KIB.to_string())?;
        write("trace_clock", "mono")?;
        let filter = filter(devices);
        for event in EVENTS {
            write(&format!("events/block/{event}/filter"), &filter)?;
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let pipe = open(self.instance.join("trace_pipe"), flags, Mode::empty())?;
        self.pipe = Some(File::from(pipe));
        Ok(())
    }

    pub fn start(&self) -> io::Result<()> {
        let enable =
            |event| fs::write(self.instance.join(format!("events/block/{event}/enable")), "1");
        EVENTS.iter().try_for_each(enable)
    }

    /// Appends what was recorded since to `text`, at most `most` bytes, and returns their number.
    pub fn read(&mut self, text: &mut Vec<u8>, most: u64) -> io::Result<usize> {
        let Some(pipe) = &mut self.pipe else { return Ok(0) };
        let before = text.len();
        match pipe.take(most).read_to_end(text) {
            Ok(_) => {}
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        Ok(text.len() - before)
    }

    /// Stops the recording; what is in the buffer can still be read.
    pub fn stop(&self) {
        let _ = fs::write(self.instance.join("tracing_on"), "0");
    }

    /// Number of events that the buffer had no place for.
    pub fn lost(&self) -> u64 {
        let folders = fs::read_dir(self.instance.join("per_cpu")).into_iter().flatten().flatten();
        let texts = folders.filter_map(|cpu| fs::read_to_string(cpu.path().join("stats")).ok());
        texts.map(|text| lost_events(&text)).sum()
    }
}

impl Drop for TraceSession {
    fn drop(&mut self) {
        self.pipe = None;
        if self.instance.is_dir() {
            remove(&self.instance);
        }
        // Another session may use it meanwhile, which leaves it mounted.
        if let Some(folder) = self.mounted.as_ref().filter(|it| instances(it).next().is_none()) {
            let _ = unmount(folder.as_path(), UnmountFlags::DETACH);
        }
    }
}

/// Removes an instance; what fails is left, as nothing else can be done.
fn remove(instance: &Path) {
    let _ = fs::write(instance.join("events/enable"), "0");
    let _ = fs::remove_dir(instance);
}

/// Removes the instances of processes that are gone.
fn remove_abandoned(folder: &Path) {
    let is_gone = |process: &u32| !Path::new("/proc").join(process.to_string()).exists();
    for (_, instance) in instances(folder).filter(|(process, _)| is_gone(process)) {
        remove(&instance);
    }
}

/// The instances of sessions, with their processes. Those with other names are not ours.
fn instances(folder: &Path) -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = fs::read_dir(folder.join("instances")).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let process = entry.file_name().to_str()?.strip_prefix(NAME)?.parse().ok()?;
        Some((process, entry.path()))
    })
}

/// The filter of an event: the requests of these devices.
fn filter(devices: &[CapturedDevice]) -> String {
    let numbers = devices.iter().flat_map(|device| &device.numbers);
    let terms = numbers.filter_map(|number| {
        let (major, minor) = number.split_once(',')?;
        let number = major.parse::<u64>().ok()? << 20 | minor.parse::<u64>().ok()?;
        Some(format!("dev == {number}"))
    });
    terms.collect::<Vec<String>>().join(" || ")
}

/// The events that were lost, in a file `stats` of a processor.
fn lost_events(text: &str) -> u64 {
    let lost = text.lines().filter_map(|line| {
        let (name, count) = line.split_once(':')?;
        matches!(name, "overrun" | "dropped events").then(|| count.trim().parse().unwrap_or(0))
    });
    lost.sum::<u64>()
}

fn unusable(what: &str, error: &io::Error) -> Diagnostic {
    Diagnostic::new(format!("cannot {what}: {error}"))
        .with_help("run it as root, outside of a container")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_names_all_devices() {
        let device = |numbers: &[&str]| CapturedDevice {
            numbers: numbers.iter().map(|&it| it.to_owned()).collect(),
            start_bytes: 0,
            bytes: 0,
            devid: 0,
        };
        let devices = [device(&["7,1"]), device(&["8,2", "8,0"])];
        assert_eq!(filter(&devices), "dev == 7340033 || dev == 8388610 || dev == 8388608");
    }

    #[test]
    fn instances_of_processes_that_are_gone_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let own = format!("{NAME}{}", std::process::id());
        for name in [&*own, "mirrorball-4294967295", "mirrorball-x", "other"] {
            fs::create_dir_all(folder.path().join("instances").join(name)).unwrap();
        }
        remove_abandoned(folder.path());
        let left: Vec<u32> = instances(folder.path()).map(|(process, _)| process).collect();
        assert_eq!(left, [std::process::id()]);
        assert_eq!(fs::read_dir(folder.path().join("instances")).unwrap().count(), 3);
    }

    #[test]
    fn lost_events_are_counted() {
        let text = "entries: 0\noverrun: 17\ncommit overrun: 0\nbytes: 48\n\
                    oldest event ts:  9.1\nnow ts: 9.2\ndropped events: 4\nread events: 99\n";
        assert_eq!(lost_events(text), 21);
    }
}
