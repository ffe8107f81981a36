//! The effect of each supported option on the job: one function per kind of value, and one for each
//! option whose value has a form of its own.

use super::draft::{Draft, Engine};
use super::error::job_error;
use super::replay_draft;
use super::spec::{Access, Arrivals, Direction, Distribution, Mix, SizeOrPercent, SizeShare, Zone};
use super::value::{self, KbBase};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::suggest::closest_name;
use mirrorball_core::units::Nanos;

/// Kind of an option's value, and the function that stores it in the draft.
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

/// Defaults of fio for `zipf` and `pareto` without a parameter.
const ZIPF_THETA: f64 = 1.1;
const PARETO_H: f64 = 0.2;
const SPLITS_MAX: usize = 64;
/// Longest delay or ramp: the simulation of a longer one would take minutes before anything is
/// measured.
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
            let help = format!("write for example `{option}={}`", self.example(option));
            return Err(job_error(format!("`{option}` has no value"), help));
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
                    return Err(job_error(message, format!("write {IDLE_MAX} or less")));
                }
                set(draft, time);
            }
            Setter::Text(set) => set(draft, text).map_err(within)?,
        }
        Ok(())
    }
}

impl Setter {
    /// A valid value of `option`, for its help.
    fn example(self, option: &str) -> String {
        let text = match (self, option) {
            (Setter::Flag(_) | Setter::Truth(_), _) => "1",
            (Setter::Number([least, _], _), _) => return least.max(1).to_string(),
            (Setter::Time(..) | Setter::IdleTime(_), _) => "500ms",
            (Setter::Text(_), "bs" | "blocksize") => "4k",
            (Setter::Text(_), "bssplit") => "4k/60:64k/40",
            (Setter::Text(_), "filename") => "/dev/sdb",
            (Setter::Text(_), "ioengine") => "libaio",
            (Setter::Text(_), "kb_base") => "1024",
            (Setter::Text(_), "percentage_random") => "50",
            (Setter::Text(_), "random_distribution") => "zipf:1.1",
            (Setter::Text(_), "rate") => "10m",
            (Setter::Text(_), "rate_iops") => "200",
            (Setter::Text(_), "rate_process") => "poisson",
            (Setter::Text(_), "rw" | "readwrite") => "randread",
            (Setter::Text(_), "read_iolog") => "web.csv",
            (Setter::Text(_), "replay_skip") => "write,sync",
            (Setter::Text(_), "size" | "offset" | "fileoffset" | "offset_increment") => "10g",
            (Setter::Text(_), _) => "text",
        };
        text.to_owned()
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
        _ => {
            return Err(job_error(
                format!("`{text}` is neither 1000 nor 1024"),
                "write 1024, the default of fio",
            ));
        }
    };
    Ok(())
}

pub(super) fn filename(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    if text.replace("\\:", "").contains(':') {
        let help = "write one job for each file";
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
    // Any size is accepted: a part at the end that is smaller than a block is not used.
    let extent = value::extent(text, |text| value::integer(text, base))?;
    if matches!(extent, SizeOrPercent::Bytes(0) | SizeOrPercent::Percent(0)) {
        return Err(job_error("the size is zero", "remove `size` to use the whole volume"));
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

pub(super) fn replay_path(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    // fio takes a list, one trace for each clone, and `-` for its standard input.
    if text.replace("\\:", "").contains(':') || text == "-" {
        let help = "write one section for each trace, with the path of its file";
        return Err(job_error(format!("`{text}` is not the path of one file"), help));
    }
    draft.replay.path = Some(text.replace("\\:", ":"));
    Ok(())
}

pub(super) fn replay_align(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let bytes = value::integer(text, draft.kb_base)?;
    if bytes > 0 && !bytes.is_power_of_two() {
        let help = "write a power of two, such as 4k";
        return Err(job_error(format!("`{text}` is not a power of two"), help));
    }
    draft.replay.align_bytes = bytes.max(1);
    Ok(())
}

pub(super) fn replay_skip(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    draft.replay.skips = replay_draft::parse_skips(text)?;
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
        let help = "write one distribution for all directions";
        return Err(job_error(format!("`{text}` has one distribution for each direction"), help));
    }
    draft.job.distribution = match name {
        "random" => Distribution::Uniform,
        "zipf" => {
            let (theta, center) = curve(text, "zipf:1.2", ZIPF_THETA, [0.0, 100.0])?;
            if theta == 0.0 || theta == 1.0 {
                let message = format!("zipf cannot have a theta of {theta}");
                return Err(job_error(
                    message,
                    "write a theta above 0 other than 1, as in zipf:1.1",
                ));
            }
            Distribution::Zipf { theta, center }
        }
        "pareto" => {
            let (h, center) = curve(text, "pareto:0.2", PARETO_H, [0.0, 1.0])?;
            if h == 0.0 || h == 1.0 {
                let message = format!("pareto cannot have a power of {h}");
                return Err(job_error(message, "write a power between 0 and 1, as in pareto:0.2"));
            }
            Distribution::Pareto { h, center }
        }
        "normal" | "gauss" => {
            let (deviation, center) = curve(text, "normal:10", 0.0, [0.0, 100.0])?;
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

/// `name:parameter[:center]`, of which the name alone is necessary.
fn curve(
    text: &str,
    example: &str,
    default: f64,
    range: [f64; 2],
) -> Result<(f64, Option<f64>), Diagnostic> {
    let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
    let (parameter, center) = parameters.split_once(':').unwrap_or((parameters, ""));
    let of_curve = |fault: Diagnostic| {
        let message = format!("in the values of {name}, {}", fault.message);
        Diagnostic::new(message).with_help(format!("write for example {example}"))
    };
    let parameter = Some(parameter).filter(|parameter| !parameter.is_empty());
    let center = Some(center).filter(|center| !center.is_empty());
    Ok((
        parameter.map_or(Ok(default), |it| value::real(it, range)).map_err(of_curve)?,
        center.map(|center| value::real(center, [0.0, 1.0])).transpose().map_err(of_curve)?,
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
        return Err(job_error(
            format!("the shares of the requests add up to {sum} %, not 100 %"),
            help,
        ));
    }
    if zones.iter().any(|zone| zone.access_percent > 0 && zone.size_percent == 0) {
        return Err(job_error(
            "a zone with requests has a size of 0 %",
            "make its size 1 % or more",
        ));
    }
    Ok(zones)
}

/// `value/percent:value/percent:…`; entries without a percentage share the rest evenly.
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
        let message = format!("{} entries in one list", rows.len());
        return Err(job_error(message, format!("fio accepts {SPLITS_MAX} or fewer")));
    }
    let given: u64 = rows.iter().filter_map(|row| row.1).sum();
    let blank = rows.iter().filter(|row| row.1.is_none()).count() as u64;
    if given > 100 || (blank == 0 && given != 100) {
        let help = "make them add up to 100, or leave one empty";
        return Err(job_error(format!("the percentages add up to {given}, not 100"), help));
    }
    let (mut left, mut blanks_left) = (100 - given, blank);
    let mut fill = || {
        // Each share is a fraction of the rest, so the last ones make up for the rounding.
        let share = left / blanks_left;
        (left, blanks_left) = (left - share, blanks_left - 1);
        share
    };
    Ok(rows.into_iter().map(|(value, share)| (value, share.unwrap_or_else(&mut fill))).collect())
}

fn rate_of(text: &str, base: KbBase) -> Result<Option<u64>, Diagnostic> {
    // In fio, zero means no limit.
    value::integer(text, base).map(|rate| Some(rate).filter(|&rate| rate > 0))
}

fn unknown(word: &str, known: &[&str]) -> Diagnostic {
    let help = match closest_name(word, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("supported are {}", known.join(", ")),
    };
    job_error(format!("`{word}` is not supported"), help)
}
