//! Volumes with checksums on disks in memory that do each I/O at once.

mod bad_blocks;

use super::*;
use crate::DifferingBlock;
use crate::checksum::CHECKSUM_BLOCK_BYTES;
use crate::label::{DIRTY_REGIONS_MAX, PAGE_SLOTS_BYTES};

const MEMBER_BYTES: u64 = 11 << 20;
const BLOCK: u64 = CHECKSUM_BLOCK_BYTES;

/// The disks of a volume of two mirrors, and what a service would know.
struct Rig {
    volume: Volume,
    disks: [Vec<u8>; 2],
    /// Offsets at which a disk cannot be read.
    bad_sectors: [Vec<u64>; 2],
    /// The member, operation and offset of an I/O that fails, each once.
    failures: Vec<(u16, Op, u64)>,
    now: Nanos,
    next_id: u64,
}

fn label() -> Label {
    new_label(Profile::Raid1, 2, MEMBER_BYTES, true)
}

impl Rig {
    fn new() -> Rig {
        Rig::with(volume_of(label(), Vec::new()))
    }

    fn with(volume: Volume) -> Rig {
        let disks = [vec![0; MEMBER_BYTES as usize], vec![0; MEMBER_BYTES as usize]];
        let bad_sectors = [Vec::new(), Vec::new()];
        Rig { volume, disks, bad_sectors, failures: Vec::new(), now: Nanos(1), next_id: 0 }
    }

    /// Does a request with its data in `buffer`.
    fn request(
        &mut self,
        kind: RequestKind,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), VolumeError> {
        self.next_id += 1;
        let request = request(self.next_id, (kind, offset, buffer.len() as u64));
        match kind {
            RequestKind::Write => self.volume.submit_write(request, buffer),
            _ => self.volume.submit(request),
        }
        loop {
            self.run_ios(offset, buffer);
            if let Some(reply) = self.volume.poll_reply() {
                assert_eq!(reply.request, request.id);
                self.run_ios(offset, buffer);
                return reply.result;
            }
        }
    }

    /// Does all member I/O that there is.
    fn run_ios(&mut self, offset: u64, buffer: &mut [u8]) {
        while self.run_io(offset, buffer).is_some() {}
    }

    /// Does the next member I/O, if there is one.
    fn run_io(&mut self, offset: u64, buffer: &mut [u8]) -> Option<()> {
        let io = self.volume.poll_io(self.now)?;
        let disk = &mut self.disks[io.member.get()];
        let place = io.offset as usize..(io.offset + io.length) as usize;
        let within = io.volume_offset.wrapping_sub(offset) as usize;
        let is_bad = |at: &u64| place.contains(&(*at as usize));
        let mut result = Ok(());
        let failure = (io.member.0, io.op, io.offset);
        match (io.op, io.purpose) {
            _ if self.failures.contains(&failure) => {
                self.failures.retain(|other| *other != failure);
                let is_read = io.op == Op::Read;
                result = Err(if is_read { IoError::Medium } else { IoError::Transport });
            }
            (Op::Read, _) if self.bad_sectors[io.member.get()].iter().any(is_bad) => {
                result = Err(IoError::Medium);
            }
            (Op::Read, purpose) => {
                let bytes = &disk[place];
                // With checksums, what is repaired is read again.
                let is_compared = purpose == Purpose::Scrub && self.volume.has_checksums();
                if purpose != Purpose::Metadata && !is_compared {
                    buffer[within..within + bytes.len()].copy_from_slice(bytes);
                }
                result = self.volume.on_read(io.id, bytes);
            }
            (Op::Write, Purpose::Metadata) => {
                let bytes = self.volume.metadata_bytes(&io);
                disk[place].copy_from_slice(&bytes);
            }
            (Op::Write, _) => {
                disk[place.clone()].copy_from_slice(&buffer[within..within + place.len()]);
                self.bad_sectors[io.member.get()].retain(|at| !place.contains(&(*at as usize)));
            }
            (Op::Flush | Op::Discard, _) => {}
        }
        self.volume.complete(io.id, result, self.now);
        Some(())
    }

    fn write(&mut self, offset: u64, byte: u8, blocks: usize) {
        let mut data = vec![byte; blocks * BLOCK as usize];
        assert_eq!(self.request(RequestKind::Write, offset, &mut data), Ok(()));
    }

    /// Reads blocks; returns the first byte of each.
    fn read(&mut self, offset: u64, blocks: usize) -> Result<Vec<u8>, VolumeError> {
        let mut data = vec![0; blocks * BLOCK as usize];
        self.request(RequestKind::Read, offset, &mut data)?;
        Ok(data.chunks(BLOCK as usize).map(|block| block[0]).collect())
    }

    fn place(&self, member: usize, offset: u64) -> usize {
        let mapped = self.volume.map().map(offset, BLOCK);
        let mirror = mapped.mirrors.iter().find(|it| it.member.get() == member).unwrap();
        mirror.offset as usize
    }

    /// A byte of the volume on a disk.
    fn at(&mut self, member: usize, offset: u64) -> &mut u8 {
        let place = self.place(member, offset);
        &mut self.disks[member][place]
    }

    fn mismatched(&self) -> [u64; 2] {
        [0, 1].map(|row| store(&self.volume).mismatched_blocks(MemberIndex(row)))
    }

    /// Lets time pass until no region is active.
    fn calm_down(&mut self) {
        for _ in 0..10 {
            self.now += Nanos::from_secs(3);
            self.volume.on_timeout(self.now);
            self.run_ios(0, &mut []);
        }
        assert_eq!(store(&self.volume).active_regions(), 0);
        assert!(!store(&self.volume).has_dirty_pages());
    }

    /// Stops in good order.
    fn stop(&mut self) {
        assert_eq!(self.request(RequestKind::Flush, 0, &mut []), Ok(()));
        command(&mut self.volume, StoreGate::record_stop);
        self.run_ios(0, &mut []);
        assert!(store(&self.volume).is_recorded() && store(&self.volume).label().is_clean);
    }

    /// Stops, and starts again.
    fn restart(&mut self) {
        self.stop();
        self.crash(Vec::new());
    }

    /// Is killed, and starts again with these regions in the dirty log.
    fn crash(&mut self, unsynced: Vec<u32>) {
        let label = store(&self.volume).label().clone();
        self.volume = volume_of(label, unsynced);
    }
}

#[test]
fn damaged_data_are_read_from_the_other_mirror_and_rewritten() {
    let mut rig = Rig::new();
    rig.write(0, 7, 600);
    assert_eq!(rig.read(0, 3), Ok(vec![7; 3]));
    *rig.at(0, BLOCK) ^= 0x10;
    assert_eq!(rig.read(0, 3), Ok(vec![7; 3]));
    assert_eq!((*rig.at(0, BLOCK), rig.mismatched()), (7, [1, 0]));
    // Found again, it counts again.
    *rig.at(0, BLOCK) ^= 0x10;
    assert_eq!(rig.read(BLOCK, 1), Ok(vec![7]));
    assert_eq!(rig.mismatched(), [2, 0]);
}

#[test]
fn mismatches_are_those_of_the_present_device() {
    let (mut rig, row) = (Rig::new(), MemberIndex(0));
    rig.write(0, 7, 8);
    let read_damaged = |rig: &mut Rig| {
        *rig.at(0, 0) ^= 1;
        assert_eq!(rig.read(0, 1), Ok(vec![7]));
        rig.mismatched()[0]
    };
    assert_eq!([read_damaged(&mut rig), read_damaged(&mut rig)], [1, 2]);
    fail_member(&mut rig.volume, row);
    assert_eq!(rig.mismatched(), [2, 0]);
    command(&mut rig.volume, |store, array| store.on_storage_replaced(row, None, array));
    assert_eq!(rig.mismatched(), [0, 0]);
    rig.volume.set_member_state(row, MemberState::InSync);
    assert_eq!(read_damaged(&mut rig), 1);
    fail_member(&mut rig.volume, row);
    command(&mut rig.volume, |store, array| assert!(store.remove_device(row, array)));
    assert_eq!(rig.mismatched(), [0, 0]);
}

#[test]
fn blocks_that_no_mirror_has_fail_and_no_others() {
    let mut rig = Rig::new();
    rig.write(0, 7, 8);
    (*rig.at(0, 3 * BLOCK), *rig.at(1, 3 * BLOCK)) = (8, 9);
    assert_eq!(rig.read(0, 8), Err(VolumeError::Unreadable));
    assert_eq!(rig.read(0, 3), Ok(vec![7; 3]));
    assert_eq!(rig.read(4 * BLOCK, 4), Ok(vec![7; 4]));
    assert_eq!(rig.mismatched(), [1, 1], "counted once");
    rig.write(3 * BLOCK, 5, 1);
    assert_eq!(rig.read(0, 8).unwrap()[3], 5, "until it is written");
}

#[test]
fn checksums_outlast_a_stop() {
    let mut rig = Rig::new();
    rig.write(0, 7, 4);
    rig.restart();
    *rig.at(0, 0) = 8;
    assert_eq!(rig.read(0, 4), Ok(vec![7; 4]));
    assert_eq!(rig.mismatched(), [1, 0]);
    // A page that one member lacks is written there again.
    rig.restart();
    let table = label().array.checksum_tables([MEMBER_BYTES; 2].into_iter()).unwrap()[0] as usize;
    rig.disks[0][table..table + PAGE_SLOTS_BYTES as usize].fill(0);
    assert_eq!(rig.read(0, 1), Ok(vec![7]));
    rig.calm_down();
    let slots = table..table + PAGE_SLOTS_BYTES as usize;
    assert!(rig.disks[0][slots.clone()].iter().any(|&byte| byte != 0));
    rig.disks[1][slots].fill(0);
    rig.crash(Vec::new());
    (*rig.at(0, 0), *rig.at(1, 0)) = (8, 8);
    assert_eq!(rig.read(0, 1), Err(VolumeError::Unreadable));
}

/// The sector is an error until it is written, and the new disk has everything else.
#[test]
fn a_rebuild_goes_on_behind_a_sector_that_no_mirror_can_read() {
    let mut rig = Rig::new();
    rig.write(0, 7, 8);
    rig.calm_down();
    let target = MemberIndex(1);
    rig.disks[1].fill(0);
    let bad = rig.place(0, 3 * BLOCK) as u64;
    rig.bad_sectors[0].push(bad);
    command(&mut rig.volume, |store, array| store.on_storage_replaced(target, None, array));
    rig.volume.set_member_state(target, MemberState::Rebuilding { recovered_bytes: 0 });
    let mut buffer = vec![0; MEMBER_BYTES as usize];
    for result in [Err(VolumeError::Unreadable), Ok(())] {
        assert_eq!(rig.request(RequestKind::Rebuild(target), 0, &mut buffer), result);
    }
    assert_eq!(rig.volume.members()[target].state, MemberState::InSync);
    assert_eq!([*rig.at(1, 2 * BLOCK), *rig.at(1, 4 * BLOCK)], [7, 7]);
    let bad = |rig: &Rig| store(&rig.volume).bad_blocks();
    assert_eq!(bad(&rig), [(target, 3 * BLOCK..4 * BLOCK)]);
    assert_eq!(rig.read(3 * BLOCK, 1), Err(VolumeError::Unreadable));
    assert_eq!(rig.mismatched(), [0, 0], "it is known that the new disk lacks the block");
    assert_eq!(rig.read(4 * BLOCK, 4), Ok(vec![7; 4]));
    rig.write(3 * BLOCK, 5, 1);
    assert_eq!(rig.read(0, 8).unwrap()[3], 5);
    assert_eq!(bad(&rig), []);
}

#[test]
fn after_a_crash_the_mirror_that_matches_is_right() {
    let mut rig = Rig::new();
    rig.write(0, 7, 4);
    rig.calm_down();
    // The first mirror decayed; the second block was written on one mirror only; of the third, the
    // checksum did not get to the members.
    *rig.at(0, 0) = 8;
    *rig.at(0, BLOCK) = 9;
    (*rig.at(0, 2 * BLOCK), *rig.at(1, 2 * BLOCK)) = (9, 9);
    (*rig.at(0, 3 * BLOCK), *rig.at(1, 3 * BLOCK)) = (5, 6);
    for resyncs_first in [false, true] {
        rig.crash(vec![0]);
        let before = rig.disks.clone();
        if !resyncs_first {
            assert_eq!(rig.read(0, 4), Ok(vec![7, 7, 9, 5]));
        }
        let mut buffer = vec![0; 4 << 20];
        let range = store(&rig.volume).next_unsynced(0).unwrap();
        assert_eq!(rig.request(RequestKind::Resync, range.start, &mut buffer), Ok(()));
        assert_eq!(store(&rig.volume).unsynced_bytes(), 0);
        assert_eq!(rig.read(0, 4), Ok(vec![7, 7, 9, 5]), "the same as before");
        for (offset, byte) in (0..).step_by(BLOCK as usize).zip([7, 7, 9, 5]) {
            assert_eq!((*rig.at(0, offset), *rig.at(1, offset)), (byte, byte));
        }
        assert_eq!(rig.mismatched(), [0, 0], "a hint is no mismatch");
        // What was accepted has checksums now.
        *rig.at(0, 2 * BLOCK) = 1;
        assert_eq!(rig.read(0, 4), Ok(vec![7, 7, 9, 5]));
        rig.disks = before;
    }
}

#[test]
fn a_scrub_repairs_what_does_not_match_and_reports_what_has_no_checksum() {
    let mut rig = Rig::new();
    rig.write(0, 7, 8);
    *rig.at(0, BLOCK) = 8;
    *rig.at(1, 2 * BLOCK) = 8;
    (*rig.at(0, 3 * BLOCK), *rig.at(1, 3 * BLOCK)) = (8, 9);
    // Never written.
    *rig.at(1, 100 * BLOCK) = 4;
    let mut buffer = vec![0; 1 << 20];
    let scrub = rig.request(RequestKind::Scrub, 0, &mut buffer);
    assert_eq!(scrub, Err(VolumeError::Unreadable), "no mirror has the block at 3");
    assert_eq!((*rig.at(0, BLOCK), *rig.at(1, 2 * BLOCK)), (7, 7));
    let mut found = command(&mut rig.volume, |store, _| store.take_mismatched_blocks());
    found.sort();
    let [first, second] = [MemberIndex(0), MemberIndex(1)];
    let expected = [(first, BLOCK), (first, 3 * BLOCK), (second, 2 * BLOCK), (second, 3 * BLOCK)];
    assert_eq!(found, expected);
    let differing = command(&mut rig.volume, |store, _| store.take_differing_blocks());
    let [DifferingBlock { offset, mirrors }] = &differing[..] else { panic!("{differing:?}") };
    assert_eq!((*offset, mirrors.len()), (100 * BLOCK, 2));
    // Equal blocks without a checksum got one.
    *rig.at(0, 50 * BLOCK) = 1;
    assert_eq!(rig.read(50 * BLOCK, 1), Ok(vec![0]));
}

/// A block of data that ends in a CRC-32C of it, and zeroes, as the headers of fio are: all such
/// blocks have one checksum.
fn sealed(byte: u8) -> Vec<u8> {
    let mut block = vec![0; BLOCK as usize];
    block[..36].fill(byte);
    let seal = crc32c::crc32c(&block[..36]);
    block[36..40].copy_from_slice(&seal.to_le_bytes());
    block
}

#[test]
fn mirrors_with_other_data_of_the_same_checksum_are_synchronised_or_found() {
    let checksummer = store(&Rig::new().volume).checksummer().unwrap();
    assert_eq!(checksummer.of_block(0, &sealed(7)), checksummer.of_block(0, &sealed(8)));
    let mut rig = Rig::new();
    assert_eq!(rig.request(RequestKind::Write, 0, &mut sealed(7)), Ok(()));
    rig.calm_down();
    // A write of the block reached one mirror only.
    let place = rig.place(1, 0);
    let place = place..place + BLOCK as usize;
    rig.disks[1][place.clone()].copy_from_slice(&sealed(8));
    rig.crash(vec![0]);
    assert_eq!(rig.read(0, 1), Ok(vec![7]));
    let mut buffer = vec![0; 4 << 20];
    assert_eq!(rig.request(RequestKind::Resync, 0, &mut buffer), Ok(()));
    assert_eq!((*rig.at(0, 0), *rig.at(1, 0)), (7, 7), "what was read before");
    // A disk lost a write without an error: which one is right is not known.
    rig.disks[1][place].copy_from_slice(&sealed(8));
    assert_eq!(rig.request(RequestKind::Scrub, 0, &mut buffer), Ok(()));
    let differing = command(&mut rig.volume, |store, _| store.take_differing_blocks());
    let [DifferingBlock { offset: 0, mirrors }] = &differing[..] else { panic!("{differing:?}") };
    assert_eq!((mirrors.len(), rig.mismatched()), (2, [0, 0]));
}

/// A resync copies a write that only the member which is being rebuilt got.
#[test]
fn a_mirror_that_a_copy_did_not_reach_has_no_mismatch() {
    let mut rig = Rig::new();
    rig.write(0, 7, 8);
    rig.calm_down();
    let rebuilt = MemberIndex(0);
    fail_member(&mut rig.volume, rebuilt);
    rig.run_ios(0, &mut []);
    rig.volume.set_member_state(rebuilt, MemberState::Rebuilding { recovered_bytes: 9 << 20 });
    let block = 100 * BLOCK;
    *rig.at(0, block) = 8;
    command(&mut rig.volume, |store, _| store.add_unsynced(0..REGION_BYTES));
    rig.failures.push((1, Op::Write, rig.place(1, block) as u64));
    let mut buffer = vec![0; REGION_BYTES as usize];
    for is_good in [false, true] {
        let result = rig.request(RequestKind::Resync, 0, &mut buffer);
        assert_eq!((result.is_ok(), rig.mismatched()), (is_good, [0, 0]));
    }
    assert_eq!((*rig.at(1, block), rig.failures.len()), (8, 0));
}

#[test]
fn a_bad_sector_and_a_bad_block_in_one_piece_are_both_mended() {
    let mut rig = Rig::new();
    rig.write(0, 7, 8);
    *rig.at(1, 5 * BLOCK) = 8;
    let mapped = rig.volume.map().map(BLOCK, BLOCK);
    let bad = mapped.mirrors.iter().find(|it| it.member.get() == 0).unwrap().offset;
    for kind in [RequestKind::Scrub, RequestKind::Read] {
        rig.bad_sectors[0] = vec![bad];
        *rig.at(1, 5 * BLOCK) = 8;
        let mut buffer = vec![0; 8 * BLOCK as usize];
        assert_eq!(rig.request(kind, 0, &mut buffer), Ok(()), "{kind:?}");
        assert!(rig.bad_sectors[0].is_empty() || kind == RequestKind::Read, "it is rewritten");
        assert_eq!(rig.read(0, 8), Ok(vec![7; 8]));
    }
    assert_eq!(*rig.at(1, 5 * BLOCK), 7);
}

/// The page begins again at its first generation, and the member that was away has a later one.
#[test]
fn a_member_that_returns_gets_the_page_that_the_last_copy_could_not_read() {
    let mut rig = Rig::new();
    for byte in [7, 8] {
        rig.write(0, byte, 1);
        rig.calm_down();
    }
    rig.restart();
    fail_member(&mut rig.volume, MemberIndex(1));
    let table = store(&rig.volume).checksums().table_begin(MemberIndex(0));
    rig.failures.push((0, Op::Read, table));
    assert_eq!(rig.read(0, 1), Ok(vec![8]));
    assert_eq!(store(&rig.volume).lost_checksum_pages(), 1);
    rig.volume.set_member_state(MemberIndex(1), MemberState::InSync);
    rig.write(0, 9, 1);
    rig.calm_down();
    rig.restart();
    assert_eq!(rig.read(0, 1), Ok(vec![9]));
    assert_eq!(rig.mismatched(), [0, 0]);
}

/// Also where the rebuild is a single step, which begins before the label of the member is written.
#[test]
fn a_member_that_is_replaced_gets_the_checksums() {
    [1 << 20, MEMBER_BYTES as usize].into_iter().for_each(replaced_member_gets_checksums);
}

fn replaced_member_gets_checksums(step: usize) {
    let mut rig = Rig::new();
    rig.write(0, 7, 8);
    rig.write(5 << 20, 6, 8);
    rig.calm_down();
    let member = MemberIndex(1);
    rig.volume.set_member_state(member, MemberState::Failed);
    rig.disks[1].fill(0);
    command(&mut rig.volume, |store, array| store.on_storage_replaced(member, None, array));
    rig.volume.set_member_state(member, MemberState::Rebuilding { recovered_bytes: 0 });
    for start in (0..MEMBER_BYTES).step_by(step) {
        let mut buffer = vec![0; step];
        rig.rebuild(member, start, &mut buffer);
    }
    assert_eq!(rig.volume.members()[member].state, MemberState::InSync);
    // The other mirror is lost, and the one that is left decays.
    let table = label().array.checksum_tables([MEMBER_BYTES; 2].into_iter()).unwrap()[0] as usize;
    rig.disks[0][table..].fill(0);
    *rig.at(0, 5 << 20) = 0;
    *rig.at(1, 5 << 20) ^= 1;
    rig.crash(Vec::new());
    assert_eq!(rig.read(5 << 20, 1), Err(VolumeError::Unreadable));
    assert_eq!(rig.read(0, 8), Ok(vec![7; 8]));
}

impl Rig {
    /// Rebuilds a range of a member, whose buffer begins there.
    fn rebuild(&mut self, member: MemberIndex, start: u64, buffer: &mut [u8]) {
        // Data of this volume lie where they do on the members but for their beginning.
        let shift = self.volume.map().allocated(member).start;
        self.next_id += 1;
        let range = (RequestKind::Rebuild(member), start, buffer.len() as u64);
        self.volume.submit(request(self.next_id, range));
        self.run_ios(start.saturating_sub(shift), buffer);
        let reply = self.volume.poll_reply().expect("the step ends");
        assert_eq!(reply.result, Ok(()));
    }
}

#[test]
fn writes_fail_where_the_log_is_full_of_regions_whose_checksums_cannot_be_written() {
    let mut volume = volume_of(new_label(Profile::Raid1, 2, 8 << 30, true), Vec::new());
    let mut results = Vec::new();
    for region in 0..DIRTY_REGIONS_MAX as u64 + 3 {
        let request = request(region, (RequestKind::Write, region * REGION_BYTES, BLOCK));
        volume.submit_write(request, &[1; BLOCK as usize]);
        let mut ios = 0;
        while let Some(io) = volume.poll_io(Nanos(1)) {
            let is_page = io.purpose == Purpose::Metadata && io.offset > 1 << 20;
            match (is_page, io.op) {
                (true, Op::Read) => assert_eq!(volume.on_read(io.id, &[0; 8192]), Ok(())),
                (true, Op::Write) => {
                    volume.complete(io.id, Err(IoError::Medium), Nanos(1));
                    ios += 1;
                    assert!(ios < 5000, "it does not try for ever");
                    continue;
                }
                _ => {}
            }
            volume.complete(io.id, Ok(()), Nanos(1));
        }
        results.extend(std::iter::from_fn(|| volume.poll_reply()).map(|reply| reply.result));
    }
    let good = results.iter().take_while(|result| result.is_ok()).count();
    assert_eq!((good, results.len()), (DIRTY_REGIONS_MAX, DIRTY_REGIONS_MAX + 3));
    assert!(results[good..].iter().all(|it| *it == Err(VolumeError::Unwritable)));
}
