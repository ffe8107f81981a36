//! Adding, starting, stopping and removing ublk devices.
//!
//! A device of this program carries a mark in its description, and the driver reports the process
//! that serves it; so the devices of a killed server are found and removed.
//!
//! Source: the Linux kernel's `Documentation/block/ublk.rst`.

use super::wire::{
    ANY_DEVICE, DEPTH, DESCRIPTION_WORDS, INFO_BYTES, Info, code, control_head, parameters,
};
use crate::driver::device::{ControlCommand, ControlDevice, SharedMemory};
use crate::export::Export;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

const CONTROL: &str = "/dev/ublk-control";
/// Folder in which the kernel lists ublk devices, as `ublkcN`.
const LIST: &str = "/sys/class/ublk-char";
/// Mark of the devices of this program.
const OWNER_MARK: u64 = u64::from_be_bytes(*b"mirrorbl");
/// How long to wait for the driver to remove a device. It also does so later, when the device is no
/// longer in use.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(1);

/// Why there is no block device.
#[derive(Debug, thiserror::Error)]
pub enum UblkError {
    /// The program was built without the feature.
    #[error(
        "this program was built without ublk\n  help: build it with the feature `ublk`, or use \
         --export fuse:DIR --loop"
    )]
    NotBuilt,
    /// The kernel has no driver.
    #[error(
        "this kernel has no ublk driver: {CONTROL} is missing\n  help: load it with `modprobe \
         ublk_drv` (Linux 6.4 and later, CONFIG_BLK_DEV_UBLK), or use --export fuse:DIR --loop"
    )]
    NoDriver,
    /// The I/O backend does not support ublk commands.
    #[error("ublk needs io_uring: {0}, or --export fuse:DIR --loop")]
    NoRing(&'static str),
    #[error("cannot {doing} a ublk device: {error}{hint}")]
    System { doing: &'static str, error: io::Error, hint: &'static str },
}

pub(super) struct UblkDriver(ControlDevice);

pub(super) struct Added {
    pub(super) number: u32,
    pub(super) fd: OwnedFd,
    /// Descriptions of requests, by tag.
    pub(super) descriptions: SharedMemory,
}

impl UblkDriver {
    pub(super) fn open() -> Result<UblkDriver, UblkError> {
        match ControlDevice::open(Path::new(CONTROL)) {
            Ok(device) => Ok(UblkDriver(device)),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(UblkError::NoDriver),
            Err(error) => Err(refused("open the driver of", error)),
        }
    }

    /// Adds a device for an export. Its block device appears when it is started.
    pub(super) fn add(&mut self, export: &Export) -> Result<Added, UblkError> {
        let doing = "add";
        let process = rustix::process::getpid().as_raw_pid();
        let mut info = Info { device: ANY_DEVICE, process, mark: OWNER_MARK }.bytes();
        self.ask(code::ADD, ANY_DEVICE, &mut info).map_err(|error| refused(doing, error))?;
        let number = Info::read(&info).device;
        let opened = self.open_device(number, export);
        opened.map_err(|error| {
            let _ = self.ask(code::DELETE, number, &mut []);
            refused(doing, error)
        })
    }

    fn open_device(&mut self, number: u32, export: &Export) -> io::Result<Added> {
        self.ask(code::SET_PARAMETERS, number, &mut parameters(export))?;
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let fd = rustix::fs::open(format!("/dev/ublkc{number}"), flags, Mode::empty())?;
        let bytes = usize::from(DEPTH) * DESCRIPTION_WORDS * size_of::<u64>();
        let descriptions = SharedMemory::map(&fd, bytes)?;
        Ok(Added { number, fd, descriptions })
    }

    /// Starts the block device. Its requests must be served meanwhile.
    pub(super) fn start(&mut self, number: u32) -> Result<PathBuf, UblkError> {
        let process = rustix::process::getpid().as_raw_pid() as u64;
        let head = control_head(number, 0);
        let question = ControlCommand { code: code::START, head, number: process };
        self.0.run(&question, &mut []).map_err(|error| refused("start", error))?;
        Ok(block_device(number))
    }

    /// Removes the block device after the requests in flight have ended, and aborts the commands
    /// that wait for requests.
    pub(super) fn stop(&mut self, number: u32) -> io::Result<()> {
        self.ask(code::STOP, number, &mut [])
    }

    /// Removes a device, now or when it is no longer in use.
    pub(super) fn remove(self, number: u32) -> io::Result<()> {
        let head = control_head(number, 0);
        let question = ControlCommand { code: code::DELETE, head, number: 0 };
        match self.0.run_with_timeout(&question, REMOVE_TIMEOUT) {
            Err(error) if error.kind() == ErrorKind::TimedOut => Ok(()),
            result => result,
        }
    }

    fn ask(&mut self, code: u32, device: u32, data: &mut [u8]) -> io::Result<()> {
        let question = ControlCommand { code, head: control_head(device, data.len()), number: 0 };
        self.0.run(&question, data)
    }
}

pub(super) fn block_device(number: u32) -> PathBuf {
    format!("/dev/ublkb{number}").into()
}

/// Returns true if a filesystem or another device uses a block device.
pub(super) fn is_claimed(number: u32) -> bool {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let opened = rustix::fs::open(block_device(number), flags, Mode::empty());
    matches!(opened, Err(Errno::BUSY))
}

/// Removes the devices of killed servers; returns a note for each.
pub(super) fn remove_stale_devices() -> Result<Vec<String>, UblkError> {
    let entries = fs::read_dir(LIST).into_iter().flatten().flatten();
    let number = |name: &str| name.strip_prefix("ublkc")?.parse().ok();
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| number(entry.file_name().to_str()?)).collect();
    numbers.sort_unstable();
    let mut notes = Vec::new();
    for number in numbers {
        let mut control = UblkDriver::open()?;
        let mut bytes = [0; INFO_BYTES];
        // Another server may be removing it.
        let Ok(()) = control.ask(code::GET_INFO, number, &mut bytes) else { continue };
        let info = Info::read(&bytes);
        if info.mark != OWNER_MARK || is_alive(info.process) {
            continue;
        }
        control.remove(number).map_err(|error| refused("remove", error))?;
        let device = block_device(number);
        notes
            .push(format!("removed {}, left behind by a server that was killed", device.display()));
    }
    Ok(notes)
}

/// Returns true if a process exists and is not a zombie.
fn is_alive(process: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    // The state follows the name, which may contain any text. Z and X are ended processes.
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0]);
    !matches!(state, None | Some(b'Z' | b'X'))
}

fn refused(doing: &'static str, error: io::Error) -> UblkError {
    let hint = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => " (run as root)",
        Some(libc::EOPNOTSUPP) => " (Linux 6.4 or later is needed)",
        _ => "",
    };
    UblkError::System { doing, error, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zombies_are_not_alive() {
        assert!(is_alive(std::process::id() as i32));
        assert!(!is_alive(-1) && !is_alive(0));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = child.id() as i32;
        // Until `wait` is called, a zombie remains.
        while is_alive(process) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(Path::new(&format!("/proc/{process}")).exists());
        child.wait().unwrap();
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let message = refused("add", io::Error::from_raw_os_error(libc::EPERM)).to_string();
        assert!(
            message.contains("add a ublk device") && message.ends_with("(run as root)"),
            "{message}"
        );
        assert!(UblkError::NoDriver.to_string().contains("modprobe ublk_drv"));
    }
}
