//! A headless Chromium driven over WebDriver (W3C), as little of it as a test needs.
//!
//! The protocol is JSON over plain HTTP, so a socket does; chromedriver answers with a
//! `Content-Length` and closes when asked to.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A running chromedriver with one session.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    /// Where the browser leaves things lying about; gone with it.
    _litter: TempDir,
}

/// Whether the browser and its driver are installed.
pub(crate) fn is_installed() -> bool {
    let runs = |program: &str| {
        let command = Command::new(program).arg("--version").stdout(Stdio::null()).status();
        command.is_ok_and(|status| status.success())
    };
    runs("chromedriver") && runs("chromium")
}

impl Browser {
    /// A window of this width in CSS pixels; narrow ones are a phone's.
    pub(crate) fn open(page: &Path, width: u32) -> Browser {
        let litter = TempDir::new().unwrap();
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .env("TMPDIR", litter.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let port = port(&mut driver);
        let mut browser = Browser { driver, port, session: String::new(), _litter: litter };
        let options = json!({ "args": ["--headless=new", "--no-sandbox", "--disable-gpu",
            "--disable-dev-shm-usage", "--hide-scrollbars"] });
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let session = browser.ask("POST", "/session", &capabilities);
        browser.session = format!("/session/{}", session["sessionId"].as_str().unwrap());
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1,
            "mobile": width < 600 });
        let command = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": metrics });
        browser.tell("/goog/cdp/execute", &command);
        browser.tell("/url", &json!({ "url": format!("file://{}", page.display()) }));
        browser
    }

    pub(crate) fn run(&self, script: &str) -> Value {
        self.tell("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Result of a script that calls `done` with it, at once or later.
    pub(crate) fn run_async(&self, script: &str) -> Value {
        let script = format!("const done = arguments[0]; {script}");
        self.tell("/execute/async", &json!({ "script": script, "args": [] }))
    }

    /// Lets the page draw, so that what scrolling sets off is over.
    pub(crate) fn wait_for_frames(&self) {
        self.run_async("requestAnimationFrame(() => requestAnimationFrame(() => done(true)));");
    }

    /// Result of a script, asked again until it is true. Panics if it is not after many times.
    pub(crate) fn wait_for(&self, script: &str) {
        for _ in 0..400 {
            if self.run(script) == Value::Bool(true) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(25));
        }
        panic!("never became true: {script}");
    }

    /// Moves the pointer to a place in the window.
    pub(crate) fn point_at(&self, x: f64, y: f64) {
        let moves = json!([{ "type": "pointerMove", "duration": 0, "x": x as i64, "y": y as i64 }]);
        let mouse = json!({ "type": "pointer", "id": "mouse", "actions": moves });
        self.tell("/actions", &json!({ "actions": [mouse] }));
    }

    pub(crate) fn press(&self, key: &str) {
        let strokes =
            json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
        let board = json!({ "type": "key", "id": "keys", "actions": strokes });
        self.tell("/actions", &json!({ "actions": [board] }));
    }

    pub(crate) fn console(&self) -> Vec<Value> {
        self.tell("/se/log", &json!({ "type": "browser" })).as_array().unwrap().clone()
    }

    fn tell(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", &format!("{}{path}", self.session), body)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or(("", ""));
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        let value = &answer["value"];
        assert!(value.get("error").is_none(), "{path}: {value}");
        value.clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.ask("DELETE", &self.session, &json!({}));
        }
        // It ends the browser it started, and is then waited for.
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// The port that the system gave the driver, from what it says at its start.
fn port(driver: &mut Child) -> u16 {
    let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let started = lines.map(Result::unwrap).find(|line| line.contains("started successfully"));
    let line = started.expect("chromedriver says when it has started");
    let number: String = line.chars().filter(char::is_ascii_digit).collect();
    number.parse().unwrap()
}
