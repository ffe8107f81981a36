//! Lock of a remote export against other services of this machine.
//!
//! NBD has no locks, so two services could write the same export. A service that uses one binds an
//! abstract unix socket that is named after it; the system frees the name when the service ends,
//! however that happens. Services on other machines, or in other network namespaces, are not
//! noticed. Within a service a lock is shared, because an export is attached to again while its
//! earlier attachment ends.

use mirrorball_nbd::uri::{NbdUri, Place};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
use std::collections::BTreeMap;
use std::net::ToSocketAddrs;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Number of attempts, and the pause between two: the system frees the sockets of a killed program
/// with a delay.
const ATTEMPTS: usize = 25;
const PAUSE: Duration = Duration::from_millis(20);

/// The locks of this process, by name.
static LOCKS: Mutex<BTreeMap<String, Weak<OwnedFd>>> = Mutex::new(BTreeMap::new());

/// A lock; it is free when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct PeerLock {
    _socket: Arc<OwnedFd>,
}

impl PeerLock {
    /// Locks the export at `uri`.
    ///
    /// # Errors
    /// `ADDRINUSE` if another service of this machine uses it.
    pub(crate) fn take(uri: &NbdUri) -> Result<PeerLock, Errno> {
        let name = name(uri);
        let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(socket) = locks.get(&name).and_then(Weak::upgrade) {
            return Ok(PeerLock { _socket: socket });
        }
        let socket = Arc::new(bind_new(&name)?);
        locks.insert(name, Arc::downgrade(&socket));
        Ok(PeerLock { _socket: socket })
    }
}

fn bind_new(name: &str) -> Result<OwnedFd, Errno> {
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    let mut attempts = 1;
    loop {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        match bind(&socket, &address) {
            Err(Errno::ADDRINUSE) if attempts < ATTEMPTS => {
                attempts += 1;
                std::thread::sleep(PAUSE);
            }
            result => return result.map(|()| socket),
        }
    }
}

/// The name of the lock: short, and the same for each way to write the address.
fn name(uri: &NbdUri) -> String {
    let place = match &uri.place {
        // A server that starts again makes another socket at the path.
        Place::Unix(path) => {
            let path = path.canonicalize().unwrap_or_else(|_| path.clone());
            format!("unix {}", path.display())
        }
        Place::Tcp(host, port) => {
            let address = (host.as_str(), *port).to_socket_addrs().ok();
            let address = address.and_then(|mut addresses| addresses.next());
            address.map_or_else(|| format!("tcp {host}:{port}"), |it| format!("tcp {it}"))
        }
    };
    let text = format!("{place} {}", uri.export);
    // FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("mirrorball-member-{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_has_one_user() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        std::fs::write(&path, "").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let uri = |path: &std::path::Path, export: &str| {
            let place = Place::Unix(path.to_owned());
            NbdUri { place, export: export.to_owned(), certificates: None }
        };
        let lock = PeerLock::take(&uri(&path, "disk")).unwrap();
        let again = PeerLock::take(&uri(&link, "disk")).unwrap();
        drop(lock);
        let name = name(&uri(&path, "disk"));
        assert_eq!(bind_new(&name).unwrap_err(), Errno::ADDRINUSE, "as another service sees it");
        std::fs::rename(&path, folder.path().join("old")).unwrap();
        std::fs::write(&path, "").unwrap();
        assert_eq!(self::name(&uri(&path, "disk")), name, "the server was started again");
        PeerLock::take(&uri(&path, "other")).unwrap();
        drop(again);
        bind_new(&name).unwrap();
    }
}
