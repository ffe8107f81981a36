//! Choice among some of the mirrors only.
//!
//! To the policy, the others are missing copies: `btrfs/round-robin`, for example, gives their turn
//! to the lowest stripe that is left.

use crate::member::Members;
use crate::policies::MIRRORS_MAX;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

/// Returns what `inner` chooses among the mirrors that are `allowed`, or among all if none is. As
/// in the volume, the policy is not called if only one is left.
pub(super) fn choose_among(
    inner: &mut dyn ReadPolicy,
    read: &Read,
    mirrors: &[Mirror],
    members: &Members,
    ctx: &mut Ctx<'_>,
    allowed: impl Fn(&Mirror) -> bool,
) -> Choice {
    let mut list = [mirrors[0]; MIRRORS_MAX];
    let mut places = [0; MIRRORS_MAX];
    let mut count = 0;
    for (place, mirror) in mirrors.iter().enumerate().filter(|(_, mirror)| allowed(mirror)) {
        (list[count], places[count]) = (*mirror, place);
        count += 1;
    }
    match count {
        0 => inner.choose(read, mirrors, members, ctx),
        1 => Choice::Mirror(places[0]),
        _ if count == mirrors.len() => inner.choose(read, mirrors, members, ctx),
        _ => inner.choose(read, &list[..count], members, ctx).translated(|place| places[place]),
    }
}
