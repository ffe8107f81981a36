//! Requests and responses through a real socket.

use super::protocol::*;
use super::*;
use crate::address::ListenAddress;
use crate::assemble::{Assembly, ExportMode, emulate_in_memory};
use crate::clock::Speed;
use crate::export::nbd::server::ConnectionsMax;
use crate::service::Service;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

fn service(path: PathBuf, metrics: TcpListener, programs: Option<Registry>) -> Service {
    let text = "profile = \"raid1\"\n[[member]]\nmodel = \"delay\"\ncount = 2\nsize = \"8MiB\"\n";
    let Assembly { mut executor, exports, .. } =
        emulate_in_memory(text, ExportMode::Volume, "pid", Speed::REAL, None);
    let listener = executor.driver.adopt(ListenAddress::Unix(path).bind().unwrap().socket).unwrap();
    let metrics = executor.driver.adopt(metrics.into()).unwrap();
    let (name, policy) = ("pair".to_owned(), Some("pid".to_owned()));
    let endpoints = vec![
        Endpoint { listener, protocol: Protocol::JsonLines },
        Endpoint { listener: metrics, protocol: Protocol::Http },
    ];
    let control = Control::new(name, policy, endpoints, &mut executor);
    let control = match programs {
        Some(registry) => control.with_programs(registry, &mut executor).unwrap(),
        None => control,
    };
    let server = Server::new(exports, Vec::new(), ConnectionsMax(1), &mut executor);
    let (service, stopper) = Service::new(executor, server, Some(control)).unwrap();
    // The test's thread ends with it.
    std::mem::forget(stopper);
    service
}

fn answer<T: DeserializeOwned>(path: &Path, request: ControlRequest) -> T {
    ask(path, &request).unwrap()
}

#[test]
fn path_that_is_no_control_socket_is_refused_by_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let message = |path: &Path| {
        ask::<Value>(path, &ControlRequest::Policy)
            .expect_err("it is no control socket")
            .to_string()
    };
    assert!(message(folder.path()).contains("is a folder, not a control socket"));
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(message(&file).contains("is a file, not a control socket"), "{}", message(&file));
    let socket = folder.path().join("nbd");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let server = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.write_all(b"NBDMAGICIHAVEOPT\x00\x03").unwrap();
        // Closing with unread data would reset the connection before the client reads the greeting.
        let _ = client.read(&mut [0; 256]);
    });
    let message = message(&socket);
    assert!(message.contains("is the socket of an NBD export, not a control socket"), "{message}");
    server.join().unwrap();
}

fn refused(path: &Path, request: ControlRequest) -> RequestError {
    match ask::<Value>(path, &request) {
        Err(AskError::Refused(error)) => error,
        other => panic!("{request:?}: {other:?}"),
    }
}

fn set_policy(name: &str) -> ControlRequest {
    ControlRequest::SetPolicy { name: name.to_owned(), object: None, keep: false }
}

/// Starts a service in a thread of its own; its control socket, and where its metrics are.
fn start(folder: &TempDir) -> (PathBuf, SocketAddr) {
    start_service(folder, None)
}

/// Starts a service with these programs in a thread of its own; its control socket.
pub(super) fn start_with(folder: &TempDir, programs: Option<Registry>) -> PathBuf {
    start_service(folder, programs).0
}

fn start_service(folder: &TempDir, programs: Option<Registry>) -> (PathBuf, SocketAddr) {
    let path = folder.path().join("control");
    let metrics = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = metrics.local_addr().unwrap();
    let (socket, (sender, receiver)) = (path.clone(), std::sync::mpsc::channel());
    std::thread::spawn(move || {
        let mut service = service(socket, metrics, programs);
        sender.send(()).unwrap();
        service.run().unwrap();
    });
    receiver.recv().unwrap();
    (path, place)
}

/// The response of HTTP to these lines.
fn fetch(place: SocketAddr, lines: &str) -> String {
    let mut socket = TcpStream::connect(place).unwrap();
    socket.write_all(format!("{lines}\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn metrics_are_served_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let (path, place) = start(&folder);
    let name: String = answer(&path, set_policy("kakra/latency-rr"));
    assert_eq!(name, "kakra/latency-rr");
    let _: String = answer(&path, ControlRequest::Fail { devid: 2 });
    let text = fetch(place, "GET /metrics HTTP/1.1\r\nHost: localhost");
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    for line in [
        "mirrorball_member_reads_total{devid=\"2\"} 0",
        "mirrorball_member_read_wait_seconds_bucket{le=\"+Inf\",devid=\"1\"} 0",
        "mirrorball_condition{name=\"member-failed\",severity=\"error\",devid=\"2\"} 1",
        "mirrorball_connections 0",
        "mirrorball_member_info{devid=\"2\",device=\"\"} 1",
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

/// Every metric that the dashboard in `docs/` draws is served, but for those of `watch`.
#[test]
fn dashboard_metrics_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let (_, place) = start(&folder);
    let text = fetch(place, "GET /metrics HTTP/1.1");
    let dashboard = include_str!("../../grafana-dashboard.json");
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
    for name in names.into_iter().filter(|name| !name.starts_with("mirrorball_disk_")) {
        let family = name.trim_end_matches("_bucket").trim_end_matches("_total");
        assert!(text.contains(&format!("# TYPE {family} ")), "`{name}` is not served");
    }
}

#[test]
fn requests_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = start(&folder);
    let status: ServiceStatus = answer(&path, ControlRequest::Status);
    assert_eq!((status.health, status.policy.as_deref()), (VolumeHealth::InSync, Some("pid")));
    assert_eq!(
        (status.exports[0].name.as_str(), status.exports[0].is),
        ("pair", ExportKind::Volume)
    );
    let members: Vec<MemberReport> = answer(&path, ControlRequest::Members);
    assert_eq!((members[1].devid, members[1].state), (2, ReportedState::InSync));
    let stats: ServiceStats = answer(&path, ControlRequest::Stats { reset: true });
    assert_eq!(stats.members[0].read_wait.count, 0);
    let name: String = answer(&path, set_policy("round-robin:256K"));
    assert_eq!(name, "btrfs/round-robin:256K", "the canonical name, as in tables");
    assert_eq!(answer::<String>(&path, ControlRequest::Policy), name);
}

#[test]
fn bad_requests_are_refused_and_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = start(&folder);
    let rebuild =
        |devid, rate_bytes_per_s| ControlRequest::Rebuild { devid, device: None, rate_bytes_per_s };
    let name = "first".to_owned();
    let keep_policy = ControlRequest::SetPolicy { name, object: None, keep: true };
    for (request, kind, part) in [
        (set_policy("latncy-rr"), RequestErrorKind::Policy, "latency-rr"),
        (set_policy("devid:9"), RequestErrorKind::Policy, "9"),
        (rebuild(1, None), RequestErrorKind::Refused, "devid 1 is in sync"),
        (rebuild(9, Some(50 << 20)), RequestErrorKind::Refused, "no member with devid 9"),
        (rebuild(1, Some(0)), RequestErrorKind::Refused, "greater than zero"),
        (
            keep_policy,
            RequestErrorKind::Refused,
            "kept: emulated members have no labels\n  help: leave out --keep, and start `emulate` \
             with --policy 'first'",
        ),
    ] {
        let error = refused(&path, request.clone());
        assert_eq!(error.kind, kind, "{request:?}: {error}");
        assert!(error.error.contains(part), "{request:?}: {error}");
    }
    for (line, part) in [
        ("", "malformed request: EOF"),
        ("status", "malformed request"),
        ("{}", "missing field `request`"),
        (r#"{"request":"reboot"}"#, "unknown variant `reboot`, expected one of `status`"),
        (r#"{"request":"rebuild","devid":"two"}"#, "invalid type"),
    ] {
        let response: Value =
            serde_json::from_str(&exchange(&path, line, Duration::from_secs(10)).unwrap()).unwrap();
        assert_eq!(response["kind"], "malformed", "{line}");
        let error = response["error"].as_str().unwrap();
        assert!(error.contains(part), "{line}: {error}");
    }
    let mut endless = UnixStream::connect(&path).unwrap();
    // The service may close the connection before it has read everything.
    let _ = endless.write_all(&[b'x'; REQUEST_BYTES_MAX + 1]);
    assert_eq!(endless.read_to_end(&mut Vec::new()).unwrap_or(0), 0, "a line without an end");
    assert_eq!(answer::<String>(&path, ControlRequest::Policy), "pid");
}

/// The policy by a client that does not wait for ever.
fn policy_within_10_s(path: &Path) -> std::io::Result<String> {
    let mut client = UnixStream::connect(path)?;
    client.set_read_timeout(Some(Duration::from_secs(10)))?;
    client.write_all(b"{\"request\":\"policy\"}\n")?;
    let mut text = String::new();
    client.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn silent_clients_do_not_lock_others_out() {
    let folder = tempfile::tempdir().unwrap();
    let (path, place) = start(&folder);
    let web: Vec<TcpStream> =
        (0..CLIENTS_MAX + 8).map(|_| TcpStream::connect(place).unwrap()).collect();
    assert!(policy_within_10_s(&path).unwrap().contains("pid"), "metrics have their own limit");
    let mut local: Vec<UnixStream> =
        (0..CLIENTS_MAX + 8).map(|_| UnixStream::connect(&path).unwrap()).collect();
    assert!(policy_within_10_s(&path).unwrap().contains("pid"), "one makes room");
    assert!(fetch(place, "GET /metrics HTTP/1.1").starts_with("HTTP/1.1 200 OK"));
    // The oldest were closed, the latest were not.
    for (index, is_closed) in [(0, true), (8, true), (CLIENTS_MAX + 7, false)] {
        let client = &mut local[index];
        client.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let read = client.read(&mut [0; 1]);
        assert_eq!(read.is_ok(), is_closed, "client {index}: {read:?}");
    }
    drop(web);
}

#[test]
fn a_missing_service_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none");
    let error = ask::<String>(&path, &ControlRequest::Policy).unwrap_err().to_string();
    assert!(error.starts_with("cannot connect to control socket `"), "{error}");
    assert!(error.contains("help: give the path given to `emulate` or `serve`"), "{error}");
    // Its socket is left.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let error = ask::<String>(&path, &ControlRequest::Policy).unwrap_err().to_string();
    assert!(error.starts_with("no service listens at control socket `"), "{error}");
    assert!(error.contains("help: start it again") && !error.contains("give the path"), "{error}");
}

/// The names of the events so far.
fn event_names(path: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let take = |_: &ServiceEvent, line: &str| {
        let event: Value = serde_json::from_str(line).unwrap();
        names.push(event["event"].as_str().unwrap().to_owned());
        true
    };
    follow_events(path, false, take).unwrap();
    names
}

#[test]
fn events_are_kept_and_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = start(&folder);
    assert_eq!(event_names(&path), ["service-started"]);
    let (sender, events) = std::sync::mpsc::channel();
    let follow = path.clone();
    std::thread::spawn(move || {
        follow_events(&follow, true, |event, _| {
            sender.send(event.clone()).unwrap();
            !matches!(&event.change, StateChange::Ended(it) if it.name == "member-rebuilding")
        })
    });
    let first = events.recv().unwrap();
    assert_eq!(first.change, StateChange::ServiceStarted);
    assert_eq!(first.number, 1);
    let _: String = answer(&path, ControlRequest::Fail { devid: 2 });
    let _: String =
        answer(&path, ControlRequest::Rebuild { devid: 2, device: None, rate_bytes_per_s: None });
    let followed: Vec<ServiceEvent> = events.iter().collect();
    assert!((2..).zip(&followed).all(|(number, event)| event.number == number), "{followed:?}");
    let lines = followed.into_iter().filter_map(|event| match event.change {
        StateChange::Began(it) => Some(format!("began {}: {}", it.name, it.text)),
        StateChange::Ended(it) => Some(format!("ended {}: {}", it.name, it.text)),
        _ => None,
    });
    let lines: Vec<String> = lines.collect();
    for (line, part) in lines.iter().zip([
        "began member-failed: devid 2 has failed: requested by an operator",
        "ended member-failed: devid 2: not failed any more; it is rebuilding now",
        "began member-rebuilding: devid 2 is being rebuilt: ",
        "ended member-rebuilding: devid 2: its rebuild ended; it is in sync now",
    ]) {
        assert!(line.starts_with(part), "no `{part}` in {lines:?}");
    }
    assert_eq!(lines.len(), 4, "{lines:?}");
    let name: String = answer(&path, set_policy("latency-rr"));
    assert_eq!(
        (name.as_str(), event_names(&path).pop().unwrap().as_str()),
        ("kakra/latency-rr", "policy-changed")
    );
}

#[test]
fn clients_that_follow_and_left_do_not_lock_others_out() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = start(&folder);
    let mut followers = Vec::new();
    for _ in 0..2 * CLIENTS_MAX {
        let mut socket = UnixStream::connect(&path).unwrap();
        socket.write_all(b"{\"request\":\"events\",\"follow\":true}\n").unwrap();
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        followers.push(socket);
        let _: ServiceStatus = answer(&path, ControlRequest::Status);
    }
    assert!(followers[0].read_to_end(&mut Vec::new()).is_ok(), "the oldest made way");
    // A client that ended its half of the connection still gets events.
    let mut half = UnixStream::connect(&path).unwrap();
    half.write_all(b"{\"request\":\"events\",\"follow\":true}\n").unwrap();
    half.shutdown(std::net::Shutdown::Write).unwrap();
    let _: String = answer(&path, set_policy("pid"));
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(half));
    assert!(lines.any(|line| line.unwrap().contains("policy-changed")));
    drop(followers);
    assert!(!event_names(&path).is_empty());
}
