//! The effect of each supported option on the job: one function per kind of value, and one for each
//! option whose value has a form of its own.

use super::draft::Draft;
use super::engines::Engine;
use super::error::job_error;
use super::group::GroupEnd;
use super::replay_draft;
use super::spec::{Access, AddressModifier, Arrivals, Direction, Mix, SizeOrPercent, SizeShare};
use super::value::{self, KbBase};
use mirrorball_core::diagnostic::{Diagnostic, Escaped};
use mirrorball_core::suggest::did_you_mean;
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
    Name(fn(&mut Draft, String)),
    Size(fn(&mut Draft, u64)),
    Extent(fn(&mut Draft, SizeOrPercent)),
    /// Anything else.
    Text(fn(&mut Draft, &str) -> Result<(), Diagnostic>),
}

const DIRECTIONS: [(&str, Mix, Access); 11] = [
    ("read", Mix::Only(Direction::Read), Access::Sequential),
    ("write", Mix::Only(Direction::Write), Access::Sequential),
    ("trim", Mix::Only(Direction::Trim), Access::Sequential),
    ("randread", Mix::Only(Direction::Read), Access::Random),
    ("randwrite", Mix::Only(Direction::Write), Access::Random),
    ("randtrim", Mix::Only(Direction::Trim), Access::Random),
    ("rw", Mix::ReadWrite { read_percent: 50 }, Access::Sequential),
    ("readwrite", Mix::ReadWrite { read_percent: 50 }, Access::Sequential),
    ("randrw", Mix::ReadWrite { read_percent: 50 }, Access::Random),
    ("trimwrite", Mix::TrimWrite, Access::Sequential),
    ("randtrimwrite", Mix::TrimWrite, Access::Random),
];

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
            let help = format!("write `{option}=` and its value");
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
            Setter::Time(unit, set) => set(draft, value::parse_time(text, unit).map_err(within)?),
            Setter::IdleTime(set) => {
                if option == "startdelay" && text.contains('-') {
                    let message = format!("startdelay: `{text}` is a range, from which fio draws");
                    return Err(job_error(message, "write one time, such as startdelay=5"));
                }
                let time = value::parse_time(text, Nanos::from_secs(1)).map_err(within)?;
                if time > IDLE_MAX {
                    let message = format!("{option}: `{text}` is too long");
                    return Err(job_error(message, format!("write {IDLE_MAX} or less")));
                }
                set(draft, time);
            }
            Setter::Name(_) if option == "name" && text.contains(Escaped::is_invisible) => {
                let message =
                    format!("the name {} has characters that do not print", Escaped(text));
                return Err(job_error(message, "use printable characters"));
            }
            Setter::Name(set) => set(draft, text.to_owned()),
            Setter::Size(set) => set(draft, value::integer(text, base).map_err(within)?),
            Setter::Extent(set) => set(draft, value::extent(text, base).map_err(within)?),
            Setter::Text(set) => set(draft, text).map_err(within)?,
        }
        Ok(())
    }
}

pub(super) fn direction(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let (name, modifier) = text.split_once(':').unwrap_or((text, ""));
    let known = DIRECTIONS.map(|(name, ..)| name);
    let row = DIRECTIONS.iter().find(|row| row.0 == name);
    let &(_, mix, access) = row.ok_or_else(|| unknown(name, &known))?;
    (draft.job.mix, draft.job.access) = (mix, access);
    draft.job.modifier = match modifier.strip_prefix('-') {
        None if modifier.is_empty() => AddressModifier::None,
        None => AddressModifier::Skip(value::integer(modifier, draft.kb_base)? as i64),
        Some(bytes) => AddressModifier::Skip(-(value::integer(bytes, draft.kb_base)? as i64)),
    };
    Ok(())
}

pub(super) fn sequencer(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let known = [("sequential", false), ("identical", true)];
    draft.repeats_address = choose(text, &known)?;
    Ok(())
}

pub(super) fn engine(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    draft.engine = Engine::find(text)?;
    Ok(())
}

pub(super) fn submit_mode(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    draft.is_offloaded = choose(text, &[("inline", false), ("offload", true)])?;
    Ok(())
}

pub(super) fn synchronous(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let known = [("0", false), ("none", false), ("1", true), ("sync", true), ("dsync", true)];
    draft.is_synchronous = choose(text, &known)?;
    Ok(())
}

pub(super) fn think_type(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    draft.thinks_by_issue = choose(text, &[("complete", false), ("issue", true)])?;
    Ok(())
}

pub(super) fn latency_percentile(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    draft.goal().percentile = value::real(text, [0.0, 100.0])?;
    Ok(())
}

pub(super) fn exit_what(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    draft.group.end = choose(
        text,
        &[
            ("group", GroupEnd::Reported),
            ("stonewall", GroupEnd::Running),
            ("all", GroupEnd::Everything),
        ],
    )?;
    Ok(())
}

pub(super) fn zone_mode(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    if text == "zbd" {
        let help = "remove the options of zones; rw=write:SKIP and zonemode=strided leave parts of \
                    a disk out";
        return Err(job_error("zoned devices are not modelled", help));
    }
    draft.zones.is_strided = choose(text, &[("none", false), ("strided", true)])?;
    Ok(())
}

pub(super) fn file_size(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let (least, most) =
        (value::integer(least, draft.kb_base)?, value::integer(most, draft.kb_base)?);
    if most == 0 || least > most {
        return Err(job_error(format!("`{text}` is no size of a file"), "write filesize=1g"));
    }
    draft.files.bytes = Some([least.max(1), most]);
    Ok(())
}

pub(super) fn kb_base(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    draft.kb_base = choose(text, &[("1000", KbBase(1000)), ("1024", KbBase(1024))])?;
    Ok(())
}

pub(super) fn block_size(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let base = draft.kb_base;
    let one =
        |part: &str| value::block(part, base).map(|bytes| vec![SizeShare { bytes, weight: 100 }]);
    value::per_direction(text, &mut draft.job.sizes, one)
}

pub(super) fn block_align(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let base = draft.kb_base;
    let one = |part: &str| value::block(part, base).map(Some);
    value::per_direction(text, &mut draft.job.align_bytes, one)
}

pub(super) fn size(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let base = draft.kb_base;
    // Any size is accepted: a part at the end that is smaller than a block is not used.
    let extent = value::extent(text, base)?;
    // To fio, zero means no size.
    let is_zero = matches!(extent, SizeOrPercent::Bytes(0) | SizeOrPercent::Percent(0));
    draft.job.size = Some(extent).filter(|_| !is_zero);
    Ok(())
}

pub(super) fn io_size(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let base = draft.kb_base;
    let given = |value: u64| Some(value).filter(|&value| value > 0);
    (draft.job.io_bytes, draft.job.io_percent) = match value::extent(text, base)? {
        SizeOrPercent::Bytes(bytes) => (given(bytes), None),
        SizeOrPercent::Percent(percent) => (None, given(percent)),
    };
    Ok(())
}

pub(super) fn verify(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    draft.verify.is_on = !matches!(text, "0" | "none");
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
    let known = [("linear", Arrivals::Linear), ("poisson", Arrivals::Poisson)];
    draft.job.arrivals = choose(text, &known)?;
    Ok(())
}

/// The meaning of one of several words.
fn choose<T: Copy>(text: &str, known: &[(&str, T)]) -> Result<T, Diagnostic> {
    let found = known.iter().find(|(word, _)| *word == text);
    let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
    found.map(|(_, meaning)| *meaning).ok_or_else(|| unknown(text, &words))
}

fn rate_of(text: &str, base: KbBase) -> Result<Option<u64>, Diagnostic> {
    // In fio, zero means no limit.
    value::integer(text, base).map(|rate| Some(rate).filter(|&rate| rate > 0))
}

pub(super) fn unknown(word: &str, known: &[&str]) -> Diagnostic {
    let help = did_you_mean(word, known.iter().copied());
    let help = help.unwrap_or_else(|| format!("supported are {}", known.join(", ")));
    job_error(format!("`{word}` is not supported"), help)
}
