//! The common part of `emulate` and `serve`: the run of the service.
//!
//! Ctrl-C or SIGTERM stops the service: it accepts no more requests and answers those in flight. A
//! second signal ends the process at once.

mod listening;
mod news;

use crate::ctl::refusal;
use crate::ending::{Failure, INTERRUPTED};
use crate::{programs, screen};
use anyhow::{Context, anyhow};
use clap::ValueEnum;
pub(crate) use listening::ListenArgs;
use listening::{Listeners, SocketFiles};
use mirrorball_core::policies::{Spec, rounding_notes};
use mirrorball_core::policy::ReadPolicy;
use mirrorball_disk::array_file::ArraySpec;
use mirrorball_io::assemble::Assembly;
use mirrorball_io::driver::BackendKind;
use mirrorball_io::executor::Executor;
use mirrorball_io::export::Export;
use mirrorball_io::export::fuse::Fuse;
use mirrorball_io::export::fuse::mount::{MountError, attach};
use mirrorball_io::export::nbd::server::{ConnectionsMax, Server};
use mirrorball_io::lateness::{self, Lateness};
use mirrorball_io::service::{Service, Stopper, raise_limits};
use mirrorball_io::systemd;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long to wait for TLS clients to receive their last replies.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

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

/// The policy of a new volume for which the user names none.
pub(crate) const DEFAULT_POLICY: &str = "mirrorball/auto";

/// Reads the policy of a new volume, and builds it for the members of the array.
pub(crate) fn load_policy(
    policy: &str,
    array: &ArraySpec,
) -> Result<(Spec, Box<dyn ReadPolicy>), Failure> {
    let (name, registry) = programs::load(policy)?;
    print_notes(rounding_notes(&name));
    let devids: Vec<u64> = array.members.iter().map(|member| member.devid).collect();
    let built = registry.parse(&name).and_then(|spec| Ok((spec.build(&devids)?, spec)));
    let (policy, spec) = built.map_err(|error| Failure::WrongUse(anyhow!("--policy: {error}")))?;
    Ok((spec, policy))
}

/// Serves until a signal arrives. Returns the number of emulated members whose measured times are
/// invalid, because their requests completed too late.
pub(crate) fn run(assembly: Assembly, listen: &ListenArgs) -> Result<usize, Failure> {
    let Assembly { mut executor, exports, opener, spares, notes, name, policy } = assembly;
    let descriptors = raise_limits();
    let (addresses, folder) = listen.addresses_by_kind()?;
    let mut socket_files = SocketFiles::default();
    let Listeners { plain, acceptor, addresses } =
        listen.open(&addresses, &mut socket_files, &mut executor)?;
    let control = listen.control(name, policy, &mut socket_files, &mut executor)?;
    listen.print_notes(notes);
    let fuse = folder.map(|folder| mount(folder, &exports, &mut executor)).transpose()?;
    for address in &addresses {
        for export in &exports {
            let place = address.uri(export, listen.transport());
            screen::say(format_args!("{}: {} bytes at {place}", export.name, export.size_bytes));
        }
    }
    let files = fuse.as_ref().map(Fuse::files).unwrap_or_default();
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
    let mut service = service.with_opener(opener, spares).map_err(system_failure)?.with_fuse(fuse);
    let stopper = Arc::new(stopper);
    stop_at_signals(Arc::clone(&stopper)).map_err(system_failure)?;
    let open = || print_files(&files, listen.loops);
    let (opened, result) = run_and_open(&mut service, &stopper, open);
    listen.print_notes(service.last_notes());
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

/// Runs a service until it ends, and opens its exports meanwhile: the kernel reads from a loop
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
                Ok(()) => report_ready(),
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

/// Reports that clients can connect, on the terminal and to systemd.
fn report_ready() {
    screen::say("ready");
    if let Err(error) = systemd::notify_ready() {
        print_notes([format!("cannot report to NOTIFY_SOCKET that the service is ready: {error}")]);
    }
}

pub(crate) fn print_notes(notes: impl IntoIterator<Item = String>) {
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

/// Prints the path of each file, or of the loop device over it.
fn print_files(files: &[(Export, PathBuf)], loops: bool) -> Result<(), Failure> {
    for (export, file) in files {
        let place = match loops {
            true => &attach(file, export.block_bytes, export.rotational)
                .map_err(|e| Failure::Fault(e.into()))?,
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
