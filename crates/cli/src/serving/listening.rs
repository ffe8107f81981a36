//! Where a service listens: its export addresses, the control socket, the address of metrics.

use super::news::news_printer;
use super::{Backend, print_notes, system_failure};
use crate::ctl::with_control;
use crate::ending::Failure;
use crate::{numbers, programs, screen};
use anyhow::anyhow;
use mirrorball_io::address::{
    AddressError, BoundSocket, ExportAddress, ListenAddress, SocketFile, Transport,
    parse_socket_address,
};
use mirrorball_io::control::{Control, Endpoint, Protocol};
use mirrorball_io::driver::Handle;
use mirrorball_io::executor::Executor;
use mirrorball_io::export::nbd::acceptor::{AcceptedConnections, Acceptor};
use mirrorball_io::export::nbd::server::MemoryMax;
use mirrorball_io::systemd;
use mirrorball_nbd::tls::ServerTls;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Where a service listens, and how it does I/O.
#[derive(Debug, clap::Args)]
pub(crate) struct ListenArgs {
    /// Export address: nbd:unix:PATH, nbd:tcp:PORT (this machine only), nbd:tcp:ADDRESS:PORT, or
    /// fuse:DIR (a file in the folder DIR, which is created if it is missing). May be given several
    /// times. A service that systemd starts with sockets listens on those, and takes no nbd:
    /// address
    #[arg(short, long = "export", value_name = "ADDRESS",
          required = systemd::passed_count().is_none(), value_parser = ExportAddress::parse)]
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
    pub(super) loops: bool,

    /// Unix socket for `mirrorball ctl`
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,

    /// Address to serve Prometheus metrics at: PORT (this machine only) or ADDRESS:PORT. Anyone who
    /// can reach it can read them
    #[arg(long, value_name = "ADDRESS", value_parser = metrics_address)]
    metrics: Option<SocketAddr>,

    /// Memory for the requests and replies of all NBD clients together, for example 512M; at least
    /// 64M
    #[arg(long, value_name = "BYTES", default_value = "256M", value_parser = memory_max)]
    pub(super) memory: MemoryMax,

    /// I/O backend [default: uring if available, else threads]
    #[arg(long, value_enum)]
    pub(crate) backend: Option<Backend>,
}

/// Unix sockets that this process created. Dropped, also where the service fails to start, their
/// files are removed.
#[derive(Default)]
pub(super) struct SocketFiles {
    addresses: Vec<ListenAddress>,
    files: Vec<SocketFile>,
}

impl Drop for SocketFiles {
    fn drop(&mut self) {
        self.files.iter().for_each(SocketFile::remove);
    }
}

pub(super) struct Listeners {
    pub(super) plain: Vec<Handle>,
    /// The acceptor of those with TLS.
    pub(super) acceptor: Option<(Acceptor, AcceptedConnections)>,
    /// Where they listen, with the ports that the system chose in place of 0.
    pub(super) addresses: Vec<ListenAddress>,
}

impl ListenArgs {
    /// Listens at these addresses, or on the sockets that systemd passed.
    pub(super) fn open(
        &self,
        addresses: &[ListenAddress],
        files: &mut SocketFiles,
        executor: &mut Executor,
    ) -> Result<Listeners, Failure> {
        let passed = passed_sockets(addresses)?;
        let all = passed.iter().map(|socket| &socket.address).chain(addresses);
        let tls = self.tls(&all.cloned().collect::<Vec<ListenAddress>>())?;
        let shared = passed.into_iter().map(|passed| Ok((passed.socket, passed.address, true)));
        let own = addresses.iter().map(|address| {
            bind(address, files, ListenAddress::bind).map(|(socket, bound)| (socket, bound, false))
        });
        let (mut plain, mut with_tls, mut bound) = (Vec::new(), Vec::new(), Vec::new());
        for listener in shared.chain(own) {
            let (socket, address, is_shared) = listener?;
            match (&address, &tls) {
                (ListenAddress::Tcp(_), Some(_)) => with_tls.push(socket.into()),
                _ if is_shared => plain.push(executor.driver.adopt_shared(socket)),
                _ => plain.push(executor.driver.adopt(socket)),
            }
            bound.push(address);
        }
        let plain = plain.into_iter().collect::<io::Result<_>>().map_err(system_failure)?;
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

    /// Prints notes, whose commands name the control socket.
    pub(super) fn print_notes(&self, notes: Vec<String>) {
        let control = self.control.as_ref();
        print_notes(notes.into_iter().map(|note| match control {
            Some(path) => with_control(&note, path),
            None => note,
        }));
    }

    pub(super) fn transport(&self) -> Transport {
        if self.tls_certificates.is_some() { Transport::Tls } else { Transport::Plain }
    }

    /// Number of descriptors that a client needs: with TLS, two more than without.
    pub(super) fn descriptors_per_client(&self) -> usize {
        if self.tls_certificates.is_some() { 3 } else { 1 }
    }

    /// Listens at the control socket and the address of metrics.
    pub(super) fn control(
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
        let control = Control::new(name, policy, endpoints, executor);
        let control = control.with_observer(news_printer(self.control.clone()));
        match programs::registry() {
            Ok(registry) => control.with_programs(registry, executor).map_err(system_failure),
            // A machine that cannot run programs serves volumes all the same.
            Err(_) => Ok(control),
        }
    }

    /// The addresses of NBD servers, and the folder for FUSE files.
    pub(super) fn addresses_by_kind(&self) -> Result<(Vec<ListenAddress>, Option<&Path>), Failure> {
        let mut addresses = Vec::new();
        let mut folders = Vec::new();
        for gate in &self.exports {
            match gate {
                ExportAddress::Nbd(address) => addresses.push(address.clone()),
                ExportAddress::Fuse(folder) => folders.push(folder.as_path()),
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
            0 | 1 => Ok((addresses, folders.pop())),
            _ => wrong("--export fuse:DIR may be given once"),
        }
    }
}

fn memory_max(text: &str) -> Result<MemoryMax, String> {
    let bytes = numbers::size(text)?;
    match MemoryMax(usize::try_from(bytes).unwrap_or(usize::MAX)) {
        MemoryMax(bytes) if bytes < MemoryMax::LEAST.0 => {
            Err("must be at least 64M, room for the largest request".to_owned())
        }
        memory_max => Ok(memory_max),
    }
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

/// The sockets that systemd passed. With them, no address may be given.
fn passed_sockets(addresses: &[ListenAddress]) -> Result<Vec<BoundSocket>, Failure> {
    let passed = systemd::passed_sockets().map_err(|error| Failure::WrongUse(error.into()))?;
    match (addresses.first(), passed.is_empty()) {
        (Some(address), false) => Err(Failure::WrongUse(anyhow!(
            "--export {address} cannot be used where systemd passes sockets to the service\n  \
             help: leave it out, or remove the socket unit"
        ))),
        _ => Ok(passed),
    }
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

fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    parse_socket_address(text)
        .map_err(|error| format!("{error}\n  help: write PORT (this machine only) or ADDRESS:PORT"))
}
