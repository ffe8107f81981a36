//! The scrub of a volume.

use super::{RateLimit, request};
use crate::client::{Action, Client, ClientRequest, EndedRequest, RequestEnd};
use mirrorball_core::geometry::ChunkMap;
use mirrorball_core::io::RequestKind;
use mirrorball_core::units::{KIB, Nanos};
use std::ops::Range;

/// Reads every copy of the volume from start to end, repeatedly. With parity, each request is of
/// whole full stripes, because the volume compares a full stripe for any part of it.
pub(crate) struct ScrubClient {
    zones: Vec<Zone>,
    /// Index of the zone of the next request, and the offset of the request.
    next: (usize, u64),
    rate_limit: RateLimit,
    in_flight: u32,
}

/// A part of the volume that is scrubbed in equal steps.
struct Zone {
    range: Range<u64>,
    step_bytes: u64,
}

/// btrfs scrubs stripes of 64 KiB, eight to a group, two groups at a time.
const SCRUB_BYTES: u64 = 512 * KIB;
const SCRUB_DEPTH: u32 = 2;

impl ScrubClient {
    /// Scrubs a volume, from this many percent of it on.
    pub(crate) fn new(map: &ChunkMap, from_percent: u8, rate_limit: RateLimit) -> ScrubClient {
        let zones = zones(map);
        let first = map.capacity_bytes() / 100 * u64::from(from_percent);
        let index = zones.partition_point(|zone| zone.range.end <= first);
        let Zone { range, step_bytes } = &zones[index];
        let next = (index, first - (first - range.start) % step_bytes);
        ScrubClient { zones, next, rate_limit, in_flight: 0 }
    }
}

/// The zones of a volume, in order and without gaps.
fn zones(map: &ChunkMap) -> Vec<Zone> {
    let mut zones: Vec<Zone> = Vec::new();
    for chunk in map.chunks() {
        let stripe = map.full_stripe(chunk.volume_offset).map_or(1, |stripe| stripe.length());
        let step_bytes = SCRUB_BYTES.next_multiple_of(stripe);
        let end = chunk.volume_offset + chunk.length;
        match zones.last_mut() {
            Some(Zone { range, step_bytes: last })
                if *last == step_bytes && (range.end - range.start).is_multiple_of(stripe) =>
            {
                range.end = end;
            }
            _ => zones.push(Zone { range: chunk.volume_offset..end, step_bytes }),
        }
    }
    zones
}

impl Client for ScrubClient {
    fn next_action(&mut self, now: Nanos) -> Action {
        if self.in_flight >= SCRUB_DEPTH {
            return Action::Wait;
        }
        let (index, offset) = self.next;
        let Zone { range, step_bytes } = &self.zones[index];
        let length = (*step_bytes).min(range.end - offset);
        if let Err(later) = self.rate_limit.take(now, length) {
            return Action::Sleep(later);
        }
        let index = if offset + length == range.end { index + 1 } else { index };
        self.next = match index == self.zones.len() {
            true => (0, 0),
            false => (index, offset + length),
        };
        self.in_flight += 1;
        Action::Submit(request(RequestKind::Scrub, offset, length))
    }

    fn on_reply(
        &mut self,
        _order: &ClientRequest,
        _ending: RequestEnd,
        _now: Nanos,
    ) -> EndedRequest {
        self.in_flight -= 1;
        EndedRequest::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_core::geometry::Profile;
    use mirrorball_core::io::{Op, Request, RequestId};
    use mirrorball_core::member::{MemberConfig, Members};
    use mirrorball_core::policies::Spec;
    use mirrorball_core::units::{GIB, MIB};
    use mirrorball_core::volume::Volume;

    /// Members of 100, 110, 120 MiB and so on.
    fn members(count: u64) -> Vec<MemberConfig> {
        (0..count).map(|index| MemberConfig::new(index + 1, (100 + 10 * index) * MIB)).collect()
    }

    fn arranged(layout: &str, count: u64) -> (ChunkMap, Vec<MemberConfig>) {
        let configs = members(count);
        (ChunkMap::arrange(layout.parse().unwrap(), &configs).unwrap(), configs)
    }

    fn allocated(profile: Profile, count: u64) -> (ChunkMap, Vec<MemberConfig>) {
        let configs = members(count);
        (ChunkMap::allocate(profile, None, &configs).unwrap(), configs)
    }

    fn pass(scrub: &mut ScrubClient, volume_bytes: u64) -> Vec<ClientRequest> {
        let (mut requests, mut bytes) = (Vec::new(), 0);
        while bytes < volume_bytes {
            let Action::Submit(request) = scrub.next_action(Nanos::ZERO) else {
                panic!("it has no rate and none of its requests is in flight")
            };
            bytes += request.length;
            requests.push(request);
            scrub.on_reply(&request, RequestEnd::Done, Nanos::ZERO);
        }
        assert_eq!(bytes, volume_bytes, "a pass ends at the end of the volume");
        requests
    }

    fn bytes_read(volume: &mut Volume, requests: &[ClientRequest]) -> u64 {
        let mut bytes = 0;
        for (id, request) in (0..).zip(requests) {
            let &ClientRequest { kind, offset, length, .. } = request;
            let id = RequestId(id);
            let (stream, cpu, background) = (0, 0, false);
            volume.submit(Request { id, kind, offset, length, stream, cpu, background });
            while let Some(io) = volume.poll_io(Nanos::ZERO) {
                assert_eq!(io.op, Op::Read);
                bytes += io.length;
                volume.complete(io.id, Ok(()), Nanos::ZERO);
            }
            assert_eq!(volume.poll_reply().map(|reply| reply.result), Some(Ok(())));
        }
        bytes
    }

    #[test]
    fn a_pass_reads_what_is_allocated_once() {
        for (map, configs) in [
            arranged("md-raid6", 5),
            arranged("md-raid6", 10),
            arranged("md-raid5", 4),
            arranged("md-raid1", 3),
            allocated(Profile::Raid5, 4),
            allocated(Profile::Raid6, 5),
            allocated(Profile::Raid10, 4),
        ] {
            let indices = Members::new(configs.clone());
            let allocated = indices.iter().map(|(index, _)| map.allocated(index));
            let allocated: u64 = allocated.map(|range| range.end - range.start).sum();
            let mut scrub = ScrubClient::new(&map, 0, RateLimit::new(None));
            let requests = pass(&mut scrub, map.capacity_bytes());
            let name = format!("{} of {}", map.layout(), configs.len());
            let policy = Spec::parse("first").unwrap();
            let policy = policy.build(&[]).unwrap();
            let mut volume = Volume::new(map, indices, policy, 1).without_data();
            assert_eq!(bytes_read(&mut volume, &requests), allocated, "{name}");
        }
    }

    /// A mirror of two members of this size.
    fn mirror(size_bytes: u64) -> ChunkMap {
        let configs = [1, 2].map(|devid| MemberConfig::new(devid, size_bytes));
        ChunkMap::arrange("gmirror".parse().unwrap(), &configs).unwrap()
    }

    #[test]
    fn the_rate_limit_is_kept() {
        let rate = 10 * MIB;
        let mut scrub = ScrubClient::new(&mirror(1024 * GIB), 0, RateLimit::new(Some(rate)));
        let (mut now, mut bytes) = (Nanos::ZERO, 0);
        while now < Nanos::from_secs(10) {
            match scrub.next_action(now) {
                Action::Submit(request) => {
                    bytes += request.length;
                    scrub.on_reply(&request, RequestEnd::Done, now);
                }
                Action::Sleep(until) => now = until,
                other => panic!("{other:?}"),
            }
        }
        assert!(bytes.abs_diff(10 * rate) <= SCRUB_BYTES, "{bytes}");
    }

    #[test]
    fn a_scrub_begins_where_it_should_and_wraps_around() {
        let map = mirror(1000 * SCRUB_BYTES);
        let mut scrub = ScrubClient::new(&map, 99, RateLimit::new(None));
        let mut offsets = Vec::new();
        for _ in 0..12 {
            let Action::Submit(request) = scrub.next_action(Nanos::ZERO) else {
                panic!("it has no rate")
            };
            scrub.on_reply(&request, RequestEnd::Done, Nanos::ZERO);
            offsets.push(request.offset / SCRUB_BYTES);
        }
        assert_eq!(offsets[..3], [989, 990, 991], "99 % of a little less");
        assert_eq!(offsets[9..], [998, 999, 0], "{offsets:?}");
    }
}
