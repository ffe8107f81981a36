//! Several devices, each alone and then all at once: what they share on the way to the host, such
//! as an adapter, a port or a bridge.
//!
//! Each device is read sequentially with large reads, alone, all together, all together, and alone
//! again in reverse order, so that a drift that is linear in time cancels. A device that keeps less
//! than [`SLOWED`] of its own rate in company shares something with the others that are slowed:
//! what these reach together is the rate of the link.

use super::target::ProbeTarget;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{MIB, Nanos};
use mirrorball_io::driver::buffers::{BufferKey, Slice};
use mirrorball_io::driver::{Driver, EventOwner, Handle, Output, Token};
use mirrorball_lab::report::{Column, Grid};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Part of its own rate below which a device is slowed by the others. Rates of a disk differ by a
/// few percent from one second to the next.
const SLOWED: f64 = 0.9;
/// Length of a read.
const READ_BYTES: u64 = MIB;
/// Reads in flight on each device: enough for every link, while a disk stays sequential.
const DEPTH: usize = 4;
/// Time after which the runner looks for a stop request.
const WAIT_MAX: Duration = Duration::from_millis(100);
const MEGABYTE: f64 = 1e6;

/// The times of one run.
#[derive(Clone, Copy, Debug)]
struct RunTimes {
    /// From the first read to the first that counts.
    settle: Nanos,
    /// During which completions count.
    measure: Nanos,
}

const TIMES: RunTimes = RunTimes { settle: Nanos(500_000_000), measure: Nanos(2_000_000_000) };

/// How long measuring this many devices takes.
pub fn planned_time_together(devices: usize) -> Nanos {
    Nanos((TIMES.settle + TIMES.measure).0 * 2 * (devices as u64 + 1))
}

/// The rate of one device, in bytes per second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceRate {
    /// Path.
    pub path: PathBuf,
    /// Rate while no other device is read.
    pub alone: f64,
    /// Rate while all are read.
    pub together: f64,
}

impl DeviceRate {
    fn is_slowed(&self) -> bool {
        self.together < SLOWED * self.alone
    }
}

/// The rates of several devices. As JSON it has the link that they share, too.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedRates {
    /// The devices, in the order in which they were named.
    pub devices: Vec<DeviceRate>,
}

/// A link that several devices share.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SharedLink<'a> {
    /// Their paths, in the order in which they were named.
    pub devices: Vec<&'a Path>,
    /// Their rate together, in bytes per second.
    pub rate: f64,
}

impl Serialize for SharedRates {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("devices", &self.devices)?;
        map.serialize_entry("link", &self.link())?;
        map.end()
    }
}

/// Reads several devices, each alone and all together.
///
/// # Errors
/// If a device cannot be read, or `stop` was set.
pub fn probe_together(
    targets: &[ProbeTarget],
    stop: &AtomicBool,
    on_run: &mut dyn FnMut(&str),
) -> Result<SharedRates, Diagnostic> {
    let (mut driver, _) = Driver::new(None)
        .map_err(|error| Diagnostic::new(format!("cannot read devices: {error}")))?;
    let mut readers = Vec::new();
    for target in targets {
        let failed = |error| failed(target, &error);
        let file = target.fd.try_clone().and_then(|fd| driver.adopt(fd)).map_err(failed)?;
        readers.push(RemoteReader::new(&mut driver, file, target.size_bytes));
    }
    let rates = TogetherSession { driver, readers, times: TIMES, stop }.rates(&mut |which| {
        let names = targets.iter().enumerate().filter(|(index, _)| which.contains(index));
        let names: Vec<String> = names.map(|(_, it)| it.path.display().to_string()).collect();
        on_run(&names.join(", "));
    });
    let rates = rates.map_err(|failure| match failure {
        WorkerFailure::Stopped => Diagnostic::new("stopped before all devices were read together"),
        WorkerFailure::Read { device, error } => failed(&targets[device], &error),
        WorkerFailure::Wait(error) => Diagnostic::new(format!("cannot wait for reads: {error}")),
    })?;
    let rate = |(target, (alone, together)): (&ProbeTarget, (f64, f64))| DeviceRate {
        path: target.path.clone(),
        alone,
        together,
    };
    Ok(SharedRates { devices: targets.iter().zip(rates).map(rate).collect() })
}

fn failed(target: &ProbeTarget, error: &std::io::Error) -> Diagnostic {
    Diagnostic::new(format!("cannot read `{}`: {error}", target.path.display()))
}

/// Why rates are not known.
#[derive(Debug)]
enum WorkerFailure {
    Stopped,
    Read { device: usize, error: std::io::Error },
    Wait(std::io::Error),
}

/// A device that is read from one end to the other, and then from the start again.
struct RemoteReader {
    file: Handle,
    size_bytes: u64,
    next_offset: u64,
    buffers: Vec<BufferKey>,
    counted_bytes: u64,
}

impl RemoteReader {
    fn new(driver: &mut Driver, file: Handle, size_bytes: u64) -> RemoteReader {
        let buffers =
            (0..DEPTH).map(|_| driver.acquire_in_one_piece(READ_BYTES as usize)).collect();
        RemoteReader { file, size_bytes, next_offset: 0, buffers, counted_bytes: 0 }
    }

    fn read(&mut self, driver: &mut Driver, token: Token, slot: usize) {
        let slice = Slice::data(self.buffers[slot], 0, READ_BYTES as usize);
        driver.read(token, self.file, self.next_offset, slice);
        self.next_offset += READ_BYTES;
        if self.next_offset + READ_BYTES > self.size_bytes {
            self.next_offset = 0;
        }
    }
}

struct TogetherSession<'a> {
    driver: Driver,
    readers: Vec<RemoteReader>,
    times: RunTimes,
    stop: &'a AtomicBool,
}

impl TogetherSession<'_> {
    /// The rate of each device, alone and together, in bytes per second.
    fn rates(mut self, on_run: &mut dyn FnMut(&[usize])) -> Result<Vec<(f64, f64)>, WorkerFailure> {
        let every: Vec<usize> = (0..self.readers.len()).collect();
        let alone = every.iter().map(|&device| vec![device]);
        let mut runs: Vec<Vec<usize>> = alone.chain([every.clone()]).collect();
        runs.extend(runs.clone().into_iter().rev());
        let mut sums = vec![(0.0, 0.0); every.len()];
        for run in runs {
            on_run(&run);
            let is_alone = run.len() == 1;
            for (device, rate) in run.iter().zip(self.run(&run)?) {
                let (alone, together) = &mut sums[*device];
                *(if is_alone { alone } else { together }) += rate / 2.0;
            }
        }
        Ok(sums)
    }

    /// One run over some of the devices; their rates.
    fn run(&mut self, which: &[usize]) -> Result<Vec<f64>, WorkerFailure> {
        let token = |device: usize, slot| {
            Token::new(EventOwner::MemberFile, (device * DEPTH + slot) as u32)
        };
        let begin = self.driver.now() + self.times.settle;
        let end = begin + self.times.measure;
        for &device in which {
            self.readers[device].counted_bytes = 0;
            for slot in 0..DEPTH {
                self.readers[device].read(&mut self.driver, token(device, slot), slot);
            }
        }
        let mut in_flight = which.len() * DEPTH;
        let mut events = Vec::new();
        let mut failure = None;
        while in_flight > 0 {
            self.driver.wait(Some(WAIT_MAX), &mut events).map_err(WorkerFailure::Wait)?;
            let now = self.driver.now();
            if self.stop.load(Ordering::Relaxed) {
                failure = Some(WorkerFailure::Stopped);
            }
            for event in events.drain(..) {
                let key = event.token.key() as usize;
                let (device, slot) = (key / DEPTH, key % DEPTH);
                in_flight -= 1;
                if event.result != Ok(Output::Bytes(READ_BYTES as usize)) {
                    let error = event.result.err().map_or_else(short_read, std::io::Error::from);
                    failure = Some(WorkerFailure::Read { device, error });
                }
                // Reads in flight use the buffers: they end before the run does.
                if failure.is_none() && now < end {
                    let reader = &mut self.readers[device];
                    reader.counted_bytes += if now >= begin { READ_BYTES } else { 0 };
                    reader.read(&mut self.driver, token(device, slot), slot);
                    in_flight += 1;
                }
            }
        }
        let seconds = self.times.measure.as_secs_f64();
        let rate = |device: &usize| self.readers[*device].counted_bytes as f64 / seconds;
        failure.map_or_else(|| Ok(which.iter().map(rate).collect()), Err)
    }
}

fn short_read() -> std::io::Error {
    std::io::Error::from(std::io::ErrorKind::UnexpectedEof)
}

impl SharedRates {
    /// The rates as a table.
    pub fn grid(&self) -> Grid {
        Grid::of(&self.devices)
            .column(Column::left("device"), |it| it.path.display().to_string())
            .column(Column::right("alone"), |it| rate_text(it.alone))
            .column(Column::right("together"), |it| rate_text(it.together))
            .column(Column::right("of its own"), |it| match it.alone > 0.0 {
                true => format!("{:.0} %", 100.0 * it.together / it.alone),
                false => "-".to_owned(),
            })
            .build()
    }

    /// The link of the devices that slow each other; `None` if fewer than two are slowed.
    pub fn link(&self) -> Option<SharedLink<'_>> {
        let slowed = || self.devices.iter().filter(|device| device.is_slowed());
        let devices: Vec<&Path> = slowed().map(|device| device.path.as_path()).collect();
        let rate = slowed().map(|device| device.together).sum();
        (devices.len() > 1).then_some(SharedLink { devices, rate })
    }

    /// The table, and the lines for an array file if devices share a link.
    pub fn conclusion(&self) -> String {
        let Some(SharedLink { devices, rate }) = self.link() else {
            return match self.devices.iter().find(|device| device.is_slowed()) {
                None => "no link: together they are as fast as alone\n".to_owned(),
                Some(device) => format!(
                    "no link: only {} is slower in company, so another program may have used it; \
                     measure again\n",
                    device.path.display()
                ),
            };
        };
        let names: Vec<String> = devices.iter().map(|path| path.display().to_string()).collect();
        format!(
            "a link: {} share {}. For the array file:\n\n[[link]]\nname = \"shared\"\n\
             read = \"{}\"\n\nand in the [[member]] of each of them:\n\nlink = \"shared\"\n",
            names.join(", "),
            rate_text(rate),
            rate_text(rate)
        )
    }
}

fn rate_text(bytes_per_second: f64) -> String {
    format!("{:.1}MB/s", bytes_per_second / MEGABYTE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn rates(rates: &[(f64, f64)]) -> SharedRates {
        let device = |(index, (alone, together)): (usize, &(f64, f64))| DeviceRate {
            path: format!("/dev/sd{index}").into(),
            alone: alone * MEGABYTE,
            together: together * MEGABYTE,
        };
        SharedRates { devices: rates.iter().enumerate().map(device).collect() }
    }

    #[test]
    fn devices_that_slow_each_other_share_a_link() {
        let three = rates(&[(200.0, 120.0), (180.0, 178.0), (210.0, 130.0)]);
        let link = three.link().unwrap();
        assert_eq!((link.devices.len(), link.rate), (2, 250.0 * MEGABYTE));
        let json = serde_json::to_value(&three).unwrap();
        assert_eq!(json["devices"].as_array().unwrap().len(), 3);
        assert_eq!(json["link"]["devices"], serde_json::json!(["/dev/sd0", "/dev/sd2"]));
        assert_eq!(json["link"]["rate"], 250.0 * MEGABYTE);
        let said = three.conclusion();
        for part in ["/dev/sd0, /dev/sd2 share 250.0MB/s", "read = \"250.0MB/s\"", "[[link]]"] {
            assert!(said.contains(part), "{said}");
        }
        let independent = rates(&[(200.0, 199.0), (180.0, 181.0)]);
        assert_eq!(independent.link(), None);
        assert!(serde_json::to_value(&independent).unwrap()["link"].is_null());
        assert!(independent.conclusion().starts_with("no link: together they are as fast"));
        let one = rates(&[(200.0, 100.0), (180.0, 181.0)]);
        assert_eq!(one.link(), None, "a link slows at least two");
        assert!(one.conclusion().contains("only /dev/sd0 is slower"));
    }

    /// Two files in the page cache: what is counted, not how fast they are.
    #[test]
    fn each_device_is_read_alone_and_all_are_read_together() {
        let (mut driver, _) = Driver::new(None).unwrap();
        let size_bytes = 8 * MIB;
        let mut reader = || {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&vec![1; size_bytes as usize]).unwrap();
            let file = driver.adopt(file.into()).unwrap();
            RemoteReader::new(&mut driver, file, size_bytes)
        };
        let readers = vec![reader(), reader()];
        let times = RunTimes { settle: Nanos::ZERO, measure: Nanos(300_000_000) };
        let stop = AtomicBool::new(false);
        let mut runs = Vec::new();
        let session = TogetherSession { driver, readers, times, stop: &stop };
        let rates = session.rates(&mut |which| runs.push(which.to_vec())).unwrap();
        assert_eq!(runs, [vec![0], vec![1], vec![0, 1], vec![0, 1], vec![1], vec![0]]);
        assert!(rates.iter().all(|(alone, together)| *alone > 0.0 && *together > 0.0));
    }

    #[test]
    fn a_read_that_fails_and_a_stop_end_the_run() {
        let rates = |bytes: usize, is_stopped: bool| {
            let (mut driver, _) = Driver::new(None).unwrap();
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&vec![1; bytes]).unwrap();
            let file = driver.adopt(file.into()).unwrap();
            let readers = vec![RemoteReader::new(&mut driver, file, 8 * MIB)];
            let times = RunTimes { settle: Nanos::ZERO, measure: Nanos(300_000_000) };
            let stop = AtomicBool::new(is_stopped);
            TogetherSession { driver, readers, times, stop: &stop }.rates(&mut |_| {})
        };
        // Cut since its size was read.
        let error = rates(MIB as usize, false).unwrap_err();
        assert!(matches!(error, WorkerFailure::Read { device: 0, .. }), "{error:?}");
        assert!(matches!(rates(8 * MIB as usize, true), Err(WorkerFailure::Stopped)));
    }
}
