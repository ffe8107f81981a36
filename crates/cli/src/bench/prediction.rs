//! `--predicted`: a simulation of the same array and jobs, checked before anything is measured.

use crate::screen;
use anyhow::{Result, bail};
use mirrorball_disk::array_file::ArraySource;
use mirrorball_host::bench::{Bench, prediction_table};
use mirrorball_lab::experiment::plan::{InputText, Reference};
use mirrorball_lab::experiment::results::{self, ResultSet};
use mirrorball_lab::experiment::study::{Criteria, Study};
use mirrorball_lab::report::{Style, draw};
use std::path::{Path, PathBuf};

/// Predictions of a job.
pub(super) struct Prediction {
    folder: PathBuf,
    set: ResultSet,
}

impl Prediction {
    /// Reads the results in `folder`.
    ///
    /// # Errors
    /// If it has none.
    pub(super) fn load(folder: &Path) -> Result<Prediction> {
        let mut loaded = results::load(&[folder.to_owned()], &Criteria::default());
        let Some(set) = loaded.sets.pop() else {
            bail!(
                "--predicted: {} is not a folder with results\n  help: give the results folder of \
                 `mirrorball compare`",
                folder.display()
            );
        };
        Ok(Prediction { folder: folder.to_owned(), set })
    }

    /// Checks that these are simulations of the array and the jobs of `bench`, and returns what a
    /// user should know of them.
    ///
    /// # Errors
    /// If they are not, or share no setting with it.
    pub(super) fn check(&self, bench: &Bench) -> Result<Vec<String>> {
        let place = self.folder.display();
        let plan = &self.set.study.plan;
        if plan.reference == Reference::Nothing {
            bail!(
                "--predicted {place}: these results were measured, not simulated\n  help: give \
                 the results folder of `mirrorball compare`"
            );
        }
        self.check_array(bench)?;
        for job in &bench.plan.jobs {
            self.check_job(job)?;
        }
        let is_predicted = |policy: &&String| plan.policies.contains(policy);
        let (predicted, others): (Vec<&String>, Vec<&String>) =
            bench.plan.policies.iter().partition(is_predicted);
        if predicted.is_empty() {
            bail!(
                "--predicted {place}: it has none of the settings that are measured, but {}\n  \
                 help: simulate them: `mirrorball compare … --policy {}`",
                plan.policies.join(", "),
                bench.plan.policies.join(",")
            );
        }
        let note = |policy: &String| format!("{place} has no prediction of {policy}");
        Ok(others.into_iter().map(note).collect())
    }

    /// Checks the array by its identity if the simulated array was detected, else by the number of
    /// its members.
    fn check_array(&self, bench: &Bench) -> Result<()> {
        let place = self.folder.display();
        let plan = &self.set.study.plan;
        let ours = ArraySource::of_text(&bench.plan.array.text);
        let (theirs, ours) = match (ArraySource::of_text(&plan.array.text), ours) {
            (Some(theirs), Some(ours)) if theirs.is_same_array(&ours) => return Ok(()),
            (Some(theirs), Some(ours)) => (theirs.to_string(), ours.to_string()),
            _ => {
                let there = self.set.cells.first().map_or(0, |cell| cell.run.members.len());
                let here = bench.array.members.len();
                if there == here {
                    return Ok(());
                }
                let named = |name: &str, members| format!("{name} with {members} members");
                (named(&plan.array.name, there), named(&bench.array.name, here))
            }
        };
        bail!(
            "--predicted {place}: these are results of the array {theirs}, not of {ours}\n  help: \
             `mirrorball detect {} -o FILE.toml` describes it for `mirrorball compare`",
            mirrorball_core::diagnostic::quoted(
                bench.array.mount.as_deref().unwrap_or(&bench.array.name)
            )
        );
    }

    fn check_job(&self, job: &InputText) -> Result<()> {
        let (place, name) = (self.folder.display(), &job.name);
        let jobs = &self.set.study.plan.jobs;
        let Some(found) = jobs.iter().find(|other| other.name == *name) else {
            let names: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
            bail!(
                "--predicted {place}: it has no job `{name}`, but {}\n  help: name the jobs that \
                 it has, or simulate this one too",
                names.join(", ")
            );
        };
        if found.text != job.text && found.fingerprint != job.fingerprint {
            bail!(
                "--predicted {place}: its job `{name}` has other contents\n  help: simulate the \
                 job as it is now"
            );
        }
        Ok(())
    }

    /// Prints what was predicted next to what was measured.
    pub(super) fn print(
        &self,
        measured: &Study,
        style: Style,
    ) -> Result<(), crate::ending::Failure> {
        let Some(table) = prediction_table(&self.set.study, measured) else {
            screen::say("note: nothing that was predicted has a measurement");
            return Ok(());
        };
        let mut text = format!("\npredicted and measured\n\n{}", draw(&table.grid, style));
        text += &format!("\ngreatest difference {:.1} %", 100.0 * table.worst);
        if let Some(tau) = table.tau {
            text += &format!("; Kendall's tau of settings more than 10 % apart {tau:.2}");
        }
        screen::print(&(text + "\n"))
    }
}
