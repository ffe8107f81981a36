//! The checksums of a running volume: the pages in memory, and which of them are to be written.
//!
//! A page is *resident* while a piece uses it, while it is to be written, and then as long as there
//! is space. Pages that the members have in the same version, and that nothing uses, make room for
//! others in the order of a clock with a second chance.
//!
//! Why a page is written when is in `checksum_pages`.

use crate::checksum::{CHECKSUM_BLOCK_BYTES, Checksummer, UNKNOWN};
use crate::label::{ChecksumPage, PAGE_SPAN_BYTES};
use crate::mismatched_blocks::MismatchedBlocks;
use mirrorball_core::member::MemberIndex;
use mirrorball_core::volume::{PieceKey, RequestKey};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// Pages that are kept though nothing uses them: the checksums of 32 GiB, in 36 MiB.
const RESIDENT_MAX: usize = 16_384;

/// A piece or request that waits for a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PageUser {
    /// A piece, to be started.
    Piece(PieceKey),
    /// A step of a rebuild, which writes the page.
    Rebuild(RequestKey),
}

#[derive(Debug)]
struct Resident {
    page: ChecksumPage,
    /// Members that it is still read from.
    loads_left: u8,
    /// The generation that the first member has which was read.
    first_generation: Option<u64>,
    /// True if the members that it was read from do not all have the same.
    is_uneven: bool,
    /// Members from which it could not be read: which versions they have is not known.
    unreadable_on: Vec<MemberIndex>,
    /// True if it is to be written.
    is_dirty: bool,
    /// True if it was used since the clock came by.
    is_used: bool,
    users: u32,
    waiting: Vec<PageUser>,
}

/// See the page of this module.
#[derive(Debug)]
pub(crate) struct ChecksumStore {
    pub(crate) checksummer: Checksummer,
    tables: Vec<u64>,
    pages: BTreeMap<u32, Resident>,
    /// The pages in the order in which the clock comes by.
    clock: VecDeque<u32>,
    dirty: BTreeSet<u32>,
    writes: BTreeMap<RequestKey, Box<[u32]>>,
    pub(crate) mismatched: MismatchedBlocks,
    /// True if no page is ever written.
    is_read_only: bool,
    /// Pages that no member had which could be read, though one may hold them.
    pub(crate) lost_pages: u64,
}

/// The numbers of the pages that a range of the volume overlaps.
pub(crate) fn page_numbers(range: &Range<u64>) -> Range<u32> {
    let (start, end) = (range.start / PAGE_SPAN_BYTES, range.end.div_ceil(PAGE_SPAN_BYTES));
    start as u32..end as u32
}

/// The number of the page of the block at an offset of the volume, and of the block in the page.
fn place(offset: u64) -> (u32, usize) {
    let within = offset % PAGE_SPAN_BYTES / CHECKSUM_BLOCK_BYTES;
    ((offset / PAGE_SPAN_BYTES) as u32, within as usize)
}

impl ChecksumStore {
    pub(crate) fn new(checksummer: Checksummer, tables: Vec<u64>) -> ChecksumStore {
        ChecksumStore {
            checksummer,
            mismatched: MismatchedBlocks::new(tables.len()),
            lost_pages: 0,
            tables,
            pages: BTreeMap::new(),
            clock: VecDeque::new(),
            dirty: BTreeSet::new(),
            writes: BTreeMap::new(),
            is_read_only: false,
        }
    }

    /// Writes no page: those that change stay in memory only as long as there is space.
    pub(crate) fn read_only(&mut self) {
        self.is_read_only = true;
    }

    pub(crate) fn table_begin(&self, member: MemberIndex) -> u64 {
        self.tables[member.get()]
    }

    /// Returns true if a page is resident and read.
    pub(crate) fn is_ready(&self, number: u32) -> bool {
        self.pages.get(&number).is_some_and(|resident| resident.loads_left == 0)
    }

    /// Waits for a page that is not ready; returns true if it is to be read.
    pub(crate) fn wait(&mut self, number: u32, user: PageUser) -> bool {
        let is_new = !self.pages.contains_key(&number);
        let resident = self.pages.entry(number).or_insert_with(|| Resident {
            page: ChecksumPage::unknown(),
            loads_left: u8::MAX,
            first_generation: None,
            is_uneven: false,
            unreadable_on: Vec::new(),
            is_dirty: false,
            is_used: true,
            users: 0,
            waiting: Vec::new(),
        });
        resident.waiting.push(user);
        if is_new {
            self.clock.push_back(number);
        }
        is_new
    }

    /// Records from how many members a page is read.
    pub(crate) fn begin_load(&mut self, number: u32, members: u8) {
        assert!(members > 0, "page {number} is read from a member, or known to be lost");
        let loads_left = std::mem::replace(&mut self.resident(number).loads_left, members);
        assert_eq!(loads_left, u8::MAX, "page {number} is read once");
    }

    /// Records what a member has of a page: the newest counts.
    pub(crate) fn on_found(&mut self, number: u32, found: Option<ChecksumPage>) {
        let resident = self.resident(number);
        assert!(resident.loads_left > 0, "page {number} is being read");
        let generation = found.as_ref().map_or(0, |page| page.generation);
        let first_generation = *resident.first_generation.get_or_insert(generation);
        // A page may have changed between its writes to two members.
        let has_other = found.as_ref().is_some_and(|page| {
            page.generation == resident.page.generation && *page != resident.page
        });
        resident.is_uneven |= generation != first_generation || has_other;
        if let Some(page) = found.filter(|page| page.generation > resident.page.generation) {
            resident.page = page;
        }
    }

    /// Records that a page cannot be read from a member, or is damaged there.
    pub(crate) fn on_unreadable(&mut self, number: u32, member: MemberIndex) {
        let resident = self.resident(number);
        assert!(resident.loads_left > 0, "page {number} is being read");
        resident.is_uneven = true;
        resident.unreadable_on.push(member);
    }

    /// Returns true if a page is read, and no member had it that could be read, though one may.
    pub(crate) fn is_lost(&self, number: u32) -> bool {
        let is_lost = |it: &Resident| it.page.generation == 0 && !it.unreadable_on.is_empty();
        self.is_ready(number) && self.pages.get(&number).is_some_and(is_lost)
    }

    /// Records that it is not known which version of a lost page these members have.
    pub(crate) fn doubt(&mut self, number: u32, members: impl Iterator<Item = MemberIndex>) {
        self.resident(number).unreadable_on = members.collect();
    }

    /// Handles the end of the read of a page from a member. After the last, returns what waits.
    pub(crate) fn on_loaded(&mut self, number: u32) -> Option<Vec<PageUser>> {
        let resident = self.resident(number);
        assert!(resident.loads_left > 0, "page {number} is read once from each member");
        resident.loads_left -= 1;
        if resident.loads_left > 0 {
            return None;
        }
        let is_found = resident.page.generation > 0;
        let is_dirty = resident.is_uneven && is_found;
        let is_lost = !resident.unreadable_on.is_empty() && !is_found;
        let waiting = std::mem::take(&mut resident.waiting);
        self.lost_pages += u64::from(is_lost);
        if is_dirty {
            self.make_dirty(number);
        }
        Some(waiting)
    }

    /// Counts a piece that uses a page, so that it stays.
    pub(crate) fn pin(&mut self, number: u32) {
        let resident = self.resident(number);
        assert_eq!(resident.loads_left, 0, "page {number} is read before it is used");
        resident.users += 1;
        resident.is_used = true;
    }

    /// Counts a piece that ended.
    pub(crate) fn unpin(&mut self, number: u32) {
        let resident = self.resident(number);
        assert!(resident.users > 0, "page {number} is used");
        resident.users -= 1;
        if self.pages.len() > RESIDENT_MAX {
            self.make_room();
        }
    }

    /// Forgets pages that nothing needs.
    fn make_room(&mut self) {
        for _ in 0..self.clock.len() {
            if self.pages.len() <= RESIDENT_MAX {
                return;
            }
            let Some(number) = self.clock.pop_front() else { return };
            let resident = self.resident(number);
            let is_needed = resident.users > 0 || resident.loads_left > 0 || resident.is_dirty;
            if is_needed || std::mem::take(&mut resident.is_used) {
                self.clock.push_back(number);
            } else {
                assert!(resident.waiting.is_empty(), "nothing waits for page {number}");
                self.pages.remove(&number);
            }
        }
    }

    /// The checksum of the block at an offset of the volume, whose page is ready.
    pub(crate) fn known(&self, offset: u64) -> u32 {
        let (number, index) = place(offset);
        let resident = self.pages.get(&number).expect("the page of a piece is resident");
        resident.page.checksums[index]
    }

    /// The checksums of blocks from an offset of the volume on, whose page is ready.
    #[inline]
    pub(crate) fn known_blocks(&self, offset: u64, count: usize) -> &[u32] {
        let (number, index) = place(offset);
        let resident = self.pages.get(&number).expect("the page of a piece is resident");
        &resident.page.checksums[index..index + count]
    }

    /// Sets the checksum of a block whose page is ready. Returns true if it was another, or may be
    /// on a member whose page could not be read.
    pub(crate) fn set(&mut self, offset: u64, checksum: u32) -> bool {
        let (number, index) = place(offset);
        let resident = self.resident(number);
        assert_eq!(resident.loads_left, 0, "page {number} is read before it changes");
        let known = std::mem::replace(&mut resident.page.checksums[index], checksum);
        let is_other = known != checksum || !resident.unreadable_on.is_empty();
        if is_other {
            self.make_dirty(number);
        }
        is_other
    }

    pub(crate) fn clear(&mut self, range: &Range<u64>) {
        assert!(range.start.is_multiple_of(CHECKSUM_BLOCK_BYTES), "{range:?} has whole blocks");
        for offset in range.clone().step_by(CHECKSUM_BLOCK_BYTES as usize) {
            self.set(offset, UNKNOWN);
        }
        self.mismatched.on_written(range);
    }

    pub(crate) fn begin_write(&mut self, request: RequestKey, checksums: Box<[u32]>) {
        let before = self.writes.insert(request, checksums);
        assert!(before.is_none(), "a write begins once");
    }

    pub(crate) fn end_write(&mut self, request: RequestKey) {
        self.writes.remove(&request);
    }

    /// Records that a range of a write from `begin` on is written now.
    pub(crate) fn write(&mut self, request: RequestKey, begin: u64, range: &Range<u64>) {
        assert!(range.start >= begin && !range.is_empty(), "{range:?} is of the write at {begin}");
        let first = ((range.start - begin) / CHECKSUM_BLOCK_BYTES) as usize;
        let count = (range.end - range.start).div_ceil(CHECKSUM_BLOCK_BYTES) as usize;
        let (number, index) = place(range.start);
        let resident = self.pages.get_mut(&number).expect("the page of a piece is resident");
        let known = &mut resident.page.checksums[index..index + count];
        let checksums = self.writes.get(&request).expect("a write comes with its checksums");
        let written = &checksums[first..first + count];
        if known != written {
            known.copy_from_slice(written);
            self.make_dirty(number);
        }
        self.mismatched.on_written(range);
    }

    /// Returns true if the versions of a page are not known that a member has.
    pub(crate) fn is_unreadable_on(&self, number: u32, member: MemberIndex) -> bool {
        let resident = self.pages.get(&number);
        resident.is_some_and(|resident| resident.unreadable_on.contains(&member))
    }

    pub(crate) fn on_written(&mut self, number: u32, member: MemberIndex) {
        self.resident(number).unreadable_on.retain(|&other| other != member);
    }

    /// Marks a page to be written.
    pub(crate) fn make_dirty(&mut self, number: u32) {
        if self.is_read_only {
            return;
        }
        self.resident(number).is_dirty = true;
        self.dirty.insert(number);
    }

    pub(crate) fn dirty(&self) -> &BTreeSet<u32> {
        &self.dirty
    }

    /// Begins to write a page, which stays until it is written: it is clean unless it changes
    /// meanwhile.
    pub(crate) fn begin_page(&mut self, number: u32) {
        assert!(!self.is_read_only, "a read-only volume writes nothing");
        self.pin(number);
        let resident = self.resident(number);
        assert!(resident.is_dirty, "page {number} differs from what members have");
        resident.is_dirty = false;
        resident.page.generation += 1;
        let was_dirty = self.dirty.remove(&number);
        assert!(was_dirty, "page {number} is in the set of dirty pages");
    }

    /// The contents of a page that is ready.
    pub(crate) fn page(&self, number: u32) -> &ChecksumPage {
        &self.pages.get(&number).expect("a page is resident while it is written").page
    }

    fn resident(&mut self, number: u32) -> &mut Resident {
        self.pages.get_mut(&number).expect("a page is resident while it is used")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_core::slab::SlabKey;

    const MEMBERS: [MemberIndex; 2] = [MemberIndex(0), MemberIndex(1)];

    fn store() -> ChecksumStore {
        ChecksumStore::new(Checksummer::new([1; 16]), vec![1 << 30; 2])
    }

    fn page(generation: u64) -> ChecksumPage {
        let mut page = ChecksumPage { generation, ..ChecksumPage::unknown() };
        page.checksums[0] = 100 + generation as u32;
        page
    }

    /// Loads page 3 as the members have it.
    fn load(found: [Option<u64>; 2], unreadable_on: Option<MemberIndex>) -> ChecksumStore {
        let mut store = store();
        let user = PageUser::Rebuild(RequestKey::from_slot(1));
        assert!(store.wait(3, user), "the first has it read");
        assert!(!store.wait(3, user));
        store.begin_load(3, 2);
        for (member, generation) in MEMBERS.into_iter().zip(found) {
            assert!(!store.is_ready(3));
            match unreadable_on == Some(member) {
                true => store.on_unreadable(3, member),
                false => store.on_found(3, generation.map(page)),
            }
            let waiting = store.on_loaded(3);
            assert_eq!(waiting, (member == MEMBERS[1]).then(|| vec![user; 2]));
        }
        assert!(store.is_ready(3));
        store
    }

    #[test]
    fn the_newest_page_counts_and_is_written_where_it_lacks() {
        let first = 3 * PAGE_SPAN_BYTES;
        for (found, known, is_dirty) in [
            ([None, None], UNKNOWN, false),
            ([Some(5), Some(5)], 105, false),
            ([Some(5), Some(4)], 105, true),
            ([Some(4), Some(5)], 105, true),
            ([None, Some(5)], 105, true),
            ([Some(5), None], 105, true),
        ] {
            let store = load(found, None);
            assert_eq!((store.known(first), !store.dirty().is_empty()), (known, is_dirty));
        }
        let mut store = load([None, Some(5)], Some(MEMBERS[0]));
        assert_eq!((store.known(first), store.dirty().len(), store.lost_pages), (105, 1, 0));
        assert!(store.is_unreadable_on(3, MEMBERS[0]) && !store.is_unreadable_on(3, MEMBERS[1]));
        store.begin_page(3);
        store.on_written(3, MEMBERS[0]);
        assert!(!store.is_unreadable_on(3, MEMBERS[0]));
        assert_eq!((store.page(3).generation, store.dirty().len()), (6, 0));
    }

    /// A member whose page could not be read once may have the checksum of what is trimmed.
    #[test]
    fn a_checksum_that_is_forgotten_is_forgotten_where_its_page_could_not_be_read() {
        let first = 3 * PAGE_SPAN_BYTES;
        let mut store = load([None, None], Some(MEMBERS[0]));
        assert_eq!((store.known(first), store.dirty().len()), (UNKNOWN, 0));
        assert_eq!(store.lost_pages, 1);
        store.clear(&(first..first + CHECKSUM_BLOCK_BYTES));
        assert_eq!(store.dirty().len(), 1);
    }

    #[test]
    fn pages_of_one_generation_that_differ_are_written_again() {
        let mut store = store();
        store.wait(3, PageUser::Rebuild(RequestKey::from_slot(1)));
        store.begin_load(3, 2);
        let mut other = page(5);
        other.checksums[1] = 7;
        for found in [page(5), other] {
            store.on_found(3, Some(found));
            store.on_loaded(3);
        }
        assert_eq!((store.known(3 * PAGE_SPAN_BYTES), store.dirty().len()), (105, 1));
    }

    #[test]
    fn pages_that_are_never_written_make_room_though_they_changed() {
        let mut store = store();
        store.read_only();
        let count = RESIDENT_MAX as u32 + 100;
        for number in 0..count {
            store.wait(number, PageUser::Rebuild(RequestKey::from_slot(1)));
            store.begin_load(number, 1);
            store.on_loaded(number);
            store.pin(number);
            assert!(store.set(u64::from(number) * PAGE_SPAN_BYTES, 7));
            store.unpin(number);
        }
        assert_eq!((store.pages.len(), store.dirty().len()), (RESIDENT_MAX, 0));
    }

    #[test]
    fn writes_set_the_checksums_of_their_ranges() {
        let (mut store, request) = (load([None; 2], None), RequestKey::from_slot(7));
        let at = |block: u64| 3 * PAGE_SPAN_BYTES + block * CHECKSUM_BLOCK_BYTES;
        store.mismatched.on_mismatch(MEMBERS[1], at(9));
        store.mismatched.on_mismatch(MEMBERS[1], at(9));
        store.begin_write(request, Box::new([11, 12, 13, 14]));
        store.write(request, at(8), &(at(9)..at(11)));
        let known: Vec<u32> = (8..12).map(|block| store.known(at(block))).collect();
        assert_eq!(known, [UNKNOWN, 12, 13, UNKNOWN]);
        assert_eq!(*store.dirty(), BTreeSet::from([3]));
        store.clear(&(at(10)..at(11)));
        assert_eq!(store.known(at(10)), UNKNOWN);
        store.mismatched.on_mismatch(MEMBERS[1], at(9));
        assert_eq!(store.mismatched.totals, [0, 2], "again after it was written");
    }

    #[test]
    fn pages_that_nothing_needs_make_room() {
        let mut store = store();
        let count = RESIDENT_MAX as u32 + 100;
        for number in 0..count {
            store.wait(number, PageUser::Rebuild(RequestKey::from_slot(1)));
            store.begin_load(number, 1);
            store.on_loaded(number);
            if number == 5 {
                store.make_dirty(number);
            }
            store.pin(number);
            if number != 9 {
                store.unpin(number);
            }
        }
        assert_eq!(store.pages.len(), RESIDENT_MAX);
        assert!(store.is_ready(5), "it is to be written");
        assert!(store.is_ready(9), "it is used");
        assert!(!store.is_ready(10));
        assert!(store.is_ready(count - 1));
    }
}
