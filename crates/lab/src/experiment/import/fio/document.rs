//! fio's JSON as far as it is used, found within whatever else fio printed.
//!
//! Fields that a version lacks read as nothing. Numbers are read as fio prints them: integers, and
//! now and then a float in their place.

use anyhow::{Result, bail};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::error::Category;
use std::collections::BTreeMap;

/// Lines that begin like JSON and are tried; text before the document rarely has one.
const STARTS_MAX: usize = 64;

/// Options by name, as the user wrote them.
pub(super) type Options = BTreeMap<String, Value>;

/// One run of fio.
#[derive(Debug, Deserialize)]
pub(super) struct Document {
    /// `fio-3.33`.
    #[serde(rename = "fio version")]
    pub(super) version: String,
    /// When it ended, in seconds of Unix time.
    pub(super) timestamp: Option<u64>,
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

/// Requests of one kind.
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
    /// How many were counted.
    #[serde(rename = "N", default, deserialize_with = "amount")]
    pub(super) count: u64,
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
    /// The document in what fio printed: from the first line that begins it, since fio writes its
    /// notes, and the report for people if both were asked for, into the same file.
    pub(super) fn read(text: &[u8]) -> Result<Document> {
        let line_starts = std::iter::once(0).chain(
            text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1),
        );
        let starts = line_starts.filter(|&at| text.get(at) == Some(&b'{'));
        let mut failure = None;
        for start in starts.take(STARTS_MAX) {
            let mut values = serde_json::Deserializer::from_slice(&text[start..]).into_iter();
            match values.next() {
                Some(Ok(document)) => return Document::checked(document),
                Some(Err(error)) => failure = failure.or(Some(error)),
                None => {}
            }
        }
        let Some(error) = failure else {
            if serde_json::from_slice::<Value>(text).is_ok() {
                let help = "run fio with --output-format=json+";
                bail!("is JSON, but not output of fio: it is not an object\n  help: {help}");
            }
            bail!("contains no JSON\n  help: run fio with --output-format=json+");
        };
        let is_ours = |it: Value| it.get("schema_version").is_some();
        match error.classify() {
            Category::Data if serde_json::from_slice(text).is_ok_and(is_ours) => {
                bail!("was written by mirrorball, not by fio")
            }
            Category::Eof => bail!(
                "is cut off: its JSON ends too early\n  help: run fio again, and let it finish"
            ),
            Category::Data if error.to_string().contains("fio version") => {
                bail!("is JSON, but not output of fio: it has no `fio version`")
            }
            _ => bail!("is not output of fio that this program can read: {error}"),
        }
    }

    fn checked(mut document: Document) -> Result<Document> {
        let version = &document.version;
        let digits = version.trim_start_matches(|c: char| !c.is_ascii_digit());
        let major: Option<u32> = digits.split('.').next().and_then(|major| major.parse().ok());
        if major.is_some_and(|major| major < 3) {
            bail!(
                "was written by {version}, whose histogram has other bins\n  help: use fio 3 or \
                 newer"
            );
        }
        // A client adds up all servers in one more entry.
        document.jobs.retain(|job| job.jobname != "All clients");
        if document.jobs.is_empty() {
            bail!("is output of fio without a job");
        }
        Ok(document)
    }

    /// The disks at the bottom: those that are not made of others.
    pub(super) fn disks(&self) -> impl Iterator<Item = &Disk> {
        let any_below = self.disk_util.iter().any(|disk| disk.aggr_read_ios.is_none());
        self.disk_util.iter().filter(move |disk| !any_below || disk.aggr_read_ios.is_none())
    }
}

/// A count, from any kind of JSON number.
fn amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let number = serde_json::Number::deserialize(deserializer)?;
    // A float is rounded; a negative number counts as zero.
    Ok(number.as_u64().unwrap_or_else(|| number.as_f64().unwrap_or(0.0) as u64))
}
