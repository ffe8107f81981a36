//! Where an address lies: zone, track, and how far along the recording.
//!
//! Addresses run along a track, then over the surfaces of the cylinder, then to the next cylinder
//! inwards. The angle is not stored but follows from one number, the *position*: how far the
//! spindle turns, in units of 2^-24 revolution, from the first byte of the disk until a head that
//! reads everything in order arrives at this byte. Each switch of head or cylinder adds its time
//! to the position as skew, so a stream that goes on in order never loses a revolution, and the
//! angle of a byte is its position modulo one revolution.
//!
//! Rates are the sustained ones of data sheets, so a track holds what passes in one revolution plus
//! its share of the switches (the data sheets' own formula: bytes of a cylinder over the time of
//! its revolutions and switches).
//!
//! Non-goals: spare sectors, defect lists, serpentine layouts.

use super::parameters::HddParameters;

/// Units of position in one revolution.
pub(super) const REVOLUTION: u64 = 1 << 24;
const SECTOR_BYTES: u64 = 512;
/// Zones are found through this many equal pieces of the address range.
const PIECES_LOG2: u32 = 9;

#[derive(Clone, Debug)]
pub(super) struct Geometry {
    zones: Vec<RecordingZone>,
    /// By piece of the address range, the zone of its first byte.
    first_zone: Vec<u8>,
    piece_shift: u32,
    surfaces: u32,
    cylinders: u32,
    capacity_bytes: u64,
    head_skew: u64,
    cylinder_skew: u64,
}

#[derive(Clone, Copy, Debug)]
struct RecordingZone {
    start_byte: u64,
    start_position: u64,
    start_cylinder: u32,
    track_bytes: u64,
    /// Position units per byte on a track, times 2^32.
    units_per_byte: u64,
    /// The same with the track's share of the switches.
    sustained_units_per_byte: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TrackPosition {
    pub(super) cylinder: u32,
    /// Counted over the whole disk.
    pub(super) track: u32,
    pub(super) position: u64,
}

/// A run of bytes: where it starts, and where the head is when it has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TrackSpan {
    pub(super) start: TrackPosition,
    pub(super) end: TrackPosition,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PositionRange {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl TrackSpan {
    #[inline]
    pub(super) fn positions(&self) -> PositionRange {
        PositionRange { start: self.start.position, end: self.end.position }
    }
}

impl Geometry {
    /// Lays out a disk.
    pub(super) fn new(parameters: &HddParameters, capacity_bytes: u64) -> Geometry {
        let head_skew = skew_units(parameters, parameters.head_switch.0);
        let cylinder_skew = skew_units(parameters, parameters.seek_track.0);
        let surfaces = parameters.surfaces;
        let switches = u64::from(surfaces - 1) * head_skew + cylinder_skew;
        let mean_skew = switches / u64::from(surfaces);
        let cylinders = cylinders_per_zone(parameters, capacity_bytes);
        let mut zones: Vec<RecordingZone> = Vec::new();
        let (mut start_byte, mut start_position) = (0, 0);
        for index in 0..parameters.zones {
            let track_bytes = track_bytes(parameters, index);
            zones.push(RecordingZone {
                start_byte,
                start_position,
                start_cylinder: index * cylinders,
                track_bytes,
                units_per_byte: (REVOLUTION << 32) / track_bytes,
                sustained_units_per_byte: ((REVOLUTION + mean_skew) << 32) / track_bytes,
            });
            let tracks = u64::from(cylinders) * u64::from(surfaces);
            start_byte += tracks * track_bytes;
            start_position += tracks * REVOLUTION
                + (tracks - u64::from(cylinders)) * head_skew
                + u64::from(cylinders) * cylinder_skew;
        }
        let piece_shift = (64 - capacity_bytes.leading_zeros()).saturating_sub(PIECES_LOG2);
        let pieces = (capacity_bytes >> piece_shift) + 1;
        let zone_of = |byte: u64| zones.partition_point(|zone| zone.start_byte <= byte) - 1;
        let first_zone = (0..pieces).map(|piece| zone_of(piece << piece_shift) as u8).collect();
        Geometry {
            zones,
            first_zone,
            piece_shift,
            surfaces,
            cylinders: cylinders * parameters.zones,
            capacity_bytes,
            head_skew,
            cylinder_skew,
        }
    }

    /// The largest capacity that needs no more tracks than the model can number, 2^32 - 1.
    pub(super) fn capacity_max(parameters: &HddParameters) -> u64 {
        let track_bytes = track_bytes(parameters, parameters.zones - 1).max(1);
        track_bytes.saturating_mul(1 << 32) - 1
    }

    pub(super) fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// The most that lies between the last byte of a track and the first of the next, in position
    /// units: the skew, and what rounding leaves of the last byte.
    pub(super) fn widest_gap(&self) -> u64 {
        self.head_skew.max(self.cylinder_skew) + 1
    }

    /// Where `length` bytes from `offset` lie. Panics if they do not lie on the disk.
    #[inline]
    pub(super) fn extent(&self, offset: u64, length: u64) -> TrackSpan {
        let length = length.max(1);
        assert!(
            offset < self.capacity_bytes && length <= self.capacity_bytes - offset,
            "an I/O of {length} bytes at {offset} on a disk of {}",
            self.capacity_bytes
        );
        let zone = self.zone_of(offset);
        let (start, within) = self.place(zone, offset);
        if within + length <= zone.track_bytes {
            let end =
                TrackPosition { position: start.position + span(zone, within, length), ..start };
            return TrackSpan { start, end };
        }
        let last = offset + length - 1;
        let zone = self.zone_of(last);
        let (mut end, within) = self.place(zone, last);
        end.position += span(zone, within, 1);
        TrackSpan { start, end }
    }

    /// About how far the recording runs in `bytes` at this place.
    pub(super) fn reach(&self, offset: u64, bytes: u64) -> u64 {
        let zone = self.zone_of(offset);
        ((u128::from(bytes) * u128::from(zone.sustained_units_per_byte)) >> 32) as u64
    }

    #[inline]
    fn zone_of(&self, byte: u64) -> &RecordingZone {
        let mut index = usize::from(self.first_zone[(byte >> self.piece_shift) as usize]);
        while self.zones.get(index + 1).is_some_and(|next| next.start_byte <= byte) {
            index += 1;
        }
        &self.zones[index]
    }

    /// The place of a byte, and how far it is from the start of its track.
    #[inline]
    fn place(&self, zone: &RecordingZone, byte: u64) -> (TrackPosition, u64) {
        let into_zone = byte - zone.start_byte;
        let track = into_zone / zone.track_bytes;
        let within = into_zone - track * zone.track_bytes;
        let track = track as u32;
        let cylinder = track / self.surfaces;
        let position = zone.start_position
            + u64::from(track) * REVOLUTION
            + u64::from(track - cylinder) * self.head_skew
            + u64::from(cylinder) * self.cylinder_skew
            + ((within * zone.units_per_byte) >> 32);
        let place = TrackPosition {
            cylinder: zone.start_cylinder + cylinder,
            track: zone.start_cylinder * self.surfaces + track,
            position,
        };
        (place, within)
    }
}

/// Units from the byte at `within` to the one `length` further on the same track. Rounded as
/// [`Geometry::place`] rounds, so that the end of one extent is the start of the next.
#[inline]
fn span(zone: &RecordingZone, within: u64, length: u64) -> u64 {
    (((within + length) * zone.units_per_byte) >> 32) - ((within * zone.units_per_byte) >> 32)
}

fn skew_units(parameters: &HddParameters, switch_ns: u64) -> u64 {
    (switch_ns * REVOLUTION).div_ceil(parameters.revolution().0)
}

/// Bytes of a track of zone `index`: what passes at the sustained rate in one revolution and the
/// track's share of the switches, in whole sectors.
fn track_bytes(parameters: &HddParameters, index: u32) -> u64 {
    let steps = f64::from((parameters.zones - 1).max(1));
    let inwards = f64::from(index) / steps;
    let (outer, inner) = (parameters.outer_rate as f64, parameters.inner_rate as f64);
    let rate = outer + (inner - outer) * inwards;
    let surfaces = f64::from(parameters.surfaces);
    let switches_ns =
        (surfaces - 1.0) * parameters.head_switch.0 as f64 + parameters.seek_track.0 as f64;
    let track_ns = parameters.revolution().0 as f64 + switches_ns / surfaces;
    let bytes = (rate * track_ns / 1e9) as u64;
    (bytes - bytes % SECTOR_BYTES).max(SECTOR_BYTES)
}

fn cylinders_per_zone(parameters: &HddParameters, capacity_bytes: u64) -> u32 {
    let stack: u64 = (0..parameters.zones).map(|index| track_bytes(parameters, index)).sum();
    capacity_bytes.div_ceil(stack * u64::from(parameters.surfaces)).max(1) as u32
}
