//! The plan that saved cells agree on, and whether a cell fits a plan.
//!
//! Cells that were imported, or that were moved out of their folder, have no `plan.json`. They
//! carry their array, their job, their policy and their seed, so the plan can be derived from them;
//! where they disagree about the contents of one name, the majority has it, and the first that was
//! read where there is none.

use crate::experiment::plan::{InputText, Plan, Reference};
use crate::experiment::record::{CellRecord, ORACLE, SCHEMA_VERSION};
use std::path::PathBuf;

/// The plan of `cells`, of which there is at least one. Its command is unknown and left empty.
pub(super) fn plan(cells: &[(PathBuf, CellRecord)]) -> Plan {
    let records = || cells.iter().map(|(_, record)| record);
    let about = majority(records().map(|record| (&*record.cell.array, record.array_text.as_str())));
    let &(name, text) = about.first().expect("there is a cell");
    let agree = |record: &&CellRecord| record.cell.array == name && record.array_text == text;
    let agreed = || records().filter(agree);
    let first = agreed().next().expect("the majority is among them");
    let source = |name: &str, text: &str| InputText {
        name: name.to_owned(),
        text: text.to_owned(),
        fingerprint: String::new(),
    };
    let job = |name: &str| {
        let texts = agreed().filter(|record| record.cell.job == name);
        let text = majority(texts.map(|record| record.job_text.as_str()))[0];
        source(name, text)
    };
    let job_names = distinct(agreed().map(|record| record.cell.job.as_str()));
    let duration = |job: &&str| {
        let own = agreed().filter(|record| record.cell.job == *job);
        majority(own.map(|record| record.cell.duration_ns))[0]
    };
    let durations = distinct(job_names.iter().map(duration));
    let duration_ns = durations[0].filter(|_| durations.len() == 1);
    let own = job_names.iter().filter_map(|job| Some(((*job).to_owned(), duration(job)?)));
    let job_durations_ns = own.filter(|_| durations.len() > 1).collect();
    let contenders = distinct(agreed().map(|record| record.cell.policy.as_str()));
    let mut seeds = distinct(agreed().map(|record| record.cell.seed));
    seeds.sort_unstable();
    let has_oracle = contenders.contains(&ORACLE);
    let policies = contenders.into_iter().filter(|policy| *policy != ORACLE);
    Plan {
        schema_version: SCHEMA_VERSION,
        build: first.build.clone(),
        command: String::new(),
        environment: first.environment.clone(),
        array: source(name, text),
        jobs: job_names.into_iter().map(job).collect(),
        policies: policies.map(str::to_owned).collect(),
        programs: Vec::new(),
        reference: if has_oracle { Reference::Oracle } else { Reference::Nothing },
        seeds,
        looks: 1,
        duration_ns,
        job_durations_ns,
        rank: None,
        baseline: None,
    }
}

/// Why `record` is of another experiment than `plan`; `None` if it is not.
pub(super) fn misfit(record: &CellRecord, plan: &Plan) -> Option<String> {
    let cell = &record.cell;
    if cell.array != plan.array.name {
        let (there, here) = (&cell.array, &plan.array.name);
        return Some(format!("is a result of array `{there}`, the others are of `{here}`"));
    }
    if record.array_text != plan.array.text {
        let array = &cell.array;
        return Some(format!("is a result of a different array that is also named `{array}`"));
    }
    let Some(job) = plan.jobs.iter().find(|job| job.name == cell.job) else {
        return Some(format!("is a result of job `{}`, which the plan does not have", cell.job));
    };
    if job.text != record.job_text {
        return Some(format!("is a result of a different job that is also named `{}`", cell.job));
    }
    if !plan.contenders().any(|policy| policy == cell.policy) {
        return Some(format!(
            "is a result of policy `{}`, which the plan does not have",
            cell.policy
        ));
    }
    if !plan.seeds.contains(&cell.seed) {
        return Some(format!("has seed {}, which the plan does not have", cell.seed));
    }
    (cell.duration_ns != plan.duration_of(&cell.job))
        .then(|| "was run with a different --duration than the others".to_owned())
}

/// Returns a remark if the cells were not all run by one build of the program.
pub(super) fn mixed_builds(cells: &[CellRecord]) -> Option<String> {
    let builds = distinct(cells.iter().map(|record| &record.build));
    let listed: Vec<String> = builds.iter().map(ToString::to_string).collect();
    let listed = listed.join(", ");
    (builds.len() > 1).then(|| format!("the cells come from several builds: {listed}"))
}

/// Each value once, the most frequent first, the earlier first among equals.
fn majority<T: PartialEq + Copy>(values: impl Iterator<Item = T> + Clone) -> Vec<T> {
    let mut counted: Vec<(T, usize)> = Vec::new();
    for value in values {
        match counted.iter_mut().find(|(other, _)| *other == value) {
            Some((_, count)) => *count += 1,
            None => counted.push((value, 1)),
        }
    }
    counted.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    counted.into_iter().map(|(value, _)| value).collect()
}

/// Each value once, in the order of appearance.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}
