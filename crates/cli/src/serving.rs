//! What `emulate` and `serve` share: where they listen, and how they run and end.
//!
//! Ctrl-C or SIGTERM ends a service in good order: no more requests are taken, those under way are
//! finished and answered. A second one ends it at once.

use crate::ending::{Ending, Failure, INTERRUPTED};
use anyhow::{Context, anyhow};
use clap::ValueEnum;
use mirrorball_core::policies::Spec;
use mirrorball_core::policy::ReadPolicy;
use mirrorball_disk::array_file::ArraySpec;
use mirrorball_io::address::{Address, AddressError, Bound};
use mirrorball_io::assemble::Assembly;
use mirrorball_io::control::{Control, Door, Speaks};
use mirrorball_io::driver::{BackendKind, Handle};
use mirrorball_io::executor::Executor;
use mirrorball_io::nbd::server::{ConnectionsMax, Server};
use mirrorball_io::service::{Service, raise_limits};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where a service listens.
#[derive(Debug, clap::Args)]
pub(crate) struct Doors {
    /// Where clients find it: nbd:unix:PATH, nbd:tcp:PORT (this machine only) or
    /// nbd:tcp:ADDRESS:PORT; may be given several times
    #[arg(short, long = "export", value_name = "ADDRESS", required = true,
          value_parser = Address::parse)]
    exports: Vec<Address>,

    /// A socket for `mirrorball ctl`
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,

    /// Where Prometheus finds metrics: PORT (this machine only) or ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS", value_parser = metrics_address)]
    metrics: Option<SocketAddr>,

    /// What does the I/O [default: io_uring, or threads where that is not to be had]
    #[arg(long, value_enum)]
    pub(crate) backend: Option<Backend>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Backend {
    /// io_uring
    Uring,
    /// preadv and pwritev on a few threads, poll for sockets
    Threads,
}

impl Backend {
    pub(crate) fn kind(self) -> BackendKind {
        match self {
            Backend::Uring => BackendKind::Ring,
            Backend::Threads => BackendKind::Threads,
        }
    }
}

/// Builds the policy called `name` for an array.
pub(crate) fn policy(name: &str, array: &ArraySpec) -> Result<Box<dyn ReadPolicy>, Failure> {
    let devids: Vec<u64> = array.members.iter().map(|member| member.devid).collect();
    let built = Spec::parse(name).and_then(|spec| spec.build(&devids));
    built.map_err(|error| Failure::WrongUse(anyhow!("{error}")))
}

/// Serves until a signal ends it. `policy` is what the volume starts with, if there is one.
pub(crate) fn run(
    array: &ArraySpec,
    assembly: Assembly,
    doors: &Doors,
    policy: Option<&str>,
) -> Result<Ending, Failure> {
    let Assembly { mut executor, exports, notes } = assembly;
    let descriptors = raise_limits();
    let mut listeners = Vec::new();
    for address in &doors.exports {
        listeners.push(listen(address, &mut executor)?);
    }
    let control_address = doors.control.clone().map(Address::Unix);
    let mut control_doors = Vec::new();
    if let Some(address) = &control_address {
        let listener = listen(address, &mut executor)?;
        control_doors.push(Door { listener, speaks: Speaks::Lines });
    }
    if let Some(address) = doors.metrics {
        let listener = listen_for_metrics(address, &mut executor).map_err(Failure::Fault)?;
        control_doors.push(Door { listener, speaks: Speaks::Http });
    }
    let policy = policy.map(str::to_owned);
    let control = Control::new(array.name.clone(), policy, control_doors, &mut executor);
    for note in notes {
        eprintln!("note: {note}");
    }
    for address in &doors.exports {
        for export in &exports {
            eprintln!("{}: {} bytes at {}", export.name, export.size_bytes, address.uri(export));
        }
    }
    // Members, listeners and the control socket want descriptors, too.
    let connections_max = ConnectionsMax((descriptors / 2).clamp(16, 4096));
    let server = Server::new(exports, listeners, connections_max, &mut executor);
    let (mut service, stopper) = Service::new(executor, server, Some(control))
        .map_err(|error| Failure::Fault(error.into()))?;
    let stopping = AtomicBool::new(false);
    ctrlc::set_handler(move || {
        if stopping.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(INTERRUPTED));
        }
        eprintln!("finishing what is under way (again to stop at once)");
        stopper.stop();
    })
    .map_err(|error| Failure::Fault(error.into()))?;
    eprintln!("ready");
    let result = service.run().context("the service failed");
    for address in doors.exports.iter().chain(&control_address) {
        address.clean_up();
    }
    result.map_err(Failure::Fault)?;
    Ok(Ending::Done)
}

fn listen(address: &Address, executor: &mut Executor) -> Result<Handle, Failure> {
    let Bound { socket, note } = address.bind().map_err(|error| match error {
        error @ AddressError::System { .. } => Failure::Fault(error.into()),
        error => Failure::WrongUse(error.into()),
    })?;
    if let Some(note) = note {
        eprintln!("note: {note}");
    }
    executor.driver.adopt(socket).map_err(|error| Failure::Fault(error.into()))
}

/// Listens for whoever fetches metrics, and says where.
fn listen_for_metrics(address: SocketAddr, executor: &mut Executor) -> anyhow::Result<Handle> {
    let socket = TcpListener::bind(address)
        .with_context(|| format!("cannot listen on {address} for metrics (take another port)"))?;
    eprintln!("metrics: http://{}/metrics", socket.local_addr()?);
    Ok(executor.driver.adopt(socket.into())?)
}

/// Reads where metrics are to be found.
fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_| text.parse()).map_err(|_| {
        format!(
            "`{text}` is no address for metrics: write PORT (this machine only) or ADDRESS:PORT"
        )
    })
}
