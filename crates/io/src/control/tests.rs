//! Questions and answers through a real socket, and a policy changed under load.

use super::*;
use crate::address::ListenAddress;
use crate::assemble::{Assembly, Backing, EmulateOptions, ExportMode, emulate};
use crate::clock::Speed;
use crate::export::nbd::server::ConnectionsMax;
use crate::service::Service;
use mirrorball_core::policies::Spec;
use mirrorball_disk::array_file::ArrayFile;
use serde_json::Value;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use tempfile::TempDir;

fn service(path: PathBuf, metrics: TcpListener) -> Service {
    let text = "profile = \"raid1\"\n[[member]]\nmodel = \"delay\"\ncount = 2\nsize = \"8MiB\"\n";
    let array = ArrayFile::parse(text, "pair.toml").unwrap().spec;
    let emulation = EmulateOptions {
        array: &array,
        shape: ExportMode::Volume,
        policy: Spec::parse("pid").unwrap().build(&[1, 2]).unwrap(),
        backing: Backing::Memory,
        speed: Speed::REAL,
        seed: 1,
        backend: None,
    };
    let Assembly { mut executor, exports, .. } = emulate(emulation).unwrap();
    let listener = executor.driver.adopt(ListenAddress::Unix(path).bind().unwrap().socket).unwrap();
    let metrics = executor.driver.adopt(metrics.into()).unwrap();
    let (name, policy) = ("pair".to_owned(), Some("pid".to_owned()));
    let endpoints = vec![
        Endpoint { listener, protocol: Protocol::JsonLines },
        Endpoint { listener: metrics, protocol: Protocol::Http },
    ];
    let control = Control::new(name, policy, endpoints, &mut executor);
    let server = Server::new(exports, Vec::new(), ConnectionsMax(1), &mut executor);
    let (service, stopper) = Service::new(executor, server, Some(control)).unwrap();
    // The test's thread ends with it.
    std::mem::forget(stopper);
    service
}

fn answer(path: &Path, line: &str) -> Value {
    serde_json::from_str(&ask(path, line).unwrap()).unwrap()
}

/// Starts a service in a thread of its own; its control socket, and where its metrics are.
fn start(folder: &TempDir) -> (PathBuf, SocketAddr) {
    let path = folder.path().join("control");
    let metrics = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = metrics.local_addr().unwrap();
    let (socket, (sender, receiver)) = (path.clone(), std::sync::mpsc::channel());
    std::thread::spawn(move || {
        let mut service = service(socket, metrics);
        sender.send(()).unwrap();
        service.run().unwrap();
    });
    receiver.recv().unwrap();
    (path, place)
}

/// What an HTTP client gets for these lines.
fn fetch(place: SocketAddr, lines: &str) -> String {
    let mut socket = TcpStream::connect(place).unwrap();
    socket.write_all(format!("{lines}\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn metrics_are_fetched_and_nothing_else_is() {
    let folder = tempfile::tempdir().unwrap();
    let (path, place) = start(&folder);
    assert_eq!(answer(&path, "policy kakra/latency-rr")["answer"], "kakra/latency-rr");
    let text = fetch(place, "GET /metrics HTTP/1.1\r\nHost: localhost");
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    for line in [
        "mirrorball_member_reads_total{devid=\"2\"} 0",
        "mirrorball_member_read_wait_seconds_bucket{le=\"+Inf\",devid=\"1\"} 0",
        "mirrorball_member_state{devid=\"1\",state=\"in sync\"} 1",
        "mirrorball_member_state{devid=\"1\",state=\"failed\"} 0",
        "mirrorball_connections 0",
        "mirrorball_volume_info{name=\"pair\",profile=\"raid1\",policy=\"kakra/latency-rr\"} 1",
    ] {
        assert!(body.contains(line), "no `{line}` in\n{body}");
    }
    assert!(body.ends_with("# EOF\n"), "{body}");
    for (lines, status) in
        [("GET / HTTP/1.1", "404"), ("POST /metrics HTTP/1.1", "405"), ("HEAD", "400"), ("", "400")]
    {
        let text = fetch(place, lines);
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{lines}: {text}");
    }
}

/// Every metric that the dashboard in the book draws is one that is served.
#[test]
fn the_dashboard_draws_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let (_, place) = start(&folder);
    let text = fetch(place, "GET /metrics HTTP/1.1");
    let dashboard = include_str!("../../../../docs/grafana-dashboard.json");
    let parsed: Value = serde_json::from_str(dashboard).unwrap();
    let panels = parsed["panels"].as_array().unwrap();
    let drawn: Vec<&str> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten())
        .map(|target| target["expr"].as_str().unwrap())
        .collect();
    let word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let names = drawn.iter().flat_map(|expr| expr.split(word));
    let names: Vec<&str> = names.filter(|name| name.starts_with("mirrorball_")).collect();
    assert!(names.len() >= panels.len(), "every panel draws something");
    for name in names {
        let family = name.trim_end_matches("_bucket").trim_end_matches("_total");
        assert!(text.contains(&format!("# TYPE {family} ")), "`{name}` is not served");
    }
}

#[test]
fn questions_are_answered_and_nonsense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = start(&folder);
    let status = &answer(&path, "status")["answer"];
    assert_eq!((&status["health"], &status["policy"]), (&"in sync".into(), &"pid".into()));
    assert_eq!(status["exports"][0]["name"], "pair");
    assert_eq!(answer(&path, "members")["answer"][1]["devid"], 2);
    assert_eq!(answer(&path, "stats")["answer"]["members"][0]["read_wait"]["count"], 0);
    assert_eq!(answer(&path, "policy round-robin:256K")["answer"], "round-robin:256K");
    assert_eq!(answer(&path, "policy")["answer"], "round-robin:256K");
    for (line, part) in [
        ("policy latncy-rr", "latency-rr"),
        ("policy devid:9", "9"),
        ("", "not understood"),
        ("rebuild 1", "devid 1 is in sync"),
        ("rebuild 9 50M", "no member with devid 9"),
        ("rebuild x", "`x` is no devid"),
        ("rebuild 1 fast", "fast"),
        ("rebuild 1 0", "never be done"),
        ("members all", "not understood"),
    ] {
        let error = answer(&path, line)["error"].as_str().unwrap().to_owned();
        assert!(error.contains(part), "{line}: {error}");
    }
    assert_eq!(answer(&path, "policy")["answer"], "round-robin:256K", "nothing was changed");
    let mut rude = UnixStream::connect(&path).unwrap();
    rude.write_all(&[b'x'; 5000]).unwrap();
    assert_eq!(rude.read_to_end(&mut Vec::new()).unwrap_or(0), 0, "a line without an end");
    assert_eq!(answer(&path, "policy")["answer"], "round-robin:256K");
}
