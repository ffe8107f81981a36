//! The platform: what a program has outside of its driver, which is either that of the system or
//! that of a simulated world. It opens files, connects to servers, sleeps and draws random bytes.

use super::sim::SimulatedWorld;
use super::{BackendKind, Driver};
use mirrorball_core::units::Nanos;
use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;

/// See the page of this module.
#[derive(Clone, Debug)]
pub enum Platform {
    /// The system, with a driver of this kind; with `None`, io_uring if available, else threads.
    System(Option<BackendKind>),
    Simulated(SimulatedWorld),
}

impl Platform {
    /// A driver, and why it does not use io_uring if that is not available. Fails if the backend is
    /// not available, or threads cannot be started.
    pub(crate) fn driver(&self) -> io::Result<(Driver, Option<io::Error>)> {
        match self {
            Platform::System(backend) => Driver::new(*backend),
            Platform::Simulated(world) => Ok((Driver::simulated(world), None)),
        }
    }

    /// Random bytes, for identifiers. Fails if the system has no source of them.
    pub(crate) fn random_bytes<const N: usize>(&self) -> io::Result<[u8; N]> {
        match self {
            Platform::System(_) => {
                let mut bytes = [0; N];
                File::open("/dev/urandom")?.read_exact(&mut bytes)?;
                Ok(bytes)
            }
            Platform::Simulated(world) => Ok(world.random_bytes()),
        }
    }

    /// Waits, blocking.
    pub(crate) fn sleep(&self, time: Duration) {
        match self {
            Platform::System(_) => std::thread::sleep(time),
            Platform::Simulated(world) => world.sleep(Nanos(time.as_nanos() as u64)),
        }
    }
}
