//! The model array over random models, and its timing over models of known answers.

use super::*;
use crate::delay::{Delay, DelayParameters};
use crate::fault::{Fault, FaultWindow, Faulty};
use crate::link::LinkParameters;
use mirrorball_core::io::{IoError, Op};
use mirrorball_core::rng::Rng;
use proptest::prelude::*;

fn delay(service_us: u64, servers: u32) -> Box<dyn Model> {
    let service = Nanos::from_micros(service_us);
    Box::new(Delay::new(DelayParameters { servers, ..DelayParameters::new(service) }))
}

fn link(rate: Option<u64>, latency: u64, jitter: u64) -> Link {
    let parameters = LinkParameters {
        name: "link".to_owned(),
        read_rate: rate,
        write_rate: rate.map(|rate| rate / 2),
        latency: Nanos(latency),
        jitter: Nanos(jitter),
    };
    Link::new(parameters, 3)
}

fn model_array(members: Vec<(Box<dyn Model>, Option<usize>)>, links: Vec<Link>) -> ModelArray {
    let members = members.into_iter().map(|(model, link)| ModelMember { model, link });
    ModelArray::new(members.collect(), links)
}

fn io(tag: u64, op: Op, length: u64) -> DiskIo {
    DiskIo { tag, op, offset: tag << 16, length }
}

/// Advances event by event to the end of everything; returns (member, tag, ns).
fn drain(model_array: &mut ModelArray) -> Vec<(u16, u64, u64)> {
    let mut ended = Vec::new();
    while let Some(now) = model_array.next_event() {
        model_array.advance(now, &mut ended);
    }
    ended.into_iter().map(|(member, c)| (member.0, c.tag, c.at.0)).collect()
}

#[test]
fn members_work_side_by_side_and_ties_go_by_member() {
    let mut model_array =
        model_array(vec![(delay(3, 1), None), (delay(1, 1), None), (delay(3, 2), None)], vec![]);
    assert_eq!(
        (model_array.len(), model_array.is_empty(), model_array.next_event()),
        (3, false, None)
    );
    for member in [2, 1, 0] {
        for tag in 0..3 {
            model_array.submit(Nanos::ZERO, MemberIndex(member), io(tag, Op::Read, 4096));
        }
    }
    assert_eq!(model_array.next_event(), Some(Nanos(1000)));
    let expected = [
        (1, 0, 1000),
        (1, 1, 2000),
        (0, 0, 3000),
        (1, 2, 3000),
        (2, 0, 3000),
        (2, 1, 3000),
        (0, 1, 6000),
        (2, 2, 6000),
        (0, 2, 9000),
    ];
    assert_eq!(drain(&mut model_array), expected);
}

/// The first of two members that are due together is the lower one, in whichever order they were
/// asked.
#[test]
fn the_earliest_of_equals_is_the_lower_member() {
    let mut model_array = model_array(vec![(delay(1, 1), None), (delay(1, 1), None)], vec![]);
    for member in [1, 0] {
        model_array.submit(Nanos::ZERO, MemberIndex(member), io(0, Op::Read, 4096));
    }
    assert_eq!(drain(&mut model_array), [(0, 0, 1000), (1, 0, 1000)]);
}

#[test]
#[should_panic(expected = "advance to 1.00us before 1.50us")]
fn a_submission_past_an_event_is_a_bug() {
    let mut model_array = model_array(vec![(delay(1, 1), None)], vec![]);
    model_array.submit(Nanos::ZERO, MemberIndex(0), io(0, Op::Read, 1));
    model_array.submit(Nanos(1500), MemberIndex(0), io(1, Op::Read, 1));
}

/// Reads cross after the disk, writes before it; both pay the latency on either way.
#[test]
fn a_link_is_crossed_on_the_right_side_of_the_disk() {
    // 100,000 bytes: 1 ms towards the host, 2 ms towards the disk.
    for (op, expected_us) in [(Op::Read, 7 + 500 + 1000 + 7), (Op::Write, 2000 + 7 + 500 + 7)] {
        let slow_link = link(Some(100_000_000), 7_000, 0);
        let mut model_array = model_array(vec![(delay(500, 1), Some(0))], vec![slow_link]);
        let io = io(0, op, 100_000);
        let foreseen = model_array.completion_if_submitted(Nanos::ZERO, MemberIndex(0), io);
        model_array.submit(Nanos::ZERO, MemberIndex(0), io);
        assert_eq!(drain(&mut model_array), [(0, 0, expected_us * 1000)]);
        assert_eq!(foreseen.0, expected_us * 1000);
    }
}

/// Writes of 2 ms on the link before a disk of 1 ms, read back over 7 us each way.
#[test]
fn an_io_is_taken_back_on_its_way_there_or_in_the_disk_but_not_on_its_way_back() {
    let slow_link = link(Some(100_000_000), 7_000, 0);
    let mut model_array = model_array(vec![(delay(1000, 1), Some(0))], vec![slow_link]);
    let member = MemberIndex(0);
    for tag in 0..2 {
        model_array.submit(Nanos::ZERO, member, io(tag, Op::Write, 100_000));
    }
    model_array.submit(Nanos::ZERO, member, io(2, Op::Read, 4096));
    model_array.submit(Nanos::ZERO, member, io(3, Op::Read, 4096));
    let mut ended = Vec::new();
    model_array.advance(Nanos(100_000), &mut ended);
    let now = Nanos(100_000);
    // The reads are in the disk, the first begun; the writes are on the link.
    assert_eq!([2, 3, 0].map(|tag| model_array.cancel(now, member, tag)), [false, true, true]);
    // A tag that is free again means its new owner, there as well.
    model_array.submit(now, member, io(3, Op::Read, 4096));
    model_array.advance(Nanos(200_000), &mut ended);
    assert!(model_array.cancel(Nanos(200_000), member, 3));
    let back = Nanos(1_010_000);
    model_array.advance(back, &mut ended);
    assert!(ended.is_empty() && !model_array.cancel(back, member, 2), "it is on its way back");
    // The second write comes when it would have: the link has carried the first for nothing.
    let read_end = 7_000 + 1_000_000 + 40_960 + 7_000;
    let write_end = 4_000_000 + 7_000 + 1_000_000 + 7_000;
    assert_eq!(drain(&mut model_array), [(0, 2, read_end), (0, 1, write_end)]);
}

/// Four disks that could do 100 MB/s each share 200 MB/s.
#[test]
fn a_link_caps_what_its_members_do_together() {
    let parameters =
        DelayParameters { bandwidth: Some(100_000_000), ..DelayParameters::new(Nanos::ZERO) };
    let disk = || -> Box<dyn Model> { Box::new(Delay::new(parameters.clone())) };
    let members = (0..4).map(|_| (disk(), Some(0))).collect();
    let mut model_array = model_array(members, vec![link(Some(200_000_000), 0, 0)]);
    for tag in 0..100 {
        for member in 0..4 {
            model_array.submit(Nanos::ZERO, MemberIndex(member), io(tag, Op::Read, 1_000_000));
        }
    }
    let ended = drain(&mut model_array);
    // 400 MB at 200 MB/s, after the 10 ms that the first megabyte takes on its disk.
    assert_eq!(ended.last().unwrap().2, 2_010_000_000);
    let of_each = |member| ended[..200].iter().filter(|ended| ended.0 == member).count();
    assert_eq!([0, 1, 2, 3].map(of_each), [50; 4], "first ready, first served");
}

/// A failed read has no data to bring, and a dead disk answers through its link.
#[test]
fn failures_cross_the_link_without_data() {
    let dead = Fault::Dead { during: FaultWindow::ALWAYS };
    let model = Box::new(Faulty::new(delay(500, 1), &[dead], 1));
    let mut model_array = model_array(vec![(model, Some(0))], vec![link(Some(1_000), 10, 0)]);
    model_array.submit(Nanos::ZERO, MemberIndex(0), io(0, Op::Read, 1 << 20));
    let mut ended = Vec::new();
    model_array.advance(Nanos(1_000), &mut ended);
    let completion = Completion { tag: 0, at: Nanos(20), result: Err(IoError::Gone) };
    assert_eq!(ended, [(MemberIndex(0), completion)]);
}

/// A member drawn from a seed: a delay, perhaps faulty, perhaps behind a link.
fn random_member(rng: &mut Rng, links: u64) -> (Box<dyn Model>, Option<usize>) {
    let mut parameters = DelayParameters::new(Nanos(rng.below(50_000)));
    parameters.servers = 1 + rng.below(4) as u32;
    parameters.bandwidth = (rng.below(2) == 0).then(|| 1_000_000 + rng.below(1_000_000_000));
    let mut model: Box<dyn Model> = Box::new(Delay::new(parameters));
    if rng.below(2) == 0 {
        let from = Nanos(rng.below(2_000_000));
        let during = FaultWindow { from, until: from + Nanos(rng.below(1_000_000)) };
        let faults = [
            Fault::Slow { factor_milli: 1000 + rng.below(9000), during },
            Fault::Stall { at: Nanos(rng.below(2_000_000)), length: Nanos(rng.below(500_000)) },
            Fault::Errors { rate: 0.1, during },
            Fault::Bad { offset: 0, length: 1 << 20 },
            Fault::Dead { during },
        ];
        let chosen: Vec<Fault> = faults.into_iter().filter(|_| rng.below(2) == 0).collect();
        model = Box::new(Faulty::new(model, &chosen, rng.next_u64()));
    }
    let link = rng.below(links + 1).checked_sub(1).map(|link| link as usize);
    (model, link)
}

fn random_bank(rng: &mut Rng) -> ModelArray {
    let links: Vec<Link> = (0..rng.below(3))
        .map(|_| {
            let rate = (rng.below(2) == 0).then(|| 1_000_000 + rng.below(500_000_000));
            link(rate, rng.below(20_000), rng.below(2) * rng.below(5_000))
        })
        .collect();
    let count = 1 + rng.below(5);
    let members = (0..count).map(|_| random_member(rng, links.len() as u64)).collect();
    model_array(members, links)
}

fn random_io(rng: &mut Rng, tag: u64) -> DiskIo {
    let op = [Op::Read, Op::Read, Op::Write, Op::Flush, Op::Discard][rng.below(5) as usize];
    let length = if op == Op::Flush { 0 } else { 4096 * (1 + rng.below(32)) };
    DiskIo { tag, op, offset: 4096 * rng.below(1 << 18), length }
}

proptest! {
    /// Everything completes exactly once, not before its submission, in order of time with ties in
    /// the order of members, whether the model array is advanced event by event or in leaps; and a
    /// second run gives the same.
    #[test]
    fn everything_completes_once_and_in_order(seed: u64, leaping: bool) {
        let run = || {
            let mut rng = Rng::new(seed);
            let mut model_array = random_bank(&mut rng);
            let mut submitted = Vec::new();
            let mut ended = Vec::new();
            let mut now = Nanos::ZERO;
            for tag in 0..300 {
                now += Nanos(rng.below(2) * rng.below(30_000));
                while let Some(event) = model_array.next_event().filter(|&event| event <= now) {
                    let before = ended.len();
                    model_array.advance(if leaping { now } else { event }, &mut ended);
                    let order = |(member, completion): &(MemberIndex, Completion)| {
                        (completion.at, *member)
                    };
                    assert!(ended[before..].is_sorted_by_key(order));
                }
                let member = MemberIndex(rng.below(model_array.len() as u64) as u16);
                model_array.submit(now, member, random_io(&mut rng, tag));
                submitted.push((member, now));
            }
            while let Some(event) = model_array.next_event() {
                model_array.advance(event, &mut ended);
            }
            (submitted, ended)
        };
        let (submitted, ended) = run();
        prop_assert_eq!(&run().1, &ended);
        prop_assert_eq!(ended.len(), submitted.len());
        let mut seen = vec![false; submitted.len()];
        for (member, completion) in &ended {
            let tag = completion.tag as usize;
            prop_assert!(!seen[tag]);
            seen[tag] = true;
            prop_assert_eq!(*member, submitted[tag].0);
            prop_assert!(completion.at >= submitted[tag].1);
        }
        prop_assert!(ended.is_sorted_by_key(|(_, completion)| completion.at));
    }

    /// A cancelled I/O never completes and all else does, once; the model array's accounting of
    /// what comes next are those of its members.
    #[test]
    fn what_is_taken_back_never_completes(seed: u64) {
        let mut rng = Rng::new(seed);
        let mut model_array = random_bank(&mut rng);
        let (mut now, mut ended, mut open) = (Nanos::ZERO, Vec::new(), Vec::new());
        for tag in 0..200 {
            now += Nanos(rng.below(2) * rng.below(30_000));
            let before = ended.len();
            model_array.advance(now, &mut ended);
            for (member, end) in &ended[before..] {
                let place = open.iter().position(|&io| io == (*member, end.tag));
                prop_assert!(place.is_some(), "{} of {member:?} was not in flight", end.tag);
                open.swap_remove(place.unwrap());
            }
            let member = MemberIndex(rng.below(model_array.len() as u64) as u16);
            model_array.submit(now, member, random_io(&mut rng, tag));
            open.push((member, tag));
            if rng.below(2) == 0 {
                let place = rng.below(open.len() as u64) as usize;
                let (member, tag) = open[place];
                if model_array.cancel(now, member, tag) {
                    open.swap_remove(place);
                    prop_assert!(!model_array.cancel(now, member, tag), "gone is gone");
                }
            }
            let slots = model_array.members.iter();
            let events: Vec<Nanos> = slots.map(ModelSlot::next_event).collect();
            let first = find_earliest(&events);
            prop_assert_eq!(&model_array.events, &events);
            prop_assert_eq!(model_array.earliest.at, first.at);
            prop_assert!(first.at == Nanos::MAX || model_array.earliest.member == first.member);
        }
        let left = drain(&mut model_array).len();
        prop_assert_eq!(left, open.len());
    }

    /// With nothing else on its way, an I/O completes when it was foreseen to, links, faults and
    /// chance included; behind other I/O on a member without a link, too.
    #[test]
    fn foresight_is_what_happens(seed: u64) {
        let mut rng = Rng::new(seed);
        let mut model_array = random_bank(&mut rng);
        let mut ended = Vec::new();
        let mut now = Nanos::ZERO;
        for tag in 0..50 {
            now += Nanos(rng.below(100_000));
            model_array.advance(now, &mut ended);
            let member = MemberIndex(rng.below(model_array.len() as u64) as u16);
            for filler in 1..=rng.below(8) {
                if model_array.members[member.get()].path.is_none() {
                    model_array.submit(now, member, random_io(&mut rng, (tag << 8) + filler));
                }
            }
            let io = random_io(&mut rng, tag << 8);
            let foreseen = model_array.completion_if_submitted(now, member, io);
            model_array.submit(now, member, io);
            ended.clear();
            while let Some(event) = model_array.next_event() {
                model_array.advance(event, &mut ended);
                now = event;
            }
            let happened = ended.iter().find(|(_, completion)| completion.tag == io.tag);
            let (_, completion) = happened.expect("it completes");
            // A read that fails brings no data back, which foresight cannot tell.
            let failed_behind_link =
                completion.result.is_err() && model_array.members[member.get()].path.is_some();
            if completion.result == Err(IoError::Gone) {
                prop_assert_eq!(foreseen, Nanos::MAX, "who dies is not to be asked");
            } else if failed_behind_link {
                prop_assert!(completion.at <= foreseen);
            } else {
                prop_assert_eq!(completion.at, foreseen);
            }
        }
    }
}

#[test]
fn an_impact_is_the_own_end_and_the_time_that_the_member_is_busy_for_longer() {
    let mut model_array = model_array(vec![(delay(3, 1), None), (delay(3, 2), None)], vec![]);
    for member in [0, 1] {
        (0..3).for_each(|tag| {
            model_array.submit(Nanos::ZERO, MemberIndex(member), io(tag, Op::Read, 4096));
        });
    }
    let impact = |member| {
        model_array.impact_if_submitted(Nanos(500), MemberIndex(member), io(9, Op::Read, 4096))
    };
    assert_eq!(impact(0), Impact { completion: Nanos(12_000), added: Nanos(3000) });
    // Two servers, three reads: the second round has a server to spare.
    assert_eq!(impact(1), Impact { completion: Nanos(6000), added: Nanos::ZERO });
    assert_eq!(drain(&mut model_array).len(), 6, "copies ran, not the members");
}

#[test]
fn an_impact_ends_when_the_completion_is_foreseen() {
    for profile in crate::profile::ModelProfile::builtins() {
        let mut model_array = model_array(vec![(profile.build(3), None)], vec![]);
        for tag in 0..20 {
            let op = if tag % 4 == 0 { Op::Write } else { Op::Read };
            model_array.submit(Nanos::ZERO, MemberIndex(0), io(tag * 977 % 64, op, 4096));
        }
        for tag in [100, 500, 1000] {
            let (member, io) = (MemberIndex(0), io(tag, Op::Read, 65_536));
            let impact = model_array.impact_if_submitted(Nanos::ZERO, member, io);
            let foreseen = model_array.completion_if_submitted(Nanos::ZERO, member, io);
            assert_eq!(impact.completion, foreseen, "{}", profile.name);
        }
    }
    let dead = Faulty::new(delay(3, 1), &[Fault::Dead { during: FaultWindow::ALWAYS }], 1);
    let model_array = model_array(vec![(Box::new(dead), None)], vec![]);
    let impact = model_array.impact_if_submitted(Nanos(5), MemberIndex(0), io(1, Op::Read, 4096));
    assert_eq!(impact.completion, Nanos::MAX);
}
