//! The JSON of requests and responses, which programs of users read.

use super::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;

/// The JSON of a value, which reads back as that value, also with a field from the future.
fn json_of<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> Value {
    let json = serde_json::to_value(value).unwrap();
    assert_eq!(serde_json::from_value::<T>(json.clone()).unwrap(), *value);
    if let Value::Object(mut fields) = json.clone() {
        fields.insert("field_of_a_later_version".to_owned(), json!([1, 2]));
        assert_eq!(serde_json::from_value::<T>(fields.into()).unwrap(), *value);
    }
    json
}

#[test]
fn requests_keep_their_form() {
    for (request, json) in [
        (ControlRequest::Status, json!({ "request": "status" })),
        (ControlRequest::Members, json!({ "request": "members" })),
        (ControlRequest::Policy, json!({ "request": "policy" })),
        (ControlRequest::Stats { reset: true }, json!({ "request": "stats", "reset": true })),
        (
            ControlRequest::SetPolicy { name: "pid".to_owned(), object: None, keep: false },
            json!({ "request": "set-policy", "name": "pid" }),
        ),
        (
            ControlRequest::Rebuild { devid: 2, device: None, rate_bytes_per_s: None },
            json!({ "request": "rebuild", "devid": 2 }),
        ),
        (
            ControlRequest::Rebuild { devid: 2, device: None, rate_bytes_per_s: Some(50) },
            json!({ "request": "rebuild", "devid": 2, "rate_bytes_per_s": 50 }),
        ),
        (ControlRequest::Remove { devid: 2 }, json!({ "request": "remove", "devid": 2 })),
        (ControlRequest::Events { follow: true }, json!({ "request": "events", "follow": true })),
    ] {
        assert_eq!(json_of(&request), json);
    }
    let stats = serde_json::from_str::<ControlRequest>(r#"{"request":"stats"}"#).unwrap();
    assert_eq!(stats, ControlRequest::Stats { reset: false });
}

#[test]
fn responses_keep_their_form() {
    let done = ControlResponse::from(Ok::<_, RequestError>("pid".to_owned()));
    assert_eq!(json_of(&done), json!({ "answer": "pid" }));
    let kind = RequestErrorKind::NoVolume;
    let error = RequestError { error: "no".to_owned(), kind };
    let failed = ControlResponse::<String>::from(Err(error));
    assert_eq!(json_of(&failed), json!({ "error": "no", "kind": "no-volume" }));
    for text in [r#"{"error":"no"}"#, r#"{"error":"no","kind":"of-a-later-version"}"#] {
        let error: RequestError = serde_json::from_str(text).unwrap();
        assert_eq!(error.kind, RequestErrorKind::Unknown, "{text}");
    }
}

#[test]
fn events_keep_their_form() {
    let event = |change| ServiceEvent { number: 7, time_unix_ms: 5, change };
    let json = json!({
        "number": 7, "time_unix_ms": 5, "event": "began", "name": "member-failed",
        "severity": "error", "devid": 2, "text": "x", "help": "y",
    });
    assert_eq!(json_of(&event(StateChange::Began(failed()))), json);
    let stopping = event(StateChange::ServiceStopping);
    let json = json!({ "number": 7, "time_unix_ms": 5, "event": "service-stopping" });
    assert_eq!(json_of(&stopping), json);
}

fn failed() -> Condition {
    Condition {
        name: "member-failed".to_owned(),
        severity: Severity::Error,
        devid: Some(2),
        text: "x".to_owned(),
        help: Some("y".to_owned()),
    }
}

fn troubled_status() -> ServiceStatus {
    ServiceStatus {
        name: "pair".to_owned(),
        policy: Some("pid".to_owned()),
        profile: Some("raid1".to_owned()),
        health: VolumeHealth::Degraded,
        copies: Some(2),
        parities: Some(0),
        may_fail: Some(0),
        members: vec![MemberSummary {
            devid: 1,
            state: ReportedState::InSync,
            device: Some("/a.img".to_owned()),
            last_error: Some(MemberError { error: "z".to_owned(), age_ns: 8 }),
        }],
        conditions: vec![failed(), Condition { devid: None, help: None, ..failed() }],
        spares: vec![SpareReport {
            uuid: "1".to_owned(),
            device: None,
            size_bytes: 8,
            state: ReportedSpareState::Missing,
            replaces: None,
        }],
        rebuilds: vec![RebuildProgress {
            devid: 2,
            recovered_bytes: 1,
            total_bytes: 8,
            only_missed: true,
        }],
        unsynced_bytes: 0,
        active_bytes: 0,
        checksums: true,
        read_only: false,
        scrub: None,
        connections: 3,
        exports: vec![ExportSummary {
            name: "pair".to_owned(),
            size_bytes: 512,
            is: ExportKind::Volume,
        }],
        backend: "io_uring".to_owned(),
        uptime_s: 1.5,
    }
}

#[test]
fn status_keeps_its_fields() {
    let json = json!({
        "name": "pair", "policy": "pid", "profile": "raid1", "health": "degraded",
        "copies": 2, "parities": 0, "may_fail": 0,
        "members": [{ "devid": 1, "state": "in sync", "device": "/a.img",
                      "last_error": { "error": "z", "age_ns": 8 } }],
        "conditions": [
            { "name": "member-failed", "severity": "error", "devid": 2, "text": "x", "help": "y" },
            { "name": "member-failed", "severity": "error", "text": "x" },
        ],
        "spares": [{ "uuid": "1", "device": null, "size_bytes": 8, "state": "missing" }],
        "rebuilds": [{ "devid": 2, "recovered_bytes": 1, "total_bytes": 8, "only_missed": true }],
        "unsynced_bytes": 0, "active_bytes": 0,
        "checksums": true,
        "read_only": false, "scrub": null, "connections": 3,
        "exports": [{ "name": "pair", "size_bytes": 512, "is": "volume" }],
        "backend": "io_uring", "uptime_s": 1.5,
    });
    assert_eq!(json_of(&troubled_status()), json);
}

#[test]
fn stats_keep_their_fields() {
    let times = Quantiles { count: 1, max_ns: Some(5), ..Quantiles::default() };
    let member = MemberReport {
        devid: 1,
        state: ReportedState::InSync,
        device: None,
        recovered_bytes: None,
        size_bytes: 512,
        in_flight: 0,
        reads: u64::MAX,
        read_bytes: 2,
        writes: 3,
        written_bytes: 4,
        flushes: 5,
        errors: 6,
        last_error: None,
        mismatched_blocks: Some(7),
        bad_blocks: vec![BadBlockRange { offset: 8, length: 9 }],
    };
    let stats = ServiceStats {
        members: vec![MemberStatsReport {
            member: member.clone(),
            read_wait: times.clone(),
            write_wait: times.clone(),
            lateness: Some(LatenessReport { times, bound_p99_ns: 7, within_bound: true }),
        }],
        policy_counters: Some(vec![PolicyCounter {
            devid: None,
            name: "blocks".to_owned(),
            value: -1,
        }]),
    };
    let json = json_of(&stats);
    let times = json!({
        "count": 1, "mean_ns": 0, "p50_ns": 0, "p99_ns": 0, "p99_9_ns": 0, "max_ns": 5,
    });
    let expected = json!({
        "devid": 1, "state": "in sync", "device": null, "recovered_bytes": null,
        "size_bytes": 512,
        "in_flight": 0, "reads": u64::MAX, "read_bytes": 2, "writes": 3, "written_bytes": 4,
        "flushes": 5, "errors": 6, "last_error": null, "mismatched_blocks": 7,
        "bad_blocks": [{ "offset": 8, "length": 9 }],
    });
    assert_eq!(json_of(&member), expected);
    let member = &json["members"][0];
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&member[key], value, "{key}");
    }
    assert_eq!((&member["read_wait"], &member["write_wait"]), (&times, &times));
    assert_eq!(member["lateness"]["bound_p99_ns"], 7);
    assert_eq!(member["lateness"]["within_bound"], true);
    assert_eq!(member["lateness"]["max_ns"], 5);
    let counter = json!({ "devid": null, "name": "blocks", "value": -1 });
    assert_eq!(json["policy_counters"], json!([counter]));
}
