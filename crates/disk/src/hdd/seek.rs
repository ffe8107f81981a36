//! Seek curves: the time of a seek as a function of its distance in cylinders.
//!
//! Three forms, as data sheets and papers give them:
//! - track, average and full stroke: Lee's three-coefficient fit, `a*sqrt(x-1) + b*(x-1) + c`, as
//!   in DiskSim's manual (Bucy and Ganger, CMU-PDL-08-101);
//! - track and average only: a pure square root, whose mean over random pairs of cylinders is 8/15
//!   of the way from the track seek to the full stroke;
//! - points of a measured curve, with straight lines between them.
//!
//! Whatever the form, the curve is compiled once to a table with 32 entries to each doubling of the
//! distance, so that the choice among queued commands costs an index and a multiplication.

use super::parameters::HddParameters;

/// Entries to each doubling of the distance, as a power of two.
const BITS: u32 = 5;
const PER_OCTAVE: u32 = 1 << BITS;

/// A compiled seek curve, in whatever unit it was built with.
#[derive(Clone, Debug)]
pub(super) struct SeekTable {
    entries: Vec<SeekEntry>,
}

#[derive(Clone, Copy, Debug)]
struct SeekEntry {
    base: u32,
    rise: u32,
}

/// The time of a seek over `distance` of `cylinders`, in nanoseconds and not yet compiled.
pub(super) fn seek_ns(parameters: &HddParameters, distance: f64, cylinders: f64) -> f64 {
    let minimum = parameters.seek_track.0 as f64;
    let Some(average) = parameters.seek_average else {
        return between_points(parameters, distance / cylinders);
    };
    let average = average.0 as f64;
    let steps = (distance - 1.0).max(0.0);
    let longest = (cylinders - 1.0).max(1.0);
    match parameters.seek_full {
        None => minimum + (average - minimum) * 15.0 / 8.0 * (steps / longest).sqrt(),
        Some(full) => {
            let full = full.0 as f64;
            let root = (-10.0 * minimum + 15.0 * average - 5.0 * full) / (3.0 * longest.sqrt());
            let linear = (7.0 * minimum - 15.0 * average + 8.0 * full) / (3.0 * longest);
            root * steps.sqrt() + linear * steps + minimum
        }
    }
}

fn between_points(parameters: &HddParameters, fraction: f64) -> f64 {
    let mut from = (0.0, parameters.seek_track.0 as f64);
    for point in &parameters.seek_points {
        let to = (point.0, point.1.0 as f64);
        if fraction <= to.0 {
            return from.1 + (to.1 - from.1) * (fraction - from.0) / (to.0 - from.0);
        }
        from = to;
    }
    from.1
}

impl SeekTable {
    /// Compiles the curve of a disk with `cylinders` cylinders. Distance zero takes a head switch.
    /// Times are counted in units of `unit_ns` nanoseconds.
    pub(super) fn new(parameters: &HddParameters, cylinders: u32, unit_ns: f64) -> SeekTable {
        let count = |time: f64| (time / unit_ns).ceil() as u32;
        let time = |distance: u32| match distance {
            0 => parameters.head_switch.0 as f64,
            _ => seek_ns(parameters, f64::from(distance), f64::from(cylinders)),
        };
        let mut entries = Vec::new();
        // The fit of an odd data sheet may fall somewhere; an arm that is faster over a longer way
        // would make the choice of commands absurd.
        let mut base = 0;
        // One entry beyond the disk, for the last to rise to.
        for index in 0..=index_of(cylinders) + 1 {
            base = base.max(count(time(first_distance(index))));
            entries.push(SeekEntry { base, rise: 0 });
        }
        for index in 1..entries.len() {
            entries[index - 1].rise = entries[index].base - entries[index - 1].base;
        }
        SeekTable { entries }
    }

    /// The time over `distance` cylinders; the head switch for none.
    #[inline]
    pub(super) fn time(&self, distance: u32) -> u32 {
        let shift = shift_of(distance);
        let entry = self.entries[index_of(distance) as usize];
        let rest = distance & ((1 << shift) - 1);
        entry.base + ((u64::from(entry.rise) * u64::from(rest)) >> shift) as u32
    }
}

/// How many low bits of `distance` its entry leaves to interpolation.
#[inline]
fn shift_of(distance: u32) -> u32 {
    (31 - (distance | 1).leading_zeros()).saturating_sub(BITS)
}

#[inline]
fn index_of(distance: u32) -> u32 {
    let shift = shift_of(distance);
    shift * PER_OCTAVE + (distance >> shift)
}

/// The shortest distance of an entry.
fn first_distance(index: u32) -> u32 {
    let shift = (index / PER_OCTAVE).saturating_sub(1);
    (index - shift * PER_OCTAVE) << shift
}
