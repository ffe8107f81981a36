//! Goals: what policies are ranked by, where the default score is not what a user is after.
//!
//! A goal is a list of terms, `SECTION.FIGURE` or `SECTION.KIND.FIGURE`, each with a weight:
//! `small.p99:2,large.mib`, `log.fsync.p99`. A figure alone (`p99`) stands for that figure of every
//! section that counts, `write.p99` for that of every one that also writes. The score is the
//! weighted geometric mean of the figures, of their inverses where less is better. Without terms it
//! is the default score (see [`super::score`]).

use super::summary::{CellSummary, IoKind, SectionSummary, distinct_names};
use crate::experiment::record::Percentiles;
use anyhow::{Result, bail};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::histogram::Histogram;
use mirrorball_core::suggest::closest_name;
use mirrorball_sim::job::{Direction, JobFile, Section};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;

/// What policies are ranked by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Goal {
    /// Its terms; none for the default score.
    pub terms: Vec<Term>,
}

/// One figure that a goal counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Kinds of its requests.
    pub kinds: Vec<IoKind>,
    /// True for background load, which counts only if the goal names the section.
    pub is_background: bool,
}

/// A figure by which policies can be ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// Lists the sections of jobs with the kinds of their requests.
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
    /// The sections of a job file.
    pub fn of_job(job: &JobFile) -> Vec<RankedSection> {
        let names = distinct_names(job.sections.iter().map(|section| section.name.as_str()));
        let sections = names.into_iter().zip(&job.sections);
        let ranked = sections.map(|(name, section)| RankedSection {
            name,
            kinds: kinds_of(section),
            is_background: !section.counts,
        });
        ranked.collect()
    }

    /// The sections of a cell, with the kinds of requests that it made.
    pub fn of_cell(cell: &CellSummary) -> Vec<RankedSection> {
        let ranked = |section: &SectionSummary| RankedSection {
            name: section.name.clone(),
            kinds: IoKind::ALL.into_iter().filter(|&it| !section.figures(it).is_idle()).collect(),
            is_background: section.is_background,
        };
        cell.sections.iter().map(ranked).collect()
    }
}

fn kinds_of(section: &Section) -> Vec<IoKind> {
    let directions = section.mix.directions();
    let mut kinds: Vec<IoKind> = directions
        .iter()
        .map(|direction| match direction {
            Direction::Read => IoKind::Read,
            Direction::Write => IoKind::Write,
            Direction::Trim => IoKind::Trim,
        })
        .collect();
    if section.fsync > 0 || section.fdatasync > 0 || section.final_flush {
        kinds.push(IoKind::Fsync);
    }
    kinds
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
    /// Its name in a goal.
    pub fn name(self) -> &'static str {
        let found = FIGURES.iter().find(|(_, figure)| *figure == self);
        found.expect("every figure has a name").0
    }

    /// The figure of a section as a score, the higher the better: a rate, or one over a latency in
    /// seconds. Zero if no request succeeded. `kind` is none for reads, writes and trims together.
    pub(super) fn score(self, section: &SectionSummary, kind: Option<IoKind>) -> f64 {
        let one;
        let kinds: &[IoKind] = match kind {
            None => &IoKind::SCORED,
            Some(kind) => {
                one = [kind];
                &one
            }
        };
        let counted = || kinds.iter().map(|&kind| section.figures(kind)).filter(|it| it.ios > 0);
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
mod tests {
    use super::*;

    fn term(section: &str, kind: Option<IoKind>, figure: Figure, weight: f64) -> Term {
        let section = (!section.is_empty()).then(|| section.to_owned());
        Term { section, kind, figure, weight }
    }

    fn section(name: &str, kinds: &[IoKind]) -> RankedSection {
        RankedSection { name: name.to_owned(), kinds: kinds.to_vec(), is_background: false }
    }

    #[test]
    fn terms_have_a_section_a_kind_a_figure_and_a_weight() {
        let goal = Goal::parse("small.p99:2, large.mib,log.fsync.p99.9,v1.2.iops:0.5,p50").unwrap();
        let expected = [
            term("small", None, Figure::P99, 2.0),
            term("large", None, Figure::Mib, 1.0),
            term("log", Some(IoKind::Fsync), Figure::P999, 1.0),
            term("v1.2", None, Figure::Iops, 0.5),
            term("", None, Figure::P50, 1.0),
        ];
        assert_eq!(goal.terms, expected);
        let shown = "small.p99:2,large.mib,log.fsync.p99.9,v1.2.iops:0.5,p50";
        assert_eq!(goal.to_string(), shown);
        assert_eq!(Goal::parse(shown).unwrap(), goal);
        assert_eq!(
            Goal::parse("write.p99").unwrap().terms,
            [term("", Some(IoKind::Write), Figure::P99, 1.0)]
        );
    }

    #[test]
    fn what_is_mistyped_is_answered_with_the_nearest() {
        let message = |text: &str| Goal::parse(text).unwrap_err().to_string();
        assert!(
            message("small.men")
                .contains("is not the name of a figure\n  help: did you mean `mean`?"),
            "{}",
            message("small.men")
        );
        for text in ["p97", "rand.p98", "small.p9"] {
            let message = message(text);
            let help = "the percentiles are p50, p90, p95, p99, p99.9, p99.99";
            assert!(message.ends_with(help), "{message}");
        }
        assert_eq!(message("iops:2:3"), "`iops:2:3` has two weights\n  help: write iops:2");
        assert!(message(":2").starts_with("the figure before `:2` is missing\n  help: "));
        assert!(message("p99,,iops").starts_with("the list of figures has an empty item"));
        assert!(message("small").contains("the figures are iops, mib"), "{}", message("small"));
        for weight in ["x", "0", "-1", "1e308", "1e-7", "inf", "nan"] {
            let message = message(&format!("small.p99:{weight}"));
            assert!(message.contains("not a number from 0.000001 to 1000000"), "{message}");
        }
        assert!(Goal::parse("small.p99:1e6,large.mib:1e-6").is_ok());
        for text in [".p99", ".read.p99"] {
            let (message, rest) = (message(text), &text[1..]);
            assert!(message.contains(&format!("write SECTION{text}, or {rest}")), "{message}");
        }
    }

    #[test]
    fn section_with_the_name_of_a_kind_of_requests_is_ambiguous() {
        let kinds = [IoKind::Read, IoKind::Write];
        let names = ["read", "log", "log.write"];
        let jobs = [("two".to_owned(), names.map(|name| section(name, &kinds)).to_vec())];
        let checked = |text: &str| Goal::parse(text).unwrap().check(&jobs);
        let error = checked("read.p99").unwrap_err().to_string();
        assert!(error.contains("but a section has the name `read`"), "{error}");
        assert!(error.contains("write read.read.p99 for"), "{error}");
        let error = checked("log.write.mib").unwrap_err().to_string();
        assert!(error.contains("the write requests of section `log`"), "{error}");
        for text in ["read.read.p99", "log.write.write.mib", "log.read.p99", "write.p99", "p99"] {
            checked(text).expect(text);
        }
    }

    #[test]
    fn sections_are_checked_against_the_jobs() {
        let names =
            |names: &[&str]| names.iter().map(|name| section(name, &[IoKind::Read])).collect();
        let jobs = [("two".to_owned(), names(&["small", "large"]))];
        let checked = |text: &str| Goal::parse(text).unwrap().check(&jobs);
        assert!(checked("small.p99,large.mib").is_ok() && checked("p99").is_ok());
        let error = checked("smal.p99").unwrap_err().to_string();
        assert!(error.contains("did you mean `small`?"), "{error}");
        let more = [jobs[0].clone(), ("one".to_owned(), names(&["reader"]))];
        let error = Goal::parse("small.p99").unwrap().check(&more).unwrap_err().to_string();
        assert!(error.contains("job `one`") && error.contains("reader"), "{error}");
        assert!(Goal::default().check(&more).is_ok());
    }

    #[test]
    fn kinds_are_checked_against_the_requests_of_the_sections() {
        let reads = ("reads".to_owned(), vec![section("reader", &[IoKind::Read])]);
        let both = [section("reader", &[IoKind::Read]), section("log", &[IoKind::Write])];
        let mixed = ("mixed".to_owned(), both.to_vec());
        let checked = |text: &str, jobs: &[(String, Vec<RankedSection>)]| {
            Goal::parse(text).unwrap().check(jobs).map_err(|error| error.to_string())
        };
        let error = checked("write.p99", std::slice::from_ref(&reads)).unwrap_err();
        assert_eq!(
            error,
            "`write.p99` has no value, because every section is without write requests\n  help: \
             the sections of `reads` are reader (read)"
        );
        assert!(checked("write.p99", std::slice::from_ref(&mixed)).is_ok());
        let error = checked("reader.write.p99", std::slice::from_ref(&mixed)).unwrap_err();
        assert!(error.contains("because section `reader` is without write requests"), "{error}");
        let error = checked("write.p99", &[mixed, reads]).unwrap_err();
        assert!(error.contains("no figure in the list is of job `reads`"), "{error}");
        let background = RankedSection { is_background: true, ..section("log", &[IoKind::Write]) };
        let jobs = [("job".to_owned(), vec![section("reader", &[IoKind::Read]), background])];
        assert!(checked("write.p99", &jobs).is_err(), "background load does not count");
        assert!(checked("log.write.p99", &jobs).is_ok(), "unless it is named");
    }
}
