//! The files of a clone: which file a request goes to, and where on the volume.

use super::DIRECTIONS;
use super::block_source::BlockSource;
use super::direction_stream::{AddressTurn, DirectionStream, DrawTarget};
use super::map::RandomMap;
use crate::job::{Access, AddressModifier, Direction, FileOrder, Region, Section, StridedZones};
use mirrorball_core::rng::Rng;

/// The files of a clone; one if it works on the volume.
#[derive(Clone, Debug)]
pub(super) struct FileSet {
    files: Vec<FileStream>,
    order: FileOrder,
    /// The draw of a file, if files are drawn.
    draw: Option<BlockSource>,
    /// Files with requests, by index: all that are open and not done.
    open: Vec<usize>,
    open_max: usize,
    /// The first file that was not open so far.
    unopened: usize,
    /// Place in `open` of the file of the last request, and requests left to it.
    current: usize,
    ios_left: u64,
    file_ios: u64,
    /// Requests until the next random address, if there are others.
    run: Option<u64>,
    run_left: u64,
}

/// One file: a stream for each direction.
#[derive(Clone, Debug)]
struct FileStream {
    region: Region,
    streams: [DirectionStream; 3],
    map: Option<RandomMap>,
    zones: Option<ZoneState>,
    /// Bytes of a pass that are left; counted if its end ends the file.
    left: u64,
    is_mapped: bool,
}

/// The zone that requests go to.
#[derive(Clone, Debug)]
struct ZoneState {
    zones: StridedZones,
    start: u64,
    bytes: u64,
}

/// Where on the volume a request goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileTarget {
    /// First byte on the volume.
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl FileSet {
    pub(super) fn new(job: &Section, regions: &[Region], rng: &mut Rng) -> FileSet {
        let files: Vec<_> = regions.iter().map(|it| FileStream::new(job, *it, rng)).collect();
        let count = files.len();
        let draw = match &job.file_order {
            FileOrder::Drawn(law) if count > 1 => Some(BlockSource::new(law, count as u64, rng)),
            _ => None,
        };
        let run = match job.modifier {
            AddressModifier::Runs { length, .. } => Some(length),
            _ => None,
        };
        let mut set = FileSet {
            files,
            order: job.file_order.clone(),
            draw,
            open: Vec::new(),
            open_max: job.open_files.unwrap_or(count).clamp(1, count),
            unopened: 0,
            current: 0,
            ios_left: 0,
            file_ios: job.file_ios,
            run,
            run_left: 0,
        };
        set.open_files();
        set
    }

    /// Draws the next request of a direction. `None` if every file is done.
    #[inline]
    pub(super) fn next(&mut self, direction: Direction, rng: &mut Rng) -> Option<FileTarget> {
        let turn = match self.run {
            None => AddressTurn::Any,
            Some(length) => self.next_turn(length),
        };
        if let [file] = &mut self.files[..] {
            return file.next(direction, turn, rng);
        }
        self.next_of_many(direction, turn, rng)
    }

    /// Starts every file over.
    pub(super) fn restart(&mut self, rng: &mut Rng) {
        for file in &mut self.files {
            file.restart(rng);
        }
        self.open.clear();
        (self.unopened, self.current, self.ios_left) = (0, 0, 0);
        self.open_files();
    }

    fn next_turn(&mut self, length: u64) -> AddressTurn {
        if self.run_left == 0 {
            self.run_left = length - 1;
            return AddressTurn::Random;
        }
        self.run_left -= 1;
        AddressTurn::Following
    }

    #[inline(never)]
    fn next_of_many(
        &mut self,
        direction: Direction,
        turn: AddressTurn,
        rng: &mut Rng,
    ) -> Option<FileTarget> {
        loop {
            if self.open.is_empty() {
                return None;
            }
            self.choose(rng);
            let file = &mut self.files[self.open[self.current]];
            if file.has_room(direction)
                && let Some(target) = file.next(direction, turn, rng)
            {
                return Some(target);
            }
            self.open.remove(self.current);
            self.ios_left = 0;
            // The file after it takes its place.
            self.current = self.current.checked_sub(1).unwrap_or(self.open.len());
            self.open_files();
        }
    }

    /// Chooses the open file of the next request.
    fn choose(&mut self, rng: &mut Rng) {
        let count = self.open.len();
        if self.ios_left > 0 && self.current < count {
            self.ios_left -= 1;
            return;
        }
        self.current = match (&mut self.draw, &self.order) {
            (Some(draw), _) => draw.draw(rng) as usize % count,
            (None, FileOrder::Sequential) => 0,
            (None, _) => (self.current + 1) % count,
        };
        self.ios_left = self.file_ios - 1;
    }

    fn open_files(&mut self) {
        let is_first = self.open.is_empty();
        while self.open.len() < self.open_max && self.unopened < self.files.len() {
            self.open.push(self.unopened);
            self.unopened += 1;
        }
        if is_first {
            self.current = self.open.len().saturating_sub(1);
        }
    }
}

impl FileStream {
    fn new(job: &Section, region: Region, rng: &mut Rng) -> FileStream {
        let zones = job.zones.map(|zones| ZoneState { zones, start: 0, bytes: 0 });
        let bytes = job.zones.map_or(region.bytes, |zones| zones.range_bytes.min(region.bytes));
        let part = Region { bytes, ..region };
        let map = RandomMap::of(job, bytes, rng);
        let streams = DIRECTIONS.map(|direction| DirectionStream::new(job, direction, part, rng));
        let is_mapped = job.access == Access::Sequential || map.is_some();
        FileStream { region, streams, map, zones, left: region.bytes, is_mapped }
    }

    #[inline(always)]
    fn next(
        &mut self,
        direction: Direction,
        turn: AddressTurn,
        rng: &mut Rng,
    ) -> Option<FileTarget> {
        let mut start = self.region.offset;
        if self.zones.is_some() {
            self.enter_zone(rng);
            start += self.zones.as_ref().map_or(0, |zone| zone.start);
        }
        let stream = &mut self.streams[direction as usize];
        let DrawTarget { offset, length } = stream.next(self.map.as_mut(), turn, rng)?;
        self.left = self.left.saturating_sub(length);
        if let Some(zone) = &mut self.zones {
            zone.bytes += length;
        }
        Some(FileTarget { offset: start + offset, length })
    }

    /// Moves to the next zone if it is time, or to the start of the zone at its end.
    #[inline(never)]
    fn enter_zone(&mut self, rng: &mut Rng) {
        let Some(ZoneState { zones, start, bytes }) = &mut self.zones else { return };
        let is_through = *bytes >= zones.size_bytes;
        if !is_through && !bytes.is_multiple_of(zones.range_bytes) {
            return;
        }
        if is_through {
            *bytes = 0;
            *start += zones.range_bytes + zones.skip_bytes;
            if *start + zones.range_bytes > self.region.bytes {
                *start = 0;
            }
        }
        self.restart_streams(rng);
    }

    fn restart(&mut self, rng: &mut Rng) {
        self.left = self.region.bytes;
        if let Some(zone) = &mut self.zones {
            (zone.start, zone.bytes) = (0, 0);
        }
        self.restart_streams(rng);
    }

    fn restart_streams(&mut self, rng: &mut Rng) {
        self.streams.iter_mut().for_each(DirectionStream::restart);
        if let Some(map) = &mut self.map {
            map.restart(rng);
        }
    }

    /// Whether a request of a direction fits in what is left of the file.
    fn has_room(&self, direction: Direction) -> bool {
        let stream = &self.streams[direction as usize];
        !self.is_mapped || (self.left >= stream.block_bytes() && stream.has_room())
    }
}
