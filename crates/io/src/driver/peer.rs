//! Where the peer of a socket is: on which machine, or in which process of this one.
//!
//! One of the files with `unsafe` code: the kernel fills in the structure of `SO_PEERCRED`. A peer
//! in another namespace of processes has the number 0, which rustix's type for processes cannot
//! hold.

#![allow(unsafe_code, reason = "a structure that the kernel fills in; see the page above")]

use super::{Driver, Handle};
use rustix::net::{AddressFamily, getpeername};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum PeerPlace {
    /// Another machine, or this one over TCP; of an IPv6 address, the network of 64 bits.
    Machine(IpAddr),
    /// A process, over a unix socket.
    Process(i32),
    /// Not known.
    Unknown,
}

impl Driver {
    pub(crate) fn peer_place(&self, socket: Handle) -> PeerPlace {
        self.share(socket).map_or(PeerPlace::Unknown, PeerPlace::of)
    }
}

impl PeerPlace {
    fn of(socket: impl AsFd) -> PeerPlace {
        const INTERNET: [AddressFamily; 2] = [AddressFamily::INET, AddressFamily::INET6];
        let address = getpeername(&socket).ok().flatten();
        match address.filter(|address| INTERNET.contains(&address.address_family())) {
            Some(address) => match SocketAddr::try_from(address) {
                Ok(address) => PeerPlace::machine(address.ip()),
                Err(_) => PeerPlace::Unknown,
            },
            None => process(&socket).map_or(PeerPlace::Unknown, PeerPlace::Process),
        }
    }

    pub(crate) fn machine(address: IpAddr) -> PeerPlace {
        PeerPlace::Machine(match address.to_canonical() {
            IpAddr::V6(address) if !address.is_loopback() => {
                Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
            }
            address => address,
        })
    }
}

/// The process that connected a unix socket.
fn process(socket: &impl AsFd) -> Option<i32> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to the structure, for which any bytes are
    // valid, and the length to the integer; both live until the call returns.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    };
    (result == 0).then_some(credentials.pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    #[test]
    fn peers_are_machines_or_processes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(PeerPlace::of(&client), PeerPlace::Machine([127, 0, 0, 1].into()));
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert_eq!(PeerPlace::of(&ours), PeerPlace::Process(std::process::id() as i32));
        assert_eq!(PeerPlace::of(tempfile::tempfile().unwrap()), PeerPlace::Unknown);
    }

    #[test]
    fn addresses_of_one_machine_are_one_place() {
        let place = |text: &str| PeerPlace::machine(text.parse().unwrap());
        assert_eq!(place("10.0.0.1"), place("::ffff:10.0.0.1"));
        assert_ne!(place("10.0.0.1"), place("10.0.0.2"));
        assert_eq!(place("2001:db8::1"), place("2001:db8::ffff:1"));
        assert_ne!(place("2001:db8::1"), place("2001:db8:0:1::1"));
    }
}
