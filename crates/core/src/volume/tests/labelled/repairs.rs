//! Repairs: what is written without a region in the dirty log.

use super::*;
use crate::label::DIRTY_REGIONS_MAX;
use crate::volume::unsynced_regions::REGION_BYTES;

fn request(id: u64, (kind, offset, length): (RequestKind, u64, u64)) -> Request {
    Request { id: RequestId(id), kind, offset, length, stream: 0, cpu: 0, background: false }
}

fn ios(volume: &mut Volume) -> Vec<MemberIo> {
    std::iter::from_fn(|| volume.poll_io(Nanos::ZERO)).collect()
}

fn complete(volume: &mut Volume, ios: &[MemberIo]) {
    ios.iter().for_each(|io| _ = volume.complete(io.id, Ok(()), Nanos::ZERO));
}

/// Completes these I/Os and all that follow.
fn complete_all(volume: &mut Volume, mut next: Vec<MemberIo>) {
    while !next.is_empty() {
        complete(volume, &next);
        next = ios(volume);
    }
}

/// Returns true if the volume has replied to each of these requests.
fn has_replied(volume: &mut Volume, requests: &[u64]) -> bool {
    let replies: Vec<u64> =
        std::iter::from_fn(|| volume.poll_reply().map(|it| it.request.0)).collect();
    requests.iter().all(|id| replies.contains(id))
}

/// No stale map and no record tells that a member lacks a repair.
#[test]
fn a_member_that_fails_before_a_repair_of_mirrors_is_flushed_is_rebuilt_whole() {
    let [source, repaired] = [MemberIndex(0), MemberIndex(1)];
    let repair = (RequestKind::Repair(source), 0, 4096);
    let lacks_repairs = |volume: &mut Volume| {
        assert!(volume.fail_on_request(repaired));
        let labels = ios(volume);
        complete_all(volume, labels);
        volume.label().expect("it has labels").members[repaired.get()].lacks_repairs
    };
    let started = || {
        let mut volume = volume_of(new_label(Profile::Raid1, 2, 11 * MIB, false), Vec::new());
        volume.submit(request(1, repair));
        loop {
            let next = ios(&mut volume);
            match next.iter().any(|io| io.purpose == Purpose::Metadata) {
                true => complete(&mut volume, &next),
                false => return (volume, next),
            }
        }
    };
    // While the block is read.
    let (mut volume, read) = started();
    assert_eq!((read.len(), read[0].op, read[0].member), (1, Op::Read, source));
    assert!(lacks_repairs(&mut volume));
    // Written, and not flushed.
    let (mut volume, read) = started();
    complete_all(&mut volume, read);
    assert!(has_replied(&mut volume, &[1]));
    assert!(lacks_repairs(&mut volume));
    // The same, and it is gone.
    let (mut volume, read) = started();
    complete_all(&mut volume, read);
    volume.submit(request(2, (RequestKind::Write, 0, 4096)));
    loop {
        let next = ios(&mut volume);
        let (own, rest): (Vec<_>, Vec<_>) =
            next.into_iter().partition(|io| io.member == repaired && io.purpose == Purpose::User);
        complete(&mut volume, &rest);
        if let [io] = own[..] {
            volume.complete(io.id, Err(IoError::Gone), Nanos::ZERO);
            break;
        }
    }
    assert!(lacks_repairs(&mut volume));
    // Flushed.
    let (mut volume, read) = started();
    complete_all(&mut volume, read);
    while let Some(now) = volume.poll_timeout() {
        volume.on_timeout(now);
        while let Some(io) = volume.poll_io(now) {
            volume.complete(io.id, Ok(()), now);
        }
    }
    assert!(!lacks_repairs(&mut volume));
}

/// A write waits for space in the log, and the resync that makes it does not wait behind the write:
/// the regions that it repairs are in the log.
#[test]
fn a_resync_repairs_blocks_though_the_log_is_full() {
    let full: Vec<u32> = (0..DIRTY_REGIONS_MAX as u32).collect();
    let behind = DIRTY_REGIONS_MAX as u64 * REGION_BYTES;
    let size_bytes = behind + (1 << 30);
    let mut volume = volume_of(new_label(Profile::Raid1c3, 3, size_bytes, true), full);
    volume.set_member_state(MemberIndex(2), MemberState::Failed);
    let [write, resync] = [1, 2].map(RequestId);
    let with = |id, kind, offset, length| Request {
        id,
        kind,
        offset,
        length,
        stream: 0,
        cpu: 0,
        background: false,
    };
    volume.submit_write(with(write, RequestKind::Write, behind, 4096), Box::new([1]));
    volume.submit(with(resync, RequestKind::Resync, 0, REGION_BYTES));
    let mut repaired_bytes = 0;
    while let Some(io) = volume.poll_io(Nanos::ZERO) {
        match (io.op, io.purpose) {
            (Op::Read, Purpose::Metadata) => {
                volume.on_metadata_read(io.id, &vec![0; io.length as usize]);
            }
            (Op::Read, _) if volume.is_compared(io.id) => {
                let data = vec![io.member.0 as u8; io.length as usize];
                let checksummer = volume.checksummer().expect("it has checksums");
                let digests = checksummer.digests(io.volume_offset, &data).collect();
                volume.compare(io.id, digests);
            }
            (Op::Write, Purpose::Repair | Purpose::Rebuild) => repaired_bytes += io.length,
            _ => {}
        }
        volume.complete(io.id, Ok(()), Nanos::ZERO);
    }
    assert_eq!(repaired_bytes, REGION_BYTES);
    assert_eq!(volume.poll_reply().map(|it| (it.request, it.result)), Some((resync, Ok(()))));
}
