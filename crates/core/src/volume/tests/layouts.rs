//! Rebuilds on layouts of systems other than btrfs.

use super::*;
use crate::member::MemberIndex;

/// A rebuild of a whole member writes each byte that has data once, reads it from another member,
/// and leaves what is reserved alone.
#[test]
fn a_rebuild_covers_exactly_what_a_member_holds() {
    for (layout, members) in [
        ("md-raid1", 2),
        ("md-raid10-near:2", 3),
        ("md-raid10-near:3", 4),
        ("md-raid10-far:2", 3),
        ("md-raid10-far:3", 5),
        ("md-raid10-offset:2", 3),
        ("lvm-raid1", 2),
        ("zfs-mirror:2", 4),
        ("gmirror", 3),
    ] {
        let target = MemberIndex(1);
        let map = |configs: &[MemberConfig]| ChunkMap::arrange(layout.parse().unwrap(), configs);
        let mut world = World::over(members, stale(2), map, Box::new(First));
        assert_eq!(world.result(1, RequestKind::Rebuild(target), 0, 200 * MIB), Ok(()), "{layout}");
        assert_eq!(world.volume.members()[target].state, MemberState::InSync, "{layout}");
        let written = world.handed_out.iter().filter(|io| io.op == Op::Write);
        let mut written: Vec<_> = written.map(|io| (io.member, io.offset, io.length)).collect();
        written.sort_unstable();
        let allocated = world.volume.map().allocated(target);
        let mut end = allocated.start;
        for (member, offset, length) in written {
            assert_eq!((member, offset), (target, end), "{layout}");
            end += length;
        }
        assert_eq!(end, allocated.end, "{layout}");
        let mut reads = world.handed_out.iter().filter(|io| io.op == Op::Read);
        assert!(reads.all(|io| io.member != target), "{layout}: stale data is never read");
    }
}

/// On the far layout the first half of a member is a raid0 of the volume, the second one has the
/// copies of its neighbour: rebuilt up to its half, a member serves its first copies only.
#[test]
fn a_half_rebuilt_member_of_the_far_layout_serves_its_first_copies() {
    let far =
        |configs: &[MemberConfig]| ChunkMap::arrange("md-raid10-far:2".parse().unwrap(), configs);
    let mut world = World::over(2, stale(2), far, Box::new(First));
    let target = MemberIndex(1);
    let allocated = world.volume.map().allocated(target);
    let half = (allocated.start + allocated.end) / 2;
    world.request(1, RequestKind::Rebuild(target), 0, half);
    world.settle();
    let strip = 512 << 10;
    world.handed_out.clear();
    for (id, offset) in (2..).zip([0, strip, 2 * strip, 3 * strip]) {
        world.request(id, RequestKind::Read, offset, 4096);
    }
    world.settle();
    // `First` takes the first copy; that of odd strips is on the second member.
    assert_eq!(world.members_of(Op::Read, Purpose::User), [0, 1, 0, 1]);
    let second = world.volume.map().map(0, 4096).mirrors[1];
    assert_eq!((second.member, second.offset), (target, half));
    assert!(!world.volume.members()[target].is_in_sync(second.offset, 4096));
}
