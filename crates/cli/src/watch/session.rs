//! The state of `watch` between samples: judges, recordings and history.

use super::Args;
use crate::ending::Failure;
use crate::output_file::{self, Existing};
use anyhow::{Context, anyhow};
use mirrorball_core::units::Nanos;
use mirrorball_health::judge::{DiskFigures, DiskHistory, DiskState, Judge};
use mirrorball_health::service::IoDirection;
use mirrorball_host::detect::Sysroot;
use mirrorball_host::watch::{DiskSample, DiskSampler, WatchedDisk, WatchedGroup};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Lines, Write};
use std::path::{Path, PathBuf};

/// How often the history is saved.
const SAVE_INTERVAL: Nanos = Nanos::from_secs(60);
/// Limit of a history file: that of a thousand disks is far smaller.
const HISTORY_BYTES_MAX: u64 = 64 << 20;
/// Evaluations that the live view draws.
pub(super) const TRAIL_MAX: usize = 60;

/// The first line of a recording.
#[derive(Serialize, Deserialize)]
struct SampleHeader {
    every_ns: u64,
    groups: Vec<WatchedGroup>,
}

/// Reads samples, and records them if asked to.
pub(super) struct Sampler {
    sampler: DiskSampler,
    record: Option<(PathBuf, File)>,
}

impl Sampler {
    pub(super) fn new(
        sysroot: Sysroot,
        every: Nanos,
        groups: &[WatchedGroup],
        record: Option<&Path>,
    ) -> Result<Sampler, Failure> {
        let begin = |path: &Path| -> anyhow::Result<(PathBuf, File)> {
            output_file::check(path, Existing::Stays)?;
            let file =
                File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            Ok((path.to_owned(), file))
        };
        let record = record.map(begin).transpose().map_err(Failure::WrongUse)?;
        let sampler = DiskSampler::new(sysroot, groups);
        let mut sampler = Sampler { sampler, record };
        let first = SampleHeader { every_ns: every.0, groups: groups.to_vec() };
        sampler.write(&first)?;
        Ok(sampler)
    }

    pub(super) fn sample(&mut self) -> Result<DiskSample, Failure> {
        let sample = self.sampler.sample();
        self.write(&sample)?;
        Ok(sample)
    }

    fn write(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let Some((path, file)) = &mut self.record else { return Ok(()) };
        let line = serde_json::to_string(value).context("a sample has no JSON");
        let line = line.map_err(Failure::Fault)?;
        let written = writeln!(file, "{line}");
        written.with_context(|| format!("cannot write {}", path.display())).map_err(Failure::Fault)
    }
}

/// Groups of disks, each with its judge.
pub(super) struct Watching {
    every: Nanos,
    groups: Vec<(WatchedGroup, Judge)>,
    last: Option<DiskSample>,
    /// Waits of the last evaluations in milliseconds, by the name of the disk.
    trails: BTreeMap<String, Vec<f64>>,
    history: Option<PathBuf>,
    saved_at: Nanos,
    now: Nanos,
}

pub(super) struct DiskRow<'a> {
    pub(super) group: &'a WatchedGroup,
    pub(super) disk: &'a WatchedDisk,
    pub(super) state: DiskState,
    pub(super) figures: Option<DiskFigures>,
    pub(super) trail: &'a [f64],
}

impl DiskRow<'_> {
    /// Returns true unless there was too little I/O to say anything.
    pub(super) fn is_judged(&self) -> bool {
        !matches!(self.state, DiskState::CannotTell | DiskState::Learning)
    }

    /// Mean wait of a direction; none without I/O.
    pub(super) fn wait_ms(&self, direction: IoDirection) -> Option<f64> {
        let (rate, wait_ms) = self.figures.map(|of| match direction {
            IoDirection::Read => (of.reads_per_s, of.read_wait_ms),
            IoDirection::Write => (of.writes_per_s, of.write_wait_ms),
        })?;
        (rate > 0.0).then_some(wait_ms)
    }
}

impl Watching {
    pub(super) fn new(
        args: &Args,
        every: Nanos,
        groups: Vec<WatchedGroup>,
    ) -> Result<Watching, Failure> {
        let known = args.history.as_deref().map_or_else(|| Ok(BTreeMap::new()), read_history);
        let known = known.map_err(Failure::WrongUse)?;
        let judged = groups.into_iter().map(|group| {
            let disks = group.disks.iter().map(|disk| {
                (disk.facts(), known.get(&disk.history_key()).cloned().unwrap_or_default())
            });
            let judge = Judge::new(disks);
            (group, judge)
        });
        Ok(Watching {
            every,
            groups: judged.collect(),
            last: None,
            trails: BTreeMap::new(),
            history: args.history.clone(),
            saved_at: Nanos::ZERO,
            now: Nanos::ZERO,
        })
    }

    /// Judges a sample by its difference to the one before; returns true if disks were evaluated.
    pub(super) fn observe(&mut self, sample: DiskSample) -> Result<bool, Failure> {
        self.now = Nanos(sample.at_ns);
        let mut is_evaluated = false;
        if let Some(last) = &self.last {
            for (group, judge) in &mut self.groups {
                let windows = sample.windows(last, group);
                if judge.observe(self.now, self.every, &windows) {
                    is_evaluated = true;
                    for (facts, _, figures, _) in judge.disks() {
                        let trail = self.trails.entry(facts.name.clone()).or_default();
                        trail.push(figures.map_or(0.0, |it| it.read_wait_ms.max(it.write_wait_ms)));
                        let surplus = trail.len().saturating_sub(TRAIL_MAX);
                        trail.drain(..surplus);
                    }
                }
            }
        }
        self.last = Some(sample);
        if self.now >= self.saved_at.saturating_add(SAVE_INTERVAL) {
            self.save()?;
        }
        Ok(is_evaluated)
    }

    /// The time of the last sample.
    pub(super) fn now(&self) -> Nanos {
        self.now
    }

    pub(super) fn disks(&self) -> impl Iterator<Item = DiskRow<'_>> {
        self.groups.iter().flat_map(|(group, judge)| {
            group.disks.iter().zip(judge.disks()).map(|(disk, (_, state, figures, _))| {
                let trail = self.trails.get(&disk.name).map_or(&[][..], Vec::as_slice);
                DiskRow { group, disk, state, figures, trail }
            })
        })
    }

    pub(super) fn slow_disks(&self) -> Vec<String> {
        let slow = self.disks().filter(|it| it.state.is_alarm());
        slow.map(|it| it.disk.name.clone()).collect()
    }

    pub(super) fn has_slow_disk(&self) -> bool {
        !self.slow_disks().is_empty()
    }

    /// Saves what is known of the disks, if a file is named for it.
    pub(super) fn save(&mut self) -> Result<(), Failure> {
        self.saved_at = self.now;
        let Some(path) = &self.history else { return Ok(()) };
        // Disks that are not there now are remembered.
        let mut known = read_history(path).map_err(Failure::Fault)?;
        for (group, judge) in &self.groups {
            for (disk, (.., history)) in group.disks.iter().zip(judge.disks()) {
                known.insert(disk.history_key(), history.clone());
            }
        }
        let text = serde_json::to_string(&known).context("the history has no JSON");
        let text = text.map_err(Failure::Fault)? + "\n";
        output_file::write(path, &text, Existing::Replace).map_err(Failure::Fault)
    }
}

fn read_history(path: &Path) -> anyhow::Result<BTreeMap<String, DiskHistory>> {
    let length = match fs::metadata(path) {
        Ok(found) => found.len(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let help = "help: name another file, or remove this one";
    if length > HISTORY_BYTES_MAX {
        return Err(anyhow!("{} is no history of disks: it is too long\n  {help}", path.display()));
    }
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let parsed = serde_json::from_str(&text);
    parsed.map_err(|error| anyhow!("{} is no history of disks: {error}\n  {help}", path.display()))
}

pub(crate) struct SampleRecording {
    path: PathBuf,
    lines: Lines<BufReader<File>>,
    number: u64,
    last: Option<u64>,
    /// Time between samples.
    pub(crate) every: Nanos,
    /// The disks, by array.
    pub(crate) groups: Vec<WatchedGroup>,
}

impl SampleRecording {
    pub(crate) fn open(path: &Path) -> Result<SampleRecording, Failure> {
        let wrong = |what: String| not_recorded(path, &what);
        let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
        let mut lines = BufReader::new(file).lines();
        let first = lines.next().ok_or_else(|| wrong("the file is empty".to_owned()))?;
        let first = first.map_err(|error| wrong(error.to_string()))?;
        let header: SampleHeader =
            serde_json::from_str(&first).map_err(|error| wrong(format!("line 1: {error}")))?;
        let (path, every, groups) = (path.to_owned(), Nanos(header.every_ns), header.groups);
        Ok(SampleRecording { path, lines, number: 1, last: None, every, groups })
    }

    /// The next sample; `None` at the end.
    pub(crate) fn next_sample(&mut self) -> Result<Option<DiskSample>, Failure> {
        let Some(line) = self.lines.next() else { return Ok(None) };
        self.number += 1;
        let (path, number) = (&self.path, self.number);
        let wrong = |what: String| not_recorded(path, &format!("line {number}{what}"));
        let line = line.map_err(|error| wrong(format!(": {error}")))?;
        let sample: Result<DiskSample, _> = serde_json::from_str(&line);
        let sample = sample.map_err(|error| wrong(format!(": {error}")))?;
        if self.last.is_some_and(|last| sample.at_ns <= last) {
            return Err(wrong(" is not later than the line before".to_owned()));
        }
        self.last = Some(sample.at_ns);
        Ok(Some(sample))
    }
}

fn not_recorded(path: &Path, what: &str) -> Failure {
    let help = "help: give a file that `mirrorball watch --record` wrote";
    Failure::WrongUse(anyhow!("{}: {what}\n  {help}", path.display()))
}

pub(super) fn replayed(args: &Args, path: &Path) -> Result<Watching, Failure> {
    let mut recording = SampleRecording::open(path)?;
    let mut watching = Watching::new(args, recording.every, recording.groups.clone())?;
    while let Some(sample) = recording.next_sample()? {
        watching.observe(sample)?;
    }
    watching.save()?;
    Ok(watching)
}
