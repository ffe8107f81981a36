//! kakra's shortest queue: the fewest reads and writes in flight at this instant.
//!
//! Source: kakra/linux PR #36. How it breaks ties is not known. Here the member chosen last serves
//! again, which keeps a stream together. If it is not among the ties, the reader's stream number
//! selects one, as in `btrfs/pid`. The lowest stripe would be a bad choice: it is the emptiest
//! member at allocation, which would get all the load of an idle array.

use crate::member::{MemberIndex, Members};
use crate::policy::{Mirror, Read};

/// Position of the candidate with the shortest queue; `previous` is the member chosen last. Panics
/// if no mirror is a candidate.
#[inline]
pub(crate) fn shortest_queue(
    read: &Read,
    mirrors: &[Mirror],
    members: &Members,
    previous: Option<MemberIndex>,
    is_candidate: impl Fn(&Mirror) -> bool,
) -> usize {
    let in_flight = |mirror: &Mirror| members[mirror.member].in_flight();
    let candidates = || mirrors.iter().enumerate().filter(|(_, mirror)| is_candidate(mirror));
    let fewest =
        candidates().map(|(_, mirror)| in_flight(mirror)).min().expect("there is a candidate");
    let equals = || candidates().filter(|(_, mirror)| in_flight(mirror) == fewest);
    let (place, _) = equals()
        .find(|(_, mirror)| Some(mirror.member) == previous)
        .or_else(|| {
            let number = equals().count() as u64;
            equals().nth((read.stream % number) as usize)
        })
        .expect("at least one candidate has the fewest in flight");
    place
}
