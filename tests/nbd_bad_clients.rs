//! NBD clients that use up descriptors or request much memory: other clients are served as before.
//! Clients that send invalid data are in `crates/io/src/export/nbd/tests`.

use crate::common::Folder;
use crate::common::nbd_client::{NbdClient, NbdRequest, request_bytes};
use crate::common::service::{Service, wait_until};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

/// A mirrored volume with a valid client, which reads what it wrote again and again.
struct Place {
    folder: Folder,
    server: Service,
    good: Option<NbdClient>,
}

impl Place {
    fn new() -> Place {
        let folder = Folder::new();
        let pair =
            "profile = \"raid1\"\n[[member]]\nmodel = \"delay\"\nsize = \"64MiB\"\ncount = 2\n";
        std::fs::write(folder.path("pair.toml"), pair).unwrap();
        let emulate = ["emulate", "pair.toml", "--export", "nbd:unix:socket"];
        let arguments = [&emulate[..], &["--control", "control"]].concat();
        let server = Service::start(&folder, &arguments);
        let mut place = Place { folder, server, good: None };
        let mut good = place.client();
        good.write(0, &[7; 4096]);
        place.good = Some(good);
        place
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(self.folder.path("socket")).unwrap()
    }

    fn client(&self) -> NbdClient {
        NbdClient::connect(&self.folder, "socket")
    }

    /// Asserts that the valid client, and a new one, are served.
    fn is_well(&mut self) {
        let mut late = self.client();
        for client in [self.good.as_mut().unwrap(), &mut late] {
            assert!(client.read(0, 4096) == [7; 4096]);
        }
    }

    /// Output of `ctl status`.
    fn status(&self, more: &[&str]) -> String {
        self.folder.ctl(&[&["status"], more].concat())
    }

    /// Stops the service: it must end without errors and without open connections.
    fn stop(mut self) {
        self.is_well();
        assert!(self.status(&[]).contains("in sync"));
        // The last connections may still be closing.
        self.good = None;
        let is_alone = |status: &str| status.contains("\"connections\": 0");
        let mut statuses = (0..100).map(|_| self.status(&["--format", "json"]));
        assert!(statuses.any(|status| is_alone(&status)), "{}", self.status(&[]));
        self.server.terminate();
    }
}

#[test]
fn service_recovers_when_out_of_descriptors() {
    let mut place = Place::new();
    let limit = |soft: &str| {
        let id = place.server.id().to_string();
        let nofile = format!("--nofile={soft}:");
        assert!(Command::new("prlimit").args(["--pid", &id, &nofile]).status().unwrap().success());
    };
    let control = || UnixStream::connect(place.folder.path("control")).unwrap();
    let answers = |mut socket: UnixStream, ask: &[u8]| {
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.write_all(ask).unwrap();
        socket.read_exact(&mut [0; 18]).is_ok()
    };
    limit("3");
    // An accept in flight at each listener may still succeed; the next has no descriptor.
    let kept = [place.connect(), control()];
    let late = [place.connect(), control()];
    place.good.as_mut().unwrap().read(0, 4096);
    limit("1024");
    let [late, asking] = late;
    assert!(answers(late, &[]), "it is greeted");
    assert!(answers(asking, b"status\n"), "it is answered");
    drop(kept);
    place.stop();
}

/// A value in kB of the status of a process.
fn memory_kb(process: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim_end_matches("kB").trim().parse().unwrap()
}

/// Seven clients that request much and never take a reply; a hundred that do so later.
#[test]
fn memory_of_all_clients_is_bounded_and_given_back() {
    let mut place = Place::new();
    let process = place.server.id();
    for count in [7, 100] {
        let mut greedy: Vec<NbdClient> = (0..count).map(|_| place.client()).collect();
        for client in &mut greedy {
            let read = request_bytes(NbdRequest::Read, 0, 0, 32 << 20);
            client.0.write_all(&read.repeat(4)).unwrap();
        }
        for _ in 0..100 {
            place.is_well();
        }
        let most = memory_kb(process, "VmHWM");
        assert!(most < 300 << 10, "{most} kB at most, with a limit of 256 MB");
        drop(greedy);
        wait_until("memory", || memory_kb(process, "VmRSS") < 150 << 10);
    }
    place.stop();
}
