//! Properties of every array: each byte is mapped once per copy and back, and the layout is that of
//! an independent allocator.

use super::*;
use crate::member::MemberConfig;
use crate::units::{GIB, MIB};
use proptest::prelude::*;
use proptest::sample::select;

/// The input of an allocation.
#[derive(Clone, Debug)]
struct Plan {
    profile: Profile,
    stripe_width_max: Option<usize>,
    members: Vec<MemberConfig>,
}

impl Plan {
    fn allocate(&self) -> Result<ChunkMap, GeometryError> {
        ChunkMap::allocate(self.profile, self.stripe_width_max, &self.members)
    }
}

/// Members of 2 MiB to 2^`octave_max` bytes, small ones as often as large ones, and some equal.
fn plans(octave_max: u32) -> impl Strategy<Value = Plan> {
    let any_size = (21..octave_max).prop_flat_map(|octave| 1u64 << octave..2 << octave);
    let size = prop_oneof![3 => any_size, 1 => Just(1 << octave_max)];
    let members = prop::collection::vec(size, 1..=8).prop_map(|sizes| {
        (1..).zip(sizes).map(|(devid, size)| MemberConfig::new(devid, size)).collect()
    });
    (select(&Profile::ALL), prop::option::of(1..10usize), members).prop_map(
        |(profile, stripe_width_max, members)| Plan { profile, stripe_width_max, members },
    )
}

/// A chunk as the naive allocator sees it.
#[derive(Debug, PartialEq)]
struct NaiveChunk {
    stripe_bytes: u64,
    members: Vec<usize>,
}

/// The published rules in their plainest form; empty if no chunk fits.
fn naive_chunks(plan: &Plan) -> Vec<NaiveChunk> {
    let (least, most, step, copies) = match plan.profile {
        Profile::Single => (1, 1, 1, 1),
        Profile::Raid0 => (1, plan.stripe_width_max.unwrap_or(1000), 1, 1),
        Profile::Raid1 => (2, 2, 2, 2),
        Profile::Raid1c3 => (3, 3, 3, 3),
        Profile::Raid1c4 => (4, 4, 4, 4),
        Profile::Raid10 => (2, plan.stripe_width_max.unwrap_or(1000) / 2 * 2, 2, 2),
        Profile::Raid5 => (2, plan.stripe_width_max.unwrap_or(1000), 1, 1),
        Profile::Raid6 => (3, plan.stripe_width_max.unwrap_or(1000), 1, 1),
    };
    let parities = match plan.profile {
        Profile::Raid5 => 1,
        Profile::Raid6 => 2,
        _ => 0,
    };
    let total: u64 = plan.members.iter().map(|member| member.size_bytes).sum();
    let chunk_limit = if total / 10 < 10 << 30 { total / 10 } else { 10 << 30 };
    let mut free: Vec<u64> =
        plan.members.iter().map(|member| member.size_bytes - (1 << 20)).collect();
    let mut chunks = Vec::new();
    loop {
        // The emptiest member, then the emptiest of the others, and so on; the first of equals.
        let mut members: Vec<usize> = Vec::new();
        while let Some(emptiest) = (0..free.len())
            .rev()
            .filter(|member| free[*member] >= 65536 && !members.contains(member))
            .max_by_key(|&member| free[member])
        {
            members.push(emptiest);
        }
        while !members.len().is_multiple_of(step) || members.len() > most {
            members.pop();
        }
        if members.len() < least {
            return chunks;
        }
        let parts = ((members.len() - parities) / copies) as u64;
        let mut stripe_bytes = 1 << 30;
        for &member in &members {
            stripe_bytes = stripe_bytes.min(free[member]);
        }
        if stripe_bytes * parts > chunk_limit {
            let mut rounded = 0;
            while rounded < chunk_limit / parts {
                rounded += 16 << 20;
            }
            stripe_bytes = stripe_bytes.min(rounded);
        }
        stripe_bytes = stripe_bytes / 65536 * 65536;
        for &member in &members {
            free[member] -= stripe_bytes;
        }
        chunks.push(NaiveChunk { stripe_bytes, members });
    }
}

proptest! {
    #[test]
    fn every_byte_is_mapped_once_per_copy_and_back(plan in plans(32)) {
        match plan.allocate() {
            Ok(map) if map.parities() > 0 => {
                parity_tests::check_every_strip(&map, plan.members.len());
            }
            Ok(map) => layout_tests::check_every_byte(&map, plan.members.len()),
            Err(_) => {}
        }
    }

    #[test]
    fn the_layout_is_that_of_the_naive_allocator(plan in plans(36)) {
        let naive = naive_chunks(&plan);
        match plan.allocate() {
            Err(_) => prop_assert!(naive.is_empty()),
            Ok(map) => {
                let data = |chunk: &NaiveChunk| chunk.members.len() - map.parities();
                let taken = naive.iter().map(|c| c.stripe_bytes * data(c) as u64);
                let capacity = taken.sum::<u64>() / map.profile().copies() as u64;
                prop_assert_eq!(map.capacity_bytes(), capacity);
                let ours: Vec<_> = map.chunks().map(|chunk| NaiveChunk {
                    stripe_bytes: chunk.stripe_bytes,
                    members: chunk.stripes.iter().map(|stripe| stripe.member.get()).collect(),
                }).collect();
                prop_assert_eq!(ours, naive);
            }
        }
    }

    /// Any byte, reached directly and not on a walk, lies where its chunk says, and the length of
    /// an extent is what was asked for, or ends where the piece ends.
    #[test]
    fn any_byte_is_found_directly(
        plan in plans(36),
        places in prop::collection::vec((any::<prop::sample::Index>(), 1..4 * MIB), 20),
    ) {
        let Ok(map) = plan.allocate() else { return Ok(()) };
        for (place, length) in places {
            let offset = place.index(map.capacity_bytes() as usize) as u64;
            let length = length.min(map.capacity_bytes() - offset);
            let extent = map.map(offset, length);
            let chunk = map.chunks().find(|c| offset < c.volume_offset + c.length).unwrap();
            let piece_end = match map.profile().is_striped() {
                true => offset / STRIP_BYTES * STRIP_BYTES + STRIP_BYTES,
                false => chunk.volume_offset + chunk.length,
            };
            prop_assert_eq!(extent.length, length.min(piece_end - offset));
            let mut stripes = chunk.stripes.iter();
            for mirror in extent.mirrors {
                // In the order of the chunk's stripes, so each is found after the one before.
                let stripe = stripes.find(|stripe| stripe.member == mirror.member);
                let within = mirror.offset - stripe.unwrap().offset;
                prop_assert!(within + extent.length <= chunk.stripe_bytes);
                let run = map.locate(mirror.member, mirror.offset).unwrap();
                prop_assert_eq!(run.volume_offset, offset);
                prop_assert_eq!(run.length, piece_end - offset);
            }
        }
    }
}

/// The index by granules steps over at most a handful of chunks, even where chunks are short.
#[test]
fn chunks_are_few_in_small_arrays() {
    for size in [2 * MIB, 20 * MIB, 200 * MIB, 2 * GIB] {
        for profile in Profile::ALL {
            let members: Vec<_> = (1..=8).map(|devid| MemberConfig::new(devid, size)).collect();
            let map = ChunkMap::allocate(profile, None, &members).unwrap();
            assert!(map.chunks().len() <= 18, "{profile} {size}: {}", map.chunks().len());
        }
    }
}
