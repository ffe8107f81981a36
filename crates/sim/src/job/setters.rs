//! What each supported option does to the job: one function per kind of value, few per option.

use super::draft::{Draft, Engine};
use super::error::job_error;
use super::spec::{Access, Arrivals, Direction, Distribution, Mix, SizeOrPercent, SizeShare, Zone};
use super::value::{self, KbBase};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::suggest::closest_name;
use mirrorball_core::units::Nanos;

/// How an option takes its value, and what becomes of it.
#[derive(Clone, Copy)]
pub(super) enum Setter {
    /// `option`, `option=1` or `option=0`.
    Flag(fn(&mut Draft, bool)),
    /// `option=1` or `option=0`.
    Truth(fn(&mut Draft, bool)),
    /// A whole number within bounds.
    Number([u64; 2], fn(&mut Draft, u64)),
    /// A time; a bare number counts in this unit.
    Time(Nanos, fn(&mut Draft, Nanos)),
    /// A time of at most [`IDLE_MAX`] in which nothing is measured; a bare number is in seconds.
    IdleTime(fn(&mut Draft, Nanos)),
    /// Anything else.
    Text(fn(&mut Draft, &str) -> Result<(), Diagnostic>),
}

const DIRECTIONS: [(&str, Mix, Access); 9] = [
    ("read", Mix::Only(Direction::Read), Access::Sequential),
    ("write", Mix::Only(Direction::Write), Access::Sequential),
    ("trim", Mix::Only(Direction::Trim), Access::Sequential),
    ("randread", Mix::Only(Direction::Read), Access::Random),
    ("randwrite", Mix::Only(Direction::Write), Access::Random),
    ("randtrim", Mix::Only(Direction::Trim), Access::Random),
    ("rw", Mix::ReadWrite { read_percent: 50 }, Access::Sequential),
    ("readwrite", Mix::ReadWrite { read_percent: 50 }, Access::Sequential),
    ("randrw", Mix::ReadWrite { read_percent: 50 }, Access::Random),
];

const ENGINES: [(&str, Engine); 17] = [
    ("psync", Engine::Synchronous),
    ("sync", Engine::Synchronous),
    ("vsync", Engine::Synchronous),
    ("pvsync", Engine::Synchronous),
    ("pvsync2", Engine::Synchronous),
    ("mmap", Engine::Synchronous),
    ("splice", Engine::Synchronous),
    ("sg", Engine::Asynchronous),
    ("libaio", Engine::AsynchronousIfDirect),
    ("io_uring", Engine::Asynchronous),
    ("io_uring_cmd", Engine::Asynchronous),
    ("posixaio", Engine::Asynchronous),
    ("windowsaio", Engine::Asynchronous),
    ("solarisaio", Engine::Asynchronous),
    ("nbd", Engine::Asynchronous),
    ("libiscsi", Engine::Asynchronous),
    ("null", Engine::Asynchronous),
];

/// fio's defaults where `zipf` and `pareto` stand without a parameter.
const ZIPF_THETA: f64 = 1.1;
const PARETO_H: f64 = 0.2;
const SPLITS_MAX: usize = 64;
/// The simulation of a longer delay or ramp would take minutes before anything is measured.
const IDLE_MAX: Nanos = Nanos::from_secs(86_400);

impl Setter {
    /// Applies `option`, written with `text` or bare.
    pub(super) fn apply(
        self,
        draft: &mut Draft,
        option: &str,
        text: Option<&str>,
    ) -> Result<(), Diagnostic> {
        let within = |fault: Diagnostic| Diagnostic {
            message: format!("{option}: {}", fault.message),
            ..fault
        };
        if let (Setter::Flag(set), None) = (self, text) {
            set(draft, true);
            return Ok(());
        }
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            return Err(job_error(format!("`{option}` has no value"), format!("{option}=…")));
        };
        let base = draft.kb_base;
        match self {
            Setter::Flag(set) | Setter::Truth(set) => {
                set(draft, value::truth(text).map_err(within)?);
            }
            Setter::Number(range, set) => {
                set(draft, value::integer_within(text, base, range).map_err(within)?);
            }
            Setter::Time(unit, set) => set(draft, value::time(text, unit).map_err(within)?),
            Setter::IdleTime(set) => {
                let time = value::time(text, Nanos::from_secs(1)).map_err(within)?;
                if time > IDLE_MAX {
                    let message = format!("{option}: `{text}` is too long");
                    return Err(job_error(message, format!("the most is {IDLE_MAX}")));
                }
                set(draft, time);
            }
            Setter::Text(set) => set(draft, text).map_err(within)?,
        }
        Ok(())
    }
}

pub(super) fn name(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    draft.job.name = text.to_owned();
    Ok(())
}

pub(super) fn description(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    draft.job.description = Some(text.to_owned());
    Ok(())
}

pub(super) fn direction(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let (name, modifier) = text.split_once(':').unwrap_or((text, ""));
    if !modifier.is_empty() {
        let help = "for runs within random requests use percentage_random";
        return Err(job_error(format!("the modifier `:{modifier}` is not supported"), help));
    }
    if name.ends_with("trimwrite") {
        let help = "use two jobs, one of trims and one of writes";
        return Err(job_error(format!("`{name}` is not supported"), help));
    }
    let known = DIRECTIONS.map(|(name, ..)| name);
    let row = DIRECTIONS.iter().find(|row| row.0 == name);
    let &(_, mix, access) = row.ok_or_else(|| unknown(name, &known))?;
    (draft.job.mix, draft.job.access) = (mix, access);
    Ok(())
}

pub(super) fn engine(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let known = ENGINES.map(|(name, _)| name);
    let row = ENGINES.iter().find(|row| row.0 == text);
    draft.engine = row.ok_or_else(|| unknown(text, &known))?.1;
    Ok(())
}

pub(super) fn kb_base(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    draft.kb_base = match text {
        "1000" => KbBase(1000),
        "1024" => KbBase(1024),
        _ => return Err(job_error(format!("`{text}` is no base"), "write 1000 or 1024")),
    };
    Ok(())
}

pub(super) fn filename(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    if text.replace("\\:", "").contains(':') {
        let help = "give each file a job of its own";
        return Err(job_error(format!("`{text}` names several files"), help));
    }
    draft.job.filename = Some(text.to_owned());
    Ok(())
}

pub(super) fn block_size(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let base = draft.kb_base;
    let one =
        |part: &str| value::block(part, base).map(|bytes| vec![SizeShare { bytes, percent: 100 }]);
    value::per_direction(text, &mut draft.job.sizes, one)
}

pub(super) fn block_split(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let base = draft.kb_base;
    value::per_direction(text, &mut draft.job.sizes, |part| {
        let shares = shares(part, |size| value::block(size, base))?;
        Ok(shares.into_iter().map(|(bytes, percent)| SizeShare { bytes, percent }).collect())
    })
}

pub(super) fn size(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let base = draft.kb_base;
    // Any size will do: what does not fill a block is left alone.
    let extent = value::extent(text, |text| value::integer(text, base))?;
    if matches!(extent, SizeOrPercent::Bytes(0) | SizeOrPercent::Percent(0)) {
        return Err(job_error("a size of zero", "leave size out for the whole volume"));
    }
    draft.job.size = Some(extent);
    Ok(())
}

pub(super) fn offset(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let base = draft.kb_base;
    draft.job.offset = value::extent(text, |text| value::sectors(text, base))?;
    Ok(())
}

pub(super) fn offset_increment(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let base = draft.kb_base;
    draft.job.offset_increment = value::extent(text, |text| value::sectors(text, base))?;
    Ok(())
}

pub(super) fn random_percent(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let base = draft.kb_base;
    let one = |part: &str| value::integer_within(part, base, [0, 100]);
    value::per_direction(text, &mut draft.job.random_percent, one)
}

pub(super) fn rate(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let base = draft.kb_base;
    value::per_direction(text, &mut draft.job.rate_bytes_per_s, |part| rate_of(part, base))
}

pub(super) fn rate_ios(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let base = draft.kb_base;
    value::per_direction(text, &mut draft.job.rate_ios_per_s, |part| rate_of(part, base))
}

pub(super) fn arrivals(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    draft.job.arrivals = match text {
        "linear" => Arrivals::Linear,
        "poisson" => Arrivals::Poisson,
        _ => return Err(unknown(text, &["linear", "poisson"])),
    };
    Ok(())
}

pub(super) fn distribution(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
    if parameters.contains(',') {
        let help = "give one for all directions";
        return Err(job_error(format!("`{text}` differs by direction"), help));
    }
    draft.job.distribution = match name {
        "random" => Distribution::Uniform,
        "zipf" => {
            let (theta, center) = curve(parameters, ZIPF_THETA, [0.0, 100.0])?;
            if theta == 0.0 || theta == 1.0 {
                let message = format!("zipf with a theta of {theta}");
                return Err(job_error(message, "fio takes any above 0 but 1: try zipf:1.1"));
            }
            Distribution::Zipf { theta, center }
        }
        "pareto" => {
            let (h, center) = curve(parameters, PARETO_H, [0.0, 1.0])?;
            if h == 0.0 || h == 1.0 {
                let message = format!("pareto with a power of {h}");
                return Err(job_error(message, "it lies between 0 and 1: try pareto:0.2"));
            }
            Distribution::Pareto { h, center }
        }
        "normal" | "gauss" => {
            let (deviation, center) = curve(parameters, 0.0, [0.0, 100.0])?;
            Distribution::Normal { deviation, center }
        }
        "zoned" => Distribution::Zoned(zones(parameters)?),
        "zoned_abs" => {
            let help = "write the sizes in percent: zoned:60/10:40/90";
            return Err(job_error("`zoned_abs` is not supported", help));
        }
        _ => return Err(unknown(name, &["random", "zipf", "pareto", "normal", "zoned"])),
    };
    Ok(())
}

/// `parameter[:center]`.
fn curve(text: &str, default: f64, range: [f64; 2]) -> Result<(f64, Option<f64>), Diagnostic> {
    let (parameter, center) = text.split_once(':').unwrap_or((text, ""));
    let parameter = Some(parameter).filter(|parameter| !parameter.is_empty());
    let center = Some(center).filter(|center| !center.is_empty());
    Ok((
        parameter.map_or(Ok(default), |parameter| value::real(parameter, range))?,
        center.map(|center| value::real(center, [0.0, 1.0])).transpose()?,
    ))
}

/// `access/size:access/size:…`, in percent.
fn zones(text: &str) -> Result<Vec<Zone>, Diagnostic> {
    let percent = |part: &str| value::integer_within(part, KbBase(1024), [0, 100]);
    let zones: Vec<Zone> = shares(text, percent)?
        .into_iter()
        .map(|(access_percent, size_percent)| Zone { access_percent, size_percent })
        .collect();
    let sum: u64 = zones.iter().map(|zone| zone.access_percent).sum();
    if sum != 100 {
        let help = "the first number of each pair is its share of the requests";
        return Err(job_error(format!("the accesses add up to {sum} %, not 100"), help));
    }
    if zones.iter().any(|zone| zone.access_percent > 0 && zone.size_percent == 0) {
        return Err(job_error("a zone of size zero is accessed", "give it at least one percent"));
    }
    Ok(zones)
}

/// `value/percent:value/percent:…`; shares left blank divide what remains evenly.
fn shares(
    text: &str,
    parse: impl Fn(&str) -> Result<u64, Diagnostic>,
) -> Result<Vec<(u64, u64)>, Diagnostic> {
    let mut rows: Vec<(u64, Option<u64>)> = Vec::new();
    for part in text.split(':') {
        let (left, right) = part.split_once('/').unwrap_or((part, ""));
        let percent = match right {
            "" => None,
            right => Some(value::integer_within(right, KbBase(1024), [0, 100])?),
        };
        rows.push((parse(left)?, percent));
    }
    if rows.len() > SPLITS_MAX {
        let message = format!("{} shares", rows.len());
        return Err(job_error(message, format!("fio takes {SPLITS_MAX} at most")));
    }
    let given: u64 = rows.iter().filter_map(|row| row.1).sum();
    let blank = rows.iter().filter(|row| row.1.is_none()).count() as u64;
    if given > 100 || (blank == 0 && given != 100) {
        let help = "make them 100, or leave one blank";
        return Err(job_error(format!("the percentages add up to {given}"), help));
    }
    let (mut left, mut blanks_left) = (100 - given, blank);
    let mut fill = || {
        // Taking each share from what is left spends the rounding on the last ones.
        let share = left / blanks_left;
        (left, blanks_left) = (left - share, blanks_left - 1);
        share
    };
    Ok(rows.into_iter().map(|(value, share)| (value, share.unwrap_or_else(&mut fill))).collect())
}

fn rate_of(text: &str, base: KbBase) -> Result<Option<u64>, Diagnostic> {
    // Zero is fio's word for no limit.
    value::integer(text, base).map(|rate| Some(rate).filter(|&rate| rate > 0))
}

fn unknown(word: &str, known: &[&str]) -> Diagnostic {
    let help = match closest_name(word, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("supported are {}", known.join(", ")),
    };
    job_error(format!("`{word}` is not supported"), help)
}
