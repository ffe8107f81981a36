//! Advice: what an array has now, the best that its storage system offers, and the best known.
//!
//! Each of the three is named by the rules of the verdict (ties, spread, tails), among those
//! policies alone: the same cells are studied again without the others. What only some
//! installations of the system have, such as a kernel option, is named next to the best of what all
//! have, if it is better. Of the policies known, those within 2 % of the best are as good, and
//! the one that takes the least of the user is named.

pub mod advised_array;
pub mod answer;
pub mod chosen_system;
mod confidence;
pub mod effort;
pub mod figure_text;
pub mod load;
pub mod maintenance;
pub mod new_layouts;
pub mod page;
pub mod question;
mod served;
pub mod state;
pub mod text;

use crate::experiment::study::{JobStudy, Study};
use crate::experiment::systems::{
    Availability, Commands, InForce, Offer, Setting, System, offers_for,
};
use answer::{SectionFactor, section_factors};
use load::UnservedSection;
use mirrorball_core::policies::{PolicyInfo, Spec};
use mirrorball_disk::array_file::ArraySpec;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// An advantage below this factor is not worth a change.
const WORTHWHILE: f64 = 1.02;
/// The same where the factor is uncertain: a smaller one would be written as `about as fast`.
const WORTHWHILE_UNCERTAIN: f64 = 1.05;
/// The least gain where the models of some disks stand for disks of unknown kind, and the least in
/// reads for which a write-mostly flag is taken back: it also keeps writes short and lets a disk
/// sleep.
const CLEAR_GAIN: f64 = 1.1;
/// Spread over the repeats above which a factor is uncertain: it is rounded, and called `about`.
const UNCERTAIN: f64 = 0.25;

/// Policies within this fraction of the best are as good as it.
const TIE: f64 = 0.02;
/// The least gain for which a new volume is advised, to which the data must be copied.
const WORTH_A_NEW_VOLUME: f64 = 1.3;

/// A job whose speed falls below this factor is named.
const SLOWER: f64 = 0.95;

/// What the flag does that jobs without writes do not show.
const FLUSHES: &str = "Jobs that only read do not show what the flag does to flushes: see the \
                       times of a flush, or give the job fsync-writer.";

/// What the factors of settings for paths suppose.
const PATHS_ARE_THE_LIMIT: &str = "only if the paths, not the device, are the limit";
/// What they suppose where the models of some disks stand for disks of unknown kind.
const DISKS_ARE_AS_GUESSED: &str = "only if the disks are as guessed";

/// What to do with an array.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Advice {
    /// The system, in words.
    pub system: String,
    /// What is in force.
    pub now: String,
    /// True if the array does not say what is in force, so that the default stands for it.
    pub now_is_assumed: bool,
    /// The best that every installation of the system offers; none if no request succeeded.
    pub offered: Option<AdvisedPolicy>,
    /// The best that some installations offer, if it is better than that.
    pub conditional: Option<AdvisedPolicy>,
    /// The best of all policies compared, if it is better than those.
    pub known: Option<AdvisedPolicy>,
    /// What factors compare, in words: the figures by which the jobs are judged.
    pub compared: String,
    /// Sections whose rate is not reached with what is in force: the array does not serve them.
    pub unserved: Vec<UnservedSection>,
    /// How well the models of the members are known to fit their disks, in words.
    pub confidence: String,
    /// True if some reads can be served by several members.
    pub has_choice: bool,
    /// True if the models of some disks stand for disks of unknown kind: these are to be measured
    /// first, and only a clear gain is advised.
    pub is_guess: bool,
    /// True if the members are paths to one device, of which there is one copy.
    pub is_of_paths: bool,
    /// What users should know of the names of the system's settings.
    pub remark: Option<String>,
}

/// A policy that would be better than what is in force.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct AdvisedPolicy {
    /// Canonical policy string.
    pub spec: String,
    /// How much faster it is than what is in force; none if that completed nothing.
    pub factor: Option<f64>,
    /// How many times the requests/s it serves of the load that what is in force does not serve;
    /// none if that serves all of it.
    pub throughput: Option<f64>,
    /// True if it does not serve the load either.
    pub is_overloaded: bool,
    /// What the factor supposes, in words; none if nothing.
    pub only_if: Option<&'static str>,
    /// The number of jobs that the factor is a geometric mean of.
    pub jobs: usize,
    /// The jobs under which it is slower by more than 5 %.
    pub slower: Vec<SlowerJob>,
    /// Work that takes several times as long as with what is in force, in words; none without
    /// times of maintenance.
    pub slow_work: Option<String>,
    /// What it takes, in words; none if nothing.
    pub takes: Option<String>,
    /// True if `mirrorball serve` alone has it: the factors include the cost of its export.
    pub served: bool,
    /// The widest 95 % interval over the repeats of its figures and of those of what is in force,
    /// as a fraction.
    pub spread: Option<f64>,
    /// True if the factor is rounded: the spread is wide, or jobs were simulated for a shorter time
    /// than by default.
    pub is_rough: bool,
    /// How to put it into force.
    pub commands: Commands,
    /// What its user should know.
    pub note: Option<String>,
    /// True if it was not read in a source that the commands are right.
    pub is_unverified: bool,
}

/// A job under which an advised policy is slower than what is in force.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SlowerJob {
    /// Name of the job, or of a section of it as `SECTION of JOB`.
    pub job: String,
    /// Its speed as a factor of what is in force.
    pub factor: f64,
}

impl Advice {
    /// Advice for `array`, of whose system `settings` are what is offered and `now` is in force.
    /// All of them are policies of the study. The disks of the members `failed` are to be replaced
    /// first.
    pub fn new(
        study: &Study,
        system: &'static System,
        settings: &[Setting],
        now: &str,
        array: &ArraySpec,
        failed: &[u64],
    ) -> Advice {
        let is_default = now == system.default_spec(settings);
        let written = previous(array, now, is_default);
        let in_force = InForce { spec: now, written, is_default, failed };
        let choice = Chooser { study, system, settings, array, in_force };
        let is_offered = |it: &&Setting| it.availability == Availability::Offered;
        let offered = settings.iter().filter(is_offered);
        let mut specs: Vec<&str> = offered.map(|setting| setting.spec.as_str()).collect();
        if !specs.contains(&now) {
            specs.push(now);
        }
        let offered = choice.best_of(&specs).map(|best| choice.advised(best));
        let factor =
            |it: &Option<AdvisedPolicy>| it.as_ref().and_then(|it| it.factor).unwrap_or(1.0);
        // The best of those that take at most so much, if it is worth that.
        let best_within = |most: Need, least: f64| {
            let all = settings.iter().map(|setting| setting.spec.as_str());
            let fits = all.filter(|spec| choice.need(spec) <= most);
            let best = choice.best_of(&specs.iter().copied().chain(fits).collect::<Vec<_>>());
            best.map(|best| choice.advised(best)).filter(|it| choice.is_worth(it, least))
        };
        let conditional = best_within(Need::Condition, factor(&offered));
        let least = factor(&offered).max(factor(&conditional));
        let conditional = best_within(Need::NewVolume, least).or(conditional);
        let least = factor(&offered).max(factor(&conditional));
        let known_within = |most: Need| {
            let every = study.plan.policies.iter().map(String::as_str);
            let fits = every.filter(|spec| choice.need(spec) <= most);
            let (mut served, others): (Vec<&str>, Vec<&str>) =
                fits.partition(|spec| choice.is_served(spec));
            served.push(now);
            // Those with an export to pay for are no rivals of the others before it is paid.
            let bests = [served, others].map(|specs| {
                let best = choice.advised(choice.best_of(&specs)?);
                Some(best).filter(|it| choice.is_worth(it, least))
            });
            let net = |it: &AdvisedPolicy| {
                let tie = if it.served { 1.0 - TIE } else { 1.0 };
                it.factor.map_or(f64::INFINITY, |factor| factor * tie)
            };
            bests.into_iter().flatten().max_by(|left, right| net(left).total_cmp(&net(right)))
        };
        // Only a rule for paths may choose among paths: to others they would be devices.
        let needs = if system.is_multipath { &[][..] } else { &[Need::NewVolume, Need::Patch] };
        let known = needs.iter().find_map(|&most| known_within(most));
        let now_is_assumed = stated_policy(array, system).is_none();
        Advice {
            system: system.title.clone(),
            now: now.to_owned(),
            now_is_assumed,
            offered,
            conditional,
            known,
            compared: load::compared(study),
            unserved: load::unserved(study, now),
            confidence: confidence::whole_statement(array, system, now_is_assumed),
            has_choice: array.chunk_map().is_ok_and(|map| map.copies() > 1),
            is_guess: confidence::is_guess(array),
            is_of_paths: system.is_multipath,
            remark: system.remark.clone(),
        }
    }

    /// The policies that it names, none twice; what is in force first.
    pub fn policies(&self) -> Vec<String> {
        let mut specs = vec![self.now.clone()];
        for (_, candidate) in self.candidates() {
            if !specs.contains(&candidate.spec) {
                specs.push(candidate.spec.clone());
            }
        }
        specs
    }

    /// The policies that would be better, with the names of their columns.
    fn candidates(&self) -> impl Iterator<Item = (&'static str, &AdvisedPolicy)> {
        let all = [
            ("offered", &self.offered),
            ("on condition", &self.conditional),
            ("known", &self.known),
        ];
        all.into_iter().filter_map(|(name, candidate)| Some((name, candidate.as_ref()?)))
    }
}

/// The policy in force: what the array says, else the default of the system, which offers
/// `settings`.
///
/// Members that the array marks as write-mostly are part of it. A rule of a release stands for that
/// of the release which is asked about.
pub fn policy_in_force(array: &ArraySpec, system: &System, settings: &[Setting]) -> String {
    let default = system.default_spec(settings);
    let mut spec = match stated_policy(array, system) {
        None => default,
        Some(stated) => {
            let (base, rest) = stated.split_at(stated.find('+').unwrap_or(stated.len()));
            match base == system.default || system.is_rule_of_release(base) {
                true => default + rest,
                false => stated,
            }
        }
    };
    // A raid10 of md does not look at the flag.
    let has_flags = !spec.starts_with("md/raid10");
    for member in array.members.iter().filter(|member| has_flags && member.write_mostly) {
        let modifier = format!("+write-mostly:{}", member.devid);
        if !spec.contains(&modifier) {
            spec += &modifier;
        }
    }
    spec
}

/// The policy that the array says to be in force, if it says one that is known.
pub fn stated_policy(array: &ArraySpec, system: &System) -> Option<String> {
    let source = array.source.as_ref()?;
    if let Some(spec) = &source.in_force {
        return Some(spec.clone());
    }
    let written = source.policy.as_deref()?;
    let default = Spec::parse(&system.default).expect("a system's default is a policy");
    let family = default.info().map_or("", PolicyInfo::family);
    let in_family = Spec::parse(&format!("{family}/{written}"));
    in_family.or_else(|_| Spec::parse(written)).ok().map(|spec| spec.to_string())
}

/// What a system would have to be given to restore what is in force.
fn previous<'a>(array: &'a ArraySpec, now: &'a str, is_default: bool) -> Option<&'a str> {
    let written = array.source.as_ref().and_then(|source| source.policy.as_deref());
    written.or_else(|| is_default.then(|| now.split('/').nth(1))?)
}

/// What it takes to have a setting of the array's own system; none if nothing.
fn takes(setting: &Setting, system: &System) -> Option<String> {
    match &setting.availability {
        Availability::Offered => None,
        Availability::OnCondition(condition) => Some(condition.clone()),
        Availability::NotHere(condition) => {
            let version_of = &system.version_of;
            Some(format!("{condition}: the running {version_of} does not offer it"))
        }
    }
}

/// The best of `specs` by the rules of the verdict, and its gain over `now`.
fn best(study: &Study, specs: &[&str], now: &str) -> Option<(String, Option<f64>)> {
    let restricted = study.restricted(|policy| specs.contains(&policy), now);
    let verdict = restricted.verdict;
    let policy = match &verdict.policy {
        // What is in force stays if nothing is decidedly better.
        Some(_) if verdict.ties.iter().any(|tie| tie == now) => now.to_owned(),
        Some(policy) => policy.clone(),
        None => return None,
    };
    let gain = verdict.gain.filter(|_| policy != now);
    Some(match gain.map(|gain| gain.geometric_mean) {
        Some(Some(factor)) if factor <= worthwhile(spread(study, &[&policy, now])) => {
            (now.to_owned(), Some(1.0))
        }
        Some(factor) => (policy, factor),
        None => (policy, Some(1.0)),
    })
}

/// What it takes to have a policy, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// Nothing, or a version or option of the array's own system.
    Condition,
    /// A patch to the system.
    Patch,
    /// A new volume, of the same system or another one.
    NewVolume,
}

/// A policy and its gain over what is in force.
type Gaining = (String, Option<f64>);

/// The choice among the policies of a study for an array.
struct Chooser<'a> {
    study: &'a Study,
    system: &'static System,
    settings: &'a [Setting],
    array: &'a ArraySpec,
    in_force: InForce<'a>,
}

impl Chooser<'_> {
    /// The best of `specs` by the rules of the verdict, and its gain over what is in force. Of
    /// those within [`TIE`] of it, the one that takes the least of the user; of several that with
    /// the fewest reads that were not needed, then the first: who leads a tie is chance.
    fn best_of(&self, specs: &[&str]) -> Option<Gaining> {
        let now = self.in_force.spec;
        let leader = best(self.study, specs, now)?;
        let takes_back = flags(now).iter().any(|it| !flags(&leader.0).contains(it));
        let must_be_clear = takes_back || confidence::is_guess(self.array);
        if must_be_clear && leader.1.is_some_and(|factor| factor <= CLEAR_GAIN) {
            return Some((now.to_owned(), Some(1.0)));
        }
        if leader.0 == now {
            return Some(leader);
        }
        let mean = |policy: &str| {
            let mut rows = self.study.matrix.rows.iter();
            rows.find(|row| row.policy == policy).map_or(0.0, |row| row.geometric_mean)
        };
        let extra_reads = |policy: &str| {
            let rows = self.study.jobs.iter().flat_map(|job| &job.rows);
            let own = rows.filter(|row| row.policy == policy);
            // Thousandths: noise does not decide.
            (own.map(|row| row.extra_per_read).fold(0.0, f64::max) * 1e3).round() as u64
        };
        let least = mean(&leader.0) * (1.0 - TIE);
        let is_tied = |it: &&str| mean(it) >= least && mean(it) > 0.0;
        let mut tied: Vec<&str> = specs.iter().copied().filter(is_tied).collect();
        tied.sort_by_key(|it| (self.need(it), extra_reads(it)));
        // One whose own gain is not worthwhile is no answer.
        let gaining = |it| best(self.study, &[it, now], now).filter(|(policy, _)| policy != now);
        Some(tied.into_iter().find_map(gaining).unwrap_or(leader))
    }

    /// What it takes to have a policy.
    fn need(&self, spec: &str) -> Need {
        if let Some(setting) = self.settings.iter().find(|setting| setting.spec == spec) {
            return if setting.offer.is_at_creation { Need::NewVolume } else { Need::Condition };
        }
        let info = Spec::parse(spec).ok().and_then(|spec| spec.info());
        let profile = self.array.profile.name();
        let mut systems =
            info.into_iter().flat_map(|info| offers_for(info.name, profile)).map(|(it, _)| it);
        if systems.any(|it| it.name == self.system.name) { Need::Patch } else { Need::NewVolume }
    }

    /// True if `mirrorball serve` alone has a policy.
    fn is_served(&self, spec: &str) -> bool {
        self.settings.iter().all(|setting| setting.spec != spec)
            && served::is_needed(spec, self.array.profile.name())
    }

    /// True if a policy gains enough over what gains the factor `least`.
    fn is_worth(&self, policy: &AdvisedPolicy, least: f64) -> bool {
        let is_new_volume = self.need(&policy.spec) == Need::NewVolume;
        let least = match (is_new_volume, confidence::is_guess(self.array)) {
            (true, _) => least * WORTH_A_NEW_VOLUME,
            (false, true) => least * CLEAR_GAIN,
            (false, false) => least,
        };
        policy.factor.is_none_or(|factor| factor > least * worthwhile(policy.spread))
    }

    fn advised(&self, (spec, factor): Gaining) -> AdvisedPolicy {
        let &Chooser { study, system, settings, array, in_force } = self;
        let profile = array.profile.name();
        let setting = settings.iter().find(|setting| setting.spec == spec);
        let served = self.is_served(&spec);
        let through_export = factor.map(|it| it * served::factor(study, &spec));
        let spread = spread(study, &[&spec, in_force.spec]);
        let is_serve_worth = through_export.is_none_or(|it| it >= WORTH_A_NEW_VOLUME);
        AdvisedPolicy {
            factor: if served { through_export } else { factor },
            throughput: load::throughput(study, &spec, in_force.spec),
            is_overloaded: !load::unserved(study, &spec).is_empty(),
            only_if: match system.is_multipath {
                true => Some(PATHS_ARE_THE_LIMIT),
                false => confidence::is_guess(array).then_some(DISKS_ARE_AS_GUESSED),
            },
            jobs: study.jobs.len(),
            slower: slower(study, (&spec, served), in_force.spec),
            slow_work: None,
            served,
            is_rough: spread.is_some_and(|spread| spread > UNCERTAIN),
            spread,
            takes: setting.map_or_else(
                || served::elsewhere(&spec, system, profile, is_serve_worth),
                |it| takes(it, system),
            ),
            commands: setting
                .map_or_else(Commands::default, |it| it.commands(system, array, in_force)),
            note: match setting {
                Some(setting) if flags(&spec) != flags(in_force.spec) => {
                    let own = note(setting.offer, array).unwrap_or_default();
                    Some(format!("{own} {FLUSHES}").trim_start().to_owned())
                }
                Some(setting) => note(setting.offer, array),
                None => served.then(|| served::NOTE.to_owned()),
            },
            is_unverified: setting.is_some_and(|setting| !setting.offer.verified),
            spec,
        }
    }
}

/// The modifiers of a policy that mark members as write-mostly.
fn flags(spec: &str) -> Vec<&str> {
    spec.split('+').filter(|it| it.starts_with("write-mostly:")).collect()
}

/// The least gain that is advised, for figures with this spread over the repeats.
fn worthwhile(spread: Option<f64>) -> f64 {
    if spread.is_some_and(|spread| spread > UNCERTAIN) { WORTHWHILE_UNCERTAIN } else { WORTHWHILE }
}

/// The jobs under which `spec` is slower than `now` by more than 5 %, or their sections.
fn slower(study: &Study, (spec, served): (&str, bool), now: &str) -> Vec<SlowerJob> {
    let of_job = |job: &JobStudy| {
        let row = |policy: &str| job.rows.iter().find(|row| row.policy == policy);
        let (Some(row), Some(now)) = (row(spec), row(now)) else { return Vec::new() };
        let slowed = if served { served::slowed(study, job, row) } else { 1.0 };
        let whole = (now.score.value > 0.0)
            .then(|| (job.job.clone(), slowed * row.score.value / now.score.value));
        let of_section =
            |it: SectionFactor| Some((format!("{} of {}", it.section, job.job), it.relative?));
        let sections = section_factors(job, now, row, slowed).into_iter().filter_map(of_section);
        whole.into_iter().chain(sections).collect()
    };
    let factors = study.jobs.iter().flat_map(of_job).filter(|(_, factor)| *factor < SLOWER);
    factors.map(|(job, factor)| SlowerJob { job, factor }).collect()
}

/// The widest interval over the repeats of the figures of these policies.
fn spread(study: &Study, specs: &[&str]) -> Option<f64> {
    let rows = study.jobs.iter().flat_map(|job| &job.rows);
    let own = rows.filter(|row| specs.contains(&row.policy.as_str()));
    own.filter_map(|row| row.score.relative()).max_by(f64::total_cmp)
}

/// What the user of an offer should know, and whether its command is refused at the moment.
fn note(offer: &Offer, array: &ArraySpec) -> Option<String> {
    /// Words of a condition in which copies differ.
    const NOT_IN_SYNC: [&str; 4] = ["degraded", "resync", "recover", "reshape"];
    let condition = array.source.as_ref().and_then(|source| source.condition.as_deref());
    let has_word = |condition: &&str| NOT_IN_SYNC.iter().any(|word| condition.contains(word));
    match condition.filter(|_| offer.needs_sync).filter(has_word) {
        None => offer.note.clone(),
        Some(condition) => {
            let general = offer.note.as_deref().unwrap_or_default();
            Some(format!("{general} It is not in sync now ({condition}): set it after that."))
        }
    }
}

#[cfg(test)]
mod tests;
