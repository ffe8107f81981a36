//! The common part of `emulate` and `serve`: export addresses, and the run of the service.
//!
//! Ctrl-C or SIGTERM stops the service: it accepts no more requests and answers those in flight. A
//! second signal ends the process at once.

use crate::ctl::refusal;
use crate::ending::{Failure, INTERRUPTED};
use crate::{numbers, screen};
use anyhow::{Context, anyhow};
use clap::ValueEnum;
use mirrorball_core::policies::Spec;
use mirrorball_core::policy::ReadPolicy;
use mirrorball_disk::array_file::ArraySpec;
use mirrorball_io::address::{
    AddressError, BoundSocket, ExportAddress, ListenAddress, SocketFile, Transport,
    parse_socket_address,
};
use mirrorball_io::assemble::Assembly;
use mirrorball_io::control::{Control, Endpoint, Protocol};
use mirrorball_io::driver::{BackendKind, Handle};
use mirrorball_io::executor::Executor;
use mirrorball_io::export::Export;
use mirrorball_io::export::fuse::Fuse;
use mirrorball_io::export::fuse::mount::{MountError, attach};
use mirrorball_io::export::nbd::server::{ConnectionsMax, MemoryMax, Server};
use mirrorball_io::export::nbd::tls::acceptor::{AcceptedConnections, Acceptor};
use mirrorball_io::export::ublk::{DeviceStarter, Ublk, UblkError};
use mirrorball_io::lateness::{self, Lateness};
use mirrorball_io::service::{Service, Stopper, raise_limits};
use mirrorball_io::tls::ServerTls;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long to wait for TLS clients to receive their last replies.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a service listens, and how it does I/O.
#[derive(Debug, clap::Args)]
pub(crate) struct ListenArgs {
    /// Export address: nbd:unix:PATH, nbd:tcp:PORT (this machine only), nbd:tcp:ADDRESS:PORT,
    /// fuse:DIR (a file in the folder DIR, which is created if it is missing) or ublk (a block
    /// device). May be given several times
    #[arg(short, long = "export", value_name = "ADDRESS", required = true,
          value_parser = ExportAddress::parse)]
    exports: Vec<ExportAddress>,

    /// Require TLS at nbd:tcp: addresses, and client certificates. The folder holds ca-cert.pem,
    /// server-cert.pem and server-key.pem
    #[arg(long, value_name = "DIR")]
    tls_certificates: Option<PathBuf>,

    /// Accept plain-text connections from other machines. Anyone who can reach the port can read
    /// and write the volume
    #[arg(long, conflicts_with = "tls_certificates")]
    without_tls: bool,

    /// Attach each file of fuse:DIR to a loop device, and print its path
    #[arg(long = "loop")]
    loops: bool,

    /// Unix socket for `mirrorball ctl` and `mirrorball top`
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,

    /// Address to serve Prometheus metrics at: PORT (this machine only) or ADDRESS:PORT. Anyone who
    /// can reach it can read them
    #[arg(long, value_name = "ADDRESS", value_parser = metrics_address)]
    metrics: Option<SocketAddr>,

    /// Memory for the requests and replies of all NBD clients together, for example 512M; at least
    /// 64M
    #[arg(long, value_name = "BYTES", default_value = "256M", value_parser = memory_max)]
    memory: MemoryMax,

    /// I/O backend [default: uring if available, else threads]
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

/// Builds the policy called `name` for an array; returns its canonical string, too.
pub(crate) fn policy(
    name: &str,
    array: &ArraySpec,
) -> Result<(String, Box<dyn ReadPolicy>), Failure> {
    let devids: Vec<u64> = array.members.iter().map(|member| member.devid).collect();
    let build = |spec: Spec| spec.build(&devids).map(|policy| (spec.to_string(), policy));
    let built = Spec::parse(name).and_then(build);
    built.map_err(|error| Failure::WrongUse(anyhow!("--policy: {error}")))
}

/// Serves until a signal arrives. Returns the number of emulated members whose measured times are
/// invalid, because their requests completed too late.
pub(crate) fn run(assembly: Assembly, listen: &ListenArgs) -> Result<usize, Failure> {
    let Assembly { mut executor, exports, opener, notes, name, policy } = assembly;
    let descriptors = raise_limits();
    let (addresses, folder, devices) = listen.addresses_by_kind()?;
    if devices {
        Ublk::check(&executor).map_err(device_refusal)?;
    }
    let mut socket_files = SocketFiles::default();
    let Listeners { plain, acceptor, addresses } =
        listen.open(&addresses, &mut socket_files, &mut executor)?;
    let control = listen.control(name, policy, &mut socket_files, &mut executor)?;
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
    // The other half is for members, listeners and the control socket.
    let connections_max = (descriptors / 2 / listen.descriptors_per_client()).clamp(16, 4096);
    let connections_max = ConnectionsMax(connections_max);
    let server = Server::new(exports, plain, connections_max, &mut executor);
    let mut server = server.with_memory(listen.memory);
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
    let open = || {
        print_files(&files, listen.loops)?;
        open_devices(&starters)
    };
    let (opened, result) = run_and_open(&mut service, &stopper, open);
    print_notes(service.last_notes());
    let refused = lateness::refused(service.executor());
    for (devid, Lateness { p99, bound }) in &refused {
        screen::say(format_args!("devid {devid}: {}", refusal(*p99, *bound)));
    }
    drop(service);
    if let Some(acceptor) = acceptor {
        acceptor.close(CLOSE_TIMEOUT);
    }
    drop(socket_files);
    result.map_err(Failure::Fault)?;
    opened?;
    Ok(refused.len())
}

/// Runs a service until it ends, and opens its exports meanwhile: the kernel reads from a block
/// device while it is created. Returns the results of both.
fn run_and_open(
    service: &mut Service,
    stopper: &Stopper,
    open: impl Fn() -> Result<(), Failure> + Sync,
) -> (Result<(), Failure>, anyhow::Result<()>) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("opening".to_owned());
        let opening = thread.spawn_scoped(scope, || {
            let opened = open();
            match &opened {
                Ok(()) => screen::say("ready"),
                Err(_) => stopper.stop(),
            }
            opened
        });
        let opening = match opening {
            Ok(opening) => opening,
            Err(error) => return (Err(no_thread(error)), Ok(())),
        };
        let result = service.run().context("the service failed");
        (opening.join().expect("opening does not panic"), result)
    })
}

/// Unix sockets that this process created. Dropped, also where the service fails to start, their
/// files are removed.
#[derive(Default)]
struct SocketFiles {
    addresses: Vec<ListenAddress>,
    files: Vec<SocketFile>,
}

impl Drop for SocketFiles {
    fn drop(&mut self) {
        self.files.iter().for_each(SocketFile::remove);
    }
}

/// The NBD listeners.
struct Listeners {
    plain: Vec<Handle>,
    /// The acceptor of those with TLS.
    acceptor: Option<(Acceptor, AcceptedConnections)>,
    /// Where they listen, with the ports that the system chose in place of 0.
    addresses: Vec<ListenAddress>,
}

impl ListenArgs {
    /// Listens at these addresses.
    fn open(
        &self,
        addresses: &[ListenAddress],
        files: &mut SocketFiles,
        executor: &mut Executor,
    ) -> Result<Listeners, Failure> {
        let tls = self.tls(addresses)?;
        let (mut plain, mut with_tls, mut bound) = (Vec::new(), Vec::new(), Vec::new());
        for address in addresses {
            let (socket, address) = bind(address, files, ListenAddress::bind)?;
            bound.push(address.clone());
            match (address, &tls) {
                (ListenAddress::Tcp(_), Some(_)) => with_tls.push(socket.into()),
                _ => plain.push(executor.driver.adopt(socket).map_err(system_failure)?),
            }
        }
        let acceptor =
            tls.map(|tls| Acceptor::new(tls, with_tls)).transpose().map_err(system_failure)?;
        Ok(Listeners { plain, acceptor, addresses: bound })
    }

    /// The TLS configuration, if any. Without it, addresses that other machines can reach need the
    /// consent of the user.
    fn tls(&self, addresses: &[ListenAddress]) -> Result<Option<ServerTls>, Failure> {
        let wrong = |text| Err(Failure::WrongUse(anyhow!("{text}")));
        if let Some(folder) = &self.tls_certificates {
            if !addresses.iter().any(|address| matches!(address, ListenAddress::Tcp(_))) {
                return wrong(
                    "--tls-certificates has no effect without a TCP export\n  help: give --export \
                     nbd:tcp:ADDRESS:PORT"
                        .to_owned(),
                );
            }
            let tls = ServerTls::load(folder).map_err(|error| Failure::WrongUse(error.into()))?;
            return Ok(Some(tls));
        }
        let Some(open) = addresses.iter().find(|address| address.accepts_remote()) else {
            if self.without_tls {
                return wrong(
                    "--without-tls has no effect: no export can be reached from other machines\n  \
                     help: leave it out, or give --export nbd:tcp:ADDRESS:PORT"
                        .to_owned(),
                );
            }
            return Ok(None);
        };
        if !self.without_tls {
            return wrong(format!(
                "other machines can reach {open}, and without TLS anyone who does can read and \
                 write the volume\n  help: give --tls-certificates DIR, or --without-tls to allow \
                 it"
            ));
        }
        print_notes([format!("anyone who can reach {open} can read and write: it has no TLS")]);
        Ok(None)
    }

    fn transport(&self) -> Transport {
        if self.tls_certificates.is_some() { Transport::Tls } else { Transport::Plain }
    }

    /// Number of descriptors that a client needs: with TLS, two more than without.
    fn descriptors_per_client(&self) -> usize {
        if self.tls_certificates.is_some() { 3 } else { 1 }
    }

    /// Listens at the control socket and the address of metrics.
    fn control(
        &self,
        name: String,
        policy: Option<String>,
        files: &mut SocketFiles,
        executor: &mut Executor,
    ) -> Result<Control, Failure> {
        let mut endpoints = Vec::new();
        if let Some(path) = &self.control {
            let address = ListenAddress::Unix(path.clone());
            let (socket, _) = bind(&address, files, |_| ListenAddress::bind_control(path))?;
            let listener = executor.driver.adopt(socket).map_err(system_failure)?;
            endpoints.push(Endpoint { listener, protocol: Protocol::JsonLines });
        }
        if let Some(address) = self.metrics {
            let listener = listen_for_metrics(address, executor)?;
            endpoints.push(Endpoint { listener, protocol: Protocol::Http });
        }
        Ok(Control::new(name, policy, endpoints, executor))
    }

    /// The addresses of NBD servers, the folder for FUSE files, and whether to add ublk devices.
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
        if let Some(file) = folders.iter().find(|path| path.exists() && !path.is_dir()) {
            let file = file.display();
            let text = format!(
                "cannot mount on `{file}`: it is not a folder\n  help: give the path of a folder, \
                 which is created if it is missing"
            );
            return Err(Failure::WrongUse(anyhow!(text)));
        }
        let wrong = |text| Err(Failure::WrongUse(anyhow!("{text}")));
        match folders.len() {
            0 if self.loops => {
                wrong("--loop has no effect without files\n  help: give --export fuse:DIR")
            }
            _ if devices > 1 => wrong("--export ublk may be given once\n  help: leave one out"),
            0 | 1 => Ok((addresses, folders.pop(), devices == 1)),
            _ => wrong("--export fuse:DIR may be given once"),
        }
    }
}

/// Parses --memory.
fn memory_max(text: &str) -> Result<MemoryMax, String> {
    let bytes = numbers::size(text)?;
    match MemoryMax(usize::try_from(bytes).unwrap_or(usize::MAX)) {
        MemoryMax(bytes) if bytes < MemoryMax::LEAST.0 => {
            Err("must be at least 64M, room for the largest request".to_owned())
        }
        memory_max => Ok(memory_max),
    }
}

fn print_notes(notes: impl IntoIterator<Item = String>) {
    for note in notes {
        screen::say(format_args!("note: {note}"));
    }
}

fn no_thread(error: io::Error) -> Failure {
    let text = "cannot start a thread to open the exports";
    Failure::Fault(anyhow!("{text}: {error}\n  help: raise the limit of processes (`ulimit -u`)"))
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

/// The failure to report for an error of ublk.
fn device_refusal(error: UblkError) -> Failure {
    match error {
        error @ UblkError::NoRing(_) => Failure::WrongUse(error.into()),
        error => Failure::Fault(error.into()),
    }
}

/// Starts block devices and prints their paths.
fn open_devices(starters: &[DeviceStarter]) -> Result<(), Failure> {
    for starter in starters {
        let device = starter.start().map_err(device_refusal)?;
        let Export { name, size_bytes, .. } = &starter.export;
        screen::say(format_args!("{name}: {size_bytes} bytes at {}", device.display()));
    }
    Ok(())
}

/// Prints the path of each file, or of the loop device over it.
fn print_files(files: &[(Export, PathBuf)], loops: bool) -> Result<(), Failure> {
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
        screen::say("stopping after the requests in flight (signal again to stop at once)");
    });
    set.map_err(io::Error::other)
}

/// Listens with `bind` at an address that no other option names. Returns where it listens, too.
fn bind(
    address: &ListenAddress,
    files: &mut SocketFiles,
    bind: impl Fn(&ListenAddress) -> Result<BoundSocket, AddressError>,
) -> Result<(OwnedFd, ListenAddress), Failure> {
    let place = address.absolute();
    if files.addresses.contains(&place) {
        return Err(Failure::WrongUse(AddressError::Repeated(address.clone()).into()));
    }
    let BoundSocket { socket, address, note, file } =
        bind(address).map_err(|error| match error {
            error if error.is_of_system() => Failure::Fault(error.into()),
            error => Failure::WrongUse(error.into()),
        })?;
    files.addresses.push(address.absolute());
    files.files.extend(file);
    print_notes(note);
    Ok((socket, address))
}

/// Listens for HTTP clients that fetch metrics, and prints the address.
fn listen_for_metrics(address: SocketAddr, executor: &mut Executor) -> Result<Handle, Failure> {
    let socket = TcpListener::bind(address).map_err(|error| {
        Failure::WrongUse(anyhow!(
            "cannot listen on {address} for --metrics: {error}\n  help: give another port, or stop \
             the program that uses it"
        ))
    })?;
    let system = |error: io::Error| Failure::Fault(error.into());
    let place = socket.local_addr().map_err(system)?;
    screen::say(format_args!("metrics: http://{place}/metrics"));
    executor.driver.adopt(socket.into()).map_err(system)
}

/// Parses the address of metrics.
fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    parse_socket_address(text)
        .map_err(|error| format!("{error}\n  help: write PORT (this machine only) or ADDRESS:PORT"))
}
