//! Reads and writes of the pages of checksums.
//!
//! A page is read before the first piece of its span starts, from all members in sync that should
//! have it; the newest counts, and where one of them lacks it, it is written again.
//!
//! A page is written to all members that should have it
//!
//! - before the region of its span leaves the dirty log. Until then a crash makes the region
//!   unsynced, in which the checksums on the members are hints (see `checksum_checks`);
//! - before the labels say that the volume was stopped in good order, or is synchronised;
//! - when the table of a member is rebuilt, which comes after its data;
//! - in the idle time of the log, if it changed without a write.
//!
//! So the checksum of a block that is on a member in sync is that of the newest data, or unknown,
//! or its region is in the dirty log or was never synchronised. What was written counts after a
//! flush, which follows in each of these cases.

use crate::StoreGate;
use crate::checksum::Checksummer;
use crate::checksum_store::{ChecksumStore, PageUser, page_numbers};
use crate::label::{
    ChecksumPage, DamagedPage, METADATA_BYTES, PAGE_SLOTS_BYTES, PAGE_SPAN_BYTES, newest_page,
};
use crate::metadata::MetadataJob;
use crate::unsynced_regions::REGION_BYTES;
use mirrorball_core::geometry::ChunkMap;
use mirrorball_core::io::{Op, RequestKind, VolumeError};
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::volume::gate::{Array, GateAnswer, PieceView, Released};
use mirrorball_core::volume::{MemberStates, RequestKey};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Pages in a region of the dirty log.
const PAGES_PER_REGION: u32 = (REGION_BYTES / PAGE_SPAN_BYTES) as u32;

/// Work that goes on once its pages are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PageWaiter {
    /// Regions leave the dirty log.
    Log,
    Stop,
    /// A request goes on: a step of a rebuild, or a flush.
    Request(RequestKey),
}

/// The writes of pages: those under way, and who waits for which.
#[derive(Debug, Default)]
pub(crate) struct PageWrites {
    /// Pages under way, with the number of writes left.
    in_flight: BTreeMap<u32, usize>,
    /// Pages to be written next.
    wanted: BTreeSet<u32>,
    /// True if a page under way could not be written to a member that stays.
    has_failed: bool,
    waiters: Vec<(PageWaiter, BTreeSet<u32>)>,
    /// Requests that wait to be cut, each with the number of its waits and their result.
    requests: BTreeMap<RequestKey, (usize, Result<(), VolumeError>)>,
    /// Steps of rebuilds that wait for the label of their member, with their ranges.
    unlabelled: Vec<(RequestKey, MemberIndex, Range<u64>)>,
}

impl StoreGate {
    /// Computes the checksums of the data of this volume; `None` if it has none. If it has, each
    /// write is submitted with its data ([`StoreVolume`](crate::StoreVolume)), and each good read
    /// of a member goes through it.
    #[inline]
    pub fn checksummer(&self) -> Option<Checksummer> {
        self.checksums.as_ref().map(|checksums| checksums.checksummer)
    }

    /// Returns true if data have checksums.
    pub fn has_checksums(&self) -> bool {
        self.checksums.is_some()
    }

    /// Number of blocks with wrong data that were found on the device of a member since the start;
    /// a block counts again after it was written.
    pub fn mismatched_blocks(&self, member: MemberIndex) -> u64 {
        self.checksums.as_ref().map_or(0, |checksums| checksums.mismatched.on_device(member))
    }

    /// The same, of all devices that the member has had.
    pub fn all_mismatched_blocks(&self, member: MemberIndex) -> u64 {
        self.checksums.as_ref().map_or(0, |checksums| checksums.mismatched.totals[member.get()])
    }

    /// Number of pages of checksums since the start that could not be read on the only members that
    /// may have them. The blocks of such a page, of which there are 512, are read as if they had no
    /// checksums until they are written or scrubbed.
    #[inline]
    pub fn lost_checksum_pages(&self) -> u64 {
        self.checksums.as_ref().map_or(0, |checksums| checksums.lost_pages)
    }

    /// Decides whether a piece has the checksums of its span. If not, it waits for them.
    pub(crate) fn wait_for_page(
        &mut self,
        piece: &mut PieceView,
        array: &mut Array<'_>,
    ) -> GateAnswer {
        let Some(checksums) = &mut self.checksums else { return GateAnswer::Go };
        if piece.kind == RequestKind::Flush {
            return GateAnswer::Go;
        }
        let numbers = page_numbers(&piece.plan.range());
        assert_eq!(numbers.len(), 1, "a piece is in the span of one page");
        let number = numbers.start;
        if checksums.is_ready(number) {
            checksums.pin(number);
            piece.marks.is_pinned = true;
            return GateAnswer::Go;
        }
        if checksums.wait(number, PageUser::Piece(piece.key)) {
            self.load_page(number, array);
        }
        GateAnswer::Wait
    }

    /// Counts another user of the page of a piece that was divided.
    pub(crate) fn pin_page(&mut self, part: &PieceView) {
        self.checksums_mut().pin(page_numbers(&part.plan.range()).start);
    }

    /// Handles the end of a piece that used the page of its span.
    pub(crate) fn unpin_page(&mut self, piece: &PieceView) {
        self.checksums_mut().unpin(page_numbers(&piece.plan.range()).start);
    }

    /// The members that should have a page, with its offset on each.
    fn page_places(&self, number: u32, map: &ChunkMap) -> Vec<(MemberIndex, u64)> {
        let mapped = map.map(u64::from(number) * PAGE_SPAN_BYTES, 1);
        debug_assert!(!mapped.mirrors.is_empty(), "page {number} is on a member");
        let offset = u64::from(number) * PAGE_SLOTS_BYTES;
        let place = |member| (member, self.checksums().table_begin(member) + offset);
        mapped.mirrors.iter().map(|it| place(it.member)).collect()
    }

    /// The offset and the length of a read or write of a page on a member.
    pub(crate) fn page_range(
        &self,
        number: u32,
        member: MemberIndex,
        op: Op,
        states: &MemberStates,
    ) -> (u64, u64) {
        let table = self.checksums().table_begin(member);
        match op {
            _ if op == Op::Read || self.replaces_both_slots(number, member, states) => {
                (table + u64::from(number) * PAGE_SLOTS_BYTES, PAGE_SLOTS_BYTES)
            }
            _ => (self.checksums().page(number).offset(number, table), METADATA_BYTES as u64),
        }
    }

    pub(crate) fn page_bytes(
        &self,
        number: u32,
        member: MemberIndex,
        states: &MemberStates,
    ) -> Box<[u8]> {
        let (volume, table) = (self.label().array.uuid, self.checksums().table_begin(member));
        let page = self.checksums().page(number);
        let uuid = self.labels.uuid(member);
        let encode = |page: &ChecksumPage| page.encode(number, table, volume, uuid);
        if !self.replaces_both_slots(number, member, states) {
            return encode(page);
        }
        assert!(page.generation > 0, "page {number} is written under a generation");
        let before = ChecksumPage { generation: page.generation - 1, ..page.clone() };
        let mut slots = [before, page.clone()];
        slots.sort_by_key(|page| page.offset(number, table));
        slots.iter().map(encode).collect::<Vec<Box<[u8]>>>().concat().into()
    }

    /// Returns true if a write of a page has to replace whatever the member has of it: an
    /// unknown version could seem to be newer.
    fn replaces_both_slots(&self, number: u32, member: MemberIndex, states: &MemberStates) -> bool {
        states.members()[member].state != MemberState::InSync
            || self.checksums().is_unreadable_on(number, member)
    }

    fn load_page(&mut self, number: u32, array: &mut Array<'_>) {
        let places = self.page_places(number, array.map);
        let is_in_sync = |&(member, offset): &(MemberIndex, u64)| {
            array.states.is_in_sync(member, offset, PAGE_SLOTS_BYTES)
        };
        let members: Vec<MemberIndex> =
            places.iter().copied().filter(is_in_sync).map(|(member, _)| member).collect();
        let count = members.len() as u8;
        self.checksums_mut().begin_load(number, count.max(1));
        if members.is_empty() {
            // Its data cannot be read either, or only from a member whose table is not in sync.
            let has_data = |&(member, _): &(MemberIndex, u64)| {
                array.states.is_in_sync(member, array.map.allocated(member).start, 1)
            };
            if let Some((member, _)) = places.iter().copied().find(has_data) {
                self.checksums_mut().on_unreadable(number, member);
            }
            return self.on_page_loaded(number, array);
        }
        self.queue_metadata(members, Op::Read, MetadataJob::Checksums(number));
    }

    /// Handles the bytes of a read of a page that succeeded.
    pub(crate) fn on_page_read(
        &mut self,
        number: u32,
        member: MemberIndex,
        offset: u64,
        bytes: &[u8],
    ) {
        let (volume, uuid) = (self.label().array.uuid, self.labels.uuid(member));
        match newest_page(bytes, number, offset, volume, uuid) {
            Ok(found) => self.checksums_mut().on_found(number, found),
            Err(DamagedPage) => self.checksums_mut().on_unreadable(number, member),
        }
    }

    /// Handles the end of the read of a page from a member.
    fn on_page_loaded(&mut self, number: u32, array: &mut Array<'_>) {
        let waiting = self.checksums_mut().on_loaded(number);
        if self.checksums().is_lost(number) {
            // It begins again, and a member that comes back may have a later generation.
            let places = self.page_places(number, array.map);
            self.checksums_mut().doubt(number, places.into_iter().map(|(member, _)| member));
        }
        for user in waiting.into_iter().flatten() {
            match user {
                PageUser::Piece(key) => self.released.push_back(Released::Start(key)),
                PageUser::Rebuild(request) => self.write_page_for(request, number, array),
            }
        }
    }

    /// Has a step of a rebuild wait until the pages are written that a range of its member holds.
    pub(crate) fn rebuild_pages(
        &mut self,
        request: RequestKey,
        member: MemberIndex,
        range: &Range<u64>,
        array: &mut Array<'_>,
    ) -> GateAnswer {
        let numbers = self.pages_to_rebuild(member, range, array);
        if numbers.is_empty() {
            return GateAnswer::Go;
        }
        if !self.takers_of_metadata(array.states).contains(&member) {
            self.page_writes.unlabelled.push((request, member, range.clone()));
            self.update_labels(array);
            return GateAnswer::Wait;
        }
        let before = self.page_writes.requests.insert(request, (numbers.len(), Ok(())));
        assert!(before.is_none(), "a step of a rebuild is opened once");
        for number in numbers {
            let checksums = self.checksums_mut();
            if checksums.is_ready(number) {
                self.write_page_for(request, number, array);
            } else if checksums.wait(number, PageUser::Rebuild(request)) {
                self.load_page(number, array);
            }
        }
        GateAnswer::Wait
    }

    /// Continues the steps of rebuilds that wait for labels, which are current; or fails them, if
    /// the labels cannot be written.
    pub(crate) fn continue_rebuilds(&mut self, is_current: bool, array: &mut Array<'_>) {
        for (request, member, range) in std::mem::take(&mut self.page_writes.unlabelled) {
            let is_out = !is_current || array.states.is_failed(member);
            let result = if is_out { Err(VolumeError::Unwritable) } else { Ok(()) };
            if is_out || self.rebuild_pages(request, member, &range, array) == GateAnswer::Go {
                self.released.push_back(Released::Request(request, result));
            }
        }
    }

    fn write_page_for(&mut self, request: RequestKey, number: u32, array: &mut Array<'_>) {
        self.checksums_mut().make_dirty(number);
        self.write_pages(PageWaiter::Request(request), BTreeSet::from([number]), array);
    }

    /// The numbers of the pages in a range of a member that hold a page of it, as far as a rebuild
    /// has to write them.
    fn pages_to_rebuild(
        &self,
        member: MemberIndex,
        range: &Range<u64>,
        array: &Array<'_>,
    ) -> Vec<u32> {
        let Some(checksums) = &self.checksums else { return Vec::new() };
        let begin = checksums.table_begin(member);
        let page_bytes = PAGE_SLOTS_BYTES;
        let last = self.capacity_bytes.div_ceil(PAGE_SPAN_BYTES);
        let first = range.start.saturating_sub(begin) / page_bytes;
        let end = range.end.saturating_sub(begin).div_ceil(page_bytes).min(last);
        let is_lacked = |&number: &u32| {
            let places = self.page_places(number, array.map);
            let belongs = places.iter().any(|&(other, _)| other == member);
            belongs && self.may_lack_region(member, number / PAGES_PER_REGION)
        };
        (first as u32..end as u32).filter(is_lacked).collect()
    }

    /// Has the regions of the log that are to leave wait until their pages are written, and those
    /// that are not active written, too. Returns false if there is none to wait for.
    pub(crate) fn write_pages_before_leaving(&mut self, array: &mut Array<'_>) -> bool {
        let Some(checksums) = &self.checksums else { return false };
        let is_due = |number: &&u32| !self.log.stays(**number / PAGES_PER_REGION);
        let due: BTreeSet<u32> = checksums.dirty().iter().filter(is_due).copied().collect();
        let waits = !due.is_empty() || !self.page_writes.in_flight.is_empty();
        if waits {
            self.log.begin_paging();
            let in_flight = self.page_writes.in_flight.keys().copied();
            let due = due.into_iter().chain(in_flight).collect();
            self.write_pages(PageWaiter::Log, due, array);
        }
        waits
    }

    /// Writes pages that changed without a write to their region.
    pub(crate) fn write_idle_pages(&mut self, array: &mut Array<'_>) {
        let Some(checksums) = &self.checksums else { return };
        let is_idle = |number: &&u32| !self.log.is_active(**number / PAGES_PER_REGION);
        let idle: Vec<u32> = checksums.dirty().iter().filter(is_idle).copied().collect();
        self.page_writes.wanted.extend(idle);
        self.start_pages(array);
    }

    /// Returns true if pages are to be written.
    pub fn has_dirty_pages(&self) -> bool {
        let has_dirty = |checksums: &ChecksumStore| !checksums.dirty().is_empty();
        self.checksums.as_deref().is_some_and(has_dirty) || !self.page_writes.in_flight.is_empty()
    }

    /// Has a request wait until all pages are written.
    pub(crate) fn write_all_pages_for(&mut self, request: RequestKey, array: &mut Array<'_>) {
        self.page_writes.requests.insert(request, (1, Ok(())));
        self.write_all_pages(PageWaiter::Request(request), array);
    }

    /// Has the stop of the volume wait until all pages are written.
    pub(crate) fn write_all_pages_for_stop(&mut self, array: &mut Array<'_>) {
        self.write_all_pages(PageWaiter::Stop, array);
    }

    fn write_all_pages(&mut self, waiter: PageWaiter, array: &mut Array<'_>) {
        let dirty = self.checksums().dirty().clone();
        let in_flight = self.page_writes.in_flight.keys().copied();
        let all = dirty.into_iter().chain(in_flight).collect();
        self.write_pages(waiter, all, array);
    }

    fn write_pages(&mut self, waiter: PageWaiter, pages: BTreeSet<u32>, array: &mut Array<'_>) {
        let dirty = self.checksums().dirty();
        let wanted: Vec<u32> = pages.intersection(dirty).copied().collect();
        self.page_writes.wanted.extend(wanted);
        let is_waiting = |(other, _): &(PageWaiter, _)| *other == waiter;
        let is_request = matches!(waiter, PageWaiter::Request(_));
        assert!(
            is_request || !self.page_writes.waiters.iter().any(is_waiting),
            "{waiter:?} waits once"
        );
        self.page_writes.waiters.push((waiter, pages));
        self.start_pages(array);
    }

    /// Starts to write the pages that are wanted, unless some are under way.
    fn start_pages(&mut self, array: &mut Array<'_>) {
        if !self.page_writes.in_flight.is_empty() || self.is_read_only {
            return;
        }
        self.page_writes.has_failed = false;
        for number in std::mem::take(&mut self.page_writes.wanted) {
            if !self.checksums().dirty().contains(&number) {
                continue;
            }
            // One that joined gets the page when it is rebuilt.
            let takers = self.takers_of_metadata(array.states);
            let places = self.page_places(number, array.map);
            let members = places.into_iter().map(|(member, _)| member);
            let members: Vec<MemberIndex> = members.filter(|it| takers.contains(it)).collect();
            if members.is_empty() {
                // Nothing in its span can be read either.
                continue;
            }
            self.checksums_mut().begin_page(number);
            let before = self.page_writes.in_flight.insert(number, members.len());
            assert!(before.is_none(), "page {number} is written once at a time");
            self.queue_metadata(members, Op::Write, MetadataJob::Checksums(number));
        }
        if self.page_writes.in_flight.is_empty() {
            self.end_pages(&BTreeSet::new(), array);
        }
    }

    /// Handles the end of the read or write of a page on a member.
    pub(crate) fn on_page_io(
        &mut self,
        number: u32,
        (member, op): (MemberIndex, Op),
        is_good: bool,
        array: &mut Array<'_>,
    ) {
        if op == Op::Read {
            if !is_good {
                self.checksums_mut().on_unreadable(number, member);
            }
            return self.on_page_loaded(number, array);
        }
        if is_good {
            self.checksums_mut().on_written(number, member);
        } else {
            self.lose_member(member, array);
            // A member that failed meanwhile gets the page when it is rebuilt.
            if !array.states.is_failed(member) {
                self.page_writes.has_failed = true;
                self.checksums_mut().make_dirty(number);
            }
        }
        let left = self.page_writes.in_flight.get_mut(&number);
        let left = left.expect("its page is under way");
        assert!(*left > 0, "a write of page {number} ends once");
        *left -= 1;
        if self.page_writes.in_flight.values().all(|&left| left == 0) {
            let written = std::mem::take(&mut self.page_writes.in_flight);
            let written: BTreeSet<u32> = written.into_keys().collect();
            written.iter().for_each(|&number| self.checksums_mut().unpin(number));
            self.end_pages(&written, array);
        }
    }

    /// Continues what waited for these pages.
    fn end_pages(&mut self, written: &BTreeSet<u32>, array: &mut Array<'_>) {
        assert!(self.page_writes.in_flight.is_empty(), "the pages under way end together");
        let has_failed = std::mem::take(&mut self.page_writes.has_failed);
        let mut waiters = std::mem::take(&mut self.page_writes.waiters);
        let mut ended = Vec::new();
        waiters.retain_mut(|(waiter, pages)| {
            let concerns = !pages.is_disjoint(written);
            pages.retain(|number| self.page_writes.wanted.contains(number));
            let is_over = has_failed && concerns || pages.is_empty();
            if is_over {
                ended.push((*waiter, !(has_failed && concerns)));
            }
            !is_over
        });
        self.page_writes.waiters.extend(waiters);
        if !self.page_writes.wanted.is_empty() {
            self.start_pages(array);
        }
        for (waiter, is_good) in ended {
            match waiter {
                PageWaiter::Log => self.on_pages_written_for_log(is_good, array),
                PageWaiter::Stop => self.on_pages_written_for_stop(is_good, array),
                PageWaiter::Request(request) => self.end_wait_of(request, is_good),
            }
        }
    }

    /// Continues a request for which no page is to be written any more.
    fn end_wait_of(&mut self, request: RequestKey, is_good: bool) {
        let waits = self.page_writes.requests.get_mut(&request);
        let (left, result) = waits.expect("the request waits for a page");
        assert!(*left > 0, "a wait of a request ends once");
        *left -= 1;
        if !is_good {
            *result = Err(VolumeError::Unwritable);
        }
        if *left == 0 {
            let result = *result;
            self.page_writes.requests.remove(&request);
            self.released.push_back(Released::Request(request, result));
        }
    }

    pub(crate) fn checksums(&self) -> &ChecksumStore {
        self.checksums.as_ref().expect("pages are of a volume with checksums")
    }

    pub(crate) fn checksums_mut(&mut self) -> &mut ChecksumStore {
        self.checksums.as_mut().expect("pages are of a volume with checksums")
    }
}
