//! fio's JSON as far as it is used, found within whatever else fio printed.
//!
//! Fields that a version lacks read as nothing. Numbers are read as fio prints them: integers, and
//! now and then a float in their place.

use super::NS_PER_MS;
use anyhow::{Result, bail};
use mirrorball_core::units::{KIB, Nanos};
use mirrorball_sim::job::parse_time;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::error::Category;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Most documents of a text that are read: those of an hour with one each second.
const DOCUMENTS_MAX: usize = 4_096;

/// Times the length of a text that may be read for documents that are none.
const VAIN_TIMES: usize = 4;

/// Options by name, as the user wrote them.
pub(super) type Options = BTreeMap<String, Value>;

#[derive(Debug, Deserialize)]
pub(super) struct Document {
    /// `fio-3.33`.
    #[serde(rename = "fio version")]
    pub(super) version: String,
    /// When it ended, in seconds of Unix time.
    pub(super) timestamp: Option<u64>,
    timestamp_ms: Option<u64>,
    #[serde(rename = "global options", default)]
    pub(super) global_options: Options,
    /// One per job, clone or group, depending on `group_reporting`.
    #[serde(alias = "client_stats", default)]
    pub(super) jobs: Vec<FioJob>,
    #[serde(default)]
    disk_util: Vec<Disk>,
}

/// One job, or several that are reported together.
#[derive(Debug, Deserialize)]
pub(super) struct FioJob {
    pub(super) jobname: String,
    #[serde(default, deserialize_with = "amount")]
    pub(super) groupid: u64,
    #[serde(default)]
    pub(super) hostname: Option<String>,
    /// Seconds that fio expects to go on, zero at its end, or an absurd number.
    #[serde(default, deserialize_with = "amount")]
    eta: u64,
    /// Seconds since fio began, rounded up.
    #[serde(default, deserialize_with = "amount")]
    elapsed: u64,
    /// The number of the system's error that ended it, or zero.
    #[serde(default, deserialize_with = "amount")]
    pub(super) error: u64,
    /// Errors that it went on after.
    #[serde(default, deserialize_with = "amount")]
    pub(super) total_err: u64,
    #[serde(rename = "job options", default)]
    pub(super) options: Options,
    #[serde(default)]
    pub(super) read: Direction,
    #[serde(default)]
    pub(super) write: Direction,
    #[serde(default)]
    pub(super) trim: Direction,
    #[serde(default)]
    pub(super) sync: Direction,
    /// In place of the above where the job asked for one report of all.
    pub(super) mixed: Option<Direction>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Direction {
    #[serde(default, deserialize_with = "amount")]
    pub(super) io_bytes: u64,
    #[serde(default, deserialize_with = "amount")]
    pub(super) total_ios: u64,
    /// In milliseconds.
    #[serde(default, deserialize_with = "amount")]
    pub(super) runtime: u64,
    /// From the submission to the kernel on.
    #[serde(default)]
    pub(super) clat_ns: Latency,
    /// From the intended submission on.
    #[serde(default)]
    pub(super) lat_ns: Latency,
    /// Of fio 2, in microseconds.
    #[serde(default)]
    clat: Latency,
    #[serde(default)]
    lat: Latency,
    #[serde(default)]
    iops: f64,
}

/// Latencies in nanoseconds.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Latency {
    #[serde(default, deserialize_with = "amount")]
    pub(super) min: u64,
    #[serde(default, deserialize_with = "amount")]
    pub(super) max: u64,
    #[serde(default)]
    pub(super) mean: f64,
    /// How many were counted; fio before 3.19 does not say.
    #[serde(rename = "N", default, deserialize_with = "some_amount")]
    pub(super) count: Option<u64>,
    /// By percentage, as `99.000000`.
    #[serde(default)]
    pub(super) percentile: BTreeMap<String, u64>,
    /// Counts by the middle of the bin.
    #[serde(default)]
    pub(super) bins: BTreeMap<String, u64>,
}

/// A disk that files of the jobs lie on, as `/proc/diskstats` counts it.
#[derive(Debug, Deserialize)]
pub(super) struct Disk {
    pub(super) name: String,
    #[serde(default, deserialize_with = "amount")]
    pub(super) read_ios: u64,
    #[serde(default, deserialize_with = "amount")]
    pub(super) write_ios: u64,
    /// Printed by newer versions only.
    #[serde(default, deserialize_with = "amount")]
    pub(super) read_sectors: u64,
    #[serde(default, deserialize_with = "amount")]
    pub(super) write_sectors: u64,
    /// Sum of the waits of reads in milliseconds.
    #[serde(default, deserialize_with = "amount")]
    pub(super) read_ticks: u64,
    /// Present where the device is made of others, which are listed too.
    aggr_read_ios: Option<Value>,
}

impl Document {
    /// The document in what fio printed, wherever it begins: fio writes its notes, its progress and
    /// the report for people into the same file. Of several, as `--status-interval` prints them,
    /// the last whole one counts.
    pub(super) fn read(bytes: &[u8]) -> Result<Document> {
        let text = decoded(bytes);
        let mut found: Option<Document> = None;
        let mut failure = None;
        let mut from = 0;
        // Bytes that may be read in vain: what fails may have been read to its end.
        let mut vain = text.len().saturating_mul(VAIN_TIMES);
        for start in starts(&text) {
            if start < from {
                continue;
            }
            let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter();
            match values.next() {
                Some(Ok(document)) => {
                    let document: Document = document;
                    if found.as_ref().is_some_and(|before| !document.continues(before)) {
                        bail!(
                            "has the results of several runs of fio\n  help: give each a file of \
                             its own"
                        );
                    }
                    found = Some(document);
                    from = start + values.byte_offset();
                }
                Some(Err(error)) => {
                    let lines = text[start..].split_inclusive('\n').take(error.line() - 1);
                    let read = lines.map(str::len).sum::<usize>() + error.column();
                    failure = failure.or(Some(error));
                    match vain.checked_sub(read) {
                        Some(left) => vain = left,
                        None => break,
                    }
                }
                None => {}
            }
        }
        match (found, failure) {
            (Some(document), _) => document.checked(),
            (None, Some(_)) if !text.contains("\"fio version\"") => bail!(without_document(&text)),
            (None, Some(error)) => match error.classify() {
                Category::Eof => bail!(
                    "is cut off: its JSON ends too early\n  help: run fio again, and let it finish"
                ),
                _ => bail!("is not output of fio that this program can read: {error}"),
            },
            (None, None) => bail!(without_document(&text)),
        }
    }

    /// Whether it is a later state of the same run: the same jobs that went on for as long as the
    /// clock did, of a fio that began before the other state was written.
    fn continues(&self, before: &Document) -> bool {
        /// fio's clock counts whole seconds, and its states take a while.
        const SLACK_MS: u64 = 3_000;
        let pairs = || self.jobs.iter().zip(&before.jobs);
        let clock_ms = self.clock_ms().saturating_sub(before.clock_ms());
        let elapsed_s = self.jobs.iter().map(|job| job.elapsed).max().unwrap_or(0);
        let rounded_ms = if self.timestamp_ms.is_some() { 1_000 } else { 0 };
        let began_later = elapsed_s > 0
            && clock_ms >= self.runtime_ms()
            && clock_ms.saturating_add(rounded_ms) > elapsed_s.saturating_mul(1_000);
        let went_on = pairs().map(|(now, then)| now.runtime().saturating_sub(then.runtime())).max();
        self.jobs.len() == before.jobs.len()
            && pairs().all(|(now, then)| now.jobname == then.jobname)
            && pairs().all(|(now, then)| now.done() >= then.done())
            && clock_ms <= went_on.unwrap_or(0).saturating_add(SLACK_MS)
            && !began_later
    }

    /// Milliseconds of all groups, one after the other.
    fn runtime_ms(&self) -> u64 {
        let groups = self.jobs.chunk_by(|left, right| left.groupid == right.groupid);
        let longest = groups.map(|group| group.iter().map(FioJob::runtime).max().unwrap_or(0));
        longest.fold(0, u64::saturating_add)
    }

    /// When it was written, in milliseconds of Unix time; zero if it does not say.
    fn clock_ms(&self) -> u64 {
        let whole = self.timestamp.map(|seconds| seconds.saturating_mul(1_000));
        self.timestamp_ms.or(whole).unwrap_or(0)
    }

    fn checked(mut self) -> Result<Document> {
        let version = &self.version;
        let digits = version.trim_start_matches(|c: char| !c.is_ascii_digit());
        let major: Option<u32> = digits.split('.').next().and_then(|major| major.parse().ok());
        match major {
            Some(0 | 1) => bail!("was written by {version}\n  help: use fio 3 or newer"),
            Some(2) => self.jobs.iter_mut().for_each(FioJob::convert_from_2),
            _ => {}
        }
        // A client adds up all servers in one more entry.
        self.jobs.retain(|job| job.jobname != "All clients");
        // Servers that run the same jobs are clones of them.
        if self.jobs.iter().any(|job| job.hostname.is_some()) {
            let names: Vec<String> = self.jobs.iter().map(|job| job.jobname.clone()).collect();
            let place = |job: &FioJob| names.iter().position(|name| *name == job.jobname);
            self.jobs.sort_by_key(|job| (job.groupid, place(job)));
        }
        for job in &mut self.jobs {
            job.directions().into_iter().for_each(Direction::fill);
            // fio does not add up what `fdatasync` did, but counts its latencies.
            let counted = job.sync.lat_ns.count;
            let flushes = counted.unwrap_or_else(|| job.flushes_by_options(&self.global_options));
            job.sync.total_ios = job.sync.total_ios.max(flushes);
        }
        if self.jobs.is_empty() {
            bail!("is output of fio without a job");
        }
        Ok(self)
    }

    /// Whether it is the state of a run that was to go on.
    pub(super) fn is_partial(&self) -> bool {
        self.jobs.iter().any(|job| job.is_partial(&self.global_options))
    }

    /// The disks at the bottom: those that are not made of others.
    pub(super) fn disks(&self) -> impl Iterator<Item = &Disk> {
        let any_below = self.disk_util.iter().any(|disk| disk.aggr_read_ios.is_none());
        self.disk_util.iter().filter(move |disk| !any_below || disk.aggr_read_ios.is_none())
    }
}

impl FioJob {
    fn directions(&mut self) -> [&mut Direction; 3] {
        [&mut self.read, &mut self.write, &mut self.trim]
    }

    /// Milliseconds of its longest direction.
    pub(super) fn runtime(&self) -> u64 {
        self.read.runtime.max(self.write.runtime).max(self.trim.runtime)
    }

    /// Whether fio expected it to go on: for some seconds, or to its runtime if fio does not know
    /// for how long. That happens at the end of a run, too.
    fn is_partial(&self, global: &Options) -> bool {
        const UNKNOWN: u64 = i32::MAX as u64;
        let runtime = || {
            let value = self.options.get("runtime").or_else(|| global.get("runtime"))?;
            parse_time(value.as_str()?, Nanos::from_secs(1)).ok()
        };
        match self.eta {
            0 => false,
            1..UNKNOWN => true,
            // A runtime may end a little early.
            UNKNOWN.. => runtime().is_some_and(|it| self.runtime() < it.0 / NS_PER_MS * 95 / 100),
        }
    }

    /// Requests of all directions; bytes where fio counts no requests.
    fn done(&self) -> u64 {
        let all = [&self.read, &self.write, &self.trim];
        all.iter().fold(0, |sum, it| sum.saturating_add(it.total_ios.max(it.io_bytes)))
    }

    /// Flushes of which fio before 3.19 has the latencies and not the number: one after so many
    /// writes.
    fn flushes_by_options(&self, global: &Options) -> u64 {
        let of_option = |name: &str| {
            let value = self.options.get(name).or_else(|| global.get(name))?;
            value.as_str()?.parse::<u64>().ok().filter(|writes| *writes > 0)
        };
        let writes = of_option("fdatasync").or_else(|| of_option("fsync")).unwrap_or(1);
        let is_known = self.sync.lat_ns.mean > 0.0;
        if is_known { (self.write.total_ios / writes).max(1) } else { 0 }
    }

    /// From the units of fio 2: KiB and microseconds. Early ones do not count requests.
    fn convert_from_2(&mut self) {
        for direction in self.directions() {
            direction.io_bytes = direction.io_bytes.saturating_mul(KIB);
            let by_rate = direction.iops.max(0.0) * direction.runtime as f64 / 1e3;
            if direction.total_ios == 0 && direction.io_bytes > 0 {
                direction.total_ios = by_rate.round() as u64;
            }
            direction.clat_ns = std::mem::take(&mut direction.clat).times_1000();
            direction.lat_ns = std::mem::take(&mut direction.lat).times_1000();
        }
    }
}

impl Direction {
    /// Fills in what shortened results lack, from the figures that they have.
    fn fill(&mut self) {
        if self.runtime == 0 && self.iops > 0.0 {
            self.runtime = (self.total_ios as f64 * 1e3 / self.iops).round() as u64;
        }
        for latency in [&mut self.clat_ns, &mut self.lat_ns] {
            if latency.max == 0 {
                latency.max = latency.percentile.values().copied().max().unwrap_or(0);
            }
        }
    }
}

impl Latency {
    fn times_1000(mut self) -> Latency {
        self.min = self.min.saturating_mul(1_000);
        self.max = self.max.saturating_mul(1_000);
        self.mean *= 1e3;
        self.percentile.values_mut().for_each(|value| *value = value.saturating_mul(1_000));
        // Its bins are others.
        self.bins.clear();
        self
    }
}

/// The text of a file: without a byte order mark, also of UTF-16, as shells of Windows write it.
fn decoded(bytes: &[u8]) -> Cow<'_, str> {
    let wide = |bytes: &[u8], of: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| of([pair[0], pair[1]])).collect();
        Cow::Owned(String::from_utf16_lossy(&units))
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest),
        [first, 0, ..] if *first != 0 => wide(bytes, u16::from_le_bytes),
        _ => String::from_utf8_lossy(bytes),
    }
}

/// Where documents may begin: before each version, and, should that not be the first key of its
/// document, wherever an object begins.
fn starts(text: &str) -> impl Iterator<Item = usize> + '_ {
    const OTHERS_MAX: usize = 64;
    let marks = text.match_indices("\"fio version\"").take(DOCUMENTS_MAX);
    let before = marks.filter_map(|(at, _)| text[..at].trim_end().strip_suffix('{').map(str::len));
    let has_one = before.clone().next().is_some();
    let others = text.match_indices('{').map(|(at, _)| at);
    before.chain(others.take(if has_one { 0 } else { OTHERS_MAX }))
}

/// Why a text without a document of fio is none.
fn without_document(text: &str) -> &'static str {
    let starts = text.match_indices('{').map(|(at, _)| at);
    let mut values = starts.take(64).map(|start| {
        serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>().next()
    });
    match values.find_map(|value| value?.ok()) {
        Some(value) if value.get("schema_version").is_some() => {
            "was written by mirrorball, not by fio"
        }
        Some(_) => "is JSON, but not output of fio: it has no `fio version`",
        None if serde_json::from_str::<Value>(text).is_ok() => {
            "is JSON, but not output of fio: it is not an object\n  help: run fio with \
             --output-format=json+"
        }
        None => "contains no JSON\n  help: run fio with --output-format=json+",
    }
}

/// As [`amount`], if there is one.
fn some_amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    amount(deserializer).map(Some)
}

/// A count, from any kind of JSON number.
fn amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let number = serde_json::Number::deserialize(deserializer)?;
    // A float is rounded; a negative number counts as zero.
    Ok(number.as_u64().unwrap_or_else(|| number.as_f64().unwrap_or(0.0) as u64))
}
