//! Properties of every drive under every workload.

use super::*;
use proptest::prelude::*;

fn any_drive() -> impl Strategy<Value = SsdParameters> {
    let flash = (1u32..20, 12u32..17, 1u64..200, prop::collection::vec(0u64..90, 1..4));
    let background = (prop::option::of(0u64..40), 0.0..1.0, 1.0..8.0, 0u64..100, 1u32..20);
    let host = (any::<bool>(), any::<bool>(), 1u32..40, prop::sample::select(vec![0, 1 << 18]));
    (flash, background, host).prop_map(|(flash, background, host)| SsdParameters {
        dies: flash.0,
        page: 1 << flash.1,
        read: Nanos::from_micros(flash.2),
        page_types: flash.3.into_iter().map(Nanos::from_micros).collect(),
        suspend: background.0.map(Nanos::from_micros),
        suspend_refused: background.1,
        write_amplification: background.2,
        copy_read: Nanos::from_micros(background.3),
        erase: Nanos::from_micros(background.3 * 30),
        collection_burst: background.4,
        power_loss_protection: host.0,
        flush_alone: host.1,
        queue_depth: host.2,
        read_ahead: host.3,
        ..plain()
    })
}

/// (Gap before it in microseconds, what, where, how many sectors).
type Arrival = (u64, u8, u64, u64);

fn any_arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    prop::collection::vec((0u64..120, 0u8..16, 0u64..64, 1u64..40), 1..150)
}

/// The I/O for an arrival; `next` makes runs of sequential ones.
fn io_for(tag: u64, arrival: &Arrival, next: &mut u64) -> DiskIo {
    let &(_, what, place, sectors) = arrival;
    let length = sectors * 4_096;
    let offset = if what % 2 == 0 { *next } else { place * 81_920 };
    let op = match what {
        0..8 => Op::Read,
        8..14 => Op::Write,
        14 => Op::Discard,
        _ => return flush(tag),
    };
    *next = offset + length;
    DiskIo { tag, op, offset, length }
}

proptest! {
    /// Each I/O ends exactly once, after its submission, in the order of time, and when
    /// `next_event` said; what was foreseen for it is what a copy left alone does.
    #[test]
    fn every_io_ends_once_in_order_and_as_foreseen(
        parameters in any_drive(),
        arrivals in any_arrivals(),
        seed in 0u64..1000,
    ) {
        let mut model = Ssd::new(&parameters, seed);
        let mut submitted: Vec<Nanos> = Vec::new();
        let mut ended: Vec<Completion> = Vec::new();
        let (mut now, mut next) = (Nanos::ZERO, 0);
        for arrival in &arrivals {
            let until = now + Nanos::from_micros(arrival.0);
            while let Some(at) = model.next_event().filter(|&at| at <= until) {
                prop_assert!(at >= now);
                let before = ended.len();
                model.advance(at, &mut ended);
                prop_assert!(ended.len() > before, "every event here is a completion");
                prop_assert!(ended[before..].iter().all(|end| end.at == at));
            }
            now = until;
            let io = io_for(submitted.len() as u64, arrival, &mut next);
            prop_assert_eq!(model.completion_if_submitted(now, io), foresee(&model, now, io));
            model.submit(now, io);
            submitted.push(now);
        }
        ended.extend(drain(&mut model));
        prop_assert!(ended.is_sorted_by_key(|end| end.at));
        let mut seen = vec![false; submitted.len()];
        for end in &ended {
            let tag = end.tag as usize;
            prop_assert!(!std::mem::replace(&mut seen[tag], true), "{} ended twice", tag);
            prop_assert!(end.at > submitted[tag]);
        }
        prop_assert!(seen.iter().all(|&seen| seen));
    }

    /// Advancing late gives the same completions.
    #[test]
    fn late_advances_change_nothing(
        parameters in any_drive(),
        arrivals in any_arrivals(),
    ) {
        // A drive whose queue is full learns late that it has room, so only a deep one agrees.
        let parameters =
            SsdParameters { queue_depth: 1024, flush_alone: false, ..parameters };
        let run = |every: usize| {
            let mut model = Ssd::new(&parameters, 1);
            let mut ended = Vec::new();
            let (mut now, mut next) = (Nanos::ZERO, 0);
            for (tag, arrival) in arrivals.iter().enumerate() {
                now += Nanos::from_micros(arrival.0);
                if tag % every == 0 {
                    model.advance(now, &mut ended);
                }
                let io = io_for(tag as u64, arrival, &mut next);
                model.submit(now, io);
            }
            ended.extend(drain(&mut model));
            ended
        };
        prop_assert_eq!(run(1), run(7));
    }
}
