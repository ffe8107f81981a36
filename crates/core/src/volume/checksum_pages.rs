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

use super::checksum_store::{ChecksumStore, PageUser, page_numbers};
use super::durability::MetadataJob;
use super::keys::{IoKey, PieceKey, RequestKey};
use super::{Volume, Work};
use crate::checksum::Checksummer;
use crate::io::{IoId, MemberIo, Op, Purpose, RequestKind, VolumeError};
use crate::label::{
    ChecksumPage, DamagedPage, METADATA_BYTES, PAGE_SLOTS_BYTES, PAGE_SPAN_BYTES, newest_page,
};
use crate::member::{MemberIndex, MemberState};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Pages in a region of the dirty log.
const PAGES_PER_REGION: u32 = (super::REGION_BYTES / PAGE_SPAN_BYTES) as u32;

/// What goes on once its pages are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PageWaiter {
    /// Regions leave the dirty log.
    Log,
    /// The volume stops.
    Stop,
    /// A request goes on: a step of a rebuild, or a flush.
    Request(RequestKey),
}

/// The writes of pages: those under way, and who waits for which.
#[derive(Debug, Default)]
pub(super) struct PageWrites {
    /// Pages under way, with the number of writes left.
    in_flight: BTreeMap<u32, usize>,
    /// Pages to be written next.
    wanted: BTreeSet<u32>,
    /// True if a page under way could not be written to a member that stays.
    has_failed: bool,
    waiters: Vec<(PageWaiter, BTreeSet<u32>)>,
}

impl Volume {
    /// Verifies data by the checksums in the tables of the members, and keeps these up to date. To
    /// be called after [`Volume::with_labels`].
    ///
    /// # Panics
    /// If the volume has no labels, or they do not say that there are checksums.
    pub fn with_checksums(mut self) -> Volume {
        let label = self.label().expect("checksums are of a volume with labels");
        let sizes = label.members.iter().map(|member| member.size_bytes);
        let tables = label.array.checksum_tables(sizes);
        let tables = tables.expect("the labels say that there are checksums");
        let checksummer = Checksummer::new(label.array.uuid.0);
        let pages = self.capacity_bytes().div_ceil(PAGE_SPAN_BYTES);
        for ((_, member), begin) in self.members().iter().zip(&tables) {
            let end = begin + pages * PAGE_SLOTS_BYTES;
            assert!(end <= member.config.size_bytes, "a table has room for all pages");
        }
        self.checksums = Some(Box::new(ChecksumStore::new(checksummer, tables)));
        self
    }

    /// What computes the checksums of the data of this volume; `None` if it has none. Then each
    /// write is submitted by [`Volume::submit_write`], and each good read of a member goes through
    /// [`Volume::check`].
    #[inline]
    pub fn checksummer(&self) -> Option<Checksummer> {
        self.checksums.as_ref().map(|checksums| checksums.checksummer)
    }

    /// Returns true if data have checksums.
    pub fn has_checksums(&self) -> bool {
        self.checksums.is_some()
    }

    /// Number of blocks with wrong data that were found on a member since the start; a block counts
    /// again after it was written.
    pub fn mismatched_blocks(&self, member: MemberIndex) -> u64 {
        self.checksums.as_ref().map_or(0, |checksums| checksums.mismatched[member.get()])
    }

    /// Number of blocks with wrong data that were found on all members since the start.
    #[inline]
    pub fn all_mismatched_blocks(&self) -> u64 {
        self.checksums.as_ref().map_or(0, |checksums| checksums.mismatched.iter().sum())
    }

    /// Number of pages of checksums since the start that could not be read on the only members that
    /// may have them. The blocks of such a page, of which there are 512, are read as if they had no
    /// checksums until they are written or scrubbed.
    #[inline]
    pub fn lost_checksum_pages(&self) -> u64 {
        self.checksums.as_ref().map_or(0, |checksums| checksums.lost_pages)
    }

    /// Returns true if a piece has the checksums of its span. If not, it waits for them.
    #[inline]
    pub(super) fn has_page(&mut self, key: PieceKey) -> bool {
        if self.checksums.is_none() {
            return true;
        }
        self.has_page_or_waits(key)
    }

    fn has_page_or_waits(&mut self, key: PieceKey) -> bool {
        let piece = self.pieces.get_mut(key);
        let Some(checksums) = &mut self.checksums else { return true };
        if piece.has_page || piece.kind == RequestKind::Flush {
            return true;
        }
        let number = page_numbers(&piece.plan.range()).start;
        if checksums.is_ready(number) {
            checksums.pin(number);
            piece.has_page = true;
            return true;
        }
        if checksums.wait(number, PageUser::Piece(key)) {
            self.load_page(number);
        }
        false
    }

    /// Where a piece that begins at this offset ends at the latest: with checksums, its span has
    /// one page.
    #[inline]
    pub(super) fn span_end(&self, offset: u64) -> u64 {
        match self.checksums {
            None => u64::MAX,
            Some(_) => (offset / PAGE_SPAN_BYTES + 1) * PAGE_SPAN_BYTES,
        }
    }

    /// Counts another user of the page of a piece that was cut.
    pub(super) fn pin_page(&mut self, range: &Range<u64>) {
        if let Some(checksums) = &mut self.checksums {
            checksums.pin(page_numbers(range).start);
        }
    }

    /// Takes the end of a piece that used the page of its span.
    pub(super) fn unpin_page(&mut self, range: &Range<u64>) {
        if let Some(checksums) = &mut self.checksums {
            checksums.unpin(page_numbers(range).start);
        }
    }

    /// The members that should have a page, with its offset on each.
    fn page_places(&self, number: u32) -> impl Iterator<Item = (MemberIndex, u64)> + use<'_> {
        let checksums = self.checksums.as_ref().expect("pages are of a volume with checksums");
        let plan = self.layout.plan(u64::from(number) * PAGE_SPAN_BYTES, 1);
        let members: Vec<MemberIndex> = plan.mirrors().iter().map(|it| it.member).collect();
        members.into_iter().map(move |member| {
            let offset = u64::from(number) * PAGE_SLOTS_BYTES;
            (member, checksums.table_begin(member) + offset)
        })
    }

    /// The offset and the length of a read or write of a page on a member.
    pub(super) fn page_range(&self, number: u32, member: MemberIndex, op: Op) -> (u64, u64) {
        let checksums = self.checksums.as_ref().expect("pages are of a volume with checksums");
        let table = checksums.table_begin(member);
        match op {
            _ if op == Op::Read || self.replaces_both_slots(number, member) => {
                (table + u64::from(number) * PAGE_SLOTS_BYTES, PAGE_SLOTS_BYTES)
            }
            _ => (checksums.page(number).offset(number, table), METADATA_BYTES as u64),
        }
    }

    /// The bytes of a page for a member.
    pub(super) fn page_bytes(&self, number: u32, member: MemberIndex) -> Box<[u8]> {
        let checksums = self.checksums.as_ref().expect("pages are of a volume with checksums");
        let labels = self.labels.as_ref().expect("it has labels");
        let (volume, table) = (labels.committed().array.uuid, checksums.table_begin(member));
        let page = checksums.page(number);
        let encode = |page: &ChecksumPage| page.encode(number, table, volume, labels.uuid(member));
        if !self.replaces_both_slots(number, member) {
            return encode(page);
        }
        let before = ChecksumPage { generation: page.generation - 1, ..page.clone() };
        let mut slots = [before, page.clone()];
        slots.sort_by_key(|page| page.offset(number, table));
        slots.iter().map(encode).collect::<Vec<Box<[u8]>>>().concat().into()
    }

    /// Returns true if a write of a page has to replace whatever the member has of it: a version
    /// that nobody knows could seem to be newer.
    fn replaces_both_slots(&self, number: u32, member: MemberIndex) -> bool {
        let is_unreadable = |checksums: &ChecksumStore| checksums.is_unreadable_on(number, member);
        self.members()[member].state != MemberState::InSync
            || self.checksums.as_deref().is_some_and(is_unreadable)
    }

    /// Reads a page.
    fn load_page(&mut self, number: u32) {
        let is_in_sync = |&(member, offset): &(MemberIndex, u64)| {
            self.states.is_in_sync(member, offset, PAGE_SLOTS_BYTES)
        };
        let members: Vec<MemberIndex> =
            self.page_places(number).filter(is_in_sync).map(|(member, _)| member).collect();
        let count = members.len() as u8;
        self.checksums_mut().begin_load(number, count.max(1));
        if members.is_empty() {
            // Its data cannot be read either, or only from a member whose table is not in sync.
            let has_data = |&(member, _): &(MemberIndex, u64)| {
                let begin = self.layout.map().allocated(member).start;
                self.states.is_in_sync(member, begin, 1)
            };
            let readable = self.page_places(number).find(has_data);
            if let Some((member, _)) = readable {
                self.checksums_mut().on_unreadable(number, member);
            }
            return self.on_page_loaded(number);
        }
        self.queue_metadata(members, Op::Read, MetadataJob::Checksums(number));
    }

    /// Returns true if a member I/O reads metadata.
    pub fn reads_metadata(&self, id: IoId) -> bool {
        let in_flight = self.in_flight.get(IoKey::of(id));
        in_flight.io.op == Op::Read && in_flight.io.purpose == Purpose::Metadata
    }

    /// Takes the bytes of a read of [`Purpose::Metadata`] that
    /// succeeded, before [`Volume::complete`].
    ///
    /// # Panics
    /// If it is none.
    pub fn on_metadata_read(&mut self, id: IoId, bytes: &[u8]) {
        let in_flight = self.in_flight.get(IoKey::of(id));
        let (io, job) = (in_flight.io, in_flight.job);
        let Some(super::durability::OwnIo::Metadata(MetadataJob::Checksums(number))) = job else {
            panic!("{io:?} reads no metadata")
        };
        let labels = self.labels.as_ref().expect("it has labels");
        let (volume, member) = (labels.committed().array.uuid, labels.uuid(io.member));
        match newest_page(bytes, number, io.offset, volume, member) {
            Ok(found) => self.checksums_mut().on_found(number, found),
            Err(DamagedPage) => self.checksums_mut().on_unreadable(number, io.member),
        }
    }

    /// Takes the end of the read of a page from a member.
    fn on_page_loaded(&mut self, number: u32) {
        let waiting = self.checksums_mut().on_loaded(number);
        for user in waiting.into_iter().flatten() {
            match user {
                PageUser::Piece(key) if self.pieces.get(key).has_lock => self.issue_first(key),
                PageUser::Piece(key) => self.start_unlocked(key),
                PageUser::Rebuild(request) => self.write_page_for(request, number),
            }
        }
    }

    /// Has a step of a rebuild write the page with this number.
    pub(super) fn rebuild_page(&mut self, request: RequestKey, number: u32) {
        self.requests.get_mut(request).pieces_left += 1;
        let checksums = self.checksums_mut();
        if checksums.is_ready(number) {
            self.write_page_for(request, number);
        } else if checksums.wait(number, PageUser::Rebuild(request)) {
            self.load_page(number);
        }
    }

    fn write_page_for(&mut self, request: RequestKey, number: u32) {
        self.checksums_mut().make_dirty(number);
        self.write_pages(PageWaiter::Request(request), BTreeSet::from([number]));
    }

    /// The numbers of the pages in a range of a member that hold a page of it, as far as a rebuild
    /// has to write them.
    pub(super) fn pages_to_rebuild(&self, member: MemberIndex, range: &Range<u64>) -> Vec<u32> {
        let Some(checksums) = &self.checksums else { return Vec::new() };
        let begin = checksums.table_begin(member);
        let page_bytes = PAGE_SLOTS_BYTES;
        let last = self.capacity_bytes().div_ceil(PAGE_SPAN_BYTES);
        let first = range.start.saturating_sub(begin) / page_bytes;
        let end = range.end.saturating_sub(begin).div_ceil(page_bytes).min(last);
        let is_lacked = |&number: &u32| {
            let belongs = self.page_places(number).any(|(other, _)| other == member);
            belongs && self.may_lack(member, number / PAGES_PER_REGION)
        };
        (first as u32..end as u32).filter(is_lacked).collect()
    }

    /// Has the regions of the log that are to leave wait until their pages are written, and those
    /// that are not active written, too. Returns false if there is none to wait for.
    pub(super) fn write_pages_before_leaving(&mut self) -> bool {
        let (Some(checksums), Some(log)) = (&self.checksums, &self.log) else { return false };
        let is_due = |number: &&u32| !log.stays(**number / PAGES_PER_REGION);
        let due: BTreeSet<u32> = checksums.dirty().iter().filter(is_due).copied().collect();
        let waits = !due.is_empty() || !self.page_writes.in_flight.is_empty();
        if let Some(log) = self.log.as_mut().filter(|_| waits) {
            log.begin_paging();
            let in_flight = self.page_writes.in_flight.keys().copied();
            let due = due.into_iter().chain(in_flight).collect();
            self.write_pages(PageWaiter::Log, due);
        }
        waits
    }

    /// Writes pages that changed without a write to their region.
    pub(super) fn write_idle_pages(&mut self) {
        let (Some(checksums), Some(log)) = (&self.checksums, &self.log) else { return };
        let is_idle = |number: &&u32| !log.is_active(**number / PAGES_PER_REGION);
        let idle: Vec<u32> = checksums.dirty().iter().filter(is_idle).copied().collect();
        self.page_writes.wanted.extend(idle);
        self.start_pages();
    }

    /// Returns true if pages are to be written.
    pub fn has_dirty_pages(&self) -> bool {
        let has_dirty = |checksums: &ChecksumStore| !checksums.dirty().is_empty();
        self.checksums.as_deref().is_some_and(has_dirty) || !self.page_writes.in_flight.is_empty()
    }

    /// Has a request wait until all pages are written; returns false if they are.
    pub(super) fn write_all_pages_for(&mut self, request: RequestKey) -> bool {
        let waits = self.has_dirty_pages();
        if waits {
            self.requests.get_mut(request).pieces_left += 1;
            self.write_all_pages(PageWaiter::Request(request));
        }
        waits
    }

    /// Has the stop of the volume wait until all pages are written; returns false if they are.
    pub(super) fn write_all_pages_before_stop(&mut self) -> bool {
        let waits = self.has_dirty_pages();
        if waits {
            self.write_all_pages(PageWaiter::Stop);
        }
        waits
    }

    fn write_all_pages(&mut self, waiter: PageWaiter) {
        let dirty = self.checksums_mut().dirty().clone();
        let in_flight = self.page_writes.in_flight.keys().copied();
        let all = dirty.into_iter().chain(in_flight).collect();
        self.write_pages(waiter, all);
    }

    fn write_pages(&mut self, waiter: PageWaiter, pages: BTreeSet<u32>) {
        let dirty = self.checksums.as_ref().map(|checksums| checksums.dirty());
        let is_dirty = |number: &&u32| dirty.is_some_and(|dirty| dirty.contains(number));
        let wanted: Vec<u32> = pages.iter().filter(is_dirty).copied().collect();
        self.page_writes.wanted.extend(wanted);
        self.page_writes.waiters.push((waiter, pages));
        self.start_pages();
    }

    /// Starts to write the pages that are wanted, unless some are under way.
    fn start_pages(&mut self) {
        if !self.page_writes.in_flight.is_empty() || self.is_read_only {
            return;
        }
        self.page_writes.has_failed = false;
        for number in std::mem::take(&mut self.page_writes.wanted) {
            if !self.checksums_mut().dirty().contains(&number) {
                continue;
            }
            // One that joined gets the page when it is rebuilt.
            let takers: Vec<MemberIndex> = self.takers_of_metadata().collect();
            let is_taker = |&(member, _): &(MemberIndex, u64)| takers.contains(&member);
            let members: Vec<MemberIndex> =
                self.page_places(number).filter(is_taker).map(|(member, _)| member).collect();
            if members.is_empty() {
                // Nothing in its span can be read either.
                continue;
            }
            self.checksums_mut().begin_page(number);
            self.page_writes.in_flight.insert(number, members.len());
            self.queue_metadata(members, Op::Write, MetadataJob::Checksums(number));
        }
        if self.page_writes.in_flight.is_empty() {
            self.end_pages(&BTreeSet::new());
        }
    }

    /// Takes the end of the read or write of a page on a member.
    pub(super) fn on_page_io(&mut self, number: u32, io: &MemberIo, is_good: bool) {
        if io.op == Op::Read {
            if !is_good {
                self.checksums_mut().on_unreadable(number, io.member);
            }
            return self.on_page_loaded(number);
        }
        if is_good {
            self.checksums_mut().on_written(number, io.member);
        } else {
            self.lose_member(io.member);
            // A member that failed meanwhile gets the page when it is rebuilt.
            if !self.states.is_failed(io.member) {
                self.page_writes.has_failed = true;
                self.checksums_mut().make_dirty(number);
            }
        }
        let left = self.page_writes.in_flight.get_mut(&number);
        *left.expect("its page is under way") -= 1;
        if self.page_writes.in_flight.values().all(|&left| left == 0) {
            let written = std::mem::take(&mut self.page_writes.in_flight);
            let written: BTreeSet<u32> = written.into_keys().collect();
            written.iter().for_each(|&number| self.checksums_mut().unpin(number));
            self.end_pages(&written);
        }
    }

    /// Goes on with whatever waited for these pages.
    fn end_pages(&mut self, written: &BTreeSet<u32>) {
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
        self.start_wanted_pages();
        for (waiter, is_good) in ended {
            let result = if is_good { Ok(()) } else { Err(VolumeError::Unwritable) };
            match waiter {
                PageWaiter::Log => self.on_pages_written_for_log(is_good),
                PageWaiter::Stop => self.on_pages_written_for_stop(is_good),
                PageWaiter::Request(request) => self.end_wait_of(request, result),
            }
        }
    }

    fn start_wanted_pages(&mut self) {
        if !self.page_writes.wanted.is_empty() {
            self.start_pages();
        }
    }

    /// Goes on with a request whose pages are written.
    fn end_wait_of(&mut self, request: RequestKey, result: Result<(), VolumeError>) {
        if self.requests.get(request).request.kind == RequestKind::Flush && result.is_ok() {
            self.add_flushes(request);
        }
        self.end_piece_of(request, result);
    }

    pub(super) fn checksums_mut(&mut self) -> &mut ChecksumStore {
        self.checksums.as_mut().expect("pages are of a volume with checksums")
    }

    /// Starts a read that waited for its page before it was issued.
    fn start_unlocked(&mut self, key: PieceKey) {
        assert_eq!(self.pieces.get(key).kind, RequestKind::Read, "others have their lock");
        if self.has_page(key) {
            self.work.push_back(Work::Decide(key));
        }
    }
}
