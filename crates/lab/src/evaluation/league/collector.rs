//! Standings of a sample whose cells another caller has run, collected cell by cell in any order.
//!
//! Of a cell only the figures of its sections are kept, and only until all cells of its pairing are
//! there; then its ratios. So the memory does not depend on histograms: it is a few hundred bytes
//! per cell.

use super::record::{EntryRecord, PairingRecord};
use super::standings::{Pairing, Standings};
use super::{LeagueRequest, empty_record};
use crate::experiment::build::BuildIdentity;
use crate::experiment::study::CellSummary;
use anyhow::{Result, bail};
use std::collections::BTreeMap;

/// Outcomes of the cells of a sample.
#[derive(Debug)]
pub struct StandingsCollector<'a> {
    request: &'a LeagueRequest,
    build: BuildIdentity,
    /// Pairings that lack cells, by number.
    incomplete: BTreeMap<u32, PairingRecord>,
    /// Pairings that have all cells, by number.
    complete: BTreeMap<u32, Pairing>,
}

impl StandingsCollector<'_> {
    /// A collector without cells.
    ///
    /// # Errors
    /// If the running program cannot be identified.
    pub fn new(request: &LeagueRequest) -> Result<StandingsCollector<'_>> {
        let build = BuildIdentity::current()?;
        let (incomplete, complete) = (BTreeMap::new(), BTreeMap::new());
        Ok(StandingsCollector { request, build, incomplete, complete })
    }

    /// Adds the outcome of a cell of the pairing with this number. Each cell is added once.
    pub fn add(&mut self, number: u32, cell: &CellSummary) {
        let request = self.request;
        let new_record = || empty_record(request, number);
        let record = self.incomplete.entry(number).or_insert_with(new_record);
        record.entries.push(EntryRecord::new(&self.build, cell));
        if record.entries.len() == request.cells_per_pairing() {
            self.complete.insert(number, Pairing::new(request, record));
            self.incomplete.remove(&number);
        }
    }

    /// The standings of all pairings.
    ///
    /// # Errors
    /// If cells are missing.
    pub fn finish(self) -> Result<Standings> {
        let (done, size) = (self.complete.len(), self.request.size as usize);
        if done < size {
            bail!("{done} of {size} pairings have all their cells");
        }
        Ok(Standings::of_pairings(self.request, self.complete.into_values().collect()))
    }
}
