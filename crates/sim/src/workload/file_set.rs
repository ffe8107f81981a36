//! The files of a clone: which file a request goes to, and where on the volume.

use super::DIRECTIONS;
use super::block_source::BlockSource;
use super::direction_stream::{AddressTurn, DirectionStream, DrawTarget};
use super::map::RandomMap;
use crate::job::{
    Access, AddressModifier, Direction, Distribution, FileOrder, Section, StridedZones, WorkRegion,
};
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
    /// Bytes requested of all files since one moved to its next zone. As in fio, files share them.
    zone_bytes: u64,
}

/// One file: a stream for each direction.
#[derive(Clone, Debug)]
struct FileStream {
    region: WorkRegion,
    streams: [DirectionStream; 3],
    map: Option<RandomMap>,
    zones: Option<StridedZones>,
    /// Where its zone starts.
    zone_start: u64,
    /// Whether it starts over at its end.
    is_endless: bool,
}

/// Where on the volume a request goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileTarget {
    /// First byte on the volume.
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl FileSet {
    pub(super) fn new(job: &Section, regions: &[WorkRegion], rng: &mut Rng) -> FileSet {
        let count = regions.len();
        let goes_round = job.time_based && count == 1;
        let file = |it: &WorkRegion| FileStream::new(job, *it, goes_round, rng);
        let files: Vec<_> = regions.iter().map(file).collect();
        let draw = match &job.file_order {
            FileOrder::Drawn(law) if count > 1 => {
                Some(BlockSource::of_files(law, count as u64, rng))
            }
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
            zone_bytes: 0,
        };
        set.open_files();
        set
    }

    /// Draws the next request of a direction. `None` if every file is done.
    #[inline(always)]
    pub(super) fn next(&mut self, direction: Direction, rng: &mut Rng) -> Option<FileTarget> {
        let turn = match self.run {
            None => AddressTurn::Any,
            Some(length) => self.next_turn(length),
        };
        if let [file] = &mut self.files[..] {
            return file.next(direction, turn, &mut self.zone_bytes, rng);
        }
        self.next_of_many(direction, turn, rng)
    }

    /// Starts every file over.
    pub(super) fn restart(&mut self, rng: &mut Rng) {
        for file in &mut self.files {
            file.restart(rng);
        }
        self.open.clear();
        (self.unopened, self.current, self.ios_left, self.zone_bytes) = (0, 0, 0, 0);
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
            if let Some(target) = file.next(direction, turn, &mut self.zone_bytes, rng) {
                return Some(target);
            }
            self.open.remove(self.current);
            self.ios_left = 0;
            self.open_files();
            // The file after it takes its place.
            self.current = self.current.checked_sub(1).unwrap_or(self.open.len().saturating_sub(1));
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
    fn new(job: &Section, region: WorkRegion, goes_round: bool, rng: &mut Rng) -> FileStream {
        let map_bytes = job.zones.map_or(region.region.bytes, |zones| zones.range_bytes);
        let map = RandomMap::of(job, map_bytes, rng);
        let streams = DIRECTIONS
            .map(|direction| DirectionStream::new(job, direction, region, goes_round, rng));
        let is_skewed =
            matches!(&job.file_order, FileOrder::Drawn(law) if *law != Distribution::Uniform);
        let is_endless = is_skewed || (job.time_based && job.access == Access::Random);
        FileStream { region, streams, map, zones: job.zones, zone_start: 0, is_endless }
    }

    /// Draws the next request of a direction. `None` at its end.
    #[inline(always)]
    fn next(
        &mut self,
        direction: Direction,
        turn: AddressTurn,
        zone_bytes: &mut u64,
        rng: &mut Rng,
    ) -> Option<FileTarget> {
        let mut start = self.region.region.offset;
        if let Some(zones) = self.zones {
            self.enter_zone(zones, direction, zone_bytes, rng);
            start += self.zone_start;
        }
        let stream = &mut self.streams[direction as usize];
        let mut drawn = stream.next(self.map.as_mut(), turn, rng);
        if drawn.is_none() && self.is_endless {
            drawn = self.next_of_another_pass(direction, turn, rng);
        }
        let DrawTarget { offset, length } = drawn?;
        *zone_bytes += length;
        Some(FileTarget { offset: start + offset, length })
    }

    #[inline(never)]
    fn next_of_another_pass(
        &mut self,
        direction: Direction,
        turn: AddressTurn,
        rng: &mut Rng,
    ) -> Option<DrawTarget> {
        self.restart_streams(rng);
        self.streams[direction as usize].next(self.map.as_mut(), turn, rng)
    }

    /// Moves to the next zone if it is time, or to the start of the zone at its end. As in fio,
    /// zones go on to the end of the file or device.
    #[inline(never)]
    fn enter_zone(
        &mut self,
        zones: StridedZones,
        direction: Direction,
        bytes: &mut u64,
        rng: &mut Rng,
    ) {
        let WorkRegion { region, container } = self.region;
        let room_bytes = container.offset + container.bytes - region.offset;
        let stream = &mut self.streams[direction as usize];
        if *bytes >= zones.size_bytes {
            *bytes = 0;
            self.zone_start += zones.range_bytes + zones.skip_bytes;
            if self.zone_start >= room_bytes {
                self.zone_start = 0;
            }
            stream.restart();
        }
        stream.restart_at(zones.range_bytes);
        let is_new_round = bytes.is_multiple_of(zones.range_bytes);
        let before_bytes = region.offset + self.zone_start - container.offset;
        self.streams.iter_mut().for_each(|stream| stream.set_start(before_bytes, container.bytes));
        if is_new_round {
            self.restart_streams(rng);
        }
    }

    fn restart(&mut self, rng: &mut Rng) {
        self.zone_start = 0;
        self.restart_streams(rng);
    }

    fn restart_streams(&mut self, rng: &mut Rng) {
        self.streams.iter_mut().for_each(DirectionStream::restart);
        if let Some(map) = &mut self.map {
            map.restart(rng);
        }
    }
}
