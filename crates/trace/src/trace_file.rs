//! A trace on disk: its path and its format.

use crate::formats::{HEAD_BYTES, TraceFormat};
use crate::reader::TraceReader;
use mirrorball_core::diagnostic::Diagnostic;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

#[derive(Clone, Debug, PartialEq)]
pub struct TraceFile {
    path: PathBuf,
    /// Format, as given or detected.
    pub format: &'static TraceFormat,
    /// Units of its times, offsets and lengths.
    pub units: String,
    /// The one device that is read; all if `None`.
    pub device: Option<String>,
    /// Size and time of modification when the format was found.
    version: FormatVersion,
}

/// Size in bytes and time of modification, where the file system has one.
type FormatVersion = (u64, Option<SystemTime>);

impl TraceFile {
    /// The trace at `path`, in the format of this name, or in the one that its first lines are in.
    /// Fails if the file cannot be read, or its format is unknown or cannot be detected.
    pub fn new(
        path: impl Into<PathBuf>,
        format: Option<&str>,
        device: Option<String>,
    ) -> Result<TraceFile, Diagnostic> {
        let path = path.into();
        if let Some(error) = one_of_several(&path) {
            return Err(error);
        }
        let (head, version) = read_head(&path).map_err(|error| unreadable(&path, &error))?;
        let format = match format {
            Some(name) => TraceFormat::by_name(name)?,
            None => {
                let detected = TraceFormat::detect(&head);
                detected.map_err(|error| error.in_file(path.display().to_string()))?
            }
        };
        Ok(TraceFile { path, format, units: format.units_of(&head), device, version })
    }

    /// A reader at the start of the trace. `seed` decides the times within a second if the trace
    /// has whole seconds only. Fails if the file cannot be opened, or was changed since
    /// [`TraceFile::new`].
    pub fn open(&self, seed: u64) -> Result<TraceReader, Diagnostic> {
        let file = File::open(&self.path).map_err(|error| unreadable(&self.path, &error))?;
        let metadata = file.metadata().map_err(|error| unreadable(&self.path, &error))?;
        if version_of(&metadata) != self.version {
            let message = format!("the trace `{}` was changed while it was in use", self.shown());
            return Err(Diagnostic::new(message).with_help("start again, without changing it"));
        }
        let device = self.device.as_deref();
        Ok(TraceReader::new(Box::new(file), &self.shown(), self.format, device, seed))
    }

    /// Path, for messages.
    pub fn shown(&self) -> String {
        self.path.display().to_string()
    }
}

/// The error for a file of one CPU: blktrace writes one for each, and a part of the requests is no
/// trace of the device.
fn one_of_several(path: &Path) -> Option<Diagnostic> {
    let name = path.file_name()?.to_str()?;
    let (front, number) = name.rsplit_once(".blktrace.")?;
    number.parse::<u32>().ok()?;
    let count =
        (0..1024).filter(|cpu| path.with_file_name(format!("{front}.blktrace.{cpu}")).exists());
    let count = count.count();
    (count > 1).then(|| {
        let message = format!("`{name}` is one of {count} files, one for each CPU");
        let help = format!("join them: blkparse -i {front} -d {front}.bin -O");
        Diagnostic::new(message).with_help(help)
    })
}

fn read_head(path: &Path) -> io::Result<(Vec<u8>, FormatVersion)> {
    let mut head = Vec::new();
    let file = File::open(path)?;
    let version = version_of(&file.metadata()?);
    file.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok((head, version))
}

fn version_of(metadata: &Metadata) -> FormatVersion {
    (metadata.len(), metadata.modified().ok())
}

fn unreadable(path: &Path, error: &io::Error) -> Diagnostic {
    let message = format!("cannot read the trace `{}`: {error}", path.display());
    Diagnostic::new(message).with_help("give the path of a trace file")
}
