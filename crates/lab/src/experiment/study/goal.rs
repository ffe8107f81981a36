//! Goals: what policies are ranked by, where the default score is not what a user is after.
//!
//! A goal is a list of terms, `SECTION.FIGURE` or `SECTION.KIND.FIGURE`, each with a weight:
//! `small.p99:2,large.mib`, `log.fsync.p99`. A figure alone (`p99`) stands for that figure of every
//! section that counts, `write.p99` for that of every one that also writes. The score is the
//! weighted geometric mean of the figures, of their inverses where less is better. Without terms it
//! is the default score (see [`super::score`]).

use super::summary::CellSummary;
use crate::experiment::record::Percentiles;
use crate::experiment::record::{IoKind, SectionRecord};
use anyhow::{Result, bail};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::histogram::Histogram;
use mirrorball_core::suggest::closest_name;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;
use std::ops::RangeInclusive;

/// What policies are ranked by.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Goal {
    /// Its terms; none for the default score.
    pub terms: Vec<Term>,
}

/// One figure that a goal counts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Term {
    /// The section; none for every section that counts.
    pub section: Option<String>,
    /// The kind of requests; none for reads, writes and trims together.
    pub kind: Option<IoKind>,
    /// The figure.
    pub figure: Figure,
    /// Its exponent, relative to those of the other terms.
    pub weight: f64,
}

/// A section of a job, as far as a goal can name it.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedSection {
    /// Its name among the sections of the job.
    pub name: String,
    pub kinds: Vec<IoKind>,
    /// True for background load, which counts only if the goal names the section.
    pub is_background: bool,
}

/// A figure by which policies can be ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Requests per second.
    Iops,
    /// MiB per second.
    Mib,
    /// Mean latency.
    Mean,
    /// Median latency.
    P50,
    /// 90th percentile of the latency.
    P90,
    /// 95th percentile of the latency.
    P95,
    /// 99th percentile of the latency.
    P99,
    /// 99.9th percentile of the latency.
    #[serde(rename = "p99.9")]
    P999,
    /// 99.99th percentile of the latency.
    #[serde(rename = "p99.99")]
    P9999,
}

/// Every figure with its name in a goal.
const FIGURES: [(&str, Figure); 9] = [
    ("iops", Figure::Iops),
    ("mib", Figure::Mib),
    ("mean", Figure::Mean),
    ("p50", Figure::P50),
    ("p90", Figure::P90),
    ("p95", Figure::P95),
    ("p99", Figure::P99),
    ("p99.9", Figure::P999),
    ("p99.99", Figure::P9999),
];

/// Weights that a term may have. Larger ones could overflow when they are summed.
const WEIGHTS: RangeInclusive<f64> = 1e-6..=1e6;

/// What the default score is called in words.
const DEFAULT_GOAL: &str =
    "geometric mean over sections of IOPS, or of 1/mean latency where the job sets the rate";

impl Goal {
    /// Reads a list of terms, separated by commas.
    ///
    /// # Errors
    /// If a term has no known figure or its weight is out of bounds; the message names the nearest
    /// figure.
    pub fn parse(text: &str) -> Result<Goal> {
        let terms: Vec<Term> = text.split(',').map(Term::parse).collect::<Result<_>>()?;
        let is_same = |one: &Term, other: &Term| {
            (&one.section, one.kind, one.figure) == (&other.section, other.kind, other.figure)
        };
        let is_repeated = |(index, term): &(usize, &Term)| {
            terms[..*index].iter().any(|earlier| is_same(earlier, term))
        };
        if let Some((_, term)) = terms.iter().enumerate().find(is_repeated) {
            let name = Term { weight: 1.0, ..term.clone() };
            let error = Diagnostic::new(format!("`{name}` is given twice"));
            let weights = terms.iter().filter(|other| is_same(term, other)).map(|it| it.weight);
            let help = match weights.reduce(f64::max) {
                Some(weight) if weight > 1.0 => {
                    format!("give it once, with its weight: {}", Term { weight, ..term.clone() })
                }
                _ => format!("give it once; a weight makes it count more: {name}:2"),
            };
            return Err(error.with_help(help).into());
        }
        Ok(Goal { terms })
    }

    /// Checks that every term is a figure of some section, and that every job has a figure of some
    /// term. `jobs` are the names of the jobs, each with its sections.
    ///
    /// # Errors
    /// If not, or if a term is ambiguous; the message names the nearest section, or the sections
    /// of the job.
    pub fn check(&self, jobs: &[(String, Vec<RankedSection>)]) -> Result<(), Diagnostic> {
        let all = || jobs.iter().flat_map(|(_, sections)| sections);
        for term in &self.terms {
            term.check_ambiguity(all())?;
            let mut named = all().filter(|section| term.names(section)).peekable();
            if let (Some(name), None) = (&term.section, named.peek()) {
                let mut known: Vec<&str> = all().map(|section| section.name.as_str()).collect();
                known.sort_unstable();
                known.dedup();
                return Err(Diagnostic::new(format!("no section has the name `{name}`"))
                    .with_suggestion(name, &known, "the sections are"));
            }
            if let (Some(kind), false) =
                (term.kind, named.any(|section| term.is_figure_of(section)))
            {
                let (whose, kind) = match &term.section {
                    Some(name) => (format!("section `{name}`"), kind.name()),
                    None => ("every section".to_owned(), kind.name()),
                };
                return Err(Diagnostic::new(format!(
                    "`{term}` has no value, because {whose} is without {kind} requests"
                ))
                .with_help(listed(jobs)));
            }
        }
        for job in jobs {
            let fits = |term: &Term| term.sections(&job.1).next().is_some();
            if !self.terms.is_empty() && !self.terms.iter().any(fits) {
                return Err(Diagnostic::new(format!(
                    "no figure in the list is of job `{}`",
                    job.0
                ))
                .with_help(listed(std::slice::from_ref(job))));
            }
        }
        Ok(())
    }

    /// True for the default score.
    pub fn is_default(&self) -> bool {
        self.terms.is_empty()
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_default() {
            return formatter.write_str(DEFAULT_GOAL);
        }
        let terms: Vec<String> = self.terms.iter().map(ToString::to_string).collect();
        formatter.write_str(&terms.join(","))
    }
}

fn listed(jobs: &[(String, Vec<RankedSection>)]) -> String {
    let section = |section: &RankedSection| {
        let kinds: Vec<&str> = section.kinds.iter().map(|kind| kind.name()).collect();
        format!("{} ({})", section.name, kinds.join(", "))
    };
    let job = |(name, sections): &(String, Vec<RankedSection>)| {
        let sections: Vec<String> = sections.iter().map(section).collect();
        format!("the sections of `{name}` are {}", sections.join(", "))
    };
    jobs.iter().map(job).collect::<Vec<String>>().join("; ")
}

impl RankedSection {
    /// The sections of a cell, with the kinds of requests that it made.
    pub fn of_cell(cell: &CellSummary) -> Vec<RankedSection> {
        let ranked = |section: &SectionRecord| RankedSection {
            name: section.name.clone(),
            kinds: IoKind::ALL.into_iter().filter(|&it| !section.direction(it).is_idle()).collect(),
            is_background: section.is_background,
        };
        cell.run.sections.iter().map(ranked).collect()
    }
}

impl Term {
    /// True if the term names the section, or no section.
    fn names(&self, section: &RankedSection) -> bool {
        self.section.as_ref().is_none_or(|name| *name == section.name)
    }

    /// True if the section has requests of the kind.
    fn is_figure_of(&self, section: &RankedSection) -> bool {
        self.kind.is_none_or(|kind| section.kinds.contains(&kind))
    }

    /// The sections of a job whose figure the term is. Without a name, background sections are
    /// among them only if there are no others, as in the score.
    fn sections<'a>(
        &'a self,
        sections: &'a [RankedSection],
    ) -> impl Iterator<Item = &'a RankedSection> {
        let has_foreground = sections.iter().any(|section| !section.is_background);
        let counts = move |section: &&RankedSection| {
            self.section.is_some() || !has_foreground || !section.is_background
        };
        let fits = |section: &&RankedSection| self.names(section) && self.is_figure_of(section);
        sections.iter().filter(counts).filter(fits)
    }

    /// Fails if the term, which was read as one about a kind of requests, could also mean a section
    /// whose name ends in that kind: `read.p99` where a section has the name `read`.
    fn check_ambiguity<'a>(
        &self,
        mut sections: impl Iterator<Item = &'a RankedSection>,
    ) -> Result<(), Diagnostic> {
        let Some(kind) = self.kind.map(IoKind::name) else { return Ok(()) };
        let whose = self.section.as_deref();
        let name = whose.map_or(kind.to_owned(), |section| format!("{section}.{kind}"));
        if sections.all(|section| section.name != name) {
            return Ok(());
        }
        let figure = self.figure.name();
        let whose = whose.map_or("every section".to_owned(), |name| format!("section `{name}`"));
        let message = format!(
            "`{name}.{figure}` is ambiguous: it means the {kind} requests of {whose}, but a \
             section has the name `{name}`"
        );
        Err(Diagnostic::new(message).with_help(format!(
            "write {name}.{kind}.{figure} for the {kind} requests of section `{name}`, or rename \
             that section"
        )))
    }

    fn parse(text: &str) -> Result<Term> {
        let text = text.trim();
        // A section's name may hold dots and colons itself, so both are looked for from the end.
        let weighted = text.rsplit_once(':').map(|(name, weight)| (name, weight.parse::<f64>()));
        if let Some((before, _)) = text.rsplit_once(':')
            && let Some((figure, Ok(_))) =
                before.rsplit_once(':').map(|(figure, weight)| (figure, weight.parse::<f64>()))
            && FIGURES.iter().any(|(name, _)| figure.ends_with(name))
        {
            let error = Diagnostic::new(format!("`{text}` has two weights"));
            return Err(error.with_help(format!("write {before}")).into());
        }
        let (name, weight) = match weighted {
            None => (text, 1.0),
            Some((name, Ok(weight))) if WEIGHTS.contains(&weight) => (name, weight),
            Some((_, _)) => bail!(
                "the weight of `{text}` is not a number from {} to {}; an example is small.p99:2",
                WEIGHTS.start(),
                WEIGHTS.end()
            ),
        };
        if name.is_empty() {
            let error = Diagnostic::new(match text {
                "" => "the list of figures has an empty item".to_owned(),
                text => format!("the figure before `{text}` is missing"),
            });
            return Err(error
                .with_help("write for example p99:2, or small.p99 of a section")
                .into());
        }
        let found = FIGURES.iter().rev().find_map(|&(figure_name, figure)| {
            let rest = name.strip_suffix(figure_name)?;
            if rest.is_empty() {
                Some(("", figure))
            } else {
                Some((rest.strip_suffix('.')?, figure))
            }
        });
        let Some((before, figure)) = found else { return Err(unknown_figure(name).into()) };
        if before.is_empty() && name != figure.name() || before.starts_with('.') {
            bail!(
                "`{text}` names no section before the dot; write SECTION{name}, or {} for every \
                 section",
                name.trim_start_matches('.')
            );
        }
        let kind_of = |word: &str| IoKind::ALL.into_iter().find(|kind| kind.name() == word);
        let (section, kind) = match before.rsplit_once('.') {
            Some((section, word)) if kind_of(word).is_some() => (section, kind_of(word)),
            _ if kind_of(before).is_some() => ("", kind_of(before)),
            _ => (before, None),
        };
        let section = (!section.is_empty()).then(|| section.to_owned());
        Ok(Term { section, kind, figure, weight })
    }
}

fn unknown_figure(name: &str) -> Diagnostic {
    let names = FIGURES.map(|(name, _)| name);
    let last = name.rsplit('.').next().unwrap_or(name);
    let unknown = Diagnostic::new(format!("`{last}` is not the name of a figure"));
    let is_percentile = |word: &str| {
        word.strip_prefix('p')
            .is_some_and(|digits| digits.starts_with(|c: char| c.is_ascii_digit()))
    };
    if is_percentile(last) {
        let percentiles = names.into_iter().filter(|name| is_percentile(name));
        let listed = percentiles.collect::<Vec<&str>>().join(", ");
        return unknown.with_help(format!("the percentiles are {listed}"));
    }
    unknown.with_help(match closest_name(last, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!(
            "write SECTION.FIGURE, for example small.p99; the figures are {}",
            names.join(", ")
        ),
    })
}

impl fmt::Display for Term {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Term { section, kind, figure, weight } = self;
        let parts = [section.as_deref(), kind.map(IoKind::name), Some(figure.name())];
        formatter.write_str(&parts.into_iter().flatten().collect::<Vec<&str>>().join("."))?;
        if *weight == 1.0 { Ok(()) } else { write!(formatter, ":{weight}") }
    }
}

impl Figure {
    pub fn name(self) -> &'static str {
        let found = FIGURES.iter().find(|(_, figure)| *figure == self);
        found.expect("every figure has a name").0
    }

    /// The figure of a section as a score, the higher the better: a rate, or one over a latency in
    /// seconds. Zero if no request succeeded. `kind` is none for reads, writes and trims together.
    pub(super) fn score(self, section: &SectionRecord, kind: Option<IoKind>) -> f64 {
        let one;
        let kinds: &[IoKind] = match kind {
            None => &IoKind::SCORED,
            Some(kind) => {
                one = [kind];
                &one
            }
        };
        let counted = || kinds.iter().map(|&kind| section.direction(kind)).filter(|it| it.ios > 0);
        match self {
            Figure::Iops => counted().map(|figures| figures.iops).sum(),
            Figure::Mib => counted().map(|figures| figures.mib_per_s).sum(),
            _ => {
                let mut merged = Histogram::default();
                counted().for_each(|figures| merged.merge(&figures.latency));
                if merged.count() == 0 {
                    return 0.0;
                }
                1e9 / self.latency_ns(&Percentiles::from(&merged)).max(1) as f64
            }
        }
    }

    fn latency_ns(self, percentiles: &Percentiles) -> u64 {
        match self {
            Figure::Iops | Figure::Mib => unreachable!("rates are no latencies"),
            Figure::Mean => percentiles.mean_ns,
            Figure::P50 => percentiles.p50_ns,
            Figure::P90 => percentiles.p90_ns,
            Figure::P95 => percentiles.p95_ns,
            Figure::P99 => percentiles.p99_ns,
            Figure::P999 => percentiles.p99_9_ns,
            Figure::P9999 => percentiles.p99_99_ns,
        }
    }
}

#[cfg(test)]
mod tests;
