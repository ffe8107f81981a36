//! The part of HTTP/1.1 that fetching metrics needs: one request a connection, without a body.
//!
//! Source: RFC 9110 and RFC 9112; the type of the contents is that of OpenMetrics 1.0.

use super::{Control, ServiceParts, metrics};

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT_TYPE: &str = "text/plain; charset=utf-8";

pub(super) fn reply(control: &Control, head: &str, parts: &ServiceParts<'_>) -> String {
    let line = head.lines().next().unwrap_or_default();
    let words: Vec<&str> = line.split(' ').collect();
    let (status, kind, body) = match words[..] {
        ["GET", "/metrics", _] => ("200 OK", METRICS_TYPE, metrics::text(control, parts)),
        ["GET", _, _] => ("404 Not Found", TEXT_TYPE, "metrics are at /metrics\n".to_owned()),
        [_, _, version] if version.starts_with("HTTP/") => {
            ("405 Method Not Allowed", TEXT_TYPE, "only GET is supported\n".to_owned())
        }
        _ => ("400 Bad Request", TEXT_TYPE, "not an HTTP/1.1 request\n".to_owned()),
    };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}
