//! The stale map of a running volume (see [`crate::label::StaleMap`]): what members that are
//! missing have to get when they come back.
//!
//! Whatever a missing member lacks is in the map, or in a region that is active in the dirty log. A
//! region leaves the log only after its bit is durable on all members that take writes. While all
//! members are in sync there is no map. Without one, a missing member lacks everything.

use crate::label::{DataId, StaleMap};

/// See the page of this module.
#[derive(Clone, Debug, Default)]
pub(crate) struct StaleRegions {
    regions: u64,
    map: Option<StaleMap>,
    /// True if the map has more than the one on the members, or one of them lacks it.
    is_due: bool,
    /// The generation of the map that is durable; zero for none.
    durable_generation: u64,
    /// The newest generation that any member has.
    last_generation: u64,
}

impl StaleRegions {
    /// A map as the members have it, of a volume with this number of regions, or one to be written
    /// if it has more.
    pub(crate) fn new(
        regions: u64,
        map: Option<(StaleMap, bool)>,
        last_generation: u64,
    ) -> StaleRegions {
        let (map, is_due) = map.map_or((None, false), |(map, has_more)| (Some(map), has_more));
        let durable_generation = map.as_ref().map_or(0, |map| map.generation);
        assert!(durable_generation <= last_generation, "no map is newer than the newest");
        StaleRegions { regions, map, is_due, durable_generation, last_generation }
    }

    /// Begins a map, unless there is one with this base; without a base there is none.
    pub(crate) fn set_base(&mut self, base: Option<DataId>) {
        if self.map.as_ref().map(|map| map.base) != base {
            self.map = base.map(|base| StaleMap::new(base, self.regions));
            (self.is_due, self.durable_generation) = (false, 0);
        }
    }

    pub(crate) fn insert(&mut self, region: u32) {
        if let Some(map) = &mut self.map
            && u64::from(region) < self.regions
        {
            self.is_due |= map.insert(region);
        }
    }

    /// Returns true if a missing member may lack a write to a region that is not active.
    pub(crate) fn contains(&self, region: u32) -> bool {
        self.map.as_ref().is_none_or(|map| map.contains(region))
    }

    /// Records that a member without the map takes writes.
    pub(crate) fn on_joined(&mut self) {
        self.is_due |= self.map.is_some();
    }

    /// Returns true if the map is to be written.
    pub(crate) fn is_due(&self) -> bool {
        self.is_due
    }

    /// Returns true if the members have the map as it is, or there is none.
    pub(crate) fn is_durable(&self) -> bool {
        let is_current = |map: &StaleMap| map.generation == self.durable_generation;
        !self.is_due && self.map.as_ref().is_none_or(is_current)
    }

    pub(crate) fn begin_write(&mut self) {
        assert!(self.map.is_some(), "there is a map to write");
        self.is_due = false;
        self.last_generation += 1;
        if let Some(map) = &mut self.map {
            assert!(map.fits(self.regions), "the map is of the volume");
            map.generation = self.last_generation;
        }
    }

    /// Handles the end of that on all members.
    pub(crate) fn on_written(&mut self, is_durable: bool) {
        match &self.map {
            Some(map) if is_durable => {
                assert!(map.generation >= self.durable_generation, "generations only grow");
                self.durable_generation = map.generation;
            }
            Some(_) => self.is_due = true,
            None => {}
        }
    }

    /// The map, while it is written. Panics if there is none.
    pub(crate) fn written_map(&self) -> &StaleMap {
        self.map.as_ref().expect("the map is not dropped while it is written")
    }

    /// The generation that records of the log rely on.
    pub(crate) fn durable_generation(&self) -> u32 {
        assert!(self.durable_generation <= self.last_generation, "it was written");
        self.durable_generation as u32
    }
}
