//! A question as a page runs it: cell by cell, in one or several workers.
//!
//! A worker runs the cells of one job and one seed at a time, so that policies that choose alike
//! share a run. One worker gathers the cells of all, and answers as soon as it has the cells of the
//! first repeats; the last answer, from all of them, is that of `mirrorball advise`.

use anyhow::{Context, Result, bail};
use mirrorball_core::units::parse_duration;
use mirrorball_disk::array_file::ArrayFile;
use mirrorball_lab::evaluation::advice::advised_array;
use mirrorball_lab::evaluation::advice::answer::{Answer, ArrayAnswer, OutOfService, WhatIf};
use mirrorball_lab::evaluation::advice::chosen_system::ChosenSystem;
use mirrorball_lab::evaluation::advice::maintenance::Maintenance;
use mirrorball_lab::evaluation::advice::question::{
    AdviceQuestion, QuestionOptions, Share, devids_for_choice,
};
use mirrorball_lab::evaluation::advice::state::{first_steps, lost_data, remark_on_rate};
use mirrorball_lab::evaluation::advice::text;
use mirrorball_lab::experiment::build::BuildIdentity;
use mirrorball_lab::experiment::executor::CellExecutor;
use mirrorball_lab::experiment::inputs::{Inputs, builtin_job_text};
use mirrorball_lab::experiment::plan::Cell;
use mirrorball_lab::experiment::record::CellRecord;
use mirrorball_lab::experiment::results::record_text;
use mirrorball_lab::experiment::simulate::SimExecutor;
use mirrorball_lab::experiment::study::CellSummary;
use mirrorball_lab::report::Style;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// A question of a page.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Asked {
    name: String,
    text: String,
    /// Jobs of the person's own, name and text; none for the standard ones.
    #[serde(default)]
    jobs: Vec<(String, String)>,
    /// The storage system, as `--system` takes it, if the array file does not name it.
    #[serde(default)]
    system: Option<String>,
    /// Hash of the module.
    build: String,
    #[serde(default)]
    repeats: Option<u32>,
    #[serde(default)]
    duration: Option<String>,
    /// The unusual condition of the array, as `detect` words it.
    #[serde(default)]
    condition: Option<String>,
    /// Members that the advice takes for in service, and that are not.
    #[serde(default)]
    out: Vec<OutOfService>,
    /// Changes since the array of the question before, in words: the answer compares the two.
    #[serde(default)]
    changes: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Run {
    question: AdviceQuestion,
    condition: Option<String>,
    out: Vec<OutOfService>,
    /// By the places of job, policy and repeat in the plan.
    summaries: BTreeMap<(usize, usize, u32), CellSummary>,
    /// The array of the question before, as it was answered, and the changes since.
    before: Option<(ArrayAnswer, Vec<String>)>,
    answer: Option<ArrayAnswer>,
}

/// Nothing sets it: a page ends the worker.
static NEVER: AtomicBool = AtomicBool::new(false);

impl Run {
    /// The question, and the array of the question before it.
    pub(crate) fn new(asked: Asked, before: Option<Run>) -> Result<Run> {
        let Asked { name, text, jobs, system, build, .. } = asked;
        let Asked { repeats, duration, condition, mut out, changes, .. } = asked;
        let before = before.filter(|_| !changes.is_empty());
        let longest = before.as_ref().map_or(Vec::new(), |run| run.question.durations.clone());
        let before = before.and_then(|run| run.answer);
        let (file, chosen) = advised(&name, &text, system)?;
        out.extend(advised_array::out_of_service(&read(&name, &text)?.spec));
        let own = QuestionOptions::default();
        let options = QuestionOptions {
            repeats,
            duration: duration.map(|text| parse_duration(&text)).transpose()?,
            jobs: jobs.iter().map(|(name, _)| name.clone()).collect(),
            longest,
            ..own
        };
        let mut texts: Vec<(&str, &str)> =
            jobs.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let names = options.job_names();
        if texts.is_empty() {
            let text = |name: &str| builtin_job_text(name).unwrap_or_default();
            texts = names.iter().map(|name| (name.as_str(), text(name))).collect();
        }
        let source = file.spec.source.as_ref();
        let condition = condition.or_else(|| source.and_then(|source| source.condition.clone()));
        let inputs = Inputs::from_texts((&name, &file.text), &texts)?;
        let build = BuildIdentity::with_hash(build);
        let question = AdviceQuestion::new(&name, inputs, chosen, options, Share::Whole, build)?;
        let before = before.map(|answer| (answer, changes));
        Ok(Run { question, condition, out, summaries: BTreeMap::new(), before, answer: None })
    }

    pub(crate) fn plan(&self) -> Value {
        let plan = &self.question.plan;
        json!({
            "jobs": plan.jobs.iter().map(|job| &job.name).collect::<Vec<&String>>(),
            "seeds": self.question.round,
            "policies": plan.policies,
            "note": self.question.chosen.note,
        })
    }

    /// Runs the cells of one job with one seed, and returns their files, one in each line.
    pub(crate) fn cells(&mut self, seed: usize, job: usize) -> Result<String> {
        let plan = self.question.plan.clone();
        let executor = SimExecutor::new(&self.question.inputs, &NEVER)?;
        let mut lines = Vec::new();
        let mut records = Vec::new();
        let is_asked = |cell: &&Cell<'_>| (cell.job_index, cell.repeat as usize) == (job, seed);
        for cell in plan.cells().iter().filter(is_asked) {
            let record = cell.record(executor.run(cell)?);
            lines.push(format!("{}\t{}", cell.file_name(), record_text(&record)));
            records.push(record);
        }
        drop(executor);
        for record in records {
            self.keep(record)?;
        }
        Ok(lines.join("\n"))
    }

    /// Adds cells that another worker ran.
    pub(crate) fn add(&mut self, lines: &str) -> Result<Value> {
        for line in lines.lines() {
            let (_, text) = line.split_once('\t').context("a line has the name of a file first")?;
            self.keep(serde_json::from_str(text)?)?;
        }
        Ok(json!({ "cells": self.summaries.len() }))
    }

    fn keep(&mut self, record: CellRecord) -> Result<()> {
        let plan = &self.question.plan;
        let job = plan.jobs.iter().position(|job| job.name == record.cell.job);
        let policy = plan.contenders().position(|policy| policy == record.cell.policy);
        let (job, policy) = job.zip(policy).context("a cell of another question")?;
        self.summaries.insert((job, policy, record.cell.repeat), CellSummary::new(record));
        Ok(())
    }

    /// The answer from the cells of the first repeats, their plan, and the number of repeats that
    /// are to be run after them.
    pub(crate) fn answer(&mut self, repeats: usize) -> Result<Value> {
        let plan = &self.question.plan;
        let first = self.summaries.iter().filter(|((.., repeat), _)| (*repeat as usize) < repeats);
        let summaries: Vec<CellSummary> = first.map(|(_, summary)| summary.clone()).collect();
        if summaries.len() != plan.jobs.len() * plan.contenders().count() * repeats {
            bail!("cells of the first {repeats} repeats are missing");
        }
        let is_last = repeats < self.question.round
            || repeats == plan.seeds.len()
            || self.question.is_settled(repeats, &summaries);
        let more = if is_last { 0 } else { self.question.round };
        let part = plan.clone().with_seeds(plan.seeds[..repeats].to_vec());
        let part = serde_json::to_string_pretty(&part).expect("a plan is plain data") + "\n";
        let (mut array, is_dead) = self.question.answer(repeats, summaries, &self.out, None);
        array.condition.clone_from(&self.condition);
        let (system, spec) = (self.question.chosen.system, &self.question.inputs.array);
        let condition = array.condition.as_deref();
        let add = array.add_commands();
        array.first = first_steps(system, spec, condition, &self.out, add);
        let mut value = self.written(&array, is_dead);
        value["more"] = json!(more);
        value["plan"] = json!(part);
        self.answer = Some(array);
        Ok(value)
    }

    /// The answer with the times of scrub, rebuild and flushes.
    pub(crate) fn maintain(&mut self) -> Result<Value> {
        let mut answer = self.answer.take().context("there is no answer yet")?;
        if let Some(options) = self.question.maintenance(&answer, &self.out, None, &NEVER) {
            answer.set_maintenance(Maintenance::measure(&self.question.inputs.array, &options)?);
            answer
                .first
                .extend(remark_on_rate(self.condition.as_deref(), answer.maintenance.as_ref()));
        }
        let value = self.written(&answer, false);
        self.answer = Some(answer);
        Ok(value)
    }

    /// The answer as it is printed. With an array before, that is the first, and this one the same
    /// after changes.
    fn written(&self, array: &ArrayAnswer, is_dead: bool) -> Value {
        let array = array.clone();
        let answer = match &self.before {
            None => Answer { array, what_if: None, changes: Vec::new() },
            Some((before, changes)) => {
                let what_if = Some(WhatIf::new(changes.clone(), before, array));
                Answer { array: before.clone(), what_if, changes: Vec::new() }
            }
        };
        let text = text::answer(&answer, Style::FILE);
        json!({ "answer": answer, "text": text, "is_dead": is_dead })
    }
}

fn read(name: &str, text: &str) -> Result<ArrayFile> {
    Ok(ArrayFile::parse(text, &format!("{name}.toml"))?)
}

/// The array that advice is for, and its storage system.
fn advised(name: &str, text: &str, system: Option<String>) -> Result<(ArrayFile, ChosenSystem)> {
    let mut file = read(name, text)?;
    let chosen: ChosenSystem = match (&file.spec.source, system) {
        (_, Some(system)) => system.parse().map_err(anyhow::Error::msg)?,
        (Some(source), None) => ChosenSystem::found(&source.system, source.version.as_deref())?,
        (None, None) => ChosenSystem::found("md", None)?,
    };
    if let Some(lost) = lost_data(&file.spec) {
        bail!("no advice for {}: {lost}", file.spec.name);
    }
    if let Some(whole) = advised_array::whole(&file) {
        file = read(name, &whole)?;
    }
    if let [missing, ..] = devids_for_choice(&file.spec)[..] {
        bail!(
            "no advice for {}: devid {missing} is missing, and each block has one copy on the \
             others, so no read has a choice\n  help: add the disk that takes its place",
            file.spec.name
        );
    }
    Ok((file, chosen))
}
