//! Choice among some of the mirrors, or of the columns of a full stripe, only.
//!
//! To the policy, the others are missing copies: `btrfs/round-robin`, for example, gives their turn
//! to the lowest stripe that is left.

use crate::column_set::ColumnSet;
use crate::policies::MIRRORS_MAX;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy, StripeRead};

/// Returns what `inner` chooses among the mirrors that are `allowed`, or among all if none is. As
/// in the volume, the policy is not called if only one is left.
pub(super) fn choose_among(
    inner: &mut dyn ReadPolicy,
    read: &Read,
    mirrors: &[Mirror],
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
        0 => inner.choose(read, mirrors, ctx),
        1 => Choice::Mirror(places[0]),
        _ if count == mirrors.len() => inner.choose(read, mirrors, ctx),
        _ => inner.choose(read, &list[..count], ctx).translated(|place| places[place]),
    }
}

/// Leaves out the columns that are not `allowed`, as many as there are to spare, and what `inner`
/// leaves out of the others.
pub(super) fn leave_out_others(
    inner: &mut dyn ReadPolicy,
    read: &StripeRead,
    columns: &[Mirror],
    ctx: &mut Ctx<'_>,
    allowed: impl Fn(&Mirror) -> bool,
) -> ColumnSet {
    let is_excluded = |column: &u8| !allowed(&columns[usize::from(*column)]);
    let excluded = ColumnSet::of(read.eligible.iter().filter(is_excluded).take(read.spare));
    let spare = read.spare - excluded.count();
    if spare == 0 || !inner.reconstructs() {
        return excluded;
    }
    let narrowed = StripeRead { eligible: read.eligible.without(excluded), spare, ..*read };
    excluded.or(inner.leave_out(&narrowed, columns, ctx))
}
