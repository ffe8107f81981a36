//! Services of ours (`serve`, `emulate`) while a test runs them.

use super::Folder;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longest time that a test waits for something that must happen.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running service. A test that fails ends it in good order, so that it unmounts its files.
pub(crate) struct Service {
    process: Child,
    /// Standard error before `ready`.
    pub(crate) lines: Vec<String>,
    /// Standard error since then.
    later_lines: Arc<Mutex<Vec<String>>>,
}

impl Service {
    /// Starts `mirrorball` with these arguments and waits until it prints `ready`.
    pub(crate) fn start(folder: &Folder, arguments: &[&str]) -> Service {
        Service::start_command(folder.command(arguments))
    }

    /// Starts this command and waits until it prints `ready`.
    pub(crate) fn start_command(mut command: Command) -> Service {
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut lines: Vec<String> = Vec::new();
        loop {
            match output.next() {
                Some(line) if line.as_ref().unwrap() == "ready" => break,
                Some(line) => lines.push(line.unwrap()),
                None => panic!("{command:?} ended with {:?}: {lines:?}", process.wait()),
            }
        }
        // A full pipe would block the service: read what it prints from now on.
        let later_lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&later_lines);
        std::thread::spawn(move || {
            output.map_while(Result::ok).for_each(|line| kept.lock().unwrap().push(line));
        });
        Service { process, lines, later_lines }
    }

    /// Returns true if it printed this after `ready`.
    pub(crate) fn has_printed(&self, part: &str) -> bool {
        self.later_lines.lock().unwrap().iter().any(|line| line.contains(part))
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn signal(&self, signal: &str) {
        send_signal(&self.process, signal);
    }

    /// Sends a signal and returns the exit code.
    pub(crate) fn stop(self, signal: &str) -> Option<i32> {
        self.signal(signal);
        self.exit_code()
    }

    pub(crate) fn exit_code(mut self) -> Option<i32> {
        self.process.wait().unwrap().code()
    }

    /// Ends it in good order.
    pub(crate) fn terminate(self) {
        assert_eq!(self.stop("-TERM"), Some(0));
    }

    /// The first block device that it named.
    pub(crate) fn device(&self) -> &str {
        let device = self.lines.iter().find_map(|line| line.split_once(" bytes at "));
        device.expect("it names its device").1
    }

    /// Address of its metrics, `HOST:PORT`.
    pub(crate) fn metrics_address(&self) -> &str {
        let url = self.lines.iter().find_map(|line| line.strip_prefix("metrics: http://"));
        url.and_then(|url| url.strip_suffix("/metrics")).expect("it names its metrics")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if self.process.try_wait().is_ok_and(|code| code.is_some()) {
            return;
        }
        // A test may have stopped it.
        send_signal(&self.process, "-CONT");
        send_signal(&self.process, "-TERM");
        let deadline = Instant::now() + TIMEOUT;
        while self.process.try_wait().is_ok_and(|code| code.is_none()) {
            if Instant::now() > deadline {
                let _ = self.process.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn send_signal(process: &Child, signal: &str) {
    let id = process.id().to_string();
    assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
}

/// Waits until `condition` holds.
pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
