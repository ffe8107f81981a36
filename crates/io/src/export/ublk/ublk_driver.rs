//! Adding, starting, stopping and removing devices, and what a killed server left.
//!
//! A device that we add carries a mark in its description, and the driver tells who serves it; so
//! a server that was killed leaves nothing that the next could not find.
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

/// Where the driver is found.
const CONTROL: &str = "/dev/ublk-control";
/// Where the kernel lists its devices, as `ublkcN`.
const LIST: &str = "/sys/class/ublk-char";
/// What our devices carry.
const OWNER_MARK: u64 = u64::from_be_bytes(*b"mirrorbl");
/// How long the driver may take to forget a device. It does when nobody uses it any more, and
/// needs no one to wait for that.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(1);

/// Why there is no block device.
#[derive(Debug, thiserror::Error)]
pub enum UblkError {
    /// Left out when the program was built.
    #[error("this program was built without ublk: build it with the feature `ublk`")]
    NotBuilt,
    /// No driver.
    #[error(
        "this kernel has no ublk driver: {CONTROL} is missing. Load it with `modprobe ublk_drv` \
         (Linux 6.4 and later, CONFIG_BLK_DEV_UBLK), or take --export fuse:DIR --loop"
    )]
    NoDriver,
    /// The loop cannot give commands.
    #[error("ublk needs io_uring: {0}, or take --export fuse:DIR --loop")]
    NoRing(&'static str),
    /// The system refused.
    #[error("cannot {doing} a ublk device: {error}{hint}")]
    System {
        /// What it was asked.
        doing: &'static str,
        /// What it said.
        error: io::Error,
        /// What to do.
        hint: &'static str,
    },
}

/// The driver.
pub(super) struct UblkDriver(ControlDevice);

/// A device that was added.
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

    /// Adds a device for an export. Nothing is seen of it before it is started.
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

    /// Makes a device a block device; whoever serves it must be at work by then.
    pub(super) fn start(&mut self, number: u32) -> Result<PathBuf, UblkError> {
        let process = rustix::process::getpid().as_raw_pid() as u64;
        let head = control_head(number, 0);
        let question = ControlCommand { code: code::START, head, number: process };
        self.0.run(&question, &mut []).map_err(|error| refused("start", error))?;
        Ok(block_device(number))
    }

    /// Takes the block device away once what is under way has ended, and aborts what waits for
    /// requests.
    pub(super) fn stop(&mut self, number: u32) -> io::Result<()> {
        self.ask(code::STOP, number, &mut [])
    }

    /// Removes a device. If somebody still uses it, that ends when they let go.
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

/// The block device of a device.
pub(super) fn block_device(number: u32) -> PathBuf {
    format!("/dev/ublkb{number}").into()
}

/// Whether a filesystem or another device has claimed a block device.
pub(super) fn is_claimed(number: u32) -> bool {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let opened = rustix::fs::open(block_device(number), flags, Mode::empty());
    matches!(opened, Err(Errno::BUSY))
}

/// Removes the devices of servers that were killed, and says so, a line each.
pub(super) fn clean_up() -> Result<Vec<String>, UblkError> {
    let entries = fs::read_dir(LIST).into_iter().flatten().flatten();
    let number = |name: &str| name.strip_prefix("ublkc")?.parse().ok();
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| number(entry.file_name().to_str()?)).collect();
    numbers.sort_unstable();
    let mut notes = Vec::new();
    for number in numbers {
        let mut control = UblkDriver::open()?;
        let mut bytes = [0; INFO_BYTES];
        // One that another server removes right now.
        let Ok(()) = control.ask(code::GET_INFO, number, &mut bytes) else { continue };
        let info = Info::read(&bytes);
        if info.mark != OWNER_MARK || is_alive(info.process) {
            continue;
        }
        control.remove(number).map_err(|error| refused("remove", error))?;
        let device = block_device(number);
        notes.push(format!(
            "removed {}, which a server that was killed left behind",
            device.display()
        ));
    }
    Ok(notes)
}

/// Whether a process is there and can still do something.
fn is_alive(process: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    // Behind the name, which may hold anything: Z and X are what is left of the dead.
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0]);
    !matches!(state, None | Some(b'Z' | b'X'))
}

fn refused(doing: &'static str, error: io::Error) -> UblkError {
    let hint = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => " (only root may)",
        Some(libc::EOPNOTSUPP) => " (Linux 6.4 or later is needed)",
        _ => "",
    };
    UblkError::System { doing, error, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_are_told_from_the_living() {
        assert!(is_alive(std::process::id() as i32));
        assert!(!is_alive(-1) && !is_alive(0));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = child.id() as i32;
        // Nobody has asked how it ended, so something of it stays.
        while is_alive(process) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(Path::new(&format!("/proc/{process}")).exists());
        child.wait().unwrap();
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let told = refused("add", io::Error::from_raw_os_error(libc::EPERM)).to_string();
        assert!(told.contains("add a ublk device") && told.ends_with("(only root may)"), "{told}");
        assert!(UblkError::NoDriver.to_string().contains("modprobe ublk_drv"));
    }
}
