//! What `emulate` and `serve` share: where they listen, and how they run and end.
//!
//! Ctrl-C or SIGTERM ends a service in good order: no more requests are taken, those under way are
//! finished and answered. A second one ends it at once.

use crate::ctl::refusal;
use crate::ending::{Failure, INTERRUPTED};
use crate::screen;
use anyhow::{Context, anyhow};
use clap::ValueEnum;
use mirrorball_core::policies::Spec;
use mirrorball_core::policy::ReadPolicy;
use mirrorball_disk::array_file::ArraySpec;
use mirrorball_io::address::{AddressError, BoundSocket, ExportAddress, ListenAddress, Transport};
use mirrorball_io::assemble::Assembly;
use mirrorball_io::control::{Control, Endpoint, Protocol};
use mirrorball_io::driver::{BackendKind, Handle};
use mirrorball_io::executor::Executor;
use mirrorball_io::export::Export;
use mirrorball_io::export::fuse::Fuse;
use mirrorball_io::export::fuse::mount::{MountError, attach};
use mirrorball_io::export::nbd::server::{ConnectionsMax, Server};
use mirrorball_io::export::nbd::tls::acceptor::{AcceptedConnections, Acceptor};
use mirrorball_io::export::ublk::{DeviceStarter, Ublk, UblkError};
use mirrorball_io::lateness::{self, Lateness};
use mirrorball_io::service::{Service, Stopper, raise_limits};
use mirrorball_io::tls::ServerTls;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long clients behind TLS may take for the last answers.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a service listens.
#[derive(Debug, clap::Args)]
pub(crate) struct ListenArgs {
    /// Where clients find it: nbd:unix:PATH, nbd:tcp:PORT (this machine only),
    /// nbd:tcp:ADDRESS:PORT, fuse:DIR for a file in a folder, or ublk for a block device; may be
    /// given several times
    #[arg(short, long = "export", value_name = "ADDRESS", required = true,
          value_parser = ExportAddress::parse)]
    exports: Vec<ExportAddress>,

    /// Speak TLS at nbd:tcp:, with ca-cert.pem, server-cert.pem and server-key.pem of this folder;
    /// clients show a certificate of that authority
    #[arg(long, value_name = "DIR")]
    tls_certificates: Option<PathBuf>,

    /// Let other machines in without TLS: whoever reaches the port can read and write
    #[arg(long, conflicts_with = "tls_certificates")]
    without_tls: bool,

    /// With fuse:DIR, make each file a block device, and say which
    #[arg(long = "loop")]
    loops: bool,

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

/// Serves until a signal ends it. `policy` is what the volume starts with, if there is one. Returns
/// how many emulated members were too late for their figures to be believed, which was told.
pub(crate) fn run(
    array: &ArraySpec,
    assembly: Assembly,
    listen: &ListenArgs,
    policy: Option<&str>,
) -> Result<usize, Failure> {
    let Assembly { mut executor, exports, opener, notes } = assembly;
    let descriptors = raise_limits();
    let (addresses, folder, devices) = listen.addresses_by_kind()?;
    if devices {
        Ublk::check(&executor).map_err(device_refusal)?;
    }
    let (listeners, acceptor) = listen.open(&addresses, &mut executor)?;
    let control_address = listen.control.clone().map(ListenAddress::Unix);
    let control = listen.control(array, policy, &mut executor)?;
    print_notes(notes);
    let fuse = folder.map(|folder| mount(folder, &exports, &mut executor)).transpose()?;
    for address in &addresses {
        for export in &exports {
            let place = address.uri(export, listen.transport());
            screen::say(format_args!("{}: {} bytes at {place}", export.name, export.size_bytes));
        }
    }
    let ublk = devices.then(|| add_devices(&exports, &mut executor)).transpose()?;
    let files = fuse.as_ref().map(Fuse::files).unwrap_or_default();
    let starters = ublk.as_ref().map(Ublk::starters).unwrap_or_default();
    // Members, listeners and the control socket want descriptors, too.
    let connections_max = (descriptors / 2 / listen.descriptors_per_client()).clamp(16, 4096);
    let most = ConnectionsMax(connections_max);
    let mut server = Server::new(exports, listeners, most, &mut executor);
    let acceptor = match acceptor {
        Some((acceptor, accepted)) => {
            server = server.with_accepted(accepted, &mut executor).map_err(system_failure)?;
            Some(acceptor)
        }
        None => None,
    };
    let (service, stopper) =
        Service::new(executor, server, Some(control)).map_err(system_failure)?;
    let mut service =
        service.with_opener(opener).map_err(system_failure)?.with_fuse(fuse).with_ublk(ublk);
    let stopper = Arc::new(stopper);
    stop_at_signals(Arc::clone(&stopper)).map_err(system_failure)?;
    // Block devices ask for something before they are there, so we must be serving by then.
    let (opened, result) = std::thread::scope(|scope| {
        let opening = scope.spawn(|| {
            let opened = open(&files, listen.loops).and_then(|()| open_devices(&starters));
            match &opened {
                Ok(()) => screen::say("ready"),
                Err(_) => stopper.stop(),
            }
            opened
        });
        let result = service.run().context("the service failed");
        (opening.join().expect("opening does not panic"), result)
    });
    print_notes(service.last_notes());
    let refused = lateness::refused(service.executor());
    for (devid, Lateness { p99, bound }) in &refused {
        screen::say(format_args!("devid {devid}: {}", refusal(*p99, *bound)));
    }
    drop(service);
    if let Some(acceptor) = acceptor {
        acceptor.close(CLOSE_TIMEOUT);
    }
    for address in addresses.iter().chain(control_address.iter()) {
        address.remove_socket();
    }
    result.map_err(Failure::Fault)?;
    opened?;
    Ok(refused.len())
}

/// Listeners of the driver, and whoever stands at those behind TLS.
type Opened = (Vec<Handle>, Option<(Acceptor, AcceptedConnections)>);

impl ListenArgs {
    /// Listens at these addresses.
    fn open(
        &self,
        addresses: &[ListenAddress],
        executor: &mut Executor,
    ) -> Result<Opened, Failure> {
        let tls = self.tls(addresses)?;
        let (mut plain, mut covered) = (Vec::new(), Vec::new());
        for address in addresses {
            let socket = bind(address)?;
            match (address, &tls) {
                (ListenAddress::Tcp(_), Some(_)) => covered.push(socket.into()),
                _ => plain.push(executor.driver.adopt(socket).map_err(system_failure)?),
            }
        }
        let acceptor =
            tls.map(|tls| Acceptor::new(tls, covered)).transpose().map_err(system_failure)?;
        Ok((plain, acceptor))
    }

    /// What is needed for TLS, if it is wanted. Without it other machines are let in only if the
    /// user knows.
    fn tls(&self, addresses: &[ListenAddress]) -> Result<Option<ServerTls>, Failure> {
        let wrong = |text| Err(Failure::WrongUse(anyhow!("{text}")));
        if let Some(folder) = &self.tls_certificates {
            if !addresses.iter().any(|address| matches!(address, ListenAddress::Tcp(_))) {
                return wrong(
                    "--tls-certificates is for TCP: give --export nbd:tcp:...".to_owned(),
                );
            }
            let tls = ServerTls::load(folder).map_err(|error| Failure::WrongUse(error.into()))?;
            return Ok(Some(tls));
        }
        let Some(open) = addresses.iter().find(|address| address.accepts_remote()) else {
            return Ok(None);
        };
        if !self.without_tls {
            return wrong(format!(
                "{open} lets other machines in, and without TLS whoever reaches it can read and \
                 write: give --tls-certificates DIR, or --without-tls if that is how it should be"
            ));
        }
        print_notes([format!("whoever can reach {open} can read and write: it is without TLS")]);
        Ok(None)
    }

    fn transport(&self) -> Transport {
        if self.tls_certificates.is_some() { Transport::Tls } else { Transport::Plain }
    }

    /// How many descriptors a client takes: one behind TLS has two beside that of the server.
    fn descriptors_per_client(&self) -> usize {
        if self.tls_certificates.is_some() { 3 } else { 1 }
    }

    /// Answers at the control socket, and fetchers of metrics.
    fn control(
        &self,
        array: &ArraySpec,
        policy: Option<&str>,
        executor: &mut Executor,
    ) -> Result<Control, Failure> {
        let mut endpoints = Vec::new();
        if let Some(path) = &self.control {
            let listener = listen(&ListenAddress::Unix(path.clone()), executor)?;
            endpoints.push(Endpoint { listener, protocol: Protocol::JsonLines });
        }
        if let Some(address) = self.metrics {
            let listener = listen_for_metrics(address, executor).map_err(Failure::Fault)?;
            endpoints.push(Endpoint { listener, protocol: Protocol::Http });
        }
        Ok(Control::new(array.name.clone(), policy.map(str::to_owned), endpoints, executor))
    }

    /// The addresses of NBD servers, the folder for files, and whether there are to be ublk
    /// devices.
    fn addresses_by_kind(&self) -> Result<(Vec<ListenAddress>, Option<&Path>, bool), Failure> {
        let mut addresses = Vec::new();
        let mut folders = Vec::new();
        let mut devices = 0;
        for gate in &self.exports {
            match gate {
                ExportAddress::Nbd(address) => addresses.push(address.clone()),
                ExportAddress::Fuse(folder) => folders.push(folder.as_path()),
                ExportAddress::Ublk => devices += 1,
            }
        }
        let wrong = |text| Err(Failure::WrongUse(anyhow!("{text}")));
        match folders.len() {
            0 if self.loops => wrong("--loop makes files block devices: give --export fuse:DIR"),
            _ if devices > 1 => wrong("--export ublk may be given once"),
            0 | 1 => Ok((addresses, folders.pop(), devices == 1)),
            _ => wrong("--export fuse:DIR may be given once"),
        }
    }
}

fn print_notes(notes: impl IntoIterator<Item = String>) {
    for note in notes {
        screen::say(format_args!("note: {note}"));
    }
}

fn system_failure(error: io::Error) -> Failure {
    Failure::Fault(error.into())
}

fn mount(folder: &Path, exports: &[Export], executor: &mut Executor) -> Result<Fuse, Failure> {
    let mounted = Fuse::mount(folder, exports.to_vec(), executor);
    let (fuse, notes) = mounted.map_err(|error| match error {
        error @ (MountError::System { .. } | MountError::Io(_)) => Failure::Fault(error.into()),
        error => Failure::WrongUse(error.into()),
    })?;
    print_notes(notes);
    Ok(fuse)
}

fn add_devices(exports: &[Export], executor: &mut Executor) -> Result<Ublk, Failure> {
    let (ublk, notes) = Ublk::add(exports.to_vec(), executor).map_err(device_refusal)?;
    print_notes(notes);
    Ok(ublk)
}

/// Why there are no ublk devices: the options, or this machine.
fn device_refusal(error: UblkError) -> Failure {
    match error {
        error @ UblkError::NoRing(_) => Failure::WrongUse(error.into()),
        error => Failure::Fault(error.into()),
    }
}

/// Makes block devices, and says where.
fn open_devices(starters: &[DeviceStarter]) -> Result<(), Failure> {
    for opener in starters {
        let device = opener.open().map_err(device_refusal)?;
        let Export { name, size_bytes, .. } = &opener.export;
        screen::say(format_args!("{name}: {size_bytes} bytes at {}", device.display()));
    }
    Ok(())
}

/// Says where each file is, or the block device over it.
fn open(files: &[(Export, PathBuf)], loops: bool) -> Result<(), Failure> {
    for (export, file) in files {
        let place = match loops {
            true => &attach(file, export.block_bytes).map_err(|e| Failure::Fault(e.into()))?,
            false => file,
        };
        screen::say(format_args!(
            "{}: {} bytes at {}",
            export.name,
            export.size_bytes,
            place.display()
        ));
    }
    Ok(())
}

fn stop_at_signals(stopper: Arc<Stopper>) -> io::Result<()> {
    let stopping = AtomicBool::new(false);
    let set = ctrlc::set_handler(move || {
        if stopping.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(INTERRUPTED));
        }
        stopper.stop();
        screen::say("finishing what is under way (again to stop at once)");
    });
    set.map_err(io::Error::other)
}

fn listen(address: &ListenAddress, executor: &mut Executor) -> Result<Handle, Failure> {
    executor.driver.adopt(bind(address)?).map_err(system_failure)
}

fn bind(address: &ListenAddress) -> Result<OwnedFd, Failure> {
    let BoundSocket { socket, note } = address.bind().map_err(|error| match error {
        error @ AddressError::System { .. } => Failure::Fault(error.into()),
        error => Failure::WrongUse(error.into()),
    })?;
    print_notes(note);
    Ok(socket)
}

/// Listens for whoever fetches metrics, and says where.
fn listen_for_metrics(address: SocketAddr, executor: &mut Executor) -> anyhow::Result<Handle> {
    let socket = TcpListener::bind(address)
        .with_context(|| format!("cannot listen on {address} for metrics (take another port)"))?;
    screen::say(format_args!("metrics: http://{}/metrics", socket.local_addr()?));
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
