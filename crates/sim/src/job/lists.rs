//! Values that are lists or have parameters: shares of sizes, ranges, distributions and zones.

use super::draft::Draft;
use super::error::job_error;
use super::setters::unknown;
use super::spec::{Distribution, FileOrder, PerDirection, SizeOrPercent, SizeShare, Zone};
use super::value::{self, KbBase};
use mirrorball_core::diagnostic::Diagnostic;

/// Defaults of fio for `zipf` and `pareto` without a parameter.
const ZIPF_THETA: f64 = 1.1;
const PARETO_H: f64 = 0.2;
const SPLITS_MAX: usize = 64;
/// Maximum number of sizes of a range. A range of more is drawn in larger steps.
const RANGE_SIZES_MAX: u64 = 1 << 12;

pub(super) fn block_split(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let base = draft.kb_base;
    value::per_direction(text, &mut draft.listed_sizes, |part| {
        let mut shares = shares(part, |size| value::block(size, base))?;
        // The largest share, and of equal ones the last, also has what is missing of 100.
        let sum: u64 = shares.iter().map(|(_, percent)| percent).sum();
        if let Some((_, percent)) = shares.iter_mut().max_by_key(|(_, percent)| *percent) {
            *percent += 100 - sum;
        }
        shares.retain(|(_, percent)| *percent > 0);
        Ok(Some(shares.into_iter().map(|(bytes, weight)| SizeShare { bytes, weight }).collect()))
    })
}

pub(super) fn block_range(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let base = draft.kb_base;
    value::per_direction(text, &mut draft.listed_sizes, |part| {
        let fault = || job_error(format!("`{part}` is not a range"), "write bsrange=4k-64k");
        let (least, most) = part.split_once(['-', ':']).ok_or_else(fault)?;
        let (one, other) = (value::block(least, base)?, value::block(most, base)?);
        Ok(Some(range(one.min(other), one.max(other))))
    })
}

/// Sizes that fio draws between two: `least` plus an even draw below `most`, rounded down to a
/// multiple of `least`, at most `most`.
fn range(least: u64, most: u64) -> Vec<SizeShare> {
    let step = least * (most / least).div_ceil(RANGE_SIZES_MAX).max(1);
    let starts = (0..).map(|index| least + index * step).take_while(|start| *start < least + most);
    let mut sizes: Vec<SizeShare> = Vec::new();
    for start in starts {
        let weight = step.min(least + most - start);
        match sizes.last_mut() {
            Some(last) if last.bytes == start.min(most) => last.weight += weight,
            _ => sizes.push(SizeShare { bytes: start.min(most), weight }),
        }
    }
    sizes
}

pub(super) fn distribution(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    draft.job.distribution = parse_distribution(text, draft.kb_base)?;
    Ok(())
}

/// `file_service_type`: an order, and after a colon the number of requests or the parameter.
pub(super) fn file_order(draft: &mut Draft, text: &str) -> Result<(), Diagnostic> {
    let (name, parameter) = text.split_once(':').unwrap_or((text, ""));
    draft.job.file_ios = match (name, parameter) {
        (_, "") | ("zipf" | "pareto" | "normal" | "gauss", _) => 1,
        _ => value::integer_within(parameter, KbBase(1024), [1, u64::MAX])?,
    };
    draft.job.file_order = match name {
        "roundrobin" => FileOrder::RoundRobin,
        "sequential" => FileOrder::Sequential,
        "random" => FileOrder::Drawn(Distribution::Uniform),
        "zipf" | "pareto" | "normal" | "gauss" => {
            FileOrder::Drawn(parse_distribution(text, KbBase(1024))?)
        }
        _ => return Err(unknown(name, &["roundrobin", "sequential", "random", "zipf", "pareto"])),
    };
    Ok(())
}

fn parse_distribution(text: &str, base: KbBase) -> Result<Distribution, Diagnostic> {
    let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
    Ok(match name {
        "random" => Distribution::Uniform,
        "zipf" | "pareto" => {
            let (example, default, most) = match name {
                "zipf" => ("zipf:1.2", ZIPF_THETA, 100.0),
                _ => ("pareto:0.2", PARETO_H, 1.0),
            };
            let (power, center) = curve(text, example, default, [0.0, most])?;
            if power == 0.0 || power == 1.0 {
                let message = format!("{name} cannot have a power of {power}");
                return Err(job_error(message, format!("write for example {example}")));
            }
            match name {
                "zipf" => Distribution::Zipf { theta: power, center },
                _ => Distribution::Pareto { h: power, center },
            }
        }
        "normal" | "gauss" => {
            let (deviation, center) = curve(text, "normal:10", 0.0, [0.0, 100.0])?;
            Distribution::Normal { deviation, center }
        }
        "zoned" | "zoned_abs" => {
            let mut of_directions = PerDirection::<Vec<Zone>>::default();
            let zones = |part: &str| match name {
                "zoned" => percent_zones(part),
                _ => sized_zones(part, base),
            };
            value::per_direction(parameters, &mut of_directions, zones)?;
            Distribution::Zoned(of_directions)
        }
        "sequence" => {
            let block = |part: &str| value::integer(part.trim(), KbBase(1024));
            let blocks = parameters.split(',').map(block).collect::<Result<Vec<_>, _>>()?;
            if blocks.len() > SPLITS_MAX {
                let message = format!("{} blocks in one list", blocks.len());
                return Err(job_error(message, format!("fio accepts {SPLITS_MAX} or fewer")));
            }
            Distribution::Sequence { blocks, strides: false }
        }
        _ => return Err(unknown(name, &["random", "zipf", "pareto", "normal", "zoned"])),
    })
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
fn percent_zones(text: &str) -> Result<Vec<Zone>, Diagnostic> {
    let percent = |part: &str| value::integer_within(part, KbBase(1024), [0, 100]);
    let zones = shares(text, percent)?.into_iter();
    let zone =
        |(access_percent, percent)| Zone { access_percent, size: SizeOrPercent::Percent(percent) };
    checked_zones(zones.map(zone).collect())
}

/// `access/size:access/size:…`, the first in percent.
fn sized_zones(text: &str, base: KbBase) -> Result<Vec<Zone>, Diagnostic> {
    let zone = |part: &str| {
        let (access, size) = part.split_once('/').unwrap_or((part, ""));
        if size.trim().is_empty() {
            let help = "write the size of each zone, such as 40/12m";
            let message =
                format!("the zone `{part}` has no size: fio requests its first block only");
            return Err(job_error(message, help));
        }
        let size = SizeOrPercent::Bytes(value::integer(size.trim(), base)?);
        let access_percent = value::integer_within(access.trim(), base, [0, 100])?;
        Ok(Zone { access_percent, size })
    };
    checked_zones(text.split(':').map(zone).collect::<Result<_, _>>()?)
}

fn checked_zones(zones: Vec<Zone>) -> Result<Vec<Zone>, Diagnostic> {
    let sum: u64 = zones.iter().map(|zone| zone.access_percent).sum();
    if sum != 100 {
        let help = "the first number of each pair is its share of the requests";
        return Err(job_error(
            format!("the shares of the requests add up to {sum} %, not 100 %"),
            help,
        ));
    }
    let nothing = [SizeOrPercent::Percent(0), SizeOrPercent::Bytes(0)];
    if zones.iter().any(|zone| zone.access_percent > 0 && nothing.contains(&zone.size)) {
        let help = "make its size 1 % or more";
        return Err(job_error("a zone with requests has a size of 0", help));
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
        let (left, right) = part.trim().split_once('/').unwrap_or((part.trim(), ""));
        let percent = match right.trim() {
            "" => None,
            right => Some(value::integer_within(right, KbBase(1024), [0, 100])?),
        };
        rows.push((parse(left.trim())?, percent));
    }
    if rows.len() > SPLITS_MAX {
        let message = format!("{} entries in one list", rows.len());
        return Err(job_error(message, format!("fio accepts {SPLITS_MAX} or fewer")));
    }
    let given: u64 = rows.iter().filter_map(|row| row.1).sum();
    let blank = rows.iter().filter(|row| row.1.is_none()).count() as u64;
    if given > 100 || (blank == 0 && given == 0) {
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
