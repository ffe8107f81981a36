//! The runs of a benchmark, one after the other.

use super::changed_array::ChangedArray;
use super::data_folder::{self, DATA_FILE, DataFolder};
use super::design::BenchStep;
use super::fio_job::{JobPlace, job_for_fio};
use super::fio_run::{self, FioCommand, FioEnd, FioRun, FioWatch};
use super::measured_cell::{self, Windows};
use super::outcome::{BenchControl, BenchEvent, BenchOutcome, RunConditions, SavedRun};
use super::pid_remainders::{self, PidRemainders};
use super::request::{Bench, DataPlace};
use super::saved_runs;
use super::stability::steadiness;
use crate::probe::quantile;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::Nanos;
use mirrorball_lab::experiment::plan::Cell;
use mirrorball_lab::experiment::record::{CellRecord, CounterRecord};
use mirrorball_lab::experiment::results::Results;
use mirrorball_lab::experiment::study::CellSummary;
use std::fmt::Display;
use std::fs;
use std::path::Path;

/// Folder of fio's files within the results folder.
const FIO_FOLDER: &str = "fio";
/// How often a run is tried if the host was late.
const ATTEMPTS: usize = 3;
/// How often fio is started for a process with the remainder that is due.
const STARTS_MAX: usize = 40;

pub(super) struct BenchRuns<'a, 'c> {
    bench: &'a Bench,
    results: Results,
    control: BenchControl<'a>,
    changed: &'c mut ChangedArray,
    devids: Vec<u64>,
    /// The kernel's names of the members, empty for one without a disk that counts.
    members: Vec<String>,
    /// The value of each knob, as it was set last.
    now: Vec<String>,
    /// None if no choice follows from processes, or their numbers are not known.
    remainders: Option<PidRemainders>,
    /// The folder with the data; none before it is created, and without one.
    folder: Option<DataFolder>,
    outcome: BenchOutcome,
}

enum Attempt {
    Good(FioRun, Nanos),
    Late(Nanos),
    Stopped,
}

impl<'a, 'c> BenchRuns<'a, 'c> {
    /// The runs of a benchmark whose journal is written; `kept` were done before.
    pub(super) fn new(
        bench: &'a Bench,
        results: Results,
        kept: Vec<SavedRun>,
        control: BenchControl<'a>,
        changed: &'c mut ChangedArray,
    ) -> BenchRuns<'a, 'c> {
        let members = bench.array.members.iter();
        BenchRuns {
            bench,
            results,
            control,
            changed,
            devids: members.clone().map(|member| member.devid).collect(),
            members: members.map(|it| bench.counted_name(it).unwrap_or_default()).collect(),
            now: bench.arms.in_force.clone(),
            remainders: PidRemainders::new(bench.array.profile)
                .filter(|_| bench.sysroot.is_live() && PidRemainders::are_known()),
            folder: None,
            outcome: BenchOutcome { runs: kept, ..BenchOutcome::default() },
        }
    }

    /// Does all of them. If another program changes the array, fio fails, or a file cannot be
    /// written, the outcome says so, and has the runs before that.
    pub(super) fn all(mut self) -> BenchOutcome {
        match self.in_order() {
            Ok(is_whole) => BenchOutcome { is_interrupted: !is_whole, ..self.outcome },
            Err(error) => BenchOutcome { failure: Some(error), ..self.outcome },
        }
    }

    /// Returns false if it was stopped.
    fn in_order(&mut self) -> Result<bool, Diagnostic> {
        let folder = self.results.folder().join(FIO_FOLDER);
        fs::create_dir_all(&folder).map_err(|error| cannot("create the folder", &folder, error))?;
        let bench = self.bench;
        let steps = bench.steps();
        let Some(first) = steps.iter().position(|step| !self.has(step)) else { return Ok(true) };
        let Some(file) = self.data()? else { return Ok(false) };
        for (index, step) in steps.iter().enumerate().skip(first) {
            if self.has(step) {
                continue;
            }
            let cell = bench.cell(step);
            (self.control.on_event)(BenchEvent::Run {
                number: index + 1,
                of: steps.len(),
                job: &cell.job().name,
                policy: cell.policy,
            });
            bench.check_array()?;
            self.changed.check_watchdog()?;
            self.apply(step.arm)?;
            if !self.step(step, &cell, &file)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True if the run was done, by this bench or an earlier one.
    fn has(&self, step: &BenchStep) -> bool {
        let is_it =
            |run: &SavedRun| (run.job, run.arm, run.round) == (step.job, step.arm, step.round);
        self.outcome.runs.iter().any(is_it)
    }

    /// The file or device to read; `None` if writing the file was stopped.
    fn data(&mut self) -> Result<Option<String>, Diagnostic> {
        let folder = match &self.bench.place {
            DataPlace::Device(device) => return Ok(Some(device.clone())),
            DataPlace::Folder { folder, .. } => folder,
        };
        let created = match DataFolder::create(folder) {
            Ok(created) => created,
            Err(error) => {
                // A folder of this name that was there is not ours to remove.
                self.changed.forget_folder()?;
                return Err(cannot("create the folder", folder, error));
            }
        };
        self.changed.folder_created(created.inode())?;
        let file = self.folder.insert(created).path().join(DATA_FILE);
        let bytes = self.bench.size_bytes;
        let control = &mut self.control;
        let mut on_written =
            |written| (control.on_event)(BenchEvent::WritesData { bytes, written });
        let is_whole = data_folder::write_data(&file, bytes, control.is_stopped, &mut on_written)
            .map_err(|error| cannot("write", &folder.join(DATA_FILE), error))?;
        Ok(is_whole.then(|| file.display().to_string()))
    }

    /// Sets the knobs of a setting that have another value, unless another program changed one.
    fn apply(&mut self, arm: usize) -> Result<(), Diagnostic> {
        self.check_knobs()?;
        let values = &self.bench.arms.arms[arm].values;
        for (number, (knob, value)) in self.bench.arms.knobs.iter().zip(values).enumerate() {
            if self.now[number] != *value {
                let set = knob.set(&self.bench.sysroot, value);
                set.map_err(|error| Diagnostic::new(error.to_string()))?;
                self.now[number].clone_from(value);
            }
        }
        Ok(())
    }

    /// Checks that every knob shows what it was set to.
    fn check_knobs(&self) -> Result<(), Diagnostic> {
        let arms = &self.bench.arms;
        for ((knob, now), before) in arms.knobs.iter().zip(&self.now).zip(&arms.in_force) {
            let shown = knob.value(&self.bench.sysroot);
            let shown = shown.map_err(|error| Diagnostic::new(error.to_string()))?;
            if shown != *now {
                self.changed.forget_knob(&knob.path)?;
                let what = format!(
                    "{} shows `{shown}`, but bench left it at `{now}`: another program changed \
                     it, so bench leaves it at `{shown}`; before bench it was `{before}`",
                    knob.path
                );
                let help = "stop the other program, set the policy that you want, and run bench \
                            again";
                return Err(Diagnostic::new(what).with_help(help));
            }
        }
        Ok(())
    }

    /// Does one run, and repeats it if the host was late. Returns false if it was stopped.
    fn step(&mut self, step: &BenchStep, cell: &Cell<'_>, file: &str) -> Result<bool, Diagnostic> {
        for attempt in 1..=ATTEMPTS {
            match self.attempt(step, cell, file)? {
                Attempt::Stopped => return Ok(false),
                Attempt::Good(run, lateness) => {
                    // A run during which the array or a setting has changed is void.
                    self.bench.check_array()?;
                    self.check_knobs()?;
                    self.save(step, cell, &run, lateness)?;
                    return Ok(true);
                }
                Attempt::Late(lateness) => {
                    let is_repeated = attempt < ATTEMPTS;
                    (self.control.on_event)(BenchEvent::Late { lateness, is_repeated });
                }
            }
        }
        let (job, round) = (&cell.job().name, step.round + 1);
        self.outcome.refused.push(format!("{job} under {} in round {round}", cell.policy));
        Ok(true)
    }

    fn attempt(
        &mut self,
        step: &BenchStep,
        cell: &Cell<'_>,
        file: &str,
    ) -> Result<Attempt, Diagnostic> {
        let job = &self.bench.jobs[step.job];
        let name = cell.file_name();
        let base = self.results.folder().join(FIO_FOLDER).join(&name);
        let job_path = base.with_extension("fio");
        let place = JobPlace {
            file,
            settle: self.bench.times.settle,
            measure: self.bench.times.measure,
            seed: cell.seed,
        };
        fs::write(&job_path, job_for_fio(&job.text, &place))
            .map_err(|error| cannot("write", &job_path, error))?;
        let is_read_only = matches!(self.bench.place, DataPlace::Device(_));
        let command = FioCommand { job: &job_path, output: &base, is_read_only };
        let Some(run) = self.watched(step, cell, &command)? else { return Ok(Attempt::Stopped) };
        let lateness = Nanos::from_secs_f64(quantile(&run.lateness, 0.99));
        Ok(match lateness > self.bench.lateness_max {
            true => Attempt::Late(lateness),
            false => Attempt::Good(run, lateness),
        })
    }

    /// Runs fio, started again until its process has the remainder that is due; `None` if it was
    /// stopped.
    fn watched(
        &self,
        step: &BenchStep,
        cell: &Cell<'_>,
        command: &FioCommand<'_>,
    ) -> Result<Option<FioRun>, Diagnostic> {
        let due = self.remainders_of(cell.policy).map(|it| (it, self.due(it, step)));
        for start in 1..=STARTS_MAX {
            if let Some((remainders, _)) = due {
                remainders.shift(start);
            }
            let accepts = |readers: &[u32]| {
                let (Some((remainders, due)), [first, ..]) = (due, readers) else { return true };
                start == STARTS_MAX || remainders.of(&[*first]) == [due]
            };
            let watch = FioWatch {
                sysroot: &self.bench.sysroot,
                members: &self.members,
                is_stopped: self.control.is_stopped,
                changed: &*self.changed,
                accepts: &accepts,
            };
            match fio_run::run(command, &watch)? {
                FioEnd::Done(run) => return Ok(Some(run)),
                FioEnd::Stopped => return Ok(None),
                FioEnd::NotAccepted => {}
            }
        }
        Err(Diagnostic::new("fio could not be started often enough"))
    }

    /// The remainder that the first process of a run is to have.
    fn due(&self, remainders: PidRemainders, step: &BenchStep) -> u32 {
        let of_step = |run: &&SavedRun| (run.job, run.arm) == (step.job, step.arm);
        let before = self.outcome.runs.iter().filter(of_step);
        let first = before.filter_map(|run| run.conditions.remainders.first().copied());
        let first: Vec<u32> = first.collect();
        remainders.least_seen(&first)
    }

    fn save(
        &mut self,
        step: &BenchStep,
        cell: &Cell<'_>,
        run: &FioRun,
        lateness: Nanos,
    ) -> Result<(), Diagnostic> {
        let settle = self.bench.times.settle;
        let windows = Windows { settle, groups: self.bench.jobs[step.job].groups };
        let record = measured_cell::record(cell, run, &self.devids, windows);
        let mut record = record.map_err(|error| {
            Diagnostic::new(format!("the output of fio for {} {error}", cell.job().name))
        })?;
        let remainders = self.remainders_of(cell.policy);
        let remainders = remainders.map_or_else(Vec::new, |it| it.of(&run.readers));
        record.run.counters.extend(remainders.iter().map(|&remainder| CounterRecord {
            devid: None,
            name: "remainder of the process".to_owned(),
            value: remainder.into(),
        }));
        let conditions = RunConditions {
            part_from_disks: part_from_disks(&record, self.devids.len()),
            window: measured_cell::window(&self.devids, windows, &run.samples),
            remainders,
            steadiness: steadiness(&measured_cell::rates(windows, &run.samples)),
            lateness_ns: lateness.0,
        };
        saved_runs::save(&self.results, &cell.file_name(), &conditions)?;
        let &BenchStep { job, arm, round } = step;
        let summary = CellSummary::new(record.clone());
        let run = SavedRun { job, arm, round, summary, conditions };
        let saved = match run.is_compared() {
            true => self.results.save(cell, &record),
            false => self.results.save_left_out(cell, &record),
        };
        saved.map_err(|error| Diagnostic::new(format!("{error:#}")))?;
        self.outcome.runs.push(run);
        Ok(())
    }

    /// The remainders that the choices of this policy follow from, if they do.
    fn remainders_of(&self, policy: &str) -> Option<PidRemainders> {
        self.remainders.filter(|_| pid_remainders::applies_to(policy))
    }
}

/// Bytes that the members read, as a part of those that the sections read; none if not every
/// member counts.
fn part_from_disks(record: &CellRecord, members: usize) -> Option<f64> {
    let run = &record.run;
    let asked: u64 = run.sections.iter().map(|section| section.read.bytes).sum();
    let read = run.sum_of_members(|member| member.read_bytes);
    (asked > 0 && run.members.len() == members).then(|| read as f64 / asked as f64)
}

fn cannot(what: &str, path: &Path, error: impl Display) -> Diagnostic {
    Diagnostic::new(format!("cannot {what} {}: {error}", path.display()))
}
