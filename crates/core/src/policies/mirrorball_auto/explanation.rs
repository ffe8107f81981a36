//! The costs by which a choice would be made now, for people.

use super::member_model::{MemberModels, Observed, ReadContext};
use super::runs::RunTable;
use crate::member::Members;
use crate::policy::{Mirror, MirrorScore, Read};
use crate::units::Nanos;

pub(super) fn scores(
    models: &MemberModels,
    runs: &RunTable,
    read: &Read,
    mirrors: &[Mirror],
    members: &Members,
    now: Nanos,
) -> Vec<MirrorScore> {
    let run = runs.peek(read, mirrors, now);
    let load = |mirror: &Mirror| models.of(mirror).cost.load_of(&members[mirror.member]);
    let writes_least = mirrors.iter().map(|mirror| load(mirror).writes).min().unwrap_or(0);
    let has_disk = mirrors.iter().any(|mirror| models.of(mirror).cost.is_disk);
    let seen = Observed { writes_least, has_disk, ..Observed::default() };
    let stream = models.deciding(read);
    let context = ReadContext { stream, ..ReadContext::new(&run, read, &seen, now) };
    let dedicated = models.dedicated_disk(&run, read, mirrors, now);
    let strip = models.disk_of_strip(mirrors, &run, now);
    let reason = |(place, mirror): (usize, &Mirror)| {
        if dedicated == Some(place) {
            return MirrorScore::new("cost_ns", 0).with("dedicated_disk", 1);
        }
        if dedicated.is_none() && strip == Some(place) {
            return MirrorScore::new("cost_ns", 0).with("strip_of_request", 1);
        }
        models.cost(mirror, load(mirror), &context).reason()
    };
    mirrors.iter().enumerate().map(reason).collect()
}
